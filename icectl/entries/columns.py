"""Arrow columns as numpy arrays: integers, decimals, bytes, and values computed from them.

Columns have the Arrow type of an Iceberg type, or a narrower type that it was promoted from. Null
rows have an arbitrary value, which callers ignore. Hashes are MurmurHash64A with seed 0, for large
sets of strings in little memory; no stored data depends on them.
"""

from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from icectl.format.types import DecimalType, PrimitiveType, Type

Integers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Positions = npt.NDArray[np.uint64]
"""Positions of rows in a file, rising: those that a delete vector names."""
NONE: Positions = np.empty(0, np.uint64)
Octets = npt.NDArray[np.uint8]
Places = npt.NDArray[Any]

INTEGER_TYPES: dict[str, pa.DataType] = {
    "int": pa.int64(),
    "long": pa.int64(),
    "date": pa.date32(),
    "time": pa.time64("us"),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", "UTC"),
    "timestamp_ns": pa.timestamp("ns"),
    "timestamptz_ns": pa.timestamp("ns", "UTC"),
}
"""Types whose values are integers, and what their columns are read as."""

Hashes = npt.NDArray[np.uint64]
LOCATION_HASH = "location_hash"
_DIGITS = np.full(256, 16, np.uint8)
_DIGITS[np.frombuffer(b"0123456789abcdef", np.uint8)] = range(16)
_DIGITS[np.frombuffer(b"ABCDEF", np.uint8)] = range(10, 16)
_ROWS_AT_ONCE = 65_536
"""Rows whose bytes stay near the processor."""

_FACTOR, _SHIFT = np.uint64(0xC6A4A7935BD1E995), np.uint64(47)
_WORD = 8
_ROWS_IN_CACHE = 8_192
"""Rows whose bytes and hashes stay in the processor's cache."""


@dataclass(frozen=True, slots=True)
class Spans:
    """Byte strings of `lengths` bytes at `starts` in `content`."""

    content: Octets
    starts: npt.NDArray[Any]
    lengths: npt.NDArray[Any]

    def numbers(self, places: Places, form: str) -> npt.NDArray[Any]:
        """Return the values at some places, whose lengths are that of `form`, as numbers."""
        if not len(places):
            return np.zeros(0, form)
        numbers: npt.NDArray[Any] = everywhere(self.content, form)[self.starts[places]]
        return numbers

    def bytes_at(self, place: int) -> bytes:
        start = int(self.starts[place])
        return self.content[start : start + int(self.lengths[place])].tobytes()

    def decimals(self, places: Places) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint64]]:
        """Upper and lower half of values of 1 to 16 bytes in big-endian two's complement."""
        lengths = self.lengths[places]
        content = np.concatenate([np.zeros(16, np.uint8), self.content])  # before the first one
        words = everywhere(content, ">i8")
        ends = self.starts[places].astype(np.int64) + 16 + lengths
        low, high = words[ends - 8].astype(np.int64), words[ends - 16].astype(np.int64)
        # Shifting left and right drops the bytes before a value and fills in its sign.
        foreign = np.clip(8 * (8 - lengths), 0, 56)
        low = low << foreign >> foreign
        foreign = np.clip(8 * (16 - lengths), 0, 56)
        high = np.where(lengths > 8, high << foreign >> foreign, low >> 63)
        return high, low.view(np.uint64)


def distinct_count(values: npt.NDArray[Any]) -> int:
    """Count distinct values by sorting: numpy's `unique` takes fifty times as long on hashes."""
    ordered = np.sort(values)
    return int(np.count_nonzero(ordered[1:] != ordered[:-1])) + (len(ordered) > 0)


def is_integer(type_: Type) -> bool:
    """Return whether the values of a type are integers."""
    return isinstance(type_, PrimitiveType) and type_.name in INTEGER_TYPES


