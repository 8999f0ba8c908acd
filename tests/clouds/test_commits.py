"""Whole runs of the commands on every other cloud's store: one winner a version, no row lost."""

import json
import time
from typing import Any

import pytest

from icectl.cli import app, engines
from icectl.storage.open import StorageOptions, open_store
from tests.builders.commits import check_one_commits_each_version
from tests.builders.expiry import NOW_MS
from tests.builders.inline_engine import InlineEngine
from tests.builders.table_builder import filled_table
from tests.clouds.conftest import CloudBucket
from tests.s3.test_commits import COMMITTING, Run, build
from tests.stores.fixed_env import FixedEnv


@pytest.fixture
def run(
    bucket: CloudBucket, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Run:
    """Run a command with --json on a table of the bucket."""
    monkeypatch.setattr(engines, "LocalEngine", InlineEngine)

    def run_command(
        command: str, table: str, *arguments: str, now_ms: int = NOW_MS
    ) -> tuple[int, dict[str, Any]]:
        words = [command, bucket.location(table), *arguments, "--json", *bucket.arguments]
        code = app.main(words, env=FixedEnv(now_ms))
        document: dict[str, Any] = json.loads(capsys.readouterr().out)
        return code, document

    return run_command


def test_a_table_is_inspected_and_validated(bucket, run):
    build(bucket, "t", 2)
    code, seen = run("inspect", "t")
    assert (code, seen["result"]["format_version"]) == (0, 2)
    code, checked = run("validate", "t", "--level", "data", "--all-snapshots")
    assert (code, checked["result"]["findings"]) == (0, [])


def test_an_expiry_keeps_rows_and_deletes_what_only_it_needed(bucket, run, monkeypatch):
    build(bucket, "t", 2)
    before, keys = bucket.rows("t", monkeypatch), bucket.keys("t")
    code, done = run("expire-snapshots", "t", "--older-than", "1m", "--retain-last", "1", "--yes")
    assert (code, done["status"], done["warnings"]) == (0, "done", [])
    expired = {int(item["snapshot_id"]) for item in done["result"]["expired"]}
    after = bucket.rows("t", monkeypatch)
    assert after == {id_: rows for id_, rows in before.items() if id_ not in expired}
    gone = {
        item["path"].removeprefix(f"{bucket.location('t')}/") for item in done["result"]["files"]
    }
    added = bucket.keys("t") - keys
    assert gone
    assert bucket.keys("t") == (keys - gone) | added
    assert [name for name in added if "icectl-" in name] == []


@pytest.mark.parametrize("name", COMMITTING)
def test_other_commands_commit_and_validate_finds_nothing(bucket, run, monkeypatch, name):
    (command, *options), version = COMMITTING[name]
    build(bucket, "t", version)
    before = bucket.rows("t", monkeypatch)
    code, done = run(command, "t", *options, "--yes")
    assert (code, done["status"]) == (0, "done")
    after = bucket.rows("t", monkeypatch)
    assert {id_: after[id_] for id_ in before} == before
    code, checked = run("validate", "t", "--level", "data", "--all-snapshots")
    assert (code, checked["result"]["findings"]) == (0, [])


def test_a_version_3_table_is_upgraded(bucket, run):
    build(bucket, "t", 3)
    code, done = run("upgrade-to-v4", "t", "--layout=sfc-1", "--yes")
    assert (code, done["status"]) == (0, "done")
    assert run("inspect", "t")[1]["result"]["format_version"] == 4


def test_orphans_go_and_rows_stay(bucket, run, monkeypatch):
    build(bucket, "t", 2)
    before, keys = bucket.rows("t", monkeypatch), bucket.keys("t")
    for number in range(3):
        bucket.put(f"wh/t/data/orphan {number}%20.parquet", b"no longer needed")
    time.sleep(1.1)  # the servers' clocks go in whole seconds
    at_once = ("--older-than", "0s", "--allow-recent", "--max-fraction", "1", "--yes")
    code, done = run("remove-orphans", "t", *at_once, now_ms=time.time_ns() // 1_000_000)
    assert (code, done["result"]["removed"], done["result"]["failed"]) == (0, 3, []), done
    assert bucket.keys("t") == keys
    assert bucket.rows("t", monkeypatch) == before


def test_a_lost_file_is_repaired_away(bucket, run):
    build(bucket, "t", 2)
    store = open_store(StorageOptions(dict(bucket.options)), FixedEnv())
    lost = min(key for key in bucket.keys("t") if key.startswith("data/") and "delete" not in key)
    assert list(store.remove([f"{bucket.location('t')}/{lost}"])) == []
    assert run("validate", "t")[0] == 4
    code, done = run("repair", "t", "--drop-missing", "--yes")
    assert (code, done["status"]) == (0, "done")
    code, checked = run("validate", "t")
    assert (code, checked["result"]["findings"]) == (0, [])


def test_of_eight_committers_one_wins_each_version(bucket):
    filled_table(bucket.directory / "t", range(3), location=bucket.location("t"))
    bucket.upload("t")
    options = StorageOptions(dict(bucket.options), concurrency=2)
    check_one_commits_each_version(bucket.location("t"), lambda env: open_store(options, env), 10)
    assert [name for name in bucket.keys("t") if "probe" in name] == []
