"""compact beside other writers: deletes are carried over, and no row comes or goes.

Only groups are dropped that others have sorted or merged, or taken half of the rows from.

The other writer commits while the manifest list of the compaction is written, so that its first try
to commit loses, and the second is made on what the other has left.
"""

import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from icectl.errors import StorageError
from icectl.format.schema import Schema
from icectl.format.types import NestedField, PrimitiveType
from icectl.storage.local.store import LocalStore
from tests.builders.commits import set_properties
from tests.builders.expiry import NOW_MS, Clock
from tests.builders.rows import head, live_entries
from tests.builders.table_builder import SCHEMA, TableBuilder, filled_table, make_rows
from tests.builders.twins import TreeTwin, Twin, grown
from tests.fault.changing import COMPACT, run
from tests.fault.writers import (
    BeforeStore,
    MeanwhileStore,
    alone,
    build,
    check_clean,
    left_over,
    paths,
    presume_dead,
    shown,
)
from tests.stores.wrapped import CountingStore, FaultyStore, WrappedStore


def compact(table: TableBuilder, store: WrappedStore | None, *options: str) -> tuple[int, Any]:
    return run([COMPACT[0], table.location, *COMPACT[1:], *options, "--yes", "--json"], store)


def ids(table: TableBuilder) -> list[int]:
    return sorted(dict(row)["id"] for row in shown(table))


Act = Callable[[TableBuilder, int], object]
CHANGES: dict[str, tuple[Act, int]] = {
    "an append": (lambda table, at: table.append(range(60 + 12 * at, 72 + 12 * at)), 0),
    "rows of a partition deleted by position": (lambda t, at: t.delete_rows([27 + at, 30]), 0),
    "rows deleted by value": (lambda t, at: t.delete_rows([3 + at, 8], kind="equality"), 0),
    "a file removed": (lambda table, at: table.remove_data_files(1), 1),
    "files of a partition merged": (lambda table, at: table.replace_data_files(2), 1),
}
"""What another writer does, and how many of three groups are dropped for doing it once."""
TWICE = {"a file removed": 2}
CARRIED = ("a file removed",)
"""What makes groups fall away in version 1 alone, which has no deletes that would come instead."""


@pytest.mark.parametrize("times", [1, pytest.param(2, marks=pytest.mark.full)])
@pytest.mark.parametrize(
    ("version", "change"),
    [
        pytest.param(version, change, marks=pytest.mark.full if (version + at) % 2 else ())
        for version in (1, 2, 3, 4)
        for at, change in enumerate(CHANGES)
    ],
)
def test_r152_rules_10_and_11_only_groups_that_another_writer_touched_are_dropped(
    tmp_path, version, change, times
):
    if version == 1 and "deleted" in change:
        pytest.skip("version 1 has no deletes")
    table = build(tmp_path / "t", version)
    act, touched = CHANGES[change]
    touched = touched if times == 1 else TWICE.get(change, touched)
    touched = 0 if version > 1 and change in CARRIED else touched
    rounds = iter(range(times))

    code, document = compact(table, MeanwhileStore(lambda: act(table, next(rounds)), times))

    assert code == (3 if touched else 0), document
    result = document["result"]
    assert [group["status"] for group in result["groups"]].count("failed") == touched
    assert len(result["failed"]) == touched
    assert ids(table) == sorted(table.ids())
    assert set(paths(table).values()) == {1}
    check_clean(table)
    assert left_over(table) == []


@pytest.mark.parametrize("method", ["merge", "rewrite"])
@pytest.mark.parametrize("version", [2, 3, 4])
def test_each_try_carries_the_deletes_that_have_come(tmp_path, version, method):
    appends = [range(start, start + 12) for start in range(0, 48, 12)]
    table = grown(tmp_path / "t", version, appends, "identity")
    rounds = iter(((3, 16, 29), (6, 17), (9, 19, 41)))
    store = MeanwhileStore(lambda: table.delete_rows(next(rounds)), 3)
    code, document = compact(table, store, "--method", method)
    assert (code, document["status"]) == (0, "done"), document
    assert document["result"]["carried_deletes"] == 8
    assert {group["method"] for group in document["result"]["groups"]} == {method}
    assert ids(table) == sorted(set(range(48)) - {3, 16, 29, 6, 17, 9, 19, 41})
    assert set(paths(table).values()) == {1}
    check_clean(table)
    assert left_over(table) == []


