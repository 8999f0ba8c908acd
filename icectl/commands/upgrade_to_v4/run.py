"""The run of `icectl upgrade-to-v4`: load, check, write roots, commit; once per branch if eager."""

from collections.abc import Sequence, Set
from dataclasses import dataclass, replace
from functools import partial
from uuid import UUID

from icectl.catalog.protocol import LoadedTable
from icectl.checks.rule import Finding
from icectl.cli.document import Outcome
from icectl.cli.options import Change, Common
from icectl.cli.session import Session, open_session
from icectl.commands.change import carry_out
from icectl.commands.rewrite_manifests import run as rewriting
from icectl.commands.upgrade_to_v4.delete_spelling import misspelt_deletes
from icectl.commands.upgrade_to_v4.follow_ups import carry_on, convert
from icectl.commands.upgrade_to_v4.heads import legacy_leaves, movable, read_head
from icectl.commands.upgrade_to_v4.options import LAYOUT_READERS, READERS, UpgradeRequest
from icectl.commands.upgrade_to_v4.plan import (
    TO_VERSION,
    UpgradeOptions,
    UpgradePlan,
    plan,
    plan_with_lists,
)
from icectl.commands.upgrade_to_v4.report import (
    Upgrade,
    Upgraded,
    planned_upgrade,
    refused,
    version_4_notes,
)
from icectl.commit.output_journal import Leftovers
from icectl.commit.snapshot import branch_head, head
from icectl.commit.transaction import Proposal, transaction
from icectl.errors import Declined, UsageError
from icectl.format.layout import LAYOUTS_OF_VERSION_4, Layout, layout_of, layout_of_table
from icectl.format.manifest import FileFormat
from icectl.format.metadata import TableMetadata
from icectl.format.types import PrimitiveType
from icectl.format.updates import (
    AssignUuid,
    SetLayout,
    SetManifestList,
    Update,
    UpgradeFormatVersion,
    apply_all,
)
from icectl.rows.named_files import read_names
from icectl.sfc1.commit.draft import ParentState, TreeChange
from icectl.sfc1.commit.lists import LegacyStatistics, ListsOfRoots, check_roots
from icectl.sfc1.commit.writer import TreeWriter
from icectl.sfc1.manifest_file import ListedRow
from icectl.sfc1.manifests import TreeSchema, leaf_rows
from icectl.storage.location import comparison_key
from icectl.table.context import TableContext
from icectl.table.guard import open_to_change, require_safe_base

COMMAND = "upgrade-to-v4"
_REFUSED = "not-upgradable"
_AS_LISTED = ("R-044", "R-047", "R-051", "R-053", "R-061", "R-097")
_ANY_UUID = str(UUID(int=0))
_FLOATS = (PrimitiveType("float"), PrimitiveType("double"))


@dataclass(frozen=True, slots=True)
class PreparedUpgrade:
    """A plan and what it was made from."""

    loaded: LoadedTable
    plan: UpgradePlan
    options: UpgradeOptions


def run(common: Common, table: str, request: UpgradeRequest, change: Change) -> Outcome:
    """Plan the upgrade; unless only the plan was asked for, ask, and execute it."""
    if request.lazy and request.eager:
        raise UsageError("`--lazy` and `--eager` cannot be used together")
    if request.convert_position_deletes and not request.eager:
        raise UsageError("`--convert-position-deletes` needs `--eager`")
    if request.eager and change.metadata_file is not None:
        raise UsageError(
            "`--eager` makes a commit per branch, and `--metadata-file` allows only one",
            hint="upgrade without it, point the catalog to the new file, then continue with the "
            "next",
        )
    session = open_session(common, table, read_only=False, change=change)
    context = session.context
    layout = _layout(session, request, change)
    for option, value in (
        ("--convert-position-deletes", request.convert_position_deletes),
        ("--allow-read-only", request.allow_read_only),
    ):
        if value and layout is not Layout.SFC_1:
            raise UsageError(f"`{option}` is for `--layout {Layout.SFC_1}`")
    options = UpgradeOptions(
        "lazy" if request.lazy else "eager" if request.eager else "default",
        request.branch,
        request.allow_read_only,
        request.convert_position_deletes,
        layout,
    )
    prepared = prepare(context, options)
    loaded, planned = prepared.loaded, prepared.plan
    notes = version_4_notes(options, loaded.capabilities, changes_layout=planned.changes_layout)
    name = next(name for name, layout in LAYOUTS_OF_VERSION_4.items() if layout is options.layout)
    upgrade = planned_upgrade(
        COMMAND,
        loaded,
        Upgrade(loaded.metadata.location, planned, TO_VERSION, notes, name),
        lambda: execute(context, prepared),
        refusal=refused(planned.forbidding, _REFUSED) if planned.forbidding else None,
        clean_up=lambda: Leftovers(context, (COMMAND,)).remove(prepared.loaded),
    )
    return carry_out(session, change, upgrade)


