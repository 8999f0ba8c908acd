import io
import math
import struct
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from icectl.files.data_file import open_data_file
from icectl.files.parquet.schema import arrow_schema
from icectl.format.manifest import FileFormat
from icectl.format.partition import PartitionField
from icectl.format.schema import Schema
from icectl.format.transforms import parse_transform
from icectl.format.types import (
    GeographyType,
    GeometryType,
    ListType,
    MapType,
    NestedField,
    PrimitiveType,
    StructType,
)
from icectl.rows.check_data_file import RecordedFile, TableFacts, check_data_file
from tests.builders.data_files import stored
from tests.builders.shapes import POINT, XYZM, line, point, wkb

SCHEMA = Schema(
    0,
    (
        NestedField(1, "id", PrimitiveType("long"), required=True),
        NestedField(2, "name", PrimitiveType("string"), required=False),
        NestedField(3, "ratio", PrimitiveType("double"), required=False),
    ),
)
FACTS = TableFacts(SCHEMA, (), 2, None)
ARROW = pa.schema(
    [
        pa.field("id", pa.int64(), metadata={"PARQUET:field_id": "1"}),
        pa.field("name", pa.string(), metadata={"PARQUET:field_id": "2"}),
        pa.field("ratio", pa.float64(), metadata={"PARQUET:field_id": "3"}),
    ]
)
ROWS = {"id": [1, 2, 3], "name": ["a", None, "c"], "ratio": [0.5, float("nan"), None]}


def parquet(rows=ROWS, schema=ARROW, **options):
    sink = io.BytesIO()
    pq.write_table(pa.table(rows, schema=schema), sink, **options)
    sink.seek(0)
    return sink


def recorded(**changed):
    return RecordedFile(
        "s3://b/t/data/1.parquet",
        **{"file_format": FileFormat.PARQUET, "record_count": 3, "sequence_number": 1, **changed},
    )


def found(file, told, facts=FACTS, *, by_footer=False):
    return [
        (one.rule, one.message) for one in check_data_file(file, told, facts, by_footer=by_footer)
    ]


BOTH_WAYS = pytest.mark.parametrize("by_footer", [True, False])


def long(value):
    return value.to_bytes(8, "little", signed=True)


@BOTH_WAYS
def test_a_file_that_is_what_its_entry_says_has_no_findings(by_footer):
    told = recorded(
        null_value_counts={1: 0, 2: 1, 3: 1},
        nan_value_counts={3: 1},
        lower_bounds={1: long(1), 2: b"a"},
        upper_bounds={1: long(3), 2: b"c"},
    )
    assert found(parquet(), told, by_footer=by_footer) == []


@BOTH_WAYS
@pytest.mark.parametrize("statistics", [True, False])
@pytest.mark.parametrize(
    ("changed", "rule", "message"),
    [
        ({"record_count": 4}, "R-063", "it has 3 rows, the manifest says 4"),
        ({"null_value_counts": {2: 0}}, "R-130", "`name` has 1 nulls, not 0"),
        ({"nan_value_counts": {3: 0}}, "R-130", "`ratio` has 1 NaN, not 0"),
        ({"lower_bounds": {1: long(2)}, "upper_bounds": {1: long(3)}}, "R-092",
         "its bounds exclude rows: `id` ranges from 1 to 3"),
        ({"lower_bounds": {2: b"a"}, "upper_bounds": {2: b"b"}}, "R-092",
         "its bounds exclude rows: `name` ranges from 'a' to 'c'"),
    ],
)  # fmt: skip
def test_what_the_entry_says_wrongly_is_found_with_and_without_statistics(
    statistics, changed, rule, message, by_footer
):
    file = parquet(write_statistics=statistics)
    assert found(file, recorded(**changed), by_footer=by_footer) == [(rule, message)]


