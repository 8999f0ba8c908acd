"""`icectl validate` from the command line: levels, choices, exit codes, what it prints."""

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from icectl.checks.rule import Finding
from icectl.cli.console import Console, ConsoleOptions
from icectl.cli.progress_bar import ConsoleProgress
from icectl.commands.validate.report import CheckedTable, print_checked
from icectl.env import Env, SystemEnv
from icectl.files.puffin import NewBlob, write_puffin
from tests.builders.broken import Broken, in_first_file
from tests.builders.respell import respell_data_files
from tests.builders.table_builder import START_MS, TableBuilder, filled_table
from tests.cli.conftest import Ended, Run
from tests.cli.conftest import result as result_of_run
from tests.stores.fixed_env import FixedEnv

HOUR_MS = 3_600_000


@pytest.fixture
def validate(prepared: Callable[[str, Env], Run]) -> Run:
    """Run `icectl validate`, a day after the builder's tables begin."""
    return prepared("validate", FixedEnv(START_MS + 24 * HOUR_MS))


def result(ended: Ended) -> dict[str, Any]:
    """The result of a run with --json, whose findings it counts."""
    found = result_of_run(ended)
    assert found["counts"] == {
        severity: sum(one["severity"] == severity for one in found["findings"])
        for severity in ("error", "warning", "info")
    }
    return found


@pytest.fixture
def table(tmp_path: Path) -> TableBuilder:
    """Three snapshots, partitions, position deletes, a branch."""
    built = filled_table(tmp_path / "t", range(6), range(6, 9), partitioning="identity")
    built.ref("audit", "branch")
    built.delete_rows([0, 3])
    return built


def path_of(location: str) -> Path:
    return Path(location.removeprefix("file://"))


def some_manifest(table: TableBuilder) -> Path:
    return min(Path(table.location, "metadata").glob("*-m0.avro"))


@pytest.mark.parametrize("level", ["metadata", "files", "footers", "data"])
@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_healthy_table_has_no_findings_and_ends_with_0(validate, tmp_path, version, level):
    built = TableBuilder(tmp_path / "t", format_version=version, partitioning="two")
    built.append(range(8))
    built.append(range(8, 12))
    if version > 1:
        built.delete_rows([1, 9])
    ended = validate(built.location, "--level", level, "--all-snapshots", "--json")
    found = result(ended)
    assert found["findings"] == []
    assert ended.code == 0
    assert found["snapshots_checked"] == len(built.metadata.snapshots)
    assert found["level"] == level


def test_the_default_is_level_files_of_the_current_snapshot(validate, table):
    found = result(validate(table.location, "--json"))
    assert found["level"] == "files"
    assert found["snapshots_checked"] == 1
    assert found["files_checked"] == 1 + 1 + 3 + len(table.live())


def test_text_of_a_healthy_table_is_one_line(validate, table):
    ended = validate(table.location, "--level", "metadata")
    assert ended.code == 0
    assert ended.out.startswith("no problems found (level metadata: 1 snapshot, 5 files, ")
    assert ended.out.count("\n") == 1


def test_an_unreadable_manifest_is_a_finding_and_the_others_are_checked(validate, table):
    broken = some_manifest(table)
    broken.write_bytes(broken.read_bytes()[:-40])
    ended = validate(table.location, "--level", "metadata", "--json")
    found = result(ended)
    assert ended.code == 4
    assert [one["subject"] for one in found["findings"] if one["severity"] == "error"] == [
        str(broken)
    ]
    assert found["files_checked"] == 5


def test_a_missing_manifest_list_is_a_finding(validate, table):
    current = table.metadata.current_snapshot
    assert current is not None
    assert current.manifest_list is not None
    path_of(current.manifest_list).unlink()
    ended = validate(table.location, "--level", "metadata", "--json")
    errors = [one for one in result(ended)["findings"] if one["severity"] == "error"]
    assert [(one["rule"], one["subject"]) for one in errors] == [("R-034", current.manifest_list)]
    assert ended.code == 4


def test_metadata_that_is_no_json_ends_with_15(validate, table):
    path_of(table.metadata_location).write_text("{")
    ended = validate(table.location, "--json")
    assert ended.code == 15
    assert ended.document["error"]["id"] == "corrupt-table"


