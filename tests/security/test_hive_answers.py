"""Answers of a metastore whose members are of other types than they should be: as if not there."""

from dataclasses import dataclass
from typing import Any, cast

import pytest

from icectl.catalog.hive import calls
from icectl.catalog.hive.connection import Connection
from icectl.catalog.hive.thrift import (
    I32,
    LIST,
    MAP,
    SET,
    STRUCT,
    TEXT,
    Fields,
    ThriftList,
    ThriftMap,
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
def test_members_of_another_type_are_not_there(odd: tuple[int, Any]) -> None:
    plain = cast("Connection", Answering({0: odd}))
    within = cast("Connection", Answering({0: (STRUCT, {1: odd, 2: odd, 7: odd, 9: odd, 12: odd})}))
    for connection in (plain, within):
        assert calls.databases(connection) == calls.table_names(connection, "db") == []
        assert calls.show_locks(connection, "db", "t") == []
        found = calls.get_table(connection, "db", "t")
        assert found is not None
        assert (found.parameters, found.location, found.iceberg_type) == ({}, None, "")
        assert isinstance(found.name + found.table_type, str)


@pytest.mark.parametrize("odd", ODD)
def test_tables_of_another_type_are_not_there(odd: tuple[int, Any]) -> None:
    class Listing(Answering):
        def ask(self, name: str, arguments: Fields) -> Fields:
            if name == "get_all_tables":
                return {0: (LIST, ThriftList(TEXT, (b"t",)))}
            return {0: (STRUCT, {1: odd})}

    assert list(calls.tables(cast("Connection", Listing({})), "db")) == []
