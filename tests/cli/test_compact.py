"""`icectl compact` from the command line: plans, reasons, choices, refusals, the law."""

import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from icectl.cli import engines, session
from icectl.commands.compact import groups_plan, report
from icectl.env import Env
from icectl.format.partition import PartitionField
from icectl.format.transforms import apply, parse_transform
from icectl.format.types import PrimitiveType
from icectl.storage.local.store import LocalStore
from icectl.storage.store import Store
from icectl.table.mergeable import Mergeable, MethodChoice, choose_method
from icectl.table.rewrite_tasks import Bin, Method
from tests.builders.broken import Broken
from tests.builders.expiry import NOW_MS
from tests.builders.inline_engine import InlineEngine
from tests.builders.rows import current_metadata, ids_of, live_entries, read_metadata, read_records
from tests.builders.table_builder import PARTITIONINGS, TableBuilder, filled_table
from tests.cli.conftest import Run, result
from tests.stores.fixed_env import FixedEnv
from tests.stores.wrapped import ReadOnlyStore, WrappedStore

SMALL = ("--target-file-size", "1MiB", "--min-input-files", "2")
"""Built files have some KiB: all of them are small."""


@pytest.fixture
def compact(processes: Run, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run `icectl compact`, its tasks in this process."""
    monkeypatch.setattr(engines, "LocalEngine", InlineEngine)
    return processes


@pytest.fixture
def processes(prepared: Callable[[str, Env], Run], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run `icectl compact`, its tasks in processes of their own."""
    monkeypatch.setenv("ICECTL_COMPACT_ENGINE", "local")
    return prepared("compact", FixedEnv(NOW_MS))


def build(directory: Path, format_version: int = 2) -> TableBuilder:
    table = TableBuilder(directory, format_version=format_version, partitioning="identity")
    for start in range(0, 30, 10):
        table.append(range(start, start + 10))
    table.delete_rows([1, 2, 13])
    return table


def test_a_plan_tells_a_size_only_where_footers_are_little_of_it(tmp_path, compact, monkeypatch):
    build(tmp_path)
    monkeypatch.setattr(report, "_TINY_BYTES", 0)
    assert "would become about 3 of 17.6 KiB or less; 2 " in compact(tmp_path, *SMALL, "-n").out


def test_tasks_run_in_processes_of_their_own(tmp_path, processes):
    table = build(tmp_path)
    ended = processes(tmp_path, *SMALL, "--json")
    assert (ended.code, ended.err) == (0, "")
    assert (result(ended)["tasks"], result(ended)["repeated_tasks"]) == (3, 0)
    assert ids_of(tmp_path) == sorted(table.ids())


def test_a_run_tells_what_it_did_and_a_second_has_nothing_to_do(tmp_path, compact):
    table = build(tmp_path)
    ended = compact(tmp_path, *SMALL, "--json")
    assert (ended.code, ended.document["status"]) == (0, "done")
    found = result(ended)
    assert found["left_alone"] == {}
    assert [group["partition"] for group in found["groups"]] == [
        "category=c0", "category=c1", "category=c2",
    ]  # fmt: skip
    assert {group["status"] for group in found["groups"]} == {"done"}
    assert (found["rewritten_data_files"], found["added_data_files"]) == (9, 3)
    assert (found["rows_before"], found["rows_after"]) == (30, 27)
    assert (found["removed_delete_files"], len(found["snapshot_ids"])) == (2, 1)
    assert ids_of(tmp_path) == sorted(table.ids())

    again = compact(tmp_path, *SMALL, "--json")
    assert (again.code, again.document["status"]) == (0, "nothing-to-do")
    assert result(again)["left_alone"] == {"already compacted to this size": 3}


def test_a_run_and_its_plan_tell_what_is_merged_and_what_rewritten(tmp_path, compact, monkeypatch):
    def of_any_size(asked: Method, found: Mergeable, bins: Sequence[Bin], _: int) -> MethodChoice:
        return choose_method(asked, found, bins, 1)

    monkeypatch.setattr(groups_plan, "choose_method", of_any_size)
    build(tmp_path)
    planned = compact(tmp_path, *SMALL, "--dry-run").out
    assert "2 groups merged without decoding: " in planned
    assert "1 group rewritten: " in planned
    text = compact(tmp_path, *SMALL).out  # of a file to merge a third of the rows turns out deleted
    assert " by the local engine, 3 merged without decoding, 6 rewritten; 2 " in text


def filtered(directory: Path) -> tuple[int, list[str] | None]:
    """The number of column chunks with Bloom filters in live data files, and their columns."""
    (found,) = duckdb.execute(
        "SELECT count(*), list(DISTINCT path_in_schema) FROM parquet_metadata(?) "
        "WHERE bloom_filter_length > 0",
        [[file["file_path"] for file in data_files(directory)]],
    ).fetchall()
    return found


def test_new_files_have_the_bloom_filters_that_the_table_asks_for_or_inputs_had(
    tmp_path, compact, run
):
    name = "write.parquet.bloom-filter-enabled.column.id"
    build(tmp_path).set_properties({name: "true"})
    again = ("--method", "rewrite", "--rewrite-all", "--quiet")
    assert compact(tmp_path, *SMALL, *again).code == 0
    assert filtered(tmp_path) == (3, ["id"])
    assert run("properties", str(tmp_path), "unset", name, "--yes").code == 0
    assert compact(tmp_path, *again).code == 0
    assert filtered(tmp_path) == (3, ["id"])
    assert run("properties", str(tmp_path), "set", f"{name}=false", "--yes").code == 0
    assert compact(tmp_path, *again).code == 0
    assert filtered(tmp_path) == (0, None)


def pages(directory: Path) -> list[tuple[int, int]]:
    """The rows and stored bytes of each page of live data files, as their page indexes tell."""
    found: list[tuple[int, int]] = duckdb.execute(
        "SELECT num_rows, compressed_page_size FROM parquet_page_index(?)",
        [[file["file_path"] for file in data_files(directory)]],
    ).fetchall()
    return found


@pytest.mark.parametrize(
    ("name", "value", "most_rows", "most_bytes"),
    [
        ("page-row-limit", "100", 100, 1 << 20),
        ("page-size-bytes", "3000", 3_000, 5_000),
        ("row-group-size-bytes", "60000", 1_300, 1 << 20),
    ],
)
def test_pages_and_row_groups_of_new_files_are_as_large_as_the_table_says(
    tmp_path, compact, name, value, most_rows, most_bytes
):
    codec, dictionary = "write.parquet.compression-codec", "write.parquet.dict-size-bytes"
    properties = {codec: "uncompressed", dictionary: "1", f"write.parquet.{name}": value}
    table = TableBuilder(tmp_path, properties=properties)
    for start in range(0, 3_000, 1_500):
        table.append(range(start, start + 1_500))
    assert compact(tmp_path, *SMALL, "--method", "rewrite", "--rewrite-all").code == 0
    (file,) = data_files(tmp_path)
    footer = pq.ParquetFile(file["file_path"]).metadata
    chunks = [footer.row_group(at).column(0) for at in range(footer.num_row_groups)]
    assert {chunk.compression for chunk in chunks} == {"UNCOMPRESSED"}
    found = pages(tmp_path)
    assert max(rows for rows, _ in found) <= most_rows
    assert max(size for _, size in found) <= most_bytes
    assert len(found) > 2 * len(table.metadata.current_schema.fields)


@pytest.mark.parametrize("method", ["rewrite", "merge"])
def test_entries_of_new_files_have_the_metrics_that_the_table_asks_for(tmp_path, compact, method):
    modes = {"default": "counts", "column.id": "full", "column.category": "none",
             "column.note": "truncate(3)"}  # fmt: skip
    table = filled_table(tmp_path, *(range(start, start + 10) for start in range(0, 30, 10)))
    table.set_properties({f"write.metadata.metrics.{key}": mode for key, mode in modes.items()})
    chosen = "--method", method, "--rewrite-all"
    assert compact(tmp_path, *SMALL, *chosen).code == 0
    (file,) = data_files(tmp_path)
    told = {
        name: {one["key"]: one["value"] for one in file[name] or ()}
        for name in ("column_sizes", "value_counts", "null_value_counts", "lower_bounds")
    }
    for name in ("column_sizes", "value_counts", "null_value_counts"):
        assert told[name].keys() == {1, 3, 4, 5}, name
    assert told["null_value_counts"][5] == 5
    assert told["lower_bounds"] == {1: bytes(8), 5: b"not"}
    footer = pq.ParquetFile(file["file_path"]).metadata
    assert footer.num_row_groups == (3 if method == "merge" else 1)  # those of the old files


@pytest.mark.parametrize("method", ["rewrite", "merge"])
def test_columns_beyond_the_first_have_no_metrics_if_the_table_asks_for_few(
    tmp_path, compact, method
):
    most = {"write.metadata.metrics.max-inferred-column-defaults": "2"}
    table = TableBuilder(tmp_path, properties=most)
    for start in range(0, 30, 10):
        table.append(range(start, start + 10))
    assert compact(tmp_path, *SMALL, "--method", method, "--rewrite-all").code == 0
    (file,) = data_files(tmp_path)
    for name in ("column_sizes", "value_counts", "lower_bounds", "upper_bounds"):
        assert {one["key"] for one in file[name]} == {1, 2}, name


def test_health_counts_files_that_lack_the_bloom_filters_that_properties_ask_for(
    tmp_path, compact, run, monkeypatch
):
    def filters() -> dict[str, Any]:
        check = result(run("inspect", str(tmp_path), "health", "--json"))["bloom_filters"]
        return {key: check[key] for key in ("found", "columns", "footers_read", "files_without")}

    name = "write.parquet.bloom-filter-enabled.column."
    table = TableBuilder(tmp_path, format_version=2)
    monkeypatch.setattr(pq, "write_table", partial(pq.write_table, use_dictionary=False))
    for start in range(91_000, 91_030, 10):
        table.append(range(start, start + 10))
    text = "no property asks for Bloom filters"
    none: dict[str, Any] = {"columns": [], "footers_read": 0, "files_without": 0}
    assert filters() == {"found": text, **none}
    table.set_properties({f"{name}id": "true", f"{name}gone": "true", f"{name}amount": "false"})
    found = filters()
    assert (found["columns"], found["footers_read"], found["files_without"]) == (["id"], 3, 3)
    assert found["found"].startswith("3 of 3 files looked at lack Bloom filters of `id`; ")
    first, *_ = data_files(tmp_path)
    content = Path(first["file_path"]).read_bytes()
    Path(first["file_path"]).write_bytes(b"PAR1" + b"\0" * 20 + b"PAR1")
    assert filters()["footers_read"] == 2  # it is no file that anything can be told of
    Path(first["file_path"]).write_bytes(content)
    assert compact(tmp_path, "--method", "rewrite", "--rewrite-all", "--quiet").code == 0
    assert filters() == {
        "found": "Bloom filters of `id` in all of 1 file looked at",
        "columns": ["id"], "footers_read": 1, "files_without": 0,
    }  # fmt: skip
    table.set_properties({f"{name}id": "perhaps"})
    assert filters() == {"found": text, **none}


@pytest.mark.parametrize(("option", "code"), [("--dry-run", 0), ("--check", 4)])
def test_a_plan_changes_nothing(tmp_path, compact, monkeypatch, option, code):
    build(tmp_path)
    monkeypatch.setattr(session, "open_store", lambda *_: ReadOnlyStore(LocalStore()))
    ended = compact(tmp_path, *SMALL, option, "--json")
    assert (ended.code, ended.document["status"]) == (code, "planned")
    found = result(ended)
    assert (found["rewritten_data_files"], found["added_data_files"]) == (9, 3)
    assert (found["removed_delete_files"], found["rows_after"]) == (2, None)
    assert {group["status"] for group in found["groups"]} == {"planned"}


def test_a_dry_run_lists_every_group_and_file_with_its_reason(tmp_path, compact):
    build(tmp_path)
    text = compact(tmp_path, *SMALL, "--dry-run").out
    assert text.count("too small") == 8
    assert text.count("many deleted rows") == 1
    assert text.count("3 smaller than 768.0 KiB") == 2
    assert "9 files of " in text
    assert "would become about 3, smaller in all; 2 delete files would be removed" in text


def test_files_left_alone_are_counted_by_reason(tmp_path, compact):
    build(tmp_path)
    ended = compact(tmp_path, "--where", "category = 'c1'", "--dry-run")
    assert "skipped 6 files: not selected by `--where`" in ended.out
    assert "skipped 3 files: too few small files in the partition" in ended.out
    assert "nothing to do: no file group meets the thresholds" in ended.out
    assert "hint: use `--min-input-files 2` to merge fewer files" in ended.err


def test_health_does_not_ask_for_what_compact_leaves_alone(tmp_path, run, compact):
    """Partitions with less than five small files, and files with less than 30% deleted rows."""
    table = filled_table(tmp_path / "t", range(60), range(60, 120), partitioning="two")
    table.delete_rows(range(0, 120, 9))
    view = run("inspect", table.location, "health", "--json").document["result"]
    assert [view[name]["verdict"] for name in ("small_files", "delete_debt")] == ["ok", "ok"]
    assert compact(table.directory, "--check").code == 0


def test_where_selects_by_partition(tmp_path, compact):
    build(tmp_path)
    found = result(compact(tmp_path, *SMALL, "--where", "category = 'c1'", "--json"))
    assert [group["partition"] for group in found["groups"]] == ["category=c1"]


def test_partial_progress_and_max_groups_bound_the_work(tmp_path, compact):
    table = build(tmp_path)
    found = result(compact(tmp_path, *SMALL, "--max-groups", 2, "--partial-progress", 2, "--json"))
    assert len(found["snapshot_ids"]) == 2
    assert found["left_alone"] == {"left to another run by `--max-groups`": 3}
    assert ids_of(tmp_path) == sorted(table.ids())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--where", "colour = 1"], "the table has no column `colour`"),
        (["--job-order", "size"], "`--job-order`: `size` is not one of `none`, `bytes-asc`"),
        (["--target-file-size", "1MiB", "--min-file-size", "1MiB"], "is not below the target"),
        (["--target-file-size", "0B"], "`--target-file-size`: it is 0"),
        (["--min-delete-ratio", "0"], "`--min-delete-ratio`: it is 0"),
        (["--min-delete-ratio", "2"], "`2` is not a ratio"),
        (["--output-spec-id", "9"], "the table has no partition spec 9"),
        (["--output-spec-id", "x"], "`--output-spec-id`: `x` is not a whole number"),
        (["--max-groups", "0"], "`0` is not a whole number above 0"),
        (["--branch", "nowhere"], "the table has no branch `nowhere`"),
    ],
)
def test_options_that_make_no_sense_are_wrong_usage(tmp_path, compact, options, message):
    build(tmp_path)
    version = current_metadata(tmp_path)
    ended = compact(tmp_path, *options)
    assert ended.code == 2
    assert message in ended.err
    assert current_metadata(tmp_path) == version


