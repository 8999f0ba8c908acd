"""Shredded variants put together again: the examples of the specification, and each type."""

import io
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from icectl.errors import CorruptTable, Unsupported
from icectl.files.data_rows import retype_array
from icectl.files.parquet.schema import FIELD_ID, arrow_schema, is_variant, without_extensions
from icectl.files.parquet.shredding import (
    check_variants,
    common_shredding,
    shredded_variants,
    whole_variants,
)
from icectl.files.parquet.write import ParquetOptions, ParquetWriter
from icectl.format import variant
from icectl.format.schema import Schema
from icectl.format.types import ListType, MapType, NestedField, PrimitiveType, StructType

EMPTY = b"\x01\x00\x00"
VARIANT = PrimitiveType("variant")


def group(typed: pa.DataType, *, is_variant: bool = False) -> pa.DataType:
    """Return a group of a value and a typed value; that of a variant has metadata too."""
    metadata = [pa.field("metadata", pa.binary(), nullable=False)] if is_variant else []
    return pa.struct([*metadata, ("value", pa.binary()), ("typed_value", typed)])


def shown(column: pa.Array) -> list[str | None]:
    """Return variants as text."""
    whole = whole_variants(column)
    return [
        None if one is None else variant.text(one["metadata"], one["value"])
        for one in whole.to_pylist()
    ]


def variants(typed: pa.DataType, rows: Sequence[Any], metadata: bytes = EMPTY) -> pa.Array:
    """Return shredded variants: of each the value and the typed value, or nothing."""
    values = [
        None if row is None else {"metadata": metadata, "value": row[0], "typed_value": row[1]}
        for row in rows
    ]
    kind = group(typed, is_variant=True)
    return retype_array(pa.array(values, without_extensions(kind)), kind)


def test_the_specifications_measurements():
    column = variants(
        pa.int64(), [(None, 34), (b"\x00", None), (b"\x0dn/a", None), (None, 100), (None, None)]
    )
    assert shown(column) == ["34", "null", '"n/a"', "100", "null"]


def test_the_specifications_tags():
    column = variants(
        pa.list_(pa.field("element", group(pa.string()), nullable=False)),
        [
            (None, [{"typed_value": "comedy"}, {"typed_value": "drama"}]),
            (None, [{"typed_value": "horror"}, {"value": b"\x00"}]),
            (b"\x00", None),
            None,
            (None, []),
        ],
    )
    expected = ['["comedy", "drama"]', '["horror", null]', "null", None, "[]"]
    assert shown(column) == expected
    assert shown(column.slice(1, 3)) == expected[1:4]


@pytest.mark.parametrize("inner", [pa.list_(pa.field("element", group(pa.int8()))), pa.uuid()])
def test_lists_without_any_element(inner):
    """Arrays of arrays whose inner column holds nothing; Arrow makes no empty array of UUIDs."""
    kind = pa.list_(pa.field("element", group(inner), nullable=False))
    column = variants(kind, [(b"\x00", None), None, (b"\x0c\x01", None)])
    assert shown(column) == ["null", None, "1"]
    assert shown(column.slice(0, 0)) == []
    for part in (column, column.slice(1)):
        check_variants(part, pa.field("v", part.type, metadata={FIELD_ID: "1"}))


def event(kind: Any = None, moment: Any = None) -> dict[str, Any]:
    """Return the shredded fields of an event of the specification."""
    return {"event_type": kind or {}, "event_ts": moment or {}}


def test_the_specifications_events():
    names = variant.write_metadata(["click", "email", "error_msg", "event_ts", "event_type"])
    ids = variant.read_metadata(names).ids

    def others(**fields: bytes) -> bytes:
        """Return the fields that are not shredded."""
        return variant.write_object({k: variant.write_string(v) for k, v in fields.items()}, ids)

    moment = pa.timestamp("us", "UTC")
    typed = pa.struct(
        [
            pa.field("event_type", group(pa.string()), nullable=False),
            pa.field("event_ts", group(moment), nullable=False),
        ]
    )
    rows = [
        (None, event({"typed_value": "noop"}, {"typed_value": 1_000_000})),
        (others(email=b"u@e"), event({"typed_value": "login"}, {"typed_value": 0})),
        (others(error_msg=b"bad"), event()),
        (variant.write_string(b"no object"), None),
        (others(click=b"_b"), event(None, {"typed_value": 0})),
        (None, event({"value": b"\x00"}, {"typed_value": 0})),
        (None, event({"typed_value": "noop"}, {"value": variant.write_string(b"2024")})),
        (None, event()),
        (b"\x00", None),
        None,
    ]
    epoch = '"1970-01-01T00:00:00+00:00"'
    column = variants(typed, rows, names)
    assert shown(column) == [
        '{"event_ts": "1970-01-01T00:00:01+00:00", "event_type": "noop"}',
        f'{{"email": "u@e", "event_ts": {epoch}, "event_type": "login"}}',
        '{"error_msg": "bad"}',
        '"no object"',
        f'{{"click": "_b", "event_ts": {epoch}}}',
        f'{{"event_ts": {epoch}, "event_type": null}}',
        '{"event_ts": "2024", "event_type": "noop"}',
        "{}",
        "null",
        None,
    ]
    check_variants(column, pa.field("v", column.type, metadata={FIELD_ID: "1"}))


