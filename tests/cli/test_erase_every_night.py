"""`erase` as a step of `maintain`: keys of a policy are erased every night, until none is left."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from icectl.cli import engines
from icectl.commands.expire_snapshots import run as expiry
from icectl.env import Env
from tests.builders.byte_scanner import hits_below
from tests.builders.expiry import NOW_MS
from tests.builders.inline_engine import InlineEngine
from tests.builders.rows import rows_without_lineage
from tests.builders.table_builder import TableBuilder
from tests.cli.conftest import Run, checked_document
from tests.stores.fixed_env import FixedEnv

DAY_MS = 86_400_000
MARKED = 4712
NOTE = "note {}".format
POLICY = """
[[rule]]
tables = ["{}/**"]
erase.keys = "{}"
erase.key-columns = "note"
erase.max-fraction = "100%"
erase.expire-history = {}
"""


@pytest.fixture
def run(prepared: Callable[[str, Env], Run], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command in this process, a month after the tables were built."""
    monkeypatch.setattr(engines, "LocalEngine", InlineEngine)
    return prepared("maintain", FixedEnv(NOW_MS, uuids=20_000, snapshot_ids=20_000))


def tables(folder: Path) -> list[Path]:
    """Two tables with rows 3 and MARKED, each in a file with others."""
    places = [folder / "wh" / "db" / name for name in ("a", "b")]
    for place in places:
        table = TableBuilder(place)
        table.append(range(10))
        table.append([*range(10, 20), MARKED])
    return places


def policy(folder: Path, keys: Path, *more: str, expires: str = "true") -> Path:
    file = folder / "maintain.toml"
    file.write_text(POLICY.format(folder / "wh", keys, expires) + "\n".join(more))
    return file


def keys_of(folder: Path, *rows: str, header: str = "note") -> Path:
    file = folder / "gone.csv"
    file.write_text("\n".join((header, *rows)) + "\n")
    return file


def night(run: Run, folder: Path, file: Path, *options: str) -> tuple[int, list[dict[str, Any]]]:
    """The exit code of a run by a policy, and what became of each table."""
    ended = run(folder / "wh", "--policy", file, "--only", "erase", "--json", *options)
    return ended.code, ended.document["result"]["tables"]


def health(run: Run, place: Path, config: Path, *options: str, code: int = 0) -> dict[str, Any]:
    ended = run(place, "health", "--config", config, "--json", *options, command="inspect")
    assert ended.code == code, ended.err
    found: dict[str, Any] = checked_document(ended)["result"]["erasures"]
    return found


def settings(folder: Path, keys: Path, *more: str) -> Path:
    file = folder / "icectl.toml"
    file.write_text("\n".join(["[erase]", f'keys = "{keys}"', 'key-columns = "note"', *more]))
    return file


def test_keys_of_a_policy_go_from_all_tables_and_a_second_night_has_nothing_to_do(run, tmp_path):
    places = tables(tmp_path)
    file = policy(tmp_path, keys_of(tmp_path, NOTE(3), NOTE(MARKED)))
    assert night(run, tmp_path, file, "--check")[0] == 4
    code, done = night(run, tmp_path, file)
    assert (code, [table["status"] for table in done]) == (0, ["done", "done"])
    for place in places:
        ids = sorted(row["id"] for row in rows_without_lineage(place))
        assert ids == [id_ for id_ in range(20) if id_ != 3]
        assert hits_below(place, [NOTE(MARKED).encode()]) == []
    code, again = night(run, tmp_path, file)
    assert (code, {table["status"] for table in again}) == (0, {"nothing-to-do"})
    assert night(run, tmp_path, file, "--check")[0] == 0


def test_positions_of_deleted_rows_are_no_work(run, tmp_path):
    table = TableBuilder(tmp_path / "wh" / "db" / "a", format_version=2)
    table.append(range(10))
    table.delete_rows([5])
    file = policy(tmp_path, keys_of(tmp_path, "past all bounds"))
    code, planned = night(run, tmp_path, file, "-n")
    assert (code, planned[0]["needs"]) == (0, [])


