"""Partition tuples as canonical bytes, so that they group, join, compare and order entries.

A key is, for each field in the order of the spec: a presence byte, and where it is 1 a 4-byte
little-endian length and the canonical value. Values of every integer type (int, long, date, time,
timestamps) are 8 bytes little-endian, float and double 8 bytes little-endian double with one NaN,
-0.0 and 0.0 apart (R-083); boolean one byte; decimal the fewest bytes of big-endian two's
complement; string UTF-8; uuid, fixed and binary unchanged. The key of a tuple thus stays the same
if int becomes long, float double or a decimal wider (R-097).

A cluster is a set of entries with equal values of chosen partition fields. Its rank is its position
in the order of these values.
"""

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from math import copysign, isnan
from typing import Any
from uuid import UUID

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from icectl.entries.columns import (
    Integers,
    Octets,
    byte_strings,
    decimal_bytes,
    distinct_count,
    integers,
    is_integer,
    packed,
    plain,
)
from icectl.entries.rows import Entries, RawEntries, part, take
from icectl.errors import CorruptTable
from icectl.format.rule import NO_PARTITION
from icectl.format.single_value import EXACT
from icectl.format.types import DecimalType, PrimitiveType, Type

_ABSENT_KEY = pa.scalar(b"\x00", pa.large_binary())
_NOTHING = pa.scalar(b"", pa.large_binary())

UNKNOWN_KEY = b"\xff"
"""The key of a tuple that the statistics of layout sfc-1 do not tell (sfc-1 5.4)."""

PartitionValue = bool | int | float | Decimal | str | UUID | bytes | None
"""A value as format/single_value.py has it."""

_NAN = struct.pack("<d", float("nan"))
_ABSENT = b"\x00"


def encode_keys(types: Sequence[Type], columns: Sequence[pa.Array]) -> pa.Array:
    """Return the key of each row of one or more columns. Order: kept. Raises: ValueError."""
    parts = []
    for type_, column in zip(types, columns, strict=True):
        present = _present(type_, column)
        is_whole = not column.null_count
        parts.append(present if is_whole else pc.if_else(column.is_valid(), present, _ABSENT_KEY))
    joined = pc.binary_join_element_wise(*parts, _NOTHING) if len(parts) > 1 else parts[0]
    return joined.cast(pa.binary())


def _present(type_: Type, column: pa.Array) -> pa.Array:
    name = type_.name if isinstance(type_, PrimitiveType) else ""
    if is_integer(type_):
        return _of_width(integers(name, column).astype("<i8").view(np.uint8).reshape(-1, 8))
    if name in ("float", "double"):
        values = plain(column).cast(pa.float64()).fill_null(0).to_numpy(zero_copy_only=False)
        one_nan = np.where(np.isnan(values), np.nan, values)
        return _of_width(one_nan.astype("<f8").view(np.uint8).reshape(-1, 8))
    if name == "boolean":
        flags = pc.fill_null(plain(column), fill_value=False).to_numpy(zero_copy_only=False)
        return _of_width(flags.astype(np.uint8).reshape(-1, 1))
    spans = decimal_bytes(type_, column) if isinstance(type_, DecimalType) else byte_strings(column)
    prefixes = np.empty((len(column), 5), np.uint8)
    prefixes[:, 0] = 1
    prefixes[:, 1:] = spans.lengths.astype("<u4").view(np.uint8).reshape(-1, 4)
    return pc.binary_join_element_wise(_rows(prefixes), packed(spans), _NOTHING)


def _of_width(values: Octets) -> pa.Array:
    """Presence, length and value, where all values have one length."""
    count, width = values.shape
    rows = np.empty((count, 5 + width), np.uint8)
    rows[:, :5] = (1, width, 0, 0, 0)
    rows[:, 5:] = values
    return _rows(rows)


def _rows(octets: Octets) -> pa.Array:
    count, width = octets.shape
    offsets = np.arange(count + 1, dtype=np.int64) * width
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(octets))]
    return pa.Array.from_buffers(pa.large_binary(), count, buffers)


