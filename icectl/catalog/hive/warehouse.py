"""Databases and tables of a Hive metastore, and the entry that points to a table's metadata."""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

from icectl.catalog.file_io import with_file_io
from icectl.catalog.hive import calls
from icectl.catalog.hive.calls import HiveTable, ServerException, one_line
from icectl.catalog.hive.connection import Connection, HiveAnswerLost, Servers, servers_of
from icectl.catalog.hive.lock import Locker, TableLock, locker_of
from icectl.catalog.hive.thrift import CallRefused
from icectl.catalog.identifier import (
    TableName,
    dotted_name,
    no_iceberg_table,
    no_namespace,
    no_table,
)
from icectl.catalog.pointer import PointerState, SwapUncertain, behind_pointer, entry_locations
from icectl.catalog.protocol import Conflict
from icectl.catalog.warehouse import (
    CatalogAccess,
    TableInCatalog,
    TablePlace,
    places,
)
from icectl.errors import CommitConflict, Refused, StorageError, TableNotFound, Unsupported
from icectl.format.metadata import TableMetadata
from icectl.format.snapshot import Snapshot
from icectl.storage.open import open_store
from icectl.storage.store import Store
from icectl.units import read_count

METADATA_LOCATION = "metadata_location"
PREVIOUS = "previous_metadata_location"
METADATA_HASH = "metadata_hash"

_SNAPSHOT_ID = "current-snapshot-id"
_SNAPSHOT_TIME = "current-snapshot-timestamp-ms"
_SNAPSHOT_SUMMARY = "current-snapshot-summary"
_SNAPSHOT_COUNT = "snapshot-count"
_OF_SNAPSHOT = (_SNAPSHOT_ID, _SNAPSHOT_TIME, _SNAPSHOT_SUMMARY)
_COUNTS = {
    "numFiles": "total-data-files",
    "numRows": "total-records",
    "totalSize": "total-files-size",
}
_MOST_CHARACTERS = "iceberg.hive.table-property-max-size"
_DEFAULT_MOST = 32672
_KEEP_STATS = "iceberg.hive.keep.stats"


def next_parameters(
    parameters: Mapping[str, str],
    target: str,
    metadata: TableMetadata,
    catalog: Mapping[str, str],
) -> dict[str, str]:
    """Return the parameters of a table once `target` is its metadata file, which holds `metadata`.

    `catalog` are the catalog's properties.
    """
    changed = {**parameters, METADATA_LOCATION: target, PREVIOUS: parameters[METADATA_LOCATION]}
    if catalog.get(_KEEP_STATS, "").lower() != "true":
        changed.pop("COLUMN_STATS_ACCURATE", None)
        changed["DO_NOT_UPDATE_STATS"] = "true"
    snapshot = metadata.current_snapshot
    summary = snapshot.summary if snapshot is not None and snapshot.summary is not None else {}
    for key, counted in _COUNTS.items():
        if key in parameters and counted in summary:
            changed[key] = summary[counted]
    if parameters.keys() & {_SNAPSHOT_COUNT, *_OF_SNAPSHOT}:
        for key in _OF_SNAPSHOT:
            changed.pop(key, None)
        changed |= _of_snapshot(snapshot, _limit(catalog))
        changed[_SNAPSHOT_COUNT] = str(len(metadata.snapshots))
    return changed


def _of_snapshot(snapshot: Snapshot | None, limit: int) -> Mapping[str, str]:
    """Return what is said of the current snapshot.

    A summary too long for the metastore is left out.
    """
    if snapshot is None or limit <= 0:
        return {}
    parameters = {
        _SNAPSHOT_ID: str(snapshot.snapshot_id),
        _SNAPSHOT_TIME: str(snapshot.timestamp_ms),
    }
    summary = {key: item for key, item in (snapshot.summary or {}).items() if key != "operation"}
    text = json.dumps(summary, ensure_ascii=False, separators=(",", ":"))
    if len(text) <= limit:
        parameters[_SNAPSHOT_SUMMARY] = text
    return parameters


def _limit(catalog: Mapping[str, str]) -> int:
    characters = read_count(catalog.get(_MOST_CHARACTERS))
    return _DEFAULT_MOST if characters is None else characters


_LOCK_KEY = "engine.hive.lock-enabled"
_COMPARES_KEY = "hive.compares-parameters"
_COMPARING = re.compile(r"(?!4\.0\.0-alpha)([4-9]|\d\d)\..*")
_VIEWS = frozenset({"VIRTUAL_VIEW", "MATERIALIZED_VIEW"})
_RESENDS = 2
_MODIFIED = "The table has been modified"
_LOOK_SECONDS = (0.0, 0.5, 1.5)
"""Before each look at a table whose change was sent and not answered."""


def connect(access: CatalogAccess) -> "HiveWarehouse":
    """Return the catalog in a Hive metastore. Raises: UsageError; Unsupported."""
    settings = access.settings
    storage = with_file_io(access.storage, settings.properties)
    servers = servers_of(settings.name, settings.properties, access.deadline)
    return HiveWarehouse(access, servers, open_store(storage, access.env, access.deadline))


