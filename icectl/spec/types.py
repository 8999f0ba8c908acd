"""The type tree of Iceberg columns.

Shape only: parsing and printing, promotion and versions live beside it in this module.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class PrimitiveType:
    """A type without parameters: boolean, int, long, float, double, date, time, timestamp,
    timestamptz, timestamp_ns, timestamptz_ns, string, uuid, binary, unknown, variant.
    """

    name: str


@dataclass(frozen=True, slots=True)
class DecimalType:
    """decimal(precision, scale)."""

    precision: int
    scale: int


@dataclass(frozen=True, slots=True)
class FixedType:
    """fixed[length]: exactly `length` bytes."""

    length: int


@dataclass(frozen=True, slots=True)
class GeometryType:
    """geometry(crs); None is the default coordinate system (R-090)."""

    crs: str | None = None


@dataclass(frozen=True, slots=True)
class GeographyType:
    """geography(crs, algorithm); None is the default of either (R-090)."""

    crs: str | None = None
    algorithm: str | None = None


@dataclass(frozen=True, slots=True)
class NestedField:
    """One field of a struct. Defaults are kept as their JSON single values (R-094, R-182);
    `unknown` holds members this program does not know.
    """

    id: int
    name: str
    type: "Type"
    required: bool
    doc: str | None = None
    unknown: Mapping[str, Any] = field(default_factory=dict)
    initial_default: Any = None
    write_default: Any = None


@dataclass(frozen=True, slots=True)
class StructType:
    """A struct; the schema's root is one too."""

    fields: tuple[NestedField, ...]


@dataclass(frozen=True, slots=True)
class ListType:
    """A list with the id of its element."""

    element_id: int
    element: "Type"
    element_required: bool


@dataclass(frozen=True, slots=True)
class MapType:
    """A map with the ids of its key and value."""

    key_id: int
    key: "Type"
    value_id: int
    value: "Type"
    value_required: bool


Type = (
    PrimitiveType | DecimalType | FixedType | GeometryType | GeographyType
    | StructType | ListType | MapType
)
