"""Columns of manifests in Parquet, found by field id alone: read into flat rows, and written.

A layout of version 4 declares its columns as `ManifestColumns`; one that keeps the entries of
version 3 reads what it needs through `ParquetColumns`.
"""

import io
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from icectl.entries.columns import whole
from icectl.entries.rows import format_codes
from icectl.errors import CorruptTable
from icectl.files.arrow_failures import reading_data_file
from icectl.files.inflate import TooLargeError, count_announced_bytes
from icectl.files.parquet.schema import FIELD_ID, child_fields, field_id
from icectl.format.manifest import FileFormat

ROWS_IN_GROUP = 65_536
_WORTH_THREADS = 2**20
"""Files up to this size are decoded sooner than threads are there to do it."""
_FILE_FORMAT = "file_format"
_SHAPES = 64
"""Schemas of files that are remembered: the leaves of a table have one, or a few."""

Place = tuple[int | None, int]
"""The field id of the struct that a column lies in, None at the top; that of the column."""


@dataclass(frozen=True, slots=True)
class Field:
    """A column of rows as a file has it: by field id; `stored` is its name where that differs."""

    name: str
    id: int
    stored: str = ""
    required: bool = False
    element_id: int | None = None


@dataclass(frozen=True, slots=True)
class Group:
    """Columns of rows that a file has as the members of one struct, null where all of them are."""

    name: str
    id: int
    members: tuple[Field, ...]
    required: bool = False


@dataclass(frozen=True, slots=True)
class Struct:
    """A struct that rows have as well, with the members that a file has; without any left out."""

    name: str
    id: int


@dataclass(frozen=True, eq=False)
class ManifestColumns:
    """The columns of a layout's manifests, in the order in which they are written.

    `rows` is the schema of rows in memory, but for structs. `rule` is broken by a file that lacks
    a column or has another type; `check` raises where a column of codes has an unknown one. Texts
    in `repeating` columns are worth a dictionary; None: in all.
    """

    rows: pa.Schema
    parts: tuple[Field | Group | Struct, ...]
    rule: str
    check: Callable[[str, pa.Array], None]
    repeating: frozenset[str] | None = None

    def places(self) -> Iterator[tuple[Group | None, Field]]:
        """Yield the columns of rows, with the group that each is in."""
        for part in self.parts:
            if isinstance(part, Field):
                yield None, part
            elif isinstance(part, Group):
                yield from ((part, member) for member in part.members)

    def structs(self) -> Iterator[Struct]:
        return (part for part in self.parts if isinstance(part, Struct))

    def ids(self) -> frozenset[int]:
        """Return all field ids but those inside of structs."""
        ids = {part.id for part in self.parts}
        for _, column in self.places():
            ids |= {column.id} if column.element_id is None else {column.id, column.element_id}
        return frozenset(ids)

    def kind(self, column: Field) -> pa.DataType:
        """Return the type that a file has a column in: codes are numbers, or names of formats."""
        if column.name == _FILE_FORMAT:
            return pa.string()
        kind = self.rows.field(column.name).type
        return pa.int32() if kind == pa.int8() else kind

    def field(self, column: Field) -> pa.Field:
        kind = self.kind(column)
        if column.element_id is not None:
            element = pa.field("element", kind.value_type, nullable=False)
            kind = pa.list_(_identified(element, column.element_id))
        named = pa.field(column.stored or column.name, kind, nullable=not column.required)
        return _identified(named, column.id)


class ParquetColumns:
    """The columns of a manifest in Parquet by field id; only its footer was read."""

    def __init__(self, content: bytes, rule: str = "R-099") -> None:
        """Read the footer. Raises: CorruptTable, by `rule` as all that reading finds damaged."""
        import pyarrow.parquet as pq  # which most tables have no use for here

        self._rule = rule
        self._size_bytes = len(content)
        with reading_data_file("manifest", rule):
            self.file: Any = pq.ParquetFile(io.BytesIO(content), page_checksum_verification=True)
            self.shape = _shape_of(self.file.schema_arrow)

    @property
    def footer(self) -> dict[str, str]:
        """The key-value metadata, but for what pyarrow keeps there itself."""
        return {
            key.decode(errors="replace"): value.decode(errors="replace")
            for key, value in (self.file.metadata.metadata or {}).items()
            if key != b"ARROW:schema"
        }

    def find(self, place: Place) -> pa.Field | None:
        return self.shape.find(place)

    def members(self, group: int) -> list[pa.Field]:
        """Return the fields inside of a struct; none where there is no such struct."""
        field = self.find((None, group))
        return [] if field is None or not pa.types.is_struct(field.type) else list(field.type)

    def read(self, places: Iterable[Place] | None = None) -> "ColumnsById":
        """Read columns that are there, or all. Raises: CorruptTable; UnusuallyLargeError."""
        names = None if places is None else self.shape.paths(places)
        footer = self.file.metadata
        groups = map(footer.row_group, range(footer.num_row_groups))
        announced = sum(max(group.total_byte_size, 0) for group in groups)
        try:  # and a byte for each row
            count_announced_bytes(announced + max(footer.num_rows, 0), self._size_bytes)
        except TooLargeError as error:
            raise CorruptTable("a manifest inflates to too much", rule=self._rule) from error
        with reading_data_file("manifest", self._rule):
            is_large = self._size_bytes > _WORTH_THREADS
            return ColumnsById(self.file.read(names, use_threads=is_large))


