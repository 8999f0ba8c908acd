"""Rows of several batches in another order, beside those that Arrow takes of the joined batches."""

import datetime as dt
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from icectl.files.compiled import loops
from icectl.rows import take_rows
from icectl.rows.take_rows import BatchRows

VALUES = {
    pa.bool_(): [True, None, False, True, True],
    pa.int32(): [1, -2, None, 2**31 - 1, 5],
    pa.int64(): [1, -2, None, 2**63 - 1, 5],
    pa.float32(): [0.5, -0.0, None, 3.0, float("inf")],
    pa.float64(): [0.5, -0.0, None, 3.0, float("inf")],
    pa.date32(): [dt.date(2020, 1, 1), None, dt.date(1960, 1, 1), None, dt.date(2020, 1, 2)],
    pa.timestamp("us", "UTC"): [1, 2, None, -4, 5],
    pa.decimal128(30, 2): [Decimal("1.25"), None, Decimal(-3), Decimal(10**20), Decimal(0)],
    pa.binary(3): [b"abc", b"\0\0\0", None, b"xyz", b"ab\xff"],
    pa.uuid(): [bytes(16), None, b"\xff" * 16, bytes(range(16)), bytes(16)],
    pa.string(): ["", "a", None, "ä" * 8, "b" * 33],
    pa.binary(): [b"", b"16 bytes, as few", None, b"17 bytes, is more", b"\0" * 32],
    pa.large_binary(): [b"", b"\xff", None, b"x" * 16, b"y" * 1_000],
    pa.struct([("x", pa.int32())]): [{"x": 1}, None, {"x": None}, {"x": 2}, {"x": 3}],
    pa.list_(pa.int64()): [[1, 2], None, [], [None], [3]],
    pa.map_(pa.string(), pa.int32()): [[("a", 1)], None, [], [("b", None)], [("c", 3)]],
}


def batches_of(kind, values):
    """Batches of different sizes, one without rows, two of them slices, one without nulls."""
    stored = [value for value in values if value is not None]
    parts = [values, [], values[::-1] * 3, stored * 4, values]
    arrays = [pa.array(part, kind) for part in parts]
    arrays[2], arrays[4] = arrays[2].slice(3, 9), arrays[4].slice(1)
    return [pa.RecordBatch.from_arrays([array], ["column"]) for array in arrays]


@pytest.mark.parametrize("kind", VALUES, ids=str)
@pytest.mark.parametrize("is_compiled", [True, False])
def test_rows_are_those_that_arrow_takes(kind, is_compiled, monkeypatch):
    if not is_compiled:
        monkeypatch.setattr(take_rows, "loops", lambda: None)
    batches = batches_of(kind, VALUES[kind])
    whole = pa.concat_batches(batches)
    rows = BatchRows(batches)
    chance = np.random.default_rng(1)
    every = chance.permutation(whole.num_rows).astype(np.int32)
    for places in (every, every[3:10], every[:0], np.repeat(every, 3)):
        taken = rows.take(places)
        taken.validate(full=True)
        assert taken.equals(whole.take(pa.array(places)))


@pytest.mark.skipif(loops() is None, reason="no compiled loops")
def test_values_without_nulls_have_no_validity():
    taken = BatchRows(batches_of(pa.int64(), [1, 2, 3])).take(np.array([2, 0], np.int32))
    assert taken.column(0).buffers()[0] is None
    assert taken.column(0).to_pylist() == [3, 1]


@pytest.mark.skipif(loops() is None, reason="no compiled loops")
def test_byte_strings_that_no_column_can_hold_together_are_refused():
    (batch,) = [pa.RecordBatch.from_arrays([pa.array(["x" * 2**20])], ["column"])]
    with pytest.raises(pa.ArrowInvalid, match="too many bytes"):
        BatchRows([batch]).take(np.zeros(2**11, np.int32))
