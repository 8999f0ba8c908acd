"""Conditions on rows, evaluated row by row: true, false, or null where that is unknown."""

from collections.abc import Callable, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from icectl.entries.conditions.predicates import (
    And,
    Column,
    Compare,
    Constant,
    IsNan,
    IsNull,
    Not,
    Or,
    Predicate,
    StartsWith,
)
from icectl.files.parquet.schema import arrow_values
from icectl.format.types import PrimitiveType
from icectl.rows.columns import inside, path_to

_COMPARE: Mapping[str, Callable[[pa.Array, pa.Scalar], pa.Array]] = {
    "<": pc.less,
    "<=": pc.less_equal,
    "=": pc.equal,
}


def matches(predicate: Predicate, batch: pa.RecordBatch) -> pa.Array:
    """Whether a condition is true of each row of a batch, which has the columns that it names.

    NaN is above every number and equal to none. Order: kept.
    """
    match predicate:
        case Constant(value):
            return pa.repeat(pa.scalar(value), batch.num_rows)
        case Not(part):
            return pc.invert(matches(part, batch))
        case And(parts):
            return _joined(pc.and_kleene, [matches(part, batch) for part in parts])
        case Or(parts):
            return _joined(pc.or_kleene, [matches(part, batch) for part in parts])
        case IsNull(column):
            return _values(column, batch).is_null()
        case IsNan(column):
            return pc.fill_null(pc.is_nan(_values(column, batch)), fill_value=False)
        case StartsWith(column, prefix):
            return pc.starts_with(_values(column, batch), prefix)
        case Compare(column, operator, value):
            return _compared(column, operator, value, batch)


def _values(column: Column, batch: pa.RecordBatch) -> pa.Array:
    path = path_to(batch.schema, column.field_id or 0)
    assert path is not None
    return inside(batch.column(path[0]), path[1:])


def _compared(column: Column, operator: str, value: object, batch: pa.RecordBatch) -> pa.Array:
    stored, wanted = _values(column, batch), arrow_values(column.type, [value])
    if column.type == PrimitiveType("uuid"):
        stored, wanted = stored.storage, wanted.storage
    if pa.types.is_fixed_size_binary(stored.type):
        stored, wanted = stored.cast(pa.binary()), wanted.cast(pa.binary())
    return _COMPARE[operator](stored, wanted[0])


def _joined(join: Callable[[pa.Array, pa.Array], pa.Array], parts: list[pa.Array]) -> pa.Array:
    found = parts[0]
    for part in parts[1:]:
        found = join(found, part)
    return found