def test_a_merge_that_was_planned_carries_the_deletes_that_have_come(tmp_path):
    table = grown(tmp_path / "t", 3, [range(start, start + 12) for start in range(0, 48, 12)])
    place = tmp_path / "plan.json"
    code, document = compact(
        table, None, "--method", "merge", "--dry-run", "--save-plan", str(place)
    )
    assert (code, document["status"]) == (0, "planned"), document
    table.delete_rows([3, 16])
    store = MeanwhileStore(lambda: table.delete_rows([6, 29]))
    code, document = run(["apply", str(place), "--allow-newer", "--json"], store)
    assert (code, document["status"]) == (0, "done"), document
    assert [group["method"] for group in document["result"]["groups"]] == ["merge"]
    assert document["result"]["carried_deletes"] == 2
    assert ids(table) == sorted(set(range(48)) - {3, 16, 6, 29})
    check_clean(table)


def test_a_policy_merges_files_with_their_deletes(tmp_path):
    table = grown(tmp_path / "main" / "t", 3, [range(at, at + 6) for at in range(0, 48, 6)])
    table.delete_rows([6, 29])
    policy = tmp_path / "policy.toml"
    policy.write_text("steps = ['compact']\ncompact.method = 'merge'\n")
    words = ["maintain", str(tmp_path / "main"), "--policy", str(policy), "--yes", "--json"]
    code, document = run(words)
    assert (code, document["status"]) == (0, "done"), document
    assert ids(table) == sorted(set(range(48)) - {6, 29})
    live = [entry["data_file"] for entry in live_entries(head(table.directory))]
    assert sorted(file["content"] for file in live) == [0, 1]
    assert {file["record_count"] for file in live} == {48, 2}  # the rows, and those deleted
    check_clean(table)


class Overtaken:
    """A table with small files, and what it is once another writer has deleted rows of them."""

    def __init__(self, directory: Path, version: int, method: str) -> None:
        table = build(directory / "t", version)
        self.table, self.before, self.after = table, directory / "before", directory / "after"
        self.ids = {False: sorted(table.ids())}
        shutil.copytree(table.directory, self.before)
        table.delete_rows([3, 16, 17, 40])
        self.ids[True] = sorted(table.ids())
        shutil.copytree(table.directory, self.after)
        self.options = ("--concurrency", "1", *METHODS[method])

    def run(self, wrap: Callable[[WrappedStore], WrappedStore]) -> int:
        """Compact the table as it was, and delete the rows while that commits."""
        self.store = MeanwhileStore(self.delete)
        shutil.rmtree(self.table.directory)
        shutil.copytree(self.before, self.table.directory)
        return compact(self.table, wrap(self.store), *self.options)[0]

    def delete(self) -> None:
        """Commit as the other writer did."""
        for path in sorted(self.after.rglob("*")):
            to = self.table.directory / path.relative_to(self.after)
            if path.is_file() and (not to.exists() or path.name == "version-hint.text"):
                to.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(path, to)

    def check(self) -> None:
        """No row has come or gone, and another run finishes what this one has not."""
        expected = self.ids[self.store.left == 0]
        assert ids(self.table) == expected
        for _ in range(3):
            code, document = compact(self.table, None, *self.options)
            assert code == 0, document
            if document["status"] == "nothing-to-do":
                break
        assert document["status"] == "nothing-to-do"
        assert ids(self.table) == expected
        assert set(paths(self.table).values()) == {1}


METHODS = {
    "rewrite": ("--method", "rewrite"),
    "merge": ("--method", "merge", "--min-delete-ratio", "90%"),
}
FULL = pytest.mark.full


