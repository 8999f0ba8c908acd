"""Maintaining several tables on Spark: one session for all steps of a run."""

import json
import shutil
from pathlib import Path

import pytest

from tests.builders.orphans import stray
from tests.builders.rows import current_metadata, read_metadata, read_rows
from tests.builders.table_builder import TableBuilder
from tests.spark.engine import on_spark, skip_without_spark

pytestmark = [pytest.mark.spark, pytest.mark.full, pytest.mark.xdist_group("spark-runs")]


@pytest.fixture
def started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file with a line for each Java process of Spark that was started."""
    skip_without_spark()
    java, lines = shutil.which("java"), tmp_path / "started"
    wrapper = tmp_path / "java" / "bin" / "java"
    wrapper.parent.mkdir(parents=True)
    wrapper.write_text(
        '#!/bin/sh\ncase "$*" in *launcher.Main*) ;;\n'
        f'*pyspark-shell*) echo "$*" >> {lines};; esac\nexec {java} "$@"\n'
    )
    wrapper.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(wrapper.parents[1]))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("ICECTL_COMPACT_ENGINE", raising=False)
    return lines


@pytest.mark.parametrize("dry_run", [False, True])
def test_one_session_serves_all_steps_of_a_run(started, tmp_path, *, dry_run):
    tables = [TableBuilder(tmp_path / "wh" / name) for name in ("a", "b", "c")]
    for table in tables:
        for number in range(8):
            table.append([number])
        stray(table.directory, "data/left.parquet", days=9 * 365)
    TableBuilder(tmp_path / "wh" / "calm").append([1])
    policy = tmp_path / "maintain.toml"
    policy.write_text("remove-orphans.engine = 'spark'\nvalidate.level = 'files'\n")
    words = ["-m", "icectl", "maintain", str(tmp_path / "wh"), "--policy", str(policy), "--json"]
    if dry_run:
        planned = on_spark(*words, "--dry-run")
        assert planned.returncode == 0, planned.stderr
        assert len(started.read_text().splitlines()) == 1  # what lists files starts it
        return
    ended = on_spark(*words)
    assert ended.returncode == 0, ended.stderr
    found = {Path(row["table"]).name: row for row in json.loads(ended.stdout)["result"]["tables"]}
    assert {name: row["status"] for name, row in found.items()} == {
        "a": "done", "b": "done", "c": "done", "calm": "nothing-to-do",
    }  # fmt: skip
    assert len(started.read_text().splitlines()) == 1
    for table in tables:
        rows = read_rows(read_metadata(current_metadata(table.directory)))
        assert sorted(dict(row)["id"] for row in rows) == sorted(table.ids())
        assert not (table.directory / "data/left.parquet").exists()
    started.unlink()
    again = on_spark(*words, "--only", "compact")
    assert (again.returncode, started.exists()) == (0, False), again.stderr
