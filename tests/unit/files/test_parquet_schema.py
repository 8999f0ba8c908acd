import io
import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from icectl.errors import Unsupported
from icectl.files.parquet import schema as parquet_schema
from icectl.files.parquet.schema import FIELD_ID, Leaf, remembered
from icectl.format.schema import Schema, schema_from_json

ALL_TYPES = [
    ("boolean", pa.bool_()), ("int", pa.int32()), ("long", pa.int64()), ("float", pa.float32()),
    ("double", pa.float64()), ("decimal(9, 2)", pa.decimal128(9, 2)),
    ("decimal(38, 10)", pa.decimal128(38, 10)), ("date", pa.date32()), ("time", pa.time64("us")),
    ("timestamp", pa.timestamp("us")), ("timestamptz", pa.timestamp("us", "UTC")),
    ("timestamp_ns", pa.timestamp("ns")), ("timestamptz_ns", pa.timestamp("ns", "UTC")),
    ("string", pa.string()), ("uuid", pa.uuid()), ("fixed[7]", pa.binary(7)),
    ("binary", pa.binary()), ("unknown", pa.null()),
]  # fmt: skip
NESTED = schema_from_json(
    {
        "schema-id": 0,
        "type": "struct",
        "fields": [
            {"id": 1, "name": "id", "required": True, "type": "long"},
            {
                "id": 2,
                "name": "place",
                "required": False,
                "type": {
                    "type": "struct",
                    "fields": [{"id": 3, "name": "x", "required": True, "type": "float"}],
                },
            },
            {
                "id": 4,
                "name": "tags",
                "required": False,
                "type": {
                    "type": "list",
                    "element-id": 5,
                    "element-required": True,
                    "element": "string",
                },
            },
            {
                "id": 6,
                "name": "counts",
                "required": True,
                "type": {
                    "type": "map",
                    "key-id": 7,
                    "key": "string",
                    "value-id": 8,
                    "value-required": False,
                    "value": {
                        "type": "struct",
                        "fields": [{"id": 9, "name": "n", "required": False, "type": "int"}],
                    },
                },
            },
        ],
    }
)


def one_field(type_text: str) -> Schema:
    field = {"id": 1, "name": "a", "required": False, "type": type_text}
    return schema_from_json({"schema-id": 0, "type": "struct", "fields": [field]})


def through_parquet(schema: pa.Schema) -> pq.FileMetaData:
    file = io.BytesIO()
    pq.write_table(schema.empty_table(), file, store_schema=False)
    return pq.read_metadata(file)


@pytest.mark.parametrize(("iceberg", "arrow"), ALL_TYPES)
def test_r095_every_type_has_its_arrow_type_and_comes_back(iceberg, arrow):
    schema = one_field(iceberg)
    found = parquet_schema.arrow_schema(schema)
    assert found.field("a").type == arrow
    assert found.field("a").metadata == {FIELD_ID: b"1"}
    assert parquet_schema.schema_from_arrow(found) == schema


SHAPES = [
    # The union's member, its kind, a struct of text (8) and an enum (5), and two ends: by hand;
    # those of both defaults are also in files of Spark 4.3.
    ("geometry", "0c22 18 09 4f47433a4352533834 00 00"),
    ("geometry(srid:0)", "0c22 18 06 737269643a30 00 00"),
    ("geography", "0c24 18 09 4f47433a4352533834 15 00 00 00"),
    ("geography(srid:1)", "0c24 18 06 737269643a31 15 00 00 00"),
    ("geography(srid:1, Karney)", "0c24 18 06 737269643a31 15 08 00 00"),
    ("geography(srid:1, spherical)", "0c24 18 06 737269643a31 15 00 00 00"),
]


@pytest.mark.parametrize(("iceberg", "logical"), SHAPES)
def test_r095_shapes_are_bytes_with_a_logical_type(iceberg, logical):
    arrow = parquet_schema.arrow_schema(one_field(iceberg))
    assert arrow.field("a").type == pa.binary()
    assert parquet_schema.logical_types(arrow) == {1: bytes.fromhex(logical)}
    (leaf,) = parquet_schema.leaves(arrow)
    assert (leaf.field_id, leaf.is_shape) == (1, True)


