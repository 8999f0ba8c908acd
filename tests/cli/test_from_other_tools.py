"""The page for users of other tools: whole, and true of our options and their defaults."""

import re
from pathlib import Path

import pytest

from icectl.cli import app
from icectl.cli.other_tools import FOREIGN_COMMANDS, ForeignCommand, option_hint
from icectl.format.properties import MAX_SNAPSHOT_AGE_MS, MIN_SNAPSHOTS_TO_KEEP
from tests.cli.conftest import Run
from tests.generate.docs import parameters_of

PAGE = (Path(__file__).parents[2] / "docs" / "from-other-tools.md").read_text("utf-8")
TITLES = {
    "Spark": "Spark procedures",
    "Trino": "Trino statements",
    "PyIceberg": "PyIceberg commands",
}
OF_EVERY_COMMAND = {
    "catalog", "output", "verbose", "log-level", "uri", "credential", "warehouse", "ugi",
}  # fmt: skip
"""Options that `pyiceberg` takes in front of a command."""

IN_WORDS = {
    ("expire-snapshots", "--older-than"): "the table's property, or 5d",
    ("expire-snapshots", "--retain-last"): "the table's property, or 1",
    ("refs", "--to"): "required",
}
"""Defaults that no help says, for the tests below."""


def part(tool: str) -> str:
    """The part of the page about a tool."""
    return PAGE.partition(f"\n## {TITLES[tool]}\n")[2].partition("\n## ")[0]


def rows(text: str) -> dict[str, list[str]]:
    """The rows of tables by their first cell, which is code."""
    lines = [[cell.strip() for cell in line.split(" | ")] for line in text.splitlines()]
    found = {}
    for name, *cells in lines:
        if name.startswith("| `"):
            found[name[3:-1]] = [cell.removesuffix(" |") for cell in cells]
    return found


def default_of(command: str, option: str) -> str:
    """The default of an option, as its help says it."""
    if (command, option) in IN_WORDS:
        return IN_WORDS[command, option]
    parameters = parameters_of(app.load_command(command))
    (parameter,) = [found for found in parameters if option in found.opts]
    said = re.search(
        r"\(default:? ([^)]*)\)|([\w-]+) \(default\)|default (the table's)", parameter.help
    )
    if said is None:
        return "off" if parameter.metavar is None else "none"
    return next(filter(None, said.groups()))


@pytest.mark.parametrize("foreign", FOREIGN_COMMANDS, ids=lambda one: f"{one.tool}-{one.name}")
def test_each_command_has_its_options_with_ours_and_both_defaults(foreign: ForeignCommand):
    text = part(foreign.tool)
    if foreign.here is None:
        _, instead = rows(text.partition("### Without an equivalent\n")[2])[foreign.name]
        assert instead == foreign.instead
        return
    if not foreign.options:
        assert rows(text)[foreign.name] == [f"`{foreign.here}`"]
        return
    section = text.partition(f"\n### `{foreign.name}`\n")[2].partition("\n###")[0]
    assert section.strip().startswith(f"`{foreign.here}`")
    table = rows(section)
    assert list(table) == list(foreign.options)
    for name, (theirs, here, ours) in table.items():
        assert theirs not in ("", "?")
        assert here == foreign.options[name]
        option = re.match(r"`(--[a-z-]+)", here)
        assert foreign.command is not None
        assert ours == (default_of(foreign.command, option[1]) if option else "-"), name


def test_options_of_every_command_have_ours_and_both_defaults():
    section = part("PyIceberg").partition("### Options of every command\n")[2].partition("\n###")[0]
    table = rows(section)
    assert set(table) == OF_EVERY_COMMAND
    for name, (theirs, here, ours) in table.items():
        option = re.match(r"`(--[a-z-]+)", here)
        assert option is not None
        assert theirs
        counted = option[1] == "--verbose"
        assert ours == ("off" if counted else default_of("inspect", option[1])), name
        assert command_options_hint(name) in (None, here) or name in ("catalog", "verbose")


def command_options_hint(name: str) -> str | None:
    """What the typo hint says of an option, if it is one of other tools alone."""
    hint = option_hint(f"--{name}", "validate", {"--json", "--catalog-option", "--verbose"})
    return hint.removeprefix("use ") if hint else None


def test_the_page_names_no_other_commands():
    named = re.findall(r"^### `([\w-]+)`$|^\| `([\w.-]+)` \|", PAGE, flags=re.MULTILINE)
    known = {one.name for one in FOREIGN_COMMANDS} | OF_EVERY_COMMAND
    known |= {option for one in FOREIGN_COMMANDS for option in one.options}
    assert {first or second for first, second in named} <= known


def test_defaults_that_help_does_not_say(run: Run, tmp_path):
    assert MAX_SNAPSHOT_AGE_MS.default == 5 * 86_400_000
    assert MIN_SNAPSHOTS_TO_KEEP.default == 1
    assert run("refs", str(tmp_path), "rollback").code == 2
