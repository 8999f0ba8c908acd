"""Decide from columns which data files are worth rewriting."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from icectl.entries.columns import Integers, Mask, mask_of
from icectl.entries.deletes import DeleteMatches, known_deleted_rows
from icectl.entries.partition_key import decode_key, sort_key
from icectl.entries.rows import Entries, numbers, take
from icectl.format.manifest import FileFormat
from icectl.format.types import Type


class FileVerdict(IntEnum):
    """The verdict on a data file.

    Those from ASKED_FOR on are reasons to rewrite it, from OF_MANY_DELETE_FILES on its deletes.
    """

    NOT_SELECTED = 0
    UNREADABLE = 1
    FINE = 2
    TOO_FEW = 3
    NO_GAIN = 4
    LATER = 5
    MERGED = 6
    AS_MADE = 7
    NOT_MERGEABLE = 8
    OVER_BUDGET = 9
    NO_DELETES = 10
    ASKED_FOR = 11
    SMALL = 12
    LARGE = 13
    OVERLAPPING = 14
    MANY_DELETE_FILES = 15
    MANY_DELETED_ROWS = 16
    OF_MANY_DELETE_FILES = 17
    OF_POSITION_DELETES = 18
    OF_SMALL_VECTOR_FILES = 19
    OF_EQUALITY_DELETES = 20


Verdicts = npt.NDArray[np.int8]
"""Codes of FileVerdict."""

DELETES = (FileVerdict.MANY_DELETE_FILES, FileVerdict.MANY_DELETED_ROWS)


@dataclass(frozen=True, slots=True)
class FileLimits:
    """The limits that a data file is measured by; `every` asks for all files."""

    smallest_bytes: int
    largest_bytes: int
    delete_files: int | None
    delete_ratio: float
    every: bool


def judge(matches: DeleteMatches, limits: FileLimits, selected: Mask, counts: Integers) -> Verdicts:
    """Return the verdict on each data file: deletes count before size. Order: kept.

    `counts` are the deletes of each data file that it may be rewritten for.
    """
    sizes = numbers(matches.data, "file_size_in_bytes")
    verdicts = same_verdict(matches.data, FileVerdict.FINE)
    if limits.every:
        verdicts[:] = FileVerdict.ASKED_FOR
    has_rows_to_part = numbers(matches.data, "record_count") > 1
    verdicts[(sizes > limits.largest_bytes) & has_rows_to_part] = FileVerdict.LARGE
    verdicts[sizes < limits.smallest_bytes] = FileVerdict.SMALL
    if limits.delete_files is not None:
        many = counts >= max(limits.delete_files, 1)
        verdicts[many] = FileVerdict.MANY_DELETE_FILES
    if len(matches.deletes) or not limits.delete_ratio:
        verdicts[deleted_ratios(matches) >= limits.delete_ratio] = FileVerdict.MANY_DELETED_ROWS
    verdicts[~are_readable(matches.data)] = FileVerdict.UNREADABLE
    verdicts[~selected] = FileVerdict.NOT_SELECTED
    return verdicts


def are_readable(files: Entries) -> Mask:
    """Return whether each file has a format that can be read."""
    return np.isin(
        numbers(files, "file_format"), [FileFormat.AVRO, FileFormat.ORC, FileFormat.PARQUET]
    )


def same_verdict(data: Entries, verdict: FileVerdict) -> Verdicts:
    """Return the same verdict on every data file."""
    return np.full(len(data), verdict, np.int8)


def deleted_ratios(matches: DeleteMatches) -> npt.NDArray[np.float64]:
    """Return the part of each file's rows that deletes of this file alone are known to delete."""
    if not len(matches.deletes):
        return np.zeros(len(matches.data))
    records = numbers(matches.data, "record_count")
    deleted = np.minimum(known_deleted_rows(matches), records)
    return np.asarray(deleted / np.maximum(records, 1), np.float64)


def live_bytes(matches: DeleteMatches, stored: Integers) -> Integers:
    """Estimated bytes of each file's rows that are not known to be deleted, of its stored bytes."""
    if not len(matches.deletes):
        return stored
    return np.asarray(np.ceil(stored * (1 - deleted_ratios(matches))), np.int64)


def chosen(verdicts: Verdicts) -> Integers:
    """Return rows of the files with a reason to be rewritten."""
    return np.flatnonzero(verdicts >= FileVerdict.ASKED_FOR)


def by_partition(
    data: Entries,
    verdicts: Integers,
    stays: Mask,
    types: Sequence[Type | None],
    others: bytes | None = None,
) -> Sequence[tuple[bytes | None, Integers]]:
    """Rows of some data files by their partition, where each `stays` in it; else by `others`.

    `types` are those of the fields of the spec of those that stay.
    Order: partitions by their values, None at the end; rows as given.
    Raises: CorruptTable R-068.
    """
    keys = take(Entries(data.table.select(["partition_key"])), verdicts).table["partition_key"]
    placed = pc.if_else(pa.array(stays), keys, pa.scalar(others, pa.binary()))
    encoded = placed.combine_chunks().dictionary_encode("encode")
    keys, codes = encoded.dictionary.to_pylist(), encoded.indices.to_numpy()
    order = np.argsort(codes, kind="stable")
    starts = np.searchsorted(codes[order], np.arange(len(keys) + 1))
    groups = [
        (key, verdicts[order[start:stop]])
        for key, start, stop in zip(keys, starts, starts[1:], strict=False)
    ]
    return sorted(groups, key=lambda group: _place(group[0], types))


def _place(key: bytes | None, types: Sequence[Type | None]) -> tuple[bool, Sequence[Any]]:
    """Make the key that partitions are ordered by: none comes last."""
    values = () if key is None else decode_key(key, types)
    return key is None, [sort_key(value) for value in values]


def count_verdicts(verdicts: Verdicts) -> dict[FileVerdict, int]:
    """Count the files per verdict that there is."""
    return {
        FileVerdict(code): int(count)
        for code, count in zip(*np.unique(verdicts, return_counts=True), strict=True)
    }


def everything(data: Entries) -> Mask:
    """Choose every data file."""
    return np.full(len(data), True)  # noqa: FBT003


def at_locations(files: Entries, locations: Collection[str]) -> Mask:
    """Return whether each file is at one of these locations."""
    named = pc.is_in(files.table["location"], value_set=pa.array(locations, pa.string()))
    return mask_of(named)


def of_specs(files: Entries, spec_ids: Collection[int]) -> Mask:
    """Return whether each file is of one of these specs."""
    return np.isin(files.table["spec_id"].to_numpy(), sorted(spec_ids))


def of_names_ending(files: Entries, end: str) -> Mask:
    """Return whether the name of each file has this end."""
    named = pc.ends_with(files.table["location"], pattern=end)
    return np.array(named.to_numpy(zero_copy_only=False), dtype=np.bool_)
