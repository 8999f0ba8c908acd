"""rewrite-manifests beside other writers: their commits stand, only what they changed is redone."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.builders.rows import current_metadata, read_metadata, read_rows
from tests.builders.table_builder import TableBuilder
from tests.fault.changing import run
from tests.fault.writers import (
    BeforeStore,
    MeanwhileStore,
    build,
    check_clean,
    left_over,
    paths,
    presume_dead,
    shown,
)


def rewrite(table: TableBuilder, store: MeanwhileStore, *options: str) -> tuple[int, Any]:
    return run(["rewrite-manifests", table.location, *options, "--yes", "--json"], store)


CHANGES: dict[str, Callable[[TableBuilder], object]] = {
    "an append": lambda table: table.append(range(60, 72)),
    "files removed": lambda table: table.remove_data_files(3),
    "files merged": lambda table: table.replace_data_files(2),
    "rows deleted": lambda table: table.delete_rows([25, 26]),
}


@pytest.mark.by_turns(3)
@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("version", [1, 2, 3])
def test_rule_25_what_another_writer_commits_meanwhile_stands(tmp_path, version, change, times):
    if version == 1 and change == "rows deleted":
        pytest.skip("version 1 has no deletes")
    table = build(tmp_path / "t", version)
    expected: list[Any] = []

    def meanwhile() -> None:
        CHANGES[change](table)
        expected[:] = [shown(table), paths(table)]

    code, document = rewrite(table, MeanwhileStore(meanwhile, times))

    assert (code, document["status"]) == (0, "done"), document
    assert [shown(table), paths(table)] == expected
    assert set(paths(table).values()) == {1}
    check_clean(table)


def test_rule_25_an_append_makes_no_manifest_anew(tmp_path):
    table = build(tmp_path / "t", 2)
    store = MeanwhileStore(lambda: table.append(range(60, 72)))
    code, document = rewrite(table, store)
    assert code == 0
    assert store.lists == 2
    assert store.manifests == document["result"]["added"] == 1


def test_what_another_run_has_rewritten_is_not_rewritten_again(tmp_path):
    table = build(tmp_path / "t", 2)
    before = shown(table)
    codes = []

    def other_run() -> None:
        codes.append(run(["rewrite-manifests", table.location, "--yes", "--json"])[0])

    code, _ = rewrite(table, MeanwhileStore(other_run))
    assert (codes, code) == ([0], 11)
    assert shown(table) == before
    assert set(paths(table).values()) == {1}


@pytest.mark.parametrize(
    ("version", "layout", "changed"),
    [(2, "sfc-1", "format version"), (4, "iceberg-1.12", "layout")],
)
def test_v4_033_a_table_of_another_layout_meanwhile_gets_no_snapshot_of_the_old_one(
    tmp_path, version, layout, changed
):
    table = build(tmp_path / "t", version)
    codes = []

    def upgraded() -> None:
        line = ["upgrade-to-v4", "--layout", layout, table.location, "--yes", "--json"]
        codes.append(run(line)[0])

    code, document = rewrite(table, MeanwhileStore(upgraded), "--rewrite-all")
    assert (codes, code) == ([0], 11), document
    assert document["error"]["message"] == f"the table's {changed} has changed since then"
    assert run(["validate", table.location, "--json"])[0] == 0


def test_r_043_a_table_that_becomes_one_of_version_2_meanwhile_gets_no_manifest_of_version_1(
    tmp_path,
):
    table = build(tmp_path / "t", 1)
    before, codes = shown(table), []

    def migrated() -> None:
        codes.append(run(["migrate-v1-v2", table.location, "--yes", "--json"])[0])

    code, document = rewrite(table, MeanwhileStore(migrated))
    assert (codes, code) == ([0], 11), document
    assert shown(table) == before
    check_clean(table)


def row_ids(table: TableBuilder) -> dict[str, int | None]:
    """The first row id of each live data file."""
    _, document = run(["inspect", table.location, "files", "--json"])
    rows = document["result"]["rows"]
    return {row["file_path"]: row["first_row_id"] for row in rows if row["content"] == 0}


@pytest.mark.parametrize("change", ["an append", "files removed"])
def test_r_102_rows_keep_the_ids_that_another_writer_gives_them_meanwhile(tmp_path, change):
    """The first commit after the upgrade to version 3 gives ids to the files of all manifests."""
    table = build(tmp_path / "t", 2)
    table.upgrade()
    expected: dict[str, int | None] = {}

    def meanwhile() -> None:
        CHANGES[change](table)
        expected.update(row_ids(table))

    code, document = rewrite(table, MeanwhileStore(meanwhile))
    assert code == 0, document
    assert None not in expected.values()
    assert row_ids(table) == expected
    check_clean(table)


@pytest.mark.parametrize("presumed_dead", [False, True])
@pytest.mark.parametrize("moment", ["snap-", ".metadata.json"])
def test_a_run_on_a_branch_does_not_disturb_one_on_main(tmp_path, moment, presumed_dead):
    """The other commits between any two steps of this one's commit; even where it takes this one
    for dead, only what no commit can name any more goes."""
    table = build(tmp_path / "t", 2)
    table.ref("audit", "branch")
    table.append(range(100, 106), branch="audit")
    before, codes = shown(table), []

    def other_run() -> None:
        if presumed_dead:
            presume_dead(table)
        line = ["rewrite-manifests", table.location, "--branch", "audit", "--yes", "--json"]
        codes.append(run(line)[0])

    code, document = rewrite(table, BeforeStore(moment, other_run))
    assert (codes, code) == ([0], 11 if presumed_dead else 0), document
    assert shown(table) == before
    check_clean(table)
    assert rewrite(table, MeanwhileStore(table.live, 0))[0] == 0
    assert shown(table) == before
    assert left_over(table) == []


def test_a_run_that_is_taken_for_dead_may_still_land_where_nobody_else_commits(tmp_path):
    """The mark comes after this run has looked for it, and the other has nothing to commit: so it
    removes nothing."""
    table = build(tmp_path / "t", 2)
    before, others = shown(table), []

    def other_run() -> None:
        presume_dead(table)
        line = ["rewrite-manifests", table.location, "--content", "deletes", "--yes", "--json"]
        others.append(run(line)[1]["status"])

    code, _ = rewrite(table, BeforeStore(".metadata.json", other_run))
    assert (others, code) == (["nothing-to-do"], 0)
    assert shown(table) == before
    check_clean(table)
    assert left_over(table) == []


def test_a_branch_is_redone_on_its_own_head(tmp_path):
    table = build(tmp_path / "t", 2)
    table.ref("audit", "branch")
    for start in (100, 106):
        table.append(range(start, start + 6), branch="audit")
    main = shown(table)
    code, document = rewrite(
        table, MeanwhileStore(lambda: table.append(range(60, 72))), "--branch", "audit"
    )
    assert (code, document["status"]) == (0, "done")
    assert len(shown(table)) == len(main) + 12
    metadata = read_metadata(current_metadata(Path(table.location)))
    assert len(read_rows(metadata, metadata["refs"]["audit"]["snapshot-id"])) == len(main) + 12
