"""Statistics of version 4 entries: a struct for each stats id, with bounds of the column's type.

From the maps of older versions and back, from one set of columns to another, and summed up for the
entry of a leaf (sfc-1 5).
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import isnan

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from icectl.entries.rows import E
from icectl.entries.stats import flat, of_field
from icectl.errors import CorruptTable, Unsupported
from icectl.files.parquet.schema import FIELD_ID, arrow_type, arrow_values, field_id
from icectl.format import single_value
from icectl.format.stats_columns import StatsColumn, group_id
from icectl.format.types import PrimitiveType, Type, is_comparable

_COUNTS = {"value_count": 4, "null_count": 5, "nan_count": 6}
_LENGTHS = {"average_uncompressed_length": 7, "max_uncompressed_length": 8}
_REAL = ("float", "double")
_FIXED_WIDTH = {
    "int": "<i4", "date": "<i4", "long": "<i8", "time": "<i8", "float": "<f4", "double": "<f8",
    "timestamp": "<i8", "timestamptz": "<i8", "timestamp_ns": "<i8", "timestamptz_ns": "<i8",
}  # fmt: skip
"""Types whose bounds are numbers of one width, little-endian."""


def stats_type(columns: Sequence[StatsColumn]) -> pa.StructType:
    """Return the type of `content_stats` for these columns, with field ids (V4-140)."""
    return _stats_type(tuple(columns))


@lru_cache(maxsize=8)
def _stats_type(columns: tuple[StatsColumn, ...]) -> pa.StructType:
    return pa.struct(
        [
            pa.field(f"s{one.id}", pa.struct(_members(one)), metadata=_id(group_id(one.id)))
            for one in columns
        ]
    )


def _members(column: StatsColumn) -> list[pa.Field]:
    base = group_id(column.id)
    name = column.type.name if isinstance(column.type, PrimitiveType) else ""
    members: list[pa.Field] = []
    bound = bound_type(column.type)
    if bound is not None:
        members += [
            pa.field("lower_bound", bound, metadata=_id(base + 1)),
            pa.field("upper_bound", bound, metadata=_id(base + 2)),
            pa.field("tight_bounds", pa.bool_(), metadata=_id(base + 3)),
        ]
    members.append(pa.field("value_count", pa.int64(), metadata=_id(base + 4)))
    if not column.is_required or column.is_expression:
        members.append(pa.field("null_count", pa.int64(), metadata=_id(base + 5)))
    if name in _REAL:
        members.append(pa.field("nan_count", pa.int64(), metadata=_id(base + 6)))
    if name in ("string", "binary"):
        members += [
            pa.field(member, pa.int32(), metadata=_id(base + offset))
            for member, offset in _LENGTHS.items()
        ]
    return members


def bound_type(type_: Type) -> pa.DataType | None:
    """Return the Arrow type of a column's bounds; None for types without ordered values."""
    if not is_comparable(type_) or type_ == PrimitiveType("unknown"):
        return None
    return arrow_type(type_)


def _id(number: int) -> dict[bytes, str]:
    return {FIELD_ID: str(number)}


# -- from maps ----------------------------------------------------------------------------------


def from_maps(entries: E, columns: Sequence[StatsColumn]) -> pa.StructArray:
    """Return the statistics that the maps of older manifests hold, of these columns (sfc-1 5.7).

    Shape: one struct per entry; bounds that do not decode are null, as are `tight_bounds`.
    Order: kept.
    """
    count = len(entries)
    flattened = {
        name: flat(entries, name)
        for name in (
            "value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds",
        )
    }  # fmt: skip
    kind = stats_type(columns)
    groups = []
    for column, field in zip(columns, kind, strict=True):
        members = {
            name: of_field(flattened[source], column.id, count)
            for name, source in (
                ("value_count", "value_counts"),
                ("null_count", "null_value_counts"),
                ("nan_count", "nan_value_counts"),
            )
        }
        for name, source in (("lower_bound", "lower_bounds"), ("upper_bound", "upper_bounds")):
            if field.type.get_field_index(name) >= 0:
                stored = of_field(flattened[source], column.id, count)
                members[name] = typed_bounds(column.type, stored)
        groups.append(_group(field.type, members, count))
    return pa.StructArray.from_arrays(groups, fields=list(kind))


