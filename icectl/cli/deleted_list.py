"""`--deleted-list FILE`: the location of every file that a run has deleted."""

from collections.abc import Iterable
from pathlib import Path

from icectl.cli.options import Change
from icectl.errors import StorageError


def write_deleted_list(change: Change, locations: Iterable[str]) -> None:
    """Write the list, one location a line, if one was asked for. Raises: StorageError."""
    if change.deleted_list is None:
        return
    try:
        with Path(change.deleted_list).open("w", encoding="utf-8") as file:
            file.writelines(f"{location}\n" for location in locations)
    except OSError as error:
        raise StorageError(
            f"cannot write the list of deleted files to {change.deleted_list}: {error.strerror}"
        ) from error
