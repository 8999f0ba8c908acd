"""Random operations on a version 4 tree end in the files that plain sets of them end in."""

import itertools
from functools import cache, partial

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from icectl.commands.inspect.changes import detect_changes
from icectl.files.deletion_vectors import write_dv
from icectl.format.manifest import Content, FileFormat, Status
from icectl.format.snapshot import Snapshot
from icectl.sfc1.commit.compose import compose
from icectl.sfc1.commit.draft import (
    Attempt,
    CommitContext,
    ParentState,
    RemovedFile,
    TreeChange,
    TreeOptions,
    identities,
)
from icectl.sfc1.manifests import (
    LEAVES,
    NAMES,
    PLAIN,
    leaf_rows,
    live_parts,
    live_rows,
    read_leaf,
    vectors,
)
from icectl.storage.location import comparison_key
from tests.builders.examples import examples
from tests.builders.scenarios import FACTS, Files, reader_of, table

OPTIONS = st.builds(
    TreeOptions,
    max_data_files=st.sampled_from([0, 2, 1_000]),
    max_delete_entries=st.sampled_from([0, 1, 1_000]),
    inline_max_bytes=st.sampled_from([0, 18, 16_384]),
    inline_total_max_bytes=st.sampled_from([0, 40, 1_048_576]),
    leaf_max_entries=st.sampled_from([2, 1_000]),
    affinity=st.booleans(),
)
STEPS = st.lists(
    st.tuples(
        st.integers(0, 3),  # files to add
        st.lists(st.integers(0, 30), max_size=3),  # files to remove, by rank
        st.lists(st.integers(0, 30), max_size=3),  # files that get a new vector, by rank
        st.lists(st.integers(0, 9), max_size=3),  # leaves to compact, by rank
        OPTIONS,
    ),
    min_size=1,
    max_size=9,
)


