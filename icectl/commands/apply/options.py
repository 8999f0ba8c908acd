"""`icectl apply`: carry out a plan that was saved and reviewed."""

from dataclasses import dataclass
from typing import Annotated

import typer

from icectl.cli.document import Outcome
from icectl.cli.options import CHANGING, Common, DeletedList, SparkRun, command, option
from icectl.cli.registry import load_run

FileArgument = Annotated[
    str,
    typer.Argument(
        metavar="FILE", help="a plan saved with `--dry-run --save-plan`", show_default=False
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyRequest:
    """The options of `icectl apply`, as given."""

    allow_newer: Annotated[
        bool,
        option("--allow-newer", "if the table has changed: do the steps that still hold", CHANGING),
    ] = False
    dry_run: Annotated[
        bool, option("--dry-run -n", "print what would be done now, change nothing", CHANGING)
    ] = False
    deleted_list: DeletedList = None


@command(
    "apply",
    examples=[
        ("icectl apply plan.json", "run exactly this plan, or nothing"),
        ("icectl apply plan.json --dry-run", "check whether the plan still applies"),
        ("icectl apply plan.json --allow-newer", "after other writers changed the table"),
    ],
    exit_codes=(3, 5, 10, 11, 12, 13, 14, 15, 16),
)
def apply(common: Common, file: FileArgument, request: ApplyRequest, spark: SparkRun) -> Outcome:
    """Run a plan that was saved with `--dry-run --save-plan FILE`, without asking.

    icectl makes the plan again from the same options, settings, time and metadata file. It runs the
    plan only if both are the same. If the table has changed since, or the plan differs, nothing is
    done and the exit code is 11. If the plan file was edited, the exit code is 5.

    With `--allow-newer`, icectl plans from the table's current state, and does only what is also in
    the file: the snapshots, refs and files to delete, the files and manifests to rewrite, the
    steps.

    In a plan of `maintain`, the first step of each table runs exactly as planned; later steps run
    as with `--allow-newer`. If a table changed, or a step fails, the remaining steps of that table
    are skipped; other tables are not affected.

    A plan contains only options of its command. Give other options to `apply`: for reaching the
    table (`--storage-option`, `--catalog-option`, `--config`), for the run, and for Spark
    (`--master`, `--remote`, `--spark-conf`). A file with one of them is refused (exit 5). `--json`
    prints the document of the planned command.
    """
    return load_run("apply")(common, file, request, spark)
