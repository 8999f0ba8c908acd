"""Verdicts of the health view: what commands would do, with figures worked out by hand."""

from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest

from icectl.cli.settings import resolve
from icectl.commands.inspect.health import health
from icectl.commands.inspect.health_plan import HealthVerdict, MeasureLimits
from icectl.commands.sight import Sight
from icectl.entries.partition_key import encode_key
from icectl.entries.rows import CARRIED, EMPTY, PLANNING, Entries
from icectl.format.manifest import Content, FileFormat, ManifestContent, ManifestFile, Status
from icectl.format.partition import PartitionField, PartitionSpec
from icectl.format.schema import Schema
from icectl.format.snapshot import MetadataLogEntry, Snapshot
from icectl.format.transforms import parse_transform
from icectl.format.types import NestedField, PrimitiveType
from icectl.storage.store import FileStatus
from icectl.table.context import TableContext
from icectl.table.reader import Reader, SnapshotChoice
from tests.builders.plain_metadata import plain_metadata

INT = PrimitiveType("int")
MIB = 2**20
SPEC = PartitionSpec(0, (PartitionField((1,), 1000, "region", parse_transform("identity")),))
SNAPSHOT = Snapshot(
    7, 1_750_000_000_000, sequence_number=9, manifest_list="/t/metadata/snap-7.avro"
)
METADATA = plain_metadata(
    Schema(0, (NestedField(1, "region", INT, required=False),)),
    SPEC,
    table_uuid="9c12d441-03fe-4693-9a96-a0705ddf69c1",
    last_sequence_number=9,
    last_updated_ms=1_750_000_000_000,
    snapshots=(SNAPSHOT,),
    current_snapshot_id=7,
    metadata_log=(MetadataLogEntry(1, "/t/metadata/v1.metadata.json"),),
    properties={"write.target-file-size-bytes": str(100 * MIB)},
)


def row(location: str, region: int, size: int, **more: object) -> dict[str, object]:
    """A live data file of 100 rows, unless `more` says otherwise."""
    return {
        "content": int(Content.DATA), "status": int(Status.ADDED), "location": location,
        "file_format": int(FileFormat.PARQUET), "spec_id": 0,
        "partition_key": encode_key((INT,), (region,)), "record_count": 100,
        "file_size_in_bytes": size, "snapshot_id": 7, "sequence_number": 1,
        "file_sequence_number": 1, "manifest": 0, "manifest_pos": 0,
    } | more  # fmt: skip


def entries(*rows: dict[str, object]) -> Entries:
    schema = PLANNING.append(CARRIED.field("split_offsets"))
    return Entries(pa.Table.from_pylist(list(rows), schema=schema))


NOW_MS = 1_750_000_000_000


def judged(
    found: Entries,
    *,
    manifests: tuple[ManifestFile, ...] = (),
    listed: tuple[FileStatus, ...] = (),
    settings: dict[str, str] | None = None,
) -> dict[str, Any]:
    """The health of a table of these entries, whose store has nothing but the metadata folder."""

    def load(*_: object, heed: Any, **__: object) -> Entries:
        header = SimpleNamespace(
            has_lengths_of_fixed=False, file_format=FileFormat.AVRO, unknown_field_ids=()
        )
        heed(SimpleNamespace(first=0, headers=[header] * len(manifests)))
        return found

    reader = SimpleNamespace(
        metadata=METADATA,
        gaps=None,
        manifests=lambda _: manifests,
        load=load,
        loaded=SimpleNamespace(
            metadata=METADATA,
            metadata_location="/t/metadata/v2.metadata.json",
            metadata_folder="/t/metadata",
            capabilities=SimpleNamespace(maintained_by=None, publishes=True),
        ),
        context=SimpleNamespace(
            env=SimpleNamespace(now_ms=lambda: NOW_MS),
            catalog=SimpleNamespace(check_writable=lambda _: None),
            store=SimpleNamespace(list_directory=lambda _: listed),
            progress=None,
        ),
    )
    resolved = resolve(settings or {}, {}, None)

    def other(_: str) -> TableContext:
        raise AssertionError("nobody asks for another table")

    return dict(health(cast("Reader", reader), SnapshotChoice(), resolved, "t", other).row)


