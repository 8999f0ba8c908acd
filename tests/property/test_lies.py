"""One wrong field anywhere in a table's metadata costs no row and no file, whatever command runs.

What a lie may be about: tests/builders/lies.py. A command ends with 0, with 3 where some of its
commits are done, or above and changes nothing. Once the true field is back, every snapshot that
stays has the rows that it was committed with, and the new ones have those of their parent; so no
file of theirs is gone. The true rows are

- of `expire-rows`: the parent's, without any that are past their time. One of these may stay, as
  bounds may hide it from a reader, too; no other goes, and none comes back
- of `refs rollback`: those of the snapshot that was named by its id, which is current afterwards
- of `repair`: those of the true head, for its new snapshot. No option allows it to lose a row; so
  damage that it cannot prove has to stay, whatever it has repaired beside it
- of `maintain`: the same after each step, even if a later one is refused
- of `relocate`: the same in the copy, snapshot by snapshot.

A name of no file, or of one that only older snapshots have, may be written again in manifests by
commands that do not open the file (docs/safety.md). Then no file is gone, `validate` still tells of
the name, and with the true one in its place all rows are those above.

Nothing tells a wrong partition of an equality delete (docs/safety.md). A new snapshot may have the
rows that all readers have then.
"""

import csv
import io
import json
import random
import re
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyiceberg.table import StaticTable

from icectl.cli import app
from icectl.commands.compact.plan_options import CompactOptions
from icectl.commands.compact.run import prepare
from icectl.entries.conditions import parse_where
from icectl.errors import IcectlError
from icectl.format.metadata import TableMetadata
from icectl.format.sort import SortField, SortOrder
from icectl.format.transforms import parse_transform
from tests.builders.broken import read_records, rewrite_avro
from tests.builders.broken_tree import rewrite_parquet
from tests.builders.compactions import compacted, compaction_of, options
from tests.builders.expiry import NOW_MS, Clock
from tests.builders.folders import contents_by_name
from tests.builders.lies import MAPPING, Lies, Place
from tests.builders.orphans import age
from tests.builders.rows import (
    Row,
    current_metadata,
    head,
    live_entries,
    local,
    read_metadata,
    read_rows,
)
from tests.builders.table_builder import TableBuilder
from tests.builders.twins import TreeTwin

AT_ONCE = ("--older-than", "0s", "--allow-recent", "--max-fraction", "1")
PARTLY_DONE = 3
NAMES = ("v1", "v2", "v2 flat", "v3", "sfc-1")
PARTITIONED = ("v2", "v3", "sfc-1")
FLAT = ("v2 flat",)
PAST = datetime.fromisoformat("2023-11-15T01:00")
"""Rows of earlier times are past theirs, for `expire-rows`."""
POLICY = """
steps = ["{steps}"]
[compact]
min-input-files = 2
engine = "local"
[expire-snapshots]
older-than = "0s"
retain-last = 2
reclaimable = 0
[remove-orphans]
older-than = "1d"
every = "1s"
max-fraction = 1
"""


@dataclass(frozen=True)
class Command:
    """A command, the tables that it is for, and what may come of it that is no harm.

    `takes` has the rows that it may delete. One that `goes_on` commits several times, and what
    stops it comes after some of them. `is_quick` where it runs in the quick tier, too.
    """

    run: Callable[["Case"], int]
    tables: Sequence[str] = NAMES
    takes: Callable[[Row], bool] = lambda _: False
    goes_on: bool = False
    is_quick: bool = True
    rolls_back: bool = False


COMMANDS: dict[str, Command] = {}


def _ran(*words: str) -> int:
    """Run a command; threads cost more than they save on small tables."""
    return app.main([*words, "--yes", "--quiet", "--concurrency", "1"], env=Clock(NOW_MS))


def _cli(name: str, *words: str, **more: Any) -> None:
    def run(case: "Case") -> int:
        options = [word.format(first=case.first) for word in words[1:]]
        return _ran(words[0], str(case.table), *options)

    COMMANDS[name] = Command(run, **more)


def _compact(name: str, where: str = "", **chosen: Any) -> None:
    def chosen_options(metadata: TableMetadata) -> CompactOptions:
        more = {"where": parse_where(where, metadata)} if where else {}
        return options(**chosen, **more)(metadata)

    def run(case: "Case") -> int:
        try:
            context = replace(compaction_of(case.table), concurrency=1)
            prepared = prepare(context, "main", chosen_options)
            if prepared.plan.has_work:
                compacted(case.table, prepared)
        except IcectlError as error:
            return error.exit_code
        return 0

    COMMANDS[name] = Command(run)


