"""Rows of files as the table means them: columns by id, in its types, whatever is stored."""

import datetime as dt
import io
from decimal import Decimal
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from icectl.errors import CorruptTable, Unsupported
from icectl.format.types import PrimitiveType
from icectl.rows.read_data import SourceFile, open_source, written_schema
from tests.builders.data_files import MemoryFiles, identified, schema, table

moment = dt.datetime.fromisoformat

ID, NAME = identified("id", pa.int64(), 1), identified("name", pa.string(), 2)
ROWS = table([ID, NAME], [(1, "a"), (2, None), (3, "c")])


def source_of(rows, wanted, file_format="parquet", mapping=(), **told):
    files = MemoryFiles()
    file = files.add("f1", rows, file_format, **told)
    return open_source(files.open("f1"), file, wanted, mapping)


def read(rows, wanted, **told):
    """The rows of a file of one batch, by a schema."""
    source = source_of(rows, wanted, **told)
    found = []
    for part in source.stored():
        positions = np.arange(part.first_row, part.first_row + part.batch.num_rows)
        batch = source.project(part.batch, positions)
        batch.validate(full=True)
        assert batch.schema.equals(source.schema, check_metadata=True)
        found += batch.to_pylist()
    return found


def only(kind, values, type_, **more):
    """What a column of one stored type reads as in another."""
    rows = table([identified("c", kind, 1)], [(value,) for value in values])
    return [row["c"] for row in read(rows, schema((1, "c", type_)), **more)]


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_r180_columns_are_found_by_id_whatever_their_name_and_order(file_format):
    wanted = schema((2, "title", "string"), (9, "new", "int"), (1, "key", "long"))
    assert read(ROWS, wanted, file_format=file_format) == [
        {"title": "a", "new": None, "key": 1},
        {"title": None, "new": None, "key": 2},
        {"title": "c", "new": None, "key": 3},
    ]


@pytest.mark.parametrize(
    ("stored", "values", "type_", "expected"),
    [
        (pa.int32(), [1, None, -5], "long", [1, None, -5]),
        (pa.int8(), [1, -128], "int", [1, -128]),
        (pa.uint32(), [2**32 - 1], "long", [2**32 - 1]),
        (pa.float32(), [0.5, None], "double", [0.5, None]),
        (pa.decimal128(9, 2), [Decimal("1.25")], "decimal(20, 2)", [Decimal("1.25")]),
        (pa.decimal128(9, 2), [Decimal("-1.25")], "decimal(9, 2)", [Decimal("-1.25")]),
        (pa.date32(), [dt.date(1969, 12, 31)], "timestamp", [moment("1969-12-31T00:00:00")]),
        (pa.date32(), [dt.date(2024, 2, 29)], "timestamp_ns", [moment("2024-02-29T00:00:00")]),
        (pa.timestamp("ms"), [moment("2024-01-01T05:00:00")], "timestamp",
         [moment("2024-01-01T05:00:00")]),
        (pa.timestamp("us"), [moment("2024-01-01T05:00:00")], "timestamptz",
         [dt.datetime(2024, 1, 1, 5, tzinfo=dt.UTC)]),
        (pa.timestamp("us", "UTC"), [moment("2024-01-01T05:00:00")], "timestamp",
         [moment("2024-01-01T05:00:00")]),
        (pa.time32("ms"), [dt.time(1, 2, 3)], "time", [dt.time(1, 2, 3)]),
        (pa.large_string(), ["ä", None], "string", ["ä", None]),
        (pa.string_view(), ["ä", None], "string", ["ä", None]),
        (pa.binary(), [b"abc"], "string", ["abc"]),
        (pa.string(), ["abc"], "binary", [b"abc"]),
        (pa.dictionary(pa.int32(), pa.string()), ["a", "b", None], "string", ["a", "b", None]),
        (pa.binary(16), [bytes(15) + b"\x01"], "uuid", [UUID(int=1)]),
        (pa.uuid(), [bytes(15) + b"\x01"], "fixed[16]", [bytes(15) + b"\x01"]),
        (pa.null(), [None, None], "long", [None, None]),
    ],
)  # fmt: skip
def test_r097_stored_types_become_those_of_the_table(stored, values, type_, expected):
    assert only(stored, values, type_) == expected


@pytest.mark.parametrize(
    ("stored", "value", "type_"),
    [
        (pa.int64(), 1, "int"),
        (pa.timestamp("ns"), moment("2024-01-01T00:00:00"), "timestamp"),
        (pa.binary(), b"abc", "string"),
    ],
)
def test_a_wider_type_is_read_as_long_as_nothing_is_lost(stored, value, type_):
    expected = value.decode() if isinstance(value, bytes) else value
    assert only(stored, [value], type_) == [expected]