def _layout(session: Session, request: UpgradeRequest, change: Change) -> Layout:
    """Return the layout that is asked for: by option, as the table has it, or by an answer.

    Raises: UsageError, if no user can answer; Declined; what loading raises.
    """
    if request.layout is not None:
        return LAYOUTS_OF_VERSION_4[request.layout]
    metadata = session.context.catalog.load().metadata
    if metadata.format_version >= TO_VERSION:
        return layout_of_table(metadata)
    console = session.console
    if not console.asks or change.yes or change.save_plan:
        raise UsageError(
            "version 4 has two layouts, and `--layout` must name one", hint=LAYOUT_READERS
        )
    answer = console.choose("version 4 has two layouts; which one?", READERS)
    if answer is None:
        raise Declined
    return LAYOUTS_OF_VERSION_4[answer]


def prepare(context: TableContext, options: UpgradeOptions) -> PreparedUpgrade:
    """Load the table, look at the heads of its branches, and plan; nothing is written.

    Raises: Refused, where the table must not be touched; CorruptTable, where it is not sure which
    rows live; StorageError of the store.
    """
    loaded = open_to_change(context.catalog)
    metadata = loaded.metadata
    branch_head(metadata, options.branch)
    loaded.capabilities.check_version(TO_VERSION)
    is_other = metadata.format_version >= TO_VERSION
    if is_other and layout_of_table(metadata) is not options.layout:
        loaded.capabilities.check_update(
            SetLayout, "convert a table to another layout of version 4"
        )
    return PreparedUpgrade(loaded, _planned(context, metadata, options), options)


def _planned(
    context: TableContext, metadata: TableMetadata, options: UpgradeOptions
) -> UpgradePlan:
    refs = {name: ref.snapshot_id for name, ref in metadata.refs.items() if ref.type == "branch"}
    heads = [
        read_head(context, metadata, name, snapshot, options)
        for name in sorted(refs, key=lambda name: (name != "main", name))
        if (snapshot := metadata.snapshot(refs[name])) is not None
    ]
    if options.layout is Layout.SFC_1:
        planned = plan(metadata, heads, options)
        if not planned.forbidding:  # the next commit stands on this one
            updates = _new_version(metadata, options.layout, _ANY_UUID)
            require_safe_base(apply_all(metadata, updates))
        return planned
    leaf_count = check_roots(context, metadata)
    planned = plan_with_lists(metadata, heads, options, leaf_count)
    if planned.has_work:
        misspelt = _misspelt(context, metadata)
        planned = replace(planned, findings=(*planned.findings, *misspelt))
    return planned


def _misspelt(context: TableContext, metadata: TableMetadata) -> Sequence[Finding]:
    """Find what keeps a table from readers that compare locations to the letter (V4-004)."""
    finding = misspelt_deletes(context, metadata, partial(read_names, context))
    return () if finding is None else (finding,)


def execute(context: TableContext, prepared: PreparedUpgrade) -> Upgraded:
    """Commit the new metadata, with the root of one branch by default; eager ones follow.

    Raises: Refused where a finding forbids it; CommitUnknown; CommitConflict, StorageError,
    Incomplete, before anything has changed.
    """
    if prepared.plan.forbidding:
        raise refused(prepared.plan.forbidding, _REFUSED)
    context.deadline.check()
    eager = prepared.plan.mode == "eager"
    branches = prepared.plan.branches
    first, rewritten = ((), branches) if eager else (branches, ())
    # New leaves, then deletion vectors, by branch.
    follow_ups = [partial(_rewrite, context, prepared.options, name) for name in rewritten]
    follow_ups += [partial(convert, context, name) for name in prepared.plan.converted]
    done: Upgraded | None = None
    if prepared.plan.from_version < TO_VERSION or prepared.plan.changes_layout or first:
        branch = first[0] if first else None
        done = Upgraded(*_commit(context, prepared.loaded, branch, prepared.options, eager=False))
    return carry_on(context, done, follow_ups)


