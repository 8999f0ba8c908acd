"""Avro data files by field id; schemas are spelled as Iceberg's Java library does (Appendix A)."""

import datetime as dt
import io
import uuid
from decimal import Decimal

import fastavro
import pyarrow as pa
import pytest

from icectl.errors import CorruptTable, Unsupported
from icectl.files.data_file import open_data_file
from icectl.files.data_rows import ids_of
from icectl.format.schema import Schema


def field(name, type_, number, **members):
    return {"name": name, "type": type_, "field-id": number, **members}


def optional(type_):
    return ["null", type_]


def record(*fields, name="table"):
    return {"type": "record", "name": name, "fields": list(fields)}


def written(schema, rows, **options):
    file = io.BytesIO()
    fastavro.writer(file, schema, rows, sync_marker=b"m" * 16, **options)
    return file.getvalue()


def read(content, field_ids, mapping=()):
    opened = open_data_file(content, "AVRO", mapping)
    return [row for rows in opened.batches(field_ids) for row in rows.batch.to_pylist()]


PAIR = record(field("key", "int", 10), field("value", optional("string"), 11), name="k10_v11")
POINT = record(field("x", "int", 4), field("y", optional("int"), 5), name="r3")
INTS = {"type": "array", "items": "int", "element-id": 14}
NESTED = record(
    field("id", "long", 1),
    field("point", optional(POINT), 3),
    field("name", optional("string"), 2),
    field("tags", {"type": "map", "values": optional("long"), "key-id": 7, "value-id": 8}, 6),
    field("codes", {"type": "array", "logicalType": "map", "items": PAIR}, 9),
    field("lists", {"type": "array", "items": INTS, "element-id": 13}, 12),
)
STORED = [
    {"id": 1, "point": {"x": 1, "y": None}, "name": "a", "tags": {"k": 1, "n": None},
     "codes": [{"key": 1, "value": "one"}, {"key": 2, "value": None}], "lists": [[1], []]},
    {"id": 2, "point": None, "name": None, "tags": {}, "codes": [], "lists": []},
]  # fmt: skip
ROWS = [
    {"id": 1, "point": {"x": 1, "y": None}, "name": "a", "tags": [("k", 1), ("n", None)],
     "codes": [(1, "one"), (2, None)], "lists": [[1], []]},
    {"id": 2, "point": None, "name": None, "tags": [], "codes": [], "lists": []},
]  # fmt: skip


def test_columns_are_those_that_have_an_id_at_any_depth():
    content = written(NESTED, STORED)
    opened = open_data_file(content, "avro")
    found = [number for each in opened.schema for number in ids_of(each)]
    assert found == [1, 3, 4, 5, 2, 6, 7, 8, 9, 10, 11, 12, 13, 14]
    assert read(content, range(15)) == ROWS
    assert read(content, [2, 1]) == [{"id": 1, "name": "a"}, {"id": 2, "name": None}]
    for number, name in [(5, "point"), (8, "tags"), (11, "codes"), (14, "lists")]:
        assert read(content, [number]) == [{name: row[name]} for row in ROWS]
    found = [(rows.batch.num_rows, rows.batch.num_columns) for rows in opened.batches([99])]
    assert found == [(2, 0)]


def test_required_and_optional_columns_are_told_apart():
    opened = open_data_file(written(NESTED, STORED), "avro")
    assert [each.name for each in opened.schema if each.nullable] == ["point", "name"]


def logical(kind, name, **members):
    return {"type": kind, "logicalType": name, **members}


def fixed(size, **members):
    return {"type": "fixed", "name": f"fixed_{size}", "size": size, **members}


EVE = dt.date(1969, 12, 31)
BEFORE = dt.datetime(1969, 12, 31, 23, 59, 59, 999999)  # noqa: DTZ001 - as stored
UUID = uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7")
DECIMAL = {"precision": 9, "scale": 2}
PRICES = pa.decimal128(9, 2)


