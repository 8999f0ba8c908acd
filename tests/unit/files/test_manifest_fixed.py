"""Fixed partition values, stored as the format says or with lengths, as Iceberg for Java does."""

import math
import struct
from typing import Any

import pytest

from icectl.entries.partition_key import encode_key
from icectl.entries.rows import ALL_COLUMNS, PLANNING_COLUMNS
from icectl.errors import CorruptTable
from icectl.files.manifest.manifest import read_manifest, read_manifests
from icectl.format.partition import PartitionField, PartitionSpec
from icectl.format.transforms import parse_transform
from icectl.format.types import FixedType, PrimitiveType
from tests.builders.avro import (
    entry,
    entry_schema,
    field,
    file,
    number,
    other_schema,
    raw_file,
    text,
)

pytestmark = pytest.mark.usefixtures("end")

IDENTITY = parse_transform("identity")
OF_JAVA = b"\x02\x08" + b"2bcd"
"""`2bcd` of type fixed[4] in a manifest that Iceberg 1.12 on Spark 4.1 wrote."""


def fixed(size: int, **said: Any) -> dict[str, Any]:
    return {"type": "fixed", "name": f"fixed_{size}", "size": size} | said


def spec(*field_ids: int) -> PartitionSpec:
    return PartitionSpec(
        4, tuple(PartitionField((at,), at, f"p{at}", IDENTITY) for at in field_ids or (1000,))
    )


def of_type(*types: Any) -> dict[str, Any]:
    """The schema of entries whose partitions have optional fields of these types."""
    return entry_schema(
        partition=[field(f"p{at}", one, 1000 + at, optional=True) for at, one in enumerate(types)]
    )


def record(partition: bytes, size: int = 1234) -> bytes:
    """An encoded entry with an encoded partition."""
    head = number(1) + b"\x00" + number(0) + text(b"s3://b/1") + text(b"PARQUET")
    return head + partition + number(7) + number(size)


def keys(content: bytes, of: PartitionSpec | None = None) -> list[Any]:
    _, rows = read_manifest(content, columns=PLANNING_COLUMNS, manifest=0, spec=of or spec())
    assert rows.table["record_count"].to_pylist() == [7] * len(rows)
    return rows.table["partition_key"].to_pylist()


def key(*values: bytes | None) -> bytes:
    return encode_key([FixedType(len(one or b"")) for one in values], values)


@pytest.mark.parametrize("stored", [OF_JAVA, b"\x02" + b"2bcd"], ids=["java", "format"])
def test_r212_fixed_values_are_read_with_and_without_lengths(stored):
    content = raw_file(of_type(fixed(4)), [(1, record(stored))])
    assert keys(content) == [key(b"2bcd")]
    header, _ = read_manifest(content, columns=PLANNING_COLUMNS, manifest=0, spec=spec())
    assert header.has_lengths_of_fixed is (stored == OF_JAVA)
    assert header.partition_record == ((1000, "bytes" if stored == OF_JAVA else "fixed"),)


@pytest.mark.parametrize("size", [0, 1, 2, 7, 16, 63, 64, 200])
def test_r212_values_of_any_size_and_nulls_are_read_with_lengths(size):
    values = [b"\x00" * size, b"\xff" * size, bytes(range(size))]
    block = b"".join(record(b"\x02" + text(one)) for one in values) + record(b"\x00")
    content = raw_file(of_type(fixed(size)), [(4, block)])
    assert keys(content) == [*(key(one) for one in values), key(None)]


def test_r212_blocks_of_nulls_tell_nothing_and_later_ones_decide():
    nulls, value = (2, record(b"\x00") * 2), (1, record(OF_JAVA))
    assert keys(raw_file(of_type(fixed(4)), [nulls])) == [key(None)] * 2
    assert keys(raw_file(of_type(fixed(4)), [nulls, value])) == [key(None)] * 2 + [key(b"2bcd")]


def test_r212_nan_beside_a_null_does_not_make_a_block_doubtful():
    nan = struct.pack("<d", math.nan)
    content = raw_file(of_type("double", fixed(4)), [(1, record(b"\x02" + nan + b"\x00"))])
    types = (PrimitiveType("double"), FixedType(4))
    assert keys(content, spec(1000, 1001)) == [encode_key(types, (math.nan, None))]


def test_r212_all_fixed_fields_of_a_manifest_have_lengths_or_none_has():
    schema = of_type(fixed(2), "string", fixed(3))
    with_lengths = b"\x02\x04ab" + b"\x02" + text("ü".encode()) + b"\x02\x06abc"
    plain = b"\x02ab" + b"\x02" + text("ü".encode()) + b"\x02abc"
    types = (FixedType(2), PrimitiveType("string"), FixedType(3))
    wanted = [encode_key(types, (b"ab", "ü", b"abc"))]
    of = spec(1000, 1001, 1002)
    assert keys(raw_file(schema, [(1, record(with_lengths))]), of) == wanted
    assert keys(raw_file(schema, [(1, record(plain))]), of) == wanted
    mixed = b"\x02\x04ab" + b"\x02" + text(b"u") + b"\x02abc"
    with pytest.raises(CorruptTable) as caught:
        keys(raw_file(schema, [(1, record(mixed))]), of)
    assert caught.value.rule == "R-008"


