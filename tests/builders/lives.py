"""What tables live through: changes of all kinds, and maintenance, on one table or on twins."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from icectl.format.schema import Schema
from icectl.format.snapshot import SnapshotRef
from icectl.format.types import DecimalType, NestedField, PrimitiveType
from icectl.format.updates import RemoveSnapshotRef, SetSnapshotRef
from tests.builders.rows import (
    current_metadata,
    listed_manifests,
    live_entries,
    local,
    read_metadata,
    with_whole_locations,
)
from tests.builders.twins import TreeTwin

Step = tuple[str, str, Any]
"""What happens, to which branch, and how."""

COMMANDS = {
    "compact": ("compact", "--engine", "local", "--min-input-files", "2"),
    "compact all": ("compact", "--engine", "local", "--rewrite-all"),
    "compact deletes": ("compact", "--engine", "local", "--deletes-only"),
    "rewrite": ("rewrite-manifests",),
    "expire": ("expire-snapshots", "--older-than", "0s", "--retain-last", "2"),
    "expire all": (
        "expire-snapshots", "--older-than", "0s", "--retain-last", "1", "--expire-unreferenced",
        "--clean-expired-metadata",
    ),
    "orphans": ("remove-orphans", "--older-than", "0s", "--allow-recent", "--max-fraction", "1"),
    "upgrade": ("upgrade-to-v4", "--layout=sfc-1", "--eager"),
}  # fmt: skip
_OF_BRANCHES = {"compact", "compact all", "compact deletes", "rewrite"}
SPELLINGS = ("{}", "file:{}", "file://{}", "file://localhost{}")
_OF_LIMITS = ("V4-190", "V4-191")
"""Warnings of roots that were written before their limits were lowered."""


class Evolving(TreeTwin):
    """A table whose columns, partitions and location change; with `mixed`, files too are named in
    many ways.
    """

    mixed = False

    def _new_path(self, folder: str, suffix: str) -> tuple[str, Path]:
        location, path = super()._new_path(folder, suffix)
        if self.mixed:
            inside = location.removeprefix(self.location)
            location = SPELLINGS[self._counter % len(SPELLINGS)].format(self.directory) + inside
        return location, path

    def refresh(self) -> None:
        """As of every twin; new files lie where the metadata says."""
        super().refresh()
        self.location = self.metadata.location

    def evolve(self, what: str) -> None:
        """Add, rename, drop or widen a column."""
        current = self.metadata.schema(self.metadata.current_schema_id)
        assert current is not None
        fields, number = list(current.fields), self.metadata.last_column_id
        if what == "add":
            number += 1
            fields.append(NestedField(number, f"new{number}", PrimitiveType("int"), required=False))
        elif what == "rename":
            name = f"note{len(self.metadata.schemas)}"
            fields = [replace(one, name=name) if one.id == 5 else one for one in fields]
        elif what == "widen":
            wide = DecimalType(12, 2)
            fields = [replace(one, type=wide) if one.id == 3 else one for one in fields]
        else:
            specs = self.metadata.partition_specs
            used = {id_ for spec in specs for item in spec.fields for id_ in item.source_ids}
            fields = [one for one in fields if one.id in used | {1, 2}]
        schema = Schema(max(one.schema_id for one in self.metadata.schemas) + 1, tuple(fields))
        self.write(
            schemas=(*self.metadata.schemas, schema),
            current_schema_id=schema.schema_id,
            last_column_id=number,
        )

    def repartition(self, partitioning: str) -> None:
        """Partition anew, under a number that no spec had that maintenance has removed."""
        number = max(spec.spec_id for spec in self.metadata.partition_specs)
        self.spec = replace(self.spec, spec_id=number)
        self.respec(partitioning)

    def move(self, how: int) -> None:
        """Name the table's location in another way; version 4 wants a scheme."""
        spelling = SPELLINGS[how + (self.metadata.format_version >= 4)]
        self.write(location=spelling.format(self.directory))
        self.location = self.metadata.location


