"""ORC data files by field id; their attributes are those that Iceberg's Java library sets."""

import datetime as dt
import io
import uuid
from dataclasses import replace
from decimal import Decimal

import pyarrow as pa
import pytest
from pyarrow import orc

from icectl.errors import CorruptTable, Unsupported
from icectl.files.data_file import open_data_file
from icectl.files.data_rows import LARGEST_BATCH_BYTES, ids_of
from icectl.files.orc import ColumnStatistics, OrcTail, open_orc
from icectl.format.schema import Schema
from icectl.format.single_value import encode
from icectl.format.types import DecimalType, NestedField, PrimitiveType
from tests.builders import java_orc


def attributed(name, kind, number, **attributes):
    named = {f"iceberg.{key.replace('_', '-')}": value for key, value in attributes.items()}
    return pa.field(name, kind, metadata={"iceberg.id": str(number), **named})


def written(fields, rows, **options):
    file = io.BytesIO()
    orc.write_table(pa.Table.from_pylist(rows, pa.schema(fields)), file, **options)
    return file.getvalue()


def read(content, field_ids, mapping=()):
    opened = open_data_file(content, "ORC", mapping)
    return [row for rows in opened.batches(field_ids) for row in rows.batch.to_pylist()]


ID = attributed("id", pa.int64(), 1)
NAME = attributed("name", pa.string(), 2)
INNER = pa.struct(
    [attributed("b", pa.int32(), 4), attributed("u", pa.binary(), 5, binary_type="UUID")]
)
NESTED = attributed("a", pa.list_(attributed("item", INNER, 6)), 3)


def test_columns_are_those_that_have_an_id_at_any_depth():
    one = uuid.UUID(int=1)
    rows = [
        {"id": 1, "name": "x", "a": [{"b": 7, "u": one.bytes}, None]},
        {"id": 2, "name": None, "a": None},
    ]
    content = written([ID, NESTED, NAME], rows)
    opened = open_data_file(content, "orc")
    assert opened.record_count == 2
    assert [number for field in opened.schema for number in ids_of(field)] == [1, 3, 6, 4, 5, 2]
    assert read(content, [2, 1]) == [{"id": 1, "name": "x"}, {"id": 2, "name": None}]
    assert read(content, [4]) == [{"a": [{"b": 7, "u": one}, None]}, {"a": None}]
    found = [(rows.batch.num_rows, rows.batch.num_columns) for rows in opened.batches([99])]
    assert found == [(2, 0)]


EVE = dt.date(1969, 12, 31)
PRICE = Decimal("1.20")
UUID = uuid.UUID("01" * 16)


@pytest.mark.parametrize(
    ("kind", "attributes", "stored", "meant", "value"),
    [
        (pa.int64(), {"long_type": "TIME"}, 1, pa.time64("us"), dt.time(0, 0, 0, 1)),
        (pa.int64(), {"long_type": "LONG"}, 1, pa.int64(), 1),
        (pa.binary(), {"binary_type": "UUID"}, UUID.bytes, pa.uuid(), UUID),
        (pa.binary(), {"binary_type": "FIXED", "length": "2"}, b"ab", pa.binary(2), b"ab"),
        (pa.binary(), {"binary_type": "BINARY"}, b"ab", pa.binary(), b"ab"),
        (pa.date32(), {}, EVE, pa.date32(), EVE),
        (pa.decimal128(9, 2), {}, PRICE, pa.decimal128(9, 2), PRICE),
    ],
)
def test_r095_attributes_say_what_a_column_means(kind, attributes, stored, meant, value):
    content = written([attributed("c", kind, 1, **attributes)], [{"c": stored}, {"c": None}])
    (rows,) = open_data_file(content, "orc").batches([1])
    assert rows.batch.schema.field("c").type == meant
    assert rows.batch["c"].type == meant
    assert rows.batch.to_pylist() == [{"c": value}, {"c": None}]


@pytest.mark.parametrize(
    ("attributes", "zone", "kind", "count"),
    [
        ({}, None, pa.timestamp("us"), -1),
        ({}, "UTC", pa.timestamp("us", "UTC"), -1),
        ({"timestamp_unit": "NANOS"}, None, pa.timestamp("ns"), -1000),
    ],
)
def test_r095_timestamps_have_the_unit_of_their_type(attributes, zone, kind, count):
    field = attributed("at", pa.timestamp("ns", zone), 1, **attributes)
    file = io.BytesIO()
    stored = pa.array([-1000, None]).cast(field.type)
    orc.write_table(pa.table([stored], schema=pa.schema([field])), file)
    (rows,) = open_data_file(file.getvalue(), "orc").batches([1])
    assert rows.batch["at"].type == kind
    assert rows.batch["at"].cast(pa.int64()).to_pylist() == [count, None]


