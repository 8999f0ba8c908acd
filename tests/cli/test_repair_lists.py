"""`icectl repair` where a manifest list is lost: rebuilt where the rest proves it, refused else."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.builders.broken import Broken, in_first, read_records, rewrite_avro
from tests.builders.folders import contents_of
from tests.builders.lost_lists import (
    CHANGES,
    EVERY,
    SPOILT,
    facts,
    grown,
    lose_list,
    lose_own,
    new_manifest,
    tell,
)
from tests.builders.rows import current_metadata, head, read_metadata, read_rows
from tests.builders.table_builder import TableBuilder, filled_table
from tests.cli.conftest import result_of

DAY_MS = 86_400_000


def rows(directory: Path) -> list[Any]:
    return sorted(read_rows(read_metadata(current_metadata(directory))), key=repr)


@pytest.mark.parametrize(("version", "change", "options"), EVERY)
def test_a_lost_list_is_made_anew_of_the_snapshot_before_and_the_manifests_that_it_wrote(
    repair, tmp_path, version, change, options
):
    table = grown(tmp_path / "t", version, **options)
    CHANGES[change](table)
    tell(table.directory)
    before, lived, told = rows(table.directory), facts(table.directory), head(table.directory)
    lose_list(table.directory)
    left = contents_of(table.directory)

    found = result_of(repair(table.directory, "--yes", "--json"))
    assert ([one["id"] for one in found["repairs"]], found["remaining"]) == (["manifest-list"], [])
    assert rows(table.directory) == before
    assert facts(table.directory) == lived
    now = head(table.directory)
    assert now["parent-snapshot-id"] == told["snapshot-id"]
    assert now["summary"]["operation"] == "replace"
    for name in ("data-files", "delete-files", "records"):
        assert now["summary"][f"total-{name}"] == told["summary"][f"total-{name}"]
    kept = contents_of(table.directory)
    assert {path.name for path in left if kept.get(path) != left[path]} <= {"version-hint.text"}
    assert repair(table.directory, "--level", "data", command="validate").code == 0
    assert result_of(repair(table.directory, "--yes", "--json"))["repairs"] == []


@pytest.mark.parametrize("loss", [Path.unlink, lambda path: path.write_bytes(b"Obj\x01")])
def test_the_first_snapshot_has_what_it_added(repair, tmp_path, loss):
    table = filled_table(tmp_path / "t", range(4), files=2)
    tell(table.directory)
    before = rows(table.directory)
    loss(Path(head(table.directory)["manifest-list"]))
    assert result_of(repair(table.directory, "--yes", "--json"))["remaining"] == []
    assert rows(table.directory) == before


@pytest.mark.parametrize("command", ["rewrite-manifests", "compact"])
def test_what_icectl_commits_tells_enough(repair, tmp_path, command):
    table = grown(tmp_path / "t", 3)
    words = {"compact": ["--rewrite-all", "--engine", "local"], "rewrite-manifests": []}[command]
    assert repair(table.directory, *words, "--yes", command=command).code == 0
    before, lived = rows(table.directory), facts(table.directory)
    lose_list(table.directory)
    found = result_of(repair(table.directory, "--yes", "--json"))
    assert ([one["kind"] for one in found["repairs"]], found["remaining"]) == (
        ["manifest-list"], [],
    )  # fmt: skip
    assert (rows(table.directory), facts(table.directory)) == (before, lived)


def test_manifests_that_a_later_snapshot_lists_prove_what_was_added(repair, tmp_path):
    """The branch `kept` goes back to a snapshot that main has merged since."""
    table = grown(tmp_path / "t", 2)
    table.append(range(20, 24))
    table.ref("kept", "branch")
    table.append(range(30, 34))
    tell(table.directory)
    (lost,) = [one for one in table.metadata.snapshots if one.snapshot_id == _kept(table)]
    expected = read_rows(read_metadata(current_metadata(table.directory)), lost.snapshot_id)
    Path(str(lost.manifest_list)).unlink()
    found = result_of(repair(table.directory, "--branch", "kept", "--yes", "--json"))
    assert [one["kind"] for one in found["repairs"]] == ["manifest-list"]
    members = read_metadata(current_metadata(table.directory))
    assert read_rows(members, members["refs"]["kept"]["snapshot-id"]) == expected


def _kept(table: TableBuilder) -> int:
    return table.metadata.refs["kept"].snapshot_id


@pytest.mark.parametrize(("version", "change", "spoil"), SPOILT)
def test_a_list_of_which_something_is_missing_is_not_made_anew(
    repair, tmp_path, version, change, spoil
):
    table = grown(tmp_path / "t", version)
    CHANGES[change](table)
    tell(table.directory)
    spoil(table.directory)
    lose_list(table.directory)
    left = contents_of(table.directory)
    refused = result_of(repair(table.directory, "--yes", "--json"), 5)
    assert refused["repairs"] == []
    (one,) = [one for one in refused["left"] if one["rule"] == "R-034"]
    assert (
        one["reason"]
        == "nothing else shows what it listed; `--to-snapshot latest-complete` rolls back"
    )
    assert contents_of(table.directory) == left


def test_a_snapshot_that_tells_of_nothing_is_not_taken_for_one_that_did_nothing(repair, tmp_path):
    """Its manifest is lost too, and the totals are those before: the rows may be others."""
    table = filled_table(tmp_path / "t", range(4), range(4, 8))
    tell(table.directory)
    lose_own(table.directory)
    before = read_metadata(current_metadata(table.directory))["snapshots"][0]["summary"]
    for operation in ("overwrite", "append", "delete"):
        Broken(table.directory).edit_head(
            lambda snapshot, operation=operation: snapshot.update(
                summary={
                    "operation": operation,
                    **{name: text for name, text in before.items() if name.startswith("total-")},
                }
            )
        )
        Path(head(table.directory)["manifest-list"]).unlink(missing_ok=True)
        assert result_of(repair(table.directory, "--yes", "--json"), 5)["repairs"] == []


def test_r103_row_ids_that_the_lost_list_gave_to_several_manifests_are_not_guessed(
    repair, tmp_path
):
    """Two specs, two manifests: which of them had the first ids only the list told."""
    table = grown(tmp_path / "t", 3)
    table.append(range(20, 24))
    own = new_manifest(table.directory)
    entries = read_records(own)
    second = table.loose_data_files(range(24, 28))
    other = own.with_name("other-m0.avro")
    shutil.copyfile(own, other)
    rewrite_avro(
        other, in_first(lambda entry: entry["data_file"].update(file_path=second[0]["location"]))
    )
    size = Path(second[0]["location"]).stat().st_size
    rewrite_avro(other, in_first(lambda entry: entry["data_file"].update(file_size_in_bytes=size)))
    told = {
        "added-data-files": "2", "added-records": "8", "total-data-files": "5",
        "total-records": "20", "total-files-size": None,
    }  # fmt: skip

    def add(snapshot: dict[str, Any]) -> None:
        snapshot["summary"] |= told
        del snapshot["summary"]["total-files-size"]
        snapshot["added-rows"] = 8

    tell(table.directory)
    Broken(table.directory).edit_head(add)
    Broken(table.directory).edit(lambda members: members.update({"next-row-id": 24}))
    assert len(entries) == 1
    lose_list(table.directory)
    assert result_of(repair(table.directory, "--yes", "--json"), 5)["repairs"] == []
