"""Links in a table's folders: nothing is deleted, moved or rewritten through them."""

import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from icectl.errors import StorageError
from icectl.storage.local.folders import OpenFolder, Roots
from icectl.storage.local.store import LocalStore, write_to
from icectl.storage.store import FailedRemoval
from tests.builders.expiry import aged_table, context_of, options_of
from tests.builders.expiry import execute as execute_expiry
from tests.builders.expiry import prepare as prepare_expiry
from tests.builders.orphans import age, stray
from tests.builders.rows import current_metadata
from tests.builders.table_builder import TableBuilder, filled_table
from tests.fault.changing import run

EXPIRE = ("--older-than", "0s", "--yes", "--json")
ORPHANS = ("--max-fraction", "1", "--yes", "--json")
PARTITION = "data/category=c0"
SECRET = "-----BEGIN KEY----- c2VjcmV0"


@pytest.fixture
def others(tmp_path: Path) -> Path:
    return tmp_path / "team-b"


def swap(folder: Path, others: Path) -> set[str]:
    """Put a link to another team's folder, with files of the same names, in a folder's place."""
    folder.rename(others)
    folder.symlink_to(others, target_is_directory=True)
    return set(others.iterdir())


class SwappingStore(LocalStore):
    """A store in which a folder becomes a link right before files of it are deleted."""

    __slots__ = ("swap",)
    swap: Callable[[], object]

    def remove(self, removed: Iterable[str]) -> Sequence[FailedRemoval]:
        every = list(removed)
        if any("/data/" in location for location in every):
            self.swap()
        return LocalStore.remove(self, every)


def swapping(action: Callable[[], object]) -> SwappingStore:
    store = SwappingStore()
    object.__setattr__(store, "swap", action)
    return store


def once(action: Callable[[], object]) -> Callable[[], object]:
    left = [action]
    return lambda: left.pop()() if left else None


def test_expiry_leaves_files_behind_a_link_and_names_them(aged, others, capsys):
    before = swap(aged.directory / PARTITION, others)
    code, document = run(["expire-snapshots", str(aged.directory), *EXPIRE])
    assert code == 0, document
    assert set(others.iterdir()) == before != set()
    left = {Path(item["path"]) for item in document["result"]["outside"]}
    assert {path.parent for path in left} == {aged.directory / PARTITION}
    assert document["result"]["deleted"]["data_files"] > 0  # of the other partitions
    said = capsys.readouterr().err
    assert f"{len(left)} file" in said
    assert "behind a link" in said
    aged.check_readable()


def test_expiry_after_the_question(aged, others):
    context = context_of(aged.directory)
    prepared = prepare_expiry(context, options_of())
    before = swap(aged.directory / PARTITION, others)
    done = execute_expiry(context, prepared)
    assert set(others.iterdir()) == before
    assert {Path(item.location).parent for item in done.removal.failed} == {
        aged.directory / PARTITION
    }
    assert all("behind a link" in item.error for item in done.removal.failed)


def test_orphans_whose_folder_becomes_a_link_before_they_go(tmp_path, others):
    table = filled_table(tmp_path / "t", range(6))
    age(table.directory, 7)
    stray(table.directory, "data/x/lost.parquet")
    action = once(lambda: swap(table.directory / "data/x", others))
    code, document = run(["remove-orphans", str(table.directory), *ORPHANS], swapping(action))
    assert (others / "lost.parquet").exists()
    assert (code, document["result"]["removed"]) == (3, 0)


@pytest.mark.parametrize("becomes", ["before", "meanwhile"])
def test_orphans_that_an_inventory_names_behind_a_link(tmp_path, others, becomes):
    table = filled_table(tmp_path / "t", range(6))
    stray(table.directory, "data/x/lost.parquet")
    age(table.directory, 7)
    inventory = tmp_path / "files.csv"
    lost = table.directory / "data/x/lost.parquet"
    modified = datetime.fromtimestamp(lost.stat().st_mtime, UTC).isoformat(timespec="milliseconds")
    inventory.write_text(
        f"location,size,last_modified\nfile://{lost},{lost.stat().st_size},{modified}\n"
    )
    action = once(lambda: swap(table.directory / "data/x", others))
    if becomes == "before":
        action()
    words = ["remove-orphans", str(table.directory), *ORPHANS, "--inventory", str(inventory)]
    code, document = run(words, swapping(action))
    assert (others / "lost.parquet").exists()
    assert (code, document["result"]["removed"]) == (3, 0)


