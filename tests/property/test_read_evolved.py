"""Files of evolved tables in every format: rows are what a slow reader makes of them by field id.

A table's schema is drawn, then one that it may have had before: columns not there yet, dropped
since, renamed, moved, and of types that were promoted. Rows are written by that.
"""

import datetime as dt
import io
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import orc

from icectl.format.schema import schema_from_json
from icectl.rows.read_data import SourceFile, open_source

EPOCH = dt.date(1970, 1, 1)
NAMES = st.sampled_from(["a", "b", "a.b", "Aa", "é", "list", "element", "key", "value", "_x"])
PRIMITIVES: dict[str, tuple[tuple[str, ...], Any]] = {
    "long": (("int", "long"), st.integers(-(2**31), 2**31 - 1)),
    "double": (("float", "double"), st.sampled_from([0.5, -1.25, 2.0, float("inf")])),
    "decimal(20, 2)": (
        ("decimal(9, 2)", "decimal(20, 2)"),
        st.integers(-(10**8), 10**8).map(lambda cents: Decimal(cents).scaleb(-2)),
    ),
    "string": (("string",), st.sampled_from(["", "a", "é" * 20])),
    "boolean": (("boolean",), st.booleans()),
    "date": (("date",), st.dates(dt.date(1900, 1, 1), dt.date(2100, 1, 1))),
    "binary": (("binary",), st.sampled_from([b"", b"\0\xff"])),
}
ARROW = {
    "int": pa.int32(), "long": pa.int64(), "float": pa.float32(), "double": pa.float64(),
    "decimal(9, 2)": pa.decimal128(9, 2), "decimal(20, 2)": pa.decimal128(20, 2),
    "string": pa.string(), "boolean": pa.bool_(), "date": pa.date32(), "binary": pa.binary(),
}  # fmt: skip
AVRO = {
    "decimal(9, 2)": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
    "decimal(20, 2)": {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 2},
    "date": {"type": "int", "logicalType": "date"}, "binary": "bytes",
}  # fmt: skip


@dataclass(frozen=True)
class Column:
    """A field as the table has it now; `was` is what a file may call it, or nothing."""

    id: int
    name: str
    now: str
    """A primitive type, `struct`, `list` or `map`."""
    was: str
    old_name: str
    inner: tuple["Column", ...] = ()
    is_stored: bool = True
    is_kept: bool = True
    default: int | None = None


@st.composite
def columns(draw: Any, depth: int, ids: Iterator[int], name: str | None = None) -> Column:
    kinds = ["long", "long", *PRIMITIVES, *(["struct", "list", "map"] if depth else [])]
    now = draw(st.sampled_from(kinds))
    own, named = next(ids), name or draw(NAMES)
    plain = Column(own, named, now, now, draw(NAMES) if name is None else name)
    if now in PRIMITIVES:
        default = draw(st.sampled_from([None, 7])) if now == "long" else None
        return replace(plain, was=draw(st.sampled_from(PRIMITIVES[now][0])), default=default)
    if now == "struct":
        return replace(plain, inner=draw(fields(depth - 1, ids)))
    if now == "list":
        return replace(plain, inner=(draw(columns(depth - 1, ids, "element")),))
    key = Column(next(ids), "key", "string", "string", "key")
    return replace(plain, inner=(key, draw(columns(depth - 1, ids, "value"))))


@st.composite
def fields(draw: Any, depth: int, ids: Iterator[int]) -> tuple[Column, ...]:
    """Fields of a struct, of which a file has at least one, and the table too."""
    count = draw(st.integers(1, 4))
    found = [
        replace(
            draw(columns(depth, ids)), is_stored=draw(st.booleans()), is_kept=draw(st.booleans())
        )
        for _ in range(count)
    ]
    found[0] = replace(found[0], is_stored=True, is_kept=True)
    return tuple(
        replace(one, name=f"{one.name}{at}", old_name=f"{one.old_name}{at}")
        for at, one in enumerate(found)
    )


@st.composite
def values(draw: Any, column: Column) -> Any:
    """A value as it is stored: structs by field id, maps as pairs."""
    if draw(st.integers(0, 4)) == 0:
        return None
    return draw(present(column))


@st.composite
def present(draw: Any, column: Column) -> Any:
    if column.now == "struct":
        return {one.id: draw(values(one)) for one in column.inner if one.is_stored}
    if column.now == "list":
        return draw(st.lists(values(column.inner[0]), max_size=3))
    if column.now == "map":
        keys = draw(st.lists(st.sampled_from("abc"), unique=True))
        return [(key, draw(values(column.inner[1]))) for key in keys]
    return draw(PRIMITIVES[column.now][1])


def expected(column: Column, value: Any) -> Any:
    """What a stored value is in the table, as pyarrow shows it."""
    if value is None:
        return None
    if column.now == "struct":
        return {
            one.name: expected(one, value[one.id]) if one.is_stored else one.default
            for one in column.inner
            if one.is_kept
        }
    if column.now == "list":
        return [expected(column.inner[0], item) for item in value]
    if column.now == "map":
        return [(key, expected(column.inner[1], item)) for key, item in value]
    return value


