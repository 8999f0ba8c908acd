"""`icectl expire-snapshots`: drop old snapshots and the files that only they need."""

from dataclasses import dataclass
from typing import Annotated

from icectl.cli.document import Outcome
from icectl.cli.options import (
    POLICY,
    Change,
    Common,
    DistrustSummaries,
    LeftoverUuids,
    TablesArgument,
    command,
    option,
    option_of,
)
from icectl.cli.settings import (
    EXPIRE_CLEAN_METADATA,
    EXPIRE_KEEP_DAILY,
    EXPIRE_KEEP_MONTHLY,
    EXPIRE_KEEP_WEEKLY,
    EXPIRE_MIN_AGE,
    EXPIRE_OLDER_THAN,
    EXPIRE_RETAIN_LAST,
)
from icectl.commands.launch import run_on_each_table
from icectl.errors import UsageError
from icectl.units import read_count


def _parse_id(text: str) -> int:
    snapshot_id = read_count(text)
    if snapshot_id is None:
        hint = "`icectl inspect TABLE snapshots` lists them"
        raise UsageError(f"`{text}` is not a snapshot id", hint=hint)
    return snapshot_id


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireRequest:
    """The options of `icectl expire-snapshots`, as given."""

    older_than: Annotated[str | None, option_of(EXPIRE_OLDER_THAN, group=POLICY)] = None
    retain_last: Annotated[str | None, option_of(EXPIRE_RETAIN_LAST, group=POLICY)] = None
    keep_daily: Annotated[str | None, option_of(EXPIRE_KEEP_DAILY, group=POLICY)] = None
    keep_weekly: Annotated[str | None, option_of(EXPIRE_KEEP_WEEKLY, group=POLICY)] = None
    keep_monthly: Annotated[str | None, option_of(EXPIRE_KEEP_MONTHLY, group=POLICY)] = None
    expire_unreferenced: Annotated[
        bool,
        option(
            "--expire-unreferenced",
            "also expire recent snapshots that no branch or tag reaches",
            POLICY,
        ),
    ] = False
    expire_id: Annotated[
        list[str] | None,
        option(
            "--snapshot-id",
            "expire only this snapshot (repeatable; not with the options above)",
            POLICY,
            "ID",
            parse=_parse_id,
            former="--expire-id",
        ),
    ] = None
    min_age: Annotated[str | None, option_of(EXPIRE_MIN_AGE, group=POLICY)] = None
    clean_expired_metadata: Annotated[bool, option_of(EXPIRE_CLEAN_METADATA)] = False
    distrust_summaries: DistrustSummaries = False
    keep_files: Annotated[
        bool,
        option(
            "--metadata-only", "change only the metadata; delete no file", former="--keep-files"
        ),
    ] = False
    leftover_uuid: LeftoverUuids = None


@command(
    "expire-snapshots",
    examples=[
        ("icectl expire-snapshots /wh/db/t --dry-run", "what the table's own policy would drop"),
        ("icectl expire-snapshots /wh/db/t --older-than 7d --retain-last 10 --yes", "for cron"),
        ("icectl expire-snapshots /wh/db/t --check", "for CI: exit 4 if there is work"),
    ],
    exit_codes=(3, 4, 5, 10, 11, 12, 13, 14, 15),
)
def expire_snapshots(
    common: Common, tables: TablesArgument, request: ExpireRequest, change: Change
) -> Outcome:
    """Drop old snapshots and the files that only they need.

    Without options, the retention properties of the table and of each branch and tag decide.
    Settings of a branch or tag take precedence; options replace the table's properties. The plan
    lists every snapshot with the reason why it is kept or expires.

    icectl commits the metadata first. Afterwards it deletes only files that the newest committed
    metadata does not reach. The next run finishes an interrupted run.
    """
    return run_on_each_table("expire_snapshots", asks=True)(common, tables, request, change)
