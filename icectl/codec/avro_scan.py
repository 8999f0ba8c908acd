"""Compiled loops over Avro records: reading columns out of blocks, and writing them.

A schema is a program, one row [op, a, b, c, valid] an instruction, run once a record; see
manifest_scan.py for how programs are made and what the arrays hold. Importing this module compiles
the loops once after an installation; later imports load them.

Nothing in a file is trusted: every read is checked against the end of its block, every length and
count against what is left, every union branch, every number against 64 bits. A loop that finds
damage returns DAMAGED; no input makes it read or write outside its arrays.
"""

from typing import Any

import numba
import numpy as np
import numpy.typing as npt

from icectl.codec.compiled import compiled

DAMAGED = -1
FULL = -2

(
    SKIP_NUMBER,
    SKIP_BYTES,
    SKIP_FIXED,
    SKIP_NUMBERS,
    SKIP_NUMBER_PAIRS,
    SKIP_BYTES_PAIRS,
    OPTIONAL,
    NUMBER,
    BYTES,
    SPAN_START,
    SPAN_END,
    NUMBERS,
    NUMBER_PAIRS,
    BYTES_PAIRS,
    ARRAY,
    ARRAY_END,
    RAW,
    POSITION,
) = range(18)

PADDING = 16
"""Bytes behind the content of a buffer: a number of ten bytes that starts inside ends inside."""

_MAX_NESTING = 32
_Array = npt.NDArray[Any]
_Number = Any
"""A 64-bit integer: numba and numpy types for it do not agree."""

_ONE, _TWO, _SEVEN, _LOW, _LAST_SHIFT = (np.uint64(number) for number in (1, 2, 7, 127, 63))
_TOGETHER = 16
_ODD_OR_LONG = 129
_NOWHERE = np.uint64(2**64 - 1)
"""Behind every end: where a damaged value ends. numba indexes unsigned positions faster."""

_BOTTOM, _TOP = np.iinfo(np.int32).min, np.iinfo(np.int32).max


@numba.njit(nogil=True, forceinline=True)
def _read_number(buffer: _Array, at: _Number, end: _Number) -> tuple[_Number, _Number]:
    """(value, where it ends)."""
    if at >= end:
        return np.int64(0), _NOWHERE
    byte = np.uint64(buffer[at])
    at += _ONE
    value = byte & _LOW
    shift = _SEVEN
    while byte > _LOW:
        byte = np.uint64(buffer[at])
        at += _ONE
        value |= (byte & _LOW) << shift
        if shift == _LAST_SHIFT and byte > _ONE:
            return np.int64(0), _NOWHERE
        shift += _SEVEN
    return np.int64(value >> _ONE) ^ -np.int64(value & _ONE), at


@numba.njit(nogil=True, forceinline=True)
def _skip_number(buffer: _Array, at: _Number, end: _Number) -> _Number:
    # Its length does not matter: what is stepped over is no value.
    while at < end:
        byte = buffer[at]
        at += _ONE
        if byte < 128:
            return at
    return _NOWHERE


@numba.njit(nogil=True, forceinline=True)
def _skip_text(buffer: _Array, at: _Number, end: _Number) -> _Number:
    length, at = _read_number(buffer, at, end)
    if at > end or length < 0 or np.uint64(length) > end - at:
        return _NOWHERE
    return at + np.uint64(length)


@numba.njit(nogil=True, forceinline=True)
def _item_count(buffer: _Array, at: _Number, end: _Number) -> tuple[_Number, _Number, _Number]:
    """(items in the next block of an array, where they start, where they must end or NOWHERE).

    Negative counts are followed by the size of the block in bytes.
    """
    count, at = _read_number(buffer, at, end)
    if at > end:
        return np.int64(0), _NOWHERE, _NOWHERE
    if count >= 0:
        # An item is one byte at least, so no count is larger than what is left.
        return count, (_NOWHERE if np.uint64(count) > end - at else at), _NOWHERE
    size, at = _read_number(buffer, at, end)
    if at > end or size < 0 or np.uint64(size) > end - at or count < -size:
        return np.int64(0), _NOWHERE, _NOWHERE
    return -count, at, at + np.uint64(size)


@compiled("uint64(uint8[::1], uint64, uint64, int64)")
def _skip_items(buffer: _Array, at: _Number, end: _Number, op: _Number) -> _Number:
    while True:
        count, at, stop = _item_count(buffer, at, end)
        if at > end or count == 0:
            return at
        if op == SKIP_BYTES_PAIRS:
            for _ in range(count):
                if at + _ONE < end and buffer[at] < 128 and not buffer[at + _ONE] & _ODD_OR_LONG:
                    at += _TWO + (np.uint64(buffer[at + _ONE]) >> _ONE)
                else:
                    at = _skip_text(buffer, _skip_number(buffer, at, end), end)
                if at > end:
                    return _NOWHERE
        else:
            # A number ends at its first byte below 128; many bytes are looked at together.
            numbers = count if op == SKIP_NUMBERS else 2 * count
            while numbers >= _TOGETHER and at + np.uint64(_TOGETHER) <= end:
                for byte in range(np.uint64(_TOGETHER)):
                    numbers -= np.int64(buffer[at + byte] < 128)
                at += np.uint64(_TOGETHER)
            while numbers > 0:
                if at >= end:
                    return _NOWHERE
                numbers -= np.int64(buffer[at] < 128)
                at += _ONE
        if stop != _NOWHERE and at != stop:  # noqa: PLR1714 - numba compares faster
            return _NOWHERE