def _group(kind: pa.StructType, members: Mapping[str, pa.Array], count: int) -> pa.StructArray:
    """Return the struct of one stats id: null where nothing is known."""
    columns = [
        members[member.name].cast(member.type)
        if member.name in members
        else pa.nulls(count, member.type)
        for member in kind
    ]
    known = np.zeros(count, bool)
    for column in columns:
        if column.null_count < count:
            known |= column.is_valid().to_numpy(zero_copy_only=False)
    return pa.StructArray.from_arrays(columns, fields=list(kind), mask=pa.array(~known))


def typed_bounds(type_: Type, stored: pa.Array) -> pa.Array:
    """Bounds of a type out of their single-value bytes; null where they do not decode (R-096)."""
    wanted = bound_type(type_)
    if isinstance(type_, PrimitiveType) and type_.name in _FIXED_WIDTH:
        fast = _numbers(type_.name, stored)
        if fast is not None:
            return _viewed(fast, stored, wanted)
    if isinstance(type_, PrimitiveType) and type_.name == "binary":
        return stored.cast(wanted)
    return _decoded_bounds(type_, stored)


def _numbers(name: str, stored: pa.Array) -> npt.NDArray[np.int64] | None:
    """Bounds as numbers, where all that are there have the type's own width."""
    dtype = np.dtype(_FIXED_WIDTH[name])
    lengths = pc.fill_null(pc.binary_length(stored), dtype.itemsize)
    if len(stored) and not (pc.min(lengths).as_py() == pc.max(lengths).as_py() == dtype.itemsize):
        return None
    filled = pc.fill_null(stored, bytes(dtype.itemsize)).cast(pa.binary(dtype.itemsize))
    content = filled.buffers()[1]
    return np.frombuffer(content or b"", dtype, count=len(stored), offset=0)


def _viewed(numbers: npt.NDArray[np.int64], stored: pa.Array, wanted: pa.DataType) -> pa.Array:
    missing = stored.is_null().to_numpy(zero_copy_only=False)
    if np.issubdtype(numbers.dtype, np.floating):
        missing = missing | np.isnan(numbers)
    plain = pa.array(numbers, mask=missing)
    return plain if plain.type == wanted else plain.view(wanted)


def _decoded_bounds(type_: Type, stored: pa.Array) -> pa.Array:
    """Return each distinct bound decoded once."""
    encoded = stored.dictionary_encode()
    values = []
    for content in encoded.dictionary.to_pylist():
        try:
            value = single_value.decode(type_, content)
        except ValueError:
            value = None
        values.append(None if isinstance(value, float) and isnan(value) else value)
    return typed_values(type_, values).take(encoded.indices)


def typed_values(type_: Type, values: Sequence[single_value.Value]) -> pa.Array:
    """Python values of a type, as single_value has them, as a column of bounds.

    Raises: Unsupported for a type without bounds.
    """
    if bound_type(type_) is None:
        raise Unsupported("values of this type have no bounds")
    return arrow_values(type_, values)


# -- from one set of columns to another -----------------------------------------------------------


def conform(stats: pa.StructArray | None, columns: Sequence[StatsColumn], count: int) -> pa.Array:
    """Statistics with exactly the members that these columns have (sfc-1 5.1).

    Shape: one struct per row; bounds promoted, groups of other columns dropped, new ones null.
    Order: kept.
    Raises: CorruptTable V4-140, where a stats id has something else than a struct.
    """
    kind = stats_type(columns)
    if stats is None or not kind.num_fields:
        return pa.nulls(count, kind)
    stored = {field_id(one): at for at, one in enumerate(stats.type)}
    flattened = stats.flatten()
    groups = []
    for wanted in kind:
        at = stored.get(field_id(wanted))
        groups.append(
            pa.nulls(count, wanted.type) if at is None else _conformed(flattened[at], wanted.type)
        )
    return pa.StructArray.from_arrays(groups, fields=list(kind), mask=stats.is_null())


def _conformed(group: pa.Array, kind: pa.StructType) -> pa.StructArray:
    if not pa.types.is_struct(group.type):  # V4-140
        message = f"a manifest has statistics of a column as {group.type}, not a struct"
        raise CorruptTable(message, rule="V4-140")
    stored = {field_id(one): at for at, one in enumerate(group.type)}
    flattened = group.flatten()
    members = {}
    for member in kind:
        at = stored.get(field_id(member))
        if at is not None:
            members[member.name] = _promoted(flattened[at], member.type)
    return _group(kind, members, len(group))


