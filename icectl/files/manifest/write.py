"""Writing manifests: entries to Avro rows in blocks."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icectl.entries.partition.key import decode_key
from icectl.entries.rows import Entries, RawEntries
from icectl.errors import CorruptTable
from icectl.files import compiled
from icectl.files.avro.container import Block, encode_records, write_file
from icectl.files.avro.schema import parse_schema
from icectl.files.manifest.encode import encode_table
from icectl.files.manifest.layout import ManifestLayout, find_layout
from icectl.files.manifest.records import Encoded, encode_rows
from icectl.files.manifest.schema import (
    BLOCK_SIZE_IN_BYTES,
    avro_name,
    entry_schema,
    partition_value,
)
from icectl.format.manifest import Content, FileFormat, ManifestContent, Status
from icectl.format.partition import PartitionSpec, fields_json, result_types
from icectl.format.schema import Schema, schema_json
from icectl.format.types import Type

BLOCK_BYTES = 64 * 2**10
"""Inflated bytes of a block, about what the reference implementation's writer makes."""


def write_manifest(
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
    Raises: as encode_entries.
    """
    form = ManifestForm(schema, spec, format_version, content)
    encoded = encode_entries(entries, form, snapshot_id)
    return write_file(
        form.avro_schema,
        form.properties,
        blocks(encoded),
        codec=codec,
        sync_marker=sync_marker,
    )


@dataclass(frozen=True)
class ManifestForm:
    """The form that manifests of one schema, spec, format version and content have in common.

    `table_location` completes relative locations in tables of version 4; empty in older ones.
    """

    schema: Schema
    spec: PartitionSpec
    format_version: int
    content: ManifestContent
    file_format: FileFormat = FileFormat.AVRO
    table_location: str = ""

    @cached_property
    def types(self) -> tuple[Type | None, ...]:
        """The types of the partition fields."""
        return tuple(result_types(self.spec, [self.schema]))

    @cached_property
    def avro_schema(self) -> Mapping[str, Any]:
        """The Avro schema of entries."""
        return entry_schema(self.spec, self.types, self.format_version)

    @cached_property
    def layout(self) -> ManifestLayout:
        """The places of the columns in the Avro schema."""
        return find_layout(parse_schema(self.avro_schema))

    @property
    def properties(self) -> Mapping[str, str]:
        """The key-value metadata (R-060)."""
        return _metadata(self.schema, self.spec, self.format_version, self.content)


def encode_entries(
    entries: RawEntries | Entries, form: ManifestForm, snapshot_id: int | None = None
) -> Iterator[Encoded]:
    """Encode entries, which have every column, some thousand at a time.

    Order: that of the rows.
    Raises: ValueError where a row may not stand in such a manifest; CorruptTable R-068 where its
    partition is not of the spec's types.
    """
    table = _stored_columns(entries.table, form.avro_schema, snapshot_id)
    _check(entries.table, table, form.format_version, form.content)
    keys = entries.table["partition_key"].combine_chunks().dictionary_encode()
    distinct = [_partition_record(key, form) for key in keys.dictionary.to_pylist()]
    if compiled.loops() is not None:
        stored = encode_records(_partition_schema(form.avro_schema), distinct)
        partitions = pa.array(stored, pa.binary()).take(keys.indices)
        return encode_table(table, form.avro_schema, partitions)
    return encode_rows(table, form.avro_schema, [distinct[at] for at in keys.indices.to_pylist()])


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
    """Return the columns under their Avro names, as they are stored."""
    columns = {name: table[name] for name in table.column_names}
    columns["file_path"] = columns["location"]
    columns["file_format"] = format_names(columns["file_format"])
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


def format_names(codes: pa.ChunkedArray) -> pa.ChunkedArray:
    """Name the file formats of entries, as manifests do. Order: kept."""
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


def _partition_record(key: bytes, form: ManifestForm) -> dict[str, Any]:
    values = decode_key(key, form.types)
    try:
        return {
            avro_name(field.name): partition_value(type_, value)
            for field, type_, value in zip(form.spec.fields, form.types, values, strict=True)
        }
    except OverflowError as error:
        message = "a partition value has more digits than its field's type"
        raise CorruptTable(message, rule="R-068") from error


def blocks(encoded: Iterable[Encoded]) -> Iterator[Block]:
    """Blocks of at least BLOCK_BYTES, each of whole rows."""
    waiting, waiting_ends = b"", np.zeros(0, np.int64)
    for content, row_ends in encoded:
        ends = np.concatenate([waiting_ends, row_ends + len(waiting)])
        waiting += content
        start = first = 0
        while (last := int(np.searchsorted(ends, start + BLOCK_BYTES))) < len(ends):
            end = int(ends[last])
            yield Block(last + 1 - first, waiting[start:end])
            start, first = end, last + 1
        waiting, waiting_ends = waiting[start:], ends[first:] - start
    if waiting:
        yield Block(len(waiting_ends), waiting)
