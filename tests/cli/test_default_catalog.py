"""The default catalog: names that begin with no catalog, and what may be two things."""

import json
from pathlib import Path

import pytest

from tests.builders.table_builder import START_MS, TableBuilder
from tests.builders.warehouse import at_rest, rotten
from tests.cli.conftest import Run, result
from tests.security.test_plans import forge
from tests.stores.fixed_env import FixedEnv

NOW_MS = START_MS + 30 * 86_400_000


@pytest.fixture
def icectl(server, prepared, monkeypatch, tmp_path) -> Run:
    """Run a command in an empty folder, with `main` as the default catalog."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("ICECTL_DEFAULT_CATALOG", "main")
    run = prepared("inspect", FixedEnv(NOW_MS))
    return lambda command, *words: run(*words, command=command)


def test_names_of_each_length_are_in_the_default_catalog(server, icectl, monkeypatch):
    at_rest(server, "calm")
    assert result(icectl("inspect", "db.inner.calm", "--json"))["record_count"] == 10
    whole = icectl("inspect", "main.db.inner.calm").out
    assert icectl("inspect", "db.inner.calm").out == whole
    assert "main.db.inner.calm" in icectl("inspect", "db.inner").out
    assert icectl("inspect").out == icectl("inspect", "main").out
    assert icectl("inspect", "health").code == icectl("inspect", "db.**", "health").code == 0
    listed = result(icectl("validate", "db.*.c*", "--json"))["tables"]
    assert [row["table"] for row in listed] == ["main.db.inner.calm"]
    monkeypatch.delenv("ICECTL_DEFAULT_CATALOG")
    assert icectl("inspect", "db.inner.calm").code == 10


def test_what_is_printed_and_kept_names_the_catalog(server, icectl, tmp_path):
    rotten(server, "rotten")
    plan = tmp_path / "plan.json"
    assert icectl("expire-snapshots", "db.inner.rotten", "-n", "--save-plan", str(plan)).code == 0
    assert json.loads(plan.read_text())["table"] == "main.db.inner.rotten"
    missing = icectl("inspect", "db.inner.rottn")
    assert (missing.code, "did you mean `main.db.inner.rotten`?" in missing.err) == (10, True)
    policy = tmp_path / "maintain.toml"
    policy.write_text("[[rule]]\ntables = ['main.db.inner.rotten']\nenabled = false\n")
    rows = result(icectl("maintain", "db.inner", "--policy", str(policy), "--json"))["tables"]
    assert [(row["table"], row["status"]) for row in rows] == [("main.db.inner.rotten", "skipped")]


def test_a_configured_catalog_comes_first(server, icectl, monkeypatch):
    at_rest(server, "calm")
    monkeypatch.setenv("PYICEBERG_CATALOG__DB__URI", "http://127.0.0.1:9")
    ended = icectl("inspect", "db.inner.calm")
    assert (ended.code, "127.0.0.1:9" in ended.err) == (13, True)
    assert icectl("inspect", "main.db.inner.calm").code == 0
    assert icectl("inspect", "db.inner.calm", "--catalog", "main").code == 0


def test_what_is_a_path_too_is_wrong_usage_that_names_both_ways(server, icectl):
    at_rest(server, "calm")
    TableBuilder(Path("db.inner.calm")).append([1, 2])
    ended = icectl("expire-snapshots", "db.inner.calm", "--yes")
    assert ended.code == 2
    assert "`db.inner.calm` is both a path and a name in the default catalog `main`" in ended.err
    assert "`./db.inner.calm` means the path, `main.db.inner.calm` the name" in ended.err
    assert result(icectl("inspect", "./db.inner.calm", "--json"))["record_count"] == 2
    assert icectl("inspect", "main.db.inner.calm").code == 0


def test_a_default_that_is_not_configured_is_named_with_its_origin(icectl, monkeypatch, tmp_path):
    monkeypatch.setenv("ICECTL_DEFAULT_CATALOG", "mian")
    ended = icectl("inspect", "db.inner.calm")
    assert ended.code == 10
    assert "there is no catalog `mian`, which `ICECTL_DEFAULT_CATALOG` names" in ended.err
    assert "did you mean `main`?" in ended.err
    monkeypatch.delenv("ICECTL_DEFAULT_CATALOG")
    config = tmp_path / "icectl.toml"
    config.write_text('default-catalog = "main"\n')
    assert "catalog `main`" in icectl("inspect", "db.inner.calm", "--config", str(config)).err


def test_no_plan_is_resolved_by_it(server, icectl, tmp_path):
    rotten(server, "rotten")
    place = tmp_path / "plan.json"
    icectl("expire-snapshots", "db.inner.rotten", "-n", "--save-plan", str(place))
    forge(place, lambda plan: plan.update(table="db.inner.rotten"))
    ended = icectl("apply", str(place))
    assert (ended.code, "there is no catalog `db`" in ended.err) == (10, True)


def test_words_of_inspect_are_views_before_they_are_names(server, icectl):
    at_rest(server, "calm")
    both = icectl("inspect", "db.inner.calm", "main.db.inner.calm", "health", "--json")
    assert [row["table"] for row in both.document["result"]["tables"]] == ["main.db.inner.calm"]
    swapped = icectl("inspect", "files", "main.db.inner.calm")
    assert "hint: `icectl inspect main.db.inner.calm files`" in swapped.err