def test_orphans_that_are_moved_to_a_quarantine(tmp_path, others):
    table = filled_table(tmp_path / "t", range(6))
    age(table.directory, 7)
    stray(table.directory, "data/x/lost.parquet")

    class Store(LocalStore):
        __slots__ = ()

        def copy(self, source: str, target: str) -> None:
            swap(table.directory / "data/x", others)
            LocalStore.copy(self, source, target)

    quarantine = tmp_path / "away"
    words = ["remove-orphans", str(table.directory), *ORPHANS, "--quarantine", str(quarantine)]
    code, _ = run(words, Store())
    assert code == 3
    assert (others / "lost.parquet").exists()
    assert not list(quarantine.rglob("*.parquet"))


@pytest.mark.parametrize("command", ["expire-snapshots", "remove-orphans"])
def test_a_table_that_is_named_through_a_link_is_cleaned_up(tmp_path, command):
    (tmp_path / "disk").mkdir()
    (tmp_path / "wh").symlink_to(tmp_path / "disk", target_is_directory=True)
    aged = aged_table(tmp_path / "wh")
    age(aged.directory, 7)
    lost = stray(aged.directory, "data/lost.parquet")
    options = EXPIRE if command == "expire-snapshots" else ORPHANS
    code, document = run([command, str(aged.directory), *options])
    assert code == 0, document
    if command == "expire-snapshots":
        assert document["result"]["deleted"]["data_files"] > 0
        assert document["result"]["outside"] == []
    else:
        assert not lost.exists()
    aged.check_readable()


def test_the_way_to_a_table_is_resolved_before_the_question(tmp_path):
    """`wh` leads to one disk when the plan is made, and to another when it is carried out."""
    (tmp_path / "disk").mkdir()
    (tmp_path / "wh").symlink_to(tmp_path / "disk", target_is_directory=True)
    aged = aged_table(tmp_path / "wh")
    shutil.copytree(tmp_path / "disk", tmp_path / "other-disk")
    before = sorted(path.name for path in (tmp_path / "other-disk").rglob("*.parquet"))

    def lead_elsewhere() -> None:
        (tmp_path / "wh").unlink()
        (tmp_path / "wh").symlink_to(tmp_path / "other-disk", target_is_directory=True)

    context = context_of(aged.directory, swapping(once(lead_elsewhere)))
    execute_expiry(context, prepare_expiry(context, options_of()))
    assert sorted(path.name for path in (tmp_path / "other-disk").rglob("*.parquet")) == before


def test_a_folder_that_is_open_stays_the_one_that_it_was(tmp_path, others):
    (tmp_path / "t/data").mkdir(parents=True)
    (tmp_path / "t/data/x").write_bytes(b"mine")
    others.mkdir()
    (others / "x").write_bytes(b"theirs")
    with closing(OpenFolder(Roots())) as folders:
        folder, name = folders.of(str(tmp_path / "t/data/x"), "x")
        (tmp_path / "t/data").rename(tmp_path / "aside")
        (tmp_path / "t/data").symlink_to(others)
        os.unlink(name, dir_fd=folder)
    assert (others / "x").read_bytes() == b"theirs"
    assert not (tmp_path / "aside/x").exists()


@pytest.mark.parametrize("spelled", ["{}/t/link/x", "file://{}/t/link/x", "{}/t/data/../link/x"])
def test_no_spelling_leads_through_a_link(tmp_path, others, spelled):
    (tmp_path / "t/data").mkdir(parents=True)
    others.mkdir()
    (others / "x").write_bytes(b"theirs")
    (tmp_path / "t/link").symlink_to(others)
    store = LocalStore()
    store.roots.add(str(tmp_path / "t"))
    location = spelled.format(tmp_path)
    (failed,) = store.remove([location])
    assert failed.location == location
    assert f"behind a link, {tmp_path}/t/link," in failed.error
    with pytest.raises(StorageError, match="behind a link"):
        store.copy(location, f"{tmp_path}/t/copy")
    assert (others / "x").exists()


def test_nothing_new_is_written_behind_a_link(tmp_path, others):
    (tmp_path / "t").mkdir()
    others.mkdir()
    (tmp_path / "t/link").symlink_to(others)
    store = LocalStore()
    store.roots.add(str(tmp_path / "t"))
    for place in (f"{tmp_path}/t/link/x", f"{tmp_path}/t/link/below/x"):
        with pytest.raises(StorageError, match="behind a link"):
            store.create(place, b"new")
        with pytest.raises(StorageError, match="behind a link"):
            store.replace(place, b"new")
        with pytest.raises(StorageError, match="behind a link"), store.open_new(place):
            pass
    (tmp_path / "t/x").write_bytes(b"mine")
    with pytest.raises(StorageError, match="behind a link"):
        store.copy(f"{tmp_path}/t/x", f"{tmp_path}/t/link/x")
    assert not list(others.iterdir())
    store.create(f"{tmp_path}/t/new/folders/x", b"new")
    assert (tmp_path / "t/new/folders/x").read_bytes() == b"new"


