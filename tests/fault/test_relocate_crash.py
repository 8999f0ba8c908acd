"""The crash law of relocations: whatever fails, the old files stay and a rerun ends at home.

A rerun also removes what a killed run has left. Of a run's calls those that write are gone over;
what a run reads before them leaves nothing.
"""

import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from icectl.commands.relocate import run as relocate
from icectl.commit import output_journal
from icectl.storage.local.store import LocalStore
from tests.builders.folders import contents_by_name
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


def shown(table: Path) -> dict[int, list[Row]]:
    metadata = read_metadata(current_metadata(table))
    ids = [snapshot["snapshot-id"] for snapshot in metadata["snapshots"]]
    return {id_: read_rows(metadata, id_) for id_ in ids}


class Relocated:
    """A table that is to be at home in another folder, which has copies of its files, or gets them.

    A `copied` one is at the new place already, and the old place is no more and must not come
    back. Of another one the new place has nothing, and the old place stays.
    """

    def __init__(self, folder: Path, kind: str, *, copied: bool) -> None:
        self.origin, self.table, self.pristine = folder / "origin", folder / "t", folder / "as-is"
        self.copied, self.copy_list = copied, folder / "copy.csv"
        CHANGING[kind].build(self.origin)
        self.rows = shown(self.origin)
        if copied:
            self.origin.rename(self.pristine)
        else:
            shutil.copytree(self.origin, self.pristine)
        self.files = contents_by_name(self.pristine)
        self.restore()

    def restore(self) -> None:
        shutil.rmtree(self.table, ignore_errors=True)
        if self.copied:
            shutil.copytree(self.pristine, self.table)

    def run(self, store: Any = None) -> tuple[int, dict[str, Any]]:
        places = [self.origin, "--to", self.table, "--copy-list", self.copy_list]
        words = ["relocate", *map(str, [self.table] if self.copied else places)]
        store = store or LocalStore()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(relocate, "open_store", lambda *_: store)  # that of the new place
            return run([*words, "--concurrency", "1", "--json"], store)

    def check(self) -> None:
        """Nothing of what was there is changed, but for the version hint of what was copied."""
        if not self.copied:
            assert contents_by_name(self.origin) == self.files
            return
        now = contents_by_name(self.table)
        for name, content in self.files.items():
            assert now[name] == content or name.endswith("version-hint.text")
        assert not self.origin.exists()

    def finish(self) -> None:
        code, document = self.run()
        assert code == 0, document
        again = self.run()[1]
        assert again["status"] == "nothing-to-do", again
        self.check()
        if not self.copied:
            for name in self.files:
                if not (self.table / name).exists() and name.startswith("data/"):
                    (self.table / name).parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy(self.origin / name, self.table / name)
        assert shown(self.table) == self.rows

    def kinds(self) -> Counter[str]:
        """Count the files by how they end; the hint, which nothing depends on, is left out."""
        return Counter(
            Path(name).suffix for name in contents_by_name(self.table) if not name.endswith(".text")
        )


FULL = pytest.mark.full


@pytest.fixture(
    scope="module",
    params=[
        ("merge-deletes", True),
        ("merge-deletes", False),
        pytest.param(("expire-v3", True), marks=FULL),
        pytest.param(("expire-v3", False), marks=FULL),
    ],
    ids=lambda param: f"{param[0]}-{'copied' if param[1] else 'elsewhere'}",
)
def relocated(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Relocated:
    kind, copied = request.param
    return Relocated(tmp_path_factory.mktemp("relocated"), kind, copied=copied)


def writing_calls(subject: Relocated) -> Sequence[int]:
    """Number the calls from the first that writes on, of a run that nothing disturbs."""
    subject.restore()
    store = CountingStore(LocalStore())
    assert subject.run(store)[0] == 0
    methods = [method for method, _ in store.calls]
    first = next(at for at, method in enumerate(methods, start=1) if method == "create")
    assert len(methods) - first > 8
    return range(first, len(methods) + 1)


@pytest.mark.parametrize(
    "failure", ["lost", pytest.param("before", marks=FULL), pytest.param("after", marks=FULL)]
)
def test_any_write_of_a_relocation_may_fail(relocated, failure):
    for nth in writing_calls(relocated):
        relocated.restore()
        store = FaultyStore(LocalStore(), nth, failure)
        code, document = relocated.run(store)
        assert store.failed
        assert code in (0, 5, 12, 13, 15), document
        relocated.check()
        if code not in (0, 12):
            found = contents_by_name(relocated.table) if relocated.table.exists() else {}
            left = found.keys() - (relocated.files.keys() if relocated.copied else set())
            assert not {name for name in left if name.endswith(".metadata.json")}
        relocated.finish()


def test_a_relocation_may_be_killed_after_any_write(relocated, monkeypatch):
    relocated.restore()
    relocated.finish()
    undisturbed = relocated.kinds()
    monkeypatch.setattr(output_journal, "_is_running", lambda *_: False)  # in fact this process
    for nth in writing_calls(relocated):
        relocated.restore()
        relocated.run(StoppedStore(nth))
        relocated.check()
        relocated.finish()
        assert relocated.kinds() == undisturbed, nth


@pytest.mark.parametrize("last", [10, pytest.param(None, marks=FULL)])
def test_a_copy_of_a_catalog_s_table_becomes_independent_after_any_kill(
    tmp_path, monkeypatch, last
):
    """The next run ends what is left; the renaming of the original's metadata comes last."""
    monkeypatch.setattr(output_journal, "_is_running", lambda *_: False)  # in fact this process
    origin, table = tmp_path / "origin", tmp_path / "t"
    CHANGING["rewrite-manifests"].build(origin)
    rows = shown(origin)
    (origin / "metadata/version-hint.text").unlink()
    for path in origin.glob("metadata/v*.metadata.json"):
        number = int(path.name[1:].split(".")[0])
        name = f"{number:05}-0190c1a4-5b6c-7d8e-9f01-{number:012}.metadata.json"
        path.rename(path.with_name(name))
    files = contents_by_name(origin)
    words = ["relocate", str(table), "--new-uuid", "--concurrency", "1", "--json"]
    shutil.copytree(origin, table)
    store = CountingStore(LocalStore())
    assert run(words, store)[0] == 0
    stops = range(len(store.calls))
    for nth in stops if last is None else stops[-last:]:
        shutil.rmtree(table)
        shutil.copytree(origin, table)
        run(words, StoppedStore(nth))
        code, document = run(words)
        assert code == 0, (nth, document)
        assert run(words)[1]["status"] == "nothing-to-do"
        assert shown(table) == rows
        code, document = run(["rewrite-manifests", str(table), "--yes", "--json"])
        assert (code, document["status"]) == (0, "done"), nth
        assert contents_by_name(origin) == files