@pytest.mark.parametrize(
    ("stored", "value", "type_"),
    [
        (pa.int64(), 2**31, "int"),
        (pa.timestamp("ns"), 1, "timestamp"),
        (pa.binary(), b"\xff", "string"),
        (pa.date32(), 2**30, "timestamp_ns"),
        (pa.decimal128(9, 2), Decimal("1000.00"), "decimal(5, 2)"),
    ],
)
def test_a_value_that_would_change_is_refused(stored, value, type_):
    with pytest.raises(Unsupported, match="the column `c` of f1 can't be carried over as"):
        only(stored, [value], type_)


@pytest.mark.parametrize(
    ("stored", "type_"),
    [
        (pa.float64(), "float"),
        (pa.float64(), "long"),
        (pa.int32(), "boolean"),
        (pa.string(), "long"),
        (pa.int64(), "timestamp"),
        (pa.date32(), "timestamptz"),
        (pa.timestamp("us"), "date"),
        (pa.decimal128(9, 2), "decimal(9, 3)"),
        (pa.binary(8), "fixed[9]"),
        (pa.binary(15), "uuid"),
        (pa.list_(pa.int64()), "long"),
        (
            pa.int64(),
            {
                "type": "struct",
                "fields": [{"id": 2, "name": "x", "type": "long", "required": False}],
            },
        ),
    ],
)
def test_types_that_do_not_fit_are_refused_before_a_row_is_read(stored, type_):
    rows = table([identified("c", stored, 1)], [])
    with pytest.raises(Unsupported, match=r"can't be carried over as .*: it is stored as"):
        source_of(rows, schema((1, "c", type_)))


PLACE = pa.struct([identified("x", pa.float32(), 4), identified("y", pa.float64(), 5)])
TAGS = pa.list_(identified("element", pa.int32(), 7))
VALUE = pa.struct([identified("x", pa.float32(), 14), identified("y", pa.float64(), 15)])
COUNTS = pa.map_(identified("key", pa.string(), 9, required=True), identified("value", VALUE, 10))
NESTED = table(
    [identified("place", PLACE, 3), identified("tags", TAGS, 6), identified("counts", COUNTS, 8)],
    [
        ({"x": 1.5, "y": 2.0}, [1, None], [("a", {"x": 0.5, "y": 1.0}), ("b", None)]),
        (None, None, None),
        ({"x": None, "y": 3.0}, [], []),
    ],
)


def optional(number, name, type_, **more):
    return {"id": number, "name": name, "type": type_, "required": False, **more}


def test_what_is_inside_of_structs_lists_and_maps_evolves_by_id_too():
    place = {
        "type": "struct",
        "fields": [
            optional(5, "north", "double"),
            optional(11, "height", "int", **{"initial-default": 7}),
            optional(4, "x", "double"),
        ],
    }
    tags = {"type": "list", "element-id": 7, "element": "long", "element-required": False}
    counts = {
        "type": "map", "key-id": 9, "key": "string", "value-id": 10,
        "value": {"type": "struct", "fields": [optional(14, "x", "double")]},
        "value-required": False,
    }  # fmt: skip
    wanted = schema((8, "counts", counts), (3, "where", place), (6, "tags", tags))
    assert read(NESTED, wanted) == [
        {
            "counts": [("a", {"x": 0.5}), ("b", None)],
            "where": {"north": 2.0, "height": 7, "x": 1.5},
            "tags": [1, None],
        },
        {"counts": None, "where": None, "tags": None},
        {"counts": [], "where": {"north": 3.0, "height": 7, "x": None}, "tags": []},
    ]


def test_an_element_with_another_id_is_no_element_of_the_column():
    tags = {"type": "list", "element-id": 70, "element": "long", "element-required": False}
    with pytest.raises(Unsupported, match=r"`element` of f1 .*: its field id is 7"):
        source_of(NESTED, schema((6, "tags", tags)))


