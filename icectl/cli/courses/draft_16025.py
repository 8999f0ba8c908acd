"""The upstream draft of version 4 on the command line: exports, and roots of it as TABLE."""

from dataclasses import replace
from pathlib import Path

from icectl.cli.commands.upgrade_to_v4 import UpgradeRequest
from icectl.cli.options import Change, Common
from icectl.cli.session import identity_of, open_session
from icectl.errors import UsageError
from icectl.report.document import Outcome
from icectl.report.draft_16025 import Export, export_result, print_export
from icectl.run.draft_16025.export import ROOT, ExportPlan, execute, prepare
from icectl.spec.layout import DRAFT_16025
from icectl.storage.location import join, scheme
from icectl.units import print_count


def export(common: Common, table: str, request: UpgradeRequest, change: Change) -> Outcome:
    """Write a snapshot in the form of the draft, unless the plan is all that was asked for.

    Raises: UsageError; as run/draft_16025/export.py.
    """
    folder = _folder(request)
    session = open_session(common, table, read_only=True, change=change)
    reader = session.read("exported")
    plan = prepare(reader, request.branch, folder)
    told = Export(
        from_version=reader.metadata.format_version,
        folder=folder,
        root=join(folder, ROOT),
        snapshot_id=plan.snapshot.snapshot_id,
        leaf_count=plan.leaf_count,
        live_count=plan.live_count,
        notes=_notes(plan),
    )
    session.approve(lambda: export_result(told))
    planning = change.dry_run or change.check
    if not planning:
        done = execute(reader, plan)
        told = replace(told, bytes_written=done.size_bytes, live_count=done.live_count)
    return Outcome(
        command="upgrade-to-v4",
        result=export_result(told),
        render=lambda console: print_export(console, told),
        table=identity_of(reader.loaded),
        exit_code=4 if change.check else 0,
        status="planned" if planning else "done",
        dry_run=planning,
    )


def _folder(request: UpgradeRequest) -> str:
    """The folder to write to, with a scheme. Raises: UsageError."""
    if request.layout != DRAFT_16025 or not request.to:
        raise UsageError(
            f"`--layout {DRAFT_16025}` and `--to FOLDER` go together",
            hint="they write a snapshot in the form of the draft; the table stays as it is",
        )
    for option, given in (
        ("--lazy", request.lazy),
        ("--eager", request.eager),
        ("--convert-position-deletes", request.convert_position_deletes),
        ("--allow-read-only", request.allow_read_only),
    ):
        if given:
            raise UsageError(f"`{option}` means nothing to `--layout {DRAFT_16025}`")
    folder = request.to.rstrip("/") or "/"
    return folder if scheme(folder) else f"file:{Path(folder).absolute()}"


def _notes(plan: ExportPlan) -> tuple[str, ...]:
    """What the form does not say that the table does."""
    notes = ["column sizes have no place in it"]
    if plan.lost_vectors:
        vectors = print_count(plan.lost_vectors, "deletion vector")
        notes.append(f"left out, of data files that are not live: {vectors}")
    return tuple(notes)
