"""`icectl upgrade-to-v4`: rows stay the same from every snapshot, and through what follows."""

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from icectl.env import Env, SystemEnv
from icectl.files.manifest.manifest_list import write_manifest_list
from icectl.format.manifest import FieldSummary, ManifestFile
from tests.builders import plain_manifests
from tests.builders.broken import Broken, in_first, in_first_file
from tests.builders.first_writers import as_first_writers_did
from tests.builders.folders import files_of
from tests.builders.rows import current_metadata, live_entries, read_metadata, rows_by_snapshot
from tests.builders.table_builder import TableBuilder
from tests.builders.tree_table import remove_data_files
from tests.cli.conftest import Run

MODES = ("--lazy", "", "--eager")


def without_totals(directory: Path) -> dict[str, str]:
    """Take the totals out of the summary of the current snapshot, and return them."""
    path = current_metadata(directory)
    metadata = json.loads(path.read_text())
    ids = [snapshot["snapshot-id"] for snapshot in metadata["snapshots"]]
    summary = metadata["snapshots"][ids.index(metadata["current-snapshot-id"])]["summary"]
    totals = {key: summary.pop(key) for key in list(summary) if key.startswith("total-")}
    path.write_text(json.dumps(metadata))
    return totals


@pytest.fixture
def icectl(prepared: Callable[[str, Env], Run], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command by its name, without words that are empty."""
    monkeypatch.setenv("ICECTL_COMPACT_ENGINE", "local")
    run = prepared("", SystemEnv())
    return lambda command, *words: run(*filter(None, words), command=command)


@pytest.fixture
def upgrade(icectl: Run) -> Run:
    """Upgrade a table, by default to sfc-1."""
    return lambda directory, *words, layout="sfc-1": icectl(
        "upgrade-to-v4", str(directory), f"--layout={layout}", *words
    )


def build(directory: Path, version: int) -> TableBuilder:
    """A table with a branch, a tag, deletes of every kind that its version has."""
    table = TableBuilder(directory, format_version=version, partitioning="two")
    table.append(range(12), files=3)
    table.ref("eoy", "tag")
    table.append(range(12, 24))
    if version > 1:
        table.delete_rows([1, 2, 13])
    if version == 2:
        table.delete_rows([5], kind="equality")
    table.ref("audit", "branch")
    table.append(range(100, 106), branch="audit")
    table.remove_data_files(1)
    return table


def head(directory: Path, branch: str = "main") -> dict[str, Any]:
    metadata = read_metadata(current_metadata(directory))
    wanted = metadata["refs"][branch]["snapshot-id"]
    return next(one for one in metadata["snapshots"] if one["snapshot-id"] == wanted)


def live_leaves(directory: Path) -> list[str]:
    """The leaves of the current root, as pyarrow reads it."""
    root = head(directory)["root-manifest"].removeprefix("file:")
    rows = pq.ParquetFile(root).read(["content_type", "location"]).to_pylist()
    return [row["location"] for row in rows if row["content_type"] in (3, 4)]


@pytest.mark.by_turns(3)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("version", [1, 2, 3])
def test_every_snapshot_has_the_rows_that_it_had(tmp_path, upgrade, version, mode):
    directory = tmp_path / "t"
    build(directory, version)
    before = rows_by_snapshot(directory)
    of_main, of_audit = (before[head(directory, name)["snapshot-id"]] for name in ("main", "audit"))
    assert upgrade(directory, mode, "--yes").code == 0
    after = rows_by_snapshot(directory)
    assert {key: after[key] for key in before} == before
    assert after[head(directory)["snapshot-id"]] == of_main
    assert after[head(directory, "audit")["snapshot-id"]] == of_audit
    roots = {name for name in ("main", "audit") if "root-manifest" in head(directory, name)}
    assert roots == {"--lazy": set(), "": {"main"}, "--eager": {"main", "audit"}}[mode]
    assert len(after) - len(before) == len(roots)


@pytest.mark.by_turns(3)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("version", [1, 2, 3])
def test_maintenance_after_it_changes_no_row_and_then_has_nothing_to_do(
    tmp_path, upgrade, icectl, version, mode
):
    directory = tmp_path / "t"
    build(directory, version)
    assert upgrade(directory, mode, "--yes").code == 0
    rows = rows_by_snapshot(directory)[head(directory)["snapshot-id"]]
    assert icectl("rewrite-manifests", directory).code == 0
    assert rows_by_snapshot(directory)[head(directory)["snapshot-id"]] == rows
    again = icectl("rewrite-manifests", directory, "--json")
    assert (again.code, again.document["status"]) == (0, "nothing-to-do")
    words = ("--older-than", "0s", "--retain-last", "1", "--yes")
    assert icectl("expire-snapshots", directory, *words).code == 0
    kept = rows_by_snapshot(directory)
    assert kept[head(directory)["snapshot-id"]] == rows
    again = icectl("expire-snapshots", directory, *words, "--json")
    assert (again.code, again.document["status"]) == (0, "nothing-to-do")
    found = icectl(
        "remove-orphans", str(directory), "-n", "--older-than", "0s", "--allow-recent", "--json"
    )
    assert (found.code, found.document["status"]) == (0, "nothing-to-do")
    assert rows_by_snapshot(directory) == kept


@pytest.mark.by_turns(3)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("version", [1, 2, 3])
def test_compaction_after_it_changes_no_row_and_then_has_nothing_to_do(
    tmp_path, upgrade, icectl, version, mode
):
    directory = tmp_path / "t"
    build(directory, version)
    assert upgrade(directory, mode, "--yes").code == 0
    before = rows_by_snapshot(directory)
    rows = before[head(directory)["snapshot-id"]]
    words = ("compact", str(directory), "--min-input-files", "2", "--engine", "local")
    words = (*words, "--yes", "--json")
    done = icectl(*words)
    assert (done.code, done.document["status"]) == (0, "done")
    after = rows_by_snapshot(directory)
    assert {key: after[key] for key in before} == before
    assert after[head(directory)["snapshot-id"]] == rows
    assert head(directory)["summary"]["total-delete-files"] == "0"
    again = icectl(*words)
    assert (again.code, again.document["status"]) == (0, "nothing-to-do")


@pytest.mark.parametrize("version", [1, 2, 3])
def test_expiry_deletes_what_only_old_snapshots_have_live(tmp_path, upgrade, icectl, version):
    """A data file that a delete vector over a leaf has killed goes with the last snapshot of it."""
    directory = tmp_path / "t"
    build(directory, version)
    assert upgrade(directory, "--eager", "--yes").code == 0
    words = ("--older-than", "0s", "--retain-last", "1", "--yes")
    assert icectl("expire-snapshots", directory, *words).code == 0
    metadata = read_metadata(current_metadata(directory))
    live = {
        entry["data_file"]["file_path"].removeprefix("file:")
        for snapshot in metadata["snapshots"]
        for entry in live_entries(snapshot)
    }
    assert {str(path) for path in (directory / "data").rglob("*") if path.is_file()} == live


@pytest.mark.parametrize("mode", MODES)
def test_v4_030_a_snapshot_without_a_list_is_refused_before_the_first_commit(
    tmp_path, upgrade, mode
):
    build(tmp_path / "t", 2)
    Broken(tmp_path / "t").edit(lambda members: members["snapshots"][1].pop("manifest-list"))
    before = files_of(tmp_path / "t")
    ran = upgrade(tmp_path / "t", mode, "--yes")
    assert ran.code == 15
    assert "it has nothing to read (V4-030)" in ran.err
    assert files_of(tmp_path / "t") == before


def test_a_second_upgrade_has_nothing_to_do_and_a_lazy_one_can_go_on(tmp_path, upgrade):
    directory = tmp_path / "t"
    build(directory, 2)
    assert upgrade(directory, "--lazy", "--yes").code == 0
    again = upgrade(directory, "--lazy", "--check", "--json")
    assert (again.code, again.document["status"]) == (0, "nothing-to-do")
    further = upgrade(directory, "--check", "--json")
    assert (further.code, further.document["status"]) == (4, "planned")
    assert [step["step"] for step in further.document["result"]["steps"]] == ["write-root"]
    assert upgrade(directory, "--yes").code == 0
    for mode in ("", "--lazy"):
        done = upgrade(directory, mode, "--yes", "--json")
        assert (done.code, done.document["status"]) == (0, "nothing-to-do")
    assert upgrade(directory, "--eager", "--yes", "--json").code == 0
    assert "root-manifest" in head(directory, "audit")


def test_the_document_names_steps_and_versions(tmp_path, upgrade):
    directory = tmp_path / "t"
    build(directory, 2)
    ran = upgrade(directory, "--yes", "--json")
    result = ran.document["result"]
    assert (ran.code, ran.document["status"]) == (0, "done")
    assert (result["from_version"], result["to_version"]) == (2, 4)
    assert [step["step"] for step in result["steps"]] == [
        "upgrade-format-version",
        "write-expressions",
        "assign-row-ids",
        "write-root",
    ]
    assert result["legacy_manifests"] == len(live_leaves(directory)) == 4
    assert [one["rule"] for one in result["findings"]] == ["U-09", "U-09"]
    assert result["snapshot_id"] == str(head(directory)["snapshot-id"])
    assert ran.document["table"]["metadata_location_after"].endswith(".metadata.json")


def test_an_eager_upgrade_counts_what_stays_in_manifests_of_older_versions(
    tmp_path, icectl, upgrade
):
    """Position delete files do: sfc-1 C-30."""
    directory = tmp_path / "t"
    build(directory, 2)
    result = upgrade(directory, "--eager", "--yes", "--json").document["result"]
    staying = [one for one in live_leaves(directory) if one.endswith(".avro")]
    assert result["legacy_manifests"] == len(staying) == 1
    detail = next(one["detail"] for one in result["steps"] if one["step"] == "rewrite-manifests")
    assert detail == "rewrite 7 manifests as leaves, in 2 branches"  # of 4 and 5, but one of each
    ran = icectl("rewrite-manifests", str(directory), "--rewrite-all", "--dry-run", "--json")
    (deletes,) = [one for one in ran.document["result"]["groups"] if one["content"] == "deletes"]
    assert (deletes["rewritten"], deletes["kept"]) == (1, 1)
    ran = upgrade(directory, "--eager", "--check", "--json")
    assert ran.document["status"] == "nothing-to-do"


def test_a_rewrite_says_that_position_delete_files_stay(tmp_path, icectl, upgrade):
    table = TableBuilder(tmp_path / "t")
    table.append(range(9))
    table.delete_rows([1])
    assert upgrade(table.location, "--yes").code == 0
    ran = icectl("rewrite-manifests", table.location, "--rewrite-all", "--dry-run", "--json")
    (deletes,) = [one for one in ran.document["result"]["groups"] if one["content"] == "deletes"]
    assert (deletes["rewritten"], deletes["kept"]) == (0, 1)
    assert deletes["reason"] == "position delete files stay in manifests of their version"


def test_manifests_that_no_root_lists_are_not_counted(tmp_path, upgrade):
    """One has only a removed file: sfc-1 C-36."""
    table = TableBuilder(tmp_path / "t")
    for id_ in range(3):
        table.append([id_])
    table.remove_data_files(1)
    result = upgrade(tmp_path / "t", "--yes", "--json").document["result"]
    assert result["legacy_manifests"] == len(live_leaves(tmp_path / "t")) == 2
    assert result["steps"][-1]["detail"] == "branch main gets a root that lists its 2 manifests"


def test_the_metadata_is_that_of_version_4(tmp_path, upgrade):
    directory = tmp_path / "t"
    build(directory, 1)
    as_first_writers_did(directory)
    assert upgrade(directory, "--lazy", "--yes").code == 0
    new = read_metadata(current_metadata(directory))
    assert new["format-version"] == 4
    assert len(new["table-uuid"]) == 36
    assert not {"schema", "partition-spec"} & new.keys()
    assert new["location"] == f"file:{directory}"
    first = max(
        number for schema in new["schemas"] for number in (f["id"] for f in schema["fields"])
    )
    ids = [one["expr-id"] for one in new["expressions"]]
    assert ids == sorted(ids)
    assert ids[0] > first
    assert new["last-column-id"] == ids[-1]
    assert [one["partition-field-id"] for one in new["expressions"]] == [1000, 1001]
    assert [field["expr-id"] for field in new["partition-specs"][0]["fields"]] == ids
    assert new["next-row-id"] == 0
    assert {snapshot["sequence-number"] for snapshot in new["snapshots"]} == {0}


def without_deletes(directory: Path, version: int) -> None:
    table = TableBuilder(directory, format_version=version, partitioning="two")
    table.append(range(12), files=3)
    table.ref("audit", "branch")
    table.append(range(100, 106), branch="audit")


@pytest.mark.parametrize(("version", "words"), [(1, ()), (2, ()), (3, ()), (3, ("--eager",))])
def test_tables_become_those_of_iceberg_1_12(tmp_path, upgrade, icectl, version, words):
    directory = tmp_path / "t"
    if version == 2:
        without_deletes(directory, 2)
    else:
        build(directory, version)
    before = rows_by_snapshot(directory)
    to_lists = partial(upgrade, directory, *words, layout="iceberg-1.12")
    planned = to_lists("--check", "--json")
    assert planned.code == 4
    steps = [step["step"] for step in planned.document["result"]["steps"]]
    of_rows = ["assign-row-ids"] if version < 3 else []
    of_manifests = ["rewrite-manifests"] if words else []
    assert steps == ["upgrade-format-version", *of_rows, *of_manifests]
    assert to_lists("--yes").code == 0
    metadata = read_metadata(current_metadata(directory))
    assert metadata["format-version"] == 4
    assert "expressions" not in metadata
    assert not [one for one in metadata["snapshots"] if "root-manifest" in one]
    assert metadata["location"] == f"file:{directory}"
    assert icectl("inspect", directory, "--json").document["result"]["layout"] == "iceberg-1.12"
    if not words:  # the reader of the tests knows manifests in Avro
        assert rows_by_snapshot(directory) == before
    assert icectl("validate", directory, "--level", "data", "--all-snapshots").code == 0
    again = to_lists("--yes", "--json")
    assert (again.code, again.document["status"]) == (0, "nothing-to-do")


def test_eager_upgrades_to_iceberg_1_12_write_the_manifests_of_all_branches_in_parquet(
    tmp_path, upgrade, icectl
):
    directory = tmp_path / "t"
    without_deletes(directory, 2)
    assert upgrade(directory, "--yes", layout="iceberg-1.12").code == 0
    # A table of that layout gets new manifests too.
    assert upgrade(directory, "--eager", "--yes", layout="iceberg-1.12").code == 0
    for branch in ("main", "audit"):
        listed = icectl("inspect", directory, "manifests", "--ref", branch, "--json")
        paths = [one["path"] for one in listed.document["result"]["rows"]]
        assert paths
        assert {Path(path).suffix for path in paths} == {".parquet"}
        assert all(path.startswith("file:") for path in paths)


def test_v4_004_position_deletes_that_name_files_without_a_scheme_are_applied_before(
    tmp_path, upgrade, icectl
):
    """Spark matches them by their text: of 18 rows it then found 20."""
    directory = tmp_path / "t"
    table = TableBuilder(directory, format_version=2)
    table.append(range(10))
    table.delete_rows([3])
    to_lists = partial(upgrade, directory, "--yes", "--json", layout="iceberg-1.12")
    refused = to_lists()
    assert refused.code == 5
    assert "(V4-004)" in refused.document["error"]["message"]
    assert f"`icectl compact {directory} --rewrite-all`" in refused.document["error"]["hint"]
    assert icectl("compact", directory, "--rewrite-all", "--yes").code == 0
    expire = ("expire-snapshots", str(directory), "--older-than", "0s", "--retain-last", "1")
    assert icectl(*expire, "--yes").code == 0
    assert to_lists().code == 0


def test_snapshots_that_embed_manifests_are_migrated_first(tmp_path, upgrade, icectl):
    directory = tmp_path / "t"
    build(directory, 1)
    as_first_writers_did(directory)
    to_lists = partial(upgrade, directory, "--yes", layout="iceberg-1.12")
    refused = to_lists()
    assert refused.code == 5
    assert "icectl migrate-v1-v2" in refused.err
    assert icectl("migrate-v1-v2", directory, "--yes").code == 0
    assert to_lists().code == 0


@pytest.mark.parametrize("option", ["--convert-position-deletes", "--allow-read-only"])
def test_options_of_one_layout_are_not_for_the_other(tmp_path, upgrade, option):
    build(tmp_path / "t", 2)
    assert upgrade(tmp_path / "t", "--eager", option, "--yes", layout="iceberg-1.12").code == 2


@pytest.mark.by_turns(2)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("ids", [(), range(4)])
def test_tables_without_partition_fields_get_a_spec_that_others_refuse(
    tmp_path, upgrade, icectl, mode, ids
):
    """Engines that know another version 4 parse every spec, and ask for its fields' names."""
    table = TableBuilder(tmp_path / "t", format_version=3)
    if ids:
        table.append(ids)
    assert upgrade(tmp_path / "t", mode, "--yes").code == 0
    metadata = read_metadata(current_metadata(tmp_path / "t"))
    assert metadata["default-spec-id"] == 0
    assert metadata["partition-specs"] == [
        {"spec-id": 0, "fields": []},
        {"spec-id": 1, "fields": [{"expr-id": metadata["last-column-id"]}]},
    ]
    (made,) = metadata["expressions"]
    assert made["expr"] == {"source-id": 1, "transform": "void", "name": "sfc_1"}
    assert made["partition-field-id"] == metadata["last-partition-id"]
    assert icectl("validate", tmp_path / "t").out.startswith("no problems found")
    clean = ("expire-snapshots", str(tmp_path / "t"), "--clean-expired-metadata", "--yes")
    assert icectl(*clean).code == 0
    assert (
        read_metadata(current_metadata(tmp_path / "t"))["partition-specs"]
        == (metadata["partition-specs"])
    )


def test_a_layout_that_is_not_known_is_wrong_usage(tmp_path, upgrade):
    refused = upgrade(tmp_path / "t", layout="sfc-2")
    assert refused.code == 2
    assert "`--layout`: `sfc-2` is not one of `sfc-1`, `iceberg-1.12`" in refused.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--lazy", "--eager"), "cannot be used together"),
        (("--convert-position-deletes",), "needs `--eager`"),
    ],
)
def test_options_that_do_not_go_together_are_wrong_usage(tmp_path, upgrade, words, message):
    build(tmp_path / "t", 2)
    ran = upgrade(tmp_path / "t", *words, "--yes")
    assert (ran.code, message in ran.err) == (2, True)


