"""Every command through the protocol of catalogs alone: a catalog that is none of icectl's own.

It keeps its pointer in memory, puts metadata into a folder of its own, and changes what is current
by requirements and updates, as a server does.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from icectl.catalog.protocol import Capabilities, CommitOutcome, Committed, Conflict, LoadedTable
from icectl.cli import session
from icectl.files.metadata_file import read_metadata as parse
from icectl.files.metadata_file import write_metadata
from icectl.format.snapshot import SnapshotRef
from icectl.format.updates import Requirement, SetSnapshotRef, Update, apply_all, check, with_log
from icectl.storage.local.store import LocalStore
from tests.builders.compactions import build
from tests.builders.expiry import NOW_MS
from tests.builders.orphans import age, stray
from tests.builders.rows import current_metadata, read_metadata, read_rows
from tests.fault.changing import run

SERVED = Capabilities(
    is_certain=True, publishes=True, numbers_versions=False, cleans_metadata=False
)


@dataclass
class Served:
    """A catalog with one table; `commits` are what was asked for, and was done."""

    location: str
    folder: Path
    commits: list[tuple[Sequence[Requirement], Sequence[Update]]] = field(default_factory=list)

    def load(self, *, to_show: bool = False) -> LoadedTable:
        metadata = parse(Path(self.location).read_bytes())
        return LoadedTable(metadata, self.location, None, str(self.folder), SERVED)

    def check_writable(self, loaded: LoadedTable) -> None: ...

    def settle(self) -> None: ...

    def commit(
        self, base: LoadedTable, requirements: Sequence[Requirement], updates: Sequence[Update]
    ) -> CommitOutcome:
        now = self.load()
        broken = [reason for each in requirements if (reason := check(now.metadata, each))]
        if broken:
            return Conflict(broken[0])
        changed, _ = with_log(apply_all(now.metadata, updates), now.metadata_location, NOW_MS)
        self.location = f"{self.folder}/{len(self.commits) + 1:05}-served.metadata.json"
        LocalStore().create(self.location, write_metadata(changed, compressed=False))
        self.commits.append((requirements, updates))
        return Committed(self.load())


@pytest.fixture
def served(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: Any) -> Served:
    """A catalog's table of small files with deletes, some old snapshots and a stray file."""
    build(tmp_path / "t", request.param, "identity")
    (tmp_path / "elsewhere").mkdir()
    catalog = Served(str(current_metadata(tmp_path / "t")), tmp_path / "elsewhere")
    monkeypatch.setattr(session, "resolve", lambda *_, **__: catalog)
    return catalog


def rows(served: Served) -> list[Any]:
    """The rows of the current snapshot, read without icectl."""
    found = read_rows(read_metadata(Path(served.location)))
    return sorted(tuple(item for item in row if not item[0].startswith("_")) for row in found)


COMMANDS = {
    "expire": ["expire-snapshots", "--older-than", "0s", "--retain-last", "1", "--yes"],
    "rewrite": ["rewrite-manifests", "--min-manifests", "1"],
    "compact": ["compact", "--engine", "local", "--rewrite-all"],
    "orphans": ["remove-orphans", "--older-than", "2d", "--yes", "--max-fraction", "1"],
    "migrate": ["migrate-v1-v2", "--yes"],
    "upgrade-to-v3": ["upgrade-to-v3", "--yes", "--convert-position-deletes"],
    "upgrade": ["upgrade-to-v4", "--layout=sfc-1", "--yes", "--eager"],
    "tag": ["refs", "tag", "kept", "--max-ref-age", "1s"],
    "properties": ["properties", "set", "owner=ada"],
    "expire-rows": ["expire-rows", "--where", "at < '2023-11-14T23:00'", "--yes"],
    "analyze": ["analyze", "--engine", "local"],
}
EVERYWHERE = (
    "tag", "properties", "analyze", "rewrite", "compact", "expire-rows", "orphans", "expire",
)  # fmt: skip
TO_TREES = ("upgrade", "compact", "orphans")


@pytest.mark.parametrize(
    ("served", "names"),
    [
        (1, ("migrate", *EVERYWHERE)),
        (2, (*EVERYWHERE, "upgrade-to-v3")),
        (3, (*EVERYWHERE, *TO_TREES)),
    ],
    indirect=["served"],
)
def test_commands_work_by_the_protocol_alone(served, names, tmp_path):
    table = tmp_path / "t"
    beside = {path.name for path in (table / "metadata").iterdir()}
    before = rows(served)
    for number, name in enumerate(names):
        lost = stray(table / "data", f"lost-{number}.parquet", days=7)
        age(table, 5)
        committed = len(served.commits)
        command, *options = COMMANDS[name]
        if name == "orphans":  # the location does not hold the metadata: the caller vouches for it
            options += ["--location", str(table), "--delete-outside"]
        code, document = run([command, "./by-name", *options, "--json"])
        assert code == 0, document
        if name == "expire-rows":
            before = [row for row in before if dict(row)["id"] > 0]
        assert rows(served) == before
        if name == "orphans":
            assert not lost.exists()
            continue
        assert len(served.commits) > committed, document
        assert document["table"]["metadata_location_after"] == served.location
        assert {path.name for path in (table / "metadata").iterdir()} <= beside
        assert [path for path in served.folder.iterdir() if "icectl-" in path.name] == []
        code, document = run(["validate", "./by-name", "--level", "data", "--json"])
        assert (code, document["result"]["counts"]["error"]) == (0, 0), document
        assert run(["inspect", "./by-name", "--json"])[0] == 0


@pytest.mark.parametrize("served", [3], indirect=True)
def test_what_changes_meanwhile_is_a_conflict_and_planned_anew(served):
    """Another client sets a tag between plan and commit: the expiry must keep it."""
    oldest = served.load().metadata.snapshots[0].snapshot_id
    requirements: list[Any] = []
    commit = served.commit

    def meanwhile(base: LoadedTable, required: Any, updates: Any) -> CommitOutcome:
        requirements.append(required)
        if len(requirements) == 1:
            tagged = SetSnapshotRef("keep", SnapshotRef(oldest, "tag"))
            commit(served.load(), (), [tagged])
            return Conflict("a ref was set meanwhile")
        return commit(base, required, updates)

    served.commit = meanwhile  # type: ignore[method-assign]
    code, document = run([COMMANDS["expire"][0], "./by-name", *COMMANDS["expire"][1:], "--json"])
    assert code == 0, document
    metadata = served.load().metadata
    assert metadata.refs["keep"].snapshot_id == oldest
    assert metadata.snapshot(oldest) is not None
    assert {each.name for each in requirements[-1] if hasattr(each, "name")} == {"main", "keep"}