class Life:
    """What the tables go through together; `next_id` is that of the next row.

    They have the same files where they are `alike`, without deletes of another form.
    """

    def __init__(self, tables: Sequence[Evolving]) -> None:
        self.tables = tables
        self.next_id = 100
        self.alike = True
        self.heads: list[list[int]] = []

    def step(self, what: str, branch: str, how: Any) -> None:
        """Do one thing to all tables, where it can be done."""
        branch = branch if branch in self.tables[0].metadata.refs else "main"
        if what in COMMANDS:
            on = ("--branch", branch) if what in _OF_BRANCHES else ()
            for table in self.tables:
                if what != "upgrade" or table.metadata.format_version >= 4:
                    self._command(table, *COMMANDS[what], *on)
        elif what in ("delete", "delete by value"):
            self._delete(what, branch, how)
        elif what in ("branch", "tag", "drop", "roll back"):
            self._name(what, branch, how)
        elif what in ("append", "overwrite", "beside", "crash"):
            self._add(what, branch, how)
        else:
            for table in self.tables:
                self._change(table, what, branch, how)

    def _command(self, table: Evolving, *words: str) -> None:
        table.run(*words, "--yes")
        if "--rewrite-all" not in words:
            assert table.run(*words, "--check")["status"] == "nothing-to-do"

    def _delete(self, what: str, branch: str, ranks: Sequence[int]) -> None:
        there = sorted(self.tables[0].ids(branch))
        doomed = [there[rank] for rank in ranks if rank < len(there)]
        kind = "position" if what == "delete" else "equality"
        for table in self.tables:
            if doomed and table.format_version > 1:
                table.delete_rows(doomed, kind=kind, branch=branch)

    def _name(self, what: str, branch: str, how: int) -> None:
        refs, name = self.tables[0].metadata.refs, f"t{how}" if how else "b"
        for at, table in enumerate(self.tables):
            head = table.metadata.refs[branch].snapshot_id
            if what == "branch" and "b" not in refs:
                table.ref("b", "branch")
            elif what == "tag":
                table.ref(f"t{how}", "tag", snapshot_id=head)
            elif what == "drop" and name in refs:
                table.update(RemoveSnapshotRef(name))
            elif what == "roll back" and how < len(self.heads):
                back = self.heads[-1 - how]
                if all(map(Evolving.has, self.tables, back)):
                    table.update(SetSnapshotRef(branch, SnapshotRef(back[at], "branch")))

    def _add(self, what: str, branch: str, count: int) -> None:
        start, self.next_id = self.next_id, self.next_id + 2 * count
        ids, others = range(start, start + count), range(start + count, self.next_id)
        for table in self.tables:
            is_tree = table.metadata.format_version >= 4
            if what == "append":
                table.append(ids, branch=branch)
            elif what == "overwrite":
                table.overwrite(ids, 1, branch)
            elif what == "beside" and is_tree:
                table.append_beside(ids, others)
            elif what == "beside":
                table.append(others)
                table.append(ids)
            elif is_tree:
                table.crash(ids)

    def _change(self, table: Evolving, what: str, branch: str, how: Any) -> None:
        if what == "remove" and table.files(branch)["data"]:
            table.remove_data_files(how, branch=branch)
        elif what == "partition":
            table.repartition(how)
        elif what == "evolve":
            table.evolve(how)
        elif what == "move":
            table.move(how)
        elif what == "limit":
            table.set_properties(how)

    def compare(self) -> None:
        """All tables show what they should, and the same; nothing that they need has gone."""
        first = self.tables[0]
        for table in self.tables:
            assert table.shown() == table.expected()
            for branch in table.branches() if self.alike else ():
                assert table.files(branch) == first.files(branch)
            assert missing(table) == []
        self.heads.append([table.metadata.refs["main"].snapshot_id for table in self.tables])


def faults(table: Evolving, level: str) -> list[dict[str, Any]]:
    """What `validate` has to say of a table, beside what changed limits cause."""
    found = table.run("validate", "--level", level, "--all-snapshots")["result"]["findings"]
    told = [one for one in found if one["severity"] != "info"]
    return [one for one in told if one["rule"] not in _OF_LIMITS]


def missing(table: Evolving) -> list[str]:
    """The files that the metadata needs and that are not there, found without icectl."""
    metadata = read_metadata(current_metadata(table.directory))
    if metadata["format-version"] >= 4:
        metadata = with_whole_locations(metadata)
    places: list[str] = []
    for snapshot in metadata.get("snapshots", []):
        places += [snapshot[key] for key in ("manifest-list", "root-manifest") if key in snapshot]
        places += [one["manifest_path"] for one in listed_manifests(snapshot)]
        places += [one["data_file"]["file_path"] for one in live_entries(snapshot)]
    return [place for place in places if not local(place).exists()]


def evolving_twins(
    directory: Path, version: int, partitioning: str, spelling: str, *, mixed: bool
) -> list[Evolving]:
    """Two tables of an older version, with the same rows."""
    made = []
    for name in ("v3", "v4"):
        path = directory / name
        made.append(
            Evolving(
                path,
                format_version=version,
                partitioning=partitioning,
                location=spelling.format(path),
            )
        )
        made[-1].mixed = mixed
    return made


def upgraded(life: Life, *words: str) -> None:
    """Bring the first table to version 3, and the other one to version 4."""
    for table in life.tables:
        if table.format_version == 1:
            table.run("migrate-v1-v2", "--yes")
        if table.format_version < 3:
            table.refresh()
            table.upgrade()
    life.tables[1].run("upgrade-to-v4", "--layout=sfc-1", *words, "--yes")
    life.alike = "--convert-position-deletes" not in words
    life.compare()
