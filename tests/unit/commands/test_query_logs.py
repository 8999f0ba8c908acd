"""Logs of engines: what each line says of a table, and what is left of damaged ones."""

import gzip
import json
import time
from pathlib import Path
from typing import Any

import pytest

from icectl.commands import query_logs
from icectl.commands.query_logs import (
    EQUALITY,
    RANGE,
    LoggedScans,
    Reads,
    is_named,
    read_all_logs,
    read_query_logs,
    spark_conditions,
)
from icectl.errors import UsageError


@pytest.mark.parametrize(
    ("logged", "names", "expected"),
    [
        ("prod.sales.orders", ["sales.orders"], True),
        ("sales.orders", ["sales.orders"], True),
        ("prod.presales.orders", ["sales.orders"], False),
        ("orders", ["sales.orders"], False),
        ("sales.orders", ["Sales.Orders"], True),
        ("s3://b/sales/orders/", ["sales.orders", "s3://b/sales/orders"], True),
    ],
)
def test_a_table_is_known_with_or_without_its_catalog(logged, names, expected):
    assert is_named(logged, names) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        ("id IS NOT NULL, id = 5", {"id": EQUALITY}),
        ("id > 100, id < 120", {"id": RANGE}),
        ("id = 1, id > 0", {"id": EQUALITY}),
        ("name = 'a, b = 3', at >= 1767312000000000", {"name": EQUALITY, "at": RANGE}),
        ("name = 'it''s (', id = 1", {"name": EQUALITY, "id": EQUALITY}),
        ("id IN (1, 2, 3)", {"id": EQUALITY}),
        ("name LIKE 'n1%'", {"name": RANGE}),
        ("(id = 5 OR name = 'n9')", {}),
        ("(id = 5 OR id = 7)", {"id": EQUALITY}),
        ("(id = 5 OR id > 7)", {"id": RANGE}),
        ("((id = 5 AND at > 3) OR id = 7)", {"id": EQUALITY}),
        ("NOT (id = 3)", {}),
        ("p.x = 4", {"p.x": EQUALITY}),
        ("days(at) = 20460", {"at": RANGE}),
        ("bucket(16, id) = 3", {"id": RANGE}),
        ("a b = 1", {"a b": EQUALITY}),
        ("id !", {}),
        ("(" * 40_000, {}),
    ],
)
def test_conditions_of_a_spark_plan(text, expected):
    assert dict(spark_conditions(text)) == expected


def spark_start(description: str, execution: int = 1) -> str:
    metric = {"name": "number of result data files", "accumulatorId": 70 + execution}
    scan = {
        "nodeName": "BatchScan", "simpleString": description, "children": [], "metrics": [metric],
    }  # fmt: skip
    plan = {"nodeName": "Project", "simpleString": "Project", "children": [scan], "metrics": []}
    return json.dumps(
        {
            "Event": "org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart",
            "executionId": execution,
            "sparkPlanInfo": plan,
            "time": 1000 * execution,
        }
    )


def read(tmp_path: Path, *lines: str) -> Reads:
    path = tmp_path / "log"
    path.write_text("\n".join(lines))
    return read_query_logs([str(path)], ["db.t"])


def test_plans_of_older_iceberg_have_filters_in_brackets(tmp_path):
    old = (
        "BatchScan prod.db.t[id#1L] prod.db.t (branch=null) "
        "[filters=id IS NOT NULL, id = 5, groupedBy=] RuntimeFilters: []"
    )
    updates = "org.apache.spark.sql.execution.ui.SparkListenerDriverAccumUpdates"
    counted = {"Event": updates, "executionId": 1, "accumUpdates": [[70, 3], [71, 9], [72, 1]]}
    other = '{"Event":"SparkListenerTaskEnd","Task Info":{}}'
    found = read(tmp_path, spark_start(old), other, json.dumps(counted), spark_start(old, 2))
    assert found.filters == {frozenset({("id", EQUALITY)}): 2}
    assert (found.files, found.files_known) == (9, 1)
    assert (found.first_ms, found.last_ms) == (1000, 2000)