def test_tables_that_want_other_files_are_refused(tmp_path, compact):
    build(tmp_path).set_properties({"write.format.default": "orc"})
    ended = compact(tmp_path, *SMALL)
    assert ended.code == 14
    assert "the table asks for orc files" in ended.err


def test_a_folder_whose_name_is_too_long_is_told_with_a_way_out(tmp_path, compact, monkeypatch):
    long = PartitionField((2,), 1000, "c" * 5000, parse_transform("identity"))
    monkeypatch.setitem(PARTITIONINGS, "long", (long,))
    table = filled_table(tmp_path, range(10), files=2)
    table.respec("long")
    before = sorted(path for path in tmp_path.rglob("*") if path.is_file())
    ended = compact(tmp_path, *SMALL)
    assert ended.code == 13
    message, hint = ended.err.splitlines()[-2:]
    assert message.startswith(f"error: cannot write {tmp_path}/data/cccc")
    assert message.endswith(": file name too long")
    assert len(message) < 300 + len(str(tmp_path))
    assert "write.object-storage.partitioned-paths" in hint
    assert sorted(path for path in tmp_path.rglob("*") if path.is_file()) == before

    table.set_properties(
        {"write.object-storage.enabled": "true", "write.object-storage.partitioned-paths": "false"}
    )
    assert compact(tmp_path, *SMALL).code == 0
    assert ids_of(tmp_path) == list(range(10))


