"""Searches for entries of a manifest that break a rule: whole columns at a time.

Each search gives how many entries it found and where the first of them lies, or None.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from icectl.entries.rows import RawEntries
from icectl.entries.stats import flat
from icectl.spec.manifest import Content, FileFormat, ManifestContent, Status

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Fault:
    """Entries that have the same thing wrong: how many, and the location of the first."""

    count: int
    location: str


def of_other_content(rows: RawEntries, content: ManifestContent) -> Fault | None:
    """Entries of data in a manifest of deletes, or the other way round (R-061)."""
    is_data = _numbers(rows, "content") == Content.DATA
    return _found(rows, ~is_data if content is ManifestContent.DATA else is_data)


def without_sequence_number(rows: RawEntries, column: str, *statuses: Status) -> Fault | None:
    """Entries of some statuses that should carry a sequence number and do not (R-043)."""
    return _found(rows, _is(rows, "status", *statuses) & _null(rows, column))


def with_value(rows: RawEntries, column: str) -> Fault | None:
    """Entries with a value in a column that their version does not have."""
    return _found(rows, ~_null(rows, column))


def without_value(rows: RawEntries, column: str) -> Fault | None:
    """Entries without a value in a column."""
    return _found(rows, _null(rows, column))


def with_negative(rows: RawEntries, column: str) -> Fault | None:
    """Entries with a number below zero."""
    return _found(rows, _numbers(rows, column) < 0)


def of_unknown_format(rows: RawEntries) -> Fault | None:
    """Entries of a file format that there is not (R-063)."""
    return _found(rows, _is(rows, "file_format", FileFormat.UNKNOWN))


def incomplete_vectors(rows: RawEntries) -> Fault | None:
    """Deletion vectors that do not say which file they are for, or where they lie (R-118)."""
    names = ("referenced_data_file", "content_offset", "content_size_in_bytes")
    lacking = np.logical_or.reduce([_null(rows, name) for name in names])
    return _found(rows, _vectors(rows) & lacking)


def misplaced_vectors(rows: RawEntries) -> Fault | None:
    """Deletion vectors that lie before the start or behind the end of their file (R-118)."""
    start = _numbers(rows, "content_offset")
    end = start + _numbers(rows, "content_size_in_bytes")
    outside = (start < 0) | (end < start) | (end > _numbers(rows, "file_size_in_bytes"))
    return _found(rows, _vectors(rows) & ~_null(rows, "content_offset") & outside)


def vectors(rows: RawEntries) -> Fault | None:
    """Deletion vectors."""
    return _found(rows, _vectors(rows))


def ranges_of_whole_files(rows: RawEntries) -> Fault | None:
    """Files other than deletion vectors that name a range of themselves (R-063)."""
    return _found(rows, ~_vectors(rows) & ~_null(rows, "content_offset"))


def new_position_deletes(rows: RawEntries) -> Fault | None:
    """Added position delete files (R-122)."""
    is_delete = _is(rows, "content", Content.POSITION_DELETES) & ~_vectors(rows)
    return _found(rows, is_delete & _is(rows, "status", Status.ADDED))


def equality_deletes_without_ids(rows: RawEntries) -> Fault | None:
    """Equality delete files that name no column (R-123)."""
    lengths = pc.fill_null(pc.list_value_length(rows.table["equality_ids"]), 0)
    return _found(
        rows, _is(rows, "content", Content.EQUALITY_DELETES) & _mask(pc.equal(lengths, 0))
    )


def others_with_equality_ids(rows: RawEntries) -> Fault | None:
    """Files other than equality deletes that name columns to compare (R-063)."""
    lengths = pc.fill_null(pc.list_value_length(rows.table["equality_ids"]), 0)
    named = _mask(pc.greater(lengths, 0))
    return _found(rows, ~_is(rows, "content", Content.EQUALITY_DELETES) & named)


def equality_ids(rows: RawEntries) -> Collection[int]:
    """Every column that an equality delete file compares. Order: ascending."""
    chosen = rows.table["equality_ids"].filter(
        pa.array(_is(rows, "content", Content.EQUALITY_DELETES))
    )
    found = pc.unique(pc.list_flatten(chosen)).to_pylist()
    return sorted(id_ for id_ in found if id_ is not None)


def unordered_split_offsets(rows: RawEntries) -> Fault | None:
    """Files whose split offsets do not ascend, or lie outside of the file (R-067)."""
    column = rows.table["split_offsets"].combine_chunks()
    if column.null_count == len(column):
        return None
    parents = pc.list_parent_indices(column).to_numpy()
    offsets = pc.list_flatten(column).to_numpy(zero_copy_only=False)
    wrong = np.zeros(len(rows), np.bool_)
    sizes = _numbers(rows, "file_size_in_bytes")
    wrong[parents[(offsets < 0) | (offsets >= sizes[parents])]] = True
    falls = (np.diff(offsets) <= 0) & (np.diff(parents) == 0)
    wrong[parents[1:][falls]] = True
    return _found(rows, wrong)


def avro_with_column_sizes(rows: RawEntries) -> Fault | None:
    """Avro files with sizes of columns, which have none (R-133)."""
    return _found(rows, _is(rows, "file_format", FileFormat.AVRO) & ~_null(rows, "column_sizes"))


def relative_locations(rows: RawEntries) -> Fault | None:
    """Files whose location is neither a URI nor an absolute path (R-164)."""
    pattern = r"^(/|[A-Za-z][A-Za-z0-9+.-]*:)"
    return _found(rows, ~_mask(pc.match_substring_regex(rows.table["location"], pattern)))


def impossible_counts(rows: RawEntries) -> Fault | None:
    """Files with more nulls or NaN in a column than values, or with counts below zero (R-130)."""
    values = flat(rows, "value_counts")
    wrong = np.zeros(len(rows), np.bool_)
    keys = _places(values)
    counts = values["value"].to_numpy()
    wrong[values["row"].to_numpy()[counts < 0]] = True
    for column in ("null_value_counts", "nan_value_counts"):
        parts = flat(rows, column)
        part, part_keys = parts["value"].to_numpy(), _places(parts)
        of_row = parts["row"].to_numpy()
        wrong[of_row[part < 0]] = True
        if len(part_keys) == len(keys) and (part_keys == keys).all():
            wrong[of_row[part > counts]] = True
            continue
        order = np.argsort(keys, kind="stable")
        at = np.searchsorted(keys[order], part_keys).clip(max=max(len(keys) - 1, 0))
        if len(keys):
            known = keys[order][at] == part_keys
            wrong[of_row[known & (part > counts[order][at])]] = True
    return _found(rows, wrong)


def live_numbers(rows: RawEntries, inherited: int) -> tuple[int, int] | None:
    """The least and greatest data sequence number of live entries; None without any (R-047)."""
    alive = ~_is(rows, "status", Status.DELETED)
    if not alive.any():
        return None
    numbers = pc.fill_null(rows.table["sequence_number"], inherited).to_numpy()[alive]
    return int(numbers.min()), int(numbers.max())


def counts(rows: RawEntries) -> Mapping[Status, tuple[int, int]]:
    """Files and their rows by status (R-051)."""
    statuses, records = _numbers(rows, "status"), _numbers(rows, "record_count")
    return {
        status: (int((statuses == status).sum()), int(records[statuses == status].sum()))
        for status in Status
    }


def partition_keys(rows: RawEntries) -> list[bytes]:
    """The distinct partitions."""
    keys: list[bytes] = rows.table["partition_key"].unique().to_pylist()
    return keys


def in_partition(rows: RawEntries, key: bytes) -> Fault | None:
    """The entries of a partition."""
    return _found(rows, _mask(pc.equal(rows.table["partition_key"], pa.scalar(key, pa.binary()))))


def _found(rows: RawEntries, mask: Mask) -> Fault | None:
    if not mask.any():
        return None
    places = np.flatnonzero(mask)
    return Fault(len(places), rows.table["location"][int(places[0])].as_py())


def _places(flattened: pa.Table) -> npt.NDArray[np.int64]:
    """Row and field of each value, in one number."""
    fields = flattened["field_id"].to_numpy().astype(np.int64)
    return np.asarray((flattened["row"].to_numpy() << 32) | fields, np.int64)


def _vectors(rows: RawEntries) -> Mask:
    return _is(rows, "content", Content.POSITION_DELETES) & _is(
        rows, "file_format", FileFormat.PUFFIN
    )


def _is(rows: RawEntries, column: str, *values: int) -> Mask:
    found = _numbers(rows, column)
    return np.asarray(np.logical_or.reduce([found == value for value in values]), np.bool_)


def _numbers(rows: RawEntries, column: str) -> npt.NDArray[np.int64]:
    filled = rows.table[column]
    filled = pc.fill_null(filled, 0) if filled.null_count else filled
    return np.asarray(filled.to_numpy(), np.int64)


def _null(rows: RawEntries, column: str) -> Mask:
    return _mask(pc.is_null(rows.table[column]))


def _mask(flags: pa.ChunkedArray) -> Mask:
    return np.asarray(flags.to_numpy(), np.bool_)
