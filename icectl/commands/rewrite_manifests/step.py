"""What `icectl rewrite-manifests` would do to a table, in figures."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from icectl.commands.bill import Work
from icectl.commands.rewrite_manifests.options import RewriteRequest
from icectl.commands.rewrite_manifests.parsed_options import options_of
from icectl.commands.rewrite_manifests.plan import PLANS
from icectl.commands.sight import Sight
from icectl.commands.steps import (
    OPEN_COST_BYTES,
    HealthCheck,
    Judgement,
    Limit,
    Measure,
    Step,
    first_error,
)
from icectl.errors import CorruptTable
from icectl.format.layout import Layout, layout_of_table
from icectl.format.manifest import ManifestFile
from icectl.table.leaf_debt import legacy_count
from icectl.table.manifest_groups import RewritePlan
from icectl.units import print_count, print_size

COMMAND = "rewrite-manifests"
_ENTRY_BYTES = 100
"""Bytes of an entry, at most, where manifests have few."""


@dataclass(frozen=True, slots=True)
class ManifestFigures:
    """The manifests of a snapshot, and what a rewrite makes of some."""

    count: int = 0
    size_bytes: int = 0
    target_bytes: int = 0
    dead_files: int = 0
    legacy: int = 0
    before: int = 0
    after: int = 0

    @property
    def saved(self) -> int:
        """The number of manifests that there are fewer."""
        return max(self.before - self.after, 0)


def plan(sight: Sight, request: RewriteRequest) -> Judgement:
    """Plan a rewrite of the manifests."""
    metadata = sight.metadata
    options = options_of(request)(metadata)
    # What a root of version 4 lists itself is in no manifest.
    manifests = [manifest for manifest in sight.manifests if not manifest.in_root]
    figures = ManifestFigures(
        len(manifests),
        sum(manifest.manifest_length for manifest in manifests),
        options.target_size_bytes,
        sum(manifest.dead_count for manifest in manifests),
        legacy_count(manifests) if layout_of_table(metadata) is Layout.SFC_1 else 0,
    )
    error = first_error(sight.check_base, sight.check_files)
    if isinstance(error, CorruptTable):
        return Judgement(figures, error=error)
    planned = PLANS[layout_of_table(metadata)](
        metadata, request.branch, sight.listed_manifests, options
    )
    if not planned.chosen:
        return Judgement(figures)
    figures = replace(
        figures,
        before=sum(len(group.rewritten) for group in planned.chosen),
        after=sum(group.expected for group in planned.chosen),
    )
    text = f"rewriting would {_changed(figures)}"
    return Judgement(
        figures,
        (Measure("manifests-to-save", figures.saved, text),),
        figures.saved * OPEN_COST_BYTES,
        error or first_error(lambda: _check_movable(sight, planned)),
        work=sight.run_work + _work(figures, manifests),
    )


def _work(figures: ManifestFigures, manifests: Sequence[ManifestFile]) -> Work:
    """Return what a rewrite writes; all manifests are read anyway.

    They are taken to be of average size, and to begin alike: there are fewer such beginnings then.
    """
    size_bytes = figures.size_bytes * figures.before // max(figures.count, 1)
    beginnings = (
        item.manifest_length - _ENTRY_BYTES * (item.live_files + (item.deleted_files_count or 0))
        for item in manifests
        if item.live_files is not None
    )
    return Work(
        written_bytes=size_bytes - figures.saved * max(min(beginnings, default=0), 0),
        put_requests=figures.after,
        fewer_requests=figures.saved,
    )


def _check_movable(sight: Sight, planned: RewritePlan) -> None:
    from icectl.commands.rewrite_manifests.run import check_movable  # only where there is work

    headers = [sight.headers[at] for at in range(len(sight.manifests))]
    check_movable(sight.metadata, planned, sight.listed_manifests, headers)


def _changed(figures: ManifestFigures) -> str:
    before = print_count(figures.before, "manifest")
    if figures.saved:
        return f"reduce {before} to {figures.after:,}"
    return f"make {figures.after:,} of {before}"


def _found(figures: ManifestFigures) -> str:
    text = f"{print_count(figures.count, 'manifest')}, {print_size(figures.size_bytes)}"
    if figures.before:
        target = print_size(figures.target_bytes)
        text = f"{text}; at the target size of {target}, rewriting would {_changed(figures)}"
    if figures.legacy:
        text += f"; {figures.legacy:,} in the form of older versions"
    if figures.dead_files:
        text += f"; delete vectors over them remove {figures.dead_files:,} of their files"
    return text


def _members(figures: ManifestFigures) -> Mapping[str, object]:
    return {
        "manifest_count": figures.count,
        "manifest_bytes": figures.size_bytes,
        "target_manifest_size_bytes": figures.target_bytes,
        "surplus_manifest_count": figures.saved,
        "dead_file_count": figures.dead_files,
    }


_LIMIT = Limit(
    "manifests-to-save", "fewer manifests", "rewrite manifests if that eliminates N or more"
)
_CHECK = HealthCheck("manifest_debt", "manifests", (_LIMIT.name,), _found, _members)

STEP: Step = Step(
    COMMAND,
    RewriteRequest,
    lambda _settings, _now_ms, request: options_of(request),
    plan,
    ManifestFigures(),
    (_LIMIT,),
    (_CHECK,),
    not_in_policies={"branch": None, "rewrite-all": None},
)
