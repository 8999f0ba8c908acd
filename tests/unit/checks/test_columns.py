import numpy as np
import pyarrow as pa

from icectl.checks.objects import Columns, merge_faults
from icectl.entries.rows import RawEntries
from icectl.format.manifest import Status
from icectl.format.rule import Fault
from tests.builders.entry_rows import data, entries, equality, positions, vector


def columns(*files: dict) -> Columns:
    return Columns(RawEntries(entries(*files).table))


MIXED = columns(
    data("a", sort_order_id=None, sequence_number=4),
    data("b", status=Status.EXISTING, sort_order_id=0, sequence_number=None, record_count=7),
    data("c", status=Status.DELETED, sort_order_id=3, sequence_number=1, record_count=5),
    equality("d", equality_ids=[2, 1], sequence_number=6),
    equality("e", status=Status.DELETED, equality_ids=[2], sequence_number=9),
    positions("f", sequence_number=5),
    vector("g", "a", sequence_number=5),
)


def test_null_numbers_are_0_and_known_to_be_absent():
    assert MIXED.numbers("sort_order_id").tolist() == [0, 0, 3, 0, 0, 0, 0]
    assert MIXED.absent("sort_order_id").tolist() == [True, False, False, True, True, True, True]
    assert MIXED.present("sort_order_id").tolist() == [
        False, True, True, False, False, False, False,
    ]  # fmt: skip
    assert not MIXED.absent("record_count").any()
    assert MIXED.absent("first_row_id").all()


def test_entries_are_chosen_by_any_of_several_values():
    chosen = MIXED.of("status", Status.EXISTING, Status.DELETED)
    assert np.flatnonzero(chosen).tolist() == [1, 2, 4]
    assert np.flatnonzero(MIXED.vectors()).tolist() == [6]


def test_a_fault_is_how_many_entries_and_where_the_first_lies():
    assert MIXED.fault(MIXED.of("status", Status.DELETED)) == Fault(2, "c")
    assert MIXED.fault(np.zeros(7, np.bool_)) is None


def test_a_manifest_in_one_piece_is_searched_whole_and_one_in_chunks_by_chunk():
    assert list(MIXED.parts()) == [MIXED]
    table = pa.concat_tables([MIXED.table.slice(0, 3), MIXED.table.slice(3)])
    parts = list(Columns(RawEntries(table)).parts())
    assert [part.table["location"].to_pylist() for part in parts] == [
        ["a", "b", "c"],
        ["d", "e", "f", "g"],
    ]
    assert next(columns().parts()).fault(np.zeros(0, np.bool_)) is None


def test_faults_of_parts_are_added_up():
    assert merge_faults([None, Fault(2, "c"), None, Fault(3, "d")]) == Fault(5, "c")
    assert merge_faults([None, None]) is None
