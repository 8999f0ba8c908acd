"""`icectl rewrite-manifests` from the command line: the law of maintenance, choices, refusals."""

import json
import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import fastavro
import pytest

from icectl.cli import session
from icectl.env import Env
from icectl.storage.local.store import LocalStore
from tests.builders.broken import Broken, in_first_file
from tests.builders.expiry import NOW_MS
from tests.builders.first_writers import as_first_writers_did
from tests.builders.rows import current_metadata, head, read_avro, read_metadata, rows_by_snapshot
from tests.builders.table_builder import PARTITIONINGS, TableBuilder, filled_table
from tests.cli.conftest import Run, result
from tests.stores.fixed_env import FixedEnv
from tests.stores.wrapped import ReadOnlyStore


@pytest.fixture
def rewrite(prepared: Callable[[str, Env], Run]) -> Run:
    """Run `icectl rewrite-manifests`."""
    return prepared("rewrite-manifests", FixedEnv(NOW_MS))


def build(directory: Path, format_version: int, partitioning: str = "two") -> TableBuilder:
    """Many small manifests of data, some of deletes, a branch of its own."""
    table = TableBuilder(directory, format_version=format_version, partitioning=partitioning)
    for start in range(0, 60, 12):
        table.append(range(start, start + 12))
    if format_version > 1:
        table.delete_rows([1, 2, 13])
        table.delete_rows([4, 15, 26])
    if format_version == 2:
        table.delete_rows([40, 41], kind="equality")
    table.ref("audit", "branch")
    table.append(range(100, 106), branch="audit")
    table.remove_data_files(2)
    return table


def identities(snapshot: dict[str, Any]) -> list[tuple[Any, ...]]:
    """What must not change of live entries, read by fastavro, inherited by hand (R-042, R-103)."""
    found = []
    for manifest in read_avro(snapshot["manifest-list"]):
        next_row_id = manifest.get("first_row_id")
        for entry in read_avro(manifest["manifest_path"]):
            file, row_id = entry["data_file"], entry["data_file"].get("first_row_id")
            if entry["status"] == 2:
                continue
            if row_id is None and next_row_id is not None and not file.get("content"):
                row_id, next_row_id = next_row_id, next_row_id + file["record_count"]
            added = entry["status"] == 1
            sequence = manifest.get("sequence_number", 0)
            stored = entry.get("sequence_number"), entry.get("file_sequence_number")
            inherits = added or not sequence  # version 1 has none
            numbers = [sequence if number is None and inherits else number for number in stored]
            snapshot_id = entry["snapshot_id"] or manifest["added_snapshot_id"]
            place = file.get("content_offset")
            rest = {
                name: value
                for name, value in file.items()
                if name not in ("first_row_id", "partition")
            }
            partition = sorted(file["partition"].items())
            stated = (snapshot_id, *numbers, row_id, manifest["partition_spec_id"])
            found.append((file["file_path"], place, *stated, partition, rest))
    return sorted(found, key=lambda one: (one[0], one[1] or 0))


@pytest.mark.by_turns(3)
@pytest.mark.parametrize("partitioning", PARTITIONINGS)
@pytest.mark.parametrize("format_version", [1, 2, 3])
def test_r069_a_rewrite_keeps_the_law(tmp_path, rewrite, monkeypatch, format_version, partitioning):
    directory = tmp_path / "t"
    table = build(directory, format_version, partitioning)
    before, files = (
        rows_by_snapshot(directory),
        {path for path in directory.rglob("*") if path.is_file()},
    )
    old = head(directory)

    with monkeypatch.context() as patch:
        patch.setattr(session, "open_store", lambda *_: ReadOnlyStore(LocalStore()))
        planned = result(rewrite(table.location, "--dry-run", "--json"))
    done = rewrite(table.location, "--json")
    found = result(done)
    assert (done.code, done.document["status"]) == (0, "done")
    same = ("rewritten", "kept", "entries", "bytes_before", "groups", "manifests_rewritten")
    assert {key: found[key] for key in same} == {key: planned[key] for key in same}
    assert found["added"] == planned["added"] == len(found["manifests_added"])

    new = head(directory)
    assert str(new["snapshot-id"]) == found["snapshot_id"]
    assert identities(new) == identities(old)
    after = rows_by_snapshot(directory)
    assert {id_: after[id_] for id_ in before} == before
    assert after[new["snapshot-id"]] == before[old["snapshot-id"]]
    assert files <= {path for path in directory.rglob("*") if path.is_file()}

    again = rewrite(table.location, "--check", "--json")
    assert (again.code, again.document["status"]) == (0, "nothing-to-do")


