"""Mutated files end in errors of icectl's own, in bounded memory and time, whatever reads them."""

import json
import secrets
import subprocess
import sys
from pathlib import Path

import pytest

SEEDS = (1, 2, 3, 7, 20_261_123)
"""Runs of the quick tier; a seed that has found something stays here."""

TEN_MINUTES_S = 600


def fuzz(seed: int, seconds: int) -> int:
    script = Path(__file__).with_name("fuzz_codecs.py")
    done = subprocess.run(
        [sys.executable, "-m", "tests.security.fuzz_codecs", str(seed), str(seconds)],
        capture_output=True,
        text=True,
        check=False,
        cwd=script.parents[2],
    )
    assert done.returncode == 0, done.stderr[-4000:]
    *found, last = map(json.loads, done.stdout.splitlines())
    assert found == []
    inputs: int = last["inputs"]
    return inputs


@pytest.mark.parametrize("seed", SEEDS[:1])
def test_no_mutation_ends_in_another_error(seed):
    assert fuzz(seed, 0) > 1000


@pytest.mark.full
def test_ten_minutes_of_mutations_end_in_no_other_error():
    for seed in (*SEEDS[1:], secrets.randbelow(2**31)):
        assert fuzz(seed, TEN_MINUTES_S // len(SEEDS)) > 1000
