"""Avro container files: header, blocks and their compression, records by fastavro, and writing."""

import bz2
import json
import lzma
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from io import BytesIO
from typing import Any

import cramjam
from isal import igzip_lib

from icectl.errors import CorruptTable, Unsupported
from icectl.files.avro.schema import PRIMITIVES, SCHEMAS, AvroType, damaged, parse_text
from icectl.files.inflate import (
    TooLargeError,
    UnusuallyLargeError,
    decompress_within,
    most_inflated,
    spend,
    usual_left,
)

_NOT_OF_CODEC: tuple[type[Exception], ...] = (  # type: ignore[assignment] # isal calls its class a value
    igzip_lib.error, cramjam.DecompressionError, OSError, lzma.LZMAError, ValueError, EOFError,
)  # fmt: skip
_BLOCK_BYTES = 96 * 2**10
"""Room to start inflating a block with: most writers end a block at 64 KiB."""

_LARGEST_RATIO = 1040
"""Deflate makes at most 1032 bytes of one."""

_HARMLESS_BYTES = 2**25
"""Inflated bytes that are made before they are found to be too many: it saves small blocks, which
are most, a decompressor of their own."""

_LARGEST_BLOCK = 2**30
"""Bytes of one inflated block; writers make blocks of some KiB, a few one block a file."""

_MAGIC = b"Obj\x01"
_ENCRYPTED_MAGIC = b"AGS1"
_SYNC_SIZE = 16
_RECORDS_ALWAYS = 65_536
"""Records that a file may have beside one for each of its bytes: each names a file of its own."""

_BATCH_BYTES = 2**20
_LARGEST_RECORD = 8 * 2**20
"""Bytes of a record that describes a file or a manifest; one of 10,000 columns has some 100 KiB."""


@dataclass(frozen=True, slots=True)
class AvroFile:
    """Header of a container file and where its blocks start."""

    metadata: Mapping[str, str]
    schema: AvroType
    codec: str
    sync_marker: bytes
    content: bytes
    first_block: int

    def has_header_of(self, content: bytes) -> bool:
        """Return whether another file's header is the same, but for its sync marker."""
        header = self.content[: self.first_block - _SYNC_SIZE]
        return len(content) >= self.first_block and content.startswith(header)


@dataclass(frozen=True, slots=True)
class Block:
    """An inflated block."""

    record_count: int
    content: bytes


def read_header(content: bytes, like: AvroFile | None = None) -> AvroFile:
    """Read the header of a container file.

    Where it says, byte for byte, what that of `like` says, nothing is parsed: the members are the
    same objects.
    Raises: CorruptTable R-008; Unsupported for an encrypted file or an unknown codec.
    """
    if like is not None and like.has_header_of(content):
        marker = content[like.first_block - _SYNC_SIZE : like.first_block]
        return replace(like, sync_marker=marker, content=content)
    if content[:4] == _ENCRYPTED_MAGIC:
        raise Unsupported("the file is encrypted")
    if content[:4] != _MAGIC:
        raise damaged("it is not an Avro file")
    stored, at = _read_metadata(content, 4)
    if len(content) < at + _SYNC_SIZE or "avro.schema" not in stored:
        raise damaged("its header is incomplete")
    codec = stored.get("avro.codec", "null")
    if codec not in CODECS:
        raise Unsupported(f"the file is compressed with the unknown codec `{codec}`")
    schema = parse_text(stored["avro.schema"])
    marker = content[at : at + _SYNC_SIZE]
    return AvroFile(stored, schema, codec, marker, content, at + _SYNC_SIZE)


def _read_metadata(content: bytes, at: int) -> tuple[dict[str, str], int]:
    stored: dict[str, str] = {}
    while True:
        count, at = read_long(content, at)
        if count == 0:
            return stored, at
        if count < 0:
            _, at = read_long(content, at)
        for _ in range(abs(count)):
            key, at = _read_text(content, at)
            stored[key], at = _read_text(content, at)


def _read_text(content: bytes, at: int) -> tuple[str, int]:
    size, at = read_long(content, at)
    if not 0 <= size <= len(content) - at:
        raise damaged("its header is incomplete")
    try:
        return content[at : at + size].decode(), at + size
    except UnicodeDecodeError as error:
        raise damaged("its header is not text") from error


StoredBlock = tuple[int, int, int]
"""Records by the block's own word; where its bytes start and end in the file."""


