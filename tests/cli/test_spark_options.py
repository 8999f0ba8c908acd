"""Options about a session of icectl's own, where there is one that others have made."""

from pathlib import Path

import pytest

from tests.builders.compactions import build


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A table with work, in a program of spark-submit."""
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    build(tmp_path / "t", 2, "none")
    return str(tmp_path / "t")


@pytest.mark.parametrize("option", ["--master=yarn", "--spark-conf=spark.executor.cores=2"])
@pytest.mark.parametrize("words", [["compact"], ["remove-orphans", "--engine", "spark"]])
def test_the_cluster_of_a_submitted_program_is_not_its_own_to_choose(run, table, words, option):
    command, *more = words
    ended = run(command, table, "--dry-run", *more, option)
    assert ended.code == 2
    name = option.partition("=")[0]
    assert f"`{name}` is an option of spark-submit here" in ended.err


def test_a_server_and_a_master_exclude_each_other(run, tmp_path):
    build(tmp_path / "t", 2, "none")
    ended = run("compact", str(tmp_path / "t"), "--remote", "sc://h", "--master", "yarn")
    assert ended.code == 2
    assert "`--master` and `--remote` cannot be used together" in ended.err


def test_a_setting_about_sessions_of_its_own_does_not_concern_a_submitted_program(
    run, table, monkeypatch
):
    monkeypatch.setenv("ICECTL_COMPACT_MASTER", "yarn")
    assert run("compact", table, "--dry-run").code == 0
