"""Container files: codecs, schemas and numbers."""

import bz2
import lzma
import zlib

import cramjam
import pytest

from icectl.errors import CorruptTable
from icectl.files.avro import container as avro_blocks
from icectl.files.avro.container import (
    CODECS,
    deflate_block,
    inflate_block,
    read_header,
    read_long,
    write_long,
)
from icectl.files.avro.schema import parse_schema
from tests.builders.avro import SYNC, field, number, text

CONTENT = b"entry " * 5000
STORED = {
    "null": CONTENT,
    "deflate": zlib.compress(CONTENT, 9)[2:-4],
    "snappy": bytes(cramjam.snappy.compress_raw(CONTENT)) + zlib.crc32(CONTENT).to_bytes(4, "big"),
    "zstandard": bytes(cramjam.zstd.compress(CONTENT)),
    "bzip2": bz2.compress(CONTENT),
    "xz": lzma.compress(CONTENT),
}


@pytest.mark.parametrize("codec", sorted(CODECS))
def test_blocks_of_every_codec_inflate(codec):
    assert inflate_block(codec, STORED[codec]) == CONTENT
    assert inflate_block(codec, deflate_block(codec, CONTENT)) == CONTENT
    assert inflate_block(codec, deflate_block(codec, b"")) == b""


@pytest.mark.parametrize("codec", sorted(CODECS - {"null"}))
def test_r008_damaged_blocks_are_corrupt(codec):
    for stored in (STORED[codec][:-9], b"", b"\xff" * 40):
        with pytest.raises(CorruptTable) as caught:
            inflate_block(codec, stored)
        assert caught.value.rule == "R-008"


def test_r008_the_checksum_of_snappy_is_checked():
    wrong = STORED["snappy"][:-1] + bytes([STORED["snappy"][-1] ^ 1])
    with pytest.raises(CorruptTable):
        inflate_block("snappy", wrong)


def test_bytes_behind_a_deflate_stream_are_left_alone():
    assert inflate_block("deflate", STORED["deflate"] + b"sum") == CONTENT


@pytest.mark.parametrize("codec", sorted(CODECS))
def test_r008_blocks_beyond_the_limit_are_corrupt(codec, monkeypatch):
    monkeypatch.setattr(avro_blocks, "_LARGEST_BLOCK", 1000)
    with pytest.raises(CorruptTable):
        inflate_block(codec, STORED[codec])


def test_large_deflate_blocks_within_the_limit_inflate(monkeypatch):
    monkeypatch.setattr(avro_blocks, "_LARGEST_BLOCK", 40_000)
    assert inflate_block("deflate", STORED["deflate"]) == CONTENT
    with pytest.raises(CorruptTable):
        inflate_block("deflate", STORED["deflate"][:-9])


def test_zstandard_blocks_of_any_ratio_inflate():
    content = bytes(5_000_000)
    assert inflate_block("zstandard", deflate_block("zstandard", content)) == content


@pytest.mark.parametrize(
    "value", [0, -1, 1, 63, -64, 64, -65, 2**31, 2**62, -(2**62), 2**63 - 1, -(2**63)]
)
def test_numbers_are_zigzag_varints(value):
    assert write_long(value) == number(value)
    assert read_long(b"x" + number(value) + b"y", 1) == (value, 1 + len(number(value)))


@pytest.mark.parametrize("content", [b"", b"\x80", b"\xff" * 9 + b"\x02", b"\x80" * 10 + b"\x00"])
def test_r008_numbers_that_are_cut_off_or_too_long_are_corrupt(content):
    with pytest.raises(CorruptTable):
        read_long(content, 0)


def record(*fields: object, name: str = "r") -> dict[str, object]:
    return {"type": "record", "name": name, "fields": list(fields)}


def test_named_types_are_written_out_where_they_are_used():
    point = {"type": "fixed", "name": "point", "size": 3}
    parsed = parse_schema(record(field("a", point, 1), field("b", ["null", "point"], 2)))
    assert parsed.fields[1].type.present == parsed.fields[0].type
    assert parsed.fields[1].type.null_branch == 0
    assert parse_schema(record(field("a", ["int", "null"], 1))).fields[0].type.null_branch == 1
    assert parse_schema(record(field("a", ["int", "long"], 1))).fields[0].type.null_branch is None


