"""Checks of one data file against its manifest entry: the footer first, then rows."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as arrow_types

from icectl.checks.rule import Finding
from icectl.checks.rules import finding
from icectl.errors import CorruptTable, Unsupported
from icectl.files.data_file import DataFile, open_data_file
from icectl.files.parquet.metrics import FileMetrics
from icectl.files.parquet.schema import NameMapping, field_id, is_variant_type, schema_from_arrow
from icectl.files.wkb import Shapes
from icectl.format import single_value
from icectl.format.bounding_box import BoundingBox, box_text, decode_box
from icectl.format.manifest import FileFormat
from icectl.format.partition import PartitionField
from icectl.format.rule import EITHER_VALUE, NO_PARTITION
from icectl.format.schema import Schema
from icectl.format.single_value import Value
from icectl.format.transforms import apply
from icectl.format.types import DecimalType, FixedType, PrimitiveType, Type, is_nested, type_text
from icectl.rows.columns import (
    ColumnFacts,
    as_values,
    differing,
    has_order,
    inside,
    is_real,
    is_shape,
    not_earlier,
    path_to,
    value_of,
)
from icectl.rows.decoded_rows import DecodedRows
from icectl.units import print_value

ROW_ID, LAST_UPDATED = 2_147_483_540, 2_147_483_539
_ROW_IDS = frozenset({ROW_ID, LAST_UPDATED})
_UNREAD = "check it with a reader that knows what it uses; all other files are checked"
_NOT_UTF_8 = "Invalid UTF8 sequence"
"""What pyarrow says of text that Java's readers show with marks in the place of its bytes."""
_AS_TEXT = "some engines read such text, others fail: replace these values with Spark"
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


@dataclass(frozen=True, slots=True)
class RecordedFile:
    """A data file as a manifest records it; `partition` pairs spec fields with their values.

    `deleted_count` is the most rows that are deleted by position, None if not known: deleted rows
    may have the ids of their replacements.
    """

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
    deleted_count: int | None = 0


@dataclass(frozen=True, slots=True)
class TableFacts:
    """The facts of a table for checks of files; `schema` has every column it ever had."""

    schema: Schema
    name_mapping: NameMapping
    format_version: int
    next_row_id: int | None


def check_data_file(
    file: IO[bytes], recorded: RecordedFile, table: TableFacts, *, by_footer: bool = False
) -> Iterator[Finding]:
    """Compare a data file with its manifest entry, and its footer with its rows.

    Raises: OSError of the file.
    Cost: all of its rows, a row group at a time; `by_footer` its footer, and the columns whose
    counts, bounds or partition values the footer does not prove.
    Spec: R-063, R-070 to R-075, R-092, R-095, R-099, R-100, R-105, R-130.
    """

    def findings() -> Iterator[Finding]:
        opened = open_data_file(file, recorded.file_format.name, table.name_mapping)
        check = _Check(opened, recorded, table)
        yield from check.by_footer() if by_footer else check.by_rows()

    yield from readable(recorded.location, findings())


def readable(location: str, findings: Iterator[Finding]) -> Iterator[Finding]:
    """Yield the findings of a file; an error that ends reading is the last (R-099)."""
    try:
        yield from findings
    except (CorruptTable, Unsupported) as error:
        yield unread(location, error)
    except pa.ArrowNotImplementedError as error:
        yield unread(location, Unsupported(str(error)))


def unread(location: str, error: CorruptTable | Unsupported) -> Finding:
    """Return the finding for an error of reading: damage, or an unknown feature (R-099)."""
    if isinstance(error, CorruptTable):
        hint = _AS_TEXT if _NOT_UTF_8 in error.message else None
        message = error.what
        return finding(error.rule, location, message, hint=hint)
    message = f"not checked: {error.message}"
    return finding("R-099", location, message, severity="warning", hint=_UNREAD)


