"""Parquet data files in batches."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from icectl.codec.arrow_failures import translated
from icectl.codec.data_rows import Rows, batch_rows, chosen, dressed
from icectl.codec.parquet_metrics import (
    FileMetrics,
    footer_metrics,
    row_group_metrics,
    row_group_offset,
)
from icectl.codec.parquet_schema import NameMapping, identified, leaves
from icectl.spec.schema import Schema

_KIND = "Parquet"
_ARROW_SCHEMA = b"ARROW:schema"
_WORTH_THREADS_BYTES = 2**20
"""Bytes of a row group below which handing columns to threads takes longer than reading them."""


@dataclass(frozen=True)
class ParquetDataFile:
    """An open Parquet file."""

    file: Any
    """pyarrow's ParquetFile."""
    schema: pa.Schema
    split: tuple[int, int] | None = None
    """Only the rows of row groups that begin in these bytes are read, the second not among them."""

    @property
    def record_count(self) -> int:
        """Rows, by the footer's word."""
        return int(self.file.metadata.num_rows)

    @property
    def properties(self) -> Mapping[str, str]:
        """The key-value metadata of the footer."""
        stored = self.file.metadata.metadata or {}
        return {
            key.decode(errors="replace"): value.decode(errors="replace")
            for key, value in stored.items()
            if key != _ARROW_SCHEMA
        }

    def metrics(self, schema: Schema) -> FileMetrics:
        """What the footer says of the columns."""
        with translated(_KIND):
            return footer_metrics(self.file.metadata, self.schema, schema)

    def parts(self, schema: Schema) -> Sequence[FileMetrics]:
        """What the footer says of the columns of each row group."""
        with translated(_KIND):
            return row_group_metrics(self.file.metadata, self.schema, schema)

    def batches(self, field_ids: Collection[int] | None) -> Iterator[Rows]:
        """The top-level columns that have one of these ids, at any depth; None is all."""
        places = chosen(self.schema, field_ids)
        schema = pa.schema([self.schema.field(place) for place in places])
        columns = self._columns(frozenset(places))
        first_row = 0
        with translated(_KIND):
            metadata = self.file.metadata
            for number in range(metadata.num_row_groups):
                if not self._is_read(metadata.row_group(number)):
                    first_row += metadata.row_group(number).num_rows
                    continue
                for batch in self._row_group(number, columns):
                    rows = dressed(batch.columns, schema, batch.num_rows)
                    yield Rows(first_row, rows)
                    first_row += batch.num_rows

    def _is_read(self, row_group: Any) -> bool:
        if self.split is None or not row_group.num_rows:
            return self.split is None
        start, stop = self.split
        return start <= row_group_offset(row_group) < stop

    def _row_group(self, number: int, columns: list[int]) -> Iterator[pa.RecordBatch]:
        group = self.file.metadata.row_group(number)
        size_bytes = sum(group.column(column).total_uncompressed_size for column in columns)
        rows = batch_rows(group.num_rows, size_bytes)
        # By position: names with dots in them are ambiguous to the method of the file itself.
        batches: Iterator[pa.RecordBatch] = self.file.reader.iter_batches(
            rows, [number], columns, use_threads=size_bytes >= _WORTH_THREADS_BYTES
        )
        return batches

    def _columns(self, places: frozenset[int]) -> list[int]:
        """The columns of Parquet that make these top-level fields."""
        roots = [
            place for place, field in enumerate(self.schema) for _ in leaves(pa.schema([field]))
        ]
        return [column for column, place in enumerate(roots) if place in places]


def open_parquet(file: IO[bytes], name_mapping: NameMapping) -> ParquetDataFile:
    """Open a Parquet file; only its footer is read.

    Raises: CorruptTable R-099; Unsupported, for what pyarrow can't read.
    """
    with translated(_KIND):
        opened = pq.ParquetFile(
            file,
            # Writers that still use 96 bits mean microseconds; as nanoseconds far years overflow.
            coerce_int96_timestamp_unit="us",
            page_checksum_verification=True,
        )
        return ParquetDataFile(opened, identified(opened.schema_arrow, name_mapping))
