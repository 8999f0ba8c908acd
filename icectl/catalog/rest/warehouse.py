"""A catalog behind a REST server: its namespaces, and its tables."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from icectl.catalog.file_io import with_file_io
from icectl.catalog.identifier import TableName
from icectl.catalog.metadata_files import check_metadata_folder
from icectl.catalog.protocol import (
    CatalogAccess,
    CommitOutcome,
    Committed,
    LoadedTable,
    TableInCatalog,
    TablePlace,
    places,
)
from icectl.catalog.rest import wire
from icectl.catalog.rest.client import NotThereError, RestClient
from icectl.catalog.rest.commits import RestAttempt, not_shown, removes
from icectl.catalog.rest.served import ServedTable, no_namespace, time_ordered_uuid
from icectl.catalog.rest.vended import Vended
from icectl.catalog.rest.wire import check_updates
from icectl.errors import IcectlError, TableNotFound, Unsupported
from icectl.format.updates import (
    RemovePartitionSpecs,
    RemoveSchemas,
    Requirement,
    Update,
    apply_all,
    requirements_of,
)
from icectl.storage.open import home_of, open_store, set_home
from icectl.storage.store import Store

_LOGGER = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RestTable:
    """A table of a REST catalog; `checked` has the metadata files that its server knows whole."""

    served: ServedTable
    store: Store
    checked: set[str] = field(default_factory=set)

    def load(self, *, to_show: bool = False) -> LoadedTable:
        loaded = self.served.load(to_show=to_show)
        set_home(self.store, loaded.metadata_location)
        return loaded

    def check_writable(self, loaded: LoadedTable) -> None:
        """Do nothing where the server loses nothing by changes. Raises: Unsupported; Refused."""
        self.served.client.check_offers(wire.UPDATE_TABLE, "changing a table")
        loaded.capabilities.check_version(loaded.metadata.format_version)
        check_metadata_folder(self.store, loaded)
        if loaded.metadata_location not in self.checked:
            self._check_shown(loaded)
            self.checked.add(loaded.metadata_location)

    def settle(self) -> None:
        """Do nothing: the server lets commits in one by one."""

    def commit(
        self, base: LoadedTable, requirements: Sequence[Requirement], updates: Sequence[Update]
    ) -> CommitOutcome:
        """As Catalog; schemas and specs that removed snapshots used go in a second commit.

        The first may have to put a snapshot back, and servers put no spec back under its id.
        """
        check_updates(updates)
        self.check_writable(base)
        later = [item for item in updates if isinstance(item, RemoveSchemas | RemovePartitionSpecs)]
        if not later or not removes(updates):
            return self._sent(base, requirements, updates)
        first = [item for item in updates if item not in later]
        outcome = self._sent(base, requirements, first)
        if not isinstance(outcome, Committed):
            return outcome
        expected = apply_all(base.metadata, first).snapshots_by_id
        if outcome.table.metadata.snapshots_by_id.keys() <= expected.keys():
            with suppress(IcectlError):  # the first has landed
                required = requirements_of(outcome.table.metadata, later)
                last = self._sent(outcome.table, required, later)
                if isinstance(last, Committed):
                    return last
        self.served.warn("unused schemas and partition specs stay: another writer may need them")
        return outcome

    def _sent(
        self, base: LoadedTable, requirements: Sequence[Requirement], updates: Sequence[Update]
    ) -> CommitOutcome:
        key = time_ordered_uuid(self.served.client.env)
        return RestAttempt(self.served, base, requirements, updates, key).outcome()

    def _check_shown(self, loaded: LoadedTable) -> None:
        """Raises: Unsupported, where the server's commits would lose what the table has."""
        try:
            stored = self.served.stored(loaded.metadata_location)
        except (OSError, IcectlError):
            _LOGGER.debug("cannot compare with %s", loaded.metadata_location, exc_info=True)
            return
        lost = not_shown(stored, loaded.metadata)
        if lost:
            raise Unsupported(
                f"the server does not support parts of the metadata of {self.served.shown} "
                f"({', '.join(lost[:5])}), and any commit would drop them",
                hint="use a server that preserves this field; or remove it with the engine that "
                "wrote it",
            )


@dataclass(frozen=True, slots=True)
class RestWarehouse:
    """One catalog of a REST server."""

    access: CatalogAccess
    client: RestClient

    def namespaces(self, parent: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
        try:
            yield from self.client.namespaces(parent)
        except NotThereError as error:
            raise no_namespace(self.client, parent) from error

    def tables(self, namespace: tuple[str, ...]) -> Iterator[TableName]:
        self.client.check_offers(wire.TABLES, "listing tables")
        path = self.client.config.addresses.tables(namespace)
        try:
            for item in self.client.pages(path, {}, "identifiers"):
                if not isinstance(item, dict) or not isinstance(item.get("name"), str):
                    raise self.client.nameless(path)
                yield TableName(namespace, item["name"])
        except NotThereError as error:
            raise no_namespace(self.client, namespace) from error

    def table(self, name: TableName) -> TableInCatalog:
        access = self.access
        vended = Vended(self.client, name.namespace, name.name, access.storage, access.hide)
        configured = with_file_io(access.storage, access.settings.properties)
        storage = replace(configured, renewed=vended)
        store = open_store(storage, access.env, access.deadline)
        served = ServedTable(
            self.client, name.namespace, name.name, vended, store.read, access.warn
        )
        return TableInCatalog(
            name, RestTable(served, store), store, lambda: replace(storage, home=home_of(store))
        )

    def places(self) -> Iterator[TablePlace] | None:
        """Ask for each table by itself; None where the server does not list its tables."""
        needed = (wire.NAMESPACES, wire.TABLES, wire.LOAD_TABLE)
        if not all(self.client.offers(endpoint) for endpoint in needed):
            return None
        return self._places_below(())

    def _places_below(self, parent: tuple[str, ...]) -> Iterator[TablePlace]:
        for namespace in self.namespaces(parent):
            for name in self.tables(namespace):
                path = self.client.config.addresses.table(name.namespace, name.name)
                try:
                    answer = self.client.get(path, {"snapshots": "refs"})
                except NotThereError:  # it is gone, or not of Iceberg
                    continue
                metadata = answer.get("metadata")
                members = metadata if isinstance(metadata, dict) else {}
                location, properties = members.get("location"), members.get("properties")
                texts = properties if isinstance(properties, dict) else {}
                yield from places(
                    name,
                    location if isinstance(location, str) else "",  # it may be anywhere
                    {key: value for key, value in texts.items() if isinstance(value, str)},
                )
            try:
                yield from self._places_below(namespace)
            except TableNotFound:  # there is nothing below
                continue


def connect(access: CatalogAccess) -> RestWarehouse:
    """Return the catalog that settings name; nothing is asked yet."""
    settings = access.settings
    client = RestClient(
        settings.name, settings.properties, access.env, access.deadline, access.hide
    )
    return RestWarehouse(access, client)