def _maintain(name: str, steps: Sequence[str]) -> None:
    def run(case: "Case") -> int:
        policy = case.table.with_name("maintain.toml")
        policy.write_text(POLICY.format(steps='", "'.join(steps)))
        return _ran("maintain", str(case.table), "--policy", str(policy))

    COMMANDS[name] = Command(run, goes_on=True, is_quick=False)


def _relocate(name: str, *, is_copied: bool) -> None:
    def run(case: "Case") -> int:
        shutil.rmtree(case.copy, ignore_errors=True)
        words = ("--new-uuid", "--to", case.location_of_copy)
        if is_copied:
            shutil.copytree(case.table, case.copy)
            return _ran("relocate", str(case.copy), *words)
        wanted = case.table.with_name("files.csv")
        wanted.unlink(missing_ok=True)
        code = _ran("relocate", str(case.table), *words, "--copy-list", str(wanted))
        for source, target in csv.reader(wanted.read_text().splitlines() if code == 0 else ()):
            if local(source).exists():
                local(target).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(local(source), local(target))
        return code

    COMMANDS[name] = Command(run)


_compact("compact by rewriting", method="rewrite")
_compact("compact by merging", method="auto")
_compact("compact deletes", deletes_only=True, every=True)
_compact("compact some", where="category = 'c1' and id < 20")
_compact("compact nothing but left-over deletes", min_input_files=99)
_cli("expire", "expire-snapshots", "--older-than", "0s", "--retain-last", "1")
_cli("expire half", "expire-snapshots", "--older-than", "0s", "--retain-last", "3")
_cli("orphans", "remove-orphans", *AT_ONCE)
_cli("manifests", "rewrite-manifests", "--target-size", "1KiB")
_cli("manifests by partition", "rewrite-manifests", "--sort-by", "category", "--rewrite-all",
     tables=PARTITIONED)  # fmt: skip
for _layout in ("sfc-1", "iceberg-1.12"):
    _upgrade = ("upgrade-to-v4", f"--layout={_layout}")
    _cli(f"upgrade to {_layout}", *_upgrade, tables=("v1", "v3"))
    _vectors = ("--convert-position-deletes",) if _layout == "sfc-1" else ()
    _cli(f"upgrade all to {_layout}", *_upgrade, "--eager", *_vectors, tables=FLAT, is_quick=False)
_cli("convert", *_upgrade, tables=("sfc-1",), is_quick=False)
_cli("upgrade to 3", "upgrade-to-v3", tables=("v1", "v2 flat"))
_cli("migrate", "migrate-v1-v2", tables=("v1",))
_cli("migrate manifests", "migrate-v1-v2", "--rewrite-manifests", tables=("v1",))
_cli("analyze", "analyze")
_cli("tag", "refs", "tag", "now")
_cli("retag", "refs", "tag", "v1", "--replace", "--at", "main")
_cli("roll back", "refs", "rollback", "--to", "{first}", rolls_back=True)
_cli("properties", "properties", "set", "a=b")
for _method in ("deletes", "rewrite"):
    _cli(f"expire rows by {_method}", "expire-rows", "--where", f"at < '{PAST.isoformat()}'",
         "--max-fraction", "1", "--method", _method,
         takes=lambda row: (dict(row)["at"] or PAST) < PAST)  # fmt: skip
_cli("repair", "repair", goes_on=True)
_cli("repair by footers", "repair", "--level", "footers", goes_on=True, is_quick=False)
_maintain("maintain", ("compact", "rewrite-manifests", "expire-snapshots", "remove-orphans"))
_maintain("maintain what is old", ("expire-snapshots", "remove-orphans"))
_relocate("relocate a copy", is_copied=True)
_relocate("relocate", is_copied=False)


