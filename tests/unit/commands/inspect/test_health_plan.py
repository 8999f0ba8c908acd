"""Verdicts of the health view: thresholds, and figures worked out by hand."""

import pyarrow as pa
import pytest

from icectl.commands.inspect.health_plan import (
    Expirable,
    HealthLimits,
    HealthSource,
    HealthVerdict,
    MeasureLimits,
    MetadataFiles,
    Targets,
    health,
)
from icectl.entries.partition_key import encode_key
from icectl.entries.rows import CARRIED, EMPTY, PLANNING, Entries
from icectl.format.manifest import Content, FileFormat, ManifestContent, ManifestFile, Status
from icectl.format.partition import PartitionField, PartitionSpec
from icectl.format.schema import Schema
from icectl.format.snapshot import MetadataLogEntry, Snapshot
from icectl.format.transforms import parse_transform
from icectl.format.types import NestedField, PrimitiveType
from tests.builders.plain_metadata import plain_metadata

INT = PrimitiveType("int")
MIB = 2**20
SPEC = PartitionSpec(0, (PartitionField((1,), 1000, "region", parse_transform("identity")),))
SNAPSHOT = Snapshot(7, 1_750_000_000_000, manifest_list="/t/metadata/snap-7.avro")
METADATA = plain_metadata(
    Schema(0, (NestedField(1, "region", INT, required=False),)),
    SPEC,
    table_uuid="9c12d441-03fe-4693-9a96-a0705ddf69c1",
    last_sequence_number=9,
    last_updated_ms=1_750_000_000_000,
    snapshots=(SNAPSHOT,),
    current_snapshot_id=7,
    metadata_log=(MetadataLogEntry(1, "/t/metadata/v1.metadata.json"),),
)


def row(location: str, region: int, size: int, **more: object) -> dict[str, object]:
    """A live data file of 100 rows, unless `more` says otherwise."""
    return {
        "content": int(Content.DATA),
        "status": int(Status.ADDED),
        "location": location,
        "file_format": int(FileFormat.PARQUET),
        "spec_id": 0,
        "partition_key": encode_key((INT,), (region,)),
        "record_count": 100,
        "file_size_in_bytes": size,
        "snapshot_id": 7,
        "sequence_number": 1,
        "file_sequence_number": 1,
        "manifest": 0,
        "manifest_pos": 0,
    } | more


def entries(*rows: dict[str, object]) -> Entries:
    schema = PLANNING.append(CARRIED.field("split_offsets"))
    return Entries(pa.Table.from_pylist(list(rows), schema=schema))


def judged(
    found: Entries,
    *,
    manifests: tuple[ManifestFile, ...] = (),
    expirable: Expirable = Expirable(0, 0, 0, exact=True),  # noqa: B008
    metadata_files: MetadataFiles = MetadataFiles(2, 2_000),  # noqa: B008
) -> dict[str, dict[str, object]]:
    targets = Targets(100 * MIB, file_size_given=True, manifest_size_bytes=8 * MIB)
    source = HealthSource(
        metadata=METADATA,
        snapshot=SNAPSHOT,
        manifests=manifests,
        entries=found,
        targets=targets,
        expirable=expirable,
        metadata_files=metadata_files,
        commands=frozenset({"expire-snapshots"}),
    )
    return dict(health(source))


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


def test_small_files_are_counted_against_three_quarters_of_the_target_by_partition():
    # Region 1: 7 files of 10 MiB fit one of 100; region 2: one alone has nothing to merge with;
    # region 3: one of 75 MiB is large enough.
    files = [row(f"/t/data/{number}", 1, 10 * MIB) for number in range(7)]
    files += [row("/t/data/b", 2, 10 * MIB), row("/t/data/c", 3, 75 * MIB)]
    check = judged(entries(*files))["small_files"]
    assert check["small_file_count"] == 8
    assert check["small_below_bytes"] == 75 * MIB
    assert check["surplus_file_count"] == 6
    assert check["verdict"] == "attention"
    assert check["command"] == "compact"


def test_small_files_that_fill_several_target_sizes_stay_several():
    files = [row(f"/t/data/{number}", 1, 70 * MIB) for number in range(4)]
    check = judged(entries(*files))["small_files"]
    assert check["surplus_file_count"] == 4 - 3
    assert check["verdict"] == "ok"


