"""The runs of programs that change or read rows: a session on the table, then the run."""

from typing import Any

from icectl.cli.options import Change, Common
from icectl.cli.session import Session, open_session
from icectl.commands.rows import delete as deletes
from icectl.commands.rows import read as read_rows
from icectl.commands.rows import write as write_rows
from icectl.commands.rows.change import RowChange
from icectl.format.metadata import TableMetadata
from icectl.rows.find_job import keys_of
from icectl.rows.spark_frames import SparkFrame, SparkReader, collect_small_frame


def append(common: Common, table: str, frame: Any, branch: str) -> RowChange:
    """Add the rows of a data frame. Raises: as write_rows.append."""
    session = _session(common, table)
    return write_rows.append(session.context, _frame(session, frame), branch)


def overwrite_partitions(common: Common, table: str, frame: Any, branch: str) -> RowChange:
    """Put the rows of a data frame in the place of others. Raises: as write's."""
    session = _session(common, table)
    return write_rows.overwrite_partitions(session.context, _frame(session, frame), branch)


def delete_where(common: Common, table: str, where: str, branch: str) -> RowChange:
    """Delete the rows that a condition is true of. Raises: as deletes.delete."""
    session = _session(common, table)
    return deletes.delete(session.context, _reader(session), deletes.where(where), branch)


def delete_rows(common: Common, table: str, keys: Any, branch: str) -> RowChange:
    """Delete the rows that have one of some keys. Raises: as deletes.delete, keys_of."""
    session = _session(common, table)

    def wanted(metadata: TableMetadata) -> deletes.WantedRows:
        """Bring the keys here, as the table's columns."""
        return deletes.WantedRows(*keys_of(collect_small_frame(keys), metadata.current_schema))

    return deletes.delete(session.context, _reader(session), wanted, branch)


def load(common: Common, table: str, selection: read_rows.Selection) -> Any:
    """Return a data frame of rows. Raises: as read_rows.load."""
    session = _session(common, table)
    return read_rows.load(session.context, _reader(session), selection)


def _frame(session: Session, frame: Any) -> SparkFrame:
    return SparkFrame(frame, session.storage, session.context.progress, session.context.deadline)


def _reader(session: Session) -> SparkReader:
    return SparkReader(
        session.spark, session.storage, session.context.progress, session.context.deadline
    )


def _session(common: Common, table: str) -> Session:
    return open_session(common, table, read_only=False, change=Change(yes=True))
