"""Depths of files are those that counting every gap between bounds gives, in exact numbers."""

import math
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from icectl.entries.clustering import (
    RANGE_OF_ROWS,
    ClusteringKey,
    depths,
    joined,
    metrics_of,
    spans_of,
)
from icectl.entries.rows import part
from icectl.format.single_value import encode
from icectl.format.transforms import Transform
from icectl.format.types import DecimalType, PrimitiveType
from tests.builders.entry_rows import data, entries

TYPES: dict[str, tuple[Any, st.SearchStrategy[Any]]] = {
    "int": (PrimitiveType("int"), st.integers(-5, 5)),
    "long": (
        PrimitiveType("long"),
        st.integers(-5, 5) | st.sampled_from([-(2**63), 2**63 - 1, 2**62]),
    ),
    "double": (PrimitiveType("double"), st.sampled_from([-1e18, -1.5, -0.0, 0.0, 0.5, 1e-9, 1e18])),
    "string": (PrimitiveType("string"), st.text("abé\U0001f600", max_size=2)),
    "decimal": (
        DecimalType(38, 0),
        st.integers(-5, 5) | st.sampled_from([10**30, 10**30 + 1, -(10**30)]),
    ),
}


File = tuple[Any, Any, int, int]
"""Lowest and highest value, rows and group."""


def gaps(name: str, ends: list[Any]) -> list[Fraction]:
    """The distances between neighbouring ends: of text, one each."""
    pairs = pairwise(ends)
    return [Fraction(1) if name == "string" else Fraction(b) - Fraction(a) for a, b in pairs]


def depth(name: str, file: File, peers: list[File]) -> Fraction:
    """The depth of a file among its peers, one gap after the other."""
    low, high, *_ = file
    ends = sorted({end for peer in peers for end in peer[:2]})
    if low == high:
        return Fraction(sum(a <= low <= b for a, b, *_ in peers))
    widths = gaps(name, ends)
    own = range(ends.index(low), ends.index(high))
    counts = {at: sum(a <= ends[at] and b >= ends[at + 1] for a, b, *_ in peers) for at in own}
    return sum((widths[at] * counts[at] for at in own), Fraction(0)) / sum(widths[at] for at in own)


def rows_up_to(name: str, end: Any, peers: list[File], *, included: bool) -> Fraction:
    """The rows of all peers at values up to an end."""
    ends = sorted({end for peer in peers for end in peer[:2]})
    widths, total = gaps(name, ends), Fraction(0)
    for a, b, rows, _ in peers:
        if a == b:
            total += rows if a < end or (included and a == end) else 0
            continue
        first, last = ends.index(a), ends.index(b)
        share = sum(widths[first : max(first, min(last, ends.index(end)))])
        total += rows * share / sum(widths[first:last])
    return total


def chance(name: str, file: File, peers: list[File]) -> Fraction:
    """The chance that a range opens the file, if each place of its start is as likely."""
    every, ranged = sum(rows for *_, rows, _ in peers), Fraction(RANGE_OF_ROWS)
    start = rows_up_to(name, file[0], peers, included=False) / every - ranged
    stop = rows_up_to(name, file[1], peers, included=True) / every
    return max(min(stop, 1 - ranged) - max(start, Fraction(0)), Fraction(0)) / (1 - ranged)


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_depths_are_those_of_counting(draw):
    name = draw.draw(st.sampled_from(sorted(TYPES)))
    type_, values = TYPES[name]
    file = st.tuples(values, values, st.integers(1, 9), st.integers(0, 1))
    files = [
        (min(a, b), max(a, b), rows, group)
        for a, b, rows, group in draw.draw(st.lists(file, min_size=1, max_size=9))
    ]
    found = entries(
        *(
            data(
                f"f{at}",
                record_count=rows + 2,
                null_value_counts=[(1, 2)],
                nan_value_counts=[],
                lower_bounds=[(2, b""), (1, encode(type_, low))],
                upper_bounds=[(1, encode(type_, high))],
            )
            for at, (low, high, rows, _) in enumerate(files)
        )
    )
    key = ClusteringKey("c", 1, type_, Transform("identity", "identity"))
    cut = draw.draw(st.integers(1, len(files)))
    batches = [part(found, 0, cut), part(found, cut, len(files))]
    spans = joined([spans_of(one, metrics_of(one), key) for one in batches if len(one)])
    shown = depths(spans, np.array([group for *_, group in files], np.int64), 2)
    for number, file in enumerate(files):
        peers = [peer for peer in files if peer[3] == file[3]]
        assert math.isclose(shown.of_files[number], depth(name, file, peers), rel_tol=1e-9)
        most = max(sum(a <= x <= b for a, b, *_ in peers) for x, *_ in peers)
        assert shown.most[file[3]] == most
    in_all = depths(spans, np.zeros(len(files), np.int64), 1)
    for number, file in enumerate(files):
        opened = chance(name, file, files)
        assert math.isclose(in_all.opened[number], opened, rel_tol=1e-6, abs_tol=1e-9)
