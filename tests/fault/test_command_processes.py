"""The crash law with real processes: kill -9 between any two steps, a full disk, two at once."""

import os
import shutil
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from icectl.storage.local.store import LocalStore
from tests.builders.commits import check_one_commits_each_version
from tests.builders.expiry import NOW_MS
from tests.builders.rows import current_metadata, read_metadata
from tests.builders.table_builder import filled_table
from tests.cli.test_migrate_v1_v2 import manifest_versions
from tests.fault.changing import NAMES, STRAYS, Subject, lasting, subject_of, unneeded
from tests.fault.steps import Processes

FULL = pytest.mark.full
PAGE = 4096
TEMPORARY = ".icectl-"
JOURNAL = "icectl-"
DAY_SECONDS = 86_400
EVERY = pytest.param(1, 1, marks=FULL)
KILLED = [(4, 37), EVERY]
FILLED = [(1, 47), EVERY]
"""First step and stride: every step in the full tier."""


@pytest.fixture(scope="module", params=NAMES)
def subject(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Subject:
    return subject_of(request.param, tmp_path_factory.mktemp("fault"))


@pytest.fixture(scope="module")
def left(subject: Subject) -> set[str]:
    """What nobody needs after a run that nothing disturbs."""
    return lasting(subject)[1]


def steps_of_a_run(subject: Subject, processes: Processes) -> int:
    subject.restore()
    (ended,) = processes.run([subject.words], directory=subject.directory)
    assert (ended.code, ended.document["status"]) == (0, "done")
    return ended.steps


@pytest.mark.parametrize(("first", "stride"), KILLED)
def test_a_run_may_be_killed_between_any_two_steps(subject, processes, left, first, stride):
    """What it wrote is removed by the run after it, once nobody can commit it: where the run after
    it has nothing to commit, after another writer's commit. What it was writing is removed a day
    later."""
    for nth in range(first, steps_of_a_run(subject, processes) + 1, stride):
        subject.restore()
        before = subject.current()
        (ended,) = processes.run([subject.words], directory=subject.directory, end="kill", nth=nth)
        assert ended.code == -signal.SIGKILL
        subject.check_whole()
        had_committed = subject.current() != before
        subject.finish()
        if had_committed and not subject.changing.deletes_old_files:
            subject.commit_meanwhile()
            subject.finish()
        if subject.changing.name == "migrate-and-rewrite":
            assert manifest_versions(subject.directory) == {"2"}
        if temporaries := list(subject.directory.rglob(f"{TEMPORARY}*")):
            for path in temporaries:
                os.utime(path, (NOW_MS / 1000 - 2 * DAY_SECONDS,) * 2)
            subject.finish()
        names = {name.rpartition("/")[2] for name in unneeded(subject) - left}
        spared = JOURNAL if subject.changing.deletes_old_files else "nothing"
        assert [name for name in names if not name.startswith(spared)] == []
        assert list(subject.directory.rglob(f"{TEMPORARY}*")) == []


@pytest.mark.parametrize(("first", "stride"), FILLED)
def test_the_disk_may_be_full_from_any_step_on(subject, processes, left, first, stride):
    """Nothing new can be written: 13 with the table untouched, or all was written before."""
    steps = steps_of_a_run(subject, processes)
    codes = Counter[int]()
    for nth in (*range(first, steps, stride), steps):
        subject.restore()
        before = subject.current()
        (ended,) = processes.run([subject.words], directory=subject.directory, end="full", nth=nth)
        codes[ended.code] += 1
        committed = subject.changing.commits and ended.code in (0, 3)
        assert (subject.current() != before) == committed, ended.document
        assert ended.code in (0, 3, 13)
        subject.check_whole()
        assert subject.left_when_finished() == left
    assert codes[0]
    writes_nothing = subject.changing.name == "remove-orphans"
    assert codes[13] or first > 1 or writes_nothing  # the first step opens a file to write


@pytest.mark.by_turns(2)
@pytest.mark.parametrize("rounds", [1, pytest.param(100, marks=FULL)])
def test_of_two_runs_at_once_one_wins(subject, processes, left, rounds):
    """Two processes with one command: one version a winner, the loser ends with 11 or has nothing
    to do."""
    for _ in range(rounds):
        subject.restore()
        before = read_metadata(current_metadata(subject.directory))
        ended = processes.run([subject.words, subject.words], directory=subject.directory)
        codes = tuple(sorted(run.code for run in ended))
        if subject.changing.name == "erase":  # several commits: each may make some of them
            assert set(codes) <= {0, 3, 11}, [run.document for run in ended]
            subject.finish()
            assert unneeded(subject) == left
            continue
        assert codes in {(0, 0), (0, 11)}, [run.document for run in ended]
        done = [run for run in ended if run.document["status"] == "done"]
        subject.check_whole()
        if not subject.changing.commits:  # each may find a part of the files
            results = [run.document["result"] for run in done]
            assert sum(found["removed"] + found["quarantined"] for found in results) >= len(STRAYS)
            assert unneeded(subject) == left
            continue
        tables = [run.document["table"] for run in done]
        # The other one may still help to delete what the winner's record names.
        winners = [
            one for one in tables if one["metadata_location_after"] != one["metadata_location"]
        ]
        assert len(winners) == 1, [run.document for run in ended]
        after = read_metadata(current_metadata(subject.directory))
        assert len(after["metadata-log"]) - len(before["metadata-log"]) in (1, 2, 3)
        subject.finish()
        assert unneeded(subject) == left


@pytest.mark.parametrize("rounds", [20, pytest.param(100, marks=FULL)])
def test_of_eight_committers_on_a_local_disk_one_wins_each_version(tmp_path, rounds):
    table = filled_table(tmp_path / "t", range(3))
    check_one_commits_each_version(table.location, lambda _: LocalStore(), rounds)
    assert [path for path in (tmp_path / "t").rglob("*") if ".icectl" in path.name] == []


@pytest.fixture
def small_disk(subject: Subject) -> Iterator[Path]:
    """The table on a file system of its own that has no room left: `filler` takes it up."""
    subject.restore()
    size = sum(2**16 + len(content) for content in subject.contents().values())
    options = ["-t", "tmpfs", "-o", f"size={size},huge=never", "icectl-test"]
    done = subprocess.run(
        ["mount", *options, str(subject.directory)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        pytest.skip(f"a small file system cannot be mounted here: {done.stderr.strip()}")
    try:
        shutil.copytree(subject.pristine, subject.directory, dirs_exist_ok=True)
        filler = subject.directory / "filler"
        with filler.open("wb", buffering=0) as file, suppress(OSError):
            while file.write(bytes(PAGE)):
                pass
        yield filler
    finally:
        subprocess.run(["umount", str(subject.directory)], check=True)


@pytest.mark.by_turns(2)
@pytest.mark.parametrize("pages", [25, pytest.param(1, marks=FULL)])
def test_a_disk_without_room_leaves_the_table_as_it_was(subject, small_disk, left, pages):
    """A page more room each time, then some pages more, until the run succeeds."""
    before = subject.contents()
    failures = 0
    while (ended := subject.run())[0] == 13:
        assert subject.contents() == before
        failures += 1
        with small_disk.open("r+b") as file:
            more = PAGE if failures < 3 else pages * PAGE
            file.truncate(max(small_disk.stat().st_size - more, 0))
        before["filler"] = small_disk.read_bytes()
    assert (failures > 1) == subject.changing.commits  # deleting needs no room
    assert (ended[0], ended[1]["status"]) in {(0, "done"), (3, "incomplete")}
    small_disk.unlink()
    subject.finish()
    assert unneeded(subject) == left
