"""Whether a test notices it when the code that decides and deletes is changed.

    python tests/mutation/check.py [--minutes N] [--seed N] [MODULE …]

Each mutant of the modules below is put in place in a fork of a process that has imported the
module's test files (`forked.py`); where these pass, it is written into a copy of the tree, where
they run again. Mutants whose tests all pass have survived. Those that no test can notice stand in
`explained.txt` beside this file, each with its reason. Ends with 1 where a mutant survives that is
not there, or where one that is there is none any more. With `--minutes` as many are tried as there
is time for, in an order by the seed.
"""

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.mutation.mutants import Mutant, mutants

TREE = Path(__file__).parents[2]
EXPLAINED = Path(__file__).parent / "explained.txt"
MODULES: Mapping[str, Sequence[str]] = {
    "table/reachable.py": ["unit/table/test_reachable.py", "unit/table/test_references.py"],
    "commit/rewritten_groups.py": [
        "unit/commit/test_rewritten_groups.py",
        "unit/commit/test_conflicts_of_moving_rows.py",
    ],
    "commit/attempt.py": ["unit/commit/test_attempt.py", "unit/commit/test_transaction.py"],
    "commit/output_journal.py": ["unit/commit/test_output_journal.py"],
    "commit/transaction.py": ["unit/commit/test_transaction.py", "unit/commit/test_outputs.py"],
    "commit/carried_positions.py": ["unit/commit/test_carried_positions.py"],
    "rows/row_runs.py": ["unit/rows/test_row_runs.py"],
    "checks/identity.py": ["unit/checks/test_identity.py"],
    "checks/file_identity.py": [
        "unit/checks/test_file_identity.py",
        "unit/table/test_live_file_check.py",
    ],
    "table/live_file_check.py": [
        "unit/table/test_live_file_check.py",
        "cli/test_guard.py",
    ],
    "commands/upgrade_to_v4/delete_spelling.py": [
        "unit/commands/upgrade_to_v4/test_delete_spelling.py"
    ],
    "table/own_places.py": ["unit/table/test_own_places.py"],
    "table/live_files.py": [
        "unit/table/test_live_files.py",
        "unit/commands/compact/test_plan.py",
        "unit/commands/compact/test_deletes.py",
        "unit/commands/compact/test_run.py",
    ],
    "table/retention.py": ["unit/table/test_retention.py"],
    "entries/deletes.py": [
        "unit/entries/test_deletes.py",
        "unit/commands/compact/test_deletes.py",
        "unit/commands/compact/test_plan.py",
    ],
    "entries/inherit.py": ["unit/entries/test_inherit.py"],
    "format/transforms.py": ["unit/format/test_transforms.py"],
    "commands/repair/plan.py": ["unit/commands/repair/test_plan.py"],
    "commands/expire_snapshots/reach.py": ["unit/commands/expire_snapshots/test_reach.py"],
    "commit/deletion.py": ["unit/commit/test_deletion.py", "unit/commit/test_deletion_journal.py"],
    "commands/remove_orphans/deletion.py": [
        "unit/commands/remove_orphans/test_deletion.py",
        "cli/test_purge_quarantine.py",
    ],
    "commands/remove_orphans/quarantine.py": ["unit/commands/remove_orphans/test_deletion.py"],
    "commands/remove_orphans/purge.py": ["cli/test_purge_quarantine.py"],
    "commands/repair/lost.py": [
        "unit/commands/repair/test_lost.py",
        "unit/commands/repair/test_footers.py",
    ],
    "commands/repair/head.py": [
        "unit/commands/repair/test_head.py",
        "unit/commands/repair/test_write.py",
    ],
    "commands/repair/repairs.py": [
        "unit/commands/repair/test_repairs.py",
        "unit/commands/repair/test_metrics.py",
    ],
    "commands/repair/metadata.py": ["unit/commands/repair/test_metadata.py"],
}
"""Modules of icectl that decide or delete, and the test files that hold them."""

_LONGEST_SECONDS = 300
_TOGETHER = 40
"""How many mutants of a module one process has."""


@dataclass(frozen=True, slots=True)
class Trial:
    """A mutant of a module, by its path below the tree, and the tests to run."""

    module: str
    mutant: Mutant
    tests: Sequence[str]

    @property
    def name(self) -> str:
        """What tells a mutant from all others, wherever its line is."""
        return f"{self.module}:{self.mutant.name}"


def trials(tree: Path, modules: Mapping[str, Sequence[str]]) -> list[Trial]:
    """Every mutant of some modules, given by their paths below the tree."""
    return [
        Trial(module, mutant, tests)
        for module, tests in modules.items()
        for mutant in mutants((tree / module).read_text())
    ]


