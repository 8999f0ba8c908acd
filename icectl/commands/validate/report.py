"""The report of a check of a table, as result members and as text."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from textwrap import wrap
from typing import Any

from icectl.checks.rule import Finding
from icectl.checks.rules import SEVERITIES, Level, counts
from icectl.cli.console import Console, Style
from icectl.format.rule import Severity
from icectl.units import print_count, print_size

LISTED_WITHOUT_VERBOSE = 20
"""Findings of one rule that are printed when not all were asked for."""

_STYLES: Mapping[Severity, Style] = {"error": "red", "warning": "yellow", "info": "cyan"}
_NOUNS: Mapping[Severity, str] = {"error": "error", "warning": "warning", "info": "note"}
"""What text calls them; documents and settings keep `info`."""


@dataclass(frozen=True, slots=True)
class CheckedTable:
    """A table's findings, and how much of it was looked at.

    `files_decoded` are content files of which each row was read, `files_judged` those that were
    judged by their footers. `sample` is the part of the content files that was looked at, None for
    all. `where` is the condition that files may match; manifests and live files that can't were
    `skipped`. `complete` is false where the time limit came first.
    """

    table_location: str
    level: Level
    findings: tuple[Finding, ...]
    snapshots_checked: int
    files_checked: int
    bytes_read: int
    files_decoded: int = 0
    files_judged: int = 0
    sample: float | None = None
    where: str | None = None
    skipped_manifests: int = 0
    skipped_files: int = 0
    complete: bool = True


def checked_result(checked: CheckedTable) -> dict[str, Any]:
    """Return the result of a check. Order: findings as they were found."""
    return {
        "level": checked.level,
        "sample": checked.sample,
        "where": checked.where,
        "partial": checked.sample is not None or checked.where is not None,
        "skipped_manifests": checked.skipped_manifests,
        "skipped_files": checked.skipped_files,
        "complete": checked.complete,
        "snapshots_checked": checked.snapshots_checked,
        "files_checked": checked.files_checked,
        "files_decoded": checked.files_decoded,
        "files_judged_by_footers": checked.files_judged,
        "bytes_read": checked.bytes_read,
        "counts": dict(counts(checked.findings)),
        "findings": [finding.json() for finding in checked.findings],
    }


def checked_line(checked: CheckedTable) -> str:
    """Return how many errors and warnings were found, and how many files were checked."""
    number = counts(checked.findings)
    texts = [print_count(number[kind], kind) for kind in ("error", "warning") if number[kind]]
    counted = f"{print_count(checked.files_checked, 'file')} checked{_skipped(checked)}"
    return ", ".join([*texts, counted])


def print_checked(console: Console, checked: CheckedTable, *, whole: bool) -> None:
    """Print findings by rule, the worst first, then what was looked at; `whole`: every finding."""

    def place(finding: Finding) -> tuple[int, str]:
        return SEVERITIES.index(finding.severity), finding.rule

    for _, of_rule in groupby(sorted(checked.findings, key=place), key=place):
        _print_rule(console, list(of_rule), checked.table_location, whole=whole)
    if not checked.complete:
        console.warn("stopped at the time limit: the rest of the table was not checked")
    console.say(_verdict(checked))


def _print_rule(console: Console, findings: Sequence[Finding], base: str, *, whole: bool) -> None:
    first = findings[0]
    messages = {finding.message for finding in findings}
    message = messages.pop() if len(messages) == 1 else None
    noun = _NOUNS[first.severity]
    label = f"{noun} {first.rule}"
    head, *further = _wrapped(
        console, f"{label}: {message or f'{len(findings):,} findings'}", "", "    "
    )
    severity = console.style(noun, "bold", _STYLES[first.severity])
    console.print(f"{severity} {console.style(first.rule, 'bold')}{head.removeprefix(label)}")
    for line in further:
        console.print(line)
    shown = findings if whole else findings[:LISTED_WITHOUT_VERBOSE]
    for finding in shown:
        subject = finding.subject.removeprefix(f"{base.rstrip('/')}/")
        text = subject if message else f"{subject}: {finding.message}"
        print_wrapped(console, text, "  ", "    ")
    if len(shown) < len(findings):
        rest = len(findings) - len(shown)
        console.print(f"  and {rest:,} more; `--verbose` prints all of them")
    for hint in dict.fromkeys(finding.hint for finding in findings):
        print_wrapped(console, f"hint: {hint}", "  ", "    ", dim=True)
    console.print()


def print_wrapped(
    console: Console, text: str, indent: str, further: str, *, dim: bool = False
) -> None:
    """Print a sentence; locations are never cut, so that they can be copied."""
    for line in _wrapped(console, text, indent, further):
        console.print(console.style(line, "dim") if dim else line)


def _wrapped(console: Console, text: str, indent: str, further: str) -> list[str]:
    return wrap(
        text,
        console.prose_width,
        initial_indent=indent,
        subsequent_indent=further,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _verdict(checked: CheckedTable) -> str:
    number = counts(checked.findings)
    named = [print_count(count, _NOUNS[severity]) for severity, count in number.items() if count]
    if not named:
        verdict = "no problems found"
    else:
        verdict = ", ".join(named if number["error"] else ["no errors", *named])
    of_contents = {
        "data": f"{checked.files_decoded:,} decoded, ",
        "footers": f"{checked.files_judged:,} judged by footers, ",
    }
    looked_at = (
        f"{print_count(checked.snapshots_checked, 'snapshot')}, "
        f"{print_count(checked.files_checked, 'file')}, {of_contents.get(checked.level, '')}"
        f"{print_size(checked.bytes_read)} read"
    )
    part = "" if checked.sample is None else f", a sample of {checked.sample:.3%}"
    part += "" if checked.where is None else ", files that may match"
    return f"{verdict} (level {checked.level}{part}: {looked_at}{_skipped(checked)})"


def _skipped(checked: CheckedTable) -> str:
    """Return what a condition left out, as the end of a line."""
    if checked.where is None:
        return ""
    manifests = print_count(checked.skipped_manifests, "manifest")
    return f"; not checked: {print_count(checked.skipped_files, 'file')}, {manifests}"
