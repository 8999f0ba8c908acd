"""`icectl compact`: rewrite small data files into larger ones, apply deletes."""

from dataclasses import dataclass
from functools import partial
from typing import Annotated

from icectl.cli.document import Outcome
from icectl.cli.options import (
    CHANGING,
    ENGINE,
    FILES,
    OUTPUT_FILES,
    Change,
    Common,
    SparkConf,
    SparkMaster,
    SparkRemote,
    TablesArgument,
    command,
    option,
    option_of,
)
from icectl.cli.settings import (
    COMPACT_ENGINE,
    COMPACT_MERGE_ROW_GROUP,
    COMPACT_METHOD,
    COMPACT_VERIFY,
    parse_count,
    parse_positive_size,
    parse_whole_number,
)
from icectl.commands.launch import run_on_each_table
from icectl.errors import UsageError
from icectl.units import parse_ratio

_count = partial(option, metavar="N", parse=parse_count)
_number = partial(option, metavar="N", parse=parse_whole_number)
_size = partial(option, metavar="SIZE", parse=parse_positive_size)


def _parse_delete_ratio(text: str) -> float:
    ratio = parse_ratio(text)
    if ratio <= 0:
        raise UsageError("it is 0: every file would be rewritten again and again")
    return ratio


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactRequest:
    """The options of `icectl compact`, as given."""

    where: Annotated[
        str | None,
        option("--where", "select files that may have rows matching EXPR", FILES, "EXPR"),
    ] = None
    target_file_size: Annotated[
        str | None,
        _size("--target-file-size", "size of new files (default the table's)", OUTPUT_FILES),
    ] = None
    sort_order: Annotated[
        str | None,
        option("--sort-order", 'sort keys, as in "day(at), id desc"', OUTPUT_FILES, "KEYS"),
    ] = None
    zorder: Annotated[
        str | None,
        option("--zorder", "columns to cluster by, with equal weight", OUTPUT_FILES, "A,B"),
    ] = None
    strategy: Annotated[
        str | None,
        option(
            "--strategy",
            "binpack (default), auto, sort, zorder or hilbert",
            OUTPUT_FILES,
            "S",
            is_rare=True,
            choices=("binpack", "auto", "sort", "zorder", "hilbert"),
        ),
    ] = None
    method: Annotated[str | None, option_of(COMPACT_METHOD, group=OUTPUT_FILES)] = None
    merge_row_group: Annotated[
        str | None, option_of(COMPACT_MERGE_ROW_GROUP, group=OUTPUT_FILES, is_rare=True)
    ] = None
    verify: Annotated[str | None, option_of(COMPACT_VERIFY, group=CHANGING, is_rare=True)] = None
    deletes_only: Annotated[
        bool, option("--deletes-only", "convert and merge deletes; keep data files", FILES)
    ] = False
    rewrite_all: Annotated[bool, option("--rewrite-all", "rewrite every selected file", FILES)] = (
        False
    )
    repartition: Annotated[
        bool,
        option(
            "--repartition",
            "move rows to the partitions of their values",
            OUTPUT_FILES,
            is_rare=True,
        ),
    ] = False
    min_depth: Annotated[
        str | None,
        _count(
            "--min-depth",
            "sort where N or more files overlap (default 2)",
            FILES,
            is_rare=True,
        ),
    ] = None
    max_rewrite: Annotated[
        str | None,
        _size("--max-rewrite", "rewrite at most SIZE of data files", CHANGING, is_rare=True),
    ] = None
    sort_ratio: Annotated[
        str | None,
        _count(
            "--sort-ratio",
            "sort newer files with older ones of up to N times their rows (default 8)",
            CHANGING,
            is_rare=True,
        ),
    ] = None
    max_groups: Annotated[
        str | None, _count("--max-groups", "rewrite at most N groups", CHANGING, is_rare=True)
    ] = None
    partial_progress: Annotated[
        str | None,
        _count("--partial-progress", "commit in up to N steps (default 1)", CHANGING, is_rare=True),
    ] = None
    branch: Annotated[
        str,
        option("--branch", "the branch to work on (default main)", CHANGING, "NAME", is_rare=True),
    ] = "main"
    max_failed_commits: Annotated[
        str | None,
        _number(
            "--max-failed-commits", "commits that may conflict (default 0)", CHANGING, is_rare=True
        ),
    ] = None
    engine: Annotated[str | None, option_of(COMPACT_ENGINE, group=ENGINE)] = None
    min_input_files: Annotated[
        str | None,
        _count(
            "--min-input-files", "skip partitions with fewer files (default 5)", FILES, is_rare=True
        ),
    ] = None
    min_delete_ratio: Annotated[
        str | None,
        option(
            "--min-delete-ratio",
            "rewrite files with this ratio of deleted rows or more (default 30%)",
            FILES,
            "R",
            is_rare=True,
            parse=_parse_delete_ratio,
        ),
    ] = None
    min_delete_files: Annotated[
        str | None,
        _count(
            "--min-delete-files",
            "rewrite data files with N delete files or more (default 5)",
            FILES,
            is_rare=True,
        ),
    ] = None
    min_file_size: Annotated[
        str | None,
        _size(
            "--min-file-size", "rewrite smaller files (default 75% of target)", FILES, is_rare=True
        ),
    ] = None
    max_file_size: Annotated[
        str | None,
        _size(
            "--max-file-size", "split larger files (default 180% of target)", FILES, is_rare=True
        ),
    ] = None
    max_group_size: Annotated[
        str | None,
        _size(
            "--max-group-size", "bytes committed together (default 100GiB)", CHANGING, is_rare=True
        ),
    ] = None
    job_order: Annotated[
        str,
        option(
            "--job-order",
            "none (default), bytes-asc, bytes-desc, files-asc or files-desc",
            CHANGING,
            "ORDER",
            is_rare=True,
            choices=("none", "bytes-asc", "bytes-desc", "files-asc", "files-desc"),
        ),
    ] = "none"
    output_spec_id: Annotated[
        str | None,
        _number(
            "--output-spec-id",
            "partition spec of new files (default current)",
            OUTPUT_FILES,
            is_rare=True,
        ),
    ] = None
    master: SparkMaster = None
    remote: SparkRemote = None
    spark_conf: SparkConf = None


