"""Two tables that live through the same: one of version 3, one of version 4.

Operations are told by the ids of rows, so that each table does them with files of its own. The
first is written by the builder of the tests, the second by icectl's commits; between operations
icectl's commands maintain both.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from contextlib import redirect_stdout
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from icectl.catalog.files import FileSystemCatalog
from icectl.cli import app
from icectl.commit.attempt import CommitRequest, commit_changes
from icectl.commit.transaction import Outputs, outputs_of
from icectl.entries.partition_key import decode_key
from icectl.entries.rows import ALL_COLUMNS, CARRIED, PLANNING, Entries
from icectl.files.deletion_vectors import read_dv
from icectl.format.expressions import Expression
from icectl.format.manifest import Content, Status
from icectl.format.metadata import TableMetadata
from icectl.format.partition import PartitionSpec, result_types
from icectl.format.updates import Update, with_log
from icectl.sfc1.commit.draft import ParentState, RemovedFile, TreeChange
from icectl.sfc1.commit.writer import TreeWriter
from icectl.sfc1.manifests import TreeSchema, tree_rows
from icectl.storage.local.store import LocalStore
from icectl.table.manifest_lists import read_snapshot_manifests
from icectl.table.manifests import load_entries
from tests.builders.expiry import Clock, context_of
from tests.builders.rows import local, read_metadata, read_rows, with_whole_locations
from tests.builders.table_builder import PARTITIONINGS, SCHEMA, EntryRow, TableBuilder, by_spec


def _is_data(row: EntryRow) -> bool:
    return bool(row["content"] == Content.DATA)


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
            ids = {name: self.ids(name) for name in self.branches()}
            line = [command, str(self.directory), *options, "--json"]
            code = app.main(line, env=Clock(self.now_ms))
        document: dict[str, Any] = json.loads(out.getvalue())
        assert code == 0, document
        self.refresh()
        for branch, shown in ids.items():
            made = self.metadata.snapshot(self._head(branch) or 0)
            while made is not None and made.snapshot_id not in self.ids_of:  # there may be several
                self.ids_of[made.snapshot_id] = shown
                made = self.metadata.snapshot(made.parent_snapshot_id or 0)
        return document

    def branches(self) -> list[str]:
        """The names of the branches."""
        return [name for name, ref in self.metadata.refs.items() if ref.type == "branch"]

    def refresh(self) -> None:
        """Take over what the newest metadata says."""
        store = LocalStore()
        loaded = FileSystemCatalog(store, str(self.directory), Clock(self.now_ms)).load()
        self.metadata, self.version = loaded.metadata, loaded.version or 0
        self.now_ms = max(self.now_ms, self.metadata.last_updated_ms)
        self._manifests_of, self._entries, self._live = {}, {}, {}
        refs = self.metadata.refs.values()
        for head in {ref.snapshot_id for ref in refs if ref.type == "branch"}:
            self._load(store, head)

    def _load(self, store: LocalStore, head: int) -> None:
        snapshot = self.metadata.snapshot(head)
        assert snapshot is not None
        manifests = read_snapshot_manifests(store, self.metadata, snapshot)
        entries = load_entries(context_of(store=store), self.metadata, manifests, ALL_COLUMNS)
        rows = [self._known(row) for row in entries.table.to_pylist()]
        data = {local(row["location"]): row["location"] for row in rows if _is_data(row)}
        found: dict[str, list[EntryRow]] = {}
        for row in rows:
            if row["referenced_data_file"] is not None:
                reference = local(row["referenced_data_file"])
                row["referenced_data_file"] = data.get(reference, row["referenced_data_file"])
            found.setdefault(manifests[row["manifest"]].manifest_path, []).append(row)
        self._manifests_of[head] = list(manifests)
        self._entries |= found
        self._live[head] = [row for row in rows if row["status"] != Status.DELETED]

    def _known(self, row: EntryRow) -> EntryRow:
        location = row["location"]
        if _is_data(row) and location not in self._row_of_id:
            ids = pq.read_table(local(location), columns=["id"])["id"].to_pylist()
            self._row_of_id[location] = ids
        _, types = self._spec(row["spec_id"])
        return row | {"partition_values": decode_key(row["partition_key"], types)}

    def live(self, branch: str = "main") -> list[EntryRow]:
        """Live entries, data files in the order of the ids in them."""
        self.refresh()
        rows = self._live.get(self._head(branch) or 0, [])
        return sorted(rows, key=lambda row: self._ids_in(row["location"]))

    def delete_rows(
        self, ids: Iterable[int], *, kind: str = "position", branch: str = "main"
    ) -> int:
        """As of every table; each row by value in the spec that its file is of."""
        doomed, live = set(ids) & self.ids(branch), self.live(branch)
        self._deleted_positions = self._positions(live)
        if kind == "position":
            return super().delete_rows(doomed, branch=branch)
        groups: dict[tuple[int, tuple[Any, ...]], list[int]] = {}
        for row in filter(_is_data, live):
            found = sorted(doomed.intersection(self._row_of_id[row["location"]]))
            groups.setdefault((row["spec_id"], row["partition_values"]), []).extend(found)
        added = [
            self._write_equality_deletes(values, found, spec_id)
            for (spec_id, values), found in groups.items()
            if found
        ]
        return self._commit(branch, "delete", self.ids(branch) - doomed, added=added)

    def _positions(self, live: Sequence[EntryRow]) -> dict[str, set[int]]:
        """Which positions of data files are deleted by position."""
        found: dict[Path, set[int]] = {}
        for row in live:
            if row["content"] != Content.POSITION_DELETES:
                continue
            place = local(row["location"])
            if row["content_offset"] is None:
                for one in pq.read_table(place).to_pylist():
                    found.setdefault(local(one["file_path"]), set()).add(one["pos"])
            else:
                start = row["content_offset"]
                blob = place.read_bytes()[start : start + row["content_size_in_bytes"]]
                named = found.setdefault(local(row["referenced_data_file"]), set())
                named |= set(read_dv(blob).tolist())
        data = [row["location"] for row in live if _is_data(row)]
        return {location: found.get(local(location), set()) for location in data}

    def _ids_in(self, location: str) -> list[int]:
        """The ids of a data file's rows in their order: what is compacted need not keep them so."""
        return sorted(self._row_of_id.get(location, []))

    def overwrite(self, ids: Sequence[int], count: int, branch: str = "main") -> None:
        """Remove the first data files, and add rows, in one commit."""
        live = self.live(branch)
        gone = {row["location"] for row in live if row["content"] == Content.DATA}
        gone = set(sorted(gone, key=self._ids_in)[:count])
        removed = {
            (row["location"], row["content_offset"])
            for row in live
            if row["location"] in gone or row["referenced_data_file"] in gone
        }
        left = self.ids(branch) - {id_ for place in gone for id_ in self._row_of_id[place]}
        added = self.loose_data_files(ids)
        self._commit(branch, "overwrite", left | set(ids), added=added, removed=removed)

    def write(self, **members: Any) -> None:
        """Write metadata with other members, as engines do that evolve a table."""
        self.now_ms += self.commit_interval_ms
        changed = replace(self.metadata, last_updated_ms=self.now_ms, **members)
        updated, _ = with_log(changed, self.metadata_location, self.now_ms)
        self._write_version(updated)

    def update(self, change: Update) -> None:
        """Commit one change of the metadata, perhaps another head of a branch."""
        self._update([change])
        self.refresh()

    def has(self, snapshot_id: int) -> bool:
        """Whether a snapshot is in the table."""
        return self.metadata.snapshot(snapshot_id) is not None

    # -- what is compared -----------------------------------------------------------------------

    def files(self, branch: str = "main") -> dict[str, list[Any]]:
        """The live files, told by the rows that they are about."""
        live = self.live(branch)
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
                (
                    (row["record_count"], row["partition_values"])
                    for row in live
                    if row["content"] == Content.EQUALITY_DELETES
                ),
                key=repr,
            ),
        }

    def shown(self) -> dict[int, list[int]]:
        """The ids of rows that every snapshot shows, to a reader that is not icectl's."""
        metadata = read_metadata(local(self.metadata_location))
        if metadata["format-version"] >= 4:
            metadata = with_whole_locations(metadata)
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
    """The table of version 4: from its upgrade on every change is a commit of icectl's engine."""

    def respec(self, partitioning: str) -> None:
        """As of every table; the fields of the new spec are expressions (sfc-1 X5)."""
        if self.metadata.format_version < 4:
            super().respec(partitioning)
            return
        number, first = self.metadata.last_column_id + 1, self.metadata.last_partition_id + 1
        fields = tuple(
            replace(item, field_id=first + at, expr_id=number + at)
            for at, item in enumerate(PARTITIONINGS[partitioning])
        )
        self.spec = PartitionSpec(self.metadata.partition_specs[-1].spec_id + 1, fields)
        self.types = tuple(result_types(self.spec, [SCHEMA]))  # type: ignore[arg-type]
        made = tuple(
            Expression(number + at, type_, one.source_ids, one.transform, one.name, first + at)
            for at, (one, type_) in enumerate(zip(fields, self.types, strict=True))
        )
        self.write(
            partition_specs=(*self.metadata.partition_specs, self.spec),
            default_spec_id=self.spec.spec_id,
            last_partition_id=first - 1 + len(fields),
            last_column_id=number - 1 + len(fields),
            expressions=(*self.metadata.expressions, *made),
        )

    def crash(self, ids: Sequence[int]) -> None:
        """Write all files of an append, and die before the commit."""
        _, _, updates = self._attempt("main", self.loose_data_files(ids), ())
        updates(self.metadata)

    def append_beside(self, ids: Sequence[int], others: Sequence[int]) -> None:
        """An append that finds another one in its way, and is tried again."""
        added = self.loose_data_files(ids)
        pending = [others]

        def interrupt() -> None:
            if pending:
                self.append(pending.pop())

        live = self.ids() | set(ids) | set(others)
        self._land("main", added, (), interrupt)
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
        if self.metadata.format_version < 4:
            return super()._commit(branch, operation, ids, added=added, removed=removed)
        self._land(branch, added, removed, lambda: None)
        head = self._head(branch)
        assert head is not None
        self.ids_of[head] = frozenset(ids)
        return head

    def _land(
        self,
        branch: str,
        added: Sequence[EntryRow],
        removed: Iterable[tuple[str, Any]],
        before: Callable[[], None],
    ) -> None:
        self.now_ms += self.commit_interval_ms
        env = Clock(self.now_ms)
        context = context_of(self.directory, env=env)
        writer, outputs, updates = self._attempt(branch, added, removed)

        def tried(metadata: TableMetadata) -> Sequence[Update]:
            made = updates(metadata)
            before()
            return made

        commit_changes(context, context.catalog.load(), tried, CommitRequest())
        assert writer.last is not None
        outputs.keep(writer.last.files)
        self.refresh()

    def _attempt(
        self, branch: str, added: Sequence[EntryRow], removed: Iterable[tuple[str, Any]]
    ) -> tuple[TreeWriter, Outputs, Updates]:
        env, store = Clock(self.now_ms), LocalStore()
        base = FileSystemCatalog(store, str(self.directory), env).load()
        outputs = outputs_of(store, env, base, "test")
        live = self.live(branch)
        contents = {(row["location"], row["content_offset"]): row["content"] for row in live}
        gone = [RemovedFile(Content(contents[key]), *key) for key in removed]
        numbered = [row | {"manifest": 0, "manifest_pos": at} for at, row in enumerate(added)]
        schema = pa.schema([*PLANNING, *CARRIED])
        parts = {
            part[0]["spec_id"]: Entries(pa.Table.from_pylist(part, schema=schema))
            for part in by_spec(numbered)
        }
        writer, snapshot_id = TreeWriter(store, env, branch, outputs), env.new_snapshot_id()

        def change(facts: TreeSchema, _: ParentState) -> TreeChange:
            rows = [tree_rows(facts, part, spec_id) for spec_id, part in parts.items()]
            return TreeChange(pa.concat_tables([facts.empty(), *rows]), gone)

        def updates(metadata: TableMetadata) -> Sequence[Update]:
            return writer.write(metadata, snapshot_id, change)

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
    new.run("upgrade-to-v4", "--layout=sfc-1", "--yes")
    old.refresh()
    return old, new


def grown(
    directory: Path, version: int, appends: Sequence[Sequence[int]], partitioning: str = "none"
) -> TableBuilder:
    """A table of some appends; of version 4 the first half is of version 3, and in leaves."""
    if version < 4:
        table = TableBuilder(directory, format_version=version, partitioning=partitioning)
    else:
        table = TreeTwin(directory, format_version=3, partitioning=partitioning)
    for at, ids in enumerate(appends):
        if isinstance(table, TreeTwin) and at == len(appends) // 2:
            table.run("upgrade-to-v4", "--layout=sfc-1", "--yes")
        table.append(ids)
    return table