@dataclass(frozen=True, slots=True)
class HiveWarehouse:
    """The databases of one metastore; each question has a connection of its own."""

    access: CatalogAccess
    servers: Servers
    store: Store

    def namespaces(self, parent: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
        """Yield the databases; there is nothing below one. Raises: TableNotFound; StorageError."""
        with self.servers.connected() as connection:
            known = calls.databases(connection)
        if parent and parent not in {(name,) for name in known}:
            raise no_namespace(self.access.settings.name, parent, known)
        yield from () if parent else ((name,) for name in known)

    def tables(self, namespace: tuple[str, ...]) -> Iterator[TableName]:
        """Yield the Iceberg tables of a database. Raises: TableNotFound; StorageError."""
        with self.servers.connected() as connection:
            self._check_database(connection, namespace)
            for table in calls.tables(connection, namespace[0]):
                if table.iceberg_type == "iceberg":
                    yield TableName(namespace, table.name)

    def table(self, name: TableName) -> TableInCatalog:
        """Return one table; the metastore has all names in lower case."""
        name = TableName(tuple(part.lower() for part in name.namespace), name.name.lower())
        settings = self.access.settings
        shown = dotted_name((settings.name, *name.namespace, name.name))
        return behind_pointer(self.access, self.store, HivePointer(self, name), shown)

    def places(self) -> Iterator[TablePlace]:
        """Yield every table, Hive's own too, with its location: all their files are somebody's.

        Raises: StorageError.
        """
        with self.servers.connected() as connection:
            for database in calls.databases(connection):
                for table in calls.tables(connection, database):
                    if table.table_type not in _VIEWS:
                        name = TableName((database,), table.name)
                        for location in entry_locations(table.location, table.parameters):
                            yield from places(name, location, table.parameters)

    def not_found(self, connection: Connection, name: TableName) -> TableNotFound:
        """Return the error for a table that is not there. Raises: StorageError; TableNotFound."""
        self._check_database(connection, name.namespace)
        beside = calls.table_names(connection, name.namespace[0])
        return no_table(self.access.settings.name, name, beside)

    def _check_database(self, connection: Connection, namespace: tuple[str, ...]) -> None:
        known = calls.databases(connection)
        if tuple(part.lower() for part in namespace) not in {(name,) for name in known}:
            raise no_namespace(self.access.settings.name, namespace, known)


@dataclass(slots=True)
class HivePointer:
    """The parameter `metadata_location` of one table.

    `is_settled` says whether the server has answered the last swap that ended in SwapUncertain.
    """

    warehouse: HiveWarehouse
    name: TableName
    is_settled: bool = False

    def read(self) -> PointerState:
        """Ask for the table. Raises: TableNotFound; StorageError."""
        with self._servers.connected() as connection:
            return self._pointed(connection)

    def check_writable(self, pointed: PointerState) -> None:
        """Raises: Unsupported, for a table whose metadata has a hash that nobody else can make."""
        if METADATA_HASH in pointed.parameters:
            raise Unsupported(
                f"the metastore keeps a hash of the metadata of `{self.name}`, an encrypted table, "
                "which icectl cannot compute",
                hint="maintain the table with the engine that writes it",
            )

    def swap(
        self, pointed: PointerState, metadata_location: str, metadata: TableMetadata
    ) -> Conflict | None:
        """Alter the table under its lock, or without one on a server that compares the pointer.

        Raises: SwapUncertain; CommitConflict, where the lock cannot be had; Refused; StorageError.
        """
        self.is_settled = False
        with self._servers.connected() as connection:
            if self._wants_lock(metadata):
                with self._locker.locked(connection) as lock:
                    change = self._change(connection, pointed, metadata_location, metadata)
                    if isinstance(change, _Change):
                        self._alter(connection, change, lock)
            else:
                self._check_compares(connection)
                change = self._change(connection, pointed, metadata_location, metadata)
                if isinstance(change, _Change):
                    self._compare_and_alter(connection, change)
        return change if isinstance(change, Conflict) else None

    def settle(self, pointed: PointerState) -> bool:  # noqa: ARG002
        """Return whether the server has answered: then it has done what it will ever do."""
        return self.is_settled

    @property
    def _servers(self) -> Servers:
        return self.warehouse.servers

    @property
    def _properties(self) -> Mapping[str, str]:
        return self.warehouse.access.settings.properties

    @property
    def _locker(self) -> Locker:
        access = self.warehouse.access
        named = self.name.namespace[0], self.name.name
        return locker_of(self._servers, access.env, named, self._properties)

    def _pointed(self, connection: Connection) -> PointerState:
        catalog = self.warehouse.access.settings.name
        pointed = None
        if len(self.name.namespace) == 1:
            pointed = calls.get_table(connection, self.name.namespace[0], self.name.name)
        if pointed is None:
            raise self.warehouse.not_found(connection, self.name)
        if pointed.table_type in _VIEWS:
            raise no_iceberg_table(catalog, self.name, "a view")
        parameters = pointed.parameters
        if pointed.iceberg_type != "iceberg":
            raise no_iceberg_table(catalog, self.name, "a table of Hive's own")
        if not parameters.get(METADATA_LOCATION):
            raise TableNotFound(
                f"the metastore names no metadata file of `{self.name}`: it has no parameter "
                f"`{METADATA_LOCATION}`"
            )
        return PointerState(
            parameters[METADATA_LOCATION], parameters.get(PREVIOUS), pointed, parameters
        )

    def _wants_lock(self, metadata: TableMetadata) -> bool:
        configured = self._properties.get(f"iceberg.{_LOCK_KEY}", "true")
        return metadata.properties.get(_LOCK_KEY, configured).lower() == "true"

    def _check_compares(self, connection: Connection) -> None:
        """Refuse to go without the lock where the server does not compare the pointer.

        Hive 4 does, and Hive 2.3.10, which tells no version of its own.
        """
        is_said = self._properties.get(_COMPARES_KEY, "").lower() == "true"
        if not is_said and not _COMPARING.match(calls.version(connection)):
            raise Refused(
                f"`{_LOCK_KEY}=false` of `{self.name}` has writers do without the metastore's "
                f"lock, and the metastore at {connection.server} does not compare the pointer: "
                "commits would overwrite each other",
                hint=f"set `{_LOCK_KEY}=true` for all its writers; if the metastore does compare, "
                f"as that of Hive 2.3.10 does, `{_COMPARES_KEY}=true` in the catalog's "
                "configuration says so",
            )

    def _change(
        self, connection: Connection, pointed: PointerState, target: str, metadata: TableMetadata
    ) -> "_Change | Conflict":
        """Return what the table becomes, from what it is now."""
        now = self._pointed(connection)
        if now.metadata_location != pointed.metadata_location:
            return Conflict("another writer has committed to the table in the metastore meanwhile")
        assert isinstance(now.token, HiveTable)
        parameters = next_parameters(now.parameters, target, metadata, self._properties)
        return _Change(now.metadata_location, target, now.token.with_parameters(parameters))

    def _alter(self, connection: Connection, change: "_Change", lock: TableLock) -> None:
        """Send the change once, under the lock, which is left behind where no answer comes.

        Raises: CommitConflict; StorageError; SwapUncertain.
        """
        if not lock.is_held():
            raise CommitConflict(f"the metastore's lock of `{self.name}` was lost")
        try:
            calls.alter_table(connection, change.table)
        except HiveAnswerLost as error:
            lock.kept = True
            self._after_silence(change, error.reason)
            lock.kept = False
        except ServerException as error:
            self._after_refusal(change, one_line(error.reason), None)
        except CallRefused as error:
            raise self._failure(error.reason) from error
        else:
            if not lock.is_held():  # another writer may have changed the table at once
                self.is_settled = True
                raise SwapUncertain("the metastore's lock was lost")

    def _compare_and_alter(self, connection: Connection, change: "_Change") -> None:
        """Send the change, again after a lost answer: of equal ones only one can be carried out.

        Raises: StorageError; SwapUncertain.
        """
        lost: str | None = None
        for number in range(1 + _RESENDS):
            try:
                if number == 0:
                    calls.alter_table(connection, change.table, change.before)
                else:
                    with self._servers.connected() as again:
                        calls.alter_table(again, change.table, change.before)
            except HiveAnswerLost as error:
                lost = error.reason
            except ServerException as error:
                return self._after_refusal(change, one_line(error.reason), lost)
            except (CallRefused, StorageError) as error:
                if lost is None:
                    raise self._failure(str(error)) from error
            else:
                return None
        assert lost is not None
        return self._after_silence(change, lost)

    def _after_refusal(self, change: "_Change", reason: str, lost: str | None) -> None:
        """Return where the change is there nevertheless: servers try again after errors.

        `lost` is why an answer to the same change did not come, if so.
        Raises: StorageError, where it is not; SwapUncertain.
        """
        self.is_settled = lost is None or _MODIFIED in reason
        try:
            location = self.read().metadata_location
        except (StorageError, TableNotFound) as error:
            raise SwapUncertain(reason) from error
        if location == change.target:
            return
        if lost is None and location == change.before:
            raise self._failure(reason)
        raise SwapUncertain(reason)

    def _after_silence(self, change: "_Change", reason: str) -> None:
        """Return where the change is there; looks for a while. Raises: SwapUncertain."""
        for seconds in _LOOK_SECONDS:
            self.warehouse.access.env.sleep(seconds)
            with suppress(StorageError, TableNotFound):
                if self.read().metadata_location == change.target:
                    return
        raise SwapUncertain(reason)

    def _failure(self, reason: str) -> StorageError:
        return StorageError(
            f"the Hive metastore at {self._servers.shown} did not change `{self.name}`: {reason}",
            hint="a metastore with authorization wants the right to alter the table; `ugi` in the "
            "catalog's configuration says who asks, where the metastore takes a client's word",
        )


@dataclass(frozen=True, slots=True)
class _Change:
    """What a table becomes, and its metadata locations before and afterwards."""

    before: str
    target: str
    table: HiveTable
