"""Where the columns of a manifest stand in its writer schema, found by field id (R-008).

It also tells which of two ways partition values of type fixed are stored in. The format, and the
Avro schema of every such manifest, has their bytes alone. The reference implementation (1.12 at
least) writes a length before them, as Avro does before bytes, and reads nothing else (R-212). Where
one way leads to the end of a block, the other runs into damage: a length shifts all that follows.
So the blocks themselves tell, not who wrote them, but for a value of one byte in few rows, which
may make another number of what follows it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from icectl.entries.rows import COLUMNS
from icectl.errors import CorruptTable
from icectl.files.avro.container import AvroFile, Block, decode_records, read_blocks
from icectl.files.avro.schema import SCHEMAS, AvroType, fields_by_id, nameless
from icectl.files.manifest.schema import COLUMN_IDS, DATA_FILE, DATA_FILE_IDS, ENTRY_IDS, PARTITION
from icectl.format.manifest import Content, Status

RULE_OF_REQUIRED: Mapping[str, str] = {
    "status": "R-062",
    "location": "R-063",
    "file_format": "R-063",
    "record_count": "R-063",
    "file_size_in_bytes": "R-063",
}
"""Columns that every version stores; `content` is missing in version 1 (R-004)."""

_INTEGERS = frozenset({"int", "long"})
_TEXTS = frozenset({"string", "bytes"})
_KINDS: Mapping[str, frozenset[str]] = {
    **dict.fromkeys(("int8", "int32", "int64"), _INTEGERS),
    **dict.fromkeys(("string", "binary"), _TEXTS),
}

_OTHERS = frozenset({"decimal", "uuid"})
"""Logical types that the reference implementation stores in an Avro fixed as the format says."""

_CODES = {"status": frozenset(map(int, Status)), "content": frozenset(map(int, Content))}
"""Numbers that stand for something: what is shifted seldom has one of them in their place."""

_OF_JAVA = "iceberg.schema"
"""A member of the headers of files that the reference implementation writes, and it alone."""


@dataclass(frozen=True, slots=True)
class StoredColumn:
    """The place where one column stands: in the entry, or in its data_file."""

    name: str
    in_data_file: bool
    position: int
    type: AvroType


@dataclass(frozen=True, slots=True, eq=False)
class ManifestLayout:
    """The writer schema of a manifest, as far as icectl reads it. Equal to itself only."""

    schema: AvroType
    data_file_position: int
    columns: Mapping[str, StoredColumn]
    partition_position: int | None
    unknown_field_ids: tuple[int, ...]
    """Ids of fields that no version up to 3 has, or NO_ID: a rewrite would lose them."""

    @property
    def data_file(self) -> AvroType:
        return self.schema.fields[self.data_file_position].type

    @property
    def partition(self) -> AvroType:
        """The record of the partition; one without fields where the manifest has none."""
        if self.partition_position is None:
            return AvroType("record")
        return self.data_file.fields[self.partition_position].type


@lru_cache(SCHEMAS)
def find_layout(schema: AvroType) -> ManifestLayout:
    """Find the columns in a writer schema.

    Raises: CorruptTable R-062 or R-063 where a required field is missing or of another type.
    """
    entry = fields_by_id(schema, ENTRY_IDS)
    if DATA_FILE not in entry or schema.fields[entry[DATA_FILE]].type.kind != "record":
        raise CorruptTable("the file is not a manifest: it has no data_file", rule="R-062")
    data_file = schema.fields[entry[DATA_FILE]].type
    file_fields = fields_by_id(data_file, DATA_FILE_IDS)
    columns = {}
    for name, field_id in COLUMN_IDS.items():
        in_data_file = name not in ENTRY_IDS
        record, positions = (data_file, file_fields) if in_data_file else (schema, entry)
        if field_id in positions:
            at = positions[field_id]
            columns[name] = _checked(StoredColumn(name, in_data_file, at, record.fields[at].type))
    for name, rule in RULE_OF_REQUIRED.items():
        if name not in columns:
            raise CorruptTable(f"the manifest has no field {name}", rule=rule)
    partition = file_fields.get(PARTITION)
    if partition is not None and data_file.fields[partition].type.kind != "record":
        raise CorruptTable("the partition of the manifest is not a record", rule="R-063")
    known = {*ENTRY_IDS.values(), *DATA_FILE_IDS.values()}
    unknown = {*entry, *file_fields} - known
    unknown |= nameless(schema, ENTRY_IDS) | nameless(data_file, DATA_FILE_IDS)
    return ManifestLayout(schema, entry[DATA_FILE], columns, partition, tuple(sorted(unknown)))


def metrics_positions(name: str, item: AvroType) -> tuple[int, int]:
    """Return positions of key and value in a metrics item. Raises: CorruptTable R-063."""
    positions = fields_by_id(item, {"key": 0, "value": 1})
    if len(item.fields) != 2 or len(positions) != 2:
        raise _wrong_type(name)
    # Ids of keys are smaller than ids of values in every metrics map.
    key, value = (positions[field_id] for field_id in sorted(positions))
    return key, value


def partition_order(
    stored_ids: Sequence[int | None], spec_field_ids: Sequence[int] | None
) -> tuple[int | None, ...]:
    """Find for each spec field its position in the stored partition; None where it has none.

    Raises: CorruptTable R-068 where record and spec have nothing in common.
    """
    if spec_field_ids is None:
        return tuple(range(len(stored_ids)))
    positions = {field_id: at for at, field_id in enumerate(stored_ids)}
    if any(field_id in positions for field_id in spec_field_ids):
        return tuple(positions.get(field_id) for field_id in spec_field_ids)
    if len(stored_ids) == len(spec_field_ids):
        return tuple(range(len(stored_ids)))  # version 1 may number them by position only
    if not stored_ids:
        return (None,) * len(spec_field_ids)
    raise CorruptTable("the partition of the manifest is not of its spec", rule="R-068")


def _checked(column: StoredColumn) -> StoredColumn:
    arrow = str(COLUMNS.field(column.name).type)
    present, inner = column.type.present, column.type.present.parts[:1]
    if column.name == "file_format":
        fits = present.kind in _TEXTS
    elif arrow in _KINDS:
        fits = present.kind in _KINDS[arrow]
    elif arrow.startswith("list"):
        fits = present.kind == "array" and inner[0].kind in _INTEGERS
    else:
        values = _TEXTS if "binary" in arrow else _INTEGERS
        fits = present.kind == "map" and inner[0].kind in values
        if present.kind == "array" and inner[0].kind == "record":
            key, value = metrics_positions(column.name, inner[0])
            kinds = [field.type.kind for field in inner[0].fields]
            fits = kinds[key] in _INTEGERS and kinds[value] in values
    if not fits:
        raise _wrong_type(column.name)
    return column


def _wrong_type(name: str) -> CorruptTable:
    return CorruptTable(f"the field {name} of the manifest has an unexpected type", rule="R-063")


def stored_layout(file: AvroFile) -> ManifestLayout:
    """Find the layout that the records of a manifest have: that of its schema, or with lengths.

    A fixed value with a length is of the type bytes there, whose `size` is that of every value.
    Raises: CorruptTable R-008, R-062, R-063; R-212, where the blocks can be read both ways and
    another than the reference implementation has written them.
    Cost: where partitions have fixed values, decodes blocks up to the first that tells.
    """
    plain = find_layout(file.schema)
    with_lengths = _with_lengths(plain)
    if with_lengths is None:
        return plain
    places = [
        str(at)
        for at, field in enumerate(plain.partition.fields)
        if field.type is not with_lengths.partition.fields[at].type
    ]
    is_doubtful = False
    for block in read_blocks(file):
        values, sized = (_values(layout, places, block) for layout in (plain, with_lengths))
        if sized is None:
            return plain
        if values is None:
            return with_lengths
        is_doubtful |= values != sized  # nulls alone are the same either way
    if is_doubtful and _OF_JAVA in file.metadata:
        return with_lengths
    if is_doubtful:
        message = "its fixed partition values can be read with and without lengths before them"
        raise CorruptTable(message, rule="R-212")
    return plain


@lru_cache(SCHEMAS)
def _with_lengths(layout: ManifestLayout) -> ManifestLayout | None:
    """Return the layout with a length before each fixed value; None without such a field."""
    fields = layout.partition.fields
    changed = tuple(replace(field, type=_as_bytes(field.type)) for field in fields)
    place = layout.partition_position
    if place is None or all(
        before.type is after.type for before, after in zip(fields, changed, strict=True)
    ):
        return None
    partition = replace(layout.partition, fields=changed)
    data_file = _with_field(layout.data_file, place, partition)
    return find_layout(_with_field(layout.schema, layout.data_file_position, data_file))


def _with_field(record: AvroType, position: int, type_: AvroType) -> AvroType:
    fields = list(record.fields)
    fields[position] = replace(fields[position], type=type_)
    return replace(record, fields=tuple(fields))


def _as_bytes(type_: AvroType) -> AvroType:
    """Turn a type into one with a length before what is fixed in it; itself, where nothing is."""
    if type_.kind == "fixed" and type_.logical not in _OTHERS:
        return replace(type_, kind="bytes")
    parts = tuple(map(_as_bytes, type_.parts)) if type_.kind == "union" else type_.parts
    same = all(after is before for after, before in zip(parts, type_.parts, strict=True))
    return type_ if same else replace(type_, parts=parts)


def _values(
    layout: ManifestLayout, places: Sequence[str], block: Block
) -> Sequence[Sequence[bytes | None]] | None:
    """Read some partition values of each record; None where the block holds no such records."""
    try:
        records = list(decode_records(layout.schema, [block]))
    except CorruptTable:
        return None
    files = [record[layout.data_file_position] for record in records]
    for name, known in _CODES.items():
        column = layout.columns.get(name)
        if column is not None:
            rows: Sequence[Any] = files if column.in_data_file else records
            at = str(column.position) if column.in_data_file else column.position
            if any(row[at] not in known for row in rows):
                return None
    partitions = [file[str(layout.partition_position)] for file in files]
    sizes = [layout.partition.fields[int(place)].type.present.size for place in places]
    stored_rows = [[partition[place] for place in places] for partition in partitions]
    fits = all(
        value is None or len(value) == size
        for values in stored_rows
        for value, size in zip(values, sizes, strict=True)
    )
    return stored_rows if fits else None
