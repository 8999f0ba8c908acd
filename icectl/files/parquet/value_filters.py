"""Values that row groups of Parquet files can't have: by Bloom filters, and whole dictionaries.

Both hold values in their plain encoding. Those that writers encode in several ways (NaN, zeros of
real numbers) may always be there. A filter or dictionary is believed only if it is whole, and has
the bounds of its chunk.
"""

import struct
import zlib
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import compress
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import types as arrow_types
from xxhash import xxh64_intdigest

from icectl.errors import CorruptTable
from icectl.files.compiled import address, loops
from icectl.files.parquet.data_file import ParquetDataFile
from icectl.files.parquet.footer import (
    NUMBER,
    STRUCT,
    chunk_filters,
    find_members,
    octets,
    read_varint,
)
from icectl.files.parquet.metrics import footer_bytes
from icectl.files.parquet.schema import leaves

MOST_VALUES = 10_000
"""Values that are looked for at once: each is an object of Python."""

_MOST_HASHED, _MOST_FALSE = 100, 1.0
"""Values that are looked for in a Bloom filter of any size, and false positives that more of them
may have: with more of these, one value is nearly always there."""

_MOST_BYTES, _FEW_BYTES = 8 << 20, 64 << 10
"""Bytes of a filter or dictionary at most, and how many are read whatever their chunk has."""

_BLOCK_BYTES, _HEADER_BYTES = 32, 64
_BEGIN, _ALGORITHM = b"\x15", bytes.fromhex("1c1c0000 1c1c0000 1c1c0000 00")
"""How a header begins, before the size, and ends: split blocks, xxHash, not compressed."""

_SALTS = np.array(
    [
        0x47B6137B, 0x44974D91, 0x8824AD5B, 0xA2B7289D,
        0x705495C7, 0x2DF1424B, 0x9EFC4947, 0x5C6BFB31,
    ],
    np.uint32,
)  # fmt: skip
_PAGE_HEADER = np.array(
    [(0, 2, NUMBER), (0, 3, NUMBER), (0, 4, NUMBER), (0, 7, STRUCT), (4, 1, NUMBER)], np.int64
)
_CODECS = {"SNAPPY": "snappy", "ZSTD": "zstd", "GZIP": "gzip", "BROTLI": "brotli"}
_FORMATS = {"INT32": "<i", "INT64": "<q", "FLOAT": "<f", "DOUBLE": "<d"}
_LIMITS = {"INT32": 1 << 31, "INT64": 1 << 63}

Mask = npt.NDArray[np.bool_]


@dataclass(slots=True)
class _Plain:
    """Values in their plain encoding, and their places among others."""

    values: Sequence[bytes]
    places: npt.NDArray[np.intp]
    _hashes: npt.NDArray[np.uint64] | None = None

    def hashes(self) -> npt.NDArray[np.uint64]:
        """Return the hash of each value, computed once."""
        if self._hashes is None:
            hashed = map(xxh64_intdigest, self.values)
            self._hashes = np.fromiter(hashed, np.uint64, len(self.values))
        return self._hashes

    def among(self, asked: Mask) -> "_Plain":
        """Return those of some places."""
        is_asked = asked[self.places]
        if is_asked.all():
            return self
        values = list(compress(self.values, is_asked))
        return _Plain(values, self.places[is_asked], self.hashes()[is_asked])


_Has = Callable[[_Plain], Mask]
"""Returns which values there may be."""

RuledOutBy = Literal["bounds", "dictionary", "bloom"]
"""By what a file surely lacks values, as far as its rows were not read."""

Read = Callable[[int, int], bytes]
"""Reads bytes from an offset, fewer where a file ends."""


class FilterFacts(NamedTuple):
    """What a footer says of a Bloom filter, and of the chunk that it is of.

    `size_bytes` are those of the filter, None where they are not stated; the bounds are plain.
    """

    value_count: int
    chunk_bytes: int
    offset: int
    size_bytes: int | None = None
    lower: bytes | None = None
    upper: bytes | None = None


class Sought:
    """Values to look for in many files: those of few are encoded once for each way to store them.

    `values` are in the order of every mask of them.
    """

    def __init__(self, values: pa.Array) -> None:
        self.values = values
        self._known: dict[tuple[pa.DataType, str, int], _Plain] = {}

    def plain(self, asked: Mask, stored: pa.DataType, physical: str, width: int) -> _Plain:
        """Return the asked values that surely have one plain encoding in a column as stored."""
        if len(self.values) > MOST_VALUES:
            own = _encoded(self.values.filter(pa.array(asked)), stored, physical, width)
            return _Plain(own.values, asked.nonzero()[0][own.places])
        form = stored, physical, width
        if form not in self._known:
            self._known[form] = _encoded(self.values, stored, physical, width)
        return self._known[form].among(asked)


