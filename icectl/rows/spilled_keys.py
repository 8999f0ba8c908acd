"""Keys that memory can't hold, and the rows that may have them, on disk by ranges of hashes.

All keys leave a mark in a filter first. Rows of data files are read once: those with a mark are
written beside the keys of their range. Then one range after another is looked up in memory.
"""

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from icectl.files.row_hash import Hashes
from icectl.rows.equality_deletes import Chain, EqualityIndex
from icectl.storage.spill import Spill

_Numbers = npt.NDArray[np.int64]
_BITS_PER_KEY, _SALT = 16, 0x9E3779B97F4A7C15
_PART_KEYS, _PART_BYTES = 1_000_000, 64 << 20
"""Keys of a range, and their bytes."""

_MOST_PARTS = 128
_HASH, _CHAIN, _KEY = (
    pa.field("hash", pa.uint64()),
    pa.field("chain", pa.int32()),
    pa.field("key", pa.binary()),
)
_KEYS = pa.schema([_HASH, _CHAIN, pa.field("rank", pa.int32()), _KEY])
_ROWS = pa.schema([_HASH, _CHAIN, pa.field("input", pa.int32()), pa.field("pos", pa.int64()), _KEY])


class SpilledKeys:
    """A context of keys on disk, of several chains, and rows to look up among them.

    `expected` is about how many keys come, `key_bytes` how long one is.
    Memory: two bytes a key, and those of an EqualityIndex of a range.
    """

    def __init__(self, chains: Sequence[Chain], expected: int, key_bytes: float) -> None:
        self._chains = chains
        wanted = max(expected // _PART_KEYS, int(expected * key_bytes) // _PART_BYTES)
        self._shift = np.uint64(64 - min(wanted, _MOST_PARTS - 1).bit_length())
        self.part_count = 1 << (64 - int(self._shift))
        size = 1 << max(expected * _BITS_PER_KEY, 1 << 16).bit_length()
        self._mask = np.uint64(size - 1)
        self._bits = np.zeros(size // 8, np.uint8)
        self._keys = Spill(_KEYS, self.part_count)
        self._rows = Spill(_ROWS, self.part_count)

    def __enter__(self) -> "SpilledKeys":
        return self

    def __exit__(self, *_: object) -> None:
        self._keys.close()
        self._rows.close()

    def add(self, chain: int, rank: int, hashes: Hashes, keys: pa.Array) -> None:
        """Add keys of a delete file by their hashes and canonical bytes."""
        marks = self._marks(chain, hashes)
        np.bitwise_or.at(
            self._bits,
            marks >> np.uint64(3),
            np.uint8(1) << (marks & np.uint64(7)).astype(np.uint8),
        )
        count = len(hashes)
        columns = [hashes, np.full(count, chain, np.int32), np.full(count, rank, np.int32), keys]
        self._keys.add(
            self._parts(hashes),
            pa.RecordBatch.from_arrays(list(map(_array, columns)), schema=_KEYS),
        )

    def may_have(self, chain: int, hashes: Hashes) -> _Numbers:
        """Return the places of hashes that keys may have. Order: ascending."""
        marks = self._marks(chain, hashes)
        bits = self._bits[marks >> np.uint64(3)] >> (marks & np.uint64(7)).astype(np.uint8)
        return np.flatnonzero(bits & 1)

    def look_up(
        self, chain: int, at: int, hashes: Hashes, positions: _Numbers, keys: pa.Array
    ) -> None:
        """Put rows of the data file at a place aside to be looked up."""
        count = len(hashes)
        columns = [
            hashes,
            np.full(count, chain, np.int32),
            np.full(count, at, np.int32),
            positions,
            keys,
        ]
        self._rows.add(
            self._parts(hashes),
            pa.RecordBatch.from_arrays(list(map(_array, columns)), schema=_ROWS),
        )

    def found(self, least: Sequence[npt.NDArray[np.int32]]) -> Iterator[tuple[_Numbers, _Numbers]]:
        """Look all rows up; yield places of data files, and positions of deleted rows in them.

        `least` has, for each chain, the least rank of a delete that applies to each data file.
        """
        self._bits = np.empty(0, np.uint8)
        for number in range(self.part_count):
            table = pa.Table.from_batches(self._keys.read(number), _KEYS)
            if not len(table):
                continue
            indexes = {}
            of_chain = table["chain"].to_numpy()
            for chain in np.unique(of_chain).tolist():
                chosen = table.filter(pa.array(of_chain == chain))
                hashes, ranks = chosen["hash"].to_numpy(), chosen["rank"].to_numpy()
                part = hashes, chosen["key"].combine_chunks(), ranks
                indexes[chain] = EqualityIndex(self._chains[chain], [part])
            del table
            for batch in self._rows.read(number):
                hashes, chains, inputs, positions, row_keys = batch.columns
                of_rows = chains.to_numpy()
                for chain in np.unique(of_rows).tolist():
                    if chain not in indexes:
                        continue
                    rows = np.flatnonzero(of_rows == chain)
                    places = inputs.to_numpy()[rows]
                    hits = indexes[chain].found(
                        hashes.to_numpy()[rows],
                        partial(_taken, row_keys.take(pa.array(rows))),
                        least[chain][places],
                    )
                    yield places[hits].astype(np.int64), positions.to_numpy()[rows[hits]]
            indexes.clear()
            pa.default_memory_pool().release_unused()

    def _marks(self, chain: int, hashes: Hashes) -> Hashes:
        return (hashes ^ np.uint64((chain + 1) * _SALT & (2**64 - 1))) & self._mask

    def _parts(self, hashes: Hashes) -> _Numbers:
        if self.part_count == 1:
            return np.zeros(len(hashes), np.int64)
        return (hashes >> self._shift).astype(np.int64)


def _taken(values: pa.Array, places: _Numbers) -> pa.Array:
    return values.take(pa.array(places))


def _array(values: pa.Array | npt.NDArray[np.generic]) -> pa.Array:
    return values if isinstance(values, pa.Array) else pa.array(values)
