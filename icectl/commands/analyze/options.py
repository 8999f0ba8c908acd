"""`icectl analyze`: count the distinct values of columns for query planners."""

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
    TablesArgument,
    command,
    option,
)
from icectl.cli.settings import parse_positive_size
from icectl.commands.launch import run_on_each_table
from icectl.errors import UsageError
from icectl.units import parse_ratio

EVERY_COLUMN = "*"
"""What stands for all columns in `--columns`."""


def _parse_names(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not names:
        raise UsageError("it names no column")
    return names


def _parse_sample(text: str) -> float:
    ratio = parse_ratio(text)
    if not ratio:
        raise UsageError("it reads no file")
    return ratio


@dataclass(frozen=True, slots=True, kw_only=True)
class AnalyzeRequest:
    """The options of `icectl analyze`, as given."""

    columns: Annotated[
        str | None,
        option(
            "--columns",
            "only these columns, or `*` (default all without nested columns)",
            metavar="A,B",
            parse=_parse_names,
        ),
    ] = None
    max_column_bytes: Annotated[
        str | None,
        option(
            "--max-column-bytes",
            "without --columns, skip columns of more than SIZE in the data files",
            metavar="SIZE",
            parse=parse_positive_size,
        ),
    ] = None
    only: Annotated[
        str | None,
        option(
            "--only",
            "columns or partitions (default both)",
            metavar="WHAT",
            choices=("columns", "partitions"),
        ),
    ] = None
    refresh: Annotated[
        bool, option("--refresh", "only the columns and partitions that have statistics already")
    ] = False
    full: Annotated[bool, option("--full", "read all data files, not only new ones")] = False
    sample: Annotated[
        str | None,
        option(
            "--sample",
            "read this ratio of the data files if all would be read; the NDV is a lower bound",
            metavar="R",
            parse=_parse_sample,
        ),
    ] = None
    exact_deletes: Annotated[
        bool, option("--exact-deletes", "do not count values of deleted rows; reads all data files")
    ] = False
    max_removed: Annotated[
        str | None,
        option(
            "--max-removed",
            "read all data files if more than this ratio of rows was removed (default 20%)",
            metavar="R",
            parse=parse_ratio,
        ),
    ] = None
    branch: Annotated[
        str, option("--branch", "the branch to analyze (default main)", metavar="NAME")
    ] = "main"
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
    "analyze",
    examples=[
        ("icectl analyze /wh/db/t --dry-run", "which files would be read, and how many bytes"),
        ("icectl analyze /wh/db/t", "columns and partitions"),
        ("icectl analyze /wh/db/t --columns id,category", "the columns that queries join by"),
        ("icectl analyze /wh/db/t --max-column-bytes 1GiB", "all columns but large ones"),
        ("icectl analyze /wh/db/t --only partitions", "metadata alone: no data file is read"),
        ("icectl analyze /wh/db/t --sample 10%", "a tenth of the data files: lower bounds"),
        ("icectl analyze /wh/db/t --refresh", "update the statistics that the table has"),
        ("icectl analyze /wh/db/t --check", "for CI: exit 4 if statistics are out of date"),
    ],
    exit_codes=(3, 4, 5, 10, 11, 12, 13, 14, 15, 16),
    has_workers=True,
)
def analyze(
    common: Common, tables: TablesArgument, request: AnalyzeRequest, change: Change
) -> Outcome:
    """Compute the statistics of a table that query planners use.

    Spark and Trino order joins by the number of distinct values (NDV) of a column. A theta sketch
    estimates the NDV: exactly up to 4,096 values, above that within 3 percent in 19 of 20 cases.
    Sketches can be combined, so after an append only new data files are read. All data files are
    read if more than `--max-removed` of the rows were removed with their files.

    With `--sample`, icectl reads only some data files, evenly spread. Values in none of them do not
    count. Without `--sample`, `analyze` later reads all files of such columns. `--refresh` keeps to
    the sample.

    Values of deleted rows count as long as their data file is in the table, unless
    `--exact-deletes` is given. Empty strings do not count, as in Spark. Columns of structs, lists,
    maps, variants and shapes have no sketch.

    For each partition, `analyze` also writes the number of rows, files and deletes, from metadata
    alone.

    The commit adds statistics files to the metadata, but no snapshot. Rows and data files do not
    change. If the snapshot expires before the commit, the command exits with code 11.
    """
    return run_on_each_table("analyze")(common, tables, request, change)
