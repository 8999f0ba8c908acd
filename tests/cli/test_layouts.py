"""`icectl upgrade-to-v4 --layout`: from one layout of version 4 to the other, and back."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.builders.expiry import NOW_MS, Clock
from tests.builders.respell import respell_data_files
from tests.builders.rows import (
    current_metadata,
    listed_manifests,
    local,
    read_metadata,
    rows_by_snapshot,
)
from tests.builders.table_builder import TableBuilder, filled_table
from tests.builders.tree_table import data_files, remove_data_files, upgrade
from tests.cli.conftest import Run
from tests.cli.test_upgrade_to_v4 import build, head, icectl

__all__ = ["icectl"]

LEAVE = ("--layout", "iceberg-1.12", "--yes", "--json")
ENTER = ("--layout=sfc-1", "--yes", "--json")


def with_dead_rows(directory: Path) -> None:
    """A root of leaves with dead rows, vectors, a branch and a tag; some of it is compacted."""
    build(directory, 3)
    clock = Clock(NOW_MS)
    upgrade(directory, clock, "--eager")
    first, second, *_ = data_files(directory)
    remove_data_files(directory, clock, [first])
    remove_data_files(directory, clock, [second])


def metadata_of(directory: Path) -> dict[str, Any]:
    return read_metadata(current_metadata(directory))


def files_of(icectl: Run, directory: Path) -> dict[int, list[str]]:
    """The entries of every snapshot with their metrics, numbers and row ids."""
    found = {}
    for snapshot in metadata_of(directory)["snapshots"]:
        words = ("--snapshot", str(snapshot["snapshot-id"]), "--json")
        ran = icectl("inspect", str(directory), "files", *words)
        assert ran.code == 0, ran.err
        rows = [row | {"manifest_path": None} for row in ran.document["result"]["rows"]]
        found[snapshot["snapshot-id"]] = sorted(map(json.dumps, rows))
    return found


def without_schemes(files: dict[int, list[str]]) -> dict[int, list[str]]:
    """The same where old manifests keep locations as they are, and others complete them."""
    return {
        snapshot: sorted(row.replace('"file:/', '"/') for row in rows)
        for snapshot, rows in files.items()
    }


def problems(icectl: Run, directory: Path) -> set[str]:
    """What `validate` finds beside leaves that maintenance would write anew."""
    ran = icectl("validate", str(directory), "--level", "data", "--all-snapshots", "--json")
    return {one["rule"] for one in ran.document["result"]["findings"]} - {"V4-147"}


def without_layout(metadata: dict[str, Any]) -> dict[str, Any]:
    """What of a table's metadata is the same in every layout."""
    own = ("root-manifest", "manifest-list")
    kept = {key: metadata[key] for key in ("table-uuid", "refs", "snapshot-log", "next-row-id")}
    snapshots = [
        {key: value for key, value in one.items() if key not in own}
        for one in metadata["snapshots"]
    ]
    return kept | {"snapshots": snapshots}


def test_rows_metrics_ids_refs_and_history_are_the_same_in_both_layouts(tmp_path, icectl):
    directory = tmp_path / "t"
    with_dead_rows(directory)
    rows, files = rows_by_snapshot(directory), files_of(icectl, directory)
    before = without_layout(metadata_of(directory))
    data = {path: path.read_bytes() for path in (directory / "data").rglob("*.parquet")}
    left = icectl("upgrade-to-v4", str(directory), *LEAVE)
    assert left.code == 0, left.err
    assert [one["step"] for one in left.document["result"]["steps"]] == [
        "change-layout",
        "write-manifest-lists",
    ]
    metadata = metadata_of(directory)
    assert "expressions" not in metadata
    assert not any("root-manifest" in one for one in metadata["snapshots"])
    assert without_layout(metadata) == before
    assert rows_by_snapshot(directory) == rows
    assert without_schemes(files_of(icectl, directory)) == without_schemes(files)
    assert problems(icectl, directory) == set()
    again = icectl("upgrade-to-v4", str(directory), *LEAVE)
    assert (again.code, again.document["status"]) == (0, "nothing-to-do")

    back = icectl("upgrade-to-v4", str(directory), *ENTER)
    assert back.code == 0, back.err
    assert {key: rows_by_snapshot(directory)[key] for key in rows} == rows
    assert rows_by_snapshot(directory)[head(directory)["snapshot-id"]] == rows[int(_main(before))]
    assert "root-manifest" in head(directory)
    assert problems(icectl, directory) == set()
    again = icectl("upgrade-to-v4", str(directory), *ENTER)
    assert (again.code, again.document["status"]) == (0, "nothing-to-do")
    assert {path: path.read_bytes() for path in data} == data


def _main(metadata: dict[str, Any]) -> int:
    found: int = metadata["refs"]["main"]["snapshot-id"]
    return found


