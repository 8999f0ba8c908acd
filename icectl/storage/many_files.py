"""Files by the million: a part of them is in memory, the others wait on disk."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from icectl.entries.files import (
    SCHEMA,
    AnyFiles,
    FileKind,
    Files,
    ListedFile,
    ListedFiles,
    count_by_kind,
    each_row,
    listed_files,
    total_bytes,
)
from icectl.storage.listing import LISTING_SCHEMA
from icectl.storage.spill import Spill

_SORTED_ROWS = 1 << 17
"""Rows that are sorted at once."""
_MOST_RANGES = 256
_SAMPLED = 50_000


class _Parts(Generic[AnyFiles]):
    """Files on disk; a subclass decides in which part each is.

    Cost: memory of 8 MiB; what is more is on disk.
    """

    schema: pa.Schema
    of: type[AnyFiles]
    part_count = 1

    def __init__(self, added: Iterable[AnyFiles] = ()) -> None:
        self._rows = Spill(self.schema, self.part_count)
        self._count = self._bytes = 0
        for part in added:
            self.add(part)

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[AnyFiles]:
        for number in range(self.part_count):
            yield from self._part(number)

    @property
    def total_bytes(self) -> int:
        return self._bytes

    def add(self, part: AnyFiles) -> None:
        """Take in files.

        Raises: StorageError, where there is no room for them on disk; they are taken in then, too.
        """
        self._count += len(part)
        self._bytes += total_bytes(part)
        for batch in part.table.combine_chunks().to_batches():
            self._rows.add(self._parts_of(batch), batch)

    def _part(self, number: int) -> Iterator[AnyFiles]:
        for batch in self._rows.read(number):
            yield self.of(pa.Table.from_batches([batch]))

    def _parts_of(self, batch: pa.RecordBatch) -> npt.NDArray[Any]:
        return np.zeros(batch.num_rows, np.uint8)


class ManyFiles(_Parts[ListedFiles]):
    """Files of a listing; iteration yields parts of them, in the order in which they were added."""

    schema = LISTING_SCHEMA
    of = ListedFiles


class FilesByKind(_Parts[Files]):
    """Files of a table; iteration yields parts, each of one kind, in the order of deletion (R-191).

    Order: within a kind as added.
    """

    schema = SCHEMA
    of = Files
    part_count = len(FileKind)

    def __init__(self, added: Iterable[Files] = ()) -> None:
        self.counts = Counter(dict.fromkeys(FileKind, 0))
        super().__init__(added)

    @property
    def content_count(self) -> int:
        """How many data and delete files there are."""
        return sum(count for kind, count in self.counts.items() if kind < FileKind.MANIFESTS)

    def add(self, part: Files) -> None:
        if len(part):
            self.counts.update(count_by_kind(part))
            super().add(part)

    def of_kind(self, kind: FileKind) -> Iterator[Files]:
        """Yield the files of one kind by parts. Order: as added."""
        return self._part(int(kind))

    def rows(self) -> Iterator[tuple[str, FileKind, int | None]]:
        """Yield (location, kind, size in bytes) of every file, few at once."""
        return chain.from_iterable(map(each_row, self))

    def locations(self) -> Iterator[str]:
        return (location for location, _, _ in self.rows())

    def _parts_of(self, batch: pa.RecordBatch) -> npt.NDArray[Any]:
        return np.asarray(batch["kind"].to_numpy())


def each_file(listed: Iterable[ListedFiles]) -> Iterator[ListedFile]:
    """Yield every file. Order: kept."""
    return chain.from_iterable(map(listed_files, listed))


def first_files(listed: Iterable[ListedFiles], count: int) -> list[ListedFile]:
    """Return the first files, at most `count`. Order: kept."""
    return list(islice(each_file(listed), count))


def first_of_sizes(listed: Iterable[ListedFiles], sizes: Collection[int]) -> Mapping[int, str]:
    """Return for each of some sizes in bytes the location of the first file that has it."""
    found: dict[int, str] = {}
    sought = pa.array(sizes, pa.int64())
    for part in listed if sizes else ():
        alike = part.table.filter(pc.is_in(part.table["size_bytes"], sought))
        for size in pc.unique(alike["size_bytes"]).to_pylist():
            place = pc.index(alike["size_bytes"], size).as_py()
            found.setdefault(size, alike["location"][place].as_py())
    return found


Many = TypeVar("Many", bound=_Parts[Any])


def by_location(listed: Many) -> Many:
    """Return the files, sorted by location, within their kind if they are by kind.

    Raises: StorageError. Cost: memory for a million files, and twice the disk.
    """
    ends = _ends(listed)
    ranges = Spill(listed.schema, len(ends) + 1)
    for part in listed:
        batch = part.table.sort_by("location").combine_chunks().to_batches()[0]
        lengths = np.diff([0, *_places(batch["location"], ends), batch.num_rows])
        ranges.add(np.repeat(np.arange(len(lengths), dtype=np.uint8), lengths), batch)
    sorted_ranges = (listed.of(table.sort_by("location")) for table in ranges.tables())
    ordered = type(listed)(sorted_ranges)
    ranges.close()
    return ordered


def _places(locations: pa.Array, sought: Sequence[str]) -> list[int]:
    """Return how many of sorted locations are before each of others."""
    rows = range(len(locations))
    return [bisect_left(rows, one, key=lambda row: locations[row].as_py()) for one in sought]


def _ends(listed: _Parts[Any]) -> list[str]:
    """Return the locations that divide files into ranges of as many each; none for few files."""
    count = min(len(listed) // _SORTED_ROWS + 1, _MOST_RANGES)
    if count == 1:
        return []
    step = len(listed) // _SAMPLED + 1
    sampled = [part.table["location"].take(pa.array(range(0, len(part), step))) for part in listed]
    sample = sorted(chain.from_iterable(some.to_pylist() for some in sampled))
    return [sample[number * len(sample) // count] for number in range(1, count)]