def whole(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """Return a column in one piece; one of a single piece is not copied."""
    if isinstance(column, pa.Array):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.nulls(0, column.type)


def replace_column(table: pa.Table, name: str, column: pa.ChunkedArray | pa.Array) -> pa.Table:
    """Return a table with other values in a column, whose field stays. Order: kept."""
    at = table.schema.get_field_index(name)
    return table.set_column(at, table.schema.field(at), column)


def from_integers(values: Integers) -> pa.Array:
    """Return integers as a column, not copied; `pa.array` would import numpy.ma, slowly."""
    return pa.Array.from_buffers(pa.int64(), len(values), [None, pa.py_buffer(values)])


def mask_of(flags: pa.ChunkedArray | pa.Array) -> Mask:
    """Return a column of flags as numpy sees it; null is False."""
    known = pc.fill_null(flags, fill_value=False) if flags.null_count else flags
    return np.asarray(known.to_numpy(zero_copy_only=False), np.bool_)


def plain(column: pa.Array) -> pa.Array:
    """Return the column without dictionary and extension type."""
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    return column.dictionary_decode() if isinstance(column, pa.DictionaryArray) else column


def integers(name: str, column: pa.Array) -> Integers:
    """Return the values of a column of an integer type, in its units. Raises: ValueError."""
    wanted = INTEGER_TYPES[name]
    column = plain(column)
    if pa.types.is_timestamp(wanted) and pa.types.is_timestamp(column.type):
        # The instant stays the same whatever zone a file names.
        wanted = pa.timestamp(wanted.unit, column.type.tz)
    column = _cast(column, wanted)
    if wanted == pa.date32():
        column = column.cast(pa.int32())
    counts: Integers = column.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    return counts


def decimal_words(type_: DecimalType, column: pa.Array) -> Integers:
    """Return unscaled decimals, two words a row, the low one first. Raises: ValueError."""
    column = _cast(plain(column), pa.decimal128(type_.precision, type_.scale))
    count = 2 * (column.offset + len(column))  # the buffer may have any length beyond
    words = np.frombuffer(column.buffers()[1] or b"", np.int64, count).reshape(-1, 2)
    return words[column.offset :]


def decimal_bytes(type_: DecimalType, column: pa.Array) -> Spans:
    """The unscaled values as the fewest bytes of big-endian two's complement, at least one."""
    words = decimal_words(type_, column)
    magnitudes = np.ascontiguousarray((words ^ (words[:, 1:] >> 63))[:, ::-1].astype(">i8"))
    octets = magnitudes.view(np.uint8).reshape(-1, 16)
    used = octets != 0
    first = np.where(used.any(axis=1), used.argmax(axis=1), 16)
    leading = octets[np.arange(len(octets)), np.minimum(first, 15)]
    lengths = np.where(first == 16, 1, 16 - first + (leading >= 0x80))
    content = np.ascontiguousarray(words[:, ::-1].astype(">i8")).view(np.uint8).reshape(-1)
    starts = np.arange(1, len(words) + 1, dtype=np.int64) * 16 - lengths
    return Spans(content, starts, lengths.astype(np.int64))


def byte_strings(column: pa.Array) -> Spans:
    """Return the bytes of a string, binary, uuid or fixed column. Raises: ValueError."""
    column = plain(column)
    count = len(column)
    if pa.types.is_fixed_size_binary(column.type):
        width = column.type.byte_width
        content = np.frombuffer(column.buffers()[1] or b"", np.uint8)
        starts = (np.arange(count, dtype=np.int64) + column.offset) * width
        return Spans(content, starts, np.full(count, width, np.int64))
    column = _cast(column, pa.large_binary())
    _, offset_buffer, content_buffer = column.buffers()
    offsets = np.frombuffer(offset_buffer or b"\0" * 8, np.int64)
    offsets = offsets[column.offset : column.offset + count + 1]
    content = np.frombuffer(content_buffer or b"", np.uint8)
    return Spans(content, offsets[:-1], np.diff(offsets))


def packed(spans: Spans) -> pa.Array:
    """Return the byte strings as one binary column."""
    ends = np.cumsum(spans.lengths, dtype=np.int64)
    size = int(ends[-1]) if len(ends) else 0
    shifts = spans.starts - (ends - spans.lengths)
    if not size or (shifts == shifts[0]).all():  # as they mostly are: nothing is copied
        first = int(shifts[0]) if size else 0
        content = spans.content[first : first + size]
    else:
        places = np.arange(size, dtype=np.int64)
        places += np.repeat(shifts, spans.lengths)
        content = spans.content[places]
    offsets = np.concatenate([np.zeros(1, np.int64), ends])
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(content)]
    return pa.Array.from_buffers(pa.large_binary(), len(ends), buffers)


def with_nulls_of(column: pa.Array, values: pa.Array) -> pa.Array:
    """Return the values, null where the column is."""
    if not column.null_count:
        return values
    return pc.if_else(column.is_valid(), values, pa.scalar(None, values.type))


