"""Totals that tell whether rows survived a rewrite."""

import pyarrow as pa
import pytest

from icectl.errors import SelfCheckFailed
from icectl.files.parquet.metrics import FileMetrics
from icectl.rows.row_totals import RowTotals, check_rows
from tests.builders.data_files import identified, table

PLACE = pa.struct([identified("x", pa.int64(), 4)])
FIELDS = [
    identified("id", pa.int64(), 1),
    identified("place", PLACE, 3),
    identified("tags", pa.list_(identified("element", pa.int64(), 6)), 5),
]
ROWS = [(1, {"x": 1}, [None]), (None, None, None), (2, {"x": None}, []), (3, {"x": 1}, [1])]


def totals(*parts):
    found = RowTotals()
    for rows in parts:
        for batch in table(FIELDS, rows).to_batches():
            found.add(batch)
    return found


def footer(rows=4, nulls_of_id=1, nulls_of_x=2):
    return FileMetrics(rows, null_value_counts={1: nulls_of_id, 4: nulls_of_x, 6: 3})


def test_totals_do_not_depend_on_order_and_batches():
    expected = totals(ROWS)
    assert expected.row_count == 4
    assert expected.null_counts == {1: 1, 4: 2}
    assert totals(ROWS[::-1]) == expected
    assert totals(ROWS[2:], ROWS[:1], ROWS[1:2]) == expected


def test_rows_that_are_the_same_pass():
    check_rows(totals(ROWS), totals(ROWS[::-1]), [footer()])
    check_rows(totals(ROWS), totals(ROWS), [footer(1, 0, 1), footer(3, 1, 1)])
    check_rows(RowTotals(), RowTotals(), [])


@pytest.mark.parametrize(
    ("after", "footers", "message"),
    [
        (ROWS[1:], [footer()], "of 4 they have 3, their footers say 4"),
        (ROWS, [footer(rows=3)], "of 4 they have 4, their footers say 3"),
        ([*ROWS, ROWS[0]], [footer(rows=5)], "of 4 they have 5, their footers say 5"),
        (ROWS, [footer(nulls_of_id=0)], "the column with the id 1 had 1 nulls, now 0"),
        (ROWS, [footer(nulls_of_x=3)], "the column with the id 4 had 2 nulls, now 3"),
        (
            [(3, {"x": 1}, [None]), *ROWS[1:3], (1, {"x": 1}, [1])],
            [footer()],
            "their hash is another",
        ),
        ([ROWS[0], ROWS[0], *ROWS[2:]], [footer()], "their hash is another"),
        ([*ROWS[:3], (3, {"x": 1}, [2])], [footer()], "their hash is another"),
    ],
)
def test_rows_that_were_lost_added_or_changed_are_seen(after, footers, message):
    with pytest.raises(SelfCheckFailed, match=message):
        check_rows(totals(ROWS), totals(after), footers)