def stored_blocks(file: AvroFile) -> Iterator[StoredBlock]:
    """Find the blocks; nothing is inflated. Raises: CorruptTable R-008."""
    content, at = file.content, file.first_block
    records_left = _RECORDS_ALWAYS + len(content)
    while at < len(content):
        count, at = read_long(content, at)
        size, at = read_long(content, at)
        end = at + size
        if count < 0 or size < 0 or end + _SYNC_SIZE > len(content):
            raise damaged("a block is longer than the file")
        if content[end : end + _SYNC_SIZE] != file.sync_marker:
            raise damaged("a sync marker is wrong")
        records_left -= count
        if records_left < 0:
            raise damaged("it has more records than its size allows")
        yield count, at, end
        at = end + _SYNC_SIZE


def read_blocks(file: AvroFile, stored: Iterable[StoredBlock] | None = None) -> Iterator[Block]:
    """Inflate all blocks, or those given, one by one; blocks without records are left out.

    Raises: CorruptTable R-008, where they inflate to more than the file's size allows, too;
    UnusuallyLargeError, within `usual_sizes`.
    """
    left = most_inflated(len(file.content))
    for count, start, end in stored_blocks(file) if stored is None else stored:
        usual = usual_left()
        limit = left if usual is None else min(left, usual)
        try:
            block = inflate_block(file.codec, file.content[start:end], limit)
        except CorruptTable as error:  # or damaged: that is seen when it is read alone
            if limit == left:
                raise
            raise UnusuallyLargeError from error
        spend(len(block))
        left -= len(block)
        if count > len(block) or (block and not count):
            raise damaged("a block has more records than bytes, or bytes without a record")
        if count:
            yield Block(count, block)


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
    except _NOT_OF_CODEC as error:
        raise damaged(f"a block is not valid {codec} data") from error
    if inflated is None or len(inflated) > most:
        raise damaged(f"it inflates to more than {most:,} bytes")
    return inflated


def _inflate(stored: bytes, limit: int) -> bytes:
    # Bytes behind the end of the stream are left alone: some writers put a checksum there.
    if len(stored) * _LARGEST_RATIO > max(limit, _HARMLESS_BYTES):
        inflater = igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_DEFLATE)
        inflated: bytes = inflater.decompress(stored, limit + 1)
        return _whole(inflated, limit, is_whole=inflater.eof)
    whole: bytes = igzip_lib.decompress(stored, flag=igzip_lib.DECOMP_DEFLATE, bufsize=_BLOCK_BYTES)
    return whole


def _inflate_whole(inflater: Any, stored: bytes, limit: int) -> bytes:
    inflated: bytes = inflater.decompress(stored, limit + 1)
    return _whole(inflated, limit, is_whole=inflater.eof and not inflater.unused_data)


def _whole(inflated: bytes, limit: int, *, is_whole: bool) -> bytes:
    if len(inflated) > limit:
        raise TooLargeError
    if not is_whole:
        raise EOFError
    return inflated


def _unsnap(stored: bytes, limit: int) -> bytes:
    if len(stored) < 4:
        raise ValueError(stored)
    if cramjam.snappy.decompress_raw_len(stored[:-4]) > limit:
        raise TooLargeError
    content = bytes(cramjam.snappy.decompress_raw(stored[:-4]))
    if zlib.crc32(content) != int.from_bytes(stored[-4:], "big"):
        raise ValueError(stored)
    return content


_INFLATE: dict[str, Callable[[bytes, int], bytes]] = {
    "null": lambda stored, _: stored,
    "deflate": _inflate,
    "snappy": _unsnap,
    "zstandard": lambda stored, limit: decompress_within(cramjam.zstd, stored, limit),
    "bzip2": lambda stored, limit: _inflate_whole(bz2.BZ2Decompressor(), stored, limit),
    "xz": lambda stored, limit: _inflate_whole(
        lzma.LZMADecompressor(memlimit=_LARGEST_BLOCK), stored, limit
    ),
}


CODECS = frozenset(_INFLATE)
"""Names that a header may give; the last two are read for other writers' sake."""


def in_batches(schema: AvroType, blocks: Iterable[Block]) -> Iterator[Sequence[Block]]:
    """Yield blocks whose records fastavro can decode together within a bound of memory.

    A value of it takes a hundred times the byte that is stored of it.
    Raises: CorruptTable R-008, where a record alone has too many bytes for that.
    """
    batch: list[Block] = []
    size = 0
    for block in blocks:
        for part in in_parts(schema, block, _BATCH_BYTES):
            if len(part.content) > _LARGEST_RECORD:
                raise damaged(f"a record of it has more than {_LARGEST_RECORD >> 20} MiB")
            if batch and size + len(part.content) > _BATCH_BYTES:
                yield batch
                batch, size = [], 0
            batch.append(part)
            size += len(part.content)
    yield batch


