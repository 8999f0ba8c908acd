"""Rules of statistics that roots and leaves keep of columns."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from icectl.checks.bound_types import top_level_ids
from icectl.checks.partitions import beside_bounds
from icectl.checks.rule import Breach, Check, rule
from icectl.entries.columns import Mask, mask_of, plain, whole
from icectl.entries.partition_transforms import transform_column
from icectl.errors import CorruptTable, Unsupported
from icectl.files.parquet.schema import child_fields, field_id
from icectl.format.expressions import HIGHEST_STATS_ID
from icectl.format.manifest import Content, Status
from icectl.format.rule import (
    COMPACT,
    ENGINE,
    NO_PARTITION,
    REPARTITION,
    REWRITE_MANIFESTS,
    Severity,
)
from icectl.format.transforms import Transform
from icectl.format.types import Type
from icectl.sfc1.checks.rows import RootRows, TreeColumns
from icectl.sfc1.content_stats import (
    STATS_ID,
    STATS_STEP,
    StatsColumn,
    TupleField,
    aggregate,
    bound_type,
    by_field_id,
    differing,
    group_id,
)
from icectl.sfc1.manifest_file import STATS
from icectl.sfc1.manifests import FILES, TreeSchema
from icectl.sfc1.shape_bounds import CORNER_IDS, SHAPES, corner_type, crossed, has_outside

_LOWEST, _HIGHEST = group_id(0), group_id(HIGHEST_STATS_ID)
_METADATA_COLUMNS = (9_000, 9_200)
_COUNT_TYPES = {
    3: pa.bool_(), 4: pa.int64(), 5: pa.int64(), 6: pa.int64(), 7: pa.int32(), 8: pa.int32(),
}  # fmt: skip
_BOUNDS = (1, 2)


# -- what a table keeps statistics of -------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DerivedExpression:
    """An expression that can be computed, and where its source's statistics are."""

    stats_id: int
    source: StatsColumn
    transform: Transform


class TableStatistics:
    """The columns and expressions that a table keeps statistics of."""

    def __init__(self, facts: TreeSchema) -> None:
        self._facts = facts
        self.columns = facts.columns

    @cached_property
    def tuples(self) -> Mapping[int, Sequence[TupleField]]:
        """Where statistics hold the partitions of each spec."""
        fields: dict[int, Sequence[TupleField]] = {}
        for spec in self._facts.metadata.partition_specs:
            try:
                fields[spec.spec_id] = self._facts.tuple_fields(spec.spec_id)
            except (CorruptTable, Unsupported):
                continue  # the metadata says what is wrong with it
        return fields

    @cached_property
    def derived(self) -> Sequence[DerivedExpression]:
        columns = {column.id: column for column in self.columns}
        expressions = []
        for expression in self._facts.metadata.expressions:
            source = columns.get(expression.source_ids[0])
            is_own = expression.stats_id == expression.expr_id and not expression.is_opaque
            if is_own and source is not None and expression.expr_id in columns:
                expressions.append(
                    DerivedExpression(expression.expr_id, source, expression.transform)
                )
        return expressions

    @cached_property
    def top_level(self) -> frozenset[int]:
        """Stats ids whose values are as many as there are records."""
        expressions = {column.id for column in self.columns if column.is_expression}
        return top_level_ids(self._facts.metadata) | expressions


class RowStatistics:
    """The statistics of the rows of a root or a leaf; `stored` is the schema of the file."""

    def __init__(
        self, subject: str, rows: TreeColumns, stored: pa.Schema, table: TableStatistics
    ) -> None:
        self.subject = subject
        self.rows = rows
        self.stored = stored
        self.table = table
        values = whole(rows.rows[STATS])
        self._stored = by_field_id(values)
        self._groups: dict[int, StatsMembers] = {}
        self.is_null: Mask = mask_of(values.is_null())

    def group(self, stats_id: int) -> "StatsMembers | None":
        """Return the members of one stats id; None where the table has no such column."""
        if stats_id not in self._groups:
            stored = self._stored.get(group_id(stats_id))
            if stored is None:
                return None
            self._groups[stats_id] = StatsMembers(stored)
        return self._groups[stats_id]

    def groups(self) -> Iterator[tuple[StatsColumn, "StatsMembers"]]:
        """Yield the columns that some row has statistics of, with these."""
        for column in self.table.columns:
            group = self.group(column.id)
            if group is not None and not group.is_null.all():
                yield column, group

    def none(self) -> Mask:
        return np.zeros(len(self.rows), bool)

    @cached_property
    def tuple_masks(self) -> Mapping[str, Mask]:
        """Rows whose partition values are not one value, by what is wrong with them."""
        names = ("absent", "differing", "without_upper", "without_value", "loose")
        wrong = {name: self.none() for name in names}
        specs = self.rows.numbers("spec_id")
        is_file = self.rows.of(Content.DATA, Content.EQUALITY_DELETES)
        for spec_id, fields in self.table.tuples.items():
            rows = is_file & (specs == spec_id)
            for item in fields if rows.any() else ():
                group = self.group(item.stats_id)
                if group is None:
                    wrong["absent"] |= rows
                    continue
                for name, mask in _of_tuple(group).items():
                    wrong[name] |= rows & mask
        return wrong