def test_a_table_without_snapshots_is_upgraded(tmp_path, upgrade):
    TableBuilder(tmp_path / "t", format_version=2).set_properties({"owner": "a"})
    assert upgrade(tmp_path / "t", "--yes").code == 0
    new = read_metadata(current_metadata(tmp_path / "t"))
    assert new["format-version"] == 4
    assert "current-snapshot-id" not in new


def test_l4_a_table_that_wants_relative_locations_gets_them(tmp_path, upgrade, icectl):
    directory = tmp_path / "t"
    build(directory, 3).set_properties({"icectl.v4.relative-locations": "true"})
    # Locations are shortened letter by letter, so the table's must be spelled as its files' are.
    files = _files(icectl, directory)
    assert upgrade(directory, "--eager", "--yes").code == 0
    new = read_metadata(current_metadata(directory))
    stored = [snapshot.get("root-manifest", "metadata/") for snapshot in new["snapshots"]]
    assert all(location.startswith("metadata/") for location in stored)
    assert head(directory)["root-manifest"] in stored
    root = pq.ParquetFile(directory / head(directory)["root-manifest"]).read(["location"])
    assert all(place.startswith("metadata/") for place in root["location"].to_pylist())
    assert _files(icectl, directory) == files
    remove_data_files(directory, SystemEnv(), files[:1])
    assert _files(icectl, directory) == files[1:]
    assert icectl("rewrite-manifests", directory).code == 0
    assert _files(icectl, directory) == files[1:]
    found = icectl(
        "remove-orphans", str(directory), "-n", "--older-than", "0s", "--allow-recent", "--json"
    )
    assert (found.code, found.document["status"]) == (0, "nothing-to-do")


