"""A table of many files that holds metadata only: what planning costs, without the data.

Manifests are written with the project's writer from Arrow columns, twenty columns of stats each.
"""

import struct
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from icectl.entries.partition_key import encode_key
from icectl.entries.rows import CARRIED, PLANNING
from icectl.files.metadata_file import write_metadata
from icectl.format.manifest import FieldSummary, ManifestContent, ManifestFile
from icectl.format.metadata import TableMetadata
from icectl.format.partition import PartitionField, PartitionSpec
from icectl.format.schema import Schema
from icectl.format.snapshot import Snapshot, SnapshotRef
from icectl.format.sort import SortOrder
from icectl.format.transforms import parse_transform
from icectl.format.types import NestedField, PrimitiveType
from tests.builders.plain_manifests import list_of, manifest_of

STATS_COLUMNS = 20
SCHEMA = Schema(
    0,
    tuple(
        NestedField(number, f"column_{number}", PrimitiveType(kind), required=False)
        for number, kind in enumerate(
            ["long", "string", "timestamp", "double", "int"] * (STATS_COLUMNS // 5), start=1
        )
    ),
)
SPEC = PartitionSpec(0, (PartitionField((5,), 1000, "column_5", parse_transform("identity")),))
INT = PrimitiveType("int")
WIDTHS = {"long": 8, "timestamp": 8, "double": 8, "int": 4}
SNAPSHOT_ID = 4_000_000_000_000_000_001


LARGEST = 1 << 24
"""Bytes that files of all manifests but the last stay below."""


def entries(
    manifest: int, count: int, location: str, *, metrics: bool = True, larger: bool = False
) -> pa.Table:
    """`count` added data files of one manifest, with metrics of every column or of none.

    With `larger` each has LARGEST bytes more.
    """
    rng = np.random.default_rng(manifest)
    start = manifest * count
    numbers = pc.utf8_lpad(pa.array(np.arange(start, start + count)).cast(pa.string()), 8, "0")
    folder = pa.scalar(f"{location}/data/column_5={manifest}/")
    name = pa.scalar("-7f2d6c1e-4d0f-4b7f-9a5e-1f9a4e6b2c11.parquet")
    records = rng.integers(1_000, 100_000, count)
    columns: dict[str, pa.Array] = {
        "content": pa.array(np.zeros(count, np.int8)),
        "status": pa.array(np.ones(count, np.int8)),
        "location": pc.binary_join_element_wise(folder, numbers, name, ""),
        "file_format": pa.array(np.full(count, 3, np.int8)),
        "spec_id": pa.array(np.zeros(count, np.int32)),
        "partition_key": pa.array([encode_key((INT,), (manifest,))] * count, pa.binary()),
        "record_count": pa.array(records),
        "file_size_in_bytes": pa.array(rng.integers(1 << 16, LARGEST, count) + larger * LARGEST),
        "snapshot_id": pa.array(np.full(count, SNAPSHOT_ID)),
        "sort_order_id": pa.array(np.zeros(count, np.int32)),
        "manifest": pa.array(np.full(count, manifest, np.int32)),
        "manifest_pos": pa.array(np.arange(count, dtype=np.int32)),
        **(_metrics(rng, records, manifest) if metrics else {}),
        "split_offsets": pa.array([[4]] * count, pa.list_(pa.int64())),
    }
    schema = pa.schema([*PLANNING, *CARRIED])
    return pa.table(
        [
            columns[f.name].cast(f.type) if f.name in columns else pa.nulls(count, f.type)
            for f in schema
        ],
        schema=schema,
    )


def _metrics(
    rng: np.random.Generator, records: npt.NDArray[np.int64], manifest: int
) -> dict[str, pa.Array]:
    count = len(records)
    offsets = pa.array(np.arange(0, (count + 1) * STATS_COLUMNS, STATS_COLUMNS, dtype=np.int32))
    keys = pa.array(np.tile(np.arange(1, STATS_COLUMNS + 1, dtype=np.int32), count))
    total = count * STATS_COLUMNS

    def each(values: npt.NDArray[np.int64]) -> pa.Array:
        return pa.MapArray.from_arrays(offsets, keys, pa.array(values))

    values = rng.integers(0, 1 << 40, total)
    doubles = rng.random(total)
    raw = [
        _bound(SCHEMA.fields[at % STATS_COLUMNS], int(value), float(double), manifest)
        for at, (value, double) in enumerate(zip(values, doubles, strict=True))
    ]
    bounds = pa.MapArray.from_arrays(offsets, keys, pa.array(raw, pa.binary()))
    return {
        "column_sizes": each(rng.integers(1 << 10, 1 << 20, total)),
        "value_counts": each(np.repeat(records, STATS_COLUMNS)),
        "null_value_counts": each(rng.integers(0, 1_000, total)),
        "lower_bounds": bounds,
        "upper_bounds": bounds,
    }


def _bound(field: NestedField, value: int, double: float, manifest: int) -> bytes:
    """Return a value; that of a column which the table is partitioned by is of its partition."""
    kind = field.type
    assert isinstance(kind, PrimitiveType)
    if kind.name == "string":
        return f"value {value:016}"[:16].encode()
    if kind.name == "double":
        return struct.pack("<d", double)
    value = manifest if (field.id,) == SPEC.fields[0].source_ids else value & 0x7FFFFFFF
    if kind.name == "timestamp":
        value += manifest * 86_400_000_000  # where the table is partitioned by day
    return value.to_bytes(WIDTHS[kind.name], "little")


def build(
    directory: Path,
    manifests: int,
    entries_per_manifest: int,
    *,
    metrics: bool = True,
    spec: PartitionSpec = SPEC,
    location: str | None = None,
) -> list[Path]:
    """Write the table, at a location or in the directory; returns the paths of its manifests.

    `spec` has one field, whose values are the numbers of the manifests. Files of the last manifest
    are larger than all others: none of them may be one of these.
    """
    (directory / "metadata").mkdir(parents=True)
    location = location or str(directory)
    described, paths = [], []
    for number in range(manifests):
        is_last = number == manifests - 1
        table = entries(number, entries_per_manifest, location, metrics=metrics, larger=is_last)
        content = manifest_of(table, SCHEMA, spec, snapshot_id=SNAPSHOT_ID)
        path = directory / "metadata" / f"m{number:05}.avro"
        path.write_bytes(content)
        paths.append(path)
        bound = number.to_bytes(4, "little")
        described.append(
            ManifestFile(
                f"{location}/metadata/{path.name}",
                len(content),
                0,
                ManifestContent.DATA,
                1,
                1,
                SNAPSHOT_ID,
                entries_per_manifest,
                0,
                0,
                int(np.sum(table["record_count"].to_numpy())),
                0,
                0,
                (
                    FieldSummary(
                        contains_null=False,
                        contains_nan=False,
                        lower_bound=bound,
                        upper_bound=bound,
                    ),
                ),
            )
        )
    list_path = directory / "metadata" / f"snap-{SNAPSHOT_ID}.avro"
    list_path.write_bytes(list_of(described, SNAPSHOT_ID, 1))
    metadata = TableMetadata(
        2,
        "9c12d441-03fe-4693-9a96-a0705ddf69c1",
        location,
        1,
        1_750_000_000_000,
        STATS_COLUMNS,
        (SCHEMA,),
        0,
        (spec,),
        0,
        1000,
        (SortOrder(0, ()),),
        0,
        {},
        SNAPSHOT_ID,
        (
            Snapshot(
                SNAPSHOT_ID,
                1_750_000_000_000,
                sequence_number=1,
                manifest_list=f"{location}/metadata/{list_path.name}",
                summary={"operation": "append"},
                schema_id=0,
            ),
        ),
        {"main": SnapshotRef(SNAPSHOT_ID, "branch")},
    )
    (directory / "metadata" / "v1.metadata.json").write_bytes(
        write_metadata(metadata, compressed=False)
    )
    return paths
