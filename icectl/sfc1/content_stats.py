"""Statistics of version 4 entries: a struct for each stats id, with bounds of the column's type.

From the maps of older versions and back, from one set of columns to another, summed up for the
entry of a leaf, and with partition tuples (sfc-1 5).
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from math import isnan
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from icectl.entries.columns import byte_strings, decimal_bytes, integers, packed, plain, whole
from icectl.entries.partition_key import UNKNOWN_KEY, decode_key, encode_keys
from icectl.entries.rows import CARRIED, E
from icectl.entries.stats import flat, of_field
from icectl.errors import CorruptTable, Unsupported
from icectl.files.parquet.schema import FIELD_ID, arrow_type, arrow_values, field_id
from icectl.format import single_value
from icectl.format.expressions import HIGHEST_STATS_ID, Expression
from icectl.format.metadata import TableMetadata
from icectl.format.partition import PartitionSpec
from icectl.format.types import (
    DecimalType,
    NestedField,
    PrimitiveType,
    StructType,
    Type,
    is_comparable,
    is_nested,
)
from icectl.sfc1.shape_bounds import (
    CORNER,
    CORNER_IDS,
    SHAPES,
    around,
    corner_bytes,
    corner_type,
    corners,
    with_corners_of,
)

STATS_ID, STATS_STEP = 10_000, 200
"""The field id of all statistics, and how many ids there are for those of one column."""


def group_id(stats_id: int) -> int:
    """Field id of the struct of a stats id; its members follow."""
    return STATS_ID + STATS_STEP * stats_id


@dataclass(frozen=True, slots=True)
class StatsColumn:
    """A column or an expression; `is_required` is never true of expressions."""

    id: int
    type: Type
    is_required: bool = False
    is_expression: bool = False


def stats_columns(metadata: TableMetadata) -> tuple[StatsColumn, ...]:
    """Everything that entries of a table may have statistics of.

    Shape: the primitive columns of the current schema outside of lists and maps, columns of older
    schemas that specs partition by identity, and the other expressions that specs use.
    Order: ascending ids.
    """
    columns = {
        column.id: column for column in _columns(metadata.current_schema.fields, required=True)
    }
    used = {item.expr_id for spec in metadata.partition_specs for item in spec.fields}
    for expression in metadata.expressions:
        number = expression.stats_id
        if expression.expr_id not in used or number is None or number in columns:
            continue
        if number == expression.expr_id:
            if expression.type is not None:
                columns[number] = StatsColumn(number, expression.type, is_expression=True)
            continue
        for schema in reversed(metadata.schemas):
            source = schema.field(number)
            if source is not None:
                columns[number] = StatsColumn(number, source.type, source.required)
                break
    return tuple(columns[number] for number in sorted(columns) if 1 <= number <= HIGHEST_STATS_ID)


def _columns(fields: tuple[NestedField, ...], *, required: bool) -> Iterator[StatsColumn]:
    """Yield primitive columns, those inside structs too: required if all around them are."""
    for item in fields:
        is_required = required and item.required
        if isinstance(item.type, StructType):
            yield from _columns(item.type.fields, required=is_required)
        elif not is_nested(item.type):
            yield StatsColumn(item.id, item.type, is_required)


_COUNTS = ("value_count", "null_count", "nan_count")
_LENGTHS = ("average_uncompressed_length", "max_uncompressed_length")
_IN_ORDER = ("lower_bound", "upper_bound", "tight_bounds", *_COUNTS, *_LENGTHS)
"""The members of a group, whose field ids follow that of the group."""

_REAL = ("float", "double")
_FIXED_WIDTH = {
    "int": "<i4", "date": "<i4", "long": "<i8", "time": "<i8", "float": "<f4", "double": "<f8",
    "timestamp": "<i8", "timestamptz": "<i8", "timestamp_ns": "<i8", "timestamptz_ns": "<i8",
}  # fmt: skip
"""Types whose bounds are numbers of one width, little-endian."""

_MEMBERS = {
    "value_counts": "value_count",
    "null_value_counts": "null_count",
    "nan_value_counts": "nan_count",
    "lower_bounds": "lower_bound",
    "upper_bounds": "upper_bound",
}

_PROVEN = {
    "tight_bounds": "tight_bounds",
    "average_lengths": "average_uncompressed_length",
    "max_lengths": "max_uncompressed_length",
}


def stats_type(columns: Sequence[StatsColumn]) -> pa.StructType:
    """Return the type of `content_stats` for these columns, with field ids (V4-140)."""
    return _stats_type(tuple(columns))


@lru_cache(maxsize=8)
def _stats_type(columns: tuple[StatsColumn, ...]) -> pa.StructType:
    return pa.struct(
        [
            pa.field(
                f"s{column.id}", pa.struct(_members(column)), metadata=_id(group_id(column.id))
            )
            for column in columns
        ]
    )


def _members(column: StatsColumn) -> list[pa.Field]:
    name = column.type.name if isinstance(column.type, PrimitiveType) else ""
    kinds: dict[str, pa.DataType] = {}
    bound, is_shape = bound_type(column.type), isinstance(column.type, SHAPES)
    if is_shape:
        base = group_id(column.id)
        kinds |= {
            _IN_ORDER[at - 1]: corner_type(base + offset) for at, offset in CORNER_IDS.items()
        }
    elif bound is not None:
        kinds |= {"lower_bound": bound, "upper_bound": bound, "tight_bounds": pa.bool_()}
    kinds["value_count"] = pa.int64()
    if not column.is_required or column.is_expression:
        kinds["null_count"] = pa.int64()
    if name in _REAL:
        kinds["nan_count"] = pa.int64()
    if name in ("string", "binary") or is_shape:
        kinds |= dict.fromkeys(_LENGTHS, pa.int32())
    first = group_id(column.id) + 1
    return [
        pa.field(member, kind, metadata=_id(first + _IN_ORDER.index(member)))
        for member, kind in kinds.items()
    ]


def bound_type(type_: Type) -> pa.DataType | None:
    """Return the Arrow type of a column's bounds; None for types without any."""
    if isinstance(type_, SHAPES):
        return CORNER
    if not is_comparable(type_) or type_ == PrimitiveType("unknown"):
        return None
    return arrow_type(type_)


