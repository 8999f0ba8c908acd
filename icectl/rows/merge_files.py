"""Data files merged without decoding their rows, and the metrics of the new one."""

import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import IO, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icectl.errors import CorruptTable, SelfCheckFailed, StorageError
from icectl.files.data_file import open_data_file
from icectl.files.parquet.data_file import ParquetDataFile
from icectl.files.parquet.merge import (
    CopyRange,
    MergedFile,
    check_alike,
    check_page,
    written_columns,
)
from icectl.files.parquet.merge_columns import (
    MergedColumns,
    NotMergeable,
    StoredColumns,
    combined,
    joined,
)
from icectl.files.parquet.merge_footer import MergeSource, read_source
from icectl.files.parquet.metrics import FileMetrics, read_metrics
from icectl.files.parquet.schema import arrow_schema, field_id, leaves
from icectl.files.parquet.write import ParquetWriter
from icectl.format.properties import BLOOM_FILTER_RATIO
from icectl.format.schema import Schema
from icectl.rows.check_data_file import ROW_ID
from icectl.rows.column_forms import TableForms
from icectl.rows.columns import inside, is_real, path_to
from icectl.rows.deleted_positions import DeletedPositions, Flags
from icectl.rows.read_data import LINEAGE, RowSource, SourceFile, nulls_of, open_own, open_source
from icectl.rows.rewrite_data import DeletesOfGroup, FileGroup, deleted_rows, stored_rows
from icectl.rows.row_runs import runs_of
from icectl.rows.row_totals import RowTotals, check_totals
from icectl.rows.write_data import (
    FileOutputs,
    WriteOptions,
    WrittenFile,
    shaped_metrics,
    with_joined_bounds,
    with_stated_metrics,
)
from icectl.storage.location import name
from icectl.storage.store import Assembly, CopyRefused, Store
from icectl.table.reading import naming, present

_OPENED_AT_ONCE = 16
_SAMPLED_CHUNKS, _SAMPLED_BYTES = 6, 16 << 10
"""Chunks copied by the storage that are read, and bytes of each."""

_MOST_DEAD = 8
"""A merged file may have 1/8 of a file's bytes that nothing reads."""

LINEAGE_IDS = frozenset(item.id for item in LINEAGE)
_MOST_IN_MEMORY = 64 << 20
"""Encoded bytes of decoded columns of one file; more go to disk."""

FOOTER_BYTES = 1 << 16
"""What reading a footer takes at a time."""


@dataclass(frozen=True, slots=True)
class MergeOptions:
    """The options of merges.

    A file with the part `most_deleted` of its rows deleted is not merged. With `verifies_rows` all
    rows are decoded and compared, as in a rewrite.
    """

    most_deleted: float = 1.0
    verifies_rows: bool = False


@dataclass(frozen=True, slots=True)
class MergedGroup:
    """The new file of a group, and rows of the inputs as runs.

    `left_out` are the rows of row groups that are not copied, since all are deleted. `by_value` are
    the rows that equality deletes delete, which are copied unless left out.
    """

    file: WrittenFile
    left_out: pa.Table
    by_value: pa.Table


def read_stored(store: Store, location: str, without: Collection[int]) -> StoredColumns | str:
    """Read how a file stores its columns, or why it can't be merged; `without` some columns.

    What else is wrong with the file shows when it is read.
    """
    try:
        with store.open(location) as file, naming(location):
            source = read_source(file).without_columns(without)
    except (NotMergeable, CorruptTable) as error:
        return str(error)
    except FileNotFoundError:
        return "it is missing"
    if any(isinstance(column.key, bytes) for column in source.columns):
        return "a column has no field id"
    return source.stored


