"""Writing manifests: what each version stores, and what may not be written."""

import datetime as dt
import io
import json
import math
from decimal import Context, Decimal, localcontext
from typing import Any
from uuid import UUID

import fastavro
import pyarrow as pa
import pytest

from icectl.entries.partition_key import encode_key
from icectl.entries.rows import ALL_COLUMNS, CARRIED, PLANNING, RawEntries
from icectl.errors import CorruptTable, Unsupported
from icectl.files import compiled
from icectl.files.manifest.manifest import read_manifest
from icectl.files.manifest.schema import avro_type
from icectl.files.manifest.write import write_manifest
from icectl.format.manifest import Content, ManifestContent, Status
from icectl.format.partition import PartitionField, PartitionSpec
from icectl.format.schema import Schema
from icectl.format.transforms import parse_transform
from icectl.format.types import DecimalType, FixedType, NestedField, PrimitiveType, Type
from tests.builders.avro import SYNC
from tests.builders.plain_manifests import manifest_of

pytestmark = pytest.mark.usefixtures("end")

INT = PrimitiveType("int")
SCHEMA = Schema(9, (NestedField(1, "a", INT, required=False),))
SPEC = PartitionSpec(4, (PartitionField((1,), 1000, "a", parse_transform("identity")),))
ARROW = pa.schema([*PLANNING, *CARRIED])


def row(**values: Any) -> dict[str, Any]:
    return {
        "content": 0, "status": Status.ADDED, "location": "s3://b/f", "file_format": 3,
        "spec_id": 4, "partition_key": encode_key((INT,), (7,)), "record_count": 5,
        "file_size_in_bytes": 6, "manifest": 0, "manifest_pos": 0,
    } | values  # fmt: skip


NUMBERS = {"snapshot_id": 1, "sequence_number": 2, "file_sequence_number": 3}


def write(*rows: dict[str, Any], **values: Any) -> bytes:
    given: dict[str, Any] = {
        "schema": SCHEMA, "spec": SPEC, "format_version": 2, "content": ManifestContent.DATA,
        "snapshot_id": None, "codec": "null", "sync_marker": SYNC,
    } | values  # fmt: skip
    return write_manifest(RawEntries(pa.Table.from_pylist(list(rows), schema=ARROW)), **given)


def stored(content: bytes) -> list[Any]:
    return list(fastavro.reader(io.BytesIO(content)))  # type: ignore[arg-type]


def header(content: bytes) -> dict[str, str]:
    return dict(fastavro.reader(io.BytesIO(content)).metadata)


def ids(content: bytes) -> tuple[list[int], list[int]]:
    schema = json.loads(header(content)["avro.schema"])
    data_file = schema["fields"][-1]["type"]["fields"]
    return [one["field-id"] for one in schema["fields"]], [one["field-id"] for one in data_file]


def test_r060_version_2_headers_are_complete():
    kept = {key: value for key, value in header(write(row())).items() if key[:5] != "avro."}
    assert kept == {
        "schema": '{"type":"struct","schema-id":9,"fields":'
        '[{"id":1,"name":"a","required":false,"type":"int"}]}',
        "schema-id": "9",
        "partition-spec": '[{"source-id":1,"field-id":1000,"name":"a","transform":"identity"}]',
        "partition-spec-id": "4",
        "format-version": "2",
        "content": "data",
    }
    assert "content" not in header(write(row(snapshot_id=1), format_version=1))


def test_r062_r063_fields_of_each_version_are_those_of_the_reference_implementation():
    assert ids(write(row(snapshot_id=1), format_version=1)) == (
        [0, 1, 2], [100, 101, 102, 103, 104, 105, 108, 109, 110, 137, 125, 128, 131, 132, 140],
    )  # fmt: skip
    common = [134, 100, 101, 102, 103, 104, 108, 109, 110, 137, 125, 128, 131, 132, 135, 140]
    assert ids(write(row())) == ([0, 1, 3, 4, 2], [*common, 143])
    assert ids(write(row(), format_version=3)) == ([0, 1, 3, 4, 2], [*common, 142, 143, 144, 145])


