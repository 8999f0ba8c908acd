"""An independent search for marked bytes in every file below a folder; none of icectl's code.

Whatever is compressed is decompressed: pages and dictionaries of Parquet, every stream of ORC,
blocks of Avro, blobs of Puffin, gzip. A file that cannot be decoded is an error, never a clean one.
Marks are at most 12 bytes of ASCII, so that no truncated bound cuts them. Texts may spell them as
hexadecimal digits, in base64, or as paths do. Filters, as those of Bloom, hold hashes, in which no
text can be found.
"""

import gzip
import json
import zlib
from base64 import b64encode
from collections.abc import Iterator, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, quote_plus

import cramjam
import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

_LONGEST_MARK = 12


class Hit(NamedTuple):
    """A mark found in a file, and in which part of it."""

    file: str
    part: str
    mark: bytes


def hits_below(folder: Path, marks: Sequence[bytes]) -> list[Hit]:
    """Return where marks are in the files below a folder. Order: by file."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return [
        Hit(str(path.relative_to(folder)), part, mark)
        for path in files
        for part, mark in hits_in(path.read_bytes(), marks)
    ]


def hits_in(content: bytes, marks: Sequence[bytes]) -> list[tuple[str, bytes]]:
    """Return the parts of a file in which marks are, each pair once. Order: of the file's parts."""
    assert all(0 < len(mark) <= _LONGEST_MARK and mark.isascii() for mark in marks)
    found: dict[tuple[str, bytes], None] = {}
    for part, piece in _pieces(content):
        lower = piece.lower()
        for mark in marks:
            spelled = (mark, *_in_base64(mark), quote(mark).encode(), quote_plus(mark).encode())
            if mark.hex().encode() in lower or any(text in piece for text in spelled):
                found[part, mark] = None
    return list(found)


