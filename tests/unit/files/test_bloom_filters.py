"""Bloom filters of new Parquet files, as DuckDB reads them: no value that is there is missed."""

from decimal import Decimal
from io import BytesIO
from pathlib import Path
from typing import Any
from uuid import UUID

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from icectl.errors import Refused
from icectl.files.parquet.data_file import open_parquet
from icectl.files.parquet.write import ParquetOptions, ParquetWriter
from icectl.format.properties import bloom_filters

ROWS = 2000
KINDS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "int": (pa.int32(), list(range(0, 4 * ROWS, 2))),
    "long": (pa.int64(), [number << 40 for number in range(2 * ROWS)]),
    "date": (pa.date32(), list(range(2 * ROWS))),
    "timestamptz": (pa.timestamp("us", "UTC"), list(range(2 * ROWS))),
    "string": (pa.string(), [f"näme {number}" for number in range(2 * ROWS)]),
    "binary": (pa.binary(), [b"b%d" % number for number in range(2 * ROWS)]),
    "decimal": (pa.decimal128(9, 2), [Decimal(number).scaleb(-2) for number in range(2 * ROWS)]),
    "uuid": (pa.uuid(), [UUID(int=number << 64 | number).bytes for number in range(2 * ROWS)]),
}
"""Values of each type: the first half is written, the second one is not there."""


def written(path: Path, columns: dict[str, pa.Array], options: ParquetOptions) -> str:
    """A file of two row groups."""
    batch = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
    sink = BytesIO()
    writer = ParquetWriter(sink, batch.schema, options, {})
    half = batch.num_rows // 2
    for part in (batch.slice(0, half), batch.slice(half)):
        writer.write_row_group([part])
    writer.close()
    path.write_bytes(sink.getvalue())
    return str(path)


def column(kind: pa.DataType, values: list[Any]) -> pa.Array:
    if kind == pa.uuid():
        return pa.ExtensionArray.from_storage(kind, pa.array(values, pa.binary(16)))
    return pa.array(values, kind)


def excluded(path: str, name: str, values: pa.Array) -> int:
    """How often DuckDB excludes a row group for a value."""
    found = 0
    for value in values.to_pylist():
        rows = duckdb.execute(
            "SELECT bloom_filter_excludes FROM parquet_bloom_probe(?, ?, ?)", [path, name, value]
        ).fetchall()
        found += sum(excludes for (excludes,) in rows)
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_values_that_are_there_are_found(tmp_path, kind):
    type_, values = KINDS[kind]
    options = ParquetOptions(bloom_filters={"x": 0.01})
    path = written(tmp_path / "f.parquet", {"x": column(type_, values[:ROWS])}, options)
    sample = slice(0, ROWS, 40)
    there = column(type_, values[:ROWS][sample])
    # Each value is in one of both row groups, so that the other one alone may be excluded.
    assert excluded(path, "x", there) <= len(there)
    for first in (0, ROWS // 2):
        half = column(type_, values[first : first + ROWS // 2][::20])
        groups = [
            [
                excludes
                for (excludes,) in duckdb.execute(
                    "SELECT bloom_filter_excludes FROM parquet_bloom_probe(?, 'x', ?) "
                    "ORDER BY row_group_id",
                    [path, value],
                ).fetchall()
            ]
            for value in half.to_pylist()
        ]
        assert not any(group[first // (ROWS // 2)] for group in groups)
    absent = column(type_, values[ROWS:][sample])
    assert excluded(path, "x", absent) >= 0.9 * 2 * len(absent)


def filters(path: str) -> dict[str, int]:
    """The bytes of all Bloom filters, by column."""
    rows = duckdb.execute(
        "SELECT path_in_schema, sum(bloom_filter_length) FROM parquet_metadata(?) GROUP BY ALL",
        [path],
    ).fetchall()
    return {name: size or 0 for name, size in rows}


def test_only_columns_that_readers_agree_on_get_one(tmp_path):
    numbers = list(range(ROWS))
    inner = pa.array([{"id": number} for number in numbers], pa.struct([("id", pa.int64())]))
    columns = {
        "id": pa.array(numbers),
        "of": inner,
        "real": pa.array(numbers, pa.float64()),
        "flag": pa.array([True] * ROWS),
        "plain": pa.array(numbers),
    }
    asked = dict.fromkeys(["id", "of.id", "real", "flag", "gone"], 0.01)
    found = filters(written(tmp_path / "f.parquet", columns, ParquetOptions(bloom_filters=asked)))
    assert {name.replace(", ", ".") for name, size in found.items() if size} == {"id", "of.id"}


@pytest.mark.parametrize("compiled", [True, False])
def test_columns_are_told_in_which_readers_have_neither_filter_nor_dictionary(
    tmp_path, monkeypatch, compiled
):
    fields = [pa.field(name, pa.string()) for name in ["filtered", "coded", "plain", "overflowing"]]
    schema = pa.schema(
        [field.with_metadata({"PARQUET:field_id": str(at)}) for at, field in enumerate(fields, 1)]
    )
    distinct = pa.array([f"{number:08}" for number in range(20_000)])
    few = pa.array([f"{number % 7}" for number in range(20_000)])
    table = pa.table([distinct, few, distinct, distinct], schema=schema)
    path = tmp_path / "f.parquet"
    pq.write_table(
        table, path, use_dictionary=["coded", "overflowing"], dictionary_pagesize_limit=4096,
        bloom_filter_options={"filtered": {"ndv": 20_000, "fpp": 0.01}},
    )  # fmt: skip
    if not compiled:
        monkeypatch.setattr("icectl.files.parquet.footer.loops", lambda: None)
    found = open_parquet(BytesIO(path.read_bytes()), ()).unfiltered
    # Without the loops nobody sees that a dictionary lacks values, and the column is let pass.
    assert found == ({3, 4} if compiled else {3})
    assert {name for name, size in filters(str(path)).items() if size} == {"filtered"}


def test_a_filter_is_no_larger_than_the_property_says(tmp_path):
    columns = {"id": pa.array(range(40_000))}
    for most in (1024, 1500):
        options = ParquetOptions(bloom_filters={"id": 0.01}, bloom_filter_bytes=most)
        path = written(tmp_path / f"{most}.parquet", columns, options)
        header = 32
        assert 2 * 1024 <= filters(path)["id"] <= 2 * (1024 + header)


def test_r021_properties_name_columns_and_false_positives():
    enabled = "write.parquet.bloom-filter-enabled.column."
    ratio = "write.parquet.bloom-filter-fpp.column."
    asked = {
        f"{enabled}id": "true", f"{enabled}a.b": "TRUE", f"{ratio}a.b": "0.2",
        f"{enabled}c": "false",
    }  # fmt: skip
    assert bloom_filters(asked) == {"id": 0.01, "a.b": 0.2, "c": 0}
    for wrong in ({f"{enabled}id": "ja"}, {f"{enabled}id": "true", f"{ratio}id": "1"}):
        with pytest.raises(Refused):
            bloom_filters(wrong)