@dataclass(frozen=True, slots=True)
class _Check:
    opened: DataFile
    recorded: RecordedFile
    table: TableFacts

    def by_footer(self) -> Iterator[Finding]:
        """Check the footer, and rows of columns that it does not prove."""
        recorded = self.recorded
        yield from check_count(recorded, self.opened.record_count)
        unlike = type_problems(self.opened.schema, self.table.schema)
        for problem in unlike.values():
            yield finding("R-095", recorded.location, problem)
        measured = self._by_footer(self.opened.metrics(self.table.schema))
        unproven = self._unproven(measured) - unlike.keys()
        wrong: dict[int, Value] = {}
        if unproven or self._paths(self._row_ids()):
            for id_ in unproven:
                measured[id_] = ColumnFacts()
            rows = _RowIds(recorded, self.table)
            places = self._paths(unproven) | self._paths(self._row_ids())
            for rows_ in self.opened.batches(places.keys()):
                rows_.check()
                for id_, type_, values in self._values(rows_.batch, places, rows):
                    measured[id_].add(values, type_)
                    self._compare_partitions(id_, type_, values, wrong)
            yield from rows.findings()
        yield from self._compared(measured, unlike, wrong)

    def by_rows(self) -> Iterator[Finding]:
        """Check all rows; if they contradict the footer, only that is a finding."""
        recorded, schema = self.recorded, self.table.schema
        unlike = type_problems(self.opened.schema, schema)
        for problem in unlike.values():
            yield finding("R-095", recorded.location, problem)
        sources = {_source(field_) for field_, _ in recorded.partition} - {None, *unlike}
        types = {id_: self._type(id_) for id_ in sources if id_ is not None}
        places = self._paths({id_ for id_, type_ in types.items() if type_ and has_order(type_)})
        places |= self._paths(self._row_ids())
        rows, wrong = _RowIds(recorded, self.table), dict[int, Value]()
        decoded = DecodedRows(self.opened, recorded.file_format, schema, unlike)
        for rows_ in decoded.batches():
            for id_, type_, values in self._values(rows_.batch, places, rows):
                self._compare_partitions(id_, type_, values, wrong)
        belied = tuple(decoded.findings(recorded.location))
        if belied:
            yield from belied
            return
        yield from check_count(recorded, decoded.row_count)
        yield from rows.findings()
        yield from self._compared(decoded.measured, unlike, wrong)
        for id_, shapes in decoded.inner_shapes.items():
            name = schema.name_of(id_) or str(id_)
            yield from _check_shapes(recorded, shapes, id_, name)

    def _compared(
        self,
        measured: Mapping[int, ColumnFacts],
        unlike: Collection[int],
        wrong: Mapping[int, Value],
    ) -> Iterator[Finding]:
        alike = {id_: facts for id_, facts in measured.items() if id_ not in unlike}
        yield from check_metrics(self.recorded, alike, self.table.schema)
        nulls = []
        for id_, facts in sorted(measured.items()):
            # A required field is nowhere where an optional struct around it is null.
            line = self.table.schema.line_to(id_)
            if line and all(item.required for item in line) and facts.null_count:
                name = self.table.schema.name_of(id_)
                nulls.append(f"`{name}` is required and has {facts.null_count} nulls")
        if nulls:
            yield finding("R-095", self.recorded.location, "; ".join(nulls))
        rules = {"bucket": "R-073", "truncate": "R-074", "identity": "R-071"}
        for field_, expected in self.recorded.partition:
            if field_.field_id in wrong:
                message = (
                    f"its partition value of `{field_.name}` is {print_value(expected)}, but a row "
                    f"gives {print_value(wrong[field_.field_id])} by {field_.transform.text}"
                )
                rule = rules.get(field_.transform.name, "R-072")
                location = self.recorded.location
                hint = None
                if rule == "R-071":  # repairs rewrite no manifests of version 4
                    is_tree = self.table.format_version > 3
                    hint = NO_PARTITION if is_tree else EITHER_VALUE.format(location)
                yield finding(rule, location, message, hint=hint)

    def _by_footer(self, footer: FileMetrics) -> dict[int, ColumnFacts]:
        """Read counts, and a safe range, of columns outside of lists and maps from the footer."""
        facts: dict[int, ColumnFacts] = {}
        for id_, nulls in footer.null_value_counts.items():
            type_ = self._type(id_)
            if type_ is None or path_to(self.opened.schema, id_) is None:
                continue
            measured = ColumnFacts(footer.value_counts.get(id_, footer.record_count), nulls)
            if id_ in footer.lower_bounds and id_ in footer.upper_bounds and has_order(type_):
                measured.lower = single_value.decode(type_, footer.lower_bounds[id_])
                measured.upper = single_value.decode(type_, footer.upper_bounds[id_])
            facts[id_] = measured
        return facts

    def _type(self, id_: int) -> Type | None:
        column = self.table.schema.field(id_)
        return None if column is None or is_nested(column.type) else column.type

    def _unproven(self, measured: Mapping[int, ColumnFacts]) -> set[int]:
        recorded, unproven = self.recorded, set()
        for id_ in {*recorded.lower_bounds, *recorded.upper_bounds, *recorded.null_value_counts}:
            facts = measured.get(id_)
            if facts is None or not _proves_bounds(recorded, facts, id_, self._type(id_)):
                unproven.add(id_)
        unproven |= {id_ for id_ in recorded.nan_value_counts if is_real(self._type(id_))}
        for field_, expected in recorded.partition:
            source = _source(field_)
            if source is not None and not self._proves_partition(field_, expected, measured):
                unproven.add(source)
        return {
            id_
            for id_ in unproven
            if self._type(id_) is not None and path_to(self.opened.schema, id_) is not None
        }

    def _proves_partition(
        self, field_: PartitionField, expected: Value, measured: Mapping[int, ColumnFacts]
    ) -> bool:
        source = _source(field_)
        facts = None if source is None else measured.get(source)
        type_ = None if source is None else self._type(source)
        if facts is None or type_ is None:
            return False
        if facts.null_count:
            return facts.null_count == facts.row_count and expected is None
        if facts.lower is None or facts.upper is None:
            return False
        if field_.transform.name not in _MONOTONE and facts.lower != facts.upper:
            return False
        try:
            ends = [apply(field_.transform, type_, end) for end in (facts.lower, facts.upper)]
        except ValueError:
            return False
        return bool(ends[0] == ends[1] == expected)

    def _row_ids(self) -> frozenset[int]:
        return _ROW_IDS if self.table.format_version >= 3 else frozenset()

    def _paths(self, ids: Collection[int]) -> dict[int, tuple[int, ...]]:
        paths = ((id_, path_to(self.opened.schema, id_)) for id_ in ids)
        return {id_: path for id_, path in paths if path is not None}

    def _values(
        self, batch: pa.RecordBatch, paths: Mapping[int, tuple[int, ...]], rows: "_RowIds"
    ) -> Iterator[tuple[int, Type, pa.Array]]:
        """Yield the values of columns of a batch; row ids are added to `rows`."""
        places = {field_id(item): at for at, item in enumerate(batch.schema)}
        for id_, path in paths.items():
            top = field_id(self.opened.schema.field(path[0]))
            column = inside(batch.column(places[top]), path[1:])
            type_ = self._type(id_)
            if id_ in _ROW_IDS:
                rows.add(id_, column)
            elif type_ is not None:
                yield id_, type_, as_values(column, type_)

    def _compare_partitions(
        self, id_: int, type_: Type, values: pa.Array, wrong: dict[int, Value]
    ) -> None:
        for field_, expected in self.recorded.partition:
            if _source(field_) != id_ or field_.field_id in wrong:
                continue
            expectation = (type_, field_.transform, expected)
            try:
                if _is_one(values, type_, field_, expected):
                    continue
                is_orc = self.recorded.file_format is FileFormat.ORC
                different = differing(
                    not_earlier(values, *expectation) if is_orc else values, *expectation
                )
            except ValueError:
                continue  # an error of the spec: the transform does not take the type
            if different is not None:
                wrong[field_.field_id] = different[0]


