"""`icectl validate` finds nothing wrong with tables that PyIceberg wrote."""

import json

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.expressions import EqualTo, GreaterThan
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import BucketTransform, DayTransform, IdentityTransform, TruncateTransform
from pyiceberg.types import (
    DoubleType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestampType,
)

from icectl.cli import app

SCHEMA = Schema(
    NestedField(1, "id", IntegerType(), required=False),
    NestedField(2, "kind", StringType(), required=False),
    NestedField(3, "at", TimestampType(), required=False),
    NestedField(4, "ratio", DoubleType(), required=False),
)
SPECS = {
    "unpartitioned": PartitionSpec(),
    "identity": PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "kind")),
    "bucket": PartitionSpec(PartitionField(1, 1000, BucketTransform(4), "id_bucket")),
    "day": PartitionSpec(PartitionField(3, 1000, DayTransform(), "at_day")),
    "truncate": PartitionSpec(PartitionField(2, 1000, TruncateTransform(1), "kind_start")),
}

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")


def rows(first: int, last: int) -> pa.Table:
    numbers = list(range(first, last))
    day = 86_400_000_000
    return pa.table(
        {
            "id": pa.array([n if n % 5 else None for n in numbers], pa.int32()),
            "kind": pa.array([f"k{n % 3}ü" if n % 7 else None for n in numbers], pa.string()),
            "at": pa.array([n * day // 4 - 3 * day for n in numbers], pa.timestamp("us")),
            "ratio": pa.array([float("nan") if n % 4 == 0 else n / 8 for n in numbers]),
        }
    )


def written(catalog: SqlCatalog, spec: PartitionSpec, version: int) -> Table:
    """Appends, deletes that rewrite files, an overwrite, evolution of schema and spec, a tag."""
    table = catalog.create_table(
        "db.t", SCHEMA, partition_spec=spec, properties={"format-version": str(version)}
    )
    table.append(rows(0, 20))
    table.append(rows(20, 40))
    table.manage_snapshots().create_tag(table.current_snapshot().snapshot_id, "v1").commit()
    table.delete(EqualTo("kind", "k1ü"))
    table.overwrite(rows(60, 70), GreaterThan("id", 35))
    with table.update_schema() as update:
        update.add_column("more", LongType())
        update.update_column("id", LongType())
        update.rename_column("kind", "sort")
    renamed = rows(70, 80).rename_columns(["id", "sort", "at", "ratio"])
    at = renamed.schema.get_field_index("id")
    table.append(renamed.set_column(at, "id", renamed["id"].cast(pa.int64())))
    return table


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("version", [1, 2])
def test_a_table_of_pyiceberg_is_clean(catalog, capsys, spec, version):
    table = written(catalog, SPECS[spec], version)
    code = app.main(["validate", table.location(), "--level", "data", "--all-snapshots", "--json"])
    found = json.loads(capsys.readouterr().out)["result"]
    assert [one for one in found["findings"] if one["severity"] == "error"] == []
    assert {one["rule"] for one in found["findings"] if one["severity"] == "warning"} <= {"R-031"}
    assert code == 0
    assert found["snapshots_checked"] == len(table.metadata.snapshots) >= 5
