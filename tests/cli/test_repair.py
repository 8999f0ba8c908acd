"""`icectl repair`: what it sets right, what it refuses, and that it invents and loses no row."""

import json
import os
import re
import shlex
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from icectl.catalog.files import FileSystemCatalog
from icectl.cli import app
from tests.builders.broken import (
    DELETED,
    Broken,
    in_first,
    r042_an_entry_without_any_snapshot_id,
    read_records,
    rewrite_avro,
)
from tests.builders.broken_tree import (
    BrokenTree,
    v4_180_a_root_that_is_gone,
    v4_181_a_leaf_that_is_gone,
)
from tests.builders.folders import contents_of
from tests.builders.lost_manifests import date_files
from tests.builders.orphans import edit_metadata
from tests.builders.rows import current_metadata, ids_of, read_metadata, read_rows
from tests.builders.table_builder import START_MS, TableBuilder, filled_table, worn_table
from tests.cli.conftest import checked_document, result_of

DAY_MS = 86_400_000


@pytest.fixture
def table(tmp_path: Path) -> TableBuilder:
    """Three data files and a position delete file, each of a snapshot of its own."""
    built = filled_table(tmp_path / "t", *(range(start, start + 4) for start in (0, 4, 8)))
    built.delete_rows([1, 5])
    return built


def kinds(result: dict[str, Any]) -> list[str]:
    return [one["kind"] for one in result["repairs"]]


def age(path: Path) -> None:
    """Let a file be older than any commit takes."""
    old = START_MS / 1000
    os.utime(path, (old, old))


def truncate_newest(directory: Path) -> Path:
    newest = current_metadata(directory)
    newest.write_bytes(newest.read_bytes()[:-200])
    age(newest)
    return newest


# -- what leads to the metadata -----------------------------------------------------------------


@pytest.mark.parametrize("says", ["2", "77", "what"])
def test_r163_a_version_hint_says_the_newest_version_afterwards(repair, table, says):
    hint = table.directory / "metadata" / "version-hint.text"
    hint.write_text(says)
    newest = current_metadata(table.directory)
    assert repair(table.directory, "--check").code == 4
    assert kinds(result_of(repair(table.directory, "--yes", "--json"))) == ["version-hint"]
    assert hint.read_text() == "5"
    assert current_metadata(table.directory) == newest
    assert repair(table.directory, "--check").code == 0


def test_a_truncated_metadata_file_is_moved_aside_and_kept(repair, table):
    before = contents_of(table.directory)
    newest = truncate_newest(table.directory)
    stored = newest.read_bytes()
    planned = result_of(repair(table.directory, "--dry-run", "--json"))
    assert kinds(planned) == ["metadata-file", "version-hint"]
    assert newest.read_bytes() == stored

    result_of(repair(table.directory, "--yes", "--json"))
    assert current_metadata(table.directory).name == "v4.metadata.json"
    (aside,) = (table.directory / "metadata").glob("_broken-v5.metadata.json-*")
    assert aside.read_bytes() == stored
    now = contents_of(table.directory)
    assert {path for path in before if path not in now} == {newest}
    assert ids_of(table.directory) == list(range(12))
    assert result_of(repair(table.directory, "--yes", "--json"))["repairs"] == []


def test_a_young_metadata_file_may_still_be_written_and_is_left_alone(repair, table):
    newest = truncate_newest(table.directory)
    now = (START_MS + 365 * DAY_MS - 60_000) / 1000
    os.utime(newest, (now, now))
    before = contents_of(table.directory)
    ended = repair(table.directory, "--yes")
    assert ended.code == 5
    assert "a writer may be writing it" in ended.err
    assert contents_of(table.directory) == before


def test_older_files_than_the_one_before_are_not_taken_unasked(repair, table):
    truncate_newest(table.directory)
    path = table.directory / "metadata" / "v4.metadata.json"
    path.write_bytes(path.read_bytes()[:-200])
    ended = repair(table.directory, "--yes")
    assert ended.code == 15
    assert "v3.metadata.json" in ended.err


