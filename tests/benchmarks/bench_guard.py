"""What the guard takes of a run of `expire-snapshots` and of `compact`, by the processor.

    python tests/benchmarks/bench_guard.py

The functions that look at the base of a change are timed inside of runs in this process; the expiry
is that of bench_expire.py, the compaction one of 1,000 small files with deletes; both again on that
table in layout sfc-1, of which the expiry drops what the compaction replaced. Hashes of places do
not count: an expiry thins out its files by them.
"""

import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any
from unittest.mock import patch

sys.path.insert(0, str(Path(__file__).parents[2]))

import icectl.checks.partitions
import icectl.commands.compact.run
import icectl.commands.expire_snapshots.run  # noqa: F401 - what is timed is imported before
from icectl.cli import app
from tests.benchmarks import bench_expire
from tests.benchmarks.measure import median, verdict
from tests.builders.table_builder import filled_table

MOST = 0.03
RUNS = 3
GUARDS = (
    "icectl.commands.expire_snapshots.reach.check_lists",
    "icectl.commands.expire_snapshots.run.check_kept",
    "icectl.commands.expire_snapshots.run.check_replacements",
    "icectl.table.reachable.Live._are_of_sources",
    "icectl.table.reachable.LiveOnce.add",
    "icectl.table.reachable.VectorTargets.add",
    "icectl.table.reachable.check_vector_targets",
    "icectl.table.live_file_check.LiveOnce.check",
    "icectl.checks.identity.DoubtfulLists.is_doubtful",
    "icectl.table.manifests.doubtful_manifests",
    "icectl.checks.partitions.outside_summaries",
    "icectl.checks.partitions.refuse_misplaced",
    "icectl.table.manifests._Decoder._of_other_copies",
    "icectl.table.live_files.check_live",
    "icectl.table.live_files.check_head_list",
    "icectl.table.live_files.check_dangling",
    "icectl.table.guard.require_safe_base",
)


@contextmanager
def timed(seconds: Counter[str]) -> Iterator[None]:
    """Add up what each part of the guard takes."""

    def wrapped(name: str, guard: Callable[..., Any]) -> Callable[..., Any]:
        def measured(*args: Any, **options: Any) -> Any:
            started = time.thread_time()
            try:
                result = guard(*args, **options)
                return list(result) if isinstance(result, Iterator) else result
            finally:
                seconds[name] += time.thread_time() - started

        return measured

    with ExitStack() as stack:
        for name in GUARDS:
            module, _, member = name.rpartition(".")
            owner: Any = sys.modules.get(module)
            if owner is None:
                package, _, kind = module.rpartition(".")
                owner = getattr(sys.modules[package], kind)
            stack.enter_context(
                patch.object(owner, member, wrapped(member, getattr(owner, member)))
            )
        yield


def share(table: Path, words: list[str]) -> float:
    """The guard's part of a run's processor time, the median of several; a first run warms up."""
    pristine = table.with_name("pristine")
    shutil.rmtree(pristine, ignore_errors=True)
    shutil.copytree(table, pristine)
    shares = []
    with redirect_stdout(StringIO()):
        assert app.main([*words, "--dry-run", "--quiet"]) == 0
    for _ in range(RUNS):
        seconds = Counter[str]()
        with redirect_stdout(StringIO()), timed(seconds):
            started = time.process_time()
            assert app.main([*words, "--quiet"]) == 0
            total = time.process_time() - started
        parts = ", ".join(f"{name} {of:.3f}" for name, of in seconds.most_common(6))
        print(f"{words[0]}: {sum(seconds.values()):.3f} of {total:.3f} s ({parts})")
        shares.append(sum(seconds.values()) / total)
        shutil.rmtree(table)
        shutil.copytree(pristine, table)
    return median(shares)


def main() -> int:
    """Print the shares; 1 where one is too large."""
    with tempfile.TemporaryDirectory() as folder:
        aged = Path(folder) / "db" / "aged"
        bench_expire.build_history(aged)
        minutes = (bench_expire.SNAPSHOTS - bench_expire.EXPIRED) * 60 + 30
        expiry = ["expire-snapshots", str(aged), "--older-than", f"{minutes}m"]
        shares = [share(aged, [*expiry, "--retain-last", "1", "--yes"])]
        table = filled_table(Path(folder) / "small", range(20_000), files=1_000)
        table.delete_rows(range(0, 20_000, 40))
        small = ["compact", str(table.directory), "--engine", "local", "--yes"]
        shares.append(share(table.directory, small))
        upgrade = ["upgrade-to-v4", small[1], "--layout=sfc-1", "--eager", "--yes", "--quiet"]
        assert app.main(upgrade) == 0
        shares.append(share(table.directory, small))
        assert app.main([*small, "--quiet"]) == 0
        expiry = ["expire-snapshots", small[1], "--older-than", "0s", "--retain-last", "1"]
        shares.append(share(table.directory, [*expiry, "--yes"]))
    names = ("an expiry", "a compaction", "a compaction of sfc-1", "an expiry of sfc-1")
    reached = [
        verdict(f"the guard's part of {name}", of, MOST)
        for name, of in zip(names, shares, strict=True)
    ]
    return 0 if all(reached) else 1


if __name__ == "__main__":
    sys.exit(main())
