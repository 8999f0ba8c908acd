"""ORC and Avro tables of Iceberg's Spark runtime, whose rows are the same to Spark afterwards."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.builders.rows import head, live_entries
from tests.spark.conftest import Run, icectl, peer

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

INSTANTS = [
    "plain", "plain_ntz", "identity", "identity_ntz", "year", "hour", "bucket", "deleted",
]  # fmt: skip
TABLES = [*INSTANTS, "structs_orc", "structs_avro"]

Rows = Mapping[str, list[list[Any]]]


@dataclass(frozen=True)
class Told:
    """Rows before and after, as Spark reads them, and what icectl said in between."""

    folder: Path
    before: Rows
    after: Rows
    validations: Mapping[str, Run]
    compactions: Mapping[str, Run]
    validations_after: Mapping[str, Run]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Told:
    """Write the tables, validate, compact and validate each, and read them again."""
    warehouse = tmp_path_factory.mktemp("orc")
    folder = warehouse / "db"

    def each(*arguments: str) -> dict[str, Run]:
        command, *options = arguments
        return {name: icectl(command, str(folder / name), *options) for name in TABLES}

    validate = ("validate", "--level", "data")
    return Told(
        folder,
        rows("write", warehouse),
        validations=each(*validate),
        compactions=each("compact", "--engine", "local", "--rewrite-all"),
        validations_after=each(*validate),
        after=rows("read", warehouse),
    )


def rows(verb: str, warehouse: Path) -> Rows:
    """The rows of the tables, by the peer."""
    told = peer(verb, str(warehouse), script="spark_orc").splitlines()
    lines = [json.loads(line) for line in told if line.startswith("{")]
    return {line["table"]: line["rows"] for line in lines}


@pytest.mark.parametrize("name", [name for name in TABLES if name != "deleted"])
def test_spark_reads_the_same_rows_from_the_new_files(told, name):
    run = told.compactions[name]
    assert (run.exit_code, run.document["status"]) == (0, "done"), run.errors
    assert told.after[name] == told.before[name]
    files = [entry["data_file"] for entry in live_entries(head(told.folder / name))]
    assert {str(file["file_format"]).lower() for file in files} == {"parquet"}


@pytest.mark.parametrize("name", TABLES)
def test_r071_r072_files_are_right_before_and_after(told, name):
    for run in (told.validations[name], told.validations_after[name]):
        assert (run.exit_code, run.document["result"]["findings"]) == (0, [])


@pytest.mark.parametrize("name", ["identity", "identity_ntz"])
def test_new_files_hold_what_spark_takes_from_the_partition(told, name):
    found = dict(told.before[name])
    assert (found[2], found[4]) == (-1, -500_000)
    entries = live_entries(head(told.folder / name))
    stored = {}
    for entry in entries:
        path = entry["data_file"]["file_path"].removeprefix("file:")
        read = pq.read_table(path, partitioning=None)
        stored |= dict(
            zip(read["id"].to_pylist(), read["at"].cast("int64").to_pylist(), strict=True)
        )
    assert stored == found


def counts(column: Any) -> list[int]:
    """Instants in microseconds."""
    return [count for part in column.chunks for count in part.cast("int64").to_pylist()]


def test_deletes_of_instants_that_orc_shows_later_are_left_to_others(told):
    """Bounds of ORC files are late as well, and by them Spark passes over those deletes."""
    found = dict(told.before["deleted"])
    assert not {3, 15} & found.keys()
    assert (found[2], found[4], found[5]) == (-1, -500_000, 999_999)
    run = told.compactions["deleted"]
    assert (run.exit_code, run.document["status"]) == (14, "failed")
    assert "equality deletes compare `at`" in run.errors
    assert told.after["deleted"] == told.before["deleted"]
