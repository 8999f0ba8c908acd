"""Where steps run: in this process, one after the other, or in workers, several at a time.

A step changes settings of its process (the folder of temporary files, what a signal ends). So
steps that run at the same time have processes of their own.
"""

from collections.abc import Callable
from concurrent import futures
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Event

from icectl.catalog.protocol import PlacesByCatalog
from icectl.cli.failures import error_and_code
from icectl.cli.signals import GRACE_SECONDS, Interrupts, Terminated, ended_in_time
from icectl.commands.bill import Bill, Rates, Work
from icectl.commands.maintain.plan import (
    WORKER_ENDED,
    AssessedTable,
    Need,
    StepEnd,
    TableSize,
    WithheldStep,
)
from icectl.commands.maintain.step import Done, StepContext, StepRequest, carry_out
from icectl.env import Deadline, SystemEnv
from icectl.errors import Incomplete
from icectl.rows.spark_classic import keep_session
from icectl.rows.workers import Ask, WorkerPool

_ANSWERS = (StepEnd, AssessedTable, TableSize, Need, WithheldStep, Bill, Work, Rates)
_WAIT_SECONDS = 0.2
_ASK_SECONDS = 0.5
_GRACE_SECONDS = GRACE_SECONDS / 4
"""A worker ends its endless waits sooner than this process does, which then reports them."""

_PLACES_IN_WORKER: PlacesByCatalog = {}
"""Answers of catalogs to this process: a worker lives for one run of `maintain`."""


@dataclass(slots=True)
class StepsHere:
    """Runs steps in this process: each when its end is waited for."""

    place: StepContext
    count: int = 1
    """The number of steps that may be under way."""
    _started: list[tuple[int, StepRequest]] = field(default_factory=list)

    def start(self, number: int, job: StepRequest) -> None:
        """Keep a step, whose end `wait` returns with its number."""
        self._started.append((number, job))

    def wait(self) -> tuple[int, Done]:
        """Run the step."""
        number, job = self._started.pop(0)
        return number, carry_out(job, self.place)

    def end_spark(self) -> None:
        """Do nothing: steps on Spark have a process of their own."""

    def __enter__(self) -> "StepsHere":
        return self

    def __exit__(self, *_: object) -> None:
        self._started.clear()


@dataclass(slots=True)
class StepsInWorkers:
    """Runs steps in worker processes, `count` at a time; a context that ends what has begun.

    Steps on Spark, of which one runs at a time, have a process to themselves. It starts one session
    and keeps it: Java lives as long as the process that has started it, even if Spark is stopped.
    A first Ctrl-C calls steps off where that is safe, and waits for them; a second kills workers.
    """

    count: int
    note: Callable[[str], None]
    _stopped: Event = field(default_factory=Event)
    _ended: Event = field(default_factory=Event)
    _workers: WorkerPool = field(init=False)
    _pool: ThreadPoolExecutor | None = None
    _running: dict[Future[Done], int] = field(default_factory=dict)
    _spark: "tuple[_SparkSettings, WorkerPool] | None" = None

    def __enter__(self) -> "StepsInWorkers":
        self._pool = ThreadPoolExecutor(self.count, thread_name_prefix="icectl-maintain")
        self._workers = WorkerPool(_ANSWERS, self._check).__enter__()
        return self

    def _check(self) -> None:
        """End a worker whose result is no longer needed. Raises: Incomplete."""
        if self._ended.is_set():
            raise Incomplete("interrupted", id="interrupted")

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        assert self._pool is not None
        if self._running:
            self.note("finishing the steps in progress; interrupt again to stop at once")
        try:
            futures.wait(self._running)
        except (KeyboardInterrupt, Terminated):
            self._ended.set()
            raise
        finally:
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._workers.__exit__()
            self.end_spark()

    def start(self, number: int, job: StepRequest) -> None:
        """Start a step in a worker; `wait` returns its end with its number."""
        assert self._pool is not None
        self._running[self._pool.submit(self._call, job)] = number

    def wait(self) -> tuple[int, Done]:
        """Wait for the first step that ends; signals are seen."""
        while True:
            done, _ = futures.wait(self._running, _WAIT_SECONDS, FIRST_COMPLETED)
            for future in done:
                return self._running.pop(future), future.result()

    def _call(self, job: StepRequest) -> Done:
        """Run a step in a worker, which asks whether to go on."""
        try:
            workers = self._on_spark(job) if job.is_alone else self._workers
            (done,) = workers.call(_run, None, job, ask=lambda _: self._stopped.is_set())
        except Exception as error:  # noqa: BLE001 - the worker is gone, and with it one step
            reported, code = error_and_code(error)
            reason = f"the process of this step has ended: {reported.message}"
            return StepEnd(job.step, "failed", code, reason, reported.hint, WORKER_ENDED), None
        result: Done = done
        return result

    def _on_spark(self, job: StepRequest) -> WorkerPool:
        """Return the process of steps on Spark; other settings of Spark get a new one."""
        values = job.policy.values
        keys = sorted(key for key in values if key.partition(".")[2] in _OF_SPARK)
        settings = tuple((key, values[key].text) for key in keys)
        if self._spark is None or self._spark[0] != settings:
            self.end_spark()
            self._spark = settings, WorkerPool(_ANSWERS, self._check).__enter__()
        return self._spark[1]

    def end_spark(self) -> None:
        """End the process of steps on Spark; Java ends with it."""
        if self._spark is not None:
            self._spark[1].__exit__()
        self._spark = None


_OF_SPARK = ("master", "remote", "spark-conf")
_SparkSettings = tuple[tuple[str, object], ...]


def _run(job: StepRequest, ask: Ask) -> tuple[Done]:
    env = SystemEnv()
    asked_at = -_ASK_SECONDS
    answer = False

    def is_stopped() -> bool:
        """Ask whether to stop, not too often; without an answer, stop."""
        nonlocal asked_at, answer
        now = env.monotonic_seconds()
        if now - asked_at >= _ASK_SECONDS:
            asked_at = now
            try:
                answer = bool(ask(None))
            except (EOFError, OSError):
                answer = True
        return answer

    if job.is_alone:
        keep_session()
    interrupts = Interrupts(lambda _: None)
    place = StepContext(env, interrupts, is_stopped, _PLACES_IN_WORKER)
    deadline = Deadline(env, env.monotonic_seconds() + job.seconds_left)
    with ended_in_time(deadline, interrupts, lambda _: None, _GRACE_SECONDS):
        return (carry_out(job, place),)
