"""icectl's commands for Python programs that have a session of Spark: notebooks, DAGs, jobs.

Functions of rows write tables of layout sfc-1, and load any. Each other one runs one command on one
table, on the caller's session, and returns a `Report` with what the command line prints as JSON.
Options are those of the command line, as text, in the dataclass that declares them. Nothing is
printed, asked, or left behind: neither settings of the session nor handlers of signals change. Over
Spark Connect icectl stays an artifact of a session whose data frames were written or loaded. What
ends a command raises `icectl.errors.IcectlError`.
"""

from collections.abc import Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from icectl.commands import program
from icectl.commands.analyze.options import AnalyzeRequest as AnalyzeOptions
from icectl.commands.compact.options import CompactRequest as CompactOptions
from icectl.commands.erase.options import EraseRequest as EraseOptions
from icectl.commands.expire_rows.options import ExpireRowsRequest as ExpireRowsOptions
from icectl.commands.expire_snapshots.options import ExpireRequest as ExpireOptions
from icectl.commands.inspect.options import ViewRequest as ViewOptions
from icectl.commands.migrate_v1_v2.options import MigrateRequest as MigrateOptions
from icectl.commands.program import (
    Access,
    Call,
    OnProgress,
    ProgressUpdate,
    Report,
    on_rows,
    run_command,
)
from icectl.commands.remove_orphans.options import OrphansRequest as OrphanOptions
from icectl.commands.repair.options import RepairRequest as RepairOptions
from icectl.commands.rewrite_manifests.options import RewriteRequest as RewriteOptions
from icectl.commands.rows.change import COMMAND as WRITE
from icectl.commands.rows.change import RowChange
from icectl.commands.rows.read import Selection
from icectl.commands.upgrade_to_v3.options import UpgradeToV3Request as UpgradeToV3Options
from icectl.commands.upgrade_to_v4.options import UpgradeRequest as UpgradeOptions
from icectl.commands.validate.options import ValidateRequest as ValidateOptions
from icectl.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = [
    "Access",
    "AnalyzeOptions",
    "CompactOptions",
    "EraseOptions",
    "ExpireOptions",
    "ExpireRowsOptions",
    "MigrateOptions",
    "OrphanOptions",
    "ProgressUpdate",
    "RepairOptions",
    "Report",
    "RewriteOptions",
    "RowChange",
    "UpgradeOptions",
    "UpgradeToV3Options",
    "ValidateOptions",
    "ViewOptions",
    "analyze",
    "append",
    "compact",
    "delete_rows",
    "delete_where",
    "erase",
    "expire_rows",
    "expire_snapshots",
    "inspect",
    "load",
    "migrate_v1_v2",
    "overwrite_partitions",
    "remove_orphans",
    "repair",
    "rewrite_manifests",
    "upgrade_to_v3",
    "upgrade_to_v4",
    "validate",
]  # fmt: skip

_NOWHERE = Access()


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
    call = Call(spark, table, access, progress)
    return run_command(call, "inspect", {"view": view, **_values(options or ViewOptions())})


def validate(
    spark: "SparkSession | None",
    table: str,
    options: ValidateOptions | None = None,
    *,
    access: Access = _NOWHERE,
    progress: OnProgress | None = None,
) -> Report:
    """Check a table against the rules of the format. Raises: IcectlError."""
    call = Call(spark, table, access, progress)
    return run_command(call, "validate", _values(options or ValidateOptions()))


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
    call = Call(spark, table, access, progress)
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
    call = Call(spark, table, access, progress)
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
    call = Call(spark, table, access, progress)
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
    call = Call(spark, table, access, progress)
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
    """Repair a broken table, as far as can be proved. Raises: IcectlError."""
    call = Call(spark, table, access, progress)
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
    call = Call(spark, table, access, progress)
    return _change(call, "migrate-v1-v2", options or MigrateOptions(), dry_run=dry_run)


def analyze(
    spark: "SparkSession | None",
    table: str,
    options: AnalyzeOptions | None = None,
    *,
    dry_run: bool = False,
    access: Access = _NOWHERE,
    progress: OnProgress | None = None,
) -> Report:
    """Compute statistics for query planners. Raises: IcectlError."""
    call = Call(spark, table, access, progress)
    return _change(call, "analyze", options or AnalyzeOptions(), dry_run=dry_run)