def _id(number: int) -> dict[bytes, str]:
    return {FIELD_ID: str(number)}


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
    parts = by_field_id(stats)
    groups = [
        pa.nulls(count, group.type) if part is None else _conformed(part, group.type)
        for group, part in ((group, parts.get(field_id(group))) for group in kind)
    ]
    return pa.StructArray.from_arrays(groups, fields=list(kind), mask=stats.is_null())


def by_field_id(struct: pa.StructArray) -> dict[int | None, pa.Array]:
    """Return the members of a struct by their field ids."""
    return dict(zip(map(field_id, struct.type), struct.flatten(), strict=True))


def _conformed(group: pa.Array, kind: pa.StructType) -> pa.StructArray:
    if not pa.types.is_struct(group.type):  # V4-140
        message = f"a manifest has statistics of a column as {group.type}, not a struct"
        raise CorruptTable(message, rule="V4-140")
    parts = by_field_id(group)
    members = {
        member.name: _promoted(part, member.type)
        for member in kind
        if (part := parts.get(field_id(member))) is not None
    }
    return stats_group(kind, members, len(group))


def _promoted(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return values of a promoted column (R-097); null where its new type has no such value."""
    if pa.types.is_struct(kind):
        return with_corners_of(values, kind)
    if values.type == kind:
        return values
    try:
        return values.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return pa.nulls(len(values), kind)


def stats_group(kind: pa.StructType, members: Mapping[str, pa.Array], count: int) -> pa.StructArray:
    """Return the struct of one stats id: null where nothing is known."""
    columns = [
        _as_member(members[member.name], member.type)
        if member.name in members
        else pa.nulls(count, member.type)
        for member in kind
    ]
    known = np.zeros(count, bool)
    for column in columns:
        if column.null_count < count:
            known |= column.is_valid().to_numpy(zero_copy_only=False)
    return pa.StructArray.from_arrays(columns, fields=list(kind), mask=pa.array(~known))


def _as_member(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return values as a member: corners get the ids of its coordinates."""
    if not pa.types.is_struct(kind):
        return values.cast(kind)
    return pa.StructArray.from_arrays(values.flatten(), fields=list(kind), mask=values.is_null())


# -- summed up for the entry of a leaf ------------------------------------------------------------


def aggregate(
    stats: pa.StructArray, columns: Sequence[StatsColumn], record_counts: pa.Array
) -> pa.StructArray:
    """Return the statistics of a leaf's entry, from those of its live rows (sfc-1 5.5).

    Shape: one struct of the same type; members are null where a file lacks them.
    """
    groups = [
        _total(group, column, record_counts)
        for group, column in zip(stats.flatten(), columns, strict=True)
    ]
    return pa.StructArray.from_arrays(groups, fields=list(stats.type))


def _total(stored: pa.StructArray, column: StatsColumn, record_counts: pa.Array) -> pa.StructArray:
    members = {one.name: part for one, part in zip(stored.type, stored.flatten(), strict=True)}
    none = pa.repeat(pa.scalar(0, pa.int64()), len(stored))
    nulls, nans = members.get("null_count", none), members.get("nan_count", none)
    totals = {
        name: pa.array([None if part.null_count else pc.sum(part, min_count=0).as_py()], pa.int64())
        for name, part in members.items()
        if name in _COUNTS
    }
    # Of the rows of the file: not all writers count nulls among the values.
    present = pc.subtract(pc.subtract(record_counts, nulls), nans)
    has_none = pc.fill_null(pc.less_equal(present, 0), fill_value=False)
    matters = pc.and_not(pc.greater(record_counts, 0), has_none)
    if "lower_bound" in members:
        lower, upper = (members[name].filter(matters) for name in ("lower_bound", "upper_bound"))
        if isinstance(column.type, SHAPES):
            totals["lower_bound"], totals["upper_bound"] = around(lower, upper, column.type)
        else:
            totals["lower_bound"] = _extreme(lower, column.type, highest=False)
            totals["upper_bound"] = _extreme(upper, column.type, highest=True)
            tight = _true(members["tight_bounds"].filter(matters))
            totals["tight_bounds"] = pa.array([bool(pc.all(tight, min_count=0).as_py())])
            if totals["lower_bound"].null_count and totals["upper_bound"].null_count:
                totals["tight_bounds"] = pa.nulls(1, pa.bool_())
    if "max_uncompressed_length" in members:
        totals |= _lengths(members, present, matters)
    return stats_group(stored.type, totals, 1)


def _extreme(values: pa.Array, type_: Type, *, highest: bool) -> pa.Array:
    """Return the lowest or highest value; null where there is none or one is missing (V4-146)."""
    if values.null_count or not len(values):
        return pa.nulls(1, values.type)
    stored = plain(values)
    if isinstance(type_, PrimitiveType) and type_.name in _REAL:
        numbers = stored.to_numpy()
        # -0.0 comes before 0.0, which numpy takes for equal.
        order = np.lexsort((np.copysign(1.0, numbers), numbers))
        return values.take(pa.array([order[-1 if highest else 0]]))
    extreme = pc.max(stored) if highest else pc.min(stored)
    return values.take(pa.array([pc.index(stored, extreme).as_py()]))


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


# -- from the maps of older versions --------------------------------------------------------------


def from_maps(entries: E, columns: Sequence[StatsColumn]) -> pa.StructArray:
    """Return the statistics that the maps of older manifests hold, of these columns (sfc-1 5.7).

    Shape: one struct per entry; bounds that do not decode are null. `tight_bounds` and lengths are
    known where all values of a file are one, and where entries of new files have columns of PROVEN.
    Order: kept.
    """
    count, kind = len(entries), stats_type(columns)
    if not columns:
        return pa.nulls(count, kind)
    record_counts = whole(entries.table["record_count"])
    there = entries.table.column_names
    sources = _MEMBERS | {name: member for name, member in _PROVEN.items() if name in there}
    flattened = {name: flat(entries, name) for name in sources}
    groups = []
    for column, field in zip(columns, kind, strict=True):
        members = {}
        for source, name in sources.items():
            if field.type.get_field_index(name) >= 0:
                stored = of_field(flattened[source], column.id, count)
                is_bound = name.endswith("bound")
                members[name] = typed_bounds(column.type, stored) if is_bound else stored
        for name, found in _of_one_value(column.type, members, record_counts).items():
            proven = members.get(name, pa.nulls(count, found.type))
            members[name] = pc.coalesce(found, proven.cast(found.type))
        groups.append(stats_group(field.type, members, count))
    return pa.StructArray.from_arrays(groups, fields=list(kind))


def _of_one_value(
    type_: Type, members: Mapping[str, pa.Array], record_counts: pa.Array
) -> dict[str, pa.Array]:
    """Return what follows for files whose values are all the same, as their bounds are equal.

    There must be a value. Zeros are left out: not all writers tell them apart.
    """
    lower, upper = members.get("lower_bound"), members.get("upper_bound")
    if lower is None or upper is None or isinstance(type_, SHAPES):
        return {}
    none = pa.repeat(pa.scalar(0, pa.int64()), len(lower))
    known = [members.get(name, none) for name in ("null_count", "nan_count")]
    is_one = _true(pc.less(pc.add(*known), record_counts))
    is_one = pc.and_(is_one, pc.and_(lower.is_valid(), upper.is_valid()))
    is_one = pc.and_not(is_one, differing(lower, upper))
    if pa.types.is_floating(lower.type):
        is_one = pc.and_not(is_one, _true(pc.equal(lower, pa.scalar(0, lower.type))))
    known_tight = pc.if_else(is_one, True, pa.scalar(None, pa.bool_()))  # noqa: FBT003
    return {"tight_bounds": known_tight, **_lengths_of(type_, lower, is_one)}


def _lengths_of(type_: Type, values: pa.Array, is_one: pa.Array) -> dict[str, pa.Array]:
    """Return the lengths of texts in bytes where a file has one value; none of other types."""
    if type_ not in (PrimitiveType("string"), PrimitiveType("binary")):
        return {}
    lengths = pc.if_else(is_one, pc.binary_length(values), pa.scalar(None, pa.int32()))
    return dict.fromkeys(_LENGTHS, lengths)


def typed_bounds(type_: Type, stored: pa.Array) -> pa.Array:
    """Bounds of a type out of their single-value bytes; null where they do not decode (R-096)."""
    wanted = bound_type(type_)
    if isinstance(type_, SHAPES):
        return corners(stored)
    if isinstance(type_, PrimitiveType) and type_.name in _FIXED_WIDTH:
        fast = _numbers(type_.name, stored)
        if fast is not None:
            missing = stored.is_null().to_numpy(zero_copy_only=False)
            if np.issubdtype(fast.dtype, np.floating):
                missing = missing | np.isnan(fast)
            bounds = pa.array(fast, mask=missing)
            return bounds if bounds.type == wanted else bounds.view(wanted)
    if isinstance(type_, PrimitiveType) and type_.name in ("binary", "string"):
        with suppress(pa.ArrowInvalid):  # bytes that are no text decode one by one
            return stored.cast(wanted)
    encoded = stored.dictionary_encode()
    values = []
    for content in encoded.dictionary.to_pylist():
        try:
            value = single_value.decode(type_, content)
        except ValueError:
            value = None
        is_nan = isinstance(value, float) and isnan(value)
        values.append(None if is_nan or _is_too_wide(type_, value) else value)
    return typed_values(type_, values).take(encoded.indices)


def _is_too_wide(type_: Type, value: single_value.Value) -> bool:
    """Return whether a decimal has more digits than its type holds."""
    if not isinstance(type_, DecimalType) or not isinstance(value, Decimal):
        return False
    return len(value.as_tuple().digits) > type_.precision


def _numbers(name: str, stored: pa.Array) -> npt.NDArray[np.int64] | None:
    """Bounds as numbers, where all that are there have the type's own width."""
    dtype = np.dtype(_FIXED_WIDTH[name])
    lengths = pc.fill_null(pc.binary_length(stored), dtype.itemsize)
    if len(stored) and not (pc.min(lengths).as_py() == pc.max(lengths).as_py() == dtype.itemsize):
        return None
    filled = pc.fill_null(stored, bytes(dtype.itemsize)).cast(pa.binary(dtype.itemsize))
    content = filled.buffers()[1]
    return np.frombuffer(content or b"", dtype, count=len(stored), offset=0)


def typed_values(type_: Type, values: Sequence[single_value.Value]) -> pa.Array:
    """Python values of a type, as single_value has them, as a column of bounds.

    Raises: Unsupported for a type without bounds.
    """
    if bound_type(type_) is None:
        raise Unsupported("values of this type have no bounds")
    return arrow_values(type_, values)


# -- as the maps of older versions ----------------------------------------------------------------


def to_maps(
    stats: pa.StructArray, columns: Sequence[StatsColumn], wanted: Collection[str]
) -> dict[str, pa.Array]:
    """Return the metrics maps that statistics hold, under the names of entries/schema.py.

    Shape: one map per row, null where nothing is known; of `wanted` only those there are.
    Order: keys ascend.
    """
    groups = stats.flatten()
    maps = {}
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
        maps[name] = _map(parts, len(stats), CARRIED.field(name).type)
    return maps


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
    name = type_.name if isinstance(type_, PrimitiveType) else ""
    if isinstance(type_, SHAPES):
        return corner_bytes(values)
    if isinstance(type_, DecimalType):
        encoded = packed(decimal_bytes(type_, values))
    elif name == "boolean" or name in _FIXED_WIDTH:
        octets = np.ascontiguousarray(_numbers_of(name, values)).view(np.uint8)
        width = len(octets) // len(values) if len(values) else 1
        encoded = pa.Array.from_buffers(pa.binary(width), len(values), [None, pa.py_buffer(octets)])
    else:
        encoded = packed(byte_strings(values))
    encoded = encoded.cast(pa.binary())
    if not values.null_count:
        return encoded
    return pc.if_else(values.is_valid(), encoded, pa.scalar(None, encoded.type))


def _numbers_of(name: str, values: pa.Array) -> npt.NDArray[Any]:
    """Return values of one width as little-endian numbers; null is 0."""
    if name == "boolean":
        flags = pc.fill_null(values, fill_value=False)
        return np.asarray(flags.to_numpy(zero_copy_only=False), np.uint8)
    if name in _REAL:
        numbers = pc.fill_null(plain(values), 0.0)
        return np.asarray(numbers.to_numpy(zero_copy_only=False), _FIXED_WIDTH[name])
    return integers(name, values).astype(_FIXED_WIDTH[name])


# -- partition tuples -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TupleField:
    """A field of a spec that is not void: its place in the tuple, and where its values are."""

    place: int
    stats_id: int
    type: Type


def tuple_fields(
    spec: PartitionSpec,
    expressions: Mapping[int, Expression],
    types: Mapping[int, Type],
    *,
    known: bool = False,
) -> tuple[TupleField, ...]:
    """Return the fields whose values statistics hold; `types` are those of stats ids.

    With `known`, a field without a type is left out.
    Order: of the spec.
    Raises: KeyError, for a field without a type.
    """
    fields = []
    for place, item in enumerate(spec.fields):
        expression = None if item.expr_id is None else expressions.get(item.expr_id)
        number = item.source_ids[0] if expression is None else expression.stats_id
        if number is not None and (number in types or not known):
            fields.append(TupleField(place, number, types[number]))
    return tuple(fields)


def with_tuples(
    stats: pa.StructArray,
    keys: pa.Array,
    record_counts: pa.Array,
    fields: Sequence[TupleField],
    types: Sequence[Type | None],
) -> pa.StructArray:
    """Statistics that hold the partition tuples of entries, all of one spec (V4-141, V4-142).

    `types` are the result types of the spec's fields, which the keys are decoded with.
    Order: kept.
    """
    if not fields or not len(keys):
        return stats
    encoded = keys.dictionary_encode()
    tuples = [decode_key(key, types) for key in encoded.dictionary.to_pylist()]
    groups = by_field_id(stats)
    for item in fields:
        values, number = [values[item.place] for values in tuples], group_id(item.stats_id)
        groups[number] = _with_values(
            groups[number], values, encoded.indices, record_counts, item.type
        )
    return pa.StructArray.from_arrays(list(groups.values()), fields=list(stats.type))


def _with_values(
    group: pa.StructArray,
    values: Sequence[object],
    indices: pa.Array,
    record_counts: pa.Array,
    type_: Type,
) -> pa.StructArray:
    is_nan = [isinstance(value, float) and isnan(value) for value in values]
    bounds = typed_values(
        type_, [None if nan else value for value, nan in zip(values, is_nan, strict=True)]
    ).take(indices)
    nulls = pa.array([value is None for value in values]).take(indices)
    nans = pa.array(is_nan).take(indices)
    zeros = pa.repeat(pa.scalar(0, pa.int64()), len(indices))
    counted = {
        "lower_bound": bounds,
        "upper_bound": bounds,
        "tight_bounds": pc.if_else(bounds.is_valid(), True, pa.scalar(None, pa.bool_())),  # noqa: FBT003
        "value_count": record_counts,
        "null_count": pc.if_else(nulls, record_counts, zeros),
        "nan_count": pc.if_else(nans, record_counts, zeros),
    }
    counted |= _lengths_of(type_, bounds, bounds.is_valid())
    columns = [
        counted.get(member.name, part)
        for member, part in zip(group.type, group.flatten(), strict=True)
    ]
    return pa.StructArray.from_arrays(columns, fields=list(group.type))


def recover(
    stats: pa.StructArray | None, count: int, fields: Sequence[TupleField], width: int
) -> pa.Array:
    """Return the partition tuples of entries, all of one spec with `width` fields.

    Shape: one key per entry, in the encoding of entries/partition_key.py; UNKNOWN_KEY where a value
    is not told (sfc-1 5.4).
    Order: kept.
    """
    if not width:
        return pa.repeat(pa.scalar(b"", pa.binary()), count)
    values, is_unknown = tuple_values(stats, count, fields)
    types: list[Type] = [PrimitiveType("int")] * width
    columns = [pa.nulls(count, pa.int32())] * width
    for item, column in zip(fields, values, strict=True):
        types[item.place], columns[item.place] = item.type, column
    keys = encode_keys(types, columns)
    return pc.if_else(is_unknown, pa.scalar(UNKNOWN_KEY, pa.binary()), keys)


def tuple_values(
    stats: pa.StructArray | None, count: int, fields: Sequence[TupleField]
) -> tuple[Sequence[pa.Array], pa.Array]:
    """Return the values of each field, and of which entries one is not told (sfc-1 5.4).

    Shape: columns of the fields' types, with one value an entry.
    """
    groups = {} if stats is None else by_field_id(stats)
    is_unknown, columns = pa.repeat(pa.scalar(value=False), count), []
    for item in fields:
        group = groups.get(group_id(item.stats_id))
        if group is None:
            values, unknown_here = pa.nulls(count, bound_type(item.type)), pa.scalar(value=True)
        else:
            values, unknown_here = _values(group, item)
        is_unknown = pc.or_(is_unknown, unknown_here)
        columns.append(values)
    return columns, is_unknown


def _values(group: pa.StructArray, item: TupleField) -> tuple[pa.Array, pa.Array]:
    """Return the values of one field, and where they are not told (sfc-1 5.4)."""
    base = group_id(item.stats_id)
    parts = by_field_id(group)
    kind = bound_type(item.type)

    def member(offset: int, missing: pa.DataType) -> pa.Array:
        return parts.get(base + offset, pa.nulls(len(group), missing))

    lower, upper = member(1, kind), member(2, kind)
    values, nulls, nans = (member(offset, pa.int64()) for offset in (4, 5, 6))
    unbounded = pc.and_(lower.is_null(), upper.is_null())
    is_nan = pc.and_(unbounded, _true(pc.and_(pc.greater(nans, 0), pc.equal(nans, values))))
    not_all_null = pc.and_(unbounded, _true(pc.less(nulls, values)))
    unknown = pc.or_(group.is_null(), pc.and_not(not_all_null, is_nan))
    differ = pc.and_(pc.and_(lower.is_valid(), upper.is_valid()), differing(lower, upper))
    loose = _true(pc.invert(member(3, pa.bool_())))
    ranged = pc.or_(
        pc.and_(lower.is_null(), upper.is_valid()), pc.or_(differ, pc.and_(lower.is_valid(), loose))
    )
    if pc.any(is_nan, min_count=0).as_py():
        lower = pc.if_else(is_nan, pa.scalar(float("nan"), lower.type), lower)
    return lower, pc.or_(unknown, ranged)


def _true(flags: pa.Array) -> pa.Array:
    return pc.fill_null(flags, fill_value=False)


def differing(lower: pa.Array, upper: pa.Array) -> pa.Array:
    """Find where both bounds are there and differ; -0.0 and 0.0 do (R-083)."""
    lower, upper = plain(lower), plain(upper)
    if pa.types.is_floating(lower.type):
        bits = pa.int32() if lower.type.bit_width == 32 else pa.int64()
        lower, upper = lower.view(bits), upper.view(bits)
    return _true(pc.not_equal(lower, upper))