def check_count(recorded: RecordedFile, row_count: int) -> Iterator[Finding]:
    """Check that a file has as many rows as its entry says (R-063)."""
    if row_count != recorded.record_count:
        message = f"it has {row_count:,} rows, the manifest says {recorded.record_count:,}"
        yield finding("R-063", recorded.location, message)


def check_metrics(
    recorded: RecordedFile, measured: Mapping[int, ColumnFacts], schema: Schema
) -> Iterator[Finding]:
    """Check counts and bounds of the manifest against measured ones (R-092, R-130)."""
    wrong_counts, excluded = [], []
    for id_, facts in sorted(measured.items()):
        name, declared = schema.name_of(id_) or str(id_), schema.field(id_)
        type_ = None if declared is None else declared.type
        recorded_count = recorded.null_value_counts.get(id_)
        if recorded_count is not None and recorded_count != facts.null_count:
            wrong_counts.append(f"`{name}` has {facts.null_count} nulls, not {recorded_count}")
        recorded_count = recorded.nan_value_counts.get(id_)
        if recorded_count is not None and is_real(type_) and facts.nan_count != recorded_count:
            wrong_counts.append(f"`{name}` has {facts.nan_count} NaN, not {recorded_count}")
        if facts.shapes is not None:
            yield from _check_shapes(recorded, facts.shapes, id_, name)
        elif not _proves_bounds(recorded, facts, id_, type_):
            ends = f"{print_value(facts.lower)} to {print_value(facts.upper)}"
            excluded.append(f"`{name}` ranges from {ends}")
    if wrong_counts:
        yield finding("R-130", recorded.location, "; ".join(wrong_counts))
    if excluded:
        message = f"its bounds exclude rows: {'; '.join(excluded)}"
        yield finding("R-092", recorded.location, message)


