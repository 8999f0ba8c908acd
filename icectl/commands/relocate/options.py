"""`icectl relocate`: the metadata of a moved or copied table, for its new place."""

from dataclasses import dataclass
from typing import Annotated

from icectl.cli.document import Outcome
from icectl.cli.options import Change, Common, TableArgument, command, option
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
        bool, option("--new-uuid", help="make it a table of its own, beside the original")
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


@command(
    "relocate",
    examples=[
        ("icectl relocate /copy/t --new-uuid", "a copied folder becomes a table of its own"),
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

    Every location that begins with `--from` is written with `--to` in its place: in the metadata
    file, manifest lists, manifests, position delete files and deletion vectors, and in entries of
    statistics files, for all snapshots, branches and tags. The new files have new names and lie at
    the new place, the metadata file last. Nothing is written or deleted at the old place.

    Where the files lie at the new place already, TABLE is that place. Where the table still lies at
    the old one, TABLE is the table there, and `--copy-list` says which files are to be copied.
    Before the metadata file is written, each data file must be at the new place with its size, but
    for those in the list.

    The metadata log starts again: the older metadata files name the old place. A table of a catalog
    has to be registered with the new metadata file, which is printed. Its current metadata file is
    named by `--metadata-file`, unless TABLE is its name in the catalog.
    """
    return run_of("relocate")(common, table, request, change)
