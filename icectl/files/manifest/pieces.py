"""Manifests put together of pieces: blocks are compressed as entries come, in any order of pieces,
and lie in a spool file until it is known how many pieces fill a manifest."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import IO

import numpy as np

from icectl.entries.columns.values import Integers
from icectl.files.avro.container import Block, write_block, write_header
from icectl.files.manifest.write import BLOCK_BYTES, ManifestForm


@dataclass(slots=True)
class _Piece:
    """Entries that wait for their block to be full, and where the full blocks lie."""

    waiting: bytearray = field(default_factory=bytearray)
    waiting_count: int = 0
    blocks: list[tuple[int, int]] = field(default_factory=list)


class PieceWriter:
    """A collector of encoded entries by piece; `spool` is a file of its own, open for both ways."""

    def __init__(
        self, form: ManifestForm, spool: IO[bytes], *, codec: str, sync_marker: bytes
    ) -> None:
        self._form = form
        self._spool = spool
        self._codec = codec
        self._sync_marker = sync_marker
        self._pieces: dict[int, _Piece] = defaultdict(_Piece)
        self._end = 0

    def add(self, number: int, encoded: memoryview, row_ends: Integers) -> None:
        """Append entries to a piece; row_ends says where each of them ends."""
        piece = self._pieces[number]
        start = first = 0
        while len(piece.waiting) + len(encoded) - start >= BLOCK_BYTES:
            room = BLOCK_BYTES - len(piece.waiting)
            last = int(np.searchsorted(row_ends, start + room))
            if last == len(row_ends):
                break
            end = int(row_ends[last])
            piece.waiting += encoded[start:end]
            piece.waiting_count += last + 1 - first
            self._flush(piece)
            start, first = end, last + 1
        piece.waiting += encoded[start:]
        piece.waiting_count += len(row_ends) - first

    def _flush(self, piece: _Piece) -> None:
        if not piece.waiting_count:
            return
        block = Block(piece.waiting_count, bytes(piece.waiting))
        stored = write_block(block, codec=self._codec, sync_marker=self._sync_marker)
        self._spool.seek(self._end)
        self._spool.write(stored)
        piece.blocks.append((self._end, len(stored)))
        self._end += len(stored)
        piece.waiting, piece.waiting_count = bytearray(), 0

    def sizes(self) -> dict[int, int]:
        """Return bytes of each piece as stored.

        Order: that of the pieces. Nothing is added after it.
        """
        for piece in self._pieces.values():
            self._flush(piece)
        return {
            number: sum(length for _, length in self._pieces[number].blocks)
            for number in sorted(self._pieces)
        }

    def manifest(self, numbers: Sequence[int]) -> bytes:
        """Return a manifest of some pieces, one after the other."""
        parts = [
            write_header(
                self._form.avro_schema,
                self._form.properties,
                codec=self._codec,
                sync_marker=self._sync_marker,
            )
        ]
        for number in numbers:
            for at, length in self._pieces[number].blocks:
                self._spool.seek(at)
                parts.append(self._spool.read(length))
        return b"".join(parts)