def trino(plan: Any, **more: Any) -> str:
    """An event as Trino's HTTP listener posts it, as far as it concerns reads."""
    inputs = [{"catalogName": "prod", "schema": "db", "table": "t", "columns": [], **more}]
    return json.dumps(
        {
            "metadata": {"queryId": "q", "query": "SELECT", "jsonPlan": json.dumps(plan)},
            "ioMetadata": {"inputs": inputs},
            "createTime": "2026-01-01T00:00:00Z",
        }
    )


def test_events_of_trino_tell_columns_by_their_plan(tmp_path):
    scan = {
        "name": "TableScan",
        "descriptor": {"table": "prod:db.t$data@123 constraint on [id, at, name]"},
        "details": [
            "id := 1:id:bigint", "    :: [[5], [7]]", "at := 3:at:timestamp(6)",
            "    :: [[2026-01-01 00:00:00.000000, 2026-01-02 00:00:00.000000)]",
            "other := 4:other:varchar",
        ],
        "children": [],
    }  # fmt: skip
    plan = {"0": {"name": "Output", "descriptor": {}, "details": [], "children": [scan]}}
    found = read(tmp_path, trino(plan), trino(None), trino(plan, table="t$files"))
    assert found.filters == {
        frozenset({("id", EQUALITY), ("at", RANGE)}): 2,
        frozenset(): 1,
    }
    assert found.first_ms == 1_767_225_600_000


def test_what_is_no_event_is_counted_and_ends_nothing(tmp_path):
    found = read(
        tmp_path,
        '{"report-type": "scan-report", "table-name": "db.t", "filter"',
        "\x00\xff",
        "[" * 100_000,
        '{"report-type": "scan-report", "table-name": 7, "filter": true}',
        '{"report-type": "scan-report", "table-name": "db.t", "filter": {"type": "eq"}}',
        '{"report-type": "commit-report", "table-name": "db.t"}',
        '{"ioMetadata": 3}',
        '{"Event": "org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart"}',
        '{"something": "else"}',
        "5",
        '{"logged": {"report-type": "scan-report", "table-name": "x.db.t", "filter": true}}',
    )
    assert (found.unreadable_lines, found.other_lines, found.count) == (7, 2, 1)


def test_long_lines_are_left_out(tmp_path, monkeypatch):
    monkeypatch.setattr(query_logs, "_LONGEST_LINE", 100)
    monkeypatch.setattr(query_logs, "_CHUNK", 16)
    short = '{"table-name": "db.t", "filter": true}'
    found = read(tmp_path, short, '{"a": "' + "x" * 500 + '"}', short, "y" * 500)
    assert (found.count, found.unreadable_lines) == (2, 2)


def test_filters_beyond_a_limit_count_as_none(tmp_path, monkeypatch):
    monkeypatch.setattr(query_logs, "_MOST_FILTERS", 2)
    line = '{"table-name": "db.t", "filter": {"type": "eq", "term": "c%d", "value": 1}}'
    found = read(tmp_path, *(line % number for number in (1, 2, 3, 1, 4)))
    assert sorted(found.filters.values()) == [1, 2, 2]
    assert found.filters[frozenset()] == 2


