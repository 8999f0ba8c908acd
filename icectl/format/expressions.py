"""Expressions of version 4: what partition fields compute, once for the table (sfc-1 2.4)."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any

from icectl.errors import CorruptTable
from icectl.format.json_members import others
from icectl.format.partition import (
    FIELD_MEMBERS,
    PartitionField,
    PartitionSpec,
    result_types,
    source_ids,
    sources_json,
)
from icectl.format.schema import Schema
from icectl.format.transforms import Transform, parse_transform
from icectl.format.types import Type, parse_type, type_json

HIGHEST_STATS_ID = 999_949
"""The last id of a column or expression that statistics have room for (V4-014)."""

GUARD_NAME = "sfc_1"
"""The name of the partition field of a spec that guards a table."""

_MEMBERS = {"expr-id", "type", "expr", "partition-field-id"}
_EXPR_MEMBERS = {"source-id", "source-ids", "transform", "name", "partition-field-id"}
_LINK = "expr-id"


@dataclass(frozen=True, slots=True)
class Expression:
    """A derived column of the table; `type` is None where nothing tells it.

    `partition_field_id` is the id of its values in the partitions of older manifests; expressions
    that no spec uses may have none.
    """

    expr_id: int
    type: Type | None
    source_ids: tuple[int, ...]
    transform: Transform
    name: str
    partition_field_id: int | None = None
    unknown: Mapping[str, Any] = field(default_factory=dict)
    unknown_in_expr: Mapping[str, Any] = field(default_factory=dict)

    @property
    def stats_id(self) -> int | None:
        """The id of its statistics: the column's for identity; None for void (sfc-1 X2)."""
        if self.transform.name == "void":
            return None
        return self.source_ids[0] if self.transform.name == "identity" else self.expr_id

    @property
    def is_opaque(self) -> bool:
        """Whether its values are carried and compared, but can't be computed (sfc-1 X6)."""
        return self.transform.name == "unknown" or len(self.source_ids) > 1


def expression_from_json(value: Mapping[str, Any]) -> Expression:
    """An expression from its JSON. Raises: ValueError, KeyError or TypeError, when it is none."""
    expr = value["expr"]
    if ("source-id" in expr) == ("source-ids" in expr):  # V4-012
        raise ValueError("it has not exactly one of `source-id` and `source-ids`")
    stored_type = value.get("type")
    number = value.get("partition-field-id", expr.get("partition-field-id"))
    return Expression(
        int(value[_LINK]),
        None if stored_type is None else parse_type(stored_type),
        source_ids(expr),
        parse_transform(str(expr["transform"])),
        str(expr["name"]),
        None if number is None else int(number),
        others(value, _MEMBERS),
        others(expr, _EXPR_MEMBERS),
    )


def expression_json(expression: Expression) -> dict[str, Any]:
    """Return the JSON form of an expression."""
    members: dict[str, Any] = {_LINK: expression.expr_id}
    if expression.type is not None:
        members["type"] = type_json(expression.type)
    members["expr"] = (
        sources_json(expression.source_ids)
        | {"transform": expression.transform.text, "name": expression.name}
        | dict(expression.unknown_in_expr)
    )
    if expression.partition_field_id is not None:
        members["partition-field-id"] = expression.partition_field_id
    return members | dict(expression.unknown)


def linked_spec_from_json(
    value: Mapping[str, Any], expressions: Mapping[int, Expression], schemas: Sequence[Schema]
) -> PartitionSpec:
    """Return a spec whose fields are links to expressions, or to columns (sfc-1 2.3).

    Raises: ValueError, KeyError or TypeError, when it is none or names nothing (V4-010);
    CorruptTable, where it says itself what the expression contradicts (V4-011, V4-013).
    """
    fields = []
    for item in value["fields"]:
        number = int(item[_LINK])
        expression = expressions.get(number) or _identity(number, schemas)
        if expression.partition_field_id is None:  # V4-013
            message = f"expression {number} has no `partition-field-id`"
            raise CorruptTable(message, rule="V4-013")
        stated = {
            "source-id": expression.source_ids[0],
            "source-ids": list(expression.source_ids),
            "transform": expression.transform.text,
            "name": expression.name,
            "field-id": expression.partition_field_id,
        }
        for key, expected in stated.items():
            if key in item and item[key] != expected:  # V4-011
                message = f"a spec says `{key}` {item[key]!r}, its expression {expected!r}"
                raise CorruptTable(message, rule="V4-011")
        fields.append(
            PartitionField(
                expression.source_ids,
                expression.partition_field_id,
                expression.name,
                expression.transform,
                others(item, FIELD_MEMBERS | {_LINK}),
                number,
            )
        )
    return PartitionSpec(int(value["spec-id"]), tuple(fields), others(value, {"spec-id", "fields"}))


