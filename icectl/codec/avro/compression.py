"""Compression of Avro blocks: every codec of the Avro specification."""

import bz2
import lzma
import zlib
from collections.abc import Callable

import cramjam
from isal import igzip_lib

from icectl.errors import CorruptTable

_FAILURES: tuple[type[Exception], ...] = (  # type: ignore[assignment] # isal calls its class a value
    igzip_lib.error,
    cramjam.DecompressionError,
    OSError,
    lzma.LZMAError,
    ValueError,
    EOFError,
)
_BLOCK_BYTES = 96 * 2**10
"""Room to start inflating a block with: most writers end a block at 64 KiB."""

_LARGEST_RATIO = 1040
"""Deflate makes at most 1032 bytes of one."""

_LARGEST_BLOCK = 2**30
"""Bytes of one inflated block; writers make blocks of some KiB, a few one block a file. Bounds what
a damaged or malicious block can allocate."""


def inflate_block(codec: str, stored: bytes) -> bytes:
    """Inflate one block.

    Raises: CorruptTable R-008 on damage.
    """
    try:
        inflated = _INFLATE[codec](stored)
    except _FAILURES as error:
        raise CorruptTable(
            f"the Avro file is damaged: a block is no valid {codec} data", rule="R-008"
        ) from error
    if len(inflated) > _LARGEST_BLOCK:
        raise CorruptTable("the Avro file is damaged: a block is too large", rule="R-008")
    return inflated


def deflate_block(codec: str, content: bytes) -> bytes:
    """Compress one block."""
    return _DEFLATE[codec](content)


def _plain(content: bytes) -> bytes:
    return content


def _inflate(stored: bytes) -> bytes:
    # Bytes behind the end of the stream are left alone: some writers put a checksum there.
    if len(stored) * _LARGEST_RATIO > _LARGEST_BLOCK:
        inflater = igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_DEFLATE)
        inflated: bytes = inflater.decompress(stored, _LARGEST_BLOCK + 1)
        if not inflater.eof:
            raise ValueError(stored)
        return inflated
    whole: bytes = igzip_lib.decompress(stored, flag=igzip_lib.DECOMP_DEFLATE, bufsize=_BLOCK_BYTES)
    return whole


def _deflate(content: bytes) -> bytes:
    # Level 1 of isal: ten times as fast as zlib's 6, and within 4 % of its size on manifests.
    stored: bytes = igzip_lib.compress(content, level=1, flag=igzip_lib.COMP_DEFLATE)
    return stored


def _unsnap(stored: bytes) -> bytes:
    if len(stored) < 4 or cramjam.snappy.decompress_raw_len(stored[:-4]) > _LARGEST_BLOCK:
        raise ValueError(stored)
    content = bytes(cramjam.snappy.decompress_raw(stored[:-4]))
    if zlib.crc32(content) != int.from_bytes(stored[-4:], "big"):
        raise ValueError(stored)
    return content


def _snap(content: bytes) -> bytes:
    return bytes(cramjam.snappy.compress_raw(content)) + zlib.crc32(content).to_bytes(4, "big")


def _unzstd(stored: bytes) -> bytes:
    # Streaming writers leave the content size out of the frame, so the room is found by trying.
    room = 16 * len(stored) + 1024
    while True:
        output = bytearray(room)
        try:
            size = cramjam.zstd.decompress_into(stored, output)
        except cramjam.DecompressionError as error:
            if "whole buffer" not in str(error) or room > _LARGEST_BLOCK:
                raise
            room *= 8
        else:
            return bytes(output[:size])


def _zstd(content: bytes) -> bytes:
    return bytes(cramjam.zstd.compress(content, 3))


def _unbzip2(stored: bytes) -> bytes:
    inflater = bz2.BZ2Decompressor()
    inflated = inflater.decompress(stored, _LARGEST_BLOCK + 1)
    if not inflater.eof or inflater.unused_data:
        raise ValueError(stored)
    return inflated


def _unxz(stored: bytes) -> bytes:
    inflater = lzma.LZMADecompressor(memlimit=_LARGEST_BLOCK)
    inflated = inflater.decompress(stored, _LARGEST_BLOCK + 1)
    if not inflater.eof or inflater.unused_data:
        raise ValueError(stored)
    return inflated


_INFLATE: dict[str, Callable[[bytes], bytes]] = {
    "null": _plain,
    "deflate": _inflate,
    "snappy": _unsnap,
    "zstandard": _unzstd,
    "bzip2": _unbzip2,
    "xz": _unxz,
}
_DEFLATE: dict[str, Callable[[bytes], bytes]] = {
    "null": _plain,
    "deflate": _deflate,
    "snappy": _snap,
    "zstandard": _zstd,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
}
CODECS = frozenset(_INFLATE)
"""Names that a header may give; the last two are read for other writers' sake."""
