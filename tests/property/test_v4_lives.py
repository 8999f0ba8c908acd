"""Tables begin in any version, and their twins of version 4 show the same whatever comes."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from icectl.cli import engines
from tests.builders.inline_engine import InlineEngine
from tests.builders.lives import SPELLINGS, Life, Step, evolving_twins, faults, upgraded
from tests.builders.table_builder import PARTITIONINGS

BRANCHES = st.sampled_from(["main", "main", "b"])
RANKS = st.lists(st.integers(0, 20), min_size=1, max_size=4)
MAIN = st.just("main")
PARTITIONING = st.sampled_from(sorted(PARTITIONINGS))
CHANGE = st.one_of(
    st.tuples(st.sampled_from(["append", "overwrite"]), BRANCHES, st.integers(1, 6)),
    st.tuples(st.sampled_from(["delete", "delete by value"]), BRANCHES, RANKS),
    st.tuples(st.just("remove"), BRANCHES, st.integers(1, 2)),
    st.tuples(st.sampled_from(["branch", "drop", "move"]), MAIN, st.integers(0, 2)),
    st.tuples(st.just("tag"), BRANCHES, st.integers(1, 2)),
    st.tuples(st.just("roll back"), BRANCHES, st.integers(0, 4)),
    st.tuples(st.just("partition"), MAIN, PARTITIONING),
    st.tuples(st.just("evolve"), MAIN, st.sampled_from(["add", "rename", "drop", "widen"])),
)
COMMAND = st.sampled_from(
    ["compact", "compact all", "compact deletes", "rewrite", "expire", "expire all", "orphans"]
)
LIMIT = st.sampled_from(
    [
        {f"icectl.v4.{name}": value}
        for name, values in {
            "root.max-data-files": ["0", "3", "1000"], "root.max-delete-entries": ["0", "2"],
            "mdv.inline-max-bytes": ["0"], "affinity.enabled": ["false", "true"],
            "leaf.max-entries": ["2"], "relative-locations": ["true", "false"],
        }.items()
        for value in values
    ]
)  # fmt: skip
LATER = st.one_of(
    CHANGE,
    st.tuples(COMMAND, BRANCHES, st.just(0)),
    st.tuples(st.sampled_from(["beside", "crash"]), MAIN, st.integers(1, 3)),
    st.tuples(st.just("upgrade"), MAIN, st.just(0)),
    st.tuples(st.just("limit"), MAIN, LIMIT),
)
MODE = st.sampled_from([(), ("--lazy",), ("--eager",), ("--eager", "--convert-position-deletes")])
BEGINNING = st.tuples(
    st.sampled_from([1, 2, 3]), PARTITIONING, st.sampled_from(SPELLINGS), st.booleans()
)


def live(
    beginning: tuple[int, str, str, bool],
    early: list[Step],
    mode: tuple[str, ...],
    late: list[Step],
) -> None:
    version, partitioning, spelling, mixed = beginning
    with TemporaryDirectory() as directory, pytest.MonkeyPatch.context() as patch:
        patch.setattr(engines, "LocalEngine", InlineEngine)
        tables = evolving_twins(Path(directory), version, partitioning, spelling, mixed=mixed)
        life = Life(tables)
        for step in [("append", "main", 4), *early]:
            life.step(*step)
        upgraded(life, *mode)
        for step in late:
            life.step(*step)
            life.compare()
            assert faults(tables[1], "metadata") == []
        life.step("orphans", "main", 0)
        life.compare()
        assert [faults(table, "data") for table in tables] == [[], []]


@example(
    (2, "identity", "{}", True),
    [("delete", "main", [1, 2]), ("branch", "main", 0), ("partition", "main", "truncate")],
    (),
    [
        ("append", "main", 6), ("limit", "main", {"icectl.v4.relative-locations": "true"}),
        ("delete", "b", [0]), ("rewrite", "main", 0), ("remove", "main", 2),
        ("expire all", "main", 0),
    ],
)  # fmt: skip
@settings(max_examples=1, deadline=None)
@given(BEGINNING, st.lists(CHANGE, max_size=3), MODE, st.lists(LATER, min_size=2, max_size=4))
def test_tables_of_any_beginning_show_the_same_as_trees(beginning, early, mode, late):
    live(beginning, early, mode, late)


@pytest.mark.full
@settings(max_examples=200, deadline=None)
@given(BEGINNING, st.lists(CHANGE, max_size=6), MODE, st.lists(LATER, min_size=3, max_size=10))
def test_tables_of_any_beginning_show_the_same_through_long_lives(beginning, early, mode, late):
    live(beginning, early, mode, late)