def _encoded(values: pa.Array, stored: pa.DataType, physical: str, width: int) -> _Plain:
    plain = _plain_values(values, stored, physical, width)
    places = [place for place, value in enumerate(plain) if value is not None]
    return _Plain([value for value in plain if value is not None], np.array(places, np.intp))


class ValueFilters:
    """The Bloom filters and whole dictionaries of an open file, each read once it is asked for."""

    def __init__(self, opened: ParquetDataFile) -> None:
        self._opened = opened
        self._places = {
            leaf.field_id: at
            for at, leaf in enumerate(leaves(opened.schema))
            if leaf.part is None and not leaf.is_repeated
        }
        self._known: dict[tuple[int, int], _Has | None] = {}
        self._used: set[RuledOutBy] = set()

    @property
    def ruled_out_by(self) -> RuledOutBy:
        """What has ruled out a value that was asked for; bounds alone if nothing here has."""
        if "bloom" in self._used:
            return "bloom"
        return "dictionary" if self._used else "bounds"

    def may_have(self, group: int, field_id: int, values: pa.Array) -> Mask:
        """Return which values a row group may have in a column. Order: kept. Cost: as those_of."""
        return self.those_of(group, field_id, Sought(values), np.ones(len(values), np.bool_))

    def those_of(self, group: int, field_id: int, sought: Sought, asked: Mask) -> Mask:
        """Return which of the asked values a row group may have in a column. Order: kept.

        Null may always be there, and so may all of more than MOST_VALUES.
        Cost: a request for a filter or dictionary that is not larger than its chunk.
        """
        at = self._places.get(field_id)
        if at is None or np.count_nonzero(asked) > MOST_VALUES:
            return asked
        file = self._opened.file.metadata
        chunk, width = file.row_group(group).column(at), file.schema.column(at).length
        is_coded = chunk.has_dictionary_page and self._is_whole(group, at)
        # Before Arrow 26 there is no such member.
        if not is_coded and getattr(chunk, "bloom_filter_offset", None) is None:
            return asked
        stored = leaves(self._opened.schema)[at].type
        plain = sought.plain(asked, stored, chunk.physical_type, width)
        facts = None if is_coded else _filter_facts(chunk)
        if not plain.values or not (facts is None or _pays(facts, len(plain.values))):
            return asked
        if (group, at) not in self._known:
            # What is damaged rules nothing out: readers of the rows will say so.
            with suppress(CorruptTable, ValueError, struct.error, pa.ArrowException):
                has = (
                    self._dictionary(chunk, width) if facts is None
                    else _bloom_filter(facts, self._read)
                )  # fmt: skip
                is_whole = has is not None and _has_bounds(has, *_bounds(chunk))
                self._known[group, at] = has if is_whole else None
        has = self._known.setdefault((group, at), None)
        may = asked.copy()
        if has is not None:
            may[plain.places] = has(plain)
            if not may[plain.places].all():
                self._used.add("dictionary" if is_coded else "bloom")
        return may

    @cached_property
    def _whole(self) -> npt.NDArray[np.bool_]:
        """Return which chunks, over all row groups, have a dictionary of all their values."""
        found = chunk_filters(footer_bytes(self._opened.file.metadata))
        return np.zeros(0, np.bool_) if found is None else found.has_dictionary

    def _is_whole(self, group: int, at: int) -> bool:
        number = group * self._opened.file.metadata.num_columns + at
        return number < len(self._whole) and bool(self._whole[number])

    def _read(self, offset: int, size_bytes: int) -> bytes:
        self._opened.stored.seek(offset)
        return bytes(self._opened.stored.read(size_bytes))

    def _dictionary(self, chunk: Any, width: int) -> _Has | None:
        start = chunk.dictionary_page_offset
        size_bytes = chunk.data_page_offset - start if start else 0
        if loops() is None or not 0 < size_bytes <= _most_bytes(chunk.total_compressed_size):
            return None
        content = self._read(start, size_bytes)
        header = find_members(octets(content), _PAGE_HEADER)
        sizes = [header.value(node) for node in (1, 2, 5)]
        if None in sizes:
            return None
        unpacked_bytes, stored_bytes, count = (size or 0 for size in sizes)
        page = content[header.end : header.end + stored_bytes]
        checksum = header.value(3)
        is_whole = len(page) == stored_bytes and 0 <= unpacked_bytes <= _MOST_BYTES
        if checksum is not None and zlib.crc32(page) != checksum & 0xFFFFFFFF:
            return None
        if not is_whole or chunk.compression not in ("UNCOMPRESSED", *_CODECS):
            return None
        if chunk.compression in _CODECS:
            codec = pa.Codec(_CODECS[chunk.compression])
            page = codec.decompress(page, unpacked_bytes).to_pybytes()
        values = _dictionary_values(page, count, _width_of(chunk.physical_type, width))
        return None if values is None else partial(_among, values)


