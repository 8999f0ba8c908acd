"""Sizes, durations, instants and ratios."""

import pytest

from icectl.errors import UsageError
from icectl.units import (
    parse_duration,
    parse_instant,
    parse_ratio,
    parse_size,
    print_count,
    print_duration,
    print_instant,
    print_limit,
    print_second,
    print_size,
    print_text,
    print_value,
    read_count,
    redact,
)

NEW_YEAR_2026_MS = 1_767_225_600_000
DAY_MS = 86_400_000


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [
        ("0B", 0), ("1b", 1), ("1kB", 1_000), ("1KiB", 1_024), ("64MB", 64_000_000),
        ("64MiB", 67_108_864), ("64 mib", 67_108_864), (" 512mb ", 512_000_000),
        ("1.5GiB", 1_610_612_736), ("0.1KiB", 102), ("3GB", 3_000_000_000),
        ("2TB", 2_000_000_000_000), ("1PB", 1_000_000_000_000_000), ("1TiB", 1_099_511_627_776),
        ("1PiB", 1_125_899_906_842_624), ("9007199254740993B", 9_007_199_254_740_993),
        ("1024", 1_024), (" 536870912 ", 536_870_912),
    ],
)  # fmt: skip
def test_a_size_counts_decimal_or_binary_units_or_plain_bytes(text, size_bytes):
    assert parse_size(text) == size_bytes


@pytest.mark.parametrize(
    "text",
    ["64", "1023", "0", "2048.5", "", "MB", "64 M", "64Mbit", "-1MB", "1e3MB", "1.MB", ".5MB",
     "٣MB", "9" * 30 + "B"],
)  # fmt: skip
def test_a_size_of_another_unit_or_too_small_to_be_plain_bytes_is_wrong_usage(text):
    with pytest.raises(UsageError, match="is not a size") as caught:
        parse_size(text)
    assert caught.value.hint == "give a number with a unit, 64MB or 64MiB, or 1024 or more bytes"
    assert caught.value.exit_code == 2


def test_a_given_size_is_printed_as_given_and_plain_bytes_with_a_unit():
    assert [print_size(parse_size(text)) for text in ("64MB", "536870912")] == ["64MB", "512.0 MiB"]


@pytest.mark.parametrize(
    ("text", "number"),
    [("0", 0), ("007", 7), (str(2**63 - 1), 2**63 - 1), ("9" * 5000, None), ("", None),
     (None, None), ("-1", None), (" 1", None), ("1_0", None), ("1e3", None),
     ("\u00b2", None), ("\u0661", None)],
)  # fmt: skip
def test_a_count_in_data_is_ascii_digits_of_at_most_64_bits(text, number):
    assert read_count(text) == number


def test_one_thing_is_counted_without_a_plural():
    counts = [print_count(count, "file") for count in (0, 1, 2000)]
    assert counts == ["0 files", "1 file", "2,000 files"]


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        (0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (1536, "1.5 KiB"), (-1536, "-1.5 KiB"),
        (1_048_575, "1.0 MiB"), (67_108_864, "64.0 MiB"), (1_610_612_736, "1.5 GiB"),
        (1_099_511_627_776, "1.0 TiB"), (1_125_899_906_842_624, "1.0 PiB"), (2**60, "1024.0 PiB"),
    ],
)  # fmt: skip
def test_a_size_is_printed_with_the_largest_binary_unit(size_bytes, text):
    assert print_size(size_bytes) == text


@pytest.mark.parametrize(
    ("text", "duration_ms"),
    [
        ("0s", 0), ("250ms", 250), ("90s", 90_000), ("15m", 900_000), ("24h", 86_400_000),
        ("7d", 604_800_000), ("2w", 1_209_600_000), ("1h30m", 5_400_000), ("1h 30m", 5_400_000),
        (" 7 d ", 604_800_000),
    ],
)  # fmt: skip
def test_a_duration_adds_up_its_parts(text, duration_ms):
    assert parse_duration(text) == duration_ms


@pytest.mark.parametrize(
    "text", ["7", "", "d", "1.5h", "-7d", "7D", "7 days", "1h30", "7d!", "9" * 30 + "s"]
)
def test_a_duration_without_a_known_unit_is_wrong_usage(text):
    with pytest.raises(UsageError, match="is not a duration") as caught:
        parse_duration(text)
    assert caught.value.hint == "give a number with a unit: 90s 15m 24h 7d 2w"


@pytest.mark.parametrize(
    ("duration_ms", "text"),
    [
        (0, "0ms"), (999, "999ms"), (1_000, "1s"), (65_000, "1m 5s"), (3_600_000, "1h"),
        (3_605_000, "1h"), (273_600_000, "3d 4h"), (86_400_000 + 300_000, "1d"),
        (432_000_000, "5d"), (-65_000, "-1m 5s"), (-5, "-5ms"),
    ],
)  # fmt: skip
def test_a_duration_is_printed_with_its_two_largest_units(duration_ms, text):
    assert print_duration(duration_ms) == text


