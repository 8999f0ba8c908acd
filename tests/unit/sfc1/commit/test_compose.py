"""Roots of the paper's scenarios, as icectl writes them: row by row what the paper lists.

The operation of a snapshot is read off the changes that the paper gives for it; what it leaves
open is what the paper says the test forces: which leaves are compacted, and whether new files go
into leaves.
"""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from icectl.format.manifest import Content, Status
from icectl.sfc1.commit.compose import compose
from icectl.sfc1.commit.draft import (
    Attempt,
    CommitContext,
    ParentState,
    RemovedFile,
    TreeChange,
    TreeOptions,
)
from icectl.sfc1.manifest_file import listed_rows
from icectl.sfc1.manifests import LEAVES, NAMES, PLAIN, live_rows, read_leaf, vectors
from icectl.storage.location import comparison_key
from tests.builders.scenarios import FACTS, SCENARIOS, Scenario, table

WRITE = [name for name, scenario in SCENARIOS.items() if scenario["kind"] == "WRITE"]
THRESHOLDS = {"SC-23": 3}
"""What `icectl.v4.root.max-data-files` is in scenarios about it."""


class Chain:
    """The snapshots of one scenario, committed one after the other."""

    def __init__(self, name: str) -> None:
        self.scenario = Scenario(name)
        self.golden = self.scenario.golden
        self.rows = FACTS.empty()
        self.next_row_id = 0
        self.locations: dict[str, str] = {}
        self.count = 0
        if any(one.get("format") == "avro" for one in self.golden["files"].values()):
            self.scenario.build()

    def location(self) -> str:
        self.count += 1
        return f"file:///t/metadata/new-{self.count}"

    def options(self, golden) -> TreeOptions:
        new_leaves = {
            row["content"]
            for row in golden["rows"]
            if row["content"] in LEAVES and row["status"] == "ADDED"
        }
        limit = THRESHOLDS.get(self.scenario.name, 1_000)
        return TreeOptions(
            max_data_files=0 if Content.DATA_MANIFEST in new_leaves else limit,
            max_delete_entries=0 if Content.DELETE_MANIFEST in new_leaves else 5_000,
            affinity=False,
        )

    def rewritten(self, golden, before) -> frozenset[str]:
        """Leaves that the paper compacts: gone where a new EXISTING leaf of their kind is."""
        there = {row["name"] for row in golden["rows"]}
        kinds = {
            row["content"]
            for row in golden["rows"]
            if row["content"] in LEAVES
            and row["status"] == "EXISTING"
            and row["snapshot"] == golden["snapshot"]
        }
        gone = [
            row["name"]
            for row in (before or {"rows": []})["rows"]
            if row["content"] in kinds and row["name"] not in there
        ]
        return frozenset(comparison_key(self.locations[name]) for name in gone)

    def rewritten_files(self, golden, before) -> frozenset[str]:
        """Files that the paper moves out of the root; where it is for want of room, icectl must."""
        if before is None or self.scenario.name in THRESHOLDS:
            return frozenset()
        there = {row["name"] for row in golden["rows"]} | set(golden["removed_files"])
        return frozenset(
            comparison_key(self.scenario.file_row(row["name"])["location"])
            for row in before["rows"]
            if row["content"] in (0, 1) and row["name"] not in there
        )

    def change(self, golden, before) -> TreeChange:
        names = [*golden["added_files"], *golden["added_vectors"]]
        rows = [self.scenario.file_row(name) for name in names]
        for row in golden["rows"]:
            if "data_seq_of" in row:
                at = names.index(row["name"])
                rows[at]["sequence_number"] = self.scenario.number(row["data_seq_of"])
        removed = [self.scenario.file_row(name) for name in golden["removed_files"]]
        return TreeChange(
            pa.concat_tables([FACTS.empty(), table(*rows)]) if rows else FACTS.empty(),
            [RemovedFile(Content.DATA, row["location"]) for row in removed],
            self.rewritten(golden, before),
            self.rewritten_files(golden, before),
        )

    def commit(self, golden, before) -> None:
        sequence_number = self.scenario.number(golden["snapshot"])
        files = self.scenario.files
        means = CommitContext(
            FACTS,
            self.options(golden),
            lambda leaf: read_leaf(files, FACTS, leaf),
            lambda leaf: read_leaf(files, FACTS, leaf, part=PLAIN),
            lambda leaf: read_leaf(files, FACTS, leaf, part=NAMES),
            self.location,
            self.location,
            files.store,
        )
        made = compose(
            means,
            ParentState(self.rows, vectors(files, self.rows)),
            self.change(golden, before),
            Attempt(100 + sequence_number, sequence_number, self.next_row_id),
        )
        for file in made.files:
            files.contents[file.location] = file.content
        self.rows = made.rows
        expected = golden["row_ids"]
        assert [self.next_row_id, made.added_rows, self.next_row_id + made.added_rows] == expected
        self.next_row_id += made.added_rows


