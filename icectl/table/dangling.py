"""Proof that deletes without a live data file are left over: the file that they are for has gone.

A wrong name in an entry makes deletes look left over, too. So their own file has to name the data
file, and that one must be gone, or a snapshot that the table knows has removed it.
"""

from collections.abc import Callable, Mapping
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from icectl.checks.snapshots import removed_data_files
from icectl.entries.columns import mask_of
from icectl.entries.deletes import DeleteMatches, NamedFiles, misplaced_deletes, per_delete_file
from icectl.entries.files import FileKind, files
from icectl.entries.rows import (
    EMPTY,
    Entries,
    by_row,
    concat,
    data_files,
    deletion_vectors,
    live,
    minus,
    of_status,
    position_delete_files,
    where,
)
from icectl.errors import CorruptTable, MissingFile, OtherFile
from icectl.files.deletion_vectors import CARDINALITY, REFERENCED_DATA_FILE
from icectl.files.puffin import PuffinBlob, read_puffin_footer
from icectl.format.manifest import Status
from icectl.format.metadata import TableMetadata
from icectl.format.snapshot import Snapshot, ancestors
from icectl.storage.location import loosest_key, loosest_keys, name
from icectl.table.context import TableContext
from icectl.table.manifest_lists import read_snapshot_manifests
from icectl.table.manifests import scan_manifests
from icectl.table.reading import in_threads, naming
from icectl.table.stored import compare_with_store

_OWN_FILE = (
    "restore the metadata from a copy; `icectl validate TABLE --level footers` names all such files"
)
_NO_PROOF = (
    "`icectl remove-orphans TABLE` deletes the data file if nothing refers to it; else restore the "
    "metadata from a copy, or roll back to a snapshot from before"
)

ReadNames = Callable[[Entries], NamedFiles]
"""Reads the data files that position delete files name."""


def check_dangling(
    context: TableContext,
    metadata: TableMetadata,
    snapshot: Snapshot,
    entries: Entries,
    matches: DeleteMatches,
    named: NamedFiles,
    read_names: ReadNames,
) -> None:
    """Do nothing where position deletes and vectors of no live data file are proved left over.

    `entries` are those of the snapshot, at least all deletes and the data files that they name or
    apply to; `named` are the position delete files that were read.
    Raises: CorruptTable R-111, R-113, R-116; OtherFile R-118; MissingFile; StorageError.
    Cost: only where there are such deletes: their footers, a look-up for each data file, and the
    manifests of older snapshots where such a file is there.
    """
    is_dangling = per_delete_file(matches) == 0
    if is_dangling.any():
        is_dangling[misplaced_deletes(matches)[0]] = False  # R-211 is told of those
    dangling = where(matches.deletes, is_dangling)
    referring = position_delete_files(dangling)
    referring = where(referring, pc.is_valid(referring.table["referenced_data_file"]))
    vectors = deletion_vectors(dangling)
    live_deletes = set(matches.deletes.table["location"].to_pylist()) if named else ()
    names = {name_: at for at, found in named.items() if at in live_deletes for name_ in found}
    if len(referring):
        names |= _own_names(referring, read_names(referring))
    if len(vectors):
        _check_vectors(context, vectors, matches.data)
        names |= dict(by_row(vectors, "referenced_data_file", "location"))
    lost = _without(names, matches.data)
    if lost:
        lost = _without(lost, data_files(of_status(entries, Status.DELETED)))
    if lost:
        lost = _still_there(context, metadata, lost)
    if lost:
        lost = _never_removed(context, metadata, snapshot, lost)
    for name_, place in lost.items():
        is_vector = place in deletion_vectors(dangling).table["location"].to_pylist()
        message = (
            f"`{place}` deletes rows of `{name_}`, which exists, but is not live, and no snapshot "
            "has removed it"
        )
        raise CorruptTable(message, rule="R-116" if is_vector else "R-111", hint=_NO_PROOF)


def _without(names: Mapping[str, str], data: Entries) -> dict[str, str]:
    """Return the names that no entry of some data files has, in any spelling."""
    if not names:
        return {}
    keys = pa.array([loosest_key(name_) for name_ in names], pa.string())
    stored = loosest_keys(data.table["location"])
    known = mask_of(pc.is_in(keys, pc.unique(stored))).tolist()
    return {item: names[item] for item, is_known in zip(names, known, strict=True) if not is_known}


def _own_names(referring: Entries, named: NamedFiles) -> dict[str, str]:
    """Return the data files of delete files that name one in their entry.

    Raises: OtherFile R-121, where their rows name another one.
    """
    own: dict[str, str] = {}
    for place, stated in by_row(referring, "location", "referenced_data_file"):
        others = [item for item in named[place] if name(item) != name(stated)]
        if others:
            message = f"the entry of `{place}` says that it is for `{stated}`, it is for "
            raise OtherFile(f"{message}`{others[0]}`", rule="R-121", hint=_OWN_FILE)
        own[stated] = place
    return own


