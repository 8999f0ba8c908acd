"""64-bit hashes of byte strings over whole columns: MurmurHash64A with seed 0.

For sets of many strings in little memory; nothing that is stored depends on them.
"""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from icectl.entries.columns.values import Integers, Octets, Spans, byte_strings

Hashes = npt.NDArray[np.uint64]
LOCATION_HASH = "location_hash"

_FACTOR, _SHIFT = np.uint64(0xC6A4A7935BD1E995), np.uint64(47)
_WORD = 8
_ROWS_AT_ONCE = 8_192
"""Rows whose bytes and hashes stay in the processor's cache."""


def byte_hashes(spans: Spans) -> Hashes:
    """Return the hash of each byte string.

    Shape: one hash per string. Order: kept.
    """
    hashes = np.empty(len(spans.starts), np.uint64)
    for start in range(0, len(hashes), _ROWS_AT_ONCE):
        rows = slice(start, start + _ROWS_AT_ONCE)
        hashes[rows] = _some_hashes(spans.content, spans.starts[rows], spans.lengths[rows])
    return hashes


def with_location_hashes(table: pa.Table) -> pa.Table:
    """Return the same rows with the hash of their location in its place: eight bytes for a hundred.

    Order: kept.
    """
    at = table.schema.get_field_index("location")
    hashes = [pa.array(byte_hashes(byte_strings(chunk))) for chunk in table.column(at).chunks]
    return table.set_column(at, LOCATION_HASH, pa.chunked_array(hashes, pa.uint64()))


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
        _stir(state[:active], _mixed(words[starts[:active] + _WORD * word]))
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


def _mixed(words: Hashes) -> Hashes:
    """Words with their bits spread; changed in place."""
    words *= _FACTOR
    words ^= words >> _SHIFT
    words *= _FACTOR
    return words


def _stir(state: Hashes, words: Hashes) -> None:
    state ^= words
    state *= _FACTOR
