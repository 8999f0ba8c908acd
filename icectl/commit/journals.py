"""Journals of runs: JSON files in the metadata folder, by the command and a uuid in their names."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from icectl.errors import StorageError
from icectl.progress import Progress
from icectl.storage.location import join, name
from icectl.storage.store import FileStatus, Store

VERSION = 1
ABANDONED_AFTER_MS = 24 * 3_600_000
"""A journal whose commit has not landed after a day belongs to a run that is over."""

J = TypeVar("J")
_FILE_NAME = re.compile(r"icectl-[a-z0-9-]+-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\.json")


def journal_location(metadata_folder: str, command: str, uuid: str) -> str:
    """Return where the journal of a run lies: beside the metadata files."""
    return join(metadata_folder, f"icectl-{command}-{uuid}.json")


def uuid_of(location: str) -> str | None:
    """Return the uuid of the run that a journal is of; None for other files."""
    match = _FILE_NAME.fullmatch(name(location))
    return match[1] if match else None


def read_each(
    store: Store,
    listed: Sequence[FileStatus],
    command: str,
    read: Callable[[Store, str], J],
    progress: Progress,
) -> list[J]:
    """Read with `read` each journal of a command among the files of the metadata folder.

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


def check_version(content: Mapping[str, Any]) -> None:
    """Check that a journal is of the version that this icectl writes. Raises: ValueError."""
    if content["icectl-journal"] != VERSION:
        raise ValueError(f"version {content['icectl-journal']} is not known")
