"""What has gone wrong with other tools, done with icectl: tests/README.md lists which is where."""

import json
import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from icectl.commands.expire_snapshots.run import execute, prepare
from icectl.errors import Refused, StorageError
from icectl.format.manifest import Status
from icectl.storage.local.store import LocalStore
from icectl.storage.store import FailedRemoval
from tests.builders.expiry import aged_table, context_of, expire, has_work, options_of, reachable
from tests.builders.rows import Row, current_metadata, read_metadata, read_rows
from tests.builders.table_builder import TableBuilder, filled_table
from tests.fault.changing import Subject, run, subject_of, unneeded
from tests.stores.wrapped import WrappedStore

VERSIONS = pytest.mark.parametrize("version", [1, 2, 3])


def rows_of(table: TableBuilder) -> dict[int, list[Row]]:
    metadata = read_metadata(current_metadata(table.directory))
    ids = [snapshot["snapshot-id"] for snapshot in metadata["snapshots"]]
    return {id_: read_rows(metadata, id_) for id_ in ids}


def expired(table: TableBuilder, *options: str) -> dict[int, list[Row]]:
    """Expire; what is left shows the rows that it showed, and needs all that is left."""
    before = rows_of(table)
    code, document = run(["expire-snapshots", table.location, *options, "--yes", "--json"])
    assert (code, document["status"]) == (0, "done"), document
    after = rows_of(table)
    assert after == {id_: before[id_] for id_ in after}
    left = {
        str(path.relative_to(table.directory))
        for path in table.directory.rglob("*")
        if path.is_file() and not path.name.startswith(("v", "version-hint"))
    }
    assert left == reachable(table.directory)
    return after


@VERSIONS
def test_incident_3_refs_that_go_with_the_expiry_take_no_live_file_along(tmp_path, version):
    """Several refs before, one after: a tool then trusted history, and deleted live files."""
    table = filled_table(tmp_path / "t", range(5), format_version=version)
    table.ref("old", "branch", max_ref_age_ms=1)
    table.ref("older", "tag", max_ref_age_ms=1)
    side = table.append(range(100, 105), branch="old")
    table.append(range(5, 10))
    head = table.append(range(10, 15))
    after = expired(table, "--older-than", "0s")
    assert set(after) == {head}
    assert side not in after
    assert len(after[head]) == 15


@VERSIONS
def test_incident_4_an_older_snapshot_stays_whole_when_a_middle_one_goes(tmp_path, version):
    table = TableBuilder(tmp_path / "t", format_version=version)
    first = table.append(range(6), files=3)
    middle = table.remove_data_files(2)
    head = table.append(range(6, 9))
    after = expired(table, "--snapshot-id", str(middle))
    assert {id_: len(rows) for id_, rows in after.items()} == {first: 6, head: 5}


@VERSIONS
def test_incident_5_a_file_that_was_removed_and_added_again_stays(tmp_path, version):
    """The snapshot that goes holds a DELETED entry of a file that is live again."""
    table = filled_table(tmp_path / "t", range(4), format_version=version)
    (entry,) = table.live()
    table.append(range(4, 8))
    gone = {(entry["location"], entry["content_offset"])}
    table._commit("main", "delete", set(range(4, 8)), removed=gone)
    unset = dict.fromkeys(("snapshot_id", "sequence_number", "file_sequence_number"))
    again = {**entry, **unset, "first_row_id": None, "status": int(Status.ADDED)}
    head = table._commit("main", "append", range(8), added=[again])
    after = expired(table, "--older-than", "0s", "--retain-last", "1")
    assert {id_: len(rows) for id_, rows in after.items()} == {head: 8}
    assert Path(entry["location"]).exists()


@VERSIONS
def test_incident_15_statistics_of_what_stays_stay(tmp_path, version):
    """Both kinds, of the head and of a snapshot that goes."""
    table = TableBuilder(tmp_path / "t", format_version=version)
    gone, head = table.append(range(3)), table.append(range(3, 6))
    path = current_metadata(table.directory)
    members = read_metadata(path)
    described = {
        member: [
            {
                "snapshot-id": id_,
                "statistics-path": f"{table.location}/metadata/{member}-{id_}.puffin",
                "file-size-in-bytes": 5,
                "file-footer-size-in-bytes": 1,
                "blob-metadata": [],
            }
            for id_ in (gone, head)
        ]
        for member in ("statistics", "partition-statistics")
    }
    path.write_text(json.dumps({**members, **described}))
    for items in described.values():
        for item in items:
            Path(str(item["statistics-path"])).write_bytes(b"stats")
    expired(table, "--older-than", "0s", "--retain-last", "1")
    assert {file.name for file in table.directory.rglob("*.puffin")} == {
        f"statistics-{head}.puffin",
        f"partition-statistics-{head}.puffin",
    }


