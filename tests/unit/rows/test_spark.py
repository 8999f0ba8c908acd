"""What is missing for Spark, told before it is started."""

import pickle
import socket
import sys
import types
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from functools import partial
from threading import Thread
from types import SimpleNamespace
from typing import Any

import pytest

from icectl.cli.spark_options import spark_options
from icectl.env import Deadline
from icectl.errors import EngineError, UsageError
from icectl.progress import SilentProgress
from icectl.rows import spark
from icectl.rows.spark import Spark, _reason, dealt_of, result_of
from icectl.rows.spark_classic import ClassicJobs, SparkOptions, check_master, classic_session
from icectl.rows.spark_connect import connect_session
from tests.stores.fixed_env import FixedEnv


def failure():
    with (
        pytest.raises(EngineError) as raised,
        classic_session(SparkOptions(), SilentProgress(), Deadline(FixedEnv())),
    ):
        pass
    return raised.value


@pytest.fixture
def pyspark(monkeypatch):
    """As much of PySpark as is looked at before a session starts."""
    module = types.ModuleType("pyspark")
    module.__version__ = "4.1.4"
    monkeypatch.setitem(sys.modules, "pyspark", module)
    return module


@pytest.fixture
def java(tmp_path, monkeypatch):
    """A `java` on the PATH that says what it is told."""

    def install(says, folder=tmp_path):
        program = folder / "java"
        program.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
        program.chmod(0o755)

    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    return install


def test_pyspark_is_named_where_it_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyspark", None)
    error = failure()
    assert (error.exit_code, error.message) == (16, "PySpark is not installed")
    assert "`pip install 'icectl[spark]'`" in error.hint


def test_an_old_pyspark_is_refused(pyspark):
    pyspark.__version__ = "3.5.9"
    error = failure()
    assert error.message == "PySpark 3.5.9 is too old: 4.1 or newer is needed"
    assert "`pip install 'icectl[spark]'`" in error.hint


def test_java_is_named_where_it_is_missing(pyspark, java):
    error = failure()
    assert error.message == "Spark needs Java 17 or newer, and there is no `java` on the PATH"
    assert "install a JDK" in error.hint


def test_java_is_looked_for_in_its_home_first(pyspark, java, tmp_path, monkeypatch):
    java('openjdk version "21.0.1" 2023-10-17')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    assert failure().message == (
        f"Spark needs Java 17 or newer, and there is no `java` in JAVA_HOME, {tmp_path}/jdk"
    )
    (tmp_path / "jdk/bin").mkdir(parents=True)
    java('openjdk version "11.0.2" 2019-01-15', tmp_path / "jdk/bin")
    assert failure().message == (
        f"Java 11 at {tmp_path}/jdk/bin/java is too old: Spark needs Java 17 or newer"
    )


@pytest.mark.parametrize(
    ("says", "told"),
    [
        ('java version "1.8.0_392"', "Java 8 at {java} is too old"),
        ('openjdk version "16" 2021-03-16', "Java 16 at {java} is too old"),
        ("no such thing", "{java} is not Java"),
    ],
)
def test_java_that_is_too_old_is_refused(pyspark, java, tmp_path, says, told):
    java(says)
    expected = told.format(java=tmp_path / "java")
    assert failure().message == f"{expected}: Spark needs Java 17 or newer"


LOST = (
    "An error occurred while calling z:org.apache.spark.api.python.PythonRDD.collectAndServe.\n"
    ": org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 1.0 "
    "failed 4 times, most recent failure: Lost task 0.3 in stage 1.0 (TID 6) (192.0.2.2 executor "
    "0): org.apache.spark."
)
JAVA = "\n\tat org.apache.spark.scheduler.Task.run(Task.scala:147)\n"


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (
            f"{LOST}SparkException: Python worker exited unexpectedly (crashed).{JAVA}",
            "Python worker exited unexpectedly (crashed)",
        ),
        (
            (
                f"{LOST}api.python.PythonException: Traceback (most recent call last):\n"
                f'  File "w.py", line 3, in main\n    process()\nKeyError: 7\n{JAVA}'
            ),
            "KeyError: 7",
        ),
        (
            (
                "[X] Job failed.\nTraceback (most recent call last):\n  File\n"
                "ModuleNotFoundError: No module named 'icectl'\n"
            ),
            "ModuleNotFoundError: No module named 'icectl'",
        ),
        (
            (
                f"{LOST}SparkException: \nError from python worker:\n  Traceback:\n"
                "  /opt/bin/python: Error while finding module specification for "
                "'icectl.rows.spark_daemon' (ModuleNotFoundError: No module named 'icectl')\n"
                f"PYTHONPATH was:\n  /spark/python\njava.io.EOFException{JAVA}"
            ),
            (
                "/opt/bin/python: Error while finding module specification for "
                "'icectl.rows.spark_daemon' (ModuleNotFoundError: No module named 'icectl')"
            ),
        ),
        ("Java gateway process exited.", "Java gateway process exited"),
    ],
)
def test_of_what_spark_says_one_line_is_told(message, reason):
    assert _reason(message) == reason


