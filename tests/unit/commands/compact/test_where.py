"""Compactions within a condition open the manifests that can match, and no others."""

import random
import shutil
from collections import Counter
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from icectl.cli import app
from icectl.commands.compact.report import PreparedCompaction
from icectl.commands.compact.run import prepare
from icectl.entries.conditions import parse_where
from icectl.env import SystemEnv
from icectl.errors import CommitConflict, CorruptTable
from icectl.files.metadata_file import read_metadata
from icectl.storage.local.store import LocalStore
from tests.builders.broken import Broken
from tests.builders.broken_tree import DATA_LEAF, BrokenTree
from tests.builders.compactions import compacted, options
from tests.builders.expiry import NOW_MS, Clock, context_of
from tests.builders.rows import current_metadata, head, ids_of, listed_manifests, live_entries
from tests.builders.table_builder import TableBuilder
from tests.stores.wrapped import CountingStore

FIRST, SECOND = range(2, 26), range(26, 50)
"""The ids of the rows of two days, in UTC."""
SECOND_DAY = "at >= '2023-11-16T00:00:00' AND at < '2023-11-17T00:00:00'"
BOUNDS = ("lower_bound", "upper_bound")
READS = ("read", "read_range", "open")
UPGRADE = ("upgrade-to-v4", "--layout=sfc-1", "--yes", "--quiet")


def selected(
    directory: Path, where: str, store: CountingStore | None = None, **chosen: Any
) -> PreparedCompaction:
    """Plan a compaction of the rows that a text is true of."""
    chosen["where"] = parse_where(where, read_metadata(current_metadata(directory).read_bytes()))
    return prepare(context_of(directory, store), "main", options(**chosen))


def two_days(directory: Path, format_version: int = 2, **properties: str) -> TableBuilder:
    """Twice as many small files as there are manifests, each of one day."""
    table = TableBuilder(directory, format_version, "day", properties)
    for day in (FIRST, SECOND):
        for start in (day.start, day.start + 12):
            table.append(range(start, start + 12), files=2)
    return table


def sources(prepared: PreparedCompaction) -> list[str]:
    tasks = (task for group in prepared.plan.groups for task in group.tasks)
    return sorted(file.location for task in tasks for file in task.inputs)


def read(store: CountingStore) -> Counter[str]:
    """How often files were read."""
    return Counter(place for method, place in store.calls if method in READS)


@pytest.mark.parametrize("words", [None, (), ("--eager",)])
def test_manifests_of_other_partitions_are_not_opened(tmp_path, words):
    """Two of one day are read: with hint, metadata file and list, or root, that is all, once."""
    two_days(tmp_path, **{"icectl.v4.root.max-data-files": "0", "icectl.v4.leaf.max-entries": "2"})
    if words is not None:
        assert app.main([*UPGRADE, *words, str(tmp_path)]) == 0
    store, every = CountingStore(LocalStore()), CountingStore(LocalStore())
    prepared = selected(tmp_path, SECOND_DAY, store)
    whole = selected(tmp_path, "true", every)
    assert sources(prepared) == [one for one in sources(whole) if "2023-11-16" in one]
    assert prepared.plan.left_alone == {"not selected by `--where`": 4}
    opened = read(store)
    assert len(opened) == 3 + 2
    assert set(opened.values()) == {1}
    assert len(read(every)) - len(opened) == 2

    rows = ids_of(tmp_path)
    assert compacted(tmp_path, prepared, env=SystemEnv()).failed == {}
    assert ids_of(tmp_path) == rows
    summary = head(tmp_path)["summary"]
    assert (summary["total-data-files"], summary["total-records"]) == ("5", "48")
    assert app.main(["validate", str(tmp_path), "--level", "data", "--quiet"]) == 0


def test_manifests_that_were_not_read_are_listed_as_they_were(tmp_path):
    two_days(tmp_path)
    before = {row["manifest_path"]: row for row in listed_manifests(head(tmp_path))}
    compacted(tmp_path, selected(tmp_path, SECOND_DAY))
    after = {row["manifest_path"]: row for row in listed_manifests(head(tmp_path))}
    kept = before.keys() & after.keys()
    assert len(kept) == 2
    assert [after[place] for place in kept] == [before[place] for place in kept]
    summary = head(tmp_path)["summary"]
    assert (summary["manifests-kept"], summary["manifests-replaced"]) == ("2", "2")


