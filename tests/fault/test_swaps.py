"""A file of a table under the name of another one of its kind, and every command that changes it.

Copies that went wrong do this, and restored buckets: each file is whole in itself. No run may end
with 0 and make the damage permanent: once the right bytes are back under their names, the rows are
what they were. A repair of metadata that ends with 0 has put the rows right by itself.
"""

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from tests.builders.expiry import NOW_MS, Clock
from tests.builders.rows import (
    Row,
    current_metadata,
    listed_manifests,
    live_entries,
    local,
    read_metadata,
    read_rows,
    with_whole_locations,
)
from tests.builders.table_builder import TableBuilder
from tests.builders.tree_table import data_files, remove_data_files, upgrade
from tests.fault.changing import run

DAY_MS = 86_400_000


def _grown(directory: Path, version: int, partitioning: str) -> TableBuilder:
    """Commits of the same form, deletes of every kind of the version, a manifest written anew."""
    table = TableBuilder(directory, format_version=version, partitioning=partitioning)
    for start in (0, 15):
        table.append(range(start, start + 15))
    if version > 1:
        table.delete_rows([1, 2, 16])
        table.delete_rows([20, 21], kind="equality")
    table.remove_data_files(1)
    table.append(range(60, 75))
    return table


def _sfc_1(directory: Path) -> None:
    _grown(directory, 3, "identity")
    clock = Clock(NOW_MS - 5 * DAY_MS)
    upgrade(directory, clock, "--eager")
    first, second, *_ = data_files(directory)
    remove_data_files(directory, clock, [first])
    remove_data_files(directory, clock, [second])


def _iceberg(directory: Path) -> None:
    _grown(directory, 3, "identity")
    upgrade(directory, Clock(NOW_MS - 5 * DAY_MS), "--layout", "iceberg-1.12", "--eager")


TABLES: Mapping[str, Callable[[Path], object]] = {
    "v1": lambda path: _grown(path, 1, "identity"),
    "v2": lambda path: _grown(path, 2, "identity"),
    "v2-unpartitioned": lambda path: _grown(path, 2, "none"),
    "v3": lambda path: _grown(path, 3, "identity"),
    "sfc-1": _sfc_1,
    "iceberg-1.12": _iceberg,
}

COMMANDS: Mapping[str, Sequence[str]] = {
    "repair": ("repair",),
    "repair-footers": ("repair", "--level", "footers"),
    "expire": ("expire-snapshots", "--older-than", "0s", "--retain-last", "1"),
    "rewrite": ("rewrite-manifests",),
    "compact": ("compact", "--engine", "local", "--rewrite-all"),
    "compact-deletes": ("compact", "--engine", "local", "--deletes-only"),
    "orphans": ("remove-orphans", "--older-than", "0s", "--allow-recent", "--max-fraction", "1"),
    "migrate": ("migrate-v1-v2", "--rewrite-manifests"),
    "upgrade": ("upgrade-to-v4", "--layout=sfc-1", "--eager"),
    "maintain": ("maintain", "--policy", "POLICY"),
    "apply": ("apply",),
    "upgrade-iceberg": ("upgrade-to-v4", "--layout", "iceberg-1.12", "--eager"),
}

POLICY = """
steps = ["compact", "rewrite-manifests", "expire-snapshots"]
compact.engine = "local"
compact.min-input-files = 2
expire-snapshots.older-than = "0s"
"""

OF_METADATA = frozenset({"metadata", "lists", "manifests", "roots", "leaves"})


STEPS: Mapping[str, int] = {
    "repair-footers": 7, "upgrade": 5, "upgrade-iceberg": 5, "maintain": 5, "apply": 5,
}  # fmt: skip
"""One of so many swaps is tried on commands that take long: all begin by reading the same."""


@dataclass(frozen=True)
class Built:
    """A table as it was built, its rows, and its files by their kind."""

    directory: Path
    pristine: Path
    rows: list[Row]
    files: Mapping[str, Sequence[Path]]

    def restore(self) -> None:
        """Put every file back as it was built."""
        shutil.rmtree(self.directory)
        shutil.copytree(self.pristine, self.directory)

    def named(self, words: Sequence[str]) -> list[str]:
        """The words of a command, with the table, and with the files that it takes."""
        beside = self.directory.parent
        if words[0] == "apply":
            return ["apply", str(beside / "plan.json")]
        places = {"POLICY": str(beside / "maintain.toml")}
        return [
            words[0], str(self.directory), *(places.get(one, one) for one in words[1:]), "--yes",
        ]  # fmt: skip

    def swaps(self) -> Iterator[tuple[str, Path, Path, bool]]:
        """Yield kind, the file that is written over, the one whose bytes it gets, and whether
        that one gets the bytes of the first."""
        for kind, files in self.files.items():
            for over, other in permutations(files, 2):
                yield kind, over, other, False
                if over < other:
                    yield kind, over, other, True

    def damage(self, over: Path, other: Path, *, both: bool) -> dict[Path, bytes]:
        """Swap two files; what they were, by their paths."""
        right = {path: path.read_bytes() for path in (over, other)}
        over.write_bytes(right[other])
        if both:
            other.write_bytes(right[over])
        return right


