"""Tables to compact, with real rows: the same for icectl and for every peer it is compared with.

Data files are written with pyarrow, eight columns as hard to compress as real ones; metadata with
the project's writer. A table of version 2 lies in a directory and has one snapshot, or a second one
with deletes.
"""

import itertools
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from icectl.entries.rows import CARRIED, PLANNING
from icectl.files.metadata_file import write_metadata
from icectl.files.parquet.metrics import read_metrics
from icectl.files.parquet.schema import schema_from_arrow
from icectl.format.manifest import Content, FileFormat, ManifestContent, ManifestFile, Status
from icectl.format.metadata import TableMetadata
from icectl.format.partition import PartitionSpec
from icectl.format.schema import Schema
from icectl.format.snapshot import Snapshot, SnapshotRef
from icectl.format.sort import SortOrder
from tests.builders.plain_manifests import list_of, manifest_of

START_MS = 1_750_000_000_000
UUID = "9c12d441-03fe-4693-9a96-a0705ddf69c1"
MAPS = (
    "column_sizes", "value_counts", "null_value_counts", "nan_value_counts", "lower_bounds",
    "upper_bounds",
)  # fmt: skip


def fields(*names_and_kinds: tuple[str, pa.DataType, int]) -> pa.Schema:
    """An Arrow schema with field ids."""
    return pa.schema(
        [
            pa.field(name, kind, metadata={"PARQUET:field_id": str(number)})
            for name, kind, number in names_and_kinds
        ]
    )


SCHEMA = fields(
    ("id", pa.int64(), 1),
    ("user_id", pa.int64(), 2),
    ("amount", pa.float64(), 3),
    ("price", pa.float64(), 4),
    ("at", pa.timestamp("us", "UTC"), 5),
    ("category", pa.string(), 6),
    ("name", pa.string(), 7),
    ("flag", pa.int32(), 8),
)
POSITIONS = fields(("file_path", pa.string(), 2_147_483_546), ("pos", pa.int64(), 2_147_483_545))
COLUMNS = schema_from_arrow(SCHEMA)
KEY = Schema(0, COLUMNS.fields[:1])
FIRST_TIME_US = 1_700_000_000_000_000


