"""`icectl runs`: show what earlier runs of maintenance did."""

from dataclasses import dataclass
from typing import Annotated

import typer

from icectl.cli.document import Outcome
from icectl.cli.options import Common, command, option
from icectl.cli.registry import load_run
from icectl.cli.settings import parse_count

RunTablesArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="TABLE...",
        help="tables, namespaces, folders, or globs over them: prod.sales.*, /wh/** (default: all)",
        show_default=False,
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunsRequest:
    """The options of `icectl runs`, as given."""

    since: Annotated[
        str | None,
        option(
            "--since", "only runs that began since: ISO 8601, or 7d for the last seven days",
            metavar="TIMESTAMP",
        ),
    ] = None  # fmt: skip
    failed: Annotated[bool, option("--failed", "only tables that did not end with exit code 0")] = (
        False
    )
    limit: Annotated[
        str | None,
        option("--limit", "rows to show (default 50)", metavar="N", parse=parse_count),
    ] = None


@command(
    "runs",
    examples=[
        ("icectl runs", "the newest first"),
        ("icectl runs prod.sales.orders --since 7d", "a week of one table"),
        ("icectl runs --failed --json", "what went wrong, for scripts"),
    ],
    exit_codes=(13,),
)
def runs(common: Common, tables: RunTablesArgument = None, *, request: RunsRequest) -> Outcome:
    """Show what `icectl maintain` and `icectl apply` did to each table, newest first.

    Each row is one table in one run. It shows when the run began, how the table ended and how long
    it took. It also shows what the steps did, with the exit codes of failed steps. Plans and checks
    are not recorded.

    The history is on this machine, in `~/.local/state/icectl/runs.jsonl` or in `state-dir` of
    icectl.toml(5). It keeps some 20,000 rows; the oldest are dropped. It holds names, counts and
    exit codes, but no messages. Lines that icectl did not write are skipped and counted.
    """
    return load_run("runs")(common, tables or [], request)
