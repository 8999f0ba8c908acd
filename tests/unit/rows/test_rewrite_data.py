"""File groups rewritten: every live row once, with its columns, lineage and partition."""

import datetime as dt
import io
import threading
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from icectl.checks.file_identity import StatedFile
from icectl.errors import CorruptTable, OtherFile, SelfCheckFailed, Unsupported
from icectl.files.deletion_vectors import dv_blob
from icectl.files.parquet.metrics import FileMetrics
from icectl.files.parquet.schema import schema_from_arrow
from icectl.files.puffin import read_puffin, write_puffin
from icectl.format.metrics_modes import metrics_modes
from icectl.format.partition import PartitionSpec, spec_from_json
from icectl.format.schema import POSITION, POSITION_FIELD, Schema
from icectl.format.sort import order_from_json
from icectl.rows import deleted_positions
from icectl.rows import rewrite_data as kernel
from icectl.rows.deleted_positions import DeletionVector, PositionDeletes
from icectl.rows.equality_deletes import EqualityDeletes
from icectl.rows.partition_rows import Partition
from icectl.rows.read_data import written_schema
from icectl.rows.rewrite_data import DeletesOfGroup, FileGroup, TableColumns, joined, rewrite_data
from icectl.rows.sort_rows import Sorting
from icectl.rows.write_data import write_options
from tests.builders.data_files import MemoryFiles, identified, schema, table

COLUMNS = schema((1, "id", "long"), (2, "name", "string"))
ID, NAME = identified("id", pa.int64(), 1), identified("name", pa.string(), 2)
PATH, POS = (
    identified("file_path", pa.string(), 2_147_483_546),
    identified("pos", pa.int64(), 2_147_483_545),
)
WHOLE = Partition(b"", "")
UNPARTITIONED = PartitionSpec(0, ())


@pytest.fixture(autouse=True)
def threads_for_small_files(monkeypatch):
    """Files of tests are small, and are read by several threads as large ones are."""
    monkeypatch.setattr(kernel, "_SMALL_FILE_BYTES", 0)


class Group:
    """A group of files in memory that is put together step by step."""

    def __init__(self, columns=COLUMNS, version=2, **changed):
        self.store = MemoryFiles(threads=changed.get("threads", 1))
        self.files = []
        self.positions = []
        self.vectors = []
        self.equality = []
        self.columns = TableColumns(written_schema(columns, version), columns)
        self.spec = changed.get("spec", UNPARTITIONED)
        self.partition = changed.get("partition", WHOLE)
        self.properties = changed.get("properties", {})
        self.target = changed.get("target", 2**40)
        self.sorting = changed.get("sorting")

    def add(self, rows, fields=(ID, NAME), file_format="parquet", **told):
        location = f"f{len(self.files)}"
        self.files.append(self.store.add(location, table(list(fields), rows), file_format, **told))
        return location

    def delete_positions(self, rows, applies_to):
        location = f"p{len(self.positions)}"
        file = self.store.add(location, table([PATH, POS], rows))
        self.positions.append(PositionDeletes(file, frozenset(applies_to)))

    def delete_by_vector(self, data_file, positions):
        location = f"v{len(self.vectors)}.puffin"
        self.store.content[location] = write_puffin([dv_blob(positions, data_file)], {})
        (blob,) = read_puffin(self.store.content[location]).blobs
        place = blob.offset, blob.length
        self.vectors.append(DeletionVector(location, *place, len(set(positions)), data_file))

    def delete_equal(self, fields, rows, ids, applies_to):
        location = f"e{len(self.equality)}"
        file = self.store.add(location, table(list(fields), rows))
        self.equality.append(EqualityDeletes(file, tuple(ids), frozenset(applies_to)))

    def run(self):
        deletes = DeletesOfGroup(tuple(self.positions), tuple(self.vectors), tuple(self.equality))
        size = sum(len(self.store.content[file.location]) for file in self.files)
        group = FileGroup(
            tuple(self.files), size, deletes, self.columns, self.spec, self.partition, self.sorting
        )
        modes = metrics_modes(self.properties, self.columns.written, ())
        options = write_options(self.properties, self.target, modes)
        return rewrite_data(group, options, self.store.outputs())

    def rows_after(self):
        return [row for file in self.run().files for row in self.store.rows(file.location)]