def test_r008_avro_names_and_inner_ids_are_those_of_the_reference_implementation():
    schema = json.loads(header(write(row()))["avro.schema"])
    assert schema["name"] == "manifest_entry"
    record = schema["fields"][-1]["type"]
    assert record["name"] == "r2"
    by_name = {one["name"]: one["type"] for one in record["fields"]}
    assert by_name["partition"]["name"] == "r102"
    assert by_name["split_offsets"] == [
        "null",
        {"type": "array", "items": "long", "element-id": 133},
    ]
    assert by_name["equality_ids"] == ["null", {"type": "array", "items": "int", "element-id": 136}]
    names = {one: by_name[one][1]["items"]["name"] for one in CARRIED.names[:6]}
    assert names == {
        "column_sizes": "k117_v118", "value_counts": "k119_v120", "null_value_counts": "k121_v122",
        "nan_value_counts": "k138_v139", "lower_bounds": "k126_v127", "upper_bounds": "k129_v130",
    }  # fmt: skip


def test_r012_version_1_stores_a_block_size():
    (record,) = stored(write(row(), format_version=1, snapshot_id=8))
    assert record["data_file"]["block_size_in_bytes"] == 67_108_864
    assert record["snapshot_id"] == 8


def test_r041_added_entries_store_no_file_sequence_number():
    (record,) = stored(write(row(**NUMBERS)))
    assert record["sequence_number"] == 2
    assert record["file_sequence_number"] is None
    (record,) = stored(write(row(status=Status.EXISTING, **NUMBERS)))
    assert record["file_sequence_number"] == 3


@pytest.mark.parametrize("missing", list(NUMBERS))
def test_r043_carried_entries_need_their_numbers(missing):
    with pytest.raises(ValueError, match=missing):
        write(row(status=Status.EXISTING, **(NUMBERS | {missing: None})))


def test_r061_data_and_delete_files_are_kept_apart():
    with pytest.raises(ValueError, match="data and delete"):
        write(row(content=Content.EQUALITY_DELETES))
    with pytest.raises(ValueError, match="data and delete"):
        write(row(), content=ManifestContent.DELETES)
    deletes = write(row(content=Content.EQUALITY_DELETES), content=ManifestContent.DELETES)
    assert header(deletes)["content"] == "deletes"


def test_r048_version_1_holds_data_with_snapshot_ids():
    with pytest.raises(ValueError, match="version 1"):
        write(row(), format_version=1)


def test_files_of_an_unknown_format_are_not_written():
    with pytest.raises(Unsupported, match="format"):
        write(row(file_format=0))


def test_r068_partition_values_go_under_the_names_and_ids_of_the_spec():
    types = (DecimalType(5, 1), DecimalType(5, 1), PrimitiveType("boolean"))
    schema = Schema(
        0, tuple(NestedField(at, f"c{at}", one, required=False) for at, one in enumerate(types, 1))
    )
    fields = tuple(
        PartitionField((at,), 1010 + at, name, parse_transform("identity"))
        for at, name in enumerate(("2 x", "höhe", "plain"), 1)
    )
    key = encode_key(types, (Decimal("-0.1"), None, False))
    content = write(row(partition_key=key), schema=schema, spec=PartitionSpec(4, fields))
    (record,) = stored(content)
    assert record["data_file"]["partition"] == {
        "_2_x20x": Decimal("-0.1"), "h_xF6he": None, "plain": False,
    }  # fmt: skip
    avro = json.loads(header(content)["avro.schema"])["fields"][-1]["type"]["fields"][3]["type"]
    assert [(one["field-id"], one.get("iceberg-field-name")) for one in avro["fields"]] == [
        (1011, "2 x"), (1012, "höhe"), (1013, None),
    ]  # fmt: skip
    assert avro["fields"][0]["type"][1]["size"] == 3
    _, entries = read_manifest(
        content, columns=ALL_COLUMNS, manifest=0, spec=PartitionSpec(4, fields)
    )
    assert entries.table["partition_key"].to_pylist() == [key]


def test_a_partition_value_of_a_dropped_column_is_not_written():
    with pytest.raises(Unsupported, match="its column or its transform is not known"):
        write(row(), schema=Schema(0, ()))
    null = row(partition_key=encode_key((INT,), (None,)))
    assert stored(write(null, schema=Schema(0, ())))[0]["data_file"]["partition"] == {"a": None}


