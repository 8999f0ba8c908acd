"""Calls of a program that has Spark: commands and changes of rows run as on the command line.

Nothing is printed, asked, or left behind: neither settings nor handlers of signals change.
"""

import io
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

from icectl.cli.console import Console, silent_console
from icectl.cli.document import Status, TableIdentity, document, json_text
from icectl.cli.failures import error_and_code, recovery_hint
from icectl.cli.options import Change, Common, Invocation, Shell, option_settings
from icectl.cli.progress_bar import ConsoleProgress
from icectl.cli.registry import load_command
from icectl.cli.session import Session, open_session
from icectl.cli.settings import TIME_LIMIT, resolve
from icectl.cli.signals import Interrupts
from icectl.commands.rows import delete as deletes
from icectl.commands.rows import read as read_rows
from icectl.commands.rows import write as write_rows
from icectl.commands.rows.change import RowChange
from icectl.commands.rows.deletion import WantedRows
from icectl.env import Deadline, SystemEnv
from icectl.errors import IcectlError
from icectl.format.metadata import TableMetadata
from icectl.progress import Unit
from icectl.rows.find_job import keys_of
from icectl.rows.spark_frames import SparkFrame, SparkReader, collect_small_frame

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Access:
    """The way to a table and the means of a run; every value as the option of that name takes it.

    What is not given comes from where the command line has it: the environment, the settings file.
    """

    catalog: str | None = None
    catalog_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    path_map: Mapping[str, str] = field(default_factory=dict)
    metadata_file: str | None = None
    concurrency: int | None = None
    time_limit: str | None = None
    config: str | None = None


@dataclass(frozen=True, slots=True)
class ProgressUpdate:
    """How far a run is: `done` of `total` in its phase; None where the total is not known."""

    phase: str
    done: int
    total: int | None
    unit: Unit


@dataclass(frozen=True, slots=True)
class Report:
    """The plan or the outcome of a command.

    `result` is the command's own part of the JSON document, `status` and `exit_code` are those of
    the command line: 3 where it is done in part, 4 where `validate` found errors.
    """

    command: str
    status: Status
    exit_code: int
    table: TableIdentity | None
    dry_run: bool
    result: Mapping[str, Any]
    warnings: tuple[str, ...]
    document: Mapping[str, Any] = field(repr=False)

    @property
    def json(self) -> str:
        """The document as the command line prints it."""
        return json_text(self.document)


OnProgress = Callable[[ProgressUpdate], None]
"""Called with each step of a run, from any of its threads: it has to return soon."""


@dataclass(frozen=True, slots=True)
class Call:
    """What a function was called with, beside its command's own options."""

    spark: Any
    table: str
    access: Access
    progress: OnProgress | None


def run_command(call: Call, command: str, values: Mapping[str, Any]) -> Report:
    """Run a command as the command line does, and report what it comes to. Raises: IcectlError."""
    values_of_call = {**_values_of(call.access), **values}
    invocation = Invocation.on(load_command(command), call.table, values_of_call)
    with _call_context(call, invocation.option_settings()) as (shell, console):
        outcome = invocation.run(shell)
        for warning in outcome.warnings:
            console.warn(warning)
        built = {**document(outcome), "warnings": list(console.warnings)}
        return Report(
            outcome.command,
            outcome.status,
            outcome.exit_code,
            outcome.table,
            outcome.dry_run,
            built["result"],
            console.warnings,
            built,
        )


def on_rows(
    call: Call, name: str, work: Callable[[Session], Result], *, read_only: bool = False
) -> Result:
    """Change or read rows as a command of a name would, which settings and journals go by.

    Raises: IcectlError.
    """
    change = None if read_only else Change(yes=True, metadata_file=call.access.metadata_file)
    values = _values_of(call.access)
    names = {entry.name for entry in fields(Common)}
    common = {name: value for name, value in values.items() if name in names}
    with _call_context(call, option_settings(name, values)) as (shell, _):
        whole = Common(shell=shell, **common)
        return work(open_session(whole, call.table, read_only=read_only, change=change))