def named(*pairs):
    return [{"id": id_, "name": name} for id_, name in pairs]


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_files_become_one_with_all_their_rows_in_order(file_format):
    group = Group()
    group.add([(1, "a"), (2, None)], file_format=file_format)
    group.add([(3, "c")], file_format=file_format)
    found = group.run()
    (file,) = found.files
    assert group.store.rows(file.location) == named((1, "a"), (2, None), (3, "c"))
    assert file.location == "out/00000-7-op-00001.parquet"
    assert (found.totals.row_count, found.totals.null_counts) == (3, {1: 0, 2: 1})
    assert found.deleted_row_count == 0
    assert file.metrics.null_value_counts == {1: 0, 2: 1}
    assert file.partition_key == b""


def test_deletes_of_every_kind_apply_to_the_rows_they_mean():
    group = Group()
    one = group.add([(number, f"n{number}") for number in range(10)])
    other = group.add([(number, f"n{number}") for number in range(10, 20)])
    group.delete_positions([(one, 0), (one, 9), (other, 5)], [one, other])
    group.delete_positions([(other, 0)], [one])
    group.delete_by_vector(other, [1, 2])
    group.delete_equal([ID], [(3,), (13,), (99,)], [1], [one, other])
    group.delete_equal([NAME], [("n4",), ("n14",)], [2], [one])
    found = group.run()
    gone = {0, 9, 15, 11, 12, 3, 13, 4}
    assert [row["id"] for row in group.store.rows(found.files[0].location)] == [
        number for number in range(20) if number not in gone
    ]
    assert found.deleted_row_count == 8
    assert found.totals.row_count == 12


def test_deletes_meet_rows_of_every_batch_at_their_place_in_the_file():
    group = Group()
    sink = io.BytesIO()
    rows = table([ID, NAME], [(number, str(number)) for number in range(100)])
    location = group.add([(number, str(number)) for number in range(100)])
    pq.write_table(rows, sink, row_group_size=7)
    group.store.content[location] = sink.getvalue()
    group.delete_positions([(location, 50), *((location, at) for at in range(70, 77))], [location])
    group.delete_equal([ID], [(0,), (99,)], [1], [location])
    gone = {50, *range(70, 77), 0, 99}
    assert [row["id"] for row in group.rows_after()] == [n for n in range(100) if n not in gone]


SMALL_PARTS = {"write.parquet.row-group-size-bytes": "400"}


def deleted_in_row_groups(threads):
    """Files of many row groups with deletes of every kind in them."""
    group = Group(threads=threads, properties=SMALL_PARTS, target=3_000)
    for first in range(0, 500, 100):
        rows = [(number, f"n{number}") for number in range(first, first + 100)]
        location = group.add(rows)
        sink = io.BytesIO()
        pq.write_table(table([ID, NAME], rows), sink, row_group_size=9)
        group.store.content[location] = sink.getvalue()
        group.files[-1] = replace(group.files[-1], size_bytes=len(sink.getvalue()))
        group.delete_positions([(location, at) for at in (0, 9, 50)], [location])
        group.delete_by_vector(location, [98, 99])
    every = [file.location for file in group.files]
    group.delete_equal([ID], [(number,) for number in range(20, 500, 100)], [1], every)
    return group


def test_several_threads_make_the_files_that_one_makes(monkeypatch):
    monkeypatch.setattr(kernel, "_PART_BYTES", 500)
    gone = {first + at for first in range(0, 500, 100) for at in (0, 9, 20, 50, 98, 99)}
    expected = [number for number in range(500) if number not in gone]
    found = []
    for threads in (1, 2, 3):
        group = deleted_in_row_groups(threads)
        made = group.run()
        rows = [[row["id"] for row in group.store.rows(file.location)] for file in made.files]
        assert [id_ for of_file in rows for id_ in of_file] == expected
        assert (made.deleted_row_count, made.totals.row_count) == (30, 470)
        assert len(made.files) > 1
        for file, of_file in zip(made.files, rows, strict=True):
            assert file.metrics.record_count == file.footer.record_count == len(of_file)
            assert file.file_size_in_bytes == len(group.store.content[file.location])
            assert len(file.metrics.split_offsets) > 2
            bounds = [of[1] for of in (file.metrics.lower_bounds, file.metrics.upper_bounds)]
            assert bounds == [of_file[at].to_bytes(8, "little") for at in (0, -1)]
        found.append((made.totals.row_hash, len(made.files)))
    assert found[0][0] == found[1][0] == found[2][0]
    assert [parts for _, parts in found] == [found[0][1]] * 3


