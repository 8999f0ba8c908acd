"""Classic Spark: a session of this process or of spark-submit that runs, or our own; its jobs.

icectl keeps the settings of a session that it did not create, and does not stop it. It runs jobs
there, and cancels them if the run ends first.
"""

import logging
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any, TypeVar
from urllib.parse import urlsplit

from icectl.env import Deadline, find_program, program_folders
from icectl.errors import EngineError
from icectl.progress import Progress
from icectl.rows.spark import (
    INSTALL_PYSPARK,
    POLL_SECONDS,
    SQL_SETTINGS,
    Kernel,
    MapFunction,
    ReduceFunction,
    Spark,
    dealt_of,
    no_answer,
    result_of,
    spark_failures,
)
from icectl.rows.wire import decode_result

Result = TypeVar("Result")

LOCAL_MASTER = "local[*]"
"""All cores of this machine."""

_LOGGER = logging.getLogger(__name__)
_PYSPARK, _PYSPARK_OF_OTHERS = (4, 1), (3, 5)
_NO_PYSPARK = "PySpark is not installed"
_JAVA = 17
_INSTALL_JAVA = (
    "install a JDK, as `apt-get install openjdk-17-jre-headless` does, or set JAVA_HOME; "
    "`--engine local` works without it"
)
_MOST_SETTLING_SECONDS = 30.0
_STREAM_REQUEST = struct.pack(">qBi12s", 25, 6, 12, b"/jars/icectl")
"""A frame of Spark's own protocol, of 25 bytes, that asks for a jar: any master says at once that
it has none."""
_MASTER_HINT = (
    "`--master` takes the address of a running cluster, as in spark://HOST:7077; `--engine local` "
    "works without Spark"
)
_EXCEPTION = re.compile(r"^(Exception in thread \S+ )?([\w.$]+Exception: )?")
"""What stands before the reason in what Java prints."""
_MASTER_PORT, _KUBERNETES_PORT = 7077, 443
_SAFE_PATH = "PYTHONSAFEPATH"
_SUBMITTED = "PYSPARK_GATEWAY_PORT"
"""Where spark-submit tells the program that it runs how to reach the driver's Java process."""


@dataclass(frozen=True, slots=True)
class SparkOptions:
    """The Spark to run on, and its settings; those named in `secret` are in no process list.

    Without a session and a master it is the one that runs already, else the cores of this machine;
    `remote` is a Spark Connect server.
    """

    master: str | None = None
    settings: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    session: Any = None
    remote: str | None = None
    secret: frozenset[str] = frozenset()

    @property
    def is_connect(self) -> bool:
        """Whether Spark is reached over Spark Connect."""
        of_session = type(self.session).__module__
        return self.remote is not None or of_session.startswith("pyspark.sql.connect")

    @property
    def own_master(self) -> str:
        return self.master or LOCAL_MASTER

    @property
    def is_local(self) -> bool:
        """Whether the workers of a session of our own are processes of this machine."""
        return self.own_master.startswith("local")


def is_submitted() -> bool:
    """Whether this process is a program of spark-submit, whose cluster is not ours to choose."""
    return _SUBMITTED in os.environ


def runs_already() -> bool:
    """Whether there is a Spark that others have made: spark-submit, or a part of this process."""
    return is_submitted() or _running() is not None


def start_submitted() -> None:
    """Start the session of a program that was submitted in cluster mode, whatever it will do.

    YARN takes a program for failed that ends without one, or needs a hundred seconds to it.
    Raises: EngineError.
    """
    _check_pyspark(_PYSPARK_OF_OTHERS)
    from pyspark import SparkConf

    with spark_failures():
        if SparkConf().get("spark.submit.deployMode", "client") == "cluster":
            _submitted()