class StatsMembers:
    """The members of one stats id over all rows; what the file lacks is None."""

    def __init__(self, stored: pa.StructArray) -> None:
        self.is_null = mask_of(stored.is_null())
        members = zip(stored.type, stored.flatten(), strict=True)
        self._members = {member.name: plain(part) for member, part in members}

    def get(self, name: str) -> pa.Array | None:
        """Return a member; None where the group has none of the name."""
        return self._members.get(name)

    def counts(self, name: str) -> tuple[npt.NDArray[np.int64], Mask]:
        """Return a count, 0 where it is not known, and where it is known."""
        member = self._members.get(name)
        if member is None:
            return np.zeros(len(self.is_null), np.int64), np.zeros(len(self.is_null), bool)
        return pc.fill_null(member, 0).to_numpy(), mask_of(member.is_valid())


def in_statistics(
    what: str, search: Callable[[RowStatistics], Mask], severity: Severity | None = None
) -> Check[RowStatistics]:
    """Check statistics of rows; `search` returns those that break the rule."""
    return Check(
        RowStatistics, lambda one: one.rows.breaches(one.subject, what, search(one), severity)
    )


def _of_live(search: Callable[[RowStatistics], Mask]) -> Callable[[RowStatistics], Mask]:
    """Return a search that passes over removed rows: no reader uses their statistics."""
    return lambda one: search(one) & ~one.rows.with_status(Status.DELETED)


# -- the schema of statistics ---------------------------------------------------------------------


def _mismatched_members(stats: RowStatistics) -> Iterator[Breach]:
    """Groups and members whose id or type is not that of a column."""
    if STATS in stats.stored.names:
        known = {group_id(column.id): column for column in stats.table.columns}
        for group in child_fields(stats.stored.field(STATS).type):
            for what in _wrong_group(group, known):
                yield Breach(f"it {what}")


def _lost_columns(root: RootRows) -> Iterator[Breach]:
    """Columns that a root has statistics of and no schema has: files would be written without.

    A commit writes those of its schema, which stays as long as its snapshot does.
    """
    metadata = root.metadata
    if STATS not in root.file.rows.column_names:
        return
    known = {id_ for schema in metadata.schemas for id_ in schema.all_fields}
    known |= {one.stats_id for one in metadata.expressions if one.stats_id is not None}
    for group in child_fields(root.file.rows.schema.field(STATS).type):
        base = field_id(group)
        if base is not None and _is_group(base):
            number = (base - STATS_ID) // STATS_STEP
            if number not in known:
                yield Breach(
                    f"it has statistics of the column {number}, which no schema has", hint=ENGINE
                )


def _is_group(id_: int) -> bool:
    return _LOWEST < id_ <= _HIGHEST and id_ % STATS_STEP == 0


def _wrong_group(group: pa.Field, known: Mapping[int, StatsColumn]) -> Iterator[str]:
    base = field_id(group)
    if base is None or (base not in _METADATA_COLUMNS and not _is_group(base)):
        yield f"has statistics under the id {base}, which is that of no column"
        return
    column = known.get(base)
    for member in child_fields(group.type):
        number = field_id(member)
        offset = -1 if number is None else number - base
        name = f"`{group.name}.{member.name}`"
        if not 1 <= offset < STATS_STEP:
            yield f"has {name} with the id {number} in the group {base}"
        elif offset in _BOUNDS and column is not None and isinstance(column.type, SHAPES):
            corner = corner_type(base + CORNER_IDS[offset])
            if not _is_corner(member.type, corner):
                yield f"has {name} as {member.type}, where its column has corners of boxes"
        elif offset in _BOUNDS and column is not None:
            wanted = bound_type(column.type)
            if wanted is None or not _promotes(member.type, wanted):
                yield f"has {name} as {member.type}, where its column is {wanted}"
        elif offset in _COUNT_TYPES and member.type != _COUNT_TYPES[offset]:
            yield f"has {name} as {member.type}, not {_COUNT_TYPES[offset]}"


