"""Peak memory of rewrites, each in a process of its own, whatever the width of values.

Peaks are those of the system (VmHWM), an interpreter with Arrow and the compiled loops included.
"""

import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from tests.builders.wide_rows import Case

LIMIT_BYTES = 700_000_000
_MB = 10**6


def told(case: Case, directory: Path, work: str) -> str:
    command = [sys.executable, "-m", "tests.builders.wide_rows", str(directory)]
    done = subprocess.run(
        [*command, json.dumps(asdict(case)), work], capture_output=True, check=False, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def peak(case: Case, directory: Path) -> int:
    """The peak of a rewrite, whose rows are all there."""
    told(case, directory, "write")
    found = json.loads(told(case, directory, "rewrite"))
    rows = int((directory / "rows").read_text())
    assert found["row_count"] + found["deleted"] == rows
    print(f"{case}: {found['peak_bytes'] / _MB:.0f} MB")
    return int(found["peak_bytes"])


@pytest.mark.parametrize("width", [4_000, 100_000])
def test_a_rewrite_of_wide_values_takes_no_more_memory_than_another(tmp_path, width):
    assert peak(Case(width, 500 * _MB), tmp_path) < LIMIT_BYTES


def test_a_sort_by_wide_values_takes_no_more_memory_than_another(tmp_path):
    assert peak(Case(100_000, 150 * _MB, order="asc"), tmp_path) < LIMIT_BYTES


WIDTHS = [100, 2_000, 16_000, 100_000, 1_000_000]
FORMATS = [("parquet", "dictionary"), ("parquet", "plain"), ("orc", ""), ("avro", "")]


@pytest.mark.full
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(("file_format", "stored"), FORMATS)
@pytest.mark.parametrize("shape", ["flat", "list"])
def test_values_of_any_width_in_any_format(tmp_path, width, file_format, stored, shape):
    total = 400 * _MB if file_format != "avro" else 150 * _MB
    case = Case(width, total, file_format=file_format, stored=stored, shape=shape)
    assert peak(case, tmp_path) < LIMIT_BYTES


@pytest.mark.full
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("order", ["asc", "z"])
def test_values_of_any_width_are_sorted(tmp_path, width, order):
    assert peak(Case(width, 400 * _MB, order=order), tmp_path) < LIMIT_BYTES


@pytest.mark.full
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("deletes", ["equality", "position"])
def test_deletes_with_keys_of_any_width(tmp_path, width, deletes):
    assert peak(Case(width, 150 * _MB, deletes=deletes), tmp_path) < LIMIT_BYTES


@pytest.mark.full
@pytest.mark.parametrize("width", [16_000, 1_000_000])
def test_wide_values_that_come_late_in_a_row_group(tmp_path, width):
    assert peak(Case(width, 1000 * _MB, shape="late"), tmp_path) < LIMIT_BYTES


@pytest.mark.full
@pytest.mark.parametrize("stored", ["dictionary", "plain"])
def test_values_of_ten_megabytes(tmp_path, stored):
    assert peak(Case(10_000_000, 400 * _MB, stored=stored), tmp_path) < LIMIT_BYTES


@pytest.mark.full
def test_two_thousand_columns_of_narrow_values(tmp_path):
    assert peak(Case(16, 100 * _MB, columns=2_000), tmp_path) < LIMIT_BYTES


@pytest.mark.full
@pytest.mark.parametrize("stored", ["dictionary", "plain"])
def test_two_thousand_wide_columns_each_of_which_has_pages_open(tmp_path, stored):
    assert peak(Case(1_000, 400 * _MB, stored=stored, columns=2_000), tmp_path) < 2 * LIMIT_BYTES
