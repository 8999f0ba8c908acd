"""The properties of a table and their changes, as result members and as text."""

from collections.abc import Mapping
from typing import Any

from icectl.cli.console import Console
from icectl.cli.document import print_new_metadata_file
from icectl.cli.tables import TableColumn, print_pairs, print_table
from icectl.commands.change import MetadataReport
from icectl.commands.properties.plan import PropertyChange

_NOT_SET = "-"


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
        "changes": [
            {"key": change.key, "before": change.before, "after": change.after}
            for change in report.changes
        ],
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
        console.say("nothing to do: the properties are as wanted")
        return
    columns = (
        TableColumn("property"),
        TableColumn("before", cut="wrap"),
        TableColumn("after", cut="wrap"),
    )
    rows = [(change.key, _value(change.before), _value(change.after)) for change in report.changes]
    print_table(console, columns, rows)
    if report.done:
        console.say("the properties are changed")
        print_new_metadata_file(console, report.new_metadata_file)


def _value(value: str | None) -> str:
    return _NOT_SET if value is None else value
