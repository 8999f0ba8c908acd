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
    Form,
    LeafMarks,
    Vector,
    WrittenLeaf,
    as_rows,
    form_of,
    leaf_row,
    with_status,
)
from icectl.codec.draft_16025.manifest import read_draft, write_draft
from icectl.codec.draft_16025.mumbling import MAX_POSITIONS
from icectl.codec.puffin.positions import read_bitmap
from icectl.entries.columns.values import NONE, Positions
from icectl.entries.draft_16025.rows import DRAFT_ROWS, DraftStatus, are_leaves, are_live
from icectl.entries.rows import (
    EMPTY,
    Entries,
    concat,
    data_files,
    deletion_vectors,
    equality_delete_files,
    live,
    of,
    of_status,
    position_delete_files,
    take,
    where,
)
from icectl.entries.schema import ALL_COLUMNS, PLANNING_COLUMNS
from icectl.errors import Refused, SelfCheckFailed, Unsupported
from icectl.run.reader import Reader
from icectl.spec.layout import DRAFT_16025, LAYOUT_KEY
from icectl.spec.manifest import Content, FileFormat, ManifestContent, ManifestFile, Status
from icectl.spec.metadata import TableMetadata
from icectl.spec.partition import spec_json
from icectl.spec.schema import schema_json
from icectl.spec.snapshot import Snapshot
from icectl.storage.location import comparison_key, join
from icectl.table.draft_16025.root import SEQUENCE_NUMBER, SNAPSHOT_ID, TABLE_LOCATION
from icectl.table.manifest_lists import read_snapshot_manifests, snapshot_reader
from icectl.table.manifests import load_entries
from icectl.table.row_safety import check_live, check_metadata
from icectl.units import print_count

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
    form: Form
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


def prepare(reader: Reader, branch: str, folder: str) -> ExportPlan:
    """Read the head of a branch, and say what its form is; nothing is written.

    `folder` has a scheme.
    Raises: Unsupported, for what the draft has no form for; Refused, where there is no snapshot,
    or the folder is not empty; CorruptTable, where it is not sure which rows live; StorageError.
    """
    metadata = reader.metadata
    check_metadata(metadata)
    snapshot = _head(metadata, branch)
    _check_folder(reader, folder)
    form = form_of(metadata)
    manifests = read_snapshot_manifests(reader.store, metadata, snapshot)
    _check_encryption(snapshot, manifests)
    entries = reader.load(manifests, PLANNING_COLUMNS)
    check_live(metadata, snapshot, manifests, entries)
    alive = live(entries)
    _check_files(alive, manifests)
    keys = {comparison_key(one) for one in data_files(alive).table["location"].to_pylist()}
    current = _vectors(deletion_vectors(alive), metadata)
    vectors = {key: vector for key, vector in current.items() if key in keys}
    gone = of_status(deletion_vectors(entries), Status.DELETED)
    gone = where(gone, np.equal(gone.table["snapshot_id"].to_numpy(), snapshot.snapshot_id))
    fresh = {key for key, one in vectors.items() if one.snapshot_id == snapshot.snapshot_id}
    with_deletes = set(equality_delete_files(entries).table["manifest"].to_pylist())
    leaves = [
        place
        for place, one in enumerate(manifests)
        if not one.in_root and (one.content == ManifestContent.DATA or place in with_deletes)
    ]
    return ExportPlan(
        snapshot=snapshot,
        folder=folder,
        form=form,
        manifests=manifests,
        leaf_count=len(leaves),
        live_count=len(alive) - len(deletion_vectors(alive)),
        vectors=vectors,
        before=_vectors(gone, metadata),
        fresh=frozenset(fresh),
        lost_vectors=len(current) - len(vectors),
        taken=_taken(reader, snapshot),
    )


def execute(reader: Reader, plan: ExportPlan) -> Exported:
    """Write leaves, then the root; what was written goes where that fails.

    Raises: Refused, where a file is there that was not before; StorageError; Incomplete.
    """
    done = Exported(join(plan.folder, ROOT))
    roots: list[pa.Table] = []
    try:
        for manifest in plan.manifests:
            reader.deadline.check()
            roots += _write_manifest(reader, done, plan, manifest)
        root = pa.concat_tables(roots) if roots else as_rows(EMPTY, plan.form, {})
        _write(reader, done, plan, ROOT, "root", root)
    except BaseException:
        reader.store.remove(done.files)
        raise
    in_root = pc.and_(are_live(root), pc.invert(are_leaves(root)))
    done.live_count += int(pc.sum(in_root, min_count=0).as_py())
    return done


def _head(metadata: TableMetadata, branch: str) -> Snapshot:
    ref = metadata.refs.get(branch)
    snapshot = None if ref is None else metadata.snapshot(ref.snapshot_id)
    if snapshot is None:
        raise Refused(
            f"branch `{branch}` has no snapshot that could be written",
            hint="`icectl inspect TABLE refs` lists the branches",
        )
    return snapshot