@pytest.mark.parametrize(
    ("text", "instant_ms"),
    [
        ("2025-12-31T00:00:00Z", NEW_YEAR_2026_MS - DAY_MS),
        ("2025-12-31", NEW_YEAR_2026_MS - DAY_MS),
        ("2025-12-31T00:00:00", NEW_YEAR_2026_MS - DAY_MS),
        ("2025-12-31 00:00", NEW_YEAR_2026_MS - DAY_MS),
        ("2025-12-31T01:00:00+01:00", NEW_YEAR_2026_MS - DAY_MS),
        ("2025-12-31T00:00:00.678Z", NEW_YEAR_2026_MS - DAY_MS + 678),
        ("2025-12-31T00:00:00.678999Z", NEW_YEAR_2026_MS - DAY_MS + 678),
        ("1969-12-31T23:59:59.999Z", -1),
        ("0001-01-01T00:00:00+14:00", -62_135_647_200_000),
        ("7d", NEW_YEAR_2026_MS - 7 * DAY_MS),
        ("0s", NEW_YEAR_2026_MS),
        ("999999999999999999w", -62_135_596_800_000),
        ("2026-01-01T00:00:00Z", NEW_YEAR_2026_MS),
    ],
)
def test_an_instant_is_iso_8601_or_that_long_ago(text, instant_ms):
    assert parse_instant(text, NEW_YEAR_2026_MS) == instant_ms


@pytest.mark.parametrize(
    "text", ["20251231", "1767225600000", "yesterday", "2025-13-01", "2025", ""]
)
def test_an_instant_in_any_other_form_is_wrong_usage(text):
    with pytest.raises(UsageError, match="is not a valid time") as caught:
        parse_instant(text, NEW_YEAR_2026_MS)
    assert "ISO 8601" in str(caught.value.hint)


def test_an_instant_in_the_future_is_wrong_usage():
    with pytest.raises(UsageError, match="`2026-01-01T00:00:01Z` is in the future"):
        parse_instant("2026-01-01T00:00:01Z", NEW_YEAR_2026_MS)


@pytest.mark.parametrize(
    ("instant_ms", "text"),
    [
        (0, "1970-01-01T00:00:00Z"), (1_767_323_045_678, "2026-01-02T03:04:05.678Z"),
        (1_767_323_045_000, "2026-01-02T03:04:05Z"),
        (1_767_323_045_070, "2026-01-02T03:04:05.070Z"), (-1, "1969-12-31T23:59:59.999Z"),
        (2**62, f"{2**62}ms"), (-(2**62), f"-{2**62}ms"),
    ],
)  # fmt: skip
def test_an_instant_is_printed_in_utc(instant_ms, text):
    assert print_instant(instant_ms) == text


@pytest.mark.parametrize(
    ("text", "ratio"),
    [("0", 0.0), ("1", 1.0), ("0.05", 0.05), ("5%", 0.05), ("100%", 1.0), (" 12.5 % ", 0.125)],
)
def test_a_ratio_is_a_number_up_to_one_or_a_percentage(text, ratio):
    assert parse_ratio(text) == ratio


@pytest.mark.parametrize("text", ["", "%", "a", "-0.1", "1.01", "101%", "nan", "inf", "5%%"])
def test_a_ratio_beyond_one_is_wrong_usage(text):
    with pytest.raises(UsageError, match="is not a ratio") as caught:
        parse_ratio(text)
    assert caught.value.hint == "give a number from 0 to 1, or 5%"


@pytest.mark.parametrize(
    ("instant_ms", "text"),
    [
        (0, "1970-01-01T00:00:00Z"),
        (-62_135_596_800_000, "0001-01-01T00:00:00Z"),
        (-62_135_596_800_001, "0001-01-01T00:00:00Z"),
        (-9_223_370_241_521_334_459, "0001-01-01T00:00:00Z"),
        (253_402_300_800_000, "253402300800000ms"),
    ],
)
def test_a_limit_of_age_is_never_before_the_year_1(instant_ms, text):
    assert print_limit(instant_ms) == text


@pytest.mark.parametrize(
    ("value", "printed"),
    [
        (7, "7"),
        ("a" * 64, f"'{'a' * 64}'"),
        ("a" * 65, f"'{'a' * 40}'... (65 characters)"),
        (b"x" * 20_000, f"b'{'x' * 40}'... (20,000 bytes)"),
        (["a" * 200], f"['{'a' * 38}... (204 characters)"),
    ],
)
def test_long_values_are_printed_by_their_beginning_and_length(value, printed):
    assert print_value(value) == printed


def test_long_texts_are_printed_without_quotes():
    assert print_text("a" * 128) == "a" * 128
    assert print_text("a" * 20_000) == f"{'a' * 40}... (20,000 characters)"


def test_secrets_are_redacted_as_wholes():
    assert redact("no answer at a, key=a", ["a"]) == "no answer at ***, key=***"
    assert redact("xlongestsecretx longestsecret", ["longestsecret", "long"]) == "x***x ***"
    assert redact("nothing", [""]) == "nothing"
    given = "postgresql://postgres:postgres@localhost, s3://minio-bucket/minio"
    assert redact(given, ["postgres", "minio"]) == (
        "postgresql://***:***@localhost, s3://minio-bucket/***"
    )


@pytest.mark.parametrize(
    ("instant_ms", "text"),
    [
        (NEW_YEAR_2026_MS + 678, "2026-01-01T00:00:00Z"),
        (2**62, "4611686018427387904ms"),
        (-(2**62) + 1, "-4611686018427387903ms"),
    ],
)
def test_seconds_of_an_instant_in_no_year_are_its_number(instant_ms, text):
    assert print_second(instant_ms) == text
