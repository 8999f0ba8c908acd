"""Data files put together without decoding their rows, and what a manifest says of the new one."""

import io
import zlib
from collections.abc import Iterator, Sequence
from contextlib import closing

import numpy as np
import pyarrow as pa

from icectl.errors import SelfCheckFailed
from icectl.files.data_file import open_data_file
from icectl.files.parquet.merge import (
    MergedFile,
    MergeSource,
    NotMergeable,
    check_alike,
    read_source,
    written_numbers,
)
from icectl.files.parquet.metrics import read_metrics
from icectl.files.parquet.schema import arrow_schema, leaves
from icectl.format.schema import Schema
from icectl.rows.check_data_file import ROW_ID
from icectl.rows.read_data import LINEAGE, SourceFile, open_own
from icectl.rows.rewrite_data import FileGroup
from icectl.rows.write_data import FileOutputs, WriteOptions, WrittenFile, shaped_metrics

_BLOCK_BYTES = 4 << 20
_LINEAGE_IDS = frozenset(item.id for item in LINEAGE)


def merge_files(group: FileGroup, options: WriteOptions, outputs: FileOutputs) -> WrittenFile:
    """Put the files of a group together to one in their order, deleted rows too.

    Each row keeps its place among those of its file, and from version 3 on its id and last update.
    The new file is read again: its bytes are those that were written, and its footer is sound.
    Raises: NotMergeable; CorruptTable, Unsupported, as open_own; SelfCheckFailed. Errors of the
    files pass. A file that was begun is undone.
    Cost: memory for the footers, and a block of 4 MiB.
    """
    schema, partition = group.columns.written, group.partition
    deletes = group.deletes
    if deletes.equality_deletes:
        raise NotMergeable("rows of it are deleted by value")
    if partition is None or group.sorting is not None:
        raise NotMergeable("its rows are to be moved")
    sources = [_open(file, schema, outputs) for file in group.files]
    check_alike(sources)
    location = outputs.next_location(partition.path)
    with outputs.create(location) as new:
        merged = MergedFile(new)
        for file, source in zip(group.files, sources, strict=True):
            with outputs.reading(file.location) as handle:
                merged.add(source, handle)
        if schema.field(ROW_ID) is not None:
            with closing(_lineage(group.files, sources)) as columns:
                merged.add_columns(read_source(columns), columns)
        merged.finish()
    record_count = sum(file.record_count for file in group.files)
    return _read_again(location, merged, record_count, group, options, outputs)


def _open(file: SourceFile, schema: Schema, outputs: FileOutputs) -> MergeSource:
    """Return the footer of a file that its entry is of. Raises: as merge_files."""
    if file.file_format.lower() != "parquet" or file.split is not None:
        raise NotMergeable("it is no whole Parquet file")
    with outputs.reading(file.location) as handle:
        opened = open_own(handle, file, schema)
        ids = [leaf.field_id for leaf in leaves(opened.schema)]
        if None in ids or len(set(ids)) != len(ids):
            raise NotMergeable("a column has no field id, or the one of another column")
        if schema.field(ROW_ID) is not None:
            if file.first_row_id is None:
                raise NotMergeable("its rows have no ids yet")
            if _LINEAGE_IDS & set(ids):
                raise NotMergeable("it has rows of other files, with their ids")
        return read_source(handle)


def _lineage(files: Sequence[SourceFile], sources: Sequence[MergeSource]) -> io.BytesIO:
    """Return a file with the ids of rows and their last updates, a row group for each to copy."""

    def row_groups() -> Iterator[pa.Table]:
        """Yield the values of each row group with rows."""
        for file, source in zip(files, sources, strict=True):
            assert file.first_row_id is not None
            starts = np.cumsum(source.group_rows) - source.group_rows + file.first_row_id
            for number in source.groups.tolist():
                count = int(source.group_rows[number])
                row_ids = np.arange(starts[number], starts[number] + count)
                updated = np.full(count, file.sequence_number)
                yield pa.table([row_ids, updated], schema=columns)

    columns = arrow_schema(Schema(0, LINEAGE))
    return written_numbers(columns, row_groups())


def _read_again(
    location: str,
    merged: MergedFile,
    record_count: int,
    group: FileGroup,
    options: WriteOptions,
    outputs: FileOutputs,
) -> WrittenFile:
    """Return the new file, once it has the bytes that were written, and the rows of all files.

    Raises: SelfCheckFailed; CorruptTable R-099.
    """
    schema, partition = group.columns.written, group.partition
    assert partition is not None
    checksum = size_bytes = 0
    with outputs.reading(location) as file:
        while block := file.read(_BLOCK_BYTES):
            checksum = zlib.crc32(block, checksum)
            size_bytes += len(block)
        if (checksum, size_bytes) != (merged.checksum, merged.size_bytes):
            raise SelfCheckFailed(f"{location} has other bytes than were copied")
        opened = open_data_file(file, "parquet")
        if opened.record_count != record_count:
            raise SelfCheckFailed(
                f"{location} has {opened.record_count:,} rows, not {record_count:,}"
            )
        footer = read_metrics(file, schema)
    metrics = shaped_metrics(footer, schema, options.modes)
    return WrittenFile(location, partition.key, size_bytes, footer, metrics)
