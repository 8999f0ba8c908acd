"""Updates of table metadata and their requirements, in the terms of the REST catalog."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import get_args

from icectl.errors import Refused
from icectl.format.expressions import guard, link_specs, without_links
from icectl.format.layout import Layout, layout_of, layout_of_table
from icectl.format.locations import scheme_of, with_locations, with_scheme
from icectl.format.metadata import TableMetadata
from icectl.format.metadata_json import NEWEST_VERSION
from icectl.format.properties import PREVIOUS_VERSIONS_MAX, read_or_default
from icectl.format.snapshot import (
    MetadataLogEntry,
    PartitionStatisticsFile,
    Snapshot,
    SnapshotLogEntry,
    SnapshotRef,
    StatisticsFile,
)


@dataclass(frozen=True, slots=True)
class AssignUuid:
    """Give the table its UUID; one that it has never changes."""

    uuid: str


@dataclass(frozen=True, slots=True)
class UpgradeFormatVersion:
    """Raise the format version (R-170, R-174); `layout` is that of snapshots from version 4 on."""

    format_version: int
    layout: Layout = Layout.SFC_1


@dataclass(frozen=True, slots=True)
class SetLayout:
    """Have a table of version 4 write its snapshots in another layout; older ones stay.

    No catalog but one that keeps a pointer has such an update. Roots have to be gone before a table
    keeps manifest lists.
    """

    layout: Layout


@dataclass(frozen=True, slots=True)
class AddSnapshot:
    """Add a snapshot; which ref shows it is another update."""

    snapshot: Snapshot


@dataclass(frozen=True, slots=True)
class RemoveSnapshots:
    """Forget snapshots, refs to them, their statistics and their part of the history."""

    snapshot_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SetManifestList:
    """Give a snapshot that embeds its manifests, or has a root, a list of the same (R-055, R-050).

    The REST catalog has no such update: it is for file-system tables.
    """

    snapshot_id: int
    manifest_list: str


@dataclass(frozen=True, slots=True)
class SetSnapshotRef:
    """Create or move a branch or tag."""

    name: str
    ref: SnapshotRef


@dataclass(frozen=True, slots=True)
class RemoveSnapshotRef:
    """Drop a branch or tag; main only where there is no snapshot."""

    name: str


@dataclass(frozen=True, slots=True)
class SetProperties:
    """Set table properties."""

    updates: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class RemoveProperties:
    """Drop table properties."""

    removals: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SetStatistics:
    """Name the statistics file of a snapshot, in the place of those it has."""

    statistics: StatisticsFile


@dataclass(frozen=True, slots=True)
class SetPartitionStatistics:
    """Name the partition statistics file of a snapshot, in the place of the one it has."""

    statistics: PartitionStatisticsFile


@dataclass(frozen=True, slots=True)
class RemoveStatistics:
    """Forget the statistics files of a snapshot."""

    snapshot_id: int


@dataclass(frozen=True, slots=True)
class RemovePartitionStatistics:
    """Forget the partition statistics file of a snapshot."""

    snapshot_id: int


@dataclass(frozen=True, slots=True)
class RemoveSchemas:
    """Forget schemas that nothing refers to; never the current one."""

    schema_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RemovePartitionSpecs:
    """Forget partition specs that nothing refers to; never the default one."""

    spec_ids: tuple[int, ...]


Update = (
    AssignUuid
    | UpgradeFormatVersion
    | SetLayout
    | AddSnapshot
    | RemoveSnapshots
    | SetManifestList
    | SetSnapshotRef
    | RemoveSnapshotRef
    | SetProperties
    | RemoveProperties
    | SetStatistics
    | SetPartitionStatistics
    | RemoveStatistics
    | RemovePartitionStatistics
    | RemoveSchemas
    | RemovePartitionSpecs
)

ALL_UPDATES: frozenset[type[Update]] = frozenset(get_args(Update))
"""Every kind of change that there is."""


def apply(metadata: TableMetadata, update: Update) -> TableMetadata:
    """Return the metadata after one update. Raises: Refused, when the update breaks a rule."""
    match update:
        case AssignUuid():
            return _assign_uuid(metadata, update)
        case UpgradeFormatVersion():
            return _upgrade(metadata, update)
        case SetLayout():
            return _set_layout(metadata, update)
        case AddSnapshot():
            return _add_snapshot(metadata, update)
        case RemoveSnapshots():
            return _remove_snapshots(metadata, update)
        case SetManifestList():
            return _set_manifest_list(metadata, update)
        case SetSnapshotRef(name, ref):
            return _set_ref(metadata, name, ref)
        case RemoveSnapshotRef():
            return _remove_ref(metadata, update)
        case SetProperties(updates):
            return replace(metadata, properties={**metadata.properties, **updates})
        case RemoveProperties(removals):
            kept = {key: value for key, value in metadata.properties.items() if key not in removals}
            return replace(metadata, properties=kept)
        case SetStatistics() | SetPartitionStatistics():
            return _set_statistics(metadata, update)
        case RemoveStatistics() | RemovePartitionStatistics():
            return _remove_statistics(metadata, update)
        case RemoveSchemas():
            return _remove_schemas(metadata, update)
        case RemovePartitionSpecs():
            return _remove_specs(metadata, update)


def apply_all(metadata: TableMetadata, updates: Iterable[Update]) -> TableMetadata:
    """Return the metadata after all updates, in their order."""
    for update in updates:
        metadata = apply(metadata, update)
    return metadata


def with_log(
    metadata: TableMetadata, previous_location: str, now_ms: int
) -> tuple[TableMetadata, tuple[str, ...]]:
    """The metadata as it is written: the replaced file in the log, the time set (R-017, R-024).

    Second: locations of the metadata files that fell off the log, oldest first. `metadata` still
    carries the `last_updated_ms` of the file it replaces.
    """
    scheme = scheme_of(metadata)
    if scheme:
        previous_location = with_scheme(scheme, previous_location)
    entry = MetadataLogEntry(metadata.last_updated_ms, previous_location)
    keep = read_or_default(metadata.properties, PREVIOUS_VERSIONS_MAX)
    log = (*metadata.metadata_log, entry)
    dropped = tuple(old.metadata_file for old in log[:-keep])
    # A snapshot newer than the replaced file is current from its own time on, as the reference
    # implementation has it; one that the table had before is current from now on.
    snapshot, history = metadata.current_snapshot, metadata.snapshot_log
    if snapshot is not None and (not history or history[-1].snapshot_id != snapshot.snapshot_id):
        is_new = not history or snapshot.timestamp_ms > metadata.last_updated_ms
        from_ms = snapshot.timestamp_ms if is_new else now_ms
        history = (*history, SnapshotLogEntry(from_ms, snapshot.snapshot_id))
    written = replace(
        metadata, snapshot_log=history, metadata_log=log[-keep:], last_updated_ms=now_ms
    )
    return written, dropped


def _assign_uuid(metadata: TableMetadata, update: AssignUuid) -> TableMetadata:
    if metadata.table_uuid not in (None, update.uuid):
        raise Refused(f"the table has the UUID {metadata.table_uuid}; it cannot change")
    return replace(metadata, table_uuid=update.uuid)


def _upgrade(metadata: TableMetadata, update: UpgradeFormatVersion) -> TableMetadata:
    """Change the version alone: files of older versions stay valid (R-003, R-175)."""
    old, new = metadata.format_version, update.format_version
    if new < old:
        raise Refused(f"a table of version {old} cannot become one of version {new}")
    if new > NEWEST_VERSION:
        raise Refused(f"version {new} is not written; the newest is {NEWEST_VERSION}")
    if new > 1 and metadata.table_uuid is None:
        raise Refused("the table has no UUID, which version 2 requires")
    next_row_id = 0 if old < 3 <= new else metadata.next_row_id
    upgraded = replace(metadata, format_version=new, next_row_id=next_row_id)
    if old == 1:  # numbers in version 1 mean nothing
        snapshots = tuple(replace(item, sequence_number=0) for item in metadata.snapshots)
        upgraded = replace(upgraded, snapshots=snapshots, last_sequence_number=0)
    if not old < 4 <= new:
        return upgraded
    if update.layout is Layout.MANIFEST_LISTS:
        return _with_schemes(replace(upgraded, keeps_manifest_lists=True))
    return _guarded(_with_expressions(_with_schemes(upgraded)))


def _set_layout(metadata: TableMetadata, update: SetLayout) -> TableMetadata:
    if metadata.format_version < 4 or layout_of_table(metadata) is update.layout:
        raise Refused(f"the table does not become one of layout {update.layout}")
    if update.layout is Layout.SFC_1:
        whole = _with_schemes(replace(metadata, keeps_manifest_lists=False))
        return _guarded(_with_expressions(whole))
    rooted = [
        snapshot.snapshot_id
        for snapshot in metadata.snapshots
        if layout_of(snapshot) is Layout.SFC_1
    ]
    if rooted:
        raise Refused(f"snapshot {rooted[0]} has a root, and no manifest list")
    specs = without_links(metadata.partition_specs, metadata.default_spec_id)
    return replace(metadata, partition_specs=specs, expressions=(), keeps_manifest_lists=True)


def _set_statistics(
    metadata: TableMetadata, update: SetStatistics | SetPartitionStatistics
) -> TableMetadata:
    """Name a statistics file in the place of those that its snapshot has (R-140, R-142)."""
    added = update.statistics
    if metadata.snapshot(added.snapshot_id) is None:
        raise Refused(f"the table has no snapshot {added.snapshot_id}, which statistics are of")
    if isinstance(added, StatisticsFile):
        metadata = _remove_statistics(metadata, RemoveStatistics(added.snapshot_id))
        return replace(metadata, statistics=(*metadata.statistics, added))
    metadata = _remove_statistics(metadata, RemovePartitionStatistics(added.snapshot_id))
    return replace(metadata, partition_statistics=(*metadata.partition_statistics, added))


def _remove_statistics(
    metadata: TableMetadata, update: RemoveStatistics | RemovePartitionStatistics
) -> TableMetadata:
    id_ = update.snapshot_id
    if isinstance(update, RemoveStatistics):
        kept = tuple(file for file in metadata.statistics if file.snapshot_id != id_)
        return replace(metadata, statistics=kept)
    files = tuple(file for file in metadata.partition_statistics if file.snapshot_id != id_)
    return replace(metadata, partition_statistics=files)


def _with_schemes(metadata: TableMetadata) -> TableMetadata:
    """Complete all locations with the scheme of the table's (sfc-1 L2)."""
    complete = partial(with_scheme, metadata.location)
    return with_locations(replace(metadata, location=complete(metadata.location)), complete)