def test_a_missing_data_file_shows_from_level_files_on(validate, table):
    gone = next(row["location"] for row in table.live() if row["content"] == 0)
    path_of(gone).unlink()
    assert validate(table.location, "--level", "metadata").code == 0
    ended = validate(table.location, "--json")
    assert ended.code == 4
    missing = [one for one in result(ended)["findings"] if one["rule"] == "R-034"]
    assert [(one["subject"], one["severity"]) for one in missing] == [(gone, "error")]


def test_a_manifest_that_may_be_whole_is_no_reason_to_roll_back(validate, table):
    manifest = min(Path(table.location, "metadata").glob("*-m0.avro"))
    manifest.unlink()
    manifest.mkdir()
    (found,) = result(validate(table.location, "--level", "metadata", "--json"))["findings"]
    assert (found["rule"], found["hint"]) == (
        "R-034",
        "check again once the storage lets the file be read",
    )


def test_a_missing_statistics_file_is_computed_again_not_rolled_back(validate, table):
    file = path_of(table.metadata_location)
    members = json.loads(file.read_text())
    gone = f"{table.location}/metadata/s.parquet"
    members["partition-statistics"] = [
        {
            "snapshot-id": members["current-snapshot-id"],
            "statistics-path": gone,
            "file-size-in-bytes": 9,
        }
    ]
    file.write_text(json.dumps(members))
    found = result(validate(table.location, "--json"))["findings"]
    assert [(one["rule"], one["severity"], one["hint"]) for one in found] == [
        ("R-034", "warning", "let the engine compute the statistics again")
    ]


def test_text_names_rule_object_and_next_step(validate, table):
    gone = next(row["location"] for row in table.live() if row["content"] == 0)
    path_of(gone).unlink()
    lines = validate(table.location).out.splitlines()
    assert lines[0] == "error R-034: the data file is missing"
    assert lines[1] == "  " + gone.removeprefix(f"{table.location}/")
    assert any(line.startswith("  hint: ") for line in lines)
    assert lines[-1].startswith("1 error (level files: ")


def test_text_calls_what_is_no_problem_a_note_in_its_line_and_in_the_sum(validate, table):
    Broken(table.directory).edit_manifest(in_first_file(sort_order_id=7))
    lines = validate(table.location).out.splitlines()
    assert lines[0].startswith("note R-067: ")
    assert lines[-1].startswith("no errors, 1 note (")


def test_rule_and_skip_choose_what_is_reported(validate, table):
    gone = next(row["location"] for row in table.live() if row["content"] == 0)
    path_of(gone).unlink()
    assert validate(table.location, "--skip", "R-034").code == 0
    assert validate(table.location, "--rule", "r-066").code == 0
    ended = validate(table.location, "--rule", "R-034", "--json")
    assert ended.code == 4
    assert {one["rule"] for one in result(ended)["findings"]} == {"R-034"}


def test_an_unknown_rule_is_wrong_usage_with_a_near_one_named(validate, table):
    ended = validate(table.location, "--rule", "R-9999")
    assert ended.code == 2
    assert "there is no rule `R-9999`" in ended.err


def test_fail_on_warning_ends_with_4_where_error_does_not(validate, table):
    path_of(table.metadata.metadata_log[0].metadata_file).unlink()
    assert validate(table.location).code == 0
    assert validate(table.location, "--fail-on", "warning").code == 4


def test_a_location_that_no_file_can_have_is_a_finding(validate, table):
    """The others are checked all the same."""

    def misname(entries: list[dict[str, Any]]) -> None:
        entries[0]["data_file"]["file_path"] = f"{table.location}/data/{'x' * 300}.parquet"

    Broken(table.directory).edit_manifest(misname)
    ended = validate(table.location, "--json")
    assert ended.code == 4
    (finding,) = [one for one in result(ended)["findings"] if one["rule"] == "R-034"]
    assert "cannot be looked up: " in finding["message"]


def test_metadata_files_of_the_log_in_a_store_of_before_are_left_alone(validate, table):
    """A table that was moved still names them, and nobody has credentials for that store."""

    def name_another_store(members: dict[str, Any]) -> None:
        members["metadata-log"][0]["metadata-file"] = "old://b/t/metadata/v1.metadata.json"

    Broken(table.directory).edit(name_another_store)
    found = result(validate(table.location, "--json"))
    (finding,) = [one for one in found["findings"] if one["rule"] == "R-024"]
    assert finding["severity"] == "info"
    assert "not all of its files can be looked up: " in finding["message"]
    text = validate(table.location).out
    assert ("note R-024: " in text, "no errors, 1 note (" in text, "info" in text) == (
        True, True, False,
    )  # fmt: skip


