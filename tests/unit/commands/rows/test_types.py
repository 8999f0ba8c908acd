"""Values of types that Spark lacks, from data frames to files and back; what does not fit."""

from datetime import UTC, datetime, time
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from icectl.cli import app
from icectl.commands.rows import read as reading
from icectl.commands.rows.delete import delete, where
from icectl.commands.rows.deletion import WantedRows
from icectl.commands.rows.write import append
from icectl.errors import Refused, Unsupported
from icectl.format.schema import Schema
from icectl.format.types import NestedField, PrimitiveType
from icectl.rows.find_job import keys_of
from icectl.rows.spark_frames import OutgoingRows
from icectl.storage.local.store import LocalStore
from tests.builders.inline_rows import InlineFinder, InlineFrame, typed_tree, way_to
from tests.builders.rows import current_metadata, read_metadata, read_rows
from tests.unit.commands.rows.test_shapes import Loader

ONE, TWO = "00112233-4455-6677-8899-aabbccddeeff", "F47AC10B-58CC-4372-A567-0E02B2C3D479"
KINDS = {
    "id": pa.int64(), "u": pa.string(), "f": pa.binary(), "t": pa.time64("ns"),
    "ns": pa.timestamp("us"), "nz": pa.timestamp("us", "Pacific/Apia"),
    "us": pa.list_(pa.string()),
}  # fmt: skip
"""The columns as Spark hands them over."""
ROWS: list[dict[str, Any]] = [
    {
        "id": 1,
        "u": ONE,
        "f": b"abcd",
        "t": time(23, 59, 59, 999999),
        "ns": datetime(2262, 4, 11, 23, 47, 16, 854775),  # noqa: DTZ001 - without a zone
        "nz": datetime(1677, 9, 21, 0, 12, 43, 145225, UTC),
        "us": [TWO, None],
    },
    {"id": 2, "u": TWO, "f": None, "t": None, "ns": None, "nz": None, "us": None},
    {"id": 3, "u": None, "f": b"\0\0\0\xff", "t": time(0), "ns": None, "nz": None, "us": []},
]


