"""Avro manifests by hand: any schema, through fastavro, and raw bytes."""

import io
import json
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from typing import Any

import fastavro

SYNC = b"icectl-test-sync"


def field(name: str, type_: Any, field_id: int | None, *, optional: bool = False) -> dict[str, Any]:
    """One Avro field with its Iceberg id."""
    made: dict[str, Any] = {"name": name, "type": ["null", type_] if optional else type_}
    return made if field_id is None else made | {"field-id": field_id}


def pairs(key_id: int, value_id: int, value: str) -> dict[str, Any]:
    """An Avro array of keys and values, as metrics are stored."""
    fields = [field("key", "int", key_id), field("value", value, value_id)]
    item = {"type": "record", "name": f"k{key_id}_v{value_id}", "fields": fields}
    return {"type": "array", "logicalType": "map", "items": item}


PARTITION = [field("p", "int", 1000, optional=True)]


def entry_schema(
    data_file: Sequence[Mapping[str, Any]] = (),
    entry: Sequence[Mapping[str, Any]] = (),
    without: Sequence[str] = (),
    partition: Sequence[Mapping[str, Any]] = PARTITION,
) -> dict[str, Any]:
    """A version 2 entry of required fields, and the fields given."""
    fields = [
        field("content", "int", 134),
        field("file_path", "string", 100),
        field("file_format", "string", 101),
        field("partition", {"type": "record", "name": "r102", "fields": list(partition)}, 102),
        field("record_count", "long", 103),
        field("file_size_in_bytes", "long", 104),
        *data_file,
    ]
    fields = [one for one in fields if one["name"] not in without]
    top = [
        field("status", "int", 0),
        field("snapshot_id", "long", 1, optional=True),
        *entry,
        field("data_file", {"type": "record", "name": "r2", "fields": fields}, 2),
    ]
    top = [one for one in top if one["name"] not in without]
    return deepcopy({"type": "record", "name": "manifest_entry", "fields": top})


def entry(number: int = 1, **values: Any) -> dict[str, Any]:
    """An entry of that schema; `values` replace members of data_file, or of the entry."""
    made: dict[str, Any] = {"status": 1, "snapshot_id": None}
    data_file = {
        "content": 0, "file_path": f"s3://b/{number}.parquet", "file_format": "PARQUET",
        "partition": {"p": number}, "record_count": number, "file_size_in_bytes": 10 * number,
    }  # fmt: skip
    for name, value in values.items():
        (made if name in ("status", "snapshot_id", "sequence_number") else data_file)[name] = value
    return made | {"data_file": data_file}


def file(
    writer_schema: Mapping[str, Any],
    records: Sequence[Mapping[str, Any]],
    codec: str = "null",
    /,
    **metadata: str,
) -> bytes:
    """A container file by fastavro."""
    stream = io.BytesIO()
    keys = {name.replace("_", "-"): value for name, value in metadata.items()}
    fastavro.writer(stream, dict(writer_schema), records, codec, metadata=keys, sync_marker=SYNC)
    return stream.getvalue()


def raw_file(
    schema: Mapping[str, Any],
    blocks: Sequence[tuple[int, bytes]],
    metadata: Mapping[str, str] | None = None,
) -> bytes:
    """A container file of blocks given as (record count, bytes)."""
    head = {"avro.schema": json.dumps(schema), "avro.codec": "null", **(metadata or {})}
    content = b"Obj\x01" + number(len(head))
    for key, value in head.items():
        content += number(len(key)) + key.encode() + number(len(value)) + value.encode()
    content += b"\0" + SYNC
    for count, block in blocks:
        content += number(count) + number(len(block)) + block + SYNC
    return content


def other_schema(content: bytes, change: Callable[[Any], None]) -> bytes:
    """A container file of the same blocks under another schema."""
    reader = fastavro.reader(io.BytesIO(content))
    schema = json.loads(reader.metadata["avro.schema"])
    change(schema)
    header = {**reader.metadata, "avro.schema": json.dumps(schema)}
    sync = content[-16:]
    made = b"Obj\x01" + number(len(header))
    for text in (part.encode() for pair in header.items() for part in pair):
        made += number(len(text)) + text
    return made + b"\0" + content[content.index(sync) :]


def number(value: int) -> bytes:
    """A zigzag varint."""
    left = value << 1 if value >= 0 else (-value << 1) - 1
    made = b""
    while left >= 128:
        made += bytes([left & 127 | 128])
        left >>= 7
    return made + bytes([left])


def text(value: bytes) -> bytes:
    """Length and bytes."""
    return number(len(value)) + value
