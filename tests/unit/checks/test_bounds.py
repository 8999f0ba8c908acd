import struct

import pyarrow as pa
import pytest

from icectl.checks.bound_types import bound_types
from icectl.checks.metrics import BoundFaults, bound_faults
from icectl.checks.objects import Columns
from icectl.entries.rows import RawEntries
from icectl.format.rule import Fault
from icectl.format.types import DecimalType, FixedType, GeographyType, GeometryType, PrimitiveType
from icectl.format.variant import write_bounds
from tests.builders.entry_rows import data, entries

LARGE_ID = 2147483546
NEITHER = {"lower": None, "upper": None}
NOTHING = BoundFaults(NEITHER, NEITHER, None, NEITHER)


def find(types, *files, chunked=False) -> BoundFaults:
    """`types` by field id; a file is its lower and its upper bounds."""
    rows = (
        data(str(at), lower_bounds=list(lower.items()), upper_bounds=list(upper.items()))
        for at, (lower, upper) in enumerate(files)
    )
    table = entries(*rows).table
    if chunked:
        table = pa.concat_tables([table.slice(at, 1) for at in range(len(files))])
    return bound_faults(Columns(RawEntries(table)), bound_types(types))


def primitive(*names: str):
    return [PrimitiveType(name) for name in names]


def long(value: int) -> bytes:
    return struct.pack("<q", value)


LENGTHS = [
    (primitive("boolean"), {1}),
    (primitive("int"), {4}),
    (primitive("int", "long"), {4, 8}),
    (primitive("long"), {4, 8}),
    (primitive("float"), {4}),
    (primitive("double"), {4, 8}),
    (primitive("date"), {4}),
    (primitive("time"), {8}),
    (primitive("timestamp"), {4, 8}),
    (primitive("timestamptz"), {8}),
    (primitive("timestamp_ns"), {4, 8}),
    (primitive("timestamptz_ns"), {8}),
    (primitive("uuid"), {16}),
    (primitive("string"), set(range(41))),
    (primitive("binary"), set(range(41))),
    (primitive("variant"), set(range(41))),
    ([GeometryType()], set(range(41))),  # R-093 says which are right
    ([FixedType(5)], set(range(6))),
    ([FixedType(20)], set(range(21))),
    ([DecimalType(9, 2)], set(range(1, 41))),
    ([DecimalType(9, 2), DecimalType(20, 2)], set(range(1, 41))),
]


@pytest.mark.parametrize(("types", "lengths"), LENGTHS, ids=str)
def test_r091_r096_bounds_have_a_length_of_their_type_or_of_the_one_before(types, lengths):
    right = {
        length
        for length in range(41)
        if find({3: types}, ({3: bytes(length)}, {})).undecodable["lower"] is None
    }
    assert right == lengths


@pytest.mark.parametrize("field_id", [0, 3, LARGE_ID])
@pytest.mark.parametrize("side", ["lower", "upper"])
def test_r091_columns_are_found_by_any_id(field_id, side):
    bounds = [{field_id: b"\x01"}, {}]
    found = find({field_id: primitive("int")}, bounds if side == "lower" else bounds[::-1])
    assert found.undecodable == {"lower": None, "upper": None} | {side: Fault(1, "0")}


def test_columns_of_no_known_type_are_not_looked_at():
    bounds = {-5: b"\x01", 4: b"", 77: b"\xff", LARGE_ID: b"x", LARGE_ID - 1: b"\x01"}
    assert find({3: primitive("int")}, (bounds, bounds)) == NOTHING


def test_r091_text_is_utf_8():
    types = {1: primitive("string"), 2: primitive("binary")}
    found = find(types, ({1: "é".encode(), 2: b"\xff"}, {}), ({1: b"\xff", 2: b""}, {1: b"\xe9"}))
    assert found.undecodable == {"lower": Fault(1, "1"), "upper": Fault(1, "1")}


