"""Run a command with its options, on the named table or on several tables."""

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from icectl.cli.document import Outcome
from icectl.cli.options import Common
from icectl.cli.patterns import is_pattern


def run_of(command: str) -> Callable[..., Outcome]:
    """Return the run of a command, imported now: help has no need of it."""
    run: Callable[..., Outcome] = import_module(f"icectl.commands.{command}.run").run
    return run


def run_on_each_table(command: str, *, asks: bool = False) -> Callable[..., Outcome]:
    """Return the run of a command on each of its tables; `asks` if it has a question."""
    run = run_of(command)

    def on_tables(common: Common, tables: Sequence[str], *options: Any) -> Outcome:
        if len(tables) == 1 and not is_pattern(tables[0]):
            return run(common, tables[0], *options)
        from icectl.commands.many import on_each

        return on_each(run, command.replace("_", "-"), common, tables, *options, asks=asks)

    return on_tables
