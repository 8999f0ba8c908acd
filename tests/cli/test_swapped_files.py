"""A file of the table under the name of another: it is named, nothing builds on it, and no hint
leads to where the damage stays."""

import os
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table import StaticTable

from icectl.env import Env
from tests.builders.broken import Broken, read_records
from tests.builders.folders import contents_of
from tests.builders.lost_lists import grown, tell
from tests.builders.rows import current_metadata, head, read_metadata, read_rows
from tests.builders.table_builder import START_MS, TableBuilder, filled_table
from tests.cli.conftest import Run, checked_document
from tests.stores.fixed_env import FixedEnv

COMMANDS = re.compile("`(icectl [^`]*)`")
CHANGING = (
    ("compact", "--engine", "local", "--rewrite-all", "--yes"),
    ("rewrite-manifests", "--yes"),
    ("expire-snapshots", "--older-than", "0s", "--yes"),
    ("remove-orphans", "--older-than", "0s", "--allow-recent", "--max-fraction", "1", "--yes"),
)


@pytest.fixture
def run(prepared: Callable[[str, Env], Run]) -> Run:
    """Run a command, a year after the builder's tables begin."""
    env = FixedEnv(START_MS + 365 * 86_400_000, uuids=5_000, snapshot_ids=5_000)
    return prepared("validate", env)


@pytest.fixture
def table(tmp_path: Path) -> TableBuilder:
    built = TableBuilder(tmp_path / "t", partitioning="identity")
    for start in (0, 15, 30):
        built.append(range(start, start + 15))
    built.delete_rows([1, 2, 16])
    return built


def rows(directory: Path) -> Any:
    return read_rows(read_metadata(current_metadata(directory)))


def errors(run: Run, directory: Path) -> list[dict[str, str]]:
    ended = run(str(directory), "--json")
    assert ended.code == 4
    found = checked_document(ended)["result"]["findings"]
    return [one for one in found if one["severity"] == "error"]


def check_refused(run: Run, directory: Path, *codes: int) -> None:
    before = contents_of(directory)
    for command, *words in CHANGING:
        assert run(str(directory), *words, command=command).code in (codes or (15,)), command
    assert contents_of(directory) == before


def check_hints(found: list[dict[str, str]]) -> None:
    for one in found:
        assert not {"rewrite-manifests", "compact"} & set(one["hint"].replace("`", " ").split())


@pytest.mark.parametrize("level", ["files", "footers"])
def test_r063_a_file_that_was_replaced_in_place_costs_no_row_by_the_hint(run, tmp_path, level):
    table = filled_table(tmp_path / "t", range(4), range(4, 8))
    place = str(table.live()[0]["location"])
    table.remove_data_files(1)
    Path(place).unlink()
    again = TableBuilder._new_path
    table._new_path = lambda folder, suffix: (  # type: ignore[method-assign]
        (place, Path(place)) if folder.startswith("data") else again(table, folder, suffix)
    )
    table.append(range(8, 20))
    before = rows(table.directory)
    validate = (str(table.directory), "--all-snapshots", "--level", level, "--json")
    found = checked_document(run(*validate))["result"]["findings"]
    hints = {one["hint"] for one in found if one["rule"] == "R-063"}
    (line,) = (line for hint in hints for line in COMMANDS.findall(hint))
    command, *words = shlex.split(line)[1:]
    assert run(*words, "--yes", command=command).code == 0
    assert run(*validate).code == 0
    assert rows(table.directory) == before


def test_r054_an_older_list_under_the_name_of_the_newest(run, table):
    newest, older = (Path(one.manifest_list or "") for one in table.metadata.snapshots[:1:-1])
    newest.write_bytes(older.read_bytes())
    found = errors(run, table.directory)
    assert [(one["rule"], one["subject"]) for one in found] == [("R-054", str(newest))]
    assert found[0]["message"].startswith("it is not the list of snapshot ")
    check_hints(found)
    check_refused(run, table.directory)
    before = contents_of(table.directory)
    assert run(str(table.directory), "--yes", command="repair").code == 5
    assert run(str(table.directory), "--dry-run", command="repair").code == 5
    assert contents_of(table.directory) == before


def test_r054_a_list_that_is_another_s_is_made_anew_where_it_is_proved(run, tmp_path):
    table = grown(tmp_path / "t", 2)
    table.append(range(60, 70))
    tell(table.directory)
    before = rows(table.directory)
    newest, older = (Path(one.manifest_list or "") for one in table.metadata.snapshots[:-3:-1])
    newest.write_bytes(older.read_bytes())
    ended = run(str(table.directory), "--yes", "--json", command="repair")
    assert ended.code == 0, ended.out
    assert rows(table.directory) == before
    assert head(table.directory)["snapshot-id"] != table.metadata.current_snapshot_id


