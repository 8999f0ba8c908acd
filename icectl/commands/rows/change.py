"""The common part of changes of rows: which tables may be changed, and how one is committed."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import pyarrow as pa

from icectl.catalog.protocol import LoadedTable
from icectl.commands.rows.read import blank_task
from icectl.commit.output_journal import DataPlaces
from icectl.commit.rewritten_groups import Changes
from icectl.commit.snapshot import branch_head, check_same_form
from icectl.commit.snapshot_writer import SnapshotWriter, writer_of
from icectl.commit.transaction import Proposal, Transaction, transaction
from icectl.entries.rows import Entries, by_row, deletion_vectors, only
from icectl.errors import CommitConflict, Unsupported
from icectl.format.layout import Layout, layout_name, layout_of_table
from icectl.format.metadata import TableMetadata
from icectl.format.properties import FORMAT_DEFAULT, read
from icectl.sfc1.commit.draft import TreeChange
from icectl.sfc1.commit.writer import ChangeState, TreeWriter, leaf_at, replacement
from icectl.sfc1.manifests import TreeSchema, with_column
from icectl.storage.location import comparison_key
from icectl.table.context import TableContext
from icectl.table.guard import open_to_change
from icectl.table.live_files import LiveFiles
from icectl.table.rewrite_tasks import Bin, RewriteTask, TaskMaker

COMMAND = "write"


@dataclass(frozen=True, slots=True)
class RowChange:
    """What a call has changed; `snapshot_id` is None, and all counts are 0, where that is nothing.

    `deleted_rows` are those that were live: files that went may have had deleted ones too.
    """

    snapshot_id: int | None
    metadata_location: str
    added_data_files: int = 0
    added_rows: int = 0
    removed_data_files: int = 0
    deleted_rows: int = 0


def open_for_rows(context: TableContext, branch: str) -> LoadedTable:
    """Load a table whose rows will be changed on a branch.

    Raises: Unsupported, for tables of other layouts than sfc-1, and those that want other files
    than Parquet; UsageError, for a branch that there is not; as open_to_change.
    """
    loaded = open_to_change(context.catalog)
    metadata = loaded.metadata
    if layout_of_table(metadata) is not Layout.SFC_1:
        kind = layout_name(metadata) or f"format version {metadata.format_version}"
        raise Unsupported(
            f"icectl writes rows only to tables of layout sfc-1, not of {kind}",
            hint="Iceberg's own Spark writes this table; "
            "`icectl upgrade-to-v4 TABLE --layout sfc-1` converts it",
        )
    data_format = read(metadata.properties, FORMAT_DEFAULT)
    if data_format != "parquet":
        message = f"the table asks for {data_format} files (`write.format.default`)"
        raise Unsupported(message, hint="icectl writes Parquet; set the property to parquet")
    branch_head(metadata, branch)
    return loaded


@dataclass(slots=True)
class OpenChange:
    """A change under way, on a table as it was loaded."""

    context: TableContext
    branch: str
    opened: Transaction
    snapshot_id: int
    _writer: SnapshotWriter | None = None

    def propose(self, metadata: TableMetadata, change: ChangeState, data: Entries) -> Proposal:
        """Propose a change of the newest state; `data` are entries of new files that it needs.

        Raises: CommitConflict, where the table's schema or form has changed since then, or what the
        change removes is gone; as TreeWriter.propose.
        """
        self.check_form(metadata)
        context = self.context
        writer = TreeWriter(
            context.store, context.env, self.branch, self.opened.outputs, context.concurrency
        )
        return _with_files(writer.propose(metadata, self.snapshot_id, change), data)

    def replace_files(
        self, metadata: TableMetadata, rewritten: Changes, files: LiveFiles
    ) -> Proposal:
        """Propose that files go and others come, on the newest state, in whatever layout.

        `files` are those of the head. Raises: as propose, SnapshotWriter.replace_files.
        """
        layout = layout_of_table(metadata)
        if layout is Layout.SFC_1:
            return self.propose(
                metadata, lambda facts, _: row_change(facts, rewritten, files), rewritten.added
            )
        self.check_form(metadata)
        if self._writer is None:
            self._writer = writer_of(self.context, layout, self.branch, self.opened.outputs)
        proposal = self._writer.replace_files(metadata, self.snapshot_id, files, rewritten)
        return _with_files(proposal, rewritten.added)

    def check_form(self, metadata: TableMetadata) -> None:
        """Raise CommitConflict where the table's schema or form has changed since then."""
        base = self.opened.base.metadata
        if metadata.current_schema_id != base.current_schema_id:
            raise CommitConflict("the table's schema has changed since then")
        check_same_form(base, metadata)


def _with_files(proposal: Proposal, data: Entries) -> Proposal:
    files = (location for (location,) in by_row(data, "location"))
    return replace(proposal, files=proposal.files.union(files))


@contextmanager
def changing(
    context: TableContext,
    loaded: LoadedTable,
    branch: str,
    places: DataPlaces,
    command: str = COMMAND,
) -> Iterator[OpenChange]:
    """Open a change of rows; however the block ends, no file stays that nothing needs."""
    with transaction(context, loaded, command, places) as opened:
        opened.outputs.begin()
        yield OpenChange(context, branch, opened, context.env.new_snapshot_id())


def row_change(facts: TreeSchema, rewritten: Changes, files: LiveFiles) -> TreeChange:
    """Changes of rows as one of a root: new files are of the snapshot itself, whatever that is."""
    change = replacement(facts, rewritten, files.manifests)
    added = with_column(change.added, "sequence_number", pa.nulls(len(change.added), pa.int64()))
    data_leaves: dict[str, str | None] = {}  # of the data files of new vectors
    named = deletion_vectors(rewritten.added).table["referenced_data_file"]
    for location, at in by_row(only(files.data, named), "location", "manifest"):
        leaf = leaf_at(files.manifests, at)
        data_leaves[comparison_key(location)] = None if leaf is None else comparison_key(leaf)
    return replace(change, added=added, operation=None, data_leaves=data_leaves)


def whole_files(metadata: TableMetadata, maker: TaskMaker, rows: Sequence[int]) -> RewriteTask:
    """Live data files that go, by their rows, as the task that others would take their place in."""
    return maker.rewrite(Bin(tuple(rows), None, 0), blank_task(metadata))
