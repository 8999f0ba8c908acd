"""Searches for statistics of version 4 entries that break a rule (V4-140 to V4-149)."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from icectl.entries.columns.values import Mask, mask_of, whole
from icectl.entries.partition.transforms import transform_column
from icectl.files.parquet.schema import child_fields, field_id
from icectl.format.expressions import HIGHEST_STATS_ID
from icectl.format.manifest import Content, Status
from icectl.format.rule import BrokenRule, Fault, Found, Severity
from icectl.format.stats_columns import STATS_STEP, StatsColumn, group_id
from icectl.format.transforms import Transform
from icectl.sfc1.checks.rows import TreeColumns
from icectl.sfc1.content_stats import aggregate, bound_type
from icectl.sfc1.partition_stats import TupleField
from icectl.sfc1.rows import STATS

_LOWEST, _HIGHEST = group_id(0), group_id(HIGHEST_STATS_ID)
_METADATA_COLUMNS = (9_000, 9_200)
_COUNT_TYPES = {
    3: pa.bool_(), 4: pa.int64(), 5: pa.int64(), 6: pa.int64(), 7: pa.int32(), 8: pa.int32(),
}  # fmt: skip
_GROUP, _BOUNDS = 0, (1, 2)


# -- the schema of statistics ---------------------------------------------------------------------


def schema_faults(location: str, stored: pa.Schema, columns: Sequence[StatsColumn]) -> Found:
    """Groups and members whose id or type is not that of a column (V4-140)."""
    if STATS not in stored.names:
        return
    known = {group_id(one.id): one for one in columns}
    for group in child_fields(stored.field(STATS).type):
        for said in _wrong_group(group, known):
            yield BrokenRule("V4-140", Fault(1, location), said)  # V4-140


def _wrong_group(group: pa.Field, known: Mapping[int, StatsColumn]) -> Iterator[str]:
    base = field_id(group)
    if base is None or (
        base not in _METADATA_COLUMNS
        and not (_LOWEST < base <= _HIGHEST and base % STATS_STEP == 0)
    ):
        yield f"has statistics under the id {base}, which is that of no column"
        return
    column = known.get(base)
    for member in child_fields(group.type):
        number = field_id(member)
        offset = -1 if number is None else number - base
        name = f"`{group.name}.{member.name}`"
        if not 1 <= offset < STATS_STEP:
            yield f"has {name} with the id {number} in the group {base}"
        elif offset in _BOUNDS and column is not None:
            wanted = bound_type(column.type)
            if wanted is None or not _promotes(member.type, wanted):
                yield f"has {name} as {member.type}, where its column is {wanted}"
        elif offset in _COUNT_TYPES and member.type != _COUNT_TYPES[offset]:
            yield f"has {name} as {member.type}, not {_COUNT_TYPES[offset]}"


def _promotes(stored: pa.DataType, wanted: pa.DataType) -> bool:
    """Return whether bounds of a stored type are those of a column that may have been promoted."""
    if stored == wanted or _plain(stored) == _plain(wanted):
        return True
    if pa.types.is_decimal(stored) and pa.types.is_decimal(wanted):
        return bool(stored.scale == wanted.scale and stored.precision <= wanted.precision)
    if pa.types.is_date(stored) and pa.types.is_timestamp(wanted):
        return wanted.tz is None
    steps = {(pa.int32(), pa.int64()), (pa.float32(), pa.float64())}
    return (stored, wanted) in steps


def _plain(kind: pa.DataType) -> pa.DataType:
    return kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind


# -- the statistics of rows -----------------------------------------------------------------------


class Stats:
    """The statistics of rows by stats id, each member once."""

    def __init__(self, rows: pa.Table) -> None:
        stored = whole(rows[STATS])
        self._groups = dict(zip(map(field_id, stored.type), stored.flatten(), strict=True))
        self._count = len(rows)
        self.is_null: Mask = mask_of(stored.is_null())

    def group(self, stats_id: int) -> "StatsMembers | None":
        """Return the members of one stats id; None where the table has no such column."""
        found = self._groups.get(group_id(stats_id))
        return None if found is None else StatsMembers(found)


class StatsMembers:
    """The members of one stats id over all rows; what the file lacks is None."""

    def __init__(self, stored: pa.StructArray) -> None:
        self.is_null = mask_of(stored.is_null())
        members = zip(stored.type, stored.flatten(), strict=True)
        self._members = {one.name: _storage(part) for one, part in members}

    def get(self, name: str) -> pa.Array | None:
        """Return a member; None where the group has none of the name."""
        return self._members.get(name)

    def counts(self, name: str) -> tuple[npt.NDArray[np.int64], Mask]:
        """Return a count, 0 where it is not known, and where it is known."""
        found = self._members.get(name)
        if found is None:
            return np.zeros(len(self.is_null), np.int64), np.zeros(len(self.is_null), bool)
        return pc.fill_null(found, 0).to_numpy(), mask_of(found.is_valid())


def _storage(values: pa.Array) -> pa.Array:
    return values.storage if isinstance(values, pa.ExtensionArray) else values


def value_faults(
    columns: TreeColumns, stats: Stats, of: Sequence[StatsColumn], top_level: frozenset[int]
) -> Found:
    """Bounds and counts that contradict each other (V4-144, V4-145, V4-148).

    `top_level` are the stats ids whose values are as many as there are records.
    """
    on_leaf = columns.of(Content.MANIFEST_DV) & ~stats.is_null
    said = "is a bitmap with statistics of columns"
    yield from columns.broken("V4-148", on_leaf, said)  # V4-148
    crossed, miscounted = np.zeros(len(columns), bool), np.zeros(len(columns), bool)
    is_file = columns.of(Content.DATA, Content.POSITION_DELETES, Content.EQUALITY_DELETES)
    records = columns.numbers("record_count")
    for one in of:
        group = stats.group(one.id)
        if group is None or group.is_null.all():
            continue
        crossed |= _crossed(group)
        values, has_values = group.counts("value_count")
        nulls, _ = group.counts("null_count")
        nans, _ = group.counts("nan_count")
        miscounted |= (
            (values < 0) | (nulls < 0) | (nans < 0) | (has_values & (nulls + nans > values))
        )
        if one.id in top_level:
            miscounted |= is_file & has_values & (values != records)
    said = "has a lower bound above the upper one, or NaN as a bound"
    yield from columns.broken("V4-144", crossed, said)  # V4-144
    said = "has counts of values that do not add up"
    yield from columns.broken("V4-145", miscounted, said)  # V4-145


def _crossed(group: StatsMembers) -> Mask:
    lower, upper = group.get("lower_bound"), group.get("upper_bound")
    if lower is None or upper is None:
        return np.zeros(len(group.is_null), bool)
    found = mask_of(pc.greater(lower, upper))
    if pa.types.is_floating(lower.type):
        found |= mask_of(pc.is_nan(lower)) | mask_of(pc.is_nan(upper))
    return found


def tuple_faults(
    columns: TreeColumns, stats: Stats, fields: Mapping[int, Sequence[TupleField]]
) -> Found:
    """Partition values that are not one value (V4-141 to V4-143); `fields` are those of specs."""
    names = ("absent", "differing", "without_upper", "without_value", "loose")
    wrong = {name: np.zeros(len(columns), bool) for name in names}
    specs = columns.numbers("spec_id")
    is_file = columns.of(Content.DATA, Content.EQUALITY_DELETES)
    for spec_id, of_spec in fields.items():
        rows = is_file & (specs == spec_id)
        for item in of_spec if rows.any() else ():
            group = stats.group(item.stats_id)
            if group is None:
                wrong["absent"] |= rows
                continue
            for name, mask in _of_tuple(group).items():
                wrong[name] |= rows & mask
    said = "has no statistics of a field that it is partitioned by"
    yield from columns.broken("V4-141", wrong["absent"], said)  # V4-141
    said = "has a partition value with two different bounds, or only an upper one"
    yield from columns.broken("V4-142", wrong["differing"], said)  # V4-142
    said = "has a partition value without an upper bound"
    yield from columns.broken("V4-142", wrong["without_upper"], said, "warning")
    said = "has a partition value that is neither null nor NaN, and no bounds of it"
    yield from columns.broken("V4-142", wrong["without_value"], said)
    said = "has a partition value with loose bounds"
    yield from columns.broken("V4-143", wrong["loose"], said)  # V4-143


def _of_tuple(group: StatsMembers) -> dict[str, Mask]:
    lower, upper = group.get("lower_bound"), group.get("upper_bound")
    if lower is None or upper is None:
        return {}
    has_lower, has_upper = mask_of(lower.is_valid()), mask_of(upper.is_valid())
    values, known = group.counts("value_count")
    nulls, _ = group.counts("null_count")
    nans, _ = group.counts("nan_count")
    unbounded = ~has_lower & ~has_upper & ~group.is_null
    tight = group.get("tight_bounds")
    loose = np.zeros(len(known), bool) if tight is None else mask_of(pc.equal(tight, False))  # noqa: FBT003
    return {
        "absent": group.is_null,
        "differing": (~has_lower & has_upper) | (has_lower & has_upper & _differ(lower, upper)),
        "without_upper": has_lower & ~has_upper,
        "without_value": unbounded & ~(known & ((nulls == values) | (nans == values))),
        "loose": loose & has_lower,
    }


def _differ(lower: pa.Array, upper: pa.Array) -> Mask:
    if pa.types.is_floating(lower.type):  # -0.0 and 0.0 differ
        bits = pa.int32() if lower.type.bit_width == 32 else pa.int64()
        lower, upper = lower.view(bits), upper.view(bits)
    return mask_of(pc.not_equal(lower, upper))


@dataclass(frozen=True, slots=True)
class DerivedExpression:
    """An expression that can be computed, and where its source's statistics are."""

    stats_id: int
    source: StatsColumn
    transform: Transform


