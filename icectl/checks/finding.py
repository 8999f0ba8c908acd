"""How a check reports: by the id of the rule that is broken."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Literal, get_args

from icectl.checks.rule import Breach, Finding
from icectl.checks.rules import ALL_RULES
from icectl.errors import UsageError
from icectl.format.rule import BrokenRule, Severity

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


def fault_findings(subject: str, found: Iterable[BrokenRule]) -> Iterator[Finding]:
    """Faults of one manifest or snapshot as findings. Order: kept."""
    for one in found:
        where = "it" if one.fault.location == subject else f"`{one.fault.location}`"
        more = f", and {one.fault.count - 1:,} more" if one.fault.count > 1 else ""
        yield finding(one.rule, subject, f"{where} {one.told}{more}", severity=one.severity)


Level = Literal["metadata", "files", "footers", "data"]
"""How deep to look; each level includes the ones before it."""

SEVERITIES: tuple[Severity, ...] = get_args(Severity)
"""Worst first."""


@dataclass(frozen=True, slots=True)
class RuleChoice:
    """The rules whose findings are reported: all, or `only` those, and never `skipped` ones."""

    only: frozenset[str] = frozenset()
    skipped: frozenset[str] = frozenset()

    def keeps(self, found: Finding) -> bool:
        """Return whether a finding is reported."""
        return (not self.only or found.rule in self.only) and found.rule not in self.skipped


def rule_ids(option: str, texts: Iterable[str]) -> frozenset[str]:
    """Return the rules that an option names. Raises: UsageError for one that there is not."""
    ids = frozenset(text.strip().upper() for text in texts)
    for id_ in sorted(ids - ALL_RULES.keys()):
        near = get_close_matches(id_, ALL_RULES, n=1)
        hint = f"did you mean `{near[0]}`?" if near else "rules are named like `R-066`"
        raise UsageError(f"`{option}`: there is no rule `{id_}`", hint=hint)
    return ids


def counts(findings: Iterable[Finding]) -> Mapping[Severity, int]:
    """Count the findings of each severity, none of them left out."""
    found = Counter(finding.severity for finding in findings)
    return {severity: found[severity] for severity in SEVERITIES}


def fails(findings: Iterable[Finding], fail_on: Severity) -> bool:
    """Return whether a finding is as bad as `fail_on`, or worse."""
    failing = SEVERITIES[: SEVERITIES.index(fail_on) + 1]
    return any(finding.severity in failing for finding in findings)