def counts(content, field_id):
    (rows,) = open_data_file(content, "ORC").batches([field_id])
    return rows.batch.column(0).cast(pa.int64()).to_pylist()


def test_instants_of_files_by_java_are_those_that_java_reads():
    assert [counts(java_orc.MICROS_FILE, id_) for id_ in (2, 3)] == [list(java_orc.MICROS_READ)] * 2
    assert [counts(java_orc.NANOS_FILE, id_) for id_ in (2, 3)] == [list(java_orc.NANOS_READ)] * 2
    # The second that Java itself does not get back.
    lost = {one for one in java_orc.MICROS if -1_000_000 < one < 0 and one % 1_000_000 > 999}
    assert {-1, -999, -999_000, -500_000} <= lost
    pairs = zip(java_orc.MICROS, java_orc.MICROS_READ, strict=True)
    assert {written for written, shown in pairs if written != shown} == lost


@pytest.mark.parametrize("zone", [None, "UTC"])
def test_instants_of_files_by_arrow_are_those_that_were_written(zone):
    micros = [one * 1000 for one in java_orc.MICROS]
    for number, (unit, instants) in enumerate((("MICROS", micros), ("NANOS", java_orc.NANOS))):
        kind = pa.timestamp("ns", zone)
        field = attributed("at", kind, 1, timestamp_unit=unit)
        file = io.BytesIO()
        stored = pa.array(instants, pa.int64()).cast(kind)
        orc.write_table(pa.table([stored], schema=pa.schema([field])), file)
        assert counts(file.getvalue(), 1) == list((java_orc.MICROS, java_orc.NANOS)[number])


MIN_NANOS, MAX_NANOS = -(2**63), 2**63 - 1