@compiled(
    "int64(uint8[::1], int64[:, ::1], int64[:, ::1], int64[::1], uint8[:, ::1], int64[:, ::1],"
    " int32[:, ::1], int32[:, ::1], int32[:, ::1], int64[:, ::1], int32[:, ::1], uint8[:, ::1])"
)
def scan(  # noqa: PLR0917 - numba takes positions
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
) -> _Number:
    """Scan records until the blocks or the room end; returns how many, or DAMAGED or FULL.

    `blocks`: (end, records) of each; `state`: (position, block, records done in it), moved on.
    `texts` holds the bytes of text columns, then of items; text_ends and item_ends where each ends.
    FULL: not one record found room.
    """
    at, block, done = np.uint64(state[0]), state[1], state[2]
    row_room, text_room, item_room = valid.shape[1], texts.shape[1], items.shape[1]
    text_columns = text_ends.shape[0]
    text_used = np.zeros(texts.shape[0], np.int64)
    item_count = np.zeros(list_ends.shape[0], np.int64)
    left = np.zeros(_MAX_NESTING, np.int64)
    row = np.int64(0)
    while block < blocks.shape[0]:
        end = np.uint64(blocks[block, 0])
        while done < blocks[block, 1]:
            if row == row_room:
                return row
            span = at
            depth = 0
            full = False
            for column in range(valid.shape[0]):
                valid[column, row] = 0
            step = 0
            while step < program.shape[0]:
                op = program[step, 0]
                if op == OPTIONAL:
                    if at >= end:
                        return DAMAGED
                    branch = buffer[at]
                    at += _ONE
                    if branch > 2 or branch & 1:
                        return DAMAGED
                    step = program[step, 2] if branch >> 1 == program[step, 1] else step + 1
                    continue
                if op == NUMBER:
                    number, at = _read_number(buffer, at, end)
                    numbers[program[step, 1], row] = number
                    valid[program[step, 4], row] = 1
                elif op == SKIP_NUMBER:
                    at = _skip_number(buffer, at, end)
                elif op == SKIP_BYTES:
                    at = _skip_text(buffer, at, end)
                elif op <= SKIP_BYTES_PAIRS and op != SKIP_FIXED:
                    at = _skip_items(buffer, at, end, op)
                elif op == BYTES or op == SPAN_END:  # noqa: PLR1714, SIM109 - numba has no set here
                    if op == BYTES:
                        length, at = _read_number(buffer, at, end)
                        if at > end or length < 0 or np.uint64(length) > end - at:
                            return DAMAGED
                        span = at
                        at += np.uint64(length)
                    length = np.int64(at - span)
                    sink = program[step, 1]
                    used = text_used[sink]
                    if length > text_room - used:
                        full = True
                        break
                    for byte in range(np.uint64(length)):
                        texts[sink, np.uint64(used) + byte] = buffer[span + byte]
                    text_used[sink] = used + length
                    valid[program[step, 4], row] = 1
                elif op == SPAN_START:
                    span = at
                elif op == POSITION:
                    numbers[program[step, 1], row] = np.int64(at)
                    valid[program[step, 4], row] = 1
                elif op == SKIP_FIXED:
                    if np.uint64(program[step, 1]) > end - at:
                        return DAMAGED
                    at += np.uint64(program[step, 1])
                elif op == ARRAY:
                    count, at, _ = _item_count(buffer, at, end)
                    if at > end:
                        return DAMAGED
                    if count == 0:
                        step = program[step, 1]
                        continue
                    left[depth] = count
                    depth += 1
                elif op == ARRAY_END:
                    left[depth - 1] -= 1
                    if left[depth - 1] > 0:
                        step = program[step, 1] + 1
                    else:
                        depth -= 1
                        step = program[step, 1]
                    continue
                else:
                    target = program[step, 1]
                    key_sink, value_sink = program[step, 2], program[step, 3]
                    while True:
                        count, at, stop = _item_count(buffer, at, end)
                        if at > end:
                            return DAMAGED
                        if count == 0:
                            break
                        place = item_count[target]
                        if count > item_room - place:
                            full = True
                            break
                        for item in range(place, place + count):
                            number, at = _read_number(buffer, at, end)
                            if at > end:
                                return DAMAGED
                            if op == NUMBERS:
                                items[value_sink, item] = number
                                continue
                            if number < _BOTTOM or number > _TOP:
                                return DAMAGED
                            keys[key_sink, item] = number
                            number, at = _read_number(buffer, at, end)
                            if at > end:
                                return DAMAGED
                            if op == NUMBER_PAIRS:
                                items[value_sink, item] = number
                                continue
                            if number < 0 or np.uint64(number) > end - at:
                                return DAMAGED
                            used = text_used[text_columns + value_sink]
                            if number > text_room - used:
                                full = True
                                break
                            for byte in range(np.uint64(number)):
                                texts[text_columns + value_sink, np.uint64(used) + byte] = buffer[
                                    at + byte
                                ]
                            at += np.uint64(number)
                            text_used[text_columns + value_sink] = used + number
                            item_ends[value_sink, item] = used + number
                        if full:
                            break
                        if stop != _NOWHERE and at != stop:  # noqa: PLR1714 - numba compares faster
                            return DAMAGED
                        item_count[target] = place + count
                    if full:
                        break
                    valid[program[step, 4], row] = 1
                if at > end:
                    return DAMAGED
                step += 1
            if full:
                return row or FULL
            for sink in range(text_columns):
                text_ends[sink, row] = text_used[sink]
            for target in range(list_ends.shape[0]):
                list_ends[target, row] = item_count[target]
            row += 1
            done += 1
            state[0], state[2] = np.int64(at), done
        if at != end:
            return DAMAGED
        block += 1
        done = 0
        state[1], state[2] = block, 0
    return row