def deletes(directory: Path) -> list[str]:
    """The kinds of live delete files, vectors one by one."""
    files = (entry["data_file"] for entry in live_entries(head(directory)))
    return sorted({1: "position", 2: "equality"}[one["content"]] for one in files if one["content"])


@pytest.mark.parametrize("kind", ["position", "equality"])
def test_deletes_of_files_in_unread_leaves_too_stay(tmp_path, kind):
    """One delete file is for both data files, of which each has a leaf; bounds of `id` differ."""
    one_each = {"icectl.v4.root.max-data-files": "0", "icectl.v4.leaf.max-entries": "1"}
    table = TableBuilder(tmp_path, 2, "none", one_each)
    table.append(range(12))
    table.append(range(12, 24))
    table.delete_rows([1, 2, 13], kind=kind)
    rows = ids_of(tmp_path)
    assert app.main([*UPGRADE, "--eager", str(tmp_path)]) == 0
    for where, removed in (("id < 12", 0), ("id > 11", 0), ("true", 1)):
        prepared = selected(tmp_path, where, every=True)
        assert prepared.removed_delete_files == removed
        compacted(tmp_path, prepared, env=SystemEnv())
        assert ids_of(tmp_path) == rows
        assert deletes(tmp_path) == [kind] * (1 - removed)
        assert app.main(["validate", str(tmp_path), "--level", "data", "--quiet"]) == 0


def test_deletes_of_rewritten_files_alone_go(tmp_path):
    """Each day has a vector for every file, or a file of position deletes for all of them."""
    for version, removed in ((3, 4), (2, 1)):
        directory = tmp_path / str(version)
        two_days(directory, version).delete_rows([2, 9, 14, 21, 26, 33, 38, 45])
        rows, before = ids_of(directory), len(deletes(directory))
        store = CountingStore(LocalStore())
        prepared = selected(directory, SECOND_DAY, store)
        assert prepared.removed_delete_files == removed
        compacted(directory, prepared)
        assert ids_of(directory) == rows
        assert len(deletes(directory)) == before - removed
        assert app.main(["validate", str(directory), "--quiet"]) == 0
        assert not [place for place in read(store) if "2023-11-15" in place]


def test_global_equality_deletes_stay_and_apply(tmp_path):
    table = TableBuilder(tmp_path, 2, "none")
    table.append(range(100, 104))
    table.respec("day")
    for day in (FIRST, SECOND):
        table.append(day, files=2)
    table.spec, table.types = table.metadata.partition_specs[0], ()
    table.delete_rows([3, 30], kind="equality")
    rows = ids_of(tmp_path)
    assert 30 not in rows
    compacted(tmp_path, selected(tmp_path, SECOND_DAY))
    assert ids_of(tmp_path) == rows
    assert deletes(tmp_path) == ["equality"]


@pytest.mark.parametrize("upgrades", [False, True])
def test_a_file_that_another_commit_moved_or_replaced_is_seen(tmp_path, upgrades):
    """Manifests that came meanwhile are opened if they can match; what they say counts."""
    two_days(tmp_path, **{"icectl.v4.root.max-data-files": "0", "icectl.v4.leaf.max-entries": "2"})
    if upgrades:
        assert app.main([*UPGRADE, "--eager", str(tmp_path)]) == 0
    rows = ids_of(tmp_path)
    first, second = selected(tmp_path, SECOND_DAY), selected(tmp_path, SECOND_DAY)
    again = ["rewrite-manifests", str(tmp_path), "--yes", "--quiet", "--target-size", "1MiB"]
    assert app.main(again, env=Clock(NOW_MS)) == 0
    compacted(tmp_path, first, env=SystemEnv())
    assert ids_of(tmp_path) == rows
    with pytest.raises(CommitConflict, match="was removed by another commit"):
        compacted(tmp_path, second, env=SystemEnv())
    assert ids_of(tmp_path) == rows
    assert app.main(["validate", str(tmp_path), "--level", "data", "--quiet"]) == 0


