"""Select files and manifests that may have rows matching a condition.

Files are judged by their partitions and metrics, manifests by their partition summaries. Unknown
values match: a missing metric (R-130), an unknown transform (R-117), a partition field that a spec
lacks.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property, lru_cache
from operator import le, lt

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from icectl.entries.bound_values import decimal_bounds, integer_bounds, real_bounds
from icectl.entries.columns import Mask
from icectl.entries.conditions import (
    And,
    Column,
    Compare,
    Constant,
    IsNan,
    IsNull,
    Leaf,
    Not,
    Or,
    Predicate,
    StartsWith,
)
from icectl.entries.partition_key import PartitionValue, decode_key
from icectl.entries.rows import Entries, numbers
from icectl.entries.stats import flat, of_field
from icectl.format.manifest import Content, FieldSummary, ManifestFile
from icectl.format.partition import PartitionField, PartitionSpec, result_types
from icectl.format.schema import Schema
from icectl.format.single_value import EXACT, UNITS_PER_SECOND, Value, decode, encode
from icectl.format.transforms import Transform, apply
from icectl.format.types import DecimalType, FixedType, PrimitiveType, Type

_DATE_UNITS = ("year", "month", "day", "hour")
_WHOLE = ("int", "long", "date", "time")
_NO_ORDER = (PrimitiveType("uuid"),)
"""Types whose order writers have not agreed on."""
_GREATEST = (2**31 - 1, 2**63 - 1)
"""The greatest values of int and long."""

METRICS = frozenset({"null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds"})
"""The columns of entries that conditions on columns are decided by."""

Signs = npt.NDArray[np.int8]

_INTEGERS = {"int", "long", "date", "time", *UNITS_PER_SECOND}
_REALS = {"float", "double"}
_STRINGS = {"string", "binary"}


@dataclass(frozen=True, slots=True)
class May:
    """The answer to whether a condition may be true, and whether it may be false, of some row."""

    be_true: bool
    be_false: bool


UNKNOWN = May(be_true=True, be_false=True)


@dataclass(frozen=True, slots=True)
class PartitionRange:
    """The values of a partition field: null, NaN, and others between two bounds, both included.

    A bound of None says that there are no others.
    """

    lower: PartitionValue = None
    upper: PartitionValue = None
    contains_null: bool = False
    contains_nan: bool = False


def of_partition(leaf: Leaf, transform: Transform, value: PartitionValue) -> May:
    """Tell what a partition value says of rows, whose column gives it through the transform.

    Spec: R-117, projection is inclusive; an unknown transform and void say nothing.
    """
    is_nan = isinstance(value, float) and math.isnan(value)
    other = None if is_nan else value
    return of_range(leaf, transform, PartitionRange(other, other, value is None, is_nan))


def of_range(leaf: Leaf, transform: Transform, values: PartitionRange) -> May:
    """Tell the same of rows whose partition values are in a range."""
    if transform.name in ("unknown", "void"):
        return UNKNOWN
    parts = []
    if values.contains_null:
        # A null column gives null; it compares as neither true nor false.
        parts.append(_either(holds=True) if isinstance(leaf, IsNull) else _of_null(leaf))
    if values.contains_nan:
        parts.append(_either(isinstance(leaf, IsNan)))
    if values.lower is not None:
        try:
            parts.append(_between(leaf, transform, values.lower, values.upper))
        except ValueError:  # the transform does not take the column's type
            return UNKNOWN
    if len(parts) == 1:
        return parts[0]
    return May(any(part.be_true for part in parts), any(part.be_false for part in parts))


def _either(holds: bool) -> May:  # noqa: FBT001
    return May(be_true=holds, be_false=not holds)


def _of_null(leaf: Leaf) -> May:
    return May(be_true=False, be_false=isinstance(leaf, IsNan))


def _between(leaf: Leaf, transform: Transform, low: Value, high: Value) -> May:
    """Tell what partition values between two others say; neither is null or NaN."""
    name, width = transform.name, transform.width or 0
    match leaf:
        case IsNull():
            return _either(holds=False)
        case IsNan():
            return _either(holds=False)
        case StartsWith(_, prefix):
            if name not in ("identity", "truncate"):
                return UNKNOWN
            is_whole = name == "identity" or len(prefix) <= width
            known = prefix if is_whole else prefix[:width]
            first, last = str(low)[: len(known)], str(high)[: len(known)]
            return May(first <= known <= last, not (is_whole and first == known == last))
        case Compare(column, operator, wanted):
            if name == "bucket":
                if operator != "=":
                    return UNKNOWN
                bucket = apply(transform, column.type, wanted)
                return May(bool(low <= bucket <= high), be_false=True)
            if column.type in _NO_ORDER and (operator != "=" or low != high):
                return UNKNOWN
            if name == "identity":
                return _compared(operator, low, high, wanted)
            return _of_ordered(leaf, transform, low, high)


def _compared(operator: str, low: Value, high: Value, wanted: Value) -> May:
    if operator == "=":
        return May(bool(low <= wanted <= high), not low == wanted == high)
    holds = _HOLDS[operator]
    return May(bool(holds(low, wanted)), not holds(high, wanted))


_HOLDS: Mapping[str, Callable[[Value, Value], object]] = {"<": lt, "<=": le}


def _of_ordered(leaf: Compare, transform: Transform, low: Value, high: Value) -> May:
    """Transforms that keep the order: `x < v` may hold where theirs is not above that of `v`."""
    width, (highest, lowest) = transform.width or 0, _ends(leaf, transform)
    if isinstance(low, int) and any(low <= end and high > end - width for end in _GREATEST):
        return UNKNOWN  # the least numbers, rounded down, became the greatest ones
    if transform.name in _DATE_UNITS and isinstance(low, int) and low <= 0:
        low -= 1  # old writers rounded moments before 1970 up
    if leaf.operator == "=":
        return May(bool(low <= highest <= high), be_false=True)
    return May(bool(low <= highest), bool(high >= lowest))


@lru_cache(64)
def _ends(leaf: Compare, transform: Transform) -> tuple[Value, Value]:
    """Return the greatest partition value of which a comparison may be true, and the least of which
    it may be false; of equality both are that of its value. Raises: ValueError."""
    type_, operator = leaf.column.type, leaf.operator
    highest = _next_to(type_, leaf.value, -1) if operator == "<" else leaf.value
    lowest = _next_to(type_, leaf.value, 1) if operator == "<=" else leaf.value
    return apply(transform, type_, highest), apply(transform, type_, lowest)


def _next_to(type_: Type, value: Value, step: int) -> Value:
    """Return the next value below or above; the value itself where a type has none."""
    match type_:
        case PrimitiveType(name) if name in _WHOLE or name.startswith("timestamp"):
            return value + step
        case DecimalType(_, scale):
            return EXACT.add(value, Decimal(step).scaleb(-scale, EXACT))
        case _:
            return value


@dataclass(frozen=True, slots=True)
class _Outcome:
    """The outcome of a condition: for each file whether it may be true, or false, of a row."""

    be_true: Mask
    be_false: Mask


def may_match(
    entries: Entries,
    predicate: Predicate,
    specs: Sequence[PartitionSpec],
    schemas: Sequence[Schema],
) -> Mask:
    """Return whether each data file may hold a row for which the condition is true.

    `entries` have METRICS where a condition is on a column; without them all files match it.
    Raises: CorruptTable R-068.
    Cost: some passes over the metrics per condition; each distinct partition once per condition.
    """
    evaluation = _Evaluation(entries, specs, schemas)
    return _combined(predicate, len(entries), evaluation.may).be_true


def files_may_match(
    entries: Entries,
    predicate: Predicate,
    specs: Sequence[PartitionSpec],
    schemas: Sequence[Schema],
) -> Mask:
    """Return may_match of data files, and of delete files as far as their partitions tell.

    Metrics of a delete file are of what it deletes by. Errors, cost: as may_match.
    """
    is_data = numbers(entries, "content") == Content.DATA
    by_partition = Entries(entries.table.drop_columns(sorted(METRICS)))
    data, deletes = (may_match(part, predicate, specs, schemas) for part in (entries, by_partition))
    return np.where(is_data, data, deletes)


def all_match(
    entries: Entries,
    predicate: Predicate,
    specs: Sequence[PartitionSpec],
    schemas: Sequence[Schema],
) -> Mask:
    """Whether each data file can be proved to hold no row but such that the condition is true of.

    A row of which it is unknown is none. `entries`, errors and cost as may_match.
    """
    evaluation = _Evaluation(entries, specs, schemas)
    return _combined(predicate, len(entries), evaluation.surely).be_true


def manifests_may_match(
    manifests: Sequence[ManifestFile],
    predicate: Predicate,
    specs: Sequence[PartitionSpec],
    schemas: Sequence[Schema],
) -> Mask:
    """Return whether each manifest may list a file with a row for which the condition is true.

    Spec: R-053, R-117; a manifest without summaries of all partition fields may.
    Cost: a look at the summaries of each manifest per condition.
    """
    known_specs = {spec.spec_id: (spec, result_types(spec, schemas)) for spec in specs}
    ranges = [_ranges(manifest, known_specs) for manifest in manifests]

    def may(leaf: Leaf) -> _Outcome:
        transforms = {
            (spec.spec_id, at): _transform(leaf.column, field, schemas)
            for spec in specs
            for at, field in enumerate(spec.fields)
        }
        answers = [_of_ranges(leaf, of_manifest, transforms) for of_manifest in ranges]
        return _Outcome(
            np.array([answer.be_true for answer in answers], np.bool_),
            np.array([answer.be_false for answer in answers], np.bool_),
        )

    return _combined(predicate, len(manifests), may).be_true


_Field = tuple[int, int]
"""A partition field: its spec and its place there."""

_Ranges = Sequence[tuple[_Field, PartitionRange]]
"""Partition fields of a manifest whose values are known to be in a range."""


def _ranges(
    manifest: ManifestFile, specs: Mapping[int, tuple[PartitionSpec, Sequence[Type | None]]]
) -> _Ranges:
    spec, types = specs.get(manifest.partition_spec_id, (None, ()))
    if spec is None or manifest.partitions is None or len(manifest.partitions) != len(types):
        return ()
    pairs = enumerate(map(_range, manifest.partitions, types))
    return [((spec.spec_id, at), known) for at, known in pairs if known is not None]


def _range(summary: FieldSummary, type_: Type | None) -> PartitionRange | None:
    """Return the values that a summary leaves possible; None for any."""
    if type_ is None:
        return None
    is_real = isinstance(type_, PrimitiveType) and type_.name in _REALS
    has_null, has_nan = summary.contains_null, is_real and summary.contains_nan is not False
    if summary.lower_bound is None or summary.upper_bound is None:
        is_known = summary.lower_bound is summary.upper_bound is None and (has_null or has_nan)
        return PartitionRange(None, None, has_null, has_nan) if is_known else None
    try:
        low, high = decode(type_, summary.lower_bound), decode(type_, summary.upper_bound)
    except ValueError:
        return None
    return PartitionRange(low, high, has_null, has_nan) if low <= high else None  # not of NaN


def _of_ranges(leaf: Leaf, ranges: _Ranges, transforms: Mapping[_Field, Transform | None]) -> May:
    may = UNKNOWN
    for field, values in ranges:
        transform = transforms[field]
        if transform is not None:
            answer = of_range(leaf, transform, values)
            if may is UNKNOWN:
                may = answer
                continue
            may = May(may.be_true and answer.be_true, may.be_false and answer.be_false)
    return may


def _combined(
    predicate: Predicate, count: int, of_leaf: Callable[[Leaf], "_Outcome"]
) -> "_Outcome":
    """Evaluate a predicate for each of `count` objects, by what its single conditions give."""
    match predicate:
        case Constant(value):
            return _Outcome(np.full(count, value, np.bool_), np.full(count, not value, np.bool_))
        case Not(part):
            outcome = _combined(part, count, of_leaf)
            return _Outcome(outcome.be_false, outcome.be_true)
        case And(parts) | Or(parts):
            of_parts = [_combined(part, count, of_leaf) for part in parts]
            be_true = [outcome.be_true for outcome in of_parts]
            be_false = [outcome.be_false for outcome in of_parts]
            if isinstance(predicate, And):
                return _Outcome(_every(be_true), _any(be_false))
            return _Outcome(_any(be_true), _every(be_false))
        case _:
            return of_leaf(predicate)


def _transform(column: Column, item: PartitionField, schemas: Sequence[Schema]) -> Transform | None:
    """Return a partition field's transform of a column; None where it says nothing of it."""
    if column.field_id is None:
        is_it = item.name == column.name and item.transform.name != "void"  # a dropped one
        return Transform("identity", "identity") if is_it else None
    if item.source_ids != (column.field_id,) or _was_date(column, schemas):
        return None
    return item.transform