def test_a_table_whose_files_a_class_of_its_own_places_is_left_alone(tmp_path, compact):
    table = filled_table(tmp_path, *([2 * start, 2 * start + 1] for start in range(5)))
    table.set_properties({"write.location-provider.impl": "com.example.Places"})
    before = sorted(path for path in tmp_path.rglob("*") if path.is_file())
    ended = compact(tmp_path, *SMALL, "--json")
    error = ended.document["error"]
    assert (ended.code, error["id"]) == (14, "unsupported")
    assert "`com.example.Places`" in error["message"]
    assert sorted(path for path in tmp_path.rglob("*") if path.is_file()) == before


@pytest.mark.parametrize("format_version", [1, 2, 3])
def test_empty_tables_have_nothing_to_do(tmp_path, compact, format_version):
    TableBuilder(tmp_path, format_version=format_version).set_properties({"a": "b"})
    ended = compact(tmp_path, "--json")
    assert (ended.code, ended.document["status"]) == (0, "nothing-to-do")


def data_files(directory: Path) -> list[dict[str, Any]]:
    """Live data files of the current snapshot, as manifests describe them."""
    metadata = read_metadata(current_metadata(directory))
    snapshot = next(
        one
        for one in metadata["snapshots"]
        if one["snapshot-id"] == metadata["current-snapshot-id"]
    )
    return [entry["data_file"] for entry in live_entries(snapshot)]


