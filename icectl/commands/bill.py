"""Estimate the cost and the gain of a maintenance step from its plan. Pure.

Requests count as stores charge them: reads as GET, writes and listings as PUT; deletions are free.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from textwrap import wrap
from typing import Any

from icectl.units import print_count, print_duration, print_size

GETS_OF_DATA_FILE = 2
"""Requests by which engines read a data file: its footer, and the rows of one row group."""

GETS_OF_RUN, READS_OF_METADATA = 7, 3
"""Requests of a run that changes a table for what is small, and how often it reads metadata."""

PUTS_OF_RUN = 11
"""Requests of a run for listings of the metadata folder, its journal, and what it commits."""

_PART_BYTES = 8 << 20
"""Bytes that a store takes by one request."""

_AT_ONCE_BYTES = 16 << 20
"""Files of up to so many bytes are read by one request, where they are known in advance."""

_RANGE_BYTES, _SMALL_RANGE_BYTES = 4 << 20, 1 << 20
"""The ranges by which other files are read, large and small ones."""

PUTS_OF_SEARCH = 9
"""Listings by which a run that deletes files looks for other tables around the table's own."""

_GB = 1 << 30
"""Bytes of a gigabyte as stores charge it."""

_DAYS_OF_MONTH = 365.25 / 12
_LONGEST_S = 1e9
"""Thirty years: beyond it, a figure of a damaged table says nothing."""


@dataclass(frozen=True, slots=True)
class Work:
    """What a step does, by its plan: bytes, requests and files.

    `copied_bytes` are data that are copied as they are, `decoded_bytes` those whose rows are
    decoded and written again, `other_bytes` all else that is read. `fewer_requests` are those that
    a scan of the whole table saves from then on, `fewer_per_look_up` those of a look-up on average:
    by the sort order, or as advice takes reads to be.
    """

    copied_bytes: int = 0
    decoded_bytes: int = 0
    other_bytes: int = 0
    written_bytes: int = 0
    get_requests: int = 0
    put_requests: int = 0
    freed_files: int = 0
    freed_bytes: int = 0
    fewer_requests: int = 0
    fewer_per_look_up: float = 0.0

    @property
    def read_bytes(self) -> int:
        """All bytes that are read."""
        return self.copied_bytes + self.decoded_bytes + self.other_bytes

    def __add__(self, other: "Work") -> "Work":
        """Return the work of both."""
        return Work(*(getattr(self, one.name) + getattr(other, one.name) for one in fields(self)))

    def part(self, ratio: float) -> "Work":
        """Return a part of the work, all of it alike."""
        parts = {one.name: getattr(self, one.name) * ratio for one in fields(self)}
        look_up = parts.pop("fewer_per_look_up")
        whole = {name: round(amount) for name, amount in parts.items()}
        return Work(**whole, fewer_per_look_up=look_up)


def gets_of(sizes: Iterable[int]) -> int:
    """Count the requests that read files of some sizes."""
    return sum(1 if size <= _AT_ONCE_BYTES else gets_in_ranges(size) for size in sizes)


