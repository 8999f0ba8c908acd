import pytest

from icectl.entries import rows, summary
from icectl.entries.summary import SizeHistogram, Totals
from icectl.format.manifest import Status
from tests.builders.entry_rows import data, entries, equality, key, positions, vector

X = {"spec_id": 1, "partition_key": key("x")}
FILES = entries(
    data("a", record_count=5, file_size_in_bytes=100, snapshot_id=1),
    data("b", record_count=7, file_size_in_bytes=300, snapshot_id=2, **X),
    positions("p", record_count=2, file_size_in_bytes=11, snapshot_id=3, manifest=1),
    equality("e", record_count=3, file_size_in_bytes=13, snapshot_id=4, manifest=1, **X),
    vector("v", "b", record_count=4, file_size_in_bytes=9000, snapshot_id=5, manifest=2, **X),
    vector("v", "a", record_count=1, file_size_in_bytes=9000, snapshot_id=6, manifest=2),
)
TOTALS = Totals(
    data_file_count=2,
    data_file_bytes=400,
    record_count=12,
    position_delete_file_count=1,
    position_delete_file_bytes=11,
    position_delete_record_count=2,
    equality_delete_file_count=1,
    equality_delete_file_bytes=13,
    equality_delete_record_count=3,
    deletion_vector_count=2,
    deletion_vector_bytes=80,
    deletion_vector_record_count=5,
)


def test_summarise_counts_every_kind_and_vectors_by_their_blobs():
    assert summary.summarise(FILES) == TOTALS


def test_delete_files_of_every_kind_add_up():
    assert TOTALS.delete_file_count == 4
    assert TOTALS.delete_file_bytes == 104


def test_totals_add_up_manifest_by_manifest():
    parts = [summary.summarise(rows.in_manifests(FILES, [number])) for number in range(3)]
    assert sum(parts, Totals()) == TOTALS


def test_totals_of_nothing_are_zero():
    assert summary.summarise(rows.concat([])) == Totals()


def test_r031_total_counters_have_the_names_of_snapshot_summaries():
    assert summary.summary_counters(TOTALS, "total") == {
        "total-data-files": 2, "total-records": 12, "total-files-size": 504,
        "total-delete-files": 4, "total-position-deletes": 7, "total-equality-deletes": 3,
    }  # fmt: skip


def test_r031_removed_data_files_are_called_deleted():
    assert summary.summary_counters(TOTALS, "removed") == {
        "deleted-data-files": 2, "deleted-records": 12, "removed-files-size": 504,
        "removed-delete-files": 4, "removed-position-deletes": 7, "removed-equality-deletes": 3,
        "removed-position-delete-files": 1, "removed-equality-delete-files": 1, "removed-dvs": 2,
    }  # fmt: skip


def test_r031_added_counters_count_vectors_apart_from_position_delete_files():
    counters = summary.summary_counters(TOTALS, "added")
    assert counters["added-data-files"] == 2
    assert counters["added-delete-files"] == 4
    assert counters["added-position-delete-files"] == 1
    assert counters["added-dvs"] == 2


def test_sizes_fall_into_bands_whose_lower_bound_belongs_to_them():
    sized = entries(*(data(str(size), file_size_in_bytes=size) for size in (0, 9, 10, 19, 20, 99)))
    histogram = summary.size_histogram(sized, (10, 20))
    assert histogram == SizeHistogram((10, 20), (2, 2, 2), (9, 29, 119))
    assert histogram + histogram == SizeHistogram((10, 20), (4, 4, 4), (18, 58, 238))


def test_histograms_of_other_bands_do_not_add_up():
    nothing = rows.concat([])
    with pytest.raises(ValueError, match="5"):
        summary.size_histogram(nothing, (10,)) + summary.size_histogram(nothing, (5,))


def test_default_bands_end_at_one_gibibyte():
    sized = entries(data("a", file_size_in_bytes=1 << 30), data("b", file_size_in_bytes=1 << 20))
    assert summary.size_histogram(sized).file_counts == (0, 1, 0, 0, 0, 0, 1)


UPDATED = {1: 1000, 2: 2000, 3: 500, 4: 4000, 5: 3000}
BY_PARTITION = [
    {
        "spec_id": 0, "partition_key": b"", "file_count": 1, "record_count": 5, "size_bytes": 100,
        "position_delete_file_count": 1, "position_delete_record_count": 2,
        "equality_delete_file_count": 0, "equality_delete_record_count": 0,
        "deletion_vector_count": 1, "deletion_vector_record_count": 1, "updated_ms": 1000,
    },
    {
        "spec_id": 1, "partition_key": key("x"), "file_count": 1, "record_count": 7,
        "size_bytes": 300, "position_delete_file_count": 0, "position_delete_record_count": 0,
        "equality_delete_file_count": 1, "equality_delete_record_count": 3,
        "deletion_vector_count": 1, "deletion_vector_record_count": 4, "updated_ms": 4000,
    },
]  # fmt: skip


def test_partitions_are_counted_with_their_newest_known_snapshot():
    assert summary.by_partition(FILES, UPDATED).to_pylist() == BY_PARTITION


def test_partitions_add_up_manifest_by_manifest():
    parts = [
        summary.by_partition(rows.in_manifests(FILES, [number]), UPDATED) for number in (2, 0, 1)
    ]
    assert summary.merge_partitions(parts).to_pylist() == BY_PARTITION


def test_a_partition_without_a_known_snapshot_has_no_time():
    partitions = summary.by_partition(entries(data("a", status=Status.EXISTING)), {})
    assert partitions["updated_ms"].to_pylist() == [None]
