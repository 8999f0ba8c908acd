"""Files of a listing by the million: a part of them is in memory, the others wait on disk."""

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import chain, islice

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icectl.entries.files import ListedFile, ListedFiles, listed_files, total_bytes
from icectl.storage.listing import LISTING_SCHEMA
from icectl.storage.spill import Spill

_SORTED_ROWS = 1 << 17
"""Rows that are sorted at once."""
_MOST_RANGES = 256
_SAMPLED = 50_000


class ManyFiles:
    """Files of a listing; iteration yields parts of them, in the order in which they were added.

    Cost: memory of 8 MiB; what is more is on disk.
    """

    def __init__(self, parts: Iterable[ListedFiles] = ()) -> None:
        self._rows = Spill(LISTING_SCHEMA, 1)
        self._count = self._bytes = 0
        for part in parts:
            self.add(part)

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[ListedFiles]:
        for batch in self._rows.read(0):
            yield ListedFiles(pa.Table.from_batches([batch]))

    @property
    def total_bytes(self) -> int:
        return self._bytes

    def add(self, part: ListedFiles) -> None:
        """Take in files.

        Raises: StorageError, where there is no room for them on disk; they are taken in then, too.
        """
        self._count += len(part)
        self._bytes += total_bytes(part)
        for batch in part.table.combine_chunks().to_batches():
            self._rows.add(np.zeros(batch.num_rows, np.uint8), batch)


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


def by_location(listed: ManyFiles) -> ManyFiles:
    """Return the files, sorted by location. Raises: StorageError.

    Cost: memory for a million files, and twice the disk.
    """
    count = min(len(listed) // _SORTED_ROWS + 1, _MOST_RANGES)
    step = len(listed) // _SAMPLED + 1
    sampled = [part.table["location"].take(pa.array(range(0, len(part), step))) for part in listed]
    sample = sorted(chain.from_iterable(some.to_pylist() for some in sampled))
    bounds = [sample[number * len(sample) // count] for number in range(1, count)]
    ranges = Spill(LISTING_SCHEMA, count)
    for part in listed:
        batch = part.table.sort_by("location").combine_chunks().to_batches()[0]
        places = batch["location"]
        rows = range(batch.num_rows)
        starts = [bisect_left(rows, bound, key=lambda row: places[row].as_py()) for bound in bounds]
        lengths = np.diff([0, *starts, batch.num_rows])
        ranges.add(np.repeat(np.arange(count, dtype=np.uint8), lengths), batch)
    sorted_ranges = (ListedFiles(table.sort_by("location")) for table in ranges.tables())
    ordered = ManyFiles(sorted_ranges)
    ranges.close()
    return ordered
