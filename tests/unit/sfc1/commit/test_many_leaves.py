"""Commits to a table of many leaves: none is looked at for itself that a commit leaves alone."""

import pyarrow as pa
import pytest

from icectl.entries.rows import Entries
from icectl.sfc1 import manifests
from tests.benchmarks.trees import BUILDING, DEFAULTS, TreeTable, new_files

LEAVES, ENTRIES = 6, 10


@pytest.fixture
def table() -> TreeTable:
    table = TreeTable(BUILDING | {"icectl.v4.leaf.max-entries": str(ENTRIES)})
    batches = [new_files(number, ENTRIES).table for number in range(LEAVES)]
    table.append(Entries(pa.concat_tables(batches)))
    table.set_properties(DEFAULTS)
    return table


@pytest.fixture
def listed(monkeypatch) -> list[int]:
    """How many leaves were made objects, call by call."""
    counts = []
    listed_rows = manifests.listed_rows

    def counting(rows: pa.Table):
        counts.append(len(rows))
        return listed_rows(rows)

    monkeypatch.setattr(manifests, "listed_rows", counting)
    return counts


def test_an_append_makes_no_object_of_any_leaf(table, listed):
    table.append(new_files(LEAVES, 1))
    assert sum(listed) == 0


def test_a_delete_makes_one_object_of_each_leaf(table, listed):
    table.delete([str(new_files(2, ENTRIES).table["location"][7].as_py())])
    # The last look compares the leaf of the file before and after, by its new vector.
    assert sum(listed) == LEAVES + 3
