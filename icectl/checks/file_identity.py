"""Decide whether a data or delete file is the one that its manifest entry describes.

A swapped file is intact, but has other rows. A data file is compared by bytes (size, row groups,
column sizes), partition, counts and bounds of each column. One difference may be a mistake of
a writer; two differences mean another file. Tools that move tables rewrite delete files and keep
the sizes in their entries. For delete files, one difference in counts or bounds is enough.
A different row count alone always means another file.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from icectl.entries.rows import E, by_row
from icectl.entries.stats import flat
from icectl.errors import CorruptTable, OtherFile
from icectl.files.parquet.data_file import OnlyChunks
from icectl.files.parquet.metrics import FileMetrics
from icectl.files.parquet.schema import arrow_type
from icectl.format import single_value
from icectl.format.manifest import Content
from icectl.format.types import (
    GeographyType,
    GeometryType,
    NestedField,
    PrimitiveType,
    StructType,
    is_nested,
)

STATED = frozenset(
    {
        "location", "record_count", "file_size_in_bytes", "split_offsets", "column_sizes",
        "value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds",
    }
)  # fmt: skip
"""The columns that `stated_files` takes files from."""

RESTORE_IT = (
    "restore it from a copy, or roll back to a snapshot from before it was added; "
    "`icectl validate TABLE --level data` names all such files"
)

MOST_COLUMNS = 16
"""Columns of a file that are compared: a table may have thousands."""

_MAPS = (
    "column_sizes", "value_counts", "null_value_counts", "nan_value_counts", "lower_bounds",
    "upper_bounds",
)  # fmt: skip


_TELLING = {
    "value_counts": "{:,} values",
    "null_value_counts": "{:,} nulls",
    "lower_bounds": "lower bound 0x{}",
}
"""Metrics that all entries of a file agree on, and how they are said."""


@dataclass(frozen=True, slots=True)
class StatedFile:
    """A file as its manifest entry states it, of the first of its top-level `columns`.

    Of variants and shapes too, at any depth of structs: new files get bounds joined of theirs.
    """

    size_bytes: int
    metrics: FileMetrics
    columns: tuple[NestedField, ...] = ()
    has_deletes: bool = False


def stated_files(entries: E, columns: Sequence[NestedField]) -> Iterator[tuple[str, StatedFile]]:
    """Yield the location of each entry, and what it states of the columns; entries have STATED."""
    flat_columns = [item for item in columns if not is_nested(item.type)]
    compared: tuple[NestedField, ...] = tuple(flat_columns[:MOST_COLUMNS])
    ids = np.array([*(item.id for item in compared), *_joined_ids(columns)], np.int32)
    maps = {name: _of_columns(entries, name, ids) for name in _MAPS}
    names = ("location", "content", "record_count", "file_size_in_bytes", "split_offsets")
    for row, (location, content, count, size_bytes, offsets) in enumerate(by_row(entries, *names)):
        stated: dict[str, Any] = {name: of_files[row] for name, of_files in maps.items()}
        metrics = FileMetrics(count, **stated, split_offsets=tuple(offsets or ()))
        yield location, StatedFile(size_bytes, metrics, compared, content != Content.DATA)


def _joined_ids(columns: Sequence[NestedField]) -> Iterator[int]:
    """Yield the ids of columns whose bounds those of new files are joined of."""
    for item in columns:
        if item.type == PrimitiveType("variant") or isinstance(
            item.type, GeometryType | GeographyType
        ):
            yield item.id
        elif isinstance(item.type, StructType):
            yield from _joined_ids(item.type.fields)


def _of_columns(entries: E, name: str, ids: npt.NDArray[np.int32]) -> list[dict[int, Any]]:
    """Return a metrics map of each entry, with some of its keys."""
    stated: list[dict[int, Any]] = [{} for _ in range(len(entries))]
    pairs = flat(entries, name)
    chosen = pairs.take(pa.array(np.flatnonzero(np.isin(pairs["field_id"].to_numpy(), ids))))
    for row, id_, value in zip(*(column.to_pylist() for column in chosen.columns), strict=True):
        stated[row][id_] = value
    return stated


def is_just_as_stated(
    stated: StatedFile,
    size_bytes: int,
    facts: OnlyChunks,
    split_offsets: tuple[int, ...],
) -> bool:
    """Return whether nothing in the footer of a Parquet file differs from its entry, at a glance.

    What has to be decoded to be compared, check_own_file compares.
    """
    metrics = stated.metrics
    offsets = metrics.split_offsets
    if stated.size_bytes != size_bytes or (offsets and offsets != split_offsets):
        return False
    for column in stated.columns:
        if column.id not in facts:
            continue
        kind, found = facts[column.id]
        if kind != arrow_type(column.type):
            return False
        counts = (
            (metrics.value_counts, found.value_count),
            (metrics.null_value_counts, found.null_count),
            (metrics.column_sizes, found.size_bytes),
        )
        if any(None is not count != of.get(column.id, count) for of, count in counts):
            return False
        least, greatest = found.lower, found.upper
        if least is None or greatest is None:
            if found.null_count != found.value_count:  # there may be bounds in an older way
                return False
            continue
        lower, upper = metrics.lower_bounds.get(column.id), metrics.upper_bounds.get(column.id)
        if lower is None or upper is None or (lower, upper) == (least, greatest):
            continue
        is_inside = kind in (pa.string(), pa.binary()) and lower <= least and greatest <= upper
        if not is_inside:
            return False
    return True


def check_own_file(
    location: str, stated: StatedFile, size_bytes: int, metrics: FileMetrics, signs: Sequence[str]
) -> None:
    """Do nothing where a file may be the one that its entry states; `signs` are others against it.

    Raises: OtherFile R-063.
    """
    differences = [*signs, *_mismatched_count(stated, metrics, "value_counts", "values")]
    differences += _mismatched_count(stated, metrics, "null_value_counts", "nulls")
    differences += [
        f"values of `{column.name}` are outside of its bounds"
        for column in stated.columns
        if is_outside(column, stated.metrics, metrics)
    ]
    other_bytes = []
    if stated.size_bytes != size_bytes:
        other_bytes.append(f"it has {size_bytes:,} bytes, not {stated.size_bytes:,}")
    offsets = stated.metrics.split_offsets
    if offsets and metrics.split_offsets and offsets != metrics.split_offsets:
        other_bytes.append("its row groups begin at other bytes")
    other_bytes += _mismatched_count(stated, metrics, "column_sizes", "bytes")
    if other_bytes and not stated.has_deletes:
        differences.append(", ".join(other_bytes))
    if len(differences) > 1 or (differences and stated.has_deletes):
        message = (
            f"{location} is not the file that the manifest describes: {'; '.join(differences)}"
        )
        raise OtherFile(message, rule="R-063", hint=RESTORE_IT)


def contradiction(one: StatedFile, other: StatedFile) -> tuple[str, str] | None:
    """Return what two entries say that can't be of one file; None if all of it can.

    Writers may cut bounds, give zeros another sign, order uuids in their own way, drop metrics, and
    give position deletes other bytes.
    """
    kinds = ["deletes" if each.has_deletes else "data" for each in (one, other)]
    pairs: list[tuple[str, Any, Any]] = [
        ("{}", kinds[0], kinds[1]),
        ("{:,} rows", one.metrics.record_count, other.metrics.record_count),
    ]
    if not one.has_deletes:
        pairs.append(("{:,} bytes", one.size_bytes, other.size_bytes))
    for column in one.columns:
        for name, what in _TELLING.items():
            first, second = (getattr(each.metrics, name).get(column.id) for each in (one, other))
            if isinstance(first, bytes) and isinstance(second, bytes):
                differ = _are_of_two_files(column, first, second)
                first, second = (first.hex(), second.hex()) if differ else (None, None)
            if None not in (first, second):
                pairs.append((f"{what} of `{column.name}`", first, second))
    for what, first, second in pairs:
        if first != second:
            return what.format(first), what.format(second)
    return None


def _are_of_two_files(column: NestedField, one: bytes, other: bytes) -> bool:
    """Return whether lower bounds of a column can't be of one file."""
    if one == other or len(one) != len(other) or column.type == PrimitiveType("uuid"):
        return False
    try:
        first, second = (single_value.decode(column.type, bound) for bound in (one, other))
        return bool(first < second or first > second)  # NaN is neither
    except (CorruptTable, ValueError, TypeError):
        return True


