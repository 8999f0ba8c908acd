"""`icectl expire-rows`: exactly the rows of the filter go, by whatever proves and deletes them."""

import struct
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from icectl.cli import engines
from icectl.env import Env
from icectl.format.schema import Schema
from icectl.rows.compact_job import TaskResult
from tests.builders.broken import Broken
from tests.builders.expiry import NOW_MS
from tests.builders.inline_engine import InlineEngine
from tests.builders.rows import current_metadata, live_entries, read_metadata, read_rows
from tests.builders.table_builder import SCHEMA, START_MS, TableBuilder, filled_table
from tests.builders.tree_table import upgrade
from tests.cli.conftest import HOUR_MS, Run, result, result_of
from tests.stores.fixed_env import FixedEnv

FIRST_US = 1_700_000_000_000_000
"""The time of row 0; each row is an hour after the one before."""


@pytest.fixture
def expire_rows(prepared: Callable[[str, Env], Run], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run `icectl expire-rows` in this process."""
    monkeypatch.setattr(engines, "LocalEngine", InlineEngine)
    return prepared("expire-rows", FixedEnv(NOW_MS, uuids=5_000, snapshot_ids=5_000))


def before(row: int) -> tuple[str, str]:
    """The filter of all rows before one, as options."""
    instant = datetime.fromtimestamp(FIRST_US // 10**6, UTC) + timedelta(hours=row)
    return "--where", f"at < '{instant:%Y-%m-%dT%H:%M:%S}'"


def ids(directory: Path, snapshot_id: int | None = None) -> list[int]:
    """The ids of the live rows, read without icectl."""
    rows = read_rows(read_metadata(current_metadata(directory)), snapshot_id)
    return sorted(dict(row)["id"] for row in rows)


def head(directory: Path) -> dict[str, Any]:
    found = read_metadata(current_metadata(directory))
    return next(
        item for item in found["snapshots"] if item["snapshot-id"] == found["current-snapshot-id"]
    )


def clean(run: Run, directory: Path) -> None:
    found = result_of(run(directory, "--level", "data", "--json", command="validate"))
    assert found["counts"]["error"] == 0, found["findings"]


@pytest.mark.parametrize("version", [1, 2, 3, 4])
@pytest.mark.parametrize("method", ["deletes", "rewrite"])
def test_whole_files_go_by_metadata_and_rows_of_others_by_the_method(
    expire_rows, tmp_path, version, method
):
    table = TableBuilder(tmp_path / "t", format_version=min(version, 3), partitioning="identity")
    table.append(range(30))
    table.append(range(30, 60))
    if version > 1:
        table.delete_rows([1, 40])
    if version == 2:
        table.delete_rows([2], kind="equality")
    gone = {1, 2, 40} if version == 2 else {1, 40} if version > 1 else set()
    if version == 4:
        upgrade(tmp_path / "t", FixedEnv(START_MS + HOUR_MS))
    directory, words = tmp_path / "t", (*before(45), "--max-fraction", "1", "--method", method)
    planned = result(expire_rows(directory, *words, "--dry-run", "--json"))
    assert [file["action"] for file in planned["files"]] == ["drop"] * 3 + ["change"] * 3
    assert ids(directory) == sorted(set(range(60)) - gone)
    assert result_of(expire_rows(directory, *words, "--check", "--json"), 4) == planned
    done = result(expire_rows(directory, *words, "--yes", "--json"))
    assert ids(directory) == sorted(set(range(45, 60)) - gone)
    is_rewritten = method == "rewrite" or version == 1
    assert done["method"] == ("rewrite" if is_rewritten else "deletes")
    assert done["added_data_file_count"] == (3 if is_rewritten else 0)
    assert done["removed_data_file_count"] == (6 if is_rewritten else 3)
    operation = "overwrite" if is_rewritten else "delete"
    assert head(directory)["summary"]["operation"] == operation
    clean(expire_rows, directory)
    assert result(expire_rows(directory, *words, "--check", "--json"))["expired_row_count"] == 0
    assert expire_rows(directory, *words, "--yes").out.endswith(
        "nothing to do: no row has expired\n"
    )


def test_a_file_whose_bounds_lie_is_read_and_no_other_row_goes(expire_rows, tmp_path):
    TableBuilder(tmp_path / "t").append(range(20))
    broken = Broken(tmp_path / "t")
    (path,) = [
        Path(entry["data_file"]["file_path"]) for entry in live_entries(head(tmp_path / "t"))
    ]

    def lie(entry: dict[str, Any]) -> None:
        bound = next(item for item in entry["data_file"]["upper_bounds"] if item["key"] == 4)
        bound["value"] = struct.pack("<q", FIRST_US)

    broken.edit_everywhere(path, lie)
    found = result(expire_rows(tmp_path / "t", *before(4), "--yes", "--json"))
    assert (found["doubted_file_count"], found["deleted_row_count"]) == (1, 4)
    assert ids(tmp_path / "t") == list(range(4, 20))
    rows = ("--verify", "rows", "--max-fraction", "1")
    found = result(expire_rows(tmp_path / "t", *before(10), *rows, "--yes", "--json"))
    assert (found["doubted_file_count"], found["deleted_row_count"]) == (0, 6)
    assert ids(tmp_path / "t") == list(range(10, 20))


@pytest.mark.parametrize(
    ("counts", "told"),
    [
        ([{"key": 4, "value": 0}], ""),
        ([{"key": 4, "value": 3}], "3 rows with null in `at` stay"),
        ([], "rows with null in `at` stay"),  # nobody counts them
    ],
)
def test_rows_with_null_stay_which_is_told_counted_or_not(expire_rows, tmp_path, counts, told):
    TableBuilder(tmp_path / "t").append(range(20))
    broken = Broken(tmp_path / "t")
    (entry,) = live_entries(head(tmp_path / "t"))

    def count(entry: dict[str, Any]) -> None:
        entry["data_file"]["null_value_counts"] = counts

    broken.edit_everywhere(Path(entry["data_file"]["file_path"]), count)
    lines = expire_rows(tmp_path / "t", *before(4), "--dry-run").out.splitlines()
    assert [line for line in lines if "with null" in line] == ([told] if told else [])


def test_rows_read_prove_a_file_too(expire_rows, tmp_path):
    TableBuilder(tmp_path / "t").append(range(5))
    words = (*before(5), "--verify", "rows", "--max-fraction", "1", "--yes", "--json")
    found = result(expire_rows(tmp_path / "t", *words))
    assert [file["action"] for file in found["files"]] == ["empty"]
    assert (found["removed_data_file_count"], ids(tmp_path / "t")) == (1, [])


def test_too_many_rows_at_once_are_refused(expire_rows, tmp_path):
    TableBuilder(tmp_path / "t").append(range(10))
    ended = expire_rows(tmp_path / "t", *before(3), "--yes")
    assert ended.code == 5
    assert "3 of 10 rows would be deleted (30%), more than `--max-fraction` 20%" in ended.err
    ended = expire_rows(tmp_path / "t", *before(3), "--dry-run", "--json")
    assert (ended.code, ended.document["status"]) == (5, "refused")
    shown = expire_rows(tmp_path / "t", *before(3), "--dry-run").out
    assert "refused: 3 of 10 rows would be deleted (30%)" in shown
    assert expire_rows(tmp_path / "t", *before(2), "--yes").code == 0
    assert ids(tmp_path / "t") == list(range(2, 10))


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("at_once", [False, True])
def test_deleted_rows_of_other_partitions_do_not_count_as_live(
    expire_rows, tmp_path, version, at_once
):
    """Manifests of other partitions are not read: what their lists count may be deleted."""
    table = TableBuilder(tmp_path / "t", format_version=version, partitioning="identity")
    for category in range(3):
        table.append(range(category, 30 if category == 0 else 300, 3))
    deleted = [id_ for id_ in range(285) if id_ % 3]
    for part in [deleted] if at_once else [deleted[:100], deleted[100:]]:
        table.delete_rows(part)
    assert len(table.ids()) == 20
    filter_ = f"category = 'c0' and {before(300)[1]}"
    ended = expire_rows(tmp_path / "t", "--where", filter_, "--yes")
    assert (ended.code, "10 of 20 rows would be deleted (50%)" in ended.err) == (5, True), ended
    words = ("--where", filter_, "--max-fraction", "50%", "--yes", "--json")
    assert result(expire_rows(tmp_path / "t", *words))["live_row_count"] == 20
    assert len(ids(tmp_path / "t")) == 10


@pytest.mark.parametrize("partitioning", ["none", "identity"])
@pytest.mark.parametrize("kind", ["equality", "position"])
def test_rows_that_no_manifest_counts_as_deleted_do_not_count_as_live(
    expire_rows, tmp_path, kind, partitioning
):
    """Nine of ten rows are deleted by keys, or by positions of whole partitions."""
    table = TableBuilder(tmp_path / "t", format_version=2, partitioning=partitioning)
    for category in range(3):
        table.append(range(category, 300, 3))
    table.delete_rows([id_ for id_ in range(300) if id_ % 10], kind=kind)
    assert len(table.ids()) == 30
    of_all = partitioning == "none"
    filter_ = ("" if of_all else "category = 'c0' and ") + before(90)[1]
    words = ("--where", filter_, "--yes", "--max-fraction")
    ended = expire_rows(tmp_path / "t", *words, "20%" if of_all else "5%")
    refused = "9 of 30 rows" if of_all else "3 of 30 rows"
    assert (ended.code, refused in ended.err) == (5, True), ended
    assert expire_rows(tmp_path / "t", *words, "30%" if of_all else "10%").code == 0
    assert len(ids(tmp_path / "t")) == (21 if of_all else 27)


def test_all_rows_may_go_where_deletes_of_unknown_rows_apply(expire_rows, tmp_path):
    filled_table(tmp_path / "t", range(10), range(10, 20)).delete_rows(range(15), kind="equality")
    words = (*before(20), "--max-fraction", "100%", "--json")
    found = result(expire_rows(tmp_path / "t", *words, "--dry-run"))
    assert (found["expired_row_count"], found["live_row_count"]) == (5, 5)
    assert expire_rows(tmp_path / "t", *words, "--yes").code == 0
    assert ids(tmp_path / "t") == []


def test_rows_go_only_by_a_filter_about_the_past(expire_rows, tmp_path):
    filled_table(tmp_path / "t", range(10))
    for text in ("id < 1", "at > '2020-01-01'", "at < '2999-01-01'", "at < 'now - 1d' or id = 1"):
        ended = expire_rows(tmp_path / "t", "--where", text, "--yes")
        assert (ended.code, "not in the past" in ended.err) == (5, True), text
    words = ("--where", "id < 2", "--yes-any-filter", "--yes")
    assert expire_rows(tmp_path / "t", *words).code == 0
    words = ("--where", "at < 'now - 30d' and id < 3", "--yes")
    assert expire_rows(tmp_path / "t", *words).code == 0
    assert ids(tmp_path / "t") == list(range(3, 10))
    ended = expire_rows(tmp_path / "t", "--where", "at < 'now - 30x'", "--yes")
    assert (ended.code, "cannot compare `at` (timestamp)" in ended.err) == (2, True)


def test_the_tables_own_rule_is_column_and_age(expire_rows, tmp_path):
    ended = expire_rows(TableBuilder(tmp_path / "none").directory, "--yes")
    assert (ended.code, "no property `icectl.ttl.column`" in ended.err) == (2, True)
    age_s = NOW_MS // 1000 - FIRST_US // 10**6 - 7200  # two hours after the first row
    rule = {"icectl.ttl.column": "at", "icectl.ttl.age": f"{age_s}s"}
    TableBuilder(tmp_path / "t", properties=rule).append(range(10))
    found = result(expire_rows(tmp_path / "t", "--yes", "--json"))
    assert (found["time_columns"], found["deleted_row_count"]) == (["at"], 2)
    assert ids(tmp_path / "t") == list(range(2, 10))
    for name, wrong in (("icectl.ttl.column", "note"), ("icectl.ttl.age", "90")):
        directory = tmp_path / name
        TableBuilder(directory, properties=rule | {name: wrong}).append(range(3))
        ended = expire_rows(directory, "--yes")
        assert (ended.code, f"table property `{name}` is `{wrong}`" in ended.err) == (5, True)


def test_properties_of_a_table_alone_have_maintain_delete_no_row(expire_rows, tmp_path):
    age_s = NOW_MS // 1000 - FIRST_US // 10**6 - 7200
    rule = {"icectl.ttl.column": "at", "icectl.ttl.age": f"{age_s}s"}
    table = filled_table(tmp_path / "t", range(20), properties=rule)

    def maintain(*words: object) -> int:
        assert expire_rows(table.directory, *words, "--yes", command="maintain").code == 0
        return len(ids(table.directory))

    policy = tmp_path / "maintain.toml"
    assert maintain() == 20
    policy.write_text('steps = ["compact"]\n[expire-rows]\nmax-fraction = "50%"\n')
    assert maintain("--policy", policy) == 20
    assert maintain("--policy", policy, "--only", "compact") == 20
    policy.write_text('[expire-rows]\nmax-fraction = "50%"\n')
    assert maintain("--policy", policy, "--only", "compact") == 20
    assert maintain("--policy", policy) == 18
    table.append(range(2))
    policy.write_text('steps = ["expire-rows"]\n')
    assert maintain("--policy", policy) == 18
    assert maintain("--only", "expire-rows") == 18


def test_a_column_whose_name_has_a_backtick_is_no_rule(expire_rows, tmp_path):
    name = "at` < 'now' or `at"
    table = filled_table(tmp_path / "t", range(3))
    fields = table.metadata.current_schema.fields
    (at,) = [item for item in fields if item.name == "at"]
    odd = replace(at, id=100, name=name, required=False)  # no row has a value in it
    table.reschema(Schema(1, (*fields, odd)))
    table.set_properties({"icectl.ttl.column": name, "icectl.ttl.age": "36500d"})
    ended = expire_rows(tmp_path / "t", "--max-fraction", "1", "--yes")
    assert (ended.code, "backtick" in ended.err) == (5, True)
    assert ids(tmp_path / "t") == [0, 1, 2]


def test_an_age_beyond_what_the_column_holds_is_refused_by_its_name(expire_rows, tmp_path):
    rule = {"icectl.ttl.column": "at", "icectl.ttl.age": "999999999999d"}
    TableBuilder(tmp_path / "t", properties=rule).append(range(3))
    ended = expire_rows(tmp_path / "t", "--yes")
    assert (ended.code, "table property `icectl.ttl.age` is" in ended.err) == (5, True)
    assert "--where" not in ended.err
    assert ids(tmp_path / "t") == [0, 1, 2]


def test_a_file_of_finer_instants_than_its_column_is_not_dropped_by_rounded_bounds(
    expire_rows, tmp_path
):
    """The footer's bound, rounded down, is before the filter's instant; the row itself is not."""
    TableBuilder(tmp_path / "t").append(range(5))
    before_metadata = current_metadata(tmp_path / "t")
    (path,) = [
        Path(entry["data_file"]["file_path"]) for entry in live_entries(head(tmp_path / "t"))
    ]
    stored = pq.read_table(path)
    place = stored.schema.get_field_index("at")
    finer = stored.column("at").cast(pa.int64()).to_numpy() * 1000 + 1
    kind = stored.schema.field("at").with_type(pa.timestamp("ns"))
    pq.write_table(stored.set_column(place, kind, pa.array(finer, pa.timestamp("ns"))), path)

    def resized(entry: dict[str, Any]) -> None:
        entry["data_file"].update(file_size_in_bytes=path.stat().st_size)

    Broken(tmp_path / "t").edit_everywhere(path, resized)
    instant = datetime.fromtimestamp(FIRST_US // 10**6, UTC) + timedelta(hours=4)
    words = ("--where", f"at <= '{instant:%Y-%m-%dT%H:%M:%S}'", "--max-fraction", "1", "--yes")
    ended = expire_rows(tmp_path / "t", *words)
    assert ended.code == 14, ended.err
    assert (current_metadata(tmp_path / "t"), path.exists()) == (before_metadata, True)


def test_a_row_younger_than_the_age_by_less_than_a_second_stays(expire_rows, tmp_path):
    age_ms = NOW_MS - FIRST_US // 1000 - 2 * HOUR_MS + 500  # 100 ms before row 2, by this clock
    rule = {"icectl.ttl.column": "at", "icectl.ttl.age": f"{age_ms}ms"}
    TableBuilder(tmp_path / "t", properties=rule).append(range(10))
    clock = FixedEnv(NOW_MS + 400, uuids=5_000, snapshot_ids=5_000)
    assert expire_rows(tmp_path / "t", "--yes", env=clock).code == 0
    assert ids(tmp_path / "t") == list(range(2, 10))


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], object]]:
    """What another writer does before the first rewrite; to be filled."""
    waiting: list[Callable[[], object]] = []

    class Busy(InlineEngine):
        def rewrite(self, *arguments: Any) -> Iterator[TaskResult]:
            while waiting:
                waiting.pop()()
            yield from super().rewrite(*arguments)

    monkeypatch.setattr(engines, "LocalEngine", Busy)
    return waiting


def test_files_of_a_spec_that_came_meanwhile_are_rewritten_too(expire_rows, tmp_path, meanwhile):
    table = filled_table(tmp_path / "t", [*range(6), 30], format_version=3)

    def other() -> None:
        table.respec("identity")
        table.append(range(6, 30))
        table.delete_rows([1, 8, 20])

    meanwhile.append(other)
    words = ("--where", "id < 12", "--yes-any-filter", "--max-fraction", "1", "--yes", "--json")
    ended = expire_rows(tmp_path / "t", *words, "--method", "rewrite")
    assert (ended.code, "committed by another writer" in ended.err) == (0, True), ended.err
    assert ids(tmp_path / "t") == [*range(12, 20), *range(21, 31)]
    clean(expire_rows, tmp_path / "t")


@pytest.mark.parametrize("version", [2, 3])
def test_files_that_others_replaced_or_added_meanwhile_are_rewritten(
    expire_rows, tmp_path, meanwhile, version
):
    table = filled_table(tmp_path / "t", range(10), range(10, 20), format_version=version)

    def other() -> None:
        table.append([-1, 40])
        table.replace_data_files(2)
        table.delete_rows([3, 17])

    meanwhile.append(other)
    words = (*before(5), "--method", "rewrite", "--max-fraction", "1", "--yes")
    ended = expire_rows(tmp_path / "t", *words)
    assert ended.code == 0, ended.err
    assert ids(tmp_path / "t") == [*range(5, 17), 18, 19, 40]
    clean(expire_rows, tmp_path / "t")


def test_a_schema_that_changed_meanwhile_is_a_conflict(expire_rows, tmp_path, meanwhile):
    table = filled_table(tmp_path / "t", range(10))
    without_at = Schema(1, tuple(item for item in SCHEMA.fields if item.name != "at"))
    meanwhile.append(lambda: (table.reschema(without_at), table.append(range(5))))
    ended = expire_rows(tmp_path / "t", *before(2), "--method", "rewrite", "--yes")
    assert (ended.code, "schema has changed" in ended.err) == (11, True), ended.err


def test_other_refs_keep_their_rows_and_are_named(expire_rows, tmp_path):
    table = TableBuilder(tmp_path / "t")
    first = table.append(range(10))
    table.ref("kept", snapshot_id=first)
    table.ref("audit", snapshot_id=first, kind="branch")
    words = (*before(2), "--branch", "audit", "--yes", "--json")
    assert result(expire_rows(tmp_path / "t", *words))["kept_by"] == ["kept", "main"]
    assert ids(tmp_path / "t") == list(range(10))
    refs = read_metadata(current_metadata(tmp_path / "t"))["refs"]
    assert refs["kept"]["snapshot-id"] == first
    assert ids(tmp_path / "t", refs["audit"]["snapshot-id"]) == list(range(2, 10))
    ended = expire_rows(tmp_path / "t", *before(2), "--branch", "kept", "--yes")
    assert (ended.code, "only branches get new snapshots" in ended.err) == (2, True)


def test_a_reviewed_plan_deletes_what_it_names(expire_rows, tmp_path):
    table = filled_table(tmp_path / "t", range(10))
    plan = tmp_path / "plan.json"
    words = ("--where", "at < 'now - 30d'", "--max-fraction", "1")
    assert expire_rows(tmp_path / "t", *words, "--dry-run", "--save-plan", plan).code == 0
    table.append(range(10, 12))
    assert expire_rows(plan, command="apply").code == 11
    assert expire_rows(plan, "--allow-newer", command="apply").code == 0
    assert ids(tmp_path / "t") == [10, 11]


def test_a_reviewed_plan_is_of_columns_whatever_they_are_called_later(expire_rows, tmp_path):
    """As many rows of the file match the same text, about another column: not those reviewed."""
    table = filled_table(tmp_path / "t", [1, 2])
    plan = tmp_path / "plan.json"
    words = ("--where", "category in ('c1', 'note 2')", "--yes-any-filter", "--max-fraction", "1")
    assert expire_rows(tmp_path / "t", *words, "--dry-run", "--save-plan", plan).code == 0
    names = {"category": "old", "note": "category"}
    renamed = (replace(it, name=names.get(it.name, it.name)) for it in SCHEMA.fields)
    table.reschema(Schema(1, tuple(renamed)))
    assert expire_rows(plan, "--allow-newer", command="apply").code == 11
    assert ids(tmp_path / "t") == [1, 2]


def nights(run: Run, tmp_path: Path, text: str) -> Callable[..., dict[str, Any]]:
    """Run maintain by a policy, with one step: the table's entry in the report."""
    policy = tmp_path / "maintain.toml"
    policy.write_text(f'steps = ["expire-rows"]\n{text}\n')
    policy.chmod(0o600)

    def night(directory: Path, *words: str) -> dict[str, Any]:
        line = (directory, "--policy", policy, "--yes", "--json", "-q", *words)
        ended = run(*line, command="maintain")
        assert ended.code in (0, 3), ended.err
        (entry,) = ended.document["result"]["tables"]
        return dict(entry)

    return night


def rule_before(row: int) -> dict[str, str]:
    """The properties by which all rows before one are past their time."""
    age_ms = NOW_MS - FIRST_US // 1000 - row * HOUR_MS
    return {"icectl.ttl.column": "at", "icectl.ttl.age": f"{age_ms}ms"}


def check_of(run: Run, directory: Path) -> dict[str, Any]:
    """What health says of a table's expired rows."""
    return dict(result_of(run(directory, "health", "--json", command="inspect"))["expired_rows"])


@pytest.mark.parametrize("version", [1, 2, 3])
def test_maintain_deletes_the_rows_of_the_tables_own_rule(expire_rows, tmp_path, version):
    table = TableBuilder(tmp_path / "t", format_version=version, properties=rule_before(10))
    for rows in (range(8), range(8, 12), range(12, 100)):
        table.append(rows)
    kept = table.metadata.current_snapshot_id
    for name, kind in (("before", "tag"), ("other", "branch")):
        table.ref(name, kind, snapshot_id=kept)
    check = check_of(expire_rows, table.directory)
    assert (check["verdict"], check["command"]) == ("attention", "expire-rows")
    figures = ("live_row_count", "expired_file_count", "expired_row_count")
    assert [check[name] for name in figures] == [100, 2, 10]
    assert (check["doubtful_file_count"], check["doubtful_row_count"]) == (0, 0)
    assert check["most_expired_ratio"] == 0.1
    night = nights(expire_rows, tmp_path, "")
    entry = night(table.directory)
    assert [(step["step"], step["status"]) for step in entry["steps"]] == [("expire-rows", "done")]
    assert ids(table.directory) == list(range(10, 100))
    assert ids(table.directory, kept) == list(range(100))
    refs = read_metadata(current_metadata(table.directory))["refs"]
    assert {refs[name]["snapshot-id"] for name in ("before", "other")} == {kept}
    clean(expire_rows, table.directory)
    snapshot = head(table.directory)["snapshot-id"]
    again = night(table.directory)  # bounds still say that a file may have such rows
    assert [step["status"] for step in again["steps"]] in ([], ["nothing-to-do"])
    assert head(table.directory)["snapshot-id"] == snapshot


def test_a_policy_says_which_rows_go_and_from_which_part_on(expire_rows, tmp_path):
    table = filled_table(tmp_path / "t", *(rows for rows in (range(10), range(10, 100))))
    assert check_of(expire_rows, table.directory)["verdict"] == "ok"
    filter_ = before(10)[1]
    for threshold, statuses in (("11%", []), ("10%", ["done"])):
        rule = f'[expire-rows]\nwhere = "{filter_}"\nexpired-rows = "{threshold}"'
        entry = nights(expire_rows, tmp_path, rule)(table.directory)
        assert [step["status"] for step in entry["steps"]] == statuses
    assert ids(table.directory) == list(range(10, 100))


@pytest.mark.parametrize(
    ("properties", "text", "why"),
    [
        (rule_before(21), "", "21 of 100 rows would be deleted (21%)"),
        (rule_before(10), '[expire-rows]\nmax-fraction = "5%"', "10 of 100 rows would be deleted"),
        ({"icectl.ttl.column": "at"}, "", "no property `icectl.ttl.age`"),
        (rule_before(10) | {"icectl.ttl.age": "old"}, "", "`icectl.ttl.age` is `old`"),
        (rule_before(10) | {"icectl.ttl.column": "gone"}, "", "no column of the table"),
        ({}, '[expire-rows]\nwhere = "id < 3"', "may match rows that are not in the past"),
        ({}, "[expire-rows]\nwhere = \"lost < 'now - 9d'\"", "no column `lost`"),
    ],
)
def test_what_is_too_much_or_not_clear_is_withheld(expire_rows, tmp_path, properties, text, why):
    table = TableBuilder(tmp_path / "t", properties=properties)
    for rows in (range(10), range(10, 21), range(21, 100)):
        table.append(rows)
    entry = nights(expire_rows, tmp_path, text)(table.directory)
    assert ids(table.directory) == list(range(100))
    told = [one["reason"] for one in entry["withheld"]] + [
        f"{step['status']} {step.get('reason')}" for step in entry["steps"]
    ]
    assert len(told) == 1
    assert why in told[0], told


def test_no_policy_allows_any_filter(expire_rows, tmp_path):
    table = filled_table(tmp_path / "t", range(3))
    policy = tmp_path / "maintain.toml"
    policy.write_text("expire-rows.yes-any-filter = true\n")
    policy.chmod(0o600)
    ended = expire_rows(table.directory, "--policy", policy, "--yes", command="maintain")
    assert (ended.code, "policies must not set this option" in ended.err) == (2, True)