def in_parts(schema: AvroType, block: Block, size_bytes: int) -> Iterator[Block]:
    """Yield a block's records as blocks of about a size, or larger. Raises: CorruptTable R-008."""
    if len(block.content) <= size_bytes:
        yield block
        return
    written = _fastavro_schema(schema, [0])
    parsed, passed = (
        _fastavro().parse_schema(schema_) for schema_ in (written, written | {"fields": []})
    )
    stream = BytesIO(block.content)
    start = count = 0
    for _ in range(block.record_count):
        try:
            _fastavro().schemaless_reader(stream, parsed, passed)
        except _FAILURES as error:
            raise damaged("a record cannot be decoded") from error
        count += 1
        if stream.tell() - start >= size_bytes:
            yield Block(count, block.content[start : stream.tell()])
            start, count = stream.tell(), 0
    if count or start < len(block.content):
        yield Block(count, block.content[start:])


def decode_records(schema: AvroType, blocks: Iterable[Block]) -> Iterator[tuple[Any, ...]]:
    """Decode records to tuples, as stored, with dicts inside. Raises: CorruptTable R-008."""
    names = [str(at) for at in range(len(schema.fields))]
    parsed = _fastavro_array(schema)
    for block in blocks:
        for record in _decode([block], parsed):
            yield tuple([record[name] for name in names])


def decode_fields(
    schema: AvroType, positions: Sequence[int], blocks: Iterable[Block]
) -> list[list[Any]]:
    """Decode fields to a list each, as stored, with dicts inside. Raises: CorruptTable R-008."""
    written = _fastavro_schema(schema, [0])
    names = [str(at) for at in positions]
    wanted = written | {"fields": [written["fields"][at] for at in positions]}
    parsed, reader = (
        _fastavro().parse_schema({"type": "array", "items": schema_})
        for schema_ in (written, wanted)
    )
    records = _decode(blocks, parsed, reader)
    return [[record[name] for record in records] for name in names]


_FAILURES = (
    EOFError, ValueError, IndexError, KeyError, TypeError, OverflowError, MemoryError,
    StopIteration,
)  # fmt: skip
"""What fastavro makes of damage."""


def _decode(blocks: Iterable[Block], parsed: Any, reader: Any = None) -> list[Any]:
    """Decode records as one array: one call for all of them."""
    stored = list(blocks)
    record_count = sum(block.record_count for block in stored)
    parts = [write_long(record_count), *(block.content for block in stored), b"\0"]
    size = sum(map(len, parts))
    stream = BytesIO(b"".join(parts))
    try:
        records = _fastavro().schemaless_reader(stream, parsed, reader)
    except _FAILURES as error:
        raise damaged("a record cannot be decoded") from error
    if stream.tell() != size or not isinstance(records, list) or len(records) != record_count:
        raise damaged("a block is longer than its records")
    return records


@cache
def _fastavro() -> Any:
    """Import fastavro: few runs need it, and it takes a tenth of a short one."""
    import fastavro

    return fastavro


@lru_cache(SCHEMAS)
def _fastavro_array(schema: AvroType) -> Any:
    return _fastavro().parse_schema({"type": "array", "items": _fastavro_schema(schema, [0])})


@lru_cache(SCHEMAS)
def _fastavro_record(schema: AvroType) -> Any:
    return _fastavro().parse_schema(_fastavro_schema(schema, [0]))


def _fastavro_schema(part: AvroType, counter: list[int]) -> Any:
    """The schema for fastavro: names by position, no logical types, so nothing is converted."""
    if part.kind == "union":
        return [_fastavro_schema(branch, counter) for branch in part.parts]
    if part.kind in ("array", "map"):
        of = "items" if part.kind == "array" else "values"
        return {"type": part.kind, of: _fastavro_schema(part.parts[0], counter)}
    if part.kind in PRIMITIVES:
        return part.kind
    counter[0] += 1
    named: dict[str, Any] = {"type": part.kind, "name": f"n{counter[0]}"}
    if part.kind == "record":
        named["fields"] = [
            {"name": str(at), "type": _fastavro_schema(field.type, counter)}
            for at, field in enumerate(part.fields)
        ]
    elif part.kind == "enum":
        named["symbols"] = list(part.symbols)
    else:
        named["size"] = part.size
    return named


def encode_records(schema: Mapping[str, Any], records: Iterable[Mapping[str, Any]]) -> list[bytes]:
    """Encode records one by one, by fastavro; values are those of the types below logical ones."""
    parsed = _fastavro().parse_schema(_without_logical(dict(schema)))
    encoded = []
    for record in records:
        stream = BytesIO()
        _fastavro().schemaless_writer(stream, parsed, record)
        encoded.append(stream.getvalue())
    return encoded


