"""`icectl relocate` from the command line: moved and copied tables of every version."""

import csv
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import StaticTable

from icectl.env import Env
from tests.builders.expiry import NOW_MS
from tests.builders.folders import contents_by_name
from tests.builders.rows import (
    current_metadata,
    local,
    read_avro,
    read_metadata,
    read_rows,
    rows_by_snapshot,
)
from tests.builders.table_builder import TableBuilder, filled_table
from tests.cli.conftest import Run, result
from tests.fault.changing import CHANGING
from tests.stores.fixed_env import FixedEnv

BUILT = {
    "v1": "migrate", "v2": "rewrite-manifests", "v2-deletes": "merge-deletes", "v3": "expire-v3",
    "sfc-1": "expire-v4", "iceberg-1.12": "enter-sfc-1",
}  # fmt: skip
"""Tables by what they are, and the command of the fault tests that they are built for."""


@pytest.fixture
def relocate(prepared: Callable[[str, Env], Run]) -> Run:
    """Run `icectl relocate`."""
    return prepared("relocate", FixedEnv(NOW_MS))


def names_anywhere(folder: Path, text: str) -> list[str]:
    """Metadata files, lists and manifests that a table refers to and that have a text in them."""
    metadata = read_metadata(current_metadata(folder))
    found = [] if text not in json.dumps(metadata) else ["the metadata file"]
    for snapshot in metadata["snapshots"]:
        places = [snapshot["manifest-list"]] if "manifest-list" in snapshot else []
        places += [row["manifest_path"] for place in places for row in read_avro(place)]
        lists = [place for place in places if place.endswith(".avro")]
        found += [one for one in lists if text in json.dumps(read_avro(one), default=str)]
    return found


@pytest.mark.parametrize("kind", BUILT)
def test_a_moved_table_is_at_home_where_it_is_now(tmp_path, relocate, kind):
    built, moved = tmp_path / "built", tmp_path / "moved"
    CHANGING[BUILT[kind]].build(built)
    before, rows = read_metadata(current_metadata(built)), rows_by_snapshot(built)
    words = ("--level", "data", "--all-snapshots", "--json")
    checked = result(relocate(built, *words, command="validate"))["counts"]
    built.rename(moved)
    files = contents_by_name(moved)

    assert relocate(moved, "--check").code == 4
    assert relocate(moved, "--dry-run").code == 0
    assert contents_by_name(moved) == files
    done = result(relocate(moved, "--json"))
    assert done["to_copy"] == []
    assert not done["needs_registering"]
    assert rows_by_snapshot(moved) == rows
    assert {name: contents_by_name(moved)[name] for name in files if "hint" not in name} == {
        name: content for name, content in files.items() if "hint" not in name
    }
    assert names_anywhere(moved, str(built)) == []
    after = read_metadata(current_metadata(moved))
    assert after.get("table-uuid") == before.get("table-uuid")
    assert after["snapshot-log"] == before["snapshot-log"]
    assert (after["metadata-log"], before["metadata-log"] != []) == ([], True)
    assert result(relocate(moved, *words, command="validate"))["counts"] == checked
    assert checked["error"] == 0

    again = relocate(moved, "--json")
    assert (again.code, again.document["status"]) == (0, "nothing-to-do")
    assert relocate(moved, "--from", built, "--to", moved, "--check").code == 0
    assert not built.exists()


@pytest.mark.parametrize("kind", ["v2-deletes", "v3", "sfc-1", "iceberg-1.12"])
def test_a_table_that_still_lies_there_is_copied_by_the_list(tmp_path, relocate, kind):
    built, target = tmp_path / "built", tmp_path / "target"
    CHANGING[BUILT[kind]].build(built)
    rows, files = rows_by_snapshot(built), contents_by_name(built)
    listed = tmp_path / "copy.csv"

    refused = relocate(built, "--to", target)
    assert (refused.code, "--copy-list FILE --dry-run" in refused.err) == (5, True)
    assert not target.exists()
    words = (built, "--to", target, "--new-uuid", "--copy-list", listed)
    assert relocate(*words, "--dry-run").code == 0
    assert not target.exists()
    done = result(relocate(*words, "--json"))
    pairs = list(csv.reader(listed.read_text().splitlines()))
    assert pairs == [[item["source"], item["target"]] for item in done["to_copy"]]
    for source, copied in pairs:
        place = local(copied)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(local(source), place)
    assert rows_by_snapshot(target) == rows
    assert contents_by_name(built) == files
    after, before = (read_metadata(current_metadata(place)) for place in (target, built))
    assert after["table-uuid"] == done["uuid_after"] != before["table-uuid"]
    shutil.rmtree(built)
    assert rows_by_snapshot(target) == rows
    found = relocate(target, "--level", "data", "--all-snapshots", "--json", command="validate")
    assert result(found)["counts"]["error"] == 0


