"""Planning the live files of a version 4 table with manifest delete vectors over its leaves.

    python tests/benchmarks/bench_v4_planning.py [FILES]      default 1000000

The same files three times: without vectors; with one in a hundred killed, chosen by chance, so that
every leaf has a vector; and as version 3 lists them. Leaves have 1,000 files each, then 10,000:
only of these version 4 has a target beside version 3. Everything lies in memory; time is that of
the processor.
"""

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.benchmarks.measure import call, in_turn, median, verdict
from tests.benchmarks.trees import TreeTable, list_planner, new_files, tables, tree_planner

KILLED = 0.01
SMALL, LARGE = 1_000, 10_000
"""Files of a leaf."""


def kill(table: TreeTable, leaves: int, entries: int) -> None:
    """Delete one file in a hundred in one commit."""
    rng = np.random.default_rng(11)
    chosen = np.sort(rng.choice(leaves * entries, int(leaves * entries * KILLED), replace=False))
    names = []
    for batch in np.unique(chosen // entries).tolist():
        at = chosen[chosen // entries == batch] % entries
        names += new_files(batch, entries).table["location"].take(at).to_pylist()
    cost = table.delete(names)
    size = f"{cost.size_bytes:,} bytes in {cost.files} file"
    print(f"{len(names):,} files killed by one commit: {size}, {cost.seconds:.1f} s")


def measured(leaves: int, entries: int) -> list[bool]:
    """Print times and their ratios; returns which targets are reached."""
    print(f"{leaves:,} leaves of {entries:,} files")
    old, new = tables(leaves, entries)
    plain = tree_planner(new)
    kill(new, leaves, entries)
    killed = tree_planner(new)
    runs = in_turn(3, lambda: call(plain), lambda: call(killed), lambda: call(list_planner(old)))
    names = ("version 4", "version 4 with vectors", "version 3")
    seconds = [median([run.cpu_seconds for run in found]) for found in runs]
    for name, found in zip(names, seconds, strict=True):
        print(f"{name}: {found:.2f} s, {leaves * entries / found:,.0f} files a second")
    reached = [verdict("with vectors / without", seconds[1] / seconds[0], 1.5)]
    times = seconds[0] / seconds[2]
    if entries == LARGE:
        return [*reached, verdict("version 4 / version 3", times, 1.3)]
    print(f"version 4 / version 3: {times:.2f}")
    return reached


def main() -> int:
    """Measure leaves of both sizes; 1 when a target is missed."""
    files = int([*sys.argv[1:], "1000000"][0])
    reached = [found for size in (SMALL, LARGE) for found in measured(files // size, size)]
    return 0 if all(reached) else 1


if __name__ == "__main__":
    sys.exit(main())
