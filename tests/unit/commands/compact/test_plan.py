from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from icectl.commands.compact.groups_plan import CompactGroup
from icectl.commands.compact.plan import Branch, CompactPlan, plan
from icectl.commands.compact.plan_options import CompactOptions
from icectl.commands.steps import OVER_BUDGET
from icectl.entries.conditions import Column, Compare
from icectl.entries.partition_key import encode_key
from icectl.errors import CorruptTable, Unsupported, UsageError
from icectl.format.manifest import FileFormat
from icectl.format.metadata import TableMetadata
from icectl.format.partition import PartitionField, PartitionSpec
from icectl.format.schema import Schema
from icectl.format.snapshot import Snapshot
from icectl.format.sort import SortField, SortOrder
from icectl.format.transforms import parse_transform
from icectl.format.types import NestedField, PrimitiveType
from icectl.rows.sort_rows import Curve
from icectl.table.live_files import files_of_snapshot
from icectl.table.output_sizes import Sizes
from tests.builders.entry_rows import data, entries, equality, key, positions, vector
from tests.builders.plain_metadata import plain_metadata

SCHEMA = Schema(0, (NestedField(1, "c", PrimitiveType("string"), required=False),))
BY_C = PartitionSpec(1, (PartitionField((1,), 1000, "c", parse_transform("identity")),))
ODD = PartitionSpec(2, (PartitionField((1,), 1001, "odd", parse_transform("zigzag")),))
METADATA = TableMetadata(
    2, None, "/t", 9, 0, 1, (SCHEMA,), 0, (PartitionSpec(0, ()), BY_C, ODD), 0, 1001, (), 0
)
HEAD = Branch("main", Snapshot(5, 0, sequence_number=9))
K = 100_000
LARGER = Sizes(1000 * K, 750 * K, 1800 * K)
"""Sizes of which the 5 KiB that bins get beyond their share are next to nothing."""
OPTIONS = CompactOptions(Sizes(1000, 750, 1800), 0)


def planned(
    *rows: dict[str, Any], named=None, spelling=None, metadata=METADATA, **options: Any
) -> CompactPlan:
    files = replace(
        files_of_snapshot(metadata, (), entries(*rows)),
        named_files=named or {},
        spelling=spelling or {},
    )
    return plan(metadata, HEAD, files, replace(OPTIONS, **options))


def files(size: int, count: int, prefix: str = "f", **values: Any) -> list[dict[str, Any]]:
    return [data(f"{prefix}{at}", file_size_in_bytes=size, **values) for at in range(count)]


def inputs(group: CompactGroup) -> list[list[str]]:
    """Locations of each task's files."""
    return [[file.location for file in task.inputs] for task in group.tasks]


def test_five_small_files_become_one():
    found = planned(*files(100, 5))
    (group,) = found.groups
    assert inputs(group) == [["f0", "f1", "f2", "f3", "f4"]]
    assert group.reason == "5 smaller than 750 B"
    assert (group.input_bytes, group.input_rows) == (500, 50)
    assert (group.expected_files, group.expected_bytes) == (1, 500)
    (task,) = group.tasks
    assert (task.task_id, task.group, task.spec_id, task.partition_key) == ("0-0", 0, 0, b"")
    assert (task.sequence_number, task.roll_bytes, task.expected_bytes) == (9, 1400, 500)
    assert found.left_alone == {}
    assert found.has_work


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        (files(100, 4), "too few small files in the partition"),
        (files(1000, 8), "good size, few deletes"),
        (files(1800, 8), "good size, few deletes"),
        (files(740, 8), "already of a good size"),
    ],
)
def test_files_that_gain_nothing_are_left_alone(rows, reason):
    found = planned(*rows)
    assert found.groups == ()
    assert found.left_alone == {reason: len(rows)}
    assert not found.has_work


def test_two_small_files_are_enough_where_they_fill_one():
    assert inputs(planned(*files(600, 2)).groups[0]) == [["f0", "f1"]]