def test_the_folder_of_a_new_file_stays_the_one_that_it_was(tmp_path, others):
    """It becomes a link while the file is written; a file of the same name waits there."""
    store = LocalStore()
    store.roots.add(str(tmp_path / "t"))
    others.mkdir()
    with store.open_new(f"{tmp_path}/t/data/x") as file:
        file.write(b"new")
        name = Path(str(file.name)).name
        (tmp_path / "t/data").rename(tmp_path / "aside")
        (tmp_path / "t/data").symlink_to(others)
        (others / name).write_bytes(b"theirs")
        with pytest.raises(OSError, match="has replaced it"):
            write_to(str(tmp_path / "t/data" / name), "x")
    assert (tmp_path / "aside/x").read_bytes() == b"new"
    assert [path.read_bytes() for path in others.iterdir()] == [b"theirs"]


def test_new_files_of_a_table_that_names_no_root_go_through_links(tmp_path):
    """Those of `write.data.path`, say, on a disk that only a link leads to."""
    (tmp_path / "disk").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "disk")
    LocalStore().create(f"{tmp_path}/link/below/x", b"new")
    assert (tmp_path / "disk/below/x").read_bytes() == b"new"


def test_compact_writes_nothing_into_a_linked_partition(tmp_path, others):
    table = filled_table(tmp_path / "t", range(6), range(6), partitioning="identity")
    folders = [path for path in (table.directory / "data").iterdir() if path.is_dir()]
    before = swap(folders[0], others)
    words = ["compact", str(table.directory), "--rewrite-all", "--engine", "local", "--yes"]
    code, document = run([*words, "--json"])
    assert code == 13, document
    assert "behind a link" in document["error"]["message"]
    assert set(others.iterdir()) == before != set()


def test_data_below_a_file_are_a_failure_of_the_storage(tmp_path):
    (tmp_path / "file").write_bytes(b"mine")
    table = TableBuilder(tmp_path / "t", properties={"write.data.path": f"{tmp_path}/file/data"})
    table.append(range(6))
    words = ["compact", str(table.directory), "--rewrite-all", "--engine", "local", "--yes"]
    code, document = run([*words, "--json"])
    assert code == 13, document
    assert (tmp_path / "file").read_bytes() == b"mine"


def test_a_link_to_a_file_goes_without_the_file(tmp_path):
    (tmp_path / "x").write_bytes(b"theirs")
    (tmp_path / "link").symlink_to(tmp_path / "x")
    assert not LocalStore().remove([str(tmp_path / "link")])
    assert (tmp_path / "x").exists()
    assert not (tmp_path / "link").is_symlink()


CHANGING = (
    ("repair", "--yes"), ("expire-snapshots", *EXPIRE), ("remove-orphans", *ORPHANS),
    ("rewrite-manifests", "--yes"), ("compact", "--rewrite-all", "--yes"),
)  # fmt: skip


@pytest.mark.parametrize("command", CHANGING, ids=lambda words: words[0])
@pytest.mark.parametrize("name", ["next", "version-hint.text", "folder"])
def test_metadata_that_are_links_are_refused(tmp_path, command, name, capsys):
    table = filled_table(tmp_path / "t", range(6))
    folder = table.directory / "metadata"
    (tmp_path / "key").write_text(SECRET)
    (tmp_path / "key").chmod(0o600)
    if name == "folder":
        folder.rename(tmp_path / "elsewhere")
        folder.symlink_to(tmp_path / "elsewhere")
    else:
        number = int(current_metadata(table.directory).name[1:].split(".")[0])
        link = folder / (f"v{number + 1}.metadata.json" if name == "next" else name)
        link.unlink(missing_ok=True)
        link.symlink_to(tmp_path / "key")
        os.utime(tmp_path / "key", (0, 0))
    before = sorted(folder.iterdir())
    words = [command[0], str(table.directory), *command[1:]]
    code, _ = run([*words, *([] if "--json" in words else ["--json"])])
    assert code in ((5, 15) if name == "next" else (5,))
    assert sorted(folder.iterdir()) == before
    assert SECRET not in capsys.readouterr().err


def test_repair_gives_a_broken_metadata_file_another_name(tmp_path):
    table = filled_table(tmp_path / "t", range(6), range(6, 12))
    newest = current_metadata(table.directory)
    newest.write_bytes(newest.read_bytes()[:-40])
    newest.chmod(0o600)
    age(table.directory, 7)
    number = newest.stat().st_ino
    code, document = run(["repair", str(table.directory), "--yes", "--json"])
    assert code == 0, document
    (aside,) = newest.parent.glob("_broken-*")
    assert (aside.stat().st_ino, aside.stat().st_mode & 0o777) == (number, 0o600)
