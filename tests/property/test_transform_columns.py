"""Transforms over columns against those of single values."""

import struct
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from icectl.entries.columns import byte_strings
from icectl.entries.partition_key import encode_key, encode_keys
from icectl.entries.partition_transforms import hash_bytes, partition_keys, transform_column
from icectl.files.parquet.schema import arrow_type
from icectl.format.partition import PartitionField, PartitionSpec
from icectl.format.single_value import EXACT, encode
from icectl.format.transforms import apply, bucket_hash, parse_transform, result_type
from icectl.format.types import DecimalType, FixedType, PrimitiveType

RANGES = {
    "int": (-(2**31), 2**31 - 1), "long": (-(2**63), 2**63 - 1), "date": (-(2**31), 2**31 - 1),
    "time": (0, 86_399_999_999), "timestamp": (-(2**63), 2**63 - 1),
    "timestamptz": (-(2**63), 2**63 - 1), "timestamp_ns": (-(2**63), 2**63 - 1),
    "timestamptz_ns": (-(2**63), 2**63 - 1),
}  # fmt: skip
UNITS = {"timestamp": 10**6, "timestamptz": 10**6, "timestamp_ns": 10**9, "timestamptz_ns": 10**9}
SECONDS_TO_YEAR_9999 = 253_402_300_800
PLAIN = ["identity", "year", "month", "day", "hour", "void"]
WIDTHS = st.integers(1, 30) | st.sampled_from([10**6, 2**31 - 1, 2**62, 2**63, 10**25])

decimals = st.integers(1, 38).flatmap(
    lambda precision: st.builds(DecimalType, st.just(precision), st.integers(0, precision))
)
types = st.one_of(
    st.sampled_from([*RANGES, "boolean", "float", "double", "string", "uuid", "binary"]).map(
        PrimitiveType
    ),
    decimals,
    st.integers(1, 20).map(FixedType),
)


def values_of(type_):
    match type_:
        case DecimalType(precision, scale):
            digits = st.integers(1, precision).flatmap(
                lambda count: st.integers(-(10**count) + 1, 10**count - 1)
            )
            return digits.map(lambda number: Decimal(number).scaleb(-scale, EXACT))
        case FixedType(length):
            return st.binary(min_size=length, max_size=length)
        case PrimitiveType("boolean"):
            return st.booleans()
        case PrimitiveType("float"):
            return st.floats(width=32)
        case PrimitiveType("double"):
            return st.floats()
        case PrimitiveType("string"):
            return st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
        case PrimitiveType("uuid"):
            return st.uuids()
        case PrimitiveType("binary"):
            return st.binary(max_size=40)
        case PrimitiveType(name):
            ends = [whole + step for whole in RANGES[name] for step in (-1, 0, 1)]
            inside = [end for end in ends if RANGES[name][0] <= end <= RANGES[name][1]]
            seconds = UNITS.get(name, 1) * SECONDS_TO_YEAR_9999
            near = st.integers(max(-seconds, RANGES[name][0]), min(seconds, RANGES[name][1]))
            return st.integers(*RANGES[name]) | st.sampled_from(inside) | near
    raise AssertionError(type_)


def stored(type_, value):
    return value.bytes if type_ == PrimitiveType("uuid") and value is not None else value


def column_of(type_, values):
    """The Arrow column, cut out of a longer one, as batches are."""
    padded = [values[-1], *(stored(type_, value) for value in values)]
    padded[0] = padded[-1]
    kind = arrow_type(type_)
    if isinstance(type_, PrimitiveType) and type_.name in RANGES:
        width = pa.int32() if kind.bit_width == 32 else pa.int64()
        return pa.array(padded, width).cast(kind).slice(1)
    return pa.array(padded, kind).slice(1)


def comparable(type_, value):
    """A value so that NaN equals itself and zeros differ."""
    if isinstance(value, float):
        return struct.pack("<d", value)
    return str(value) if isinstance(value, Decimal) else stored(type_, value)


def read_back(type_, column):
    assert column.type == arrow_type(type_)
    column.validate(full=True)
    if isinstance(type_, PrimitiveType) and type_.name in RANGES:
        column = column.cast(pa.int32()) if type_.name == "date" else column
        return column.cast(pa.int64()).to_pylist()
    return [comparable(type_, value) for value in column.to_pylist()]