@pytest.mark.parametrize(
    ("version", "method", "failure", "stride"),
    [
        (4, "merge", "lost", 31),
        *(
            pytest.param(version, method, failure, 1, marks=FULL)
            for version in (2, 3, 4)
            for method in METHODS
            for failure in ("before", "after", "lost")
        ),
    ],
)
def test_any_store_call_may_fail_while_deletes_are_carried(
    tmp_path, version, method, failure, stride
):
    overtaken = Overtaken(tmp_path, version, method)
    counting: list[CountingStore] = []

    def count(store: WrappedStore) -> WrappedStore:
        counting.append(CountingStore(store))
        return counting[0]

    assert overtaken.run(count) == 0
    overtaken.check()
    assert left_over(overtaken.table) == []
    for nth in range(1, len(counting[0].calls) + 1, stride):
        assert overtaken.run(partial(FaultyStore, nth=nth, failure=failure)) in (0, 3, 13, 15), nth
        overtaken.check()
        check_clean(overtaken.table)


@pytest.mark.parametrize("layout", ["sfc-1", "iceberg-1.12"])
def test_v4_033_a_table_of_another_layout_meanwhile_gets_no_snapshot_of_the_old_one(
    tmp_path, layout
):
    table = build(tmp_path / "t", 4)
    assert isinstance(table, TreeTwin)
    if layout == "sfc-1":
        table.run("upgrade-to-v4", "--layout", "iceberg-1.12", "--yes")

    def convert() -> None:
        with alone():
            table.run("upgrade-to-v4", "--layout", layout, "--yes")

    code, document = compact(table, MeanwhileStore(convert))
    assert (code, document["error"]["message"]) == (
        11, "the table's layout has changed since then"
    )  # fmt: skip
    assert ids(table) == sorted(table.ids())
    check_clean(table)
    assert [name for name in left_over(table) if name.startswith("data/")] == []


def test_rule_9_without_a_group_that_holds_nothing_is_committed(tmp_path):
    table = filled_table(tmp_path / "t", range(20), files=4)
    store = MeanwhileStore(lambda: table.remove_data_files(2))
    code, document = compact(table, store)
    assert (code, document["error"]["id"]) == (11, "commit-conflict")
    assert store.lists == 1
    assert ids(table) == sorted(table.ids())
    assert left_over(table) == []


@pytest.mark.parametrize("version", [2, 3])
def test_rule_9_what_comes_takes_the_place_of_what_goes(tmp_path, version):
    table = build(tmp_path / "t", version)
    assert compact(table, None)[0] == 0
    summary = head(table.directory)["summary"]
    assert (summary["added-data-files"], summary["deleted-data-files"]) == ("3", "12")
    assert (summary["added-records"], summary["deleted-records"]) == ("45", "48")
    assert "added-delete-files" not in summary


def expire(table: TableBuilder) -> None:
    """All snapshots but the newest go, with their files."""
    words = ["expire-snapshots", table.location, "--older-than", "0s", "--retain-last", "1"]
    code, document = run([*words, "--yes", "--json"])
    assert code == 0, document


def test_rule_12_the_start_may_expire_while_its_files_are_live(tmp_path):
    """Nothing pins the snapshot that the plan was made on: what counts is what is live."""
    table = build(tmp_path / "t")

    def meanwhile() -> None:
        table.append(range(60, 72))
        expire(table)

    code, document = compact(table, MeanwhileStore(meanwhile))
    assert (code, document["status"]) == (0, "done"), document
    assert ids(table) == sorted(table.ids())
    check_clean(table)


@pytest.mark.parametrize("version", [2, 3])
def test_rule_15_deletes_go_with_the_files_that_they_meant(tmp_path, version):
    """One that names files of two groups stays while one of these is in the table."""
    table = filled_table(tmp_path / "t", range(8), files=2, format_version=version)
    table.append(range(100, 180), files=1)
    table.delete_rows([1, 5, 101])
    code, document = compact(table, None, "--target-file-size", "4KiB", "--max-file-size", "64KiB")
    assert code == 0, document
    assert ids(table) == sorted(table.ids())
    files = [entry["data_file"] for entry in live_entries(head(table.directory))]
    removed = document["result"]["removed_delete_files"]
    assert (removed, sum(1 for file in files if file["content"])) == (
        (0, 1) if version == 2 else (2, 1)
    )
    check_clean(table)


def test_rule_20_the_first_commit_that_loses_ends_the_run(tmp_path):
    table = build(tmp_path / "t", 1)
    store = MeanwhileStore(lambda: table.remove_data_files(1))
    code, document = compact(table, store, "--partial-progress", "3")
    # The first of three commits loses its group, and nothing else has landed before.
    assert code == 11, document
    assert ids(table) == sorted(table.ids())
    assert left_over(table) == []


