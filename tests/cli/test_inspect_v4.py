"""`icectl inspect` on tables of version 4: what every view told before the upgrade, and roots."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.builders.rows import current_metadata, live_entries, read_metadata
from tests.builders.table_builder import START_MS, TableBuilder, filled_table
from tests.builders.tree_table import data_files, remove_data_files, upgrade
from tests.cli.conftest import HOUR_MS, Inspect, checked_document, result
from tests.stores.fixed_env import FixedEnv


@pytest.fixture
def directory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """A table of version 3 with delete vectors, upgraded, and two of its files removed then."""
    table = TableBuilder(tmp_path / "t", format_version=3, partitioning="identity")
    table.append(range(6))
    table.append(range(6, 12))
    table.delete_rows([1, 7])
    env = FixedEnv(START_MS + HOUR_MS)
    upgrade(tmp_path / "t", env)
    files = data_files(tmp_path / "t")
    remove_data_files(tmp_path / "t", env, files[:1])
    remove_data_files(tmp_path / "t", env, files[1:2])
    capsys.readouterr()
    return tmp_path / "t"


def test_the_tree_has_a_root_and_what_its_vectors_kill(inspect, directory):
    (snapshot,) = result(inspect(directory, "tree", "--json"))["tree"]["children"]
    (root,) = snapshot["children"]
    assert root["kind"] == "root-manifest"
    assert root["size_bytes"] == Path(root["location"].removeprefix("file:")).stat().st_size
    vectors = [node for node in root["children"] if node["kind"] == "manifest-dv"]
    live = [node for node in vectors if node["status"] != "deleted"]
    assert sum(node["position_count"] for node in live) == 2
    assert [len(node["children"]) for node in live] == [node["position_count"] for node in live]
    text = inspect(directory, "tree").out
    assert "root manifest, " in text
    assert " dead, " not in text
    assert inspect(directory, "tree", "-v").out.count(" dead, ") == 2


def test_mermaid_and_html_show_the_root(inspect, directory, tmp_path):
    assert "|applies to| manifest_" in inspect(directory, "tree", "--format", "mermaid").out
    page = tmp_path / "tree.html"
    assert inspect(directory, "tree", "--html", page).out == f"wrote {page}\n"
    html = page.read_text()
    assert "|applies to| manifest_" in html
    assert "http" not in html
    assert "<script" not in html


UPGRADES = [(2, ()), (3, ()), (3, ("--eager",))]
SAME_OF_SUMMARY = (
    "data_file_count", "delete_file_count", "data_file_bytes", "delete_file_bytes", "record_count",
    "position_delete_file_count", "equality_delete_file_count", "deletion_vector_count",
    "position_delete_record_count", "equality_delete_record_count", "properties", "schema_id",
    "partition_spec_id", "sort_order_id", "location",
)  # fmt: skip
SAME_OF_FILE = (
    "content", "file_path", "file_format", "spec_id", "partition", "record_count",
    "file_size_in_bytes", "split_offsets", "equality_ids", "content_offset",
    "content_size_in_bytes", "referenced_data_file",
)  # fmt: skip
SAME_OF_ENTRY = ("snapshot_id", "sequence_number", "file_sequence_number")
SAME_OF_CHECKS = ("small_files", "delete_debt", "file_sizes")


def build(directory: Path, version: int) -> TableBuilder:
    """A table with deletes of every kind that its version has, in two partition fields."""
    table = filled_table(directory, range(12), files=3, format_version=version, partitioning="two")
    table.append(range(12, 24))
    table.delete_rows([1, 2, 13])
    if version == 2:
        table.delete_rows([5], kind="equality")
    table.remove_data_files(1)
    return table


def without_scheme(value: Any) -> Any:
    """The same with local paths spelled alike."""
    return json.loads(json.dumps(value).replace('"file:/', '"/'))


def views(inspect: Inspect, directory: Path) -> dict[str, Any]:
    """What every view of a snapshot tells."""
    names = ("summary", "health", "files", "entries", "partitions", "manifests")
    return {name: without_scheme(result(inspect(directory, name, "--json"))) for name in names}


def chosen(rows: list[dict[str, Any]], names: tuple[str, ...]) -> list[dict[str, Any]]:
    """Some members of rows, in an order of their own."""
    return sorted(({name: row[name] for name in names} for row in rows), key=json.dumps)


@pytest.mark.parametrize(("version", "words"), UPGRADES)
def test_views_tell_the_same_as_before_the_upgrade(inspect, tmp_path, capsys, version, words):
    build(tmp_path / "t", version)
    before = views(inspect, tmp_path / "t")
    upgrade(tmp_path / "t", FixedEnv(START_MS + HOUR_MS), *words)
    capsys.readouterr()
    after = views(inspect, tmp_path / "t")
    assert [after["summary"][key] for key in SAME_OF_SUMMARY] == [
        before["summary"][key] for key in SAME_OF_SUMMARY
    ]
    for name in SAME_OF_CHECKS:
        assert after["health"][name] == before["health"][name]
    assert after["partitions"]["rows"] == before["partitions"]["rows"]

    def files(found: Any) -> Any:
        return chosen(found["files"]["rows"], SAME_OF_FILE)

    assert files(after) == files(before)

    def entries(found: Any) -> Any:
        rows = [row for row in found["entries"]["rows"] if row["status"] != 2]
        flat = [{**row, "file_path": row["data_file"]["file_path"]} for row in rows]
        return chosen(flat, (*SAME_OF_ENTRY, "file_path"))

    assert entries(after) == entries(before)
    if not words:
        old, new = before["manifests"]["rows"], after["manifests"]["rows"]
        told = tuple(name for name in old[0] if name not in ("first_row_id", "partition_summaries"))
        assert chosen(new, told) == chosen(old, told)
        for row, was in zip(new, old, strict=True):  # a root has the ranges of live files alone
            is_same = row["partition_summaries"] == was["partition_summaries"]
            assert is_same or was["deleted_data_files_count"]
        assert {row["status"] for row in new} == {0}
        assert before["summary"]["manifest_count"] == after["summary"]["manifest_count"]


@pytest.mark.parametrize(("version", "words"), UPGRADES)
def test_views_after_removals_tell_what_the_independent_reader_finds(
    inspect, tmp_path, capsys, version, words
):
    directory, env = tmp_path / "t", FixedEnv(START_MS + HOUR_MS)
    build(directory, version)
    upgrade(directory, env, *words)
    gone = data_files(directory)[:2]
    remove_data_files(directory, env, gone)
    capsys.readouterr()
    metadata = read_metadata(current_metadata(directory))
    (head,) = (
        s for s in metadata["snapshots"] if s["snapshot-id"] == metadata["current-snapshot-id"]
    )
    live = [entry["data_file"] for entry in live_entries(head)]
    data = [file for file in live if not file.get("content")]
    found = views(inspect, directory)
    assert sorted(row["file_path"] for row in found["files"]["rows"]) == sorted(
        without_scheme([file["file_path"] for file in live])
    )
    summary = found["summary"]
    assert summary["data_file_count"] == found["health"]["data_file_count"] == len(data)
    assert summary["delete_file_count"] == len(live) - len(data)
    assert summary["data_file_bytes"] == sum(file["file_size_in_bytes"] for file in data)
    assert summary["record_count"] == sum(file["record_count"] for file in data)
    assert sum(row["file_count"] for row in found["partitions"]["rows"]) == len(data)
    assert (
        sum(row["record_count"] for row in found["partitions"]["rows"]) == summary["record_count"]
    )
    dead = sum(row["dead_files_count"] for row in found["manifests"]["rows"])
    assert dead == found["health"]["manifest_debt"]["dead_file_count"] >= len(gone)
    changes = result(inspect(directory, "changes", "--json"))
    assert changes["removed_files"] == len(gone)
    assert changes["added_files"] == changes["added_delete_files"] == 0
    removed = [file["file_path"] for file in changes["files"] if file["kind"] == "data"]
    assert sorted(without_scheme(removed)) == sorted(without_scheme(gone))
    every = result(inspect(directory, "files", "--all-snapshots", "--json"))["rows"]
    assert set(without_scheme(gone)) <= {row["file_path"] for row in without_scheme(every)}


def test_changes_over_the_upgrade_are_those_of_both_ends(inspect, directory):
    first = read_metadata(current_metadata(directory))["snapshots"][0]["snapshot-id"]
    found = result(inspect(directory, "changes", "--from", first, "--json"))
    # Three files came, one of which went again, as one of the first three did.
    assert (found["added_files"], found["removed_files"]) == (2, 1)
    assert found["row_changes"] is None


def test_a_missing_vector_is_named_in_one_plain_warning(inspect, directory, capsys):
    env = FixedEnv(START_MS + 2 * HOUR_MS, uuids=5_000, snapshot_ids=5_000)
    remove_data_files(directory, env, data_files(directory))
    capsys.readouterr()
    found = result(inspect(directory, "changes", "--json"))
    counted = {"added_rows": 0, "removed_rows": 8 - 2}  # two of these were deleted before
    assert found["row_changes"] == counted
    (vector,) = (directory / "data").rglob("*.puffin")
    vector.unlink()
    ended = inspect(directory, "changes", "--json")
    reason = f"the file of a vector is missing: {vector}"
    assert ended.err == f"warning: rows are not counted: {reason}\n"
    assert checked_document(ended)["result"]["row_changes"] is None
