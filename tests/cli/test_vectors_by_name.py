"""Vectors of sfc-1 apply to the file that they name, whatever partition they state."""

from pathlib import Path

import pyarrow.parquet as pq

from icectl.cli import engines
from tests.builders.broken_tree import VECTOR, BrokenTree, data_files, in_row
from tests.builders.expiry import Clock
from tests.builders.inline_engine import InlineEngine
from tests.builders.table_builder import START_MS

LATER = Clock(START_MS + 365 * 86_400_000)


def live_rows(table: Path) -> int:
    """Rows of the live data files, of which a compaction leaves the live ones."""
    return sum(pq.read_metadata(name.removeprefix("file:")).num_rows for name in data_files(table))


def test_compact_applies_vectors_without_a_partition(healthy, prepared, monkeypatch):
    monkeypatch.setattr(engines, "LocalEngine", InlineEngine)
    run, left = prepared("compact", LATER), []
    for change in (in_row(VECTOR), in_row(VECTOR, content_stats=None)):
        table = healthy("grown")
        BrokenTree(table).edit_root(change)
        stored = live_rows(table)
        assert run(table, command="validate").code == 0
        assert run(table, "--rewrite-all", "--yes").code == 0
        assert run(table, command="validate").code == 0
        left.append(live_rows(table))
        assert left[-1] < stored
    assert left[0] == left[1]