def frame(rows: list[dict[str, Any]], **other: pa.DataType) -> InlineFrame:
    names = [name for name in KINDS if name in rows[0]]
    kinds = [(name, other.get(name, KINDS[name])) for name in names]
    return InlineFrame(pa.Table.from_pylist(rows, pa.schema(kinds)), LocalStore())


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table that has the rows, two of them from text and one from the bytes of UUIDs."""
    directory = typed_tree(tmp_path_factory.mktemp("types") / "t")
    append(way_to(directory), frame(ROWS[:2]), "main")
    append(way_to(directory), frame(ROWS[2:], u=pa.binary()), "main")
    return directory


def files(directory: Path) -> list[Path]:
    return sorted((directory / "data").rglob("*.parquet"))


def test_files_have_the_values_in_the_types_of_the_format(table):
    (one, two, three) = sorted(
        (dict(row) for row in read_rows(read_metadata(current_metadata(table)))),
        key=lambda row: row["id"],
    )
    assert one == {**ROWS[0], "u": UUID(ONE), "us": [UUID(TWO), None]}
    assert two == {**dict.fromkeys(KINDS), "id": 2, "u": UUID(TWO)}
    assert three == {**ROWS[2], "u": None}
    for path in files(table):
        schema = pq.ParquetFile(path).schema
        at = {schema.column(place).path: schema.column(place) for place in range(len(KINDS))}
        kinds = {name.split(".")[0]: found for name, found in at.items()}
        assert {name: (one.physical_type, one.length) for name, one in kinds.items()} == {
            "id": ("INT64", 0), "u": ("FIXED_LEN_BYTE_ARRAY", 16),
            "f": ("FIXED_LEN_BYTE_ARRAY", 4), "t": ("INT64", 0), "ns": ("INT64", 0),
            "nz": ("INT64", 0), "us": ("FIXED_LEN_BYTE_ARRAY", 16),
        }  # fmt: skip
        marks = {name: str(one.logical_type) for name, one in kinds.items()}
        assert (marks["u"], marks["us"], marks["f"]) == ("UUID", "UUID", "None")
        assert marks["t"].startswith("Time(isAdjustedToUTC=false, timeUnit=microseconds")
        assert marks["ns"].startswith("Timestamp(isAdjustedToUTC=false, timeUnit=nanoseconds")
        assert marks["nz"].startswith("Timestamp(isAdjustedToUTC=true, timeUnit=nanoseconds")


def test_loaded_rows_are_those_that_were_written(table):
    found = reading.load(way_to(table), Loader(), reading.Selection())
    rows = sorted(found.to_pylist(), key=lambda row: row["id"])
    assert rows == [ROWS[0] | {"us": [TWO.lower(), None]}, ROWS[1] | {"u": TWO.lower()}, ROWS[2]]
    assert found.schema.types == [*{**KINDS, "nz": pa.timestamp("us", "UTC")}.values()]


def test_moments_between_microseconds_are_not_cut(table):
    column = Schema(0, (NestedField(5, "ns", PrimitiveType("timestamp_ns"), required=False),))
    fine = pa.record_batch({"ns": pa.array([1_000, None, 1_001], pa.timestamp("ns"))})
    with pytest.raises(Unsupported, match="`ns` has timestamps finer than microseconds"):
        OutgoingRows(column).of(fine)
    assert OutgoingRows(column).of(fine.slice(0, 2)).to_pylist()[0]["ns"].microsecond == 1


@pytest.mark.parametrize(
    ("values", "kind", "told"),
    [
        ({"u": "nope"}, pa.string(), "`nope` is not a UUID"),
        ({"u": ONE + "\n"}, pa.string(), "is not a UUID"),
        ({"u": "{" + ONE + "}"}, pa.string(), "is not a UUID"),
        ({"us": [ONE, "x"]}, pa.list_(pa.string()), "`us` does not fit the table's: `x` is no"),
        ({"u": b"abc"}, pa.binary(), "`u` does not fit"),
        ({"f": b"abcde"}, pa.binary(), r"`f` does not fit the table's: .*fixed_size_binary\[4\]"),
        ({"ns": 9223372036854776}, pa.timestamp("us"), "`ns` does not fit .*out of bounds"),
        ({"f": "abcd"}, pa.string(), r"`f` is string in the DataFrame and fixed\[4\]"),
        ({"t": 1}, pa.int64(), "`t` is int64 in the DataFrame and time"),
        ({"t": "10:00"}, pa.string(), "`t` is string in the DataFrame and time"),
        ({"ns": 1}, pa.timestamp("us", "UTC"), "`ns` is timestamp"),
        ({"ns": 1}, pa.int64(), "`ns` is int64"),
    ],
)
def test_what_does_not_fit_is_refused_before_a_commit(table, values, kind, told):
    before = current_metadata(table), files(table)
    (name,) = values
    rows = InlineFrame(
        pa.table({"id": pa.array([1]), name: pa.array([values[name]], kind)}), LocalStore()
    )
    with pytest.raises(Refused, match=told):
        append(way_to(table), rows, "main")
    assert (current_metadata(table), files(table)) == before


def test_rows_are_deleted_by_keys_and_conditions_of_these_types(tmp_path):
    directory = typed_tree(tmp_path / "t")
    append(way_to(directory), frame(ROWS), "main")

    def gone(rows: Any) -> int:
        return delete(way_to(directory), InlineFinder(LocalStore()), rows, "main").deleted_rows

    def keys(metadata: Any) -> WantedRows:
        kinds = pa.schema([(name, KINDS[name]) for name in ("u", "t", "ns")])
        return WantedRows(*keys_of(pa.Table.from_pylist(ROWS[:1], kinds), metadata.current_schema))

    assert gone(keys) == 1
    assert gone(where(f"u = '{TWO}'")) == 1
    (left,) = read_rows(read_metadata(current_metadata(directory)))
    assert dict(left)["id"] == 3
    assert app.main(["validate", str(directory), "--level", "data", "--quiet"]) == 0
