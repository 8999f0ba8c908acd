"""Tables of version 4: built as older versions, upgraded, and changed by commits of the engine."""

from collections.abc import Sequence
from pathlib import Path

from icectl.catalog.files import FileSystemCatalog
from icectl.catalog.protocol import Committed
from icectl.cli import app
from icectl.commit.tree_draft import Gone, ParentState, TreeChange
from icectl.commit.tree_snapshot import TreeWriter
from icectl.env import Env
from icectl.run.cleanup import outputs_of
from icectl.spec.manifest import Content
from icectl.spec.updates import SetProperties, apply_all, with_log
from icectl.storage.local import LocalStore
from icectl.table.tree import TreeFacts
from tests.builders.rows import current_metadata, live_entries, read_metadata


def upgrade(directory: Path, env: Env, *words: str) -> None:
    """Upgrade a table to version 4."""
    assert app.main(["upgrade-to-v4", str(directory), *words, "--yes", "--quiet"], env=env) == 0


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
    store = LocalStore()
    catalog = FileSystemCatalog(store, str(directory), env)
    base = catalog.load()
    outputs = outputs_of(store, env, base, "test")
    writer = TreeWriter(store, env, "main", outputs)

    def change(facts: TreeFacts, _: ParentState) -> TreeChange:
        return TreeChange(facts.empty(), [Gone(Content.DATA, place) for place in locations])

    updates = writer.write(base.metadata, env.new_snapshot_id(), change, {})
    _commit(catalog, base, updates, env)
    assert writer.last is not None
    outputs.keep(writer.last.files)


def set_properties(directory: Path, env: Env, properties: dict[str, str]) -> None:
    """Commit table properties."""
    catalog = FileSystemCatalog(LocalStore(), str(directory), env)
    base = catalog.load()
    _commit(catalog, base, [SetProperties(properties)], env)


def _commit(catalog: FileSystemCatalog, base, updates, env: Env) -> None:  # type: ignore[no-untyped-def]
    changed = apply_all(base.metadata, updates)
    now_ms = max(env.now_ms(), base.metadata.last_updated_ms)
    updated, _ = with_log(changed, base.metadata_location, now_ms)
    assert isinstance(catalog.commit(base, updated), Committed)
