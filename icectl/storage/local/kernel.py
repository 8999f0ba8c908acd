"""A loop over the entries of a directory, by system calls of Linux; that of loops.c.

While it runs other threads run too. Layouts are those of getdents64(2) and statx(2), the same on
every processor.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from icectl.files.compiled import address, loops

DIRECTORY, OTHER = -1, -2
"""Sizes of entries that are no files; of the others (links, say) only the name is known."""

MORE, DONE = 1, 0
"""Whether the loop ended because its arrays are full; a negative number is a failure's errno."""

ENTRY_BYTES = 1 << 15
ENTRY_ROWS = ENTRY_BYTES // 24
"""Bytes of entries that are asked for at once, and how many entries that can be at most."""

_Array = npt.NDArray[Any]


def has_loop() -> bool:
    """Return whether the loop is there: it was built, on a system that has the calls."""
    return hasattr(loops(), "read_entries")


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
    found = np.zeros(1, np.int64)
    outcome: int = loops().read_entries(
        directory,
        *(address(prefix, np.uint8), len(prefix)),
        *(address(names, np.uint8), len(names)),
        address(ends, np.int32),
        address(sizes, np.int64),
        *(address(times, np.int64), len(sizes)),
        address(found, np.int64),
    )
    return outcome, int(found[0])
