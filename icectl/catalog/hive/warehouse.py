"""Databases and tables of a Hive metastore, the entry of a table's metadata, and its lock."""

import getpass
import json
import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from icectl.catalog.hive import metastore
from icectl.catalog.hive.metastore import (
    Connection,
    HiveAnswerLost,
    HiveTable,
    ServerException,
    Servers,
    one_line,
    servers_of,
)
from icectl.catalog.hive.thrift import CallRefused
from icectl.catalog.identifier import TableName, no_iceberg_table, no_namespace, no_table
from icectl.catalog.pointer import (
    METADATA_LOCATION,
    PREVIOUS,
    PointerState,
    SwapUncertain,
    behind_pointer,
    entry_locations,
    store_of_catalog,
)
from icectl.catalog.protocol import CatalogAccess, Conflict, TableInCatalog, TablePlace, places
from icectl.env import Env
from icectl.errors import CommitConflict, Refused, StorageError, TableNotFound, Unsupported
from icectl.format.metadata import TableMetadata
from icectl.storage.store import Store
from icectl.units import read_count

_LOGGER = logging.getLogger(__name__)
_LOCK_WAITS = {
    "limit": "iceberg.hive.lock-timeout-ms",
    "shortest": "iceberg.hive.lock-check-min-wait-ms",
    "longest": "iceberg.hive.lock-check-max-wait-ms",
}
"""Waits of a Locker, and the properties that set them."""

_GROWTH = 1.5
_AGENT = "icectl-"
_DEAD_AFTER_MS = 600_000
"""Servers end locks after half of that, where they do it at all."""

_CALL_ERRORS = (HiveAnswerLost, ServerException, CallRefused)

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

_LOCK_KEY = "engine.hive.lock-enabled"
_COMPARES_KEY = "hive.compares-parameters"
_COMPARING = re.compile(r"(?!4\.0\.0-alpha)([4-9]|\d\d)\..*")
_VIEWS = frozenset({"VIRTUAL_VIEW", "MATERIALIZED_VIEW"})
_RESENDS = 2
_MODIFIED = "The table has been modified"
_LOOK_SECONDS = (0.0, 0.5, 1.5)
"""Before each look at a table whose change was sent, and not answered or refused."""


def connect(access: CatalogAccess) -> "HiveWarehouse":
    """Return the catalog in a Hive metastore. Raises: UsageError; Unsupported."""
    settings = access.settings
    servers = servers_of(settings.name, settings.properties, access.deadline)
    return HiveWarehouse(access, servers, store_of_catalog(access))


