"""Which deletes apply in tables by Trino, Flink, Impala, Spark and DuckDB."""

import pytest

from icectl.entries import deletes
from icectl.entries.deletes import DeleteMatches
from icectl.entries.rows import PLANNING_COLUMNS
from icectl.format.manifest import Content
from icectl.table.manifest_lists import read_snapshot_manifests
from icectl.table.manifests import load_entries
from tests.builders.expiry import context_of
from tests.builders.foreign_table import facts_of, open_foreign


def match(fixtures_dir, name: str) -> DeleteMatches:
    store, metadata = open_foreign(fixtures_dir, name)
    manifests = read_snapshot_manifests(store, metadata, metadata.current_snapshot)
    entries = load_entries(
        context_of(store=store), metadata, manifests, PLANNING_COLUMNS, to_match=True
    )
    specs = {spec.spec_id for spec in metadata.partition_specs if spec.is_unpartitioned}
    return deletes.match(entries, specs)


def test_deletes_of_files_that_were_rewritten_dangle(fixtures_dir):
    found = match(fixtures_dir, "iceberg-cxx/dangling_deletes")
    assert (len(found.data), len(found.deletes)) == (1, 2)
    assert deletes.dangling(found).table.equals(found.deletes.table)


@pytest.mark.parametrize(
    "name",
    [
        "duckdb-iceberg/multi_blob_deletion_vectors",
        "iceberg-cxx/deletion_vectors",
        "impala/iceberg_v3_deletion_vectors",
    ],
)
def test_every_vector_applies_to_the_file_it_names(name, fixtures_dir):
    found = match(fixtures_dir, name)
    facts = facts_of(fixtures_dir, name)["current"]
    pairs = deletes.pairs(found)
    assert pairs.num_rows == facts["deletion_vectors"]
    named = found.deletes.table["referenced_data_file"].take(pairs["delete_row"])
    assert named.equals(found.data.table["location"].take(pairs["data_row"]))
    assert len(deletes.misplaced_deletes(found)[0]) == 0


@pytest.mark.parametrize(
    "name",
    [
        "duckdb-iceberg/equality_deletes__mydb__mytable_partitioned",
        "impala/iceberg_v2_delete_equality_partition_evolution",
    ],
)
def test_where_each_file_has_a_row_the_files_hit_are_the_rows_removed(name, fixtures_dir):
    found = match(fixtures_dir, name)
    facts = facts_of(fixtures_dir, name)["current"]
    pairs = deletes.pairs(found)
    contents = found.deletes.table["content"].take(pairs["delete_row"]).to_pylist()
    hit = {
        row
        for row, content in zip(pairs["data_row"].to_pylist(), contents, strict=True)
        if content == Content.EQUALITY_DELETES
    }
    removed = facts["data_records"] - facts["rows_after_deletes"]
    assert len(hit) == removed