def derived_faults(
    columns: TreeColumns, stats: Stats, derived: Sequence[DerivedExpression]
) -> Found:
    """Partition values that are not what follows from a column of one value (V4-149)."""
    wrong = np.zeros(len(columns), bool)
    is_data = columns.of(Content.DATA)
    for one in derived:
        group, source = stats.group(one.stats_id), stats.group(one.source.id)
        if group is None or source is None:
            continue
        value, lower, upper = (
            group.get("lower_bound"),
            source.get("lower_bound"),
            source.get("upper_bound"),
        )
        tight = source.get("tight_bounds")
        if value is None or lower is None or upper is None or tight is None:
            continue
        same = (
            is_data & mask_of(tight) & mask_of(pc.equal(lower, upper)) & mask_of(value.is_valid())
        )
        rows = np.flatnonzero(same)
        if not len(rows):
            continue
        try:
            wanted = transform_column(one.transform, one.source.type, lower.take(pa.array(rows)))
        except ValueError:
            continue  # a transform that this type does not take
        found = value.take(pa.array(rows))
        wrong[rows[mask_of(pc.not_equal(_storage(wanted).cast(found.type), found))]] = True
    said = "has a partition value that its column does not give"
    yield from columns.broken("V4-149", wrong, said)  # V4-149


