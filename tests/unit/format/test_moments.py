"""Dates, times and timestamps as counts and as ISO 8601."""

import pytest

from icectl.format.moments import (
    MICROS_PER_SECOND,
    NANOS_PER_SECOND,
    civil_date,
    parse_clock,
    parse_date,
    parse_timestamp,
    print_clock,
    print_date,
    print_timestamp,
)

DATES = [
    (0, "1970-01-01"), (-1, "1969-12-31"), (17486, "2017-11-16"), (11016, "2000-02-29"),
    (10957, "2000-01-01"), (10956, "1999-12-31"), (2932896, "9999-12-31"),
    (2932897, "+10000-01-01"), (-719162, "0001-01-01"), (-719163, "0000-12-31"),
    (-719528, "0000-01-01"), (-719529, "-0001-12-31"),
]  # fmt: skip


@pytest.mark.parametrize(("days", "text"), DATES)
def test_a_date_is_printed_and_parsed_in_any_year(days, text):
    assert print_date(days) == text
    assert parse_date(text) == days


def test_the_calendar_reaches_as_far_as_a_date_of_32_bits():
    # The first and the last date of Java's LocalDate.ofEpochDay over the range of an int.
    assert civil_date(2**31 - 1) == (5881580, 7, 11)
    assert civil_date(-(2**31)) == (-5877641, 6, 23)


@pytest.mark.parametrize(
    "text", ["", "2017-11", "2017-11-31", "2017-13-01", "17-11-16", "2017-11-16T", "2017-1-1"]
)
def test_other_texts_are_no_dates(text):
    with pytest.raises(ValueError, match=r"is not a date|month must be|day is out of range"):
        parse_date(text)


@pytest.mark.parametrize(
    ("count", "unit", "text"),
    [
        (0, MICROS_PER_SECOND, "00:00:00"),
        (81_068_000_000, MICROS_PER_SECOND, "22:31:08"),
        (81_068_123_456, MICROS_PER_SECOND, "22:31:08.123456"),
        (81_068_000_001, MICROS_PER_SECOND, "22:31:08.000001"),
        (81_068_100_000, MICROS_PER_SECOND, "22:31:08.100000"),
        (81_068_123_456_789, NANOS_PER_SECOND, "22:31:08.123456789"),
    ],
)
def test_a_time_of_day_has_all_decimals_of_its_unit_or_none(count, unit, text):
    assert print_clock(count, unit) == text
    assert parse_clock(text, unit) == count


@pytest.mark.parametrize(
    ("text", "micros"),
    [("22:31", 81_060_000_000), ("00:00:00.5", 500_000), ("00:00:00.123456789", 123_456)],
)
def test_a_time_of_day_may_have_fewer_or_more_digits(text, micros):
    assert parse_clock(text, MICROS_PER_SECOND) == micros


@pytest.mark.parametrize("text", ["", "24:00", "12:60", "12:00:60", "1:00", "12:00:00.", "12:00.5"])
def test_other_texts_are_no_times(text):
    with pytest.raises(ValueError, match="is not a time"):
        parse_clock(text, MICROS_PER_SECOND)


@pytest.mark.parametrize(
    ("count", "unit", "text"),
    [
        (0, MICROS_PER_SECOND, "1970-01-01T00:00:00"),
        (-1, MICROS_PER_SECOND, "1969-12-31T23:59:59.999999"),
        (-1, NANOS_PER_SECOND, "1969-12-31T23:59:59.999999999"),
        (1_510_871_468_123_456, MICROS_PER_SECOND, "2017-11-16T22:31:08.123456"),
        (253_402_300_800_000_000, MICROS_PER_SECOND, "+10000-01-01T00:00:00"),
    ],
)
def test_a_timestamp_is_printed_and_parsed(count, unit, text):
    assert print_timestamp(count, unit) == text
    assert parse_timestamp(text, unit) == count


@pytest.mark.parametrize(
    "text",
    [
        "2017-11-16T22:31:08Z",
        "2017-11-16T22:31:08+00:00",
        "2017-11-16T14:31:08-08:00",
        "2017-11-17T00:01:08+01:30",
    ],
)
def test_a_timestamp_with_a_zone_is_the_same_moment_in_utc(text):
    assert parse_timestamp(text, MICROS_PER_SECOND) == 1_510_871_468_000_000


@pytest.mark.parametrize(
    "text", ["", "2017-11-16", "2017-11-16 22:31:08", "2017-11-16T22:31:08+1", "T22:31:08"]
)
def test_other_texts_are_no_timestamps(text):
    with pytest.raises(ValueError, match=r"is not a (timestamp|time zone|date)"):
        parse_timestamp(text, MICROS_PER_SECOND)