def expire_rows(
    spark: "SparkSession | None",
    table: str,
    options: ExpireRowsOptions | None = None,
    *,
    dry_run: bool = False,
    access: Access = _NOWHERE,
    progress: OnProgress | None = None,
) -> Report:
    """Delete expired rows, read by this machine. Raises: IcectlError."""
    call = Call(spark, table, access, progress)
    return _change(call, "expire-rows", options or ExpireRowsOptions(), dry_run=dry_run)


def erase(
    spark: "SparkSession | None",
    table: str,
    options: EraseOptions | None = None,
    *,
    dry_run: bool = False,
    access: Access = _NOWHERE,
    progress: OnProgress | None = None,
) -> Report:
    """Erase rows from all branches and from history, read by this machine. Raises: IcectlError."""
    call = Call(spark, table, access, progress)
    return _change(call, "erase", options or EraseOptions(), dry_run=dry_run)


def upgrade_to_v3(
    spark: "SparkSession | None",
    table: str,
    options: UpgradeToV3Options | None = None,
    *,
    dry_run: bool = False,
    access: Access = _NOWHERE,
    progress: OnProgress | None = None,
) -> Report:
    """Turn a table of version 1 or 2 into a version 3 table, for good. Raises: IcectlError."""
    call = Call(spark, table, access, progress)
    return _change(call, "upgrade-to-v3", options or UpgradeToV3Options(), dry_run=dry_run)


def upgrade_to_v4(
    spark: "SparkSession | None",
    table: str,
    options: UpgradeOptions | None = None,
    *,
    dry_run: bool = False,
    access: Access = _NOWHERE,
    progress: OnProgress | None = None,
) -> Report:
    """Turn a table into one of version 4, in the layout that the options name.

    Raises: IcectlError.
    """
    call = Call(spark, table, access, progress)
    return _change(call, "upgrade-to-v4", options or UpgradeOptions(), dry_run=dry_run)


def append(
    df: "DataFrame",
    table: str,
    *,
    branch: str = "main",
    access: Access = _NOWHERE,
    progress: OnProgress | None = None,
) -> RowChange:
    """Add the rows of a DataFrame to a table of layout sfc-1, its columns found by name.

    Workers write Parquet as the table's properties, partitions and sort order ask for; a column
    that the frame lacks gets its default, or null. Nothing is committed where there are no rows.
    UUIDs come as text or 16 bytes, `fixed` as binary, nanoseconds as Spark's timestamps.
    Raises: IcectlError: Refused, for columns that are not the table's or would lose something,
    values that do not fit, and nulls in required ones; Unsupported, for tables of other layouts.
    """
    call = Call(df.sparkSession, table, access, progress)
    return on_rows(call, WRITE, lambda session: program.append(session, df, branch))


def overwrite_partitions(
    df: "DataFrame",
    table: str,
    *,
    branch: str = "main",
    access: Access = _NOWHERE,
    progress: OnProgress | None = None,
) -> RowChange:
    """Put the rows of a DataFrame in the place of all that their partitions have, in one commit.

    The rows tell which partitions; without partition fields it is the whole table. What others have
    committed to them before goes too. Nothing is committed where there are no rows.
    Raises: IcectlError: as append; Refused, where files of other partition specs are live.
    """
    call = Call(df.sparkSession, table, access, progress)
    return on_rows(call, WRITE, lambda session: program.overwrite_partitions(session, df, branch))


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
    from pyspark.sql import SparkSession

    session = spark or SparkSession.getActiveSession()
    if session is None:
        raise UsageError("there is no active Spark session", hint="pass one as `spark=`")
    call = Call(session, table, access, progress)
    return on_rows(call, WRITE, lambda session: program.delete_where(session, where, branch))


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
    call = Call(keys.sparkSession, table, access, progress)
    return on_rows(call, WRITE, lambda session: program.delete_rows(session, keys, branch))


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
    out what need not be read. UUIDs are text, `fixed` is binary, nanoseconds are microseconds,
    where none is lost.
    Raises: IcectlError: Unsupported, for columns of types that Spark lacks.
    """
    selection = Selection(snapshot, columns, where)
    call = Call(spark, table, access, None)
    return on_rows(call, WRITE, lambda session: program.load(session, selection), read_only=True)


def _change(call: Call, command: str, options: Any, *, dry_run: bool) -> Report:
    changing = {"dry_run": dry_run, "yes": True, "metadata_file": call.access.metadata_file}
    return run_command(call, command, {**_values(options), **changing})


def _values(options: Any) -> dict[str, Any]:
    return {entry.name: getattr(options, entry.name) for entry in fields(options)}
