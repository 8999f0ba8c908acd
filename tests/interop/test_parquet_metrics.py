"""Footers against what PyIceberg makes of them and what the manifests of other writers say."""

import io
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.io import pyarrow as pyiceberg_arrow
from pyiceberg.schema import Schema as PySchema

from icectl.errors import Unsupported
from icectl.files.parquet.metrics import read_metrics
from icectl.files.parquet.schema import arrow_schema
from icectl.format.schema import Schema, schema_from_json

TYPES = [
    "boolean", "int", "long", "float", "double", "decimal(9, 2)", "decimal(18, 2)",
    "decimal(28, 2)", "date", "time", "timestamp", "timestamptz", "string", "fixed[3]", "binary",
]  # fmt: skip
JSON = {
    "schema-id": 0,
    "type": "struct",
    "fields": [
        *(
            {"id": number, "name": f"c{number}", "required": False, "type": type_}
            for number, type_ in enumerate(TYPES, 1)
        ),
        {
            "id": 50,
            "name": "list",
            "required": False,
            "type": {
                "type": "list",
                "element-id": 51,
                "element-required": False,
                "element": "long",
            },
        },
    ],
}


def sample(field: pa.Field) -> pa.Array:
    """A hundred values with nulls, no number zero: PyIceberg keeps the sign of a zero."""
    numbers = [None if n % 7 == 0 else n * 37 % 101 + 1 for n in range(100)]
    kind = field.type
    if pa.types.is_list(kind):
        return pa.array([None if n is None else [n, None] for n in numbers], kind)
    if pa.types.is_boolean(kind):
        return pa.array([None if n is None else n % 2 == 0 for n in numbers], kind)
    if pa.types.is_string(kind) or pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return pa.array([None if n is None else f"{n:03}" for n in numbers]).cast(kind)
    if pa.types.is_decimal(kind):
        return pa.array([None if n is None else Decimal(n - 50) / 4 for n in numbers], kind)
    return pa.array(numbers, pa.int32() if pa.types.is_date32(kind) else pa.int64()).cast(kind)


@pytest.mark.parametrize("as_integer", [True, False])
def test_metrics_are_those_of_pyiceberg(as_integer):
    schema = schema_from_json(JSON)
    arrow = arrow_schema(schema)
    columns = [sample(field) for field in arrow]
    file = io.BytesIO()
    pq.write_table(
        pa.Table.from_arrays(columns, schema=arrow),
        file,
        row_group_size=30,
        store_decimal_as_integer=as_integer,
    )
    theirs_schema = PySchema.model_validate(JSON)
    properties = {"write.metadata.metrics.default": "full"}
    theirs = pyiceberg_arrow.data_file_statistics_from_parquet_metadata(
        pq.read_metadata(file),
        pyiceberg_arrow.compute_statistics_plan(theirs_schema, properties),
        pyiceberg_arrow.parquet_path_to_id_mapping(theirs_schema),
    )
    ours = read_metrics(file, schema)
    assert ours.record_count == theirs.record_count == 100
    assert ours.column_sizes == theirs.column_sizes
    assert ours.value_counts == theirs.value_counts
    assert ours.null_value_counts == theirs.null_value_counts
    assert list(ours.split_offsets) == theirs.split_offsets
    aggregates = theirs.column_aggregates
    assert ours.lower_bounds == {key: found.min_as_bytes() for key, found in aggregates.items()}
    assert ours.upper_bounds == {key: found.max_as_bytes() for key, found in aggregates.items()}
    assert len(ours.lower_bounds) == len(TYPES)


TABLES = [
    "duckdb-iceberg/lineitem_iceberg", "glaredb/tables-v2__lineitem_partitioned",
    "iceberg-cxx/day_timestamptz_partitioning", "iceberg-cxx/types__all_trino_types",
    "impala/iceberg_partitioned", "impala/iceberg_v3_all_types",
    "pg_lake/data__iceberg__test_types",
]  # fmt: skip


@pytest.mark.parametrize("name", TABLES)
def test_metrics_are_those_of_the_manifests_by_other_writers(name, fixtures_dir):
    table = Table(fixtures_dir, name)
    files = table.data_files()
    assert files
    for data_file in files:
        with table.local(data_file["file_path"]).open("rb") as file:
            found = read_metrics(file, table.schema)
        assert found.record_count == data_file["record_count"]
        assert data_file["split_offsets"] in (None, list(found.split_offsets))
        for column in ("column_sizes", "value_counts", "null_value_counts"):
            assert stored(data_file, column).items() <= getattr(found, column).items()
        lower, upper = stored(data_file, "lower_bounds"), stored(data_file, "upper_bounds")
        for field_id, bound in found.lower_bounds.items():
            assert bound.startswith(lower[field_id])
        for field_id, bound in found.upper_bounds.items():
            # A truncated upper bound is the first 16 characters with the last one raised.
            assert bound == upper[field_id] or bound[:15] == upper[field_id][:15]


def test_a_footer_that_pyarrow_can_not_read_is_unsupported(fixtures_dir):
    table = Table(fixtures_dir, "impala/iceberg_migrated_complex_test")
    (data_file,) = table.data_files()
    with (
        table.local(data_file["file_path"]).open("rb") as file,
        pytest.raises(Unsupported, match="Logical type Null"),
    ):
        read_metrics(file, table.schema)


def stored(data_file: dict[str, Any], column: str) -> dict[int, Any]:
    return {item["key"]: item["value"] for item in data_file[column] or ()}


class Table:
    """The current snapshot of a table by another writer, read without icectl but its schema."""

    def __init__(self, fixtures: Path, name: str) -> None:
        facts = json.loads((fixtures / "expected.json").read_text())["tables"][name]
        self.directory = fixtures / name
        self.prefixes = facts["prefix_map"]
        self.metadata = json.loads((self.directory / facts["metadata_file"]).read_bytes())

    @property
    def schema(self) -> Schema:
        current = self.metadata.get("current-schema-id", 0)
        schemas = self.metadata.get("schemas") or [self.metadata["schema"]]
        return schema_from_json(
            next(schema for schema in schemas if schema.get("schema-id", 0) == current)
        )

    def local(self, location: str) -> Path:
        prefix = next(item["from"] for item in self.prefixes if location.startswith(item["from"]))
        return self.directory / location[len(prefix) :]

    def data_files(self) -> list[dict[str, Any]]:
        snapshot = next(
            snapshot
            for snapshot in self.metadata["snapshots"]
            if snapshot["snapshot-id"] == self.metadata["current-snapshot-id"]
        )
        manifests = self.records(snapshot["manifest-list"])
        entries = [
            entry for manifest in manifests for entry in self.records(manifest["manifest_path"])
        ]
        return [
            entry["data_file"]
            for entry in entries
            if entry["status"] != 2 and entry["data_file"].get("content", 0) == 0
        ]

    def records(self, location: str) -> list[Any]:
        with self.local(location).open("rb") as file:
            return list(fastavro.reader(file))