@contextmanager
def classic_session(
    options: SparkOptions, progress: Progress, deadline: Deadline
) -> Iterator[Spark]:
    """Find Spark or start it; one of our own is stopped in the end.

    Raises: EngineError, where PySpark or Java is missing or the session does not start.
    """
    is_foreign = options.session is not None or runs_already()
    _check_pyspark(_PYSPARK_OF_OTHERS if is_foreign else _PYSPARK)
    with tempfile.TemporaryDirectory() as folder:
        # Jobs run in a thread: this one stays free for signals, whose handlers PySpark would
        # replace if the main thread started the session.
        pool = ThreadPoolExecutor(1, thread_name_prefix="spark")
        try:
            if is_foreign:
                if options.session is not None:
                    with spark_failures():
                        context = options.session.sparkContext
                else:
                    context = _running() or _awaited(pool.submit(_submitted), deadline)
                jobs = ClassicJobs(context, folder, options.session, is_own=False)
                try:
                    yield Spark(jobs, progress, deadline, pool)
                finally:
                    with suppress(EngineError), spark_failures():
                        jobs.leave()
            else:
                session = _KEEPER.take(options) or _start(options, progress, deadline, pool)
                # What is sent along must not be looked for in the folder of a run that is over.
                jobs = ClassicJobs(session.context, folder, is_own=not _KEEPER.is_on)
                try:
                    yield Spark(jobs, progress, deadline, pool)
                finally:
                    is_done = False  # unless nothing goes on there, nor may do so unseen
                    with suppress(EngineError), spark_failures():
                        is_done = not jobs.speculates and jobs.all_succeeded()
                    _KEEPER.give_back(session, is_done=is_done)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


@dataclass(frozen=True, slots=True)
class ClassicJobs:
    """Jobs in a running context, whose `session` is that of others unless it `is_own`.

    `folder` is the run's own, for files that are sent along.
    """

    context: Any
    folder: str
    session: Any = None
    is_own: bool = True

    @property
    def group(self) -> str:
        """The group of this run's jobs, of which there is no other in the session."""
        return f"icectl-{Path(self.folder).name}"

    @property
    def is_local(self) -> bool:
        master: str = self.context.master
        return master.startswith("local") and not master.startswith("local-cluster")

    def sql(self) -> Any:
        """Return Spark's SQL with settings of our own, whatever the session's are.

        It takes a while to start: only what needs it asks for it.
        """
        from pyspark.sql import SparkSession

        session = (self.session or SparkSession.builder.getOrCreate()).newSession()
        for key, value in SQL_SETTINGS.items():
            session.conf.set(key, value)
        return session

    @property
    def core_count(self) -> int:
        count: int = self.context.defaultParallelism
        return max(count, 1)  # a setting, which may be 0

    @property
    def speculates(self) -> bool:
        conf = self.context._conf  # noqa: SLF001 - getConf asks for every setting by itself
        setting: str = conf.get("spark.speculation", "false")
        return setting.lower() == "true"

    @property
    def all_ran_once(self) -> bool:
        """Whether no task or stage of this run was tried again, and Spark remembers all."""
        return not self.speculates and all(
            stage is not None and not stage.numFailedTasks and not stage.currentAttemptId
            for stage in self.stages()
        )

    def task_counts(self) -> tuple[int, int]:
        # A stage that was repeated as a whole counts for one.
        stages = [stage for stage in self.stages() if stage is not None]
        repeats = sum(stage.numFailedTasks + stage.currentAttemptId for stage in stages)
        return sum(stage.numTasks for stage in stages), repeats

    def finished_tasks(self) -> int:
        """Count the finished tasks of stages that run."""
        tracker = self.context.statusTracker()
        running = set(tracker.getJobIdsForGroup(self.group)) & set(tracker.getActiveJobsIds())
        jobs = [tracker.getJobInfo(job) for job in running]
        ours = {stage for job in jobs if job is not None for stage in job.stageIds}
        stages = [tracker.getStageInfo(stage) for stage in ours & set(tracker.getActiveStageIds())]
        return sum(stage.numCompletedTasks for stage in stages if stage is not None)

    def run(self, job: Callable[[], Result]) -> Result:
        self.context.setJobGroup(self.group, "icectl")
        result = job()
        if self.speculates:
            self.settle()
        return result

    def each(self, kernel: Kernel, tasks: Sequence[Any]) -> list[bytes]:
        pieces = self.context.parallelize(tasks, len(tasks))
        return _collect(pieces.mapPartitions(partial(_run_tasks, kernel)))

    def shuffled(
        self,
        deal: MapFunction,
        tasks: Sequence[Any],
        take: ReduceFunction,
        count: int,
        types: Sequence[type],
    ) -> list[bytes]:
        pieces = self.context.parallelize(tasks, len(tasks))
        dealt = pieces.mapPartitions(partial(_deal_tasks, deal)).partitionBy(count, _unchanged)
        return _collect(dealt.mapPartitionsWithIndex(partial(_take_values, take, types)))

    def leave(self) -> None:
        """Cancel what is left of this run's jobs, and wait for the end of their tasks."""
        if not self.all_succeeded():
            self.context.cancelJobGroup(self.group)
            self.settle()

    def all_succeeded(self) -> bool:
        tracker = self.context.statusTracker()
        jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(self.group)]
        return all(job is None or job.status == "SUCCEEDED" for job in jobs)

    def settle(self) -> None:
        """Wait until the tasks of this run have ended, though not for ever.

        One that was cancelled, or whose copy was faster, may still write for a while.
        """
        ends_at = time.monotonic() + _MOST_SETTLING_SECONDS
        while any(stage is not None and stage.numActiveTasks for stage in self.stages()):
            if time.monotonic() > ends_at:
                return
            time.sleep(POLL_SECONDS)

    def stages(self) -> list[Any]:
        """Return the stages of this run's jobs, None for one that Spark remembers no more."""
        tracker = self.context.statusTracker()
        jobs = map(tracker.getJobInfo, tracker.getJobIdsForGroup(self.group))
        ids = {stage for job in jobs if job is not None for stage in job.stageIds}
        return [tracker.getStageInfo(stage) for stage in ids]


