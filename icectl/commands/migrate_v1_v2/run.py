"""The run of `icectl migrate-v1-v2` and `upgrade-to-v3`: load, plan, write lists, commit."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial

from icectl.catalog.protocol import LoadedTable
from icectl.checks.rule import Finding
from icectl.checks.rules import finding
from icectl.cli.document import Outcome
from icectl.cli.options import Change, Common
from icectl.cli.session import open_session
from icectl.commands.change import carry_out
from icectl.commands.compact import run as compacting
from icectl.commands.migrate_v1_v2.options import MigrateRequest
from icectl.commands.migrate_v1_v2.plan import (
    Migration,
    RefHead,
    listed_manifests,
    plan,
    plan_rest,
    updates,
)
from icectl.commands.rewrite_manifests import run as rewriting
from icectl.commands.upgrade_to_v4.follow_ups import carry_on, convert
from icectl.commands.upgrade_to_v4.plan import UpgradePlan
from icectl.commands.upgrade_to_v4.report import (
    MIGRATION_NOTES,
    Upgrade,
    Upgraded,
    planned_upgrade,
    refused,
)
from icectl.commit.output_journal import Leftovers
from icectl.commit.snapshot import branch_head
from icectl.commit.transaction import Outputs, Proposal, transaction
from icectl.entries.rows import EMPTY, PLANNING_COLUMNS, Entries, in_manifests
from icectl.entries.summary import describe_manifest
from icectl.errors import CorruptTable, Refused, UsageError
from icectl.files.manifest.manifest_list import write_manifest_list
from icectl.format.layout import Layout, layout_of_table
from icectl.format.manifest import ManifestFile
from icectl.format.metadata import TableMetadata
from icectl.format.partition import result_types
from icectl.format.snapshot import Snapshot
from icectl.format.updates import SetManifestList
from icectl.storage.new_files import create_own
from icectl.table.context import TableContext, open_table
from icectl.table.guard import check_head_list, check_live, require_safe_base
from icectl.table.manifest_lists import read_snapshot_manifests
from icectl.table.manifests import load_entries, scan_manifests
from icectl.table.removed_files import unless_removed

COMMAND = "migrate-v1-v2"
_LIST_VERSION = 2
"""The version of lists for snapshots that embed their manifests: these have no row ids (R-106)."""


@dataclass(frozen=True, slots=True)
class PreparedMigration:
    """A plan and what it was made from.

    `described` are the manifests of snapshots that embed them, with their counts.
    """

    loaded: LoadedTable
    migration: Migration
    plan: UpgradePlan
    described: Mapping[int, Sequence[ManifestFile]] = field(default_factory=dict)


def run(common: Common, table: str, request: MigrateRequest, change: Change) -> Outcome:
    """Plan the migration; unless only the plan was asked for, ask, and execute it."""
    if request.rewrite_manifests and change.metadata_file is not None:
        raise UsageError(
            "`--rewrite-manifests` makes a second commit, and `--metadata-file` allows only one",
            hint="migrate, point the catalog at the new file, then run "
            "`icectl rewrite-manifests TABLE`",
        )
    migration = Migration(COMMAND, 2, rewrite_manifests=request.rewrite_manifests)
    return migrate(common, table, migration, change, MIGRATION_NOTES)


def migrate(
    common: Common, table: str, migration: Migration, change: Change, notes: Sequence[str]
) -> Outcome:
    """Plan a migration, ask, and execute it; `notes` are of tables that get another version."""
    session = open_session(common, table, read_only=False, change=change)
    context = session.context
    with unless_removed(context):
        prepared = prepare(context, migration)
    loaded, planned = prepared.loaded, prepared.plan
    if planned.branches and change.metadata_file is not None:
        raise UsageError(
            "manifests have to be rewritten first, and `--metadata-file` allows only one commit",
            hint="first count their rows: `icectl rewrite-manifests TABLE`",
        )
    shown = notes if planned.from_version < migration.to_version else ()
    commands = (migration.command, rewriting.COMMAND, compacting.COMMAND)
    upgrade = planned_upgrade(
        migration.command,
        loaded,
        Upgrade(loaded.metadata.location, planned, migration.to_version, shown),
        lambda: execute(context, prepared),
        refusal=_refusal(migration, planned),
        clean_up=lambda: Leftovers(context, commands).remove(loaded),
    )
    return carry_out(session, change, upgrade)


def _refusal(migration: Migration, planned: UpgradePlan) -> Refused | None:
    """Return the error of a plan that a finding forbids."""
    error_id = "not-migratable" if migration.command == COMMAND else "not-upgradable"
    return refused(planned.forbidding, error_id) if planned.forbidding else None


def _require_allowed(migration: Migration, planned: UpgradePlan) -> None:
    refusal = _refusal(migration, planned)
    if refusal is not None:
        raise refusal


def prepare(context: TableContext, migration: Migration) -> PreparedMigration:
    """Load the table and plan its migration; nothing is written.

    Raises: Refused, where the table must not be touched; StorageError of the store.
    """
    loaded = open_table(context.catalog)
    metadata = loaded.metadata
    if metadata.format_version >= migration.to_version:
        return PreparedMigration(loaded, migration, _plan_rest(context, loaded, migration))
    context.catalog.check_writable(loaded)
    loaded.capabilities.check_version(migration.to_version)
    require_safe_base(metadata)
    planned, described = _plan(context, metadata, migration)
    if described:
        loaded.capabilities.check_update(
            SetManifestList, "give a manifest list to snapshots that have none (R-055)"
        )
    return PreparedMigration(loaded, migration, planned, described)


def _plan(
    context: TableContext, metadata: TableMetadata, migration: Migration
) -> tuple[UpgradePlan, Mapping[int, Sequence[ManifestFile]]]:
    """Plan a migration; second: the manifests of snapshots that embed them."""
    unreadable: dict[int, Finding] = {}
    heads = _heads(context, metadata, unreadable)
    described = {}
    for snapshot in metadata.snapshots:
        if snapshot.embeds_manifests:
            with _recording_faults(context, snapshot, unreadable):
                described[snapshot.snapshot_id] = _describe(context, metadata, snapshot)
    return plan(metadata, heads, tuple(unreadable.values()), migration), described


def _plan_rest(context: TableContext, loaded: LoadedTable, migration: Migration) -> UpgradePlan:
    """Plan what a killed run may have left of the commits after the first."""
    metadata = loaded.metadata
    if migration.rewrite_manifests:
        return plan_rest(metadata, _legacy_manifests(context, loaded))
    unreadable: dict[int, Finding] = {}
    heads: Sequence[RefHead] = ()
    if migration.convert_position_deletes and metadata.format_version == migration.to_version:
        context.catalog.check_writable(loaded)
        heads = _heads(context, metadata, unreadable)
    return plan_rest(metadata, 0, heads, tuple(unreadable.values()))


def _legacy_manifests(context: TableContext, loaded: LoadedTable) -> int:
    """Count the manifests of version 1 of the current snapshot: a killed run leaves them.

    From version 4 on what is older is moved by `upgrade-to-v4`.
    """
    metadata = loaded.metadata
    snapshot = branch_head(metadata, "main")
    if snapshot is None or layout_of_table(metadata) is Layout.SFC_1:
        return 0
    context.catalog.check_writable(loaded)
    manifests = read_snapshot_manifests(context.store, metadata, snapshot)
    scanned = scan_manifests(context, metadata, manifests, frozenset())
    return sum(header.format_version < 2 for part in scanned for header in part.headers)


def _heads(
    context: TableContext, metadata: TableMetadata, unreadable: dict[int, Finding]
) -> Sequence[RefHead]:
    """Return the heads of all refs, main first; each snapshot is read once."""
    refs = {name: ref.snapshot_id for name, ref in metadata.refs.items()}
    if metadata.current_snapshot_id is not None:
        refs = {"main": metadata.current_snapshot_id} | refs
    heads: dict[int, RefHead] = {}
    for name, snapshot_id in refs.items():
        snapshot = metadata.snapshot(snapshot_id)
        if snapshot is None or snapshot_id in heads:
            continue
        with _recording_faults(context, snapshot, unreadable):
            manifests = read_snapshot_manifests(context.store, metadata, snapshot)
            entries = _entries(context, metadata, manifests)
            embeds = snapshot.embeds_manifests
            heads[snapshot_id] = RefHead(name, snapshot_id, manifests, entries, embeds)
            check_live(metadata, snapshot, manifests, entries)
            check_head_list(context, metadata, snapshot, manifests)
    return tuple(heads.values())


@contextmanager
def _recording_faults(
    context: TableContext, snapshot: Snapshot, unreadable: dict[int, Finding]
) -> Iterator[None]:
    """Record lasting faults of a snapshot's files; errors of the store are raised."""
    try:
        with unless_removed(context):
            yield
    except CorruptTable as error:
        subject = f"snapshot {snapshot.snapshot_id}"
        message = error.what.removeprefix(f"{subject}: ")
        hint = None if error.hint == CorruptTable.default_hint else error.hint
        unreadable[snapshot.snapshot_id] = finding(
            error.rule, subject, message, severity="error", hint=hint
        )


