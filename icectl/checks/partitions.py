"""Rules of partition values: what a manifest stores, and what its list says of it."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from math import isnan
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from icectl.checks.live_entries import LiveRows
from icectl.checks.objects import Columns, ManifestEntries, ManifestList, StoredManifest
from icectl.checks.rule import Breach, Check, of_object, rule
from icectl.entries.bound_values import decimal_bounds, integer_bounds, real_bounds
from icectl.entries.columns import (
    INTEGER_TYPES,
    Integers,
    Mask,
    Places,
    Spans,
    from_integers,
    mask_of,
    not_text,
    packed,
    whole,
)
from icectl.entries.orc_seconds import may_be_earlier, second_of
from icectl.entries.partition_key import (
    UNKNOWN_KEY,
    PartitionValue,
    decode_key,
    join_values,
    sort_key,
)
from icectl.entries.partition_transforms import transform_column
from icectl.entries.rows import RawEntries
from icectl.entries.stats import bounds, metric
from icectl.errors import CorruptTable
from icectl.format import single_value
from icectl.format.manifest import Content, FieldSummary, ManifestFile, Status
from icectl.format.metadata import TableMetadata
from icectl.format.partition import PartitionField, PartitionSpec, result_types
from icectl.format.rule import (
    COMPACT_OWN,
    EXCLUDED_VALUE,
    NO_PARTITION,
    OURS,
    REPAIR_LIST,
    REPARTITION,
    RESTORE,
    REWRITE_MANIFESTS,
    Fault,
    Severity,
)
from icectl.format.transforms import Transform, accepts
from icectl.format.types import DecimalType, FixedType, PrimitiveType, Type, type_text
from icectl.units import print_text


@dataclass(frozen=True, slots=True)
class FieldRange:
    """The values of one partition field over the entries of a manifest.

    `least` and `greatest` are None where there is no value but nulls and NaN, and where the type is
    unknown; `least_of` and `greatest_of` are the entries that have them.
    """

    has_null: bool
    has_nan: bool = False
    least: PartitionValue = None
    least_of: Fault | None = None
    greatest: PartitionValue = None
    greatest_of: Fault | None = None
    undecodable: Fault | None = None


def field_ranges(columns: Columns, types: Sequence[Type | None]) -> Sequence[FieldRange]:
    """Find what each field of the partitions ranges over; a type of None is unknown.

    Raises: CorruptTable R-068 where the partitions are not of so many fields.
    Cost: some passes over the distinct partitions, whatever their number.
    """
    if not len(columns.table):
        return [FieldRange(has_null=False)] * len(types)
    keys = columns.table["partition_key"].combine_chunks().dictionary_encode()
    codes = keys.indices.to_numpy()
    return [
        FieldRange(not bool(present.all()))
        if type_ is None
        else _range(_Field(columns, codes, type_, present, packed))
        for (present, packed), type_ in zip(
            _fields(keys.dictionary, len(types)), types, strict=True
        )
    ]


@dataclass(frozen=True, slots=True)
class _Field:
    """One field of every distinct key, and the entries' keys as numbers of distinct ones."""

    columns: Columns
    codes: npt.NDArray[Any]
    type: Type
    present: Mask
    packed: Spans

    def value(self, key: int) -> tuple[PartitionValue, Fault | None]:
        """Return the value of a distinct key, and its entries."""
        start, length = int(self.packed.starts[key]), int(self.packed.lengths[key])
        canonical = self.packed.content[start : start + length].tobytes()
        (value,) = decode_key(join_values([canonical]), [self.type])
        return value, self.columns.fault(self.codes == key)


