"""Entries tables from a few named values; everything not named has a plain default."""

from typing import Any

import pyarrow as pa

from icectl.entries.rows import CARRIED, PLANNING, Entries
from icectl.format.manifest import Content, FileFormat, Status

DEFAULTS: dict[str, Any] = {
    "content": Content.DATA, "status": Status.ADDED, "file_format": FileFormat.PARQUET,
    "spec_id": 0, "partition_key": b"", "record_count": 10, "file_size_in_bytes": 1000,
    "snapshot_id": 1, "sequence_number": 1, "file_sequence_number": 1, "manifest": 0,
}  # fmt: skip


def key(value: str) -> bytes:
    """The partition key of a spec with one string field."""
    content = value.encode()
    return b"\x01" + len(content).to_bytes(4, "little") + content


def data(location: str, **values: Any) -> dict[str, Any]:
    return {"location": location, **values}


def positions(location: str, **values: Any) -> dict[str, Any]:
    return {"location": location, "content": Content.POSITION_DELETES, **values}


def equality(location: str, **values: Any) -> dict[str, Any]:
    return {"location": location, "content": Content.EQUALITY_DELETES, **values}


def vector(location: str, data_file: str, **values: Any) -> dict[str, Any]:
    return {
        "location": location, "content": Content.POSITION_DELETES,
        "file_format": FileFormat.PUFFIN, "referenced_data_file": data_file, "content_offset": 4,
        "content_size_in_bytes": 40, **values,
    }  # fmt: skip


def entries(*rows: dict[str, Any]) -> Entries:
    """One row per argument, `manifest_pos` counting up within its manifest."""
    places: dict[int, int] = {}
    completed = []
    for row in rows:
        full = DEFAULTS | row
        manifest = full["manifest"]
        places[manifest] = places.get(manifest, -1) + 1
        completed.append({"manifest_pos": places[manifest]} | full)
    return Entries(pa.Table.from_pylist(completed, schema=pa.schema([*PLANNING, *CARRIED])))


def named(part: Entries) -> list[str]:
    """The locations of the rows, in order."""
    return part.table["location"].to_pylist()
