"""Thrift without a schema, against Thrift's own library and Hive's generated classes."""

import io
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icectl.catalog.hive.thrift import (
    BOOL,
    BYTE,
    DOUBLE,
    I16,
    I32,
    I64,
    LIST,
    MAP,
    SET,
    STRUCT,
    TEXT,
    CallRefused,
    NotThrift,
    ThriftList,
    ThriftMap,
    _read,
    _write,
    many_of,
    number_of,
    read_reply,
    struct_of,
    text_of,
    texts_of,
    write_call,
)

PLAIN = {
    BOOL: st.booleans(), BYTE: st.integers(-(2**7), 2**7 - 1),
    I16: st.integers(-(2**15), 2**15 - 1), I32: st.integers(-(2**31), 2**31 - 1),
    I64: st.integers(-(2**63), 2**63 - 1), DOUBLE: st.floats(allow_nan=False),
    TEXT: st.binary(max_size=20),
}  # fmt: skip


def of_type(kind: int, depth: int) -> st.SearchStrategy[Any]:
    if kind in PLAIN:
        return PLAIN[kind]
    kinds = st.sampled_from([*PLAIN, *((STRUCT, LIST, SET, MAP) if depth else ())])
    if kind == STRUCT:
        numbers = st.integers(1, 2**15 - 1)
        member = kinds.flatmap(lambda each: st.tuples(st.just(each), of_type(each, depth - 1)))
        return st.dictionaries(numbers, member, max_size=4)
    if kind == MAP:
        return st.tuples(kinds, kinds).flatmap(
            lambda two: st.lists(
                st.tuples(of_type(two[0], depth - 1), of_type(two[1], depth - 1)), max_size=3
            ).map(lambda items: ThriftMap(*two, tuple(items)))
        )
    return kinds.flatmap(
        lambda each: st.lists(of_type(each, depth - 1), max_size=3).map(
            lambda items: ThriftList(each, tuple(items))
        )
    )


def reader(content: bytes) -> Any:
    return io.BytesIO(content).read


def read_struct(read: Any) -> Any:
    return _read(read, STRUCT)


def write_struct(fields: Any) -> bytes:
    out = bytearray()
    _write(out, STRUCT, fields)
    return bytes(out)


@given(of_type(STRUCT, 3))
def test_what_is_read_is_written_as_it_was(fields):
    written = write_struct(fields)
    assert read_struct(reader(written)) == fields
    assert write_struct(read_struct(reader(written))) == written


def test_a_table_of_hives_own_classes_survives_byte_by_byte():
    pytest.importorskip("thrift")
    from hive_metastore import ttypes
    from thrift.protocol.TBinaryProtocol import TBinaryProtocol
    from thrift.transport.TTransport import TMemoryBuffer

    skewed = ttypes.SkewedInfo(["a"], [["1", "2"]], {})
    storage = ttypes.StorageDescriptor(
        cols=[ttypes.FieldSchema("id", "bigint", "the key")],
        location="s3://b/t",
        compressed=True,
        numBuckets=-1,
        serdeInfo=ttypes.SerDeInfo("n", "lib", {"k": "v"}),
        sortCols=[ttypes.Order("id", 1)],
        skewedInfo=skewed,
    )
    table = ttypes.Table(
        tableName="t",
        dbName="d",
        createTime=7,
        sd=storage,
        partitionKeys=[],
        parameters={"metadata_location": "s3://b/t/metadata/1.metadata.json", "ü": "ß"},
        tableType="EXTERNAL_TABLE",
        temporary=False,
        ownerType=1,
    )
    buffer = TMemoryBuffer()
    table.write(TBinaryProtocol(buffer))
    written = buffer.getvalue()
    fields = read_struct(reader(written))
    assert write_struct(fields) == written
    assert (text_of(fields, 1), number_of(fields, 4)) == ("t", 7)
    assert texts_of(fields, 9) == table.parameters
    assert text_of(struct_of(fields, 7), 2) == "s3://b/t"
    assert text_of(many_of(struct_of(fields, 7), 1, STRUCT)[0], 3) == "the key"
    assert (text_of(fields, 4), texts_of(fields, 1), many_of(fields, 9, TEXT)) == (None, {}, ())


def test_a_call_is_what_thrifts_library_sends():
    pytest.importorskip("thrift")
    from hive_metastore.ThriftHiveMetastore import Client
    from thrift.protocol.TBinaryProtocol import TBinaryProtocol
    from thrift.transport.TTransport import TMemoryBuffer

    buffer = TMemoryBuffer()
    Client(TBinaryProtocol(buffer)).send_get_table("d", "t")
    assert write_call("get_table", {1: (TEXT, b"d"), 2: (TEXT, b"t")}, 0) == buffer.getvalue()


def reply(kind: int, name: bytes, fields: Any) -> bytes:
    head = struct.pack(">Ii", 0x80010000 | kind, len(name)) + name + struct.pack(">i", 1)
    return head + write_struct(fields)


def test_replies_are_values_or_refusals():
    value = {0: (TEXT, b"4.0.1")}
    assert read_reply(reader(reply(2, b"getVersion", value)), "getVersion") == value
    unknown = {1: (TEXT, b"Invalid method name: 'get_table'"), 2: (I32, 1)}
    with pytest.raises(CallRefused, match="Invalid method name") as caught:
        read_reply(reader(reply(3, b"get_table", unknown)), "get_table")
    assert caught.value.is_unknown
    with pytest.raises(CallRefused) as caught:
        read_reply(reader(reply(3, b"get_table", {2: (I32, 6)})), "get_table")
    assert not caught.value.is_unknown


@pytest.mark.parametrize(
    "content",
    [
        b"HTTP/1.1 400 Bad Request\r\n", reply(2, b"other", {}), reply(1, b"lock", {}),
        struct.pack(">Ii", 0x80010002, -5), struct.pack(">Ii", 0x80010002, 2**30),
        reply(2, b"lock", {})[:-1] + b"\x09\x00\x01",
        reply(2, b"lock", {})[:-1] + b"\x0c\x00\x01" * 100,
    ],
)  # fmt: skip
def test_what_is_no_answer_is_told(content):
    with pytest.raises(NotThrift):
        read_reply(reader(content), "lock")
