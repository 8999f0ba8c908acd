"""Rows appended, overwritten and deleted in tables of layout sfc-1, read back without icectl."""

import json
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from icectl.cli import app
from icectl.commands.rows.change import RowChange
from icectl.commands.rows.delete import delete, where
from icectl.commands.rows.deletion import WantedRows
from icectl.commands.rows.write import append, overwrite_partitions
from icectl.env import SystemEnv
from icectl.errors import CommitConflict, CorruptTable, Refused, Unsupported, UsageError
from icectl.files.manifest.manifest_list import write_manifest_list
from icectl.format.manifest import ManifestFile
from icectl.rows.find_job import keys_of
from icectl.storage.local.store import LocalStore
from icectl.storage.store import Store
from icectl.table.context import TableContext
from icectl.table.guard import open_to_change
from tests.builders import plain_manifests
from tests.builders.compactions import compacted, planned
from tests.builders.inline_rows import InlineFinder, InlineFrame, rows_of, tree, way_to
from tests.builders.rows import (
    current_metadata,
    head,
    ids_of,
    live_entries,
    local,
    read_metadata,
    read_rows,
)
from tests.builders.table_builder import TableBuilder, filled_table
from tests.builders.tree_table import upgrade
from tests.stores.wrapped import CountingStore

STORE = LocalStore()
READS = {"open", "read", "read_range"}
SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.full) for seed in range(1, 9))]


def appended(directory: Path, rows: pa.Table, tasks: int = 1) -> RowChange:
    return append(way_to(directory), InlineFrame(rows, STORE, tasks), "main")


def overwritten(directory: Path, rows: pa.Table) -> RowChange:
    return overwrite_partitions(way_to(directory), InlineFrame(rows, STORE), "main")


def deleted(directory: Path, text: str, finder: InlineFinder | None = None) -> RowChange:
    return delete(way_to(directory), finder or InlineFinder(STORE), where(text), "main")


def deleted_keys(directory: Path, keys: pa.Table) -> RowChange:
    def wanted(metadata: Any) -> WantedRows:
        return WantedRows(*keys_of(keys, metadata.current_schema))

    return delete(way_to(directory), InlineFinder(STORE), wanted, "main")


def maintained(directory: Path, command: str) -> None:
    """Compact data files in this process, or rewrite manifests."""
    if command == "compact":
        prepared = planned(directory)
        if prepared.plan.has_work:
            compacted(directory, prepared, env=SystemEnv())
        return
    assert app.main([command, str(directory), "--yes", "--quiet"]) == 0


def check_clean(directory: Path) -> None:
    """The table has no finding, and nothing lies about that it does not need."""
    assert app.main(["validate", str(directory), "--all-snapshots", "--quiet"]) == 0
    assert not list((directory / "metadata").glob("icectl-*"))
    named = {
        local(entry["data_file"]["file_path"])
        for snapshot in read_metadata(current_metadata(directory))["snapshots"]
        for entry in live_entries(snapshot)
    }
    assert {path for path in (directory / "data").rglob("*") if path.is_file()} <= named


def test_rows_of_a_frame_are_in_the_table_as_they_were(tmp_path):
    directory = tree(tmp_path / "t", "two")
    change = appended(directory, rows_of(range(20)), tasks=2)
    assert (change.added_rows, change.removed_data_files, change.deleted_rows) == (20, 0, 0)
    (row,) = [dict(one) for one in read_rows(read_metadata(current_metadata(directory)))
              if dict(one)["id"] == 5]  # fmt: skip
    assert row == {
        "id": 5, "category": "c2", "amount": Decimal("6.25"),
        "at": datetime.fromisoformat("2023-11-15T03:13:20"), "note": "note 5",
    }  # fmt: skip
    assert ids_of(directory) == list(range(20))
    summary = head(directory)["summary"]
    assert (summary["operation"], summary["added-records"]) == ("append", "20")
    assert int(summary["added-data-files"]) == change.added_data_files
    check_clean(directory)


def test_a_frame_without_rows_commits_nothing(tmp_path):
    directory = tree(tmp_path / "t")
    assert appended(directory, rows_of([])).snapshot_id is None
    assert overwritten(directory, rows_of([])).snapshot_id is None
    assert read_metadata(current_metadata(directory))["snapshots"] == []


