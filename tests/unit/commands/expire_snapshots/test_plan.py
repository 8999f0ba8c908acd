"""What an expiry changes and deletes, from facts made by hand."""

from dataclasses import replace

import pytest

from icectl.checks.metadata import other_snapshots
from icectl.commands.expire_snapshots.plan import (
    ExpirePlan,
    ReachedFiles,
    as_landed,
    lost_statistics,
    plan,
    updates,
    updates_again,
)
from icectl.entries.files import FileKind, Files, files, together
from icectl.errors import CorruptTable
from icectl.format.metadata import TableMetadata
from icectl.format.partition import PartitionField, PartitionSpec
from icectl.format.schema import Schema
from icectl.format.snapshot import PartitionStatisticsFile, SnapshotLogEntry, StatisticsFile
from icectl.format.sort import SortField, SortOrder
from icectl.format.transforms import parse_transform
from icectl.format.types import NestedField, PrimitiveType
from icectl.format.updates import (
    RemovePartitionSpecs,
    RemovePartitionStatistics,
    RemoveSchemas,
    RemoveSnapshotRef,
    RemoveSnapshots,
    RemoveStatistics,
    apply_all,
)
from icectl.storage.many_files import FilesByKind, by_location
from icectl.table.guard import check_statistics
from icectl.table.retention import AskedRetention, Retention, decide
from tests.builders.history import history, ms

NOW = ms("2026-03-15T12:00:00Z")
LINE = [
    (1, None, "2026-03-01T00:00:00Z"),
    (2, 1, "2026-03-02T00:00:00Z"),
    (3, 2, "2026-03-03T00:00:00Z"),
]
REFS = {"main": {"head": 3}, "old": {"head": 1, "type": "tag", "max_ref_age_ms": 1}}
TABLE = history(LINE, REFS)


def named(kind: FileKind, *keys: str) -> Files:
    return files([f"file:{key}" for key in keys], keys, kind, [1] * len(keys))


def locations(reached: ReachedFiles) -> list[str]:
    """The files that go, in the order of deletion."""
    return [*by_location(FilesByKind(reached.only_going())).locations()]


def retention(metadata: TableMetadata = TABLE) -> Retention:
    return decide(metadata, AskedRetention(older_than_ms=NOW), NOW)


def planned(
    metadata: TableMetadata = TABLE, reached: ReachedFiles | None = None, *, clean: bool = False
) -> ExpirePlan:
    return plan(
        metadata, retention(metadata), reached or ReachedFiles(), clean_expired_metadata=clean
    )


def test_r191_deletable_is_what_goes_and_nothing_that_stays_reaches():
    going = together(
        [
            named(FileKind.MANIFEST_LISTS, "/list-1"),
            named(FileKind.DATA_FILES, "/b", "/a", "/shared", "/a"),
        ]
    )
    staying = named(FileKind.DATA_FILES, "/shared", "/c")
    assert locations(ReachedFiles([going], [staying])) == ["file:/a", "file:/b", "file:/list-1"]


def test_r194_a_puffin_file_with_one_live_vector_stays():
    going = named(FileKind.DELETION_VECTOR_FILES, "/v.puffin", "/w.puffin", "/v.puffin")
    staying = named(FileKind.DELETION_VECTOR_FILES, "/v.puffin")
    assert locations(ReachedFiles([going], [staying])) == ["file:/w.puffin"]


def test_a_file_that_stays_as_another_kind_stays():
    going = named(FileKind.STATISTICS_FILES, "/s")
    staying = named(FileKind.PARTITION_STATISTICS_FILES, "/s")
    assert locations(ReachedFiles([going], [staying])) == []


def test_the_updates_make_the_plan_true():
    found = updates(TABLE, planned())
    assert found == [RemoveSnapshotRef("old"), RemoveSnapshots((1, 2))]
    changed = apply_all(TABLE, found)
    assert [item.snapshot_id for item in changed.snapshots] == [3]
    assert list(changed.refs) == ["main"]


def test_a_plan_without_changes_has_no_updates():
    table = history(LINE[2:], {"main": {"head": 3}})
    found = planned(table)
    assert not found.changes_table
    assert updates(table, found) == []


@pytest.mark.parametrize(
    "changed",
    [
        {"retention": Retention((), retention().refs_removed)},
        {"schema_ids": (1,)},
        {"spec_ids": (1,)},
        {"retention": Retention(retention().decisions, ())},
    ],
)
def test_refs_schemas_and_specs_alone_are_changes(changed):
    nothing = planned(history([], {}))
    assert not nothing.changes_table
    assert replace(nothing, **changed).changes_table


def test_updates_made_again_leave_schemas_and_specs():
    assert updates_again(TABLE, retention()) == [RemoveSnapshotRef("old"), RemoveSnapshots((1, 2))]
    assert updates_again(TABLE, Retention(retention().kept, ())) == []


