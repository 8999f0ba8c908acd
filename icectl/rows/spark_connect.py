"""Tasks on Spark over Spark Connect, where this process has neither Java nor the cluster's network.

The protocol knows data frames alone: tasks are rows that go through `mapInArrow`, and what they
answer comes back as rows. icectl is sent along, an artifact of the session, so that the Python of
the server's workers needs only what icectl needs.
"""

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
    Kernel,
    MapFunction,
    ReduceFunction,
    Spark,
    TaskAttempt,
    dealt_of,
    no_answer,
    result_of,
    spark_failures,
)
from icectl.rows.spark_classic import SparkOptions, classic_session
from icectl.rows.wire import decode_result

_PORT = 15002
_ANSWERS_WITHIN_SECONDS = 10
_INSTALL = "`pip install 'icectl[connect]'` installs it; only `--remote` needs it"
_TO_SPARK = "`--master`, spark-submit and `--engine local` have no such limit"
_DEALT = pa.schema([("number", pa.int64()), ("payload", pa.binary())])

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class ConnectJobs:
    """Jobs in a session over Spark Connect, whose protocol tells little of them.

    `stages` has how many tasks each stage of this run has, and how many have ended.
    """

    session: Any
    tag: str
    pool: ThreadPoolExecutor
    stages: dict[Any, tuple[int, int]] = field(default_factory=dict)

    @property
    def core_count(self) -> int:
        """The number of tasks that run at once, by the parts that Spark makes of many rows."""
        from pyspark.sql.connect.functions import spark_partition_id

        parts = self.session.range(1 << 16).select(spark_partition_id().alias("part"))
        count: int = parts.distinct().count()
        return count

    @property
    def speculates(self) -> bool:
        return True

    @property
    def all_ran_once(self) -> bool:
        return False  # attempts that failed are unknown

    def task_counts(self) -> tuple[int, int]:
        return sum(count for count, _ in tuple(self.stages.values())), 0

    def finished_tasks(self) -> int:
        return sum(count for _, count in tuple(self.stages.values()))

    def note(self, stages: Any, *_: Any, **__: Any) -> None:
        """Note the progress of stages, as the session reports it."""
        self.stages.update(
            {stage.stage_id: (stage.num_tasks, stage.num_completed_tasks) for stage in stages or ()}
        )

    def run(self, job: Callable[[], Result]) -> Result:
        self.session.addTag(self.tag)  # so that it can be interrupted
        return job()

    def each(self, kernel: Kernel, tasks: Sequence[Any]) -> list[bytes]:
        numbers = self.session.range(0, len(tasks), 1, len(tasks))
        work = partial(_run_tasks, kernel, tuple(tasks))
        return _collect(numbers.mapInArrow(work, "number long, payload binary"))

    def shuffled(
        self,
        deal: MapFunction,
        tasks: Sequence[Any],
        take: ReduceFunction,
        count: int,
        types: Sequence[type],
    ) -> list[bytes]:
        from pyspark.sql import DataFrame

        if not hasattr(DataFrame, "repartitionById"):
            raise Unsupported(
                "Spark Connect distributes rows by range only in Spark 4.1 and later",
                hint=_TO_SPARK,
            )
        numbers = self.session.range(0, len(tasks), 1, len(tasks))
        work = partial(_deal_tasks, deal, tuple(tasks))
        dealt = numbers.mapInArrow(work, "number long, payload binary")
        parts = dealt.repartitionById(count, dealt["number"].cast("int"))
        work = partial(_take_values, take, types)
        return _collect(parts.mapInArrow(work, "number long, payload binary"))

    def leave(self) -> None:
        """Interrupt what is left of this run's jobs, and wait a moment for its end."""
        self.session.removeProgressHandler(self.note)
        waiting = self.pool.submit(int)
        if not wait([waiting], POLL_SECONDS).done:
            self.session.interruptTag(self.tag)
            wait([waiting], _ANSWERS_WITHIN_SECONDS)


@contextmanager
def connect_session(
    options: SparkOptions, progress: Progress, deadline: Deadline
) -> Iterator[Spark]:
    """Open a session of our own, on a server or beside the caller's, that has icectl with it.

    Raises: EngineError, where there is no client or no server; UsageError; Unsupported.
    """
    try:
        import pyspark.sql.connect.session  # noqa: F401
    except ImportError as error:
        raise EngineError("the Spark Connect client is not installed", hint=_INSTALL) from error
    if options.remote is not None:  # the client would try for many minutes
        host, port = _address(options.remote)
        problem = no_answer(host, port)
        if problem is not None:
            raise EngineError(
                f"no Spark Connect server at {host}:{port}: {problem}",
                hint="start one with Spark's `sbin/start-connect-server.sh`",
            )
    progress.phase("starting Spark")

    def close(session: Any) -> None:
        """End a session on the server; a clone leaves the caller's as the one of this process."""
        if options.remote is not None:
            session.stop()
        else:
            session.client.release_session()

    with _client(partial(_open, options), progress, deadline, close) as spark:
        yield spark


