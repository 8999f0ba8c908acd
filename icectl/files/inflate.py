"""How much compressed bytes of a table may inflate to, whatever they say."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from threading import Condition
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


class _Room:
    """The memory for what threads of this process inflate side by side."""

    def __init__(self, size_bytes: int) -> None:
        self._size_bytes = size_bytes
        self._used_bytes = 0
        self._freed = Condition()

    @contextmanager
    def taken(self, size_bytes: int) -> Iterator[None]:
        """Wait for so much room, and keep it; who wants more than there is has all of it."""
        wanted = min(size_bytes, self._size_bytes)
        with self._freed:
            self._freed.wait_for(lambda: self._used_bytes + wanted <= self._size_bytes)
            self._used_bytes += wanted
        try:
            yield
        finally:
            with self._freed:
                self._used_bytes -= wanted
                self._freed.notify_all()


def _machine_bytes() -> int:
    """Return the memory of this machine, or of the container that this process is in."""
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with suppress(OSError, ValueError):  # no container, or one without a limit
        return min(whole, int(Path("/sys/fs/cgroup/memory.max").read_text()))
    return whole


_room = _Room(_machine_bytes() // 4)


@contextmanager
def usual_sizes(stored_bytes: int) -> Iterator[None]:
    """Let this thread inflate files of so many stored bytes to what is usual, and no more.

    It waits until this process has room for that. `usual_left` and `spend` keep count of it,
    whatever number of files it is.
    """
    usual = max(_USUAL_ALWAYS, stored_bytes * _USUAL_RATIO)
    with _room.taken(usual):
        before = _usual_left.set([usual])
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


def count_announced_bytes(inflated_bytes: int, stored_bytes: int) -> None:
    """Count what a file says that it inflates to, before it does.

    Raises: TooLargeError, where no honest file does; UnusuallyLargeError, within `usual_sizes`.
    """
    if inflated_bytes > most_inflated(stored_bytes):
        raise TooLargeError
    left = usual_left()
    if left is not None and inflated_bytes > left:
        raise UnusuallyLargeError
    spend(inflated_bytes)


def most_inflated(stored_bytes: int, ratio: int = _LARGEST_RATIO) -> int:
    """Return how many bytes so many stored bytes may inflate to: no honest writer makes more."""
    return max(_ALWAYS, stored_bytes * ratio)


def decompress_within(module: Any, stored: bytes, limit: int) -> bytes:
    """Decompress up to a limit, by cramjam. Raises: TooLargeError; its DecompressionError."""
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
