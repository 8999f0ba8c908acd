"""What is known of a table before its data files are looked at."""

import json
from dataclasses import replace
from typing import Any

import pytest

from icectl.format.metadata import TableMetadata
from icectl.format.schema import Schema
from icectl.format.types import NestedField, PrimitiveType, StructType
from icectl.table.live_files import every_column, name_mapping
from tests.builders.data_files import schema


def _place(*names: str, type_: str = "int") -> dict[str, object]:
    ids = {"x": 3, "y": 4, "z": 5}
    inner = [{"id": ids[name], "name": name, "type": type_, "required": False} for name in names]
    return {"type": "struct", "fields": inner}


def test_fields_that_were_dropped_are_known_in_their_last_type_at_any_depth_of_structs():
    schemas = (
        schema((1, "a", "int"), (2, "place", _place("x", "y"))),
        replace(
            schema((1, "a", "long"), (2, "place", _place("y", "z", type_="long"))), schema_id=1
        ),
        replace(schema((2, "place", _place("z"))), schema_id=2),
    )
    found = every_column(TableMetadata(2, None, "/t", 1, 0, 5, schemas, 2, (), 0, 999, (), 0))
    inner = (("z", 5, "int"), ("y", 4, "long"), ("x", 3, "int"))
    struct = StructType(
        tuple(
            NestedField(id_, name, PrimitiveType(kind), required=False) for name, id_, kind in inner
        )
    )
    assert found == Schema(
        2,
        (
            NestedField(2, "place", struct, required=False),
            NestedField(1, "a", PrimitiveType("long"), required=False),
        ),
    )


@pytest.mark.parametrize(
    ("changed", "is_valid"),
    [
        ({"names": ["b", "c"]}, True), ({"field-id": None, "fields": None}, True),
        ({"fields": [{"field-id": 3, "names": ["x"]}]}, True), ({"field-id": "3"}, False),
        ({"field-id": [3]}, False), ({"fields": [{"field-id": 3}]}, False),
        ({"fields": [3]}, False), ({"fields": {"x": 3}}, False),
    ],
)  # fmt: skip
def test_r181_a_name_mapping_that_is_none_at_any_depth_stands_for_no_ids(changed, is_valid):
    mapping: list[dict[str, Any]] = [
        {"field-id": 1, "names": ["a"]}, {"field-id": 2, "names": ["b"]} | changed
    ]  # fmt: skip
    properties = {"schema.name-mapping.default": json.dumps(mapping)}
    table = TableMetadata(2, None, "/t", 1, 0, 5, (), 0, (), 0, 999, (), 0, properties=properties)
    assert name_mapping(table) == (mapping if is_valid else ())
