"""Mumbling bitmaps beside Roaring ones, and roots of the draft beside those of layout sfc-1.

    python tests/benchmarks/bench_draft_16025.py [ROWS]      default 100000, of a root

Bitmaps are over a leaf of a million rows, with positions chosen by chance, and in one run. Roots
have the same entries in both forms, with statistics. Everything lies in memory; time is that of
the processor.
"""

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

from icectl.codec.draft_16025.from_entries import as_rows, form_of
from icectl.codec.draft_16025.manifest import read_draft, write_draft
from icectl.codec.draft_16025.mumbling import read_mumbling, write_mumbling
from icectl.codec.puffin.positions import read_bitmap, write_bitmap
from icectl.codec.sfc1.manifest import TreeContent, read_tree, write_tree
from icectl.entries.rows import Entries
from icectl.table.sfc1.manifests import TreeFacts, tree_rows
from tests.benchmarks.measure import call, in_turn, median, verdict
from tests.benchmarks.trees import empty_metadata, new_files

LEAF = 1_000_000
DENSITIES = (0.00001, 0.0001, 0.001, 0.01, 0.1, 0.5)
PLANNED = (
    "status", "snapshot_id", "sequence_number", "file_sequence_number", "first_row_id",
    "content", "location", "file_format", "record_count", "file_size_in_bytes", "spec_id",
)  # fmt: skip
"""The columns that planning asks both forms for."""


def bitmaps() -> None:
    """Print bytes and times of both kinds, by density."""
    rng = np.random.default_rng(7)
    sets = [(f"{share:.3%}", np.flatnonzero(rng.random(LEAF) < share)) for share in DENSITIES]
    sets.append(("one run of 10,000", np.arange(500_000, 510_000)))
    print(
        "positions          count    Mumbling     Roaring  bytes   write    read (Mumbling/Roaring)"
    )
    for name, positions in sets:
        one, other = write_mumbling(positions), write_bitmap(positions)
        runs = in_turn(
            5,
            lambda positions=positions: call(lambda: write_mumbling(positions)),
            lambda positions=positions: call(lambda: write_bitmap(positions)),
            lambda one=one: call(lambda: read_mumbling(one)),
            lambda other=other: call(lambda: read_bitmap(other)),
        )
        times = [median([run.cpu_seconds for run in found]) * 1e3 for found in runs]
        print(
            f"{name:17} {len(positions):>7,} {len(one):>9,} B {len(other):>9,} B"
            f"  {len(one) / len(other):5.2f}  {times[0]:.2f}/{times[1]:.2f} ms"
            f"  {times[2]:.2f}/{times[3]:.2f} ms"
        )


def roots(count: int) -> bool:
    """Whether a root of the draft is read as fast as one of sfc-1, whole and for planning."""
    metadata = empty_metadata(4)
    entries: Entries = new_files(0, count)
    facts = TreeFacts(metadata)
    old = write_tree(tree_rows(facts, entries, 0), TreeContent.ROOT)
    new = write_draft(as_rows(entries, form_of(metadata), {}), {"format-version": "4"})
    print(f"a root of {count:,} entries: sfc-1 {len(old):,} bytes, the draft {len(new):,}")
    reached = True
    for name, columns in (("whole", None), ("for planning", PLANNED)):
        stats = None if columns is None else ()
        runs = in_turn(
            7,
            lambda columns=columns, stats=stats: call(
                lambda: read_tree(old, columns=columns, stats=stats)
            ),
            lambda columns=columns: call(lambda: read_draft(new, columns)),
        )
        seconds = [median([run.cpu_seconds for run in found]) for found in runs]
        print(f"{name}: sfc-1 {seconds[0] * 1e3:.1f} ms, the draft {seconds[1] * 1e3:.1f} ms")
        reached &= verdict(f"the draft / sfc-1, {name}", seconds[1] / seconds[0], 1.0)
    return reached


def main() -> int:
    """Print both; 1 when roots of the draft are read slower than those of sfc-1."""
    bitmaps()
    return 0 if roots(int([*sys.argv[1:], "100000"][0])) else 1


if __name__ == "__main__":
    sys.exit(main())
