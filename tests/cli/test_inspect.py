"""`icectl inspect` from the command line: every view, its choices, its formats."""

import csv
import io
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from icectl.cli.document import Outcome
from icectl.commands.inspect import clustering
from icectl.commands.inspect import run as inspect_run
from icectl.commands.inspect.views import VIEWS
from icectl.errors import StorageError, TableNotFound
from icectl.format.sort import SortField, SortOrder
from icectl.format.transforms import parse_transform
from tests.builders.broken import Broken
from tests.builders.orphans import edit_metadata
from tests.builders.rows import current_metadata, read_metadata
from tests.builders.table_builder import START_MS, TableBuilder, filled_table
from tests.builders.tree_table import remove_data_files, upgrade
from tests.cli.conftest import HOUR_MS, result, result_of
from tests.stores.fixed_env import FixedEnv

SUMMARY_KEYS = [
    "format_version", "uuid", "location", "metadata_location", "last_updated",
    "current_snapshot_id", "snapshot_count", "refs", "schema_id", "partition_spec_id",
    "sort_order_id", "data_file_count", "delete_file_count", "data_file_bytes",
    "delete_file_bytes", "record_count", "manifest_count", "properties",
]  # fmt: skip


@pytest.fixture
def table(tmp_path: Path) -> TableBuilder:
    """Three commits a minute apart: 6 rows in 3 partitions, 3 more, 2 of them deleted."""
    built = TableBuilder(tmp_path / "t", partitioning="identity", properties={"owner": "ops"})
    built.append(range(6))
    built.append(range(6, 9))
    built.delete_rows([0, 3])
    built.ref("quarter", snapshot_id=built.metadata.snapshots[0].snapshot_id)
    return built


def test_summary_has_the_promised_keys_and_the_builders_counts(inspect, table):
    found = result(inspect(table.location, "--json"))
    assert [key for key in SUMMARY_KEYS if key not in found] == []
    assert found["view"] == "summary"
    assert found["record_count"] == 9
    assert found["data_file_count"] == 6
    assert found["position_delete_file_count"] == found["delete_file_count"] == 1
    assert found["position_delete_record_count"] == 2
    assert found["snapshot_count"] == found["manifest_count"] == 3
    files = list(Path(table.location, "data").rglob("*.parquet"))
    deletes = sum(path.stat().st_size for path in files if "deletes" in path.name)
    assert found["delete_file_bytes"] == deletes
    assert found["data_file_bytes"] == sum(path.stat().st_size for path in files) - deletes
    assert found["current_snapshot_id"] == str(table.metadata.current_snapshot_id)
    assert found["refs"]["quarter"] == {
        "snapshot_id": str(table.metadata.snapshots[0].snapshot_id),
        "type": "tag",
    }
    assert found["properties"] == {"owner": "ops"}
    assert found["last_updated"] == "2025-06-15T15:10:40Z"


def test_text_of_the_summary_names_what_json_holds(inspect, table):
    lines = inspect(table.location).out.splitlines()
    assert "records       9 before deletes" in lines
    assert any(line.startswith("data files    6, ") for line in lines)
    assert "refs            main, quarter (tag)" in lines


NEEDED = {"matches": ("--where", "id = 4"), "advice": ("--columns", "id")}
"""Options that a view can't be without."""


@pytest.mark.parametrize("view", VIEWS)
def test_json_of_every_view_keeps_to_the_schema(inspect, table, view):
    words = (view, *NEEDED.get(view, ()))
    assert result(inspect(table.location, *words, "--json"))["view"] == view


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_of_a_table_without_snapshot_is_empty_and_no_error(inspect, tmp_path, view):
    empty, words = TableBuilder(tmp_path / "empty"), (view, *NEEDED.get(view, ()))
    found = result(inspect(empty.location, *words, "--json"))
    assert inspect(empty.location, *words).code == 0
    if view == "summary":
        assert (found["data_file_count"], found["record_count"], found["snapshot_id"]) == (
            0,
            0,
            None,
        )
    if view in (
        "snapshots", "history", "refs", "manifests", "files", "entries", "partitions", "deletes",
    ):  # fmt: skip
        assert found["rows"] == []
    if view == "changes":
        assert (found["added_files"], found["removed_files"]) == (0, 0)
    if view == "tree":
        assert found["tree"]["children"] == []


def test_a_table_with_tags_only_is_read_by_tag(inspect, tmp_path):
    table = TableBuilder(tmp_path / "t")
    first = table.append(range(4))
    document = json.loads(Path(table.metadata_location).read_text())
    document["current-snapshot-id"] = -1
    document["refs"] = {"only": {"snapshot-id": first, "type": "tag"}}
    Path(table.metadata_location).write_text(json.dumps(document))
    assert result(inspect(table.location, "--json"))["record_count"] == 0
    assert result(inspect(table.location, "--ref", "only", "--json"))["record_count"] == 4
    assert result(inspect(table.location, "--ref", "main", "--json"))["record_count"] == 0


