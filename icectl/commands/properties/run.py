"""The run of `icectl properties`: show, or plan and commit a change."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from icectl.cli.console import Console
from icectl.cli.document import Outcome, print_new_metadata_file
from icectl.cli.options import Change, Common
from icectl.cli.session import identity_of, open_session
from icectl.cli.tables import TableColumn, print_pairs, print_table
from icectl.commands.change import (
    MetadataReport,
    PlannedChange,
    carry_out,
    check_table_first,
    commit_metadata,
)
from icectl.commands.properties.options import VERBS, PropertiesRequest
from icectl.commands.properties.plan import (
    PropertyChange,
    likely_slips,
    parse_pairs,
    plan_set,
    plan_unset,
    updates,
)
from icectl.commit.output_journal import Leftovers
from icectl.errors import UsageError
from icectl.table.guard import open_to_change

COMMAND = "properties"


def run(common: Common, table: str, request: PropertiesRequest, change: Change) -> Outcome:
    """Show the properties, or change some."""
    if request.verb is None:
        session = open_session(common, table, read_only=True)
        loaded = session.open_for_reading("shown").loaded
        return Outcome(
            command=COMMAND,
            result=properties_result(MetadataReport(loaded.metadata)),
            render=lambda console: print_properties(console, loaded.metadata.properties),
            table=identity_of(loaded),
        )
    names = request.names or []
    if request.verb not in VERBS:
        check_table_first(COMMAND, VERBS, table, request.verb)
        usage = "set KEY=VALUE" if "=" in request.verb else "[set KEY=VALUE | unset KEY]"
        raise UsageError(
            f"`{request.verb}` is not `set` or `unset`", hint=f"icectl properties TABLE {usage}"
        )
    if not names:
        what = "KEY=VALUE" if request.verb == "set" else "KEY"
        raise UsageError(f"`{request.verb}` needs {what}")
    pairs = parse_pairs(names) if request.verb == "set" else {}
    keys = list(pairs) or names
    session = open_session(common, table, read_only=False, change=change)
    context = session.context
    leftovers = Leftovers(context, (COMMAND,))
    loaded = open_to_change(context.catalog)
    current = loaded.metadata.properties
    changes = plan_set(current, pairs) if pairs else plan_unset(current, keys)
    for name, meant in likely_slips(current, request.verb, keys):
        what = "is not set" if request.verb == "unset" else "is not a property that icectl reads"
        session.console.warn(f"`{name}` {what}" + (f"; `{meant}` is" if meant else ""))
    report = MetadataReport(loaded.metadata, changes)
    return carry_out(
        session,
        change,
        PlannedChange(
            command=COMMAND,
            loaded=loaded,
            report=report,
            result=properties_result,
            show=lambda console, properties, _: print_changes(console, properties),
            has_work=bool(changes),
            clean_up=lambda: leftovers.remove(loaded),
            execute=lambda: commit_metadata(context, leftovers, loaded, report, updates),
            superseded=lambda: MetadataReport(loaded.metadata),
        ),
    )


def properties_result(report: MetadataReport[PropertyChange]) -> dict[str, Any]:
    """Return the JSON members: all properties after the changes, and the changes."""
    after = dict(report.metadata.properties)
    for change in report.changes:
        if change.after is None:
            after.pop(change.key, None)
        else:
            after[change.key] = change.after
    return {
        "properties": dict(sorted(after.items())),
        "changes": [asdict(change) for change in report.changes],
    }


def print_properties(console: Console, properties: Mapping[str, str]) -> None:
    """Print all properties, by name."""
    if not properties:
        console.say("the table has no properties")
        return
    print_pairs(console, sorted(properties.items()))


def print_changes(console: Console, report: MetadataReport[PropertyChange]) -> None:
    """Print the changes, planned or made."""
    if not report.changes:
        console.say("nothing to do: the properties already have these values")
        return
    columns = (
        TableColumn("property"),
        TableColumn("before", cut="wrap"),
        TableColumn("after", cut="wrap"),
    )
    rows = [
        (change.key, *("-" if value is None else value for value in (change.before, change.after)))
        for change in report.changes
    ]
    print_table(console, columns, rows)
    if report.done:
        console.say("the properties are changed")
        print_new_metadata_file(console, report.new_metadata_file)