@dataclass(frozen=True, slots=True)
class _OwnSession:
    """A context of our own, the settings that it was started with, and what Java has to say."""

    context: Any
    settings: Mapping[str, str]
    log: IO[bytes]

    def stop(self) -> None:
        with suppress(EngineError), spark_failures():
            self.context.stop()
        _end_log(self.log)


@dataclass(slots=True)
class _Keeper:
    """The session that outlives its run, where this process is to keep one."""

    is_on: bool = False
    _session: _OwnSession | None = None

    def take(self, options: SparkOptions) -> _OwnSession | None:
        """Hand over the session that is kept; one with other settings is stopped."""
        session, self._session = self._session, None
        if session is None or session.settings == _settings(options):
            return session
        session.stop()
        return None

    def give_back(self, session: _OwnSession, *, is_done: bool) -> None:
        """Keep a session for the next run, unless something of this one may go on in it."""
        if self.is_on and is_done:
            self._session = session
        else:
            session.stop()

    def end(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.stop()


_KEEPER = _Keeper()  # as there is one Spark in a process, there is one that keeps it


def keep_session() -> None:
    """Let a session of our own serve all runs of this process that have the same settings."""
    _KEEPER.is_on = True


@contextmanager
def kept_session() -> Iterator[None]:
    """Keep a session as keep_session does, until the end of the block."""
    keep_session()
    try:
        yield
    finally:
        _KEEPER.is_on = False
        _KEEPER.end()


def _start(
    options: SparkOptions, progress: Progress, deadline: Deadline, pool: ThreadPoolExecutor
) -> _OwnSession:
    """Start a context of our own. Raises: EngineError; Incomplete."""
    installed_java()
    progress.phase("starting Spark")
    check_master(options.own_master)
    log = tempfile.TemporaryFile()  # noqa: SIM115 - Java writes to it as long as it runs
    starting = pool.submit(_start_context, options, log)
    try:
        try:
            context = _awaited(starting, deadline)
        except EngineError as error:
            if "stopped SparkContext" in error.message:
                raise EngineError(
                    f"the Spark master {options.own_master} accepts no application",
                    hint="check the master's log, and that its Spark has PySpark's version",
                ) from error
            lines = _lines(log)
            errors = [line for line in lines if "xception" in line] or [
                line for line in lines if "rror" in line
            ]
            if not errors:
                raise
            reason = _EXCEPTION.sub("", errors[0].strip())
            raise EngineError(f"Spark does not start: {reason}", hint=_MASTER_HINT) from error
        return _OwnSession(context, _settings(options), log)
    except BaseException:
        with suppress(EngineError), spark_failures():
            if starting.done() and starting.exception() is None:
                starting.result().stop()
        _end_log(log)
        raise


def _end_log(log: IO[bytes]) -> None:
    for line in _lines(log):
        _LOGGER.debug("%s", line)
    log.close()


def _running() -> Any:
    """Return the context of this process; None where there is none: getOrCreate would make one."""
    context_class = getattr(sys.modules.get("pyspark"), "SparkContext", None)
    return None if context_class is None else context_class._active_spark_context  # noqa: SLF001 - see above


def _submitted() -> Any:
    from pyspark import SparkConf, SparkContext

    return SparkContext.getOrCreate(SparkConf())


def _awaited(starting: Future[Any], deadline: Deadline) -> Any:
    while not wait([starting], POLL_SECONDS).done:
        deadline.check()
    with spark_failures():
        return starting.result()


def check_master(master: str) -> None:
    """Look whether one of the addresses of a master answers: Spark would try for a minute.

    Raises: EngineError.
    """
    scheme, _, addresses = master.partition("://")
    if not addresses and not re.fullmatch(r"local(\[.*\]|-cluster\[.*\])?|yarn", master):
        raise EngineError(f"`{master}` is not the address of a Spark master", hint=_MASTER_HINT)
    if scheme not in ("spark", "k8s"):
        return
    problems = {}
    for one in addresses.rpartition("://")[2].split(","):
        try:
            place = urlsplit(f"//{one}")
            port = place.port or (_MASTER_PORT if scheme == "spark" else _KUBERNETES_PORT)
        except ValueError as error:
            raise EngineError(
                f"`{master}` is not the address of a Spark master", hint=_MASTER_HINT
            ) from error
        question = _STREAM_REQUEST if scheme == "spark" else b""
        problem = no_answer(place.hostname or "", port, question)
        if problem is None:
            return
        problems[f"{place.hostname}:{port}"] = problem
    address, problem = next(iter(problems.items()))
    raise EngineError(f"no Spark master at {address}: {problem}", hint=_MASTER_HINT)


def _start_context(options: SparkOptions, log: IO[bytes]) -> Any:
    """Return a context whose Java process writes to the log, not to the terminal."""
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    if options.is_local:
        os.environ["PYSPARK_PYTHON"] = sys.executable  # else workers run any `python3`
    else:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    _leave_working_directory_out()
    conf, of_start = SparkConf(loadDefaults=False), SparkConf(loadDefaults=False)
    for key, value in _settings(options).items():
        conf.set(key, value)
        if key not in options.secret:  # the command line of Java is for all to read
            of_start.set(key, value)
    gateway = launch_gateway(of_start, {"stdout": log, "stderr": log})
    return SparkContext(conf=conf, gateway=gateway)


def _leave_working_directory_out() -> None:
    """Have Spark's scripts and the Python of its workers run nothing that lies where icectl runs.

    Java and workers of this machine inherit the environment. PySpark looks for Spark beside the
    working directory first, unless it is named.
    """
    import pyspark

    package = Path(pyspark.__file__).resolve().parent
    for folder in (package / "spark-distribution", package, package.parent.parent):
        if (folder / "bin" / "spark-submit").is_file():
            os.environ.setdefault("SPARK_HOME", str(folder))
    os.environ["PATH"] = os.pathsep.join(program_folders())
    os.environ[_SAFE_PATH] = "1"
    if "PYTHONPATH" in os.environ:
        folders = os.environ["PYTHONPATH"].split(os.pathsep)
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(os.path.isabs, folders))


