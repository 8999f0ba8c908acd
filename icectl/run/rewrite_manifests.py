"""Running a rewrite of manifests: load, plan, write and verify new ones, commit, clean up."""

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field

from icectl.catalog.protocol import LoadedTable
from icectl.commit.access import TableAccess
from icectl.commit.manifests import ManifestWriter, form_for
from icectl.commit.output_journal import Leftovers
from icectl.commit.outputs import Outputs
from icectl.commit.sfc1.commit import commit_tree
from icectl.commit.sfc1.writer import TreeWriter, leaves_anew
from icectl.commit.snapshot import NewSnapshot, branch_head, carried_totals, compose, head
from icectl.commit.transaction import Proposal, transaction
from icectl.entries.rows import (
    EMPTY,
    Entries,
    as_existing,
    concat,
    count_by_value,
    in_manifests,
    in_order,
)
from icectl.plan.model import pin_of
from icectl.plan.rewrite_manifests import (
    PLANNED_COLUMNS,
    TREE_COLUMNS,
    Group,
    Listed,
    RewriteOptions,
    RewritePlan,
    group_pieces,
    live_in,
    plan,
)
from icectl.plan.sfc1.rewrite_manifests import plan_leaves
from icectl.spec.manifest import ManifestFile
from icectl.spec.metadata import TableMetadata
from icectl.spec.snapshot import Snapshot
from icectl.spec.updates import Update
from icectl.table.manifest_lists import read_snapshot_manifests
from icectl.table.manifests import load_manifests
from icectl.table.row_safety import check_live, open_to_change

COMMAND = "rewrite-manifests"

TREES_FROM = 4
"""The format version whose commits write roots."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A plan and what it was made from."""

    loaded: LoadedTable
    plan: RewritePlan
    listed: Listed
    snapshot: Snapshot | None

    @property
    def has_work(self) -> bool:
        """Whether a run would change anything."""
        return bool(self.plan.chosen)


@dataclass(frozen=True, slots=True)
class Rewritten:
    """What a run did; `written` are the new manifests."""

    landed: LoadedTable
    snapshot_id: int
    written: tuple[ManifestFile, ...]


@dataclass(frozen=True, slots=True)
class _Output:
    """A new manifest, the manifests that its entries come from, and which entries those are."""

    group: Group
    manifest: ManifestFile
    sources: frozenset[str]
    entries: Entries


@dataclass(slots=True)
class _Made:
    """What a run has written so far: `stored` is all of it, `outputs` what a commit may list."""

    stored: Outputs
    outputs: list[_Output] = field(default_factory=list)


def prepare(
    access: TableAccess, branch: str, options: Callable[[TableMetadata], RewriteOptions]
) -> Prepared:
    """Load the table and plan the rewrite of a branch's manifests; nothing is written.

    Raises: UsageError for a branch, spec or field that there is not; Refused, where the table must
    not be touched; StorageError, CorruptTable, where its manifests cannot be read.
    """
    loaded = open_to_change(access.catalog)
    metadata = loaded.metadata
    snapshot = branch_head(metadata, branch)
    listed = _listed(access, metadata, snapshot)
    pin = pin_of(metadata, loaded.metadata_location)
    decide = plan_leaves if metadata.format_version >= TREES_FROM else plan
    return Prepared(
        loaded, decide(metadata, pin, branch, listed, options(metadata)), listed, snapshot
    )


def _listed(access: TableAccess, metadata: TableMetadata, snapshot: Snapshot | None) -> Listed:
    if snapshot is None:
        return Listed((), EMPTY)
    manifests = read_snapshot_manifests(access.store, metadata, snapshot)
    headers, entries = load_manifests(
        access.store,
        metadata,
        manifests,
        columns=PLANNED_COLUMNS if snapshot.root_manifest is None else TREE_COLUMNS,
        concurrency=access.concurrency,
        progress=access.progress,
    )
    if snapshot.root_manifest is not None:  # others are carried as they are, whatever they say
        check_live(metadata, snapshot, manifests, entries)
    mended = (at for at, header in enumerate(headers) if header.has_lengths_of_fixed)
    return Listed(manifests, entries, frozenset(mended))


def execute(access: TableAccess, prepared: Prepared) -> Rewritten:
    """Write the new manifests, compare them with the old ones, and commit them (R-069).

    What was written is removed again where the commit is known not to have landed; what an earlier
    run has left that was killed, once this one has committed.
    Raises: CommitConflict, CommitUnknown; Unsupported, StorageError, Incomplete, before anything
    has changed.
    """
    if prepared.loaded.metadata.format_version >= TREES_FROM:
        return _execute_on_tree(access, prepared)
    access.deadline.check()
    snapshot_id = access.env.new_snapshot_id()
    with transaction(access, prepared.loaded, COMMAND) as opened:
        made = _Made(opened.outputs)
        for group in prepared.plan.chosen:
            entries = live_in(prepared.listed, group.rewritten)
            made.outputs += _write(access, prepared, opened.base.metadata, group, entries, made)
            access.deadline.check()
        landed = opened.commit(
            lambda metadata: _proposal(access, prepared, metadata, made, snapshot_id)
        )
    return Rewritten(landed, snapshot_id, tuple(output.manifest for output in made.outputs))