def _check_shapes(recorded: RecordedFile, shapes: Shapes, id_: int, name: str) -> Iterator[Finding]:
    """Check shapes, and that the recorded box contains them (R-093, R-095)."""
    if shapes.invalid_count:
        message = f"`{name}` has {shapes.invalid_count:,} values that are no shapes"
        yield finding("R-095", recorded.location, f"{message}, one of them because {shapes.reason}")
    if shapes.outside_count:
        message = f"`{name}` has {shapes.outside_count:,} points that are not on the globe"
        yield finding("R-093", recorded.location, message, severity="warning")
    recorded_box, box = _recorded_box(recorded, id_), shapes.box
    if recorded_box is not None and box is not None and not recorded_box.contains(box):
        message = f"its bounds exclude rows: `{name}` has shapes in {box_text(box)}"
        yield finding("R-093", recorded.location, message)


def _recorded_box(recorded: RecordedFile, id_: int) -> BoundingBox | None:
    """Return the box of the bounds of a column; None for invalid ones."""
    if id_ not in recorded.lower_bounds or id_ not in recorded.upper_bounds:
        return None
    try:
        return decode_box(recorded.lower_bounds[id_], recorded.upper_bounds[id_])
    except ValueError:
        return None  # level metadata reports it


def _proves_bounds(
    recorded: RecordedFile, facts: ColumnFacts, id_: int, type_: Type | None
) -> bool:
    """Return whether the range of a column lies inside the recorded bounds."""
    if type_ is not None and is_shape(type_):
        return facts.shapes is not None or _recorded_box(recorded, id_) is None
    lower = _bound(recorded.lower_bounds.get(id_), type_)
    upper = _bound(recorded.upper_bounds.get(id_), type_)
    if lower is None and upper is None:
        return True
    if facts.null_count + facts.nan_count == facts.row_count:
        return True
    if facts.lower is None or facts.upper is None:
        return False
    return (lower is None or lower <= facts.lower) and (upper is None or upper >= facts.upper)


