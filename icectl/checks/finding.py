"""How a check reports: by the id of the rule that is broken."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from icectl.spec.rule import BrokenRule
from icectl.spec.rules import RULES

Severity = Literal["error", "warning", "info"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong: which rule, where, what was found, what to do.

    Severity: error = wrong rows, unreadable or unsafe to maintain; warning = wrong but harmless;
    info = worth knowing.
    """

    rule: str
    severity: Severity
    subject: str
    message: str
    hint: str


READ_AGAIN = "check again once the storage lets the file be read"
"""The next step where a file may well be there and whole."""

_ABSOLUTE = re.compile(r"/|[A-Za-z][A-Za-z0-9+.-]*:")


def finding(
    rule: str,
    subject: str,
    message: str,
    *,
    severity: Severity | None = None,
    hint: str | None = None,
) -> Finding:
    """Return a finding with the severity and the hint of its rule, unless the case has its own."""
    known = RULES[rule]
    return Finding(rule, severity or known.severity, subject, message, hint or known.fix)


def is_absolute(location: str) -> bool:
    """Return whether a location is a URI or an absolute path (R-164)."""
    return _ABSOLUTE.match(location) is not None


def fault_findings(subject: str, found: Iterable[BrokenRule]) -> Iterator[Finding]:
    """Faults of one manifest or snapshot as findings. Order: kept."""
    for one in found:
        where = "it" if one.fault.location == subject else f"`{one.fault.location}`"
        more = f", and {one.fault.count - 1:,} more" if one.fault.count > 1 else ""
        yield finding(one.rule, subject, f"{where} {one.told}{more}", severity=one.severity)
