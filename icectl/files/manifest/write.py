"""Writing manifests: entries to Avro rows in blocks."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icectl.entries.partition_key import decode_key
from icectl.entries.rows import Entries, RawEntries, format_names
from icectl.errors import CorruptTable, Unsupported
from icectl.files import compiled
from icectl.files.avro import scan as avro_scan
from icectl.files.avro.container import Block, encode_records, write_file
from icectl.files.avro.schema import parse_schema
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

_ROWS = 8192
_LONGEST_NUMBER = 10
BLOCK_BYTES = 64 * 2**10
"""Inflated bytes of a block, about what the reference implementation's writer makes."""


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
        return tuple(result_types(self.spec, [self.schema]))

    @cached_property
    def avro_schema(self) -> Mapping[str, Any]:
        return entry_schema(self.spec, self.types, self.format_version)

    @cached_property
    def column_positions(self) -> ManifestLayout:
        return find_layout(parse_schema(self.avro_schema))

    @property
    def properties(self) -> Mapping[str, str]:
        """The key-value metadata (R-060)."""
        metadata = {
            "schema": json.dumps(schema_json(self.schema), separators=(",", ":")),
            "schema-id": str(self.schema.schema_id),
            "partition-spec": json.dumps(fields_json(self.spec), separators=(",", ":")),
            "partition-spec-id": str(self.spec.spec_id),
            "format-version": str(self.format_version),
        }
        if self.format_version > 1:
            is_data = self.content == ManifestContent.DATA
            metadata["content"] = "data" if is_data else "deletes"
        return metadata


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
        form.avro_schema, form.properties, blocks(encoded), codec=codec, sync_marker=sync_marker
    )


def encode_entries(
    entries: RawEntries | Entries, form: ManifestForm, snapshot_id: int | None = None
) -> Iterator[Encoded]:
    """Encode entries, which have every column, some thousand at a time.

    Order: that of the rows.
    Raises: ValueError where a row may not stand in such a manifest; CorruptTable R-068 where its
    partition is not of the spec's types; Unsupported for a file of an unknown format, or a
    partition value of an unknown type.
    """
    table = _stored_columns(entries.table, form.avro_schema, snapshot_id)
    _check(entries.table, table, form.format_version, form.content)
    keys = entries.table["partition_key"].combine_chunks().dictionary_encode()
    distinct = [_partition_record(key, form) for key in keys.dictionary.to_pylist()]
    if compiled.loops() is not None:
        data_file = form.avro_schema["fields"][-1]["type"]["fields"]
        partition = next(field["type"] for field in data_file if field["name"] == "partition")
        stored = encode_records(partition, distinct)
        partitions = pa.array(stored, pa.binary()).take(keys.indices)
        return encode_table(table, form.avro_schema, partitions)
    return encode_rows(table, form.avro_schema, [distinct[at] for at in keys.indices.to_pylist()])


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


def _check(
    entries: pa.Table, stored: pa.Table, format_version: int, content: ManifestContent
) -> None:
    if pc.any(pc.equal(entries["file_format"], FileFormat.UNKNOWN)).as_py():
        raise Unsupported(
            "a manifest has files of a format that icectl does not know",
            hint="maintain it with the engine that wrote it",
        )
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


def encode_table(
    table: pa.Table, schema: Mapping[str, Any], partitions: pa.Array
) -> Iterator[Encoded]:
    """Encode rows, some thousand at a time, by Avro names, with their encoded partitions."""
    fields = _fields(schema)
    for start in range(0, table.num_rows, _ROWS):
        part = table.slice(start, _ROWS)
        arrays = {name: part[name].combine_chunks() for name in part.column_names}
        arrays["partition"] = partitions.slice(start, _ROWS)
        yield _encode(fields, arrays, part.num_rows)


def _fields(schema: Mapping[str, Any]) -> list[tuple[str, bool]]:
    """Return names of the stored columns in order, and whether each is a union with null."""
    fields: list[tuple[str, bool]] = []
    for field in schema["fields"]:
        if field["name"] == "data_file":
            fields += _fields(field["type"])
        else:
            fields.append((field["name"], isinstance(field["type"], list)))
    return fields


def _encode(
    fields: Sequence[tuple[str, bool]], arrays: Mapping[str, pa.Array], row_count: int
) -> Encoded:
    """Encode rows, in memory that is free for the next ones before they are asked for."""
    columns = _Columns(row_count)
    for name, is_optional in fields:
        columns.add(arrays[name], is_optional=is_optional, is_raw=name == "partition")
    row_ends = np.zeros(row_count, np.int64)
    output = np.empty(columns.largest_size(), np.uint8)
    used = avro_scan.encode(*(*columns.arguments(), output, row_ends))
    return output[:used].tobytes(), row_ends


