"""Plans of expiries of tables by other writers, against files gathered with fastavro alone."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fastavro
import pytest

from icectl.cli import app
from tests.builders.foreign_table import facts_of
from tests.builders.rows import read_metadata
from tests.interop.test_relocated_fixtures import of_small_tables

TABLES = [
    "dremio/multi_rowgroup_orders_with_deletes",
    "dremio/multi_rowgroup_orders_with_deletes_long_dir", "dremio/orders",
    "dremio/table_with_delete", "duckdb-iceberg/equality_deletes__mydb__mytable_partitioned",
    "duckdb-iceberg/generated_spec2_0_001", "duckdb-iceberg/lineitem_iceberg",
    "duckdb-iceberg/lineitem_iceberg_no_hint", "glaredb/tables-v1__lineitem_versioned",
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
]  # fmt: skip


def local_of(table: Path, facts: dict[str, Any]) -> Callable[[str], Path]:
    """Where a location of the table lies now."""

    def local(location: str) -> Path:
        for item in facts["prefix_map"]:
            if location.startswith(item["from"]):
                return table / location.removeprefix(item["from"])
        return Path(location)

    return local


def reached(
    metadata: dict[str, Any], snapshot: dict[str, Any], local: Callable[[str], Path]
) -> set[str]:
    """Every file that a snapshot needs, as its metadata spells it."""

    def records(location: str) -> list[dict[str, Any]]:
        with local(location).open("rb") as file:
            return list(fastavro.reader(file))  # type: ignore[arg-type]

    found = set(snapshot.get("manifests", []))
    if "manifest-list" in snapshot:
        found.add(snapshot["manifest-list"])
        found |= {manifest["manifest_path"] for manifest in records(snapshot["manifest-list"])}
    manifests = found - {snapshot.get("manifest-list")}
    for manifest in manifests:
        for entry in records(manifest):
            if entry["status"] != 2:
                found.add(entry["data_file"]["file_path"])
    for member in ("statistics", "partition-statistics"):
        for described in metadata.get(member) or []:
            if described["snapshot-id"] == snapshot["snapshot-id"]:
                found.add(described["statistics-path"])
    return found


@pytest.mark.parametrize("name", of_small_tables(TABLES, 5))
def test_the_files_of_a_plan_are_those_that_only_expired_snapshots_need(fixtures_dir, capsys, name):
    facts, table = facts_of(fixtures_dir, name), fixtures_dir / name
    local = local_of(table, facts)
    metadata = read_metadata(table / facts["metadata_file"])
    maps = [f"--path-map={item['from']}={table}/" for item in facts["prefix_map"]]
    code = app.main(
        ["expire-snapshots", str(table), "--older-than", "0s", "--dry-run", "--json", *maps]
    )
    found = json.loads(capsys.readouterr().out)
    assert code == 0, found["error"]

    expired = {int(item["snapshot_id"]) for item in found["result"]["expired"]}
    heads = {ref["snapshot-id"] for ref in (metadata.get("refs") or {}).values()}
    heads |= {metadata["current-snapshot-id"]}
    assert expired == {item["snapshot-id"] for item in metadata["snapshots"]} - heads
    assert expired
    going: set[str] = set()
    staying: set[str] = set()
    for snapshot in metadata["snapshots"]:
        into = going if snapshot["snapshot-id"] in expired else staying
        into |= reached(metadata, snapshot, local)
    planned = found["result"]["files"] + found["result"]["outside"]
    assert {item["path"] for item in planned} == going - staying
    assert len(planned) == len(going - staying)
    for item in planned:
        path = local(item["path"])
        if item["size_bytes"] is not None and path.exists():
            assert item["size_bytes"] == path.stat().st_size
