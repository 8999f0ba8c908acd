"""Deleting files once a commit is known to have landed, and the record to finish it from.

The journal is one JSON file in the metadata folder, written before the deletion. It only names
candidates: the run that finishes it computes the reachable files again, and keeps them.
"""

import json
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from icectl.commit.journals import VERSION, check_version, read_each, text_or_none, texts
from icectl.entries.files import FileKind, Files, excluding, files, of_kind, rows, slices, together
from icectl.env import Env
from icectl.errors import StorageError
from icectl.format.json_members import parse_json
from icectl.format.metadata import TableMetadata
from icectl.progress import Progress
from icectl.storage.location import check_sum, loosest_key
from icectl.storage.new_files import create_own
from icectl.storage.store import FailedRemoval, FileStatus, Store
from icectl.table.context import TableContext


@dataclass(frozen=True, slots=True)
class DeletionJournal:
    """The files that a run is about to delete, and the snapshots whose removal it commits first."""

    location: str
    table_uuid: str | None
    created_ms: int
    snapshot_ids: tuple[int, ...]
    files: Files

    def has_landed(self, metadata: TableMetadata) -> bool:
        """Return whether the commit that the run recorded is in the table."""
        return not any(metadata.snapshot(id_) is not None for id_ in self.snapshot_ids)


def write(store: Store, env: Env, journal: DeletionJournal) -> None:
    """Record a run before it commits. Raises: what creating a file raises."""
    create_own(store, env, journal.location, _content(journal))


def shorten(store: Store, journal: DeletionJournal, remaining: Files) -> None:
    """Let a journal name only the files that remain to delete; never raises."""
    with suppress(StorageError):
        store.replace(journal.location, _content(replace(journal, files=remaining)))


def _content(journal: DeletionJournal) -> bytes:
    """Return the JSON object of a journal; `files` is made part by part, as it may be long."""
    content = {
        "icectl-journal": VERSION,
        "table-uuid": journal.table_uuid,
        "created-ms": journal.created_ms,
        "snapshot-ids": journal.snapshot_ids,
    }
    listed = b",".join(
        _json([[place, int(kind), size] for place, kind, size in rows(part)])[1:-1]
        for part in slices(journal.files, STEP)
    )
    return b"".join([_json(content)[:-1], b',"files":[', listed, b"]}"])


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def unfinished_journals(
    store: Store, listed: Sequence[FileStatus], command: str, progress: Progress
) -> list[DeletionJournal]:
    """Return the journals of a command among the files of the metadata folder.

    One that cannot be read is named in a warning and left alone.
    """
    return read_each(store, listed, command, _read, progress)


def _read(store: Store, location: str) -> DeletionJournal:
    content = parse_json(store.read(location))
    check_version(content)
    parts = []
    for kind in FileKind:
        named = [(place, size) for place, code, size in content["files"] if code == kind]
        places = list(texts([place for place, _ in named]))
        keys = [loosest_key(place) for place in places]
        parts.append(files(places, keys, kind, [size for _, size in named]))
    return DeletionJournal(
        location,
        text_or_none(content["table-uuid"]),
        int(content["created-ms"]),
        tuple(map(int, content["snapshot-ids"])),
        together(parts),
    )


def discard(store: Store, journals: Sequence[DeletionJournal]) -> None:
    """Remove journals that are done or abandoned; never raises, since a leftover does no harm."""
    with suppress(StorageError):
        store.remove([journal.location for journal in journals])


BATCH = 1_000
"""Files that one request of S3 deletes at most."""
STEP = 4 * BATCH
"""Files in one step: its requests run side by side, each takes some tenths of a second."""


@dataclass(frozen=True, slots=True)
class Removal:
    """The files that were deleted, and the failures; `stopped` if time ran out before the end."""

    removed: Files
    failed: tuple[FailedRemoval, ...]
    stopped: bool


def remove_files(
    context: TableContext, files: Files, kept_check_sums: Collection[str] | None = None
) -> Removal:
    """Delete files in their order; never raises for one that cannot be deleted.

    The checksum `.x.crc` of a file `x` is deleted with it, unless its loosest key is among
    `kept_check_sums`. None means that there are no checksums. Each batch has one kind of files: no
    manifest is deleted before a file that it describes.
    """
    context.progress.phase("deleting files", total=len(files))
    removed: list[Files] = []
    failed: list[FailedRemoval] = []
    for batch in (part for kind in FileKind for part in slices(of_kind(files, kind), STEP)):
        if context.deadline.passed:
            return Removal(together(removed), tuple(failed), stopped=True)
        missed = remove_batch(context, [location for location, _, _ in rows(batch)])
        failed += missed
        removed.append(excluding(batch, [item.location for item in missed]))
        if kept_check_sums is not None and len(removed[-1]):
            check_sums = [check_sum(location) for location, _, _ in rows(removed[-1])]
            remove_batch(  # one that stays is an orphan
                context, [file for file in check_sums if loosest_key(file) not in kept_check_sums]
            )
        context.progress.advance(len(batch))
    return Removal(together(removed), tuple(failed), stopped=False)


def remove_batch(context: TableContext, locations: Sequence[str]) -> list[FailedRemoval]:
    """Delete some files in one step; returns the remaining ones, with reasons."""
    try:
        with context.shield():
            return list(context.store.remove(locations))
    except StorageError as error:
        return [FailedRemoval(location, error.reason) for location in locations]
