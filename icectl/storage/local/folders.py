"""Folders of this machine by descriptors, so that no link leads out of a table's own place.

The folders of a path are opened one after the other from the root of the file system, none of
them through a link, and what is done to a file is done in the folder that was opened last. So it
does not matter what another process makes of a folder's name.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from icectl.errors import StorageError
from icectl.storage import location as locations

BEHIND_A_LINK = "behind-a-link"
"""Id of the error where a folder below a table's place is a link."""

_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Roots:
    """Folders that may be reached through links, as the user meant it.

    Each is resolved once, when it is added: a link that is changed later changes nothing.
    """

    def __init__(self) -> None:
        self._resolved: dict[str, str] = {}

    def add(self, folder: str) -> None:
        path = _absolute(folder)
        if path not in self._resolved:
            self._resolved[path] = os.path.realpath(path)

    def resolved(self, path: str) -> str:
        """Return the path with its deepest root, if there is one, replaced by what that led to."""
        return self._below_a_root(path) or _absolute(path)

    def _below_a_root(self, path: str) -> str | None:
        above = path = _absolute(path)
        while above != "/":
            above = os.path.dirname(above)
            if above in self._resolved:
                return os.path.join(self._resolved[above], path[len(above) :].lstrip("/"))
        return None

    def has_link(self, folder: str) -> bool:
        """Return whether a folder is behind a link, or is one, below its root."""
        resolved = os.path.dirname(self.resolved(os.path.join(folder, "_")))
        return os.path.realpath(resolved) != resolved

    @contextmanager
    def new(self, path: str, location: str) -> Iterator[tuple[int, str, str]]:
        """The folder of a new file, which is made; its name there, and its path without links.

        Links are followed to a folder that lies below no root. Raises: StorageError; OSError.
        """
        resolved = self._below_a_root(path)
        if resolved is None:
            folder, name = os.path.split(_absolute(path))
            resolved = os.path.join(os.path.realpath(folder), name)
        folder, name = os.path.split(resolved)
        descriptor = _opened(folder, location, make=True)
        try:
            yield descriptor, name, resolved
        finally:
            os.close(descriptor)


class OpenFolder:
    """The folder of the file that was asked for last, open until another is, or it is closed."""

    def __init__(self, roots: Roots) -> None:
        self._roots = roots
        self._path = ""
        self._descriptor: int | None = None

    def of(self, path: str, location: str) -> tuple[int, str]:
        """Return a file's folder, and its name. Raises: StorageError, for a link below; OSError."""
        folder, name = os.path.split(self._roots.resolved(path))
        if self._descriptor is None or folder != self._path:
            self.close()
            self._descriptor, self._path = _opened(folder, location), folder
        return self._descriptor, name

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
        self._descriptor = None


def _absolute(path: str) -> str:
    return "/" + os.path.abspath(path).lstrip("/")


def _opened(folder: str, location: str, *, make: bool = False) -> int:
    """Open a folder by no link; `make` those that are missing. Raises: StorageError; OSError."""
    descriptor, path = os.open("/", _FOLDER), ""
    for name in filter(None, folder.split("/")):
        path, above = f"{path}/{name}", descriptor
        try:
            descriptor = _open_folder(name, above, make=make)
        except OSError as error:
            if error.errno in (errno.ENOTDIR, errno.ELOOP):
                status = os.stat(name, dir_fd=above, follow_symlinks=False)
                if stat.S_ISLNK(status.st_mode):
                    raise StorageError(
                        f"{locations.redacted(location)} is behind a link, {path}, which is not "
                        "followed",
                        hint="use the folder itself; icectl does not write or delete through links "
                        "under a table's location",
                        id=BEHIND_A_LINK,
                    ) from error
            raise
        finally:
            os.close(above)
    return descriptor


def _open_folder(name: str, above: int, *, make: bool) -> int:
    try:
        return os.open(name, _FOLDER, dir_fd=above)
    except FileNotFoundError:
        if not make:
            raise
    with suppress(FileExistsError):  # another writer was quicker
        os.mkdir(name, dir_fd=above)
    return os.open(name, _FOLDER, dir_fd=above)
