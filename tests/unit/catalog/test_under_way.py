"""Commits by renaming: a young file that waits for its name is a writer at work, an old one is left
over, and neither makes a table a catalog's."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from icectl.catalog.files import FILE_SYSTEM, OF_A_CATALOG, FileSystemCatalog
from icectl.catalog.protocol import Committed, Conflict
from icectl.errors import CommitConflict, Refused, TableNotFound
from icectl.storage.local.store import LocalStore
from tests.stores.wrapped import WrappedStore
from tests.unit.catalog.test_files import (
    OTHER_UUID,
    OWNED,
    UUID,
    catalog,
    names,
    next_table,
    put,
    table,
)

__all__ = ["table"]  # the fixture
WAITING = f"{OTHER_UUID}.metadata.json"
MINUTE = 60
BUSY = f"another writer is in the middle of a commit, as {WAITING} shows"


def wait(table, fixed_env, *, age_seconds, name=WAITING, content=None):
    """A file that another writer has written, so long ago by the clock of the test."""
    put(table, name, 9)
    path = table / "metadata" / name
    if content is not None:
        path.write_bytes(content)
    then = fixed_env.now_ms() / 1000 - age_seconds
    os.utime(path, (then, then))
    return path


@pytest.mark.parametrize("age_seconds", [0, 9 * MINUTE, 11 * MINUTE, -MINUTE])
@pytest.mark.parametrize("content", [None, b"", b'{"format-version": 2, "table-u'])
def test_r162_a_file_that_waits_for_its_name_is_no_version(table, fixed_env, age_seconds, content):
    wait(table, fixed_env, age_seconds=age_seconds, content=content)
    loaded = catalog(table, fixed_env).load()
    assert (loaded.version, loaded.capabilities) == (3, FILE_SYSTEM)
    catalog(table, fixed_env).check_writable(loaded)


@pytest.mark.parametrize("ending", [".metadata.json", ".gz.metadata.json", ".metadata.json.gz"])
@pytest.mark.parametrize("age_seconds", [0, 9 * MINUTE, -MINUTE])
def test_a_commit_loses_to_one_that_is_under_way(table, fixed_env, ending, age_seconds):
    name = f"{OTHER_UUID}{ending}"
    wait(table, fixed_env, age_seconds=age_seconds, name=name)
    before, files = names(table), catalog(table, fixed_env)
    loaded = files.load()
    assert files.commit(loaded, (), OWNED) == Conflict(
        f"another writer is in the middle of a commit, as {name} shows",
        "nothing was changed; run the command again. If no writer is active, that file is left "
        "over: it is ignored once it is 10m old",
    )
    assert names(table) == before


def test_what_a_commit_has_left_over_is_ignored_and_told_once(table, fixed_env):
    path = wait(table, fixed_env, age_seconds=11 * MINUTE)
    told = []
    files = FileSystemCatalog(LocalStore(), str(table), fixed_env, warn=told.append)
    loaded = files.load()
    files.check_writable(loaded)
    files.check_writable(loaded)
    files.settle()
    assert isinstance(files.commit(loaded, (), OWNED), Committed)
    (warning,) = told
    assert warning == (
        f"{WAITING} in the metadata directory is left over from an unfinished commit, and is "
        f"ignored; `icectl remove-orphans {table}` deletes it"
    )
    assert path.exists()
    assert fixed_env.slept == []


@pytest.mark.parametrize("name", [f"00004-{UUID}.metadata.json", "latest.metadata.json"])
def test_beside_a_catalogs_file_the_table_is_the_catalogs(table, fixed_env, name):
    wait(table, fixed_env, age_seconds=0)
    put(table, name, 9)
    files = catalog(table, fixed_env)
    loaded = files.load()
    assert loaded.capabilities == OF_A_CATALOG
    with pytest.raises(Refused, match=f"this table belongs to a catalog, as {name} in"):
        files.check_writable(loaded)


class Renaming(WrappedStore):
    """Another writer renames the waiting file after the nth listing."""

    def __init__(self, path, target, nth):
        super().__init__(LocalStore())
        self.path, self.target, self.left = path, target, nth

    def list_directory(self, location):
        found = super().list_directory(location)
        self.left -= 1
        if self.left == 0:
            self.path.rename(self.path.with_name(self.target))
        return found


@pytest.mark.parametrize("nth", [1, 2])
def test_a_rename_between_two_listings_is_a_conflict_not_a_crash(table, fixed_env, nth):
    """Once `next` found no odd name in the second listing, and raised StopIteration."""
    path = wait(table, fixed_env, age_seconds=0)
    files = catalog(table, fixed_env, Renaming(path, "v4.metadata.json", nth))
    loaded = files.load()
    files.check_writable(loaded)
    outcome = files.commit(loaded, (), OWNED)
    assert outcome == Conflict("v4.metadata.json was committed by another writer")


def test_a_catalogs_file_that_is_gone_again_is_a_conflict(table, fixed_env):
    put(table, f"00004-{UUID}.metadata.json", 4)
    files = catalog(table, fixed_env)
    loaded = files.load()
    (table / f"metadata/00004-{UUID}.metadata.json").unlink()
    with pytest.raises(CommitConflict) as caught:
        files.check_writable(loaded)
    changed = f"the metadata files of {table} have changed since they were read"
    assert caught.value.message == changed


def test_a_table_of_a_catalog_that_comes_meanwhile_is_refused(table, fixed_env):
    files = catalog(table, fixed_env)
    loaded = files.load()
    put(table, f"00004-{UUID}.metadata.json", 4)
    with pytest.raises(Refused, match="this table belongs to a catalog"):
        files.check_writable(loaded)


class Vanishing(WrappedStore):
    """The newest metadata file is renamed before it is read, as often as there are files."""

    def read(self, location):
        newer = location.replace(f"v{self.at}.", f"v{self.at + 1}.")
        if self.at < self.last and location != newer:
            Path(location).rename(newer)
            self.at += 1
        return super().read(location)


def test_a_file_that_is_gone_before_it_is_read_is_looked_for_again(table, fixed_env):
    store = Vanishing(LocalStore())
    store.at, store.last = 3, 5
    assert catalog(table, fixed_env, store).load().version == 5


def test_a_table_that_is_gone_before_it_is_read_is_no_table(table, fixed_env):
    class Dropped(WrappedStore):
        def read(self, location):
            if table.exists():
                table.rename(f"{table}-away")
            return super().read(location)

    with pytest.raises(TableNotFound):
        catalog(table, fixed_env, Dropped(LocalStore())).load()


def test_a_base_that_is_gone_is_a_conflict(table, fixed_env):
    files = catalog(table, fixed_env)
    loaded = files.load()
    (table / "metadata/v3.metadata.json").unlink()
    assert files.commit(loaded, (), OWNED) == Conflict("v3.metadata.json is gone")


def test_settling_waits_for_the_commits_that_are_under_way(table, fixed_env):
    path = wait(table, fixed_env, age_seconds=0)
    files = catalog(table, fixed_env, Renaming(path, "v4.metadata.json", 3))
    files.settle()
    assert fixed_env.slept == [0.05, 0.1, 0.2]
    assert files.load().version == 4


def test_settling_does_not_wait_for_commits_that_begin_meanwhile(table, fixed_env):
    class Following(WrappedStore):
        """One commit ends, and the next one begins."""

        def list_directory(self, location):
            found = super().list_directory(location)
            for path in (table / "metadata").glob("*-*.metadata.json"):
                path.unlink()
            wait(table, fixed_env, age_seconds=0, name=f"{UUID}.metadata.json")
            return found

    wait(table, fixed_env, age_seconds=0)
    catalog(table, fixed_env, Following(LocalStore())).settle()
    assert fixed_env.slept == [0.05]


def test_settling_gives_up_after_three_seconds(table, fixed_env):
    wait(table, fixed_env, age_seconds=0)
    with pytest.raises(CommitConflict) as caught:
        catalog(table, fixed_env).settle()
    assert caught.value.message == BUSY
    assert sum(fixed_env.slept) == pytest.approx(3.15)


class Broken(WrappedStore):
    """A driver that raises what nobody expects, once it has written or before."""

    def __init__(self, *, writes):
        super().__init__(LocalStore())
        self.writes = writes

    def create(self, location, content):
        if self.writes:
            super().create(location, content)
        raise StopIteration


def test_r156_whatever_a_driver_raises_a_commit_that_landed_is_found(table, fixed_env):
    files = catalog(table, fixed_env, Broken(writes=True))
    loaded = files.load()
    landed = next_table(loaded, fixed_env, f"{table}/metadata/v4.metadata.json")
    assert files.commit(loaded, (), OWNED) == Committed(landed)


def test_r156_whatever_a_driver_raises_a_commit_that_is_not_found_is_unknown(table, fixed_env):
    files = catalog(table, fixed_env, Broken(writes=False))
    loaded = files.load()
    outcome = files.commit(loaded, (), OWNED)
    assert (outcome.metadata_location, outcome.reason) == (
        f"{table}/metadata/v4.metadata.json",
        "StopIteration: ",
    )


def test_a_file_is_old_by_the_clock_that_dates_it(table, fixed_env):
    """Not by this machine's, which may be wrong."""

    class Dated(WrappedStore):
        def clock_ms(self, location):
            return fixed_env.now_ms() + 11 * MINUTE * 1000

    wait(table, fixed_env, age_seconds=0)
    files = catalog(table, fixed_env, Dated(LocalStore()))
    loaded = files.load()
    assert isinstance(files.commit(loaded, (), OWNED), Committed)


def test_a_file_without_a_time_is_never_old(table, fixed_env):
    class Timeless(WrappedStore):
        def list_directory(self, location):
            return [replace(file, modified_ms=None) for file in super().list_directory(location)]

    wait(table, fixed_env, age_seconds=11 * MINUTE)
    files = catalog(table, fixed_env, Timeless(LocalStore()))
    loaded = files.load()
    assert files.commit(loaded, (), OWNED).reason == BUSY
