"""Bills of steps, with figures worked out by hand; rates and prices that they are reckoned by."""

from dataclasses import replace

import pytest

from icectl.cli.history import History
from icectl.cli.settings import resolve
from icectl.commands.bill import (
    LOCAL_RATES,
    STORE_RATES,
    Prices,
    Rates,
    Work,
    bill,
    bill_of_all,
    bill_row,
    bill_text,
    gets_in_ranges,
    gets_of,
    part_of_bill,
    puts_of,
)
from icectl.commands.rates import prices_of, rates_of
from icectl.errors import UsageError
from tests.stores.fixed_env import FixedEnv
from tests.unit.cli.test_history import RECORD

GIB = 1 << 30
RATES = Rates(copied=1e9, decoded=1e8, other=5e8, requests=1000, processors=2)
PRICES = Prices(storage_gb_month=0.02, get_1000=0.5, put_1000=5, egress_gb=0.1, cpu_hour=0.36)
MERGE = Work(
    copied_bytes=2 * 10**9,
    decoded_bytes=10**9,
    written_bytes=3 * 10**9,
    get_requests=4000,
    put_requests=500,
    fewer_requests=3000,
)


def test_time_and_money_of_a_compaction():
    found = bill(MERGE, RATES, PRICES)
    # start 0.5 s, copy 2 s, decode 10 s, 4,500 requests 4.5 s
    assert found.seconds == pytest.approx(17)
    # 4,000 GET 2.0, 500 PUT 2.5, 3e9 bytes of egress, 34 s of a processor
    assert found.cost == pytest.approx(2 + 2.5 + 3e9 / GIB * 0.1 + 34 / 3600 * 0.36)
    assert found.saved_per_scan == pytest.approx(1.5)
    assert found.payback_scans == pytest.approx(found.cost / 1.5)
    assert found.payback_days is None  # it frees nothing


def test_freed_storage_pays_by_the_day():
    found = bill(Work(put_requests=3, freed_files=1000, freed_bytes=50 * GIB), RATES, PRICES)
    assert found.seconds == pytest.approx(0.5 + 1.003)
    assert found.saved_per_month == pytest.approx(1.0)
    cost = 3 / 1000 * 5 + 2 * 1.503 / 3600 * 0.36
    assert found.payback_days == pytest.approx(cost * 365.25 / 12)
    assert found.payback_scans is None


def test_scans_pay_by_the_day():
    found = bill(MERGE, RATES, PRICES, 2)
    assert found.payback_days == pytest.approx(found.cost / (2 * 1.5))
    both = bill(replace(MERGE, freed_bytes=100 * GIB), RATES, PRICES, 2)
    assert both.payback_days == pytest.approx(both.cost / (2 * 1.5 + 2 / (365.25 / 12)))


def test_the_bill_of_several_steps():
    one, other = bill(MERGE, RATES, PRICES, 2), bill(Work(put_requests=3), RATES, PRICES)
    both = bill_of_all([one, other])
    assert both.work == MERGE + Work(put_requests=3)
    assert both.seconds == pytest.approx(one.seconds + other.seconds)
    assert both.cost == pytest.approx(one.cost + other.cost)
    assert (both.saved_per_scan, both.saved_per_month) == (one.saved_per_scan, 0)
    assert bill_of_all([bill(MERGE, RATES, Prices())]).cost is None
    assert bill_of_all([]) is None


def test_without_prices_there_is_no_money():
    found = bill(MERGE, RATES, Prices())
    assert (found.cost, found.saved_per_scan, found.saved_per_month) == (None, None, None)
    assert (found.payback_scans, found.payback_days) == (None, None)
    assert bill_text(bill_row(found)) == (
        "costs: 2.8 GiB read, 2.8 GiB written, 4,500 requests, about 17s",
        "brings: 3,000 fewer requests per full scan",
    )


def test_a_price_that_is_not_set_counts_as_nothing():
    found = bill(MERGE, RATES, Prices(put_1000=5))
    assert (found.cost, found.saved_per_scan, found.payback_scans) == (2.5, 0, None)


def test_a_bill_in_words():
    work = Work(put_requests=1, freed_files=1, freed_bytes=GIB, fewer_requests=1)
    costs, brings = bill_text(bill_row(bill(work, RATES, PRICES)))
    assert costs == ("costs: 0 B read, 0 B written, 1 request, about 1s, price less than 0.01")
    assert brings == (
        "brings: 1 file and 1.0 GiB freed, 1 fewer request per full scan, "
        "0.02 less for storage a month, paid back in 11 scans, paid back in 8 days"
    )


