"""The manual, the completion scripts and the list of rules, printed from what the program has.

`python -m tests.generate.docs` writes `man/`, `completions/`, `docs/rules.md`,
`docs/settings.md` and `docs/run.svg`. `--check` only
compares, and exits 1 where a file is not what would be written.
"""

import re
import sys
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperArgument

from icectl import __version__
from icectl.checks.rule import Rule
from icectl.cli.help import GROUPS, ROOT_SUMMARY, choices, is_flag, is_in_group, option_row
from icectl.cli.options import Command
from icectl.cli.registry import COMMANDS, load_command, parser_of
from icectl.cli.settings import CATALOG_TABLE, ENV_VARS, SETTINGS, STORAGE_TABLE, Setting
from icectl.commands.candidates import value_named
from icectl.commands.maintain.policy import KEYS, Key
from icectl.commands.steps import STEPS, step_of
from icectl.errors import EXIT_CODES
from icectl.format.rule import OURS
from icectl.sfc1.rules import EVERY_RULE
from tests.generate import completions
from tests.generate.diagram import diagram

_THRESHOLDS = frozenset(
    [f"{name}.{limit.name}" for name in STEPS for limit in step_of(name).limits]
    + ["remove-orphans.every"]
)
"""Keys that call for a step, from their value on."""

_ORDER = """\
icectl takes each value from the first of these that has one: the option, the environment variable,
the settings file, the table property, the default. `--verbose` prints the origin of each value."""

_UNITS = """\
Durations are written `90s`, `15m`, `24h`, `7d` or `2w`. Timestamps are in ISO 8601, in UTC if they
have no zone; a duration means that long ago. Sizes are written `64MB` (10^6) or `64MiB` (2^20)."""


_CREDENTIALS = """\
Credentials come from `--storage-option` or from the usual places of the storage's library. For S3,
these include `AWS_PROFILE` and `AWS_ACCESS_KEY_ID`."""


def pages() -> Mapping[str, str]:
    """Print every generated file, by its path in the repository."""
    commands = [load_command(name) for name in COMMANDS]
    completed = [_completed(command) for command in commands]
    manual = {f"man/icectl-{command.name}.1": command_page(command) for command in commands}
    return {
        "man/icectl.1": root_page(),
        **manual,
        "man/icectl.toml.5": settings_page(),
        "man/maintain.toml.5": policy_page(),
        "completions/icectl.bash": completions.bash(completed),
        "completions/_icectl": completions.zsh(completed),
        "completions/icectl.fish": completions.fish(completed),
        "completions/icectl.ps1": completions.powershell(completed),
        "docs/rules.md": rules_page(),
        "docs/settings.md": settings_list(),
        "docs/run.svg": diagram(),
    }


def parameters_of(command: Command) -> Sequence[Any]:
    """List a command's arguments and options as its parser has them."""
    parser = parser_of(command)
    return parser.get_params(typer.Context(parser))


def _completed(command: Command) -> completions.CompletedCommand:
    parameters = parameters_of(command)
    arguments = [entry for entry in parameters if isinstance(entry, TyperArgument)]
    return completions.CompletedCommand(
        name=command.name,
        summary=COMMANDS[command.name],
        options=[
            completions.CompletedOption(
                names=option.opts,
                help=option.help or "",
                metavar=None if is_flag(option) else f"{option.metavar}",
                choices=choices(command, option),
                repeatable=bool(option.multiple or option.count),
                is_asked=any(value_named(command.name, name) for name in option.opts),
            )
            for option in parameters
            if any(is_in_group(option, group) for group in GROUPS)
        ],
        second=choices(command, arguments[1]) if len(arguments) > 1 else (),
    )


