"""`icectl rewrite-manifests`: regroup manifests by partition, in their target size."""

from dataclasses import dataclass
from typing import Annotated

from icectl.cli.document import Outcome
from icectl.cli.options import Change, Common, TablesArgument, command, option
from icectl.cli.settings import parse_count, parse_positive_size, parse_whole_number
from icectl.commands.launch import run_on_each_table
from icectl.errors import UsageError


def _parse_fields(text: str) -> tuple[str, ...]:
    """Read names with commas between them."""
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    if not names:
        raise UsageError("it names no partition field")
    return names


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteRequest:
    """The options of `icectl rewrite-manifests`, as given."""

    branch: Annotated[
        str, option("--branch", metavar="NAME", help="the branch to work on (default main)")
    ] = "main"
    spec_id: Annotated[
        str | None,
        option(
            "--spec-id",
            metavar="N",
            parse=parse_whole_number,
            help="manifests of this partition spec only",
        ),
    ] = None
    content: Annotated[
        str,
        option(
            "--content",
            metavar="WHICH",
            choices=("all", "data", "deletes"),
            help="all (default), data or deletes",
        ),
    ] = "all"
    target_size: Annotated[
        str | None,
        option(
            "--target-size",
            metavar="SIZE",
            parse=parse_positive_size,
            help="size of new manifests (default commit.manifest.target-size-bytes)",
        ),
    ] = None
    sort_by: Annotated[
        str | None,
        option(
            "--sort-by",
            metavar="FIELD,...",
            parse=_parse_fields,
            help="cluster by these partition fields, first one first (default all)",
        ),
    ] = None
    manifest_format: Annotated[
        str | None,
        option(
            "--manifest-format",
            metavar="FORMAT",
            choices=("avro", "parquet"),
            help="avro or parquet, in version 4 as Iceberg 1.12 writes it (default: kept)",
        ),
    ] = None
    min_manifests: Annotated[
        str | None,
        option(
            "--min-manifests",
            metavar="N",
            parse=parse_count,
            help="leave groups of fewer alone (default 2)",
        ),
    ] = None


@command(
    "rewrite-manifests",
    examples=[
        ("icectl rewrite-manifests /wh/db/t --dry-run", "what would be regrouped, and why"),
        ("icectl rewrite-manifests /wh/db/t", "merge small manifests, cluster by partition"),
        ("icectl rewrite-manifests /wh/db/t --sort-by day --target-size 16MiB", "by one field"),
        ("icectl rewrite-manifests /wh/db/t --check", "for CI: exit 4 when there is work"),
    ],
    exit_codes=(3, 4, 5, 10, 11, 12, 13, 14, 15),
)
def rewrite_manifests(
    common: Common,
    tables: TablesArgument,
    request: RewriteRequest,
    change: Change,
) -> Outcome:
    """Regroup the manifests of a branch by partition, in their target size.

    Small manifests are merged and large ones cut; where partitions lie scattered over many
    manifests, all of a partition spec are regrouped. Manifests of data and of deletes, and of
    different specs, stay apart. Where nothing would be gained, nothing is committed, so that a
    second run never has anything to do.

    Manifests keep their file format; where some of a group are in Parquet, so is what takes its
    place. `--manifest-format` writes those that have another one anew, whatever that gains.

    No question is asked for tables that are named, since no row can be lost; `--yes` is accepted
    all the same. Tables that a pattern finds are asked about.

    The set of live files, their sequence numbers and row ids stay as they are, and are compared
    before the commit. Old manifests stay until their snapshots expire.

    New manifests are recorded in a journal, metadata/icectl-*.json, before they are written.
    What a killed run leaves is removed by a later run, once a newer version of the table rules
    out that the killed run's commit still comes. A run counts as killed when its process on
    this machine is gone, elsewhere after a day; one that was wrongly taken for dead ends with
    11. Hidden files, metadata/.icectl-*, which it was writing, go after a day. There is no
    journal with `--metadata-file`, and the files of a killed run are orphans.
    """
    return run_on_each_table("rewrite_manifests")(common, tables, request, change)
