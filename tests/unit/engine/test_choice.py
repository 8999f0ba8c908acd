"""Which engine is chosen: Spark where it is there, the local one where something is missing."""

import sys
from pathlib import Path

import pytest

from icectl.engine.choice import choose_engine


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with PySpark 4.1 and Java 21 alone; its folder of programs."""
    module = tmp_path / "modules" / "pyspark"
    module.mkdir(parents=True)
    (module / "__init__.py").write_text("__version__ = '4.1.0'\n")
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"21.0.2\" 2024-01-16' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("PATH", f"{java.parent}:/bin:/usr/bin")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.syspath_prepend(tmp_path / "modules")
    monkeypatch.delitem(sys.modules, "pyspark", raising=False)
    return java.parent


@pytest.mark.usefixtures("machine")
def test_spark_is_chosen_where_pyspark_and_java_are_there() -> None:
    chosen = choose_engine("auto")
    assert (chosen.name, str(chosen)) == ("spark", "engine: spark (PySpark and Java are there)")
    sys.modules.pop("pyspark")


def test_without_java_the_local_engine_is_chosen(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(machine.parent))
    chosen = choose_engine("auto")
    assert chosen.name == "local"
    assert chosen.why == "Spark needs Java 17 or newer, and there is no `java` on the PATH"
    sys.modules.pop("pyspark")


def test_with_an_old_java_the_local_engine_is_chosen(machine: Path) -> None:
    (machine / "java").write_text("#!/bin/sh\necho 'openjdk version \"1.8.0_402\"' >&2\n")
    assert choose_engine("auto").name == "local"
    sys.modules.pop("pyspark")


def test_without_pyspark_the_local_engine_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    assert str(choose_engine("auto")) == "engine: local (PySpark is not installed)"


def test_an_engine_that_is_asked_for_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    assert str(choose_engine("spark")) == "engine: spark"
    assert str(choose_engine("local", for_spark=True)) == "engine: local"
    assert str(choose_engine("auto", for_spark=True)) == "engine: spark"
