"""The plan and the outcome of an erasure, or of a look at what is left, as JSON and as text."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Any

from icectl.cli.console import Console
from icectl.cli.document import id_text
from icectl.commands.erase.plan import ErasePlan, Left
from icectl.commands.erase.proof import Proof
from icectl.format.manifest import kind_of
from icectl.format.metadata import TableMetadata
from icectl.units import print_count

_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Erased:
    """What an execution has changed; `left` is what may still hold rows, `proof` the last look.

    A run that ended early has none.
    """

    row_count: int
    snapshot_ids: tuple[int, ...]
    expired_ids: tuple[int, ...]
    dropped_tags: tuple[str, ...]
    deleted_files: tuple[str, ...]
    left: tuple[Left, ...]
    proof: Proof | None = None


@dataclass(frozen=True, slots=True)
class Erasure:
    """A plan, the table that it is of, and what came of it; `proof` is of a look alone."""

    metadata: TableMetadata
    plan: ErasePlan
    outcome: Erased | None = None
    proof: Proof | None = None
    left: tuple[Left, ...] = ()

    @property
    def last_look(self) -> Proof | None:
        return self.proof if self.outcome is None else self.outcome.proof

    @property
    def orphans(self) -> tuple[str, ...]:
        """The orphans with such rows, quarantined ones too, where somebody has looked."""
        look = self.last_look
        return () if look is None else (*look.orphans, *look.quarantined)

    @property
    def everything_left(self) -> tuple[Left, ...]:
        return self.left if self.outcome is None else self.outcome.left

    @property
    def is_proved(self) -> bool | None:
        """Whether nothing is left; None before the first look, unless the run ended without one."""
        if self.last_look is None:
            return None if self.outcome is None else False
        return not self.everything_left


def erasure_result(report: Erasure) -> dict[str, Any]:
    """Return the JSON members."""
    plan, metadata, outcome = report.plan, report.metadata, report.outcome
    sought, found = plan.sought, plan.found
    proof = report.last_look
    return {
        "filter": sought.where,
        "key_columns": list(sought.key_columns),
        "key_count": sought.key_count,
        "keys_digest": sought.keys_digest,
        "max_fraction": plan.max_fraction,
        "listed_file_count": found.listed_count,
        "read_file_count": len(found.read) + len(found.unread),
        "files": [
            {
                "path": file.location,
                "kind": kind_of(file.content, file.file_format),
                "size_bytes": file.size_bytes,
                "row_count": file.record_count,
                "matching_row_count": file.count,
                "snapshot_ids": [id_text(id_) for id_ in found.snapshots_of([file])],
            }
            for file in found.files
        ],
        "branches": [
            {
                "name": branch.name,
                "live_row_count": branch.live_row_count,
                "matching_row_count": branch.row_count,
                "data_file_count": len(branch.files),
            }
            for branch in plan.branches
        ],
        "snapshots": [
            {
                "snapshot_id": id_text(id_),
                "refs": sorted(n for n, ref in metadata.refs.items() if ref.snapshot_id == id_),
            }
            for id_ in plan.snapshot_ids
        ],
        "tags": list(plan.tags),
        "tags_to_drop": list(plan.dropped),
        "expire_history": plan.expires,
        "erased_row_count": None if outcome is None else outcome.row_count,
        "new_snapshot_ids": [id_text(id_) for id_ in outcome.snapshot_ids] if outcome else [],
        "expired_snapshot_ids": [id_text(id_) for id_ in outcome.expired_ids] if outcome else [],
        "dropped_tags": list(outcome.dropped_tags) if outcome else [],
        "deleted_files": list(outcome.deleted_files) if outcome else [],
        "left": [{"subject": it.subject, "reason": it.reason} for it in report.everything_left],
        "is_proved": report.is_proved,
        "objects": None
        if proof is None
        else [
            {
                "path": item.location,
                "size_bytes": item.size_bytes,
                "kind": item.kind,
                "known_by": item.known_by,
                "etag": item.etag,
                "version_id": item.version_id,
            }
            for item in proof.objects
        ],
    }


def erasure_line(report: Erasure) -> str:
    """Return what an erasure comes to, as one line among other tables."""
    outcome = report.outcome
    if outcome is None:
        return f"{print_count(report.plan.row_count, 'row')} to erase"
    return f"{print_count(outcome.row_count, 'row')} erased"


def print_erasure(console: Console, report: Erasure, *, whole: bool) -> None:
    """Print what holds rows and what became of it; everything with `whole`, or `-v`."""
    for text in _sentences(report):
        for line in wrap(text, console.prose_width):
            console.print(line)
    left = report.everything_left
    if left:
        console.print("left:")
        _print_left(console, left, every=whole or console.options.verbosity > 0)
    proof = report.last_look
    if proof is None:
        return
    counts = Counter(item.known_by for item in proof.objects)
    known = ", ".join(f"{count:,} by {how}" for how, count in sorted(counts.items()))
    looked = f"{print_count(len(proof.objects), 'file')} looked at ({known or 'none'})"
    console.print(looked)
    if left:
        console.print(f"{print_count(len(left), 'item')} may still hold such rows")
    else:
        console.say("no file of the table has such a row")


def _print_left(console: Console, left: Sequence[Left], *, every: bool) -> None:
    """Print what is left by its reasons, with some of many subjects of one."""
    by_reason: dict[str, list[str]] = {}
    for item in left:
        by_reason.setdefault(item.reason, []).append(item.subject)
    for reason, subjects in by_reason.items():
        shown = subjects if every else subjects[:_SHOWN]
        for subject in shown:
            console.print(f"  {subject}")
        if len(shown) < len(subjects):
            console.print(f"  and {len(subjects) - len(shown):,} more; `-v` lists all")
        for line in wrap(reason, console.prose_width - 4):
            console.print(f"    {line}")


def _sentences(report: Erasure) -> list[str]:
    plan, outcome = report.plan, report.outcome
    sought, found = plan.sought, plan.found
    what = sought.where or f"{print_count(sought.key_count or 0, 'key')} of " + ", ".join(
        sought.key_columns
    )
    count, snapshots = len(found.files), print_count(len(plan.snapshot_ids), "snapshot")
    hold = "holds" if count == 1 else "hold"
    holding = f"{print_count(count, 'file')} of {snapshots} {hold} matches"
    texts = [f"{what}: {holding if count else 'no match'}"]
    for branch in plan.branches:
        rows = f"{branch.row_count:,} of {print_count(branch.live_row_count, 'row')}"
        files = print_count(len(branch.files), "data file")
        texts.append(f"branch {branch.name}: {rows} match, in {files}")
    if plan.tags:
        texts.append(f"tags on such snapshots: {', '.join(plan.tags)}")
    if outcome is not None:
        texts.append(
            f"{print_count(outcome.row_count, 'row')} erased, "
            f"{print_count(len(outcome.expired_ids), 'snapshot')} expired, "
            f"{print_count(len(outcome.deleted_files), 'file')} deleted"
        )
    return texts
