"""The record of a deletion, written before it begins, so that a later run can finish it.

One JSON file in the metadata folder. It only ever names candidates: whoever finishes it computes
anew what the table reaches, and deletes nothing that it does.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from icectl.entries.files import FileKind, Files, files, rows, together
from icectl.errors import StorageError
from icectl.progress import Progress
from icectl.spec.metadata import TableMetadata
from icectl.storage.location import join, loosest_key, name, parent
from icectl.storage.store import FileStatus, Store

VERSION = 1
J = TypeVar("J")
_FILE_NAME = re.compile(r"icectl-[a-z0-9-]+-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\.json")
ABANDONED_AFTER_MS = 24 * 3_600_000
"""A journal whose commit has not landed after a day belongs to a run that is over."""


@dataclass(frozen=True, slots=True)
class Journal:
    """What one run is about to delete, and the snapshots whose removal it commits first."""

    location: str
    table_uuid: str | None
    created_ms: int
    snapshot_ids: tuple[int, ...]
    files: Files

    def has_landed(self, metadata: TableMetadata) -> bool:
        """Whether the commit that the run recorded is in the table."""
        return not any(metadata.snapshot(id_) is not None for id_ in self.snapshot_ids)


def journal_location(metadata_location: str, command: str, uuid: str) -> str:
    """Where the journal of a run lies: beside the metadata file."""
    return join(parent(metadata_location), f"icectl-{command}-{uuid}.json")


def uuid_of(location: str) -> str | None:
    """The uuid of the run that a journal is of; None for other files."""
    match = _FILE_NAME.fullmatch(name(location))
    return match[1] if match else None


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


def unfinished(
    store: Store, listed: Sequence[FileStatus], command: str, progress: Progress
) -> list[Journal]:
    """The journals of a command among the files of the metadata folder.

    One that cannot be read is named in a warning and left alone.
    """
    return read_each(store, listed, command, _read, progress)


def read_each(
    store: Store,
    listed: Sequence[FileStatus],
    command: str,
    read: Callable[[Store, str], J],
    progress: Progress,
) -> list[J]:
    """What `read` makes of each journal of a command among the files of the metadata folder.

    One that cannot be read is named in a warning and left alone.
    """
    found = []
    for status in listed:
        file_name = name(status.location)
        if not file_name.startswith(f"icectl-{command}-") or not file_name.endswith(".json"):
            continue
        try:
            found.append(read(store, status.location))
        except FileNotFoundError:  # its run has ended since
            continue
        except (StorageError, ValueError, KeyError, TypeError) as error:
            progress.warn(f"the journal {file_name} cannot be read and is left alone: {error}")
    return found


def _read(store: Store, location: str) -> Journal:
    content = json.loads(store.read(location))
    check_version(content)
    parts = []
    for kind in FileKind:
        named = [(place, size) for place, code, size in content["files"] if code == kind]
        places = [place for place, _ in named]
        keys = [loosest_key(place) for place in places]
        parts.append(files(places, keys, kind, [size for _, size in named]))
    return Journal(
        location,
        content["table-uuid"],
        int(content["created-ms"]),
        tuple(content["snapshot-ids"]),
        together(parts),
    )


def check_version(content: Mapping[str, Any]) -> None:
    """Raises: ValueError where a journal is not of the version that this icectl writes."""
    if content["icectl-journal"] != VERSION:
        raise ValueError(f"version {content['icectl-journal']} is not known")


def discard(store: Store, journals: Sequence[Journal]) -> None:
    """Remove journals that are done or abandoned; never raises, one that stays does no harm."""
    with suppress(StorageError):
        store.remove([journal.location for journal in journals])
