"""Rows of sfc-1 tables changed by a program on Spark, and read back without icectl."""

import json
import struct
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import mmh3
import pytest

from icectl.cli import app
from icectl.env import SystemEnv
from tests.builders.inline_rows import tree
from tests.builders.rows import current_metadata, live_entries, local, read_metadata, read_rows
from tests.builders.table_builder import TableBuilder, make_rows
from tests.conftest import ROOT
from tests.spark.engine import on_spark, why_skipped

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


@dataclass(frozen=True)
class Program:
    """What the program has told by step, and its tables."""

    told: dict[str, Any]
    folder: Path


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Program:
    skipped = why_skipped()
    if skipped:
        pytest.skip(skipped)
    folder = tmp_path_factory.mktemp("rows")
    tree(folder / "two", "two")
    retries = {"commit__retry__num_retries": "20"}
    tree(folder / "plain", "none", **retries)
    tree(folder / "page", "identity")
    TableBuilder(folder / "three", 3).append(range(8))
    page = ROOT / "docs/spark-python.md"
    done = on_spark(str(ROOT / "tests/peers/spark_rows.py"), str(folder), str(page))
    assert done.returncode == 0, done.stderr[-4000:]
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return Program({line.pop("name"): line for line in lines}, folder)


def rows_of(directory: Path) -> list[dict[str, Any]]:
    return [dict(row) for row in read_rows(read_metadata(current_metadata(directory)))]


def ids_by_snapshot(directory: Path) -> dict[int, list[int]]:
    metadata = read_metadata(current_metadata(directory))
    return {
        one["snapshot-id"]: sorted(
            dict(row)["id"] for row in read_rows(metadata, one["snapshot-id"])
        )
        for one in metadata["snapshots"]
    }


@pytest.mark.parametrize("step", ["append", "whole files", "some rows", "keys", "beside"])
def test_each_step_leaves_the_rows_that_it_should(program: Program, step: str) -> None:
    told = program.told[step]
    found = ids_by_snapshot(program.folder / "two")
    assert found[told["made"]["snapshot_id"]] == told["expected"]


def bucket(id_: int) -> int:
    """The partition of a long in four buckets, as the specification has it."""
    hashed: int = mmh3.hash(struct.pack("<q", id_))
    return (hashed & 0x7FFFFFFF) % 4


def test_rows_of_partitions_are_overwritten(program: Program) -> None:
    before = set(program.told["beside"]["expected"])
    made = program.told["overwritten"]["made"]
    buckets = {bucket(200), bucket(203)}
    gone = {one for one in before if one % 3 == 2 and bucket(one) in buckets}
    left = sorted(before - gone | {200, 203})
    assert program.told["then"]["made"] == left
    assert ids_by_snapshot(program.folder / "two")[made["snapshot_id"]] == left
    assert (made["added_rows"], made["deleted_rows"]) == (2, len(gone))


def test_whole_files_and_vectors_are_told(program: Program) -> None:
    whole, some = (program.told[name]["made"] for name in ("whole files", "some rows"))
    assert (whole["removed_data_files"], whole["deleted_rows"]) == (4, 20)
    assert (some["removed_data_files"], some["deleted_rows"]) == (0, 3)


def test_frames_have_the_rows_of_their_snapshot(program: Program) -> None:
    for step in ("compacted", "of a snapshot"):
        assert program.told[step]["made"] == program.told[step]["expected"]
    few = [one for one in program.told["then"]["made"] if one < 12 and one % 7]
    assert program.told["some"]["rows"] == sorted([f"note {one}", one] for one in few)
    assert program.told["shown"]["rows"] == [
        ["12", "c0", "15.00", "2023-11-15 10:13:20", "note 12"]
    ]
    assert program.told["loaded"]["made"] == list(range(8))


def test_values_are_what_the_frame_had(program: Program) -> None:
    found = {row["id"]: row for row in rows_of(program.folder / "plain")}
    epoch = datetime(1970, 1, 1)  # noqa: DTZ001 - the column has no zone
    for row in make_rows(range(40)):
        moment = (found[row["id"]]["at"] - epoch).total_seconds() * 1_000_000
        assert {**found[row["id"]], "at": round(moment)} == row
    assert found[13]["amount"] == Decimal("16.25")


def test_attempts_that_failed_leave_nothing(program: Program) -> None:
    assert program.told["stumbling"]["made"]["added_rows"] == 40
    for table in ("two", "plain", "page"):
        directory = program.folder / table
        named = {
            local(entry["data_file"]["file_path"])
            for snapshot in read_metadata(current_metadata(directory))["snapshots"]
            for entry in live_entries(snapshot)
        }
        written = {path for path in (directory / "data").rglob("*") if path.is_file()}
        assert {path for path in written if not path.name.endswith(".crc")} == named
        assert not list((directory / "metadata").glob("icectl-*"))


def test_writers_at_once_all_land(program: Program) -> None:
    assert program.told["at once"]["made"] == program.told["at once"]["expected"]
    assert (
        sorted(row["id"] for row in rows_of(program.folder / "plain"))
        == (program.told["nothing"]["expected"])
    )


def test_what_would_lose_something_is_refused(program: Program) -> None:
    told = {name: program.told[name] for name in ("null", "extra", "narrow", "missing", "syntax")}
    assert {name: one["error"] for name, one in told.items()} == {
        "null": "Refused",
        "extra": "Refused",
        "narrow": "Refused",
        "missing": "Refused",
        "syntax": "UsageError",
    }
    assert "required column `id`" in told["null"]["message"]
    assert program.told["nothing"]["made"]["snapshot_id"] is None
    assert program.told["version 3"]["error"] == "Unsupported"
    assert "format version 3" in program.told["version 3"]["message"]


def test_the_example_of_the_page_does_what_it_says(program: Program) -> None:
    assert program.told["example"]["made"] == program.told["example"]["expected"]


def test_nothing_is_found_afterwards(program: Program) -> None:
    for table in ("two", "plain", "page"):
        words = ["validate", str(program.folder / table), "--all-snapshots", "--quiet"]
        assert app.main(words, env=SystemEnv()) == 0
    assert program.told["left"]["same"]
