"""Tables by other writers, copied to a place of their own and expired there for good."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from icectl.cli import app
from tests.builders.foreign_table import facts_of
from tests.builders.relocate import relocate
from tests.builders.rows import (
    Row,
    current_metadata,
    listed_manifests,
    live_entries,
    read_metadata,
    read_rows,
)
from tests.interop.conftest import of_each_writer

TABLES = [
    "dremio/multi_rowgroup_orders_with_deletes",
    "dremio/multi_rowgroup_orders_with_deletes_long_dir", "dremio/orders",
    "dremio/table_with_delete", "duckdb-iceberg/add_columns_with_defaults",
    "duckdb-iceberg/equality_deletes__mydb__mytable_partitioned",
    "duckdb-iceberg/generated_spec2_0_001", "duckdb-iceberg/is_null_is_not_null",
    "duckdb-iceberg/lineitem_iceberg", "duckdb-iceberg/lineitem_iceberg_no_hint",
    "duckdb-iceberg/moved_positional_delete_path", "duckdb-iceberg/multi_blob_deletion_vectors",
    "duckdb-iceberg/name_mapping__mydb__t1", "glaredb/tables-v1__lineitem_versioned",
    "iceberg-cxx/bucket_partitioning", "iceberg-cxx/dangling_deletes",
    "iceberg-cxx/day_timestamptz_partitioning", "iceberg-cxx/deletion_vectors",
    "iceberg-cxx/hour_timestamptz_partitioning", "iceberg-cxx/month_timestamptz_partitioning",
    "iceberg-cxx/partitioned_table", "iceberg-cxx/prod__db__refdeletes3",
    "iceberg-cxx/types__all_trino_types", "iceberg-cxx/year_date_partitioning",
    "iceberg-cxx/year_timestamptz_partitioning", "icelake/no_hint_table", "impala/ice_puffin",
    "impala/iceberg_avro_mixed", "impala/iceberg_v2_delete_both_eq_and_pos",
    "impala/iceberg_v2_delete_different_equality_ids",
    "impala/iceberg_v2_delete_equality_multi_eq_ids",
    "impala/iceberg_v2_delete_equality_partition_evolution",
    "impala/iceberg_v2_delete_pos_and_multi_eq_ids",
    "impala/iceberg_v2_equality_delete_schema_evolution",
    "impala/iceberg_v2_partitioned_position_deletes",
    "impala/iceberg_v2_positional_delete_all_rows_orc",
    "impala/iceberg_v2_positional_not_all_data_files_have_delete_files",
    "impala/iceberg_v2_positional_not_all_data_files_have_delete_files_orc",
    "impala/iceberg_v2_positional_update_all_rows", "impala/iceberg_v3_all_types",
    "impala/iceberg_v3_default_value_avro", "impala/iceberg_v3_deletion_vectors",
    "impala/iceberg_v3_row_lineage_orc", "impala/test_default_part", "impala/trino_nested_variant",
    "pg_lake/spark_generated_iceberg_ddl_test", "pg_lake/spark_generated_iceberg_test_2",
    "trino/conflict_truncate", "trino/invalid_compression_codec_none_parquet",
]  # fmt: skip
OF_ONE_SNAPSHOT = [
    "dremio/internal_metadata_inconsistent_partitions", "dremio/nation",
    "duckdb-iceberg/case_sensitive_names", "duckdb-iceberg/expression_filter",
    "duckdb-iceberg/iceberg_v1_deprecated__legacy_v1", "duckdb-iceberg/lineitem_iceberg_gz",
    "duckdb-iceberg/lineitem_iceberg_gz_no_hint", "duckdb-iceberg/partition_bool",
    "duckdb-iceberg/partition_bucket_test", "duckdb-iceberg/partition_decimal_bigint",
    "duckdb-iceberg/partition_decimal_integer", "duckdb-iceberg/partition_float",
    "duckdb-iceberg/partition_time", "duckdb-iceberg/partition_timestamp",
    "duckdb-iceberg/partition_timestamp_ns", "duckdb-iceberg/partition_timestamptz",
    "duckdb-iceberg/struct_filter_issue", "glaredb/lineitem_simple_longversion",
    "glaredb/tables-v1__lineitem_simple", "glaredb/tables-v2__lineitem_partitioned",
    "iceberg-cxx/types__all_spark_types", "iceberg-cxx/types__unsupported_types",
    "iceberg-java/test-table-to-delete", "icebird/athena__example", "icebird/spark__rename_column",
    "impala/airports_orc", "impala/complextypestbl_iceberg_orc", "impala/hadoop_catalog_test",
    "impala/iceberg_alltypes_part_orc", "impala/iceberg_migrated_alter_test",
    "impala/iceberg_migrated_complex_test", "impala/iceberg_partitioned",
    "impala/iceberg_v2_no_deletes", "impala/iceberg_v2_no_deletes_orc",
    "impala/iceberg_with_puffin_stats", "pg_lake/data__iceberg__test_types", "polars/iceberg-table",
    "pyiceberg/target_small", "trino/databricks143_uniform_iceberg_v2",
    "unitycatalog/marksheet_uniform",
]  # fmt: skip

OTHER = [
    name for name in TABLES + OF_ONE_SNAPSHOT if name != "impala/iceberg_migrated_complex_test"
]
"""pyarrow, which the independent reader goes by, cannot read one data file of that table."""

BIG = ("duckdb-iceberg/lineitem", "glaredb/")


def of_small_tables(names: Sequence[str], nth: int) -> list[Any]:
    """The quick tier takes of each writer the nth that is not big, or its last."""
    big = [name for name in names if name.startswith(BIG)]
    small = of_each_writer(set(names).difference(big), nth)
    return [*small, *(pytest.param(name, marks=pytest.mark.full) for name in big)]


OF_SEVERAL_TABLES = {"impala/ice_puffin"}
"""Metadata of other tables lie in its folder."""


def reached(metadata: dict[str, Any], snapshot_ids: set[int]) -> set[Path]:
    """The files of this machine that snapshots need; what was never published is passed over."""
    found: set[str] = set()
    for snapshot in metadata["snapshots"]:
        if snapshot["snapshot-id"] not in snapshot_ids:
            continue
        place = snapshot.get("manifest-list")
        if place is not None and not Path(place).exists():
            continue
        found |= {place} if place else set()
        found |= {manifest["manifest_path"] for manifest in listed_manifests(snapshot)}
        found |= {entry["data_file"]["file_path"] for entry in live_entries(snapshot)}
    for member in ("statistics", "partition-statistics"):
        for item in metadata.get(member) or ():
            if item["snapshot-id"] in snapshot_ids:
                found.add(item["statistics-path"])
    return {Path(place) for place in found if Path(place).exists()}


def rows_of(metadata: dict[str, Any], snapshot_ids: set[int]) -> dict[int, list[Row]]:
    return {id_: read_rows(metadata, id_) for id_ in snapshot_ids}


def heads(metadata: dict[str, Any]) -> set[int]:
    """The snapshots that refs name."""
    named = {ref["snapshot-id"] for ref in (metadata.get("refs") or {}).values()}
    return named | {metadata["current-snapshot-id"]}


@pytest.mark.parametrize("name", of_small_tables(TABLES, 10))
def test_expiring_all_but_heads_keeps_their_rows_and_leaves_nothing_of_the_rest(
    fixtures_dir, tmp_path, capsys, name
):
    table = tmp_path / "t"
    before = read_metadata(relocate(fixtures_dir / name, facts_of(fixtures_dir, name), table))
    kept = heads(before)
    every = {snapshot["snapshot-id"] for snapshot in before["snapshots"]}
    rows, files = rows_of(before, kept), {path for path in table.rglob("*") if path.is_file()}
    needed, doomed = reached(before, kept), reached(before, every)
    doomed -= needed

    words = ["expire-snapshots", str(table), "--older-than", "0s", "--retain-last", "1"]
    code = app.main([*words, "--yes", "--json"])
    found = json.loads(capsys.readouterr().out)
    if name in OF_SEVERAL_TABLES:
        assert (code, found["error"]["id"]) == (5, "other-table")
        assert {path for path in table.rglob("*") if path.is_file()} == files
        return
    assert code == 0, found["error"]
    assert {int(item["snapshot_id"]) for item in found["result"]["expired"]} == every - kept

    after = read_metadata(current_metadata(table))
    assert {snapshot["snapshot-id"] for snapshot in after["snapshots"]} == kept
    assert rows_of(after, kept) == rows
    assert after.get("refs", {"main": 0}).keys() == (before.get("refs") or {"main": 0}).keys()
    gone = files - {path for path in table.rglob("*") if path.is_file()}
    assert gone == doomed
    assert app.main([*words, "--check"]) == 0


@pytest.mark.parametrize("name", of_small_tables(OF_ONE_SNAPSHOT, 3))
def test_a_table_of_one_snapshot_has_nothing_to_expire(fixtures_dir, tmp_path, name):
    table = tmp_path / "t"
    relocate(fixtures_dir / name, facts_of(fixtures_dir, name), table)
    before = {path: path.stat().st_mtime_ns for path in table.rglob("*")}
    assert app.main(["expire-snapshots", str(table), "--older-than", "0s", "--yes"]) == 0
    assert {path: path.stat().st_mtime_ns for path in table.rglob("*")} == before


@pytest.mark.parametrize("command", ["rewrite-manifests", "migrate-v1-v2"])
@pytest.mark.parametrize("name", of_small_tables(OTHER, 7))
def test_other_commands_keep_the_rows_of_every_snapshot(
    fixtures_dir, tmp_path, capsys, name, command
):
    table = tmp_path / "t"
    before = read_metadata(relocate(fixtures_dir / name, facts_of(fixtures_dir, name), table))
    rows = rows_of(before, heads(before))
    files = {path for path in table.rglob("*") if path.is_file()}
    code = app.main([command, str(table), "--yes", "--json"])
    document = json.loads(capsys.readouterr().out)
    assert code == 0, document["error"]
    after = read_metadata(current_metadata(table))
    assert rows_of(after, heads(before)) == rows
    assert read_rows(after) == rows[before["current-snapshot-id"]]
    assert files <= set(table.rglob("*"))
