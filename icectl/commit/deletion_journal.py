"""The record of a deletion, written before it begins, so that a later run can finish it.

One JSON file in the metadata folder. It only ever names candidates: whoever finishes it computes
anew what the table reaches, and deletes nothing that it does.
"""

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from icectl.commit.journals import VERSION, check_version, read_each, text_or_none, texts
from icectl.entries.files import FileKind, Files, files, rows, together
from icectl.errors import StorageError
from icectl.format.json_members import parse_json
from icectl.format.metadata import TableMetadata
from icectl.progress import Progress
from icectl.storage.location import loosest_key
from icectl.storage.store import FileStatus, Store


@dataclass(frozen=True, slots=True)
class Journal:
    """The files that a run is about to delete, and the snapshots whose removal it commits first."""

    location: str
    table_uuid: str | None
    created_ms: int
    snapshot_ids: tuple[int, ...]
    files: Files

    def has_landed(self, metadata: TableMetadata) -> bool:
        """Return whether the commit that the run recorded is in the table."""
        return not any(metadata.snapshot(id_) is not None for id_ in self.snapshot_ids)


def write(store: Store, journal: Journal) -> None:
    """Record a run before it commits. Raises: what creating a file raises."""
    store.create(journal.location, _content(journal))


def shorten(store: Store, journal: Journal, left: Files) -> None:
    """Let a journal name only what is left to delete; never raises."""
    with suppress(StorageError):
        store.replace(journal.location, _content(replace(journal, files=left)))


def _content(journal: Journal) -> bytes:
    content = {
        "icectl-journal": VERSION,
        "table-uuid": journal.table_uuid,
        "created-ms": journal.created_ms,
        "snapshot-ids": journal.snapshot_ids,
        "files": [[place, int(kind), size] for place, kind, size in rows(journal.files)],
    }
    return json.dumps(content, separators=(",", ":")).encode()


def unfinished_journals(
    store: Store, listed: Sequence[FileStatus], command: str, progress: Progress
) -> list[Journal]:
    """Return the journals of a command among the files of the metadata folder.

    One that cannot be read is named in a warning and left alone.
    """
    return read_each(store, listed, command, _read, progress)


def _read(store: Store, location: str) -> Journal:
    content = parse_json(store.read(location))
    check_version(content)
    parts = []
    for kind in FileKind:
        named = [(place, size) for place, code, size in content["files"] if code == kind]
        places = list(texts([place for place, _ in named]))
        keys = [loosest_key(place) for place in places]
        parts.append(files(places, keys, kind, [size for _, size in named]))
    return Journal(
        location,
        text_or_none(content["table-uuid"]),
        int(content["created-ms"]),
        tuple(int(each) for each in content["snapshot-ids"]),
        together(parts),
    )


def discard(store: Store, journals: Sequence[Journal]) -> None:
    """Remove journals that are done or abandoned; never raises, one that stays does no harm."""
    with suppress(StorageError):
        store.remove([journal.location for journal in journals])