def test_fewer_requests_of_a_look_up_are_told_and_a_part_of_the_work_brings_a_part():
    found = bill(Work(fewer_requests=3, fewer_per_look_up=1.46), RATES, Prices())
    (_, brings) = bill_text(bill_row(found))
    assert brings == "brings: 3 fewer requests per full scan, 1.5 fewer per look-up"
    row = bill_row(part_of_bill(found, 0.5))
    assert (row["fewer_requests_per_scan"], row["fewer_requests_per_look_up"]) == (2, 0.73)
    assert len(bill_text(bill_row(part_of_bill(found, 0.05)))) == 1


def test_bytes_of_files_that_nobody_counted_are_told():
    texts = bill_text(bill_row(bill(Work(freed_bytes=GIB), RATES, Prices())))
    assert texts[1] == "brings: 1.0 GiB freed"


def test_huge_figures_stay_figures():
    """Of a table whose sizes lie."""
    found = bill(Work(decoded_bytes=2**63, get_requests=2**63), RATES, PRICES)
    assert found.seconds == 1e9
    assert bill_text(bill_row(found))


def settings(folder, text=""):
    file = folder / "icectl.toml"
    file.write_text(f'state-dir = "{folder}"\n{text}')
    return resolve({}, {}, str(file))


def test_prices_are_read_from_the_file_and_the_environment(tmp_path):
    text = '[prices]\nstorage-gb-month = 0.023\nget-1000 = "4e-4"\nput-1000 = 0\n'
    assert prices_of(settings(tmp_path, text)) == Prices(0.023, 0.0004, 0.0)
    environment = {"ICECTL_PRICES_CPU_HOUR": "0.04"}
    found = prices_of(resolve({}, environment, str(tmp_path / "icectl.toml")))
    assert found == Prices(0.023, 0.0004, 0.0, cpu_hour=0.04)
    assert not prices_of(resolve({}, {}, None)).are_set


@pytest.mark.parametrize(
    "value", ["-1", '"cheap"', "inf", "nan", "true", '"1_0"', "1e300", '"٣"', '"0.023 EUR"', "[1]"]
)
def test_what_is_no_price_is_an_error(tmp_path, value):
    with pytest.raises(UsageError, match=r"`prices\.cpu-hour` in "):
        settings(tmp_path, f"[prices]\ncpu-hour = {value}\n")


def compacted(seconds, size, status="done"):
    step = {"step": "compact", "status": status, "exit": 0, "seconds": seconds}
    return {**RECORD, "rewritten_bytes": size, "steps": [step]}


def test_rates_are_those_of_past_runs(tmp_path):
    history, of = History(tmp_path), settings(tmp_path)
    assert rates_of(of, is_local=True) == LOCAL_RATES
    history.append(compacted(1.0, 100 << 20), FixedEnv())
    history.append(compacted(1.0, 1 << 20), FixedEnv())  # shows how long a start takes
    history.append(compacted(9.0, 100 << 20, "failed"), FixedEnv())
    history.append(compacted(2.0, 100 << 20), FixedEnv())
    assert rates_of(of, is_local=False) == STORE_RATES  # two runs are too few
    history.append(compacted(1.0, 200 << 20), FixedEnv())
    found = rates_of(of, is_local=False)
    assert (found.origin, found.runs) == ("history", 3)
    assert found.copied == found.decoded == 100 << 20
    assert found.requests == STORE_RATES.requests


def test_a_history_that_cannot_be_read_shows_no_rates(tmp_path):
    (tmp_path / "runs.jsonl").mkdir()
    assert rates_of(settings(tmp_path), is_local=True) == LOCAL_RATES


def test_requests_by_bytes():
    assert gets_of([0, 1, 16 << 20]) == 3
    assert gets_of([(16 << 20) + 1]) == 1 + 5  # its end, and ranges of 4 MiB
    assert gets_in_ranges(0, 0) == 0
    assert gets_in_ranges(5 << 20, 2) == 2 * (1 + 3)  # ranges of 1 MiB of small files
    assert gets_in_ranges(5 << 20) == 1 + 2
    assert puts_of(16 << 20, 2) == 2
    assert puts_of(20 << 20, 1) == 3 + 2  # parts of 8 MiB, and a beginning and an end


def test_work_adds_up():
    assert Work(copied_bytes=1, put_requests=2) + Work(1, 2, 3) == Work(2, 2, 3, put_requests=2)