def _entries(
    context: TableContext, metadata: TableMetadata, manifests: Sequence[ManifestFile]
) -> Entries:
    # Version 1 lists may not say who added a manifest, which its entries then do not need.
    named = [replace(item, added_snapshot_id=item.added_snapshot_id or 0) for item in manifests]
    return load_entries(context, metadata, named, PLANNING_COLUMNS) if named else EMPTY


def execute(context: TableContext, prepared: PreparedMigration) -> Upgraded:
    """Write the manifest lists that are lacking, commit, then make the commits that follow.

    Raises: Refused where a finding forbids it; CommitConflict, CommitUnknown; StorageError,
    Incomplete, before anything has changed.
    """
    migration, planned = prepared.migration, prepared.plan
    _require_allowed(migration, planned)
    context.deadline.check()
    follow_ups = [partial(convert, context, branch) for branch in planned.converted]
    if planned.rewrites_manifests:
        follow_ups.insert(0, partial(_rewrite_manifests, context))
    if planned.from_version >= migration.to_version:
        with Leftovers(context, (migration.command,)).removed_after(prepared.loaded):
            return carry_on(context, None, follow_ups)
    if not planned.branches:
        return carry_on(context, _commit(context, prepared), follow_ups)
    first = [partial(_rewrite_manifests, context, branch) for branch in planned.branches]
    upgrade = partial(_commit_newest, context, migration)
    return carry_on(context, None, [*first, upgrade, *follow_ups])


