"""Parquet data files, a row group at a time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import IO

import pyarrow as pa
import pyarrow.parquet as pq


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
        self._writer = pq.ParquetWriter(
            file,
            schema,
            version="2.6",
            compression=options.compression,
            compression_level=options.compression_level,
            data_page_size=options.page_size_bytes,
            max_rows_per_page=options.page_row_limit,
            dictionary_pagesize_limit=options.dictionary_size_bytes,
            write_page_index=True,
            write_page_checksum=True,
            store_decimal_as_integer=True,
            store_schema=False,
        )
        self._writer.add_key_value_metadata(dict(properties))

    @property
    def size_bytes(self) -> int:
        """Bytes written so far, without what ends the file."""
        return self._file.tell()

    def write_row_group(self, batches: Sequence[pa.RecordBatch]) -> None:
        """Write batches of the schema as one row group."""
        table = pa.Table.from_batches(batches, self._schema)
        self._writer.write_table(table, row_group_size=max(1, table.num_rows))

    def close(self) -> None:
        """Write the footer."""
        self._writer.close()

    def abandon(self) -> None:
        """Let go of a file that nobody wants; without this a footer would be written some day."""
        self._writer.is_open = False
