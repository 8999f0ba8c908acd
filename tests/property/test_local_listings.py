"""Directories of all kinds of entries: the compiled loop lists what Python lists."""

import os
import tempfile
from contextlib import suppress
from pathlib import Path
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from icectl.errors import StorageError
from icectl.storage.listing import LISTING_SCHEMA
from icectl.storage.local import scan as local_scan
from icectl.storage.local.store import LocalStore

NAMES = st.binary(min_size=1, max_size=6).filter(lambda name: not {0, 47} & set(name)) | (
    st.sampled_from([b"...", b".a", b"..a", "é".encode(), b"\xff", b"a" * 255])
)
KINDS = st.sampled_from(["file", "directory", "link", "pipe"])
TREES = st.lists(st.tuples(st.lists(NAMES, min_size=1, max_size=4), KINDS, NAMES), max_size=15)


def grow(base: str, tree: list[tuple[list[bytes], str, bytes]]) -> None:
    """Make what can be made: names that mean something else, or are taken, are left out."""
    for names, kind, target in tree:
        path = Path(base, *map(os.fsdecode, names))
        if {b".", b".."} & set(names):
            continue
        with suppress(OSError):
            (path if kind == "directory" else path.parent).mkdir(parents=True, exist_ok=True)
            if kind == "file":
                with path.open("xb") as file:  # to a pipe it would wait for ever
                    file.write(target)
            elif kind == "link":
                path.symlink_to(os.fsdecode(target))
            elif kind == "pipe":
                os.mkfifo(path)


def listed(folder: str, many: int) -> list[dict[str, object]] | str:
    """The files, or the error where links go round in circles."""
    with patch.object(local_scan, "_MANY", many):
        try:
            found = pa.Table.from_batches(LocalStore(2).list(folder), LISTING_SCHEMA)
        except StorageError as error:
            return error.message.partition(": ")[2]  # of several circles any is met first
    return found.sort_by("location").to_pylist()


@example([([b"a"], "pipe", b"b"), ([b"a"], "file", b"b")])
@pytest.mark.skipif(not local_scan.has_loop(), reason="the loop is for Linux")
@settings(max_examples=60, deadline=None)
@given(TREES)
def test_the_loop_lists_what_python_lists(tree):
    with tempfile.TemporaryDirectory() as folder:
        grow(folder, tree)
        assert listed(folder, 0) == listed(folder, 1 << 30)
