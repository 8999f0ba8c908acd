"""`icectl remove-orphans`: delete or move files that the table does not refer to."""

from dataclasses import dataclass
from typing import Annotated

from icectl.cli.document import Outcome
from icectl.cli.options import (
    ENGINE,
    Change,
    Common,
    DistrustSummaries,
    LeftoverUuids,
    SparkConf,
    SparkMaster,
    TablesArgument,
    command,
    option,
    option_of,
)
from icectl.cli.settings import (
    ORPHANS_MAX_FRACTION,
    ORPHANS_OLDER_THAN,
    ORPHANS_PURGE_AFTER,
    ORPHANS_QUARANTINE,
)
from icectl.commands.launch import run_on_each_table


@dataclass(frozen=True, slots=True, kw_only=True)
class OrphansRequest:
    """The options of `icectl remove-orphans`, as given."""

    older_than: Annotated[str | None, option_of(ORPHANS_OLDER_THAN)] = None
    location: Annotated[
        list[str] | None,
        option(
            "--location",
            "search only this folder of the table, its `write.data.path` or "
            "`write.metadata.path`; repeatable",
            metavar="URI",
        ),
    ] = None
    inventory: Annotated[
        str | None,
        option(
            "--inventory",
            "read the listing from a Parquet or CSV file, or the manifest.json of an S3 Inventory",
            metavar="FILE",
        ),
    ] = None
    quarantine: Annotated[str | None, option_of(ORPHANS_QUARANTINE)] = None
    purge_quarantine_after: Annotated[str | None, option_of(ORPHANS_PURGE_AFTER)] = None
    max_fraction: Annotated[str | None, option_of(ORPHANS_MAX_FRACTION)] = None
    distrust_summaries: DistrustSummaries = False
    allow_recent: Annotated[
        bool,
        option(
            "--allow-recent",
            "allow --older-than below 24h (only if no other writer is active)",
            is_rare=True,
        ),
    ] = False
    delete_outside: Annotated[
        bool,
        option(
            "--delete-outside",
            "remove orphans in a `--location` outside the table too",
            is_rare=True,
        ),
    ] = False
    equal_scheme: Annotated[
        list[str] | None,
        option(
            "--equal-scheme",
            "treat URI schemes A and B as equal; repeatable",
            metavar="A=B",
            is_rare=True,
        ),
    ] = None
    equal_authority: Annotated[
        list[str] | None,
        option(
            "--equal-authority",
            "bucket or host A is the same as B; repeatable",
            metavar="A=B",
            is_rare=True,
        ),
    ] = None
    prefix_mismatch: Annotated[
        str,
        option(
            "--prefix-mismatch",
            "for paths that differ only in the store: error (default) or ignore (keep the file)",
            metavar="MODE",
            is_rare=True,
            choices=("error", "ignore"),
        ),
    ] = "error"
    leftover_uuid: LeftoverUuids = None
    engine: Annotated[
        str,
        option(
            "--engine",
            "local (default) or spark, which lists files on workers",
            ENGINE,
            "ENGINE",
            is_rare=True,
            choices=("local", "spark"),
        ),
    ] = "local"
    master: SparkMaster = None
    spark_conf: SparkConf = None


@command(
    "remove-orphans",
    examples=[
        ("icectl remove-orphans /wh/db/t --dry-run", "every orphan with its bytes and time"),
        (
            "icectl remove-orphans s3://b/wh/t --quarantine s3://b/away --yes",
            "for cron: move orphans so they can be restored",
        ),
        (
            "icectl remove-orphans s3://b/t --inventory s3://inv/b/daily/manifest.json",
            "in a large bucket, by its S3 Inventory",
        ),
    ],
    exit_codes=(3, 4, 5, 10, 11, 13, 14, 15, 16),
)
def remove_orphans(
    common: Common, tables: TablesArgument, request: OrphansRequest, change: Change
) -> Outcome:
    """Delete or move files that the table does not refer to.

    icectl lists the files first and reads the metadata afterwards, so files committed since then
    are kept. It keeps files that any snapshot, log entry or statistics entry names, in any form of
    the name. It also keeps hidden files, recent files and journals. Hidden files of killed icectl
    runs are removed. Before each batch is deleted, its files and the newest metadata are checked
    again.

    With `--engine spark`, Spark workers list and compare the files below the first folders. This
    machine checks the result again and deletes the files. This needs `icectl[spark]` and Java 17 or
    newer; workers need icectl in their Python, and access to the storage. An inventory replaces the
    listing, so `--inventory` needs `--engine local`.

    With `--quarantine`, each run creates a folder there, with the files below `files/` and lists
    `moved-*.jsonl`. Each line has the old (`from`) and the new location (`to`) of a file. This
    command restores all files of a run (in S3, use `aws s3 mv` instead of `mv -n`):

    `cat RUN/moved-*.jsonl | jq -r '"mv -n \\(.to|@sh) \\(.from|@sh)"' | sh`

    `--purge-quarantine-after 30d` deletes what earlier runs on this table moved there 30 days ago.
    Each run lists its copies in `copied-*.jsonl`, with the table's UUID. Files that no such list
    names stay, and so do files that changed since.
    """
    return run_on_each_table("remove_orphans", asks=True)(common, tables, request, change)