def _execute_on_tree(access: TableAccess, prepared: Prepared) -> Rewritten:
    """Write leaves anew, and a root that lists them, and commit it (sfc-1 7.6)."""
    access.deadline.check()
    snapshot_id = access.env.new_snapshot_id()
    chosen = [prepared.listed.manifests[at] for group in prepared.plan.chosen
              for at in group.rewritten]  # fmt: skip

    def changes(writer: TreeWriter, metadata: TableMetadata) -> Sequence[Update]:
        return writer.write(
            metadata,
            snapshot_id,
            lambda facts, state: leaves_anew(facts, state, chosen),
            {},
            leaf_target_size_bytes=prepared.plan.options.target_size_bytes,
        )

    branch = prepared.plan.branch
    landed, tree = commit_tree(access, prepared.loaded, COMMAND, branch, changes)
    return Rewritten(landed, snapshot_id, () if tree is None else tree.leaves)


def remove_leftovers(access: TableAccess, prepared: Prepared) -> None:
    """Remove what killed runs have left, where there is nothing else to do; never raises."""
    Leftovers(access, (COMMAND,)).remove(prepared.loaded)


def _write(
    access: TableAccess,
    prepared: Prepared,
    metadata: TableMetadata,
    group: Group,
    entries: Entries,
    made: _Made,
) -> list[_Output]:
    """Write live entries of a group into new manifests."""
    if not len(entries):
        return []
    writer = ManifestWriter(
        store=access.store,
        env=access.env,
        progress=access.progress,
        concurrency=access.concurrency,
        form=form_for(metadata, group.spec_id, group.content),
        target_size_bytes=prepared.plan.options.target_size_bytes,
        new_location=made.stored.manifest,
    )
    manifests = prepared.listed.manifests
    pieces = group_pieces(metadata, group, prepared.listed, entries, prepared.plan.options)
    outputs = []
    with closing(writer.write(manifests, as_existing(entries), pieces)) as stored:
        for written in stored:
            sources = {
                manifests[at].manifest_path for at in count_by_value(written.entries, "manifest")
            }
            outputs.append(_Output(group, written.manifest, frozenset(sources), written.entries))
    return outputs


def _proposal(
    access: TableAccess, prepared: Prepared, metadata: TableMetadata, made: _Made, snapshot_id: int
) -> Proposal:
    """Propose the commit on the newest metadata; nothing where there is nothing left to replace.

    Where another commit has changed some of the manifests since, only what was made of those is
    made again.
    """
    branch = prepared.plan.branch
    now = head(metadata, branch)
    listed = prepared.listed.manifests
    if now is not None and now != prepared.snapshot:
        listed = read_snapshot_manifests(access.store, metadata, now)
        _renew(access, prepared, metadata, {item.manifest_path for item in listed}, made)
    replaced = set().union(*(output.sources for output in made.outputs))
    replaced |= _emptied(prepared)
    kept = [item for item in listed if item.manifest_path not in replaced]
    if len(kept) == len(listed):
        return Proposal(())
    written = tuple(output.manifest for output in made.outputs)
    location = made.stored.manifest_list(snapshot_id)
    new = NewSnapshot(
        snapshot_id,
        branch,
        "replace",
        (*written, *kept),
        frozenset(item.manifest_path for item in written),
        {
            "manifests-created": str(len(written)),
            "manifests-kept": str(len(kept)),
            "manifests-replaced": str(len(listed) - len(kept)),
            "entries-processed": str(sum(len(output.entries) for output in made.outputs)),
            **carried_totals(None if now is None else now.summary),
        },
    )
    composed = compose(metadata, new, manifest_list=location, env=access.env)
    access.store.create(location, composed.manifest_list)
    return Proposal(composed.updates, frozenset({location, *new.written}))


def _emptied(prepared: Prepared) -> set[str]:
    """Rewritten manifests without a live entry: nothing takes their place (R-056)."""
    counts = prepared.listed.live_counts
    return {
        prepared.listed.manifests[at].manifest_path
        for group in prepared.plan.chosen
        for at in group.rewritten
        if not counts[at]
    }


def _renew(
    access: TableAccess, prepared: Prepared, metadata: TableMetadata, present: set[str], made: _Made
) -> None:
    """Make those outputs anew that hold entries of manifests which are listed no more.

    Entries of manifests that are gone are dropped: what took their place is listed, and is kept.
    """
    stale = [output for output in made.outputs if not output.sources <= present]
    made.outputs = [output for output in made.outputs if output.sources <= present]
    indices = [
        at for at, item in enumerate(prepared.listed.manifests) if item.manifest_path in present
    ]
    for group in dict.fromkeys(output.group for output in stale):
        parts = [output.entries for output in stale if output.group == group]
        entries = in_order(in_manifests(concat(parts), indices))
        made.outputs += _write(access, prepared, metadata, group, entries, made)
