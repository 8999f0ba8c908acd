"""Files behind fsspec: S3 and every other scheme that a driver is installed for.

Writing only to S3 and `memory:`, as other drivers may overwrite what another writer has committed.
Errors are translated here and passing ones tried again.
"""

import errno
import io
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import IO, Any, TypeVar

import pyarrow as pa

from icectl.env import Env
from icectl.errors import Refused, Unsupported
from icectl.storage import location as locations
from icectl.storage.failures import error_code, remote_errors, repeated
from icectl.storage.listing import ListingRows, ListingStep, first_directories, run_steps
from icectl.storage.new_files import Proven
from icectl.storage.s3fs import (
    S3Writer,
    has_objects,
    list_objects,
    s3_options,
    server_time_ms,
    with_refreshing_credentials,
)
from icectl.storage.store import (
    Assembly,
    FailedRemoval,
    FileStatus,
    ListingPart,
    ListingSplit,
    check_creatable,
)
from icectl.storage.streams import Tail, range_reader
from icectl.units import names_secret

_ALIASES = {"s3a": "s3", "s3n": "s3", "abfss": "abfs"}
_INSTALLED_BY = {
    scheme: f"install it with icectl: `pip install 'icectl[{extra}]'`"
    for extra, schemes in {"gcs": ("gs", "gcs"), "azure": ("abfs", "abfss", "az")}.items()
    for scheme in schemes
}
_TIMES = ("LastModified", "last_modified", "mtime", "updated", "modified", "created")

_MEMORY_LOCK = threading.Lock()

Result = TypeVar("Result")


def open_remote(
    location: str,
    options: Mapping[str, str],
    env: Env,
    concurrency: int,
    warn: Callable[[str], None],
    renewed: Callable[[], Mapping[str, str]] | None = None,
) -> "RemoteStore":
    """Return the store for a location, through the fsspec driver of its scheme; `warn` takes news.

    `renewed` has the options as they are valid now, where credentials end.
    Raises: Unsupported, when there is no such driver; StorageError, when it cannot start.
    """
    import fsspec

    scheme = locations.scheme(location)
    protocol = _ALIASES.get(scheme, scheme)
    try:
        driver = fsspec.get_filesystem_class(protocol)
    except ValueError as error:
        raise Unsupported(
            f"no storage driver supports the scheme {scheme}: in {locations.redacted(location)}",
            hint="for a copy elsewhere, map locations with `--path-map FROM=TO`",
        ) from error
    except ImportError as error:
        raise Unsupported(
            f"the storage driver for {scheme}: is not installed ({error})",
            hint=_INSTALLED_BY.get(scheme, "install it beside icectl, in the same environment"),
        ) from error
    arguments: dict[str, Any] = dict(options)
    if protocol == "s3":
        arguments = s3_options(options, concurrency)
    if "bearer_token" in arguments:  # which gcsfs would take for the name of a file
        from google.oauth2.credentials import Credentials

        arguments["token"] = Credentials(arguments.pop("bearer_token"))  # type: ignore[no-untyped-call]
    renews = renewed is not None and protocol == "s3" and "key" in options
    if renewed is not None and renews:
        arguments = with_refreshing_credentials(arguments, renewed)
    secrets = secrets_of(options)
    with remote_errors("reach", location, secrets):
        # url_to_fs drops options
        url_arguments = driver._get_kwargs_from_urls(location)  # noqa: SLF001
        filesystem = driver(**{**url_arguments, **arguments})
    writer = None
    if protocol == "s3":
        filesystem.retries = 1  # attempts; retry() is the only one to repeat
        writer = S3Writer(filesystem, env, concurrency, secrets, Proven(), warn)
    return RemoteStore(filesystem, protocol, env, concurrency, secrets, writer, renews)


