"""The course of `icectl upgrade-to-v4`."""

from icectl.cli.options import Change, Common
from icectl.cli.session import open_session
from icectl.cli.upgrading import Course, upgrade
from icectl.errors import UsageError
from icectl.plan.upgrade_to_v4 import TO_VERSION, UpgradeOptions
from icectl.report.document import Outcome
from icectl.report.upgrade_to_v4 import to_know
from icectl.run.upgrade_to_v4 import (
    COMMAND,
    execute,
    prepare,
    refusal,
    remove_leftovers,
)


def upgrade_to_v4(common: Common, table: str, change: Change, options: UpgradeOptions) -> Outcome:
    """Plan the upgrade; unless the plan is all that was asked for, ask, and run it."""
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
        to_know=to_know(options.mode),
        loaded=prepared.loaded,
        plan=prepared.plan,
        execute=lambda: execute(access, prepared),
        refusal=refusal,
        tidy=lambda: remove_leftovers(access, prepared),
    )
    return upgrade(session, course, change)