# -- statistics ---------------------------------------------------------------------------------


def test_r141_statistics_of_lost_snapshots_go_with_the_next_expiry():
    table = replace(
        TABLE,
        statistics=(described(9, "/s9", 9), StatisticsFile(3, "/s3", 1, 1)),
        partition_statistics=(PartitionStatisticsFile(8, "/partition-stats-8-0f.parquet", 1),),
    )
    assert lost_statistics(table) == (8, 9)
    found = updates(table, planned(table))
    assert found[2:] == [
        RemoveStatistics(8), RemovePartitionStatistics(8),
        RemoveStatistics(9), RemovePartitionStatistics(9),
    ]  # fmt: skip


def described(snapshot_id: int, path: str, *computed_from: int) -> StatisticsFile:
    blobs = tuple({"type": "apache-datasketches-theta-v1", "snapshot-id": id_}
                  for id_ in computed_from)  # fmt: skip
    return StatisticsFile(snapshot_id, path, 1, 1, blobs)


@pytest.mark.parametrize(
    ("file", "goes"),
    [
        (described(9, "/s", 9, 2), True),  # a blob was kept from the statistics before
        (described(9, "/s", 8), True),
        (described(9, "/s", 2), False),
        (described(9, "/s"), False),
        (described(9, "/9-0f.stats"), True),
        (described(9, "/s-2.stats", 9), True),
        (PartitionStatisticsFile(9, "/partition-stats-2-0f.parquet", 1), False),
        (PartitionStatisticsFile(9, "/p9.parquet", 1), False),
    ],
)
def test_r141_a_wrong_id_of_a_snapshot_costs_no_statistics(file, goes):
    is_whole = isinstance(file, StatisticsFile)
    table = replace(
        TABLE,
        statistics=(file,) if is_whole else (),
        partition_statistics=() if is_whole else (file,),
    )
    assert lost_statistics(table) == ((9,) if goes else ())


@pytest.mark.parametrize("numbers", [{}, {"sequence_number": 0}])  # version 1 has times alone
def test_r141_statistics_that_a_rewrite_took_over_expire_with_it(numbers):
    """Trino gives the snapshot of an `optimize` the statistics of the one before."""
    snapshots = [
        replace(one, **({"sequence_number": one.snapshot_id} | numbers)) for one in TABLE.snapshots
    ]
    table = replace(TABLE, snapshots=tuple(snapshots), statistics=(described(3, "/s", 1),))
    assert other_snapshots(table, table.statistics[0]) == set()
    check_statistics(table, {2, 3})
    table = replace(table, statistics=(described(2, "/s", 1, 3),))
    with pytest.raises(CorruptTable, match="names snapshot 3, which stays"):
        check_statistics(table, {2})


def test_r141_statistics_of_a_snapshot_that_the_log_knows_go():
    file = PartitionStatisticsFile(9, "/p", 1)
    log = (SnapshotLogEntry(1, 9), *TABLE.snapshot_log)
    assert lost_statistics(replace(TABLE, partition_statistics=(file,))) == ()
    assert lost_statistics(replace(TABLE, partition_statistics=(file,), snapshot_log=log)) == (9,)


# -- schemas and specs --------------------------------------------------------------------------


def schema(schema_id: int, *columns: int) -> Schema:
    fields = (NestedField(id_, f"c{id_}", PrimitiveType("int"), required=False) for id_ in columns)
    return Schema(schema_id, tuple(fields))


def evolved(*, snapshot_schema: int | None = 3) -> TableMetadata:
    """Schemas 0 to 3, the current one; 1 had the column 7 and 2 the column 8; specs 0 to 2."""
    return replace(
        history(LINE, {"main": {"head": 3}}),
        snapshots=tuple(
            replace(item, schema_id=snapshot_schema if item.snapshot_id == 3 else 0)
            for item in TABLE.snapshots
        ),
        schemas=(schema(0, 1), schema(1, 1, 7), schema(2, 1, 8), schema(3, 1)),
        current_schema_id=3,
        partition_specs=(
            PartitionSpec(0, (PartitionField((7,), 1000, "c7", parse_transform("identity")),)),
            PartitionSpec(1, (PartitionField((8,), 1001, "c8", parse_transform("identity")),)),
            PartitionSpec(2, ()),
        ),
        default_spec_id=2,
    )


def cleaned(metadata: TableMetadata, **reached: object) -> tuple[tuple[int, ...], tuple[int, ...]]:
    found = planned(metadata, ReachedFiles(**reached), clean=True)  # type: ignore[arg-type]
    changed = apply_all(metadata, updates(metadata, found))
    kept = (
        {item.schema_id for item in changed.schemas},
        {s.spec_id for s in changed.partition_specs},
    )
    assert kept == ({0, 1, 2, 3} - set(found.schema_ids), {0, 1, 2} - set(found.spec_ids))
    return found.schema_ids, found.spec_ids


