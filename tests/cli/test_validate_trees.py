"""`icectl validate` on sound tables of version 4, after every way to get there; its options."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from icectl.cli import app
from tests.builders.broken_tree import ADDED, BITMAP, DATA, DATA_LEAF, BrokenTree, in_row, of
from tests.builders.rows import local
from tests.builders.table_builder import START_MS, TableBuilder
from tests.builders.tree_table import data_files, remove_data_files, upgrade
from tests.stores.fixed_env import FixedEnv

Run = Callable[..., tuple[int, Any]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command with `--json`; its exit code and result."""
    env = FixedEnv(START_MS + 10**9, snapshot_ids=5_000, uuids=5_000)

    def run_(*words: str) -> tuple[int, Any]:
        return app.main([*words, "--json"], env=env), json.loads(capsys.readouterr().out)["result"]

    return run_


def worse_than_info(run: Run, table: Path, level: str = "files") -> list[dict[str, str]]:
    """Errors and warnings up to a level."""
    _, result = run("validate", str(table), "--level", level, "--all-snapshots")
    return [one for one in result["findings"] if one["severity"] != "info"]


@pytest.mark.parametrize(
    ("version", "partitioning", "mode"),
    [
        (1, "day", "--lazy"), (2, "truncate", "--eager"), (2, "bucket", ""), (3, "two", ""),
        (3, "none", "--eager"),
    ],
)  # fmt: skip
def test_an_upgraded_table_stays_sound_through_commits_and_maintenance(
    run, tmp_path, version, partitioning, mode
):
    table = tmp_path / "t"
    builder = TableBuilder(table, version, partitioning)
    builder.append(range(24), files=2)
    builder.append(range(24, 40))
    if version > 1:
        builder.delete_rows([1, 2, 30])
    if version == 2:
        builder.delete_rows([5, 31], kind="equality")
    env = FixedEnv(START_MS + 10**8)
    upgrade(table, env, *[mode] * bool(mode))
    assert worse_than_info(run, table) == []
    remove_data_files(table, env, data_files(table)[:1])
    remove_data_files(table, env, data_files(table)[-1:])
    assert run("rewrite-manifests", str(table), "--yes")[0] == 0
    assert worse_than_info(run, table) == []
    assert (
        run("expire-snapshots", str(table), "--retain-last", "1", "--older-than", "0s", "--yes")[0]
        == 0
    )
    assert worse_than_info(run, table, "data") == []


@pytest.fixture
def broken(healthy: Callable[..., Path]) -> BrokenTree:
    """A table with an error in its head and a warning, and none in the snapshots before."""
    table = BrokenTree(healthy("grown"))
    table.edit_root(in_row(DATA, split_offsets=[9, 4]))
    table.edit_head(lambda head: head["summary"].update({"total-records": "5"}))
    return table


def rules(result: Any) -> set[str]:
    return {one["rule"] for one in result["findings"]}


def test_rules_of_version_4_are_chosen_and_left_out_by_their_ids(run, broken):
    table = str(broken.directory)
    assert rules(run("validate", table)[1]) == {"V4-038", "V4-061"}
    assert rules(run("validate", table, "--rule", "v4-061")[1]) == {"V4-061"}
    code, result = run("validate", table, "--skip", "V4-061")
    assert (code, rules(result)) == (0, {"V4-038"})
    assert run("validate", table, "--skip", "V4-061", "--fail-on", "warning")[0] == 4


def test_a_snapshot_or_ref_of_version_4_is_checked_alone(run, broken):
    table, snapshots = str(broken.directory), broken.members()["snapshots"]
    code, result = run("validate", table, "--snapshot", str(snapshots[-2]["snapshot-id"]))
    assert (code, result["findings"], result["snapshots_checked"]) == (0, [], 1)
    assert rules(run("validate", table, "--ref", "main")[1]) == {"V4-038", "V4-061"}
    assert rules(run("validate", table, "--ref", "eoy")[1]) == set()


def test_a_part_of_the_files_is_enough_for_a_sample(run, broken):
    table = str(broken.directory)
    _, whole = run("validate", table, "--level", "data")
    _, part = run("validate", table, "--level", "data", "--sample", "1%")
    assert part["files_checked"] < whole["files_checked"]


def test_what_cannot_be_read_is_a_finding_and_the_check_goes_on(run, broken):
    leaf = local(of(broken.rows(), 4)["location"])
    leaf.write_bytes(leaf.read_bytes()[:-9])
    with_one = in_row(BITMAP, ADDED, record_count=9)
    broken.edit_root(with_one)
    code, result = run("validate", str(broken.directory))
    assert code == 4
    assert rules(result) == {"V4-038", "V4-061", "V4-082", "V4-100"} - {"V4-038"}


def test_a_file_of_the_upstream_draft_is_named_as_such(run, broken):
    broken.edit_root(in_row(DATA, status=4))
    _, result = run("validate", str(broken.directory))
    (found,) = (one for one in result["findings"] if one["rule"] == "V4-050")
    assert "upstream draft" in found["message"]


def test_r161_files_outside_of_the_table_are_counted(run, broken):
    broken.edit(lambda members: members.update({"location": "file:///elsewhere"}))
    _, result = run("validate", str(broken.directory), "--level", "metadata", "--rule", "R-161")
    (found,) = result["findings"]
    assert found["message"].startswith("14 files lie outside of the table")


def test_v4_100_a_leaf_with_a_destroyed_page_in_any_of_its_columns_is_found(run, healthy):
    table = BrokenTree(healthy("eager"))
    path = local(next(row for row in table.rows() if row["content_type"] == DATA_LEAF)["location"])
    content = path.read_bytes()
    group = pq.ParquetFile(path).metadata.row_group(0)
    chunks = [group.column(at) for at in range(group.num_columns)]
    for chunk in (chunks[0], chunks[len(chunks) // 2], chunks[-1]):
        end = chunk.data_page_offset + 1
        path.write_bytes(content[: end - 1] + b"\xff" + content[end:])
        assert run("validate", str(table.directory), "--level", "data", "--rule", "V4-100")[0] == 4