def filtered(facts: FilterFacts, read: Read, plain: _Plain, asked: Mask) -> Mask:
    """Return which of the asked values, some of them `plain`, a chunk may have. Order: kept.

    All of them where its Bloom filter is not believed, or would rule out too few to be read.
    """
    if not plain.values or not _pays(facts, len(plain.values)):
        return asked
    try:
        has = _bloom_filter(facts, read)
    except CorruptTable:  # what is damaged rules nothing out
        return asked
    may = asked.copy()
    if has is not None and _has_bounds(has, facts.lower, facts.upper):
        may[plain.places] = has(plain)
    return may


def _bloom_filter(facts: FilterFacts, read: Read) -> _Has | None:
    """Read a Bloom filter; None where it is none that is known, or larger than its chunk."""
    most_bytes = _most_bytes(facts.chunk_bytes)
    size_bytes = facts.size_bytes or _HEADER_BYTES
    if not 0 < size_bytes <= most_bytes:
        return None
    content = read(facts.offset, size_bytes)
    doubled, at = read_varint(content, len(_BEGIN))  # zigzag
    end, bits_bytes = at + len(_ALGORITHM), doubled >> 1
    header = content[: len(_BEGIN)] + content[at:end]
    if header != _BEGIN + _ALGORITHM or bits_bytes > most_bytes:
        return None
    if facts.size_bytes is None:
        content = read(facts.offset, end + bits_bytes)
    bits = memoryview(content)[end:]
    if doubled & 1 or len(bits) != bits_bytes or bits_bytes % _BLOCK_BYTES or not any(bits):
        return None
    return partial(_in_blocks, np.frombuffer(bits, np.uint8))


