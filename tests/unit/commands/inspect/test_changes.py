"""Changes of version 4 snapshots: the paper's scenarios, from roots and marked leaves alone."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from icectl.commands.inspect.changes import changes, detect_changes, row_changes, rows_between
from icectl.entries.rows import Entries, data_files, deletion_vectors
from icectl.errors import CorruptTable, UsageError
from icectl.format.manifest import Status
from icectl.sfc1.manifest_file import TreeContent, read_tree, write_tree
from icectl.table.reader import Reader
from tests.builders.scenarios import SCENARIOS, Files, Scenario, leaf_location, table

READ = [
    pytest.param(name, at, id=f"{name}-{scenario['snapshots'][at]['snapshot']}")
    for name, scenario in SCENARIOS.items()
    for at in range(len(scenario["snapshots"]))
    if scenario["kind"] in ("READ", "WRITE")
]


class Recording(Files):
    """Files that remember which of them were read."""

    def __init__(self, contents: dict[str, bytes]) -> None:
        super().__init__(contents)
        self.names: list[str] = []

    def read(self, location: str) -> bytes:
        self.names.append(Path(location).stem)
        return super().read(location)


class Lacking(Files):
    """Files of which one is gone."""

    def read_range(self, location: str, offset: int, length: int) -> bytes:
        raise FileNotFoundError(location)


def built(name: str) -> tuple[Scenario, Reader]:
    scenario = Scenario(name)
    scenario.build()
    return scenario, scenario.reader()


def stems(entries: Entries) -> list[str]:
    return sorted(Path(location).stem for location in entries.table["location"].to_pylist())


def short(rows: Any) -> dict[str, Any]:
    return {Path(key).stem: value for key, value in rows.items()}


@pytest.mark.parametrize(("name", "at"), READ)
def test_the_changes_are_those_of_the_paper(name, at):
    scenario, reader = built(name)
    golden = scenario.snapshots[at]
    removed, added = detect_changes(reader, reader.metadata.snapshots[at])
    assert stems(data_files(added)) == sorted(golden["added_files"])
    assert stems(data_files(removed)) == sorted(golden["removed_files"])
    assert stems(deletion_vectors(added)) == sorted(golden["added_vectors"])
    assert stems(deletion_vectors(removed)) == sorted(golden["removed_vectors"])
    rows = row_changes(reader.context.store, added, removed)
    single = {key: positions.tolist() for key, positions in short(rows.deleted).items()}
    assert short(rows.removed) | single == golden["removed_rows"]
    assert short(rows.added) == golden["added_rows"]
    assert rows.restored == {}


def recorded(name: str, snapshot: str) -> tuple[list[str], Any]:
    """The files that detecting the changes of one snapshot reads, each once; and the result."""
    scenario, reader = built(name)
    files = Recording(scenario.files.contents)
    number = 100 + scenario.number(snapshot)
    recorded = replace(reader.context, store=files)  # type: ignore[arg-type]
    found = changes(replace(reader, context=recorded), None, number, None)
    return sorted(set(files.names)), found


@pytest.mark.parametrize(
    ("name", "snapshot", "read"),
    [
        ("SC-04", "S3", ["S3"]), ("SC-07", "S2", ["S2"]), ("SC-05", "S2", ["M2", "S2"]),
        ("SC-09", "S3", ["M1", "S3"]), ("SC-16", "S2", ["DM2", "DVM1", "DVM2", "S2"]),
        ("SC-18", "S2", ["S2"]),
    ],
)  # fmt: skip
def test_no_leaf_is_opened_that_the_root_does_not_mark(name, snapshot, read):
    assert recorded(name, snapshot)[0] == read


def test_a_root_that_expired_is_not_needed():
    scenario, reader = built("SC-09")
    kept = replace(
        reader.metadata, snapshots=reader.metadata.snapshots[2:3], current_snapshot_id=103
    )
    for gone in ("S1", "S2", "S4"):
        del scenario.files.contents[leaf_location(gone)]
    alone = replace(reader, loaded=replace(reader.loaded, metadata=kept))
    found = changes(alone, None, None, None)
    assert (found["from_snapshot_id"], found["from_committed_at"]) == ("102", None)
    assert [file["file_path"] for file in found["files"]] == ["file:///t/data/D3.parquet"]
    assert found["row_changes"] == {"added_rows": 0, "removed_rows": 100}
    with pytest.raises(UsageError):
        changes(alone, 102, None, None)


def test_what_came_and_went_between_two_snapshots_cancels():
    _, reader = built("SC-11")
    found = changes(reader, 101, 103, None)
    assert [(file["change"], Path(file["file_path"]).stem) for file in found["files"]] == [
        ("added", "D3"),
        ("removed", "D1"),
    ]
    assert found["row_changes"] == {"added_rows": 100, "removed_rows": 100}


@pytest.mark.parametrize("name", ["SC-09", "SC-17w", "SC-22", "SC-21", "SC-14w"])
def test_steps_come_to_what_comparing_both_ends_finds(name):
    _, reader = built(name)
    by_steps = changes(reader, 101, None, None)
    # Without its parent the newest snapshot has no line to the first: states are compared.
    last = replace(reader.metadata.snapshots[-1], parent_snapshot_id=None)
    cut = replace(reader.metadata, snapshots=(*reader.metadata.snapshots[:-1], last))
    by_states = changes(
        replace(reader, loaded=replace(reader.loaded, metadata=cut)), 101, None, None
    )
    assert by_states.pop("from_is_ancestor") is False
    assert by_steps.pop("from_is_ancestor") is True
    assert by_states.pop("row_changes") is None
    assert by_steps.pop("row_changes") is not None

    def unordered(found: Any) -> Any:
        return {**found, "files": sorted(found["files"], key=lambda file: file["file_path"])}

    assert unordered(by_steps) == unordered(by_states)


def test_rows_of_a_rewrite_are_not_counted():
    _, reader = built("SC-12")
    step = replace(reader.metadata.snapshots[1], summary={"operation": "replace"})
    removed, added = detect_changes(reader, step)
    assert (len(removed), len(added)) == (1, 1)
    assert rows_between(reader, [step], removed, added) is None


def test_rows_of_a_vector_that_is_gone_are_unavailable_and_not_zero():
    scenario, reader = built("SC-15")
    lacking = Lacking(scenario.files.contents)
    without = replace(reader.context, store=lacking)  # type: ignore[arg-type]
    found = changes(replace(reader, context=without), None, None, None)
    assert found["row_changes"] is None
    assert found["added_position_deletes"] == 2


def test_v4_083_a_vector_beyond_the_end_of_its_leaf_is_refused():
    scenario, reader = built("SC-08")
    scenario.golden["files"]["MDV1"]["positions"][:] = [3]
    try:
        scenario.build()
        with pytest.raises(CorruptTable) as caught:
            changes(reader, None, None, None)
    finally:
        scenario.golden["files"]["MDV1"]["positions"][:] = [1]
    assert caught.value.rule == "V4-083"


def test_a_leaf_that_a_foreign_writer_deletes_removes_what_is_live_nowhere_else():
    scenario, _ = built("SC-05")
    location = leaf_location("S2")
    rows = read_tree(scenario.files.contents[location]).rows
    moved = table(
        scenario.file_row("D1")
        | {"status": Status.EXISTING, "snapshot_id": 101, "sequence_number": 1}
        | {"file_sequence_number": 1, "first_row_id": 0}
    )
    statuses = pa.array([int(Status.DELETED), int(Status.EXISTING)], pa.int8())
    changed = rows.set_column(rows.schema.get_field_index("status"), "status", statuses)
    parts = [
        changed.select(moved.column_names),
        moved.cast(changed.select(moved.column_names).schema),
    ]
    scenario.files.contents[location] = write_tree(pa.concat_tables(parts), TreeContent.ROOT)
    reader = scenario.reader()
    removed, added = detect_changes(reader, reader.metadata.snapshots[1])
    assert (stems(removed), stems(added)) == (["D2", "D3"], [])