def test_incident_17_expiries_in_threads_keep_to_their_own_tables(tmp_path):
    tables = [
        aged_table(tmp_path / str(number), format_version=1 + number % 3) for number in range(6)
    ]
    expiries = [context_of(aged.table.location) for aged in tables]
    prepared = [prepare(expiry, options_of()) for expiry in expiries]
    barrier = threading.Barrier(len(tables))

    def expire_one(number: int) -> None:
        barrier.wait()
        execute(expiries[number], prepared[number])

    threads = [threading.Thread(target=expire_one, args=(number,)) for number in range(len(tables))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for aged in tables:
        aged.check_readable()
        assert len(read_metadata(current_metadata(aged.directory))["snapshots"]) == 2
        assert not has_work(aged.table.location)


def test_incident_17_a_plan_is_not_committed_to_another_table(tmp_path):
    """Another table is in the place of the first when the plan comes to be committed."""
    aged = aged_table(tmp_path)
    expiry = context_of(aged.table.location)
    prepared = prepare(expiry, options_of())
    path = current_metadata(aged.directory)
    other = {**read_metadata(path), "table-uuid": "00000000-0000-4000-8000-000000000001"}
    path.write_text(json.dumps(other))
    before = aged.content()
    with pytest.raises(Refused, match="another table"):
        execute(expiry, prepared)
    assert aged.content() == before


class DenyingStore(WrappedStore):
    """Every deletion but that of the probe and of journals is denied."""

    def remove(self, removed: Iterable[str]) -> Sequence[FailedRemoval]:
        every = list(removed)
        if all("icectl-" in place for place in every):
            return super().remove(every)
        return [FailedRemoval(place, "403 Forbidden") for place in every]


def test_incident_19_and_rule_35_denied_deletions_are_told_and_finished_later(tmp_path):
    subject = subject_of("expire-v2", tmp_path)
    before = {name for name in subject.files() if not name.startswith("metadata/v")}
    code, document = subject.run(DenyingStore(LocalStore()))
    found = document["result"]
    assert (code, document["exit"], document["status"]) == (3, 3, "incomplete")
    assert (found["files"], sum(found["deleted"].values()), found["deleted_bytes"]) == ([], 0, 0)
    assert {item["error"] for item in found["failed"]} == {"403 Forbidden"}
    assert len(found["failed"]) == 13
    assert before <= subject.files()
    subject.check_whole()
    code, document = subject.run()
    assert {item["path"] for item in document["result"]["files"]} == {
        item["path"] for item in found["failed"]
    }
    subject.finish()


class FullStore(DenyingStore):
    """A DenyingStore that has room for one journal."""

    journals = 0

    def create(self, location: str, content: bytes) -> None:
        self.journals += "icectl-expire-snapshots-" in location
        if self.journals > 1:
            raise StorageError("no room is left")
        super().create(location, content)


def test_the_journal_of_all_files_stays_if_none_of_those_that_remain_can_be_written(tmp_path):
    subject = subject_of("expire-v2", tmp_path)
    store = FullStore(LocalStore())
    code, document = subject.run(store)
    assert (code, len(document["result"]["failed"]), store.journals > 1) == (3, 13, True)
    assert sum("icectl-expire-snapshots-" in name for name in subject.files()) == 1
    code, document = subject.run()
    assert (code, len(document["result"]["files"])) == (0, 13)
    subject.finish()


class MetStore(WrappedStore):
    """Another writer is faster, just before the first metadata file is created."""

    def __init__(self, other: Callable[[], object]) -> None:
        super().__init__(LocalStore())
        self.other: Callable[[], object] | None = other

    def call(self, method: str, location: str, action: Callable[[], Any]) -> Any:
        if method == "create" and location.endswith(".metadata.json") and self.other:
            other, self.other = self.other, None
            other()
        return action()


@pytest.mark.parametrize("other", ["append", "remove"])
def test_rules_2_and_5_a_losing_attempt_is_made_anew_and_only_its_files_go(tmp_path, other):
    """The rewrite is planned on what another writer has changed since then, or changed again."""
    table = TableBuilder(tmp_path / "t", partitioning="identity")
    for start in range(0, 24, 6):
        table.append(range(start, start + 6))
    actions = {
        "append": lambda: table.append(range(24, 30)),
        "remove": lambda: table.remove_data_files(3),
    }
    words = ["rewrite-manifests", table.location, "--yes", "--json"]
    code, document = run(words, MetStore(actions[other]))
    assert (code, document["status"]) == (0, "done"), document
    metadata = read_metadata(current_metadata(table.directory))
    assert {dict(row)["id"] for row in read_rows(metadata)} == table.ids()
    assert rows_of(table).keys() == set(table.ids_of) | {metadata["current-snapshot-id"]}
    subject = Subject(None, table.directory, table.directory, {})  # type: ignore[arg-type]
    assert unneeded(subject) == set()


@VERSIONS
def test_rules_30_and_31_what_is_left_at_any_time_describes_what_is_left(tmp_path, version):
    """The commit comes first; then no manifest goes before its files, no list before manifests."""
    aged = aged_table(tmp_path, format_version=version)
    order: list[str] = []

    class Watching(WrappedStore):
        def call(self, method: str, location: str, action: Callable[[], Any]) -> Any:
            if method == "create" and location.endswith(".metadata.json"):
                order.append("commit")
            if method == "remove":
                order.extend(kind_of(place) for place in location.split() if place)
            return action()

    def kind_of(place: str) -> str:
        name = place.rpartition("/")[2]
        if "/data/" in place:
            return "content"
        return (
            "other"
            if ".icectl" in name or not name.endswith(".avro")
            else ("list" if "-snap-" in name else "manifest")
        )

    expire(aged.table.location, Watching(LocalStore()))
    told = [kind for kind in order if kind != "other"]
    assert told[0] == "commit"
    ranks = [["commit", "content", "manifest", "list"].index(kind) for kind in told]
    assert ranks == sorted(ranks)
    assert {"content", "manifest", "list"} <= set(told)
