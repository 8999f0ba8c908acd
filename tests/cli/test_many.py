"""One command on several tables: each as by itself, one report."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from icectl.commands import launch
from icectl.env import Env
from tests.builders.rows import current_metadata
from tests.builders.table_builder import START_MS, TableBuilder
from tests.builders.warehouse import at_rest, broken, register, rotten, warehouse
from tests.catalogs.sql_servers import SqlServer
from tests.cli.conftest import Ended, Run, checked_document
from tests.stores.fixed_env import FixedEnv

PREFIX = "main.db.inner."


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SqlServer]:
    with warehouse(tmp_path, monkeypatch) as started:
        yield started


@pytest.fixture
def run(prepared: Callable[[str, Env], Run]) -> Run:
    """Run a command thirty days after the tables were built."""
    return prepared("validate", FixedEnv(START_MS + 30 * 86_400_000))


def ends(ended: Ended) -> dict[str, tuple[str, int]]:
    tables = checked_document(ended)["result"]["tables"]
    return {row["table"].removeprefix(PREFIX): (row["status"], row["exit"]) for row in tables}


def results(ended: Ended) -> list[dict[str, Any]]:
    return [row["result"] for row in checked_document(ended)["result"]["tables"]]


def test_tables_of_a_glob_are_validated_and_errors_end_with_4(server, run):
    at_rest(server, "calm")
    broken(server, "lost")
    ended = run("main.**", "--json")
    assert ends(ended) == {"calm": ("done", 0), "lost": ("done", 4)}
    assert ended.code == 4
    assert [result["counts"]["error"] for result in results(ended)] == [0, 1]
    lines = run("main.**").out.splitlines()
    assert lines[1] == "main.db.inner.calm  ok      4 files checked"
    assert lines[2] == "main.db.inner.lost  not ok  1 error, 2 files checked"
    assert lines[4].startswith("main.db.inner.lost:")
    assert "the file is missing (R-034)" in " ".join(lines[4:7])
    assert lines[-1] == "2 tables: 1 ok, 1 not ok"


def test_several_tables_are_named_one_by_one_and_in_folders(server, run):
    for name in ("a", "b", "c"):
        at_rest(server, name)
    base = str(server.warehouse)
    ended = run(f"{PREFIX}a", f"{base}/b", f"{base}/[c]", "--json", "--level", "metadata")
    assert list(ends(ended)) == ["a", f"{base}/b", f"{base}/c"]


def test_one_table_is_reported_as_ever(server, run):
    at_rest(server, "calm")
    assert "tables" not in run(f"{PREFIX}calm", "--json").document["result"]


def test_one_failure_stops_no_other(server, run):
    at_rest(server, "calm", {"gc.enabled": "false"})
    rotten(server, "rotten")
    words = (f"{PREFIX}calm", f"{PREFIX}rotten", f"{PREFIX}none")
    ended = run(*words, "--yes", "--json", command="expire-snapshots")
    assert ends(ended) == {"calm": ("refused", 5), "rotten": ("done", 0), "none": ("failed", 10)}
    assert (ended.code, ended.document["status"]) == (3, "incomplete")


def test_a_broken_table_among_several_has_the_hint_that_it_has_alone(server, run):
    broken(server, "lost")
    named = f"{PREFIX}lost"
    alone = run(named, "--json", command="rewrite-manifests").document["error"]["hint"]
    ended = run(named, named, "--json", command="rewrite-manifests")
    (found, *_) = checked_document(ended)["result"]["tables"]
    assert "icectl repair" in alone
    assert found["hint"] == alone


def test_a_check_of_several_tables_ends_with_4_where_one_has_work(server, run):
    at_rest(server, "calm")
    rotten(server, "rotten")
    ended = run("main.**", "--check", "--json", command="expire-snapshots")
    assert ends(ended) == {"calm": ("nothing-to-do", 0), "rotten": ("planned", 4)}
    assert (ended.code, ended.document["status"]) == (4, "planned")
    ended = run("main.**", "--dry-run", "--json", command="expire-snapshots")
    assert (ended.code, ended.document["status"]) == (0, "planned")


def test_a_question_is_asked_once_and_not_without_a_terminal(server, run):
    rotten(server, "rotten")
    current = server.current("rotten")
    ended = run("main.**", "--json", command="expire-snapshots")
    assert (ended.code, ended.document["error"]["id"]) == (2, "confirmation-needed")
    assert server.current("rotten") == current
    for command, more in (("rewrite-manifests", ()), ("compact", ("--engine", "local", "--json"))):
        assert run("main.**", *more, command=command).code == 2  # which tables it finds is open
        named = f"{PREFIX}rotten"
        assert run(named, named, *more, command=command).code == 0
        assert run("main.**", *more, "--yes", command=command).code == 0


def test_compact_of_several_tables_names_the_engine(server, run):
    rotten(server, "rotten")
    at_rest(server, "calm")
    ended = run("main.**", "--engine", "local", "--yes", command="compact")
    [done] = [line for line in ended.out.splitlines() if " done " in line]
    assert done.endswith(" files into 1 by the local engine, 1 delete file removed")


LINES = {
    "compact": (
        ("--engine", "local"),
        "24 files into 1 by the local engine, 1 delete file to remove",
        "24 files into 1 by the local engine, 1 delete file removed",
    ),
    "rewrite-manifests": ((), "12 manifests into 1", "12 manifests into 1"),
    "analyze": (("--engine", "local"), *["5 columns, SIZE read"] * 2),
    "expire-rows": (
        ("--where", "at < '2023-11-15T03:00'", "--max-fraction", "1"),
        "2 rows to delete", "2 rows deleted",
    ),
    "expire-snapshots": (
        (), "12 snapshots to expire, SIZE to free", "12 snapshots expired, SIZE freed",
    ),
    "remove-orphans": ((), "1 orphan to be deleted, 100 B", "1 orphan deleted, 100 B"),
    "remove-orphans --quarantine": (
        ("--quarantine", "away"), "1 orphan to be moved, 100 B", "1 orphan moved, 100 B",
    ),
    "migrate-v1-v2": ((), "version 1 to 2", "version 1 to 2"),
    "upgrade-to-v3": ((), *["version 2 to 3"] * 2),
    "upgrade-to-v4": (
        ("--layout", "sfc-1"), *["version 2 to 4, layout sfc-1"] * 2,
    ),
    "repair": (
        ("--drop-missing",),
        "1 repair, loses at most 3 rows", "1 repair done, loses at most 3 rows",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LINES)
def test_each_command_of_several_tables_says_what_it_does_to_each(server, run, tmp_path, name):
    """A plan says what a run does: no figure is 0 that is another where the table is alone."""
    command = name.split()[0]
    for table in ("a", "b"):
        if command == "migrate-v1-v2":
            TableBuilder(server.warehouse / table, format_version=1).append(range(3))
            register(server, table)
            continue
        built = rotten(server, table)
        if command == "repair":
            (built.directory / "data" / "00001.parquet").unlink()
    words, planned, done = LINES[name]
    words = [str(tmp_path / word) if word == "away" else word for word in words]
    for more, expected in ((("--dry-run",), planned), (("--yes",), done)):
        ended = run("main.db.inner.*", *words, *more, command=command)
        shown = ended.out.splitlines()[1:3]
        lines = [re.sub(r"[0-9.]+ KiB", "SIZE", " ".join(line.split()[2:])) for line in shown]
        assert lines == [expected] * 2, ended.out + ended.err


def test_every_command_of_several_tables_has_its_line():
    """Those that launch.run_on_each_table runs; `validate` is held above."""
    pages = Path(launch.__file__).parent.glob("*/options.py")
    found = [re.findall(r'run_on_each_table\("(\w+)"', page.read_text()) for page in pages]
    commands = {name.replace("_", "-") for names in found for name in names}
    assert commands == {name.split()[0] for name in LINES} | {"validate"}


@pytest.mark.parametrize(
    "words", [("--metadata-file", "x"), ("--deleted-list", "x"), ("--dry-run", "--save-plan", "x")]
)
def test_what_is_about_one_table_is_refused(server, run, words):
    at_rest(server, "calm")
    ended = run("main.**", *words, command="expire-snapshots")
    assert ended.code == 2
    assert f"`{words[-2]}` accepts one table, but TABLE selects several" in ended.err


def test_formats_of_ci_tell_of_each_table(server, run):
    rotten(server, "rotten")
    at_rest(server, "calm")
    current_metadata(at_rest(server, "lost").directory).write_text("{")
    words = ("main.**", "--check", "--format")
    (lost, work) = sorted(run(*words, "github", command="expire-snapshots").out.splitlines())
    assert lost.startswith("::error title=failed main.db.inner.lost::")
    assert work == (
        "::warning title=expire-snapshots main.db.inner.rotten::`icectl expire-snapshots` has work "
        "to do (`icectl expire-snapshots main.db.inner.rotten` does it)"
    )
    (suite,) = ET.fromstring(run(*words, "junit", command="expire-snapshots").out)
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("3", "1", "1")
    cases = {str(case.get("classname")): [one.tag for one in case] for case in suite}
    assert cases == {
        "main.db.inner.calm": [], "main.db.inner.lost": ["error"],
        "main.db.inner.rotten": ["failure"],
    }  # fmt: skip
    found = json.loads(run(*words, "sarif", command="expire-snapshots").out)
    places = [one["locations"][0]["physicalLocation"] for one in found["runs"][0]["results"]]
    assert sorted(one["artifactLocation"]["uri"] for one in places) == [
        "main.db.inner.lost", "main.db.inner.rotten",
    ]  # fmt: skip


def test_a_glob_without_tables_is_no_table(server, run):
    ended = run(f"{server.warehouse}/*", "--json")
    assert (ended.code, ended.document["error"]["message"]) == (
        10, f"there is no table at `{server.warehouse}/*`",
    )  # fmt: skip
