"""Which leaves of a version 4 snapshot are written anew, and what of its root becomes leaves: pure.

Leaves with dead rows lose them, small ones are merged, and files that the root lists itself move
into leaves. Manifests of older versions stay unless one of these is the case.
"""

from collections.abc import Collection
from dataclasses import replace

from icectl.entries.rows import count_by_manifest, live, position_delete_files
from icectl.errors import UsageError
from icectl.format.manifest import ManifestContent
from icectl.format.metadata import TableMetadata
from icectl.table.manifest_groups import (
    ManifestGroup,
    ManifestsWithEntries,
    RewriteOptions,
    RewritePlan,
    by_size,
    rewriting,
)


def plan_leaves(
    metadata: TableMetadata,
    branch: str,
    listed: ManifestsWithEntries,
    options: RewriteOptions,
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
            groups.append(_decided(metadata, group, listed, options))
    return RewritePlan(branch, options, tuple(groups))


def _decided(
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
    own = {at for at in movable if manifests[at].in_root and listed.live_counts[at]}
    sized = by_size(
        metadata,
        replace(group, kept=tuple(at for at in movable if at in own or not manifests[at].in_root)),
        _as_written(listed, emptied),
        options,
    )
    chosen = set(movable) if options.every else {*sized.rewritten, *emptied, *own}
    if not chosen:
        return group
    reasons = [sized.reason] if sized.rewritten else []
    reasons += [f"{len(emptied):,} have dead rows"] if emptied else []
    reasons += ["the root lists files itself"] if own else []
    reason = "every manifest is asked for" if options.every else ", ".join(reasons)
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
    """Return the manifests whose rows can be rows of a leaf of version 4 (sfc-1 7.6 step 6)."""
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
