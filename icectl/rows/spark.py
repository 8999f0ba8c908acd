"""Tasks on Spark: a session for the time of a run, and kernels whose answers stay on its workers.

A kernel is a function at the top of a module, over plain values: workers import it, so that icectl
has to be installed there. What it answers crosses Spark as bytes, which are read as data (wire.py);
so are errors of icectl's, which end no task of Spark's. What tasks need beside their own values,
storage options above all, travels inside the pickled kernel, which Spark never shows.
"""

import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

import pyarrow as pa

from icectl.env import Deadline
from icectl.errors import EngineError, IcectlError
from icectl.progress import Progress
from icectl.rows.wire import decode_result, encode

INSTALL_PYSPARK = "`pip install 'icectl[spark]'` installs it, `--engine local` does without"
_INSTALL_ICECTL = (
    "workers run the Python that PYSPARK_PYTHON names, and it needs icectl and what icectl needs: "
    "by the wheel on every node, an image, or an archive in `spark.archives` (docs/spark.md)"
)
_HINTS = {
    "No module named": _INSTALL_ICECTL,
    "PYTHON_VERSION_MISMATCH": "PYSPARK_PYTHON names the Python of the workers, whose minor "
    "version has to be the driver's: an archive or an image brings both (docs/spark.md)",
    "exited unexpectedly": "memory may have run out, or native code may have crashed on a damaged "
    "file, which `icectl validate --level data` names",
}
POLL_SECONDS = 0.2
_MOST_SETTLING_SECONDS = 30.0
SQL_SETTINGS = {
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1",  # payloads are large
    "spark.sql.execution.arrow.useLargeVarTypes": "false",
}
_ANSWERS = pa.schema([("task_id", pa.string()), ("kind", pa.string()), ("payload", pa.binary())])
_FAILED = "failed"
_NO_WORKER, _ITS_PATH = "Error from python worker:\n", "\nPYTHONPATH was:"
_TRACE = "Traceback (most recent call last):"
_LOST_TASK = re.compile(r".*most recent failure: Lost task .*?\): (?:[\w.]+: )?")

Answer = tuple[str, bytes]
"""What a kernel yields: a kind of its own choice, and a payload."""

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Answers:
    """The answers of a kernel to every task, kept on the disks of the workers.

    They are never computed again: a worker that is lost with its answers fails the run.
    """

    frame: Any
    task_count: int

    def of(self, kind: str) -> Iterator[tuple[str, bytes]]:
        """Task ids and payloads of one kind, brought here one partition after the other.

        Raises: EngineError.
        """
        with spark_failures():
            some = self.frame.filter(self.frame["kind"] == kind)
            for row in some.toLocalIterator(prefetchPartitions=True):
                yield row["task_id"], bytes(row["payload"])


class SparkWorkers(Protocol):
    """What runs kernels on tasks, however Spark is reached."""

    @property
    def progress(self) -> Progress:
        """The receiver of finished tasks."""

    @property
    def core_count(self) -> int:
        """The number of tasks that run at once, as far as Spark knows yet."""

    @property
    def speculates(self) -> bool:
        """Whether there may be two attempts at a task at the same time."""

    def task_counts(self) -> tuple[int, int]:
        """Count the tasks of this run so far, and the failed attempts that were repeated."""

    def each(
        self, kernel: Callable[[Any], Result], tasks: Sequence[Any], types: Sequence[type] = ()
    ) -> list[Result]:
        """Run a kernel on each task, and bring here what it makes of them.

        There may be dataclasses of these types in it.
        """

    def shuffled(
        self,
        deal: Callable[[Any], Iterable[tuple[int, Any]]],
        tasks: Sequence[Any],
        take: Callable[[int, Iterator[Any]], Result],
        count: int,
        types: Sequence[type] = (),
    ) -> list[Result]:
        """Deal tasks out to each number below `count`, and run `take` on all that comes to it.

        There may be dataclasses of these types in what is dealt and what is made of it.
        """


