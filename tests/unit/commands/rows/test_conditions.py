"""Conditions on rows and on files agree with one written by hand, on what files really hold."""

import random
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from icectl.commands.rows.write import append
from icectl.entries.conditions import parse_where
from icectl.entries.may_match import METRICS, all_match, may_match
from icectl.files.parquet.schema import arrow_schema
from icectl.rows.find_job import matches
from icectl.rows.named_files import live_files
from icectl.sfc1.reader import RootReader
from icectl.storage.local.store import LocalStore
from tests.builders.inline_rows import COLUMNS, InlineFrame, rows_of, tree, way_to
from tests.builders.rows import local

Row = dict[str, Any]
Truth = Callable[[Row], bool | None]
"""True, false, or None where it is unknown."""


def leaf(rng: random.Random) -> tuple[str, Truth]:
    """A condition on one column, and what it is of a row."""
    kind = rng.randrange(6)
    number = rng.randint(-1, 40)
    if kind == 0:
        return f"id <= {number}", lambda row: row["id"] <= number
    if kind == 1:
        text = f"c{rng.randint(0, 3)}"
        return f"category = '{text}'", _known("category", lambda value: value == text)
    if kind == 2:
        prefix = rng.choice(["note", "note 1", "note 2", "x"])
        return f"note like '{prefix}%'", _known("note", lambda value: value.startswith(prefix))
    if kind == 3:
        return "note is null", lambda row: row["note"] is None
    if kind == 4:
        cents = number * 100
        return f"amount > {number}", _known("amount", lambda value: value * 100 > cents)
    day = rng.choice(["2023-11-15", "2023-11-16", "2023-11-20"])
    return f"at < '{day}'", _known("at", lambda value: str(value) < day)


def _known(column: str, holds: Callable[[Any], bool]) -> Truth:
    return lambda row: None if row[column] is None else holds(row[column])


def condition(rng: random.Random, depth: int = 0) -> tuple[str, Truth]:
    """A condition of some parts."""
    kind = rng.choice(["leaf", "leaf", "not", "and", "or"]) if depth < 3 else "leaf"
    if kind == "leaf":
        return leaf(rng)
    text, truth = condition(rng, depth + 1)
    if kind == "not":
        return f"not ({text})", lambda row: None if truth(row) is None else not truth(row)
    other_text, other = condition(rng, depth + 1)
    decisive = kind == "or"

    def joined(row: Row) -> bool | None:
        both = (truth(row), other(row))
        if decisive in both:
            return decisive
        return None if None in both else not decisive

    return f"({text}) {kind} ({other_text})", joined


@pytest.mark.parametrize("rounds", [30, pytest.param(300, marks=pytest.mark.full)])
@pytest.mark.parametrize("partitioning", ["none", "two", "day", "truncate"])
def test_files_hold_the_rows_that_are_claimed(tmp_path, partitioning, rounds):
    """Files by their entries, and leaves, of one file each here, by what their root says."""
    rng = random.Random(partitioning)
    one_each = {"icectl__v4__root__max_data_files": "0", "icectl__v4__leaf__max_entries": "1"}
    directory = tree(tmp_path / "t", partitioning, **one_each)
    for start in (0, 15, 30):
        rows = rows_of(range(start, start + 15)).to_pylist()
        for row in rows:
            for name in ("category", "amount", "at"):
                row[name] = None if rng.random() < 0.15 else row[name]
        frame = InlineFrame(pa.Table.from_pylist(rows, COLUMNS), LocalStore())
        append(way_to(directory), frame, "main")
    context = way_to(directory)
    metadata = context.catalog.load().metadata
    files = live_files(context, metadata, metadata.current_snapshot, {}, METRICS)
    held = [
        pq.read_table(local(place), partitioning=None).cast(arrow_schema(metadata.current_schema))
        for place in files.data.table["location"].to_pylist()
    ]
    shown = [(table.to_batches()[0], table.to_pylist()) for table in held]
    leaves = [files.manifests[at].manifest_path for at in files.data.table["manifest"].to_pylist()]
    snapshot, reader = metadata.snapshots[-1], RootReader(metadata)
    proved = left_out = 0
    for _ in range(rounds):
        text, truth = condition(rng)
        predicate = parse_where(text, metadata)
        place = (files.data, predicate, metadata.partition_specs, metadata.schemas)
        may, every = may_match(*place), all_match(*place)
        kept, others = reader.manifests_of(context.store, snapshot, predicate)
        opened = {one.manifest_path for one in kept}
        assert bool(others) == (opened != set(leaves)), text
        left_out += len(leaves) - len(opened)
        for at, (batch, known) in enumerate(shown):
            expected = [truth(row) for row in known]
            assert matches(predicate, batch).to_pylist() == expected, text
            assert may[at] or not any(expected), text
            assert leaves[at] in opened or not any(expected), text
            assert not every[at] or all(expected), text
            proved += bool(every[at])
    assert proved > rounds // 20
    assert left_out > rounds // 2