def test_a_file_of_good_size_is_not_taken_along():
    found = planned(*files(100, 5), *files(1000, 2, "good"))
    assert inputs(found.groups[0]) == [["f0", "f1", "f2", "f3", "f4"]]
    assert found.left_alone == {"good size, few deletes": 2}


def test_groups_keep_to_their_partition():
    a, b = key("a"), key("b")
    found = planned(
        *files(100, 5, "a", spec_id=1, partition_key=a),
        *files(100, 4, "b", spec_id=1, partition_key=b),
        *files(100, 5, "c", spec_id=1, partition_key=b),
        output_spec_id=1,
    )
    assert [group.partition_key for group in found.groups] == [a, b]
    assert [len(group.files) for group in found.groups] == [5, 9]
    assert [group.number for group in found.groups] == [0, 1]


def test_files_of_other_specs_are_one_pool_whose_rows_move():
    (group,) = planned(*files(100, 3, "a"), *files(100, 3, "b"), output_spec_id=1).groups
    assert (group.spec_id, group.partition_key) == (1, None)
    assert [len(task.inputs) for task in group.tasks] == [6]
    assert group.tasks[0].partition_key is None


def test_rows_of_orc_files_move_where_their_partition_has_the_last_second_before_1970():
    at = NestedField(1, "at", PrimitiveType("timestamp"), required=False)
    by_day = PartitionSpec(0, (PartitionField((1,), 1000, "d", parse_transform("day")),))
    metadata = plain_metadata(Schema(0, (at,)), by_day)
    keys = [encode_key([PrimitiveType("date")], [value]) for value in (-1, 0)]
    rows = [
        row
        for name, place, file_format in (
            ("a", 0, FileFormat.ORC), ("b", 0, FileFormat.AVRO), ("c", 1, FileFormat.ORC)
        )
        for row in files(100, 5, name, partition_key=keys[place], file_format=file_format)
    ]  # fmt: skip
    found = plan(metadata, HEAD, files_of_snapshot(metadata, (), entries(*rows)), OPTIONS)
    groups = [(group.partition_key, inputs(group)[0][0]) for group in found.groups]
    assert groups == [(keys[0], "b0"), (keys[1], "c0"), (None, "a0")]


def test_without_partitions_files_of_all_specs_are_merged_together():
    """It is known where their rows come to, so that they make as many tasks as there are files."""
    found = planned(
        *files(600, 3, "a", spec_id=1, partition_key=key("a")),
        *files(600, 2, "b", spec_id=1, partition_key=key("b")),
        *files(600, 1, "c"),
    )
    (group,) = found.groups
    assert (group.spec_id, group.partition_key) == (0, b"")
    assert {task.partition_key for task in group.tasks} == {b""}
    assert inputs(group) == [["a0", "a1"], ["a2", "b0"], ["b1", "c0"]]


def test_a_large_row_is_left_alone():
    """However small the target, a file of one row cannot be cut."""
    found = planned(*files(9000, 6, record_count=1))
    assert found.groups == ()
    assert found.left_alone == {"good size, few deletes": 6}


def test_a_large_file_is_cut_where_its_row_groups_begin():
    large = data(
        "f",
        file_size_in_bytes=3000,
        record_count=100,
        split_offsets=[4, 500, 1000, 1500, 2000, 2500],
    )
    (group,) = planned(large).groups
    assert group.reason == "1 larger than 1.8 KiB"
    assert [task.inputs[0].split for task in group.tasks] == [(0, 1000), (1000, 2000), (2000, 3000)]
    assert [task.expected_bytes for task in group.tasks] == [997, 1001, 1001]
    assert group.files == (0,)


@pytest.mark.parametrize(
    "values",
    [
        {"split_offsets": [4]},
        {"split_offsets": [4, 700], "file_format": FileFormat.AVRO},
        {"file_format": FileFormat.ORC},
    ],
)
def test_a_large_file_of_one_row_group_or_of_another_format_is_read_by_one_task(values):
    (group,) = planned(data("f", file_size_in_bytes=3000, **values)).groups
    (task,) = group.tasks
    assert task.inputs[0].split is None
    assert (group.expected_files, task.roll_bytes) == (3, 1050)


