"""What would change the meaning of rows is refused by every command that changes a table."""

import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest

from icectl.cli import app
from icectl.errors import CorruptTable
from tests.builders.broken import DAMAGES, Record
from tests.builders.broken_tree import (
    BITMAP,
    DATA_LEAF,
    DELETE_LEAF,
    DELETED,
    EQUALITY,
    TREE_DAMAGES,
    BrokenTree,
    in_row,
    of,
)
from tests.builders.folders import contents_of
from tests.builders.table_builder import START_MS, TableBuilder
from tests.builders.tree_table import add_files, data_files, remove_data_files
from tests.stores.fixed_env import FixedEnv

WORDS = {
    "compact": ["--rewrite-all", "--engine", "local"],
    "rewrite-manifests": [],
    "expire-snapshots": ["--retain-last", "1", "--older-than", "0s", "--clean-expired-metadata"],
    "remove-orphans": [],
    "upgrade-to-v4": ["--layout=sfc-1", "--eager"],
}
EVERY = tuple(WORDS)
READING_LEAVES = ("compact", "rewrite-manifests")
"""Commands that look at all that the rows of leaves refer to."""


@dataclass(frozen=True)
class Case:
    """A damage, the rule that it breaks, the commands that can see it, and the healthy table."""

    name: str
    rule: str
    apply: Callable[[BrokenTree], None]
    seen_by: tuple[str, ...] = EVERY
    table: str = "whole"


def a_vector_that_names_no_leaf(broken: BrokenTree) -> None:
    broken.edit_root(in_row(BITMAP, referenced_file=None))


def an_old_vector_that_names_no_leaf(broken: BrokenTree) -> None:
    broken.edit_root(in_row(BITMAP, DELETED, referenced_file=None))


def another_root_in_place(broken: BrokenTree) -> None:
    shutil.copyfile(broken.roots()[-2], broken.root())


def fewer_files_than_the_leaf_has(broken: BrokenTree) -> None:
    """Two rows of three are dead: by its counts none lives."""

    def change(rows: list[Record]) -> None:
        of(rows, DATA_LEAF)["manifest_stats"]["existing_files_count"] = 2

    broken.edit_root(change)


def data_files_in_another_order(broken: BrokenTree) -> None:
    broken.edit_leaf(lambda rows: rows[::-1], DATA_LEAF)


def vectors_in_another_order(broken: BrokenTree) -> None:
    broken.edit_leaf(lambda rows: rows[::-1], DELETE_LEAF)


def row_ids_of_another_file_in_a_leaf(broken: BrokenTree) -> None:
    def change(rows: list[Record]) -> None:
        rows[0]["tracking_info"]["first_row_id"] = 25

    broken.edit_leaf(change, DATA_LEAF)


def a_delete_of_no_known_partition(broken: BrokenTree) -> None:
    """It was taken for one that applies to nothing, and its row came back."""

    def change(rows: list[Record]) -> None:
        of(rows, EQUALITY)["content_stats"]["s2"] = None

    broken.edit_leaf(change, DELETE_LEAF)


def a_file_of_the_future_in_a_leaf(broken: BrokenTree) -> None:
    def change(rows: list[Record]) -> None:
        rows[0]["tracking_info"].update(sequence_number=99, file_sequence_number=99)

    broken.edit_leaf(change, DATA_LEAF)


def main_behind_the_current_snapshot(broken: BrokenTree) -> None:
    before = broken.members()["snapshots"][-2]["snapshot-id"]
    broken.edit(lambda members: members["refs"]["main"].update({"snapshot-id": before}))


def _registered(beginning: str) -> Iterable[Case]:
    found = [one for one in TREE_DAMAGES if one.name.startswith(beginning)]
    assert found
    for one in found:
        yield Case(one.name, one.rule, one.apply)  # type: ignore[arg-type]


def _damages(*beginnings: str) -> list[Case]:
    return [case for beginning in beginnings for case in _registered(beginning)]


CASES = [
    *_damages("v4_017", "v4_018", "v4_030", "v4_045", "v4_052", "v4_053", "v4_056", "v4_058"),
    *_damages("v4_059", "v4_060", "v4_064", "v4_067_a_data", "v4_080", "v4_081", "v4_082"),
    *_damages("v4_083", "v4_085", "v4_086", "v4_114_a_delete", "v4_116", "v4_120", "v4_121"),
    *_damages("v4_123_more", "v4_124"),
    Case("main_behind", "V4-019", main_behind_the_current_snapshot),
    Case("no_leaf", "V4-059", a_vector_that_names_no_leaf),
    Case("no_leaf_once", "V4-059", an_old_vector_that_names_no_leaf),
    Case("another_root", "V4-045", another_root_in_place),
    Case("fewer_files", "V4-058", fewer_files_than_the_leaf_has),
    Case(
        "data_files_in_another_order",
        "V4-122",
        data_files_in_another_order,
        (*READING_LEAVES, "expire-snapshots"),
    ),
    Case(
        "vectors_in_another_order",
        "V4-122",
        vectors_in_another_order,
        (*READING_LEAVES, "expire-snapshots"),
    ),
    Case("unknown_partition", "V4-126", a_delete_of_no_known_partition, ("compact",), "equality"),
    Case("row_ids_in_a_leaf", "V4-067", row_ids_of_another_file_in_a_leaf, READING_LEAVES),
    Case("future_in_a_leaf", "V4-064", a_file_of_the_future_in_a_leaf, READING_LEAVES),
]


