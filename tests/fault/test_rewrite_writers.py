"""rewrite-manifests beside other writers: their commits stand, only what they changed is redone."""

import json
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from icectl.storage.local import LocalStore
from tests.builders.expiry import reachable
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


class BeforeStore(WrappedStore):
    """Another run comes just before the first file of a kind is created."""

    def __init__(self, kind: str, comes: Callable[[], object]) -> None:
        super().__init__(LocalStore())
        self.kind, self.comes, self.has_come = kind, comes, False

    def call(self, method: str, location: str, action: Callable[[], Any]) -> Any:
        if method == "create" and self.kind in location and not self.has_come:
            self.has_come = True
            self.comes()
        return action()


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
    check_clean(table)


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


def presume_dead(table: TableBuilder) -> None:
    """Make every run that has a journal now look like a process that is no more."""
    process = subprocess.Popen(["true"])
    process.wait()
    for path in (table.directory / "metadata").glob("icectl-*.json"):
        path.write_text(json.dumps(json.loads(path.read_text()) | {"pid": process.pid}))


def left_over(table: TableBuilder) -> list[str]:
    """Files that the table does not need: journals, manifests, manifest lists, temporary ones."""
    needed = reachable(table.directory)
    return [
        str(path.relative_to(table.directory))
        for path in table.directory.rglob("*")
        if path.is_file()
        and str(path.relative_to(table.directory)) not in needed
        and not path.name.endswith((".metadata.json", "version-hint.text"))
    ]


@pytest.mark.parametrize("presumed_dead", [False, True])
@pytest.mark.parametrize("moment", ["snap-", ".metadata.json"])
def test_a_run_on_a_branch_does_not_disturb_one_on_main(
    tmp_path: Path, moment: str, presumed_dead: bool
) -> None:
    """The other commits between any two steps of this one's commit; even where it takes this one
    for dead, only what no commit can name any more goes."""
    table = build(tmp_path / "t", 2)
    table.ref("audit", "branch")
    table.append(range(100, 106), branch="audit")
    before, codes = shown(table), []

    def other_run() -> None:
        if presumed_dead:
            presume_dead(table)
        line = ["rewrite-manifests", table.location, "--branch", "audit", "--yes", "--json"]
        codes.append(run(line)[0])

    code, document = rewrite(table, BeforeStore(moment, other_run))
    assert (codes, code) == ([0], 11 if presumed_dead else 0), document
    assert shown(table) == before
    check_clean(table)
    assert rewrite(table, MeanwhileStore(table.live, 0))[0] == 0
    assert shown(table) == before
    assert left_over(table) == []


def test_a_run_that_is_taken_for_dead_may_still_land_where_nobody_else_commits(
    tmp_path: Path,
) -> None:
    """The mark comes after this run has looked for it, and the other has nothing to commit: so it
    removes nothing."""
    table = build(tmp_path / "t", 2)
    before, others = shown(table), []

    def other_run() -> None:
        presume_dead(table)
        line = ["rewrite-manifests", table.location, "--content", "deletes", "--yes", "--json"]
        others.append(run(line)[1]["status"])

    code, _ = rewrite(table, BeforeStore(".metadata.json", other_run))
    assert (others, code) == (["nothing-to-do"], 0)
    assert shown(table) == before
    check_clean(table)
    assert left_over(table) == []


def check_clean(table: TableBuilder) -> None:
    code, checked = run(
        ["validate", table.location, "--level", "data", "--all-snapshots", "--json"]
    )
    assert (code, checked["result"]["counts"]["warning"]) == (0, 0)


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