def test_columns_are_found_by_name_and_optional_ones_may_be_missing(tmp_path):
    directory = tree(tmp_path / "t")
    appended(directory, pa.table({"note": ["b"], "id": pa.array([7], pa.int32())}))
    (row,) = read_rows(read_metadata(current_metadata(directory)))
    assert dict(row) == {"id": 7, "category": None, "amount": None, "at": None, "note": "b"}


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ({"id": [1], "nte": ["a"]}, "the table has no column `nte`"),
        ({"note": ["a"]}, "the DataFrame lacks `id`"),
        ({"id": [1.5]}, "`id` is double in the DataFrame and long in the table"),
        ({"id": [1], "amount": [Decimal("1.234")]}, "`amount` is decimal128(4, 3)"),
        ({"id": [1], "at": pa.array([1], pa.timestamp("us", "UTC"))}, "`at` is timestamp"),
        ({"id": pa.array([1, None])}, "nulls in the required column `id`"),
    ],
)
def test_rows_that_would_lose_something_are_refused(tmp_path, rows, told):
    directory = tree(tmp_path / "t")
    with pytest.raises(Refused, match=told.replace("(", r"\(").replace(")", r"\)")):
        appended(directory, pa.table(rows))
    assert not list((directory / "data").iterdir())
    assert not list((directory / "metadata").glob("icectl-*"))


@pytest.mark.parametrize("version", [1, 2, 3])
def test_tables_of_other_layouts_are_refused_by_name(tmp_path, version):
    TableBuilder(tmp_path / "t", version)
    with pytest.raises(Unsupported, match=f"format version {version}"):
        appended(tmp_path / "t", rows_of([1]))
    with pytest.raises(Unsupported, match=f"format version {version}"):
        deleted(tmp_path / "t", "id = 1")


def test_tables_of_iceberg_are_refused_by_name(tmp_path):
    TableBuilder(tmp_path / "t", 3)
    words = ["upgrade-to-v4", str(tmp_path / "t"), "--layout", "iceberg-1.12", "--yes", "--quiet"]
    assert app.main(words) == 0
    with pytest.raises(Unsupported, match=r"iceberg-1\.12"):
        appended(tmp_path / "t", rows_of([1]))


def test_files_go_as_a_whole_where_that_is_provable_and_else_by_vectors(tmp_path):
    directory = tree(tmp_path / "t", "identity")
    appended(directory, rows_of(range(30)))
    finder = InlineFinder(STORE)
    change = deleted(directory, "category = 'c1' or id in (3, 5)", finder)
    assert (change.removed_data_files, change.deleted_rows) == (1, 12)
    assert not [place for place in finder.looked if "category=c1" in place]
    assert ids_of(directory) == [one for one in range(30) if one % 3 != 1 and one not in (3, 5)]
    assert head(directory)["summary"]["added-dvs"] == "2"
    check_clean(directory)


def test_rows_of_which_a_condition_is_unknown_stay(tmp_path):
    """Every seventh note is null; `note >= ''` is true of all others."""
    directory = tree(tmp_path / "t")
    appended(directory, rows_of(range(21)))
    assert deleted(directory, "note >= ''").deleted_rows == 18
    assert ids_of(directory) == [0, 7, 14]
    assert deleted(directory, "not note like 'x%'").snapshot_id is None
    assert deleted(directory, "note is null").removed_data_files == 1
    assert ids_of(directory) == []


def test_vectors_grow_and_files_go_with_their_last_row(tmp_path):
    directory = tree(tmp_path / "t")
    appended(directory, rows_of(range(10)))
    for id_ in range(9):
        assert deleted(directory, f"id = {id_}").deleted_rows == 1
    assert head(directory)["summary"]["total-position-deletes"] == "9"
    change = deleted(directory, "id = 9")
    assert (change.removed_data_files, change.deleted_rows) == (1, 1)
    summary = head(directory)["summary"]
    assert (summary["total-position-deletes"], summary["total-data-files"]) == ("0", "0")
    check_clean(directory)


