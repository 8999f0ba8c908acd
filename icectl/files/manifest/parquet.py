"""Manifests in Parquet, as Iceberg 1.12 writes them in version 4: the entries of version 3.

Columns are found by field id. A partition without fields is not stored at all.
"""

import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from icectl.entries.columns import whole
from icectl.entries.partition_key import encode_keys
from icectl.errors import CorruptTable
from icectl.files.avro.schema import NO_ID
from icectl.files.manifest.layout import RULE_OF_REQUIRED
from icectl.files.manifest.parquet_columns import ROWS_IN_GROUP, ColumnsById, ParquetColumns, Place
from icectl.files.manifest.records import Order
from icectl.files.manifest.schema import (
    COLUMN_IDS,
    DATA_FILE,
    DATA_FILE_FIELDS,
    DATA_FILE_IDS,
    ELEMENT_IDS,
    ENTRY_IDS,
    MAP_IDS,
    OPTIONAL,
    PARTITION,
    REQUIRED,
    avro_type,
    header_of,
)
from icectl.files.parquet.schema import arrow_schema, child_fields, field_id, flat_type
from icectl.format.manifest import FileFormat, ManifestHeader
from icectl.format.schema import Schema, schema_json
from icectl.format.types import ListType, MapType, NestedField, PrimitiveType, StructType, Type

_GZIP_LEVEL = 6
"""That of zlib and of Iceberg; Arrow takes 9, eight times slower for a fiftieth of the bytes."""


class ParquetManifest:
    """A manifest in Parquet of which only the footer was read."""

    def __init__(self, content: bytes) -> None:
        """Read the footer. Raises: CorruptTable R-062 and R-063, where it is no manifest."""
        self._stored = ParquetColumns(content, "R-008")
        members = self._stored.members(DATA_FILE)
        if not members:
            raise CorruptTable("the file is not a manifest: it has no data_file", rule="R-062")
        self._ids = {field_id(field) for field in (*self._stored.shape.schema, *members)}
        self.columns = frozenset(
            name for name in COLUMN_IDS if self._stored.find(_place(name)) is not None
        )
        """The stored columns of an entries table."""
        for name, rule in RULE_OF_REQUIRED.items():
            if name not in self.columns:
                raise CorruptTable(f"the manifest has no field {name}", rule=rule)
        partition = self._stored.find(_place("partition_key"))
        self._partition = [] if partition is None else child_fields(partition.type)

    @property
    def row_count(self) -> int:
        return int(self._stored.file.metadata.num_rows)

    @property
    def partition_field_ids(self) -> Sequence[int | None]:
        return [field_id(field) for field in self._partition]

    @property
    def unknown_field_ids(self) -> tuple[int, ...]:
        """Ids of fields that no version up to 3 has: a rewrite would lose them."""
        known = {*ENTRY_IDS.values(), *DATA_FILE_IDS.values()}
        return tuple(sorted(NO_ID if number is None else number for number in self._ids - known))

    def header(self) -> ManifestHeader:
        """Tell what the manifest says of itself. Raises: CorruptTable R-060."""
        footer = self._stored.file.metadata
        first = footer.row_group(0).column(0) if footer.num_row_groups else None
        record: list[tuple[int | None, str]] = []
        for field in self._partition:  # by the Avro type, by which checks compare
            stored = avro_type(flat_type(field.type))
            kind = stored["type"] if isinstance(stored, dict) else stored
            record.append((field_id(field), str(kind)))
        header = header_of(
            self._stored.footer,
            codec="none" if first is None else str(first.compression).lower(),
            assumed_version=4,
            partition_record=tuple(record),
            unknown_field_ids=self.unknown_field_ids,
        )
        return replace(header, file_format=FileFormat.PARQUET)

    def decode(self, columns: Iterable[str], order: Order) -> dict[str, pa.Array]:
        """Decode columns as stored, partitions in this `order`. Raises: CorruptTable."""
        wanted = list(columns)
        has_none = () if self._partition else ("partition_key",)
        decoded = self._stored.read([_place(name) for name in wanted if name not in has_none])
        return {
            name: self._keys(decoded, order)
            if name == "partition_key"
            else decoded.get(_place(name))
            for name in wanted
        }

    def _keys(self, decoded: ColumnsById, order: Order) -> pa.Array:
        """Make the canonical keys of partitions (R-068)."""
        if not order:
            return pa.repeat(pa.scalar(b"", pa.binary()), decoded.row_count)
        stored = decoded.get(_place("partition_key")) if self._partition else None
        types: list[Type] = []
        columns: list[pa.Array] = []
        for at in order:
            if at is None or stored is None:
                types.append(PrimitiveType("int"))
                columns.append(pa.nulls(decoded.row_count, pa.int32()))
            else:
                types.append(flat_type(self._partition[at].type))
                columns.append(stored.field(at))
        try:
            return encode_keys(types, columns)
        except (ValueError, pa.ArrowInvalid) as error:
            message = "a partition value is not of its type"
            raise CorruptTable(message, rule="R-068") from error


