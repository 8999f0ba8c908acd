"""Secrets among the settings of Spark: the process list shows none of them, and Spark has them."""

import json
import subprocess

import pytest

from tests.spark.engine import command, environment, skip_without_spark

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark-runs")]

PROGRAM = """
import json, subprocess, sys
from icectl.rows.spark_classic import SparkOptions, classic_session
from icectl.env import Deadline, SystemEnv
from icectl.progress import SilentProgress
secret, plain = "spark.hadoop.fs.s3a.secret.key", "spark.hadoop.icectl.plain"
given = ((secret, "hidden-value"), (plain, "shown-value"))
options = SparkOptions("local[1]", given, secret=frozenset({secret}))
with classic_session(options, SilentProgress(), Deadline(SystemEnv())) as spark:
    listed = subprocess.run(["ps", "-wweo", "args"], capture_output=True, text=True).stdout
    hadoop = spark.jobs.context._jsc.hadoopConfiguration()
    print(json.dumps([
        "hidden-value" in listed, "shown-value" in listed, hadoop.get("fs.s3a.secret.key"),
        spark.jobs.context.parallelize([1, 2]).count(),
    ]))
"""


def test_the_process_list_shows_no_secret_of_spark(tmp_path_factory):
    skip_without_spark()
    program = tmp_path_factory.mktemp("program") / "program.py"
    program.write_text(PROGRAM)
    done = subprocess.run(
        command(str(program)), env=environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout) == [False, True, "hidden-value", 2]
