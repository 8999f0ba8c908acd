"""Orphans of a plan, looked at once more: those that are still as they were go, and no others."""

import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any
from weakref import ref

import pyarrow as pa
import pytest

from icectl.catalog.files import FileSystemCatalog
from icectl.commands.remove_orphans import deletion as orphan_deletion
from icectl.commands.remove_orphans.deletion import OrphansGone, execute
from icectl.commands.remove_orphans.quarantine import Quarantine, plain
from icectl.commands.remove_orphans.search import OrphanOptions, PreparedRemoval, prepare
from icectl.entries.files import ListedFiles
from icectl.env import Deadline
from icectl.errors import CommitConflict, Incomplete, Refused, StorageError
from icectl.rows.orphan_search import LocalListing, LocalOrphanSearch
from icectl.storage import spill
from icectl.storage.local.store import LocalStore
from icectl.storage.many_files import each_file
from icectl.storage.store import FailedRemoval, FileStatus, Store
from icectl.table.context import TableContext
from icectl.table.known_locations import KnownLocations
from tests.builders.expiry import NOW_MS, Clock
from tests.builders.orphans import DAY_SECONDS, OTHER_UUID, age, edit_metadata, stray
from tests.builders.table_builder import TableBuilder, filled_table
from tests.stores.fixed_env import FixedEnv
from tests.stores.wrapped import WrappedStore
from tests.unit.commit.test_deletion_journal import Warnings


@pytest.fixture
def table(tmp_path: Path) -> TableBuilder:
    built = filled_table(tmp_path / "wh" / "t", range(4))
    age(built.directory, 7)
    return built


class Removal:
    """A plan to remove all orphans of a table, and its execution."""

    def __init__(self, table: TableBuilder, store: Store | None = None, **chosen: Any) -> None:
        self.table = table
        self.env = Clock(NOW_MS)
        self.progress = Warnings()
        self.deadline = Deadline(self.env, chosen.pop("ends_at", None))
        self.prepared = self.means(chosen.pop("planned_with", LocalStore())).prepared(**chosen)
        self.means(store or LocalStore())

    def means(self, store: Store) -> "Removal":
        self.context = TableContext(
            store=store,
            catalog=FileSystemCatalog(store, self.table.location, self.env),
            env=self.env,
            progress=self.progress,
            deadline=self.deadline,
            concurrency=1,
        )
        self.search = LocalOrphanSearch(store.list, self.progress, self.deadline)
        return self

    def prepared(self, **chosen: Any) -> PreparedRemoval:
        older_than = NOW_MS - 3 * DAY_SECONDS * 1000
        options = OrphanOptions(older_than=lambda _: older_than, max_fraction=1.0, **chosen)
        return prepare(self.context, self.search, options)

    def done(self) -> OrphansGone:
        return execute(self.context, self.prepared)


def names(done: OrphansGone) -> list[str]:
    return [Path(file.location).name for file in each_file(done.removed)]


def spared(done: OrphansGone) -> dict[str, int]:
    return {why: count for why, count in done.spared.items() if count}


def touch(path: Path, seconds: float) -> None:
    modified = path.stat().st_mtime + seconds
    os.utime(path, (modified, modified))


def test_what_is_as_it_was_goes(table):
    lost = [stray(table.directory, f"data/lost-{at}.parquet") for at in range(2)]
    done = Removal(table).done()
    assert names(done) == ["lost-0.parquet", "lost-1.parquet"]
    assert not any(path.exists() for path in lost)
    assert (done.failed, spared(done), done.stopped) == ([], {}, False)
    assert done.quarantine is None