def _fields(keys: pa.Array, field_count: int) -> Sequence[tuple[Mask, Spans]]:
    """Presence and canonical values of each field (entries/partition_key.py)."""
    _, offsets, stored = keys.buffers()
    stored_ends = np.frombuffer(offsets, np.int32)[: len(keys) + 1].astype(np.int64)
    at, ends = stored_ends[:-1], stored_ends[1:]
    content = np.zeros(int(stored_ends[-1]) + 8, np.uint8)  # a length may be read past the end
    content[: stored_ends[-1]] = np.frombuffer(stored, np.uint8)[: stored_ends[-1]]
    everywhere = Spans(content, np.arange(len(content)), np.full(len(content), 4))
    fields = []
    for _ in range(field_count):
        present = content[at] == 1
        lengths = np.where(present, everywhere.numbers(at + 1, "<u4"), 0).astype(np.int64)
        fields.append((present, Spans(content, at + 5, lengths)))
        at = at + 1 + np.where(present, lengths + 4, 0)
        _check((at <= ends).all(), field_count)
    _check((at == ends).all(), field_count)
    return fields


def _check(is_right: np.bool_, field_count: int) -> None:
    if not is_right:
        message = f"a partition has not as many values as its spec has fields, {field_count}"
        raise CorruptTable(message, rule="R-068")


def _range(field: _Field) -> FieldRange:
    has_null = not bool(field.present.all())
    right = field.present & _is_of_length(field.packed, field.type)
    if _is(field.type, "string"):
        right &= ~not_text(packed(field.packed))
    wrong = field.present & ~right
    undecodable = field.columns.fault(wrong[field.codes]) if wrong.any() else None
    places, has_nan = np.flatnonzero(right), False
    if _is(field.type, "float", "double"):
        is_nan = np.isnan(field.packed.numbers(places, "<f8"))
        places, has_nan = places[~is_nan], bool(is_nan.any())
    if not len(places):
        return FieldRange(has_null, has_nan, undecodable=undecodable)
    least, greatest = (field.value(int(places[at])) for at in _extremes(field, places))
    return FieldRange(has_null, has_nan, *least, *greatest, undecodable)


def _is_of_length(packed: Spans, type_: Type) -> Mask:
    if isinstance(type_, DecimalType):
        return np.asarray((packed.lengths > 0) & (packed.lengths <= 16))
    if isinstance(type_, FixedType):
        return np.asarray(packed.lengths == type_.length)
    if _is(type_, "string", "binary"):
        return np.ones(len(packed.lengths), np.bool_)
    length = 1 if _is(type_, "boolean") else 16 if _is(type_, "uuid") else 8
    return np.asarray(packed.lengths == length)


def _extremes(field: _Field, places: Places) -> tuple[int, int]:
    """Find which of the places have the least and the greatest value."""
    if len(places) == 1:
        return 0, 0
    if isinstance(field.type, DecimalType):
        high, low = field.packed.decimals(places)
        order = np.lexsort((low, high))
        return int(order[0]), int(order[-1])
    if _is(field.type, "string", "binary", "boolean", "uuid") or isinstance(field.type, FixedType):
        values = packed(field.packed).take(pa.array(places))
        ends = pc.min_max(values)
        return values.index(ends["min"]).as_py(), values.index(ends["max"]).as_py()
    numbers = field.packed.numbers(places, "<i8")
    if _is(field.type, "float", "double"):
        # The bits of a real number order like an integer, those of negative ones backwards.
        numbers = np.where(numbers < 0, numbers ^ np.iinfo(np.int64).max, numbers)
    return int(numbers.argmin()), int(numbers.argmax())


def _is(type_: Type | None, *names: str) -> bool:
    return isinstance(type_, PrimitiveType) and type_.name in names


_INTEGERS = frozenset({"int", "long"})
_STORED: Mapping[str, frozenset[str]] = {
    "boolean": frozenset({"boolean"}),
    "int": _INTEGERS,
    "date": _INTEGERS,
    "float": frozenset({"float", "double"}),
    "double": frozenset({"float", "double"}),
    "string": frozenset({"string"}),
    "uuid": frozenset({"fixed"}),
    "binary": frozenset({"bytes", "fixed"}),
    **dict.fromkeys(("long", "time", "timestamp", "timestamptz"), _INTEGERS),
    **dict.fromkeys(("timestamp_ns", "timestamptz_ns"), _INTEGERS),
}
"""Avro types that values of a type are stored as, before and after a promotion (R-097)."""


