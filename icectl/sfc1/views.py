"""What a snapshot of layout sfc-1 changed (sfc-1 9), and what views show beyond its manifests."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from icectl.entries.columns import NONE, Positions
from icectl.files.deletion_vectors import read_bitmap, write_bitmap
from icectl.files.parquet.schema import field_id
from icectl.format.manifest import FieldSummary, ManifestFile, ManifestVector, RootManifest, Status
from icectl.format.snapshot import Snapshot
from icectl.format.stats_columns import group_id
from icectl.sfc1.listed import leaf_manifest, own_manifests
from icectl.sfc1.live import is_dead, leaf_rows, of_contents, vector_positions, vector_rows
from icectl.sfc1.manifests import LEAVES, TreeFacts, read_root, root_rows
from icectl.sfc1.rows import STATS, ListedRow, number_of
from icectl.sfc1.stats_maps import single_values
from icectl.storage.location import comparison_key
from icectl.storage.store import Store
from icectl.table.manifest_lists import MarkedManifest
from icectl.table.reading import decode_file, read_file

_LIVE = frozenset({Status.ADDED, Status.EXISTING})


def marked_manifests(store: Store, facts: TreeFacts, snapshot: Snapshot) -> list[MarkedManifest]:
    """The manifests to read for what a snapshot changed (sfc-1 9.2); others have no part in it.

    Order: the root first, then of the root.
    Raises: StorageError; CorruptTable; Unsupported.
    """
    root = read_root(store, facts, snapshot)
    manifests = [
        MarkedManifest(manifest, frozenset({Status.ADDED}), frozenset({Status.DELETED}))
        for manifest in own_manifests(root, snapshot)
        if manifest.added_files_count or manifest.deleted_files_count
    ]
    marks = _marks(store, root)
    for leaf in leaf_rows(root):
        mark = marks.get(comparison_key(leaf.name), _Marks())
        is_dead(leaf, mark.of(*Status))  # V4-083
        manifests += _in_leaf(leaf, mark)
    return manifests


@dataclass(slots=True)
class _Marks:
    """Dead positions of a leaf by the status of the vector that names them."""

    by_status: dict[int, Positions] = field(default_factory=dict)

    def of(self, *statuses: Status) -> Positions:
        """Return the positions that vectors of some statuses name."""
        positions = NONE
        for status in statuses:
            positions = np.union1d(positions, self.by_status.get(status, NONE))
        return positions


def _marks(store: Store, root: pa.Table) -> dict[str, _Marks]:
    marks: dict[str, _Marks] = {}
    for leaf, row in vector_rows(root):
        mark = marks.setdefault(comparison_key(leaf), _Marks())
        mark.by_status[row.status] = vector_positions(store.read_range, row)
    return marks


def _in_leaf(leaf: ListedRow, mark: _Marks) -> Iterator[MarkedManifest]:
    """Find how to read what changed in a leaf, nothing if nothing did (sfc-1 9.2 steps 3 to 5)."""
    fresh = np.setdiff1d(mark.of(Status.ADDED), mark.of(Status.DELETED))
    if leaf.status == Status.EXISTING:
        if len(fresh):
            yield MarkedManifest(_only(leaf, fresh), removed=_LIVE)
    elif leaf.status == Status.ADDED:
        manifest = leaf_manifest(leaf, mark.of(Status.ADDED, Status.EXISTING))
        yield MarkedManifest(manifest, frozenset({Status.ADDED}), frozenset({Status.DELETED}))
        if len(fresh):
            yield MarkedManifest(_only(leaf, fresh), removed=frozenset({Status.EXISTING}))
    else:
        manifest = leaf_manifest(leaf, mark.of(Status.DELETED, Status.EXISTING))
        yield MarkedManifest(manifest, removed=_LIVE, unless_live=True)


def _only(leaf: ListedRow, positions: Positions) -> ManifestFile:
    """Return a leaf in which everything but some positions is dead."""
    others = np.setdiff1d(np.arange(leaf.record_count, dtype=np.uint64), positions)
    return leaf_manifest(leaf, others)


def root_manifest(store: Store, facts: TreeFacts, snapshot: Snapshot) -> RootManifest:
    """Return what the root of a snapshot says beside what it lists.

    Order: vectors as in the root.
    Raises: StorageError; CorruptTable; Unsupported.
    """
    location = snapshot.root_manifest or ""
    content = read_file(store, location)
    root = decode_file(location, lambda: root_rows(facts, content, snapshot))
    return RootManifest(location, len(content), len(root), tuple(_vectors(store, root)))


def _vectors(store: Store, root: pa.Table) -> Iterator[ManifestVector]:
    leaves = [leaf.name for leaf in leaf_rows(root)]
    listed = {comparison_key(location): location for location in leaves}
    rows = [(leaf, row, vector_positions(store.read_range, row)) for leaf, row in vector_rows(root)]
    gone = {
        comparison_key(leaf): positions
        for leaf, row, positions in rows
        if row.status == Status.DELETED
    }
    for leaf, row, positions in rows:
        key, inline = comparison_key(leaf), row.inline_content
        fresh = np.setdiff1d(positions, gone.get(key, NONE))
        yield ManifestVector(
            manifest_path=listed.get(key, leaf),
            status=Status(row.status),
            position_count=len(positions),
            fresh_count=len(fresh) if row.status == Status.ADDED else 0,
            size_bytes=number_of(row.content_size_in_bytes) if inline is None else len(inline),
            location=row.location,
        )


def manifests_for_views(
    store: Store, facts: TreeFacts, snapshot: Snapshot, manifests: Sequence[ManifestFile]
) -> tuple[ManifestFile, ...]:
    """Return the manifests of a version 4 snapshot with what only views show of them.

    That is summaries of partition fields, as far as statistics tell (sfc-1 5.7), and the size of
    the root.

    Order: kept.
    Raises: StorageError; CorruptTable; Unsupported.
    """
    location = snapshot.root_manifest or ""
    content = read_file(store, location)
    root = decode_file(location, lambda: root_rows(facts, content, snapshot))
    rows = of_contents(root, *LEAVES)
    specs, places = rows["spec_id"].to_pylist(), rows["location"].to_pylist()
    by_place = {
        place: _summaries(facts, number, rows.slice(at, 1)[STATS].combine_chunks())
        for at, (place, number) in enumerate(zip(places, specs, strict=True))
    }
    return tuple(
        replace(manifest, manifest_length=len(content))
        if manifest.in_root
        else replace(manifest, partitions=by_place[manifest.manifest_path])
        for manifest in manifests
    )


def _summaries(facts: TreeFacts, spec_id: int, stats: pa.StructArray) -> tuple[FieldSummary, ...]:
    spec = facts.metadata.spec(spec_id)
    summaries = [FieldSummary(contains_null=True)] * (0 if spec is None else len(spec.fields))
    groups = {field_id(one): at for at, one in enumerate(stats.type)}
    for item in facts.tuple_fields(spec_id):
        group = stats.flatten()[groups[group_id(item.stats_id)]]
        members = dict(zip((one.name for one in group.type), group.flatten(), strict=True))
        lower, upper = (
            single_values(item.type, members[name])[0].as_py()
            for name in ("lower_bound", "upper_bound")
        )
        nans = members["nan_count"][0].as_py() if "nan_count" in members else 0
        summaries[item.place] = FieldSummary(
            contains_null=members["null_count"][0].as_py() != 0,
            contains_nan=None if nans is None else nans > 0,
            lower_bound=lower,
            upper_bound=upper,
        )
    return tuple(summaries)


def deleted_only(manifest: ManifestFile) -> ManifestFile:
    """Return the same leaf with what is dead in it alive, and the other way round."""
    counts = (
        manifest.added_files_count, manifest.existing_files_count, manifest.deleted_files_count
    )  # fmt: skip
    places = np.arange(sum(count or 0 for count in counts), dtype=np.uint64)
    alive = np.setdiff1d(places, read_bitmap(manifest.dead))
    return replace(manifest, dead=write_bitmap(alive) if len(alive) else b"")
