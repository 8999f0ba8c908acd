"""Catalogs in a database: the tables of Iceberg's JdbcCatalog, which PyIceberg's SqlCatalog shares.

One row of `iceberg_tables` is the pointer to a table's current metadata file. Its newer schema
(V1) has a column `iceberg_type`, which tells views from tables. Nothing here makes such tables.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from icectl.catalog.file_io import with_file_io
from icectl.catalog.identifier import TableName, dotted_name, no_namespace, no_table
from icectl.catalog.metadata_files import read_file
from icectl.catalog.pointer import PointerState, SwapUncertain, behind_pointer
from icectl.catalog.protocol import Conflict
from icectl.catalog.sql_drivers import Database, database_of, reason_of
from icectl.catalog.warehouse import (
    CatalogAccess,
    TableInCatalog,
    TablePlace,
    places,
)
from icectl.errors import CorruptTable, TableNotFound, Unsupported
from icectl.format.metadata import TableMetadata
from icectl.storage.open import open_store
from icectl.storage.store import Store

_VIEW = "VIEW"
_OF_TABLE = "catalog_name = ? AND table_namespace = ? AND table_name = ?"
_SELECT = f"SELECT * FROM iceberg_tables WHERE {_OF_TABLE}"  # noqa: S608 - a constant
_UPDATE = (
    "UPDATE iceberg_tables SET metadata_location = ?, previous_metadata_location = ? "  # noqa: S608
    f"WHERE {_OF_TABLE} AND metadata_location = ?"
)
_NAMES = "SELECT * FROM iceberg_tables WHERE catalog_name = ? ORDER BY table_namespace, table_name"
_IN_NAMESPACE = (
    "SELECT * FROM iceberg_tables WHERE catalog_name = ? AND table_namespace = ? "
    "ORDER BY table_name"
)
_NAMESPACES = (
    "SELECT table_namespace FROM iceberg_tables WHERE catalog_name = ? "
    "UNION SELECT namespace FROM iceberg_namespace_properties WHERE catalog_name = ?"
)
_CATALOGS = "SELECT DISTINCT catalog_name FROM iceberg_tables ORDER BY catalog_name"


def connect(access: CatalogAccess) -> "SqlWarehouse":
    """Return the catalog in a database.

    Raises: UsageError; Unsupported, where its driver is missing.
    """
    settings = access.settings
    database = database_of(settings.name, settings.properties, access.deadline)
    storage = with_file_io(access.storage, settings.properties)
    store = open_store(storage, access.env, access.deadline)
    return SqlWarehouse(access, CatalogRows(database, settings.name), store)


@dataclass(frozen=True, slots=True)
class Row:
    """A row of `iceberg_tables`."""

    namespace: str
    name: str
    metadata_location: str | None
    previous: str | None
    is_view: bool


@dataclass(frozen=True, slots=True)
class CatalogRows:
    """The rows of one catalog, each call by a connection of its own: runs may take hours."""

    database: Database
    catalog: str

    def one(self, namespace: str, name: str) -> Row | None:
        """Return the row of a table or view. Raises: StorageError; TableNotFound."""
        with self._reading() as ask:
            rows = ask(_SELECT, (self.catalog, namespace, name))
        return rows[0] if rows else None

    def all(self) -> Sequence[Row]:
        """Return every row, by namespace and name. Raises: StorageError; TableNotFound."""
        with self._reading() as ask:
            return ask(_NAMES, (self.catalog,))

    def of(self, namespace: str) -> Sequence[Row]:
        """Return every row of one namespace, by name. Raises: StorageError; TableNotFound."""
        with self._reading() as ask:
            return ask(_IN_NAMESPACE, (self.catalog, namespace))

    def namespaces(self) -> Sequence[str]:
        """Return every namespace that holds a table or has properties. Raises: as `all`."""
        with self._cursor() as cursor:
            try:
                cursor.execute(self.database.sql(_NAMESPACES), (self.catalog,) * 2)
                return sorted(str(row[0]) for row in cursor.fetchall())
            except self.database.errors:  # a catalog without tables for namespaces
                pass
        return sorted({row.namespace for row in self.all()})

    def catalogs(self) -> Sequence[str]:
        """Return the names of all catalogs in the database. Raises: as `all`."""
        with self._cursor() as cursor, self._translated():
            cursor.execute(_CATALOGS)
            return [str(row[0]) for row in cursor.fetchall()]

    def swap(self, row: Row, target: str) -> bool:
        """Name another metadata file in a row that still is as it was read; whether it was.

        Raises: SwapUncertain, where the commit of the transaction failed; StorageError before it.
        """
        parameters = (
            target, row.metadata_location,
            self.catalog, row.namespace, row.name, row.metadata_location,
        )  # fmt: skip
        with closing(self.database.connect()) as connection:
            try:
                cursor = self.database.cursor(connection)
                if self.database.family == "sqlite":
                    cursor.execute("BEGIN IMMEDIATE")
                cursor.execute(self.database.sql(_UPDATE), parameters)
                changed = cursor.rowcount
            except self.database.errors as error:  # then nothing is ever committed
                self._roll_back(connection)
                if self.database.is_conflict(error):
                    return False
                raise self.database.failure(error, "cannot change") from error
            if changed != 1:
                self._roll_back(connection)
                return False
            try:
                connection.commit()
            except self.database.errors as error:
                raise SwapUncertain(reason_of(error)) from error
            return True

    def wait_for(self, row: Row) -> bool:
        """Wait until no transaction holds a row; whether none does.

        One whose commit was asked for has held it since. Raises: StorageError.
        """
        is_file = self.database.family == "sqlite"
        statement = "BEGIN IMMEDIATE" if is_file else self.database.sql(f"{_SELECT} FOR UPDATE")
        parameters = () if is_file else (self.catalog, row.namespace, row.name)
        with closing(self.database.connect()) as connection:
            try:
                cursor = self.database.cursor(connection)
                if self.database.family == "postgresql":
                    cursor.execute("SET LOCAL lock_timeout = '30s'")
                cursor.execute(statement, parameters)
            except self.database.errors:
                return False
            finally:
                self._roll_back(connection)
            return True

    @contextmanager
    def _reading(self) -> Iterator[Callable[[str, tuple[str, ...]], list[Row]]]:
        with self._cursor() as cursor, self._translated():

            def ask(statement: str, parameters: tuple[str, ...]) -> list[Row]:
                cursor.execute(self.database.sql(statement), parameters)
                names = [column[0].lower() for column in cursor.description]
                return [_row(dict(zip(names, row, strict=True))) for row in cursor.fetchall()]

            yield ask

    @contextmanager
    def _cursor(self) -> Iterator[Any]:
        with closing(self.database.connect()) as connection:
            yield self.database.cursor(connection)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except self.database.errors as error:
            reason = reason_of(error)
            if "iceberg_tables" in reason:  # every database names the table that is not there
                raise TableNotFound(
                    f"the database {self.database.shown} holds no catalog: {reason}",
                    hint="check the `uri`; PyIceberg, or Iceberg's JdbcCatalog, makes those tables",
                ) from error
            raise self.database.failure(error) from error

    def _roll_back(self, connection: Any) -> None:
        with suppress(self.database.errors):
            connection.rollback()


def _row(columns: dict[str, Any]) -> Row:
    return Row(
        namespace=columns["table_namespace"],
        name=columns["table_name"],
        metadata_location=columns["metadata_location"],
        previous=columns["previous_metadata_location"],
        is_view=columns.get("iceberg_type") == _VIEW,
    )


@dataclass(frozen=True, slots=True)
class SqlWarehouse:
    """The tables of one catalog in a database, which may hold several."""

    access: CatalogAccess
    rows: CatalogRows
    store: Store

    def namespaces(self, parent: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
        """Yield the namespaces right below one: levels are separated by dots in the database.

        Raises: TableNotFound; StorageError.
        """
        every = [tuple(name.split(".")) for name in self.rows.namespaces() if name]
        depth = len(parent)
        below = sorted({each[: depth + 1] for each in every if each[:depth] == parent})
        if not below and parent:
            raise self._no_namespace(parent)
        if not below and self.rows.catalogs():  # those of others: the name may be wrong
            raise self._empty()
        yield from (each for each in below if len(each) > depth)

    def tables(self, namespace: tuple[str, ...]) -> Iterator[TableName]:
        """Yield the tables right in a namespace. Raises: TableNotFound; StorageError."""
        joined = ".".join(namespace)
        tables = [row for row in self.rows.of(joined) if not row.is_view]
        if not tables and not any(
            each == joined or each.startswith(f"{joined}.") for each in self.rows.namespaces()
        ):
            raise self._no_namespace(namespace)
        yield from (TableName(namespace, row.name) for row in tables)

    def table(self, name: TableName) -> TableInCatalog:
        shown = dotted_name((self.access.settings.name, *name.namespace, name.name))
        return behind_pointer(self.access, self.store, SqlPointer(self, name), shown)

    def places(self) -> Iterator[TablePlace]:
        """Yield where every table has its files, by its metadata file. Raises: StorageError."""
        tables = [row for row in self.rows.all() if not row.is_view and row.metadata_location]
        with ThreadPoolExecutor(self.access.storage.concurrency) as pool:
            for of_one in pool.map(self._places, tables):
                yield from of_one

    def _places(self, row: Row) -> Sequence[TablePlace]:
        """Return where a table lies.

        Where its metadata cannot be read, where it would usually be.
        """
        assert row.metadata_location is not None
        name = TableName(tuple(row.namespace.split(".")), row.name)
        try:
            metadata = read_file(self.store, row.metadata_location, to_show=True)
        except (FileNotFoundError, CorruptTable, Unsupported):
            return [TablePlace(name, row.metadata_location.rpartition("/metadata/")[0])]
        return list(places(name, metadata.location, metadata.properties))

    def not_found(self, name: TableName) -> TableNotFound:
        """Return the error for a table that is not there, with names that are near."""
        joined = ".".join(name.namespace)
        beside = [row.name for row in self.rows.of(joined)]
        if not beside:
            return self._no_namespace(name.namespace)
        return no_table(self.access.settings.name, name, beside)

    def _no_namespace(self, namespace: tuple[str, ...]) -> TableNotFound:
        known = self.rows.namespaces()
        return no_namespace(self.access.settings.name, namespace, known) if known else self._empty()

    def _empty(self) -> TableNotFound:
        """Return the error where no row has the catalog's name."""
        catalog, others = self.access.settings.name, list(self.rows.catalogs())
        listed = ", ".join(f"`{each}`" for each in others[:5])
        return TableNotFound(
            f"the database {self.rows.database.shown} has no tables of a catalog `{catalog}`",
            hint=f"it has tables of {listed}: name the catalog exactly so (case-sensitive)"
            if others
            else "no catalog has tables there yet",
        )