def _with_expressions(metadata: TableMetadata) -> TableMetadata:
    """Name what partition fields compute (sfc-1 2.4)."""
    last_id = metadata.last_column_id
    specs, expressions = link_specs(metadata.partition_specs, metadata.schemas, last_id)
    last_id += len(expressions)  # V4-009
    return replace(metadata, partition_specs=specs, expressions=expressions, last_column_id=last_id)


def _guarded(metadata: TableMetadata) -> TableMetadata:
    """Add a spec that other engines refuse, where none is (see `guard`)."""
    expr_id, field_id = metadata.last_column_id + 1, max(metadata.last_partition_id, 999) + 1
    added = guard(metadata.partition_specs, metadata.current_schema, expr_id, field_id)
    if added is None:
        return metadata
    spec, expression = added
    return replace(
        metadata,
        partition_specs=(*metadata.partition_specs, spec),
        expressions=(*metadata.expressions, expression),
        last_column_id=expr_id,
        last_partition_id=field_id,
    )


def _add_snapshot(metadata: TableMetadata, update: AddSnapshot) -> TableMetadata:
    snapshot = update.snapshot
    if metadata.snapshot(snapshot.snapshot_id) is not None:
        raise Refused(f"snapshot id {snapshot.snapshot_id} is already used")
    last = metadata.last_sequence_number
    if metadata.format_version > 1 and snapshot.sequence_number <= last:
        raise Refused(f"sequence number {snapshot.sequence_number} is not above {last}")
    next_row_id = metadata.next_row_id
    if next_row_id is not None:
        if snapshot.first_row_id != next_row_id:
            raise Refused(f"first row id {snapshot.first_row_id} is not {next_row_id}")
        if snapshot.added_rows is None:
            raise Refused(f"snapshot {snapshot.snapshot_id} does not say how many rows it adds")
        next_row_id += snapshot.added_rows
    return replace(
        metadata,
        snapshots=(*metadata.snapshots, snapshot),
        last_sequence_number=max(last, snapshot.sequence_number),
        next_row_id=next_row_id,
    )


