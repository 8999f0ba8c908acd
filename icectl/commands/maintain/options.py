"""`icectl maintain`: do what many tables need, by a policy."""

from dataclasses import dataclass
from typing import Annotated

import typer

from icectl.cli.document import Outcome
from icectl.cli.options import (
    CHANGING,
    OUTPUT,
    RUNNING,
    CheckFormat,
    Common,
    SavePlan,
    SparkRun,
    command,
    option,
    option_of,
)
from icectl.cli.registry import load_run
from icectl.cli.settings import UNTRUSTED_POLICY, parse_count, parse_positive_size, parse_price
from icectl.commands.steps import STEPS
from icectl.errors import UsageError


def _parse_steps(text: str) -> tuple[str, ...]:
    """Read steps with commas between them."""
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    unknown = [name for name in names if name not in STEPS]
    if unknown or not names:
        what = f"`{unknown[0]}` is not a step" if unknown else "it names no step"
        raise UsageError(what, hint=f"steps: {', '.join(STEPS)}")
    return names


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintainRequest:
    """The options of `icectl maintain`, as given."""

    policy: Annotated[
        str | None,
        option("--policy", "rules for tables: `icectl man maintain.toml`", metavar="FILE"),
    ] = None
    untrusted_policy: Annotated[bool, option_of(UNTRUSTED_POLICY)] = False
    exclude: Annotated[
        list[str] | None, option("--exclude", "omit these tables; repeatable", metavar="GLOB")
    ] = None
    only: Annotated[
        str | None,
        option(
            "--only", "run only these steps", metavar="STEP,...", choices=STEPS, parse=_parse_steps
        ),
    ] = None
    explain: Annotated[
        bool, option("--explain", "print the policy of a table, each value with its origin")
    ] = False
    strict: Annotated[
        bool,
        option("--strict", "fail if a rule, `--exclude`, `--only` or budget matches nothing"),
    ] = False
    max_rewrite: Annotated[
        str | None,
        option(
            "--max-rewrite",
            "rewrite at most SIZE of data files in all tables together",
            metavar="SIZE",
            parse=parse_positive_size,
        ),
    ] = None
    max_price: Annotated[
        str | None,
        option(
            "--max-price",
            "spend at most N on all tables, by [prices] of icectl.toml",
            metavar="N",
            parse=parse_price,
        ),
    ] = None
    queries: Annotated[
        list[str] | None,
        option(
            "--queries",
            "query logs of Spark, Trino or Iceberg: how often tables are read",
            metavar="FILE",
        ),
    ] = None
    jobs: Annotated[
        str | None,
        option("--jobs -j", "tables at a time (default 1)", RUNNING, "N", parse=parse_count),
    ] = None
    json_lines: Annotated[
        bool, option("--json-lines", "print one JSON line per table as it finishes", OUTPUT)
    ] = False
    dry_run: Annotated[
        bool,
        option("--dry-run -n", "print the tables and what would be done, change nothing", CHANGING),
    ] = False
    check: Annotated[bool, option("--check", "plan only; exit 4 if there is work", CHANGING)] = (
        False
    )
    format: CheckFormat = None
    save_plan: SavePlan = None
    yes: Annotated[
        bool, option("--yes -y", "do not ask for confirmation (implied by --policy)", CHANGING)
    ] = False


@command(
    "maintain",
    examples=[
        ("icectl maintain 'prod.sales.*' --policy maintain.toml --time-limit 2h", "for cron"),
        ("icectl maintain '/wh/*/*' 's3://bucket/wh/**' --dry-run", "what would be done, and why"),
        ("icectl maintain prod --only expire-snapshots,remove-orphans --check", "for CI"),
        ("icectl maintain prod.sales.orders --policy maintain.toml --explain", "what holds for it"),
    ],
    exit_codes=(3, 4, 5, 10, 12, 13, 14),
)
def maintain(
    common: Common,
    tables: Annotated[
        list[str],
        typer.Argument(
            metavar="TARGET...",
            help="tables, catalogs, namespaces, folders, or globs over them: prod.sales.*, "
            "/wh/*/*, s3://bucket/wh/**",
            show_default=False,
        ),
    ],
    request: MaintainRequest,
    spark: SparkRun,
) -> Outcome:
    """Find tables, check what maintenance each one needs, and do it.

    A catalog, a namespace or a folder selects all tables in and below it. In a glob, `*` matches
    part of one name, `**` any number of names. Quote globs, or let the shell expand paths.

    The steps are expire-rows, erase, compact, rewrite-manifests, analyze, expire-snapshots and
    remove-orphans, in this order. Each has the plans, journals and refusals of its command. A step
    runs if the table's health requires it and the policy allows it. Each table is validated first;
    a table with errors has failed. A step that conflicts with another writer is tried again at the
    end. After an unknown outcome no further step touches the table. A failed table does not stop
    the others.

    Tables with the most to gain come first; with prices, those whose steps pay back first. A budget
    of the run (--max-rewrite, --max-price) goes to the steps that pay back first. The next run does
    what a budget, the time limit or a killed run leaves undone. It needs only the tables. The last
    search for orphans is recorded in the table property `icectl.maintain.last-orphan-scan`.

    A table whose property `icectl.maintain.enabled` is false is skipped. Two runs at the same time
    lose nothing.

    The exit status is the worst of all tables: 12 if an outcome is unknown, else 3 if anything
    failed, was refused or was not reached; with `--check` 4 if there is work, before 3.

    Without `--policy` and `--yes` it asks before anything is changed.

    Spark settings in a policy (`master`, `remote`, `spark-conf`) can start programs and send
    secrets. icectl uses them only if the caller or root owns the file, and no other user can write
    it; `--untrusted-policy` refuses them, and steps that delete rows. `--master`, `--remote` and
    `--spark-conf` take precedence.

    `--dry-run --save-plan FILE` saves the plans of all steps for review. `icectl apply FILE` then
    runs the first step of each table exactly. It runs the others only within what the file lists.
    """
    return load_run("maintain")(common, tables, request, spark)