def _commit_newest(context: TableContext, migration: Migration) -> Upgraded:
    """Commit the new version of what the table has become. Raises: as prepare and execute."""
    prepared = prepare(context, migration)
    _require_allowed(migration, prepared.plan)
    return _commit(context, prepared)


def _commit(context: TableContext, prepared: PreparedMigration) -> Upgraded:
    """Commit the new version; what others have committed since the plan is judged like the plan."""
    migration, uuid = prepared.migration, context.env.new_uuid()
    with transaction(context, prepared.loaded, migration.command) as opened:

        def propose(metadata: TableMetadata) -> Proposal:
            described = prepared.described
            if metadata != prepared.loaded.metadata and (
                metadata.format_version < migration.to_version
            ):
                planned, described = _plan(context, metadata, migration)
                _require_allowed(migration, planned)
            lists = _write_lists(context, metadata, described, opened.outputs)
            changes = updates(metadata, lists, uuid, migration.to_version)
            return Proposal(changes, frozenset(lists.values()))

        return Upgraded(opened.commit(propose))


def _write_lists(
    context: TableContext,
    metadata: TableMetadata,
    described: Mapping[int, Sequence[ManifestFile]],
    outputs: Outputs,
) -> Mapping[int, str]:
    """Give each snapshot that embeds manifests a list of the same manifests (R-055, R-171)."""
    lists: dict[int, str] = {}
    for snapshot in metadata.snapshots:
        if not snapshot.embeds_manifests:
            continue
        manifests = described.get(snapshot.snapshot_id) or _describe(context, metadata, snapshot)
        content = write_manifest_list(
            listed_manifests(snapshot, manifests),
            format_version=_LIST_VERSION,
            snapshot_id=snapshot.snapshot_id,
            parent_snapshot_id=snapshot.parent_snapshot_id,
            sequence_number=0,
            sync_marker=bytes.fromhex(context.env.new_uuid().replace("-", "")),
        )
        location = outputs.manifest_list(snapshot.snapshot_id)
        create_own(context.store, context.env, location, content)
        lists[snapshot.snapshot_id] = location
    return lists


def _describe(
    context: TableContext, metadata: TableMetadata, snapshot: Snapshot
) -> Sequence[ManifestFile]:
    """Return the embedded manifests with counts and summaries from their entries."""
    manifests = read_snapshot_manifests(context.store, metadata, snapshot)
    entries = _entries(context, metadata, manifests)
    described = []
    for at, manifest in enumerate(manifests):
        spec = metadata.spec(manifest.partition_spec_id) or metadata.default_spec
        manifest_entries = in_manifests(entries, (at,))
        added = manifest_entries.table["snapshot_id"].to_pylist()
        row = describe_manifest(
            manifest_entries,
            result_types(spec, metadata.schemas),
            location=manifest.manifest_path,
            length=manifest.manifest_length,
            spec_id=manifest.partition_spec_id,
        )
        described.append(replace(row, added_snapshot_id=max(added, default=None)))
    return described


def _rewrite_manifests(context: TableContext, branch: str = "main") -> Upgraded:
    done = rewriting.execute(context, rewriting.prepare(context, branch, rewriting.every_manifest))
    return Upgraded(done.landed, done.snapshot_id)