def encode_key(types: Sequence[Type | None], values: Sequence[PartitionValue]) -> bytes:
    """Return the key of a tuple; None types an unknown transform. Raises: ValueError."""
    return join_values(
        None if value is None else _canonical(type_, value)
        for type_, value in zip(types, values, strict=True)
    )


def decode_key(key: bytes, types: Sequence[Type | None]) -> tuple[PartitionValue, ...]:
    """Return a key's values; of an unknown type bytes. Raises: CorruptTable R-068, V4-142."""
    if key == UNKNOWN_KEY:
        message = "an entry's partition value is not one value: its bounds differ or are missing"
        raise CorruptTable(message, rule="V4-142", hint=NO_PARTITION)
    try:
        parts = split_key(key)
        if len(parts) != len(types):
            message = f"a partition has {len(parts)} values, its spec {len(types)} fields"
            raise CorruptTable(message, rule="R-068")
        return tuple(
            None if part is None else _value(type_, part)
            for type_, part in zip(types, parts, strict=True)
        )
    except (ValueError, struct.error) as error:
        raise CorruptTable("a partition value is not of its field's type", rule="R-068") from error


def sort_key(value: PartitionValue) -> tuple[int, Any, float]:
    """Make the key that values sort by: null, numbers, NaN; -0.0 before 0.0 (R-084, R-092)."""
    if value is None:
        return 0, 0, 0.0
    if isinstance(value, float):
        if isnan(value):
            return 2, 0, 0.0
        return 1, value, copysign(1.0, value)
    return 1, value.bytes if isinstance(value, UUID) else value, 0.0


def java_sort_key(value: PartitionValue) -> tuple[int, Any, float]:
    """Make the key that Java sorts by: as sort_key, but UUIDs by their halves, taken for signed."""
    if isinstance(value, UUID):
        return 1, struct.unpack(">qq", value.bytes), 0.0
    return sort_key(value)


def join_values(canonical: Iterable[bytes | None]) -> bytes:
    """Return the key of canonical values."""
    return b"".join(
        _ABSENT if value is None else b"\x01" + struct.pack("<I", len(value)) + value
        for value in canonical
    )


def split_key(key: bytes) -> tuple[bytes | None, ...]:
    """Return the canonical values of a key."""
    parts: list[bytes | None] = []
    at = 0
    while at < len(key):
        if key[at] == 0:
            parts.append(None)
            at += 1
            continue
        end = at + 5 + int(struct.unpack_from("<I", key, at + 1)[0])
        parts.append(key[at + 5 : end])
        at = end
    return tuple(parts)


def canonical_integer(value: int) -> bytes:
    """Return the canonical value of every integer type."""
    return struct.pack("<q", value)


def canonical_double(value: float) -> bytes:
    """Return the canonical value of float and double."""
    return _NAN if isnan(value) else struct.pack("<d", value)


def canonical_decimal(unscaled: int) -> bytes:
    """Return the canonical value of a decimal: the fewest bytes, at least one."""
    magnitude = unscaled if unscaled >= 0 else ~unscaled
    return unscaled.to_bytes(magnitude.bit_length() // 8 + 1, "big", signed=True)


def _canonical(type_: Type | None, value: PartitionValue) -> bytes:
    if isinstance(type_, DecimalType) and isinstance(value, Decimal):
        return canonical_decimal(int(value.scaleb(type_.scale, EXACT)))
    name = type_.name if isinstance(type_, PrimitiveType) else None
    if isinstance(value, bool):
        return b"\x01" if value else _ABSENT
    if isinstance(value, (int, float)):
        is_real = isinstance(value, float) or name in ("float", "double")
        return canonical_double(value) if is_real else canonical_integer(int(value))
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, UUID):
        return value.bytes
    if isinstance(value, bytes):
        return value
    raise ValueError(value)


def _value(type_: Type | None, part: bytes) -> PartitionValue:
    if isinstance(type_, DecimalType):
        return Decimal(int.from_bytes(part, "big", signed=True)).scaleb(-type_.scale, EXACT)
    if not isinstance(type_, PrimitiveType) or type_.name == "binary":
        return part
    if type_.name in ("float", "double"):
        return float(struct.unpack("<d", part)[0])
    if type_.name == "string":
        return part.decode()
    if type_.name == "uuid":
        return UUID(bytes=part)
    if type_.name == "boolean":
        return part != _ABSENT
    return int(struct.unpack("<q", part)[0])