def written_by(snapshot: dict[str, Any]) -> Iterator[tuple[int, str]]:
    """(status, data file) of what the manifests that a snapshot added say that it did."""
    for manifest in listed_manifests(snapshot):
        if manifest["added_snapshot_id"] != snapshot["snapshot-id"]:
            continue
        for entry in pq.ParquetFile(local(manifest["manifest_path"])).read().to_pylist():
            if entry["snapshot_id"] == snapshot["snapshot-id"] and entry["status"]:
                yield entry["status"], entry["data_file"]["file_path"]


def test_r064_what_a_snapshot_removed_is_deleted_by_it_alone(tmp_path, icectl):
    """Readers of what has changed go by the status and the snapshot of an entry."""
    directory = tmp_path / "t"
    build(directory, 3)
    clock = Clock(NOW_MS)
    upgrade(directory, clock, "--eager")
    first, second, *_ = data_files(directory)
    remove_data_files(directory, clock, [first])
    remove_data_files(directory, clock, [second])
    assert icectl("upgrade-to-v4", str(directory), *LEAVE).code == 0
    *_, one, other = metadata_of(directory)["snapshots"]
    assert list(written_by(one)) == [(2, first)]
    assert list(written_by(other)) == [(2, second)]


def test_the_guard_of_a_table_without_partitions_goes_and_comes(tmp_path, icectl):
    directory = tmp_path / "t"
    TableBuilder(directory, format_version=3).append(range(4))
    assert icectl("upgrade-to-v4", "--layout=sfc-1", str(directory), "--yes").code == 0
    assert len(metadata_of(directory)["partition-specs"]) == 2
    assert icectl("upgrade-to-v4", str(directory), *LEAVE).code == 0
    assert metadata_of(directory)["partition-specs"] == [{"spec-id": 0, "fields": []}]
    assert icectl("upgrade-to-v4", str(directory), "--lazy", *ENTER).code == 0
    assert len(metadata_of(directory)["partition-specs"]) == 2
    assert problems(icectl, directory) == set()


def test_a_branch_that_has_no_root_yet_gets_leaves_with_its_next_commit(tmp_path, icectl):
    """No root lists a manifest in Parquet of Iceberg's as if it were a leaf."""
    directory = tmp_path / "t"
    build(directory, 3)
    words = ("--layout", "iceberg-1.12", "--eager", "--yes")
    assert icectl("upgrade-to-v4", "--layout=sfc-1", str(directory), *words).code == 0
    rows = rows_by_snapshot(directory)
    assert icectl("upgrade-to-v4", str(directory), *ENTER, "--lazy").code == 0
    assert "root-manifest" not in head(directory, "audit")
    compact = ("compact", str(directory), "--branch", "audit", "--min-input-files", "2")
    assert icectl(*compact, "--engine", "local", "--yes").code == 0
    assert "root-manifest" in head(directory, "audit")
    assert {key: rows_by_snapshot(directory)[key] for key in rows} == rows
    assert problems(icectl, directory) == {"V4-192"}  # most files of its leaf were compacted


def test_u15_position_delete_files_in_parquet_manifests_are_made_vectors_before(tmp_path, icectl):
    directory = tmp_path / "t"
    filled_table(directory, range(10), location=f"file:{directory}").delete_rows([3])
    words = ("upgrade-to-v4", str(directory), "--layout", "iceberg-1.12", "--eager", "--yes")
    assert icectl(*words).code == 0
    refused = icectl("upgrade-to-v4", str(directory), *ENTER)
    assert (refused.code, refused.document["error"]["id"]) == (5, "not-upgradable")
    assert "(U-15)" in refused.document["error"]["message"]
    assert "--deletes-only" in refused.document["error"]["hint"]
    assert icectl("compact", str(directory), "--deletes-only", "--rewrite-all", "--yes").code == 0
    assert icectl("upgrade-to-v4", str(directory), *ENTER).code == 0
    assert problems(icectl, directory) == set()


@pytest.mark.parametrize("mode", ["--lazy", "", "--eager"])
@pytest.mark.parametrize("eager", ["", "--eager"])
def test_v4_004_position_deletes_of_before_locations_had_a_scheme_keep_a_table_in_its_layout(
    tmp_path, icectl, mode, eager
):
    """Engines match them by the text: the rows would come back. Branch audit stays behind."""
    directory = tmp_path / "t"
    build(directory, 2)
    assert icectl("upgrade-to-v4", "--layout=sfc-1", str(directory), mode, "--yes").code == 0
    before = sorted(directory.rglob("*"))
    refused = icectl("upgrade-to-v4", str(directory), *LEAVE, eager)
    assert refused.code == 5
    assert "(V4-004)" in refused.document["error"]["message"]
    assert "`icectl compact" in refused.document["error"]["hint"]
    assert sorted(directory.rglob("*")) == before