def _cast(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    if column.type == wanted:
        return column
    try:
        return column.cast(wanted)
    except pa.ArrowNotImplementedError as error:
        raise ValueError(f"a column of type {column.type} is not one of {wanted}") from error


def not_text(values: pa.Array) -> npt.NDArray[np.bool_]:
    """Find which of binary values are not UTF-8: all at once, and one by one where that fails."""
    wrong = np.zeros(len(values), np.bool_)
    try:
        values.cast(pa.string())
    except pa.ArrowInvalid:
        for at, value in enumerate(values.to_pylist()):
            try:
                (value or b"").decode()
            except UnicodeDecodeError:
                wrong[at] = True
    return wrong


def everywhere(content: npt.NDArray[np.uint8], form: str) -> npt.NDArray[Any]:
    """Return a number at every byte, without a copy."""
    width = np.dtype(form).itemsize
    return np.ndarray((len(content) - width + 1,), form, content.data, 0, (1,))


def unescape(column: pa.Array) -> pa.Array:
    """Texts with each percent escape as the byte it stands for.

    Escapes that are none stay, and bytes that make no text become U+FFFD: as `unquote` has it.
    Shape: as the column; null stays null. Order: kept.
    """
    content = column.buffers()[2]
    if content is None or not (np.frombuffer(content, np.uint8) == ord("%")).any():
        return column
    starts = range(0, max(len(column), 1), _ROWS_AT_ONCE)
    return pa.concat_arrays([_unescaped(column.slice(start, _ROWS_AT_ONCE)) for start in starts])


def _unescaped(column: pa.Array) -> pa.Array:
    escaped = pc.fill_null(pc.match_substring(column, "%"), fill_value=False)
    if not pc.any(escaped).as_py():
        return column
    texts = column.filter(escaped)
    octets = _octets(byte_strings(texts))
    wrong = not_text(octets)
    if wrong.any():
        spelled = [unquote(text, errors="replace") for text in texts.filter(wrong).to_pylist()]
        octets = pc.replace_with_mask(octets, wrong, pa.array(spelled).cast(octets.type))
    return pc.replace_with_mask(column, escaped, octets.cast(column.type))


def _octets(spans: Spans) -> pa.Array:
    """Byte strings with their escapes replaced."""
    ends = spans.starts + spans.lengths
    first, end = int(spans.starts[0]), int(ends[-1])
    content = spans.content[first:end].copy()
    places = np.flatnonzero(content == ord("%"))
    rows = np.searchsorted(spans.starts, places + first, side="right") - 1
    whole = places + first + 2 < ends[rows]
    places, rows = places[whole], rows[whole]
    high, low = _DIGITS[content[places + 1]], _DIGITS[content[places + 2]]
    valid = (high < 16) & (low < 16)
    places, rows = places[valid], rows[valid]
    content[places] = high[valid] * 16 + low[valid]
    kept = np.ones(len(content), np.bool_)
    kept[places + 1] = kept[places + 2] = False
    lengths = spans.lengths - 2 * np.bincount(rows, minlength=len(ends))
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(content[kept])]
    return pa.Array.from_buffers(pa.large_binary(), len(lengths), buffers)


def byte_hashes(spans: Spans) -> Hashes:
    """Return the hash of each byte string. Order: kept."""
    hashes = np.empty(len(spans.starts), np.uint64)
    for start in range(0, len(hashes), _ROWS_IN_CACHE):
        rows = slice(start, start + _ROWS_IN_CACHE)
        hashes[rows] = _some_hashes(spans.content, spans.starts[rows], spans.lengths[rows])
    return hashes


def text_hashes(texts: pa.ChunkedArray) -> Hashes:
    """Return the hash of each text. Order: kept."""
    hashes = [byte_hashes(byte_strings(chunk)) for chunk in texts.chunks]
    return np.concatenate([np.empty(0, np.uint64), *hashes])


def with_location_hashes(table: pa.Table) -> pa.Table:
    """Return the rows with the location's hash in its place: 8 bytes for 100. Order: kept."""
    at = table.schema.get_field_index("location")
    return table.set_column(at, LOCATION_HASH, pa.array(text_hashes(table.column(at))))


def _some_hashes(content: Octets, starts: Integers, lengths: Integers) -> Hashes:
    order = np.argsort(-lengths, kind="stable")  # so that those with a next word come first
    starts, lengths = starts[order], lengths[order]
    first, end = int(starts.min()), int((starts + lengths).max())
    padded = np.zeros(end - first + _WORD, np.uint8)  # a word may be read at every position
    padded[: end - first] = content[first:end]
    words = np.ndarray(end - first + 1, "<u8", padded.data, strides=(1,))
    starts = starts - first
    state = lengths.astype(np.uint64) * _FACTOR
    word_counts = lengths // _WORD
    for word in range(int(word_counts[0])):
        active = int(np.searchsorted(-word_counts, -word))  # those that have this word
        mixed = words[starts[:active] + _WORD * word]
        mixed *= _FACTOR
        mixed ^= mixed >> _SHIFT
        mixed *= _FACTOR
        state[:active] ^= mixed
        state[:active] *= _FACTOR
    tails = lengths % _WORD
    rows = np.flatnonzero(tails)
    unused_bits = (8 * (_WORD - tails[rows])).astype(np.uint64)
    last = words[starts[rows] + _WORD * word_counts[rows]] << unused_bits >> unused_bits
    state[rows] = (state[rows] ^ last) * _FACTOR
    state ^= state >> _SHIFT
    state *= _FACTOR
    state ^= state >> _SHIFT
    hashes = np.empty(len(order), np.uint64)
    hashes[order] = state
    return hashes
