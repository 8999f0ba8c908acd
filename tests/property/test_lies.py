"""One wrong field anywhere in a table's metadata costs no row and no file, whatever command runs.

What a lie may be about: tests/builders/lies.py. A
command either ends above 0 and changes nothing, or, once the true field is back, every snapshot
that stays has the rows that it was committed with, and the new ones have those of their parent; so
no file of theirs is gone.
"""

import json
import random
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table import StaticTable

from icectl.cli import app
from icectl.errors import IcectlError
from tests.builders.compactions import compacted, planned
from tests.builders.expiry import NOW_MS, Clock
from tests.builders.folders import contents_by_name
from tests.builders.lies import MAPPING, Lies, Place
from tests.builders.orphans import age
from tests.builders.rows import current_metadata, local, read_metadata, read_rows
from tests.builders.table_builder import TableBuilder
from tests.builders.twins import TreeTwin

AT_ONCE = ("--older-than", "0s", "--allow-recent", "--max-fraction", "1")
COMMANDS: dict[str, Callable[[Path], int]] = {}


def _cli(name: str, *words: str) -> None:
    def run(table: Path) -> int:
        return app.main([words[0], str(table), *words[1:], "--yes", "--quiet"], env=Clock(NOW_MS))

    COMMANDS[name] = run


def _compact(name: str, **chosen: Any) -> None:
    def run(table: Path) -> int:
        try:
            prepared = planned(table, **chosen)
            if prepared.plan.has_work:
                compacted(table, prepared)
        except IcectlError as error:
            return error.exit_code
        return 0

    COMMANDS[name] = run


_compact("compact by rewriting", method="rewrite")
_compact("compact by merging", method="auto")
_compact("compact deletes", deletes_only=True, every=True)
_compact("compact nothing but left-over deletes", min_input_files=99)
_cli("expire", "expire-snapshots", "--older-than", "0s", "--retain-last", "1")
_cli("expire half", "expire-snapshots", "--older-than", "0s", "--retain-last", "3")
_cli("orphans", "remove-orphans", *AT_ONCE)
_cli("manifests", "rewrite-manifests", "--target-size", "1KiB")
_cli("upgrade", "upgrade-to-v4", "--layout=sfc-1", "--eager")
_cli("upgrade lists", "upgrade-to-v4", "--layout=iceberg-1.12")
_cli("upgrade to 3", "upgrade-to-v3")
_cli("analyze", "analyze")
_cli("tag", "refs", "tag", "now")
_cli("properties", "properties", "set", "a=b")
CHEAP = [name for name in COMMANDS if not name.startswith("upgrade")]


@dataclass
class Case:
    """A true table, the rows of its snapshots, and the places where lies can be told of it."""

    name: str
    pristine: Path
    table: Path
    metadata: dict[str, Any] = field(init=False)
    rows: dict[int, Any] = field(init=False)
    lies: Lies = field(init=False)
    content: dict[str, bytes] = field(init=False)

    def __post_init__(self) -> None:
        self.restore()
        self.metadata = read_metadata(current_metadata(self.table))
        self.rows = {
            one["snapshot-id"]: read_rows(self.metadata, one["snapshot-id"])
            for one in self.metadata["snapshots"]
        }
        self.lies = Lies(self.table)
        self.content = contents_by_name(self.table)

    def restore(self) -> None:
        shutil.rmtree(self.table, ignore_errors=True)
        shutil.copytree(self.pristine, self.table)


# -- the law --------------------------------------------------------------------------------------


def broken_law(case: Case, command: str, rng: random.Random, place: Place) -> str | None:
    """Tell a lie and run a command: how it breaks the law; None if it holds, "" without a lie."""
    case.restore()
    told = case.lies.tell(place, rng)
    if told is None:
        return ""
    lie = told[0]
    before = contents_by_name(case.table)
    lied = {name for name, content in before.items() if content != case.content.get(name)}
    where = f"{case.name}, {command}: {place.kind} {place.file.name} {place.keys} = {lie!r}"
    try:
        code = COMMANDS[command](case.table)
    except Exception as error:  # noqa: BLE001 - whatever it is, it must not be raised
        return f"{where}: {type(error).__name__} {error}"
    after = contents_by_name(case.table)
    if code:
        lost = {name for name, content in before.items() if after.get(name) != content}
        lost = {name for name in lost if "/.icectl" not in name}
        return f"{where}: exit {code}, changed {lost}" if lost else None
    for name in lied & after.keys():  # the truth is back, where the lie was not rewritten
        if after[name] == before[name]:
            (case.table / name).write_bytes(case.content[name])
    return _other_rows(case, where)


def _list(snapshot: dict[str, Any]) -> Path:
    return local(snapshot.get("manifest-list") or snapshot.get("root-manifest") or "")


def _other_rows(case: Case, where: str) -> str | None:
    newest = read_metadata(current_metadata(case.table))
    snapshots = case.metadata["snapshots"]
    true = {one["snapshot-id"]: one for one in snapshots} | {_list(one): one for one in snapshots}
    kept = [
        true.get(one["snapshot-id"]) or true.get(_list(one)) or one for one in newest["snapshots"]
    ]
    head = case.metadata["current-snapshot-id"]
    for one in kept:
        id_ = one["snapshot-id"]
        expected = case.rows.get(id_, case.rows[head])
        base = newest if "root-manifest" in one and "expressions" in newest else case.metadata
        try:
            shown = read_rows({**base, "snapshots": [one]}, id_)
        except Exception as error:  # noqa: BLE001 - a file that is gone, or no file at all
            return f"{where}: snapshot {id_} cannot be read: {type(error).__name__} {error}"
        if shown != expected:
            kind = "old" if id_ in case.rows else "new"
            return f"{where}: {kind} snapshot {id_} has {len(shown)} rows, not {len(expected)}"
    kept_ids = {one["snapshot-id"] for one in kept}
    for one in (*case.metadata["statistics"], *case.metadata["partition-statistics"]):
        if one["snapshot-id"] in kept_ids and not local(one["statistics-path"]).exists():
            return f"{where}: statistics of snapshot {one['snapshot-id']} are gone"
    return None


