"""Merges of data files that are long enough for a store to copy, and what they have to become."""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from icectl.cli import app
from tests.benchmarks import compact_tables
from tests.builders.expiry import NOW_MS
from tests.stores.fixed_env import FixedEnv

_WORDS = ("--engine", "local", "--method", "merge", "--min-input-files", "2", "--yes")


@dataclass(frozen=True)
class Inputs:
    """Data files of more than 5 MiB each, and the bytes of their merge on a local disk."""

    paths: Sequence[Path]
    merged: bytes

    def build(self, directory: Path, location: str) -> None:
        """A table of these files that lies at a location, in a directory."""
        compact_tables.adopt(directory, self.paths, location)


def make_inputs(directory: Path) -> Inputs:
    """Write data files, and merge them where they are."""
    paths = compact_tables.build(directory / "made", 2, 125_000)
    assert min(path.stat().st_size for path in paths) > 5 << 20
    place = directory / "local"
    kept = compact_tables.adopt(place, paths)
    assert app.main(["compact", str(place), *_WORDS], env=FixedEnv(NOW_MS)) == 0
    (merged,) = set((place / "data").glob("*.parquet")) - set(kept)
    return Inputs(paths, merged.read_bytes())


def merge(
    location: str, arguments: Sequence[str], capsys: pytest.CaptureFixture[str]
) -> tuple[dict[str, Any], str]:
    """Merge all files of a table by icectl; the document, and what it told of the way."""
    capsys.readouterr()
    words = ["compact", location, *_WORDS, "--json", "-v", *arguments]
    code = app.main(words, env=FixedEnv(NOW_MS))
    read = capsys.readouterr()
    print(read.err, file=sys.stderr)
    assert code == 0
    document: dict[str, Any] = json.loads(read.out)
    assert [group["method"] for group in document["result"]["groups"]] == ["merge"]
    return document, read.err