def root_page() -> str:
    """Print icectl(1)."""
    lines = _head("icectl", 1, "inspect, validate and maintain Apache Iceberg tables")
    lines += [".SH SYNOPSIS", r"\fBicectl\fR \fICOMMAND\fR \fITABLE\fR [\fIOPTIONS\fR]"]
    lines += [".br", r"\fBicectl\fR \fB\-\-help\fR | \fB\-\-version\fR | \fB\-\-spark\-script\fR"]
    lines += [".SH DESCRIPTION", roff(ROOT_SUMMARY), ".PP"]
    lines.append(
        roff(
            "TABLE is a table directory (path or URI), one of its metadata files, or a name such as"
            " CATALOG.NAMESPACE.TABLE. Catalogs are configured in icectl.toml(5) or in PyIceberg's"
            " configuration. A TABLE with a `/` is a location. In names, quote parts that have a"
            " dot, with quotes or backticks."
        )
    )
    lines += [".PP", roff(_UNITS)]
    lines.append(".SH COMMANDS")
    lines += _list((rf"\fBicectl\-{roff(name)}\fR(1)", text) for name, text in COMMANDS.items())
    lines.append(".SH OPTIONS")
    lines += _list(
        [
            (
                _option("-V, --version"),
                "print the version; with --verbose, how icectl was built: packages, compiled loops",
            ),
            (_bold("--spark-script"), "print the path of the script for spark-submit"),
            (_bold("--help"), "print help"),
        ]
    )
    lines.append(".PP")
    lines.append(roff("All other options go after the command; its page lists them."))
    lines += _exit_status(EXIT_CODES)
    lines += [".SH ENVIRONMENT", roff(_CREDENTIALS)]
    lines += _list((_bold(name), text) for name, text in ENV_VARS.items())
    lines += [".SH FILES", ".TP", _bold("~/.config/icectl/icectl.toml")]
    lines.append(r"settings; see \fBicectl.toml\fR(5)")
    pages = [f"icectl-{name}(1)" for name in COMMANDS]
    return _page([*lines, *_see_also([*pages, "icectl.toml(5)", "maintain.toml(5)"])])


def command_page(command: Command) -> str:
    """Print the page of one command."""
    parameters = parameters_of(command)
    lines = _head(f"icectl-{command.name}", 1, COMMANDS[command.name])
    arguments = [entry for entry in parameters if isinstance(entry, TyperArgument)]
    names = [
        _italic(f"{entry.metavar}") if entry.required else f"[{_italic(f'{entry.metavar}')}]"
        for entry in arguments
    ]
    synopsis = " ".join([_bold(f"icectl {command.name}"), *names, r"[\fIOPTIONS\fR]"])
    lines += [".SH SYNOPSIS", synopsis, ".SH DESCRIPTION"]
    for number, paragraph in enumerate(command.help.split("\n\n")):
        lines += [".PP"] * (number > 0) + [roff(" ".join(paragraph.split()))]
    lines.append(".SH ARGUMENTS")
    lines += _list((_italic(f"{entry.metavar}"), entry.help or "") for entry in arguments)
    lines.append(".SH OPTIONS")
    for group in GROUPS:
        rows = [option_row(entry) for entry in parameters if is_in_group(entry, group)]
        if rows:
            lines.append(f'.SS "{roff(group)}"')
            lines += _list((_option(names), text) for names, text in rows)
    lines += _exit_status({code: EXIT_CODES[code] for code in command.exit_codes})
    lines.append(".SH EXAMPLES")
    for example, purpose in command.examples:
        lines += [".TP", roff(purpose), ".nf", _bold(example), ".fi"]
    return _page([*lines, *_see_also(["icectl(1)", "icectl.toml(5)"])])


def settings_page() -> str:
    """Print icectl.toml(5)."""
    lines = _head("icectl.toml", 5, "settings of icectl")
    lines += [".SH DESCRIPTION", roff(_ORDER), ".PP"]
    lines.append(
        roff(
            "The file is `$XDG_CONFIG_HOME/icectl/icectl.toml`, or `~/.config/icectl/icectl.toml`;"
            " `--config` and `ICECTL_CONFIG` name another. Unknown keys are errors."
        )
    )
    sections: dict[str, list[Setting[Any]]] = {}
    for setting in SETTINGS:
        sections.setdefault(setting.key.rpartition(".")[0], []).append(setting)
    for section, settings in sections.items():
        lines.append(f'.SH "{roff(f"[{section}]" if section else "KEYS AT THE TOP")}"')
        for setting in settings:
            name = setting.key.rpartition(".")[2]
            lines += [".TP", f"{_bold(name)} = {_italic(setting.metavar)}", roff(_about(setting))]
    lines.append(f'.SH "[{roff(STORAGE_TABLE)}]"')
    lines.append(
        roff(
            "Storage options, with the keys of `--storage-option`. The file must not have secrets:"
            ' `key = "env:NAME"` takes the value from the environment variable NAME.'
        )
    )
    lines.append(f'.SH "[{roff(f"{CATALOG_TABLE}.NAME")}]"')
    lines += [roff(_CATALOGS), ".PP", roff(_CATALOG_SECRETS)]
    lines += [".SH EXAMPLE", ".nf", *map(roff, _EXAMPLE.splitlines()), ".fi"]
    return _page([*lines, *_see_also(["icectl(1)"])])


