"""The head of a branch as far as it can be read, and the repaired head that takes its place."""

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any

from icectl.commands.repair.plan import Fix
from icectl.commit.manifests import ManifestWriter, form_for
from icectl.commit.snapshot import NewSnapshot, head, propose_snapshot
from icectl.commit.transaction import Outputs, Proposal
from icectl.entries.inherit import inherit
from icectl.entries.rows import (
    ALL_COLUMNS,
    PLANNING,
    PLANNING_COLUMNS,
    Entries,
    as_existing,
    concat,
    live,
    take,
    with_manifest_number,
    with_values,
)
from icectl.entries.summary import describe_manifest, summarise, summary_counters
from icectl.errors import CommitConflict, CorruptTable
from icectl.format.manifest import ManifestFile
from icectl.format.metadata import TableMetadata
from icectl.format.partition import result_types
from icectl.format.properties import TARGET_MANIFEST_SIZE_BYTES, read
from icectl.format.snapshot import Snapshot
from icectl.table.context import TableContext
from icectl.table.manifest_lists import ManifestListRead, try_manifest_lists
from icectl.table.manifests import ManifestRead, load_entries, try_manifests
from icectl.table.reader import Reader


@dataclass(frozen=True, slots=True)
class ManifestChange:
    """The change of the manifest at a place in the list, and of entries by their position in it.

    `described`: its row is counted again. `restated` has columns of entries by name. `rebuilt`
    stands in for a manifest that is lost.
    """

    place: int
    gone: bool = False
    described: bool = False
    dropped: frozenset[int] = frozenset()
    restated: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    rebuilt: Entries | None = None

    def __or__(self, other: "ManifestChange") -> "ManifestChange":
        return ManifestChange(
            self.place,
            self.gone or other.gone,
            self.described or other.described,
            self.dropped | other.dropped,
            {**self.restated, **other.restated},
            self.rebuilt if other.rebuilt is None else other.rebuilt,
        )


@dataclass(frozen=True, slots=True)
class HeadFix:
    """A repair, and what it changes of the list; without a change a new list is all that it is."""

    fix: Fix
    changes: tuple[ManifestChange, ...] = ()


@dataclass(frozen=True, slots=True)
class ReadHead:
    """The head of a branch as far as it can be read; `entries` of each manifest, None of a broken
    one.

    Where its list is lost and `is_proven`, other manifests stand in for those that it named, with
    the `changes` that make them what it listed; `entries` are those after them.
    """

    snapshot: Snapshot
    listed: ManifestListRead
    read: tuple[ManifestRead, ...]
    entries: tuple[Entries | None, ...]
    changes: tuple[ManifestChange, ...] = ()
    is_proven: bool = False

    @property
    def is_whole(self) -> bool:
        """Whether everything that it lists can be read."""
        return not self.listed.problems and None not in self.entries


def read_head(reader: Reader, snapshot: Snapshot) -> ReadHead:
    """Read what a snapshot of versions 1 to 3 lists, damaged manifests included.

    Raises: StorageError of the store; Incomplete.
    Cost: planning columns of all entries in memory.
    """
    lists = try_manifest_lists(reader.context, reader.metadata, [snapshot])
    with closing(lists):
        (listed,) = lists
    manifests = listed.manifests
    read: list[ManifestRead] = []
    entries: list[Entries | None] = []
    reads = try_manifests(reader.context, reader.metadata, manifests, PLANNING_COLUMNS)
    with closing(reads):
        for manifest_read in reads:
            reader.context.deadline.check()
            read.append(manifest_read)
            entries.append(_inherited(manifest_read, manifests[manifest_read.index]))
    return ReadHead(snapshot, listed, tuple(read), tuple(entries))


def _inherited(read: ManifestRead, manifest: ManifestFile) -> Entries | None:
    if read.rows is None:
        return None
    try:
        return inherit(with_manifest_number(read.rows, 0), [manifest])
    except CorruptTable:
        return None


def counted_manifest(reader: Reader, head: ReadHead, place: int) -> ManifestFile:
    """Return the row of a manifest counted from its entries; its numbers are those of the list.

    Raises: CorruptTable R-052, R-068: of which spec its partitions are is not sure.
    """
    manifest, entries = head.listed.manifests[place], head.entries[place]
    size = head.read[place].size_bytes
    assert entries is not None
    assert size is not None
    spec = reader.metadata.spec(manifest.partition_spec_id)
    if spec is None:
        message = (
            f"`{manifest.manifest_path}`: spec {manifest.partition_spec_id} is not in the table"
        )
        raise CorruptTable(message, rule="R-052", location=manifest.manifest_path)
    types = result_types(spec, reader.metadata.schemas)
    row = describe_manifest(
        entries, types, location=manifest.manifest_path, length=size, spec_id=spec.spec_id
    )
    return replace(
        row,
        content=manifest.content,
        sequence_number=manifest.sequence_number,
        added_snapshot_id=manifest.added_snapshot_id,
        first_row_id=manifest.first_row_id,
        key_metadata=manifest.key_metadata,
    )


