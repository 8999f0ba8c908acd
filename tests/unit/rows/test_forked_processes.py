"""Workers forked from a copy of the process that calls them: apart from it, and ended with it."""

import json
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from icectl.errors import EngineError
from icectl.rows import workers
from icectl.rows.forked_processes import ForkedProcess, Starter
from icectl.rows.workers import KernelCrashed, WorkerPool, prepared_workers

ROOT = Path(__file__).parents[3]
MARK = "imported-before"
BURNED_SECONDS = 0.4


def identity():
    """Numbers of a worker, its parent and its session, its open files, what it has imported."""
    files = [int(path.name) for path in Path("/proc/self/fd").iterdir()]
    yield [os.getpid(), os.getppid(), os.getsid(0), len(files), MARK in sys.modules]


def handlers():
    yield [int(signal.getsignal(number)) for number in (signal.SIGINT, signal.SIGTERM)]


def places_of_modules():
    yield sys.path


def ends_by(number):
    os.kill(os.getpid(), number)
    yield None


def leaves():
    os._exit(7)


def hides(ask):
    """Close the line, and go on."""
    line = ask.__closure__[0].cell_contents
    os.close(line.fileno())
    time.sleep(60)
    yield None


def burns():
    until = time.process_time() + BURNED_SECONDS
    while time.process_time() < until:
        pass
    yield None


def reason(pool, kernel, *arguments, **options):
    """Why a call failed."""
    with pytest.raises((KernelCrashed, EngineError)) as failed:
        pool.call(kernel, None, *arguments, **options)
    return str(failed.value)


def tell_all():
    """Prepare workers, call them, and print what they say."""
    sys.modules[MARK] = sys
    sys.path += ["", "tests", str(ROOT / "tests")]
    told = {"own": [os.getpid(), os.getsid(0)]}
    with prepared_workers(), WorkerPool() as pool:
        pool.call(burns, None)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    told["burned"] = used.ru_utime + used.ru_stime
    with open(__file__, encoding="utf-8"), prepared_workers():  # noqa: PTH123
        (starter,) = workers._starters
        told["starter"] = starter.pid
        with WorkerPool() as pool:
            (told["worker"],) = pool.call(identity, None)
            (told["handlers"],) = pool.call(handlers, None)
            (told["path"],) = pool.call(places_of_modules, None)
            told["same"] = pool.call(identity, None)[0] == told["worker"]
        with WorkerPool() as pool:
            told["crash"] = reason(pool, ends_by, int(signal.SIGSEGV))
            told["killed"] = reason(pool, ends_by, int(signal.SIGKILL))
            told["exit"] = reason(pool, leaves)
        workers._ENDS_WITHIN_SECONDS = 0.5
        with WorkerPool() as pool:
            told["hidden"] = reason(pool, hides, ask=id)
        os.kill(starter.pid, signal.SIGKILL)
        with WorkerPool() as pool:
            (told["without"],) = pool.call(identity, None)
    told["left"] = [number for number in (starter.pid, told["worker"][0]) if runs(number)]
    waiting = threading.Event()
    thread = threading.Thread(target=waiting.wait)
    thread.start()
    with prepared_workers(), WorkerPool() as pool:
        (told["threaded"],) = pool.call(identity, None)
    waiting.set()
    print(json.dumps(told))


def tell_while_ends_are_ignored():
    """Some supervisors start programs so."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with prepared_workers(), WorkerPool() as pool:
        ends = [reason(pool, leaves), pool.call(handlers, None)[0]]
    print(json.dumps(ends))


def runs(number):
    with suppress(ProcessLookupError):
        os.kill(number, 0)
        return Path(f"/proc/{number}/stat").read_text().split()[2] != "Z"
    return False


def die():
    """Print the numbers of a starter and of a worker, and end by a signal."""
    with prepared_workers(), WorkerPool() as pool:
        (worker,) = pool.call(identity, None)
        print(json.dumps(worker[:2]), flush=True)
        os.kill(os.getpid(), signal.SIGKILL)


def output_of(function):
    command = f"from {__name__} import {function} as run; run()"
    run = [sys.executable, "-c", command]
    return json.loads(subprocess.run(run, cwd=ROOT, stdout=subprocess.PIPE, check=False).stdout)


@pytest.fixture(scope="module")
def told():
    return output_of("tell_all")


pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="workers are forked on Linux only")


def test_a_worker_is_forked_from_a_copy_that_has_imported_what_it_needs(told):
    number, parent, session, _, has_imported = told["worker"]
    assert parent == told["starter"] != told["own"][0]
    assert number != parent
    assert session == told["starter"] != told["own"][1]
    assert has_imported
    assert told["same"]


def test_a_worker_has_no_file_of_the_process_open_but_its_line(told):
    assert told["worker"][3] == 3 + 1 + 1  # and the listing of these


def test_signals_that_the_process_handles_end_a_worker(told):
    assert told["handlers"] == [signal.SIG_DFL] * 2


def test_a_worker_looks_for_modules_at_absolute_places_only(told):
    assert str(ROOT / "tests") in told["path"]
    assert not [path for path in told["path"] if not Path(path).is_absolute()]


def test_it_is_known_how_a_forked_worker_ended(told):
    assert told["crash"] == "the reader crashed on it (SIGSEGV)"
    assert told["killed"] == "a worker process ended (signal 9)"
    assert told["exit"] == "a worker process ended (exit code 7)"


def test_it_is_known_where_ends_of_processes_are_ignored_too():
    ends = output_of("tell_while_ends_are_ignored")
    assert ends == ["a worker process ended (exit code 7)", [signal.SIG_DFL] * 2]


def test_after_an_interrupted_question_the_starter_is_not_asked_again(monkeypatch):
    """It would give the answer to the first one."""

    def interrupted(*_):
        raise KeyboardInterrupt

    asking, asked = socket.socketpair(type=socket.SOCK_SEQPACKET)
    starter = Starter(os.getpid(), asking)
    with asked, monkeypatch.context() as patch:
        patch.setattr("icectl.rows.forked_processes.select", interrupted)
        with pytest.raises(KeyboardInterrupt):
            starter.end_of(1, None)
    with pytest.raises(OSError, match="Bad file descriptor"):
        starter.fork(asking)
    assert ForkedProcess(starter, os.getpid()).wait() == -signal.SIGKILL


def test_a_worker_that_closes_its_line_and_goes_on_is_killed(told):
    assert told["hidden"] == "a worker process ended (signal 9)"


def test_workers_are_programs_of_their_own_where_none_can_be_forked(told):
    for name in ("without", "threaded"):
        assert told[name][1] == told["own"][0]
        assert not told[name][4]


def test_no_process_outlives_its_context_and_their_work_is_accounted_for(told):
    assert told["left"] == []
    assert told["burned"] >= BURNED_SECONDS


def test_forked_processes_end_with_the_process_that_was_killed():
    numbers = output_of("die")
    until = time.monotonic() + 30
    while any(map(runs, numbers)) and time.monotonic() < until:
        time.sleep(0.05)
    assert not any(map(runs, numbers))
