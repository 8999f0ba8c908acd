"""Groups of manifests that are rewritten together, and the pieces of their entries: pure."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import ceil
from typing import Literal

from icectl.entries.columns import Integers
from icectl.entries.partition_key import Clusters, clusters, clusters_of_specs, per_manifest, pieces
from icectl.entries.rows import Entries, RawEntries, count_by_manifest, in_manifests, live
from icectl.format.manifest import FileFormat, ManifestContent, ManifestFile
from icectl.format.metadata import TableMetadata
from icectl.format.partition import PartitionSpec, result_types
from icectl.format.schema import Schema
from icectl.table.leaf_debt import DEFAULT_LIMITS, LeafLimits
from icectl.table.reviewed import Reviewed

PLANNED_COLUMNS = frozenset(
    {
        "content", "status", "location", "spec_id", "partition_key", "record_count", "snapshot_id",
        "sequence_number", "file_sequence_number", "first_row_id", "content_offset",
        "content_size_in_bytes", "file_format",
    }
)  # fmt: skip
"""Columns that a rewrite plans by, and compares before it commits."""

TREE_COLUMNS = PLANNED_COLUMNS | {"referenced_data_file"}
"""The same for version 4, whose delete vectors must be those of live files."""

SMALL, LARGE = 0.5, 1.8
"""Parts of the target size below and above which a manifest does not have it."""

PIECES_OF_TARGET = 16
"""Pieces of one manifest: its size can be met once the sizes of pieces are known."""


@dataclass(frozen=True, slots=True)
class RewriteOptions:
    """The options of a rewrite; `sort_by` names partition fields, none means all of them.

    `every` rewrites all manifests, even without a gain. With a `file_format`, all manifests get it;
    else they keep theirs, and a group with both gets Parquet. Leaves of layout sfc-1 have at most
    `max_entries`, and are due by `leaf_limits`. A reviewed plan (`only`) names the manifests that
    may be rewritten.
    """

    target_size_bytes: int
    spec_id: int | None = None
    sort_by: tuple[str, ...] = ()
    min_manifests: int = 2
    content: Literal["all", "data", "deletes"] = "all"
    every: bool = False
    max_entries: int | None = None
    leaf_limits: LeafLimits = DEFAULT_LIMITS
    only: Reviewed | None = None
    file_format: FileFormat | None = None


@dataclass(frozen=True)
class ManifestsWithEntries:
    """A snapshot's manifests, and all of their entries, whose `manifest` indexes them.

    `broken` indexes manifests that break R-212, which few readers can read; `parquet` those in
    Parquet. Of many live entries there are their `counts` by manifest, and one entry for all of a
    manifest that are of one partition: what a plan goes by.
    """

    manifests: tuple[ManifestFile, ...]
    entries: Entries
    broken: frozenset[int] = frozenset()
    parquet: frozenset[int] = frozenset()
    counts: Sequence[int] | None = None

    @cached_property
    def live_counts(self) -> Sequence[int]:
        if self.counts is not None:
            return self.counts
        return count_by_manifest(live(self.entries), len(self.manifests))

    def file_format(self, manifests: Collection[int], requested: FileFormat | None) -> FileFormat:
        if requested is not None:
            return requested
        return FileFormat.AVRO if self.parquet.isdisjoint(manifests) else FileFormat.PARQUET


@dataclass(frozen=True, slots=True)
class ManifestGroup:
    """Manifests of one content and spec, or leaves of all specs (None), rewritten or kept.

    `rewritten` and `kept` index the snapshot's manifests. `expected` estimates the number of new
    manifests; `entries`, `clusters` (distinct partitions) and `bytes_before` count the rewritten
    ones.
    """

    spec_id: int | None
    content: ManifestContent
    rewritten: tuple[int, ...]
    kept: tuple[int, ...]
    reason: str
    expected: int = 0
    entries: int = 0
    clusters: int = 0
    bytes_before: int = 0


@dataclass(frozen=True, slots=True)
class RewritePlan:
    """One rewrite of a branch's manifests."""

    branch: str
    options: RewriteOptions
    groups: tuple[ManifestGroup, ...]

    @property
    def chosen(self) -> tuple[ManifestGroup, ...]:
        return tuple(group for group in self.groups if group.rewritten)


def by_partition(entries: Entries) -> Entries:
    """Return one entry for all that have manifest, partition and content in common. Order: none."""
    columns = ["manifest", "spec_id", "partition_key", "content", "file_format", "status"]
    return Entries(entries.table.group_by(columns, use_threads=False).aggregate([]))


def live_in(listed: ManifestsWithEntries, manifests: Collection[int]) -> Entries:
    """Return the live entries of some manifests (R-110)."""
    return live(in_manifests(listed.entries, manifests))


def group_clusters(metadata: TableMetadata, entries: Entries, options: RewriteOptions) -> Clusters:
    """Return the clusters of a group's entries by the `sort_by` fields, or by all.

    Raises: CorruptTable R-068; KeyError, for a spec that is not in the table (R-052).
    """
    specs = {spec.spec_id: spec for spec in metadata.partition_specs}
    return clusters_of_specs(
        entries,
        lambda number, part: spec_clusters(part, specs[number], metadata.schemas, options.sort_by),
    )


def spec_clusters(
    entries: Entries | RawEntries,
    spec: PartitionSpec,
    schemas: Sequence[Schema],
    sort_by: Sequence[str],
) -> Clusters:
    """Return the clusters of entries of one spec by the `sort_by` fields, or by all.

    Raises: CorruptTable R-068.
    """
    places = {field.name: at for at, field in enumerate(spec.fields)}
    chosen = [places[name] for name in sort_by if name in places]
    return clusters(
        entries, result_types(spec, schemas), chosen if sort_by else range(len(spec.fields))
    )


def group_pieces(
    metadata: TableMetadata,
    group: ManifestGroup,
    listed: ManifestsWithEntries,
    entries: Entries,
    options: RewriteOptions,
) -> Integers:
    """Return the piece of each of a group's live entries.

    Shape: one number for each entry, from 0 without a gap; pieces follow each other in the order of
    the clusters.
    """
    clusters = group_clusters(metadata, entries, options)
    of_manifest = {
        at: listed.manifests[at].manifest_length / max(1, listed.live_counts[at])
        for at in group.rewritten
    }
    sizes = per_manifest(entries, of_manifest)
    return pieces(clusters.ranks, sizes, options.target_size_bytes / PIECES_OF_TARGET)


def fill(sizes: Sequence[int], target_size_bytes: int) -> Sequence[range]:
    """Choose the consecutive pieces of each manifest, by their `sizes`.

    Manifests get about equal sizes, and are as few as the target allows: the next plan gains
    nothing.
    """
    total = sum(sizes)
    if not total:
        return ()
    share = total / ceil(total / target_size_bytes)
    cuts, filled = [0], 0
    for at, size in enumerate(sizes):
        if at > cuts[-1] and filled + size / 2 > share * len(cuts):
            cuts.append(at)
        filled += size
    return [range(start, stop) for start, stop in pairwise([*cuts, len(sizes)])]
