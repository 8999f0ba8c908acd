"""Tasks on Spark: a session for the time of a run, and kernels whose answers stay on its workers.

A kernel is a function at the top of a module, over plain values: workers import it, so that icectl
has to be installed there. What it answers crosses Spark as bytes. What tasks need beside their own
values, storage options above all, travels inside the pickled kernel, which Spark never shows.
"""

import base64
import logging
import os
import pickle
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, Any, TypeVar

import pyarrow as pa

from icectl.env import Deadline
from icectl.errors import EngineError, IcectlError
from icectl.progress import Progress

LOCAL_MASTER = "local[*]"
"""All cores of this machine."""

_LOGGER = logging.getLogger(__name__)
_PYSPARK = (4, 1)
_JAVA = 17
_INSTALL_PYSPARK = "`pip install 'icectl[spark]'` installs it, `--engine local` does without"
_INSTALL_JAVA = (
    "install a JDK, as `apt-get install openjdk-17-jre-headless` does, or set JAVA_HOME; "
    "`--engine local` does without"
)
_INSTALL_ICECTL = (
    "workers run the Python that PYSPARK_PYTHON names, and it needs icectl and what icectl needs"
)
_HINTS = {
    "No module named": _INSTALL_ICECTL,
    "exited unexpectedly": "memory may have run out, or native code may have crashed on a damaged "
    "file, which `icectl validate --level data` names",
}
_POLL_SECONDS = 0.2
_ANSWERS = pa.schema([("task_id", pa.string()), ("kind", pa.string()), ("payload", pa.binary())])
_FAILED = "failed"
_TRACE = "Traceback (most recent call last):"
_LOST_TASK = re.compile(r".*most recent failure: Lost task .*?\): (?:[\w.]+: )?")
_TASK_FAILED = re.compile(r"TaskFailed: ([A-Za-z0-9+/=]+)")

Answer = tuple[str, bytes]
"""What a kernel yields: a kind of its own choice, and a payload."""

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class SparkOptions:
    """The Spark to run on, and its settings, which may hold secrets."""

    master: str = LOCAL_MASTER
    settings: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    @property
    def is_local(self) -> bool:
        """Whether the workers are processes of this machine."""
        return self.master.startswith("local")


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
        with _translated():
            some = self.frame.filter(self.frame["kind"] == kind)
            for row in some.toLocalIterator(prefetchPartitions=True):
                yield row["task_id"], bytes(row["payload"])


class TaskFailed(Exception):
    """An error of icectl's that a task ends with, in a form that outlives the way through Java."""

    def __init__(self, error: IcectlError) -> None:
        super().__init__(base64.b64encode(pickle.dumps(error)).decode())


@dataclass(frozen=True, slots=True)
class Spark:
    """A running context. Whatever waits for it ends at the time limit, and on Ctrl-C."""

    context: Any
    progress: Progress
    deadline: Deadline
    pool: ThreadPoolExecutor
    folder: str

    @property
    def core_count(self) -> int:
        """The number of tasks that run at once, as far as Spark knows yet."""
        count: int = self.context.defaultParallelism
        return count

    @property
    def speculates(self) -> bool:
        """Whether there may be two attempts at a task at the same time."""
        found: str = self.context.getConf().get("spark.speculation", "false")
        return found.lower() == "true"

    @property
    def _session(self) -> Any:
        """Spark's SQL, which takes a while to start: only what needs it asks for it."""
        from pyspark.sql import SparkSession

        return SparkSession.builder.getOrCreate()

    def each(self, kernel: Callable[[Any], Result], tasks: Sequence[Any]) -> list[Result]:
        """Run a kernel on each task, and bring here what it makes of them.

        Order: that of the tasks.
        Raises: what the kernel raises of icectl's errors, once Spark has tried as often as it is
        set to; EngineError; Incomplete.
        """

        def job() -> list[Result]:
            """Run the kernel on Spark, and collect what it makes."""
            pieces = self.context.parallelize(tasks, len(tasks))
            found: list[Result] = pieces.mapPartitions(partial(_each, kernel)).collect()
            return found

        return self._awaited(job)

    def shuffled(
        self,
        deal: Callable[[Any], Iterable[tuple[int, Any]]],
        tasks: Sequence[Any],
        take: Callable[[int, Iterator[Any]], Result],
        count: int,
    ) -> list[Result]:
        """Deal tasks out to each number below `count`, and run `take` on all that comes to it.

        `deal` tells for each task what goes to which number.
        Order: that of the numbers; what goes to one comes in any.
        Raises: as each.
        """

        def job() -> list[Result]:
            """Deal and take on Spark, and collect what is made."""
            pieces = self.context.parallelize(tasks, len(tasks))
            dealt = pieces.mapPartitions(partial(_dealt, deal)).partitionBy(count, _as_it_is)
            found: list[Result] = dealt.mapPartitionsWithIndex(partial(_taken, take)).collect()
            return found

        return self._awaited(job)

    def run(self, kernel: Callable[[Any], Iterable[Answer]], tasks: Sequence[Any]) -> Answers:
        """Run a kernel on each task, of which there is at least one, and keep what it answers.

        Raises: what the kernel raises of icectl's errors; EngineError; Incomplete.
        """
        with _translated():
            numbers = self._session.range(0, len(tasks), 1, len(tasks))
        return self._kept(numbers, partial(_answer_tasks, kernel, tuple(tasks)), len(tasks))

    def run_on(
        self, answers: Answers, kind: str, kernel: Callable[[bytes], Iterable[Answer]]
    ) -> Answers:
        """Run a kernel on each payload of one kind, and keep what it answers.

        Raises: what the kernel raises of icectl's errors; EngineError; Incomplete.
        """
        with _translated():
            some = answers.frame.filter(answers.frame["kind"] == kind)
        return self._kept(some, partial(_answer_payloads, kernel), answers.task_count)

    def send(self, write: Callable[[IO[bytes]], None]) -> str:
        """Have what `write` writes in a file on every worker; the name for `sent`.

        Workers that come later ask for it too, so it stays until the end.
        """
        with tempfile.NamedTemporaryFile(dir=self.folder, delete=False) as file:
            write(file)
        with _translated():
            self.context.addFile(file.name)
        return Path(file.name).name

    def _kept(
        self, frame: Any, work: Callable[[Iterator[pa.RecordBatch]], Any], task_count: int
    ) -> Answers:
        def keep() -> Any:
            """Compute the answers, and keep them on the disks of the workers."""
            from pyspark import StorageLevel

            answered = frame.mapInArrow(work, "task_id string, kind string, payload binary")
            return answered.localCheckpoint(eager=True, storageLevel=StorageLevel.DISK_ONLY)

        kept = Answers(self._awaited(keep), task_count)
        for _, payload in kept.of(_FAILED):
            error: IcectlError = pickle.loads(payload)  # noqa: S301 - made by our workers
            raise error
        return kept

    def _awaited(self, job: Callable[[], Result]) -> Result:
        """The result of a job, whose finished tasks are told as progress."""
        future = self.pool.submit(job)
        finished = 0
        while not wait([future], _POLL_SECONDS).done:
            self.deadline.check()
            with _translated():
                now = self._finished_tasks()
            self.progress.advance(max(now - finished, 0))
            finished = max(now, finished)
        with _translated():
            return future.result()

    def _finished_tasks(self) -> int:
        tracker = self.context.statusTracker()
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
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