def settings_list() -> str:
    """Print the page on settings, with a table of all of them."""
    options = {
        option
        for name in COMMANDS
        for parameter in parameters_of(load_command(name))
        for option in (*parameter.opts, *parameter.secondary_opts)
    }
    rows = [
        f"| `{setting.key}` | {_option_of(setting, options)} | `{setting.variable}` "
        f"| {_in_table(setting)} |"
        for setting in SETTINGS
    ]
    return _page([_SETTINGS, *rows])


def _option_of(setting: Setting[Any], options: Container[str]) -> str:
    """Return the option of a setting, or its negation; nothing where it has none."""
    name = setting.option.removeprefix("--")
    return next((f"`{one}`" for one in (f"--{name}", f"--no-{name}") if one in options), "")


def _in_table(setting: Setting[Any]) -> str:
    switch = f" (default {str(setting.built_in).lower()})" if setting.is_switch else ""
    return f"{setting.help}{switch}".replace("|", r"\|")


def policy_page() -> str:
    """Print maintain.toml(5)."""
    lines = _head("maintain.toml", 5, "policy of icectl maintain")
    lines += [".SH DESCRIPTION", roff(f"{_POLICY}\n\n{_UNITS}").replace("\n\n", "\n.PP\n")]
    for section, keys in _policy_sections().items():
        lines.append(f'.SH "{roff(f"[{section}]" if section else "KEYS AT THE TOP")}"')
        for key in sorted(keys, key=lambda one: one.name not in _THRESHOLDS):
            name = key.name.rpartition(".")[2]
            lines += [".TP", f"{_bold(name)} = {_italic(key.metavar)}", roff(_about_key(key))]
    lines += [".SH EXAMPLE", ".nf", *map(roff, _POLICY_EXAMPLE.splitlines()), ".fi"]
    return _page([*lines, *_see_also(["icectl-maintain(1)", "icectl.toml(5)"])])


def _policy_sections() -> Mapping[str, Sequence[Key]]:
    """Return keys by the table of the file that they stand in. Order: those at the top first."""
    found: dict[str, list[Key]] = {}
    for key in KEYS.values():
        found.setdefault(key.section, []).append(key)
    return found


def _about_key(key: Key) -> str:
    default = "" if key.default is None else f" (default {key.default})"
    return f"{key.help}{default}."


_POLICY = """\
`icectl maintain --policy FILE` reads this file. A policy says which steps run on which tables, from
which thresholds on, and with which options. Keys at the top apply to all tables. A `[[rule]]`
applies to the tables that match one of its `tables`, by name or location. A `*` matches within one
name (`prod.sales.*`, `/wh/*/*`); `**` matches any number of names.

If several matching rules set a key, the last one wins. If none does, the value comes from the top
of the file, then the environment, icectl.toml(5) and the default. A threshold that the policy lacks
comes from the key of that name in `[health]` of icectl.toml(5). Unknown keys are errors.
`icectl maintain TABLE --explain` prints all values for a table with their origins.

`master`, `remote` and `spark-conf` can start programs. icectl accepts them only in a file that the
caller or root owns and no other user may write. With `--untrusted-policy`, it never accepts them.

Table properties can only restrict a policy: `icectl.maintain.enabled=false`, `gc.enabled=false`,
`history.expire.max-snapshot-age-ms` and `history.expire.min-snapshots-to-keep`. So can the
retention of a branch or tag."""