def test_text_that_is_no_utf_8_is_a_finding_which_gives_up_no_rows():
    damaged = pa.StringArray.from_buffers(
        3, pa.py_buffer(b"\0\0\0\0\1\0\0\0\2\0\0\0\3\0\0\0"), pa.py_buffer(b"a\xffc")
    )
    rows = {"id": pa.array([1, 2, 3]), "name": damaged, "ratio": pa.array([1.0, 2.0, 3.0])}
    told = recorded(lower_bounds={2: b"a"}, upper_bounds={2: b"d"}, null_value_counts={2: 0})
    file = parquet(rows, write_statistics=False)
    (finding,) = check_data_file(file, told, FACTS, by_footer=False)
    assert finding.rule == "R-099"
    assert "replace these values with Spark" in (finding.hint or "")


@BOTH_WAYS
def test_nulls_of_a_required_column_and_other_types_are_found(by_footer):
    schema = ARROW.set(0, pa.field("id", pa.string(), metadata={"PARQUET:field_id": "1"}))
    rows = {**ROWS, "id": ["1", None, "3"]}
    rules = [rule for rule, _ in found(parquet(rows, schema), recorded(), by_footer=by_footer)]
    assert rules == ["R-095", "R-095"]


def test_what_is_no_parquet_file_is_a_finding():
    assert [rule for rule, _ in found(io.BytesIO(b"no parquet"), recorded())] == ["R-099"]


def test_row_ids_are_unique_and_inside_of_the_table():
    schema = pa.schema(
        [
            *ARROW,
            pa.field("_row_id", pa.int64(), metadata={"PARQUET:field_id": "2147483540"}),
            pa.field(
                "_last_updated_sequence_number",
                pa.int64(),
                metadata={"PARQUET:field_id": "2147483539"},
            ),
        ]
    )
    facts = TableFacts(SCHEMA, (), 3, 7)

    def with_ids(ids, updated, deleted_count=0):
        rows = {**ROWS, "_row_id": ids, "_last_updated_sequence_number": updated}
        stated = replace(recorded(), deleted_count=deleted_count)
        return found(parquet(rows, schema), stated, facts)

    assert with_ids([0, 6, None], [1, None, 1]) == []
    assert with_ids([0, 0, 1], [1, 1, 1]) == [("R-100", "it stores a row id more than once")]
    assert with_ids([0, 0, 1], [1, 1, 1], deleted_count=1) == []
    assert with_ids([0, 0, 1], [1, 1, 1], deleted_count=None) == []
    assert [rule for rule, _ in with_ids([0, 0, 0], [1, 1, 1], deleted_count=1)] == ["R-100"]
    assert with_ids([0, 1, 7], [1, 1, 1]) == [
        ("R-100", "it stores row ids from 0 to 7, outside of the table's")
    ]
    assert [rule for rule, _ in with_ids([0, 1, 2], [1, 2, 1])] == ["R-105"]


def zeroed(content):
    """The file with nothing left before its footer but the first four bytes."""
    footer = int.from_bytes(content[-8:-4], "little") + 8
    return io.BytesIO(content[:4] + bytes(len(content) - footer - 4) + content[-footer:])


TRUE = {
    "null_value_counts": {1: 0, 2: 1, 3: 1},
    "lower_bounds": {1: long(1), 2: b"a"},
    "upper_bounds": {1: long(3), 2: b"c"},
}


@pytest.mark.parametrize("options", [{}, {"compression": "none"}, {"use_dictionary": False}])
def test_r099_destroyed_pages_are_one_finding_that_footers_do_not_show(options):
    file = zeroed(parquet(**options).getvalue())
    assert found(file, recorded(**TRUE), by_footer=True) == []
    ((rule, message),) = found(file, recorded(**TRUE))
    assert (rule, message[:29]) == ("R-099", "the Parquet file is damaged: ")


def test_r099_columns_without_any_metrics_are_decoded_too():
    content = parquet(compression="none", use_dictionary=False, write_statistics=False).getvalue()
    at = content.index(b"\1\0\0\0c")
    file = io.BytesIO(content[:at] + b"\xff\xff\xff\x7f" + content[at + 4 :])
    assert found(file, recorded(), by_footer=True) == []
    assert [rule for rule, _ in found(file, recorded())] == ["R-099"]


