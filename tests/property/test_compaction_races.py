"""Compactions beside writers that do anything: no row comes or goes, and a second run is idle."""

import random
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from icectl.cli import engines
from icectl.format.snapshot import SnapshotRef
from icectl.format.updates import SetSnapshotRef
from tests.builders.compactions import lineage
from tests.builders.inline_engine import InlineEngine
from tests.builders.lives import faults
from tests.builders.twins import TreeTwin
from tests.fault.changing import run
from tests.fault.writers import MeanwhileStore, alone, left_over, paths, shown

Step = tuple[str, int]
State = tuple[list[int], dict[int, tuple[int, int]]]

RANKED = st.integers(0, 1_000)
STEP = st.one_of(
    st.tuples(st.sampled_from(["delete", "delete", "delete", "delete by value"]), RANKED),
    st.tuples(st.sampled_from(["append", "overwrite", "remove", "merge"]), st.integers(1, 3)),
    st.tuples(st.just("roll back"), st.integers(1, 4)),
    st.tuples(st.sampled_from(["rewrite-manifests", "deletes", "expire"]), st.just(0)),
)
COMMANDS = {
    "rewrite-manifests": ("rewrite-manifests",),
    "deletes": ("compact", "--engine", "local", "--deletes-only"),
    "expire": ("expire-snapshots", "--older-than", "0s", "--retain-last", "2"),
}
LIMITS = st.fixed_dictionaries(
    {
        "icectl.v4.root.max-data-files": st.sampled_from(["0", "3", "1000"]),
        "icectl.v4.root.max-delete-entries": st.sampled_from(["0", "2", "5000"]),
        "icectl.v4.mdv.inline-max-bytes": st.sampled_from(["0", "16384"]),
        "icectl.v4.affinity.enabled": st.sampled_from(["true", "false"]),
    }
)
WORDS = ("--engine", "local", "--min-input-files", "2", "--yes", "--json")
METHODS = {
    "rewrite": ("--method", "rewrite"),
    "merge": ("--method", "merge", "--min-delete-ratio", "90%"),
    "all": ("--method", "rewrite", "--rewrite-all"),
    "sort": ("--sort-order", "note desc, id desc"),
    "curve": ("--zorder", "id,category"),
    "convert": ("--deletes-only",),
}


class Raced:
    """A table that others change, and the rows that it has to show."""

    def __init__(self, directory: Path, version: int, partitioning: str) -> None:
        self.table = TreeTwin(directory, format_version=min(version, 3), partitioning=partitioning)
        self.next_id = 0
        self.heads: list[int] = []
        self.append(3)
        if version == 4:
            self.table.run("upgrade-to-v4", "--layout", "sfc-1", "--yes")

    def append(self, count: int) -> None:
        """Append some files of a few rows."""
        for _ in range(count):
            ids = range(self.next_id, self.next_id + 7)
            self.next_id = ids.stop
            self.table.append(ids)

    def step(self, what: str, how: int) -> None:
        """Do one thing, where it can be done."""
        table = self.table
        table.refresh()
        head = table.metadata.current_snapshot_id
        if what.startswith("delete") and what != "deletes":
            pick, live = random.Random(how), sorted(table.ids())
            gone = pick.sample(live, min(len(live), pick.randint(1, 12)))
            if gone:
                table.delete_rows(gone, kind="equality" if "value" in what else "position")
        elif what == "append":
            self.append(how)
        elif what == "overwrite":
            ids = range(self.next_id, self.next_id + how)
            self.next_id = ids.stop
            table.overwrite(ids, 1)
        elif what == "remove" and table.files()["data"]:
            table.remove_data_files(how)
        elif what == "merge" and table.files()["data"]:
            table.replace_data_files(how)
        elif what == "roll back" and self.heads:
            back = self.heads[-min(how, len(self.heads))]
            if table.has(back):
                table.update(SetSnapshotRef("main", SnapshotRef(back, "branch")))
        elif what in COMMANDS:
            with alone():
                table.run(*COMMANDS[what], "--yes")
        if head is not None:
            self.heads.append(head)

    def after(self, ids: Sequence[int]) -> State:
        """What the table shows after a compaction, which should be some ids."""
        self.table.refresh()
        head = self.table.metadata.current_snapshot_id
        assert head is not None
        self.table.ids_of.setdefault(head, frozenset(ids))
        return self.state()

    def state(self) -> State:
        """The ids that an independent reader finds, and of what row ids they are."""
        ids = sorted(dict(row)["id"] for row in shown(self.table))
        known = lineage(self.table.directory) if self.table.metadata.format_version > 2 else {}
        return ids, {id_: known[id_] for id_ in ids if id_ in known}


