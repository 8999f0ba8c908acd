"""Parse and print values for people: sizes, counts, durations, timestamps, ratios, foreign text.

Durations and timestamps are integers in milliseconds, timestamps since 1970-01-01 UTC. Foreign
names and messages are escaped, so they cannot control a terminal, page or document.
"""

import datetime as dt
import re
from collections.abc import Iterable
from html import escape

from icectl.errors import UsageError

SIZE_UNITS = {
    "b": 1,
    "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12, "pb": 10**15,
    "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40, "pib": 2**50,
}  # fmt: skip
DURATION_UNITS_MS = {
    "ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000,
}  # fmt: skip
_NUMBER_AND_UNIT = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,18})?)\s*([A-Za-z]+)")
_DURATION = re.compile(r"(?:[0-9]{1,18}\s*[a-z]+\s*)+")
_DURATION_PART = re.compile(r"([0-9]+)\s*([a-z]+)")
_LEAST_PLAIN_BYTES = 1024
"""A smaller number without a unit is not taken for bytes: `64` rather means 64MB."""

_EVERYWHERE = 12
"""Characters from which on a secret is hidden within words too: no word has it by chance."""

_SECRET_WORDS = (
    "secret", "password", "passphrase", "token", "credential", "account_key", "private_key",
    "connection_string",
)  # fmt: skip
_LONG, _SHOWN = 64, 40
"""Characters of a value that is printed whole, and of a longer one those that are."""

_ISO_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_YEAR_10000_MS = 253_402_300_800_000
_YEAR_1_MS = (dt.datetime(1, 1, 1, tzinfo=dt.UTC) - _EPOCH) // dt.timedelta(milliseconds=1)


def read_count(text: str | None) -> int | None:
    """Return a number as data has it: ASCII digits that fit 64 bits; None for any other text."""
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 20 else None


class GivenSize(int):
    """Bytes, with the text that a user gave for them; `print_size` shows that."""

    text: str


def parse_size(text: str) -> GivenSize:
    """Bytes of `64MB` (10^6), `64MiB` (2^20), `1.5GiB` or `67108864`; units in any case.

    Raises: UsageError, also for a bare number under 1,024, which lacks its unit.
    """
    plain_bytes = read_count(text.strip())
    if plain_bytes is not None and plain_bytes >= _LEAST_PLAIN_BYTES:
        size = GivenSize(plain_bytes)
        size.text = print_size(plain_bytes)
        return size
    match = _NUMBER_AND_UNIT.fullmatch(text.strip())
    unit_bytes = SIZE_UNITS.get(match[2].lower()) if match else None
    if match is None or unit_bytes is None:
        raise UsageError(
            f"`{text}` is not a size",
            hint="give a number with a unit, 64MB or 64MiB, or 1024 or more bytes",
        )
    from fractions import Fraction  # few runs parse a size

    size = GivenSize(Fraction(match[1]) * unit_bytes)
    size.text = text.strip()
    return size


def print_size(size_bytes: int) -> str:
    """Return bytes with a binary unit and three or four digits: `1.5 MiB`, `812 B`.

    A size that a user gave is printed as it was given.
    """
    if isinstance(size_bytes, GivenSize):
        return size_bytes.text
    if abs(size_bytes) < 1024:
        return f"{size_bytes} B"
    value = float(size_bytes)
    for unit in ("KiB", "MiB", "GiB", "TiB"):
        value /= 1024
        if abs(value) < 1023.95:
            return f"{value:.1f} {unit}"
    return f"{value / 1024:.1f} PiB"


def print_count(count: int, noun: str) -> str:
    """Return a number of things: `1 file`, `2,000 files`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def print_reduction(files: int, surplus: int) -> str:
    """Return what compaction would do with files of which some are more than are needed."""
    return f"compaction would reduce {print_count(files, 'file')} to {files - surplus:,}"


def print_value(value: object) -> str:
    """Return a value as Python writes it, cut off where it is long: `'abc'`, `7`, `'aaa...'`."""
    if isinstance(value, str | bytes) and len(value) > _LONG:
        noun = "characters" if isinstance(value, str) else "bytes"
        return f"{value[:_SHOWN]!r}... ({len(value):,} {noun})"
    return print_text(repr(value))


def names_secret(name: str) -> bool:
    """Return whether an option or property of this name holds a credential."""
    words = re.sub("[.-]", "_", name.lower())
    return any(word in words for word in _SECRET_WORDS)


def redact(text: str, secrets: Iterable[str]) -> str:
    """Replace every secret in a text, longest first; a short one only as a word of its own."""
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= _EVERYWHERE:
            text = text.replace(secret, "***")
        elif secret and secret in text:
            text = re.sub(rf"(?<![\w-]){re.escape(secret)}(?![\w-])", "***", text)
    return text


def is_text(name: str) -> bool:
    """Return whether a name is UTF-8: no other is expressible in metadata, Arrow or a request."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def print_text(text: str) -> str:
    """A text without quotes, cut off where it is long: `abc`, `aaa... (20,000 characters)`."""
    return text if len(text) <= 2 * _LONG else f"{text[:_SHOWN]}... ({len(text):,} characters)"


