"""Files that an expiry deletes and keeps, by parts: one is in memory, the others are on disk."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from icectl.entries.columns import Hashes, Mask, Spans, byte_hashes, byte_strings, mask_of
from icectl.entries.files import SCHEMA, FileKind, Files, of_kind
from icectl.storage.spill import Spill
from icectl.table.known_locations import PARTS, KnownLocations, parts_of
from icectl.table.reachable import key_hashes


class FileParts:
    """Files by the part that the hash of their key is in; iteration yields each part once.

    Two files of one key are in one part. Order: within a part, as added.
    Cost: memory of 8 MiB; the rows on disk, compressed.
    """

    def __init__(self) -> None:
        self._rows = Spill(SCHEMA, PARTS)

    def add(self, listed: Files, hashes: Hashes) -> None:
        """Take in files, with hashes of their keys as key_hashes has them. Raises: StorageError."""
        parts, start = parts_of(hashes), 0
        for batch in listed.table.to_batches():
            self._rows.add(parts[start : start + batch.num_rows], batch)
            start += batch.num_rows

    def __iter__(self) -> Iterator[Files]:
        for number in range(PARTS):
            yield Files(pa.Table.from_batches(self._rows.read(number), SCHEMA))


class KeptFiles:
    """Of the files that stay, those that matter to the files that may be deleted.

    They may be one of these, under any name of its folder, or as large as one (R-034), or a check
    sum of one. All of that is decided by hashes that may be the same by accident: the texts of what
    `matter` holds decide. Of other files nothing is kept.
    Cost: memory of 24 bytes for each of the files that may be deleted; disk for what matters.
    """

    def __init__(self, *deletable: Iterable[Files], local: bool) -> None:
        self.matter = FileParts()
        self.has_equality_deletes = False
        self._keys = KnownLocations()
        self._names = KnownLocations() if local else None
        sizes = [np.empty(0, np.int64)]
        for part in chain(*deletable):
            self._keys.add_hashes(key_hashes(part.table["key"]))
            sizes.append(np.unique(_sizes(part)))
            if self._names is not None:
                self._names.add_hashes(_name_hashes(part))
        self._sizes = np.unique(np.concatenate(sizes))

    def add(self, listed: Files, hashes: Hashes) -> None:
        """Take in files that stay, with hashes of their keys. Raises: StorageError."""
        matters = self._keys.contains_hashes(hashes) | self._are_as_large(listed)
        if self._names is not None:
            matters |= self._names.contains_hashes(_name_hashes(listed))
            matters |= mask_of(pc.ends_with(listed.table["key"], ".crc"))
        if matters.any():
            self.matter.add(Files(listed.table.filter(pa.array(matters))), hashes[matters])
        if not self.has_equality_deletes:
            deletes = of_kind(listed, FileKind.EQUALITY_DELETE_FILES)
            self.has_equality_deletes = len(deletes) > 0

    def add_each(self, listed: Sequence[Files]) -> None:
        """Take in files that stay. Raises: StorageError."""
        for part in listed:
            self.add(part, key_hashes(part.table["key"]))

    def _are_as_large(self, listed: Files) -> Mask:
        if not len(self._sizes):
            return np.zeros(len(listed), np.bool_)
        sizes = _sizes(listed)
        places = np.minimum(np.searchsorted(self._sizes, sizes), len(self._sizes) - 1)
        found: Mask = (self._sizes[places] == sizes) & (sizes >= 0)
        return found


def _sizes(listed: Files) -> npt.NDArray[np.int64]:
    """Return the sizes in bytes, -1 where one is not known. Order: kept."""
    return np.asarray(pc.fill_null(listed.table["size_bytes"], -1).to_numpy(), np.int64)


def _name_hashes(listed: Files) -> Hashes:
    """Return a hash of each name without its folders. Order: kept."""
    hashes = [np.empty(0, np.uint64)]
    for chunk in listed.table["key"].chunks:
        spans = byte_strings(chunk)
        ends = spans.starts + spans.lengths
        if len(ends):
            first = int(spans.starts[0])
            slashes = first + np.flatnonzero(spans.content[first : int(ends[-1])] == ord("/"))
            behind = np.append(first, slashes + 1)  # of each slash, and of none
            starts = np.maximum(spans.starts, behind[np.searchsorted(slashes, ends)])
            hashes.append(byte_hashes(Spans(spans.content, starts, ends - starts)))
    return np.concatenate(hashes)
