"""Advice from the logs that Spark and Iceberg leave, held against the real rewrite."""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from icectl.commands.query_logs import EQUALITY, RANGE, Reads, read_query_logs
from tests.spark.conftest import icectl, peer

FILES, READS = 24, 11
"""What tests/peers/spark_queries.py writes and reads."""

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


@pytest.fixture(scope="module")
def read(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A table that Spark has written and read, and the folder of its logs."""
    folder = tmp_path_factory.mktemp("queries")
    logs = folder / "logs"
    logs.mkdir()
    peer("begin", str(folder), str(logs), script="spark_queries")
    return folder / "db" / "orders", logs


def by_filter(reads: Reads) -> dict[tuple[tuple[str, str], ...], int]:
    return {tuple(sorted(used)): count for used, count in reads.filters.items()}


def test_conditions_of_a_spark_log_are_known_by_column_without_their_values(read):
    (log,) = [path for path in read[1].iterdir() if path.suffix != ".jsonl"]
    found = read_query_logs([str(log)], ["db.orders"])
    assert by_filter(found) == {
        (("id", EQUALITY),): 4, (("at", RANGE), ("name", EQUALITY)): 1, (("name", RANGE),): 1,
        (("place.zip", EQUALITY),): 1, (("days", RANGE),): 1, (): 3,
    }  # fmt: skip
    assert found.files_known == READS
    assert dict(found.other_tables) == {"peer.db.others": 1}
    assert (found.unreadable_lines, found.other_lines) == (0, 0)
    assert "secret" not in repr(found)


def test_scan_reports_of_iceberg_are_read(read):
    found = read_query_logs([str(read[1] / "reports.jsonl")], ["db.orders"])
    assert by_filter(found) == {(("id", EQUALITY),): 2, (("days", RANGE),): 1, (): 2}
    assert found.files == 3 * FILES  # `id = 5` is below all bounds, which else leave nothing out
    assert found.files_known == 5


def advice(table: Path, *options: str) -> dict[str, Any]:
    shown = icectl("inspect", str(table), "advice", *options)
    assert shown.exit_code == 0, shown.errors
    return dict(shown.document["result"])


def test_the_advised_sort_opens_as_many_files_as_it_was_said_to(read):
    table, logs = read
    told = advice(table, "--queries", str(logs), "--queries-table", "db.orders")
    assert told["read_count"] == READS + 5
    assert told["other_tables"] == [{"table": "peer.db.others", "read_count": 1}]
    by_id = advice(table, "--columns", "id")
    assert by_id["files_per_read"] == pytest.approx(FILES, rel=0.02)
    (best, *_) = by_id["advice"]
    assert (best["kind"], best["terms"]) == ("sort", ["id"])
    words = shlex.split(best["command"])[1:]
    done = icectl(*words, "--engine", "local", "--yes")
    assert done.exit_code == 0, done.errors
    after = advice(table, "--columns", "id")
    assert after["data_file_count"] == pytest.approx(best["data_file_count"], rel=0.2)
    assert after["files_per_read"] == pytest.approx(best["files_per_read"], rel=0.2)
    assert after["bytes_per_read"] == pytest.approx(best["bytes_per_read"], rel=0.2)
    assert [one for one in after["advice"] if one["kind"] == "sort"] == []
    opened = json.loads(peer("again", str(table.parents[1]), script="spark_queries"))
    assert sum(opened) / len(opened) == pytest.approx(best["files_per_read"], rel=0.2)