def test_parts_of_a_file_that_is_longer_than_its_entry_says_have_all_of_its_rows(monkeypatch):
    monkeypatch.setattr(kernel, "_PART_BYTES", 200)
    group = deleted_in_row_groups(2)
    group.files = [replace(file, size_bytes=file.size_bytes // 4) for file in group.files]
    made = group.run()
    assert (made.deleted_row_count, made.totals.row_count) == (30, 470)


@pytest.mark.parametrize("part_bytes", [1, 2**24])
def test_small_row_groups_are_read_again_together(monkeypatch, part_bytes):
    group = deleted_in_row_groups(2)
    monkeypatch.setattr(kernel, "_PART_BYTES", part_bytes)
    group.target = 2**40
    (file,) = group.run().files
    row_groups = len(file.metrics.split_offsets)
    assert row_groups > 9
    parts = row_groups if part_bytes == 1 else 1
    assert group.store.opened.count(file.location) == 1 + parts  # once for its footer


def test_readers_end_with_the_error_of_a_writer(monkeypatch):
    monkeypatch.setattr(kernel, "_READ_BYTES", 500)
    group = deleted_in_row_groups(2)
    group.store.create = lambda location: group.store.content[location]
    with pytest.raises(KeyError) as raised:
        group.run()
    names = [thread.name for thread in threading.enumerate()]
    del raised  # it holds all that was under way, and would wait for readers for ever
    assert not [name for name in names if name.startswith("icectl-rows")]


def test_several_threads_sort_as_one_does():
    group = deleted_in_row_groups(3)
    group.sorting = Sorting(by_name("desc"), 3_000)
    names = [row["name"] for row in group.rows_after()]
    assert len(names) == 470
    assert names == sorted(names, reverse=True)


@pytest.mark.parametrize(("least", "is_alone"), [(0, False), (10**6, True)])
def test_small_files_are_read_by_one_thread(monkeypatch, least, is_alone):
    monkeypatch.setattr(kernel, "_SMALL_FILE_BYTES", least)
    group, readers = deleted_in_row_groups(3), set()
    read = group.store.open

    def reading(location):
        if location[0] in "fp":
            readers.add(threading.current_thread().name)
        return read(location)

    monkeypatch.setattr(group.store, "open", reading)
    assert group.run().totals.row_count == 470
    assert (readers == {threading.current_thread().name}) is is_alone


def many_small(count=24, rows=5, **told):
    """Files of rows whose ids count up, as their entries have them, and what deletes leave."""
    group = Group(properties=told.get("properties", {}), threads=told.get("threads", 1))
    left = []
    for first in range(0, count * rows, rows):
        location = group.add([(number, f"n{number}") for number in range(first, first + rows)])
        size_bytes = len(group.store.content[location])
        group.files[-1] = replace(group.files[-1], size_bytes=size_bytes)
        gone = {(first // rows) % rows} if first % 2 else set(range(rows if first % 3 == 0 else 0))
        if first % 4 == 1:
            group.delete_by_vector(location, sorted(gone))
        elif gone:
            group.delete_positions([(location, at) for at in gone], [location])
        left += [number for number in range(first, first + rows) if number - first not in gone]
    return group, left


def opened_by(monkeypatch, module, function):
    """The locations of files that a function opens by themselves, for a module."""
    opened, inner = [], getattr(module, function)

    def opening(handle, source, *others, **options):
        opened.append(source.location)
        return inner(handle, source, *others, **options)

    monkeypatch.setattr(module, function, opening)
    return opened


@pytest.fixture
def opened_alone(monkeypatch):
    return opened_by(monkeypatch, kernel, "open_source")


def test_many_small_files_are_decoded_together(opened_alone):
    group, left = many_small()
    found = group.run()
    (file,) = found.files
    assert [row["id"] for row in group.store.rows(file.location)] == left
    assert opened_alone == []
    assert (found.totals.row_count, found.deleted_row_count) == (len(left), 24 * 5 - len(left))
    read = [location for location in group.store.opened if location.startswith("f")]
    assert read == [f"f{number}" for number in range(24)]


@pytest.mark.parametrize("compares_values", [False, True])
def test_several_threads_decode_many_small_files_in_their_order(monkeypatch, compares_values):
    monkeypatch.setattr(kernel, "_SMALL_FILE_BYTES", 10**6)
    group, left = many_small(threads=3)
    if compares_values:  # that is done file by file, as is most of what is done then
        every = [file.location for file in group.files]
        group.delete_equal([ID], [(left.pop(),)], [1], every)
    threads, inner = [], kernel.streamed_in_threads

    def streamed(*sources, **options):
        threads.append(options["threads"])
        return inner(*sources, **options)

    monkeypatch.setattr(kernel, "streamed_in_threads", streamed)
    assert [row["id"] for row in group.rows_after()] == left
    assert threads[0] == (1 if compares_values else 3)


def test_files_of_another_schema_among_small_ones_keep_their_rows(opened_alone):
    group, left = many_small()
    old = (identified("id", pa.int32(), 1), identified("gone", pa.int32(), 5))
    sink = io.BytesIO()
    rows = table(list(old), [(number, 7) for number in range(5, 10)])
    pq.write_table(rows, sink)
    group.store.content["f1"] = sink.getvalue()
    group.files[1] = replace(group.files[1], size_bytes=len(sink.getvalue()))
    after = {row["id"]: row["name"] for row in group.rows_after()}
    assert list(after) == left
    assert {name for id_, name in after.items() if id_ in range(5, 10)} == {None}
    assert opened_alone == ["f0", "f1"]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (lambda content: content[:5] + bytes(20) + content[25:], "damaged"),
        (lambda content: content[:-9] + b"PAR1 PAR1", "damaged"),
    ],
)
def test_a_damaged_one_of_many_small_files_is_named(changed, message):
    group, _ = many_small()
    group.store.content["f7"] = changed(group.store.content["f7"])
    with pytest.raises(CorruptTable, match=f"^`f7`: .*{message}"):
        group.run()


def test_another_one_of_many_small_files_is_found_by_its_entry():
    group, _ = many_small()
    group.store.content["f7"] = group.store.content["f6"]
    stated = StatedFile(
        group.files[7].size_bytes,
        FileMetrics(5, lower_bounds={1: (35).to_bytes(8, "little"), 2: b"n35"},
                    upper_bounds={1: (39).to_bytes(8, "little"), 2: b"n39"}),
        COLUMNS.fields,
    )  # fmt: skip
    group.files[7] = replace(group.files[7], stated=stated)
    with pytest.raises(OtherFile, match="f7 is not the file"):
        group.run()


def many_deletes(count=24):
    """Files of five rows, and as many small files of deletes as their entries have them."""
    group = Group()
    locations = [group.add([(5 * at + row, "n") for row in range(5)]) for at in range(count)]
    for at, location in enumerate(locations):
        group.delete_positions([(location, at % 5), (location, 4)], [location])
    sized = [
        replace(file, size_bytes=len(group.store.content[file.location]))
        for file in (deletes.file for deletes in group.positions)
    ]
    group.positions = [
        replace(deletes, file=file, named=location)
        for deletes, file, location in zip(group.positions, sized, locations, strict=True)
    ]
    gone = [{5 * at + at % 5, 5 * at + 4} for at in range(count)]
    return group, [number for number in range(5 * count) if number not in gone[number // 5]]


def replace_deletes(group, at, rows, fields=(PATH, POS), **changed):
    """Put another file of deletes in the place of one, with its size in the entry."""
    file = group.store.add(group.positions[at].file.location, table(list(fields), rows))
    file = replace(file, size_bytes=len(group.store.content[file.location]))
    group.positions[at] = replace(group.positions[at], file=file, **changed)


@pytest.fixture
def deletes_opened_alone(monkeypatch):
    return opened_by(monkeypatch, deleted_positions, "open_own")


def test_many_small_files_of_deletes_are_decoded_together(deletes_opened_alone):
    group, left = many_deletes()
    assert [row["id"] for row in group.rows_after()] == left
    assert deletes_opened_alone == []


def test_each_of_many_files_of_deletes_deletes_where_it_applies(deletes_opened_alone):
    group, left = many_deletes()
    rows = [("f9", 0), ("f8", 1), ("f9", 1), ("f7", 0), ("f8", 1)]
    replace_deletes(group, 7, rows, named=None, applies_to=frozenset(["f7", "f8"]))
    gone, back = {7 * 5, 8 * 5 + 1}, {7 * 5 + 2, 7 * 5 + 4}
    found = [row["id"] for row in group.rows_after()]
    assert found == sorted({*left, *back} - gone)
    assert deletes_opened_alone == []


def test_files_of_deletes_with_other_columns_among_small_ones_delete_too(deletes_opened_alone):
    group, left = many_deletes()
    rows = [("f1", 1, "n"), ("f1", 4, "n")]
    replace_deletes(group, 1, rows, [PATH, POS, identified("more", pa.string(), 7)])
    assert [row["id"] for row in group.rows_after()] == left
    assert deletes_opened_alone == ["p0", "p1"]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([("f6", 1), ("f6", 4)], "^`p7`: a position delete file of f7 names f6"),
        ([(None, 1), ("f7", 4)], "^`p7`: a position delete file has a null path"),
        ([("f7", 1)], "p7 has 1 rows, the manifest says 2"),
    ],
)
def test_another_one_of_many_files_of_deletes_is_named(rows, message):
    group, _ = many_deletes()
    count = group.positions[7].file.record_count
    replace_deletes(group, 7, rows)
    file = replace(group.positions[7].file, record_count=count)
    group.positions[7] = replace(group.positions[7], file=file)
    with pytest.raises(CorruptTable, match=message):
        group.run()


def test_another_one_of_many_files_of_deletes_is_found_by_its_entry():
    group, _ = many_deletes()
    bounds = {POSITION: (0).to_bytes(8, "little")}
    metrics = FileMetrics(2, lower_bounds=bounds, upper_bounds=bounds)
    size_bytes = group.positions[7].file.size_bytes
    stated = StatedFile(size_bytes, metrics, (POSITION_FIELD,), has_deletes=True)
    file = replace(group.positions[7].file, stated=stated)
    group.positions[7] = replace(group.positions[7], file=file)
    with pytest.raises(OtherFile, match="p7 is not the file"):
        group.run()


def test_a_null_in_a_required_column_of_many_small_files_is_named():
    group, _ = many_small()
    location = group.files[7].location
    sink = io.BytesIO()
    pq.write_table(table([ID, NAME], [(None, "a")] * 5), sink)
    group.store.content[location] = sink.getvalue()
    group.files[7] = replace(group.files[7], size_bytes=len(sink.getvalue()))
    required = Schema(0, (replace(COLUMNS.fields[0], required=True), COLUMNS.fields[1]))
    group.columns = TableColumns(required, required)
    with pytest.raises(CorruptTable, match="f7 has nulls in the required column `id`"):
        group.run()


def test_damage_that_a_thread_meets_leaves_no_file():
    group = deleted_in_row_groups(3)
    group.store.content["f4"] = group.store.content["f4"][:-9] + b"PAR1 PAR1"
    group.files[-1] = replace(group.files[-1], size_bytes=None)
    with pytest.raises(CorruptTable, match="`f4`"):
        group.run()
    assert group.store.left == [] or set(group.store.left).isdisjoint(group.store.content)


def test_very_many_equality_deletes_take_passes_of_their_own(monkeypatch):
    monkeypatch.setattr(kernel, "LARGEST_INDEX_ROWS", 3)
    group = Group()
    one = group.add([(number, "x") for number in range(10)])
    other = group.add([(number, "y") for number in range(10)])
    group.delete_equal([ID], [(1,), (2,)], [1], [one])
    group.delete_equal([ID], [(3,), (4,)], [1], [one, other])
    group.delete_equal([ID, NAME], [(7, "x"), (8, "y")], [1, 2], [one, other])
    expected = [(number, "x") for number in (0, 5, 6, 8, 9)]
    expected += [(number, "y") for number in (0, 1, 2, 5, 6, 7, 9)]
    assert group.rows_after() == named(*expected)
    assert group.store.opened.count(one) == 2


def test_a_group_without_a_live_row_becomes_no_file():
    group = Group()
    location = group.add([(1, "a"), (2, "b")])
    group.delete_by_vector(location, [0, 1])
    found = group.run()
    assert found.files == ()
    assert found.deleted_row_count == 2
    assert found.totals.row_count == 0


def test_columns_that_deletes_compare_may_be_gone_from_the_table():
    group = Group(schema((2, "title", "string")))
    group.columns = TableColumns(group.columns.written, COLUMNS)
    location = group.add([(1, "a"), (2, "b")])
    group.delete_equal([ID], [(1,)], [1], [location])
    assert group.rows_after() == [{"title": "b"}]


def test_fields_that_deletes_compare_may_be_missing_in_structs_of_old_files():
    y = {"id": 7, "name": "y", "type": "long", "required": False, "initial-default": 3}
    columns = schema((1, "id", "long"), (5, "place", {"type": "struct", "fields": [y]}))
    x = identified("x", pa.int64(), 6)
    group = Group(columns)
    old = [ID, identified("place", pa.struct([x]), 5)]
    location = group.add([(1, {"x": 1}), (2, None), (3, {"x": None})], old)
    inner = identified("place", pa.struct([identified("y", pa.int64(), 7)]), 5)
    group.delete_equal([inner], [({"y": 3},)], [7], [location])
    assert group.rows_after() == [{"id": 2, "place": None}]


def test_r105_rows_keep_their_ids_and_the_number_of_their_last_update():
    group = Group(version=3)
    one = group.add([(1, "a"), (2, "b"), (3, "c")], first_row_id=100, sequence_number=4)
    group.add([(4, "d")], first_row_id=None, sequence_number=2)
    stored = (
        identified("_row_id", pa.int64(), 2_147_483_540),
        identified("_last_updated_sequence_number", pa.int64(), 2_147_483_539),
    )
    group.add(
        [(5, "e", 7, 1), (6, "f", None, None)],
        (ID, NAME, *stored),
        first_row_id=200,
        sequence_number=9,
    )
    group.delete_by_vector(one, [1])
    found = [
        (row["id"], row["_row_id"], row["_last_updated_sequence_number"])
        for row in group.rows_after()
    ]
    assert found == [(1, 100, 4), (3, 102, 4), (4, None, None), (5, 7, 1), (6, 201, 9)]


def test_rows_of_old_specs_go_to_the_partitions_of_the_current_one():
    field = {"source-id": 2, "field-id": 1000, "name": "name", "transform": "identity"}
    group = Group(spec=spec_from_json({"spec-id": 1, "fields": [field]}), partition=None)
    group.add([(1, "a"), (2, "b"), (3, "a")])
    group.add([(4, None), (5, "b")])
    found = group.run()
    rows = {
        file.location.split("/")[1]: [row["id"] for row in group.store.rows(file.location)]
        for file in found.files
    }
    assert rows == {"name=a": [1, 3], "name=b": [2, 5], "name=null": [4]}
    assert len({file.partition_key for file in found.files}) == 3


def by_name(direction):
    field = {"source-id": 2, "transform": "identity", "direction": direction}
    return order_from_json({"order-id": 1, "fields": [{**field, "null-order": "nulls-first"}]})


@pytest.mark.parametrize("memory_bytes", [2**30, 1])
def test_rows_are_sorted_over_all_files_of_a_group(memory_bytes):
    group = Group(sorting=Sorting(by_name("desc"), memory_bytes))
    group.add([(1, "b"), (2, None), (3, "c")])
    location = group.add([(4, "a"), (5, "c"), (6, "d")])
    group.delete_by_vector(location, [2])
    assert group.rows_after() == named((2, None), (3, "c"), (5, "c"), (1, "b"), (4, "a"))


def test_rows_are_sorted_within_each_partition():
    field = {"source-id": 1, "field-id": 1000, "name": "id", "transform": "truncate[10]"}
    spec = spec_from_json({"spec-id": 1, "fields": [field]})
    group = Group(spec=spec, partition=None, sorting=Sorting(by_name("asc"), 2**30))
    group.add([(1, "d"), (11, "c"), (2, "b"), (12, "a")])
    assert [group.store.rows(file.location) for file in group.run().files] == [
        named((2, "b"), (1, "d")),
        named((12, "a"), (11, "c")),
    ]


def test_columns_that_identity_partitions_stand_for_are_written():
    group = Group(partition=Partition(b"k", "name=p"))
    group.add([(1,), (2,)], [ID], constants={2: "p"})
    (file,) = group.run().files
    assert group.store.rows(file.location) == named((1, "p"), (2, "p"))
    assert (file.partition_key, file.location) == (b"k", "out/name=p/00000-7-op-00001.parquet")


def test_rows_of_small_files_come_together_in_their_order_within_bounds():
    batches = [pa.record_batch([[number]], ["id"]) for number in range(40_000)]
    found = list(joined(iter(batches)))
    assert [one.num_rows for one in found] == [16_384, 16_384, 7_232]
    assert pa.Table.from_batches(found)["id"].to_pylist() == list(range(40_000))
    wide = pa.record_batch([["x" * 1000]], ["text"])
    assert [one.num_rows for one in joined(iter([wide] * 7), 3_100)] == [3, 3, 1]
    assert [one.num_rows for one in joined(iter([wide] * 3), 100)] == [1, 1, 1]


def test_files_roll_at_the_target_size():
    group = Group(target=20_000, properties={"write.parquet.row-group-size-bytes": "20000"})
    for part in range(4):
        group.add([(part * 1000 + at, f"{at * 7919:x}" * 4) for at in range(1000)])
    found = group.run()
    assert len(found.files) == 2
    rows = [row["id"] for file in found.files for row in group.store.rows(file.location)]
    assert rows == list(range(4000))


def test_bounds_of_values_too_long_for_a_footer_are_those_of_the_rows():
    long = {"id": 9, "name": "long", "type": "string", "required": False}
    columns = schema(
        (2, "title", "string"), (8, "b", "binary"), (5, "s", {"type": "struct", "fields": [long]})
    )
    fields = [
        NAME, identified("b", pa.binary(), 8),
        identified("s", pa.struct([identified("long", pa.string(), 9)]), 5),
    ]  # fmt: skip
    group = Group(columns)
    group.add([("m" * 9000, None, {"long": None}), ("z", None, None)], fields)
    group.add([("a\U0010ffff" * 9000, None, {"long": "é" * 5000})], fields)
    (file,) = group.run().files
    assert file.footer.lower_bounds == {}
    assert file.metrics.lower_bounds == {
        2: ("a\U0010ffff" * 8).encode(), 9: ("é" * 16).encode()
    }  # fmt: skip
    assert file.metrics.upper_bounds == {2: b"z", 9: ("é" * 15 + "ê").encode()}


def test_text_that_is_no_utf8_stays_as_it_is_and_has_no_bounds():
    group = Group(schema((1, "id", "long"), (2, "name", "string"), (3, "long", "string")))
    texts = pa.array([b"a", b"\xff"]), pa.array([b"z" * 9000, b"\xed\xa0\x80"])
    columns = [pa.array([1, 2]), *(one.view(pa.string()) for one in texts)]
    stored = pa.table(columns, schema=pa.schema([ID, NAME, identified("long", pa.string(), 3)]))
    group.files = [group.store.add(f"f{at}", stored) for at in range(2)]
    (file,) = group.run().files
    assert file.metrics.lower_bounds.keys() == file.metrics.upper_bounds.keys() == {1}
    found = pq.read_table(io.BytesIO(group.store.content[file.location]))
    for number, text in enumerate(texts, 1):
        assert found.column(number).cast(pa.binary()).to_pylist() == [*text.to_pylist()] * 2


def test_deletes_that_spell_a_path_otherwise_end_before_a_file_is_begun():
    group = Group()
    location = group.add([(1, "a")])
    group.delete_positions([(f"s3://bucket/{location}", 0)], [location])
    with pytest.raises(Unsupported, match="readers disagree on 1 rows"):
        group.run()
    assert group.store.left == []
    assert [name for name in group.store.content if name.startswith("out/")] == []


def test_r118_a_vector_with_other_positions_than_its_entry_says_is_damage():
    group = Group()
    location = group.add([(1, "a"), (2, "b")])
    group.delete_by_vector(location, [0])
    group.vectors = [replace(group.vectors[0], record_count=2)]
    with pytest.raises(CorruptTable) as raised:
        group.run()
    assert raised.value.rule == "R-118"


def test_a_file_that_is_begun_when_damage_is_met_is_abandoned():
    group = Group()
    group.add([(number, "a") for number in range(20_000)])
    group.store.content[group.add([(2, "b")])] = b"PAR1"
    with pytest.raises(CorruptTable) as raised:
        group.run()
    assert raised.value.rule == "R-099"
    assert group.store.left == ["out/00000-7-op-00001.parquet"]
    assert group.store.content.keys() == {"f0", "f1"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda rows: rows.slice(1), "of 3 they have 2"),
        (lambda rows: pa.concat_tables([rows, rows.slice(0, 1)]), "of 3 they have 4"),
        (lambda rows: rows.set_column(1, NAME, pa.array(["b", "a", "c"])), "their hash is another"),
        (lambda rows: rows.set_column(1, NAME, pa.array(["a", None, "c"])), "had 0 nulls, now 1"),
        (lambda rows: rows.select(["id"]), "has other columns than the table"),
        (lambda rows: rows.rename_columns(["id", "n"]), "has other columns than the table"),
    ],
)
@pytest.mark.parametrize("threads", [1, 2])
def test_a_new_file_that_has_other_rows_is_found_when_it_is_read_again(change, message, threads):
    group = Group(threads=threads)
    group.add([(1, "a"), (2, "b"), (3, "c")])
    content = group.store.content
    made = group.store.create

    class Lying:
        """A writer whose content another one takes the place of."""

        def __init__(self, location):
            self.location = location
            self.inner = made(location)

        def __enter__(self):
            return self.inner.__enter__()

        def __exit__(self, *error):
            self.inner.__exit__(*error)
            rows = change(pq.ParquetFile(io.BytesIO(content[self.location])).read())
            sink = io.BytesIO()
            pq.write_table(rows, sink, store_schema=False)
            content[self.location] = sink.getvalue()

    group.store.create = Lying
    with pytest.raises(SelfCheckFailed, match=message):
        group.run()


