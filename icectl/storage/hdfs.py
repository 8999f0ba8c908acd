"""Files of Hadoop's file system, by hdfs-native: no JVM, and a rename that overwrites nothing."""

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from threading import Lock
from typing import IO, Any, TypeVar

import pyarrow as pa

from icectl.env import Env
from icectl.errors import StorageError, Unsupported
from icectl.storage import location as locations
from icectl.storage.failures import AnswerLost, remote_errors, remote_failure, repeated
from icectl.storage.listing import ListingRows, ListingStep, first_directories, run_steps
from icectl.storage.new_files import PartWriter, Proven, prove_condition, temporary_name
from icectl.storage.store import Assembly, FailedRemoval, FileStatus, ListingPart, ListingSplit
from icectl.storage.streams import Tail, range_reader

Result = TypeVar("Result")

_ANSWER = re.compile(r'RPCError\("([^"]*)", "(.*?)(?:\\n|"\)|\Z)', re.DOTALL)
_DENIED = {"AccessControlException", "AuthorizationException", "InvalidToken"}
_UNKNOWN_CLUSTER = ("No NameNode hosts found", "No fs.defaultFS setting found")
_LATER = {"RetriableException", "SafeModeException", "StandbyException"}
_NO_DIRECTORY = "is not a directory"
_BUFFER_BYTES = 1 << 20
_COUNTER = itertools.count()
_COPIED_BYTES = 8 << 20
_TRIES: Mapping[str, str] = {
    "dfs.client.failover.max.attempts": "4",
    "dfs.client.failover.sleep.max.millis": "2000",
}
"""What the driver repeats itself, with each of its name nodes; icectl repeats that."""


class NameNodeAnswer(Exception):
    """The name node has refused something: nothing was done."""


class UnknownCluster(NameNodeAnswer):
    """No configuration says where the cluster is."""


class NoNameNode(Exception):
    """No name node answered that takes requests."""


def path_of(location: str) -> str:
    """Return the path of a file within its cluster, as Hadoop's own clients spell it."""
    return re.sub("//+", "/", f"/{location[len(locations.root(location)) :]}")


def driver_result(action: Callable[[], Result]) -> Result:
    """Return the result of a call of the driver.

    Raises: FileNotFoundError; FileExistsError; PermissionError; NameNodeAnswer; NoNameNode; what it
    raises of its own code.
    """
    try:
        return action()
    except FileNotFoundError as error:
        raise FileNotFoundError(_first_line(error)) from None
    except FileExistsError as error:
        raise FileExistsError(_first_line(error)) from None
    except RuntimeError as error:
        raise _translation(error) from None
    except (PermissionError, IsADirectoryError):
        raise
    except OSError as error:  # the driver has tried all name nodes again by itself
        raise NoNameNode(_first_line(error)) from None


def _translation(error: RuntimeError) -> Exception:
    text = str(error)
    answer = _ANSWER.search(text)
    if any(known in text for known in _UNKNOWN_CLUSTER):
        return UnknownCluster("Hadoop's configuration has no name nodes")
    if answer is None:
        return NoNameNode(_first_line(error))
    kind, message = answer[1].rpartition(".")[2], answer[2]
    if kind in _DENIED and _NO_DIRECTORY in message:
        return FileNotFoundError(message)
    failure = NoNameNode if kind in _LATER else Denied if kind in _DENIED else NameNodeAnswer
    return failure(f"{message} ({kind})")


class Denied(NameNodeAnswer, PermissionError):
    """The user may not do that."""


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def range_of(opened: Any, offset: int, length: int) -> bytes:
    """Return bytes of an opened file, fewer at its end; below 0 the offset counts from there.

    The driver itself ends the process's thread where a range ends behind the file.
    """
    size = len(opened)
    start = offset if offset >= 0 else max(0, size + offset)
    count = min(length, size - start)
    return bytes(opened.read_range(start, count)) if count > 0 else b""


