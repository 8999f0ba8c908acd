"""The changes and deletions of an expiry: pure, from a retention decision and the files reached."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import repeat

from icectl.checks.metadata import other_snapshots, snapshots_named
from icectl.entries.files import NO_FILES, Files, once, together, without
from icectl.format.expressions import last_guards
from icectl.format.layout import Layout, layout_of_table
from icectl.format.manifest import ManifestIdentity
from icectl.format.metadata import TableMetadata
from icectl.format.updates import (
    RemovePartitionSpecs,
    RemovePartitionStatistics,
    RemoveSchemas,
    RemoveSnapshotRef,
    RemoveSnapshots,
    RemoveStatistics,
    Update,
)
from icectl.table.retention import Retention
from icectl.table.reviewed import REMOVE_SCHEMA, REMOVE_SPEC, Reviewed


@dataclass(frozen=True, slots=True)
class UnreadablePart:
    """A snapshot or manifest that cannot be read, and why."""

    subject: str
    reason: str


@dataclass(frozen=True, slots=True)
class ManifestCounts:
    """How many manifest files all snapshots have, each once, and how many a plan has read."""

    total: int = 0
    read: int = 0


@dataclass(frozen=True, slots=True)
class ReachedFiles:
    """The files that the snapshots which go, and those which stay, reach.

    Both are in as many parts, and a key in parts of one number only. So are `recorded` files of
    earlier runs. Files that stay are there if they matter to some of these; `replacements` are
    those that may hold copied rows of such. A file may be there several times. `spec_ids` and
    `schema_ids` are those of manifests that stay.
    `unread` is what goes and is lost: the files behind it are unknown. `read` are the manifests
    of what stays that were read: all, or those that leave no data or delete file to go.
    `manifests` counts those of all snapshots, and how many of them were read.
    """

    going: Iterable[Files] = ()
    staying: Iterable[Files] = ()
    recorded: Iterable[Files] = repeat(NO_FILES)
    replacements: Iterable[Files] = ()
    has_equality_deletes: bool = False
    spec_ids: frozenset[int] = frozenset()
    schema_ids: frozenset[int | None] = frozenset()
    unread: tuple[UnreadablePart, ...] = ()
    read: frozenset[ManifestIdentity] = frozenset()
    manifests: ManifestCounts = field(default_factory=ManifestCounts)

    def only_going(self) -> Iterator[Files]:
        """Yield by parts the files that no snapshot which stays reaches, each once (R-191).

        One Puffin file with a live vector is included in what stays (R-194).
        """
        pairs = zip(self.going, self.staying, strict=True)
        for (going, staying), recorded in zip(pairs, self.recorded, strict=False):
            named = together([going, recorded]) if len(recorded) else going
            if len(named):
                yield once(without(named, staying.table["key"]))


@dataclass(frozen=True, slots=True)
class ExpirePlan:
    """One expiry: every snapshot with its fate, and what else leaves the metadata.

    `unlogged_snapshot_ids` are snapshots that stay without a ref's name, but no longer in the
    snapshot log.
    """

    retention: Retention
    schema_ids: tuple[int, ...] = ()
    spec_ids: tuple[int, ...] = ()
    unlogged_snapshot_ids: tuple[int, ...] = ()

    @property
    def changes_table(self) -> bool:
        """Whether there is anything to commit."""
        retention = self.retention
        return bool(retention.expired or retention.refs_removed or self.schema_ids or self.spec_ids)


def plan(
    metadata: TableMetadata,
    retention: Retention,
    reached: ReachedFiles,
    *,
    clean_expired_metadata: bool,
) -> ExpirePlan:
    """Return the expiry of the snapshots that `retention` lets go."""
    schemas: tuple[int, ...] = ()
    spec_ids: tuple[int, ...] = ()
    if clean_expired_metadata:
        specs, used = metadata.partition_specs, reached.spec_ids | {metadata.default_spec_id}
        if layout_of_table(metadata) is Layout.SFC_1:
            used |= last_guards(specs, used)  # those that keep engines away
        spec_ids = tuple(spec.spec_id for spec in specs if spec.spec_id not in used)
        schemas = _unused_schemas(metadata, retention, reached, frozenset(spec_ids))
    return ExpirePlan(
        retention=retention,
        schema_ids=schemas,
        spec_ids=spec_ids,
        unlogged_snapshot_ids=_lost_to_time_travel(metadata, retention),
    )


def restrict_to_reviewed(plan: ExpirePlan, only: Reviewed) -> ExpirePlan:
    """Return the plan without schemas and specs that a plan does not name which was reviewed."""
    schemas, specs = only.subjects(REMOVE_SCHEMA), only.subjects(REMOVE_SPEC)
    return replace(
        plan,
        schema_ids=tuple(id_ for id_ in plan.schema_ids if str(id_) in schemas),
        spec_ids=tuple(id_ for id_ in plan.spec_ids if str(id_) in specs),
    )


def lost_statistics(metadata: TableMetadata) -> tuple[int, ...]:
    """Return the snapshots of statistics that were in the table and are gone (R-141).

    Statistics that name another snapshot of the table stay. So do those of which neither their file
    nor the table says that there was such a snapshot. Order: ascending.
    """
    files = metadata.every_statistics
    known = {item.parent_snapshot_id for item in metadata.snapshots}
    known |= {entry.snapshot_id for entry in metadata.snapshot_log}
    kept = {file.snapshot_id for file in files if other_snapshots(metadata, file)}
    kept |= {file.snapshot_id for file in files if not snapshots_named(file)} - known
    lost = {file.snapshot_id for file in files} - metadata.snapshots_by_id.keys()
    return tuple(sorted(lost - kept))


def _unused_schemas(
    metadata: TableMetadata, retention: Retention, reached: ReachedFiles, specs: frozenset[int]
) -> tuple[int, ...]:
    """Return schemas that nothing which stays refers to (R-185); `specs` are those that go.

    Equality deletes may name columns that only an old schema knows (R-123): with one, all stay.
    """
    kept_ids = {decision.snapshot_id for decision in retention.kept}
    named = {item.schema_id for item in metadata.snapshots if item.snapshot_id in kept_ids}
    if None in named or reached.has_equality_deletes:
        return ()
    used = named | reached.schema_ids | {metadata.current_schema_id}
    kept_specs = (spec for spec in metadata.partition_specs if spec.spec_id not in specs)
    sources = [id_ for spec in kept_specs for field in spec.fields for id_ in field.source_ids]
    orders = metadata.sort_orders
    sources += [id_ for order in orders for field in order.fields for id_ in field.source_ids]
    for source in sources:
        knowing = [item for item in metadata.schemas if item.field(source) is not None]
        if knowing and not any(item.schema_id in used for item in knowing):
            used.add(knowing[-1].schema_id)
    return tuple(s.schema_id for s in metadata.schemas if s.schema_id not in used)


def _lost_to_time_travel(metadata: TableMetadata, retention: Retention) -> tuple[int, ...]:
    """Return kept snapshots without a ref that leave the log with all before a gap (R-026)."""
    expired_ids = {decision.snapshot_id for decision in retention.expired}
    log = [entry.snapshot_id for entry in metadata.snapshot_log]
    gaps = [position for position, id_ in enumerate(log) if id_ in expired_ids]
    if not gaps:
        return ()
    ids = set(log[gaps[-1] + 1 :]) | {ref.snapshot_id for ref in metadata.refs.values()}
    kept_ids = {decision.snapshot_id for decision in retention.kept}
    return tuple(id_ for id_ in dict.fromkeys(log) if id_ in kept_ids and id_ not in ids)


def updates(metadata: TableMetadata, plan: ExpirePlan) -> Sequence[Update]:
    """Return the changes that make the plan true of the metadata that it was made from."""
    return [
        *updates_again(metadata, plan.retention),
        *([RemoveSchemas(plan.schema_ids)] if plan.schema_ids else []),
        *([RemovePartitionSpecs(plan.spec_ids)] if plan.spec_ids else []),
    ]


def updates_again(metadata: TableMetadata, again: Retention) -> Sequence[Update]:
    """The changes on newer metadata, after the decision was made again for no more than confirmed.

    Schemas and specs stay: newer snapshots may use them.
    """
    updates: list[Update] = [RemoveSnapshotRef(ref.name) for ref in again.refs_removed]
    if again.expired:
        updates.append(RemoveSnapshots(tuple(item.snapshot_id for item in again.expired)))
        for snapshot_id in lost_statistics(metadata):
            updates += [RemoveStatistics(snapshot_id), RemovePartitionStatistics(snapshot_id)]
    return updates


def as_landed(plan: ExpirePlan, metadata: TableMetadata) -> ExpirePlan:
    """Reduce a plan to what of it has come true in the metadata that was committed."""
    decisions = tuple(
        replace(item, kept=True, reason="another writer needed it before the commit")
        if not item.kept and metadata.snapshot(item.snapshot_id) is not None
        else item
        for item in plan.retention.decisions
    )
    refs = tuple(ref for ref in plan.retention.refs_removed if ref.name not in metadata.refs)
    return replace(
        plan,
        retention=Retention(decisions, refs),
        schema_ids=tuple(id_ for id_ in plan.schema_ids if metadata.schema(id_) is None),
        spec_ids=tuple(id_ for id_ in plan.spec_ids if metadata.spec(id_) is None),
    )
