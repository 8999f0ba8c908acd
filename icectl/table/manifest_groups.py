"""Which manifests of a snapshot are regrouped, and into how many: pure.

Manifests of one partition spec and content are a group. Of a group, small and large manifests are
rewritten where fewer come out, and all of them where partitions are spread over many. Both measures
are such that what a rewrite has made is left alone by the next. Manifests that few readers can read
are always rewritten.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from math import ceil
from typing import Literal

from icectl.entries.columns import Integers
from icectl.entries.partition_key import (
    Clusters,
    clusters,
    clusters_of_specs,
    per_manifest,
    pieces,
    spread,
)
from icectl.entries.rows import (
    Entries,
    count_by_manifest,
    count_by_value,
    in_manifests,
    live,
    numbers,
)
from icectl.errors import UsageError
from icectl.format.manifest import FileFormat, ManifestContent, ManifestFile
from icectl.format.metadata import TableMetadata
from icectl.format.partition import result_types
from icectl.table.reviewed import REWRITE_MANIFEST, Reviewed
from icectl.units import print_size

PLANNED_COLUMNS = frozenset(
    {
        "content", "status", "location", "spec_id", "partition_key", "record_count", "snapshot_id",
        "sequence_number", "file_sequence_number", "first_row_id", "content_offset",
        "content_size_in_bytes", "file_format",
    }
)  # fmt: skip
"""What a rewrite decides by, and what it compares before it commits."""

TREE_COLUMNS = PLANNED_COLUMNS | {"referenced_data_file"}
"""The same of version 4, where delete vectors have to be those of live files."""

PIECES_OF_TARGET = 16
"""A manifest is put together of so many pieces, so that its size can be met once it is known."""

SMALL, LARGE = 0.5, 1.8
"""Parts of the target size below and above which a manifest does not have it."""

_SPREAD = 2
"""How many times more manifests than needed the partitions lie in before all are regrouped."""


@dataclass(frozen=True, slots=True)
class RewriteOptions:
    """The options of a rewrite; `sort_by` names partition fields, none means all of them.

    `every` rewrites all manifests, whatever that gains. New manifests have the `file_format`, and
    none that has another stays; without one they keep theirs, which is Parquet of a group that has
    both. Leaves of version 4 have at most
    `max_entries`. No other manifests are rewritten than a plan names that was reviewed, where
    there is one (`only`).
    """

    target_size_bytes: int
    spec_id: int | None = None
    sort_by: tuple[str, ...] = ()
    min_manifests: int = 2
    content: Literal["all", "data", "deletes"] = "all"
    every: bool = False
    max_entries: int | None = None
    only: Reviewed | None = None
    file_format: FileFormat | None = None


@dataclass(frozen=True)
class ManifestsWithEntries:
    """A snapshot's manifests, and all of their entries, whose `manifest` indexes them.

    `broken` indexes those that break R-212, which few readers can read; `parquet` those in Parquet.
    """

    manifests: tuple[ManifestFile, ...]
    entries: Entries
    broken: frozenset[int] = frozenset()
    parquet: frozenset[int] = frozenset()

    @cached_property
    def live_counts(self) -> Sequence[int]:
        """Live entries of each manifest."""
        return count_by_manifest(live(self.entries), len(self.manifests))

    def file_format(self, manifests: Collection[int], wanted: FileFormat | None) -> FileFormat:
        """Return the file format of what takes the place of some manifests."""
        if wanted is not None:
            return wanted
        return FileFormat.AVRO if self.parquet.isdisjoint(manifests) else FileFormat.PARQUET


@dataclass(frozen=True, slots=True)
class ManifestGroup:
    """Manifests of one spec and content, and what happens to them.

    `rewritten` and `kept` index the snapshot's manifests. `expected` estimates the number of new
    manifests; `entries`, `clusters` (distinct partitions) and `bytes_before` are of those which are
    rewritten.
    """

    spec_id: int
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
        """The groups with something to rewrite."""
        return tuple(group for group in self.groups if group.rewritten)


def plan(
    metadata: TableMetadata,
    branch: str,
    listed: ManifestsWithEntries,
    options: RewriteOptions,
) -> RewritePlan:
    """Decide what of a snapshot's manifests is regrouped.

    Raises: UsageError for a spec or field that there is not.
    Spec: R-061 (one spec and content a manifest), R-069, R-212.
    """
    _check(metadata, options)
    members: dict[tuple[int, ManifestContent], list[int]] = {}
    for at, manifest in enumerate(listed.manifests):
        members.setdefault((manifest.partition_spec_id, manifest.content), []).append(at)
    groups = (
        ManifestGroup(spec_id, content, rewritten=(), kept=tuple(found), reason="")
        for (spec_id, content), found in sorted(members.items())
    )
    decided = tuple(
        _with_due(metadata, _decided(metadata, group, listed, options), listed, options)
        for group in groups
    )
    if any(group.rewritten for group in decided):
        decided = tuple(_without_emptied(metadata, group, listed, options) for group in decided)
    return RewritePlan(branch, options, decided)


def restrict_to_reviewed(
    metadata: TableMetadata, plan: RewritePlan, listed: ManifestsWithEntries, only: Reviewed
) -> RewritePlan:
    """Return the plan of those manifests alone that a plan names which was reviewed.

    The others stay.
    """
    named = only.subjects(REWRITE_MANIFEST)

    def held(group: ManifestGroup) -> ManifestGroup:
        left = tuple(at for at in group.rewritten if listed.manifests[at].manifest_path in named)
        if left == group.rewritten:
            return group
        whole = replace(group, kept=tuple(sorted((*group.rewritten, *group.kept))), rewritten=())
        if not left:
            return replace(whole, expected=0, entries=0, clusters=0, bytes_before=0)
        return rewriting(metadata, whole, left, listed, plan.options, group.reason)

    return replace(plan, groups=tuple(held(group) for group in plan.groups))


def _check(metadata: TableMetadata, options: RewriteOptions) -> None:
    if options.spec_id is not None and metadata.spec(options.spec_id) is None:
        message = f"the table has no partition spec {options.spec_id}"
        raise UsageError(message, hint="`icectl inspect TABLE specs` lists them")
    specs = [spec for spec in metadata.partition_specs if options.spec_id in (None, spec.spec_id)]
    for name in options.sort_by:
        if not any(field.name == name for spec in specs for field in spec.fields):
            message = f"`--sort-by`: there is no partition field `{name}`"
            raise UsageError(message, hint="`icectl inspect TABLE specs` lists them")


def _decided(
    metadata: TableMetadata,
    group: ManifestGroup,
    listed: ManifestsWithEntries,
    options: RewriteOptions,
) -> ManifestGroup:
    excluded = _excluded(metadata, group, options)
    if excluded is not None:
        return replace(group, reason=excluded)
    if options.every:
        return rewriting(
            metadata, group, group.kept, listed, options, "every manifest is asked for"
        )
    if len(group.kept) >= max(options.min_manifests, 2):
        clusters = group_clusters(metadata, group, live_in(listed, group.kept), options)
        wanted = _SPREAD * (clusters.count + _needed(listed, group.kept, options) - 1)
        places = spread(clusters, numbers(live_in(listed, group.kept), "manifest"))
        if places > wanted:
            reason = f"{clusters.count:,} partitions are spread over {places:,} places"
            return rewriting(metadata, group, group.kept, listed, options, reason)
    return by_size(metadata, group, listed, options)


def _with_due(
    metadata: TableMetadata,
    group: ManifestGroup,
    listed: ManifestsWithEntries,
    options: RewriteOptions,
) -> ManifestGroup:
    """Have manifests written anew whatever that gains: those that few readers can read (R-212), and
    those of another file format than is asked for."""
    if _excluded(metadata, group, options) is not None:
        return group
    kept = frozenset(group.kept)
    dues = [(listed.broken & kept, "have lengths that their schema does not give")]
    if options.file_format is not None:
        others = kept & listed.parquet
        if options.file_format is FileFormat.PARQUET:
            others = kept - listed.parquet
        dues.append((others, f"are not in {options.file_format.name.capitalize()}"))
    for due, why in dues:
        if due:
            whole = replace(group, kept=tuple(sorted((*group.rewritten, *group.kept))))
            reason = f"{len(due):,} {why}"
            reason = f"{group.reason}, {reason}" if group.rewritten else reason
            rewritten = tuple(sorted({*group.rewritten, *due}))
            group = rewriting(metadata, whole, rewritten, listed, options, reason)
    return group


def _without_emptied(
    metadata: TableMetadata,
    group: ManifestGroup,
    listed: ManifestsWithEntries,
    options: RewriteOptions,
) -> ManifestGroup:
    """Let a commit that is made anyway drop manifests without a live entry (R-056)."""
    emptied = {at for at in group.kept if not listed.live_counts[at]}
    if not emptied or _excluded(metadata, group, options) is not None:
        return group
    stored = sum(listed.manifests[at].manifest_length for at in emptied)
    return replace(
        group,
        rewritten=tuple(sorted({*group.rewritten, *emptied})),
        kept=tuple(at for at in group.kept if at not in emptied),
        reason=group.reason if group.rewritten else f"{len(emptied):,} have no live entry",
        bytes_before=group.bytes_before + stored,
    )


def _excluded(metadata: TableMetadata, group: ManifestGroup, options: RewriteOptions) -> str | None:
    """Tell why a group is not looked at; None where it is."""
    if options.spec_id not in (None, group.spec_id):
        return f"not of spec {options.spec_id}"
    if options.content not in ("all", group.content.name.lower()):
        return f"not of {options.content}"
    spec = metadata.spec(group.spec_id)
    if spec is None:
        return "its partition spec is not in the table metadata"
    if any(field.transform.name == "unknown" for field in spec.fields):
        return "its partition spec has a transform that icectl does not know"
    return None


def by_size(
    metadata: TableMetadata,
    group: ManifestGroup,
    listed: ManifestsWithEntries,
    options: RewriteOptions,
) -> ManifestGroup:
    """Merge the small manifests of a group and cut the large ones, where the number changes."""
    target = options.target_size_bytes
    sizes = {at: listed.manifests[at].manifest_length for at in group.kept}
    small = [at for at, size in sizes.items() if size < SMALL * target]
    large = [
        at for at, size in sizes.items() if size > LARGE * target and listed.live_counts[at] > 1
    ]
    merged = _needed(listed, small, options) if small else 0
    few = len(small) < max(options.min_manifests, merged + 1, 2)
    if few and not large:
        return replace(group, reason="nothing to gain")
    rewritten = tuple(sorted(large if few else [*small, *large]))
    reasons = (
        [f"{len(small):,} are smaller than {print_size(round(SMALL * target))}"] if not few else []
    )
    reasons += [f"{len(large):,} larger than {print_size(round(LARGE * target))}"] if large else []
    return rewriting(metadata, group, rewritten, listed, options, ", ".join(reasons))


def rewriting(
    metadata: TableMetadata,
    group: ManifestGroup,
    rewritten: tuple[int, ...],
    listed: ManifestsWithEntries,
    options: RewriteOptions,
    reason: str,
) -> ManifestGroup:
    """Return the group with some of its manifests rewritten, for a reason."""
    entries = live_in(listed, rewritten)
    return replace(
        group,
        rewritten=rewritten,
        kept=tuple(at for at in group.kept if at not in set(rewritten)),
        reason=reason,
        expected=_needed(listed, rewritten, options) if len(entries) else 0,
        entries=len(entries),
        clusters=group_clusters(metadata, group, entries, options).count,
        bytes_before=sum(listed.manifests[at].manifest_length for at in rewritten),
    )


def _needed(listed: ManifestsWithEntries, manifests: Sequence[int], options: RewriteOptions) -> int:
    """Return manifests of the target size that hold the bytes of some, and their live entries."""
    stored = sum(listed.manifests[at].manifest_length for at in manifests)
    needed = max(1, ceil(stored / options.target_size_bytes))
    if options.max_entries is None:
        return needed
    live_count = sum(listed.live_counts[at] for at in manifests)
    return max(needed, ceil(live_count / options.max_entries))


def live_in(listed: ManifestsWithEntries, manifests: Collection[int]) -> Entries:
    """Return the live entries of some manifests (R-110)."""
    return live(in_manifests(listed.entries, manifests))


def group_clusters(
    metadata: TableMetadata, group: ManifestGroup, entries: Entries, options: RewriteOptions
) -> Clusters:
    """Return the clusters of a group's entries, by the fields asked for, or by all.

    Raises: CorruptTable R-068.
    """
    if count_by_value(entries, "spec_id").keys() - {group.spec_id}:
        return clusters_of_specs(entries)  # in leaves of version 4
    spec = metadata.spec(group.spec_id)
    if spec is None:
        raise ValueError(group.spec_id)
    places = range(len(spec.fields))
    if options.sort_by:
        named = {field.name: at for at, field in enumerate(spec.fields)}
        chosen = [named[name] for name in options.sort_by if name in named]
        return clusters(entries, result_types(spec, metadata.schemas), chosen)
    return clusters(entries, result_types(spec, metadata.schemas), places)


def group_pieces(
    metadata: TableMetadata,
    group: ManifestGroup,
    listed: ManifestsWithEntries,
    entries: Entries,
    options: RewriteOptions,
) -> Integers:
    """Return the piece that each of a group's live entries belongs to.

    Shape: one number for each entry, from 0 without a gap; pieces follow each other in the order of
    the clusters.
    """
    clusters = group_clusters(metadata, group, entries, options)
    of_manifest = {
        at: listed.manifests[at].manifest_length / max(1, listed.live_counts[at])
        for at in group.rewritten
    }
    sizes = per_manifest(entries, of_manifest)
    return pieces(clusters.ranks, sizes, options.target_size_bytes / PIECES_OF_TARGET)


def fill(sizes: Sequence[int], target_size_bytes: int) -> Sequence[range]:
    """Choose which pieces, one after the other, fill each manifest; `sizes` are theirs.

    Manifests come out about equal, as few as the target size allows, so that the next plan finds
    nothing to gain.
    """
    whole = sum(sizes)
    if not whole:
        return ()
    share = whole / ceil(whole / target_size_bytes)
    cuts, done = [0], 0
    for at, size in enumerate(sizes):
        if at > cuts[-1] and done + size / 2 > share * len(cuts):
            cuts.append(at)
        done += size
    return [range(start, stop) for start, stop in pairwise([*cuts, len(sizes)])]
