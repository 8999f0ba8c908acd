"""Random tables of Spark in every way to compact: Spark finds the rows that it found before."""

import os
import random
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.peers import random_values as values
from tests.spark.engine import why_skipped
from tests.spark.random_tables import MERGES, WAYS, Report, run_matrix, told_of

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

DOZEN = range(1, 13)
WAYS_OF_THE_DOZEN, FILTERS_OF_THE_DOZEN = 2, 12
MAY_BE_REFUSED = 5
REFUSAL = (
    "14: a row has no partition of spec 1: "
    "a truncation to multiples of 10 is below the smallest long"
)
"""One of the dozen may have a row with the least of all numbers, and a spec that truncates it.

Whether its deletes by value leave that row depends on the order in which Spark reads files.
"""
MERGED = 2
"""One of the dozen whose files can be merged; most have no two of one partition and format."""
TABLES = 100
"""Of the full tier, each of another seed every time; ICECTL_TEST_SEED names the first."""


def test_a_seed_says_all_about_columns_and_rows() -> None:
    def made(seed: int) -> str:
        rng = random.Random(seed)
        schema = values.Maker(rng).schema(16)
        return repr((schema, [values.row(rng, str(seed), schema["fields"]) for _ in range(9)]))

    assert made(7) == made(7)
    assert made(7) != made(8)


def some_ways(seed: int) -> Sequence[str]:
    """Two ways of each table, all of them among the dozen, and merges of one table besides."""
    ways = [WAYS[(seed * WAYS_OF_THE_DOZEN + at) % len(WAYS)] for at in range(WAYS_OF_THE_DOZEN)]
    return [*ways, *(MERGES if seed == MERGED else ())]


@pytest.fixture(scope="module")
def dozen(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Report]:
    skipped = why_skipped()
    if skipped:
        pytest.skip(skipped)
    folder = tmp_path_factory.mktemp("random")
    reports = run_matrix(DOZEN, some_ways, folder=folder, filters=FILTERS_OF_THE_DOZEN)
    return {report.seed: report for report in reports}


@pytest.mark.parametrize("seed", DOZEN)
def test_spark_finds_the_same_rows_after_icectl(dozen: dict[int, Report], seed: int) -> None:
    report = dozen[seed]
    assert not report.failures, told_of(report)
    assert not report.refused or seed == MAY_BE_REFUSED, told_of(report)
    assert {*report.refused.values()} <= {REFUSAL}
    assert not report.upstream


def test_the_dozen_goes_every_way(dozen: dict[int, Report]) -> None:
    changed = {way for one in dozen.values() for way in one.ways if way not in one.idle}
    assert changed == {*WAYS, *MERGES}


@pytest.mark.full
def test_a_hundred_tables_go_every_way(tmp_path: Path) -> None:
    skipped = why_skipped()
    if skipped:
        pytest.skip(skipped)
    first = int(os.environ.get("ICECTL_TEST_SEED", time.time_ns() // 10**9))
    reports = run_matrix(range(first, first + TABLES), lambda _: (*WAYS, *MERGES), folder=tmp_path)
    assert not any(report.failures for report in reports), "\n".join(
        told_of(report) for report in reports if report.failures
    )
    assert sum(bool(report.upstream) for report in reports) <= TABLES // 4
    refused = [way for report in reports for way in report.refused if way not in MERGES]
    assert len(refused) <= TABLES * len(WAYS) // 10