def test_rule_20_a_budget_lets_the_others_land(tmp_path):
    table = build(tmp_path / "t", 1)
    store = MeanwhileStore(lambda: table.remove_data_files(1))
    options = ("--partial-progress", "3", "--max-failed-commits", "1")
    code, document = compact(table, store, *options)
    assert code == 3, document
    assert [group["status"] for group in document["result"]["groups"]] == ["failed", "done", "done"]
    assert len(document["result"]["snapshot_ids"]) == 2
    assert ids(table) == sorted(table.ids())
    assert left_over(table) == []


@pytest.mark.parametrize("version", [2, 3])
def test_each_step_of_a_conversion_lands_beside_upserts_that_never_stop(tmp_path, version):
    """Every step loses its first try to a writer, whose equality deletes alone are left."""
    table = Twin(tmp_path / "t", format_version=version)
    table.append(range(40))

    def upsert(*keys: int) -> None:
        table.refresh()
        table.ids_of.setdefault(table.metadata.current_snapshot_id, set(range(40)))
        table.delete_rows(keys, kind="equality")
        table.append(keys)

    for key in range(6):
        upsert(key, key + 20)
    tries, steps = count(), 3
    store = MeanwhileStore(lambda: next(tries) % 4 or upsert(10 + table.version), 4 * steps)
    words = ("compact", table.location, "--deletes-only", "--partial-progress", str(steps))
    code, document = run([*words, "--engine", "local", "--yes", "--json"], store)
    assert (code, document["status"]) == (0, "done"), document
    assert len(document["result"]["snapshot_ids"]) == steps
    assert next(tries) == 4 * steps  # two lists a try, and two tries a step
    assert ids(table) == list(range(40))
    files = [entry["data_file"] for entry in live_entries(head(table.directory))]
    assert sum(file["content"] == 2 for file in files) == steps
    check_clean(table)
    assert left_over(table) == []


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_a_column_that_comes_back_meanwhile_keeps_its_values(tmp_path, version):
    """Files that were rewritten without it are not committed: they lack its values."""
    table = build(tmp_path / "t", version)
    assert table.metadata.current_schema == SCHEMA
    before = shown(table)
    evolve(table, Schema(1, SCHEMA.fields[:-1]))
    code, document = compact(table, MeanwhileStore(lambda: evolve(table, SCHEMA)))
    reason = "the column `note` is as in an older schema again"
    assert (code, document["error"]["message"]) == (11, reason)
    assert shown(table) == before
    assert left_over(table) == []


def test_a_column_that_is_narrow_again_meanwhile_can_be_read(tmp_path):
    table = build(tmp_path / "t")
    narrow = Schema(1, (replace(SCHEMA.fields[0], type=PrimitiveType("int")), *SCHEMA.fields[1:]))
    code, document = compact(table, MeanwhileStore(lambda: evolve(table, narrow)))
    reason = "the column `id` is as in an older schema again"
    assert (code, document["error"]["message"]) == (11, reason)


def test_files_without_field_ids_may_be_read_by_other_names_meanwhile(tmp_path):
    table = build(tmp_path / "t")
    mapping = {"schema.name-mapping.default": '[{"field-id": 1, "names": ["id"]}]'}
    change = partial(set_properties, table.location, Clock(NOW_MS), mapping)
    code, document = compact(table, MeanwhileStore(change))
    reason = "the property `schema.name-mapping.default` has changed"
    assert (code, document["error"]["message"]) == (11, reason)


def test_columns_that_come_and_go_meanwhile_lose_no_group(tmp_path):
    table = build(tmp_path / "t")
    new = NestedField(6, "new", PrimitiveType("int"), required=False)

    def others() -> None:
        evolve(table, Schema(1, (*SCHEMA.fields[:-1], new)))
        table.delete_rows([3, 16], kind="equality")

    code, document = compact(table, MeanwhileStore(others))
    assert (code, document["status"]) == (0, "done"), document
    assert ids(table) == sorted(table.ids())


