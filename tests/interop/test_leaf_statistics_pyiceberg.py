"""Leaves that a condition leaves out hold no row that matches, in values of each type.

PyIceberg writes the rows. Each leaf has one file, of one value or of two. Some columns are
promoted in half of them; each is there again in a struct.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from operator import eq, gt, lt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from icectl.cli import app
from icectl.entries.conditions import parse_where
from icectl.entries.may_match import METRICS
from icectl.entries.rows import by_row
from icectl.rows.named_files import live_files
from icectl.sfc1.manifests import TreeSchema, read_root
from icectl.sfc1.reader import leaves_without
from icectl.storage.location import comparison_key
from tests.builders.filtered import ALL, FILES, LEAF_EACH, names, own_literal, spread
from tests.builders.inline_rows import way_to
from tests.builders.rows import local

ONE_OF_EACH_TYPE = (
    "flag", "small", "big", "float", "double", "minus_zero", "some_nan", "dec38", "day", "instant",
    "text", "uuid", "bytes", "fixed4", "clock", "nanos", "nanos_utc", "dec38_of_9",
)  # fmt: skip

COMPACT = ["compact", "--rewrite-all", "--engine=local"]


def conditions(name: str, operators: str) -> Iterator[tuple[str, Callable[[Any], bool]]]:
    """Conditions on a column, and what they are of a value."""
    column = names(ALL)[name]
    yield f"{name} is null", lambda row: row is None
    if isinstance(column.values[0], float):
        yield f"{name} is nan", lambda row: row is not None and math.isnan(row)
    for value in column.values:
        if isinstance(value, float) and not math.isfinite(value):  # conditions have no word for it
            continue
        text = own_literal(column.type, value)
        for operator in operators[:1] if isinstance(value, bool) else operators:
            compare = {"=": eq, "<": lt, ">": gt}[operator]
            yield f"{name} {operator} {text}", partial(_holds, compare, value)


def _holds(compare: Callable[[Any, Any], bool], value: object, row: object) -> bool:
    return row is not None and compare(row, value)


@pytest.mark.parametrize(
    ("chosen", "operators", "modes"),
    [
        (ONE_OF_EACH_TYPE, "=", ([],)),
        pytest.param(tuple(ALL), "=<>", ([], ["--eager"]), marks=pytest.mark.full),
    ],
    ids=["few", "every"],
)
def test_no_leaf_with_a_matching_row_is_left_out(catalog, chosen, operators, modes):
    """First in Avro manifests below a root, then in leaves, then by the metrics of icectl."""
    directory = spread(catalog, chosen, LEAF_EACH)
    left_out = []
    for words in (*(["upgrade-to-v4", "--layout=sfc-1", *mode] for mode in modes), COMPACT):
        assert app.main([*words, str(directory), "--yes", "--quiet"]) == 0
        left_out.append(asked_and_left_out(directory, chosen, operators))
    *by_pyiceberg, (asked, count) = left_out
    assert len(set(by_pyiceberg)) == 1  # roots know as much of manifests as of leaves
    assert asked < by_pyiceberg[0][1] < count  # PyIceberg has no bounds inside of structs


def asked_and_left_out(directory: Path, chosen: Sequence[str], operators: str) -> tuple[int, int]:
    """Count conditions, and leaves that they leave out; none of these has a row that matches."""
    context = way_to(directory)
    metadata = context.catalog.load().metadata
    files = live_files(context, metadata, metadata.current_snapshot, {}, METRICS)
    facts = TreeSchema(metadata)
    root = read_root(context.store, facts, metadata.snapshots[-1])
    leaves = [comparison_key(one.manifest_path) for one in files.manifests]
    rows = {
        leaves[at]: pq.read_table(local(place), partitioning=None)
        for place, at in by_row(files.data, "location", "manifest")
    }
    assert len(rows) == FILES
    asked = left_out = 0
    for name in names({one: ALL[one] for one in chosen}):
        held = {leaf: values(table, name) for leaf, table in rows.items()}
        for text, is_match in conditions(name, operators if name in ALL else operators[-1]):
            alive = leaves_without(facts, root, parse_where(text, metadata)) & rows.keys()
            for leaf in alive:
                assert not any(map(is_match, held[leaf])), text
            asked, left_out = asked + 1, left_out + len(alive)
    return asked, left_out


def values(table: pa.Table, name: str) -> list[Any]:
    """The values of a column, or of one in a struct."""
    plain = table.flatten() if "." in name else table
    column = plain[name]
    if pa.types.is_timestamp(column.type) and column.type.unit == "ns":
        column = column.cast(pa.int64())
    found: list[Any] = column.to_pylist()
    return found