@command(
    "compact",
    examples=[
        ("icectl compact /wh/db/t --dry-run", "what would be rewritten, and why"),
        ("icectl compact /wh/db/t --where \"day >= '2024-01-01'\"", "recent days"),
        ('icectl compact /wh/db/t --sort-order "day(at), id desc"', "sort the rows"),
        ("icectl compact /wh/db/t --max-groups 20 --partial-progress 5", "a part of the work"),
        ("icectl compact /wh/db/t --deletes-only", "convert and merge deletes, keep data files"),
        ("icectl compact /wh/db/t --engine local", "never on Spark"),
        ("icectl compact /wh/db/t --check", "for CI: exit 4 if there is work"),
    ],
    exit_codes=(3, 4, 5, 10, 11, 12, 13, 14, 15, 16),
    has_workers=True,
)
def compact(
    common: Common, tables: TablesArgument, request: CompactRequest, change: Change
) -> Outcome:
    """Rewrite data files that are small, too large or have many deleted rows.

    Files are grouped by partition, as Spark's rewrite_data_files does, and combined to the target
    size. Deletes are applied, and files of older partition specs move to the current one. The same
    commit removes delete files and deletion vectors that no longer apply. A second run does
    nothing: it skips files at the target size, and files that a run with the same settings wrote.
    Old files stay until their snapshots expire. New data files are Parquet.

    For named tables icectl asks no question, since no row can be lost; `--yes` is accepted anyway.
    It asks before it changes tables that match a glob.

    Rows keep their order. `--strategy sort` sorts the rows of a group as a whole by the table's
    sort order. `--strategy auto` does so if the table has one. `--sort-order` and `--zorder` give
    another order. Keys are columns or bucket(16, b), truncate(4, b), year, month, day, hour of
    them; nulls come first in ascending keys, last in descending ones. New files are marked as
    sorted if the order is one of the table's.

    Then files that overlap in the order are sorted, too, whatever their size: similar ones
    together, and smaller ones with larger ones once they have an eighth of the rows there. Others
    stay, so a run rewrites a part of a partition. `--sort-ratio` sets another part than an eighth:
    a larger N rewrites more, and a value is in fewer files. `--min-depth` requires deeper overlaps.
    `--max-rewrite` limits the bytes of a run; the next runs continue. Bounds do not show a curve,
    so all files of an earlier run count as one. `--rewrite-all` sorts every selected file.

    `--where` selects files, never rows: those that may hold a row for which EXPR is true, by their
    partition and column statistics. Manifests that can list no such file are not opened, and delete
    files that may apply to other files stay. EXPR has comparisons, `in`, `between`, `is null`, `is
    nan`, `like 'text%'`, `day(column)`, `and`, `or`, `not` and parentheses. Put strings and times
    in single quotes, and names with special characters in backticks.

    Files whose row groups are large (half of them `--merge-row-group` or more) are merged if
    possible: their row groups are concatenated, not decoded. That takes about as long as copying
    the files. Rows keep their order; pages, statistics, page indexes and Bloom filters do not
    change. Position deletes become deletes of the new file; so do rows that equality deletes
    remove. Row groups without a live row are omitted. Merged files need the same writer and
    partition spec, columns stored in the same way, and few deletes (`--min-delete-ratio`,
    `--min-delete-files`). Columns that some of them lack are null there. `--method merge` skips all
    others, `--method rewrite` merges none. A merge checks every page, with its checksum if it has
    one. It compares the bytes of the new file with those that were read. With `--verify rows` all
    rows are decoded and compared too.

    Data files with `--min-delete-files` delete files or more are rewritten. If these are equality
    deletes of few rows (fewer than `--min-delete-ratio`, as estimated), they are converted instead.
    They become deletion vectors in version 3 and later, and position deletes in version 2. icectl
    reads only the key columns of data files that may have one of the keys. It does this after small
    files were merged, in another commit.

    With `--deletes-only` only deletes are rewritten, all of them; data files do not change. With
    `--partial-progress` the oldest deletes are converted first, partition by partition. Up to
    version 2, `--min-delete-files` (default 2) or more position delete files of a data file are
    merged into one. In version 3 and later, position deletes become deletion vectors, and
    `--min-input-files` or more small Puffin files are merged. Sizes apply to delete files (default
    write.delete.target-file-size-bytes). Position deletes are merged in one local process unless
    `--engine spark` is given.

    Before the commit, icectl compares the rows of each new file with those that were read. New
    files keep the sequence number that the run started from, so rows that are deleted concurrently
    stay deleted. If other writers delete rows by position or remove files, the same commit deletes
    these rows in the new files. This works in version 2 and later, for sorted rows in version 3 and
    later. It does not work if a rewrite applied equality deletes, moved rows to another partition
    or split a file. Groups that another writer changed are then dropped. So are groups that lost
    half of their rows (exit 3, or 11 if no group is left).

    With `--engine auto`, icectl rewrites 1 GiB or more on Spark. This needs PySpark
    (`icectl[spark]`) and Java 17 or newer. Without `--master`, Spark runs on the cores of this
    machine. Local processes rewrite less than that. icectl prints the engine before work begins. A
    cluster's workers need access to the storage. They also need icectl in their Python, from an
    image or an archive (`--spark-conf spark.archives=icectl.tar.gz#env`, and
    `PYSPARK_PYTHON=env/bin/python`). With `--remote`, icectl uploads itself to the Spark Connect
    server. `--engine local` needs none of this.
    """
    return run_on_each_table("compact")(common, tables, request, change)