def merge_files(
    group: FileGroup, options: WriteOptions, outputs: FileOutputs, merging: MergeOptions
) -> MergedGroup:
    """Merge the files of a group to one in their order, with deleted rows.

    Rows keep their order, and from version 3 on their ids and last updates. Row groups whose rows
    are all deleted are left out. If the storage copies ranges itself, only footers and indexes pass
    through here. The new file is read again: its bytes and its footer are checked.
    Raises: NotMergeable; CorruptTable, Unsupported, as open_own; SelfCheckFailed. Errors of the
    files pass. An unfinished file is removed.
    Cost: memory for the footers, and that of deleted_rows; a block of 1 MiB, or 64 KiB a file that
    the storage copies.
    """
    partition = group.partition
    if partition is None or group.sorting is not None:
        raise NotMergeable("its rows are to be moved")
    deleted = deleted_rows(group, outputs)
    location = outputs.next_location(partition.path)
    merge = _Merge(group, options, outputs, merging, *deleted, location)
    assembling = outputs.assemble(location)
    if assembling is None:
        return merge.copied_here()
    try:
        return merge.copied_by_storage(assembling)
    except CopyRefused as refused:  # under a new name: the storage may keep parts of the first
        merged = replace(merge, location=outputs.next_location(partition.path)).copied_here()
        return replace(merged, file=replace(merged.file, not_assembled=str(refused)))


@dataclass(frozen=True, slots=True)
class _Opened:
    """The files of a group with row groups to copy, and the rows of each file that are left out."""

    sources: Sequence[tuple[SourceFile, MergeSource]]
    left_out: Sequence[Flags | None]
    layout: MergedColumns
    forms: TableForms