@pytest.mark.parametrize("format_version", [2, 3])
def test_rules_21_and_23_new_manifests_state_what_their_entries_had(
    tmp_path, rewrite, format_version
):
    """Nothing is left to inherit: what the builder gave each file stands in its entry (R-043)."""
    table = build(tmp_path / "t", format_version)
    names = ("snapshot_id", "sequence_number", "file_sequence_number")
    given = [
        (row["location"], row["content_offset"] or 0, 0, *(row[name] for name in names))
        for row in table.live()
    ]
    before = {one["manifest_path"] for one in read_avro(head(tmp_path / "t")["manifest-list"])}
    found = result(rewrite(table.location, "--json"))
    listed = {one["manifest_path"] for one in read_avro(head(tmp_path / "t")["manifest-list"])}
    added = set(found["manifests_added"])
    assert listed == added
    assert listed & before == set()
    stored = [
        (
            entry["data_file"]["file_path"],
            entry["data_file"].get("content_offset") or 0,
            entry["status"],
            *(entry[name] for name in names),
        )
        for path in added
        for entry in read_avro(path)
    ]
    assert sorted(stored) == sorted(given)


def with_unknown_fields(directory: Path, *, with_ids: bool = True) -> None:
    """Give the rows of the newest list, and their summaries, a field that no version has."""
    path = Path(head(directory)["manifest-list"])
    with path.open("rb") as file:
        reader = fastavro.reader(file)
        schema, rows = reader.writer_schema, list(reader)
    assert isinstance(schema, dict)
    (of_list,) = (field for field in schema["fields"] if field["name"] == "partitions")
    for fields, id_ in ((schema["fields"], 900), (of_list["type"][1]["items"]["fields"], 901)):
        fields.append({"name": f"f{id_}", "type": "int"} | ({"field-id": id_} if with_ids else {}))
    for row in rows:
        summaries = [{**summary, "f901": 7} for summary in row["partitions"] or ()]
        row |= {"f900": 7, "partitions": summaries}
    with path.open("wb") as file:
        fastavro.writer(file, schema, rows)


