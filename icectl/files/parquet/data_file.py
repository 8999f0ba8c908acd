"""Parquet data files in batches."""

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from io import BytesIO
from itertools import cycle
from typing import IO, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from icectl.files.arrow_failures import damaged_data_file, reading_data_file
from icectl.files.data_rows import (
    LARGEST_BATCH_BYTES,
    LARGEST_BATCH_ROWS,
    FileRows,
    batch_rows,
    chosen,
    joined,
    typed_batch,
)
from icectl.files.parquet.footer import ChunkFacts, chunk_facts, chunk_filters
from icectl.files.parquet.metrics import (
    FileMetrics,
    Footer,
    footer_bytes,
    footer_metrics,
    read_footer,
    row_group_metrics,
    row_group_offset,
    split_offsets,
)
from icectl.files.parquet.schema import NameMapping, leaves, schema_with_ids
from icectl.format.schema import Schema

_KIND = "Parquet"
_ARROW_SCHEMA = b"ARROW:schema"
_WORTH_THREADS_BYTES = 2**20
"""Bytes of a row group below which handing columns to threads takes longer than reading them."""

_LARGEST_WORST_BYTES = LARGEST_BATCH_BYTES
"""Decoded bytes of a batch whose every value is the longest one of its dictionary."""
_FEW_BATCHES = 8
"""Batches that take less time than a look into dictionaries which shows that fewer would do."""
_WHOLE_CHUNKS_BYTES = 128 * 2**20
"""Stored bytes of a row group from which its columns are read piece by piece, not each at once."""
_PIECE_BYTES = 2**20
_END_BYTES = 2**16
"""What the reader asks for to find a footer: the whole of a file that is no longer."""
_SHARING = "DELTA_BYTE_ARRAY"
_FIRST_ROWS, _GROWTH = 64, 4
"""Rows of a first batch where nothing tells how wide they are, and how much more others have."""
_OFFSET_BYTES = 4
_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 8, "FLOAT": 4, "DOUBLE": 8}

_MOST_AT_A_LOOK = 100
"""Columns of a footer from which a look at all of them takes longer than reading a few."""

OnlyChunks = Mapping[int, tuple[pa.DataType, ChunkFacts]]
"""The types of columns, and what a footer says of the only chunk of each, by field id."""

_READ_OPTIONS: Mapping[str, Any] = {
    # Writers that still use 96 bits mean microseconds; as nanoseconds far years overflow.
    "coerce_int96_timestamp_unit": "us",
    "page_checksum_verification": True,
}


