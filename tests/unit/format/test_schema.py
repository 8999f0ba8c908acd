"""Schemas: JSON, and fields by id and by dotted name."""

import pytest

from icectl.format.schema import Schema, children, schema_from_json, schema_json
from icectl.format.types import ListType, MapType, NestedField, PrimitiveType, StructType

INT = PrimitiveType("int")
STRING = PrimitiveType("string")

SCHEMA_JSON = {
    "type": "struct",
    "schema-id": 3,
    "identifier-field-ids": [1],
    "fields": [
        {"id": 1, "name": "id", "required": True, "type": "long"},
        {"id": 2, "name": "points", "required": False, "type":
         {"type": "list", "element-id": 3, "element-required": False, "element":
          {"type": "struct", "fields": [
              {"id": 4, "name": "x", "required": True, "type": "double"},
              {"id": 5, "name": "y", "required": True, "type": "double"}]}}},
        {"id": 6, "name": "tags", "required": False, "type":
         {"type": "map", "key-id": 7, "key": "string", "value-id": 8, "value-required": True,
          "value": "int"}},
    ],
}  # fmt: skip


def test_a_schema_is_read_and_written_unchanged():
    schema = schema_from_json(SCHEMA_JSON)
    assert schema.schema_id == 3
    assert schema.identifier_field_ids == (1,)
    assert [item.name for item in schema.fields] == ["id", "points", "tags"]
    assert schema_json(schema) == SCHEMA_JSON


def test_r010_a_missing_schema_id_is_0_and_identifier_fields_are_left_out():
    schema = schema_from_json({"type": "struct", "fields": []})
    assert schema == Schema(0, ())
    assert schema_json(schema) == {"type": "struct", "schema-id": 0, "fields": []}


def test_r018_members_of_a_schema_that_are_not_known_survive():
    value = {"type": "struct", "schema-id": 0, "fields": [], "x-owner": {"team": None}}
    assert schema_json(schema_from_json(value)) == value


def test_a_schema_without_fields_is_an_error():
    with pytest.raises(KeyError, match="fields"):
        schema_from_json({"type": "struct", "schema-id": 0})


def test_fields_are_found_by_id_at_any_depth():
    schema = schema_from_json(SCHEMA_JSON)
    assert schema.field(5) == NestedField(5, "y", PrimitiveType("double"), required=True)
    assert schema.field(7) == NestedField(7, "key", STRING, required=True)
    assert schema.field(8) == NestedField(8, "value", INT, required=True)
    element = schema.field(3)
    assert element is not None
    assert (element.name, element.required) == ("element", False)
    assert schema.field(9) is None


def test_a_line_leads_through_structs_and_into_no_list():
    y = NestedField(3, "y", INT, required=False)
    inner = NestedField(2, "inner", StructType((y,)), required=False)
    outer = NestedField(1, "outer", StructType((inner,)), required=True)
    assert Schema(0, (outer,)).line_to(3) == (outer, inner, y)
    assert Schema(0, (outer,)).line_to(1) == (outer,)
    assert schema_from_json(SCHEMA_JSON).line_to(4) == ()


def test_all_fields_list_parents_before_children():
    assert list(schema_from_json(SCHEMA_JSON).all_fields) == [1, 2, 3, 4, 5, 6, 7, 8]


def test_all_fields_are_built_once():
    schema = schema_from_json(SCHEMA_JSON)
    assert schema.all_fields is schema.all_fields


@pytest.mark.parametrize(
    ("field_id", "name"),
    [
        (1, "id"), (2, "points"), (3, "points.element"), (4, "points.element.x"),
        (6, "tags"), (7, "tags.key"), (8, "tags.value"),
    ],
)  # fmt: skip
def test_a_nested_field_has_a_dotted_name(field_id, name):
    schema = schema_from_json(SCHEMA_JSON)
    assert schema.name_of(field_id) == name
    assert schema.field_named(name) is schema.field(field_id)


def test_a_name_that_no_field_has_finds_nothing_and_case_counts():
    schema = schema_from_json(SCHEMA_JSON)
    assert schema.name_of(9) is None
    assert schema.field_named("ID") is None
    assert schema.field_named("points.x") is None


def test_children_of_a_list_and_a_map_are_named_by_the_format():
    inner = NestedField(9, "a", INT, required=True)
    assert children(StructType((inner,))) == (inner,)
    assert children(ListType(4, INT, element_required=True)) == (
        NestedField(4, "element", INT, required=True),
    )
    assert children(MapType(5, STRING, 6, INT, value_required=False)) == (
        NestedField(5, "key", STRING, required=True),
        NestedField(6, "value", INT, required=False),
    )
    assert children(INT) == ()