def test_a_table_without_a_whole_metadata_file_is_corrupt(repair, table):
    for path in (table.directory / "metadata").glob("*.metadata.json"):
        path.write_bytes(b"{")
        age(path)
    assert repair(table.directory, "--yes").code == 15


# -- going back ---------------------------------------------------------------------------------


def test_a_branch_goes_back_to_the_newest_whole_snapshot(repair, table):
    ids = [one.snapshot_id for one in table.metadata.snapshots]
    Path(Broken(table.directory).manifests(1)[0]["manifest_path"]).unlink()
    before = contents_of(table.directory)
    assert result_of(repair(table.directory, "--yes", "--json"), 5)["way_back"] == str(ids[2])
    assert contents_of(table.directory) == before

    found = result_of(
        repair(table.directory, "--to-snapshot", "latest-complete", "--yes", "--json")
    )
    assert (kinds(found), found["to_snapshot"], found["remaining"]) == (
        ["to-snapshot"], str(ids[2]), [],
    )  # fmt: skip
    assert ids_of(table.directory) == list(range(12))
    members = read_metadata(current_metadata(table.directory))
    assert [one["snapshot-id"] for one in members["snapshots"]] == ids
    assert members["refs"]["main"]["snapshot-id"] == members["current-snapshot-id"] == ids[2]
    assert before.items() <= contents_of(table.directory).items() | {
        (table.directory / "metadata" / "version-hint.text", b"5")
    }
    again = result_of(
        repair(table.directory, "--to-snapshot", "latest-complete", "--yes", "--json")
    )
    assert again["repairs"] == []


def test_a_branch_goes_back_to_a_snapshot_by_its_id_if_that_is_whole(repair, table):
    second_list, last_list = (table.metadata.snapshots[at].manifest_list for at in (1, -1))
    first, second, *_ = [one.snapshot_id for one in table.metadata.snapshots]
    ended = repair(table.directory, "--to-snapshot", first, "--yes")
    assert ended.code == 5
    assert f"rollback main --to {first}" in ended.err
    Path(last_list).unlink()
    result_of(repair(table.directory, "--to-snapshot", first, "--yes", "--json"))
    assert ids_of(table.directory) == [0, 1, 2, 3]
    Path(second_list).unlink()
    ended = repair(table.directory, "--to-snapshot", second, "--yes")
    assert ended.code == 5
    assert f"snapshot {second} is not complete either" in ended.err
    assert repair(table.directory, "--to-snapshot", "12", "--yes").code == 2


def test_a_branch_does_not_go_back_to_what_it_never_was(repair, table):
    table.ref("audit", "branch")
    audit = table.append(range(100, 104), branch="audit")
    table.append(range(50, 54))
    Path(table.metadata.snapshots[-1].manifest_list).unlink()
    ended = repair(table.directory, "--to-snapshot", audit, "--yes")
    assert ended.code == 5
    assert f"snapshot {audit} is not an ancestor of `main`" in ended.err
    assert f"branch main --at {audit} --replace" in ended.err


def test_another_branch_goes_back_and_main_stays(repair, table):
    table.ref("audit", "branch")
    head = table.append(range(100, 104), branch="audit")
    (lost,) = [Path(row["location"]) for row in table.live("audit") if row["snapshot_id"] == head]
    lost.unlink()
    assert result_of(repair(table.directory, "--yes", "--json"))["repairs"] == []
    offered = " ".join(repair(table.directory, "--branch", "audit", "--dry-run").out.split())
    assert f"`icectl repair {table.directory} --branch audit --to-snapshot" in offered
    words = ("--branch", "audit", "--to-snapshot", "latest-complete", "--yes", "--json")
    result_of(repair(table.directory, *words))
    members = read_metadata(current_metadata(table.directory))
    assert members["refs"]["audit"]["snapshot-id"] == members["current-snapshot-id"]


@pytest.mark.parametrize(
    "damage", [v4_180_a_root_that_is_gone, v4_181_a_leaf_that_is_gone], ids=lambda one: one.__name__
)
def test_a_branch_of_a_version_4_table_goes_back_too(repair, healthy, damage):
    table = healthy("grown")
    damage(BrokenTree(table))
    assert repair(table, "--check").code == 5
    found = result_of(repair(table, "--to-snapshot", "latest-complete", "--yes", "--json"))
    assert (kinds(found), found["remaining"]) == (["to-snapshot"], [])
    assert repair(table, command="validate").code == 0


