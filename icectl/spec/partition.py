"""Partition specs."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from icectl.spec.transforms import Transform


@dataclass(frozen=True, slots=True)
class PartitionField:
    """One field of a spec: transform of the source columns (R-081)."""

    source_ids: tuple[int, ...]
    field_id: int
    name: str
    transform: Transform
    unknown: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PartitionSpec:
    """One partition spec of a table."""

    spec_id: int
    fields: tuple[PartitionField, ...]
    unknown: Mapping[str, Any] = field(default_factory=dict)