@pytest.mark.parametrize(
    ("value", "typed", "why"),
    [
        (b"\x05a", {}, "not an object"),
        (b"\x02\x01\x00\x00\x02\x0c\x01", {"a": {"typed_value": 1}}, "in a column and in its"),
        (None, {"b": {"typed_value": 1}}, "lacks the name `b`"),
        (b"\x02\x01", {}, "ends early|more values"),
    ],
)
def test_r099_values_and_columns_that_contradict_one_another(value, typed, why):
    fields = [pa.field(name, group(pa.int64()), nullable=False) for name in ("a", "b")]
    row = {name: typed.get(name, {}) for name in ("a", "b")}
    column = variants(pa.struct(fields), [(value, row)], b"\x01\x01\x00\x01a")
    with pytest.raises(CorruptTable, match=why):
        whole_variants(column)


@pytest.mark.parametrize("value", [b"\x02\x01\x00\x00\x02\x0c\x01", b"\x02\x00\x00"])
def test_r099_an_object_in_a_value_whose_columns_are_null_is_damage(value):
    """The two rows that the specification calls invalid, and the same inside of an object."""
    columns = pa.struct([pa.field("a", group(pa.int64()), nullable=False)])
    field = pa.field("a", group(columns), nullable=False)
    metadata = b"\x01\x01\x00\x01a"
    outer = variants(columns, [None, (None, {"a": {"typed_value": 1}}), (value, None)], metadata)
    inner = variants(pa.struct([field]), [(None, {"a": {"value": value}})], metadata)
    for column in (outer, inner):
        with pytest.raises(CorruptTable, match="an object in its value, and its columns are null"):
            whole_variants(column)
    assert shown(outer.slice(0, 2)) == [None, '{"a": 1}']


def test_an_array_in_a_value_is_one_for_every_reader():
    kind = pa.list_(pa.field("element", group(pa.int8()), nullable=False))
    column = variants(kind, [(b"\x03\x01\x00\x02\x0c\x05", None), (None, [{"typed_value": 3}])])
    assert shown(column) == ["[5]", "[3]"]


def test_r099_a_value_beside_a_typed_value_is_damage():
    with pytest.raises(CorruptTable, match="not an object"):
        whole_variants(variants(pa.int64(), [(b"\x0c\x01", 1)]))


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (pa.bool_(), True, b"\x04"),
        (pa.bool_(), False, b"\x08"),
        (pa.int8(), -1, b"\x0c\xff"),
        (pa.int16(), 256, b"\x10\x00\x01"),
        (pa.int32(), 1, b"\x14\x01\x00\x00\x00"),
        (pa.int64(), 1, b"\x18\x01" + b"\x00" * 7),
        (pa.float32(), 1.5, b"\x38\x00\x00\xc0\x3f"),
        (pa.float64(), 1.5, b"\x1c\x00\x00\x00\x00\x00\x00\xf8\x3f"),
        (pa.decimal128(9, 2), 123.45, b"\x20\x02\x39\x30\x00\x00"),
        (pa.decimal128(18, 0), -1, b"\x24\x00" + b"\xff" * 8),
        (pa.decimal128(38, 1), 0.1, b"\x28\x01\x01" + b"\x00" * 15),
        (pa.date32(), 1, b"\x2c\x01\x00\x00\x00"),
        (pa.time64("us"), 1, b"\x44\x01" + b"\x00" * 7),
        (pa.timestamp("us", "UTC"), 1, b"\x30\x01" + b"\x00" * 7),
        (pa.timestamp("us"), 1, b"\x34\x01" + b"\x00" * 7),
        (pa.timestamp("ns", "UTC"), 1, b"\x48\x01" + b"\x00" * 7),
        (pa.timestamp("ns"), 1, b"\x4c\x01" + b"\x00" * 7),
        (pa.binary(), b"\xff\x00", b"\x3c\x02\x00\x00\x00\xff\x00"),
        (pa.string(), "abc", b"\x0dabc"),
        (pa.string(), "x" * 64, b"\x40\x40\x00\x00\x00" + b"x" * 64),
        (pa.uuid(), bytes(range(16)), b"\x50" + bytes(range(16))),
    ],
)
def test_each_type_of_a_column(kind, value, expected):
    storage = kind.storage_type if kind == pa.uuid() else kind
    if pa.types.is_decimal(kind):
        typed = pa.array([str(value), None, str(value)]).cast(kind)
    else:
        typed = pa.array([value, None, value], storage)
    if kind == pa.uuid():
        typed = pa.ExtensionArray.from_storage(kind, typed)
    parts = [pa.array([EMPTY] * 3), pa.array([None, b"\x00", None], pa.binary()), typed]
    column = pa.StructArray.from_arrays(parts, fields=list(group(kind, is_variant=True)))
    assert [one["value"] for one in whole_variants(column).to_pylist()] == [
        expected,
        b"\x00",
        expected,
    ]
    assert whole_variants(column.slice(2))[0]["value"].as_py() == expected
    field = pa.field("v", column.type, metadata={FIELD_ID: "1"})
    file = io.BytesIO()
    writer = ParquetWriter(file, pa.schema([field]), ParquetOptions(), {})
    writer.write_row_group([pa.record_batch([column], schema=pa.schema([field]))])
    writer.close()
    back = pq.ParquetFile(file)
    assert str(back.schema).count("Variant(1)") == 1
    assert whole_variants(back.read().column(0).combine_chunks()) == whole_variants(column)