class _Columns:
    def __init__(self, row_count: int) -> None:
        self._rows = row_count
        self._steps: list[list[int]] = []
        self._valid: list[Any] = []
        self._numbers: list[Any] = []
        self._text_offsets: list[Any] = []
        self._list_offsets: list[Any] = []
        self._keys = _Joined(np.int32)
        self._items = _Joined(np.int64)
        self._item_offsets = _Joined(np.int64)
        self._texts = _Joined(np.uint8)

    def add(self, array: pa.Array, *, is_optional: bool, is_raw: bool) -> None:
        valid = -1
        if is_optional:
            valid = len(self._valid)
            self._valid.append(array.is_valid().to_numpy(zero_copy_only=False))
        elif array.null_count:
            raise ValueError("a required field is null")
        if pa.types.is_integer(array.type):
            self._steps.append([avro_scan.NUMBER, len(self._numbers), 0, 0, valid])
            self._numbers.append(array.fill_null(0).to_numpy(zero_copy_only=False))
        elif pa.types.is_string(array.type) or pa.types.is_binary(array.type):
            op = avro_scan.RAW if is_raw else avro_scan.BYTES
            self._steps.append([op, len(self._text_offsets), 0, 0, valid])
            self._text_offsets.append(self._add_texts(array))
        else:
            self._add_items(array, valid)

    def _add_texts(self, array: pa.Array) -> Any:
        """Append the bytes of texts; returns their offsets there."""
        _, offsets, content = array.buffers()
        count = len(array)
        if not count or offsets is None:
            return np.zeros(count + 1, np.int64)
        ends = np.frombuffer(offsets, np.int32)[array.offset : array.offset + count + 1]
        ends = ends.astype(np.int64)
        stored = np.frombuffer(content, np.uint8) if content else np.zeros(0, np.uint8)
        start = self._texts.add(stored[ends[0] : ends[-1]])
        return ends - ends[0] + start

    def _add_items(self, array: pa.Array, valid: int) -> None:
        is_map = pa.types.is_map(array.type)
        offsets = array.offsets.to_numpy().astype(np.int64)
        start, stop = int(offsets[0]), int(offsets[-1])
        values = (array.items if is_map else array.values).slice(start, stop - start)
        if values.null_count:
            raise ValueError("an item of a map or list is null")
        key = 0
        if is_map:
            keys = array.keys.slice(start, stop - start)
            key = self._keys.add(keys.to_numpy(zero_copy_only=False))
        if pa.types.is_integer(values.type):
            op = avro_scan.NUMBER_PAIRS if is_map else avro_scan.NUMBERS
            item = self._items.add(values.to_numpy(zero_copy_only=False))
        else:
            op = avro_scan.BYTES_PAIRS
            item = self._item_offsets.add(self._add_texts(values))
        self._steps.append([op, len(self._list_offsets), key, item, valid])
        self._list_offsets.append(offsets - start)

    def arguments(self) -> tuple[Any, ...]:
        """Everything that the encoder reads, in its order."""
        return (
            np.array(self._steps, np.int64),
            self._table(self._valid, np.uint8, self._rows),
            self._table(self._numbers, np.int64, self._rows),
            self._table(self._text_offsets, np.int64, self._rows + 1),
            self._table(self._list_offsets, np.int64, self._rows + 1),
            *(joined.array() for joined in (self._keys, self._items, self._item_offsets)),
            self._texts.array(),
        )

    def largest_size(self) -> int:
        """Return bytes that the encoded rows take at most."""
        per_row = (_LONGEST_NUMBER + 2) * len(self._steps)
        item_count = self._keys.size + self._items.size + self._item_offsets.size
        return self._rows * per_row + item_count * _LONGEST_NUMBER + self._texts.size

    @staticmethod
    def _table(rows: Sequence[Any], type_: Any, width: int) -> Any:
        return np.array(rows, type_).reshape(len(rows), width)


class _Joined:
    """Arrays one behind the other."""

    def __init__(self, type_: Any) -> None:
        self._type = type_
        self._parts: list[Any] = []
        self.size = 0

    def add(self, part: Any) -> int:
        """Append an array; returns where it starts."""
        start = self.size
        self._parts.append(part)
        self.size += len(part)
        return start

    def array(self) -> Any:
        return np.concatenate([np.zeros(0, self._type), *self._parts]).astype(self._type)
