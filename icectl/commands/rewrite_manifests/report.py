"""The plan and the outcome of a rewrite of manifests, as result members and as text."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from icectl.cli.console import Console
from icectl.cli.document import id_text, print_new_metadata_file
from icectl.cli.tables import TableColumn, print_table
from icectl.format.manifest import ManifestFile
from icectl.table.manifest_groups import ManifestGroup, RewritePlan
from icectl.units import print_count, print_size


@dataclass(frozen=True, slots=True)
class Rewriting:
    """The plan of a rewrite, and the outcome of its execution.

    `written` are the new manifests; None where nothing was committed.
    """

    plan: RewritePlan
    manifests: Sequence[ManifestFile]
    written: Sequence[ManifestFile] | None = None
    snapshot_id: int | None = None
    new_metadata_file: str | None = None


def rewriting_result(rewriting: Rewriting) -> dict[str, Any]:
    """The result: of a plan, `added` and `bytes_after` are estimates of what a run would do."""
    chosen = rewriting.plan.chosen
    before = sum(group.bytes_before for group in chosen)
    written = rewriting.written
    return {
        "branch": rewriting.plan.branch,
        "rewritten": sum(len(group.rewritten) for group in chosen),
        "added": sum(g.expected for g in chosen) if written is None else len(written),
        "kept": sum(len(group.kept) for group in rewriting.plan.groups),
        "entries": sum(group.entries for group in chosen),
        "bytes_before": before,
        "bytes_after": (
            before if written is None else sum(item.manifest_length for item in written)
        ),
        "snapshot_id": id_text(rewriting.snapshot_id),
        "groups": [_group(group) for group in rewriting.plan.groups],
        "manifests_rewritten": [
            rewriting.manifests[at].manifest_path for group in chosen for at in group.rewritten
        ],
        "manifests_added": [item.manifest_path for item in written or ()],
    }


def _group(group: ManifestGroup) -> Mapping[str, Any]:
    return {
        "spec_id": group.spec_id,
        "content": group.content.name.lower(),
        "rewritten": len(group.rewritten),
        "kept": len(group.kept),
        "expected": group.expected,
        "entries": group.entries,
        "partitions": group.clusters,
        "bytes_before": group.bytes_before,
        "reason": group.reason,
    }


def print_rewriting(console: Console, rewriting: Rewriting, *, whole: bool) -> None:
    """Print each group with its reason, and the outcome.

    Every manifest too if `whole`, or with `-v`.
    """
    whole = whole or console.options.verbosity > 0
    if not rewriting.plan.chosen:
        if whole:
            _print_groups(console, rewriting.plan)
        console.say("nothing to do: rewriting manifests would gain nothing")
        return
    if rewriting.written is None or whole:
        _print_groups(console, rewriting.plan)
    if whole:
        _print_manifests(console, rewriting)
    console.say(_summary(rewriting))
    print_new_metadata_file(console, rewriting.new_metadata_file)


def _print_groups(console: Console, plan: RewritePlan) -> None:
    columns = (
        TableColumn("spec", "right"),
        TableColumn("content"),
        TableColumn("rewrite", "right"),
        TableColumn("keep", "right"),
        TableColumn("entries", "right"),
        TableColumn("reason", cut="wrap"),
    )
    rows = [
        (
            str(group.spec_id),
            group.content.name.lower(),
            f"{len(group.rewritten):,}",
            f"{len(group.kept):,}",
            f"{group.entries:,}",
            group.reason,
        )
        for group in plan.groups
    ]
    print_table(console, columns, rows)


def _print_manifests(console: Console, rewriting: Rewriting) -> None:
    rows = [
        (rewriting.manifests[at].manifest_path, print_size(rewriting.manifests[at].manifest_length))
        for group in rewriting.plan.chosen
        for at in group.rewritten
    ]
    console.print()
    print_table(
        console, (TableColumn("manifest", cut="middle"), TableColumn("bytes", "right")), rows
    )
    console.print()


def _summary(rewriting: Rewriting) -> str:
    result = rewriting_result(rewriting)
    before = _before(rewriting)
    stay = f"{result['kept']:,} {'stays' if result['kept'] == 1 else 'stay'}"
    if rewriting.written is None:
        return f"{before} would become about {result['added']:,}; {stay}"
    after = f"{result['added']:,} of {print_size(result['bytes_after'])}"
    return f"{before} became {after}; {stay}"


def _before(rewriting: Rewriting) -> str:
    """Say what is written anew: manifests, and the files that a root lists itself (sfc-1 7.6)."""
    chosen = [rewriting.manifests[at] for group in rewriting.plan.chosen for at in group.rewritten]
    manifests = [one for one in chosen if not one.in_root]
    size = print_size(sum(one.manifest_length for one in manifests))
    text = f"{print_count(len(manifests), 'manifest')} of {size}"
    if len(manifests) == len(chosen):
        return text
    return f"the root's own files and {text}" if manifests else "the root's own files"