def test_an_algorithm_that_parquet_lacks_leaves_plain_bytes():
    arrow = parquet_schema.arrow_schema(one_field("geography(srid:1, euclid)"))
    assert parquet_schema.logical_types(arrow) == {}
    assert parquet_schema.leaves(arrow)[0].is_shape


def test_elements_are_numbered_depth_first_groups_of_lists_and_maps_among_them():
    shape = {"id": 9, "name": "g", "required": False, "type": "geometry"}
    struct = {"type": "struct", "fields": [shape | {"id": 8, "name": "n", "type": "int"}, shape]}
    array = {"type": "list", "element-id": 7, "element": struct, "element-required": False}
    map_ = {"type": "map", "key-id": 5, "key": "string", "value-id": 6, "value": "geography"}
    map_["value-required"] = False
    fields = [
        {"id": 1, "name": "a", "required": False, "type": array},
        {"id": 2, "name": "b", "required": False, "type": map_},
        {"id": 3, "name": "c", "required": True, "type": "geometry"},
    ]
    schema = schema_from_json({"schema-id": 0, "type": "struct", "fields": fields})
    arrow = parquet_schema.arrow_schema(schema)
    # a 1, list 2, element 3, n 4, g 5; b 6, key_value 7, key 8, value 9; c 10
    assert sorted(parquet_schema.logical_types(arrow)) == [5, 9, 10]
    assert [leaf.is_shape for leaf in parquet_schema.leaves(arrow)] == [
        False, True, False, True, True,
    ]  # fmt: skip


def test_nested_fields_keep_ids_and_nullability_through_a_file():
    read = through_parquet(parquet_schema.arrow_schema(NESTED)).schema.to_arrow_schema()
    assert parquet_schema.schema_from_arrow(read) == NESTED
    assert parquet_schema.has_field_ids(read)


def test_r095_lists_and_maps_have_three_levels_in_the_file():
    metadata = through_parquet(parquet_schema.arrow_schema(NESTED))
    assert [metadata.schema.column(place).path for place in range(metadata.num_columns)] == [
        "id", "place.x", "tags.list.element", "counts.key_value.key", "counts.key_value.value.n",
    ]  # fmt: skip


def test_r095_uuid_is_annotated_in_the_file():
    metadata = through_parquet(parquet_schema.arrow_schema(one_field("uuid")))
    assert metadata.schema.column(0).logical_type.type == "UUID"
    assert metadata.schema.column(0).length == 16


def test_leaves_come_in_the_order_of_the_columns_and_know_what_repeats():
    assert parquet_schema.leaves(parquet_schema.arrow_schema(NESTED)) == (
        Leaf(1, is_repeated=False, type=pa.int64()),
        Leaf(3, is_repeated=False, type=pa.float32()),
        Leaf(5, is_repeated=True, type=pa.string()),
        Leaf(7, is_repeated=True, type=pa.string()),
        Leaf(9, is_repeated=True, type=pa.int32()),
    )


@pytest.mark.parametrize(
    ("arrow", "iceberg"),
    [
        (pa.int8(), "int"), (pa.uint16(), "int"), (pa.uint32(), "long"),
        (pa.large_string(), "string"), (pa.string_view(), "string"),
        (pa.large_binary(), "binary"), (pa.time32("ms"), "time"),
        (pa.timestamp("ms"), "timestamp"), (pa.timestamp("s", "Europe/Berlin"), "timestamptz"),
        (pa.decimal64(9, 2), "decimal(9, 2)"), (pa.dictionary(pa.int32(), pa.string()), "string"),
    ],
)  # fmt: skip
def test_other_arrow_types_read_as_the_type_that_holds_them(arrow, iceberg):
    schema = pa.schema([pa.field("a", arrow, metadata={FIELD_ID: "1"})])
    assert parquet_schema.schema_from_arrow(schema) == one_field(iceberg)


