"""Files of a table whose columns were promoted are merged: PyIceberg and DuckDB read the rows."""

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.conversions import from_bytes
from pyiceberg.schema import Schema
from pyiceberg.table import StaticTable, Table
from pyiceberg.types import (
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    StructType,
)

from icectl.env import Env
from tests.builders.expiry import NOW_MS
from tests.cli.conftest import Run, prepared, result
from tests.stores.fixed_env import FixedEnv

__all__ = ["prepared"]

ROWS = 4000


def rows(table: Table, start: int) -> pa.Table:
    """Rows that fit the columns that a table has now."""
    schema = table.schema().as_arrow()
    whole: dict[str, Callable[[int], Any]] = {
        "id": lambda at: at,
        "needed": lambda at: at * 7,
        "ratio": lambda at: None if at % 5 == 0 else at / 4,
        "price": lambda at: Decimal(at) / 100,
        "place": lambda at: {"x": at, "y": f"y{at}"},
        "note": lambda at: f"note {at} of {at * 12345}",
    }
    values = [{name: whole[name](at) for name in schema.names} for at in range(start, start + ROWS)]
    return pa.Table.from_pylist(values, schema)


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Ten files, of which the first was written before columns were promoted."""
    catalog = SqlCatalog("c", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("db")
    place = StructType(NestedField(7, "x", LongType(), required=False))
    created = catalog.create_table(
        "db.t",
        Schema(
            NestedField(1, "id", IntegerType(), required=False),
            NestedField(2, "needed", LongType(), required=True),
            NestedField(3, "ratio", FloatType(), required=False),
            NestedField(4, "price", DecimalType(9, 2), required=False),
            NestedField(5, "place", place, required=False),
            NestedField(6, "note", StringType(), required=False),
        ),
    )
    created.append(rows(created, 0))
    with created.update_schema() as update:
        update.update_column("id", LongType())
        update.update_column("needed", required=False)
        update.update_column("ratio", DoubleType())
        update.update_column("price", DecimalType(18, 2))
        update.add_column(("place", "y"), StringType())
    for at in range(1, 10):
        created.append(rows(created, ROWS * at))
    return created


@pytest.fixture
def icectl(prepared: Callable[[str, Env], Run]) -> Run:
    return prepared("compact", FixedEnv(NOW_MS))


def test_columns_of_a_file_from_before_are_decoded(table, icectl):
    before = table.scan().to_arrow().sort_by("id")
    words = ("--metadata-file", table.metadata_location, "--engine", "local", "--method", "merge")
    planned = icectl(table.location(), *words, "--dry-run")
    shown = " ".join(planned.out.split())
    assert "`id`, `needed`, `ratio` and 2 more decoded in 1 of 10 files, " in shown
    assert ".parquet`: `id` is optional int32, in the files beside it optional int64)" in shown
    assert "merged without decoding, except columns of 1 file, " in shown
    done = result(icectl(table.location(), *words, "--yes", "--json", "--verify", "rows"))
    (group,) = done["groups"]
    assert (group["method"], group["input_files"], group["output_files"]) == ("merge", 10, 1)
    (decoded,) = group["decoded_columns"]
    assert decoded["columns"] == ["id", "needed", "ratio", "price", "place"]
    assert group["decoded_bytes"] == decoded["size_bytes"] < group["input_bytes"] / 10
    newest = max(Path(table.location().removeprefix("file://")).glob("metadata/*.metadata.json"))
    after = StaticTable.from_metadata(str(newest))
    assert after.scan().to_arrow().sort_by("id").cast(before.schema).equals(before)
    (file,) = [task.file for task in after.scan().plan_files()]
    assert duckdb.sql(
        f"select count(*), sum(id), sum(needed), sum(ratio), sum(price), sum(place.x), "
        f"count(place.y) from '{file.file_path}'"
    ).fetchall() == [
        (10 * ROWS, sum(range(10 * ROWS)), 7 * sum(range(10 * ROWS)),
         sum(at for at in range(10 * ROWS) if at % 5) / 4, Decimal(sum(range(10 * ROWS))) / 100,
         sum(range(10 * ROWS)), 9 * ROWS)
    ]  # fmt: skip
    assert file.null_value_counts[3] == 2 * ROWS
    assert from_bytes(LongType(), file.lower_bounds[1]) == 0
    assert from_bytes(LongType(), file.upper_bounds[1]) == 10 * ROWS - 1
    assert from_bytes(DoubleType(), file.upper_bounds[3]) == (10 * ROWS - 1) / 4
