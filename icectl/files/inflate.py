"""How much compressed bytes of a table may inflate to, whatever they say."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import cramjam

_ALWAYS = 16 * 2**20
_LARGEST_RATIO = 256
"""Metrics of a thousand columns that are alike from file to file compress a hundredfold."""


_USUAL_ALWAYS = 64 * 2**20
_USUAL_RATIO = 32
_usual_left: ContextVar[list[int] | None] = ContextVar("usual_left", default=None)


class TooLargeError(Exception):
    """Bytes inflate to more than the limit."""


class UnusuallyLargeError(Exception):
    """Files inflate to more than is usual: too much to have while others are read beside them."""


@contextmanager
def usual_sizes(stored_bytes: int) -> Iterator[None]:
    """Let this thread inflate files of so many stored bytes to what is usual, and no more.

    `usual_left` and `spend` keep count of it, whatever number of files it is.
    """
    before = _usual_left.set([max(_USUAL_ALWAYS, stored_bytes * _USUAL_RATIO)])
    try:
        yield
    finally:
        _usual_left.reset(before)


def usual_left() -> int | None:
    """Return how much may still be inflated to; None where that is not limited."""
    left = _usual_left.get()
    return None if left is None else left[0]


def spend(inflated_bytes: int) -> None:
    """Count inflated bytes."""
    left = _usual_left.get()
    if left is not None:
        left[0] -= inflated_bytes


def most_inflated(stored_bytes: int, ratio: int = _LARGEST_RATIO) -> int:
    """Return how many bytes so many stored bytes may inflate to: no honest writer makes more."""
    return max(_ALWAYS, stored_bytes * ratio)


def decompress_within(module: Any, stored: bytes, limit: int) -> bytes:
    """Decompress with a module of cramjam, up to a limit.

    Raises: TooLargeError; cramjam.DecompressionError.
    """
    # Streaming writers leave the content size out of the frame, so the room is found by trying.
    room = min(16 * len(stored) + 1024, limit)
    while True:
        output = bytearray(room)
        try:
            size = module.decompress_into(stored, output)
        except cramjam.DecompressionError as error:
            if "whole buffer" not in str(error):
                raise
            if room == limit:
                raise TooLargeError from error
            room = min(8 * room, limit)
        else:
            return bytes(memoryview(output)[:size])
