"""The check of a snapshot's live entries where memory can't hold them: part by part."""

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icectl.checks.live_entries import LiveRows, RowlessFiles, overlapping
from icectl.entries.columns import (
    LOCATION_HASH,
    Hashes,
    Integers,
    distinct_count,
    mask_of,
    text_hashes,
)
from icectl.entries.partition_key import UNKNOWN_KEY
from icectl.entries.rows import Entries, concat, count_by_value, live, where
from icectl.format.layout import Layout, layout_of
from icectl.format.manifest import Content, ManifestContent, ManifestFile
from icectl.format.metadata import TableMetadata
from icectl.format.snapshot import Snapshot
from icectl.storage.spill import Spill
from icectl.table.known_locations import HASH, PARTS, KnownLocations, parts_of
from icectl.table.manifest_lists import snapshot_reader

MOST_WHOLE = 1_000_000
"""Live files that a plan holds as a whole. Of more it holds what it decides by."""

_RANGES = 1_000_000
"""Ranges of row ids that are gathered before adjacent ones become one."""


class LiveParts:
    """A doubt about live entries of a snapshot: none where check_live finds none.

    Entries that check_live finds nothing wrong with may be doubtful all the same, by a hash that
    two locations have, or by deletes that are vectors: then the entries as a whole tell.
    Cost: 8 bytes on disk for each live file, 16 in memory for each gap between row ids; memory for
    the deletes of a root, and the data files that they name.
    """

    def __init__(
        self,
        metadata: TableMetadata,
        snapshot: Snapshot,
        manifests: Sequence[ManifestFile],
        hashed: Callable[[pa.ChunkedArray], Hashes] = text_hashes,
    ) -> None:
        self._metadata = metadata
        self._snapshot = snapshot
        self._reader = snapshot_reader(metadata, snapshot)
        self._has_deletes = any(item.content is ManifestContent.DELETES for item in manifests)
        self._hashed = hashed
        self._rowless = RowlessFiles(metadata, manifests)
        self._manifests = manifests
        self._paired = PairedEntries()
        self._pairs: list[Entries] | None = None
        if layout_of(snapshot) is Layout.SFC_1:
            self._pairs = []
        self._is_wrong = False
        self._hashes = Spill(HASH, PARTS)
        self._ranges: list[tuple[Integers, Integers]] = []
        self._range_count = 0

    def add(self, entries: Entries) -> None:
        """Take in entries of some manifests, with their location or its hash.

        Those of a root have locations, and deletes come before data files.
        """
        entries = live(entries)
        rows = LiveRows(entries, self._metadata, self._snapshot)
        alone = entries
        if self._pairs is not None:
            alone = where(entries, ~rows.is_vector)
            self._pairs.append(self._paired.of(entries))
        manifests = self._manifests if self._pairs is None else ()
        risks = self._reader.risks(
            self._snapshot,
            manifests,
            alone,
            beside_deletes=self._has_deletes,
            rowless=self._rowless,
        )
        self._is_wrong = self._is_wrong or any(True for _ in risks)
        if rows.has(LOCATION_HASH):
            hashes = rows.table[LOCATION_HASH].to_numpy()[~rows.is_vector]
        else:
            hashes = self._hashed(rows.keys("location", ~rows.is_vector))
        batch = pa.RecordBatch.from_arrays([pa.array(hashes)], schema=HASH)
        self._hashes.add(parts_of(hashes), batch)
        if self._metadata.next_row_id is not None and rows.has("first_row_id", "record_count"):
            starts = rows.numbers("first_row_id")
            is_numbered = rows.is_data & (starts >= 0)
            counts = rows.numbers("record_count")[is_numbered]
            self._add_ranges(starts[is_numbered], starts[is_numbered] + counts)

    @property
    def is_doubtful(self) -> bool:
        """Whether something may be wrong with the entries that were added."""
        self._join_ranges()
        if self._pairs:
            pairs = concat(self._pairs)
            risks = self._reader.risks(
                self._snapshot, self._manifests, pairs, rowless=self._rowless
            )
            self._is_wrong = self._is_wrong or any(True for _ in risks)
        return self._is_wrong or self._has_repeats()

    def _has_repeats(self) -> bool:
        read = (part["hash"].to_numpy() for part in self._hashes.tables())
        return any(distinct_count(hashes) < len(hashes) for hashes in read)

    def _add_ranges(self, starts: Integers, ends: Integers) -> None:
        self._ranges.append((starts, ends))
        self._range_count += len(starts)
        if self._range_count > _RANGES:
            self._join_ranges()
            self._range_count = 0

    def _join_ranges(self) -> None:
        """Make one range of those that follow each other; note where some overlap."""
        if not self._ranges:
            return
        starts, ends = (np.concatenate(bounds) for bounds in zip(*self._ranges, strict=True))
        order = np.argsort(starts, kind="stable")
        starts, ends = starts[order], ends[order]
        self._is_wrong = self._is_wrong or len(overlapping(starts, ends)) > 0
        apart = np.flatnonzero(starts[1:] != ends[:-1])
        firsts, lasts = np.append(0, apart + 1), np.append(apart, len(starts) - 1)
        self._ranges = [(starts[firsts], ends[lasts])] if len(starts) else []


class PairedEntries:
    """Finds deletes, and the data files that deletes depend on or name, in parts of live entries.

    Deletes come before data files.
    Cost: memory of 8 bytes for each data file that a delete names.
    """

    def __init__(self) -> None:
        self._named = KnownLocations()

    def of(self, entries: Entries) -> Entries:
        """Return those of some entries. Order: kept."""
        named = entries.table["referenced_data_file"].drop_null()
        if len(named):
            self._named.add(named)
        unknown = pa.scalar(UNKNOWN_KEY, pa.binary())
        is_unknown = mask_of(pc.equal(entries.table["partition_key"], unknown))
        is_named = mask_of(self._named.contains(entries.table["location"]))
        is_delete = entries.table["content"].to_numpy() != Content.DATA
        return where(entries, is_delete | is_unknown | is_named)


class LiveReading:
    """Live entries as they are read: all of them, or what is `reduced` of more than `most_whole`.

    `check` gets all of them then. `counts` are those of the live entries, by manifest.
    """

    def __init__(
        self, check: LiveParts, most_whole: int, reduced: Callable[[Entries], Entries]
    ) -> None:
        self.parts: list[Entries] = []
        self.is_reduced = False
        self.counts: Counter[int] = Counter()
        self._check = check
        self._most_whole = most_whole
        self._reduced = reduced
        self._row_count = 0

    def add(self, entries: Entries) -> None:
        """Take in live entries of some manifests, as LiveParts does."""
        self.parts.append(entries)
        self.counts.update(count_by_value(entries, "manifest"))
        self._row_count += len(entries)
        if self._row_count <= self._most_whole:
            return
        first = len(self.parts) - 1 if self.is_reduced else 0
        self.is_reduced = True
        for at in range(first, len(self.parts)):
            self._check.add(self.parts[at])
            self.parts[at] = self._reduced(self.parts[at])
