"""The course of a program that changes or reads rows: a session on the table, then the run."""

from typing import Any

from icectl.cli.options import Change, Common
from icectl.cli.session import Session, open_session
from icectl.engine.spark_write import SparkFrame
from icectl.run.rows import write
from icectl.run.rows.change import RowChange


def append(common: Common, table: str, frame: Any, branch: str) -> RowChange:
    """Add the rows of a data frame. Raises: as write.append."""
    session = _session(common, table)
    return write.append(session.access, _frame(session, frame), branch)


def _frame(session: Session, frame: Any) -> SparkFrame:
    return SparkFrame(frame, session.storage, session.progress, session.deadline)


def _session(common: Common, table: str) -> Session:
    return open_session(common, table, read_only=False, change=Change(yes=True))
