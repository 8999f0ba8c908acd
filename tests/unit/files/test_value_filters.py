"""Values that row groups can't have: none that is there is missed, whoever wrote the file."""

import math
from collections.abc import Callable
from decimal import Decimal
from io import BytesIO
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from icectl.files.parquet import value_filters
from icectl.files.parquet.data_file import open_parquet
from icectl.files.parquet.footer import octets
from icectl.files.parquet.glance import glance_at
from icectl.files.parquet.value_filters import ValueFilters
from tests.builders.at_a_glance import AtAGlance
from tests.builders.data_files import identified

ROWS = 400
NUMBERS = range(1, 2 * ROWS + 1)
DIGITS = 123456789012345678901234567890 * 1000
KINDS: dict[str, tuple[pa.DataType, pa.DataType, list[Any]]] = {
    "int": (pa.int32(), pa.int32(), [number - 300 for number in NUMBERS]),
    "long": (pa.int64(), pa.int64(), [number << 40 for number in NUMBERS]),
    "promoted long": (pa.int32(), pa.int64(), list(NUMBERS)),
    "float": (pa.float32(), pa.float32(), [number / 4 for number in NUMBERS]),
    "double": (pa.float64(), pa.float64(), [number / 7 for number in NUMBERS]),
    "promoted double": (pa.float32(), pa.float64(), [number / 4 for number in NUMBERS]),
    "date": (pa.date32(), pa.date32(), list(NUMBERS)),
    "time": (pa.time64("us"), pa.time64("us"), list(NUMBERS)),
    "timestamp": (pa.timestamp("us"), pa.timestamp("us"), list(NUMBERS)),
    "timestamptz_ns": (pa.timestamp("ns", "UTC"), pa.timestamp("ns", "UTC"), list(NUMBERS)),
    "string": (pa.string(), pa.string(), [f"näme {number}" * 9 for number in NUMBERS]),
    "binary": (pa.binary(), pa.binary(), [b"b%d" % number for number in NUMBERS]),
    "fixed": (pa.binary(5), pa.binary(5), [b"%05d" % number for number in NUMBERS]),
    "uuid": (pa.uuid(), pa.uuid(), [number.to_bytes(16, "big") for number in NUMBERS]),
    "decimal of 9": (pa.decimal128(9, 2), pa.decimal128(9, 2), [Decimal(-n) / 4 for n in NUMBERS]),
    "promoted decimal": (pa.decimal128(9, 2), pa.decimal128(30, 2), [Decimal(n) for n in NUMBERS]),
    "decimal of 38": (
        pa.decimal128(38, 2),
        pa.decimal128(38, 2),
        [Decimal(DIGITS + n) for n in NUMBERS],
    ),
}
"""The type in the file, the table's, and values: the first half is written, the second is not."""


def column(kind: pa.DataType, values: list[Any]) -> pa.Array:
    if kind == pa.uuid():
        return pa.ExtensionArray.from_storage(kind, pa.array(values, pa.binary(16)))
    return pa.array(values, kind)


def opened(content: bytes) -> ValueFilters:
    return ValueFilters(open_parquet(BytesIO(content), ()))


WAYS: list[Callable[[bytes], ValueFilters | AtAGlance]] = [opened, AtAGlance]


def written(values: pa.Array, *, coded: bool = False, **how: Any) -> bytes:
    """A file with a Bloom filter, or with a dictionary."""
    sink = BytesIO()
    table = pa.table([values], schema=pa.schema([identified("x", values.type, 1)]))
    options = None if coded else {"x": {"ndv": ROWS, "fpp": 0.01}}
    pq.write_table(table, sink, use_dictionary=coded, bloom_filter_options=options, **how)
    return sink.getvalue()


