"""Columns and expressions that version 4 manifests have statistics of, by stats id (sfc-1 5.1)."""

from collections.abc import Iterator
from dataclasses import dataclass

from icectl.format.expressions import HIGHEST_STATS_ID
from icectl.format.metadata import TableMetadata
from icectl.format.schema import Schema
from icectl.format.types import NestedField, StructType, Type, is_nested

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
    columns = {column.id: column for column in _columns(metadata.current_schema)}
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


def _columns(schema: Schema) -> Iterator[StatsColumn]:
    """Primitive columns, those inside structs too."""

    def walk(fields: tuple[NestedField, ...], *, required: bool) -> Iterator[StatsColumn]:
        """Yield the primitive columns among fields; one is required if all around it are."""
        for item in fields:
            is_required = required and item.required
            if isinstance(item.type, StructType):
                yield from walk(item.type.fields, required=is_required)
            elif not is_nested(item.type):
                yield StatsColumn(item.id, item.type, is_required)

    yield from walk(schema.fields, required=True)
