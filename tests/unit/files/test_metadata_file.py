"""Bytes of metadata files and version hints."""

import gzip
import json

import pytest

from icectl.errors import CorruptTable, Unsupported
from icectl.files.metadata_file import (
    find_last_updated_ms,
    find_table_uuid,
    is_gzip,
    read_metadata,
    read_metadata_json,
    read_version_hint,
    write_metadata,
)
from icectl.format.metadata_json import parse_metadata
from tests.builders.metadata_members import members_v1, members_v2, members_v3

METADATA = parse_metadata(members_v2())


@pytest.mark.parametrize("members", [members_v1(), members_v2(), members_v3()])
@pytest.mark.parametrize("compressed", [False, True])
def test_metadata_is_read_as_it_was_written(members, compressed):
    metadata = parse_metadata(members)
    assert read_metadata(write_metadata(metadata, compressed=compressed)) == metadata


def test_r006_compression_is_told_by_the_bytes():
    text = json.dumps(members_v2()).encode()
    assert read_metadata(gzip.compress(text)) == read_metadata(text) == METADATA
    assert is_gzip(write_metadata(METADATA, compressed=True))
    assert not is_gzip(write_metadata(METADATA, compressed=False))


def test_written_bytes_are_json_without_spaces_and_repeat():
    content = write_metadata(METADATA, compressed=False)
    assert json.loads(content) == members_v2()
    assert content.startswith(b'{"format-version":2,"table-uuid":"9c12d441-')
    compressed = write_metadata(METADATA, compressed=True)
    assert gzip.decompress(compressed) == content
    assert compressed == write_metadata(METADATA, compressed=True)


def test_names_beyond_ascii_are_written_as_utf_8():
    metadata = parse_metadata(members_v2() | {"properties": {"owner": "Grüße 雪"}})
    content = write_metadata(metadata, compressed=False)
    assert '"owner":"Grüße 雪"'.encode() in content
    assert read_metadata(content) == metadata


def test_a_byte_order_mark_before_the_json_is_skipped():
    assert read_metadata(b"\xef\xbb\xbf" + json.dumps(members_v2()).encode()) == METADATA


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"null", b'"text"', b"\xff\xfe\xfd", b"{}x", b"[" * 100_000, b"\x00" * 9],
)
def test_r005_what_is_no_json_object_is_corrupt(content):
    with pytest.raises(CorruptTable) as caught:
        read_metadata_json(content)
    assert caught.value.rule == "R-005"


def damaged_gzip() -> list[bytes]:
    whole = write_metadata(METADATA, compressed=True)
    wrong_sum = whole[:-8] + bytes(4) + whole[-4:]
    return [whole[:-1], whole[:40], whole[:2], wrong_sum, whole[:10] + b"\xff" * 30]


def test_r005_half_a_surrogate_pair_is_corrupt_and_a_whole_one_a_character():
    members = members_v2() | {"x": "\U0001f9ca"}
    assert read_metadata(json.dumps(members).encode()).unknown == {"x": "\U0001f9ca"}
    broken = json.dumps(members | {"location": "/wh/\ud83e"})
    raw = broken.encode().replace(b"\\ud83e", b"\xed\xa0\xbe")
    for content in (broken.encode(), broken.replace("d83e", "DDCA").encode(), raw):
        with pytest.raises(CorruptTable) as caught:
            read_metadata(content)
        assert caught.value.rule == "R-005"


@pytest.mark.parametrize("content", damaged_gzip())
def test_r006_a_gzip_file_that_is_not_whole_is_corrupt(content):
    with pytest.raises(CorruptTable) as caught:
        read_metadata_json(content)
    assert caught.value.rule == "R-006"


def test_r001_a_newer_version_is_unsupported_even_if_the_rest_makes_no_sense():
    with pytest.raises(Unsupported):
        read_metadata(b'{"format-version": 9, "location": []}')


@pytest.mark.parametrize(
    ("content", "hint"),
    [
        (b"7", 7), (b"7\n", 7), (b" 12 \r\n", 12), (b"0", 0), (b"4294967296", 4_294_967_296),
        (b"v12", "v12"), (b"00003-9c12d441-03fe", "00003-9c12d441-03fe"), (b"", None),
        (b"\n", None), (b"latest", None), (b"7" * 5000, "7" * 5000), (b"\xff\xfe7", None),
        ("٣".encode(), None),
    ],
)  # fmt: skip
def test_r163_a_version_hint_is_a_number_a_file_name_or_nothing(content, hint):
    assert read_version_hint(content) == hint


@pytest.mark.parametrize(
    "beginning",
    [
        b'{"format-version" : 2, "table-uuid" : "9c12"',
        b'{\n  "location": "s3://b/a\\"t\\\\",\n  "table-uuid": "9c12", "rest": {',
        b'{"a":true,"b":null,"c":-1.5e3,"table-uuid":"9c12"',
        gzip.compress(b'{"table-uuid":"9c12","x":"' + bytes(range(32, 127)) * 20, mtime=0)[:600],
    ],
)
def test_a_uuid_is_found_in_the_beginning_of_a_file(beginning):
    assert find_table_uuid(beginning) == "9c12"


@pytest.mark.parametrize(
    "beginning",
    [
        b"", b"{", b'{"properties":{"table-uuid":"9c12"},"table-uuid":"aaaa"}',
        b'["table-uuid","9c12"]', b'{"a":"\\"table-uuid\\":\\"9c12\\"","b":1}',
        b'{"table-uuid":null}', b'{"table-uuid":"9c1', b"\x1f\x8bnothing",
    ],
)  # fmt: skip
def test_what_is_not_surely_the_tables_uuid_is_not_taken_for_it(beginning):
    assert find_table_uuid(beginning) is None


@pytest.mark.parametrize(
    ("beginning", "found"),
    [
        (b'{"table-uuid":"9c12","last-updated-ms" : 1700000000000 ,"x":', 1_700_000_000_000),
        (gzip.compress(b'{"last-updated-ms":17}', mtime=0), 17),
        (b'{"last-updated-ms":17', None),
        (b'{"last-updated-ms":' + b"7" * 5000 + b"}", None),
        (b'{"properties":{},"last-updated-ms":17}', None),
        (b'{"last-updated-ms":"17"}', None),
    ],
)
def test_the_time_is_found_as_the_uuid_is(beginning, found):
    assert find_last_updated_ms(beginning) == found
