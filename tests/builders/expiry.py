"""A table with something to expire, its expiry, and what must hold afterwards."""

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from icectl.catalog.files import FileSystemCatalog
from icectl.commands.expire_snapshots.report import Expired, ExpireOptions
from icectl.commands.expire_snapshots.run import execute, prepare
from icectl.env import Deadline, Env, SystemEnv
from icectl.progress import Progress, SilentProgress
from icectl.storage.local.store import LocalStore
from icectl.storage.store import Store
from icectl.table.context import TableContext
from icectl.table.retention import AskedRetention
from tests.builders.rows import (
    current_metadata,
    listed_manifests,
    live_entries,
    local,
    read_metadata,
    read_rows,
)
from tests.builders.table_builder import START_MS, TableBuilder
from tests.stores.fixed_env import FixedEnv

NOW_MS = START_MS + 24 * 3_600_000
ALL_BUT_HEADS = AskedRetention(older_than_ms=NOW_MS, retain_last=1)


class Clock(FixedEnv):
    """The clock of the tests; identifiers of its own, as every run has."""

    def new_uuid(self) -> str:
        return SystemEnv().new_uuid()

    def new_snapshot_id(self) -> int:
        return SystemEnv().new_snapshot_id()


@dataclass
class Aged:
    """A table whose older snapshots can go: its builder, and a copy of its files to go back to."""

    table: TableBuilder
    pristine: Path

    @property
    def directory(self) -> Path:
        return self.table.directory

    def restore(self) -> None:
        """Put every file back as it was built."""
        shutil.rmtree(self.directory)
        shutil.copytree(self.pristine, self.directory)

    def files(self) -> set[str]:
        """Every file there is, by its path in the table."""
        found = (
            Path(folder) / name for folder, _, names in os.walk(self.directory) for name in names
        )
        return {str(path.relative_to(self.directory)) for path in found}

    def content(self) -> dict[str, bytes]:
        """Every file with its bytes."""
        return {name: (self.directory / name).read_bytes() for name in self.files()}

    def check_readable(self) -> None:
        """Every snapshot in the metadata shows the rows that it was committed with."""
        metadata = read_metadata(current_metadata(self.directory))
        assert metadata["current-snapshot-id"] == self.table.metadata.current_snapshot_id
        for snapshot in metadata["snapshots"]:
            ids = sorted(dict(row)["id"] for row in read_rows(metadata, snapshot["snapshot-id"]))
            assert ids == sorted(self.table.ids_of[snapshot["snapshot-id"]])


def aged_table(
    directory: Path, *, format_version: int = 2, properties: Mapping[str, str] | None = None
) -> Aged:
    """Seven snapshots: appends, deletes of rows, data files removed, an old one under a tag.

    With all but heads expired, data files, delete files (from version 2), manifests and manifest
    lists go.
    """
    table = TableBuilder(
        directory / "t",
        format_version=format_version,
        partitioning="identity",
        properties=dict(properties or {}),
        merge_manifests_above=2,
    )
    table.append(range(6))
    table.append(range(6, 12))
    table.ref("v1", "tag")
    table.append(range(12, 18))
    if format_version > 1:
        table.delete_rows([0, 13])
    table.remove_data_files(2)
    table.append(range(18, 24))
    table.replace_data_files(3)
    shutil.copytree(table.directory, directory / "pristine")
    return Aged(table, directory / "pristine")


def context_of(
    location: str | Path = "",
    store: Store | None = None,
    env: Env | None = None,
    progress: Progress | None = None,
    concurrency: int = 1,
    ends_at_seconds: float | None = None,
) -> TableContext:
    """Reach a table of the local file system, by default one store call after the other."""
    given_store = LocalStore() if store is None else store
    given_env = Clock(NOW_MS) if env is None else env
    return TableContext(
        store=given_store,
        catalog=FileSystemCatalog(given_store, str(location), given_env),
        env=given_env,
        progress=progress or SilentProgress(),
        deadline=Deadline(given_env, ends_at_seconds),
        concurrency=concurrency,
    )


def options_of(policy: AskedRetention = ALL_BUT_HEADS) -> ExpireOptions:
    """A policy that does not depend on the table."""
    return ExpireOptions(policy=lambda _: policy)


def expire(
    location: str, store: Store | None = None, policy: AskedRetention = ALL_BUT_HEADS
) -> Expired:
    """Plan and run an expiry."""
    context = context_of(location, store)
    return execute(context, prepare(context, options_of(policy)))


def has_work(location: str, policy: AskedRetention = ALL_BUT_HEADS) -> bool:
    """Whether a run would do anything now."""
    return prepare(context_of(location), options_of(policy)).has_work


def reachable(directory: Path, metadata: Mapping[str, Any] | None = None) -> set[str]:
    """The files that the snapshots in the current metadata need, found without icectl."""
    metadata = metadata or read_metadata(current_metadata(directory))
    found: set[str] = set()
    for snapshot in metadata.get("snapshots", []):
        found |= {snapshot[key] for key in ("manifest-list", "root-manifest") if key in snapshot}
        found |= {manifest["manifest_path"] for manifest in listed_manifests(snapshot)}
        for entry in live_entries(snapshot):
            found.add(entry["data_file"]["file_path"])
    for member in ("statistics", "partition-statistics"):
        found |= {entry["statistics-path"] for entry in metadata.get(member, [])}
    return {str(local(location).relative_to(directory)) for location in found}