def _ranges(stored: StoredManifest) -> Sequence[FieldRange] | CorruptTable:
    """Return what each field of the spec ranges over, or why that cannot be told."""
    spec = stored.metadata.spec(stored.described[0].partition_spec_id)
    if spec is None:
        return ()
    try:
        return field_ranges(stored.columns, result_types(spec, stored.metadata.schemas))
    except CorruptTable as error:
        return error


def _fields_of(
    stored: StoredManifest,
) -> Iterator[tuple[int, PartitionField, Type | None, FieldRange]]:
    """Yield the place, the field, its type and its range, of every field of the spec."""
    spec = stored.metadata.spec(stored.described[0].partition_spec_id)
    ranges = stored.once(_ranges)
    if spec is None or isinstance(ranges, CorruptTable):
        return
    types = result_types(spec, stored.metadata.schemas)
    yield from zip(range(len(types)), spec.fields, types, ranges, strict=True)


def _summaries(listed: ManifestList) -> Iterator[Breach]:
    for manifest in listed.manifests:
        spec = listed.metadata.spec(manifest.partition_spec_id)
        if spec is not None and manifest.partitions is not None:
            count, expected = len(manifest.partitions), len(spec.fields)
            if count != expected:
                message = f"it has summaries of {count} partition fields, its spec "
                message += f"{manifest.partition_spec_id} has {expected}"
                yield Breach(message, manifest.manifest_path)


def _excluding_summaries(stored: StoredManifest) -> Iterator[Breach]:
    fields = list(_fields_of(stored))
    for row in stored.described:
        if row.partitions is None or len(row.partitions) != len(fields):
            continue  # unknown, or a finding on the manifest list
        for at, field, type_, values in fields:
            problem = _excluded(row.partitions[at], type_, values)
            if problem is not None:
                yield Breach(f"the summary of `{field.name}` {problem}")


def _mismatched_fields(stored: StoredManifest) -> Iterator[Breach]:
    """The record that partitions are stored as has the fields of the spec."""
    spec = stored.metadata.spec(stored.described[0].partition_spec_id)
    if spec is None:
        return
    names = [field_id for field_id, _ in stored.header.partition_record]
    wanted = [field.field_id for field in spec.fields]
    if not _is_positional(stored, spec) and not set(wanted) <= set(names):
        yield Breach(f"its partitions have fields {names}, those of its spec are {wanted}")
    elif len(names) > len(wanted):
        message = f"its partitions have fields {names}, its spec only {wanted}"
        yield Breach(message, severity="warning")
    problem = stored.once(_ranges)
    if isinstance(problem, CorruptTable):
        yield Breach(problem.what)


def _is_positional(stored: StoredManifest, spec: PartitionSpec) -> bool:
    """Return whether partition values are found by their place, as in version 1."""
    header = stored.header
    return header.format_version == 1 and len(header.partition_record) == len(spec.fields)


def _mismatched_types(stored: StoredManifest) -> Iterator[Breach]:
    """Values of a field are stored and can be decoded as its type."""
    spec = stored.metadata.spec(stored.described[0].partition_spec_id)
    if spec is None:
        return
    by_id = dict(stored.header.partition_record)
    types = result_types(spec, stored.metadata.schemas)
    ranges = list(_fields_of(stored))
    is_lost = any(values.undecodable is not None for *_, values in ranges)
    hint = RESTORE if is_lost else None  # no command reads it
    for at, (field, type_) in enumerate(zip(spec.fields, types, strict=True)):
        kind = (
            stored.header.partition_record[at][1]
            if _is_positional(stored, spec)
            else by_id.get(field.field_id)
        )
        allowed = None if field.transform.name == "void" else _kinds(type_)  # nothing but nulls
        if kind is not None and allowed is not None and kind not in allowed:
            message = f"the values of `{field.name}` are stored as `{kind}`, not {_text(type_)}"
            yield Breach(message, hint=hint)
    for _, field, type_, values in ranges:
        if values.undecodable is not None:
            message = f"a value of `{field.name}` is not of type {_text(type_)}"
            yield Breach(message + _where(values.undecodable), hint=hint)
        if field.transform.name != "bucket" and _is(type_, "int", "date"):
            yield from _out_of_range(field, values, -(2**31), 2**31 - 1)


