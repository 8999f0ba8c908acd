"""A truncated metadata file on its way aside: whatever fails, none of its bytes are lost."""

import os
import shutil
from pathlib import Path

import pytest

from icectl.storage.local.store import LocalStore
from tests.builders.expiry import NOW_MS
from tests.builders.rows import current_metadata, read_metadata, read_rows
from tests.builders.table_builder import filled_table
from tests.fault.changing import run
from tests.stores.wrapped import CountingStore, FaultyStore


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    """A table whose newest metadata file is cut off, as it was an hour ago."""
    table = filled_table(tmp_path / "t", range(4), range(4, 8))
    newest = current_metadata(table.directory)
    newest.write_bytes(newest.read_bytes()[:-200])
    hour_ago = NOW_MS / 1000 - 3600
    os.utime(newest, (hour_ago, hour_ago))
    shutil.copytree(table.directory, tmp_path / "as-built")
    return table.directory


def restored(table: Path) -> Path:
    """The table as it was built, times and all."""
    shutil.rmtree(table)
    shutil.copytree(table.with_name("as-built"), table)
    return table


def words(table: Path) -> list[str]:
    return ["repair", str(table), "--level", "metadata", "--yes", "--concurrency", "1", "--json"]


FULL = pytest.mark.full


@pytest.mark.parametrize(
    "failure", ["before", pytest.param("after", marks=FULL), pytest.param("lost", marks=FULL)]
)
def test_no_byte_of_a_truncated_metadata_file_is_lost(broken, failure):
    stored = current_metadata(broken).read_bytes()
    counting = CountingStore(LocalStore())
    assert run(words(restored(broken)), counting)[0] == 0
    for nth in range(1, len(counting.calls) + 1):
        table = restored(broken)
        code, _ = run(words(table), FaultyStore(LocalStore(), nth, failure))
        folder = table / "metadata"
        assert [path for path in folder.iterdir() if path.read_bytes() == stored], nth
        assert code in (0, 3, 11, 13, 15), nth
        assert run(words(table))[0] == 0, nth
        assert current_metadata(table).name == "v2.metadata.json"
        assert (folder / "version-hint.text").read_bytes() == b"2"


def test_remove_orphans_leaves_the_file_that_was_moved_aside(broken):
    assert run(words(broken))[0] == 0
    (aside,) = (broken / "metadata").glob("_broken-*")
    os.utime(aside, (1_600_000_000, 1_600_000_000))
    assert run(["remove-orphans", str(broken), "--yes", "--json"])[0] == 0
    assert aside.exists()
    assert len(read_rows(read_metadata(current_metadata(broken)))) == 4
