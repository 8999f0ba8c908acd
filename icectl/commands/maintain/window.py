"""The hours of the day in which a table may be maintained: `22:00-06:00 Europe/Berlin`: pure."""

import datetime as dt
import re
from dataclasses import dataclass
from zoneinfo import ZoneInfo

from icectl.errors import UsageError

_WINDOW = re.compile(r"(\d\d):(\d\d)-(\d\d):(\d\d)(?:\s+(\S+))?")
_DAY_MINUTES = 24 * 60
_MINUTE_MS = 60_000


@dataclass(frozen=True, slots=True)
class Window:
    """From one minute of the day up to another, in a zone; it may reach over midnight."""

    text: str
    from_minute: int
    to_minute: int
    zone: str

    def left_ms(self, now_ms: int) -> int | None:
        """Return milliseconds until it closes, by the clock on the wall.

        None where it is closed.
        """
        now = dt.datetime.fromtimestamp(now_ms / 1000, ZoneInfo(self.zone))
        minute = now.hour * 60 + now.minute
        length = (self.to_minute - self.from_minute) % _DAY_MINUTES or _DAY_MINUTES
        since = (minute - self.from_minute) % _DAY_MINUTES
        if since >= length:
            return None
        within = now.second * 1000 + now.microsecond // 1000
        return (length - since) * _MINUTE_MS - within


def parse_window(text: str) -> Window:
    """Read hours and a zone, UTC where there is none. Raises: UsageError."""
    hint = "a window looks like 22:00-06:00 Europe/Berlin; without a zone it is in UTC"
    match = _WINDOW.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"`{text}` is no window", hint=hint)
    hours = [int(match[1]), int(match[3])]
    minutes = [int(match[2]), int(match[4])]
    ends = [60 * hour + minute for hour, minute in zip(hours, minutes, strict=True)]
    if max(minutes) > 59 or ends[0] >= _DAY_MINUTES or ends[1] > _DAY_MINUTES:
        raise UsageError(f"`{text}` is no window: there is no such time of day", hint=hint)
    zone = match[5] or "UTC"
    try:
        ZoneInfo(zone)
    except (OSError, ValueError) as error:  # ZoneInfoNotFoundError is a KeyError, caught below
        raise _no_zone(zone) from error
    except KeyError as error:
        raise _no_zone(zone) from error
    return Window(text.strip(), ends[0], ends[1] % _DAY_MINUTES, zone)


def _no_zone(zone: str) -> UsageError:
    return UsageError(
        f"there is no time zone `{zone}` on this machine",
        hint="zones are named as in Europe/Berlin; `pip install tzdata` brings all of them",
    )