def _kinds(type_: Type | None) -> frozenset[str] | None:
    if isinstance(type_, DecimalType | FixedType):
        return frozenset({"fixed", "bytes"})
    return _STORED.get(type_.name) if isinstance(type_, PrimitiveType) else None


def _mismatched_buckets(stored: StoredManifest) -> Iterator[Breach]:
    for _, field, _, values in _fields_of(stored):
        if field.transform.name == "bucket" and field.transform.width is not None:
            yield from _out_of_range(field, values, 0, field.transform.width - 1)


def _out_of_range(
    field: PartitionField, values: FieldRange, low: int, high: int
) -> Iterator[Breach]:
    for value, entries in ((values.least, values.least_of), (values.greatest, values.greatest_of)):
        if isinstance(value, int) and not low <= value <= high:
            message = f"the value {value} of `{field.name}` is not between {low} and {high}"
            yield Breach(message + _where(entries))


def _excluded(summary: FieldSummary, type_: Type | None, range_: FieldRange) -> str | None:
    """Tell what the entries belie of a summary, None for nothing; wider than needed is no fault."""
    if not summary.contains_null and range_.has_null:
        return "says that there is no null, but there is"
    if summary.contains_nan is False and range_.has_nan:
        return "says that there is no NaN, but there is"
    if type_ is None or range_.least is None:
        return None
    for name, bound, extreme, entries in (
        ("lower", summary.lower_bound, range_.least, range_.least_of),
        ("upper", summary.upper_bound, range_.greatest, range_.greatest_of),
    ):
        if bound is None:
            # Readers take it to mean that there are nulls and NaN only, and pass the rest over.
            return f"has no {name} bound, but there are values"
        try:
            stated = single_value.decode(type_, bound)
        except ValueError:
            article = "an" if name == "upper" else "a"
            return f"has {article} {name} bound that does not decode"
        if isinstance(type_, PrimitiveType) and type_.name == "uuid":
            continue  # the reference implementation long ordered them by signed halves
        below, above = sort_key(stated), sort_key(extreme)
        if below > above if name == "lower" else below < above:
            shown = [print_text(single_value.text(type_, one)) for one in (stated, extreme)]
            return f"has the {name} bound `{shown[0]}`, but there is `{shown[1]}`{_where(entries)}"
    return None


_FEW = 32
"""Distinct partitions of a manifest that are sooner decoded one by one."""


def outside_summaries(
    metadata: TableMetadata, described: Sequence[ManifestFile], rows: RawEntries, first: int
) -> Iterator[int]:
    """Yield the places of manifests with a partition that the summaries of their row exclude.

    `described` are rows of lists, all of one spec; the first has `manifest` `first`.
    Spec: R-053. Cost: some passes over the distinct partitions of each manifest.
    """
    spec = metadata.spec(described[0].partition_spec_id)
    if spec is None or not spec.fields or "partition_key" not in rows.table.column_names:
        return
    types = tuple(result_types(spec, metadata.schemas))
    keys, numbers = whole(rows.table["partition_key"]), rows.table["manifest"].to_numpy()
    differs = np.ones(len(keys), np.bool_)  # from the row before
    differs[1:] = (numbers[1:] != numbers[:-1]) | mask_of(pc.not_equal(keys[1:], keys[:-1]))
    at = np.flatnonzero(differs)
    some = keys.take(pa.array(at)).to_pylist()
    ends = np.searchsorted(numbers[at], np.arange(first, first + len(described) + 1)).tolist()
    for place, row in enumerate(described):
        if row.partitions is None or len(row.partitions) != len(types):
            continue  # unknown, or a finding on the manifest list
        distinct = frozenset(some[ends[place] : ends[place + 1]])
        if len(distinct) <= _FEW:
            is_outside = _exclude_some(row.partitions, types, distinct)
        else:
            start, stop = np.searchsorted(numbers, (first + place, first + place + 1))
            part = Columns(RawEntries(rows.table.slice(start, stop - start)))
            is_outside = _exclude(row.partitions, types, partial(field_ranges, part, types))
        if is_outside:
            yield place