def _identity(number: int, schemas: Sequence[Schema]) -> Expression:
    """Make identity under the column's own id, for a link to it (V4-010). Raises: ValueError."""
    for schema in reversed(schemas):
        column = schema.field(number)
        if column is not None:
            name = schema.name_of(number) or column.name
            transform = parse_transform("identity")
            return Expression(number, column.type, (number,), transform, name, number)
    raise ValueError(f"no expression and no column has the id {number}")  # V4-010


def linked_spec_json(spec: PartitionSpec) -> dict[str, Any]:
    """Return the version 4 form of a spec, whose fields have expressions all."""
    fields = [{_LINK: item.expr_id} | dict(item.unknown) for item in spec.fields]
    return {"spec-id": spec.spec_id, "fields": fields} | dict(spec.unknown)


def link_specs(
    specs: Sequence[PartitionSpec], schemas: Sequence[Schema], last_column_id: int
) -> tuple[tuple[PartitionSpec, ...], tuple[Expression, ...]]:
    """Return the specs with their fields linked, and the expressions of an upgrade (sfc-1 2.4).

    Order: of the specs kept; expressions by ascending spec id and the fields' order, with ids from
    `last_column_id` + 1. Two fields share one if all that they say is equal (sfc-1 X4).
    """
    by_key: dict[tuple[Any, ...], Expression] = {}
    linked: dict[int, PartitionSpec] = {}
    for spec in sorted(specs, key=lambda spec: spec.spec_id):
        types = result_types(spec, schemas)
        fields = []
        for item, type_ in zip(spec.fields, types, strict=True):
            key = (item.source_ids, item.transform.text, item.name, item.field_id)
            if key not in by_key:
                by_key[key] = Expression(
                    last_column_id + 1 + len(by_key),
                    type_,
                    item.source_ids,
                    item.transform,
                    item.name,
                    item.field_id,
                )
            fields.append(replace(item, expr_id=by_key[key].expr_id))
        linked[spec.spec_id] = replace(spec, fields=tuple(fields))
    return tuple(linked[spec.spec_id] for spec in specs), tuple(by_key.values())


def guard(
    specs: Sequence[PartitionSpec], schema: Schema, expr_id: int, partition_field_id: int
) -> tuple[PartitionSpec, Expression] | None:
    """Make a spec that keeps engines away which do not know this layout; None where one does.

    They take a table of version 4 without a root for one of their own, and drop its expressions,
    but cannot read a spec whose fields are links. Where no spec has a field, this one of nothing
    (void) is added; no file is ever of it. None too where there is no column to name.
    """
    if any(spec.fields for spec in specs) or not schema.fields:
        return None
    column, void = schema.fields[0], parse_transform("void")
    expression = Expression(
        expr_id, column.type, (column.id,), void, GUARD_NAME, partition_field_id
    )
    field_ = PartitionField((column.id,), partition_field_id, GUARD_NAME, void, {}, expr_id)
    spec = PartitionSpec(max(spec.spec_id for spec in specs) + 1, (field_,))
    return spec, expression


def without_links(
    specs: Sequence[PartitionSpec], default_spec_id: int
) -> tuple[PartitionSpec, ...]:
    """Return the specs as other layouts have them: fields say all, and the guard is gone."""
    return tuple(
        replace(spec, fields=tuple(replace(item, expr_id=None) for item in spec.fields))
        for spec in specs
        if spec.spec_id == default_spec_id
        or [(item.name, item.transform.name) for item in spec.fields] != [(GUARD_NAME, "void")]
    )


def last_guards(specs: Sequence[PartitionSpec], staying: Set[int]) -> frozenset[int]:
    """Id of the newest spec that keeps other engines away, where none of those that stay does."""
    guards = [spec.spec_id for spec in specs if spec.fields]
    if not guards or not staying.isdisjoint(guards):
        return frozenset()
    return frozenset({max(guards)})