@dataclass
class Case:
    """A true table, the rows of its snapshots, and the places where lies can be told of it.

    `first` is the first snapshot of main, `copy` where a copy of the table comes to; `live` are the
    names of the live files of its head.
    """

    name: str
    pristine: Path
    table: Path
    scheme: str = ""
    copy: Path = field(init=False)
    metadata: dict[str, Any] = field(init=False)
    rows: dict[int, Any] = field(init=False)
    live: set[str] = field(init=False)
    lies: Lies = field(init=False)
    content: dict[str, bytes] = field(init=False)

    def __post_init__(self) -> None:
        self.copy = self.table.with_name("copy")
        self.restore()
        self.metadata = read_metadata(current_metadata(self.table))
        self.rows = {
            one["snapshot-id"]: read_rows(self.metadata, one["snapshot-id"])
            for one in self.metadata["snapshots"]
        }
        self.live = {one["data_file"]["file_path"] for one in live_entries(head(self.table))}
        self.lies = Lies(self.table)
        self.content = contents_by_name(self.table)

    @property
    def first(self) -> int:
        return int(self.metadata["snapshots"][0]["snapshot-id"])

    @property
    def head(self) -> int:
        return int(self.metadata["current-snapshot-id"])

    @property
    def location_of_copy(self) -> str:
        return f"{self.scheme}{self.copy}"

    def restore(self) -> None:
        shutil.rmtree(self.table, ignore_errors=True)
        shutil.rmtree(self.copy, ignore_errors=True)
        shutil.copytree(self.pristine, self.table)


# -- the law --------------------------------------------------------------------------------------


def broken_law(case: Case, name: str, rng: random.Random, place: Place) -> str | None:
    """Tell a lie and run a command: how it breaks the law; None if it holds, "" without a lie."""
    case.restore()
    told = case.lies.tell(place, rng)
    if told is None or case.lies.names_a_twin(place, told[1]):
        return ""
    true, lie = told
    before = contents_by_name(case.table)
    lied = {name for name, content in before.items() if content != case.content.get(name)}
    where = f"{case.name}, {name}: {place.kind} {place.file.name} {place.keys} = {lie!r}"
    command, unnamed, misapplied = COMMANDS[name], _unnamed(case, place), _misapplied(case, place)
    try:
        code = command.run(case)
    except Exception as error:  # noqa: BLE001 - whatever it is, it must not be raised
        return f"{where}: {type(error).__name__} {error}"
    after = contents_by_name(case.table)
    lost = {name for name, content in before.items() if after.get(name) != content}
    lost = {name for name in lost if "/.icectl" not in name}
    if code not in (0, PARTLY_DONE) and not command.goes_on:
        return f"{where}: exit {code}, changed {lost}" if lost else None
    for name in lied & after.keys():  # the truth is back, where the lie was not rewritten
        if after[name] == before[name]:
            (case.table / name).write_bytes(case.content[name])
    is_name = place.kind in ("entry", "tree") and place.keys[-1] in ("file_path", "location")
    if is_name and lie and _is_any(true, case.live) and not _is_any(lie, case.live):
        manifests = [case.table / name for name in after.keys() - before.keys() if _LISTED(name)]
        repeated = [path for path in manifests if _is_any(lie, _names(path))]
        if repeated and not _is_told(case, lie):
            return f"{where}: written again, and not told"
        for path in repeated:
            _put_right(path, lie, true)
    broken = _other_rows(case, command, where, unnamed)
    if broken and misapplied is not None and "new snapshot" in broken:
        broken = _other_rows(case, command, where, unnamed, misapplied)
    return broken or _other_copy(case, where)


def _misapplied(case: Case, place: Place) -> list[Row] | None:
    """The rows of a head whose equality delete is said to be of another partition; else None.

    Nothing tells that, and a new snapshot has the rows that every reader has (docs/safety.md).
    """
    if place.kind != "entry" or place.keys[1:3] != ("data_file", "partition"):
        return None
    if case.lies.records[place.file][place.keys[0]]["data_file"].get("content") != 2:
        return None
    return read_rows(case.metadata, case.head)


_LISTED = re.compile(r"metadata/.*\.(avro|parquet)").fullmatch


def _is_any(name: str, stored: Iterable[str | None]) -> bool:
    """Whether a name is among others, of which it or they may be relative."""
    return any(one and (one.endswith(name) or name.endswith(one)) for one in stored)


def _files(rows: Iterable[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], str]]:
    """The parts of entries that name files of rows, with the member that does."""
    for row in rows:
        if "data_file" in row:
            yield row["data_file"], "file_path"
        elif row.get("content_type", 9) < 3:  # in a root, others are leaves
            yield row, "location"


def _names(manifest: Path) -> list[str | None]:
    is_avro = manifest.suffix == ".avro"
    rows = read_records(manifest) if is_avro else pq.read_table(manifest).to_pylist()
    return [file[name] for file, name in _files(rows)]


def _put_right(manifest: Path, lie: str, true: str) -> None:
    def edit(rows: list[Any]) -> None:
        for file, name in _files(rows):
            if _is_any(lie, [file[name]]):
                file[name] = true

    rewrite_avro(manifest, edit) if manifest.suffix == ".avro" else rewrite_parquet(manifest, edit)


