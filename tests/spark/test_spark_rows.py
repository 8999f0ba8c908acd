"""Rows of sfc-1 tables changed by a program on Spark, and read back without icectl."""

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.builders.inline_rows import tree, variant_tree
from tests.builders.table_builder import TableBuilder, make_rows
from tests.conftest import ROOT
from tests.spark.engine import on_spark, skip_without_spark
from tests.spark.programs import (
    STEPS,
    build_trees,
    check_clean,
    check_loaded,
    check_overwritten,
    check_typed,
    checked,
    ids_by_snapshot,
    rows_of,
    told_by,
)

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark-runs")]


@dataclass(frozen=True)
class Program:
    """What the program has told by step, and its tables."""

    told: dict[str, Any]
    folder: Path


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Program:
    skip_without_spark()
    folder = tmp_path_factory.mktemp("rows")
    build_trees(folder)
    tree(folder / "page", "identity")
    variant_tree(folder / "variants")
    TableBuilder(folder / "three", 3).append(range(8))
    page = ROOT / "docs/spark-python.md"
    done = on_spark(str(ROOT / "tests/peers/spark_rows.py"), str(folder), str(page))
    assert done.returncode == 0, done.stderr[-4000:]
    return Program(told_by(done.stdout), folder)


@pytest.mark.parametrize("step", STEPS)
def test_each_step_leaves_the_rows_that_it_should(program, step):
    told = program.told[step]
    found = ids_by_snapshot(program.folder / "two")
    assert found[told["made"]["snapshot_id"]] == told["expected"]


def test_rows_of_partitions_are_overwritten(program):
    check_overwritten(program.told, program.folder / "two")


def test_whole_files_and_vectors_are_told(program):
    whole, some = (program.told[name]["made"] for name in ("whole files", "some rows"))
    assert (whole["removed_data_files"], whole["deleted_rows"]) == (4, 20)
    assert (some["removed_data_files"], some["deleted_rows"]) == (0, 3)


def test_frames_have_the_rows_of_their_snapshot(program):
    check_loaded(program.told)
    assert program.told["loaded"]["made"] == list(range(8))


def test_values_of_types_that_spark_lacks_go_there_and_back(program):
    check_typed(program.told, program.folder / "typed")


def test_variants_are_written_changed_compacted_and_read(program):
    told = program.told
    assert told["variants"]["same"]
    for name in ("variants as keys", "variants in a condition"):
        assert "variant" in told[name]["message"], told[name]
    assert told["variants that are null"]["made"] == [0, 3, 6, 9, 12, 15, 18]
    assert checked(program.folder / "variants")["result"]["findings"] == []


def test_values_are_what_the_frame_had(program):
    found = {row["id"]: row for row in rows_of(program.folder / "plain")}
    epoch = datetime(1970, 1, 1)  # noqa: DTZ001 - the column has no zone
    for row in make_rows(range(40)):
        moment = (found[row["id"]]["at"] - epoch).total_seconds() * 1_000_000
        assert {**found[row["id"]], "at": round(moment)} == row
    assert found[13]["amount"] == Decimal("16.25")


def test_attempts_that_failed_leave_nothing(program):
    assert program.told["stumbling"]["made"]["added_rows"] == 40


def test_writers_at_once_all_land(program):
    assert program.told["at once"]["made"] == program.told["at once"]["expected"]
    assert (
        sorted(row["id"] for row in rows_of(program.folder / "plain"))
        == (program.told["nothing"]["expected"])
    )


def test_what_would_lose_something_is_refused(program):
    told = {name: program.told[name] for name in ("null", "extra", "narrow", "missing", "syntax")}
    assert {name: one["error"] for name, one in told.items()} == {
        "null": "Refused", "extra": "Refused", "narrow": "Refused", "missing": "Refused",
        "syntax": "UsageError",
    }  # fmt: skip
    assert "required column `id`" in told["null"]["message"]
    assert program.told["nothing"]["made"]["snapshot_id"] is None
    assert program.told["version 3"]["error"] == "Unsupported"
    assert "format version 3" in program.told["version 3"]["message"]


def test_the_example_of_the_page_does_what_it_says(program):
    assert program.told["example"]["made"] == program.told["example"]["expected"]


def test_nothing_is_found_afterwards(program):
    for table in ("two", "plain", "page", "typed"):
        check_clean(program.folder / table)
    assert program.told["left"]["same"]
