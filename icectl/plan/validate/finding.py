"""How a check reports: by the id of the rule that is broken."""

from icectl.plan.model import Finding, Severity
from icectl.spec.rules import RULES


def finding(rule: str, subject: str, message: str, *, severity: Severity | None = None) -> Finding:
    """A finding with the severity and the hint of its rule, unless the case is milder or worse."""
    known = RULES[rule]
    return Finding(rule, severity or known.severity, subject, message, known.fix)
