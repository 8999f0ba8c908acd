"""Plan the export of a snapshot in the form of the upstream draft, and say what forbids it."""

from icectl.codec.draft_16025.from_entries import (
    Vector,
    form_of,
)
from icectl.codec.draft_16025.mumbling import MAX_POSITIONS
from icectl.codec.puffin.positions import read_bitmap
from icectl.commit.draft_16025.export import ExportPlan
from icectl.entries.columns.values import Positions
from icectl.entries.rows import (
    Entries,
    count_by_value,
    data_files,
    deletion_vectors,
    equality_delete_files,
    live,
    of_status,
    position_delete_files,
)
from icectl.entries.schema import PLANNING_COLUMNS
from icectl.errors import Refused, Unsupported
from icectl.run.reader import Reader
from icectl.spec.manifest import FileFormat, ManifestContent, ManifestFile, Status
from icectl.spec.metadata import TableMetadata
from icectl.spec.snapshot import Snapshot
from icectl.storage.location import comparison_key
from icectl.table.manifest_lists import read_snapshot_manifests, snapshot_reader
from icectl.table.row_safety import check_live, check_metadata
from icectl.units import print_count


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
        before=_vectors(gone, metadata, ended_by=snapshot.snapshot_id),
        fresh=frozenset(fresh),
        lost_vectors=len(current) - len(vectors),
        taken=_taken(reader, snapshot),
    )


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
    if FileFormat.UNKNOWN in count_by_value(alive, "file_format"):
        raise Unsupported("a data file is of no format that the draft has")
    for one in manifests:
        counts = (one.added_files_count, one.existing_files_count, one.deleted_files_count)
        if sum(count or 0 for count in counts) > MAX_POSITIONS:
            raise Unsupported(
                f"`{one.manifest_path}` has more entries than a Mumbling bitmap has positions",
                hint="`icectl rewrite-manifests TABLE` writes smaller manifests",
            )


def _vectors(
    entries: Entries, metadata: TableMetadata, ended_by: int | None = None
) -> dict[str, Vector]:
    """Deletion vectors by the key of their data file; those that a snapshot ended as they were."""
    added = {one.sequence_number: one.snapshot_id for one in metadata.snapshots}
    found = {}
    for row in entries.table.select(_OF_VECTORS).to_pylist():
        if ended_by not in (None, row["snapshot_id"]):
            continue
        found[comparison_key(row["referenced_data_file"])] = Vector(
            row["location"],
            row["content_offset"],
            row["content_size_in_bytes"],
            row["record_count"],
            row["snapshot_id"] if ended_by is None else added.get(row["sequence_number"]),
        )
    return found


_OF_VECTORS = [
    "referenced_data_file", "location", "content_offset", "content_size_in_bytes",
    "record_count", "sequence_number", "snapshot_id",
]  # fmt: skip


def _taken(reader: Reader, snapshot: Snapshot) -> dict[str, Positions]:
    """Return rows of leaves that stay which the snapshot deleted there, by the leaf's location."""
    of_layout = snapshot_reader(reader.metadata, snapshot)
    return {
        one.manifest.manifest_path: read_bitmap(of_layout.killed(one.manifest).dead)
        for one in of_layout.marked(reader.store, snapshot)
        if not one.added and not one.unless_live and Status.ADDED in one.removed
    }
