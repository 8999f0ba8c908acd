"""pandas stays out of processes that have no use for it, and so do drivers and heavy modules."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.builders.table_builder import TableBuilder, filled_table

STAND_IN = """
import sys

sys.stderr.write("RuntimeError: pandas was imported\\n")  # compiled code passes over the exception
raise RuntimeError("pandas was imported")
"""


def run(script: str, installed: Path) -> subprocess.CompletedProcess[str]:
    """Run a script where a pandas is installed whose import ends the run."""
    (installed / "pandas.py").write_text(STAND_IN)
    places = os.pathsep.join([str(installed), *filter(None, sys.path)])
    return subprocess.run(
        [sys.executable, "-c", script],
        env=os.environ | {"PYTHONPATH": places},
        capture_output=True,
        text=True,
        check=False,
    )


def test_pyarrow_imports_pandas_with_its_first_array_where_nothing_keeps_it_out(tmp_path):
    ended = run("import pyarrow; pyarrow.array([1])", tmp_path)
    assert ended.stderr.splitlines()[-1] == "RuntimeError: pandas was imported"


@pytest.mark.parametrize(
    "words",
    [
        ["inspect"],
        ["inspect", "TABLE", "files"],
        ["validate", "TABLE", "--level", "data"],
        ["compact", "TABLE", "--engine", "local", "--yes"],
    ],
    ids=" ".join,
)
def test_commands_and_their_workers_leave_pandas_out(words, tmp_path):
    table = TableBuilder(tmp_path / "table")
    for first in range(5):
        table.append(range(10 * first, 10 * first + 10))
    line = [words[0], table.location, *words[2:]]
    ended = run(f"import sys; from icectl.cli.app import main; sys.exit(main({line!r}))", tmp_path)
    assert "pandas" not in ended.stderr
    assert ended.returncode == 0


def test_what_asks_for_pandas_later_finds_it(tmp_path):
    script = (
        "import pyarrow; from icectl.entries.without_pandas import leave_pandas_out\n"
        "leave_pandas_out()\n"
        "array = pyarrow.array([1, 2])\n"
        "print(len(array))\n"
        "array.to_pandas()\n"
    )
    ended = run(script, tmp_path)
    assert ended.stdout == "2\n"
    assert ended.stderr.splitlines()[-1] == "RuntimeError: pandas was imported"


def test_pandas_that_is_imported_already_is_known_to_pyarrow(tmp_path):
    script = (
        "import sys, types; sys.modules['pandas'] = types.ModuleType('pandas')\n"
        "from icectl.entries.without_pandas import leave_pandas_out\n"
        "leave_pandas_out()\n"
        "print(sys.modules['pandas'].__name__, sys.meta_path)\n"
    )
    ended = run(script, tmp_path)
    assert ended.stdout.split()[0] == "pandas"
    assert "NoPandas" not in ended.stdout


def imported_by(line: list[str], tmp_path: Path) -> set[str]:
    """The modules that are there at the end of a run."""
    script = (
        f"import sys; from icectl.cli.app import main; code = main({line!r})\n"
        "print(*sys.modules); sys.exit(code)"
    )
    ended = run(script, tmp_path)
    assert ended.returncode == 0, ended.stderr
    return set(ended.stdout.splitlines()[-1].split())


def test_a_small_inspect_imports_no_driver_nor_what_only_changes_need(tmp_path):
    table = filled_table(tmp_path / "table", range(3))
    table.delete_rows([1])
    imported = imported_by(["inspect", table.location], tmp_path)
    drivers = {"aiohttp", "asyncio", "boto3", "botocore", "fsspec", "obstore", "s3fs", "urllib3"}
    standard = {"email", "http.client", "sqlite3", "ssl", "tomllib", "urllib.request"}
    standard |= {"xml.etree.ElementTree"}
    others = {"dateutil", "numpy.ma", "pandas", "pyarrow.dataset", "pyarrow.fs", "rich", "yaml"}
    own = {
        "icectl.catalog.commit_file", "icectl.catalog.pointer", "icectl.checks.rules",
        "icectl.cli.ci", "icectl.commands.inspect.read_rows", "icectl.commands.remove_orphans",
        "icectl.commit", "icectl.files.orc", "icectl.files.parquet.schema", "icectl.format.updates",
        "icectl.rows", "icectl.storage.buckets.store", "icectl.table.reachable",
    }  # fmt: skip
    assert all(map(find_spec, own))
    assert imported & (drivers | standard | others | own) == set()
