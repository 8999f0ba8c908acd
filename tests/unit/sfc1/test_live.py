"""Live files of every snapshot of the paper's scenarios, read from files as drawn."""

import pyarrow as pa
import pytest

from icectl.errors import CorruptTable
from icectl.format.manifest import Content
from icectl.sfc1.manifests import live_parts, read_leaf, read_root, vectors
from tests.builders.scenarios import FACTS, SCENARIOS, Scenario, names

READ = [
    pytest.param(name, at, id=f"{name}-{scenario['snapshots'][at]['snapshot']}")
    for name, scenario in SCENARIOS.items()
    for at in range(len(scenario["snapshots"]))
    if scenario["kind"] in ("READ", "WRITE")
]


@pytest.fixture(scope="module")
def built():
    made = {}

    def scenario(name):
        if name not in made:
            made[name] = Scenario(name)
            made[name].build()
        return made[name]

    return scenario


def read(scenario, at):
    """(golden snapshot, root, reader of leaves)."""
    golden = scenario.snapshots[at]
    root = read_root(scenario.files, FACTS, scenario.snapshot(golden["snapshot"]))
    return golden, root, lambda leaf: read_leaf(scenario.files, FACTS, leaf)


@pytest.mark.parametrize(("name", "at"), READ)
def test_the_live_files_are_those_of_the_paper(built, name, at):
    scenario = built(name)
    golden, root, read_one = read(scenario, at)
    live = pa.concat_tables(live_parts(root, vectors(scenario.files, root), read_one))
    assert names(live, Content.DATA) == sorted(golden["live_files"])
    assert names(live, Content.POSITION_DELETES) == sorted(golden["live_vectors"])


@pytest.mark.parametrize(("name", "at"), READ)
def test_leaves_are_read_one_after_the_other(built, name, at):
    scenario = built(name)
    _, root, read_one = read(scenario, at)
    found = []

    def noting(leaf):
        found.append(leaf.name)
        return read_one(leaf)

    counts = [len(found) for _ in live_parts(root, vectors(scenario.files, root), noting)]
    assert counts == [*range(len(counts))]


@pytest.mark.parametrize(("name", "at"), [("SC-19", 2)])
def test_v4_080_two_vectors_of_one_leaf_are_refused(built, name, at):
    scenario = built(name)
    _, root, _ = read(scenario, at)
    with pytest.raises(CorruptTable) as caught:
        vectors(scenario.files, root)
    assert caught.value.rule == "V4-080"
