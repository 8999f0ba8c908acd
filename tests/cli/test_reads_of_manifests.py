"""A run fetches each manifest, manifest list, root and leaf of a table once; metadata as said."""

import shutil
from collections import Counter
from pathlib import Path

import pytest

from icectl.cli import app, session
from icectl.storage import kept
from icectl.storage.local.store import LocalStore
from tests.builders.broken_tree import TREE_TABLES
from tests.builders.expiry import NOW_MS, Clock
from tests.builders.table_builder import worn_table
from tests.stores.wrapped import CountingStore

COMMANDS = {
    "expire": ("expire-snapshots", "--older-than", "0s", "--retain-last", "1"),
    "rewrite": ("compact", "--method=rewrite", "--rewrite-all"),
    "merge": ("compact", "--method=merge", "--min-input-files", "2"),
    "deletes": ("compact", "--deletes-only", "--min-delete-files", "1"),
    "manifests": ("rewrite-manifests", "--rewrite-all"),
}
LOOKS = {"expire": 2, "rewrite": 3, "merge": 3, "deletes": 3, "manifests": 2}
"""How often the metadata file of the plan is read: for the plan; as the commit writes the next one,
since engines without a lock rename over a file (R-162); and after long work, before a commit."""


@pytest.fixture(scope="module", params=["lists", "sfc-1"])
def built(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table with deletes, replaced files and merged manifests; beside it a copy, `pristine`."""
    directory = tmp_path_factory.mktemp(request.param) / "t"
    if request.param == "sfc-1":
        TREE_TABLES["positions"](directory)
        assert run(directory, *COMMANDS["manifests"]) == 0  # leaves instead of older manifests
    else:
        worn_table(directory)
    shutil.copytree(directory, directory.with_name("pristine"))
    return directory


def run(table: Path, command: str, *options: str) -> int:
    asked = () if command == "inspect" else ("--yes", "--quiet")
    return app.main([command, str(table), *options, *asked], env=Clock(NOW_MS + 86_400_000))


def newest_metadata(table: Path) -> str:
    """The name of the metadata file that a run on the table begins with."""
    names = [path.name for path in (table.parent / "pristine").rglob("v*.metadata.json")]
    return max(names, key=lambda name: int(name[1:].partition(".")[0]))


def reads(table: Path, words: tuple[str, ...], *ends: str) -> Counter[str]:
    """How often a run fetches each metadata file of a table with a name that ends so."""
    shutil.rmtree(table)
    shutil.copytree(table.parent / "pristine", table)
    store = CountingStore(LocalStore())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session, "open_store", lambda *_: store)
        assert run(table, words[0], *words[1:]) == 0
    written = {path.name for path in (table / "metadata").glob("*.metadata.json")}
    before = {path.name for path in (table.parent / "pristine").rglob("*.metadata.json")}
    assert written == before if words[0] == "inspect" else written > before
    return Counter(
        location
        for method, location in store.calls
        if method in ("read", "read_range", "open")
        and "/metadata/" in location
        and location.endswith(ends or (".avro", ".parquet"))
    )


@pytest.mark.parametrize("name", COMMANDS)
def test_each_is_fetched_once(built, name):
    assert set(reads(built, COMMANDS[name]).values()) == {1}


def test_health_fetches_each_once(built, capsys):
    words = ("inspect", "health", "--json")
    assert set(reads(built, words).values()) == {1}
    assert reads(built, words, newest_metadata(built)).total() == 1


@pytest.mark.parametrize("name", COMMANDS)
def test_metadata_is_read_again_for_races_alone(built, name):
    assert reads(built, COMMANDS[name], newest_metadata(built)).total() == LOOKS[name]


def test_more_than_is_kept_is_fetched_again(built, monkeypatch):
    """Memory is bounded: a commit copies entries out of bytes that the plan no longer has."""
    monkeypatch.setattr(kept, "_KEPT_BYTES", 0)
    assert max(reads(built, COMMANDS["rewrite"]).values()) > 1