def sent(name: str) -> str:
    """Return the path of a file that `Spark.send` has sent, on a worker."""
    from pyspark import SparkFiles

    path: str = SparkFiles.get(name)
    return path


def packed(batch: pa.RecordBatch) -> bytes:
    """A batch as a payload."""
    buffer = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with pa.ipc.new_stream(buffer, batch.schema, options=options) as writer:
        writer.write_batch(batch)
    content: bytes = buffer.getvalue().to_pybytes()
    return content


def unpacked(payload: bytes) -> pa.RecordBatch:
    """The batch of a payload."""
    return pa.ipc.open_stream(payload).read_next_batch()


@contextmanager
def spark_session(options: SparkOptions, progress: Progress, deadline: Deadline) -> Iterator[Spark]:
    """Start Spark, and stop it in the end.

    Raises: EngineError, where PySpark or Java is missing or the session does not start.
    """
    check_installed()
    progress.phase("starting Spark")
    with tempfile.TemporaryFile() as log, tempfile.TemporaryDirectory() as folder:
        # Jobs run in a thread: this one stays free for signals, whose handlers PySpark would
        # replace if the main thread started the session.
        pool = ThreadPoolExecutor(1, thread_name_prefix="spark")
        starting = pool.submit(_started, options, log)
        try:
            context = _context(starting, deadline, log)
            yield Spark(context, progress, deadline, pool, folder)
        finally:
            with suppress(EngineError), _translated():
                if starting.done() and starting.exception() is None:
                    starting.result().stop()
            pool.shutdown(wait=False, cancel_futures=True)
            for line in _lines(log):
                _LOGGER.debug("%s", line)


def _context(starting: Future[Any], deadline: Deadline, log: IO[bytes]) -> Any:
    while not wait([starting], _POLL_SECONDS).done:
        deadline.check()
    try:
        with _translated():
            return starting.result()
    except EngineError as error:
        said = [line for line in _lines(log) if "rror" in line or "xception" in line]
        if not said:
            raise
        raise EngineError(f"Spark does not start: {said[0].strip()}") from error


def _started(options: SparkOptions, log: IO[bytes]) -> Any:
    """A context whose Java process writes to the log, not to the terminal."""
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    if options.is_local:
        os.environ["PYSPARK_PYTHON"] = sys.executable  # else workers run any `python3`
    else:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    conf = SparkConf(loadDefaults=False)
    conf.setAll(_settings(options).items())
    gateway = launch_gateway(conf, {"stdout": log, "stderr": log})
    return SparkContext(conf=conf, gateway=gateway)