@pytest.mark.parametrize("over", [0, -1])
def test_r064_a_manifest_under_the_name_of_another(run, table, over):
    table.append(
        range(45, 47)
    )  # shorter than the others: expiries that only compare lengths see it
    table.append(range(47, 60))
    paths = [Path(one["manifest_path"]) for one in Broken(table.directory).manifests(0)]
    paths[over].write_bytes(paths[1].read_bytes())
    found = errors(run, table.directory)
    (own,) = (one for one in found if one["subject"] == str(paths[over]))
    assert own["rule"] == "R-064"
    assert own["message"].startswith("it is not the manifest that the list describes: ")
    check_hints(found)
    check_refused(run, table.directory)
    assert run(str(table.directory), "--yes", "--json", command="repair").code == 5
    assert len(read_records(paths[over])) == len(read_records(paths[1]))


def miscounted(broken: Broken) -> None:
    """As a list has it that was made by hand: no file and row is counted, and lengths differ."""

    def change(listed: dict[str, Any]) -> None:
        counts = [name for name in listed if name.endswith(("_files_count", "_rows_count"))]
        listed.update(dict.fromkeys(counts, 0), manifest_length=listed["manifest_length"] + 1)

    broken.edit_lists(change)


def swapped_list(broken: Broken) -> None:
    members = read_metadata(current_metadata(broken.directory))
    before, after = (Path(one["manifest-list"]) for one in members["snapshots"][-2:])
    after.write_bytes(before.read_bytes())


def swapped_manifest(broken: Broken) -> None:
    first, second = (Path(one["manifest_path"]) for one in broken.manifests(0)[:2])
    first.write_bytes(second.read_bytes())


@pytest.mark.parametrize(
    ("damage", "rule"),
    [(miscounted, "R-051"), (swapped_list, "R-054"), (swapped_manifest, "R-064")],
)
def test_inspect_shows_what_engines_read_with_the_finding(run, tmp_path, damage, rule):
    table = filled_table(tmp_path / "t", *(range(start, start + 15) for start in (0, 15, 30)))
    damage(Broken(table.directory))
    read = StaticTable.from_metadata(str(current_metadata(table.directory)))
    files = [task.file for task in read.scan().plan_files()]
    assert files
    ended = run(str(table.directory), "--json", command="inspect")
    document = checked_document(ended)
    found = document["result"]
    assert (ended.code, found["data_file_count"], found["record_count"]) == (
        0, len(files), sum(file.record_count for file in files),
    )  # fmt: skip
    assert any(f"({rule})" in warning for warning in document["warnings"])
    listed = run(str(table.directory), "files", "--json", command="inspect")
    paths = sorted(row["file_path"] for row in checked_document(listed)["result"]["rows"])
    assert paths == sorted(file.file_path for file in files)
    check_refused(run, table.directory, 5, 15)  # 5: a summary counts other files than its list


def test_r024_an_older_metadata_file_under_the_newest_name(run, table):
    newest = current_metadata(table.directory)
    folder = newest.parent
    before = read_rows(read_metadata(folder / "v4.metadata.json"))
    assert newest.name == "v5.metadata.json"
    newest.write_bytes((folder / "v3.metadata.json").read_bytes())
    os.utime(newest, (START_MS / 1000, START_MS / 1000))
    found = errors(run, table.directory)
    assert [(one["rule"], one["subject"]) for one in found] == [("R-024", str(newest))]
    assert "its log ends with v2.metadata.json" in found[0]["message"]
    check_refused(run, table.directory)
    planned = run(str(table.directory), "--dry-run", "--json", command="repair")
    kinds = [one["kind"] for one in checked_document(planned)["result"]["repairs"]]
    assert (planned.code, kinds[0]) == (0, "metadata-file")
    assert run(str(table.directory), "--yes", command="repair").code == 0
    assert current_metadata(table.directory).name == "v4.metadata.json"
    assert rows(table.directory) == before


def test_what_a_plan_leaves_is_told_before_and_after_it_ran(run, table):
    broken = Broken(table.directory)
    broken.edit_head_list(lambda listed: listed[-1].update({"manifest_length": 5}))
    Path(broken.entries(0)[0]["data_file"]["file_path"]).unlink()
    planned = run(str(table.directory), "--dry-run", "--json", command="repair")
    result = checked_document(planned)["result"]
    assert [one["kind"] for one in result["repairs"]] == ["list-row"]
    assert [one["rule"] for one in result["left"]] == ["R-034"]
    assert planned.code == 4
    ended = run(str(table.directory), "--yes", command="repair")
    assert ended.code == 3
    assert "no errors are left" not in ended.out