@pytest.mark.parametrize("format_version", [2, 3])
@pytest.mark.parametrize("codec", ["null", "deflate", "snappy", "zstandard", "bzip2", "xz"])
def test_entries_come_back_as_written(codec, format_version):
    rows = [
        row(
            status=Status.EXISTING, **NUMBERS, location=f"s3://b/ü{at}", manifest_pos=at,
            sort_order_id=at % 3 or None, referenced_data_file="r" * (at % 5) or None,
            column_sizes=[(one, -one) for one in range(at % 40)] if at % 7 else None,
            lower_bounds=[(one, b"x" * one) for one in range(at % 9)], split_offsets=[at, 2**62],
            key_metadata=b"k" * at or None, equality_ids=[1] if at % 2 else None,
        )
        for at in range(500)
    ]  # fmt: skip
    content = write(*rows, codec=codec, format_version=format_version)
    _, entries = read_manifest(content, columns=ALL_COLUMNS, manifest=0, spec=SPEC)
    assert entries.table.to_pylist() == pa.Table.from_pylist(rows, schema=ARROW).to_pylist()


def test_both_ends_write_the_same_blocks_of_64_kib(monkeypatch):
    rows = [row(location="x" * (at % 900), split_offsets=[at]) for at in range(1000)]
    written = []
    for loops in (compiled.loops(), None):
        monkeypatch.setattr(compiled, "loops", lambda loops=loops: loops)
        written.append(write(*rows))
    assert written[0] == written[1]
    assert written[0].count(SYNC) == 1 + 7  # some 442,000 bytes of rows


def test_slices_and_chunks_of_a_table_are_written():
    rows = [row(location=f"f{at}", lower_bounds=[(at, b"y")]) for at in range(30)]
    table = pa.Table.from_pylist(rows, schema=ARROW)
    parts = pa.concat_tables([table.slice(3, 5), table.slice(20, 7)])
    content = manifest_of(parts, SCHEMA, SPEC, sync_marker=SYNC)  # fmt: skip
    kept = [*range(3, 8), *range(20, 27)]
    assert [one["data_file"]["file_path"] for one in stored(content)] == [f"f{at}" for at in kept]
    assert [one["data_file"]["lower_bounds"] for one in stored(content)] == [
        [{"key": at, "value": b"y"}] for at in kept
    ]
    assert stored(write()) == []


def test_required_columns_may_not_be_null(end):
    rows = pa.Table.from_pylist([row()], schema=ARROW)
    at = rows.schema.get_field_index("record_count")
    broken = rows.set_column(
        at, pa.field("record_count", pa.int64()), pa.nulls(1, pa.int64()).cast("int64")
    )
    with pytest.raises((ValueError, TypeError)):
        manifest_of(broken, SCHEMA, SPEC, sync_marker=SYNC)


def test_values_of_metrics_may_not_be_null():
    with pytest.raises((ValueError, TypeError)):
        write(row(column_sizes=[(1, None)]))


@pytest.mark.parametrize(
    ("type_", "value", "stored_value"),
    [
        (FixedType(2), b"ab", b"ab"),
        (PrimitiveType("uuid"), UUID(int=255), bytes(15) + b"\xff"),
        (PrimitiveType("float"), 1.5, 1.5),
        (PrimitiveType("binary"), b"x", b"x"),
        (PrimitiveType("time"), 3, dt.time(0, 0, 0, 3)),
        (PrimitiveType("timestamptz"), 0, dt.datetime(1970, 1, 1, tzinfo=dt.UTC)),
        (PrimitiveType("timestamp_ns"), 12, 12),
    ],
)
def test_r095_partition_values_have_the_avro_type_of_their_type(type_, value, stored_value):
    schema = Schema(0, (NestedField(1, "a", type_, required=False),))
    (record,) = stored(write(row(partition_key=encode_key((type_,), (value,))), schema=schema))
    assert record["data_file"]["partition"] == {"a": stored_value}


WIDEST = 10**38 - 1
"""The largest unscaled value of a decimal: 38 digits."""


