"""The run of `icectl upgrade-to-v3`: a migration that leads to version 3."""

from icectl.cli.document import Outcome
from icectl.cli.options import Change, Common
from icectl.commands.migrate_v1_v2.plan import Migration
from icectl.commands.migrate_v1_v2.run import migrate
from icectl.commands.migrate_v1_v2.version_3 import VERSION
from icectl.commands.upgrade_to_v3.options import UpgradeToV3Request
from icectl.errors import UsageError

COMMAND = "upgrade-to-v3"
NOTES = (
    "this cannot be undone: no engine takes a table back to version 2",
    "engines that do not know version 3 can no longer read the table; PyIceberg 0.12 only reads it",
    "the old metadata file stays, and manifests and delete files of older versions stay valid",
)
"""What to know before a table becomes one of version 3."""


def run(common: Common, table: str, request: UpgradeToV3Request, change: Change) -> Outcome:
    """Plan the upgrade; unless only the plan was asked for, ask, and execute it.

    Raises: UsageError; as migrate.
    """
    if request.convert_position_deletes and change.metadata_file is not None:
        raise UsageError(
            "`--convert-position-deletes` makes a second commit, and `--metadata-file` allows only "
            "one",
            hint="upgrade, point the catalog at the new file, then run "
            "`icectl compact TABLE --deletes-only`",
        )
    migration = Migration(
        COMMAND, VERSION, convert_position_deletes=request.convert_position_deletes
    )
    return migrate(common, table, migration, change, NOTES)
