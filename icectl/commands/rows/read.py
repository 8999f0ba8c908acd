"""Rows of a snapshot read: as the frame of an engine, or to look for some of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from icectl.entries.conditions import Constant, Predicate, leaves, parse_where
from icectl.entries.may_match import METRICS, may_match
from icectl.entries.rows import numbers
from icectl.errors import UsageError
from icectl.format.locations import scheme_of_entries
from icectl.format.metadata import TableMetadata
from icectl.format.schema import Schema, similar_name_hint
from icectl.rows.compact_job import CompactJob, typed_specs
from icectl.rows.named_files import live_files
from icectl.rows.rewrite_data import TableColumns
from icectl.rows.spark_frames import LoadJob, OutgoingRows
from icectl.rows.write_data import write_options
from icectl.table.context import TableContext, open_table
from icectl.table.live_files import LiveFiles, every_column, name_mapping, with_dropped_columns
from icectl.table.output_sizes import pack, sizes_of
from icectl.table.reader import SnapshotChoice, chosen_snapshot
from icectl.table.rewrite_tasks import Bin, RewriteTask, TaskMaker, split_bins

_SPLIT_BYTES = 128 << 20
"""Bytes of files that one task reads, as in the scans of the reference implementation."""
_OPEN_FILE_BYTES = 4 << 20
"""What opening a file counts for."""
_LOOKBACK = 10


class FrameReader(Protocol):
    """What makes a frame of rows, wherever they are read."""

    def load(self, tasks: Sequence[RewriteTask], job: LoadJob) -> Any:
        """Return a frame of the rows of all tasks."""


@dataclass(frozen=True, slots=True)
class Selection:
    """What is read: of which snapshot, which columns, and the rows that a text is true of."""

    snapshot: int | str | None = None
    columns: Sequence[str] | None = None
    where: str | None = None


def load(context: TableContext, reader: FrameReader, selection: Selection) -> Any:
    """Have a frame made of the live rows of a table as it is now. Raises: as load_from."""
    return load_from(open_table(context.catalog).metadata, context, reader, selection)


def load_from(
    metadata: TableMetadata, context: TableContext, reader: FrameReader, selection: Selection
) -> Any:
    """Plan which files are read, and have a frame made of their live rows.

    Raises: UsageError, for a snapshot, column or condition that there is not; Unsupported;
    StorageError; CorruptTable.
    """
    named, schema = selection.snapshot, metadata.current_schema
    choice = (
        SnapshotChoice(ref=named) if isinstance(named, str) else SnapshotChoice(snapshot_id=named)
    )
    snapshot = chosen_snapshot(metadata, choice)
    if isinstance(named, int) and snapshot is not None and selection.where is None:
        # Without a name, and with conditions, the schema is the table's.
        schemas = (item for item in metadata.schemas if item.schema_id == snapshot.schema_id)
        schema = next(schemas, schema)
    columns_read = schema
    if selection.columns is not None:
        by_name = {item.name: item for item in schema.fields}
        for name in selection.columns:
            if name not in by_name:
                hint = similar_name_hint(name, list(by_name))
                raise UsageError(f"the table has no column `{name}`", hint=hint)
        fields = tuple(by_name[name] for name in selection.columns)
        columns_read = Schema(schema.schema_id, fields)
    condition = None if selection.where is None else parse_where(selection.where, metadata)
    more = frozenset[int]() if condition is None else condition_ids(condition)
    columns = METRICS if more else frozenset[str]()
    files = live_files(context, metadata, snapshot, {}, columns, condition)
    outgoing = OutgoingRows(columns_read)
    job = LoadJob(reading_job(metadata, _with(schema, columns_read, more)), condition, outgoing)
    return reader.load(_tasks(metadata, files, condition), job)


def condition_ids(condition: Predicate) -> frozenset[int]:
    """Return the columns that a condition is about. Raises: UsageError, for partition fields."""
    ids = set()
    for leaf in leaves(condition):
        if leaf.column.field_id is None:
            raise UsageError(
                f"`{leaf.column.name}` is a partition field, not a column",
                hint="use its source column",
            )
        ids.add(leaf.column.field_id)
    return frozenset(ids)


def _with(schema: Schema, columns: Schema, more: frozenset[int]) -> Schema:
    """Return columns, followed by those that hold more field ids."""
    have = {item.id for item in columns.fields}
    tops = {schema.line_to(id_)[0].id for id_ in more} - have
    rest = tuple(item for item in schema.fields if item.id in tops)
    return Schema(schema.schema_id, (*columns.fields, *rest))


def condition_job(metadata: TableMetadata, condition: Predicate) -> CompactJob:
    """Return what tasks need to know to look for rows that a condition may be true of.

    It may be about dropped columns.
    """
    schema, ids = metadata.current_schema, condition_ids(condition)
    if not all(map(schema.line_to, ids)):
        schema = with_dropped_columns(metadata).current_schema
    return reading_job(metadata, _with(schema, Schema(schema.schema_id, ()), ids))


def reading_job(metadata: TableMetadata, columns: Schema) -> CompactJob:
    """Return what tasks need to know to read some columns."""
    return CompactJob(
        TableColumns(columns, every_column(metadata), name_mapping(metadata)),
        typed_specs(metadata),
        write_options({}, 0, {}),
        scheme=scheme_of_entries(metadata),
    )


def _tasks(
    metadata: TableMetadata, files: LiveFiles, condition: Predicate | None
) -> list[RewriteTask]:
    """Return tasks over the live files, of about equal bytes; large files are split."""
    predicate = Constant(value=True) if condition is None else condition
    may = may_match(files.data, predicate, metadata.partition_specs, metadata.schemas)
    rows = may.nonzero()[0].tolist()
    stored = numbers(files.data, "file_size_in_bytes")
    sizes = sizes_of(_SPLIT_BYTES, None, None)
    small = [row for row in rows if stored[row] <= _SPLIT_BYTES]
    weights = [int(stored[row]) + _OPEN_FILE_BYTES for row in small]
    packed = pack(weights, _SPLIT_BYTES, _LOOKBACK)
    bins = [Bin(tuple(small[at] for at in part), None, 0) for part in packed]
    for row in rows:
        if stored[row] > _SPLIT_BYTES:
            bins += split_bins(files.data, row, int(stored[row]), sizes)
    maker = TaskMaker(files.data, files.deletes, files.index, rows)
    return [maker.rewrite(part, blank_task(metadata)) for part in bins]


def blank_task(metadata: TableMetadata) -> RewriteTask:
    """Return a task that reads nothing yet."""
    return RewriteTask("r-0", 0, (), (), metadata.default_spec_id, None, 0, 0, 0)
