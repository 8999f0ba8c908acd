"""Manifests of the draft, roots and leaves: Parquet files of content entries.

Columns are found by field id alone. What has no fields, a partition or statistics, is not stored.
"""

import io
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from icectl.codec.arrow_failures import translated
from icectl.codec.parquet.schema import FIELD_ID, child_fields, field_id
from icectl.codec.sfc1.manifest import format_codes
from icectl.entries.draft_16025.rows import (
    CONTENTS,
    COUNTS,
    DRAFT_ROWS,
    PARTITION,
    STATS,
    DraftStatus,
)
from icectl.entries.sfc1.rows import whole
from icectl.errors import CorruptTable
from icectl.spec.manifest import FileFormat

_ROWS_IN_GROUP = 65_536
_WORTH_THREADS = 2**20
"""Files up to this size are decoded sooner than threads are there to do it."""
_TRACKING, _VECTOR, _INFO = 147, 148, 150
_STRUCTS = {102: PARTITION, 146: STATS}


@dataclass(frozen=True, slots=True)
class _Column:
    """The place of a column of DRAFT_ROWS in the file: its field id, and the id of its struct."""

    name: str
    id: int
    group: int | None = None
    required: bool = False
    kind: pa.DataType = field(default_factory=pa.int64)
    stored: str = ""
    element_id: int | None = None


