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
    """Turn a version 1 table into a version 2 table.

    The new metadata has the table's uuid, all schemas, partition specs with field ids, sort orders
    and refs. Its sequence numbers are 0. Snapshots that embed their manifests get a manifest list.
    No data file is changed, and manifests of version 1 stay valid.

    This cannot be undone: readers that know only version 1 lose access. The old metadata file is
    kept. A table is refused if its default partition spec has an unknown transform. It is refused
    if a file is live twice, or its newest snapshots cannot be read. Tables of version 2 or higher
    are not changed. With `--rewrite-manifests`, version 1 manifests in tables of version 2 and 3
    are rewritten; a killed run may have left them.

    A later run removes what a killed one leaves, as `icectl man rewrite-manifests` says.
    """
    return run_on_each_table("migrate_v1_v2", asks=True)(common, tables, request, change)
