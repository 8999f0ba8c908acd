"""What leads to the current metadata: what of it is broken, and what a repair does about that."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from icectl.catalog.files import NamedFileCatalog
from icectl.catalog.protocol import PinnedCatalog
from icectl.commands.repair.metadata import WholeTable, find, restore
from icectl.errors import CommitConflict, CorruptTable, Refused, StorageError
from icectl.storage.local.store import LocalStore
from icectl.storage.store import FailedRemoval, FileStatus
from icectl.table.context import TableContext
from tests.builders.expiry import NOW_MS, context_of
from tests.builders.table_builder import TableBuilder, filled_table
from tests.stores.wrapped import WrappedStore

BOTH = frozenset({"metadata-file", "version-hint"})
MINUTE_MS = 60_000
NEWEST = ".metadata.json is the newest file"


@pytest.fixture
def table(tmp_path: Path) -> TableBuilder:
    """Versions 1 to 4, as old as can be; the hint says 4."""
    built = filled_table(tmp_path / "t", *(range(start, start + 4) for start in (0, 4, 8)))
    for version in range(1, 5):
        age(file_of(built, version))
    return built


def age(path: Path, ms: int = 24 * 60 * MINUTE_MS) -> Path:
    at = (NOW_MS - ms) * 1_000_000
    os.utime(path, ns=(at, at))
    return path


def file_of(table: TableBuilder, version: int) -> Path:
    return table.directory / "metadata" / f"v{version}.metadata.json"


def cut(table: TableBuilder, version: int = 4) -> Path:
    """Cut a metadata file off; it stays old."""
    path = file_of(table, version)
    path.write_bytes(path.read_bytes()[:-200])
    return age(path)


def hint(table: TableBuilder, says: str | None = None) -> Path:
    path = table.directory / "metadata" / "version-hint.text"
    if says is not None:
        path.write_text(says)
    return path


def told(found: WholeTable) -> list[tuple[str, str, str, str]]:
    return [(one.id, one.subject, one.what, one.proof) for one in found.fixes]


def version(found: WholeTable) -> int | None:
    return found.loaded.version


def contents(table: TableBuilder) -> dict[str, bytes]:
    folder = table.directory / "metadata"
    return {path.name: path.read_bytes() for path in folder.iterdir()}


# -- a broken metadata file ---------------------------------------------------------------------


def test_a_whole_table_needs_nothing(table):
    found = find(context_of(table.directory))
    assert (version(found), found.fixes, found.broken, found.hint) == (4, (), None, None)
    assert not found.is_ahead


def test_the_file_before_a_broken_one_takes_its_place(table):
    path = cut(table)
    found = find(context_of(table.directory))
    assert version(found) == 3
    assert found.loaded.metadata_location == str(file_of(table, 3))
    assert found.loaded.capabilities.publishes
    assert found.loaded.capabilities.numbers_versions
    assert found.broken is not None
    assert found.broken.location == str(path)
    assert found.aside is not None
    aside = Path(found.aside)
    assert aside.parent == path.parent
    start, _, eight = aside.name.rpartition("-")
    assert (start, len(eight)) == ("_broken-v4.metadata.json", 8)
    moved, corrected = told(found)
    assert moved == (
        "metadata-file",
        str(path),
        f"move it aside, to {aside.name}; v3.metadata.json is current again",
        (
            "it cannot be read, v3.metadata.json before it is complete, and no newer file exists; "
            "the changes of its commit are lost unless a copy exists"
        ),
    )
    assert corrected[2] == "it says 4, which is ahead of v3.metadata.json: write 3"
    assert (found.hint, found.is_ahead) == (b"3", True)


def test_r024_the_file_before_one_of_another_version_takes_its_place(table):
    """An older file lies under its name, as after a copy that went wrong."""
    path = file_of(table, 4)
    path.write_bytes(file_of(table, 2).read_bytes())
    age(path)
    found = find(context_of(table.directory))
    assert (version(found), found.broken is not None) == (3, True)
    assert told(found)[0][3].startswith(
        "it is another version, v3.metadata.json before it is complete"
    )


def test_a_broken_file_is_found_by_a_plan_s_pin_too(table):
    cut(table)
    context = context_of(table.directory)
    pinned = replace(context, catalog=PinnedCatalog(context.catalog, None, None))
    assert [one.id for one in find(pinned).fixes] == ["metadata-file", "version-hint"]


def test_r006_a_broken_gzip_file_is_one_too(tmp_path):
    table = filled_table(tmp_path / "t", range(4), compressed_metadata=True)
    newest = table.directory / "metadata" / "v2.gz.metadata.json"
    newest.write_bytes(newest.read_bytes()[:-40])
    age(newest)
    assert version(find(context_of(table.directory))) == 1


def is_left(table: TableBuilder, context: TableContext | None = None) -> CorruptTable:
    """Check that a table is corrupt, and nothing is offered or touched; why."""
    before = contents(table)
    with pytest.raises(CorruptTable) as raised:
        find(context or context_of(table.directory))
    assert contents(table) == before
    return raised.value


def test_a_file_that_says_something_wrong_is_not_moved_aside(table):
    """It can be read, and is what some writer meant."""
    path = file_of(table, 4)
    path.write_text(path.read_text().replace('"last-column-id"', '"last-id"'))
    age(path)
    assert is_left(table).rule == "R-011"


def test_the_file_that_the_caller_named_is_not_moved_aside(table):
    path = cut(table)
    context = context_of(table.directory)
    given = NamedFileCatalog(context.store, str(table.directory), context.env, str(path))
    assert is_left(table, replace(context, catalog=given)).rule == "R-005"


CATALOG_FILE = "00001-9c12d441-03fe-4693-9a96-a0705ddf69c1.metadata.json"


@pytest.mark.parametrize("beside", ["copy.metadata.json", "v2.gz.metadata.json"])
def test_files_of_other_names_and_versions_written_twice_are_left_to_the_user(table, beside):
    (file_of(table, 4).parent / beside).write_bytes(file_of(table, 1).read_bytes())
    cut(table)
    assert is_left(table).rule == "R-005"


class Once(WrappedStore):
    """A store whose metadata files are there for the first listing, and then others are."""

    def __init__(self, later: dict[str, bytes | None]) -> None:
        super().__init__(LocalStore())
        self.later, self.listed = later, 0

    def list_directory(self, location: str) -> Sequence[FileStatus]:
        self.listed += 1
        if self.listed == 2:
            for path, content in self.later.items():
                Path(path).unlink() if content is None else Path(path).write_bytes(content)
        return super().list_directory(location)


def test_a_file_that_is_whole_at_a_second_look_was_not_broken(table):
    """Its writer has just finished it."""
    path = file_of(table, 4)
    whole = path.read_bytes()
    cut(table)
    with pytest.raises(CorruptTable) as raised:
        find(context_of(table.directory, Once({str(path): whole})))
    assert raised.value.rule == "R-005"


def test_a_folder_that_is_empty_at_a_second_look_is_left_alone(table):
    cut(table)
    gone = {str(file_of(table, at)): None for at in range(1, 5)}
    with pytest.raises(CorruptTable) as raised:
        find(context_of(table.directory, Once(gone)))
    assert raised.value.rule == "R-005"


def test_without_a_whole_file_before_it_a_broken_one_is_left_alone(table):
    for at in range(1, 5):
        cut(table, at)
    assert is_left(table).rule == "R-005"


@pytest.mark.parametrize("is_gone", [True, False])
def test_a_version_that_is_missing_before_the_broken_one_is_for_the_user_to_judge(table, is_gone):
    cut(table)
    if is_gone:
        file_of(table, 3).unlink()
    else:
        cut(table, 3)
    error = is_left(table)
    assert error.rule == "R-005"
    assert error.message.startswith(f"{file_of(table, 4)}: the metadata file is not JSON: ")
    assert error.message.count("(R-005)") == 1
    assert error.hint == (
        "the newest complete metadata file is v2.metadata.json, and those after it are "
        "broken or gone: restore them from a copy, or move the broken ones out of the directory "
        "if that version is meant"
    )


@pytest.mark.parametrize(("ms", "is_young"), [(0, True), (599_999, True), (600_000, False)])
def test_a_file_that_its_writer_may_be_at_is_left_alone(table, ms, is_young):
    age(cut(table), ms)
    context = context_of(table.directory)
    if not is_young:
        assert version(find(context)) == 3
        return
    with pytest.raises(Refused, match=r"v4\.metadata\.json, and it is recent"):
        find(context)


class Undated(WrappedStore):
    """A store that tells no times of files."""

    def list_directory(self, location: str) -> Sequence[FileStatus]:
        return [replace(one, modified_ms=None) for one in super().list_directory(location)]


def test_a_file_without_a_time_is_never_old(table):
    cut(table)
    with pytest.raises(Refused, match="it is recent"):
        find(context_of(table.directory, Undated(LocalStore())))


def test_the_files_of_a_copy_are_left_alone(table, tmp_path):
    cut(table)
    table.directory.rename(tmp_path / "copy")
    with pytest.raises(Refused, match="it was copied or moved"):
        find(context_of(tmp_path / "copy"))


# -- the version hint ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("says", "what", "proof", "is_ahead"),
    [
        (
            "9",
            "it says 9, which is ahead of v4.metadata.json: write 4",
            "that is the newest file; commits after it are lost with their files",
            True,
        ),
        (
            "3",
            "it says 3, which is behind v4.metadata.json: write 4",
            "that is the newest file",
            False,
        ),
        ("no", "it names no version: write 4", f"v4{NEWEST}", False),
        ("v9", "it names no version: write 4", f"v4{NEWEST}", False),
    ],
)
def test_r163_a_hint_that_says_something_else_is_corrected(table, says, what, proof, is_ahead):
    hint(table, says)
    found = find(context_of(table.directory))
    assert told(found) == [("version-hint", "version-hint.text", what, proof)]
    assert (found.hint, found.is_ahead, version(found)) == (b"4", is_ahead, 4)
    before = contents(table)
    restore(context_of(table.directory), found, BOTH)
    assert contents(table) == before | {"version-hint.text": b"4"}


def test_no_hint_is_right_too(table):
    hint(table).unlink()
    assert find(context_of(table.directory)).fixes == ()


def test_the_hint_beside_files_of_a_catalog_is_no_concern(table):
    hint(table, "9")
    file_of(table, 4).rename(file_of(table, 4).with_name(CATALOG_FILE))
    assert find(context_of(table.directory)).fixes == ()


# -- what is done about it ----------------------------------------------------------------------


def test_a_broken_file_is_moved_aside_with_its_check_sum_and_the_hint_follows(table):
    path = cut(table)
    for name in (f".{path.name}.crc", ".version-hint.text.crc", ".v3.metadata.json.crc"):
        (path.parent / name).write_bytes(b"crc")
    before = contents(table)
    context = context_of(table.directory)
    found = find(context)
    restore(context, found, BOTH)
    stored = before.pop(path.name)
    del before[f".{path.name}.crc"], before[".version-hint.text.crc"]
    aside = Path(str(found.aside)).name
    assert contents(table) == before | {aside: stored, "version-hint.text": b"3"}


@pytest.mark.parametrize("kinds", [frozenset[str](), frozenset({"statistics"})])
def test_what_was_not_chosen_is_left(table, kinds):
    cut(table)
    before = contents(table)
    context = context_of(table.directory)
    restore(context, find(context), kinds)
    assert contents(table) == before


def test_where_nothing_is_broken_nothing_is_done(table):
    before = contents(table)
    context = context_of(table.directory)
    restore(context, find(context), BOTH)
    assert contents(table) == before


def test_each_is_done_without_the_other(table):
    path = cut(table)
    context = context_of(table.directory)
    restore(context, find(context), frozenset({"metadata-file"}))
    assert not path.exists()
    assert hint(table).read_text() == "4"
    restore(context, find(context), frozenset({"version-hint"}))
    assert hint(table).read_text() == "3"


def finish(table: TableBuilder) -> None:
    """The writer finishes its file after all."""
    file_of(table, 4).write_bytes(file_of(table, 3).read_bytes())


def commit_next(table: TableBuilder) -> None:
    file_of(table, 5).write_bytes(file_of(table, 3).read_bytes())


def remove(table: TableBuilder) -> None:
    file_of(table, 4).unlink()


@pytest.mark.parametrize("meanwhile", [finish, commit_next, remove])
def test_a_file_is_moved_aside_only_as_it_was_seen_and_while_it_is_the_newest(table, meanwhile):
    cut(table)
    context = context_of(table.directory)
    found = find(context)
    meanwhile(table)
    before = contents(table)
    with pytest.raises(CommitConflict, match="changed since then, or there is a newer file"):
        restore(context, found, BOTH)
    assert contents(table) == before


def test_r163_a_hint_is_not_set_back_behind_a_commit_that_came_meanwhile(table):
    hint(table, "1")
    context = context_of(table.directory)
    found = find(context)
    table.append([12])
    before = contents(table)
    assert before["version-hint.text"] == b"5"
    with pytest.raises(CommitConflict, match=r"v5\.metadata\.json was committed by another writer"):
        restore(context, found, BOTH)
    assert contents(table) == before


class Stuck(WrappedStore):
    """A store that removes nothing."""

    def remove(self, removed):
        return [FailedRemoval(location, "denied") for location in removed]


def test_a_file_that_cannot_be_removed_stays_with_its_copy(table):
    path = cut(table)
    context = context_of(table.directory, Stuck(LocalStore()))
    found = find(context)
    with pytest.raises(StorageError, match=f"`{path}` stays, with a copy beside it: denied"):
        restore(context, found, BOTH)
    assert Path(str(found.aside)).read_bytes() == path.read_bytes()
    assert hint(table).read_text() == "4"
