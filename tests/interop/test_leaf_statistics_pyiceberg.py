"""Leaves that a condition leaves out hold no row that matches, in values of each type.

PyIceberg writes the rows. Each leaf has one file, of one value or of two.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from operator import eq, gt, lt
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from icectl.cli import app
from icectl.entries.conditions import parse_where
from icectl.entries.may_match import METRICS
from icectl.entries.rows import by_row
from icectl.rows.named_files import live_files
from icectl.sfc1.reader import RootReader
from tests.builders.filtered import COLUMNS, FILES, LEAF_EACH, UNPROMOTED, own_literal, spread
from tests.builders.inline_rows import way_to
from tests.builders.rows import local

ONE_OF_EACH_TYPE = (
    "flag", "small", "big", "float", "double", "minus_zero", "some_nan", "dec38", "day", "instant",
    "text", "uuid", "bytes", "fixed4",
)  # fmt: skip


def conditions(name: str, operators: str) -> Iterator[tuple[str, Callable[[Any], bool]]]:
    """Conditions on a column, and what they are of a value."""
    yield f"{name} is null", lambda row: row is None
    if isinstance(COLUMNS[name].values[0], float):
        yield f"{name} is nan", lambda row: row is not None and math.isnan(row)
    for value in COLUMNS[name].values:
        if isinstance(value, float) and not math.isfinite(value):  # conditions have no word for it
            continue
        text = own_literal(COLUMNS[name].type, value)
        for operator in operators[:1] if isinstance(value, bool) else operators:
            compare = {"=": eq, "<": lt, ">": gt}[operator]
            yield f"{name} {operator} {text}", partial(_holds, compare, value)


def _holds(compare: Callable[[Any, Any], bool], value: object, row: object) -> bool:
    return row is not None and compare(row, value)


@pytest.mark.parametrize(
    ("names", "operators", "modes"),
    [
        (ONE_OF_EACH_TYPE, "=", ([],)),
        pytest.param(UNPROMOTED, "=<>", ([], ["--eager"]), marks=pytest.mark.full),
    ],
    ids=["few", "every"],
)
def test_no_leaf_with_a_matching_row_is_left_out(catalog, names, operators, modes):
    """First in Avro manifests below a root, then in leaves."""
    directory = spread(catalog, names, LEAF_EACH)
    upgrade = ["upgrade-to-v4", str(directory), "--layout=sfc-1", "--yes", "--quiet"]
    left_out = []
    for mode in modes:
        assert app.main([*upgrade, *mode]) == 0
        asked, *counts = asked_and_left_out(directory, names, operators)
        left_out += counts
        assert counts[0] > asked
    assert len(set(left_out)) == 1  # roots know as much of manifests as of leaves


def asked_and_left_out(directory: Path, names: Sequence[str], operators: str) -> tuple[int, int]:
    """Count conditions, and leaves that they leave out; none of these has a row that matches."""
    context = way_to(directory)
    metadata = context.catalog.load().metadata
    files = live_files(context, metadata, metadata.current_snapshot, {}, METRICS)
    snapshot, reader = metadata.snapshots[-1], RootReader(metadata)
    rows = {
        files.manifests[at].manifest_path: pq.read_table(local(place), partitioning=None)
        for place, at in by_row(files.data, "location", "manifest")
    }
    assert len(rows) == FILES
    asked = left_out = 0
    for name in names:
        held = {leaf: table[name].to_pylist() for leaf, table in rows.items()}
        for text, is_match in conditions(name, operators):
            predicate = parse_where(text, metadata)
            needed, others = reader.manifests_of(context.store, snapshot, predicate)
            for leaf in others:
                assert not any(map(is_match, held[leaf.manifest_path])), text
            assert len(needed) + len(others) == FILES
            asked, left_out = asked + 1, left_out + len(others)
    return asked, left_out
