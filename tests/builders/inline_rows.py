"""Data frames that are tables of Arrow, written and looked through in this process."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa

from icectl.env import Env, SystemEnv
from icectl.files.metadata_file import write_metadata
from icectl.format.partition import PartitionField, PartitionSpec
from icectl.format.schema import Schema
from icectl.format.transforms import parse_transform
from icectl.format.types import FixedType, ListType, NestedField, PrimitiveType, Type
from icectl.rows.compact_job import OutputPlaces
from icectl.rows.find_job import FindJob, FoundRows, run_find
from icectl.rows.write_data import FileOutputs
from icectl.rows.write_job import WriteJob, run_write
from icectl.storage.store import Store
from icectl.table.context import TableContext
from icectl.table.rewrite_tasks import RewriteTask
from tests.builders.expiry import context_of
from tests.builders.plain_metadata import plain_metadata
from tests.builders.table_builder import TableBuilder, make_rows
from tests.builders.tree_table import upgrade

COLUMNS = pa.schema(
    [
        ("id", pa.int64()), ("category", pa.string()), ("amount", pa.decimal128(9, 2)),
        ("at", pa.timestamp("us")), ("note", pa.string()),
    ]
)  # fmt: skip
"""The columns of built tables as frames have them."""


def rows_of(ids: Sequence[int]) -> pa.Table:
    """Rows of built tables."""
    return pa.Table.from_pylist(make_rows(ids), COLUMNS)


def tree(directory: Path, partitioning: str = "none", **properties: str) -> Path:
    """An empty table of layout sfc-1."""
    named = {name.replace("__", ".").replace("_", "-"): text for name, text in properties.items()}
    TableBuilder(directory, 3, partitioning, named)
    upgrade(directory, SystemEnv(), "--lazy")
    return directory


TYPES: dict[str, Type] = {
    "id": PrimitiveType("long"),
    "u": PrimitiveType("uuid"),
    "f": FixedType(4),
    "t": PrimitiveType("time"),
    "ns": PrimitiveType("timestamp_ns"),
    "nz": PrimitiveType("timestamptz_ns"),
    "us": ListType(10, PrimitiveType("uuid"), element_required=False),
}
"""Columns of types that Spark does not have as they are."""


def typed_tree(directory: Path) -> Path:
    """An empty table of layout sfc-1 with the columns of TYPES, by buckets of its UUIDs."""
    fields = enumerate(TYPES.items(), 1)
    columns = tuple(NestedField(at, *item, required=at == 1) for at, item in fields)
    by_uuid = PartitionField((2,), 1000, "u_bucket", parse_transform("bucket[2]"))
    return _tree(directory, columns, (by_uuid,))


def variant_tree(directory: Path) -> Path:
    """An empty table of layout sfc-1 with variants, in a list too."""
    variant = PrimitiveType("variant")
    columns = (
        NestedField(1, "id", PrimitiveType("long"), required=True),
        NestedField(2, "v", variant, required=False),
        NestedField(3, "many", ListType(4, variant, element_required=False), required=False),
    )
    return _tree(directory, columns, ())


def _tree(
    directory: Path, columns: tuple[NestedField, ...], partitions: tuple[PartitionField, ...]
) -> Path:
    metadata = plain_metadata(
        Schema(0, columns),
        PartitionSpec(0, partitions),
        format_version=3,
        table_uuid="9c12d441-03fe-4693-9a96-a0705ddf69c1",
        location=str(directory),
        last_column_id=10,
        next_row_id=0,
    )
    (directory / "metadata").mkdir(parents=True)
    written = write_metadata(metadata, compressed=False)
    (directory / "metadata/v1.metadata.json").write_bytes(written)
    upgrade(directory, SystemEnv(), "--lazy")
    return directory


@dataclass
class InlineFrame:
    """Rows that are written by so many tasks; `during` comes when they are written."""

    rows: pa.Table
    store: Store
    tasks: int = 1
    during: Callable[[], object] = lambda: None

    @property
    def schema(self) -> pa.Schema:
        return self.rows.schema

    def write(self, job: WriteJob, places: OutputPlaces, *, by_partition: bool) -> pa.Table:
        made = []
        for task in range(self.tasks):
            numbers = count(1)

            def next_location(partition: str, task: int = task, numbers: Any = numbers) -> str:
                place = places.names.location(0, task, partition, next(numbers))
                places.record([place])
                return place

            outputs = FileOutputs(next_location, self.store.open_new, self.store.open)
            part = self.rows.take(pa.array(range(task, len(self.rows), self.tasks), pa.int64()))
            made.append(run_write(iter(part.combine_chunks().to_batches()), job, outputs))
        self.during()
        return pa.concat_tables(made)


@dataclass
class InlineFinder:
    """Looks through files; `during` comes when it has, `looked` are those that it looked at."""

    store: Store
    during: Callable[[], object] = lambda: None
    looked: list[str] = field(default_factory=list)

    def find(self, tasks: Sequence[RewriteTask], job: FindJob) -> list[FoundRows]:
        outputs = FileOutputs.without_places(self.store)
        found = [one for task in tasks for one in run_find(task, job, outputs)]
        self.looked += [file.location for task in tasks for file in task.inputs]
        self.during()
        return found


def way_to(directory: Path, store: Store | None = None, env: Env | None = None) -> TableContext:
    """The way to a table, by the clock of this machine."""
    return context_of(directory, store, env or SystemEnv())
