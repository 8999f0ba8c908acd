"""A run's folder in a quarantine: copies of orphans, and lists from which they can be restored."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from icectl.entries.files import ListedFile, ListedFiles, listed_files
from icectl.env import Env
from icectl.errors import StorageError
from icectl.storage import location as locations
from icectl.storage.new_files import create_own
from icectl.storage.store import FailedRemoval, FileStatus, Store
from icectl.table.reading import in_threads
from icectl.units import print_instant

_GONE = "it is gone"
_MOVED, COPIED = "moved", "copied"
LIST_NAME = re.compile(rf"({_MOVED}|{COPIED})-\d{{5,}}\.jsonl")
"""Names of the lists in the folder of a run."""

_S3 = re.compile(r"^s3[an]:", re.IGNORECASE)


@dataclass(slots=True)
class Quarantine:
    """One run's folder in a quarantine, from which files can be restored.

    Below `files/` is what it moved, under the paths that the files had in the table. Before any
    file of a list is moved, `moved-<n>.jsonl` is written, with a line `{"from": …, "to": …,
    "size_bytes": …, "modified": …}` for each. A line whose `to` is missing is of a file that stayed
    where it was. `lists` are the locations of these lists. Once the files are copied,
    `copied-<n>.jsonl` has a line `{"path": …, "size_bytes": …, "modified": …, "table_uuid": …}` for
    each copy, by which the quarantine is purged.
    """

    store: Store
    env: Env
    folder: str
    table_location: str
    table_uuid: str | None
    concurrency: int
    lists: list[str]

    def copy(self, batch: ListedFiles) -> tuple[list[str], list[FailedRemoval]]:
        """Write down and copy files, and verify the copies.

        Returns the locations that were missing by then, and the failures.
        Raises: StorageError, where the list cannot be written.
        """
        moves = [(file, self._target(file.location)) for file in listed_files(batch)]
        lines = []
        for file, target in moves:
            instant = None if file.modified_ms is None else print_instant(file.modified_ms)
            places = {"from": plain(file.location), "to": plain(target)}
            line = {**places, "size_bytes": file.size_bytes, "modified": instant}
            lines.append(json.dumps(line) + "\n")
        self.lists.append(self._write_list(_MOVED, len(self.lists) + 1, lines))
        ends = in_threads(
            lambda move: self._copy(*move), moves, [1] * len(moves), threads=self.concurrency
        )
        missing: list[str] = []
        failed = []
        copied = []
        for (file, _), end in zip(moves, ends, strict=True):
            if isinstance(end, FileStatus):
                copied.append(self._line_of_copy(end))
            elif end is _GONE:
                missing.append(file.location)
            else:
                failed.append(FailedRemoval(file.location, end))
        if copied:
            self._write_list(COPIED, len(self.lists), copied)
        return missing, failed

    def _write_list(self, name: str, number: int, lines: Sequence[str]) -> str:
        location = locations.join(self.folder, f"{name}-{number:05}.jsonl")
        create_own(self.store, self.env, location, "".join(lines).encode())
        return location

    def _line_of_copy(self, copy: FileStatus) -> str:
        modified = None if copy.modified_ms is None else print_instant(copy.modified_ms)
        line = {"path": plain(copy.location), "size_bytes": copy.size_bytes, "modified": modified}
        return json.dumps({**line, "table_uuid": self.table_uuid}) + "\n"

    def _copy(self, file: ListedFile, target: str) -> FileStatus | str:
        """Copy one file; return its copy, or the problem."""
        try:
            self.store.copy(file.location, target)
            status = self.store.stat(target)
        except FileNotFoundError:
            return _GONE
        except FileExistsError:
            return "its new name is taken"
        except StorageError as error:
            return error.reason
        if status is None or status.size_bytes != file.size_bytes:
            return "its copy has another size"
        return FileStatus(target, status.size_bytes, status.modified_ms)

    def _target(self, location: str) -> str:
        base = f"{self.table_location}/"
        if location.startswith(base):
            return locations.join(self.folder, "files", location.removeprefix(base))
        path = location.removeprefix(locations.root(location))
        return locations.join(self.folder, "files-outside", path.lstrip("/"))


def plain(location: str) -> str:
    """The location as other programs take it: a local one as a path, S3 under its own name."""
    if locations.is_local(location):
        return locations.local_path(location)
    return _S3.sub("s3:", location)


def is_same_second(first_ms: int | None, second_ms: int | None) -> bool:
    """Return whether two times can be one: listings and single look-ups round differently."""
    return first_ms is not None and second_ms is not None and first_ms // 1000 == second_ms // 1000
