"""What a lost manifest had in it, as the footers of its files prove it: just that, or nothing."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from icectl.commands.repair import lost as lost_manifests
from icectl.commands.repair.lost import entries_by_footers, proven_partition
from icectl.entries.partition_key import encode_key
from icectl.errors import Incomplete
from icectl.files.parquet.metrics import FileMetrics
from icectl.format.manifest import FieldSummary, ManifestContent, ManifestFile
from icectl.format.partition import PartitionField, PartitionSpec
from icectl.format.single_value import encode
from icectl.format.transforms import parse_transform
from icectl.format.types import PrimitiveType
from icectl.storage.local.store import LocalStore
from tests.builders.data_files import identified, schema
from tests.builders.lost_manifests import (
    Failing,
    date_files,
    listed,
    lose,
    manifest_of,
    reader_of,
    relist,
    with_snapshot,
)
from tests.builders.table_builder import TableBuilder
from tests.stores.fixed_env import FixedEnv
from tests.stores.wrapped import WrappedStore


def proven(type_: str, transform: str, least: Any, greatest: Any, **told: Any) -> bytes | None:
    """What is proved of a file of four rows whose column ranges so."""
    kind = PrimitiveType(type_)
    facts: dict[str, Any] = {
        "value_counts": {3: 4},
        "null_value_counts": {3: 0},
        "lower_bounds": {3: encode(kind, least)},
        "upper_bounds": {3: encode(kind, greatest)},
    }
    spec = PartitionSpec(1, (PartitionField((3,), 1000, "p", parse_transform(transform)),))
    return proven_partition(spec, schema((3, "c", type_)), FileMetrics(4, **(facts | told)))


def key(type_: str, value: Any) -> bytes:
    return encode_key([PrimitiveType(type_)], [value])


@pytest.mark.parametrize(
    ("type_", "transform", "least", "greatest", "expected"),
    [
        ("int", "identity", 7, 7, key("int", 7)),
        ("int", "identity", 7, 8, None),
        ("string", "identity", "a", "a", key("string", "a")),
        ("string", "identity", "a", "b", None),
        ("int", "truncate[10]", -10, -1, key("int", -10)),
        ("int", "truncate[10]", -1, 0, None),
        ("string", "truncate[2]", "abc", "abz", key("string", "ab")),
        ("string", "truncate[2]", "abc", "acc", None),
        ("date", "year", 0, 364, key("int", 0)),
        ("date", "year", -1, 0, None),
        ("timestamp", "hour", 0, 3_599_999_999, key("int", 0)),
        ("timestamp", "hour", -1, 0, None),
        ("timestamp", "day", -1, -1, key("date", -1)),
        ("int", "bucket[16]", 34, 34, key("int", 3)),  # hashes to 2017239379, as the format says
        ("int", "bucket[1]", 34, 35, None),
        ("int", "void", 1, 2, key("int", None)),
        ("double", "identity", 1.0, 1.0, None),
        ("float", "identity", 1.0, 1.0, None),
        ("boolean", "truncate[2]", True, True, None),
    ],
)
def test_a_partition_is_sure_where_all_values_are_between_two_of_it(
    type_, transform, least, greatest, expected
):
    assert proven(type_, transform, least, greatest) == expected


@pytest.mark.parametrize(
    ("told", "is_null"),
    [
        ({"null_value_counts": {3: 4}}, True),
        ({"null_value_counts": {3: 4}, "lower_bounds": {}, "upper_bounds": {}}, True),
        ({"null_value_counts": {3: 1}}, False),
        ({"null_value_counts": {}}, False),
        ({"null_value_counts": {3: 3}, "value_counts": {3: 3}}, False),
        ({"null_value_counts": {3: 4}, "value_counts": {}}, False),
        ({"lower_bounds": {}}, False),
        ({"upper_bounds": {}}, False),
    ],
)
def test_nulls_are_a_partition_only_where_all_are(told, is_null):
    assert proven("int", "identity", 7, 7, **told) == (key("int", None) if is_null else None)


def test_a_partition_without_fields_is_that_of_every_file():
    assert proven_partition(PartitionSpec(0, ()), schema(), FileMetrics(4)) == b""


def test_columns_that_the_table_has_no_more_prove_nothing():
    spec = PartitionSpec(1, (PartitionField((9,), 1000, "p", parse_transform("identity")),))
    assert proven_partition(spec, schema((3, "c", "int")), FileMetrics(4)) is None


def test_a_partition_of_several_columns_is_never_sure():
    seven = {3: encode(PrimitiveType("int"), 7)}
    told = FileMetrics(4, {}, {3: 4}, {3: 0}, {}, seven, seven)
    for ids, expected in (((3,), key("int", 7)), ((3, 4), None)):
        spec = PartitionSpec(1, (PartitionField(ids, 1000, "p", parse_transform("identity")),))
        assert proven_partition(spec, schema((3, "c", "int")), told) == expected


@dataclass
class Lost:
    """A table whose second snapshot's manifest is lost, and what its list and summary tell.

    The first snapshot has one file, the third one too.
    """

    table: TableBuilder
    manifest: ManifestFile
    summary: dict[str, str] | None
    is_dated: bool = True
    snapshot: dict[str, Any] = field(default_factory=dict)
    """What else the second snapshot tells."""

    @property
    def files(self) -> list[Path]:
        """The files of the lost manifest."""
        return sorted(Path(row["location"]) for row in self.rows)

    @property
    def rows(self) -> list[dict[str, Any]]:
        by = self.manifest.added_snapshot_id
        return [row for row in self.table.live() if row["snapshot_id"] == by]

    def proven(self, **options: Any) -> list[dict[str, Any]] | None:
        """What is proved, by column."""
        by = self.manifest.added_snapshot_id
        metadata = with_snapshot(
            self.table.metadata, by or 0, summary=self.summary, **self.snapshot
        )
        if self.is_dated:
            date_files(self.table)
        found = entries_by_footers(
            reader_of(self.table, metadata=metadata, **options), self.manifest
        )
        return None if found is None else found.table.to_pylist()

    def tell(self, **counts: int) -> None:
        """Correct what the list and the summary say of files, rows and bytes."""
        names = {"files": "added-data-files", "rows": "added-records", "bytes": "added-files-size"}
        assert self.summary is not None
        self.summary |= {names[name]: str(count) for name, count in counts.items()}
        if "rows" in counts:
            self.manifest = replace(self.manifest, added_rows_count=counts["rows"])

    def store(self, rows: pa.Table, path: Path | None = None) -> None:
        """Put other rows into the place of the last file, or into another one, and tell so."""
        place = path or self.files[-1]
        pq.write_table(rows, place)
        others = [row for row in self.rows if row["location"] != str(self.files[-1])]
        self.tell(
            rows=rows.num_rows + sum(row["record_count"] for row in others),
            bytes=place.stat().st_size + sum(row["file_size_in_bytes"] for row in others),
        )


def losing(directory: Path, *, files: int = 2, **options: Any) -> Lost:
    table = TableBuilder(directory, **options)
    table.append([0, 3, 6])
    by = table.append([9, 12, 15], files=files)
    table.append([18])
    rows = [row for row in table.live() if row["snapshot_id"] == by]
    assert sum(row["record_count"] for row in rows) == 3
    summary = {
        "operation": "append",
        "added-data-files": str(files),
        "added-records": "3",
        "added-files-size": str(sum(Path(row["location"]).stat().st_size for row in rows)),
    }
    return Lost(table, lose(manifest_of(table, by)), summary)


@pytest.fixture
def lost(tmp_path: Path) -> Lost:
    """Two files, of two rows and one, of partition `c0`."""
    return losing(tmp_path / "t", partitioning="identity")


def test_files_that_no_manifest_lists_are_those_of_the_lost_one(lost):
    found = lost.proven()
    assert found is not None
    of_both = {
        "content": 0, "status": 0, "file_format": 3, "spec_id": 0,
        "partition_key": key("string", "c0"), "snapshot_id": lost.manifest.added_snapshot_id,
        "sequence_number": 2, "file_sequence_number": 2, "first_row_id": None, "manifest": 0,
        "manifest_pos": 0,
    }  # fmt: skip
    long = PrimitiveType("long")
    for row, path, ids in zip(found, lost.files, ([9, 12], [15]), strict=True):
        assert {name: row[name] for name in of_both} == of_both
        assert (row["location"], row["record_count"]) == (str(path), len(ids))
        assert row["file_size_in_bytes"] == path.stat().st_size
        assert dict(row["value_counts"]) == dict.fromkeys(range(1, 6), len(ids))
        assert dict(row["lower_bounds"])[1] == encode(long, ids[0])
        assert dict(row["upper_bounds"])[1] == encode(long, ids[-1])


def test_entries_have_the_metrics_that_the_table_asks_for(tmp_path):
    """And so none of bounds that readers take in different ways."""
    lost = losing(tmp_path / "t", properties={"write.metadata.metrics.column.id": "counts"})
    found = lost.proven()
    assert found is not None
    assert all(1 in dict(row["value_counts"]) for row in found)
    assert all(1 not in dict(row["lower_bounds"]) for row in found)
    assert all(3 in dict(row["lower_bounds"]) for row in found)


def test_r045_in_version_3_one_file_has_the_first_row_id_of_its_manifest(tmp_path):
    lost = losing(tmp_path / "t", files=1, format_version=3)
    assert lost.manifest.first_row_id == 3
    found = lost.proven()
    assert found is not None
    assert [(row["first_row_id"], row["record_count"]) for row in found] == [(3, 3)]


def test_r045_row_ids_of_several_files_hang_on_their_order(tmp_path):
    assert losing(tmp_path / "t", files=2, format_version=3).proven() is None


@pytest.mark.parametrize(
    "told",
    [
        {"added_snapshot_id": None}, {"added_snapshot_id": 99}, {"partition_spec_id": 7},
        {"content": ManifestContent.DELETES}, {"existing_files_count": 1},
        {"existing_files_count": None}, {"deleted_files_count": 1},
        {"existing_files_count": 1, "deleted_files_count": 1},
        {"existing_files_count": None, "deleted_files_count": None}, {"added_files_count": None},
        {"added_files_count": 1}, {"added_files_count": 3}, {"added_rows_count": None},
        {"added_rows_count": 2}, {"added_rows_count": 4}, {"min_sequence_number": 1},
    ],
)  # fmt: skip
def test_a_manifest_of_anything_but_new_data_files_is_not_proved(lost, told):
    lost.manifest = replace(lost.manifest, **told)
    assert lost.proven() is None


@pytest.mark.parametrize("name", ["added-data-files", "added-records", "added-files-size"])
def test_the_summary_has_to_tell_the_same(lost, name):
    right = dict(lost.summary or {})
    for other in (str(int(right[name]) - 1), str(int(right[name]) + 1), None):
        lost.summary = right | {name: other} if other else {**right}
        if other is None:
            del lost.summary[name]
        assert lost.proven() is None


@pytest.mark.parametrize(("count", "is_proved"), [("0", True), ("1", False)])
def test_a_snapshot_that_added_deletes_told_of_their_bytes_too(lost, count, is_proved):
    lost.summary = (lost.summary or {}) | {"added-delete-files": count}
    assert (lost.proven() is not None) is is_proved


def test_nothing_is_proved_without_a_summary(lost):
    lost.summary = None
    assert lost.proven() is None


@pytest.mark.parametrize("count", [0, None])
def test_a_manifest_without_new_files_is_not_proved(lost, count):
    for path in lost.files:
        path.unlink()
    lost.tell(files=0, rows=0, bytes=0)
    lost.manifest = replace(lost.manifest, added_files_count=count)
    assert lost.proven() is None


@pytest.mark.parametrize("at", [0, 2])
def test_all_lists_and_all_other_manifests_have_to_be_whole(lost, at):
    snapshot = lost.table.metadata.snapshots[at]
    own = manifest_of(lost.table, snapshot.snapshot_id).manifest_path
    for place in (own, str(snapshot.manifest_list)):
        content = Path(place).read_bytes()
        Path(place).write_bytes(content[:-8])
        assert lost.proven() is None
        Path(place).write_bytes(content)
    assert lost.proven() is not None


def test_a_file_that_a_manifest_names_as_removed_is_known(tmp_path):
    lost = losing(tmp_path / "t")
    lost.table.remove_data_files(1)
    (removing,) = [
        one
        for one in listed(lost.table, lost.table.metadata.snapshots[-1].snapshot_id)
        if one.deleted_files_count
    ]
    assert lost.proven() is not None
    lose(removing)
    assert lost.proven() is None


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        ("data/x.parquet", True), ("data/deeper/x.parquet", True), ("x.parquet", True),
        ("data/x.orc", True), ("data/x.avro", True), ("data/x.txt", False),
        ("data/.x.parquet", False), ("data/_x.parquet", False), ("metadata/x.parquet", False),
        ("metadata/x.avro", False),
    ],
)  # fmt: skip
def test_any_other_file_that_may_hold_rows_spoils_the_proof(lost, name, is_one):
    path = lost.table.directory / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(lost.files[0].read_bytes())
    assert (lost.proven() is None) is is_one


COLUMNS = (identified("id", pa.int64(), 1), identified("category", pa.string(), 2))


def test_other_rows_of_one_partition_are_proved_where_all_tell_of_them(lost):
    lost.store(pa.table([[1, 2], ["c5", "c5"]], schema=pa.schema(COLUMNS)))
    assert lost.proven() is None
    text = PrimitiveType("string")
    told = FieldSummary(False, None, encode(text, "c0"), encode(text, "c5"))
    lost.manifest = replace(lost.manifest, partitions=(told,))
    found = lost.proven()
    assert found is not None
    assert [row["partition_key"] for row in found] == [key("string", one) for one in ("c0", "c5")]


@pytest.mark.parametrize(
    ("rows", "partitioning"),
    [
        pytest.param(
            pa.table([[1, 2], ["c5", "c6"]], schema=pa.schema(COLUMNS)), "identity", id="partitions"
        ),
        pytest.param(pa.table({"id": [1, 2]}), "none", id="no ids"),
        pytest.param(
            pa.table([[1], [2]], schema=pa.schema([COLUMNS[0], identified("x", pa.int64(), 99)])),
            "none",
            id="another table",
        ),
    ],
)
def test_files_of_no_sure_partition_or_of_other_columns_prove_nothing(tmp_path, rows, partitioning):
    lost = losing(tmp_path / "t", partitioning=partitioning)
    lost.store(rows)
    assert lost.proven() is None


def test_one_file_that_proves_nothing_leaves_nothing_of_the_others(lost):
    first, last = lost.files
    last.write_bytes(b"PAR1")
    lost.tell(files=1, rows=2, bytes=first.stat().st_size)
    assert lost.proven() is None


@pytest.mark.parametrize("ending", [".avro", ".orc"])
def test_formats_that_tell_of_no_columns_prove_nothing(tmp_path, ending):
    lost = losing(tmp_path / "t", files=1)
    (path,) = lost.files
    path.rename(path.with_suffix(ending))
    assert lost.proven() is None


@pytest.mark.parametrize(
    ("ms", "is_proved"),
    [(-120_001, False), (-120_000, True), (0, True), (60_000, True), (60_001, False)],
)
def test_a_file_is_of_the_commit_where_it_is_of_its_time(tmp_path, ms, is_proved):
    """The snapshot before is a minute older, and clocks differ by a minute."""
    lost = losing(tmp_path / "t", files=1)
    lost.is_dated = False
    (path,) = lost.files
    assert lost.proven() is None  # it is of today
    wrote = lost.table.metadata.snapshot(lost.manifest.added_snapshot_id or 0)
    assert wrote is not None
    at = (wrote.timestamp_ms + ms) * 1_000_000
    os.utime(path, ns=(at, at))
    assert (lost.proven() is not None) is is_proved


@pytest.mark.parametrize(("ms", "is_proved"), [(-10 * 365 * 86_400_000, True), (60_001, False)])
def test_a_file_of_the_first_snapshot_is_of_any_time_before(tmp_path, ms, is_proved):
    lost = losing(tmp_path / "t", files=1)
    lost.is_dated, lost.snapshot = False, {"parent_snapshot_id": None}
    wrote = lost.table.metadata.snapshot(lost.manifest.added_snapshot_id or 0)
    assert wrote is not None
    os.utime(lost.files[0], ns=((wrote.timestamp_ms + ms) * 1_000_000,) * 2)
    assert (lost.proven() is not None) is is_proved


def test_a_file_without_a_time_may_be_of_any_commit(lost):
    class Timeless(WrappedStore):
        def list(self, location: str) -> Iterator[pa.RecordBatch]:
            for batch in self.store.list(location):
                at = batch.schema.get_field_index("modified_ms")
                unknown = pa.nulls(len(batch), pa.int64())
                yield batch.set_column(at, batch.schema.field(at), unknown)

    assert lost.proven() is not None
    assert lost.proven(store=Timeless(LocalStore())) is None


def test_every_file_has_to_be_of_the_commit(lost):
    date_files(lost.table)
    lost.is_dated = False
    assert lost.proven() is not None
    os.utime(lost.files[1])
    assert lost.proven() is None


def test_without_ranges_of_partitions_none_are_compared(tmp_path, monkeypatch):
    """Lists need not tell any, and of some UUIDs none can be told."""
    lost = losing(tmp_path / "t")
    lost.manifest = replace(lost.manifest, partitions=None)
    assert lost.proven() is not None
    monkeypatch.setattr(lost_manifests, "field_summaries", lambda *_: None)
    assert lost.proven() is not None


@pytest.mark.parametrize("is_same", [True, False])
def test_a_file_with_the_uuid_of_the_manifest_is_of_the_commit(tmp_path, is_same):
    lost = losing(tmp_path / "t", files=1)
    lost.is_dated = False
    (path,) = lost.files
    uuids = "5b1d0f3c-1b7e-4a57-9d5c-0c1d2e3f4a5b", "5b1d0f3c-1b7e-4a57-9d5c-000000000000"
    path.rename(path.with_name(f"00000-0-{uuids[0]}.parquet"))
    named = f"{tmp_path}/t/metadata/{uuids[not is_same]}-m0.avro"
    before, lost.manifest = lost.manifest, replace(lost.manifest, manifest_path=named)
    for snapshot in lost.table.metadata.snapshots[1:]:
        now = [
            lost.manifest if one.manifest_path == before.manifest_path else one
            for one in listed(lost.table, snapshot.snapshot_id)
        ]
        relist(lost.table, snapshot.snapshot_id, now)
    assert (lost.proven() is not None) is is_same


def test_a_file_that_goes_meanwhile_proves_nothing(lost):
    store = Failing("open", str(lost.files[1]), FileNotFoundError())
    assert lost.proven(store=store) is None


def test_the_time_limit_ends_the_search_before_the_listing_and_in_it(lost):
    env = FixedEnv()

    class Slow(WrappedStore):
        def call(self, method: str, location: str, action: Callable[[], Any]) -> Any:
            if method == "list":
                assert env.monotonic_seconds() == 0
                env.sleep(10)
            return action()

    slow = Slow(LocalStore())
    with pytest.raises(Incomplete):
        lost.proven(store=slow, env=env, ends_at_seconds=5)
    assert env.slept == [10]
    with pytest.raises(Incomplete):
        lost.proven(store=slow, env=env, ends_at_seconds=5)
