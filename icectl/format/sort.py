"""Sort orders and their JSON."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from icectl.format.json_members import others
from icectl.format.partition import source_ids, sources_json
from icectl.format.schema import Schema
from icectl.format.transforms import Transform, parse_transform

_WITHOUT_ORDER = ("bucket", "void", "unknown")

FIELD_MEMBERS = {"source-id", "source-ids", "transform", "direction", "null-order"}


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

    @property
    def ordered_ids(self) -> frozenset[int]:
        """The columns whose own order it goes by, the first of each key; no hash keeps it."""
        keeping = (item for item in self.fields if item.transform.name not in _WITHOUT_ORDER)
        return frozenset(item.source_ids[0] for item in keeping)


def order_from_json(value: Mapping[str, Any]) -> SortOrder:
    """Return an order from its JSON. Raises: ValueError, KeyError or TypeError, when it is none."""
    fields = tuple(
        SortField(
            source_ids(item),
            parse_transform(str(item["transform"])),
            str(item["direction"]).lower(),
            str(item["null-order"]).lower(),
            others(item, FIELD_MEMBERS),
        )
        for item in value["fields"]
    )
    unknown = others(value, {"order-id", "fields"})
    return SortOrder(int(value["order-id"]), fields, unknown)


def order_json(order: SortOrder) -> dict[str, Any]:
    """Return the JSON form of an order."""
    fields = [
        {"transform": item.transform.text}
        | sources_json(item.source_ids)
        | {"direction": item.direction, "null-order": item.null_order}
        | dict(item.unknown)
        for item in order.fields
    ]
    return {"order-id": order.order_id, "fields": fields} | dict(order.unknown)


def order_text(order: SortOrder, schema: Schema) -> str:
    """Return an order in one line: `category asc nulls first, bucket[4](id) desc nulls last`."""
    if not order.fields:
        return "unsorted"
    keys = []
    for item in order.fields:
        names = ", ".join(schema.name_of(id_) or f"#{id_}" for id_ in item.source_ids)
        key = names if item.transform.name == "identity" else f"{item.transform.text}({names})"
        keys.append(f"{key} {item.direction} {item.null_order.replace('-', ' ')}")
    return ", ".join(keys)
