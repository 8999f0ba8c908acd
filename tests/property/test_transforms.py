"""Transforms and the calendar against slow and plain references."""

import datetime as dt
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from icectl.format.moments import (
    civil_date,
    parse_date,
    parse_timestamp,
    print_date,
    print_timestamp,
)
from icectl.format.transforms import apply, bucket_hash, parse_transform, path_text
from icectl.format.types import DecimalType, PrimitiveType

DATE = PrimitiveType("date")
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
UNITS = {
    "timestamp": 10**6, "timestamptz": 10**6, "timestamp_ns": 10**9, "timestamptz_ns": 10**9,
}  # fmt: skip

widths = st.integers(1, 10_000)
longs = st.integers(-(2**63), 2**63 - 1)
moments = st.datetimes(dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31))  # noqa: DTZ001


decimals_of_38_digits = st.tuples(st.integers(-(10**38) + 1, 10**38 - 1), st.integers(0, 38))


def decimal_of(number: int, scale: int) -> Decimal:
    """A decimal from its digits as text, which no context rounds."""
    digits = f"{abs(number):0{scale + 1}}"
    point = len(digits) - scale
    return Decimal(f"{'-' if number < 0 else ''}{digits[:point]}.{digits[point:]}")


def murmur3_x86_32(content: bytes) -> int:
    """The hash by its published description, seed 0, as a signed integer."""

    def rotated(word: int, bits: int) -> int:
        return ((word << bits) | (word >> (32 - bits))) & 0xFFFFFFFF

    def mixed(word: int) -> int:
        return rotated(word * 0xCC9E2D51 & 0xFFFFFFFF, 15) * 0x1B873593 & 0xFFFFFFFF

    state = 0
    body = len(content) // 4 * 4
    for start in range(0, body, 4):
        state ^= mixed(int.from_bytes(content[start : start + 4], "little"))
        state = (rotated(state, 13) * 5 + 0xE6546B64) & 0xFFFFFFFF
    state ^= mixed(int.from_bytes(content[body:], "little"))
    state ^= len(content)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        state = (state ^ (state >> shift)) * factor & 0xFFFFFFFF
    state ^= state >> 16
    return state - 2**32 if state >= 2**31 else state


def twos_complement(number: int) -> bytes:
    """The fewest big-endian bytes that hold an integer, found by trying."""
    length = 1
    while not -(256**length) // 2 <= number < 256**length // 2:
        length += 1
    return (number % 256**length).to_bytes(length, "big")


@given(longs)
def test_r075_integers_hash_as_eight_bytes(value):
    expected = murmur3_x86_32((value % 2**64).to_bytes(8, "little"))
    for name in ("long", "time", "timestamp", "timestamptz"):
        assert bucket_hash(PrimitiveType(name), value) == expected


@given(st.binary(max_size=40))
def test_r075_bytes_hash_as_they_are(value):
    assert bucket_hash(PrimitiveType("binary"), value) == murmur3_x86_32(value)


@given(st.text(max_size=20))
def test_r075_strings_hash_as_utf_8(value):
    expected = murmur3_x86_32(value.encode())
    assert bucket_hash(PrimitiveType("string"), value) == expected


@given(decimals_of_38_digits)
def test_r075_decimals_hash_as_their_fewest_bytes(number_and_scale):
    number, scale = number_and_scale
    expected = murmur3_x86_32(twos_complement(number))
    assert bucket_hash(DecimalType(38, scale), decimal_of(number, scale)) == expected


@given(longs, st.integers(1, 2**31 - 1))
def test_r073_a_bucket_is_in_range_and_the_same_for_int_and_long(value, n):
    bucket = apply(parse_transform(f"bucket[{n}]"), PrimitiveType("long"), value)
    assert bucket == (bucket_hash(PrimitiveType("int"), value) % 2**31) % n


@given(longs, widths)
def test_r074_truncate_gives_the_next_multiple_below(value, width):
    result = apply(parse_transform(f"truncate[{width}]"), PrimitiveType("long"), value)
    assert result % width == 0
    assert 0 <= value - result < width


@given(decimals_of_38_digits, widths)
def test_r074_truncate_of_a_decimal_is_that_of_its_unscaled_value(number_and_scale, width):
    number, scale = number_and_scale
    type_ = DecimalType(38, scale)
    result = apply(parse_transform(f"truncate[{width}]"), type_, decimal_of(number, scale))
    assert result == decimal_of(number - ((number % width) + width) % width, scale)
    assert result.as_tuple().exponent == -scale


@given(st.text(max_size=30), st.integers(1, 10))
def test_r074_truncate_of_a_string_keeps_the_first_code_points(value, width):
    result = apply(parse_transform(f"truncate[{width}]"), PrimitiveType("string"), value)
    assert [ord(char) for char in result] == [ord(char) for char in value][:width]


@given(moments, st.sampled_from(sorted(UNITS)), st.integers(0, 999))
def test_r072_units_of_a_timestamp_agree_with_datetime(moment, name, extra_nanos):
    moment = moment.replace(tzinfo=dt.UTC)
    micros = (moment - EPOCH) // dt.timedelta(microseconds=1)
    value = micros if UNITS[name] == 10**6 else micros * 1000 + extra_nanos
    type_ = PrimitiveType(name)
    expected = {
        "year": f"{moment.year:04}",
        "month": f"{moment.year:04}-{moment.month:02}",
        "day": moment.date().isoformat(),
        "hour": f"{moment.date().isoformat()}-{moment.hour:02}",
    }
    for unit, shown in expected.items():
        transform = parse_transform(unit)
        assert path_text(transform, PrimitiveType("int"), apply(transform, type_, value)) == shown


@given(st.dates())
def test_r072_units_of_a_date_agree_with_datetime(date):
    days = date.toordinal() - dt.date(1970, 1, 1).toordinal()
    assert apply(parse_transform("year"), DATE, days) == date.year - 1970
    assert apply(parse_transform("month"), DATE, days) == ((date.year - 1970) * 12 + date.month - 1)
    assert apply(parse_transform("day"), DATE, days) == days
    assert civil_date(days) == (date.year, date.month, date.day)
    assert print_date(days) == date.isoformat()


@given(st.integers(-(2**31), 2**31 - 1))
def test_every_date_of_32_bits_is_printed_and_parsed_again(days):
    assert parse_date(print_date(days)) == days


@given(st.integers(-(2**31), 2**31 - 2))
def test_the_calendar_advances_by_one_day(days):
    today, tomorrow = civil_date(days), civil_date(days + 1)
    assert tomorrow > today
    assert tomorrow[2] == (today[2] + 1 if tomorrow[:2] == today[:2] else 1)


@given(longs, st.sampled_from([10**6, 10**9]))
def test_every_timestamp_is_printed_and_parsed_again(count, units_per_second):
    assert parse_timestamp(print_timestamp(count, units_per_second), units_per_second) == count
