"""Iceberg's own classes for the draft of version 4, asked by lines (peers/DraftReader.java)."""

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.spark.engine import why_skipped

SOURCE = Path(__file__).parents[1] / "peers" / "DraftReader.java"


def why_missing() -> str | None:
    """Why the peer cannot be run here; None where it can."""
    return why_skipped() or (None if shutil.which("javac") else "a JDK is not on the PATH")


@cache
def _class_path() -> tuple[str, TemporaryDirectory]:
    """The class path of the peer, compiled once, and the folder that lives as long."""
    python = Path(os.environ["ICECTL_TEST_SPARK_PYTHON"])
    (jars,) = python.parents[1].glob("lib/python*/site-packages/pyspark/jars")
    path = f"{os.environ['ICECTL_TEST_SPARK_JAR']}:{jars}/*"
    folder = TemporaryDirectory()
    # Classes of a package are private to those that one loader has read, from files.
    subprocess.run(["javac", "-d", folder.name, "-cp", path, str(SOURCE)], check=True)
    return f"{folder.name}:{path}", folder


def ask(requests: Sequence[Sequence[object]]) -> list[Any]:
    """The answers to requests, one each."""
    command = ["java", "-XX:TieredStopAtLevel=1", "-cp", _class_path()[0]]
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
