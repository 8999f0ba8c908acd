"""The tree of version 4 snapshots: the paper's scenarios, read from files as it draws them."""

from pathlib import Path

import pytest

from icectl.commands.inspect.summary import tree
from icectl.commands.inspect.tree_plan import Node
from icectl.commands.inspect.tree_report import walk
from icectl.table.reader import SnapshotChoice
from tests.builders.scenarios import SCENARIOS, Scenario

READ = [name for name, scenario in SCENARIOS.items() if scenario["kind"] in ("READ", "WRITE")]


def root_of(name: str, snapshot: str, limit: int = 20) -> Node:
    """The root of one snapshot of a scenario."""
    scenario = Scenario(name)
    scenario.build()
    choice = SnapshotChoice(snapshot_id=100 + scenario.number(snapshot))
    (drawn,) = tree(scenario.reader(), choice, limit).children
    (root,) = drawn.children
    return root


def told(node: Node) -> tuple[str, str, str]:
    """What a child of a root is, by the paper's names."""
    location = node.location or str(node.facts["referenced_manifest"])
    return node.kind, Path(location).stem, str(node.facts["status"])


def test_sc_09_a_vector_follows_its_leaf_and_names_what_it_kills():
    root = root_of("SC-09", "S3")
    assert [told(child) for child in root.children] == [
        ("manifest", "M1", "existing"),
        ("manifest-dv", "M1", "added"),
        ("manifest-dv", "M1", "deleted"),
    ]
    leaf, vector, replaced = root.children
    assert [Path(file.location or "").stem for file in leaf.children] == ["D1", "D4"]
    assert (leaf.facts["live_file_count"], leaf.facts["entry_count"]) == (2, 4)
    assert vector.applies_to == replaced.applies_to == (leaf.id,)
    assert [
        (Path(dead.location or "").stem, dead.facts["position"]) for dead in vector.children
    ] == [("D2", 1), ("D3", 2)]
    assert all(dead.facts["dead"] for dead in vector.children)
    counts = ("position_count", "fresh_count", "size_bytes")
    assert [vector.facts[name] for name in counts] == [2, 1, 20]
    assert [replaced.facts[name] for name in counts] == [1, 0, 18]
    assert replaced.children == ()


def test_sc_24_a_delete_leaf_points_at_the_data_leaf_it_is_affiliated_to():
    root = root_of("SC-24", "S1")
    ids = {Path(child.location or "").stem: child.id for child in root.children}
    homes = {Path(child.location or "").stem: child.applies_to for child in root.children}
    assert homes == {"DM1": (), "DM2": (), "DVM1": (ids["DM1"],), "DVM2": (ids["DM2"],), "DVM3": ()}
    affiliated = next(child for child in root.children if child.id == ids["DVM1"])
    assert affiliated.facts["affiliated_to"] == "file:///t/metadata/DM1.parquet"


def test_sc_15_files_that_the_root_lists_itself_hang_on_it():
    root = root_of("SC-15", "S2")
    assert [told(child) for child in root.children] == [
        ("data", "D1", "existing"),
        ("data", "D2", "added"),
        ("deletion-vector", "DV1", "added"),
    ]
    data, _, vector = root.children
    assert vector.applies_to == (data.id,)


def test_sc_07_a_file_removed_from_the_root_is_shown_as_removed():
    root = root_of("SC-07", "S2")
    assert [(*told(child), child.facts.get("dead")) for child in root.children] == [
        ("data", "D2", "existing", None),
        ("data", "D1", "deleted", True),
    ]


def test_a_limit_counts_leaves_files_and_killed_ones_apart():
    root = root_of("SC-24", "S1", limit=1)
    assert (len(root.children), root.left_out.count) == (1, 4)
    assert root.children[0].left_out.count == 1
    killer = root_of("SC-09", "S4", limit=1).children[1]
    assert (len(killer.children), killer.left_out.count) == (1, 2)


@pytest.mark.parametrize("name", READ)
def test_the_files_of_every_tree_are_the_live_ones_of_the_paper(name):
    for golden in SCENARIOS[name]["snapshots"]:
        nodes = list(walk(root_of(name, golden["snapshot"], limit=1_000)))
        live = [node for node in nodes if not node.facts.get("dead")]
        assert sorted(
            Path(str(node.location)).stem for node in live if node.kind == "data"
        ) == sorted(golden["live_files"])
        assert sorted(
            Path(str(node.location)).stem for node in live if node.kind == "deletion-vector"
        ) == sorted(golden["live_vectors"])
