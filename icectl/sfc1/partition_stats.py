"""Write partition tuples into the statistics of version 4 entries, and recover them (sfc-1 5.4)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isnan

import pyarrow as pa
import pyarrow.compute as pc

from icectl.entries.partition_key import decode_key, encode_keys
from icectl.files.parquet.schema import field_id
from icectl.format.expressions import Expression
from icectl.format.partition import PartitionSpec
from icectl.format.stats_columns import group_id
from icectl.format.types import PrimitiveType, Type
from icectl.sfc1.content_stats import bound_type, typed_values

UNKNOWN_KEY = b"\xff"
"""Stands where a tuple can't be recovered: no tuple has this key, so that it equals none."""

TUPLE_UNKNOWN, TUPLE_RANGE = "E_TUPLE_UNKNOWN", "E_TUPLE_RANGE"


@dataclass(frozen=True, slots=True)
class TupleField:
    """A field of a spec that is not void: its place in the tuple, and where its values are."""

    place: int
    stats_id: int
    type: Type


def tuple_fields(
    spec: PartitionSpec, expressions: Mapping[int, Expression], types: Mapping[int, Type]
) -> tuple[TupleField, ...]:
    """Return the fields whose values statistics hold; `types` are those of stats ids.

    Order: of the spec.
    """
    fields = []
    for place, item in enumerate(spec.fields):
        expression = None if item.expr_id is None else expressions.get(item.expr_id)
        number = item.source_ids[0] if expression is None else expression.stats_id
        if number is not None:
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
    stored = {field_id(one): at for at, one in enumerate(stats.type)}
    groups = stats.flatten()
    for item in fields:
        values = [values[item.place] for values in tuples]
        at = stored[group_id(item.stats_id)]
        groups[at] = _with_values(groups[at], values, encoded.indices, record_counts, item.type)
    return pa.StructArray.from_arrays(groups, fields=list(stats.type))


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
    columns = [
        counted.get(member.name, part)
        for member, part in zip(group.type, group.flatten(), strict=True)
    ]
    return pa.StructArray.from_arrays(columns, fields=list(group.type))


@dataclass(frozen=True, slots=True)
class RecoveredTuples:
    """Keys of tuples, UNKNOWN_KEY where `problems` names what is wrong (sfc-1 5.4)."""

    keys: pa.Array
    problems: pa.Array


def recover(
    stats: pa.StructArray | None, count: int, fields: Sequence[TupleField], width: int
) -> RecoveredTuples:
    """Return the partition tuples of entries, all of one spec with `width` fields.

    Shape: one key per entry, in the encoding of entries/partition_key.py.
    Order: kept.
    """
    problems = pa.nulls(count, pa.string())
    if not width:
        return RecoveredTuples(pa.repeat(pa.scalar(b"", pa.binary()), count), problems)
    absent: list[tuple[Type, pa.Array]] = [
        (PrimitiveType("int"), pa.nulls(count, pa.int32()))
    ] * width
    stored = {} if stats is None else {field_id(one): at for at, one in enumerate(stats.type)}
    groups = [] if stats is None else stats.flatten()
    for item in fields:
        at = stored.get(group_id(item.stats_id))
        if at is None:
            problems = pc.coalesce(problems, pa.repeat(pa.scalar(TUPLE_UNKNOWN), count))
            continue
        values, found = _values(groups[at], item)
        problems = pc.coalesce(problems, found)
        absent[item.place] = (item.type, values)
    keys = encode_keys([type_ for type_, _ in absent], [column for _, column in absent])
    known = problems.is_null()
    keys = pc.if_else(known, keys, pa.scalar(UNKNOWN_KEY, pa.binary()))
    return RecoveredTuples(keys, problems)


def _values(group: pa.StructArray, item: TupleField) -> tuple[pa.Array, pa.Array]:
    """Return the values of one field, and what is wrong with them, by sfc-1 5.4."""
    base = group_id(item.stats_id)
    parts = dict(zip(map(field_id, group.type), group.flatten(), strict=True))
    kind = bound_type(item.type)
    count = len(group)

    def member(offset: int, missing: pa.DataType) -> pa.Array:
        return parts.get(base + offset, pa.nulls(count, missing))

    lower, upper = member(1, kind), member(2, kind)
    values, nulls, nans = (member(offset, pa.int64()) for offset in (4, 5, 6))
    unbounded = pc.and_(lower.is_null(), upper.is_null())
    is_nan = pc.and_(unbounded, _true(pc.and_(pc.greater(nans, 0), pc.equal(nans, values))))
    not_all_null = pc.and_(unbounded, _true(pc.less(nulls, values)))
    unknown = pc.or_(group.is_null(), pc.and_not(not_all_null, is_nan))
    differ = pc.and_(pc.and_(lower.is_valid(), upper.is_valid()), _differ(lower, upper))
    loose = _true(pc.invert(member(3, pa.bool_())))
    ranged = pc.or_(
        pc.and_(lower.is_null(), upper.is_valid()), pc.or_(differ, pc.and_(lower.is_valid(), loose))
    )
    problems = pc.if_else(
        unknown,
        pa.scalar(TUPLE_UNKNOWN),
        pc.if_else(ranged, pa.scalar(TUPLE_RANGE), pa.scalar(None, pa.string())),
    )
    if pc.any(is_nan, min_count=0).as_py():
        lower = pc.if_else(is_nan, pa.scalar(float("nan"), lower.type), lower)
    return lower, problems


def _true(flags: pa.Array) -> pa.Array:
    return pc.fill_null(flags, fill_value=False)


def _differ(lower: pa.Array, upper: pa.Array) -> pa.Array:
    """Find where both bounds are there and differ; -0.0 and 0.0 do (R-083)."""
    if isinstance(lower, pa.ExtensionArray):
        lower, upper = lower.storage, upper.storage
    if pa.types.is_floating(lower.type):
        bits = pa.int32() if lower.type.bit_width == 32 else pa.int64()
        lower, upper = lower.view(bits), upper.view(bits)
    return _true(pc.not_equal(lower, upper))