def _remove_snapshots(metadata: TableMetadata, update: RemoveSnapshots) -> TableMetadata:
    gone = set(update.snapshot_ids) & set(metadata.snapshots_by_id)
    if metadata.current_snapshot_id in gone:
        raise Refused(f"snapshot {metadata.current_snapshot_id} is the current one")
    if not gone:
        return metadata
    kept = tuple(item for item in metadata.snapshots if item.snapshot_id not in gone)
    ids, log = {item.snapshot_id for item in kept}, metadata.snapshot_log
    unknown = [position for position, item in enumerate(log) if item.snapshot_id not in ids]
    return replace(
        metadata,
        snapshots=kept,
        refs={name: ref for name, ref in metadata.refs.items() if ref.snapshot_id not in gone},
        snapshot_log=log[unknown[-1] + 1 :] if unknown else log,
        statistics=tuple(f for f in metadata.statistics if f.snapshot_id not in gone),
        partition_statistics=tuple(
            file for file in metadata.partition_statistics if file.snapshot_id not in gone
        ),
    )


def _set_manifest_list(metadata: TableMetadata, update: SetManifestList) -> TableMetadata:
    snapshot = metadata.snapshot(update.snapshot_id)
    if snapshot is None or snapshot.manifest_list is not None:
        raise Refused(f"no snapshot {update.snapshot_id} lacks a manifest list")
    listed = replace(
        snapshot, manifest_list=update.manifest_list, manifests=None, root_manifest=None
    )
    snapshots = tuple(listed if item is snapshot else item for item in metadata.snapshots)
    return replace(metadata, snapshots=snapshots)


