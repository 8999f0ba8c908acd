"""`icectl expire-rows`: delete expired rows."""

from dataclasses import dataclass
from typing import Annotated

from icectl.cli.document import Outcome
from icectl.cli.options import Change, Common, TablesArgument, command, option
from icectl.commands.launch import run_on_each_table
from icectl.units import parse_ratio


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireRowsRequest:
    """The options of `icectl expire-rows`, as given."""

    where: Annotated[
        str | None,
        option(
            "--where",
            "delete rows matching EXPR, as in \"at < 'now - 30d'\" (default: icectl.ttl.column "
            "older than icectl.ttl.age)",
            metavar="EXPR",
        ),
    ] = None
    yes_any_filter: Annotated[
        bool, option("--yes-any-filter", "allow a filter that need not be about the past")
    ] = False
    method: Annotated[
        str,
        option(
            "--method",
            "deletes (default: deletion vectors, in version 2 position deletes) or rewrite",
            metavar="METHOD",
            choices=("deletes", "rewrite"),
        ),
    ] = "deletes"
    verify: Annotated[
        str,
        option(
            "--verify",
            "verify files before dropping them by footers (default) or rows",
            metavar="BY",
            choices=("footers", "rows"),
        ),
    ] = "footers"
    max_fraction: Annotated[
        str | None,
        option(
            "--max-fraction",
            "refuse to delete more than this ratio of the rows (default 20%)",
            metavar="R",
            parse=parse_ratio,
        ),
    ] = None
    branch: Annotated[
        str, option("--branch", "the branch to delete rows of (default main)", metavar="NAME")
    ] = "main"


@command(
    "expire-rows",
    examples=[
        (
            "icectl expire-rows /wh/db/t --where \"at < 'now - 1825d'\" --dry-run",
            "what would be deleted",
        ),
        ("icectl expire-rows /wh/db/t --where \"at < 'now - 1825d'\"", "rows older than 5 years"),
        ("icectl expire-rows /wh/db/t --where \"at < '2019-01-01'\" --check", "exit 4 if any"),
        ("icectl expire-rows /wh/db/t --where \"at < '2019-01-01'\" --method rewrite", "new files"),
    ],
    exit_codes=(3, 4, 5, 10, 11, 12, 13, 14, 15, 16),
    has_workers=True,
)
def expire_rows(
    common: Common, tables: TablesArgument, request: ExpireRowsRequest, change: Change
) -> Outcome:
    """Delete old rows of a table: those that match a filter about the past.

    Without --where, icectl deletes the rows whose column `icectl.ttl.column` is older than
    `icectl.ttl.age`; both are table properties.

    If partitions and bounds prove that all rows of a file match, icectl drops the file by metadata
    alone. The footer must prove it too; otherwise icectl reads the file's rows. In other files that
    may have a matching row, it reads the columns of the filter. It deletes matching rows by
    deletion vectors (version 3), by position deletes (version 2), or by rewriting their files.

    A row is deleted only if the filter is true for it: nulls stay, and NaN is greater than every
    number. Times are in UTC; a timestamp without a time zone is read as UTC. Rows that were deleted
    before do not count.

    The filter must be about the past: each matching row has a date or timestamp before now. Other
    filters need --yes-any-filter. If more than --max-fraction of the rows match, nothing is deleted
    (exit 5).

    Older snapshots, tags and other branches still have the rows, and their files stay on disk until
    `icectl expire-snapshots` removes them.
    """
    return run_on_each_table("expire_rows")(common, tables, request, change)
