"""Times and nanoseconds, which Spark can't read: Java finds the rows that it found before."""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from icectl.cli import app
from tests.spark.conftest import asked_for, peer

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

FULL = pytest.mark.full
TABLES = ["v2", "v3"]
WAYS = {"binpack": (), "sort": ("--sort-order", "time desc"), "zorder": ("--zorder", "time,id")}
Rows = dict[str, list[str]]


def java(verb: str, *places: Path) -> Rows:
    """What Java reads of tables, which it writes first or not."""
    told = peer(verb, *map(str, places), script="java_moments").splitlines()
    lines = (json.loads(line) for line in told if line.startswith("{"))
    return {line["table"]: line["rows"] for line in lines}


@dataclass(frozen=True)
class Moments:
    """What Java reads before, and after each way to compact, and how the runs ended."""

    before: Rows
    after: dict[str, Rows]
    codes: dict[tuple[str, str], tuple[int, int]]


@pytest.fixture(scope="module")
def moments(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Moments:
    folder, saved = (tmp_path_factory.mktemp(name) for name in ("moments", "saved"))
    before = java("write", folder)
    shutil.copytree(folder, saved, dirs_exist_ok=True)
    after, codes = {}, {}
    for way in asked_for(request, "way"):
        shutil.rmtree(folder)
        shutil.copytree(saved, folder)
        for name in TABLES:
            table = str(folder / name)
            compact = ["compact", table, "--engine", "local", "--yes", "--rewrite-all", *WAYS[way]]
            validate = ["validate", table, "--level", "data", "--all-snapshots"]
            codes[way, name] = app.main([*compact, "--quiet"]), app.main([*validate, "--quiet"])
        after[way] = java("read", *(folder / name for name in TABLES))
    return Moments(before, after, codes)


@pytest.mark.parametrize(
    "way", [pytest.param("binpack", marks=FULL), "sort", pytest.param("zorder", marks=FULL)]
)
@pytest.mark.parametrize("name", TABLES)
def test_java_reads_the_same_times_after_icectl(moments, name, way):
    assert moments.codes[way, name] == (0, 0)
    assert moments.after[way][name] == moments.before[name]