def test_snapshot_is_chosen_by_id_ref_or_instant(inspect, table):
    first, second, third = (each.snapshot_id for each in table.metadata.snapshots)
    for choice, expected in (
        (("--snapshot", second), second),
        (("--ref", "quarter"), first),
        (("--ref", "main"), third),
        (("--as-of", "2025-06-15T15:08:39Z"), first),
        (("--as-of", "2025-06-15T15:08:40Z"), second),
        (("--as-of", "1h"), third),
    ):
        found = result(inspect(table.location, *choice, "--json"))
        assert found["snapshot_id"] == str(expected), choice


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--snapshot", "1", "--ref", "main"), "cannot be used together"),
        (("--ref", "main", "--as-of", "1h"), "cannot be used together"),
        (("files", "--all-snapshots", "--ref", "main"), "`--all-snapshots` cannot be used with"),
        (("--snapshot", "77"), "no snapshot 77"),
        (("--snapshot", "main"), "takes the id of a snapshot"),
        (("--ref", "nowhere"), "no branch or tag `nowhere`"),
        (("--as-of", "2025-06-15T15:00:00Z"), "does not reach back"),
        (("--as-of", "2999-01-01"), "future"),
        (("--all-snapshots",), "does not apply to the view `summary`"),
        (("schemas", "--ref", "main"), "does not apply to the view `schemas`"),
        (("files", "--from", "1"), "does not apply to the view `files`"),
        (("files", "--html", "x"), "does not apply to the view `files`"),
        (("--columns", "uuid"), "does not apply to the view `summary`"),
        (("files", "--columns", "nothing"), "no column `nothing`"),
        (("refs", "--columns", "nothing"), "no column `nothing`"),
        (("files", "--content", "rows"), "not one of `data`, `deletes`"),
        (("--format", "csv"), "not a format of this view; it has text, json"),
        (("files", "--format", "mermaid"), "not a format of this view"),
        (("files", "--limit", "0"), "whole number above 0"),
        (("snapshots", "--where", "id = 1"), "does not apply to the view `snapshots`"),
        (("files", "--where", "nothing = 1"), "no column `nothing`"),
        (("file",), "there is no view `file`"),
        (("clustering", "--columns", "idd"), "no column `idd`\nhint: did you mean `id`?"),
        (("clustering", "--format", "csv"), "not a format of this view; it has text, json"),
        (("advice",), "the view `advice` needs logs of queries"),
        (("advice", "--columns", "idd"), "no column `idd`\nhint: did you mean `id`?"),
        (("advice", "--queries", "/nowhere"), "`--queries`: there is no file `/nowhere`"),
        (("advice", "--queries", "x", "--from", "1"), "does not apply to the view `advice`"),
        (("files", "--queries", "x"), "does not apply to the view `files`"),
        (("matches",), "the view `matches` needs `--where`"),
        (("matches", "--where", "idd = 1"), "no column `idd`"),
        (("matches", "--where", "id = 1", "--ref", "main"), "does not apply to the view `matches`"),
    ],
)
def test_options_that_make_no_sense_are_wrong_usage(inspect, table, arguments, message):
    ended = inspect(table.location, *arguments)
    assert (ended.code, ended.out) == (2, "")
    assert message in ended.err


def test_swapped_view_and_table_get_a_hint(inspect, table):
    swapped = inspect("files", table.location)
    assert swapped.code == 2
    assert f"hint: `icectl inspect {table.location} files`" in swapped.err
    missing = inspect("files")
    assert missing.code == 2
    assert "hint: `icectl inspect TABLE files`" in missing.err


def test_one_metadata_file_shows_the_table_as_it_was(inspect, table):
    older = Path(table.location, "metadata", "v2.metadata.json")
    found = result(inspect(older, "--json"))
    assert (found["snapshot_count"], found["record_count"]) == (1, 6)
    assert found["metadata_location"] == str(older)


def test_table_of_a_catalog_is_read_and_said_so_on_stderr(inspect, table):
    folder = Path(table.location, "metadata")
    newest = folder / "00003-9c12d441-03fe-4693-9a96-a0705ddf69c1.metadata.json"
    shutil.copy(table.metadata_location, newest)
    for other in folder.glob("v*"):
        other.unlink()
    ended = inspect(table.location)
    assert ended.code == 0
    assert ended.err.startswith("note: this table belongs to a catalog")
    assert str(newest) in ended.err
    assert "note:" not in inspect(table.location, "--quiet").err


def test_a_column_that_was_asked_for_is_shown_without_a_value_too(inspect, table):
    shown = inspect(table.location, "files", "--columns", "equality_ids,spec_id", "--limit", 1)
    assert shown.out.splitlines() == ["equality_ids  spec_id", "                    0"]


def test_limit_keeps_the_newest_of_a_log_and_the_first_of_others(inspect, table):
    ids = [str(each.snapshot_id) for each in table.metadata.snapshots]
    logged = result(inspect(table.location, "snapshots", "--limit", 2, "--json"))["rows"]
    assert [row["snapshot_id"] for row in logged] == ids[1:]
    every = result(inspect(table.location, "files", "--json"))["rows"]
    assert result(inspect(table.location, "files", "--limit", 2, "--json"))["rows"] == every[:2]


def test_columns_go_by_their_headings_too(inspect, table):
    def keys(view: str, names: str) -> list[str]:
        words = (view, "--columns", names, "--json")
        return list(result(inspect(table.location, *words))["rows"][0])

    assert keys("files", "file,size,records,content") == [
        "file_path", "file_size_in_bytes", "record_count", "content",
    ]  # fmt: skip
    assert keys("files", "partition") == ["partition"]  # the column of that name, not its path
    assert keys("snapshots", "snapshot,committed") == ["snapshot_id", "committed_at"]
    assert keys("manifests", "manifest,size,spec") == ["path", "length", "partition_spec_id"]
    assert keys("manifests", "added") == ["added_data_files_count", "added_delete_files_count"]
    assert keys("snapshots", "files,rows") == ["summary"]
    assert keys("snapshots", "committed (UTC)") == ["committed_at"]


