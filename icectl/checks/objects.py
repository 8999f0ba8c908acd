"""The objects of a table that rules are checked on."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from icectl.checks.bound_types import BoundTypes
from icectl.checks.columns import Columns
from icectl.checks.live_entries import LiveFaults
from icectl.checks.rule import Breach, Check, located
from icectl.entries.columns import Mask
from icectl.entries.rows import ALL_COLUMNS, RawEntries
from icectl.format.manifest import ManifestFile, ManifestHeader
from icectl.format.metadata import TableMetadata
from icectl.format.rule import Fault, Severity
from icectl.format.snapshot import Snapshot

T = TypeVar("T")

METADATA = "metadata"
"""The subject of findings on the table metadata."""

CHECKED_COLUMNS: frozenset[str] = ALL_COLUMNS - {"key_metadata"}
"""The columns of a manifest that rules are checked on."""


@dataclass(frozen=True, slots=True)
class MetadataFile:
    """The table metadata, and the members of its JSON object."""

    metadata: TableMetadata
    members: Mapping[str, Any]
    subject: str = METADATA

    @property
    def version(self) -> int:
        """The format version."""
        return self.metadata.format_version


@dataclass(frozen=True, slots=True)
class CommitBase:
    """The members of the metadata that the next commit builds on, and numbers its rows by."""

    metadata: TableMetadata
    subject: str = METADATA


@dataclass(frozen=True, slots=True)
class ManifestList:
    """The manifests of a snapshot; `properties` are the header of its list, None without a list."""

    metadata: TableMetadata
    snapshot: Snapshot
    properties: Mapping[str, str] | None
    manifests: Sequence[ManifestFile]

    @property
    def subject(self) -> str:
        """The list, or the snapshot that embeds its manifests."""
        return self.snapshot.manifest_list or f"snapshot {self.snapshot.snapshot_id}"


class ManifestEntries(Columns):
    """The entries of one manifest as they are stored, with what they are checked against."""

    def __init__(
        self,
        metadata: TableMetadata,
        manifest: ManifestFile,
        header: ManifestHeader,
        rows: RawEntries,
        bound_types: BoundTypes,
    ) -> None:
        super().__init__(rows)
        self.metadata = metadata
        self.manifest = manifest
        self.header = header
        self.bound_types = bound_types

    @property
    def subject(self) -> str:
        """The manifest."""
        return self.manifest.manifest_path

    @property
    def has_sequence_numbers(self) -> bool:
        """Whether the manifest is not of version 1 (R-046)."""
        return self.manifest.sequence_number != 0

    def breaches(
        self, what: str, wrong: Mask | Fault | None, severity: Severity | None = None
    ) -> Iterator[Breach]:
        """Yield one breach for all entries that have the same thing wrong."""
        fault = self.fault(wrong) if isinstance(wrong, np.ndarray) else wrong
        if fault is not None:
            where = f"in the entry of `{fault.location}`"
            if fault.count > 1:
                where = f"in {fault.count:,} entries; the first is that of `{fault.location}`"
            yield Breach(f"{what} {where}", severity=severity)


def in_entries(
    what: str,
    search: Callable[[ManifestEntries], Mask | Fault | None],
    severity: Severity | None = None,
) -> Check[ManifestEntries]:
    """Check entries of manifests; `search` returns those that break the rule."""
    return Check(ManifestEntries, lambda one: one.breaches(what, search(one), severity))


@dataclass(frozen=True, slots=True)
class StoredManifest:
    """A manifest as stored; `described` are the distinct rows of lists that name it."""

    metadata: TableMetadata
    described: Sequence[ManifestFile]
    header: ManifestHeader
    size_bytes: int
    columns: Columns
    computed: dict[Callable[..., Any], Any] = field(default_factory=dict, compare=False)

    @property
    def subject(self) -> str:
        """The manifest."""
        return self.described[0].manifest_path

    def once(self, compute: Callable[["StoredManifest"], T]) -> T:
        """Return what several checks need, computed once."""
        if compute not in self.computed:
            self.computed[compute] = compute(self)
        result: T = self.computed[compute]
        return result


@dataclass(frozen=True, slots=True)
class LiveSnapshot:
    """The live entries of a snapshot over all of its manifests, which `chosen` flags.

    `is_whole` says that all of its manifests could be read.
    """

    metadata: TableMetadata
    snapshot: Snapshot
    numbers: Sequence[int]
    faults: LiveFaults
    chosen: Mask
    is_whole: bool

    @property
    def subject(self) -> str:
        """The snapshot."""
        return f"snapshot {self.snapshot.snapshot_id}"


def in_live(what: str, search: Callable[[LiveSnapshot], Fault | None]) -> Check[LiveSnapshot]:
    """Check live entries of snapshots; `search` returns those that break the rule."""

    return Check(LiveSnapshot, lambda one: located(one.subject, search(one), what))
