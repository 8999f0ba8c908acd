"""Variants, geometry and geography that Iceberg's Spark wrote, which it reads after compactions."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from icectl.format.variant import read_bounds
from tests.builders.rows import head, live_entries
from tests.spark.conftest import icectl, peer
from tests.spark.engine import skip_without_spark

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

TABLES = ["alike", "apart", "on_spark", "merged", "fourth"]
SHREDDED = {"alike", "merged"}
"""Those whose new files keep the shredding of the old ones, which is the same in both."""


@dataclass(frozen=True)
class Told:
    """Where tables lie, and what was told of each."""

    folder: Path
    tables: dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Told:
    """Let Spark write tables, compact them beside it, and let it read them before and after."""
    skip_without_spark()
    folder = tmp_path_factory.mktemp("types")
    printed = peer(str(folder), script="spark_types").splitlines()
    lines = [json.loads(line) for line in printed if line.startswith("{")]
    return Told(folder / "db", {line["table"]: line for line in lines})


def stored(table: Path) -> list[Path]:
    """Return the live data files."""
    entries = [entry["data_file"] for entry in live_entries(head(table))]
    return [
        Path(file["file_path"].removeprefix("file:")) for file in entries if file["content"] == 0
    ]


@pytest.mark.parametrize("name", TABLES)
def test_spark_reads_the_same_rows_with_their_ids_from_new_files(told, name):
    one = told.tables[name]
    assert not any(one["ended"])
    assert len(one["before"]) == 13
    assert {row[0] for row in one["before"]} == {f"{id_}" for id_ in range(16) if id_ % 6 != 2}
    assert one["after"] == one["before"]


@pytest.mark.parametrize("name", TABLES)
def test_new_files_have_all_types_and_the_shredding_that_the_old_ones_share(told, name):
    table = told.folder / name
    (new,) = stored(table)
    schema = str(pq.ParquetFile(new).schema)
    assert schema.count("(Variant(1))") == 2
    assert "g (Geometry(crs=OGC:CRS84))" in schema
    assert "e (Geography(crs=OGC:CRS84, algorithm=spherical))" in schema
    old = [path for path in (table / "data").glob("*.parquet") if path != new]
    assert all("typed_value" in str(pq.ParquetFile(path).schema) for path in old) == (
        name != "fourth"
    )
    assert ("typed_value" in schema) == (name in SHREDDED)


@pytest.mark.parametrize("name", TABLES)
def test_every_value_and_bound_is_right_before_and_after(told, name):
    found = icectl("validate", str(told.folder / name), "--level", "data", "--all-snapshots")
    assert (found.exit_code, found.document["result"]["findings"]) == (0, [])


@pytest.mark.parametrize("name", sorted(SHREDDED))
def test_new_files_have_the_bounds_of_variants_that_the_old_ones_have_in_common(told, name):
    (new,) = (
        entry["data_file"]
        for entry in live_entries(head(told.folder / name))
        if entry["data_file"]["content"] == 0
    )
    lower, upper = (
        {one["key"]: read_bounds(one["value"]) for one in new[side] if one["key"] == 2}
        for side in ("lower_bounds", "upper_bounds")
    )
    assert lower[2]["$['n']"] == b"\x0c\x00"
    assert upper[2]["$['n']"] == b"\x0c\x0e"  # that of id 15 is null
