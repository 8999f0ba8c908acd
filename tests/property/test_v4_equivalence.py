"""A table of version 4 goes through the same as one of version 3, and shows the same all along."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.builders.twins import TreeTwin, Twin, twins

COUNTED = (
    "added_files", "removed_files", "added_rows", "removed_rows", "added_delete_files",
    "removed_delete_files", "added_position_deletes", "added_equality_deletes",
)  # fmt: skip
RANKS = st.lists(st.integers(0, 20), min_size=1, max_size=4)
STEP = st.one_of(
    st.tuples(st.just("append"), st.integers(1, 6)),
    st.tuples(st.just("delete"), RANKS),
    st.tuples(st.just("delete by value"), RANKS),
    st.tuples(st.just("remove"), st.integers(1, 2)),
    st.tuples(st.just("overwrite"), st.integers(1, 4)),
    st.tuples(st.just("beside"), st.integers(1, 3)),
    st.tuples(st.just("crash"), st.integers(1, 3)),
    st.tuples(st.sampled_from(["compact", "rewrite-manifests", "expire-snapshots"]), st.just(0)),
)
LIMITS = st.fixed_dictionaries(
    {
        "icectl.v4.root.max-data-files": st.sampled_from(["0", "3", "1000"]),
        "icectl.v4.root.max-delete-entries": st.sampled_from(["0", "2", "5000"]),
        "icectl.v4.mdv.inline-max-bytes": st.sampled_from(["0", "16384"]),
        "icectl.v4.affinity.enabled": st.sampled_from(["true", "false"]),
    }
)
COMMANDS = {
    "compact": ("--engine", "local", "--min-input-files", "2", "--yes"),
    "rewrite-manifests": ("--yes",),
    "expire-snapshots": ("--older-than", "0s", "--retain-last", "2", "--yes"),
}


class Life:
    """What both tables go through; `next_id` is that of the next row."""

    def __init__(self, old: Twin, new: TreeTwin) -> None:
        self.old, self.new = old, new
        self.next_id = 100

    def fresh(self, count: int) -> list[int]:
        self.next_id += count
        return list(range(self.next_id - count, self.next_id))

    def step(self, what: str, how: int | list[int]) -> None:
        """Do one thing to both tables, and compare them."""
        heads = self.heads()
        if what in COMMANDS:
            for table in (self.old, self.new):
                table.run(what, *COMMANDS[what])
        elif isinstance(how, list):
            there = sorted(self.old.ids())
            doomed = [there[rank] for rank in how if rank < len(there)]
            kind = "position" if what == "delete" else "equality"
            if doomed:
                self.old.delete_rows(doomed, kind=kind)
                self.new.delete_rows(doomed, kind=kind)
        elif what == "beside":
            ids, others = self.fresh(how), self.fresh(how)
            self.old.append(others)
            self.old.append(ids)
            self.new.append_beside(ids, others)
        elif what == "crash":
            self.new.crash(self.fresh(how))
        else:
            self.change(what, how)
        self.compare(is_change=what not in COMMANDS and self.heads() != heads)

    def change(self, what: str, how: int) -> None:
        if what == "append":
            ids = self.fresh(how)
            self.old.append(ids)
            self.new.append(ids)
        elif what == "remove" and self.old.files()["data"]:
            self.old.remove_data_files(how)
            self.new.remove_data_files(how)
        elif what == "overwrite":
            ids = self.fresh(how)
            self.old.overwrite(ids, 1)
            self.new.overwrite(ids, 1)

    def heads(self) -> list[int | None]:
        return [table.metadata.current_snapshot_id for table in (self.old, self.new)]

    def compare(self, *, is_change: bool) -> None:
        """Rows, files and changes of both tables; nothing that a snapshot needs has gone."""
        assert self.new.files() == self.old.files()
        for table in (self.old, self.new):
            assert table.shown() == table.expected()
        if is_change:
            found = [table.run("inspect", "changes")["result"] for table in (self.old, self.new)]
            old, new = ({name: one[name] for name in COUNTED} for one in found)
            assert new == old

    def end(self) -> None:
        """Both tables are sound down to their rows."""
        for table in (self.old, self.new):
            found = table.run("validate", "--level", "data", "--all-snapshots")["result"]
            assert [one for one in found["findings"] if one["severity"] != "info"] == []


def live(steps: list[tuple[str, int | list[int]]], limits: dict[str, str]) -> None:
    with TemporaryDirectory() as directory:
        old, new = twins(Path(directory), "identity")
        new.set_properties(limits)
        life = Life(old, new)
        for what, how in steps:
            life.step(what, how)
        life.end()


DEAD_IN_AVRO = {
    "icectl.v4.root.max-data-files": "0",
    "icectl.v4.root.max-delete-entries": "0",
    "icectl.v4.mdv.inline-max-bytes": "0",
    "icectl.v4.affinity.enabled": "true",
}


@example([("delete", [1]), ("remove", 1)], DEAD_IN_AVRO)
@example([*[("append", 4)] * 5, ("compact", 0), ("remove", 1)], DEAD_IN_AVRO)
@settings(max_examples=8, deadline=None)
@given(st.lists(STEP, min_size=2, max_size=6), LIMITS)
def test_both_show_the_same_after_every_step(steps, limits) -> None:
    live(steps, limits)


@pytest.mark.full
@settings(max_examples=300, deadline=None)
@given(st.lists(STEP, min_size=4, max_size=12), LIMITS)
def test_both_show_the_same_through_long_lives(steps, limits) -> None:
    live(steps, limits)
