"""Rows sorted by keys of bytes, against a comparison of their values one pair at a time."""

import functools
import math
from decimal import Decimal

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from icectl.files.parquet.schema import arrow_schema
from icectl.format.sort import SortField, SortOrder
from icectl.format.transforms import apply, parse_transform
from icectl.rows.sort_rows import sort_keys, sorted_batches
from tests.builders.data_files import schema

LONGS = st.integers(-(2**62), 2**62) | st.integers(-3, 3)
TEXTS = st.text("\0\x01a\uffff\U0001f600", max_size=4)
REALS = st.sampled_from([math.nan, -math.nan, math.inf, -math.inf, 0.0, -0.0, 5e-324, 1.0, -1.0])
COLUMNS = {
    1: ("long", LONGS, ["identity", "bucket[4]", "truncate[3]"]),
    2: ("string", TEXTS, ["identity", "bucket[2]", "truncate[2]"]),
    3: ("double", REALS | st.floats(), ["identity"]),
    4: ("binary", st.binary(max_size=3), ["identity", "truncate[1]"]),
    5: ("timestamp", st.integers(-(2**45), 2**45), ["identity", "year", "month", "day", "hour"]),
    6: (
        "decimal(38, 2)",
        st.integers(-(10**30), 10**30).map(lambda unscaled: Decimal(unscaled).scaleb(-2)),
        ["identity", "bucket[3]"],
    ),
    7: ("boolean", st.booleans(), ["identity"]),
}
WANTED = schema(
    *((id_, f"c{id_}", type_) for id_, (type_, _, _) in COLUMNS.items()), (9, "n", "int")
)
ROWS = st.lists(st.tuples(*(st.none() | values for _, values, _ in COLUMNS.values())), max_size=40)


@st.composite
def orders(draw):
    fields = []
    for id_ in draw(st.lists(st.sampled_from(sorted(COLUMNS)), min_size=1, max_size=3)):
        transform = parse_transform(draw(st.sampled_from(COLUMNS[id_][2])))
        direction = draw(st.sampled_from(["asc", "desc"]))
        nulls = draw(st.sampled_from(["nulls-first", "nulls-last"]))
        fields.append(SortField((id_,), transform, direction, nulls))
    return SortOrder(1, tuple(fields))


def compared(order, one, other):
    for item in order.fields:
        (id_,) = item.source_ids
        type_ = WANTED.field(id_).type
        left, right = (apply(item.transform, type_, row[id_ - 1]) for row in (one, other))
        if left is None or right is None:
            if left is not right:
                first = item.null_order == "nulls-first"
                return -1 if (left is None) is first else 1
            continue
        if isinstance(left, float):
            left, right = placed(left), placed(right)
        if left != right:
            return -1 if (left < right) is (item.direction == "asc") else 1
    return 0


def placed(value):
    """-NaN, then -inf to inf with -0.0 before 0.0, then NaN (R-084)."""
    sign = math.copysign(1, value)
    return (sign, 0, 0) if math.isnan(value) else (0, value, sign)


@given(ROWS, orders(), st.sampled_from([1, 500, 2**30]), st.integers(1, 9))
@settings(max_examples=100, deadline=None)
def test_rows_are_in_the_order_of_their_values(rows, order, memory_bytes, batch_rows):
    arrow = arrow_schema(WANTED)
    given_rows = [(*row, at) for at, row in enumerate(rows)]
    batches = [
        pa.RecordBatch.from_arrays(
            [
                pa.array(column, kind)
                for column, kind in zip(zip(*part, strict=True), arrow.types, strict=True)
            ],
            schema=arrow,
        )
        for at in range(0, len(rows), batch_rows)
        for part in [given_rows[at : at + batch_rows]]
    ]
    found = sorted_batches(batches, sort_keys(order, WANTED, arrow), memory_bytes)
    numbers = [number for batch in found for number in batch["n"].to_pylist()]
    by_value = functools.cmp_to_key(functools.partial(compared, order))
    assert numbers == [row[-1] for row in sorted(given_rows, key=by_value)]