@dataclass(frozen=True, slots=True)
class Spark:
    """A running context. Whatever waits for it ends at the time limit, and on Ctrl-C."""

    context: Any
    progress: Progress
    deadline: Deadline
    pool: ThreadPoolExecutor
    folder: str
    session: Any = None
    is_own: bool = True

    @property
    def group(self) -> str:
        """The group of this run's jobs, of which there is no other in the session."""
        return f"icectl-{Path(self.folder).name}"

    @property
    def is_local(self) -> bool:
        """Whether the workers are processes of this machine."""
        master: str = self.context.master
        return master.startswith("local") and not master.startswith("local-cluster")

    @property
    def core_count(self) -> int:
        """The number of tasks that run at once, as far as Spark knows yet."""
        count: int = self.context.defaultParallelism
        return count

    @property
    def speculates(self) -> bool:
        """Whether there may be two attempts at a task at the same time."""
        conf = self.context._conf  # noqa: SLF001 - getConf asks for every setting by itself
        found: str = conf.get("spark.speculation", "false")
        return found.lower() == "true"

    @property
    def _session(self) -> Any:
        """Spark's SQL with settings of our own, whatever the session's are.

        It takes a while to start: only what needs it asks for it.
        """
        from pyspark.sql import SparkSession

        session = (self.session or SparkSession.builder.getOrCreate()).newSession()
        for key, value in SQL_SETTINGS.items():
            session.conf.set(key, value)
        return session

    def each(
        self, kernel: Callable[[Any], Result], tasks: Sequence[Any], types: Sequence[type] = ()
    ) -> list[Result]:
        """Run a kernel on each task, and bring here what it makes of them.

        There may be dataclasses of these types in it. Order: that of the tasks.
        Raises: what the kernel raises of icectl's errors, once all tasks have ended; EngineError;
        Incomplete.
        """

        def job() -> list[bytes]:
            """Run the kernel on Spark, and collect what it makes."""
            pieces = self.context.parallelize(tasks, len(tasks))
            return _collected(pieces.mapPartitions(partial(_each, kernel)))

        return results(self._awaited(job), types)

    def shuffled(
        self,
        deal: Callable[[Any], Iterable[tuple[int, Any]]],
        tasks: Sequence[Any],
        take: Callable[[int, Iterator[Any]], Result],
        count: int,
        types: Sequence[type] = (),
    ) -> list[Result]:
        """Deal tasks out to each number below `count`, and run `take` on all that comes to it.

        `deal` tells for each task what goes to which number. There may be dataclasses of these
        types in it, and in what is made of it.
        Order: that of the numbers; what goes to one comes in any.
        Raises: as each.
        """

        def job() -> list[bytes]:
            """Deal and take on Spark, and collect what is made."""
            pieces = self.context.parallelize(tasks, len(tasks))
            dealt = pieces.mapPartitions(partial(_dealt, deal)).partitionBy(count, _as_it_is)
            return _collected(dealt.mapPartitionsWithIndex(partial(_taken, take, types)))

        return results(self._awaited(job), types)

    def on_rows(
        self, frame: Any, kernel: Callable[[Iterator[pa.RecordBatch]], pa.Table]
    ) -> tuple[list[pa.Table], bool]:
        """Run a kernel on the rows of each partition of a frame; second: whether each task did it
        at once, and no other attempt at one can have been.

        Raises: as each.
        """
        found = results(self._awaited(partial(made_of_rows, frame, kernel)))
        with spark_failures():
            return found, not self.speculates and not self._has_failed_tasks()

    def _has_failed_tasks(self) -> bool:
        """Return whether a task or a stage of this run was tried again."""
        return any(
            stage is None or stage.numFailedTasks or stage.currentAttemptId
            for stage in self._stages()
        )

    def _stages(self) -> list[Any]:
        """Return the stages of this run's jobs, None for one that Spark remembers no more."""
        tracker = self.context.statusTracker()
        jobs = map(tracker.getJobInfo, tracker.getJobIdsForGroup(self.group))
        ids = {stage for job in jobs if job is not None for stage in job.stageIds}
        return [tracker.getStageInfo(stage) for stage in ids]

    def settle(self) -> None:
        """Wait until no task of this run runs any more, though not for ever.

        One that was cancelled, or whose copy was faster, may still write for a while.
        Raises: EngineError.
        """
        ends_at = time.monotonic() + _MOST_SETTLING_SECONDS
        with spark_failures():
            while any(stage is not None and stage.numActiveTasks for stage in self._stages()):
                if time.monotonic() > ends_at:
                    return
                time.sleep(POLL_SECONDS)

    def run(self, kernel: Callable[[Any], Iterable[Answer]], tasks: Sequence[Any]) -> Answers:
        """Run a kernel on each task, of which there is at least one, and keep what it answers.

        Raises: what the kernel raises of icectl's errors; EngineError; Incomplete.
        """
        with spark_failures():
            numbers = self._session.range(0, len(tasks), 1, len(tasks))
        return self._kept(numbers, partial(_answer_tasks, kernel, tuple(tasks)), len(tasks))

    def run_on(
        self, answers: Answers, kind: str, kernel: Callable[[bytes], Iterable[Answer]]
    ) -> Answers:
        """Run a kernel on each payload of one kind, and keep what it answers.

        Raises: what the kernel raises of icectl's errors; EngineError; Incomplete.
        """
        with spark_failures():
            some = answers.frame.filter(answers.frame["kind"] == kind)
        return self._kept(some, partial(_answer_payloads, kernel), answers.task_count)

    def _kept(
        self, frame: Any, work: Callable[[Iterator[pa.RecordBatch]], Any], task_count: int
    ) -> Answers:
        def keep() -> Any:
            """Compute the answers, and keep them on the disks of the workers."""
            answered = frame.mapInArrow(work, "task_id string, kind string, payload binary")
            return answered.localCheckpoint(eager=True, **_on_disks())

        kept = Answers(self._awaited(keep), task_count)
        for _, payload in kept.of(_FAILED):
            decode_result(payload)  # raises it
        return kept

    def _awaited(self, job: Callable[[], Result]) -> Result:
        """Return the result of a job, whose finished tasks are told as progress."""

        def grouped() -> Result:
            """Run the job as one of this run's."""
            self.context.setJobGroup(self.group, "icectl")
            return job()

        future = self.pool.submit(grouped)
        finished = 0
        while not wait([future], POLL_SECONDS).done:
            self.deadline.check()
            with spark_failures():
                now = self._finished_tasks()
            self.progress.advance(max(now - finished, 0))
            finished = max(now, finished)
        if self.speculates:
            self.settle()
        with spark_failures():
            return future.result()

    def task_counts(self) -> tuple[int, int]:
        """Count the tasks of this run so far, and the failed attempts that were repeated.

        A stage that was repeated as a whole counts for one.
        Raises: EngineError.
        """
        with spark_failures():
            stages = [stage for stage in self._stages() if stage is not None]
        repeats = sum(stage.numFailedTasks + stage.currentAttemptId for stage in stages)
        return sum(stage.numTasks for stage in stages), repeats

    def _finished_tasks(self) -> int:
        tracker = self.context.statusTracker()
        running = set(tracker.getJobIdsForGroup(self.group)) & set(tracker.getActiveJobsIds())
        jobs = [tracker.getJobInfo(job) for job in running]
        ours = {stage for job in jobs if job is not None for stage in job.stageIds}
        stages = [tracker.getStageInfo(stage) for stage in ours & set(tracker.getActiveStageIds())]
        return sum(stage.numCompletedTasks for stage in stages if stage is not None)