def _settings(options: SparkOptions) -> dict[str, str]:
    """Spark's settings: ours that may be changed, the caller's, and ours that may not."""
    ours = {
        "spark.app.name": "icectl",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.python.daemon.module": "icectl.engine.spark_daemon",
    }
    if options.is_local:
        ours |= {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.local.dir": tempfile.gettempdir(),
        }
    fixed = {
        "spark.master": options.master,
        "spark.sql.execution.arrow.maxRecordsPerBatch": "1",  # payloads are large
    }
    return {**ours, **dict(options.settings), **fixed}


def check_installed() -> None:
    """Raises: EngineError, where PySpark or Java is missing or too old."""
    _check_pyspark()
    _check_java()


def _check_pyspark() -> None:
    try:
        import pyspark
    except ImportError as error:
        raise EngineError("PySpark is not installed", hint=_INSTALL_PYSPARK) from error
    version = tuple(int(part) for part in pyspark.__version__.split(".")[:2])
    if version < _PYSPARK:
        needed = ".".join(map(str, _PYSPARK))
        raise EngineError(
            f"PySpark {pyspark.__version__} is too old: {needed} or newer is needed",
            hint=_INSTALL_PYSPARK,
        )


def _check_java() -> None:
    """Look where Spark's own scripts look."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=str(Path(home, "bin"))) if home else shutil.which("java")
    if java is None:
        where = f"in JAVA_HOME, {home}" if home else "on the PATH"
        raise EngineError(
            f"Spark needs Java {_JAVA} or newer, and there is no `java` {where}",
            hint=_INSTALL_JAVA,
        )
    done = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)  # noqa: S603
    version = re.search(r'version "(?:1\.)?(\d+)', done.stderr)
    if version is None or int(version[1]) < _JAVA:
        found = f"Java {version[1]} at {java} is too old" if version else f"{java} is no Java"
        raise EngineError(
            f"{found}: Spark needs Java {_JAVA} or newer",
            hint=_INSTALL_JAVA,
        )


def _each(kernel: Callable[[Any], Result], tasks: Iterable[Any]) -> Iterator[Result]:
    """Run a kernel on some tasks, on a worker."""
    with _told():
        for task in tasks:
            yield kernel(task)


def _dealt(
    deal: Callable[[Any], Iterable[tuple[int, Any]]], tasks: Iterable[Any]
) -> Iterator[tuple[int, Any]]:
    """Deal out what is in some tasks, on a worker."""
    with _told():
        for task in tasks:
            yield from deal(task)


def _taken(
    take: Callable[[int, Iterator[Any]], Result], number: int, dealt: Iterator[tuple[int, Any]]
) -> Iterator[Result]:
    """Take all that was dealt out to a number, on a worker."""
    with _told():
        yield take(number, (value for _, value in dealt))


def _as_it_is(number: int) -> int:
    return number


@contextmanager
def _told() -> Iterator[None]:
    """Errors of icectl end a task in a form that outlives the way through Java."""
    try:
        yield
    except IcectlError as error:
        raise TaskFailed(error) from None  # what it comes from may tell secrets to Spark's log


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
    """A row for each answer; an error of icectl's is one, so that Spark does not try again."""
    try:
        for kind, payload in answers():
            yield _row(task_id, kind, payload)
    except IcectlError as error:
        yield _row(task_id, _FAILED, pickle.dumps(error))


def _row(task_id: str, kind: str, payload: bytes) -> pa.RecordBatch:
    columns = [pa.array([task_id]), pa.array([kind]), pa.array([payload], pa.binary())]
    return pa.RecordBatch.from_arrays(columns, schema=_ANSWERS)


@contextmanager
def _translated() -> Iterator[None]:
    """Errors of Spark come out as EngineError, those of icectl's that tasks end with as such."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except ImportError as error:  # pandas, which comes with the extra
        raise EngineError(f"Spark does not run: {error}", hint=_INSTALL_PYSPARK) from error
    except (Py4JError, PySparkException, ConnectionError, EOFError) as error:
        failed = _TASK_FAILED.search(str(error))
        if failed is not None:
            told: IcectlError = pickle.loads(base64.b64decode(failed[1]))  # noqa: S301 - as above
            raise told from error
        reason = _reason(str(error)) or type(error).__name__
        hints = (hint for part, hint in _HINTS.items() if part in reason)
        raise EngineError(f"Spark failed: {reason}", hint=next(hints, None)) from error


def _reason(message: str) -> str:
    """The line that says what happened: the last error of a Python worker, or Java's own."""
    lines = message.splitlines()
    traces = [number for number, line in enumerate(lines) if line.endswith(_TRACE)]
    if traces:
        lines = [line for line in lines[traces[-1] + 1 :] if not line.startswith(" ")]
    elif message.startswith("An error occurred while calling"):
        del lines[0]
    said = next((line.strip(": .") for line in lines if line.strip()), "")
    return _LOST_TASK.sub("", said)


def _lines(log: IO[bytes]) -> Sequence[str]:
    """Read what Java has written so far, by lines; its own place in the file is left alone."""
    size = os.fstat(log.fileno()).st_size
    return os.pread(log.fileno(), size, 0).decode(errors="replace").splitlines()
