"""Variants of data files that are rewritten, and checked: shredded alike, differently, damaged."""

import io
import json
import re
from decimal import Decimal

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from icectl.errors import CorruptTable, Unsupported
from icectl.files.parquet.schema import FIELD_ID, VARIANT_TYPE
from icectl.files.parquet.shredding import whole_variants
from icectl.format import variant
from icectl.format.manifest import FileFormat
from icectl.format.schema import Schema
from icectl.format.types import NestedField, PrimitiveType
from icectl.rows.check_data_file import RecordedFile, TableFacts, check_data_file
from icectl.rows.read_data import SourceFile
from tests.builders.data_files import identified
from tests.unit.rows.test_rewrite_data import ID, Group

COLUMNS = Schema(
    0,
    (
        NestedField(1, "id", PrimitiveType("long"), required=False),
        NestedField(2, "v", PrimitiveType("variant"), required=False),
    ),
)
NAMES = variant.write_metadata(["a", "b"])
IDS = variant.read_metadata(NAMES).ids


def shredded(kind: pa.DataType) -> pa.Field:
    """Return a variant whose field `a` has a column of a type."""
    field = pa.struct([("value", pa.binary()), ("typed_value", kind)])
    typed = pa.struct([pa.field("a", field, nullable=False)])
    parts = [
        pa.field("metadata", pa.binary(), nullable=False),
        pa.field("value", pa.binary()),
        pa.field("typed_value", typed),
    ]
    return identified("v", pa.struct(parts), 2)


NUMBERS, TEXTS, WHOLE = shredded(pa.int8()), shredded(pa.string()), identified("v", VARIANT_TYPE, 2)


def typed(value: object) -> dict[str, object]:
    """Return a variant `{"a": value}` whose field is in its column."""
    return {"metadata": NAMES, "value": None, "typed_value": {"a": {"typed_value": value}}}


def whole(**fields: bytes) -> dict[str, bytes]:
    """Return an object that is not shredded."""
    return {"metadata": NAMES, "value": variant.write_object(fields, IDS)}


def shown(group: Group, location: str) -> list[object]:
    """Return the variants of a file, as JSON has them."""
    column = pq.ParquetFile(io.BytesIO(group.store.content[location])).read()["v"]
    return texts(column.combine_chunks())


def texts(column: pa.Array) -> list[object]:
    """Return variants as JSON has them."""
    found = whole_variants(column).to_pylist()
    return [one and json.loads(variant.text(one["metadata"], one["value"])) for one in found]


def run(*files: tuple[pa.Field, list[object]]) -> tuple[list[object], str]:
    """Rewrite files of variants to one; what it has, and the Parquet schema of the variants."""
    group = Group(COLUMNS)
    for field, values in files:
        group.add(list(enumerate(values)), fields=(ID, field))
    (made,) = group.run().files
    assert made.metrics.null_value_counts == {
        1: 0,
        2: sum(one is None for _, values in files for one in values),
    }
    schema = pq.ParquetFile(io.BytesIO(group.store.content[made.location])).schema
    return shown(group, made.location), str(schema)


@pytest.mark.parametrize(
    ("files", "columns"),
    [
        ([(WHOLE, [whole(a=b"\x0c\x01"), None]), (WHOLE, [whole(b=b"\x00")])], 2),
        ([(NUMBERS, [typed(1), None]), (NUMBERS, [typed(2)])], 4),
        ([(NUMBERS, [typed(1), None]), (TEXTS, [typed("x")])], 2),
        ([(NUMBERS, [typed(1)]), (WHOLE, [None, whole(a=b"\x0c\x02")])], 2),
        ([(WHOLE, [whole(a=b"\x0c\x01")]), (TEXTS, [typed("x"), None])], 2),
    ],
    ids=["whole", "alike", "differently", "shredded first", "whole first"],
)
def test_variants_keep_their_values_and_the_shredding_they_share(files, columns):
    expected = []
    for field, values in files:
        column = pa.array(values, field.type)
        expected += texts(column)
    found, schema = run(*files)
    assert found == expected
    assert schema.count("Variant(1)") == 1
    assert schema.count(" binary ") + schema.count(" int32 ") == columns


ELEMENT = pa.struct([("value", pa.binary()), ("typed_value", pa.int32())])
NOTED = {
    "large text": (pa.large_string(), "x", '"x"'),
    "view of text": (pa.string_view(), "x", '"x"'),
    "dictionary": (pa.dictionary(pa.int32(), pa.string()), "x", '"x"'),
    "view of bytes": (pa.binary_view(), b"x", '"78"'),
    "large bytes": (pa.large_binary(), b"x", '"78"'),
    "zone": (pa.timestamp("us", "Europe/Paris"), 1, '"1970-01-01T00:00:00.000001+00:00"'),
    "milliseconds of days": (pa.date64(), 86_400_000, '"1970-01-02"'),
    "wide decimal": (pa.decimal256(20, 2), Decimal("3.25"), '"3.25"'),
    "narrow decimal": (pa.decimal32(5, 2), Decimal("3.25"), '"3.25"'),
    **{
        name: (make(pa.field("element", ELEMENT, nullable=False)), [{"typed_value": 1}], "[1]")
        for name, make in (
            ("large list", pa.large_list),
            ("view of list", pa.list_view),
            ("fixed list", lambda field: pa.list_(field, 1)),
        )
    },
}
"""Types of a typed value that writers of Arrow note in a file, beside those of Parquet."""