def leaves_read(directory: Path, act: Callable[[TableContext, Store], RowChange]) -> list[int]:
    """How often each leaf is read that is, by a change of rows that lands."""
    names = {path.name for path in (directory / "metadata").glob("*-m*")}
    store = CountingStore(STORE)
    assert act(way_to(directory, store), store).snapshot_id is not None
    calls = (place.rpartition("/")[2] for method, place in store.calls if method in READS)
    return sorted(Counter(name for name in calls if name in names).values())


def leaves_of_deletion(directory: Path, text: str) -> list[int]:
    return leaves_read(
        directory, lambda context, store: delete(context, InlineFinder(store), where(text), "main")
    )


def in_many_leaves(directory: Path, partitioning: str = "none", **properties: str) -> list[int]:
    """A table of 40 files of three rows each, in 20 leaves; its rows."""
    limits = {"icectl__v4__root__max_data_files": "0", "icectl__v4__leaf__max_entries": "2"}
    tree(directory, partitioning, **limits, **properties)
    every = range(120)
    appended(directory, rows_of([one for at in range(3) for one in every[at::3]]), tasks=40)
    return list(every)


def test_only_leaves_are_read_that_may_have_what_goes(tmp_path):
    """Once to plan, and again those that a file goes from."""
    directory = tmp_path / "t"
    left = in_many_leaves(directory)
    assert leaves_of_deletion(directory, "id between 60 and 62") == [2]
    assert leaves_of_deletion(directory, "id = 9 or id = 117") == [1, 1]
    assert leaves_of_deletion(directory, "id < 6") == [2]
    gone = {60, 61, 62, 9, 117, *range(6)}
    assert ids_of(directory) == [one for one in left if one not in gone]
    check_clean(directory)


def test_a_partition_is_deleted_by_the_leaves_that_may_have_it(tmp_path):
    """Of 40 leaves, each of one file, 14 have the category; metrics of it are not collected."""
    directory = tree(
        tmp_path / "t",
        "identity",
        icectl__v4__root__max_data_files="0",
        icectl__v4__leaf__max_entries="1",
        write__metadata__metrics__default="none",
    )
    appended(directory, rows_of(range(40)), tasks=40)
    assert leaves_of_deletion(directory, "category = 'c0'") == [2] * 14
    assert ids_of(directory) == [one for one in range(40) if one % 3]
    check_clean(directory)


def test_delete_leaves_of_other_data_leaves_are_not_read(tmp_path):
    """Each data leaf has a delete leaf of its own, with vectors of both of its files."""
    directory = tmp_path / "t"
    left = in_many_leaves(directory, icectl__v4__root__max_delete_entries="0")
    assert leaves_of_deletion(directory, f"id in {tuple(left[::3])}") == [1] * 20
    left = [one for one in left if one % 3]
    # The data leaf once, its delete leaf to plan, to find the vector that is replaced, and to copy.
    assert leaves_of_deletion(directory, "id = 16") == [1, 3]
    left.remove(16)
    assert ids_of(directory) == left
    assert leaves_of_deletion(directory, "id in (17, 19, 20, 100)")[:1] == [1]
    left = [one for one in left if one not in (17, 19, 20, 100)]
    assert ids_of(directory) == left
    check_clean(directory)


def test_vectors_of_files_in_leaves_that_are_not_read_stay(tmp_path):
    directory = tmp_path / "t"
    left = in_many_leaves(directory)
    for gone in (0, 60, 61, 62, 118):
        deleted(directory, f"id = {gone}")
        left.remove(gone)
        assert ids_of(directory) == left
    summary = head(directory)["summary"]
    assert (summary["total-position-deletes"], summary["total-data-files"]) == ("2", "39")
    check_clean(directory)