@pytest.mark.parametrize(("dry_run", "with_ids"), [(True, True), (False, True), (False, False)])
@pytest.mark.parametrize(
    "line",
    [("rewrite-manifests",), ("compact", "--rewrite-all"), ("upgrade-to-v4", "--layout", "sfc-1")],
    ids=lambda line: line[0],
)
def test_fields_of_a_list_that_a_new_one_would_lose_are_refused(
    tmp_path, prepared, line, dry_run, with_ids
):
    directory = build(tmp_path / "t", 2).directory
    with_unknown_fields(directory, with_ids=with_ids)
    before = {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}
    command, *options = line
    run = prepared(command, FixedEnv(NOW_MS))
    ended = run(str(directory), *options, *(["--dry-run"] if dry_run else []))
    said = " ".join((ended.out + ended.err).split())
    assert ended.code == (5 if command == "upgrade-to-v4" else 14), said
    assert "the manifest list has fields that icectl does not know" in said
    assert ("900, 901" if with_ids else "would lose (without ids)") in said
    assert {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("place", ["entry", "data_file"])
@pytest.mark.parametrize("line", [("rewrite-manifests",), ("compact", "--rewrite-all")])
def test_fields_of_entries_without_an_id_are_not_dropped(tmp_path, prepared, line, place):
    directory = build(tmp_path / "t", 2).directory
    for path in [Path(row["manifest_path"]) for row in read_avro(head(directory)["manifest-list"])]:
        with path.open("rb") as file:
            reader = fastavro.reader(file)
            schema, rows, header = reader.writer_schema, list(reader), reader.metadata
        assert isinstance(schema, dict)
        (of_file,) = (field for field in schema["fields"] if field["name"] == "data_file")
        fields = schema["fields"] if place == "entry" else of_file["type"]["fields"]
        fields.append({"name": "note", "type": "int", "default": 7})
        for row in rows:
            (row if place == "entry" else row["data_file"])["note"] = 7
        kept = {key: text for key, text in header.items() if not key.startswith("avro.")}
        with path.open("wb") as file:
            fastavro.writer(file, schema, rows, metadata=kept)
    command, *options = line
    ended = prepared(command, FixedEnv(NOW_MS))(str(directory), *options, "--yes")
    assert ended.code == 14, ended.out + ended.err
    assert "would lose (without ids)" in " ".join(ended.err.split())


def without_counts(directory: Path) -> None:
    """Leave out of the newest manifest list what version 1 need not say (R-050)."""
    path = Path(head(directory)["manifest-list"])
    required = ("manifest_path", "manifest_length", "partition_spec_id", "added_snapshot_id")
    with path.open("rb") as file:
        reader = fastavro.reader(file)
        schema, rows = reader.writer_schema, list(reader)
    assert isinstance(schema, dict)
    schema["fields"] = [field for field in schema["fields"] if field["name"] in required]
    with path.open("wb") as file:
        fastavro.writer(file, schema, [{name: row[name] for name in required} for row in rows])


SAYING_LITTLE: dict[str, Callable[[Path], object]] = {
    "a list without counts": without_counts,
    "no list at all": lambda directory: as_first_writers_did(directory, embedding=99),
}


@pytest.mark.parametrize("form", SAYING_LITTLE)
def test_rule_26_entries_are_counted_where_nobody_has(tmp_path, rewrite, form):
    table = TableBuilder(tmp_path / "t", format_version=1, partitioning="identity")
    for start in range(0, 36, 12):
        table.append(range(start, start + 12))
    table.remove_data_files(1)
    before = rows_by_snapshot(tmp_path / "t")[table.metadata.current_snapshot_id]
    SAYING_LITTLE[form](tmp_path / "t")
    found = result(rewrite(table.location, "--json"))
    # 3 appends to 3 partitions of 4 rows each, of which one file is gone.
    assert (found["rewritten"], found["entries"]) == (3, 8)
    (manifest,) = read_avro(head(tmp_path / "t")["manifest-list"])
    assert (manifest["existing_files_count"], manifest["existing_rows_count"]) == (8, 32)
    assert rows_by_snapshot(tmp_path / "t")[int(found["snapshot_id"])] == before


def test_r171_manifests_that_stay_are_counted_in_the_lists_of_version_2(
    tmp_path, prepared, rewrite
):
    table = TableBuilder(tmp_path / "t", format_version=1, partitioning="identity")
    for start in range(0, 36, 12):
        table.append(range(start, start + 12))
    table.respec("none")
    table.append(range(40, 43))
    without_counts(tmp_path / "t")
    assert prepared("migrate-v1-v2", FixedEnv(NOW_MS))(table.location, "--yes").code == 0
    found = result(rewrite(table.location, "--spec-id", "0", "--json"))
    assert [(group["rewritten"], group["kept"]) for group in found["groups"]] == [(3, 0), (0, 1)]
    _, kept = read_avro(head(tmp_path / "t")["manifest-list"])
    assert (kept["added_files_count"], kept["added_rows_count"]) == (1, 3)


def test_r050_manifests_that_a_snapshot_embeds_stay_where_others_change(tmp_path, prepared):
    table = TableBuilder(tmp_path / "t", format_version=1)
    snapshots = [table.append(range(start, start + 3)) for start in range(0, 12, 3)]
    as_first_writers_did(tmp_path / "t", embedding=99)
    compact = prepared("compact", FixedEnv(NOW_MS))
    options = ("--where", "id < 6", "--rewrite-all", "--engine", "local", "--yes", "--json")
    assert result(compact(table.location, *options))["rewritten_data_files"] == 2
    listed = read_avro(head(tmp_path / "t")["manifest-list"])
    adders = {row["added_snapshot_id"]: row["added_rows_count"] for row in listed}
    assert [adders.get(snapshot) for snapshot in snapshots] == [None, None, 3, 3]


@pytest.mark.parametrize("format_version", [1, 2, 3])
def test_r047_r050_r051_rows_of_the_list_are_counted_from_the_entries(
    tmp_path, rewrite, format_version
):
    assert rewrite(build(tmp_path / "t", format_version).location).code == 0
    snapshot = head(tmp_path / "t")
    for manifest in read_avro(snapshot["manifest-list"]):
        entries = read_avro(manifest["manifest_path"])
        records = [entry["data_file"]["record_count"] for entry in entries]
        assert {entry["status"] for entry in entries} == {0}
        assert manifest["existing_files_count"] == len(entries)
        assert manifest["existing_rows_count"] == sum(records)
        assert manifest["added_files_count"] == manifest["deleted_files_count"] == 0
        assert manifest["manifest_length"] == Path(manifest["manifest_path"]).stat().st_size
        assert manifest["added_snapshot_id"] == snapshot["snapshot-id"]
        if format_version > 1:
            assert manifest["sequence_number"] == snapshot["sequence-number"]
            numbers = [entry["sequence_number"] for entry in entries]
            assert manifest["min_sequence_number"] == min(numbers)


def test_r104_a_rewrite_of_version_3_takes_no_row_ids(tmp_path, rewrite):
    table = build(tmp_path / "t", 3)
    before = read_metadata(current_metadata(tmp_path / "t"))["next-row-id"]
    assert rewrite(table.location).code == 0
    assert read_metadata(current_metadata(tmp_path / "t"))["next-row-id"] == before
    assert head(tmp_path / "t")["added-rows"] == 0
    assert head(tmp_path / "t")["first-row-id"] == before


def test_r031_the_snapshot_is_a_replace_and_keeps_its_totals(tmp_path, rewrite):
    table = build(tmp_path / "t", 2)
    old = head(tmp_path / "t")["summary"]
    found = result(rewrite(table.location, "--json"))
    new = head(tmp_path / "t")["summary"]
    assert new["operation"] == "replace"
    assert new["engine-name"] == "icectl"
    assert new["manifests-replaced"] == str(found["rewritten"])
    assert new["manifests-created"] == str(found["added"])
    assert new["entries-processed"] == str(found["entries"])
    assert {key: value for key, value in new.items() if key.startswith("total-")} == {
        key: value for key, value in old.items() if key.startswith("total-")
    }


def test_rule_24_the_summary_counts_manifests_and_entries(tmp_path, rewrite):
    """4 appends, and 3 commits of deletes to 3 partitions each, of which only those are asked
    for."""
    table = TableBuilder(tmp_path / "t", partitioning="identity")
    for start in range(0, 48, 12):
        table.append(range(start, start + 12))
    for ids in ([0, 1, 2], [3, 4, 5], [6, 7, 8]):
        table.delete_rows(ids)
    assert rewrite(table.location, "--content", "deletes").code == 0
    summary = head(tmp_path / "t")["summary"]
    assert {
        key: value
        for key, value in summary.items()
        if key.startswith(("manifests-", "entries-", "operation"))
    } == {
        "operation": "replace", "manifests-created": "1", "manifests-kept": "4",
        "manifests-replaced": "3", "entries-processed": "9",
    }  # fmt: skip


def test_a_branch_is_rewritten_and_main_stays(tmp_path, rewrite):
    table = build(tmp_path / "t", 2)
    before = head(tmp_path / "t")
    found = result(rewrite(table.location, "--branch", "audit", "--json"))
    metadata = read_metadata(current_metadata(tmp_path / "t"))
    assert str(metadata["refs"]["audit"]["snapshot-id"]) == found["snapshot_id"]
    assert metadata["current-snapshot-id"] == before["snapshot-id"]


def test_content_and_spec_choose_manifests(tmp_path, rewrite):
    table = build(tmp_path / "t", 2)
    found = result(rewrite(table.location, "--content", "deletes", "--json"))
    assert [(one["content"], one["rewritten"]) for one in found["groups"]] == [
        ("data", 0),
        ("deletes", 3),
    ]
    assert found["groups"][0]["reason"] == "not of deletes"
    assert rewrite(table.location, "--spec-id", "7").code == 2
    assert rewrite(table.location, "--sort-by", "nothing").code == 2
    assert rewrite(table.location, "--content", "all data").code == 2
    assert rewrite(table.location, "--branch", "nowhere").code == 2
    assert rewrite(table.location, "--target-size", "8").code == 2


def test_r080_entries_stay_where_their_partition_column_is_in_no_schema(
    tmp_path, rewrite, prepared
):
    """Engines drop schemas that no snapshot has, though files have partitions of their columns."""
    table = TableBuilder(tmp_path / "t", partitioning="identity")
    for start in range(0, 36, 12):
        table.append(range(start, start + 12))
    table.respec("none")
    table.append([40])

    def drop_column(members: dict[str, Any]) -> None:
        (schema,) = members["schemas"]
        fields = [field for field in schema["fields"] if field["name"] != "category"]
        members["schemas"] = [{**schema, "schema-id": 1, "fields": fields}]
        members["current-schema-id"] = 1
        for item in members["snapshots"]:
            item["schema-id"] = 1

    Broken(tmp_path / "t").edit(drop_column)
    found = result(rewrite(table.location, "--json"))
    assert [(group["rewritten"], group["kept"]) for group in found["groups"]] == [(0, 3), (0, 1)]
    assert found["groups"][0]["reason"] == "its partition spec has a column that is in no schema"
    min((tmp_path / "t" / "data" / "category=c0").iterdir()).unlink()
    repaired = prepared("repair", FixedEnv(NOW_MS))(table.location, "--drop-missing", "--yes")
    assert (repaired.code, "its column" in repaired.err) == (14, True)


def add_field(stored: dict[str, Any], name: str, field_id: int) -> None:
    """Add an optional field to the record of a data file."""
    (data_file,) = (field["type"] for field in stored["fields"] if field["name"] == "data_file")
    field = {"name": name, "type": ["null", "long"], "default": None, "field-id": field_id}
    data_file["fields"].append(field)


UNMOVABLE: dict[str, tuple[int, str, Callable[[Broken], None]]] = {
    "a field that nobody knows": (
        14,
        "field ids 999",
        lambda broken: broken.edit_manifest(
            lambda entries: None, schema=lambda stored: add_field(stored, "future", 999)
        ),
    ),
    "deletes among data": (
        15,
        "R-061",
        lambda broken: broken.edit_manifest(in_first_file(content=1)),
    ),
}


@pytest.mark.parametrize("options", [("--dry-run",), ()])
@pytest.mark.parametrize("what", UNMOVABLE)
def test_r061_r063_manifests_that_would_change_their_meaning_are_refused(
    tmp_path, rewrite, what, options
):
    table = build(tmp_path / "t", 2)
    code, message, damage = UNMOVABLE[what]
    damage(Broken(tmp_path / "t"))
    before = head(tmp_path / "t")
    ended = rewrite(table.location, *options)
    assert (ended.code, message in ended.err) == (code, True), ended.err
    assert head(tmp_path / "t") == before


def test_r053_partitions_end_up_together_and_are_summarised(tmp_path, rewrite):
    table = TableBuilder(tmp_path / "t", partitioning="identity")
    for start in range(0, 120, 12):
        table.append(range(start, start + 12), files=4)
    assert rewrite(table.location, "--target-size", "6KB").code == 0
    manifests = read_avro(head(tmp_path / "t")["manifest-list"])
    assert len(manifests) > 2
    ranges = []
    for manifest in manifests:
        values = sorted(
            entry["data_file"]["partition"]["category"]
            for entry in read_avro(manifest["manifest_path"])
        )
        (summary,) = manifest["partitions"]
        bounds = summary["lower_bound"].decode(), summary["upper_bound"].decode()
        assert bounds == (values[0], values[-1])
        assert summary["contains_null"] is False
        ranges.append(bounds)
    assert all(one[1] <= other[0] for one, other in pairwise(sorted(ranges)))
    assert rewrite(table.location, "--target-size", "6KB", "--check").code == 0


def test_r056_manifests_without_live_entries_are_dropped(tmp_path, rewrite):
    table = filled_table(tmp_path / "t", range(4), range(4, 8))
    table.remove_data_files(1)
    before = rows_by_snapshot(tmp_path / "t")[head(tmp_path / "t")["snapshot-id"]]
    found = result(rewrite(table.location, "--json"))
    assert (found["rewritten"], found["added"], found["entries"]) == (2, 1, 1)
    assert rows_by_snapshot(tmp_path / "t")[head(tmp_path / "t")["snapshot-id"]] == before


def test_a_table_without_snapshot_has_nothing_to_do(tmp_path, rewrite):
    ended = rewrite(TableBuilder(tmp_path / "empty").location, "--json")
    assert (ended.code, ended.document["status"]) == (0, "nothing-to-do")


def test_text_names_groups_and_reasons(tmp_path, rewrite):
    table = build(tmp_path / "t", 2)
    lines = rewrite(table.location, "--dry-run").out.splitlines()
    assert lines[0].split() == ["spec", "content", "rewrite", "keep", "entries", "reason"]
    assert "partitions are spread over" in lines[1]
    assert lines[-1].endswith("; 0 stay")
    assert "became" in rewrite(table.location).out
    assert rewrite(table.location).out == (
        "nothing to do: no manifest group meets the thresholds\n"
    )


def test_text_names_manifests_below_the_table(tmp_path, rewrite):
    table = build(tmp_path / "t", 2)
    planned = json.loads(rewrite(table.location, "--dry-run", "--json").out)["result"]
    paths = planned["manifests_rewritten"]
    assert all(path.startswith(f"{table.location}/metadata/") for path in paths)
    shown = [line.split()[0] for line in rewrite(table.location, "-n").out.splitlines() if line]
    begin = shown.index("manifest") + 1
    names = [f"metadata/{Path(path).name}" for path in paths]
    assert shown[begin : begin + len(paths)] == names


def test_a_table_without_partitions_has_none_that_are_spread(tmp_path, rewrite):
    reason = rewrite(build(tmp_path / "t", 2, "none").location, "--dry-run").out.splitlines()[1]
    assert re.search(r" entries are spread over \d+ places$", reason), reason


def test_documents_of_a_dry_run_and_a_run_have_the_same_keys(tmp_path, rewrite):
    table = build(tmp_path / "t", 1)
    planned = json.loads(rewrite(table.location, "--dry-run", "--json").out)
    done = json.loads(rewrite(table.location, "--json").out)
    assert planned["result"].keys() == done["result"].keys()
    assert done["table"]["metadata_location_after"].endswith(".metadata.json")
