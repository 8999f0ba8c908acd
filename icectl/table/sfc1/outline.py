"""What views show of a version 4 root beyond what manifests of every version have."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from icectl.codec.dv import read_bitmap, write_bitmap
from icectl.codec.parquet_schema import field_id
from icectl.codec.sfc1.stats_maps import single_values
from icectl.entries.column_values import NONE
from icectl.entries.sfc1.rows import STATS, number_of
from icectl.spec.manifest import FieldSummary, ManifestFile, ManifestVector, RootManifest, Status
from icectl.spec.snapshot import Snapshot
from icectl.spec.stats_columns import group_id
from icectl.storage.location import comparison_key
from icectl.storage.store import Store
from icectl.table.reading import decode_file, read_file
from icectl.table.sfc1.live import leaf_rows, of_contents, vector_positions, vector_rows
from icectl.table.sfc1.manifests import LEAVES, TreeFacts, root_rows


def root_manifest(store: Store, facts: TreeFacts, snapshot: Snapshot) -> RootManifest:
    """What the root of a snapshot says beside what it lists.

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


def described(
    store: Store, facts: TreeFacts, snapshot: Snapshot, manifests: Sequence[ManifestFile]
) -> tuple[ManifestFile, ...]:
    """The manifests of a version 4 snapshot with what only views show of them.

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
    found = {
        place: _summaries(facts, number, rows.slice(at, 1)[STATS].combine_chunks())
        for at, (place, number) in enumerate(zip(places, specs, strict=True))
    }
    return tuple(
        replace(manifest, manifest_length=len(content))
        if manifest.in_root
        else replace(manifest, partitions=found[manifest.manifest_path])
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


def killed_of(manifest: ManifestFile) -> ManifestFile:
    """The same leaf with what is dead in it alive, and the other way round."""
    counts = (
        manifest.added_files_count, manifest.existing_files_count, manifest.deleted_files_count
    )  # fmt: skip
    places = np.arange(sum(count or 0 for count in counts), dtype=np.uint64)
    alive = np.setdiff1d(places, read_bitmap(manifest.dead))
    return replace(manifest, dead=write_bitmap(alive) if len(alive) else b"")
