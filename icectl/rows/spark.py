"""Tasks on Spark: a session for the time of a run, however it is reached.

A kernel is a function at the top of a module, over plain values: workers import it, so that icectl
has to be installed there. What it answers crosses Spark as bytes, which are read as data (wire.py);
so are errors of icectl's, which end no task of Spark's. What tasks need beside their own values,
storage options above all, travels inside the pickled kernel, which Spark never shows.
"""

import re
import socket
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeVar

import pyarrow as pa

from icectl import __version__
from icectl.env import Deadline
from icectl.errors import EngineError, IcectlError
from icectl.progress import Progress
from icectl.rows.wire import decode_result, encode

INSTALL_PYSPARK = "`pip install 'icectl[spark]'` installs it, `--engine local` works without it"
_INSTALL_ICECTL = (
    "workers run the Python that PYSPARK_PYTHON names, and it needs icectl and what icectl needs: "
    "by the wheel on every node, an image, or an archive in `spark.archives` (docs/spark.md)"
)
_HINTS = {
    "No module named": _INSTALL_ICECTL,
    "PYTHON_VERSION_MISMATCH": "PYSPARK_PYTHON names the Python of the workers, whose minor "
    "version must be the driver's: ship it in an archive or an image "
    "(docs/spark.md)",
    "exited unexpectedly": "memory may have run out, or native code may have crashed on a damaged "
    "file, which `icectl validate --level data` names",
}
POLL_SECONDS = 0.2
_ANSWERS_WITHIN_SECONDS = 5.0
SQL_SETTINGS = {
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1",  # payloads are large
    "spark.sql.execution.arrow.useLargeVarTypes": "false",
}
_NO_WORKER, _ITS_PATH = "Error from python worker:\n", "\nPYTHONPATH was:"
_TRACE = "Traceback (most recent call last):"
_LOST_TASK = re.compile(r".*most recent failure: Lost task .*?\): (?:[\w.]+: )?")

Result = TypeVar("Result")
Kernel = Callable[[Any], Any]
MapFunction = Callable[[Any], Iterable[tuple[int, Any]]]
"""Yields numbers and values of a task."""
ReduceFunction = Callable[[int, Iterator[Any]], Any]
"""Takes all values that were dealt out to a number."""


class JobRunner(Protocol):
    """One way to run jobs in a session: classic (spark_classic.py), or Spark Connect."""

    @property
    def core_count(self) -> int:
        """The number of tasks that run at once, as far as Spark knows yet."""

    @property
    def speculates(self) -> bool:
        """Whether there may be two attempts at a task at the same time."""

    @property
    def all_ran_once(self) -> bool:
        """Whether it is known that each task of this run had one attempt."""

    def task_counts(self) -> tuple[int, int]:
        """Count the tasks of this run so far, and the failed attempts that were repeated."""

    def finished_tasks(self) -> int:
        """Count the tasks that have ended, of jobs under way at least."""

    def run(self, job: Callable[[], Result]) -> Result:
        """Run a job as one of this run's, until its tasks have ended."""

    def each(self, kernel: Kernel, tasks: Sequence[Any]) -> list[bytes]:
        """Run a kernel on each task, and return `result_of` each."""

    def shuffled(
        self,
        deal: MapFunction,
        tasks: Sequence[Any],
        take: ReduceFunction,
        count: int,
        types: Sequence[type],
    ) -> list[bytes]:
        """Deal tasks out to numbers, run `take` on each, and return `result_of` each."""

    def leave(self) -> None:
        """Let no job of this run go on in the session."""


@dataclass(frozen=True, slots=True)
class Spark:
    """A session for the time of a run. Jobs end at the time limit, and on Ctrl-C."""

    jobs: JobRunner
    progress: Progress
    deadline: Deadline
    pool: ThreadPoolExecutor

    @property
    def core_count(self) -> int:
        with spark_failures():
            return self.jobs.core_count

    @property
    def speculates(self) -> bool:
        return self.jobs.speculates

    def task_counts(self) -> tuple[int, int]:
        """Count tasks and repeats, as JobRunner does. Raises: EngineError."""
        with spark_failures():
            return self.jobs.task_counts()

    def each(
        self, kernel: Callable[[Any], Result], tasks: Sequence[Any], types: Sequence[type] = ()
    ) -> list[Result]:
        """Run a kernel on each task, and return what it returns, in which `types` may be.

        Order: that of the tasks.
        Raises: errors of the kernel that are icectl's, once all tasks have ended; EngineError;
        Incomplete.
        """
        return results(
            self.wait_for(partial(self.jobs.each, require_same_version(kernel), tasks)), types
        )

    def shuffled(
        self,
        deal: MapFunction,
        tasks: Sequence[Any],
        take: Callable[[int, Iterator[Any]], Result],
        count: int,
        types: Sequence[type] = (),
    ) -> list[Result]:
        """Deal tasks out to each number below `count`, and run `take` on all that comes to it.

        `deal` yields numbers and values of a task. `types` may be in values and in results.
        Order: that of the numbers; values of one number come in any.
        Raises: as each; Unsupported, over Spark Connect before Spark 4.1.
        """
        job = partial(
            self.jobs.shuffled,
            require_same_version(deal),
            tasks,
            require_same_version(take),
            count,
            types,
        )
        return results(self.wait_for(job), types)

    def on_rows(
        self, frame: Any, kernel: Callable[[Iterator[pa.RecordBatch]], pa.Table]
    ) -> tuple[list[pa.Table], bool]:
        """Run a kernel on the rows of each partition of a frame, one of this session.

        Second: whether it is known that each task had one attempt.
        Raises: as each.
        """

        def job() -> list[bytes]:
            from pyspark.sql.types import BinaryType, StructField, StructType

            # A type, since a text would be sent to Java to be read.
            payload = StructType([StructField("payload", BinaryType())])
            rows = frame.mapInArrow(
                partial(_on_rows, require_same_version(kernel)), payload
            ).collect()
            return [bytes(row["payload"]) for row in rows]

        tables = results(self.wait_for(job))
        with spark_failures():
            return tables, self.jobs.all_ran_once

    def wait_for(self, job: Callable[[], Result]) -> Result:
        """Return the result of a job, whose finished tasks are progress.

        Raises: EngineError; Incomplete.
        """
        future = self.pool.submit(self.jobs.run, job)
        finished = 0
        while not wait([future], POLL_SECONDS).done:
            self.deadline.check()
            with spark_failures():
                current = self.jobs.finished_tasks()
            self.progress.advance(max(current - finished, 0))
            finished = max(current, finished)
        with spark_failures():
            return future.result()