@dataclass(frozen=True, slots=True, repr=False)
class RemoteStore:
    """A Store over an fsspec file system; `renews` where it asks for new credentials by itself."""

    filesystem: Any
    protocol: str
    env: Env
    concurrency: int
    secrets: tuple[str, ...]
    writer: S3Writer | None = None
    renews: bool = False

    def read(self, location: str) -> bytes:
        path = self._path(location)
        content: bytes = self._call("read", location, partial(self.filesystem.cat_file, path))
        return content

    def read_range(self, location: str, offset: int, length: int) -> bytes:
        if offset < 0:
            status = self.stat(location)
            if status is None:
                raise FileNotFoundError(location)
            offset = max(0, status.size_bytes + offset)
        return self._call("read", location, partial(self._range, location, offset, length))

    def open(self, location: str) -> IO[bytes]:
        status = self.stat(location)
        if status is None:
            raise FileNotFoundError(location)
        return range_reader(Tail(status.size_bytes), partial(self.read_range, location))

    def stat(self, location: str) -> FileStatus | None:
        action = partial(self.filesystem.info, self._path(location))
        try:
            info = self._call("look up", location, action)
        except FileNotFoundError:
            return None
        return None if info["type"] == "directory" else _status(location, info)

    def list(self, location: str) -> Iterator[pa.RecordBatch]:
        return self.list_parts([ListingPart(location.rstrip("/"))])

    def split(self, location: str, count: int) -> ListingSplit:
        """Begin to list a location; the parts are directories, of S3 all of it."""
        if self.protocol == "s3":
            call = partial(self._call, "list", location)
            probe = has_objects(self.filesystem, location, call)
            return ListingSplit([], [ListingPart(location)] if probe else [])
        return first_directories(location.rstrip("/"), self._scan, self.concurrency, count)

    def list_parts(self, parts: Sequence[ListingPart]) -> Iterator[pa.RecordBatch]:
        if self.protocol == "s3":
            for part in parts:
                call = partial(self._call, "list", part.location)
                yield from list_objects(self.filesystem, part, call)
        else:
            directories = [part.location for part in parts]
            yield from run_steps(directories, self._scan, self.concurrency)

    def list_directory(self, location: str) -> Sequence[FileStatus]:
        statuses = [
            _status(path, entry)
            for path, entry in self._entries(location)
            if entry["type"] != "directory"
        ]
        return sorted(statuses, key=lambda file: file.location)

    def create(self, location: str, content: bytes) -> None:
        self._check_creatable(location)
        if self.writer is not None:
            self.writer.create(location, content)
        else:
            _create_in_memory(self.filesystem, self._path(location), content)

    def replace(self, location: str, content: bytes) -> None:
        self._check_creatable(location)
        if self.writer is not None:
            self.writer.replace(location, content)
        else:
            self.filesystem.pipe_file(self._path(location), content)

    @contextmanager
    def open_new(self, location: str) -> Iterator[IO[bytes]]:
        self._check_creatable(location)
        if self.stat(location) is not None:
            raise FileExistsError(errno.EEXIST, "it exists already", location)
        if self.writer is not None:
            with self.writer.open_new(location) as file:
                yield file
        else:
            content = io.BytesIO()
            yield content
            _create_in_memory(self.filesystem, self._path(location), content.getvalue())

    def assemble(self, location: str) -> AbstractContextManager[Assembly] | None:
        return None if self.writer is None else self.writer.assemble(location)

    def copy(self, source: str, target: str) -> None:
        self._check_creatable(target)
        action = partial(self.filesystem.cp_file, self._path(source), self._path(target))
        self._call("copy", source, action)

    def clock_ms(self, location: str) -> int | None:
        if self.protocol != "s3":
            return None
        return server_time_ms(self.filesystem, location, partial(self._call, "list", location))

    def remove(self, removed: Iterable[str]) -> Sequence[FailedRemoval]:
        files = list(removed)
        for location in files:
            self._check_creatable(location)
        if self.writer is not None:
            return self.writer.remove(files)
        for location in files:
            if self.stat(location) is not None:
                self.filesystem.rm_file(self._path(location))
        return ()

    def _check_creatable(self, location: str) -> None:
        """Do nothing where this driver writes only what is new. Raises: Refused."""
        check_creatable(location)
        if self.writer is None and self.protocol != "memory":
            raise Refused(
                f"icectl does not write through the fsspec driver for {self.protocol}:, and "
                f"{locations.redacted(location)} would be written",
                hint="omit the storage options that only that driver supports",
            )

    def _path(self, location: str) -> str:
        alias = f"{self.protocol}:{location.partition(':')[2]}"
        path: str = self.filesystem._strip_protocol(alias)  # noqa: SLF001 - fsspec has no other way
        return path

    def _call(self, doing: str, location: str, action: Callable[[], Result]) -> Result:
        return repeated(doing, location, action, self.env, secrets=self.secrets)

    def _range(self, location: str, offset: int, length: int) -> bytes:
        if not length:
            return b""
        try:
            content: bytes = self.filesystem.cat_file(
                self._path(location), start=offset, end=offset + length
            )
        except OSError as error:
            if error_code(error) in {"InvalidRange", "416"}:  # the file ends before
                return b""
            raise
        return content

    def _scan(self, directory: str) -> ListingStep[str]:
        rows, below = ListingRows(), []
        for path, entry in self._entries(directory):
            if entry["type"] == "directory":
                below.append(path)
            else:
                status = _status(path, entry)
                rows.add(path, status.size_bytes, status.modified_ms)
        return ListingStep(rows, tuple(below))

    def _entries(self, directory: str) -> Sequence[tuple[str, dict[str, Any]]]:
        """List a directory, under locations that begin as the directory's does."""
        path = self._path(directory).rstrip("/")
        action = partial(self.filesystem.ls, path, detail=True)
        try:
            entries = self._call("list", directory, action)
        except FileNotFoundError:
            return []
        names = [(str(entry["name"]).rstrip("/"), entry) for entry in entries]
        return [
            (locations.join(directory, name[len(path) :]), entry)
            for name, entry in names
            if name != path
        ]


def _status(location: str, info: Mapping[str, Any]) -> FileStatus:
    version = info.get("ETag"), info.get("VersionId")  # of S3
    return FileStatus(location, int(info["size"] or 0), _modified_ms(info), *version)


def _modified_ms(info: Mapping[str, Any]) -> int | None:
    for key in _TIMES:
        value = info.get(key)
        if isinstance(value, datetime):
            return round(value.timestamp() * 1000)
        if isinstance(value, (int, float)):
            return int(value * 1000)
    return None


def secrets_of(options: Mapping[str, str]) -> tuple[str, ...]:
    """Return the values of options that no message repeats."""
    return tuple(
        value
        for name, value in options.items()
        if value and ("key" in name.lower() or names_secret(name))
    )


def _create_in_memory(filesystem: Any, path: str, content: bytes) -> None:
    """Write a new file of the memory that a process shares. Raises: FileExistsError."""
    with _MEMORY_LOCK:
        if filesystem.exists(path):
            raise FileExistsError(path)
        filesystem.pipe_file(path, content)
