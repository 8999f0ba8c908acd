"""What a run of maintenance says of each table as it ends: a JSON line, its log, the history."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from shlex import quote
from typing import Any

from icectl import __version__
from icectl.cli.console import Console
from icectl.cli.document import json_line
from icectl.cli.history import history_of
from icectl.cli.options import Common
from icectl.cli.plans import table_in_full
from icectl.commands.maintain.plan import VALIDATE, StepEnd, TableRun
from icectl.commands.maintain.report import file_count, table_row
from icectl.commands.outcomes import STATUS_NAMES
from icectl.commands.steps import ASSESS
from icectl.errors import UsageError
from icectl.storage.location import redacted
from icectl.units import print_duration, print_instant

_FREED = ("deleted_bytes", "removed_bytes", "purged_bytes")
"""Figures of steps that say how many bytes they have freed."""


@dataclass(slots=True)
class EndedTables:
    """Tells of tables as they end, each once.

    The `words` are those of the command line. A run that only plans (`planning`) leaves nothing in
    the history; `prints_lines` where each table is a JSON line of the output.
    """

    common: Common
    words: Sequence[str]
    planning: bool
    prints_lines: bool = False
    run_id: str = field(init=False)
    _started_ms: int = field(init=False)
    _started_seconds: float = field(init=False)
    _told: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        env = self.common.shell.env
        self.run_id, self._started_ms = env.new_uuid()[:8], env.now_ms()
        self._started_seconds = env.monotonic_seconds()
        if not self.prints_lines:
            words = " ".join(map(quote, self.words))
            self._console.begin_log(f"icectl {__version__}, run {self.run_id}: {redacted(words)}")

    @property
    def _console(self) -> Console:
        return self.common.shell.console

    def log_step(self, table: TableRun, end: StepEnd) -> None:
        """Write a line to the log about a step that has ended; none for a table that is valid."""
        if end.step == VALIDATE and not end.exit_code:
            return
        status = STATUS_NAMES.get(end.status, end.status)
        code = f" with exit code {end.exit_code}" if end.exit_code else ""
        step = "" if end.step == ASSESS else f"{end.step} "
        text = f"{table.name}: {step}{status}{code} after {_duration(end.seconds)}"
        what = end.reason if end.exit_code else _summary(end)
        self._console.log(f"{text}: {what}" if what else text)

    def tell(self, tables: Sequence[TableRun]) -> None:
        """Tell of the tables that have ended since the last call."""
        for table in tables:
            is_left = bool(table.left or table.waiting) and table.skipped is None
            is_over = not table.is_running and not is_left
            if is_over and table.name not in self._told:
                self._tell(table)

    def tell_rest(self, tables: Sequence[TableRun]) -> None:
        """Tell of all tables that were not told of, as the run ends."""
        for table in tables:
            if table.name not in self._told:
                self._tell(table)

    def log_end(self, exit_code: int) -> None:
        """Write the last line of the log."""
        seconds = self.common.shell.env.monotonic_seconds() - self._started_seconds
        text = f"exit code {exit_code} after {_duration(seconds)}"
        self._console.log(f"run {self.run_id} ended: {text}")

    def _tell(self, table: TableRun) -> None:
        self._told.add(table.name)
        if table.first.end is not None and table.first.end.exit_code:
            self.log_step(table, table.first.end)
        if self.prints_lines:
            self._console.print(json_line(table_row(table)))
            self._console.flush()
        history = None if self.planning else history_of(self.common.shell.settings)
        if history is None:
            return
        try:
            history.append(self._record(table), self.common.shell.env)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            self._console.warn(f"cannot write the history of runs to `{history.folder}`: {reason}")

    def _record(self, table: TableRun) -> Mapping[str, Any]:
        """Return what the history keeps of a table: names, counts and codes, and no message."""
        try:
            name = table_in_full(self.common, table.name)
        except UsageError:  # a target that stands for no table, and may be anything
            name = table.name
        figures = [end.figures for end in table.ends if end.status != "planned"]
        last = table.last or table.first
        return {
            "run": self.run_id,
            "icectl": __version__,
            "command": self.words[0],
            "started": print_instant(self._started_ms),
            "ended": print_instant(self.common.shell.env.now_ms()),
            "table": redacted(name),
            "status": table.status,
            "exit": table.exit_code,
            "seconds": round(table.seconds, 3),
            "rewritten_bytes": sum(step.get("rewritten_bytes", 0) for step in figures),
            "freed_bytes": sum(step.get(name, 0) for step in figures for name in _FREED),
            "file_count_before": file_count(table.first.facts),
            "file_count_after": file_count(last.facts),
            "steps": [
                {
                    "step": end.step,
                    "status": end.status,
                    "exit": end.exit_code,
                    "error_id": end.error_id,
                    "seconds": round(end.seconds, 3),
                    "summary": _summary(end),
                }
                for end in table.ends
                if end.step != ASSESS or end.exit_code
            ],
        }


def _summary(end: StepEnd) -> str | None:
    """Return what a step did, in counts and bytes; None where it has done nothing."""
    return (end.status == "done" and end.line) or None


def _duration(seconds: float) -> str:
    return print_duration(round(seconds) * 1000 if seconds >= 1 else round(1000 * seconds))