def _files(icectl: Run, directory: Path) -> list[str]:
    """The live data files as icectl reads them, sorted, without scheme."""
    ran = icectl("inspect", directory, "files", "--json")
    assert ran.code == 0, ran.err
    rows = ran.document["result"]["rows"]
    return sorted(one["file_path"].removeprefix("file:") for one in rows if one["content"] == 0)


def test_a_manifest_with_columns_that_are_not_known_is_not_written_again(tmp_path, upgrade, icectl):
    """Lossless or refuse: what icectl does not know it cannot carry over."""
    directory = tmp_path / "t"
    build(directory, 3)
    assert upgrade(directory, "--yes").code == 0
    path = Path(head(directory)["root-manifest"].removeprefix("file:"))
    file = pq.ParquetFile(path)
    rows = file.read()
    added = pa.field("extra", pa.int64(), metadata={"PARQUET:field_id": "9001"})
    pq.write_table(
        rows.append_column(added, pa.nulls(len(rows), pa.int64())).replace_schema_metadata(
            file.metadata.metadata
        ),
        path,
    )
    before = sorted(path.name for path in directory.rglob("*"))
    ran = icectl("rewrite-manifests", directory, "--json")
    assert ran.code == 14
    assert "field ids 9001" in ran.err
    assert sorted(path.name for path in directory.rglob("*")) == before


