"""`icectl inspect`: what a table is, what it holds, and what it needs."""

from dataclasses import dataclass
from typing import Annotated

import typer

from icectl.cli.document import Outcome
from icectl.cli.options import OUTPUT, Common, command, option
from icectl.cli.registry import load_run
from icectl.cli.settings import parse_count

_VIEWS = (
    "summary", "health", "snapshots", "history", "refs", "manifests", "files", "entries",
    "partitions", "deletes", "schemas", "specs", "sort-orders", "properties", "metadata-log",
    "statistics", "clustering", "advice", "matches", "tree", "changes", "erasures",
)  # fmt: skip
"""For completion, which must not import what shows them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewRequest:
    """The options of `icectl inspect`, as given."""

    snapshot: Annotated[str | None, option("--snapshot", "show this snapshot", metavar="ID")] = None
    ref: Annotated[
        str | None, option("--ref", "show the head of this branch or tag", metavar="NAME")
    ] = None
    as_of: Annotated[
        str | None,
        option(
            "--as-of",
            "show the snapshot that was current then: ISO 8601, or 2d for two days ago",
            metavar="TIMESTAMP",
        ),
    ] = None
    all_snapshots: Annotated[
        bool, option("--all-snapshots", "manifests, files, entries: of every snapshot together")
    ] = False
    content: Annotated[
        str | None,
        option(
            "--content",
            "manifests, files, entries: data or deletes",
            metavar="WHICH",
            choices=("data", "deletes"),
        ),
    ] = None
    where: Annotated[
        str | None,
        option(
            "--where",
            "manifests, files, entries, matches: only what may have rows matching EXPR",
            metavar="EXPR",
        ),
    ] = None
    from_: Annotated[
        str | None,
        option("--from", "changes: the earlier one (default the parent)", metavar="ID"),
    ] = None
    to: Annotated[
        str | None,
        option("--to", "changes: the later one (default the current)", metavar="ID"),
    ] = None
    columns: Annotated[
        str | None,
        option(
            "--columns",
            "show or judge these columns; A.B is a field",
            metavar="NAME,...",
        ),
    ] = None
    queries: Annotated[
        list[str] | None,
        option(
            "--queries",
            "advice: query logs of Spark, Trino or Iceberg",
            metavar="FILE",
        ),
    ] = None
    queries_table: Annotated[
        str | None,
        option(
            "--queries-table",
            "advice: the table's name in these logs",
            metavar="NAME",
            is_rare=True,
        ),
    ] = None
    limit: Annotated[
        str | None,
        option(
            "--limit",
            "at most N rows, the newest of a log; clustering: N partitions (default 10); "
            "tree: N files a manifest (default 20)",
            metavar="N",
            parse=parse_count,
        ),
    ] = None
    format: Annotated[
        str | None,
        option(
            "--format",
            "text (default), json, jsonl, csv; tree: mermaid too; health --check: github, "
            "junit, sarif",
            OUTPUT,
            "FORMAT",
            choices=("text", "json", "jsonl", "csv", "mermaid", "github", "junit", "sarif"),
            parse=str,
        ),
    ] = None
    check: Annotated[
        bool,
        option("--check", "health: exit 4 for attention; matches: if any"),
    ] = False
    fail_on: Annotated[
        str | None,
        option(
            "--fail-on",
            "health: exit 4 at attention or only at critical",
            metavar="VERDICT",
            choices=("attention", "critical"),
        ),
    ] = None
    html: Annotated[
        str | None, option("--html", "tree, health: write one HTML page to FILE", OUTPUT, "FILE")
    ] = None


@command(
    "inspect",
    examples=[
        ("icectl inspect /wh/db/t", "the table and its counts"),
        ("icectl inspect /wh/db/t health", "what maintenance it needs"),
        ("icectl inspect 'prod.**' health --html health.html", "a page of all tables by need"),
        ("icectl inspect prod.db.t health --fail-on critical", "for CI: exit 4 if it is bad"),
        ("icectl inspect /wh/db/t clustering --columns at", "how well files are sorted"),
        ("icectl inspect prod.db", "the tables in a namespace of catalog prod"),
        ("icectl inspect s3://b/t files --ref audit --format csv", "live files of a branch"),
        ("icectl inspect /wh/db/t snapshots --limit 5 --json", "the newest five, for scripts"),
    ],
    exit_codes=(3, 4, 5, 10, 13, 14, 15),
    choices={"view": _VIEWS},
)
def inspect(
    common: Common,
    table: Annotated[
        str | None,
        typer.Argument(
            metavar="TABLE",
            help="table directory (path or URI), one of its metadata files, or "
            "CATALOG.NAMESPACE.TABLE; --catalog without it means the whole catalog",
            show_default=False,
        ),
    ] = None,
    view: Annotated[
        str,
        typer.Argument(
            metavar="VIEW",
            help=f"{_VIEWS[0]} (default), {', '.join(_VIEWS[1:8])}; {', '.join(_VIEWS[8:])}",
            show_default=False,
        ),
    ] = "summary",
    more: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="...",
            help="health: the view comes after all tables, as in `TABLE TABLE health`",
            show_default=False,
        ),
    ] = None,
    *,
    request: ViewRequest,
) -> Outcome:
    """Show a table's state, contents, history and health.

    VIEW is one of: summary (the default), health, snapshots, history, refs, manifests, files,
    entries, partitions and deletes; schemas, specs, sort-orders, properties, metadata-log and
    statistics; clustering, advice, matches, tree, changes and erasures. Views of files show the
    current snapshot unless another is chosen.

    For a catalog, a namespace or a folder, icectl lists the tables in and below it, from their
    metadata alone; --limit, --columns and --format apply to that list.

    --where chooses files by partitions and column metrics, as `compact --where` does; a file
    without the metrics is shown. Only manifests that may list such files are read. Delete files
    are chosen by their partition.

    The view deletes shows by partition what readers compare for equality deletes: the keys, counted
    for each data file that they apply to, and the rows of these files.

    The view clustering shows by column how many files hold a value: the depth, in the table and in
    each partition. It also shows how many files a look-up and a 1% range open. It shows the keys of
    the sort order, or the columns of --columns; all columns if the table has no sort order.

    The view advice shows what queries cost with the current layout, and with others: sorted, in
    Hilbert order, partitioned, with Bloom filters. Queries come from --queries, or are a look-up by
    each of --columns. Each advice shows its cost, its savings and its command.

    The view matches reads the files of all snapshots that may have a row matching --where. It lists
    those that do, with their snapshots. Deleted rows count as long as their data file exists, and
    so do the keys of equality deletes.

    The view health accepts many tables: a catalog, a namespace, a folder, a glob such as
    prod.sales.* or /wh/*/*, or several names. Tables with the most need come first; --html writes
    one page. --check and --fail-on use the worst verdict.

    Nothing is changed. A directory that belongs to a catalog can be read too: icectl treats the
    newest metadata file as current.
    """
    return load_run("inspect")(common, table, view, request, more or ())