@pytest.mark.parametrize(
    ("value", "verdict"),
    [
        (4, HealthVerdict.OK),
        (5, HealthVerdict.ATTENTION),
        (999, HealthVerdict.ATTENTION),
        (1_000, HealthVerdict.CRITICAL),
    ],
)
def test_limits_count_from_their_value_on(value, verdict):
    assert MeasureLimits(5, 1_000).judge(value) is verdict


def test_an_empty_snapshot_is_healthy():
    found = judged(EMPTY)
    assert found["verdict"] == "ok"
    assert found["small_files"]["command"] is None
    assert found["delete_debt"]["deleted_ratio"] == 0.0


def test_small_files_count_as_compact_would_rewrite_them():
    # Region 1: 7 files of 10 MiB become one; region 2: one alone has nothing to merge with;
    # region 3: one of 75 MiB is large enough.
    files = [row(f"/t/data/{number}", 1, 10 * MIB) for number in range(7)]
    files += [row("/t/data/b", 2, 10 * MIB), row("/t/data/c", 3, 75 * MIB)]
    check = judged(entries(*files))["small_files"]
    assert check["small_file_count"] == 8
    assert check["small_below_bytes"] == 75 * MIB
    assert check["surplus_file_count"] == 6
    assert check["verdict"] == "attention"
    assert check["command"] == "compact"
    assert "compaction would reduce 7 files to 1" in check["found"]


def test_files_that_compact_leaves_alone_are_no_need():
    """Three small files in each of seven partitions are too few for `--min-input-files`."""
    found = judged(entries(*[row(f"/t/data/{at}", at % 7, 10 * MIB) for at in range(21)]))
    check = found["small_files"]
    assert (check["small_file_count"], check["surplus_file_count"]) == (21, 0)
    assert (check["verdict"], check["command"], found["verdict"]) == ("ok", None, "ok")


def test_limits_raise_the_bar_for_work():
    files = [row(f"/t/data/{number}", 1, 10 * MIB) for number in range(7)]
    for limits, verdict in (("6, 100", "attention"), ("7, 100", "ok"), ("1, 6", "critical")):
        found = judged(entries(*files), settings={"health.files-to-save": limits})
        assert found["small_files"]["verdict"] == verdict, limits


def test_the_engine_is_the_one_that_compact_would_take():
    files = [row(f"/t/data/{number}", 1, 10 * MIB) for number in range(7)]
    assert judged(entries(*files))["engine"] == "local"
    assert judged(entries(*files), settings={"compact.engine": "spark"})["engine"] == "spark"


def test_sizes_fall_into_bands_that_hold_their_lower_bound():
    files = [row("/t/a", 1, MIB - 1), row("/t/b", 1, MIB), row("/t/c", 1, 2_048 * MIB)]
    bands = judged(entries(*files))["file_sizes"]
    counts = {band["from_bytes"]: (band["file_count"], band["bytes"]) for band in bands}
    assert counts[0] == (1, MIB - 1)
    assert counts[MIB] == (1, MIB)
    assert counts[1_024 * MIB] == (1, 2_048 * MIB)
    assert sum(count for count, _ in counts.values()) == 3


def delete(location: str, rows: int, target: str) -> dict[str, object]:
    content = int(Content.POSITION_DELETES)
    more = {"content": content, "sequence_number": 2, "file_sequence_number": 2}
    return row(location, 1, 10, record_count=rows, referenced_data_file=target, **more)


def test_deletes_that_apply_to_nothing_are_not_deleted_rows(monkeypatch):
    monkeypatch.setattr(Sight, "check_deletes", lambda _: None)  # which looks into the store
    files = [row("/t/a", 1, 80 * MIB), row("/t/b", 1, 80 * MIB), row("/t/c", 2, 80 * MIB)]
    files += [delete("/t/d1", 20, "/t/a"), delete("/t/d2", 9, "/t/a"), delete("/t/d3", 5, "/t/x")]
    check = judged(entries(*files))["delete_debt"]
    assert check["deleted_ratio"] == round(29 / 300, 4)
    assert check["position_delete_count"] == 29
    assert check["touched_data_file_count"] == 1
    assert check["most_deletes_on_one_file"] == 2
    assert check["dangling_delete_count"] == 1
    assert check["delete_file_bytes"] == 30
    assert (check["verdict"], check["command"]) == ("attention", "compact")