def _settings(options: SparkOptions) -> dict[str, str]:
    """Spark's settings: ours that may be changed, the caller's, and ours that may not."""
    ours = {
        "spark.app.name": "icectl",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.python.daemon.module": "icectl.rows.spark_daemon",
    }
    if options.is_local:
        ours |= {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.local.dir": tempfile.gettempdir(),
        }
    fixed = {"spark.master": options.own_master, f"spark.executorEnv.{_SAFE_PATH}": "1"}
    return {**ours, **dict(options.settings), **fixed}


def missing_prerequisite() -> str | None:
    """What Spark lacks on this machine, as far as a look tells: nothing is imported, nothing run.

    What is there may still be too old, or no good: check_installed tries.
    """
    module = sys.modules.get("pyspark", find_spec)
    if module is None or (module is find_spec and find_spec("pyspark") is None):
        return _NO_PYSPARK
    try:
        _java()
    except EngineError as error:
        return error.message
    return None


def check_installed() -> None:
    """Raises: EngineError, where PySpark or Java is missing or too old for a session of our own."""
    _check_pyspark(_PYSPARK)
    installed_java()


def _check_pyspark(least: tuple[int, int]) -> None:
    try:
        import pyspark
    except ImportError as error:
        raise EngineError(_NO_PYSPARK, hint=INSTALL_PYSPARK) from error
    version = tuple(int(part) for part in pyspark.__version__.split(".")[:2])
    if version < least:
        needed = ".".join(map(str, least))
        raise EngineError(
            f"PySpark {pyspark.__version__} is too old: {needed} or newer is needed",
            hint=INSTALL_PYSPARK,
        )