def _was_date(column: Column, schemas: Sequence[Schema]) -> bool:
    """Whether a column of timestamps was one of dates, whose partition values are days."""
    if not isinstance(column.type, PrimitiveType) or column.type.name == "date":
        return False
    fields = (schema.field(column.field_id or 0) for schema in schemas)
    return any(item is not None and item.type == PrimitiveType("date") for item in fields)


@dataclass(frozen=True)
class _Partitions:
    """The distinct partitions of one spec: rows of the entries, and each one's partition."""

    spec: PartitionSpec
    rows: npt.NDArray[np.int64]
    places: npt.NDArray[np.int64]
    values: Sequence[tuple[PartitionValue, ...]]


@dataclass(frozen=True)
class _Evaluation:
    entries: Entries
    specs: Sequence[PartitionSpec]
    schemas: Sequence[Schema]

    def _all(self, value: bool) -> Mask:  # noqa: FBT001
        return np.full(len(self.entries), value, np.bool_)

    def may(self, leaf: Leaf) -> _Outcome:
        """Whether a condition may be true, or false, of a row of each file."""
        be_true, be_false = self._all(True), self._all(True)  # noqa: FBT003
        for part in self._partitions:
            for at, item in enumerate(part.spec.fields):
                transform = _transform(leaf.column, item, self.schemas)
                if transform is None:
                    continue
                answers = [of_partition(leaf, transform, values[at]) for values in part.values]
                may_be_true = np.array([answer.be_true for answer in answers])
                may_be_false = np.array([answer.be_false for answer in answers])
                be_true[part.rows] &= may_be_true[part.places]
                be_false[part.rows] &= may_be_false[part.places]
        if leaf.column.field_id is not None and set(self.entries.table.column_names) >= METRICS:
            of_metrics = _Metrics(self, leaf.column, leaf.column.field_id).outcome(leaf)
            be_true &= of_metrics.be_true
            be_false &= of_metrics.be_false
        return _Outcome(be_true, be_false)

    def surely(self, leaf: Leaf) -> _Outcome:
        """Whether a condition is provably true, or provably false, of every row of each file."""
        outcome, known = self.may(leaf), self._is_known(leaf)
        return _Outcome(known & ~outcome.be_false, known & ~outcome.be_true)

    def _is_known(self, leaf: Leaf) -> Mask:
        """Return whether a condition is true or false of every row: no null in what it compares."""
        if isinstance(leaf, IsNull | IsNan) or self._is_required(leaf.column):
            return self._all(True)  # noqa: FBT003
        known = self._all(False)  # noqa: FBT003
        for part in self._partitions:
            for at, item in enumerate(part.spec.fields):
                transform = _transform(leaf.column, item, self.schemas)
                if transform is not None and transform.name not in ("unknown", "void"):
                    values = [value[at] is not None for value in part.values]
                    known[part.rows] |= np.array(values, bool)[part.places]
        field_id = leaf.column.field_id
        if field_id is not None and set(self.entries.table.column_names) >= METRICS:
            stored = of_field(self.flattened["null_value_counts"], field_id, len(self.entries))
            known |= pc.fill_null(stored, -1).to_numpy(zero_copy_only=False) == 0
        return known

    def _is_required(self, column: Column) -> bool:
        """Return whether no schema lets a column, or a struct around it, be null (R-095)."""
        lines = [schema.line_to(column.field_id or 0) for schema in self.schemas]
        known = [item.required for line in lines for item in line]
        return bool(known) and all(known)

    @cached_property
    def _partitions(self) -> Sequence[_Partitions]:
        partitions = []
        spec_ids = numbers(self.entries, "spec_id")
        for spec in self.specs:
            rows = np.flatnonzero(spec_ids == spec.spec_id)
            if not len(rows) or not spec.fields:
                continue
            keys = self.entries.table["partition_key"].take(pa.array(rows)).combine_chunks()
            encoded = keys.dictionary_encode()
            types = result_types(spec, self.schemas)
            values = [decode_key(key, types) for key in encoded.dictionary.to_pylist()]
            places = encoded.indices.to_numpy().astype(np.int64)
            partitions.append(_Partitions(spec, rows, places, values))
        return partitions

    @cached_property
    def flattened(self) -> Mapping[str, pa.Table]:
        return {name: flat(self.entries, name) for name in METRICS}


