"""A table of version 4 goes through the same as one of version 3, and shows the same all along."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.builders.lives import COMMANDS, Life, evolving_twins, upgraded
from tests.builders.rows import (
    Row,
    current_metadata,
    read_metadata,
    read_rows,
    with_whole_locations,
)
from tests.builders.twins import Twin

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
    st.tuples(st.sampled_from(["compact", "rewrite", "expire"]), st.just(0)),
)
LIMITS = st.fixed_dictionaries(
    {
        "icectl.v4.root.max-data-files": st.sampled_from(["0", "3", "1000"]),
        "icectl.v4.root.max-delete-entries": st.sampled_from(["0", "2", "5000"]),
        "icectl.v4.mdv.inline-max-bytes": st.sampled_from(["0", "16384"]),
        "icectl.v4.affinity.enabled": st.sampled_from(["true", "false"]),
    }
)


def begun(directory: str, limits: dict[str, str]) -> Life:
    """A table of version 3 with four rows, and one that was upgraded from it, with its limits."""
    life = Life(evolving_twins(Path(directory), 3, "identity", "{}", mixed=False))
    life.step("append", "main", 4)
    upgraded(life)
    life.tables[1].set_properties(limits)
    return life


def live(steps: list[tuple[str, int | list[int]]], limits: dict[str, str]) -> None:
    with TemporaryDirectory() as directory:
        life = begun(directory, limits)
        for what, how in steps:
            before = heads(life)
            life.step(what, "main", how)
            life.compare()
            if what not in COMMANDS and heads(life) != before:
                compare_changes(life)
        for table in life.tables:
            found = table.run("validate", "--level", "data", "--all-snapshots")["result"]
            assert [one for one in found["findings"] if one["severity"] != "info"] == []


def heads(life: Life) -> list[int | None]:
    return [table.metadata.current_snapshot_id for table in life.tables]


def compare_changes(life: Life) -> None:
    """Both tables tell the same of their newest change."""
    found = [table.run("inspect", "changes")["result"] for table in life.tables]
    old, new = ({name: one[name] for name in COUNTED} for one in found)
    assert new == old


DEAD_IN_AVRO = {
    "icectl.v4.root.max-data-files": "0",
    "icectl.v4.root.max-delete-entries": "0",
    "icectl.v4.mdv.inline-max-bytes": "0",
    "icectl.v4.affinity.enabled": "true",
}


@example([("delete", [1]), ("remove", 1)], DEAD_IN_AVRO)
@example([*[("append", 4)] * 5, ("compact", 0), ("remove", 1)], DEAD_IN_AVRO)
@settings(max_examples=2, deadline=None)
@given(st.lists(STEP, min_size=2, max_size=6), LIMITS)
def test_both_show_the_same_after_every_step(steps, limits):
    live(steps, limits)


@pytest.mark.full
@settings(max_examples=300, deadline=None)
@given(st.lists(STEP, min_size=4, max_size=12), LIMITS)
def test_both_show_the_same_through_long_lives(steps, limits):
    live(steps, limits)


def go_through_layouts(steps: list[tuple[str, int | list[int]]], limits: dict[str, str]) -> None:
    with TemporaryDirectory() as directory:
        life = begun(directory, limits)
        for what, how in steps:
            life.step(what, "main", how)
        table = life.tables[1]
        shown = rows_and_entries(table)
        for layout in ("iceberg-1.12", "sfc-1"):
            table.run("upgrade-to-v4", "--layout", layout, "--yes")
            now = rows_and_entries(table)
            assert {key: now[key] for key in shown} == shown
            found = table.run("validate", "--level", "data", "--all-snapshots")["result"]
            assert [one for one in found["findings"] if one["severity"] != "info"] == []
        life.compare()
        life.step("append", "main", 2)
        life.step("delete", "main", [0, 3])
        life.compare()


def rows_and_entries(table: Twin) -> dict[int, tuple[list[Row], list[str]]]:
    """Rows of each snapshot, and its live files with their metrics, numbers and row ids."""
    metadata = with_whole_locations(read_metadata(current_metadata(table.directory)))
    found = {}
    for snapshot in table.metadata.snapshots:
        number = snapshot.snapshot_id
        words = ("inspect", "files", "--snapshot", str(number))
        files = [row | {"manifest_path": None} for row in table.run(*words)["result"]["rows"]]
        entries = sorted(repr(row).replace("file:/", "/") for row in files)  # with or without it
        found[number] = read_rows(metadata, number), entries
    return found


@example([("delete", [1]), ("remove", 1), ("append", 3), ("remove", 1)], DEAD_IN_AVRO)
@settings(max_examples=1, deadline=None)
@given(st.lists(STEP, min_size=2, max_size=6), LIMITS)
def test_every_snapshot_is_the_same_in_the_other_layout_and_back(steps, limits):
    go_through_layouts(steps, limits)


@pytest.mark.full
@settings(max_examples=100, deadline=None)
@given(st.lists(STEP, min_size=4, max_size=12), LIMITS)
def test_every_snapshot_of_a_long_life_is_the_same_in_the_other_layout(steps, limits):
    go_through_layouts(steps, limits)
