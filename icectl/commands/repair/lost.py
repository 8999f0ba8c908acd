"""The content of a lost manifest, where the lists and manifests of other snapshots prove it.

A manifest's row in the list tells how many files and rows it has, and which snapshot wrote it. Its
existing files lived in the parent of that snapshot, and nowhere else in the snapshot itself: where
there are just as many such files as the row counts, they are the ones. The files that it added are
those that other snapshots list as added by this one.
"""

from collections.abc import Iterable, Sequence
from functools import partial

from icectl.entries.rows import (
    Entries,
    as_existing,
    by_row,
    concat,
    live,
    of_specs,
    take,
    total,
    with_values,
)
from icectl.entries.schema import ALL_COLUMNS
from icectl.format.manifest import ManifestFile
from icectl.format.snapshot import Snapshot
from icectl.table.manifest_lists import distinct_manifests, read_snapshot_manifests
from icectl.table.manifests import load_entries
from icectl.table.reader import Reader
from icectl.table.reading import read_or_none


def proven_entries(reader: Reader, lost: ManifestFile) -> Entries | None:
    """The live entries of a lost manifest, with every column; None where nothing proves them.

    Raises: StorageError of the store; Incomplete.
    Cost: the manifests of the snapshot that wrote it and of its parent, and of all other snapshots
    where it added files.
    """
    wrote = reader.metadata.snapshot(lost.added_snapshot_id or -1)
    counts = (
        lost.added_files_count, lost.added_rows_count,
        lost.existing_files_count, lost.existing_rows_count,
    )  # fmt: skip
    if wrote is None or None in counts:
        return None
    beside, is_whole = _entries(reader, [wrote], lost)
    if not is_whole:
        return None
    added_files, added_rows, existing_files, existing_rows = counts
    parts = []
    if added_files:
        added = _added(reader, wrote, lost, beside)
        if _counted(added) != (added_files, added_rows):
            return None
        parts.append(added)
    if existing_files:
        existing = _existing(reader, wrote, lost, beside)
        if existing is None or _counted(existing) != (existing_files, existing_rows):
            return None
        parts.append(existing)
    return _with_row_ids(as_existing(concat(parts)), lost) if parts else None


def _existing(
    reader: Reader, wrote: Snapshot, lost: ManifestFile, beside: Entries
) -> Entries | None:
    """Return files that lived in the parent, and in no other manifest of the snapshot."""
    parent = reader.metadata.snapshot(wrote.parent_snapshot_id or -1)
    if parent is None:
        return None
    before, is_whole = _entries(reader, [parent], lost)
    return _without(live(before), beside) if is_whole else None


def _added(reader: Reader, wrote: Snapshot, lost: ManifestFile, beside: Entries) -> Entries:
    """Files that other snapshots list as added by this one, and no other manifest of it added."""
    others = [one for one in reader.metadata.snapshots if one is not wrote]
    found, _ = _entries(reader, others, lost)
    alive = live(found)
    ids = enumerate(alive.table["snapshot_id"].to_pylist())
    by_it = take(alive, [row for row, id_ in ids if id_ == wrote.snapshot_id])
    return _without(by_it, beside)


def _entries(
    reader: Reader, snapshots: Iterable[Snapshot], lost: ManifestFile
) -> tuple[Entries, bool]:
    """The entries of snapshots of the same content and spec as a manifest, without that manifest.

    Also whether that is all of them: files that cannot be read are passed over.
    """
    is_whole = True
    manifests: list[Sequence[ManifestFile]] = []
    for snapshot in snapshots:
        reader.context.deadline.check()
        read_list = partial(
            read_snapshot_manifests, reader.context.store, reader.metadata, snapshot
        )
        listed = read_or_none(read_list)
        if listed is None:
            is_whole = False
        else:
            manifests.append(listed)
    alike = [
        one
        for one in distinct_manifests(manifests)
        if one.manifest_path != lost.manifest_path and one.content is lost.content
    ]
    parts = []
    for one in alike:
        entries = read_or_none(partial(_load, reader, one))
        if entries is None:
            is_whole = False
        else:
            parts.append(entries)
    return of_specs(concat(parts), [lost.partition_spec_id]), is_whole


def _load(reader: Reader, manifest: ManifestFile) -> Entries:
    return load_entries(reader.context, reader.metadata, [manifest], ALL_COLUMNS)


def _with_row_ids(entries: Entries, lost: ManifestFile) -> Entries | None:
    """The entries with the row ids that a manifest gives them in its list; None where these hang
    on the order that they had in it (R-103).

    In a table of an older version before, other snapshots may know files without row ids, or with
    those of another branch: what was added has its own between the first of the manifest's and the
    last.
    """
    first = lost.first_row_id
    if first is None:
        return entries
    own = range(first, first + total(entries, "record_count"))
    ids = [
        id_ if snapshot_id != lost.added_snapshot_id or id_ in own else None
        for snapshot_id, id_ in by_row(entries, "snapshot_id", "first_row_id")
    ]
    if ids.count(None) > 1:
        return None
    return with_values(entries, "first_row_id", [first if id_ is None else id_ for id_ in ids])


def _counted(entries: Entries) -> tuple[int, int]:
    """Count files and rows."""
    return len(entries), total(entries, "record_count")


def _without(entries: Entries, others: Entries) -> Entries:
    """Return each file once, and none of the others; a vector is told by its place in its file."""
    known = set(by_row(others, "location", "content_offset"))
    kept = []
    for row, key in enumerate(by_row(entries, "location", "content_offset")):
        if key not in known:
            known.add(key)
            kept.append(row)
    return take(entries, kept)
