"""`icectl upgrade-to-v4`: turn a table into one of the version 4 proposal."""

from dataclasses import dataclass
from typing import Annotated

from icectl.cli.options import Change, Common, TablesArgument, command, course_on_each, option
from icectl.report.document import Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class UpgradeRequest:
    """The options of `icectl upgrade-to-v4`, as given."""

    lazy: Annotated[bool, option("--lazy", help="the metadata alone; no snapshot")] = False
    eager: Annotated[
        bool, option("--eager", help="write the manifests of all branches anew, as leaves")
    ] = False
    convert_position_deletes: Annotated[
        bool,
        option(
            "--convert-position-deletes",
            help="with --eager: make deletion vectors of position delete files",
        ),
    ] = False
    branch: Annotated[
        str, option("--branch", metavar="NAME", help="branch that gets a root (default: main)")
    ] = "main"
    allow_read_only: Annotated[
        bool,
        option("--allow-read-only", help="even if a transform makes the table read-only"),
    ] = False


@command(
    "upgrade-to-v4",
    examples=[
        ("icectl upgrade-to-v4 /wh/db/t --check", "exit 4 when it is possible, 5 when refused"),
        ("icectl upgrade-to-v4 /wh/db/t", "show what changes, ask, upgrade"),
        ("icectl upgrade-to-v4 /wh/db/t --eager --yes", "write all manifests anew, as leaves"),
    ],
    exit_codes=(3, 4, 5, 10, 11, 12, 13, 14, 15),
)
def upgrade_to_v4(
    common: Common,
    tables: TablesArgument,
    request: UpgradeRequest,
    change: Change,
) -> Outcome:
    """Turn a table of version 1, 2 or 3 into one of the version 4 proposal.

    In version 4 a snapshot has one root manifest, which lists data files, delete vectors and leaf
    manifests; a small commit writes it alone. By default one new metadata file upgrades the table
    and gives the branch a root that lists its manifests as they are. `--lazy` changes the metadata
    alone, and each branch gets its root with its next commit. `--eager` writes the manifests of
    all branches anew, one snapshot each. No data file is touched.

    Version 4 has no position delete files: those of version 2 go on to apply from manifests of
    version 2, which stay. `--eager --convert-position-deletes` makes deletion vectors of them, in
    one more snapshot for each branch that has some.

    Version 4 is a proposal, not an adopted format: no other engine can read the table afterwards.
    The old metadata file stays, and after `--lazy` there is a way back as long as nothing else was
    committed. Encrypted tables are refused, as are tables whose files, partitions or delete files
    version 4 has no form for; `--check` names every condition.
    """
    return course_on_each("upgrade_to_v4", asks=True)(common, tables, request, change)
