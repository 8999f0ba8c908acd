"""A table of layout sfc-1 lives a day of commits from PySpark, with maintenance beside them.

`ICECTL_TEST_DAY_COMMITS` is how many there are: 300 where nobody says.
"""

import json
import os
import subprocess

import pytest

from icectl.cli import app
from tests.builders.inline_rows import tree
from tests.builders.rows import current_metadata, read_metadata, read_rows
from tests.conftest import ROOT
from tests.spark.conftest import icectl
from tests.spark.engine import command, environment, skip_without_spark

pytestmark = [pytest.mark.spark, pytest.mark.full, pytest.mark.xdist_group("spark-runs")]

PROPERTIES = {
    "write__metadata__delete_after_commit__enabled": "true",
    "write__metadata__previous_versions_max": "20",
    "commit__retry__num_retries": "20",
}


def test_every_row_is_found_after_a_day_of_commits(tmp_path):
    skip_without_spark()
    tree(tmp_path / "t", **PROPERTIES)
    commits = os.environ.get("ICECTL_TEST_DAY_COMMITS", "300")
    script = str(ROOT / "tests/peers/spark_day.py")
    done = subprocess.run(
        command(script, str(tmp_path), commits),
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    told = json.loads(done.stdout.splitlines()[-1])
    assert (told["commits"], told["failed"]) == (int(commits), None)
    assert told["rounds"] > 0
    landed = [one for one in told["compactions"] if one["groups"] and not one["failed"]]
    assert landed
    assert landed == [one for one in told["compactions"] if one["groups"]]
    # What came since the last one is small yet, and a compaction wants 50 files.
    since = told["commits"] - landed[-1]["commits"]
    files = icectl("inspect", str(tmp_path / "t"), "files").document
    assert len(files["result"]["rows"]) < since + 100
    expected = json.loads((tmp_path / "expected.json").read_text())
    rows = read_rows(read_metadata(current_metadata(tmp_path / "t")))
    assert sorted(dict(row)["id"] for row in rows) == expected
    assert app.main(["validate", str(tmp_path / "t"), "--level", "data", "--quiet"]) == 0