@pytest.mark.parametrize("damaged", ["f1", "p0", "e0", "v0.puffin"])
def test_damage_is_told_with_the_name_of_the_file(damaged):
    group = Group()
    one = group.add([(1, "a"), (2, "b")])
    other = group.add([(3, "c"), (4, "d")])
    group.delete_positions([(one, 0)], [one])
    group.delete_by_vector(other, [1])
    group.delete_equal([ID], [(2,)], [1], [one])
    content = group.store.content[damaged]
    group.store.content[damaged] = content[:5] + bytes(len(content) - 9) + content[-4:]
    with pytest.raises(CorruptTable, match=f"^`{damaged}`: "):
        group.run()


def struct_of(*fields):
    return pa.struct(list(fields))


R = identified("r", pa.int64(), 10, required=True)
RECORD = struct_of(R, identified("o", pa.string(), 11))
LISTED = pa.list_(identified("element", pa.int32(), 15, required=True))
DEEP = struct_of(
    identified("m", RECORD, 12, required=True),
    identified("t", pa.string(), 13, required=True),
    identified("l", LISTED, 14, required=True),
)
KEY = identified("key", pa.string(), 20, required=True)
ONE, BARE = {"r": 1, "o": "a"}, {"r": 2, "o": None}
FULL = {"m": BARE, "t": "x", "l": [5, 6]}
HIDDEN = {
    "struct": (RECORD, [ONE, None, BARE]),
    "struct of an optional struct": (
        struct_of(identified("i", RECORD, 12)), [{"i": None}, None, {"i": ONE}]
    ),
    "struct of a required struct": (DEEP, [None, FULL, None]),
    "struct of a struct of a required struct": (
        struct_of(identified("d", DEEP, 16)), [None, {"d": None}, {"d": FULL}]
    ),
    "list": (pa.list_(identified("element", RECORD, 12)), [[None, ONE], None, [], [BARE, None]]),
    "list of required structs": (
        pa.list_(identified("element", DEEP, 17, required=True)), [None, [FULL, FULL], []]
    ),
    "map": (pa.map_(KEY, identified("value", RECORD, 12)), [[("a", None), ("b", ONE)], None, []]),
    "map of required structs": (
        pa.map_(KEY, identified("value", DEEP, 17, required=True)), [None, [("a", FULL)], []]
    ),
    "struct of a required map": (
        struct_of(
            identified("m", pa.map_(KEY, identified("value", RECORD, 12, required=True)), 18,
                       required=True)
        ),
        [None, {"m": [("k", ONE)]}, {"m": []}],
    ),
}  # fmt: skip
"""Types with required fields inside, and values whose structs are null."""


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
@pytest.mark.parametrize("name", HIDDEN)
def test_structs_that_are_null_have_no_required_fields(name, file_format):
    kind, values = HIDDEN[name]
    column = identified("c", kind, 9)
    columns = schema_from_arrow(pa.schema([ID, column]))
    order = order_from_json(
        {"order-id": 0, "fields": [
            {"source-id": 1, "transform": "identity", "direction": "desc", "null-order":
             "nulls-last"}]}
    )  # fmt: skip
    rows = list(enumerate(values))
    for sorting in (None, Sorting(order, 2**20)):
        group = Group(columns, sorting=sorting)
        group.add(rows, (ID, column), file_format)
        group.add([(number + 10, None) for number in range(2)], (ID, column), file_format)
        group.delete_positions([("f0", 0)], ["f0"])
        found = sorted((row["id"], row["c"]) for row in group.rows_after())
        assert found == [*rows[1:], (10, None), (11, None)]