def shuffled(directory: Path, format_version: int = 2, partitioning: str = "none") -> TableBuilder:
    """A table whose rows are in no order, in six files."""
    table = TableBuilder(directory, format_version=format_version, partitioning=partitioning)
    for start in range(6):
        table.append([number * 7 % 60 for number in range(start * 10, start * 10 + 10)])
    return table


@pytest.mark.parametrize("format_version", [1, 2, 3])
def test_rows_are_sorted_as_asked_for(tmp_path, compact, format_version):
    table = shuffled(tmp_path, format_version)
    ended = compact(tmp_path, "--sort-order", "category desc, bucket(4, id), id desc", "--json")
    assert (ended.code, result(ended)["added_data_files"]) == (0, 1)
    (file,) = data_files(tmp_path)
    rows = read_records(file)
    bucket = parse_transform("bucket[4]")
    keys = [(apply(bucket, PrimitiveType("long"), row["id"]), -row["id"]) for row in rows]
    parts = [[key for key, row in zip(keys, rows, strict=True) if row["category"] == one]
             for one in ("c2", "c1", "c0")]  # fmt: skip
    assert keys == [key for part in parts for key in sorted(part)]
    assert ids_of(tmp_path) == sorted(table.ids())
    assert file["sort_order_id"] is None
    assert compact(tmp_path, "--sort-order", "id", "--json").document["status"] == "nothing-to-do"


