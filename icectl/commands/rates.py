"""Prices of the settings, and rates that past runs of this machine show."""

from itertools import islice

from icectl.cli.history import history_of
from icectl.cli.settings import PRICES, Settings
from icectl.commands.bill import LOCAL_RATES, STORE_RATES, Bill, Prices, Rates, Work, bill
from icectl.storage.location import is_local

_MOST_RECORDS = 500
"""Records of the history that are looked at, the newest."""

_MOST_RUNS = 20
_FEWEST_RUNS = 3
_LEAST_BYTES = 16 << 20
"""Bytes below which a run shows how long a command takes to start, and no rate."""


def prices_of(settings: Settings) -> Prices:
    """Return the prices that are set."""
    return Prices(*map(settings.read, PRICES))


def bill_of(settings: Settings, location: str, work: Work) -> Bill:
    """Return the bill of work on a table at a location."""
    return bill(work, rates_of(settings, is_local=is_local(location)), prices_of(settings))


def rates_of(settings: Settings, *, is_local: bool) -> Rates:
    """Return how fast data are rewritten: by compactions of the history, else by benchmarks.

    A history that cannot be read is none.
    """
    usual = LOCAL_RATES if is_local else STORE_RATES
    history, sizes, times = history_of(settings), [], []
    try:
        for record in islice(history.records() if history else (), _MOST_RECORDS):
            ends = {step["step"]: step for step in record["steps"]}
            compact, size = ends.get("compact"), record["rewritten_bytes"]
            if compact is None or compact["status"] != "done" or size < _LEAST_BYTES:
                continue
            if compact["seconds"] > 0:
                sizes.append(size)
                times.append(compact["seconds"])
            if len(sizes) == _MOST_RUNS:
                break
    except OSError:
        return usual
    if len(sizes) < _FEWEST_RUNS:
        return usual
    rate = sum(sizes) / sum(times)
    return Rates(rate, rate, usual.other, usual.requests, usual.processors, len(sizes))