@pytest.mark.parametrize("offsets", [None, [4, 4000], [700, 4]])
def test_r067_a_large_file_without_good_offsets_is_cut_by_its_bytes(offsets):
    (group,) = planned(data("f", file_size_in_bytes=3000, split_offsets=offsets)).groups
    assert [task.inputs[0].split for task in group.tasks] == [(0, 1000), (1000, 2000), (2000, 3000)]
    assert [task.expected_bytes for task in group.tasks] == [1000, 1000, 1000]
    assert (group.expected_files, group.files) == (3, (0,))


def test_a_file_of_which_many_rows_are_deleted_is_rewritten_alone():
    found = planned(
        data("f", record_count=10),
        vector("p", "f", record_count=3, sequence_number=4),
        data("g", record_count=10),
        vector("q", "g", record_count=2),
    )
    (group,) = found.groups
    (task,) = group.tasks
    assert group.reason == "1 with 30% deleted rows or more"
    assert [file.location for file in task.inputs] == ["f"]
    assert task.inputs[0].vector is not None
    assert (task.inputs[0].vector.location, task.inputs[0].vector.record_count) == ("p", 3)
    assert task.expected_bytes == 700
    assert found.left_alone == {"good size, few deletes": 1}


def test_position_deletes_of_one_file_count_and_those_of_a_partition_do_not():
    of_file = planned(data("f"), positions("p", record_count=3, referenced_data_file="f"))
    of_partition = planned(data("f"), positions("p", record_count=3))
    assert len(of_file.groups) == 1
    assert of_partition.groups == ()


def test_so_many_delete_files_are_a_reason_where_asked_for():
    rows = [data("f"), positions("p"), equality("e", sequence_number=2)]
    assert planned(*rows).groups == ()
    assert planned(*rows, min_delete_files=3).groups == ()
    (group,) = planned(*rows, min_delete_files=2).groups
    assert group.reason == "1 with 2 delete files or more"


def keys(count: int, each: int, **values: Any) -> list[dict[str, Any]]:
    """Equality deletes, one after another, newer than all data files."""
    return [
        equality(f"e{at}", sequence_number=5 + at, record_count=each, equality_ids=[1], **values)
        for at in range(count)
    ]


@pytest.mark.parametrize(
    ("each", "converted"),
    [
        (11, True),  # 55 keys of 200 rows
        (12, False),  # 60 of 200, the 30% from which on files are rewritten
    ],
)
def test_equality_deletes_of_few_rows_are_converted_and_of_many_applied(each, converted):
    rows = [*files(1000, 2, record_count=100), *keys(5, each)]
    (group,) = planned(*rows, min_delete_files=5).groups
    assert (group.conversion is not None, group.keeps_files) == (converted, converted)
    assert len(group.files) == 2
    assert planned(*rows, min_delete_files=6).groups == ()
    (group,) = planned(*rows, min_delete_files=5, converts=False).groups
    assert group.reason == "2 with 5 delete files or more"


@pytest.mark.parametrize(
    ("sequence_number", "size", "converted"),
    [
        (20, 10, [True]),  # 5 files fewer for 2,050 bytes, against 1 for 1,200
        (20, 2000, [False]),  # 12,000 bytes
        (1, 10, [False]),  # keys would be looked up in the small files, too
    ],
)
def test_what_saves_most_files_for_its_bytes_comes_first_in_a_budget(
    sequence_number, size, converted
):
    rows = [
        *files(1000, 2, record_count=100),
        *files(600, 2, "small", sequence_number=sequence_number),
        *keys(5, 9, file_size_in_bytes=size),
    ]
    both = planned(*rows, min_delete_files=5)
    assert [group.keeps_files for group in both.groups] == [False, True]
    total = sum(group.input_bytes for group in both.groups)
    found = [planned(*rows, min_delete_files=5, max_bytes=most) for most in (total, total - 1)]
    assert [[group.keeps_files for group in one.groups] for one in found] == [
        [False, True],
        converted,
    ]
    assert found[1].left_alone == {OVER_BUDGET: 2}


