"""Small Parquet files read together: what is known of one that was opened holds for all alike.

To open each by itself takes longer than to decode its few rows. Files are alike whose footers
agree, byte for byte, in all but rows and row groups.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from io import BytesIO
from itertools import groupby

import numpy as np

from icectl.errors import CorruptTable
from icectl.files.compiled import loops
from icectl.files.data_rows import LARGEST_BATCH_BYTES, LARGEST_BATCH_ROWS
from icectl.files.parquet.data_file import OnlyChunks, ParquetDataFile, facts_by_id, open_parquet
from icectl.files.parquet.footer import (
    LIST,
    NUMBER,
    STRUCT,
    ChunkFacts,
    chunk_facts,
    find_members,
    octets,
)
from icectl.files.parquet.schema import NameMapping

_MAGIC = b"PAR1"
_ENDING = 8
"""Bytes behind a footer: its length, and how a file ends."""

_ROW_COUNT, _GROUPS, _GROUP = 1, 2, 3
_MEMBERS = np.array([(0, 3, NUMBER), (0, 4, LIST), (_GROUPS, 0, STRUCT)], np.int64)


@dataclass(frozen=True, slots=True)
class SmallFile:
    """A file in memory that has one row group, and what its footer says."""

    content: bytes
    row_count: int
    chunks: Sequence[ChunkFacts]
    described: tuple[bytes, ...]
    """The footer without the number of rows and the row group."""


def small_file(content: bytes) -> SmallFile | None:
    """Return a file to read with others; None for one that has to be opened by itself."""
    footer_at = len(content) - _ENDING - int.from_bytes(content[-_ENDING:-4], "little")
    if loops() is None or content[-4:] != _MAGIC or footer_at < len(_MAGIC):
        return None
    footer = content[footer_at:-_ENDING]
    try:
        found = find_members(octets(footer), _MEMBERS)
        chunks = chunk_facts(footer) or ()
    except CorruptTable:  # whoever opens it will say so
        return None
    rows = found.rows.tolist()
    if [row[0] for row in rows] != [_ROW_COUNT, _GROUPS, _GROUP] or found.end != len(footer):
        return None
    (_, count_at, count_end, row_count), (_, list_at, list_end, _), _ = rows
    described = footer[:count_at], footer[count_end:list_at], footer[list_end:]
    return SmallFile(content, row_count, chunks, described)


def alike(files: Sequence[SmallFile | None]) -> Iterator[range]:
    """Yield places side by side of files that are alike; others, and those of no file, alone."""
    keys = [at if file is None else file.described for at, file in enumerate(files)]
    start = 0
    for _, same in groupby(keys):
        stop = start + len(list(same))
        yield range(start, stop)
        start = stop


@dataclass(frozen=True, slots=True)
class AlikeFiles:
    """Files that are alike, as one with all of their rows, and what the footer of each says."""

    opened: ParquetDataFile
    facts: Sequence[OnlyChunks]
    split_offsets: Sequence[tuple[int, ...]]


def open_alike(files: Sequence[SmallFile], name_mapping: NameMapping) -> AlikeFiles | None:
    """Open files that are alike; None where one batch may not have all of their rows.

    Raises: CorruptTable R-099; Unsupported.
    """
    if sum(file.row_count for file in files) > LARGEST_BATCH_ROWS:
        return None
    first = open_parquet(BytesIO(files[0].content), name_mapping)
    sizes = [first.decoded_bytes(file.chunks) for file in files]
    known = [size for size in sizes if size is not None]
    if len(known) < len(sizes) or sum(known) > LARGEST_BATCH_BYTES:
        return None
    others = [first.like(file.content) for file in files[1:]]
    return AlikeFiles(
        replace(first, alike=tuple(others)),
        [facts_by_id(first.schema, file.chunks) for file in files],
        [file.split_offsets for file in (first, *others)],
    )