DEFAULTS = [
    ("boolean", True, True),
    ("int", -5, -5),
    ("double", 0.5, 0.5),
    ("date", "2024-02-29", dt.date(2024, 2, 29)),
    ("time", "01:02:03.000004", dt.time(1, 2, 3, 4)),
    ("timestamp", "2024-02-29T01:02:03.000004", moment("2024-02-29T01:02:03.000004")),
    ("timestamptz", "2024-02-29T01:00:00.000000+00:00", moment("2024-02-29T01:00+00:00")),
    ("string", "é", "é"),
    ("uuid", "00000000-0000-0000-0000-000000000001", UUID(int=1)),
    ("fixed[2]", "00ff", b"\x00\xff"),
    ("binary", "0102", b"\x01\x02"),
    ("decimal(9, 2)", "1.50", Decimal("1.50")),
    ({"type": "struct", "fields": [optional(21, "a", "int", **{"initial-default": 3}),
                                  optional(22, "b", "int")]}, {}, {"a": 3, "b": None}),
    ({"type": "list", "element-id": 21, "element": "int", "element-required": False},
     [1, 2], [1, 2]),
    ({"type": "map", "key-id": 21, "key": "string", "value-id": 22, "value": "int",
      "value-required": False}, {"keys": ["a"], "values": [1]}, [("a", 1)]),
    ({"type": "list", "element-id": 21, "element": "uuid", "element-required": False},
     ["00000000-0000-0000-0000-000000000001", None], [UUID(int=1), None]),
    ({"type": "struct", "fields": [optional(21, "u", "uuid")]}, {}, {"u": None}),
]  # fmt: skip


@pytest.mark.parametrize(("type_", "default", "expected"), DEFAULTS)
def test_r183_a_column_that_a_file_lacks_has_its_initial_default(type_, default, expected):
    wanted = schema(
        (9, "new", type_, {"initial-default": default, "required": True}), (1, "id", "long")
    )
    assert read(ROWS, wanted) == [{"new": expected, "id": number} for number in (1, 2, 3)]


@pytest.mark.parametrize(
    "type_",
    [
        "uuid",
        {"type": "list", "element-id": 21, "element": "uuid", "element-required": False},
        {"type": "struct", "fields": [optional(21, "u", "uuid")]},
        {"type": "map", "key-id": 21, "key": "uuid", "value-id": 22, "value": "int",
         "value-required": False},
    ],
)  # fmt: skip
def test_r180_a_column_that_a_file_lacks_is_null_whatever_is_inside_of_it(type_):
    wanted = schema((9, "new", type_), (1, "id", "long"))
    assert read(ROWS, wanted) == [{"new": None, "id": number} for number in (1, 2, 3)]


@pytest.mark.parametrize(
    ("type_", "default"),
    [
        ("decimal(4, 2)", "100.00"), ("int", "abc"), ("int", 2**40),
        ("date", "2024-02-30"), ("fixed[3]", "6162"),
        ({"type": "list", "element-id": 9, "element": "int", "element-required": False}, ["x"]),
    ],
)  # fmt: skip
def test_r182_a_default_that_is_none_of_its_type_is_damage(type_, default):
    wanted = schema((7, "new", type_, {"initial-default": default}))
    with pytest.raises(CorruptTable, match="the initial default of the column `new` is none: "):
        source_of(ROWS, wanted)


def test_r180_a_partition_value_goes_before_a_default_and_a_stored_column_before_both():
    wanted = schema(
        (9, "new", "int", {"initial-default": 5}), (2, "name", "string"), (8, "key", "uuid")
    )
    constants = {9: 6, 2: "partition", 8: UUID(int=3)}
    assert read(ROWS, wanted, constants=constants) == [
        {"new": 6, "name": name, "key": UUID(int=3)} for name in ("a", None, "c")
    ]
    assert [row["new"] for row in read(ROWS, wanted, constants={9: None})] == [None, None, None]


def test_r180_a_required_column_that_is_nowhere_is_damage():
    wanted = schema((9, "new", "int", {"required": True}))
    with pytest.raises(CorruptTable, match="f1 lacks the required column `new`") as raised:
        source_of(ROWS, wanted)
    assert raised.value.rule == "R-180"


@pytest.mark.parametrize(
    ("rows", "wanted"),
    [
        (ROWS, schema((2, "name", "string", {"required": True}))),
        (NESTED, schema((3, "place", {"type": "struct", "fields": [
            optional(4, "name", "float") | {"required": True}]}))),
        (NESTED, schema((6, "tags", {"type": "list", "element-id": 7, "element": "int",
                                    "element-required": True}))),
        (NESTED, schema((8, "m", {"type": "map", "key-id": 9, "key": "string", "value-id": 10,
            "value": {"type": "struct", "fields": [optional(14, "x", "float")]},
            "value-required": True}))),
    ],
)  # fmt: skip
def test_r095_nulls_in_required_columns_are_damage(rows, wanted):
    with pytest.raises(CorruptTable, match="f1 has nulls in the required column") as raised:
        read(rows, wanted)
    assert raised.value.rule == "R-095"