def table_type(column: Column) -> Any:
    """The type as a schema's JSON has it."""
    if column.now == "struct":
        kept = [table_field(one) for one in column.inner if one.is_kept]
        return {"type": "struct", "fields": kept}
    if column.now == "list":
        (item,) = column.inner
        return {"type": "list", "element-id": item.id, "element": table_type(item),
                "element-required": False}  # fmt: skip
    if column.now == "map":
        key, item = column.inner
        return {"type": "map", "key-id": key.id, "key": "string", "value-id": item.id,
                "value": table_type(item), "value-required": False}  # fmt: skip
    return column.now


def table_field(column: Column) -> dict[str, Any]:
    described = {
        "id": column.id, "name": column.name, "type": table_type(column), "required": False,
    }  # fmt: skip
    return described if column.default is None else described | {"initial-default": column.default}


def arrow_field(column: Column, key: str, *, required: bool = False) -> pa.Field:
    """The column as a file has it; `key` is what its format calls field ids."""
    inner = [one for one in column.inner if one.is_stored]
    if column.now == "struct":
        kind = pa.struct([arrow_field(one, key) for one in inner])
    elif column.now == "list":
        kind = pa.list_(arrow_field(inner[0], key))
    elif column.now == "map":
        kind = pa.map_(arrow_field(inner[0], key, required=True), arrow_field(inner[1], key))
    else:
        kind = ARROW[column.was]
    return pa.field(column.old_name, kind, not required, {key: str(column.id)})


def arrow_value(column: Column, value: Any) -> Any:
    if value is None or column.now in PRIMITIVES:
        return value
    if column.now == "struct":
        return {
            one.old_name: arrow_value(one, value[one.id]) for one in column.inner if one.is_stored
        }
    if column.now == "list":
        return [arrow_value(column.inner[0], item) for item in value]
    return [(key, arrow_value(column.inner[1], item)) for key, item in value]


def avro_type(column: Column, numbers: Iterator[int]) -> Any:
    if column.now == "struct":
        return {"type": "record", "name": f"r{next(numbers)}", "fields": [
            avro_field(one, numbers) for one in column.inner if one.is_stored
        ]}  # fmt: skip
    if column.now == "list":
        (item,) = column.inner
        return {"type": "array", "items": ["null", avro_type(item, numbers)], "element-id": item.id}
    if column.now == "map":
        key, item = column.inner
        return {"type": "map", "values": ["null", avro_type(item, numbers)], "key-id": key.id,
                "value-id": item.id}  # fmt: skip
    return AVRO.get(column.was, column.was)


def avro_field(column: Column, numbers: Iterator[int]) -> dict[str, Any]:
    name = f"f{column.id}"  # Avro has few characters for names
    return {"name": name, "type": ["null", avro_type(column, numbers)], "field-id": column.id}


def avro_value(column: Column, value: Any) -> Any:
    if value is None or column.now in PRIMITIVES:
        return value
    if column.now == "struct":
        return {
            f"f{one.id}": avro_value(one, value[one.id]) for one in column.inner if one.is_stored
        }
    if column.now == "list":
        return [avro_value(column.inner[0], item) for item in value]
    return {key: avro_value(column.inner[1], item) for key, item in value}


@dataclass
class Drawn:
    columns: tuple[Column, ...]
    rows: list[dict[int, Any]] = field(default_factory=list)


@st.composite
def tables(draw: Any) -> Drawn:
    found = draw(fields(2, iter(range(1, 1000))))
    row = Column(0, "", "struct", "struct", "", found)
    return Drawn(found, draw(st.lists(present(row), max_size=6)))


def written(drawn: Drawn, file_format: str) -> bytes:
    file = io.BytesIO()
    row = Column(0, "", "struct", "struct", "", drawn.columns)
    if file_format == "avro":
        fastavro.writer(
            file, avro_type(row, iter(range(1000))), [avro_value(row, one) for one in drawn.rows]
        )
        return file.getvalue()
    key = "PARQUET:field_id" if file_format == "parquet" else "iceberg.id"
    schema = pa.schema([arrow_field(one, key) for one in drawn.columns if one.is_stored])
    rows = pa.Table.from_pylist([arrow_value(row, one) for one in drawn.rows], schema)
    (pq if file_format == "parquet" else orc).write_table(rows, file)
    return file.getvalue()


@given(tables(), st.sampled_from(["parquet", "orc", "avro"]), st.data())
@settings(max_examples=150, deadline=None)
def test_rows_are_those_that_the_table_means(drawn, file_format, data):
    kept = data.draw(st.permutations([one for one in drawn.columns if one.is_kept]))
    wanted = schema_from_json(
        {"type": "struct", "schema-id": 0, "fields": [table_field(one) for one in kept]}
    )
    content = io.BytesIO(written(drawn, file_format))
    source = open_source(content, SourceFile("f", file_format, len(drawn.rows), 1), wanted, ())
    found = []
    for part in source.stored():
        positions = np.arange(part.first_row, part.first_row + part.batch.num_rows)
        batch = source.project(part.batch, positions)
        batch.validate(full=True)
        found += batch.to_pylist()
    row = Column(0, "", "struct", "struct", "", tuple(kept))
    assert found == [expected(row, one) for one in drawn.rows]
