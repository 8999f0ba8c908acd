"""What live entries of many snapshots have in common, and which snapshot that is wrong in.

Expected values are counted by hand.
"""

from collections.abc import Collection
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from icectl.checks.live_entries import (
    LiveFaults,
    RowlessFiles,
    chosen_manifests,
    expected_places,
    fingerprints,
    live_faults,
    repeated_places,
)
from icectl.entries.summary import Totals
from icectl.format.manifest import FileFormat, Status
from icectl.format.rule import Fault
from icectl.format.snapshot import MetadataLogEntry, StatisticsFile
from tests.builders.checked import manifest, snapshot, table
from tests.builders.entry_rows import data, entries, equality, key, positions, vector

PLACE = "s3://b/t"


def faults_of(*rows: dict, roots: Collection[str] = (PLACE,)) -> LiveFaults:  # type: ignore[type-arg]
    return live_faults(entries(*rows), 3, [*roots])


def flags(*numbers: int) -> np.ndarray:
    return chosen_manifests(set(numbers), 3)


def test_files_bytes_and_records_of_each_manifest_are_added_up_by_kind():
    faults = faults_of(
        data(f"{PLACE}/1", record_count=1, file_size_in_bytes=10, first_row_id=7),
        data(f"{PLACE}/2", record_count=2, file_size_in_bytes=20, sequence_number=8),
        data(f"{PLACE}/3", record_count=4, status=Status.DELETED, sequence_number=9),
        positions(f"{PLACE}/4", manifest=1, record_count=8, file_size_in_bytes=80),
        equality(f"{PLACE}/5", manifest=1, record_count=16, file_size_in_bytes=160),
        vector(f"{PLACE}/6", f"{PLACE}/1", manifest=1, record_count=32, content_size_in_bytes=320),
    )
    assert [*faults.totals] == [
        Totals(2, 30, 3),
        Totals(0, 0, 0, 1, 80, 8, 1, 160, 16, 1, 320, 32),
        Totals(),
    ]
    assert faults.greatest_number.tolist() == [8, 1, -1]
    assert faults.greatest_row_id.tolist() == [8, -1, -1]


def test_r066_a_file_twice_is_wrong_where_one_snapshot_has_both():
    faults = faults_of(
        data(f"{PLACE}/a"),
        data(f"{PLACE}/other", manifest=1),
        positions(f"{PLACE}/a", manifest=2),
        data(f"{PLACE}/other", manifest=2, status=Status.DELETED),
    )
    assert faults.repeated.in_snapshot(flags(0, 2)) == Fault(1, f"{PLACE}/a")
    assert faults.repeated.in_snapshot(flags(0, 1)) is None
    assert faults_of(data("/t/a"), data("file:///t/a")).repeated.in_snapshot(flags(0)) == Fault(
        1, "file:///t/a"
    )


def test_r117_a_file_has_one_vector_and_vectors_share_no_bytes():
    blobs = ((4, 40), (43, 10), (53, 10), (4, 40), (4, 39))
    faults = faults_of(
        *(
            vector(f"{PLACE}/p", f"{PLACE}/{at}", manifest=at % 3, content_offset=start,
                   content_size_in_bytes=size)
            for at, (start, size) in enumerate(blobs)
        ),
        vector(f"{PLACE}/q", f"{PLACE}/4", manifest=2, content_offset=43, content_size_in_bytes=9),
    )  # fmt: skip
    assert faults.repeated.in_snapshot(flags(0, 1, 2)) is None
    assert faults.repeated_vectors.in_snapshot(flags(1, 2)) == Fault(1, f"{PLACE}/q")
    assert faults.repeated_vectors.in_snapshot(flags(0, 2)) is None
    overlapping = faults.overlapping_vectors
    assert overlapping.in_snapshot(flags(0, 1)) == Fault(2, f"{PLACE}/p")
    assert overlapping.in_snapshot(flags(0)) is None
    assert overlapping.in_snapshot(flags(2)) is None
    apart = faults_of(
        vector(f"{PLACE}/p", f"{PLACE}/0", content_offset=4, content_size_in_bytes=40),
        vector(f"{PLACE}/p", f"{PLACE}/1", content_offset=44, content_size_in_bytes=40),
    )
    assert apart.overlapping_vectors.in_snapshot(flags(0)) is None


def test_r116_r211_a_vector_has_a_data_file_of_its_partition_in_its_snapshot():
    faults = faults_of(
        data(f"{PLACE}/a", manifest=1, partition_key=key("x")),
        equality(f"{PLACE}/gone", manifest=1),
        vector(f"{PLACE}/p", f"{PLACE}/a", manifest=0, partition_key=key("x")),
        vector(f"{PLACE}/q", f"{PLACE}/a", manifest=2, partition_key=key("y")),
        vector(f"{PLACE}/r", f"{PLACE}/gone", manifest=2),
    )
    vectors = faults.vectors
    assert vectors.lost(flags(0, 1)) is None
    assert vectors.lost(flags(0)) == Fault(1, f"{PLACE}/a")
    assert vectors.lost(flags(1, 2)) == Fault(1, f"{PLACE}/gone")
    assert vectors.lost(flags(2)) == Fault(2, f"{PLACE}/a")
    assert vectors.elsewhere(flags(0, 1)) is None
    assert vectors.elsewhere(flags(1, 2)) == Fault(1, f"{PLACE}/a")
    assert vectors.elsewhere(flags(2)) is None
    assert vectors.elsewhere(flags(1)) is None
    of_other_spec = faults_of(
        data("/a", spec_id=0), vector("/p", "file:/a", spec_id=1), roots=["/"]
    )
    assert of_other_spec.vectors.elsewhere(flags(0)) == Fault(1, "file:/a")
    assert of_other_spec.vectors.lost(flags(0)) is None


