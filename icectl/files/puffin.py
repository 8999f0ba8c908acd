"""Puffin files: blobs, and the footer that describes them.

A reader with ranges takes the last FOOTER_END bytes, asks `footer_size` how many bytes the footer
spans, and reads each blob by its own range; whole files go through `read_puffin`.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import cramjam

from icectl.errors import CorruptTable, Unsupported
from icectl.files.inflate import TooLargeError, decompress_within, most_inflated
from icectl.format.json_members import parse_json

T = TypeVar("T")

MAGIC = b"PFA1"
FOOTER_END = 12
"""Bytes of payload size, flags and magic that end every file."""

_COMPRESSED_FOOTER = 1
_LARGEST_RATIO = 32
"""What blobs and footers may inflate to, of each byte: sketches hardly compress."""
_CODECS = {"lz4": cramjam.lz4, "zstd": cramjam.zstd}


@dataclass(frozen=True, slots=True)
class PuffinBlob:
    """A blob as the footer describes it; offset and length in bytes as stored."""

    type: str
    fields: tuple[int, ...]
    snapshot_id: int
    sequence_number: int
    offset: int
    length: int
    compression_codec: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def span(self) -> slice:
        """The place of the stored bytes in the file."""
        return slice(self.offset, self.offset + self.length)


@dataclass(frozen=True, slots=True)
class PuffinFile:
    """The footer of a Puffin file."""

    blobs: tuple[PuffinBlob, ...]
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NewBlob:
    """A blob to write; `content` is not compressed yet, unless it `is_stored` in another file."""

    type: str
    fields: tuple[int, ...]
    snapshot_id: int
    sequence_number: int
    content: bytes
    compression_codec: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    is_stored: bool = False


def footer_size(tail: bytes) -> int:
    """Return the bytes of the footer at a file's end, magic included. Raises: CorruptTable."""
    if len(tail) < FOOTER_END or tail[-4:] != MAGIC:
        raise _corrupt("it does not end with the magic bytes")
    payload_size = int.from_bytes(tail[-12:-8], "little", signed=True)
    if payload_size < 0:
        raise _corrupt("the size of its footer is negative")
    return len(MAGIC) + payload_size + FOOTER_END


