"""icectl's commands for Python programs that have a session of Spark: notebooks, DAGs, jobs.

Functions of rows write tables of layout sfc-1, and load any. Each other one runs one command on one
table, on the caller's session, and returns a `Report` with what the command line prints as JSON.
Options are those of the command line, as text, in the dataclass that declares them. Nothing is
printed, asked, or left behind: neither settings of the session nor handlers of signals change. What
ends a command raises `icectl.errors.IcectlError`.
"""

import io
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, TypeVar

from icectl.cli.app import load_command
from icectl.cli.commands.compact import CompactRequest as CompactOptions
from icectl.cli.commands.expire_snapshots import ExpireRequest as ExpireOptions
from icectl.cli.commands.inspect import ViewRequest as ViewOptions
from icectl.cli.commands.migrate_v1_v2 import MigrateRequest as MigrateOptions
from icectl.cli.commands.remove_orphans import OrphansRequest as OrphanOptions
from icectl.cli.commands.repair import RepairRequest as RepairOptions
from icectl.cli.commands.rewrite_manifests import RewriteRequest as RewriteOptions
from icectl.cli.commands.upgrade_to_v4 import UpgradeRequest as UpgradeOptions
from icectl.cli.commands.validate import ValidateRequest as ValidateOptions
from icectl.cli.courses import rows
from icectl.cli.failures import explained, way_out
from icectl.cli.options import Common, Invocation, Shell
from icectl.cli.settings import TIME_LIMIT, resolve
from icectl.cli.signals import Interrupts
from icectl.env import Deadline, SystemEnv
from icectl.errors import IcectlError, UsageError
from icectl.progress import Unit
from icectl.report.console import Console, ConsoleOptions
from icectl.report.document import Outcome, Status, TableIdentity, document, json_text
from icectl.report.live import ConsoleProgress
from icectl.run.read_rows import Selection
from icectl.run.sfc1.row_change import RowChange

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = [
    "Access",
    "CompactOptions",
    "ExpireOptions",
    "MigrateOptions",
    "Moment",
    "OrphanOptions",
    "RepairOptions",
    "Report",
    "RewriteOptions",
    "RowChange",
    "UpgradeOptions",
    "ValidateOptions",
    "ViewOptions",
    "append",
    "compact",
    "delete_rows",
    "delete_where",
    "expire_snapshots",
    "inspect",
    "load",
    "migrate_v1_v2",
    "overwrite_partitions",
    "remove_orphans",
    "repair",
    "rewrite_manifests",
    "upgrade_to_v4",
    "validate",
]


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
class Moment:
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


OnProgress = Callable[[Moment], None]
"""Called with each step of a run, from any of its threads: it has to return soon."""

_NOWHERE = Access()
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class _Call:
    """What a function was called with, beside its command's own options."""

    spark: "SparkSession | None"
    table: str
    access: Access
    progress: OnProgress | None


def inspect(
    spark: "SparkSession | None",
    table: str,
    view: str = "summary",
    options: ViewOptions | None = None,
    *,
    access: Access = _NOWHERE,
    progress: OnProgress | None = None,
) -> Report:
    """Show a view of a table. Raises: IcectlError."""
    call = _Call(spark, table, access, progress)
    return _run(call, "inspect", {"view": view, **_values(options or ViewOptions())})


def validate(
    spark: "SparkSession | None",
    table: str,
    options: ValidateOptions | None = None,
    *,
    access: Access = _NOWHERE,
    progress: OnProgress | None = None,
) -> Report:
    """Check a table against the rules of the format. Raises: IcectlError."""
    call = _Call(spark, table, access, progress)
    return _run(call, "validate", _values(options or ValidateOptions()))


def compact(
    spark: "SparkSession | None",
    table: str,
    options: CompactOptions | None = None,
    *,
    dry_run: bool = False,
    access: Access = _NOWHERE,
    progress: OnProgress | None = None,
) -> Report:
    """Rewrite data files on the session; its plan alone in a dry run. Raises: IcectlError."""
    call = _Call(spark, table, access, progress)
    return _change(call, "compact", options or CompactOptions(), dry_run=dry_run)


def expire_snapshots(
    spark: "SparkSession | None",
    table: str,
    options: ExpireOptions | None = None,
    *,
    dry_run: bool = False,
    access: Access = _NOWHERE,
    progress: OnProgress | None = None,
) -> Report:
    """Drop old snapshots and the files only they need. Raises: IcectlError."""
    call = _Call(spark, table, access, progress)
    return _change(call, "expire-snapshots", options or ExpireOptions(), dry_run=dry_run)


def rewrite_manifests(
    spark: "SparkSession | None",
    table: str,
    options: RewriteOptions | None = None,
    *,
    dry_run: bool = False,
    access: Access = _NOWHERE,
    progress: OnProgress | None = None,
) -> Report:
    """Regroup manifests by partition. Raises: IcectlError."""
    call = _Call(spark, table, access, progress)
    return _change(call, "rewrite-manifests", options or RewriteOptions(), dry_run=dry_run)