@dataclass(frozen=True, slots=True)
class HeadRepair:
    """The head of a branch, and what of it is set right."""

    branch: str
    head: ReadHead
    head_fixes: tuple[HeadFix, ...]


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


def write_manifests(reader: Reader, head_repair: HeadRepair, outputs: Outputs) -> RepairedHead:
    """Rewrite those manifests of a head of which entries change.

    Each is read again and compared before it is stored.
    Raises: Unsupported; StorageError; SelfCheckFailed R-069; Incomplete.
    """
    head, head_fixes = head_repair.head, head_repair.head_fixes
    changes: dict[int, ManifestChange] = {}
    for change in (change for head_fix in head_fixes for change in head_fix.changes):
        known = changes.get(change.place)
        changes[change.place] = change if known is None else known | change
    manifests: list[ManifestFile] = []
    written: list[str] = []
    alive: list[Entries | None] = []
    for place, manifest in enumerate(head.listed.manifests):
        reader.context.deadline.check()
        wanted = changes.get(place, ManifestChange(place))
        if wanted.gone:
            continue
        if wanted.rebuilt is None and not wanted.dropped and not wanted.restated:
            manifests.append(
                counted_manifest(reader, head, place) if wanted.described else manifest
            )
            alive.append(head.entries[place])
            continue
        for row, entries in _written(reader, manifest, wanted, outputs):
            manifests.append(row)
            written.append(row.manifest_path)
            alive.append(entries)
    parts = [live(part).table.select(PLANNING.names) for part in alive if part is not None]
    kinds = {head_fix.fix.kind for head_fix in head_fixes}
    operation = "delete" if "lost-data" in kinds else "replace"
    return RepairedHead(
        head_repair.branch,
        head.snapshot,
        tuple(manifests),
        frozenset(written),
        concat(map(Entries, parts)) if len(parts) == len(alive) else None,
        "overwrite" if "lost-deletes" in kinds else operation,
    )


def _written(
    reader: Reader, manifest: ManifestFile, change: ManifestChange, outputs: Outputs
) -> Iterator[tuple[ManifestFile, Entries]]:
    """Write the changed live entries of a manifest into new manifests."""
    entries = change.rebuilt
    if entries is None:
        entries = load_entries(
            reader.context, reader.metadata, [manifest], ALL_COLUMNS, trust="own"
        )
        positions = entries.table["manifest_pos"].to_pylist()
        for name in {name for columns in change.restated.values() for name in columns}:
            new = {at: columns[name] for at, columns in change.restated.items() if name in columns}
            values = zip(positions, entries.table[name].to_pylist(), strict=True)
            entries = with_values(entries, name, [new.get(at, value) for at, value in values])
        kept_rows = [
            row for row, position in enumerate(positions) if position not in change.dropped
        ]
        entries = as_existing(live(take(entries, kept_rows)))
    if not len(entries):
        return
    writer = ManifestWriter(
        context=reader.context,
        form=form_for(reader.metadata, manifest.partition_spec_id, manifest.content),
        target_size_bytes=read(reader.metadata.properties, TARGET_MANIFEST_SIZE_BYTES),
        new_location=outputs.manifest,
    )
    with closing(writer.add(with_manifest_number(entries, 0))) as stored:
        for entry in stored:
            yield entry.manifest, entry.entries


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
    branch, repaired_head = repaired.branch, repaired.repaired
    if head(metadata, branch) != repaired_head:
        raise CommitConflict(f"branch {branch} has changed; run the repair again")
    location = outputs.manifest_list(snapshot_id)
    totals: Mapping[str, str] = {}
    if repaired.entries is not None:
        counters = summary_counters(summarise(repaired.entries), "total")
        totals = {name: str(count) for name, count in counters.items()}
    new = NewSnapshot(
        snapshot_id, branch, repaired.operation, repaired.manifests, repaired.written,
        {"icectl.repair-of": str(repaired_head.snapshot_id), **totals},
    )  # fmt: skip
    return propose_snapshot(context, metadata, new, location)
