"""Percent escapes of whole columns of locations."""

from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icectl.entries.columns.values import Integers, Octets, Spans, byte_strings, not_text

_DIGITS = np.full(256, 16, np.uint8)
_DIGITS[np.frombuffer(b"0123456789abcdef", np.uint8)] = range(16)
_DIGITS[np.frombuffer(b"ABCDEF", np.uint8)] = range(10, 16)
_ROWS_AT_ONCE = 65_536
"""Rows whose bytes stay near the processor."""


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
    return _packed(content[kept], lengths)


def _packed(content: Octets, lengths: Integers) -> pa.Array:
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(content)]
    return pa.Array.from_buffers(pa.large_binary(), len(lengths), buffers)
