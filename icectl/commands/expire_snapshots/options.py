"""`icectl expire-snapshots`: drop old snapshots and the files that only they need."""

from dataclasses import dataclass
from typing import Annotated

from icectl.cli.document import Outcome
from icectl.cli.options import (
    POLICY,
    Change,
    Common,
    TablesArgument,
    command,
    option,
)
from icectl.commands.launch import run_on_each_table


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireRequest:
    """The options of `icectl expire-snapshots`, as given."""

    older_than: Annotated[
        str | None,
        option(
            "--older-than",
            group=POLICY,
            metavar="INSTANT",
            help="expire what is older: ISO 8601, or 7d for seven days ago",
        ),
    ] = None
    retain_last: Annotated[
        str | None,
        option("--retain-last", group=POLICY, metavar="N", help="keep the newest N of each branch"),
    ] = None
    keep_daily: Annotated[
        str | None,
        option("--keep-daily", group=POLICY, metavar="N", help="keep one a day, for N days"),
    ] = None
    keep_weekly: Annotated[
        str | None,
        option("--keep-weekly", group=POLICY, metavar="N", help="keep one a week, for N weeks"),
    ] = None
    keep_monthly: Annotated[
        str | None,
        option("--keep-monthly", group=POLICY, metavar="N", help="keep one a month, for N months"),
    ] = None
    expire_unreferenced: Annotated[
        bool,
        option("--expire-unreferenced", group=POLICY, help="young snapshots in no branch go too"),
    ] = False
    expire_id: Annotated[
        list[str] | None,
        option(
            "--expire-id",
            group=POLICY,
            metavar="ID",
            help="expire just this snapshot; repeatable, and without any of the options above",
        ),
    ] = None
    clean_expired_metadata: Annotated[
        bool,
        option("--clean-expired-metadata", help="drop schemas and specs that nothing uses"),
    ] = False
    keep_files: Annotated[
        bool, option("--keep-files", help="change the metadata, delete no file")
    ] = False


@command(
    "expire-snapshots",
    examples=[
        ("icectl expire-snapshots /wh/db/t --dry-run", "what the table's own policy would drop"),
        ("icectl expire-snapshots /wh/db/t --older-than 7d --retain-last 10 --yes", "for cron"),
        ("icectl expire-snapshots /wh/db/t --check", "for CI: exit 4 when there is work"),
    ],
    exit_codes=(3, 4, 5, 10, 11, 12, 13, 14, 15),
)
def expire_snapshots(
    common: Common,
    tables: TablesArgument,
    request: ExpireRequest,
    change: Change,
) -> Outcome:
    """Drop old snapshots and the files that only they need.

    Without options the table's retention properties and those of each branch and tag decide.
    Settings of a branch or tag always come first; options replace the table's properties. Every
    snapshot comes with the reason why it stays or goes.

    The metadata is committed first. Files are deleted after, and only those which the newest
    committed metadata does not reach. A run that was cut off is finished by the next one.
    """
    return run_on_each_table("expire_snapshots", asks=True)(common, tables, request, change)