def test_v4_004_position_deletes_that_only_a_branch_has_keep_a_table_in_its_layout(
    tmp_path, icectl
):
    directory = tmp_path / "t"
    table = filled_table(directory, range(10))
    table.ref("audit", "branch")
    table.delete_rows([3], branch="audit")
    assert (
        icectl("upgrade-to-v4", "--layout=sfc-1", str(directory), "--yes").code == 0
    )  # main gets a root
    refused = icectl("upgrade-to-v4", str(directory), *LEAVE)
    assert refused.code == 5
    assert "(V4-004)" in refused.document["error"]["message"]


def test_v4_004_position_deletes_spelled_in_another_way_keep_a_table_in_its_layout(
    tmp_path, icectl
):
    """The delete file says `file:/...`, entries `file:///...`: sfc-1 takes them for one."""
    directory = tmp_path / "t"
    table = filled_table(directory, range(10), location=f"file:{directory}")
    table.delete_rows([3])
    respell_data_files(table, table.location.replace("file:", "file://"))
    assert icectl("upgrade-to-v4", "--layout=sfc-1", str(directory), "--lazy", "--yes").code == 0
    refused = icectl("upgrade-to-v4", str(directory), *LEAVE, "--eager")
    assert refused.code == 5
    assert "(V4-004)" in refused.document["error"]["message"]


def spelled_alike(icectl: Run, directory: Path) -> None:
    """Vectors name their data files to the letter as the entries of these do, for engines."""
    rows = icectl("inspect", str(directory), "files", "--json").document["result"]["rows"]
    named = {row["referenced_data_file"] for row in rows if row["referenced_data_file"]}
    assert named
    assert named <= {row["file_path"] for row in rows if row["content"] == 0}


def test_vectors_stay_with_data_files_whose_manifest_is_rewritten_alone(tmp_path, icectl):
    """Of locations without a scheme: Spark found 14 rows of 12 where some had got one."""
    directory = tmp_path / "t"
    table = filled_table(directory, range(10), format_version=3)
    table.delete_rows([3])
    table.append(range(10, 14))
    assert icectl("upgrade-to-v4", str(directory), *LEAVE).code == 0
    spelled_alike(icectl, directory)
    words = ("--content", "data", "--min-manifests", "1", "--manifest-format", "parquet", "--yes")
    assert icectl("rewrite-manifests", str(directory), *words).code == 0
    spelled_alike(icectl, directory)


def test_vectors_stay_with_data_files_that_a_leaf_had(tmp_path, icectl):
    """Leaves spell locations with a scheme, old manifests beside them without one."""
    directory = tmp_path / "t"
    filled_table(directory, range(10), range(10, 14), format_version=3).delete_rows([3])
    assert icectl("upgrade-to-v4", "--layout=sfc-1", str(directory), "--yes").code == 0
    only_data = ("--content", "data", "--min-manifests", "1", "--yes")
    assert icectl("rewrite-manifests", str(directory), *only_data).code == 0
    assert icectl("upgrade-to-v4", str(directory), *LEAVE).code == 0
    spelled_alike(icectl, directory)


def test_columns_of_a_root_that_are_not_known_keep_a_table_in_its_layout(tmp_path, icectl):
    import pyarrow as pa

    directory = tmp_path / "t"
    with_dead_rows(directory)
    path = local(head(directory)["root-manifest"])
    file = pq.ParquetFile(path)
    rows = file.read()
    added = pa.field("extra", pa.int64(), metadata={"PARQUET:field_id": "9001"})
    whole = rows.append_column(added, pa.nulls(len(rows), pa.int64()))
    pq.write_table(whole.replace_schema_metadata(file.metadata.metadata), path)
    refused = icectl("upgrade-to-v4", str(directory), *LEAVE)
    assert refused.code == 14
    assert "field ids 9001" in refused.document["error"]["message"]


def test_expressions_that_no_spec_links_to_are_told_before_they_go(tmp_path, icectl):
    directory = tmp_path / "t"
    build(directory, 3)
    assert icectl("upgrade-to-v4", "--layout=sfc-1", str(directory), "--yes").code == 0
    path = current_metadata(directory)
    members = read_metadata(path)
    members["last-column-id"] += 1
    expr = {"source-id": 1, "transform": "bucket[4]", "name": "spare"}
    members["expressions"].append({"expr-id": members["last-column-id"], "expr": expr})
    path.write_text(json.dumps(members))
    planned = icectl("upgrade-to-v4", str(directory), *LEAVE[:2], "--dry-run", "--json")
    (told,) = planned.document["result"]["findings"]
    assert (told["rule"], told["severity"]) == ("U-16", "warning")
    assert told["subject"] == "expression `spare`"