@dataclass(frozen=True, slots=True)
class SqlPointer:
    """The row of one table."""

    warehouse: SqlWarehouse
    name: TableName

    def read(self) -> PointerState:
        """Ask for the row. Raises: TableNotFound; StorageError."""
        row = self.warehouse.rows.one(".".join(self.name.namespace), self.name.name)
        if row is None:
            raise self.warehouse.not_found(self.name)
        if row.is_view or not row.metadata_location:
            raise TableNotFound(
                f"`{self.name}` in catalog `{self.warehouse.access.settings.name}` is a view"
                if row.is_view
                else f"the row of `{self.name}` in `iceberg_tables` names no metadata file"
            )
        return PointerState(row.metadata_location, row.previous, row)

    def check_writable(self, pointed: PointerState) -> None:
        """Do nothing: a database that reads is one that may be asked to write."""

    def swap(
        self,
        pointed: PointerState,
        metadata_location: str,
        metadata: TableMetadata,  # noqa: ARG002
    ) -> Conflict | None:
        """Change the row, if it still names the same file. Raises: SwapUncertain; StorageError."""
        assert isinstance(pointed.token, Row)
        if self.warehouse.rows.swap(pointed.token, metadata_location):
            return None
        return Conflict("another writer has changed the table's row in the catalog meanwhile")

    def settle(self, pointed: PointerState) -> bool:
        """Wait for the transaction that may still hold the row. Raises: StorageError."""
        assert isinstance(pointed.token, Row)
        return self.warehouse.rows.wait_for(pointed.token)