@pytest.mark.parametrize(("form", "name"), [("<f", "float"), ("<d", "double"), ("<f", "double")])
def test_r092_nan_is_no_bound(form, name):
    nan = struct.pack(form, float("nan"))
    one = struct.pack(form, 1.0)
    found = find({1: primitive(name)}, ({1: one}, {1: one}), ({1: one}, {1: nan}))
    assert found.not_a_number == {"lower": None, "upper": Fault(1, "1")}
    assert found.crossed is None


def decimal(value: int, length: int | None = None) -> bytes:
    return value.to_bytes(length or value.bit_length() // 8 + 1, "big", signed=True)


ORDERED = [
    (primitive("long"), long(-1), long(0)),
    (primitive("int"), struct.pack("<i", -(2**31)), struct.pack("<i", 2**31 - 1)),
    (primitive("int", "long"), struct.pack("<i", 1), struct.pack("<i", 2)),
    (primitive("date", "timestamp"), long(1), long(2)),
    (primitive("double"), struct.pack("<d", -1.5), struct.pack("<d", 1e-300)),
    (primitive("float"), struct.pack("<f", float("-inf")), struct.pack("<f", 0.5)),
    (primitive("string"), b"ab", b"abc"),
    (primitive("string"), "\uffee".encode(), "\U0001f600".encode()),
    (primitive("boolean"), b"\x00", b"\x01"),
    (primitive("binary"), b"\x7f\xff", b"\x80"),
    ([FixedType(4)], b"\x01\x02", b"\x01\x03\x00\x00"),
    ([DecimalType(9, 2)], decimal(-200), decimal(3)),
    ([DecimalType(9, 2)], decimal(127), decimal(128)),
    ([DecimalType(38, 0)], decimal(-(10**37)), decimal(10**37)),
    ([DecimalType(38, 0)], decimal(2**64), decimal(2**64 + 1, 16)),
    ([DecimalType(9, 2), DecimalType(20, 2)], decimal(5, 4), decimal(6, 9)),
]


@pytest.mark.parametrize(("types", "less", "more"), ORDERED, ids=lambda value: str(value)[:40])
def test_r092_a_lower_bound_above_the_upper_one(types, less, more):
    right = [({1: less}, {1: more}), ({1: less}, {1: less}), ({1: more}, {1: more})]
    assert find({1: types}, *right).crossed is None
    assert find({1: types}, *right, ({1: more}, {1: less})).crossed == Fault(1, "3")


@pytest.mark.parametrize(
    "types",
    [
        primitive("uuid"),  # which order writers took differs
        primitive("variant"),
        primitive("int", "string"),  # what it is by now, no one can tell
    ],
    ids=str,
)
def test_bounds_without_an_order_to_rely_on_are_not_compared(types):
    less, more = bytes(16), b"\x01" * 16
    assert find({1: types}, ({1: more}, {1: less})).crossed is None


def test_r092_negative_zero_and_zero_may_be_either_bound():
    zero, negative = struct.pack("<d", 0.0), struct.pack("<d", -0.0)
    assert find({1: primitive("double")}, ({1: zero}, {1: negative})).crossed is None


def test_bounds_of_two_widths_are_not_compared():
    narrow = struct.pack("<i", 9)
    assert find({1: primitive("long")}, ({1: narrow}, {1: long(1)})).crossed is None


TYPES = {1: primitive("long"), 2: primitive("string"), 3: [DecimalType(9, 2)]}
UNALIGNED = [
    ({1: long(1), 2: b"a"}, {2: b"b", 1: long(2)}),
    ({2: b"b", 1: long(1)}, {2: b"a"}),
    ({1: long(3), 3: decimal(1)}, {3: decimal(300), 1: long(2)}),
    ({}, {1: long(-5)}),
    ({3: decimal(300)}, {1: long(2), 3: decimal(1)}),
]


@pytest.mark.parametrize("chunked", [False, True])
def test_r092_sides_are_compared_by_field_whatever_their_order(chunked):
    assert find(TYPES, *UNALIGNED, chunked=chunked).crossed == Fault(3, "1")


def test_faults_of_all_parts_of_a_manifest_are_added_up():
    files = [({1: b"\x00"}, {}), ({1: long(1)}, {}), ({1: b"\x00"}, {1: b""})]
    found = find(TYPES, *files, chunked=True)
    assert found.undecodable == {"lower": Fault(2, "0"), "upper": Fault(1, "2")}


def corner(*values: float) -> bytes:
    return struct.pack(f"<{len(values)}d", *values)


NAN = float("nan")
SHAPES = [[GeometryType()], [GeographyType("srid:4269", "karney")]]


@pytest.mark.parametrize("types", SHAPES, ids=str)
@pytest.mark.parametrize("side", ["lower", "upper"])
def test_r093_a_bound_of_shapes_is_a_corner_of_a_box(types, side):
    right = [corner(1, 2), corner(1, 2, 3), corner(1, 2, NAN, 4), corner(-180, 90, 3, 4)]
    wrong = [b"", bytes(8), bytes(17), bytes(40), corner(NAN, 2), corner(1, NAN, 3)]
    files = [({1: one}, {}) if side == "lower" else ({}, {1: one}) for one in right + wrong]
    found = find({1: types}, *files)
    assert found.cornerless == {"lower": None, "upper": None} | {side: Fault(6, "4")}
    assert found.undecodable == found.not_a_number == {"lower": None, "upper": None}


@pytest.mark.parametrize("side", ["lower", "upper"])
def test_r093_a_bound_of_variants_is_an_object_of_primitives(side):
    right = [write_bounds({"$['a']": b"\x0c\x01"}), write_bounds({}), write_bounds({"$": b"\x05b"})]
    wrong = [b"", b"\x01\x00\x00", b"\x01\x00\x00\x0c\x01", write_bounds({"$": b"\x03\x00\x00"})]
    files = [({1: one}, {}) if side == "lower" else ({}, {1: one}) for one in right + wrong]
    found = find({1: primitive("variant")}, *files)
    assert found.cornerless == {"lower": None, "upper": None} | {side: Fault(4, "3")}
    assert found.undecodable == {"lower": None, "upper": None}


@pytest.mark.parametrize("beyond", [(-180.5, 0), (181, 0), (0, 90.5), (0, -91), (0, float("inf"))])
def test_r093_geography_has_bounds_on_the_globe(beyond):
    geometry, geography = (
        find({1: types}, ({1: corner(*beyond)}, {})).cornerless["lower"] for types in SHAPES
    )
    assert (geometry, geography) == (None, Fault(1, "0"))


CORNERS = [
    ((1, 2), (3, 4), False, False),
    ((3, 2), (1, 4), True, False),  # across the line at 180 degrees
    ((1, 4), (3, 2), True, True),
    ((1, 2, 5), (3, 4, 4), True, True),
    ((1, 2, NAN, 5), (3, 4, NAN, 4), True, True),
    ((1, 2, 5), (3, 4), False, False),
    ((1, 2, NAN, 5), (3, 4, 4, 5), False, False),
]


@pytest.mark.parametrize(("lower", "upper", "of_geometry", "of_geography"), CORNERS)
def test_r092_corners_are_compared_by_dimension(lower, upper, of_geometry, of_geography):
    crossed = [
        find({1: types}, ({1: corner(*lower)}, {1: corner(*upper)})).crossed is not None
        for types in SHAPES
    ]
    assert crossed == [of_geometry, of_geography]


def test_decimals_that_are_too_long_or_empty_are_not_compared():
    types = {1: [DecimalType(9, 2)]}
    found = find(types, ({1: decimal(1, 17)}, {1: decimal(0)}), ({1: b""}, {1: decimal(-1)}))
    assert found.crossed is None
    assert found.undecodable == {"lower": Fault(1, "1"), "upper": None}


def test_no_entries_and_no_bounds():
    assert find({}) == NOTHING
    assert find({}, ({1: b""}, {})) == NOTHING
    assert find(TYPES, ({}, {})) == NOTHING