def _bound(stored: bytes | None, type_: Type | None) -> Value | None:
    if stored is None or type_ is None or not has_order(type_):
        return None
    try:
        return single_value.decode(type_, stored)
    except ValueError:
        return None  # level metadata reports it


def _is_one(values: pa.Array, type_: Type, field_: PartitionField, expected: Value) -> bool:
    """Return whether a transform that keeps the order gives the expected value at both ends."""
    if field_.transform.name not in _MONOTONE or values.null_count or is_real(type_):
        return False
    if not len(values):
        return True
    ends = pc.min_max(values).as_py()
    results = [apply(field_.transform, type_, value_of(ends[end], type_)) for end in ("min", "max")]
    return bool(results[0] == results[1] == expected)


@dataclass(slots=True)
class _RowIds:
    """Row ids that are stored in a file (R-100)."""

    recorded: RecordedFile
    table: TableFacts
    seen: list[pa.Array] = field(default_factory=list)
    greatest_number: int = -1

    def add(self, id_: int, column: pa.Array) -> None:
        """Add the row ids, or the sequence numbers, of a batch."""
        present = column.drop_null()
        if not len(present):
            return
        if id_ == ROW_ID:
            self.seen.append(present)
        else:
            self.greatest_number = max(self.greatest_number, pc.max(present).as_py())

    def findings(self) -> Iterator[Finding]:
        """Check the added values (R-100, R-105)."""
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
        allowed = self.recorded.deleted_count
        if allowed is not None and len(ids) - len(ids.unique()) > allowed:
            yield finding("R-100", location, "it stores a row id more than once")
        ends = pc.min_max(ids).as_py()
        limit = self.table.next_row_id
        if ends["min"] < 0 or (limit is not None and ends["max"] >= limit):
            message = (
                f"it stores row ids from {ends['min']} to {ends['max']}, outside of the table's"
            )
            yield finding("R-100", location, message)


def _source(field_: PartitionField) -> int | None:
    """Return the source column of a partition field; None if its value can't be computed."""
    is_known = field_.transform.name not in ("void", "unknown") and len(field_.source_ids) == 1
    return field_.source_ids[0] if is_known else None


def type_problems(stored: pa.Schema, schema: Schema) -> Mapping[int, str]:
    """Return columns whose type can't become the table's, by id, with the reason (R-095)."""
    problems = {}
    for column in stored:
        try:
            fields = schema_from_arrow(pa.schema([column])).all_fields
        except Unsupported:
            continue  # a finding of reading the column
        if _is_nested_alone(column, schema):
            id_ = field_id(column) or 0
            problems[id_] = _stored_as(id_, str(column.type), schema)
        for id_, stored_field in fields.items():
            declared = schema.field(id_)
            if declared is None or is_nested(declared.type) or is_nested(stored_field.type):
                continue
            if _family(stored_field.type) != _family(declared.type):
                problems[id_] = _stored_as(id_, type_text(stored_field.type), schema)
    return problems


def _is_nested_alone(column: pa.Field, schema: Schema) -> bool:
    """Return whether a column has fields in the file, and none in the table."""
    declared = schema.field(field_id(column) or 0)
    if declared is None or is_nested(declared.type) or not arrow_types.is_nested(column.type):
        return False
    return declared.type != PrimitiveType("variant") or not is_variant_type(column.type)


def _stored_as(id_: int, stored: str, schema: Schema) -> str:
    declared = schema.field(id_)
    assert declared is not None
    return (
        f"`{schema.name_of(id_)}` is stored as {stored}, the table has {type_text(declared.type)}"
    )


def _family(type_: Type) -> str:
    if isinstance(type_, DecimalType):
        return "decimal"
    if isinstance(type_, FixedType):
        return "fixed"
    if is_shape(type_):
        return "bytes"
    return _FAMILIES.get(type_.name, type_.name) if isinstance(type_, PrimitiveType) else "other"