def _set_ref(metadata: TableMetadata, name: str, ref: SnapshotRef) -> TableMetadata:
    if metadata.snapshot(ref.snapshot_id) is None:
        raise Refused(f"snapshot {ref.snapshot_id} is not in the table")
    if ref.type not in ("branch", "tag") or (name == "main" and ref.type != "branch"):
        raise Refused(f"`{name}` cannot be a {ref.type}")
    if ref.type == "tag" and (ref.min_snapshots_to_keep or ref.max_snapshot_age_ms):
        raise Refused(f"tag `{name}` keeps one snapshot and has no retention of snapshots")
    settings = (ref.min_snapshots_to_keep, ref.max_snapshot_age_ms, ref.max_ref_age_ms)
    if any(value is not None and value <= 0 for value in settings):
        raise Refused(f"a retention setting of `{name}` is not positive")
    refs = {**metadata.refs, name: ref}
    current = ref.snapshot_id if name == "main" else metadata.current_snapshot_id
    return replace(metadata, refs=refs, current_snapshot_id=current)


def _remove_ref(metadata: TableMetadata, update: RemoveSnapshotRef) -> TableMetadata:
    if update.name == "main" and metadata.current_snapshot_id is not None:
        raise Refused("branch main cannot be removed")
    refs = {name: ref for name, ref in metadata.refs.items() if name != update.name}
    return replace(metadata, refs=refs)


