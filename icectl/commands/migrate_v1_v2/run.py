"""The run of `icectl migrate-v1-v2`: load, plan, write manifest lists, commit."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from icectl.catalog.protocol import LoadedTable
from icectl.checks.rule import Finding
from icectl.checks.rules import finding
from icectl.cli.document import Outcome
from icectl.cli.options import Change, Common
from icectl.cli.session import open_session
from icectl.commands.change import carry_out
from icectl.commands.migrate_v1_v2.options import MigrateRequest
from icectl.commands.migrate_v1_v2.plan import (
    TO_VERSION,
    RefHead,
    listed_manifests,
    plan,
    plan_rest,
    updates,
)
from icectl.commands.rewrite_manifests import run as rewriting
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
from icectl.errors import CommitUnknown, CorruptTable, IcectlError, UsageError
from icectl.files.manifest.manifest_list import write_manifest_list
from icectl.format.layout import Layout, layout_of_table
from icectl.format.manifest import ManifestFile
from icectl.format.metadata import TableMetadata
from icectl.format.partition import result_types
from icectl.format.snapshot import Snapshot
from icectl.format.updates import SetManifestList
from icectl.storage.new_files import create_own
from icectl.table.context import TableContext, open_table
from icectl.table.guard import require_safe_base
from icectl.table.manifest_lists import read_snapshot_manifests
from icectl.table.manifests import load_entries, scan_manifests

COMMAND = "migrate-v1-v2"
_REFUSED = "not-migratable"


@dataclass(frozen=True, slots=True)
class PreparedMigration:
    """A plan and what it was made from.

    `described` are the manifests of snapshots that embed them, with their counts.
    """

    loaded: LoadedTable
    plan: UpgradePlan
    described: Mapping[int, Sequence[ManifestFile]]


def run(common: Common, table: str, request: MigrateRequest, change: Change) -> Outcome:
    """Plan the migration; unless only the plan was asked for, ask, and execute it."""
    if request.rewrite_manifests and change.metadata_file is not None:
        raise UsageError(
            "`--rewrite-manifests` makes a second commit, and `--metadata-file` allows only one",
            hint="migrate, point the catalog at the new file, then `icectl rewrite-manifests`",
        )
    session = open_session(common, table, read_only=False, change=change)
    context = session.context
    prepared = prepare(context, rewrite_manifests=request.rewrite_manifests)
    loaded, planned = prepared.loaded, prepared.plan
    notes = MIGRATION_NOTES if planned.from_version < TO_VERSION else ()
    upgrade = planned_upgrade(
        COMMAND,
        loaded,
        Upgrade(loaded.metadata.location, planned, TO_VERSION, notes),
        lambda: execute(context, prepared),
        refusal=refused(planned.forbidding, _REFUSED) if planned.forbidding else None,
        clean_up=lambda: Leftovers(context, (COMMAND, rewriting.COMMAND)).remove(prepared.loaded),
    )
    return carry_out(session, change, upgrade)


def prepare(context: TableContext, *, rewrite_manifests: bool) -> PreparedMigration:
    """Load the table and plan its migration; nothing is written.

    Raises: Refused, where the table must not be touched; StorageError of the store.
    """
    loaded = open_table(context.catalog)
    metadata = loaded.metadata
    if metadata.format_version >= TO_VERSION:
        legacy = _legacy_manifests(context, loaded) if rewrite_manifests else 0
        return PreparedMigration(loaded, plan_rest(metadata, legacy), {})
    context.catalog.check_writable(loaded)
    require_safe_base(metadata)
    unreadable: dict[int, Finding] = {}
    heads = _heads(context, metadata, unreadable)
    described = {}
    for snapshot in metadata.snapshots:
        if snapshot.embeds_manifests:
            with _recording_faults(snapshot, unreadable):
                described[snapshot.snapshot_id] = _describe(context, metadata, snapshot)
    if described:
        loaded.capabilities.check_update(
            SetManifestList, "give a manifest list to snapshots that have none (R-055)"
        )
    problems = tuple(unreadable.values())
    planned = plan(metadata, heads, problems, rewrite_manifests=rewrite_manifests)
    return PreparedMigration(loaded, planned, described)


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
    return sum(header.format_version < TO_VERSION for part in scanned for header in part.headers)


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
        with _recording_faults(snapshot, unreadable):
            manifests = read_snapshot_manifests(context.store, metadata, snapshot)
            entries = _entries(context, metadata, manifests)
            heads[snapshot_id] = RefHead(name, snapshot_id, manifests, entries)
    return tuple(heads.values())


@contextmanager
def _recording_faults(snapshot: Snapshot, unreadable: dict[int, Finding]) -> Iterator[None]:
    """Record lasting faults of a snapshot's files; errors of the store are raised."""
    try:
        yield
    except CorruptTable as error:
        message = error.message.removesuffix(f" ({error.rule})")
        subject = f"snapshot {snapshot.snapshot_id}"
        unreadable[snapshot.snapshot_id] = finding(error.rule, subject, message, severity="error")


def _entries(
    context: TableContext, metadata: TableMetadata, manifests: Sequence[ManifestFile]
) -> Entries:
    # Version 1 lists may not say who added a manifest, which its entries then do not need.
    named = [replace(item, added_snapshot_id=item.added_snapshot_id or 0) for item in manifests]
    return load_entries(context, metadata, named, PLANNING_COLUMNS) if named else EMPTY


def execute(context: TableContext, prepared: PreparedMigration) -> Upgraded:
    """Write the manifest lists that are lacking, commit, and rewrite manifests where asked.

    Raises: Refused where a finding forbids it; CommitConflict, CommitUnknown; StorageError,
    Incomplete, before anything has changed.
    """
    if prepared.plan.forbidding:
        raise refused(prepared.plan.forbidding, _REFUSED)
    context.deadline.check()
    if prepared.plan.from_version >= TO_VERSION:
        with Leftovers(context, (COMMAND,)).removed_after(prepared.loaded):
            done = _rewrite_manifests(context)
        return Upgraded(done.landed, done.snapshot_id)
    uuid = context.env.new_uuid()
    with transaction(context, prepared.loaded, COMMAND) as opened:

        def propose(metadata: TableMetadata) -> Proposal:
            lists = _write_lists(context, metadata, prepared.described, opened.outputs)
            return Proposal(updates(metadata, lists, uuid), frozenset(lists.values()))

        landed = opened.commit(propose)
    if not prepared.plan.rewrites_manifests:
        return Upgraded(landed)
    try:  # the migration stands even if this fails
        done = _rewrite_manifests(context)
    except CommitUnknown:
        raise
    except IcectlError as error:
        return Upgraded(landed, unfinished=error)
    return Upgraded(done.landed, done.snapshot_id)


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
            format_version=TO_VERSION,
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


def _rewrite_manifests(context: TableContext) -> rewriting.RewrittenManifests:
    return rewriting.execute(context, rewriting.prepare(context, "main", rewriting.every_manifest))
