"""Answers of a metastore whose members are of other types than they should be: as if not there."""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from itertools import chain, cycle, islice
from typing import Any, cast

import pytest

from icectl.catalog.hive import metastore, thrift
from icectl.catalog.hive.metastore import Connection
from icectl.catalog.hive.thrift import (
    I32,
    LIST,
    MAP,
    SET,
    STRUCT,
    TEXT,
    Fields,
    NotThrift,
    ThriftList,
    ThriftMap,
    read_reply,
)  # fmt: skip

ODD: list[tuple[int, Any]] = [
    (I32, 5),
    (TEXT, b"\xff"),
    (LIST, ThriftList(I32, (1, 2))),
    (SET, ThriftList(LIST, (ThriftList(TEXT, (b"x",)),))),
    (LIST, ThriftList(MAP, (ThriftMap(I32, I32, ((1, 1),)),))),
    (MAP, ThriftMap(I32, I32, ((1, 1),))),
]


@dataclass
class Answering:
    """A connection whose every call returns the same."""

    fields: Fields
    server: str = "h:9083"

    def ask(self, name: str, arguments: Fields) -> Fields:
        return self.fields

    call = ask


@pytest.mark.parametrize("odd", ODD)
def test_members_of_another_type_are_not_there(odd):
    plain = cast("Connection", Answering({0: odd}))
    within = cast("Connection", Answering({0: (STRUCT, {1: odd, 2: odd, 7: odd, 9: odd, 12: odd})}))
    for connection in (plain, within):
        assert metastore.databases(connection) == metastore.table_names(connection, "db") == []
        assert metastore.show_locks(connection, "db", "t") == []
        found = metastore.get_table(connection, "db", "t")
        assert found is not None
        assert (found.parameters, found.location, found.iceberg_type) == ({}, None, "")
        assert isinstance(found.name + found.table_type, str)


@pytest.mark.parametrize("odd", ODD)
def test_tables_of_another_type_are_not_there(odd):
    class Listing(Answering):
        def ask(self, name: str, arguments: Fields) -> Fields:
            if name == "get_all_tables":
                return {0: (LIST, ThriftList(TEXT, (b"t",)))}
            return {0: (STRUCT, {1: odd})}

    assert list(metastore.tables(cast("Connection", Listing({})), "db")) == []


ENDLESS = {
    "a list of lists": (bytes((LIST, 0, 0, LIST)) + b"\x08\0\0\0", b"\0"),
    "a list of empty structs": (bytes((LIST, 0, 0, STRUCT)) + b"\x08\0\0\0", b"\0"),
    "members": (b"", bytes((I32, 0, 1, 0, 0, 0, 5))),
}
"""How an answer begins, and what it repeats."""


@pytest.mark.parametrize("name", ENDLESS)
def test_an_answer_is_bounded_as_a_whole(name, monkeypatch):
    monkeypatch.setattr(thrift, "_MOST_VALUES", 5000)
    begins, goes_on = ENDLESS[name]
    start = struct.pack(">I", 0x80010002) + struct.pack(">i", 1) + b"f" + bytes(4)
    stream: Iterator[int] = chain(start + begins, cycle(goes_on))

    def read(size: int) -> bytes:
        return bytes(islice(stream, size))

    with pytest.raises(NotThrift, match="does not end"):
        read_reply(read, "f")


def test_texts_of_an_answer_are_bounded_together(monkeypatch):
    monkeypatch.setattr(thrift, "_MOST_BYTES", 5000)
    text = struct.pack(">i", 1000) + bytes(1000)
    reply = struct.pack(">I", 0x80010002) + struct.pack(">i", 1) + b"f" + bytes(4)
    reply += bytes((LIST, 0, 0, TEXT)) + struct.pack(">i", 9) + 9 * text + b"\0"
    with pytest.raises(NotThrift, match="does not end"):
        read_reply(BytesIO(reply).read, "f")
