"""What a repair writes: manifests with the changes of several fixes, a list, a snapshot."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from icectl.commands.repair.head import (
    HeadFix,
    HeadRepair,
    ManifestChange,
    ReadHead,
    RepairedHead,
    proposal,
    read_head,
    write_manifests,
)
from icectl.commands.repair.plan import Fix, Kind
from icectl.commit.transaction import Outputs, outputs_of
from icectl.entries.rows import ALL_COLUMNS, as_existing, take
from icectl.env import Deadline
from icectl.errors import CommitConflict, Incomplete
from icectl.format.manifest import ManifestFile
from icectl.format.updates import AddSnapshot, SetSnapshotRef
from icectl.table.manifests import load_entries
from tests.builders.broken import read_records
from tests.builders.expiry import context_of
from tests.builders.lost_manifests import listed, lose, reader_of, relist, snapshot_of
from tests.builders.table_builder import TableBuilder, filled_table

SNAPSHOT_ID = 77


@pytest.fixture
def table(tmp_path: Path) -> TableBuilder:
    """Appends of 3 rows in two files and of 3 in one, the newer one first in the list."""
    built = filled_table(tmp_path / "t", range(3), files=2)
    built.append(range(3, 6))
    return built


def last(table: TableBuilder) -> int:
    return table.metadata.snapshots[-1].snapshot_id


def head_of(table: TableBuilder) -> ReadHead:
    return read_head(reader_of(table), snapshot_of(table, last(table)))


def head_fix(*changes: ManifestChange, kind: Kind = "list-row") -> HeadFix:
    return HeadFix(Fix(kind, None, "subject", "what", "proof"), changes)


def write(
    table: TableBuilder, *head_fixes: HeadFix, head: ReadHead | None = None
) -> tuple[RepairedHead, Outputs]:
    context, reader = context_of(table.directory), reader_of(table)
    outputs = outputs_of(context.store, context.env, reader.loaded, "repair")
    head_repair = HeadRepair("main", head or head_of(table), head_fixes)
    return write_manifests(reader, head_repair, outputs), outputs


def facts(manifest: ManifestFile) -> list[tuple[Any, ...]]:
    """What a manifest of version 2 says of each file."""
    return [
        (
            entry["status"], entry["snapshot_id"], entry["sequence_number"],
            entry["data_file"]["file_path"], entry["data_file"]["record_count"],
        )
        for entry in read_records(Path(manifest.manifest_path))
    ]  # fmt: skip


def expected(table: TableBuilder, at: int) -> list[tuple[Any, ...]]:
    """What it should say of the files that the snapshot at a place added."""
    snapshot = table.metadata.snapshots[at]
    return [
        (0, snapshot.snapshot_id, at + 1, row["location"], row["record_count"])
        for row in table.live()
        if row["snapshot_id"] == snapshot.snapshot_id
    ]


def test_what_does_not_change_is_listed_as_it_is(table):
    made, outputs = write(table)
    assert list(made.manifests) == listed(table, last(table))
    assert (made.written, outputs.locations) == (frozenset(), [])
    assert (made.branch, made.repaired) == ("main", snapshot_of(table, last(table)))
    assert made.entries is not None
    assert made.entries.table["record_count"].to_pylist() == [3, 2, 1]


@pytest.mark.parametrize("at", [0, 1])
def test_a_row_is_counted_anew_only_where_a_fix_says_so(table, at):
    right = listed(table, last(table))
    relist(table, last(table), [replace(one, manifest_length=5) for one in right])
    made, _ = write(table, head_fix(ManifestChange(at, described=True)))
    assert made.manifests[at] == right[at]
    assert made.manifests[1 - at] == replace(right[1 - at], manifest_length=5)
    assert made.written == frozenset()


def test_a_manifest_goes(table):
    first, second = listed(table, last(table))
    made, _ = write(table, head_fix(ManifestChange(0, gone=True)), head_fix(ManifestChange(0)))
    assert made.manifests == (second,)
    assert made.entries is not None
    assert made.entries.table["record_count"].to_pylist() == [2, 1]
    assert first not in made.manifests


def test_entries_are_dropped_and_restated_and_the_rest_is_as_before(table):
    _, second = listed(table, last(table))
    two, one = expected(table, 0)
    made, outputs = write(
        table,
        head_fix(ManifestChange(1, restated={1: {"record_count": 9}})),
        head_fix(ManifestChange(1, described=True)),
    )
    (new,) = made.written
    assert outputs.locations == [new]
    assert made.manifests[1].manifest_path == new != second.manifest_path
    assert facts(made.manifests[1]) == [two, (*one[:4], 9)]
    assert made.manifests[1].existing_rows_count == 11
    made, _ = write(table, head_fix(ManifestChange(1, dropped=frozenset({0}))))
    assert facts(made.manifests[1]) == [one]
    assert made.entries is not None
    assert made.entries.table["record_count"].to_pylist() == [3, 1]
    made, _ = write(
        table,
        head_fix(ManifestChange(1, dropped=frozenset({0}))),
        head_fix(ManifestChange(1, restated={1: {"record_count": 9}})),
    )
    assert facts(made.manifests[1]) == [(*one[:4], 9)]


def test_a_manifest_of_which_nothing_stays_is_not_written(table):
    made, outputs = write(table, head_fix(ManifestChange(1, dropped=frozenset({0, 1}))))
    assert list(made.manifests) == listed(table, last(table))[:1]
    assert outputs.locations == []


def test_removed_files_are_not_written_anew(table):
    removed = table.live()[0]["location"]
    table.remove_data_files(1)
    rows = listed(table, last(table))
    at = next(number for number, one in enumerate(rows) if one.deleted_files_count)
    made, _ = write(table, head_fix(ManifestChange(at, restated={9: {"record_count": 1}})))
    assert all(one.deleted_files_count == 0 for one in made.manifests)
    assert removed not in {fact[3] for one in made.manifests for fact in facts(one)}


def test_what_was_rebuilt_is_written(table):
    head = head_of(table)
    entries = load_entries(context_of(), table.metadata, head.listed.manifests[1:], ALL_COLUMNS)
    lose(head.listed.manifests[1])
    rebuilt = as_existing(take(entries, [1]))
    made, _ = write(table, head_fix(ManifestChange(1, rebuilt=rebuilt)), head=head_of(table))
    assert facts(made.manifests[1]) == [expected(table, 0)[1]]
    assert made.entries is not None


def test_totals_are_not_told_where_a_manifest_that_stays_cannot_be_read(table):
    lost = lose(listed(table, last(table))[1])
    made, outputs = write(table, head_fix(ManifestChange(0, described=True)))
    assert made.entries is None
    assert made.manifests[1] == lost
    found = proposal(context_of(table.directory), table.metadata, made, SNAPSHOT_ID, outputs)
    (summary,) = [one.snapshot.summary for one in found.updates if isinstance(one, AddSnapshot)]
    assert [name for name in summary or () if name.startswith("total-")] == []


@pytest.mark.parametrize(
    ("kinds", "operation"),
    [
        (["list-row", "metrics"], "replace"),
        (["list-row", "lost-data"], "delete"),
        (["lost-data", "lost-deletes", "metrics"], "overwrite"),
    ],
)
def test_r032_a_snapshot_is_named_by_what_happens_to_rows(table, kinds, operation):
    """Whether or not they were counted: a list of version 1 need not say how many are lost."""
    made, _ = write(table, *(head_fix(ManifestChange(0), kind=kind) for kind in kinds))
    assert made.operation == operation


def test_the_time_limit_ends_the_writing(table):
    context = context_of(table.directory)
    ended = replace(context, deadline=Deadline(context.env, 0))
    reader = replace(reader_of(table), context=ended)
    outputs = outputs_of(context.store, context.env, reader.loaded, "repair")
    with pytest.raises(Incomplete):
        write_manifests(reader, HeadRepair("main", head_of(table), ()), outputs)


def test_the_next_snapshot_lists_what_was_made_and_tells_what_it_repairs(table):
    made, outputs = write(
        table, head_fix(ManifestChange(1, dropped=frozenset({0})), kind="lost-data")
    )
    found = proposal(context_of(table.directory), table.metadata, made, SNAPSHOT_ID, outputs)
    added, moved = found.updates
    assert isinstance(added, AddSnapshot)
    assert isinstance(moved, SetSnapshotRef)
    assert (moved.name, moved.ref.snapshot_id) == ("main", SNAPSHOT_ID)
    snapshot = added.snapshot
    assert (snapshot.snapshot_id, snapshot.parent_snapshot_id) == (SNAPSHOT_ID, last(table))
    assert snapshot.operation == "delete"
    told = dict(snapshot.summary or {})
    assert told["icectl.repair-of"] == str(last(table))
    assert (told["total-data-files"], told["total-records"]) == ("2", "4")
    assert found.files == {snapshot.manifest_list, *made.written}
    assert set(outputs.locations) == found.files
    names = [row["manifest_path"] for row in read_records(Path(str(snapshot.manifest_list)))]
    assert sorted(names) == sorted(one.manifest_path for one in made.manifests)


def test_a_branch_that_has_moved_on_is_not_repaired(table):
    made, outputs = write(table, head_fix(ManifestChange(1, dropped=frozenset({0}))))
    table.append([9])
    with pytest.raises(CommitConflict, match="branch main has changed; run the repair again"):
        proposal(context_of(table.directory), table.metadata, made, SNAPSHOT_ID, outputs)
    assert [place for place in outputs.locations if "snap-" in place] == []
