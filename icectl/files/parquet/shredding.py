"""Shredded variants: columns of typed values, assembled again to the bytes of variants.

By the specification of variant shredding of Parquet. A group has a `value`, the bytes of what has
no column, and a `typed_value`: a column of one type, a list of such groups, or a struct of them by
the names of fields.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as arrow_types

from icectl.errors import CorruptTable, Unsupported
from icectl.files.arrow_failures import damaged_data_file
from icectl.files.data_rows import child_columns, elements_of
from icectl.files.parquet.schema import (
    METADATA,
    TYPED_VALUE,
    VALUE,
    VARIANT_TYPE,
    Shredding,
    child_fields,
    field_id,
    is_same_type,
    is_variant,
    is_variant_type,
    with_children,
)
from icectl.format import variant
from icectl.format.variant import NULL_VALUE, Names

_Values = list[bytes | None]
_Test = Callable[[pa.DataType], bool]


def common_shredding(schemas: Sequence[pa.Schema]) -> Shredding:
    """Return types of variants shredded alike in all files that have them, by `as_parquet`."""
    variants = [_variants(schema) for schema in schemas]
    alike = {}
    for number, kind in {key: kind for one in variants for key, kind in one.items()}.items():
        others = [one[number] for one in variants if number in one]
        if kind.get_field_index(TYPED_VALUE) >= 0 and all(
            is_same_type(kind, other) for other in others
        ):
            alike[number] = kind
    return alike


def _variants(schema: pa.Schema) -> Shredding:
    """Return the types of all variants of a file, shredded or not, as `as_parquet` has them."""
    found: dict[int, pa.DataType] = {}
    open_ = list(schema)
    while open_:
        field = open_.pop()
        number = field_id(field)
        if number is not None and is_variant(field):
            found[number] = as_parquet(field.type)
        else:
            open_ += child_fields(field.type)
    return found


def unfit_type(kind: pa.DataType) -> pa.DataType | None:
    """Return what variants lack of the type of a stored one: itself, or one inside; None is all.

    The specification of shredding has few types, and no columns but its own.
    """
    kind = as_parquet(kind)
    if not is_variant_type(kind):
        return kind
    return _unfit_group(kind, {METADATA, VALUE, TYPED_VALUE})


def _unfit_group(kind: pa.DataType, allowed: set[str]) -> pa.DataType | None:
    if not arrow_types.is_struct(kind) or _has_twice(kind):
        return kind
    if not allowed.issuperset(child.name for child in kind):
        return kind
    for child in kind:
        if child.name == TYPED_VALUE:
            found = _unfit_typed(child.type)
        else:
            found = None if arrow_types.is_binary(child.type) else child.type
        if found is not None:
            return found
    return None


def _unfit_typed(kind: pa.DataType) -> pa.DataType | None:
    if not (arrow_types.is_struct(kind) or arrow_types.is_list(kind)):
        return None if _writer(kind) is not None else kind
    if arrow_types.is_struct(kind) and _has_twice(kind):
        return kind
    found = (_unfit_group(child.type, {VALUE, TYPED_VALUE}) for child in child_fields(kind))
    return next((one for one in found if one is not None), None)


def _has_twice(kind: pa.DataType) -> bool:
    return len({child.name for child in kind}) < len(list(kind))


def as_parquet(kind: pa.DataType) -> pa.DataType:
    """Return what Parquet has of a type in a variant: no views, dictionaries or large lists."""
    if isinstance(kind, pa.BaseExtensionType):
        return kind if kind == pa.uuid() else as_parquet(kind.storage_type)
    if arrow_types.is_dictionary(kind):
        return as_parquet(kind.value_type)
    if arrow_types.is_nested(kind) and not arrow_types.is_union(kind):
        inner = [child.with_type(as_parquet(child.type)) for child in child_fields(kind)]
        is_list = not (arrow_types.is_struct(kind) or arrow_types.is_map(kind))
        return pa.list_(*inner) if is_list else with_children(kind, inner)
    if arrow_types.is_timestamp(kind) and kind.tz is not None:
        return pa.timestamp(kind.unit, "UTC")
    if arrow_types.is_decimal(kind) and kind.precision <= 38:
        return pa.decimal128(kind.precision, kind.scale)
    return next((plain for test, plain in _PLAIN if test(kind)), kind)


_PLAIN: tuple[tuple[_Test, pa.DataType], ...] = (
    (arrow_types.is_large_string, pa.string()),
    (arrow_types.is_string_view, pa.string()),
    (arrow_types.is_large_binary, pa.binary()),
    (arrow_types.is_binary_view, pa.binary()),
    (arrow_types.is_date64, pa.date32()),
)


def shredded_variants(column: pa.Array) -> pa.Array:
    """Return variants of a file in the type that `as_parquet` has for theirs, fit to be written.

    Nulls in fields that have none are left out: where a struct around them is null. Parquet is
    written from no array that has any.
    """
    return _filled(_plain(column), nullable=True)


def _plain(column: pa.Array) -> pa.Array:
    kind = as_parquet(column.type)
    return column if column.type.equals(kind) else column.cast(kind)


def whole_variants(column: pa.Array) -> pa.Array:
    """Return variants of a file, shredded or not, as VARIANT_TYPE.

    Order: kept.
    Raises: CorruptTable R-099, where values and their columns contradict one another; Unsupported,
    for a column of a type that the specification does not have.
    """
    unfit = unfit_type(column.type)
    if unfit is not None:
        raise Unsupported(f"a variant has a column of type {unfit}, which variants lack")
    column = _plain(column)
    parts = _parts(column)
    is_null = column.is_null()
    metadata = parts[METADATA]
    if TYPED_VALUE in parts:
        values: pa.Array = pa.array(_shredded(column, metadata, is_null), pa.binary())
    else:
        values = parts[VALUE]
    for name, found in ((METADATA, metadata), (VALUE, values)):
        if pc.any(pc.and_(found.is_null(), pc.invert(is_null))).as_py():
            why = ValueError(f"it has no {name}")
            raise _damaged(why) from why
    mask = is_null if column.null_count else None
    filled = [pc.fill_null(one, b"") for one in (metadata, values)]
    return pa.StructArray.from_arrays(filled, fields=list(VARIANT_TYPE), mask=mask)


def check_variants(column: pa.Array, field: pa.Field) -> None:
    """Look at all variants, at any depth. Raises: CorruptTable R-099; else as whole_variants."""
    if is_variant(field):
        whole = whole_variants(column)
        whole = whole.filter(whole.is_valid())
        pairs = set(zip(*(whole.field(at).to_pylist() for at in (0, 1)), strict=True))
        for metadata, value in pairs:
            try:
                variant.check(metadata, value)
            except ValueError as error:
                raise _damaged(error) from error
    elif _variants(pa.schema([field])):
        for part, child in zip(child_columns(column), child_fields(field.type), strict=True):
            check_variants(part, child)


def _damaged(why: object) -> CorruptTable:
    return damaged_data_file("data", f"a variant is damaged: {why}")


def _shredded(column: pa.Array, metadata: pa.Array, is_null: pa.Array) -> _Values:
    try:
        names = [
            None if null else variant.read_metadata(one or b"")
            for one, null in zip(metadata.to_pylist(), is_null.to_pylist(), strict=True)
        ]
        # A value that is missing is a null of variants: one is required here.
        return [
            None if name is None else NULL_VALUE if found is None else found
            for name, found in zip(names, _group(column, names), strict=True)
        ]
    except ValueError as error:
        raise _damaged(error) from error


def _parts(column: pa.Array) -> dict[str, pa.Array]:
    """Return the fields of structs by name, null where the struct is."""
    return {child.name: pc.struct_field(column, [at]) for at, child in enumerate(column.type)}


def _group(column: pa.Array, names: Sequence[Names | None]) -> _Values:
    """Return each group's variant, by the `names` of the one around; None where missing."""
    parts = _parts(column)
    values = parts[VALUE].to_pylist() if VALUE in parts else [None] * len(column)
    for value in values:
        if value is not None and variant.value_size(value, 0, len(value)) not in (None, len(value)):
            raise ValueError("a value ends elsewhere than its bytes")
    typed = parts.get(TYPED_VALUE)
    if typed is None:
        return values
    if arrow_types.is_struct(typed.type):
        return _objects(typed, values, names)
    if arrow_types.is_list(typed.type):
        found = _arrays(typed, names)
    else:
        write = _writer(typed.type)
        assert write is not None
        found = write(typed)
    for value, one in zip(values, found, strict=True):
        if value is not None and one is not None:
            raise ValueError("it has a value and a typed value, and is not an object")
    return [value if one is None else one for value, one in zip(values, found, strict=True)]


