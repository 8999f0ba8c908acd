"""A glance at the end of a Parquet file: what its Bloom filters rule out, without opening it.

Most files of a table say the same of their columns, in the same bytes. What is known of the columns
of one that was opened holds for all of these.
"""

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any, NamedTuple

import numpy as np
import pyarrow as pa

from icectl.errors import CorruptTable
from icectl.files.compiled import loops
from icectl.files.parquet.data_file import ParquetDataFile
from icectl.files.parquet.footer import BINARY, LIST, NUMBER, STRUCT, find_members, octets
from icectl.files.parquet.schema import leaves
from icectl.files.parquet.value_filters import MOST_VALUES, FilterFacts, Mask, Sought, filtered

_END_BYTES = 1 << 16
"""Bytes that are read at once: the footer, and small filters before it."""

_MAGIC = b"PAR1"
_ENDING = bytes(4) + _MAGIC
"""As long as what follows a footer: its length, and how a file ends."""

_DESCRIBING, _RECORD_COUNT, _GROUPS, _CHUNK, _ELSEWHERE = (1, 4), 2, 3, 7, 8
_MEMBERS = np.array(
    [
        (0, 2, LIST),  # the schema
        (0, 3, NUMBER),  # _RECORD_COUNT
        (0, 4, LIST),  # _GROUPS
        (0, 5, LIST),  # properties
        (_GROUPS, 0, STRUCT),
        (5, 1, LIST),
        (6, 0, STRUCT),  # _CHUNK
        (_CHUNK, 1, BINARY),  # _ELSEWHERE: its bytes are in another file
        (_CHUNK, 3, STRUCT),
        (9, 5, NUMBER),  # as _NUMBERS names this and what follows
        (9, 7, NUMBER),
        (9, 14, NUMBER),
        (9, 15, NUMBER),
        (9, 12, STRUCT),
        (14, 6, BINARY),
        (14, 5, BINARY),
    ],
    np.int64,
)
_NUMBERS = {10: "value_count", 11: "chunk_bytes", 12: "offset", 13: "size_bytes"}
_BOUNDS = {15: "lower", 16: "upper"}
_NEEDED = {"value_count", "chunk_bytes", "offset", "lower", "upper"}


class StoredColumn(NamedTuple):
    """A column of a file: its place among so many, and how its values are stored."""

    place: int
    column_count: int
    type: pa.DataType
    physical: str
    width: int


def stored_columns(opened: ParquetDataFile, ids: Collection[int]) -> Mapping[int, StoredColumn]:
    """Return columns of an open file, by field id: those of some ids, outside of lists."""
    schema = opened.file.metadata.schema
    found = {}
    for at, leaf in enumerate(leaves(opened.schema)):
        id_, column = leaf.field_id, schema.column(at)
        if id_ in ids and id_ is not None and leaf.part is None and not leaf.is_repeated:
            how = leaf.type, column.physical_type, column.length
            found[id_] = StoredColumn(at, len(schema.names), *how)
    return found


@dataclass(frozen=True, slots=True)
class Glance:
    """What the end of a file says: its rows, and its columns and properties as they are encoded."""

    size_bytes: int
    record_count: int
    group_count: int
    described: bytes
    _chunks: Sequence[Mapping[str, Any]]
    _file: IO[bytes]
    _end: bytes

    def those_of(self, group: int, column: StoredColumn, sought: Sought, asked: Mask) -> Mask:
        """Return which of the asked values a row group may have in a column. Order: kept.

        All of them where a filter is missing or has no bounds to check it by; else as those_of of
        ValueFilters.
        """
        is_whole = len(self._chunks) == self.group_count * column.column_count
        if not is_whole or len(asked) > MOST_VALUES:
            return asked
        stated = self._chunks[group * column.column_count + column.place]
        if stated.keys() != _NEEDED and stated.keys() != _NEEDED | {"size_bytes"}:
            return asked
        plain = sought.plain(asked, column.type, column.physical, column.width)
        return filtered(FilterFacts(**stated), self._read, plain, asked)

    def _read(self, offset: int, size_bytes: int) -> bytes:
        known_from = self.size_bytes - len(self._end)
        if offset >= known_from:
            return self._end[offset - known_from :][:size_bytes]
        self._file.seek(max(offset, 0))
        return self._file.read(size_bytes)


def glance_at(file: IO[bytes]) -> Glance | None:
    """Glance at the end of a file; None where that has no footer that can be read so.

    Errors of the file pass. Cost: one read, two for a large footer.
    """
    size_bytes = file.seek(0, os.SEEK_END)
    at = max(0, size_bytes - _END_BYTES)
    file.seek(at)
    end = file.read(_END_BYTES)
    if loops() is None or len(end) < len(_ENDING) or end[-4:] != _MAGIC:
        return None
    footer_at = size_bytes - len(_ENDING) - int.from_bytes(end[-8:-4], "little")
    if footer_at < len(_MAGIC):
        return None
    if footer_at < at:
        file.seek(footer_at)
        at, end = footer_at, file.read(size_bytes - footer_at)
    footer = end[footer_at - at : -len(_ENDING)]
    try:
        rows = find_members(octets(footer), _MEMBERS).rows.tolist()
    except CorruptTable:  # whoever opens it will say so
        return None
    counts = dict.fromkeys((_RECORD_COUNT, _GROUPS), 0)
    described = b""
    chunks: list[dict[str, Any]] = []
    for node, start, stop, number in rows:
        if node == _CHUNK:
            chunks.append({})
        elif node in _NUMBERS:
            chunks[-1][_NUMBERS[node]] = number
        elif node in _BOUNDS:
            chunks[-1][_BOUNDS[node]] = footer[stop - number : stop]
        elif node == _ELSEWHERE:
            chunks[-1]["elsewhere"] = True
        elif node in _DESCRIBING:
            described += footer[start:stop]
        elif node in counts:
            counts[node] = number
    of_file = size_bytes, counts[_RECORD_COUNT], counts[_GROUPS]
    return Glance(*of_file, described, chunks, file, end)
