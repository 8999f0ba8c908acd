"""Policies: what they say of Spark counts in a file of the caller alone, and never untrusted."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from icectl.commands.maintain.policy import SPARK_KEYS, read_policy
from icectl.env import Env
from icectl.errors import Refused
from tests.builders.table_builder import START_MS
from tests.builders.warehouse import rotten
from tests.cli.conftest import Run
from tests.stores.fixed_env import FixedEnv

LINES = {
    "compact.spark-conf": 'spark-conf = ["spark.python.daemon.module=evil"]',
    "compact.master": 'master = "spark://thief:7077"',
    "compact.remote": 'remote = "sc://thief:15002"',
    "analyze.spark-conf": 'spark-conf = ["spark.python.daemon.module=evil"]',
    "analyze.master": 'master = "spark://thief:7077"',
    "analyze.remote": 'remote = "sc://thief:15002"',
    "erase.spark-conf": 'spark-conf = ["spark.python.daemon.module=evil"]',
    "erase.master": 'master = "spark://thief:7077"',
    "erase.remote": 'remote = "sc://thief:15002"',
    "remove-orphans.spark-conf": 'spark-conf = ["spark.python.daemon.module=evil"]',
    "remove-orphans.master": 'master = "spark://thief:7077"',
}


@pytest.fixture
def run(prepared: Callable[[str, Env], Run]) -> Run:
    return prepared("maintain", FixedEnv(START_MS + 30 * 86_400_000))


def policy(folder: Path, key: str = "compact.spark-conf", mode: int = 0o644) -> str:
    place = folder / "maintain.toml"
    place.write_text(f"[[rule]]\ntables = '**'\n[rule.{key.partition('.')[0]}]\n{LINES[key]}\n")
    place.chmod(mode)
    return str(place)


def test_these_are_the_keys_of_spark():
    assert set(LINES) == SPARK_KEYS


@pytest.mark.parametrize("key", LINES)
def test_an_untrusted_policy_says_nothing_of_spark(server, run, tmp_path, monkeypatch, key):
    place = policy(tmp_path, key)
    rotten(server, "rotten", appends=1)
    before = sorted(server.warehouse.rglob("*"))
    for words, variable in ((["--untrusted-policy"], ""), ([], "true")):
        monkeypatch.setenv("ICECTL_MAINTAIN_UNTRUSTED_POLICY", variable)
        ended = run("main", "--policy", place, "--json", *words)
        assert (ended.code, ended.document["error"]["id"]) == (5, "untrusted-policy"), ended.out
        assert f"`{key}`, rule 1 in {place}" in ended.document["error"]["message"]
    monkeypatch.setenv("ICECTL_MAINTAIN_UNTRUSTED_POLICY", "")
    assert run("main", "--policy", place, "-n", "--only", "rewrite-manifests").code == 0
    assert sorted(server.warehouse.rglob("*")) == before


@pytest.mark.parametrize(
    "line",
    [
        "erase.keys = '/k.csv'", "erase.expire-history = true",
        "expire-rows.where = \"at < 'now - 1d'\"", "expire-rows.max-fraction = '100%'",
        "expire-rows.expired-rows = '50%'", "steps = ['compact', 'expire-rows']",
        "steps = 'erase'",
    ],
)  # fmt: skip
def test_an_untrusted_policy_deletes_no_rows(tmp_path, line):
    place = tmp_path / "maintain.toml"
    place.write_text(f"[[rule]]\ntables = '**'\n{line}\n")
    place.chmod(0o644)
    read_policy(str(place))
    with pytest.raises(Refused, match=f"`{line.split()[0]}`, rule 1 in") as error:
        read_policy(str(place), is_trusted=False)
    assert error.value.error_id == "untrusted-policy"
    place.write_text("steps = ['compact']\n")
    read_policy(str(place), is_trusted=False)


@pytest.mark.parametrize("mode", [0o664, 0o646, 0o666])
def test_a_policy_that_others_may_write_says_nothing_of_spark(tmp_path, mode):
    place = policy(tmp_path, mode=mode)
    with pytest.raises(Refused, match=f"others may write to {place}"):
        read_policy(place)
    Path(place).write_text("steps = ['compact']\n")
    read_policy(place)  # anything else may stand there


@pytest.mark.parametrize(("mode", "is_good"), [(0o777, False), (0o775, False), (0o1777, True)])
def test_nor_does_one_in_a_folder_that_others_may_write(tmp_path, mode, *, is_good):
    folder = tmp_path / "folder"
    folder.mkdir()
    place = policy(folder)
    folder.chmod(mode)
    (tmp_path / "link.toml").symlink_to(place)
    for one in (place, str(tmp_path / "link.toml")):
        if is_good:
            read_policy(one)
            continue
        with pytest.raises(Refused, match=f"others may write to {folder}"):
            read_policy(one)


def test_nor_does_the_file_of_another_user(tmp_path, monkeypatch):
    place = policy(tmp_path)
    if os.geteuid() == 0:
        os.chown(place, 54321, -1)  # what is root's is anybody's to rely on
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.raises(Refused, match=f"{place} belongs to another user"):
        read_policy(place)


def test_the_command_line_says_on_which_spark_a_policy_is_run(server, run, tmp_path):
    rotten(server, "rotten", appends=1)
    place = policy(tmp_path, "compact.master")
    words = (
        "main.db.inner.rotten", "--policy", place, "--explain", "--master", "local[2]", "--json",
    )  # fmt: skip
    found = run(*words)
    rows = {row["key"]: row for row in found.document["result"]["explained"]["policy"]}
    assert rows["compact.master"]["value"] == "local[2]"
    assert rows["compact.master"]["origin"] == "`--master`"
    assert "remove-orphans.master" not in rows  # which lists files here
    policy(tmp_path, "compact.remote")
    found = run(*words)
    rows = {row["key"]: row for row in found.document["result"]["explained"]["policy"]}
    assert rows["compact.master"]["value"] == "local[2]"
    assert "compact.remote" not in rows