@pytest.mark.parametrize("kind", ["position", "equality"])
def test_deletes_that_may_apply_to_files_in_other_leaves_stay(tmp_path, kind):
    """Two leaves of one file each, and one file of deletes for both; one data leaf is not read."""
    one_each = {"icectl.v4.root.max-data-files": "0", "icectl.v4.leaf.max-entries": "1"}
    table = TableBuilder(tmp_path / "t", 2, "none", one_each)
    table.append(range(10))
    table.append(range(10, 20))
    table.delete_rows([1, 11], kind=kind)
    assert (
        app.main(["upgrade-to-v4", "--layout=sfc-1", table.location, "--eager", "--yes", "--quiet"])
        == 0
    )
    assert len(leaves_of_deletion(tmp_path / "t", "id between 12 and 13")) == 2
    left = [0, *range(2, 11), *range(14, 20)]
    assert ids_of(tmp_path / "t") == left
    assert deleted(tmp_path / "t", "id > 9").removed_data_files == 1
    assert ids_of(tmp_path / "t") == left[:9]
    assert app.main(["validate", table.location, "--quiet"]) == 0


def test_a_table_whose_root_has_no_leaves_is_looked_through(tmp_path):
    filled_table(tmp_path / "t", range(3)).remove_data_files(1)
    assert app.main(["upgrade-to-v4", "--layout=sfc-1", str(tmp_path / "t"), "-y", "-q"]) == 0
    assert deleted(tmp_path / "t", "id = 1").snapshot_id is None


def test_manifests_that_an_old_list_calls_empty_keep_their_rows(tmp_path, monkeypatch):
    def empty(manifests: list[ManifestFile], **members: Any) -> bytes:
        return write_manifest_list(
            [replace(one, added_files_count=0) for one in manifests], **members
        )

    table = TableBuilder(tmp_path / "t", 2)
    monkeypatch.setattr(plain_manifests, "write_manifest_list", empty)
    first = table.append(range(4))
    monkeypatch.undo()
    table.append(range(4, 8))
    upgrade(tmp_path / "t", SystemEnv(), "--lazy")
    words = ("refs", str(tmp_path / "t"), "rollback", "main", "--to", str(first), "--yes")
    assert app.main(words) == 0
    with pytest.raises(CorruptTable, match="counts 0 added files, not 1"):
        deleted(tmp_path / "t", "id = 1")
    assert ids_of(tmp_path / "t") == [0, 1, 2, 3]


def test_keys_are_equal_in_all_their_columns(tmp_path):
    directory = tree(tmp_path / "t", "bucket")
    appended(directory, rows_of(range(12)))
    keys = pa.table({"id": [3, 4, 99], "category": ["c0", "c0", "c0"]})
    assert deleted_keys(directory, keys).deleted_rows == 1
    assert ids_of(directory) == [one for one in range(12) if one != 3]
    assert deleted_keys(directory, pa.table({"at": rows_of([5])["at"]})).deleted_rows == 1
    assert deleted_keys(directory, pa.table({"id": pa.array([], pa.int64())})).snapshot_id is None
    with pytest.raises(Refused, match="a key has no `id`"):
        deleted_keys(directory, pa.table({"id": pa.array([None], pa.int64())}))
    with pytest.raises(Refused, match="no column `ix`"):
        deleted_keys(directory, pa.table({"ix": [1]}))
    check_clean(directory)


def test_keys_without_columns_are_refused(tmp_path):
    directory = tree(tmp_path / "t")
    appended(directory, rows_of(range(3)))
    with pytest.raises(Refused, match="no columns"):
        deleted_keys(directory, pa.table({"id": [1]}).select([]))


def test_conditions_on_partition_fields_are_refused(tmp_path):
    directory = tree(tmp_path / "t", "bucket")
    with pytest.raises(UsageError, match="`id_bucket` is a partition field"):
        deleted(directory, "id_bucket = 1")


def test_partitions_are_overwritten_and_others_stay(tmp_path):
    directory = tree(tmp_path / "t", "identity")
    appended(directory, rows_of(range(30)))
    deleted(directory, "id = 3")
    change = overwritten(directory, rows_of([33, 36, 37]))
    assert (change.added_rows, change.removed_data_files, change.deleted_rows) == (3, 2, 19)
    assert ids_of(directory) == [one for one in range(30) if one % 3 == 2] + [33, 36, 37]
    summary = head(directory)["summary"]
    assert (summary["operation"], summary["total-position-deletes"]) == ("overwrite", "0")
    check_clean(directory)


