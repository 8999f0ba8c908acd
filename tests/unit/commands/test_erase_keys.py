"""The keys of a file, of every type: each is read as the value that it means, or refused."""

import math
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from icectl.commands.erase.keys import KeyFile, KeySet, read_keys
from icectl.errors import UsageError
from icectl.format.partition import PartitionSpec
from icectl.format.schema import Schema
from icectl.format.types import DecimalType, FixedType, NestedField, PrimitiveType, Type
from icectl.rows.find_job import Keys
from tests.builders.plain_metadata import plain_metadata

NAME = "f79c3e09-677c-4bbd-a479-3f349cb785e7"
OCTETS = UUID(NAME).bytes
HALF = Decimal("1.50")
UUIDS = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([OCTETS], pa.binary(16)))


def read(file: Path, type_: Type | str) -> KeySet:
    kind = PrimitiveType(type_) if isinstance(type_, str) else type_
    metadata = plain_metadata(
        Schema(0, (NestedField(1, "x", kind, required=False),)), PartitionSpec(0, ()),
        format_version=3, location="t", last_column_id=1,
        table_uuid="9c12d441-03fe-4693-9a96-a0705ddf69c1",
    )  # fmt: skip
    secret = file.parent / "secret"
    secret.write_bytes(bytes(16))
    return read_keys(KeyFile(str(file), "x"), str(secret), metadata)


def bytes_in(keys: KeySet) -> list[Any]:
    """The keys as they are looked for; times as numbers."""
    assert isinstance(keys.wanted.rows, Keys)
    column = pq.read_table(keys.wanted.rows.open()).column(0).combine_chunks()
    stored = getattr(column, "storage", column)
    found: list[Any] = (
        stored.cast("int64") if pa.types.is_temporal(stored.type) else stored
    ).to_pylist()
    return found


@pytest.mark.parametrize(
    ("kind", "text", "column", "value"),
    [
        ("uuid", NAME, UUIDS, OCTETS),
        ("uuid", NAME.upper(), pa.array([NAME]), OCTETS),
        ("uuid", NAME, pa.array([OCTETS], pa.binary(16)), OCTETS),
        (FixedType(3), "0001ff", pa.array([b"\0\1\xff"], pa.binary(3)), b"\0\1\xff"),
        ("binary", "00ff", pa.array([b"\0\xff"], pa.large_binary()), b"\0\xff"),
        ("int", "7", pa.array([7], pa.int8()), 7),
        ("double", "-0.5", pa.array([-0.5], pa.float32()), -0.5),
        ("float", "Infinity", pa.array([math.inf], pa.float32()), math.inf),
        (DecimalType(9, 2), "1.5", pa.array([HALF], pa.decimal128(5, 2)), HALF),
        ("timestamp_ns", "1970-01-01T00:00:00.000000007", pa.array([7], pa.timestamp("ns")), 7),
        ("timestamptz", "1970-01-01T01:00:00+01:00", pa.array([0], pa.timestamp("us", "UTC")), 0),
    ],
)  # fmt: skip
def test_a_key_is_the_same_as_text_and_in_parquet(tmp_path, kind, text, column, value):
    (tmp_path / "k.txt").write_text(text + "\n")
    pq.write_table(pa.table({"x": column}), tmp_path / "k.parquet")
    both = [read(tmp_path / name, kind) for name in ("k.txt", "k.parquet")]
    assert [bytes_in(keys) for keys in both] == [[value], [value]]
    assert both[0].digest == both[1].digest != None  # noqa: E711


@pytest.mark.parametrize(("kind", "text"), [("double", "1e400"), ("float", "-1e39")])
def test_a_number_that_is_too_large_is_no_infinity(tmp_path, kind, text):
    (tmp_path / "k.txt").write_text(text + "\n")
    with pytest.raises(UsageError, match="line 1: `x` is not"):
        read(tmp_path / "k.txt", kind)


def test_a_time_with_too_many_digits_is_refused_without_it(tmp_path):
    pq.write_table(pa.table({"x": pa.array([4711], pa.timestamp("ns"))}), tmp_path / "k.parquet")
    with pytest.raises(UsageError, match="do not match") as caught:
        read(tmp_path / "k.parquet", "timestamp")
    assert "4711" not in f"{caught.value.message} {caught.value.hint}"


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [("k.txt", "4712\n1", 2), ("k.txt", "1", 1), ("k.csv", "x\r\n4712\r\n1", 3),
     ("k.csv", "x,y\n1,2\n1,", 3)],
)  # fmt: skip
def test_a_last_line_without_an_end_may_be_half_a_key(tmp_path, name, text, line):
    (tmp_path / name).write_bytes(text.encode())
    with pytest.raises(UsageError, match=f"line {line}: it has no line end") as error:
        read(tmp_path / name, "int")
    assert "rename" in (error.value.hint or "")


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_any_end_of_a_line_ends_a_key(tmp_path, end):
    (tmp_path / "k.txt").write_bytes(f"4712{end}".encode())
    assert bytes_in(read(tmp_path / "k.txt", "int")) == [4712]