def _promoted(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return values of a promoted column (R-097); null where its new type has no such value."""
    if values.type == kind:
        return values
    try:
        return values.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return pa.nulls(len(values), kind)


# -- summed up for the entry of a leaf ------------------------------------------------------------


def aggregate(
    stats: pa.StructArray, columns: Sequence[StatsColumn], record_counts: pa.Array
) -> pa.StructArray:
    """Return the statistics of a leaf's entry, from those of its live rows (sfc-1 5.5).

    Shape: one struct of the same type; members are null where a file lacks them.
    """
    has_rows = pc.greater(record_counts, 0)
    groups = [
        _total(group, column, has_rows)
        for group, column in zip(stats.flatten(), columns, strict=True)
    ]
    return pa.StructArray.from_arrays(groups, fields=list(stats.type))


def _total(stored: pa.StructArray, column: StatsColumn, has_rows: pa.Array) -> pa.StructArray:
    members = {one.name: part for one, part in zip(stored.type, stored.flatten(), strict=True)}
    none = pa.repeat(pa.scalar(0, pa.int64()), len(stored))
    nulls, nans = members.get("null_count", none), members.get("nan_count", none)
    totals = {name: _sum(members[name]) for name in _COUNTS if name in members}
    present = pc.subtract(pc.subtract(members["value_count"], nulls), nans)
    matters = pc.and_not(has_rows, pc.fill_null(pc.equal(present, 0), fill_value=False))
    if "lower_bound" in members:
        lower, upper = (members[name].filter(matters) for name in ("lower_bound", "upper_bound"))
        totals["lower_bound"] = _extreme(lower, column.type, highest=False)
        totals["upper_bound"] = _extreme(upper, column.type, highest=True)
        totals["tight_bounds"] = _tight(members["tight_bounds"].filter(matters))
        if totals["lower_bound"].null_count and totals["upper_bound"].null_count:
            totals["tight_bounds"] = pa.nulls(1, pa.bool_())
    if "max_uncompressed_length" in members:
        totals |= _lengths(members, present, matters)
    return _group(stored.type, totals, 1)


def _sum(values: pa.Array) -> pa.Array:
    total = None if values.null_count else pc.sum(values, min_count=0).as_py()
    return pa.array([total], pa.int64())


def _extreme(values: pa.Array, type_: Type, *, highest: bool) -> pa.Array:
    """Return the lowest or highest value; null where there is none or one is missing (V4-146)."""
    if values.null_count or not len(values):
        return pa.nulls(1, values.type)
    plain = values.storage if isinstance(values, pa.ExtensionArray) else values
    if isinstance(type_, PrimitiveType) and type_.name in _REAL:
        numbers = plain.to_numpy()
        # -0.0 comes before 0.0, which numpy takes for equal.
        order = np.lexsort((np.copysign(1.0, numbers), numbers))
        return values.take(pa.array([order[-1 if highest else 0]]))
    extreme = pc.max(plain) if highest else pc.min(plain)
    return values.take(pa.array([pc.index(plain, extreme).as_py()]))


def _tight(flags: pa.Array) -> pa.Array:
    return pa.array([bool(pc.all(pc.fill_null(flags, fill_value=False), min_count=0).as_py())])


def _lengths(
    members: Mapping[str, pa.Array], present: pa.Array, matters: pa.Array
) -> dict[str, pa.Array]:
    """Average and longest of the values of all files that have any."""
    counts = present.filter(matters)
    lengths: dict[str, int | None] = dict.fromkeys(_LENGTHS)
    average, longest = (members[name].filter(matters) for name in _LENGTHS)
    if len(counts) and not (counts.null_count or average.null_count):
        whole = pc.sum(pc.multiply(average.cast(pa.int64()), counts)).as_py()
        lengths["average_uncompressed_length"] = whole // pc.sum(counts).as_py()
    if len(longest) and not longest.null_count:
        lengths["max_uncompressed_length"] = pc.max(longest).as_py()
    return {name: pa.array([value], pa.int32()) for name, value in lengths.items()}