def _exclude(
    summaries: Sequence[FieldSummary],
    types: Sequence[Type | None],
    ranges: Callable[[], Sequence[FieldRange]],
) -> bool:
    try:
        return any(map(_excluded, summaries, types, ranges()))
    except CorruptTable:
        return True


@lru_cache(1_000)
def _exclude_some(
    summaries: tuple[FieldSummary, ...], types: tuple[Type | None, ...], keys: frozenset[bytes]
) -> bool:
    def ranges() -> Sequence[FieldRange]:
        fields = zip(*(decode_key(key, types) for key in keys), strict=True)
        return [_range_of(values) for values in fields]

    return _exclude(summaries, types, ranges)


def _range_of(values: Sequence[PartitionValue]) -> FieldRange:
    present = [value for value in values if value is not None]
    ordered = [value for value in present if not (isinstance(value, float) and isnan(value))]
    has_null, has_nan = len(present) < len(values), len(ordered) < len(present)
    if not ordered:
        return FieldRange(has_null, has_nan)
    least, greatest = (extreme(ordered, key=sort_key) for extreme in (min, max))
    return FieldRange(has_null, has_nan, least, greatest=greatest)


# -- partitions beside bounds ---------------------------------------------------------------------

BOUNDED = frozenset(
    {"content", "status", "spec_id", "partition_key", "location"}
    | {"lower_bounds", "upper_bounds", "null_value_counts"}
)
"""The columns of entries that partitions are compared by with the entry's own bounds."""

_MISPLACED = "has a partition value of `{}` that its own bounds exclude"
_UNITS = frozenset({"year", "month", "day", "hour"})
_MOST_WIDTH = 2**62
_LEAST_INT = -(2**31)
_MOST_NAMED = 20
"""Files that one hint names, so that a single repair removes them."""


def misplaced(
    metadata: TableMetadata, rows: RawEntries, transforms: Collection[str]
) -> Iterator[tuple[PartitionField, Integers]]:
    """Yield partition fields by some transforms, with the rows whose value their bounds exclude.

    Rows are live data files. Unknown bounds exclude nothing, nor do cut ones what they may be cut
    from. Counts of nulls alone exclude nothing either: a column that only the folders of a migrated
    table name may be counted as nulls.
    Cost: some passes over the bounds of each field's column.
    """
    table = rows.table
    specs = [
        spec
        for spec in metadata.partition_specs
        if any(item.transform.name in transforms for item in spec.fields)
    ]
    if not specs or not set(table.column_names) >= BOUNDED:
        return
    is_data = mask_of(pc.equal(table["content"], int(Content.DATA)))
    is_data &= mask_of(pc.not_equal(table["status"], int(Status.DELETED)))
    is_data &= mask_of(pc.not_equal(table["partition_key"], pa.scalar(UNKNOWN_KEY, pa.binary())))
    spec_ids = table["spec_id"].to_numpy()
    for spec in specs:
        places = np.flatnonzero(is_data & (spec_ids == spec.spec_id))
        if not len(places):
            continue
        of = pa.array(places)
        keys = whole(table["partition_key"]).take(of).dictionary_encode()
        try:
            values = _fields(keys.dictionary, len(spec.fields))
        except CorruptTable:
            continue
        for item, (present, spans) in zip(spec.fields, values, strict=True):
            type_ = _source_type(metadata, item)
            if type_ is None or item.transform.name not in transforms:
                continue
            id_ = item.source_ids[0]
            lower, upper = (bounds(rows, id_, side).take(of) for side in ("lower", "upper"))
            counted = pc.fill_null(metric(rows, "null_value_counts", id_).take(of), -1)
            has_values = mask_of(pc.is_valid(lower)) & (counted.to_numpy() == 0)
            own = _Own(keys.indices.to_numpy(), present, spans)
            wrong = ~own.present & has_values
            wrong |= _outside(item.transform, type_, own, lower, upper)
            if wrong.any():
                yield item, places[wrong]