def _whole(path: Path) -> dict[str, Any]:
    metadata = read_metadata(path)
    return with_whole_locations(metadata) if metadata["format-version"] >= 4 else metadata


def build(name: str, directory: Path) -> Built:
    """Build a table, and sort its files by their kind: lists of all snapshots, else of the head."""
    table, pristine = directory / "t", directory / "as-built"
    TABLES[name](table)
    shutil.copytree(table, pristine)
    metadata = _whole(current_metadata(table))
    kinds: dict[str, dict[Path, None]] = {
        "metadata": dict.fromkeys(sorted((table / "metadata").glob("v*.metadata.json"))[-3:])
    }
    for snapshot in metadata["snapshots"]:
        place = snapshot.get("root-manifest") or snapshot["manifest-list"]
        roots = "roots" if "root-manifest" in snapshot else "lists"
        kinds.setdefault(roots, {})[local(place)] = None
    (head,) = (
        one
        for one in metadata["snapshots"]
        if one["snapshot-id"] == metadata["current-snapshot-id"]
    )
    leaves = "leaves" if "root-manifest" in head else "manifests"
    for manifest in listed_manifests(head):
        kinds.setdefault(leaves, {})[local(manifest["manifest_path"])] = None
    for entry in live_entries(head):
        data = entry["data_file"]
        kind = ("data", "deletes", "deletes")[data.get("content") or 0]
        kinds.setdefault(kind, {})[local(data["file_path"])] = None
    files = {kind: sorted(found) for kind, found in kinds.items()}
    (directory / "maintain.toml").write_text(POLICY)
    plan = ("--dry-run", "--save-plan", str(directory / "plan.json"))
    code, _ = run(["compact", str(table), "--rewrite-all", "--engine", "local", *plan])
    assert code == 0
    return Built(table, pristine, read_rows(metadata), files)


def shown(table: Path) -> Any:
    """The rows of a table as another reader finds them; what stopped it, where it finds none."""
    try:
        return read_rows(_whole(current_metadata(table)))
    except Exception as error:  # noqa: BLE001 - any reader of a damaged table may fail in any way
        return repr(error)


def wrong(built: Built, command: str, kind: str, over: Path, other: Path, *, both: bool) -> str:
    """What a command does wrong to a table with swapped files; an empty text for nothing."""
    right = built.damage(over, other, both=both)
    words = COMMANDS[command]
    code, _ = run([*built.named(words), "--json"])
    assert code != 2, "the command line of this test is wrong"
    found = ""
    if code == 1:
        found = "failed unexpectedly"
    elif code == 0:
        if kind in OF_METADATA and words[0] == "repair" and shown(built.directory) != built.rows:
            found = "repaired, with other rows"
        newest = current_metadata(built.directory)
        for path, content in right.items():
            if path.exists() and (kind != "metadata" or path != newest):
                path.write_bytes(content)
        if shown(built.directory) != built.rows:
            found = found or "made the damage permanent"
    built.restore()
    arrow = "<->" if both else "<-"
    return found and f"{command}: {kind} {over.name} {arrow} {other.name}: {found}"


def found_wrong(built: Built, commands: Sequence[str], step: int) -> Iterator[str]:
    """Yield what commands do wrong, each to one in `step` of the swaps."""
    for command in commands:
        for kind, over, other, both in list(built.swaps())[::step]:
            if found := wrong(built, command, kind, over, other, both=both):
                yield found


@pytest.mark.parametrize("name", ["v2", "v3", "sfc-1"])
def test_no_command_makes_a_swap_permanent(name, tmp_path):
    quick = ("repair", "rewrite", "compact", "orphans")
    assert list(found_wrong(build(name, tmp_path), quick, 47)) == []


@pytest.mark.full
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("name", TABLES)
def test_no_command_makes_any_swap_permanent(name, command, tmp_path):
    assert list(found_wrong(build(name, tmp_path), [command], STEPS.get(command, 1))) == []