@pytest.mark.parametrize(
    ("master", "told"),
    [
        ("spark://127.0.0.1:{}", "no Spark master at 127.0.0.1:{}: connection refused"),
        (
            "spark://127.0.0.1:{0},127.0.0.1:1",
            "no Spark master at 127.0.0.1:{}: connection refused",
        ),
        ("k8s://https://127.0.0.1:{}", "no Spark master at 127.0.0.1:{}: connection refused"),
        ("spark://[", "`spark://[` is not the address of a Spark master"),
        ("local-x", "`local-x` is not the address of a Spark master"),
        ("cluster:7077", "`cluster:7077` is not the address of a Spark master"),
    ],
)
def test_a_master_that_does_not_answer_is_named_before_java_starts(master, told):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        for ours in ("local", "local[*]", "local[2,3]", "local-cluster[2,1,512]", "yarn"):
            check_master(ours)
        check_master(f"k8s://127.0.0.1:1,127.0.0.1:{port}")  # one that answers is enough
    with pytest.raises(EngineError) as caught:
        check_master(master.format(port))
    assert caught.value.message == told.format(port)
    assert "spark://HOST:7077" in (caught.value.hint or "")


def test_a_master_that_only_listens_is_named_before_java_starts(monkeypatch):
    monkeypatch.setattr(spark, "_ANSWERS_WITHIN_SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as server:
        place = f"127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(EngineError, match=f"no Spark master at {place}: it does not respond"):
            check_master(f"spark://{place}")


def test_a_master_is_asked_in_a_frame_of_spark():
    asked = []

    def answer(server: socket.socket) -> None:
        """Answer as a standalone master of Spark 4.1 does."""
        connection, _ = server.accept()
        with connection:
            asked.append(connection.recv(100))
            connection.sendall(b"\0\0\0\0\0\0\0\x41\x08")

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = Thread(target=answer, args=(server,))
        thread.start()
        check_master(f"spark://127.0.0.1:{server.getsockname()[1]}")
        thread.join()
    name = b"/jars/icectl"  # TransportFrameDecoder, then Message.Type and StreamRequest.encode
    length = (8 + 1 + 4 + len(name)).to_bytes(8, "big")
    assert asked == [length + b"\x06" + len(name).to_bytes(4, "big") + name]


@pytest.mark.parametrize("master", ["local[*]", "local-cluster[1,1,512]", "yarn"])
def test_masters_without_an_address_are_left_to_spark(master):
    check_master(master)


@pytest.mark.parametrize("place", ["host:abc", "host:99999", "[bad", "/;token=word"])
def test_what_is_no_server_is_told_without_its_token(monkeypatch, place):
    monkeypatch.setitem(sys.modules, "pyspark.sql.connect.session", types.ModuleType("session"))
    for name in ("pyspark", "pyspark.sql", "pyspark.sql.connect"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    options = SparkOptions(remote=f"sc://{place}")
    with (
        pytest.raises(UsageError, match=r"^`--remote` must be of the form sc://HOST:PORT$"),
        connect_session(options, SilentProgress(), Deadline(FixedEnv())),
    ):
        pass


def test_the_token_of_a_server_is_not_shown():
    hidden: list[str] = []
    session: Any = SimpleNamespace(spark=None, console=SimpleNamespace(hide=hidden.append))
    for remote in ("sc://host/;token=word;use_ssl=true", "sc://host/token=word"):
        assert spark_options(session, None, (), remote=remote).remote == remote
    assert hidden == ["word", "word"]


def test_there_is_a_core_whatever_the_parallelism_is_set_to():
    assert ClassicJobs(SimpleNamespace(defaultParallelism=0), "folder").core_count == 1


class Workers:
    """Workers that have icectl, of some version, and run what has crossed to them."""

    def __init__(self, patch: pytest.MonkeyPatch, version: str) -> None:
        self._patch, self._version = patch, version

    def run(self, job: Callable[[], Any]) -> Any:
        return job()

    def finished_tasks(self) -> int:
        return 0

    def each(self, kernel: Any, tasks: Any) -> list[bytes]:
        sent = pickle.dumps(kernel)
        with self._patch.context() as patch:
            patch.setattr(spark, "__version__", self._version)
            return [result_of(partial(pickle.loads(sent), task)) for task in tasks]

    def shuffled(self, deal: Any, tasks: Any, *_: Any) -> list[bytes]:
        sent = pickle.dumps(deal)
        with self._patch.context() as patch:
            patch.setattr(spark, "__version__", self._version)
            return [
                payload
                for task in tasks
                for _, payload in dealt_of(partial(pickle.loads(sent), task))
            ]


@pytest.mark.parametrize("how", ["each", "shuffled"])
def test_a_worker_with_another_icectl_runs_no_task(monkeypatch, how):
    monkeypatch.setattr(spark, "spark_failures", nullcontext)

    def made(version: str) -> Any:
        with ThreadPoolExecutor(1) as pool:
            jobs: Any = Workers(monkeypatch, version)
            runs = Spark(jobs, SilentProgress(), Deadline(FixedEnv()), pool)
            if how == "each":
                return runs.each(quotient, [(7, 2)])
            return runs.shuffled(dealt, [(7, 2)], quotient, 1)

    assert made(spark.__version__) == [3 if how == "each" else 2]
    with pytest.raises(EngineError, match=r"^a worker has icectl 0\.0\.9, and the driver "):
        made("0.0.9")


def quotient(task: Any) -> int:
    return task[0] // task[1]


def dealt(task: Any) -> Any:
    yield task
