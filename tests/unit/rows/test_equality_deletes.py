"""Rows deleted by equality: keys of one and several columns, null and NaN, old and new columns."""

import datetime as dt
import re
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from icectl.errors import CorruptTable, Unsupported
from icectl.files import row_hash
from icectl.format.schema import Schema
from icectl.rows import equality_deletes
from icectl.rows.equality_deletes import EqualityDeletes, equality_indexes
from icectl.rows.read_data import open_source
from tests.builders.data_files import MemoryFiles, identified, schema, table

A, B = identified("a", pa.int64(), 1), identified("b", pa.string(), 2)
EVER = schema((1, "a", "long"), (2, "b", "string"), (3, "c", "double"), (4, "d", "string"))
NO_COLUMNS = Schema(0, ())


class Deleting:
    """Delete files and data files; which rows of the latter go."""

    def __init__(self, ever=EVER, limit=1000):
        self.files = MemoryFiles()
        self.deletes = []
        self.ever = ever
        self.limit = limit

    def add(self, ids, rows, applies_to=("f",), file_format="parquet"):
        location = f"d{len(self.deletes)}"
        file = self.files.add(location, rows, file_format)
        self.deletes.append(EqualityDeletes(file, tuple(ids), frozenset(applies_to)))

    def parts(self):
        return equality_indexes(self.deletes, self.files.open, self.ever, self.limit)

    def gone(self, rows, location="f", **told):
        file = self.files.add(f"{location}", rows, **told)
        source = open_source(self.files.open(location), file, NO_COLUMNS, ())
        found = set()
        for indexes in self.parts():
            for index in indexes:
                for part in source.stored(index.read_ids):
                    places = index.deleted(source, part.batch)
                    assert (np.diff(places) > 0).all()
                    found |= set((places + part.first_row).tolist())
        return sorted(found)


DATA = table([A, B], [(1, "x"), (2, "y"), (None, "x"), (1, None), (3, ""), (1, "x")])


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_r123_rows_whose_key_is_deleted_are_found_and_no_others(file_format):
    deleting = Deleting()
    deleting.add([1], table([A], [(1,), (7,)]), file_format=file_format)
    assert deleting.gone(DATA) == [0, 3, 5]


def test_r123_null_equals_null():
    deleting = Deleting()
    deleting.add([1], table([A], [(None,)]))
    assert deleting.gone(DATA) == [2]


def test_r124_all_columns_of_a_row_have_to_match_and_one_row_is_enough():
    deleting = Deleting()
    deleting.add([1, 2], table([A, B], [(1, "x"), (None, "y"), (1, None), (2, "")]))
    assert deleting.gone(DATA) == [0, 3, 5]


def test_the_order_of_columns_and_ids_does_not_matter():
    deleting = Deleting()
    deleting.add([2, 1], table([B, A], [("y", 2)]))
    assert deleting.gone(DATA) == [1]


def test_columns_beside_those_that_are_compared_are_not_looked_at():
    deleting = Deleting()
    deleting.add([2], table([A, B], [(99, "y")]))
    assert deleting.gone(DATA) == [1]


def test_several_sets_of_columns_delete_together():
    deleting = Deleting()
    deleting.add([1], table([A], [(3,)]))
    deleting.add([2], table([B], [("y",)]))
    assert deleting.gone(DATA) == [1, 4]


def test_nan_equals_nan_and_zeros_differ():
    column = identified("c", pa.float64(), 3)
    deleting = Deleting()
    deleting.add([3], table([column], [(float("nan"),), (-0.0,)]))
    rows = table([column], [(0.0,), (-0.0,), (float("nan"),), (1.0,), (None,)])
    assert deleting.gone(rows) == [1, 2]


@pytest.mark.parametrize("file_format", ["parquet", "avro"])
def test_r123_every_fixed_value_deletes_though_java_takes_all_for_the_last(file_format):
    column = identified("f", pa.binary(2), 9)
    deleting = Deleting(schema((9, "f", "fixed[2]")))
    deletes = table([column], [(b"aa",), (b"bb",), (b"cc",)])
    deleting.add([9], deletes, file_format=file_format)
    rows = table([column], [(b"cc",), (b"dd",), (b"aa",), (None,), (b"bb",)])
    assert deleting.gone(rows) == [0, 2, 4]