def _is_told(case: Case, name: str) -> bool:
    """Whether `validate` finds something wrong with a file."""
    words = ["validate", str(case.table), "--all-snapshots", "--level", "footers", "--json"]
    with redirect_stdout(io.StringIO()) as out:
        app.main(words, env=Clock(NOW_MS))
    findings = json.loads(out.getvalue())["result"]["findings"]
    return any(
        one["severity"] == "error" and name in one["subject"] + one["message"] for one in findings
    )


def _list(snapshot: dict[str, Any]) -> Path:
    return local(snapshot.get("manifest-list") or snapshot.get("root-manifest") or "")


def _unnamed(case: Case, place: Place) -> set[str]:
    """The statistics files that a list which is a lie as a whole leaves out.

    Engines remove statistics so: what is not listed belongs to nobody (docs/safety.md).
    """
    if place.kind != "metadata" or place.keys not in (("statistics",), ("partition-statistics",)):
        return set()
    told = read_metadata(place.file).get(place.keys[0]) or ()
    true = {one["statistics-path"] for one in case.metadata[place.keys[0]]}
    return true - {one["statistics-path"] for one in told}


def _other_rows(
    case: Case,
    command: Command,
    where: str,
    unnamed: Collection[str] = (),
    head_rows: list[Row] | None = None,
) -> str | None:
    """How the snapshots of a table differ from the true ones; None where they do not."""
    head_rows = case.rows[case.head] if head_rows is None else head_rows
    newest = read_metadata(current_metadata(case.table))
    snapshots = case.metadata["snapshots"]
    true = {one["snapshot-id"]: one for one in snapshots} | {_list(one): one for one in snapshots}
    kept = {
        one["snapshot-id"]: true.get(one["snapshot-id"]) or true.get(_list(one)) or one
        for one in newest["snapshots"]
    }
    for one in kept.values():
        id_ = one["snapshot-id"]
        base = newest if "root-manifest" in one and "expressions" in newest else case.metadata
        try:
            shown = read_rows({**base, "snapshots": [one]}, id_)
        except Exception as error:  # noqa: BLE001 - a file that is gone, or no file at all
            return f"{where}: snapshot {id_} cannot be read: {type(error).__name__} {error}"
        expected = case.rows.get(id_, head_rows)
        if id_ not in case.rows:
            expected = [row for row in expected if row in shown or not command.takes(row)]
        if shown != expected:
            kind = "old" if id_ in case.rows else "new"
            return f"{where}: {kind} snapshot {id_} has {len(shown)} rows, not {len(expected)}"
    kept_ids = {one["snapshot-id"] for one in kept.values()}
    head = kept.get(newest.get("current-snapshot-id"), {}).get("snapshot-id")
    wanted = case.first if command.rolls_back else case.head
    if head != wanted and (head is None or head in case.rows):
        return f"{where}: the current snapshot is {head}"
    for one in case.metadata["statistics"] + case.metadata["partition-statistics"]:
        if one["statistics-path"] in unnamed:
            continue
        if one["snapshot-id"] in kept_ids and not local(one["statistics-path"]).exists():
            return f"{where}: statistics of snapshot {one['snapshot-id']} are gone"
    return None


def _other_copy(case: Case, where: str) -> str | None:
    """How a copy of the table for another place differs from it; None where it does not."""
    if not case.copy.exists():
        return None
    made = read_metadata(current_metadata(case.copy))
    for at, one in enumerate(made["snapshots"]):
        id_ = one["snapshot-id"]
        expected = case.rows.get(id_) or list(case.rows.values())[at]
        try:
            shown = read_rows(made, id_)
        except Exception as error:  # noqa: BLE001 - a file that is gone, or no file at all
            return f"{where}: copied snapshot {id_} cannot be read: {type(error).__name__} {error}"
        if shown != expected:
            return f"{where}: copied snapshot {id_} has {len(shown)} rows, not {len(expected)}"
    return None


# -- tables ---------------------------------------------------------------------------------------


BY_TIME = SortField((4,), parse_transform("day"), "asc", "nulls-first")


def _analyze(table: TableBuilder) -> None:
    """Give the head statistics of columns and of partitions."""
    line = ["analyze", str(table.directory), "--yes", "--quiet"]
    assert app.main(line, env=Clock(table.now_ms)) == 0
    table.refresh() if isinstance(table, TreeTwin) else table.follow()


