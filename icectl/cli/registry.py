"""The commands of icectl: their names, their lines of help, and their parsers."""

from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module

import typer
from typer.main import get_command

from icectl.cli.document import Outcome
from icectl.cli.help import PlainCommand
from icectl.cli.options import Command

COMMANDS: Mapping[str, str] = {
    "inspect": "show a table's state, contents, history and health",
    "validate": "check metadata and files against the rules of the format",
    "repair": "repair a broken table, as far as the fix can be proved",
    "maintain": "run the maintenance that many tables need, by a policy",
    "runs": "show what earlier runs of maintain did",
    "expire-snapshots": "drop old snapshots and the files only they need",
    "rewrite-manifests": "regroup manifests by partition, at their target size",
    "compact": "combine small data files, apply deletes",
    "expire-rows": "delete old rows, by a filter about the past",
    "erase": "erase rows from all branches and from history",
    "analyze": "count the distinct values of columns for query planners",
    "remove-orphans": "delete or move files that the table does not refer to",
    "refs": "list, create, move and drop branches and tags",
    "properties": "show, set and unset table properties",
    "relocate": "rewrite the metadata of a moved or copied table",
    "apply": "run a plan saved with --save-plan",
    "doctor": "check this machine, and access to catalogs and stores",
    "migrate-v1-v2": "upgrade a table from version 1 to version 2",
    "upgrade-to-v3": "upgrade a table from version 1 or 2 to version 3",
    "upgrade-to-v4": "upgrade a table to format version 4",
}
"""Every command with its one line of help. Its module has its name, and is imported to run it."""

DOCUMENTATION: Mapping[str, str] = {
    "schema": "print the JSON Schema of what a command prints with --json",
    "completion": "print the completion script of a shell",
    "man": "show the manual page of a command",
}
"""Documents about icectl itself; documentation.py prints them."""

HELP_NAMES = {"help_option_names": ["-h", "--help"]}


def load_command(name: str) -> Command:
    """Import the module of a command."""
    attribute = name.replace("-", "_")
    command: Command = getattr(import_module(f"icectl.commands.{attribute}.options"), attribute)
    return command


def load_run(name: str) -> Callable[..., Outcome]:
    """Import the run of a command: help has no need of it."""
    run: Callable[..., Outcome] = import_module(f"icectl.commands.{name.replace('-', '_')}.run").run
    return run


@cache
def parser_of(command: Command) -> PlainCommand:
    """Build the parser of one command, once."""
    application = typer.Typer(add_completion=False, rich_markup_mode=None)
    declare = application.command(command.name, cls=PlainCommand, context_settings=HELP_NAMES)
    declare(command.callback)
    parser = get_command(application)
    assert isinstance(parser, PlainCommand)
    parser.spec = command
    return parser
