"""Statistics of version 4 entries as the maps of older versions, for whoever reads those."""

from collections.abc import Callable, Collection, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from icectl.entries.columns import byte_strings, decimal_bytes, integers, packed, plain
from icectl.entries.rows import CARRIED
from icectl.format.stats_columns import StatsColumn
from icectl.format.types import DecimalType, PrimitiveType, Type

_MEMBERS = {
    "value_counts": "value_count",
    "null_value_counts": "null_count",
    "nan_value_counts": "nan_count",
    "lower_bounds": "lower_bound",
    "upper_bounds": "upper_bound",
}
_REAL = {"float": "<f4", "double": "<f8"}
_FOUR_BYTES = ("int", "date")


def to_maps(
    stats: pa.StructArray, columns: Sequence[StatsColumn], wanted: Collection[str]
) -> dict[str, pa.Array]:
    """Return the metrics maps that statistics hold, under the names of entries/schema.py.

    Shape: one map per row, null where nothing is known; of `wanted` only those there are.
    Order: keys ascend.
    """
    groups = stats.flatten()
    made = {}
    for name, member in _MEMBERS.items():
        if name not in wanted:
            continue
        parts = []
        for column, group in zip(columns, groups, strict=True):
            at = group.type.get_field_index(member)
            if at >= 0 and not column.is_expression:
                values = group.flatten()[at]
                if member.endswith("bound"):
                    values = single_values(column.type, values)
                parts.append((column.id, values))
        made[name] = _map(parts, len(stats), CARRIED.field(name).type)
    return made


def _map(parts: Sequence[tuple[int, pa.Array]], count: int, kind: pa.MapType) -> pa.Array:
    """Return one map per row of the values that each column has there."""
    rows: list[npt.NDArray[np.int64]] = [np.empty(0, np.int64)]
    keys: list[npt.NDArray[np.int32]] = [np.empty(0, np.int32)]
    items: list[pa.Array] = [pa.nulls(0, kind.item_type)]
    for number, values in parts:
        there = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False))
        rows.append(there)
        keys.append(np.full(len(there), number, np.int32))
        items.append(values.take(pa.array(there)).cast(kind.item_type))
    all_rows, all_keys = np.concatenate(rows), np.concatenate(keys)
    order = np.lexsort((all_keys, all_rows))
    lengths = np.bincount(all_rows, minlength=count)
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)]).astype(np.int32)
    entries = pa.StructArray.from_arrays(
        [pa.array(all_keys[order]), pa.concat_arrays(items).take(pa.array(order))],
        fields=[kind.key_field, kind.item_field],
    )
    missing = pa.array(lengths == 0)
    made = pa.MapArray.from_arrays(pa.array(offsets), entries.field(0), entries.field(1))
    return pc.if_else(missing, pa.scalar(None, made.type), made).cast(kind)


def single_values(type_: Type, values: pa.Array) -> pa.Array:
    """Return values of a type as their single-value bytes (R-091); null stays null."""
    if isinstance(type_, DecimalType):
        return _with_nulls(values, packed(decimal_bytes(type_, values)).cast(pa.binary()))
    name = type_.name if isinstance(type_, PrimitiveType) else ""
    encode = _fixed_width(name)
    if encode is not None:
        octets = np.ascontiguousarray(encode(values)).view(np.uint8)
        width = len(octets) // len(values) if len(values) else 1
        stored = pa.Array.from_buffers(pa.binary(width), len(values), [None, pa.py_buffer(octets)])
        return _with_nulls(values, stored.cast(pa.binary()))
    return _with_nulls(values, packed(byte_strings(values)).cast(pa.binary()))


def _fixed_width(name: str) -> Callable[[pa.Array], npt.NDArray[np.generic]] | None:
    if name == "boolean":
        return lambda values: (
            pc.fill_null(values, fill_value=False).to_numpy(zero_copy_only=False).astype(np.uint8)
        )
    if name in _REAL:
        return lambda values: (
            pc.fill_null(plain(values), 0.0).to_numpy(zero_copy_only=False).astype(_REAL[name])
        )
    if name in ("string", "binary", "uuid", ""):
        return None
    width = "<i4" if name in _FOUR_BYTES else "<i8"
    return lambda values: integers(name, values).astype(width)


def _with_nulls(values: pa.Array, encoded: pa.Array) -> pa.Array:
    if not values.null_count:
        return encoded
    return pc.if_else(values.is_valid(), encoded, pa.scalar(None, encoded.type))
