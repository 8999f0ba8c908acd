"""Tasks on Spark over Spark Connect, where this process has neither Java nor the cluster's network.

The protocol knows data frames alone: tasks are rows that go through `mapInArrow`, and what they
answer comes back as rows. icectl is sent along, an artifact of the session, so that the Python of
the server's workers needs only what icectl needs.
"""

import socket
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar
from urllib.parse import urlsplit
from weakref import WeakSet

import pyarrow as pa

import icectl
from icectl.env import Deadline
from icectl.errors import EngineError, Unsupported, UsageError
from icectl.progress import Progress
from icectl.rows.spark import (
    POLL_SECONDS,
    SQL_SETTINGS,
    Spark,
    SparkWorkers,
    dealt_of,
    made_of_rows,
    result_of,
    results,
    spark_failures,
)
from icectl.rows.spark_start import SparkOptions, spark_session
from icectl.rows.wire import decode_result

_PORT = 15002
_ANSWERS_WITHIN_SECONDS = 10
_INSTALL = "`pip install 'icectl[connect]'` installs it; without `--remote` there is no need of it"
_TO_SPARK = "`--master`, spark-submit and `--engine local` know no such limit"
_DEALT = pa.schema([("number", pa.int64()), ("payload", pa.binary())])

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class ConnectSpark:
    """A session over Spark Connect. Whatever waits for it ends at the time limit, and on Ctrl-C."""

    session: Any
    progress: Progress
    deadline: Deadline
    pool: ThreadPoolExecutor
    folder: str
    stage_tasks: dict[Any, int] = field(default_factory=dict)
    """How many tasks each stage of this run has."""

    @property
    def core_count(self) -> int:
        """The number of tasks that run at once, by the parts that Spark makes of many rows."""
        from pyspark.sql.connect.functions import spark_partition_id

        with spark_failures():
            parts = self.session.range(1 << 16).select(spark_partition_id().alias("part"))
            count: int = parts.distinct().count()
        return count

    @property
    def speculates(self) -> bool:
        """Whether there may be two attempts at a task at the same time: the protocol can't tell."""
        return True

    def task_counts(self) -> tuple[int, int]:
        """Count the tasks of this run so far; of failed attempts the protocol tells nothing."""
        return sum(self.stage_tasks.values()), 0

    def each(
        self, kernel: Callable[[Any], Result], tasks: Sequence[Any], types: Sequence[type] = ()
    ) -> list[Result]:
        """Run a kernel on each task, and bring here what it makes of them; as `Spark.each`."""

        def job() -> list[bytes]:
            """Run the kernel on the server, and collect what it makes."""
            numbers = self.session.range(0, len(tasks), 1, len(tasks))
            work = partial(_each, kernel, tuple(tasks))
            return _collected(numbers.mapInArrow(work, "number long, payload binary"))

        return results(self._awaited(job), types)

    def shuffled(
        self,
        deal: Callable[[Any], Iterable[tuple[int, Any]]],
        tasks: Sequence[Any],
        take: Callable[[int, Iterator[Any]], Result],
        count: int,
        types: Sequence[type] = (),
    ) -> list[Result]:
        """Deal tasks out to each number below `count`, and take; as `Spark.shuffled`.

        Raises: as Spark.shuffled; Unsupported, before Spark 4.1.
        """

        def job() -> list[bytes]:
            """Deal and take on the server, and collect what is made."""
            numbers = self.session.range(0, len(tasks), 1, len(tasks))
            work = partial(_dealt, deal, tuple(tasks))
            dealt = numbers.mapInArrow(work, "number long, payload binary")
            parts = dealt.repartitionById(count, dealt["number"].cast("int"))
            taken = parts.mapInArrow(partial(_taken, take, types), "number long, payload binary")
            return _collected(taken)

        from pyspark.sql import DataFrame

        if not hasattr(DataFrame, "repartitionById"):
            raise Unsupported(
                "Spark Connect deals rows out by their range from Spark 4.1 on", hint=_TO_SPARK
            )
        return results(self._awaited(job), types)

    def on_rows(
        self, frame: Any, kernel: Callable[[Iterator[pa.RecordBatch]], pa.Table]
    ) -> tuple[list[pa.Table], bool]:
        """Run a kernel on the rows of each partition of a frame, one of this session.

        Second: False, since the protocol does not tell of attempts that failed.
        Raises: as each.
        """
        return results(self._awaited(partial(made_of_rows, frame, kernel))), False

    def _awaited(self, job: Callable[[], Result]) -> Result:
        """Return the result of a job, whose finished tasks are told as progress."""
        tag = f"icectl-{Path(self.folder).name}"
        finished: dict[Any, int] = {}

        def tell(stages: Any, *_: Any, **__: Any) -> None:
            """Note how many tasks each stage has finished."""
            finished.update({one.stage_id: one.num_completed_tasks for one in stages or ()})
            self.stage_tasks.update({one.stage_id: one.num_tasks for one in stages or ()})

        def tagged() -> Result:
            """Run the job so that it can be interrupted."""
            self.session.addTag(tag)
            return job()

        self.session.registerProgressHandler(tell)
        future = self.pool.submit(tagged)
        known = 0
        try:
            while not wait([future], POLL_SECONDS).done:
                self.deadline.check()
                now = sum(tuple(finished.values()))
                self.progress.advance(max(now - known, 0))
                known = max(now, known)
            with spark_failures():
                return future.result()
        except BaseException:
            with suppress(EngineError), spark_failures():
                self.session.interruptTag(tag)
            wait([future], _ANSWERS_WITHIN_SECONDS)
            raise
        finally:
            self.session.removeProgressHandler(tell)


