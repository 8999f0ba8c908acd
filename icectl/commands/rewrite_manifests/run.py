"""The run of `icectl rewrite-manifests`: load, plan, write, verify, commit, clean up."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from icectl.catalog.protocol import LoadedTable
from icectl.checks.live_entries import RowlessFiles
from icectl.cli.console import Console
from icectl.cli.document import Outcome, id_text, print_new_metadata_file
from icectl.cli.options import Change, Common
from icectl.cli.session import open_session, unpublished_metadata
from icectl.cli.tables import TableColumn, beginnings, below, print_table
from icectl.commands.change import Finished, PlannedChange, carry_out
from icectl.commands.rewrite_manifests.options import RewriteRequest
from icectl.commands.rewrite_manifests.parsed_options import options_of
from icectl.commands.rewrite_manifests.plan import PLANS, restrict_to_reviewed
from icectl.commit.manifests import check_content, manifest_format
from icectl.commit.output_journal import Leftovers
from icectl.commit.snapshot import branch_head, check_same_form
from icectl.commit.snapshot_writer import ManifestRewrite, writer_of
from icectl.commit.transaction import Proposal, transaction
from icectl.entries.columns import with_location_hashes
from icectl.entries.rows import EMPTY, Entries, at_places, concat, in_order, live
from icectl.files.manifest.schema import check_known, check_list_known
from icectl.format.layout import Layout, layout_of, layout_of_table
from icectl.format.manifest import FileFormat, ManifestContent, ManifestFile, ManifestHeader
from icectl.format.metadata import TableMetadata
from icectl.format.properties import TARGET_MANIFEST_SIZE_BYTES, read
from icectl.format.snapshot import Snapshot
from icectl.storage.kept import KeepingStore
from icectl.table.context import TableContext
from icectl.table.guard import check_head_list, check_live, open_to_change
from icectl.table.live_file_check import check_apart
from icectl.table.live_parts import MOST_WHOLE, LiveParts, LiveReading
from icectl.table.manifest_groups import (
    PLANNED_COLUMNS,
    TREE_COLUMNS,
    ManifestsWithEntries,
    RewriteOptions,
    RewritePlan,
    by_partition,
    live_in,
)
from icectl.table.manifest_lists import read_snapshot_manifests
from icectl.table.manifests import ManifestsRead, scan_manifests
from icectl.table.reading import naming
from icectl.table.removed_files import unless_removed
from icectl.units import print_count, print_size


@dataclass(frozen=True, slots=True)
class Rewriting:
    """The plan of a rewrite, and the outcome of its execution.

    `location` is the table's. `written` are the new manifests; None where nothing was committed.
    """

    location: str
    plan: RewritePlan
    manifests: Sequence[ManifestFile]
    written: Sequence[ManifestFile] | None = None
    snapshot_id: int | None = None
    new_metadata_file: str | None = None

    @property
    def rewritten(self) -> list[ManifestFile]:
        """The manifests that are rewritten."""
        return [self.manifests[at] for group in self.plan.chosen for at in group.rewritten]


def rewriting_result(rewriting: Rewriting) -> dict[str, Any]:
    """The result: of a plan, `added` and `bytes_after` are estimates of what a run would do."""
    chosen = rewriting.plan.chosen
    before = sum(group.bytes_before for group in chosen)
    written = rewriting.written
    return {
        "branch": rewriting.plan.branch,
        "rewritten": sum(len(group.rewritten) for group in chosen),
        "added": sum(g.expected for g in chosen) if written is None else len(written),
        "kept": sum(len(group.kept) for group in rewriting.plan.groups),
        "entries": sum(group.entries for group in chosen),
        "bytes_before": before,
        "bytes_after": (
            before if written is None else sum(item.manifest_length for item in written)
        ),
        "snapshot_id": id_text(rewriting.snapshot_id),
        "groups": [
            {
                "spec_id": group.spec_id,
                "content": group.content.name.lower(),
                "rewritten": len(group.rewritten),
                "kept": len(group.kept),
                "expected": group.expected,
                "entries": group.entries,
                "partitions": group.clusters,
                "bytes_before": group.bytes_before,
                "reason": group.reason,
            }
            for group in rewriting.plan.groups
        ],
        "manifests_rewritten": [item.manifest_path for item in rewriting.rewritten],
        "manifests_added": [item.manifest_path for item in written or ()],
    }


def rewriting_line(rewriting: Rewriting) -> str:
    """Return how many manifests a rewrite makes of how many, or would."""
    before, written = len(rewriting.rewritten), rewriting.written
    after = sum(group.expected for group in rewriting.plan.chosen)
    return f"{print_count(before, 'manifest')} into {after if written is None else len(written):,}"


def print_rewriting(console: Console, rewriting: Rewriting, *, whole: bool) -> None:
    """Print each group with its reason, and the outcome; with `-v`, or `whole`, every manifest."""
    whole = whole or console.options.verbosity > 0
    if whole or (rewriting.plan.chosen and rewriting.written is None):
        _print_groups(console, rewriting.plan)
    if not rewriting.plan.chosen:
        console.say("nothing to do: no manifest group meets the thresholds")
        return
    if whole:
        starts = beginnings(rewriting.location)
        rows = [
            (below(item.manifest_path, starts), print_size(item.manifest_length))
            for item in rewriting.rewritten
        ]
        columns = (TableColumn("manifest", cut="middle"), TableColumn("bytes", "right"))
        console.print()
        print_table(console, columns, rows)
        console.print()
    console.say(_summary(rewriting))
    print_new_metadata_file(console, rewriting.new_metadata_file)


def _print_groups(console: Console, plan: RewritePlan) -> None:
    columns = (
        TableColumn("spec", "right"),
        TableColumn("content"),
        TableColumn("rewrite", "right"),
        TableColumn("keep", "right"),
        TableColumn("entries", "right"),
        TableColumn("reason", cut="wrap"),
    )
    rows = [
        (
            "any" if group.spec_id is None else str(group.spec_id),
            group.content.name.lower(),
            f"{len(group.rewritten):,}",
            f"{len(group.kept):,}",
            f"{group.entries:,}",
            group.reason,
        )
        for group in plan.groups
    ]
    print_table(console, columns, rows)


def _summary(rewriting: Rewriting) -> str:
    """Return what became of manifests, and of files that a root lists itself (sfc-1 7.6)."""
    result, chosen = rewriting_result(rewriting), rewriting.rewritten
    manifests = [item for item in chosen if not item.in_root]
    size = print_size(sum(manifest.manifest_length for manifest in manifests))
    before = f"{print_count(len(manifests), 'manifest')} of {size}"
    if len(manifests) < len(chosen):
        before = f"the root's own files and {before}" if manifests else "the root's own files"
    stay = f"{result['kept']:,} {'stays' if result['kept'] == 1 else 'stay'}"
    if rewriting.written is None:
        return f"{before} would become about {result['added']:,}; {stay}"
    after = f"{result['added']:,} of {print_size(result['bytes_after'])}"
    return f"{before} became {after}; {stay}"


COMMAND = "rewrite-manifests"


@dataclass(frozen=True, slots=True)
class PreparedRewrite:
    """A planned rewrite, and the table that it is of."""

    loaded: LoadedTable
    rewrite: ManifestRewrite


@dataclass(frozen=True, slots=True)
class RewrittenManifests:
    """The result of a run; `written` are the new manifests."""

    landed: LoadedTable
    snapshot_id: int
    written: tuple[ManifestFile, ...]


def run(common: Common, table: str, request: RewriteRequest, change: Change) -> Outcome:
    """Plan the rewrite and, unless only the plan was asked for, execute it."""
    options = options_of(request)
    session = open_session(common, table, read_only=False, change=change)
    context = replace(session.context, store=KeepingStore(session.context.store))
    with unless_removed(context):
        prepared = prepare(
            context,
            request.branch,
            lambda metadata: replace(options(metadata), only=session.reviewed),
        )
    planned, listed = prepared.rewrite.plan, prepared.rewrite.listed
    report = Rewriting(prepared.loaded.metadata.location, planned, listed.manifests)

    def finish() -> Finished[Rewriting]:
        rewritten = execute(context, prepared)
        return Finished(
            replace(
                report,
                written=rewritten.written,
                snapshot_id=rewritten.snapshot_id,
                new_metadata_file=unpublished_metadata(rewritten.landed),
            ),
            rewritten.landed.metadata_location,
        )

    changing = PlannedChange(
        command=COMMAND,
        loaded=prepared.loaded,
        report=report,
        result=rewriting_result,
        show=lambda console, rewriting, whole: print_rewriting(console, rewriting, whole=whole),
        line=rewriting_line,
        has_work=bool(planned.chosen),
        execute=finish,
        superseded=lambda: replace(report, plan=replace(planned, groups=())),
        clean_up=lambda: Leftovers(context, (COMMAND,)).remove(prepared.loaded),
    )
    return carry_out(session, change, changing)


def every_manifest(metadata: TableMetadata) -> RewriteOptions:
    """Ask for every manifest to be rewritten, in the size and form that new ones have."""
    target = read(metadata.properties, TARGET_MANIFEST_SIZE_BYTES)
    form = manifest_format(metadata)
    return RewriteOptions(target_size_bytes=target, every=True, file_format=form)


def prepare(
    context: TableContext,
    branch: str,
    options: Callable[[TableMetadata], RewriteOptions],
    most_whole: int = MOST_WHOLE,
) -> PreparedRewrite:
    """Load the table and plan the rewrite of a branch's manifests; nothing is written.

    Of more than `most_whole` live files only what the plan needs is in memory.
    Raises: UsageError for a branch, spec or field that there is not; Refused, where the table must
    not be touched; StorageError, CorruptTable, where its manifests cannot be read; Unsupported,
    where a manifest has fields that would be lost.
    """
    loaded = open_to_change(context.catalog)
    metadata = loaded.metadata
    snapshot = branch_head(metadata, branch)
    listed, headers = _load_manifests(context, metadata, snapshot, most_whole)
    chosen = options(metadata)
    decided = PLANS[layout_of_table(metadata)](metadata, branch, listed, chosen)
    if chosen.only is not None:
        decided = restrict_to_reviewed(metadata, decided, listed, chosen.only)
    check_movable(metadata, decided, listed, headers)
    return PreparedRewrite(loaded, ManifestRewrite(decided, listed, snapshot))


def _load_manifests(
    context: TableContext,
    metadata: TableMetadata,
    snapshot: Snapshot | None,
    most_whole: int,
) -> tuple[ManifestsWithEntries, Sequence[ManifestHeader]]:
    if snapshot is None:
        return ManifestsWithEntries((), EMPTY), ()
    manifests = read_snapshot_manifests(context.store, metadata, snapshot)
    places = [*range(len(manifests))]
    is_tree = layout_of(snapshot) is Layout.SFC_1
    if is_tree:  # deletes first, as the check of parts wants them
        places.sort(key=lambda at: manifests[at].content is not ManifestContent.DELETES)
    check, rowless = LiveParts(metadata, snapshot, manifests), RowlessFiles(metadata, manifests)
    reading = LiveReading(check, most_whole, by_partition)
    headers: dict[int, ManifestHeader] = {}
    for part, entries in _read(context, metadata, [manifests[at] for at in places], rowless):
        headers |= zip(places[part.first :], part.headers, strict=False)
        reading.add(at_places(entries, places))
    planned, counts = concat(reading.parts), None
    if reading.is_reduced:
        counts = [reading.counts[at] for at in range(len(manifests))]
        if check.is_doubtful:
            whole = [entries for _, entries in _read(context, metadata, manifests)]
            check_live(metadata, snapshot, manifests, concat(whole))
    else:
        planned = in_order(planned) if is_tree else planned
        check_live(metadata, snapshot, manifests, planned)
    check_head_list(context, metadata, snapshot, manifests)
    mended = (at for at, header in headers.items() if header.has_lengths_of_fixed)
    parquet = (at for at, one in headers.items() if one.file_format is FileFormat.PARQUET)
    listed = ManifestsWithEntries(manifests, planned, frozenset(mended), frozenset(parquet), counts)
    return listed, [headers[at] for at in sorted(headers)]


def _read(
    context: TableContext,
    metadata: TableMetadata,
    manifests: Sequence[ManifestFile],
    rowless: RowlessFiles | None = None,
) -> Iterator[tuple[ManifestsRead, Entries]]:
    """Read live entries with only what planning and comparing need: there may be many.

    Raises: as scan_manifests; CorruptTable R-063, R-140 for an entry that names a `rowless` file.
    """
    is_tree = layout_of_table(metadata) is Layout.SFC_1
    columns = TREE_COLUMNS if is_tree else PLANNED_COLUMNS
    for part in scan_manifests(context, metadata, manifests, columns):
        entries = live(part.entries())
        if rowless is not None:
            check_apart(entries, rowless)
        if not is_tree:
            entries = Entries(with_location_hashes(entries.table))
        yield part, entries


def _with_entries(context: TableContext, prepared: PreparedRewrite) -> ManifestRewrite:
    """Return the rewrite with all live entries of the manifests that are rewritten.

    Leaves of sfc-1 are read for the commit.
    """
    rewrite, metadata = prepared.rewrite, prepared.loaded.metadata
    listed = rewrite.listed
    if listed.counts is None or layout_of_table(metadata) is Layout.SFC_1:
        return rewrite
    chosen = sorted({at for group in rewrite.plan.chosen for at in group.rewritten})
    read = _read(context, metadata, [listed.manifests[at] for at in chosen])
    entries = at_places(concat([entries for _, entries in read]), chosen)
    return replace(rewrite, listed=replace(listed, entries=entries))


def check_movable(
    metadata: TableMetadata,
    plan: RewritePlan,
    listed: ManifestsWithEntries,
    headers: Sequence[ManifestHeader],
) -> None:
    """Check that a plan can be carried out. Raises: Unsupported; CorruptTable R-061."""
    if layout_of_table(metadata) is not Layout.MANIFEST_LISTS:
        return
    if plan.chosen:
        check_list_known(listed.manifests)
    for group in plan.chosen:
        for at in group.rewritten:
            with naming(listed.manifests[at].manifest_path):
                check_known(headers[at].unknown_field_ids)
        check_content(listed.manifests, live_in(listed, group.rewritten), group.content)


def execute(
    context: TableContext, prepared: PreparedRewrite, command: str = COMMAND
) -> RewrittenManifests:
    """Write the new manifests, compare them with the old ones, and commit them (R-069).

    Its files are those of a run of `command`, whose next run removes what a killed one left.
    What was written is removed again where the commit is known not to have landed; what an earlier
    run has left that was killed, once this one has committed.
    Raises: CommitConflict, CommitUnknown; Unsupported, StorageError, Incomplete, before anything
    has changed.
    """
    context.deadline.check()
    snapshot_id = context.env.new_snapshot_id()
    rewrite = _with_entries(context, prepared)
    with transaction(context, prepared.loaded, command) as opened:
        base = opened.base.metadata
        writer = writer_of(context, layout_of_table(base), rewrite.plan.branch, opened.outputs)
        writer.begin_rewrite(base, rewrite)

        def propose(metadata: TableMetadata) -> Proposal:
            check_same_form(base, metadata)
            return writer.rewrite_manifests(metadata, snapshot_id, rewrite)

        landed = opened.commit(propose)
    return RewrittenManifests(landed, snapshot_id, writer.written)
