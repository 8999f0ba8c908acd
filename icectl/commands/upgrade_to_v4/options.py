"""`icectl upgrade-to-v4`: turn a table into one of version 4, or of another layout of it."""

from dataclasses import dataclass
from typing import Annotated

from icectl.cli.document import Outcome
from icectl.cli.options import Change, Common, TablesArgument, command, option
from icectl.cli.patterns import is_pattern
from icectl.commands.launch import run_on_each_table
from icectl.errors import UsageError
from icectl.format.layout import LAYOUTS_OF_VERSION_4, Layout

READERS = {
    "iceberg-1.12": "engines with Iceberg 1.12 read and write it; it is experimental there",
    Layout.SFC_1.value: "only icectl reads and writes it; it is a proposal",
}
"""Who can use a table of each layout."""

LAYOUT_READERS = "; ".join(f"`--layout {name}`: {readers}" for name, readers in READERS.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class UpgradeRequest:
    """The options of `icectl upgrade-to-v4`, as given."""

    layout: Annotated[
        str | None,
        option(
            "--layout",
            metavar="LAYOUT",
            choices=tuple(LAYOUTS_OF_VERSION_4),
            help="iceberg-1.12 (for other engines) or sfc-1 (only icectl reads it)",
        ),
    ] = None
    lazy: Annotated[bool, option("--lazy", help="change only the metadata; write no snapshot")] = (
        False
    )
    eager: Annotated[bool, option("--eager", help="rewrite the manifests of all branches")] = False
    convert_position_deletes: Annotated[
        bool,
        option(
            "--convert-position-deletes",
            help="with --eager: replace position delete files with deletion vectors",
        ),
    ] = False
    branch: Annotated[
        str, option("--branch", metavar="NAME", help="branch that gets a root (default: main)")
    ] = "main"
    allow_read_only: Annotated[
        bool, option("--allow-read-only", help="even if a transform makes the table read-only")
    ] = False


@command(
    "upgrade-to-v4",
    examples=[
        ("icectl upgrade-to-v4 /wh/db/t", "ask which layout, show what changes, ask, upgrade"),
        (
            "icectl upgrade-to-v4 /wh/db/t --layout iceberg-1.12",
            "a table that Spark continues to use",
        ),
        ("icectl upgrade-to-v4 /wh/db/t --layout sfc-1 --check", "exit 4: possible, 5: refused"),
        ("icectl upgrade-to-v4 /wh/db/t --layout sfc-1 --eager", "write all manifests as leaves"),
    ],
    exit_codes=(3, 4, 5, 10, 11, 12, 13, 14, 15),
)
def upgrade_to_v4(
    common: Common, tables: TablesArgument, request: UpgradeRequest, change: Change
) -> Outcome:
    """Upgrade a table to version 4, or convert a version 4 table to the other layout.

    Version 4 has two layouts with different readers, so choose one. Without `--layout`, icectl asks
    in a terminal, and exits with code 2 in a script. A table of version 4 keeps its layout.

    In sfc-1, the proposal's layout, a snapshot has one root manifest. The root lists data files,
    delete vectors and leaf manifests; a small commit writes only the root. One new metadata file
    upgrades the table and gives the branch a root that lists its existing manifests. `--lazy`
    changes only the metadata, and each branch gets its root with its next commit. `--eager`
    rewrites the manifests of all branches, one snapshot each. No data file changes.

    This layout has no position delete files. Those of version 2 still apply from manifests of
    version 2, which stay. `--eager --convert-position-deletes` replaces them with deletion vectors,
    in one more snapshot for each branch that has some. The layout is a proposal, not an adopted
    format: no other engine can read the table while it has this layout. Tables without a partition
    field get an unused partition spec, so engines with another version 4 refuse them.

    `--layout iceberg-1.12` is version 4 as Iceberg 1.12 writes it: manifest lists as before, new
    manifests in Parquet. It changes only the metadata; with `--eager` all manifests become Parquet.
    Engines with Iceberg 1.12 can continue to use the table. This version is experimental there.

    A table of version 4 with the other layout is converted: every snapshot with a root gets a
    manifest list, or a branch gets a root again. Rows, row ids, snapshots and refs stay the same.

    The old metadata file stays. If only the metadata changed, the upgrade can be undone until
    something else is committed. icectl refuses encrypted tables, and tables with files, partitions
    or delete files that the layout cannot express; `--check` lists every reason.
    """
    if request.layout is None and (len(tables) > 1 or is_pattern(tables[0])):
        raise UsageError("several tables need `--layout`", hint=LAYOUT_READERS)
    return run_on_each_table("upgrade_to_v4", asks=True)(common, tables, request, change)