class _CallbackProgress(ConsoleProgress):
    """Progress that a function of the caller is told."""

    def __init__(self, on_progress: OnProgress, warn: Callable[[str], None]) -> None:
        nowhere = io.StringIO()
        super().__init__(
            err=nowhere, env=SystemEnv(), enabled=False, terminal=False, write_line=warn, warn=warn
        )
        self._on_progress = on_progress
        self._at = ProgressUpdate("", 0, None, "count")

    def phase(self, name: str, *, total: int | None = None, unit: Unit = "count") -> None:
        """Tell that a phase begins."""
        self._report(ProgressUpdate(name, 0, total, unit))

    def advance(self, amount: int) -> None:
        """Tell how far the phase is."""
        if amount:
            with self._lock:
                at = self._at
                self._report(ProgressUpdate(at.phase, at.done + amount, at.total, at.unit))

    def _report(self, moment: ProgressUpdate) -> None:
        with self._lock:
            self._at = moment
            self._on_progress(moment)


@contextmanager
def _call_context(call: Call, values: Mapping[str, str]) -> Iterator[tuple[Shell, Console]]:
    """Give a call what a command runs with; errors tell a way out, and no secret."""
    env = SystemEnv()
    console = silent_console(env)
    if call.progress is not None:
        console.progress = _CallbackProgress(call.progress, console.warn)
    settings = resolve(values, os.environ, call.access.config)
    limit_ms = settings.read(TIME_LIMIT)
    ends_at = None if limit_ms is None else env.monotonic_seconds() + limit_ms / 1000
    interrupts = Interrupts(console.note)
    shell = Shell(console, env, settings, Deadline(env, ends_at), interrupts, spark=call.spark)
    try:
        yield shell, console
    except (IcectlError, OSError) as raised:
        error, _ = error_and_code(raised)
        error.hint = recovery_hint(error, shell.recovery_hints, call.table)
        error.hint = None if error.hint is None else console.redact(error.hint)
        error.message = console.redact(error.message)
        if error is raised:
            raise
        raise error from raised


def _values_of(access: Access) -> dict[str, Any]:
    """The options of a table's access as the command line would have them."""

    def pairs(mapping: Mapping[str, str]) -> list[str] | None:
        return [f"{key}={value}" for key, value in mapping.items()] or None

    return {
        "catalog": access.catalog,
        "catalog_option": pairs(access.catalog_options),
        "storage_option": pairs(access.storage_options),
        "path_map": pairs(access.path_map),
        "concurrency": None if access.concurrency is None else str(access.concurrency),
        "time_limit": access.time_limit,
        "config": access.config,
        "json": True,
        "no_progress": True,
    }


def append(session: Session, frame: Any, branch: str) -> RowChange:
    """Add the rows of a DataFrame. Raises: as write_rows.append."""
    return write_rows.append(session.context, _frame(session, frame), branch)


def overwrite_partitions(session: Session, frame: Any, branch: str) -> RowChange:
    """Put the rows of a DataFrame in the place of others. Raises: as write's."""
    return write_rows.overwrite_partitions(session.context, _frame(session, frame), branch)


def delete_where(session: Session, where: str, branch: str) -> RowChange:
    """Delete the rows that a condition is true of. Raises: as deletes.delete."""
    return deletes.delete(session.context, _reader(session), deletes.where(where), branch)


def delete_rows(session: Session, keys: Any, branch: str) -> RowChange:
    """Delete the rows that have one of some keys. Raises: as deletes.delete, keys_of."""

    def wanted(metadata: TableMetadata) -> WantedRows:
        return WantedRows(*keys_of(collect_small_frame(keys), metadata.current_schema))

    return deletes.delete(session.context, _reader(session), wanted, branch)


def load(session: Session, selection: read_rows.Selection) -> Any:
    """Return a DataFrame of rows. Raises: as read_rows.load."""
    return read_rows.load(session.context, _reader(session), selection)


def _frame(session: Session, frame: Any) -> SparkFrame:
    return SparkFrame(frame, session.storage, session.context.progress, session.context.deadline)


def _reader(session: Session) -> SparkReader:
    return SparkReader(
        session.spark, session.storage, session.context.progress, session.context.deadline
    )
