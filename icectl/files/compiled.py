"""The compiled loops of loops.c, in a library that every version of Python can call.

Without the library, for example if the installation found no compiler, callers use slower Python
code; build_loops.py builds it later. Loops release the interpreter's lock, so other threads run.
"""

import ctypes
import zlib
from functools import cache
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).with_name("loops.c")

_ARRAY, _NUMBER, _HASH, _FILE = ctypes.c_void_p, ctypes.c_int64, ctypes.c_uint64, ctypes.c_int
_KINDS = {"a": _ARRAY, "n": _NUMBER, "h": _HASH, "f": _FILE}
_LOOPS = {
    "scan": (_NUMBER, "a an an a ann a an an aaan an"),
    "encode": (_NUMBER, "an aaaa aaaa aan"),
    "splice": (_NUMBER, "a an aaa aan"),
    "find_members": (_NUMBER, "an n an an a"),
    "replace_numbers": (_NUMBER, "ann aan a"),
    "find_pages": (_NUMBER, "an n an"),
    "in_blocks": (None, "an an a"),
    "add_32": (None, "an an an h"),
    "add_64": (None, "an an an h"),
    "add_bits": (None, "an a an h"),
    "add_fixed": (None, "an an an h"),
    "add_bytes": (None, "an aa an h"),
    "add_lists": (None, "an aa an h"),
    "total": (_HASH, "an"),
    "sort_keys": (None, "aan aa aa"),
    "take_fixed": (None, "aaa nna"),
    "take_bits": (None, "aaa na"),
    "take_spans": (None, "aaa nn aa"),
    "take_bytes": (None, "aaa n aa a"),
    "sketch": (_NUMBER, "aa aan hh"),
    "read_entries": (_NUMBER, "f an an aaan a"),
}
"""What each loop returns and takes: arrays, numbers, hashes, a file's number."""

_OF_SYSTEM = frozenset({"read_entries"})
"""Loops that are not there on every system."""


def library_name() -> str:
    """The file of the loops, named for its source: no older one is found. Raises: OSError."""
    return f"loops-{zlib.crc32(SOURCE.read_bytes()):08x}.so"


@cache
def loops() -> Any:
    """Return the loops as functions of a library; None where it was not built for these sources."""
    try:
        library = ctypes.CDLL(str(SOURCE.with_name(library_name())))
    except OSError:
        return None
    for loop, (result, parameters) in _LOOPS.items():
        if loop in _OF_SYSTEM and not hasattr(library, loop):
            continue
        function = getattr(library, loop)
        function.restype = result
        function.argtypes = [_KINDS[kind] for kind in parameters.replace(" ", "")]
    return library


def address(array: Any, kind: Any) -> int:
    """Return where the numbers of a numpy array lie: of this kind, one behind the other."""
    if array.dtype != kind or not array.flags.c_contiguous:
        raise TypeError(f"not {kind} side by side: {array.dtype}, {array.strides} bytes apart")
    place: int = array.ctypes.data
    return place