def test_a_required_field_may_be_absent_where_the_struct_around_it_is():
    inner = optional(5, "y", "double") | {"required": True}
    wanted = schema((3, "place", {"type": "struct", "fields": [inner]}))
    assert [row["place"] for row in read(NESTED, wanted)] == [{"y": 2.0}, None, {"y": 3.0}]


INNER = {"type": "struct", "fields": [
    optional(22, "a", "string") | {"required": True},
    optional(23, "u", "uuid") | {"required": True},
]}  # fmt: skip


@pytest.mark.parametrize(
    ("number", "type_", "expected"),
    [
        (20, INNER, [None, None, None]),
        (20, {"type": "struct", "fields": [optional(21, "s", INNER) | {"required": True}]},
         [None, None, None]),
        (20, {"type": "list", "element-id": 21, "element": INNER, "element-required": True},
         [None, None, None]),
        (3, {"type": "struct", "fields": [optional(21, "s", INNER), optional(5, "y", "double")]},
         [{"s": None, "y": 2.0}, None, {"s": None, "y": 3.0}]),
    ],
)  # fmt: skip
def test_null_structs_that_a_file_lacks_can_be_written_though_their_fields_are_required(
    number, type_, expected
):
    """Parquet is written from no required field that has nulls, seen or not."""
    source = source_of(NESTED, schema((number, "new", type_)))
    (stored,) = source.stored()
    batch = source.project(stored.batch, np.arange(3))
    written = io.BytesIO()
    pq.write_table(pa.Table.from_batches([batch]), written)
    assert pq.read_table(written)["new"].to_pylist() == expected


def test_r181_names_stand_for_ids_in_files_without_any():
    rows = pa.table({"id": pa.array([1], pa.int32()), "name": ["a"]})
    mapping = [{"names": ["id", "key"], "field-id": 1}, {"names": ["name"], "field-id": 2}]
    wanted = schema((1, "key", "long"), (2, "title", "string"))
    assert read(rows, wanted, mapping=mapping) == [{"key": 1, "title": "a"}]


def test_a_file_without_ids_and_without_names_for_them_is_refused():
    rows = pa.table({"id": [1]})
    with pytest.raises(Unsupported, match="f1 has no field ids"):
        source_of(rows, schema((1, "id", "long")))
    with pytest.raises(Unsupported, match="f1 has no field ids"):
        source_of(rows, schema((1, "id", "long")), mapping=[{"names": ["x"], "field-id": 1}])


def test_a_file_with_two_columns_of_one_id_is_refused():
    wanted = schema((1, "id", "long"), (2, "name", "string"))
    twice = table([ID, NAME, identified("nick", pa.string(), 2)], [(1, "a", "b")])
    with pytest.raises(Unsupported, match="f1 has two columns with one field id"):
        read(twice, wanted)
    mapping = [{"field-id": 1, "names": ["id"]}, {"field-id": 2, "names": ["name", "nick"]}]
    with pytest.raises(Unsupported, match="f1 has two columns with one field id"):
        read(pa.table({"id": [1], "name": ["a"], "nick": ["b"]}), wanted, mapping=mapping)


def test_r063_a_file_with_other_rows_than_its_entry_says_is_damage():
    files = MemoryFiles()
    files.add("f1", ROWS)
    told = SourceFile("f1", "parquet", 4, 1)
    with pytest.raises(CorruptTable, match="f1 has 3 rows, the manifest says 4") as raised:
        open_source(files.open("f1"), told, schema((1, "id", "long")), ())
    assert raised.value.rule == "R-063"


@pytest.mark.parametrize("value", [0, 4, None])
def test_r063_a_file_of_another_size_and_partition_is_another(value):
    files = MemoryFiles()
    files.add("f1", ROWS)
    size = len(files.content["f1"])
    wanted = schema((1, "id", "long"))

    def opened(size_bytes: int | None, of: int | None, format_: str = "parquet") -> int:
        told = SourceFile("f1", format_, 3, 1, constants={1: of}, size_bytes=size_bytes)
        return open_source(files.open("f1"), told, wanted, ()).opened.record_count

    assert [opened(told, value) for told in (size, None)] == [3, 3]
    assert [opened(size - 1, of) for of in (1, 2, 3)] == [3, 3, 3]
    with pytest.raises(
        CorruptTable, match="f1 is not the file that the manifest describes"
    ) as raised:
        opened(size + 1, value)
    assert raised.value.rule == "R-063"
    files.add("f1", ROWS, "avro")  # it tells nothing of columns
    assert opened(1, value, "avro") == 3


LINEAGE = written_schema(schema((1, "id", "long")), 3)


def lineage(rows, **told):
    found = read(rows, LINEAGE, sequence_number=5, **told)
    return [(row["_row_id"], row["_last_updated_sequence_number"]) for row in found]