def _source_type(metadata: TableMetadata, item: PartitionField) -> Type | None:
    """Return the type of the one source column; None where the transform says nothing of it.

    Dates that became timestamps are partitioned by days all the same (R-097).
    """
    columns = (schema.field(item.source_ids[0]) for schema in metadata.schemas)
    types = [column.type for column in columns if column is not None]
    if not types or len(item.source_ids) > 1 or not accepts(item.transform, types[-1]):
        return None
    return types[-1] if PrimitiveType("date") not in types or _is(types[-1], "date") else None


class _Own:
    """The values of one partition field, by entry."""

    def __init__(self, codes: npt.NDArray[Any], present: Mask, spans: Spans) -> None:
        self._codes, self._present, self._spans = codes, present, spans
        self.present: Mask = present[codes]

    def numbers(self, type_: Type) -> tuple[npt.NDArray[Any], Mask]:
        """Return values of a type as numbers, and where there are such."""
        places = np.flatnonzero(self._present & _is_of_length(self._spans, type_))
        is_real = _is(type_, "float", "double")
        values = np.zeros(len(self._present), np.float64 if is_real else np.int64)
        known = np.zeros(len(values), np.bool_)
        if isinstance(type_, DecimalType):
            at, whole_numbers = _in_one_word(places, *self._spans.decimals(places))
            values[at], known[at] = whole_numbers, True
        else:
            values[places] = self._spans.numbers(places, "<f8" if is_real else "<i8")
            known[places] = True
        return values[self._codes], known[self._codes]

    def texts(self) -> pa.Array:
        """Return values as bytes."""
        return packed(self._spans).take(pa.array(self._codes))


def _in_one_word(
    at: Integers, high: Integers, low: npt.NDArray[np.uint64]
) -> tuple[Integers, Integers]:
    """Return the places of decimals of 64 bits, and these without their scale."""
    words = low.view(np.int64)
    fits = high == words >> 63
    return at[fits], words[fits]


def _outside(
    transform: Transform, type_: Type, own: _Own, lower: pa.Array, upper: pa.Array
) -> Mask:
    """Find values that are not what a transform makes of any value between bounds."""
    if transform.name == "bucket":
        one = pc.if_else(pc.equal(lower, upper), lower, None)
        buckets, known = _buckets(transform, type_, one)
        values, is_own = own.numbers(PrimitiveType("int"))
        return np.asarray(known & is_own & (values != buckets), np.bool_)
    is_number = _is(type_, *INTEGER_TYPES, "float", "double") or isinstance(type_, DecimalType)
    if not is_number:
        return _outside_texts(transform, type_, own, lower, upper)
    is_unit = transform.name in _UNITS
    values, is_own = own.numbers(PrimitiveType("int") if is_unit else type_)
    least, has_least = _transformed(transform, type_, *_numbers(lower, type_))
    most, has_most = _transformed(transform, type_, *_numbers(upper, type_))
    if is_unit:
        most = most + (most < 0)  # old writers rounded moments before 1970 up
    below, above = ~(values >= least), ~(values <= most)  # NaN is nowhere between
    return np.asarray(own.present & is_own & (has_least & below | has_most & above), np.bool_)


def _numbers(stored: pa.Array, type_: Type) -> tuple[npt.NDArray[Any], Mask]:
    """Return bounds as numbers, and where they are known."""
    is_real = _is(type_, "float", "double")
    values = np.zeros(len(stored), np.float64 if is_real else np.int64)
    known = np.zeros(len(stored), np.bool_)
    if isinstance(type_, DecimalType):
        parts = [_in_one_word(*decimal_bounds(stored))]
    else:
        parts = [*(real_bounds(stored) if is_real else integer_bounds(stored, type_))]
    for at, found in parts:
        values[at], known[at] = found, True
    if (second := second_of(type_)) is not None:  # ORC files lose the second before 1970
        known &= ~mask_of(may_be_earlier(pa.array(values), second))
    return values, known & mask_of(pc.is_valid(stored))