@dataclass(frozen=True)
class ParquetDataFile:
    """An open Parquet file."""

    stored: Any
    """Where its bytes are: a file object, or all of them in memory."""
    file: Any
    """pyarrow's ParquetFile."""
    schema: pa.Schema
    split: tuple[int, int] | None = None
    """Only the rows of row groups that begin in these bytes are read, the second not among them."""
    skipped: frozenset[int] = frozenset()
    """Numbers of row groups that are not read."""
    alike: tuple["ParquetDataFile", ...] = ()
    """Files of one row group, as this one, whose rows come behind its own in one batch."""

    @property
    def record_count(self) -> int:
        return int(self.file.metadata.num_rows)

    @property
    def properties(self) -> Mapping[str, str]:
        stored = self.file.metadata.metadata or {}
        return {
            key.decode(errors="replace"): value.decode(errors="replace")
            for key, value in stored.items()
            if key != _ARROW_SCHEMA
        }

    @property
    def filtered(self) -> frozenset[int]:
        """The field ids of columns whose first row group has a Bloom filter, as Arrow 26 tells."""
        footers = [opened.file.metadata for opened in (self, *self.alike)]
        row_groups = [metadata.row_group(0) for metadata in footers if metadata.num_row_groups]
        return frozenset(
            leaf.field_id
            for at, leaf in enumerate(leaves(self.schema))
            for row_group in row_groups
            if leaf.field_id is not None
            and leaf.part is None
            and getattr(row_group.column(at), "bloom_filter_offset", None) is not None
        )

    @property
    def unfiltered(self) -> frozenset[int]:
        """The field ids of columns that have a chunk without Bloom filter and whole dictionary."""
        metadata = self.file.metadata
        with reading_data_file(_KIND):
            filters = chunk_filters(footer_bytes(metadata))
        ids = [leaf.field_id for leaf in leaves(self.schema)]
        if filters is not None:
            found: Iterable[bool] = ~(filters.has_filter | filters.has_dictionary)
        else:  # a dictionary may lack values, which is not known
            chunks = (
                metadata.row_group(number).column(at)
                for number in range(metadata.num_row_groups)
                for at in range(metadata.num_columns)
            )
            found = [
                not chunk.has_dictionary_page and chunk.bloom_filter_offset is None
                for chunk in chunks
            ]
        pairs = zip(cycle(ids), found, strict=False)
        return frozenset(id_ for id_, is_without in pairs if is_without and id_ is not None)

    def metrics(self, schema: Schema, *, only: bool = False) -> FileMetrics:
        with reading_data_file(_KIND):
            return footer_metrics(self._footer, self.schema, schema, only=only)

    def facts(self) -> OnlyChunks | None:
        """Return what the footer says of columns outside of lists and variants, by their ids.

        None where that takes more than a look: of several row groups, of many columns, or without
        compiled loops.
        """
        chunks = self._chunk_facts
        return None if chunks is None else facts_by_id(self.schema, chunks)

    def decoded_bytes(self, chunks: Sequence[ChunkFacts]) -> int | None:
        """Return what the columns of a row group take, decoded; None where it does not say."""
        size_bytes = 0
        for width, chunk in zip(self._widths, chunks, strict=True):
            value_bytes = 0 if width else chunk.value_bytes
            if value_bytes is None or value_bytes < 0 or chunk.value_count is None:
                return None
            size_bytes += value_bytes + (width or _OFFSET_BYTES) * chunk.value_count
        return size_bytes

    @cached_property
    def _chunk_facts(self) -> Sequence[ChunkFacts] | None:
        metadata = self.file.metadata
        if metadata.num_row_groups != 1 or metadata.num_columns > _MOST_AT_A_LOOK:
            return None
        with reading_data_file(_KIND):
            chunks = chunk_facts(footer_bytes(metadata))
        return chunks if chunks and len(chunks) == len(leaves(self.schema)) else None

    @property
    def split_offsets(self) -> tuple[int, ...]:
        """Where row groups with rows start."""
        groups = map(self.file.metadata.row_group, range(self.file.metadata.num_row_groups))
        return split_offsets(group for group in groups if group.num_rows)

    def parts(self, schema: Schema) -> Sequence[FileMetrics]:
        with reading_data_file(_KIND):
            return row_group_metrics(self._footer, self.schema, schema)

    def batches(self, field_ids: Collection[int] | None) -> Iterator[FileRows]:
        places = chosen(self.schema, field_ids)
        schema = pa.schema([self.schema.field(place) for place in places])
        columns = self._columns(frozenset(places))
        first_row = 0
        with reading_data_file(_KIND):
            if self.alike:
                batch = self._with_alike(columns)
                yield FileRows(0, typed_batch(batch.columns, schema, batch.num_rows))
                return
            metadata = self.file.metadata
            for number in range(metadata.num_row_groups):
                if number in self.skipped or not self._is_read(metadata.row_group(number)):
                    first_row += metadata.row_group(number).num_rows
                    continue
                for batch in self._row_group(number, columns):
                    rows = typed_batch(batch.columns, schema, batch.num_rows)
                    yield FileRows(first_row, rows)
                    first_row += batch.num_rows

    def like(self, content: bytes) -> "ParquetDataFile":
        """Open a further file whose footer differs in rows and row groups only.

        Raises: as open_parquet.
        """
        with reading_data_file(_KIND):
            stored = pa.BufferReader(content)
            return replace(self, stored=stored, file=pq.ParquetFile(stored, **_READ_OPTIONS))

    def _with_alike(self, columns: list[int]) -> pa.RecordBatch:
        batches: list[pa.RecordBatch] = []
        for opened in (self, *self.alike):
            count = opened.record_count
            of_file = max(count, 1), [0], columns
            found = list(opened.file.reader.iter_batches(*of_file, use_threads=False))
            if sum(batch.num_rows for batch in found) != count:
                raise damaged_data_file(_KIND, "it has other rows than its footer says")
            batches += found
        return pa.concat_batches(batches)

    def _is_read(self, row_group: Any) -> bool:
        if self.split is None or not row_group.num_rows:
            return self.split is None
        start, stop = self.split
        return start <= row_group_offset(row_group) < stop

    def _row_group(self, number: int, columns: list[int]) -> Iterator[pa.RecordBatch]:
        group = self.file.metadata.row_group(number)
        if self._is_small(number, columns):
            threads = group.total_byte_size >= _WORTH_THREADS_BYTES
            rows = max(group.num_rows, 1)
            yield from self.file.reader.iter_batches(rows, [number], columns, use_threads=threads)
            return
        chunks = [group.column(column) for column in columns]
        size_bytes = sum(chunk.total_uncompressed_size for chunk in chunks)
        row_sizes = self._row_sizes(number, columns)
        file = self.file
        if sum(chunk.total_compressed_size for chunk in chunks) > _WHOLE_CHUNKS_BYTES:
            file = self._piece_by_piece()
        # By position: names with dots in them are ambiguous to the method of the file itself.
        batches: Iterator[pa.RecordBatch] = file.reader.iter_batches(
            row_sizes.next(), [number], columns, use_threads=size_bytes >= _WORTH_THREADS_BYTES
        )

        def sized() -> Iterator[pa.RecordBatch]:
            for batch in batches:
                # The reader looks at this number before each batch.
                file.reader.set_batch_size(row_sizes.next(batch))
                yield batch

        # Where a few values are far wider than others, few rows come at a time.
        yield from joined(sized(), LARGEST_BATCH_BYTES // 2)

    def _row_sizes(self, number: int, columns: list[int]) -> "_RowSizes":
        """Estimate the sizes of a row group's rows before they are decoded."""
        group = self.file.metadata.row_group(number)
        sizes = _RowSizes(group.num_rows)
        coded = []
        for column in columns:
            chunk = group.column(column)
            size_bytes = max(chunk.total_uncompressed_size, chunk.num_values * self._widths[column])
            sizes.add(size_bytes, size_bytes)
            if not self._widths[column] and chunk.has_dictionary_page:
                coded.append(column)
            sizes.is_guess |= _SHARING in chunk.encodings
        unknown = sum(
            chunk.num_values * chunk.total_uncompressed_size for chunk in map(group.column, coded)
        )
        rows = min(sizes.next(), group.num_rows)
        if unknown <= _FEW_BATCHES * _LARGEST_WORST_BYTES:
            sizes.add(0, unknown)  # no value is longer than all that is stored
        elif unknown * rows > _LARGEST_WORST_BYTES * max(group.num_rows, 1):
            # Opened once: that alone takes long where there are thousands of columns.
            reader = self._piece_by_piece(read_dictionary=coded).reader
            for column in coded:
                count = group.column(column).num_values
                mean, longest = self._lengths(reader, number, column)
                sizes.add(int(mean * count), longest * count)
        return sizes

    def _lengths(self, reader: Any, number: int, column: int) -> tuple[float, int]:
        """Return the mean and the largest length of the values in a dictionary."""
        for batch in reader.iter_batches(1, [number], [column], use_threads=False):
            values = batch.column(0)
            while pa.types.is_nested(values.type):  # down to the leaf that was read by itself
                is_struct = pa.types.is_struct(values.type)
                values = values.field(0) if is_struct else values.values
            if not pa.types.is_dictionary(values.type):
                break  # as decimals, whose width is known once they are decoded
            if len(values.dictionary):
                lengths = pc.binary_length(values.dictionary)
                return pc.mean(lengths).as_py(), pc.max(lengths).as_py()
            reader.set_batch_size(LARGEST_BATCH_ROWS)  # no value came yet
        return 0.0, 0

    def _piece_by_piece(self, **options: Any) -> Any:
        """Return the file once more, of whose columns no more is read than is decoded next."""
        return pq.ParquetFile(
            self.stored,
            metadata=self.file.metadata,
            pre_buffer=False,
            buffer_size=_PIECE_BYTES,
            **_READ_OPTIONS,
            **options,
        )

    def _is_small(self, number: int, columns: list[int]) -> bool:
        """Whether a row group is one batch: whatever its values, or as the footer says of these."""
        group = self.file.metadata.row_group(number)
        if group.num_rows > LARGEST_BATCH_ROWS:
            return False
        chunks = [(self._widths[column], group.column(column)) for column in columns]
        # Each value is stored at least once.
        widths = sum(width or chunk.total_uncompressed_size for width, chunk in chunks)
        if self._is_flat and widths * group.num_rows <= _LARGEST_WORST_BYTES:
            return True
        fixed_bytes = sum((width or _OFFSET_BYTES) * chunk.num_values for width, chunk in chunks)
        if fixed_bytes > _LARGEST_WORST_BYTES:
            return False
        varying = [column for column in columns if not self._widths[column]]
        if self._chunk_facts is not None:
            stated = [self._chunk_facts[column].value_bytes for column in varying]
            sizes = [size for size in stated if size is not None and size >= 0]
            value_bytes = sum(sizes) if len(sizes) == len(stated) else None
        else:
            first = number * self.file.metadata.num_columns
            value_bytes = self._footer.value_bytes([first + column for column in varying])
        return value_bytes is not None and fixed_bytes + value_bytes <= _LARGEST_WORST_BYTES

    @cached_property
    def _footer(self) -> Footer:
        return read_footer(self.file.metadata)

    @cached_property
    def _is_flat(self) -> bool:
        """Whether no row has several values of a column."""
        return not any(pa.types.is_nested(kind) for kind in self.schema.types)

    @cached_property
    def _widths(self) -> list[int]:
        """Bytes of a decoded value by column; 0 where they differ."""
        stored = self.file.metadata.schema
        columns = map(stored.column, range(len(stored.names)))
        return [_WIDTHS.get(column.physical_type) or max(column.length, 0) for column in columns]

    def _columns(self, places: frozenset[int]) -> list[int]:
        if self._is_flat:
            return sorted(places)
        roots = [
            place for place, field in enumerate(self.schema) for _ in leaves(pa.schema([field]))
        ]
        return [column for column, place in enumerate(roots) if place in places]


def open_parquet(file: IO[bytes], name_mapping: NameMapping) -> ParquetDataFile:
    """Open a Parquet file; a short one is read whole. Raises: CorruptTable R-099; Unsupported."""
    with reading_data_file(_KIND):
        stored: Any = file
        if type(file) is BytesIO:  # others may read in their own way
            stored = pa.BufferReader(file.getvalue())
        elif file.seek(0, os.SEEK_END) <= _END_BYTES:
            # Else it would be read twice, first for its footer and then for its rows.
            file.seek(0)
            stored = pa.BufferReader(file.read())
        opened = pq.ParquetFile(stored, pre_buffer=stored is file, **_READ_OPTIONS)
        return ParquetDataFile(stored, opened, schema_with_ids(opened.schema_arrow, name_mapping))


def facts_by_id(schema: pa.Schema, chunks: Sequence[ChunkFacts]) -> OnlyChunks:
    """Return what is known of the chunks of a row group, as `facts` of its file."""
    return {
        leaf.field_id: (leaf.type, chunk)
        for leaf, chunk in zip(leaves(schema), chunks, strict=True)
        if leaf.field_id is not None and leaf.part is None and not leaf.is_repeated
    }


@dataclass(slots=True)
class _RowSizes:
    """Decoded bytes of some rows: what they are expected to be, and what they are at worst."""

    row_count: int
    expected_bytes: int = 0
    worst_bytes: int = 0
    is_guess: bool = False
    """Whether values share bytes in the file, so that only those that came tell of others."""

    def add(self, expected_bytes: int, worst_bytes: int) -> None:
        """Take a column into account, or what its dictionary makes of it beyond what is stored."""
        self.expected_bytes += expected_bytes
        self.worst_bytes += worst_bytes

    def next(self, last: pa.RecordBatch | None = None) -> int:
        """Return how many rows the next batch may have, after one that was decoded."""
        most = _LARGEST_WORST_BYTES * self.row_count // max(self.worst_bytes, 1)
        if last is not None:
            wanted = batch_rows(last.num_rows, last.nbytes)
            most = min(most, _GROWTH * last.num_rows) if self.is_guess else most
        elif self.is_guess:
            wanted = _FIRST_ROWS
        else:
            wanted = batch_rows(self.row_count, self.expected_bytes)
        return max(1, min(wanted, most))
