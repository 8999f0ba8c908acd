"""Rows of a DataFrame appended to a table, or put in the place of those of their partitions."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from icectl.commands.rows.change import (
    OpenChange,
    RowChange,
    changing,
    open_for_rows,
    row_change,
    whole_files,
)
from icectl.commit.rewritten_groups import GroupResult, changes
from icectl.commit.snapshot import head
from icectl.commit.transaction import DataOutputs, Proposal, data_places
from icectl.entries.deletes import known_deleted_rows
from icectl.entries.rows import GROUP_KEYS, Entries, by_row, numbers
from icectl.errors import Refused
from icectl.files.parquet.schema import arrow_schema
from icectl.format.metadata import TableMetadata
from icectl.format.metrics_modes import metrics_modes
from icectl.format.properties import DISTRIBUTION_MODE, TARGET_FILE_SIZE_BYTES, read
from icectl.rows.compact_job import OutputPlaces, typed_specs
from icectl.rows.jobs import SORT_BYTES
from icectl.rows.named_files import live_files
from icectl.rows.read_data import written_schema
from icectl.rows.sort_rows import Sorting, sort_keys, table_order
from icectl.rows.write_data import write_options
from icectl.rows.write_job import IncomingRows, WriteJob, frame_schema
from icectl.sfc1.commit.draft import ParentState, TreeChange
from icectl.sfc1.manifests import TreeSchema, tree_rows, with_column
from icectl.table.context import TableContext
from icectl.table.live_files import LiveFiles
from icectl.table.rewrite_tasks import TaskMaker

_WITHOUT_LINEAGE = 2
"""The format version whose files have no columns of row ids: new rows get theirs by place."""


class Frame(Protocol):
    """Rows that are somewhere else, and can be written from there."""

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows."""

    def write(self, job: WriteJob, places: OutputPlaces, *, by_partition: bool) -> pa.Table:
        """Write the rows; entries of the new files."""


def append(context: TableContext, frame: Frame, branch: str) -> RowChange:
    """Add the rows of a frame. Nothing is committed where it has none.

    Raises: Unsupported, Refused, UsageError, before anything is written; CommitConflict, where
    other writers were faster too often; CommitUnknown; EngineError; StorageError.
    """
    with _written(context, frame, branch) as (change, job, added):
        if not len(added):
            return RowChange(None, change.opened.base.metadata_location)

        def appended(facts: TreeSchema, _: ParentState) -> TreeChange:
            return TreeChange(tree_rows(facts, added, job.spec.spec.spec_id))

        landed = change.opened.commit(lambda metadata: change.propose(metadata, appended, added))
    return RowChange(
        change.snapshot_id,
        landed.metadata_location,
        added_data_files=len(added),
        added_rows=row_count(added),
    )


def overwrite_partitions(context: TableContext, frame: Frame, branch: str) -> RowChange:
    """Put the rows of a frame in the place of all others of their partitions, of all writers.

    Without a partition field those are all rows. Nothing is committed where the frame has none.
    Raises: as append; Refused, where files of other specs are live.
    """
    with _written(context, frame, branch) as (change, _, added):
        if not len(added):
            return RowChange(None, change.opened.base.metadata_location)
        overwriting = _Overwriting(context, change, added)
        landed = change.opened.commit(overwriting.propose)
    return RowChange(
        change.snapshot_id,
        landed.metadata_location,
        len(added),
        row_count(added),
        overwriting.removed_files,
        overwriting.deleted_rows,
    )


@dataclass(slots=True)
class _Overwriting:
    """New files that take the place of all others of their partitions."""

    context: TableContext
    change: OpenChange
    added: Entries
    removed_files: int = 0
    deleted_rows: int = 0

    def propose(self, metadata: TableMetadata) -> Proposal:
        """Propose what goes and comes, by what is live now. Raises: Refused; CorruptTable."""
        snapshot = head(metadata, self.change.branch)
        files = live_files(self.context, metadata, snapshot, {})
        replaced = self._replaced_rows(files)
        maker = TaskMaker(files.data, files.deletes, files.index, replaced)
        number = pa.array([metadata.last_sequence_number + 1] * len(self.added), pa.int64())
        added = Entries(with_column(self.added.table, "sequence_number", number))
        rewritten = changes(
            files, [GroupResult(0, (whole_files(metadata, maker, replaced),), added)]
        )
        live = numbers(files.data, "record_count") - known_deleted_rows(files.matches)
        self.removed_files = len(replaced)
        self.deleted_rows = int(live[replaced].sum()) if replaced else 0
        return self.change.propose(
            metadata, lambda facts, _: row_change(facts, rewritten, files), rewritten.added
        )

    def _replaced_rows(self, files: LiveFiles) -> list[int]:
        """Return the rows of live data files in the partitions of the new ones. Raises: Refused."""
        partitions = set(by_row(self.added, *GROUP_KEYS))
        specs = {spec_id for spec_id, _ in partitions}
        keys = list(by_row(files.data, *GROUP_KEYS))
        other = sum(spec_id not in specs for spec_id, _ in keys)
        if other:
            raise Refused(
                f"{other:,} live data files have another partition spec, and may have rows of "
                "these partitions",
                hint="`icectl compact TABLE` rewrites files of other specs; `delete_where` and "
                "`append` say which rows are meant",
            )
        return [row for row, partition in enumerate(keys) if partition in partitions]


@contextmanager
def _written(
    context: TableContext, frame: Frame, branch: str
) -> Iterator[tuple[OpenChange, WriteJob, Entries]]:
    """Open a change with the rows of a frame written, by a job, to files of some entries."""
    loaded = open_for_rows(context, branch)
    metadata = loaded.metadata
    job = write_job(metadata, frame.schema)
    places = data_places(metadata, ["" if metadata.default_spec.is_unpartitioned else None])
    with changing(context, loaded, branch, places) as change:
        mode = read(metadata.properties, DISTRIBUTION_MODE)
        by_partition = mode != "none" and not job.spec.spec.is_unpartitioned
        outputs = DataOutputs(metadata, change.opened.outputs)
        yield change, job, Entries(frame.write(job, outputs, by_partition=by_partition))


def row_count(entries: Entries) -> int:
    """Return the rows of some data files, deleted ones too."""
    return sum(count for (count,) in by_row(entries, "record_count"))


def write_job(metadata: TableMetadata, data_schema: pa.Schema) -> WriteJob:
    """Return what tasks need to know to write rows with the columns `given`.

    Raises: Unsupported, for a column or spec that can't be written; Refused, for columns that are
    not the table's.
    """
    schema = metadata.current_schema
    columns = written_schema(schema, _WITHOUT_LINEAGE)
    order = metadata.sort_order(metadata.default_sort_order_id)
    modes = metrics_modes(metadata.properties, schema, order.ordered_ids if order else ())
    target_size_bytes = read(metadata.properties, TARGET_FILE_SIZE_BYTES)
    sorting = None
    if order is not None and order.fields:
        sorting = Sorting(table_order(metadata), SORT_BYTES)
        sort_keys(sorting.order, columns, arrow_schema(columns))
    return WriteJob(
        IncomingRows(frame_schema(data_schema, columns), columns),
        typed_specs(metadata)[metadata.default_spec_id],
        write_options(metadata.properties, target_size_bytes, modes),
        sorting,
        order.order_id if sorting is not None and order is not None else None,
    )
