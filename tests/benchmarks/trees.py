"""Tables of version 4 in memory, and the same as version 3 keeps them: what their commits write.

Both get the same files with metrics of twenty columns. Version 3 is written as engines do: an
append merges small manifests, a delete writes the manifest anew that lists the file. Neither writes
metadata JSON, which is the same for both.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import pyarrow as pa

from icectl.entries.inherit import inherit
from icectl.entries.rows import ALL_COLUMNS, Entries
from icectl.files.manifest.manifest import read_manifest
from icectl.files.manifest.manifest_list import read_manifest_list
from icectl.format.manifest import Content, ManifestContent, ManifestFile, Status
from icectl.format.metadata import TableMetadata
from icectl.format.partition import PartitionSpec
from icectl.format.snapshot import Snapshot
from icectl.format.sort import SortOrder
from icectl.format.updates import AddSnapshot, SetProperties, apply_all
from icectl.sfc1.commit.draft import ParentState, RemovedFile, TreeChange
from icectl.sfc1.commit.writer import TreeWriter
from icectl.sfc1.manifests import TreeSchema, tree_rows
from icectl.table.manifest_lists import read_snapshot_manifests
from icectl.table.manifests import load_entries
from tests.benchmarks.big_table import SCHEMA, STATS_COLUMNS, entries
from tests.builders.expiry import context_of
from tests.builders.plain_manifests import list_of, manifest_of
from tests.stores.fixed_env import FixedEnv

SPEC = PartitionSpec(0, ())
LOCATION = "s3://bucket/warehouse/db/table"
ENTRIES = 1_000
"""Files that a manifest or leaf lists."""
BUILDING = {"icectl.v4.root.max-data-files": "0", "icectl.v4.leaf.max-entries": str(ENTRIES)}
DEFAULTS = {"icectl.v4.root.max-data-files": "1000", "icectl.v4.leaf.max-entries": "1000000"}
PLANNED = frozenset(
    {
        "content", "status", "location", "file_format", "spec_id", "record_count",
        "file_size_in_bytes", "sequence_number",
    }
)  # fmt: skip
BATCH = 25
"""Manifests that are made in one commit."""
MIN_COUNT_TO_MERGE = 100
"""Manifests from which on an append of version 3 merges them: the default of the format."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What one commit wrote besides metadata JSON, and the processor time it took."""

    files: int
    size_bytes: int
    seconds: float


@dataclass
class Memory:
    """A store that keeps files in memory and counts what is written."""

    contents: dict[str, bytes] = field(default_factory=dict)
    written: int = 0
    written_bytes: int = 0

    def read(self, location: str) -> bytes:
        """The content of a file."""
        return self.contents[location]

    def read_range(self, location: str, offset: int, length: int) -> bytes:
        """A part of a file."""
        return self.contents[location][offset : offset + length]

    def create(self, location: str, content: bytes) -> None:
        """Write a new file."""
        self.contents[location] = content
        self.written += 1
        self.written_bytes += len(content)

    def cost(self, commit: Callable[[], object]) -> Cost:
        """What a commit costs."""
        files, size = self.written, self.written_bytes
        start = time.process_time()
        commit()
        seconds = time.process_time() - start
        return Cost(self.written - files, self.written_bytes - size, seconds)


@dataclass
class Names:
    """Locations for new files, as long as icectl's own."""

    count: int = 0

    def _next(self, form: str) -> str:
        self.count += 1
        return f"{LOCATION}/metadata/{form.format(f'{self.count:08x}-1f0e-4b8e-9a53-5b6b0a0d8f11')}"

    def leaf(self) -> str:
        """A new leaf, or manifest."""
        return self._next("{}-m0.parquet")

    def bitmaps(self) -> str:
        """A new Puffin file."""
        return self._next("{}-mdv.puffin")

    def root(self, snapshot_id: int) -> str:
        """A new root, or manifest list."""
        return self._next(f"root-{snapshot_id}-0-{{}}.parquet")


def new_files(batch: int, count: int) -> Entries:
    """`count` data files of a batch that is numbered."""
    table = entries(batch, count, LOCATION)
    keys = pa.array([b""] * count, pa.binary())
    at = table.schema.get_field_index("partition_key")
    return Entries(table.set_column(at, table.schema.field(at), keys))


