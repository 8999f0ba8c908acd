"""JSON documents of a run and their schemas, row encoders, and files that options request."""

import csv
import io
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from icectl import __version__
from icectl.cli.console import Console
from icectl.env import Env
from icectl.errors import IcectlError, StorageError
from icectl.units import inert, inert_json, printable

_REGISTRATIONS = (
    ("PyIceberg", "there is no call for it: name the table as CATALOG.NAMESPACE.TABLE instead"),
    ("Spark", "DROP TABLE t (without PURGE), then CALL c.system.register_table('db.t', 'NEW')"),
    ("REST", 'POST .../register {"name": "t", "metadata-location": "NEW", "overwrite": true}'),
    ("SQL", ("UPDATE iceberg_tables SET previous_metadata_location = metadata_location, "
             "metadata_location = 'NEW' WHERE ... AND metadata_location = 'OLD'")),
    ("Hive", ("ALTER TABLE t SET TBLPROPERTIES ('metadata_location' = 'NEW', "
              "'previous_metadata_location' = 'OLD')")),
    ("Glue", "aws glue update-table with the parameter metadata_location, --version-id as read"),
)  # fmt: skip
"""How each kind of catalog is pointed at a file: none of them but SQL's looks at what is there."""


def print_new_metadata_file(
    console: Console, location: str | None, also: str | None = None
) -> None:
    """Print where the file is, and what to do with it; nothing where there is none."""
    if location is None:
        return
    console.say(f"new metadata file: {location}")
    console.say("point the catalog at it" + (f"; {also}" if also else ""))
    console.say(
        "(NEW is that file, OLD the one it follows; make sure that no writer commits before):"
    )
    for kind, statement in _REGISTRATIONS:
        console.say(f"  {kind:<9}  {statement}")


SCHEMA_VERSION = 1
_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?\Z")

