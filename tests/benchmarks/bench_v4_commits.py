"""Commits of version 4 against the same of version 3: what they write besides metadata JSON.

    python tests/benchmarks/bench_v4_commits.py [COMMITS]      default 1000

Deleting one file of 100,000 in 100 manifests; COMMITS appends of one file each to an empty table;
COMMITS deletes of one file each, chosen by chance, and planning after them. Files have metrics of
twenty columns, which version 4 keeps in its root for every leaf. Both versions are written by
icectl's codecs, in memory; time is that of the processor.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

from icectl.entries.rows import Entries
from tests.benchmarks.measure import call, in_turn, median, ratio, verdict
from tests.benchmarks.trees import (
    BUILDING,
    DEFAULTS,
    ENTRIES,
    Cost,
    ListTable,
    TreeTable,
    list_planner,
    new_files,
    tables,
    tree_planner,
)

MANIFESTS = 100
BIG = 26_000
"""Files whose entries make a leaf of 8 MB."""


def name_of(batch: int, at: int, count: int = ENTRIES) -> str:
    """The location of one of the files of a batch."""
    return str(new_files(batch, count).table["location"][at].as_py())


def told(name: str, costs: Sequence[Cost]) -> None:
    """Print what commits came to."""
    size = sum(cost.size_bytes for cost in costs)
    files = sum(cost.files for cost in costs)
    seconds = [cost.seconds for cost in costs]
    print(
        f"  {name}: {size:,} bytes in {files:,} files; a commit {size // len(costs):,} bytes, "
        f"{median(seconds) * 1e3:.1f} ms (longest {max(seconds) * 1e3:.0f} ms)"
    )


def delete_one(old: ListTable, new: TreeTable) -> list[bool]:
    """One file out of a leaf of 1,000 entries, and one out of a leaf of 8 MB."""
    print(f"one file of {MANIFESTS * ENTRIES:,} in {MANIFESTS} manifests deleted")
    verdicts = []
    big = new_files(MANIFESTS, BIG)
    for limit, entries in ((5, ENTRIES), (50, BIG)):
        if entries == BIG:
            old.add_manifests([big])
            new.set_properties(BUILDING | {"icectl.v4.leaf.max-entries": "1000000"})
            new.append(big)
            new.set_properties(DEFAULTS)
        batch = MANIFESTS // 2 if entries == ENTRIES else MANIFESTS
        gone = name_of(batch, entries // 2, entries)
        before, after = old.delete(gone), new.delete([gone])
        told(f"version 3, {entries:,} entries a manifest", [before])
        told(f"version 4, {entries:,} entries a leaf", [after])
        share = before.size_bytes / after.size_bytes
        verdicts.append(verdict("version 3 / version 4 in bytes", share, limit, at_most=False))
        verdicts.append(verdict("files written by version 4", after.files, 1))
    return verdicts


def appends(count: int) -> None:
    """Single-file appends to an empty table; version 4 flushes its root, version 3 merges."""
    print(f"{count:,} appends of one file each")
    old, new = ListTable(), TreeTable()
    small = TreeTable({"icectl.v4.root.max-data-files": "100"})
    files = new_files(0, count)
    singles = [Entries(files.table.slice(at, 1)) for at in range(count)]
    told("version 3", [old.append(single) for single in singles])
    costs = [new.append(single) for single in singles]
    flushes = sum(cost.files > 1 for cost in costs)
    told(f"version 4, flushed at 1,000 files (the default; {flushes} flushes)", costs)
    costs = [small.append(single) for single in singles]
    flushes = sum(cost.files > 1 for cost in costs)
    told(f"version 4, flushed at 100 files ({flushes} flushes)", costs)


def deletes(old: ListTable, new: TreeTable, count: int) -> None:
    """Single-file deletes by chance, and planning after them."""
    print(f"{count:,} deletes of one file each")
    rng = np.random.default_rng(7)
    chosen = rng.choice(MANIFESTS * ENTRIES, count, replace=False).tolist()
    by_batch = {at: new_files(at, ENTRIES).table["location"] for at in range(MANIFESTS)}
    names = [str(by_batch[one // ENTRIES][one % ENTRIES].as_py()) for one in chosen]
    plain = tree_planner(new)
    told("version 3", [old.delete(name) for name in names])
    told("version 4", [new.delete([name]) for name in names])
    runs = in_turn(
        3, lambda: call(plain), lambda: call(tree_planner(new)), lambda: call(list_planner(old))
    )
    for name, found in zip(
        ("version 4 before", "version 4 after", "version 3 after"), runs, strict=True
    ):
        print(f"  planning, {name}: {median([run.cpu_seconds for run in found]):.2f} s")
    print(f"  planning after them / before: {ratio(runs[1], runs[0]):.2f}")


def main() -> int:
    """Print what commits write and take; 1 when a target is missed."""
    count = int([*sys.argv[1:], "1000"][0])
    verdicts = delete_one(*tables(MANIFESTS))
    appends(count)
    deletes(*tables(MANIFESTS), count)
    return 0 if all(verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
