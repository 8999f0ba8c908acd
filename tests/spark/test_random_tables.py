"""Random tables of Spark in every way to compact: Spark finds the rows that it found before."""

import os
import random
import time

import pytest

from tests.peers import random_values as values
from tests.spark.engine import skip_without_spark
from tests.spark.random_tables import MERGES, WAYS, Report, run_matrix, told_of

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

FOUR = {
    1: ("zorder",),
    2: ("output-spec", "merge", "merge-verified"),
    6: ("sort", "deletes-only", "branch"),
    9: ("binpack",),
}
"""Ways beside Spark by the seeds of tables that together have versions 1 to 4, files and deletes by
value of each format, deletes by position, vectors, partitions and none, branches, variants, columns
that were added, dropped, promoted, moved and renamed, and files that can be merged.
"""
FILTERS_OF_THE_FOUR = 3
ALL = (*WAYS, *MERGES)
TABLES = 100
"""Of the full tier, each of another seed every time; ICECTL_TEST_SEED names the first."""


def test_a_seed_says_all_about_columns_and_rows():
    def made(seed: int) -> str:
        rng = random.Random(seed)
        schema = values.Maker(rng).schema(16)
        return repr((schema, [values.row(rng, str(seed), schema["fields"]) for _ in range(9)]))

    assert made(7) == made(7)
    assert made(7) != made(8)


@pytest.fixture(scope="module")
def four(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Report]:
    skip_without_spark()
    folder = tmp_path_factory.mktemp("random")
    reports = run_matrix([*FOUR], FOUR.__getitem__, folder=folder, filters=FILTERS_OF_THE_FOUR)
    return {report.seed: report for report in reports}


@pytest.mark.parametrize("seed", FOUR)
def test_spark_finds_the_same_rows_after_icectl(four, seed):
    report = four[seed]
    assert not report.failures, told_of(report)
    assert not report.idle, told_of(report)
    assert not report.upstream


def test_the_four_go_every_way_but_those_on_spark():
    assert {way for ways in FOUR.values() for way in ways} == {
        way for way in ALL if not way.startswith("spark-")
    }


@pytest.mark.full
def test_a_hundred_tables_go_every_way(tmp_path):
    skip_without_spark()
    first = int(os.environ.get("ICECTL_TEST_SEED", time.time_ns() // 10**9))
    reports = run_matrix(range(first, first + TABLES), lambda _: ALL, folder=tmp_path)
    assert not any(report.failures for report in reports), "\n".join(
        told_of(report) for report in reports if report.failures
    )
    assert sum(bool(report.upstream) for report in reports) <= TABLES // 4
    refused = [way for report in reports for way in report.refused]
    assert not set(refused) & set(MERGES)
    assert len(refused) <= TABLES * len(WAYS) // 10