def _transformed(
    transform: Transform, type_: Type, values: npt.NDArray[Any], known: Mask
) -> tuple[npt.NDArray[Any], Mask]:
    """Return what a transform that keeps the order makes of numbers, and where that is known."""
    if transform.name == "truncate":
        width = transform.width or 0
        if width > _MOST_WIDTH:
            return values, np.zeros(len(values), np.bool_)
        below = values - values % width
        wraps = (values >= _LEAST_INT) & (below < _LEAST_INT)  # in 32 bits, as writers count ints
        return below, known & (below <= values) & ~wraps
    if transform.name in _UNITS and isinstance(type_, PrimitiveType):
        try:
            column = from_integers(values)
            if type_.name == "date":
                column = column.cast(pa.int32())
            counted = transform_column(transform, type_, column.cast(INTEGER_TYPES[type_.name]))
        except ValueError:
            return values, np.zeros(len(values), np.bool_)
        return counted.cast(pa.int32()).to_numpy().astype(np.int64), known
    return values, known


def _buckets(transform: Transform, type_: Type, stored: pa.Array) -> tuple[Integers, Mask]:
    """Return the buckets of bounds that are one value, and where there are such.

    Some writers cut both bounds of a text alike, to a length that a property of that time said:
    only those of a fixed length show that they are whole.
    """
    length = type_.length if isinstance(type_, FixedType) else 16 if _is(type_, "uuid") else None
    if length is not None:
        hashed, kind = stored, PrimitiveType("binary")
        known = mask_of(pc.equal(pc.binary_length(stored), length))
    elif _is(type_, *INTEGER_TYPES):
        values, known = _numbers(stored, type_)
        if _is(type_, "timestamp_ns", "timestamptz_ns"):
            values = values // 1000
        hashed, kind = from_integers(values), PrimitiveType("long")
    else:
        return np.zeros(len(stored), np.int64), np.zeros(len(stored), np.bool_)
    buckets = pc.fill_null(transform_column(transform, kind, hashed), 0)
    return buckets.to_numpy().astype(np.int64), known


def _outside_texts(
    transform: Transform, type_: Type, own: _Own, lower: pa.Array, upper: pa.Array
) -> Mask:
    if _is(type_, "uuid"):  # writers do not agree on their order
        return np.zeros(len(lower), np.bool_)
    values = own.texts()
    least, most = (_cut(transform, type_, side).cast(values.type) for side in (lower, upper))
    below = own.present & mask_of(pc.less(values, least))
    above = own.present & mask_of(pc.greater(values, most))
    for at in np.flatnonzero(above).tolist():  # some writers cut upper bounds as they cut lower
        above[at] = not values[at].as_py().startswith(most[at].as_py())
    return below | above


def _cut(transform: Transform, type_: Type, stored: pa.Array) -> pa.Array:
    """Return bounds as the transform cuts them; null where they are no text."""
    if transform.name != "truncate":
        return stored
    if _is(type_, "string"):
        stored = pc.if_else(pa.array(not_text(stored)), None, stored).cast(pa.string())
    return transform_column(transform, type_, stored).cast(pa.binary())