def _objects(typed: pa.Array, values: _Values, names: Sequence[Names | None]) -> _Values:
    fields = {
        child.name: _group(pc.struct_field(typed, [at]), names)
        for at, child in enumerate(typed.type)
    }
    found: _Values = []
    present = typed.is_valid().to_pylist()
    for place, value in enumerate(values):
        own = names[place]
        if not present[place] or own is None:
            # Readers of columns take it for no object, others for one or for damage.
            if value is not None and variant.is_object(value):
                raise ValueError("it is an object in its value, and its columns are null")
            found.append(value)
            continue
        shredded = {name: one for name, all_ in fields.items() if (one := all_[place]) is not None}
        others = {} if value is None else variant.fields_of(own, value)
        if others is None:
            raise ValueError("it has a value and a typed value, and is not an object")
        # Readers of a part of the columns take one, others the other.
        twice = next((name for name in others if name in fields), None)
        if twice is not None:
            raise ValueError(f"its field `{twice}` is in a column and in its value")
        found.append(variant.write_object({**others, **shredded}, own.ids))
    return found


def _arrays(typed: pa.Array, names: Sequence[Names | None]) -> _Values:
    lengths = pc.fill_null(pc.list_value_length(typed), 0).to_numpy(zero_copy_only=False)
    owners = np.repeat(np.arange(len(typed)), lengths)
    elements = elements_of(typed)
    inner = _group(elements, [names[owner] for owner in owners.tolist()])
    values = [NULL_VALUE if one is None else one for one in inner]
    ends = np.cumsum(lengths)
    parts = zip((ends - lengths).tolist(), ends.tolist(), typed.is_valid().to_pylist(), strict=True)
    return [
        variant.write_array(values[start:end]) if valid else None for start, end, valid in parts
    ]


