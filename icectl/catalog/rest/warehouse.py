"""A catalog behind a REST server: its namespaces, and its tables."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from icectl.catalog.identifier import TableName
from icectl.catalog.rest import addresses
from icectl.catalog.rest.client import Client, NotThereError
from icectl.catalog.rest.served import ServedTable, no_namespace
from icectl.catalog.rest.table import RestTable
from icectl.catalog.rest.vended import Vended
from icectl.catalog.warehouse import Means, Place, TableInCatalog, places
from icectl.errors import TableNotFound
from icectl.storage.open import open_store


@dataclass(frozen=True, slots=True)
class RestWarehouse:
    """One catalog of a REST server."""

    means: Means
    client: Client

    def namespaces(self, parent: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
        """Yield the namespaces right below one.

        Raises: TableNotFound, where `parent` is none; Unsupported; StorageError.
        """
        try:
            yield from self.client.namespaces(parent)
        except NotThereError as error:
            raise no_namespace(self.client, parent) from error

    def tables(self, namespace: tuple[str, ...]) -> Iterator[TableName]:
        """Yield the tables right in a namespace.

        Raises: TableNotFound, where there is no such namespace; Unsupported; StorageError.
        """
        self.client.check_offers(addresses.TABLES, "listing tables")
        path = self.client.config.addresses.tables(namespace)
        try:
            for found in self.client.pages(path, {}, "identifiers"):
                if not isinstance(found, dict) or not isinstance(found.get("name"), str):
                    raise self.client.nameless(path)
                yield TableName(namespace, found["name"])
        except NotThereError as error:
            raise no_namespace(self.client, namespace) from error

    def table(self, name: TableName) -> TableInCatalog:
        """Return one table; whether it exists is seen when it is loaded."""
        means = self.means
        vended = Vended(self.client, name.namespace, name.name, means.storage, means.hide)
        storage = replace(means.storage, renewed=vended)
        store = open_store(storage, means.env)
        served = ServedTable(self.client, name.namespace, name.name, vended, store.read, means.warn)
        return TableInCatalog(RestTable(served), store, lambda: storage)

    def places(self) -> Iterator[Place] | None:
        """Yield where every table of the catalog has its files; each is asked for by itself.

        None where the server does not list its tables. Raises: StorageError, while it is read too.
        """
        needed = (addresses.NAMESPACES, addresses.TABLES, addresses.LOAD_TABLE)
        if not all(self.client.offers(endpoint) for endpoint in needed):
            return None
        return self._places_below(())

    def _places_below(self, parent: tuple[str, ...]) -> Iterator[Place]:
        for namespace in self.namespaces(parent):
            for name in self.tables(namespace):
                path = self.client.config.addresses.table(name.namespace, name.name)
                try:
                    found = self.client.get(path, {"snapshots": "refs"})
                except NotThereError:  # it is gone, or not of Iceberg
                    continue
                yield from _places(name, found)
            try:
                yield from self._places_below(namespace)
            except TableNotFound:  # there is nothing below
                continue


def connect(means: Means) -> RestWarehouse:
    """Return the catalog that settings name; nothing is asked yet."""
    settings = means.settings
    return RestWarehouse(means, Client(settings.name, settings.properties, means.env))


def _places(name: TableName, answer: Mapping[str, Any]) -> Iterator[Place]:
    """Yield the places that the answer to a load tells; anywhere, where it tells none."""
    metadata = answer.get("metadata")
    members = metadata if isinstance(metadata, dict) else {}
    location, properties = members.get("location"), members.get("properties")
    told = properties if isinstance(properties, dict) else {}
    yield from places(
        name,
        location if isinstance(location, str) else "",
        {key: value for key, value in told.items() if isinstance(value, str)},
    )