def _in_base64(mark: bytes) -> Iterator[bytes]:
    """Yield what base64 makes of a mark at each of the three places in a group of bytes."""
    for before in range(3):
        text = b64encode(b"\0" * before + mark)
        sure = (before + len(mark)) * 8 // 6
        yield text[-(-before * 8 // 6) : sure]


def _pieces(content: bytes) -> Iterator[tuple[str, bytes]]:
    yield "bytes", content
    if content[:2] == b"\x1f\x8b":
        yield from _pieces(gzip.decompress(content))
    elif content[:4] == b"PAR1":
        yield from _of_parquet(content)
    elif content[:3] == b"ORC":
        yield from _of_orc(content)
    elif content[:4] == b"Obj\x01":
        reader = fastavro.reader(BytesIO(content))
        yield "metadata", _flat(reader.metadata)
        for record in reader:
            yield "record", _flat(record)
    elif content[:4] == b"PFA1":
        yield from _of_puffin(content)
    elif content.lstrip()[:1] == b"{":
        yield from (("json", _flat(value)) for value in _documents(content.decode()))


def _documents(text: str) -> Iterator[Any]:
    """Yield the JSON documents in a text, which may spell marks by escapes: one, or one a line."""
    while text := text.lstrip():
        value, end = json.JSONDecoder().raw_decode(text)
        yield value
        text = text[end:]


def _flat(value: Any) -> bytes:
    """Return all texts and bytes in a value, one a line."""
    if isinstance(value, dict):
        return b"\n".join(_flat(part) for pair in value.items() for part in pair)
    if isinstance(value, list | tuple):
        return b"\n".join(map(_flat, value))
    return value if isinstance(value, bytes) else str(value).encode()


def _of_parquet(content: bytes) -> Iterator[tuple[str, bytes]]:
    plain = pq.ParquetFile(BytesIO(content))
    metadata = plain.metadata
    yield "metadata", _flat(metadata.metadata or {})
    texts = []
    for at in range(metadata.num_columns):
        column = metadata.schema.column(at)
        chunks = [metadata.row_group(group).column(at) for group in range(metadata.num_row_groups)]
        if column.physical_type == "BYTE_ARRAY" and any(it.has_dictionary_page for it in chunks):
            texts.append(column.path)
        for chunk in chunks:
            statistics = chunk.statistics
            if statistics is not None and statistics.has_min_max:
                yield "statistics", _flat([statistics.min_raw, statistics.max_raw])
    # Entries of dictionaries that no row has are in no value.
    for file in (plain, pq.ParquetFile(BytesIO(content), read_dictionary=texts)):
        for group in range(metadata.num_row_groups):
            for values in file.read_row_group(group).columns:
                for array in values.chunks:
                    yield from _of_array(array)


def _of_array(array: pa.Array) -> Iterator[tuple[str, bytes]]:
    """Yield the buffers of an array, and of those in it."""
    if isinstance(array, pa.DictionaryArray):
        yield from (("dictionary", piece) for _, piece in _of_array(array.dictionary))
        return
    # The buffers of views are those of the array and of all its children.
    yield "values", b"\n".join(bytes(buffer) for buffer in array.buffers() if buffer is not None)
    kind = array.type
    if pa.types.is_struct(kind):
        for at in range(kind.num_fields):
            yield from _of_array(array.field(at))
    elif pa.types.is_map(kind):
        yield from _of_array(array.keys)
        yield from _of_array(array.items)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        yield from _of_array(array.values)


def _of_orc(content: bytes) -> Iterator[tuple[str, bytes]]:
    end = len(content) - 1 - content[-1]
    postscript = _message(content[end:-1])
    codec = postscript.get(2, [0])[0]
    footer_start = end - postscript[1][0]
    footer = _chunks(content[footer_start:end], codec)
    yield "footer", footer
    statistics_start = footer_start - postscript.get(5, [0])[0]
    yield "statistics", _chunks(content[statistics_start:footer_start], codec)
    for stored in _message(footer).get(3, []):
        stripe = _message(stored)
        start, index, data, tail = (stripe.get(number, [0])[0] for number in (1, 2, 3, 4))
        tail_start = start + index + data
        stripe_footer = _chunks(content[tail_start : tail_start + tail], codec)
        yield "stripe footer", stripe_footer
        for stored_stream in _message(stripe_footer).get(1, []):
            stream = _message(stored_stream)
            kind, length = (stream.get(number, [0])[0] for number in (1, 3))
            yield f"stream {kind}", _chunks(content[start : start + length], codec)
            start += length


def _chunks(stored: bytes, codec: int) -> bytes:
    """Decompress a stream of ORC: chunks behind three bytes of length and whether it is plain."""
    if not codec:
        return stored
    parts, at = [], 0
    while at < len(stored):
        header = int.from_bytes(stored[at : at + 3], "little")
        chunk = stored[at + 3 : at + 3 + (header >> 1)]
        at += 3 + (header >> 1)
        parts.append(chunk if header & 1 else _CODECS[codec](chunk))
    return b"".join(parts)


_CODECS = {
    1: lambda chunk: zlib.decompress(chunk, -15),
    2: lambda chunk: bytes(cramjam.snappy.decompress_raw(chunk)),
    4: lambda chunk: bytes(cramjam.lz4.decompress_block(chunk, output_len=1 << 24)),
    5: lambda chunk: bytes(cramjam.zstd.decompress(chunk)),
}


def _message(stored: bytes) -> dict[int, list[Any]]:
    """Decode the fields of a message of protocol buffers by number: integers, and bytes."""
    fields: dict[int, list[Any]] = {}
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            octet = stored[at]
            at += 1
            value |= (octet & 127) << shift
            shift += 7
            if octet < 128:
                return value

    while at < len(stored):
        key = varint()
        number, wire = key >> 3, key & 7
        if wire == 0:
            value: Any = varint()
        else:
            size = {1: 8, 5: 4}.get(wire) or varint()
            value = stored[at : at + size]
            at += size
        fields.setdefault(number, []).append(value)
    return fields


def _of_puffin(content: bytes) -> Iterator[tuple[str, bytes]]:
    payload = content[-12 - int.from_bytes(content[-12:-8], "little") : -12]
    if content[-8] & 1:
        payload = bytes(cramjam.lz4.decompress(payload))
    footer = json.loads(payload)
    yield "footer", _flat(footer)
    for blob in footer["blobs"]:
        stored = content[blob["offset"] : blob["offset"] + blob["length"]]
        codec = blob.get("compression-codec")
        yield "blob", stored if codec is None else bytes(getattr(cramjam, codec).decompress(stored))