def test_files_in_the_tables_own_order_are_marked_as_sorted(tmp_path, compact):
    shuffled(tmp_path, partitioning="identity")
    fields = [
        {"transform": "identity", "source-id": 1, "direction": "asc", "null-order": "nulls-first"}
    ]
    newest = current_metadata(tmp_path)
    members = read_metadata(newest) | {
        "sort-orders": [{"order-id": 0, "fields": []}, {"order-id": 4, "fields": fields}],
        "default-sort-order-id": 4,
    }
    newest.write_text(json.dumps(members))
    planned = compact(tmp_path, "--strategy", "sort", "--dry-run")
    assert "rows of each group sorted by id asc nulls first" in planned.out
    assert compact(tmp_path, "--strategy", "sort").code == 0
    files = data_files(tmp_path)
    assert [file["sort_order_id"] for file in files] == [4, 4, 4]
    for file in files:
        found = [row["id"] for row in read_records(file)]
        assert found == sorted(found)
        assert len(found) == 20
    auto = ("--strategy", "auto")
    assert compact(tmp_path, *auto, "--json").document["status"] == "nothing-to-do"
    assert compact(tmp_path, "--rewrite-all", *auto).code == 0
    assert {file["sort_order_id"] for file in data_files(tmp_path)} == {4}
    assert compact(tmp_path, "--rewrite-all").code == 0
    assert {file["sort_order_id"] for file in data_files(tmp_path)} == {None}


