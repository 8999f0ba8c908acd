"""Histories of tables put together: how much there was, and was written, period by period."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_DAY_MS = 86_400_000
_MOST = 60
"""Periods that a figure has at most."""


@dataclass(frozen=True, slots=True)
class Period:
    """Some days: bytes of all tables at their end, and the snapshots committed in them."""

    from_ms: int
    day_count: int
    total_bytes: int
    snapshot_count: int

    @property
    def until_ms(self) -> int:
        """The first millisecond after it."""
        return self.from_ms + self.day_count * _DAY_MS


def periods(histories: Sequence[Mapping[str, Any]]) -> list[Period]:
    """Put the histories of tables together, in periods of as many days each as make at most 60.

    A table counts with what its last day up to then says. Before its first it counts with that
    too, where older snapshots have expired, and else with nothing.
    """
    days = [day["day_ms"] for history in histories for day in history["days"]]
    if not days:
        return []
    first, last = min(days), max(days)
    day_count = -(-((last - first) // _DAY_MS + 1) // _MOST)
    length = day_count * _DAY_MS
    count = (last - first) // length + 1
    totals, snapshots = [0] * count, [0] * count
    for history in histories:
        known = _known_before(history)
        at = 0
        for day in history["days"]:
            number = (day["day_ms"] - first) // length
            snapshots[number] += day["snapshot_count"]
            for between in range(at, number):
                totals[between] += known
            at = number
            known = known if day["total_bytes"] is None else day["total_bytes"]
        for after in range(at, count):
            totals[after] += known
    return [
        Period(first + number * length, day_count, totals[number], snapshots[number])
        for number in range(count)
    ]


def _known_before(history: Mapping[str, Any]) -> int:
    """Return what a table counts with before the first of its days."""
    said = [day["total_bytes"] for day in history["days"] if day["total_bytes"] is not None]
    return said[0] if said and not history["is_whole"] else 0