NONE = ("statistics", "deletes", "erasures")
"""Views of which the table has no row."""


@pytest.mark.parametrize(
    "view", [name for name, view in VIEWS.items() if view.rows and name not in NONE]
)
def test_columns_go_by_every_heading_that_a_view_shows(inspect, table, view):
    header, *lines = inspect(table.location, view, "--limit", 2).out.splitlines()
    headings = re.split(r" {2,}", header.strip())
    shown = inspect(table.location, view, "--columns", ",".join(headings), "--limit", 2)
    assert (shown.code, shown.err) == (0, "")
    assert len(shown.out.splitlines()) == 1 + len(lines)


def test_a_heading_over_several_columns_shows_what_stands_below_it(inspect, table):
    words = (table.location, "manifests", "--columns", "added,existing", "--format", "csv")
    every = result(inspect(table.location, "manifests", "--json"))["rows"]
    assert inspect(*words).out.splitlines() == [
        "added,existing",
        *(
            ",".join(
                str(row[f"{state}_data_files_count"] + row[f"{state}_delete_files_count"])
                for state in ("added", "existing")
            )
            for row in every
        ),
    ]


def test_an_unknown_column_is_told_the_headings_there_are(inspect, table):
    told = inspect(table.location, "snapshots", "--columns", "added files").err
    assert told.endswith("refs; as shown: snapshot, committed, files, rows, deletes\n")


def test_columns_are_chosen_in_order_and_below_a_column(inspect, table):
    columns = "record_count,partition.category,readable_metrics.id.upper_bound"
    found = result(inspect(table.location, "files", "--columns", columns, "--json"))["rows"]
    assert list(found[0]) == columns.split(",")
    assert sorted(tuple(row.values()) for row in found if row["record_count"] == 1) == [
        (1, "c0", 6),
        (1, "c1", 7),
        (1, "c2", 8),
    ]


def test_files_of_all_snapshots_are_those_of_every_manifest_once(inspect, tmp_path):
    table = filled_table(tmp_path / "t", range(4), files=2)
    table.remove_data_files(1)
    now = result(inspect(table.location, "files", "--json"))
    ever = result(inspect(table.location, "files", "--all-snapshots", "--json"))
    assert len(now["rows"]) == 1
    assert ever["snapshot_id"] is None
    assert sorted({row["file_path"] for row in ever["rows"]}) == sorted(
        str(path) for path in Path(table.location, "data").glob("*.parquet")
    )


def test_content_narrows_files_entries_and_manifests(inspect, table):
    for view, data, deletes in (("files", 6, 1), ("entries", 6, 1), ("manifests", 2, 1)):
        for content, count in (("data", data), ("deletes", deletes)):
            found = result(inspect(table.location, view, "--content", content, "--json"))
            assert len(found["rows"]) == count, (view, content)


@pytest.mark.parametrize("layout", ["lists", "sfc-1"])
def test_a_condition_reads_only_manifests_that_may_list_a_match(inspect, tmp_path, layout):
    """Ids are hours from 22:13 of 14 November on; each of ten whole days has its own manifest."""
    table = TableBuilder(tmp_path / "t", partitioning="day", merge_manifests_above=1000)
    for day in range(10):
        table.append(range(24 * day + 2, 24 * day + 26))
    if layout == "sfc-1":
        upgrade(tmp_path / "t", FixedEnv(START_MS + HOUR_MS))
    one_day = "at >= '2023-11-19' and at < '2023-11-20'"
    chosen = result(inspect(table.location, "manifests", "--where", one_day, "--json"))["rows"]
    every = result(inspect(table.location, "manifests", "--json"))["rows"]
    assert (len(chosen), len(every)) == (1, 10)
    for row in every:
        if row not in chosen and row["path"].endswith(".avro"):
            Path(row["path"].removeprefix("file:")).unlink()
    for view, counted in (("files", "record_count"), ("entries", "data_file")):
        ended = inspect(table.location, view, "--where", one_day, "--json")
        assert ended.code == 0, ended.err
        (row,) = result(ended)["rows"]
        assert row[counted] == 24 or row[counted]["record_count"] == 24
    assert inspect(table.location, "files", "--where", "at < '2023-11-16'").code == 15


def test_a_condition_chooses_files_by_metrics_and_delete_files_by_partition(inspect, table):
    table.delete_rows([4])  # in category c1
    found = result(inspect(table.location, "files", "--where", "id = 8", "--json"))["rows"]
    kinds = {(row["content"], row["partition"]["category"]) for row in found}
    assert kinds == {(0, "c2"), (1, "c0"), (1, "c1")}
    category = result(inspect(table.location, "files", "--where", "category = 'c1'", "--json"))
    kinds = [(row["content"], row["partition"]["category"]) for row in category["rows"]]
    assert sorted(kinds) == [(0, "c1"), (0, "c1"), (1, "c1")]


def test_manifests_of_all_snapshots_name_the_snapshot(inspect, table):
    rows = result(inspect(table.location, "manifests", "--all-snapshots", "--json"))["rows"]
    ids = [str(each.snapshot_id) for each in table.metadata.snapshots]
    assert [row["reference_snapshot_id"] for row in rows] == [
        ids[0], ids[1], ids[1], ids[2], ids[2], ids[2],
    ]  # fmt: skip


