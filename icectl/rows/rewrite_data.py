"""Rewrite one file group: read, delete, sort, write and count rows."""

from collections import ChainMap
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, groupby, pairwise
from operator import attrgetter
from threading import Lock
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from icectl.errors import CorruptTable, SelfCheckFailed, Unsupported
from icectl.files.data_file import DataFile, open_data_file
from icectl.files.deletion_vectors import Positions
from icectl.files.parquet.data_file import ParquetDataFile
from icectl.files.parquet.schema import NameMapping, Shredding, arrow_schema, is_same_schema
from icectl.files.parquet.shredding import common_shredding
from icectl.files.parquet.small_files import SmallFile, alike, small_file
from icectl.format.partition import PartitionSpec
from icectl.format.properties import BLOOM_FILTER_RATIO
from icectl.format.schema import Schema
from icectl.format.types import PrimitiveType
from icectl.rows.columns import ColumnFacts, inside, path_to
from icectl.rows.deleted_positions import (
    DeletedPositions,
    DeletionVector,
    Flags,
    PositionDeletes,
    puffin_blobs,
)
from icectl.rows.equality_deletes import (
    LARGEST_INDEX_ROWS,
    EqualityDeletes,
    EqualityIndex,
    equality_indexes,
)
from icectl.rows.partition_rows import Partition, Partitioner, partitioner
from icectl.rows.read_data import (
    RowSource,
    SourceFile,
    may_be_together,
    open_own,
    open_own_together,
    open_source,
    open_together,
)
from icectl.rows.row_totals import RowTotals, check_rows
from icectl.rows.sort_rows import (
    KeyMaker,
    RowKeys,
    RowSorter,
    Sorting,
    keyed,
    sort_keys,
    sorted_keyed,
)
from icectl.rows.write_data import (
    MOST_OPEN_FILES,
    DataWriter,
    FileOutputs,
    WriteOptions,
    WrittenFile,
    columns_without_bounds,
    with_bounds,
    with_joined_bounds,
)
from icectl.table.reading import bundles, in_threads, streamed_in_threads
from icectl.table.rewrite_tasks import even_splits

_Read = TypeVar("_Read")
_VARIANT = PrimitiveType("variant")
_MEMORY_BYTES = 64 << 20
_READ_BYTES = 48 << 20
"""Rows that a thread has read and that are not taken yet."""

_PART_BYTES = 16 << 20
"""Stored bytes of a file that threads read apart from its others."""

_PARTS_A_THREAD = 4
"""Several small files are read one after the other, but each thread has so many parts to read."""

_SMALL_FILE_BYTES = 1 << 20
"""Files smaller than this, on average, are read by one thread, unless they are decoded together:
most of the time goes into opening them, which several threads do no faster, since one of them runs
Python at a time."""

MOST_TOGETHER = 256
"""Small files that a thread may decode together."""

_FEW_ROWS, _FEW_BYTES, _FEW_PARTS = 16_384, 4 << 20, 8
"""Rows, bytes of rows, and parts of a row group up to which batches are joined: each takes time."""


@dataclass(frozen=True, slots=True)
class DeletesOfGroup:
    """The deletes that apply to files of a group; `scheme` is that of paths without one."""

    position_deletes: tuple[PositionDeletes, ...] = ()
    vectors: tuple[DeletionVector, ...] = ()
    equality_deletes: tuple[EqualityDeletes, ...] = ()
    scheme: str = ""


@dataclass(frozen=True, slots=True)
class TableColumns:
    """The columns of rows to write, and all that the table `ever` had.

    Variants are written with the types of `shredding`; others are not shredded.
    """

    written: Schema
    ever: Schema
    name_mapping: NameMapping = ()
    shredding: Shredding = field(default_factory=dict)

    @property
    def arrow(self) -> pa.Schema:
        return arrow_schema(self.written, self.shredding)


@dataclass(frozen=True, slots=True)
class FileGroup:
    """The files that one task rewrites into one partition, or by `spec` if `partition` is None.

    Rows keep their order without `sorting`.
    """

    files: tuple[SourceFile, ...]
    size_bytes: int
    deletes: DeletesOfGroup
    columns: TableColumns
    spec: PartitionSpec
    partition: Partition | None
    sorting: Sorting | None = None


