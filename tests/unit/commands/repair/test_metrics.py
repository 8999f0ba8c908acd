"""What a manifest should say of a data file, as its footer proves it: just that, or nothing."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from icectl.commands.repair import repairs
from icectl.commands.repair.repairs import restated_metrics
from icectl.entries.partition_key import encode_key
from icectl.errors import StorageError
from icectl.files.parquet.metrics import FileMetrics
from icectl.format.partition import PartitionField, PartitionSpec
from icectl.format.transforms import parse_transform
from icectl.format.types import PrimitiveType
from icectl.storage.failures import ACCESS_DENIED
from icectl.storage.store import Store
from tests.builders.data_files import identified, schema
from tests.builders.lost_manifests import Failing, reader_of
from tests.builders.table_builder import TableBuilder, filled_table

LOWER, UPPER = "lower_bounds", "upper_bounds"
ID, CATEGORY, NOTE = 1, 2, 5


def long(value: int) -> bytes:
    return value.to_bytes(8, "little", signed=True)


@pytest.fixture
def table(tmp_path: Path) -> TableBuilder:
    """One file of the ids 1 to 8: categories c0 to c2, one note of eight null."""
    return filled_table(tmp_path / "t", range(1, 9))


def entry(table: TableBuilder) -> dict[str, Any]:
    (row,) = table.live()
    return dict(row)


def changed(table: TableBuilder, name: str, **columns: Any) -> dict[str, Any]:
    """The entry with other values of some columns of a map, by field id as `f1`; None takes one."""
    row = entry(table)
    told = dict(row[name])
    for key, value in columns.items():
        if value is None:
            del told[int(key[1:])]
        else:
            told[int(key[1:])] = value
    return {**row, name: sorted(told.items())}


def found(
    table: TableBuilder, row: Mapping[str, Any], store: Store | None = None
) -> Mapping[str, Any]:
    return restated_metrics(reader_of(table, store=store), row)


def test_what_is_right_stays(table):
    row = entry(table)
    assert dict(row[LOWER])[ID] == long(1)
    assert dict(row[UPPER])[ID] == long(8)
    assert found(table, row) == {}


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_count_of_rows_is_the_footer_s_where_no_row_id_hangs_on_it(tmp_path, version):
    table = filled_table(tmp_path / "t", range(1, 9), format_version=version)
    row = {**entry(table), "record_count": 7}
    assert found(table, row) == ({} if version == 3 else {"record_count": 8})
    bytes_too = {**row, "file_size_in_bytes": 5}
    assert found(table, bytes_too) == {}  # another file


def test_a_size_is_the_file_s_where_the_entry_is_that_of_the_file(table):
    right = entry(table)
    row = {**right, "file_size_in_bytes": 5}
    only = {"file_size_in_bytes": right["file_size_in_bytes"]}
    assert found(table, row) == only
    fewer = [pair for pair in right["value_counts"] if pair[0] != NOTE]
    assert found(table, {**row, "value_counts": fewer}) == only
    assert found(table, {**row, "null_value_counts": None}) == only


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("value_counts", None), ("value_counts", []), ("value_counts", [(ID, 7)]),
        ("value_counts", [(ID, 8), (CATEGORY, 7)]), ("value_counts", [(99, 8)]),
        ("null_value_counts", [(ID, 1)]), ("null_value_counts", [(99, 0)]),
    ],
)  # fmt: skip
def test_a_file_whose_columns_are_others_too_is_another(table, name, told):
    assert found(table, {**entry(table), "file_size_in_bytes": 5, name: told}) == {}


def test_a_size_and_bounds_that_are_both_wrong_are_of_another_file(table):
    row = changed(table, LOWER, f1=long(3))
    assert set(found(table, row)) == {LOWER}
    assert found(table, {**row, "file_size_in_bytes": 5}) == {}


@pytest.mark.parametrize(
    ("partitioning", "own", "other"),
    [
        ("identity", "c1", "c0"), ("identity", "c1", "c2"), ("identity", "c1", None),
        ("bucket", None, "any"), ("day", None, "any"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("wrong", ["file_size_in_bytes", "record_count", "bounds"])
def test_a_file_of_another_partition_is_another(tmp_path, partitioning, own, other, wrong):
    table = filled_table(tmp_path / "t", [1], [98], partitioning=partitioning)
    far, row = table.live()  # the newest first
    row = {**row, LOWER: [(ID, long(3))]} if wrong == "bounds" else {**row, wrong: 5}
    assert found(table, row) != {}
    text = PrimitiveType("string")
    if own is not None:
        assert row["partition_key"] == encode_key([text], [own])
        swapped = encode_key([text], [other])
    else:
        swapped = far["partition_key"]
    assert found(table, {**row, "partition_key": swapped}) == {}


@pytest.mark.parametrize("offsets", [[8, 4], [4, 4]])
def test_r067_split_offsets_that_do_not_ascend_are_those_of_the_footer(table, offsets):
    right = entry(table)["split_offsets"]
    assert found(table, {**entry(table), "split_offsets": offsets}) == {"split_offsets": right}


def test_bounds_of_uuids_that_exclude_rows_go(table):
    """Bounds of Java, where the row groups of a file are sorted: the least is the greatest."""
    low, high = b"\x10" * 16, b"\x90" * 16
    row = {**entry(table), "record_count": 2, "value_counts": None, "null_value_counts": None}
    kind = pa.schema([identified("u", pa.uuid(), 9)])
    pq.write_table(pa.table([pa.array([low, high], pa.uuid())], schema=kind), row["location"])
    row["file_size_in_bytes"] = Path(row["location"]).stat().st_size
    reader = reader_of(table, metadata=replace(table.metadata, schemas=(schema((9, "u", "uuid")),)))
    assert restated_metrics(reader, {**row, LOWER: [(9, low)], UPPER: [(9, high)]}) == {}
    told = {**row, LOWER: [(9, high)], UPPER: [(9, low)]}
    assert restated_metrics(reader, told) == {LOWER: [], UPPER: []}


@pytest.mark.parametrize("offsets", [None, [], [4, 8, 12]])
def test_split_offsets_that_ascend_stay(table, offsets):
    assert found(table, {**entry(table), "split_offsets": offsets}) == {}


@pytest.mark.parametrize("name", ["value_counts", "null_value_counts"])
def test_r130_counts_are_the_footer_s_where_one_is_wrong(table, name):
    right = entry(table)[name]
    assert found(table, changed(table, name, f1=99)) == {name: right}
    without = [pair for pair in right if pair[0] != NOTE]
    assert found(table, changed(table, name, f1=99, f5=None)) == {name: without}
    # Of a column that the footer does not know nothing is proved.
    assert found(table, changed(table, name, f99=3)) == {}
    assert found(table, changed(table, name, f1=99, f99=3)) == {name: right}
    assert found(table, {**entry(table), name: None}) == {}


@pytest.mark.parametrize(("name", "narrow", "wide", "exact"), [(LOWER, 2, 0, 1), (UPPER, 7, 9, 8)])
def test_r092_bounds_are_the_footer_s_only_where_they_leave_rows_out(
    table, name, narrow, wide, exact
):
    right = dict(entry(table)[name])
    assert right[ID] == long(exact)
    assert found(table, changed(table, name, f1=long(narrow))) == {name: sorted(right.items())}
    assert found(table, changed(table, name, f1=long(wide))) == {}
    other = b"a" if name == LOWER else b"z"
    both = changed(table, name, f1=long(narrow), f2=other)
    assert found(table, both) == {name: sorted((right | {CATEGORY: other}).items())}
    fewer = changed(table, name, f1=long(narrow), f5=None)
    del right[NOTE]
    assert found(table, fewer) == {name: sorted(right.items())}


@pytest.mark.parametrize("name", [LOWER, UPPER])
def test_r091_a_bound_of_no_value_of_its_type_goes_or_is_the_footer_s(table, name):
    right = dict(entry(table)[name])
    assert found(table, changed(table, name, f1=b"odd")) == {name: sorted(right.items())}
    assert found(table, {**entry(table), name: None}) == {}
    # No column of the table, and one of which the footer has no bounds.
    assert found(table, changed(table, name, f99=b"odd")) == {}


def test_r091_a_bound_that_nothing_replaces_goes(tmp_path):
    """All notes are null: the footer has no bounds of them."""
    table = filled_table(tmp_path / "t", [7])
    right = entry(table)[LOWER]
    assert NOTE not in dict(right)
    assert found(table, changed(table, LOWER, f5=b"a")) == {}
    assert found(table, changed(table, LOWER, f5=b"\xff")) == {LOWER: right}


def test_several_things_are_set_right_at_once(table):
    right = entry(table)
    row = changed(table, LOWER, f1=long(5)) | {"split_offsets": [4, 4]}
    assert found(table, row) == {"split_offsets": right["split_offsets"], LOWER: right[LOWER]}


@pytest.mark.parametrize("damage", [Path.unlink, lambda path: path.write_bytes(b"PAR1")])
def test_a_file_that_is_lost_or_damaged_proves_nothing(table, damage):
    row = {**entry(table), "record_count": 9}
    damage(Path(row["location"]))
    assert found(table, row) == {}


@pytest.mark.parametrize("method", ["stat", "open"])
def test_a_file_that_may_not_be_read_proves_nothing(table, method):
    row = {**entry(table), "record_count": 9}
    denied = StorageError("may not be read", id=ACCESS_DENIED)
    assert found(table, row, Failing(method, row["location"], denied)) == {}
    assert found(table, row, Failing(method, row["location"], FileNotFoundError())) == {}
    with pytest.raises(StorageError, match="the network is down"):
        found(table, row, Failing(method, row["location"], StorageError("the network is down")))


def test_bounds_are_not_those_of_a_file_with_another_count_of_rows(table):
    assert found(table, {**changed(table, LOWER, f1=long(3)), "record_count": 7}) == {}


def test_bounds_of_two_columns_that_leave_rows_out_are_of_another_file(table):
    row = changed(table, LOWER, f1=long(3))
    assert set(found(table, row)) == {LOWER}
    categories = [(id_, b"c1" if id_ == CATEGORY else bound) for id_, bound in row[LOWER]]
    assert found(table, {**row, LOWER: categories}) == {}


TEXT, NUMBER = PrimitiveType("string"), PrimitiveType("int")


def is_told_of(table: TableBuilder, transform: str, value: object, *sources: int) -> bool:
    """Whether the footer tells of the file's rows where its partition has such a value.

    The entry has a wrong count of rows, which is set right then.
    """
    field = PartitionField(sources, 1000, "p", parse_transform(transform))
    metadata = replace(table.metadata, partition_specs=(PartitionSpec(0, (field,)),))
    row = {
        **entry(table),
        "record_count": 7,
        "partition_key": encode_key([NUMBER if isinstance(value, int) else TEXT], [value]),
    }
    row["file_size_in_bytes"] = Path(row["location"]).stat().st_size
    return "record_count" in restated_metrics(reader_of(table, metadata=metadata), row)


@pytest.mark.parametrize(
    ("transform", "value", "source", "is_told"),
    [
        ("identity", "c0", CATEGORY, True),
        ("identity", "c1", CATEGORY, True),
        ("identity", "c2", CATEGORY, True),
        ("identity", "c", CATEGORY, False),
        ("identity", "c3", CATEGORY, False),
        ("identity", None, CATEGORY, False),
        ("identity", "note 5", NOTE, False),  # one of the notes is null
        ("identity", None, NOTE, False),
        ("void", None, CATEGORY, True),
        ("bucket[4]", 0, ID, True),
        ("bucket[4]", 1, ID, True),
        ("day", 7, CATEGORY, True),
        ("zorder", "c9", CATEGORY, True),
        ("identity", "c9", 99, True),
    ],
)
def test_a_partition_is_another_where_the_footer_excludes_a_row(
    table, transform, value, source, is_told
):
    assert is_told_of(table, transform, value, source) is is_told


def test_nothing_is_excluded_of_values_of_several_columns_or_of_no_spec(table):
    assert is_told_of(table, "identity", "c9", CATEGORY, ID)
    assert found(table, {**entry(table), "record_count": 7, "spec_id": 9}) == {"record_count": 8}


def test_without_statistics_nothing_is_excluded(table):
    place = entry(table)["location"]
    pq.write_table(pq.read_table(place), place, write_statistics=False)
    assert is_told_of(table, "identity", "c9", CATEGORY)
    assert is_told_of(table, "identity", None, CATEGORY)


def test_where_nulls_are_not_counted_none_is_excluded(table, monkeypatch):
    def footer(*given: Any) -> tuple[int, FileMetrics] | None:
        size, metrics = repairs_footer(*given) or (0, FileMetrics(0))
        return size, replace(metrics, null_value_counts={})

    repairs_footer = repairs._footer
    monkeypatch.setattr(repairs, "_footer", footer)
    assert is_told_of(table, "identity", None, CATEGORY)
    assert not is_told_of(table, "identity", "c9", CATEGORY)


def test_a_file_of_nulls_is_of_the_partition_of_nulls_and_of_no_other(table):
    place = entry(table)["location"]
    rows = pq.read_table(place)
    at = rows.schema.get_field_index("category")
    nulls = pa.nulls(len(rows), pa.string())
    pq.write_table(rows.set_column(at, rows.schema.field(at), nulls), place)
    assert is_told_of(table, "identity", None, CATEGORY)
    assert not is_told_of(table, "identity", "c1", CATEGORY)