def test_a_copy_changes_without_the_original(tmp_path, relocate):
    """What the docs call trying it on a copy."""
    built, copy = tmp_path / "built", tmp_path / "copy"
    CHANGING["rewrite-manifests"].build(built)
    files, rows = contents_by_name(built), rows_by_snapshot(built)
    shutil.copytree(built, copy)
    told = relocate(copy, command="validate")
    assert (told.code, f"`icectl relocate {copy}`" in told.err) == (0, True)
    refused = relocate(copy, "--engine", "local", command="compact")
    assert refused.code == 5
    assert f"`icectl relocate {copy}`" in refused.err
    assert relocate(copy, "--new-uuid").code == 0
    words = ("--engine", "local", "--rewrite-all", "--yes")
    assert relocate(copy, *words, command="compact").code == 0
    words = ("--older-than", "0s", "--retain-last", "1", "--yes")
    assert relocate(copy, *words, command="expire-snapshots").code == 0
    after = read_metadata(current_metadata(copy))
    head = read_metadata(current_metadata(built))["current-snapshot-id"]
    assert sorted(read_rows(after), key=str) == sorted(rows[head], key=str)
    assert contents_by_name(built) == files


def test_metadata_of_another_table_in_the_same_folder_keep_their_names(tmp_path, relocate):
    first, other = tmp_path / "first", tmp_path / "other"
    for folder in (first, other):
        TableBuilder(folder).append([1])
    metadata = read_metadata(current_metadata(other)) | {"table-uuid": str(UUID(int=1))}
    metadata["snapshots"][0]["snapshot-id"] += 1
    strange = first / "metadata/00009-0190c1a4-5b6c-7d8e-9f01-000000000009.metadata.json"
    strange.write_text(json.dumps(metadata))
    files = contents_by_name(first)
    ended = relocate(first, "--metadata-file", current_metadata(first).name, "--new-uuid")
    assert (ended.code, "is not a copy" in ended.err) == (2, True)
    assert contents_by_name(first) == files


def test_tables_of_a_catalog_that_share_their_metadata_folder_keep_its_files(tmp_path, relocate):
    uri, shared = f"sqlite:///{tmp_path}/catalog.db", f"file://{tmp_path}/shared"
    catalog = SqlCatalog("c", uri=uri, warehouse=f"file://{tmp_path}")
    catalog.create_namespace("db")
    for name in ("one", "other"):
        properties = {"write.metadata.path": shared}
        location = f"file://{tmp_path}/{name}"
        columns = pa.schema([("id", pa.int64())])
        table = catalog.create_table(("db", name), columns, location, properties=properties)
        table.append(pa.table({"id": [1]}, columns))
    files = contents_by_name(tmp_path / "shared")
    words = ("--catalog", "c", "--catalog-option", "type=sql", "--catalog-option", f"uri={uri}")
    ended = relocate("db.one", *words, "--new-uuid")
    assert (ended.code, "is not a copy" in ended.err) == (2, True)
    assert contents_by_name(tmp_path / "shared") == files


def test_pyiceberg_reads_what_was_relocated(tmp_path, relocate):
    built, moved = tmp_path / "built", tmp_path / "moved"
    table = filled_table(built, range(9), files=2)
    table.delete_rows([1, 4])
    before = StaticTable.from_metadata(table.metadata_location).scan().to_arrow().to_pylist()
    built.rename(moved)
    assert relocate(moved).code == 0
    after = StaticTable.from_metadata(str(current_metadata(moved))).scan()
    assert all(str(moved) in task.file.file_path for task in after.plan_files())
    assert sorted(after.to_arrow().to_pylist(), key=str) == sorted(before, key=str)
    assert len(before) == 7


def moved_table(tmp_path: Path) -> tuple[Path, Path]:
    """A table of two rows in two files that was moved: where from, where to."""
    built, moved = tmp_path / "built", tmp_path / "moved"
    filled_table(built, [1], [2])
    built.rename(moved)
    return built, moved


def error(ended: Any, code: int, id_: str) -> dict[str, Any]:
    """The error of a run with --json, with its id."""
    document = ended.document
    assert (ended.code, document["error"]["id"]) == (code, id_), document
    return dict(document["error"])


