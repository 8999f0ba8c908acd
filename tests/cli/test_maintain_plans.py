"""Plans of maintenance that are kept and applied: the first step exactly, others within it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from icectl.cli.document import plan_schema
from icectl.env import Env
from tests.builders.orphans import stray
from tests.builders.rows import current_metadata, local, read_metadata
from tests.builders.table_builder import START_MS
from tests.builders.warehouse import ORPHAN, at_rest, broken, ids_of, rotten
from tests.cli.conftest import Ended, Run, checked_document
from tests.stores.fixed_env import FixedEnv

NOW_MS = START_MS + 30 * 86_400_000
PREFIX = "main.db.inner."


@pytest.fixture
def run(prepared: Callable[[str, Env], Run]) -> Run:
    return prepared("apply", FixedEnv(NOW_MS))


def planned(run: Run, place: Path, *words: str) -> dict[str, Any]:
    """Keep a plan of the whole warehouse, which keeps to its schema, and read it."""
    ended = run("main", "-n", "--save-plan", place, "--json", *words, command="maintain")
    assert ended.code in (0, 3), ended.err
    plan: dict[str, Any] = json.loads(place.read_text())
    Draft202012Validator(plan_schema("maintain")).validate(plan)
    return plan


def rows(ended: Ended) -> dict[str, dict[str, Any]]:
    document = json.loads(ended.out)
    assert document["command"] == "maintain"
    checked_document(ended)
    return {row["table"].removeprefix(PREFIX): row for row in document["result"]["tables"]}


def steps(row: dict[str, Any]) -> dict[str, str]:
    return {one["step"]: one["status"] for one in row["steps"]}


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


@pytest.mark.parametrize("jobs", ["1", pytest.param("2", marks=pytest.mark.full)])
def test_a_plan_names_each_step_and_is_applied_within_what_it_names(server, run, tmp_path, jobs):
    table = rotten(server, "rotten")
    at_rest(server, "calm")
    broken(server, "lost")
    before = files(server.warehouse)
    place = tmp_path / "plan.json"
    plan = planned(run, place, "--jobs", jobs)
    assert files(server.warehouse) == before
    assert [one["table"] for one in plan["tables"]] == [PREFIX + "rotten"]
    assert [(one["command"], one["applies"]) for one in plan["tables"][0]["steps"]] == [
        ("compact", "exactly"), ("rewrite-manifests", "within"), ("expire-snapshots", "within"),
        ("remove-orphans", "within"),
    ]  # fmt: skip
    assert plan["tables"][0]["base"]["metadata_location"] == server.current("rotten")
    assert [one["table"] for one in plan["left_out"]] == [PREFIX + "lost"]
    assert plan["instant_ms"] == NOW_MS

    before_run = {name: server.current(name) for name in ("calm", "lost")}
    doomed = {
        local(file["path"])
        for step in plan["tables"][0]["steps"][2:]
        for file in step["result"].get("files", step["result"].get("orphans"))
    }
    later = stray(server.warehouse / "rotten", "data/later.parquet", days=9 * 365)
    built = {path for path in (server.warehouse / "rotten").rglob("*") if path.is_file()}
    ended = run(place, "--json")
    found = rows(ended)
    assert (ended.code, list(found)) == (0, ["rotten"])
    assert steps(found["rotten"]) == {
        "compact": "done", "rewrite-manifests": "nothing-to-do", "expire-snapshots": "done",
        "remove-orphans": "done",
    }  # fmt: skip
    assert (found["rotten"]["before"]["file_count"], found["rotten"]["after"]["file_count"]) == (
        25, 1,
    )  # fmt: skip
    assert ids_of(local(server.current("rotten"))) == sorted(table.ids())
    assert {path for path in built if not path.exists()} <= doomed
    assert not (server.warehouse / "rotten" / ORPHAN).exists()
    assert later.exists()  # which the plan does not name
    assert {name: server.current(name) for name in before_run} == before_run
    noted = read_metadata(local(server.current("rotten")))["properties"]
    assert plan["tables"][0]["steps"][3]["sets"] == {
        "icectl.maintain.last-orphan-scan": noted["icectl.maintain.last-orphan-scan"]
    }


def test_of_a_table_that_has_moved_on_nothing_is_done_and_others_are(server, run, tmp_path):
    moved, kept = rotten(server, "moved"), rotten(server, "kept")
    place = tmp_path / "plan.json"
    planned(run, place)
    moved.append([1000])
    server.execute(
        "UPDATE iceberg_tables SET metadata_location = ? WHERE table_name = 'moved'",
        str(current_metadata(moved.directory)),
    )
    before = files(moved.directory)
    ended = run(place, "--json")
    found = rows(ended)
    assert ended.code == 3
    assert (found["moved"]["status"], steps(found["moved"])) == (
        "conflict", {"compact": "conflict"},
    )  # fmt: skip
    assert found["moved"]["exit"] == 11
    assert files(moved.directory) == before
    assert found["kept"]["status"] == "done"

    ended = run(place, "--allow-newer", "--json")
    found = rows(ended)
    assert (ended.code, found["moved"]["status"]) == (0, "done"), ended.out
    assert steps(found["moved"])["compact"] == "done"
    assert set(steps(found["kept"]).values()) == {"nothing-to-do"}
    assert ids_of(local(server.current("moved"))) == sorted(moved.ids())
    assert ids_of(local(server.current("kept"))) == sorted(kept.ids())


def test_a_dry_run_of_a_plan_tells_what_still_holds_and_changes_nothing(server, run, tmp_path):
    rotten(server, "rotten")
    place = tmp_path / "plan.json"
    planned(run, place)
    before = files(server.warehouse)
    ended = run(place, "--dry-run", "--json")
    assert (ended.code, set(steps(rows(ended)["rotten"]).values())) == (0, {"planned"})
    assert files(server.warehouse) == before


class CommitAfterTheFirst(FixedEnv):
    """Another writer commits to the table once the first step of a plan has ended."""

    def __init__(self, now_ms: int, race: Callable[[], None]) -> None:
        super().__init__(now_ms)
        self.race: Callable[[], None] | None = race

    def monotonic_seconds(self) -> float:
        if self.race is not None:
            self.race()
        return super().monotonic_seconds()


def test_a_step_after_the_commit_of_another_writer_is_not_taken(server, run, tmp_path):
    table = rotten(server, "rotten")
    place = tmp_path / "plan.json"
    planned(run, place)
    base = server.current("rotten")

    def race() -> None:
        current = server.current("rotten")
        if current == base:
            return
        clock.race = None
        metadata = read_metadata(local(current))
        metadata["properties"]["meanwhile"] = "yes"
        newer = local(current).with_name("00099-meanwhile.metadata.json")
        newer.write_text(json.dumps(metadata))
        server.execute(
            "UPDATE iceberg_tables SET metadata_location = ? WHERE table_name = 'rotten'",
            str(newer),
        )

    clock = CommitAfterTheFirst(NOW_MS, race)
    ended = run(place, "--json", env=clock)
    row = rows(ended)["rotten"]
    assert clock.race is None
    assert (ended.code, row["exit"], steps(row)) == (
        3, 11, {"compact": "done", "rewrite-manifests": "conflict"},
    )  # fmt: skip
    assert ids_of(local(server.current("rotten"))) == sorted(table.ids())
    assert (server.warehouse / "rotten" / ORPHAN).exists()


def test_the_policy_and_the_settings_of_a_plan_go_with_it(server, run, tmp_path, monkeypatch):
    rotten(server, "rotten")
    policy = tmp_path / "maintain.toml"
    policy.write_text(
        "window = '22:00-06:00'\nsteps = ['compact', 'expire-snapshots']\n"
        "budget.rewrite-bytes = '25KiB'\ncompact.target-file-size = '20KiB'\n"
    )
    monkeypatch.setenv("ICECTL_EXPIRE_SNAPSHOTS_RETAIN_LAST", "2")
    place = tmp_path / "plan.json"
    compact, expire = planned(run, place, "--policy", str(policy))["tables"][0]["steps"]
    named = sum(len(group["files"]) for group in compact["result"]["groups"])
    monkeypatch.setenv("ICECTL_EXPIRE_SNAPSHOTS_RETAIN_LAST", "1")
    monkeypatch.setenv("ICECTL_COMPACT_TARGET_FILE_SIZE", "1GiB")
    policy.unlink()
    ended = run(place, "--json")
    assert ended.code == 0, ended.out
    figures = {one["step"]: one["figures"] for one in rows(ended)["rotten"]["steps"]}
    assert figures["compact"]["rewritten_data_files"] == named < 24
    assert figures["expire-snapshots"]["expired"] == len(expire["result"]["expired"]) == 11


def test_a_plan_of_maintenance_that_was_changed_is_refused(server, run, tmp_path):
    rotten(server, "rotten")
    place = tmp_path / "plan.json"
    plan = planned(run, place)
    del plan["tables"][0]["steps"][0]
    place.write_text(json.dumps(plan))
    ended = run(place, "--json")
    assert (ended.code, json.loads(ended.out)["error"]["id"]) == (5, "plan-changed")


def test_a_plan_in_which_there_is_nothing_to_do_is_one_too(server, run, tmp_path):
    at_rest(server, "calm")
    place = tmp_path / "plan.json"
    assert planned(run, place)["tables"] == []
    noted = run("main", "-n", "--save-plan", place, command="maintain").err
    assert f"there is nothing to do: the plan in {place} is empty\n" in noted
    assert run(place).out == "\n0 tables\n"
    before = server.current("calm")
    ended = run(place, "--json")
    assert (ended.code, json.loads(ended.out)["status"]) == (0, "nothing-to-do")
    assert server.current("calm") == before
    ended = run("main", "--yes", "--save-plan", place, "--json", command="maintain")
    assert ended.code == 2


def test_a_plan_that_others_read_holds_no_secret(server, run, tmp_path):
    rotten(server, "rotten", appends=3)
    policy, place = tmp_path / "maintain.toml", tmp_path / "plan.json"
    for line in (
        "compact.spark-conf = ['spark.hadoop.fs.s3a.secret.key=hidden']",
        "remove-orphans.spark-conf = ['spark.hadoop.fs.s3a.secret.key=hidden']",
        "compact.remote = 'sc://spark:15002/;token=hidden'",
    ):
        policy.write_text(f"{line}\nsteps = ['expire-snapshots']\n")
        words = ("main", "-n", "--save-plan", place, "--policy", policy, "--json")
        ended = run(*words, command="maintain")
        assert (ended.code, "hidden" in place.read_text() + ended.out + ended.err) == (0, False)
        place.unlink()
