"""Version 4 manifests, roots and leaves: Parquet files of content entries (V4-040 to V4-047).

Columns are found by field id alone. Files of the upstream draft have other ids under the same
names and are refused, never read as if they were this layout.
"""

import io
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from icectl.codec.arrow_failures import translated
from icectl.codec.parquet.schema import FIELD_ID, child_fields, field_id
from icectl.entries.sfc1.rows import COUNTS, STATS, TREE_ROWS, whole
from icectl.errors import CorruptTable, Unsupported
from icectl.spec.layout import LAYOUT_KEY, Layout
from icectl.spec.manifest import FileFormat, Status
from icectl.spec.stats_columns import STATS_ID, group_id

_ROWS_IN_GROUP = 65_536
_WORTH_THREADS = 2**20
"""Files up to this size are decoded sooner than threads are there to do it."""
_VERSION, _CONTENT = "format-version", "content"
_TRACKING, _VECTOR, _LEAF_COUNTS = 5, 147, 521
_LOCATION = 100
_UPSTREAM_IDS = {157: "a column with the id 157", 500: "a column with the id 500"}


class TreeContent(StrEnum):
    """The kind of a version 4 manifest, by its footer."""

    ROOT = "root"
    DATA = "data"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class TreeFile:
    """A version 4 manifest: what its footer says, and its rows.

    `rows` has the columns of TREE_ROWS, and STATS where the file has statistics.
    """

    content: TreeContent
    footer: Mapping[str, str]
    rows: pa.Table
    unknown_field_ids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class _Column:
    """The place of a column of TREE_ROWS in the file: its field id, and the id of its struct."""

    name: str
    id: int
    group: int | None = None
    required: bool = False
    kind: pa.DataType = field(default_factory=pa.int64)
    element_id: int | None = None


_COLUMNS = (
    _Column("content", 134, required=True, kind=pa.int32()),
    _Column("location", _LOCATION, kind=pa.string()),
    _Column("file_format", 101, required=True, kind=pa.string()),
    _Column("status", 0, _TRACKING, required=True, kind=pa.int32()),
    _Column("snapshot_id", 1, _TRACKING),
    _Column("sequence_number", 3, _TRACKING),
    _Column("file_sequence_number", 4, _TRACKING),
    _Column("first_row_id", 142, _TRACKING),
    _Column("content_offset", 144, _VECTOR),
    _Column("content_size_in_bytes", 145, _VECTOR),
    _Column("inline_content", 146, _VECTOR, kind=pa.binary()),
    _Column("spec_id", 148, required=True, kind=pa.int32()),
    _Column("sort_order_id", 140, kind=pa.int32()),
    _Column("record_count", 103, required=True),
    _Column("file_size_in_bytes", 104),
    *(
        _Column(
            name,
            number,
            _LEAF_COUNTS,
            required=True,
            kind=pa.int32() if number < 510 else pa.int64(),
        )
        for name, number in zip(COUNTS, (504, 505, 506, 512, 513, 514, 516), strict=True)
    ),
    _Column("referenced_file", 143, kind=pa.string()),
    _Column("key_metadata", 131, kind=pa.binary()),
    _Column("split_offsets", 132, kind=pa.list_(pa.int64()), element_id=133),
    _Column("equality_ids", 135, kind=pa.list_(pa.int32()), element_id=136),
)
_NAMES = {134: "content_type", 148: "partition_spec_id", 144: "offset", 145: "size_in_bytes"}
_GROUPS = {
    _TRACKING: ("tracking_info", True),
    _VECTOR: ("deletion_vector", False),
    _LEAF_COUNTS: ("manifest_stats", False),
}
_KNOWN = {one.id for one in _COLUMNS} | set(_GROUPS) | {STATS_ID, 133, 136}


