"""Nothing that is read runs code: no text of a table, and no file of the working directory.

Every attack leaves a file behind, the canary, if any of its code runs.
"""

import base64
import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from icectl.env import find_program
from icectl.errors import EngineError
from icectl.rows.spark_classic import check_installed
from tests.builders.table_builder import TableBuilder
from tests.security.hostile import Attack
from tests.spark.engine import command, environment, skip_without_spark

MODULES = ("icectl/__init__", "pyarrow", "numpy", "queue", "signal")
RUN = ("-P", "-c", "from icectl.__main__ import main; main()")
"""The installed command: the script beside Python does the same."""

SMALL = ("--target-file-size", "1MiB", "--min-input-files", "2", "--yes")


@pytest.fixture
def canary(tmp_path: Path) -> Path:
    return tmp_path / "canary"


@pytest.fixture
def folder(tmp_path: Path, canary: Path) -> Path:
    """A working directory with modules that attack whoever imports them, and a Spark beside it."""
    made = tmp_path / "theirs" / "here"
    for name in MODULES:
        module = made / f"{name}.py"
        module.parent.mkdir(parents=True, exist_ok=True)
        module.write_text(f"import os\nos.mkdir({str(canary)!r})\n")
    for program in (made / "java", made / "man", made.parent / "bin" / "spark-submit"):
        program.parent.mkdir(exist_ok=True)
        program.write_text(f"#!/bin/sh\n/bin/mkdir {canary}\nexit 1\n")
        program.chmod(0o755)
    (made.parent / "jars").mkdir()
    return made


def in_folder(folder: Path, *line: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run Python in a working directory, without the user's own settings."""
    env = {**os.environ, "XDG_CONFIG_HOME": "/nonexistent", **variables}
    return subprocess.run(
        line, cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=300
    )


def table_of(directory: Path, properties: dict[str, str] | None = None) -> Path:
    """A table of small files."""
    table = TableBuilder(directory, properties=properties or {})
    for start in range(0, 60, 12):
        table.append(range(start, start + 12), files=2)
    return directory


@pytest.mark.parametrize(
    "words",
    [
        ("validate", "wh/a", "--level", "data"),
        ("compact", "wh/a", "--engine", "local", *SMALL),
        ("maintain", "wh", "--jobs", "2", "--yes"),
    ],
    ids=lambda words: str(words[0]),
)
def test_workers_import_nothing_from_the_working_directory(folder, canary, words):
    table_of(folder / "wh" / "a")
    table_of(folder / "wh" / "b")
    done = in_folder(folder, sys.executable, *RUN, *words)
    assert done.returncode == 0, done.stderr
    assert not canary.exists()


def test_python_m_icectl_imports_nothing_from_the_working_directory(folder, canary):
    (folder / "icectl" / "__init__.py").unlink()
    (folder / "icectl").rmdir()
    table_of(folder / "t")
    done = in_folder(folder, sys.executable, "-m", "icectl", "validate", "t", "--level", "data")
    assert done.returncode == 0, done.stderr
    assert not canary.exists()


def test_programs_of_the_working_directory_are_not_found(folder, canary, monkeypatch):
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PATH", os.pathsep.join(["", ".", "../here"]))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    assert find_program("java") is None
    with pytest.raises(EngineError):
        check_installed()
    assert not canary.exists()
    monkeypatch.setenv("PATH", os.pathsep.join([".", str(folder)]))
    assert find_program("java") == str(folder / "java")


def of_a_property(folder: Path, attack: str) -> Path:
    """A table whose new files would go below a name that holds the attack."""
    return table_of(folder / "t", {"write.data.path": f"/dev/null/TaskFailed: {attack}"})


def of_a_missing_file(folder: Path, attack: str) -> Path:
    """A table that lacks a file, in whose name there is the attack."""
    table = table_of(folder / f"TaskFailed: {attack} " / "t")
    min((table / "data").rglob("*.parquet")).unlink()
    return table


def compact_on_spark(
    folder: Path, table: Path, **variables: str
) -> subprocess.CompletedProcess[str]:
    skip_without_spark()
    words = ("compact", str(table), "--engine", "spark", "--master", "local[1]", *SMALL)
    return in_folder(folder, *command(*RUN, *words), **(environment() | variables))


@pytest.mark.spark
@pytest.mark.xdist_group("spark-runs")
@pytest.mark.parametrize(
    "make", [pytest.param(of_a_property, marks=pytest.mark.full), of_a_missing_file]
)
def test_spark_runs_no_code_of_a_table(tmp_path, canary, make):
    attack = base64.b64encode(pickle.dumps(Attack(canary))).decode()
    table = make(tmp_path, attack)
    before = sorted((table / "metadata").iterdir())
    done = compact_on_spark(tmp_path, table)
    assert not canary.exists()
    assert done.returncode in (13, 15, 16), done.stderr
    assert "Traceback" not in done.stderr
    assert sorted((table / "metadata").iterdir()) == before


@pytest.mark.spark
@pytest.mark.xdist_group("spark-runs")
@pytest.mark.parametrize("attack", [pytest.param("modules", marks=pytest.mark.full), "programs"])
def test_spark_runs_nothing_of_the_working_directory(folder, canary, attack):
    variables = {}
    if attack == "modules":
        shutil.rmtree(folder.parent / "bin")
    else:
        variables["PATH"] = os.pathsep.join([".", os.environ["PATH"]])
    done = compact_on_spark(folder, table_of(folder / "t"), **variables)
    assert not canary.exists()
    assert done.returncode == 0, done.stderr
