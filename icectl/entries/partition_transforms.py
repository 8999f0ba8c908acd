"""Partition transforms over Arrow columns, equal to format/transforms.py value by value."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from icectl.entries.columns import (
    INTEGER_TYPES,
    Integers,
    Octets,
    Spans,
    byte_strings,
    decimal_bytes,
    decimal_words,
    integers,
    packed,
    plain,
    with_nulls_of,
)
from icectl.entries.partition_key import encode_keys
from icectl.format.moments import DAY_SECONDS
from icectl.format.partition import PartitionSpec
from icectl.format.single_value import UNITS_PER_SECOND
from icectl.format.transforms import Transform, apply, bucket_hash, result_type
from icectl.format.types import DecimalType, FixedType, PrimitiveType, Type, type_text

Words = npt.NDArray[np.uint32]

_FIRST, _SECOND = np.uint32(0xCC9E2D51), np.uint32(0x1B873593)
_FIVE, _ADDED = np.uint32(5), np.uint32(0xE6546B64)
_LAST = ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1))
_LONG_STRING = 4096
"""Bytes from which one value at a time is faster than one step over all values per 4 bytes."""

_LARGEST_WIDTH = 2**62
"""Truncation to multiples of a larger width could overflow 64 bits and come out right again."""

_DATE_UNITS = {"month": "datetime64[M]", "year": "datetime64[Y]"}


def hash_longs(values: Integers) -> Words:
    """Return the hash of each value as 8 bytes, little-endian (R-075)."""
    words = np.ascontiguousarray(values, "<i8").view("<u4").reshape(-1, 2)
    state = np.zeros(len(words), np.uint32)
    for column in (0, 1):
        state = _stirred(state, words[:, column])
    return _finished(state, np.full(len(words), 8, np.uint32))


def hash_bytes(spans: Spans) -> Words:
    """Return the hash of each byte string."""
    long = np.flatnonzero(spans.lengths > _LONG_STRING)
    lengths = spans.lengths.copy()
    lengths[long] = 0
    order = np.argsort(-lengths, kind="stable")
    state = np.empty(len(order), np.uint32)
    state[order] = _hash_falling(spans.content, spans.starts[order], lengths[order])
    for row in long:
        start, length = int(spans.starts[row]), int(spans.lengths[row])
        content = spans.content[start : start + length].tobytes()
        state[row] = bucket_hash(PrimitiveType("binary"), content) & 0xFFFFFFFF
    return state


def _hash_falling(content: Octets, starts: Integers, lengths: Integers) -> Words:
    """Return the hash of byte strings, the longest first."""
    state = np.zeros(len(starts), np.uint32)
    words = np.ndarray(max(len(content) - 3, 0), "<u4", content.data, strides=(1,))
    block_counts = lengths // 4
    for block in range(int(block_counts[0]) if len(starts) else 0):
        active = int(np.searchsorted(-block_counts, -block))  # those that have this block
        state[:active] = _stirred(state[:active], words[starts[:active] + 4 * block])
    tail = np.zeros(len(starts), np.uint32)
    for place in range(3):
        rows = np.flatnonzero(lengths % 4 > place)
        octets = content[starts[rows] + 4 * block_counts[rows] + place]
        tail[rows] |= octets.astype(np.uint32) << np.uint32(8 * place)
    return _finished(state ^ _mixed(tail), lengths.astype(np.uint32))


def _mixed(words: Words) -> Words:
    return _rotated(words * _FIRST, 15) * _SECOND


def _stirred(state: Words, words: Words) -> Words:
    return _rotated(state ^ _mixed(words), 13) * _FIVE + _ADDED


def _rotated(words: Words, bits: int) -> Words:
    return (words << np.uint32(bits)) | (words >> np.uint32(32 - bits))


def _finished(state: Words, lengths: Words) -> Words:
    state = state ^ lengths
    for shift, factor in _LAST:
        state = (state ^ (state >> np.uint32(shift))) * np.uint32(factor)
    return state


def transform_column(transform: Transform, source: Type, column: pa.Array) -> pa.Array:
    """Return the partition values of a column of the type `source`; null stays null (R-070).

    Shape: one value per row, in the Arrow type of the result type (R-071).
    Order: kept.
    Raises: ValueError, when the transform is unknown or does not take the type, and when a value
    has no result within the result type, as hours of years far beyond 9999.
    """
    match transform:
        case Transform("identity"):
            return column
        case Transform("void"):
            return pa.nulls(len(column), column.type)
        case Transform("bucket", width=int(count)):
            hashed = _hashes(transform, source, column) & np.uint32(0x7FFFFFFF)
            buckets = (hashed % np.uint32(min(count, 2**31))).astype(np.int32)
            return with_nulls_of(column, pa.array(buckets))
        case Transform("truncate", width=int(width)):
            return _truncated(transform, source, column, width)
        case Transform("year" | "month" | "day" | "hour"):
            counted = pa.array(_date_units(transform, source, column)).cast(pa.int32())
            day = pa.date32() if transform.name == "day" else pa.int32()
            return with_nulls_of(column, counted.cast(day))
        case _:
            raise _not_taken(transform, source)


def partition_keys(
    spec: PartitionSpec, sources: Sequence[Type], columns: Sequence[pa.Array]
) -> pa.Array:
    """Return the canonical partition key of each row.

    `sources` and `columns` are types and values of the source column of each field of `spec`, which
    has one or more; those of a void field may be any.
    Shape: one binary value per row, none of them null.
    Order: kept.
    Raises: as transform_column.
    """
    types, results = [], []
    for item, source, column in zip(spec.fields, sources, columns, strict=True):
        results.append(transform_column(item.transform, source, column))
        types.append(result_type(item.transform, source) or source)
    return encode_keys(types, results)


def _hashes(transform: Transform, source: Type, column: pa.Array) -> Words:
    match source:
        case PrimitiveType(name) if name in INTEGER_TYPES:
            counts = integers(name, column)
            return hash_longs(counts // 1000 if name.endswith("_ns") else counts)
        case DecimalType():
            return hash_bytes(decimal_bytes(source, column))
        case PrimitiveType("string" | "uuid" | "binary") | FixedType():
            return hash_bytes(byte_strings(column))
        case _:
            raise _not_taken(transform, source)


def _truncated(transform: Transform, source: Type, column: pa.Array, width: int) -> pa.Array:
    match source:
        case PrimitiveType("int" | "long" as name) if width <= _LARGEST_WIDTH:
            values = _multiples(integers(name, column), width)
            kind = pa.int32() if name == "int" else pa.int64()
            if name == "int" and len(values) and values.min() < -(2**31):
                raise ValueError(f"a truncation to multiples of {width} is below the smallest int")
            return with_nulls_of(column, pa.array(values).cast(kind))
        case DecimalType() if width <= _LARGEST_WIDTH:
            return _truncated_decimals(transform, source, column, width)
        case PrimitiveType("int" | "long") | DecimalType():
            return _by_value(transform, source, column)
        case PrimitiveType("string"):
            longest = min(width, pc.max(pc.binary_length(plain(column))).as_py() or 0)
            return pc.utf8_slice_codeunits(plain(column), 0, longest)  # code points
        case PrimitiveType("binary"):
            # binary_slice makes room for as many bytes in every row, however short its values are.
            spans = byte_strings(column)
            lengths = np.minimum(spans.lengths, min(width, 2**62))
            shortened = packed(replace(spans, lengths=lengths)).cast(plain(column).type)
            return with_nulls_of(column, shortened)
        case _:
            raise _not_taken(transform, source)


def _multiples(values: Integers, width: int) -> Integers:
    """Return the multiple of a width at or below each value (R-074)."""
    below = values - values % width
    if (below > values).any():
        raise ValueError(f"a truncation to multiples of {width} is below the smallest long")
    return below


def _truncated_decimals(
    transform: Transform, source: DecimalType, column: pa.Array, width: int
) -> pa.Array:
    words = decimal_words(source, column)
    low = np.where(column.is_valid().to_numpy(zero_copy_only=False), words[:, 0], 0)
    if (words[:, 1] != words[:, 0] >> 63).any() or (low < -(2**62)).any():
        return _by_value(transform, source, column)
    truncated = _multiples(low, width)
    if source.precision < 19 and (truncated <= -(10**source.precision)).any():
        raise ValueError(f"a truncation is not a valid {type_text(source)}")
    both = np.stack([truncated, truncated >> 63], axis=1)
    kind = pa.decimal128(source.precision, source.scale)
    values = pa.Array.from_buffers(kind, len(column), [None, pa.py_buffer(both)])
    return with_nulls_of(column, values)


def _by_value(transform: Transform, source: Type, column: pa.Array) -> pa.Array:
    """Return the transform of each distinct value in turn."""
    encoded = plain(column).dictionary_encode()
    results = [apply(transform, source, value) for value in encoded.dictionary.to_pylist()]
    try:
        values = pa.array(results, encoded.dictionary.type)
    except (OverflowError, pa.ArrowInvalid) as error:
        raise ValueError(f"a truncation is not a valid {type_text(source)}") from error
    return values.take(encoded.indices)


def _date_units(transform: Transform, source: Type, column: pa.Array) -> Integers:
    """Years, months, days or hours since 1970-01-01 00:00 UTC, rounded down (R-072)."""
    match source:
        case PrimitiveType("date") if transform.name != "hour":
            days = integers("date", column)
        case PrimitiveType(name) if name in UNITS_PER_SECOND:
            seconds = integers(name, column) // UNITS_PER_SECOND[name]
            if transform.name == "hour":
                return seconds // 3600
            days = seconds // DAY_SECONDS
        case _:
            raise _not_taken(transform, source)
    if transform.name == "day":
        return days
    counted: Integers = days.astype("datetime64[D]").astype(_DATE_UNITS[transform.name]).view("i8")
    return counted


def _not_taken(transform: Transform, source: Type) -> ValueError:
    return ValueError(f"{transform.text} does not take {type_text(source)}")