@dataclass(frozen=True, slots=True)
class _Merge:
    """The merge of a group to one file."""

    group: FileGroup
    options: WriteOptions
    outputs: FileOutputs
    merging: MergeOptions
    by_position: DeletedPositions
    by_value: DeletedPositions
    location: str

    def copied_here(self) -> MergedGroup:
        """Merge files whose bytes pass through here. Raises: as merge_files."""
        sources = []
        for file in self.group.files:
            with self.outputs.reading(file.location) as handle, _naming(file):
                sources.append(self._source(file, handle))
        opened = self._opened(sources)
        with self.outputs.create(self.location) as output:
            merged = MergedFile(output, opened.layout)
            for file, source in opened.sources:
                with self.outputs.reading(file.location) as handle, _naming(file):
                    merged.add(self._with_decoded(merged, opened, file, source), handle)
            self._finish(merged, opened)
        reopen = partial(self.outputs.reading, self.location)
        with reopen() as handle:
            if not merged.is_stored_as(handle, reopen):
                raise SelfCheckFailed(f"{self.location} has other bytes than were copied")
            return self._result(handle, merged, opened)

    def copied_by_storage(self, assembling: AbstractContextManager[Assembly]) -> MergedGroup:
        """Merge files whose column chunks the storage copies.

        Raises: as merge_files; CopyRefused.
        """

        def read(file: SourceFile) -> tuple[IO[bytes], MergeSource]:
            with present(file.location), naming(file.location):
                handle = assembly.open(file.location)
                with _naming(file):
                    return handle, self._source(file, handle)

        with ExitStack() as stack:
            with assembling as assembly:
                with ThreadPoolExecutor(_OPENED_AT_ONCE, thread_name_prefix="footers") as pool:
                    read_files = list(pool.map(read, self.group.files))
                opened = self._opened([source for _, source in read_files])
                if assembly.copies_whole:
                    why = "the storage copies only whole files, and"
                    if any(flags is not None and not flags.all() for flags in opened.left_out):
                        raise CopyRefused(f"{why} rows of one are left out")
                    if any(opened.layout.decoded_in(source) for _, source in opened.sources):
                        raise CopyRefused(f"{why} columns of one are decoded")
                    for _, source in opened.sources:
                        if (source.size_bytes - source.live_bytes) * _MOST_DEAD > source.size_bytes:
                            raise CopyRefused(f"{why} one has much in between")
                handles = {
                    file.location: stack.enter_context(handle)
                    for file, (handle, _) in zip(self.group.files, read_files, strict=True)
                }
                merged = MergedFile(assembly, opened.layout)
                for file, source in opened.sources:
                    with naming(file.location):
                        copy = CopyRange(
                            partial(assembly.copy, file.location), assembly.copies_whole
                        )
                        copied_source = self._with_decoded(merged, opened, file, source)
                        merged.add(copied_source, handles[file.location], copy)
                self._finish(merged, opened)
                copied = [handles[file.location] for file, _ in opened.sources]
                places, sample = merged.chunk_places(), {}
                spread = np.linspace(0, len(places) - 1, _SAMPLED_CHUNKS).astype(np.int64)
                for number, at, new_at, size in places[np.unique(spread)].tolist():
                    copied[number].seek(at)
                    sample[new_at] = copied[number].read(min(size, _SAMPLED_BYTES))
                    check_page(sample[new_at])
            try:  # without reading ahead
                output = stack.enter_context(assembly.open(self.location))
            except CopyRefused as error:  # too late to copy here: the name is taken
                raise StorageError(str(error)) from error
            stack.enter_context(naming(self.location))
            is_same = output.seek(0, 2) == merged.size_bytes
            for at, content in sample.items():
                output.seek(at)
                is_same = is_same and output.read(len(content)) == content
            if not is_same:
                raise SelfCheckFailed(
                    f"the storage assembled {self.location} from other bytes than requested"
                )
            return self._result(output, merged, opened)

    def _source(self, file: SourceFile, handle: IO[bytes]) -> MergeSource:
        """Return the file of an entry by its footer. Raises: as merge_files."""
        if file.file_format.lower() != "parquet" or file.split is not None:
            raise NotMergeable("it is not a complete Parquet file")
        schema = self.group.columns.written
        opened = open_own(handle, file, schema)
        columns = leaves(opened.schema)
        ids = [leaf.field_id for leaf in columns]
        has_ids = None not in (*ids, *map(field_id, opened.schema))
        if not has_ids or len({(leaf.field_id, leaf.part) for leaf in columns}) != len(ids):
            raise NotMergeable("a column has no field id, or the one of another column")
        source = read_source(handle)
        if schema.field(ROW_ID) is not None:
            if file.first_row_id is None:
                raise NotMergeable("its rows have no ids yet")
            source = source.without_columns(LINEAGE_IDS)
        return source

    def _opened(self, complete: Sequence[MergeSource]) -> _Opened:
        """Return the files without fully deleted row groups. Raises: NotMergeable."""
        sources: list[tuple[SourceFile, MergeSource]] = []
        left_out: list[Flags | None] = []
        for file, whole_source in zip(self.group.files, complete, strict=True):
            flags = self.by_position.of(file.location), self.by_value.of(file.location)
            source = _with_live_groups(whole_source, flags, self.merging)
            left_out.append(None)
            if source.row_count != whole_source.row_count:
                counts = whole_source.group_rows
                is_copied = np.isin(np.arange(len(counts)), source.groups)
                left_out[-1] = np.repeat(~is_copied, counts)
            if len(source.groups):
                sources.append((file, source))
        forms = TableForms(self.group.columns.ever)
        for file, source in sources[1:]:
            with _naming(file):
                joined(combined([sources[0][1].stored, source.stored]), forms)
        layout = check_alike([source for _, source in sources], forms)
        return _Opened(sources, left_out, layout, forms)

    def _with_decoded(
        self, merged: MergedFile, opened: _Opened, file: SourceFile, source: MergeSource
    ) -> MergeSource:
        """Decode the columns of a file that have another form in the new file, and add them.

        Returns the file without these columns. Raises: as merge_files.
        """
        decoded = set(opened.layout.decoded_in(source))
        if not decoded:
            return source
        if source.is_sorted:
            raise NotMergeable("its row groups say what they are sorted by, and columns are moved")
        items = []
        for column in opened.layout.columns:
            if column.key in decoded:
                item = opened.forms.item_of(column)
                if item is None:
                    raise NotMergeable(f"`{column.shown}` can't be written as in the other files")
                items.append(item)
        schema = Schema(0, tuple(items))
        with tempfile.SpooledTemporaryFile(_MOST_IN_MEMORY) as spool:
            columns = cast(IO[bytes], spool)
            written = RowTotals()
            with self.outputs.reading(file.location) as handle:
                rows = open_source(handle, file, schema, ())
                try:
                    _write_columns(rows, schema, source, columns, self.options, written)
                except CorruptTable as error:
                    if error.rule != "R-095":
                        raise
                    raise NotMergeable("it has nulls where its footer counts none") from error
            stored = RowTotals()
            for batch in open_data_file(columns, "parquet").batches(None):
                stored.add(batch.batch)
            check_totals(written, stored)
            merged.add_decoded(read_source(columns), columns)
        return source.without_columns(decoded)

    def _finish(self, merged: MergedFile, opened: _Opened) -> None:
        """Add columns that files lack, and the footer. Raises: NotMergeable."""
        fields = []
        for missing in opened.layout.missing_in([source for _, source in opened.sources]):
            id_ = int(missing.key)
            column = self.group.columns.ever.field(id_)
            default = None if column is None else column.initial_default
            for file, source in opened.sources:
                has_column = any(item.key == missing.key for item in source.columns)
                if not has_column and (default is not None or id_ in file.constants):
                    why = f"not all files have `{missing.shown}`, which has a default"
                    raise NotMergeable(why)  # readers see another value than null
            fields.append(missing.field)
        with_lineage = self.group.columns.written.field(ROW_ID) is not None
        lineage = arrow_schema(Schema(0, LINEAGE if with_lineage else ()))
        schema = pa.schema([*fields, *lineage])

        def row_groups() -> Iterator[pa.Table]:
            """Yield the columns to add: nulls, then ids of rows and last updates."""
            for file, source in opened.sources:
                identities = self._lineage(file, source) if with_lineage else iter(())
                for count in source.group_rows[source.groups].tolist():
                    nulls = [nulls_of(item.type, count) for item in fields]
                    yield pa.table([*nulls, *next(identities, ())], schema=schema)

        if len(schema):
            with closing(written_columns(schema, row_groups(), lineage.names[:1])) as columns:
                merged.add_columns(read_source(columns), columns)
        merged.finish()

    def _stated(self, opened: _Opened) -> Iterator[FileMetrics]:
        """Yield what entries state of files; columns that one lacks have only nulls."""
        lacking = {
            file.location: [int(column.key) for column in opened.layout.missing_in([source])]
            for file, source in opened.sources
        }
        for file in self.group.files:
            if file.stated is not None:
                metrics = file.stated.metrics
                nulls = dict.fromkeys(lacking.get(file.location, ()), metrics.record_count)
                yield replace(
                    metrics,
                    value_counts={**metrics.value_counts, **nulls},
                    null_value_counts={**metrics.null_value_counts, **nulls},
                )

    def _lineage(self, file: SourceFile, source: MergeSource) -> Iterator[Sequence[pa.Array]]:
        """Yield ids of rows and their last updates, of each row group to copy (R-100)."""
        stops = np.cumsum(source.group_rows)
        starts = stops - source.group_rows
        with self.outputs.reading(file.location) as handle:
            rows = open_source(handle, file, Schema(0, LINEAGE), ())
            if not any(field_id(item) in LINEAGE_IDS for item in rows.opened.schema):
                assert file.first_row_id is not None
                for number in source.groups.tolist():
                    ids = np.arange(starts[number], stops[number]) + file.first_row_id
                    yield pa.array(ids), pa.array(np.full(len(ids), file.sequence_number))
                return
            parts = []
            for file_rows in rows.stored():
                positions = np.arange(
                    file_rows.first_row, file_rows.first_row + file_rows.batch.num_rows
                )
                parts.append(rows.project(file_rows.batch, positions))
        lineage = pa.Table.from_batches(parts)
        for number in source.groups.tolist():
            of_group = lineage.slice(starts[number], source.group_rows[number])
            yield [column.combine_chunks() for column in of_group.columns]

    def _result(self, file: IO[bytes], merged: MergedFile, opened: _Opened) -> MergedGroup:
        """Check the rows of the new file, and return the result. Raises: as merge_files."""
        schema, partition = self.group.columns.written, self.group.partition
        assert partition is not None
        expected = sum(source.row_count for _, source in opened.sources)
        row_count = open_data_file(file, "parquet").record_count
        if row_count != expected:
            raise SelfCheckFailed(f"{self.location} has {row_count:,} rows, not {expected:,}")
        footer = read_metrics(file, schema)
        metrics = shaped_metrics(footer, schema, self.options.modes)
        written = WrittenFile(self.location, partition.key, merged.size_bytes, footer, metrics)
        stated = list(self._stated(opened))
        if len(stated) == len(self.group.files):
            written = with_joined_bounds(written, stated, schema, self.options)
            has_all_rows = all(flags is None for flags in opened.left_out)
            written = with_stated_metrics(
                written, stated, schema, self.options, has_all_rows=has_all_rows
            )
        if self.merging.verifies_rows:
            _check_rows(self.group, opened.left_out, written, self.outputs)
        values = [self.by_value.of(file.location) for file in self.group.files]
        return MergedGroup(written, runs_of(opened.left_out), runs_of(values))