def read_tree(
    content: bytes,
    *,
    columns: Collection[str] | None = None,
    stats: Collection[int] | None = None,
) -> TreeFile:
    """Return a version 4 manifest; some of its `columns`, and the `stats` of some ids, where given.

    Shape: what is not asked for is not there.
    Order: of the file; a row's ordinal is the position that bitmaps name.
    Raises: CorruptTable where it is damaged, is no manifest or lacks a column (V4-040, V4-041);
    Unsupported for another version and for the upstream draft (V4-043).
    """
    with translated("manifest"):
        file = pq.ParquetFile(io.BytesIO(content), page_checksum_verification=True)
        schema = file.schema_arrow
    footer = _footer(file.metadata.metadata)
    shape = _Shape(schema)
    kind = _checked(shape, footer)
    with translated("manifest"):
        chosen = _chosen(shape, columns, stats)
        stored = file.read(chosen, use_threads=len(content) > _WORTH_THREADS)
    found = shape if chosen is None else _Shape(stored.schema)
    wanted = [one for one in _COLUMNS if columns is None or one.name in columns]
    fields = [TREE_ROWS.field(one.name) for one in wanted]
    rows = pa.table([_column(stored, found, one) for one in wanted], schema=pa.schema(fields))
    at = found.top.get(STATS_ID)
    if at is not None:
        rows = rows.append_column(stored.schema.field(at).with_name(STATS), stored.column(at))
    return TreeFile(kind, footer, rows, _unknown(schema))


def read_locations(content: bytes) -> pa.Array:
    """Return the locations of a manifest's rows, in half the time of read_tree, which checks more.

    Order: of the file.
    Raises: CorruptTable, where it is damaged or has no such column (V4-041).
    """
    with translated("manifest"):
        file = pq.ParquetFile(io.BytesIO(content), page_checksum_verification=True)
        schema = file.schema_arrow
        at = next((at for at, one in enumerate(schema) if field_id(one) == _LOCATION), None)
        if at is None or not pa.types.is_string(schema.field(at).type):  # V4-041
            raise CorruptTable(f"a manifest has no column {_LOCATION}", rule="V4-041")
        name = schema.field(at).name
        # A name with a dot means a member of a struct to pyarrow.
        found = file.read(None if "." in name else [name], use_threads=False)
    return whole(found.column(at if "." in name else 0))


def write_tree(
    rows: pa.Table, content: TreeContent, footer: Mapping[str, str] | None = None
) -> bytes:
    """Return a version 4 manifest of rows as `read_tree` gives them.

    `footer` has what the file says beside what every manifest does, in text.
    Order: kept.
    """
    columns: list[pa.Array] = []
    fields: list[pa.Field] = []
    for group, members in _layout():
        if group is None:
            (one,) = members
            columns.append(_stored(rows, one))
            fields.append(_field(one))
        elif group == STATS_ID:
            if STATS in rows.column_names and rows.schema.field(STATS).type.num_fields:
                columns.append(whole(rows.column(STATS)))
                fields.append(_identified(rows.schema.field(STATS), STATS_ID))
        else:
            columns.append(_struct(rows, group, members))
            name, required = _GROUPS[group]
            kind = pa.struct([_field(one) for one in members])
            fields.append(_identified(pa.field(name, kind, nullable=not required), group))
    table = pa.table(columns, schema=pa.schema(fields))
    buffer = io.BytesIO()
    with pq.ParquetWriter(
        buffer,
        table.schema,
        compression="zstd",
        store_schema=False,
        store_decimal_as_integer=True,
        use_dictionary=_texts(table.schema),
        write_page_checksum=True,
        write_statistics=False,
    ) as writer:
        writer.write_table(table, row_group_size=_ROWS_IN_GROUP)
        writer.add_key_value_metadata(
            {_VERSION: "4", _CONTENT: str(content), LAYOUT_KEY: str(Layout.SFC_1), **(footer or {})}
        )
    return buffer.getvalue()


# -- reading ------------------------------------------------------------------------------------


