"""Files that an expiry deletes and keeps, by parts: one is in memory, the others are on disk."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icectl.entries.columns import Hashes, Spans, byte_hashes, byte_strings, mask_of
from icectl.entries.files import NO_FILES, SCHEMA, FileKind, Files, in_batches, of_kind
from icectl.storage.spill import Spill
from icectl.table.known_locations import KnownLocations, size_hashes
from icectl.table.reachable import key_hashes

_AT_ONCE = 1 << 13
"""Files that are hashed together: a part may have few."""
_PARTS, _SHIFT = 256, np.uint64(56)
"""Of a hundred million files a part takes some hundred MiB."""


class FileParts:
    """Files by the part that the hash of their key is in; iteration yields each part once.

    Two files of one key are in one part. Order: within a part, as added.
    Cost: memory of 8 MiB; the rows on disk, compressed.
    """

    def __init__(self, added: Iterable[Files] = ()) -> None:
        self._rows = Spill(SCHEMA, _PARTS)
        for part in added:
            self.add(part, key_hashes(part.table["key"]))

    def add(self, listed: Files, hashes: Hashes) -> None:
        """Take in files, with hashes of their keys as key_hashes has them. Raises: StorageError."""
        parts, start = hashes >> _SHIFT, 0
        for batch in listed.table.to_batches():
            self._rows.add(parts[start : start + batch.num_rows], batch)
            start += batch.num_rows

    def __iter__(self) -> Iterator[Files]:
        for number in range(_PARTS):
            batches = [*self._rows.read(number)]
            yield Files(pa.Table.from_batches(batches, SCHEMA)) if batches else NO_FILES


class KeptFiles:
    """Of the files that stay, those that matter to the files that may be deleted.

    They may be one of these, under any name of its folder, or as large as one (R-034), or a check
    sum of one. All of that is decided by hashes that may be the same by accident: the texts of what
    `matter` holds decide. Of other files nothing is kept.
    Cost: memory of 16 bytes for each file that may be deleted; disk for what matters.
    """

    def __init__(self, *deletable: Iterable[Files], local: bool) -> None:
        self.matter = FileParts()
        self.has_equality_deletes = False
        self._local = local
        self._sought, self._sizes = KnownLocations(), KnownLocations()
        for part in in_batches(chain(*deletable), _AT_ONCE):
            hashes = _name_hashes(part) if local else key_hashes(part.table["key"])
            self._sought.add_hashes(hashes)
            self._sizes.add_hashes(size_hashes(part.table["size_bytes"].drop_null()))

    def add(self, listed: Files, hashes: Hashes) -> None:
        """Take in files that stay, with hashes of their keys. Raises: StorageError."""
        sought = _name_hashes(listed) if self._local else hashes  # two of one key have one name
        matters = self._sought.contains_hashes(sought)
        sizes = listed.table["size_bytes"]
        are_known = mask_of(sizes.is_valid())
        matters[are_known] |= self._sizes.contains_hashes(size_hashes(sizes.drop_null()))
        if self._local:
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