@dataclass(frozen=True, slots=True)
class TaskAttempt:
    """One of the times that Spark runs a task; no other in the session has its `unique_id`."""

    unique_id: int
    is_first: bool

    @staticmethod
    def current() -> "TaskAttempt":
        """Return the attempt that is running, on a worker."""
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        return TaskAttempt(context.taskAttemptId(), context.attemptNumber() == 0)


def _on_disks() -> dict[str, Any]:
    """Return where checkpoints go; Spark 3 knows but memory first, and then disks."""
    import pyspark

    if pyspark.__version__.startswith("3."):
        return {}
    return {"storageLevel": pyspark.StorageLevel.DISK_ONLY}


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


def _collected(made: Any) -> list[bytes]:
    """Bring here bytes that tasks make.

    They cross in frames: else PySpark would pickle them there and unpickle here what comes.
    """
    made._bypass_serializer = True  # noqa: SLF001 - there is no public name for that
    found: list[bytes] = made.collect()
    return found


def _each(kernel: Callable[[Any], Any], tasks: Iterable[Any]) -> Iterator[bytes]:
    """Run a kernel on some tasks, on a worker."""
    for task in tasks:
        yield result_of(partial(kernel, task))


def _dealt(
    deal: Callable[[Any], Iterable[tuple[int, Any]]], tasks: Iterable[Any]
) -> Iterator[tuple[int, bytes]]:
    """Deal out what is in some tasks, on a worker."""
    for task in tasks:
        yield from dealt_of(partial(deal, task))