def _java() -> str:
    """Look where Spark's own scripts look. Raises: EngineError, where there is no Java."""
    java_home = os.environ.get("JAVA_HOME")
    path = str(Path(java_home, "bin")) if java_home else None
    java = shutil.which("java", path=path) if java_home else find_program("java")
    if java is None:
        where = f"in JAVA_HOME, {java_home}" if java_home else "on the PATH"
        message = f"Spark needs Java {_JAVA} or newer, and there is no `java` {where}"
        raise EngineError(message, hint=_INSTALL_JAVA)
    return java


def installed_java() -> tuple[str, str]:
    """Return the version of Java and its path. Raises: EngineError, where it is too old."""
    java = _java()
    output = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)  # noqa: S603
    version = re.search(r'version "(?:1\.)?(\d+)', output.stderr)
    if version is None or int(version[1]) < _JAVA:
        problem = f"Java {version[1]} at {java} is too old" if version else f"{java} is not Java"
        raise EngineError(f"{problem}: Spark needs Java {_JAVA} or newer", hint=_INSTALL_JAVA)
    return version[1], java


def _lines(log: IO[bytes]) -> Sequence[str]:
    """Read what Java has written so far, by lines; its own place in the file is left alone."""
    size = os.fstat(log.fileno()).st_size
    return os.pread(log.fileno(), size, 0).decode(errors="replace").splitlines()


def _collect(frame: Any) -> list[bytes]:
    """Bring here bytes that tasks make.

    They cross in frames: else PySpark would pickle them there and unpickle here what comes.
    """
    frame._bypass_serializer = True  # noqa: SLF001 - there is no public name for that
    payloads: list[bytes] = frame.collect()
    return payloads


def _run_tasks(kernel: Kernel, tasks: Iterable[Any]) -> Iterator[bytes]:
    """Run a kernel on some tasks, on a worker."""
    for task in tasks:
        yield result_of(partial(kernel, task))


def _deal_tasks(deal: MapFunction, tasks: Iterable[Any]) -> Iterator[tuple[int, bytes]]:
    """Deal out what is in some tasks, on a worker."""
    for task in tasks:
        yield from dealt_of(partial(deal, task))


def _take_values(
    take: ReduceFunction, types: Sequence[type], number: int, dealt: Iterator[tuple[int, bytes]]
) -> Iterator[bytes]:
    """Take all that was dealt out to a number, on a worker."""
    values = (decode_result(payload, types) for _, payload in dealt)
    yield result_of(partial(take, number, values))


def _unchanged(number: int) -> int:
    return number
