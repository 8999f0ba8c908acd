"""The rules of the format by their id: what `validate` reports and what the code cites."""

from collections.abc import Mapping

from icectl.format.rule import Rule
from icectl.format.rules_files import FILE_RULES
from icectl.format.rules_sfc1 import TREE_RULES
from icectl.format.rules_table import TABLE_RULES

RULES: Mapping[str, Rule] = {
    rule.id: rule
    for rule in sorted((*TABLE_RULES, *FILE_RULES, *TREE_RULES), key=lambda rule: rule.id)
}
"""Every rule, in the order of the ids."""