def test_files_of_other_specs_keep_partitions_from_being_overwritten(tmp_path):
    directory = tree(tmp_path / "t", "identity")
    appended(directory, rows_of(range(3)))
    path = current_metadata(directory)
    assert '"default-spec-id":0' in path.read_text().replace(" ", "")
    metadata = read_metadata(path)
    metadata["partition-specs"].append({"spec-id": 1, "fields": []})
    metadata["default-spec-id"] = 1
    path.write_text(json.dumps(metadata))
    with pytest.raises(Refused, match="3 live data files have another partition spec"):
        overwritten(directory, rows_of([1]))
    assert ids_of(directory) == [0, 1, 2]


def test_deletes_of_before_an_upgrade_go_on_deleting(tmp_path):
    """Position and equality deletes of version 2, below vectors of version 4."""
    table = filled_table(tmp_path / "t", range(40), files=2)
    table.delete_rows([1, 2, 30])
    table.delete_rows([4, 31], kind="equality")
    assert app.main(["upgrade-to-v4", "--layout=sfc-1", table.location, "--yes", "--quiet"]) == 0
    assert deleted(tmp_path / "t", "id in (2, 5, 31)").deleted_rows == 1
    gone = {1, 2, 4, 5, 30, 31}
    assert ids_of(tmp_path / "t") == [one for one in range(40) if one not in gone]
    assert deleted(tmp_path / "t", "id < 20").removed_data_files == 1
    assert ids_of(tmp_path / "t") == [one for one in range(20, 40) if one not in gone]
    assert app.main(["validate", table.location, "--quiet"]) == 0


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(n, marks=pytest.mark.full) for n in range(1, 9))]
)
@pytest.mark.parametrize("partitioning", ["none", "two", "day"])
def test_any_sequence_of_changes_leaves_the_rows_that_it_should(tmp_path, partitioning, seed):
    rng = random.Random(seed)
    limits = {"icectl__v4__root__max_data_files": "3", "icectl__v4__root__max_delete_entries": "2"}
    directory = tree(tmp_path / "t", partitioning, **limits)
    expected: set[int] = set()
    snapshots: dict[int, list[int]] = {}
    for step in range(10):
        act = rng.choice(["append", "append", "append", "where", "keys", "overwrite", "maintain"])
        if act == "append":
            new = range(step * 100, step * 100 + rng.randint(1, 20))
            change = appended(directory, rows_of(new), tasks=rng.randint(1, 2))
            expected |= set(new)
        elif act == "where":
            digit = rng.randint(0, 4)
            low = rng.randrange(0, 1000)
            change = deleted(directory, f"category = 'c{digit}' or id between {low} and {low + 60}")
            expected = {i for i in expected if i % 3 != digit and not low <= i <= low + 60}
        elif act == "keys":
            chosen = rng.sample(sorted(expected), min(4, len(expected)))
            change = deleted_keys(directory, pa.table({"id": pa.array(chosen, pa.int64())}))
            expected -= set(chosen)
        elif act == "overwrite" and partitioning == "none":
            change = overwritten(directory, rows_of([step * 100 + 50]))
            expected = {step * 100 + 50}
        else:
            maintained(directory, rng.choice(["compact", "rewrite-manifests"]))
            assert ids_of(directory) == sorted(expected)
            continue
        assert ids_of(directory) == sorted(expected)
        if change.snapshot_id is not None:
            snapshots[change.snapshot_id] = sorted(expected)
    for snapshot_id, found in snapshots.items():
        assert ids_of(directory, snapshot_id) == found
    assert app.main(["validate", str(directory), "--level", "data", "--quiet"]) == 0


# -- other writers ----------------------------------------------------------------------------


def test_two_appends_at_once_both_land(tmp_path):
    directory = tree(tmp_path / "t")
    frame = InlineFrame(rows_of([1]), STORE, during=lambda: appended(directory, rows_of([2])))
    append(way_to(directory), frame, "main")
    assert ids_of(directory) == [1, 2]
    check_clean(directory)


def once(act: Any) -> Any:
    """Something that is done the first time that it is called."""
    left = [act]
    return lambda: left.pop()() if left else None


