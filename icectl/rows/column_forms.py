"""The forms that columns of a table can have in a merged file: its own types, required or not."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from io import BytesIO

import pyarrow as pa

from icectl.errors import CorruptTable, Unsupported
from icectl.files.parquet.merge_columns import AlikeColumn, FileColumn
from icectl.files.parquet.merge_footer import read_source
from icectl.files.parquet.schema import (
    arrow_schema,
    arrow_type,
    child_fields,
    field_id,
    is_same_type,
)
from icectl.files.parquet.write import ParquetOptions, ParquetWriter
from icectl.format.schema import Schema, children
from icectl.format.types import ListType, MapType, NestedField, PrimitiveType, StructType, Type
from icectl.rows.columns import is_shape
from icectl.rows.read_data import SourceFile, projected

_ANY_FILE = SourceFile("a file", "parquet", 0, 0)


class TableForms:
    """The forms that columns can be decoded and encoded into, of all columns that a table ever had.

    Values get the type that the column has now. Variants and shapes keep the form they have.
    """

    def __init__(self, ever: Schema) -> None:
        self._ever = ever
        self._items: dict[FileColumn, NestedField | None] = {}

    def common_form(
        self, columns: Sequence[AlikeColumn], *, may_be_missing: bool
    ) -> FileColumn | None:
        """Return a form that all of these can have, for the fewest bytes to decode.

        If one of them has it, ties go to the first. None if there is none.
        """
        item = self._ever.field(int(columns[0].column.key))
        if item is None or not _is_encodable(item.type):
            return None
        distinct = list(dict.fromkeys(of.column for of in columns))
        best: FileColumn | None = None
        least = -1
        for form in (*distinct, _encoded(_optional(item))):
            others = [of for of in columns if not of.column.is_stored_as(form)]
            cost = sum(of.size_bytes for of in others)
            if (may_be_missing and not form.is_optional) or 0 <= least <= cost:
                continue
            wanted = self.item_of(form)
            if wanted is not None and all(_can_become(of, wanted) for of in others):
                best, least = form, cost
        return best

    def item_of(self, form: FileColumn) -> NestedField | None:
        """Return a column of the table as its values are written in a form; None if they can't."""
        if form not in self._items:
            item = self._ever.field(int(form.key))
            written = None if item is None else _written_as(item, form.field)
            has_twins = len(set(form.paths)) < len(form.paths)  # a part that was added again
            if has_twins or (written is not None and _encoded(written).form != form.form):
                written = None
            self._items[form] = written
        return self._items[form]


def _is_encodable(type_: Type) -> bool:
    is_kept = is_shape(type_) or type_ in (PrimitiveType("variant"), PrimitiveType("unknown"))
    return not is_kept and all(_is_encodable(child.type) for child in children(type_))


def _optional(item: NestedField) -> NestedField:
    """Return a column with all of its parts optional."""
    parts = map(_optional, children(item.type))
    return replace(item, required=False, type=_with_parts(item.type, parts))


def _written_as(item: NestedField, field: pa.Field) -> NestedField | None:
    """Return a column of the type it has now, with the names of a file, and required as there.

    None where the file has another type, or other parts.
    """
    stored = list(child_fields(field.type)) if pa.types.is_nested(field.type) else []
    parts = children(item.type)
    if field_id(field) != item.id or len(stored) != len(parts):
        return None
    inner = [_written_as(*pair) for pair in zip(parts, stored, strict=True)]
    known = [part for part in inner if part is not None]
    if len(known) < len(inner):
        return None
    type_ = _with_parts(item.type, iter(known))
    written = replace(item, name=field.name, required=not field.nullable, type=type_)
    return written if is_same_type(arrow_type(type_), field.type) else None


def _with_parts(type_: Type, parts: Iterator[NestedField]) -> Type:
    """Return a nested type with other fields, elements, or values."""
    match type_:
        case StructType():
            return replace(type_, fields=tuple(parts))
        case ListType():
            element = next(parts)
            return replace(type_, element=element.type, element_required=element.required)
        case MapType():
            key, value = parts
            return replace(type_, key=key.type, value=value.type, value_required=value.required)
        case _:
            return type_


def _encoded(item: NestedField) -> FileColumn:
    """Return how a column is stored in files that icectl writes."""
    file = BytesIO()
    ParquetWriter(file, arrow_schema(Schema(0, (item,))), ParquetOptions(), {}).close()
    return read_source(file).columns[0]


def _can_become(stored: AlikeColumn, wanted: NestedField) -> bool:
    """Return whether values of a column can be written as another, by footers."""
    field = stored.column.field
    try:
        projected(_ANY_FILE, pa.schema([field]), Schema(0, (wanted,)))
    except (Unsupported, CorruptTable):
        return False
    had = dict(_nullable(field))
    if stored.is_full:
        return all(id_ in had for id_ in _required(wanted))
    return all(had.get(id_) is False for id_ in _required(wanted))


def _required(item: NestedField) -> Iterator[int]:
    """Yield the ids of required parts of a column, and its own."""
    if item.required:
        yield item.id
    for child in children(item.type):
        yield from _required(child)


def _nullable(field: pa.Field) -> Iterator[tuple[int | None, bool]]:
    """Yield whether each part of a stored column may be null, and the column itself, by id."""
    yield field_id(field), field.nullable
    for child in child_fields(field.type) if pa.types.is_nested(field.type) else ():
        yield from _nullable(child)