def test_rows_move_along_a_curve(tmp_path, compact):
    table = shuffled(tmp_path)
    ended = compact(tmp_path, "--zorder", "id,at", "--dry-run")
    assert "rows of each group in Z-order of id, at" in ended.out
    assert compact(tmp_path, "--zorder", "id,at").code == 0
    (file,) = data_files(tmp_path)
    assert [row["id"] for row in read_records(file)] == sorted(table.ids())  # `at` grows with `id`
    assert file["sort_order_id"] is None
    words = ("--strategy", "hilbert", "--zorder", "id,at", "--rewrite-all")
    ended = compact(tmp_path, *words, "--dry-run")
    assert "rows of each group in Hilbert order of id, at" in ended.out
    assert compact(tmp_path, *words).code == 0
    (file,) = data_files(tmp_path)
    assert {row["id"] for row in read_records(file)} == set(table.ids())


def test_rows_that_move_to_the_current_spec_are_sorted_in_each_partition(tmp_path, compact):
    table = shuffled(tmp_path)
    table.respec("identity")
    assert compact(tmp_path, "--sort-order", "id desc").code == 0
    files = data_files(tmp_path)
    assert sorted(file["partition"]["category"] for file in files) == ["c0", "c1", "c2"]
    for file in files:
        found = [row["id"] for row in read_records(file)]
        assert found == sorted(found, reverse=True)
    assert ids_of(tmp_path) == sorted(table.ids())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["--strategy", "zoder"],
            "`--strategy`: `zoder` is not one of `binpack`, `auto`, `sort`, `zorder`, `hilbert`",
        ),
        (["--strategy", "sort"], "the table has no sort order to sort by"),
        (["--strategy", "zorder"], "`--strategy zorder` needs columns"),
        (["--strategy", "hilbert"], "`--strategy hilbert` needs columns"),
        (
            ["--strategy", "zorder", "--sort-order", "id"],
            "`--sort-order` cannot be used with `--strategy zorder`",
        ),
        (
            ["--strategy", "binpack", "--zorder", "id,at"],
            "`--zorder` cannot be used with `--strategy binpack`",
        ),
        (
            ["--zorder", "id,at", "--sort-order", "id"],
            "`--sort-order` and `--zorder` cannot be used together",
        ),
        (["--sort-order", "colour"], "the table has no column `colour`"),
    ],
)
def test_strategies_that_do_not_fit_are_wrong_usage(tmp_path, compact, options, message):
    build(tmp_path)
    ended = compact(tmp_path, *options)
    assert ended.code == 2
    assert message in ended.err