@pytest.mark.parametrize(
    ("type_", "old", "new", "values"),
    [
        ("long", pa.int32(), pa.int64(), [1, 2, -3]),
        ("double", pa.float32(), pa.float64(), [0.5, float("nan"), -1.5]),
        ("decimal(20, 2)", pa.decimal128(9, 2), pa.decimal128(20, 2),
         [Decimal("1.00"), Decimal("-2.50"), Decimal("0.01")]),
        ("timestamp", pa.date32(), pa.timestamp("us"),
         [dt.date(2024, 1, 1), dt.date(1969, 12, 31), dt.date(1970, 1, 1)]),
        ("timestamptz", pa.timestamp("ms", "UTC"), pa.timestamp("us", "Asia/Tokyo"), [1, 2, -3]),
        ("uuid", pa.binary(16), pa.uuid(), [bytes(16), bytes(15) + b"\1", b"\xff" * 16]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("is_deleted_first", [True, False])
def test_r123_keys_compare_in_the_type_of_the_table(type_, old, new, values, is_deleted_first):
    first, second = (identified("k", kind, 9) for kind in (old, new))
    narrow = table([first], [(value,) for value in values])
    wide = pa.Table.from_arrays([narrow["k"].cast(_plain(new))], schema=pa.schema([second]))
    deletes, rows = (narrow, wide) if is_deleted_first else (wide, narrow)
    deleting = Deleting(schema((9, "k", type_)))
    deleting.add([9], deletes.slice(1, 1))
    assert deleting.gone(rows) == [1]


def _plain(kind):
    return pa.binary(16) if kind == pa.uuid() else kind


def test_r123_a_column_that_a_data_file_lacks_is_null_or_its_default():
    column = identified("d", pa.string(), 4)
    deleting = Deleting()
    deleting.add([4], table([column], [(None,)]))
    assert deleting.gone(DATA) == [0, 1, 2, 3, 4, 5]
    assert deleting.gone(DATA, "g") == []
    defaulted = Deleting(schema((4, "d", "string", {"initial-default": "x", "required": True})))
    defaulted.add([4], table([column], [("x",)]))
    assert defaulted.gone(DATA) == [0, 1, 2, 3, 4, 5]


def test_r123_a_required_column_that_a_data_file_lacks_is_null():
    deleting = Deleting(schema((4, "d", "string", {"required": True})))
    deleting.add([4], table([identified("d", pa.string(), 4)], [("x",)]))
    assert deleting.gone(DATA) == []


def test_a_partition_value_stands_for_a_column_that_a_data_file_lacks():
    deleting = Deleting()
    deleting.add([4], table([identified("d", pa.string(), 4)], [("p",)]))
    assert deleting.gone(DATA, constants={4: "p"}) == [0, 1, 2, 3, 4, 5]


def test_columns_inside_of_structs_are_compared():
    place = identified("place", pa.struct([identified("x", pa.int64(), 6)]), 5)
    inner = {"id": 6, "name": "x", "type": "long", "required": False}
    deleting = Deleting(schema((5, "place", {"type": "struct", "fields": [inner]})))
    rows = table([place], [({"x": 1},), (None,), ({"x": None},), ({"x": 2},)])
    deleting.add([6], rows.slice(2, 2))
    assert deleting.gone(rows) == [1, 2, 3]


def test_r123_a_field_that_a_struct_lacks_has_its_default_only_where_the_struct_is_there():
    x, y = identified("x", pa.int64(), 6), identified("y", pa.int64(), 7)
    inner = {"id": 7, "name": "y", "type": "long", "required": False, "initial-default": 3}
    deleting = Deleting(schema((5, "place", {"type": "struct", "fields": [inner]})))
    rows = table([identified("place", pa.struct([x]), 5)], [({"x": 1},), (None,), ({"x": None},)])
    deletes = table([identified("place", pa.struct([y]), 5)], [({"y": 3},), (None,)])
    deleting.add([7], deletes.slice(0, 1))
    deleting.add([7], deletes.slice(1, 1), ["g"])
    assert deleting.gone(rows) == [0, 2]
    assert deleting.gone(rows, "g") == [1]


@pytest.mark.parametrize(("default", "gone"), [({}, [0, 1]), ({"7": 4}, []), (None, [])])
def test_r123_a_field_of_a_struct_that_is_missing_is_that_of_its_default(default, gone):
    y = identified("y", pa.int64(), 7)
    inner = {"id": 7, "name": "y", "type": "long", "required": False, "initial-default": 3}
    outer = {"type": "struct", "fields": [inner]}
    deleting = Deleting(schema((5, "place", outer, {"initial-default": default})))
    deleting.add([7], table([identified("place", pa.struct([y]), 5)], [({"y": 3},)]))
    assert deleting.gone(table([A], [(1,), (2,)])) == gone


def test_r112_each_data_file_loses_what_the_deletes_that_apply_to_it_say():
    deleting = Deleting()
    deleting.add([1], table([A], [(1,)]), ["old"])
    deleting.add([1], table([A], [(2,)]), ["old", "new"])
    deleting.add([1], table([A], [(3,)]), ["elsewhere"])
    rows = table([A], [(1,), (2,), (3,)])
    assert deleting.gone(rows, "old") == [0, 1]
    assert deleting.gone(rows, "new") == [1]
    assert deleting.gone(rows, "elsewhere") == [2]
    assert deleting.gone(rows, "none") == []


def test_a_key_deleted_twice_is_deleted_for_whom_either_applies_to():
    deleting = Deleting()
    deleting.add([1], table([A], [(1,), (2,)]), ["old", "new"])
    deleting.add([1], table([A], [(1,)]), ["old"])
    assert deleting.gone(table([A], [(1,), (2,)]), "old") == [0, 1]
    assert deleting.gone(table([A], [(1,), (2,)]), "new") == [0, 1]


def test_deletes_that_apply_to_ever_more_files_are_one_index():
    deleting = Deleting()
    for count in range(1, 20):
        applies_to = [f"f{number}" for number in range(count)]
        deleting.add([1], table([A], [(count,)]), applies_to)
    (indexes,) = deleting.parts()
    assert len(indexes) == 1
    rows = table([A], [(number,) for number in range(25)])
    assert deleting.gone(rows, "f0") == list(range(1, 20))
    assert deleting.gone(rows, "f15") == [16, 17, 18, 19]


def test_many_deletes_come_in_parts_that_together_say_the_same():
    deleting = Deleting(limit=3)
    for number in range(5):
        deleting.add([1], table([A], [(number,), (number + 10,)]), ["f"])
    deleting.add([2], table([B], [("y",)]))
    assert len(list(deleting.parts())) == 3
    rows = table([A, B], [(number, "y" if number == 20 else "n") for number in range(25)])
    assert deleting.gone(rows) == [0, 1, 2, 3, 4, 10, 11, 12, 13, 14, 20]


def test_a_data_file_in_no_ones_reach_is_left_alone():
    deleting = Deleting()
    deleting.add([1], table([A], [(1,)]), ["other"])
    ((index,),) = deleting.parts()
    assert not index.applies_to("f")
    assert index.applies_to("other")
    assert deleting.gone(DATA) == []


@pytest.mark.parametrize("bits", [0, 1, 2])
def test_keys_with_one_hash_are_told_apart_by_what_they_are(bits, monkeypatch):
    """Exactness must not rest on hashes: here nearly all are the same."""

    def weak(columns, row_count):
        return row_hash.row_hashes(columns, row_count) & np.uint64(2**bits - 1)

    monkeypatch.setattr(equality_deletes, "row_hashes", weak)
    deleting = Deleting()
    deleting.add([1], table([A], [(number,) for number in range(0, 60, 3)]), ["f", "g"])
    deleting.add([1], table([A], [(number,) for number in range(0, 60, 5)] * 2), ["f"])
    rows = table([A], [(number,) for number in range(60)] + [(None,)])
    assert deleting.gone(rows) == [n for n in range(60) if not n % 3 or not n % 5]
    assert deleting.gone(rows, "g") == list(range(0, 60, 3))


def test_no_delete_rows_delete_nothing():
    deleting = Deleting()
    deleting.add([1], table([A], []))
    assert list(deleting.parts()) == []


def test_r123_a_delete_file_without_a_column_that_it_compares_is_damage():
    deleting = Deleting()
    deleting.add([1, 2], table([A], [(1,)]))
    with pytest.raises(CorruptTable, match="d0` lacks the column `b`") as raised:
        list(deleting.parts())
    assert raised.value.rule == "R-123"


@pytest.mark.parametrize("ids", [[], [77]])
def test_r123_deletes_by_columns_that_never_were_are_damage(ids):
    deleting = Deleting()
    deleting.add(ids, table([A], [(1,)]))
    with pytest.raises(CorruptTable) as raised:
        list(deleting.parts())
    assert raised.value.rule == "R-123"


def test_deletes_by_a_column_with_fields_are_refused():
    inner = {"id": 6, "name": "x", "type": "long", "required": False}
    deleting = Deleting(schema((5, "place", {"type": "struct", "fields": [inner]})))
    deleting.add([5], table([A], [(1,)]))
    with pytest.raises(Unsupported, match="compares `place`, which has fields"):
        list(deleting.parts())


@pytest.mark.parametrize("kind", ["variant", "geometry(srid:0)", "geography(OGC:CRS84, karney)"])
def test_deletes_by_values_that_do_not_compare_are_refused(kind):
    deleting = Deleting(schema((5, "place", kind)))
    deleting.add([5], table([A], [(1,)]))
    with pytest.raises(Unsupported, match=rf"compares `place`, a {re.escape(kind)}"):
        list(deleting.parts())


def test_of_wide_keys_few_are_held_at_a_time():
    deleting = Deleting()
    for at in range(4):
        deleting.add([2], table([B], [(f"{at}{number}" * 2**19,) for number in range(20)]))
    assert len(list(deleting.parts())) == 2  # 25 MiB each, of which two make more than 32
    rows = table([A, B], [(0, "30" * 2**19), (1, "34" * 2**18), (2, "219" * 2**19)])
    assert deleting.gone(rows) == [0, 2]
