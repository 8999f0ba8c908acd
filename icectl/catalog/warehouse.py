"""What one configured catalog offers: its namespaces, its tables, and each table's own catalog."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Protocol, cast

from icectl.catalog.configured import CatalogSettings
from icectl.catalog.identifier import TableName
from icectl.catalog.protocol import Catalog
from icectl.env import Env
from icectl.storage.open import StorageOptions
from icectl.storage.store import Store


@dataclass(frozen=True, slots=True)
class Means:
    """What a catalog is reached with.

    `storage` is what the user gave for storage, which wins over what the catalog says of it. `warn`
    takes what the user should know; `hide` takes secrets that came to light later.
    """

    settings: CatalogSettings
    env: Env
    storage: StorageOptions
    warn: Callable[[str], None]
    hide: Callable[[str], None]


@dataclass(frozen=True, slots=True)
class TableInCatalog:
    """One table of a catalog, of which nothing is read yet.

    `store` holds its files; where the catalog hands out credentials with the metadata, it is used
    after `catalog.load()` alone. So is `storage()`: what other processes reach that store with.
    """

    catalog: Catalog
    store: Store
    storage: Callable[[], StorageOptions]


class Warehouse(Protocol):
    """One configured catalog. Nothing is connected to before it is asked for something."""

    def namespaces(self, parent: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
        """The namespaces right below one; paged inside.

        Raises: TableNotFound, where `parent` is none; StorageError.
        """

    def tables(self, namespace: tuple[str, ...]) -> Iterator[TableName]:
        """The tables right in a namespace, views left out; paged inside.

        Raises: TableNotFound, where there is no such namespace; StorageError.
        """

    def table(self, name: TableName) -> TableInCatalog:
        """One table; whether it exists is seen when it is loaded."""

    def locations(self) -> Iterator[tuple[TableName, str]] | None:
        """Every table of the catalog with its location; None where that cannot be asked.

        Raises: StorageError, while it is read too.
        """


_MODULES: Mapping[str, str] = {
    "sql": "icectl.catalog.sql",
    "rest": "icectl.catalog.rest.warehouse",
    "glue": "icectl.catalog.glue.warehouse",
    "hive": "icectl.catalog.hive.warehouse",
}


def open_warehouse(means: Means) -> Warehouse:
    """A configured catalog, by the module of its kind, which is imported for it alone.

    Each of them has a function `connect(means) -> Warehouse`. Raises: UsageError; Unsupported, for
    a library that is not installed.
    """
    module = import_module(_MODULES[means.settings.kind])
    return cast(Warehouse, module.connect(means))