@contextmanager
def connect_session(
    options: SparkOptions, progress: Progress, deadline: Deadline
) -> Iterator[ConnectSpark]:
    """Open a session of our own, on a server or beside the caller's, that has icectl with it.

    Raises: EngineError, where there is no client or no server; UsageError; Unsupported.
    """
    _check_client()
    if options.remote is not None:
        _check_server(options.remote)
    progress.phase("starting Spark")
    with _client(partial(_opened, options), progress, deadline) as spark:
        try:
            yield spark
        finally:
            with suppress(EngineError), spark_failures():
                _close(spark.session, is_alone=options.remote is not None)


@contextmanager
def _client(
    opened: Callable[[], Any], progress: Progress, deadline: Deadline
) -> Iterator[ConnectSpark]:
    """Work in a session, once it is opened. Raises: as `opened`; Incomplete."""
    with tempfile.TemporaryDirectory() as folder:
        pool = ThreadPoolExecutor(1, thread_name_prefix="spark")
        opening = pool.submit(opened)
        try:
            while not wait([opening], POLL_SECONDS).done:
                deadline.check()
            with spark_failures():
                session = opening.result()
            yield ConnectSpark(session, progress, deadline, pool, folder)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def open_workers(
    options: SparkOptions, progress: Progress, deadline: Deadline
) -> AbstractContextManager[SparkWorkers]:
    """Find Spark or start it, however it is reached. Raises: as both ways do."""
    if options.is_connect:
        return connect_session(options, progress, deadline)
    return spark_session(options, progress, deadline)


def open_beside(
    session: Any, progress: Progress, deadline: Deadline
) -> AbstractContextManager[Spark | ConnectSpark]:
    """Work on data frames of a session, in the session itself: no other knows their plans.

    Raises: as spark_session; over Spark Connect EngineError.
    """
    options = SparkOptions(session=session)
    if options.is_connect:
        return _client(partial(with_icectl, session), progress, deadline)
    return spark_session(options, progress, deadline)


def with_icectl(session: Any) -> Any:
    """Send icectl along with what the caller's session runs from now on, unless it has it.

    Returns the session.
    """
    with _SENDING:
        if session not in _HAVE_ICECTL:
            _send(session)
            _HAVE_ICECTL.add(session)
    return session


