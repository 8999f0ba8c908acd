"""What tells that a file is another than its manifest entry describes."""

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from icectl.checks.file_identity import (
    StatedFile,
    check_own_file,
    contradiction,
    is_just_as_stated,
    is_outside,
    stated_files,
)
from icectl.entries.rows import entries_from
from icectl.errors import OtherFile
from icectl.files.parquet.data_file import OnlyChunks
from icectl.files.parquet.footer import ChunkFacts
from icectl.files.parquet.metrics import FileMetrics
from icectl.format import single_value
from icectl.format.types import (
    DecimalType,
    GeographyType,
    GeometryType,
    ListType,
    NestedField,
    PrimitiveType,
    StructType,
)
from tests.builders.table_builder import filled_table

LONG, TEXT = PrimitiveType("long"), PrimitiveType("string")
ID, NAME = NestedField(1, "id", LONG, required=True), NestedField(2, "name", TEXT, required=False)


def bounds(**values: int | str) -> dict[int, bytes]:
    of = {"id": ID, "name": NAME}
    return {of[name].id: single_value.encode(of[name].type, one) for name, one in values.items()}


OWN = FileMetrics(
    3,
    column_sizes={1: 50, 2: 60},
    value_counts={1: 3, 2: 3},
    null_value_counts={1: 0, 2: 1},
    lower_bounds=bounds(id=1, name="b"),
    upper_bounds=bounds(id=9, name="d"),
    exact_bounds=frozenset({1}),
    split_offsets=(4, 90),
)
STATED = StatedFile(100, OWN, (ID, NAME))
SIGNS: dict[str, dict[str, Any]] = {
    "has 100 bytes": {"size_bytes": 101},
    "begin at other bytes": {"split_offsets": (4, 91)},
    "`name` has 60 bytes, not 61": {"column_sizes": {1: 50, 2: 61}},
    "`id` has 3 values, not 4": {"value_counts": {1: 4, 2: 3}},
    "`name` has 1 nulls, not 0": {"null_value_counts": {2: 0}},
    "`id` are outside": {"lower_bounds": bounds(id=2, name="b")},
    "`name` are outside": {
        "lower_bounds": bounds(id=1, name="a"),
        "upper_bounds": bounds(id=9, name="a"),
    },
}
OF_BYTES = list(SIGNS)[:3]


def stated(*signs: str, has_deletes: bool = False) -> StatedFile:
    changes = {key: value for sign in signs for key, value in SIGNS[sign].items()}
    size_bytes = changes.pop("size_bytes", 100)
    return StatedFile(size_bytes, replace(OWN, **changes), (ID, NAME), has_deletes)


def check(one: StatedFile, *signs: str, found: FileMetrics = OWN) -> None:
    check_own_file("f", one, 100, found, signs)


@pytest.mark.parametrize("sign", SIGNS)
def test_r063_one_sign_is_a_mistake_and_two_are_another_file(sign):
    check(STATED)
    check(stated(sign))
    with pytest.raises(OtherFile, match=f"f is not the file .*wrong part; .*{sign}") as raised:
        check(stated(sign), "wrong part")
    assert raised.value.rule == "R-063"
    assert "restore it from a copy" in str(raised.value.hint)


@pytest.mark.parametrize("sign", SIGNS)
def test_of_delete_files_one_sign_is_enough_and_bytes_are_none(sign):
    check(stated(has_deletes=True))
    if sign in OF_BYTES:
        check(stated(*OF_BYTES, has_deletes=True))
    else:
        with pytest.raises(OtherFile, match=sign):
            check(stated(sign, has_deletes=True))


def facts(**changes: Any) -> dict[int, tuple[pa.DataType, ChunkFacts]]:
    name = ChunkFacts(3, 60, None, 1, b"b", b"d")
    return {
        1: (pa.int64(), ChunkFacts(3, 50, None, 0, *(end.to_bytes(8, "little") for end in (1, 9)))),
        2: (pa.string(), name._replace(**changes)),
    }


def is_alike(one: StatedFile, found: OnlyChunks, offsets: tuple[int, ...] = (4, 90)) -> bool:
    return is_just_as_stated(one, 100, found, offsets)


@pytest.mark.parametrize("sign", SIGNS)
def test_a_look_at_a_footer_finds_each_sign(sign):
    assert is_alike(STATED, facts())
    assert not is_alike(stated(sign), facts())


def test_a_look_at_a_footer_needs_no_more_than_either_side_says():
    assert is_alike(StatedFile(100, FileMetrics(3), (ID, NAME)), facts())
    assert is_alike(STATED, {})
    assert is_alike(STATED, facts(null_count=None))
    without_bounds = {"lower": None, "upper": None}
    assert not is_alike(STATED, facts(**without_bounds))  # they may be where old writers had them
    nulls = replace(OWN, null_value_counts={2: 3}, lower_bounds={}, upper_bounds={})
    assert is_alike(StatedFile(100, nulls, (ID, NAME)), facts(null_count=3, **without_bounds))


def test_bounds_of_text_may_be_cut_where_an_entry_states_them_and_those_of_numbers_not():
    assert is_alike(STATED, facts(lower=b"ba", upper=b"cz"))
    assert not is_alike(STATED, facts(lower=b"az", upper=b"cz"))
    assert not is_alike(STATED, facts(lower=b"ba", upper=b"dz"))
    lower = replace(OWN, lower_bounds=bounds(id=256, name="b"))  # less than 1 by its bytes
    assert not is_alike(StatedFile(100, lower, (ID, NAME)), facts())
    narrow = facts() | {1: (pa.int32(), ChunkFacts(3, 50, None, 0, b"\1\0\0\0", b"\x09\0\0\0"))}
    assert not is_alike(STATED, narrow)
    assert not is_alike(STATED, facts() | {1: (pa.uint64(), facts()[1][1])})


