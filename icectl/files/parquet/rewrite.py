"""Parquet files with some columns changed: schema, field ids, key-value metadata and the other
columns stay as they were written.
"""

from collections.abc import Callable, Iterator, Sequence
from io import BytesIO

import pyarrow as pa
import pyarrow.parquet as pq

from icectl.entries.columns import whole
from icectl.errors import Unsupported
from icectl.files.arrow_failures import reading_data_file
from icectl.files.parquet.schema import child_fields, field_id

Place = Sequence[int]
"""Field ids from a top-level column down to one inside it."""

_LEVEL = {"GZIP": 6}
"""Arrow takes 9 for gzip, eight times slower for a fiftieth of the bytes."""


def rewrite_rows(content: bytes, change: Callable[[pa.Table], pa.Table]) -> bytes:
    """Return a Parquet file with the rows of each row group changed.

    Order: `change` is called for each row group, in their order, and keeps the schema.
    Raises: CorruptTable R-099, where it is damaged; Unsupported, where a column would be stored
    otherwise than before; what `change` raises.
    Cost: a row group in memory, and the new file.
    """
    with reading_data_file("Parquet"):
        source = pq.ParquetFile(BytesIO(content))
        pairs = {
            key: value for key, value in (source.metadata.metadata or {}).items() if key is not None
        }
        sink = BytesIO()
        groups = [change(group) for group in _row_groups(source)]
    compression = _compression(source)
    with pq.ParquetWriter(
        sink,
        source.schema_arrow,
        compression=compression,
        compression_level=_LEVEL.get(compression.upper()),
        store_schema=False,
        store_decimal_as_integer=True,
        version="2.6",
    ) as writer:
        for group in groups:
            writer.write_table(group, row_group_size=max(1, group.num_rows))
        writer.add_key_value_metadata(pairs)
    written = sink.getvalue()
    if not pq.ParquetFile(BytesIO(written)).schema.equals(source.schema):
        raise Unsupported(
            "a Parquet file has columns that pyarrow would store otherwise than they are",
            hint="maintain the table with the engine that wrote it",
        )
    return written


def read_row_groups(content: bytes) -> Iterator[pa.Table]:
    """Yield the rows of a file, with every column. Raises: CorruptTable R-099."""
    with reading_data_file("Parquet"):
        yield from _row_groups(pq.ParquetFile(BytesIO(content)))


def _row_groups(source: pq.ParquetFile) -> Iterator[pa.Table]:
    for number in range(source.metadata.num_row_groups):
        yield source.read_row_group(number)


def _compression(source: pq.ParquetFile) -> str:
    footer = source.metadata
    if not footer.num_row_groups or not footer.num_columns:
        return "zstd"
    found = str(footer.row_group(0).column(0).compression)
    return "none" if found == "UNCOMPRESSED" else found


def column(table: pa.Table, place: Place) -> pa.Array | None:
    """Return the column with these field ids; None without one."""
    fields, stored = list(table.schema), table.columns
    found: pa.Array | None = None
    for number in place:
        at = next((at for at, field in enumerate(fields) if field_id(field) == number), None)
        if at is None:
            return None
        found = whole(stored[at])
        fields = child_fields(found.type) if pa.types.is_struct(found.type) else []
        stored = [found.field(inner) for inner in range(len(fields))]
    return found


def with_column(table: pa.Table, place: Place, values: pa.Array) -> pa.Table:
    """Return the table with another column at these field ids, which are there."""
    fields = list(table.schema)
    at = next(at for at, field in enumerate(fields) if field_id(field) == place[0])
    stored = whole(table.column(at))
    return table.set_column(at, fields[at], _with_child(stored, place[1:], values))


def _with_child(stored: pa.Array, place: Place, values: pa.Array) -> pa.Array:
    if not place:
        return values
    fields = child_fields(stored.type)
    children = [
        _with_child(stored.field(at), place[1:], values)
        if field_id(field) == place[0]
        else stored.field(at)
        for at, field in enumerate(fields)
    ]
    mask = stored.is_null() if stored.null_count else None
    return pa.StructArray.from_arrays(children, fields=list(fields), mask=mask)
