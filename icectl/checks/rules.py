"""The rules of versions 1 to 3 and of sfc-1's metadata, and findings by id."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

from icectl.checks.deletes import DELETE_RULES
from icectl.checks.manifests import MANIFEST_RULES
from icectl.checks.metadata import METADATA_RULES
from icectl.checks.metrics import BOUND_RULES, METRIC_RULES
from icectl.checks.numbering import NUMBER_RULES
from icectl.checks.objects import Columns, MetadataFile, StoredManifest
from icectl.checks.partitions import PARTITION_RULES
from icectl.checks.rule import Breach, Check, Finding, Rule, RuleSet
from icectl.checks.schemas import SCHEMA_RULES, shared_partition_fields
from icectl.checks.sfc1_metadata import SFC1_METADATA_RULES
from icectl.checks.snapshots import SNAPSHOT_RULES
from icectl.entries.rows import RawEntries
from icectl.errors import OtherFile
from icectl.format.layout import Layout, layout_of_table
from icectl.format.manifest import Content, ManifestContent, ManifestFile, ManifestHeader, Status
from icectl.format.metadata import TableMetadata
from icectl.format.rule import Severity

_KEPT = (
    "R-007", "R-017", "R-018", "R-021", "R-030", "R-033", "R-080", "R-097", "R-101", "R-140",
    "R-177", "R-181", "R-182", "R-185", "R-193",
)  # fmt: skip
"""Rules of metadata that sfc-1 has no id of its own for."""

_VERSIONS_1_TO_3 = (
    *METADATA_RULES, *SNAPSHOT_RULES, *SCHEMA_RULES, *NUMBER_RULES, *MANIFEST_RULES,
    *PARTITION_RULES, *BOUND_RULES, *METRIC_RULES, *DELETE_RULES,
)  # fmt: skip

RULES = RuleSet(
    (
        *sorted(_VERSIONS_1_TO_3, key=lambda rule: rule.id),
        *(one for one in SFC1_METADATA_RULES if one.id == "V4-001"),
    )
)
"""The rules of versions 1 to 3, and that these have no roots."""

SFC1_METADATA = RuleSet(
    (
        *SFC1_METADATA_RULES,
        *(RULES.by_id[id_] for id_ in _KEPT),
        replace(RULES.by_id["R-077"], checks=(Check(MetadataFile, shared_partition_fields),)),
    )
)
"""The rules of the metadata of sfc-1."""

ALL_RULES: Mapping[str, Rule] = {**SFC1_METADATA.by_id, **RULES.by_id}
"""Rules by id, but for those of roots and leaves."""


def rules_of_metadata(metadata: TableMetadata) -> RuleSet:
    """Return the rules that the metadata of a table is checked against."""
    return SFC1_METADATA if layout_of_table(metadata) is Layout.SFC_1 else RULES


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


def unread_finding(
    rule: str,
    subject: str,
    reason: str,
    *,
    severity: Severity | None = None,
    hint: str | None = None,
) -> Finding:
    """Return the finding on a file that cannot be read."""
    breach = Breach(f"it cannot be read: {reason}", None, severity, hint, is_unread=True)
    return ALL_RULES[rule].finding(subject, breach)


READ_AGAIN = "check again once the storage lets the file be read"
"""The next step where a file may well be there and whole."""


# -- findings that are reported -------------------------------------------------------------------

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


# -- a manifest in doubt --------------------------------------------------------------------------

_EVIDENCE = ("R-061", "R-051", "R-053", "R-044", "R-047", "R-050", "R-097")
"""Rules whose breach may tell of another manifest, the most telling first."""


def doubts_of_manifest(
    metadata: TableMetadata,
    row: ManifestFile,
    header: ManifestHeader,
    size_bytes: int,
    rows: RawEntries,
) -> Sequence[Finding]:
    """Return what speaks against a manifest that a row of a manifest list describes.

    One finding may be a mistake of a writer, and two tell of another file. The name of another
    snapshot proves that alone. `rows` have the planning columns.
    Raises: OtherFile, by the rule that tells most.
    """
    if metadata.spec(row.partition_spec_id) is None:
        return ()  # what it should be is not known
    columns = Columns(rows)
    stored = StoredManifest(metadata, [row], header, size_bytes, columns)
    found = list(RULES.findings(stored, only=_EVIDENCE))
    if (columns.of("content", Content.DATA) != (row.content is ManifestContent.DATA)).any():
        message = "its entries have another content than the list says"
        found.append(finding("R-061", row.manifest_path, message))
    of_other = None
    if row.added_snapshot_id is not None:
        changed = columns.of("status", Status.ADDED, Status.DELETED)
        ids = columns.numbers("snapshot_id")[changed & columns.present("snapshot_id")]
        if len(ids) and (ids != row.added_snapshot_id).all():
            of_other = (
                f"its entries were added or removed by snapshot {ids[0]}, "
                f"not {row.added_snapshot_id}"
            )
    # A header and the entries tell of the content each for itself; several ranges tell the same.
    by_rule = {one.rule if one.rule != "R-061" else one.message: one for one in found}
    if of_other is not None or len(by_rule) > 1:
        ordered = sorted(by_rule.values(), key=lambda one: _EVIDENCE.index(one.rule))
        reasons = [] if of_other is None else [of_other]
        reasons += [one.message for one in ordered]
        message = f"it is not the manifest that the list describes: {'; '.join(reasons)}"
        raise OtherFile(message, rule="R-064" if of_other is not None else ordered[0].rule)
    return found