def test_csv_and_json_lines_hold_the_rows_of_json(inspect, table):
    rows = result(inspect(table.location, "files", "--json"))["rows"]
    lines = inspect(table.location, "files", "--format", "jsonl").out.splitlines()
    assert [json.loads(line) for line in lines] == rows
    read = list(
        csv.DictReader(io.StringIO(inspect(table.location, "files", "--format", "csv").out))
    )
    assert [row["file_path"] for row in read] == [row["file_path"] for row in rows]
    assert [json.loads(row["partition"]) for row in read] == [row["partition"] for row in rows]
    assert [row["key_metadata"] for row in read] == [""] * 7


def test_changes_count_files_and_rows_between_snapshots(inspect, table):
    first, second, third = (each.snapshot_id for each in table.metadata.snapshots)
    last = result(inspect(table.location, "changes", "--json"))
    assert (last["from_snapshot_id"], last["to_snapshot_id"]) == (str(second), str(third))
    assert (last["added_files"], last["added_rows"]) == (0, 0)
    assert (last["added_delete_files"], last["added_position_deletes"]) == (1, 2)
    whole = result(inspect(table.location, "changes", "--from", first, "--to", third, "--json"))
    assert (whole["added_files"], whole["added_rows"], whole["removed_files"]) == (3, 3, 0)
    assert whole["from_is_ancestor"] is True
    back = result(inspect(table.location, "changes", "--from", third, "--to", first, "--json"))
    assert (back["removed_files"], back["removed_rows"], back["added_files"]) == (3, 3, 0)
    assert back["from_is_ancestor"] is False
    none = result(inspect(table.location, "changes", "--from", third, "--to", third, "--json"))
    assert (none["added_files"], none["removed_files"], none["files"]) == (0, 0, [])


def test_a_rewrite_shows_as_files_added_and_removed(inspect, tmp_path):
    table = filled_table(tmp_path / "t", range(9), files=3)
    table.replace_data_files(2)
    found = result(inspect(table.location, "changes", "--json"))
    counts = ("added_files", "added_rows", "removed_files", "removed_rows")
    assert [found[key] for key in counts] == [1, 6, 2, 6]


@pytest.mark.parametrize("layout", ["lists", "sfc-1"])
def test_clustering_counts_the_files_that_hold_a_value(inspect, tmp_path, layout):
    table = TableBuilder(tmp_path / "t")
    keys = [(1, "identity"), (1, "bucket[4]")]
    fields = tuple(SortField((id_,), parse_transform(t), "asc", "nulls-first") for id_, t in keys)
    order = SortOrder(1, fields)
    table.metadata = replace(table.metadata, sort_orders=(order,), default_sort_order_id=1)
    for ids in ([0, 10], [5, 20], [30, 40]):
        table.append(ids)
    table.delete_rows([5])
    if layout == "sfc-1":
        upgrade(tmp_path / "t", FixedEnv(START_MS + HOUR_MS))
    found = result(inspect(table.location, "clustering", "--json"))
    assert found["sort_order"] == "id asc nulls first, bucket[4](id) asc nulls first"
    assert (found["record_count"], found["deleted_record_count"]) == (6, 1)
    by_id, by_bucket = found["columns"]
    assert by_id["average_depth"] == pytest.approx((1.5 + 4 / 3 + 1) / 3)
    assert by_id["average_depth_in_partitions"] == by_id["average_depth"]
    assert (by_id["max_depth"], by_id["unknown_file_count"]) == (2, 0)
    assert by_id["point_lookup_file_ratio"] == pytest.approx(by_id["average_depth"] / 3)
    assert [band["file_count"] for band in by_id["depths"]] == [3, *[0] * 7]
    assert (by_bucket["average_depth"], by_bucket["unknown_file_count"]) == (None, 3)
    text = inspect(table.location, "clustering").out
    assert "3 data files in 1 partition; sort order: id asc" in text
    assert "depths count rows before deletes: 1 deleted row, 0 equality delete files" in text
    assert re.search(r"^id +1\.28 +2 +1\.3 \(42\.6%\)", text, re.MULTILINE)
    assert "bucket[4](id): bounds do not show the order of bucket[4]" in text


def test_clustering_of_many_columns_is_that_of_a_few_at_a_time(inspect, tmp_path, monkeypatch):
    table = filled_table(tmp_path / "t", range(40), files=4)
    every = result(inspect(table.location, "clustering", "--json"))
    assert len(every["columns"]) > 3
    scans: list[int] = []
    plain = clustering.read_clustering

    def counted(batches: object, keys: list[object], order: object) -> object:
        scans.append(len(keys))
        return plain(batches, keys, order)

    monkeypatch.setattr(clustering, "read_clustering", counted)
    monkeypatch.setattr(clustering, "_BOUNDS_AT_ONCE", 9)  # of 4 files: two columns
    assert result(inspect(table.location, "clustering", "--json")) == every
    assert (max(scans), sum(scans)) == (2, len(every["columns"]))


def files_with(table: TableBuilder, ids: set[int]) -> dict[str, int]:
    """How many rows with one of some ids each Parquet file has, by name: PyArrow reads them all."""
    found = {}
    for path in Path(table.location, "data").rglob("*.parquet"):
        columns = pq.read_table(path).to_pydict()
        count = sum(id_ in ids for id_ in columns.get("id", ()))
        if count:
            found[path.name] = count
    return found


