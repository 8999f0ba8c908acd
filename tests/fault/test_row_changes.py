"""Changes of rows whatever fails, and killed at any step: all of it has landed, or nothing."""

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from icectl.commands.rows.delete import delete, where
from icectl.commands.rows.write import append, overwrite_partitions
from icectl.errors import CommitUnknown, IcectlError
from icectl.storage.local.store import LocalStore
from icectl.storage.store import Store
from tests.builders.inline_rows import InlineFinder, InlineFrame, rows_of, tree, way_to
from tests.builders.rows import current_metadata, ids_of, live_entries, local, read_metadata
from tests.stores.wrapped import CountingStore, FaultyStore, WrappedStore

Act = Callable[[Path, Store], object]
START = list(range(20))
ACTS: dict[str, tuple[Act, list[int]]] = {
    "append": (
        lambda at, store: append(way_to(at, store), InlineFrame(rows_of([30]), store, 1), "main"),
        [*START, 30],
    ),
    "overwrite": (
        lambda at, store: overwrite_partitions(
            way_to(at, store), InlineFrame(rows_of([30]), store), "main"
        ),
        [one for one in START if one % 3] + [30],
    ),
    "delete": (
        lambda at, store: delete(
            way_to(at, store), InlineFinder(store), where("category = 'c1' or id = 3"), "main"
        ),
        [one for one in START if one % 3 != 1 and one != 3],
    ),
}
EVERY = [6, pytest.param(1, marks=pytest.mark.full)]
"""Which of the calls fail, or are the last."""


def built(tmp_path: Path) -> Path:
    """A table with some rows, as it was before whatever has happened to it."""
    directory, kept = tmp_path / "t", tmp_path / "kept"
    if kept.exists():
        shutil.rmtree(directory)
    else:
        tree(directory, "identity")
        append(way_to(directory), InlineFrame(rows_of(START), LocalStore()), "main")
        directory.rename(kept)
    shutil.copytree(kept, directory)
    return directory


def left_over(directory: Path) -> list[str]:
    """Files that no snapshot needs, journals among them."""
    metadata = read_metadata(current_metadata(directory))
    entries = [entry for one in metadata["snapshots"] for entry in live_entries(one)]
    needed = {local(entry["data_file"]["file_path"]) for entry in entries}
    needed |= {local(one["root-manifest"]) for one in metadata["snapshots"]}
    found = [*(directory / "data").rglob("*"), *(directory / "metadata").glob("*")]
    return sorted(
        path.name
        for path in found
        if path.is_file()
        and path not in needed
        and not path.name.endswith((".metadata.json", "version-hint.text"))
    )


def calls_of(tmp_path: Path, act: Act) -> int:
    store = CountingStore(LocalStore())
    act(built(tmp_path), store)
    return len(store.calls)


@pytest.mark.parametrize("every", EVERY)
@pytest.mark.parametrize("failure", ["before", "after", "lost"])
@pytest.mark.parametrize("name", ACTS)
def test_any_store_call_may_fail(tmp_path, name, failure, every):
    act, expected = ACTS[name]
    for nth in range(1, calls_of(tmp_path, act) + 1, every):
        directory = built(tmp_path)
        error: IcectlError | None = None
        try:
            act(directory, FaultyStore(LocalStore(), nth, failure))
        except IcectlError as raised:
            error = raised
        assert ids_of(directory) in (START, expected), (nth, error)
        if error is None:
            assert ids_of(directory) == expected
        elif not isinstance(error, CommitUnknown) and failure == "before":
            assert ids_of(directory) == START, (nth, error)
        before = ids_of(directory)
        append(way_to(directory), InlineFrame(rows_of([50]), LocalStore()), "main")
        assert ids_of(directory) == [*before, 50]


class KillingStore(WrappedStore):
    """Kills this process at the nth call."""

    def __init__(self, nth: int) -> None:
        super().__init__(LocalStore())
        self.left = nth

    def call(self, method: str, location: str, action: Callable[[], Any]) -> Any:
        self.left -= 1
        if not self.left:
            os.kill(os.getpid(), signal.SIGKILL)
        return action()


@pytest.mark.parametrize("every", EVERY)
@pytest.mark.parametrize("name", ACTS)
def test_a_program_may_be_killed_at_any_step(tmp_path, name, every):
    """What it wrote goes with the next change that lands, once the killed one cannot any more."""
    act, expected = ACTS[name]
    for nth in range(1, calls_of(tmp_path, act) + 1, every):
        directory = built(tmp_path)
        child = os.fork()
        if not child:
            try:
                act(directory, KillingStore(nth))
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        assert ids_of(directory) in (START, expected), nth
        late = way_to(directory)
        for id_ in (40, 41):
            append(late, InlineFrame(rows_of([id_]), LocalStore()), "main")
        assert set(ids_of(directory)) - {40, 41} in (set(START), set(expected))
        assert left_over(directory) == [], nth