# -- tables ---------------------------------------------------------------------------------------


def _analyze(table: TableBuilder) -> None:
    """Give the head statistics of columns and of partitions."""
    line = ["analyze", str(table.directory), "--yes", "--quiet"]
    assert app.main(line, env=Clock(table.now_ms)) == 0
    table.refresh() if isinstance(table, TreeTwin) else table.follow()


def _grown(table: TableBuilder, *, left_over: bool = True) -> None:
    """Appends, deletes of every kind, files replaced or removed, merged manifests, a tag."""
    names = ("id", "category", "amount", "at", "note")
    mapping = [{"field-id": at, "names": [name]} for at, name in enumerate(names, 1)]
    table.set_properties({MAPPING: json.dumps(mapping)})
    table.append(range(6), files=2)
    table.append(range(6, 12))
    table.ref("v1", "tag")
    _analyze(table)
    table.delete_rows([0, 7])
    if table.format_version == 2:
        table.delete_rows([4], kind="equality")
    table.append(range(12, 20), files=2)
    table.remove_data_files(1, keeps_vectors=left_over)
    table.delete_rows([13, 14])
    table.replace_data_files(2)
    table.append(range(20, 24))
    if left_over:
        _analyze(table)


def _cases(folder: Path) -> dict[str, Case]:
    made = {}
    for name, version, partitioning, scheme in (
        ("v2", 2, "identity", ""),
        ("v2 flat", 2, "none", "file:"),
        ("v3", 3, "identity", ""),
    ):
        place = folder / name.replace(" ", "-") / "t"
        table = TableBuilder(
            place, version, partitioning, merge_manifests_above=3, location=f"{scheme}{place}"
        )
        _grown(table)
        made[name] = table
    tree = TreeTwin(folder / "sfc-1" / "t", 3, "identity", merge_manifests_above=3)
    _grown(tree, left_over=False)
    tree.run("upgrade-to-v4", "--layout=sfc-1", "--yes")
    tree.append(range(24, 30))
    tree.delete_rows([21, 25])
    tree.run("rewrite-manifests", "--yes")
    tree.remove_data_files(1)
    tree.append(range(30, 33))
    _analyze(tree)
    made["sfc-1"] = tree
    cases = {}
    for name, table in made.items():
        age(table.directory, 30)
        pristine = table.directory.with_name("pristine")
        table.directory.rename(pristine)
        cases[name] = Case(name, pristine, table.directory)
    return cases


def lies(case: Case, seed: str, count: int, commands: Sequence[str]) -> list[str]:
    """Tell so many lies of one table, each with one command; the laws that were broken.

    Each has a seed of its own, `<seed> <number>`: so one can be told again alone.
    """
    found: list[str] = []
    number = told = 0
    while told < count:
        number += 1
        rng = random.Random(f"{seed} {number}")
        place = rng.choice(case.lies.places[rng.choice(sorted(case.lies.places))])
        broken = broken_law(case, rng.choice(commands), rng, place)
        told += broken != ""
        if broken:
            found.append(f"{number}: {broken}")
    return found


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Case]:
    return _cases(tmp_path_factory.mktemp("lies"))


NAMES = ("v2", "v2 flat", "v3", "sfc-1")
QUICK, FULL = 60, 1300
"""Lies of each of the tables."""


@pytest.mark.parametrize("name", NAMES)
def test_every_command_keeps_the_rows_of_a_true_table(cases, name):
    case = cases[name]
    for command in COMMANDS if name == "v2 flat" else CHEAP:
        case.restore()
        assert (command, COMMANDS[command](case.table)) == (command, 0)
        assert _other_rows(case, command) is None


@pytest.mark.parametrize(("name", "compared"), [("v2", 3), ("v2 flat", 3), ("v3", 8)])
def test_the_rows_that_are_compared_are_those_that_another_reader_has(cases, name, compared):
    """PyIceberg reads no equality deletes: only the first snapshots of version 2 have none."""
    case = cases[name]
    case.restore()
    table = StaticTable.from_metadata(str(current_metadata(case.table)))
    for snapshot_id, rows in list(case.rows.items())[:compared]:
        read = table.scan(snapshot_id=snapshot_id).to_arrow().to_pylist()
        assert sorted((tuple(sorted(row.items())) for row in read), key=repr) == rows
    assert len(rows) >= 10


@pytest.mark.parametrize("name", NAMES)
def test_a_lie_costs_no_row_and_no_file(cases, name):
    assert lies(cases[name], f"quick {name}", QUICK, CHEAP) == []


@pytest.mark.full
@pytest.mark.parametrize("name", NAMES)
def test_many_lies_cost_no_row_and_no_file(cases, name):
    seed = f"{random.SystemRandom().getrandbits(32)} {name}"
    assert (seed, lies(cases[name], seed, FULL, list(COMMANDS))) == (seed, [])