def remove_orphans(
    spark: "SparkSession | None",
    table: str,
    options: OrphanOptions | None = None,
    *,
    dry_run: bool = False,
    access: Access = _NOWHERE,
    progress: OnProgress | None = None,
) -> Report:
    """Delete or move files that the table does not refer to; `engine="spark"` lists on the session.

    Raises: IcectlError.
    """
    call = _Call(spark, table, access, progress)
    return _change(call, "remove-orphans", options or OrphanOptions(), dry_run=dry_run)


def repair(
    spark: "SparkSession | None",
    table: str,
    options: RepairOptions | None = None,
    *,
    dry_run: bool = False,
    access: Access = _NOWHERE,
    progress: OnProgress | None = None,
) -> Report:
    """Set a broken table right, as far as that is provable. Raises: IcectlError."""
    call = _Call(spark, table, access, progress)
    return _change(call, "repair", options or RepairOptions(), dry_run=dry_run)


def migrate_v1_v2(
    spark: "SparkSession | None",
    table: str,
    options: MigrateOptions | None = None,
    *,
    dry_run: bool = False,
    access: Access = _NOWHERE,
    progress: OnProgress | None = None,
) -> Report:
    """Turn a version 1 table into a version 2 table, for good. Raises: IcectlError."""
    call = _Call(spark, table, access, progress)
    return _change(call, "migrate-v1-v2", options or MigrateOptions(), dry_run=dry_run)


def upgrade_to_v4(
    spark: "SparkSession | None",
    table: str,
    options: UpgradeOptions | None = None,
    *,
    dry_run: bool = False,
    access: Access = _NOWHERE,
    progress: OnProgress | None = None,
) -> Report:
    """Turn a table into one of the version 4 proposal, for good. Raises: IcectlError."""
    call = _Call(spark, table, access, progress)
    return _change(call, "upgrade-to-v4", options or UpgradeOptions(), dry_run=dry_run)


class _Told(ConsoleProgress):
    """Progress that a function of the caller is told."""

    def __init__(self, tell: OnProgress, warn: Callable[[str], None]) -> None:
        nowhere = io.StringIO()
        super().__init__(
            err=nowhere, env=SystemEnv(), enabled=False, terminal=False, tell=warn, warn=warn
        )
        self._on_progress = tell
        self._at = Moment("", 0, None, "count")

    def phase(self, name: str, *, total: int | None = None, unit: Unit = "count") -> None:
        """Tell that a phase begins."""
        self._tell_at(Moment(name, 0, total, unit))

    def advance(self, amount: int) -> None:
        """Tell how far the phase is."""
        if amount:
            with self._lock:
                at = self._at
                self._tell_at(Moment(at.phase, at.done + amount, at.total, at.unit))

    def _tell_at(self, moment: Moment) -> None:
        with self._lock:
            self._at = moment
            self._on_progress(moment)


def append(
    df: "DataFrame",
    table: str,
    *,
    branch: str = "main",
    access: Access = _NOWHERE,
    progress: OnProgress | None = None,
) -> RowChange:
    """Add the rows of a data frame to a table of layout sfc-1, its columns found by name.

    Workers write Parquet as the table's properties, partitions and sort order ask for; a column
    that the frame lacks gets its default, or null. Nothing is committed where there are no rows.
    Raises: IcectlError: Refused, for columns that are not the table's or would lose something, and
    nulls in required ones; Unsupported, for tables of other layouts.
    """
    call = _Call(df.sparkSession, table, access, progress)
    return _on_rows(call, lambda common: rows.append(common, table, df, branch))


def overwrite_partitions(
    df: "DataFrame",
    table: str,
    *,
    branch: str = "main",
    access: Access = _NOWHERE,
    progress: OnProgress | None = None,
) -> RowChange:
    """Put the rows of a data frame in the place of all that their partitions have, in one commit.

    The rows tell which partitions; without partition fields it is the whole table. What others have
    committed to them before goes too. Nothing is committed where there are no rows.
    Raises: IcectlError: as append; Refused, where files of other partition specs are live.
    """
    call = _Call(df.sparkSession, table, access, progress)
    return _on_rows(call, lambda common: rows.overwrite_partitions(common, table, df, branch))


def delete_where(
    table: str,
    where: str,
    *,
    spark: "SparkSession | None" = None,
    branch: str = "main",
    access: Access = _NOWHERE,
    progress: OnProgress | None = None,
) -> RowChange:
    """Delete the rows of a table of layout sfc-1 that a condition is true of.

    `where` is in the language of `--where` (docs/filters.md), on columns. Where it is unknown, for
    a null, the row stays. `spark` is the session to read with; None is the active one.
    Raises: IcectlError.
    """
    call = _Call(spark or _active(), table, access, progress)
    return _on_rows(call, lambda common: rows.delete_where(common, table, where, branch))