@pytest.mark.parametrize(
    "micros",
    [
        -62_135_596_800_000_000, 253_340_000_000_000_000, MIN_NANOS // 1000,
        MAX_NANOS // 1000 + 1, 2**64 // 1000,
    ],
)  # fmt: skip
def test_a_column_with_timestamps_that_nanoseconds_cannot_hold_is_named(micros):
    inner = pa.struct([attributed("b", pa.timestamp("us"), 3)])
    fields = [
        attributed("fine", pa.timestamp("us"), 1), attributed("a", inner, 2), ID.with_metadata(
            {"iceberg.id": "9"})
    ]  # fmt: skip
    instant = pa.array([micros], pa.int64()).cast(pa.timestamp("us"))
    fine = pa.array([MAX_NANOS // 1000], pa.int64()).cast(pa.timestamp("us"))
    columns = [fine, pa.StructArray.from_arrays([instant], fields=list(inner)), pa.array([1])]
    file = io.BytesIO()
    orc.write_table(pa.Table.from_arrays(columns, schema=pa.schema(fields)), file)
    said = r"timestamps before 1677-09-21 or after 2262-04-11, in `a`: they can't be read"
    with pytest.raises(Unsupported, match=said) as raised:
        read(file.getvalue(), [1, 3, 9])
    assert "as Parquet" in raised.value.hint
    assert read(file.getvalue(), [9]) == [{"id": 1}]
    assert counts(file.getvalue(), 1) == [MAX_NANOS // 1000]


def test_timestamps_are_not_read_by_a_pyarrow_that_gives_others_for_some(monkeypatch):
    at = attributed("at", pa.list_(attributed("item", pa.timestamp("us"), 3)), 2)
    content = written([ID, at], [{"id": 1, "at": []}])
    monkeypatch.setattr(pa, "__version__", "24.0.0")
    assert read(content, [1]) == [{"id": 1}]
    with pytest.raises(Unsupported, match=r"pyarrow 24\.0\.0 reads wrong timestamps"):
        read(content, [2])


def test_names_with_dots_and_names_that_stand_twice_are_told_apart():
    inner = pa.struct([attributed("b", pa.int64(), 3)])
    fields = [attributed("a.b", pa.int64(), 1), attributed("a", inner, 2)]
    content = written(fields, [{"a.b": 1, "a": {"b": 2}}])
    assert read(content, [1]) == [{"a.b": 1}]
    assert read(content, [3]) == [{"a": {"b": 2}}]


def test_r181_a_file_without_ids_gets_those_of_the_name_mapping():
    content = written([pa.field("n", pa.int64()), pa.field("m", pa.int64())], [{"n": 1, "m": 2}])
    assert read(content, [5], [{"names": ["m"], "field-id": 5}]) == [{"m": 2}]
    assert read(content, [5]) == [{}]


def test_stripes_come_one_by_one_with_the_place_of_their_rows():
    rows = [{"id": number, "name": f"{number * 7919:x}" * 5} for number in range(60_000)]
    content = written([ID, NAME], rows, stripe_size=100_000, batch_size=10_000)
    parts = list(open_data_file(content, "orc").batches([1]))
    assert len(parts) > 1
    for part in parts:
        assert part.batch["id"][0].as_py() == part.first_row
    assert sum(part.batch.num_rows for part in parts) == 60_000


def test_metrics_are_what_the_footer_says():
    types = {
        1: PrimitiveType("long"), 2: PrimitiveType("string"), 4: PrimitiveType("date"),
        5: DecimalType(9, 2), 6: PrimitiveType("double"),
    }  # fmt: skip
    fields = [
        ID,
        NAME,
        attributed("day", pa.date32(), 4),
        attributed("price", pa.decimal128(9, 2), 5),
        attributed("ratio", pa.float64(), 6),
        attributed("list", pa.list_(attributed("item", pa.int64(), 8)), 7),
    ]
    row = {"day": dt.date(1969, 12, 31), "price": Decimal("-1.50"), "ratio": 0.5, "list": [1, 2]}
    rows = [{"id": -3, "name": "b", **row}, {"id": 300, "name": None, **row}]
    opened = open_data_file(written(fields, rows), "orc")
    schema = Schema(
        0, tuple(NestedField(id_, f"c{id_}", type_, required=False) for id_, type_ in types.items())
    )
    metrics = opened.metrics(schema)
    assert metrics.record_count == 2
    assert metrics.value_counts == dict.fromkeys(types, 2)
    assert metrics.null_value_counts == {1: 0, 2: 1, 4: 0, 5: 0, 6: 0}
    lower = {1: -3, 2: "b", 4: -1, 5: Decimal("-1.50")}
    assert metrics.lower_bounds == {id_: encode(types[id_], lower[id_]) for id_ in lower}
    upper = lower | {1: 300}
    assert metrics.upper_bounds == {id_: encode(types[id_], upper[id_]) for id_ in upper}
    assert metrics.split_offsets == (3,)


def test_bounds_of_another_type_than_the_column_are_unknown():
    opened = open_data_file(written([ID, NAME], [{"id": 1, "name": "x"}]), "orc")
    fields = [(1, PrimitiveType("string")), (2, DecimalType(9, 2))]
    schema = Schema(0, tuple(NestedField(id_, "c", type_, required=False) for id_, type_ in fields))
    assert opened.metrics(schema).lower_bounds == {}


def test_counts_that_a_writer_left_out_are_unknown():
    opened = open_orc(io.BytesIO(written([ID], [{"id": 1}])), ())
    silent = OrcTail(opened.tail.stripes, (ColumnStatistics(None, has_null=True),) * 2)
    metrics = replace(opened, tail=silent).metrics(Schema(0, ()))
    assert (metrics.record_count, metrics.value_counts, metrics.null_value_counts) == (1, {}, {})


GOOD = written([ID, NAME], [{"id": 1, "name": "x"}])


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"ORC",
        b"x" * 100,
        GOOD[:-5],
        written([pa.field("c", pa.int64(), metadata={"iceberg.id": "one"})], [{"c": 1}]),
    ],
)
def test_r099_what_is_no_orc_file_is_damaged(content):
    with pytest.raises(CorruptTable, match="the ORC file is damaged"):
        read(content, [1])


@pytest.mark.parametrize("shape", ["flat", "nested"])
def test_rows_of_large_stripes_come_some_at_a_time(shape):
    text = [f"{number % 7}" * 20_000 for number in range(6_000)]
    kind = pa.string() if shape == "flat" else pa.list_(attributed("item", pa.string(), 3))
    values = pa.array(text if shape == "flat" else [[one] for one in text], kind)
    fields = [ID, attributed("name", kind, 2)]
    file = io.BytesIO()
    rows = pa.table([pa.array(range(6_000)), values], schema=pa.schema(fields))
    orc.write_table(rows, file, compression="zstd", dictionary_key_size_threshold=1.0)
    parts = list(open_data_file(file.getvalue(), "orc").batches([1, 2]))
    assert [part.first_row for part in parts] == [part.batch["id"][0].as_py() for part in parts]
    assert pa.Table.from_batches([part.batch for part in parts])["id"].to_pylist() == [
        *range(6_000)
    ]
    for part in parts:
        expected = rows["name"].slice(part.first_row, part.batch.num_rows)
        assert part.batch["name"].to_pylist() == expected.to_pylist()
    assert max(part.batch.nbytes for part in parts) <= LARGEST_BATCH_BYTES + 2**21


def test_large_stripes_with_names_that_do_not_tell_columns_apart_are_read_whole():
    field = attributed("a.b", pa.string(), 1)
    content = written([field], [{"a.b": "x" * 2**20}] * 70, dictionary_key_size_threshold=1.0)
    parts = list(open_data_file(content, "orc").batches([1]))
    assert [part.first_row for part in parts] == [0, 31, 62]
