"""pandas stays out of processes that have no use for it, pyarrow.compute until it is used."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.builders.table_builder import TableBuilder

STAND_IN = "raise RuntimeError('pandas was imported')\n"


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


def test_pyarrow_imports_pandas_with_its_first_array_where_nothing_keeps_it_out(
    tmp_path: Path,
) -> None:
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
def test_commands_and_their_workers_leave_pandas_out(words: list[str], tmp_path: Path) -> None:
    table = TableBuilder(tmp_path / "table")
    for first in range(5):
        table.append(range(10 * first, 10 * first + 10))
    line = [words[0], table.location, *words[2:]]
    script = f"import sys; from icectl.cli.app import main; sys.exit(main({line!r}))"
    ended = run(script, tmp_path)
    assert "pandas" not in ended.stderr
    assert ended.returncode == 0


def test_what_asks_for_pandas_later_finds_it(tmp_path: Path) -> None:
    script = (
        "import pyarrow; from icectl.entries.arrow_imports import leave_pandas_out\n"
        "leave_pandas_out()\n"
        "array = pyarrow.array([1, 2])\n"
        "print(len(array))\n"
        "array.to_pandas()\n"
    )
    ended = run(script, tmp_path)
    assert ended.stdout == "2\n"
    assert ended.stderr.splitlines()[-1] == "RuntimeError: pandas was imported"


def test_pandas_that_is_imported_already_is_known_to_pyarrow(tmp_path: Path) -> None:
    script = (
        "import sys, types; sys.modules['pandas'] = types.ModuleType('pandas')\n"
        "from icectl.entries.arrow_imports import leave_pandas_out\n"
        "leave_pandas_out()\n"
        "print(sys.modules['pandas'].__name__, len(sys.meta_path))\n"
    )
    ended = run(script, tmp_path)
    assert ended.stdout.split()[0] == "pandas"


def test_a_view_of_the_metadata_imports_neither_functions_nor_decoders(tmp_path: Path) -> None:
    table = TableBuilder(tmp_path / "table")
    table.append(range(3))
    line = ["inspect", table.location, "snapshots"]
    script = (
        f"import sys; from icectl.cli.app import main; code = main({line!r})\n"
        "heavy = {'fastavro', 'pyarrow._compute', 'pyarrow.parquet', 's3fs', 'rich'}\n"
        "print(sorted(heavy & set(sys.modules))); sys.exit(code)"
    )
    ended = run(script, tmp_path)
    assert ended.stdout.splitlines()[-1] == "[]"


def imported_by(line: list[str], tmp_path: Path) -> set[str]:
    """The modules that are there at the end of a run."""
    script = (
        f"import sys; from icectl.cli.app import main; code = main({line!r})\n"
        "print(*sys.modules); sys.exit(code)"
    )
    ended = run(script, tmp_path)
    assert ended.returncode == 0, ended.stderr
    return set(ended.stdout.splitlines()[-1].split())


def test_a_small_inspect_imports_no_driver_nor_what_only_changes_need(tmp_path: Path) -> None:
    table = TableBuilder(tmp_path / "table")
    table.append(range(3))
    table.delete_rows([1])
    imported = imported_by(["inspect", table.location], tmp_path)
    drivers = {"aiohttp", "asyncio", "boto3", "botocore", "fsspec", "obstore", "s3fs", "urllib3"}
    standard = {"email", "http.client", "pydoc", "sqlite3", "ssl", "tomllib", "urllib.request"}
    standard |= {"xml.etree.ElementTree"}
    others = {
        "dateutil",
        "numpy.ma.core",
        "pandas",
        "pyarrow.dataset",
        "pyarrow.fs",
        "rich",
        "yaml",
    }
    own = {
        "icectl.commit.access",
        "icectl.engine",
        "icectl.report.ci",
        "icectl.run.remove_orphans",
        "icectl.storage.bucket",
        "icectl.table.reachable",
    }
    assert imported & (drivers | standard | others | own) == set()


def test_an_array_is_masked_as_numpy_has_it_before_and_after_that_is_imported(
    tmp_path: Path,
) -> None:
    script = (
        "from icectl.entries.arrow_imports import import_masked_arrays_later, leave_pandas_out\n"
        "leave_pandas_out(); import_masked_arrays_later()\n"
        "import sys, numpy as np, pyarrow as pa\n"
        "plain = pa.array(np.arange(3)).to_pylist(), 'numpy.ma.core' in sys.modules\n"
        "kept = np.ma.MaskedArray\n"
        "masked = np.ma.array([1, 2], mask=[True, False])\n"
        "told = [isinstance(masked, one) for one in (kept, np.ma.MaskedArray)]\n"
        "print(plain, pa.array(masked).to_pylist(), told, isinstance(np.arange(1), kept))\n"
    )
    ended = run(script, tmp_path)
    assert ended.stdout == "([0, 1, 2], False) [None, 2] [True, True] False\n", ended.stderr


def test_functions_take_their_options_where_nobody_takes_their_documentation_apart(
    tmp_path: Path,
) -> None:
    script = (
        "from icectl.entries.arrow_imports import import_compute_later, leave_pandas_out\n"
        "leave_pandas_out(); import_compute_later()\n"
        "import sys, pyarrow as pa, pyarrow.compute as pc\n"
        "array = pa.array([3, None, 1])\n"
        "print(pc.sum(array, min_count=4).as_py(), pc.sum(array, skip_nulls=True).as_py())\n"
        "print(pc.array_sort_indices(array, order='descending').to_pylist())\n"
        "print('pydoc' in sys.modules)\n"
        "import pyarrow.vendored.docscrape as later\n"
        "print(later.NumpyDocString('Sum.')['Summary'])\n"
    )
    ended = run(script, tmp_path)
    assert ended.stdout == "None 4\n[0, 2, 1]\nFalse\n['Sum.']\n", ended.stderr


def test_functions_are_there_when_threads_ask_for_them_at_once(tmp_path: Path) -> None:
    script = (
        "import sys, threading\n"
        "from icectl.entries.arrow_imports import import_compute_later, leave_pandas_out\n"
        "leave_pandas_out(); import_compute_later()\n"
        "import pyarrow as pa, pyarrow.compute as pc\n"
        "before = 'pyarrow._compute' in sys.modules\n"
        "start, found = threading.Barrier(8), []\n"
        "def ask(number):\n"
        "    start.wait()\n"
        "    import pyarrow.compute as own\n"
        "    asked = own if number % 2 else pc\n"
        "    found.append(asked.sum(pa.array([number, 1]).cast(pa.int32())).as_py())\n"
        "threads = [threading.Thread(target=ask, args=[each]) for each in range(8)]\n"
        "[each.start() for each in threads]; [each.join() for each in threads]\n"
        "print(before, sorted(found), pc.Expression is pc.scalar(1).__class__)\n"
    )
    ended = run(script, tmp_path)
    assert ended.stdout == "False [1, 2, 3, 4, 5, 6, 7, 8] True\n", ended.stderr


def test_functions_are_made_one_by_one_and_are_those_that_pyarrow_has(tmp_path: Path) -> None:
    plain = "import pyarrow.compute as pc; every = dir(pc)\n"
    later = (
        "from icectl.entries.arrow_imports import import_compute_later\n"
        "import_compute_later()\n"
        "import sys, pyarrow.compute as pc\n"
        "pc.sum; few = len(dir(pc)); import pyarrow.compute as own\n"
        "every = [name for name in sys.argv[1].split() if hasattr(own, name)]\n"
        "print(few < 150, pc.and_ is own.and_, pc.function_registry is own.function_registry)\n"
    )
    tell = (
        "found = {name: getattr(pc, name) for name in every}\n"
        "told = {n: f.__arrow_compute_function__ | {'signature': str(f.__signature__)}\n"
        "        for n, f in found.items() if hasattr(f, '__arrow_compute_function__')}\n"
        "print(len(told), sorted(told.items()))\n"
    )
    wanted = run(plain + tell, tmp_path)
    names = "import pyarrow.compute as pc; print(*dir(pc))"
    argv = f"import sys; sys.argv[1:] = [{run(names, tmp_path).stdout!r}]\n"
    made = run(argv + later + tell, tmp_path)
    assert int(wanted.stdout.split()[0]) > 250
    assert made.stdout == f"True True True\n{wanted.stdout}", made.stderr


def test_what_is_no_function_is_missed_as_ever(tmp_path: Path) -> None:
    script = (
        "from icectl.entries.arrow_imports import import_compute_later\n"
        "import_compute_later()\n"
        "import pyarrow.compute as pc\n"
        "pc.no_such_function\n"
    )
    ended = run(script, tmp_path)
    told = ended.stderr.splitlines()[-1]
    assert told == "AttributeError: module 'pyarrow.compute' has no attribute 'no_such_function'"


def test_arrays_are_made_while_another_thread_imports_numpy_ma(tmp_path: Path) -> None:
    script = (
        "from icectl.entries.arrow_imports import import_masked_arrays_later, leave_pandas_out\n"
        "leave_pandas_out(); import_masked_arrays_later()\n"
        "import sys, types, numpy as np, pyarrow as pa\n"
        "sys.modules['numpy.ma'] = types.ModuleType('numpy.ma')  # what it is in the meantime\n"
        "half = pa.array(np.arange(3)).to_pylist()\n"
        "del sys.modules['numpy.ma']\n"
        "print(half, pa.array(np.arange(3)).to_pylist())\n"
    )
    ended = run(script, tmp_path)
    assert ended.stdout == "[0, 1, 2] [0, 1, 2]\n", ended.stderr
