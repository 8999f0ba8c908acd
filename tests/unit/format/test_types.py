"""Type strings, type JSON, versions and promotion."""

import pytest

from icectl.format.types import (
    DecimalType,
    FixedType,
    GeographyType,
    GeometryType,
    ListType,
    MapType,
    NestedField,
    PrimitiveType,
    StructType,
    can_promote,
    field_json,
    is_nested,
    min_version,
    parse_field,
    parse_type,
    type_json,
    type_text,
)

INT = PrimitiveType("int")
STRING = PrimitiveType("string")
UNKNOWN = PrimitiveType("unknown")

PRIMITIVE_NAMES = [
    "boolean", "int", "long", "float", "double", "date", "time", "timestamp", "timestamptz",
    "string", "uuid", "binary", "timestamp_ns", "timestamptz_ns", "unknown", "variant",
]  # fmt: skip

STRUCT_JSON = {
    "type": "struct",
    "fields": [
        {"id": 1, "name": "id", "required": True, "type": "uuid", "doc": "row key",
         "initial-default": "0db3e2a8-9d1d-42b9-aa7b-74ebe558dceb",
         "write-default": "ec5911be-b0a7-458c-8438-c9a3e53cffae"},
        {"id": 2, "name": "data", "required": False, "type":
         {"type": "list", "element-id": 3, "element-required": True, "element": "string"}},
        {"id": 4, "name": "props", "required": False, "type":
         {"type": "map", "key-id": 5, "key": "string", "value-id": 6, "value-required": False,
          "value": "decimal(9, 2)"}},
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", PRIMITIVE_NAMES)
def test_every_primitive_is_parsed_and_printed(name):
    assert parse_type(name) == PrimitiveType(name)
    assert type_json(PrimitiveType(name)) == name
    assert type_text(PrimitiveType(name)) == name


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("STRING", STRING),
        (" int ", INT),
        ("decimal(9,2)", DecimalType(9, 2)),
        ("decimal(9, 2)", DecimalType(9, 2)),
        ("decimal( 38 , 10 )", DecimalType(38, 10)),
        ("Decimal (9,0)", DecimalType(9, 0)),
        ("fixed[5]", FixedType(5)),
        ("fixed[ 16 ]", FixedType(16)),
        ("geometry", GeometryType()),
        ("geometry(srid:4326)", GeometryType("srid:4326")),
        ("Geometry( EPSG:3857 )", GeometryType("EPSG:3857")),
        ("geometry('OGC:CRS84')", GeometryType("'OGC:CRS84'")),
        ("geography", GeographyType()),
        ("geography(srid:4269)", GeographyType("srid:4269")),
        ("geography(srid:4269, karney)", GeographyType("srid:4269", "karney")),
        ("geography( srid:4269,karney )", GeographyType("srid:4269", "karney")),
    ],
)
def test_type_strings_may_differ_in_case_and_spaces(text, expected):
    assert parse_type(text) == expected


@pytest.mark.parametrize(
    "value",
    [
        "", "integer", "decimal", "decimal(9)", "decimal(a,2)", "decimal(9,-2)", "fixed", "fixed[]",
        "fixed(5)", "geometry()", "geography(a,b,c)", "struct", None, 5, ["int"], {},
        {"type": "set"}, {"type": ["struct"]},
    ],
)  # fmt: skip
def test_anything_else_is_no_type(value):
    with pytest.raises(ValueError, match="cannot parse a type from"):
        parse_type(value)


@pytest.mark.parametrize(
    ("type_", "text"),
    [
        (DecimalType(9, 2), "decimal(9, 2)"),
        (FixedType(5), "fixed[5]"),
        (GeometryType(), "geometry"),
        (GeometryType("srid:4326"), "geometry(srid:4326)"),
        (GeographyType(), "geography"),
        (GeographyType("srid:4269"), "geography(srid:4269)"),
        (GeographyType("srid:4269", "karney"), "geography(srid:4269, karney)"),
        (GeographyType(None, "karney"), "geography(OGC:CRS84, karney)"),
    ],
)
def test_parameters_are_printed_as_the_format_writes_them(type_, text):
    assert type_json(type_) == text
    assert type_text(type_) == text