def _mismatched_count(
    stated: StatedFile, metrics: FileMetrics, name: str, unit: str
) -> Iterator[str]:
    """Yield the first column of which a file has another count, if there is one."""
    expected: Mapping[int, int] = getattr(stated.metrics, name)
    counted: Mapping[int, int] = getattr(metrics, name)
    for column in stated.columns:
        stated_count, count = expected.get(column.id), counted.get(column.id)
        if stated_count is not None and count is not None and stated_count != count:
            yield f"`{column.name}` has {count:,} {unit}, not {stated_count:,}"
            return


def is_outside(column: NestedField, stated: FileMetrics, metrics: FileMetrics) -> bool:
    """Return whether values of a column are outside of bounds, for sure.

    Files may cut their own bounds of texts, the least to a part of it and the greatest to more.
    """
    sides = (side for of in (stated, metrics) for side in (of.lower_bounds, of.upper_bounds))
    bounds = [side.get(column.id) for side in sides]
    if bounds[:2] == bounds[2:] or None in bounds:
        return False
    try:
        lower, upper, least, greatest = (
            single_value.decode(column.type, bound) for bound in bounds if bound is not None
        )
        if column.type == PrimitiveType("uuid"):
            return False  # writers do not agree on the order of uuids
        if column.id in metrics.exact_bounds:
            return bool(least < lower or greatest > upper)
        is_cut = isinstance(least, (str, bytes)) and lower.startswith(least)
        return bool(least > upper or greatest < lower or (least < lower and not is_cut))
    except (CorruptTable, ValueError, TypeError):
        return False