_TEXT, _INT, _BYTES = pa.string(), pa.int32(), pa.binary()
_COLUMNS = (
    _Column("status", 0, _TRACKING, required=True, kind=_INT),
    _Column("snapshot_id", 1, _TRACKING),
    _Column("sequence_number", 3, _TRACKING),
    _Column("file_sequence_number", 4, _TRACKING),
    _Column("dv_snapshot_id", 5, _TRACKING),
    _Column("first_row_id", 142, _TRACKING),
    _Column("deleted_positions", 6, _TRACKING, kind=_BYTES),
    _Column("replaced_positions", 7, _TRACKING, kind=_BYTES),
    _Column("content", 134, required=True, kind=_INT, stored="content_type"),
    _Column("format_version", 157, required=True, kind=_INT),
    _Column("location", 100, required=True, kind=_TEXT),
    _Column("file_format", 101, required=True, kind=_TEXT),
    _Column("record_count", 103, required=True),
    _Column("file_size_in_bytes", 104, required=True),
    _Column("spec_id", 141, kind=_INT),
    _Column("sort_order_id", 140, kind=_INT),
    _Column("dv_location", 155, _VECTOR, required=True, kind=_TEXT, stored="location"),
    _Column("dv_offset", 144, _VECTOR, required=True, stored="offset"),
    _Column("dv_size_in_bytes", 145, _VECTOR, required=True, stored="size_in_bytes"),
    _Column("dv_cardinality", 156, _VECTOR, required=True, stored="cardinality"),
    _Column("dv_key_metadata", 149, _VECTOR, kind=_BYTES, stored="key_metadata"),
    *(
        _Column(name, number, _INFO, required=True, kind=DRAFT_ROWS.field(name).type)
        for name, number in zip(COUNTS, (504, 505, 506, 520, 512, 513, 514, 521, 516), strict=True)
    ),
    _Column("dead_positions", 522, _INFO, kind=_BYTES, stored="dv"),
    _Column("key_metadata", 131, kind=_BYTES),
    _Column("split_offsets", 132, kind=pa.list_(pa.int64()), element_id=133),
    _Column("equality_ids", 135, kind=pa.list_(_INT), element_id=136),
)
_GROUPS = {_TRACKING: "tracking", _VECTOR: "deletion_vector", _INFO: "manifest_info"}
_ORDER = (
    _TRACKING, 134, 157, 100, 101, 103, 104, 141, 102, 146, 140, _VECTOR, _INFO, 131, 132, 135
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class DraftFile:
    """A manifest of the draft: its rows, and what its footer says.

    `rows` has the columns of DRAFT_ROWS, and PARTITION and STATS where the file has them.
    """

    rows: pa.Table
    footer: Mapping[str, str]


def is_draft(schema: pa.Schema) -> bool:
    """Return whether a Parquet file's columns are those of entries of the draft."""
    shape = _Shape(schema)
    return 157 in shape.top or 0 in shape.members.get(_TRACKING, {})


def read_draft(content: bytes, columns: Collection[str] | None = None) -> DraftFile:
    """Read a manifest of the draft; some of its `columns` alone, where given.

    Shape: what is not asked for is not there; optional columns that the file lacks are null.
    Order: of the file; a row's ordinal is the position that bitmaps name.
    Raises: CorruptTable V4-200 where it is damaged, is no manifest of the draft or lacks a column,
    V4-201 where a status or a content type is none of the draft; Unsupported.
    """
    with _readable():
        file = pq.ParquetFile(io.BytesIO(content), page_checksum_verification=True)
        shape = _Shape(file.schema_arrow)
    for one in _COLUMNS:
        _check_column(shape, one)
    wanted = [one for one in _COLUMNS if columns is None or one.name in columns]
    structs = [name for name in _STRUCTS.values() if columns is None or name in columns]
    with _readable():
        table = file.read(shape.paths(wanted, structs), use_threads=len(content) > _WORTH_THREADS)
    found = _Shape(table.schema)
    fields = [DRAFT_ROWS.field(one.name) for one in wanted]
    parts = _Parts(table, found)
    rows = pa.table([_column(parts, one) for one in wanted], schema=pa.schema(fields))
    for number, name in _STRUCTS.items():
        at = found.top.get(number)
        if at is not None and name in structs:
            rows = rows.append_column(table.schema.field(at).with_name(name), table.column(at))
    footer = file.metadata.metadata or {}
    said = {key.decode(errors="replace"): footer[key].decode(errors="replace") for key in footer}
    return DraftFile(rows, said)


def write_draft(rows: pa.Table, footer: Mapping[str, str]) -> bytes:
    """Write a manifest of the draft, of rows as `read_draft` gives them.

    `footer` is the key-value metadata. Order: kept.
    """
    columns: list[pa.Array] = []
    fields: list[pa.Field] = []
    for number in _ORDER:
        made = _made(rows, number)
        if made is not None:
            fields.append(made[0])
            columns.append(made[1])
    table = pa.table(columns, schema=pa.schema(fields))
    buffer = io.BytesIO()
    with pq.ParquetWriter(
        buffer,
        table.schema,
        compression="zstd",
        store_schema=False,
        store_decimal_as_integer=True,
        use_dictionary=["file_format"],
        write_page_checksum=True,
        write_statistics=False,
    ) as writer:
        writer.write_table(table, row_group_size=_ROWS_IN_GROUP)
        writer.add_key_value_metadata(dict(footer))
    return buffer.getvalue()


# -- reading ------------------------------------------------------------------------------------


class _Shape:
    """The places of the columns of a file, by field id; a group's members by theirs."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self.top: dict[int | None, int] = {}
        for at, one in enumerate(schema):
            self.top.setdefault(field_id(one), at)
        self.members: dict[int, dict[int | None, int]] = {
            group: {
                field_id(one): at
                for at, one in enumerate(child_fields(schema.field(self.top[group]).type))
            }
            for group in _GROUPS
            if group in self.top and pa.types.is_struct(schema.field(self.top[group]).type)
        }

    def find(self, column: _Column) -> pa.Field | None:
        """Return the field of a column."""
        places = self.top if column.group is None else self.members.get(column.group, {})
        at = places.get(column.id)
        if at is None:
            return None
        if column.group is None:
            return self.schema.field(at)
        return self.schema.field(self.top[column.group]).type.field(at)

    def paths(self, wanted: Collection[_Column], structs: Collection[str]) -> list[str] | None:
        """Return names in the file of what is asked for; None is everything."""
        if len(wanted) == len(_COLUMNS) and len(structs) == len(_STRUCTS):
            return None
        found = []
        for one in wanted:
            stored = self.find(one)
            if stored is not None:
                group = None if one.group is None else self.schema.field(self.top[one.group]).name
                found.append(stored.name if group is None else f"{group}.{stored.name}")
        for number, name in _STRUCTS.items():
            if number in self.top and name in structs:
                found.append(self.schema.field(self.top[number]).name)
        return found


class _Parts:
    """The columns of a table; each struct is taken apart once."""

    def __init__(self, table: pa.Table, shape: _Shape) -> None:
        self._table, self._shape = table, shape
        # flatten, and not field: a member of a null struct is null, whatever lies beneath.
        self._groups = {
            group: whole(table.column(shape.top[group])).flatten() for group in shape.members
        }
        self.count = table.num_rows

    def get(self, column: _Column) -> pa.Array | None:
        """Return the values of a column."""
        if column.group is None:
            at = self._shape.top.get(column.id)
            return None if at is None else whole(self._table.column(at))
        at = self._shape.members.get(column.group, {}).get(column.id)
        return None if at is None else self._groups[column.group][at]


def _check_column(shape: _Shape, column: _Column) -> None:
    """A required column is there, and every column is of its type (V4-200)."""
    found = shape.find(column)
    if found is None:
        if column.required and column.group in (None, _TRACKING):  # V4-200
            raise _broken(f"a manifest has no column {column.id}")
        return
    is_same = found.type == column.kind
    if pa.types.is_list(column.kind):
        is_list = pa.types.is_list(found.type)
        is_same = bool(is_list and found.type.value_type == column.kind.value_type)
    if not is_same:
        raise _broken(f"column {column.id} of a manifest is {found.type}, not {column.kind}")


def _column(parts: _Parts, column: _Column) -> pa.Array:
    """Return a column of DRAFT_ROWS; null where the file lacks it."""
    wanted = DRAFT_ROWS.field(column.name)
    values = parts.get(column)
    if values is None:
        return pa.nulls(parts.count, wanted.type)
    if values.null_count and not wanted.nullable:  # V4-200
        raise _broken(f"column {column.id} of a manifest has nulls")
    if column.name == "file_format":
        return format_codes(values)
    if column.name in ("status", "content"):
        _check_codes(column.name, values)
    return values.cast(wanted.type)


def _check_codes(name: str, values: pa.Array) -> None:
    known = set(map(int, DraftStatus if name == "status" else CONTENTS))
    for value in pc.unique(values).to_pylist():
        if value not in known:  # V4-201
            message = f"a manifest has a {name} of {value}, which the draft does not know"
            raise CorruptTable(message, rule="V4-201")


def _broken(reason: str) -> CorruptTable:
    return CorruptTable(reason, rule="V4-200")  # V4-200


@contextmanager
def _readable() -> Iterator[None]:
    """Tell of a damaged file as of a manifest. Raises: CorruptTable V4-200; Unsupported."""
    try:
        with translated("manifest"):
            yield
    except CorruptTable as error:
        raise _broken(error.message.removesuffix(f" ({error.rule})")) from error


# -- writing ------------------------------------------------------------------------------------


def _made(rows: pa.Table, number: int) -> tuple[pa.Field, pa.Array] | None:
    """Make a column of the file out of rows; None where it has no members, and is not stored."""
    if number in _STRUCTS:
        name = _STRUCTS[number]
        if name not in rows.column_names or not rows.schema.field(name).type.num_fields:
            return None
        return _identified(rows.schema.field(name), number), whole(rows[name])
    if number in _GROUPS:
        members = [one for one in _COLUMNS if one.group == number]
        columns = [_stored(rows, one) for one in members]
        fields = [_field(one) for one in members]
        is_null = None
        if number != _TRACKING:
            (first,) = (one for one in members if one.name in ("dv_location", COUNTS[0]))
            is_null = rows[first.name].combine_chunks().is_null()
            columns = [
                pc.fill_null(column, _NOTHING[one.kind]) if one.required else column
                for one, column in zip(members, columns, strict=True)
            ]
        struct = pa.StructArray.from_arrays(columns, fields=fields, mask=is_null)
        stored = pa.field(_GROUPS[number], struct.type, nullable=number != _TRACKING)
        return _identified(stored, number), struct
    (column,) = (one for one in _COLUMNS if one.group is None and one.id == number)
    return _field(column), _stored(rows, column)


_NOTHING = {_TEXT: "", _INT: 0, pa.int64(): 0}


def _field(column: _Column) -> pa.Field:
    kind = column.kind
    if column.element_id is not None:
        element = pa.field("element", kind.value_type, nullable=False)
        kind = pa.list_(_identified(element, column.element_id))
    stored = pa.field(column.stored or column.name, kind, nullable=not column.required)
    return _identified(stored, column.id)


def _identified(one: pa.Field, number: int) -> pa.Field:
    return one.with_metadata({FIELD_ID: str(number)})


def _stored(rows: pa.Table, column: _Column) -> pa.Array:
    values = whole(rows[column.name])
    if column.name == "file_format":
        return pa.array([one.name.lower() for one in FileFormat]).take(values)
    return values.cast(_field(column).type)
