"""A compiled loop over the entries of a directory, by system calls of Linux that libc has.

Importing this module compiles the loop once after an installation; later imports load it. While
it runs other threads run too. Layouts are those of getdents64(2) and statx(2), the same on every
processor.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import types

from icectl.codec.compiled import compiled

DIRECTORY, OTHER = -1, -2
"""Sizes of entries that are no files; of the others (links, say) only the name is known."""

MORE, DONE = 1, 0
"""Whether the loop ended because its arrays are full; a negative number is a failure's errno."""

ENTRY_BYTES = 1 << 15
ENTRY_ROWS = ENTRY_BYTES // 24
"""Bytes of entries that are asked for at once, and how many entries that can be at most."""

_Array = npt.NDArray[Any]
_STATUS_BYTES = 256
_SIZE_AND_TIME = 0x240
_REGULAR_TYPES = (1, 2, 6, 8, 12)  # pipe, character and block device, file, socket
_DIRECTORY_TYPE = 4

_getdents64: Any = types.ExternalFunction(
    "getdents64", types.int64(types.int32, types.voidptr, types.uint64)
)
_statx: Any = types.ExternalFunction(
    "statx", types.int32(types.int32, types.voidptr, types.int32, types.uint32, types.voidptr)
)
_address: Any = types.CPointer
_errno_location: Any = types.ExternalFunction("__errno_location", _address(types.int32)())


@compiled("UniTuple(int64, 2)(int32, uint8[::1], uint8[::1], int32[::1], int64[::1], int64[::1])")
def read_entries(
    directory: int,
    prefix: _Array,
    names: _Array,
    ends: _Array,
    sizes: _Array,
    times: _Array,
) -> tuple[int, int]:
    """Read entries of an open directory: (MORE, DONE or a failure, how many entries).

    The name of each follows the prefix, and its row n is names[ends[n] : ends[n + 1]]. Ends MORE
    unless the arrays have room for ENTRY_ROWS entries of ENTRY_BYTES, and the prefix of each.
    Units: bytes; milliseconds since 1970.
    """
    entries = np.empty(ENTRY_BYTES, np.uint8)
    status = np.zeros(_STATUS_BYTES, np.uint8)
    longs, words = status.view(np.int64), status.view(np.uint32)
    count, end = 0, 0
    ends[0] = 0
    name_bytes = ENTRY_BYTES + ENTRY_ROWS * len(prefix)
    while len(sizes) - count >= ENTRY_ROWS and len(names) - end >= name_bytes:
        size = _getdents64(directory, entries.ctypes.data, ENTRY_BYTES)
        if size <= 0:
            return (DONE if size == 0 else -_errno_location()[0]), count
        entry = 0
        while entry < size:
            name, kind = entry + 19, entries[entry + 18]
            entry += entries[entry + 16] + 256 * entries[entry + 17]
            if entries[name] == 46 and (
                entries[name + 1] == 0 or (entries[name + 1] == 46 and entries[name + 2] == 0)
            ):
                continue  # the directory itself, and the one above
            sizes[count] = DIRECTORY if kind == _DIRECTORY_TYPE else OTHER
            if kind in _REGULAR_TYPES:
                failed = _statx(
                    directory, entries.ctypes.data + name, 0, _SIZE_AND_TIME, status.ctypes.data
                )
                if not failed and words[0] & _SIZE_AND_TIME == _SIZE_AND_TIME:
                    sizes[count] = longs[5]
                    times[count] = longs[14] * 1000 + words[30] // 1_000_000
            for byte in prefix:
                names[end] = byte
                end += 1
            while entries[name]:
                names[end] = entries[name]
                end += 1
                name += 1
            count += 1
            ends[count] = end
    return MORE, count