def test_position_delete_files_become_vectors(tmp_path, upgrade):
    directory = tmp_path / "t"
    build(directory, 2)
    before = rows_by_snapshot(directory)
    rows = before[head(directory)["snapshot-id"]]
    convert = partial(upgrade, directory, "--eager", "--convert-position-deletes")
    planned = convert("--check", "--json").document["result"]
    assert planned["steps"][-1]["step"] == "convert-position-deletes"
    detail = planned["steps"][-1]["detail"]  # of two branches
    assert detail.startswith("replace 6 position delete files")
    assert planned["findings"] == []
    assert convert("--yes").code == 0
    after = rows_by_snapshot(directory)
    assert {key: after[key] for key in before} == before
    assert after[head(directory)["snapshot-id"]] == rows
    for branch in ("main", "audit"):
        summary = head(directory, branch)["summary"]
        assert (summary["operation"], summary["total-position-deletes"]) == ("replace", "3")
        assert (summary["added-dvs"], summary["removed-position-delete-files"]) == ("3", "3")
        live = [entry["data_file"] for entry in live_entries(head(directory, branch))]
        assert {one["file_format"].lower() for one in live if one.get("content") == 1} == {"puffin"}
    again = convert("--check", "--json")
    assert (again.code, again.document["status"]) == (0, "nothing-to-do")


