"""Whole processes, timed in turn: wall and processor seconds, peak memory, as the system tells."""

import os
import statistics
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

IGNORED_VARIABLES = {"PYTHONDONTWRITEBYTECODE"}
"""With it every start would compile all modules, which an installed program never does."""


@dataclass(frozen=True, slots=True)
class Run:
    """One finished process, or one call in this one (then without memory)."""

    wall_seconds: float
    cpu_seconds: float
    peak_bytes: int = 0


def process(command: Sequence[str]) -> Run:
    """Run a command to its end; its output is thrown away, a failure raises."""
    environment = {key: value for key, value in os.environ.items() if key not in IGNORED_VARIABLES}
    start = time.perf_counter()
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment
    ) as child:
        assert child.stderr is not None
        errors = child.stderr.read()
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    wall = time.perf_counter() - start
    if child.returncode:
        raise RuntimeError(f"{command} ended with {child.returncode}: {errors.decode()}")
    return Run(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024)


def call(function: Callable[[], object]) -> Run:
    """Time one call in this process."""
    start, cpu = time.perf_counter(), time.process_time()
    function()
    return Run(time.perf_counter() - start, time.process_time() - cpu)


def in_turn(rounds: int, *subjects: Callable[[], Run]) -> list[list[Run]]:
    """Run the subjects one after the other, `rounds` times after a warm-up; runs per subject."""
    for subject in subjects:
        subject()
    runs: list[list[Run]] = [[] for _ in subjects]
    for _ in range(rounds):
        for number, subject in enumerate(subjects):
            runs[number].append(subject())
    return runs


def median(values: Sequence[float]) -> float:
    """The middle value."""
    return statistics.median(values)


def ratio(numerator: Sequence[Run], denominator: Sequence[Run]) -> float:
    """Median of the wall-time ratios, pair by pair."""
    return median(
        [a.wall_seconds / b.wall_seconds for a, b in zip(numerator, denominator, strict=True)]
    )


def cpu_ratio(numerator: Sequence[Run], denominator: Sequence[Run]) -> float:
    """Median of the ratios of processor time, pair by pair: what other programs disturb less."""
    return median(
        [a.cpu_seconds / b.cpu_seconds for a, b in zip(numerator, denominator, strict=True)]
    )


def verdict(name: str, value: float, limit: float, *, at_most: bool = True) -> bool:
    """Print one target with its figure; returns whether it is reached."""
    reached = value <= limit if at_most else value >= limit
    relation = "at most" if at_most else "at least"
    print(f"{name}: {value:.2f} ({relation} {limit:g}): {'reached' if reached else 'MISSED'}")
    return reached


@dataclass(frozen=True, slots=True)
class Process:
    """What the system tells of a process that runs; bytes are those of files, pipes and sockets."""

    name: str
    cpu_seconds: float
    peak_bytes: int
    read_bytes: int = 0
    written_bytes: int = 0


def running_below(pid: int) -> dict[int, Process]:
    """A process and all that descend from it."""
    parents: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parents[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
    found = {pid}
    while more := {one for one, parent in parents.items() if parent in found} - found:
        found |= more
    told = {}
    for one in found:
        with suppress(OSError, StopIteration):
            told[one] = _running(Path("/proc", str(one)))
    return told


def _running(folder: Path) -> Process:
    name, _, rest = (folder / "stat").read_text().partition("(")[2].rpartition(")")
    ticks = sum(int(field) for field in rest.split()[11:13])
    lines = (folder / "status").read_text().splitlines()
    peak = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))
    calls = dict(line.split(": ") for line in (folder / "io").read_text().splitlines())
    return Process(
        name, ticks / os.sysconf("SC_CLK_TCK"), peak, int(calls["rchar"]), int(calls["wchar"])
    )


def forget_peak(pid: int) -> None:
    """Let the peak of a process begin anew at what it has now."""
    with suppress(OSError):
        Path("/proc", str(pid), "clear_refs").write_text("5")
