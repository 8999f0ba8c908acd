"""The JSON document that every command can print, and the encoders of row output."""

import csv
import io
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from icectl import __version__
from icectl.cli.console import Console
from icectl.cli.escapes import inert, inert_json
from icectl.errors import IcectlError

_REGISTRATIONS = (
    ("PyIceberg", "there is no call for it: name the table as CATALOG.NAMESPACE.TABLE instead"),
    ("Spark", "DROP TABLE t (without PURGE), then CALL c.system.register_table('db.t', 'NEW')"),
    ("REST", 'POST .../register {"name": "t", "metadata-location": "NEW", "overwrite": true}'),
    (
        "SQL",
        (
            "UPDATE iceberg_tables SET previous_metadata_location = metadata_location, "
            "metadata_location = 'NEW' WHERE ... AND metadata_location = 'OLD'"
        ),
    ),
    (
        "Hive",
        (
            "ALTER TABLE t SET TBLPROPERTIES ('metadata_location' = 'NEW', "
            "'previous_metadata_location' = 'OLD')"
        ),
    ),
    ("Glue", "aws glue update-table with the parameter metadata_location, --version-id as read"),
)
"""How each kind of catalog is pointed at a file: none of them but SQL's looks at what is there."""


def print_new_metadata_file(
    console: Console, location: str | None, also: str | None = None
) -> None:
    """Print where the file is, and what to do with it; nothing where there is none."""
    if location is None:
        return
    console.say(f"new metadata file: {location}")
    console.say("point the catalog at it" + (f"; {also}" if also else ""))
    console.say("(NEW is that file, OLD the one it follows; nobody may commit meanwhile):")
    for kind, statement in _REGISTRATIONS:
        console.say(f"  {kind:<9}  {statement}")


SCHEMA_VERSION = 1
_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?\Z")

Status = Literal["planned", "done", "nothing-to-do", "incomplete", "failed", "refused", "unknown"]

_STATUS_OF_FAILURE: Mapping[int, Status] = {3: "incomplete", 5: "refused", 12: "unknown"}


@dataclass(frozen=True, slots=True)
class TableIdentity:
    """The table, in its version, that a document speaks of."""

    location: str
    uuid: str | None
    format_version: int
    metadata_location: str
    metadata_location_after: str | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a command: for scripts in `result`, for people through `render`.

    `status` and `exit_code` go together: `planned` 0 or 4, `incomplete` 3, `refused` 5,
    `unknown` 12. `warnings` are those that were not yet told through Progress. `plan` is the file
    of `--save-plan`, where the command makes that itself.
    """

    command: str
    result: Mapping[str, Any]
    render: Callable[[Console], None]
    table: TableIdentity | None = None
    exit_code: int = 0
    status: Status = "done"
    dry_run: bool = False
    warnings: Sequence[str] = field(default=())
    plan: str | None = None


def document(outcome: Outcome) -> dict[str, Any]:
    """Build the document of a command that ended by itself, but for its warnings."""
    return {
        **_head(outcome.command),
        "table": None if outcome.table is None else _table(outcome.table),
        "dry_run": outcome.dry_run,
        "exit": outcome.exit_code,
        "status": outcome.status,
        "result": clean(outcome.result),
        "warnings": [],
        "error": None,
    }


def failure(error: IcectlError, exit_code: int, command: str | None) -> dict[str, Any]:
    """Build the document of a command that ended with an error, but for its warnings."""
    return {
        **_head(command),
        "table": None,
        "dry_run": False,
        "exit": exit_code,
        "status": _STATUS_OF_FAILURE.get(exit_code, "failed"),
        "result": None,
        "warnings": [],
        "error": {
            "exit": exit_code,
            "id": error.error_id,
            "message": error.message,
            "hint": error.hint,
        },
    }


def _head(command: str | None) -> dict[str, Any]:
    return {"icectl": __version__, "schema": SCHEMA_VERSION, "command": command}


def table_json(table: TableIdentity) -> dict[str, Any]:
    """Return the table that a run began with, or a plan was made of."""
    return {
        "location": table.location,
        "uuid": table.uuid,
        "format_version": table.format_version,
        "metadata_location": table.metadata_location,
    }


def _table(table: TableIdentity) -> dict[str, Any]:
    return {**table_json(table), "metadata_location_after": table.metadata_location_after}


_PLAIN = frozenset({str, int, bool, type(None)})


def clean(value: Any) -> Any:
    """Turn values into what JSON can say: mappings, lists, and names for what is not a number."""
    if isinstance(value, Mapping):  # of texts and integers, most often
        return {
            str(key): item if type(item) in _PLAIN else clean(item) for key, item in value.items()
        }
    if isinstance(value, list | tuple | set | frozenset):
        return [clean(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def id_text(snapshot_id: int | None) -> str | None:
    """Write a snapshot id as JSON carries it: as text, since doubles round it."""
    return None if snapshot_id is None else str(snapshot_id)


def json_text(built: Mapping[str, Any], *, indent: int | None = None) -> str:
    """Print a document; ASCII, so that no locale can break it."""
    return inert_json(json.dumps(built, indent=indent, allow_nan=False))


def json_line(row: Mapping[str, Any]) -> str:
    """Print one row of `--format jsonl`."""
    return inert_json(json.dumps(clean(row), allow_nan=False))


def csv_text(columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> str:
    """Print rows of `--format csv`, with a header; nested values as JSON, null as nothing.

    A text stays in its line, and one that a spreadsheet would compute has a `'` in front.
    """
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow([_csv_cell(column) for column in columns])
    for row in rows:
        writer.writerow([_csv_cell(row.get(column)) for column in columns])
    return buffer.getvalue()


def _csv_cell(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping | list | tuple):
        return inert_json(json.dumps(clean(value), allow_nan=False))
    if isinstance(value, str):
        is_formula = value.startswith(("=", "+", "-", "@", "\t", "\r")) and not _NUMBER.match(value)
        return f"'{inert(value)}" if is_formula else inert(value)
    return value
