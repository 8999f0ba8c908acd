"""A listing on disk: written once, read as often as needed, in little memory."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc

from icectl.errors import StorageError
from icectl.storage.listing import LISTING_SCHEMA

_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")


class Spool:
    """Batches of a listing in a temporary file, of which no name exists: it ends with the process.

    Order: as appended. Once it has been read, nothing can be appended any more.
    Raises: StorageError, where the file cannot be written.
    """

    def __init__(self) -> None:
        self.file_count = 0
        self.total_bytes = 0
        with _translated():
            # Buffered: a bare file may write less than it is given, which Arrow does not notice.
            self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed by __exit__
        self._writer = pa.ipc.new_file(self._file, LISTING_SCHEMA, options=_OPTIONS)
        self._reader: pa.RecordBatchFileReader | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        raised: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with suppress(OSError):  # what could not be written is not needed any more
            self._file.close()

    def append(self, batch: pa.RecordBatch) -> None:
        """Add files of a listing."""
        with _translated():
            self._writer.write_batch(batch)
        self.file_count += batch.num_rows
        self.total_bytes += pc.sum(batch["size_bytes"]).as_py() or 0

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        if self._reader is None:
            with _translated():
                self._writer.close()
                self._file.flush()
            self._reader = pa.ipc.open_file(self._file)
        for number in range(self._reader.num_record_batches):
            yield self._reader.get_batch(number)


@contextmanager
def _translated() -> Iterator[None]:
    """Use the temporary file inside; what fails is one StorageError."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        folder = f" in `{tempfile.tempdir}`" if tempfile.tempdir else ""
        raise StorageError(
            f"cannot write a temporary file{folder}: {reason[:1].lower()}{reason[1:]}",
            hint="`--temp-dir` puts temporary files elsewhere",
        ) from error
