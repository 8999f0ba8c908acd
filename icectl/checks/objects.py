"""The objects that rules check, among them columns of manifests as arrays."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from icectl.checks.bound_types import BoundTypes
from icectl.checks.live_entries import LiveFaults, fault_of
from icectl.checks.rule import Breach, Check, located
from icectl.entries.columns import Mask, mask_of
from icectl.entries.rows import ALL_COLUMNS, RawEntries
from icectl.format.manifest import (
    Content,
    FileFormat,
    ManifestContent,
    ManifestFile,
    ManifestHeader,
)
from icectl.format.metadata import TableMetadata
from icectl.format.partition import PartitionField, PartitionSpec
from icectl.format.rule import Fault, Severity
from icectl.format.snapshot import Snapshot, SnapshotRef
from icectl.format.types import NestedField, type_text

METADATA = "metadata"
"""The subject of findings on the table metadata."""

ALL_VERSIONS = range(1, 5)
"""The format versions of tables."""

CHECKED_COLUMNS: frozenset[str] = ALL_COLUMNS - {"key_metadata"}
"""The columns of a manifest that rules are checked on."""

Numbers = npt.NDArray[Any]

T = TypeVar("T")

_MAPS = ("value_counts", "lower_bounds")
"""The largest columns, which come in several pieces where they are too large for one."""


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


@dataclass(frozen=True, slots=True)
class ListedChain:
    """The manifests of several snapshots by id, to be compared with each other's summaries."""

    metadata: TableMetadata
    lists: Mapping[int, Sequence[ManifestFile]]
    subject: str = METADATA


def in_snapshots(
    what: str,
    wrong: Callable[[Snapshot, TableMetadata], bool],
    severity: Severity | None = None,
    hint: str | None = None,
) -> Check[MetadataFile]:
    """Check each snapshot; `what` is formatted with it as `one`, and with the `metadata`."""

    def search(file: MetadataFile) -> Iterator[Breach]:
        metadata = file.metadata
        for snapshot in metadata.snapshots:
            if wrong(snapshot, metadata):
                message = what.format(one=snapshot, metadata=metadata)
                yield Breach(message, f"snapshot {snapshot.snapshot_id}", severity, hint)

    return Check(MetadataFile, search)


def in_refs(
    what: str, wrong: Callable[[str, SnapshotRef, TableMetadata], bool]
) -> Check[MetadataFile]:
    """Check each ref of the metadata by its name; `what` is formatted with it as `one`."""

    def search(file: MetadataFile) -> Iterator[Breach]:
        for name, one in file.metadata.refs.items():
            if wrong(name, one, file.metadata):
                yield Breach(what.format(one=one), f"{one.type} {name}")

    return Check(MetadataFile, search)


def in_columns(what: str, wrong: Callable[[NestedField], bool]) -> Check[MetadataFile]:
    """Check each column of each schema; `what` is formatted with `one`, its `name` and `type`."""

    def search(file: MetadataFile) -> Iterator[Breach]:
        for schema in file.metadata.schemas:
            for id_, one in schema.all_fields.items():
                if wrong(one):
                    type_ = type_text(one.type)
                    message = what.format(one=one, name=schema.name_of(id_), type=type_)
                    yield Breach(message, f"schema {schema.schema_id}")

    return Check(MetadataFile, search)


def in_partition_fields(
    what: str,
    wrong: Callable[[PartitionField, PartitionSpec, TableMetadata], bool],
    severity: Severity | None = None,
) -> Check[MetadataFile]:
    """Check each field of each partition spec; `what` is formatted with it as `one`."""

    def search(file: MetadataFile) -> Iterator[Breach]:
        for spec in file.metadata.partition_specs:
            for one in spec.fields:
                if wrong(one, spec, file.metadata):
                    yield Breach(what.format(one=one), f"partition spec {spec.spec_id}", severity)

    return Check(MetadataFile, search)


def in_lists(
    what: str,
    wrong: Callable[[ManifestFile, ManifestList], bool],
    severity: Severity | None = None,
    *,
    versions: Collection[int] = ALL_VERSIONS,
) -> Check[ManifestList]:
    """Check each manifest that a snapshot lists, in tables of some format versions.

    `what` is formatted with its row as `one`, and with the list as `listed`.
    """

    def search(listed: ManifestList) -> Iterator[Breach]:
        if listed.metadata.format_version in versions:
            for manifest in listed.manifests:
                if wrong(manifest, listed):
                    message = what.format(one=manifest, listed=listed)
                    yield Breach(message, manifest.manifest_path, severity)

    return Check(ManifestList, search)


