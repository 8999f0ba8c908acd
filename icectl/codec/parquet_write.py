"""Parquet data files, a row group at a time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from icectl.codec.parquet_dictionary import columns_with_dictionary
from icectl.codec.parquet_schema import no_rows


@dataclass(frozen=True, slots=True)
class ParquetOptions:
    """How files are written; `compression_level` None is the codec's own.

    Units: page and dictionary sizes in bytes.
    """

    compression: str = "zstd"
    compression_level: int | None = None
    page_size_bytes: int = 1 << 20
    page_row_limit: int = 20_000
    dictionary_size_bytes: int = 2 << 20


_MOST_VALUES = 1024
"""What the writer encodes before it looks at the sizes of page and dictionary."""


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
        self._schema = schema
        self._options = options
        self._properties = properties
        self._writer: Any = None

    @property
    def size_bytes(self) -> int:
        """Bytes written so far, without what ends the file."""
        return self._file.tell()

    def write_row_group(self, batches: Sequence[pa.RecordBatch]) -> None:
        """Write batches of the schema as one row group."""
        table = pa.Table.from_batches(batches, self._schema)
        self._begun(table).write_table(table, row_group_size=max(1, table.num_rows))

    def close(self) -> None:
        """Write the footer."""
        self._begun(no_rows(self._schema)).close()

    def _begun(self, rows: pa.Table) -> Any:
        """The writer of the file, begun with its first rows."""
        if self._writer is None:
            options = self._options
            self._writer = pq.ParquetWriter(
                self._file,
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


def _values_at_a_time(rows: pa.Table, page_size_bytes: int) -> int:
    """How many values to encode at a time, lest wide ones make pages far larger than asked for."""
    widest = max((_value_bytes(column) for column in rows.columns), default=0)
    return max(1, min(_MOST_VALUES, page_size_bytes // max(widest, 1)))


def _value_bytes(column: pa.ChunkedArray) -> int:
    """What a row of a column takes; rows of lists count as one value."""
    return int(column.nbytes) // max(len(column), 1)
