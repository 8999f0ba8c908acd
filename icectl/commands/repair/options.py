"""`icectl repair`: repair a broken table, as far as can be proved."""

from dataclasses import dataclass
from typing import Annotated

from icectl.cli.document import Outcome
from icectl.cli.options import Change, Common, TablesArgument, command, option
from icectl.commands.launch import run_on_each_table


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairRequest:
    """The options of `icectl repair`, as given."""

    level: Annotated[
        str,
        option(
            "--level",
            metavar="LEVEL",
            choices=("metadata", "files", "footers"),
            help="how deep: metadata, files (default) or footers",
        ),
    ] = "files"
    branch: Annotated[
        str, option("--branch", metavar="NAME", help="the branch to repair (default main)")
    ] = "main"
    to_snapshot: Annotated[
        str | None,
        option(
            "--to-snapshot",
            metavar="ID",
            help="roll the branch back to this snapshot; `latest-complete` finds the newest one",
        ),
    ] = None
    drop_missing: Annotated[
        bool,
        option(
            "--drop-missing", help="remove missing data files from the table; their rows are lost"
        ),
    ] = False
    accept_undeleted: Annotated[
        bool,
        option(
            "--accept-undeleted",
            help="remove missing delete files from the table; deleted rows reappear",
        ),
    ] = False
    skip: Annotated[
        list[str] | None,
        option("--skip", metavar="ID", help="skip this repair, or kind of repairs; repeatable"),
    ] = None


@command(
    "repair",
    examples=[
        ("icectl repair /wh/db/t --dry-run", "what can be repaired, what cannot, and why"),
        ("icectl repair /wh/db/t", "show the repairs, ask, then repair"),
        (
            "icectl repair /wh/db/t --to-snapshot latest-complete",
            "roll back to the newest complete snapshot",
        ),
        ("icectl repair /wh/db/t --skip metrics --yes", "all repairs but those of metrics"),
        ("icectl repair /wh/db/t --check", "for CI: exit 4 if there is something to repair"),
    ],
    exit_codes=(3, 4, 5, 10, 11, 12, 13, 14, 15),
)
def repair(
    common: Common, tables: TablesArgument, request: RepairRequest, change: Change
) -> Outcome:
    """Repair a broken table, as far as the right state can be proved.

    icectl checks the table as `icectl validate` does. Each repair has an id, and `--skip` accepts
    ids and these kinds: version-hint; metadata-file (a truncated newest metadata file is moved
    aside); statistics (entries of lost statistics files); list-row and manifest-list (lengths,
    counts, ranges and totals, counted again); metrics (from footers, at level footers);
    dangling-deletes; manifest (a lost one, as other snapshots or the data files prove it).

    Rows are lost or reappear only if you allow it: `--drop-missing` accepts lost-data,
    `--accept-undeleted` accepts lost-deletes; each line shows how many rows. `--to-snapshot` rolls
    back a broken branch instead: no file is deleted, and the plan shows how many snapshots and rows
    it drops. For a healthy branch, use `icectl refs TABLE rollback`.

    For damage that cannot be repaired, the plan lists your options, the smallest loss first.

    The change is one commit, a new snapshot on top of the broken one. Damage that cannot be
    repaired is reported with the reason: exit 3, or 5 if nothing can be repaired; `--dry-run` exits
    with 4 if errors would remain. No file of the table is deleted. Roots and leaves of version 4
    are not changed.

    A later run removes the files of a killed run (see `icectl man rewrite-manifests`).
    """
    return run_on_each_table("repair", asks=True)(common, tables, request, change)
