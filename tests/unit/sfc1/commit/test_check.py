"""The check before a version 4 commit: a root that has not the right files is not committed."""

from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from icectl.errors import SelfCheckFailed
from icectl.format.manifest import Content, FileFormat
from icectl.format.snapshot import Snapshot
from icectl.sfc1.commit import writer
from icectl.sfc1.commit.compose import compose
from icectl.sfc1.commit.draft import (
    Attempt,
    CommitContext,
    NewTree,
    ParentState,
    RemovedFile,
    TreeChange,
    TreeOptions,
)
from icectl.sfc1.commit.writer import check
from icectl.sfc1.manifest_file import TreeContent, write_tree
from icectl.sfc1.manifests import NAMES, PLAIN, leaf_rows, read_leaf, vectors
from icectl.storage.location import comparison_key
from tests.builders.scenarios import FACTS, Files, table

IN_LEAVES = TreeOptions(max_data_files=0)


class Tree:
    """Three data files in one leaf, and commits on top that are checked."""

    def __init__(self) -> None:
        self.files = Files()
        self.names = (f"file:///t/x/{number}" for number in range(99))
        self.means = CommitContext(
            FACTS,
            IN_LEAVES,
            lambda leaf: read_leaf(self.files, FACTS, leaf),
            lambda leaf: read_leaf(self.files, FACTS, leaf, part=PLAIN),
            lambda leaf: read_leaf(self.files, FACTS, leaf, part=NAMES),
            lambda: next(self.names),
            lambda: next(self.names),
            self.files.store,
        )
        self.added = table(*(row(name) for name in "abc"))
        self.change = TreeChange(self.added)
        self.made = self.compose(ParentState(FACTS.empty(), {}), 1)

    def compose(self, parent: ParentState, number: int) -> NewTree:
        self.parent, self.number = parent, number
        self.made = compose(self.means, parent, self.change, Attempt(number, number, 100 * number))
        return self.made

    def commit(self, change: TreeChange) -> NewTree:
        """The next root, on what the last one named."""
        self.files.contents |= {file.location: file.content for file in self.made.files}
        self.change = change
        rows = self.made.rows
        return self.compose(ParentState(rows, vectors(self.files, rows)), self.number + 1)

    def checked(self, made: NewTree) -> None:
        snapshot = Snapshot(self.number, 0, sequence_number=self.number, root_manifest="file:///r")
        check(self.files, self.means, self.parent, self.change, made, snapshot)  # type: ignore[arg-type]

    def rejected(self, rows: pa.Table) -> str:
        """What is said of a root with other rows than were composed."""
        wrong = replace(self.made, rows=rows, root=write_tree(rows, TreeContent.ROOT))
        with pytest.raises(SelfCheckFailed) as caught:
            self.checked(wrong)
        assert caught.value.rule == "V4-160"
        return caught.value.message.removesuffix(" (V4-160)")


def row(name: str) -> dict[str, object]:
    return {
        "content": Content.DATA, "location": f"file:///t/data/{name}",
        "file_format": FileFormat.PARQUET, "spec_id": 0, "record_count": 10,
        "file_size_in_bytes": 100,
    }  # fmt: skip


def changed(rows: pa.Table, name: str, value: object, where: pa.ChunkedArray) -> pa.Table:
    column = pc.if_else(where, pa.scalar(value, rows[name].type), rows[name])
    return rows.set_column(rows.schema.get_field_index(name), rows.schema.field(name), column)


@pytest.fixture
def tree() -> Tree:
    return Tree()


def compact(tree: Tree) -> TreeChange:
    leaves = [comparison_key(leaf.name) for leaf in leaf_rows(tree.made.rows)]
    return TreeChange(FACTS.empty(), rewritten=frozenset(leaves))


def remove(name: str) -> TreeChange:
    return TreeChange(FACTS.empty(), [RemovedFile(Content.DATA, f"file:///t/data/{name}")])


def test_commits_that_do_what_they_should_pass(tree):
    tree.checked(tree.made)
    tree.checked(tree.commit(remove("b")))
    tree.checked(tree.commit(compact(tree)))
    tree.checked(tree.commit(TreeChange(table(row("d")))))


def test_a_leaf_that_is_lost_is_noticed(tree):
    made = tree.commit(compact(tree))
    message = tree.rejected(made.rows.slice(0, 0))
    assert message.endswith("files that stay differ in their number (3 and 0)")


def test_many_files_are_compared_in_parts(tree, monkeypatch):
    monkeypatch.setattr(writer, "_ROWS_OF_PART", 1)
    tree.checked(tree.commit(remove("b")))
    made = tree.commit(compact(tree))
    tree.checked(made)
    message = tree.rejected(made.rows.slice(0, 0))
    assert message.endswith("files that stay differ in their number (1 and 0)")


def test_a_removed_file_that_lives_on_is_noticed(tree):
    made = tree.commit(remove("b"))
    without_vector = made.rows.filter(pc.not_equal(made.rows["content"], int(Content.MANIFEST_DV)))
    assert tree.rejected(without_vector).endswith("1 files go, of which 0 were live")


def test_an_added_file_that_is_missing_is_noticed(tree):
    made = tree.commit(TreeChange(table(row("d"))))
    (first, _) = leaf_rows(tree.made.rows)
    rest = made.rows.filter(pc.equal(made.rows["location"], first.location))
    assert tree.rejected(rest).endswith("1 files are new, of which 0 live")


@pytest.mark.parametrize("name", ["sequence_number", "file_sequence_number", "snapshot_id"])
def test_other_numbers_of_files_that_stay_are_noticed(tree, name):
    tree.means = replace(tree.means, options=TreeOptions(max_data_files=9))
    tree.made = tree.compose(ParentState(FACTS.empty(), {}), 1)
    made = tree.commit(TreeChange(table(row("d"))))
    is_a = pc.equal(made.rows["location"], "file:///t/data/a")
    assert tree.rejected(changed(made.rows, name, 7, is_a)).endswith(f"differ in {name}")


def test_other_row_ids_are_noticed_and_new_ones_are_not(tree):
    tree.means = replace(tree.means, options=TreeOptions(max_data_files=9))
    tree.made = tree.compose(ParentState(FACTS.empty(), {}), 1)
    made = tree.commit(TreeChange(table(row("d"))))
    is_a = pc.equal(made.rows["location"], "file:///t/data/a")
    assert tree.rejected(changed(made.rows, "first_row_id", 7, is_a)).endswith("first_row_id")
    blank = changed(tree.parent.rows, "first_row_id", None, pc.is_valid(tree.parent.rows["status"]))
    tree.parent = ParentState(blank, {})
    tree.checked(made)
