"""Hive metastores as processes, for the tests that every kind of catalog has to pass.

tests/run.sh fetches them, and names their folders in ICECTL_TEST_HIVE3 and ICECTL_TEST_HIVE4; in
ICECTL_TEST_NO_HIVE it says why it could not. Derby keeps their databases. Between icectl and a
metastore stands a proxy that loses answers.
"""

import itertools
import json
import os
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from icectl.catalog.protocol import Committed, Unknown

NUMBERS = itertools.count()
STARTS_WITHIN_SECONDS = 120
_SITE = {
    "javax.jdo.option.ConnectionURL": "jdbc:derby:;databaseName={folder}/db",
    "javax.jdo.option.ConnectionDriverName": "org.apache.derby.jdbc.EmbeddedDriver",
    "metastore.warehouse.dir": "file://{folder}/warehouse",
    "metastore.thrift.bind.host": "127.0.0.1",
    "metastore.expression.proxy": (
        "org.apache.hadoop.hive.metastore.DefaultPartitionExpressionProxy"
    ),
    "metastore.task.threads.always": "org.apache.hadoop.hive.metastore.events.EventCleanerTask",
}


def home(version: int) -> Path:
    """Where a metastore lies; skips the test where there is none."""
    reason = os.environ.get("ICECTL_TEST_NO_HIVE")
    folder = os.environ.get(f"ICECTL_TEST_HIVE{version}")
    if reason or not folder:
        pytest.skip(f"Hive metastore {version}: {reason or 'tests/run.sh fetches it'}")
    pytest.importorskip("thrift")
    return Path(folder)


@contextmanager
def metastore(version: int, folder: Path) -> Iterator[int]:
    """A metastore on a port of this machine, with a new database."""
    source = home(version)
    shutil.copytree(source / "db", folder / "db")
    properties = "".join(
        f"<property><name>{key}</name><value>{value.format(folder=folder)}</value></property>"
        for key, value in _SITE.items()
    )
    (folder / "metastore-site.xml").write_text(f"<configuration>{properties}</configuration>")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    main = "org.apache.hadoop.hive.metastore.HiveMetaStore"
    java = ["java", "-Xmx400m", "-XX:TieredStopAtLevel=1", "-cp", f"{folder}:{source}/lib/*"]
    log = folder / "server.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*java, main, "-p", str(port)], stdout=output, stderr=subprocess.STDOUT, cwd=folder
        )
    try:
        _await(process, port, log)
        yield port
    finally:
        process.terminate()
        process.wait(timeout=30)


def _await(process: "subprocess.Popen[bytes]", port: int, log: Path) -> None:
    ends = time.monotonic() + STARTS_WITHIN_SECONDS
    while time.monotonic() < ends:
        assert process.poll() is None, log.read_text()[-4000:]
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise TimeoutError(log.read_text()[-4000:])


@contextmanager
def client(port: int) -> Iterator[Any]:
    """Hive's own generated client, as PyIceberg brings it along."""
    from hive_metastore.ThriftHiveMetastore import Client
    from thrift.protocol import TBinaryProtocol
    from thrift.transport import TSocket, TTransport

    transport = TTransport.TBufferedTransport(TSocket.TSocket("127.0.0.1", port))
    with closing(transport):
        transport.open()
        yield Client(TBinaryProtocol.TBinaryProtocol(transport))


class Faster(Exception):
    """Another client has changed a table first. Exceptions of the generated client cannot leave a
    context.
    """


