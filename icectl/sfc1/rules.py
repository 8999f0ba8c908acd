"""Every rule by its id, and the walk over metadata and files of layout sfc-1."""

from collections.abc import Mapping

from icectl.checks.rule import Breach, Finding, Rule, RuleSet
from icectl.checks.rules import ALL_RULES
from icectl.errors import CorruptTable, MissingFile, StorageError, Unsupported
from icectl.sfc1.checks.live import LIVE_RULES
from icectl.sfc1.checks.rows import ROW_RULES
from icectl.sfc1.checks.statistics import STATISTICS_RULES
from icectl.sfc1.checks.steps import STEP_RULES
from icectl.sfc1.checks.vectors import VECTOR_RULES

_CAUSES_FIRST = [rule for rule in LIVE_RULES if rule.id == "V4-120"]
"""A file that is live twice breaks rules of its entries too."""

SFC1_RULES = RuleSet(
    (*_CAUSES_FIRST, *ROW_RULES, *LIVE_RULES, *VECTOR_RULES, *STEP_RULES, *STATISTICS_RULES)
)
"""The rules of roots and leaves, those that are causes of others first."""

EVERY_RULE: Mapping[str, Rule] = dict(sorted({**ALL_RULES, **SFC1_RULES.by_id}.items()))
"""Every rule, in the order of the ids."""


def unreadable(
    location: str, problem: CorruptTable | Unsupported | StorageError, missing: str
) -> Finding:
    """Return a file that can't be read, by the rule that it breaks.

    `missing` is that of absence.
    """
    message = problem.message.removeprefix(f"`{location}`: ")
    if isinstance(problem, MissingFile):
        message = message.removesuffix(f" ({problem.rule})")
    if isinstance(problem, MissingFile | StorageError) or problem.rule is None:
        rule = missing
    else:
        rule = problem.rule
        message = message.removesuffix(f" ({rule})")
    breach = Breach(f"it cannot be read: {message}", severity="error")
    return EVERY_RULE[rule].finding(location, breach)
