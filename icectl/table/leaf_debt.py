"""Which leaves of layout sfc-1 are due to be written again, by what the root says of them: pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from icectl.format.manifest import FileFormat, ManifestFile
from icectl.format.metadata import TableMetadata
from icectl.format.properties import (
    LEGACY_REWRITE_RATIO,
    VECTOR_INLINE_TOTAL_MAX_BYTES,
    VECTOR_REWRITE_RATIO,
    read_or_default,
)
from icectl.units import print_size

_OF_ROOM = 0.5
"""Part of the room for bitmaps in a root above which the leaves with the largest are due."""


@dataclass(frozen=True, slots=True)
class LeafLimits:
    """Shares of entries, and bytes of bitmaps in a root, above which leaves are due."""

    dead_ratio: float = 0.25
    legacy_ratio: float = 0.25
    bitmap_bytes: int = 524_288


DEFAULT_LIMITS = LeafLimits()


@dataclass(frozen=True, slots=True)
class LeafDebt:
    """Leaves that are due, by their number: V4-192, too large bitmaps, and the form of version 2.

    `legacy_entries` and `entries` count those of leaves in the old form, and of all leaves.
    """

    dead: frozenset[int]
    large: frozenset[int]
    legacy: frozenset[int]
    legacy_leaves: int
    legacy_entries: int
    entries: int
    bitmap_bytes: int

    @property
    def due(self) -> frozenset[int]:
        """All leaves that are due."""
        return self.dead | self.large | self.legacy

    @property
    def reasons(self) -> list[str]:
        """Say why leaves are due."""
        reasons = [f"{len(self.dead):,} with many dead rows"] if self.dead else []
        if self.large:
            reasons.append(f"bitmaps of dead rows take {print_size(self.bitmap_bytes)} of the root")
        if self.legacy:
            reasons.append(f"{len(self.legacy):,} in the form of older versions")
        return reasons


def limits_of(metadata: TableMetadata) -> LeafLimits:
    """Return the limits that the properties of a table set; the default for a bad value."""
    room = read_or_default(metadata.properties, VECTOR_INLINE_TOTAL_MAX_BYTES)
    return LeafLimits(
        read_or_default(metadata.properties, VECTOR_REWRITE_RATIO),
        read_or_default(metadata.properties, LEGACY_REWRITE_RATIO),
        int(room * _OF_ROOM),
    )


def leaf_debt(leaves: Mapping[int, ManifestFile], limits: LeafLimits) -> LeafDebt:
    """Judge leaves that may be written again, given by their numbers; the root is none of them."""
    counts = {at: entry_count(leaf) for at, leaf in leaves.items()}
    dead = {at for at, leaf in leaves.items() if leaf.dead_count > limits.dead_ratio * counts[at]}
    legacy = {at for at, leaf in leaves.items() if leaf.file_format is FileFormat.AVRO}
    inline = {at: len(leaf.dead) for at, leaf in leaves.items() if not leaf.dead_locations}
    total, large = sum(inline.values()), set[int]()
    left = total - sum(inline.get(at, 0) for at in dead)
    for at in sorted(inline.keys() - dead, key=lambda place: -inline[place]):
        if left <= limits.bitmap_bytes:
            break
        large.add(at)
        left -= inline[at]
    entries, legacy_entries = sum(counts.values()), sum(counts[at] for at in legacy)
    is_due = legacy_entries > limits.legacy_ratio * entries
    return LeafDebt(
        frozenset(dead),
        frozenset(large),
        frozenset(legacy) if is_due else frozenset(),
        len(legacy),
        legacy_entries,
        entries,
        total,
    )


def legacy_count(leaves: Iterable[ManifestFile]) -> int:
    """Count the leaves in the form of older versions."""
    return sum(leaf.file_format is FileFormat.AVRO for leaf in leaves)


def entry_count(leaf: ManifestFile) -> int:
    """Return the entries that a leaf lists as live, dead ones included."""
    return (leaf.added_files_count or 0) + (leaf.existing_files_count or 0)
