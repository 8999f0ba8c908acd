"""Which of two ways a manifest holds partition values of type fixed in.

The format, and the Avro schema of every such manifest, has their bytes alone. The reference
implementation (1.12 at least) writes a length before them, as Avro does before bytes, and
reads nothing else (R-212). Where one way leads to the end of a block, the other runs into damage:
a length shifts all that follows. So the blocks themselves tell, not who wrote them, but for a
value of one byte in few rows, which may make another number of what follows it.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from icectl.errors import CorruptTable
from icectl.files.avro.container import AvroFile, Block, decode_records, read_blocks
from icectl.files.avro.schema import SCHEMAS, AvroType
from icectl.files.manifest.layout import ManifestLayout, find_layout
from icectl.format.manifest import Content, Status

_OTHERS = frozenset({"decimal", "uuid"})
"""Logical types that the reference implementation stores in an Avro fixed as the format says."""

_CODES = {"status": frozenset(map(int, Status)), "content": frozenset(map(int, Content))}
"""Numbers that stand for something: what is shifted seldom has one of them in their place."""


_OF_JAVA = "iceberg.schema"
"""A member of the headers of files that the reference implementation writes, and it alone."""


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
        meant, found = (_values(each, places, block) for each in (plain, with_lengths))
        if found is None:
            return plain
        if meant is None:
            return with_lengths
        is_doubtful |= meant != found  # nulls alone are the same either way
    if is_doubtful and _OF_JAVA in file.metadata:
        return with_lengths
    if is_doubtful:
        message = "its fixed partition values can be read with and without lengths before them"
        raise CorruptTable(message, rule="R-212")
    return plain


def has_lengths(file: AvroFile, layout: ManifestLayout) -> bool:
    """Return whether fixed values have a length in front of them in this manifest (R-212)."""
    return layout.schema is not file.schema


@lru_cache(SCHEMAS)
def _with_lengths(layout: ManifestLayout) -> ManifestLayout | None:
    """Return the layout with a length before each fixed partition value.

    None without such a field.
    """
    fields = layout.partition.fields
    changed = tuple(replace(field, type=_as_bytes(field.type)) for field in fields)
    place = layout.partition_position
    if place is None or all(
        one.type is other.type for one, other in zip(fields, changed, strict=True)
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
    same = all(one is other for one, other in zip(parts, type_.parts, strict=True))
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
    found = [[partition[place] for place in places] for partition in partitions]
    fits = all(
        value is None or len(value) == size
        for values in found
        for value, size in zip(values, sizes, strict=True)
    )
    return found if fits else None
