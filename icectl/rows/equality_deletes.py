"""Rows that equality deletes delete: exact look-ups of keys, many rows at a time (R-123, R-124).

A key is compared by its hash first, then by all of its canonical bytes. Null equals null, NaN
equals NaN; -0.0 and 0.0 differ, as they do in partitions.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import IO

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from icectl.entries.partition_key import encode_keys
from icectl.errors import CorruptTable, Unsupported
from icectl.files.row_hash import Hashes, row_hashes
from icectl.format.schema import Schema
from icectl.format.types import NestedField, is_comparable, is_nested, type_text
from icectl.rows.columns import path_to
from icectl.rows.read_data import RowSource, SourceFile, open_source

LARGEST_INDEX_ROWS = 4_000_000
"""Delete rows in memory at a time: about 100 bytes each for keys of a few columns."""

LARGEST_INDEX_BYTES = 32 << 20
"""Bytes of wide keys in memory at a time."""

_FLAGS_PER_KEY, _FLAGS_PER_SORTED_KEY = 16, 4
_FLAGGED_AT_ONCE = 1 << 20
_Places = npt.NDArray[np.int64]

Line = tuple[NestedField, ...]
"""A compared column, behind the structs around it."""

OpenFile = Callable[[str], AbstractContextManager[IO[bytes]]]
"""A seekable reader of the file at a location."""


@dataclass(frozen=True, slots=True)
class EqualityDeletes:
    """An equality delete file; `applies_to` are the locations of data files (R-112)."""

    file: SourceFile
    equality_ids: tuple[int, ...]
    applies_to: frozenset[str]


@dataclass(frozen=True, slots=True)
class Chain:
    """Delete files of the same columns; each applies to all data files of those before it.

    `least` has the rank of the first one that applies to a data file, by location.
    """

    lines: tuple[Line, ...]
    deletes: Sequence[EqualityDeletes]
    least: Mapping[str, int]

    @property
    def read_ids(self) -> set[int]:
        """The compared columns, and the structs around them."""
        return {item.id for line in self.lines for item in line}

    @property
    def fields(self) -> list[NestedField]:
        """The compared columns."""
        return [line[-1] for line in self.lines]


_KeyRows = tuple[Hashes, pa.Array, int | npt.NDArray[np.int32]]
"""The hashes and the canonical bytes of keys, and the rank of the delete file of all or each."""


class EqualityIndex:
    """Keys that equality deletes delete, of some columns."""

    def __init__(self, chain: Chain, parts: Sequence[_KeyRows]) -> None:
        self._chain = chain
        # Keys are by ascending hash; equal keys keep the highest rank.
        hashes = np.concatenate([part_hashes for part_hashes, _, _ in parts])
        of_parts = [np.broadcast_to(np.int32(rank), len(part)) for part, _, rank in parts]
        ranks = np.concatenate(of_parts)
        order = np.lexsort((-ranks, hashes))
        encoded = pa.chunked_array([part_keys for _, part_keys, _ in parts])
        keys = encoded.take(pa.array(order)).combine_chunks()
        hashes, ranks = hashes[order], ranks[order]
        repeated = hashes[1:] == hashes[:-1]
        if repeated.any():
            equal = pc.equal(keys.slice(1), keys.slice(0, len(order) - 1))
            repeated &= equal.to_numpy(zero_copy_only=False)
            distinct = np.flatnonzero(np.append(True, ~repeated))
            hashes, ranks, keys = hashes[distinct], ranks[distinct], keys.take(pa.array(distinct))
        self._hold(hashes, keys, ranks, _FLAGS_PER_KEY)

    def _hold(
        self,
        hashes: Hashes,
        keys: pa.Array | pa.ChunkedArray,
        ranks: npt.NDArray[np.int32],
        flags_per_key: int,
    ) -> None:
        self._hashes, self._keys, self._ranks = hashes, keys, ranks
        self._mask = np.uint64((1 << (len(hashes) * flags_per_key).bit_length()) - 1)
        self._flags = np.zeros(int(self._mask) + 1, np.bool_)
        for start in range(0, len(hashes), _FLAGGED_AT_ONCE):
            self._flags[hashes[start : start + _FLAGGED_AT_ONCE] & self._mask] = True

    @property
    def sorted_keys(self) -> tuple[Hashes, pa.Array]:
        """The distinct keys, by ascending hash: these, and their canonical bytes."""
        return self._hashes, self._keys

    @property
    def read_ids(self) -> set[int]:
        """The compared columns, and the structs around them."""
        return self._chain.read_ids

    def applies_to(self, location: str) -> bool:
        """Return whether any of the deletes applies to a data file."""
        return location in self._chain.least

    def deleted(self, source: RowSource, stored: pa.RecordBatch) -> _Places:
        """Return the deleted ones among stored rows of a data file. Order: ascending."""
        least = self._chain.least.get(source.file.location)
        return np.empty(0, np.int64) if least is None else self.equal(source, stored, least)

    def equal(self, source: RowSource, stored: pa.RecordBatch, least: int = 0) -> _Places:
        """Return stored rows with a key of a file of this rank or more. Order: ascending."""
        columns = [source.values(stored, line) for line in self._chain.lines]
        hashes = row_hashes(columns, stored.num_rows)
        rows = np.flatnonzero(self._flags[hashes & self._mask])

        def keys_of(places: _Places) -> pa.Array:
            taken = [column.take(pa.array(rows[places])) for column in columns]
            return encoded_keys(self._chain.fields, taken)

        return rows[self.found(hashes[rows], keys_of, np.full(len(rows), least, np.int32))]

    def found(
        self, hashes: Hashes, keys_of: Callable[[_Places], pa.Array], least: npt.NDArray[np.int32]
    ) -> _Places:
        """Return the places of rows whose keys are deleted by a file of their `least` rank or more.

        `keys_of` makes the canonical keys of rows at some places. Order: ascending.
        """
        rows = np.arange(len(hashes))
        # A key is among those with its hash, from `places` on.
        places = np.searchsorted(self._hashes, hashes).astype(np.int64)
        ranges: list[_Places] = []
        known_hashes = self._hashes
        while True:
            in_range = np.minimum(places, len(known_hashes) - 1)
            has_hash = (places < len(known_hashes)) & (known_hashes[in_range] == hashes[rows])
            rows, places = rows[has_hash], places[has_hash]
            if not len(rows):
                break
            equal = pc.equal(keys_of(rows), self._keys.take(pa.array(places)))
            is_equal = equal.to_numpy(zero_copy_only=False)
            ranges.append(rows[is_equal & (self._ranks[places] >= least[rows])])
            rows, places = rows[~is_equal], places[~is_equal] + 1
        return np.sort(np.concatenate(ranges)) if ranges else np.empty(0, np.int64)


class SortedIndex(EqualityIndex):
    """Distinct keys of rank 0 that come by ascending hash, and are not copied."""

    def __init__(self, chain: Chain, hashes: Hashes, keys: pa.ChunkedArray) -> None:
        self._chain = chain
        ranks = np.broadcast_to(np.int32(0), len(hashes))
        self._hold(hashes, keys, ranks, _FLAGS_PER_SORTED_KEY)


def equality_indexes(
    deletes: Sequence[EqualityDeletes], open_file: OpenFile, schema: Schema, limit: int
) -> Iterator[Sequence[EqualityIndex]]:
    """Read equality delete files; each part has at most `limit` of their rows.

    `schema` has every compared column, dropped ones too.
    Raises: CorruptTable R-099, R-123; Unsupported. Errors of the files pass.
    Cost: memory for about 100 bytes a row of the part, and for LARGEST_INDEX_BYTES of keys.
    """
    part: list[EqualityIndex] = []
    row_count = key_bytes = 0
    for chain in _chains(deletes, schema):
        collected: list[_KeyRows] = []
        for rank, delete in enumerate(chain.deletes):
            for hashes, keys, _ in read_keys(delete, chain, open_file):
                collected.append((hashes, keys, rank))
                row_count += len(keys)
                key_bytes += keys.nbytes
                if row_count >= limit or key_bytes >= LARGEST_INDEX_BYTES:
                    full = [*part, EqualityIndex(chain, collected)]
                    part, collected, row_count, key_bytes = [], [], 0, 0
                    pa.default_memory_pool().release_unused()
                    yield full
        if collected:
            part.append(EqualityIndex(chain, collected))
    if part:
        yield part


def _chains(deletes: Iterable[EqualityDeletes], schema: Schema) -> list[Chain]:
    """Put delete files of the same columns into as few chains as possible.

    Newer deletes of a partition apply to all data files of older ones. So most partitions have one
    chain, and each row is looked up once for all delete files.
    """
    chains: dict[tuple[int, ...], list[list[EqualityDeletes]]] = {}
    for delete in sorted(deletes, key=lambda file: (len(file.applies_to), file.file.location)):
        ids = tuple(sorted(delete.equality_ids))
        same_columns = chains.setdefault(ids, [])
        for chain in same_columns:
            if chain[-1].applies_to <= delete.applies_to:
                chain.append(delete)
                break
        else:
            same_columns.append([delete])
    return [
        chain_of(ids, files, schema, _least(files))
        for ids, of_ids in chains.items()
        for files in of_ids
    ]


def _least(deletes: Sequence[EqualityDeletes]) -> Mapping[str, int]:
    ranks = range(len(deletes) - 1, -1, -1)
    return {location: rank for rank in ranks for location in deletes[rank].applies_to}


def chain_of(
    ids: Sequence[int], deletes: Sequence[EqualityDeletes], schema: Schema, least: Mapping[str, int]
) -> Chain:
    """Return a chain of delete files that compare the columns of some ids.

    Raises: CorruptTable R-123; Unsupported.
    """
    return Chain(_lines(ids, deletes[0], schema), deletes, least)


def _lines(ids: Sequence[int], deletes: EqualityDeletes, schema: Schema) -> tuple[Line, ...]:
    lines, location = [schema.line_to(id_) for id_ in ids], deletes.file.location
    if not all(lines) or not lines:
        message = f"`{location}` compares columns that no schema of the table has"
        raise CorruptTable(message, rule="R-123", location=location)
    for column in (line[-1] for line in lines):
        if not is_comparable(column.type):
            kind = "which has fields" if is_nested(column.type) else f"a {type_text(column.type)}"
            message = f"`{location}` compares `{column.name}`, {kind}"
            raise Unsupported(message, location=location)
    # Older and newer files may lack a column, even a required one.
    return tuple((*around, replace(column, required=False)) for *around, column in lines)


def read_keys(
    deletes: EqualityDeletes, chain: Chain, open_file: OpenFile
) -> Iterator[tuple[Hashes, pa.Array, Sequence[pa.Array]]]:
    """Yield the keys of a delete file: their hashes, canonical bytes, and columns.

    Raises: CorruptTable R-099, R-123; Unsupported. Errors of the file pass.
    """
    fields, location = chain.fields, deletes.file.location
    with open_file(location) as file:
        source = open_source(file, deletes.file, Schema(0, ()), ())
        for item in fields:
            if path_to(source.opened.schema, item.id) is None:
                message = f"`{location}` lacks the column `{item.name}` that it compares"
                raise CorruptTable(message, rule="R-123", location=location)
        for rows in source.stored([item.id for item in fields]):
            columns = [source.values(rows.batch, line) for line in chain.lines]
            hashes = row_hashes(columns, rows.batch.num_rows)
            yield hashes, encoded_keys(fields, columns), columns


def encoded_keys(fields: Sequence[NestedField], columns: Sequence[pa.Array]) -> pa.Array:
    """Return the canonical bytes of keys, which are equal where these are. Order: kept."""
    return encode_keys([item.type for item in fields], columns)
