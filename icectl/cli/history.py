"""The history of runs: JSON lines in the user's state folder, one for each run and table.

Runs append to one file beside each other. A file that is full gets another name, and the oldest of
those are deleted. What stands in the folder is data: a line that no icectl has written is skipped.
"""

import json
import os
import re
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from icectl.cli.document import first_breach, json_line, result_schema
from icectl.cli.settings import STATE_DIR, Settings, default_state_folder
from icectl.env import Env

_FILE = "runs.jsonl"
_FULL_FILE = re.compile(r"runs-\d{13}-[0-9a-f]{8}\.jsonl")
_FULL_BYTES = 1 << 20
"""Size from which on a file is full: some 2,000 lines."""

_FULL_FILES = 8
"""Full files that are kept."""

_READ_BYTES = 4 << 20
"""Bytes that are read of a file: its end, where others have made it larger."""

_LINE_BYTES = 1 << 16
"""No line of icectl is longer."""

_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")
_DIGITS = 20

_NO_WAITING = getattr(os, "O_NONBLOCK", 0)  # for the other end of a pipe


@dataclass(slots=True)
class History:
    """The history in a folder; `skipped` counts lines that were read and are none of icectl's."""

    folder: Path
    skipped: int = 0

    def append(self, record: Mapping[str, Any], env: Env) -> None:
        """Add a line for a table of a run. Raises: OSError."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = self.folder / _FILE
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | _NO_WAITING
        descriptor = _open(path, flags)
        try:
            size = os.lseek(descriptor, 0, os.SEEK_END)
            line = f"{json_line(record)}\n".encode()
            if size and not _ends_line(descriptor, size):  # on a full disk a run wrote half of one
                line = b"\n" + line
            # Whole lines, each in one write at the end: runs beside each other lose none.
            if os.write(descriptor, line) < len(line):
                raise OSError(f"only a part of a line could be written to {path}")
        finally:
            os.close(descriptor)
        if size + len(line) >= _FULL_BYTES:
            full = f"runs-{env.now_ms():013}-{env.new_uuid()[:8]}.jsonl"
            with suppress(FileNotFoundError):  # another run has renamed it
                path.replace(self.folder / full)
            for oldest in self._full_files()[_FULL_FILES:]:
                oldest.unlink(missing_ok=True)

    def records(self) -> Iterator[Mapping[str, Any]]:
        """Yield what stands in the history, the newest first. Raises: OSError."""
        result, definitions = result_schema("runs")
        schema = {**result["properties"]["runs"]["items"], "$defs": definitions}
        names = tuple(schema["properties"])
        for path in (self.folder / _FILE, *self._full_files()):
            try:
                lines = _last_lines(path)
            except FileNotFoundError:  # there is none, or another run has renamed it
                continue
            for line in reversed(lines):
                record = _parsed(line)
                if record is not None and first_breach(record, schema) is None:
                    yield {name: record[name] for name in names if name in record}
                elif line.strip():
                    self.skipped += 1

    def _full_files(self) -> list[Path]:
        """Return the full files, the newest first."""
        files = self.folder.iterdir() if self.folder.is_dir() else ()
        return sorted((file for file in files if _FULL_FILE.fullmatch(file.name)), reverse=True)


def history_of(settings: Settings) -> History | None:
    """Return the history of the user; None for a user without a home."""
    folder = settings.read(STATE_DIR) or default_state_folder(os.environ)
    return None if folder is None else History(folder)


def _open(path: Path, flags: int) -> int:
    """Open a file. Raises: OSError, also for what is no file."""
    descriptor = os.open(path, flags | getattr(os, "O_CLOEXEC", 0), 0o666)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(f"{path} is not a file")
    return descriptor


def _ends_line(descriptor: int, size: int) -> bool:
    os.lseek(descriptor, size - 1, os.SEEK_SET)
    return os.read(descriptor, 1) == b"\n"


def _last_lines(path: Path) -> list[bytes]:
    """Return the lines at the end of a file. Raises: OSError."""
    with os.fdopen(_open(path, os.O_RDONLY | _NO_WAITING), "rb") as file:
        start = max(file.seek(0, os.SEEK_END) - _READ_BYTES, 0)
        file.seek(start)
        lines = file.read(_READ_BYTES).splitlines()
    return lines[1:] if start else lines


def _parsed(line: bytes) -> Any:
    if len(line) > _LINE_BYTES:
        return None
    try:
        return json.loads(line, parse_constant=_number, parse_int=_number, parse_float=_number)
    except (ValueError, RecursionError):
        return None


def _number(text: str) -> float:
    """Return a number of a line. Raises: ValueError, for one that no icectl has written."""
    if len(text) > _DIGITS or not _NUMBER.fullmatch(text):
        raise ValueError(text)
    return float(text) if "." in text else int(text)