# -- lost manifests -----------------------------------------------------------------------------


@pytest.mark.parametrize("loss", [Path.unlink, lambda path: path.write_bytes(b"Obj\x01")])
def test_r069_a_lost_manifest_is_written_anew_as_the_snapshot_before_proves_it(repair, table, loss):
    before = ids_of(table.directory)
    assert repair(table.directory, "--yes", command="rewrite-manifests").code == 0
    (merged,) = Broken(table.directory).manifests(0)
    entries = Broken(table.directory).entries(0)
    loss(Path(merged["manifest_path"]))
    found = result_of(repair(table.directory, "--yes", "--json"))
    assert (kinds(found), found["remaining"]) == (["manifest"], [])
    assert ids_of(table.directory) == before
    assert _facts(Broken(table.directory).entries(0)) == _facts(entries)
    assert result_of(repair(table.directory, "--yes", "--json"))["repairs"] == []


def test_a_lost_manifest_is_written_anew_as_a_later_snapshot_proves_it(repair, table):
    """The branch `kept` has the manifests as they were; main has them merged."""
    table.ref("kept", "branch")
    before = ids_of(table.directory)
    assert repair(table.directory, "--yes", command="rewrite-manifests").code == 0
    words = ("--branch", "kept", "--yes", "--json")
    of_kept = table.metadata.refs["kept"].snapshot_id
    rows_of_kept = read_rows(read_metadata(current_metadata(table.directory)), of_kept)
    first = min({row["manifest_path"] for row in _listed(table, of_kept) if row["content"] == 0})
    Path(first).unlink()
    found = result_of(repair(table.directory, *words))
    assert (kinds(found), found["remaining"]) == (["manifest"], [])
    members = read_metadata(current_metadata(table.directory))
    assert read_rows(members, members["refs"]["kept"]["snapshot-id"]) == rows_of_kept
    assert ids_of(table.directory) == before


def _listed(table: TableBuilder, snapshot_id: int) -> list[dict[str, Any]]:
    snapshot = table.metadata.snapshot(snapshot_id)
    assert snapshot is not None
    return read_records(Path(str(snapshot.manifest_list)))


