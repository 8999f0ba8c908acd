"""Hints of refusals that name commands: each runs on the table it was given for, and helps."""

import ast
import re
import shlex
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import icectl
from icectl.cli import engines
from icectl.cli.registry import COMMANDS
from icectl.env import Env
from tests.builders.broken import Broken
from tests.builders.expiry import NOW_MS
from tests.builders.first_writers import as_first_writers_did
from tests.builders.inline_engine import InlineEngine
from tests.builders.rows import current_metadata, read_metadata
from tests.builders.table_builder import TableBuilder, filled_table
from tests.builders.warehouse import at_rest
from tests.cli.conftest import Ended, Run
from tests.stores.fixed_env import FixedEnv

READING = ("inspect", "validate")
WITHOUT_TABLE = ("apply", "doctor", "runs")


@dataclass(frozen=True)
class Refusal:
    """A command line that is refused; `helps` if it ends with 0 after the commands of its hint.

    In the lines, T is the table, MOVED a table that was moved, FIRST and LAST are snapshots of T.
    """

    line: str
    code: int
    commands: int = 1
    helps: bool = False
    version: int = 2


REFUSALS = {
    "a branch with the name of a tag": Refusal("refs T branch eoy", 5, helps=True),
    "a tag with the name of a branch": Refusal("refs T tag audit", 5, helps=True),
    "a ref at nothing": Refusal("refs T tag new --at nothing", 2, commands=2),
    "a rollback to a time before all snapshots": Refusal("refs T rollback --to 2001-01-01", 2),
    "a rollback to a snapshot of another branch": Refusal(
        "refs T rollback old --to LAST", 5, helps=True
    ),
    "a rollback of no branch": Refusal("refs T rollback none --to FIRST", 2),
    "a version by property": Refusal("properties T set format-version=3", 2, commands=3, version=1),
    "a count by property": Refusal("properties T set snapshot-count=1", 2),
    "a current snapshot by property": Refusal("properties T set current-snapshot-id=1", 2),
    "a summary by property": Refusal("properties T set current-snapshot-summary=1", 2),
    "a schema by property": Refusal("properties T set current-schema=1", 2),
    "a spec by property": Refusal("properties T set default-partition-spec=1", 2),
    "a sort order by property": Refusal("properties T set default-sort-order=1", 2),
    "a malformed property": Refusal("rewrite-manifests T -n", 5, helps=True),
    "a missing snapshot": Refusal("inspect T files --snapshot 17", 2),
    "a time before the log": Refusal("inspect T files --as-of 2001-01-01", 2),
    "a missing ref": Refusal("inspect T files --ref none", 2),
    "a missing branch": Refusal("compact T --branch none", 2),
    "a missing spec": Refusal("compact T --output-spec-id 7", 2),
    "a missing spec of manifests": Refusal("rewrite-manifests T --spec-id 7", 2),
    "a missing partition field": Refusal("rewrite-manifests T --sort-by none", 2),
    "a missing column": Refusal("analyze T --columns zz", 2),
    "an expired snapshot": Refusal("expire-snapshots T --snapshot-id 17", 2),
    "a repair of a healthy branch": Refusal("repair T --to-snapshot FIRST", 5, helps=True),
    "a repair to another branch's snapshot": Refusal(
        "repair T --branch old --to-snapshot LAST", 5, helps=True
    ),
    "two commits with one file": Refusal(
        "migrate-v1-v2 T --rewrite-manifests --metadata-file next.json", 2, version=1
    ),
    "a moved table": Refusal("compact MOVED -n", 5, helps=True),
    "a moved table with another place": Refusal("relocate MOVED --to /elsewhere/t", 2),
}
"""Refusals whose hints name commands, by what is wrong."""


