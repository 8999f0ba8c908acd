"""Tables: widths, sides, and where a cell is cut."""

import io

import pytest

from icectl.cli.console import Console, ConsoleOptions
from icectl.cli.tables import TableColumn, print_pairs, print_table, shorten, text_width, with_room
from tests.builders.terminal import Terminal
from tests.stores.fixed_env import FixedEnv

COLUMNS = [
    TableColumn("location", cut="middle"),
    TableColumn("rows", align="right"),
    TableColumn("why", cut="end"),
]
ROWS = [
    ["s3://bucket/db/table/data/part-00000.parquet", "12", "too small to keep"],
    ["s3://b/x", "3456", "fine"],
]


def printed(
    columns: list[TableColumn],
    rows: list[list[str]],
    width: int | None,
    monkeypatch: pytest.MonkeyPatch,
) -> list[str]:
    out = io.StringIO() if width is None else Terminal()
    monkeypatch.setenv("COLUMNS", str(width or 10))
    console = Console(out, io.StringIO(), io.StringIO(), FixedEnv(), ConsoleOptions(color="never"))
    print_table(console, columns, rows)
    return out.getvalue().splitlines()


def test_in_a_pipe_nothing_is_cut(monkeypatch):
    assert printed(COLUMNS, ROWS, None, monkeypatch) == [
        "location                                      rows  why",
        "s3://bucket/db/table/data/part-00000.parquet    12  too small to keep",
        "s3://b/x                                      3456  fine",
    ]


def test_on_a_terminal_the_widest_cells_are_cut_to_fit(monkeypatch):
    lines = printed(COLUMNS, ROWS, 50, monkeypatch)
    assert lines == [
        "location                   rows  why",
        "s3://bu...t-00000.parquet    12  too small to keep",
        "s3://b/x                   3456  fine",
    ]
    assert max(map(len, lines)) == 50


def test_locations_that_would_look_alike_are_not_cut(monkeypatch):
    columns = [TableColumn("location", cut="middle"), TableColumn("rows", align="right")]
    places = [f"s3://bucket/db/table/data/{part}/part-00000.parquet" for part in ("a", "b")]
    lines = printed(columns, [[place, "7"] for place in places], 34, monkeypatch)
    joined = "".join(line.replace(" 7", "").strip() for line in lines)
    assert all(place in joined for place in places)
    assert max(map(len, lines)) <= 34
    alone = printed(columns, [[places[0], "7"], ["s3://b/x", "8"]], 34, monkeypatch)
    assert alone[1:] == ["s3://buc...art-00000.parquet     7", "s3://b/x                         8"]


def test_sentences_go_on_in_further_lines_of_their_column(monkeypatch):
    columns = [TableColumn("why", cut="wrap"), TableColumn("rows", align="right")]
    rows = [["too small to be kept as it is", "12"], ["", "3"]]
    assert printed(columns, rows, 30, monkeypatch) == [
        "why                       rows",
        "too small to be kept as     12",
        "it is",
        "                             3",
    ]
    assert printed(columns, rows, None, monkeypatch)[1] == "too small to be kept as it is    12"


def test_numbers_are_never_cut_however_narrow(monkeypatch):
    assert {"rows", "12", "3456"} <= {*" ".join(printed(COLUMNS, ROWS, 10, monkeypatch)).split()}


def test_a_row_takes_several_lines_where_little_would_be_left_of_it(monkeypatch):
    assert printed(COLUMNS, ROWS, 30, monkeypatch) == [
        "location", "    rows  why", "s3://buck...part-00000.parquet",
        "      12  too small to keep", "s3://b/x", "    3456  fine",
    ]  # fmt: skip


def test_values_go_on_below_where_a_terminal_is_narrow(monkeypatch):
    monkeypatch.setenv("COLUMNS", "24")
    out = Terminal()
    console = Console(out, io.StringIO(), io.StringIO(), FixedEnv(), ConsoleOptions(color="never"))
    print_pairs(console, [("refs", "main, audit, release (tag)"), ("uuid", "9c12d441-03fe-4693")])
    print_pairs(console, [("location", "s3://bucket/db/table")])
    assert out.getvalue().splitlines() == [
        "refs  main, audit,", "      release (tag)", "uuid  9c12d441-03fe-4693", "location",
        "  s3://bucket/db/table",
    ]  # fmt: skip


def test_a_table_without_rows_is_its_heading(monkeypatch):
    assert printed(COLUMNS, [], None, monkeypatch) == ["location  rows  why"]


def test_wide_and_combining_characters_count_as_shown():
    assert text_width("abc") == 3
    assert text_width("表名") == 4
    assert text_width("e\u0301") == 1


@pytest.mark.parametrize(
    ("text", "width", "cut", "short"),
    [
        ("abcdefghij", 10, "end", "abcdefghij"),
        ("abcdefghij", 9, "end", "abcdef..."),
        ("abcdefghij", 9, "middle", "ab...ghij"),
        ("表表表表表", 9, "end", "表表表..."),
    ],
)
def test_shorten_keeps_what_tells_most(text, width, cut, short):
    assert shorten(text, width, cut) == short  # type: ignore[arg-type]


def test_line_breaks_and_control_characters_stay_on_the_line(monkeypatch):
    lines = printed([TableColumn("name")], [["a\nb\t\x1b]0;owned\x07"]], None, monkeypatch)
    assert lines == ["name", "a\\nb\\t\\x1b]0;owned\\x07"]


def test_pairs_line_up_their_values():
    out = io.StringIO()
    console = Console(out, io.StringIO(), io.StringIO(), FixedEnv(), ConsoleOptions())
    print_pairs(console, [("uuid", "u"), ("format version", "2"), ("empty", "")], indent=2)
    assert out.getvalue() == "  uuid            u\n  format version  2\n  empty\n"


def test_spare_columns_are_left_out_before_a_cell_is_cut():
    columns = [
        TableColumn("table", cut="middle"),
        TableColumn("version", align="right", is_spare=True),
        TableColumn("size", align="right"),
        TableColumn("files", align="right", is_spare=True),
    ]
    rows = [["main.namespace.table", "2", "10 B", "4"]]  # 20 + 2 + 7 + 2 + 4 + 2 + 5 are 42
    assert with_room(columns, rows, None) == [0, 1, 2, 3]
    assert with_room(columns, rows, 42) == [0, 1, 2, 3]
    assert with_room(columns, rows, 41) == with_room(columns, rows, 33) == [0, 2, 3]
    assert with_room(columns, rows, 32) == with_room(columns, rows, 5) == [0, 2]
