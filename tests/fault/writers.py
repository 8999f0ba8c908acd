"""Other writers that commit at a chosen moment of a run, and what a table shows after both."""

import json
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from icectl.cli import session
from icectl.storage.local.store import LocalStore
from tests.builders.expiry import reachable
from tests.builders.rows import current_metadata, head, live_entries, read_metadata, read_rows
from tests.builders.table_builder import TableBuilder
from tests.builders.twins import grown
from tests.fault.changing import run
from tests.stores.wrapped import WrappedStore


class MeanwhileStore(WrappedStore):
    """Another writer commits once icectl has created a manifest list or a root, `times` of it."""

    def __init__(self, commit: Callable[[], object], times: int = 1) -> None:
        super().__init__(LocalStore())
        self.commit, self.left = commit, times
        self.manifests = 0
        self.lists = 0

    def call(self, method: str, location: str, action: Callable[[], Any]) -> Any:
        name = location.rpartition("/")[2]
        is_list = method == "create" and name.startswith(("snap-", "root-"))
        if is_list:
            self.lists += 1
        elif method == "create" and name.endswith(".avro"):
            self.manifests += 1
        done = action()
        if is_list and self.left:
            self.left -= 1
            self.commit()
        return done


@contextmanager
def alone() -> Iterator[None]:
    """Let commands inside run with a store of their own, in which no other writer commits."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session, "open_store", lambda *_: LocalStore())
        yield


class BeforeStore(WrappedStore):
    """Another run comes just before the first file of a kind is created."""

    def __init__(self, kind: str, comes: Callable[[], object]) -> None:
        super().__init__(LocalStore())
        self.kind, self.comes, self.has_come = kind, comes, False

    def call(self, method: str, location: str, action: Callable[[], Any]) -> Any:
        is_new = method in ("create", "open_new")
        if is_new and self.kind in location and not self.has_come:
            self.has_come = True
            self.comes()
        return action()


def build(directory: Path, version: int = 2) -> TableBuilder:
    """Four manifests of several partitions; deletes where the version has them."""
    appends = [range(start, start + 12) for start in range(0, 48, 12)]
    table = grown(directory, version, appends, "identity")
    if version > 1:
        table.delete_rows([1, 2, 13])
    return table


def shown(table: TableBuilder) -> Any:
    return read_rows(read_metadata(current_metadata(table.directory)))


def paths(table: TableBuilder) -> Counter[str]:
    """Live files at the head, by how often they are listed."""
    return Counter(
        (entry["data_file"]["file_path"], entry["data_file"].get("content_offset"))
        for entry in live_entries(head(table.directory))
    )


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


def check_clean(table: TableBuilder) -> None:
    code, checked = run(
        ["validate", table.location, "--level", "data", "--all-snapshots", "--json"]
    )
    assert (code, checked["result"]["counts"]["warning"]) == (0, 0)