def test_keys_are_set_against_rows_of_all_files_that_they_apply_to():
    """Global deletes apply to all partitions; others to their own, and only to older files."""
    x, y = ({"spec_id": 1, "partition_key": key(value)} for value in "xy")
    rows = [
        data("a", file_size_in_bytes=1000, record_count=100, **x),
        data("b", file_size_in_bytes=1000, record_count=900, sequence_number=9, **x),
        data("c", file_size_in_bytes=1000, record_count=900, **y),
    ]
    of_x = planned(*rows, *keys(4, 10, **x), min_delete_files=4, output_spec_id=1)
    assert [group.conversion for group in of_x.groups] == [None]  # 40 of the 100 rows of a
    everywhere = planned(*rows, *keys(4, 10), min_delete_files=4, output_spec_id=1)
    (group,) = everywhere.groups  # 40 of 1,000 rows
    assert (group.conversion is not None, len(group.files)) == (True, 2)


def test_small_files_are_rewritten_before_equality_deletes_are_converted_for_the_others():
    rows = [
        *files(1000, 2, "good", record_count=100),
        *files(100, 5, "small", record_count=10, sequence_number=4),
        *keys(5, 1),
    ]
    rewrite, conversion = planned(*rows, min_delete_files=5).groups
    assert inputs(rewrite) == [["small0", "small1", "small2", "small3", "small4"]]
    assert rewrite.reason == "5 smaller than 750 B"
    assert conversion.conversion is not None
    assert inputs(conversion) == [["good0", "good1"]]
    assert [file.location for file in conversion.conversion.deletes] == [
        f"e{at}" for at in range(5)
    ]
    alone = planned(*rows, min_delete_files=5, max_groups=1)
    assert [inputs(group) for group in alone.groups] == [inputs(rewrite)]
    assert alone.left_alone == {"left to another run by `--max-groups`": 2}


def test_equality_deletes_that_cannot_go_are_applied_by_a_rewrite():
    """A file that is not selected keeps them: they would be looked up again and again."""
    rows = [
        data(name, file_size_in_bytes=1000, record_count=100, spec_id=1, partition_key=key(name))
        for name in "ab"
    ]
    where = Compare(Column("c", PrimitiveType("string"), 1), "=", "a")
    (group,) = planned(*rows, *keys(5, 1), min_delete_files=5, output_spec_id=1, where=where).groups
    assert (group.conversion, inputs(group)) == (None, [["a"]])


def test_each_file_has_the_deletes_that_apply_to_it():
    found = planned(
        data("old", sequence_number=1, first_row_id=7),
        data("new", sequence_number=3),
        positions("of old", referenced_data_file="old", sequence_number=2),
        positions("named", sequence_number=3, file_format=FileFormat.AVRO),
        positions("of all", sequence_number=3),
        equality("e", sequence_number=2, equality_ids=[1]),
        equality("f", sequence_number=9, equality_ids=[1, 2]),
        named={"named": {"new": 1, "gone": 5}},
        every=True,
    )
    (task,) = [task for group in found.groups for task in group.tasks]
    deletes = [(file.location, file.equality_ids) for file in task.delete_files]
    assert deletes == [
        ("of old", ()), ("named", ()), ("of all", ()), ("e", (1,)), ("f", (1, 2)),
    ]  # fmt: skip
    old, new = task.inputs
    assert (old.position_deletes, old.equality_deletes) == ((0, 2), (3, 4))
    assert (new.position_deletes, new.equality_deletes) == ((1, 2), (4,))
    assert (old.first_row_id, old.sequence_number, new.first_row_id) == (7, 1, None)
    assert task.delete_files[1].file_format is FileFormat.AVRO


