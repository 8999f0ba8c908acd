"""The course of `icectl migrate-v1-v2`."""

from icectl.cli.options import Change, Common
from icectl.cli.session import open_session
from icectl.cli.upgrading import Course, upgrade
from icectl.errors import UsageError
from icectl.plan.migrate_v1_v2 import TO_VERSION
from icectl.report.document import Outcome
from icectl.report.migrate_v1_v2 import TO_KNOW
from icectl.run.migrate_v1_v2 import (
    COMMAND,
    execute,
    prepare,
    refusal,
    remove_leftovers,
)


def migrate(common: Common, table: str, change: Change, *, rewrite_manifests: bool) -> Outcome:
    """Plan the migration; unless the plan is all that was asked for, ask, and run it."""
    if rewrite_manifests and change.metadata_file is not None:
        raise UsageError(
            "`--rewrite-manifests` makes a second commit, and `--metadata-file` allows for one",
            hint="migrate, point the catalog at the new file, then `icectl rewrite-manifests`",
        )
    session = open_session(common, table, read_only=False, change=change)
    access = session.access
    prepared = prepare(access, rewrite_manifests=rewrite_manifests)
    course = Course(
        command=COMMAND,
        to_version=TO_VERSION,
        to_know=TO_KNOW if prepared.plan.from_version < TO_VERSION else (),
        loaded=prepared.loaded,
        plan=prepared.plan,
        execute=lambda: execute(access, prepared),
        refusal=refusal,
        tidy=lambda: remove_leftovers(access, prepared),
    )
    return upgrade(session, course, change)