def _in_blocks(bits: npt.NDArray[np.uint8], values: _Plain) -> Mask:
    hashed = values.hashes()
    if loops() is not None:
        may = np.empty(len(hashed), np.bool_)
        loops().in_blocks(
            *(address(bits, np.uint8), len(bits) // _BLOCK_BYTES),
            *(address(hashed, np.uint64), len(hashed), address(may, np.bool_)),
        )
        return may
    blocks = bits.view("<u4").reshape(-1, len(_SALTS))
    chosen = blocks[(hashed >> np.uint64(32)) * np.uint64(len(blocks)) >> np.uint64(32)]
    low = hashed.astype(np.uint32)[:, np.newaxis]
    wanted = np.uint32(1) << (low * _SALTS >> np.uint32(27))
    return np.asarray((chosen & wanted == wanted).all(axis=1), np.bool_)


def _filter_facts(chunk: Any) -> FilterFacts:
    sizes = chunk.num_values, chunk.total_compressed_size
    return FilterFacts(*sizes, chunk.bloom_filter_offset, chunk.bloom_filter_length)


def _among(known: Collection[bytes], plain: _Plain) -> Mask:
    return np.fromiter((it in known for it in plain.values), np.bool_, len(plain.values))


def _pays(facts: FilterFacts, count: int) -> bool:
    """Return whether a Bloom filter may rule out so many values together."""
    if count <= _MOST_HASHED or facts.size_bytes is None:
        return count <= _MOST_HASHED
    blocks = max(facts.size_bytes // _BLOCK_BYTES, 1)
    set_bits = 1 - (1 - 1 / (8 * _BLOCK_BYTES // len(_SALTS))) ** (
        max(facts.value_count, 0) / blocks
    )
    return bool(count * set_bits ** len(_SALTS) <= _MOST_FALSE)


def _most_bytes(chunk_bytes: int) -> int:
    """Return how many bytes are read to rule a chunk out."""
    return min(_MOST_BYTES, max(chunk_bytes, _FEW_BYTES))


def _width_of(physical: str, width: int) -> int:
    """Return the bytes of a plain value; 0 where they differ."""
    return struct.calcsize(_FORMATS[physical]) if physical in _FORMATS else max(width, 0)


def _dictionary_values(page: bytes, count: int, width: int) -> Collection[bytes] | None:
    """Return the plain values of a dictionary; None if its page has others than it says."""
    if width:
        values = {page[at : at + width] for at in range(0, len(page), width)}
        return values if len(page) == count * width else None
    found = set()
    at = 0
    for _ in range(count):
        if at + 4 > len(page):
            return None
        size_bytes = int.from_bytes(page[at : at + 4], "little")
        found.add(page[at + 4 : at + 4 + size_bytes])
        at += 4 + size_bytes
    return found if at == len(page) else None


def _has_bounds(has: _Has, *bounds: bytes | None) -> bool:
    """Return whether a filter has the least and the greatest value of its chunk, where told."""
    plain = [bound for bound in bounds if bound is not None]
    return bool(has(_Plain(plain, np.arange(len(plain)))).all())


def _bounds(chunk: Any) -> Sequence[bytes]:
    """Return the least and the greatest value of a chunk, plain; none where they are not told."""
    stated = chunk.statistics
    if stated is None or not stated.has_min_max:
        return ()
    layout = _FORMATS.get(chunk.physical_type)
    bounds = stated.min_raw, stated.max_raw
    return [struct.pack(layout, it) if layout else bytes(it) for it in bounds]


def _plain_values(
    values: pa.Array, stored: pa.DataType, physical: str, width: int
) -> Sequence[bytes | None]:
    """Return the plain encoding that values have in a column as stored; None if it is not sure."""
    if isinstance(stored, pa.BaseExtensionType):
        stored = stored.storage_type
    if isinstance(values, pa.ExtensionArray):
        values = values.storage
    kind = values.type
    encode: Callable[[Any], bytes | None]
    if physical in _LIMITS and _are_alike(kind, stored):
        values, encode = _numbers(values), partial(_plain_number, physical)
    elif physical == "FIXED_LEN_BYTE_ARRAY" and _are_alike(kind, stored):
        values, encode = _numbers(values), partial(_plain_bytes, width)
    elif physical in ("FLOAT", "DOUBLE") and arrow_types.is_floating(kind):
        encode = partial(_plain_real, physical)
    elif physical == "BYTE_ARRAY" and _is_text(kind) and _is_text(stored):
        values, encode = values.cast(pa.binary()), bytes
    elif physical == "FIXED_LEN_BYTE_ARRAY" and kind == stored == pa.binary(width):
        encode = bytes
    else:
        return [None] * len(values)
    return [None if value is None else encode(value) for value in values.to_pylist()]


def _are_alike(kind: pa.DataType, stored: pa.DataType) -> bool:
    """Return whether a whole number stands for the same value in both types."""
    if arrow_types.is_decimal(kind):
        return bool(arrow_types.is_decimal(stored)) and kind.scale == stored.scale
    if arrow_types.is_integer(kind):
        return bool(arrow_types.is_signed_integer(stored))
    if arrow_types.is_timestamp(kind):
        return bool(arrow_types.is_timestamp(stored)) and kind.unit == stored.unit
    return kind == stored and bool(arrow_types.is_date32(kind) or arrow_types.is_time64(kind))


def _numbers(values: pa.Array) -> pa.Array:
    """Return values as numbers; those of decimals in 16 bytes, as Python rounds to 28 digits."""
    if arrow_types.is_integer(values.type):
        return values
    kinds = {32: pa.int32(), 64: pa.int64(), 128: pa.binary(16)}
    return values.view(kinds[values.type.bit_width])


def _plain_number(physical: str, number: int | bytes) -> bytes | None:
    if isinstance(number, bytes):
        number = int.from_bytes(number, "little", signed=True)
    limit = _LIMITS[physical]
    return struct.pack(_FORMATS[physical], number) if -limit <= number < limit else None


def _plain_bytes(width: int, number: bytes) -> bytes | None:
    unscaled = int.from_bytes(number, "little", signed=True)
    limit = 1 << 8 * width - 1
    return unscaled.to_bytes(width, "big", signed=True) if -limit <= unscaled < limit else None


def _plain_real(physical: str, number: float) -> bytes | None:
    if not number or number != number:  # noqa: PLR0124 - NaN
        return None
    with suppress(OverflowError):
        plain = struct.pack(_FORMATS[physical], number)
        return plain if struct.unpack(_FORMATS[physical], plain)[0] == number else None
    return None


def _is_text(kind: pa.DataType) -> bool:
    return kind in (
        pa.string(), pa.binary(), pa.large_string(), pa.large_binary(), pa.string_view(),
        pa.binary_view(),
    )  # fmt: skip
