"""All rows of a file, decoded, measured, and compared with its footer."""

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import pyarrow as pa

from icectl.checks.rule import Finding
from icectl.checks.rules import finding
from icectl.files.arrow_failures import reading_data_file
from icectl.files.data_file import DataFile
from icectl.files.data_rows import FileRows, check_values, child_columns, ids_of
from icectl.files.parquet.metrics import FileMetrics
from icectl.files.parquet.schema import child_fields, field_id
from icectl.files.parquet.shredding import check_variants
from icectl.files.wkb import Shapes
from icectl.format import single_value
from icectl.format.bounding_box import box_text, decode_box
from icectl.format.manifest import FileFormat
from icectl.format.schema import Schema
from icectl.format.types import GeographyType, Type, is_nested
from icectl.rows.columns import ColumnFacts, as_values, has_order, inside, is_shape, path_to
from icectl.units import print_value

_WORTH_THREADS_BYTES = 2**20
"""Bytes of a batch below which handing columns to threads takes longer than measuring them."""

_MOST_TOLD = 3
"""Columns that a finding names; if pages are destroyed, all of them differ."""


@dataclass(frozen=True, slots=True)
class FlatColumn:
    """A column outside of lists and maps: the positions that lead to it, and its type.

    Without a type only nulls are counted.
    """

    id: int
    path: tuple[int, ...]
    type: Type | None
    measured: ColumnFacts = field(default_factory=ColumnFacts)


@dataclass(slots=True)
class DecodedRows:
    """A reader of every column of an open file, which measures those of a schema.

    Of columns in `unlike`, whose type is not that of the schema, only nulls are counted.
    """

    opened: DataFile
    file_format: FileFormat
    schema: Schema
    unlike: Collection[int] = ()
    row_count: int = 0
    measured: dict[int, ColumnFacts] = field(default_factory=dict)
    """Columns by field id, once all rows are read."""
    inner_shapes: dict[int, Shapes] = field(default_factory=dict)
    """Columns of geometry and geography inside of lists and maps by field id, as `measured`."""
    _problems: list[str] = field(default_factory=list)

    def batches(self) -> Iterator[FileRows]:
        """Yield all rows with all columns, and check each value; a thread decodes ahead.

        Raises: CorruptTable R-099; Unsupported; OSError of the file.
        Cost: two batches, and a row group or a stripe as it is stored.
        """
        parts = list(self.opened.parts(self.schema))
        columns = self._columns()
        by_place: list[list[FlatColumn]] = [[] for _ in self.opened.schema]
        for column in columns:
            by_place[column.path[0]].append(column)
        number, end = 0, parts[0].record_count if parts else None
        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            for rows in _ahead(self.opened.batches(None)):
                while end is not None and rows.first_row >= end and number + 1 < len(parts):
                    self._end_part(columns, parts, number)
                    number += 1
                    end += parts[number].record_count
                jobs = [
                    (stored, item, columns_in, self.inner_shapes)
                    for stored, item, columns_in in zip(
                        rows.batch.columns, self.opened.schema, by_place, strict=True
                    )
                ]
                is_large = rows.batch.nbytes >= _WORTH_THREADS_BYTES
                list((pool.map if is_large else map)(_measure, jobs))
                self.row_count += rows.batch.num_rows
                yield rows
        self._end_part(columns, parts, number)
        stated_count = sum(part.record_count for part in parts)
        if parts and self.row_count != stated_count:
            self._problems.insert(0, f"they hold {self.row_count:,} rows, not {stated_count:,}")

    def findings(self, location: str) -> Iterator[Finding]:
        """Yield one finding with all differences of pages and footer (R-099)."""
        if self._problems:
            named, more = self._problems[:_MOST_TOLD], len(self._problems) - _MOST_TOLD
            ending = f"; and {more:,} more" if more > 0 else ""
            message = f"its pages are not what its footer says: {'; '.join(named)}{ending}"
            yield finding("R-099", location, message)

    def _columns(self) -> Sequence[FlatColumn]:
        """Return the columns outside of lists and maps, and begin with the shapes inside."""
        stored = self.opened.schema
        columns = []
        for id_ in dict.fromkeys(number for item in stored for number in ids_of(item)):
            declared, path = self.schema.field(id_), path_to(stored, id_)
            if declared is None or is_nested(declared.type):
                continue
            is_alike = id_ not in self.unlike
            if path is not None:
                is_measured = is_alike and (has_order(declared.type) or is_shape(declared.type))
                columns.append(FlatColumn(id_, path, declared.type if is_measured else None))
            elif is_alike and is_shape(declared.type):
                self.inner_shapes[id_] = Shapes(isinstance(declared.type, GeographyType))
        return columns

    def _end_part(
        self, columns: Sequence[FlatColumn], parts: Sequence[FileMetrics], number: int
    ) -> None:
        """Compare the rows of a row group with its footer, and begin the next."""
        where = f"row group {number}: " if len(parts) > 1 else ""
        for column in columns:
            facts = column.measured
            if parts:
                footer = parts[number]
                if self.file_format is not FileFormat.PARQUET and len(column.path) > 1:
                    # There a value below a null struct is absent, and not null.
                    facts.null_count = footer.null_value_counts.get(column.id, facts.null_count)
                name = self.schema.name_of(column.id) or str(column.id)
                differences = list(_differences(facts, footer, column))
                self._problems += [f"{where}`{name}` {difference}" for difference in differences]
            self.measured.setdefault(column.id, ColumnFacts()).merge(facts)
            facts.clear()


