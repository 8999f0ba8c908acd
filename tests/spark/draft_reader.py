"""Iceberg's own classes for the draft of version 4, asked by lines (peers/DraftReader.java)."""

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.spark.engine import why_skipped

SOURCE = Path(__file__).parents[1] / "peers" / "DraftReader.java"


def why_missing() -> str | None:
    """Why the peer cannot be run here; None where it can."""
    return why_skipped() or (None if shutil.which("javac") else "a JDK is not on the PATH")


def ask(requests: Sequence[Sequence[object]], folder: Path) -> list[Any]:
    """The answers to requests, compiled and run in a folder of the test's own."""
    python = Path(os.environ["ICECTL_TEST_SPARK_PYTHON"])
    (jars,) = python.parents[1].glob("lib/python*/site-packages/pyspark/jars")
    path = f"{os.environ['ICECTL_TEST_SPARK_JAR']}:{jars}/*"
    # Classes of a package are private to those that one loader has read, from files.
    subprocess.run(["javac", "-d", str(folder), "-cp", path, str(SOURCE)], check=True)
    command = ["java", "-XX:TieredStopAtLevel=1", "-cp", f"{folder}:{path}"]
    done = subprocess.run(
        [*command, "org.apache.iceberg.DraftReader"],
        input="".join("\t".join(map(str, words)) + "\n" for words in requests),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert not [answer for answer in answers if "error" in answer], done.stderr[-4000:]
    return answers