@pytest.mark.parametrize(("coded", "way"), [(False, opened), (True, opened), (False, AtAGlance)])
@pytest.mark.parametrize("kind", KINDS)
def test_values_that_are_there_are_not_ruled_out_and_most_others_are(kind, coded, way):
    stored, wanted, values = KINDS[kind]
    known = way(written(column(stored, values[:ROWS]), coded=coded))
    there, absent = (column(wanted, values[at : at + ROWS : 8]) for at in (0, ROWS))
    assert known.may_have(0, 1, there).all()
    found = int(known.may_have(0, 1, absent).sum())
    assert found == 0 if coded else found <= 5
    assert known.may_have(0, 2, absent).all()  # a column that the file lacks


@pytest.mark.parametrize("codec", ["none", "snappy", "gzip", "brotli", "zstd", "lz4"])
def test_dictionaries_are_read_in_every_codec_or_rule_nothing_out(codec):
    known = opened(written(pa.array(["a", "b", None, "a"]), coded=True, compression=codec))
    asked = pa.array(["a", "c", None])
    assert known.may_have(0, 1, asked).tolist() == [True, codec == "lz4", True]


@pytest.mark.parametrize("way", WAYS)
def test_values_that_writers_encode_in_several_ways_may_always_be_there(way):
    known = way(written(pa.array([1.0, 2.0])))
    asked = [0.0, -0.0, math.nan, None, 3.0]
    assert known.may_have(0, 1, pa.array(asked)).tolist() == [True] * 4 + [False]
    for stored, wanted in ((pa.timestamp("ms"), pa.timestamp("us")), (pa.uint32(), pa.int32())):
        other = way(written(pa.array([1, 2], stored)))
        assert other.may_have(0, 1, pa.array([7], wanted)).all()
    narrow = way(written(pa.array([1, 2], pa.float32())))
    assert narrow.may_have(0, 1, pa.array([0.1, 1e300])).all()


@pytest.mark.parametrize("way", WAYS)
def test_many_values_are_not_looked_for(way):
    known = way(written(pa.array(range(0, 2000, 2))))
    assert not known.may_have(0, 1, pa.array(range(1, 200, 2))).all()
    assert known.may_have(0, 1, pa.array(range(1, 203, 2))).all()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("damage", ["empty", "of another column", "header", "length"])
def test_a_filter_that_lies_or_is_damaged_rules_nothing_out(damage, way):
    content = bytearray(written(pa.array(range(0, 800, 2))))
    chunk = pq.read_metadata(BytesIO(content)).row_group(0).column(0)
    start, size = chunk.bloom_filter_offset, chunk.bloom_filter_length
    absent = pa.array([1, 3, 5, 7, 9])
    assert not way(bytes(content)).may_have(0, 1, absent).any()
    if damage == "empty":
        content[start + 20 : start + size] = bytes(size - 20)
    elif damage == "of another column":
        other = written(pa.array(range(10**6, 10**6 + 800, 2)))
        there = pq.read_metadata(BytesIO(other)).row_group(0).column(0).bloom_filter_offset
        content[start : start + size] = other[there : there + size]
    elif damage == "header":
        content[start + 5] ^= 0xFF
    else:
        content[start + 1] ^= 0x40
    assert way(bytes(content)).may_have(0, 1, absent).all()


def test_a_damaged_dictionary_rules_nothing_out():
    values = pa.array([f"{number % 7}" for number in range(100)])
    for checked in (True, False):
        content = bytearray(
            written(values, coded=True, compression="none", write_page_checksum=checked)
        )
        assert not opened(bytes(content)).may_have(0, 1, pa.array(["8"])).any()
        at = content.index(b"\x01\0\0\0" + b"0")
        content[at + 4 : at + 5] = b"9"  # the least value is gone
        assert opened(bytes(content)).may_have(0, 1, pa.array(["8"])).all()