class ColumnsById:
    """Columns of a manifest by field id; each struct is taken apart once."""

    def __init__(self, table: pa.Table) -> None:
        self._table, self._shape = table, _shape_of(table.schema)
        self._parts: dict[int, list[pa.Array]] = {}
        self.row_count = table.num_rows

    def column(self, number: int) -> tuple[pa.Field, pa.ChunkedArray] | None:
        at = self._shape.top.get(number)
        return None if at is None else (self._table.schema.field(at), self._table.column(at))

    def get(self, place: Place) -> pa.Array | None:
        """Return the values of a column; null where the struct is that it is in."""
        group, _ = place
        at = self._shape.at(place)
        if at is None:
            return None
        if group is None:
            return whole(self._table.column(at))
        if group not in self._parts:
            # flatten, and not field: a member of a null struct is null, whatever lies beneath.
            self._parts[group] = whole(self._table.column(self._shape.top[group])).flatten()
        return self._parts[group][at]


class Shape:
    """The ordinals of the columns of a file by field id, and of the members of structs."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self.top = _by_id(schema)
        self._members: dict[int, dict[int | None, int]] = {}

    def at(self, place: Place) -> int | None:
        """Return the ordinal of a column in the file, or of a member in its struct."""
        group, number = place
        if group is None:
            return self.top.get(number)
        if group not in self._members:
            at = self.top.get(group)
            kind = None if at is None else self.schema.field(at).type
            is_struct = kind is not None and pa.types.is_struct(kind)
            self._members[group] = _by_id(child_fields(kind)) if is_struct else {}
        return self._members[group].get(number)

    def find(self, place: Place) -> pa.Field | None:
        at = self.at(place)
        if at is None:
            return None
        group, _ = place
        return self.schema.field(at) if group is None else self._inside(group).type.field(at)

    @cached_property
    def _has_dots(self) -> bool:
        fields = (field for top in self.schema for field in (top, *child_fields(top.type)))
        return any("." in field.name for field in fields)

    def _inside(self, group: int) -> pa.Field:
        return self.schema.field(self.top[group])

    def paths(self, places: Iterable[Place]) -> list[str] | None:
        """Return names in the file of columns that are there; None where names can't tell them."""
        if self._has_dots:
            return None
        names = []
        for group, number in places:
            field = self.find((group, number))
            if field is not None:
                within = () if group is None else (self._inside(group).name,)
                names.append(".".join((*within, field.name)))
        return names


def _shape_of(schema: pa.Schema) -> Shape:
    """Return the shape of a schema: one object for equal ones with equal field ids."""
    return _remembered_shape(schema.remove_metadata().serialize().to_pybytes())


@lru_cache(_SHAPES)
def _remembered_shape(serialized: bytes) -> Shape:
    return Shape(pa.ipc.read_schema(pa.py_buffer(serialized)))


def _by_id(fields: Iterable[pa.Field]) -> dict[int | None, int]:
    places: dict[int | None, int] = {}
    for at, field in enumerate(fields):
        places.setdefault(field_id(field), at)
    return places


def check_columns(stored: ParquetColumns, layout: ManifestColumns) -> None:
    """Check that required columns are there, and all of their type. Raises: CorruptTable."""
    problem = _wrong_column(stored.shape, layout)
    if problem is not None:
        raise CorruptTable(problem, rule=layout.rule)


@lru_cache(_SHAPES)
def _wrong_column(shape: Shape, layout: ManifestColumns) -> str | None:
    for part in layout.parts:
        struct = None if isinstance(part, Field) else shape.find((None, part.id))
        if struct is not None and not pa.types.is_struct(struct.type):
            return f"column {part.id} of a manifest is {struct.type}, not a struct"
    for group, column in layout.places():
        stored_field = shape.find((group.id if group else None, column.id))
        if stored_field is None:
            if column.required and (group is None or group.required):
                return f"a manifest has no column {column.id}"
            continue
        wanted = layout.kind(column)
        is_same = stored_field.type == wanted
        if pa.types.is_list(wanted):
            is_same = (
                pa.types.is_list(stored_field.type)
                and stored_field.type.value_type == wanted.value_type
            )
        if not is_same:
            return f"column {column.id} of a manifest is {stored_field.type}, not {wanted}"
    return None


