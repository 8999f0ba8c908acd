"""icectl on tables that Iceberg's Spark runtime wrote, and Spark on what icectl left."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.builders.rows import current_metadata, live_entries, read_metadata, read_rows
from tests.spark.conftest import MOVED, STRAYS, icectl

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

TABLES = [
    "v1_partitioned", "v1_plain", "v2_copy_on_write", "v2_empty", "v2_equality", "v2_fixed",
    "v2_merge_on_read", "v2_partitioned", "v2_rewritten", "v2_upgraded_to_v3", "v3_fixed",
    "v3_merge_on_read", "v3_partitioned", "v4_fixed", "v4_merge_on_read", "v4_partitioned",
    "v4_upgraded",
]  # fmt: skip
QUICK = {
    "v1_partitioned", "v2_copy_on_write", "v2_empty", "v2_equality", "v2_fixed",
    "v2_upgraded_to_v3", "v3_partitioned", "v4_merge_on_read",
}  # fmt: skip
"""Each version, deletes of each kind, files of each format, refs, other specs and columns."""
ALL_REFS = {"main", "first", "audit"}
KEPT_REFS = {
    "v2_merge_on_read": ALL_REFS,
    "v3_merge_on_read": ALL_REFS,
    "v4_merge_on_read": ALL_REFS,
}


def tables(names: Iterable[str] = TABLES, *, with_empty: bool = True) -> list[Any]:
    """Tables by their names, half of them in the full tier alone; with the empty one or not."""
    return [
        pytest.param(one, marks=() if one in QUICK else pytest.mark.full)
        for one in names
        if with_empty or one != "v2_empty"
    ]


@pytest.mark.parametrize("name", tables())
def test_inspect_counts_the_files_that_spark_wrote(spark_tables, name):
    run = spark_tables.summaries[name]
    assert run.exit_code == 0, run.errors
    result = run.document["result"]
    snapshots = [key for key in spark_tables.before.get(name, {}) if key.isdigit()]
    version = 3 if name.endswith("v3") else int(name[1])
    refs = set() if name == "v2_empty" else KEPT_REFS.get(name, {"main"})
    assert result["snapshot_count"] == len(snapshots)
    assert result["format_version"] == version
    assert set(result["refs"]) == refs


@pytest.mark.parametrize("name", tables(with_empty=False))
def test_expire_keeps_every_ref_head_and_nothing_else(spark_tables, name):
    run = spark_tables.expiries[name]
    assert run.exit_code == 0, run.errors
    heads = KEPT_REFS.get(name, {"main"})
    assert len(run.document["result"]["kept"]) == len(heads)
    assert len(run.document["result"]["expired"]) == (
        len([key for key in spark_tables.before[name] if key.isdigit()]) - len(heads)
    )


def test_expire_of_a_table_without_snapshots_does_nothing(spark_tables):
    run = spark_tables.expiries["v2_empty"]
    assert (run.exit_code, run.document["status"]) == (0, "nothing-to-do")


@pytest.mark.parametrize("name", tables())
def test_a_second_expiry_finds_nothing_to_do(spark_tables, name):
    run = spark_tables.second_expiries[name]
    assert (run.exit_code, run.document["status"]) == (0, "nothing-to-do")


@pytest.mark.parametrize("name", tables())
def test_spark_reads_the_same_rows_after_all_maintenance(spark_tables, name):
    before, after = spark_tables.before.get(name, {}), spark_tables.after.get(name, {})
    written = {key: rows for key, rows in after.items() if key not in before}
    assert {key: before[key] for key in after if key in before} == {
        key: rows for key, rows in after.items() if key in before
    }
    # Snapshots that icectl added show the rows of the branch.
    assert all(rows == before["main"] for rows in written.values())
    compacted = [spark_tables.merges[name], spark_tables.compactions[name]]
    added = [id_ for run in compacted for id_ in run.document["result"]["snapshot_ids"]]
    assert set(added) <= written.keys()
    if name != "v2_empty":
        assert KEPT_REFS.get(name, {"main"}) <= set(after)


@pytest.mark.parametrize("name", tables(MOVED))
def test_spark_reads_what_was_relocated(spark_tables, name):
    """Also once the original has lost the files of its old snapshots."""
    run = spark_tables.relocations[name]
    assert (run.exit_code, run.document["status"]) == (0, "done"), run.errors
    assert spark_tables.after[f"{name}_moved"] == spark_tables.before[name]


@pytest.mark.parametrize("name", tables())
def test_validate_finds_no_error_in_what_spark_wrote(spark_tables, name):
    for runs in (spark_tables.validations, spark_tables.validations_after):
        findings = runs[name].document["result"]["findings"]
        assert [one for one in findings if one["severity"] == "error"] == []
        assert runs[name].exit_code == 0


@pytest.mark.parametrize("name", tables())
def test_maintenance_adds_no_finding(spark_tables, name):
    before, after = (
        {(one["rule"], one["severity"]) for one in runs[name].document["result"]["findings"]}
        for runs in (spark_tables.validations, spark_tables.validations_after)
    )
    expired = {("R-030", "info"), ("R-026", "warning")}
    assert after - before - expired == set()


@pytest.mark.parametrize("name", tables())
def test_a_rewrite_of_manifests_keeps_spark_going_and_happens_once(spark_tables, name):
    run, again = spark_tables.rewrites[name], spark_tables.second_rewrites[name]
    assert run.exit_code == 0, run.errors
    assert run.document["status"] in ("done", "nothing-to-do")
    assert (again.exit_code, again.document["status"]) == (0, "nothing-to-do")


@pytest.mark.parametrize("name", tables(["v2_fixed", "v3_fixed"]))
def test_r212_lengths_before_fixed_partition_values_go_with_a_rewrite_of_manifests(
    spark_tables, name
):
    head = icectl("validate", str(spark_tables.directory / name), "--level", "metadata")
    before, after = (
        {(one["rule"], one["severity"]) for one in run.document["result"]["findings"]}
        for run in (spark_tables.validations[name], head)
    )
    assert ("R-212", "warning") in before
    assert "R-212" not in {rule for rule, _ in after}
    assert spark_tables.rewrites[name].document["status"] == "done"


@pytest.mark.parametrize("name", tables())
def test_version_1_becomes_version_2_and_others_stay(spark_tables, name):
    run = spark_tables.migrations[name]
    assert run.exit_code == 0, run.errors
    result = run.document["result"]
    expected = ("done", 2) if name.startswith("v1") else ("nothing-to-do", result["from_version"])
    assert (run.document["status"], result["to_version"]) == expected


@pytest.mark.parametrize("name", tables())
def test_orphans_are_those_that_spark_finds_too(spark_tables, name):
    """Beside them the checksums of files that are gone, which it passes over as hidden."""
    run = spark_tables.removals[name]
    assert run.exit_code == 0, run.document["error"]
    paths = [item["path"].removeprefix("file://") for item in run.document["result"]["orphans"]]
    found = {Path(path) for path in paths}
    table = spark_tables.directory / name
    of_spark = spark_tables.orphans_of_spark[name]
    assert {table / stray for stray in STRAYS} <= of_spark
    assert {path for path in found if path.suffix != ".crc"} == of_spark
    assert all(path.name.startswith(".") for path in found - of_spark)
    assert run.document["result"]["removed"] == len(found)


HAVE_POSITION_DELETES = {
    "v2_merge_on_read", "v2_partitioned", "v2_equality", "v2_fixed", "v2_upgraded_to_v3",
    "v3_fixed", "v3_merge_on_read", "v3_partitioned", "v4_fixed", "v4_merge_on_read",
    "v4_partitioned", "v4_upgraded",
}  # fmt: skip


@pytest.mark.parametrize("name", tables(with_empty=False))
def test_tables_are_compacted_once_and_then_have_no_deletes(spark_tables, name):
    merged = spark_tables.merges[name]
    assert merged.exit_code == 0, merged.document["error"]
    run, again = spark_tables.compactions[name], spark_tables.second_compactions[name]
    assert run.exit_code == again.exit_code == 0, run.document["error"]
    # One is of one file already.
    assert run.document["status"] == ("nothing-to-do" if name == "v2_rewritten" else "done")
    assert again.document["status"] == "nothing-to-do"
    result = run.document["result"]
    assert result["failed"] == []
    assert (result["removed_delete_files"] > 0) == (name in HAVE_POSITION_DELETES)
    metadata = read_metadata(current_metadata(spark_tables.directory / name))
    (head,) = (
        one
        for one in metadata["snapshots"]
        if one["snapshot-id"] == metadata["current-snapshot-id"]
    )
    files = [entry["data_file"] for entry in live_entries(head)]
    assert [file for file in files if file.get("content", 0)] == []
    rows = sum(file["record_count"] for file in files)
    assert rows == spark_tables.before[name]["main"][0]


@pytest.mark.parametrize("name", tables(with_empty=False))
def test_an_independent_reader_counts_as_many_rows_as_spark(spark_tables, name):
    metadata = read_metadata(current_metadata(spark_tables.directory / name))
    assert len(read_rows(metadata)) == spark_tables.before[name]["main"][0]
