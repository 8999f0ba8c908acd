"""Footers without some of their members, and with other types: made by hand, and of pyarrow."""

import io
import math
import struct

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from icectl.errors import CorruptTable
from icectl.files.parquet.footer import (
    FooterChanges,
    changed,
    octets,
    replace_numbers,
    shape_statistics,
)
from icectl.format.bounding_box import BoundingBox

NOTHING: frozenset[tuple[int, int]] = frozenset()
FIRST = frozenset({(0, 0)})

# Compact protocol, by hand: a member begins with (step of its number << 4 | kind); kind 5 is i32,
# 6 i64, 8 binary, 9 a list, 12 a struct; a list begins with (count << 4 | kind); 0 ends a struct.
STATISTICS = b"\x18\x01z\x18\x01a\x16\x06\x28\x01z\x18\x01a\x00"
COUNTED = b"\x36\x06\x00"
PAGES = b"\x1c\x15\x00\x15\x10\x15\x02\x00"


def footer(statistics: bytes | None, pages: bytes | None) -> bytes:
    """One row group of two columns; the first has these members 12 and 13, and a member 16."""
    meta = b"\x15\x02"  # member 1, then 12 and 13 and 16
    before = 1
    for number, kind, content in (
        (12, 12, statistics),
        (13, 9, None if pages is None else b"\x1c" + pages),
        (16, 12, b"\x00"),
    ):
        if content is not None:
            meta += bytes([(number - before) << 4 | kind]) + content
            before = number
    first = b"\x26\x08\x1c" + meta + b"\x00\x00"
    second = b"\x26\x08\x1c\x15\x02\xbc" + STATISTICS + b"\x00\x00"
    group = b"\x19\x2c" + first + second + b"\x16\x10\x00"
    return b"\x15\x02\x39\x1c" + group + b"\x00"


PAGE = b"\x15\x00\x15\x10\x15\x02\x00"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (FooterChanges(NOTHING, NOTHING), footer(STATISTICS, PAGE)),
        (FooterChanges(FIRST, NOTHING), footer(COUNTED, PAGE)),
        (FooterChanges(NOTHING, FIRST), footer(STATISTICS, None)),
        (FooterChanges(FIRST, FIRST), footer(COUNTED, None)),
        (FooterChanges(frozenset({(0, 2), (1, 0)}), NOTHING), footer(STATISTICS, PAGE)),
    ],
    ids=["nothing", "bounds", "encodings", "both", "chunks that there are none of"],
)
def test_members_that_are_not_to_be_told_are_left_out(changes, expected):
    assert changed(footer(STATISTICS, PAGE), changes) == expected


def test_members_far_apart_are_numbered_anew():
    """Without its member 13, statistics of 2 and then 30: a step of 28 needs the number, zigzag."""
    meta = b"\x15\x02\xbc" + STATISTICS + b"\x19\x1c" + PAGE + b"\x05\x3c\x09\x00"
    left = b"\x15\x02\xbc" + STATISTICS + b"\x05\x3c\x09\x00"
    whole, cut = (b"\x49\x1c\x19\x1c\x3c" + one + b"\x00\x00\x00" for one in (meta, left))
    assert changed(whole, FooterChanges(NOTHING, FIRST)) == cut


def test_all_else_that_pyarrow_tells_stays():
    columns = {
        "flag": pa.array([True, False, None]),
        "text": ["a", None, "z" * 300],
        "real": [1.5, None, -2.5],
        "many": pa.array([[1, 2], [], None], pa.list_(pa.int32())),
        "map": pa.array([[("k", 1.5)], [], None], pa.map_(pa.string(), pa.float64())),
        **{f"c{number}": [number, None, 3] for number in range(20)},
    }
    file = io.BytesIO()
    writer = pq.ParquetWriter(file, pa.table(columns).schema, write_page_index=True)
    for _ in range(20):
        writer.write_table(pa.table(columns))
    writer.add_key_value_metadata({"key": "value" * 100})
    writer.close()
    content = file.getvalue()
    length = int.from_bytes(content[-8:-4], "little")
    start = len(content) - 8 - length
    # The third column is `real`, which has no bounds in the last row group any more.
    chosen = frozenset({(19, 2)})
    made = changed(content[start:-8], FooterChanges(chosen, chosen))
    mended = content[:start] + made + len(made).to_bytes(4, "little") + content[-4:]
    before, after = (pq.ParquetFile(io.BytesIO(one)) for one in (content, mended))
    assert after.read() == before.read()
    told, expected = after.metadata.to_dict(), before.metadata.to_dict()
    assert told.pop("serialized_size") < expected.pop("serialized_size")
    one = expected["row_groups"][19]["columns"][2]["statistics"]
    assert (one["min"], one["max"], one["has_min_max"]) == (-2.5, 1.5, True)
    one |= {"min": None, "max": None, "has_min_max": False}
    assert told == expected
    assert after.metadata.metadata == before.metadata.metadata


def test_shapes_get_statistics_of_their_own():
    """Member 17 comes behind the others; bounds by bytes and the index of pages go."""
    box = BoundingBox((1.0, 2.0, math.nan, 7.0), (3.0, 4.0, math.nan, 8.0))
    told = shape_statistics(box, {2001, 1})
    ends = [b"\x17" + struct.pack("<d", value) for value in (1, 3, 2, 4)]
    # Members 1 to 4 of the box, then 7 and 8; a list (9) of two i32 (5), 1 and 2001, zigzag.
    measured = b"\x37" + struct.pack("<d", 7) + b"\x17" + struct.pack("<d", 8)
    assert told == b"\x1c" + b"".join(ends) + measured + b"\x00\x19\x25\x02\xa2\x1f\x00"
    column = b"\x26\x08\x1c\x15\x02\xbc" + STATISTICS + b"\x00\x15\x08\x15\x06\x16\x20\x15\x10\x00"
    # Of the members 4 to 7 of the chunk the last two go.
    left = b"\x26\x08\x1c\x15\x02\xbc" + COUNTED + b"\x5c" + told + b"\x00\x15\x08\x15\x06\x00"
    whole, mended = (b"\x49\x1c\x19\x1c" + one + b"\x00\x00" for one in (column, left))
    assert changed(whole, FooterChanges(shapes={(0, 0): told})) == mended
    expected = b"\x49\x1c\x19\x1c" + left.replace(b"\x5c" + told, b"") + b"\x00\x00"
    assert changed(whole, FooterChanges(shapes={(0, 0): None})) == expected


@pytest.mark.parametrize(
    "content",
    [
        b"\x49",  # a list without its header
        b"\x49\x15\x00\x00",  # numbers in place of row groups
        b"\x49\x1c\x1f\x00",  # a member of kind 15
        b"\x18\x7fshort",  # text longer than what there is
        b"\x16\xff\xff",  # a number without an end
        b"\x15\x02",  # a struct without an end
    ],
)
def test_r099_what_is_no_footer_is_damaged(content):
    with pytest.raises(CorruptTable, match="R-099"):
        changed(content, FooterChanges(FIRST, FIRST))


def test_numbers_are_replaced_whatever_memory_their_places_are_in():
    count = 200_000  # whose places are megabytes, which the system takes back at once
    content = octets(b"a\x02" * count)
    starts = np.arange(count) * 2 + 1
    places = np.stack([starts, starts + 1, starts], axis=1)
    found = replace_numbers(content, 0, len(content), places[:, :2], np.full(count, 3))
    assert found == b"a\x06" * count