def test_choices_of_snapshots_exclude_each_other(validate, table):
    first = table.metadata.snapshots[0].snapshot_id
    assert validate(table.location, "--snapshot", first).code == 0
    assert validate(table.location, "--ref", "audit").code == 0
    assert validate(table.location, "--snapshot", first, "--ref", "audit").code == 2
    assert validate(table.location, "--ref", "audit", "--all-snapshots").code == 2
    assert validate(table.location, "--snapshot", 1).code == 2
    assert validate(table.location, "--ref", "nowhere").code == 2


def test_sample_is_for_levels_that_look_at_files(validate, table):
    assert validate(table.location, "--level", "metadata", "--sample", "5%").code == 2
    assert validate(table.location, "--sample", "7").code == 2
    assert validate(table.location, "--sample", "0").code == 2
    none = result(validate(table.location, "--sample", "0.0000001", "--json"))
    every = result(validate(table.location, "--sample", "100%", "--json"))
    assert none["files_checked"] == 5
    assert every["files_checked"] == 5 + len(table.live())
    assert (none["sample"], every["sample"]) == (1e-07, 1.0)


def test_a_time_limit_ends_with_3_and_what_was_found(validate, table):
    ended = validate(table.location, "--time-limit", "0s", "--json")
    assert ended.code == 3
    assert ended.document["status"] == "incomplete"
    assert result(ended)["complete"] is False


def test_a_table_without_snapshot_is_clean_at_every_level(validate, tmp_path):
    empty = TableBuilder(tmp_path / "empty")
    for level in ("metadata", "files", "footers", "data"):
        ended = validate(empty.location, "--level", level, "--all-snapshots", "--json")
        assert (ended.code, result(ended)["findings"]) == (0, [])


def test_many_findings_of_a_rule_are_cut_without_verbose(validate, tmp_path):
    built = filled_table(tmp_path / "many", range(30), files=30)
    for row in built.live():
        path_of(row["location"]).unlink()
    ended = validate(built.location)
    assert "  and 10 more; `--verbose` prints all of them" in ended.out.splitlines()
    whole = validate(built.location, "--verbose")
    assert whole.out.count("\n  data/") == 30
    assert whole.out.startswith("error R-034: the data file is missing\n")
    assert len(json.loads(validate(built.location, "--json").out)["result"]["findings"]) == 30


def test_findings_of_a_rule_that_differ_are_said_one_by_one():
    out = io.StringIO()
    console = Console(out, io.StringIO(), io.StringIO(), SystemEnv(), ConsoleOptions())
    found = [Finding("R-063", "error", f"/t/{name}", f"{name} is wrong", "mend") for name in "ab"]
    print_checked(console, CheckedTable("/t", "files", found, 1, 2, 3), whole=True)
    assert out.getvalue().splitlines()[:4] == [
        "error R-063: 2 findings", "  a: a is wrong", "  b: b is wrong", "  hint: mend",
    ]  # fmt: skip


def _zeroed(path: Path) -> None:
    """Leave nothing of a Parquet file but its footer, and its length."""
    content = path.read_bytes()
    footer = int.from_bytes(content[-8:-4], "little") + 8
    path.write_bytes(content[:4] + bytes(len(content) - footer - 4) + content[-footer:])


def test_r099_destroyed_rows_behind_whole_footers_are_seen_by_level_data_alone(validate, table):
    files = sorted(Path(table.location, "data").rglob("*.parquet"))
    whole = result(validate(table.location, "--level", "data", "--json"))
    assert (whole["files_decoded"], whole["files_judged_by_footers"]) == (len(files), 0)
    for path in files[1:]:
        _zeroed(path)
    ended = validate(table.location, "--level", "data", "--json")
    found = result(ended)
    assert ended.code == 4
    assert {one["rule"] for one in found["findings"]} == {"R-099"}
    assert sorted(one["subject"].rpartition("/")[2] for one in found["findings"]) == sorted(
        path.name for path in files[1:]
    )
    assert (found["files_decoded"], found["files_judged_by_footers"]) == (1, 0)
    assert all("compact" not in one["hint"] for one in found["findings"])