def read_of(table: str, filter_: object, files: int) -> str:
    """A scan report with what advice reads, as the REST catalog's specification has it."""
    counted = {"result-data-files": {"unit": "count", "value": files}}
    report = {"table-name": table, "filter": filter_, "schema-id": 0, "metrics": counted}
    return json.dumps({"report-type": "scan-report", **report})


@pytest.mark.parametrize("layout", ["lists", "sfc-1"])
def test_advice_says_what_reads_cost_and_how_they_would_cost_less(inspect, tmp_path, layout):
    table = filled_table(tmp_path / "db" / "t", *([*range(first, 1000, 10)] for first in range(10)))
    if layout == "sfc-1":
        upgrade(tmp_path / "db" / "t", FixedEnv(START_MS + HOUR_MS))
    by_id = {"type": "eq", "term": "ID", "value": "(1-digit-int)"}
    log = tmp_path / "reads.jsonl"
    lines = [read_of("prod.db.t", by_id, 10)] * 3 + [read_of("prod.db.t", True, 10)]
    lines += [read_of("prod.db.other", by_id, 1), '{"report-type": "scan-rep', "[]", ""]
    log.write_text("\n".join(lines))
    words = (table.location, "advice", "--queries", str(log))
    found = result(inspect(*words, "--json"))
    assert (found["read_count"], found["logged_files_per_read"]) == (4, 10)
    assert (found["other_read_count"], found["unreadable_line_count"]) == (1, 1)
    assert found["other_line_count"] == 1
    assert found["other_tables"] == [{"table": "prod.db.other", "read_count": 1}]
    assert found["files_per_read"] == pytest.approx(10, rel=0.02)
    first, second = found["filters"]
    assert (first["conditions"], first["share"]) == ([{"column": "id", "kind": "equality"}], 0.75)
    assert (second["conditions"], second["files_per_read"]) == ([], 10)
    # All fits into one file, whatever its order.
    assert found["advice"][0]["kind"] == "compact"
    assert (found["advice"][0]["data_file_count"], found["advice"][0]["files_per_read"]) == (1, 1)
    assert found["advice"][0]["command"] == f"icectl compact {table.location}"
    text = inspect(*words).out
    assert "4 reads of the table; 10 data files" in text
    assert "engines opened 10.0 files a read" in text
    assert "1 read of other tables: prod.db.other (1)" in text
    assert re.search(r"^id = +75% +9\.\d|^id = +75% +10", text, re.MULTILINE)
    assert f"  run: icectl compact {table.location}\n" in text
    elsewhere = inspect(*words, "--queries-table", "nothing").out
    assert "0 reads of the table" in elsewhere
    assert "`--queries-table NAME` says which of them is this table" in elsewhere


@pytest.mark.parametrize("layout", ["lists", "sfc-1"])
def test_matches_are_found_in_every_snapshot_deleted_ones_too(inspect, tmp_path, layout):
    table = filled_table(tmp_path / "t", range(12), format_version=3, partitioning="identity")
    table.delete_rows([4], kind="equality")
    table.append([4, 15])
    table.delete_rows([7])
    table.remove_data_files(1)  # that of 4 or that of 15
    if layout == "sfc-1":
        upgrade(tmp_path / "t", FixedEnv(START_MS + HOUR_MS))
    for ids in ({4}, {7}, {0}, {3, 15}, {11, 2}):
        where = " or ".join(f"id = {id_}" for id_ in sorted(ids))
        ended = inspect(table.location, "matches", "--where", where, "--check", "--json")
        found = result_of(ended, 4)
        counts = {
            Path(file["location"]).name: file["matching_record_count"] for file in found["files"]
        }
        assert counts == files_with(table, ids)
        assert found["read_file_count"] <= found["listed_file_count"] == 6
    where = "id = 4 or id = 15"
    found = result(inspect(table.location, "matches", "--where", where, "--json"))["files"]
    removed = [file for file in found if not file["refs"]]
    assert [(len(file["snapshot_ids"]), file["kind"]) for file in removed] == [(2, "data")]
    keys = result(inspect(table.location, "matches", "--where", "id = 4", "--json"))["files"]
    assert {file["kind"] for file in keys} == {"data", "equality-deletes"}
    none = inspect(table.location, "matches", "--where", "id = 99", "--check")
    assert (none.code, none.out.splitlines()[0]) == (
        0, "no file has a matching row; deleted rows count too",
    )  # fmt: skip


def test_files_that_several_manifests_list_hide_no_other(inspect, tmp_path):
    table = TableBuilder(tmp_path / "t", merge_manifests_above=1)
    for start in range(0, 40, 10):
        table.append(range(start, start + 10))
    found = result(inspect(table.location, "matches", "--where", "id >= 0", "--json"))
    names = {Path(file["location"]).name for file in found["files"]}
    assert names == {path.name for path in (tmp_path / "t" / "data").glob("*.parquet")}
    assert len(found["files"]) == len(names) == found["listed_file_count"]