def _writer(kind: pa.DataType) -> Callable[[pa.Array], _Values] | None:
    """Return what writes values of a type that holds no other; None of those that variants lack."""
    if kind == pa.uuid():
        return lambda column: _with_first(variant.UUID_, column.storage.to_pylist())
    if arrow_types.is_decimal128(kind):
        return _decimals if 0 <= kind.scale <= 38 else None
    return next((write for test, write in _WRITERS if test(kind)), None)


def _truths(column: pa.Array) -> _Values:
    shown = {None: None, True: bytes([variant.TRUE << 2]), False: bytes([variant.FALSE << 2])}
    return [shown[one] for one in column.to_pylist()]


def _texts(column: pa.Array) -> _Values:
    stored = column.cast(pa.binary()).to_pylist()
    return [None if one is None else variant.write_string(one) for one in stored]


def _octet_strings(column: pa.Array) -> _Values:
    stored = column.to_pylist()
    sized = [None if one is None else len(one).to_bytes(4, "little") + one for one in stored]
    return _with_first(variant.BINARY, sized)


def _numbers(type_id: int, width: int) -> Callable[[pa.Array], _Values]:
    return lambda column: _with_first(type_id, _little_endian(column, width))


def _with_first(type_id: int, contents: Sequence[bytes | None]) -> _Values:
    first = bytes([type_id << 2])
    return [None if one is None else first + one for one in contents]