def test_deletes_are_merged_and_data_files_left_alone(tmp_path, compact):
    table = build(tmp_path)
    table.delete_rows([7, 16])
    ended = compact(tmp_path, "--deletes-only", "--json")
    assert (ended.code, ended.document["status"]) == (0, "done")
    found = result(ended)
    (group,) = found["groups"]
    assert (group["partition"], group["input_files"], group["output_files"]) == (
        "category=c1", 2, 2,
    )  # fmt: skip
    assert (found["rewritten_data_files"], found["added_data_files"]) == (0, 0)
    assert (found["removed_delete_files"], found["added_delete_files"]) == (2, 2)
    assert (found["rows_before"], found["rows_after"]) == (4, 4)
    assert found["left_alone"] == {"no deletes": 5, "deletes already merged": 2}
    assert ids_of(tmp_path) == sorted(table.ids())
    again = compact(tmp_path, "--deletes-only", "--json")
    assert (again.code, again.document["status"]) == (0, "nothing-to-do")


def bytes_to_read(directory: Path, keys: set[int]) -> int:
    """Those of equality deletes, and of the ids in large files with any of the keys."""
    size = 0
    for path in (directory / "data").rglob("*.parquet"):
        ids = pq.read_table(path, partitioning=None)["id"].to_pylist()
        if path.name.endswith("-equality.parquet"):
            size += path.stat().st_size
        elif len(ids) > 1 and keys & set(ids):
            size += pq.read_metadata(path).row_group(0).column(0).total_compressed_size
    return size


@pytest.mark.parametrize("version", [2, 3])
def test_equality_deletes_are_converted_and_data_files_left_alone(tmp_path, compact, version):
    table = filled_table(tmp_path, range(24), format_version=version, partitioning="identity")
    table.delete_rows([1, 4, 5], kind="equality")
    table.append([4])
    text = compact(tmp_path, "--deletes-only", "--dry-run").out
    form = "deletion vectors" if version == 3 else "position deletes"
    assert f"2 equality delete files of 3 keys: become {form}" in text
    assert "to read: the key columns of 2 data files" in text
    plan = result(compact(tmp_path, "--deletes-only", "--dry-run", "--json"))
    becomes = "vectors" if version == 3 else "position-deletes"
    told = [(file["keys"], file["becomes"]) for file in plan["equality_deletes"]]
    assert sorted(told) == [(1, becomes), (2, becomes)]
    assert plan["rewritten_bytes"] == bytes_to_read(tmp_path, {1, 4, 5})
    ended = compact(tmp_path, "--deletes-only", "--json")
    assert (ended.code, ended.document["status"]) == (0, "done")
    found = result(ended)
    assert (found["rewritten_data_files"], found["added_data_files"]) == (0, 0)
    assert (found["removed_delete_files"], found["rows_after"]) == (2, 3)
    assert found["added_delete_files"] == (1 if version == 3 else 2)
    assert ids_of(tmp_path) == sorted(table.ids())
    again = compact(tmp_path, "--deletes-only", "--json")
    assert (again.code, again.document["status"]) == (0, "nothing-to-do")


def damaged(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[:8] + bytes(len(content) - 16) + content[-8:])


def without_its_column(path: Path) -> None:
    column = pa.array([1], pa.int64())
    schema = pa.schema([pa.field("at", pa.int64(), metadata={"PARQUET:field_id": "9"})])
    pq.write_table(pa.Table.from_arrays([column], schema=schema), path)
    named({"file_size_in_bytes": path.stat().st_size})(path)


def named(members: dict[str, Any]) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        Broken(path.parents[1]).edit_manifest(
            lambda entries: [entry["data_file"].update(members) for entry in entries] and None,
            content=1,
        )

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (damaged, "error: `{}`: "),
        (without_its_column, "error: `{}` lacks the column `id` that it compares"),
        (named({"equality_ids": [77]}), "error: `{}` compares columns that no schema"),
        (named({"equality_ids": []}), "error: `{}` compares columns that no schema"),
    ],
    ids=["damaged", "without its column", "of an unknown column", "of no column"],
)
def test_an_equality_delete_that_makes_no_sense_is_named_and_nothing_changes(
    tmp_path, compact, change, message
):
    filled_table(tmp_path, range(24)).delete_rows([1], kind="equality")
    (path,) = (tmp_path / "data").glob("*-equality.parquet")
    change(path)
    before = {one: one.read_bytes() for one in tmp_path.rglob("*") if one.is_file()}
    ended = compact(tmp_path, "--deletes-only")
    assert (ended.code, message.format(path) in ended.err) == (15, True), ended
    assert {one: one.read_bytes() for one in tmp_path.rglob("*") if one.is_file()} == before


