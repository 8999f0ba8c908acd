"""Planning the live files of a version 4 table with manifest delete vectors over its leaves.

    python tests/benchmarks/bench_v4_planning.py [LEAVES]      default 1000, of 1000 files each

The same files three times: without vectors; with one in a hundred killed, chosen by chance, so that
every leaf has a vector; and as version 3 lists them. Everything lies in memory; time is that of the
processor.
"""

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.benchmarks.measure import call, in_turn, median, verdict
from tests.benchmarks.trees import ENTRIES, TreeTable, list_planner, new_files, tables, tree_planner

KILLED = 0.01


def kill(table: TreeTable, leaves: int) -> int:
    """Delete one file in a hundred in one commit; how many that were."""
    rng = np.random.default_rng(11)
    chosen = np.sort(rng.choice(leaves * ENTRIES, int(leaves * ENTRIES * KILLED), replace=False))
    names = []
    for batch in np.unique(chosen // ENTRIES).tolist():
        at = chosen[chosen // ENTRIES == batch] % ENTRIES
        names += new_files(batch, ENTRIES).table["location"].take(at).to_pylist()
    cost = table.delete(names)
    size = f"{cost.size_bytes:,} bytes in {cost.files} file"
    print(f"{len(names):,} files killed by one commit: {size}, {cost.seconds:.1f} s")
    return len(names)


def main() -> int:
    """Print times and their ratio; 1 when the target is missed."""
    leaves = int([*sys.argv[1:], "1000"][0])
    old, new = tables(leaves)
    plain = tree_planner(new)
    kill(new, leaves)
    killed = tree_planner(new)
    runs = in_turn(3, lambda: call(plain), lambda: call(killed), lambda: call(list_planner(old)))
    names = ("version 4", "version 4 with vectors", "version 3")
    seconds = [median([run.cpu_seconds for run in found]) for found in runs]
    for name, found in zip(names, seconds, strict=True):
        print(f"{name}: {found:.2f} s, {leaves * ENTRIES / found:,.0f} files a second")
    print(f"version 4 / version 3: {seconds[0] / seconds[2]:.2f}")
    reached = verdict("with vectors / without", seconds[1] / seconds[0], 1.5)
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main())
