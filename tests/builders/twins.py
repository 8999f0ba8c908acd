"""Two tables that live through the same: one of version 3, one of version 4.

Operations are told by the ids of rows, so that each table does them with files of its own. The
first is written by the builder of the tests, the second by icectl's commits; between operations
icectl's commands maintain both.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from icectl.catalog.files import FileSystemCatalog
from icectl.cli import app
from icectl.codec.dv import read_dv
from icectl.commit.attempt import Committer
from icectl.commit.tree_draft import Gone, TreeChange
from icectl.commit.tree_snapshot import TreeWriter
from icectl.entries.partition_key import decode_key
from icectl.entries.rows import Entries
from icectl.entries.schema import ALL_COLUMNS, CARRIED, PLANNING
from icectl.progress import SilentProgress
from icectl.run.cleanup import Outputs, outputs_of
from icectl.spec.manifest import Content, Status
from icectl.spec.metadata import TableMetadata
from icectl.spec.updates import Update
from icectl.storage.local import LocalStore
from icectl.table.manifest_lists import read_snapshot_manifests
from icectl.table.manifests import load_entries
from icectl.table.tree import tree_rows
from tests.builders.expiry import Clock
from tests.builders.rows import local, read_metadata, read_rows
from tests.builders.table_builder import EntryRow, TableBuilder

Updates = Callable[[TableMetadata], Sequence[Update]]
_HOUR_MS = 3_600_000


class Twin(TableBuilder):
    """A table that others change too: its state is what its files say."""

    def run(self, *words: str) -> dict[str, Any]:
        """Run a command; the document that it prints. The state is read again."""
        command, *options = words
        out = StringIO()
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(out):
            patch.setenv("XDG_CONFIG_HOME", "/nonexistent")
            self.now_ms += _HOUR_MS
            line = [command, str(self.directory), *options, "--json"]
            code = app.main(line, env=Clock(self.now_ms))
        document: dict[str, Any] = json.loads(out.getvalue())
        assert code == 0, document
        ids = self.ids()
        self.refresh()
        self.ids_of.setdefault(self._head("main") or 0, ids)
        return document

    def refresh(self) -> None:
        """Take over what the newest metadata says."""
        store = LocalStore()
        loaded = FileSystemCatalog(store, str(self.directory), Clock(self.now_ms)).load()
        self.metadata, self.version = loaded.metadata, loaded.version or 0
        self.now_ms = max(self.now_ms, self.metadata.last_updated_ms)
        head = self.metadata.current_snapshot
        if head is None:
            return
        manifests = read_snapshot_manifests(store, self.metadata, head)
        entries = load_entries(
            store,
            self.metadata,
            manifests,
            columns=ALL_COLUMNS,
            concurrency=1,
            progress=SilentProgress(),
        )
        self._manifests_of = {head.snapshot_id: list(manifests)}
        rows = [self._known(row) for row in entries.table.to_pylist()]
        self._entries = {}
        for row in rows:
            self._entries.setdefault(manifests[row["manifest"]].manifest_path, []).append(row)
        self._live = [row for row in rows if row["status"] != Status.DELETED]

    def _known(self, row: EntryRow) -> EntryRow:
        location = row["location"]
        if row["content"] == Content.DATA and location not in self._row_of_id:
            ids = pq.read_table(local(location), columns=["id"])["id"].to_pylist()
            self._row_of_id[location] = ids
        if row["content_offset"] is not None:
            raw = local(location).read_bytes()
            start = row["content_offset"]
            positions = read_dv(raw[start : start + row["content_size_in_bytes"]])
            self._deleted_positions[row["referenced_data_file"]] = set(positions.tolist())
        return row | {"partition_values": decode_key(row["partition_key"], self.types)}

    def live(self, branch: str = "main") -> list[EntryRow]:
        """Live entries, data files in the order of the ids in them."""
        assert branch == "main"
        self.refresh()
        if self.metadata.current_snapshot is None:
            return []
        return sorted(self._live, key=lambda row: self._ids_in(row["location"]))

    def _ids_in(self, location: str) -> list[int]:
        """The ids of a data file's rows in their order: what is compacted need not keep them so."""
        return sorted(self._row_of_id.get(location, []))

    def overwrite(self, ids: Sequence[int], count: int) -> None:
        """Remove the first data files, and add rows, in one commit."""
        live = self.live()
        gone = {row["location"] for row in live if row["content"] == Content.DATA}
        gone = set(sorted(gone, key=self._ids_in)[:count])
        removed = {
            (row["location"], row["content_offset"])
            for row in live
            if row["location"] in gone or row["referenced_data_file"] in gone
        }
        left = self.ids() - {id_ for place in gone for id_ in self._row_of_id[place]}
        added = self.loose_data_files(ids)
        self._commit("main", "overwrite", left | set(ids), added=added, removed=removed)

    # -- what is compared -----------------------------------------------------------------------

    def files(self) -> dict[str, list[Any]]:
        """The live files, told by the rows that they are about."""
        live = self.live()
        data = {
            row["location"]: self._ids_in(row["location"])
            for row in live
            if row["content"] == Content.DATA
        }
        return {
            "data": sorted(data.values()),
            "vectors": sorted(
                (data.get(row["referenced_data_file"], []), row["record_count"])
                for row in live
                if row["content"] == Content.POSITION_DELETES
            ),
            "equality": sorted(
                (row["record_count"], row["partition_values"])
                for row in live
                if row["content"] == Content.EQUALITY_DELETES
            ),
        }

    def shown(self) -> dict[int, list[int]]:
        """The ids of rows that every snapshot shows, to a reader that is not icectl's."""
        metadata = read_metadata(local(self.metadata_location))
        return {
            snapshot["snapshot-id"]: sorted(
                dict(row)["id"] for row in read_rows(metadata, snapshot["snapshot-id"])
            )
            for snapshot in metadata["snapshots"]
        }

    def expected(self) -> dict[int, list[int]]:
        """The ids that the snapshots of the table should show."""
        return {
            one.snapshot_id: sorted(self.ids_of[one.snapshot_id]) for one in self.metadata.snapshots
        }


