"""Manifests in Parquet, as Iceberg 1.12 writes them in version 4: the entries of version 3.

Columns are found by field id. A partition without fields is not stored at all.
"""

import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

import pyarrow as pa

from icectl.codec.arrow_failures import translated
from icectl.codec.manifest.header import header_of
from icectl.codec.manifest.layout import RULE_OF_REQUIRED
from icectl.codec.manifest.records import Order
from icectl.codec.manifest.schema import (
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
)
from icectl.codec.parquet.schema import (
    arrow_schema,
    child_fields,
    field_id,
    flat_type,
)
from icectl.entries.partition.key_columns import encode_keys
from icectl.errors import CorruptTable
from icectl.spec.manifest import FileFormat, ManifestHeader
from icectl.spec.schema import Schema, schema_json
from icectl.spec.types import (
    ListType,
    MapType,
    NestedField,
    PrimitiveType,
    StructType,
    Type,
)

MAGIC = b"PAR1"
"""The first bytes of a Parquet file."""

_GZIP_LEVEL = 6
"""That of zlib and of Iceberg; Arrow takes 9, eight times slower for a fiftieth of the bytes."""

_WORTH_THREADS = 2**20
"""Files up to this size are decoded sooner than threads are there to do it."""
_ROWS_IN_GROUP = 65_536


class ParquetManifest:
    """A manifest in Parquet of which only the footer was read."""

    def __init__(self, content: bytes) -> None:
        """Read the footer. Raises: CorruptTable R-062 and R-063, where it is no manifest."""
        import pyarrow.parquet as pq  # which most tables have no use for here

        self._is_large = len(content) > _WORTH_THREADS
        with _readable():
            self._file = pq.ParquetFile(io.BytesIO(content), page_checksum_verification=True)
            schema = self._file.schema_arrow
        self._entry = {field_id(field): field for field in schema}
        data_file = self._entry.get(DATA_FILE)
        if data_file is None or not pa.types.is_struct(data_file.type):
            raise CorruptTable("the file is no manifest: it has no data_file", rule="R-062")
        self._data_file = data_file
        self._members = {field_id(field): field for field in child_fields(data_file.type)}
        self.columns = frozenset(
            name
            for name, number in COLUMN_IDS.items()
            if number in (self._entry if name in ENTRY_IDS else self._members)
        )
        """The stored columns of an entries table."""
        for name, rule in RULE_OF_REQUIRED.items():
            if name not in self.columns:
                raise CorruptTable(f"the manifest has no field {name}", rule=rule)
        partition = self._members.get(PARTITION)
        self._partition = [] if partition is None else child_fields(partition.type)

    @property
    def row_count(self) -> int:
        """The number of entries."""
        return int(self._file.metadata.num_rows)

    @property
    def partition_field_ids(self) -> Sequence[int | None]:
        """The ids of the partition fields, as stored."""
        return [field_id(field) for field in self._partition]

    @property
    def unknown_field_ids(self) -> tuple[int, ...]:
        """Ids of fields that no version up to 3 has: a rewrite would lose them."""
        known = {*ENTRY_IDS.values(), *DATA_FILE_IDS.values()}
        stored = {number for number in (*self._entry, *self._members) if number is not None}
        return tuple(sorted(stored - known))

    def header(self) -> ManifestHeader:
        """Tell what the manifest says of itself. Raises: CorruptTable R-060."""
        footer = self._file.metadata
        stored = footer.metadata or {}
        first = footer.row_group(0).column(0) if footer.num_row_groups else None
        told = header_of(
            {key.decode(): value.decode("utf-8", "replace") for key, value in stored.items()},
            codec="none" if first is None else str(first.compression).lower(),
            assumed_version=4,
            partition_record=tuple(
                (field_id(field), _avro_kind(flat_type(field.type))) for field in self._partition
            ),
            unknown_field_ids=self.unknown_field_ids,
        )
        return replace(told, file_format=FileFormat.PARQUET)

    def decode(self, columns: Iterable[str], order: Order) -> dict[str, pa.Array]:
        """Decode stored columns, and `partition_key` with the stored fields in this order.

        Shape: numbers as stored, file_format as text.
        Order: of the file.
        Raises: CorruptTable.
        """
        wanted = list(columns)
        with _readable():
            paths = [self._path(name) for name in wanted]
            table = self._file.read(
                [path for path in paths if path is not None], use_threads=self._is_large
            )
        members: dict[int | None, pa.Array] = {}
        at = table.schema.get_field_index(self._data_file.name)
        if at >= 0:
            kept = child_fields(table.schema.field(at).type)
            files = _whole(table.column(at))
            members = {field_id(field): files.field(place) for place, field in enumerate(kept)}
        decoded = {}
        for name in wanted:
            if name == "partition_key":
                decoded[name] = self._keys(members.get(PARTITION), order, table.num_rows)
            elif name in ENTRY_IDS:
                decoded[name] = _whole(table.column(self._entry[ENTRY_IDS[name]].name))
            else:
                decoded[name] = members[COLUMN_IDS[name]]
        return decoded

    def _path(self, name: str) -> str | None:
        """Return where a column lies; None of partitions without fields."""
        if name in ENTRY_IDS:
            return str(self._entry[ENTRY_IDS[name]].name)
        if name == "partition_key" and not self._partition:
            return None
        member = self._members[PARTITION if name == "partition_key" else COLUMN_IDS[name]]
        return f"{self._data_file.name}.{member.name}"

    def _keys(self, stored: pa.Array | None, order: Order, row_count: int) -> pa.Array:
        """Make the canonical keys of partitions (R-068)."""
        if not order:
            return pa.repeat(pa.scalar(b"", pa.binary()), row_count)
        types: list[Type] = []
        columns: list[pa.Array] = []
        for at in order:
            if at is None or stored is None:
                types.append(PrimitiveType("int"))
                columns.append(pa.nulls(row_count, pa.int32()))
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
        partitions if field.name == "partition" else _whole(table[field.name]).cast(field.type)
        for field in child_fields(file_type)
    ]
    files = pa.StructArray.from_arrays(parts, fields=child_fields(file_type))
    columns = [
        files if field.name == "data_file" else _whole(table[field.name]).cast(field.type)
        for field in wanted
    ]
    text = json.dumps(schema_json(_entry_schema(partition)), separators=(",", ":"))
    sink = io.BytesIO()
    level = {"compression": "gzip", "compression_level": _GZIP_LEVEL}
    with pq.ParquetWriter(sink, wanted, store_schema=False, **level) as writer:
        stored = pa.Table.from_arrays(columns, schema=wanted)
        writer.write_table(stored, row_group_size=_ROWS_IN_GROUP)
        writer.add_key_value_metadata({**properties, "iceberg.schema": text})
    return sink.getvalue()


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


def _avro_kind(type_: Type) -> str:
    """Name the Avro type that a partition value of this type has, by which checks compare."""
    stored = avro_type(type_)
    return str(stored["type"] if isinstance(stored, dict) else stored)


@contextmanager
def _readable() -> Iterator[None]:
    """Tell of a damaged file as of a manifest. Raises: CorruptTable R-008."""
    try:
        with translated("manifest"):
            yield
    except CorruptTable as error:
        raise CorruptTable(error.message, rule="R-008") from error


def _whole(column: pa.ChunkedArray) -> pa.Array:
    """Return the one array that a column is read as."""
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
