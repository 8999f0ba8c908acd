"""Help as plain text: grouped, under 80 columns, with examples and exit codes."""

import re
import shlex
import textwrap
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import fields
from difflib import get_close_matches
from typing import Any

from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from icectl.cli.options import (
    CHANGING,
    ENGINE,
    FILES,
    OUTPUT,
    OUTPUT_FILES,
    POLICY,
    RUNNING,
    STORAGE,
    Command,
    Common,
)
from icectl.errors import EXIT_CODES, UsageError

WIDTH = 79
_LEFT = 31
GROUPS = ("Options", FILES, POLICY, OUTPUT_FILES, ENGINE, CHANGING, STORAGE, RUNNING, OUTPUT)
_OWN_GROUPS = (FILES, POLICY, OUTPUT_FILES, ENGINE, CHANGING)
"""Groups with a heading of their own in `--help`; options of others stand at the top."""

ROOT_SUMMARY = "Inspect, validate and maintain Apache Iceberg tables."


class PlainCommand(TyperCommand):
    """A command whose help is `command_help`."""

    spec: Command

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the words of a command line, with former names of options in it."""
        former = self.spec.former_options
        end = args.index("--") if "--" in args else len(args)
        for number, word in enumerate(args[:end]):
            name, is_joined, value = word.partition("=")
            if name in former:
                args[number] = former[name] + is_joined + value
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Refuse empty values, which unset variables of a script leave, before anything is run."""
        for parameter in self.params:
            value = ctx.params.get(parameter.name)
            values = value if isinstance(value, list | tuple) else [value]
            if any(isinstance(text, str) and not text.strip() for text in values):
                raise UsageError(
                    f"{_parameter_name(parameter)} is empty",
                    hint="perhaps a shell variable is not set",
                )
        return super().invoke(ctx)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the whole help page."""
        formatter.write(command_help(self.spec, self.get_params(ctx)))


class PlainGroup(TyperGroup):
    """The root, whose help needs the commands' names and no module of theirs."""

    summaries: Mapping[str, str]
    documentation: Mapping[str, str]

    def format_help(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002
        """Write the whole help page."""
        formatter.write(root_help(self.summaries, self.documentation))


def root_help(summaries: Mapping[str, str], documentation: Mapping[str, str]) -> str:
    """Print the help of `icectl` alone."""
    options = [
        ("-V, --version", "print the version; with --verbose, how icectl was built"),
        ("--spark-script", "print the path of the script for spark-submit"),
        ("-h, --help", "print this help"),
    ]
    lines = [
        "Usage: icectl COMMAND TABLE [OPTIONS]",
        "",
        ROOT_SUMMARY,
        "",
        "Commands:",
        *_rows(summaries.items(), left=21),
        "",
        "About icectl itself:",
        *_rows(documentation.items(), left=21),
        "",
        "Options:",
        *_rows(options, left=20),
        "",
        "TABLE is CATALOG.NAMESPACE.TABLE, a table directory (path or URI), or one of",
        "its metadata files. `icectl COMMAND --help` has examples, options, exit codes.",
    ]
    return "\n".join(lines) + "\n"


def command_help(command: Command, parameters: Sequence[Any]) -> str:
    """Print the help of one command: what to type; its manual page explains the rest."""
    summary = re.split(r"(?<=[.])\s", command.help, maxsplit=1)[0]
    arguments = [entry for entry in parameters if isinstance(entry, TyperArgument)]
    shared = {entry.name for entry in fields(Common)}
    options = [entry for entry in parameters if any(is_in_group(entry, name) for name in GROUPS)]
    common = [entry for entry in options if entry.name in shared]
    grouped: dict[str, list[TyperOption]] = {name: [] for name in ("Options", *_OWN_GROUPS)}
    for entry in options:
        if entry not in common:
            group = entry.rich_help_panel
            grouped[group if group in _OWN_GROUPS else "Options"].append(entry)
    meanings = dict(EXIT_CODES)
    if command.name != "validate":  # which alone exits with 4 for findings
        meanings[4] = meanings[4].rpartition("; ")[2]
    codes = [f"{code} {_first_clause(meanings[code])}" for code in command.exit_codes]
    examples = [line for text, purpose in command.examples[:3] for line in _example(text, purpose)]
    sections = [
        [usage(command, parameters)],
        textwrap.wrap(summary, WIDTH),
        ["Examples:", *examples],
        ["Arguments:"] * (len(arguments) > 1)
        + [*_rows((entry.metavar or "", entry.help or "") for entry in arguments)],
        *(_options(name, group, command.rare_options) for name, group in grouped.items() if group),
        [
            *_fill("Common options:", [*map(_names, common), "-h"]),
            *_fill(f"Exit status (more: `icectl man {command.name}`):", codes),
        ],
    ]
    return "\n\n".join("\n".join(section) for section in sections if section) + "\n"


def _options(name: str, group: Sequence[TyperOption], rare: Container[str | None]) -> list[str]:
    """Print a group of options: rows with their help, then the names of rare ones."""
    rows = [*_rows(option_row(entry) for entry in group if entry.name not in rare)]
    names = [_names(entry) for entry in group if entry.name in rare]
    return [f"{name}:", *rows, *(_fill("  also:" if rows else " ", names) if names else [])]


def _names(option: TyperOption) -> str:
    names = "/".join(sorted(option.opts, key=len))
    return f"{names} {option.metavar}" if option.metavar else names


def _example(text: str, purpose: str) -> list[str]:
    """Print an example and what it is for: on one line if they fit."""
    line = f"  $ {text}"
    joined = f"{line}  # {purpose}"
    return [joined] if len(joined) <= WIDTH else [f"  # {purpose}", line]


def _first_clause(meaning: str) -> str:
    return re.split("[,:;(]", meaning)[0].strip()


def _fill(heading: str, items: Sequence[str]) -> list[str]:
    """Fill lines with a list behind its heading; items are kept on one line if they fit."""
    lines = [heading]
    for number, item in enumerate(items):
        word = item if number == len(items) - 1 else f"{item},"
        if len(lines[-1]) + 1 + len(word) > WIDTH:
            lines.append("   ")
        lines[-1] += f" {word}"
    return lines


def usage(command: Command, parameters: Sequence[Any]) -> str:
    """Print the usage line."""
    arguments = [entry for entry in parameters if isinstance(entry, TyperArgument)]
    names = [f"{entry.metavar}" if entry.required else f"[{entry.metavar}]" for entry in arguments]
    return " ".join(["Usage: icectl", command.name, *names, "[OPTIONS]"])


def is_in_group(parameter: Any, group: str) -> bool:
    """Return whether a parameter is an option of the group; `--help` has none."""
    return isinstance(parameter, TyperOption) and parameter.rich_help_panel == group


def option_row(option: TyperOption) -> tuple[str, str]:
    """Write an option's names, short ones first, and its help."""
    names = ", ".join(sorted(option.opts, key=lambda name: name.startswith("--")))
    names = f"    {names}" if names.startswith("--") else names
    if option.secondary_opts:
        names += "/" + option.secondary_opts[0]
    metavar = f" {option.metavar}" if option.metavar else ""
    return names + metavar, option.help or ""


def is_flag(option: TyperOption) -> bool:
    """Return whether an option stands alone, without a value."""
    return bool(option.is_flag or option.count)


def choices(command: Command, parameter: Any) -> tuple[str, ...]:
    """List the values that a parameter takes, where they are few and fixed."""
    described = getattr(parameter, "type_descriptor", None) or parameter.type
    fixed = getattr(described, "choices", None) or command.choices.get(parameter.name, ())
    return tuple(str(choice) for choice in fixed)


def _rows(rows: Any, left: int = _LEFT) -> Iterator[str]:
    for name, text in rows:
        wrapped = textwrap.wrap(text, WIDTH - left, break_on_hyphens=False) or [""]
        head = f"  {name}"
        if len(head) + 2 > left:
            yield head
        else:
            yield head.ljust(left) + wrapped.pop(0)
        for line in wrapped:
            yield " " * left + line


def unknown_command(name: str, known: Sequence[str], following: str = "") -> UsageError:
    """Say that there is no such command, and what may be meant; `following` is the next word."""
    from icectl.cli.other_tools import command_hint

    hint = command_hint(name, known)
    if following in known:
        hint = f"did you mean `icectl {following} {shlex.quote(name)}`?"
    return UsageError(
        f"there is no command `{name}`", hint=hint or "`icectl --help` lists the commands"
    )


def usage_error(error: Any, word: str) -> UsageError:
    """Say in icectl's voice what the parser found wrong; `word` is the first of the command line.

    The parser's classes are distinguished by name: typer keeps them in a private module.
    """
    hint = f"`icectl {word} --help` shows how it is used"
    if word.startswith("-"):
        hint = "put options after the command: `icectl COMMAND TABLE [OPTIONS]`"
    parameter = getattr(error, "param", None)
    kind = type(error).__name__
    if kind == "NoSuchOption":
        return _no_such_option(error, hint)
    if kind == "BadOptionUsage":
        return UsageError(_lower(error.message), hint=hint)
    if kind == "MissingParameter" and parameter is not None:
        catalog = error.ctx.params.get("catalog") if getattr(error, "ctx", None) else None
        if catalog:
            hint = f"`icectl inspect --catalog {shlex.quote(catalog)}` lists its tables"
        return UsageError(f"{_parameter_name(parameter)} is missing", hint=hint)
    if kind == "BadParameter" and parameter is not None:
        message = f"{_parameter_name(parameter)}: {_lower(error.message)}"
        return UsageError(message, hint=hint)
    extra = re.fullmatch(r"Got unexpected extra arguments?(?:\(s\))? \((.*)\)", error.message)
    if extra:
        return UsageError(f"unexpected argument `{extra[1]}`", hint=hint)
    return UsageError(_lower(error.format_message()), hint=hint)


def _no_such_option(error: Any, hint: str) -> UsageError:
    from icectl.cli.other_tools import option_hint

    command = error.ctx.command
    known = [name for entry in command.params for name in entry.opts]
    close = get_close_matches(error.option_name, known, n=1, cutoff=0.75)
    close = close or [name for name in known if name.startswith(error.option_name)]
    if close:
        hint = f"did you mean `{close[0]}`?"
    elsewhere = option_hint(error.option_name, command.name or "", known)
    return UsageError(f"there is no option `{error.option_name}`", hint=elsewhere or hint)


def _parameter_name(parameter: Any) -> str:
    is_option = isinstance(parameter, TyperOption)
    return f"`{parameter.opts[0] if is_option else parameter.metavar.removesuffix('...')}`"


def _lower(message: str) -> str:
    text = message.strip().removeprefix("Value error, ").rstrip(".").replace("'", "`")
    return text[:1].lower() + text[1:]
