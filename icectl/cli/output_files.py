"""Files that a run writes where its options ask for them: metrics, plans, the list of what went."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from icectl.cli.escapes import printable
from icectl.cli.options import Change
from icectl.env import Env
from icectl.errors import StorageError


def put_in_place(path: Path, text: str, env: Env) -> None:
    """Put the text in place in one step, so that no reader ever sees half of it.

    A device or a pipe is written to, since a file in its place would break whoever else uses it.
    Raises: OSError.
    """
    if path.exists() and not path.is_file():
        path.write_text(text, "utf-8")
        return
    path = path.resolve()
    temporary = path.with_name(f".{path.name}.{env.new_uuid()}")
    try:
        temporary.write_text(text, "utf-8")
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def add_to_deleted_list(path: str, locations: Sequence[str]) -> None:
    """Add what killed runs had left to a list of deleted files. Raises: StorageError."""
    with _writing_list(path, "a") as file:
        file.writelines(f"{printable(location)}\n" for location in locations)


def write_deleted_list(change: Change, locations: Iterable[str]) -> None:
    """Write the list, one location a line, if one was asked for. Raises: StorageError."""
    if change.deleted_list is None:
        return
    with _writing_list(change.deleted_list, "w") as file:
        file.writelines(f"{printable(location)}\n" for location in locations)


@contextmanager
def _writing_list(path: str, mode: str) -> Iterator[IO[str]]:
    try:
        with Path(path).open(mode, encoding="utf-8", errors="backslashreplace") as file:
            yield file
    except OSError as error:
        raise StorageError(
            f"cannot write the list of deleted files to {path}: {error.strerror}"
        ) from error
