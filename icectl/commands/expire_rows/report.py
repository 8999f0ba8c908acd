"""The plan and the outcome of a deletion of expired rows, as JSON and as text."""

from dataclasses import dataclass
from textwrap import wrap
from typing import Any

from icectl.cli.console import Console
from icectl.cli.document import id_text, print_new_metadata_file
from icectl.cli.tables import TableColumn, print_table
from icectl.commands.expire_rows.plan import ExpireRowsPlan
from icectl.commands.rows.read import condition_ids
from icectl.format.types import PrimitiveType
from icectl.units import print_count, print_size

_SHOWN = 20


@dataclass(frozen=True, slots=True)
class ExpiredRows:
    """A plan, and what its execution committed: the snapshot, None where nothing was left to do."""

    plan: ExpireRowsPlan
    is_done: bool = False
    snapshot_id: int | None = None
    deleted_rows: int = 0
    removed_files: int = 0
    added_files: int = 0
    new_metadata_file: str | None = None


def expiry_result(report: ExpiredRows) -> dict[str, Any]:
    """Return the JSON members."""
    plan = report.plan
    return {
        "branch": plan.branch,
        "snapshot_id": None if plan.snapshot is None else id_text(plan.snapshot.snapshot_id),
        "filter": plan.filter.text,
        "time_columns": [column.name for column in plan.filter.columns],
        "field_ids": sorted(condition_ids(plan.filter.predicate)),
        "method": plan.method,
        "verify": plan.verify,
        "live_row_count": plan.live_row_count,
        "expired_row_count": plan.deleted_row_count,
        "expired_ratio": plan.fraction,
        "max_fraction": plan.max_fraction,
        "null_row_count": plan.null_count,
        "doubted_file_count": plan.doubted_count,
        "files": [
            {
                "path": file.path,
                "action": action,
                "size_bytes": file.size_bytes,
                "expired_row_count": file.record_count,
                "live_row_count": file.live_count,
            }
            for action, files in (
                ("drop", plan.dropped), ("empty", plan.emptied), ("change", plan.changed)
            )
            for file in files
        ],
        "kept_by": list(plan.other_refs),
        "deleted_row_count": report.deleted_rows if report.is_done else None,
        "removed_data_file_count": report.removed_files if report.is_done else None,
        "added_data_file_count": report.added_files if report.is_done else None,
        "new_snapshot_id": None if report.snapshot_id is None else id_text(report.snapshot_id),
    }  # fmt: skip


def expiry_line(report: ExpiredRows) -> str:
    """Return what a deletion comes to, as one line among other tables."""
    plan = report.plan
    if report.is_done:
        return f"{print_count(report.deleted_rows, 'row')} deleted"
    return f"{print_count(plan.deleted_row_count, 'row')} to delete"


def print_expiry(console: Console, report: ExpiredRows, *, whole: bool) -> None:
    """Print which rows go, with how many files; all files with `whole`, or `-v`."""
    plan = report.plan
    expired, every = f"{plan.deleted_row_count:,}", print_count(plan.live_row_count, "row")
    found = f"rows with {plan.filter.text}: {expired} of {every} ({plan.fraction:.1%})"
    refusal = None if report.is_done else plan.refusal
    refused = () if refusal is None else (f"refused: {refusal.message}", f"hint: {refusal.hint}")
    for text in (found, *refused, *_remarks(plan)):
        for line in wrap(text, console.prose_width):
            console.print(line)
    if not plan.has_work:
        console.say("nothing to do: no row has expired")
        return
    change = "rewrite without these rows" if plan.method == "rewrite" else "delete rows in"
    kinds = [
        (f"drop by metadata, checked by {plan.verify}", plan.dropped),
        ("drop, all rows read", plan.emptied),
        (change, plan.changed),
    ]
    console.print()
    counts = [TableColumn(name, align="right") for name in ("files", "rows", "bytes")]
    lines = [
        (name, f"{len(files):,}", f"{sum(file.record_count for file in files):,}",
         print_size(sum(file.size_bytes for file in files)))
        for name, files in kinds
        if files
    ]  # fmt: skip
    print_table(console, [TableColumn("what"), *counts], lines)
    if whole or console.options.verbosity > 0:
        console.print()
        shown = plan.files if console.options.verbosity > 0 else plan.files[:_SHOWN]
        columns = [TableColumn("rows", align="right"), TableColumn("file", cut="middle")]
        print_table(console, columns, [(f"{file.record_count:,}", file.path) for file in shown])
        if len(shown) < len(plan.files):
            console.print(f"and {len(plan.files) - len(shown):,} more: `-v`, `--json`")
    if report.is_done:
        console.print()
        rows, files = (
            print_count(report.deleted_rows, "row"), print_count(report.removed_files, "data file")
        )  # fmt: skip
        console.print(f"{rows} deleted: {files} removed, {report.added_files:,} added")
    print_new_metadata_file(console, report.new_metadata_file)


def _remarks(plan: ExpireRowsPlan) -> list[str]:
    remarks = []
    if plan.filter.needed is not None and plan.null_count != 0:
        counted = "rows" if plan.null_count is None else print_count(plan.null_count, "row")
        remarks.append(f"{counted} with null in `{plan.filter.needed.name}` stay")
    without_zone = [
        column.name
        for column in plan.filter.columns
        if column.type in (PrimitiveType("timestamp"), PrimitiveType("timestamp_ns"))
    ]
    if without_zone:
        remarks.append(f"`{'`, `'.join(without_zone)}` has no time zone and is read as UTC")
    if plan.doubted_count:
        remarks.append(
            f"{print_count(plan.doubted_count, 'file')}: footers do not confirm bounds and "
            "partitions, so rows were read"
        )
    if plan.other_refs and plan.has_work:
        remarks.append(f"these refs keep the rows: {', '.join(plan.other_refs)}")
    return remarks