def _ahead(batches: Iterator[FileRows]) -> Iterator[FileRows]:
    """Yield the same, while a thread decodes the next."""
    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(next, batches, None)
        while (rows := coming.result()) is not None:
            coming = pool.submit(next, batches, None)
            yield rows


def _measure(job: tuple[pa.Array, pa.Field, Sequence[FlatColumn], Mapping[int, Shapes]]) -> None:
    """Check each value of a top-level column, and measure the columns in it."""
    stored, item, columns, inner_shapes = job
    check_values(stored)
    with reading_data_file("data"):
        check_variants(stored, item)
        if not inner_shapes.keys().isdisjoint(ids_of(item)):
            _add_shapes(stored, item, inner_shapes)
        for column in columns:
            values = inside(stored, column.path[1:])
            if column.type is None:
                column.measured.merge(ColumnFacts(len(values), values.null_count))
            else:
                column.measured.add(as_values(values, column.type), column.type)


def _add_shapes(column: pa.Array, item: pa.Field, shapes: Mapping[int, Shapes]) -> None:
    """Add the values of columns of shapes in a column, at any depth."""
    own_shapes = shapes.get(field_id(item) or 0)
    if own_shapes is not None:
        own_shapes.add(column)
    elif inner := child_fields(item.type):
        for part, child in zip(child_columns(column), inner, strict=True):
            _add_shapes(part, child, shapes)


def _differences(facts: ColumnFacts, footer: FileMetrics, column: FlatColumn) -> Iterator[str]:
    nulls = footer.null_value_counts.get(column.id)
    if nulls is not None and nulls != facts.null_count:
        yield f"holds {facts.null_count:,} nulls, not {nulls:,}"
    if column.type is None or column.id not in footer.lower_bounds:
        return
    box = None if facts.shapes is None else facts.shapes.box
    if box is not None:
        stated_box = decode_box(footer.lower_bounds[column.id], footer.upper_bounds[column.id])
        if not stated_box.contains(box):
            yield f"has shapes in {box_text(box)}, not in {box_text(stated_box)}"
    if facts.lower is None or facts.upper is None:
        return
    lower = single_value.decode(column.type, footer.lower_bounds[column.id])
    upper = single_value.decode(column.type, footer.upper_bounds[column.id])
    is_exact = column.id in footer.exact_bounds and not facts.nan_count
    is_equal = lower == facts.lower and upper == facts.upper
    if not is_equal if is_exact else lower > facts.lower or upper < facts.upper:
        ends = map(print_value, (facts.lower, facts.upper, lower, upper))
        yield "holds {} to {}, not {} to {}".format(*ends)
