"""The lock of a table in a Hive metastore, which all writers take that cannot do without."""

import getpass
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from icectl.catalog.hive.calls import (
    ACQUIRED,
    WAITING,
    MetastoreLock,
    ServerException,
    check_lock,
    heartbeat,
    lock,
    one_line,
    show_locks,
    unlock,
)
from icectl.catalog.hive.connection import Connection, HiveAnswerLost, Servers
from icectl.catalog.hive.thrift import CallRefused
from icectl.env import Env
from icectl.errors import CommitConflict, StorageError
from icectl.units import read_count

_LOGGER = logging.getLogger(__name__)
_LIMIT_KEY = "iceberg.hive.lock-timeout-ms"
_SHORTEST_KEY = "iceberg.hive.lock-check-min-wait-ms"
_LONGEST_KEY = "iceberg.hive.lock-check-max-wait-ms"
_GROWTH = 1.5
_AGENT = "icectl-"
_DEAD_AFTER_MS = 600_000
"""Servers end locks after half of that, where they do it at all."""

_CALL_ERRORS = (HiveAnswerLost, ServerException, CallRefused)


@dataclass(slots=True)
class TableLock:
    """A lock that is held.

    One that is `kept` ends by itself, when the server's time limit is over: a change may still be
    under way behind it.
    """

    connection: Connection
    lock_id: int
    kept: bool = False

    def is_held(self) -> bool:
        """Return whether the server still has it, which keeps it alive for another while."""
        try:
            heartbeat(self.connection, self.lock_id)
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
        try:
            held = lock(connection, self.database, self.table, (_user(), self._host, agent))
            self._wait_for(connection, held)
        except HiveAnswerLost as error:
            self._give_back(agent)
            raise self._failure(error.reason) from error
        except (ServerException, CallRefused) as error:
            raise self._failure(one_line(error.reason)) from error
        taken = TableLock(connection, held.lock_id)
        try:
            yield taken
        finally:
            if not taken.kept:
                self._unlock(connection, held.lock_id, agent)

    @property
    def _host(self) -> str:
        return self.env.host_name() or "localhost"

    def _wait_for(self, connection: Connection, held: MetastoreLock) -> None:
        """Ask until the lock is acquired; one that is not is given back."""
        ends_at = self.env.monotonic_seconds() + self.limit
        pause, state = self.shortest, held.state
        if state == WAITING:
            self._end_expired(connection, held)
        while state == WAITING and self.env.monotonic_seconds() < ends_at:
            self.env.sleep(pause)
            pause = min(pause * _GROWTH, self.longest)
            state = check_lock(connection, held.lock_id).state
        if state == ACQUIRED:
            return
        owners = self._owners(connection, held)
        with suppress(*_CALL_ERRORS):
            unlock(connection, held.lock_id)
        raise CommitConflict(
            f"the metastore's lock of {self.database}.{self.table} could not be had in "
            f"{self.limit:g} seconds: {owners}",
            hint="run the command again when the other writer is done; locks of writers that died "
            "end by themselves in some minutes",
        )

    def _end_expired(self, connection: Connection, held: MetastoreLock) -> None:
        """Give back locks that runs of icectl have left and no server has ended since.

        Raises: HiveAnswerLost; ServerException; CallRefused.
        """
        check_lock(connection, held.lock_id)  # which gives it the server's time
        rows = show_locks(connection, self.database, self.table)
        now_ms = max((row.heartbeat_ms for row in rows), default=0)
        for row in rows:
            if row.agent.startswith(_AGENT) and now_ms - row.heartbeat_ms > _DEAD_AFTER_MS:
                with suppress(ServerException):
                    unlock(connection, row.lock_id)

    def _owners(self, connection: Connection, held: MetastoreLock) -> str:
        try:
            rows = show_locks(connection, self.database, self.table)
        except _CALL_ERRORS:
            return "others hold it"
        others = [row.owner for row in rows if row.lock_id != held.lock_id]
        return f"held by {', '.join(others)}" if others else "the server has ended it"

    def _unlock(self, connection: Connection, lock_id: int, agent: str) -> None:
        try:
            unlock(connection, lock_id)
        except HiveAnswerLost:
            self._give_back(agent)
        except (ServerException, CallRefused):
            _LOGGER.debug("cannot unlock %s", lock_id, exc_info=True)

    def _give_back(self, agent: str) -> None:
        """Give back a lock of ours whose id is not known, or whose connection is gone."""
        try:
            with self.servers.connected() as connection:
                for row in show_locks(connection, self.database, self.table):
                    if row.agent == agent:
                        unlock(connection, row.lock_id)
        except (*_CALL_ERRORS, StorageError):
            _LOGGER.debug("cannot give back the lock of %s", agent, exc_info=True)

    def _failure(self, reason: str) -> StorageError:
        return StorageError(
            f"cannot lock {self.database}.{self.table} in the Hive metastore: {reason}",
            hint="a metastore without the tables for transactions cannot lock; where it compares "
            "pointers (Hive 4), `engine.hive.lock-enabled=false` does without",
        )


def locker_of(
    servers: Servers, env: Env, table: tuple[str, str], properties: Mapping[str, str]
) -> Locker:
    """Takes the lock of a table, by its database and name, with the waits of a catalog."""
    waits = Locker(servers, env, *table)
    return Locker(
        servers,
        env,
        *table,
        limit=_seconds(properties, _LIMIT_KEY, waits.limit),
        shortest=_seconds(properties, _SHORTEST_KEY, waits.shortest),
        longest=_seconds(properties, _LONGEST_KEY, waits.longest),
    )


def _seconds(properties: Mapping[str, str], key: str, otherwise: float) -> float:
    wait_ms = read_count(properties.get(key))
    return otherwise if wait_ms is None else wait_ms / 1000


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container's user without a name
        return "icectl"
