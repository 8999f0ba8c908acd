"""Which manifests of a snapshot are regrouped, and into how many: pure.

Manifests of one partition spec and content are a group. Of a group, small and large manifests are
rewritten if fewer come out, and all of them if partitions are spread over many. By both measures a
second run has nothing to do. Manifests that few readers can read are always rewritten.

In layout sfc-1, leaves are written again that `leaf_debt` finds due, small ones are merged, and
files that the root lists itself move into leaves. Leaves of any partition spec are one group.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from math import ceil

import pyarrow.compute as pc

from icectl.entries.partition_key import spread
from icectl.entries.rows import (
    Entries,
    count_by_manifest,
    live,
    numbers,
    position_delete_files,
    where,
)
from icectl.errors import UsageError
from icectl.format.layout import Layout
from icectl.format.manifest import FileFormat, ManifestContent
from icectl.format.metadata import TableMetadata
from icectl.format.partition import result_types
from icectl.table.leaf_debt import leaf_debt
from icectl.table.manifest_groups import (
    LARGE,
    SMALL,
    ManifestGroup,
    ManifestsWithEntries,
    RewriteOptions,
    RewritePlan,
    group_clusters,
    live_in,
)
from icectl.table.reviewed import REWRITE_MANIFEST, Reviewed
from icectl.units import print_count, print_size

_SPREAD = 2
"""How many times more manifests than needed the partitions lie in before all are regrouped."""


def plan(
    metadata: TableMetadata, branch: str, listed: ManifestsWithEntries, options: RewriteOptions
) -> RewritePlan:
    """Decide what of a snapshot's manifests is regrouped.

    Raises: UsageError for a spec or field that there is not.
    Spec: R-061 (one spec and content a manifest), R-069, R-212.
    """
    _check_fields(metadata, options)
    members: dict[tuple[int, ManifestContent], list[int]] = {}
    for at, manifest in enumerate(listed.manifests):
        members.setdefault((manifest.partition_spec_id, manifest.content), []).append(at)
    planning = _Planning(metadata, listed, options)
    groups = tuple(
        planning.with_due(planning.decide(ManifestGroup(*key, (), tuple(indexes), "")))
        for key, indexes in sorted(members.items())
    )
    if any(group.rewritten for group in groups):
        groups = tuple(map(planning.without_emptied, groups))
    return RewritePlan(branch, options, groups)


def plan_leaves(
    metadata: TableMetadata, branch: str, listed: ManifestsWithEntries, options: RewriteOptions
) -> RewritePlan:
    """Decide which leaves of layout sfc-1 are written again, data and deletes apart (sfc-1 7.6).

    Raises: UsageError for a spec or field that there is not.
    """
    _check_fields(metadata, options)
    planning = _Planning(metadata, listed, options)
    groups = []
    for content in ManifestContent:
        chosen = tuple(at for at, item in enumerate(listed.manifests) if item.content is content)
        if chosen:
            group = ManifestGroup(options.spec_id, content, (), chosen, "nothing to gain")
            groups.append(planning.decide_leaves(group))
    return RewritePlan(branch, options, tuple(groups))


def _check_fields(metadata: TableMetadata, options: RewriteOptions) -> None:
    """Check that the table has the spec and the fields that are asked for. Raises: UsageError."""
    hint = "`icectl inspect TABLE specs` lists them"
    if options.spec_id is not None and metadata.spec(options.spec_id) is None:
        raise UsageError(f"the table has no partition spec {options.spec_id}", hint=hint)
    specs = [spec for spec in metadata.partition_specs if options.spec_id in (None, spec.spec_id)]
    for name in options.sort_by:
        if not any(field.name == name for spec in specs for field in spec.fields):
            raise UsageError(f"`--sort-by`: there is no partition field `{name}`", hint=hint)


_FIXED = "position delete files stay in manifests of their version"
"""Why delete leaves stay that could not have their entries (sfc-1 C-30)."""

PLANS = {Layout.MANIFEST_LISTS: plan, Layout.SFC_1: plan_leaves}
"""The plan of each layout of a table."""


def restrict_to_reviewed(
    metadata: TableMetadata, plan: RewritePlan, listed: ManifestsWithEntries, only: Reviewed
) -> RewritePlan:
    """Return the plan of those manifests alone that a reviewed plan names; the others stay."""
    named = only.subjects(REWRITE_MANIFEST)
    planning = _Planning(metadata, listed, plan.options)

    def restricted(group: ManifestGroup) -> ManifestGroup:
        chosen = tuple(at for at in group.rewritten if listed.manifests[at].manifest_path in named)
        if chosen == group.rewritten:
            return group
        whole = replace(group, kept=tuple(sorted((*group.rewritten, *group.kept))), rewritten=())
        if not chosen:
            return replace(whole, expected=0, entries=0, clusters=0, bytes_before=0)
        return planning.rewriting(whole, chosen, group.reason)

    return replace(plan, groups=tuple(map(restricted, plan.groups)))


@dataclass(frozen=True, slots=True)
class _Planning:
    """The planning of groups of listed manifests."""

    metadata: TableMetadata
    listed: ManifestsWithEntries
    options: RewriteOptions

    def decide(self, group: ManifestGroup) -> ManifestGroup:
        """Regroup a group by its partitions or by size, unless it is skipped."""
        options = self.options
        excluded = self._excluded(group)
        if excluded is not None:
            return replace(group, reason=excluded)
        if options.every:
            return self.rewriting(group, group.kept, "all manifests were requested")
        scattered = self._scattered(group.kept)
        if scattered is not None:
            return self.rewriting(group, group.kept, scattered)
        return self.by_size(group)

    def _scattered(self, manifests: Sequence[int]) -> str | None:
        """Return why all of some manifests are regrouped, if partitions are spread over them."""
        if len(manifests) < max(self.options.min_manifests, 2):
            return None
        entries = live_in(self.listed, manifests)
        clusters = group_clusters(self.metadata, entries, self.options)
        places = spread(clusters, numbers(entries, "manifest"))
        if places <= _SPREAD * (clusters.count + self._count(manifests) - 1):
            return None
        return self._spread(entries, clusters.count, places)

    def _spread(self, entries: Entries, count: int, places: int) -> str:
        """Return in words that entries of each partition, or of all rows, lie in many places."""
        spec = self.metadata.spec(entries.table["spec_id"][0].as_py())
        if spec is not None and spec.is_unpartitioned and count == 1:
            return f"entries are spread over {print_count(places, 'place')}"
        are = "is" if count == 1 else "are"
        return f"{print_count(count, 'partition')} {are} spread over {print_count(places, 'place')}"

    def with_due(self, group: ManifestGroup) -> ManifestGroup:
        """Have manifests rewritten whatever that gains.

        They are those that few readers can read (R-212), and those of another file format than is
        asked for.
        """
        if self._excluded(group) is not None:
            return group
        listed, form, kept = self.listed, self.options.file_format, frozenset(group.kept)
        dues = [(listed.broken & kept, "with lengths that no schema gives")]
        if form is not None:
            is_parquet = form is FileFormat.PARQUET
            others = kept - listed.parquet if is_parquet else kept & listed.parquet
            dues.append((others, f"not in {form.name.capitalize()}"))
        for due, why in dues:
            if due:
                whole = replace(group, kept=tuple(sorted((*group.rewritten, *group.kept))))
                reason = f"{len(due):,} {why}"
                reason = f"{group.reason}, {reason}" if group.rewritten else reason
                group = self.rewriting(whole, tuple(sorted({*group.rewritten, *due})), reason)
        return group

    def without_emptied(self, group: ManifestGroup) -> ManifestGroup:
        """Drop manifests without a live entry, as a commit is made anyway (R-056)."""
        emptied = {at for at in group.kept if not self.listed.live_counts[at]}
        if not emptied or self._excluded(group) is not None:
            return group
        stored = sum(self.listed.manifests[at].manifest_length for at in emptied)
        return replace(
            group,
            rewritten=tuple(sorted({*group.rewritten, *emptied})),
            kept=tuple(at for at in group.kept if at not in emptied),
            reason=group.reason if group.rewritten else f"{len(emptied):,} without a live entry",
            bytes_before=group.bytes_before + stored,
        )

    def _excluded(self, group: ManifestGroup) -> str | None:
        """Return why a group of one spec is skipped; None if it is not."""
        assert group.spec_id is not None
        if self.options.spec_id not in (None, group.spec_id):
            return f"not of spec {self.options.spec_id}"
        if self.options.content not in ("all", group.content.name.lower()):
            return f"not of {self.options.content}"
        spec = self.metadata.spec(group.spec_id)
        if spec is None:
            return "its partition spec is not in the table metadata"
        if any(field.transform.name == "unknown" for field in spec.fields):
            return "its partition spec has a transform that icectl does not know"
        if None in result_types(spec, self.metadata.schemas):
            return "its partition spec has a column that is in no schema"
        return None

    def decide_leaves(self, group: ManifestGroup) -> ManifestGroup:
        """Choose the leaves of a content that are written again, unless it is skipped.

        With those that are due, small ones are merged: what comes out leaves the next run nothing.
        """
        options, listed, manifests = self.options, self.listed, self.listed.manifests
        if options.content not in ("all", group.content.name.lower()):
            return replace(group, reason=f"not of {options.content}")
        movable = self._movable(group)
        if not movable:
            deletes = position_delete_files(live_in(listed, group.kept))
            return replace(group, reason=_FIXED) if len(deletes) else group
        if options.every:
            return self.rewriting(group, movable, "all manifests were requested")
        leaves = tuple(at for at in movable if not manifests[at].in_root)
        scattered = self._scattered(leaves)
        in_root = {at for at in movable if manifests[at].in_root and listed.live_counts[at]}
        debt = leaf_debt({at: manifests[at] for at in leaves}, options.leaf_limits)
        due = in_root | debt.due
        sized = replace(self, listed=_as_small(listed, due)).by_size(
            replace(group, kept=tuple(sorted({*leaves, *in_root})))
        )
        chosen = {*sized.rewritten, *due, *(leaves if scattered else ())}
        if not chosen:
            return group
        reasons = [scattered] if scattered else [sized.reason] if sized.rewritten else []
        reasons += debt.reasons + (["the root lists files itself"] if in_root else [])
        return self.rewriting(group, tuple(sorted(chosen)), ", ".join(reasons))

    def _movable(self, group: ManifestGroup) -> tuple[int, ...]:
        """Return manifests whose rows a leaf can hold, of the spec that is asked for (sfc-1 7.6).

        Step 6: no position delete files, and no tuples of unknown types.
        """
        manifests, entries = self.listed.manifests, live(self.listed.entries)
        fixed = count_by_manifest(position_delete_files(entries), len(manifests))
        known = {
            spec.spec_id
            for spec in self.metadata.partition_specs
            if not any(item.transform.name == "unknown" for item in spec.fields)
            and None not in result_types(spec, self.metadata.schemas)
        }
        of_spec: Sequence[int] | None = None
        if self.options.spec_id is not None:
            chosen = pc.equal(entries.table["spec_id"], self.options.spec_id)
            of_spec = count_by_manifest(where(entries, chosen), len(manifests))
        return tuple(
            at
            for at in group.kept
            if not fixed[at]
            and manifests[at].partition_spec_id in known
            and (of_spec is None or of_spec[at])
        )

    def by_size(self, group: ManifestGroup) -> ManifestGroup:
        """Merge the small manifests of a group and cut the large ones, if the number changes."""
        lowest = SMALL * self.options.target_size_bytes
        highest = LARGE * self.options.target_size_bytes
        sizes = {at: self.listed.manifests[at].manifest_length for at in group.kept}
        small = [at for at, size in sizes.items() if size < lowest]
        large = [
            at for at, size in sizes.items() if size > highest and self.listed.live_counts[at] > 1
        ]
        merged = self._count(small) if small else 0
        few = len(small) < max(self.options.min_manifests, merged + 1, 2)
        if few and not large:
            return replace(group, reason="nothing to gain")
        reasons = [] if few else [f"{len(small):,} smaller than {print_size(round(lowest))}"]
        reasons += [f"{len(large):,} larger than {print_size(round(highest))}"] if large else []
        rewritten = tuple(sorted(large if few else [*small, *large]))
        return self.rewriting(group, rewritten, ", ".join(reasons))

    def rewriting(
        self, group: ManifestGroup, rewritten: tuple[int, ...], reason: str
    ) -> ManifestGroup:
        """Return the group with some of its manifests rewritten, for a reason."""
        entries, chosen = live_in(self.listed, rewritten), frozenset(rewritten)
        return replace(
            group,
            rewritten=rewritten,
            kept=tuple(at for at in group.kept if at not in chosen),
            reason=reason,
            expected=self._count(rewritten) if len(entries) else 0,
            entries=sum(self.listed.live_counts[at] for at in rewritten),
            clusters=group_clusters(self.metadata, entries, self.options).count,
            bytes_before=sum(self.listed.manifests[at].manifest_length for at in rewritten),
        )

    def _count(self, manifests: Sequence[int]) -> int:
        """Return the number of manifests of the target size that the live entries need."""
        stored = sum(self.listed.manifests[at].manifest_length for at in manifests)
        needed = max(1, ceil(stored / self.options.target_size_bytes))
        if self.options.max_entries is None:
            return needed
        live_count = sum(self.listed.live_counts[at] for at in manifests)
        return max(needed, ceil(live_count / self.options.max_entries))


def _as_small(listed: ManifestsWithEntries, due: Collection[int]) -> ManifestsWithEntries:
    """Count leaves that are written in any case as small, so that small ones go with them."""
    manifests = list(listed.manifests)
    for at in due:
        manifests[at] = replace(manifests[at], manifest_length=0)
    return replace(listed, manifests=tuple(manifests))
