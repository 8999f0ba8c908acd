"""Files that another commit replaces and deletes while a run reads: a lost race, and no damage."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from icectl.storage.local.store import LocalStore
from tests.builders.rows import current_metadata
from tests.builders.table_builder import TableBuilder
from tests.fault.changing import run
from tests.fault.writers import alone, build, check_clean, left_over, shown
from tests.stores.wrapped import WrappedStore

EXPIRE = ("expire-snapshots", "--older-than", "0s", "--retain-last", "1", "--min-age", "0s")
ENGINE = ("--engine", "local", "--concurrency", "1")
COMMANDS = {
    "compact": ("compact", "--rewrite-all", *ENGINE),
    "merge deletes": ("compact", "--deletes-only", "--rewrite-all", *ENGINE),
    "rewrite-manifests": ("rewrite-manifests",),
    "expire": EXPIRE,
    "upgrade-to-v4": ("upgrade-to-v4", "--layout", "sfc-1"),
    "migrate": ("migrate-v1-v2", "--rewrite-manifests"),
}


class RacingStore(WrappedStore):
    """Something happens just before the first file of a pattern is read."""

    def __init__(self, pattern: str, comes: Callable[[], object]) -> None:
        super().__init__(LocalStore())
        self.pattern, self.comes, self.has_come = re.compile(pattern), comes, False

    def call(self, method: str, location: str, action: Callable[[], Any]) -> Any:
        if method in ("open", "read", "read_range") and self.pattern.search(location):
            has_come, self.has_come = self.has_come, True
            if not has_come:
                self.comes()
        return action()


def replaced(table: TableBuilder, *words: str) -> Callable[[], None]:
    """Replace files of a table, then expire all else, which deletes them."""

    def comes() -> None:
        with alone():
            for line in (words, EXPIRE):
                code, document = run([line[0], table.location, *line[1:], "--yes", "--json"])
                assert (code, document["status"]) == (0, "done"), document

    return comes


def change(table: TableBuilder, store: WrappedStore, name: str) -> tuple[int, Any]:
    command, *words = COMMANDS[name]
    return run([command, table.location, *words, "--yes", "--json"], store)


@pytest.mark.parametrize(
    ("name", "version", "other", "pattern"),
    [
        ("compact", 2, "compact", r"/data/.*\d\.parquet"),
        ("compact", 2, "merge deletes", r"-deletes\.parquet"),
        ("merge deletes", 2, "merge deletes", r"-deletes\.parquet"),
        ("merge deletes", 3, "compact", r"\.puffin"),
        ("compact", 2, "rewrite-manifests", r"-m\d+\.avro"),
        ("rewrite-manifests", 2, "rewrite-manifests", r"-m0\.avro"),  # not of deletes: it stays
        ("rewrite-manifests", 2, "rewrite-manifests", r"-snap-"),
        ("expire", 2, "compact", r"-snap-"),
        ("expire", 2, "compact", r"-m\d+\.avro"),
        ("upgrade-to-v4", 3, "rewrite-manifests", r"-m\d+\.avro"),
        ("migrate", 1, "rewrite-manifests", r"-m\d+\.avro"),
    ],
)
def test_r153_a_run_whose_files_another_commit_has_removed_loses_a_race(
    tmp_path, name, version, other, pattern
):
    table = build(tmp_path / "t", version)
    before = shown(table)
    store = RacingStore(pattern, replaced(table, *COMMANDS[other]))
    code, document = change(table, store, name)
    assert store.has_come
    assert (code, document["error"]["id"]) == (11, "commit-conflict"), document
    assert re.search(
        "another commit has removed|was removed by another commit", document["error"]["message"]
    )
    assert shown(table) == before
    assert left_over(table) == []
    check_clean(table)


@pytest.mark.parametrize(
    ("view", "pattern", "form"),
    [
        ("summary", r"-snap-", "json"), ("files", r"-m\d+\.avro", "json"),
        ("files", r"-snap-", "jsonl"), ("tree", r"-snap-", "json"),
        ("health", r"-m\d+\.avro", "json"), ("manifests", r"-snap-", "csv"),
    ],
)  # fmt: skip
def test_a_view_whose_files_another_commit_has_removed_shows_the_newest_table(
    tmp_path, view, pattern, form
):
    table = build(tmp_path / "t", 2)
    store = RacingStore(pattern, replaced(table, *COMMANDS["rewrite-manifests"]))
    words = ["inspect", table.location, view, "--format", form, "--concurrency", "1"]
    code, document = run(words, store)
    assert store.has_come
    assert code == 0, document
    if form == "json":
        assert document["table"]["metadata_location"] == str(current_metadata(table.directory))
        assert document["warnings"] == []


@pytest.mark.parametrize(
    ("version", "other", "pattern"),
    [
        (
            2,
            ("compact", "--rewrite-all", *ENGINE, "--where", "category = 'c1'"),
            r"/data/.*\d\.parquet",
        ),
        (3, COMMANDS["merge deletes"], r"\.puffin"),
    ],
)
def test_groups_whose_files_are_still_there_land(tmp_path, version, other, pattern):
    table = build(tmp_path / "t", version)
    before = shown(table)
    code, document = change(table, RacingStore(pattern, replaced(table, *other)), "compact")
    assert (code, document["status"]) == (3, "incomplete"), document
    failed = document["result"]["failed"]
    assert all(re.search("another commit has removed|is not live", one["reason"]) for one in failed)
    statuses = [group["status"] for group in document["result"]["groups"]]
    assert sorted(set(statuses)) == ["done", "failed"]
    assert len(failed) == statuses.count("failed")
    assert shown(table) == before
    assert left_over(table) == []


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("name", ["compact", "merge deletes"])
def test_a_file_that_the_table_still_names_is_damage(tmp_path, name, version):
    table = build(tmp_path / "t", version)
    pattern = r"-deletes\.parquet$" if version == 2 else r"\.puffin$"
    pattern = pattern if name == "merge deletes" else r"/data/.*\d\.parquet"
    files = map(str, (tmp_path / "t/data").rglob("*"))
    lost = Path(next(path for path in files if re.search(pattern, path)))

    def comes() -> None:
        with alone():
            lost.unlink()
            table.append(range(100, 104))  # another version of the table

    code, document = change(table, RacingStore(pattern, comes), name)
    assert (code, document["error"]["id"]) == (15, "file-missing"), document
    assert f"`{lost}` is missing" in document["error"]["message"]


@pytest.mark.parametrize("pattern", [r"-snap-", r"-m\d+\.avro", r"/data/.*\d\.parquet"])
@pytest.mark.parametrize("every", [True, False])
def test_snapshots_that_expire_while_they_are_checked_are_not_broken(tmp_path, every, pattern):
    table = build(tmp_path / "t")
    store = RacingStore(pattern, replaced(table, *COMMANDS["compact"]))
    words = ["validate", table.location, "--level", "data", "--json"]
    code, document = run([*words, "--all-snapshots"] if every else words, store)
    assert store.has_come
    assert (code, document["result"]["counts"]["error"]) == (0, 0), document
    if "data" not in pattern:  # nothing is found once every file was seen
        assert document["result"]["snapshots_checked"] == 1
        assert any("checking again" in warning for warning in document["warnings"])