def race(
    version: int,
    partitioning: str,
    before: Sequence[Step],
    method: str,
    tries: Sequence[Sequence[Step]],
    limits: dict[str, str],
) -> int:
    """Compact a table while others change it; returns how many rows were carried."""
    with TemporaryDirectory() as directory, pytest.MonkeyPatch.context() as patch:
        patch.setattr(engines, "LocalEngine", InlineEngine)
        raced = Raced(Path(directory) / "t", version, partitioning)
        if version == 4:
            raced.table.set_properties(limits)
        for step in [*before, ("append", 2)]:
            raced.step(*step)
        state = [raced.state()]
        left = list(tries)

        def others() -> None:
            for step in left.pop(0):
                raced.step(*step)
            assert raced.state()[0] == sorted(raced.table.ids())
            state[0] = raced.state()

        words = ["compact", str(raced.table.directory), *METHODS[method], *WORDS]
        code, document = run(words, MeanwhileStore(others, len(left)))
        assert code in (0, 3, 11), document
        ids = state[0][0]
        assert raced.after(ids) == state[0]
        assert set(paths(raced.table).values()) <= {1}
        assert faults(raced.table, "data") == []
        carried: Any = document["result"]["carried_deletes"] if code != 11 else 0
        again = [word for word in words if word != "--rewrite-all"]
        for _ in range(3):
            code, document = run(again)
            if code in (3, 5) and method == "merge":  # merged files may be merged with no others
                assert "can't be merged" in str(document)
                document["status"] = "nothing-to-do"
            assert document["status"] in ("done", "nothing-to-do"), document
            if document["status"] == "nothing-to-do":
                break
        assert document["status"] == "nothing-to-do"
        assert raced.after(ids) == state[0]
        assert left_over(raced.table) == []
        return int(carried)


PLAIN = {"icectl.v4.affinity.enabled": "true"}
IN_LEAVES = {
    "icectl.v4.root.max-data-files": "0",
    "icectl.v4.root.max-delete-entries": "0",
    "icectl.v4.mdv.inline-max-bytes": "0",
}
BY_VALUE = [("delete by value", 5), ("append", 1), ("delete", 1), ("delete by value", 9)]
TRIES = [[("delete", 3)], [("rewrite-manifests", 0), ("delete", 4)], [("remove", 1)]]


@pytest.mark.parametrize(
    ("version", "limits", "method"),
    [
        (4, PLAIN, "rewrite"),
        (4, IN_LEAVES, "merge"),
        (3, PLAIN, "sort"),
        pytest.param(4, IN_LEAVES, "curve", marks=pytest.mark.full),
    ],
)
def test_deletes_of_three_races_are_taken_over(version, limits, method):
    assert race(version, "none", [("delete", 1)], method, TRIES, limits) > 10


@example(4, "identity", [("delete", 1)], "all", [[("delete by value", 2)], [("delete", 9)]], PLAIN)
@example(4, "none", [("delete", 7)], "merge", [[("roll back", 1)]], IN_LEAVES)
@example(2, "identity", BY_VALUE, "convert", [[("delete", 9)], [("delete by value", 2)]], PLAIN)
@example(4, "none", BY_VALUE, "convert", [[("roll back", 1)], [("remove", 1)]], IN_LEAVES)
@settings(max_examples=1, deadline=None)
@given(
    st.sampled_from([2, 3, 4, 4]),
    st.sampled_from(["none", "identity"]),
    st.lists(STEP, max_size=3),
    st.sampled_from(sorted(METHODS)),
    st.lists(st.lists(STEP, min_size=1, max_size=3), min_size=1, max_size=3),
    LIMITS,
)
def test_no_row_comes_or_goes(version, partitioning, before, method, tries, limits):
    race(version, partitioning, before, method, tries, limits)


@pytest.mark.full
@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from([2, 3, 4, 4]),
    st.sampled_from(["none", "identity", "two"]),
    st.lists(STEP, max_size=5),
    st.sampled_from(sorted(METHODS)),
    st.lists(st.lists(STEP, min_size=1, max_size=4), min_size=1, max_size=4),
    LIMITS,
)
def test_no_row_comes_or_goes_in_long_races(version, partitioning, before, method, tries, limits):
    race(version, partitioning, before, method, tries, limits)
