"""What may stand next on an unfinished line: names in catalogs, refs and columns.

Completion scripts ask for it by `icectl __complete WORDS...`, the last word being the one that is
completed. Catalogs are those of the operator's configuration; a line that says more of them, or of
storage, is not followed. Whatever goes wrong, nothing is printed.
"""

import os
import re
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperArgument

from icectl.catalog.identifier import dotted_name, parse_name
from icectl.cli.console import silent_console
from icectl.cli.help import is_flag
from icectl.cli.naming import NameInCatalog, configuration_of, in_default_catalog, warehouse_of
from icectl.cli.options import Common, Shell
from icectl.cli.registry import COMMANDS, load_command, parser_of
from icectl.cli.session import open_session, storage_of
from icectl.cli.settings import DEFAULT_CATALOG, resolve
from icectl.cli.signals import Interrupts, ended_in_time
from icectl.env import Deadline, SystemEnv
from icectl.errors import IcectlError, Incomplete
from icectl.format.metadata import TableMetadata
from icectl.format.transforms import accepts, parse_transform
from icectl.format.types import PrimitiveType

_SECONDS = 1.0
"""How long responses of catalogs and stores are waited for."""

_GRACE_SECONDS = 2.0
"""How long a driver that knows no deadline may go on behind it."""

_PLAIN = re.compile(r"\w[\w.,%+@/-]*")
"""What no shell reads as anything but one word: all else is left out."""

_PLAIN_IN_QUOTES = re.compile(r"\w[\w.,%+@/()\[\] -]*")
"""The same behind an opening quote, where brackets and blanks are plain too."""

_REFS, _FIELDS, _SORT_KEYS, _PARTITION_FIELDS, _SHOWN, _CATALOGS = (
    "refs", "columns", "sort keys", "partition fields", "columns of the view", "catalogs",
)  # fmt: skip
_TRANSFORMS = ("year", "month", "day", "hour", "bucket[16]", "truncate[10]")
_VALUES: Mapping[str, Mapping[str, str]] = {
    "": {"--ref": _REFS, "--branch": _REFS, "--catalog": _CATALOGS},
    "refs": {"--at": _REFS, "--to": _REFS},
    "inspect": {"--columns": _SHOWN},
    "compact": {"--sort-order": _SORT_KEYS, "--zorder": _FIELDS},
    "rewrite-manifests": {"--sort-by": _PARTITION_FIELDS},
}
"""What the values of options name, by command: those of every command first."""

_TABLES = frozenset({"TABLE", "TABLE...", "TARGET...", "CATALOG..."})
_ELSEWHERE = frozenset(
    {"--catalog-option", "--storage-option", "--path-map", "--path-map-file", "--metadata-file"}
)


def value_named(command: str, option: str) -> str | None:
    """Return what the values of an option name; None if they are unknown."""
    return {**_VALUES[""], **_VALUES.get(command, {})}.get(option)


class _NoWaiting(SystemEnv):
    """The machine, without waiting for another attempt."""

    def sleep(self, seconds: float) -> None:  # noqa: ARG002
        """Raises: Incomplete."""
        raise Incomplete("no caller waits for another attempt")


@dataclass(slots=True)
class _Line:
    """An unfinished line: its arguments, the values of its options, and what is completed."""

    command: str
    current: str
    arguments: list[str] = field(default_factory=list)
    options: dict[str, str] = field(default_factory=dict)
    completed_option: str | None = None
    is_quoted: bool = False


def main(words: Sequence[str]) -> None:
    """Print the candidates, one a line, and end the process: nothing that still waits delays it."""
    with suppress(Exception):
        sys.stdout.write("".join(f"{candidate}\n" for candidate in candidates(words)))
        sys.stdout.flush()
    os._exit(0)


def candidates(words: Sequence[str]) -> list[str]:
    """Return the candidates for the last word, without any that a shell could take for more."""
    line = _line(_whole(words))
    if line is None or not _ELSEWHERE.isdisjoint(line.options):
        return []
    env = _NoWaiting()
    deadline = Deadline(env, env.monotonic_seconds() + _SECONDS)
    interrupts = Interrupts(lambda _: None)
    with ended_in_time(deadline, interrupts, lambda _: None, _GRACE_SECONDS):
        settings = resolve({}, os.environ, line.options.get("--config"))
        shell = Shell(silent_console(env), env, settings, deadline, interrupts)
        common = Common(shell=shell, catalog=line.options.get("--catalog"))
        every = _candidates(common, line)
        names = dict.fromkeys(name for name in every if name.startswith(line.current))
    plain = _PLAIN_IN_QUOTES if line.is_quoted else _PLAIN
    return [name for name in names if plain.fullmatch(name)]


def _whole(words: Sequence[str]) -> list[str]:
    """Join words that bash splits at `=` and `:`."""
    whole: list[str] = []
    is_open = False
    for word in words:
        breaks = bool(word) and set(word) <= {"=", ":"}
        if whole and (breaks or is_open):
            whole[-1] += word
        else:
            whole.append(word)
        is_open = breaks
    return whole