def _check_vectors(context: TableContext, vectors: Entries, data: Entries) -> None:
    """Compare vectors with live data files, and with their own files.

    Raises: CorruptTable R-113, R-118; MissingFile; StorageError.
    """
    named = vectors.table["referenced_data_file"].to_pylist()
    dead = _without(dict.fromkeys(named, ""), data)
    for place, stated in by_row(vectors, "location", "referenced_data_file"):
        if stated not in dead:
            message = f"`{place}` has a deletion vector of `{stated}`, which is newer than it"
            raise CorruptTable(message, rule="R-113", hint=_OWN_FILE)
    check_footers(context, vectors)


def check_footers(context: TableContext, vectors: Entries) -> None:
    """Do nothing where vectors are those that the footers of their files have.

    Names are compared without folders: tables are moved, and spell these differently.
    Raises: OtherFile R-118; MissingFile; StorageError. Cost: the footer of each file.
    """
    columns = ("location", "content_offset", "content_size_in_bytes", "record_count")
    named = vectors.table["referenced_data_file"].to_pylist()
    places = list(dict.fromkeys(vectors.table["location"].to_pylist()))
    read = in_threads(
        lambda place: _blobs(context, place), places, [1] * len(places), threads=context.concurrency
    )
    blobs_of = dict(zip(places, read, strict=True))
    for stated, (place, offset, size, count) in zip(named, by_row(vectors, *columns), strict=True):
        blob = blobs_of[place].get((offset, size))
        if blob is None:
            message = f"`{place}` has no deletion vector of {size} bytes at {offset}"
            raise OtherFile(message, rule="R-118", location=place)
        own, rows = blob.properties.get(REFERENCED_DATA_FILE), blob.properties.get(CARDINALITY)
        if (own is not None and name(own) != name(stated)) or rows not in (None, str(count)):
            message = (
                f"the entry of a deletion vector in `{place}` has {count} rows of `{stated}`, its "
                f"footer {rows} of `{own}`"
            )
            raise OtherFile(message, rule="R-118", location=place)


def _blobs(context: TableContext, place: str) -> Mapping[tuple[int, int], PuffinBlob]:
    status = context.store.stat(place)
    if status is None:
        raise MissingFile(place)
    with naming(place):
        read_range = partial(context.store.read_range, place)
        footer = read_puffin_footer(read_range, status.size_bytes)
    return {(blob.offset, blob.length): blob for blob in footer.blobs}


def _still_there(
    context: TableContext, metadata: TableMetadata, names: Mapping[str, str]
) -> dict[str, str]:
    places = list(names)
    looked_up = files(places, places, FileKind.DATA_FILES, [None] * len(places))
    compared = compare_with_store(context, looked_up, metadata.location)
    gone = {item.location for item in compared.discrepancies if item.problem is None}
    return {item: names[item] for item in places if item not in gone}


def _never_removed(
    context: TableContext,
    metadata: TableMetadata,
    snapshot: Snapshot,
    names: Mapping[str, str],
) -> dict[str, str]:
    """Return the names of data files that no snapshot has removed, as far as the table knows.

    No entry of the snapshot itself removes a file of these names.

    A snapshot that removes a file has a deleted entry of it, or says how many it removes. Where
    snapshots in between have expired, it is enough that an older one has the file.
    """
    lost = dict(names)
    line = list(ancestors(metadata.snapshots_by_id, snapshot.snapshot_id))
    child, child_files = snapshot, live(_data_entries(context, metadata, snapshot))
    for one in line[1:]:
        entries = _data_entries(context, metadata, one)
        lost = _without(lost, of_status(entries, Status.DELETED))
        alive = live(entries)
        gone = minus(alive, child_files.table["location"])
        if len(gone) <= removed_data_files(child):
            lost = _without(lost, gone)
        child, child_files = one, alive
        if not lost:
            return {}
    in_line = {one.snapshot_id for one in line}
    for one in metadata.snapshots:
        if lost and one.snapshot_id not in in_line:
            lost = _without(lost, live(_data_entries(context, metadata, one)))
    return lost


def _data_entries(context: TableContext, metadata: TableMetadata, snapshot: Snapshot) -> Entries:
    """Return the data files of a snapshot in every state; none if a manifest cannot be read."""
    try:
        listed = read_snapshot_manifests(context.store, metadata, snapshot)
        columns = frozenset({"location", "status", "content"})
        parts = scan_manifests(context, metadata, listed, columns)
        return concat([data_files(part.entries()) for part in parts])
    except CorruptTable:
        return EMPTY
