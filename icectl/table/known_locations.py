"""Sets of files to keep: millions of locations in memory, each as a hash of its loosest key.

Hashes have 64 bits. All forms of one file's location have the same key and hash. Two different keys
share a hash in 1 of 2^64 pairs; such a file counts as known, and is kept.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import IO

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from icectl.entries.columns import Hashes, Integers, Spans, byte_hashes, byte_strings
from icectl.storage.identity import FolderNames
from icectl.storage.location import before_path, loosest_keys
from icectl.storage.spill import Spill

_ROWS_AT_ONCE = 65_536
_PART_BITS = 6
PARTS = 1 << _PART_BITS
"""Ranges of hashes. One after the other is sorted, so that none is in memory twice with others."""

_SPREAD = np.uint64(0x9E3779B97F4A7C15)

HASH = pa.schema([pa.field("hash", pa.uint64())])
"""Rows of a spill of hashes."""

Flags = npt.NDArray[np.bool_]


def location_hashes(locations: pa.Array | pa.ChunkedArray) -> Hashes:
    """Return a hash of the loosest key of each location, of which none is null.

    Shape: one hash per location. Order: kept.
    """
    chunks = locations.chunks if isinstance(locations, pa.ChunkedArray) else [locations]
    hashes = [
        _hashes(chunk.slice(start, _ROWS_AT_ONCE))
        for chunk in chunks
        for start in range(0, len(chunk), _ROWS_AT_ONCE)
    ]
    return np.concatenate([np.empty(0, np.uint64), *hashes])


def file_hashes(locations: pa.Array | pa.ChunkedArray, sizes: pa.Array | pa.ChunkedArray) -> Hashes:
    """Return a hash of each location with a size in bytes; null sizes are -1. Order: kept."""
    stated = np.asarray(pc.fill_null(sizes, -1).to_numpy(), np.int64).astype(np.uint64)
    return location_hashes(locations) ^ stated * _SPREAD


def size_hashes(sizes: pa.ChunkedArray) -> Hashes:
    """Return a hash of each size in bytes, of which none is null; no two sizes share one."""
    return np.asarray(sizes.to_numpy(), np.int64).astype(np.uint64) * _SPREAD


LocationHash = Callable[[pa.Array | pa.ChunkedArray], Hashes]
"""Hashes locations as `location_hashes` does."""


def parts_of(hashes: Hashes) -> npt.NDArray[np.uint8]:
    """Return the range that each hash is in. Order: kept."""
    return (hashes >> np.uint64(64 - _PART_BITS)).astype(np.uint8)


class KnownLocations:
    """A set of locations.

    Cost: memory of 8 bytes for each distinct location. What is added waits on disk until the set is
    asked: until then it costs none.
    """

    def __init__(self, hashed: LocationHash = location_hashes) -> None:
        self._hashed = hashed
        self._known: list[Hashes] = [np.empty(0, np.uint64)] * PARTS
        self._added: Spill | None = None

    def __len__(self) -> int:
        self._merge()
        return sum(map(len, self._known))

    def add(self, locations: pa.Array | pa.ChunkedArray) -> None:
        self.add_hashes(self._hashed(locations))

    def add_hashes(self, hashes: Hashes) -> None:
        """Take in locations by their hashes."""
        if self._added is None:
            self._added = Spill(HASH, PARTS)
        batch = pa.RecordBatch.from_arrays([pa.array(hashes)], schema=HASH)
        self._added.add(parts_of(hashes), batch)

    def contains(self, locations: pa.Array | pa.ChunkedArray) -> pa.BooleanArray:
        """Return whether each location is known, in any spelling.

        Shape: one flag per location. Order: kept.
        """
        return pa.array(self.contains_hashes(self._hashed(locations)))

    def contains_hashes(self, hashes: Hashes) -> Flags:
        """Return whether each hash is that of a known location. Order: kept."""
        self._merge()
        order = np.argsort(hashes)  # neighbours are looked up in the same region of memory
        rising = hashes[order]
        known = np.zeros(len(hashes), np.bool_)
        for number, rows in enumerate(_by_part(rising)):
            part, sought = self._known[number], rising[rows]
            if len(part) and len(sought):
                places = np.minimum(np.searchsorted(part, sought), len(part) - 1)
                known[order[rows]] = part[places] == sought
        return known

    def among(self, hashes: Hashes) -> "KnownLocations":
        """Return the set of those hashes that are in this one, which may go then."""
        found = KnownLocations(self._hashed)
        found.add_hashes(hashes[self.contains_hashes(hashes)])
        return found

    def save(self, file: IO[bytes]) -> None:
        """Write the set to a file, for `opened`."""
        header = {"descr": "<u8", "fortran_order": False, "shape": (len(self),)}
        np.lib.format.write_array_header_1_0(file, header)
        for part in self._known:
            file.write(part.data)

    @staticmethod
    def opened(path: str) -> "KnownLocations":
        """Return the set in a file: pages are read at the first look-up, and shared.

        Added locations stay in memory.
        """
        locations = KnownLocations()
        known = np.load(path, mmap_mode="r")
        locations._known = [known[rows] for rows in _by_part(known)]
        return locations

    def _merge(self) -> None:
        if self._added is None:
            return
        added, self._added = self._added, None
        for number in range(PARTS):
            new = [batch["hash"].to_numpy() for batch in added.read(number)]
            if new:
                every = np.concatenate([self._known[number], *new])
                every.sort()
                first = np.ones(len(every), np.bool_)
                np.not_equal(every[1:], every[:-1], out=first[1:])
                self._known[number] = every if first.all() else every[first]
        added.close()


def _by_part(rising: Hashes) -> Sequence[slice]:
    """Return the rows of each range among rising hashes."""
    starts = np.arange(PARTS, dtype=np.uint64) << np.uint64(64 - _PART_BITS)
    bounds = [*np.searchsorted(rising, starts).tolist(), len(rising)]
    return [slice(start, stop) for start, stop in pairwise(bounds)]


class KnownFiles:
    """A set of files by all spellings of their locations.

    `local` ones are known by all names of their folders; `locations` is the set without these.
    """

    def __init__(self, *, local: bool, hashed: LocationHash = location_hashes) -> None:
        self.locations = KnownLocations(hashed)
        self._folders = FolderNames() if local else None

    def add(self, locations: pa.Array) -> None:
        self.locations.add(locations)
        if self._folders is not None:
            self._folders.add(locations)

    def contain(self, locations: pa.Array) -> pa.BooleanArray:
        """Return whether each file is known. Shape: one flag per location. Order: kept."""
        known = self.locations.contains(locations)
        if self._folders is None:
            return known
        flags = known.to_numpy(zero_copy_only=False).copy()
        for places, named in self._folders.other_names(locations):
            flags[places] |= self.locations.contains(named).to_numpy(zero_copy_only=False)
        return pa.array(flags)


def _hashes(locations: pa.Array) -> Hashes:
    """Hash most rows by their own bytes, the others by their spelled-out key."""
    spans = byte_strings(locations)
    skipped, plain = _plain(locations, spans)
    hashes = np.empty(len(locations), np.uint64)
    starts, lengths = spans.starts[plain] + skipped, spans.lengths[plain] - skipped
    hashes[plain] = byte_hashes(Spans(spans.content, starts, lengths))
    if not plain.all():
        keys = loosest_keys(pa.chunked_array([locations.filter(pa.array(~plain))]))
        hashes[~plain] = byte_hashes(byte_strings(keys.combine_chunks()))
    return hashes


def _plain(locations: pa.Array, spans: Spans) -> tuple[int, Flags]:
    """Return the length of a prefix that most rows share, and the rows whose rest is their key.

    The prefix is that of the first row, up to the first slash of its path.
    """
    before = before_path(locations[0].as_py()).encode()
    if not before.endswith(b"/"):
        return 0, np.zeros(len(locations), np.bool_)
    plain = pc.starts_with(locations, before.decode()).to_numpy(zero_copy_only=False)
    first = int(spans.starts[0])
    octets = spans.content[first : int(spans.starts[-1] + spans.lengths[-1])]
    slashes = octets == ord("/")
    dotted = slashes[:-1] & (octets[1:] == ord("."))
    plain[_rows(spans, np.flatnonzero(dotted) + first)] = False
    doubled = slashes[:-1] & slashes[1:]
    usual = sum(before[place : place + 2] == b"//" for place in range(len(before)))
    if not plain.all() or np.count_nonzero(doubled) != usual * len(plain):
        places = np.flatnonzero(doubled) + first + 1
        rows = _rows(spans, places)
        plain[rows[places >= spans.starts[rows] + len(before)]] = False
    plain[_rows(spans, np.flatnonzero(octets == ord("%")) + first)] = False
    return len(before) - 1, plain


def _rows(spans: Spans, places: Integers) -> Integers:
    return np.searchsorted(spans.starts, places, side="right") - 1