@pytest.mark.parametrize(
    ("where", "keys"),
    [
        ("id = 4 and amount > 0", 1),  # the key file has no amount: it may be true
        ("not (id <> 4 or amount is null)", 1),
        ("id = 4 or amount > 0", 1),
        ("id = 5 and amount > 0", 0),
        ("note is null", 0),
        ("not (id = 4 and amount > 0)", 1),
    ],
)
def test_keys_of_equality_deletes_match_by_their_columns_alone(inspect, tmp_path, where, keys):
    table = filled_table(tmp_path / "t", range(12), format_version=3)
    table.delete_rows([4], kind="equality")
    found = result(inspect(table.location, "matches", "--where", where, "--json"))["files"]
    assert [file["kind"] for file in found].count("equality-deletes") == keys


def test_matches_heed_vectors_over_manifests(inspect, tmp_path):
    """A file that a vector has taken out of the head is in older snapshots alone."""
    table = TableBuilder(tmp_path / "t", format_version=3)
    for start in range(0, 12, 4):
        table.append(range(start, start + 4))
    gone = [row["location"] for row in table.live()][:1]
    env = FixedEnv(START_MS + HOUR_MS)
    upgrade(tmp_path / "t", env, "--eager")
    before = read_metadata(current_metadata(tmp_path / "t"))["current-snapshot-id"]
    remove_data_files(tmp_path / "t", env, gone)
    head = read_metadata(current_metadata(tmp_path / "t"))["current-snapshot-id"]
    found = result(inspect(table.location, "matches", "--where", "id >= 0", "--json"))["files"]
    assert len(found) == 3
    for file in found:
        ids = set(map(int, file["snapshot_ids"]))
        is_gone = Path(file["location"]).name == Path(gone[0]).name
        assert (before in ids, head in ids, file["refs"]) == (
            True, not is_gone, [] if is_gone else ["main"],
        )  # fmt: skip


def test_a_wrong_count_of_rows_is_no_match_and_no_traceback(inspect, tmp_path):
    table = filled_table(tmp_path / "t", range(4))
    broken = Broken(table.directory)
    broken.edit_manifest(lambda entries: entries[0]["data_file"].update(record_count=2**50))
    ended = inspect(table.location, "matches", "--where", "id = 1", "--json")
    assert (ended.code, "R-063" in ended.err or "rows" in ended.err) == (3, True)


def test_matches_are_not_ruled_out_while_a_file_cannot_be_read(inspect, tmp_path):
    table = filled_table(tmp_path / "t", [1, 5], [2, 6])
    first = next(row["location"] for row in table.live() if row["record_count"] == 2)
    Path(first).unlink()
    ended = inspect(table.location, "matches", "--where", "id = 3", "--check", "--json")
    assert ended.code == 3
    assert Path(first).name in ended.err
    assert ended.document["result"]["files"] == []


def test_deletes_say_what_readers_compare_by_partition_as_health_does(inspect, tmp_path):
    table = TableBuilder(tmp_path / "t", partitioning="identity")
    table.append(range(12))  # four rows in each of three partitions
    table.append([12])  # of the first
    table.delete_rows([0, 3, 1], kind="equality")
    table.delete_rows([6], kind="equality")
    table.append([2])  # no older delete applies to it
    found = result(inspect(table.location, "deletes", "--json"))["rows"]
    names = ("partition_path", "data_file_count", "key_count", "row_count")
    assert [tuple(row[name] for name in names) for row in found] == [
        ("category=c0", 2, 2 * (2 + 1), 5),
        ("category=c1", 1, 1, 4),
    ]
    check = result(inspect(table.location, "health", "--json"))["delete_debt"]
    sums = {name: sum(row[name] for row in found) for name in ("key_count", "row_count")}
    assert (check["compared_key_count"], check["compared_row_count"]) == tuple(sums.values())
    text = inspect(table.location, "deletes").out.splitlines()
    assert text[0].split() == ["partition", "data", "files", "compared", "keys", "compared", "rows"]
    assert text[1].split() == ["category=c0", "2", "6", "5"]


def test_clustering_of_partitions_shows_the_worst_first(inspect, tmp_path):
    table = TableBuilder(tmp_path / "t", partitioning="identity")
    for ids in ([0, 6], [3, 9], [1, 4], [7, 10]):  # ids of a partition differ by 3
        table.append(ids)
    words = ("clustering", "--columns", "id", "--limit", "1")
    found = result(inspect(table.location, *words, "--json"))
    (by_id,) = found["columns"]
    assert (found["sort_order"], found["partition_count"]) == (None, 2)
    assert by_id["average_depth_in_partitions"] == pytest.approx((1.5 + 1.5 + 1 + 1) / 4)
    assert by_id["average_depth"] == pytest.approx((12 / 6 + 12 / 6 + 7 / 3 + 5 / 3) / 4)
    (worst,) = by_id["partitions"]
    assert (worst["average_depth"], worst["max_depth"], worst["file_count"]) == (1.5, 2, 2)
    assert "and 1 partition more: `--limit`" in inspect(table.location, *words).out
    every = result(inspect(table.location, "clustering", "--json"))["columns"]
    assert [column["column"] for column in every] == ["id", "category", "amount", "at", "note"]


@pytest.mark.parametrize("version", [2, 3])
def test_tree_tells_what_deletes_apply_to(inspect, tmp_path, version):
    table = filled_table(tmp_path / "t", range(6), format_version=version, partitioning="identity")
    table.delete_rows([0])
    (snapshot,) = result(inspect(table.location, "tree", "--json"))["tree"]["children"]
    (manifest_list,) = snapshot["children"]
    data, deletes = manifest_list["children"]
    touched = [node["id"] for node in data["children"] if node["partition"] == {"category": "c0"}]
    (delete,) = deletes["children"]
    assert delete["applies_to"] == touched
    assert delete["applies_to_count"] == 1
    assert delete["kind"] == ("deletion-vector" if version == 3 else "position-deletes")