def test_a_key_that_is_added_to_the_file_goes_the_next_night(run, tmp_path):
    place, _ = tables(tmp_path)
    file = policy(tmp_path, keys_of(tmp_path, NOTE(MARKED)))
    assert night(run, tmp_path, file)[0] == 0
    keys_of(tmp_path, NOTE(MARKED), NOTE(3))
    code, done = night(run, tmp_path, file)
    assert (code, {table["status"] for table in done}) == (0, {"done"})
    ids = sorted(row["id"] for row in rows_without_lineage(place))
    assert ids == [id_ for id_ in range(20) if id_ != 3]


def test_no_output_and_no_file_of_a_run_has_a_key(run, tmp_path):
    places = tables(tmp_path)
    file = policy(tmp_path, keys_of(tmp_path, NOTE(MARKED)))
    metrics = tmp_path / "icectl.prom"
    words = (tmp_path / "wh", "--policy", file, "--metrics-file", metrics, "-v")
    for ended in (run(*words, "-n"), run(*words)):
        assert ended.code == 0
        assert NOTE(MARKED) not in ended.out + ended.err
    assert NOTE(MARKED) not in metrics.read_text()
    for place in places:
        assert hits_below(place, [NOTE(MARKED).encode()]) == []


def test_without_history_in_the_policy_snapshots_hold_rows_and_the_step_is_incomplete(
    run, tmp_path
):
    tables(tmp_path)
    code, done = night(run, tmp_path, policy(tmp_path, keys_of(tmp_path, NOTE(3)), expires="false"))
    assert (code, {table["status"] for table in done}) == (3, {"incomplete"})


def test_too_many_rows_are_withheld_or_refused(run, tmp_path):
    places = tables(tmp_path)
    file = policy(tmp_path, keys_of(tmp_path, NOTE(3)), "erase.rounds = 1")
    file.write_text(file.read_text().replace("100%", "1%"))
    code, done = night(run, tmp_path, file)
    assert (code, {table["status"] for table in done}) == (3, {"refused"})
    assert all(len(rows_without_lineage(place)) == 21 for place in places)


@pytest.mark.parametrize("limit", [(), ("erase.overdue-files = 1000",)])
def test_keys_that_cannot_be_read_fail_every_table_and_change_none(run, tmp_path, limit):
    places = tables(tmp_path)
    code, done = night(run, tmp_path, policy(tmp_path, tmp_path / "none.csv", *limit))
    assert (code, {table["status"] for table in done}) == (3, {"failed"})
    assert all(len(rows_without_lineage(place)) == 21 for place in places)
    found = health(run, places[0], settings(tmp_path, tmp_path / "none.csv"))
    assert (found["verdict"], found["command"]) == ("critical", "erase")
    assert "cannot read the keys" in found["problem"]


def test_a_table_is_healthy_without_keys_and_once_they_are_gone(run, tmp_path):
    place, _ = tables(tmp_path)
    keys = keys_of(tmp_path, NOTE(3))
    config = settings(tmp_path, keys)
    none = tmp_path / "none.toml"
    none.write_text("")
    assert health(run, place, none)["verdict"] == "ok"
    found = health(run, place, config)
    assert (found["verdict"], found["key_count"]) == ("attention", 1)
    assert found["matching_file_count"] == 1
    assert night(run, tmp_path, policy(tmp_path, keys))[0] == 0
    found = health(run, place, config)
    assert (found["verdict"], found["matching_file_count"]) == ("ok", 0)
    assert found["found"] == "no file holds a row with one of 1 key"


