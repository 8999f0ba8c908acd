"""Databases and tables of AWS Glue, and the entry that points to a table's metadata."""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from icectl.catalog.file_io import with_file_io
from icectl.catalog.glue.service import (
    COMMIT_SECONDS,
    Glue,
    GlueAnswerLost,
    GlueRejection,
    glue_of,
)
from icectl.catalog.identifier import (
    TableName,
    dotted_name,
    no_iceberg_table,
    no_namespace,
    no_table,
)
from icectl.catalog.pointer import PointerState, SwapUncertain, told_locations
from icectl.catalog.protocol import Conflict
from icectl.catalog.warehouse import (
    CatalogAccess,
    TableInCatalog,
    TablePlace,
    behind_pointer,
    places,
)
from icectl.errors import IcectlError, Refused, StorageError, TableNotFound
from icectl.format.metadata import TableMetadata
from icectl.storage.open import open_store
from icectl.storage.store import Store

_LOGGER = logging.getLogger(__name__)
_S3_TABLES = "s3tables"
_WORK = {"retention": "retention", "orphan_file_deletion": "orphan file deletion"}
"""Optimizers that expire snapshots and delete files, which is what two must not do at once."""


def keeper_of(service: Glue, table: Mapping[str, Any]) -> str | None:
    """Who expires snapshots or deletes files of a table in the place of clients; None: nobody.

    Nobody too where Glue doesn't say, as to users that may not ask it.
    """
    catalog_id = str(service.catalog_id or table.get("CatalogId") or "")
    connection = str((table.get("FederatedTable") or {}).get("ConnectionName", ""))
    if _S3_TABLES in catalog_id or _S3_TABLES in connection:
        return "the maintenance of S3 Tables"
    if not catalog_id:
        return None
    named = {"catalogId": catalog_id, "databaseName": table["DatabaseName"]}
    request = {
        "Entries": [{**named, "tableName": table["Name"], "type": kind} for kind in _WORK],
    }
    try:
        answer = service.send("BatchGetTableOptimizer", request)
    except (GlueAnswerLost, GlueRejection, StorageError):
        _LOGGER.debug("Glue does not tell which optimizers are enabled", exc_info=True)
        return None
    enabled = sorted(_enabled(answer))
    if not enabled:
        return None
    return f"AWS Glue's table optimizers, of which {' and '.join(enabled)} is enabled"


def _enabled(answer: Mapping[str, Any]) -> set[str]:
    """Return the work of those optimizers that are switched on."""
    found = set()
    for entry in answer.get("TableOptimizers") or ():
        optimizer = entry.get("tableOptimizer") or {}
        is_enabled = (optimizer.get("configuration") or {}).get("enabled")
        if is_enabled and optimizer.get("type") in _WORK:
            found.add(_WORK[optimizer["type"]])
    return found


METADATA_LOCATION = "metadata_location"
PREVIOUS = "previous_metadata_location"
_NOT_FOUND = "EntityNotFoundException"
_CHANGED = "ConcurrentModificationException"
_RESENDS = 3
_PAUSE_SECONDS = 0.5

_INPUT = (
    "Name",
    "Description",
    "Owner",
    "LastAccessTime",
    "LastAnalyzedTime",
    "Retention",
    "StorageDescriptor",
    "PartitionKeys",
    "ViewOriginalText",
    "ViewExpandedText",
    "TableType",
    "Parameters",
    "TargetTable",
    "FederatedTable",
)
"""The members of a table that Glue takes back; the others are its own to tell."""


def connect(means: CatalogAccess) -> "GlueWarehouse":
    """Return the catalog in AWS Glue. Raises: UsageError; StorageError, without credentials."""
    settings = means.settings
    storage = with_file_io(means.storage, settings.properties)
    service = glue_of(settings.name, settings.properties, means.env, means.deadline)
    return GlueWarehouse(means, service, open_store(storage, means.env, means.deadline))


