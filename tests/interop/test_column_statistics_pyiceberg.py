"""What roots say of columns of new files is what their values are; pyarrow reads both."""

from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DecimalType,
    DoubleType,
    FixedType,
    LongType,
    NestedField,
    StringType,
    TimestampType,
)

from icectl.cli import app
from tests.builders.filtered import on_files
from tests.builders.rows import head, local

KINDS = [
    ("flag", BooleanType()), ("big", LongType()), ("double", DoubleType()), ("zero", DoubleType()),
    ("nan", DoubleType()), ("dec", DecimalType(20, 2)), ("at", TimestampType()),
    ("short", StringType()), ("long", StringType()), ("huge", StringType()),
    ("bytes", BinaryType()), ("fixed", FixedType(4)), ("none", StringType()),
]  # fmt: skip
VALUES: dict[str, list[Any]] = {
    "flag": [False, True, True], "big": [5, None, -7], "double": [1.5, -2.0, 9.0],
    "zero": [0.0, 1.0, 2.0], "nan": [1.0, float("nan"), 2.0],
    "dec": [Decimal("1.25"), Decimal("-3.50"), None], "at": [10, 20, None],
    "short": ["ü", "abc", None], "long": ["a" * 30, "b" * 21, "c"],
    "huge": ["x" * 9_000, "y", "z" * 2], "bytes": [b"\x00", b"\xff\xff", b""],
    "fixed": [b"abcd", b"wxyz", b"mnop"], "none": [None, None, None],
}  # fmt: skip
LENGTHS = {"short": 5 // 2, "long": 52 // 3, "huge": 9_003 // 3, "bytes": 3 // 3}
"""Bytes of a value on average, by hand."""

LONGEST = {"short": 3, "long": 30, "huge": 9_000, "bytes": 2}

TIGHT = {
    **dict.fromkeys(("flag", "big", "double", "dec", "at", "short", "bytes", "fixed"), True),
    "long": False, "huge": False,  # cut
}  # fmt: skip
"""Zeros may be of either sign, and a footer has no bounds of a column with NaN."""


ROOT_ENTRY, LEAF_ENTRY = 0, 3


def by_id(struct: pa.Array) -> dict[int, pa.Array]:
    ids = (int(field.metadata[b"PARQUET:field_id"]) for field in struct.type)
    return dict(zip(ids, struct.flatten(), strict=True))


def statistics(path: Path, content_type: int) -> list[dict[int, dict[int, Any]]]:
    """What the rows of a kind in a root say of columns, by column and offset in its group."""
    columns = by_id(pa.Table.to_struct_array(pq.read_table(path)).combine_chunks())
    places = [at for at, code in enumerate(columns[134].to_pylist()) if code == content_type]
    groups = {
        (base - 10_000) // 200: {number - base: values for number, values in by_id(group).items()}
        for base, group in by_id(columns[10_000]).items()
    }
    return [
        {
            column: {offset: values[at].as_py() for offset, values in members.items()}
            for column, members in groups.items()
        }
        for at in places
    ]


def root_of(directory: Path) -> Path:
    return local(head(directory)["root-manifest"])


@pytest.fixture
def table(catalog: SqlCatalog) -> Path:
    """A table of layout sfc-1 with one data file, which icectl wrote: the root lists it."""
    fields = [NestedField(at, name, kind) for at, (name, kind) in enumerate(KINDS, 1)]
    table = catalog.create_table("db.t", Schema(*fields))
    schema = schema_to_pyarrow(table.schema(), include_field_ids=False)
    for at in range(3):
        arrays = [pa.array([VALUES[field.name][at]], field.type) for field in schema]
        table.append(pa.Table.from_arrays(arrays, schema=schema))
    directory = on_files(table, {})
    run("upgrade-to-v4", directory, "--layout=sfc-1")
    run("compact", directory, "--rewrite-all", "--engine=local")
    return directory


def run(command: str, directory: Path, *words: str) -> None:
    assert app.main([command, str(directory), *words, "--yes", "--quiet"]) == 0


def test_new_files_have_the_statistics_that_their_footers_prove(table):
    """Maintenance carries what is known, and sums it up for the root."""
    (found,) = statistics(root_of(table), ROOT_ENTRY)
    lower, upper, tight, average, longest = (
        {name: found[at].get(offset) for at, (name, _) in enumerate(KINDS, 1)}
        for offset in (1, 2, 3, 7, 8)
    )
    assert {name: flag for name, flag in tight.items() if flag is not None} == TIGHT
    assert {name: size for name, size in average.items() if size is not None} == LENGTHS
    assert {name: size for name, size in longest.items() if size is not None} == LONGEST
    for name, is_tight in TIGHT.items():
        values = [value for value in VALUES[name] if value is not None]
        if name == "at":
            assert (lower[name].microsecond, upper[name].microsecond) == (10, 20)
        elif is_tight:
            assert (lower[name], upper[name]) == (min(values), max(values)), name
        else:
            assert lower[name] <= min(values) < max(values) <= upper[name], name
    run("rewrite-manifests", table, "--rewrite-all")
    (summed,) = statistics(root_of(table), LEAF_ENTRY)
    loose = {3: False}  # sums of bounds that nothing is known of
    expected = {
        at: {**group, **(loose if group.get(1) is not None and group[3] is None else {})}
        for at, group in found.items()
    }
    assert summed == expected
    assert app.main(["validate", str(table), "--level", "data", "--quiet"]) == 0