def fits(type_, value):
    try:
        encode(type_, value)
    except ValueError:
        return False
    return not isinstance(type_, DecimalType) or len(value.as_tuple().digits) <= type_.precision


def is_taken(transform, type_, value):
    try:
        apply(transform, type_, value)
    except ValueError:
        return False
    return True


@st.composite
def cases(draw):
    type_ = draw(types)
    width = draw(WIDTHS)
    texts = [*PLAIN, f"bucket[{width}]", f"truncate[{width}]"]
    sample = draw(values_of(type_))
    transforms = [parse_transform(text) for text in texts]
    taken = [each for each in transforms if is_taken(each, type_, sample)]
    values = draw(st.lists(st.none() | values_of(type_), max_size=8))
    return draw(st.sampled_from(taken)), type_, [*values, sample]


@settings(max_examples=400)
@given(cases())
@example((parse_transform("hour"), PrimitiveType("timestamp"), [2**63 - 1]))
@example((parse_transform("truncate[10]"), PrimitiveType("int"), [-(2**31)]))
@example((parse_transform("truncate[10]"), PrimitiveType("long"), [-(2**63)]))
@example((parse_transform("truncate[10]"), DecimalType(2, 1), [Decimal("-9.9")]))
@example((parse_transform("truncate[10]"), DecimalType(38, 0), [Decimal(10) ** 37, None]))
@example((parse_transform("bucket[16]"), PrimitiveType("binary"), [b"x" * 9000, b"", b"y" * 4097]))
@example((parse_transform("day"), PrimitiveType("timestamp_ns"), [-1, 0, None]))
def test_r070_a_column_is_transformed_as_its_values_one_by_one(case):
    transform, type_, values = case
    column = column_of(type_, values)
    kind = result_type(transform, type_)
    expected = [apply(transform, type_, value) for value in values]
    if all(value is None or fits(kind, value) for value in expected):
        result = transform_column(transform, type_, column)
        assert read_back(kind, result) == [comparable(kind, value) for value in expected]
    else:
        with pytest.raises(ValueError, match=r"."):
            transform_column(transform, type_, column)


@given(st.lists(st.binary(max_size=40), min_size=1), st.lists(st.integers(0, 6000), max_size=3))
def test_r075_bytes_of_any_length_hash_as_single_values(short, lengths):
    type_ = PrimitiveType("binary")
    values = [*short, *(bytes(range(250)) * 24 for _ in lengths), b""]
    values = [value[: lengths[0]] if lengths else value for value in values]
    hashes = hash_bytes(byte_strings(column_of(type_, values)))
    assert hashes.view("i4").tolist() == [bucket_hash(type_, value) for value in values]


@st.composite
def rows(draw):
    kinds = draw(st.lists(types, min_size=1, max_size=3))
    count = draw(st.integers(1, 6))
    size = {"min_size": count, "max_size": count}
    return kinds, [draw(st.lists(st.none() | values_of(kind), **size)) for kind in kinds]


@given(rows())
def test_r083_keys_of_columns_are_those_of_each_row(case):
    kinds, columns = case
    keys = encode_keys(kinds, [column_of(*pair) for pair in zip(kinds, columns, strict=True)])
    assert keys.type == pa.binary()
    assert keys.to_pylist() == [encode_key(kinds, row) for row in zip(*columns, strict=True)]


def test_partition_keys_transform_the_source_column_of_each_field():
    fields = [
        PartitionField((number,), 1000 + number, text, parse_transform(text))
        for number, text in enumerate(["identity", "bucket[16]", "void", "day"])
    ]
    spec = PartitionSpec(1, tuple(fields))
    sources = [PrimitiveType(name) for name in ("string", "long", "double", "timestamptz")]
    values = [["a", None], [34, 35], [1.5, 2.5], [-1, 86_400_000_000]]
    columns = [column_of(*pair) for pair in zip(sources, values, strict=True)]
    results = [PrimitiveType(name) for name in ("string", "int", "double", "date")]
    assert partition_keys(spec, sources, columns).to_pylist() == [
        encode_key(results, ("a", bucket_hash(sources[1], 34) % 2**31 % 16, None, -1)),
        encode_key(results, (None, bucket_hash(sources[1], 35) % 2**31 % 16, None, 1)),
    ]