def parse_duration(text: str) -> int:
    """Return milliseconds of `90s`, `15m`, `24h`, `7d`, `2w`, `1h30m`.

    Raises: UsageError, for a bare number too.
    """
    parts = _DURATION_PART.findall(text) if _DURATION.fullmatch(text.strip()) else []
    if not parts or any(unit not in DURATION_UNITS_MS for _, unit in parts):
        raise UsageError(
            f"`{text}` is not a duration", hint="give a number with a unit: 90s 15m 24h 7d 2w"
        )
    return sum(int(number) * DURATION_UNITS_MS[unit] for number, unit in parts)


def print_duration(duration_ms: int) -> str:
    """Return a duration with its two largest units: `3d 4h`, `1m 5s`, `250ms`."""
    if abs(duration_ms) < 1000:
        return f"{duration_ms}ms"
    parts: list[str] = []
    rest = abs(duration_ms)
    for unit in ("d", "h", "m", "s"):
        count, rest = divmod(rest, DURATION_UNITS_MS[unit])
        if count or parts:
            parts.append(f"{count}{unit}")
        if len(parts) == 2:
            break
    shown = " ".join(part for part in parts if not part.startswith("0"))
    return f"-{shown}" if duration_ms < 0 else shown


def parse_instant(text: str, now_ms: int) -> int:
    """An instant: ISO 8601 (UTC where no zone is given), or a duration meaning that long ago.

    A duration that reaches back before the year 1 means its beginning.
    Raises: UsageError, also for an instant in the future.
    """
    instant = iso_instant(text.strip())
    if instant is None:
        try:
            instant = max(now_ms - parse_duration(text), _YEAR_1_MS)
        except UsageError:
            raise UsageError(
                f"`{text}` is not a valid time",
                hint="give ISO 8601 such as 2026-01-31T12:00:00Z, or a duration such as 7d",
            ) from None
    if instant > now_ms:
        raise UsageError(f"`{text}` is in the future", hint="give a timestamp in the past")
    return instant


def is_instant(text: str) -> bool:
    """Return whether a text has the form of an instant, be it in the future."""
    try:
        parse_instant(text, _YEAR_10000_MS)
    except UsageError:
        return False
    return True


def iso_instant(text: str) -> int | None:
    """Return an instant of ISO 8601 in ms, in UTC where no zone is given; None for other texts."""
    if not _ISO_DATE.match(text):  # fromisoformat takes a bare number such as 20260131 for a date
        return None
    try:
        moment = dt.datetime.fromisoformat(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=dt.UTC)
    return (moment - _EPOCH) // dt.timedelta(milliseconds=1)


def print_instant(instant_ms: int) -> str:
    """Return an instant as ISO 8601 in UTC: `2026-01-02T03:04:05Z`, with `.678` where it has them.

    One outside the years 1 to 9999 is printed as its number of milliseconds.
    """
    try:
        moment = _EPOCH + dt.timedelta(milliseconds=instant_ms)
    except OverflowError:
        return f"{instant_ms}ms"
    precision = "milliseconds" if instant_ms % 1000 else "seconds"
    return moment.isoformat(timespec=precision).replace("+00:00", "Z")


def print_second(instant_ms: int) -> str:
    """Return an instant as `print_instant` does, without milliseconds if it has a date."""
    text = print_instant(instant_ms // 1000 * 1000)
    return print_instant(instant_ms) if text.endswith("ms") else text


def print_limit(instant_ms: int) -> str:
    """Return an instant that bounds an age; the year 1, where the age reaches back before it."""
    return print_instant(max(instant_ms, _YEAR_1_MS))


def parse_ratio(text: str) -> float:
    """Return a ratio from 0 to 1; `5%` is 0.05. Raises: UsageError."""
    number, percent = text.strip().removesuffix("%"), text.strip().endswith("%")
    try:
        ratio = float(number) / (100 if percent else 1)
    except ValueError:
        ratio = -1.0
    if not 0 <= ratio <= 1:
        raise UsageError(f"`{text}` is not a ratio", hint="give a number from 0 to 1, or 5%")
    return ratio


_UNSAFE = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""Control characters, ends of lines among them, and what turns the direction of writing."""

_SHORT = {"\n": "\\n", "\t": "\\t"}
_COMMAND = re.compile(r"^(\s*:)(?=:)|(##(?:vso)?)(?=\[)")
"""The beginning of a command to GitHub, or Azure, which read the log of a run."""


def printable(text: str) -> str:
    """Return a text in one line, with escapes for what a terminal or a log would obey."""
    return _UNSAFE.sub(lambda found: _escaped(found.group()), text)


def inert(text: str) -> str:
    """Return a text as `printable` does, and such that it is no command to a CI system."""
    return _COMMAND.sub(lambda found: f"{found.group()}\\", printable(text))


def as_html(text: str) -> str:
    """Return a text for a page of HTML, in which a line break alone stays what it is."""
    return escape("\n".join(map(printable, text.split("\n"))))


def inert_json(text: str) -> str:
    """Return JSON that says the same, and has no command to a CI system in it."""
    return text.replace("##[", r"##\u005b").replace("##vso[", r"##vso\u005b")


def _escaped(character: str) -> str:
    code = ord(character)
    return _SHORT.get(character) or (f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}")