def numbers_below_those_in_use(broken: BrokenTree) -> None:
    broken.edit(lambda members: members.update({"last-sequence-number": 2}))


def _of_older_versions() -> Iterable[Case]:
    """Damages of versions 1 to 3; one of the other rules leaves the rows what they are."""
    wanted = {
        "r015": ("R-015", EVERY),
        "r104": ("R-104", EVERY),
        "r041": ("R-041", ("compact", "rewrite-manifests")),
        "r044": ("R-044", ("compact", "rewrite-manifests")),
        "r050_a_manifest_that_is": ("R-050", ("compact", "rewrite-manifests")),
        "r066": ("R-066", ("compact", "expire-snapshots")),
        "r120": ("R-120", ("compact",)),
    }
    for beginning, (rule, seen_by) in wanted.items():
        (one,) = [one for one in DAMAGES if one.name.startswith(beginning)]
        yield Case(one.name, rule, one.apply, seen_by, one.table)  # type: ignore[arg-type]
    yield Case("numbers_below", "R-014", numbers_below_those_in_use, EVERY, "v2")


ALL_CASES = [*CASES, *_of_older_versions()]


def _later() -> FixedEnv:
    return FixedEnv(START_MS + 10**11, uuids=5_000, snapshot_ids=5_000)


def _run(command: str, table: Path, *words: str) -> int:
    return app.main([command, str(table), *words], env=_later())


def _change(command: str, table: Path) -> int:
    return _run(command, table, *WORDS[command], "--yes", "--quiet")


@pytest.mark.parametrize("command", EVERY)
@pytest.mark.parametrize("name", ["whole", "v2", "v3"])
def test_every_command_goes_through_on_a_healthy_table(healthy, name, command):
    assert _change(command, healthy(name)) == 0


@pytest.mark.parametrize("most", [1, pytest.param(len(EVERY), marks=pytest.mark.full)])
@pytest.mark.parametrize(
    ("turn", "case"), list(enumerate(ALL_CASES)), ids=[case.name for case in ALL_CASES]
)
def test_a_table_whose_rows_are_not_sure_is_refused_and_left_as_it_is(
    healthy, capsys, turn, case, most
):
    """In the quick tier by one of the commands, another one for the next damage."""
    table = healthy(case.table)
    case.apply(BrokenTree(table))
    before = contents_of(table)
    first = turn * most % len(case.seen_by)
    for command in (case.seen_by[first:] + case.seen_by[:first])[:most]:
        assert (command, _change(command, table)) == (command, 15)
        told = capsys.readouterr().err
        assert f"({case.rule})" in told
        assert "hint: " in told
        assert "Traceback" not in told
        assert contents_of(table) == before


@pytest.mark.parametrize(
    "case", [case for case in CASES if case.seen_by == EVERY], ids=lambda case: case.name
)
def test_library_commits_refuse_the_same(healthy, case):
    table = healthy()
    new = TableBuilder(table / "more", format_version=3).loose_data_files([95])
    live = data_files(table)
    case.apply(BrokenTree(table))
    before = contents_of(table)
    with pytest.raises(CorruptTable) as appended:
        add_files(table, _later(), new)
    with pytest.raises(CorruptTable) as deleted:
        remove_data_files(table, _later(), [live[0]])
    assert [appended.value.rule, deleted.value.rule] == [case.rule] * 2
    assert contents_of(table) == before


NOT_SHOWN = {
    "v4_080_two_vectors_of_a_leaf", "v4_082_bytes_behind_a_bitmap",
    "v4_083_a_position_behind_the_leaf", "fewer_files", "unknown_partition",
}  # fmt: skip
"""Damages by which nobody can tell what lives, or where: not even inspect shows all files."""


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_inspect_shows_what_can_be_shown(healthy, capsys, case):
    table = healthy(case.table)
    case.apply(BrokenTree(table))
    for view in ("files", "manifests", "tree"):
        code = _run("inspect", table, view)
        told = capsys.readouterr()
        assert code in ((0, 3, 15) if case.name in NOT_SHOWN else (0,)), (view, told.err)
        assert "Traceback" not in told.err
        assert bool(told.out) == (code != 15)


def test_what_expires_may_be_damaged(healthy, capsys):
    """A damaged snapshot can be let go of: what it alone lists stays."""
    table = healthy()
    broken = BrokenTree(table)
    before = broken.roots()[-2]
    assert before != broken.root()
    shutil.copyfile(broken.roots()[-3], before)
    assert _change("expire-snapshots", table) == 0
    assert not before.exists() or capsys.readouterr().err
    assert _run("validate", table) == 0


def test_level_data_of_validate_tells_of_a_vector_without_a_leaf(healthy, capsys):
    table = healthy()
    a_vector_that_names_no_leaf(BrokenTree(table))
    assert _run("validate", table, "--level", "data") == 4
    told = capsys.readouterr()
    assert "V4-059" in told.out
    assert "Traceback" not in told.err
