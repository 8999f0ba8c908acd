"""Checks of one data file against its manifest entry: the footer first, then rows."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO

import pyarrow as pa
import pyarrow.compute as pc

from icectl.codec.data_file import DataFile, open_data_file
from icectl.codec.parquet_metrics import FileMetrics
from icectl.codec.parquet_schema import NameMapping, field_id, schema_from_arrow
from icectl.engine.kernels.columns import (
    Measured,
    as_values,
    differing,
    inside,
    not_earlier,
    path_to,
)
from icectl.errors import CorruptTable, Unsupported
from icectl.plan.model import Finding
from icectl.plan.validate.finding import finding
from icectl.spec import single_value
from icectl.spec.manifest import FileFormat
from icectl.spec.partition import PartitionField
from icectl.spec.schema import Schema
from icectl.spec.single_value import Value
from icectl.spec.transforms import apply
from icectl.spec.types import DecimalType, FixedType, PrimitiveType, Type, is_nested, type_text

ROW_ID, LAST_UPDATED = 2_147_483_540, 2_147_483_539
_FAMILIES: Mapping[str, str] = {
    "int": "integer",
    "long": "integer",
    "float": "real",
    "double": "real",
    "date": "instant",
    "timestamp": "instant",
    "timestamptz": "instant",
    "timestamp_ns": "instant",
    "timestamptz_ns": "instant",
    "string": "bytes",
    "binary": "bytes",
    "uuid": "fixed",
}
"""Types that writers store for one another, beside what was promoted (R-095, R-097)."""

_MONOTONE = frozenset({"identity", "truncate", "year", "month", "day", "hour"})
_REAL = frozenset({"float", "double"})


@dataclass(frozen=True, slots=True)
class Recorded:
    """What a manifest says of a data file; `partition` pairs spec fields with their values."""

    location: str
    file_format: FileFormat
    record_count: int
    sequence_number: int
    value_counts: Mapping[int, int] = field(default_factory=dict)
    null_value_counts: Mapping[int, int] = field(default_factory=dict)
    nan_value_counts: Mapping[int, int] = field(default_factory=dict)
    lower_bounds: Mapping[int, bytes] = field(default_factory=dict)
    upper_bounds: Mapping[int, bytes] = field(default_factory=dict)
    partition: Sequence[tuple[PartitionField, Value]] = ()


@dataclass(frozen=True, slots=True)
class TableFacts:
    """What checks of files have to know of their table; `schema` has every column ever had."""

    schema: Schema
    name_mapping: NameMapping
    format_version: int
    next_row_id: int | None


def check_data_file(file: IO[bytes], recorded: Recorded, table: TableFacts) -> Iterator[Finding]:
    """Compare a data file with its manifest entry.

    Raises: OSError of the file.
    Cost: its footer; of its rows the columns whose counts, bounds or partition values the footer
    does not prove, a row group at a time.
    Spec: R-063, R-070 to R-075, R-092, R-095, R-100, R-105, R-130.
    """
    try:
        opened = open_data_file(file, recorded.file_format.name, table.name_mapping)
        yield from _Check(opened, recorded, table).findings()
    except CorruptTable as error:
        message = error.message.removesuffix(f" ({error.rule})")
        yield finding(error.rule, recorded.location, message)
    except (Unsupported, pa.ArrowNotImplementedError) as error:
        told = error.message if isinstance(error, Unsupported) else str(error)
        yield finding("R-095", recorded.location, f"not checked: {told}", severity="warning")


@dataclass(frozen=True, slots=True)
class _Check:
    opened: DataFile
    recorded: Recorded
    table: TableFacts

    def findings(self) -> Iterator[Finding]:
        recorded = self.recorded
        if self.opened.record_count != recorded.record_count:
            message = (
                f"it has {self.opened.record_count:,} rows, "
                f"the manifest says {recorded.record_count:,}"
            )
            yield finding("R-063", recorded.location, message)
        yield from self._types()
        measured = self._by_footer(self.opened.metrics(self.table.schema))
        wanted = self._unproven(measured)
        wrong_partitions: dict[int, Value] = {}
        if wanted or self._has_row_ids():
            yield from self._read_rows(wanted, measured, wrong_partitions)
        yield from self._compare(measured)
        for field_, _ in recorded.partition:
            if field_.field_id in wrong_partitions:
                yield self._wrong_partition(field_, wrong_partitions[field_.field_id])

    def _types(self) -> Iterator[Finding]:
        """Columns have the type of the table's column, or one that it was promoted from (R-095)."""
        for at in range(len(self.opened.schema)):
            arrow_field = self.opened.schema.field(at)
            problem = _type_problem(arrow_field, self.table)
            if problem is not None:
                yield finding("R-095", self.recorded.location, problem)

    def _by_footer(self, footer: FileMetrics) -> dict[int, Measured]:
        """What the footer tells of columns outside of lists and maps: counts, and a safe range."""
        found: dict[int, Measured] = {}
        for id_, nulls in footer.null_value_counts.items():
            type_ = self._type(id_)
            if type_ is None or path_to(self.opened.schema, id_) is None:
                continue
            measured = Measured(footer.value_counts.get(id_, footer.record_count), nulls)
            if id_ in footer.lower_bounds and id_ in footer.upper_bounds:
                measured.lower = single_value.decode(type_, footer.lower_bounds[id_])
                measured.upper = single_value.decode(type_, footer.upper_bounds[id_])
            found[id_] = measured
        return found

    def _type(self, id_: int) -> Type | None:
        known = self.table.schema.field(id_)
        return None if known is None or is_nested(known.type) else known.type

    def _unproven(self, measured: Mapping[int, Measured]) -> set[int]:
        """The columns whose rows have to be read."""
        recorded, wanted = self.recorded, set()
        for id_ in {*recorded.lower_bounds, *recorded.upper_bounds, *recorded.null_value_counts}:
            known = measured.get(id_)
            if known is None or not self._proves_bounds(id_, known):
                wanted.add(id_)
        wanted |= {id_ for id_ in recorded.nan_value_counts if self._is_real(id_)}
        for field_, expected in recorded.partition:
            source = _source(field_)
            if source is not None and not self._proves_partition(field_, expected, measured):
                wanted.add(source)
        return {
            id_
            for id_ in wanted
            if self._type(id_) is not None and path_to(self.opened.schema, id_) is not None
        }

    def _is_real(self, id_: int) -> bool:
        type_ = self._type(id_)
        return isinstance(type_, PrimitiveType) and type_.name in _REAL

    def _proves_bounds(self, id_: int, known: Measured) -> bool:
        """Whether the range of the footer lies inside the recorded bounds."""
        lower, upper = self._bound(id_, "lower"), self._bound(id_, "upper")
        if lower is None and upper is None:
            return True
        if known.null_count == known.row_count:
            return True
        if known.lower is None or known.upper is None:
            return False
        return (lower is None or lower <= known.lower) and (upper is None or upper >= known.upper)

    def _bound(self, id_: int, side: str) -> Value | None:
        stored = getattr(self.recorded, f"{side}_bounds").get(id_)
        type_ = self._type(id_)
        if stored is None or type_ is None:
            return None
        try:
            return single_value.decode(type_, stored)
        except ValueError:
            return None  # level metadata reports it

    def _proves_partition(
        self, field_: PartitionField, expected: Value, measured: Mapping[int, Measured]
    ) -> bool:
        source = _source(field_)
        known = None if source is None else measured.get(source)
        type_ = None if source is None else self._type(source)
        if known is None or type_ is None:
            return False
        if known.null_count:
            return known.null_count == known.row_count and expected is None
        if known.lower is None or known.upper is None:
            return False
        if field_.transform.name not in _MONOTONE and known.lower != known.upper:
            return False
        try:
            ends = [apply(field_.transform, type_, end) for end in (known.lower, known.upper)]
        except ValueError:
            return False
        return bool(ends[0] == ends[1] == expected)

    def _has_row_ids(self) -> bool:
        return self.table.format_version >= 3 and any(
            path_to(self.opened.schema, id_) is not None for id_ in (ROW_ID, LAST_UPDATED)
        )

    def _read_rows(
        self, wanted: set[int], measured: dict[int, Measured], wrong: dict[int, Value]
    ) -> Iterator[Finding]:
        """Measure columns from their rows, and recompute the partition values made of them."""
        schema = self.opened.schema
        paths = {id_: path_to(schema, id_) or () for id_ in wanted}
        row_ids = {ROW_ID, LAST_UPDATED} if self.table.format_version >= 3 else set()
        paths |= {id_: path for id_ in row_ids if (path := path_to(schema, id_)) is not None}
        tops = {id_: schema.field(path[0]) for id_, path in paths.items()}
        numbers = {id_: field_id(top) for id_, top in tops.items()}
        for id_ in wanted:
            measured[id_] = Measured()
        rows = _RowIds(self.recorded, self.table)
        for rows_ in self.opened.batches(paths.keys()):
            rows_.check()
            places = {field_id(one): at for at, one in enumerate(rows_.batch.schema)}
            for id_, path in paths.items():
                column = inside(rows_.batch.column(places[numbers[id_]]), path[1:])
                if id_ in row_ids:
                    rows.add(id_, column)
                    continue
                type_ = self._type(id_)
                if type_ is not None:
                    values = as_values(column, type_)
                    measured[id_].add(values, type_)
                    self._compare_partitions(id_, type_, values, wrong)
        yield from rows.findings()

    def _compare_partitions(
        self, id_: int, type_: Type, values: pa.Array, wrong: dict[int, Value]
    ) -> None:
        for field_, expected in self.recorded.partition:
            if _source(field_) != id_ or field_.field_id in wrong:
                continue
            told = (type_, field_.transform, expected)
            try:
                is_orc = self.recorded.file_format is FileFormat.ORC
                found = differing(not_earlier(values, *told) if is_orc else values, *told)
            except ValueError:
                continue  # the transform does not take the type: a fault of the spec
            if found is not None:
                wrong[field_.field_id] = found[0]

    def _wrong_partition(self, field_: PartitionField, found: Value) -> Finding:
        expected = next(value for one, value in self.recorded.partition if one is field_)
        rule = {"bucket": "R-073", "truncate": "R-074", "identity": "R-071"}.get(
            field_.transform.name, "R-072"
        )
        message = (
            f"its partition value of `{field_.name}` is {expected!r}, "
            f"but a row gives {found!r} by {field_.transform.text}"
        )
        return finding(rule, self.recorded.location, message)

    def _compare(self, measured: Mapping[int, Measured]) -> Iterator[Finding]:
        """Counts and bounds of the manifest against what was measured (R-092, R-130)."""
        recorded, wrong_counts, excluded, nulls = self.recorded, [], [], []
        for id_, known in sorted(measured.items()):
            name = self.table.schema.name_of(id_) or str(id_)
            told = recorded.null_value_counts.get(id_)
            if told is not None and told != known.null_count:
                wrong_counts.append(f"`{name}` has {known.null_count} nulls, not {told}")
            told = recorded.nan_value_counts.get(id_)
            if told is not None and self._is_real(id_) and known.nan_count != told:
                wrong_counts.append(f"`{name}` has {known.nan_count} NaN, not {told}")
            if not self._proves_bounds(id_, known):
                excluded.append(f"`{name}` ranges from {known.lower!r} to {known.upper!r}")
            # A required field is nowhere where an optional struct around it is null.
            line = self.table.schema.line_to(id_)
            if line and all(item.required for item in line) and known.null_count:
                nulls.append(f"`{name}` is required and has {known.null_count} nulls")
        if wrong_counts:
            yield finding("R-130", recorded.location, "; ".join(wrong_counts))
        if excluded:
            message = f"its bounds exclude rows: {'; '.join(excluded)}"
            yield finding("R-092", recorded.location, message)
        if nulls:
            yield finding("R-095", recorded.location, "; ".join(nulls))


