"""Tables that PyIceberg wrote, rewritten: PyIceberg reads the same rows out of the new files."""

import io
from collections import Counter
from pathlib import Path
from typing import IO
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.expressions import AlwaysTrue, EqualTo
from pyiceberg.io.pyarrow import (
    ArrowScan,
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
)
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import FileScanTask, Table
from pyiceberg.transforms import BucketTransform, DayTransform, IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from icectl.catalog.resolve import resolve
from icectl.env import SystemEnv
from icectl.format.metrics_modes import metrics_modes
from icectl.rows.rewrite_data import RewrittenGroup, rewrite_data
from icectl.rows.write_data import FileOutputs, write_options
from icectl.storage.open import StorageOptions, open_store
from icectl.table.context import open_table
from tests.builders.file_groups import whole_table

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")

SCHEMA = Schema(
    NestedField(1, "id", IntegerType(), required=False),
    NestedField(2, "kind", StringType(), required=False),
    NestedField(3, "at", TimestamptzType(), required=False),
    NestedField(4, "ratio", FloatType(), required=False),
    NestedField(
        5, "place", StructType(NestedField(6, "x", IntegerType(), required=False)), required=False
    ),
    NestedField(7, "tags", ListType(8, StringType(), element_required=False), required=False),
    NestedField(
        9, "counts", MapType(10, StringType(), 11, LongType(), value_required=False), required=False
    ),
)
SPECS = {
    "unpartitioned": PartitionSpec(),
    "identity": PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "kind")),
    "bucket": PartitionSpec(PartitionField(1, 1000, BucketTransform(4), "id_bucket")),
    "day": PartitionSpec(PartitionField(3, 1000, DayTransform(), "at_day")),
}