def test_position_deletes_are_converted_later_too(tmp_path, upgrade):
    directory = tmp_path / "t"
    build(directory, 2)
    assert upgrade(directory, "--eager", "--yes").code == 0
    rows = rows_by_snapshot(directory)[head(directory)["snapshot-id"]]
    done = upgrade(directory, "--eager", "--convert-position-deletes", "--yes", "--json")
    assert (done.code, done.document["status"]) == (0, "done")
    assert [step["step"] for step in done.document["result"]["steps"]] == [
        "convert-position-deletes"
    ]
    assert rows_by_snapshot(directory)[head(directory)["snapshot-id"]] == rows


def test_v4_145_counts_of_values_that_version_4_rejects_are_told_before_with_what_sets_them_right(
    tmp_path, upgrade, icectl
):
    directory = tmp_path / "t"
    build(directory, 2)

    def change(entry: dict[str, Any]) -> None:
        for count in entry["data_file"]["value_counts"]:
            count["value"] += 1

    Broken(directory).edit_manifest(in_first(change))
    ran = upgrade(directory, "--dry-run", "--json")
    (told,) = [one for one in ran.document["result"]["findings"] if one["rule"] == "U-14"]
    assert (told["severity"], told["subject"]) == ("warning", "branch main")
    assert told["message"].startswith("1 file of other counts of values than of rows")
    assert "`icectl compact TABLE --rewrite-all`" in told["hint"]
    assert icectl("compact", directory, "--rewrite-all", "--yes", "--json").code == 0
    ran = upgrade(directory, "--yes", "--json")
    assert "U-14" not in {one["rule"] for one in ran.document["result"]["findings"]}
    found = icectl("validate", directory, "--level", "data", "--json").document
    assert found["result"]["findings"] == []