_HAVE_ICECTL: "WeakSet[Any]" = WeakSet()
_SENDING = Lock()


def _send(session: Any) -> None:
    """Make icectl an artifact of a session; once more is no harm."""
    with tempfile.TemporaryDirectory() as folder:
        session.addArtifacts(str(_zipped(Path(folder))), pyfile=True)


def _opened(options: SparkOptions) -> Any:
    from pyspark.sql.connect.session import SparkSession

    if options.remote is not None:
        own = SparkSession.builder.remote(options.remote).create()
    elif hasattr(options.session, "cloneSession"):
        own = options.session.cloneSession()
    else:
        raise Unsupported(
            "Spark Connect has no session beside that of the caller before Spark 4.1",
            hint="`--remote` opens one, a classic session has no need of it",
        )
    for key, value in options.settings:
        own.conf.set(key, value)
    for key, value in SQL_SETTINGS.items():
        own.conf.set(key, value)
    _send(own)
    return own


def _close(own: Any, *, is_alone: bool) -> None:
    """End a session on the server; a clone leaves the caller's as the one of this process."""
    if is_alone:
        own.stop()
    else:
        own.client.release_session()


def _zipped(folder: Path) -> Path:
    """icectl as it runs here, as far as Python reads it from an archive."""
    package = Path(icectl.__file__).parent
    archive = folder / "icectl.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        for path in sorted(package.rglob("*")):
            if path.suffix in (".py", ".json"):
                file.write(path, path.relative_to(package.parent))
    return archive


def _check_client() -> None:
    try:
        import pyspark.sql.connect.session  # noqa: F401
    except ImportError as error:
        raise EngineError("the client of Spark Connect is not installed", hint=_INSTALL) from error


def _check_server(remote: str) -> None:
    """Look whether a server is there: the client would try for many minutes."""
    place = urlsplit(remote)
    if place.scheme != "sc" or not place.hostname:
        raise UsageError(f"`--remote`: `{remote}` is no sc://HOST:PORT")
    try:
        address = (place.hostname, place.port or _PORT)
        with socket.create_connection(address, timeout=_ANSWERS_WITHIN_SECONDS):
            pass
    except OSError as error:
        raise EngineError(
            f"no Spark Connect server at {place.hostname}:{place.port or _PORT}: "
            f"{(error.strerror or str(error)).lower()}",
            hint="Spark's `sbin/start-connect-server.sh` starts one",
        ) from error


def _collected(frame: Any) -> list[bytes]:
    """Return the payloads of a frame of numbers and payloads, in the order of the numbers."""
    table = frame.toArrow().sort_by("number")
    found: list[bytes] = table["payload"].to_pylist()
    return found


def _each(
    kernel: Callable[[Any], Any], tasks: Sequence[Any], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Run a kernel on the tasks whose numbers come in, on a worker."""
    for number in _numbers(batches):
        yield _row(number, result_of(partial(kernel, tasks[number])))


def _dealt(
    deal: Callable[[Any], Iterable[tuple[int, Any]]],
    tasks: Sequence[Any],
    batches: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """Deal out what is in the tasks whose numbers come in, on a worker."""
    for number in _numbers(batches):
        for place, payload in dealt_of(partial(deal, tasks[number])):
            yield _row(place, payload)


def _taken(
    take: Callable[[int, Iterator[Any]], Any],
    types: Sequence[type],
    batches: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """Take all that was dealt out to the number of this part, on a worker."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    number = context.partitionId()
    values = (
        decode_result(payload, types)
        for batch in batches
        for payload in batch["payload"].to_pylist()
    )
    yield _row(number, result_of(partial(take, number, values)))


def _numbers(batches: Iterable[pa.RecordBatch]) -> Iterator[int]:
    for batch in batches:
        yield from batch["id"].to_pylist()


def _row(number: int, payload: bytes) -> pa.RecordBatch:
    columns = [pa.array([number], pa.int64()), pa.array([payload], pa.binary())]
    return pa.RecordBatch.from_arrays(columns, schema=_DEALT)