def test_deletes_that_apply_to_nothing_are_work_of_their_own():
    found = planned(
        data("f", sequence_number=3),
        positions("of gone", referenced_data_file="gone", sequence_number=3),
        positions("names gone", sequence_number=3),
        positions("names f", sequence_number=3),
        equality("old", sequence_number=3),
        equality("applies", sequence_number=4),
        named={"names gone": {"gone": 2}, "names f": {"f": 1}},
    )
    assert found.groups == ()
    assert found.dangling == (0, 1, 3)
    assert found.has_work


MISSPELT = {"s3a://b/f": "s3://b/f"}


@pytest.mark.parametrize(
    ("delete", "named"),
    [
        (positions("p", sequence_number=2, record_count=4), {"p": {"s3a://b/f": 4}}),
        (positions("p", sequence_number=2, record_count=4, referenced_data_file="s3a://b/f"), {}),
    ],
)
def test_deletes_that_readers_apply_differently_are_refused(delete, named):
    rows = [data("s3://b/f"), delete]
    with pytest.raises(Unsupported, match=r"^position deletes of 4 rows name their data file"):
        planned(*rows, named=named, spelling=MISSPELT, every=True)
    found = planned(*rows, named=named, spelling=MISSPELT)
    assert (found.groups, found.dangling) == ((), ())


def test_misspelt_names_that_apply_to_nothing_do_no_harm():
    rows = [data("s3://b/f", sequence_number=3), positions("p")]
    found = planned(*rows, named={"p": {"s3a://b/f": 4}}, spelling=MISSPELT, every=True)
    assert (len(found.groups), found.dangling) == (1, (0,))


@pytest.mark.parametrize(
    ("delete", "named"),
    [
        (vector("v", "f", sequence_number=2), {}),
        (positions("p", sequence_number=2, referenced_data_file="f"), {}),
        (positions("p", sequence_number=2), {"p": {"f": 1}}),
    ],
)
def test_r211_deletes_that_lie_in_another_partition_than_their_file_are_refused(delete, named):
    x, y = ({"spec_id": 1, "partition_key": key(value)} for value in "xy")
    rows = [data("f", **x), delete | y]
    with pytest.raises(Unsupported, match=r"^position deletes or vectors of 1 data files lie in"):
        planned(*rows, named=named, output_spec_id=1, every=True)
    found = planned(*rows, named=named, output_spec_id=1)
    assert (found.groups, found.dangling) == ((), ())
    assert planned(*rows[1:], named=named).dangling == (0,)


def test_where_selects_files_and_never_their_neighbours():
    rows = [
        *files(100, 5, "a", spec_id=1, partition_key=key("a")),
        *files(100, 5, "b", spec_id=1, partition_key=key("b")),
    ]
    where = Compare(Column("c", PrimitiveType("string"), 1), "=", "b")
    found = planned(*rows, output_spec_id=1, where=where)
    assert [group.partition_key for group in found.groups] == [key("b")]
    assert found.left_alone == {"not selected by `--where`": 5}


def test_files_of_formats_that_are_not_read_are_left_alone():
    found = planned(*files(100, 5, file_format=FileFormat.UNKNOWN), every=True)
    assert found.left_alone == {"unknown file format or partition spec": 5}


def test_all_files_are_rewritten_where_asked_for():
    found = planned(*files(1000, 3), every=True)
    assert sorted(len(task.inputs) for task in found.groups[0].tasks) == [1, 1, 1]
    assert found.groups[0].reason == "3 asked for"


def test_groups_hold_so_many_bytes_and_tasks_one_file():
    found = planned(*files(100 * K, 40), max_group_bytes=2000 * K, sizes=LARGER)
    assert [group.input_bytes for group in found.groups] == [2000 * K, 2000 * K]
    assert [len(task.inputs) for group in found.groups for task in group.tasks] == [10] * 4


def test_strategies_that_order_rows_have_one_task_a_group():
    found = planned(*files(100, 40), max_group_bytes=2000, order=Curve((1, 2)))
    assert [[len(task.inputs) for task in group.tasks] for group in found.groups] == [[20], [20]]


