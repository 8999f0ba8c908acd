import math
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from icectl.checks.objects import Columns
from icectl.checks.partitions import FieldRange, field_ranges
from icectl.entries.partition_key import encode_key, join_values, sort_key
from icectl.entries.rows import RawEntries
from icectl.errors import CorruptTable
from icectl.format.rule import Fault
from icectl.format.types import DecimalType, FixedType, PrimitiveType
from tests.builders.entry_rows import data, entries


def columns(*keys: bytes) -> Columns:
    files = (data(str(at), partition_key=key) for at, key in enumerate(keys))
    return Columns(RawEntries(entries(*files).table))


LONG, STRING, DOUBLE = (PrimitiveType(name) for name in ("long", "string", "double"))
VALUES: dict[Any, st.SearchStrategy[Any]] = {
    LONG: st.integers(-(2**63), 2**63 - 1),
    PrimitiveType("date"): st.integers(-(2**31), 2**31 - 1),
    STRING: st.text(max_size=6),
    PrimitiveType("binary"): st.binary(max_size=6),
    FixedType(3): st.binary(min_size=3, max_size=3),
    PrimitiveType("uuid"): st.uuids(),
    PrimitiveType("boolean"): st.booleans(),
    DOUBLE: st.floats(),
    PrimitiveType("float"): st.floats(width=32),
    DecimalType(38, 4): st.integers(-(10**38) + 1, 10**38 - 1).map(lambda n: Decimal(n).scaleb(-4)),
}


@pytest.mark.parametrize("type_", VALUES, ids=str)
@given(drawn=st.data())
@settings(max_examples=25, deadline=None)
def test_r053_ranges_are_what_sorting_values_one_by_one_gives(type_, drawn):
    tuples = drawn.draw(st.lists(st.tuples(st.none() | VALUES[type_], st.none() | VALUES[LONG])))
    keys = [encode_key([type_, LONG], values) for values in tuples]
    found = field_ranges(columns(*keys), [type_, LONG])
    for at in range(2):
        values = [values[at] for values in tuples]
        nan = [value for value in values if isinstance(value, float) and math.isnan(value)]
        real = sorted(
            (v for v in values if v is not None and v not in nan and v == v), key=sort_key
        )
        assert found[at].has_null == (None in values)
        assert found[at].has_nan == bool(nan)
        assert found[at].undecodable is None
        expected = (real[0], real[-1]) if real else (None, None)
        assert [sort_key(end) for end in (found[at].least, found[at].greatest)] == [
            sort_key(end) for end in expected
        ]


def test_the_ends_of_a_range_know_their_entries():
    keys = [encode_key([LONG], [value]) for value in (5, 9, 5, -1, 9, 9)]
    (found,) = field_ranges(columns(*keys), [LONG])
    assert found == FieldRange(False, False, -1, Fault(1, "3"), 9, Fault(3, "1"))


def test_fields_are_found_behind_nulls_and_values_of_any_length():
    types = [STRING, LONG, STRING]
    keys = [
        encode_key(types, values)
        for values in (("a" * 300, None, ""), (None, 7, None), ("", 3, "zz"))
    ]
    first, second, third = field_ranges(columns(*keys), types)
    assert (first.has_null, first.least, first.greatest) == (True, "", "a" * 300)
    assert (second.has_null, second.least, second.greatest) == (True, 3, 7)
    assert (third.has_null, third.least, third.greatest) == (True, "", "zz")


@pytest.mark.parametrize(
    ("type_", "wrong"),
    [
        (LONG, b"\x01\x02"), (PrimitiveType("boolean"), b""),
        (PrimitiveType("uuid"), b"\x01" * 8), (DOUBLE, b"\x01" * 4), (STRING, b"\xff"),
        (FixedType(2), b"\x01"), (DecimalType(9, 2), b""), (DecimalType(38, 2), b"\x01" * 17),
    ],
    ids=str,
)  # fmt: skip
def test_r071_values_that_do_not_decode_are_left_out_of_the_range(type_, wrong):
    right: Any = {
        "boolean": True,
        "string": "a",
        "uuid": UUID(int=5),
        "double": 1.5,
        "long": 1,
    }.get(getattr(type_, "name", ""), b"ab" if isinstance(type_, FixedType) else Decimal("1.00"))
    keys = [encode_key([type_], [right]), join_values([wrong]), join_values([wrong])]
    (found,) = field_ranges(columns(*keys), [type_])
    assert found == FieldRange(
        False, False, right, Fault(1, "0"), right, Fault(1, "0"), Fault(2, "1")
    )
    (found,) = field_ranges(columns(keys[1]), [type_])
    assert found == FieldRange(has_null=False, undecodable=Fault(1, "0"))


def test_of_an_unknown_type_only_null_is_known():
    found = field_ranges(columns(join_values([b"\x01\x02"]), join_values([None])), [None])
    assert found == [FieldRange(has_null=True)]


@pytest.mark.parametrize(
    "key",
    [
        b"", join_values([b"\x01" * 8]), join_values([b"\x01" * 8, None, None]),
        join_values([None, b"\x01" * 8])[:-1], b"\x01\xff\xff\xff\xff\x00",
    ],
)  # fmt: skip
def test_r068_a_partition_has_a_value_for_each_field_of_its_spec(key):
    right = encode_key([LONG, LONG], [1, 2])
    with pytest.raises(CorruptTable) as caught:
        field_ranges(columns(right, key), [LONG, LONG])
    assert caught.value.rule == "R-068"


def test_partitions_in_chunks_are_searched_together():
    table = columns(*(encode_key([LONG], [value]) for value in (4, 2, 8))).table
    chunked = pa.concat_tables([table.slice(0, 1), table.slice(1)])
    (found,) = field_ranges(Columns(RawEntries(chunked)), [LONG])
    assert (found.least, found.greatest) == (2, 8)


def test_a_manifest_without_entries_or_fields():
    assert field_ranges(columns(), [LONG]) == [FieldRange(has_null=False)]
    assert field_ranges(columns(b"", b""), []) == []
