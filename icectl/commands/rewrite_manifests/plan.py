"""Which manifests of a snapshot are regrouped, and into how many: pure.

Manifests of one partition spec and content are a group. Of a group, small and large manifests are
rewritten if fewer come out, and all of them if partitions are spread over many. By both measures a
second run has nothing to do. Manifests that few readers can read are always rewritten.

In version 4, leaves with dead rows lose them, small ones are merged, and files that the root lists
itself move into leaves. Manifests of older versions stay unless one of these is the case.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace
from math import ceil

from icectl.entries.partition_key import spread
from icectl.entries.rows import count_by_manifest, live, numbers, position_delete_files
from icectl.errors import UsageError
from icectl.format.manifest import FileFormat, ManifestContent
from icectl.format.metadata import TableMetadata
from icectl.table.manifest_groups import (
    ManifestGroup,
    ManifestsWithEntries,
    RewriteOptions,
    RewritePlan,
    group_clusters,
    live_in,
)
from icectl.table.reviewed import REWRITE_MANIFEST, Reviewed
from icectl.units import print_size

SMALL, LARGE = 0.5, 1.8
"""Parts of the target size below and above which a manifest does not have it."""

_SPREAD = 2
"""How many times more manifests than needed the partitions lie in before all are regrouped."""


def plan(
    metadata: TableMetadata, branch: str, listed: ManifestsWithEntries, options: RewriteOptions
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
        ManifestGroup(spec_id, content, rewritten=(), kept=tuple(indexes), reason="")
        for (spec_id, content), indexes in sorted(members.items())
    )
    decided = tuple(
        _with_due(metadata, _decide(metadata, group, listed, options), listed, options)
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
        chosen = tuple(at for at in group.rewritten if listed.manifests[at].manifest_path in named)
        if chosen == group.rewritten:
            return group
        whole = replace(group, kept=tuple(sorted((*group.rewritten, *group.kept))), rewritten=())
        if not chosen:
            return replace(whole, expected=0, entries=0, clusters=0, bytes_before=0)
        return rewriting(metadata, whole, chosen, listed, plan.options, group.reason)

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


def _decide(
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
            metadata, group, group.kept, listed, options, "all manifests were requested"
        )
    if len(group.kept) >= max(options.min_manifests, 2):
        clusters = group_clusters(metadata, group, live_in(listed, group.kept), options)
        most_spread = _SPREAD * (clusters.count + _count(listed, group.kept, options) - 1)
        places = spread(clusters, numbers(live_in(listed, group.kept), "manifest"))
        if places > most_spread:
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
    kept_indexes = frozenset(group.kept)
    dues = [(listed.broken & kept_indexes, "have lengths that their schema does not give")]
    if options.file_format is not None:
        others = kept_indexes & listed.parquet
        if options.file_format is FileFormat.PARQUET:
            others = kept_indexes - listed.parquet
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
    """Drop manifests without a live entry, as a commit is made anyway (R-056)."""
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
    """Return why a group is skipped; None if it is not."""
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
    merged = _count(listed, small, options) if small else 0
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
        expected=_count(listed, rewritten, options) if len(entries) else 0,
        entries=len(entries),
        clusters=group_clusters(metadata, group, entries, options).count,
        bytes_before=sum(listed.manifests[at].manifest_length for at in rewritten),
    )


def _count(listed: ManifestsWithEntries, manifests: Sequence[int], options: RewriteOptions) -> int:
    """Return the number of manifests of the target size that the live entries need."""
    stored = sum(listed.manifests[at].manifest_length for at in manifests)
    needed = max(1, ceil(stored / options.target_size_bytes))
    if options.max_entries is None:
        return needed
    live_count = sum(listed.live_counts[at] for at in manifests)
    return max(needed, ceil(live_count / options.max_entries))


def plan_leaves(
    metadata: TableMetadata, branch: str, listed: ManifestsWithEntries, options: RewriteOptions
) -> RewritePlan:
    """Decide what of a version 4 snapshot is written anew, data and deletes apart (sfc-1 7.6).

    Raises: UsageError for what only manifests of older versions know.
    """
    if options.sort_by or options.spec_id is not None:
        raise UsageError(
            "leaves of version 4 hold rows of all partition specs, in the order of their commits",
            hint="leave out `--sort-by` and `--spec-id`",
        )
    groups = []
    for content in ManifestContent:
        chosen = tuple(at for at, item in enumerate(listed.manifests) if item.content is content)
        if chosen:
            group = ManifestGroup(metadata.default_spec_id, content, (), chosen, "nothing to gain")
            groups.append(_decide_leaves(metadata, group, listed, options))
    return RewritePlan(branch, options, tuple(groups))


def _decide_leaves(
    metadata: TableMetadata,
    group: ManifestGroup,
    listed: ManifestsWithEntries,
    options: RewriteOptions,
) -> ManifestGroup:
    if options.content not in ("all", group.content.name.lower()):
        return replace(group, reason=f"not of {options.content}")
    movable = _movable(metadata, group, listed)
    manifests = listed.manifests
    emptied = {at for at in movable if manifests[at].dead}
    in_root = {at for at in movable if manifests[at].in_root and listed.live_counts[at]}
    sized = by_size(
        metadata,
        replace(
            group, kept=tuple(at for at in movable if at in in_root or not manifests[at].in_root)
        ),
        _as_written(listed, emptied),
        options,
    )
    chosen = set(movable) if options.every else {*sized.rewritten, *emptied, *in_root}
    if not chosen:
        return group
    reasons = [sized.reason] if sized.rewritten else []
    reasons += [f"{len(emptied):,} have dead rows"] if emptied else []
    reasons += ["the root lists files itself"] if in_root else []
    reason = "all manifests were requested" if options.every else ", ".join(reasons)
    return rewriting(metadata, group, tuple(sorted(chosen)), listed, options, reason)


def _as_written(listed: ManifestsWithEntries, emptied: Collection[int]) -> ManifestsWithEntries:
    """Leaves with dead rows as long as they will be without them; the root's files have none.

    They are written in any case, and what comes out must leave the next run nothing to gain.
    """
    manifests = list(listed.manifests)
    for at in emptied:
        live_count = listed.live_counts[at]
        share = live_count / (live_count + manifests[at].dead_count)
        length = int(manifests[at].manifest_length * share)
        manifests[at] = replace(manifests[at], manifest_length=length)
    return replace(listed, manifests=tuple(manifests))


def _movable(
    metadata: TableMetadata, group: ManifestGroup, listed: ManifestsWithEntries
) -> tuple[int, ...]:
    """Return manifests whose rows a leaf of version 4 can hold (sfc-1 7.6 step 6)."""
    files = live(position_delete_files(listed.entries))
    fixed = count_by_manifest(files, len(listed.manifests))
    opaque = {
        spec.spec_id
        for spec in metadata.partition_specs
        if any(item.transform.name == "unknown" for item in spec.fields)
    }
    return tuple(
        at
        for at in group.kept
        if not fixed[at] and listed.manifests[at].partition_spec_id not in opaque
    )
