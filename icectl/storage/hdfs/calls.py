"""Calls of hdfs-native, with what they raise as errors that say what the name node answered."""

import io
import re
from collections.abc import Callable
from contextlib import suppress
from typing import IO, Any, BinaryIO, TypeVar

from icectl.storage import location as locations

Result = TypeVar("Result")

_ANSWER = re.compile(r'RPCError\("([^"]*)", "(.*?)(?:\\n|"\)|\Z)', re.DOTALL)
_DENIED = {"AccessControlException", "AuthorizationException", "InvalidToken"}
_UNKNOWN_CLUSTER = ("No NameNode hosts found", "No fs.defaultFS setting found")
_LATER = {"RetriableException", "SafeModeException", "StandbyException"}
_NO_DIRECTORY = "is not a directory"
_BUFFER_BYTES = 1 << 20


class NameNodeAnswer(Exception):
    """The name node has refused something: nothing was done."""


class UnknownCluster(NameNodeAnswer):
    """No configuration says where the cluster is."""


class NotReached(Exception):
    """No name node answered that takes requests."""


def path_of(location: str) -> str:
    """The path of a file within its cluster, as Hadoop's own clients spell it."""
    return re.sub("//+", "/", f"/{location[len(locations.root(location)) :]}")


def called(action: Callable[[], Result]) -> Result:
    """The result of a call of the driver.

    Raises: FileNotFoundError; FileExistsError; PermissionError; NameNodeAnswer; NotReached; what it
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
        raise NotReached(_first_line(error)) from None


def _translation(error: RuntimeError) -> Exception:
    text = str(error)
    found = _ANSWER.search(text)
    if any(told in text for told in _UNKNOWN_CLUSTER):
        return UnknownCluster("Hadoop's configuration does not say where its name nodes are")
    if found is None:
        return NotReached(_first_line(error))
    kind, message = found[1].rpartition(".")[2], found[2]
    if kind in _DENIED and _NO_DIRECTORY in message:
        return FileNotFoundError(message)
    if kind in _LATER:
        return NotReached(f"{message} ({kind})")
    if kind in _DENIED:
        return Denied(f"{message} ({kind})")
    return NameNodeAnswer(f"{message} ({kind})")


class Denied(NameNodeAnswer, PermissionError):
    """The user may not do that."""


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def range_of(opened: Any, offset: int, length: int) -> bytes:
    """Bytes of an opened file, fewer at its end; below 0 the offset counts from there.

    The driver itself ends the process's thread where a range ends behind the file.
    """
    size = len(opened)
    start = offset if offset >= 0 else max(0, size + offset)
    count = min(length, size - start)
    return bytes(opened.read_range(start, count)) if count > 0 else b""


class Writing(io.RawIOBase, BinaryIO):
    """A new file, written from its beginning to its end; its directories are made."""

    def __init__(self, client: Any, path: str) -> None:
        super().__init__()
        from hdfs_native import WriteOptions

        self._file: IO[bytes] = client.create(path, WriteOptions(create_parent=True))
        self._waiting = bytearray()
        self._size_bytes = 0
        self._is_closed = False

    def writable(self) -> bool:
        """Return True: the file is new."""
        return True

    def tell(self) -> int:
        """Return how much was written."""
        return self._size_bytes

    def write(self, content: Any, /) -> int:
        """Take the next bytes; they are sent by the megabyte."""
        octets = memoryview(content).cast("B")
        self._waiting += octets
        self._size_bytes += len(octets)
        if len(self._waiting) >= _BUFFER_BYTES:
            self._send()
        return len(octets)

    def close(self) -> None:
        """Have the name node take the file as whole."""
        if not self._is_closed:
            self._is_closed = True
            self._send()
            self._file.close()
        super().close()

    def abandon(self) -> None:
        """Give the file up, whose bytes nobody wants."""
        if not self._is_closed:
            self._is_closed = True
            with suppress(Exception):
                self._file.close()
        super().close()

    def _send(self) -> None:
        if self._waiting:
            content, self._waiting = bytes(self._waiting), bytearray()
            called(lambda: self._file.write(content))
