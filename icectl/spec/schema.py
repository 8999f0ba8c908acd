"""A schema: fields by id and by dotted name."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from icectl.spec.types import NestedField


@dataclass(frozen=True)
class Schema:
    """One schema of a table. Lookups by id and name are built once, on first use."""

    schema_id: int
    fields: tuple[NestedField, ...]
    identifier_field_ids: tuple[int, ...] = ()
    unknown: Mapping[str, Any] = field(default_factory=dict)
