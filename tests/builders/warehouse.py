"""A warehouse of many tables in a catalog: some at rest, some that want everything, some broken."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.builders.orphans import stray
from tests.builders.rows import current_metadata
from tests.builders.table_builder import TableBuilder, filled_table
from tests.catalogs.sql_servers import SqlServer, sqlite_server

NAMESPACE = "db.inner"
ORPHAN = "data/left-behind.parquet"


@contextmanager
def warehouse(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SqlServer]:
    """A catalog `main` in a file, configured and without tables; tables come to `db.inner`."""
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder / "config"))
    monkeypatch.delenv("PYICEBERG_HOME", raising=False)
    with sqlite_server(folder) as server:
        monkeypatch.setenv("PYICEBERG_CATALOG__MAIN__URI", server.properties["uri"])
        yield server


def register(server: SqlServer, name: str) -> None:
    """Have the catalog know a table that was built in the warehouse."""
    server.register(name, str(current_metadata(server.warehouse / name)))


def at_rest(
    server: SqlServer, name: str, properties: Mapping[str, str] | None = None
) -> TableBuilder:
    """A table that needs nothing: one file in one snapshot."""
    table = filled_table(server.warehouse / name, range(10), properties=dict(properties or {}))
    register(server, name)
    return table


def rotten(
    server: SqlServer, name: str, *, appends: int = 12, properties: Mapping[str, str] | None = None
) -> TableBuilder:
    """A table that wants everything: small files, deletes, old snapshots, an orphan."""
    table = TableBuilder(server.warehouse / name, properties=dict(properties or {}))
    for start in range(0, 5 * appends, 5):
        table.append(range(start, start + 5), files=2)
    table.delete_rows(range(3))
    stray(server.warehouse / name, ORPHAN, days=9 * 365)
    register(server, name)
    return table


def broken(server: SqlServer, name: str) -> TableBuilder:
    """A table whose manifest list is gone."""
    table = filled_table(server.warehouse / name, range(10))
    register(server, name)
    for file in (server.warehouse / name / "metadata").glob("*snap-*.avro"):
        file.unlink()
    return table


def ids_of(location: Path) -> list[int]:
    """The rows of a table, by their ids, as PyIceberg reads them."""
    from pyiceberg.table import StaticTable

    found = StaticTable.from_metadata(str(location)).scan(selected_fields=("id",)).to_arrow()
    return sorted(found["id"].to_pylist())