def shown(chain: Chain, rows: pa.Table, golden) -> list[tuple[object, ...]]:
    """The rows of a root in the paper's words, its leaves' names found by their order."""
    listed = []
    for row, told in zip(
        rows.drop_columns(["content_stats"]).to_pylist(), golden["rows"], strict=True
    ):
        name = Path(row["location"]).stem if row["content"] in (0, 1) else told["name"]
        if row["content"] in LEAVES:
            assert chain.locations.setdefault(told["name"], row["location"]) == row["location"]
        listed.append(
            (
                name, row["content"], Status(row["status"]).name, row["snapshot_id"] - 100,
                row["sequence_number"], row["file_sequence_number"], row["first_row_id"],
            )
        )  # fmt: skip
    return listed


def told(chain: Chain, golden) -> list[tuple[object, ...]]:
    number = chain.scenario.number
    return [
        (
            row["name"],
            row["content"],
            row["status"],
            number(row["snapshot"]),
            number(row.get("data_seq_of", row.get("seq_of", row["snapshot"]))),
            number(row.get("seq_of", row["snapshot"])),
            row.get("first_row_id"),
        )
        for row in golden["rows"]
    ]


def check_files(chain: Chain, rows: pa.Table, golden) -> None:
    """Leaves hold the rows, and bitmaps the positions, that the paper lists."""
    files = chain.scenario.files
    described = chain.golden["files"]
    dead = vectors(files, rows)
    for row, named in zip(listed_rows(rows), golden["rows"], strict=True):
        if row.content in LEAVES:
            leaf = read_leaf(files, FACTS, row)
            assert [
                [Path(location).stem, Status(status).name]
                for location, status in zip(
                    leaf["location"].to_pylist(), leaf["status"].to_pylist(), strict=True
                )
            ] == described[named["name"]]["rows"]
        elif row.content == Content.MANIFEST_DV and row.status != Status.DELETED:
            expected = np.array(described[named["name"]]["positions"], np.uint64)
            assert dead[comparison_key(row.referenced_file)].tolist() == expected.tolist()
            assert row.referenced_file == chain.locations[described[named["name"]]["referenced"]]


@pytest.mark.parametrize("name", [name for name in WRITE if name != "SC-02"])
def test_the_roots_are_those_of_the_paper(name):
    chain = Chain(name)
    before = None
    for golden in chain.scenario.snapshots:
        chain.commit(golden, before)
        assert shown(chain, chain.rows, golden) == told(chain, golden), golden["snapshot"]
        check_files(chain, chain.rows, golden)
        before = golden


def test_a_vector_goes_on_an_avro_leaf_of_an_upgraded_table():
    chain = Chain("SC-02")
    first, *later = chain.scenario.snapshots
    chain.rows = live_rows(
        pa.concat_tables([chain.scenario._root_row(row) for row in first["rows"]])
    )
    chain.next_row_id = 300
    for golden in later:
        chain.commit(golden, first)
        assert shown(chain, chain.rows, golden) == told(chain, golden)
        check_files(chain, chain.rows, golden)