def write_file(
    path: Path,
    first: int,
    row_count: int,
    width: int = 0,
    row_groups: int = 1,
    seconds: int = 10**6,
) -> Path:
    """A data file of rows with consecutive ids, in row groups of the same size.

    With a width names have it, and 16 of them come again and again. Times are within so many
    seconds.
    """
    chance = np.random.default_rng(first)
    categories = chance.integers(0, 5_000, row_count)
    columns = [
        np.arange(first, first + row_count),
        chance.integers(0, 2_000_000, row_count),
        chance.normal(100, 30, row_count),
        chance.random(row_count),
        pa.array(FIRST_TIME_US + chance.integers(0, seconds * 10**6, row_count), SCHEMA.types[4]),
        [f"city-{number:05}" for number in categories],
        [f"name-{number:08x}" for number in chance.integers(0, 2**32, row_count)]
        if not width
        else [f"{number % 16:x}" * width for number in range(row_count)],
        chance.integers(0, 100, row_count).astype(np.int32),
    ]
    table = pa.Table.from_arrays([pa.array(column) for column in columns], schema=SCHEMA)
    pq.write_table(table, path, compression="zstd", row_group_size=-(-row_count // row_groups))
    return path


def write_positions(path: Path, data_file: str, row_count: int, deleted: int) -> Path:
    """A position delete file that deletes some rows of one data file."""
    chance = np.random.default_rng(row_count)
    positions = np.sort(chance.choice(row_count, deleted, replace=False))
    table = pa.Table.from_arrays([pa.array([data_file] * deleted), positions], schema=POSITIONS)
    pq.write_table(table, path, compression="zstd")
    return path


def write_keys(path: Path, number: int, largest: int, count: int) -> Path:
    """An equality delete file that deletes some ids."""
    ids = np.random.default_rng(number).integers(0, largest, count)
    pq.write_table(pa.Table.from_arrays([ids], schema=pa.schema([SCHEMA[0]])), path)
    return path


def build(
    directory: Path,
    file_count: int,
    rows_a_file: int,
    *,
    deleted_a_file: int = 0,
    equality_files: int = 0,
    times: int = 1,
    width: int = 0,
    row_groups: int = 1,
    seconds: int = 10**6,
    location: str = "",
) -> list[Path]:
    """Write a table; the paths of its data files, each of which is there so many times.

    Its metadata says that it lies at `location`, where one is given.

    `deleted_a_file` rows of each data file are deleted by a position delete file of its own, and
    500 ids by each of `equality_files`.
    """
    (directory / "data").mkdir(parents=True)
    (directory / "metadata").mkdir()
    names = [f"{number:05}" for number in range(file_count)]
    paths = [directory / "data" / f"{name}.parquet" for name in names]
    with ProcessPoolExecutor(2) as pool:
        firsts = [number * rows_a_file for number in range(file_count)]
        others = ([value] * file_count for value in (rows_a_file, width, row_groups, seconds))
        list(pool.map(write_file, paths, firsts, *others, chunksize=16))
    for number in range(1, times):
        for path in paths[:file_count]:
            copied = path.with_name(f"{path.stem}-{number}.parquet")
            copied.hardlink_to(path)
            paths.append(copied)

    def place(path: Path) -> str:
        return str(path).replace(str(directory), location or str(directory))

    commits = [[file_entry(path, COLUMNS, Content.DATA) for path in paths]]
    deletes = []
    if deleted_a_file:
        for path in paths:
            made = write_positions(
                path.with_name(f"{path.stem}-deletes.parquet"), place(path), rows_a_file,
                deleted_a_file,
            )  # fmt: skip
            entry = file_entry(made, Schema(0, ()), Content.POSITION_DELETES)
            deletes.append(entry | {"referenced_data_file": place(path)})
    for number in range(equality_files):
        made = directory / "data" / f"equality-{number:05}.parquet"
        write_keys(made, number, file_count * rows_a_file, 500)
        deletes.append(file_entry(made, KEY, Content.EQUALITY_DELETES) | {"equality_ids": [1]})
    every = [*commits, deletes] if deletes else commits
    if location:
        for entry in itertools.chain(*every):
            entry["location"] = entry["location"].replace(str(directory), location)
    commit(directory, every, location or str(directory))
    return paths


def adopt(
    directory: Path, paths: Sequence[Path], location: str = "", columns: Schema = COLUMNS
) -> list[Path]:
    """A table in a directory of its own with the same data files of some columns, as links.

    Its metadata says that it lies at `location`, where one is given.
    """
    (directory / "data").mkdir(parents=True)
    (directory / "metadata").mkdir()
    linked = [directory / "data" / path.name for path in paths]
    for path, link in zip(paths, linked, strict=True):
        link.hardlink_to(path)
    entries = [file_entry(path, columns, Content.DATA) for path in linked]
    for entry in entries if location else ():
        entry["location"] = entry["location"].replace(str(directory), location)
    commit(directory, [entries], location or str(directory), columns)
    return linked


def file_entry(path: Path, schema: Schema, content: Content) -> dict[str, Any]:
    """The entry of a file, with the metrics of some columns."""
    with path.open("rb") as file:
        metrics = read_metrics(file, schema)
    return {
        "content": int(content),
        "status": int(Status.ADDED),
        "location": str(path),
        "file_format": int(FileFormat.PARQUET),
        "spec_id": 0,
        "partition_key": b"",
        "record_count": metrics.record_count,
        "file_size_in_bytes": path.stat().st_size,
        "split_offsets": list(metrics.split_offsets),
        **{name: sorted(getattr(metrics, name).items()) for name in MAPS},
    }


def commit(
    directory: Path,
    commits: Sequence[Sequence[dict[str, Any]]],
    location: str,
    columns: Schema = COLUMNS,
) -> None:
    """A snapshot for each of the commits, one upon the other."""
    manifests: list[ManifestFile] = []
    snapshots: list[Snapshot] = []
    # Spark's procedure that registers a table asks for these.
    rows = sum(entry["record_count"] for entry in commits[0])
    totals = {"total-data-files": str(len(commits[0])), "total-records": str(rows)}
    for number, added in enumerate(commits, 1):
        made = _manifest(directory, number, added, columns)
        manifests.append(replace(made, manifest_path=f"{location}/metadata/m{number}.avro"))
        path = directory / "metadata" / f"snap-{number}.avro"
        path.write_bytes(list_of(manifests, number, number, parent_snapshot_id=number - 1 or None))
        operation = "append" if number == 1 else "delete"
        snapshots.append(
            Snapshot(
                number,
                START_MS,
                parent_snapshot_id=number - 1 or None,
                sequence_number=number,
                manifest_list=f"{location}/metadata/snap-{number}.avro",
                summary={"operation": operation, **totals},
                schema_id=0,
            )
        )
    last = len(commits)
    last_column = max(columns.all_fields)
    metadata = TableMetadata(
        2, UUID, location, last, START_MS, last_column, (columns,), 0, (PartitionSpec(0, ()),), 0,
        999, (SortOrder(0, ()),), 0, {}, last, tuple(snapshots),
        {"main": SnapshotRef(last, "branch")},
    )  # fmt: skip
    newest = directory / "metadata" / "v1.metadata.json"
    newest.write_bytes(write_metadata(metadata, compressed=False))


def _manifest(
    directory: Path, number: int, added: Sequence[dict[str, Any]], columns: Schema
) -> ManifestFile:
    rows = [
        row | {"snapshot_id": number, "manifest": 0, "manifest_pos": at}
        for at, row in enumerate(added)
    ]
    table = pa.Table.from_pylist(rows, schema=pa.schema([*PLANNING, *CARRIED]))
    is_data = added[0]["content"] == Content.DATA
    content = ManifestContent.DATA if is_data else ManifestContent.DELETES
    written = manifest_of(table, columns, PartitionSpec(0, ()), content=content, snapshot_id=number)
    path = directory / "metadata" / f"m{number}.avro"
    path.write_bytes(written)
    row_count = sum(row["record_count"] for row in added)
    return ManifestFile(
        str(path), len(written), 0, content, number, number, number, len(added), 0, 0, row_count,
        0, 0, (),
    )  # fmt: skip
