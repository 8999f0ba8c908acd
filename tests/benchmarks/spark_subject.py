"""Compactions of a table, again and again in one session of Spark; run by the Python of Spark.

    spark_subject.py            answers each line on stdin with a line on stdout

A request is {"table": DIRECTORY, "target_bytes": N}; the table is as it was before the answer,
{"seconds", "files", "peak_bytes", "java_peak_bytes"}: how many data files it had, the most memory
of a Python worker and of Java.
"""

import json
import shutil
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from icectl.engine.compact_job import Engine
from icectl.engine.spark import SparkOptions
from icectl.engine.spark_rewrite import SparkEngine
from icectl.env import Deadline, SystemEnv
from icectl.plan.compact import CompactOptions
from icectl.plan.compact_sizes import sizes_of
from icectl.progress import SilentProgress
from icectl.run.compact import Compact, execute, prepare
from icectl.storage.open import StorageOptions
from tests.builders.compactions import means


def answer(engine: Engine, table: Path, target_bytes: int) -> dict[str, Any]:
    """Compact a table, and undo it."""
    kept = table.with_name(f"{table.name}-metadata")
    shutil.copytree(table / "metadata", kept)
    before = set((table / "data").iterdir())
    with_what: Compact = replace(means(table, engine), env=SystemEnv())
    options = CompactOptions(sizes_of(target_bytes, None, None), 0, every=True)
    start = time.perf_counter()
    execute(with_what, prepare(with_what, "main", lambda _: options))
    seconds = time.perf_counter() - start
    made = set((table / "data").iterdir()) - before
    for path in made:
        path.unlink()
    shutil.rmtree(table / "metadata")
    kept.rename(table / "metadata")
    workers, java = peaks()
    return {
        "seconds": seconds,
        "files": len(made),
        "peak_bytes": max(workers, default=0),
        "java_peak_bytes": max(java, default=0),
    }


def peaks() -> tuple[list[int], list[int]]:
    """The most memory that each Python worker and Java ever had."""
    workers, java = [], []
    for status in processes():
        peak = int(status.get("VmHWM", "0 kB").split()[0]) * 1024
        if status["Name"] == "java":
            java.append(peak)
        elif status["Name"].startswith("python"):
            workers.append(peak)
    return workers, java


def processes() -> Iterator[dict[str, str]]:
    """What the system tells of all processes that descend from this one."""
    found: dict[int, dict[str, str]] = {}
    for path in Path("/proc").glob("[0-9]*/status"):
        try:
            lines = path.read_text().splitlines()
        except OSError:
            continue
        found[int(path.parent.name)] = {
            name: value.strip() for name, _, value in (line.partition(":") for line in lines)
        }
    mine = {int(Path("/proc/self").resolve().name)}
    grown = True
    while grown:
        more = {pid for pid, status in found.items() if int(status["PPid"]) in mine} - mine
        mine |= more
        grown = bool(more)
    here = int(Path("/proc/self").resolve().name)
    yield from (found[pid] for pid in mine if pid in found and pid != here)


def main() -> None:
    """Answer until stdin ends."""
    with SparkEngine(
        SparkOptions(), StorageOptions(), SilentProgress(), Deadline(SystemEnv())
    ) as engine:
        for line in sys.stdin:
            request = json.loads(line)
            told = answer(engine, Path(request["table"]), request["target_bytes"])
            print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main()
