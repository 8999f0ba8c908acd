"""The run of `icectl label`: plan and commit."""

from typing import Any

from icectl.commands.label.options import LabelRequest
from icectl.commands.label.plan import plan, updates

from icectl.cli.console import Console
from icectl.cli.document import Outcome
from icectl.cli.options import Change, Common
from icectl.cli.session import open_session
from icectl.commands.change import MetadataReport, PlannedChange, carry_out, commit_metadata
from icectl.commit.output_journal import Leftovers
from icectl.table.guard import open_to_change

COMMAND = "label"


def run(common: Common, table: str, request: LabelRequest, change: Change) -> Outcome:
    """Plan the label and, unless only the plan was asked for, commit it."""
    session = open_session(common, table, read_only=False, change=change)
    leftovers = Leftovers(session.context, (COMMAND,))
    loaded = open_to_change(session.context.catalog)
    report = MetadataReport(loaded.metadata, plan(loaded.metadata, request))
    planned = PlannedChange(
        command=COMMAND,
        loaded=loaded,
        report=report,
        result=_result,
        show=lambda console, labels, _: _print(console, labels),
        line=lambda labels: "labelled" if labels.changes else "",
        has_work=bool(report.changes),
        clean_up=lambda: leftovers.remove(loaded),
        execute=lambda: commit_metadata(session.context, leftovers, loaded, report, updates),
        superseded=lambda: MetadataReport(loaded.metadata),
    )
    return carry_out(session, change, planned)


def _result(report: MetadataReport[str]) -> dict[str, Any]:
    return {"team": report.changes[0] if report.changes else None}


def _print(console: Console, report: MetadataReport[str]) -> None:
    console.say(f"team {report.changes[0]}" if report.changes else "nothing to do")
