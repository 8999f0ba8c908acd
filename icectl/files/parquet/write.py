"""Parquet data files: written a row group at a time, with footers that mislead no reader, and
written again with some columns changed, where all else stays as it was.

Java compares the halves of UUIDs as signed numbers; other readers and the format compare bytes. No
bounds of UUIDs are right for both, and Java also skips rows by dictionary values. Java treats NaN
as the greatest value, but footers exclude NaN; and it misses 0.0 if a dictionary has only -0.0.
Without such bounds and dictionaries, all readers read the rows.
"""

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from types import MappingProxyType
from typing import IO, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from icectl.entries.columns import whole
from icectl.errors import Unsupported
from icectl.files.arrow_failures import reading_data_file
from icectl.files.parquet.footer import FooterChanges, changed, shape_statistics
from icectl.files.parquet.schema import child_fields, field_id, leaves, logical_types, no_rows
from icectl.files.wkb import Shapes

_END = 8
"""Bytes behind a footer: its length, and what Parquet files end with."""

_BUFFER_BYTES = 1 << 19
"""What is encoded before the file gets it: each call waits for other threads of Python."""

_MOST_VALUES = 1024
"""What the writer encodes before it looks at the sizes of page and dictionary."""
_SAMPLE_BYTES = 1 << 20
"""Of one sample; its rows are fewer where they are wide, and never less than _FEWEST_ROWS."""
_FEWEST_ROWS = 4
_SAMPLES = 8

Place = Sequence[int]
"""Field ids from a top-level column down to one inside it."""

OWN_LEVELS = {"gzip": 6, "zstd": 3}
"""The levels of codecs that other writers take, too. Arrow takes 9 for gzip, eight times slower for
a fiftieth of the bytes, and 1 for zstd: sorted times take half as many bytes again."""


