"""`icectl migrate-v1-v2`: upgrade a table from version 1 to version 2."""

from dataclasses import dataclass
from typing import Annotated

from icectl.cli.document import Outcome
from icectl.cli.options import Change, Common, TablesArgument, command, option
from icectl.commands.launch import run_on_each_table


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrateRequest:
    """The options of `icectl migrate-v1-v2`, as given."""

    rewrite_manifests: Annotated[
        bool, option("--rewrite-manifests", help="rewrite the current manifests as version 2")
    ] = False


@command(
    "migrate-v1-v2",
    examples=[
        ("icectl migrate-v1-v2 /wh/db/t --check", "exit 4 if it is possible, 5 when refused"),
        ("icectl migrate-v1-v2 /wh/db/t", "show what changes, ask, migrate"),
        ("icectl migrate-v1-v2 /wh/db/t --rewrite-manifests --yes", "manifests of version 2 too"),
    ],
    exit_codes=(3, 4, 5, 10, 11, 12, 13, 14, 15),
)
def migrate_v1_v2(
    common: Common, tables: TablesArgument, request: MigrateRequest, change: Change
) -> Outcome:
    """Upgrade a table from version 1 to version 2.

    The new metadata has the table's UUID, all schemas, partition specs with field ids, sort orders
    and refs. Its sequence numbers are 0. Snapshots that embed their manifests get a manifest list.
    No data file changes, and manifests of version 1 stay valid.

    This cannot be undone: readers that support only version 1 lose access. The old metadata file is
    kept. icectl refuses a table if its default partition spec has an unknown transform. It also
    refuses a file that is live twice, and newest snapshots that cannot be read. Tables of version 2
    or higher are not changed. With `--rewrite-manifests`, version 1 manifests in tables of version
    2 and 3 are rewritten; a killed run may have left them.

    A later run removes the files of a killed run (see `icectl man rewrite-manifests`).
    """
    return run_on_each_table("migrate_v1_v2", asks=True)(common, tables, request, change)
