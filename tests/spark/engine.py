"""icectl's own runs on Spark: the Python that has both, and how its processes are started."""

import os
import subprocess
from pathlib import Path

from tests.conftest import ROOT

_NEEDED = ("pyspark", "pandas", "pyarrow", "fastavro", "numba", "s3fs", "typer")


def why_skipped() -> str | None:
    """Why icectl can't run on Spark here; None where it can."""
    told = os.environ.get("ICECTL_TEST_NO_SPARK")
    if told or "ICECTL_TEST_SPARK_PYTHON" not in os.environ:
        return told or "tests/run.sh sets up Spark"
    look = f"import importlib.util as u; print(*[n for n in {_NEEDED} if not u.find_spec(n)])"
    missing = on_spark("-c", look).stdout.split()
    return f"the Python of Spark has no {', '.join(missing)}" if missing else None


def on_spark(*arguments: str, folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """Run the Python that has PySpark, with this checkout of icectl."""
    return subprocess.run(
        [os.environ["ICECTL_TEST_SPARK_PYTHON"], *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