@pytest.mark.parametrize(
    ("days", "verdict", "overdue"), [(29, "attention", 0), (31, "critical", 1)]
)
@pytest.mark.parametrize("form", ["csv", "parquet", "time"])
def test_a_key_past_its_deadline_is_critical(run, tmp_path, days, verdict, overdue, form):
    place, _ = tables(tmp_path)
    asked_ms = NOW_MS - days * DAY_MS
    asked = pa.array([asked_ms, NOW_MS], pa.timestamp("ms"))
    column = ['requested-at = "asked"']
    if form == "parquet":
        keys = tmp_path / "gone.parquet"
        pq.write_table(pa.table({"note": [NOTE(3), NOTE(4000)], "asked": asked}), keys)
    elif form == "csv":
        times = asked.cast(pa.timestamp("ms", "UTC")).cast(pa.string()).to_pylist()
        rows = [f"{NOTE(3)},{times[0]}", f"{NOTE(4000)},{times[1]}"]
        keys = keys_of(tmp_path, *rows, header="note,asked")
    else:
        keys, column = keys_of(tmp_path, NOTE(3)), []
        os.utime(keys, (asked_ms / 1000, asked_ms / 1000))
    config = settings(tmp_path, keys, *column)
    code = 4 if verdict == "critical" else 0
    found = health(run, place, config, "--fail-on", "critical", code=code)
    assert (found["verdict"], found["overdue_file_count"]) == (verdict, overdue)
    late = "; 1 holds one that was asked for more than 30d ago"
    keys_told = "1 key" if form == "time" else "2 keys"
    assert found["found"] == f"1 file holds rows with one of {keys_told}{late if overdue else ''}"
    assert found["threshold"].endswith(
        "critical with 1 or more files with keys past their deadline"
    )
    assert (
        health(run, place, settings(tmp_path, keys, *column, 'deadline = "40d"'))[
            "overdue_file_count"
        ]
        == 0
    )


def test_a_key_that_is_gone_is_never_overdue(run, tmp_path):
    place, _ = tables(tmp_path)
    keys = keys_of(tmp_path, f"{NOTE(4000)},2001-01-01", f"{NOTE(3)},2100-01-01",
                   header="note,asked")  # fmt: skip
    found = health(run, place, settings(tmp_path, keys, 'requested-at = "asked"'))
    assert (found["matching_file_count"], found["overdue_file_count"]) == (1, 0)


@pytest.mark.parametrize(
    ("header", "row", "column"),
    [("note,asked", f"{NOTE(3)},soon", "asked"), ("note", NOTE(3), "asked"),
     ("note,asked", f"{NOTE(3)},7d", "asked")],
)  # fmt: skip
def test_a_request_without_a_time_is_told_of_without_the_key(run, tmp_path, header, row, column):
    place, _ = tables(tmp_path)
    keys = keys_of(tmp_path, row, header=header)
    found = health(run, place, settings(tmp_path, keys, f'requested-at = "{column}"'))
    assert found["verdict"] == "critical"
    assert "line" in found["problem"]
    assert NOTE(3) not in json.dumps(found)


def test_a_saved_plan_leaves_erasures_out_and_says_so(run, tmp_path):
    tables(tmp_path)
    file = policy(tmp_path, keys_of(tmp_path, NOTE(3)))
    plan = tmp_path / "plan.json"
    assert run(tmp_path / "wh", "--policy", file, "-n", "--save-plan", plan).code == 0
    saved = json.loads(plan.read_text())
    assert "erase: no plan of it can be saved" in {one["why"] for one in saved["left_out"]}
    assert "erase" not in [step["command"] for table in saved["tables"] for step in table["steps"]]
    assert NOTE(3) not in plan.read_text()


def test_a_young_file_that_no_snapshot_names_keeps_a_key_from_being_done(run, tmp_path):
    places = tables(tmp_path)
    for place in places:
        holding = max((place / "data").glob("*.parquet"))
        orphan = holding.with_name(f"orphan-{holding.name}")
        shutil.copy(holding, orphan)
        os.utime(orphan, (NOW_MS / 1000 - 3600, NOW_MS / 1000 - 3600))
    file = policy(tmp_path, keys_of(tmp_path, str(MARKED), header="id"))
    file.write_text(file.read_text().replace('"note"', '"id"'))
    for _ in range(2):
        code, done = night(run, tmp_path, file)
        assert (code, {table["status"] for table in done}) == (3, {"incomplete"})
    assert "1 file that no snapshot names" in json.dumps(night(run, tmp_path, file, "-n"))
    for place in places:
        for orphan in (place / "data").glob("orphan-*"):
            os.utime(orphan, (0, 0))
    assert night(run, tmp_path, file)[0] == 0
    assert all(hits_below(place, [NOTE(MARKED).encode()]) == [] for place in places)