def test_folders_that_metadata_cannot_name_are_refused(tmp_path):
    _, moved = moved_table(tmp_path)
    named = tmp_path / "no-text-\udcff"
    moved.rename(named)
    files = contents_by_name(named)
    words = [sys.executable, "-m", "icectl", "relocate", str(named), "--yes"]
    refused = subprocess.run(words, capture_output=True, check=False)
    assert (refused.returncode, b"not text in UTF-8" in refused.stderr) == (2, True)
    assert contents_by_name(named) == files


def test_a_missing_or_short_data_file_is_refused_by_name(tmp_path, relocate):
    _, moved = moved_table(tmp_path)
    first, second = sorted((moved / "data").rglob("*.parquet"))
    first.write_bytes(first.read_bytes()[:-1])
    second.unlink()
    files = contents_by_name(moved)
    found = error(relocate(moved, "--json"), 5, "files-missing")
    assert "1 other file" in found["message"]
    planned = relocate(moved, "--dry-run")
    assert (planned.code, planned.err) == (5, f"hint: {found['hint']}\n")
    assert contents_by_name(moved) == files
    listed = tmp_path / "copy.csv"
    done = result(relocate(moved, "--copy-list", listed, "--json"))
    assert {(item["found_bytes"] is None) for item in done["to_copy"]} == {True, False}
    assert len(listed.read_text().splitlines()) == 2


def test_a_missing_manifest_is_refused_by_name(tmp_path, relocate):
    built, moved = moved_table(tmp_path)
    lost = min((moved / "metadata").glob("*-m*.avro"))
    lost.unlink()
    found = error(relocate(moved, "--json"), 5, "files-missing")
    assert str(lost) in found["message"]
    assert str(built / "metadata" / lost.name) in found["message"]


def test_locations_elsewhere_are_refused_until_from_has_them(tmp_path, relocate):
    built, moved = tmp_path / "built", tmp_path / "moved"
    table = TableBuilder(built)
    table.set_properties({"write.data.path": str(tmp_path / "elsewhere")})
    table.append([1])
    built.rename(moved)
    assert "write.data.path" in error(relocate(moved, "--json"), 5, "location-outside")["hint"]
    words = ("--from", built, "--from", tmp_path / "elsewhere", "--to", moved)
    assert relocate(moved, *words).code == 0
    assert read_metadata(current_metadata(moved))["properties"]["write.data.path"] == str(moved)


def test_the_place_of_another_table_is_refused(tmp_path, relocate):
    first, second = tmp_path / "first", tmp_path / "second"
    TableBuilder(first).append([1])
    TableBuilder(second).append([2, 3])
    files = contents_by_name(second)
    error(relocate(first, "--to", second, "--json"), 5, "place-taken")
    assert contents_by_name(second) == files
    for inner in (first / "inner", tmp_path):
        error(relocate(first, "--to", inner, "--json"), 5, "refused")


def test_what_stands_there_already_is_nothing_to_do(tmp_path, relocate):
    built, target = tmp_path / "built", tmp_path / "target"
    TableBuilder(built).append([1])
    words = (built, "--to", target, "--copy-list", tmp_path / "copy.csv", "--json")
    assert result(relocate(*words))["metadata_file"] is not None
    again = relocate(*words)
    assert (again.code, again.document["status"]) == (0, "nothing-to-do")


def test_a_table_of_a_catalog_needs_its_current_metadata_file(tmp_path, relocate):
    _, moved = moved_table(tmp_path)
    current = current_metadata(moved)
    named = moved / "metadata" / "00002-0190c1a4-5b6c-7d8e-9f01-23456789abcd.metadata.json"
    current.rename(named)
    for path in moved.glob("metadata/v*.metadata.json"):
        path.unlink()
    found = error(relocate(moved, "--json"), 5, "current-unknown")
    assert named.name in found["hint"]
    done = result(relocate(moved, "--metadata-file", named.name, "--json"))
    assert done["needs_registering"]
    written = Path(done["metadata_file"])
    assert written.name.startswith("00003-")
    assert len(read_rows(read_metadata(written))) == 2
    shown = relocate(moved, "--metadata-file", named.name)
    assert (shown.code, "is newer" in shown.err) == (5, True)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--from", "/nowhere"), "which is not under `--from` /nowhere"),
        (("--to", "/somewhere/else"), "`--to` is neither"),
        (("--save-plan", "plan.json", "-n"), "cannot be used with `relocate`"),
    ],
)
def test_wrong_usage_says_what_is_meant(tmp_path, relocate, words, said):
    _, moved = moved_table(tmp_path)
    ended = relocate(moved, *words)
    assert (ended.code, said in " ".join(ended.err.split())) == (2, True), ended.err
    assert relocate(tmp_path / "none", "--to", tmp_path / "other").code == 10
