"""`icectl apply`: carry out a plan that was saved and reviewed."""

from dataclasses import dataclass
from typing import Annotated

import typer

from icectl.cli.document import Outcome
from icectl.cli.options import CHANGING, Common, DeletedList, SparkRun, command, option
from icectl.commands.launch import run_of

FileArgument = Annotated[
    str,
    typer.Argument(
        metavar="FILE", help="a plan that `--dry-run --save-plan` has written", show_default=False
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyRequest:
    """The options of `icectl apply`, as given."""

    allow_newer: Annotated[
        bool,
        option(
            "--allow-newer",
            group=CHANGING,
            help="where the table has moved on: do what of the plan still holds, and no more",
        ),
    ] = False
    dry_run: Annotated[
        bool,
        option(
            "--dry-run", "-n", group=CHANGING, help="print what would be done now, change nothing"
        ),
    ] = False
    deleted_list: DeletedList = None


@command(
    "apply",
    examples=[
        ("icectl apply plan.json", "do exactly that, or nothing"),
        ("icectl apply plan.json --dry-run", "whether it still holds"),
        ("icectl apply plan.json --allow-newer", "on a table that was written to meanwhile"),
    ],
    exit_codes=(3, 5, 10, 11, 12, 13, 14, 15, 16),
)
def apply(common: Common, file: FileArgument, request: ApplyRequest, spark: SparkRun) -> Outcome:
    """Carry out a plan that was saved with `--dry-run --save-plan FILE`, without asking.

    The plan is made again, by the same options and settings, as of the same instant, from the same
    metadata file; it must come out the same, and is then carried out as the command does it. Where
    the table has moved on, or gives another plan, nothing is done, and the run ends with 11. A
    file that was changed after it was made ends with 5.

    With `--allow-newer` the plan is made of the table as it is now, and only what the file names is
    done: snapshots, refs and files that it expires or deletes, files and manifests that it
    rewrites, steps that it has. Nothing else is changed.

    Of a plan of `maintain` the first step of each table is done like that, and each later one, on
    the table as the step before has left it, as with `--allow-newer`: of what the file names what
    still holds. A table that has moved on, or a step that fails, stops that table and no other.

    A plan has the options of its command alone. Those that reach the table (`--storage-option`,
    `--catalog-option`, `--config`), those of the run, and those of Spark (`--master`, `--remote`,
    `--spark-conf`) are given here; a file that has one of them is refused with 5. The document of
    `--json` is that of the command that the plan is of.
    """
    return run_of("apply")(common, file, request, spark)