def read_footer(tail: bytes, file_size: int) -> PuffinFile:
    """Read the footer from its bytes, or more. Raises: CorruptTable; Unsupported, for flags."""
    size = footer_size(tail)
    if size > min(len(tail), file_size - len(MAGIC)):
        raise _corrupt("its footer is longer than the file")
    footer = tail[len(tail) - size :]
    if footer[:4] != MAGIC:
        raise _corrupt("its footer does not begin with the magic bytes")
    payload = _footer_payload(footer[4:-FOOTER_END], footer[-8:-4])
    try:
        parsed = parse_json(payload)
    except ValueError as error:
        raise _corrupt("its footer is not JSON") from error
    try:
        puffin = PuffinFile(
            tuple(_blob(member) for member in _typed(list, parsed["blobs"])),
            _strings(parsed.get("properties")),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise _corrupt("its footer lacks a member or has one of the wrong type") from error
    for blob in puffin.blobs:
        inside = len(MAGIC) <= blob.offset <= blob.offset + blob.length <= file_size - size
        if not inside:
            raise _corrupt(f"its blob at byte {blob.offset} lies outside of the file")
    return puffin


def read_puffin_footer(read_range: Callable[[int, int], bytes], size_bytes: int) -> PuffinFile:
    """Return the footer of a Puffin file of some size; ranges below 0 count from its end.

    Raises: CorruptTable; Unsupported.
    """
    tail = read_range(-FOOTER_END, FOOTER_END)
    size = footer_size(tail)
    return read_footer(read_range(-min(size, size_bytes), size), size_bytes)


def read_puffin(content: bytes) -> PuffinFile:
    """Read the footer of a whole file. Raises: as read_footer."""
    if content[:4] != MAGIC:
        raise _corrupt("it does not begin with the magic bytes")
    return read_footer(content, len(content))


def read_blob(stored: bytes, blob: PuffinBlob) -> bytes:
    """Decompress a blob from the file's bytes at its span. Raises: CorruptTable; Unsupported."""
    if len(stored) != blob.length:
        raise _corrupt(f"its blob at byte {blob.offset} is cut short")
    if blob.compression_codec is None:
        return stored
    return _decompress(blob.compression_codec, stored)


def write_puffin(blobs: Iterable[NewBlob], properties: Mapping[str, str]) -> bytes:
    """Write blobs in order, and a footer not compressed. Raises: Unsupported, for a codec."""
    parts = [MAGIC]
    offset = len(MAGIC)
    members: list[Mapping[str, Any]] = []
    for blob in blobs:
        stored, codec = blob.content, blob.compression_codec
        if codec is not None and not blob.is_stored:
            stored = bytes(_module(codec).compress(stored))
        parts.append(stored)
        member: dict[str, Any] = {
            "type": blob.type,
            "fields": list(blob.fields),
            "snapshot-id": blob.snapshot_id,
            "sequence-number": blob.sequence_number,
            "offset": offset,
            "length": len(stored),
        }
        if codec is not None:
            member["compression-codec"] = codec
        if blob.properties:
            member["properties"] = dict(blob.properties)
        members.append(member)
        offset += len(stored)
    footer: dict[str, Any] = {"blobs": members}
    if properties:
        footer["properties"] = dict(properties)
    payload = json.dumps(footer, separators=(",", ":")).encode()
    size = len(payload).to_bytes(4, "little")
    return b"".join([*parts, MAGIC, payload, size, bytes(4), MAGIC])


def with_properties(content: bytes, change: Callable[[dict[str, str]], None]) -> bytes:
    """Return a Puffin file with the properties of each blob changed in place by `change`.

    Blobs keep their bytes and offsets; the footer keeps unknown members, and is not
    compressed.
    Raises: as read_footer; what `change` raises.
    """
    read_puffin(content)
    size = footer_size(content)
    start = len(content) - size
    payload = _footer_payload(content[start + 4 : -FOOTER_END], content[-8:-4])
    footer = parse_json(payload)
    for blob in footer["blobs"]:
        change(blob.get("properties") or {})
    changed = json.dumps(footer, ensure_ascii=False, separators=(",", ":")).encode()
    length = len(changed).to_bytes(4, "little")
    return b"".join([content[:start], MAGIC, changed, length, bytes(4), MAGIC])


def _footer_payload(payload: bytes, flags: bytes) -> bytes:
    known = int.from_bytes(flags, "little")
    if known & ~_COMPRESSED_FOOTER:
        raise Unsupported(f"a Puffin file has the unknown footer flags {flags.hex()}")
    return _decompress("lz4", payload) if known & _COMPRESSED_FOOTER else payload


def _decompress(codec: str, stored: bytes) -> bytes:
    try:
        most = most_inflated(len(stored), _LARGEST_RATIO)
        return decompress_within(_module(codec), stored, most)
    except TooLargeError as error:
        raise _corrupt(f"a part of it inflates to too much, from {len(stored):,} bytes") from error
    except cramjam.DecompressionError as error:
        raise _corrupt(f"a part of it is not a {codec} frame") from error


def _module(codec: str) -> Any:
    if codec not in _CODECS:
        raise Unsupported(f"a Puffin file uses the unknown compression codec `{codec}`")
    return _CODECS[codec]


def _blob(member: Mapping[str, Any]) -> PuffinBlob:
    codec = member.get("compression-codec")
    return PuffinBlob(
        type=_typed(str, member["type"]),
        fields=tuple(_typed(int, number) for number in _typed(list, member["fields"])),
        snapshot_id=_typed(int, member["snapshot-id"]),
        sequence_number=_typed(int, member["sequence-number"]),
        offset=_typed(int, member["offset"]),
        length=_typed(int, member["length"]),
        compression_codec=None if codec is None else _typed(str, codec),
        properties=_strings(member.get("properties")),
    )


def _typed(kind: type[T], value: object) -> T:
    """Return a value of the footer, which is of this very type. Raises: TypeError."""
    if type(value) is not kind:
        raise TypeError(value)
    return value


def _strings(value: object) -> Mapping[str, str]:
    if value is None:
        return {}
    return {key: _typed(str, text) for key, text in _typed(dict, value).items()}


def _corrupt(reason: str) -> CorruptTable:
    return CorruptTable(f"a Puffin file is damaged: {reason}", rule="R-118")
