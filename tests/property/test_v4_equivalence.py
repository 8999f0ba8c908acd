"""A table of version 4 goes through the same as one of version 3, and shows the same all along."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.builders.lives import COMMANDS, Life, evolving_twins, upgraded

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


def live(steps: list[tuple[str, int | list[int]]], limits: dict[str, str]) -> None:
    with TemporaryDirectory() as directory:
        life = Life(evolving_twins(Path(directory), 3, "identity", "{}", mixed=False))
        life.step("append", "main", 4)
        upgraded(life)
        life.tables[1].set_properties(limits)
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
@settings(max_examples=8, deadline=None)
@given(st.lists(STEP, min_size=2, max_size=6), LIMITS)
def test_both_show_the_same_after_every_step(steps, limits) -> None:
    live(steps, limits)


@pytest.mark.full
@settings(max_examples=300, deadline=None)
@given(st.lists(STEP, min_size=4, max_size=12), LIMITS)
def test_both_show_the_same_through_long_lives(steps, limits) -> None:
    live(steps, limits)
