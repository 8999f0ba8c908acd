"""Compression of Avro blocks: every codec of the Avro specification."""

import bz2
import lzma
import zlib
from collections.abc import Callable

import cramjam
from isal import igzip_lib

from icectl.errors import CorruptTable
from icectl.files.inflate import TooLargeError, decompress_within, most_inflated

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

_HARMLESS_BYTES = 2**25
"""Inflated bytes that are made before they are found to be too many: it saves small blocks, which
are most, a decompressor of their own."""

_LARGEST_BLOCK = 2**30
"""Bytes of one inflated block; writers make blocks of some KiB, a few one block a file."""


def inflate_block(codec: str, stored: bytes, limit: int | None = None) -> bytes:
    """Inflate one block, of at most so many bytes; by default as many as `most_inflated` says.

    Raises: CorruptTable R-008 on damage.
    Cost: little more memory than the limit, whatever the block would inflate to.
    """
    most = min(most_inflated(len(stored)) if limit is None else limit, _LARGEST_BLOCK)
    try:
        inflated = _INFLATE[codec](stored, most)
    except TooLargeError:
        inflated = None
    except _FAILURES as error:
        raise CorruptTable(
            f"the Avro file is damaged: a block is not valid {codec} data", rule="R-008"
        ) from error
    if inflated is None or len(inflated) > most:
        message = f"the Avro file is damaged: it inflates to more than {most:,} bytes"
        raise CorruptTable(message, rule="R-008")
    return inflated


def deflate_block(codec: str, content: bytes) -> bytes:
    """Compress one block."""
    return _DEFLATE[codec](content)


def _plain(content: bytes, _: int = 0) -> bytes:
    return content


def _inflate(stored: bytes, limit: int) -> bytes:
    # Bytes behind the end of the stream are left alone: some writers put a checksum there.
    if len(stored) * _LARGEST_RATIO > max(limit, _HARMLESS_BYTES):
        inflater = igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_DEFLATE)
        inflated: bytes = inflater.decompress(stored, limit + 1)
        return _whole(inflated, limit, is_whole=inflater.eof)
    whole: bytes = igzip_lib.decompress(stored, flag=igzip_lib.DECOMP_DEFLATE, bufsize=_BLOCK_BYTES)
    return whole


def _whole(inflated: bytes, limit: int, *, is_whole: bool) -> bytes:
    if len(inflated) > limit:
        raise TooLargeError
    if not is_whole:
        raise EOFError
    return inflated


def _deflate(content: bytes) -> bytes:
    # Level 1 of isal: ten times as fast as zlib's 6, and within 4 % of its size on manifests.
    stored: bytes = igzip_lib.compress(content, level=1, flag=igzip_lib.COMP_DEFLATE)
    return stored


def _unsnap(stored: bytes, limit: int) -> bytes:
    if len(stored) < 4:
        raise ValueError(stored)
    if cramjam.snappy.decompress_raw_len(stored[:-4]) > limit:
        raise TooLargeError
    content = bytes(cramjam.snappy.decompress_raw(stored[:-4]))
    if zlib.crc32(content) != int.from_bytes(stored[-4:], "big"):
        raise ValueError(stored)
    return content


def _snap(content: bytes) -> bytes:
    return bytes(cramjam.snappy.compress_raw(content)) + zlib.crc32(content).to_bytes(4, "big")


def _unzstd(stored: bytes, limit: int) -> bytes:
    return decompress_within(cramjam.zstd, stored, limit)


def _zstd(content: bytes) -> bytes:
    return bytes(cramjam.zstd.compress(content, 3))


def _unbzip2(stored: bytes, limit: int) -> bytes:
    inflater = bz2.BZ2Decompressor()
    inflated = inflater.decompress(stored, limit + 1)
    return _whole(inflated, limit, is_whole=inflater.eof and not inflater.unused_data)


def _unxz(stored: bytes, limit: int) -> bytes:
    inflater = lzma.LZMADecompressor(memlimit=_LARGEST_BLOCK)
    inflated = inflater.decompress(stored, limit + 1)
    return _whole(inflated, limit, is_whole=inflater.eof and not inflater.unused_data)


_INFLATE: dict[str, Callable[[bytes, int], bytes]] = {
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