def _is_corner(stored: pa.DataType, corner: pa.StructType) -> bool:
    """Return whether all members of a bound of shapes are coordinates, x and y among them."""
    ids = {field_id(item): item.type for item in child_fields(stored)}
    known = {field_id(item): item.type for item in corner}
    needed = {field_id(item) for item in list(corner)[:2]}
    return pa.types.is_struct(stored) and needed <= ids.keys() and ids.items() <= known.items()


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


def _crossed_bounds(stats: RowStatistics) -> Mask:
    wrong = stats.none()
    for column, group in stats.groups():
        lower, upper = group.get("lower_bound"), group.get("upper_bound")
        if lower is None or upper is None:
            continue
        if isinstance(column.type, SHAPES):
            wrong |= crossed(lower, upper, column.type)
            continue
        wrong |= mask_of(pc.greater(lower, upper))
        if pa.types.is_floating(lower.type):
            wrong |= mask_of(pc.is_nan(lower)) | mask_of(pc.is_nan(upper))
    return wrong


def _miscounted(stats: RowStatistics) -> Mask:
    wrong = stats.none()
    is_file, records = stats.rows.of(*FILES), stats.rows.numbers("record_count")
    for column, group in stats.groups():
        values, has_values = group.counts("value_count")
        nulls, _ = group.counts("null_count")
        nans, _ = group.counts("nan_count")
        wrong |= (values < 0) | (nulls < 0) | (nans < 0) | (has_values & (nulls + nans > values))
        if column.id in stats.table.top_level:
            wrong |= is_file & has_values & (values != records)
    return wrong


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
        "differing": (~has_lower & has_upper)
        | (has_lower & has_upper & mask_of(differing(lower, upper))),
        "without_upper": has_lower & ~has_upper,
        "without_value": unbounded & ~(known & ((nulls == values) | (nans == values))),
        "loose": loose & has_lower,
    }


def _not_derived(stats: RowStatistics) -> Mask:
    """Partition values that are not what follows from a column of one value."""
    wrong = stats.none()
    is_data = stats.rows.of(Content.DATA)
    for one in stats.table.derived:
        group, source = stats.group(one.stats_id), stats.group(one.source.id)
        if group is None or source is None:
            continue
        value, tight = group.get("lower_bound"), source.get("tight_bounds")
        lower, upper = source.get("lower_bound"), source.get("upper_bound")
        if value is None or lower is None or upper is None or tight is None:
            continue
        same = is_data & mask_of(tight) & mask_of(pc.equal(lower, upper))
        rows = np.flatnonzero(same & mask_of(value.is_valid()))
        if not len(rows):
            continue
        try:
            wanted = transform_column(one.transform, one.source.type, lower.take(pa.array(rows)))
        except ValueError:
            continue  # a transform that this type does not take
        stored = value.take(pa.array(rows))
        wrong[rows[mask_of(pc.not_equal(plain(wanted).cast(stored.type), stored))]] = True
    return wrong


# -- the statistics of a leaf, as its root has them -----------------------------------------------


@dataclass(frozen=True)
class LeafStatistics:
    """What a root says of a leaf's columns, one struct, and the rows of the leaf."""

    subject: str
    stated: pa.StructArray
    rows: pa.Table
    columns: Sequence[StatsColumn]
    of_older_version: bool = False

    @cached_property
    def differing(self) -> Mapping[str, Sequence[int]]:
        ids: dict[str, list[int]] = {name: [] for name in ("narrow", "untrue", "absent", "wide")}
        live = self.rows.filter(pc.not_equal(self.rows["status"], int(Status.DELETED)))
        if len(live):
            stats = whole(live[STATS])
            total = aggregate(stats, self.columns, whole(live["record_count"]))
            parts = (self.stated.flatten(), total.flatten(), stats.flatten())
            for column, *members in zip(self.columns, *parts, strict=True):
                for name in _compared(column.type, *map(StatsMembers, members)):
                    ids[name].append(column.id)
        return ids


def in_leaf(
    name: str, what: str, severity: Severity | None = None, of_older: Severity | None = None
) -> Check[LeafStatistics]:
    """Check the columns of a leaf that differ in a way, with one breach for all.

    What a root leaves out of a leaf of an older version may be only worth knowing (`of_older`).
    """

    def search(leaf: LeafStatistics) -> Iterator[Breach]:
        ids = leaf.differing[name]
        if ids:
            more = f" and {len(ids) - 1:,} more" if len(ids) > 1 else ""
            text = f"it {what}, of the column {ids[0]}{more}"
            yield Breach(text, severity=of_older if leaf.of_older_version else severity)

    return Check(LeafStatistics, search)