@dataclass(slots=True)
class _RowIds:
    """Row ids that are stored in a file (R-100)."""

    recorded: Recorded
    table: TableFacts
    seen: list[pa.Array] = field(default_factory=list)
    greatest_number: int = -1

    def add(self, id_: int, column: pa.Array) -> None:
        present = column.drop_null()
        if not len(present):
            return
        if id_ == ROW_ID:
            self.seen.append(present)
        else:
            self.greatest_number = max(self.greatest_number, pc.max(present).as_py())

    def findings(self) -> Iterator[Finding]:
        location = self.recorded.location
        if self.greatest_number > self.recorded.sequence_number:
            message = (
                f"a row was updated at {self.greatest_number}, after the file's own sequence "
                f"number {self.recorded.sequence_number}"
            )
            yield finding("R-105", location, message)
        if not self.seen:
            return
        ids = pa.chunked_array(self.seen)
        if len(ids.unique()) != len(ids):
            yield finding("R-100", location, "it stores a row id more than once")
        ends = pc.min_max(ids).as_py()
        limit = self.table.next_row_id
        if ends["min"] < 0 or (limit is not None and ends["max"] >= limit):
            message = (
                f"it stores row ids from {ends['min']} to {ends['max']}, outside of the table's"
            )
            yield finding("R-100", location, message)


def _source(field_: PartitionField) -> int | None:
    """The one column that a partition field is made of; None where its value cannot be told."""
    known = field_.transform.name not in ("void", "unknown") and len(field_.source_ids) == 1
    return field_.source_ids[0] if known else None


def _type_problem(stored: pa.Field, table: TableFacts) -> str | None:
    """How the type of a stored column does not fit that of the table's."""
    try:
        fields = schema_from_arrow(pa.schema([stored])).all_fields
    except Unsupported:
        return None  # said where the column is read
    for id_, found in fields.items():
        declared = table.schema.field(id_)
        if declared is None or is_nested(declared.type) or is_nested(found.type):
            continue
        if _family(found.type) != _family(declared.type):
            return (
                f"`{table.schema.name_of(id_)}` is stored as {type_text(found.type)}, "
                f"the table has {type_text(declared.type)}"
            )
    return None


def _family(type_: Type) -> str:
    if isinstance(type_, DecimalType):
        return "decimal"
    if isinstance(type_, FixedType):
        return "fixed"
    return _FAMILIES.get(type_.name, type_.name) if isinstance(type_, PrimitiveType) else "other"
