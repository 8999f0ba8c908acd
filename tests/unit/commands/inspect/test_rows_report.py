"""Row views as text, CSV and JSON lines."""

import io
import json
from collections.abc import Iterator

import pytest

from icectl.cli.console import Console, ConsoleOptions
from icectl.commands.inspect.metadata_rows import METADATA_VIEWS
from icectl.commands.inspect.rows_report import (
    TEXT_VIEWS,
    print_chosen,
    print_csv,
    print_json_lines,
    print_rows,
    text_members,
)
from icectl.commands.inspect.views import VIEWS, Row, RowSet
from tests.builders.terminal import Terminal
from tests.stores.fixed_env import FixedEnv


def console(out: io.StringIO, err: io.StringIO | None = None) -> Console:
    options = ConsoleOptions(color="never")
    return Console(out, err or io.StringIO(), io.StringIO(), FixedEnv(), options)


def text(view: str, *rows: Row) -> list[str]:
    out = io.StringIO()
    print_rows(console(out), view, RowSet((), rows), "/wh/t")
    return [line.rstrip() for line in out.getvalue().splitlines()]


def file(path: str, size: int, **more: object) -> Row:
    return {
        "content": 0, "file_format": "PARQUET", "partition_path": "", "record_count": 1_234,
        "file_size_in_bytes": size, "content_size_in_bytes": None, "file_path": path,
    } | more  # fmt: skip


def test_every_row_view_has_a_text_form():
    assert set(TEXT_VIEWS) == {name for name, view in VIEWS.items() if view.rows} | {
        "changes",
        "tables",
        "warehouse",
    }
    assert set(TEXT_VIEWS) >= METADATA_VIEWS


def test_files_are_named_below_the_table_and_empty_columns_left_out():
    assert text("files", file("/wh/t/data/a.parquet", 1_536), file("s3://b/x.parquet", 10)) == [
        "content  records     size  file",
        "data       1,234  1.5 KiB  data/a.parquet",
        "data       1,234     10 B  s3://b/x.parquet",
    ]


def test_a_vector_has_the_size_of_its_blob():
    vector = file(
        "/wh/t/data/d.puffin", 9_000, content=1, file_format="PUFFIN", content_size_in_bytes=44,
        partition_path="day=1",
    )  # fmt: skip
    deletes = file("/wh/t/data/e.parquet", 5, content=2)
    assert text("files", vector, deletes) == [
        "content   partition  records  size  file",
        "vector    day=1        1,234  44 B  data/d.puffin",
        "equality               1,234   5 B  data/e.parquet",
    ]


def test_snapshots_show_what_their_summary_says_changed():
    row = {
        "committed_at": "2026-05-04T11:14:41.758Z",
        "snapshot_id": "5",
        "operation": "overwrite",
        "summary": {
            "added-data-files": "3",
            "deleted-data-files": "2",
            "added-records": "0",
            "added-delete-files": "1",
        },
        "refs": ["main", "audit"],
    }
    bare = row | {"summary": None, "operation": None, "refs": []}
    assert text("snapshots", row, bare) == [
        "snapshot  committed (UTC)      operation  files  deletes  refs",
        "5         2026-05-04 11:14:41  overwrite  +3 -2       +1  main, audit",
        "5         2026-05-04 11:14:41",
    ]


def test_manifests_show_unknown_counts_as_such_and_ranges_short():
    def summary(lower: str | None, upper: str | None) -> Row:
        return {"lower_bound": lower, "upper_bound": upper}

    row = {
        "content": 1,
        "partition_spec_id": 0,
        "length": 2_048,
        "path": "/wh/t/metadata/m.avro",
        "partition_summaries": [summary("1", "1"), summary("a", "c"), summary(None, None)],
        **{f"{state}_data_files_count": 0 for state in ("added", "existing", "deleted")},
        "added_delete_files_count": 1_000,
        "existing_delete_files_count": None,
        "deleted_delete_files_count": 0,
    }
    assert text("manifests", row) == [
        "content  spec  added  existing  deleted     size  partitions     manifest",
        "deletes     0  1,000         ?        0  2.0 KiB  1, a..c, null  m.avro",
    ]


