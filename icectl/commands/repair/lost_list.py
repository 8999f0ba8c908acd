"""What a lost manifest list named, where the rest of the table proves it.

A snapshot has the files of its parent, without those that it removed, and those that it added.
Which these are its own manifests say, which lie in the metadata folder even where no list names
them: entries carry the snapshot that added or removed them. Where these are as many files, rows and
bytes as its summary says, and what lives then adds up to its totals, nothing is missing.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace

from icectl.commands.repair.head import ManifestChange, ReadHead, read_head
from icectl.entries.inherit import inherit
from icectl.entries.rows import (
    ALL_COLUMNS,
    EMPTY,
    PLANNING,
    Entries,
    as_existing,
    by_row,
    concat,
    live,
    of_status,
    take,
    with_manifest_number,
)
from icectl.entries.summary import summarise, summary_counters
from icectl.errors import CorruptTable
from icectl.format.manifest import ManifestContent, ManifestFile, Status
from icectl.format.snapshot import Snapshot
from icectl.storage.location import loosest_key, name
from icectl.table.manifest_lists import ManifestListRead, distinct_manifests, try_manifest_lists
from icectl.table.manifests import ManifestRead, try_manifests
from icectl.table.reader import Reader

_Key = tuple[str, int | None]
"""What tells a file: its location, and where in it a deletion vector begins."""

_REQUIRED_TOTALS = frozenset({"data-files", "records", "delete-files"})
"""What has to be told in totals. Other counters have to be right where they are told."""

_ANY_SPEC = -1


@dataclass(frozen=True, slots=True)
class _Changed:
    """A manifest with files that the snapshot added or removed, and these with every column."""

    manifest: ManifestFile
    read: ManifestRead
    added: Entries
    removed: Entries


def with_proven_list(reader: Reader, head: ReadHead) -> ReadHead:
    """Return a head whose list is lost with what it listed, where that is proved; else as it was.

    Shape: the manifests of the snapshot before, then its own; `changes` are what it did to them.
    Raises: StorageError of the store; Incomplete.
    Cost: the manifests of the snapshot before; those in the metadata folder that no list names.
    """
    problems = [problem for _, problem in head.listed.problems]
    if not all(isinstance(problem, CorruptTable) for problem in problems) or head.listed.is_odd:
        return head
    before = _parent_head(reader, head.snapshot)
    own_files = None if before is None else _own_manifests(reader, head.snapshot)
    if before is None or own_files is None:
        return head
    if not _is_sure_of_row_ids(head.snapshot, before, own_files):
        return head
    try:
        own_files = [_with_own_files(manifest, head.snapshot) for manifest in own_files]
    except CorruptTable:
        return head
    return _join(head, before, own_files) or head


def _parent_head(reader: Reader, snapshot: Snapshot) -> ReadHead | None:
    """Return the head of the parent, empty without one; None if it cannot be read."""
    if snapshot.parent_snapshot_id is None:
        return ReadHead(snapshot, ManifestListRead(snapshot), (), ())
    parent = reader.metadata.snapshot(snapshot.parent_snapshot_id)
    head = None if parent is None else read_head(reader, parent)
    return head if head is not None and head.is_whole else None


def _own_manifests(reader: Reader, snapshot: Snapshot) -> list[_Changed] | None:
    """The manifests in which the snapshot added or removed files; None where one cannot be kept.

    Order: those that other snapshots list, then by location.
    """
    others = [item for item in reader.metadata.snapshots if item is not snapshot]
    lists = try_manifest_lists(reader.context, reader.metadata, others)
    with closing(lists):
        listed = distinct_manifests([item.manifests for item in lists])
    known = {loosest_key(item.manifest_path) for item in listed}
    known |= {loosest_key(item.manifest_list) for item in others if item.manifest_list}
    by_it = [item for item in listed if item.added_snapshot_id == snapshot.snapshot_id]
    manifests = [*by_it, *_unlisted(reader, snapshot, known)]
    reads = try_manifests(reader.context, reader.metadata, manifests, ALL_COLUMNS)
    changed = []
    with closing(reads):
        for read in reads:
            reader.context.deadline.check()
            if read.rows is None:
                continue
            of_changes = of_status(read.rows, Status.ADDED, Status.DELETED)
            if (snapshot.snapshot_id,) in by_row(of_changes, "snapshot_id"):
                if read.content[0].unknown_field_ids:
                    return None  # a rewrite would lose them
                changed.append(_Changed(manifests[read.index], read, EMPTY, EMPTY))
    return changed


def _unlisted(reader: Reader, snapshot: Snapshot, known: set[str]) -> list[ManifestFile]:
    """Return possible manifests of the snapshot in the metadata folder that no list names."""
    lengths: dict[str, int] = {}
    for batch in reader.context.store.list(reader.loaded.metadata_folder):
        reader.context.deadline.check()
        columns = (batch[column].to_pylist() for column in ("location", "size_bytes"))
        lengths |= {
            location: size
            for location, size in zip(*columns, strict=True)
            if name(location).endswith(".avro")
            and not name(location).startswith((".", "_"))
            and loosest_key(location) not in known
        }
    number = snapshot.sequence_number
    return [
        ManifestFile(
            location, size, _ANY_SPEC, ManifestContent.DATA, number, number, snapshot.snapshot_id
        )
        for location, size in sorted(lengths.items())
    ]


def _is_sure_of_row_ids(
    snapshot: Snapshot, before: ReadHead, own_files: Iterable[_Changed]
) -> bool:
    """Whether one manifest alone got its row ids by the lost list, and which these are (R-103).

    The list gave them out in the order of its manifests, which nothing else tells.
    """
    if snapshot.first_row_id is None:
        return True
    counts = [count for item in own_files if (count := _rows_without_id(item))]
    if not counts:
        return True
    data = [
        manifest for manifest in before.listed.manifests if manifest.content is ManifestContent.DATA
    ]
    return counts == [snapshot.added_rows] and all(item.first_row_id is not None for item in data)


def _rows_without_id(own: _Changed) -> int:
    """Return rows of an unlisted manifest to which the lost list gave ids."""
    header, rows = own.read.content
    if own.manifest.partition_spec_id != _ANY_SPEC or header.content is not ManifestContent.DATA:
        return 0
    row_ids = by_row(live(rows), "first_row_id", "record_count")
    return sum(count for first_row_id, count in row_ids if first_row_id is None)


def _with_own_files(own: _Changed, snapshot: Snapshot) -> _Changed:
    """Return a manifest as listed, with files that the snapshot added and removed."""
    header, rows = own.read.content
    manifest = own.manifest
    if manifest.partition_spec_id == _ANY_SPEC:
        manifest = replace(
            manifest,
            partition_spec_id=rows.table["spec_id"][0].as_py(),
            content=header.content,
            first_row_id=snapshot.first_row_id if _rows_without_id(own) else None,
        )
    entries = inherit(with_manifest_number(rows, 0), [manifest])
    ids = enumerate(by_row(entries, "snapshot_id"))
    by_it = take(entries, [row for row, (id_,) in ids if id_ == snapshot.snapshot_id])
    return replace(
        own,
        manifest=manifest,
        added=of_status(by_it, Status.ADDED),
        removed=of_status(by_it, Status.DELETED),
    )


def _join(head: ReadHead, before: ReadHead, own_files: list[_Changed]) -> ReadHead | None:
    """Return the files before, those that went, and those that came.

    None where they do not add up.
    """
    added_parts = [Entries(item.added.table.select(PLANNING.names)) for item in own_files]
    added, removed = concat(added_parts), concat(item.removed for item in own_files)
    removed_keys = set(_keys(removed))
    changes, kept_parts, removed_parts = [], [], []
    for place, entries in enumerate(before.entries):
        assert entries is not None  # is_whole
        alive = Entries(live(entries).table.select(PLANNING.names))
        removed_rows = [row for row, key in enumerate(_keys(alive)) if key in removed_keys]
        removed_parts.append(take(alive, removed_rows))
        kept_parts.append(
            take(alive, [row for row in range(len(alive)) if row not in set(removed_rows)])
        )
        if removed_rows:
            if before.read[place].content[0].unknown_field_ids:
                return None  # a rewrite would lose them
            positions = removed_parts[-1].table["manifest_pos"].to_pylist()
            changes.append(ManifestChange(place, dropped=frozenset(positions)))
    lived = set(_keys(concat(removed_parts)))
    living = [key for stay in (*kept_parts, added) for key in _keys(stay)]
    if len(set(living)) < len(living) or len(removed_keys) < len(removed) or lived != removed_keys:
        return None
    alive = concat([*kept_parts, *added_parts])
    if not _is_counted(head.snapshot, added, concat(removed_parts), alive):
        return None
    places = range(len(kept_parts), len(kept_parts) + len(own_files))
    changes += [
        ManifestChange(at, rebuilt=as_existing(item.added), gone=not len(item.added))
        for at, item in zip(places, own_files, strict=True)
    ]
    return replace(
        head,
        listed=replace(
            head.listed,
            manifests=(*before.listed.manifests, *(item.manifest for item in own_files)),
        ),
        read=(*before.read, *(item.read for item in own_files)),
        entries=(*kept_parts, *added_parts),
        changes=tuple(changes),
        is_proven=True,
    )


def _keys(entries: Entries) -> Iterator[_Key]:
    for location, offset in by_row(entries, "location", "content_offset"):
        yield loosest_key(location), offset


def _is_counted(snapshot: Snapshot, added: Entries, removed: Entries, alive: Entries) -> bool:
    """Return whether the summary counts just these files; missing counters mean none."""
    summary: Mapping[str, str] = snapshot.summary or {}
    if not len(added) and not len(removed) and snapshot.operation != "replace":
        return False  # it did something, and nothing says what
    counters = {
        **summary_counters(summarise(added), "added"),
        **summary_counters(summarise(removed), "removed"),
        **summary_counters(summarise(alive), "total"),
    }
    for counter, count in counters.items():
        kind, _, counted = counter.partition("-")
        absent = str(count)
        if counted in _REQUIRED_TOTALS:
            absent = "" if kind == "total" else "0"
        if summary.get(counter, absent) != str(count):
            return False
    return True