@pytest.mark.parametrize(
    ("type_", "stored", "kind", "value"),
    [
        ("boolean", True, pa.bool_(), True),
        ("int", -5, pa.int32(), -5),
        ("long", 2**40, pa.int64(), 2**40),
        ("float", 0.5, pa.float32(), 0.5),
        ("double", 0.1, pa.float64(), 0.1),
        ("string", "é", pa.string(), "é"),
        ("bytes", b"\xff", pa.binary(), b"\xff"),
        (fixed(2), b"ab", pa.binary(2), b"ab"),
        (fixed(16, logicalType="uuid"), UUID.bytes, pa.uuid(), UUID),
        (logical("int", "date"), -1, pa.date32(), EVE),
        (logical("long", "time-micros"), 1, pa.time64("us"), dt.time(0, 0, 0, 1)),
        (logical("int", "time-millis"), 1, pa.time32("ms"), dt.time(0, 0, 0, 1000)),
        (logical("long", "timestamp-micros"), -1, pa.timestamp("us"), BEFORE),
        (
            {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": False},
            -1,
            pa.timestamp("us"),
            BEFORE,
        ),
        (
            {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": True},
            -1,
            pa.timestamp("us", "UTC"),
            BEFORE.replace(tzinfo=dt.UTC),
        ),
        (logical("bytes", "decimal", **DECIMAL), b"\xff\x6a", PRICES, Decimal("-1.50")),
        (fixed(4, logicalType="decimal", **DECIMAL), b"\0\0\0\x96", PRICES, Decimal("1.50")),
        ({"type": "enum", "name": "e", "symbols": ["A", "B"]}, "B", pa.string(), "B"),
    ],
)
def test_r095_types_are_those_of_the_format(type_, stored, kind, value):
    schema = record(field("c", optional(type_), 1))
    raw = fastavro.schema.parse_schema(without_logical(schema))
    content = written_as(schema, raw, [{"c": stored}, {"c": None}])
    (rows,) = open_data_file(content, "avro").batches([1])
    assert rows.batch.schema.field("c").type == kind
    assert rows.batch["c"].type == kind
    assert rows.batch.to_pylist() == [{"c": value}, {"c": None}]


def without_logical(schema):
    if isinstance(schema, dict):
        return {key: without_logical(each) for key, each in schema.items() if key != "logicalType"}
    return [without_logical(each) for each in schema] if isinstance(schema, list) else schema


def written_as(schema, raw, rows):
    """A file with this schema whose values are written as those of a schema below it."""
    import json

    body = io.BytesIO()
    for row in rows:
        fastavro.schemaless_writer(body, raw, row)

    def number(value):
        return bytes([value << 1]) if value < 64 else bytes([value << 1 & 0x7F | 0x80, value >> 6])

    def text(content):
        return number(len(content)) + content

    header = b"Obj\1" + number(1) + text(b"avro.schema") + text(json.dumps(schema).encode()) + b"\0"
    block = body.getvalue()
    return b"".join([header, b"m" * 16, number(len(rows)), number(len(block)), block, b"m" * 16])


def test_a_type_may_be_wrapped_in_another():
    schema = record(field("c", {"type": {"type": "int"}}, 1))
    content = written_as(schema, fastavro.parse_schema(record(field("c", "int", 1))), [{"c": 7}])
    assert read(content, [1]) == [{"c": 7}]


def test_a_union_may_have_one_branch():
    schema = record(field("c", ["int"], 1), field("n", ["null"], 2))
    opened = open_data_file(written(schema, [{"c": 7, "n": None}]), "avro")
    assert [each.nullable for each in opened.schema] == [False, True]
    assert read(written(schema, [{"c": 7, "n": None}]), [1, 2]) == [{"c": 7, "n": None}]


def test_nanoseconds_are_kept():
    schema = record(field("c", logical("long", "timestamp-nanos"), 1))
    content = written_as(schema, fastavro.parse_schema(without_logical(schema)), [{"c": -1}])
    (rows,) = open_data_file(content, "avro").batches([1])
    assert rows.batch["c"].type == pa.timestamp("ns")
    assert rows.batch["c"].cast(pa.int64()).to_pylist() == [-1]


def test_a_type_may_be_named_again():
    point = record(field("x", "int", 2), name="p")
    schema = record(field("a", point, 1), field("b", optional("p"), 3), field("n", ["null"], 4))
    content = written(schema, [{"a": {"x": 1}, "b": {"x": 2}, "n": None}])
    assert read(content, [1, 3, 4]) == [{"a": {"x": 1}, "b": {"x": 2}, "n": None}]


def test_names_that_avro_does_not_allow_are_those_of_the_table():
    schema = record(field("a_x2Eb", "int", 1, **{"iceberg-field-name": "a.b"}))
    assert read(written(schema, [{"a_x2Eb": 1}]), [1]) == [{"a.b": 1}]


def test_r181_a_file_without_ids_gets_those_of_the_name_mapping():
    schema = record({"name": "n", "type": "int"}, {"name": "m", "type": "int"})
    content = written(schema, [{"n": 1, "m": 2}])
    assert read(content, [5], [{"names": ["m"], "field-id": 5}]) == [{"m": 2}]
    assert read(content, [5]) == [{}]


@pytest.mark.parametrize("codec", ["null", "deflate", "bzip2", "xz"])
def test_blocks_are_read_some_at_a_time(codec):
    rows = [{"id": number, "name": f"{number * 7919:x}" * 40} for number in range(20_000)]
    schema = record(field("id", "long", 1), field("name", "string", 2))
    content = written(schema, rows, codec=codec, sync_interval=60_000)
    opened = open_data_file(content, "avro")
    assert opened.record_count == 20_000
    parts = list(opened.batches([1]))
    assert [part.first_row for part in parts] == [part.batch["id"][0].as_py() for part in parts]
    assert sum(part.batch.num_rows for part in parts) == 20_000
    if codec == "null":
        assert len(parts) == len(content) // 2**22 + 1


def test_a_block_of_many_records_is_decoded_in_parts():
    rows = [{"id": number, "name": f"{number:05}" * 200} for number in range(12_000)]
    schema = record(field("id", "long", 1), field("name", "string", 2))
    opened = open_data_file(written(schema, rows, sync_interval=2**24), "avro")
    parts = list(opened.batches([1, 2]))
    # A record has 1,003 bytes, from id 64 on 1,004 and from 8,192 on 1,005: to 4 MiB and beyond.
    assert [(part.first_row, part.batch.num_rows) for part in parts] == [
        (0, 4178), (4178, 4178), (8356, 3644)
    ]  # fmt: skip
    assert [row for part in parts for row in part.batch.to_pylist()] == rows


def test_a_block_that_is_longer_than_its_records_is_damaged():
    schema = record(field("name", "string", 1))
    content = written(schema, [{"name": "x" * 2**22}, {"name": "y"}], sync_interval=2**24)
    damaged = content.replace(b"m" * 16 + b"\x04", b"m" * 16 + b"\x02", 1)
    assert damaged != content
    with pytest.raises(CorruptTable, match="R-099"):
        read(damaged, [1])


def test_a_long_header_is_read_whole():
    fields = [field(f"c{number}", optional("int"), number, doc="d" * 200) for number in range(600)]
    content = written(record(*fields), [{"c599": 7}])
    assert content.index(b"m" * 16) > 2**16
    assert read(content, [599]) == [{"c599": 7}]


def test_rows_are_counted_and_nothing_else_is_known_beforehand():
    opened = open_data_file(written(NESTED, STORED, metadata={"delete-type": "position"}), "avro")
    metrics = opened.metrics(Schema(0, ()))
    assert (metrics.record_count, metrics.value_counts) == (2, {})
    assert opened.properties == {"delete-type": "position"}


def test_a_file_without_rows_has_no_batches():
    opened = open_data_file(written(NESTED, []), "avro")
    assert opened.record_count == 0
    assert list(opened.batches([1])) == []


def test_a_block_without_rows_is_passed_over():
    empty = b"\0\0" + b"m" * 16
    opened = open_data_file(GOOD + empty, "avro")
    assert opened.record_count == 2
    assert [rows.batch.num_rows for rows in opened.batches([1])] == [2]


def test_unions_of_several_types_are_not_supported():
    content = written(record(field("c", ["null", "int", "string"], 1)), [{"c": 1}])
    with pytest.raises(Unsupported, match="union of several types"):
        read(content, [1])


GOOD = written(NESTED, STORED)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"Obj\1",
        b"x" * 100,
        GOOD[:-5],
        GOOD[:-16] + b"x" * 16,
        GOOD + b"\1" + b"\0" * 17,
        GOOD + b"\2\0" + b"m" * 16,
        GOOD + b"\2\2\0" + b"m" * 16,
        GOOD + b"\xff" * 30,
        written(record({"name": "c", "type": "int", "field-id": 1}), []).replace(
            b'"int"', b'"why"'
        ),
        written_as(
            record(field("c", logical("bytes", "decimal"), 1)),
            fastavro.parse_schema(record(field("c", "bytes", 1))),
            [{"c": b"\1"}],
        ),
        written_as(
            record(field("c", logical("bytes", "decimal", **DECIMAL), 1)),
            fastavro.parse_schema(record(field("c", "bytes", 1))),
            [{"c": b"\1" * 17}],
        ),
    ],
)
def test_r099_what_is_no_avro_file_is_damaged(content):
    with pytest.raises(CorruptTable, match=r"the Avro file is damaged: .* \(R-099\)$"):
        assert read(content, [1]) != []
