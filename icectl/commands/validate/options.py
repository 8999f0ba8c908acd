"""`icectl validate`: check a table against the rules of the format."""

from dataclasses import dataclass
from typing import Annotated

from icectl.cli.document import Outcome
from icectl.cli.options import (
    FORMATS,
    OUTPUT,
    Common,
    SparkConf,
    SparkMaster,
    SparkRemote,
    TablesArgument,
    command,
    option,
    option_of,
)
from icectl.cli.settings import VALIDATE_FAIL_ON, VALIDATE_LEVEL
from icectl.commands.launch import run_on_each_table
from icectl.units import parse_ratio


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidateRequest:
    """The options of `icectl validate`, as given."""

    level: Annotated[str | None, option_of(VALIDATE_LEVEL)] = None
    snapshot: Annotated[
        str | None, option("--snapshot", metavar="ID", help="check this snapshot")
    ] = None
    ref: Annotated[
        str | None, option("--ref", metavar="NAME", help="check the head of this branch or tag")
    ] = None
    all_snapshots: Annotated[
        bool, option("--all-snapshots", help="check every snapshot of the table")
    ] = False
    where: Annotated[
        str | None,
        option("--where", metavar="EXPR", help="check only files that may have rows matching EXPR"),
    ] = None
    sample: Annotated[
        str | None,
        option(
            "--sample",
            metavar="R",
            parse=parse_ratio,
            help="check a random part of the files: 0.05 or 5%",
        ),
    ] = None
    rule: Annotated[
        list[str] | None,
        option("--rule", metavar="ID", help="report findings of this rule only; repeatable"),
    ] = None
    skip: Annotated[
        list[str] | None,
        option("--skip", metavar="ID", help="report no findings of this rule; repeatable"),
    ] = None
    engine: Annotated[
        str,
        option(
            "--engine",
            metavar="ENGINE",
            choices=("local", "spark"),
            help="engine that reads data files: local (default) or spark",
        ),
    ] = "local"
    master: SparkMaster = None
    remote: SparkRemote = None
    spark_conf: SparkConf = None
    fail_on: Annotated[str | None, option_of(VALIDATE_FAIL_ON)] = None
    format: Annotated[
        str | None,
        option(
            "--format",
            group=OUTPUT,
            metavar="FORMAT",
            choices=FORMATS,
            parse=str,
            help="text (default), json, or for CI: github, junit, sarif",
        ),
    ] = None


@command(
    "validate",
    examples=[
        ("icectl validate /wh/db/t", "check the metadata, and that every file exists"),
        (
            "icectl validate /wh/db/t --level data --all-snapshots",
            "check everything, down to each row",
        ),
        ("icectl validate s3://b/t --level metadata --fail-on warning", "quick and strict, for CI"),
        ("icectl validate /wh/db/t --format sarif", "findings for code scanning"),
        ("icectl validate /wh/db/t --level data --sample 5% --json", "a different 5% every night"),
        (
            "icectl validate /wh/db/t --level data --where \"day >= '2024-01-01'\"",
            "every row of recent days",
        ),
        ("icectl validate /wh/db/t --level data --engine spark --master yarn", "on a cluster"),
    ],
    exit_codes=(3, 4, 5, 10, 13, 14, 15, 16),
    has_workers=True,
)
def validate(common: Common, tables: TablesArgument, request: ValidateRequest) -> Outcome:
    """Check a table against the rules of the format.

    Level metadata checks the table metadata, manifest lists and manifests against each other and
    against the rules of the format. Level files also checks that each file exists with its recorded
    size. Level footers also checks files by their footers, and reads rows if footers are not
    enough: counts, bounds, partition values, deletes, row ids. Level data decodes every column of
    every row, and compares footers and manifests with the rows.

    icectl checks the current snapshot unless you choose others. Nothing is changed. A damaged
    manifest is reported, and the check continues. Each finding has its rule, severity, object and
    next step. With any error the exit code is 4.

    `--where` takes the conditions of `icectl man compact`. icectl checks the metadata and the
    manifest list or root completely. It then reads only manifests that may list matching files. The
    report counts what was not read. Rules that need every file of a snapshot are not checked.

    With `--engine spark`, Spark workers read data files and equality deletes at levels footers and
    data, with the same findings. They need icectl (see `icectl man compact`).
    """
    return run_on_each_table("validate")(common, tables, request)