def _remove_schemas(metadata: TableMetadata, update: RemoveSchemas) -> TableMetadata:
    if metadata.current_schema_id in update.schema_ids:
        raise Refused(f"schema {metadata.current_schema_id} is the current one")
    in_use = [s.schema_id for s in metadata.snapshots if s.schema_id in update.schema_ids]
    if in_use:
        raise Refused(f"schema {in_use[0]} is that of a snapshot")
    kept = tuple(item for item in metadata.schemas if item.schema_id not in update.schema_ids)
    return replace(metadata, schemas=kept)


def _remove_specs(metadata: TableMetadata, update: RemovePartitionSpecs) -> TableMetadata:
    if metadata.default_spec_id in update.spec_ids:
        raise Refused(f"partition spec {metadata.default_spec_id} is the default one")
    kept = tuple(item for item in metadata.partition_specs if item.spec_id not in update.spec_ids)
    return replace(metadata, partition_specs=kept)


@dataclass(frozen=True, slots=True)
class AssertTableUuid:
    """The table is still the same table (R-002)."""

    uuid: str


@dataclass(frozen=True, slots=True)
class AssertRefSnapshotId:
    """A ref still shows the same snapshot; None: the ref does not exist."""

    name: str
    snapshot_id: int | None


@dataclass(frozen=True, slots=True)
class AssertCurrentSchemaId:
    """The current schema is unchanged (R-155)."""

    schema_id: int


@dataclass(frozen=True, slots=True)
class AssertDefaultSpecId:
    """The default partition spec is unchanged (R-155)."""

    spec_id: int


Requirement = AssertTableUuid | AssertRefSnapshotId | AssertCurrentSchemaId | AssertDefaultSpecId

_REMOVALS = (RemoveSnapshots, RemoveSnapshotRef, RemoveSchemas, RemovePartitionSpecs)


def requirements_of(metadata: TableMetadata, updates: Sequence[Update]) -> tuple[Requirement, ...]:
    """Find what must still be so for the updates to mean what they meant on `metadata`.

    A removal requires every ref at its head: one that another writer has set since may need what
    is removed. New snapshots require the schema and the spec that they were made for (R-155).
    """
    requirements: list[Requirement] = []
    if metadata.table_uuid is not None:
        requirements.append(AssertTableUuid(metadata.table_uuid))
    for update in updates:
        if isinstance(update, SetSnapshotRef):
            requirements.append(_at_its_head(metadata, update.name))
        elif isinstance(update, _REMOVALS):
            requirements += [_at_its_head(metadata, name) for name in metadata.refs]
        if isinstance(update, AddSnapshot | RemoveSchemas):
            requirements.append(AssertCurrentSchemaId(metadata.current_schema_id))
        if isinstance(update, AddSnapshot | RemovePartitionSpecs):
            requirements.append(AssertDefaultSpecId(metadata.default_spec_id))
    return tuple(dict.fromkeys(requirements))


def _at_its_head(metadata: TableMetadata, name: str) -> AssertRefSnapshotId:
    ref = metadata.refs.get(name)
    return AssertRefSnapshotId(name, None if ref is None else ref.snapshot_id)


def check(metadata: TableMetadata, requirement: Requirement) -> str | None:
    """Tell why a requirement does not hold; None where it does."""
    match requirement:
        case AssertTableUuid(required):
            actual: str | int | None = metadata.table_uuid
            message = f"the table's UUID is {actual}, not {required}"
        case AssertRefSnapshotId(name, required):
            actual = _at_its_head(metadata, name).snapshot_id
            message = f"ref `{name}` is at {actual or 'no snapshot'}, not {required or 'absent'}"
        case AssertCurrentSchemaId(required):
            actual = metadata.current_schema_id
            message = f"the current schema is {actual}, not {required}"
        case AssertDefaultSpecId(required):
            actual = metadata.default_spec_id
            message = f"the default partition spec is {actual}, not {required}"
    return None if actual == required else message
