"""Which columns of a Parquet file are worth a dictionary: those whose values come again.

Writers try one for every column and give up when it gets too large, which for keys and measured
numbers costs time, and space: what was encoded by then stays so, the dictionary with it.
"""

from collections.abc import Sequence
from io import BytesIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

_SAMPLES, _SAMPLE_ROWS = 8, 4096
_SAMPLE_BYTES = 1 << 20
"""Of one sample; its rows are fewer where they are wide, and never less than _FEWEST_ROWS."""
_FEWEST_ROWS = 4
_DISTINCT = 0.8
"""Part of different values in a sample from which a dictionary hardly has a value twice."""


def columns_with_dictionary(rows: pa.Table) -> list[str] | bool:
    """The paths of columns to give a dictionary to, by what some rows hold; true for all of them.

    Only columns outside of structs, lists and maps are judged.
    """
    sample = _sample(rows)
    fruitless = {
        field.name
        for field, column in zip(rows.schema, sample.columns, strict=True)
        if not pa.types.is_nested(field.type) and _is_distinct(column)
    }
    return [path for path in _paths(rows.schema) if path not in fruitless] if fruitless else True


def _sample(rows: pa.Table) -> pa.Table:
    most = _SAMPLE_BYTES * rows.num_rows // max(rows.nbytes, 1)
    size = max(_FEWEST_ROWS, min(_SAMPLE_ROWS, most))
    if rows.num_rows <= _SAMPLES * size:
        return rows
    step = (rows.num_rows - size) // (_SAMPLES - 1)
    return pa.concat_tables([rows.slice(at * step, size) for at in range(_SAMPLES)])


def _is_distinct(column: pa.ChunkedArray) -> bool:
    present = len(column) - column.null_count
    if isinstance(column.type, pa.BaseExtensionType):
        column = pa.chunked_array([chunk.storage for chunk in column.chunks])
    return bool(present) and int(pc.count_distinct(column).as_py()) > _DISTINCT * present


def _paths(schema: pa.Schema) -> Sequence[str]:
    """The columns of Parquet that a schema has, as its writer calls them."""
    file = BytesIO()
    pq.ParquetWriter(file, schema).close()
    stored = pq.ParquetFile(file).schema
    return [stored.column(at).path for at in range(len(stored.names))]