def _grown(table: TableBuilder, *, left_over: bool = True) -> None:
    """Appends, deletes of every kind, files replaced or removed, merged manifests, a tag."""
    names = ("id", "category", "amount", "at", "note")
    mapping = [{"field-id": at, "names": [name]} for at, name in enumerate(names, 1)]
    orders = (*table.metadata.sort_orders, SortOrder(1, (BY_TIME,)))
    table.metadata = replace(table.metadata, sort_orders=orders)
    table.set_properties({MAPPING: json.dumps(mapping)})
    table.append(range(6), files=2)
    table.append(range(6, 12))
    table.ref("v1", "tag")
    _analyze(table)
    if table.format_version > 1:
        table.delete_rows([0, 7])
    if table.format_version == 2:
        table.delete_rows([4], kind="equality")
    table.append(range(12, 20), files=2)
    table.remove_data_files(1, keeps_vectors=left_over)
    if table.format_version > 1:
        table.delete_rows([13, 14])
    table.replace_data_files(2)
    table.append(range(20, 24))
    if left_over:
        _analyze(table)


def _cases(folder: Path) -> dict[str, Case]:
    made: dict[str, tuple[TableBuilder, str]] = {}
    for name, version, partitioning, scheme in (
        ("v1", 1, "identity", ""),
        ("v2", 2, "identity", ""),
        ("v2 flat", 2, "none", "file:"),
        ("v3", 3, "identity", ""),
    ):
        place = folder / name.replace(" ", "-") / "t"
        table = TableBuilder(
            place, version, partitioning, merge_manifests_above=3, location=f"{scheme}{place}"
        )
        _grown(table)
        made[name] = table, scheme
    tree = TreeTwin(folder / "sfc-1" / "t", 3, "identity", merge_manifests_above=3)
    _grown(tree, left_over=False)
    tree.run("upgrade-to-v4", "--layout=sfc-1", "--yes")
    tree.append(range(24, 30))
    tree.delete_rows([21, 25])
    tree.run("rewrite-manifests", "--yes")
    tree.remove_data_files(1)
    tree.append(range(30, 33))
    _analyze(tree)
    made["sfc-1"] = tree, ""
    cases = {}
    for name, (table, scheme) in made.items():
        age(table.directory, 30)
        pristine = table.directory.with_name("pristine")
        table.directory.rename(pristine)
        cases[name] = Case(name, pristine, table.directory, scheme)
    return cases


def lies(case: Case, seed: str, count: int, *, is_quick: bool = False) -> list[str]:
    """Tell so many lies of one table, each with one command; the laws that were broken.

    Each has a seed of its own, `<seed> <number>`: so one can be told again alone.
    """
    names = [
        name
        for name, command in COMMANDS.items()
        if case.name in command.tables and command.is_quick >= is_quick
    ]
    found: list[str] = []
    number = told = 0
    while told < count:
        number += 1
        rng = random.Random(f"{seed} {number}")
        broken = broken_law(case, rng.choice(names), rng, case.lies.any_place(rng))
        told += broken != ""
        if broken:
            found.append(f"{number}: {broken}")
            print(f"BROKEN {seed} {number}: {broken}")  # pytest shortens what it compares
    return found


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Case]:
    return _cases(tmp_path_factory.mktemp("lies"))


QUICK = {"v1": 30, "v2": 25, "v2 flat": 25, "v3": 25, "sfc-1": 15}
FULL = 1050
"""Lies of each of the tables; one of version 4 costs as much as three others."""


@pytest.mark.parametrize("on_every", [False, pytest.param(True, marks=pytest.mark.full)])
def test_every_command_keeps_the_rows_of_a_true_table(cases, on_every):
    for at, (name, command) in enumerate(COMMANDS.items()):
        one = at % len(command.tables)
        for case_name in command.tables if on_every else command.tables[one : one + 1]:
            case = cases[case_name]
            case.restore()
            assert (name, command.run(case)) == (name, 0)
            assert _other_rows(case, command, name) is None
            assert _other_copy(case, name) is None


@pytest.mark.parametrize(("name", "compared"), [("v1", 8), ("v2", 3), ("v2 flat", 3), ("v3", 8)])
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
    assert lies(cases[name], f"quick {name}", QUICK[name], is_quick=True) == []


@pytest.mark.full
@pytest.mark.parametrize("name", NAMES)
def test_many_lies_cost_no_row_and_no_file(cases, name):
    seed = f"{random.SystemRandom().getrandbits(32)} {name}"
    assert (seed, lies(cases[name], seed, FULL)) == (seed, [])