@dataclass(frozen=True, slots=True)
class ParquetOptions:
    """The options of Parquet files, sizes in bytes; a level of None is the codec's own."""

    compression: str = "zstd"
    compression_level: int | None = None
    page_size_bytes: int = 1 << 20
    page_row_limit: int = 20_000
    dictionary_size_bytes: int = 2 << 20
    bloom_filters: Mapping[str, float] = field(default_factory=dict)
    """Columns to write Bloom filters of, by dotted name, with the share of false positives; 0 for
    none."""
    bloom_filter_bytes: int = 1 << 20
    """What one filter may take: with more values its false positives grow."""


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
        self._sink = pa.BufferedOutputStream(pa.PythonFile(self._out, mode="w"), _BUFFER_BYTES)
        self._schema = schema
        self._options = options
        self._properties = properties
        self._writer: Any = None
        self._with_nan: list[Collection[int]] = []
        self._shapes: list[Mapping[int, Shapes]] = []
        self.waiting_rows = self.waiting_bytes = 0
        """Those of row groups that are not encoded yet: there are none."""

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
        """Write batches as one row group, with the ids of columns with NaN, and shapes by id."""
        table = pa.Table.from_batches(batches, self._schema)
        self._begun(table).write_table(table, row_group_size=max(1, table.num_rows))
        self._sink.flush()
        self._with_nan.append(with_nan)
        self._shapes.append(shapes)

    def drain(self) -> None:
        """Wait for row groups that are not encoded yet."""

    def close(self) -> Any:
        """Write the footer; what pyarrow would have had it say, as its FileMetaData."""
        writer = self._begun(no_rows(self._schema))
        self._sink.flush()
        self._out.kept_back = bytearray()
        writer.close()
        self._sink.flush()
        ending = bytes(self._out.kept_back)  # from before the footer on
        start = len(ending) - _END - int.from_bytes(ending[-_END : -_END // 2], "little")
        footer = changed(ending[start:-_END], self._changes())
        size = len(footer).to_bytes(4, "little")
        self._file.write(ending[:start] + footer + size + ending[-_END // 2 :])
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
                    shapes[number, at] = _statistics(self._shapes[number].get(leaf.field_id or 0))
        types = logical_types(self._schema)
        return FooterChanges(frozenset(bounds), frozenset(encodings), types, shapes)

    def _begun(self, rows: pa.Table) -> Any:
        """Return the writer of the file, begun with its first rows."""
        if self._writer is None:
            options = self._options
            self._writer = pq.ParquetWriter(
                self._sink,
                self._schema,
                version="2.6",
                compression=options.compression,
                compression_level=options.compression_level,
                use_dictionary=columns_with_dictionary(rows, options.page_row_limit),
                data_page_size=options.page_size_bytes,
                write_batch_size=_values_at_a_time(rows, options.page_size_bytes),
                max_rows_per_page=options.page_row_limit,
                dictionary_pagesize_limit=options.dictionary_size_bytes,
                write_page_index=True,
                write_page_checksum=True,
                store_decimal_as_integer=True,
                store_schema=False,
                bloom_filter_options=_bloom_filters(self._schema, options, rows.num_rows),
            )
            self._writer.add_key_value_metadata(dict(self._properties))
        return self._writer

    def abandon(self) -> None:
        """Drop a file that is not wanted; without this a footer would be written some day."""
        self._out.kept_back = bytearray()
        if self._writer is not None:
            self._writer.is_open = False


class _Holding:
    """A file to write to that keeps back what it is given, once there is a place to hold it."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.closed = False
        self.kept_back: bytearray | None = None

    def write(self, content: bytes) -> int:
        """Write, or hold back."""
        if self.kept_back is None:
            return self._file.write(content)
        self.kept_back += content
        return len(content)

    def tell(self) -> int:
        """Return how many bytes were written and kept_back."""
        return self._file.tell() + len(self.kept_back or b"")

    def flush(self) -> None:
        """Leave it to what closes the file."""

    def close(self) -> None:
        """Leave it to what closes the file."""


def _statistics(shapes: Shapes | None) -> bytes | None:
    """Encode what a footer says of shapes; None where nothing is known of them.

    Of geography it says nothing: some readers take it for shapes on a plane, where a box across the
    line at 180 degrees has nothing in it.
    """
    if shapes is None or shapes.is_geography or shapes.box is None:
        return None
    return shape_statistics(shapes.box, shapes.types)


def _bloom_filters(
    schema: pa.Schema, options: ParquetOptions, row_count: int
) -> Mapping[str, Mapping[str, float]] | None:
    """Return the Bloom filters of row groups of about so many rows, as pyarrow takes them."""
    filters = {}
    for name in filtered_columns(schema, options.bloom_filters):
        ratio = options.bloom_filters[name]
        bits = 8 << (options.bloom_filter_bytes.bit_length() - 1)
        most = -math.log1p(-(ratio ** (1 / 8))) * bits / 8
        filters[name] = {"ndv": max(1, min(row_count, int(most))), "fpp": ratio}
    return filters or None


def filtered_columns(schema: pa.Schema, ratios: Mapping[str, float]) -> list[str]:
    """Return the columns that get Bloom filters, of those that shall have some.

    Of floating-point columns there are none: readers look for 0.0 by its bits, and miss -0.0.
    """
    flat = dict(_flat_columns("", schema))
    return [
        name
        for name, ratio in ratios.items()
        if ratio
        and (kind := flat.get(name)) is not None
        and not (pa.types.is_boolean(kind) or pa.types.is_floating(kind))
    ]


def _flat_columns(above: str, fields: Iterable[pa.Field]) -> Iterator[tuple[str, pa.DataType]]:
    """Yield columns outside of lists and maps by their dotted name."""
    for item in fields:
        if pa.types.is_struct(item.type):
            yield from _flat_columns(f"{above}{item.name}.", child_fields(item.type))
        elif not pa.types.is_nested(item.type):
            yield f"{above}{item.name}", item.type


def _values_at_a_time(rows: pa.Table, page_size_bytes: int) -> int:
    """Choose how many values to encode at a time, lest wide ones make pages far too large."""
    sizes = (column.nbytes // max(len(column), 1) for column in rows.columns)
    widest = max(sizes, default=0)
    return max(1, min(_MOST_VALUES, page_size_bytes // max(widest, 1)))


def columns_with_dictionary(rows: pa.Table, page_row_limit: int) -> list[str] | bool:
    """Return columns worth a dictionary by a page of some rows, nested ones always; True is all."""
    sample = _sample(rows, page_row_limit)
    fruitless = {
        field.name
        for field, column in zip(rows.schema, sample.columns, strict=True)
        if not pa.types.is_nested(field.type) and not _is_shorter_by_dictionary(column)
    }
    if not fruitless:
        return True
    file = BytesIO()
    pq.ParquetWriter(file, rows.schema).close()
    stored = pq.ParquetFile(file).schema
    paths = (stored.column(at).path for at in range(len(stored.names)))
    return [path for path in paths if path not in fruitless]


def _sample(rows: pa.Table, row_count: int) -> pa.Table:
    most = _SAMPLE_BYTES * rows.num_rows // max(rows.nbytes, 1)
    size = max(_FEWEST_ROWS, min(row_count // _SAMPLES, most))
    if rows.num_rows <= _SAMPLES * size:
        return rows
    step = (rows.num_rows - size) // (_SAMPLES - 1)
    return pa.concat_tables([rows.slice(at * step, size) for at in range(_SAMPLES)])


def _is_shorter_by_dictionary(column: pa.ChunkedArray) -> bool:
    """Whether the values of a page are longer than a dictionary and codes, or there is no value.

    So parquet-java decides by the first page: a look-up of one row reads a whole dictionary.
    """
    values = column.drop_null()
    if isinstance(values.type, pa.BaseExtensionType):
        values = pa.chunked_array([chunk.storage for chunk in values.chunks])
    if not len(values):
        return True
    different = values.unique()
    code_bits = (len(different) - 1).bit_length()
    return _plain_bits(different) + code_bits * len(values) < _plain_bits(values)


def _plain_bits(values: pa.Array | pa.ChunkedArray) -> int:
    kind = values.type
    if pa.types.is_decimal(kind):
        digits = kind.precision
        return len(values) * (32 if digits <= 9 else 64 if digits <= 18 else kind.bit_width)
    if pa.types.is_primitive(kind) or pa.types.is_fixed_size_binary(kind):
        return len(values) * int(kind.bit_width)
    return 8 * (int(pc.sum(pc.binary_length(values)).as_py()) + 4 * len(values))


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
    metadata, compression = source.metadata, "zstd"
    if metadata.num_row_groups and metadata.num_columns:
        compression = str(metadata.row_group(0).column(0).compression)
        compression = "none" if compression == "UNCOMPRESSED" else compression
    with pq.ParquetWriter(
        sink,
        source.schema_arrow,
        compression=compression,
        compression_level=OWN_LEVELS.get(compression.lower()),
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
            "a Parquet file has columns that pyarrow would store in another form",
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


def column(table: pa.Table, place: Place) -> pa.Array | None:
    """Return the column with these field ids; None without one."""
    fields, stored = list(table.schema), table.columns
    values: pa.Array | None = None
    for number in place:
        at = next((at for at, field in enumerate(fields) if field_id(field) == number), None)
        if at is None:
            return None
        values = whole(stored[at])
        fields = child_fields(values.type) if pa.types.is_struct(values.type) else []
        stored = [values.field(inner) for inner in range(len(fields))]
    return values


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