def test_a_plan_of_deletes_tells_which_are_merged_and_why(tmp_path, compact):
    build(tmp_path).delete_rows([7, 16])
    text = compact(tmp_path, "--deletes-only", "--dry-run").out
    assert "2 data files whose de" in text
    assert text.count("deletes in several") == 2
    assert "about 2 delete files would replace 2 delete files and vectors" in text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--strategy", "sort"], "`--strategy` is for data files"),
        (["--output-spec-id", "0"], "`--output-spec-id` is for data files"),
        (["--job-order", "bytes-asc"], "`--job-order` is for data files"),
    ],
)
def test_options_of_data_files_are_wrong_usage_where_these_stay(
    tmp_path, compact, options, message
):
    build(tmp_path)
    ended = compact(tmp_path, "--deletes-only", *options)
    assert (ended.code, message in ended.err) == (2, True)


class ForgetfulStore(WrappedStore):
    """Loses a row of each new data file, once a table has as many versions as told."""

    def __init__(self, store: Store, versions: int) -> None:
        super().__init__(store)
        self.versions = versions

    def call(self, method: str, location: str, action: Callable[[], Any]) -> Any:
        done, path = action(), Path(location.removeprefix("file://"))
        if method == "open_new" and path.suffix == ".parquet":
            (table,) = (one for one in path.parents if (one / "metadata").is_dir())
            if len(list((table / "metadata").glob("v*.metadata.json"))) >= self.versions:
                pq.write_table(pq.ParquetFile(path).read().slice(1), path)
        return done


@pytest.mark.parametrize("commits", [0, 1])
def test_wrong_rows_in_new_files_are_a_mistake_of_icectl_and_not_committed(
    tmp_path, compact, monkeypatch, commits
):
    build(tmp_path)
    before = ids_of(tmp_path)
    versions = len(list((tmp_path / "metadata").glob("v*.metadata.json")))
    forgetful = ForgetfulStore(LocalStore(), versions + commits)
    monkeypatch.setattr(session, "open_store", lambda *_: forgetful)
    files = {path for path in tmp_path.rglob("*") if path.is_file()}
    more = ("--max-groups", "2", "--partial-progress", "2") if commits else ()
    ended = compact(tmp_path, *SMALL, *more, "--json")
    assert ended.code == 1
    assert ended.err.startswith("Traceback (most recent call last):\n")
    *_, error, hint = ended.err.splitlines()
    assert error.startswith(
        "error: internal check failed: the rows of the new files are not those of the old ones: of "
    )
    assert hint.startswith("hint: this is a bug in icectl, and nothing that failed the check was ")
    assert ended.document["error"]["id"] == "self-check-failed"
    assert ids_of(tmp_path) == before
    now = {path for path in tmp_path.rglob("*") if path.is_file()}
    assert len(list((tmp_path / "metadata").glob("v*.metadata.json"))) == versions + commits
    if not commits:
        assert now == files


def test_a_dry_run_has_the_bill_that_health_has(tmp_path, compact, prepared):
    table = filled_table(tmp_path / "t", *(range(start, start + 5) for start in range(0, 60, 5)))
    found = result(compact(table.directory, "--dry-run", "--json"))["bill"]
    health = result(prepared("inspect", FixedEnv(NOW_MS))(table.directory, "health", "--json"))
    (bill,) = [one for one in health["bills"] if one.pop("command") == "compact"]
    assert found == bill
    assert "costs: " in compact(table.directory, "--dry-run").out
    assert result(compact(table.directory, "--yes", "--json"))["bill"] is None
    assert "costs: " not in compact(table.directory, "--dry-run").out  # nothing is left to do