def test_nested_types_keep_ids_docs_and_defaults():
    parsed = parse_type(STRUCT_JSON)
    assert isinstance(parsed, StructType)
    first, second, third = parsed.fields
    assert first == NestedField(
        1, "id", PrimitiveType("uuid"), required=True, doc="row key",
        initial_default="0db3e2a8-9d1d-42b9-aa7b-74ebe558dceb",
        write_default="ec5911be-b0a7-458c-8438-c9a3e53cffae",
    )  # fmt: skip
    assert second.type == ListType(3, STRING, element_required=True)
    assert third.type == MapType(5, STRING, 6, DecimalType(9, 2), value_required=False)
    assert type_json(parsed) == STRUCT_JSON


def test_nested_types_are_printed_in_one_line():
    assert type_text(parse_type(STRUCT_JSON)) == (
        "struct<1: id: required uuid, 2: data: optional list<string>, "
        "4: props: optional map<string, decimal(9, 2)>>"
    )


def test_r018_members_of_a_field_that_are_not_known_survive():
    value = {"id": 1, "name": "a", "required": False, "type": "int", "x-origin": {"k": [1, 2]}}
    assert field_json(parse_field(value)) == value


def test_r018_members_of_nested_types_that_are_not_known_survive():
    entry = {"type": "struct", "fields": [], "x-struct": 1}
    pairs = {
        "type": "map", "key-id": 3, "key": "string", "value-id": 4, "value": entry,
        "value-required": True, "x-map": [None],
    }  # fmt: skip
    value = {
        "type": "list", "element-id": 2, "element": pairs, "element-required": False, "x-list": {},
    }  # fmt: skip
    assert type_json(parse_type(value)) == value


def test_a_null_default_or_doc_reads_as_absent():
    value = {"id": 1, "name": "a", "required": False, "type": "int"}
    nulls = {"doc": None, "initial-default": None, "write-default": None}
    assert field_json(parse_field(value | nulls)) == value


def test_a_field_without_an_id_is_an_error():
    with pytest.raises(KeyError, match="id"):
        parse_field({"name": "a", "required": False, "type": "int"})


def test_only_struct_list_and_map_are_nested():
    nested = [StructType(()), ListType(1, INT, True), MapType(1, INT, 2, INT, True)]
    assert [is_nested(type_) for type_ in nested] == [True, True, True]
    assert [is_nested(type_) for type_ in (INT, DecimalType(9, 2), GeometryType())] == [False] * 3


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("int", 1), ("timestamptz", 1), ("uuid", 1), ("decimal(9,2)", 1), ("fixed[5]", 1),
        ("unknown", 3), ("variant", 3), ("timestamp_ns", 3), ("timestamptz_ns", 3),
        ("geometry(srid:4326)", 3), ("geography", 3),
    ],
)  # fmt: skip
def test_r090_types_of_version_3_need_version_3(text, version):
    assert min_version(parse_type(text)) == version


def test_r177_a_nested_type_itself_is_of_version_1():
    assert min_version(ListType(1, PrimitiveType("variant"), element_required=False)) == 1


@pytest.mark.parametrize(
    ("old", "new", "first_version"),
    [
        ("int", "int", 1), ("int", "long", 1), ("float", "double", 1),
        ("decimal(9,2)", "decimal(18,2)", 1), ("date", "timestamp", 3),
        ("date", "timestamp_ns", 3), ("unknown", "string", 3), ("unknown", "decimal(9,2)", 3),
    ],
)  # fmt: skip
def test_r097_promotion_is_allowed_from_a_version_on(old, new, first_version):
    allowed = [can_promote(parse_type(old), parse_type(new), version) for version in (1, 2, 3)]
    assert allowed == [version >= first_version for version in (1, 2, 3)]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("long", "int"), ("double", "float"), ("int", "double"), ("int", "string"),
        ("decimal(18,2)", "decimal(9,2)"), ("decimal(9,2)", "decimal(18,3)"),
        ("int", "decimal(9,2)"), ("date", "timestamptz"), ("timestamp", "timestamp_ns"),
        ("fixed[16]", "uuid"), ("fixed[4]", "fixed[5]"), ("string", "unknown"),
    ],
)  # fmt: skip
def test_r097_no_other_promotion_is_allowed(old, new):
    assert not can_promote(parse_type(old), parse_type(new), 3)


def test_r097_a_nested_type_is_not_promoted():
    assert not can_promote(ListType(1, INT, True), ListType(1, PrimitiveType("long"), True), 3)


def test_r097_unknown_becomes_any_type_even_a_nested_one():
    assert can_promote(UNKNOWN, StructType(()), 3)
