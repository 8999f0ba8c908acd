"""What checks of manifest lists and manifests find in tables of other writers, to the number."""

import json
from collections import Counter

from icectl.checks.objects import CHECKED_COLUMNS, ManifestList
from icectl.checks.rule import Finding
from icectl.checks.rules import RULES
from icectl.format.manifest import ManifestFile
from icectl.format.metadata import TableMetadata
from icectl.storage.store import Store
from icectl.table.manifest_lists import try_manifest_lists
from icectl.table.manifests import try_manifests
from tests.builders.checked import check_entries, check_manifest
from tests.builders.expiry import context_of
from tests.builders.foreign_table import open_foreign

DAMAGED = {
    # Made by hand: one manifest lacks a partition field of its spec, and no entry has a snapshot.
    "dremio/internal_metadata_inconsistent_partitions": {
        "R-050": 3, "R-053": 1, "R-060": 3, "R-062": 3, "R-068": 1,
    },
    # Anonymised: bounds of text are `min_val_1` and `max_val_1`, which sort the other way round.
    "duckdb-iceberg/moved_positional_delete_path": {"R-050": 8, "R-060": 8, "R-092": 4},
    # An index file, listed as if it were data.
    "duckdb-iceberg/unknown_puffin": {"R-050": 2, "R-060": 2, "R-063": 2},
    # Written anew by a tool that keeps no header, with other lengths.
    "duckdb-iceberg/struct_filter_issue": {"R-050": 1, "R-060": 1},
    "impala/iceberg_avro_mixed": {"R-050": 3, "R-060": 3},
    "impala/iceberg_with_puffin_stats": {"R-050": 1, "R-060": 1},
    "impala/airports_orc": {"R-060": 1},
    "impala/complextypestbl_iceberg_orc": {"R-060": 1},
    "impala/iceberg_alltypes_part_orc": {"R-060": 1},
    "impala/iceberg_migrated_alter_test": {"R-060": 1},
    "impala/iceberg_migrated_complex_test": {"R-060": 1},
    "impala/iceberg_v2_delete_both_eq_and_pos": {"R-060": 5},
    "impala/iceberg_v2_delete_equality_multi_eq_ids": {"R-060": 7},
    "impala/iceberg_v2_delete_equality_partition_evolution": {"R-060": 4},
    "impala/iceberg_v2_delete_pos_and_multi_eq_ids": {"R-060": 7},
    "impala/iceberg_v2_equality_delete_schema_evolution": {"R-060": 4},
    "impala/iceberg_v2_no_deletes": {"R-060": 1},
    "impala/iceberg_v2_no_deletes_orc": {"R-060": 1},
    "impala/iceberg_v2_partitioned_position_deletes": {"R-060": 2},
    "impala/iceberg_v2_positional_delete_all_rows_orc": {"R-060": 2},
    "impala/iceberg_v2_positional_not_all_data_files_have_delete_files": {"R-060": 6},
    "impala/iceberg_v2_positional_not_all_data_files_have_delete_files_orc": {"R-060": 6},
    "impala/iceberg_v2_positional_update_all_rows": {"R-060": 3},
    "trino/mv_expired_snapshots_source_table": {"R-060": 1},
    # Snapshot ids in the metadata were rounded by a tool that knows numbers as doubles only.
    "impala/iceberg_v3_all_types": {"R-054": 2},
    "impala/test_default_part": {"R-054": 3},
    "impala/trino_nested_variant": {"R-054": 2},
}  # fmt: skip
"""What is found in tables of other writers, by rule; nothing in all others."""

ERRORS = {"R-053", "R-063", "R-068", "R-092"}


def check(store: Store, metadata: TableMetadata) -> list[Finding]:
    """Check the manifest lists of all snapshots, and their manifests once."""
    found: list[Finding] = []
    described: dict[str, dict[ManifestFile, None]] = {}
    context = context_of(store=store)
    for listed in try_manifest_lists(context, metadata, metadata.snapshots):
        found += RULES.findings(
            ManifestList(metadata, listed.snapshot, listed.properties, listed.manifests)
        )
        for row in listed.manifests:
            described.setdefault(row.manifest_path, {})[row] = None
    manifests = [next(iter(rows)) for rows in described.values()]
    for one in try_manifests(context, metadata, manifests, CHECKED_COLUMNS):
        if one.problem is not None:
            continue  # never published
        manifest, (header, rows) = manifests[one.index], one.content
        rows_of_lists = tuple(described[manifest.manifest_path])
        found += check_manifest(metadata, rows_of_lists, header, one.size_bytes, rows)
        found += check_entries(metadata, manifest, header, rows)
    return list(dict.fromkeys(found))


def test_healthy_tables_of_other_writers_give_no_finding(fixtures_dir):
    tables = json.loads((fixtures_dir / "expected.json").read_text())["tables"]
    found = {name: check(*open_foreign(fixtures_dir, name)) for name in tables}
    counts = {name: dict(Counter(one.rule for one in told)) for name, told in found.items() if told}
    assert counts == DAMAGED
    errors = {one.rule for told in found.values() for one in told if one.severity == "error"}
    assert errors == ERRORS