def name_a_data_file(broken: Broken) -> str:
    broken.edit_manifest(in_first_file(file_path="t/data/relative.parquet"))
    return "t/data/relative.parquet"


def name_the_table(broken: Broken) -> str:
    broken.edit(lambda members: members.update(location="t"))
    return "t"


def name_an_old_list(broken: Broken) -> str:
    """That of a snapshot at no branch's head: its files are not looked at."""
    old = broken.members()["snapshots"][0]
    assert old["snapshot-id"] != broken.head()["snapshot-id"]
    named = f"t/metadata/{Path(old['manifest-list']).name}"
    broken.edit(lambda members: members["snapshots"][0].update({"manifest-list": named}))
    return named


@pytest.mark.by_turns(3)
@pytest.mark.parametrize("damage", [name_a_data_file, name_the_table, name_an_old_list])
@pytest.mark.parametrize("layout", ["sfc-1", "iceberg-1.12"])
@pytest.mark.parametrize("mode", MODES)
def test_a_relative_location_would_be_looked_for_elsewhere(
    tmp_path, upgrade, monkeypatch, mode, layout, damage
):
    monkeypatch.chdir(tmp_path)
    directory = tmp_path / "t"
    build(directory, 2)
    named = damage(Broken(directory))
    before = {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}
    relative = partial(upgrade, "t/", mode, layout=layout)
    ran = relative("--yes", "--json")
    assert (ran.code, ran.document["status"]) == (5, "refused")
    planned = relative("-n", "--json")
    told = [one for one in planned.document["result"]["findings"] if one["rule"] == "U-17"]
    assert [one["severity"] for one in told] == ["error"]
    assert f"`{named}`" in told[0]["message"]
    assert {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()} == before


