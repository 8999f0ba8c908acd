"""Partition specs: JSON, result types, paths, equivalence."""

import pytest

from icectl.format.partition import (
    PartitionField,
    PartitionSpec,
    fields_from_json,
    fields_json,
    partition_path,
    result_types,
    spec_from_json,
    spec_json,
)
from icectl.format.schema import Schema
from icectl.format.transforms import parse_transform
from icectl.format.types import NestedField, PrimitiveType, StructType

INT = PrimitiveType("int")
LONG = PrimitiveType("long")
STRING = PrimitiveType("string")
DATE = PrimitiveType("date")

SPEC_JSON = {
    "spec-id": 2,
    "fields": [
        {"source-id": 4, "field-id": 1000, "name": "ts_day", "transform": "day"},
        {"source-id": 1, "field-id": 1001, "name": "id_bucket", "transform": "bucket[16]"},
        {"source-ids": [1, 2], "field-id": 1002, "name": "both", "transform": "zorder[4]"},
    ],
}


def field(name: str, transform: str, *source_ids: int, field_id: int = 1000) -> PartitionField:
    return PartitionField(source_ids, field_id, name, parse_transform(transform))


def test_a_spec_is_read_and_written_unchanged():
    spec = spec_from_json(SPEC_JSON)
    assert spec == PartitionSpec(
        2,
        (
            field("ts_day", "day", 4),
            field("id_bucket", "bucket[16]", 1, field_id=1001),
            field("both", "zorder[4]", 1, 2, field_id=1002),
        ),
    )
    assert spec_json(spec) == SPEC_JSON
    assert fields_json(spec) == SPEC_JSON["fields"]


def test_r018_members_of_a_spec_that_are_not_known_survive():
    fields = [{"source-id": 1, "field-id": 1000, "name": "a", "transform": "identity", "x": [1]}]
    value = {"spec-id": 0, "fields": fields, "x-note": "kept"}
    assert spec_json(spec_from_json(value)) == value


def test_r010_fields_without_ids_are_numbered_from_1000_by_position():
    fields = fields_from_json(
        [
            {"source-id": 3, "name": "a", "transform": "identity"},
            {"source-id": 1, "name": "b", "transform": "void"},
        ]
    )
    assert fields == (field("a", "identity", 3), field("b", "void", 1, field_id=1001))


def test_r078_fields_with_and_without_ids_do_not_mix():
    with pytest.raises(ValueError, match="some partition fields have a `field-id`"):
        fields_from_json(
            [
                {"source-id": 3, "name": "a", "transform": "identity", "field-id": 1001},
                {"source-id": 1, "name": "b", "transform": "void"},
            ]
        )


@pytest.mark.parametrize(
    ("sources", "expected"),
    [
        ({"source-id": 1}, (1,)),
        ({"source-ids": [1]}, (1,)),
        ({"source-ids": [2, 3]}, (2, 3)),
        ({"source-id": 1, "source-ids": None}, (1,)),
        ({"source-id": 1, "source-ids": []}, (1,)),
        ({"source-id": 2, "source-ids": [2, 3]}, (2, 3)),
    ],
)
def test_r081_sources_are_one_id_or_a_list(sources, expected):
    (parsed,) = fields_from_json([{"name": "a", "transform": "identity", **sources}])
    assert parsed.source_ids == expected


@pytest.mark.parametrize("missing", ["source-id", "name", "transform"])
def test_a_field_without_a_required_member_is_an_error(missing):
    value = {"source-id": 1, "name": "a", "transform": "identity"}
    del value[missing]
    with pytest.raises(KeyError, match=missing):
        fields_from_json([value])


@pytest.mark.parametrize(
    ("transforms", "expected"),
    [((), True), (("void",), True), (("void", "void"), True), (("void", "day"), False)],
)
def test_r085_a_spec_without_fields_or_with_only_void_ones_is_unpartitioned(transforms, expected):
    spec = PartitionSpec(0, tuple(field("a", transform, 1) for transform in transforms))
    assert spec.is_unpartitioned is expected


def schema(schema_id: int, *columns: tuple[int, PrimitiveType]) -> Schema:
    fields = (NestedField(id_, f"c{id_}", type_, required=False) for id_, type_ in columns)
    return Schema(schema_id, tuple(fields))


def test_result_types_come_from_the_last_schema_that_has_the_column():
    spec = PartitionSpec(
        0, (field("a", "identity", 1), field("b", "truncate[2]", 2), field("c", "day", 3))
    )
    schemas = [schema(0, (1, INT), (2, STRING), (3, DATE)), schema(1, (1, LONG))]
    assert result_types(spec, schemas) == (LONG, STRING, DATE)
    assert result_types(spec, schemas[:1]) == (INT, STRING, DATE)


def test_only_identity_and_truncate_need_their_column():
    names = ["identity", "truncate[2]", "bucket[4]", "year", "month", "day", "hour", "void"]
    spec = PartitionSpec(0, tuple(field(name, name, 9) for name in names))
    assert result_types(spec, []) == (None, None, INT, INT, INT, DATE, INT, INT)


def test_r007_an_unknown_transform_has_no_result_type():
    spec = PartitionSpec(0, (field("z", "zorder", 1),))
    assert result_types(spec, [schema(0, (1, INT))]) == (None,)


def test_a_source_column_is_found_inside_a_struct():
    spec = spec_from_json(
        {"spec-id": 0, "fields": [{"source-id": 2, "name": "a.b", "transform": "identity"}]}
    )
    inner = schema(0, (2, STRING)).fields
    nested = Schema(0, (NestedField(1, "a", StructType(inner), required=True),))
    assert result_types(spec, [nested]) == (STRING,)


def test_a_path_names_fields_and_values_as_the_reference_implementation_escapes_them():
    spec = PartitionSpec(
        0, (field("a b", "identity", 1), field("day", "day", 2), field("n", "bucket[4]", 3))
    )
    path = partition_path(spec, (STRING, DATE, INT), ("x/y=z+~*é", 17501, None))
    assert path == "a+b=x%2Fy%3Dz%2B%7E*%C3%A9/day=2017-12-01/n=null"


def test_a_value_without_a_type_is_shown_as_it_is():
    assert partition_path(PartitionSpec(0, (field("z", "zorder", 1),)), (None,), (7,)) == "z=7"


def test_an_unpartitioned_spec_has_an_empty_path():
    assert partition_path(PartitionSpec(0, ()), (), ()) == ""