@pytest.mark.parametrize(
    ("type_", "stored", "wanted"),
    [
        (fixed(2, logicalType="decimal", precision=3, scale=0), b"\x01\x00",
         b"\x01\x02\x00\x00\x00\x01\x00"),
        (fixed(16, logicalType="uuid"), bytes(15) + b"\x20",
         b"\x01\x10\x00\x00\x00" + bytes(15) + b"\x20"),
    ],
)  # fmt: skip
def test_r212_decimals_and_uuids_have_no_lengths(type_, stored, wanted):
    assert keys(raw_file(of_type(type_), [(1, record(b"\x02" + stored))])) == [wanted]
    with pytest.raises(CorruptTable, match="R-008"):
        keys(raw_file(of_type(type_), [(1, record(b"\x02" + number(len(stored)) + stored))]))


def test_r212_a_length_that_is_not_that_of_the_type_is_damage():
    for stored in (b"\x02\x0aabcde", b"\x02\x07abcd", b"\x02abc"):
        with pytest.raises(CorruptTable) as caught:
            keys(raw_file(of_type(fixed(4)), [(1, record(stored))]))
        assert caught.value.rule == "R-008"
    later = [(1, record(OF_JAVA)), (1, record(b"\x02\x06abc"))]
    with pytest.raises(CorruptTable) as caught:
        keys(raw_file(of_type(fixed(4)), later))
    assert caught.value.rule == "R-068"


def test_r212_records_that_can_be_read_both_ways_are_refused():
    schema = entry_schema([field("tail", "bytes", 999)], partition=[field("p", fixed(1), 1000)])
    head = number(1) + b"\x00" + number(0) + text(b"s3://b/1") + text(b"PARQUET")
    block = head + b"\x02\x60\x02\x02\x00"
    # with: p=60, 1 row, 1 byte, tail of none; without: p=02, 48 rows, 1 byte, tail of one byte.
    with pytest.raises(CorruptTable, match="with and without lengths") as caught:
        keys(raw_file(schema, [(1, block)]))
    assert caught.value.rule == "R-212"
    decisive = head + b"\x02\x61" + number(7) + number(1234) + b"\x00"
    _, rows = read_manifest(
        raw_file(schema, [(1, block), (1, decisive)]),
        columns=PLANNING_COLUMNS,
        manifest=0,
        spec=spec(),
    )
    assert rows.table["record_count"].to_pylist() == [1, 7]


def test_r212_records_that_can_be_read_both_ways_have_lengths_where_java_wrote_them():
    """Java's header has a member `iceberg.schema`, which no other writer's has.

    With: p=80, 3 rows; without: p=02 and 384 rows, as 03 begins where 80 has its last bit.
    """
    head = number(1) + b"\x00" + number(0) + text(b"s3://b/1") + text(b"PARQUET")
    block = head + b"\x02\x02\x80" + number(3) + number(312)
    schema = of_type(fixed(1))
    with pytest.raises(CorruptTable, match="with and without lengths"):
        keys(raw_file(schema, [(1, block)]))
    content = raw_file(schema, [(1, block)], {"iceberg.schema": "{}"})
    _, rows = read_manifest(content, columns=PLANNING_COLUMNS, manifest=0, spec=spec())
    assert rows.table["record_count"].to_pylist() == [3]
    assert rows.table["partition_key"].to_pylist() == [key(b"\x80")]


def test_r212_manifests_with_and_without_lengths_are_read_into_one_table():
    stored = [OF_JAVA, b"\x02" + b"3bcd", b"\x02\x08" + b"4bcd"]
    contents = [raw_file(of_type(fixed(4)), [(1, record(one))]) for one in stored]
    headers, rows = read_manifests(
        contents, columns=PLANNING_COLUMNS, manifests=[5, 6, 7], spec=spec()
    )
    assert [header.has_lengths_of_fixed for header in headers] == [True, False, True]
    wanted = [(5, key(b"2bcd")), (6, key(b"3bcd")), (7, key(b"4bcd"))]
    table = rows.table
    assert list(zip(table["manifest"].to_pylist(), table["partition_key"].to_pylist(),
                    strict=True)) == wanted  # fmt: skip


def test_r212_metrics_behind_a_length_are_read_as_without():
    bounds = {
        "type": "array",
        "items": {
            "type": "record",
            "name": "k126_v127",
            "fields": [field("key", "int", 126), field("value", "bytes", 127)],
        },
    }
    made = []
    for type_ in ("bytes", fixed(4)):
        schema = entry_schema(
            [field("lower_bounds", bounds, 125, optional=True)],
            partition=[field("p", type_, 1000, optional=True)],
        )
        one = entry(lower_bounds=[{"key": 3, "value": b"abc"}], partition={"p": b"2bcd"})
        made.append(file(schema, [one] * 3))
    # What fastavro writes of bytes is what Java writes of fixed: only the schema differs.
    of_java = other_schema(made[0], lambda written: written.update(schema))
    tables = [
        read_manifest(content, columns=ALL_COLUMNS, manifest=0, spec=spec())[1].table
        for content in (*made, of_java)
    ]
    assert tables[0].to_pylist() == tables[1].to_pylist() == tables[2].to_pylist()
    assert tables[2]["lower_bounds"].to_pylist() == [[(3, b"abc")]] * 3