def write_parquet(
    table: pa.Table,
    partitions: pa.Array | None,
    *,
    partition: Sequence[NestedField],
    properties: Mapping[str, str],
) -> bytes:
    """Write entries as a manifest in Parquet, compressed as Iceberg 1.12 does.

    Shape: the columns of `table` have Avro names; `partitions` are structs of the fields in
    `partition`, None where the spec has none. `properties` is the key-value metadata.
    Order: that of the rows.
    """
    import pyarrow.parquet as pq

    wanted = arrow_schema(_entry_schema(partition))
    file_type = wanted.field("data_file").type
    parts = [
        partitions if field.name == "partition" else whole(table[field.name]).cast(field.type)
        for field in child_fields(file_type)
    ]
    files = pa.StructArray.from_arrays(parts, fields=child_fields(file_type))
    columns = [
        files if field.name == "data_file" else whole(table[field.name]).cast(field.type)
        for field in wanted
    ]
    text = json.dumps(schema_json(_entry_schema(partition)), separators=(",", ":"))
    sink = io.BytesIO()
    level = {"compression": "gzip", "compression_level": _GZIP_LEVEL}
    with pq.ParquetWriter(sink, wanted, store_schema=False, **level) as writer:
        stored = pa.Table.from_arrays(columns, schema=wanted)
        writer.write_table(stored, row_group_size=ROWS_IN_GROUP)
        writer.add_key_value_metadata({**properties, "iceberg.schema": text})
    return sink.getvalue()


def _place(name: str) -> Place:
    number = PARTITION if name == "partition_key" else COLUMN_IDS[name]
    return (None if name in ENTRY_IDS else DATA_FILE), number


def _entry_schema(partition: Sequence[NestedField]) -> Schema:
    """Describe an entry, as the reference implementation orders its fields."""
    number = PrimitiveType("long")
    files = StructType(
        tuple(
            NestedField(PARTITION, "partition", StructType(tuple(partition)), required=True)
            if name == "partition"
            else _file_field(name)
            for name in DATA_FILE_FIELDS[3]
            if name != "partition" or partition
        )
    )
    return Schema(
        schema_id=0,
        fields=(
            NestedField(ENTRY_IDS["status"], "status", PrimitiveType("int"), required=True),
            *(
                NestedField(ENTRY_IDS[name], name, number, required=False)
                for name in ("snapshot_id", "sequence_number", "file_sequence_number")
            ),
            NestedField(DATA_FILE, "data_file", files, required=True),
        ),
    )


def _file_field(name: str) -> NestedField:
    required = name in REQUIRED
    type_: Type
    if name in MAP_IDS:
        key_id, value_id = MAP_IDS[name]
        value = "binary" if name in ("lower_bounds", "upper_bounds") else "long"
        key_type, value_type = PrimitiveType("int"), PrimitiveType(value)
        type_ = MapType(key_id, key_type, value_id, value_type, value_required=True)
    elif name in ELEMENT_IDS:
        element, element_id = ELEMENT_IDS[name]
        type_ = ListType(element_id, PrimitiveType(element), element_required=True)
    else:
        stored = REQUIRED[name] if required else OPTIONAL[name]
        type_ = PrimitiveType("binary" if stored == "bytes" else stored)
    return NestedField(DATA_FILE_IDS[name], name, type_, required=required)