@pytest.mark.parametrize(
    "schema",
    [
        record(field("a", ["null", "null"], 1)),
        record(field("a", ["null", {"type": "null"}], 1)),
        record(field("a", ["null", ["null", "int"]], 1)),
        record(field("a", [["int"]], 1)),
        "int",
        ["null", record()],
        {"type": "record", "name": "r"},
        record(field("a", "unheard", 1)),
        record(field("a", {"type": "unheard"}, 1)),
        record(field("a", {"type": "array", "items": record(name="none")}, 1)),
        record(field("a", {"type": "array", "items": "null"}, 1)),
        record(field("a", {"type": "fixed", "name": "f", "size": -1}, 1)),
        record({"name": "a", "type": "int", "field-id": "1"}),
        record("a"),
        record(
            field("a", record(field("x", "int", 3), name="s"), 1),
            field("b", record(field("x", "long", 3), name="s"), 2),
        ),
        record(
            field("a", {**record(name="n.s"), "namespace": "m"}, 1),
            field("b", {**record(field("x", "int", 3), name="s"), "namespace": "n"}, 2),
        ),
        record(
            field("a", {**record(name="s"), "namespace": "n"}, 1),
            field("b", "s", 2),
        ),
        record(field("a", record(field("b", "int", 1)), 2)),
        record({"name": None, "type": "int", "field-id": 1}),
        record(field("a", "int", 1), field("a", "long", 2)),
        7,
    ],
)
def test_r008_schemas_that_are_none_are_corrupt(schema):
    with pytest.raises(CorruptTable) as caught:
        parse_schema(schema)
    assert caught.value.rule == "R-008"


def test_types_of_one_name_in_two_namespaces_are_two():
    one, other = ({**record(name="s"), "namespace": name} for name in ("n", "m"))
    parsed = parse_schema(record(field("a", one, 1), field("b", other, 2)))
    assert [each.type.kind for each in parsed.fields] == ["record"] * 2


def test_named_types_may_be_defined_again_as_they_were():
    """PyIceberg does so in manifests of tables that two decimals of one precision partition."""
    one = {"type": "fixed", "size": 4, "logicalType": "decimal", "name": "decimal_9_2"}
    parsed = parse_schema(record(field("a", one, 1), field("b", ["null", dict(one)], 2)))
    assert parsed.fields[1].type.present == parsed.fields[0].type


def test_named_types_have_the_namespace_of_what_is_around_them():
    inner = record(field("x", "int", 3), name="s")
    one = {**record(field("s", inner, 4), field("t", "s", 5), name="o"), "namespace": "n"}
    other = {**record(field("s", "n.s", 6), name="m.o")}
    top = record(field("x", "long", 7), name="s")
    parsed = parse_schema(record(field("a", one, 1), field("b", other, 2), field("c", top, 8)))
    first, second, third = (each.type for each in parsed.fields)
    assert first.fields[0].type == first.fields[1].type == second.fields[0].type
    assert [each.type.kind for each in third.fields] == ["long"]


def test_named_types_may_be_wrapped_and_need_no_name():
    item = {"type": "array", "items": {"type": "fixed", "size": 4}}
    wrapped = {"type": {"type": "int", "logicalType": "date"}}
    parsed = parse_schema(record(field("a", wrapped, 1), field("b", item, 2)))
    assert (parsed.fields[0].type.kind, parsed.fields[0].type.logical) == ("int", "date")
    assert parsed.fields[1].type.parts[0].size == 4


def test_r008_schemas_nested_too_deeply_are_corrupt():
    schema: object = "int"
    for _ in range(40):
        schema = {"type": "array", "items": schema}
    with pytest.raises(CorruptTable, match="deeply"):
        parse_schema(record(field("a", schema, 1)))


@pytest.mark.parametrize("times", [1, 2], ids=["a chain", "a tree"])
def test_r008_schemas_that_grow_through_names_are_corrupt(times):
    fields: list[object] = [field("first", record(field("a", "int", 1), name="r0"), 1)]
    for at in range(1, 40):
        inner = [field(f"b{one}", f"r{at - 1}", one) for one in range(times)]
        fields.append(field(f"f{at}", record(*inner, name=f"r{at}"), 100 + at))
    with pytest.raises(CorruptTable, match="deeply"):
        parse_schema(record(*fields, name="root"))


def made_header(*pairs: tuple[bytes, bytes], sized: bool = False) -> bytes:
    body = b"".join(text(key) + text(value) for key, value in pairs)
    count = number(-len(pairs)) + number(len(body)) if sized else number(len(pairs))
    return b"Obj\x01" + count + body + b"\0" + SYNC


def test_headers_may_give_the_size_of_their_blocks():
    schema = b'{"type":"record","name":"r","fields":[]}'
    for sized in (False, True):
        read = read_header(made_header((b"avro.schema", schema), (b"key", b"value"), sized=sized))
        assert (read.metadata["key"], read.codec, read.sync_marker) == ("value", "null", SYNC)


@pytest.mark.parametrize(
    "content",
    [
        made_header((b"other", b"{}")),
        made_header((b"avro.schema", b"{")),
        made_header((b"avro.schema", b"[" * 100_000)),
        made_header((b"avro.schema", b"\xff")),
        made_header((b"avro.schema", b'{"type":"record","name":"r","fields":[]}'))[:-1],
        b"Obj\x01" + number(1) + number(-1),
        b"Obj\x01" + number(2**62),
    ],
)
def test_r008_damaged_headers_are_corrupt(content):
    with pytest.raises(CorruptTable) as caught:
        read_header(content)
    assert caught.value.rule == "R-008"


def test_r008_two_fields_of_one_id_are_corrupt():
    from icectl.files.avro.schema import fields_by_id

    parsed = parse_schema(record(field("a", "int", 1), field("b", "int", 1)))
    with pytest.raises(CorruptTable):
        fields_by_id(parsed, {})
