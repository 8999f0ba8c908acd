"""Previous versions of what an erasure deletes, in buckets that keep them: they go, too.

A journal names the files before they are deleted. Versions of these go once the object itself is
deleted, if it lies in the table's own places. So do versions of journals: they name files by paths.
"""

import re
from collections.abc import Collection, Iterable, Sequence

from icectl.catalog.protocol import LoadedTable
from icectl.commands.erase.plan import Left
from icectl.commit import deletion
from icectl.commit.deletion import DeletionJournal
from icectl.commit.journals import ABANDONED_AFTER_MS, journal_location, of_table, uuid_of
from icectl.entries.files import FileKind, files
from icectl.storage.kept import KeepingStore
from icectl.storage.location import loosest_key, redacted
from icectl.storage.many_files import FilesByKind
from icectl.storage.store import FailedRemoval, Store
from icectl.storage.versions import remove_versions, versions_below
from icectl.table.context import TableContext
from icectl.table.own_places import own_places

_COMMAND = "versions"
_S3 = re.compile("^s3[an]:", re.IGNORECASE)


class NotingStore(KeepingStore):
    """A KeepingStore that knows what was deleted: outputs of a run, too, which it has not used."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.removed: set[str] = set()

    def remove(self, removed: Iterable[str]) -> Sequence[FailedRemoval]:
        asked = list(removed)
        failed = super().remove(asked)
        self.removed.update(set(asked) - {item.location for item in failed})
        return failed


def record_locations(context: TableContext, loaded: LoadedTable, places: Collection[str]) -> None:
    """Write down files that are deleted whatever snapshots there are. Raises: as record."""
    ordered = sorted(places)
    keys, sizes = list(map(loosest_key, ordered)), [None] * len(ordered)
    doomed = FilesByKind([files(ordered, keys, FileKind.DATA_FILES, sizes)])
    record(context, loaded, (), doomed)


def record(
    context: TableContext, loaded: LoadedTable, snapshot_ids: tuple[int, ...], doomed: FilesByKind
) -> None:
    """Write down files that are about to be deleted, some once snapshots have expired.

    Raises: what creating a file raises.
    """
    env, uuid = context.env, loaded.metadata.table_uuid
    location = journal_location(loaded.metadata_folder, _COMMAND, env.new_uuid())
    journal = DeletionJournal(location, uuid, env.now_ms(), snapshot_ids, doomed)
    deletion.write(context.store, env, journal)


def remove(context: TableContext, loaded: LoadedTable) -> tuple[int, list[Left]]:
    """Delete versions of recorded files that are deleted now, and the journals that name these.

    Returns how many went, and the versions that stay. A journal is kept as long as one of its
    versions stays, or its commit may still land.
    Raises: StorageError.
    """
    listed = context.store.list_directory(loaded.metadata_folder)
    unfinished = deletion.unfinished_journals(context.store, listed, _COMMAND, context.progress)
    now_ms = context.env.now_ms()
    metadata = loaded.metadata
    ended = [
        journal
        for journal in of_table(unfinished, loaded, context.progress)
        if journal.has_landed(metadata) or now_ms - journal.created_ms > ABANDONED_AFTER_MS
    ]
    # A run that ended before its commit has not deleted what it wrote down.
    landed = [journal for journal in ended if journal.has_landed(metadata)]
    named = {_plain(place) for journal in landed for place in journal.files.locations()}
    folder, places = metadata.location, own_places(loaded)
    found = [
        version
        for version in (versions_below(context.store, folder) if named else None) or ()
        if (_plain(version.location) in named or uuid_of(version.location))
        and places.holds(version.location)
    ]
    there = {version.location for version in found if version.is_newest and not version.is_marker}
    doomed = [version for version in found if version.location not in there]
    with context.shield():
        failed = remove_versions(context.store, folder, doomed)
    if failed:
        return len(doomed) - len(failed), _left(failed)
    deletion.discard(context.store, ended)
    ours = {_plain(journal.location) for journal in ended}
    again = versions_below(context.store, folder) if ours else None
    of_ours = [it for it in again or () if _plain(it.location) in ours]
    failed = remove_versions(context.store, folder, of_ours)
    return len(doomed) + len(ended), _left(failed)


def remove_quarantined(
    context: TableContext, quarantine: str, changed: Collection[str]
) -> tuple[int, list[Left]]:
    """Delete versions of what this run has deleted or replaced in a quarantine, as `remove` does.

    Those that an earlier run left stay: without its lists nothing proves whose they are.
    """
    ours = set(map(_plain, changed))
    doomed = [
        version
        for version in (versions_below(context.store, quarantine) if ours else None) or ()
        if _plain(version.location) in ours and (version.is_marker or not version.is_newest)
    ]
    with context.shield():
        failed = remove_versions(context.store, quarantine, doomed)
    return len(doomed) - len(failed), _left(failed)


def _left(failed: Sequence[FailedRemoval]) -> list[Left]:
    return [
        Left(redacted(it.location), f"a previous version was not deleted: {it.error}")
        for it in failed
    ]


def _plain(location: str) -> str:
    return _S3.sub("s3:", location)
