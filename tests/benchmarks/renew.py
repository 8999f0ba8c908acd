"""Renew the figures of docs/performance.md, all from one run on one machine.

    python tests/benchmarks/renew.py [--print] [bench_NAME ...]

Runs the benchmarks below one after the other, some ten minutes on two quiet cores, and puts what
they print between the marks of the document, with the date and the state of the machine; `--print`
leaves the document alone. Named ones run alone. Where the machine is not quiet it says so in the
document too: processor time and memory hold then, seconds do not.
"""

import argparse
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

HERE = Path(__file__).parent
DOCUMENT = HERE.parents[1] / "docs" / "performance.md"
BEGIN, END = "<!-- figures: begin -->\n", "<!-- figures: end -->\n"
_FIGURE = re.compile(r": (?=[0-9]|[^:]*$)")
"""What stands between the name of a figure and the figure."""

QUIET_LOAD = 0.5
"""Programs that want a processor, on average, before the first benchmark: below it is the machine's
own. Before the others it is that of the benchmark before."""

_MOST_WAITS, _WAIT_SECONDS = 12, 15

BENCHMARKS: dict[str, Sequence[str]] = {
    "bench_startup": (), "bench_manifest_scan": (), "bench_small_manifests": (),
    "bench_inspect": (), "bench_validate": ("250", "1000"), "bench_v4_validate": (),
    "bench_ten_million": ("10000", "1000"), "bench_stores": ("inspect", "compact", "validate"),
    "bench_merge": ("footers", "local"),
}  # fmt: skip
"""What is run, with which arguments."""


def machine() -> str:
    """What a reader has to know of the machine."""
    cpus = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.partition(":")[2].strip() for line in cpus if line.startswith("model name")]
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    python = platform.python_version()
    return f"{len(names)} processors ({names[0]}), {memory:.0f} GiB, Python {python}"


def figures(name: str, arguments: Sequence[str]) -> str:
    """Run a benchmark; its lines as a table. Raises: CalledProcessError, where it breaks."""
    load = os.getloadavg()[0]
    began = time.monotonic()
    script = HERE / f"{name}.py"
    done = subprocess.run(
        [sys.executable, str(script), *arguments], stdout=subprocess.PIPE, text=True, check=False
    )
    if done.returncode not in (0, 1):  # 1: a target is missed, as the lines say
        done.check_returncode()
    minutes = (time.monotonic() - began) / 60
    print(f"{name}: {minutes:.1f} minutes, load {load:.1f} before it", file=sys.stderr)
    about = script.read_text().splitlines()[0].strip('"')
    rows = [_FIGURE.split(line, 1) for line in done.stdout.splitlines() if line]
    table = [f"| {' | '.join([*row, ''][:2]).replace('; ', '<br>')} |" for row in rows]
    return "\n".join(
        [
            f"### {about}",
            "",
            f"`{' '.join([name, *arguments])}`, load {load:.1f} before it.",
            "",
            "| what | measured |",
            "| --- | --- |",
            *table,
            "",
        ]
    )


def main() -> int:
    """Run what was asked for and write it down; 1 where the document has no place for it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", default=list(BENCHMARKS), metavar="bench_NAME")
    parser.add_argument("--print", action="store_true", dest="only_print")
    given = parser.parse_args()
    for _ in range(_MOST_WAITS):  # for what has just ended to leave the average
        if os.getloadavg()[0] < QUIET_LOAD:
            break
        time.sleep(_WAIT_SECONDS)
    load = os.getloadavg()[0]
    quiet = "quiet" if load < QUIET_LOAD else f"not quiet, load {load:.1f}: seconds don't hold"
    day = datetime.now(UTC).date()
    parts = [f"Measured on {day}: {machine()}; the machine was {quiet}.\n"]
    parts += [figures(name, BENCHMARKS.get(name, ())) for name in given.names]
    made = "\n".join(parts)
    if given.only_print:
        print(made)
        return 0
    before, begin, rest = DOCUMENT.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        print(f"{DOCUMENT} has no marks", file=sys.stderr)
        return 1
    DOCUMENT.write_text(f"{before}{begin}\n{made}\n{end}{after}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
