"""Calls of hdfs-native, with what they raise as errors that say what the name node answered."""

import re
from collections.abc import Callable
from contextlib import suppress
from typing import IO, Any, TypeVar

from icectl.storage import location as locations
from icectl.storage.streams import PartWriter

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
    found = _ANSWER.search(text)
    if any(told in text for told in _UNKNOWN_CLUSTER):
        return UnknownCluster("Hadoop's configuration does not say where its name nodes are")
    if found is None:
        return NoNameNode(_first_line(error))
    kind, message = found[1].rpartition(".")[2], found[2]
    if kind in _DENIED and _NO_DIRECTORY in message:
        return FileNotFoundError(message)
    if kind in _LATER:
        return NoNameNode(f"{message} ({kind})")
    if kind in _DENIED:
        return Denied(f"{message} ({kind})")
    return NameNodeAnswer(f"{message} ({kind})")


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
        """Send the next bytes."""
        driver_result(lambda: self._file.write(content))

    def end(self) -> None:
        """Have the name node take the file as whole."""
        content = self.last_part()
        if content:
            self.send_part(content)
        self._file.close()

    def abandon(self) -> None:
        """Give the file up, whose bytes nobody wants."""
        with suppress(Exception):
            self._file.close()
