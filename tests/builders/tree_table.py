"""Tables of version 4: built as older versions, upgraded, and changed by commits of the engine."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa

from icectl.catalog.files import FileSystemCatalog
from icectl.catalog.protocol import Committed
from icectl.cli import app
from icectl.commit.transaction import outputs_of
from icectl.entries.rows import CARRIED, PLANNING, Entries
from icectl.env import Env
from icectl.format.manifest import Content
from icectl.sfc1.commit.draft import ParentState, RemovedFile, TreeChange
from icectl.sfc1.commit.writer import TreeWriter
from icectl.sfc1.manifests import TreeSchema, tree_rows
from icectl.storage.local.store import LocalStore
from tests.builders.rows import current_metadata, live_entries, read_metadata
from tests.builders.table_builder import EntryRow

_SCHEMA = pa.schema([*PLANNING, *CARRIED])


def upgrade(directory: Path, env: Env, *words: str) -> None:
    """Upgrade a table to version 4."""
    assert (
        app.main(
            ["upgrade-to-v4", "--layout=sfc-1", str(directory), *words, "--yes", "--quiet"], env=env
        )
        == 0
    )


def data_files(directory: Path) -> list[str]:
    """The live data files of the current snapshot, sorted."""
    metadata = read_metadata(current_metadata(directory))
    (head,) = (
        s for s in metadata["snapshots"] if s["snapshot-id"] == metadata["current-snapshot-id"]
    )
    entries = (entry["data_file"] for entry in live_entries(head))
    return sorted(one["file_path"] for one in entries if not one.get("content"))


def remove_data_files(directory: Path, env: Env, locations: Sequence[str]) -> None:
    """Commit the removal of data files, which puts delete vectors over their leaves."""

    def change(facts: TreeSchema, _: ParentState) -> TreeChange:
        return TreeChange(facts.empty(), [RemovedFile(Content.DATA, place) for place in locations])

    commit_change(directory, env, change)


def add_files(
    directory: Path, env: Env, rows: Sequence[EntryRow], *, removed: Sequence[RemovedFile] = ()
) -> None:
    """Commit new files, as TableBuilder writes them, and the removal of others."""
    entries = [{name: row.get(name) for name in _SCHEMA.names} for row in rows]
    entries = [row | {"manifest": 0, "manifest_pos": at} for at, row in enumerate(entries)]
    added = Entries(pa.Table.from_pylist(entries, schema=_SCHEMA))

    def change(facts: TreeSchema, _: ParentState) -> TreeChange:
        return TreeChange(tree_rows(facts, added, 0), removed)

    commit_change(directory, env, change)


def commit_change(
    directory: Path, env: Env, change: Callable[[TreeSchema, ParentState], TreeChange]
) -> None:
    """Commit a change of the tree."""
    store = LocalStore()
    catalog = FileSystemCatalog(store, str(directory), env)
    base = catalog.load()
    outputs = outputs_of(store, env, base, "test")
    writer = TreeWriter(store, env, "main", outputs)
    updates = writer.write(base.metadata, env.new_snapshot_id(), change)
    assert isinstance(catalog.commit(base, (), updates), Committed)
    assert writer.last is not None
    outputs.keep(writer.last.files)