@pytest.mark.parametrize(
    ("by", "way"), [("filter", opened), ("dictionary", opened), ("filter", AtAGlance)]
)
def test_filters_of_duckdb_miss_nothing(tmp_path, monkeypatch, by, way):
    if by == "filter":
        monkeypatch.setattr(value_filters, "loops", lambda: None)
        monkeypatch.setattr(ValueFilters, "_is_whole", lambda *_: False)
    path = tmp_path / "f.parquet"
    duckdb.sql(
        f"COPY (SELECT (i % 50) * 2 AS id, 'näme ' || (i % 50) * 2 AS name, "
        f"((i % 50) * 2)::DOUBLE + 0.5 AS real, DATE '2020-01-01' + ((i % 50) * 2)::INT AS day "
        f"FROM range(2000) t(i)) TO '{path}' "
        f"(FORMAT parquet, FIELD_IDS {{id: 1, name: 2, real: 3, day: 4}})"
    )
    chunks = pq.read_metadata(path).row_group(0)
    assert all(chunks.column(at).bloom_filter_offset for at in range(4))
    known = way(path.read_bytes())
    table = pq.read_table(path)
    for field_id, name in enumerate(table.column_names, 1):
        assert known.may_have(0, field_id, table[name].unique()).all()
    odd = range(1, 100, 2)
    asked = {1: pa.array(odd), 2: pa.array([f"näme {number}" for number in odd]),
             3: pa.array([number + 0.5 for number in odd])}  # fmt: skip
    for field_id, values in asked.items():
        assert known.may_have(0, field_id, values).sum() <= 5


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("false_positives", "rules_out"), [(1e-6, True), (0.01, False)])
def test_many_values_are_looked_for_in_filters_that_have_few_false_positives(
    false_positives, rules_out, way
):
    sink = BytesIO()
    values = pa.array(range(ROWS), pa.int64())
    table = pa.table([values], schema=pa.schema([identified("x", pa.int64(), 1)]))
    options = {"x": {"ndv": ROWS, "fpp": false_positives}}
    pq.write_table(table, sink, use_dictionary=False, bloom_filter_options=options)
    known = way(sink.getvalue())
    assert known.may_have(0, 1, values).all()
    absent = pa.array(range(10**6, 10**6 + 1_000), pa.int64())
    assert int(known.may_have(0, 1, absent).sum()) == (0 if rules_out else len(absent))


def test_the_compiled_loop_and_numpy_find_the_same_in_a_filter(monkeypatch):
    chance = np.random.default_rng(7)
    hashes = chance.integers(0, 2**64, 500, np.uint64)
    bits = octets(chance.integers(0, 2**64, 4 * 9, np.uint64).tobytes())  # of nine blocks
    values = value_filters._Plain([b""] * 500, np.arange(500), hashes)
    compiled = value_filters._in_blocks(bits, values)
    monkeypatch.setattr(value_filters, "loops", lambda: None)
    assert 0 < compiled.sum() < 50
    assert (value_filters._in_blocks(bits, values) == compiled).all()


def test_a_glance_reads_footers_longer_than_a_read_and_row_groups():
    """Half of the values in each of two groups, beside columns with long names."""
    columns = [identified("x", pa.int64(), 1)]
    columns += [identified(f"{at:099}", pa.int64(), at) for at in range(2, 400)]
    numbers = pa.array(range(0, 2 * ROWS, 2))
    table = pa.table([numbers] * len(columns), schema=pa.schema(columns))
    sink, options = BytesIO(), {"x": {"ndv": ROWS, "fpp": 1e-6}}
    pq.write_table(
        table, sink, row_group_size=ROWS // 2, use_dictionary=False, bloom_filter_options=options
    )
    content = sink.getvalue()
    assert int.from_bytes(content[-8:-4], "little") > 1 << 16
    known = AtAGlance(content)
    assert known.glance.record_count == ROWS
    assert known.glance.group_count == 2
    for group in range(2):
        own, other = (numbers[at * ROWS // 2 : (at + 1) * ROWS // 2] for at in (group, 1 - group))
        assert known.may_have(group, 1, own).all()
        assert not known.may_have(group, 1, other).any()
        assert known.may_have(group, 2, other).all()  # it has no filter


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1\0\0\0\0PAR1", b"PAR1x\x7f\0\0\0PAR1"])
def test_a_glance_at_something_else_shows_nothing(content):
    glance = glance_at(BytesIO(content))
    assert glance is None or not glance.record_count
