"""Members of structs in Thrift's compact protocol, found by loops.c, and numbers replaced in them.

What a struct holds beyond the members that are looked for stays as it is, byte for byte.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from icectl.files.arrow_failures import damaged_data_file
from icectl.files.compiled import address, loops

NUMBER, BINARY, LIST, STRUCT, ANY = 1 << 4 | 1 << 5 | 1 << 6, 1 << 8, 1 << 9, 1 << 12, 0
"""Kinds that a member may have, one bit a kind."""

_FULL = -2
_LONGEST_NUMBER = 10
_LIMITS = np.array([1 << shift for shift in range(7, 63, 7)], np.int64)
Integers = npt.NDArray[np.int64]
Octets = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Wanted:
    """Members to look for, as rows of (parent, field id, kinds); a row's number, from 1, is a node.

    Parent 0 is the struct itself. Field id 0 stands for the elements of a list, and -n for every id
    from n on that no row before has named.
    """

    rows: tuple[tuple[int, int, int], ...]

    def array(self) -> Integers:
        """Return the rows as the loops take them."""
        return np.array(self.rows, np.int64).reshape(-1, 3)


@dataclass(frozen=True)
class Members:
    """The members of one struct in the order of its bytes: (node, first byte, end, value) a row.

    The value is that of a number, the length of bytes, or the count of a list.
    """

    content: Octets
    rows: Integers
    end: int

    @cached_property
    def _by_node(self) -> tuple[Integers, Integers]:
        order = np.argsort(self.rows[:, 0], kind="stable")
        return self.rows[order], self.rows[order, 0]

    def of(self, node: int) -> Integers:
        """Return the rows of a node."""
        rows, nodes = self._by_node
        start, end = np.searchsorted(nodes, [node, node + 1])
        return rows[start:end]

    def raw(self, node: int) -> bytes:
        """Return the bytes of a member that is there at most once; none without it."""
        rows = self.of(node)
        return self.content[rows[0, 1] : rows[0, 2]].tobytes() if len(rows) else b""

    def value(self, node: int) -> int | None:
        """Return the value of a member that is there at most once."""
        rows = self.of(node)
        return int(rows[0, 3]) if len(rows) else None

    def column(self, node: int, owners: Integers, missing: int = 0) -> Integers:
        """Return the values of a node, one for each of the structs that have it or not."""
        rows = self.of(node)
        values = np.full(len(owners), missing, np.int64)
        values[np.searchsorted(owners[:, 1], rows[:, 1], "right") - 1] = rows[:, 3]
        return values


def octets(content: bytes | memoryview) -> Octets:
    """Return bytes as an array of numpy."""
    return np.frombuffer(content, np.uint8)


def find_members(content: Octets, wanted: Wanted, at: int = 0) -> Members:
    """Find members of the struct that begins at a byte.

    Raises: CorruptTable R-099, for bytes that are no such struct.
    """
    program = wanted.array()
    end = np.zeros(1, np.int64)
    room = 64 + len(content) // 8
    while True:
        rows = np.empty((room, 4), np.int64)
        count: int = loops().find_members(
            *(address(content, np.uint8), len(content), at),
            *(address(program, np.int64), len(program)),
            *(address(rows, np.int64), room),
            address(end, np.int64),
        )
        if count != _FULL:
            break
        room *= 2
    if count < 0:
        raise damaged_data_file("Parquet", "its footer or an index is not a Thrift struct")
    return Members(content, rows[:count], int(end[0]))


def find_pages(content: Octets, at: int, most: int = 4096) -> Integers:
    """Return the pages that begin from `at`: (start, body, its bytes, kind, values, checksum) each.

    A header that is not whole, or damaged, ends them. -1 stands for what a header does not say.
    """
    pages = np.empty((most, 6), np.int64)
    count: int = loops().find_pages(
        *(address(content, np.uint8), len(content), at), address(pages, np.int64), most
    )
    return pages[:count]


def number_sizes(values: Integers) -> Integers:
    """Return how many bytes numbers take that are not negative."""
    return np.searchsorted(_LIMITS, values << 1, "right") + 1


def replace_numbers(content: Octets, at: int, end: int, spans: Integers, values: Integers) -> bytes:
    """Return some bytes with other numbers in these spans, which are in order."""
    output = np.empty(end - at + _LONGEST_NUMBER * len(values), np.uint8)
    size: int = loops().replace_numbers(
        *(address(content, np.uint8), at, end),
        address(np.ascontiguousarray(spans, np.int64), np.int64),
        *(address(np.ascontiguousarray(values, np.int64), np.int64), len(values)),
        address(output, np.uint8),
    )
    return output[:size].tobytes()


def number(value: int) -> bytes:
    """Encode a number that is not negative."""
    return varint(value << 1)


def header_of_list(kind_mask: int, count: int) -> bytes:
    """Encode how a list of one kind begins."""
    kind = kind_mask.bit_length() - 1
    return bytes([count << 4 | kind]) if count < 15 else bytes([0xF0 | kind]) + varint(count)


def struct(members: Sequence[tuple[int, int, bytes]]) -> bytes:
    """Encode a struct of (field id, kind, encoded value), in order and not far apart."""
    made, before = bytearray(), 0
    for field, kind, value in members:
        made += bytes([field - before << 4 | kind]) + value
        before = field
    return bytes(made) + b"\0"


def text(content: bytes) -> bytes:
    """Encode bytes, or text in UTF-8."""
    return varint(len(content)) + content


def varint(left: int) -> bytes:
    """Encode a number that is not negative, as lengths and counts are."""
    made = bytearray()
    while left > 0x7F:
        made.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*made, left])
