"""`icectl upgrade-to-v3`: turn a table of version 1 or 2 into one of version 3."""

from dataclasses import dataclass
from typing import Annotated

from icectl.cli.document import Outcome
from icectl.cli.options import Change, Common, TablesArgument, command, option
from icectl.commands.launch import run_on_each_table


@dataclass(frozen=True, slots=True, kw_only=True)
class UpgradeToV3Request:
    """The options of `icectl upgrade-to-v3`, as given."""

    convert_position_deletes: Annotated[
        bool,
        option(
            "--convert-position-deletes",
            help="replace position delete files with deletion vectors, on all branches",
        ),
    ] = False


@command(
    "upgrade-to-v3",
    examples=[
        ("icectl upgrade-to-v3 /wh/db/t --check", "exit 4 if it is possible, 5 if refused"),
        ("icectl upgrade-to-v3 /wh/db/t", "show what changes, ask, upgrade"),
        ("icectl upgrade-to-v3 /wh/db/t --convert-position-deletes --yes", "with vectors at once"),
    ],
    exit_codes=(3, 4, 5, 10, 11, 12, 13, 14, 15),
)
def upgrade_to_v3(
    common: Common, tables: TablesArgument, request: UpgradeToV3Request, change: Change
) -> Outcome:
    """Upgrade a table from version 1 or 2 to version 3.

    The upgrade writes one new metadata file: `format-version` is 3, `next-row-id` is 0. No data
    file and no manifest changes; rows and snapshots stay the same. Rows get ids with the next
    commit of each branch. For a version 1 table, icectl also does what `icectl migrate-v1-v2` does.

    Position delete files stay valid. With `--convert-position-deletes` they become deletion
    vectors, in one more snapshot for each branch that has some. A table of version 3 with position
    delete files has work then, too: a killed run may have left them.

    This cannot be undone: readers that do not support version 3 lose access. PyIceberg 0.12 reads
    such tables but does not write them. The plan warns of engines whose newest snapshot comes from
    an old release: Iceberg before 1.10, Trino before 480.

    icectl refuses the table if version 3 reserves the name or the id of a column. It also refuses
    column defaults, errors in schemas, existing row ids, and manifest lists that count too few
    rows. The same applies to a file that is live twice, and to newest snapshots that cannot be
    read.

    A later run removes the files of a killed run (see `icectl man rewrite-manifests`).
    """
    return run_on_each_table("upgrade_to_v3", asks=True)(common, tables, request, change)