Status = Literal["planned", "done", "nothing-to-do", "incomplete", "failed", "refused", "unknown"]


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
    `unknown` 12. `warnings` are those that were not yet told through Progress. `plan` has the parts
    of the file of `--save-plan`, where the command makes that itself. `line` says the same as the
    report in a line among other tables; empty for nothing to do.
    """

    command: str
    result: Mapping[str, Any]
    render: Callable[[Console], None]
    table: TableIdentity | None = None
    exit_code: int = 0
    status: Status = "done"
    dry_run: bool = False
    warnings: Sequence[str] = field(default=())
    plan: Iterable[str] | None = None
    line: str = ""


def document(outcome: Outcome, *, keeps_listed: bool = False) -> dict[str, Any]:
    """Build the document of a command that ended by itself, but for its warnings."""
    table = outcome.table
    return {
        **_head(outcome.command),
        "table": None
        if table is None
        else {**table_json(table), "metadata_location_after": table.metadata_location_after},
        "dry_run": outcome.dry_run,
        "exit": outcome.exit_code,
        "status": outcome.status,
        "result": clean(outcome.result, keeps_listed=keeps_listed),
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
        "status": {3: "incomplete", 5: "refused", 12: "unknown"}.get(exit_code, "failed"),
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


_ITEMS_AT_ONCE = 1_000
_PLAIN = frozenset({str, int, bool, type(None)})


class Listed:
    """A list in a result whose items are made each time that it is read: none of them is kept.

    `items` returns `count` items, of texts, integers, None and mappings of those.
    """

    def __init__(self, count: int, items: Callable[[], Iterable[Any]]) -> None:
        self._count = count
        self._items = items

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Any]:
        return iter(self._items())


def clean(value: Any, *, keeps_listed: bool = False) -> Any:
    """Turn values into what JSON can say: mappings, lists, and names for what is not a number.

    With `keeps_listed`, what is Listed stays so, for `json_parts`.
    """
    if isinstance(value, Mapping):  # of texts and integers, most often
        return {
            str(key): item if type(item) in _PLAIN else clean(item, keeps_listed=keeps_listed)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple | set | frozenset):
        return [clean(item, keeps_listed=keeps_listed) for item in value]
    if isinstance(value, Listed):
        return value if keeps_listed else list(value)
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def id_text(snapshot_id: int | None) -> str | None:
    """Write a snapshot id as JSON carries it: as text, since doubles round it."""
    return None if snapshot_id is None else str(snapshot_id)


def json_text(built: Mapping[str, Any], *, indent: int | None = None) -> str:
    """Print a document; ASCII, so that no locale can break it."""
    return inert_json(json.dumps(built, indent=indent, allow_nan=False))


class _HasListed(Exception):
    """A value holds something that is Listed."""


def json_parts(
    built: Mapping[str, Any],
    *,
    indent: int | None = None,
    sort_keys: bool = False,
    separators: tuple[str, str] | None = None,
) -> Iterator[str]:
    """Yield a document as `json.dumps` writes it, what is Listed some items at a time.

    A text in the document is never divided.
    """

    def refuse(value: Any) -> None:
        raise _HasListed if isinstance(value, Listed) else TypeError(f"no JSON: {value!r}")

    encoder = json.JSONEncoder(
        indent=indent,
        sort_keys=sort_keys,
        separators=separators,
        allow_nan=False,
        default=refuse,
    )
    return _json_parts(built, encoder, "\n")


def _json_parts(value: Any, encoder: json.JSONEncoder, line: str) -> Iterator[str]:
    """Yield a value that is indented as what follows the end of a `line`."""
    whole = None
    with suppress(_HasListed):
        whole = encoder.encode(value)
    if whole is not None:
        yield whole.replace("\n", line)
        return
    inner, end = "", ""
    if encoder.indent is not None:
        inner, end = line + " " * int(encoder.indent), line
    if isinstance(value, Listed):
        items = iter(value)
        before = "["
        while some := list(islice(items, _ITEMS_AT_ONCE)):
            text = encoder.encode(some)[1:-1].replace("\n", line)
            yield before + text.removesuffix(end)
            before = encoder.item_separator
        yield "[]" if before == "[" else end + "]"
        return
    is_object = isinstance(value, Mapping)
    members = value.items() if is_object else ((None, item) for item in value)
    before = "{" if is_object else "["
    for name, item in sorted(members) if is_object and encoder.sort_keys else members:
        key = "" if name is None else encoder.encode(name) + encoder.key_separator
        yield before + inner + key
        yield from _json_parts(item, encoder, inner or line)
        before = encoder.item_separator
    yield end + ("}" if is_object else "]")


def json_line(row: Mapping[str, Any]) -> str:
    """Print one row of `--format jsonl`."""
    return json_text(clean(row))


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
        return json_text(clean(value))
    if isinstance(value, str):
        is_formula = value.startswith(("=", "+", "-", "@", "\t", "\r")) and not _NUMBER.match(value)
        return f"'{inert(value)}" if is_formula else inert(value)
    return value


_TYPES: Mapping[str, tuple[type, ...]] = {
    "object": (dict,), "array": (list,), "string": (str,), "integer": (int,),
    "number": (int, float), "boolean": (bool,), "null": (type(None),),
}  # fmt: skip


def first_breach(value: Any, schema: Mapping[str, Any]) -> str | None:
    """Return what first breaks the schema, with its place; None for a value that keeps to it."""
    return next(_breaches(value, schema, schema.get("$defs", {}), "the top"), None)


def _breaches(value: Any, schema: Any, definitions: Mapping[str, Any], at: str) -> Iterator[str]:
    if schema is True:
        return
    if "$ref" in schema:
        schema = definitions[schema["$ref"].removeprefix("#/$defs/")]
    if "anyOf" in schema:
        breaches = [
            next(_breaches(value, type_, definitions, at), None) for type_ in schema["anyOf"]
        ]
        if None not in breaches:
            yield f"{at} has none of its types"
    yield from _of_value(value, schema, at)
    if isinstance(value, dict):
        missing = (name for name in schema.get("required", ()) if name not in value)
        yield from (f"{at} has no `{name}`" for name in missing)
        known, others = schema.get("properties", {}), schema.get("additionalProperties", True)
        for name, item in value.items():
            if name not in known and others is False:
                yield f"{at} has an unknown `{name}`"
            else:
                yield from _breaches(
                    item, known.get(name, others), definitions, f"`{name}` of {at}"
                )
    if isinstance(value, list):
        for number, item in enumerate(value):
            yield from _breaches(item, schema.get("items", True), definitions, f"{at}[{number}]")


def _of_value(value: Any, schema: Mapping[str, Any], at: str) -> Iterator[str]:
    types = schema.get("type")
    names = [types] if isinstance(types, str) else types
    if names is not None and not any(_is_of(value, name) for name in names):
        yield f"{at} is not of type {' or '.join(names)}"
    if "const" in schema and value != schema["const"]:
        yield f"{at} is not `{schema['const']}`"
    if "enum" in schema and value not in schema["enum"]:
        yield f"{at} is not one of {', '.join(map(str, schema['enum']))}"
    if isinstance(value, str) and not re.search(schema.get("pattern", ""), value):
        yield f"{at} is not written as it should be"
    if _is_of(value, "number") and value < schema.get("minimum", value):
        yield f"{at} is below {schema['minimum']}"
    if isinstance(value, list) and len(value) < schema.get("minItems", 0):
        yield f"{at} has too few items"


def _is_of(value: Any, name: str) -> bool:
    if isinstance(value, bool):
        return name == "boolean"
    return isinstance(value, _TYPES[name])


def load_schema(name: str) -> dict[str, Any]:
    """Read a JSON Schema of the package: `envelope`, or a command's `result`."""
    from importlib import resources  # few runs print a schema

    path = resources.files("icectl.cli") / "schemas" / f"{name}.json"
    loaded: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return loaded


