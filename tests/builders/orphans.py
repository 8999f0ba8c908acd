"""Tables among files that they do not refer to, and how old those files are."""

import json
import os
from pathlib import Path
from typing import Any

from tests.builders.expiry import NOW_MS
from tests.builders.rows import current_metadata, read_metadata

DAY_SECONDS = 86_400
OTHER_UUID = "00000000-0000-4000-8000-000000000001"


def age(path: Path, days: float) -> None:
    """Let a file, or every file in a folder, be modified so long before the tests' now."""
    modified = NOW_MS / 1000 - days * DAY_SECONDS
    for file in [path, *path.rglob("*")]:
        if file.is_file() and not file.is_symlink():
            os.utime(file, (modified, modified))


def stray(directory: Path, name: str, *, days: float = 7, size: int = 100) -> Path:
    """A file that no table knows of."""
    path = directory / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"." * size)
    age(path, days)
    return path


def edit_metadata(directory: Path, **members: Any) -> None:
    """Change members of the current metadata file; `_` stands for `-`."""
    path = current_metadata(directory)
    changed = {name.replace("_", "-"): value for name, value in members.items()}
    path.write_text(json.dumps(read_metadata(path) | changed))
    age(path, 7)


def name_statistics(directory: Path, location: str) -> None:
    """Let the current metadata file name partition statistics at a location."""
    head = read_metadata(current_metadata(directory))["current-snapshot-id"]
    statistics = {"snapshot-id": head, "statistics-path": location, "file-size-in-bytes": 100}
    edit_metadata(directory, partition_statistics=[statistics])