def test_tree_counts_what_the_limit_leaves_out(inspect, tmp_path):
    table = filled_table(tmp_path / "t", range(9), files=9)
    out = inspect(table.location, "tree", "--limit", 2).out.splitlines()
    assert out[-1].startswith("            `-- 7 more files, ")
    assert all(ord(character) < 128 for line in out for character in line)


def test_mermaid_and_html_show_the_same_nodes(inspect, table):
    drawn = inspect(table.location, "tree", "--format", "mermaid").out
    assert drawn.startswith("flowchart LR\n")
    assert "  delete_0 -.->|deletes from| data_" in drawn
    page = Path(table.location).parent / "tree.html"
    assert inspect(table.location, "tree", "--html", page).out == f"wrote {page}\n"
    html = page.read_text()
    assert html.startswith("<!doctype html>")
    assert html.count("<details") == html.count("</details>") == 7
    assert 'href="#data_' in html
    assert "http" not in html


def test_health_names_the_command(inspect, tmp_path):
    table = TableBuilder(tmp_path / "t", properties={"history.expire.max-snapshot-age-ms": "1"})
    for start in range(12):
        table.append([start])
    table.remove_data_files(12)
    found = result(inspect(table.location, "health", "--json"))
    assert found["snapshot_debt"]["expirable_snapshot_count"] == 12
    assert found["snapshot_debt"]["verdict"] == "attention"
    assert found["snapshot_debt"]["command"] == "expire-snapshots"
    assert found["snapshot_debt"]["command_in_this_version"] is True
    assert found["verdict"] == "critical"
    out = inspect(table.location, "health").out
    assert f"  run: icectl expire-snapshots {table.location}\n" in out
    one_file = inspect(table.metadata_location, "health").out
    assert "icectl expire-snapshots" not in one_file
    assert "  withheld: " in one_file


def test_health_calls_no_sort_order_absent_that_it_cannot_use(inspect, tmp_path):
    table = filled_table(tmp_path / "t", range(3))
    field = {"source-id": 1, "direction": "asc", "null-order": "nulls-first"}
    order = {"order-id": 1, "fields": [field | {"transform": "curve"}]}
    edit_metadata(table.directory, sort_orders=[order], default_sort_order_id=1)
    assert "no sort order to compare files by" in inspect(table.location, "health").out


def test_health_shows_a_bill_for_each_needed_command(inspect, tmp_path, monkeypatch):
    table = TableBuilder(tmp_path / "t", properties={"history.expire.max-snapshot-age-ms": "1"})
    for start in range(12):
        table.append([start])
    unpriced = result(inspect(table.location, "health", "--json"))["bills"]
    assert {bill["cost"] for bill in unpriced} == {None}
    monkeypatch.setenv("ICECTL_PRICES_GET_1000", "1.5")
    found = result(inspect(table.location, "health", "--json"))
    commands = {one["command"] for one in found.values() if isinstance(one, dict)} - {None}
    bills = {bill["command"]: bill for bill in found["bills"]}
    assert bills.keys() == commands >= {"compact", "expire-snapshots"}
    # 12 data files and manifests, 2 for what is written, 7 else; a file and 11 else
    assert bills["compact"]["get_requests"] == 12 + 12 + 1 + 2 + 7
    assert bills["compact"]["put_requests"] == 1 + 11
    assert bills["compact"]["read_bytes"] > 2 * found["data_file_bytes"]
    assert bills["compact"]["fewer_requests_per_scan"] == 22
    assert bills["compact"]["saved_per_scan"] == 0.033
    assert bills["expire-snapshots"]["freed_bytes"] == found["reclaimable"]["reclaimable_bytes"]
    out = inspect(table.location, "health").out
    assert out.count("  costs: ") == len(bills)
    assert "22 fewer requests per full scan" in " ".join(out.split())
    monkeypatch.setenv("ICECTL_PRICES_GET_1000", "cheap")
    ended = inspect(table.location, "health")
    assert ended.code == 2
    assert "`cheap` is not a price" in ended.err


def test_bills_of_a_sorted_table_show_what_a_look_up_saves(inspect, run, tmp_path):
    table = TableBuilder(tmp_path / "t")
    order = SortOrder(1, (SortField((1,), parse_transform("identity"), "asc", "nulls-first"),))
    table.metadata = replace(table.metadata, sort_orders=(order,), default_sort_order_id=1)
    for _ in range(3):
        table.append([0, 10])
    (bill, *_) = result(inspect(table.location, "health", "--json"))["bills"]
    assert bill["fewer_requests_per_look_up"] == 2 * (3 - 1)
    assert "4.0 fewer per look-up" in " ".join(inspect(table.location, "health").out.split())
    words = ("compact", table.location, "--strategy", "sort", "--dry-run", "--json")
    assert result(run(*words))["bill"]["fewer_requests_per_look_up"] == 4