def test_the_report_says_how_many_files_were_decoded_and_how_many_judged(validate, table):
    files = sorted(Path(table.location, "data").rglob("*.parquet"))
    found = result(validate(table.location, "--level", "footers", "--json"))
    assert (found["files_decoded"], found["files_judged_by_footers"]) == (0, len(files))
    found = result(validate(table.location, "--json"))
    assert (found["files_decoded"], found["files_judged_by_footers"]) == (0, 0)
    assert f", {len(files)} decoded, " in validate(table.location, "--level", "data").out
    told = validate(table.location, "--level", "footers").out
    assert f", {len(files)} judged by footers, " in told


def test_r034_a_data_file_that_cannot_be_opened_does_not_end_the_check_of_others(validate, table):
    files = sorted(Path(table.location, "data").rglob("*.parquet"))
    files[0].unlink()
    files[0].mkdir()
    ended = validate(table.location, "--level", "data", "--json")
    found = result(ended)
    assert ended.code == 4
    assert {one["rule"] for one in found["findings"]} == {"R-034"}
    assert found["files_decoded"] == len(files) - 1


def test_r140_a_blob_of_statistics_that_cannot_be_decompressed_is_found_by_level_data(
    validate, table
):
    path = Path(table.location, "metadata", "some.stats")
    head = table.metadata.snapshots[-1]
    blob = NewBlob("apache-datasketches-theta-v1", (1,), head.snapshot_id, 1, b"x" * 99, "zstd")
    whole = write_puffin([blob], {})
    path.write_bytes(whole[:4] + bytes(8) + whole[12:])
    described = {"snapshot-id": head.snapshot_id, "sequence-number": 1, "fields": [1]}
    statistics = {
        "snapshot-id": head.snapshot_id, "statistics-path": str(path),
        "file-size-in-bytes": len(whole), "file-footer-size-in-bytes": len(whole) - 4,
        "blob-metadata": [{"type": blob.type, **described}],
    }  # fmt: skip
    Broken(Path(table.location)).edit(lambda members: members.update(statistics=[statistics]))

    def rules(level: str) -> set[str]:
        found = result(validate(table.location, "--level", level, "--rule", "R-140", "--json"))
        return {one["message"] for one in found["findings"] if "damaged" in one["message"]}

    assert rules("footers") == set()
    assert len(rules("data")) == 1


@pytest.mark.parametrize(("version", "level"), [(2, "data"), (2, "footers"), (3, "data")])
def test_r121_deletes_that_name_their_data_file_in_another_spelling_are_told(
    validate, tmp_path, version, level
):
    """Spark compares the two to the letter, and reads the deleted rows again."""
    table = filled_table(tmp_path / "t", range(10), format_version=version)
    table.delete_rows([3])
    words = (table.location, "--level", level, "--json")
    assert validate(*words).code == 0
    respell_data_files(table, f"file://{table.location}")
    checked = validate(*words)
    assert checked.code == 4
    told = [one for one in result(checked)["findings"] if one["rule"] == "R-121"]
    assert [one["severity"] for one in told] == ["error"]
    assert "to the letter" in told[0]["message"]


@pytest.mark.parametrize("level", ["metadata", "files", "footers", "data"])
def test_r163_a_version_hint_ahead_of_the_newest_file_is_told_at_every_level(
    validate, table, level
):
    Path(table.location, "metadata", "version-hint.text").write_text("99")
    found = result(validate(table.location, "--level", level, "--json"))["findings"]
    assert [(one["rule"], one["severity"]) for one in found] == [("R-163", "warning")]


def test_the_bar_of_rows_counts_files_and_nothing_else(validate, table, monkeypatch):
    phases: list[list[Any]] = []

    def phase(_self: ConsoleProgress, name: str, *, total: int | None = None, **_: str) -> None:
        phases.append([name, total, 0])

    def advance(_self: ConsoleProgress, amount: int) -> None:
        phases[-1][2] += amount

    monkeypatch.setattr(ConsoleProgress, "phase", phase)
    monkeypatch.setattr(ConsoleProgress, "advance", advance)
    table.merge_manifests_above = 1  # from now on, manifests list files again
    table.append(range(20, 30))
    table.append(range(30, 40))
    for choice in ((), ("--all-snapshots",)):
        found = result(validate(table.location, "--level", "footers", "--json", *choice))
        files = found["files_judged_by_footers"]
        assert files > 0
        assert phases[-1] == ["reading footers", files, files]
        [(total, done)] = [one[1:] for one in phases if one[0] == "checking manifests"]
        assert done == total > 1
        phases.clear()
