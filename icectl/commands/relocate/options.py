"""`icectl relocate`: the metadata of a moved or copied table, for its new place."""

from dataclasses import dataclass
from typing import Annotated

from icectl.cli.document import Outcome
from icectl.cli.options import Change, Common, DistrustSummaries, TableArgument, command, option
from icectl.commands.launch import run_of


@dataclass(frozen=True, slots=True, kw_only=True)
class RelocateRequest:
    """The options of `icectl relocate`, as given."""

    sources: Annotated[
        list[str] | None,
        option(
            "--from",
            metavar="PREFIX",
            help="old prefix of locations (default: the table's location in its metadata); "
            "repeatable",
        ),
    ] = None
    target: Annotated[
        str | None,
        option(
            "--to",
            metavar="PREFIX",
            help="new prefix of locations (default: where TABLE was found)",
        ),
    ] = None
    new_uuid: Annotated[
        bool, option("--new-uuid", help="make a copy an independent table, in no catalog")
    ] = False
    copy_list: Annotated[
        str | None,
        option(
            "--copy-list",
            metavar="FILE",
            help="write the files that are not at the new place as CSV lines, source,target; "
            "without it they must be copied already",
        ),
    ] = None
    distrust_summaries: DistrustSummaries = False


@command(
    "relocate",
    examples=[
        ("icectl relocate /copy/t --new-uuid", "make a copied folder an independent table"),
        ("icectl relocate s3://new/t --from s3://old/t", "t was copied to another bucket"),
        (
            "icectl relocate prod.db.t --to s3://new/t --copy-list f.csv -n",
            "list the files to copy",
        ),
    ],
    exit_codes=(3, 4, 5, 10, 11, 12, 13, 14, 15),
)
def relocate(
    common: Common, table: TableArgument, request: RelocateRequest, change: Change
) -> Outcome:
    """Write the metadata of a moved or copied table for its new place.

    In every location that begins with `--from`, `--to` takes its place. That is done in the
    metadata file, manifest lists, manifests, position delete files, deletion vectors and entries of
    statistics files. It is done for all snapshots, branches and tags. The new files have new names
    and lie at the new place; the metadata file is written last. Nothing is written or deleted at
    the old place.

    If the files are at the new place already, TABLE is that place. Else TABLE is the table at the
    old place, and `--copy-list` names the files to copy. Each data file that is not in the list
    must be at the new place, with its size. icectl checks this before it writes the metadata file.
    If a snapshot lists fewer files than its summary says, the copy would lose the rest: exit 5.
    With `--distrust-summaries` icectl goes on.

    The metadata log starts again: the older metadata files name the old place. A moved table of a
    catalog has to be registered with the new metadata file, which is printed. Its current metadata
    file is named by `--metadata-file`, unless TABLE is its name in the catalog. With `--new-uuid`
    the copy is a file-system table, which is named by its location.
    """
    return run_of("relocate")(common, table, request, change)
