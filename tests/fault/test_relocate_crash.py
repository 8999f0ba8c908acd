"""The crash law of relocations: whatever fails, the old files stay and a rerun ends at home."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from icectl.storage.local.store import LocalStore
from tests.builders.rows import Row, current_metadata, read_metadata, read_rows
from tests.fault.changing import CHANGING, run
from tests.stores.wrapped import CountingStore, FaultyStore, WrappedStore


class StoppedStore(WrappedStore):
    """The process ends after the nth call, and nothing that it would do then is done."""

    def __init__(self, nth: int) -> None:
        super().__init__(LocalStore())
        self.left = nth

    def call(self, method: str, location: str, action: Callable[[], Any]) -> Any:
        if self.left <= 0:
            raise SystemExit(143)
        self.left -= 1
        return action()


def contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def shown(table: Path) -> dict[int, list[Row]]:
    metadata = read_metadata(current_metadata(table))
    ids = [snapshot["snapshot-id"] for snapshot in metadata["snapshots"]]
    return {id_: read_rows(metadata, id_) for id_ in ids}


class Moved:
    """A table that was copied from `origin`, which is there no more, and must not come back."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.origin, self.table, self.pristine = folder / "origin", folder / "t", folder / "as-is"
        CHANGING[kind].build(self.origin)
        self.rows = shown(self.origin)
        self.origin.rename(self.pristine)
        self.files = contents(self.pristine)
        self.restore()

    def restore(self) -> None:
        shutil.rmtree(self.table, ignore_errors=True)
        shutil.copytree(self.pristine, self.table)

    def run(self, store: Any = None) -> tuple[int, dict[str, Any]]:
        words = ["relocate", str(self.table), "--concurrency", "1", "--json"]
        return run(words, store or LocalStore())

    def check(self) -> None:
        """Nothing of what was copied is changed, but for the version hint."""
        now = contents(self.table)
        for name, content in self.files.items():
            assert now[name] == content or name.endswith("version-hint.text")
        assert not self.origin.exists()

    def finish(self) -> None:
        code, document = self.run()
        assert code == 0, document
        assert shown(self.table) == self.rows
        again = self.run()[1]
        assert again["status"] == "nothing-to-do", again
        self.check()


@pytest.fixture(scope="module", params=["expire-v3", "merge-deletes"])
def moved(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Moved:
    return Moved(tmp_path_factory.mktemp("moved"), request.param)


def call_count(moved: Moved) -> int:
    moved.restore()
    store = CountingStore(LocalStore())
    assert moved.run(store)[0] == 0
    return len(store.calls)


@pytest.mark.parametrize("failure", ["before", "lost", "after"])
def test_any_store_call_of_a_relocation_may_fail(moved: Moved, failure: Any) -> None:
    for nth in range(1, call_count(moved) + 1, 5):
        moved.restore()
        store = FaultyStore(LocalStore(), nth, failure)
        code, document = moved.run(store)
        assert store.failed
        assert code in (0, 5, 12, 13, 15), document
        moved.check()
        if code not in (0, 12):
            left = contents(moved.table).keys() - moved.files.keys()
            assert not {name for name in left if name.endswith(".metadata.json")}
        moved.finish()


def test_a_relocation_may_be_killed_after_any_store_call(moved: Moved) -> None:
    for nth in range(1, call_count(moved) + 1, 5):
        moved.restore()
        moved.run(StoppedStore(nth))
        moved.check()
        moved.finish()
