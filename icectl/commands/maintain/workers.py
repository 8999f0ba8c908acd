"""Who carries errands out: this process, one after the other, or workers, several at a time.

A step changes what belongs to a process (where temporary files lie, what a signal ends), so that
several at a time are in processes of their own.
"""

from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from threading import Event
from types import TracebackType
from typing import Protocol

from icectl.catalog.warehouse import PlacesByCatalog
from icectl.cli.failures import error_and_code
from icectl.cli.signals import Interrupts, Terminated
from icectl.cli.watchdog import GRACE_SECONDS, ended_in_time
from icectl.commands.maintain.needs_plan import Facts, Need, WithheldStep
from icectl.commands.maintain.schedule_plan import WORKER_ENDED, AssessedTable, StepEnd
from icectl.commands.maintain.step import Done, Errand, ErrandPlace, carry_out
from icectl.env import Deadline, SystemEnv
from icectl.errors import Incomplete
from icectl.rows.spark_classic import keep_session
from icectl.rows.workers import Ask, WorkerPool

_ANSWERS = (StepEnd, AssessedTable, Facts, Need, WithheldStep)
_WAIT_SECONDS = 0.2
_ASK_SECONDS = 0.5
_GRACE_SECONDS = GRACE_SECONDS / 4
"""A worker ends its endless waits sooner than this process does, which then reports them."""

_PLACES_IN_WORKER: PlacesByCatalog = {}
"""What catalogs have told this process: a worker lives for one run of `maintain`."""


class Hands(Protocol):
    """Carries errands out, as many at a time as `count`; a context that ends what it has begun."""

    @property
    def count(self) -> int:
        """The number of errands that may be under way."""

    def give(self, number: int, errand: Errand) -> None:
        """Begin an errand, whose end is told under its number."""

    def take(self) -> tuple[int, Done]:
        """Wait for the end of an errand that was begun, and return it with its number."""

    def end_spark(self) -> None:
        """End the session of Spark, if there is one: no errand needs it any more."""

    def __enter__(self) -> "Hands": ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


@dataclass(slots=True)
class OwnHands:
    """This process: an errand is carried out when its end is waited for."""

    place: ErrandPlace
    _given: list[tuple[int, Errand]] = field(default_factory=list)

    @property
    def count(self) -> int:
        """One at a time."""
        return 1

    def give(self, number: int, errand: Errand) -> None:
        """Keep an errand for `take`."""
        self._given.append((number, errand))

    def take(self) -> tuple[int, Done]:
        """Carry the errand out."""
        number, errand = self._given.pop(0)
        return number, carry_out(errand, self.place)

    def end_spark(self) -> None:
        """Do nothing: steps on Spark have a process of their own."""

    def __enter__(self) -> "OwnHands":
        return self

    def __exit__(self, *_: object) -> None:
        self._given.clear()


@dataclass(slots=True)
class WorkerHands:
    """Processes of this interpreter, each kept for the next errand.

    Errands on Spark, of which one runs at a time, have one to themselves, in which a session is
    started once and kept: the Java process of a Spark that was stopped would live on as long as the
    process that has started it.
    A first Ctrl-C calls off what is under way, where that is safe, and waits for it; a second ends
    the processes as they are.
    """

    count: int
    tell: Callable[[str], None]
    _stopped: Event = field(default_factory=Event)
    _ended: Event = field(default_factory=Event)
    _workers: WorkerPool = field(init=False)
    _pool: ThreadPoolExecutor | None = None
    _running: dict[Future[Done], int] = field(default_factory=dict)
    _spark: "tuple[_SparkSettings, WorkerPool] | None" = None

    def __enter__(self) -> "WorkerHands":
        self._pool = ThreadPoolExecutor(self.count, thread_name_prefix="icectl-maintain")
        self._workers = WorkerPool(_ANSWERS, self._check).__enter__()
        return self

    def _check(self) -> None:
        """End a worker that nobody waits for any more. Raises: Incomplete."""
        if self._ended.is_set():
            raise Incomplete("interrupted", id="interrupted")

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        assert self._pool is not None
        if self._running:
            self.tell("finishing the steps in progress; interrupt again to stop at once")
        try:
            wait(self._running)
        except (KeyboardInterrupt, Terminated):
            self._ended.set()
            raise
        finally:
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._workers.__exit__()
            self.end_spark()

    def give(self, number: int, errand: Errand) -> None:
        """Have a worker begin an errand."""
        assert self._pool is not None
        self._running[self._pool.submit(self._call, errand)] = number

    def take(self) -> tuple[int, Done]:
        """Wait for the first errand that ends; signals are seen meanwhile."""
        while True:
            done, _ = wait(self._running, _WAIT_SECONDS, FIRST_COMPLETED)
            for one in done:
                return self._running.pop(one), one.result()

    def _call(self, errand: Errand) -> Done:
        """Have a worker carry an errand out, and answer whether it is called off."""
        try:
            workers = self._on_spark(errand) if errand.is_alone else self._workers
            return self._done(workers, errand)
        except Exception as error:  # noqa: BLE001 - the worker is gone, and with it one step
            told, code = error_and_code(error)
            reason = f"the process of this step has ended: {told.message}"
            return StepEnd(errand.step, "failed", code, reason, told.hint, WORKER_ENDED), None

    def _on_spark(self, errand: Errand) -> WorkerPool:
        """Return the process of steps on Spark; where settings of Spark differ, a new one."""
        settings = _spark_settings(errand)
        if self._spark is None or self._spark[0] != settings:
            self.end_spark()
            self._spark = settings, WorkerPool(_ANSWERS, self._check).__enter__()
        return self._spark[1]

    def end_spark(self) -> None:
        """End the process of steps on Spark; Java ends with it."""
        if self._spark is not None:
            self._spark[1].__exit__()
        self._spark = None

    def _done(self, workers: WorkerPool, errand: Errand) -> Done:
        (done,) = workers.call(_work, None, errand, ask=lambda _: self._stopped.is_set())
        found: Done = done
        return found


_OF_SPARK = ("master", "remote", "spark-conf")
_SparkSettings = tuple[tuple[str, object], ...]


def _spark_settings(errand: Errand) -> _SparkSettings:
    """Return what a policy says of Spark."""
    values = errand.policy.values
    keys = sorted(key for key in values if key.partition(".")[2] in _OF_SPARK)
    return tuple((key, values[key].text) for key in keys)


def _work(errand: Errand, ask: Ask) -> tuple[Done]:
    """Carry an errand out, in a worker."""
    env = SystemEnv()
    asked_at = -_ASK_SECONDS
    answer = False

    def is_stopped() -> bool:
        """Ask whether to stop, not too often; where nobody answers any more, it is time too."""
        nonlocal asked_at, answer
        now = env.monotonic_seconds()
        if now - asked_at >= _ASK_SECONDS:
            asked_at = now
            try:
                answer = bool(ask(None))
            except (EOFError, OSError):
                answer = True
        return answer

    if errand.is_alone:
        keep_session()
    interrupts = Interrupts(lambda _: None)
    place = ErrandPlace(env, interrupts, is_stopped, _PLACES_IN_WORKER)
    deadline = Deadline(env, env.monotonic_seconds() + errand.seconds_left)
    with ended_in_time(deadline, interrupts, lambda _: None, _GRACE_SECONDS):
        return (carry_out(errand, place),)