def beside_bounds(
    *transforms: str, severity: Severity | None = None
) -> tuple[Check[LiveRows], Check[ManifestEntries]]:
    """Check that partition values by some transforms may be those of values between bounds."""

    def changed(breach: Breach, of: LiveRows | ManifestEntries, places: Integers) -> Breach:
        is_identity = transforms == ("identity",)
        hint = _way_out(of.metadata, of.table, places) if is_identity else None
        return replace(breach, severity=severity, hint=hint)

    def of_live(live: LiveRows) -> Iterator[Breach]:
        for item, places in misplaced(live.metadata, RawEntries(live.table), transforms):
            for breach in live.breaches(_MISPLACED.format(item.name), places):
                yield changed(breach, live, places)

    def of_manifest(stored: ManifestEntries) -> Iterator[Breach]:
        for item, places in misplaced(stored.metadata, RawEntries(stored.table), transforms):
            what = f"a partition value of `{item.name}` that the bounds exclude"
            for breach in stored.breaches(what, stored.fault_at(places)):
                yield changed(breach, stored, places)

    return Check(LiveRows, of_live), Check(ManifestEntries, of_manifest)


def _way_out(metadata: TableMetadata, table: pa.Table, places: Integers) -> str:
    """Return what leads out for files by identity; repairs rewrite no manifests of version 4."""
    if metadata.format_version > 3:
        return NO_PARTITION
    named = table["location"].take(pa.array(places[:_MOST_NAMED])).to_pylist()
    more = len(places) - len(named)
    which = ", ".join(f"`{location}`" for location in named)
    return EXCLUDED_VALUE.format(f"{which} and {more:,} more" if more else which)


def refuse_misplaced(metadata: TableMetadata, rows: RawEntries) -> None:
    """Do nothing where identity partitions may be those of values between bounds.

    Raises: CorruptTable R-071.
    """
    for item, places in misplaced(metadata, rows, ("identity",)):
        location = rows.table["location"][int(places[0])].as_py()
        message = f"`{location}` {_MISPLACED.format(item.name)}"
        hint = _way_out(metadata, rows.table, places)
        raise CorruptTable(message, rule="R-071", hint=hint)


def _text(type_: Type | None) -> str:
    return "any" if type_ is None else f"`{type_text(type_)}`"


def _where(entries: Fault | None) -> str:
    return "" if entries is None else f", first in `{entries.location}`"


# fmt: off
PARTITION_RULES = (
    rule("R-053", "partition summaries match the spec and cover the entries", "Manifest Lists",
         "error", REPAIR_LIST,
         Check(ManifestList, _summaries), Check(StoredManifest, _excluding_summaries)),
    rule("R-068", "partition values carry the field ids of their spec", "Manifests", "error",
         RESTORE, Check(StoredManifest, _mismatched_fields)),
    rule("R-070", "transforms take null to null", "Partition Transforms", "error", COMPACT_OWN),
    rule("R-071", "partition values have the result type of their transform",
         "Partition Transforms", "error", COMPACT_OWN, Check(StoredManifest, _mismatched_types),
         *beside_bounds("identity")),
    rule("R-072", "date parts count from 1970-01-01, rounded down", "Partition Transforms", "error",
         REPARTITION, *beside_bounds(*sorted(_UNITS))),
    rule("R-073", "bucket is the hash modulo the number of buckets", "Bucket Transform Details",
         "error", REPARTITION, Check(StoredManifest, _mismatched_buckets),
         *beside_bounds("bucket")),
    rule("R-074", "truncate rounds numbers down and cuts strings by code points",
         "Truncate Transform Details", "error", REPARTITION, *beside_bounds("truncate")),
    rule("R-075", "values are hashed as the format says", "Appendix B", "error",
         COMPACT_OWN),
    rule("R-076", "hashes match the values that the format prints", "Appendix B", "error", OURS),
    rule("R-200", "day gives a date, and an int is accepted", "Partition Transforms", "info", OURS),
    rule("R-201", "the hash of the bytes 00 01 02 03 is -188683207", "Appendix B", "info", OURS),
    rule("R-202", "-0.0 is hashed as 0.0", "Appendix B", "info", OURS),
    rule("R-212", "fixed partition values are stored as the Avro schema of the manifest says",
         "Appendix A", "warning", REWRITE_MANIFESTS,
         of_object(StoredManifest, "lengths stand before its fixed partition values, as Iceberg "
                   "for Java writes and reads them; by its Avro schema no other reader can read it",
                   lambda one: one.header.has_lengths_of_fixed)),
)
# fmt: on