@pytest.mark.parametrize(
    ("order", "partitions"),
    [
        ("none", ["a", "b", "c"]),
        ("bytes-asc", ["c", "a", "b"]),
        ("bytes-desc", ["b", "a", "c"]),
        ("files-asc", ["b", "a", "c"]),
        ("files-desc", ["c", "a", "b"]),
    ],
)
def test_groups_are_ordered_as_asked(order, partitions):
    rows = [
        *files(200, 5, "b", spec_id=1, partition_key=key("b")),
        *files(100, 6, "a", spec_id=1, partition_key=key("a")),
        *files(50, 7, "c", spec_id=1, partition_key=key("c")),
    ]
    found = planned(*rows, output_spec_id=1, job_order=order)
    assert [group.partition_key for group in found.groups] == [key(name) for name in partitions]


def test_groups_beyond_the_highest_number_are_left_to_another_run():
    rows = [
        *files(100, 5, "a", spec_id=1, partition_key=key("a")),
        *files(100, 6, "b", spec_id=1, partition_key=key("b")),
    ]
    found = planned(*rows, output_spec_id=1, max_groups=1, job_order="files-desc")
    assert [group.partition_key for group in found.groups] == [key("b")]
    assert found.left_alone == {"left to another run by `--max-groups`": 5}


def test_a_spec_that_there_is_not_is_wrong_usage():
    with pytest.raises(UsageError, match="the table has no partition spec 7"):
        planned(data("f"), output_spec_id=7)


def test_r007_rows_are_not_moved_to_a_spec_with_an_unknown_transform_or_column():
    with pytest.raises(Unsupported, match="spec 2 has a transform or a column that is not known"):
        planned(data("f"), output_spec_id=2)
    lost = PartitionField((9,), 1002, "lost", parse_transform("identity"))
    metadata = replace(METADATA, partition_specs=(PartitionSpec(0, ()), PartitionSpec(1, (lost,))))
    rows = entries(data("f", spec_id=1, partition_key=key("a")), data("g"))
    found = files_of_snapshot(metadata, (), rows)
    made = plan(metadata, HEAD, found, replace(OPTIONS, every=True))
    assert [group.files for group in made.groups] == [(1,)]
    with pytest.raises(Unsupported, match="spec 1 has a transform or a column that is not known"):
        plan(metadata, HEAD, found, replace(OPTIONS, output_spec_id=1))


def test_r114_a_file_with_two_vectors_is_damage():
    vectors = [vector(name, "f", sequence_number=2, record_count=1) for name in "vw"]
    rows = [data("f"), data("g"), *vectors]
    with pytest.raises(CorruptTable, match="more than one deletion vector"):
        planned(*rows, every=True)
    assert planned(*rows).groups == ()


def test_of_a_table_without_files_nothing_is_planned():
    found = planned()
    assert (found.groups, found.dangling, found.left_alone) == ((), (), {})


