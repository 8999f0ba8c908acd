"""Kernels that end in every way, on one session of icectl's engine; run by the Python of Spark.

spark_tasks.py FOLDER     prints one JSON line for each: its name, and its answers or its error
"""

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from unittest.mock import patch

from pyspark import SparkContext
from pyspark.serializers import CPickleSerializer

from icectl.env import Deadline, SystemEnv
from icectl.errors import IcectlError, StorageError
from icectl.progress import SilentProgress
from icectl.rows.spark import Spark
from icectl.rows.spark_classic import ClassicJobs, SparkOptions, classic_session
from icectl.rows.spark_orphans import Answer, answer

LONGER_THAN_ANY_TEST = 600


class Clock(SystemEnv):
    """Time that can be turned on."""

    def monotonic_seconds(self) -> float:
        """Seconds, which tests add to."""
        return super().monotonic_seconds() + ADDED[0]


ADDED = [0.0]


def squares(number: int) -> Iterator[Answer]:
    yield "square", str(number**2).encode()
    yield "cube", str(number**3).encode()


def doubles(payload: bytes) -> Iterator[Answer]:
    yield "double", str(2 * int(payload)).encode()


def fails_at_first(folder: str, number: int) -> Iterator[Answer]:
    yield "number", str(number).encode()
    attempt = len(list(Path(folder).glob(f"{number}-*")))
    (Path(folder) / f"{number}-{attempt}").touch()
    if attempt == 0:
        raise LookupError("the first attempt")
    yield "end", b""


def denied(number: int) -> Iterator[Answer]:
    yield "number", str(number).encode()
    if number == 2:
        raise StorageError("cannot list s3://b: denied", hint="ask for the right to")


def denied_one(number: int) -> int:
    return int(dict(denied(number))["number"])


def wrong(number: int) -> Iterator[Answer]:
    raise KeyError(f"number {number}")


def dies(number: int) -> Iterator[Answer]:
    os._exit(3)


def sleeps(number: int) -> Iterator[Answer]:
    time.sleep(LONGER_THAN_ANY_TEST)
    yield "awake", b""


def touches_late(path: str, _: int) -> None:
    time.sleep(3)
    Path(path).touch()


def squared_beside(spark: Spark, path: str) -> list[object]:
    """Square a number while another task of the run is still under way; whether that has ended."""

    jobs = spark.jobs
    assert isinstance(jobs, ClassicJobs)

    def beside() -> None:
        jobs.context.setJobGroup(jobs.group, "beside")
        jobs.context.parallelize([0], 1).foreach(partial(touches_late, path))

    thread = threading.Thread(target=beside)
    thread.start()
    while thread.is_alive() and not any(one and one.numActiveTasks for one in jobs.stages()):
        time.sleep(0.1)
    found = [*spark.each(abs, [-2]), Path(path).exists()]
    thread.join()
    return found


def refuse(*_: object, **__: object) -> object:
    raise AssertionError("the driver unpickles what workers answer")


def dealt(number: int) -> Iterator[tuple[int, object]]:
    yield number % 2, (number, b"a")
    if number == 3:
        raise StorageError("cannot read s3://b/3: denied", hint="ask")


def taken(number: int, values: Iterator[tuple[int, bytes]]) -> list[int]:
    return [number, *sorted(value for value, _ in values)]


def not_unpickled(spark: Spark) -> list[object]:
    """Answers of both kinds of jobs, while nothing may be unpickled here."""
    with patch.object(CPickleSerializer, "loads", refuse):
        return [spark.each(abs, [-2, 5]), spark.shuffled(dealt, [0, 1, 2], taken, 2)]


def tell(name: str, work: Callable[[], object]) -> None:
    """Print what some work returns or raises."""
    try:
        told = {"answers": work()}
    except IcectlError as error:
        told = {"error": type(error).__name__, "message": error.message, "hint": error.hint}
    except KeyboardInterrupt:
        told = {"error": "KeyboardInterrupt"}
    print(json.dumps({"name": name} | told), flush=True)


def ways(spark: Spark, folder: str) -> None:
    """Run every kernel."""
    squared = answer(spark, squares, range(3))
    tell("squares", lambda: sorted((task, int(one)) for task, one in squared.of("square")))
    doubled = squared.run("cube", doubles)
    tell("doubled cubes", lambda: sorted((task, int(one)) for task, one in doubled.of("double")))
    again = answer(spark, partial(fails_at_first, folder), range(4))
    tell("second attempts", lambda: sorted(int(one) for _, one in again.of("number")))
    tell("ends", lambda: sorted(task for task, _ in again.of("end")))
    tell("settled", lambda: squared_beside(spark, f"{folder}/late"))
    tell("not unpickled", lambda: not_unpickled(spark))
    tell("denied deal", lambda: spark.shuffled(dealt, [1, 3, 5], taken, 2))
    tell("denied each", lambda: spark.each(denied_one, [1, 2]))
    for kernel in (denied, wrong, dies):
        tell(kernel.__name__, lambda kernel=kernel: answer(spark, kernel, range(3)))
    threading.Timer(3, lambda: ADDED.append(ADDED.pop() + LONGER_THAN_ANY_TEST)).start()
    tell("late", lambda: answer(spark, sleeps, range(1)))
    ADDED[0] = 0.0
    threading.Timer(1, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    tell("interrupted", lambda: answer(spark, squares, range(3)))  # behind what sleeps


def session(master: str, work: Callable[[Spark], None]) -> None:
    """Run work on a session of its own."""
    deadline = Deadline(Clock(), Clock().monotonic_seconds() + LONGER_THAN_ANY_TEST / 2)
    # Speculation is without effect here, but for the wait for copies that were slower. Spark tells
    # of a task that starts right behind its stage only later, or after a heartbeat, unless asked.
    settings = (("spark.speculation", "true"), ("spark.ui.liveUpdate.period", "0"))
    options = SparkOptions(master, settings)
    with classic_session(options, SilentProgress(), deadline) as spark:
        work(spark)


if __name__ == "__main__":
    tell("nowhere", lambda: session("local[x]", print))
    session("local[2,2]", partial(ways, folder=sys.argv[1]))  # two attempts
    handler = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    tell("stopped", lambda: [SparkContext._active_spark_context is None, handler])