@dataclass
class HiveServer:
    """A database of its own in a metastore at `port`; `proxy` stands before that."""

    properties: dict[str, str]
    warehouse: Path
    namespace: tuple[str, ...]
    port: int
    proxy: "Proxy"
    lost_on_the_way: Sequence[type]
    swaps_pointer: bool = True

    def register(self, table: str, metadata_location: str) -> None:
        from hive_metastore import ttypes

        storage = ttypes.StorageDescriptor(
            cols=[ttypes.FieldSchema("id", "bigint", "by hand")],
            location=str(Path(metadata_location).parents[1]),
            inputFormat="org.apache.hadoop.mapred.FileInputFormat",
            outputFormat="org.apache.hadoop.mapred.FileOutputFormat",
            compressed=False,
            numBuckets=0,
            serdeInfo=ttypes.SerDeInfo(
                serializationLib="org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe"
            ),
            bucketCols=[],
            sortCols=[],
            parameters={"of": "storage"},
        )
        parameters = {
            "EXTERNAL": "TRUE", "table_type": "ICEBERG", "metadata_location": metadata_location,
            "of-another": "kept", "numRows": "1", "snapshot-count": "0",
            "current-snapshot-id": "1",
        }  # fmt: skip
        made = ttypes.Table(
            tableName=table,
            dbName=self.namespace[0],
            owner="somebody",
            createTime=1,
            lastAccessTime=2,
            retention=3,
            sd=storage,
            partitionKeys=[],
            parameters=parameters,
            tableType="EXTERNAL_TABLE",
        )
        with client(self.port) as asked:
            asked.create_table(made)

    def entry(self, table: str) -> Any:
        """What the metastore has of a table."""
        from hive_metastore.ttypes import GetTableRequest

        with client(self.port) as asked:
            request = GetTableRequest(dbName=self.namespace[0], tblName=table)
            return asked.get_table_req(request).table

    def current(self, table: str) -> str:
        return str(self.entry(table).parameters["metadata_location"])

    @property
    def locks(self) -> bool:
        """Whether writers take the lock, and do not have the pointer compared."""
        return "iceberg.engine.hive.lock-enabled" not in self.properties

    def change(self, table: str, tag: str, snapshot_id: int | None) -> None:
        """As a client that writes the metadata file itself: a tag, of the newest snapshot for None.

        Raises: Faster, where the metastore says that another client was.
        """
        from hive_metastore.ttypes import EnvironmentContext, MetaException

        with client(self.port) as asked, self._lock(asked, table):
            entry = self.entry(table)
            location = Path(entry.parameters["metadata_location"])
            metadata = json.loads(location.read_bytes())
            tagged = snapshot_id or metadata["current-snapshot-id"]
            metadata["refs"][tag] = {"snapshot-id": tagged, "type": "tag"}
            logged = {"timestamp-ms": metadata["last-updated-ms"], "metadata-file": str(location)}
            metadata["metadata-log"] = [*metadata.get("metadata-log", ()), logged]
            target = location.with_name(f"00099-{next(NUMBERS)}.metadata.json")
            target.write_text(json.dumps(metadata))
            entry.parameters["metadata_location"] = str(target)
            context = EnvironmentContext({"DO_NOT_UPDATE_STATS": "true"})
            if not self.locks:
                context.properties["expected_parameter_key"] = "metadata_location"
                context.properties["expected_parameter_value"] = str(location)
            try:
                asked.alter_table_with_environment_context(self.namespace[0], table, entry, context)
            except MetaException as error:
                raise Faster(error.message) from None

    @contextmanager
    def _lock(self, asked: Any, table: str) -> Iterator[None]:
        """Hold the lock of a table, where writers take it."""
        from hive_metastore.ttypes import (
            CheckLockRequest,
            LockComponent,
            LockLevel,
            LockRequest,
            LockState,
            LockType,
            UnlockRequest,
        )

        if not self.locks:
            yield
            return
        component = LockComponent(LockType.EXCLUSIVE, LockLevel.TABLE, self.namespace[0], table)
        lock = asked.lock(LockRequest([component], user="other", hostname="there"))
        try:
            while lock.state != LockState.ACQUIRED:
                lock = asked.check_lock(CheckLockRequest(lock.lockid))
            yield
        finally:
            asked.unlock(UnlockRequest(lock.lockid))

    @contextmanager
    def losing_answer(self, *, landed: bool) -> Iterator[None]:
        with self.proxy.losing(b"alter_table_with_environment_context", landed=landed):
            yield

    @contextmanager
    def dying(self) -> Iterator[None]:
        with self.proxy.losing(b"alter_table_with_environment_context", landed=False, dies=True):
            yield
        self.end_locks()

    def end_locks(self) -> None:
        """Give back all locks, as an administrator does."""
        from hive_metastore.ttypes import ShowLocksRequest, UnlockRequest

        with client(self.port) as asked:
            for lock in asked.show_locks(ShowLocksRequest(dbname=self.namespace[0])).locks:
                asked.unlock(UnlockRequest(lock.lockid))


class Proxy:
    """Passes connections on to a metastore, and loses what it is told to."""

    def __init__(self, port: int) -> None:
        self._target = port
        self.before: tuple[bytes, Callable[[], None]] | None = None
        self._lost: bytes | None = None
        self._landed = self._dies = self._is_dead = False
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    @contextmanager
    def losing(self, call: bytes, *, landed: bool, dies: bool = False) -> Iterator[None]:
        """The next such call is lost on its way, or its answer on its way back."""
        self._lost, self._landed, self._dies = call, landed, dies
        yield
        assert self._lost is None, "there was no such call"
        self._is_dead = False

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                accepted, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(accepted,), daemon=True).start()

    def _serve(self, near: socket.socket) -> None:
        with near, suppress(OSError):
            if self._is_dead:
                return
            with socket.create_connection(("127.0.0.1", self._target)) as far:
                back = threading.Thread(target=self._copy, args=(far, near), daemon=True)
                back.start()
                while chunk := near.recv(1 << 20):
                    if self.before is not None and self.before[0] in chunk[:200]:
                        (_, happens), self.before = self.before, None
                        happens()
                    if self._lost is not None and self._lost in chunk[:200]:
                        self._lose(near, far, chunk)
                        break
                    far.sendall(chunk)
                with suppress(OSError):
                    far.shutdown(socket.SHUT_RDWR)  # else a thread of the metastore waits on
                back.join(timeout=10)

    def _lose(self, near: socket.socket, far: socket.socket, chunk: bytes) -> None:
        self._lost, self._is_dead = None, self._dies
        near.shutdown(socket.SHUT_WR)
        if self._landed:
            far.sendall(chunk)
            time.sleep(2)

    def _copy(self, far: socket.socket, near: socket.socket) -> None:
        with suppress(OSError):
            while chunk := far.recv(1 << 20):
                near.sendall(chunk)
        with suppress(OSError):
            near.shutdown(socket.SHUT_RDWR)  # what the metastore ends, its client hears of


@contextmanager
def hive_server(port: int, folder: Path, *, locks: bool) -> Iterator[HiveServer]:
    """A new database in a running metastore, whose pointer is swapped under its lock or without."""
    from hive_metastore.ttypes import Database

    name = f"db{next(NUMBERS)}"
    with client(port) as asked:
        asked.create_database(Database(name, "", f"file://{folder}/warehouse", {}))
    proxy = Proxy(port)
    properties = {"type": "hive", "uri": f"thrift://127.0.0.1:{proxy.port}"}
    if not locks:
        properties["iceberg.engine.hive.lock-enabled"] = "false"
    expected = (Unknown,) if locks else (Committed,)
    with closing(proxy):
        yield HiveServer(properties, folder / "warehouse", (name,), port, proxy, expected)