@pytest.mark.parametrize("kind", [pa.uint32(), pa.binary(4), pa.timestamp("ms"), pa.time32("ms")])
def test_columns_of_types_that_variants_lack_are_refused(kind):
    with pytest.raises(Unsupported, match="which variants lack"):
        whole_variants(variants(kind, [(None, None)]))


NESTED = Schema(
    0,
    (
        NestedField(1, "v", VARIANT, required=True),
        NestedField(
            2,
            "s",
            StructType(
                (
                    NestedField(3, "metadata", PrimitiveType("binary"), required=True),
                    NestedField(4, "value", VARIANT, required=False),
                )
            ),
            required=False,
        ),
        NestedField(5, "l", ListType(6, VARIANT, element_required=False), required=False),
        NestedField(
            7, "m", MapType(8, PrimitiveType("string"), 9, VARIANT, value_required=True), True
        ),
    ),
)
ONE = {"metadata": EMPTY, "value": b"\x0c\x01"}


def test_r095_variants_are_annotated_at_every_depth():
    schema = arrow_schema(NESTED)
    rows = {
        "v": [ONE, ONE],
        "s": [{"metadata": b"x", "value": ONE}, None],
        "l": [[ONE, None], None],
        "m": [[("k", ONE)], []],
    }
    file = io.BytesIO()
    writer = ParquetWriter(file, schema, ParquetOptions(), {})
    writer.write_row_group([pa.record_batch(list(map(list, rows.values())), schema=schema)])
    writer.close()
    back = pq.ParquetFile(file)
    lines = [line.strip() for line in str(back.schema).splitlines() if "Variant(1)" in line]
    assert lines == [
        "required group field_id=1 v (Variant(1)) {",
        "optional group field_id=4 value (Variant(1)) {",
        "optional group field_id=6 element (Variant(1)) {",
        "required group field_id=9 value (Variant(1)) {",
    ]
    assert back.read().to_pydict() == rows
    assert [is_variant(field) for field in back.schema_arrow] == [True, False, False, False]
    damaged = {**rows, "m": [[("k", {**ONE, "value": b"\x18"})], []]}
    for name, at in (("l", 2), ("m", 3)):
        column = pa.array(rows[name], schema.field(at).type)
        check_variants(column, schema.field(at))
        check_variants(column.slice(1), schema.field(at))
    with pytest.raises(CorruptTable, match="a variant is damaged: a value ends early"):
        check_variants(pa.array(damaged["m"], schema.field(3).type), schema.field(3))


def test_times_are_not_adjusted_to_utc_in_variants_or_elsewhere():
    """By the bytes of the logical type: TIME, false, microseconds, as both specifications say."""
    kind = pa.time64("us")
    schema = pa.schema([pa.field("v", group(kind, is_variant=True), metadata={FIELD_ID: "1"})])
    schema = schema.append(pa.field("at", kind, metadata={FIELD_ID: "2"}))
    file = io.BytesIO()
    ParquetWriter(file, schema, ParquetOptions(), {}).close()
    assert file.getvalue().count(b"\x7c\x12\x1c\x2c\0\0\0\0") == 2
    assert file.getvalue().count(b"\x7c\x11") == 0


def test_files_that_are_shredded_alike_stay_so():
    def schema(kind: pa.DataType) -> pa.Schema:
        """Return the schema of a file with one variant."""
        return pa.schema([pa.field("v", kind, metadata={FIELD_ID: "1"})])

    numbers, texts = (group(kind, is_variant=True) for kind in (pa.int64(), pa.string()))
    plain = arrow_schema(Schema(0, (NestedField(1, "v", VARIANT, required=False),)))
    assert common_shredding([schema(numbers)]) == {1: numbers}
    assert common_shredding([schema(numbers), schema(numbers)]) == {1: numbers}
    assert common_shredding([schema(numbers), pa.schema([])]) == {1: numbers}
    assert common_shredding([schema(numbers), schema(texts)]) == {}
    assert common_shredding([schema(numbers), plain]) == {}
    assert common_shredding([plain, schema(numbers)]) == {}


def test_nulls_that_a_null_hides_do_not_reach_the_writer():
    fields = [pa.field("a", group(pa.int64()), nullable=False)]
    rows = [None, (None, {"a": {"typed_value": 1}}), (b"\x00", None)]
    column = variants(pa.struct(fields), rows, b"\x01\x01\x00\x01a")
    clean = shredded_variants(column)
    assert clean.to_pylist() == column.to_pylist()
    assert clean.field(2).field(0).null_count == 0
    assert clean.slice(1).to_pylist() == column.slice(1).to_pylist()
