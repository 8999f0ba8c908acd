import json

import cramjam
import pytest

from icectl.errors import CorruptTable, Unsupported
from icectl.files import puffin
from icectl.files.puffin import NewBlob, PuffinBlob, PuffinFile

EMPTY = (
    bytes.fromhex("5046413150464131") + b'{"blobs":[]}' + bytes.fromhex("0c0000000000000050464131")
)
"""The smallest file that the specification allows, put together by hand."""

SKETCH = NewBlob(
    type="sketch",
    fields=(3, 4),
    snapshot_id=7,
    sequence_number=2,
    content=b"abc" * 100,
    compression_codec="zstd",
    properties={"ndv": "12"},
)
PLAIN = NewBlob(type="plain", fields=(), snapshot_id=-1, sequence_number=-1, content=b"xyz")


def file_with(footer: object, *, flags: bytes = bytes(4), body: bytes = b"xyz") -> bytes:
    payload = footer if isinstance(footer, bytes) else json.dumps(footer).encode()
    size = len(payload).to_bytes(4, "little")
    return b"PFA1" + body + b"PFA1" + payload + size + flags + b"PFA1"


def blob_json(**members: object) -> dict[str, object]:
    return {
        "type": "plain", "fields": [], "snapshot-id": 1, "sequence-number": 1, "offset": 4,
        "length": 3,
    } | members  # fmt: skip


def test_a_file_without_blobs_is_written_as_the_specification_has_it():
    assert puffin.write_puffin([], {}) == EMPTY
    assert puffin.read_puffin(EMPTY) == PuffinFile((), {})


def test_written_blobs_are_read_back_in_order():
    content = puffin.write_puffin([PLAIN, SKETCH], {"created-by": "a test"})
    found = puffin.read_puffin(content)
    assert found.properties == {"created-by": "a test"}
    first, second = found.blobs
    assert first == PuffinBlob("plain", (), -1, -1, offset=4, length=3)
    assert second == PuffinBlob(
        "sketch", (3, 4), 7, 2, 7, second.length, compression_codec="zstd", properties={"ndv": "12"}
    )
    assert second.length < 300
    assert [puffin.read_blob(content[blob.span], blob) for blob in found.blobs] == [
        b"xyz",
        b"abc" * 100,
    ]


@pytest.mark.parametrize("codec", ["lz4", "zstd"])
def test_both_codecs_of_the_format_are_read_and_written(codec):
    blob = NewBlob("any", (), 1, 1, b"content" * 50, compression_codec=codec)
    content = puffin.write_puffin([blob], {})
    (found,) = puffin.read_puffin(content).blobs
    assert puffin.read_blob(content[found.span], found) == b"content" * 50


def test_a_footer_is_found_without_the_rest_of_the_file():
    content = puffin.write_puffin([PLAIN, SKETCH], {})
    size = puffin.footer_size(content[-puffin.FOOTER_END :])
    assert content[-size:].startswith(b"PFA1{")
    assert puffin.read_footer(content[-size:], len(content)) == puffin.read_puffin(content)


def test_more_bytes_than_the_footer_are_no_harm():
    content = puffin.write_puffin([SKETCH], {})
    assert puffin.read_footer(content[4:], len(content)) == puffin.read_puffin(content)


def test_a_compressed_footer_is_read():
    payload = bytes(cramjam.lz4.compress(json.dumps({"blobs": [blob_json()]}).encode()))
    content = file_with(payload, flags=b"\x01\x00\x00\x00")
    assert [blob.type for blob in puffin.read_puffin(content).blobs] == ["plain"]


@pytest.mark.parametrize("flags", ["02000000", "00000001", "03000000"])
def test_unknown_footer_flags_are_refused(flags):
    with pytest.raises(Unsupported, match=flags):
        puffin.read_puffin(file_with({"blobs": []}, flags=bytes.fromhex(flags)))


def test_unknown_codecs_are_refused_when_the_blob_is_read():
    content = file_with({"blobs": [blob_json(**{"compression-codec": "brotli"})]})
    (blob,) = puffin.read_puffin(content).blobs
    with pytest.raises(Unsupported, match="brotli"):
        puffin.read_blob(content[blob.span], blob)
    with pytest.raises(Unsupported, match="brotli"):
        puffin.write_puffin([NewBlob("any", (), 1, 1, b"", compression_codec="brotli")], {})


@pytest.mark.parametrize(
    "content",
    [
        b"", EMPTY[:11], b"XFA1" + EMPTY[4:], EMPTY[:-1] + b"2", EMPTY[:4] + b"XFA1" + EMPTY[8:],
        EMPTY[:20] + b"\x0d\x00\x00\x00" + EMPTY[24:],
        EMPTY[:20] + b"\xff\xff\xff\xff" + EMPTY[24:],
        EMPTY[:20] + b"\xff\xff\xff\x7f" + EMPTY[24:], EMPTY[4:], file_with(b"{"),
        file_with(b"\xff\xff"), file_with([]), file_with({}), file_with({"blobs": {}}),
        file_with({"blobs": ["blob"]}), file_with({"blobs": [], "properties": {"a": 1}}),
        file_with({"blobs": [], "properties": []}), file_with({"blobs": [{}]}),
        file_with({"blobs": [blob_json(offset="4")]}),
        file_with({"blobs": [blob_json(fields=[True])]}),
        file_with({"blobs": [blob_json(type=None)]}), file_with({"blobs": [blob_json(offset=3)]}),
        file_with({"blobs": [blob_json(length=4)]}), file_with({"blobs": [blob_json(length=-1)]}),
        file_with(b"no frame", flags=b"\x01\x00\x00\x00"),
    ],
)  # fmt: skip
def test_r118_a_damaged_file_is_corrupt(content):
    with pytest.raises(CorruptTable) as caught:
        puffin.read_puffin(content)
    assert caught.value.rule == "R-118"


def test_r118_a_blob_cut_short_or_not_compressed_as_said_is_corrupt():
    blob = PuffinBlob("any", (), 1, 1, offset=4, length=3)
    with pytest.raises(CorruptTable, match="cut short"):
        puffin.read_blob(b"xy", blob)
    framed = PuffinBlob("any", (), 1, 1, offset=4, length=3, compression_codec="zstd")
    with pytest.raises(CorruptTable, match="zstd"):
        puffin.read_blob(b"xyz", framed)