@pytest.mark.parametrize("version", [2, 3, 4])
def test_deletes_by_a_column_that_was_dropped_before_go_on_deleting(tmp_path, version):
    """A writer that knows an older schema commits them: rewritten files have no such column."""
    table = build(tmp_path / "t", version)
    evolve(table, Schema(1, SCHEMA.fields[1:]))
    store = MeanwhileStore(lambda: table.delete_rows([3, 16], kind="equality"))
    code, document = compact(table, store)
    assert (code, len(document["result"]["failed"])) == (3, 2), document
    assert "compare a column that was dropped before" in document["result"]["failed"][0]["reason"]
    amounts = sorted(dict(row)["amount"] for row in shown(table))
    assert amounts == [row["amount"] for row in make_rows(sorted(table.ids()))]


def evolve(table: TableBuilder, schema: Schema) -> None:
    """Make a schema the current one, which the table may have had before."""
    table.follow()
    known = {item.schema_id: item for item in (*table.metadata.schemas, schema)}
    last = max(table.metadata.last_column_id, *schema.all_fields)
    members = {"schemas": tuple(known.values()), "last_column_id": last}
    table._replace(**members, current_schema_id=schema.schema_id)


@pytest.mark.parametrize("nth", [2, 3])
def test_rule_20_what_has_landed_stays_whatever_ends_the_run(tmp_path, nth):
    table = build(tmp_path / "t")
    before = ids(table)
    code, document = compact(table, ListsFail(nth), "--partial-progress", "3")
    assert code == 3, document
    statuses = [group["status"] for group in document["result"]["groups"]]
    assert statuses == ["done"] * (nth - 1) + ["failed"] + ["not-run"] * (3 - nth)
    assert document["result"]["failed"][0]["reason"] == "the disk is full"
    assert ids(table) == before
    assert left_over(table) == []
    assert compact(table, None)[1]["status"] == "done"
    assert ids(table) == before


class ListsFail(WrappedStore):
    """The nth manifest list cannot be written."""

    def __init__(self, nth: int) -> None:
        super().__init__(LocalStore())
        self.left = nth

    def call(self, method: str, location: str, action: Callable[[], Any]) -> Any:
        if method == "create" and "/snap-" in location:
            self.left -= 1
            if self.left == 0:
                raise StorageError("the disk is full")
        return action()


@pytest.mark.parametrize("presumed_dead", [False, True])
@pytest.mark.parametrize("moment", ["data/category=c1", "snap-", ".metadata.json"])
def test_a_run_on_a_branch_does_not_disturb_one_on_main(tmp_path, moment, presumed_dead):
    """Even where the other takes this one for dead, only what no commit can name any more goes."""
    table = build(tmp_path / "t")
    table.ref("audit", "branch")
    table.append(range(100, 106), branch="audit")
    before, codes = ids(table), []

    def other_run() -> None:
        if presumed_dead:
            presume_dead(table)
        codes.append(compact(table, None, "--branch", "audit")[0])

    code, document = compact(table, BeforeStore(moment, other_run))
    assert (codes, code) == ([0], 11 if presumed_dead else 0), document
    assert ids(table) == before
    check_clean(table)
    assert compact(table, None)[0] == 0
    assert ids(table) == before
    assert left_over(table) == []


class JournalStays(WrappedStore):
    """Journals cannot be removed."""

    def call(self, method: str, location: str, action: Callable[[], Any]) -> Any:
        if method == "remove" and "icectl-compact" in location:
            raise StorageError("denied")
        return action()


def test_r191_files_of_a_landed_run_stay_when_all_that_tells_of_it_has_gone(tmp_path):
    """Its journal was left behind, its manifests were merged, its snapshot has expired."""
    table = build(tmp_path / "t")
    before = ids(table)
    assert compact(table, JournalStays(LocalStore()))[0] == 0
    assert [name for name in left_over(table) if "icectl-compact" in name]
    presume_dead(table)
    code, document = run(["rewrite-manifests", table.location, "--yes", "--json"])
    assert (code, document["status"]) == (0, "done")
    expire(table)
    assert compact(table, None)[1]["status"] == "nothing-to-do"
    set_properties(table.location, Clock(NOW_MS), {"meanwhile": "yes"})
    assert compact(table, None)[1]["status"] == "nothing-to-do"
    assert left_over(table) == []
    assert ids(table) == before
    check_clean(table)