def outputs(found: CompactPlan, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The files after a run in which every file gets the size that is expected."""
    gone = {row for group in found.groups for row in group.files}
    kept = [row for at, row in enumerate(rows) if at not in gone]
    for group in found.groups:
        for task in group.tasks:
            rest, number = task.expected_bytes, 0
            while rest > 0:
                size = min(rest, task.roll_bytes)
                rest, number = rest - size, number + 1
                kept.append(data(f"new {task.task_id} {number}", file_size_in_bytes=size))
    return kept


sizes_lists = st.lists(
    st.integers(1, 1500) | st.integers(1, 200) | st.integers(700, 800) | st.integers(1500, 9000),
    max_size=40,
)


@settings(max_examples=60, deadline=None)
@given(sizes_lists)
def test_a_plan_on_what_a_run_makes_is_empty(sizes):
    rows = [data(f"f{at}", file_size_in_bytes=size * K) for at, size in enumerate(sizes)]
    after = outputs(planned(*rows, sizes=LARGER), rows)
    assert sum(row["file_size_in_bytes"] for row in after) == sum(sizes) * K
    assert planned(*after, sizes=LARGER).groups == ()


@settings(max_examples=20, deadline=None)
@given(sizes_lists, st.integers(1000, 8000))
def test_each_run_leaves_less_to_do_however_small_groups_are(sizes, max_group_bytes):
    rows = [data(f"f{at}", file_size_in_bytes=size * K) for at, size in enumerate(sizes)]
    for _ in range(6):
        found = planned(*rows, max_group_bytes=max_group_bytes * K, sizes=LARGER)
        rows = outputs(found, rows)
        if not found.has_work:
            break
    assert not found.has_work


def test_deletes_that_apply_to_nothing_stay_where_their_spec_is_not_known():
    """Their manifest can't be written anew without them."""
    gone = {"referenced_data_file": "gone"}
    found = planned(data("f"), positions("odd", spec_id=2, **gone), positions("plain", **gone))
    assert found.dangling == (1,)
    assert planned(data("f"), positions("odd", spec_id=2, **gone)).has_work is False


def test_a_file_that_is_no_larger_than_new_ones_may_be_is_taken_along():
    """One of 1,200 B is above the target, but not too large: with 100 B more it is one file."""
    (group,) = planned(*files(1200, 1, "a"), *files(100, 1, "b"), every=True).groups
    assert inputs(group) == [["a0", "b0"]]
    assert (group.expected_files, group.tasks[0].roll_bytes) == (1, 1400)
    (group,) = planned(*files(1500, 1, "a"), *files(100, 1, "b"), every=True).groups
    assert inputs(group) == [["a0"], ["a0"], ["b0"]]


@pytest.mark.parametrize(("deleted", "is_copied"), [(648, True), (647, False)])
def test_a_large_file_is_left_where_its_rows_come_to_one_file(deleted, is_copied):
    """Of 2,048 B for 2,048 rows 1,400 B stay, as much as a file may have, or one more."""
    found = planned(
        data("f", file_size_in_bytes=2048, record_count=2048),
        vector("v.puffin", "f", record_count=deleted),
        min_delete_ratio=0.5,
    )
    if is_copied:
        assert (found.groups, found.left_alone) == ((), {"already of a good size": 1})
    else:
        assert [group.expected_files for group in found.groups] == [2]


@pytest.mark.parametrize("order", [None, Curve((1,))])
def test_one_small_file_is_too_few_whatever_number_is_asked_for(order):
    found = planned(*files(100, 1), min_input_files=1, order=order)
    assert (found.groups, found.left_alone) == ((), {"too few small files in the partition": 1})


LEFT_AS_MADE = "already compacted to this size"
MADE_BY = "-c5558fab3.parquet"
"""The end of names of files that come from a compaction with the options of these tests.

It is mmh3 of `bytes=750..1000..1800 files=5 spec=0`.
"""


def made(size: int, count: int, prefix: str = "f") -> list[dict[str, Any]]:
    return [data(f"{prefix}{at}{MADE_BY}", file_size_in_bytes=size) for at in range(count)]


def test_files_as_a_compaction_made_them_are_no_reason_for_another():
    found = planned(*made(100, 6, "small"), *made(5000, 2, "large"), *files(100, 4, "new"))
    assert found.groups == ()
    assert found.left_alone == {LEFT_AS_MADE: 8, "too few small files in the partition": 4}


def test_files_as_a_compaction_made_them_go_together_with_enough_others():
    (group,) = planned(*made(100, 3, "made"), *files(100, 5, "new")).groups
    assert inputs(group) == [
        [*(f"made{at}{MADE_BY}" for at in range(3)), *(f"new{at}" for at in range(5))]
    ]


def test_files_that_would_only_be_copied_take_none_along():
    found = planned(*files(740, 8, "new"), *made(100, 3, "made"))
    assert found.groups == ()
    assert found.left_alone == {"already of a good size": 8, LEFT_AS_MADE: 3}


@pytest.mark.parametrize(
    "options",
    [
        {"sizes": Sizes(1001, 750, 1800)},
        {"sizes": Sizes(1000, 751, 1800)},
        {"sizes": Sizes(1000, 750, 1801)},
        {"min_input_files": 4},
        {"every": True},
    ],
)
def test_files_of_a_compaction_are_judged_anew_by_other_options(options):
    (group,) = planned(*made(100, 6), **options).groups
    assert len(group.files) == 6


def test_deletes_of_files_as_a_compaction_made_them_are_a_reason():
    rows = [data(f"f{MADE_BY}"), vector("p", f"f{MADE_BY}", record_count=3, sequence_number=4)]
    (group,) = planned(*rows).groups
    assert group.reason == "1 with 30% deleted rows or more"


def test_files_that_lie_apart_and_move_are_ordered_together_where_they_are_enough():
    """Groups of 3,000 B begin anew with each large file; the small ones alone are too few."""
    rows = [
        one
        for at in range(5)
        for one in (*files(400, 1, f"small{at}-"), *files(2900, 1, f"large{at}-"))
    ]
    found = planned(*rows, order=Curve((1,)), max_group_bytes=3000, output_spec_id=1)
    assert [len(group.files) for group in found.groups] == [1, 1, 1, 1, 1, 5]
    assert found.left_alone == {}


def test_no_task_is_larger_than_one_file_however_uneven_partitions_are():
    """One partition has a hundred times the files of each other one, and one file of 50 MB."""
    a, b = key("a"), key("b")
    offsets = list(range(4, 500 * K, 10 * K))
    found = planned(
        *files(100 * K, 600, "a", spec_id=1, partition_key=a),
        data(
            "large", file_size_in_bytes=500 * K, split_offsets=offsets, spec_id=1, partition_key=a
        ),
        *files(100 * K, 6, "b", spec_id=1, partition_key=b),
        output_spec_id=1,
        sizes=Sizes(200 * K, 150 * K, 360 * K),
        max_group_bytes=2000 * K,
    )
    tasks = [task for group in found.groups for task in group.tasks]
    assert max(task.expected_bytes for task in tasks) <= 280 * K
    assert {group.partition_key for group in found.groups} == {a, b}
    assert max(group.input_bytes for group in found.groups) <= 2000 * K
    assert 0 <= 61_100 * K - sum(task.expected_bytes for task in tasks) < 10  # of rounding


def test_a_budget_that_leaves_nothing_to_other_runs_is_no_limit():
    ends = {"lower_bounds": [(1, b"a")], "upper_bounds": [(1, b"m")]}
    keys = SortOrder(1, (SortField((1,), parse_transform("identity"), "asc", "nulls-first"),))
    rows = files(1000, 4, **ends)
    budgets = [{}, *({"max_bytes": size, "max_group_bytes": size} for size in (4000, 3999))]
    plans = [planned(*rows, order=keys, **budget) for budget in budgets]
    whole, limited = (f"g1-{mark}" for mark in plans[0].options.marks)
    assert [found.marks for found in plans] == [{0: whole}, {0: whole}, {0: limited}]
    assert [len(found.groups[0].files) for found in plans] == [4, 4, 3]
    assert planned(*rows, order=keys, max_groups=1).marks == {0: whole}
    where = Compare(Column("c", PrimitiveType("string"), 1), "<", "z")
    assert planned(*rows, order=keys, where=where).marks == {0: limited}


def test_names_of_sorted_files_count_no_conversions():
    """Else the run would seem to have lost a group, and the next one would sort again."""
    low, high = (
        {"lower_bounds": [(1, first)], "upper_bounds": [(1, last)]}
        for first, last in ((b"a", b"m"), (b"n", b"z"))
    )
    order = SortOrder(1, (SortField((1,), parse_transform("identity"), "asc", "nulls-first"),))
    rows = [
        data("good", file_size_in_bytes=1000, record_count=1000, **high),
        *files(1000, 4, record_count=100, sequence_number=90, **low),
        *keys(5, 1),
    ]
    found = planned(*rows, order=order, min_delete_files=5)
    assert [group.keeps_files for group in found.groups] == [False, True]
    assert found.marks[0] == f"g1-{found.options.marks[0]}"