@pytest.mark.parametrize("arrow", [pa.uint64(), pa.float16(), pa.duration("s")])
def test_arrow_types_that_no_iceberg_type_holds_are_refused(arrow):
    with pytest.raises(Unsupported, match=re.escape(str(arrow))):
        parquet_schema.schema_from_arrow(pa.schema([pa.field("a", arrow)]))


@pytest.mark.parametrize("text", ["9" * 5000, "-1", "x", ""])
def test_a_text_that_is_no_field_id_gives_no_id(text):
    field = pa.field("a", pa.int32(), metadata={FIELD_ID: text})
    assert parquet_schema.field_id(field) is None


def test_fields_without_an_id_at_any_depth_are_left_out():
    with_id = {FIELD_ID: "1"}
    schema = pa.schema(
        [
            pa.field("a", pa.int32(), metadata=with_id),
            pa.field("b", pa.int32()),
            pa.field("c", pa.list_(pa.int32()), metadata=with_id),
            pa.field("d", pa.int32(), metadata={FIELD_ID: "-1"}),
        ]
    )
    assert parquet_schema.schema_from_arrow(schema) == one_field("int")
    assert not parquet_schema.has_field_ids(pa.schema([schema.field("b"), schema.field("d")]))


def test_r181_a_name_mapping_gives_ids_at_every_depth():
    plain = pa.schema(
        [
            pa.field("ID", pa.int64(), nullable=False),
            pa.field("place", pa.struct([pa.field("x", pa.float32(), nullable=False)])),
            pa.field("tags", pa.list_(pa.field("item", pa.string(), nullable=False))),
            pa.field(
                "counts",
                pa.map_(pa.string(), pa.struct([pa.field("n", pa.int32())])),
                nullable=False,
            ),
            pa.field("new", pa.int32()),
        ]
    )
    mapping = [
        {"field-id": 1, "names": ["id", "ID"]},
        {"field-id": 2, "names": ["place"], "fields": [{"field-id": 3, "names": ["x"]}]},
        {"field-id": 4, "names": ["tags"], "fields": [{"field-id": 5, "names": ["element"]}]},
        {
            "field-id": 6,
            "names": ["counts"],
            "fields": [
                {"field-id": 7, "names": ["key"]},
                {"field-id": 8, "names": ["value"], "fields": [{"field-id": 9, "names": ["n"]}]},
            ],
        },
        {"field-id": 10, "names": []},
        {"names": ["new"], "field-id": None, "fields": None},
    ]
    mapped = parquet_schema.with_mapped_ids(plain, mapping)
    assert [leaf.field_id for leaf in parquet_schema.leaves(mapped)] == [1, 3, 5, 7, 9, None]
    names = [field.name for field in parquet_schema.schema_from_arrow(mapped).fields]
    assert names == ["ID", "place", "tags", "counts"]


def test_leaves_of_an_extension_type_are_those_of_its_storage():
    tensor = pa.fixed_shape_tensor(pa.int32(), [2])
    schema = pa.schema(
        [pa.field("id", pa.uuid(), metadata={FIELD_ID: "1"}), pa.field("tensor", tensor)]
    )
    assert parquet_schema.leaves(schema) == (
        Leaf(1, is_repeated=False, type=pa.uuid()),
        Leaf(None, is_repeated=True, type=pa.int32()),
    )


def test_what_is_remembered_of_a_schema_is_of_the_other_arguments_too():
    calls = []

    @remembered
    def named(schema, more):
        calls.append(more)
        return [*schema.names, more]

    one, other = pa.schema([("a", pa.int64())]), pa.schema([("b", pa.int64())])
    for schema, more in [(one, 1), (one, 1), (one, 2), (other, 2), (other, 2), (one, 2)]:
        assert named(schema, more) == [*schema.names, more]
    assert calls == [1, 2, 2, 2]


def test_what_is_remembered_of_other_values_is_of_the_same_object():
    calls = []

    @remembered
    def noted(one):
        calls.append(one)

    one, equal = [1], [1]
    for value in (one, one, equal, equal, one):
        noted(value)
    assert [id(call) for call in calls] == [id(one), id(equal), id(one)]
