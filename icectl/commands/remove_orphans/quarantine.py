"""Moving files out of a table instead of deleting them, so that they can be put back.

Each run has a folder in the quarantine: below `files/` what it moved, under the paths that the
files had in the table, and `moved-<n>.jsonl`, written before any file of it is moved, with a line
`{"from": …, "to": …, "size_bytes": …, "modified": …}` for each. A line whose `to` is missing is of
a file that stayed where it was.
"""

import json
import re
from dataclasses import dataclass

from icectl.entries.listed import ListedFile, ListedFiles, listed_files
from icectl.env import Env
from icectl.errors import StorageError
from icectl.storage import location as locations
from icectl.storage.store import FailedRemoval, Store
from icectl.table.reading import in_threads
from icectl.units import print_instant

_GONE = "it is gone"
_S3 = re.compile(r"^s3[an]:", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Copied:
    """The locations that were gone before they could be copied, and those that failed."""

    gone: tuple[str, ...]
    failed: tuple[FailedRemoval, ...]


@dataclass(slots=True)
class Quarantine:
    """One run's folder in a quarantine; `lists` are the locations of what it has written down."""

    store: Store
    folder: str
    table_location: str
    concurrency: int
    lists: list[str]

    def copy(self, batch: ListedFiles) -> Copied:
        """Write down and copy files, and verify the copies.

        Raises: StorageError, where the list cannot be written.
        """
        moves = [(file, self._target(file.location)) for file in listed_files(batch)]
        written_down = locations.join(self.folder, f"moved-{len(self.lists) + 1:05}.jsonl")
        self.store.create(written_down, "".join(_line(*move) for move in moves).encode())
        self.lists.append(written_down)
        problems = in_threads(
            lambda move: self._copy(*move), moves, [1] * len(moves), threads=self.concurrency
        )
        gone, failed = [], []
        for (file, _), problem in zip(moves, problems, strict=True):
            if problem is _GONE:
                gone.append(file.location)
            elif problem is not None:
                failed.append(FailedRemoval(file.location, problem))
        return Copied(tuple(gone), tuple(failed))

    def _copy(self, file: ListedFile, target: str) -> str | None:
        """Copy one file; what went wrong, if anything."""
        try:
            self.store.copy(file.location, target)
            status = self.store.stat(target)
        except FileNotFoundError:
            return _GONE
        except FileExistsError:
            return "its new name is taken"
        except StorageError as error:
            return error.message
        if status is None or status.size_bytes != file.size_bytes:
            return "its copy has another size"
        return None

    def _target(self, location: str) -> str:
        base = f"{self.table_location}/"
        if location.startswith(base):
            return locations.join(self.folder, "files", location.removeprefix(base))
        path = location.removeprefix(locations.root(location))
        return locations.join(self.folder, "files-outside", path.lstrip("/"))


def open_quarantine(
    store: Store, env: Env, location: str, table_location: str, concurrency: int
) -> Quarantine:
    """Return the folder of a run, which nobody else uses."""
    instant = print_instant(env.now_ms() // 1000 * 1000).replace("-", "").replace(":", "")
    run = f"{locations.name(table_location)}-{instant}-{env.new_uuid()[:8]}"
    return Quarantine(store, locations.join(location, run), table_location, concurrency, [])


def _line(file: ListedFile, target: str) -> str:
    moved = {
        "from": plain(file.location),
        "to": plain(target),
        "size_bytes": file.size_bytes,
        "modified": None if file.modified_ms is None else print_instant(file.modified_ms),
    }
    return json.dumps(moved) + "\n"


def plain(location: str) -> str:
    """The location as other programs take it: a local one as a path, S3 under its own name."""
    if locations.is_local(location):
        return locations.local_path(location)
    return _S3.sub("s3:", location)