def _compared(
    type_: Type, stated: StatsMembers, whole: StatsMembers, rows: StatsMembers
) -> Iterator[str]:
    if stated.is_null.all():
        if not whole.is_null.all():
            yield "absent"
        return
    lower, upper = stated.get("lower_bound"), stated.get("upper_bound")
    if lower is not None and upper is not None:
        if _outside(type_, rows, lower, upper):
            yield "narrow"
        elif _outside(type_, stated, whole.get("lower_bound"), whole.get("upper_bound")):
            yield "wide"
    for name in ("value_count", "null_count", "nan_count"):
        (claimed, is_stated), (counted, is_known) = stated.counts(name), whole.counts(name)
        if (is_stated & is_known & (claimed != counted)).any():
            yield "untrue"
            return
    if _is_not_tight(stated, whole):
        yield "untrue"


def _outside(type_: Type, group: StatsMembers, lower: pa.Array, upper: pa.Array) -> bool:
    least, most = group.get("lower_bound"), group.get("upper_bound")
    if isinstance(type_, SHAPES):
        return has_outside((least, most), (lower, upper), type_)
    below, above = pc.less(least, lower[0]), pc.greater(most, upper[0])
    return bool(mask_of(below).any() or mask_of(above).any())


def _is_not_tight(stated: StatsMembers, whole: StatsMembers) -> bool:
    """Return whether bounds are called tight that are not those of the rows."""
    claimed, tight = stated.get("tight_bounds"), whole.get("tight_bounds")
    if claimed is None or not mask_of(claimed).any():
        return False
    if tight is None or not mask_of(tight).any():
        return True
    return any(stated.get(name) != whole.get(name) for name in ("lower_bound", "upper_bound"))


# fmt: off
STATISTICS_RULES = (
    rule("V4-140", "members of statistics have the ids and types of their columns", "Statistics",
         "error", REWRITE_MANIFESTS, Check(RowStatistics, _mismatched_members),
         Check(RootRows, _lost_columns)),
    rule("V4-141", "files of partitioned specs have their partition values", "Statistics", "error",
         NO_PARTITION,
         in_statistics("has no statistics of a field that it is partitioned by",
                       lambda one: one.tuple_masks["absent"])),
    rule("V4-142", "a partition value is one value", "Statistics", "error", NO_PARTITION,
         in_statistics("has a partition value with two different bounds, or only an upper one",
                       lambda one: one.tuple_masks["differing"]),
         in_statistics("has a partition value without an upper bound",
                       lambda one: one.tuple_masks["without_upper"], "warning"),
         in_statistics("has a partition value that is neither null nor NaN, and no bounds of it",
                       lambda one: one.tuple_masks["without_value"])),
    rule("V4-143", "bounds of partition values are tight", "Statistics", "error", NO_PARTITION,
         in_statistics("has a partition value with loose bounds",
                       lambda one: one.tuple_masks["loose"])),
    rule("V4-144", "no lower bound is above its upper one", "Statistics", "error", COMPACT,
         in_statistics("has a lower bound above the upper one, or NaN as a bound",
                       _of_live(_crossed_bounds))),
    rule("V4-145", "counts of values add up", "Statistics", "error", COMPACT,
         in_statistics("has counts of values that do not add up", _of_live(_miscounted))),
    rule("V4-146", "statistics of a leaf hold those of its rows", "Statistics", "error",
         REWRITE_MANIFESTS,
         in_leaf("narrow", "has rows outside of the bounds in its root"),
         in_leaf("untrue", "has other statistics than its root says")),
    rule("V4-147", "leaves have statistics where they can", "Statistics", "warning",
         REWRITE_MANIFESTS,
         in_leaf("absent", "has statistics that its root lacks", of_older="info"),
         in_leaf("wide", "has tighter bounds than its root says", "info", "info")),
    rule("V4-148", "manifest delete vectors have no statistics", "Statistics", "error",
         REWRITE_MANIFESTS,
         in_statistics("is a bitmap with statistics of columns",
                       lambda one: one.rows.of(Content.MANIFEST_DV) & ~one.is_null)),
    rule("V4-149", "partition values are the transform of their column", "Statistics", "warning",
         REPARTITION,
         in_statistics("has a partition value that its column does not give",
                       _of_live(_not_derived)),
         beside_bounds("truncate", "year", "month", "day", "hour", severity="error")[0]),
)
# fmt: on
