"""Write a snapshot in the form of the upstream draft, beside its table: never a commit.

A leaf for each manifest, and a root. A data file whose deletion vector is of the snapshot itself
is told as the draft does: what it was is replaced in its leaf, what it is now stands in the root.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icectl.codec.draft_16025.from_entries import (
    DraftForm,
    LeafMarks,
    Vector,
    WrittenLeaf,
    as_rows,
    leaf_row,
    with_status,
)
from icectl.codec.draft_16025.manifest import read_draft, write_draft
from icectl.codec.puffin.positions import read_bitmap
from icectl.entries.columns.values import NONE, Positions
from icectl.entries.draft_16025.rows import DRAFT_ROWS, DraftStatus, are_leaves, are_live
from icectl.entries.rows import (
    EMPTY,
    Entries,
    concat,
    of,
    take,
)
from icectl.entries.schema import ALL_COLUMNS
from icectl.env import Deadline
from icectl.errors import Refused, SelfCheckFailed
from icectl.progress import Progress
from icectl.spec.layout import DRAFT_16025, LAYOUT_KEY
from icectl.spec.manifest import Content, ManifestContent, ManifestFile, Status
from icectl.spec.partition import spec_json
from icectl.spec.schema import schema_json
from icectl.spec.snapshot import Snapshot
from icectl.storage.location import comparison_key, join
from icectl.storage.store import Store
from icectl.table.draft_16025.root import SEQUENCE_NUMBER, SNAPSHOT_ID, TABLE_LOCATION
from icectl.table.manifests import load_entries

ROOT = "root.parquet"


@dataclass(frozen=True, slots=True)
class ExportPlan:
    """One export: what it is of, and what it will say.

    `vectors` are the live deletion vectors by the key of their data file; `fresh` of them are new
    in the snapshot, and `before` has those that they replaced. `taken` are the rows of a leaf that
    the snapshot deleted there, by the leaf's location.
    """

    snapshot: Snapshot
    folder: str
    form: DraftForm
    manifests: tuple[ManifestFile, ...]
    leaf_count: int
    live_count: int
    vectors: Mapping[str, Vector]
    before: Mapping[str, Vector]
    fresh: frozenset[str]
    lost_vectors: int
    taken: Mapping[str, Positions]


@dataclass(slots=True)
class Exported:
    """What was written, and how many entries of the root and the leaves are live."""

    root: str
    files: list[str] = field(default_factory=list)
    size_bytes: int = 0
    live_count: int = 0


@dataclass(frozen=True, slots=True)
class ExportAccess:
    """What an export reads and writes with."""

    store: Store
    progress: Progress
    deadline: Deadline


def write_export(means: ExportAccess, plan: ExportPlan) -> Exported:
    """Write leaves, then the root; what was written goes where that fails.

    Raises: Refused, where a file is there that was not before; StorageError; Incomplete.
    """
    done = Exported(join(plan.folder, ROOT))
    roots: list[pa.Table] = []
    try:
        for manifest in plan.manifests:
            means.deadline.check()
            roots += _write_manifest(means, done, plan, manifest)
        root = pa.concat_tables(roots) if roots else as_rows(EMPTY, plan.form, {})
        _write(means, done, plan, ROOT, "root", root)
    except BaseException:
        means.store.remove(done.files)
        raise
    in_root = pc.and_(are_live(root), pc.invert(are_leaves(root)))
    done.live_count += int(pc.sum(in_root, min_count=0).as_py())
    return done


def _write_manifest(
    means: ExportAccess, done: Exported, plan: ExportPlan, manifest: ManifestFile
) -> list[pa.Table]:
    """Write the leaf that a manifest becomes; the rows that it adds to the root."""
    whole = replace(manifest, dead=b"", dead_count=0)
    entries = load_entries(
        means.store,
        plan.form.metadata,
        [whole],
        columns=ALL_COLUMNS,
        concurrency=1,
        progress=means.progress,
    )
    entries = of(entries, Content.DATA, Content.EQUALITY_DELETES)
    if not len(entries):
        return []
    dead = read_bitmap(manifest.dead) if manifest.dead else NONE
    found = _Changes.of(plan, entries, _places(entries, dead))
    status = manifest.status if manifest.status is not None else _status(plan, manifest)
    if manifest.in_root:
        return [found.paired()[0]]
    if status == Status.ADDED:
        rows, entries = found.paired()
        marks, modified = LeafMarks(found.dead, NONE, NONE), []
    else:
        rows, modified = found.replaced(), [found.modified()]
        taken = _places(entries, plan.taken.get(manifest.manifest_path, NONE))
        marks = LeafMarks(np.union1d(found.dead, found.fresh), taken, found.fresh)
    name = f"leaf-{len(done.files) + 1:05}.parquet"
    content = "data" if manifest.content == ManifestContent.DATA else "delete"
    size = _write(means, done, plan, name, content, rows)
    leaf = WrittenLeaf(join(plan.folder, name), size, rows, entries, marks)
    own = leaf_row(leaf, manifest, DraftStatus(status), plan.snapshot.snapshot_id, plan.form)
    done.live_count += int(leaf.alive.sum())
    return [own, *modified]


def _status(plan: ExportPlan, manifest: ManifestFile) -> Status:
    is_new = manifest.added_snapshot_id == plan.snapshot.snapshot_id
    return Status.ADDED if is_new else Status.EXISTING


def _places(entries: Entries, positions: Positions) -> Positions:
    """Return the rows of entries that stand at positions of their manifest."""
    return np.flatnonzero(np.isin(entries.table["manifest_pos"].to_numpy(), positions)).astype(
        np.uint64
    )


@dataclass(frozen=True, slots=True)
class _Changes:
    """The entries of one manifest, with the vectors that they have now and had before."""

    plan: ExportPlan
    entries: Entries
    dead: Positions
    fresh: Positions
    vectors: Mapping[int, Vector]
    before: Mapping[int, Vector]

    @staticmethod
    def of(plan: ExportPlan, entries: Entries, dead: Positions) -> "_Changes":
        """Look up the vectors of the live rows among entries."""
        table = entries.table
        vectors: dict[int, Vector] = {}
        before: dict[int, Vector] = {}
        fresh = []
        if plan.vectors:
            keys = map(comparison_key, table["location"].to_pylist())
            states = zip(
                keys, table["status"].to_pylist(), table["content"].to_pylist(), strict=True
            )
            killed = set(dead.tolist())
            snapshots = table["snapshot_id"].to_pylist()
            for place, (key, status, content) in enumerate(states):
                is_data = content == Content.DATA and status != Status.DELETED
                if not is_data or place in killed or key not in plan.vectors:
                    continue
                vectors[place] = plan.vectors[key]
                if key in plan.fresh and snapshots[place] != plan.snapshot.snapshot_id:
                    fresh.append(place)
                    if key in plan.before:
                        before[place] = plan.before[key]
        return _Changes(plan, entries, dead, np.array(fresh, np.uint64), vectors, before)

    def modified(self) -> pa.Table:
        """Return the rows whose vectors are new, as they are now."""
        return self._fresh(self.vectors, DraftStatus.MODIFIED)

    def replaced(self) -> pa.Table:
        """Return all rows as they were before."""
        fresh = set(self.fresh.tolist())
        kept = {place: one for place, one in self.vectors.items() if place not in fresh}
        return as_rows(self.entries, self.plan.form, {**kept, **self.before})

    def paired(self) -> tuple[pa.Table, Entries]:
        """All rows as they are now, then those with new vectors as they were, and their entries."""
        rows = as_rows(self.entries, self.plan.form, self.vectors)
        if not len(self.fresh):
            return rows, self.entries
        statuses = rows["status"].to_numpy().copy()
        statuses[self.fresh] = DraftStatus.MODIFIED
        rows = rows.set_column(0, DRAFT_ROWS.field("status"), pa.array(statuses))
        gone = self._fresh(self.before, DraftStatus.REPLACED, self.plan.snapshot.snapshot_id)
        return pa.concat_tables([rows, gone]), concat(
            [self.entries, take(self.entries, self.fresh)]
        )

    def _fresh(
        self, vectors: Mapping[int, Vector], status: DraftStatus, snapshot_id: int | None = None
    ) -> pa.Table:
        """Return the rows whose vectors are new, with some vectors of theirs and a status."""
        places = self.fresh.tolist()
        own = {at: vectors[place] for at, place in enumerate(places) if place in vectors}
        rows = as_rows(take(self.entries, self.fresh), self.plan.form, own)
        return with_status(rows, status, snapshot_id)


def _write(
    means: ExportAccess, done: Exported, plan: ExportPlan, name: str, content: str, rows: pa.Table
) -> int:
    """Write one manifest, once it is sure that it can be read; its size."""
    stored = write_draft(rows, _footer(plan, content))
    found = read_draft(stored).rows
    if any(
        not found[one].combine_chunks().equals(rows[one].combine_chunks())
        for one in found.column_names
    ):
        raise SelfCheckFailed(f"`{name}` reads as something else than was written")
    location = join(plan.folder, name)
    try:
        means.store.create(location, stored)
    except FileExistsError:
        raise Refused(f"another run has written `{location}`") from None
    done.files.append(location)
    done.size_bytes += len(stored)
    return len(stored)


def _footer(plan: ExportPlan, content: str) -> dict[str, str]:
    metadata = plan.form.metadata
    specs = [spec_json(spec) for spec in metadata.partition_specs]
    return {
        "format-version": "4",
        "content": content,
        "schema": json.dumps(schema_json(metadata.current_schema), separators=(",", ":")),
        "partition-specs": json.dumps(specs, separators=(",", ":")),
        LAYOUT_KEY: DRAFT_16025,
        TABLE_LOCATION: plan.form.table_location,
        SNAPSHOT_ID: str(plan.snapshot.snapshot_id),
        SEQUENCE_NUMBER: str(plan.snapshot.sequence_number or 0),
    }