def narrowed(directory: Path, rng: random.Random) -> int:
    """Let summaries of data manifests in the current list leave out days; how many of them."""
    count = 0

    def change(listed: list[dict[str, Any]]) -> None:
        nonlocal count
        for row in listed:
            if row.get("content", 0) == 0 and rng.random() < 0.2:
                summary = row["partitions"][0]
                low, high = (int.from_bytes(summary[name], "little") for name in BOUNDS)
                shift = rng.choice([-9, 9, -1, 1])
                bounds = (low + shift, min(high + shift, low + shift + 1))
                stored = (bound.to_bytes(4, "little") for bound in bounds)
                summary.update(zip(BOUNDS, stored, strict=True))
                count += 1

    Broken(directory).edit_head_list(change)
    return count


def narrowed_root(directory: Path, rng: random.Random) -> int:
    """Let statistics of data leaves in the current root leave out days; how many of them.

    Of the column as of the day: either may be what a condition is judged by.
    """
    count = 0

    def change(rows: list[dict[str, Any]]) -> None:
        nonlocal count
        for row in rows:
            if row["content_type"] == DATA_LEAF and rng.random() < 0.4:
                shift = timedelta(days=rng.choice([-9, 9, -1, 1]))
                for group in ("s4", "s6"):
                    stats = row["content_stats"][group]
                    low, high = (stats[name] for name in BOUNDS)
                    bounds = (low + shift, min(high + shift, low + shift + timedelta(days=1)))
                    stats.update(zip(BOUNDS, bounds, strict=True))
                count += 1

    BrokenTree(directory).edit_root(change)
    return count


@pytest.mark.parametrize(
    "rounds", [8, pytest.param(60, marks=pytest.mark.full)], ids=["few", "many"]
)
def test_summaries_that_are_too_narrow_cost_no_row_and_bring_none_back(tmp_path, rounds):
    """Days overlap in manifests, deletes of all kinds are of several, and lists and roots lie.

    They lie when the plan is made, or about the head that another commit has made meanwhile. A
    manifest that is opened nevertheless is compared with its summaries (R-053).
    """
    rng = random.Random(20261128)
    modes = {"2": [], "3": [], "4": ["--eager"], "4 as listed": []}
    for name, mode in modes.items():
        version = int(name[0])
        leaves = {"icectl.v4.root.max-data-files": "0", "icectl.v4.leaf.max-entries": "4"}
        table = TableBuilder(tmp_path / name, min(version, 3), "day", leaves)
        for start in range(0, 72, 9):
            table.append(range(start, start + 9), files=2)
        for start in (1, 4):
            table.delete_rows(range(start, 70, 7))
        if version == 4:
            assert app.main([*UPGRADE, *mode, str(table.directory)]) == 0
        if version == 2:
            table.delete_rows(range(3, 70, 11), kind="equality")
        shutil.copytree(table.directory, tmp_path / f"copy of {name}")
    lies = rewritten = 0
    for at in range(rounds):
        name = list(modes)[at % 4]
        narrow = narrowed_root if name.startswith("4") else narrowed
        directory = tmp_path / name
        shutil.rmtree(directory)
        shutil.copytree(tmp_path / f"copy of {name}", directory)
        rows = ids_of(directory)
        told = narrow(directory, rng)
        lies += told
        assert ids_of(directory) == rows
        found = app.main(["validate", str(directory), "--level", "metadata", "--quiet"])
        assert found == (4 if told else 0)
        day = rng.choice([15, 16, 17])
        where = f"at < '2023-11-{day}T12:00:00' AND at >= '2023-11-{day}T00:00:00'"
        with suppress(CommitConflict, CorruptTable):
            prepared = selected(directory, where, every=True)
            if at % 8 > 3:
                again = ["rewrite-manifests", str(directory), "-y", "-q", "--target-size", "1KiB"]
                app.main(again, env=Clock(NOW_MS))
                narrow(directory, rng)
            rewritten += len(compacted(directory, prepared).outputs)
        assert ids_of(directory) == rows, at
    assert lies >= rounds
    assert rewritten