_SETTINGS = """\
<!-- generated by `python -m tests.generate.docs`; do not edit -->

# Settings

Set defaults for all runs in `~/.config/icectl/icectl.toml`, or in
`$XDG_CONFIG_HOME/icectl/icectl.toml`:

    concurrency = 16

    [expire-snapshots]
    older-than = "30d"

    [catalog.prod]
    uri = "https://catalog.example/api"
    credential = "env:CATALOG_CREDENTIAL"

`--config FILE` and `ICECTL_CONFIG` name another file. icectl never reads one from the working
directory. Unknown keys are errors. Keep secrets out of the file and out of the process list: write
`env:NAME`, as in `--storage-option secret=env:NAME`.

icectl takes each value from the first of these that has one:

1. the option
2. the environment variable (`ICECTL_...`)
3. the settings file
4. the table property
5. the default

`-v` prints the origin of each value. Two rules protect snapshots. The retention of a branch or tag
always applies. The settings file can only keep more snapshots than the table's properties; options
replace these.

A key with a command in front (`compact.engine`) applies to that command, other keys to all.
[`[catalog.NAME]`](catalogs.md) configures a catalog, `[storage-options]` the storage. A policy for
`icectl maintain` has [its own file](maintain.md); `icectl man maintain.toml` lists its keys.

Two table properties control `icectl maintain`. `icectl.maintain.enabled=false` excludes the table.
icectl sets `icectl.maintain.last-orphan-scan` when it has searched the table for orphans.

Functions of [`icectl.spark`](spark-python.md) that read or change rows use only `concurrency`,
`time-limit`, `temp-dir`, the storage options and the table's properties.

## All settings

`icectl man icectl.toml` shows the same list.

| key | option | environment | meaning |
| --- | --- | --- | --- |"""

_POLICY_EXAMPLE = """\
steps = ["expire-rows", "compact", "rewrite-manifests", "expire-snapshots", "remove-orphans"]
window = "22:00-06:00 Europe/Berlin"

[budget]
rewrite-bytes = "200GiB"
time = "30m"

[expire-snapshots]
older-than = "7d"
retain-last = 5

[[rule]]
tables = ["prod.events.*"]
compact.target-file-size = "256MiB"
compact.files-to-save = 50
expire-snapshots.older-than = "2d"

[[rule]]
tables = ["prod.audit.**", "prod.*.*_raw"]
steps = ["rewrite-manifests"]"""


def rules_page() -> str:
    """Print the rules of the format in Markdown, section by section of each kind."""
    lines = ["<!-- generated by `python -m tests.generate.docs`; do not edit -->", _RULES_HEAD]
    for prefix, title in _RULE_KINDS.items():
        rules = [rule for id_, rule in EVERY_RULE.items() if id_.startswith(prefix)]
        lines += ["", f"## {title}"]
        for section in dict.fromkeys(rule.section for rule in rules):
            lines += ["", f"### {section}", "", _RULES_COLUMNS]
            lines += [_rule_row(rule) for rule in rules if rule.section == section]
    return _page(lines)


def _rule_row(rule: Rule) -> str:
    breach = f"{rule.severity}: {rule.fix}"
    if rule.fix == OURS and rule.severity == "error":
        breach = "icectl keeps it"
    if rule.not_enforced is not None:
        breach = f"not checked: {rule.not_enforced}"
    return f"| {rule.id} | {rule.title} | {breach} |"


_RULE_KINDS = {"R-": "Versions 1 to 3", "V4-": "Version 4, layout sfc-1"}

_RULES_COLUMNS = "| rule | what holds | breach |\n| --- | --- | --- |"

_RULES_HEAD = """\
# The rules of the format

`icectl validate` names these ids, and so does the code that follows a rule. A rule with `R-` is of
format versions 1 to 3, in sections of the format's specification. A rule with `V4-` is of layout
`sfc-1` of the version 4 proposal. An id never changes its meaning. A breach is an error if rows
would be wrong, unreadable or unsafe to maintain. It is a warning if it is harmless, and an info if
it is worth knowing. The next step stands behind it. Rules on what icectl does itself say that
icectl keeps them."""