@dataclass(frozen=True, slots=True)
class TaskAttempt:
    """One of the times that Spark runs a task; no other in the session has its `unique_id`."""

    unique_id: int
    is_first: bool
    part: int

    @staticmethod
    def current() -> "TaskAttempt":
        """Return the attempt that is running, on a worker."""
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        is_first = context.attemptNumber() == 0
        return TaskAttempt(context.taskAttemptId(), is_first, context.partitionId())


def require_same_version(kernel: Callable[..., Result]) -> Callable[..., Result]:
    """Return a kernel that a worker with another version of icectl does not run.

    It would leave out what its classes have no members for, deletes of rows for instance.
    """
    return partial(_run_alike, __version__, kernel)


def _run_alike(version: str, kernel: Callable[..., Result], *arguments: Any) -> Result:
    """Run a kernel, on a worker. Raises: EngineError, for another version."""
    if version != __version__:
        raise EngineError(
            f"a worker has icectl {__version__}, and the driver {version}", hint=_INSTALL_ICECTL
        )
    return kernel(*arguments)


def batch_payload(batch: pa.RecordBatch) -> bytes:
    """Return a batch as a payload; zstd takes a quarter less of disks and networks than LZ4."""
    buffer = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=pa.Codec("zstd", compression_level=1))
    with pa.ipc.new_stream(buffer, batch.schema, options=options) as writer:
        writer.write_batch(batch)
    content: bytes = buffer.getvalue().to_pybytes()
    return content


def payload_batch(payload: bytes) -> pa.RecordBatch:
    """Return the batch of a payload."""
    return pa.ipc.open_stream(payload).read_next_batch()


def result_of(work: Callable[[], Any]) -> bytes:
    """Return what some work makes, or the error of icectl's that it ends with, as bytes."""
    try:
        return encode(work())
    except IcectlError as error:
        return encode(error)


def dealt_of(work: Callable[[], Iterable[tuple[int, Any]]]) -> Iterator[tuple[int, bytes]]:
    """Yield what some work deals out, as bytes; the first number gets the error that ends it."""
    try:
        for number, value in work():
            yield number, encode(value)
    except IcectlError as error:
        yield 0, encode(error)


def results(payloads: Iterable[bytes], types: Sequence[type] = ()) -> list[Any]:
    """Return what bytes hold that workers made. Raises: EngineError; the first error in them."""
    return [decode_result(payload, types) for payload in payloads]


def _on_rows(
    kernel: Callable[[Iterator[pa.RecordBatch]], Any], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Run a kernel on the rows of a partition, on a worker."""
    payload = result_of(partial(kernel, batches))
    yield pa.RecordBatch.from_arrays([pa.array([payload], pa.binary())], names=["payload"])


def no_answer(host: str, port: int, question: bytes = b"") -> str | None:
    """Return why nothing answers at an address within some seconds; None where something does.

    A connection is an answer, but to a question: then it is whatever comes back, its end too.
    """
    try:
        with socket.create_connection((host, port), timeout=_ANSWERS_WITHIN_SECONDS) as connection:
            if question:
                connection.sendall(question)
                connection.recv(1)
            return None
    except TimeoutError:
        return "it does not respond"
    except ConnectionResetError:
        return None
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        return (reason or str(error)).lower()


@contextmanager
def spark_failures() -> Iterator[None]:
    """Raise errors of Spark as EngineError; their text is shown, and never read for more."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except ImportError as error:  # pandas, which comes with the extra
        raise EngineError(f"Spark does not run: {error}", hint=INSTALL_PYSPARK) from error
    except (Py4JError, PySparkException, ConnectionError, EOFError) as error:
        reason = _reason(str(error)) or type(error).__name__
        hints = (hint for part, hint in _HINTS.items() if part in reason)
        raise EngineError(f"Spark failed: {reason}", hint=next(hints, None)) from error


def _reason(message: str) -> str:
    """Return the line that says what happened: the last error of a Python worker, or Java's own."""
    lines = message.splitlines()
    if _NO_WORKER in message:  # Python has ended before it took a task; what it said is in between
        output = message.rsplit(_NO_WORKER, maxsplit=1)[-1].split(_ITS_PATH, maxsplit=1)[0]
        return output.strip().rpartition("\n")[2].strip() or "no Python worker starts"
    traces = [number for number, line in enumerate(lines) if line.endswith(_TRACE)]
    if traces:
        lines = [line for line in lines[traces[-1] + 1 :] if not line.startswith(" ")]
    elif message.startswith("An error occurred while calling"):
        del lines[0]
    reason = next((line.strip(": .") for line in lines if line.strip()), "")
    return _LOST_TASK.sub("", reason)