@dataclass(frozen=True, slots=True)
class GlueWarehouse:
    """The databases of one Glue catalog."""

    means: CatalogAccess
    service: Glue
    store: Store

    def namespaces(self, parent: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
        """Yield the databases; there is nothing below one. Raises: TableNotFound; StorageError."""
        if parent:
            if len(parent) > 1 or parent[0].lower() not in self._databases():
                raise no_namespace(self.means.settings.name, parent, self._databases())
            return
        for name in self._databases():
            yield (name,)

    def tables(self, namespace: tuple[str, ...]) -> Iterator[TableName]:
        """Yield the Iceberg tables of a database. Raises: TableNotFound; StorageError."""
        for table in self._tables(namespace):
            if _iceberg_type(table) == "iceberg":
                yield TableName(namespace, table["Name"])

    def table(self, name: TableName) -> TableInCatalog:
        """Return one table."""
        settings = self.means.settings
        shown = dotted_name((settings.name, *name.namespace, name.name))
        return behind_pointer(self.means, self.store, GluePointer(self, name), shown)

    def places(self) -> Iterator[TablePlace]:
        """Yield every table, those of other formats too, with its location.

        Raises: StorageError.
        """
        for database in self._databases():
            for table in self._tables((database,)):
                location = (table.get("StorageDescriptor") or {}).get("Location")
                parameters = table.get("Parameters") or {}
                if not _is_view(table):
                    name = TableName((database,), table["Name"])
                    for one in told_locations(location, parameters):
                        yield from places(name, one, parameters)

    def not_found(self, name: TableName) -> TableNotFound:
        """Return the error for a table that is not there. Raises: StorageError; TableNotFound."""
        beside = [table["Name"] for table in self._tables(name.namespace)]
        return no_table(self.means.settings.name, name, beside)

    def _databases(self) -> list[str]:
        try:
            found = list(self.service.pages("GetDatabases", "DatabaseList", {}))
        except GlueRejection as error:
            raise self.service.failure(error, "list databases") from error
        return [database["Name"] for database in found]

    def _tables(self, namespace: tuple[str, ...]) -> Iterator[Mapping[str, Any]]:
        catalog = self.means.settings.name
        if len(namespace) != 1:
            raise no_namespace(catalog, namespace, self._databases())
        request = {"DatabaseName": namespace[0]}
        try:
            yield from self.service.pages("GetTables", "TableList", request)
        except GlueRejection as error:
            if error.code == _NOT_FOUND:
                raise no_namespace(catalog, namespace, self._databases()) from error
            doing = f"list the tables of `{dotted_name(namespace)}`"
            raise self.service.failure(error, doing) from error


@dataclass(slots=True)
class GluePointer:
    """The parameter `metadata_location` of one table, and the version of its entry.

    `is_settled` says whether the last swap that ended in SwapUncertain can come no more; `keepers`
    holds who maintains the table in the place of clients, once Glue was asked.
    """

    warehouse: GlueWarehouse
    name: TableName
    is_settled: bool = False
    keepers: list[str | None] = field(default_factory=list)

    def read(self) -> PointerState:
        """Ask for the table. Raises: TableNotFound; StorageError."""
        catalog = self.warehouse.means.settings.name
        table = self._table()
        if _is_view(table):
            raise no_iceberg_table(catalog, self.name, "a view")
        target = table.get("TargetTable")
        parameters = table.get("Parameters") or {}
        if target and METADATA_LOCATION not in parameters:
            raise no_iceberg_table(catalog, self.name, _link(target))
        if _iceberg_type(table) != "iceberg":
            raise no_iceberg_table(catalog, self.name, "a table of another format")
        if not parameters.get(METADATA_LOCATION):
            raise TableNotFound(
                f"AWS Glue names no metadata file of `{self.name}`: it has no parameter "
                f"`{METADATA_LOCATION}`"
            )
        return PointerState(
            parameters[METADATA_LOCATION],
            parameters.get(PREVIOUS),
            table,
            parameters,
            self._keeper(table),
        )

    def check_writable(self, pointed: PointerState) -> None:
        """Raises: Refused, where Glue tells no version of the entry."""
        assert isinstance(pointed.token, dict)
        if not pointed.token.get("VersionId"):
            raise Refused(
                f"what answers at {self.warehouse.service.endpoint} tells no version of "
                f"`{self.name}`, so commits of others could be overwritten",
                hint="commit with an engine, through AWS Glue itself",
            )

    def swap(
        self,
        pointed: PointerState,
        metadata_location: str,
        metadata: TableMetadata,  # noqa: ARG002
    ) -> Conflict | None:
        """Update the table, if it has the version that was read; again after a lost answer.

        Of the requests with one version Glue carries out one. Raises: SwapUncertain; StorageError.
        """
        self.is_settled = False
        request = self._request(pointed, metadata_location)
        lost: str | None = None
        for number in range(1 + _RESENDS):
            try:
                self.warehouse.service.send("UpdateTable", request, COMMIT_SECONDS)
            except GlueAnswerLost as error:
                lost = error.reason
            except GlueRejection as error:
                return self._rejected(error, lost)
            except StorageError:
                if lost is None:
                    raise
            else:
                return None
            self.warehouse.means.env.sleep(_PAUSE_SECONDS * 2**number)
        assert lost is not None
        raise SwapUncertain(lost)

    def settle(self, pointed: PointerState) -> bool:  # noqa: ARG002
        """Return whether Glue has said that the version which was to be changed is no more."""
        return self.is_settled

    def _keeper(self, table: Mapping[str, Any]) -> str | None:
        if not self.keepers:
            self.keepers.append(keeper_of(self.warehouse.service, table))
        return self.keepers[0]

    def _rejected(self, error: GlueRejection, lost: str | None) -> Conflict:
        """Return the conflict that Glue tells of.

        Raises: StorageError; SwapUncertain, after a lost answer.
        """
        if error.code == _CHANGED and lost is None:
            return Conflict("another writer has changed the table in AWS Glue meanwhile")
        if lost is not None:  # the version may be gone because the first request was carried out
            self.is_settled = error.code == _CHANGED
            raise SwapUncertain(lost) from error
        raise self._failure(error) from error

    def _failure(self, error: GlueRejection) -> IcectlError:
        if error.code == _NOT_FOUND:
            return TableNotFound(f"`{self.name}` is no longer in AWS Glue")
        if error.code == "ResourceNumberLimitExceededException":
            return StorageError(
                f"AWS Glue keeps no more versions of `{self.name}`: {error.message}",
                hint="`glue.skip-archive=true` in the catalog's configuration keeps no old ones; "
                "`aws glue batch-delete-table-version` deletes those there are",
            )
        return self.warehouse.service.failure(error, f"change `{self.name}`")

    def _table(self) -> Mapping[str, Any]:
        if len(self.name.namespace) != 1:
            raise self.warehouse.not_found(self.name)
        request = {"DatabaseName": self.name.namespace[0], "Name": self.name.name}
        try:
            found = self.warehouse.service.ask("GetTable", request)
        except GlueRejection as error:
            if error.code == _NOT_FOUND:
                raise self.warehouse.not_found(self.name) from error
            raise self.warehouse.service.failure(error, f"read `{self.name}`") from error
        table = found.get("Table")
        if not isinstance(table, dict) or "DatabaseName" not in table:
            endpoint = self.warehouse.service.endpoint
            raise StorageError(f"what answers at {endpoint} is not AWS Glue: it sent no table")
        return table

    def _request(self, pointed: PointerState, target: str) -> Mapping[str, Any]:
        """Return the request that changes the pointer and nothing else of the table."""
        assert isinstance(pointed.token, dict)
        kept = {name: pointed.token[name] for name in _INPUT if name in pointed.token}
        properties = self.warehouse.means.settings.properties
        return {
            "DatabaseName": self.name.namespace[0],
            "TableInput": {
                **kept,
                "Parameters": {
                    **pointed.parameters,
                    METADATA_LOCATION: target,
                    PREVIOUS: pointed.metadata_location,
                },
            },
            "SkipArchive": properties.get("glue.skip-archive", "true").lower() == "true",
            "VersionId": pointed.token["VersionId"],
        }


def _iceberg_type(table: Mapping[str, Any]) -> str:
    return str((table.get("Parameters") or {}).get("table_type", "")).lower()


def _is_view(table: Mapping[str, Any]) -> bool:
    return "VIEW" in str(table.get("TableType", "")).upper() or "view" in _iceberg_type(table)


def _link(target: Mapping[str, Any]) -> str:
    place = f"{target.get('DatabaseName')}.{target.get('Name')}"
    return f"a link to `{place}` of account {target.get('CatalogId')} (set `glue.id` to that)"
