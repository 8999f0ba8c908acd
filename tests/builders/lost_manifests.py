"""Tables whose lists name manifests that are gone, and readers of them, for what repairs prove."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from icectl.catalog.files import FILE_SYSTEM
from icectl.format.manifest import ManifestContent, ManifestFile
from icectl.format.metadata import TableMetadata
from icectl.format.snapshot import Snapshot
from icectl.storage.local.store import LocalStore
from icectl.storage.store import Store
from icectl.table.manifest_lists import read_snapshot_manifests
from icectl.table.reader import Reader
from tests.builders.commits import loaded_at
from tests.builders.expiry import context_of
from tests.builders.plain_manifests import list_of
from tests.builders.table_builder import TableBuilder
from tests.stores.fixed_env import FixedEnv
from tests.stores.wrapped import WrappedStore


def reader_of(
    table: TableBuilder,
    *,
    metadata: TableMetadata | None = None,
    store: Store | None = None,
    env: FixedEnv | None = None,
    ends_at_seconds: float | None = None,
) -> Reader:
    """A reader of the table as it is now, or with other metadata."""
    loaded = loaded_at(table.metadata_location, metadata or table.metadata, FILE_SYSTEM)
    context = context_of(store=store, env=env or FixedEnv(), ends_at_seconds=ends_at_seconds)
    return Reader(context, loaded)


def snapshot_of(table: TableBuilder, snapshot_id: int) -> Snapshot:
    """A snapshot that is there."""
    found = table.metadata.snapshot(snapshot_id)
    assert found is not None
    return found


def listed(table: TableBuilder, snapshot_id: int) -> list[ManifestFile]:
    """The manifests that a snapshot lists."""
    snapshot = snapshot_of(table, snapshot_id)
    return [*read_snapshot_manifests(LocalStore(), table.metadata, snapshot, sound=False)]


def manifest_of(
    table: TableBuilder,
    snapshot_id: int,
    content: ManifestContent = ManifestContent.DATA,
    *,
    by: int | None = None,
    is_new: bool = True,
) -> ManifestFile:
    """The one manifest that a snapshot lists of what it added, or of what it kept and merged.

    `by` is the snapshot that wrote it, by default the same.
    """
    (found,) = [
        one
        for one in listed(table, snapshot_id)
        if one.content is content
        and one.added_snapshot_id == (by or snapshot_id)
        and bool(one.added_files_count) is is_new
    ]
    return found


def lose(manifest: ManifestFile) -> ManifestFile:
    """Remove a manifest's file."""
    Path(manifest.manifest_path).unlink()
    return manifest


def date_files(table: TableBuilder) -> None:
    """Let live files be of the time of the snapshots that added them, as they would be."""
    times = {one.snapshot_id: one.timestamp_ms for one in table.metadata.snapshots}
    for row in table.live():
        path = Path(row["location"])
        if path.exists():
            os.utime(path, ns=(times[row["snapshot_id"]] * 10**6,) * 2)


def relist(table: TableBuilder, snapshot_id: int, manifests: Sequence[ManifestFile]) -> None:
    """Let a snapshot list these manifests."""
    snapshot = snapshot_of(table, snapshot_id)
    content = list_of(
        manifests,
        snapshot_id,
        snapshot.sequence_number,
        format_version=table.format_version,
        parent_snapshot_id=snapshot.parent_snapshot_id,
        first_row_id=snapshot.first_row_id,
        codec="deflate",
    )
    Path(str(snapshot.manifest_list)).write_bytes(content)


def with_snapshot(metadata: TableMetadata, snapshot_id: int, **members: Any) -> TableMetadata:
    """The metadata with other members of a snapshot."""
    changed = [
        replace(one, **members) if one.snapshot_id == snapshot_id else one
        for one in metadata.snapshots
    ]
    return replace(metadata, snapshots=tuple(changed))


@dataclass
class Failing(WrappedStore):
    """A store in which one call for one location fails."""

    method: str
    location: str
    error: Exception
    store: Store = field(default_factory=LocalStore)

    def call(self, method: str, location: str, action: Callable[[], Any]) -> Any:
        if (method, location) == (self.method, self.location):
            raise self.error
        return action()