@numba.njit(nogil=True, forceinline=True)
def _put_number(output: _Array, at: _Number, number: _Number) -> _Number:
    left = (np.uint64(number) << np.uint64(1)) ^ np.uint64(number >> np.int64(63))
    while left >= np.uint64(128):
        output[at] = np.uint8(left & np.uint64(127)) | np.uint8(128)
        at += 1
        left >>= np.uint64(7)
    output[at] = np.uint8(left)
    return at + 1


@compiled(
    "int64(int64[:, ::1], uint8[:, ::1], int64[:, ::1], int64[:, ::1], int64[:, ::1], int32[::1],"
    " int64[::1], int64[::1], uint8[::1], uint8[::1], int64[::1])"
)
def encode(  # noqa: PLR0917 - numba takes positions
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
) -> _Number:
    """Encode rows into `output`, which is large enough; row_ends says where each ends.

    A step is [op, column, first key, first item, valid]; `valid` of -1 is a required field, others
    are unions of null and the type. Offsets of texts are positions in `texts`, those of lists count
    from the list's first key and item.
    """
    at = np.int64(0)
    for row in range(row_ends.shape[0]):
        for step in range(program.shape[0]):
            op, column = program[step, 0], program[step, 1]
            if program[step, 4] >= 0:
                present = valid[program[step, 4], row]
                output[at] = np.uint8(2) if present else np.uint8(0)
                at += 1
                if not present:
                    continue
            if op == NUMBER:
                at = _put_number(output, at, numbers[column, row])
            elif op in (BYTES, RAW):
                start, stop = text_offsets[column, row], text_offsets[column, row + 1]
                if op == BYTES:
                    at = _put_number(output, at, stop - start)
                for byte in range(start, stop):
                    output[at] = texts[byte]
                    at += 1
            else:
                start, stop = list_offsets[column, row], list_offsets[column, row + 1]
                if stop > start:
                    at = _put_number(output, at, stop - start)
                for item in range(start, stop):
                    value = program[step, 3] + item
                    if op != NUMBERS:
                        at = _put_number(output, at, np.int64(keys[program[step, 2] + item]))
                    if op != BYTES_PAIRS:
                        at = _put_number(output, at, items[value])
                        continue
                    at = _put_number(output, at, item_offsets[value + 1] - item_offsets[value])
                    for byte in range(item_offsets[value], item_offsets[value + 1]):
                        output[at] = texts[byte]
                        at += 1
                output[at] = 0
                at += 1
        row_ends[row] = at
    return at


@compiled(
    "int64(uint8[::1], int64[:, ::1], int64[:, ::1], int64[:, ::1], uint8[:, ::1], uint8[::1],"
    " int64[::1])"
)
def splice(  # noqa: PLR0917 - numba takes positions
    buffer: _Array,
    program: _Array,
    spans: _Array,
    numbers: _Array,
    valid: _Array,
    output: _Array,
    row_ends: _Array,
) -> _Number:
    """Encode rows out of pieces of `buffer` and numbers; `output` is large enough.

    A step is [NUMBER, column, null branch], for numbers[column], in a union unless the null branch
    is -1, or [RAW, first, last], for buffer[spans[first] : spans[last]].
    """
    at = np.int64(0)
    for row in range(row_ends.shape[0]):
        for step in range(program.shape[0]):
            column = program[step, 1]
            if program[step, 0] == RAW:
                start = np.uint64(spans[column, row])
                length = np.uint64(spans[program[step, 2], row]) - start
                place = np.uint64(at)
                for byte in range(length):
                    output[place + byte] = buffer[start + byte]
                at += np.int64(length)
                continue
            null_branch = program[step, 2]
            if null_branch >= 0:
                present = valid[column, row]
                output[at] = np.uint8(2 * (1 - null_branch) if present else 2 * null_branch)
                at += 1
                if not present:
                    continue
            at = _put_number(output, at, numbers[column, row])
        row_ends[row] = at
    return at