def _facts(entries: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    names = ("file_path", "record_count", "file_size_in_bytes", "lower_bounds", "value_counts")
    return sorted(
        (
            *(json.dumps(entry["data_file"][name], default=repr) for name in names),
            entry["sequence_number"],
            entry["snapshot_id"],
        )
        for entry in entries
    )


def lose_first_manifest(table: TableBuilder) -> list[dict[str, Any]]:
    """Lose the manifest of an append that says in its summary what it added; its entries."""
    broken = Broken(table.directory)
    first, *_ = broken.manifests(0)
    entries = read_records(Path(first["manifest_path"]))
    files = [entry["data_file"] for entry in entries]
    added = {
        "added-data-files": str(len(files)),
        "added-records": str(sum(file["record_count"] for file in files)),
        "added-files-size": str(sum(file["file_size_in_bytes"] for file in files)),
    }

    def tell(members: dict[str, Any]) -> None:
        for snapshot in members["snapshots"]:
            if snapshot["snapshot-id"] == first["added_snapshot_id"]:
                snapshot["summary"].update(added)

    broken.edit(tell)
    Path(first["manifest_path"]).unlink()
    date_files(table)
    return entries


def test_a_lost_manifest_is_written_anew_as_the_footers_of_its_files_prove_it(repair, table):
    before = ids_of(table.directory)
    entries = Broken(table.directory).entries(0)
    lose_first_manifest(table)
    found = result_of(repair(table.directory, "--yes", "--json"))
    assert (kinds(found), found["remaining"]) == (["manifest"], [])
    assert ids_of(table.directory) == before
    now = Broken(table.directory).entries(0)
    names = ("file_path", "record_count", "file_size_in_bytes")
    told = [[[one["data_file"][name] for name in names] for one in each] for each in (entries, now)]
    assert sorted(told[0]) == sorted(told[1])
    assert repair(table.directory, "--level", "data", command="validate").code == 0
    assert result_of(repair(table.directory, "--yes", "--json"))["repairs"] == []


@pytest.mark.parametrize(
    ("version", "partitioning", "ids"),
    [
        (1, "none", range(4)), (1, "identity", range(6)), (2, "identity", range(6)),
        (2, "day", range(0, 96, 5)), (2, "truncate", [7, 14, 10, 11, 12, 20]), (2, "two", [1, 2]),
        (3, "none", range(4)), (3, "identity", [1, 4, 7]),
    ],
)  # fmt: skip
def test_footers_prove_partitions_of_one_value_and_the_row_ids_of_one_file(
    repair, tmp_path, version, partitioning, ids
):
    table = TableBuilder(tmp_path / "t", format_version=version, partitioning=partitioning)
    table.append(range(100, 104))
    table.append(ids)
    before, lived = ids_of(table.directory), live_files(table.directory)
    lose_first_manifest(table)
    found = result_of(repair(table.directory, "--yes", "--json"))
    assert (kinds(found), found["remaining"]) == (["manifest"], [])
    assert ids_of(table.directory) == before
    assert live_files(table.directory) == lived
    assert repair(table.directory, "--level", "data", command="validate").code == 0


def live_files(directory: Path) -> list[tuple[Any, ...]]:
    """Live data files by their entries: partition, numbers, first row id."""
    found = []
    for manifest in Broken(directory).manifests(0):
        next_id = manifest.get("first_row_id")
        for entry in read_records(Path(manifest["manifest_path"])):
            file = entry["data_file"]
            first_row_id = file.get("first_row_id")
            if first_row_id is None and next_id is not None:
                first_row_id, next_id = next_id, next_id + file["record_count"]
            number = entry.get("sequence_number")
            found.append(
                (
                    file["file_path"],
                    str(file["partition"]),
                    file["record_count"],
                    entry["snapshot_id"],
                    manifest.get("sequence_number") if number is None else number,
                    first_row_id,
                )
            )
    return sorted(found)


def lower_least_number(listed: list[dict[str, Any]]) -> None:
    """As if the lost manifest had a file of a compaction that began earlier."""
    listed[0]["min_sequence_number"] = 1


@pytest.mark.parametrize(
    ("version", "partitioning", "ids", "files", "change"),
    [
        (2, "none", range(4), 1, lower_least_number),
        (2, "bucket", range(12), 1, None),
        (3, "none", range(4), 2, None),
    ],
)
def test_footers_prove_no_partition_number_or_row_id_that_may_be_another(
    repair, tmp_path, version, partitioning, ids, files, change
):
    table = TableBuilder(tmp_path / "t", format_version=version, partitioning=partitioning)
    table.append(range(200, 201))
    table.append(ids, files=files)
    if change is not None:
        Broken(table.directory).edit_head_list(change)
    lose_first_manifest(table)
    before = contents_of(table.directory)
    refused = result_of(repair(table.directory, "--yes", "--json"), 5)
    assert "--drop-missing" in refused["left"][0]["reason"]
    assert contents_of(table.directory) == before


def test_files_that_nobody_knows_spoil_the_proof_of_a_lost_manifest(repair, table):
    """Which of them are those of the manifest cannot be told: rows would be invented."""
    (lost,) = lose_first_manifest(table)
    stored = Path(lost["data_file"]["file_path"])
    stray = stored.with_name("stray.parquet")
    stray.write_bytes(stored.read_bytes())
    for _ in range(2):
        before = contents_of(table.directory)
        refused = result_of(repair(table.directory, "--yes", "--json"), 5)
        assert "--drop-missing" in refused["left"][0]["reason"]
        assert contents_of(table.directory) == before
        # One file again, but with fewer bytes than the snapshot added.
        stored.unlink(missing_ok=True)
        pq.write_table(pq.read_table(stray), stray, compression="none")


def test_a_lost_manifest_that_nothing_proves_stays_until_rows_are_given_up(repair, table):
    first, *_ = Broken(table.directory).manifests(0)
    (lost,) = read_records(Path(first["manifest_path"]))
    Path(first["manifest_path"]).unlink()
    Path(lost["data_file"]["file_path"]).unlink()
    before = contents_of(table.directory)
    refused = result_of(repair(table.directory, "--yes", "--json"), 5)
    assert [one["rule"] for one in refused["left"]] == ["R-034"]
    assert "--drop-missing" in refused["left"][0]["reason"]
    assert contents_of(table.directory) == before

    (given_up,) = result_of(repair(table.directory, "--drop-missing", "--yes", "--json"))["repairs"]
    assert (given_up["kind"], given_up["rows_lost"], given_up["rows_back"]) == ("lost-data", 4, 0)
    assert len(ids_of(table.directory)) in (6, 7)
    head = Broken(table.directory).head()
    assert head["summary"]["operation"] == "delete"
    assert head["summary"]["total-data-files"] == "2"


# -- lost files ---------------------------------------------------------------------------------


def test_a_lost_data_file_is_listed_no_more_only_where_that_is_asked_for(repair, table):
    (lost,) = [row for row in table.live() if row["location"].endswith("00007.parquet")] or [
        next(row for row in table.live() if row["content"] == 0)
    ]
    Path(lost["location"]).unlink()
    assert repair(table.directory, "--check").code == 5
    ended = repair(table.directory, "--drop-missing", "--dry-run")
    assert ended.code == 0
    assert "loses at most 4 rows" in ended.out
    found = result_of(repair(table.directory, "--drop-missing", "--yes", "--json"))
    assert (found["repairs"][0]["rows_lost"], found["remaining"]) == (4, [])
    assert repair(table.directory, command="validate").code == 0
    assert result_of(repair(table.directory, "--drop-missing", "--yes", "--json"))["repairs"] == []


def test_r071_entries_that_bounds_exclude_are_gone_with_their_files(repair, tmp_path):
    """One round for all files that the hint names; the repaired table has no errors left."""
    table = worn_table(tmp_path / "t", 2)

    def change(entries: list[Any]) -> None:
        for file in (entry["data_file"] for entry in entries if entry["status"] != 2):
            if file["partition"]["category"] == "c1":
                file["partition"]["category"] = "c0"

    broken = Broken(table.directory)
    sizes = {}
    for manifest in broken.manifests(0):
        path = Path(manifest["manifest_path"])
        rewrite_avro(path, change)
        sizes[str(path)] = path.stat().st_size
    broken.edit_lists(
        lambda row: row.update(
            manifest_length=sizes.get(row["manifest_path"], row["manifest_length"])
        )
    )

    def errors() -> list[dict[str, Any]]:
        ended = repair(table.directory, "--json", command="validate")
        found = checked_document(ended)["result"]["findings"]
        return [one for one in found if one["rule"] == "R-071"]

    moved = [
        Path(place)
        for one in errors()
        for place in re.findall("`([^`]*)`", one["hint"].partition(" away")[0])
    ]
    assert len(moved) > 1
    last = moved.pop()
    for place in moved:
        place.rename(f"{place}.away")
    ended = repair(table.directory, "--drop-missing", "--yes")
    assert ended.code == 3
    told = " ".join(ended.out.split())
    assert f"move `{last}` away" in told
    assert f"`icectl repair {table.directory} --drop-missing`" in told
    last.rename(f"{last}.away")
    found = result_of(repair(table.directory, "--drop-missing", "--yes", "--json"))
    assert not [one for one in found["remaining"] if one["severity"] == "error"]
    assert errors() == []


def test_deleted_rows_come_back_only_where_that_is_accepted(repair, table):
    (lost,) = [row for row in table.live() if row["content"] == 1]
    Path(lost["location"]).unlink()
    before = contents_of(table.directory)
    for words in ((), ("--drop-missing",)):
        refused = result_of(repair(table.directory, *words, "--yes", "--json"), 5)
        assert "--accept-undeleted" in refused["left"][0]["reason"]
    assert contents_of(table.directory) == before
    found = result_of(repair(table.directory, "--accept-undeleted", "--yes", "--json"))
    assert (kinds(found), found["repairs"][0]["rows_back"]) == (["lost-deletes"], 2)
    assert ids_of(table.directory) == list(range(12))


def test_r116_vectors_of_a_removed_data_file_are_listed_no_more(repair, tmp_path):
    table = filled_table(tmp_path / "t", range(4), range(4, 8), format_version=3)
    table.delete_rows([1, 5])
    broken = Broken(table.directory)
    gone = broken.entries(1)[0]["data_file"]["referenced_data_file"]

    def remove(entries: list[dict[str, Any]]) -> None:
        for entry in entries:
            if entry["data_file"]["file_path"] == gone:
                entry["status"] = DELETED

    broken.edit_manifest(remove, holding=lambda e: e["data_file"]["file_path"] == gone)
    broken.edit(lambda m: m["snapshots"][-1]["summary"].update({"total-data-files": "1"}))
    before = ids_of(table.directory)
    found = result_of(repair(table.directory, "--yes", "--json"))
    assert kinds(found) == ["manifest-list", "dangling-deletes"]
    assert ids_of(table.directory) == before
    assert len(Broken(table.directory).entries(1)) == 1
    assert {one["rule"] for one in found["remaining"]} & {"R-116", "R-031"} == set()


@pytest.mark.parametrize("damage", ["R-050", None])
@pytest.mark.parametrize("parent", ["whole", "expired"])
def test_r031_totals_are_not_counted_again_where_a_list_has_lost_a_manifest(
    repair, tmp_path, parent, damage
):
    """They show that rows are missing: nothing would, once they were those of the rest."""
    table = filled_table(tmp_path / "t", range(4), range(4, 8))
    broken = Broken(table.directory)

    def lose(rows: list[dict[str, Any]]) -> None:
        del rows[1]
        if damage:
            rows[0]["manifest_length"] += 1

    broken.edit_head_list(lose)
    if parent == "expired":
        broken.edit(lambda m: m["snapshots"].pop(0))
    before = contents_of(table.directory)
    found = result_of(repair(table.directory, "--yes", "--json"), 5)
    reasons = [one["reason"] for one in found["left"] if one["rule"] == "R-031"]
    assert reasons
    assert all(reason.endswith("(R-031)") for reason in reasons)
    assert contents_of(table.directory) == before


def test_a_lost_file_is_dropped_on_demand_though_totals_are_too_high(repair, tmp_path):
    """As some writers have them: then nothing proves that the list is whole."""
    table = filled_table(tmp_path / "t", range(4), range(4, 8))
    broken = Broken(table.directory)
    broken.edit(lambda m: m["snapshots"].pop(0))
    broken.edit(lambda m: m["snapshots"][-1]["summary"].update({"total-data-files": "3"}))
    Path(table.live()[0]["location"]).unlink()
    assert repair(table.directory, "--yes").code == 5
    assert repair(table.directory, "--yes", "--drop-missing").code == 0
    assert len(ids_of(table.directory)) == 4


def test_the_vectors_of_a_lost_data_file_go_with_it(repair, tmp_path):
    table = filled_table(tmp_path / "t", range(4), range(4, 8), format_version=3)
    table.delete_rows([1, 5])
    (lost,) = [
        row["location"] for row in table.live() if row["location"].endswith("/00001.parquet")
    ]
    Path(lost).unlink()
    found = result_of(repair(table.directory, "--drop-missing", "--yes", "--json"))
    assert (kinds(found), found["remaining"]) == (["lost-data"], [])
    assert ids_of(table.directory) == [4, 6, 7]
    words = ("--drop-missing", "--level", "footers", "--yes", "--json")
    assert result_of(repair(table.directory, *words))["repairs"] == []


def test_a_manifest_that_others_may_read_is_not_dropped(repair, table):
    """Its entries have no snapshot id, which is not the same as being lost (R-042)."""
    r042_an_entry_without_any_snapshot_id(Broken(table.directory))
    before = contents_of(table.directory)
    words = ("--drop-missing", "--accept-undeleted", "--yes", "--json")
    assert kinds(result_of(repair(table.directory, *words), 5)) == []
    assert contents_of(table.directory) == before


def test_r163_nothing_else_is_repaired_while_the_hint_is_ahead(repair, table):
    break_counts(table)
    hint = table.directory / "metadata" / "version-hint.text"
    hint.write_text("9")
    before = contents_of(table.directory)
    ended = repair(table.directory, "--skip", "version-hint", "--yes")
    assert (ended.code, "version-hint" in ended.err) == (5, True)
    assert contents_of(table.directory) == before
    assert kinds(result_of(repair(table.directory, "--yes", "--json"))) == [
        "version-hint",
        "list-row",
    ]
    assert hint.read_text() == "6"


def test_the_time_limit_ends_a_repair_before_anything_changes(repair, table):
    break_counts(table)
    before = contents_of(table.directory)
    assert repair(table.directory, "--time-limit", "0s", "--yes").code == 3
    assert contents_of(table.directory) == before


# -- choosing -----------------------------------------------------------------------------------


def break_counts(table: TableBuilder) -> Broken:
    broken = Broken(table.directory)
    broken.edit_head_list(lambda listed: listed[0].update({"added_rows_count": 99}))
    (table.directory / "metadata" / "version-hint.text").write_text("1")
    return broken


def test_repairs_are_skipped_by_kind_and_by_id(repair, table):
    broken = break_counts(table)
    planned = result_of(repair(table.directory, "--dry-run", "--json"))
    assert kinds(planned) == ["version-hint", "list-row"]
    (by_id,) = [one["id"] for one in planned["repairs"] if one["kind"] == "list-row"]
    assert by_id == f"list-row:{Path(broken.manifests(0)[0]['manifest_path']).name}" or by_id
    skipped = result_of(repair(table.directory, "--skip", by_id, "--dry-run", "--json"))
    assert kinds(skipped) == ["version-hint"]
    assert [one["id"] for one in skipped["skipped"]] == [by_id]
    words = ("--skip", "list-row", "--skip", "version-hint", "--yes", "--json")
    assert kinds(result_of(repair(table.directory, *words))) == []


def test_a_skip_of_nothing_is_wrong_usage(repair, table):
    break_counts(table)
    ended = repair(table.directory, "--skip", "version-hnt")
    assert ended.code == 2
    assert "did you mean `version-hint`?" in ended.err


def test_a_healthy_table_has_nothing_to_repair(repair, table):
    before = contents_of(table.directory)
    ended = repair(table.directory, "--yes", "--level", "footers")
    assert (ended.code, ended.out) == (0, "nothing to repair at level footers\n")
    assert contents_of(table.directory) == before


def test_the_repair_of_a_catalog_s_table_is_written_beside_its_metadata_file(repair, table):
    break_counts(table)
    folder = table.directory / "metadata"
    newest = current_metadata(table.directory)
    name = "00004-9c12d441-03fe-4693-9a96-a0705ddf69c1.metadata.json"
    newest.rename(folder / name)
    for path in folder.glob("v*.metadata.json"):
        path.unlink()
    assert repair(table.directory, "--yes").code == 5
    ended = repair(table.directory, "--metadata-file", name, "--yes")
    assert (ended.code, ended.err) == (0, "")
    assert "new metadata file: " in ended.out
    assert "point the catalog at it" in ended.out


def test_the_result_is_checked_though_no_clock_tells_it_from_the_file_that_was_named(repair, table):
    lost = min((table.directory / "data").rglob("*.parquet"))  # of data: deletes are newer
    lost.unlink()
    statistics = {"snapshot-id": 5, "statistics-path": "/nowhere", "file-size-in-bytes": 9}
    ahead_ms = 4_000_000_000_000  # of a writer's clock: the next commit has this time too
    edit_metadata(table.directory, partition_statistics=[statistics], last_updated_ms=ahead_ms)
    words = ["--metadata-file", current_metadata(table.directory).name, "--drop-missing", "--yes"]
    ended = repair(table.directory, *words, "--skip", "statistics")
    assert (ended.code, ended.err) == (0, "")
    assert "warning R-141: /nowhere: it describes snapshot 5, which is gone" in ended.out


def test_statistics_that_another_writer_sets_meanwhile_stay(repair, table, monkeypatch):
    commit = FileSystemCatalog.commit

    def entry(snapshot_id: int, path: str) -> dict[str, Any]:
        return {"snapshot-id": snapshot_id, "statistics-path": path, "file-size-in-bytes": 9}

    lost = [entry(5, "/lost"), entry(6, "/gone")]  # snapshots that are gone
    newer = [entry(5, "/newer"), entry(6, "/gone")]
    edit_metadata(table.directory, partition_statistics=lost)

    def meanwhile(self: Any, *rest: Any) -> Any:
        monkeypatch.setattr(FileSystemCatalog, "commit", commit)
        table.set_properties({"partition": "statistics"})
        edit_metadata(table.directory, partition_statistics=newer)
        return commit(self, *rest)

    monkeypatch.setattr(FileSystemCatalog, "commit", meanwhile)
    ended = repair(table.directory, "--yes", "--json")
    assert ended.code == 0, ended.err
    assert read_metadata(current_metadata(table.directory))["partition-statistics"] == newer[:1]


def test_repairs_are_told_with_their_reasons(repair, table):
    break_counts(table)
    ended = repair(table.directory, "--dry-run")
    assert ended.out.splitlines()[:2] == [
        (
            "repair version-hint: version-hint.text: it says 1, which is behind "
            "v5.metadata.json: write 5"
        ),
        "  because that is the newest file",
    ]
    ended = repair(table.directory, "--yes")
    assert ended.out.splitlines()[0] == (
        "done version-hint: it says 1, which is behind v5.metadata.json: write 5"
    )
    assert ended.out.endswith("no errors are left at level files\n")


def test_what_makes_rows_unsure_is_not_built_upon(repair, table):
    broken = break_counts(table)
    table.append(range(20, 24))
    broken.edit_manifest(
        in_first(lambda entry: entry.update({"status": 0, "snapshot_id": 7, "sequence_number": 99,
                                             "file_sequence_number": 99}))
    )  # fmt: skip
    before = contents_of(table.directory)
    found = result_of(repair(table.directory, "--yes", "--json"), 5)
    assert kinds(found) == []
    assert contents_of(table.directory) == before
    assert {one["rule"] for one in found["left"]} >= {"R-044"}


def test_r031_an_old_snapshot_whose_list_has_lost_a_manifest_leaves_by_the_hint(
    repair, tmp_path, capsys
):
    table = filled_table(tmp_path / "t", range(4), range(4, 8))
    lost = table.metadata.current_snapshot_id
    Broken(table.directory).edit_head_list(lambda rows: rows[:1])
    assert repair(table.directory, "--to-snapshot", "latest-complete", "--yes").code == 0
    validate = ["validate", str(table.directory), "--all-snapshots"]
    assert app.main(validate) == 4
    words = f"expire-snapshots {table.directory} --snapshot-id {lost} --metadata-only"
    assert f"`icectl {words}`" in " ".join(capsys.readouterr().out.split())
    assert app.main([*words.split(), "--min-age", "0s", "--yes"]) == 0
    assert app.main(validate) == 0


@pytest.mark.parametrize("kind", ["branch", "tag"])
def test_r031_a_named_snapshot_whose_list_has_lost_a_manifest_leaves_by_the_hint(
    tmp_path, capsys, kind
):
    table = filled_table(tmp_path / "t", range(4))
    if kind == "branch":
        table.ref("of q4", kind)
    lost = table.append(range(4, 8), branch="of q4" if kind == "branch" else "main")
    if kind == "tag":
        table.ref("of q4", kind)
        table.append(range(8, 12))
    rewrite_avro(
        Path(table.metadata.snapshots_by_id[lost].manifest_list or ""), lambda rows: rows[:-1]
    )
    validate = ["validate", str(table.directory), "--all-snapshots"]
    assert app.main(validate) == 4
    for line in re.findall("`icectl ([^`]*)`", " ".join(capsys.readouterr().out.split())):
        if "--dry-run" not in line:
            more = ["--min-age", "0s"] if line.startswith("expire-snapshots") else []
            assert app.main([*shlex.split(line), *more, "--yes"]) == 0
    assert app.main(validate) == (0 if kind == "tag" else 4)  # the old head is left to expiry
    if kind == "branch":
        assert app.main(["validate", str(table.directory), "--ref", "of q4"]) == 0
