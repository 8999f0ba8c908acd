"""The course of `icectl migrate-v1-v2`."""

from icectl.cli.commands.migrate_v1_v2 import MigrateRequest
from icectl.cli.courses.upgrade import Course, upgrade
from icectl.cli.options import Change, Common
from icectl.cli.session import open_session
from icectl.errors import UsageError
from icectl.plan.migrate_v1_v2 import TO_VERSION
from icectl.report.document import Outcome
from icectl.report.upgrade import MIGRATION_NOTES
from icectl.run.migrate_v1_v2 import (
    COMMAND,
    execute,
    prepare,
    refusal,
    remove_leftovers,
)


def run(common: Common, table: str, request: MigrateRequest, change: Change) -> Outcome:
    """Plan the migration; unless the plan is all that was asked for, ask, and run it."""
    if request.rewrite_manifests and change.metadata_file is not None:
        raise UsageError(
            "`--rewrite-manifests` makes a second commit, and `--metadata-file` allows for one",
            hint="migrate, point the catalog at the new file, then `icectl rewrite-manifests`",
        )
    session = open_session(common, table, read_only=False, change=change)
    access = session.access
    prepared = prepare(access, rewrite_manifests=request.rewrite_manifests)
    course = Course(
        command=COMMAND,
        to_version=TO_VERSION,
        to_know=MIGRATION_NOTES if prepared.plan.from_version < TO_VERSION else (),
        loaded=prepared.loaded,
        plan=prepared.plan,
        execute=lambda: execute(access, prepared),
        refusal=refusal,
        tidy=lambda: remove_leftovers(access, prepared),
    )
    return upgrade(session, course, change)