@dataclass(frozen=True, slots=True)
class HiveWarehouse:
    """The databases of one metastore; each question has a connection of its own."""

    access: CatalogAccess
    servers: Servers
    store: Store

    def namespaces(self, parent: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
        with self.servers.connected() as connection:
            known = metastore.databases(connection)
        if parent and parent not in {(name,) for name in known}:
            raise no_namespace(self.access.settings.name, parent, known)
        yield from () if parent else ((name,) for name in known)

    def tables(self, namespace: tuple[str, ...]) -> Iterator[TableName]:
        with self.servers.connected() as connection:
            self._check_database(connection, namespace)
            for table in metastore.tables(connection, namespace[0]):
                if table.iceberg_type == "iceberg":
                    yield TableName(namespace, table.name)

    def table(self, name: TableName) -> TableInCatalog:
        """Return one table; the metastore has all names in lower case."""
        name = name.lower()
        return behind_pointer(self.access, self.store, HivePointer(self, name), name)

    def places(self) -> Iterator[TablePlace]:
        """Yield every table, Hive's own too: all files are somebody's. Raises: StorageError."""
        with self.servers.connected() as connection:
            for database in metastore.databases(connection):
                for table in metastore.tables(connection, database):
                    if table.table_type not in _VIEWS:
                        name = TableName((database,), table.name)
                        for location in entry_locations(table.location, table.parameters):
                            yield from places(name, location, table.parameters)

    def not_found(self, connection: Connection, name: TableName) -> TableNotFound:
        self._check_database(connection, name.namespace)
        beside = metastore.table_names(connection, name.namespace[0])
        return no_table(self.access.settings.name, name, beside)

    def _check_database(self, connection: Connection, namespace: tuple[str, ...]) -> None:
        known = metastore.databases(connection)
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
        with self._servers.connected() as connection:
            return self._pointed(connection)

    def check_writable(self, pointed: PointerState) -> None:
        """Raises: Unsupported, for a table whose metadata has a hash that only Hive can make."""
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
            configured = self._properties.get(f"iceberg.{_LOCK_KEY}", "true")
            if metadata.properties.get(_LOCK_KEY, configured).lower() == "true":
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
    def _locker(self) -> "Locker":
        waits = {
            wait: wait_ms / 1000
            for wait, key in _LOCK_WAITS.items()
            if (wait_ms := read_count(self._properties.get(key))) is not None
        }
        env = self.warehouse.access.env
        return Locker(self._servers, env, self.name.namespace[0], self.name.name, **waits)

    def _pointed(self, connection: Connection) -> PointerState:
        catalog = self.warehouse.access.settings.name
        pointed = None
        if len(self.name.namespace) == 1:
            pointed = metastore.get_table(connection, self.name.namespace[0], self.name.name)
        if pointed is None:
            raise self.warehouse.not_found(connection, self.name)
        if pointed.table_type in _VIEWS:
            raise no_iceberg_table(catalog, self.name, "a view")
        parameters = pointed.parameters
        if pointed.iceberg_type != "iceberg":
            raise no_iceberg_table(catalog, self.name, "a Hive table")
        if not parameters.get(METADATA_LOCATION):
            raise TableNotFound(
                f"the metastore has no metadata file for `{self.name}`: the parameter "
                f"`{METADATA_LOCATION}` is missing"
            )
        return PointerState(
            parameters[METADATA_LOCATION], parameters.get(PREVIOUS), pointed, parameters
        )

    def _check_compares(self, connection: Connection) -> None:
        """Refuse to go without the lock where the server does not compare the pointer.

        Hive 4 does, and Hive 2.3.10, which tells no version of its own.
        """
        is_said = self._properties.get(_COMPARES_KEY, "").lower() == "true"
        if not is_said and not _COMPARING.match(metastore.version(connection)):
            raise Refused(
                f"`{_LOCK_KEY}=false` of `{self.name}` makes writers skip the metastore's lock, "
                f"and the metastore at {connection.server} does not compare the pointer: commits "
                "would overwrite each other",
                hint=f"set `{_LOCK_KEY}=true` for all its writers; if the metastore compares "
                f"pointers, as in Hive 2.3.10, set `{_COMPARES_KEY}=true` in the catalog's "
                "configuration",
            )

    def _change(
        self, connection: Connection, pointed: PointerState, target: str, metadata: TableMetadata
    ) -> "_Change | Conflict":
        """Return what the table becomes, from what it is now."""
        now = self._pointed(connection)
        if now.metadata_location != pointed.metadata_location:
            return Conflict("another writer has committed to the table in the metastore")
        assert isinstance(now.token, HiveTable)
        parameters = next_parameters(now.parameters, target, metadata, self._properties)
        return _Change(now.metadata_location, target, now.token.with_parameters(parameters))

    def _alter(self, connection: Connection, change: "_Change", lock: "TableLock") -> None:
        """Send the change once, under the lock, which is left behind where no answer comes.

        Raises: CommitConflict; StorageError; SwapUncertain.
        """
        if not lock.is_held():
            raise CommitConflict(f"the metastore's lock of `{self.name}` was lost")
        try:
            metastore.alter_table(connection, change.table)
        except HiveAnswerLost as error:
            lock.kept = True
            self._after_silence(change, str(error))
            lock.kept = False
        except (ServerException, CallRefused) as error:  # of listeners there too, afterwards
            self._after_refusal(change, one_line(str(error)), None)
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
                    metastore.alter_table(connection, change.table, change.before)
                else:
                    with self._servers.connected() as again:
                        metastore.alter_table(again, change.table, change.before)
            except HiveAnswerLost as error:
                lost = str(error)
            except (ServerException, CallRefused) as error:
                return self._after_refusal(change, one_line(str(error)), lost)
            except StorageError as error:
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
        location = self._seen(change)
        if location == change.target:
            return
        if lost is None and location == change.before:
            raise self._failure(reason)
        raise SwapUncertain(reason)

    def _after_silence(self, change: "_Change", reason: str) -> None:
        """Return where the change is there. Raises: SwapUncertain."""
        if self._seen(change) != change.target:
            raise SwapUncertain(reason)

    def _seen(self, change: "_Change") -> str | None:
        """Return the table's metadata file, once it has changed; looks for a while.

        None if the table could not be read.
        """
        location = None
        for seconds in _LOOK_SECONDS:
            self.warehouse.access.env.sleep(seconds)
            with suppress(StorageError, TableNotFound):
                location = self.read().metadata_location
                if location != change.before:
                    break
        return location

    def _failure(self, reason: str) -> StorageError:
        return StorageError(
            f"the Hive metastore at {self._servers.shown} did not change `{self.name}`: {reason}",
            hint="the user needs the right to alter the table; `ugi` in the catalog's "
            "configuration sets the user, if the metastore trusts its clients",
        )


@dataclass(frozen=True, slots=True)
class _Change:
    """What a table becomes, and its metadata locations before and afterwards."""

    before: str
    target: str
    table: HiveTable


def next_parameters(
    parameters: Mapping[str, str], target: str, metadata: TableMetadata, catalog: Mapping[str, str]
) -> dict[str, str]:
    """Return a table's parameters with new metadata; `catalog` has the catalog's properties."""
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
        characters = read_count(catalog.get(_MOST_CHARACTERS))
        limit = _DEFAULT_MOST if characters is None else characters
        if snapshot is not None and limit > 0:
            changed[_SNAPSHOT_ID] = str(snapshot.snapshot_id)
            changed[_SNAPSHOT_TIME] = str(snapshot.timestamp_ms)
            shown = {key: item for key, item in summary.items() if key != "operation"}
            text = json.dumps(shown, ensure_ascii=False, separators=(",", ":"))
            if len(text) <= limit:  # the metastore takes no longer one
                changed[_SNAPSHOT_SUMMARY] = text
        changed[_SNAPSHOT_COUNT] = str(len(metadata.snapshots))
    return changed


@dataclass(slots=True)
class TableLock:
    """A lock that is held; a `kept` one ends with the server's time: a change may be behind it."""

    connection: Connection
    lock_id: int
    kept: bool = False

    def is_held(self) -> bool:
        """Return whether the server still has it, which keeps it alive for another while."""
        try:
            metastore.heartbeat(self.connection, self.lock_id)
        except _CALL_ERRORS:
            _LOGGER.debug("lock %s is lost", self.lock_id, exc_info=True)
            return False
        return True


@dataclass(frozen=True, slots=True)
class Locker:
    """Takes the lock of one table; waits are in seconds."""

    servers: Servers
    env: Env
    database: str
    table: str
    limit: float = 180.0
    shortest: float = 0.05
    longest: float = 5.0

    @contextmanager
    def locked(self, connection: Connection) -> Iterator[TableLock]:
        """Hold the lock. Raises: CommitConflict, where others have it too long; StorageError."""
        agent = f"{_AGENT}{self.env.new_uuid()}"
        owner = _user(), self.env.host_name() or "localhost", agent
        try:
            lock_id, state = metastore.lock(connection, self.database, self.table, owner)
            self._wait_for(connection, lock_id, state)
        except HiveAnswerLost as error:
            self._give_back(agent)
            raise self._failure(str(error)) from error
        except (ServerException, CallRefused) as error:
            raise self._failure(one_line(str(error))) from error
        taken = TableLock(connection, lock_id)
        try:
            yield taken
        finally:
            if not taken.kept:
                try:
                    metastore.unlock(connection, lock_id)
                except HiveAnswerLost:
                    self._give_back(agent)
                except (ServerException, CallRefused):
                    _LOGGER.debug("cannot unlock %s", lock_id, exc_info=True)

    def _wait_for(self, connection: Connection, lock_id: int, state: int) -> None:
        """Ask until the lock is acquired; one that is not is given back."""
        ends_at = self.env.monotonic_seconds() + self.limit
        pause = self.shortest
        if state == metastore.WAITING:  # perhaps for locks that runs of icectl have left behind
            metastore.check_lock(connection, lock_id)  # which gives it the server's time
            rows = metastore.show_locks(connection, self.database, self.table)
            now_ms = max((row.heartbeat_ms for row in rows), default=0)
            for row in rows:
                if row.agent.startswith(_AGENT) and now_ms - row.heartbeat_ms > _DEAD_AFTER_MS:
                    with suppress(ServerException):
                        metastore.unlock(connection, row.lock_id)
        while state == metastore.WAITING and self.env.monotonic_seconds() < ends_at:
            self.env.sleep(pause)
            pause = min(pause * _GROWTH, self.longest)
            state = metastore.check_lock(connection, lock_id)
        if state == metastore.ACQUIRED:
            return
        owners = self._owners(connection, lock_id)
        with suppress(*_CALL_ERRORS):
            metastore.unlock(connection, lock_id)
        raise CommitConflict(
            f"could not get the metastore's lock on {self.database}.{self.table} within "
            f"{self.limit:g} seconds: {owners}",
            hint="run the command again when the other writer is done; locks of dead writers "
            "expire within minutes",
        )

    def _owners(self, connection: Connection, lock_id: int) -> str:
        try:
            rows = metastore.show_locks(connection, self.database, self.table)
        except _CALL_ERRORS:
            return "others have it"
        others = [row.owner for row in rows if row.lock_id != lock_id]
        return f"held by {', '.join(others)}" if others else "the server has ended it"

    def _give_back(self, agent: str) -> None:
        """Give back a lock of ours whose id is not known, or whose connection is gone."""
        try:
            with self.servers.connected() as connection:
                for row in metastore.show_locks(connection, self.database, self.table):
                    if row.agent == agent:
                        metastore.unlock(connection, row.lock_id)
        except (*_CALL_ERRORS, StorageError):
            _LOGGER.debug("cannot release the lock of %s", agent, exc_info=True)

    def _failure(self, reason: str) -> StorageError:
        return StorageError(
            f"cannot lock {self.database}.{self.table} in the Hive metastore: {reason}",
            hint="a metastore without the tables for transactions cannot lock; if it compares "
            "pointers (Hive 4), set `engine.hive.lock-enabled=false`",
        )


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container's user without a name
        return "icectl"
