"""Writing what a repaired head of a branch lists: manifests anew, a list, a snapshot."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass

from icectl.commands.repair.head import ManifestChange, Mend, ReadHead, counted_manifest
from icectl.commands.repair.plan import Remedy
from icectl.commit.manifests import ManifestWriter, form_for
from icectl.commit.snapshot import NewSnapshot, head, propose_snapshot
from icectl.commit.transaction import Outputs, Proposal
from icectl.entries.rows import (
    ALL_COLUMNS,
    PLANNING,
    Entries,
    as_existing,
    concat,
    live,
    take,
    with_manifest_number,
    with_values,
)
from icectl.entries.summary import summarise, summary_counters
from icectl.errors import CommitConflict
from icectl.format.manifest import ManifestFile
from icectl.format.metadata import TableMetadata
from icectl.format.properties import TARGET_MANIFEST_SIZE_BYTES, read
from icectl.format.snapshot import Snapshot
from icectl.table.context import TableContext
from icectl.table.manifests import load_entries
from icectl.table.reader import Reader


@dataclass(frozen=True, slots=True)
class Mending:
    """The head of a branch, and what of it is set right."""

    branch: str
    head: ReadHead
    mends: tuple[Mend, ...]


@dataclass(frozen=True, slots=True)
class RepairedHead:
    """The next snapshot of a branch: what it lists, and what of that was written for it.

    `repaired` is the broken snapshot. `entries` are the live ones; None where a manifest that stays
    cannot be read.
    """

    branch: str
    repaired: Snapshot
    manifests: tuple[ManifestFile, ...]
    written: frozenset[str]
    entries: Entries | None
    operation: str


def write_manifests(reader: Reader, mending: Mending, outputs: Outputs) -> RepairedHead:
    """Write those manifests of a head anew of which entries change.

    Each is read again and compared before it is stored.
    Raises: Unsupported; StorageError; SelfCheckFailed R-069; Incomplete.
    """
    found, mends = mending.head, mending.mends
    changes: dict[int, ManifestChange] = {}
    for change in (change for mend in mends for change in mend.changes):
        known = changes.get(change.place)
        changes[change.place] = change if known is None else known | change
    manifests: list[ManifestFile] = []
    written: list[str] = []
    alive: list[Entries | None] = []
    for place, manifest in enumerate(found.listed.manifests):
        reader.context.deadline.check()
        wanted = changes.get(place, ManifestChange(place))
        if wanted.gone:
            continue
        if wanted.rebuilt is None and not wanted.dropped and not wanted.restated:
            manifests.append(
                counted_manifest(reader, found, place) if wanted.described else manifest
            )
            alive.append(found.entries[place])
            continue
        for row, entries in _written(reader, manifest, wanted, outputs):
            manifests.append(row)
            written.append(row.manifest_path)
            alive.append(entries)
    return RepairedHead(
        mending.branch,
        found.snapshot,
        tuple(manifests),
        frozenset(written),
        _together(alive),
        _operation([mend.remedy for mend in mends]),
    )


def _together(parts: Sequence[Entries | None]) -> Entries | None:
    """Return the live entries of all parts; None where one is not known."""
    known = [live(part).table.select(PLANNING.names) for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    return concat(Entries(table) for table in known)


def _operation(remedies: Sequence[Remedy]) -> str:
    """Name what the new snapshot does to rows: nothing, as a rule (R-032)."""
    kinds = {remedy.kind for remedy in remedies}
    if "lost-deletes" in kinds:
        return "overwrite"
    return "delete" if "lost-data" in kinds else "replace"


def _written(
    reader: Reader,
    manifest: ManifestFile,
    change: ManifestChange,
    outputs: Outputs,
) -> Iterator[tuple[ManifestFile, Entries]]:
    """Write the live entries of a manifest, changed, into new ones."""
    entries = change.rebuilt
    if entries is None:
        entries = load_entries(reader.context, reader.metadata, [manifest], ALL_COLUMNS)
        entries = _changed(entries, change)
    if not len(entries):
        return
    writer = ManifestWriter(
        context=reader.context,
        form=form_for(reader.metadata, manifest.partition_spec_id, manifest.content),
        target_size_bytes=read(reader.metadata.properties, TARGET_MANIFEST_SIZE_BYTES),
        new_location=outputs.manifest,
    )
    with closing(writer.add(with_manifest_number(entries, 0))) as stored:
        for one in stored:
            yield one.manifest, one.entries


def _changed(entries: Entries, change: ManifestChange) -> Entries:
    """Return the live entries that stay, as EXISTING, with what is said anew of some."""
    positions = entries.table["manifest_pos"].to_pylist()
    for name in {name for one in change.restated.values() for name in one}:
        new = {at: one[name] for at, one in change.restated.items() if name in one}
        told = zip(positions, entries.table[name].to_pylist(), strict=True)
        entries = with_values(entries, name, [new.get(at, value) for at, value in told])
    stays = [row for row, position in enumerate(positions) if position not in change.dropped]
    return as_existing(live(take(entries, stays)))


def proposal(
    context: TableContext,
    metadata: TableMetadata,
    repaired: RepairedHead,
    snapshot_id: int,
    outputs: Outputs,
) -> Proposal:
    """Propose a repaired head as the next snapshot of its branch, and write its list.

    Raises: CommitConflict, where the branch has moved on: the repair is of another snapshot.
    """
    branch, found = repaired.branch, repaired.repaired
    if head(metadata, branch) != found:
        raise CommitConflict(f"branch {branch} has changed; run the repair again")
    location = outputs.manifest_list(snapshot_id)
    totals: Mapping[str, str] = {}
    if repaired.entries is not None:
        counters = summary_counters(summarise(repaired.entries), "total")
        totals = {name: str(count) for name, count in counters.items()}
    new = NewSnapshot(
        snapshot_id, branch, repaired.operation, repaired.manifests, repaired.written,
        {"icectl.repair-of": str(found.snapshot_id), **totals},
    )  # fmt: skip
    return propose_snapshot(context, metadata, new, location)
