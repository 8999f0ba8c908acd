"""Sort orders."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from icectl.spec.transforms import Transform


@dataclass(frozen=True, slots=True)
class SortField:
    """One key of a sort order; direction `asc` or `desc`, null order as the format spells it."""

    source_ids: tuple[int, ...]
    transform: Transform
    direction: str
    null_order: str
    unknown: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SortOrder:
    """One sort order of a table; id 0 is unsorted (R-084)."""

    order_id: int
    fields: tuple[SortField, ...]
    unknown: Mapping[str, Any] = field(default_factory=dict)