def _line(words: Sequence[str]) -> _Line | None:
    """Read a line; None if its last word has no candidates here."""
    if len(words) < 2 or words[0] not in COMMANDS:
        return None
    parser = parser_of(load_command(words[0]))
    parameters: Sequence[Any] = parser.get_params(typer.Context(parser))
    takes_value = {
        name
        for parameter in parameters
        if not isinstance(parameter, TyperArgument) and not is_flag(parameter)
        for name in parameter.opts
    }
    line = _Line(words[0], words[-1])
    words_left = iter(words[1:-1])
    for word in words_left:
        name, equals, value = word.partition("=")
        if not word.startswith("-"):
            line.arguments.append(_unquoted(word))
        elif name not in takes_value:
            line.options[name] = ""
        elif equals:
            line.options[name] = _unquoted(value)
        else:
            following = next(words_left, None)
            if following is None:
                line.completed_option = name
            else:
                line.options[name] = _unquoted(following)
    if line.completed_option is None and line.current.startswith("-"):
        name, equals, line.current = line.current.partition("=")
        line.completed_option = name
        if not equals:
            return None
    if line.current[:1] in ("'", '"'):
        line.is_quoted, line.current = True, line.current[1:]
    return line


def _unquoted(word: str) -> str:
    try:
        parts = shlex.split(word)
    except ValueError:
        return word
    text = parts[0] if len(parts) == 1 else word
    return str(Path(text).expanduser()) if word.startswith("~/") else text


def _candidates(common: Common, line: _Line) -> Iterable[str]:
    if line.completed_option is not None:
        kind = value_named(line.command, line.completed_option)
        if kind == _CATALOGS:
            return sorted(configuration_of(common).catalogs)
        if kind is None or not line.arguments:
            return ()
        if kind == _REFS:
            return _metadata(common, line).refs
        typed = re.sub(r"[^, ][^,]*$", "", line.current)  # lists continue behind typed values
        typed_values = {candidate.strip() for candidate in typed.split(",")}
        values = (value for value in _listed(common, line, kind) if value not in typed_values)
        return (f"{typed}{value}" for value in values)
    if line.command == "refs" and len(line.arguments) > 1:
        makes_one = line.arguments[1] in ("tag", "branch") and "--replace" not in line.options
        return () if makes_one else _metadata(common, line).refs
    parser = parser_of(load_command(line.command))
    arguments = [
        param
        for param in parser.get_params(typer.Context(parser))
        if isinstance(param, TyperArgument)
    ]
    place = min(len(line.arguments), len(arguments) - 1)
    if arguments[place].metavar not in _TABLES or (
        len(line.arguments) > place and arguments[place].nargs != -1
    ):
        return ()
    return _names(common, line.current)


def _names(common: Common, current: str) -> Iterator[str]:
    """Yield catalogs, and the names right below the typed catalog or namespace."""
    if "/" in current:
        return
    typed, dot, _ = current.rpartition(".")
    configuration = configuration_of(common)
    parts = parse_name(typed) if typed else ()
    default = common.shell.settings.read(DEFAULT_CATALOG)
    if common.catalog is not None:
        catalog = common.catalog
    elif parts and (parts[0] in configuration or default is None):
        catalog, *below = parts
        parts = tuple(below)
    else:
        if not parts:
            yield from (f"{dotted_name((name,))}." for name in sorted(configuration.catalogs))
        if default is None:
            return
        catalog = default
    if catalog not in configuration:
        return
    name = NameInCatalog(catalog, parts, configuration)
    warehouse = warehouse_of(common, name, storage_of(common))
    with suppress(IcectlError):  # of some catalogs, namespaces are of one level
        for inner in warehouse.namespaces(parts):
            yield f"{typed}{dot}{dotted_name(inner[-1:])}."
    if parts:
        for table in warehouse.tables(parts):
            yield f"{typed}{dot}{dotted_name((table.name,))}"


def _listed(common: Common, line: _Line, kind: str) -> Iterable[str]:
    if kind == _SHOWN:
        from icectl.commands.inspect import metadata_rows, read_rows

        view = line.arguments[1] if len(line.arguments) > 1 else "summary"
        known = {
            "files": read_rows.FILE_COLUMNS,
            "entries": read_rows.ENTRY_COLUMNS,
            "manifests": metadata_rows.MANIFEST_COLUMNS,
        }
        if view in metadata_rows.METADATA_VIEWS:
            return metadata_rows.metadata_rows(view, _metadata(common, line), "").columns
        return known.get(view, ())
    metadata = _metadata(common, line)
    if kind == _PARTITION_FIELDS:
        return [field.name for field in metadata.default_spec.fields]
    schema = metadata.current_schema
    columns = {
        f"{schema.name_of(id_)}": field.type
        for id_, field in schema.all_fields.items()
        if isinstance(field.type, PrimitiveType) and schema.line_to(id_)  # in no list or map
    }
    keys = [
        f"{text}({name})"
        for name, type_ in columns.items()
        for text in _TRANSFORMS
        if kind == _SORT_KEYS and accepts(parse_transform(text), type_)
    ]
    return [*columns, *keys]


def _metadata(common: Common, line: _Line) -> TableMetadata:
    """Return the current metadata of the table on the line. Raises: IcectlError."""
    table = line.arguments[0]
    if common.catalog is None:
        table = in_default_catalog(common.shell.settings, table)
    session = open_session(common, table, read_only=True)
    return session.context.catalog.load(to_show=True).metadata
