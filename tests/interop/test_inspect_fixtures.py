"""`icectl inspect` on tables that other implementations wrote, against facts of other readers."""

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from icectl.cli.app import main
from icectl.cli.document import document_schema
from icectl.commands.inspect.views import VIEWS

Facts = dict[str, Any]

SUMMARY_KEYS = {
    "manifest_count": ("manifests",),
    "data_file_count": ("live_data_files",),
    "data_file_bytes": ("data_bytes",),
    "record_count": ("data_records",),
    "position_delete_file_count": ("position_delete_files",),
    "deletion_vector_count": ("deletion_vectors",),
    "equality_delete_file_count": ("equality_delete_files",),
    "position_delete_record_count": ("position_delete_records", "dv_records"),
    "equality_delete_record_count": ("equality_delete_records",),
}
UNREADABLE = (
    "duckdb-iceberg/generated_spec1_0_001_2024-10_metadata_only",
    "duckdb-iceberg/generated_spec2_0_01_metadata_only",
    "duckdb-iceberg/multi_blob_deletion_vectors_partial",
    "duckdb-iceberg/struct_filter_issue_s3_backup",
    "iceberg-cxx/partitioned_table_with_missing_spec",
    "iceberg-cxx/partitioned_table_with_multiple_spec",
    "iceberg-cxx/partitioned_table_with_void_transform",
    "trino/mv_expired_snapshots_source_table",
)
"""Tables whose manifests were never published: completeness `metadata-only` in the index."""
PARTLY = (
    "duckdb-iceberg/multi_blob_deletion_vectors_partial",
    "trino/mv_expired_snapshots_source_table",
)
"""Tables of which some manifests were."""
MANIFEST_VIEWS = frozenset(
    {"summary", "health", "manifests", "files", "entries", "partitions", "clustering", "tree"}
    | {"changes", "deletes"}
)


@pytest.fixture(scope="module")
def tables(fixtures_dir: Path) -> dict[str, Facts]:
    facts: dict[str, Facts] = json.loads((fixtures_dir / "expected.json").read_text())["tables"]
    return facts


def arguments(fixtures_dir: Path, name: str, facts: Facts, *more: str) -> list[str]:
    """The command line for one table, with what its paths are mapped to."""
    folder = fixtures_dir / name
    given = ["inspect", str(folder / facts["metadata_file"]), *more]
    for mapped in facts["prefix_map"]:
        given += ["--path-map", f"{mapped['from']}={folder}/"]
    return given


def run(capsys: pytest.CaptureFixture[str], given: list[str]) -> tuple[int, str]:
    return main(given), capsys.readouterr().out


def run_json(capsys: pytest.CaptureFixture[str], given: list[str]) -> Facts:
    code, out = run(capsys, [*given, "--json"])
    assert code == 0, given
    result: Facts = json.loads(out)["result"]
    return result


def test_every_snapshot_has_the_counts_that_other_readers_found(fixtures_dir, tables, capsys):
    checked = 0
    for name, facts in tables.items():
        for snapshot in facts["snapshots"]:
            if snapshot["manifests"] is None or "live_data_files" not in snapshot:
                continue
            given = arguments(fixtures_dir, name, facts, "--snapshot", str(snapshot["snapshot_id"]))
            found = run_json(capsys, given)
            expected = {
                key: sum(snapshot[part] for part in parts) for key, parts in SUMMARY_KEYS.items()
            }
            assert {key: found[key] for key in SUMMARY_KEYS} == expected, (name, given)
            checked += 1
    assert checked == 202


def test_every_table_is_described_as_its_metadata_file_says(fixtures_dir, tables, capsys):
    for name, facts in tables.items():
        refs = run_json(capsys, arguments(fixtures_dir, name, facts, "refs"))["rows"]
        listed = run_json(capsys, arguments(fixtures_dir, name, facts, "snapshots"))["rows"]
        ids = [int(row["snapshot_id"]) for row in listed]
        assert len(ids) == facts["snapshot_count"], name
        if isinstance(facts["snapshot_ids"], list):
            assert sorted(ids) == sorted(facts["snapshot_ids"]), name
        expected = {
            ref: (str(target["snapshot-id"]), target["type"].upper())
            for ref, target in facts["refs"].items()
        }
        if not expected and facts["current_snapshot_id"] is not None:
            expected = {"main": (str(facts["current_snapshot_id"]), "BRANCH")}
        assert {row["name"]: (row["snapshot_id"], row["type"]) for row in refs} == expected, name


@pytest.mark.parametrize(
    ("output", "stride"),
    [
        ("text", 18),
        ("json", 8),
        pytest.param("text", 6, marks=pytest.mark.full),
        pytest.param("json", 1, marks=pytest.mark.full),
    ],
)
@pytest.mark.parametrize("view", [view for view in VIEWS if view not in ("advice", "matches")])
def test_every_view_shows_every_table_whose_manifests_are_there(
    fixtures_dir, tables, capsys, view, output, stride
):
    """The quick tier shows each view some of the tables, and each table in some of the views."""
    validator = Draft202012Validator(document_schema("inspect"))
    shown = sorted(tables)[list(VIEWS).index(view) % stride :: stride]
    if output == "json" and view in MANIFEST_VIEWS:
        shown += [name for name in UNREADABLE if name not in shown]
    for name in shown:
        facts = tables[name]
        code, out = run(capsys, arguments(fixtures_dir, name, facts, view, "--format", output))
        assert code == expected_exit(name, view), (name, view)
        if output == "json":
            document = json.loads(out)
            validator.validate(document)
            assert (document["result"] is None) == (code in (2, 15))
            assert bool(document["warnings"]) or code != 3


def expected_exit(name: str, view: str) -> int:
    """0, 3 where manifests are not there, 15 where all of what a view shows is not."""
    if view == "changes" and name == "iceberg-cxx/meta_perf_snapshots":
        return 15
    if name not in UNREADABLE or view not in MANIFEST_VIEWS:
        return 0
    if name == "trino/mv_expired_snapshots_source_table" and view in ("changes", "manifests"):
        return {"changes": 2, "manifests": 0}[view]
    if name == "duckdb-iceberg/multi_blob_deletion_vectors_partial" and view == "manifests":
        return 0
    if view in ("summary", "health", "tree"):
        return 3
    return 3 if name in PARTLY and view not in ("changes", "deletes") else 15
