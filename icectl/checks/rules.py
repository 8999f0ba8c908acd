"""Every rule of the format by its id, and the walks over tables with lists and with roots."""

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
from icectl.checks.sfc1_rules import TREE_RULES
from icectl.checks.snapshots import SNAPSHOT_RULES
from icectl.format.layout import Layout

_KEPT = (
    "R-007", "R-017", "R-030", "R-033", "R-080", "R-097", "R-101", "R-140", "R-177", "R-181",
    "R-182", "R-185",
)  # fmt: skip
"""Rules of metadata that sfc-1 has no id of its own for."""

_VERSIONS_1_TO_3 = (
    *METADATA_RULES, *SNAPSHOT_RULES, *SCHEMA_RULES, *NUMBER_RULES, *MANIFEST_RULES,
    *PARTITION_RULES, *BOUND_RULES, *METRIC_RULES, *DELETE_RULES,
)  # fmt: skip

ALL_RULES: Mapping[str, Rule] = {
    rule.id: rule
    for rule in sorted(
        (*_VERSIONS_1_TO_3, *SFC1_METADATA_RULES, *TREE_RULES), key=lambda rule: rule.id
    )
}
"""Every rule, in the order of the ids."""

RULES = RuleSet((*_VERSIONS_1_TO_3, ALL_RULES["V4-001"]))
"""The rules of versions 1 to 3, and that these have no roots."""

SFC1_RULES = RuleSet(
    (
        *SFC1_METADATA_RULES,
        *TREE_RULES,
        *(ALL_RULES[id_] for id_ in _KEPT),
        replace(ALL_RULES["R-077"], checks=(Check(MetadataFile, shared_partition_fields),)),
    )
)
"""The rules of sfc-1; what its files share with older versions has the ids of these."""


def rules_of(layout: Layout) -> RuleSet:
    """Return the rules that metadata and snapshots of a layout are checked against."""
    return SFC1_RULES if layout is Layout.SFC_1 else RULES