class _Shape:
    """The places of the columns of a file, by field id; a group's members by theirs."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self.top: dict[int | None, int] = {}
        self.members: dict[int, dict[int | None, int]] = {}
        for at, one in enumerate(schema):
            self.top.setdefault(field_id(one), at)
        for group in (_TRACKING, _VECTOR, _LEAF_COUNTS):
            place = self.top.get(group)
            if place is None or not pa.types.is_struct(schema.field(place).type):
                continue
            inside = self.members.setdefault(group, {})
            for at, one in enumerate(child_fields(schema.field(place).type)):
                inside.setdefault(field_id(one), at)

    def find(self, column: _Column) -> pa.Field | None:
        """Return the field of a column."""
        if column.group is None:
            at = self.top.get(column.id)
            return None if at is None else self.schema.field(at)
        at = self.members.get(column.group, {}).get(column.id)
        return None if at is None else self.schema.field(self.top[column.group]).type.field(at)


def _chosen(
    shape: _Shape, columns: Collection[str] | None, stats: Collection[int] | None
) -> list[str] | None:
    """Return names in the file of what is asked for; None is everything."""
    if (columns is None and stats is None) or any("." in name for name in _names(shape)):
        return None
    names = []
    for one in _COLUMNS:
        found = shape.find(one)
        if found is None or not (columns is None or one.name in columns):
            continue
        prefix = () if one.group is None else (shape.schema.field(shape.top[one.group]).name,)
        names.append(".".join((*prefix, found.name)))
    at = shape.top.get(STATS_ID)
    if at is None:
        return names
    group = shape.schema.field(at)
    wanted = None if stats is None else set(map(group_id, stats))
    names += [
        f"{group.name}.{one.name}"
        for one in child_fields(group.type)
        if wanted is None or field_id(one) in wanted
    ]
    return names


def _names(shape: _Shape) -> Iterator[str]:
    """Yield names in the file of columns and of members of groups."""
    for one in shape.schema:
        yield one.name
        yield from (child.name for child in child_fields(one.type))


def _footer(stored: Mapping[bytes, bytes] | None) -> dict[str, str]:
    return {
        key.decode(errors="replace"): value.decode(errors="replace")
        for key, value in (stored or {}).items()
        if key != b"ARROW:schema"
    }


def _checked(shape: _Shape, footer: Mapping[str, str]) -> TreeContent:
    """Tell what the file is, once it is sure that it is one of this layout (sfc-1 4.2).

    Raises: Unsupported; CorruptTable.
    """
    _refuse_dialects(shape)
    version = footer.get(_VERSION)
    if version != "4":  # V4-040
        message = f"a manifest of format version {version} stands where version 4 should"
        raise Unsupported(message, rule="V4-040")
    told = footer.get(_CONTENT)
    try:
        content = TreeContent("delete" if told == "deletes" else str(told))  # V4-112
    except ValueError:
        message = f"the footer of a manifest says content {told!r}"
        raise CorruptTable(message, rule="V4-040") from None  # V4-040
    for one in _COLUMNS:
        _check_column(shape, one)
    return content


def _refuse_dialects(shape: _Shape) -> None:
    for number, told in _UPSTREAM_IDS.items():
        if number in shape.top:  # V4-043
            raise _dialect(told)
    if 0 in shape.members.get(_VECTOR, {}):  # V4-043
        raise _dialect("tracking information under the id 147")


def _dialect(told: str, rule: str = "V4-043") -> Unsupported:
    return Unsupported(
        f"a manifest is of the upstream draft of version 4: it has {told}",
        hint="maintain the table with the engine that wrote it",
        rule=rule,
    )


def _check_column(shape: _Shape, column: _Column) -> None:
    """A required column is there, and every column is of its type (V4-041)."""
    found = shape.find(column)
    group_required = column.group is None or _GROUPS[column.group][1]
    if found is None:
        if column.required and group_required:  # V4-041
            raise CorruptTable(f"a manifest has no column {column.id}", rule="V4-041")
        return
    if not _same_type(found.type, column.kind):  # V4-041
        message = f"column {column.id} of a manifest is {found.type}, not {column.kind}"
        raise CorruptTable(message, rule="V4-041")


def _same_type(stored: pa.DataType, wanted: pa.DataType) -> bool:
    if pa.types.is_list(wanted):
        return bool(pa.types.is_list(stored) and stored.value_type == wanted.value_type)
    return bool(stored == wanted)


def _column(stored: pa.Table, shape: _Shape, column: _Column) -> pa.Array:
    """Return a column of TREE_ROWS; null where the file lacks it."""
    wanted = TREE_ROWS.field(column.name)
    values = _values(stored, shape, column)
    if values is None:
        return pa.nulls(len(stored), wanted.type)
    if column.name == "file_format":
        return format_codes(values)
    if column.required and column.group != _LEAF_COUNTS and values.null_count:  # V4-041
        raise CorruptTable(f"column {column.id} of a manifest has nulls", rule="V4-041")
    if column.name == "status":
        _check_statuses(values)
    if column.name == "content":
        _check_contents(values)
    return values.cast(wanted.type)


def _values(stored: pa.Table, shape: _Shape, column: _Column) -> pa.Array | None:
    if column.group is None:
        at = shape.top.get(column.id)
        return None if at is None else whole(stored.column(at))
    at = shape.members.get(column.group, {}).get(column.id)
    if at is None:
        return None
    # flatten, and not field: a member of a null struct is null, whatever lies beneath.
    return whole(stored.column(shape.top[column.group])).flatten()[at]


def _check_statuses(values: pa.Array) -> None:
    highest = pc.max(values).as_py() if len(values) else 0
    lowest = pc.min(values).as_py() if len(values) else 0
    if lowest < 0 or highest > max(Status):  # V4-050
        told = f"a status of {highest if highest > max(Status) else lowest}"
        raise _dialect(told, rule="V4-050")


def _check_contents(values: pa.Array) -> None:
    if len(values) and not (pc.min(values).as_py() >= 0 and pc.max(values).as_py() <= 5):  # V4-044
        raise CorruptTable("a manifest has a row of an unknown content type", rule="V4-044")


def format_codes(values: pa.Array) -> pa.Array:
    """Codes of file formats; names are compared without case, others are unknown."""
    encoded = pc.utf8_upper(values).dictionary_encode()
    codes = [
        FileFormat[name] if name in FileFormat.__members__ else FileFormat.UNKNOWN
        for name in encoded.dictionary.to_pylist()
    ]
    if values.null_count:  # V4-041
        raise CorruptTable("column 101 of a manifest has nulls", rule="V4-041")
    return pa.array(codes, pa.int8()).take(encoded.indices)


def _unknown(schema: pa.Schema) -> tuple[int, ...]:
    """Ids that this layout does not know, outside of statistics (V4-042)."""
    found: list[int] = []

    def walk(one: pa.Field) -> None:
        """Collect the unknown ids of a field and of those inside it."""
        number = field_id(one)
        if number == STATS_ID:
            return
        if number is not None and number not in _KNOWN:
            found.append(number)
        for child in child_fields(one.type):
            walk(child)

    for one in schema:
        walk(one)
    return tuple(sorted(found))


# -- writing ------------------------------------------------------------------------------------


def _layout() -> Sequence[tuple[int | None, list[_Column]]]:
    """Top-level columns in the order of sfc-1 3.1, groups with their members."""
    groups: list[tuple[int | None, list[_Column]]] = []
    for one in _COLUMNS:
        if one.group is not None and groups and groups[-1][0] == one.group:
            groups[-1][1].append(one)
            continue
        if one.group == _LEAF_COUNTS:
            groups.append((STATS_ID, []))
        groups.append((one.group, [one]))
    return groups


def _field(column: _Column) -> pa.Field:
    name = _NAMES.get(column.id, column.name)
    kind = column.kind
    if column.element_id is not None:
        element = pa.field("element", kind.value_type, nullable=False)
        kind = pa.list_(_identified(element, column.element_id))
    return _identified(pa.field(name, kind, nullable=not column.required), column.id)


def _identified(one: pa.Field, number: int) -> pa.Field:
    return one.with_metadata({FIELD_ID: str(number)})


def _stored(rows: pa.Table, column: _Column) -> pa.Array:
    values = whole(rows.column(column.name))
    if column.name == "file_format":
        names = pa.array([one.name.lower() for one in FileFormat])
        return names.take(values)
    return values.cast(_field(column).type)


def _struct(rows: pa.Table, group: int, members: list[_Column]) -> pa.Array:
    columns = [_stored(rows, one) for one in members]
    if group == _TRACKING:
        return pa.StructArray.from_arrays(columns, fields=[_field(one) for one in members])
    is_null = None
    for column in columns:
        is_null = column.is_null() if is_null is None else pc.and_(is_null, column.is_null())
    filled = [
        pc.fill_null(column, 0) if one.required else column
        for one, column in zip(members, columns, strict=True)
    ]
    return pa.StructArray.from_arrays(filled, fields=[_field(one) for one in members], mask=is_null)


def _texts(schema: pa.Schema) -> list[str] | bool:
    """Return columns worth a dictionary: texts, and the members of statistics."""
    paths: list[str] = []

    def walk(one: pa.Field, path: str) -> None:
        """Collect the paths of texts in a field."""
        children = child_fields(one.type)
        if not children and pa.types.is_string(one.type):
            paths.append(path)
        for child in children:
            walk(child, f"{path}.{child.name}")

    for one in schema:
        walk(one, one.name)
    return paths or False
