"""`icectl relocate`: the metadata of a moved or copied table, for its new place."""

from dataclasses import dataclass
from typing import Annotated

from icectl.cli.document import Outcome
from icectl.cli.options import Change, Common, DistrustSummaries, TableArgument, command, option
from icectl.cli.registry import load_run


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
    """Rewrite the metadata of a moved or copied table for its new location.

    In every location, the prefix `--from` is replaced by `--to`: in the metadata file, manifest
    lists, manifests, position delete files, deletion vectors and entries of statistics files. This
    covers all snapshots, branches and tags. The new files have new names and are at the new
    location; the metadata file is written last. Nothing is written or deleted at the old location.

    If the files are already at the new location, TABLE is that location. Otherwise TABLE is the
    table at the old location, and `--copy-list` lists the files to copy. Every other data file must
    be at the new location, with its size. icectl checks this before it writes the metadata file. If
    a snapshot lists fewer files than its summary counts, the copy would lose the rest: exit 5.
    `--distrust-summaries` overrides this.

    The metadata log starts again, since older metadata files name the old location. After a move,
    register a catalog's table with the new metadata file, which icectl prints. `--metadata-file`
    names its current metadata file, unless TABLE is its name in the catalog. With `--new-uuid` the
    copy is a file-system table, which is named by its location.
    """
    return load_run("relocate")(common, table, request, change)