def survivors(
    tree: Path,
    given: Sequence[Trial],
    workers: int,
    ends_at: float | None = None,
    tell: Callable[[Trial], None] | None = None,
) -> tuple[list[Trial], int]:
    """The mutants that no test has noticed, and how many were tried before the time was over.

    `ends_at` is a time of time.monotonic, `tell` hears of each survivor at once. Nothing is written
    below `tree`.
    Raises: RuntimeError, where tests fail without a mutant.
    """
    copies: SimpleQueue[Path] = SimpleQueue()
    with _copies(tree, workers) as made, ThreadPoolExecutor(workers) as pool:
        for copy in made:
            copies.put(copy)
        files = sorted({test for one in given for test in one.tests})
        if files and not _pass(made[0], files, len(files) * _LONGEST_SECONDS):
            raise RuntimeError(f"tests fail without a mutant: {' '.join(files)}")

        def of_part(part: Sequence[Trial]) -> list[Trial] | None:
            """Find the survivors among mutants of one module; None where the time is over."""
            if ends_at is not None and time.monotonic() > ends_at:
                return None
            copy = copies.get()
            try:
                found = [one for one in left_by_forks(copy, part) if _survives(copy, one)]
            finally:
                copies.put(copy)
            for trial in found if tell is not None else ():
                tell(trial)
            return found

        parts = list(_parts(given))
        found = list(pool.map(of_part, parts))
    tried = sum(len(part) for part, one in zip(parts, found, strict=True) if one is not None)
    return [trial for one in found for trial in one or ()], tried


def _parts(given: Sequence[Trial]) -> Iterator[Sequence[Trial]]:
    """The trials in parts of one module each, which may be small. Order: of their first ones."""
    by_module: dict[str, list[Trial]] = {}
    for trial in given:
        part = by_module.setdefault(trial.module, [])
        part.append(trial)
        if len(part) == _TOGETHER:
            yield by_module.pop(trial.module)
    yield from by_module.values()


def left_by_forks(copy: Path, part: Sequence[Trial]) -> list[Trial]:
    """The mutants that no test has killed in a fork; what was not told of is among them."""
    document = {
        "module": part[0].module,
        "tests": [*part[0].tests],
        "seconds": _LONGEST_SECONDS,
        "mutants": [{"line": one.mutant.line, "source": one.mutant.source} for one in part],
    }
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("forked.py"))],
        input=json.dumps(document).encode(),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=copy,
        env=os.environ | _settings(copy),
        check=False,
    )
    told = done.stdout.decode().splitlines()
    return [one for at, one in enumerate(part) if told[at : at + 1] != ["killed"]]


def _survives(copy: Path, trial: Trial) -> bool:
    """Whether the tests pass where a mutant stands in the module's file."""
    path = copy / trial.module
    original = path.read_text()
    try:
        path.write_text(trial.mutant.source)
        return _pass(copy, trial.tests, _LONGEST_SECONDS)
    finally:
        path.write_text(original)


def _settings(copy: Path) -> dict[str, str]:
    # Bytecode is told from source by its second and size, which mutants may share.
    return {"PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}


@contextmanager
def _copies(tree: Path, count: int) -> Iterator[list[Path]]:
    ignored = shutil.ignore_patterns(".git", "__pycache__", ".*_cache")
    with tempfile.TemporaryDirectory(prefix="icectl-mutants-") as directory:
        copies = [Path(directory, str(number)) for number in range(count)]
        for copy in copies:
            shutil.copytree(tree, copy, ignore=ignored)
        yield copies


def _pass(copy: Path, tests: Sequence[str], seconds: int) -> bool:
    """Whether all tests pass; what never ends is noticed too."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
    try:
        done = subprocess.run(
            command,
            cwd=copy,
            env=os.environ | _settings(copy),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def explained(text: str) -> dict[str, str]:
    """The reasons by the names of mutants: lines of `name`, below each its indented reason."""
    found: dict[str, str] = {}
    name = ""
    for line in text.splitlines():
        if line.startswith("    "):
            found[name] = f"{found[name]} {line.strip()}".strip()
        elif line and not line.startswith("#"):
            name = line
            found[name] = ""
    return found


def main() -> int:
    """Print what survives; the exit code says whether all of that is explained."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "modules", nargs="*", metavar="MODULE", help="as in commit/rewritten_groups.py"
    )
    parser.add_argument("--minutes", type=float, help="try no more than there is time for")
    parser.add_argument("--seed", type=int, default=0, help="of the order, with --minutes")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    chosen = parser.parse_args()
    names = chosen.modules or list(MODULES)
    modules = {f"icectl/{name}": [f"tests/{test}" for test in MODULES[name]] for name in names}
    given = trials(TREE, modules)
    known = explained(EXPLAINED.read_text())
    stale = {name for name in known if name.partition(":")[0] in modules}
    stale -= {trial.name for trial in given}
    ends_at = None
    if chosen.minutes is not None:
        random.Random(chosen.seed).shuffle(given)
        ends_at = time.monotonic() + 60 * chosen.minutes

    def tell(trial: Trial) -> None:
        if trial.name not in known:
            print(f"survived: {trial.module}:{trial.mutant.line}\n    {trial.name}", flush=True)

    found, tried = survivors(TREE, given, chosen.workers, ends_at, tell)
    unexplained = [trial for trial in found if trial.name not in known]
    for name in sorted(stale | {name for name, reason in known.items() if not reason}):
        print(f"explained, but no mutant any more, or without a reason: {name}")
    print(f"{tried} of {len(given)} mutants tried, {len(found)} survived, "
          f"{len(unexplained)} of them unexplained")  # fmt: skip
    return 1 if unexplained or stale or not all(known.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
