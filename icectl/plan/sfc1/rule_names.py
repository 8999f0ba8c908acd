"""What layout sfc-1 calls rules that it has taken over from older versions."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal

from icectl.plan.model import Finding, Severity
from icectl.plan.validate.finding import finding
from icectl.spec.layout import Layout, layout_of_table
from icectl.spec.metadata import TableMetadata

Part = Literal["metadata", "files", "contents"]
"""What findings are about: members of the metadata, stored files, or what is in these."""

_OF_METADATA: Mapping[tuple[str, str], tuple[str, Severity | None]] = {
    ("R-015", ""): ("V4-019", None),
    ("R-016", ""): ("V4-021", None),
    ("R-019", ""): ("V4-006", None),
    ("R-022", ""): ("V4-019", None),
    ("R-024", ""): ("V4-022", None),
    ("R-025", ""): ("V4-020", "warning"),
    ("R-026", ""): ("V4-020", None),
    ("R-027", ""): ("V4-019", None),
    ("R-031", ""): ("V4-034", None),
    ("R-040", ""): ("V4-032", None),
    ("R-077", "partition spec"): ("V4-013", None),
    ("R-077", "partition specs"): ("V4-007", None),
    ("R-084", ""): ("V4-016", None),
    ("R-104", "metadata"): ("V4-018", None),
    ("R-104", "snapshot"): ("V4-031", None),
    ("R-141", ""): ("V4-023", None),
    ("R-142", ""): ("V4-023", None),
    ("R-164", ""): ("V4-004", None),
    ("R-184", ""): ("V4-006", None),
}
"""What version 4 calls a rule that it has taken over, by the kind of subject where it matters."""

_OF_FILES: Mapping[Part, Mapping[str, str]] = {
    "files": {"R-034": "V4-182", "R-063": "V4-182"},
    "contents": {"R-118": "V4-123", "R-119": "V4-123"},
}
"""The same of stored files, and of the delete vectors of data files."""


def named(metadata: TableMetadata, part: Part, found: Iterable[Finding]) -> Iterator[Finding]:
    """Findings about a part of a table under the ids that its layout gives their rules.

    Order: kept.
    """
    if layout_of_table(metadata) is not Layout.SFC_1:
        yield from found
        return
    for one in found:
        rule, severity = _name(one, part)
        if rule == one.rule:
            yield one
        else:
            yield finding(rule, one.subject, one.message, severity=severity)


def _name(one: Finding, part: Part) -> tuple[str, Severity | None]:
    if part != "metadata":
        return _OF_FILES[part].get(one.rule, one.rule), one.severity
    kind = one.subject.rstrip("0123456789-").rstrip()
    name = _OF_METADATA.get((one.rule, kind)) or _OF_METADATA.get((one.rule, ""))
    return name or (one.rule, None)
