"""Rows deleted by a program: whole files where that is provable, vectors for the rows of others."""

from collections.abc import Callable

from icectl.commands.rows.change import RowChange, changing, open_for_rows
from icectl.commands.rows.deletion import Finder, RowDeletion, RowSearch, WantedRows
from icectl.commands.rows.read import condition_ids
from icectl.commit.transaction import data_places
from icectl.entries.conditions import parse_where
from icectl.format.metadata import TableMetadata
from icectl.table.context import TableContext


def where(text: str) -> Callable[[TableMetadata], WantedRows]:
    """Return the rows that a text in the language of `--where` is true of, for a table."""

    def of(metadata: TableMetadata) -> WantedRows:
        predicate = parse_where(text, metadata)
        condition_ids(predicate)
        return WantedRows(predicate, predicate)

    return of


def delete(
    context: TableContext,
    finder: Finder,
    wanted: Callable[[TableMetadata], WantedRows],
    branch: str,
) -> RowChange:
    """Delete rows of a branch. Nothing is committed where there are none.

    After another writer's commit only the files that it brought are read again.
    Raises: UsageError, Refused, Unsupported, before anything is written; CommitConflict, where
    other writers were faster too often; CommitUnknown; EngineError; StorageError; CorruptTable.
    """
    loaded = open_for_rows(context, branch)
    condition = wanted(loaded.metadata)
    with changing(context, loaded, branch, data_places(loaded.metadata, [""])) as change:
        deletion = RowDeletion(RowSearch(context, finder, condition), change)
        landed = deletion.commit()
        if landed is None:
            return RowChange(None, loaded.metadata_location)
    return RowChange(
        change.snapshot_id,
        landed.metadata_location,
        removed_data_files=deletion.removed_files,
        deleted_rows=deletion.deleted_rows,
    )
