"""`icectl migrate-v1-v2` from the command line: what changes, what stays, what is refused."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fastavro
import pytest

from icectl.cli import session
from icectl.env import Env
from icectl.errors import StorageError
from icectl.storage.local.store import LocalStore
from tests.builders.expiry import NOW_MS
from tests.builders.first_writers import as_first_writers_did
from tests.builders.orphans import edit_metadata
from tests.builders.rows import current_metadata, read_avro, read_metadata, rows_by_snapshot
from tests.builders.table_builder import PARTITIONINGS, TableBuilder, filled_table
from tests.cli.conftest import Run, result
from tests.stores.fixed_env import FixedEnv
from tests.stores.wrapped import ReadOnlyStore, WrappedStore


@pytest.fixture
def migrate(prepared: Callable[[str, Env], Run]) -> Run:
    """Run `icectl migrate-v1-v2`."""
    return prepared("migrate-v1-v2", FixedEnv(NOW_MS))


def build(directory: Path, partitioning: str = "two") -> TableBuilder:
    table = TableBuilder(directory, format_version=1, partitioning=partitioning)
    for start in range(0, 36, 12):
        table.append(range(start, start + 12))
    table.ref("eoy", "tag")
    table.remove_data_files(2)
    return table


@pytest.mark.by_turns(2)
@pytest.mark.parametrize("rewrite", [False, True])
@pytest.mark.parametrize("partitioning", PARTITIONINGS)
def test_a_migration_keeps_the_law(tmp_path, migrate, monkeypatch, partitioning, rewrite):
    directory = tmp_path / "t"
    table = build(directory, partitioning)
    before = rows_by_snapshot(directory)
    as_first_writers_did(directory)
    old = current_metadata(directory)
    more = ["--rewrite-manifests"] if rewrite else []

    with monkeypatch.context() as patch:
        patch.setattr(session, "open_store", lambda *_: ReadOnlyStore(LocalStore()))
        planned = migrate(table.location, "--dry-run", "--json", *more)
    assert (planned.code, planned.document["status"]) == (0, "planned")
    done = migrate(table.location, "--yes", "--json", *more)
    assert (done.code, done.document["status"]) == (0, "done")
    found = result(done)
    assert {**found, "snapshot_id": None} == result(planned)
    assert old.exists()

    after = rows_by_snapshot(directory)
    assert {id_: after[id_] for id_ in before} == before
    new = read_metadata(current_metadata(directory))
    assert new["format-version"] == 2
    head = next(s for s in new["snapshots"] if s["snapshot-id"] == new["current-snapshot-id"])
    assert after[head["snapshot-id"]] == before[table.metadata.current_snapshot_id]
    assert (found["snapshot_id"] == str(head["snapshot-id"])) is rewrite
    assert migrate(table.location, "--check").code == 0
    checked = migrate(
        table.location, "--level", "data", "--all-snapshots", "--json", command="validate"
    )
    errors = [one for one in checked.document["result"]["findings"] if one["severity"] == "error"]
    assert errors == []


def test_r170_r173_the_metadata_has_every_member_of_version_2(tmp_path, migrate):
    table = build(tmp_path / "t")
    as_first_writers_did(tmp_path / "t")
    assert migrate(table.location, "--yes").code == 0
    new = read_metadata(current_metadata(tmp_path / "t"))
    assert "schema" not in new
    assert "partition-spec" not in new
    assert len(new["table-uuid"]) == 36
    assert new["last-sequence-number"] == 0
    assert [schema["schema-id"] for schema in new["schemas"]] == [0] == [new["current-schema-id"]]
    (spec,) = new["partition-specs"]
    assert [field["field-id"] for field in spec["fields"]] == [1000, 1001]
    assert (spec["spec-id"], new["default-spec-id"], new["last-partition-id"]) == (0, 0, 1001)
    assert new["sort-orders"] == [{"order-id": 0, "fields": []}]
    assert new["default-sort-order-id"] == 0
    assert {snapshot["sequence-number"] for snapshot in new["snapshots"]} == {0}
    assert set(new["refs"]) == {"main", "eoy"}


def test_r055_r171_embedded_manifests_get_a_list_with_counts(tmp_path, migrate):
    table = build(tmp_path / "t")
    as_first_writers_did(tmp_path / "t")
    embedded = {
        snapshot["snapshot-id"]: snapshot.get("manifests")
        for snapshot in read_metadata(current_metadata(tmp_path / "t"))["snapshots"]
    }
    assert migrate(table.location, "--yes").code == 0
    for snapshot in read_metadata(current_metadata(tmp_path / "t"))["snapshots"]:
        assert "manifests" not in snapshot
        listed = read_avro(snapshot["manifest-list"])
        expected = embedded[snapshot["snapshot-id"]]
        if expected is None:
            continue
        assert [manifest["manifest_path"] for manifest in listed] == expected
        for manifest in listed:
            entries = read_avro(manifest["manifest_path"])
            added = [entry for entry in entries if entry["status"] == 1]
            assert manifest["added_files_count"] == len(added)
            assert manifest["added_rows_count"] == sum(
                entry["data_file"]["record_count"] for entry in added
            )
            assert (manifest["sequence_number"], manifest["min_sequence_number"]) == (0, 0)
            assert manifest["content"] == 0


def manifest_versions(directory: Path) -> set[str]:
    """What the manifests of the current snapshot say."""
    new = read_metadata(current_metadata(directory))
    head = next(s for s in new["snapshots"] if s["snapshot-id"] == new["current-snapshot-id"])
    found = set()
    for manifest in read_avro(head["manifest-list"]):
        with Path(manifest["manifest_path"]).open("rb") as file:
            found.add(fastavro.reader(file).metadata["format-version"])
    return found


@pytest.mark.parametrize("version", [2, 3])
def test_r172_what_a_killed_run_has_not_rewritten_the_next_one_rewrites(tmp_path, migrate, version):
    """A run that was killed between its commits leaves what one without the option leaves."""
    table = build(tmp_path / "t")
    before = rows_by_snapshot(tmp_path / "t")
    assert migrate(table.location, "--yes").code == 0
    if version == 3:
        edit_metadata(tmp_path / "t", format_version=3, next_row_id=0)
    assert manifest_versions(tmp_path / "t") == {"1"}
    again = (table.location, "--rewrite-manifests")
    assert migrate(*again, "--check").code == 4
    ended = migrate(*again, "--yes", "--json")
    assert (ended.code, ended.document["status"]) == (0, "done")
    (step,) = result(ended)["steps"]
    assert (step["step"], step["detail"]) == (
        "rewrite-manifests",
        "the manifests of the current snapshot are rewritten; version 1 have 3",
    )
    assert (result(ended)["from_version"], result(ended)["legacy_manifests"]) == (version, 0)
    assert manifest_versions(tmp_path / "t") == {str(version)}
    assert rows_by_snapshot(tmp_path / "t").items() >= before.items()
    ended = migrate(*again, "--yes", "--json")
    assert (ended.code, ended.document["status"]) == (0, "nothing-to-do")


def test_r172_rewritten_manifests_are_of_version_2(tmp_path, migrate):
    table = build(tmp_path / "t")
    found = result(migrate(table.location, "--yes", "--rewrite-manifests", "--json"))
    assert found["legacy_manifests"] == 0
    new = read_metadata(current_metadata(tmp_path / "t"))
    head = next(s for s in new["snapshots"] if s["snapshot-id"] == new["current-snapshot-id"])
    for manifest in read_avro(head["manifest-list"]):
        with Path(manifest["manifest_path"]).open("rb") as file:
            reader = fastavro.reader(file)
            properties, schema = dict(reader.metadata), reader.writer_schema
        named = ("schema-id", "partition-spec-id", "format-version", "content")
        assert [properties[name] for name in named] == ["0", "0", "2", "data"]
        assert isinstance(schema, dict)
        fields = {field["name"]: field["type"] for field in schema["fields"]}
        assert fields["snapshot_id"] == ["null", "long"]
        data_file = {field["name"]: field["type"] for field in fields["data_file"]["fields"]}
        assert data_file["content"] == "int"
        assert {"block_size_in_bytes", "file_ordinal", "sort_columns"} & data_file.keys() == set()


@pytest.mark.parametrize("version", [2, 3])
def test_a_table_of_a_higher_version_has_nothing_to_do(tmp_path, migrate, version):
    table = filled_table(tmp_path / "t", range(3), format_version=version)
    ended = migrate(table.location, "--json")
    found = result(ended)
    assert (ended.code, found["steps"]) == (0, [])
    assert (found["from_version"], found["to_version"]) == (version, version)


def test_r007_an_unknown_transform_in_the_default_spec_is_refused(tmp_path, migrate):
    table = build(tmp_path / "t")
    manifests = (tmp_path / "t" / "metadata").glob("*-m*.avro")
    for path in (current_metadata(tmp_path / "t"), *manifests):
        content = path.read_bytes()  # "identity" is as long, in headers of Avro too
        assert b'"identity"' in content
        path.write_bytes(content.replace(b'"identity"', b'"curve[7]"'))
    refused = migrate(table.location, "--yes")
    assert refused.code == 5
    assert "(R-007)" in refused.err
    checked = migrate(table.location, "--check", "--json")
    assert (checked.code, checked.document["status"]) == (5, "refused")
    assert [one["rule"] for one in result(checked)["findings"]] == ["R-007"]


def test_r061_a_manifest_of_other_partition_fields_is_refused_and_named_once(tmp_path, migrate):
    table = build(tmp_path / "t")
    path = current_metadata(tmp_path / "t")
    path.write_bytes(path.read_bytes().replace(b'"identity"', b'"void"'))
    refused = migrate(table.location, "--yes")
    assert refused.code == 5
    assert "(R-061)" in refused.err
    assert refused.err.splitlines()[0].count(".avro`: ") == 1


def test_r066_a_file_that_is_live_twice_is_refused(tmp_path, migrate):
    table = filled_table(tmp_path / "t", range(4), format_version=1)
    path = current_metadata(tmp_path / "t")
    members = read_metadata(path)
    (snapshot,) = members["snapshots"]
    manifest = read_avro(snapshot.pop("manifest-list"))[0]["manifest_path"]
    copy = manifest.replace(".avro", "-copy.avro")
    Path(copy).write_bytes(Path(manifest).read_bytes())
    snapshot["manifests"] = [manifest, copy]
    path.write_text(json.dumps(members))
    refused = migrate(table.location, "--yes")
    assert refused.code == 5
    assert "(R-066)" in refused.err


Damage = Callable[[Path], object]
UNREADABLE: dict[str, tuple[Damage, str]] = {
    "a damaged file": (lambda path: path.write_bytes(b"Obj\x01"), "R-008"),
    "a missing file": (lambda path: path.unlink(), "R-034"),
}


@pytest.mark.parametrize("of", ["a list", "a manifest", "an embedded manifest"])
@pytest.mark.parametrize("damage", UNREADABLE)
def test_a_table_that_cannot_be_read_is_refused_with_the_rule(tmp_path, migrate, damage, of):
    """Its heads have to be readable, and what no head shows where it has to be counted."""
    table = build(tmp_path / "t")
    first, current = table.metadata.snapshots[0], table.metadata.current_snapshot
    assert current is not None
    assert first.manifest_list is not None
    assert current.manifest_list is not None
    read = first if of == "an embedded manifest" else current
    location = read.manifest_list or ""
    if of != "a list":
        location = read_avro(location)[-1]["manifest_path"]
    if of == "an embedded manifest":
        as_first_writers_did(tmp_path / "t", embedding=1)
    breaks, rule = UNREADABLE[damage]
    breaks(Path(location))
    files = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    checked = migrate(table.location, "--check", "--json")
    assert (checked.code, checked.document["status"]) == (5, "refused")
    found = result(checked)["findings"]
    assert (rule, f"snapshot {read.snapshot_id}") in [
        (one["rule"], one["subject"]) for one in found
    ]
    assert all(location in one["message"] for one in found)
    refused = migrate(table.location, "--yes")
    assert refused.code == 5
    assert location in refused.err
    assert f"({rule})" in refused.err
    assert files == {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}


def test_a_store_that_is_ill_is_no_reason_to_refuse(tmp_path, migrate, monkeypatch):
    table = build(tmp_path / "t")
    current = table.metadata.current_snapshot
    assert current is not None
    with monkeypatch.context() as patch:
        patch.setattr(session, "open_store", lambda *_: IllStore(current.manifest_list or ""))
        assert migrate(table.location, "--check").code == 13
    assert migrate(table.location, "--check").code == 4


class IllStore(WrappedStore):
    """Does not get at one file now."""

    def __init__(self, location: str) -> None:
        super().__init__(LocalStore())
        self.location = location

    def call(self, method: str, location: str, action: Callable[[], Any]) -> Any:
        if location == self.location:
            raise StorageError("no answer")
        return action()


@pytest.mark.parametrize("partitioning", ["none", "two"])
def test_r010_what_early_writers_left_out_is_written(tmp_path, migrate, partitioning):
    """No ids, no refs, no logs: the defaults, as the format's appendix has them."""
    table = build(tmp_path / "t", partitioning)
    as_first_writers_did(tmp_path / "t")
    path = current_metadata(tmp_path / "t")
    old = read_metadata(path)
    for name in ("refs", "snapshot-log", "metadata-log"):
        del old[name]
    path.write_text(json.dumps(old))
    assert migrate(table.location, "--yes").code == 0
    new = read_metadata(current_metadata(tmp_path / "t"))
    fields = {"none": [], "two": [("category", 1000), ("id_bucket", 1001)]}[partitioning]
    (spec,) = new["partition-specs"]
    assert [(field["name"], field["field-id"]) for field in spec["fields"]] == fields
    assert new["last-partition-id"] == (1001 if fields else 999)
    assert new["refs"] == {"main": {"snapshot-id": old["current-snapshot-id"], "type": "branch"}}
    assert [entry["metadata-file"] for entry in new["metadata-log"]] == [str(path)]
    same = ("location", "last-column-id", "current-snapshot-id", "properties")
    assert {name: new[name] for name in same} == {name: old[name] for name in same}
    assert new["schemas"] == [old["schema"] | {"schema-id": 0}]


def test_the_plan_says_what_is_lost(tmp_path, migrate):
    text = migrate(build(tmp_path / "t").location, "--dry-run").out
    assert "upgrade-format-version" in text
    assert "this cannot be undone" in text
    assert "readers that know version 1 only" in text
