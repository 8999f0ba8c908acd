"""Loops over Avro records: reading columns out of blocks, and writing them.

A schema is a program, one row [op, a, b, c, valid] an instruction, run once a record; see
manifest_scan.py for how programs are made and what the arrays hold. The loops are those of loops.c.

Nothing in a file is trusted: every read is checked against the end of its block, every length and
count against what is left, every union branch, every number against 64 bits. A loop that finds
damage returns DAMAGED; no input makes it read or write outside its arrays.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from icectl.files.compiled import address, loops

DAMAGED = -1
FULL = -2

(
    SKIP_NUMBER, SKIP_BYTES, SKIP_FIXED, SKIP_NUMBERS, SKIP_NUMBER_PAIRS, SKIP_BYTES_PAIRS,
    OPTIONAL, NUMBER, BYTES, SPAN_START, SPAN_END, NUMBERS, NUMBER_PAIRS, BYTES_PAIRS, ARRAY,
    ARRAY_END, RAW, POSITION,
) = range(18)  # fmt: skip

_MOST_COLUMNS = 64
_Array = npt.NDArray[Any]


def scan(  # noqa: PLR0917 - the arrays of one room
    buffer: _Array,
    blocks: _Array,
    program: _Array,
    state: _Array,
    valid: _Array,
    numbers: _Array,
    text_ends: _Array,
    list_ends: _Array,
    keys: _Array,
    items: _Array,
    item_ends: _Array,
    texts: _Array,
) -> int:
    """Scan records until the blocks or the room end; returns how many, or DAMAGED or FULL.

    `blocks`: (end, records) of each; `state`: (position, block, records done in it), moved on.
    `texts` holds the bytes of text columns, then of items; text_ends and item_ends where each ends.
    FULL: not one record found room.
    """
    if len(texts) > _MOST_COLUMNS or len(list_ends) > _MOST_COLUMNS:
        raise ValueError(f"{len(texts)} columns of texts, {len(list_ends)} of lists")
    done: int = loops().scan(
        address(buffer, np.uint8),
        *(address(blocks, np.int64), len(blocks)),
        *(address(program, np.int64), len(program)),
        address(state, np.int64),
        *(address(valid, np.uint8), *valid.shape),
        address(numbers, np.int64),
        *(address(text_ends, np.int32), len(text_ends)),
        *(address(list_ends, np.int32), len(list_ends)),
        address(keys, np.int32),
        address(items, np.int64),
        *(address(item_ends, np.int32), items.shape[1]),
        *(address(texts, np.uint8), texts.shape[1]),
    )
    return done


def encode(  # noqa: PLR0917 - the arrays of some rows
    program: _Array,
    valid: _Array,
    numbers: _Array,
    text_offsets: _Array,
    list_offsets: _Array,
    keys: _Array,
    items: _Array,
    item_offsets: _Array,
    texts: _Array,
    output: _Array,
    row_ends: _Array,
) -> int:
    """Encode rows into `output`, which is large enough; row_ends says where each ends.

    A step is [op, column, first key, first item, valid]; `valid` of -1 is a required field, others
    are unions of null and the type. Offsets of texts are positions in `texts`, those of lists count
    from the list's first key and item.
    """
    used: int = loops().encode(
        *(address(program, np.int64), len(program)),
        address(valid, np.uint8),
        *(address(array, np.int64) for array in (numbers, text_offsets, list_offsets)),
        address(keys, np.int32),
        *(address(array, np.int64) for array in (items, item_offsets)),
        *(address(array, np.uint8) for array in (texts, output)),
        *(address(row_ends, np.int64), len(row_ends)),
    )
    return used


def splice(
    buffer: _Array,
    program: _Array,
    spans: _Array,
    numbers: _Array,
    valid: _Array,
    output: _Array,
    row_ends: _Array,
) -> int:
    """Encode rows out of pieces of `buffer` and numbers; `output` is large enough.

    A step is [NUMBER, column, null branch], for numbers[column], in a union unless the null branch
    is -1, or [RAW, first, last], for buffer[spans[first] : spans[last]].
    """
    used: int = loops().splice(
        address(buffer, np.uint8),
        *(address(program, np.int64), len(program)),
        *(address(array, np.int64) for array in (spans, numbers)),
        *(address(array, np.uint8) for array in (valid, output)),
        *(address(row_ends, np.int64), len(row_ends)),
    )
    return used