def test_small_files_are_merged_or_rewritten_by_their_row_groups():
    # Region 1: row groups of 4, 4, 4, 1 and 1 MiB: half of them or more have 4. Region 2: of 5 and
    # 2 MiB, five of the seven have 2. Region 3: one file does not tell. Region 4: a single file.
    # Region 5: ORC.
    def sized(location: str, region: int, mib: int, row_groups: int, **more: object):
        offsets = [4 + at for at in range(row_groups)]
        return row(location, region, mib * MIB, split_offsets=offsets, **more)

    files = [
        *(sized("/t/a", 1, 12, 3), sized("/t/b", 1, 2, 2)),
        *(sized("/t/c", 2, 10, 2), sized("/t/d", 2, 10, 5)),
        *(sized("/t/e", 3, 10, 1), row("/t/f", 3, 10 * MIB)),
        sized("/t/g", 4, 30, 1),
        *(sized(f"/t/{name}", 5, 20, 1, file_format=int(FileFormat.ORC)) for name in "hi"),
    ]
    check = judged(entries(*files))["small_files"]
    assert check["surplus_file_count"] == 4
    assert (check["merge_bytes"], check["rewrite_bytes"]) == (14 * MIB, 80 * MIB)
    found = "would reduce 8 files to 4 (14.0 MiB copied without decoding, 80.0 MiB rewritten)"
    assert check["reducible_file_count"] == 8  # of g's partition a single file, which stays
    assert str(check["found"]).endswith(found)


def test_sizes_fall_into_bands_that_hold_their_lower_bound():
    files = [row("/t/a", 1, MIB - 1), row("/t/b", 1, MIB), row("/t/c", 1, 2_048 * MIB)]
    bands = judged(entries(*files))["file_sizes"]
    counts = {band["from_bytes"]: (band["file_count"], band["bytes"]) for band in bands}  # type: ignore[index]
    assert counts[0] == (1, MIB - 1)
    assert counts[MIB] == (1, MIB)
    assert counts[1_024 * MIB] == (1, 2_048 * MIB)
    assert sum(count for count, _ in counts.values()) == 3


def test_deletes_are_judged_by_ratio_pile_and_effect():
    delete = {"content": int(Content.POSITION_DELETES), "sequence_number": 2}
    files = [
        row("/t/a", 1, MIB),
        row("/t/b", 1, MIB),
        row("/t/c", 2, MIB),
        row("/t/d1", 1, 10, record_count=20, referenced_data_file="/t/a", **delete),
        row("/t/d2", 1, 10, record_count=10, referenced_data_file="/t/a", **delete),
        row("/t/d3", 1, 10, record_count=5, referenced_data_file="/t/gone", **delete),
    ]
    check = judged(entries(*files))["delete_debt"]
    assert check["deleted_ratio"] == round(35 / 300, 4)
    assert check["touched_data_file_count"] == 1
    assert check["most_deletes_on_one_file"] == 2
    assert check["dangling_delete_count"] == 1
    assert check["delete_file_bytes"] == 30
    assert check["verdict"] == "attention"


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
    assert "readers compare 26 keys of equality deletes" in str(check["found"])


def test_a_third_of_the_rows_deleted_is_critical():
    vector = row(
        "/t/d.puffin", 1, 900, content=int(Content.POSITION_DELETES), record_count=40,
        file_format=int(FileFormat.PUFFIN), referenced_data_file="/t/a", sequence_number=2,
        content_offset=4, content_size_in_bytes=50,
    )  # fmt: skip
    check = judged(entries(row("/t/a", 1, MIB), vector))["delete_debt"]
    assert (check["deletion_vector_count"], check["delete_file_bytes"]) == (1, 50)
    assert check["verdict"] == "critical"
    assert HealthLimits().deleted_rows.critical == 0.3


def test_manifests_are_counted_against_their_target_by_spec_and_content():
    def manifest(size: int, content: ManifestContent) -> ManifestFile:
        return ManifestFile("/t/m", size, 0, content, 1, 1, 7)

    manifests = [manifest(MIB, ManifestContent.DATA)] * 24
    manifests += [manifest(1_000, ManifestContent.DELETES)]
    check = judged(EMPTY, manifests=tuple(manifests))["manifest_debt"]
    assert check["surplus_manifest_count"] == 25 - 3 - 1
    assert (check["verdict"], check["command"]) == ("attention", "rewrite-manifests")
    assert check["command_in_this_version"] is False


def test_metadata_files_off_the_log_are_debt():
    check = judged(EMPTY, metadata_files=MetadataFiles(22, 5_000))["metadata_file_debt"]
    assert check["untracked_metadata_file_count"] == 20
    assert (check["verdict"], check["command"]) == ("attention", "remove-orphans")


def test_reclaimable_bytes_are_judged_against_live_bytes():
    live = entries(row("/t/a", 1, 1_000))
    for size, verdict in ((249, "ok"), (250, "attention"), (1_000, "critical")):
        check = judged(live, expirable=Expirable(1, size, 3, exact=True))["reclaimable"]
        assert check["verdict"] == verdict, size
    estimate = judged(live, expirable=Expirable(1, 500, None, exact=False))["reclaimable"]
    assert estimate["is_estimate"] is True
    assert str(estimate["found"]).startswith("about 500 B ")


def test_the_whole_is_as_bad_as_its_worst_part():
    found = judged(EMPTY, expirable=Expirable(10, 0, 0, exact=True))
    assert (found["snapshot_debt"]["verdict"], found["verdict"]) == ("attention", "attention")
    assert HealthLimits().files_to_save.attention == 5