class TreeTwin(Twin):
    """The table of version 4: every change is a commit of icectl's engine."""

    def crash(self, ids: Sequence[int]) -> None:
        """Write all files of an append, and die before the commit."""
        _, _, updates = self._attempt(self.loose_data_files(ids), ())
        updates(self.metadata)

    def append_beside(self, ids: Sequence[int], others: Sequence[int]) -> None:
        """An append that finds another one in its way, and is tried again."""
        added = self.loose_data_files(ids)
        pending = [others]

        def interrupt() -> None:
            if pending:
                self.append(pending.pop())

        live = self.ids() | set(ids) | set(others)
        self._land(added, (), interrupt)
        self.ids_of[self._head("main") or 0] = frozenset(live)

    def _commit(
        self,
        branch: str,
        operation: str,
        ids: Iterable[int],
        *,
        added: Sequence[EntryRow] = (),
        removed: Iterable[tuple[str, Any]] = (),
    ) -> int:
        assert branch == "main"
        self._land(added, removed, lambda: None)
        head = self._head("main")
        assert head is not None
        self.ids_of[head] = frozenset(ids)
        return head

    def _land(
        self,
        added: Sequence[EntryRow],
        removed: Iterable[tuple[str, Any]],
        before: Callable[[], None],
    ) -> None:
        self.now_ms += self.commit_interval_ms
        env = Clock(self.now_ms)
        catalog = FileSystemCatalog(LocalStore(), str(self.directory), env)
        base = catalog.load()
        writer, outputs, updates = self._attempt(added, removed)

        def tried(metadata: TableMetadata) -> Sequence[Update]:
            made = updates(metadata)
            before()
            return made

        Committer(catalog, env, SilentProgress()).commit(base, [], tried)
        assert writer.last is not None
        outputs.keep(writer.last.files)
        self.refresh()

    def _attempt(
        self, added: Sequence[EntryRow], removed: Iterable[tuple[str, Any]]
    ) -> tuple[TreeWriter, Outputs, Updates]:
        env, store = Clock(self.now_ms), LocalStore()
        base = FileSystemCatalog(store, str(self.directory), env).load()
        outputs = outputs_of(store, env, base, "test")
        contents = {(row["location"], row["content_offset"]): row["content"] for row in self.live()}
        gone = [Gone(Content(contents[key]), *key) for key in removed]
        numbered = [row | {"manifest": 0, "manifest_pos": at} for at, row in enumerate(added)]
        entries = Entries(pa.Table.from_pylist(numbered, schema=pa.schema([*PLANNING, *CARRIED])))
        writer, snapshot_id = TreeWriter(store, env, "main", outputs), env.new_snapshot_id()

        def updates(metadata: TableMetadata) -> Sequence[Update]:
            return writer.write(
                metadata,
                snapshot_id,
                lambda facts, _: TreeChange(tree_rows(facts, entries, self.spec.spec_id), gone),
                {},
            )

        return writer, outputs, updates


def twins(directory: Path, partitioning: str) -> tuple[Twin, TreeTwin]:
    """Two tables with the same rows, which differ in their version alone."""
    made = []
    for kind, name in ((Twin, "v3"), (TreeTwin, "v4")):
        table = kind(directory / name, format_version=3, partitioning=partitioning)
        # Both begin with a snapshot of version 3.
        TableBuilder._commit(
            table, "main", "append", range(4), added=table.loose_data_files(range(4))
        )
        made.append(table)
    old, new = made
    assert isinstance(new, TreeTwin)
    new.run("upgrade-to-v4", "--yes")
    old.refresh()
    return old, new
