"""Run a command with its options, on the named table or on several tables."""

from collections.abc import Callable, Sequence
from typing import Any

from icectl.cli.document import Outcome
from icectl.cli.options import Common
from icectl.cli.patterns import is_pattern
from icectl.cli.registry import load_run


def run_on_each_table(command: str, *, asks: bool = False) -> Callable[..., Outcome]:
    """Return the run of a command on each of its tables; `asks` if it has a question."""
    run = load_run(command)

    def on_tables(common: Common, tables: Sequence[str], *options: Any) -> Outcome:
        if len(tables) == 1 and not is_pattern(tables[0]):
            return run(common, tables[0], *options)
        from icectl.commands.many import on_each

        return on_each(run, command.replace("_", "-"), common, tables, *options, asks=asks)

    return on_tables