def test_r103_row_ids_of_two_files_are_apart_in_a_snapshot():
    faults = faults_of(
        data(f"{PLACE}/c", first_row_id=30),
        data(f"{PLACE}/a", first_row_id=10),
        data(f"{PLACE}/none"),
        data(f"{PLACE}/b", first_row_id=19, manifest=1),
        data(f"{PLACE}/d", first_row_id=20, manifest=2),
    )
    assert faults.row_ids.overlapping(flags(0)) is None
    assert faults.row_ids.overlapping(flags(0, 2)) is None
    assert faults.row_ids.overlapping(flags(0, 1)) == Fault(1, f"{PLACE}/b")
    assert faults.row_ids.overlapping(flags(0, 1, 2)) == Fault(2, f"{PLACE}/b")
    assert faults.greatest_row_id.tolist() == [40, 29, 30]
    assert faults.vectors.lost(flags(0, 1, 2)) is None
    assert faults.overlapping_vectors.in_snapshot(flags(0, 1, 2)) is None
    assert faults_of(data(f"{PLACE}/a", first_row_id=0)).greatest_row_id.tolist() == [10, -1, -1]


def test_r161_files_elsewhere_are_told_by_manifest():
    faults = faults_of(
        data("s3://b/t2/1"), data(f"{PLACE}/2"), data("s3://c/t/3"),
        positions("s3://d/4", manifest=2), roots=[f"{PLACE}/", "s3://c/t"],
    )  # fmt: skip
    assert faults.outside == {0: Fault(1, "s3://b/t2/1"), 2: Fault(1, "s3://d/4")}
    metadata = table()
    assert expected_places(metadata) == [PLACE]
    elsewhere = replace(metadata, properties={"write.data.path": "s3://c/t"})
    assert expected_places(elsewhere) == [PLACE, "s3://c/t"]


@pytest.mark.parametrize("length", [0, 1, 7, 8, 9, 63, 64])
def test_texts_of_one_number_are_rarely_others(length):
    """Texts that differ in one of their last words of eight bytes, or in length, have others."""
    text = "x" * length
    others = [text[:at] + "z" + text[at + 1 :] for at in range(length % 8, length)]
    others.append(text + "x")
    texts = pa.array(["before", text, *others, text, "x" * 100 + text]).slice(1)
    found = fingerprints(texts).tolist()
    assert found[0] == found[-2]
    assert len({*found}) == len(texts) - 1
    keys = pa.chunked_array([texts.slice(0, 1), pa.array([], pa.string()), texts.slice(1)])
    assert repeated_places(keys).tolist() == [len(texts) - 2]
    assert repeated_places(keys.slice(1)).tolist() == []


def test_r063_r140_names_of_files_without_rows_are_known_in_all_spellings():
    statistics = StatisticsFile(70, "/t/stats.puffin", 100, 10, ())
    metadata = table(
        location="/t",
        snapshots=(
            snapshot(manifest_list="/t/metadata/list"),
            snapshot(snapshot_id=71, manifest_list=None, root_manifest="/t/roots/root"),
        ),
        metadata_log=(
            MetadataLogEntry(1, "/t/metadata/v1.metadata.json"),
            MetadataLogEntry(2, "/t/metadata/v2.metadata.json.gz"),
            MetadataLogEntry(3, "/t/data/no-metadata"),
        ),
        statistics=(statistics,),
    )
    rowless = RowlessFiles(metadata, [manifest(manifest_path="file:/t/more/m")])
    assert rowless.names == {
        "/t/metadata/list", "/t/roots/root", "file:/t/more/m", "/t/metadata/v1.metadata.json",
        "/t/metadata/v2.metadata.json.gz", "/t/stats.puffin",
    }  # fmt: skip
    avro, parquet, puffin = FileFormat.AVRO, FileFormat.PARQUET, FileFormat.PUFFIN
    named = [
        ("/t/metadata/list", parquet, True),
        ("file:///t/metadata/list", avro, True),
        ("file:/t/roots/root", parquet, True),
        ("/t/more/m", parquet, True),
        ("/t/metadata/v1.metadata.json", parquet, True),
        ("/t/data/no-metadata", parquet, False),
        ("/t/metadata/expired-m0.avro", parquet, True),
        ("/t/metadata/expired-m0.avro", avro, False),
        ("/t/more/v9.json", parquet, True),
        ("/t/roots/version-hint.text", puffin, True),
        ("/t/metadata/v0.metadata.json.gz", parquet, True),
        ("/t/data/x.avro", parquet, False),
        ("/t/metadata/x.parquet", parquet, False),
        ("/t/stats.puffin", puffin, False),
    ]
    rows = entries(*(data(place, file_format=kind) for place, kind, _ in named)).table
    assert rowless.metadata_among(rows).tolist() == [is_one for *_, is_one in named]
    found = entries(data("file:/t/stats.puffin"), data("/t/stats.puffin2")).table
    assert rowless.statistics_among(found).tolist() == [True, False]
