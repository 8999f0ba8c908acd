"""The run of `icectl upgrade-to-v4`: load, check, write roots, commit; once per branch if eager."""

from collections.abc import Sequence, Set
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise, zip_longest
from math import inf, isnan
from uuid import UUID

import numpy as np
import pyarrow as pa

from icectl.catalog.protocol import LoadedTable
from icectl.checks.bound_types import top_level_ids
from icectl.checks.metrics import counts_of_other_rows
from icectl.checks.objects import Columns, StoredManifest, merge_faults
from icectl.checks.rule import Finding
from icectl.checks.rules import RULES
from icectl.cli.document import Outcome
from icectl.cli.options import Change, Common
from icectl.cli.session import Session, open_session
from icectl.commands.change import carry_out
from icectl.commands.rewrite_manifests import run as rewriting
from icectl.commands.upgrade_to_v4.delete_spelling import misspelt_deletes
from icectl.commands.upgrade_to_v4.follow_ups import carry_on, convert
from icectl.commands.upgrade_to_v4.options import LAYOUT_READERS, READERS, UpgradeRequest
from icectl.commands.upgrade_to_v4.plan import (
    TO_VERSION,
    BranchHead,
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
from icectl.entries.inherit import inherit
from icectl.entries.rows import (
    PLANNING_COLUMNS,
    concat,
    count_by_value,
    live,
    numbers,
    planning,
    position_delete_files,
)
from icectl.entries.rows import part as rows_between
from icectl.errors import CorruptTable, Declined, Unsupported, UsageError
from icectl.files.manifest.schema import check_list_known
from icectl.format.layout import LAYOUTS_OF_VERSION_4, Layout, layout_of, layout_of_table
from icectl.format.manifest import FileFormat, ManifestFile, ManifestHeader
from icectl.format.metadata import TableMetadata
from icectl.format.partition import result_types
from icectl.format.single_value import decode, encode
from icectl.format.snapshot import Snapshot
from icectl.format.types import PrimitiveType, Type
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
from icectl.sfc1.manifests import PLAIN, TreeSchema, can_move, leaf_rows, live_rows, read_leaf
from icectl.sfc1.rules import sound_root
from icectl.storage.location import comparison_key
from icectl.table.context import TableContext
from icectl.table.guard import check_head_list, check_live, open_to_change, require_safe_base
from icectl.table.manifest_lists import read_snapshot_manifests
from icectl.table.manifests import ManifestsRead, Trust, scan_manifests
from icectl.table.removed_files import unless_removed

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
        _head(context, metadata, name, snapshot, options)
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


def _head(
    context: TableContext,
    metadata: TableMetadata,
    branch: str,
    snapshot: Snapshot,
    options: UpgradeOptions,
) -> BranchHead:
    has_root, legacy, fixed = layout_of(snapshot) is Layout.SFC_1, 0, 0
    if has_root:
        facts = TreeSchema(metadata)
        rows, _ = sound_root(context.store, facts, snapshot)
        if options.mode == "eager":
            older = _legacy(rows)
            legacy = len(_movable(context, facts, older))
            fixed = len(older) - legacy
        is_read = options.convert_position_deletes or options.layout is Layout.MANIFEST_LISTS
        if not is_read:
            return BranchHead(
                branch,
                snapshot.snapshot_id,
                has_root=True,
                legacy_leaves=legacy,
                fixed_leaves=fixed,
            )
    try:
        with unless_removed(context):
            manifests = read_snapshot_manifests(context.store, metadata, snapshot)
            check_list_known(manifests)
            headers: list[ManifestHeader] = []
            parts, miscounted, misdescribed = [], [], None
            top_level = top_level_ids(metadata)
            is_described = options.layout is Layout.SFC_1 and not has_root  # by a finding
            trust: Trust = "own" if is_described else "sound"
            columns = PLANNING_COLUMNS | {"value_counts"}
            for part in scan_manifests(context, metadata, manifests, columns, trust=trust):
                headers += part.headers
                miscounted.append(counts_of_other_rows(Columns(live(part.rows)), top_level))
                parts.append(inherit(planning(part.rows), manifests))
                if is_described and misdescribed is None:
                    misdescribed = _misdescribed(metadata, part)
        entries = concat(parts) if parts else None
        if entries is not None:
            check_live(metadata, snapshot, manifests, entries)
            check_head_list(context, metadata, snapshot, manifests)
        foreign, unmovable = dict[int, str](), None
        if entries is not None and not has_root:
            deletes = count_by_value(position_delete_files(live(entries)), "manifest")
            fixed = len(deletes)
            if metadata.keeps_manifest_lists:
                formats = [header.file_format for header in headers]
                paths = [manifest.manifest_path for manifest in manifests]
                foreign = {
                    at: paths[at] for at, of in enumerate(formats) if of is FileFormat.PARQUET
                }
                unmovable = next((path for at, path in foreign.items() if at in deletes), None)
        return BranchHead(
            branch,
            snapshot.snapshot_id,
            manifests,
            tuple(headers),
            entries,
            has_root,
            legacy,
            fixed,
            merge_faults(miscounted),
            misdescribed,
            tuple(foreign.values()),
            unmovable,
        )
    except (CorruptTable, Unsupported) as error:
        return BranchHead(branch, snapshot.snapshot_id, unreadable=error.message)


def _misdescribed(metadata: TableMetadata, part: ManifestsRead) -> Finding | None:
    """Find a manifest that its list describes wrongly: its row in a root would be wrong too.

    By counts a root leaves manifests out, and gives row ids; by ranges scans pass over them.
    """
    numbered = replace(metadata, format_version=max(metadata.format_version, 3))  # has row ids
    ends = np.arange(part.first, part.first + len(part.manifests) + 1)
    places = np.searchsorted(numbers(part.rows, "manifest"), ends).tolist()
    for row, header, (start, stop) in zip(
        part.manifests, part.headers, pairwise(places), strict=True
    ):
        columns = Columns(rows_between(part.rows, start, stop))
        described = _without_nan(metadata, row)
        stored = StoredManifest(numbered, [described], header, row.manifest_length, columns)
        for finding in RULES.findings(stored, only=_AS_LISTED):
            if finding.severity == "error":
                return finding
    return None


def _without_nan(metadata: TableMetadata, manifest: ManifestFile) -> ManifestFile:
    """Return a row whose summaries have infinity for NaN, which is no bound in a root."""
    spec = metadata.spec(manifest.partition_spec_id)
    if spec is None or manifest.partitions is None:
        return manifest
    types = result_types(spec, metadata.schemas)
    summaries = [
        replace(
            summary,
            lower_bound=_bound(type_, summary.lower_bound, -inf),
            upper_bound=_bound(type_, summary.upper_bound, inf),
        )
        if type_ in _FLOATS
        else summary
        for summary, type_ in zip_longest(manifest.partitions, types[: len(manifest.partitions)])
    ]
    return replace(manifest, partitions=tuple(summaries))


def _bound(type_: Type | None, bound: bytes | None, end: float) -> bytes | None:
    if type_ is None or bound is None:
        return bound
    try:
        value = decode(type_, bound)
    except ValueError:
        return bound
    return encode(type_, end) if isinstance(value, float) and isnan(value) else bound


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
        writer = TreeWriter(context.store, context.env, branch or "main", opened.outputs)
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
    keys = frozenset(map(comparison_key, _movable(statistics.context, facts, _legacy(state.rows))))
    of_kept = statistics.of(facts, _kept(state, keys | state.foreign))
    return TreeChange(facts.empty(), rewritten=keys, operation="replace", statistics=of_kept)


def _kept(state: ParentState, rewritten: Set[str]) -> list[ListedRow]:
    """Return the manifests of older versions that stay as they are."""
    return [
        leaf
        for leaf in leaf_rows(state.rows)
        if leaf.file_format == FileFormat.AVRO and comparison_key(leaf.name) not in rewritten
    ]


def _movable(context: TableContext, facts: TreeSchema, older: Sequence[ListedRow]) -> list[str]:
    """Return those of the manifests of older versions whose rows leaves can hold."""
    return [
        leaf.name
        for leaf in older
        if can_move(facts, read_leaf(context.store, facts, leaf, part=PLAIN))
    ]


def _legacy(rows: pa.Table) -> list[ListedRow]:
    """Return the manifests of older versions that a root lists."""
    return [leaf for leaf in leaf_rows(live_rows(rows)) if leaf.file_format != FileFormat.PARQUET]
