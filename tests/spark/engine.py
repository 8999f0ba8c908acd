"""icectl's own runs on Spark: the Python that has both, and how its processes are started."""

import os
import subprocess
from functools import cache
from pathlib import Path

import pytest

from tests.conftest import ROOT

_NEEDED = ("pyspark", "pandas", "pyarrow", "fastavro", "s3fs", "typer")


@cache
def why_skipped() -> str | None:
    """Why icectl can't run on Spark here; None where it can."""
    told = os.environ.get("ICECTL_TEST_NO_SPARK")
    if told or "ICECTL_TEST_SPARK_PYTHON" not in os.environ:
        return told or "tests/run.sh sets up Spark"
    look = f"import importlib.util as u; print(*[n for n in {_NEEDED} if not u.find_spec(n)])"
    missing = on_spark("-c", look).stdout.split()
    return f"the Python of Spark has no {', '.join(missing)}" if missing else None


def skip_without_spark() -> None:
    """Skip the test, or those of a fixture, where icectl can't run on Spark."""
    if skipped := why_skipped():
        pytest.skip(skipped)


def sqlite_driver() -> str | None:
    """SQLite's JDBC driver: in ICECTL_TEST_SQLITE_JDBC, or among the jars of the REST server."""
    named = os.environ.get("ICECTL_TEST_SQLITE_JDBC")
    jars = os.environ.get("ICECTL_TEST_REST_JARS", "").split(":")
    return named or next((jar for jar in jars if "sqlite-jdbc" in jar), None)


NO_DRIVER = "SQLite's JDBC driver is not set up: ICECTL_TEST_SQLITE_JDBC names its jar"


AT_LINK = ROOT / "tests" / "peers" / "at_link"
"""A folder that ends or holds workers, where it is on the path of Python."""


def command(*arguments: str) -> list[str]:
    """A command line of the Python that has PySpark."""
    return [os.environ["ICECTL_TEST_SPARK_PYTHON"], *arguments]


def environment(at_link: Path | None = None) -> dict[str, str]:
    """An environment with this checkout of icectl; `at_link` is where wishes are left."""
    if at_link is None:
        return {**os.environ, "PYTHONPATH": str(ROOT)}
    path = os.pathsep.join([str(ROOT), str(AT_LINK)])
    return {**os.environ, "PYTHONPATH": path, "ICECTL_TEST_AT_LINK": str(at_link)}


def lasting_environment() -> dict[str, str]:
    """The same for a session that lasts, without what the tests tell Java for short ones."""
    return {key: told for key, told in environment().items() if key != "SPARK_SUBMIT_OPTS"}


def on_spark(
    *arguments: str, folder: Path = ROOT, at_link: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the Python that has PySpark, with this checkout of icectl."""
    return subprocess.run(
        command(*arguments),
        cwd=folder,
        env=environment(at_link),
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