def read_rows(
    stored: ParquetColumns,
    layout: ManifestColumns,
    columns: Collection[str] | None = None,
    members: Mapping[str, Collection[int]] | None = None,
) -> pa.Table:
    """Read rows of a manifest whose columns were checked: some `columns` alone, where given.

    `members` are the field ids of the members to read of structs, by their names.

    Shape: what is not asked for is not there; other columns that the file lacks are null.
    Order: of the file.
    Raises: CorruptTable; what the check of the layout does.
    """
    wanted = [
        (group, column)
        for group, column in layout.places()
        if columns is None or column.name in columns
    ]
    structs = [struct for struct in layout.structs() if columns is None or struct.name in columns]
    if columns is None and not members:
        decoded = stored.read()
    else:
        places: list[Place] = [(group.id if group else None, column.id) for group, column in wanted]
        for struct in structs:
            chosen = (members or {}).get(struct.name)
            if chosen is None:
                places.append((None, struct.id))
            else:
                places += [(struct.id, number) for number in chosen]
        decoded = stored.read(places)
    arrays = [_column(decoded, layout, group, column) for group, column in wanted]
    fields = [layout.rows.field(column.name) for _, column in wanted]
    rows = pa.table(arrays, schema=pa.schema(fields))
    for struct in structs:
        as_stored = decoded.column(struct.id)
        if as_stored is not None:
            rows = rows.append_column(as_stored[0].with_name(struct.name), as_stored[1])
    return rows


def _column(
    columns: ColumnsById, layout: ManifestColumns, group: Group | None, column: Field
) -> pa.Array:
    """Return a column of rows; null where the file lacks it."""
    wanted = layout.rows.field(column.name)
    values = columns.get((group.id if group else None, column.id))
    if values is None:
        return pa.nulls(columns.row_count, wanted.type)
    if values.null_count and not wanted.nullable:
        raise CorruptTable(f"column {column.id} of a manifest has nulls", rule=layout.rule)
    if column.name == _FILE_FORMAT:
        return whole(format_codes(values))
    if wanted.type == pa.int8():
        layout.check(column.name, values)
    return values.cast(wanted.type)


def write_rows(rows: pa.Table, layout: ManifestColumns, footer: Mapping[str, str]) -> bytes:
    """Write rows as `read_rows` gives them; `footer` is the key-value metadata. Order: kept."""
    import pyarrow.parquet as pq

    columns: list[pa.Array] = []
    fields: list[pa.Field] = []
    for part in layout.parts:
        if isinstance(part, Field):
            fields.append(layout.field(part))
            columns.append(_stored(rows, layout, part))
        elif isinstance(part, Group):
            struct = _struct(rows, layout, part)
            field = pa.field(part.name, struct.type, nullable=not part.required)
            fields.append(_identified(field, part.id))
            columns.append(struct)
        elif part.name in rows.column_names and rows.schema.field(part.name).type.num_fields:
            fields.append(_identified(rows.schema.field(part.name), part.id))
            columns.append(whole(rows[part.name]))
    table = pa.table(columns, schema=pa.schema(fields))
    repeating = [field for field in fields if field.name in (layout.repeating or (field.name,))]
    buffer = io.BytesIO()
    with pq.ParquetWriter(
        buffer,
        table.schema,
        compression="zstd",
        store_schema=False,
        store_decimal_as_integer=True,
        use_dictionary=list(_texts(repeating)) or False,
        write_page_checksum=True,
        write_statistics=False,
    ) as writer:
        writer.write_table(table, row_group_size=ROWS_IN_GROUP)
        writer.add_key_value_metadata(dict(footer))
    return buffer.getvalue()


def _identified(field: pa.Field, number: int) -> pa.Field:
    return field.with_metadata({FIELD_ID: str(number)})


def _stored(rows: pa.Table, layout: ManifestColumns, column: Field) -> pa.Array:
    values = whole(rows[column.name])
    if column.name == _FILE_FORMAT:
        return pa.array([format_.name.lower() for format_ in FileFormat]).take(values)
    return values.cast(layout.field(column).type)


def _struct(rows: pa.Table, layout: ManifestColumns, group: Group) -> pa.StructArray:
    columns = [_stored(rows, layout, member) for member in group.members]
    fields = [layout.field(member) for member in group.members]
    if group.required:
        return pa.StructArray.from_arrays(columns, fields=fields)
    is_null = columns[0].is_null()
    for column in columns[1:]:
        is_null = pc.and_(is_null, column.is_null())
    filled = [
        pc.fill_null(column, "" if pa.types.is_string(column.type) else 0)
        if member.required
        else column
        for member, column in zip(group.members, columns, strict=True)
    ]
    return pa.StructArray.from_arrays(filled, fields=fields, mask=is_null)


def _texts(fields: Iterable[pa.Field], above: str = "") -> Iterator[str]:
    """Yield the paths of columns worth a dictionary: texts, and those inside of structs."""
    for field in fields:
        path = above + field.name
        if pa.types.is_string(field.type):
            yield path
        yield from _texts(child_fields(field.type), f"{path}.")