def test_refs_without_settings_of_their_own_go_by_the_default():
    row = {
        "name": "main", "type": "BRANCH", "snapshot_id": "5", "max_reference_age_in_ms": None,
        "min_snapshots_to_keep": 1_000, "max_snapshot_age_in_ms": 86_400_000,
    }  # fmt: skip
    assert text("refs", row)[1].split() == ["main", "branch", "5", "default", "1,000", "1d"]


@pytest.mark.parametrize(
    ("instant", "shown"),
    [
        ("2025-06-15T15:06:40.123Z", "2025-06-15 15:06:40"),
        ("1700000000123456ms", "1700000000123456ms"),
        ("-100000000000000ms", "-100000000000000ms"),
    ],
)
def test_an_instant_in_no_year_is_shown_whole(instant, shown):
    row = {
        "made_current_at": instant, "snapshot_id": "5", "parent_id": None,
        "is_current_ancestor": True,
    }  # fmt: skip
    assert text("history", row)[1].startswith(f"{shown}  ")


def test_schemas_show_the_default_that_readers_see_first():
    row = {
        "schema_id": 0, "is_current": True, "field_id": 1, "name": "a", "type": "int",
        "required": True, "is_identifier": False, "initial_default": None, "write_default": 7,
        "doc": None,
    }  # fmt: skip
    assert text("schemas", row) == [
        "schema  current  id  name  type  required  default",
        "     0  yes       1  a     int   yes       7",
    ]


@pytest.mark.parametrize(
    ("view", "why"),
    [
        ("files", "there are no rows"),
        ("deletes", "no equality deletes; the view `partitions` counts deleted positions"),
    ],
)
def test_no_rows_are_said_on_stderr_only(view, why):
    out, err = io.StringIO(), io.StringIO()
    print_rows(console(out, err), view, RowSet((), []), "/wh/t")
    assert (out.getvalue(), err.getvalue()) == ("", f"nothing to show: {why}\n")


def test_headings_come_again_after_many_rows():
    rows = ({"key": f"k{number}", "value": "v"} for number in range(5_001))
    lines = text("properties", *rows)
    assert lines.count("property  value") == 2
    assert len(lines) == 5_001 + 2 + 1


def test_rows_fit_a_terminal_of_80_columns(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    out = Terminal()
    rows = RowSet((), [file(f"/wh/t/data/{'x' * 90}.parquet", 5, partition_path="p=" + "y" * 40)])
    print_rows(console(out), "files", rows, "/wh/t")
    assert max(map(len, out.getvalue().splitlines())) == 80


def test_chosen_columns_are_printed_as_they_are():
    out = io.StringIO()
    rows = [{"a": None, "b": True, "c": {"x": [1]}, "d": 1_000}, {"a": "q", "b": False}]
    print_chosen(console(out), RowSet(("a", "b", "c", "d"), rows))
    assert [line.split() for line in out.getvalue().splitlines()] == [
        ["a", "b", "c", "d"],
        ["yes", '{"x":', "[1]}", "1000"],
        ["q", "no"],
    ]


def test_csv_has_one_header_over_rows_that_are_read_as_it_is_written():
    read: list[int] = []

    def rows() -> Iterator[Row]:
        for number in range(10_001):
            read.append(number)
            yield {"n": number, "more": {"x": None}}

    out = io.StringIO()
    print_csv(console(out), RowSet(("n", "more"), rows()))
    lines = out.getvalue().splitlines()
    assert lines[:2] == ["n,more", '0,"{""x"": null}"']
    assert (len(lines), lines[-1][:6]) == (10_002, "10000,")
    assert read == list(range(10_001))


def test_json_lines_have_the_columns_in_order():
    out = io.StringIO()
    print_json_lines(console(out), RowSet(("b", "a"), [{"a": 1, "b": "x", "hidden": 2}]))
    assert out.getvalue() == '{"b": "x", "a": 1}\n'
    assert json.loads(out.getvalue()) == {"b": "x", "a": 1}


def test_text_asks_for_the_members_that_it_shows():
    assert text_members("files") == (
        "content", "file_format", "partition_path", "record_count", "file_size_in_bytes",
        "content_size_in_bytes", "file_path",
    )  # fmt: skip
