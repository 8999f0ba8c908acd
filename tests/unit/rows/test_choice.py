"""Which engine is chosen: Spark where it is there, the local one where something is missing."""

import sys
from pathlib import Path

import pytest

from icectl.rows.choice import choose_engine, confirm_engine, weigh_engine


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
    # what is written within one second would be taken from what was compiled before
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    return java.parent


def test_spark_is_chosen_where_pyspark_and_java_are_there(machine):
    chosen = choose_engine("auto")
    assert (chosen.name, str(chosen)) == ("spark", "engine: spark")
    assert confirm_engine(chosen) == chosen
    sys.modules.pop("pyspark")


def test_small_work_is_done_here_unless_spark_was_asked_for(machine):
    looked_at = choose_engine("auto")
    small = weigh_engine(looked_at, 5_000_000)
    assert str(small) == "engine: local (4.8 MiB to rewrite; Spark from 1.0 GiB)"
    assert weigh_engine(looked_at, 1 << 30) == looked_at
    asked_for = choose_engine("spark")
    assert weigh_engine(asked_for, 1) == asked_for
    assert weigh_engine(choose_engine("auto", for_spark=True), 1).name == "spark"


def test_the_choice_takes_a_look_alone(machine):
    (machine / "java").write_text(f"#!/bin/sh\ntouch {machine}/started\n")
    (machine.parent / "modules" / "pyspark" / "__init__.py").write_text("raise RuntimeError")
    assert choose_engine("auto").name == "spark"
    assert "pyspark" not in sys.modules
    assert not (machine / "started").exists()


def test_without_java_the_local_engine_is_chosen(machine, monkeypatch):
    monkeypatch.setenv("PATH", str(machine.parent))
    chosen = choose_engine("auto")
    assert chosen.name == "local"
    assert chosen.why == "Spark needs Java 17 or newer, and there is no `java` on the PATH"
    monkeypatch.setenv("JAVA_HOME", str(machine.parent))
    assert choose_engine("auto").name == "spark"  # where its bin is what Spark runs


def test_work_is_done_by_the_local_engine_where_java_or_pyspark_is_too_old(machine):
    (machine / "java").write_text("#!/bin/sh\necho 'openjdk version \"1.8.0_402\"' >&2\n")
    chosen = confirm_engine(choose_engine("auto"))
    java = machine / "java"
    assert str(chosen) == (
        f"engine: local (Java 8 at {java} is too old: Spark needs Java 17 or newer)"
    )
    sys.modules.pop("pyspark")
    (machine.parent / "modules" / "pyspark" / "__init__.py").write_text("__version__ = '3.5.1'\n")
    chosen = confirm_engine(choose_engine("auto"))
    assert chosen.why == "PySpark 3.5.1 is too old: 4.1 or newer is needed"
    sys.modules.pop("pyspark")
    asked = choose_engine("spark")
    assert confirm_engine(asked) == asked


def test_without_pyspark_the_local_engine_is_chosen(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyspark", None)
    assert str(choose_engine("auto")) == "engine: local (PySpark is not installed)"


def test_an_engine_that_is_asked_for_is_taken(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyspark", None)
    assert str(choose_engine("spark")) == "engine: spark"
    assert str(choose_engine("local", for_spark=True)) == "engine: local"
    assert str(choose_engine("auto", for_spark=True)) == "engine: spark"
