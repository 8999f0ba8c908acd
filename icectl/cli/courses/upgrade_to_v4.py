"""The course of `icectl upgrade-to-v4`."""

from icectl.cli.commands.upgrade_to_v4 import UpgradeRequest
from icectl.cli.courses.draft_16025 import export
from icectl.cli.courses.upgrade import Course, upgrade
from icectl.cli.options import Change, Common
from icectl.cli.session import open_session
from icectl.errors import UsageError
from icectl.plan.upgrade_to_v4 import TO_VERSION, UpgradeOptions
from icectl.report.document import Outcome
from icectl.report.upgrade import version_4_notes
from icectl.run.upgrade_to_v4 import (
    COMMAND,
    execute,
    prepare,
    refusal,
    remove_leftovers,
)
from icectl.spec.layout import DRAFT_16025, LAYOUTS_OF_VERSION_4, Layout


def run(common: Common, table: str, request: UpgradeRequest, change: Change) -> Outcome:
    """Plan the upgrade; unless the plan is all that was asked for, ask, and run it."""
    if request.layout == DRAFT_16025 or request.to is not None:
        return export(common, table, request, change)
    options = _options(request)
    if options.mode == "eager" and change.metadata_file is not None:
        raise UsageError(
            "`--eager` makes a commit per branch, and `--metadata-file` allows for one",
            hint="upgrade without, point the catalog at the new file, then go on with the next",
        )
    session = open_session(common, table, read_only=False, change=change)
    access = session.access
    prepared = prepare(access, options)
    course = Course(
        command=COMMAND,
        to_version=TO_VERSION,
        to_know=version_4_notes(
            options,
            prepared.loaded.capabilities,
            changes_layout=prepared.plan.changes_layout,
        ),
        loaded=prepared.loaded,
        plan=prepared.plan,
        execute=lambda: execute(access, prepared),
        refusal=refusal,
        tidy=lambda: remove_leftovers(access, prepared),
        layout=request.layout,
    )
    return upgrade(session, course, change)


def _options(request: UpgradeRequest) -> UpgradeOptions:
    if request.lazy and request.eager:
        raise UsageError("`--lazy` and `--eager` exclude each other")
    if request.convert_position_deletes and not request.eager:
        raise UsageError("`--convert-position-deletes` needs `--eager`")
    layout = LAYOUTS_OF_VERSION_4.get(request.layout)
    if layout is None:
        known = " or ".join(f"`{name}`" for name in LAYOUTS_OF_VERSION_4)
        raise UsageError(
            f"`--layout` is {known}, not `{request.layout}`",
            hint=f"`--layout {DRAFT_16025} --to FOLDER` exports, and upgrades nothing",
        )
    for option, given in (
        ("--convert-position-deletes", request.convert_position_deletes),
        ("--allow-read-only", request.allow_read_only),
    ):
        if given and layout is not Layout.SFC_1:
            raise UsageError(f"`{option}` is for `--layout {Layout.SFC_1}`")
    return UpgradeOptions(
        "lazy" if request.lazy else "eager" if request.eager else "default",
        request.branch,
        request.allow_read_only,
        request.convert_position_deletes,
        layout,
    )