def document_schema(command: str) -> dict[str, Any]:
    """Compose the JSON Schema of a command's whole document, from the envelope and its result."""
    several = load_schema("several-tables")
    several.pop("$schema")
    return _compose("envelope", f"icectl {command} --json", command, several, {"type": "null"})


def plan_schema(command: str) -> dict[str, Any]:
    """Compose the JSON Schema of the file that `--save-plan` writes for a command."""
    if command == "maintain":
        return load_schema("maintain-plan")
    return _compose("plan", f"icectl {command} --save-plan", command)


def _compose(base: str, title: str, command: str, *others: dict[str, Any]) -> dict[str, Any]:
    """Put the result of a command, or its other results, into a schema."""
    schema = load_schema(base)
    result, definitions = result_schema(command)
    if definitions:
        schema["$defs"] = definitions
    schema["title"] = title
    schema["properties"]["command"] = {"const": command}
    schema["properties"]["result"] = {"anyOf": [result, *others]} if others else result
    return schema


def result_schema(command: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the schema of a command's result, and the definitions that it refers to."""
    result = load_schema(command)
    result.pop("$schema", None)
    return result, result.pop("$defs", {})


def put_in_place(path: Path, parts: Iterable[str], env: Env) -> None:
    """Put a text in place in one step, so that no reader ever sees half of it.

    A device or a pipe is written to, since a file in its place would break its other users.
    Raises: OSError.
    """
    if path.exists() and not path.is_file():
        _write(path, parts)
        return
    path = path.resolve()
    temporary = path.with_name(f".{path.name}.{env.new_uuid()}")
    try:
        _write(temporary, parts)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _write(path: Path, parts: Iterable[str]) -> None:
    with path.open("w", encoding="utf-8", errors="replace") as file:  # a name may be no text
        file.writelines(parts)


def write_deleted_list(
    path: str | None, locations: Iterable[str], *, is_continued: bool = False
) -> None:
    """Write locations to the list of deleted files, one a line, if one was asked for.

    Raises: StorageError.
    """
    if path is None:
        return
    try:
        with Path(path).open(
            "a" if is_continued else "w", encoding="utf-8", errors="backslashreplace"
        ) as file:
            file.writelines(f"{printable(location)}\n" for location in locations)
    except OSError as error:
        raise StorageError(
            f"cannot write the list of deleted files to {path}: {error.strerror}"
        ) from error