def _little_endian(column: pa.Array, width: int) -> _Values:
    stored: npt.NDArray[np.uint8] = np.frombuffer(column.buffers()[1] or b"", np.uint8)
    first = column.offset * width
    content = stored[first : first + len(column) * width].tobytes()
    valid = column.is_valid().to_pylist()
    return [
        content[at * width : (at + 1) * width] if is_valid else None
        for at, is_valid in enumerate(valid)
    ]


def _decimals(column: pa.Array) -> _Values:
    kind = column.type
    scale, width = kind.scale, kind.bit_width // 8
    type_id, size = next(
        (type_id, size) for most, type_id, size in _DECIMALS if kind.precision <= most
    )
    found: _Values = []
    for one in _little_endian(column, width):
        if one is None:
            found.append(None)
            continue
        unscaled = int.from_bytes(one, "little", signed=True)
        content = bytes([scale]) + unscaled.to_bytes(size, "little", signed=True)
        found.append(variant.write_primitive(type_id, content))
    return found


_DECIMALS = ((9, variant.DECIMAL4, 4), (18, variant.DECIMAL8, 8), (38, variant.DECIMAL16, 16))
"""Precision up to which a type of decimals is meant, and its bytes."""


def _is_timestamp(unit: str, *, zone: bool) -> _Test:
    def test(kind: pa.DataType) -> bool:
        """Return whether a type is a timestamp of the unit, with a zone or without."""
        is_one = arrow_types.is_timestamp(kind) and kind.unit == unit
        return bool(is_one and (kind.tz is not None) == zone)

    return test


_WRITERS: tuple[tuple[_Test, Callable[[pa.Array], _Values]], ...] = (
    (arrow_types.is_boolean, _truths),
    (arrow_types.is_string, _texts),
    (arrow_types.is_binary, _octet_strings),
    (arrow_types.is_int8, _numbers(variant.INT8, 1)),
    (arrow_types.is_int16, _numbers(variant.INT16, 2)),
    (arrow_types.is_int32, _numbers(variant.INT32, 4)),
    (arrow_types.is_int64, _numbers(variant.INT64, 8)),
    (arrow_types.is_float32, _numbers(variant.FLOAT, 4)),
    (arrow_types.is_float64, _numbers(variant.DOUBLE, 8)),
    (arrow_types.is_date32, _numbers(variant.DATE, 4)),
    (lambda kind: kind == pa.time64("us"), _numbers(variant.TIME, 8)),
    (_is_timestamp("us", zone=True), _numbers(variant.TIMESTAMPTZ, 8)),
    (_is_timestamp("us", zone=False), _numbers(variant.TIMESTAMP, 8)),
    (_is_timestamp("ns", zone=True), _numbers(variant.TIMESTAMPTZ_NS, 8)),
    (_is_timestamp("ns", zone=False), _numbers(variant.TIMESTAMP_NS, 8)),
)
"""What writes values of a type as variants have them."""


def _filled(column: pa.Array, *, nullable: bool) -> pa.Array:
    kind = column.type
    mask = column.is_null() if nullable and column.null_count else None
    if arrow_types.is_struct(kind):
        parts = [
            _filled(column.field(at), nullable=child.nullable) for at, child in enumerate(kind)
        ]
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=mask)
    if arrow_types.is_list(kind):
        first, last = column.offsets[0].as_py(), column.offsets[-1].as_py()
        used = column.values.slice(first, last - first)
        offsets = pa.array(column.offsets.to_numpy() - first)
        inner = _filled(used, nullable=kind.value_field.nullable)
        return pa.ListArray.from_arrays(offsets, inner, kind, mask=mask)
    if nullable or not column.null_count:
        return column
    return _without_validity(column)


def _without_validity(column: pa.Array) -> pa.Array:
    if isinstance(column, pa.ExtensionArray):
        return pa.ExtensionArray.from_storage(column.type, _without_validity(column.storage))
    buffers: list[Any] = [None, *column.buffers()[1:]]
    return pa.Array.from_buffers(column.type, len(column), buffers, 0, column.offset)
