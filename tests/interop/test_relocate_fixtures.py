"""Tables by other writers, most of which were moved: relocated to where their files lie now."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from icectl.cli import app
from tests.builders.foreign_table import facts_of
from tests.builders.relocate import relocate
from tests.builders.rows import Row, local, read_metadata, read_rows

QUICK = [
    "dremio/table_with_delete",
    "duckdb-iceberg/iceberg_v1_deprecated__legacy_v1",
    "duckdb-iceberg/moved_positional_delete_path",
    "duckdb-iceberg/multi_blob_deletion_vectors",
    "iceberg-cxx/deletion_vectors",
    "impala/iceberg_v2_delete_both_eq_and_pos",
    "impala/iceberg_v2_positional_delete_all_rows_orc",
]
OTHERS = [
    "dremio/multi_rowgroup_orders_with_deletes", "duckdb-iceberg/add_columns_with_defaults",
    "duckdb-iceberg/equality_deletes__mydb__mytable_partitioned",
    "duckdb-iceberg/generated_spec2_0_001", "iceberg-cxx/dangling_deletes",
    "iceberg-cxx/prod__db__refdeletes3", "iceberg-cxx/types__all_trino_types",
    "iceberg-java/test-table-to-delete", "icebird/athena__example", "icelake/no_hint_table",
    "impala/iceberg_avro_mixed", "impala/iceberg_v2_partitioned_position_deletes",
    "impala/iceberg_v3_deletion_vectors", "impala/iceberg_v3_row_lineage_orc",
    "impala/iceberg_with_puffin_stats", "impala/trino_nested_variant",
    "pg_lake/spark_generated_iceberg_ddl_test", "polars/iceberg-table", "trino/conflict_truncate",
    "trino/databricks143_uniform_iceberg_v2", "unitycatalog/marksheet_uniform",
]  # fmt: skip


def rows_of(metadata: dict[str, Any]) -> dict[int, list[Row]]:
    """The rows of every snapshot, by an independent reader."""
    ids = [snapshot["snapshot-id"] for snapshot in metadata["snapshots"]]
    return {id_: read_rows(metadata, id_) for id_ in ids}


@pytest.mark.parametrize(
    "name", [*QUICK, *(pytest.param(name, marks=pytest.mark.full) for name in OTHERS)]
)
def test_a_relocated_table_shows_the_rows_of_one_that_tests_have_relocated(
    fixtures_dir, tmp_path, capsys, name
):
    facts, table = facts_of(fixtures_dir, name), tmp_path / "t"
    shutil.copytree(fixtures_dir / name, table)
    sources = [word for item in facts["prefix_map"] for word in ("--from", item["from"])]
    words = ["--metadata-file", Path(facts["metadata_file"]).name, "--to", str(table), "--json"]
    listed = ["--copy-list", str(tmp_path / "wrong-sizes.csv")]  # some tables record wrong ones
    code = app.main(["relocate", str(table), *sources, *words, *listed])
    document = json.loads(capsys.readouterr().out)
    assert code == 0, document["error"]
    expected = read_metadata(relocate(fixtures_dir / name, facts, tmp_path / "expected"))
    written = read_metadata(local(document["result"]["metadata_file"]))
    assert rows_of(written) == rows_of(expected)
    assert written.get("table-uuid") == expected.get("table-uuid")
    assert written.get("refs", {}).keys() >= (expected.get("refs") or {}).keys()