def test_compressed_logs_and_folders_are_read_and_cut_off_ones_named(tmp_path):
    line = b'{"table-name": "db.t", "filter": true}\n'
    folder = tmp_path / "eventlog_v2_app"
    folder.mkdir()
    (folder / "appstatus_app").write_text("no log")
    (folder / "events_2_app.gz").write_bytes(gzip.compress(line * 2))
    (folder / "events_10_app").write_bytes(line)
    whole = gzip.compress(b"".join(b"%d\n" % number for number in range(100_000)))
    (folder / "events_11_app.gz").write_bytes(whole[: len(whole) // 2])
    found = read_query_logs([str(tmp_path)], ["db.t"])
    assert found.count == 3
    assert found.unreadable_files == [str(folder / "events_11_app.gz")]
    with pytest.raises(UsageError, match="there is no file"):
        read_query_logs([str(tmp_path / "none")], ["db.t"])


SCAN = "IcebergBatchScan(table=prod.db.t, branch=null, filters=id = 1, runtimeFilters=)"


@pytest.mark.parametrize(
    "text",
    ["IcebergBatchScan(table=", "IcebergBatchScan(table=a, filters=", "] a (branch=", "Iceberg"],
)
def test_text_of_many_beginnings_takes_no_time_by_its_square(tmp_path, text):
    started = time.process_time()
    read(tmp_path, spark_start(text * (2_000_000 // len(text))))
    assert time.process_time() - started < 10  # by its square it is hours


def test_parentheses_in_parentheses_are_read_to_a_depth():
    assert dict(spark_conditions("(" * 20 + "id = 1" + ")" * 20)) == {"id": EQUALITY}
    started = time.process_time()
    assert dict(spark_conditions("(" * 400 + "id = 1" + " " * 15_000 + ")" * 400)) == {}
    assert time.process_time() - started < 0.5


@pytest.mark.parametrize(
    "text",
    [
        "name = 'O'Brien, key 4711 = 3'",
        "name IN ('x', 'O'Brien, key 4711 = 3')",
        "name = 'x, runtimeFilters=y'",
    ],
)
def test_no_part_of_a_value_with_quotes_becomes_a_name(tmp_path, text):
    assert read(tmp_path, spark_start(SCAN.replace("id = 1", text))).filters == {frozenset(): 1}


def test_numbers_and_names_beyond_all_measure_are_left_out(tmp_path):
    def report(table: str, term: str, files: int) -> str:
        filter_ = {"type": "eq", "term": term}
        counted = {"result-data-files": {"value": files}}
        return json.dumps({"table-name": table, "filter": filter_, "metrics": counted})

    late = spark_start(SCAN).replace("1000", "1" + "0" * 400)
    lines = [
        report("db.t", "id", 10**400),
        report("db.t", "x" * 1001, 1),
        report("x" * 1001, "", 1),
    ]
    found = read(tmp_path, spark_start(SCAN), late, *lines)
    assert found.filters == {frozenset({("id", EQUALITY)}): 3}
    assert (found.files_known, found.unreadable_lines) == (0, 2)
    assert (found.first_ms, found.last_ms) == (1000, 1000)


def test_scans_of_all_tables_are_counted_by_the_files_that_their_reads_open(tmp_path):
    day_s = 86_400
    log = [
        {"createTime": 1_700_000_000, "ioMetadata": {"inputs": [{"schema": "db", "table": "a"}]}},
        {"createTime": 1_700_000_000 + 2 * day_s,
         "ioMetadata": {"inputs": [{"schema": "db", "table": "b"}]}},
        *({"report-type": "scan-report", "table-name": "prod.db.a", "filter": True,
           "metrics": {"result-data-files": {"value": count}}} for count in (5, 15)),
    ]  # fmt: skip
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in log) + '{"half": ')
    found = read_all_logs([str(path)])
    assert (found.days, found.unreadable_lines) == (2, 1)
    a, b, none = (found.scans_of([name]) for name in ("db.a", "db.b", "db.none"))
    assert a is not None
    assert (a.files, a.reads, a.per_day(10)) == (10, 0.5, 1.5)  # one read does not say its files
    assert (b, none) == (LoggedScans(0, 0.5), LoggedScans(0, 0))
    path.write_text(json.dumps(log[0]))
    assert read_all_logs([str(path)]).scans_of(["db.a"]) is None


def test_no_table_counts_as_unread_where_logs_name_more_than_are_counted(tmp_path, monkeypatch):
    monkeypatch.setattr(query_logs, "_MOST_TABLES", 2)
    path = tmp_path / "log.jsonl"
    names = ["x" * 2000, "a", "b", "c", "a"]  # of none too long is kept
    path.write_text(
        "".join(
            json.dumps({"createTime": 1e9 + 86_400 * at, "ioMetadata": {"inputs": [read]}}) + "\n"
            for at, read in enumerate({"schema": "db", "table": name} for name in names)
        )
    )
    found = read_all_logs([str(path)])
    assert list(found.tables) == ["db.a", "db.b"]
    a, c, none = (found.scans_of([name]) for name in ("db.a", "db.c", "db.none"))
    assert a is not None
    assert (a.reads > 0, c, none) == (True, None, None)