@contextmanager
def _naming(file: SourceFile) -> Iterator[None]:
    """Name a file in what keeps it from being merged. Raises: NotMergeable."""
    try:
        yield
    except NotMergeable as error:
        raise NotMergeable(f"`{name(file.location)}`: {error}") from error


def _write_columns(
    rows: RowSource,
    schema: Schema,
    source: MergeSource,
    file: IO[bytes],
    options: WriteOptions,
    written: RowTotals,
) -> None:
    """Rewrite columns of a file, in the row groups that are copied of it, and add them up."""
    ends = np.cumsum(source.group_rows)
    arrow = arrow_schema(schema)
    assert isinstance(rows.opened, ParquetDataFile)
    filters = {
        ".".join(item.name for item in schema.line_to(id_)): BLOOM_FILTER_RATIO
        for id_ in rows.opened.filtered
        if schema.line_to(id_)
    }
    parquet = replace(options.parquet, bloom_filters={**options.parquet.bloom_filters, **filters})
    reals = [id_ for id_, item in schema.all_fields.items() if is_real(item.type)]
    paths = {id_: path for id_ in reals if (path := path_to(arrow, id_)) is not None}
    writer = ParquetWriter(file, arrow, parquet, {})
    pending: list[pa.RecordBatch] = []
    copied = set(source.groups.tolist())
    for stored in rows.stored():
        at, end = stored.first_row, stored.first_row + stored.batch.num_rows
        while at < end:
            group = int(np.searchsorted(ends, at, "right"))
            stop = min(end, int(ends[group]))
            if group in copied:
                part = stored.batch.slice(at - stored.first_row, stop - at)
                pending.append(rows.project(part, np.arange(at, stop)))
                written.add(pending[-1])
            if stop == ends[group] and pending:
                with_nan = _with_nan(pending, paths)
                writer.write_row_group(pending, with_nan)
                pending = []
            at = stop
    writer.close()


