"""Totals of entries against the summaries that other writers put into their snapshots."""

import pytest

from icectl.entries import rows, summary
from icectl.entries.rows import PLANNING_COLUMNS
from icectl.format.manifest import Status
from icectl.table.manifest_lists import read_snapshot_manifests
from icectl.table.manifests import load_entries
from tests.builders.expiry import context_of
from tests.builders.foreign_table import open_foreign

TABLES = [
    "dremio/multi_rowgroup_orders_with_deletes",
    "duckdb-iceberg/equality_deletes__mydb__mytable_partitioned",
    "duckdb-iceberg/generated_spec2_0_001",
    "iceberg-cxx/dangling_deletes",
    "iceberg-cxx/deletion_vectors",
    "impala/iceberg_v2_delete_pos_and_multi_eq_ids",
    "impala/iceberg_v3_deletion_vectors",
]


@pytest.mark.parametrize("name", TABLES)
def test_r031_totals_are_those_of_the_summaries_by_other_writers(name, fixtures_dir):
    store, metadata = open_foreign(fixtures_dir, name)
    checked: set[str] = set()
    for snapshot in metadata.snapshots:
        manifests = read_snapshot_manifests(store, metadata, snapshot)
        entries = load_entries(context_of(store=store), metadata, manifests, PLANNING_COLUMNS)
        named = entries.table["snapshot_id"].to_pylist()
        own = rows.take(
            entries, [at for at, id_ in enumerate(named) if id_ == snapshot.snapshot_id]
        )
        for part, kind in (
            (rows.live(entries), "total"),
            (rows.of_status(own, Status.ADDED), "added"),
            (rows.of_status(own, Status.DELETED), "removed"),
        ):
            counters = summary.summary_counters(summary.summarise(part), kind)
            stated = {key: int(value) for key, value in snapshot.summary.items() if key in counters}
            assert stated == {key: counters[key] for key in stated}
            checked |= stated.keys()
    assert checked >= summary.summary_counters(summary.Totals(), "total").keys()
