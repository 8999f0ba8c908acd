"""Running a rewrite of manifests: load, plan, write and verify new ones, commit, clean up."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from icectl.catalog.protocol import LoadedTable
from icectl.commit.access import TableAccess
from icectl.commit.manifests import manifest_format
from icectl.commit.output_journal import Leftovers
from icectl.commit.snapshot import branch_head
from icectl.commit.snapshot_writer import ManifestRewrite, writer_of
from icectl.commit.transaction import Proposal, transaction
from icectl.entries.columns.byte_hashes import with_location_hashes
from icectl.entries.rows import EMPTY, Entries, live
from icectl.errors import CommitConflict
from icectl.plan.model import pin_of
from icectl.plan.rewrite_manifests import (
    PLANNED_COLUMNS,
    TREE_COLUMNS,
    ManifestsWithEntries,
    RewriteOptions,
    RewritePlan,
    held_to,
    plan,
)
from icectl.plan.sfc1.rewrite_manifests import plan_leaves
from icectl.spec.layout import Layout, layout_of, layout_of_table
from icectl.spec.manifest import FileFormat, ManifestFile
from icectl.spec.metadata import TableMetadata
from icectl.spec.properties import TARGET_MANIFEST_SIZE_BYTES, read
from icectl.spec.snapshot import Snapshot
from icectl.table.manifest_lists import read_snapshot_manifests
from icectl.table.manifests import load_manifests
from icectl.table.row_safety import check_live, open_to_change

COMMAND = "rewrite-manifests"

_PLANS = {Layout.MANIFEST_LISTS: plan, Layout.SFC_1: plan_leaves}
"""What decides which manifests are written anew."""

_COLUMNS = {Layout.MANIFEST_LISTS: PLANNED_COLUMNS, Layout.SFC_1: TREE_COLUMNS}


def _compact(entries: Entries) -> Entries:
    """What of live entries is planned by, and enough to compare them: there may be very many."""
    return Entries(with_location_hashes(live(entries).table))


_HELD: Mapping[Layout, Callable[[Entries], Entries]] = {
    Layout.MANIFEST_LISTS: _compact,
    Layout.SFC_1: lambda entries: entries,
}
"""What is kept of entries while they are read."""


@dataclass(frozen=True, slots=True)
class PreparedRewrite:
    """A plan and what it was made from."""

    loaded: LoadedTable
    plan: RewritePlan
    listed: ManifestsWithEntries
    snapshot: Snapshot | None

    @property
    def has_work(self) -> bool:
        """Whether a run would change anything."""
        return bool(self.plan.chosen)


@dataclass(frozen=True, slots=True)
class RewrittenManifests:
    """The result of a run; `written` are the new manifests."""

    landed: LoadedTable
    snapshot_id: int
    written: tuple[ManifestFile, ...]


def every_manifest(metadata: TableMetadata) -> RewriteOptions:
    """Ask for every manifest to be rewritten, in the size and form that new ones have."""
    target = read(metadata.properties, TARGET_MANIFEST_SIZE_BYTES)
    form = manifest_format(metadata)
    return RewriteOptions(target_size_bytes=target, every=True, file_format=form)


def prepare(
    access: TableAccess, branch: str, options: Callable[[TableMetadata], RewriteOptions]
) -> PreparedRewrite:
    """Load the table and plan the rewrite of a branch's manifests; nothing is written.

    Raises: UsageError for a branch, spec or field that there is not; Refused, where the table must
    not be touched; StorageError, CorruptTable, where its manifests cannot be read.
    """
    loaded = open_to_change(access.catalog)
    metadata = loaded.metadata
    snapshot = branch_head(metadata, branch)
    listed = _listed(access, metadata, snapshot)
    pin = pin_of(metadata, loaded.metadata_location)
    chosen = options(metadata)
    decided = _PLANS[layout_of_table(metadata)](metadata, pin, branch, listed, chosen)
    if chosen.only is not None:
        decided = held_to(metadata, decided, listed, chosen.only)
    return PreparedRewrite(loaded, decided, listed, snapshot)


def _listed(
    access: TableAccess, metadata: TableMetadata, snapshot: Snapshot | None
) -> ManifestsWithEntries:
    if snapshot is None:
        return ManifestsWithEntries((), EMPTY)
    manifests = read_snapshot_manifests(access.store, metadata, snapshot)
    layout = layout_of(snapshot)
    headers, entries = load_manifests(
        access.store,
        metadata,
        manifests,
        columns=_COLUMNS[layout],
        concurrency=access.concurrency,
        progress=access.progress,
        held=_HELD[layout],
    )
    if layout is Layout.SFC_1:  # others are carried as they are, whatever they say
        check_live(metadata, snapshot, manifests, entries)
    mended = (at for at, header in enumerate(headers) if header.has_lengths_of_fixed)
    parquet = (at for at, one in enumerate(headers) if one.file_format is FileFormat.PARQUET)
    return ManifestsWithEntries(manifests, entries, frozenset(mended), frozenset(parquet))


def execute(access: TableAccess, prepared: PreparedRewrite) -> RewrittenManifests:
    """Write the new manifests, compare them with the old ones, and commit them (R-069).

    What was written is removed again where the commit is known not to have landed; what an earlier
    run has left that was killed, once this one has committed.
    Raises: CommitConflict, CommitUnknown; Unsupported, StorageError, Incomplete, before anything
    has changed.
    """
    access.deadline.check()
    snapshot_id = access.env.new_snapshot_id()
    rewrite = ManifestRewrite(prepared.plan, prepared.listed, prepared.snapshot)
    with transaction(access, prepared.loaded, COMMAND) as opened:
        layout = layout_of_table(opened.base.metadata)
        writer = writer_of(access, layout, prepared.plan.branch, opened.outputs)
        writer.begin_rewrite(opened.base.metadata, rewrite)

        def propose(metadata: TableMetadata) -> Proposal:
            if layout_of_table(metadata) is not layout:
                raise CommitConflict("the table's format version has changed meanwhile")
            return writer.rewrite_manifests(metadata, snapshot_id, rewrite)

        landed = opened.commit(propose)
    return RewrittenManifests(landed, snapshot_id, writer.written)


def remove_leftovers(access: TableAccess, prepared: PreparedRewrite) -> None:
    """Remove what killed runs have left, where there is nothing else to do; never raises."""
    Leftovers(access, (COMMAND,)).remove(prepared.loaded)
