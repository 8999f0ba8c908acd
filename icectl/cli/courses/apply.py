"""The course of `icectl apply`: read the plan, then run its command, held to it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from icectl.cli.app import COMMANDS, load_command
from icectl.cli.commands.apply import ApplyRequest
from icectl.cli.options import Change, Command, Common
from icectl.cli.plans import planned_invocation, planned_shell
from icectl.errors import Refused, Unsupported, UsageError
from icectl.plan.reviewed import PLANNED
from icectl.report.document import Outcome
from icectl.report.maintain_plan import COMMAND as MAINTAIN
from icectl.report.maintain_plan import saved_maintenance
from icectl.report.saved_plan import SavedPlan, open_saved_plan, saved_plan
from icectl.units import print_count


def run(common: Common, file: str, request: ApplyRequest) -> Outcome:
    """Carry out a plan, or tell what of it would be done."""
    if common.catalog is not None:
        raise UsageError("`--catalog`: the plan names its table in full", hint="leave it out")
    built = _read(file)
    shell = common.shell
    if built.get("instant_ms", 0) > shell.env.now_ms():
        raise Refused(
            f"{file} was made in the future, by the clock of this machine",
            hint="set the clocks right, or make a new plan",
            id="plan-changed",
        )
    if built.get("command") == MAINTAIN:
        return _maintain(common, file, built, request)
    saved = saved_plan(built, file)
    command = _command(saved, file)
    change = Change(
        dry_run=request.dry_run,
        yes=True,
        metadata_file=saved.request.metadata_file,
        deleted_list=request.deleted_list,
    )
    invocation = planned_invocation(command, saved, common, change)
    shell.console.note(f"plan {file}: {command.name} of {saved.request.table}")
    return invocation.run(planned_shell(saved, shell, allow_newer=request.allow_newer))


def _maintain(
    common: Common, file: str, built: Mapping[str, Any], request: ApplyRequest
) -> Outcome:
    """Carry out a plan of many tables."""
    from icectl.cli.courses.maintain import apply_plan

    if request.deleted_list is not None:
        raise UsageError(
            f"`--deleted-list` is about one table, and {file} may be of several",
            hint="the plan itself lists the files",
        )
    saved = saved_maintenance(built, file)
    common.shell.console.note(f"plan {file}: maintain {print_count(len(saved.tables), 'table')}")
    return apply_plan(common, file, saved, request)


def _read(file: str) -> dict[str, Any]:
    try:
        text = Path(file).read_text("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"{file} is no saved plan: it is not text") from error
    except OSError as error:
        raise UsageError(f"cannot read the plan {file}: {error.strerror}") from error
    return open_saved_plan(text, file)


def _command(saved: SavedPlan, file: str) -> Command:
    """Return the command of a plan.

    Raises: Unsupported, where this icectl does not know its options.
    """
    name = saved.request.command
    if name not in PLANNED or name not in COMMANDS:
        raise Unsupported(f"{file} is a plan of `{name}`, which this icectl does not apply")
    command = load_command(name)
    unknown = set(saved.request.options) - command.parameters
    if unknown:
        raise Unsupported(
            f"{file} has options of `{name}` that this icectl does not know: "
            f"{', '.join(sorted(unknown))}",
            hint="apply it with the version of icectl that has made it",
        )
    return command