@pytest.mark.parametrize("layout", ["iceberg-1.12", "sfc-1"])
def test_it_is_told_which_layout_a_table_has_now_and_that_there_is_a_way_back(
    tmp_path, icectl, layout
):
    directory = tmp_path / "t"
    build(directory, 3)
    (other,) = {"iceberg-1.12", "sfc-1"} - {layout}
    assert icectl("upgrade-to-v4", str(directory), "--layout", other, "--yes").code == 0
    planned = icectl("upgrade-to-v4", str(directory), "--layout", layout, "-n").out
    assert f"the table becomes one of layout {layout}" in planned
    assert f"`icectl upgrade-to-v4 --layout {other}` leads back" in planned
    done = icectl("upgrade-to-v4", str(directory), "--layout", layout, "--yes")
    assert done.out.startswith(f"the table has layout {layout} now")
    assert icectl("inspect", str(directory), "--json").document["result"]["layout"] == layout


def test_v4_003_a_table_with_roots_of_another_layout_is_refused_by_name(tmp_path, icectl):
    """The draft's tables have no expressions; nothing in them says that they are damaged."""
    directory = tmp_path / "t"
    build(directory, 3)
    assert icectl("upgrade-to-v4", "--layout=sfc-1", str(directory), "--yes").code == 0
    path = current_metadata(directory)
    members = read_metadata(path)
    del members["expressions"]
    path.write_text(json.dumps(members))
    for command in ("inspect", "validate", "rewrite-manifests"):
        refused = icectl(command, str(directory), "--json")
        assert refused.code == 14
        assert "in a layout that icectl does not know" in refused.document["error"]["message"]


def test_a_table_whose_expressions_iceberg_has_dropped_is_one_of_iceberg_and_is_led_back(
    tmp_path, icectl
):
    """`--lazy` made no guard before November 2026, and Iceberg 1.12 appended to such tables."""
    directory = tmp_path / "t"
    filled_table(directory, range(4), range(4, 8), format_version=3)
    assert icectl("upgrade-to-v4", "--layout=sfc-1", str(directory), "--lazy", "--yes").code == 0
    path = current_metadata(directory)
    members = read_metadata(path)
    del members["expressions"]
    members["partition-specs"] = [{"spec-id": 0, "fields": []}]
    path.write_text(json.dumps(members))
    rows = rows_by_snapshot(directory)
    told = icectl("inspect", str(directory), "--json").document["result"]
    assert told["layout"] == "iceberg-1.12"
    assert problems(icectl, directory) == set()
    assert icectl("rewrite-manifests", str(directory), "--json").document["status"] == "done"
    assert icectl("upgrade-to-v4", str(directory), *ENTER).code == 0
    shown = rows_by_snapshot(directory)[head(directory)["snapshot-id"]]
    assert shown == rows[members["current-snapshot-id"]]
    assert problems(icectl, directory) == set()


def suffixes(icectl: Run, directory: Path) -> list[str]:
    """How the names of the current manifests end, which readers go by."""
    told = icectl("inspect", str(directory), "manifests", "--json").document["result"]["rows"]
    return sorted({Path(row["path"]).suffix for row in told})


def test_rewritten_manifests_keep_their_container_or_get_the_one_that_is_asked_for(
    tmp_path, icectl
):
    directory = tmp_path / "t"
    build(directory, 3)
    assert icectl("upgrade-to-v4", str(directory), *LEAVE).code == 0
    rows, files = rows_by_snapshot(directory), files_of(icectl, directory)
    kept = icectl("rewrite-manifests", str(directory), "--json")
    assert (kept.document["status"], suffixes(icectl, directory)) == ("done", [".avro"])
    for form in ("parquet", "avro", "parquet"):
        words = ("rewrite-manifests", str(directory), "--manifest-format", form, "--json")
        done = icectl(*words)
        assert (done.code, done.document["status"]) == (0, "done"), done.err
        assert suffixes(icectl, directory) == [f".{form}"]
        again = icectl(*words)
        assert (again.code, again.document["status"]) == (0, "nothing-to-do")
        assert problems(icectl, directory) == set()
    assert icectl("rewrite-manifests", str(directory), "--json").document["status"] == (
        "nothing-to-do"
    )
    assert {key: rows_by_snapshot(directory)[key] for key in rows} == rows
    assert {key: files_of(icectl, directory)[key] for key in files} == files


@pytest.mark.parametrize("layout", [None, "sfc-1"])
def test_manifests_of_other_versions_have_one_container(tmp_path, icectl, layout):
    directory = tmp_path / "t"
    build(directory, 3)
    if layout is not None:
        assert icectl("upgrade-to-v4", str(directory), "--layout", layout, "--yes").code == 0
    refused = icectl("rewrite-manifests", str(directory), "--manifest-format", "parquet")
    assert refused.code == 2
    assert "is for tables of version 4 as Iceberg 1.12 writes it" in refused.err