def _taken(
    take: Callable[[int, Iterator[Any]], Any],
    types: Sequence[type],
    number: int,
    dealt: Iterator[tuple[int, bytes]],
) -> Iterator[bytes]:
    """Take all that was dealt out to a number, on a worker."""
    values = (decode_result(payload, types) for _, payload in dealt)
    yield result_of(partial(take, number, values))


def _as_it_is(number: int) -> int:
    return number


def made_of_rows(frame: Any, kernel: Callable[[Iterator[pa.RecordBatch]], pa.Table]) -> list[bytes]:
    """Run a kernel on the rows of each partition of a frame, and collect what it makes."""
    from pyspark.sql.types import BinaryType, StructField, StructType

    # A type, since a text would be sent to Java to be read.
    payload = StructType([StructField("payload", BinaryType())])
    made = frame.mapInArrow(partial(_on_rows, kernel), payload).collect()
    return [bytes(row["payload"]) for row in made]


def _on_rows(
    kernel: Callable[[Iterator[pa.RecordBatch]], Any], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Run a kernel on the rows of a partition, on a worker."""
    payload = result_of(partial(kernel, batches))
    yield pa.RecordBatch.from_arrays([pa.array([payload], pa.binary())], names=["payload"])


def _answer_tasks(
    kernel: Callable[[Any], Iterable[Answer]],
    tasks: Sequence[Any],
    batches: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """Answer the tasks whose numbers come in, on a worker."""
    for batch in batches:
        for number in batch["id"].to_pylist():
            yield from _rows(str(number), partial(kernel, tasks[number]))


def _answer_payloads(
    kernel: Callable[[bytes], Iterable[Answer]], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Answer the payloads that come in, on a worker."""
    for batch in batches:
        for task_id, payload in zip(batch["task_id"], batch["payload"], strict=True):
            yield from _rows(task_id.as_py(), partial(kernel, payload.as_py()))


def _rows(task_id: str, answers: Callable[[], Iterable[Answer]]) -> Iterator[pa.RecordBatch]:
    """Yield a row for each answer.

    An error of icectl's is one, so that Spark does not try again.
    """
    try:
        for kind, payload in answers():
            yield _row(task_id, kind, payload)
    except IcectlError as error:
        yield _row(task_id, _FAILED, encode(error))


def _row(task_id: str, kind: str, payload: bytes) -> pa.RecordBatch:
    columns = [pa.array([task_id]), pa.array([kind]), pa.array([payload], pa.binary())]
    return pa.RecordBatch.from_arrays(columns, schema=_ANSWERS)


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
        told_by_python = message.rsplit(_NO_WORKER, maxsplit=1)[-1].split(_ITS_PATH, maxsplit=1)[0]
        return told_by_python.strip().rpartition("\n")[2].strip() or "no Python worker starts"
    traces = [number for number, line in enumerate(lines) if line.endswith(_TRACE)]
    if traces:
        lines = [line for line in lines[traces[-1] + 1 :] if not line.startswith(" ")]
    elif message.startswith("An error occurred while calling"):
        del lines[0]
    said = next((line.strip(": .") for line in lines if line.strip()), "")
    return _LOST_TASK.sub("", said)
