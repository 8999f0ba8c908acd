"""The rules of the format by their id: what `validate` reports and what the code cites."""

from collections.abc import Mapping

from icectl.spec.rule import Rule
from icectl.spec.rules_draft_16025 import DRAFT_RULES
from icectl.spec.rules_files import FILE_RULES
from icectl.spec.rules_sfc1 import TREE_RULES
from icectl.spec.rules_table import TABLE_RULES

RULES: Mapping[str, Rule] = {
    rule.id: rule
    for rule in sorted(
        (*TABLE_RULES, *FILE_RULES, *TREE_RULES, *DRAFT_RULES), key=lambda rule: rule.id
    )
}
"""Every rule, in the order of the ids."""
