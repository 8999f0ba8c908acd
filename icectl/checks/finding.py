"""How a check reports: by the id of the rule that is broken."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from icectl.checks.rule import Breach, Finding
from icectl.checks.rules import ALL_RULES
from icectl.format.rule import Severity

READ_AGAIN = "check again once the storage lets the file be read"
"""The next step where a file may well be there and whole."""


def finding(
    rule: str,
    subject: str,
    message: str,
    *,
    severity: Severity | None = None,
    hint: str | None = None,
) -> Finding:
    """Return a finding with the severity and the hint of its rule, unless the case has its own."""
    return ALL_RULES[rule].finding(subject, Breach(message, None, severity, hint))


Level = Literal["metadata", "files", "footers", "data"]
"""How deep to look; each level includes the ones before it."""

SEVERITIES: tuple[Severity, ...] = get_args(Severity)
"""Worst first."""


@dataclass(frozen=True, slots=True)
class RuleChoice:
    """The rules whose findings are reported: all, or `only` those, and never `skipped` ones."""

    only: frozenset[str] = frozenset()
    skipped: frozenset[str] = frozenset()

    def keeps(self, finding: Finding) -> bool:
        """Return whether a finding is reported."""
        return (not self.only or finding.rule in self.only) and finding.rule not in self.skipped


def counts(findings: Iterable[Finding]) -> Mapping[Severity, int]:
    """Count the findings of each severity, none of them left out."""
    by_severity = Counter(finding.severity for finding in findings)
    return {severity: by_severity[severity] for severity in SEVERITIES}


def fails(findings: Iterable[Finding], fail_on: Severity) -> bool:
    """Return whether a finding is as bad as `fail_on`, or worse."""
    failing = SEVERITIES[: SEVERITIES.index(fail_on) + 1]
    return any(finding.severity in failing for finding in findings)