def test_r099_a_page_whose_checksum_is_wrong_is_found():
    content = parquet(
        compression="none", use_dictionary=False, write_statistics=False, write_page_checksum=True
    ).getvalue()
    ids = long(1) + long(2) + long(3)
    assert content.count(ids) == 1
    file = io.BytesIO(content.replace(ids, long(1) + long(1) + long(3)))
    assert found(file, recorded(**TRUE), by_footer=False)[0][0] == "R-099"
    assert "CRC" in found(file, recorded(**TRUE))[0][1]


@pytest.mark.parametrize("kind", ["orc", "avro"])
def test_r099_destroyed_blocks_of_other_formats_are_found(kind):
    told = replace(recorded(), file_format=FileFormat[kind.upper()])
    content = stored(pa.table(ROWS, schema=ARROW), kind)
    assert found(io.BytesIO(content), told) == []
    if kind == "orc":
        start, stop = 3, orc.ORCFile(io.BytesIO(content)).content_length
    else:
        start, stop = open_data_file(content, kind).header.first_block + 3, len(content) - 16
    damaged = content[:start] + bytes(stop - start) + content[stop:]
    assert found(io.BytesIO(damaged), told, by_footer=True) == []
    assert [rule for rule, _ in found(io.BytesIO(damaged), told)] == ["R-099"]


def test_r092_long_bounds_are_cut_off_in_the_message():
    schema = ARROW.remove(0).remove(1)
    told = recorded(record_count=1, lower_bounds={2: b"b"}, upper_bounds={2: b"c"})
    ((rule, message),) = found(parquet({"name": ["a" * 20_000]}, schema), told)
    assert rule == "R-092"
    assert message == (
        f"its bounds exclude rows: `name` ranges from '{'a' * 40}'... (20,000 characters) "
        f"to '{'a' * 40}'... (20,000 characters)"
    )


def test_r071_long_partition_values_are_cut_off_in_the_message():
    schema = ARROW.remove(0).remove(1)
    by_name = PartitionField((2,), 1000, "name", parse_transform("identity"))
    told = recorded(record_count=1, partition=[(by_name, "b" * 20_000)])
    ((rule, message),) = found(parquet({"name": ["a" * 20_000]}, schema), told)
    assert rule == "R-071"
    assert len(message) < 250


def test_r072_partitions_of_dates_are_told_by_their_ends():
    day = pa.schema([pa.field("day", pa.date32(), metadata={"PARQUET:field_id": "4"})])
    column = NestedField(4, "day", PrimitiveType("date"), required=False)
    facts = TableFacts(Schema(0, (column,)), (), 2, None)
    by_month = PartitionField((4,), 1000, "day_month", parse_transform("month"))

    def with_days(*days):
        told = recorded(record_count=len(days), partition=[(by_month, 1)])
        values = pa.array(days, pa.int32()).cast(pa.date32())
        return found(parquet({"day": values}, day), told, facts)

    assert with_days(31, 45, 58) == []  # February 1970
    assert with_days(31, 59) == [
        ("R-072", "its partition value of `day_month` is 1, but a row gives 2 by month")
    ]
    assert with_days(31, None) == [
        ("R-072", "its partition value of `day_month` is 1, but a row gives None by month")
    ]


@pytest.mark.parametrize(("is_optional", "rules"), [(True, []), (False, ["R-095"])])
def test_r095_a_required_field_may_be_absent_where_an_optional_struct_is(is_optional, rules):
    inner = StructType((NestedField(2, "r", PrimitiveType("long"), required=True),))
    facts = TableFacts(
        Schema(0, (NestedField(1, "s", inner, required=not is_optional),)), (), 2, None
    )
    field = pa.field("r", pa.int64(), metadata={"PARQUET:field_id": "2"})
    written = pa.schema([pa.field("s", pa.struct([field]), metadata={"PARQUET:field_id": "1"})])
    file = parquet({"s": [{"r": 1}, None]}, written)
    told = recorded(record_count=2, null_value_counts={2: 1})
    assert [rule for rule, _ in found(file, told, facts)] == rules