def test_health_says_why_a_command_would_be_refused(inspect, tmp_path):
    properties = {"history.expire.max-snapshot-age-ms": "1", "gc.enabled": "false"}
    table = filled_table(tmp_path / "t", *([start] for start in range(3)), properties=properties)
    ended = inspect(table.location, "health", "--check", "--json")
    check = ended.document["result"]["snapshot_debt"]
    assert (check["verdict"], check["command"], check["expirable_snapshot_count"]) == (
        "ok",
        None,
        2,
    )
    assert check["withheld"].startswith("the table property `gc.enabled` is false")
    assert check["hint"] in " ".join(inspect(table.location, "health").out.split())


def test_health_counts_exactly_the_bytes_that_only_expired_snapshots_reach(inspect, tmp_path):
    table = TableBuilder(tmp_path / "t", properties={"history.expire.max-snapshot-age-ms": "1"})
    table.append(range(4), files=2)
    table.remove_data_files(1)
    removed = min(Path(table.location, "data").glob("*.parquet"))
    first = table.metadata.snapshots[0]
    rows = result(inspect(table.location, "manifests", "--all-snapshots", "--json"))["rows"]
    (manifest,) = [row for row in rows if row["reference_snapshot_id"] == str(first.snapshot_id)]
    assert first.manifest_list is not None
    expected = (
        removed.stat().st_size + manifest["length"] + Path(first.manifest_list).stat().st_size
    )
    found = result(inspect(table.location, "health", "--json"))["reclaimable"]
    assert (found["reclaimable_bytes"], found["reclaimable_file_count"]) == (expected, 3)
    assert found["is_estimate"] is False


def test_health_estimates_what_it_cannot_read(inspect, tmp_path):
    table = TableBuilder(tmp_path / "t", properties={"history.expire.max-snapshot-age-ms": "1"})
    table.append(range(4))
    table.append(range(4, 8))
    lost = table.metadata.snapshots[0].manifest_list
    assert lost is not None
    Path(lost).unlink()
    ended = inspect(table.location, "health", "--json")
    assert ended.code == 0
    assert ended.document["result"]["reclaimable"]["is_estimate"] is True
    assert "expires, but its files stay: " in ended.document["warnings"][0]


def test_r034_a_missing_manifest_is_named_and_the_others_are_shown(inspect, table):
    lost = result(inspect(table.location, "manifests", "--json"))["rows"][0]["path"]
    Path(lost).unlink()
    ended = inspect(table.location, "files")
    assert ended.code == 3
    assert ended.err.count(f"`{lost}` is missing") == 1
    assert len(ended.out.splitlines()) > 1


def test_a_damaged_manifest_is_named_with_its_rule_and_the_others_are_shown(inspect, table):
    damaged = result(inspect(table.location, "manifests", "--json"))["rows"][0]["path"]
    Path(damaged).write_bytes(b"not avro")
    ended = inspect(table.location, "files")
    assert ended.code == 3
    assert ended.err.count(f"`{damaged}`: ") == 1
    assert "(R-" in ended.err


def test_small_local_table_is_read_without_what_it_does_not_need(table):
    program = (
        "import sys; from icectl.cli.app import main; "
        f"code = main(['inspect', {table.location!r}]); "
        "heavy = {'pandas', 's3fs', 'fsspec', 'rich', 'pyarrow.parquet'}; "
        "print(sorted(heavy & set(sys.modules))); sys.exit(code)"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=Path.cwd()
    )
    assert run.stdout.splitlines()[-1] == "[]"


def test_documents_of_a_damaged_table_keep_to_the_schema(inspect, tmp_path):
    table = filled_table(tmp_path, range(3))
    file = tmp_path / "metadata/v2.metadata.json"
    members = json.loads(file.read_text())
    members["refs"]["odd"] = {"snapshot-id": members["current-snapshot-id"], "type": "twig"}
    members["snapshots"][0]["timestamp-ms"] = 2**62
    file.write_text(json.dumps(members))
    assert result(inspect(table.location, "--json"))["refs"]["odd"]["type"] == "twig"
    assert result(inspect(table.location, "refs", "--json"))["rows"][1]["type"] == "TWIG"
    (snapshot,) = result(inspect(table.location, "snapshots", "--json"))["rows"]
    assert snapshot["committed_at"] == "4611686018427387904ms"


def test_a_pipe_among_the_metadata_files_is_not_waited_for(inspect, table):
    os.mkfifo(Path(table.location, "metadata/v99.metadata.json"))
    assert inspect(table.location).code == 0


def test_what_a_listing_failed_of_is_the_cause_of_the_first_error():
    """No table is here; what the search below it met is not lost."""
    first, denied = TableNotFound("no table"), StorageError("denied")

    def look() -> Outcome:
        raise denied

    with pytest.raises(TableNotFound) as raised:
        inspect_run._or_the_first(first, look)
    assert (raised.value, raised.value.__cause__) == (first, denied)


@pytest.mark.parametrize("view", [[], ["snapshots"], ["manifests"]])
def test_what_reads_or_checks_data_files_is_not_imported_for_metadata(view, tmp_path):
    table = filled_table(tmp_path / "t", range(3))
    line = ["inspect", str(table.directory), *view]
    script = (
        f"import sys; from icectl.cli.app import main; main({line!r})\n"
        "print(*sys.modules, file=sys.stderr)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    loaded = set(ended.stderr.splitlines()[-1].split())
    assert "icectl.commands.inspect.run" in loaded
    assert not loaded & {"icectl.table.guard", "icectl.table.live_files", "pyarrow.parquet"}