def _rewrite(context: TableContext, options: UpgradeOptions, branch: str) -> Upgraded:
    """Rewrite all manifests of a branch: as leaves, or as Iceberg 1.12's version 4 has them."""
    if options.layout is Layout.SFC_1:
        return Upgraded(*_commit(context, context.catalog.load(), branch, options, eager=True))
    done = rewriting.execute(context, rewriting.prepare(context, branch, rewriting.every_manifest))
    return Upgraded(done.landed, done.snapshot_id)


def _commit(
    context: TableContext,
    base: LoadedTable,
    branch: str | None,
    options: UpgradeOptions,
    *,
    eager: bool,
) -> tuple[LoadedTable, int | None]:
    """One commit: to version 4, and where there is a branch, a snapshot of it with a root."""
    layout = options.layout
    uuid, snapshot_id = context.env.new_uuid(), context.env.new_snapshot_id()

    change = _rewritten if eager else _list_manifests
    with transaction(context, base, COMMAND) as opened:
        writer = TreeWriter(
            context.store, context.env, branch or "main", opened.outputs, context.concurrency
        )
        lists, statistics = ListsOfRoots(context, opened.outputs), LegacyStatistics(context)

        def propose(metadata: TableMetadata) -> Proposal:
            if metadata != base.metadata:  # another writer's
                forbidding = _planned(context, metadata, options).forbidding
                if forbidding:
                    raise refused(forbidding, _REFUSED)
            updates = _new_version(metadata, layout, uuid)
            if layout is Layout.MANIFEST_LISTS and SetLayout(layout) in updates:
                return _with_lists(lists, metadata)
            upgraded = apply_all(metadata, updates)
            snapshot = None if branch is None else head(upgraded, branch)
            if snapshot is None or (layout_of(snapshot) is Layout.SFC_1 and not eager):
                return Proposal(updates)
            return writer.propose(
                upgraded, snapshot_id, partial(change, statistics), updates=updates
            )

        landed = opened.commit(propose)
    return landed, None if landed.metadata.snapshot(snapshot_id) is None else snapshot_id


def _new_version(metadata: TableMetadata, layout: Layout, uuid: str) -> list[Update]:
    """Return the updates that take a table to a layout of version 4; none if it has it.

    A table without a UUID gets `uuid`.
    """
    if metadata.format_version < TO_VERSION:
        first = [AssignUuid(uuid)] if metadata.table_uuid is None else []
        return [*first, UpgradeFormatVersion(TO_VERSION, layout)]
    return [] if layout_of_table(metadata) is layout else [SetLayout(layout)]


def _with_lists(lists: ListsOfRoots, metadata: TableMetadata) -> Proposal:
    """Propose manifest lists in the place of all roots."""
    lists_written = lists.lists(metadata)
    updates = [SetManifestList(number, item.location) for number, item in lists_written.items()]
    files = frozenset(file for item in lists_written.values() for file in item.files)
    return Proposal([*updates, SetLayout(Layout.MANIFEST_LISTS)], files)


def _list_manifests(
    statistics: LegacyStatistics, facts: TreeSchema, state: ParentState
) -> TreeChange:
    """Return a root that lists the manifests as they are, with the statistics of their entries."""
    of_kept = statistics.of(facts, _kept(state, state.foreign))
    return TreeChange(facts.empty(), operation="replace", statistics=of_kept)


def _rewritten(statistics: LegacyStatistics, facts: TreeSchema, state: ParentState) -> TreeChange:
    """Return a root of new leaves.

    What version 4 can't say stays in its old manifests (sfc-1 11.5).
    """
    older = legacy_leaves(state.rows)
    keys = frozenset(map(comparison_key, movable(statistics.context, facts, older)))
    of_kept = statistics.of(facts, _kept(state, keys | state.foreign))
    return TreeChange(facts.empty(), rewritten=keys, operation="replace", statistics=of_kept)


def _kept(state: ParentState, rewritten: Set[str]) -> list[ListedRow]:
    """Return the manifests of older versions that stay as they are."""
    return [
        leaf
        for leaf in leaf_rows(state.rows)
        if leaf.file_format == FileFormat.AVRO and comparison_key(leaf.name) not in rewritten
    ]