@pytest.mark.by_turns(3)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("version", "name", "wrong"),
    [
        (1, "added_files_count", 0),
        (2, "added_files_count", 1),
        (2, "added_rows_count", 5),
        (
            3,
            "partitions",
            (
                FieldSummary(
                    contains_null=False, contains_nan=False, lower_bound=b"c0", upper_bound=b"c1"
                ),
            ),
        ),
    ],
)
def test_a_list_with_wrong_counts_or_ranges_is_repaired_before(
    tmp_path, upgrade, icectl, monkeypatch, version, name, wrong, mode
):
    def miscounted(manifests: list[ManifestFile], **members: Any) -> bytes:
        return write_manifest_list([replace(one, **{name: wrong}) for one in manifests], **members)

    monkeypatch.setattr(plain_manifests, "write_manifest_list", miscounted)
    TableBuilder(tmp_path / "t", version, "identity").append(range(6), files=2)
    directory = tmp_path / "t"
    refused = upgrade(directory, mode, "--yes")
    assert (refused.code, "U-18" in refused.err) == (5, True)
    assert icectl("repair", directory, "--yes").code == 0
    assert upgrade(directory, mode, "--yes").code == 0
    assert icectl("validate", directory).code == 0
    assert len(rows_by_snapshot(tmp_path / "t")[head(tmp_path / "t")["snapshot-id"]]) == 6


