"""The plan and the outcome of a removal of orphans, as result members and as text."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, get_args

from icectl.cli.console import Console
from icectl.cli.document import Listed
from icectl.cli.tables import TableColumn, print_table
from icectl.commands.remove_orphans.deletion import OrphansGone, Spared
from icectl.commands.remove_orphans.purge import PurgePlan, Unpurged
from icectl.storage.many_files import ManyFiles, each_file, first_files
from icectl.table.orphan_verdicts import OrphanPlan
from icectl.units import print_count, print_instant, print_limit, print_second, print_size

LISTED_WITHOUT_VERBOSE = 40
"""Files that are listed when the whole plan was not asked for."""

_REASONS = {
    "recent": "modified too recently",
    "without_time": "without a modification time",
    "hidden": "on a hidden path (a name that begins with `_` or `.`)",
    "journal": "journals of icectl",
    "running": "files of an icectl run that may still commit",
    "gone": "already deleted by others",
    "changed": "rewritten since then",
    "referenced": "referenced by a commit since the listing",
    "with_its_file": "checksums of kept files",
}


_NOT_PURGED: Mapping[Unpurged, str] = {
    "young": "moved too recently",
    "unlisted": "not listed as copies for this table",
    "changed": "changed since they were moved",
    "referenced": "referenced by the table",
}


@dataclass(frozen=True, slots=True)
class Orphans:
    """The plan of a removal, and its outcome.

    `given_metadata_file` is current by the caller's word; `engine` lists and compares files.
    """

    table_location: str
    plan: OrphanPlan
    moves: bool
    given_metadata_file: str | None
    engine: str
    outcome: OrphansGone | None = None
    purge: PurgePlan | None = None


def orphans_result(report: Orphans) -> dict[str, Any]:
    """Return the result: the orphans, and how many were deleted or moved."""
    plan, outcome = report.plan, report.outcome
    count = 0 if outcome is None else len(outcome.removed)
    total = 0 if outcome is None else outcome.removed.total_bytes
    quarantine = None
    if outcome is not None and outcome.quarantine is not None:
        folder = outcome.quarantine
        quarantine = {"location": folder.folder, "lists": list(folder.lists)}
    return {
        "engine": report.engine,
        "older_than": print_limit(plan.rule.older_than_ms),
        "listed": plan.listed_count,
        "listed_bytes": plan.listed_bytes,
        "referenced": plan.referenced_count,
        "orphans": _files(plan.orphans),
        "orphan_bytes": plan.orphans.total_bytes,
        "outside": _files(plan.outside),
        "left_alone": _left_alone(report),
        "removed": 0 if report.moves else count,
        "removed_bytes": 0 if report.moves else total,
        "quarantined": count if report.moves else 0,
        "quarantined_bytes": total if report.moves else 0,
        "quarantine": quarantine,
        "purge": None
        if report.purge is None
        else {
            "older_than": print_limit(report.purge.older_than_ms),
            "files": _files(report.purge.files),
            "bytes": report.purge.files.total_bytes,
            "left_alone": {
                name: report.purge.left_alone.get(name, 0) for name in get_args(Unpurged)
            },
        },
        "purged": 0 if outcome is None else len(outcome.purged),
        "purged_bytes": 0 if outcome is None else outcome.purged.total_bytes,
        "failed": [
            {"path": item.location, "error": item.error}
            for item in (() if outcome is None else outcome.failed)
        ],
    }


def orphans_line(report: Orphans) -> str:
    """Return how many orphans were deleted or moved, or would be, and their bytes."""
    plan, outcome = report.plan, report.outcome
    verb = "moved" if report.moves else "deleted"
    if outcome is None:
        orphans, size = print_count(plan.deletable_count, "orphan"), plan.deletable_bytes
        line = f"{orphans} to be {verb}, {print_size(size)}"
    else:
        orphans, size = print_count(len(outcome.removed), "orphan"), outcome.removed.total_bytes
        line = f"{orphans} {verb}, {print_size(size)}"
    purged = _purged(report)
    if not len(purged):
        return line
    to_be = "to be " if outcome is None else ""
    return f"{line}; {to_be}purged from the quarantine: {_amount(purged)}"


def _amount(files: ManyFiles) -> str:
    return f"{print_count(len(files), 'file')}, {print_size(files.total_bytes)}"


def _purged(report: Orphans) -> ManyFiles:
    """Return the files that are purged from the quarantine, or would be."""
    if report.outcome is not None:
        return report.outcome.purged
    return ManyFiles() if report.purge is None else report.purge.files


def _files(files: ManyFiles) -> Listed:
    return Listed(
        len(files),
        lambda: (
            {
                "path": file.location,
                "size_bytes": file.size_bytes,
                "modified": None if file.modified_ms is None else print_instant(file.modified_ms),
            }
            for file in each_file(files)
        ),
    )


def _left_alone(report: Orphans) -> dict[str, int]:
    """Return the number of unreferenced files that stay, by reason."""
    counts = {verdict.name.lower(): count for verdict, count in report.plan.left_alone.items()}
    spared = Counter[Spared]() if report.outcome is None else report.outcome.spared
    return counts | {reason: spared[reason] for reason in get_args(Spared)}


def question(report: Orphans) -> str:
    """Return the question that the user is asked before anything happens."""
    verb = "move" if report.moves else "delete"
    files, size = print_count(report.plan.deletable_count, "file"), report.plan.deletable_bytes
    text = f"{verb} {files}, {print_size(size)}, that {report.table_location} does not refer to"
    if report.given_metadata_file is not None:
        text += f", as you say that {report.given_metadata_file} is its current metadata file"
    purged = _purged(report)
    if not len(purged):
        return f"{text}?"
    purge = f"delete {_amount(purged)}, in the quarantine for good"
    return f"{text}, and {purge}?" if report.plan.deletable_count else f"{purge}?"


def print_orphans(console: Console, report: Orphans, *, whole: bool) -> None:
    """Print the plan or the outcome; `whole`: every file of a plan, and why others stay."""
    if report.outcome is not None:
        _print_removed(console, report, report.outcome)
        return
    plan = report.plan
    purged = _purged(report)
    if plan.deletable_count + len(purged):
        outside = [plan.outside] if plan.deletes_outside else []
        _print_files(console, report, [plan.orphans, *outside, purged], whole=whole)
    if whole:
        _print_left_alone(console, report)
        _print_unpurged(console, report)
        console.say(f"engine: {report.engine}")
    _print_outside(console, report)
    verb = "moved" if report.moves else "deleted"
    if report.purge is not None and len(purged):
        limit = print_limit(report.purge.older_than_ms // 1000 * 1000)
        console.say(
            f"{_amount(purged)}, would be purged from the quarantine: moved there before {limit}"
        )
    if not plan.deletable_count and not len(purged):
        if not whole:
            _print_left_alone(console, report)
        console.say(f"nothing to do: no orphans among {print_count(plan.listed_count, 'file')}")
        return
    if not plan.deletable_count:
        return
    console.say(
        f"{print_count(plan.deletable_count, 'file')} of {plan.listed_count:,}, "
        f"{print_size(plan.deletable_bytes)} of {print_size(plan.listed_bytes)}, would be {verb}: "
        f"not referred to, and older than {print_limit(plan.rule.older_than_ms // 1000 * 1000)}"
    )


def _print_removed(console: Console, report: Orphans, outcome: OrphansGone) -> None:
    removed, verb = outcome.removed, "moved" if report.moves else "deleted"
    for file in first_files(removed, LISTED_WITHOUT_VERBOSE):
        console.detail(f"{verb} {file.location}")
    _print_left_alone(console, report)
    _print_outside(console, report)
    where = "" if outcome.quarantine is None else f" to {outcome.quarantine.folder}"
    size = print_size(removed.total_bytes)
    console.say(f"{print_count(len(removed), 'file')} {verb}{where}, {size}")
    if len(outcome.purged):
        console.say(f"{_amount(outcome.purged)}, purged from the quarantine")
    for item in outcome.failed:
        console.warn(f"cannot {'move' if report.moves else 'delete'} {item.location}: {item.error}")
    if outcome.stopped:
        console.warn("it stopped early; run the command again to finish")


def _print_files(
    console: Console, report: Orphans, every: Sequence[ManyFiles], *, whole: bool
) -> None:
    count = sum(map(len, every))
    shown = count if whole else min(count, LISTED_WITHOUT_VERBOSE)
    base = report.table_location.rstrip("/") + "/"
    size_column = TableColumn("bytes", align="right")
    columns = (size_column, TableColumn("modified"), TableColumn("file", cut="middle"))
    table = Listed(
        shown,
        lambda: (
            (
                f"{file.size_bytes:,}",
                "?" if file.modified_ms is None else print_second(file.modified_ms),
                file.location.removeprefix(base),
            )
            for file in islice(each_file(chain.from_iterable(every)), shown)
        ),
    )
    print_table(console, columns, table)
    if shown < count:
        console.print(f"and {count - shown:,} more: `--dry-run` lists all")
    console.print()


def _print_left_alone(console: Console, report: Orphans) -> None:
    for name, count in _left_alone(report).items():
        if count:
            console.say(f"kept {print_count(count, 'file')}: {_REASONS[name]}")


def _print_unpurged(console: Console, report: Orphans) -> None:
    for name, count in ({} if report.purge is None else report.purge.left_alone).items():
        if count:
            files = print_count(count, "file")
            console.say(f"kept {files} in the quarantine: {_NOT_PURGED[name]}")


def _print_outside(console: Console, report: Orphans) -> None:
    plan = report.plan
    if plan.deletes_outside or not len(plan.outside):
        return
    count = print_count(len(plan.outside), "file")
    console.note(f"{count} outside the table's location: kept (see `--delete-outside`)")
    for file in first_files(plan.outside, LISTED_WITHOUT_VERBOSE):
        console.note(f"  {file.location}")
