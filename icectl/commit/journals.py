"""Journals of runs: JSON files in the metadata folder, by the command and a uuid in their names."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from icectl.catalog.protocol import LoadedTable
from icectl.errors import StorageError
from icectl.progress import Progress
from icectl.storage.location import join, name
from icectl.storage.store import FileStatus, Store

VERSION = 1
NOT_SAID = ""
"""Stands for a table's uuid in output journals of an older icectl."""

ABANDONED_AFTER_MS = 24 * 3_600_000
"""A journal whose commit has not landed after a day belongs to a run that is over."""

UNREADABLE = (
    ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError, MemoryError,
)  # fmt: skip
"""Errors of reading a file that is no journal: anybody may have written it."""


class Journal(Protocol):
    """The record of one run on a table."""

    @property
    def location(self) -> str:
        """Where it lies."""

    @property
    def table_uuid(self) -> str | None:
        """The uuid of the table, None where that has none; NOT_SAID."""


J = TypeVar("J", bound=Journal)
_FILE_NAME = re.compile(r"icectl-[a-z0-9-]+-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\.json")


def journal_location(metadata_folder: str, command: str, uuid: str) -> str:
    """Return the location of a run's journal, beside the metadata files."""
    return join(metadata_folder, f"icectl-{command}-{uuid}.json")


def uuid_of(location: str) -> str | None:
    """Return the uuid of a journal's run; None for other files."""
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
    read_journals = []
    for status in listed:
        file_name = name(status.location)
        if not file_name.startswith(f"icectl-{command}-") or not file_name.endswith(".json"):
            continue
        try:
            read_journals.append(read(store, status.location))
        except FileNotFoundError:  # its run has ended since
            continue
        except (StorageError, *UNREADABLE) as error:
            progress.warn(f"the journal {file_name} cannot be read and is ignored: {error}")
    return read_journals


def of_table(journals: Sequence[J], loaded: LoadedTable, progress: Progress) -> list[J]:
    """Return the journals that name a table's uuid; others are named in a warning and left alone.

    A file-system table may have had none: no other table has its metadata folder.
    """
    table_journals, uuid = [], loaded.metadata.table_uuid
    for journal in journals:
        has_none = journal.table_uuid is None
        if loaded.capabilities.numbers_versions if has_none else journal.table_uuid == uuid:
            table_journals.append(journal)
            continue
        is_open = journal.table_uuid in (None, NOT_SAID)
        whose = "does not name its" if is_open else "belongs to another"
        progress.warn(f"the journal {name(journal.location)} {whose} table, and is ignored")
    return table_journals


def texts(value: object) -> tuple[str, ...]:
    """Return a list of texts. Raises: TypeError, for anything else."""
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise TypeError("a list of strings has another type")
    return tuple(value)


def text_or_none(value: object) -> str | None:
    """Return a text, or None. Raises: TypeError, for anything else."""
    if value is not None and not isinstance(value, str):
        raise TypeError("a string has another type")
    return value


def check_version(content: Mapping[str, Any]) -> None:
    """Check that a journal is of the version that this icectl writes. Raises: ValueError."""
    if content["icectl-journal"] != VERSION:
        raise ValueError(f"version {content['icectl-journal']} is not known")