def _without_logical(schema: Any) -> Any:
    if isinstance(schema, dict):
        return {
            key: _without_logical(value) for key, value in schema.items() if key != "logicalType"
        }
    return [_without_logical(item) for item in schema] if isinstance(schema, list) else schema


def write_file(
    schema: Mapping[str, Any],
    metadata: Mapping[str, str],
    blocks: Iterable[Block],
    *,
    codec: str,
    sync_marker: bytes,
) -> bytes:
    """Write a container file; equal arguments give equal bytes."""
    header = write_header(schema, metadata, codec=codec, sync_marker=sync_marker)
    stored = (write_block(block, codec=codec, sync_marker=sync_marker) for block in blocks)
    return b"".join([header, *stored])


def write_header(
    schema: Mapping[str, Any], metadata: Mapping[str, str], *, codec: str, sync_marker: bytes
) -> bytes:
    """Return the header of a container file; blocks with the same sync marker follow it."""
    header = {"avro.schema": json.dumps(schema, separators=(",", ":")), "avro.codec": codec}
    parts = [_MAGIC, write_long(len(header) + len(metadata))]
    for key, value in {**header, **metadata}.items():
        for text in (key.encode(), value.encode()):
            parts += [write_long(len(text)), text]
    return b"".join([*parts, b"\0", sync_marker])


def write_block(block: Block, *, codec: str, sync_marker: bytes) -> bytes:
    """Return a block of a container file as it is stored."""
    stored = deflate_block(codec, block.content)
    return b"".join([write_long(block.record_count), write_long(len(stored)), stored, sync_marker])


def deflate_block(codec: str, content: bytes) -> bytes:
    """Compress one block."""
    return _DEFLATE[codec](content)


_DEFLATE: dict[str, Callable[[bytes], bytes]] = {
    "null": lambda content: content,
    # Level 1 of isal: ten times as fast as zlib's 6, and within 4 % of its size on manifests.
    "deflate": lambda content: igzip_lib.compress(content, level=1, flag=igzip_lib.COMP_DEFLATE),
    "snappy": lambda content: (
        bytes(cramjam.snappy.compress_raw(content)) + zlib.crc32(content).to_bytes(4, "big")
    ),
    "zstandard": lambda content: bytes(cramjam.zstd.compress(content, 3)),
    "bzip2": bz2.compress,
    "xz": lzma.compress,
}


Record = dict[str, Any]
"""A record by position: `"0"` is its first field; logical types as stored."""


Change = Callable[[Record], None]
"""Changes values of a record in place."""


def rewrite_records(content: bytes, change: Callable[[AvroType], Change]) -> bytes:
    """Return an Avro file with each record changed; `change` is told the writer's schema.

    The header is copied byte for byte, so that schema, codec and key-value metadata survive, and
    each record is encoded by the writer's own schema, with unknown fields.
    Order: kept.
    Raises: CorruptTable R-008; Unsupported, for a union of several types, whose branch is not told
    after decoding; what `change` raises.
    Cost: a batch of records in memory.
    """
    file = read_header(content)
    _check_unions(file.schema)
    changed, parsed = change(file.schema), _fastavro_record(file.schema)
    out = BytesIO()
    out.write(content[: file.first_block])
    for batch in in_batches(file.schema, read_blocks(file)):
        if not batch:
            continue
        records = _decode(batch, _fastavro_array(file.schema))
        encoded = BytesIO()
        for record in records:
            changed(record)
            _fastavro().schemaless_writer(encoded, parsed, record)
        block = Block(len(records), encoded.getvalue())
        out.write(write_block(block, codec=file.codec, sync_marker=file.sync_marker))
    return out.getvalue()


def _check_unions(schema: AvroType) -> None:
    if schema.kind == "union" and len(schema.parts) > 1 and schema.null_branch is None:
        kinds = ", ".join(part.kind for part in schema.parts)
        raise Unsupported(f"an Avro file has a union of {kinds}, which a rewrite could change")
    for part in (*schema.parts, *(field.type for field in schema.fields)):
        _check_unions(part)


def read_long(content: bytes, at: int) -> tuple[int, int]:
    """Read one zigzag number; returns it and where it ends. Raises: CorruptTable R-008."""
    value = shift = 0
    while True:
        if at >= len(content) or shift > 63:
            raise damaged("a number is damaged")
        byte = content[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
    if value >= 2**64:
        raise damaged("a number is damaged")
    return (value >> 1) ^ -(value & 1), at


def write_long(value: int) -> bytes:
    """Encode one zigzag number."""
    left = (value << 1) ^ (value >> 63)
    encoded = bytearray()
    while left >= 0x80:
        encoded.append(left & 0x7F | 0x80)
        left >>= 7
    encoded.append(left)
    return bytes(encoded)