@dataclass(frozen=True, slots=True)
class Clusters:
    """The rank of each entry's cluster, and how many clusters there are."""

    ranks: Integers
    count: int


def clusters(
    entries: Entries | RawEntries, types: Sequence[Type | None], positions: Sequence[int]
) -> Clusters:
    """Rank entries of one spec by the partition fields at some positions; none: one cluster.

    Order: ranks are those of the values, null first, NaN last (R-084).
    Raises: CorruptTable R-068.
    """
    encoded = entries.table["partition_key"].combine_chunks().dictionary_encode()
    keys = encoded.dictionary.to_pylist()
    values = [decode_key(key, types) for key in keys]
    tuples = [
        tuple(sort_key(partition[position]) for position in positions) for partition in values
    ]
    distinct = sorted(set(tuples))
    places = {values: place for place, values in enumerate(distinct)}
    rank_of_key = np.array([places[values] for values in tuples], np.int64)
    indices = encoded.indices.to_numpy(zero_copy_only=False)
    ranks = rank_of_key[indices] if len(keys) else np.zeros(0, np.int64)
    return Clusters(ranks, len(distinct))


def clusters_of_specs(entries: Entries, of_spec: Callable[[int, Entries], Clusters]) -> Clusters:
    """Rank entries of any specs: by spec, then as `of_spec` ranks those of one."""
    numbers = entries.table["spec_id"].to_numpy()
    spec_ids = np.unique(numbers).tolist()
    if len(spec_ids) == 1:
        return of_spec(spec_ids[0], entries)
    ranks, count = np.zeros(len(entries), np.int64), 0
    for number in spec_ids:
        chosen = np.flatnonzero(numbers == number)
        found = of_spec(number, take(entries, chosen.tolist()))
        ranks[chosen] = found.ranks + count
        count += found.count
    return Clusters(ranks, count)


def one_cluster(entries: Entries | RawEntries) -> Integers:
    """Ranks of entries that are all of one cluster."""
    return np.zeros(len(entries), np.int64)


def spread(clusters: Clusters, manifests: Integers) -> int:
    """Count the pairs of a manifest and a cluster in it."""
    return distinct_count(manifests * max(clusters.count, 1) + clusters.ranks)


def pieces(ranks: Integers, sizes: npt.NDArray[np.float64], piece_size: float) -> Integers:
    """Number the pieces, from 0 without a gap, that entries are cut into by ranks and sizes."""
    order = np.argsort(ranks, kind="stable")
    starts = np.cumsum(sizes[order]) - sizes[order]
    cut = (starts // piece_size).astype(np.int64)
    numbers = np.empty(len(ranks), np.int64)
    numbers[order] = np.unique(cut, return_inverse=True)[1]
    return numbers


def pieces_of(entries: Entries | RawEntries, size: int) -> Integers:
    """Number the pieces of so many entries each. Shape: as pieces."""
    return np.arange(len(entries), dtype=np.int64) // size


def per_manifest(
    entries: Entries | RawEntries, values: Mapping[int, float]
) -> npt.NDArray[np.float64]:
    """Repeat for each entry the value of its manifest."""
    highest = max(values, default=0)
    table = np.zeros(highest + 1)
    table[list(values)] = list(values.values())
    return np.asarray(table[entries.table["manifest"].to_numpy()], np.float64)


def by_piece(entries: Entries, numbers: Integers) -> Callable[[range], Entries]:
    """Return how to have the entries of some pieces that follow each other.

    Order: that of the pieces; entries of a piece as they come.
    Cost: memory for the entries of these pieces; none where all entries come in this order.
    """
    starts = [0, *np.cumsum(np.bincount(numbers)).tolist()]
    order = None if (np.diff(numbers) >= 0).all() else np.argsort(numbers, kind="stable")

    def of(pieces: range) -> Entries:
        """Return the entries of some pieces."""
        start, stop = starts[pieces.start], starts[pieces.stop]
        return part(entries, start, stop) if order is None else take(entries, order[start:stop])

    return of
