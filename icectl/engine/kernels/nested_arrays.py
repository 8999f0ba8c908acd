"""The parts of structs, lists and maps of Arrow, and nulls that nobody sees."""

import pyarrow as pa
from pyarrow import types as arrow_types

from icectl.codec.parquet.schema import child_fields


def is_any_list(kind: pa.DataType) -> bool:
    """Return whether a type is one of Arrow's lists; maps are none."""
    return bool(
        arrow_types.is_list(kind)
        or arrow_types.is_large_list(kind)
        or arrow_types.is_fixed_size_list(kind)
    )


def mask_of(column: pa.Array) -> pa.Array | None:
    """Return where a column is null; None where it is nowhere."""
    return column.is_null() if column.null_count else None


def offsets_of(column: pa.Array) -> pa.Array:
    """Return the offsets of lists or maps into what `used_of` gives of them.

    Shape: no slice of an array, of which none may come with a mask.
    """
    offsets = column.offsets.to_numpy()
    return pa.array(offsets - offsets[0])


def used_of(column: pa.Array, inner: pa.Array) -> pa.Array:
    """Return what lists or maps hold, without the rest of an array that they are a slice of."""
    first, last = (column.offsets[place].as_py() for place in (0, -1))
    return inner.slice(first, last - first)


def hides_nulls(column: pa.Array) -> bool:
    """Return whether a part that may not be null has nulls: where a struct around it is null."""
    kind = column.type
    if arrow_types.is_struct(kind):
        inner = [column.field(place) for place in range(kind.num_fields)]
    elif arrow_types.is_map(kind):
        inner = [column.keys, column.items]
    elif is_any_list(kind):
        inner = [column.values]
    else:
        return False
    pairs = zip(child_fields(kind), inner, strict=True)
    return any((not field.nullable and one.null_count) or hides_nulls(one) for field, one in pairs)


def without_nulls(values: pa.Array) -> pa.Array:
    """Return the values, with whatever bytes there are in the place of nulls.

    A required field has nulls where the struct around it is null, which nobody sees; but Parquet is
    written from no array that has any. Parts of the values are taken to be without them already.
    """
    kind = values.type
    if isinstance(values, pa.ExtensionArray):
        return pa.ExtensionArray.from_storage(kind, without_nulls(values.storage))
    if arrow_types.is_struct(kind):
        fields = [values.field(place) for place in range(kind.num_fields)]
        return pa.StructArray.from_arrays(fields, fields=list(kind))
    if arrow_types.is_map(kind):
        keys, items = (used_of(values, each) for each in (values.keys, values.items))
        return pa.MapArray.from_arrays(offsets_of(values), keys, items, kind)
    if arrow_types.is_list(kind):
        used = used_of(values, values.values)
        return pa.ListArray.from_arrays(offsets_of(values), used, kind)
    return pa.Array.from_buffers(kind, len(values), [None, *values.buffers()[1:]], 0, values.offset)