def _address(remote: str) -> tuple[str, int]:
    """Return the host and the port of a server. Raises: UsageError, without its token."""
    with suppress(ValueError):
        place = urlsplit(remote)
        if place.scheme == "sc" and place.hostname:
            return place.hostname, place.port or _PORT
    raise UsageError("`--remote` must be of the form sc://HOST:PORT")


@contextmanager
def _client(
    opened: Callable[[], Any],
    progress: Progress,
    deadline: Deadline,
    close: Callable[[Any], None] = lambda _: None,
) -> Iterator[Spark]:
    """Work in a session, once it is opened, and close it. Raises: as `opened`; Incomplete."""
    pool = ThreadPoolExecutor(1, thread_name_prefix="spark")
    opening = pool.submit(opened)
    try:
        while not wait([opening], POLL_SECONDS).done:
            deadline.check()
        with spark_failures():
            session = opening.result()
            jobs = ConnectJobs(session, f"icectl-{deadline.env.new_uuid()}", pool)
            session.registerProgressHandler(jobs.note)
        try:
            yield Spark(jobs, progress, deadline, pool)
        finally:
            with suppress(EngineError), spark_failures():
                jobs.leave()
            with suppress(EngineError), spark_failures():
                close(session)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def open_spark(
    options: SparkOptions, progress: Progress, deadline: Deadline
) -> AbstractContextManager[Spark]:
    """Find Spark or start it, however it is reached. Raises: as both ways do."""
    open_session = connect_session if options.is_connect else classic_session
    return open_session(options, progress, deadline)


def open_beside(
    session: Any, progress: Progress, deadline: Deadline
) -> AbstractContextManager[Spark]:
    """Work on data frames of a session, in the session itself: no other knows their plans.

    Raises: as classic_session; over Spark Connect EngineError.
    """
    options = SparkOptions(session=session)
    if options.is_connect:
        return _client(partial(with_icectl, session), progress, deadline)
    return classic_session(options, progress, deadline)


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
    """Make icectl, as far as Python reads it from an archive, an artifact; again is no harm."""
    package = Path(icectl.__file__).parent
    with tempfile.TemporaryDirectory() as folder:
        archive = Path(folder, "icectl.zip")
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
            for path in sorted(package.rglob("*")):
                if path.suffix in (".py", ".json"):
                    file.write(path, path.relative_to(package.parent))
        session.addArtifacts(str(archive), pyfile=True)


def _open(options: SparkOptions) -> Any:
    from pyspark.sql.connect.session import SparkSession

    if options.remote is not None:
        session = SparkSession.builder.remote(options.remote).create()
    elif hasattr(options.session, "cloneSession"):
        session = options.session.cloneSession()
    else:
        raise Unsupported(
            "Spark Connect has no session beside that of the caller before Spark 4.1",
            hint="`--remote` opens one, a classic session does not need it",
        )
    for key, value in options.settings:
        session.conf.set(key, value)
    for key, value in SQL_SETTINGS.items():
        session.conf.set(key, value)
    _send(session)
    return session


def _collect(frame: Any) -> list[bytes]:
    """Return the payloads of a frame of numbers and payloads, in the order of the numbers."""
    table = frame.toArrow().sort_by("number")
    payloads: list[bytes] = table["payload"].to_pylist()
    return payloads


def _run_tasks(
    kernel: Kernel, tasks: Sequence[Any], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Run a kernel on the tasks whose numbers come in, on a worker."""
    for number in _numbers(batches):
        yield _row(number, result_of(partial(kernel, tasks[number])))


def _deal_tasks(
    deal: MapFunction, tasks: Sequence[Any], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Deal out what is in the tasks whose numbers come in, on a worker."""
    for number in _numbers(batches):
        for place, payload in dealt_of(partial(deal, tasks[number])):
            yield _row(place, payload)


def _take_values(
    take: ReduceFunction, types: Sequence[type], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Take all that was dealt out to the number of this part, on a worker."""
    number = TaskAttempt.current().part
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