def test_files_that_an_expiry_has_not_deleted_go_the_next_night(run, tmp_path, monkeypatch):
    places = tables(tmp_path)
    file = policy(tmp_path, keys_of(tmp_path, str(MARKED), header="id"))
    file.write_text(file.read_text().replace('"note"', '"id"'))

    def stop(*_: object, **__: object) -> None:
        raise OSError("the disk is away")

    with monkeypatch.context() as broken:
        broken.setattr(expiry, "remove_files", stop)
        assert night(run, tmp_path, file)[0] == 3
    assert hits_below(places[0], [NOTE(MARKED).encode()])
    planned = json.dumps(night(run, tmp_path, file, "-n"))
    assert "an earlier run has not deleted all files" in planned
    code, done = night(run, tmp_path, file)
    assert (code, {table["status"] for table in done}) == (0, {"done"})
    assert all(hits_below(place, [NOTE(MARKED).encode()]) == [] for place in places)


def test_half_a_key_at_the_end_of_the_file_erases_nothing(run, tmp_path):
    places = tables(tmp_path)
    keys = tmp_path / "gone.txt"
    keys.write_text("4712\n1")  # of 15
    file = policy(tmp_path, keys)
    file.write_text(file.read_text().replace('"note"', '"id"'))
    code, done = night(run, tmp_path, file)
    assert (code, {table["status"] for table in done}) == (3, {"failed"})
    assert all(len(rows_without_lineage(place)) == 21 for place in places)


@pytest.mark.parametrize("content", ["note,asked\n", ""])
def test_a_queue_without_a_key_is_no_work(run, tmp_path, content):
    place, _ = tables(tmp_path)
    keys = tmp_path / "gone.csv"
    keys.write_text(content)
    code, done = night(run, tmp_path, policy(tmp_path, keys))
    assert (code, {table["status"] for table in done}) == (0, {"nothing-to-do"})
    found = health(run, place, settings(tmp_path, keys))
    assert (found["verdict"], found["key_count"], found["problem"]) == ("ok", 0, None)


@pytest.mark.parametrize("years", [(2001, 2100), (2100, 2001)])
def test_a_key_asked_for_twice_counts_once_from_the_first_time(run, tmp_path, years):
    place, _ = tables(tmp_path)
    keys = keys_of(tmp_path, *[f"{NOTE(3)},{year}-01-01" for year in years], header="note,asked")
    found = health(run, place, settings(tmp_path, keys, 'requested-at = "asked"'))
    assert (found["key_count"], found["overdue_file_count"]) == (1, 1)
    code, done = night(run, tmp_path, policy(tmp_path, keys, 'erase.requested-at = "asked"'))
    assert (code, {table["status"] for table in done}) == (0, {"done"})


def test_an_older_snapshot_without_its_list_leaves_other_checks_of_health_as_they_are(
    run, tmp_path
):
    place = tmp_path / "wh" / "db" / "a"
    table = TableBuilder(place)
    for first in (0, 10, 20):
        table.append(range(first, first + 10))
    min((place / "metadata").glob("*-snap-*")).unlink()
    none = tmp_path / "none.toml"
    none.write_text("")
    config = settings(tmp_path, keys_of(tmp_path, NOTE(3)))
    seen = []
    for one in (none, config):
        ended = run(place, "health", "--config", one, "--json", command="inspect")
        assert ended.code == 0, ended.err
        seen.append(checked_document(ended)["result"])
    found = seen[1].pop("erasures")
    assert (found["verdict"], found["command"]) == ("unknown", None)
    assert "missing" in found["withheld"]
    del seen[0]["erasures"], seen[0]["verdict"], seen[1]["verdict"]
    assert seen[0] == seen[1]


def test_a_deadline_that_is_none_names_its_setting_once(run, tmp_path):
    place, _ = tables(tmp_path)
    config = settings(tmp_path, keys_of(tmp_path, NOTE(3)), 'deadline = "bogus"')
    assert health(run, place, config)["problem"] == (
        f"`erase.deadline` in {config}: `bogus` is not a duration"
    )


def test_one_file_holds_matches(run, tmp_path):
    place, _ = tables(tmp_path)
    words = (place, "--keys", keys_of(tmp_path, NOTE(MARKED)), "--key-columns", "note", "-n")
    ended = run(*words, command="erase")
    assert ended.out.startswith("1 key of note: 1 file of 1 snapshot holds matches")
