"""`icectl upgrade-to-v3` from the command line: rows, row ids, vectors, and what is refused."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from icectl.cli import session
from icectl.env import Env
from icectl.storage.local.store import LocalStore
from tests.builders.broken import Broken
from tests.builders.commits import set_properties
from tests.builders.expiry import NOW_MS, Clock
from tests.builders.first_writers import as_first_writers_did
from tests.builders.rows import current_metadata, read_avro, read_metadata, rows_by_snapshot
from tests.builders.table_builder import TableBuilder, filled_table
from tests.cli.conftest import Run, result
from tests.stores.fixed_env import FixedEnv
from tests.stores.wrapped import ReadOnlyStore

CONVERT = "--convert-position-deletes"


@pytest.fixture
def upgrade(prepared: Callable[[str, Env], Run]) -> Run:
    """Run `icectl upgrade-to-v3`."""
    return prepared("upgrade-to-v3", FixedEnv(NOW_MS))


def build(directory: Path, version: int, *, embeds: bool = False) -> TableBuilder:
    """A table of two branches and a tag: with deletes of both kinds, or as the first writers."""
    table = TableBuilder(directory, format_version=version, partitioning="identity")
    for start in (0, 12):
        table.append(range(start, start + 12))
    table.ref("eoy", "tag")
    if version == 2:
        table.delete_rows([1, 2, 13])
        table.delete_rows([20, 21], kind="equality")
    table.ref("audit", "branch")
    table.append(range(100, 106), branch="audit")
    if embeds:
        as_first_writers_did(directory)
    return table


def members(directory: Path) -> dict[str, Any]:
    return read_metadata(current_metadata(directory))


def errors(validated: Any) -> list[Any]:
    return [one for one in validated.document["result"]["findings"] if one["severity"] == "error"]


def live_deletes(directory: Path) -> set[tuple[int, str]]:
    """Content and format of the live delete files of the current snapshot."""
    new = members(directory)
    head = next(s for s in new["snapshots"] if s["snapshot-id"] == new["current-snapshot-id"])
    return {
        (entry["data_file"]["content"], entry["data_file"]["file_format"].upper())
        for manifest in read_avro(head["manifest-list"])
        if manifest["content"] == 1
        for entry in read_avro(manifest["manifest_path"])
        if entry["status"] != 2
    }


@pytest.mark.parametrize("more", [[], [CONVERT]], ids=["", "with vectors"])
@pytest.mark.parametrize(("version", "embeds"), [(1, False), (1, True), (2, False)])
def test_an_upgrade_keeps_the_law(tmp_path, upgrade, monkeypatch, version, embeds, more):
    """The plan writes nothing; rows stay; nothing is wrong; a second run has nothing to do."""
    directory = tmp_path / "t"
    table = build(directory, version, embeds=embeds)
    before, heads = rows_by_snapshot(directory), members(directory)["refs"]
    with monkeypatch.context() as patch:
        patch.setattr(session, "open_store", lambda *_: ReadOnlyStore(LocalStore()))
        planned = upgrade(table.location, "--dry-run", "--json", *more)
        assert upgrade(table.location, "--check", *more).code == 4
    assert (planned.code, planned.document["status"]) == (0, "planned")
    done = upgrade(table.location, "--yes", "--json", *more)
    assert (done.code, done.document["status"]) == (0, "done")
    found = result(done)
    assert {**found, "snapshot_id": None} == result(planned)
    assert (found["from_version"], found["to_version"]) == (version, 3)

    new = members(directory)
    assert new["format-version"] == 3
    after = rows_by_snapshot(directory)
    assert {id_: after[id_] for id_ in before} == before
    for name, ref in new["refs"].items():
        assert after[ref["snapshot-id"]] == before[heads[name]["snapshot-id"]]
    again = upgrade(table.location, "--yes", "--json", *more)
    assert (again.code, again.document["status"]) == (0, "nothing-to-do")
    words = ("--level", "data", "--all-snapshots", "--json")
    assert errors(upgrade(table.location, *words, command="validate")) == []


def test_r106_r174_old_snapshots_have_no_ids_and_the_first_commit_of_each_branch_assigns_them(
    tmp_path, upgrade
):
    table = build(tmp_path / "t", 2)
    assert upgrade(table.location, "--yes").code == 0
    new = members(tmp_path / "t")
    assert new["next-row-id"] == 0
    assert not any("first-row-id" in snapshot for snapshot in new["snapshots"])
    compacted = ("--rewrite-all", "--engine", "local")
    assert upgrade(table.location, *compacted, command="compact").code == 0
    next_id = members(tmp_path / "t")["next-row-id"]
    assert next_id >= 24 - 5  # all live rows of main, none of the other branch
    assert upgrade(table.location, "--branch", "audit", *compacted, command="compact").code == 0
    audit = members(tmp_path / "t")["snapshots"][-1]
    assert (audit["first-row-id"], members(tmp_path / "t")["next-row-id"]) == (
        next_id,
        next_id + audit["added-rows"],
    )


def test_r115_position_deletes_of_all_branches_become_vectors(tmp_path, upgrade):
    table = build(tmp_path / "t", 2)
    assert live_deletes(tmp_path / "t") == {(1, "PARQUET"), (2, "PARQUET")}
    assert upgrade(table.location, "--yes").code == 0
    assert live_deletes(tmp_path / "t") == {(1, "PARQUET"), (2, "PARQUET")}
    ended = upgrade(table.location, "--yes", "--json", CONVERT)  # what a killed run would leave
    assert (ended.code, ended.document["status"]) == (0, "done")
    assert [step["step"] for step in result(ended)["steps"]] == ["convert-position-deletes"]
    assert live_deletes(tmp_path / "t") == {(1, "PUFFIN"), (2, "PARQUET")}
    before = members(tmp_path / "t")["snapshots"][-1]["snapshot-id"]
    branches = [ref for ref in members(tmp_path / "t")["refs"].values() if ref["type"] == "branch"]
    assert before in [ref["snapshot-id"] for ref in branches]
    assert len(members(tmp_path / "t")["snapshots"]) == 5 + 2  # one commit per branch


def test_r102_lists_without_counts_are_written_again_first(tmp_path, upgrade):
    """Row ids go by the counts."""
    table = filled_table(tmp_path / "t", range(12), range(12, 24), format_version=1)
    before = rows_by_snapshot(tmp_path / "t")
    lacking = {"added_rows_count": None, "existing_rows_count": None}
    Broken(tmp_path / "t").edit_lists(lambda row: row.update(lacking))
    ended = upgrade(table.location, "--yes", "--json")
    assert (ended.code, ended.document["status"]) == (0, "done")
    assert result(ended)["steps"][0]["step"] == "count-rows"
    new = members(tmp_path / "t")
    head = next(s for s in new["snapshots"] if s["snapshot-id"] == new["current-snapshot-id"])
    counts = [
        row["added_rows_count"] + row["existing_rows_count"]
        for row in read_avro(head["manifest-list"])
    ]
    assert (new["format-version"], sum(counts)) == (3, 24)
    assert rows_by_snapshot(tmp_path / "t").items() >= before.items()


def column(name: str, **more: Any) -> Callable[[dict[str, Any]], None]:
    """Give the first column another name or other members, in the current schema."""

    def change(found: dict[str, Any]) -> None:
        found["schemas"][0]["fields"][0].update({"name": name, **more})

    return change


def numbered(found: dict[str, Any]) -> None:
    found["snapshots"][0].update({"first-row-id": 0, "added-rows": 12})


REFUSED: dict[str, tuple[Callable[[dict[str, Any]], None], str]] = {
    "a reserved name": (column("_row_id"), "R-019"),
    "a reserved name, to engines that ignore case": (column("_Row_ID"), "R-019"),
    "a reserved id": (column("id", id=2_147_483_540), "R-019"),
    "a default that would apply now": (column("id", **{"initial-default": 7}), "R-182"),
    "row ids of a table that was version 3": (numbered, "R-177"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_version_3_would_take_otherwise_is_refused(tmp_path, upgrade, name):
    table = filled_table(tmp_path / "t", range(4))
    change, rule = REFUSED[name]
    Broken(tmp_path / "t").edit(change)
    before = current_metadata(tmp_path / "t").read_bytes()
    checked = upgrade(table.location, "--check", "--json")
    assert (checked.code, checked.document["status"]) == (5, "refused")
    assert rule in {item["rule"] for item in result(checked)["findings"]}
    refused = upgrade(table.location, "--yes", "--json")
    assert (refused.code, refused.document["error"]["id"]) == (5, "not-upgradable")
    assert current_metadata(tmp_path / "t").read_bytes() == before


def test_r051_a_list_that_counts_too_few_rows_is_refused(tmp_path, upgrade):
    """The next manifest would get row ids that rows of this one have."""
    table = filled_table(tmp_path / "t", range(4))
    Broken(tmp_path / "t").edit_lists(lambda row: row.update({"added_rows_count": 3}))
    refused = upgrade(table.location, "--yes")
    assert refused.code == 5
    assert "(R-051)" in refused.err


def test_r177_a_vector_in_version_2_is_refused(tmp_path, upgrade):
    table = filled_table(tmp_path / "t", range(4))
    table.delete_rows([1])
    puffin = {"file_format": "PUFFIN"}
    Broken(tmp_path / "t").edit_manifest(
        lambda entries: [entry["data_file"].update(puffin) for entry in entries] and None,
        content=1,
    )
    refused = upgrade(table.location, "--yes")
    assert refused.code == 5
    assert "(R-177)" in refused.err


JAVA = "Apache Iceberg {} (commit 7)"
SPARK = {"engine-name": "spark", "engine-version": "3.4.1"}
TRINO = {"engine-name": "trino", "engine-version": "479"}
WRITERS: dict[str, tuple[list[dict[str, str]], list[str]]] = {
    "none that is known": ([{}], []),
    "new enough": ([{"engine-name": "spark", "iceberg-version": JAVA.format("1.10.0")}], []),
    "an old Spark": (
        [{**SPARK, "iceberg-version": JAVA.format("1.5.0")}],
        ["engine spark: release 3.4.1 with Apache Iceberg 1.5"],
    ),
    "updated since": (
        [
            {"engine-name": "flink", "iceberg-version": JAVA.format("1.9.2")},
            {"engine-name": "flink", "iceberg-version": JAVA.format("1.11.0")},
        ],
        [],
    ),
    "Trino, whose own number counts": (
        [{**TRINO, "iceberg-version": JAVA.format("1.10.0")}],
        ["engine trino: release 479"],
    ),
    "two of them": (
        [{"created-by": JAVA.format("1.4.3")}, {"engine-name": "trino", "engine-version": "400"}],
        ["engine without a name: Apache Iceberg 1.4", "engine trino: release 400"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRITERS)
def test_r176_engines_that_are_too_old_are_named(tmp_path, upgrade, name):
    summaries, expected = WRITERS[name]
    table = filled_table(tmp_path / "t", *([start] for start, _ in enumerate(summaries)))

    def change(found: dict[str, Any]) -> None:
        for snapshot, summary in zip(found["snapshots"], summaries, strict=True):
            snapshot["summary"].update(summary)

    Broken(tmp_path / "t").edit(change)
    planned = upgrade(table.location, "--dry-run", "--json")
    named = [f"{one['subject']}: {one['message']}" for one in result(planned)["findings"]]
    assert [text.partition(" wrote its snapshot of ")[0] for text in named] == expected
    assert {one["severity"] for one in result(planned)["findings"]} <= {"warning"}
    assert upgrade(table.location, "--yes").code == 0


def test_what_others_commit_after_the_plan_is_judged_too(tmp_path, upgrade, monkeypatch):
    """A column of a reserved name comes between plan and commit."""
    from icectl.commands.migrate_v1_v2 import run as migrating

    table = filled_table(tmp_path / "t", range(4))
    prepare = migrating.prepare

    def and_change(*arguments: Any) -> Any:
        prepared = prepare(*arguments)
        set_properties(tmp_path / "t", Clock(NOW_MS), {"another": "writer"})
        Broken(tmp_path / "t").edit(column("_row_id"))
        return prepared

    monkeypatch.setattr(migrating, "prepare", and_change)
    refused = upgrade(table.location, "--yes")
    assert refused.code == 5
    assert "(R-019)" in refused.err
    assert members(tmp_path / "t")["format-version"] == 2


@pytest.mark.parametrize("version", [3, 4])
def test_a_table_of_version_3_or_later_has_nothing_to_do(tmp_path, upgrade, version):
    table = filled_table(tmp_path / "t", range(3), format_version=3)
    table.delete_rows([1])
    if version == 4:
        words = ("--layout", "iceberg-1.12", "--yes")
        assert upgrade(table.location, *words, command="upgrade-to-v4").code == 0
    for more in ([], [CONVERT]):
        ended = upgrade(table.location, "--json", *more)
        assert (ended.code, ended.document["status"]) == (0, "nothing-to-do")


def test_a_metadata_file_beside_a_table_is_wrong_usage(tmp_path, upgrade):
    table = build(tmp_path / "t", 2)
    assert upgrade(table.location, "--yes", CONVERT, "--metadata-file", "x").code == 2
    assert json.loads(current_metadata(tmp_path / "t").read_text())["format-version"] == 2


def test_the_plan_says_what_is_lost(tmp_path, upgrade):
    text = upgrade(build(tmp_path / "t", 2).location, "--dry-run", CONVERT).out
    assert "`next-row-id` is 0" in text
    assert "with deletion vectors, a commit per branch" in text
    assert "this cannot be undone: no engine takes a table back to version 2" in text
