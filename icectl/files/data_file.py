"""Rows of data files and delete files by field id, whatever format and writer they have.

A file is read front to back in batches of Arrow; no more than a row group, a stripe or some blocks
of it is in memory. Types are those of the file: a promoted column has its old one (R-097).
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from io import BytesIO
from typing import IO, Protocol

import pyarrow as pa

from icectl.errors import Unsupported
from icectl.files.avro.data_file import open_avro
from icectl.files.data_rows import FileRows
from icectl.files.orc import open_orc
from icectl.files.parquet.data_file import open_parquet
from icectl.files.parquet.metrics import FileMetrics
from icectl.files.parquet.schema import NameMapping
from icectl.format.schema import Schema


class DataFile(Protocol):
    """An open data file or delete file."""

    @property
    def record_count(self) -> int:
        """Rows, by the file's own word."""

    @property
    def schema(self) -> pa.Schema:
        """The columns as stored; each field has its id, where it has one, as FIELD_ID metadata."""

    @property
    def properties(self) -> Mapping[str, str]:
        """The key-value pairs that the writer noted beside the rows."""

    def metrics(self, schema: Schema, *, only: bool = False) -> FileMetrics:
        """Read what the file says of its columns, and none of its rows.

        `only` those of the schema are wanted, and others may be left out.

        Shape: as read_metrics of Parquet; other formats only tell the number of rows.
        Raises: CorruptTable R-099; Unsupported.
        """

    def parts(self, schema: Schema) -> Sequence[FileMetrics]:
        """Read what the file says of each row group, in their order; in other formats of itself.

        Shape: as metrics; empty where it says nothing of columns.
        Raises: CorruptTable R-099; Unsupported.
        """

    def batches(self, field_ids: Collection[int] | None) -> Iterator[FileRows]:
        """Yield the rows, with the top-level columns that have one of these ids at any depth.

        None is every column, with an id or without.
        Shape: columns in the order of the file; without one, batches have rows all the same.
        Order: of the file.
        Raises: CorruptTable R-099 on damage; Unsupported.
        """


_OPENERS: Mapping[str, Callable[[IO[bytes], NameMapping], DataFile]] = {
    "parquet": open_parquet,
    "orc": open_orc,
    "avro": open_avro,
}


def open_data_file(
    file: IO[bytes] | bytes, file_format: str, name_mapping: NameMapping = ()
) -> DataFile:
    """Open a data file or delete file; its rows are read from `batches`, which needs it open.

    A file without a single field id gets those of `name_mapping` (R-181).
    Raises: CorruptTable R-099, when it is no file of the format; Unsupported, for another format
    and for what pyarrow can't read. Errors of the file object pass.
    """
    opener = _OPENERS.get(file_format.lower())
    if opener is None:
        raise Unsupported(f"data files of the format `{file_format}` can't be read")
    return opener(BytesIO(file) if isinstance(file, bytes) else file, name_mapping)