@pytest.mark.parametrize(("kind", "value", "text"), NOTED.values(), ids=NOTED)
def test_types_that_writers_note_for_arrow_are_read_and_written_as_those_of_parquet(
    kind, value, text
):
    field = shredded(kind)
    (made,) = json.loads(f'[{{"a": {text}}}]')
    noted = (field, [typed(value), None, typed(None)])
    for files in ([noted, noted], [noted, (WHOLE, [whole(a=b"\x0c\x01")])]):
        group = Group(COLUMNS)
        for kept, values in files:
            group.add(list(enumerate(values)), fields=(ID, kept))
        (file,) = group.run().files
        assert shown(group, file.location)[:3] == [made, None, {}]
    facts, told = TableFacts(COLUMNS, (), 3, None), RecordedFile("f0", FileFormat.PARQUET, 3, 1)
    assert list(check_data_file(group.store.open("f0"), told, facts)) == []


LACKING = [pa.float16(), pa.uint8(), pa.uint32(), pa.duration("us"), pa.time32("ms"), pa.null()]


@pytest.mark.parametrize("kind", LACKING, ids=str)
def test_columns_of_types_that_variants_lack_are_refused_in_all_files_too(kind):
    group = Group(COLUMNS)
    for _ in range(2):
        group.add([(1, {**typed(None), **whole()})], fields=(ID, shredded(kind)))
    with pytest.raises(Unsupported, match=f"a column of type {re.escape(str(kind))}"):
        group.run()


PART = ("value", pa.binary())
UNFIT = {
    "metadata of numbers": [("metadata", pa.int32()), PART],
    "values of numbers": [("metadata", pa.binary()), ("value", pa.int32())],
    "a column without a group": [
        ("metadata", pa.binary()),
        PART,
        ("typed_value", pa.struct([("a", pa.int32())])),
    ],
    "elements without a group": [
        ("metadata", pa.binary()),
        PART,
        ("typed_value", pa.list_(pa.int32())),
    ],
    "another column in a group": [
        ("metadata", pa.binary()),
        PART,
        ("typed_value", pa.struct([("a", pa.struct([PART, ("other", pa.int32())]))])),
    ],
    "a map": [("metadata", pa.binary()), ("typed_value", pa.map_(pa.string(), pa.int32()))],
}
"""The columns of groups that variants lack."""


@pytest.mark.parametrize("fields", UNFIT.values(), ids=UNFIT)
def test_groups_that_are_none_of_variants_are_refused_by_name(fields):
    group = Group(COLUMNS)
    group.add([(1, None)], fields=(ID, identified("v", pa.struct(fields), 2)))
    with pytest.raises(Unsupported, match=r"the column `v` of f0 .* which variants lack"):
        group.run()
    assert findings_of(group) == [("R-099", "warning")]


@pytest.mark.parametrize("fields", [[PART], [("metadata", pa.binary()), PART, ("x", pa.int8())]])
def test_r095_a_struct_in_place_of_a_variant_is_a_finding(fields):
    group = Group(COLUMNS)
    group.add([(1, None)], fields=(ID, identified("v", pa.struct(fields), 2)))
    with pytest.raises(Unsupported, match=r"the column `v` of f0 .* which variants lack"):
        group.run()
    assert findings_of(group) == [("R-095", "error")]


def findings_of(group: Group) -> list[tuple[str, str]]:
    """Return what is found in the first file of a group, of one row."""
    told = RecordedFile("f0", FileFormat.PARQUET, 1, 1)
    found = check_data_file(group.store.open("f0"), told, TableFacts(COLUMNS, (), 3, None))
    return [(one.rule, one.severity) for one in found]


@pytest.mark.parametrize("file_format", ["orc", "avro"])
def test_variants_of_other_formats_are_written_to_parquet(file_format):
    group = Group(COLUMNS)
    group.add([(1, whole(a=b"\x0c\x01")), (2, None)], fields=(ID, WHOLE), file_format=file_format)
    group.add([(3, typed(3))], fields=(ID, NUMBERS))
    (made,) = group.run().files
    assert shown(group, made.location) == [{"a": 1}, None, {"a": 3}]


def test_a_file_without_the_column_has_nulls_beside_shredded_ones():
    group = Group(COLUMNS)
    group.add([(1, typed(1))], fields=(ID, NUMBERS))
    group.add([(2,)], fields=(ID,))
    (made,) = group.run().files
    assert shown(group, made.location) == [{"a": 1}, None]


