"""The crash law over every command: whatever fails or interrupts, the table stays whole.

Afterwards the table opens, all rows are there, nothing that is reachable is gone, the exit code
says what happened, and a rerun finishes. The quick tier tries commits in every way, each other call
that changes something in one of four ways, and of the rest every so many.
"""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from icectl.storage.local.store import LocalStore
from tests.builders.rows import current_metadata, listed_manifests, local, read_metadata
from tests.fault.changing import CHANGING, NAMES, Subject, lasting, subject_of
from tests.stores.wrapped import CountingStore, FaultyStore, WrappedStore

FULL = pytest.mark.full
PROBE = ".icectl-probe"
CHANGES = {"create", "open_new", "assemble", "copy", "replace", "remove"}


@pytest.fixture(scope="module", params=NAMES)
def subject(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Subject:
    return subject_of(request.param, tmp_path_factory.mktemp("fault"))


@pytest.fixture(scope="module")
def left(subject: Subject) -> set[str]:
    """What nobody needs after a run that nothing disturbs."""
    return lasting(subject)[1]


Calls = list[tuple[str, str]]
"""Methods and locations, in order."""


@pytest.fixture(scope="module")
def calls(subject: Subject) -> Calls:
    """The calls of a run that nothing disturbs."""
    subject.restore()
    store = CountingStore(LocalStore())
    assert subject.run(store)[0] == 0
    return store.calls


def chosen(calls: Calls, turn: int, stride: int) -> list[int]:
    """Numbers, from 1 on: commits, of the other calls that change something every sixth, from the
    `turn`th on, and of the rest every so many. With a stride of 1, all."""
    if stride == 1:
        return list(range(1, len(calls) + 1))
    changes, rest, commits = [], [], []
    for nth, (method, location) in enumerate(calls, 1):
        (changes if method in CHANGES else rest).append(nth)
        if method == "create" and location.endswith(".metadata.json"):
            commits.append(nth)
    return sorted({*commits, *changes[turn::6], *rest[stride - 1 :: stride]})


def check_finished(subject: Subject, left: set[str]) -> None:
    """A rerun finishes, and leaves no more than an undisturbed run: an empty probe apart."""
    assert {name for name in subject.left_when_finished() if PROBE not in name} == left


@pytest.mark.parametrize(
    ("failure", "turn", "stride"),
    [
        ("before", 0, 47),
        ("lost", 2, 97),
        *(pytest.param(failure, 0, 1, marks=FULL) for failure in ("before", "lost", "after")),
    ],
)
def test_any_store_call_may_fail(subject, left, calls, failure, turn, stride):
    for nth in chosen(calls, turn, stride):
        subject.restore()
        before = subject.current()
        store = FaultyStore(LocalStore(), nth, failure)
        code, document = subject.run(store)
        assert store.failed, f"call {nth} never came"
        subject.check_whole()
        # 0 is done, 3 has committed, 13 and 15 have changed nothing
        assert code in (0, 3, 13, 15), document
        committed = subject.changing.commits and code in (0, 3)
        assert (subject.current() != before) == committed, document
        assert document["exit"] == code
        if code == 0:
            assert document["status"] == "done"
        check_finished(subject, left)


class InterruptedStore(WrappedStore):
    """Ctrl-C during the nth call, `times` of it: before it does anything, or once it has done."""

    def __init__(self, nth: int, moment: str, times: int) -> None:
        super().__init__(LocalStore())
        self.left, self.moment, self.times = nth, moment, times

    def call(self, method: str, location: str, action: Callable[[], Any]) -> Any:
        self.left -= 1
        if self.left == 0 and self.moment == "before":
            self.interrupt()
        done = action()
        if self.left == 0 and self.moment == "after":
            try:
                self.interrupt()
            except BaseException:
                if hasattr(done, "close"):
                    done.close()
                raise
        return done

    def interrupt(self) -> None:
        for _ in range(self.times):
            os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.usefixtures("signals_as_on_a_terminal")
@pytest.mark.by_turns(2)
@pytest.mark.parametrize(
    ("moment", "times", "turn", "stride"),
    [
        ("after", 1, 1, 71),
        ("after", 2, 3, 89),
        *(pytest.param("after", times, 0, 1, marks=FULL) for times in (1, 2)),
        *(pytest.param("before", times, 0, 1, marks=FULL) for times in (1, 2)),
    ],
)
def test_any_store_call_may_be_interrupted(subject, left, calls, moment, times, turn, stride):
    """The first Ctrl-C lets the step finish, the second ends it at once; neither harms."""
    for nth in chosen(calls, turn, stride):
        subject.restore()
        code, _ = subject.run(InterruptedStore(nth, moment, times))
        assert code == 130
        subject.check_whole()
        found = subject.left_when_finished()
        if times == 1:
            assert {name for name in found if PROBE not in name} == left


class BrokenStore(InterruptedStore):
    """A mistake in the program, or in a driver, shows during the nth call."""

    def __init__(self, nth: int, moment: str) -> None:
        super().__init__(nth, moment, times=1)

    def interrupt(self) -> None:
        raise ZeroDivisionError


@pytest.mark.parametrize(
    ("moment", "stride"),
    [("after", 40), pytest.param("after", 1, marks=FULL), pytest.param("before", 1, marks=FULL)],
)
def test_any_store_call_may_raise_what_nobody_expects(subject, left, calls, moment, stride):
    """Where the commit can't have been sent, nothing of the run is left; else a rerun finishes."""
    subject.restore()
    files = subject.files()
    for nth in range(min(stride, len(calls)), len(calls) + 1, stride):
        subject.restore()
        before = subject.current()
        code, document = subject.run(BrokenStore(nth, moment))
        assert code in (0, 1, 3, 12), document
        subject.check_whole()
        if code == 1 and subject.changing.commits and subject.current() == before:
            assert {name for name in subject.files() - files if PROBE not in name} == set()
        found = subject.left_when_finished()
        if code != 12:  # this process goes on, so that its commit might still land
            assert {name for name in found if PROBE not in name} == left


def needed_metadata(subject: Subject) -> list[Path]:
    """Manifest list, where there is one, and manifests of the current snapshot."""
    metadata = read_metadata(current_metadata(subject.directory))
    (head,) = (
        snapshot
        for snapshot in metadata["snapshots"]
        if snapshot["snapshot-id"] == metadata["current-snapshot-id"]
    )
    found = [head[name] for name in ("manifest-list", "root-manifest") if name in head]
    return [local(place) for place in found + [m["manifest_path"] for m in listed_manifests(head)]]


DAMAGES: dict[str, Callable[[Path], object]] = {
    "missing": lambda path: path.unlink(),
    "empty": lambda path: path.write_bytes(b""),
    # Bitmaps are found without the footer of their file.
    "truncated": lambda path: path.write_bytes(
        path.read_bytes()[: 8 if path.suffix == ".puffin" else -40]
    ),
    "garbled": lambda path: path.write_bytes(bytes(byte ^ 0x55 for byte in path.read_bytes())),
    "a directory": lambda path: (path.unlink(), path.mkdir()),
}


def code_of(subject: Subject, damage: str) -> int:
    """13 where a file cannot be had, 15 where it is damaged or gone; upgrades are refused then, but
    not of tables with roots."""
    upgrades = ("migrate-v1-v2", "upgrade-to-v3", "upgrade-to-v4")
    has_roots = subject.changing.name == "leave-sfc-1"
    if subject.changing.words[0] in upgrades and damage != "a directory" and not has_roots:
        return 5
    return 13 if damage == "a directory" else 15


@pytest.mark.by_turns(2)
@pytest.mark.parametrize("stride", [len(DAMAGES), pytest.param(1, marks=FULL)])
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_manifest_that_cannot_be_read_ends_the_run_before_anything_changes(
    subject, left, damage, stride
):
    """In the quick tier each file is damaged in one of the ways: in others with other commands."""
    if subject.changing.is_broken:
        pytest.skip("a repair goes on with what can be read: tests/cli/test_repair.py")
    if not subject.changing.reads_manifests:
        pytest.skip("it changes the metadata file alone, and may lead away from a broken snapshot")
    subject.restore()
    turn = list(DAMAGES).index(damage) + list(CHANGING).index(subject.changing.name)
    for path in needed_metadata(subject)[turn % stride :: stride]:
        content = path.read_bytes()
        DAMAGES[damage](path)
        before = subject.contents()
        code, document = subject.run()
        assert code == code_of(subject, damage), document
        assert path.name in document["error"]["message"]
        assert subject.contents() == before
        if path.is_dir():
            path.rmdir()
        path.write_bytes(content)
    check_finished(subject, left)
