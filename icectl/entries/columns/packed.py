"""Values of varying length one after the other in a buffer, read many at a time."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Places = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class PackedValues:
    """Values of `lengths` bytes at `starts` in `content`."""

    content: npt.NDArray[np.uint8]
    starts: npt.NDArray[Any]
    lengths: npt.NDArray[Any]

    def numbers(self, places: Places, form: str) -> npt.NDArray[Any]:
        """Return the values at some places, whose lengths are that of `form`, as numbers."""
        if not len(places):
            return np.zeros(0, form)
        numbers: npt.NDArray[Any] = _everywhere(self.content, form)[self.starts[places]]
        return numbers

    def decimals(self, places: Places) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint64]]:
        """Upper and lower half of values of 1 to 16 bytes in big-endian two's complement."""
        lengths = self.lengths[places]
        content = np.concatenate([np.zeros(16, np.uint8), self.content])  # before the first one
        words = _everywhere(content, ">i8")
        ends = self.starts[places].astype(np.int64) + 16 + lengths
        low, high = words[ends - 8].astype(np.int64), words[ends - 16].astype(np.int64)
        # Shifting left and right drops the bytes before a value and fills in its sign.
        foreign = np.clip(8 * (8 - lengths), 0, 56)
        low = low << foreign >> foreign
        foreign = np.clip(8 * (16 - lengths), 0, 56)
        high = np.where(lengths > 8, high << foreign >> foreign, low >> 63)
        return high, low.view(np.uint64)

    def values(self) -> pa.Array:
        """Return all values as a binary array."""
        ends = np.cumsum(self.lengths, dtype=np.int64)
        size = int(ends[-1]) if len(ends) else 0
        shifts = self.starts - (ends - self.lengths)
        source = np.arange(size) + np.repeat(shifts, self.lengths)
        offsets = np.concatenate([np.zeros(1, np.int32), ends.astype(np.int32)])
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(self.content[source])]
        return pa.Array.from_buffers(pa.binary(), len(ends), buffers)


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


def _everywhere(content: npt.NDArray[np.uint8], form: str) -> npt.NDArray[Any]:
    """Return a number at every byte, without a copy."""
    width = np.dtype(form).itemsize
    return np.ndarray((len(content) - width + 1,), form, content.data, 0, (1,))