AT = identified("at", pa.timestamp("us", "UTC"), 3)
INSTANTS = schema((1, "id", "long"), (3, "at", "timestamptz"))


def instants(values):
    return [(id_, pa.scalar(value, pa.int64()).cast(AT.type)) for id_, value in values]


def shown(rows):
    return [(row["id"], row["at"] - dt.datetime.fromtimestamp(0, dt.UTC)) for row in rows]


def micros(count):
    return dt.timedelta(microseconds=count)


def test_rows_of_orc_files_are_what_the_partition_says_where_orc_has_lost_a_second():
    """Java stores -1 and 999,999 microseconds alike; a file by Arrow stands for one by Java."""
    told = {"constants": {3: -1}, "file_format": "orc"}
    group = Group(INSTANTS)
    group.add(instants([(1, 999_999), (2, 999_999)]), (ID, AT), **told)
    assert shown(group.rows_after()) == [(1, micros(-1)), (2, micros(-1))]
    group = Group(INSTANTS)
    group.add(instants([(1, 999_999)]), (ID, AT), **told | {"constants": {3: 999_999}})
    assert shown(group.rows_after()) == [(1, micros(999_999))]


@pytest.mark.parametrize("deleted", [-1, 999_999])
def test_equality_deletes_of_what_orc_has_lost_a_second_of_are_refused(deleted):
    """Iceberg's Spark leaves the rows by bounds, and deletes them where there are none."""
    group = Group(INSTANTS)
    file = group.add(instants([(1, 999_999)]), (ID, AT), constants={3: -1}, file_format="orc")
    group.delete_equal([AT], [row[1:] for row in instants([(0, deleted)])], [3], [file])
    with pytest.raises(Unsupported, match="equality deletes compare `at` of f0, where ORC has"):
        group.run()