def empty_metadata(version: int) -> TableMetadata:
    """An unpartitioned table without a snapshot."""
    return TableMetadata(
        version,
        "9c12d441-03fe-4693-9a96-a0705ddf69c1",
        LOCATION,
        0,
        1_750_000_000_000,
        STATS_COLUMNS,
        (SCHEMA,),
        0,
        (SPEC,),
        0,
        999,
        (SortOrder(0, ()),),
        0,
        next_row_id=0,
    )


class TreeTable:
    """A table of version 4, committed to by icectl's own writer."""

    def __init__(self, properties: dict[str, str] | None = None) -> None:
        self.store = Memory()
        self.metadata = empty_metadata(4)
        self.names = Names()
        self.set_properties(properties or {})

    def set_properties(self, properties: dict[str, str]) -> None:
        """Change table properties."""
        self.metadata = apply_all(self.metadata, [SetProperties(properties)])

    @cached_property
    def facts(self) -> TreeSchema:
        return TreeSchema(self.metadata)

    def append(self, files: Entries) -> Cost:
        """Add data files."""
        rows = untracked(tree_rows(self.facts, files, 0))
        return self.commit(lambda facts, _: TreeChange(rows))

    def delete(self, locations: Sequence[str]) -> Cost:
        """Remove data files."""
        gone = [RemovedFile(Content.DATA, location) for location in locations]
        return self.commit(lambda facts, _: TreeChange(facts.empty(), gone))

    def commit(self, change: Callable[[TreeSchema, ParentState], TreeChange]) -> Cost:
        """Put one snapshot on the table; only the newest one is remembered."""
        number = self.metadata.last_sequence_number + 1

        def run() -> None:
            writer = TreeWriter(self.store, FixedEnv(), "main", self.names)  # type: ignore[arg-type]
            updates = writer.write(self.metadata, 1_000 + number, change)
            added = [each for each in updates if isinstance(each, AddSnapshot)]
            changed = apply_all(self.metadata, updates)
            newest = tuple(each.snapshot for each in added)
            self.metadata = replace(changed, snapshots=newest, snapshot_log=())

        return self.store.cost(run)

    @property
    def head(self) -> Snapshot:
        """The newest snapshot."""
        return self.metadata.snapshots[-1]

    @property
    def root_bytes(self) -> int:
        """The size of the newest root."""
        return len(self.store.contents[str(self.head.root_manifest)])


def untracked(rows: pa.Table) -> pa.Table:
    """Rows of new files: what a commit gives them is null."""
    for name in ("snapshot_id", "sequence_number", "file_sequence_number", "first_row_id"):
        at = rows.schema.get_field_index(name)
        rows = rows.set_column(at, rows.schema.field(at), pa.nulls(len(rows), pa.int64()))
    return rows