def gets_in_ranges(size_bytes: int, count: int = 1) -> int:
    """Count the requests that read files of some bytes in all by their ends, then in ranges."""
    mean = size_bytes // max(count, 1)
    return count * (1 - -mean // (_RANGE_BYTES if mean > _RANGE_BYTES else _SMALL_RANGE_BYTES))


def puts_of(size_bytes: int, count: int) -> int:
    """Count the requests that write files of some bytes in all; large ones begin and end."""
    if size_bytes <= count * _PART_BYTES:
        return count
    return -(-size_bytes // _PART_BYTES) + 2 * count


@dataclass(frozen=True, slots=True)
class Prices:
    """What a store and a machine cost, in one currency; None for a price that is not set."""

    storage_gb_month: float | None = None
    get_1000: float | None = None
    put_1000: float | None = None
    egress_gb: float | None = None
    cpu_hour: float | None = None

    @property
    def are_set(self) -> bool:
        """Whether any price is set."""
        return any(getattr(self, field.name) is not None for field in fields(self))


@dataclass(frozen=True, slots=True)
class Rates:
    """How fast this machine works: bytes and requests a second, processors in use.

    `origin` says where the figures come from, `runs` how many runs they were measured by.
    """

    copied: float
    decoded: float
    other: float
    requests: float
    processors: float
    runs: int = 0

    @property
    def origin(self) -> str:
        """The origin of the rates, for JSON."""
        return "history" if self.runs else "benchmark"


LOCAL_RATES = Rates(copied=1000e6, decoded=90e6, other=420e6, requests=5000, processors=1.8)
STORE_RATES = Rates(copied=107e6, decoded=43e6, other=77e6, requests=1600, processors=1.2)
"""On a local disk, and on a store that takes 30 ms to answer; two cores, 2026-11-26.

Decoded bytes are measured by `bench_stores`, copied ones on a disk by `bench_merge`. Copied ones in
a store are those of a bare copy, other ones of bare reads there and of `validate`. Requests in a
store are reckoned: 48 at once. Those on a disk are a guess.
"""

_START_S = 0.5
"""Seconds that a command takes to start."""


@dataclass(frozen=True, slots=True)
class Bill:
    """What a step costs and brings; money and paybacks are None where prices do not tell.

    Scans pay by the day too where it is known how many there are in one.
    """

    work: Work
    seconds: float
    rates: Rates
    cost: float | None
    saved_per_scan: float | None
    saved_per_month: float | None
    scans_per_day: float | None = None

    @property
    def payback_scans(self) -> float | None:
        """Scans of the whole table until fewer requests have paid for the step."""
        return _ratio(self.cost, self.saved_per_scan)

    @property
    def payback_days(self) -> float | None:
        """Days until storage that is no longer paid, and scans, have paid for the step."""
        if self.saved_per_month is None or self.saved_per_scan is None:
            return None
        by_scans = self.saved_per_scan * (self.scans_per_day or 0)
        return _ratio(self.cost, self.saved_per_month / _DAYS_OF_MONTH + by_scans)


def never_pays(bill: Bill) -> bool:
    """Return whether a step saves requests of reads alone, and there are none."""
    saves_requests = bill.work.fewer_requests > 0 or bill.work.fewer_per_look_up > 0
    is_all = saves_requests and not bill.saved_per_month
    return bool(bill.cost) and is_all and bill.scans_per_day == 0


def part_of_bill(whole: Bill, ratio: float) -> Bill:
    """Return the bill of a part of a step's work; it pays back as the whole does."""
    cost, per_scan, per_month = (
        None if amount is None else amount * ratio
        for amount in (whole.cost, whole.saved_per_scan, whole.saved_per_month)
    )
    work, seconds = whole.work.part(ratio), whole.seconds * ratio
    return Bill(work, seconds, whole.rates, cost, per_scan, per_month, whole.scans_per_day)


def bill(work: Work, rates: Rates, prices: Prices, scans_per_day: float | None = None) -> Bill:
    """Return the bill of a step. A price that is not set counts as 0, none at all as no money."""
    seconds = _START_S + work.copied_bytes / rates.copied + work.decoded_bytes / rates.decoded
    seconds += work.other_bytes / rates.other
    requests = work.get_requests + work.put_requests + work.freed_files
    seconds = min(seconds + requests / rates.requests, _LONGEST_S)
    if not prices.are_set:
        return Bill(work, seconds, rates, None, None, None)
    cost = (
        work.get_requests / 1000 * (prices.get_1000 or 0)
        + work.put_requests / 1000 * (prices.put_1000 or 0)
        + work.read_bytes / _GB * (prices.egress_gb or 0)
        + seconds * rates.processors / 3600 * (prices.cpu_hour or 0)
    )
    per_scan = work.fewer_requests / 1000 * (prices.get_1000 or 0)
    per_month = work.freed_bytes / _GB * (prices.storage_gb_month or 0)
    return Bill(work, seconds, rates, cost, per_scan, per_month, scans_per_day)


def bill_of_all(bills: Sequence[Bill]) -> Bill | None:
    """Return the bill of several steps on tables with scans of their own; None for no steps."""
    if not bills:
        return None
    first = bills[0]
    money = (
        None if first.cost is None else sum(getattr(one, name) for one in bills)
        for name in ("cost", "saved_per_scan", "saved_per_month")
    )
    seconds = sum(one.seconds for one in bills)
    return Bill(sum((one.work for one in bills), Work()), seconds, first.rates, *money)


def bill_row(bill: Bill) -> dict[str, Any]:
    """Return a bill for JSON."""
    work = bill.work
    return {
        "read_bytes": work.read_bytes,
        "written_bytes": work.written_bytes,
        "get_requests": work.get_requests,
        "put_requests": work.put_requests,
        "seconds": round(bill.seconds, 1),
        "rates": bill.rates.origin,
        "measured_runs": bill.rates.runs,
        "freed_file_count": work.freed_files,
        "freed_bytes": work.freed_bytes,
        "fewer_requests_per_scan": work.fewer_requests,
        "fewer_requests_per_look_up": round(work.fewer_per_look_up, 2),
        "cost": _rounded(bill.cost),
        "saved_per_scan": _rounded(bill.saved_per_scan),
        "saved_per_month": _rounded(bill.saved_per_month),
        "payback_scans": _rounded(bill.payback_scans, 1),
        "payback_days": _rounded(bill.payback_days, 1),
    }


def bill_text(row: Mapping[str, Any]) -> tuple[str, ...]:
    """Return a bill in words, one text for what a step costs and one for what it brings."""
    requests = print_count(row["get_requests"] + row["put_requests"], "request")
    costs = [
        f"{print_size(row['read_bytes'])} read",
        f"{print_size(row['written_bytes'])} written",
        requests,
        f"about {print_duration(1000 * max(round(row['seconds']), 1))}",
    ]
    if row["cost"] is not None:
        costs.append(f"price {print_money(row['cost'])}")
    brings = []
    if row["freed_file_count"] or row["freed_bytes"]:
        count = row["freed_file_count"]  # 0 where summaries tell the bytes alone
        files = f"{print_count(count, 'file')} and " if count else ""
        brings.append(f"{files}{print_size(row['freed_bytes'])} freed")
    if row["fewer_requests_per_scan"]:
        fewer = row["fewer_requests_per_scan"]
        brings.append(f"{fewer:,} fewer request{'' if fewer == 1 else 's'} per full scan")
    if row["fewer_requests_per_look_up"] >= _LEAST_LOOK_UP:
        brings.append(f"{row['fewer_requests_per_look_up']:,.1f} fewer per look-up")
    if (row["saved_per_month"] or 0) > 0:
        brings.append(f"{print_money(row['saved_per_month'])} less for storage a month")
    if row["payback_scans"] is not None:
        brings.append(f"paid back in {print_count(_up(row['payback_scans']), 'scan')}")
    if row["payback_days"] is not None:
        brings.append(f"paid back in {print_count(_up(row['payback_days']), 'day')}")
    texts = {"costs": costs, "brings": brings}
    return tuple(f"{name}: {', '.join(parts)}" for name, parts in texts.items() if parts)


def bill_lines(row: Mapping[str, Any], width: int) -> list[str]:
    """Return a bill in lines of a width."""
    return [line for text in bill_text(row) for line in wrap(text, width, subsequent_indent="  ")]


def _ratio(cost: float | None, saved: float | None) -> float | None:
    return cost / saved if cost is not None and saved is not None and saved > 0 else None


def _rounded(value: float | None, digits: int = 6) -> float | None:
    return None if value is None else round(value, digits)


def print_money(amount: float) -> str:
    """Return an amount in words, as small as is worth to tell."""
    if 0 < amount < _LEAST_MONEY:
        return f"less than {_LEAST_MONEY:.2f}"
    return f"{amount:,.2f}"


_LEAST_MONEY, _LEAST_LOOK_UP = 0.01, 0.1


def _up(value: float) -> int:
    return max(-int(-value // 1), 1)