def delete_rows(
    table: str,
    keys: "DataFrame",
    *,
    branch: str = "main",
    access: Access = _NOWHERE,
    progress: OnProgress | None = None,
) -> RowChange:
    """Delete the rows of a table of layout sfc-1 that have one of the keys in all their columns.

    The columns of `keys` are found by name, and all of its rows are brought to this process. Values
    are compared as equality deletes do: NaN equals NaN, -0.0 and 0.0 differ.
    Raises: IcectlError: Refused, for a null in a key.
    """
    call = _Call(keys.sparkSession, table, access, progress)
    return _on_rows(call, lambda common: rows.delete_rows(common, table, keys, branch))


def load(
    spark: "SparkSession",
    table: str,
    snapshot: int | str | None = None,
    *,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    access: Access = _NOWHERE,
) -> "DataFrame":
    """A data frame of the live rows of a table, of any format version and layout.

    `snapshot` is an id, or a branch or tag; None is the current one. Files are chosen now, and read
    by workers each time that the frame is computed. `columns` and `where` (docs/filters.md) leave
    out what need not be read. UUIDs are text, `fixed` is binary.
    Raises: IcectlError: Unsupported, for columns of types that Spark lacks.
    """
    selection = Selection(snapshot, columns, where)
    call = _Call(spark, table, access, None)
    return _on_rows(call, lambda common: rows.load(common, table, selection))


def _active() -> "SparkSession":
    """The active session. Raises: UsageError, where there is none."""
    from pyspark.sql import SparkSession

    found = SparkSession.getActiveSession()
    if found is None:
        raise UsageError("there is no active session of Spark", hint="`spark=` names one")
    return found


def _on_rows(call: _Call, work: Callable[[Common], Result]) -> Result:
    """Change or read rows, as commands are run."""
    values = _values_of(call.access)
    common = {one.name: values[one.name] for one in fields(Common) if one.name in values}
    with _called(call, "compact", values) as (_, shell, _):  # whose settings hold for writing too
        return work(Common(shell=shell, **common))


def _change(call: _Call, command: str, options: Any, *, dry_run: bool) -> Report:
    changing = {"dry_run": dry_run, "yes": True, "metadata_file": call.access.metadata_file}
    return _run(call, command, {**_values(options), **changing})


def _run(call: _Call, command: str, values: Mapping[str, Any]) -> Report:
    """Run a command as the command line does, and report what it comes to."""
    with _called(call, command, {**_values_of(call.access), **values}) as found:
        invocation, shell, console = found
        return _report(invocation.run(shell), console)


@contextmanager
def _called(
    call: _Call, command: str, values: Mapping[str, Any]
) -> Iterator[tuple[Invocation, Shell, Console]]:
    """Give a call what a command runs with; errors tell a way out of the table's state.

    None of them tells a secret.
    """
    invocation = Invocation.on(load_command(command), call.table, values)
    console = _console(call.progress)
    shell = _shell(call, console, invocation)
    try:
        yield invocation, shell, console
    except (IcectlError, OSError) as raised:
        error, _ = explained(raised)
        error.hint = way_out(error, shell.ways_out, call.table)
        error.hint = None if error.hint is None else console.redact(error.hint)
        error.message = console.redact(error.message)
        if error is raised:
            raise
        raise error from raised


def _console(progress: OnProgress | None) -> Console:
    """A console that nobody sees."""
    out = io.StringIO()
    options = ConsoleOptions(color="never", verbosity=-1, progress=False, json=True)
    console = Console(out, out, out, SystemEnv(), options)
    if progress is not None:
        console.progress = _Told(progress, console.warn)
    return console


def _shell(call: _Call, console: Console, invocation: Invocation) -> Shell:
    env = SystemEnv()
    settings = resolve(invocation.given_settings(), os.environ, call.access.config)
    limit_ms = settings.read(TIME_LIMIT)
    ends_at = None if limit_ms is None else env.monotonic_seconds() + limit_ms / 1000
    interrupts = Interrupts(console.note)
    return Shell(console, env, settings, Deadline(env, ends_at), interrupts, spark=call.spark)


def _report(outcome: Outcome, console: Console) -> Report:
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


def _values(options: Any) -> dict[str, Any]:
    return {entry.name: getattr(options, entry.name) for entry in fields(options)}


def _values_of(access: Access) -> dict[str, Any]:
    """The options of a table's access as the command line would have them."""

    def pairs(given: Mapping[str, str]) -> list[str] | None:
        """Write `KEY=VALUE` for each."""
        return [f"{key}={value}" for key, value in given.items()] or None

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