@dataclass(frozen=True, slots=True)
class RewrittenGroup:
    """The new files of a group, and the totals of their rows."""

    files: tuple[WrittenFile, ...]
    totals: RowTotals
    deleted_row_count: int


def rewrite_data(group: FileGroup, options: WriteOptions, outputs: FileOutputs) -> RewrittenGroup:
    """Write the live rows of a group into new files, and read these again.

    Columns of which files have Bloom filters get them again, unless the options have 0 for them.
    Raises: Unsupported, CorruptTable; SelfCheckFailed, if the new files have other rows. Errors of
    the files pass. The caller removes unfinished files.
    Cost: memory for a row group and a batch, a byte per row of files with deletes, and the keys of
    LARGEST_INDEX_ROWS equality deletes.
    """
    columns = group.columns
    if any(item.type == _VARIANT for item in columns.written.all_fields.values()):
        schemas = []
        for file in group.files:
            with outputs.reading(file.location) as handle:
                opened = open_own(handle, file, columns.written, columns.name_mapping)
                schemas.append(opened.schema)
        group = replace(group, columns=replace(columns, shredding=common_shredding(schemas)))
    read = RowsRead(RowTotals(), written=columns.written)
    # A file begins with its first row group, once the rows of this were read.
    filters = ChainMap({**options.parquet.bloom_filters}, read.filters)
    options = replace(options, parquet=replace(options.parquet, bloom_filters=filters))
    of_rows = read, _key_maker(group), _joined_bytes(options)
    with closing(live_batches(group, outputs, *of_rows)) as batches:
        files, totals = write_rows(group, batches, options, outputs, read.live)
    stated = [file.stated.metrics for file in group.files if file.stated is not None]
    if len(stated) == len(group.files):
        schema = columns.written
        files = tuple(with_joined_bounds(new, stated, schema, options) for new in files)
    return RewrittenGroup(files, totals, read.row_count - totals.row_count)


def write_rows(
    group: FileGroup,
    batches: Iterator[pa.RecordBatch],
    options: WriteOptions,
    outputs: FileOutputs,
    counted: RowTotals | None = None,
) -> tuple[tuple[WrittenFile, ...], RowTotals]:
    """Write rows of a group into new files, and read these again.

    If rows were `counted` while they were read, they also have the keys that they are sorted by.
    Raises: as rewrite_data.
    """
    record_count = sum(file.record_count for file in group.files)
    row_size_bytes = group.size_bytes / max(record_count, 1)
    before, after = RowTotals() if counted is None else counted, RowTotals()
    batches = joined(batches, _joined_bytes(options))
    columns = group.columns
    known_rows = 0 if group.partition is None else record_count
    of_files = options, outputs, row_size_bytes, columns.shredding, known_rows
    with DataWriter(columns.written, *of_files) as writer:
        if counted is None:
            batches = counting_rows(batches, before)
            keys = _key_maker(group)
            batches = batches if keys is None else keyed(batches, keys)
        for partition, batch in _placed(group, batches, outputs.threads):
            writer.write(batch, partition.key, partition.path)
    files = []
    sizes = [written.file_size_in_bytes for written in writer.written]
    at_once = outputs.threads if len(sizes) >= outputs.threads else 1
    read_again = partial(
        _read_again, columns=columns, options=options, outputs=outputs,
        threads=outputs.threads // at_once,
    )  # fmt: skip
    with closing(in_threads(read_again, writer.written, sizes, threads=at_once)) as found:
        for written, totals in found:
            files.append(written)
            after.add_totals(totals)
    check_rows(before, after, [written.footer for written in files])
    return tuple(files), before