def test_schemas_and_specs_stay_unless_asked_for():
    found = planned(evolved())
    assert (found.schema_ids, found.spec_ids) == ((), ())


def test_r079_r185_what_nothing_uses_goes():
    assert cleaned(evolved()) == ((0, 1, 2), (0, 1))


def test_r079_the_spec_of_a_manifest_that_stays_stays():
    assert cleaned(evolved(), spec_ids=frozenset({1}))[1] == (0,)


def test_the_schema_that_knows_the_source_of_a_spec_stays_with_it():
    assert cleaned(evolved(), spec_ids=frozenset({1})) == ((0, 1), (0,))


def test_the_schema_that_knows_the_column_of_a_sort_order_stays():
    sorted_by_7 = SortOrder(
        1, (SortField((7,), parse_transform("identity"), "asc", "nulls-first"),)
    )
    assert cleaned(replace(evolved(), sort_orders=(SortOrder(0, ()), sorted_by_7)))[0] == (0, 2)


def test_a_source_that_no_schema_knows_keeps_none():
    table = replace(evolved(), schemas=(schema(0, 1), schema(3, 1)))
    found = planned(table, ReachedFiles(spec_ids=frozenset({0, 1})), clean=True)
    assert (found.schema_ids, found.spec_ids) == ((0,), ())


def test_r185_the_schemas_of_snapshots_and_manifests_that_stay_stay():
    assert cleaned(evolved(snapshot_schema=1))[0] == (0, 2)
    assert cleaned(evolved(), schema_ids=frozenset({0, None}))[0] == (1, 2)


def test_a_snapshot_that_names_no_schema_keeps_all_of_them():
    assert cleaned(evolved(snapshot_schema=None))[0] == ()


def test_r123_equality_deletes_keep_every_schema():
    assert cleaned(evolved(), has_equality_deletes=True) == ((), (0, 1))


# -- the log ------------------------------------------------------------------------------------


def test_r026_snapshots_that_leave_the_log_are_named_unless_a_ref_has_them():
    table = replace(
        history([*LINE, (4, 3, "2026-03-15T00:00:00Z")], {"main": {"head": 4}}),
        snapshot_log=tuple(SnapshotLogEntry(n, id_) for n, id_ in enumerate([1, 2, 1, 3, 4])),
    )
    only_3 = decide(table, AskedRetention(expire_ids=(3,)), NOW)

    def unlogged(metadata: TableMetadata) -> tuple[int, ...]:
        planned = plan(metadata, only_3, ReachedFiles(), clean_expired_metadata=False)
        return planned.unlogged_snapshot_ids

    assert unlogged(table) == (1, 2)
    tagged = history(LINE, {"v1": {"head": 1, "type": "tag"}}).refs
    assert unlogged(replace(table, refs={**table.refs, **tagged})) == (2,)
    none = decide(table, AskedRetention(older_than_ms=0), NOW)
    planned = plan(table, none, ReachedFiles(), clean_expired_metadata=False)
    assert planned.unlogged_snapshot_ids == ()


# -- after the commit ---------------------------------------------------------------------------


def test_what_has_landed_is_told_instead_of_what_was_planned():
    confirmed = replace(planned(), schema_ids=(5,), spec_ids=(0,))
    found = as_landed(confirmed, apply_all(TABLE, [RemoveSnapshots((1,))]))
    assert [item.snapshot_id for item in found.retention.expired] == [1]
    assert [item.snapshot_id for item in found.retention.kept] == [2, 3]
    assert found.retention.kept[0].reason == "another writer needed it before the commit"
    assert [ref.name for ref in found.retention.refs_removed] == ["old"]
    assert (found.schema_ids, found.spec_ids) == ((5,), ())
    assert as_landed(confirmed, apply_all(TABLE, updates(TABLE, planned()))).retention == (
        confirmed.retention
    )


def test_recorded_files_of_earlier_runs_go_if_nothing_that_stays_reaches_them():
    going = named(FileKind.DATA_FILES, "/b", "/c")
    recorded = named(FileKind.DATA_FILES, "/a", "/b", "/kept", "/a")
    staying = named(FileKind.MANIFESTS, "/c", "/kept")
    assert locations(ReachedFiles([going], [staying], [recorded])) == ["file:/a", "file:/b"]
    nothing = Files(going.table.slice(0, 0))
    assert locations(ReachedFiles([nothing], [staying], [recorded])) == ["file:/a", "file:/b"]


def test_removals_of_schemas_and_specs_come_after_the_snapshots():
    found = updates(evolved(), planned(evolved(), clean=True))
    assert [type(update) for update in found] == [
        RemoveSnapshots, RemoveSchemas, RemovePartitionSpecs,
    ]  # fmt: skip