def test_a_compaction_meanwhile_has_a_deletion_planned_anew(tmp_path):
    directory = tree(tmp_path / "t")
    appended(directory, rows_of(range(10)))
    appended(directory, rows_of(range(10, 20)))
    finder = InlineFinder(STORE, during=once(lambda: maintained(directory, "compact")))
    change = deleted(directory, "id in (3, 13)", finder)
    assert (change.deleted_rows, len(finder.looked), len(set(finder.looked))) == (2, 3, 3)
    assert ids_of(directory) == [one for one in range(20) if one not in (3, 13)]
    check_clean(directory)


def test_rows_that_another_writer_deletes_meanwhile_are_deleted_once(tmp_path):
    directory = tree(tmp_path / "t")
    appended(directory, rows_of(range(10)))
    finder = InlineFinder(STORE, during=once(lambda: deleted(directory, "id in (3, 4)")))
    assert deleted(directory, "id in (3, 5)", finder).deleted_rows == 1
    assert ids_of(directory) == [0, 1, 2, 6, 7, 8, 9]
    finder = InlineFinder(STORE, during=once(lambda: deleted(directory, "id = 9")))
    assert deleted(directory, "id = 9", finder).snapshot_id is None
    check_clean(directory)


def test_r154_rows_appended_meanwhile_are_overwritten_and_looked_at(tmp_path):
    directory = tree(tmp_path / "t")
    appended(directory, rows_of(range(4)))
    finder = InlineFinder(STORE, during=once(lambda: appended(directory, rows_of([10, 11]))))
    assert deleted(directory, "id in (1, 10)", finder).deleted_rows == 2
    assert len(finder.looked) == 2
    late = once(lambda: appended(directory, rows_of([20])))
    overwrite_partitions(way_to(directory), InlineFrame(rows_of([30]), STORE, during=late), "main")
    assert ids_of(directory) == [30]


def with_metadata(directory: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Commit a change of the metadata alone."""
    path = current_metadata(directory)
    metadata = read_metadata(path)
    change(metadata)
    entry = {"metadata-file": f"file:{path}", "timestamp-ms": metadata["last-updated-ms"]}
    metadata["metadata-log"].append(entry)
    number = int(path.name[1:].split(".")[0]) + 1
    path.with_name(f"v{number}.metadata.json").write_text(json.dumps(metadata))


def test_manifests_of_partitions_by_a_required_column_are_shown(tmp_path, capsys):
    directory = tree(tmp_path / "t", "identity", icectl__v4__root__max_data_files="0")
    fields = read_metadata(current_metadata(directory))["schemas"][0]["fields"]
    fields[1]["required"] = True
    with_metadata(directory, lambda metadata: metadata["schemas"][0].update(fields=fields))
    appended(directory, rows_of(range(3)))
    assert app.main(["inspect", str(directory), "manifests"]) == 0
    assert "c0..c2" in capsys.readouterr().out


def test_a_partition_spec_that_goes_meanwhile_is_a_conflict(tmp_path):
    directory = tree(tmp_path / "t", "identity")

    def drop(metadata: dict[str, Any]) -> None:
        metadata |= {"partition-specs": [{"spec-id": 1, "fields": []}], "default-spec-id": 1}

    frame = InlineFrame(rows_of([1]), STORE, during=lambda: with_metadata(directory, drop))
    with pytest.raises(CommitConflict, match="spec 0 of new files is gone"):
        append(way_to(directory), frame, "main")
    assert not list((directory / "data").rglob("*.parquet"))
    assert app.main(["validate", str(directory), "--quiet"]) == 0


def test_a_change_of_the_schema_meanwhile_is_a_conflict(tmp_path):
    directory = tree(tmp_path / "t")

    def evolve(metadata: dict[str, Any]) -> None:
        fields = metadata["schemas"][0]["fields"][:2]
        metadata["schemas"].append({"type": "struct", "schema-id": 1, "fields": fields})
        metadata["current-schema-id"] = 1

    frame = InlineFrame(rows_of([1]), STORE, during=lambda: with_metadata(directory, evolve))
    with pytest.raises(CommitConflict, match="schema has changed"):
        append(way_to(directory), frame, "main")
    assert not list((directory / "data").rglob("*.parquet"))
    open_to_change(way_to(directory).catalog)