@pytest.mark.parametrize(
    ("type_", "values"),
    [
        ("boolean", [False, True]),
        ("int", [-(2**31), -1, 0, 127, 128, 2**31 - 1]),
        ("long", [-(2**63), -1, 0, 2**53 + 1, 2**63 - 1]),
        ("float", [-0.0, 0.0, 1.5, math.nan, math.inf, -math.inf, 2.0**-149]),
        ("double", [-0.0, 0.0, 0.1, math.nan, math.inf, -math.inf, 5e-324]),
        ("date", [-719_162, -1, 0, 2_932_896]),
        ("time", [0, 86_399_999_999]),
        ("timestamp", [-62_135_596_800_000_000, -1, 0]),
        ("timestamptz", [-1, 253_402_300_799_999_999]),
        ("timestamp_ns", [-(2**63), -1, 2**63 - 1]),
        ("timestamptz_ns", [-1, 2**63 - 1]),
        ("string", ["", "x" * 300, "\uffff", "\U0010ffff", "a\0b"]),
        ("uuid", [UUID(int=0), UUID(int=2**128 - 1)]),
        ("binary", [b"", b"\0", b"\x80" * 300]),
    ],
)
def test_partition_values_of_every_type_are_read_as_they_were(type_, values):
    check_read_back(PrimitiveType(type_), values)


@pytest.mark.parametrize(("precision", "scale"), [(1, 0), (9, 2), (18, 18), (28, 0), (29, 3),
                                                  (38, 0), (38, 10), (38, 38)])  # fmt: skip
def test_partition_decimals_of_every_width_are_read_as_they_were(precision, scale):
    most = 10**precision - 1
    digits = {0, 1, -1, 5, -5, most, -most, *(sign * min(most, one) for sign in (1, -1)
              for at in range(8, 128, 8) for one in (2 ** (at - 1), 2**at - 1, 2**at))}  # fmt: skip
    values = [Decimal((one < 0, tuple(map(int, str(abs(one)))), -scale)) for one in sorted(digits)]
    check_read_back(DecimalType(precision, scale), values)


def check_read_back(type_: Type, values: list[Any]) -> None:
    schema = Schema(0, (NestedField(1, "a", type_, required=False),))
    keys = [encode_key((type_,), (value,)) for value in values]
    content = write(*(row(partition_key=key) for key in keys), schema=schema)
    _, entries = read_manifest(content, columns=frozenset({"partition_key"}), manifest=0, spec=SPEC)
    assert entries.table["partition_key"].to_pylist() == keys


@pytest.mark.parametrize("digits", [WIDEST, -WIDEST, 12345678901234567890123456780123456789])
def test_r095_decimals_of_38_digits_are_stored_to_the_last(digits):
    type_ = DecimalType(38, 10)
    value = Decimal((digits < 0, tuple(map(int, str(abs(digits)))), -10))
    schema = Schema(0, (NestedField(1, "a", type_, required=False),))
    content = write(row(partition_key=encode_key((type_,), (value,))), schema=schema)
    assert digits.to_bytes(16, "big", signed=True) in content
    with localcontext(Context(prec=38)):  # the decoder's own rounds
        (record,) = stored(content)
    assert record["data_file"]["partition"] == {"a": value}


def test_r068_a_decimal_that_its_type_has_no_room_for_is_corrupt():
    schema = Schema(0, (NestedField(1, "a", DecimalType(2, 0), required=False),))
    key = encode_key((DecimalType(9, 0),), (Decimal(128),))
    with pytest.raises(CorruptTable, match="more digits than its field") as caught:
        write(row(partition_key=key), schema=schema)
    assert caught.value.rule == "R-068"


def test_r212_fixed_values_are_written_as_bytes_which_java_and_others_read():
    schema = Schema(0, (NestedField(1, "a", FixedType(4), required=False),))
    content = write(row(partition_key=encode_key((FixedType(4),), (b"2bcd",))), schema=schema)
    partition = json.loads(header(content)["avro.schema"])["fields"][-1]["type"]["fields"][3]
    assert partition["type"]["fields"][0]["type"] == ["null", "bytes"]
    assert b"PARQUET" + b"\x02\x082bcd" + b"\x0a\x0c" in content  # as Iceberg 1.12 on Spark
    kept, rows = read_manifest(content, columns=ALL_COLUMNS, manifest=0, spec=SPEC)
    assert kept.has_lengths_of_fixed is False
    assert rows.table["partition_key"].to_pylist() == [b"\x01\x04\x00\x00\x002bcd"]


def test_types_that_cannot_partition_are_not_written():
    with pytest.raises(ValueError, match="variant"):
        avro_type(PrimitiveType("variant"))
