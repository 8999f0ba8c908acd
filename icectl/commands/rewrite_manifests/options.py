"""`icectl rewrite-manifests`: regroup manifests by partition, at their target size."""

from dataclasses import dataclass
from typing import Annotated

from icectl.cli.document import Outcome
from icectl.cli.options import Change, Common, TablesArgument, command, option
from icectl.cli.settings import parse_count, parse_positive_size, parse_whole_number
from icectl.commands.launch import run_on_each_table
from icectl.errors import UsageError


def _parse_fields(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    if not names:
        raise UsageError("it names no partition field")
    return names


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteRequest:
    """The options of `icectl rewrite-manifests`, as given."""

    branch: Annotated[
        str, option("--branch", "the branch to work on (default main)", metavar="NAME")
    ] = "main"
    spec_id: Annotated[
        str | None,
        option(
            "--spec-id",
            "only manifests of this partition spec",
            metavar="N",
            parse=parse_whole_number,
        ),
    ] = None
    content: Annotated[
        str,
        option(
            "--content",
            "all (default), data or deletes",
            metavar="WHICH",
            choices=("all", "data", "deletes"),
        ),
    ] = "all"
    target_size: Annotated[
        str | None,
        option(
            "--target-size",
            "size of new manifests (default commit.manifest.target-size-bytes)",
            metavar="SIZE",
            parse=parse_positive_size,
        ),
    ] = None
    sort_by: Annotated[
        str | None,
        option(
            "--sort-by",
            "cluster by these partition fields, first one first (default all)",
            metavar="FIELD,...",
            parse=_parse_fields,
        ),
    ] = None
    manifest_format: Annotated[
        str | None,
        option(
            "--manifest-format",
            "avro or parquet, in version 4 as Iceberg 1.12 writes it (default: kept)",
            metavar="FORMAT",
            choices=("avro", "parquet"),
        ),
    ] = None
    rewrite_all: Annotated[
        bool, option("--rewrite-all", "rewrite every manifest, at target size or not")
    ] = False
    min_manifests: Annotated[
        str | None,
        option(
            "--min-manifests", "skip groups of fewer (default 2)", metavar="N", parse=parse_count
        ),
    ] = None


@command(
    "rewrite-manifests",
    examples=[
        ("icectl rewrite-manifests /wh/db/t --dry-run", "what would be regrouped, and why"),
        ("icectl rewrite-manifests /wh/db/t", "merge small manifests, cluster by partition"),
        ("icectl rewrite-manifests /wh/db/t --sort-by day --target-size 16MiB", "by one field"),
        ("icectl rewrite-manifests /wh/db/t --check", "for CI: exit 4 if there is work"),
    ],
    exit_codes=(3, 4, 5, 10, 11, 12, 13, 14, 15),
)
def rewrite_manifests(
    common: Common, tables: TablesArgument, request: RewriteRequest, change: Change
) -> Outcome:
    """Regroup the manifests of a branch by partition, at their target size.

    Small manifests are merged and large ones split. If partitions are scattered over many
    manifests, all manifests of the partition spec are regrouped. Data and delete manifests stay
    separate, and so do those of different specs. If nothing would improve, nothing is committed, so
    a second run does nothing.

    Manifests keep their file format; a group with some Parquet manifests becomes Parquet.
    `--manifest-format` also rewrites manifests of another format.

    For named tables icectl asks no question, since no row can be lost; `--yes` is accepted anyway.
    It asks before it changes tables that match a glob.

    The live files, their sequence numbers and row ids do not change; icectl compares them before
    the commit. Old manifests stay until their snapshots expire.

    New manifests are recorded in a journal, metadata/icectl-*.json, before they are written. A
    later run removes a killed run's files, once a newer version of the table rules out its commit.
    A run counts as killed when its process on this machine has ended, elsewhere after a day. A live
    run that was mistaken for a killed one exits with code 11. Its hidden files, metadata/.icectl-*,
    are removed after a day. With `--metadata-file` there is no journal, and files of a killed run
    are orphans.
    """
    return run_on_each_table("rewrite_manifests")(common, tables, request, change)
