"""The check of a snapshot's live entries where memory can't hold them: part by part."""

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from icectl.checks.live_entries import LiveRows, overlapping
from icectl.checks.rules import RULES
from icectl.entries.columns import (
    LOCATION_HASH,
    Hashes,
    Integers,
    byte_hashes,
    byte_strings,
    distinct_count,
)
from icectl.entries.rows import Entries, live
from icectl.format.manifest import ManifestContent, ManifestFile
from icectl.format.metadata import TableMetadata
from icectl.format.snapshot import Snapshot
from icectl.storage.spill import Spill
from icectl.table.known_locations import HASH, PARTS, parts_of

MOST_WHOLE = 1_000_000
"""Live files that a plan holds as a whole. Of more it holds what it decides by."""

_RANGES = 1_000_000
"""Ranges of row ids that are gathered before adjacent ones become one."""


def _key_hashes(keys: pa.ChunkedArray) -> Hashes:
    hashes = [byte_hashes(byte_strings(chunk)) for chunk in keys.chunks]
    return np.concatenate([np.empty(0, np.uint64), *hashes])


class LiveParts:
    """A doubt about live entries of a snapshot of manifest lists: none where check_live finds none.

    Entries that check_live finds nothing wrong with may be doubtful all the same, by a hash that
    two locations have, or by deletes that are vectors: then the entries as a whole tell.
    Cost: 8 bytes on disk for each live file, 16 in memory for each gap between row ids.
    """

    def __init__(
        self,
        metadata: TableMetadata,
        snapshot: Snapshot,
        manifests: Sequence[ManifestFile],
        hashed: Callable[[pa.ChunkedArray], Hashes] = _key_hashes,
    ) -> None:
        self._metadata = metadata
        self._snapshot = snapshot
        self._has_deletes = any(item.content is ManifestContent.DELETES for item in manifests)
        self._hashed = hashed
        self._is_wrong = False
        self._hashes = Spill(HASH, PARTS)
        self._ranges: list[tuple[Integers, Integers]] = []
        self._range_count = 0

    def add(self, entries: Entries) -> None:
        """Take in entries of some manifests, with their location or its hash."""
        rows = LiveRows(
            live(entries), self._metadata, self._snapshot, beside_deletes=self._has_deletes
        )
        self._is_wrong = self._is_wrong or any(True for _ in RULES.findings(rows))
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