class Table:
    """A tree, and beside it the live files as sets."""

    def __init__(self) -> None:
        self.files = Files()
        self.read = cache(partial(read_leaf, self.files, FACTS))  # files never change
        self.rows = FACTS.empty()
        self.next_row_id = 0
        self.commits = 0
        self.names = 0
        self.data: dict[str, int] = {}
        self.deleted: dict[str, int] = {}
        self.row_ids: dict[str, int] = {}

    def name(self, suffix: str = ".parquet") -> str:
        self.names += 1
        return f"file:///t/x/{self.names:04}{suffix}"

    def look(self, leaf):
        return read_leaf(self.files, FACTS, leaf, part=PLAIN)

    def names_of(self, leaf):
        return read_leaf(self.files, FACTS, leaf, part=NAMES)

    def data_row(self) -> dict:
        return {
            "content": Content.DATA, "location": self.name(), "file_format": FileFormat.PARQUET,
            "spec_id": 0, "record_count": 10, "file_size_in_bytes": 100,
        }  # fmt: skip

    def vector_row(self, data_file: str, count: int) -> dict:
        location, blob = self.name(".puffin"), write_dv(np.arange(count))
        self.files.contents[location] = b"PFA1" + blob
        return {
            "content": Content.POSITION_DELETES, "location": location,
            "file_format": FileFormat.PUFFIN, "spec_id": 0, "record_count": count,
            "file_size_in_bytes": len(blob) + 4, "content_offset": 4,
            "content_size_in_bytes": len(blob), "referenced_file": data_file,
        }  # fmt: skip

    def step(self, added, removed, deleted, compacted, options) -> None:
        there = sorted(self.data)
        gone = list(dict.fromkeys(there[at] for at in removed if at < len(there)))
        kept = [name for name in there if name not in gone]
        new = [self.data_row() for _ in range(added)]
        again = dict.fromkeys(kept[at] for at in deleted if at < len(kept))
        counts = {name: self.deleted.get(name, 0) + 1 for name in again}
        counts = {name: count for name, count in counts.items() if count <= 10}
        replaced = [self.vector_row(name, count) for name, count in counts.items()]
        leaves = [comparison_key(leaf.name) for leaf in leaf_rows(live_rows(self.rows))]
        change = TreeChange(
            pa.concat_tables(
                [FACTS.empty(), *([table(*new, *replaced)] if new or replaced else [])]
            ),
            [RemovedFile(Content.DATA, name) for name in gone],
            frozenset(leaves[at] for at in compacted if at < len(leaves)),
        )
        before = set(self.identities())
        self.commits += 1
        made = compose(
            CommitContext(
                FACTS,
                options,
                self.read,
                self.look,
                self.names_of,
                self.name,
                self.name,
                self.files.store,
            ),
            ParentState(self.rows, vectors(self.files, self.rows)),
            change,
            Attempt(100 + self.commits, self.commits, self.next_row_id),
        )
        for file in made.files:
            assert file.location not in self.files.contents
            self.files.contents[file.location] = file.content
        self.rows = made.rows
        root = self.name()
        self.files.contents[root] = made.root
        number = self.commits
        self.snapshot = Snapshot(100 + number, 0, None, number, root_manifest=root)
        self.next_row_id += made.added_rows
        for name in gone:
            del self.data[name]
            self.deleted.pop(name, None)
        self.data |= {row["location"]: self.commits for row in new}
        self.deleted |= counts
        self.check(before)

    def identities(self) -> dict:
        live = pa.concat_tables(live_parts(self.rows, vectors(self.files, self.rows), self.read))
        rows = live.drop_columns(["content_stats"]).to_pylist()
        return dict(zip(identities(live), rows, strict=True))

    def check(self, before: set) -> None:
        found = self.identities()
        data = {row["location"]: row for key, row in found.items() if key[0] == Content.DATA}
        assert {name: row["sequence_number"] for name, row in data.items()} == self.data
        positions = {
            row["referenced_file"]: row["record_count"]
            for key, row in found.items()
            if key[0] == Content.POSITION_DELETES
        }
        assert positions == self.deleted
        removed, added = detect_changes(reader_of(self.files, [self.snapshot]), self.snapshot)
        assert set(identities(added.table)) == found.keys() - before
        assert set(identities(removed.table)) == before - found.keys()
        self.check_row_ids(data)
        self.check_root()

    def check_row_ids(self, data) -> None:
        """A file keeps its row ids wherever its entry moves, and shares none (V4-067, V4-162)."""
        ids = {name: row["first_row_id"] for name, row in data.items()}
        assert all(number is not None for number in ids.values())
        assert all(self.row_ids.setdefault(name, number) == number for name, number in ids.items())
        starts = sorted(ids.values())
        assert all(b - a >= 10 for a, b in itertools.pairwise(starts))
        assert not starts or starts[-1] + 10 <= self.next_row_id

    def check_root(self) -> None:
        leaves = {comparison_key(leaf.name): leaf for leaf in leaf_rows(live_rows(self.rows))}
        dead = vectors(self.files, self.rows)
        assert dead.keys() <= leaves.keys()  # V4-081
        data_leaves = {
            key: set(self.read(leaf)["location"].to_pylist())
            for key, leaf in leaves.items()
            if leaf.content == Content.DATA_MANIFEST
        }
        for key, leaf in leaves.items():
            held = self.read(leaf)
            assert len(set(held["status"].to_pylist())) == 1  # pure (V4-107)
            home = leaf.referenced_file
            if home is not None:  # V4-114
                alive = np.ones(len(held), bool)
                alive[dead.get(key, np.empty(0, np.uint64)).astype(int)] = False
                references = set(held.filter(pa.array(alive))["referenced_file"].to_pylist())
                assert references <= data_leaves[comparison_key(home)]
        for row in self.rows.to_pylist():
            if row["status"] == Status.DELETED:
                assert row["content"] not in LEAVES  # V4-068


@examples(10, 60)
@given(STEPS)
def test_live_files_changes_and_row_ids_are_those_of_the_operations(steps):
    made = Table()
    for step in steps:
        made.step(*step)
