"""The rules of versions 1 to 3, and of the metadata of sfc-1."""

from collections.abc import Mapping
from dataclasses import replace

from icectl.checks.bounds import BOUND_RULES
from icectl.checks.deletes import DELETE_RULES
from icectl.checks.manifests import MANIFEST_RULES
from icectl.checks.metadata import METADATA_RULES
from icectl.checks.metrics import METRIC_RULES
from icectl.checks.numbering import NUMBER_RULES
from icectl.checks.objects import MetadataFile
from icectl.checks.partitions import PARTITION_RULES
from icectl.checks.rule import Check, Rule, RuleSet
from icectl.checks.schemas import SCHEMA_RULES, shared_partition_fields
from icectl.checks.sfc1_metadata import SFC1_METADATA_RULES
from icectl.checks.snapshots import SNAPSHOT_RULES
from icectl.format.layout import Layout, layout_of_table
from icectl.format.metadata import TableMetadata

_KEPT = (
    "R-007", "R-017", "R-030", "R-033", "R-080", "R-097", "R-101", "R-140", "R-177", "R-181",
    "R-182", "R-185",
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
