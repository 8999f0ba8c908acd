"""The run of `icectl apply`: read the plan, then run its command, held to it."""

from pathlib import Path

from icectl.cli.document import Outcome
from icectl.cli.options import Change, Common, SparkRun
from icectl.cli.plans import (
    SavedPlan,
    open_saved_plan,
    planned_invocation,
    planned_shell,
    saved_plan,
)
from icectl.cli.registry import load_command
from icectl.commands.apply.options import ApplyRequest
from icectl.commands.maintain.run import apply_plan
from icectl.commands.maintain.saved_plans import COMMAND as MAINTAIN
from icectl.commands.maintain.saved_plans import SavedMaintenance, saved_maintenance
from icectl.errors import Refused, UsageError
from icectl.units import print_count


def run(common: Common, file: str, request: ApplyRequest, spark: SparkRun) -> Outcome:
    """Carry out a plan, or tell what of it would be done."""
    if common.catalog is not None:
        raise UsageError("`--catalog`: the plan names its table in full", hint="leave it out")
    shell = common.shell
    saved = _read(file, shell.env.now_ms())
    if isinstance(saved, SavedMaintenance):
        if request.deleted_list is not None:
            raise UsageError(
                f"`--deleted-list` works for one table, and {file} may have several",
                hint="the plan itself lists the files",
            )
        shell.console.note(f"plan {file}: maintain {print_count(len(saved.tables), 'table')}")
        return apply_plan(
            common,
            file,
            saved,
            spark,
            dry_run=request.dry_run,
            allow_newer=request.allow_newer,
        )
    command = load_command(saved.request.command)
    change = Change(
        dry_run=request.dry_run,
        yes=True,
        metadata_file=saved.request.metadata_file,
        deleted_list=request.deleted_list,
    )
    invocation = planned_invocation(command, saved, common, change, spark)
    shell.console.note(f"plan {file}: {command.name} of {saved.request.table}")
    planned = planned_shell(command, saved, shell, spark, allow_newer=request.allow_newer)
    return invocation.run(planned)


def _read(file: str, now_ms: int) -> SavedPlan | SavedMaintenance:
    """Read what a run needs of a plan: the rest is not in memory while it runs.

    Raises: UsageError; Refused, for a plan of the future; as open_saved_plan, saved_maintenance.
    """
    try:
        text = Path(file).read_text("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"{file} is not a saved plan: it is not text") from error
    except OSError as error:
        raise UsageError(f"cannot read the plan {file}: {error.strerror}") from error
    built = open_saved_plan(text, file)
    if built["instant_ms"] > now_ms:
        raise Refused(
            f"plan {file} is dated in the future by this machine's clock",
            hint="correct the clocks, or save a new plan",
            id="plan-changed",
        )
    return saved_maintenance(built, file) if built["command"] == MAINTAIN else saved_plan(built)
