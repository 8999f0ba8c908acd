"""Parquet data files, a row group at a time, whose footers mislead no reader.

Java compares the halves of UUIDs as signed numbers, other readers and the format their bytes, so
that no bounds of UUIDs are right for both; by the values of a dictionary it leaves rows out too.
It takes NaN for greater than all else, but the greatest value in a footer is another; and 0.0 for
a value that a dictionary lacks, where -0.0 is in it. Without these statements all readers look at
the rows.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from types import MappingProxyType
from typing import IO, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from icectl.files.parquet.footer import FooterChanges, changed, shape_statistics
from icectl.files.parquet.schema import leaves, logical_types, no_rows
from icectl.files.wkb import Shapes

_END = 8
"""Bytes behind a footer: its length, and what Parquet files end with."""


@dataclass(frozen=True, slots=True)
class ParquetOptions:
    """The options that Parquet files are written with; `compression_level` None is the codec's own.

    Units: page and dictionary sizes in bytes.
    """

    compression: str = "zstd"
    compression_level: int | None = None
    page_size_bytes: int = 1 << 20
    page_row_limit: int = 20_000
    dictionary_size_bytes: int = 2 << 20


_MOST_VALUES = 1024
"""What the writer encodes before it looks at the sizes of page and dictionary."""
_SAMPLE_BYTES = 1 << 20
"""Of one sample; its rows are fewer where they are wide, and never less than _FEWEST_ROWS."""
_FEWEST_ROWS = 4
_DISTINCT = 0.8
"""Part of different values in a sample from which a dictionary hardly has a value twice."""


class ParquetWriter:
    """A Parquet file in the making; the file object stays open when it is closed."""

    def __init__(
        self,
        file: IO[bytes],
        schema: pa.Schema,
        options: ParquetOptions,
        properties: Mapping[str, str],
    ) -> None:
        self._file = file
        self._out = _Holding(file)
        self._schema = schema
        self._options = options
        self._properties = properties
        self._writer: Any = None
        self._with_nan: list[Collection[int]] = []
        self._shapes: list[Mapping[int, Shapes]] = []

    @property
    def size_bytes(self) -> int:
        """Bytes written so far, without what ends the file."""
        return self._file.tell()

    def write_row_group(
        self,
        batches: Sequence[pa.RecordBatch],
        with_nan: Collection[int] = (),
        shapes: Mapping[int, Shapes] = MappingProxyType({}),
    ) -> None:
        """Write batches of the schema as one row group.

        `with_nan` are the columns that have NaN, `shapes` those of geometry and geography.
        Shape: field ids.
        """
        table = pa.Table.from_batches(batches, self._schema)
        self._begun(table).write_table(table, row_group_size=max(1, table.num_rows))
        self._with_nan.append(with_nan)
        self._shapes.append(shapes)

    def close(self) -> Any:
        """Write the footer; what pyarrow would have had it say, as its FileMetaData."""
        writer = self._begun(no_rows(self._schema))
        self._out.held = bytearray()
        writer.close()
        self._file.write(_mended(bytes(self._out.held), self._changes()))
        return writer.writer.metadata

    def _changes(self) -> FooterChanges:
        bounds, encodings = set(), set()
        shapes: dict[tuple[int, int], bytes | None] = {}
        for at, leaf in enumerate(leaves(self._schema)):
            is_uuid = leaf.type == pa.uuid()
            is_real = pa.types.is_floating(leaf.type)
            may_have_nan = is_real and leaf.part is not None
            for number, with_nan in enumerate(self._with_nan):
                if is_uuid or may_have_nan or leaf.field_id in with_nan:
                    bounds.add((number, at))
                if is_uuid or is_real:
                    encodings.add((number, at))
                if leaf.is_shape:
                    shapes[number, at] = _told(self._shapes[number].get(leaf.field_id or 0))
        types = logical_types(self._schema)
        return FooterChanges(frozenset(bounds), frozenset(encodings), types, shapes)

    def _begun(self, rows: pa.Table) -> Any:
        """Return the writer of the file, begun with its first rows."""
        if self._writer is None:
            options = self._options
            self._writer = pq.ParquetWriter(
                self._out,
                self._schema,
                version="2.6",
                compression=options.compression,
                compression_level=options.compression_level,
                use_dictionary=columns_with_dictionary(rows),
                data_page_size=options.page_size_bytes,
                write_batch_size=_values_at_a_time(rows, options.page_size_bytes),
                max_rows_per_page=options.page_row_limit,
                dictionary_pagesize_limit=options.dictionary_size_bytes,
                write_page_index=True,
                write_page_checksum=True,
                store_decimal_as_integer=True,
                store_schema=False,
            )
            self._writer.add_key_value_metadata(dict(self._properties))
        return self._writer

    def abandon(self) -> None:
        """Let go of a file that nobody wants; without this a footer would be written some day."""
        if self._writer is not None:
            self._writer.is_open = False


class _Holding:
    """A file to write to that keeps back what it is given, once there is a place to hold it."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.closed = False
        self.held: bytearray | None = None

    def write(self, content: bytes) -> int:
        """Write, or hold back."""
        if self.held is None:
            return self._file.write(content)
        self.held += content
        return len(content)

    def tell(self) -> int:
        """Return how many bytes were written and held."""
        return self._file.tell() + len(self.held or b"")

    def flush(self) -> None:
        """Leave it to whoever closes the file."""


def _mended(ending: bytes, changes: FooterChanges) -> bytes:
    """Return the end of a file, from before its footer, with changes of that."""
    length = int.from_bytes(ending[-_END : -_END // 2], "little")
    start = len(ending) - _END - length
    footer = changed(ending[start:-_END], changes)
    return ending[:start] + footer + len(footer).to_bytes(4, "little") + ending[-_END // 2 :]


def _told(shapes: Shapes | None) -> bytes | None:
    """Return what a footer says of shapes; None where nothing is known of them.

    Of geography it says nothing: some readers take it for shapes on a plane, where a box across the
    line at 180 degrees has nothing in it.
    """
    if shapes is None or shapes.is_geography or shapes.box is None:
        return None
    return shape_statistics(shapes.box, shapes.types)


def _values_at_a_time(rows: pa.Table, page_size_bytes: int) -> int:
    """Choose how many values to encode at a time, lest wide ones make pages far too large."""
    widest = max((_value_bytes(column) for column in rows.columns), default=0)
    return max(1, min(_MOST_VALUES, page_size_bytes // max(widest, 1)))


def _value_bytes(column: pa.ChunkedArray) -> int:
    """Return the mean size of a row of a column, in bytes; rows of lists count as one value."""
    return int(column.nbytes) // max(len(column), 1)


_SAMPLES, _SAMPLE_ROWS = 8, 4096


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
    """Return the columns of Parquet that a schema has, as its writer calls them."""
    file = BytesIO()
    pq.ParquetWriter(file, schema).close()
    stored = pq.ParquetFile(file).schema
    return [stored.column(at).path for at in range(len(stored.names))]