# -- entries of manifests -------------------------------------------------------------------------


class Columns:
    """The columns of a manifest's entries as arrays, each made once for all checks."""

    def __init__(self, rows: RawEntries) -> None:
        self.table = rows.table
        self._numbers: dict[str, Numbers] = {}
        self._absent: dict[str, Mask] = {}
        self._computed: dict[Callable[..., Any], Any] = {}

    def once(self, compute: Callable[[Any], T]) -> T:
        """Return what several checks need, computed once."""
        if compute not in self._computed:
            self._computed[compute] = compute(self)
        result: T = self._computed[compute]
        return result

    def parts(self) -> Iterator["Columns"]:
        """Yield the same entries in parts whose columns are in one piece each. Order: kept."""
        maps = [name for name in _MAPS if name in self.table.column_names]
        if all(self.table[name].num_chunks <= 1 for name in maps):
            yield self
            return
        for batch in self.table.to_batches():
            yield Columns(RawEntries(pa.Table.from_batches([batch])))

    def numbers(self, name: str) -> Numbers:
        """Return a number column; null is 0."""
        if name not in self._numbers:
            column = self.table[name]
            filled = pc.fill_null(column, 0) if column.null_count else column
            self._numbers[name] = filled.to_numpy()
        return self._numbers[name]

    def absent(self, name: str) -> Mask:
        """Find where a column is null."""
        if name not in self._absent:
            column = self.table[name]
            if column.null_count in (0, len(column)):
                flags = np.full(len(column), column.null_count > 0)
            else:
                flags = mask_of(pc.is_null(column))
            self._absent[name] = flags
        return self._absent[name]

    def present(self, name: str) -> Mask:
        """Find where a column is not null."""
        return ~self.absent(name)

    def of(self, name: str, *values: int) -> Mask:
        """Find where a number column has one of the values."""
        column = self.numbers(name)
        flags = column == values[0]
        for value in values[1:]:
            flags = flags | (column == value)
        return np.asarray(flags, np.bool_)

    def vectors(self) -> Mask:
        """Find where an entry is a deletion vector (R-118)."""
        content = self.of("content", Content.POSITION_DELETES)
        return content & self.of("file_format", FileFormat.PUFFIN)

    def fault(self, mask: Mask) -> Fault | None:
        """Return the entries that a mask chooses."""
        return self.fault_at(np.flatnonzero(mask))

    def fault_at(self, places: Numbers) -> Fault | None:
        """Return the entries at these places, which ascend."""
        return fault_of(places, self.table["location"])


def merge_faults(faults: Iterable[Fault | None]) -> Fault | None:
    """Return the same fault of several parts of a manifest as one."""
    present = [fault for fault in faults if fault is not None]
    return Fault(sum(fault.count for fault in present), present[0].location) if present else None


EntriesKind = tuple[ManifestContent, bool, bool, int]


def kind_of_entries(manifest: ManifestFile, header: ManifestHeader) -> EntriesKind:
    """Return all that checks of entries ask of their manifest, beside the snapshot that added it.

    Content, whether it has sequence numbers and a snapshot id, and the format version.
    """
    has_snapshot = manifest.added_snapshot_id is not None
    has_numbers = manifest.sequence_number != 0
    return manifest.content, has_numbers, has_snapshot, header.format_version


class ManifestEntries(Columns):
    """The entries of one manifest as they are stored, with what they are checked against.

    Those of several manifests of one kind can be checked together: `snapshot_ids` then has the
    snapshot that added the manifest of each entry. Where they break no rule, none of them does.
    """

    def __init__(
        self,
        metadata: TableMetadata,
        manifest: ManifestFile,
        header: ManifestHeader,
        rows: RawEntries,
        bound_types: BoundTypes,
        snapshot_ids: Numbers | None = None,
    ) -> None:
        super().__init__(rows)
        self.metadata = metadata
        self.subject = manifest.manifest_path
        self.bound_types = bound_types
        kind = kind_of_entries(manifest, header)
        self.content, self.has_sequence_numbers, self.has_snapshot, self.format_version = kind
        self.snapshot_ids = manifest.added_snapshot_id if snapshot_ids is None else snapshot_ids

    @property
    def holds_deletes(self) -> bool:
        """Whether it is a manifest of deletes."""
        return self.content is ManifestContent.DELETES

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


# -- snapshots ------------------------------------------------------------------------------------


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