@pytest.mark.by_turns(2)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("has_files", [True, False])
def test_a_table_with_an_unknown_transform_is_upgraded_to_be_read(
    tmp_path, upgrade, icectl, has_files, mode
):
    directory = tmp_path / "t"
    TableBuilder(tmp_path / "t", 2, "identity" if has_files else "none").append(range(6))
    path = current_metadata(tmp_path / "t")
    metadata = read_metadata(path)
    field = {"source-id": 2, "transform": "zorder[3]", "name": "category", "field-id": 1000}
    if has_files:
        metadata["partition-specs"] = [{"spec-id": 0, "fields": [field]}]
    else:
        metadata["partition-specs"].append({"spec-id": 1, "fields": [field]})
        metadata |= {"default-spec-id": 1, "last-partition-id": 1000}
    path.write_text(json.dumps(metadata))
    if has_files:  # manifests have a copy of the spec
        copy = {"partition-spec": json.dumps([field])}
        Broken(tmp_path / "t").edit_manifest(
            lambda _: None, header=lambda header: header.update(copy)
        )
    before = icectl("inspect", directory, "files").out
    assert upgrade(directory, mode, "--yes", "--allow-read-only").code == 0
    assert icectl("inspect", directory, "files").out == before
    assert icectl("inspect", directory, "manifests").code == 0
    assert icectl("inspect", directory, "partitions").code == 0
    errors = [
        finding
        for finding in icectl("validate", directory, "--json").document["result"]["findings"]
        if finding["severity"] == "error"
    ]
    assert {finding["rule"] for finding in errors} <= {"R-061"}  # told before too


@pytest.mark.parametrize("layout", ["sfc-1", "iceberg-1.12"])
def test_a_branch_that_is_not_there_is_wrong_usage(tmp_path, upgrade, layout):
    TableBuilder(tmp_path / "t", 2).append(range(3))
    ran = upgrade(tmp_path / "t", "--branch", "audt", "-y", layout=layout)
    assert (ran.code, "no branch `audt`" in ran.err) == (2, True)
    assert read_metadata(current_metadata(tmp_path / "t"))["format-version"] == 2


@pytest.mark.parametrize("mode", ["", "--eager"])
def test_totals_are_counted_where_the_last_snapshot_has_none(tmp_path, upgrade, mode):
    table = TableBuilder(tmp_path / "t", partitioning="two")
    table.append(range(12), files=3)
    table.append(range(12, 24))
    table.delete_rows([1, 13], kind="equality")
    totals = without_totals(table.directory)
    assert totals["total-records"] == "24"
    assert upgrade(table.directory, mode, "--yes").code == 0
    assert totals.items() <= head(table.directory)["summary"].items()
