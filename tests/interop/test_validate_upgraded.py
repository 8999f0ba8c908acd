"""Tables of other writers, upgraded to version 4: `validate` finds what it found before."""

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DoubleType, NestedField

from icectl.cli import app
from tests.builders.broken import rewrite_avro
from tests.builders.filtered import on_files
from tests.builders.foreign_table import facts_of
from tests.builders.relocate import relocate

EXPECTED = Path(__file__).parents[2].parent / "shared" / "fixtures" / "expected.json"
TABLES = sorted(json.loads(EXPECTED.read_text())["tables"]) if EXPECTED.exists() else []
QUICK = {
    "duckdb-iceberg/add_columns_with_defaults",  # a column of uuids
    "iceberg-cxx/bucket_partitioning",
    "iceberg-cxx/types__all_spark_types",
    "impala/iceberg_v2_delete_both_eq_and_pos",  # manifests with bare headers
    "impala/iceberg_v2_delete_equality_partition_evolution",
}
UNREACHABLE = "iceberg-cxx/v_20240913__iceberg"
"""Its files lie in a bucket, and its metadata cannot be moved."""

OLDER: dict[str, set[str]] = {
    "V4-038": {"R-031"}, "V4-052": {"R-063"}, "V4-057": {"R-063"}, "V4-144": {"R-092"},
    "V4-182": {"R-034", "R-063"},
}  # fmt: skip
"""What a fault of an older version is called in version 4."""

Run = Callable[..., tuple[int, Any]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command with `--json`; its exit code and document."""

    def run_(*words: str) -> tuple[int, Any]:
        return app.main([*words, "--json"]), json.loads(capsys.readouterr().out)

    return run_


def faults(run: Run, table: Path) -> set[str]:
    """Rules of errors and warnings."""
    _, document = run("validate", str(table), "--level", "files")
    return {one["rule"] for one in document["result"]["findings"] if one["severity"] != "info"}


@pytest.mark.parametrize("mode", ["default", "--eager"])
@pytest.mark.parametrize(
    "name",
    [
        name if name in QUICK else pytest.param(name, marks=pytest.mark.full)
        for name in TABLES
        if name != UNREACHABLE
    ],
)
def test_an_upgrade_brings_no_new_fault(run, fixtures_dir, tmp_path, name, mode):
    relocate(fixtures_dir / name, facts_of(fixtures_dir, name), tmp_path / "t")
    before = faults(run, tmp_path / "t")
    code, _ = run(
        "upgrade-to-v4",
        "--layout",
        "sfc-1",
        str(tmp_path / "t"),
        "--yes",
        *[mode] * (mode != "default"),
    )
    if code:
        assert code == 5  # refused, and why is tested where upgrades are
        assert faults(run, tmp_path / "t") == before
        return
    new = faults(run, tmp_path / "t") - before
    assert {rule for rule in new if not OLDER.get(rule, set()) & before} == set()


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")
def test_nan_as_a_bound_of_a_partition_field_is_no_bound_in_a_root(tmp_path, run):
    catalog = SqlCatalog("c", uri="sqlite://", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("db")
    schema = Schema(NestedField(1, "ratio", DoubleType(), required=False))
    spec = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "ratio"))
    table = catalog.create_table("db.t", schema, partition_spec=spec)
    table.append(pa.table({"ratio": [0.5, 2.0]}))
    nan = struct.pack("<d", float("nan"))

    def change(manifests):
        for manifest in manifests:
            (summary,) = manifest["partitions"]
            assert summary["lower_bound"] == struct.pack("<d", 0.5)
            summary.update(lower_bound=nan, upper_bound=nan)

    rewrite_avro(Path(table.current_snapshot().manifest_list.removeprefix("file://")), change)
    catalog.engine.dispose()
    directory = on_files(table, {})
    code, _ = run("upgrade-to-v4", "--layout=sfc-1", str(directory), "--yes")
    assert code == 0
    assert "V4-144" not in faults(run, directory)