@pytest.fixture
def run(prepared: Callable[[str, Env], Run], monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setattr(engines, "LocalEngine", InlineEngine)
    return prepared("inspect", FixedEnv(NOW_MS))


def build(folder: Path, refusal: Refusal) -> dict[str, str]:
    """A table for a refusal, and what the words of its line mean."""
    is_malformed = refusal is REFUSALS["a malformed property"]
    properties = {"commit.manifest.target-size-bytes": "many"} if is_malformed else {}
    table = TableBuilder(folder / "t", format_version=refusal.version, properties=properties)
    table.append(range(3))
    table.ref("old", "branch")
    table.append(range(3, 6))
    table.ref("eoy", "tag")
    table.ref("audit", "branch")
    location = Path(table.location)
    snapshots = read_metadata(current_metadata(location))["snapshots"]
    if "MOVED" in refusal.line:
        shutil.move(location, folder / "moved")
    return {
        "T": str(location),
        "MOVED": str(folder / "moved"),
        "FIRST": str(snapshots[0]["snapshot-id"]),
        "LAST": str(snapshots[-1]["snapshot-id"]),
        "next.json": str(folder / "next.json"),
    }


def commands_of(ended: Ended) -> list[list[str]]:
    """The words of the commands that a hint names."""
    _, _, hint = ended.err.partition("hint: ")
    return [shlex.split(line)[1:] for line in re.findall(r"`(icectl [^`]*)`", hint)]


@pytest.mark.parametrize("wrong", REFUSALS)
def test_commands_in_hints_of_refusals_run_and_help(tmp_path, run, wrong):
    refusal = REFUSALS[wrong]
    meaning = build(tmp_path, refusal)
    command, *words = (meaning.get(word, word) for word in refusal.line.split())

    def refused() -> Any:
        yes = () if command in READING or "-n" in words else ("--yes",)
        return run(*words, *yes, command=command)

    ended = refused()
    assert ended.code == refusal.code, ended.err
    hinted = commands_of(ended)
    assert len(hinted) == refusal.commands, ended.err
    for number, (name, *options) in enumerate(hinted, 1):
        given = [meaning["FIRST"] if word == "SNAPSHOT" else word for word in options]
        if name not in READING:  # of several ways only the last one is taken
            given.append("--yes" if number == len(hinted) else "--dry-run")
        assert (tried := run(*given, command=name)).code == 0, (given, tried.err)
    assert (refused().code == 0) == refusal.helps


def numbered(table: TableBuilder) -> None:
    def change(members: dict[str, Any]) -> None:
        members["snapshots"][0].update({"first-row-id": 0, "added-rows": 3})

    Broken(table.directory).edit(change)


def numbered_behind_the_head(table: TableBuilder) -> None:
    numbered(table)
    table.follow()
    table.append(range(3, 6))


def numbered_on_a_branch(table: TableBuilder) -> None:
    table.ref("audit branch", "branch")
    table.ref("old", "tag")
    numbered_behind_the_head(table)


def a_lost_manifest(table: TableBuilder) -> None:
    table.append(range(3, 6))
    Broken(table.directory).edit_head_list(lambda rows: rows[:1])


def deletes_by_path(table: TableBuilder) -> None:
    table.delete_rows([1])


def embedded(table: TableBuilder) -> None:
    as_first_writers_did(table.directory, embedding=1)


UPGRADES: dict[str, tuple[Callable[[TableBuilder], None], int, str]] = {
    "row ids of a head of version 2": (numbered, 2, "upgrade-to-v3 T"),
    "row ids of version 2": (numbered_behind_the_head, 2, "upgrade-to-v3 T"),
    "row ids of a branch and a tag": (numbered_on_a_branch, 2, "upgrade-to-v3 T"),
    "a list that has lost a manifest": (a_lost_manifest, 2, "upgrade-to-v3 T"),
    "deletes by path": (deletes_by_path, 2, "upgrade-to-v4 T --layout iceberg-1.12"),
    "embedded manifests": (embedded, 1, "upgrade-to-v4 T --layout iceberg-1.12"),
}
"""Upgrades that are refused: what is done to a table before, its version, and the line."""


@pytest.mark.parametrize("name", UPGRADES)
def test_commands_in_hints_of_refused_upgrades_lead_to_them_one_after_the_other(
    tmp_path, run, name
):
    spoil, version, line = UPGRADES[name]
    table = filled_table(tmp_path / "t", range(3), format_version=version, partitioning="none")
    spoil(table)
    command, *words = (table.location if word == "T" else word for word in line.split())
    refused = run(*words, "--yes", command=command)
    assert refused.code == 5, refused.err
    hinted = commands_of(refused)
    assert hinted, refused.err
    for before, *options in hinted:
        tried = run(*options, "--yes", command=before)
        assert tried.code == (5 if "--dry-run" in options else 0), tried.err
    assert (ended := run(*words, "--yes", command=command)).code == 0, ended.err


def test_hints_for_names_of_a_catalog_lead_to_its_tables(server, run):
    """A missing table, and a name that is too short for a table."""
    at_rest(server, "orders")
    for name, code in [("main.db.inner.lost", 10), ("main", 2)]:
        ended = run(name, "--dry-run", command="compact")
        assert ended.code == code, ended.err
        [[command, *words]] = commands_of(ended)
        listed = run(*words, command=command)
        assert listed.code == 0, listed.err
        assert "orders" in listed.out
    ended = run("main.db.inner.order", command="compact")
    assert "did you mean `main.db.inner.orders`?" in ended.err


def test_commands_in_hints_name_their_table():
    """A command that is copied from a hint would end with: `TABLE` is missing."""
    sources = Path(icectl.__file__).parent.rglob("*.py")
    hints = [
        (str(source), part.value)
        for source in sources
        for node in ast.walk(ast.parse(source.read_text()))
        if isinstance(node, ast.keyword) and node.arg == "hint"
        for part in ast.walk(node.value)
        if isinstance(part, ast.Constant) and isinstance(part.value, str)
    ]
    assert len(hints) > 200
    of_tables = "|".join(name for name in COMMANDS if name not in WITHOUT_TABLE)
    lone = re.compile(f"`icectl ({of_tables})(`| --)")
    assert [hint for hint in hints if lone.search(hint[1])] == []