def _check_folder(reader: Reader, folder: str) -> None:
    if any(batch.num_rows for batch in reader.store.list(folder)):
        raise Refused(
            f"there are files in `{folder}` already", hint="`--to` names a folder that is new"
        )


def _check_encryption(snapshot: Snapshot, manifests: tuple[ManifestFile, ...]) -> None:
    if snapshot.key_id is not None or any(one.key_metadata is not None for one in manifests):
        raise Unsupported(
            "the table is encrypted, and the export would not be",
            hint="encrypted tables are read by their own engine alone",
        )


def _check_files(alive: Entries, manifests: tuple[ManifestFile, ...]) -> None:
    """Raise Unsupported, for live files that the draft has no entry for."""
    files = position_delete_files(alive)
    if len(files):
        raise Unsupported(
            f"the draft has no form for {print_count(len(files), 'position delete file')}, "
            f"`{files.table['location'][0]}` and the like",
            hint="`icectl compact TABLE --rewrite-all` applies them to their data files",
        )
    formats = alive.table["file_format"].to_numpy()
    if (formats == FileFormat.UNKNOWN).any():
        place = int(np.flatnonzero(formats == FileFormat.UNKNOWN)[0])
        raise Unsupported(f"`{alive.table['location'][place]}` is of no format that the draft has")
    for one in manifests:
        counts = (one.added_files_count, one.existing_files_count, one.deleted_files_count)
        if sum(count or 0 for count in counts) > MAX_POSITIONS:
            raise Unsupported(
                f"`{one.manifest_path}` has more entries than a Mumbling bitmap has positions",
                hint="`icectl rewrite-manifests TABLE` writes smaller manifests",
            )


def _vectors(entries: Entries, metadata: TableMetadata) -> dict[str, Vector]:
    """Deletion vectors by the key of their data file; DELETED ones as they were before."""
    added = {one.sequence_number: one.snapshot_id for one in metadata.snapshots}
    found = {}
    for row in entries.table.select(_OF_VECTORS).to_pylist():
        is_gone = row["status"] == Status.DELETED
        found[comparison_key(row["referenced_data_file"])] = Vector(
            row["location"],
            row["content_offset"],
            row["content_size_in_bytes"],
            row["record_count"],
            added.get(row["sequence_number"]) if is_gone else row["snapshot_id"],
        )
    return found


_OF_VECTORS = [
    "status", "referenced_data_file", "location", "content_offset", "content_size_in_bytes",
    "record_count", "sequence_number", "snapshot_id",
]  # fmt: skip


def _taken(reader: Reader, snapshot: Snapshot) -> dict[str, Positions]:
    """Rows of leaves that stay which the snapshot deleted there, by the leaf's location."""
    of_layout = snapshot_reader(reader.metadata, snapshot)
    return {
        one.manifest.manifest_path: read_bitmap(of_layout.killed(one.manifest).dead)
        for one in of_layout.marked(reader.store, snapshot)
        if not one.added and not one.unless_live and Status.ADDED in one.removed
    }


# -- writing ------------------------------------------------------------------------------------


def _write_manifest(
    reader: Reader, done: Exported, plan: ExportPlan, manifest: ManifestFile
) -> list[pa.Table]:
    """Write the leaf that a manifest becomes; the rows that it adds to the root."""
    whole = replace(manifest, dead=b"", dead_count=0)
    entries = load_entries(
        reader.store,
        plan.form.metadata,
        [whole],
        columns=ALL_COLUMNS,
        concurrency=1,
        progress=reader.progress,
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
    size = _write(reader, done, plan, name, content, rows)
    leaf = WrittenLeaf(join(plan.folder, name), size, rows, entries, marks)
    own = leaf_row(leaf, manifest, DraftStatus(status), plan.snapshot.snapshot_id, plan.form)
    done.live_count += int(leaf.alive.sum())
    return [own, *modified]


def _status(plan: ExportPlan, manifest: ManifestFile) -> Status:
    is_new = manifest.added_snapshot_id == plan.snapshot.snapshot_id
    return Status.ADDED if is_new else Status.EXISTING


def _places(entries: Entries, positions: Positions) -> Positions:
    """The rows of entries that stand at positions of their manifest."""
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
        """The rows whose vectors are new, as they are now."""
        return self._fresh(self.vectors, DraftStatus.MODIFIED)

    def replaced(self) -> pa.Table:
        """All rows as they were before."""
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
        """The rows whose vectors are new, with some vectors of theirs and a status."""
        places = self.fresh.tolist()
        own = {at: vectors[place] for at, place in enumerate(places) if place in vectors}
        rows = as_rows(take(self.entries, self.fresh), self.plan.form, own)
        return with_status(rows, status, snapshot_id)


def _write(
    reader: Reader, done: Exported, plan: ExportPlan, name: str, content: str, rows: pa.Table
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
        reader.store.create(location, stored)
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