def test_one_set_of_all_files_is_in_memory_at_a_time(table, monkeypatch):
    listed, compared = [], []

    def files(listing: LocalListing) -> KnownLocations:
        found = whole(listing)
        listed.append(ref(found))
        return found

    def unreached(listing: LocalListing, *given: Any) -> Iterator[pa.RecordBatch]:
        compared.append(listed[0]())
        return comparing(listing, *given)

    whole, comparing = LocalListing.files, LocalListing.unreached
    monkeypatch.setattr(LocalListing, "files", files)
    monkeypatch.setattr(LocalListing, "unreached", unreached)
    stray(table.directory, "data/lost.parquet")
    assert names(Removal(table).done()) == ["lost.parquet"]
    assert compared == [None]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda path: path.unlink(), "gone"),
        (lambda path: (path.write_bytes(b"." * 101), age(path, 7)), "changed"),
        (lambda path: touch(path, 2), "changed"),
        (lambda path: touch(path, -2), "changed"),
        (lambda path: touch(path, 0.4), None),
    ],
    ids=["gone", "another size", "newer", "older", "rounded"],
)
def test_what_has_changed_since_the_plan_stays(table, change, why):
    lost = stray(table.directory, "data/lost.parquet")
    other = stray(table.directory, "data/other.parquet")
    os.utime(lost, (NOW_MS // 1000 - 7 * DAY_SECONDS,) * 2)
    removal = Removal(table)
    change(lost)
    done = removal.done()
    assert names(done) == (["lost.parquet"] if why is None else []) + ["other.parquet"]
    assert spared(done) == ({} if why is None else {why: 1})
    assert lost.exists() == (why == "changed")
    assert not other.exists()


def test_a_file_whose_time_is_not_told_stays(table):
    class Timeless(WrappedStore):
        def stat(self, location: str) -> FileStatus | None:
            found = self.store.stat(location)
            return None if found is None else FileStatus(location, found.size_bytes, None)

    lost = stray(table.directory, "data/lost.parquet")
    done = Removal(table, Timeless(LocalStore())).done()
    assert (names(done), spared(done), lost.exists()) == ([], {"changed": 1}, True)


def test_a_check_sum_stays_where_its_file_does(table):
    sums = [stray(table.directory, f"data/.{name}.parquet.crc", size=12) for name in "ab"]
    own = [stray(table.directory, f"data/{name}.parquet") for name in "ab"]
    removal = Removal(table)
    own[0].write_bytes(b"written anew")
    done = removal.done()
    assert names(done) == ["b.parquet", ".b.parquet.crc"]
    assert spared(done) == {"changed": 1, "with_its_file": 1}
    assert [path.exists() for path in (*sums, *own)] == [True, False, True, False]


def test_a_file_that_cannot_be_looked_at_is_told_and_the_rest_goes(table):
    class Denying(WrappedStore):
        def stat(self, location: str) -> FileStatus | None:
            if location.endswith("lost-0.parquet"):
                raise StorageError("denied")
            return self.store.stat(location)

    for at in range(2):
        stray(table.directory, f"data/lost-{at}.parquet")
    done = Removal(table, Denying(LocalStore())).done()
    assert names(done) == ["lost-1.parquet"]
    ((location, why),) = [(item.location, item.error) for item in done.failed]
    assert (Path(location).name, why) == ("lost-0.parquet", "denied")
    assert spared(done) == {}


def test_r157_what_the_newest_metadata_refers_to_stays(table, tmp_path):
    stray(table.directory, "data/lost.parquet")
    table.append(range(4, 8))
    newest = table.directory / "metadata" / Path(table.metadata_location).name
    age(table.directory, 7)
    shutil.move(newest, tmp_path / newest.name)
    (table.directory / "metadata" / "version-hint.text").unlink()
    removal = Removal(table)
    assert removal.prepared.plan.deletable_count == 4  # a data file, its manifest and its list
    shutil.move(tmp_path / newest.name, newest)
    done = removal.done()
    assert (names(done), spared(done)) == (["lost.parquet"], {"referenced": 3})


@pytest.fixture
def one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each file is a batch."""
    monkeypatch.setattr(orphan_deletion, "BATCH", 1)


class Hooked(WrappedStore):
    """Does something after so many files were removed."""

    def __init__(self, count: int, hook: Callable[[], object]) -> None:
        super().__init__(LocalStore())
        self.count, self.hook = count, hook

    def call(self, method: str, location: str, action: Callable[[], Any]) -> Any:
        done = action()
        if method == "remove":
            self.count -= 1
            if not self.count:
                self.hook()
        return done


def test_a_table_that_is_another_one_by_now_keeps_everything(table):
    lost = stray(table.directory, "data/lost.parquet")
    removal = Removal(table)
    edit_metadata(table.directory, table_uuid=OTHER_UUID)
    with pytest.raises(Refused, match="now belongs to another table"):
        removal.done()
    assert lost.exists()


def test_a_table_that_becomes_another_one_ends_the_run(table, one_by_one):
    lost = [stray(table.directory, f"data/lost-{at}.parquet") for at in range(3)]
    hook = lambda: edit_metadata(table.directory, table_uuid=OTHER_UUID)  # noqa: E731
    removal = Removal(table, Hooked(2, hook))
    done = removal.done()
    assert (names(done), done.stopped) == (["lost-0.parquet", "lost-1.parquet"], True)
    (told,) = removal.progress.told
    assert told.startswith("nothing more is deleted: ")
    assert "now belongs to another table" in told
    assert [path.exists() for path in lost] == [False, False, True]


def test_a_commit_meanwhile_is_read_once(table, one_by_one):
    class Reading(Hooked):
        seen: list[str] = []  # noqa: RUF012 - one store a test

        def call(self, method: str, location: str, action: Callable[[], Any]) -> Any:
            if method in ("read", "open", "read_range"):
                self.seen.append(Path(location).name)
            return super().call(method, location, action)

    for at in range(4):
        stray(table.directory, f"data/lost-{at}.parquet")
    store = Reading(1, lambda: table.append(range(4, 8)))
    assert len(names(Removal(table, store, planned_with=store).done())) == 4
    newest = table.metadata.current_snapshot
    assert newest is not None
    assert newest.manifest_list is not None
    assert store.seen.count(Path(newest.manifest_list).name) == 1


def test_at_the_time_limit_it_stops_between_batches(table, one_by_one):
    lost = [stray(table.directory, f"data/lost-{at}.parquet") for at in range(3)]
    env_seconds: list[float] = []
    removal = Removal(table, ends_at=10.0)
    removal.means(Hooked(2, lambda: env_seconds.append(removal.env.sleep(20) or 0)))
    done = removal.done()
    assert (names(done), done.stopped) == (["lost-0.parquet", "lost-1.parquet"], True)
    assert [path.exists() for path in lost] == [False, False, True]
    with pytest.raises(Incomplete):
        removal.done()


def test_moved_files_are_those_whose_copies_are_whole(table, tmp_path):
    class Shortening(WrappedStore):
        def copy(self, source: str, target: str) -> None:
            if source.endswith("lost-1.parquet"):
                Path(source).unlink()
            self.store.copy(source, target)
            if source.endswith("lost-0.parquet"):
                Path(target).write_bytes(b".")

    lost = [stray(table.directory, f"data/lost-{at}.parquet") for at in range(3)]
    away = str(tmp_path / "away")
    done = Removal(table, Shortening(LocalStore()), quarantine=away).done()
    assert names(done) == ["lost-2.parquet"]
    assert [(Path(one.location).name, one.error) for one in done.failed] == [
        ("lost-0.parquet", "its copy has another size")
    ]
    assert spared(done) == {"gone": 1}
    assert [path.exists() for path in lost] == [True, False, False]
    assert done.quarantine is not None
    (kept,) = Path(away).rglob("lost-2.parquet")
    assert kept.read_bytes() == b"." * 100


def test_nothing_goes_while_another_writer_commits(table):
    """Its metadata file waits for the name of a version: what it refers to, nobody has read yet."""
    lost = stray(table.directory, "data/lost.parquet")
    removal = Removal(table)
    newest = table.directory / "metadata" / "v2.metadata.json"
    waiting = newest.with_name(f"{OTHER_UUID}.metadata.json")
    shutil.copyfile(newest, waiting)
    os.utime(waiting, (NOW_MS / 1000, NOW_MS / 1000))
    with pytest.raises(CommitConflict, match="in the middle of a commit"):
        removal.done()
    assert lost.exists()


def test_an_error_ends_it_though_it_may_be_the_only_one(table, one_by_one):
    class Faltering(WrappedStore):
        fails = False

        def call(self, method: str, location: str, action: Callable[[], Any]) -> Any:
            if method == "read" and self.fails:
                self.fails = False
                raise StorageError("for once")
            self.fails |= method == "remove"
            return action()

    lost = [stray(table.directory, f"data/lost-{at}.parquet") for at in range(3)]
    done = Removal(table, Faltering(LocalStore())).done()
    assert (names(done), done.stopped) == (["lost-0.parquet"], True)
    assert [path.exists() for path in lost] == [False, True, True]


def test_what_went_is_told_where_its_list_has_no_room_on_disk(table, one_by_one, monkeypatch):
    lost = [stray(table.directory, f"data/lost-{at}.parquet") for at in range(3)]
    removal = Removal(table)
    monkeypatch.setattr(tempfile, "tempdir", f"{table.directory}/gone")
    monkeypatch.setattr(spill, "_WAITING_BYTES", 1)
    done = removal.done()
    assert [path.exists() for path in lost] == [False, True, True]
    assert (names(done), len(done.removed), done.stopped) == (["lost-0.parquet"], 1, True)
    (warning,) = removal.progress.told
    assert warning.startswith("nothing more is deleted: cannot write a temporary file in ")


def test_what_cannot_be_deleted_is_told_and_is_not_among_what_was(table):
    class Keeping(WrappedStore):
        def remove(self, removed: Iterable[str]) -> Sequence[FailedRemoval]:
            every = list(removed)
            self.store.remove(every[1:])
            return [FailedRemoval(every[0], "denied")]

    for at in range(2):
        stray(table.directory, f"data/lost-{at}.parquet")
    done = Removal(table, Keeping(LocalStore())).done()
    assert names(done) == ["lost-1.parquet"]
    assert [(Path(item.location).name, item.error) for item in done.failed] == [
        ("lost-0.parquet", "denied")
    ]


def test_progress_is_told_of_all_files(table, one_by_one):
    stray(table.directory, "data/.a.parquet.crc")
    for name in "abc":
        stray(table.directory, f"data/{name}.parquet")
    removal = Removal(table)
    told: list[object] = []
    removal.progress.phase = lambda name, *, total=None, unit="count": told.append((name, total))  # type: ignore[method-assign]
    removal.progress.advance = told.append  # type: ignore[method-assign]
    removal.done()
    assert told == [("deleting files", 4), 1, 1, 1, 1]


def test_a_list_beside_moved_files_says_where_each_was_and_is(table, tmp_path, one_by_one):
    lost = [stray(table.directory, f"data/lost-{at}.parquet") for at in range(2)]
    removal = Removal(table, quarantine=f"file://{tmp_path}/away")
    removal.context = replace(removal.context, env=Clock(NOW_MS + 789))
    done = removal.done()
    (folder,) = (tmp_path / "away").iterdir()
    assert re.fullmatch(r"t-20250616T150640Z-[0-9a-f]{8}", folder.name)
    assert done.quarantine is not None
    lists = [folder / f"moved-0000{number}.jsonl" for number in (1, 2)]
    assert [Path(plain(one)) for one in done.quarantine.lists] == lists
    for path, listed in zip(lost, lists, strict=True):
        (line,) = map(json.loads, listed.read_text().splitlines())
        target = folder / "files" / "data" / path.name
        assert target.read_bytes() == b"." * 100
        modified = datetime.fromisoformat(line.pop("modified"))
        assert modified.timestamp() == NOW_MS // 1000 - 7 * DAY_SECONDS
        assert line == {"from": str(path), "to": str(target), "size_bytes": 100}


class Copying(WrappedStore):
    """Takes lists and copies, and answers of every copy the same."""

    def __init__(self, answer: FileStatus | StorageError | None) -> None:
        super().__init__(LocalStore())
        self.answer = answer
        self.lines: list[dict[str, Any]] = []
        self.copies: list[dict[str, Any]] = []

    def create(self, location: str, content: bytes) -> None:
        lines = self.copies if "copied-" in location else self.lines
        lines += map(json.loads, content.splitlines())

    def copy(self, source: str, target: str) -> None:
        """Take it as done."""

    def stat(self, location: str) -> FileStatus | None:
        if isinstance(self.answer, StorageError):
            raise self.answer
        return self.answer


ORPHANS = ListedFiles(
    pa.table(
        {
            "location": ["s3a://b/t/data/a", "s3a://c/u/b"],
            "size_bytes": [100, 100],
            "modified_ms": pa.array([None, NOW_MS], pa.int64()),
        }
    )
)


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (FileStatus("", 100, None), None),
        (FileStatus("", 100, NOW_MS + 789), None),
        (FileStatus("", 99, None), "its copy has another size"),
        (None, "its copy has another size"),
        (StorageError("denied"), "denied"),
    ],
)
def test_a_file_is_moved_where_its_copy_is_seen_to_be_whole(answer, problem):
    store = Copying(answer)
    made = Quarantine(store, FixedEnv(), "s3a://q/run", "s3a://b/t", OTHER_UUID, 1, [])
    missing, failed = made.copy(ORPHANS)
    assert missing == []
    assert [one.error for one in failed] == ([] if problem is None else [problem] * 2)
    assert store.lines == [
        {
            "from": "s3://b/t/data/a", "to": "s3://q/run/files/data/a", "size_bytes": 100,
            "modified": None,
        },
        {
            "from": "s3://c/u/b", "to": "s3://q/run/files-outside/u/b", "size_bytes": 100,
            "modified": "2025-06-16T15:06:40Z",
        },
    ]  # fmt: skip
    has_time = isinstance(answer, FileStatus) and answer.modified_ms is not None
    modified = "2025-06-16T15:06:40.789Z" if has_time else None
    facts = {"size_bytes": 100, "modified": modified, "table_uuid": OTHER_UUID}
    places = [] if problem else ["s3://q/run/files/data/a", "s3://q/run/files-outside/u/b"]
    assert store.copies == [{"path": place, **facts} for place in places]
