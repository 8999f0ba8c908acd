"""Tables partitioned by a column of type fixed, with manifests as Iceberg 1.12 for Java has them.

The Avro schema of their partitions says fixed, and there is a length before each value, as there is
before bytes. Everything but the schema is written by fastavro and pyarrow here, as bytes.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.builders.avro import other_schema
from tests.builders.broken import Broken, Record, read_records, rewrite_avro
from tests.builders.rows import Row, current_metadata, read_metadata, read_rows

_FIXED = {"type": "fixed", "name": "fixed_2", "size": 2}


def as_java_writes_fixed(directory: Path) -> list[Row]:
    """Make `category` of a built table, partitioned by it, a fixed[2]; its current rows."""
    table = Broken(directory)
    table.edit(_of_type_fixed)
    sizes = {
        str(path): _with_fixed(path)
        for path in directory.rglob("*.parquet")
        if "category" in pq.read_schema(path).names
    }
    for path in manifests(directory):
        rewrite_avro(
            path,
            lambda found: _as_bytes(found, sizes),
            schema=_of("string", "bytes"),
            header=_says_fixed,
        )
    rows = read_rows(read_metadata(current_metadata(directory)))
    for path in manifests(directory):
        path.write_bytes(other_schema(path.read_bytes(), _of("bytes", _FIXED)))
    lengths = {str(path): path.stat().st_size for path in manifests(directory)}
    table.edit_lists(lambda row: row.update({"manifest_length": lengths[row["manifest_path"]]}))
    return rows


def manifests(directory: Path) -> list[Path]:
    """The manifests of a built table, of all of its snapshots."""
    listed = {
        row["manifest_path"] for one in Broken(directory).lists() for row in read_records(one)
    }
    return sorted(map(Path, listed))


def _of(old: Any, new: Any) -> Callable[[Any], None]:
    """A change of a manifest's schema: the type of its partition field."""

    def change(schema: Any) -> None:
        (file,) = (one["type"] for one in schema["fields"] if one["name"] == "data_file")
        (partition,) = (one["type"] for one in file["fields"] if one["name"] == "partition")
        for one in partition["fields"]:
            assert one["type"] == ["null", old]
            one["type"] = ["null", new]

    return change


def _of_type_fixed(members: Record) -> None:
    for snapshot in members["snapshots"]:
        for name in ("added-files-size", "total-files-size"):  # the files are written anew
            snapshot["summary"].pop(name, None)
    for schema in [*members["schemas"], *([members["schema"]] if "schema" in members else [])]:
        _category_fixed(schema)


def _says_fixed(header: dict[str, str]) -> None:
    """Change a manifest's copy of the schema as the table's."""
    schema = json.loads(header["schema"])
    _category_fixed(schema)
    header["schema"] = json.dumps(schema)


def _category_fixed(schema: Record) -> None:
    for one in schema["fields"]:
        if one["name"] == "category":
            one["type"] = "fixed[2]"


def _with_fixed(path: Path) -> int:
    """Write a data file anew with a fixed category; its size."""
    rows = pq.read_table(path)
    at = rows.schema.get_field_index("category")
    field = rows.schema.field(at)
    column = rows["category"].cast(pa.binary()).cast(pa.binary(2))
    pq.write_table(rows.set_column(at, field.with_type(pa.binary(2)), column), path)
    return path.stat().st_size


def _as_bytes(entries: list[Record], sizes: dict[str, int]) -> list[Record]:
    for entry in entries:
        file = entry["data_file"]
        file["partition"]["category"] = file["partition"]["category"].encode()
        file["file_size_in_bytes"] = sizes.get(file["file_path"], file["file_size_in_bytes"])
    return entries
