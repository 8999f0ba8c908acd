"""Rows that PyIceberg finds by filters in files of icectl: all that there are."""

from collections.abc import Callable, Iterator
from operator import eq, gt, lt
from typing import Any
from uuid import UUID

import pytest
from pyiceberg.expressions import (
    BooleanExpression,
    EqualTo,
    GreaterThan,
    In,
    IsNaN,
    IsNull,
    LessThan,
)
from pyiceberg.table import StaticTable
from pyiceberg.types import FloatType, UUIDType

from icectl.cli.app import main
from tests.builders.filtered import COLUMNS, INF, Column, build, names
from tests.builders.rows import current_metadata

PLAIN = {"write.parquet.row-group-size-bytes": "1", "write.metadata.metrics.default": "full"}
COMPARISONS: tuple[tuple[Any, Callable[[Any, Any], bool]], ...] = (
    (EqualTo, eq), (LessThan, lt), (GreaterThan, gt), (lambda name, value: In(name, [value]), eq),
)  # fmt: skip


def questions(
    name: str, column: Column, rows: list[Any]
) -> Iterator[tuple[BooleanExpression, int]]:
    """Filters on a column, and how many of its rows Python finds by each."""
    present = [row for row in rows if row is not None]
    if isinstance(column.type, UUIDType):
        present = [row if isinstance(row, UUID) else UUID(bytes=row) for row in present]
    yield IsNull(name), len(rows) - len(present)
    for value in column.values:
        if value != value:
            yield IsNaN(name), sum(row != row for row in present)
        # PyIceberg takes the infinities for values that a float can't have.
        elif not (isinstance(column.type, FloatType) and abs(value) == INF):
            for asked, compare in COMPARISONS:
                yield asked(name, value), sum(compare(row, value) for row in present)


SUSPECTS = ("uuid", "held.uuid", "double", "minus_zero", "plus_zero", "some_nan", "fixed16", "text")


@pytest.mark.parametrize("suspects", [SUSPECTS, pytest.param((), marks=pytest.mark.full)])
def test_filters_find_every_row(tmp_path, suspects):
    directory = build(tmp_path, "small", PLAIN)
    assert main(["compact", str(directory), "--rewrite-all", "--engine", "local"]) == 0
    table = StaticTable.from_metadata(str(current_metadata(directory)))
    rows = table.scan().to_arrow().to_pylist()
    held = [row["held"] or dict.fromkeys(COLUMNS) for row in rows]
    for name in suspects or names():
        first, _, inside = name.rpartition(".")
        found = [row[inside] for row in (held if first else rows)]
        for asked, count in questions(name, names()[name], found):
            scan = table.scan(row_filter=asked, selected_fields=("flag",))
            assert (asked, scan.to_arrow().num_rows) == (asked, count)
