"""What a check has found while it is under way."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from icectl.plan.model import Finding
from icectl.plan.validate.choice import RuleChoice


@dataclass(slots=True)
class Found:
    """Findings and counts while a check is under way; a finding that comes again counts once."""

    rules: RuleChoice
    findings: dict[Finding, None] = field(default_factory=dict)
    snapshots: int = 0
    files: int = 0
    bytes_read: int = 0
    contents_read: int = 0

    def add(self, findings: Iterable[Finding]) -> None:
        """Keep what is to be reported."""
        self.findings.update(dict.fromkeys(filter(self.rules.keeps, findings)))

    def count_file(self, size_bytes: int | None) -> None:
        """One more file was looked at."""
        self.files += 1
        self.bytes_read += size_bytes or 0