_CATALOGS = """\
A catalog, by PyIceberg's properties for it: `type` (`rest`, `sql`, `hive` or `glue`; without it the
`uri` decides), `uri`, `warehouse`, `s3.endpoint` and the like. icectl also reads catalogs from
`PYICEBERG_CATALOG__NAME__KEY` and from PyIceberg's `.pyiceberg.yaml`. That file lies in
the folder that `PYICEBERG_HOME` names or in the home directory; the working directory does not
count. The first of these that has a key counts: `--catalog-option`, the environment, this file.
PyIceberg's file adds nothing to a catalog that this file has."""

_CATALOG_SECRETS = """\
Tokens, secrets and passwords may not stand in this file, nor in a `uri` of it: `key = "env:NAME"`
takes the value from the environment variable NAME."""

_EXAMPLE = """\
concurrency = 16
metrics-file = "/var/lib/node_exporter/icectl.prom"

[expire-snapshots]
older-than = "30d"
retain-last = 20

[storage-options]
endpoint_url = "https://minio.example:9000"
key = "env:MINIO_KEY"
secret = "env:MINIO_SECRET"

[catalog.prod]
type = "rest"
uri = "https://catalog.example/api"
credential = "env:CATALOG_CREDENTIAL"
warehouse = "prod"

[catalog.local]
uri = "sqlite:////var/lib/iceberg/catalog.db\""""


def _about(setting: Setting[Any]) -> str:
    switch = f" (default {str(setting.built_in).lower()})" if setting.is_switch else ""
    return f"{setting.help}{switch}. Environment: `{setting.variable}`."


def _head(name: str, section: int, summary: str) -> list[str]:
    title = roff(name.upper())
    return [
        r".\" generated by `python -m tests.generate.docs`; do not edit",
        f'.TH "{title}" {section} "" "icectl {__version__}" "icectl manual"',
        ".nh",
        ".ad l",
        ".SH NAME",
        rf"{roff(name)} \- {roff(summary)}",
    ]


def _exit_status(codes: Mapping[int, str]) -> list[str]:
    rows = ((_bold(str(code)), meaning) for code, meaning in codes.items())
    return [".SH EXIT STATUS", *_list(rows)]


def _see_also(names: Iterable[str]) -> list[str]:
    """List pages, those of each section in a paragraph."""
    paragraphs = (
        ", ".join(_bold(name[:-3]) + section for name in of_section)
        for section, of_section in groupby(names, lambda name: name[-3:])
    )
    return [".SH SEE ALSO", "\n.PP\n".join(paragraphs)]


def _list(rows: Iterable[tuple[str, str]]) -> Iterator[str]:
    for name, text in rows:
        yield from (".TP", name, roff(text))


def _option(names: str) -> str:
    """Set an option's names bold and its value's name in italics."""
    words = re.split(r"(?<=[a-z]) (?=[A-Z])", names.strip(), maxsplit=1)
    value = f" {_italic(words[1])}" if len(words) > 1 else ""
    return ", ".join(_bold(name) for name in words[0].split(", ")) + value


def _bold(text: str) -> str:
    return rf"\fB{roff(text)}\fR"


def _italic(text: str) -> str:
    return rf"\fI{roff(text)}\fR"


def roff(text: str) -> str:
    """Escape a text for troff, with what stands in backticks in bold."""
    text = text.replace("\\", r"\e").replace("-", r"\-").replace("'", r"\(aq")
    text = re.sub(r"`([^`]*)`", r"\\fB\1\\fR", text)
    return "\n".join(rf"\&{line}" if line.startswith(".") else line for line in text.split("\n"))


def _page(lines: Iterable[str]) -> str:
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str], root: Path) -> int:
    """Write the files below `root`, or compare them; return the exit code."""
    stale = []
    for name, text in pages().items():
        file = root / name
        if file.is_file() and file.read_text("utf-8") == text:
            continue
        stale.append(name)
        if "--check" not in arguments:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, "utf-8")
    for name in stale:
        sys.stdout.write(f"{'stale' if '--check' in arguments else 'written'}: {name}\n")
    return 1 if stale and "--check" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], Path(__file__).parents[2]))
