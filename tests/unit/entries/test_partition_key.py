"""Golden keys by hand, from the definition in the module."""

from decimal import Decimal
from uuid import UUID

import pytest

from icectl.entries.partition_key import decode_key, encode_key
from icectl.errors import CorruptTable
from icectl.format.types import DecimalType, FixedType, PrimitiveType

ID = UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7")
EIGHT = b"\x01\x08\x00\x00\x00"


def kind(name: str) -> PrimitiveType:
    return PrimitiveType(name)


@pytest.mark.parametrize(
    ("type_", "value", "key"),
    [
        (kind("int"), -2, EIGHT + b"\xfe" + b"\xff" * 7),
        (kind("long"), 1 << 40, EIGHT + b"\x00\x00\x00\x00\x00\x01\x00\x00"),
        (kind("date"), 17_486, EIGHT + b"\x4e\x44" + bytes(6)),
        (kind("timestamptz_ns"), 1, EIGHT + b"\x01" + bytes(7)),
        (kind("float"), 1.5, EIGHT + bytes(6) + b"\xf8\x3f"),
        (kind("double"), -0.0, EIGHT + bytes(7) + b"\x80"),
        (kind("boolean"), True, b"\x01\x01\x00\x00\x00\x01"),
        (kind("boolean"), False, b"\x01\x01\x00\x00\x00\x00"),
        (DecimalType(9, 2), Decimal("-1.28"), b"\x01\x01\x00\x00\x00\x80"),
        (DecimalType(9, 2), Decimal("1.28"), b"\x01\x02\x00\x00\x00\x00\x80"),
        (DecimalType(38, 0), Decimal(0), b"\x01\x01\x00\x00\x00\x00"),
        (kind("string"), "ü", b"\x01\x02\x00\x00\x00\xc3\xbc"),
        (kind("uuid"), ID, b"\x01\x10\x00\x00\x00" + ID.bytes),
        (FixedType(3), b"abc", b"\x01\x03\x00\x00\x00abc"),
        (kind("binary"), b"", b"\x01\x00\x00\x00\x00"),
        (None, b"raw", b"\x01\x03\x00\x00\x00raw"),
        (kind("int"), None, b"\x00"),
    ],
)
def test_keys_are_the_bytes_of_their_definition(type_, value, key):
    assert encode_key((type_,), (value,)) == key
    assert decode_key(key, (type_,)) == (value,)


def test_r083_every_nan_has_one_key_and_zeros_have_two():
    double = (kind("double"),)
    assert encode_key(double, (float("nan"),)) == encode_key(double, (-float("nan"),))
    assert encode_key(double, (0.0,)) != encode_key(double, (-0.0,))


def test_keys_survive_promotion():
    assert encode_key((kind("int"),), (7,)) == encode_key((kind("long"),), (7,))
    assert encode_key((kind("float"),), (0.5,)) == encode_key((kind("double"),), (0.5,))
    narrow, wide = DecimalType(4, 2), DecimalType(30, 2)
    assert encode_key((narrow,), (Decimal("9.99"),)) == encode_key((wide,), (Decimal("9.99"),))


def test_fields_stand_in_the_order_of_the_spec():
    types = (kind("string"), kind("int"), kind("string"))
    key = b"\x01\x01\x00\x00\x00a\x00\x01\x01\x00\x00\x00b"
    assert encode_key(types, ("a", None, "b")) == key
    assert decode_key(key, types) == ("a", None, "b")
    assert encode_key((), ()) == b""


@pytest.mark.parametrize(
    ("key", "types"),
    [
        (b"\x00\x00", (kind("int"),)),
        (b"\x01\x02\x00\x00\x00ab", (kind("int"),)),
        (b"\x01\x01\x00\x00\x00\xff", (kind("string"),)),
        (b"\x01\x02\x00\x00\x00ab", (kind("uuid"),)),
        (b"\x01", (kind("int"),)),
    ],
)
def test_r068_a_key_of_other_types_is_corrupt(key, types):
    with pytest.raises(CorruptTable) as caught:
        decode_key(key, types)
    assert caught.value.rule == "R-068"


def test_a_value_of_no_type_is_refused():
    with pytest.raises(ValueError, match="object"):
        encode_key((kind("int"),), (object(),))  # type: ignore[arg-type]