def test_r100_rows_have_the_ids_that_the_file_began_with_and_its_sequence_number():
    assert lineage(ROWS, first_row_id=1000) == [(1000, 5), (1001, 5), (1002, 5)]


def test_r100_what_a_file_stores_of_lineage_goes_first():
    rows = table(
        [
            ID,
            identified("_row_id", pa.int64(), 2_147_483_540),
            identified("_last_updated_sequence_number", pa.int64(), 2_147_483_539),
        ],
        [(1, 7, 2), (2, None, 3), (3, 9, None)],
    )
    assert lineage(rows, first_row_id=1000) == [(7, 2), (1001, 3), (9, 5)]
    assert lineage(rows) == [(7, 2), (None, 3), (9, None)]


def test_r106_rows_of_files_from_before_version_3_have_no_ids_yet():
    assert lineage(ROWS) == [(None, None)] * 3


def test_row_ids_are_those_of_positions_in_the_file_not_in_what_is_left_of_it():
    source = source_of(ROWS, LINEAGE, first_row_id=1000)
    (part,) = source.stored()
    kept = part.batch.filter(pa.array([True, False, True]))
    assert source.project(kept, np.array([0, 2]))["_row_id"].to_pylist() == [1000, 1002]


def test_written_columns_are_those_of_the_table_without_unknown_ones():
    wanted = schema((1, "id", "long"), (2, "nothing", "unknown"))
    assert [item.name for item in written_schema(wanted, 2).fields] == ["id"]
    names = ["id", "_row_id", "_last_updated_sequence_number"]
    assert [item.name for item in written_schema(wanted, 3).fields] == names


@pytest.mark.parametrize(
    "type_",
    [
        {"type": "struct", "fields": []},
        {"type": "list", "element-id": 3, "element": "unknown", "element-required": False},
        {"type": "struct", "fields": [optional(3, "x", "unknown")]},
    ],
)
def test_columns_that_cannot_be_carried_over_are_refused_by_the_schema_alone(type_):
    with pytest.raises(Unsupported):
        written_schema(schema((1, "c", type_)), 3)


def test_values_of_one_column_are_had_at_any_depth_of_structs_and_by_default():
    wanted = schema((4, "x", "double"), (12, "gone", "string", {"initial-default": "d"}))
    source = source_of(NESTED, schema((1, "id", "long")))
    (part,) = source.stored([4])
    assert source.values(part.batch, wanted.fields[:1]).to_pylist() == [1.5, None, None]
    assert source.values(part.batch, wanted.fields[1:]).to_pylist() == ["d"] * 3
    with pytest.raises(Unsupported, match="it is stored as float"):
        source.values(part.batch, schema((4, "x", "string")).fields)


def test_a_column_passes_through_where_the_table_says_what_the_file_does():
    source = source_of(ROWS, schema((1, "id", "long"), (2, "name", "string")))
    (part,) = source.stored()
    found = source.project(part.batch, np.arange(3))
    assert found["id"].buffers()[1].address == part.batch["id"].buffers()[1].address


def test_rows_are_there_even_where_the_file_has_none_of_the_columns():
    assert read(ROWS, schema((9, "new", "int"))) == [{"new": None}] * 3


def test_batches_of_row_groups_have_their_places():
    file = io.BytesIO()
    pq.write_table(ROWS, file, row_group_size=2)
    source = open_source(file, SourceFile("f1", "parquet", 3, 1, 10), LINEAGE, ())
    found = [
        source.project(part.batch, np.arange(part.first_row, part.first_row + part.batch.num_rows))
        for part in source.stored()
    ]
    assert [batch["_row_id"].to_pylist() for batch in found] == [[10, 11], [12]]
    assert LINEAGE.fields[1].type == PrimitiveType("long")


def test_wide_values_of_columns_that_a_file_lacks_make_small_batches():
    files = MemoryFiles()
    file = files.add("f", table([identified("id", pa.int64(), 1)], [(at,) for at in range(300)]))
    wanted = schema((1, "id", "long"), (2, "text", "string", {"initial-default": "x" * 2**20}))
    with files.open("f") as handle:
        source = open_source(handle, file, wanted, ())
        made = [
            source.project(
                rows.batch, np.arange(rows.first_row, rows.first_row + rows.batch.num_rows)
            )
            for rows in source.stored()
        ]
    assert [row for batch in made for row in batch["id"].to_pylist()] == list(range(300))
    assert max(batch.nbytes for batch in made) <= 33 * 2**20
    assert made[-1]["text"][0].as_py() == "x" * 2**20