def _every(masks: Sequence[Mask]) -> Mask:
    return np.asarray(np.logical_and.reduce(masks), np.bool_)


def _any(masks: Sequence[Mask]) -> Mask:
    return np.asarray(np.logical_or.reduce(masks), np.bool_)


class _Metrics:
    """The metrics of one column, as far as they decide conditions."""

    def __init__(self, evaluation: _Evaluation, column: Column, field_id: int) -> None:
        self._flattened = evaluation.flattened
        self._count = len(evaluation.entries)
        self._type = column.type
        self._field_id = field_id
        records = numbers(evaluation.entries, "record_count")
        nulls, nans = self._counts("null_value_counts"), self._counts("nan_value_counts")
        is_real = isinstance(column.type, PrimitiveType) and column.type.name in _REALS
        nans = nans if is_real else np.zeros(self._count, np.int64)
        # Against the rows of the file: not all writers count nulls among the values.
        holds_rows = records > 0
        self._all_null = holds_rows & (nulls >= records)
        self._all_nan = holds_rows & (nans >= records)
        self._some_null = nulls != 0
        self._some_nan = nans != 0
        counted = np.maximum(nulls, 0) + np.maximum(nans, 0)
        self._some_other = ~(holds_rows & (counted >= records))

    def _counts(self, name: str) -> npt.NDArray[np.int64]:
        """Return a count for each file, -1 where it is not known (R-130)."""
        stored = of_field(self._flattened[name], self._field_id, self._count)
        return np.asarray(pc.fill_null(stored, -1).to_numpy(zero_copy_only=False), np.int64)

    def outcome(self, leaf: Leaf) -> _Outcome:
        """Evaluate a condition by the metrics of its column."""
        match leaf:
            case IsNull():
                return _Outcome(self._some_null, ~self._all_null)
            case IsNan():
                return _Outcome(self._some_nan, ~self._all_nan)
            case StartsWith(_, prefix):
                return self._starts_with(prefix.encode())
            case Compare(_, operator, value):
                # By the signs of bounds less the value; an unknown bound allows anything.
                lower = self._signs("lower_bounds", value, unknown=-1)
                upper = self._signs("upper_bounds", value, unknown=1)
                holds: Mapping[str, tuple[Mask, Mask]] = {
                    "<": (lower < 0, upper >= 0),
                    "<=": (lower <= 0, upper > 0),
                    "=": ((lower <= 0) & (upper >= 0), (lower != 0) | (upper != 0)),
                }
                true, false = holds[operator]
                return _Outcome(self._some_other & true, self._some_other & false | self._some_nan)

    def _starts_with(self, prefix: bytes) -> _Outcome:
        if not prefix:
            return _Outcome(self._some_other, np.zeros(self._count, np.bool_))
        after = prefix[:-1] + bytes([prefix[-1] + 1])  # no byte of UTF-8 is 255
        above_lower = self._signs("lower_bounds", after, unknown=-1) < 0
        below_upper = self._signs("upper_bounds", prefix, unknown=1) >= 0
        all_do = (self._signs("lower_bounds", prefix, unknown=-1) >= 0) & (
            self._signs("upper_bounds", after, unknown=1) < 0
        )
        return _Outcome(self._some_other & above_lower & below_upper, self._some_other & ~all_do)

    def _signs(self, name: str, value: Value, *, unknown: int) -> Signs:
        """Return the sign of each bound less the value."""
        stored = of_field(self._flattened[name], self._field_id, self._count)
        signs = np.full(self._count, unknown, np.int8)
        if len(stored) and stored.null_count < len(stored):
            comparing = _comparing(self._type)
            if comparing is not None:
                comparing(stored, value, self._type, signs)
        return signs