def _joined_bytes(options: WriteOptions) -> int:
    return min(_FEW_BYTES, options.row_group_size_bytes // _FEW_PARTS)


def joined(
    batches: Iterable[pa.RecordBatch], most_bytes: int = _FEW_BYTES
) -> Iterator[pa.RecordBatch]:
    """Yield the same rows in the same order, with small batches joined."""
    waiting: list[pa.RecordBatch] = []
    rows = size_bytes = 0
    for batch in batches:
        if waiting and size_bytes + batch.nbytes > most_bytes:
            yield _together(waiting)
            waiting, rows, size_bytes = [], 0, 0
        waiting.append(batch)
        rows += batch.num_rows
        size_bytes += batch.nbytes
        if rows >= _FEW_ROWS or size_bytes >= most_bytes:
            yield _together(waiting)
            waiting, rows, size_bytes = [], 0, 0
    if waiting:
        yield _together(waiting)


def _together(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def counting_rows(batches: Iterator[pa.RecordBatch], totals: RowTotals) -> Iterator[pa.RecordBatch]:
    """Yield the same batches, and add their rows to totals."""
    for batch in batches:
        totals.add(batch)
        yield batch


def _key_maker(group: FileGroup) -> KeyMaker | None:
    """Return the maker of the keys that rows of a group are sorted by; None if they are not."""
    if group.sorting is None:
        return None
    columns, arrow = group.columns.written, group.columns.arrow
    keys = sort_keys(group.sorting.order, columns, arrow)
    if group.partition is not None:
        return keys
    return RowKeys(partitioner(group.spec, columns, arrow), keys)


def _placed(
    group: FileGroup, batches: Iterator[pa.RecordBatch], threads: int
) -> Iterator[tuple[Partition, pa.RecordBatch]]:
    """Yield rows, with their keys if they are to be sorted, in the order of writing.

    They are without keys then, and with their partitions.
    """
    if group.sorting is not None:
        batches = sorted_keyed(batches, group.sorting.memory_bytes, threads)
    if group.partition is not None:
        for batch in batches:
            yield group.partition, batch
        return
    splitting = partitioner(group.spec, group.columns.written, group.columns.arrow)
    if group.sorting is None:
        yield from gather_partitions(batches, splitting)
        return
    for batch in batches:
        yield from splitting.split(batch, splitting.keys(batch))


@dataclass(slots=True)
class RowsRead:
    """The number of rows read, with deleted ones, once a part of a file was read to its end.

    `live` takes the totals of those that are not deleted, where it is there. `filters` are columns
    that files read so far have Bloom filters of, by dotted name in `written`.
    """

    live: RowTotals | None = None
    row_count: int = 0
    written: Schema | None = None
    filters: dict[str, float] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def counting(self, rows: Iterable["LiveRows"]) -> Iterator[pa.RecordBatch]:
        """Yield the rows that are not deleted, and add up all of them; any thread may do so."""
        row_count, live, opened = 0, RowTotals(), None
        for row in rows:
            if row.opened is not opened:
                opened = row.opened
                self._heed_filters(opened)
            row_count += row.stored_count
            if row.batch is None:
                continue
            if self.live is not None:
                live.add(row.batch)
            yield row.batch
        with self._lock:
            self.row_count += row_count
            if self.live is not None:
                self.live.add_totals(live)

    def _heed_filters(self, opened: DataFile) -> None:
        if self.written is not None and isinstance(opened, ParquetDataFile):
            lines = map(self.written.line_to, opened.filtered)
            names = [".".join(item.name for item in line) for line in lines if line]
            with self._lock:
                self.filters.update(dict.fromkeys(names, BLOOM_FILTER_RATIO))


def live_batches(
    group: FileGroup,
    outputs: FileOutputs,
    read: RowsRead,
    keys: KeyMaker | None = None,
    joined_bytes: int = 0,
) -> Generator[pa.RecordBatch, None, None]:
    """Yield the rows of a group that are not deleted, with the columns to write and their keys.

    Parts of files, or several small ones, are read by as many threads as `outputs` has. They join
    small batches up to `joined_bytes`. Close it to stop early.
    Order: as of stored_rows.
    """

    bundles_of_files, deleted = _prepared(group, outputs)
    are_together = [
        may_be_together(files) and not any(map(deleted.indexes_of, files))
        for files in bundles_of_files
    ]

    def live(read_files: _ReadFiles, files: Sequence[SourceFile]) -> Iterator[pa.RecordBatch]:
        found = read_files(files, group.columns, outputs, deleted)
        rows = joined(read.counting(found), joined_bytes)
        return rows if keys is None else keyed(rows, keys)

    parts = [
        partial(live, _rows_together if together else _rows_by_file, files)
        for together, files in zip(are_together, bundles_of_files, strict=True)
    ]
    threads = _reading_threads(group.files, outputs)
    if any(are_together):
        threads = outputs.threads  # decoding takes most of the time then, not opening
    yield from streamed_in_threads(
        parts, attrgetter("nbytes"), threads=threads, most_bytes=_READ_BYTES * outputs.threads
    )


@dataclass(frozen=True, slots=True)
class StoredRows:
    """Rows of one file as stored, by their positions; `is_deleted` flags the deleted ones."""

    source: RowSource
    batch: pa.RecordBatch
    positions: npt.NDArray[np.int64]
    is_deleted: Flags

    def live(self) -> pa.RecordBatch | None:
        """Return the rows that are not deleted, with the columns to write; None for none."""
        if not self.is_deleted.any():
            return self.source.project(self.batch, self.positions)
        if self.is_deleted.all():
            return None
        is_live = ~self.is_deleted
        return self.source.project(self.batch.filter(pa.array(is_live)), self.positions[is_live])

    def kept(self) -> "LiveRows":
        """Return what is left of them."""
        return LiveRows(self.source.opened, len(self.positions), self.live())


@dataclass(frozen=True, slots=True)
class LiveRows:
    """Rows that are not deleted, None for none, of `stored_count` in an open file."""

    opened: DataFile
    stored_count: int
    batch: pa.RecordBatch | None


_ReadFiles = Callable[
    [Sequence[SourceFile], TableColumns, FileOutputs, "_Deleted"], Iterator[LiveRows]
]

IsWanted = Callable[[RowSource], bool]
"""Whether the rows of an open file are wanted."""


def stored_rows(
    group: FileGroup,
    outputs: FileOutputs,
    more: Collection[int] = (),
    is_wanted: IsWanted = lambda _: True,
) -> Iterator[StoredRows]:
    """Yield all rows of the wanted files, with the columns to write and those with more ids.

    Order: of the files, and in each of its rows.
    """
    bundles_of_files, deleted = _prepared(group, replace(outputs, threads=1))
    for file in chain.from_iterable(bundles_of_files):
        yield from _file_rows(file, group.columns, outputs, deleted, more, is_wanted)


def _prepared(
    group: FileGroup, outputs: FileOutputs
) -> tuple[Sequence[Sequence[SourceFile]], "_Deleted"]:
    """Return files to read, several small ones or a part of a large one at a time, and deletes."""
    deleted = _deleted_positions(group, outputs)
    indexes: Sequence[EqualityIndex] = ()
    by_rank = equality_indexes(
        group.deletes.equality_deletes, outputs.reading, group.columns.ever, LARGEST_INDEX_ROWS
    )
    for part in by_rank:
        # Each part of very many deletes, except the last, needs its own pass over the rows.
        _mark(group, outputs, indexes, deleted)
        indexes = part
    files = [part for file in group.files for part in _split(file, outputs.threads)]
    parts = [files[places.start : places.stop] for places in _bundled(files, outputs.threads)]
    return parts, _Deleted(deleted, indexes)


@dataclass(frozen=True, slots=True)
class _Deleted:
    """Deleted rows of a group: positions, and indexes of keys to look up in rows."""

    positions: DeletedPositions
    indexes: Sequence[EqualityIndex]

    def indexes_of(self, file: SourceFile) -> Sequence[EqualityIndex]:
        return [index for index in self.indexes if index.applies_to(file.location)]


def _reading_threads(files: Sequence[SourceFile], outputs: FileOutputs) -> int:
    sizes = [file.size_bytes or 0 for file in files]
    return outputs.threads if sum(sizes) >= _SMALL_FILE_BYTES * len(sizes) else 1


def _bundled(files: Sequence[SourceFile], threads: int) -> Sequence[range]:
    """Return the places of files to read at a time: several small ones or a part of a large one."""
    sizes = [
        stop - start for start, stop in (file.split or (0, file.size_bytes or 0) for file in files)
    ]
    most = max(1, min(MOST_TOGETHER, len(files) // (_PARTS_A_THREAD * threads)))
    return bundles(sizes, most, _FEW_BYTES)


def _split(file: SourceFile, threads: int) -> Sequence[SourceFile]:
    """Return the parts of a file that several threads can read."""
    size_bytes = file.size_bytes or 0
    if threads == 1 or file.file_format.lower() != "parquet" or size_bytes < 2 * _PART_BYTES:
        return [file]
    start, stop = file.split or (0, size_bytes)
    count = max(1, min(2 * threads, (stop - start) // _PART_BYTES))
    splits = [(start + low, start + high) for low, high in even_splits(stop - start, count)]
    return [replace(file, split=split) for split in splits]


def _rows_by_file(
    files: Sequence[SourceFile], columns: TableColumns, outputs: FileOutputs, deleted: _Deleted
) -> Iterator[LiveRows]:
    for file in files:
        yield from map(StoredRows.kept, _file_rows(file, columns, outputs, deleted))


def _rows_together(
    files: Sequence[SourceFile], columns: TableColumns, outputs: FileOutputs, deleted: _Deleted
) -> Iterator[LiveRows]:
    """Yield the rows of files in their order; small files that are alike are decoded together."""

    def read(places: range, small_files: Sequence[SmallFile]) -> Sequence[LiveRows] | None:
        sources = files[places.start : places.stop]
        return _rows_of_alike(small_files, sources, columns, deleted)

    for places, rows in _read_alike(files, outputs, read):
        alone = files[places.start : places.stop]
        yield from _rows_by_file(alone, columns, outputs, deleted) if rows is None else rows


def _read_alike(
    files: Sequence[SourceFile],
    outputs: FileOutputs,
    read: Callable[[range, Sequence[SmallFile]], _Read | None],
) -> Iterator[tuple[range, _Read | None]]:
    """Yield the places of files that are alike, with what is read of them together.

    None is read of a file alone, which is to be read by itself: that tells what is wrong with it.
    `read` returns None, or raises what tables can have, where not all can be read together.
    """
    small_files = []
    for file in files:
        with outputs.reading(file.location) as handle:
            small_files.append(small_file(handle.read()))
    waiting = [*alike(small_files)][::-1]
    while waiting:
        places = waiting.pop()
        if len(places) == 1:
            yield places, None
            continue
        in_memory = [file for file in small_files[places.start : places.stop] if file is not None]
        try:
            found = read(places, in_memory)
        except (CorruptTable, Unsupported):
            found = None
        if found is None:
            middle = len(places) // 2
            waiting += places[middle:], places[:middle]
        else:
            yield places, found


def _rows_of_alike(
    small_files: Sequence[SmallFile],
    files: Sequence[SourceFile],
    columns: TableColumns,
    deleted: _Deleted,
) -> Sequence[LiveRows] | None:
    """Return the rows of files that are alike; None where not all can be read together.

    Raises: CorruptTable, Unsupported, as open_together.
    """
    flags = [
        np.zeros(file.record_count, np.bool_) if of_file is None else of_file
        for file in files
        for of_file in (deleted.positions.of(file.location),)
    ]
    is_deleted = np.concatenate(flags)
    of_columns = columns.written, columns.name_mapping, columns.shredding
    source = open_together(small_files, files, *of_columns)
    if source is None:
        return None
    return [
        StoredRows(source, rows.batch, positions, is_deleted[positions]).kept()
        for rows in source.stored()
        for positions in (np.arange(rows.first_row, rows.first_row + rows.batch.num_rows),)
    ]


def _file_rows(
    file: SourceFile,
    columns: TableColumns,
    outputs: FileOutputs,
    deleted: _Deleted,
    more: Collection[int] = (),
    is_wanted: IsWanted = lambda _: True,
) -> Iterator[StoredRows]:
    with outputs.reading(file.location) as handle:
        of_columns = columns.written, columns.name_mapping, columns.shredding
        source = open_source(handle, file, *of_columns, is_read_whole=True)
        if not is_wanted(source):
            return
        applied = deleted.indexes_of(file)
        flags = deleted.positions.of(file.location)
        for rows in source.stored(_compared(applied) | set(more)):
            positions = np.arange(rows.first_row, rows.first_row + rows.batch.num_rows)
            none = np.zeros(len(positions), np.bool_)
            is_deleted = none if flags is None else flags[positions]
            for index in applied:
                is_deleted[index.deleted(source, rows.batch)] = True
            yield StoredRows(source, rows.batch, positions, is_deleted)


def deleted_rows(
    group: FileGroup, outputs: FileOutputs
) -> tuple[DeletedPositions, DeletedPositions]:
    """Find the rows of a group that are deleted by position, and those deleted by value.

    Raises: as rewrite_data.
    Cost: a byte per row of files with deletes, and the keys of LARGEST_INDEX_ROWS.
    """
    by_value = DeletedPositions({file.location: file.record_count for file in group.files})
    for indexes in equality_indexes(
        group.deletes.equality_deletes, outputs.reading, group.columns.ever, LARGEST_INDEX_ROWS
    ):
        _mark(group, outputs, indexes, by_value)
    return _deleted_positions(group, outputs), by_value


def positions_of(
    vectors: Iterable[DeletionVector], outputs: FileOutputs
) -> Iterator[tuple[DeletionVector, Positions]]:
    """Read deletion vectors, and open each Puffin file once.

    Raises: as DeletionVector.positions.
    """
    in_order = sorted(vectors, key=attrgetter("location", "content_offset"))
    for location, beside in groupby(in_order, attrgetter("location")):
        with outputs.reading(location) as file:
            blobs = puffin_blobs(file)
            for vector in beside:
                vector.check_own(blobs)
                yield vector, vector.positions(file)


def _deleted_positions(group: FileGroup, outputs: FileOutputs) -> DeletedPositions:
    counts = {file.location: file.record_count for file in group.files}
    deleted = DeletedPositions(counts, group.deletes.scheme)
    for vector, positions in positions_of(group.deletes.vectors, outputs):
        deleted.add(vector.data_file, positions)

    def add(places: range) -> None:
        files = group.deletes.position_deletes[places.start : places.stop]
        _add_deletes(deleted, files, outputs)

    sources = [deletes.file for deletes in group.deletes.position_deletes]
    threads = _reading_threads(sources, outputs)
    ranges = _bundled(sources, threads)
    sizes = [sum(file.size_bytes or 0 for file in sources[of.start : of.stop]) for of in ranges]
    with closing(in_threads(add, ranges, sizes, threads=threads)) as added:
        for _ in added:
            pass
    deleted.check_spelling()
    return deleted


def _add_deletes(
    deleted: DeletedPositions, files: Sequence[PositionDeletes], outputs: FileOutputs
) -> None:
    """Delete the rows that files name; small files that are alike are decoded together."""
    sources = [deletes.file for deletes in files]

    def add(places: range, small_files: Sequence[SmallFile]) -> bool | None:
        of_places = slice(places.start, places.stop)
        opened = open_own_together(small_files, sources[of_places], Schema(0, ()))
        if opened is None:
            return None
        deleted.add_together(opened, files[of_places])
        return True

    are_alone = [range(len(files))]
    if may_be_together(sources):
        are_alone = [of for of, is_added in _read_alike(sources, outputs, add) if not is_added]
    for deletes in [files[at] for places in are_alone for at in places]:
        with outputs.reading(deletes.file.location) as file:
            deleted.add_file(deletes.open(file), deletes.applies_to, deletes.named)


def _mark(
    group: FileGroup,
    outputs: FileOutputs,
    indexes: Sequence[EqualityIndex],
    deleted: DeletedPositions,
) -> None:
    """Look keys up in the rows of all files of a group, and delete their positions."""
    for file in group.files:
        applied = [index for index in indexes if index.applies_to(file.location)]
        if not applied:
            continue
        with outputs.reading(file.location) as handle:
            source = open_source(handle, file, Schema(0, ()), group.columns.name_mapping)
            for rows in source.stored(_compared(applied)):
                for index in applied:
                    mask = index.deleted(source, rows.batch)
                    deleted.add(file.location, mask + rows.first_row)


def _compared(indexes: Sequence[EqualityIndex]) -> set[int]:
    return set[int]().union(*(index.read_ids for index in indexes))


def _read_again(
    written: WrittenFile,
    columns: TableColumns,
    options: WriteOptions,
    outputs: FileOutputs,
    threads: int,
) -> tuple[WrittenFile, RowTotals]:
    """Read and count the rows of a new file, and return it with all of its bounds."""
    schema = columns.written
    unbounded = columns_without_bounds(written, schema, options.modes)
    facts = {id_: ColumnFacts() for id_ in unbounded}
    paths = {id_: path_to(columns.arrow, id_) or () for id_ in unbounded}
    totals, lock = RowTotals(), Lock()

    def rows(split: tuple[int, int] | None) -> Iterator[pa.RecordBatch]:
        of_part = RowTotals()
        with outputs.open(written.location) as file:
            opened = open_data_file(file, "parquet")
            if not is_same_schema(opened.schema, columns.arrow):
                raise SelfCheckFailed(f"{written.location} has other columns than the table")
            if isinstance(opened, ParquetDataFile):
                opened = replace(opened, split=split)
            for file_rows in opened.batches([item.id for item in schema.fields]):
                of_part.add(file_rows.batch)
                yield file_rows.batch
        with lock:
            totals.add_totals(of_part)

    splits: Sequence[tuple[int, int] | None] = [None]
    if threads > 1:  # each row group apart, small ones together: every part reads the footer
        bounds = [0]
        for offset in written.footer.split_offsets[1:]:
            if offset - bounds[-1] >= _PART_BYTES:
                bounds.append(offset)
        splits = list(pairwise([*bounds, written.file_size_in_bytes]))
    parts = [partial(rows, split) for split in splits]
    size_of, most_bytes = attrgetter("nbytes"), _READ_BYTES * threads
    streamed = streamed_in_threads(parts, size_of, threads=threads, most_bytes=most_bytes)
    with closing(streamed) as batches:
        for batch in batches:
            for id_, measured in [*facts.items()]:
                place, *inner_path = paths[id_]
                column = inside(batch.column(place), tuple(inner_path))
                try:
                    measured.add(column, unbounded[id_].type)
                except UnicodeDecodeError:  # Spark keeps any bytes as text: no bound can be told
                    del facts[id_]
    return (with_bounds(written, facts, schema, options) if facts else written), totals


def gather_partitions(
    batches: Iterable[pa.RecordBatch], splitting: Partitioner
) -> Iterator[tuple[Partition, pa.RecordBatch]]:
    """Yield the rows with their partitions: first ones at once, then the others one by one.

    Order: kept in each partition.
    Raises: as Partitioner.keys.
    Cost: rows of other partitions beyond twice _MEMORY_BYTES wait on disk.
    """
    at_once: set[bytes] = set()
    with RowSorter(_MEMORY_BYTES) as later:
        for batch in batches:
            keys = splitting.keys(batch)
            for key in pc.unique(keys).to_pylist():
                if len(at_once) < MOST_OPEN_FILES:
                    at_once.add(key)
            is_now = pc.is_in(keys, value_set=pa.array(sorted(at_once), keys.type))
            if pc.all(is_now).as_py():
                yield from splitting.split(batch, keys)
            else:
                for rows in keyed([batch.filter(pc.invert(is_now))], RowKeys(splitting, None)):
                    later.add(rows)
                yield from splitting.split(batch.filter(is_now), keys.filter(is_now))
        for batch in later.batches():
            yield from splitting.split(batch, splitting.keys(batch))