class ListTable:
    """The same table of version 3: manifest lists, and manifests that are written anew."""

    def __init__(self) -> None:
        self.store = Memory()
        self.names = Names()
        self.metadata = empty_metadata(3)
        self.commits = 0
        self.newest_list: str | None = None
        self.next_row_id = 0

    def listed(self) -> list[ManifestFile]:
        """The manifests of the newest list, read."""
        if self.newest_list is None:
            return []
        return list(read_manifest_list(self.store.read(self.newest_list)))

    def append(self, files: Entries) -> Cost:
        """Add data files as a manifest of their own; many manifests are merged into one."""

        def run() -> None:
            self.commits += 1
            manifests = [self._write(files), *self.listed()]
            if len(manifests) >= MIN_COUNT_TO_MERGE:
                parts = [existing(self.read(item)) for item in manifests]
                manifests = [self._write(Entries(pa.concat_tables(parts)))]
            self._list(manifests)

        return self.store.cost(run)

    def add_manifests(self, batches: Sequence[Entries]) -> None:
        """Add manifests as they are, in one commit."""
        self.commits += 1
        self._list([*(self._write(batch) for batch in batches), *self.listed()])

    def delete(self, location: str) -> Cost:
        """Remove one data file: the manifest that lists it is searched, and written anew."""

        def run() -> None:
            self.commits += 1
            manifests = self.listed()
            for at, item in enumerate(manifests):
                found = self._search(item, location)
                if found:
                    manifests[at] = self._write(Entries(without(self.read(item), location)))
                    break
            self._list(manifests)

        return self.store.cost(run)

    def _search(self, manifest: ManifestFile, location: str) -> bool:
        content = self.store.read(manifest.manifest_path)
        columns = frozenset({"location", "status"})
        _, raw = read_manifest(content, columns=columns, manifest=0, spec=SPEC)
        alive = raw.table["status"].to_numpy() != int(Status.DELETED)
        return location in raw.table["location"].filter(pa.array(alive)).to_pylist()

    def read(self, manifest: ManifestFile) -> pa.Table:
        """All that a manifest says of its files."""
        content = self.store.read(manifest.manifest_path)
        _, raw = read_manifest(content, columns=ALL_COLUMNS, manifest=0, spec=SPEC)
        return inherit(raw, [manifest]).table

    def _write(self, files: Entries) -> ManifestFile:
        statuses = files.table["status"].to_numpy()
        counts = [int((statuses == int(status)).sum()) for status in (1, 0, 2)]
        own_id = 1_000 + self.commits
        at = files.table.schema.get_field_index("snapshot_id")
        carried = files.table["snapshot_id"].fill_null(own_id).to_numpy()
        ids = pa.array(np.where(statuses == int(Status.EXISTING), carried, own_id))
        table = files.table.set_column(at, files.table.schema.field(at), ids)
        records = table["record_count"].to_numpy()
        rows = [int(records[statuses == int(status)].sum()) for status in (1, 0, 2)]
        content = manifest_of(table, SCHEMA, SPEC, format_version=3, snapshot_id=own_id)
        location = self.names.leaf().replace(".parquet", ".avro")
        self.store.create(location, content)
        first_row_id = self.next_row_id
        self.next_row_id += rows[0]
        return ManifestFile(
            location,
            len(content),
            0,
            ManifestContent.DATA,
            self.commits,
            1,
            own_id,
            *counts,
            *rows,
            (),
            None,
            first_row_id,
        )

    def _list(self, manifests: Sequence[ManifestFile]) -> None:
        self.newest_list = self.names.root(1_000 + self.commits).replace(".parquet", ".avro")
        content = list_of(
            manifests, 1_000 + self.commits, self.commits, format_version=3, first_row_id=0
        )
        self.store.create(self.newest_list, content)


def existing(table: pa.Table) -> pa.Table:
    """Rows that a manifest carries over from another."""
    at = table.schema.get_field_index("status")
    statuses = pa.array(np.zeros(len(table), np.int8))
    return table.set_column(at, table.schema.field(at), statuses)


def without(table: pa.Table, location: str) -> pa.Table:
    """Rows of a manifest that is written anew because one of its files goes."""
    kept = table.filter(pa.array(table["status"].to_numpy() != int(Status.DELETED)))
    at = kept.schema.get_field_index("status")
    gone = np.array(kept["location"].to_pylist(), object) == location
    statuses = pa.array(np.where(gone, int(Status.DELETED), int(Status.EXISTING)), pa.int8())
    return kept.set_column(at, kept.schema.field(at), statuses)


def tables(manifests: int, entries: int = ENTRIES) -> tuple[ListTable, TreeTable]:
    """The same files in as many manifests of version 3 and leaves of version 4, of so many each."""
    old = ListTable()
    new = TreeTable(BUILDING | {"icectl.v4.leaf.max-entries": str(entries)})
    step = max(1, BATCH * ENTRIES // entries)
    for start in range(0, manifests, step):
        numbers = range(start, min(start + step, manifests))
        batches = [new_files(number, entries) for number in numbers]
        old.add_manifests(batches)
        new.append(Entries(pa.concat_tables([batch.table for batch in batches])))
    new.set_properties(DEFAULTS)
    return old, new


def tree_planner(table: TreeTable) -> Callable[[], None]:
    """A function that plans the live files of a table as it is now."""
    metadata, head, store = table.metadata, table.head, table.store

    def plan() -> None:
        listed = read_snapshot_manifests(store, metadata, head)  # type: ignore[arg-type]
        _load(store, metadata, listed)

    return plan


def list_planner(table: ListTable) -> Callable[[], None]:
    """The same of version 3."""
    metadata = table.metadata

    def plan() -> None:
        _load(table.store, metadata, table.listed())

    return plan


def _load(store: Memory, metadata: TableMetadata, listed: Sequence[ManifestFile]) -> None:
    load_entries(context_of(store=store, concurrency=8), metadata, listed, PLANNED)