_Comparing = Callable[[pa.Array, Value, Type, Signs], None]
"""Fills in signs where a bound is known."""


def _comparing(type_: Type) -> _Comparing | None:
    if isinstance(type_, DecimalType):
        return _compare_decimals
    if isinstance(type_, FixedType):
        return _compare_strings
    if not isinstance(type_, PrimitiveType):
        return None
    if type_.name in _INTEGERS or type_.name == "boolean":
        return _compare_integers
    if type_.name in _REALS:
        return _compare_reals
    # The order of uuids is not the same with all writers.
    return _compare_strings if type_.name in _STRINGS else None


def _compare_integers(stored: pa.Array, value: Value, type_: Type, signs: Signs) -> None:
    wanted = int(value)
    for at, bounds in integer_bounds(stored, type_):
        signs[at] = (bounds > wanted).astype(np.int8) - (bounds < wanted)


def _compare_reals(stored: pa.Array, value: Value, _: Type, signs: Signs) -> None:
    for at, bounds in real_bounds(stored):
        signs[at] = (bounds > value).astype(np.int8) - (bounds < value)


def _compare_decimals(stored: pa.Array, value: Value, type_: Type, signs: Signs) -> None:
    at, high, low = decimal_bounds(stored)
    wanted = int.from_bytes(encode(type_, value), "big", signed=True)
    wanted_high, wanted_low = wanted >> 64, np.uint64(wanted & (2**64 - 1))
    same = high == wanted_high
    above = (high > wanted_high) | (same & (low > wanted_low))
    below = (high < wanted_high) | (same & (low < wanted_low))
    signs[at] = above.astype(np.int8) - below


def _compare_strings(stored: pa.Array, value: Value, _: Type, signs: Signs) -> None:
    wanted = pa.scalar(value.encode() if isinstance(value, str) else value, pa.binary())
    at = np.flatnonzero(stored.is_valid().to_numpy(zero_copy_only=False))
    known = stored.drop_null().cast(pa.binary())
    above = pc.greater(known, wanted).to_numpy(zero_copy_only=False)
    below = pc.less(known, wanted).to_numpy(zero_copy_only=False)
    signs[at] = above.astype(np.int8) - below.astype(np.int8)
