"""Writing manifests: entries to Avro rows in blocks."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icectl.codec.avro import Block, encode_records, write_file
from icectl.codec.manifest_encode import encode_table
from icectl.codec.manifest_records import Encoded, encode_rows
from icectl.codec.manifest_scan import TALLY
from icectl.codec.manifest_schema import (
    BLOCK_SIZE_IN_BYTES,
    avro_name,
    entry_schema,
    partition_value,
)
from icectl.entries.partition_key import decode_key
from icectl.entries.rows import Entries, RawEntries
from icectl.spec.manifest import Content, FileFormat, ManifestContent, Status
from icectl.spec.partition import PartitionSpec, fields_json, result_types
from icectl.spec.schema import Schema, schema_json
from icectl.spec.types import Type

_WRITE_WEIGHT = 2
"""fastavro takes about this many times as long to write an entry as to read it."""

_BLOCK_BYTES = 64 * 2**10
"""Inflated bytes of a block, about what the reference implementation's writer makes."""


def write_manifest(  # noqa: PLR0913 - the parts of a file
    entries: RawEntries | Entries,
    *,
    schema: Schema,
    spec: PartitionSpec,
    format_version: int,
    content: ManifestContent,
    snapshot_id: int | None,
    codec: str = "deflate",
    sync_marker: bytes,
) -> bytes:
    """Write entries as a manifest; equal arguments give equal bytes.

    `entries` has every column. `snapshot_id` stands in where a row has none. ADDED rows inherit
    their file sequence number, so theirs is not stored (R-045).
    Order: that of the rows.
    Raises: ValueError where a row may not stand in such a manifest.
    """
    types = result_types(spec, [schema])
    avro_schema = entry_schema(spec, types, format_version)
    table = _stored_columns(entries.table, avro_schema, snapshot_id)
    _check(entries.table, table, format_version, content)
    keys = entries.table["partition_key"].combine_chunks().dictionary_encode()
    distinct = [_partition_record(key, spec, types) for key in keys.dictionary.to_pylist()]
    if TALLY.wants_scan(_WRITE_WEIGHT * len(entries)):
        stored = encode_records(_partition_schema(avro_schema), distinct)
        encoded = encode_table(table, avro_schema, pa.array(stored, pa.binary()).take(keys.indices))
    else:
        partitions = [distinct[at] for at in keys.indices.to_pylist()]
        encoded = encode_rows(table, avro_schema, partitions)
    metadata = _metadata(schema, spec, format_version, content)
    return write_file(avro_schema, metadata, _blocks(encoded), codec=codec, sync_marker=sync_marker)


def _partition_schema(avro_schema: Mapping[str, Any]) -> Mapping[str, Any]:
    data_file = avro_schema["fields"][-1]["type"]["fields"]
    found: Mapping[str, Any] = next(f["type"] for f in data_file if f["name"] == "partition")
    return found


def _metadata(
    schema: Schema, spec: PartitionSpec, format_version: int, content: ManifestContent
) -> dict[str, str]:
    metadata = {
        "schema": json.dumps(schema_json(schema), separators=(",", ":")),
        "schema-id": str(schema.schema_id),
        "partition-spec": json.dumps(fields_json(spec), separators=(",", ":")),
        "partition-spec-id": str(spec.spec_id),
        "format-version": str(format_version),
    }
    if format_version > 1:
        metadata["content"] = "deletes" if content == ManifestContent.DELETES else "data"
    return metadata


def _stored_columns(
    table: pa.Table, avro_schema: Mapping[str, Any], snapshot_id: int | None
) -> pa.Table:
    """The columns under their Avro names, as they are stored."""
    columns = {name: table[name] for name in table.column_names}
    columns["file_path"] = columns["location"]
    columns["file_format"] = _format_names(columns["file_format"])
    columns["block_size_in_bytes"] = pa.repeat(
        pa.scalar(BLOCK_SIZE_IN_BYTES, pa.int64()), table.num_rows
    )
    if snapshot_id is not None:
        columns["snapshot_id"] = pc.fill_null(columns["snapshot_id"], snapshot_id)
    added = pc.equal(columns["status"], Status.ADDED)
    columns["file_sequence_number"] = pc.if_else(
        added, pa.scalar(None, pa.int64()), columns["file_sequence_number"]
    )
    names = [
        field["name"]
        for field in (*avro_schema["fields"], *avro_schema["fields"][-1]["type"]["fields"])
        if field["name"] not in ("data_file", "partition")
    ]
    return pa.table({name: columns[name] for name in names})


def _format_names(codes: pa.ChunkedArray) -> pa.ChunkedArray:
    names = pa.array([format_.name for format_ in sorted(FileFormat)])
    return names.take(codes.combine_chunks())


def _check(
    entries: pa.Table, stored: pa.Table, format_version: int, content: ManifestContent
) -> None:
    if pc.any(pc.equal(entries["file_format"], FileFormat.UNKNOWN)).as_py():
        raise ValueError("an entry of an unknown file format")
    is_data = pc.equal(entries["content"], Content.DATA)
    wanted = is_data if content == ManifestContent.DATA else pc.invert(is_data)
    if not pc.all(wanted, min_count=0).as_py():
        raise ValueError("data and delete files in one manifest")
    if format_version == 1:
        if content != ManifestContent.DATA or stored["snapshot_id"].null_count:
            raise ValueError("a version 1 manifest of deletes or without snapshot ids")
        return
    carried = stored.filter(pc.not_equal(stored["status"], Status.ADDED))
    for name in ("snapshot_id", "sequence_number", "file_sequence_number"):
        if carried[name].null_count:
            raise ValueError(f"an EXISTING or DELETED entry without {name}")


def _partition_record(
    key: bytes, spec: PartitionSpec, types: Sequence[Type | None]
) -> dict[str, Any]:
    return {
        avro_name(field.name): partition_value(type_, value)
        for field, type_, value in zip(spec.fields, types, decode_key(key, types), strict=True)
    }


def _blocks(encoded: Iterable[Encoded]) -> Iterator[Block]:
    """Blocks of at least _BLOCK_BYTES, each of whole rows."""
    waiting, waiting_ends = b"", np.zeros(0, np.int64)
    for content, row_ends in encoded:
        ends = np.concatenate([waiting_ends, row_ends + len(waiting)])
        waiting += content
        start = first = 0
        while (last := int(np.searchsorted(ends, start + _BLOCK_BYTES))) < len(ends):
            end = int(ends[last])
            yield Block(last + 1 - first, waiting[start:end])
            start, first = end, last + 1
        waiting, waiting_ends = waiting[start:], ends[first:] - start
    if waiting:
        yield Block(len(waiting_ends), waiting)
