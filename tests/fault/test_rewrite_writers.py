"""rewrite-manifests beside other writers: their commits stand, only what they changed is redone."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from icectl.storage.local import LocalStore
from tests.builders.rows import current_metadata, read_avro, read_metadata, read_rows
from tests.builders.table_builder import TableBuilder
from tests.fault.changing import run
from tests.stores.wrapped import WrappedStore


class MeanwhileStore(WrappedStore):
    """Another writer commits just before the nth manifest list of icectl is created."""

    def __init__(self, commit: Callable[[], object], times: int = 1) -> None:
        super().__init__(LocalStore())
        self.commit, self.left = commit, times
        self.manifests = 0
        self.lists = 0

    def call(self, method: str, location: str, action: Callable[[], Any]) -> Any:
        name = location.rpartition("/")[2]
        if method == "create" and name.startswith("snap-"):
            self.lists += 1
        elif method == "create" and name.endswith(".avro"):
            self.manifests += 1
        done = action()
        if method == "create" and name.startswith("snap-") and self.left:
            self.left -= 1
            self.commit()
        return done


def build(directory: Path, version: int) -> TableBuilder:
    table = TableBuilder(directory, format_version=version, partitioning="identity")
    for start in range(0, 48, 12):
        table.append(range(start, start + 12))
    if version > 1:
        table.delete_rows([1, 2, 13])
    return table


def rewrite(table: TableBuilder, store: MeanwhileStore, *options: str) -> tuple[int, Any]:
    return run(["rewrite-manifests", table.location, *options, "--yes", "--json"], store)


def shown(table: TableBuilder) -> Any:
    return read_rows(read_metadata(current_metadata(Path(table.location))))


def paths(table: TableBuilder) -> Counter[str]:
    """Live files at the head, by how often they are listed."""
    metadata = read_metadata(current_metadata(Path(table.location)))
    head = next(
        item
        for item in metadata["snapshots"]
        if item["snapshot-id"] == metadata["current-snapshot-id"]
    )
    return Counter(
        (entry["data_file"]["file_path"], entry["data_file"].get("content_offset"))
        for manifest in read_avro(head["manifest-list"])
        for entry in read_avro(manifest["manifest_path"])
        if entry["status"] != 2
    )


CHANGES: dict[str, Callable[[TableBuilder], object]] = {
    "an append": lambda table: table.append(range(60, 72)),
    "files removed": lambda table: table.remove_data_files(3),
    "files merged": lambda table: table.replace_data_files(2),
    "rows deleted": lambda table: table.delete_rows([25, 26]),
}


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("version", [1, 2, 3])
def test_rule_25_what_another_writer_commits_meanwhile_stands(
    tmp_path: Path, version: int, change: str, times: int
) -> None:
    if version == 1 and change == "rows deleted":
        pytest.skip("version 1 has no deletes")
    table = build(tmp_path / "t", version)
    expected: list[Any] = []

    def meanwhile() -> None:
        CHANGES[change](table)
        expected[:] = [shown(table), paths(table)]

    code, document = rewrite(table, MeanwhileStore(meanwhile, times))

    assert (code, document["status"]) == (0, "done"), document
    assert [shown(table), paths(table)] == expected
    assert set(paths(table).values()) == {1}
    code, checked = run(
        ["validate", table.location, "--level", "data", "--all-snapshots", "--json"]
    )
    assert (code, checked["result"]["counts"]["warning"]) == (0, 0)


def test_rule_25_an_append_makes_no_manifest_anew(tmp_path: Path) -> None:
    table = build(tmp_path / "t", 2)
    store = MeanwhileStore(lambda: table.append(range(60, 72)))
    code, document = rewrite(table, store)
    assert code == 0
    assert store.lists == 2
    assert store.manifests == document["result"]["added"] == 1


def test_what_another_run_has_rewritten_is_not_rewritten_again(tmp_path: Path) -> None:
    table = build(tmp_path / "t", 2)
    before = shown(table)
    codes = []

    def other_run() -> None:
        codes.append(run(["rewrite-manifests", table.location, "--yes", "--json"])[0])

    code, _ = rewrite(table, MeanwhileStore(other_run))
    assert (codes, code) == ([0], 11)
    assert shown(table) == before
    assert set(paths(table).values()) == {1}


def test_a_branch_is_redone_on_its_own_head(tmp_path: Path) -> None:
    table = build(tmp_path / "t", 2)
    table.ref("audit", "branch")
    for start in (100, 106):
        table.append(range(start, start + 6), branch="audit")
    main = shown(table)
    code, document = rewrite(
        table, MeanwhileStore(lambda: table.append(range(60, 72))), "--branch", "audit"
    )
    assert (code, document["status"]) == (0, "done")
    assert len(shown(table)) == len(main) + 12
    metadata = read_metadata(current_metadata(Path(table.location)))
    assert len(read_rows(metadata, metadata["refs"]["audit"]["snapshot-id"])) == len(main) + 12