class HdfsUpload(PartWriter):
    """A new file, sent by the megabyte; its directories are made."""

    def __init__(self, client: Any, path: str) -> None:
        super().__init__(_BUFFER_BYTES)
        from hdfs_native import WriteOptions

        self._file: IO[bytes] = client.create(path, WriteOptions(create_parent=True))

    def send_part(self, content: bytes) -> None:
        driver_result(lambda: self._file.write(content))

    def end(self) -> None:
        content = self.last_part()
        if content:
            self.send_part(content)
        self._file.close()

    def abandon(self) -> None:
        with suppress(Exception):
            self._file.close()


def open_hdfs(
    location: str,
    options: Mapping[str, str],
    env: Env,
    concurrency: int,
    warn: Callable[[str], None],
) -> "HdfsStore":
    """The store of a cluster, or of the one that Hadoop's configuration says; not connected yet.

    `options` are Hadoop's own properties. Raises: Unsupported, without the driver; StorageError.
    """
    try:
        from hdfs_native import Client
    except ImportError as error:
        raise Unsupported(
            f"the storage driver for hdfs: is not installed ({error})",
            hint="install it with icectl: `pip install 'icectl[hdfs]'`",
        ) from error
    root = locations.root(location)
    has_authority = bool(root.partition("//")[2])
    with remote_errors("reach", location):
        client = driver_result(
            lambda: Client(root if has_authority else None, {**_TRIES, **options})
        )
    return HdfsStore(client, env, concurrency, warn)