def _with_nan(
    batches: Sequence[pa.RecordBatch], paths: Mapping[int, tuple[int, ...]]
) -> frozenset[int]:
    """Return the ids of columns that have NaN."""
    return frozenset(
        id_
        for id_, path in paths.items()
        if any(
            pc.any(pc.is_nan(inside(batch.column(path[0]), path[1:]))).as_py() for batch in batches
        )
    )


def _check_rows(
    group: FileGroup, left_out: Sequence[Flags | None], written: WrittenFile, outputs: FileOutputs
) -> None:
    """Decode and compare the copied rows of the old files and the rows of the new one.

    Raises: SelfCheckFailed.
    """
    left_out_rows = {
        file.location: flags for file, flags in zip(group.files, left_out, strict=True)
    }
    count = written.metrics.record_count
    as_source = replace(group.files[0], location=written.location, record_count=count, stated=None)
    bare = replace(group, deletes=DeletesOfGroup())
    totals = []
    for files in (group.files, (replace(as_source, size_bytes=None, first_row_id=None),)):
        of_files = RowTotals()
        for row in stored_rows(replace(bare, files=files), outputs):
            rows = row.source.project(row.batch, row.positions)
            flags = left_out_rows.get(row.source.file.location)
            if flags is not None:
                rows = rows.filter(pa.array(~flags[row.positions]))
            of_files.add(rows)
        totals.append(of_files)
    check_totals(*totals)


def _with_live_groups(
    source: MergeSource, flags: Sequence[Flags | None], merging: MergeOptions
) -> MergeSource:
    """Return a file without row groups whose rows are all deleted, by `flags`.

    Raises: NotMergeable, if too many of the other rows are deleted.
    """
    deleted = [flag for flag in flags if flag is not None]
    if not deleted:
        return source
    deleted_before = np.append(0, np.cumsum(np.logical_or.reduce(deleted)))
    ends = np.cumsum(source.group_rows)
    counts = deleted_before[ends] - deleted_before[ends - source.group_rows]
    live = source.without(np.flatnonzero(counts == source.group_rows))
    if counts[live.groups].sum() >= merging.most_deleted * max(live.row_count, 1):
        raise NotMergeable("many of its rows are deleted")
    return live
