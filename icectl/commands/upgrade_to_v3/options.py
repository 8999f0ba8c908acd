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
            help="make deletion vectors of position delete files, on all branches",
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
    """Turn a table of version 1 or 2 into a version 3 table.

    One new metadata file does it: `format-version` is 3, `next-row-id` is 0. No data file and no
    manifest is changed; rows and snapshots stay the same. Rows get ids from the next commit of each
    branch on. A version 1 table also gets what `icectl migrate-v1-v2` writes.

    Position delete files stay valid. With `--convert-position-deletes` they become deletion
    vectors, in one more snapshot for each branch that has some. A table of version 3 with position
    delete files has work then, too: a killed run may have left them.

    This cannot be undone: readers that do not know version 3 lose access. PyIceberg 0.12 reads such
    tables but does not write them. The plan names engines whose newest snapshot is by an old
    release: Iceberg before 1.10, Trino before 480. That is a warning.

    The table is refused if version 3 reserves the name or the id of a column. It is refused for
    default values of columns, and for errors in its schemas. So it is if rows have ids already, or
    if a manifest list counts too few rows. A file that is live twice, or newest snapshots that
    cannot be read, also forbid it.

    A later run removes what a killed one leaves, as `icectl man rewrite-manifests` says.
    """
    return run_on_each_table("upgrade_to_v3", asks=True)(common, tables, request, change)