def rows(first: int, last: int) -> pa.Table:
    numbers = list(range(first, last))
    day = 86_400_000_000
    return pa.table(
        {
            "id": pa.array([n if n % 5 else None for n in numbers], pa.int32()),
            "kind": pa.array([f"k{n % 3}/ü" if n % 7 else None for n in numbers]),
            "at": pa.array([n * day // 4 - 3 * day for n in numbers], pa.timestamp("us", "UTC")),
            "ratio": pa.array(
                [float("nan") if n % 4 == 0 else n / 8 for n in numbers], pa.float32()
            ),
            "place": pa.array(
                [{"x": n} if n % 3 else None for n in numbers], pa.struct([("x", pa.int32())])
            ),
            "tags": pa.array([[str(n), None][: n % 3] for n in numbers], pa.list_(pa.string())),
            "counts": pa.array(
                [[("a", n)] if n % 2 else None for n in numbers], pa.map_(pa.string(), pa.int64())
            ),
        }
    )


def written(catalog: SqlCatalog, spec: PartitionSpec) -> Table:
    """Appends, a delete that rewrites files, evolution of the schema on every level."""
    table = catalog.create_table("db.t", SCHEMA, partition_spec=spec)
    table.append(rows(0, 20))
    table.delete(EqualTo("id", 6))
    with table.update_schema() as update:
        update.update_column("id", LongType())
        update.update_column("ratio", DoubleType())
        update.rename_column("tags", "labels")
        update.add_column(("place", "y"), StringType())
        update.add_column("extra", StringType())
        update.delete_column("counts")
    table.append(
        rows(20, 30)
        .drop_columns(["counts"])
        .rename_columns(["id", "kind", "at", "ratio", "place", "labels"])
    )
    return table


def rewritten(table: Table, target: int = 2**30) -> RewrittenGroup:
    store = open_store(StorageOptions(), SystemEnv())
    catalog = resolve(table.metadata_location, store, SystemEnv(), read_only=True)
    metadata = open_table(catalog).metadata
    below = unquote(table.location().removeprefix("file://"))
    count = iter(range(10_000))

    def next_location(path: str) -> str:
        folder = Path(below) / "new" / path
        folder.mkdir(parents=True, exist_ok=True)
        return str(folder / f"{next(count)}.parquet")

    def create(location: str) -> IO[bytes]:
        return Path(location).open("xb")

    outputs = FileOutputs(next_location, create, store.open)
    modes = metrics_modes({}, metadata.current_schema, ())
    return rewrite_data(whole_table(store, metadata), write_options({}, target, modes), outputs)


def as_pyiceberg_reads(table: Table, found: RewrittenGroup) -> Counter[str]:
    tasks = [
        FileScanTask(
            DataFile.from_args(
                content=DataFileContent.DATA,
                file_path=file.location,
                file_format=FileFormat.PARQUET,
                partition=Record(),
                record_count=file.metrics.record_count,
                file_size_in_bytes=file.file_size_in_bytes,
            )
        )
        for file in found.files
    ]
    for task in tasks:
        task.file.spec_id = 0
    metadata = table.metadata.model_copy(update={"partition_specs": [PartitionSpec()]})
    return Counter(
        map(
            str,
            ArrowScan(metadata, table.io, table.schema(), AlwaysTrue()).to_table(tasks).to_pylist(),
        )
    )


@pytest.mark.parametrize("name", SPECS)
def test_pyiceberg_reads_the_same_rows_out_of_the_new_files(name, catalog):
    table = written(catalog, SPECS[name])
    found = rewritten(table)
    expected = Counter(map(str, table.scan().to_arrow().to_pylist()))
    assert expected.total() == 29
    assert as_pyiceberg_reads(table, found) == expected


TYPES = {
    "flag": (BooleanType(), [True, None, False]),
    "int": (IntegerType(), [5, None, -7]),
    "long": (LongType(), [2**40, None, -(2**40)]),
    "float": (FloatType(), [0.5, None, -1.5]),
    "double": (DoubleType(), [0.25, None, -1.5]),
    "date": (DateType(), [19782, None, -1]),
    "time": (TimeType(), [1, None, 2]),
    "at": (TimestampType(), [1, None, -1]),
    "zoned": (TimestamptzType(), [1, None, -1]),
    "text": (StringType(), ["b" * 20, None, "ä" * 20]),
    "uuid": (UUIDType(), [b"\xff" * 16, None, bytes(16)]),
    "fixed": (FixedType(20), [b"\xff" * 20, None, bytes(20)]),
    "bytes": (BinaryType(), [b"\x01" * 20, None, b""]),
    "small": (DecimalType(9, 2), ["1.50", None, "-1.50"]),
    "middle": (DecimalType(18, 2), ["1.50", None, "-1.50"]),
    "large": (DecimalType(38, 4), ["99.0001", None, "-0.0001"]),
}


def test_metrics_are_those_that_pyiceberg_takes_from_the_same_footers(catalog):
    fields = [
        NestedField(number, name, kind, required=False)
        for number, (name, (kind, _)) in enumerate(TYPES.items(), 1)
    ]
    table = catalog.create_table("db.t", Schema(*fields))
    kinds = table.schema().as_arrow()
    columns = []
    for item, (_, values) in zip(kinds, TYPES.values(), strict=True):
        is_decimal = pa.types.is_decimal(item.type)
        columns.append(
            pa.array(values).cast(item.type) if is_decimal else pa.array(values, item.type)
        )
    table.append(pa.Table.from_arrays(columns, schema=kinds))
    (file,) = rewritten(table).files
    footer = pq.read_metadata(io.BytesIO(Path(file.location).read_bytes()))
    peer = data_file_statistics_from_parquet_metadata(
        footer,
        compute_statistics_plan(table.schema(), {}),
        parquet_path_to_id_mapping(table.schema()),
    ).to_serialized_dict()
    for name in ("record_count", "column_sizes", "value_counts", "null_value_counts"):
        assert getattr(file.metrics, name) == peer[name], name
    assert list(file.metrics.split_offsets) == peer["split_offsets"]
    for side in ("lower_bounds", "upper_bounds"):
        assert getattr(file.metrics, side) == peer[side]
