"""Percent escapes of columns against the standard library, one text at a time."""

from urllib.parse import unquote

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from icectl.entries.columns import unescape

PIECES = ["a", "é", "\U0001f9ca", "/", "%", "%2F", "%2f", "%C3%A9", "%C3", "%A9", "%G0", "%4", "0"]
TEXTS = st.lists(st.sampled_from(PIECES), max_size=8).map("".join)


@given(st.lists(st.none() | TEXTS, max_size=8), st.integers(0, 3))
def test_columns_are_unescaped_as_each_of_their_texts(texts, start):
    column = pa.array(texts, pa.string())[start:]
    expected = [None if text is None else unquote(text, errors="replace") for text in texts]
    assert unescape(column).to_pylist() == expected[start:]
    assert unescape(column).type == pa.string()