def test_keys_that_readers_compare_are_counted_for_each_data_file():
    keys = {"content": int(Content.EQUALITY_DELETES), "equality_ids": [1]}
    files = [
        row("/t/a", 1, MIB, sequence_number=1),
        row("/t/b", 1, MIB, sequence_number=2),
        row("/t/other", 2, MIB, sequence_number=1),
        row("/t/k2", 1, 10, record_count=20, sequence_number=2, **keys),
        row("/t/k3", 1, 10, record_count=3, sequence_number=3, **keys),
    ]
    check = judged(entries(*files))["delete_debt"]
    assert check["compared_key_count"] == (20 + 3) + 3
    assert check["compared_row_count"] == 2 * 100
    (partition,) = check["compared_partitions"]
    assert partition == {
        "partition": "region=1", "spec_id": 0, "data_file_count": 2, "key_count": 26,
        "row_count": 200,
    }  # fmt: skip
    assert "readers compare 26 keys of equality deletes with 200 rows" in str(check["found"])


@pytest.mark.parametrize(("rows", "verdict"), [(29, "ok"), (30, "attention"), (90, "critical")])
def test_deleted_rows_need_compact_from_its_own_ratio_on(rows, verdict):
    files = [row(f"/t/{name}", 1, 80 * MIB) for name in "abc"]
    check = judged(entries(*files, delete("/t/d", rows, "/t/a")))["delete_debt"]
    assert (check["verdict"], check["dangling_delete_count"]) == (verdict, 0)


def test_five_delete_files_on_a_data_file_need_compact_and_a_limit_becomes_its_option():
    files = [row("/t/a", 1, 80 * MIB), *(delete(f"/t/d{at}", 1, "/t/a") for at in range(4))]
    assert judged(entries(*files))["delete_debt"]["verdict"] == "ok"
    five = judged(entries(*files, delete("/t/d5", 1, "/t/a")))["delete_debt"]
    assert (five["verdict"], five["options"]) == ("attention", [])
    lower = judged(entries(*files), settings={"health.deletes-per-file": "3, 100"})["delete_debt"]
    assert (lower["verdict"], lower["options"]) == ("attention", ["--min-delete-files", "3"])


def test_a_vector_counts_with_its_own_bytes():
    vector = row(
        "/t/d.puffin", 1, 900, content=int(Content.POSITION_DELETES), record_count=40,
        file_format=int(FileFormat.PUFFIN), referenced_data_file="/t/a", sequence_number=2,
        file_sequence_number=2, content_offset=4, content_size_in_bytes=50,
    )  # fmt: skip
    check = judged(entries(row("/t/a", 1, 80 * MIB), vector))["delete_debt"]
    assert (check["deletion_vector_count"], check["delete_file_bytes"]) == (1, 50)
    assert check["verdict"] == "critical"  # 40% of the table's rows


def test_manifests_are_counted_as_rewriting_them_makes_fewer():
    def manifest(number: int, size: int, content: ManifestContent) -> ManifestFile:
        return ManifestFile(f"/t/m{number}", size, 0, content, 1, 1, 7)

    manifests = tuple(manifest(at, MIB, ManifestContent.DATA) for at in range(24))
    manifests += (manifest(24, 1_000, ManifestContent.DELETES),)
    files = [row(f"/t/{at}", 1, 80 * MIB, manifest=at) for at in range(24)]
    deletes = delete("/t/d", 1, "/t/1") | {"manifest": 24}
    check = judged(entries(*files, deletes), manifests=manifests)["manifest_debt"]
    assert check["surplus_manifest_count"] == 24 - 3
    assert (check["verdict"], check["command"]) == ("attention", "rewrite-manifests")