@pytest.mark.parametrize(
    ("second", "shown_as", "columns"),
    [("{'a': 300 + i, 'b': 'y'}", {"a": 300, "b": "y"}, 6), ("[i, i + 1]", [0, 1], 2)],
    ids=["alike", "differently"],
)
def test_duckdb_shreds_variants_and_reads_what_is_made_of_them(second, shown_as, columns, tmp_path):
    group, path = Group(COLUMNS), tmp_path / "v.parquet"
    for at, made in enumerate(("{'a': i, 'b': 'x'}", second)):
        rows = f"SELECT i AS id, if(i = 1, null, {made}::variant) AS v FROM range(3) t(i)"
        duckdb.sql(f"COPY ({rows}) TO '{path}' (FORMAT parquet, FIELD_IDS {{id: 1, v: 2}})")
        group.store.content[f"f{at}"] = path.read_bytes()
        group.files.append(SourceFile(f"f{at}", "parquet", 3, 1))
    (file,) = group.run().files
    path.write_bytes(group.store.content[file.location])
    assert pq.ParquetFile(path).metadata.num_columns == 1 + columns
    found = duckdb.sql(f"SELECT typeof(v), v::json::text FROM '{path}'").fetchall()
    assert {kind for kind, _ in found} == {"VARIANT"}
    values = [text and json.loads(text) for _, text in found]
    assert values[:4] == [{"a": 0, "b": "x"}, None, {"a": 2, "b": "x"}, shown_as]
    assert [one is None for one in values[4:]] == [True, False]


INVALID = {
    "not an object": ({**typed(1), "value": b"\x05x"}, "and is not an object"),
    "a field twice": ({**typed(1), **whole(a=b"\x0c\x02")}, "`a` is in a column and in its value"),
    "a field beside no column": (
        {**typed(None), **whole(a=b"\x0c\x02")},
        "`a` is in a column and in its value",
    ),
    "no columns": (
        {"typed_value": None, **whole(b=b"\x0c\x02")},
        "an object in its value, and its columns are null",
    ),
    "bytes behind a value": (
        {**typed(None), **whole(b=b"\x0c\x02"), "value": b"\x02\x01\x01\x00\x02\x0c\x02\xff"},
        "a value ends elsewhere than its bytes",
    ),
    "no bytes": ({"typed_value": None, **whole(), "value": b""}, "a value ends early"),
    "no field": (
        {"typed_value": None, **whole()},
        "an object in its value, and its columns are null",
    ),
}
"""What is damage or invalid by the specification; the field `a` of these variants has a column."""


@pytest.mark.parametrize(("invalid", "why"), INVALID.values(), ids=INVALID)
def test_r099_a_value_that_contradicts_its_column_ends_a_rewrite_and_is_a_finding(invalid, why):
    group = Group(COLUMNS)
    group.add([(1, invalid)], fields=(ID, NUMBERS))
    group.add([(2, None)], fields=(ID, WHOLE))
    with pytest.raises(CorruptTable, match=f"f0.*a variant is damaged: .*{why}"):
        group.run()
    told = RecordedFile("f0", FileFormat.PARQUET, 1, 1)
    facts = TableFacts(COLUMNS, (), 3, None)
    (found,) = check_data_file(group.store.open("f0"), told, facts)
    assert (found.rule, found.severity) == ("R-099", "error")
    assert why in found.message


@pytest.mark.parametrize("invalid", [row for row, _ in INVALID.values()], ids=INVALID)
def test_files_that_are_shredded_alike_keep_what_readers_differ_about(invalid):
    """No part of it is lost: each reader finds what it found before."""
    group = Group(COLUMNS)
    for row in (invalid, typed(2)):
        group.add([(1, row)], fields=(ID, NUMBERS))
    stored = pa.array([invalid, typed(2)], NUMBERS.type).to_pylist()
    assert [row["v"] for row in group.rows_after()] == stored


def test_r099_flipped_bits_in_variants_are_found_or_leave_a_variant():
    """Each bit of a value in turn: what is no variant any more is one finding."""
    value = variant.write_object({"a": b"\x0c\x01", "b": b"\x0dabc"}, IDS)
    facts = TableFacts(COLUMNS, (), 3, None)
    told = RecordedFile("f", FileFormat.PARQUET, 1, 1)
    found = 0
    for bit in range(8 * len(value)):
        flipped = bytearray(value)
        flipped[bit // 8] ^= 1 << bit % 8
        rows = {"v": [{"metadata": NAMES, "value": bytes(flipped)}]}
        file = io.BytesIO()
        schema = pa.schema([pa.field("v", VARIANT_TYPE, metadata={FIELD_ID: "2"})])
        pq.write_table(pa.table(rows, schema=schema), file)
        findings = [(one.rule, one.message) for one in check_data_file(file, told, facts)]
        if findings:
            found += 1
            ((rule, message),) = findings
            assert rule == "R-099"
            assert "a variant is damaged" in message
        else:
            variant.check(NAMES, bytes(flipped))
    assert found > 4 * len(value)
