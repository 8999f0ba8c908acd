"""One wrong field anywhere in a table's metadata costs no row and no file, whatever command runs.

A lie changes one field of a metadata file, a manifest list, a manifest's entry, a root, a leaf or a
Puffin footer, or drops one row of these, and leaves the lengths right that others say. Then a
command either ends above 0 and changes nothing, or, once the true field is back, every snapshot
that stays has the rows that it was committed with, and the new ones have those of their parent; so
no file of theirs is gone.
"""

import json
import random
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from icectl.cli import app
from icectl.errors import IcectlError
from tests.builders.broken import read_records, rewrite_avro
from tests.builders.broken_tree import rewrite_parquet
from tests.builders.compactions import compacted, planned
from tests.builders.expiry import NOW_MS, Clock
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
_cli("tag", "refs", "tag", "now")
_cli("properties", "properties", "set", "a=b")
CHEAP = [name for name in COMMANDS if not name.startswith("upgrade")]


@dataclass(frozen=True)
class Place:
    """One field: a file, the keys down to it, and for records their number."""

    file: Path
    keys: tuple[Any, ...]
    kind: str


@dataclass
class Case:
    """A true table, the rows of its snapshots, and a place for copies of it."""

    name: str
    pristine: Path
    table: Path
    metadata: dict[str, Any] = field(init=False)
    rows: dict[int, Any] = field(init=False)
    places: list[Place] = field(init=False)
    records: dict[Path, list[Any]] = field(init=False)
    content: dict[str, bytes] = field(init=False)

    def __post_init__(self) -> None:
        self.restore()
        self.metadata = read_metadata(current_metadata(self.table))
        self.rows = {
            one["snapshot-id"]: read_rows(self.metadata, one["snapshot-id"])
            for one in self.metadata["snapshots"]
        }
        stored = {path: read_records(path) for path in (self.table / "metadata").glob("*.avro")}
        self.records = {path: records for path, records in sorted(stored.items()) if records}
        self.places = list(_places(self.table, self.records))
        self.content = contents(self.table)

    def restore(self) -> None:
        shutil.rmtree(self.table, ignore_errors=True)
        shutil.copytree(self.pristine, self.table)


def contents(directory: Path) -> dict[str, bytes]:
    """Every file with its bytes."""
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file()
    }


# -- fields ---------------------------------------------------------------------------------------