@dataclass(frozen=True, slots=True, repr=False)
class HdfsStore:
    """A Store over one cluster."""

    client: Any
    env: Env
    concurrency: int
    warn: Callable[[str], None]
    proof: Proven = field(default_factory=Proven)
    lock: Lock = field(default_factory=Lock)

    def read(self, location: str) -> bytes:
        return self._make(
            "read", location, lambda: bytes(self.client.read(path_of(location)).read())
        )

    def read_range(self, location: str, offset: int, length: int) -> bytes:
        return self._make(
            "read", location, lambda: range_of(self.client.read(path_of(location)), offset, length)
        )

    def open(self, location: str) -> IO[bytes]:
        """Return a seekable reader; the name node is asked once."""
        opened = self._make("read", location, partial(self.client.read, path_of(location)))

        def read(offset: int, length: int) -> bytes:
            return self._make("read", location, partial(range_of, opened, offset, length))

        return range_reader(Tail(len(opened)), read)

    def stat(self, location: str) -> FileStatus | None:
        look = partial(self.client.get_file_info, path_of(location))
        try:
            status = self._make("look up", location, look)
        except FileNotFoundError:
            return None
        return None if status.isdir else _status(location, status)

    def list(self, location: str) -> Iterator[pa.RecordBatch]:
        return run_steps([location.rstrip("/")], self._scan, self.concurrency)

    def split(self, location: str, count: int) -> ListingSplit:
        return first_directories(location.rstrip("/"), self._scan, self.concurrency, count)

    def list_parts(self, parts: Sequence[ListingPart]) -> Iterator[pa.RecordBatch]:
        return run_steps([part.location for part in parts], self._scan, self.concurrency)

    def list_directory(self, location: str) -> Sequence[FileStatus]:
        statuses = [
            _status(path, entry) for path, entry in self._entries(location) if not entry.isdir
        ]
        return sorted(statuses, key=lambda file: file.location)

    def create(self, location: str, content: bytes) -> None:
        condition = "rename without overwrite"
        prove_condition(
            self.proof, location, self._put_new, self.remove, self.env, self.warn, condition
        )
        self._put_new(location, content)

    def replace(self, location: str, content: bytes) -> None:

        def action() -> None:
            with self._temporary(location) as (temporary, file):
                file.write(content)
                file.end()
                self.client.rename(temporary, path_of(location), True)  # noqa: FBT003 - overwrites

        self._make("write", location, action)

    @contextmanager
    def open_new(self, location: str) -> Iterator[IO[bytes]]:
        if self.stat(location) is not None:
            raise FileExistsError(location)
        with self._temporary(location) as (temporary, file):
            yield file
            self._once("write", location, file.end)
            self._name_own(temporary, location, file.size_bytes)

    def assemble(self, location: str) -> AbstractContextManager[Assembly] | None:  # noqa: ARG002
        """Return None: the cluster copies nothing by itself."""
        return None

    def copy(self, source: str, target: str) -> None:
        """Copy a file, through this process: the cluster has no means to."""
        with self.open(source) as file, self.open_new(target) as new:
            while content := file.read(_COPIED_BYTES):
                new.write(content)

    def clock_ms(self, location: str) -> int | None:  # noqa: ARG002 - of every Store
        """None: a name node does not tell its time."""
        return None

    def remove(self, removed: Iterable[str]) -> Sequence[FailedRemoval]:
        files = list(removed)
        with ThreadPoolExecutor(self.concurrency, thread_name_prefix="remove") as pool:
            return [failed for failed in pool.map(self._remove_one, files) if failed is not None]

    def _remove_one(self, location: str) -> FailedRemoval | None:
        try:
            self._make("delete", location, partial(self.client.delete, path_of(location)))
        except FileNotFoundError:
            return None
        except StorageError as error:
            if not isinstance(error.__cause__, NameNodeAnswer):
                raise
            return FailedRemoval(location, error.reason)
        return None

    def _put_new(self, location: str, content: bytes) -> None:
        with self._temporary(location) as (temporary, file):
            self._once("write", location, partial(file.write, content))
            self._once("write", location, file.end)
            self._rename(temporary, location)

    def _rename(self, temporary: str, location: str) -> None:
        """Name a whole file, once (R-162). Raises: FileExistsError; AnswerLost; StorageError."""
        rename = partial(self.client.rename, temporary, path_of(location), False)  # noqa: FBT003
        try:
            driver_result(rename)
        except FileExistsError:
            raise FileExistsError(location) from None
        except Exception as error:  # the seam: drivers raise what they like
            failure = remote_failure("write", location, error, secrets=())
            if isinstance(error, NameNodeAnswer):
                raise failure from error
            raise AnswerLost(
                f"cannot write {locations.redacted(location)}: no response came",
                hint=getattr(failure, "hint", None),
            ) from error

    def _name_own(self, temporary: str, location: str, size_bytes: int) -> None:
        """Give a whole file its name, again where no response came. Raises: StorageError."""

        def rename() -> None:
            try:
                self.client.rename(temporary, path_of(location), False)  # noqa: FBT003
            except FileNotFoundError:  # it has got its name already
                status = self.client.get_file_info(path_of(location))
                if int(status.length) != size_bytes:
                    raise

        self._make("write", location, rename)

    @contextmanager
    def _temporary(self, location: str) -> Iterator[tuple[str, HdfsUpload]]:
        """A file beside a location, by its own path, which is gone afterwards unless renamed."""
        place = locations.join(
            locations.parent(location), temporary_name(next(_COUNTER), locations.name(location))
        )
        temporary = path_of(place)
        file = self._make("write", location, partial(HdfsUpload, self.client, temporary))
        try:
            yield temporary, file
        except BaseException:
            file.abandon()
            try:  # what has not got its name; a later run removes what stays
                driver_result(partial(self.client.delete, temporary))
            except Exception:  # noqa: BLE001 - the error that led here is told
                self.warn(f"{temporary}, which nothing refers to, could not be removed")
            raise

    def _once(self, doing: str, location: str, action: Callable[[], Result]) -> Result:
        with remote_errors(doing, location):
            return driver_result(action)

    def _make(self, doing: str, location: str, action: Callable[[], Result]) -> Result:
        return repeated(doing, location, partial(driver_result, action), self.env)

    def _scan(self, directory: str) -> ListingStep[str]:
        rows, below = ListingRows(), []
        for place, entry in self._entries(directory):
            if entry.isdir:
                below.append(place)
            else:
                rows.add(place, int(entry.length), int(entry.modification_time))
        return ListingStep(rows, tuple(below))

    def _entries(self, directory: str) -> Sequence[tuple[str, Any]]:
        """List a directory, under locations that begin as the directory's does."""
        path = path_of(directory).rstrip("/")
        try:
            entries = self._make(
                "list", directory, lambda: list(self.client.list_status(path or "/"))
            )
        except FileNotFoundError:
            return []
        return [
            (locations.join(directory, entry.path.removeprefix(path)), entry)
            for entry in entries
            if entry.path.rstrip("/") != path
        ]


def _status(location: str, status: Any) -> FileStatus:
    return FileStatus(location, int(status.length), int(status.modification_time))
