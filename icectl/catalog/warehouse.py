"""What one configured catalog offers: its namespaces, its tables, and each table's own catalog."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from icectl.catalog.configured import CatalogSettings
from icectl.catalog.identifier import TableName
from icectl.catalog.protocol import Catalog
from icectl.env import Deadline, Env, SystemEnv
from icectl.format.file_names import named_folders
from icectl.storage.open import StorageOptions
from icectl.storage.store import Store


@dataclass(frozen=True, slots=True)
class CatalogAccess:
    """What a catalog is reached with.

    `storage` is what the user gave for storage, which wins over what the catalog says of it. `warn`
    takes what the user should know; `hide` takes secrets that came to light later. No answer is
    waited for behind the `deadline`.
    """

    settings: CatalogSettings
    env: Env
    storage: StorageOptions
    warn: Callable[[str], None]
    hide: Callable[[str], None]
    deadline: Deadline = field(default=Deadline(SystemEnv()))


@dataclass(frozen=True, slots=True)
class TableInCatalog:
    """One table of a catalog, of which nothing is read yet.

    `store` holds its files; where the catalog hands out credentials with the metadata, it is used
    after `catalog.load()` alone. So is `storage()`: what other processes reach that store with.
    """

    catalog: Catalog
    store: Store
    storage: Callable[[], StorageOptions]


@dataclass(frozen=True, slots=True)
class TablePlace:
    """A folder that files of a table lie in: its location, or one that its properties name.

    Below the latter (`is_named`) files are in folders of partitions or hashes alone.
    """

    table: TableName
    folder: str
    is_named: bool = False


PlacesByCatalog = dict[str, tuple[TablePlace, ...] | None]
"""The places of all tables, by the name of their catalog; None where it does not tell."""


def places(
    table: TableName, location: str | None, properties: Mapping[str, str]
) -> Iterator[TablePlace]:
    """Yield the places of a table (R-161)."""
    if location is not None:
        yield TablePlace(table, location)
    for folder in named_folders(location or "", properties).values():
        yield TablePlace(table, folder, is_named=True)


class Warehouse(Protocol):
    """One configured catalog. Nothing is connected to before it is asked for something."""

    def namespaces(self, parent: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
        """Yield the namespaces right below one; paged inside.

        Raises: TableNotFound, where `parent` is none; StorageError.
        """

    def tables(self, namespace: tuple[str, ...]) -> Iterator[TableName]:
        """Yield the tables right in a namespace, views left out; paged inside.

        Raises: TableNotFound, where there is no such namespace; StorageError.
        """

    def table(self, name: TableName) -> TableInCatalog:
        """Return one table; whether it exists is seen when it is loaded."""

    def places(self) -> Iterator[TablePlace] | None:
        """Yield where every table of the catalog has its files; None where that cannot be asked.

        Raises: StorageError, while it is read too.
        """


def open_warehouse(access: CatalogAccess) -> Warehouse:
    """Return a configured catalog, and import only the module of its kind, with its library.

    Raises: UsageError; Unsupported, for a library that is not installed.
    """
    match access.settings.kind:
        case "sql":
            from icectl.catalog import sql

            return sql.connect(access)
        case "rest":
            from icectl.catalog.rest import warehouse as rest

            return rest.connect(access)
        case "glue":
            from icectl.catalog import glue

            return glue.connect(access)
        case _:
            from icectl.catalog.hive import warehouse as hive

            return hive.connect(access)
