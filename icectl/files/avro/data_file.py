"""Avro data files in batches of a few blocks, and their writer schemas in the terms of Arrow."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from io import SEEK_END
from typing import IO, Any

import pyarrow as pa

from icectl.errors import CorruptTable
from icectl.files.arrow_failures import damaged_data_file, reading_data_file, unsupported_data_file
from icectl.files.avro.container import (
    AvroFile,
    Block,
    decode_fields,
    in_parts,
    inflate_block,
    read_header,
    read_long,
)
from icectl.files.avro.schema import AvroField, AvroType
from icectl.files.data_rows import LARGEST_BATCH_ROWS, FileRows, chosen, typed_batch
from icectl.files.parquet.metrics import FileMetrics
from icectl.files.parquet.schema import FIELD_ID, NameMapping, schema_with_ids
from icectl.format.json_members import parse_json
from icectl.format.rule import RESTORE
from icectl.format.schema import Schema

_PRIMITIVES: dict[str, pa.DataType] = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
    "enum": pa.string(),
}
_LOGICAL: dict[tuple[str, str], pa.DataType] = {
    ("int", "date"): pa.date32(),
    ("int", "time-millis"): pa.time32("ms"),
    ("long", "time-micros"): pa.time64("us"),
    ("long", "timestamp-millis"): pa.timestamp("ms"),
    ("long", "timestamp-micros"): pa.timestamp("us"),
    ("long", "timestamp-nanos"): pa.timestamp("ns"),
    ("long", "local-timestamp-millis"): pa.timestamp("ms"),
    ("long", "local-timestamp-micros"): pa.timestamp("us"),
    ("long", "local-timestamp-nanos"): pa.timestamp("ns"),
}
_KIND = "Avro"
_HEADER_BYTES = 2**16
_LARGEST_HEADER = 2**24
_SYNC_SIZE = 16
_LONGEST_NUMBERS = 20
"""Bytes of the two numbers before a block, at most."""

_BATCH_BYTES = 4 * 2**20
"""Inflated bytes of blocks that are decoded together; writers end a block at some 64 KiB."""


@dataclass(frozen=True)
class AvroDataFile:
    """An open Avro file."""

    file: IO[bytes]
    header: AvroFile
    """Without the content."""
    schema: pa.Schema

    @cached_property
    def record_count(self) -> int:
        """Rows, by the word of all blocks. Cost: reads the whole file, and inflates nothing."""
        with _damage():
            return sum(block.record_count for block in self._stored_blocks())

    @property
    def properties(self) -> Mapping[str, str]:
        stored = self.header.metadata.items()
        return {key: value for key, value in stored if not key.startswith("avro.")}

    def metrics(self, schema: Schema, *, only: bool = False) -> FileMetrics:  # noqa: ARG002 - none
        """Return the number of rows: the format has no statistics."""
        return FileMetrics(record_count=self.record_count)

    def parts(self, schema: Schema) -> Sequence[FileMetrics]:  # noqa: ARG002 - as metrics
        """Return nothing: the format has no statistics."""
        return ()

    def batches(self, field_ids: Collection[int] | None) -> Iterator[FileRows]:
        columns = chosen(self.schema, field_ids)
        schema = pa.schema([self.schema.field(column) for column in columns])
        stored = maps_as_lists(self.header.schema)
        kinds = [stored_type(stored.fields[column].type) for column in columns]
        first_row = 0
        with _damage(), reading_data_file(_KIND):
            blocks = self._blocks(stored) if columns else self._stored_blocks()
            for group in _together(blocks):
                row_count = sum(block.record_count for block in group)
                values = decode_fields(stored, columns, group) if columns else []
                arrays = [pa.array(*pair) for pair in zip(values, kinds, strict=True)]
                yield FileRows(first_row, typed_batch(arrays, schema, row_count))
                first_row += row_count

    def _blocks(self, stored: AvroType) -> Iterator[Block]:
        """Yield the inflated blocks, large ones in parts."""
        for block in self._stored_blocks():
            content = inflate_block(self.header.codec, block.content)
            if block.record_count > len(content):
                raise damaged_data_file(_KIND, "a block has more records than bytes")
            yield from in_parts(stored, Block(block.record_count, content), _BATCH_BYTES)

    def _stored_blocks(self) -> Iterator[Block]:
        """Yield the blocks with records as they are stored, in one pass over the file."""
        end = self.file.seek(0, SEEK_END)
        at = self.header.first_block
        numbers = self._read(at, _LONGEST_NUMBERS)
        while at < end:
            record_count, length = read_long(numbers, 0)
            size_bytes, length = read_long(numbers, length)
            if record_count < 0 or not 0 <= size_bytes <= end - at - length - _SYNC_SIZE:
                raise damaged_data_file(_KIND, "a block is longer than the file")
            content = self._read(at + length, size_bytes + _SYNC_SIZE + _LONGEST_NUMBERS)
            at += length + size_bytes + _SYNC_SIZE
            numbers = content[size_bytes + _SYNC_SIZE :]
            if content[size_bytes : size_bytes + _SYNC_SIZE] != self.header.sync_marker:
                raise damaged_data_file(_KIND, "a sync marker is wrong")
            if record_count:
                yield Block(record_count, content[:size_bytes])

    def _read(self, start: int, size_bytes: int) -> bytes:
        self.file.seek(start)
        return self.file.read(size_bytes)


def open_avro(file: IO[bytes], name_mapping: NameMapping) -> AvroDataFile:
    """Open an Avro file by its header. Raises: CorruptTable R-099; Unsupported."""
    with _damage():
        header = _header(file)
    with reading_data_file(_KIND):
        try:
            fields = arrow_fields(header.metadata["avro.schema"])
        except (KeyError, TypeError, RecursionError) as error:
            raise damaged_data_file(_KIND, "its schema is not an Avro schema") from error
        return AvroDataFile(file, header, schema_with_ids(pa.schema(fields), name_mapping))


def _header(file: IO[bytes]) -> AvroFile:
    """Return the header, out of as much of the file as it takes."""
    size = _HEADER_BYTES
    while True:
        file.seek(0)
        content = file.read(size)
        try:
            avro_file = read_header(content)
        except CorruptTable:
            if len(content) < size or size >= _LARGEST_HEADER:
                raise
            size *= 16
        else:
            return replace(avro_file, content=b"")


def _together(blocks: Iterable[Block]) -> Iterator[Sequence[Block]]:
    """Consecutive blocks that make one batch: some, or a single larger one."""
    group: list[Block] = []
    size_bytes = record_count = 0
    for block in blocks:
        size_bytes += len(block.content)
        record_count += block.record_count
        if group and (size_bytes > _BATCH_BYTES or record_count > LARGEST_BATCH_ROWS):
            yield group
            group = []
            size_bytes, record_count = len(block.content), block.record_count
        group.append(block)
    if group:
        yield group


@contextmanager
def _damage() -> Iterator[None]:
    """Damage found by the codec of manifests is that of a data file here."""
    try:
        yield
    except CorruptTable as error:
        if error.rule == "R-099":
            raise
        message = error.what
        raise CorruptTable(message, rule="R-099", hint=RESTORE) from error


def maps_as_lists(part: AvroType) -> AvroType:
    """The type with each map as an array of records of key and value, which are stored alike."""
    parts = tuple(maps_as_lists(inner) for inner in part.parts)
    fields = tuple(replace(field, type=maps_as_lists(field.type)) for field in part.fields)
    if part.kind == "map":
        pair = (AvroField("key", None, AvroType("string")), AvroField("value", None, parts[0]))
        return AvroType("array", parts=(AvroType("record", fields=pair),))
    return replace(part, parts=parts, fields=fields)


def stored_type(part: AvroType) -> pa.DataType:
    """Return the Arrow type of decoded values, fields named by position; of a union, the other."""
    part = part.present
    if part.kind == "union" and len(part.parts) == 1:
        part = part.parts[0]
    if part.kind == "record":
        places = enumerate(part.fields)
        return pa.struct([(str(place), stored_type(field.type)) for place, field in places])
    if part.kind == "array":
        return pa.list_(stored_type(part.parts[0]))
    if part.kind == "fixed":
        return pa.binary(part.size)
    return _PRIMITIVES[part.kind]


def arrow_fields(schema: str) -> list[pa.Field]:
    """The columns that the JSON of a writer schema means, with the ids of all fields (R-095).

    Raises: KeyError, TypeError or ValueError, where it is no schema; Unsupported, for a union of
    more than null and one type.
    """
    kind = _type(parse_json(schema), {})
    return [kind.field(place) for place in range(kind.num_fields)]


def _type(stored: Any, named: dict[str, pa.DataType]) -> pa.DataType:
    if isinstance(stored, str):
        return _PRIMITIVES[stored] if stored in _PRIMITIVES else named[stored]
    if isinstance(stored, list):
        branches = [branch for branch in stored if branch != "null"]
        if len(branches) > 1:
            raise unsupported_data_file("Avro", "a column is a union of several types")
        return _type(branches[0], named) if branches else pa.null()
    kind = stored["type"]
    if not isinstance(kind, str):
        return _type(kind, named)
    match kind:
        case "record":
            parsed = pa.struct(_fields(stored, named))
        case "array":
            element = _type(stored["items"], named)
            if stored.get("logicalType") == "map":  # a map whose keys are no strings
                key = element.field(0).with_name("key").with_nullable(nullable=False)
                parsed = pa.map_(key, element.field(1).with_name("value"))
            else:
                item = _part("element", element, stored.get("element-id"), nullable=True)
                parsed = pa.list_(item)
        case "map":
            key = _part("key", pa.string(), stored.get("key-id"), nullable=False)
            value = _type(stored["values"], named)
            parsed = pa.map_(key, _part("value", value, stored.get("value-id"), nullable=True))
        case "enum":
            parsed = pa.string()
        case "fixed":
            parsed = _bytes(stored, pa.binary(stored["size"]))
        case _:
            return _plain(kind, stored) if kind in _PRIMITIVES else named[kind]
    if "name" in stored:
        named[str(stored["name"])] = parsed
    return parsed


def _fields(stored: Mapping[str, Any], named: dict[str, pa.DataType]) -> Iterator[pa.Field]:
    for field in stored["fields"]:
        name = str(field.get("iceberg-field-name", field["name"]))
        kind = _type(field["type"], named)
        has_null = isinstance(field["type"], list) and "null" in field["type"]
        yield _part(name, kind, field.get("field-id"), nullable=has_null or kind == pa.null())


def _part(name: str, kind: pa.DataType, number: Any, *, nullable: bool) -> pa.Field:
    return pa.field(name, kind, nullable, None if number is None else {FIELD_ID: str(int(number))})


def _plain(kind: str, stored: Mapping[str, Any]) -> pa.DataType:
    logical = stored.get("logicalType")
    if kind == "bytes":
        return _bytes(stored, pa.binary())
    meant = _LOGICAL.get((kind, str(logical)), _PRIMITIVES[kind])
    if pa.types.is_timestamp(meant) and stored.get("adjust-to-utc"):
        return pa.timestamp(meant.unit, "UTC")
    return meant


def _bytes(stored: Mapping[str, Any], plain: pa.DataType) -> pa.DataType:
    if stored.get("logicalType") == "decimal":
        return pa.decimal128(int(stored["precision"]), int(stored.get("scale", 0)))
    is_uuid = stored.get("logicalType") == "uuid" and plain == pa.binary(16)
    return pa.uuid() if is_uuid else plain
