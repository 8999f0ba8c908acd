"""What `icectl rewrite-manifests` would do to a table, in figures."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from icectl.commands.bill import GETS_OF_MANIFEST, PUTS_OF_COMMIT, Work
from icectl.commands.rewrite_manifests.options import RewriteRequest
from icectl.commands.rewrite_manifests.parsed_options import options_of
from icectl.commands.rewrite_manifests.plan import PLANS
from icectl.commands.sight import Sight
from icectl.commands.steps import (
    OPEN_COST_BYTES,
    Check,
    Judgement,
    Limit,
    Measure,
    Step,
    first_error,
)
from icectl.errors import CorruptTable
from icectl.format.layout import Layout, layout_of_table
from icectl.table.leaf_debt import legacy_count
from icectl.table.manifest_groups import RewritePlan
from icectl.units import print_count, print_size

COMMAND = "rewrite-manifests"


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
        work=_work(figures),
    )


def _work(figures: ManifestFigures) -> Work:
    """Return what a rewrite takes: manifests of the table's average size."""
    size_bytes = figures.size_bytes * figures.before // max(figures.count, 1)
    return Work(
        other_bytes=size_bytes,
        written_bytes=size_bytes,
        get_requests=GETS_OF_MANIFEST * figures.before,
        put_requests=figures.after + PUTS_OF_COMMIT,
        fewer_requests=GETS_OF_MANIFEST * figures.saved,
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


_LIMIT = Limit("manifests-to-save", "fewer manifests", "rewrite manifests if that saves at least N")
_CHECK = Check("manifest_debt", "manifests", (_LIMIT.name,), _found, _members)

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