@pytest.mark.parametrize(
    ("transform", "value", "rules"),
    [
        ("identity", -1, []), ("year", -1, []), ("hour", -1, []), ("hour", 0, []),
        ("identity", 999_999, []), ("identity", -2, ["R-071"]), ("year", -2, ["R-072"]),
    ],
)  # fmt: skip
def test_orc_files_are_not_blamed_for_the_second_that_orc_loses(transform, value, rules):
    """Java stores -1 and 999,999 microseconds alike; a file by Arrow stands for one by Java."""
    at = NestedField(1, "at", PrimitiveType("timestamp"), required=False)
    field = PartitionField((1,), 1000, "p", parse_transform(transform))
    column = pa.field("at", pa.timestamp("ns"), metadata={"iceberg.id": "1"})
    file = io.BytesIO()
    shown = pa.array([999_999_000], pa.int64()).cast(pa.timestamp("ns"))
    orc.write_table(pa.table([shown], schema=pa.schema([column])), file)
    told = recorded(file_format=FileFormat.ORC, record_count=1, partition=[(field, value)])
    facts = TableFacts(Schema(0, (at,)), (), 2, None)
    assert [rule for rule, _ in found(file, told, facts)] == rules
    plain = pa.schema([pa.field("at", pa.timestamp("us"), metadata={"PARQUET:field_id": "1"})])
    told = recorded(record_count=1, partition=[(field, value)])
    is_wrong = value not in (0, 999_999)
    assert bool(found(parquet({"at": [999_999]}, plain), told, facts)) == is_wrong


@pytest.mark.parametrize(
    ("lower", "upper", "is_excluded"),
    [
        ((170, 0), (-170, 9), False),
        ((170, 0, 1, 5), (-170, 9, 2, 6), False),
        ((175, 0), (-170, 9), True),
        ((-170, 0), (170, 9), True),
        ((170, 0, 1.5), (-170, 9, 2), True),
        ((170, 0, math.nan, 5), (-170, 9, math.nan, 5.5), True),
    ],
)
def test_r093_shapes_lie_in_their_bounds_across_the_line_and_in_each_dimension(
    lower, upper, is_excluded
):
    schema = Schema(0, (NestedField(2, "area", GeographyType(), required=False),))
    points = [wkb(POINT, one, XYZM) for one in ((170, 1, 1, 5), (-170, 2, 2, 6))]
    bounds = [{2: struct.pack(f"<{len(one)}d", *one)} for one in (lower, upper)]
    told = recorded(lower_bounds=bounds[0], upper_bounds=bounds[1])
    file = parquet({"area": [*points, None]}, arrow_schema(schema))
    box = "POINT ZM (170 1 1 5) to POINT ZM (-170 2 2 6)"
    message = f"its bounds exclude rows: `area` has shapes in {box}"
    facts = TableFacts(schema, (), 3, None)
    assert found(file, told, facts) == ([("R-093", message)] if is_excluded else [])


def test_r095_shapes_inside_of_lists_and_maps_are_looked_at():
    inside = StructType((NestedField(4, "place", GeometryType(), required=False),))
    held = ListType(3, inside, element_required=False)
    named = MapType(6, PrimitiveType("string"), 7, GeographyType(), value_required=False)
    columns = enumerate({"held": held, "named": named}.items())
    fields = (NestedField(2 + 3 * at, *one, required=False) for at, one in columns)
    schema = Schema(0, tuple(fields))
    facts = TableFacts(schema, (), 3, None)

    def told(places, areas):
        values = {
            "held": [None, [{"place": places[0]}, None], [{"place": places[1]}]],
            "named": [[("a", areas[0])], [], [("b", areas[1]), ("c", None)]],
        }
        return found(parquet(values, arrow_schema(schema)), recorded(), facts)

    assert told((point(1, 1), None), (point(2, 2), line((0, 0), (1, 1)))) == []
    damaged = told((point(1, 1)[:-1], b""), (point(2, 2), point(200, 1)))
    assert [rule for rule, _ in damaged] == ["R-095", "R-093"]
    why = "it counts 1 points, and 15 bytes are left"
    assert [message for _, message in damaged] == [
        f"`held.element.place` has 2 values that are no shapes, one of them because {why}",
        "`named.value` has 1 points that are not on the globe",
    ]
