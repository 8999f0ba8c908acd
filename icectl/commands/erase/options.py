"""`icectl erase`: erase rows from all snapshots of a table, and look whether they are gone."""

from dataclasses import dataclass
from typing import Annotated

from icectl.cli.document import Outcome
from icectl.cli.options import (
    ENGINE,
    Change,
    Common,
    SparkConf,
    SparkMaster,
    SparkRemote,
    TableArgument,
    command,
    option,
    option_of,
)
from icectl.cli.registry import load_run
from icectl.cli.settings import ERASE_KEY_COLUMNS, ERASE_KEYS, parse_count
from icectl.units import parse_ratio


@dataclass(frozen=True, slots=True, kw_only=True)
class EraseRequest:
    """The options of `icectl erase`, as given."""

    where: Annotated[
        str | None,
        option("--where", 'erase rows with EXPR, as in "id = 4711"', metavar="EXPR"),
    ] = None
    keys: Annotated[str | None, option_of(ERASE_KEYS)] = None
    key_columns: Annotated[str | None, option_of(ERASE_KEY_COLUMNS)] = None
    digest_key: Annotated[
        str | None,
        option(
            "--digest-key",
            "report a digest of the keys that only holders of the secret in FILE can compute",
            metavar="FILE",
        ),
    ] = None
    expire_history: Annotated[
        bool,
        option("--expire-history", "expire snapshots that name files with such rows"),
    ] = False
    drop_tags: Annotated[
        list[str] | None,
        option(
            "--drop-tags",
            "drop tags on such snapshots by name or pattern; repeatable",
            metavar="PATTERN",
        ),
    ] = None
    delete_versions: Annotated[
        bool,
        option("--delete-versions", "also delete previous versions of what it deletes, in S3"),
    ] = False
    max_fraction: Annotated[
        str | None,
        option(
            "--max-fraction",
            "refuse to erase more than this ratio of a branch's rows (default 5%)",
            metavar="R",
            parse=parse_ratio,
        ),
    ] = None
    rounds: Annotated[
        str | None,
        option(
            "--rounds",
            "rounds of searching for rows that others add (default 3)",
            metavar="N",
            parse=parse_count,
        ),
    ] = None
    report: Annotated[
        str | None, option("--report", "write the report to FILE, as JSON", metavar="FILE")
    ] = None
    sign_key: Annotated[
        str | None,
        option(
            "--sign-key",
            "sign the report with the Ed25519 key in FILE (PEM), beside it as .sig",
            metavar="FILE",
        ),
    ] = None
    verify: Annotated[
        bool, option("--verify", "only look for such rows; exit 4 if any is left")
    ] = False
    engine: Annotated[
        str,
        option(
            "--engine",
            "auto (default), local, or spark for 1 GiB or more",
            ENGINE,
            "ENGINE",
            choices=("auto", "local", "spark"),
        ),
    ] = "auto"
    master: SparkMaster = None
    remote: SparkRemote = None
    spark_conf: SparkConf = None


@command(
    "erase",
    examples=[
        ('icectl erase /wh/db/t --where "id = 4711" --dry-run', "what holds such rows"),
        (
            'icectl erase /wh/db/t --where "id = 4711" --expire-history --yes',
            "from the branches and the history",
        ),
        (
            "icectl erase /wh/db/t --keys gone.csv --key-columns id --dry-run",
            "rows with one of many keys",
        ),
        ('icectl erase /wh/db/t --where "id = 4711" --verify', "exit 4 if any is left"),
    ],
    exit_codes=(3, 4, 5, 10, 11, 12, 13, 14, 15, 16),
    has_workers=True,
)
def erase(common: Common, table: TableArgument, request: EraseRequest, change: Change) -> Outcome:
    """Erase rows from the branches of a table and from its history.

    On each branch, icectl rewrites data files without these rows, also rows that a delete hides. It
    converts equality deletes with such keys to position deletes. It rewrites manifests that still
    name a replaced file and its bounds.

    With --expire-history, icectl expires snapshots that name such files, and deletes the files.
    --drop-tags also drops tags on them. Without these options, icectl rewrites only the branches,
    lists what still has rows, and exits with code 3.

    After the last commit, icectl checks each snapshot and each file under the table's location
    again. It lists those that may still have a row (exit 3). --verify only checks, without relying
    on an earlier run (exit 4).

    icectl erases a row only if EXPR is true for it. No plan, log or journal has the keys. If more
    than --max-fraction of a branch's rows match, icectl erases nothing (exit 5).

    In S3, icectl lists previous versions of objects. --delete-versions deletes those of files that
    the run deletes. icectl does not check backups, or copies elsewhere.
    """
    return load_run("erase")(common, table, request, change)