def _leaves(value: Any, keys: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _leaves(item, (*keys, key))
    elif isinstance(value, list):
        for at, item in enumerate(value):
            yield from _leaves(item, (*keys, at))
    else:
        yield keys


def _is_statistic(keys: tuple[Any, ...]) -> bool:
    """Whether a field only tells readers which rows to skip."""
    names = set(map(str, keys))
    return bool(names & {"value_counts", "null_value_counts", "nan_value_counts", "column_sizes"})


def _places(table: Path, records_of: dict[Path, list[Any]]) -> Iterator[Place]:
    current = current_metadata(table)
    for keys in _leaves(read_metadata(current)):
        yield Place(current, keys, "metadata")
    for path, records in records_of.items():
        is_list = "manifest_path" in records[0]
        for keys in _leaves(records):
            if not _is_statistic(keys):
                yield Place(path, keys, "list" if is_list else "entry")
    for path in sorted((table / "metadata").glob("*.parquet")):
        for keys in _leaves(pq.read_table(path).to_pylist()):
            if "content_stats" not in keys:
                yield Place(path, keys, "tree")
    for path in sorted((table / "data").rglob("*.puffin")):
        for keys in _leaves(_footer(path.read_bytes())[1]):
            yield Place(path, keys, "puffin")
    stored = {path: pq.read_table(path) for path in (table / "metadata").glob("*.parquet")}
    for path, records in sorted({**records_of, **stored}.items()):
        yield from (Place(path, (at,), "row") for at in range(len(records)))


def _footer(content: bytes) -> tuple[int, Any]:
    """Where the footer of a Puffin file begins, and what it says."""
    start = len(content) - 12 - int.from_bytes(content[-12:-8], "little")
    return start, json.loads(content[start:-12])


def _at(value: Any, keys: tuple[Any, ...]) -> Any:
    for key in keys:
        value = value[key]
    return value


def _lied(rng: random.Random, true: Any, others: list[Any]) -> Any:
    """Another value for a field: of another field of that name, near, none, or an extreme."""
    different = [one for one in others if one != true]
    ways: list[Any] = [lambda: None]
    if different:
        ways += [lambda: rng.choice(different)] * 4
    if isinstance(true, bool):
        ways += [lambda: not true] * 3
    elif isinstance(true, int):
        ways += [lambda: true + rng.choice([-1, 1])] * 2
        ways += [
            lambda: true ^ (1 << rng.randrange(20)),
            lambda: rng.choice([0, -1, 10**15, 2**62]),
        ]
    elif isinstance(true, str) and true:
        at = rng.randrange(len(true))
        flipped = chr(ord(true[at]) ^ 1)
        ways += [lambda: true[:at] + flipped + true[at + 1 :]] * 2
    elif isinstance(true, bytes) and true:
        ways += [lambda: bytes([true[0] ^ 1]) + true[1:]] * 2
    return rng.choice(ways)()


def _siblings(value: Any, keys: tuple[Any, ...]) -> list[Any]:
    """The values of fields with the same names in other records."""
    found: list[Any] = []

    def walk(part: Any, rest: tuple[Any, ...]) -> None:
        if not rest:
            found.append(part)
        elif isinstance(rest[0], int) and isinstance(part, list):
            for item in part:
                walk(item, rest[1:])
        elif isinstance(part, dict) and rest[0] in part:
            walk(part[rest[0]], rest[1:])

    walk(value, keys)
    return [one for one in found if not isinstance(one, dict | list)]


def tell(case: Case, place: Place, rng: random.Random) -> Any | None:
    """Write a lie in place; returns it, None where the file cannot have it, or anybody may say so.

    A name of a column is as good as another: rows are told by field ids.
    """
    if place.kind == "metadata" and "fields" in place.keys and place.keys[-1] == "name":
        return None
    path, keys = place.file, place.keys
    stat = path.stat()
    try:
        if place.kind == "metadata":
            members = read_metadata(path)
            true = _at(members, keys)
            lie = _lied(rng, true, _siblings(members, keys))
            _at(members, keys[:-1])[keys[-1]] = lie
            path.write_text(json.dumps(members))
        elif place.kind == "puffin":
            content = path.read_bytes()
            start, footer = _footer(content)
            true = _at(footer, keys)
            others = [str(file) for file in (case.table / "data").rglob("*.parquet")]
            others = others if keys[-1] == "referenced-data-file" else _siblings(footer, keys)
            lie = _lied(rng, true, others)
            _at(footer, keys[:-1])[keys[-1]] = lie
            text = json.dumps(footer, separators=(",", ":")).encode()
            text = text.ljust(len(content) - 12 - start)  # as long as entries say, if it can be
            size = len(text).to_bytes(4, "little")
            path.write_bytes(content[:start] + text + size + content[-8:])
        elif place.kind == "row":
            true, lie = "there", "lost"
            if path.suffix == ".parquet":
                rows = pq.read_table(path).to_pylist()
                del rows[keys[0]]
                _rewrite_tree(case.table, path, rows)
            else:
                length = stat.st_size
                rewrite_avro(path, lambda found: found.pop(keys[0]) and None)
                if path.stat().st_size != length:
                    _refit(case.table, path)
        elif place.kind == "tree":
            records = pq.read_table(path).to_pylist()
            true = _at(records, keys)
            lie = _lied(rng, true, _siblings(records, keys))
            _at(records, keys[:-1])[keys[-1]] = lie
            _rewrite_tree(case.table, path, records)
        else:
            records = read_records(path)
            true = _at(records, keys)
            lie = _lied(rng, true, _other_values(case, place, records))
            length = stat.st_size

            def edit(found: list[Any]) -> None:
                _at(found, keys[:-1])[keys[-1]] = lie

            rewrite_avro(path, edit)
            if place.kind == "entry" and path.stat().st_size != length:
                _refit(case.table, path)
    except (TypeError, ValueError, KeyError, OverflowError, AttributeError, IndexError):
        return None
    return None if lie == true else (lie,)


def _rewrite_tree(table: Path, path: Path, records: list[Any]) -> None:
    """Write a root or leaf with other rows, and let roots say the new length of a leaf."""
    rewrite_parquet(path, lambda _: records)
    size = path.stat().st_size

    def refit(rows: list[Any]) -> None:
        for row in rows:
            if row["location"] and local(row["location"]) == path:
                row["file_size_in_bytes"] = size

    for root in (table / "metadata").glob("root-*.parquet"):
        if root != path and str(path) in str(pq.read_table(root)["location"].to_pylist()):
            rewrite_parquet(root, refit)


def _other_values(case: Case, place: Place, records: list[Any]) -> list[Any]:
    """The values that this field has here and in other files of the kind."""
    found = _siblings(records, place.keys)
    for path, others in case.records.items():
        if path != place.file and ("manifest_path" in others[0]) == (place.kind == "list"):
            found += _siblings(others, place.keys)
    return found


def _refit(table: Path, manifest: Path) -> None:
    """Let manifest lists say the new length of a manifest."""
    size = manifest.stat().st_size
    for one in read_metadata(current_metadata(table))["snapshots"]:
        path = local(one["manifest-list"]) if "manifest-list" in one else None
        if path is None or not any(
            row["manifest_path"] == str(manifest) for row in read_records(path)
        ):
            continue

        def refit(rows: list[Any]) -> None:
            for row in rows:
                if row["manifest_path"] == str(manifest):
                    row["manifest_length"] = size

        rewrite_avro(path, refit)


# -- the law --------------------------------------------------------------------------------------


def broken_law(case: Case, command: str, rng: random.Random, place: Place) -> str | None:
    """Tell a lie and run a command: how it breaks the law, None where it holds it."""
    case.restore()
    told = tell(case, place, rng)
    if told is None:
        return None
    lie = told[0]
    before = contents(case.table)
    lied = {name for name, content in before.items() if content != case.content.get(name)}
    where = f"{case.name}, {command}: {place.kind} {place.file.name} {place.keys} = {lie!r}"
    try:
        code = COMMANDS[command](case.table)
    except Exception as error:  # noqa: BLE001 - whatever it is, it must not be raised
        return f"{where}: {type(error).__name__} {error}"
    after = contents(case.table)
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
    return None


# -- tables ---------------------------------------------------------------------------------------


def _grown(table: TableBuilder, *, left_over: bool = True) -> None:
    """Appends, deletes of every kind, files replaced or removed, merged manifests, a tag."""
    table.append(range(6), files=2)
    table.append(range(6, 12))
    table.ref("v1", "tag")
    table.delete_rows([0, 7])
    if table.format_version == 2:
        table.delete_rows([4], kind="equality")
    table.append(range(12, 20), files=2)
    table.remove_data_files(1, keeps_vectors=left_over)
    table.delete_rows([13, 14])
    table.replace_data_files(2)
    table.append(range(20, 24))


def _cases(folder: Path) -> dict[str, Case]:
    made = {}
    for name, version, partitioning in (
        ("v2", 2, "identity"),
        ("v2 flat", 2, "none"),
        ("v3", 3, "identity"),
    ):
        table = TableBuilder(folder / name / "t", version, partitioning, merge_manifests_above=3)
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
    made["sfc-1"] = tree
    cases = {}
    for name, table in made.items():
        age(table.directory, 30)
        pristine = folder / name / "pristine"
        table.directory.rename(pristine)
        cases[name] = Case(name, pristine, table.directory)
    return cases


def lies(case: Case, rng: random.Random, count: int, commands: Sequence[str]) -> list[str]:
    """Tell so many lies of one table, each with one command; the laws that were broken."""
    by_kind: dict[str, list[Place]] = {}
    for place in case.places:
        by_kind.setdefault(place.kind, []).append(place)
    found = []
    for _ in range(count):
        place = rng.choice(by_kind[rng.choice(sorted(by_kind))])
        broken = broken_law(case, rng.choice(commands), rng, place)
        if broken is not None:
            found.append(broken)
    return found


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Case]:
    return _cases(tmp_path_factory.mktemp("lies"))


NAMES = ("v2", "v2 flat", "v3", "sfc-1")
QUICK, FULL = 75, 1300
"""Lies of each of the tables."""


@pytest.mark.parametrize("name", NAMES)
def test_every_command_keeps_the_rows_of_a_true_table(cases, name):
    case = cases[name]
    for command in CHEAP:
        case.restore()
        assert (command, COMMANDS[command](case.table)) == (command, 0)
        assert _other_rows(case, command) is None


@pytest.mark.parametrize("name", NAMES)
def test_a_lie_costs_no_row_and_no_file(cases, name):
    rng = random.Random(f"quick {name}")
    assert lies(cases[name], rng, QUICK, CHEAP) == []


@pytest.mark.full
@pytest.mark.parametrize("name", NAMES)
def test_many_lies_cost_no_row_and_no_file(cases, name):
    seed = f"{random.SystemRandom().getrandbits(32)} {name}"
    assert (seed, lies(cases[name], random.Random(seed), FULL, list(COMMANDS))) == (seed, [])