def test_a_file_that_was_stored_anew_has_other_bytes_in_every_way():
    check(stated(*OF_BYTES))


def test_what_either_side_does_not_say_is_no_sign():
    check(StatedFile(100, FileMetrics(3), (ID, NAME)), "one")
    check(STATED, "one", found=FileMetrics(3))


@pytest.mark.parametrize(
    ("type_", "own", "found", "is_exact", "expected"),
    [
        (LONG, (1, 9), (1, 9), True, False),
        (LONG, (0, 10), (1, 9), True, False),
        (LONG, (2, 9), (1, 9), True, True),
        (LONG, (1, 8), (1, 9), True, True),
        (LONG, (1, 8), (1, 9), False, False),
        (LONG, (2, 9), (1, 9), False, True),
        (LONG, (1, 4), (5, 9), False, True),
        (LONG, (6, 9), (1, 5), False, True),
        (LONG, (1, 5), (5, 9), False, False),
        (LONG, (5, 9), (5, 5), False, False),
        (TEXT, ("abc", "x"), ("ab", "abb"), False, True),
        (TEXT, ("abc", "x"), ("ab", "x"), False, False),
        (TEXT, ("abc", "x"), ("aa", "x"), False, True),
        (TEXT, ("a", "b"), ("a", "c"), False, False),
        (TEXT, ("a", "b"), ("c", "d"), False, True),
    ],
)
def test_bounds_exclude_values_only_where_that_is_sure(
    type_, own, found, *, is_exact,
    expected,
):  # fmt: skip
    column = NestedField(7, "c", type_, required=False)
    sides = [
        FileMetrics(
            3,
            lower_bounds={7: single_value.encode(type_, low)},
            upper_bounds={7: single_value.encode(type_, high)},
            exact_bounds=frozenset({7} if is_exact else ()),
        )
        for low, high in (own, found)
    ]
    assert is_outside(column, *sides) is expected


@pytest.mark.parametrize(
    ("kind", "one", "other", "is_told"),
    [
        ("double", "0000000000000000", "0000000000000080", False),  # 0.0 and -0.0
        ("float", "00000000", "00000080", False),
        ("double", "000000000000f87f", "000000000000f03f", False),  # NaN and 1.0
        ("double", "000000000000f03f", "0000000000000040", True),  # 1.0 and 2.0
        ("uuid", "01" * 16, "81" * 16, False),
        ("decimal(9, 2)", "01", "02", True),
        ("decimal(9, 2)", "0001", "01", False),
        ("string", "61", "62", True),
        ("string", "61", "6162", False),
        ("string", "ff", "fe", True),
    ],
)
def test_lower_bounds_of_one_file_may_differ_in_bytes(kind, one, other, *, is_told):
    """Bytes by hand, by the single-value serialization of the spec."""
    type_ = DecimalType(9, 2) if kind.startswith("decimal") else PrimitiveType(kind)
    column = NestedField(1, "c", type_, required=False)
    entries = [
        StatedFile(9, FileMetrics(3, lower_bounds={1: bytes.fromhex(each)}), (column,))
        for each in (one, other)
    ]
    assert (contradiction(*entries) is not None) is is_told


def test_bounds_that_cannot_be_read_exclude_nothing():
    assert not is_outside(ID, replace(OWN, lower_bounds={1: b"odd"}), OWN)
    uuid = NestedField(1, "u", PrimitiveType("uuid"), required=False)
    own, other = (
        FileMetrics(1, lower_bounds={1: one * 16}, upper_bounds={1: one * 16})
        for one in (b"\x01", b"\x02")
    )
    assert not is_outside(uuid, own, other)


def test_entries_state_the_first_plain_columns(tmp_path):
    (row,) = filled_table(tmp_path / "t", range(1, 9)).live()
    nested = NestedField(90, "l", ListType(91, LONG, element_required=True), required=False)
    many = [nested, *(NestedField(id_, f"c{id_}", LONG, required=False) for id_ in range(1, 40))]
    ((location, found),) = stated_files(entries_from([row]), many)
    assert location == row["location"]
    assert (found.size_bytes, found.has_deletes) == (row["file_size_in_bytes"], False)
    assert [one.id for one in found.columns] == list(range(1, 17))
    assert found.metrics.record_count == 8
    assert found.metrics.lower_bounds == dict(row["lower_bounds"])
    assert found.metrics.column_sizes == dict(row["column_sizes"])
    assert found.metrics.split_offsets == tuple(row["split_offsets"])
    ((_, unsplit),) = stated_files(entries_from([row | {"split_offsets": None}]), many)
    assert unsplit.metrics.split_offsets == ()
    ((_, fewer),) = stated_files(entries_from([row]), many[1:2])
    assert set(fewer.metrics.upper_bounds) == {1}


@pytest.mark.parametrize("kind", [PrimitiveType("variant"), GeometryType(), GeographyType()])
def test_entries_state_bounds_of_all_variants_and_shapes_too(kind, tmp_path):
    """Those of new files are joined of these, however many columns come before."""
    (row,) = filled_table(tmp_path / "t", range(1, 9)).live()
    many = [NestedField(id_, f"c{id_}", LONG, required=False) for id_ in range(1, 40)]
    alone = NestedField(50, "v", kind, required=False)
    held = NestedField(51, "s", StructType((replace(alone, id=52),)), required=False)
    row["lower_bounds"] = [(id_, b"%d" % id_) for id_ in (1, 30, 50, 52)]
    ((_, found),) = stated_files(entries_from([row]), [*many, alone, held])
    assert set(found.metrics.lower_bounds) == {1, 50, 52}
    assert [one.id for one in found.columns] == list(range(1, 17))