# -- the statistics of a leaf, as its root has them -----------------------------------------------


def aggregate_faults(
    leaf: str,
    told: pa.StructArray,
    rows: pa.Table,
    columns: Sequence[StatsColumn],
    *,
    of_older_version: bool = False,
) -> Found:
    """Compare what a root says of a leaf's columns with its rows (V4-146, V4-147).

    `told` is one struct, `rows` are those of the leaf; both have the groups of `columns`. What a
    root leaves out of a leaf of an older version is only worth knowing.
    """
    live = rows.filter(pc.not_equal(rows["status"], int(Status.DELETED)))
    if not len(live):
        return
    stats = whole(live[STATS])
    total = aggregate(stats, columns, whole(live["record_count"]))
    found: dict[str, list[int]] = {name: [] for name in _SAID}
    parts = zip(columns, told.flatten(), total.flatten(), stats.flatten(), strict=True)
    for column, said, summed, each in parts:
        for name in _compared(StatsMembers(said), StatsMembers(summed), StatsMembers(each)):
            found[name].append(column.id)
    for name, (rule, said, severity) in _SAID.items():
        if found[name]:
            more = f" and {len(found[name]) - 1:,} more" if len(found[name]) > 1 else ""
            text = f"{said}, of the column {found[name][0]}{more}"
            is_lacking = of_older_version and rule == "V4-147"
            yield BrokenRule(rule, Fault(1, leaf), text, "info" if is_lacking else severity)


_SAID: Mapping[str, tuple[str, str, Severity | None]] = {
    "narrow": ("V4-146", "has rows outside of the bounds in its root", None),
    "untrue": ("V4-146", "has other statistics than its root says", None),
    "absent": ("V4-147", "has statistics that its root lacks", None),
    "wide": ("V4-147", "has tighter bounds than its root says", "info"),
}


def _compared(told: StatsMembers, whole: StatsMembers, rows: StatsMembers) -> Iterator[str]:
    """Find what is wrong with what is told of one column, by the names of _SAID."""
    if told.is_null.all():
        if not whole.is_null.all():
            yield "absent"
        return
    lower, upper = told.get("lower_bound"), told.get("upper_bound")
    if lower is not None and upper is not None:
        if _outside(rows, lower, upper):
            yield "narrow"
        elif _outside(told, whole.get("lower_bound"), whole.get("upper_bound")):
            yield "wide"
    if _miscounts(told, whole) or _is_not_tight(told, whole):
        yield "untrue"


def _outside(group: StatsMembers, lower: pa.Array, upper: pa.Array) -> bool:
    """Return whether a bound of the group lies outside of a range."""
    least, most = group.get("lower_bound"), group.get("upper_bound")
    below, above = pc.less(least, lower[0]), pc.greater(most, upper[0])
    return bool(mask_of(below).any() or mask_of(above).any())


def _miscounts(told: StatsMembers, whole: StatsMembers) -> bool:
    for name in ("value_count", "null_count", "nan_count"):
        (said, is_said), (found, is_known) = told.counts(name), whole.counts(name)
        if (is_said & is_known & (said != found)).any():
            return True
    return False


def _is_not_tight(told: StatsMembers, whole: StatsMembers) -> bool:
    """Return whether bounds are called tight that are not those of the rows."""
    said, really = told.get("tight_bounds"), whole.get("tight_bounds")
    if said is None or not mask_of(said).any():
        return False
    if really is None or not mask_of(really).any():
        return True
    return any(told.get(name) != whole.get(name) for name in ("lower_bound", "upper_bound"))
