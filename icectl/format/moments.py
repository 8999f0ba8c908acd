"""Dates, times and timestamps: counts since 1970-01-01 UTC, and their ISO 8601 text.

The calendar has no first and last year, unlike `datetime`: a count of a damaged or far-off
moment has a text too.
"""

import datetime as dt
import re

DAY_SECONDS = 86_400
MICROS_PER_SECOND = 1_000_000
NANOS_PER_SECOND = 1_000_000_000
_ANCHOR = dt.date(2000, 1, 1)
"""A year that begins a cycle of 400 years; every cycle has as many days."""
_ANCHOR_DAYS = (_ANCHOR - dt.date(1970, 1, 1)).days
_CYCLE_YEARS = 400
_CYCLE_DAYS = 146_097
_DATE = re.compile(r"([+-]?[0-9]{4,9})-([0-9]{2})-([0-9]{2})")
_CLOCK = re.compile(r"([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:\.([0-9]{1,9}))?)?")
_ZONE = re.compile(r"Z|([+-])([0-9]{2}):([0-9]{2})")
_TIMESTAMP = re.compile(r"([^T]+)T([0-9:.]+)(Z|[+-].*)?")


def civil_date(days: int) -> tuple[int, int, int]:
    """Year, month and day of a date; year 0 is 1 BC."""
    cycles, rest = divmod(days - _ANCHOR_DAYS, _CYCLE_DAYS)
    date = _ANCHOR + dt.timedelta(days=rest)
    return date.year + cycles * _CYCLE_YEARS, date.month, date.day


def print_date(days: int) -> str:
    """Return a date as ISO 8601; a year after 9999 has a plus sign, as with Java."""
    year, month, day = civil_date(days)
    shown = f"+{year}" if year > 9999 else f"{year:05}" if year < 0 else f"{year:04}"
    return f"{shown}-{month:02}-{day:02}"


def parse_date(text: str) -> int:
    """Return the days of an ISO 8601 date. Raises: ValueError."""
    match = _DATE.fullmatch(text)
    if match is None:
        raise ValueError(f"`{text}` is not a date")
    cycles, year = divmod(int(match[1]) - _ANCHOR.year, _CYCLE_YEARS)
    date = dt.date(_ANCHOR.year + year, int(match[2]), int(match[3]))
    return (date - _ANCHOR).days + cycles * _CYCLE_DAYS + _ANCHOR_DAYS


def print_clock(count: int, units_per_second: int) -> str:
    """Return a time of day with seconds and, where it has a fraction, all digits of its unit."""
    seconds, fraction = divmod(count, units_per_second)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    digits = len(str(units_per_second)) - 1
    decimals = f".{fraction:0{digits}}" if fraction else ""
    return f"{hours:02}:{minutes:02}:{seconds:02}{decimals}"


def parse_clock(text: str, units_per_second: int) -> int:
    """Return the units since midnight; digits beyond the unit are dropped. Raises: ValueError."""
    match = _CLOCK.fullmatch(text)
    if match is None:
        raise ValueError(f"`{text}` is not a time")
    hours, minutes, seconds = (int(part or 0) for part in match.group(1, 2, 3))
    if hours > 23 or minutes > 59 or seconds > 59:
        raise ValueError(f"`{text}` is not a time")
    nanos = int((match[4] or "").ljust(9, "0"))
    whole = (hours * 60 + minutes) * 60 + seconds
    return whole * units_per_second + nanos * units_per_second // NANOS_PER_SECOND


def print_timestamp(count: int, units_per_second: int) -> str:
    """Return a timestamp as ISO 8601 without a zone."""
    days, rest = divmod(count, DAY_SECONDS * units_per_second)
    return f"{print_date(days)}T{print_clock(rest, units_per_second)}"


def parse_timestamp(text: str, units_per_second: int) -> int:
    """Return the units since 1970-01-01; UTC where no zone is said. Raises: ValueError."""
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        raise ValueError(f"`{text}` is not a timestamp")
    days = parse_date(match[1])
    clock = parse_clock(match[2], units_per_second)
    zone = _ZONE.fullmatch(match[3] or "Z")
    if zone is None:
        raise ValueError(f"`{match[3]}` is not a time zone")
    offset = (int(zone[2] or 0) * 60 + int(zone[3] or 0)) * 60 * (-1 if zone[1] == "-" else 1)
    return (days * DAY_SECONDS - offset) * units_per_second + clock
