"""Whether a rewritten group may be committed on a head that has changed since then."""

from dataclasses import replace
from typing import Any

import pytest

from icectl.commit.rewritten_groups import (
    CARRIED_DELETES,
    GroupResult,
    TaskOutput,
    changes,
    conflict,
    head_of,
)
from icectl.format.manifest import FileFormat
from icectl.format.metadata import TableMetadata
from icectl.format.partition import PartitionField, PartitionSpec
from icectl.format.schema import Schema
from icectl.format.transforms import parse_transform
from icectl.format.types import NestedField, PrimitiveType
from icectl.table.live_files import files_of_snapshot
from icectl.table.rewrite_tasks import (
    DeleteFile,
    InputFile,
    MergeDeletesTask,
    RewriteTask,
    TaskVector,
)
from tests.builders.entry_rows import data, entries, equality, key, named, positions, vector

SCHEMA = Schema(0, (NestedField(1, "c", PrimitiveType("string"), required=False),))
BY_C = PartitionSpec(1, (PartitionField((1,), 1000, "c", parse_transform("identity")),))
METADATA = TableMetadata(
    2, None, "/t", 9, 0, 1, (SCHEMA,), 0, (PartitionSpec(0, ()), BY_C), 0, 1001, (), 0
)
START = 5
"""The sequence number that rewrites started from."""

A, B = key("a"), key("b")
FILE = InputFile("f", FileFormat.PARQUET, 1000, 10, 0, b"", 1)
IN_A = replace(FILE, spec_id=1, partition_key=A)
OTHER = data("other")


def rewrite(*inputs: InputFile, deletes: tuple[str, ...] = (), **changed: Any) -> RewriteTask:
    blank = RewriteTask("0-0", 0, inputs, delete_files(deletes), 0, b"", START, 1000, 1000)
    return replace(blank, **changed)


def merge(*inputs: InputFile, deletes: tuple[str, ...] = ()) -> MergeDeletesTask:
    return MergeDeletesTask("0-0", 0, inputs, delete_files(deletes), "positions")


def delete_files(locations: tuple[str, ...]) -> tuple[DeleteFile, ...]:
    return tuple(
        DeleteFile(location, FileFormat.PARQUET, 10, 1, 2, 0, b"") for location in locations
    )


def found(task: RewriteTask | MergeDeletesTask, *head: dict[str, Any], added=()) -> str | None:
    """The reason why a task's group can't be committed on a head of these entries."""
    files = files_of_snapshot(METADATA, (), entries(*head))
    result = GroupResult(0, (task,), entries(*(added or [data("new")])))
    return conflict(result, head_of(files, [result]))


def test_a_group_whose_files_and_deletes_are_as_they_were_is_committed():
    vectored = replace(FILE, location="v", vector=TaskVector("dv", 4, 40, 3, 2))
    deleted = replace(FILE, location="d", position_deletes=(0,), equality_deletes=(1,))
    head = [data("f"), data("v"), data("d"), OTHER, vector("dv", "v", sequence_number=2)]
    head.append(positions("p", referenced_data_file="d", sequence_number=2))
    # The equality delete applies to all that are older: to `f` and `v` it came meanwhile.
    head.append(equality("e", equality_ids=[1], sequence_number=6))
    assert found(rewrite(FILE, vectored, deleted, deletes=("p", "e")), *head) is None


@pytest.mark.parametrize("task", [rewrite(FILE), merge(FILE)])
def test_r152_a_file_that_is_not_live_any_more_ends_it(task):
    assert found(task, data("f"), OTHER) is None
    assert found(task, OTHER) == "`f` was removed by another commit"
    assert found(task, OTHER, data("f", status=2)) == "`f` was removed by another commit"


STATED = {"record_count": 9, "spec_id": 1, "partition_key": A, "sequence_number": 2}


@pytest.mark.parametrize("task", [rewrite(FILE), merge(FILE)])
@pytest.mark.parametrize("name", STATED)
def test_a_file_whose_entry_says_something_else_ends_it(task, name):
    assert found(task, data("f", **{name: STATED[name]})) == "`f` has another entry now"


def test_r106_row_ids_that_came_matter_where_rows_move_and_not_where_deletes_are_merged():
    assert found(rewrite(FILE), data("f", first_row_id=7)) == "`f` has another entry now"
    assert found(merge(FILE), data("f", first_row_id=7)) is None


DELETED = replace(FILE, position_deletes=(0,))
VECTORED = replace(FILE, vector=TaskVector("dv", 4, 40, 3, 2))
P = positions("p", referenced_data_file="f", sequence_number=2)
Q = positions("q", referenced_data_file="f", sequence_number=6)
DV = vector("dv", "f", sequence_number=2)


@pytest.mark.parametrize("make", [rewrite, merge])
@pytest.mark.parametrize(
    ("file", "deletes", "head", "is_fine"),
    [
        (DELETED, ("p",), [P], True), (DELETED, ("p",), [], False),
        (DELETED, ("p",), [P, Q], False), (DELETED, ("p",), [Q], False), (FILE, (), [P], False),
        (VECTORED, (), [DV], True), (VECTORED, (), [], False),
        (VECTORED, (), [DV | {"content_offset": 44}], False),
        (VECTORED, (), [DV | {"location": "dv2"}], False), (FILE, (), [DV], False),
        (FILE, (), [DV | {"referenced_data_file": "other"}], True),
    ],
)  # fmt: skip
def test_r152_deletes_by_position_have_to_be_those_that_were_read(
    make, file, deletes, head, is_fine
):
    reason = "other rows of `f` are deleted by position now"
    told = found(make(file, deletes=deletes), data("f"), OTHER, *head)
    assert told == (None if is_fine else reason)


def by_value(location: str, sequence_number: int, **values: Any) -> dict[str, Any]:
    return equality(location, equality_ids=[1], sequence_number=sequence_number, **values)


READ = replace(FILE, equality_deletes=(0,))


def test_deletes_by_value_that_were_read_have_to_be_there_still():
    task = rewrite(READ, deletes=("e",))
    assert found(task, data("f"), by_value("e", 2)) is None
    assert found(task, data("f")) == "equality deletes of `f` are gone"
    assert found(task, data("f"), by_value("x", 6)) == "equality deletes of `f` are gone"


@pytest.mark.parametrize(
    ("sequence_numbers", "applies"),
    [((6,), True), ((6, 7), True), ((5,), False), ((4,), False), ((5, 6), False), ((6, 5), False)],
)
def test_r112_deletes_by_value_that_came_have_to_apply_to_new_files(sequence_numbers, applies):
    came = [by_value(f"x{number}", number) for number in sequence_numbers]
    told = found(rewrite(READ, deletes=("e",)), data("f"), by_value("e", 5), *came)
    reason = "equality deletes of `f` would not apply to the new files"
    assert told == (None if applies else reason)


def test_deletes_by_value_are_nothing_to_merged_positions():
    assert found(merge(FILE), data("f"), by_value("e", 4)) is None
    assert found(merge(READ, deletes=("e",)), data("f")) is None


def moving(*inputs: InputFile, **changed: Any) -> RewriteTask:
    """A task whose rows go to the partitions of spec 1 one by one."""
    return rewrite(*inputs, spec_id=1, partition_key=None, **changed)


def to(*partitions: bytes) -> list[dict[str, Any]]:
    stated = {"spec_id": 1, "sequence_number": START}
    return [data(f"new{at}", partition_key=one, **stated) for at, one in enumerate(partitions)]


def in_spec(spec_id: int, partition: bytes, sequence_number: int) -> dict[str, Any]:
    name = f"e{spec_id}-{sequence_number}-{partition.hex()}"
    return by_value(name, sequence_number, spec_id=spec_id, partition_key=partition)


def test_deletes_by_value_of_all_partitions_go_on_applying_to_rows_that_move():
    assert found(moving(FILE), data("f"), in_spec(0, b"", 6), added=to(A)) is None


def test_deletes_by_value_of_the_partition_that_rows_leave_end_it():
    """As a file of spec 1 whose rows go to spec 0."""
    head = [data("f", spec_id=1, partition_key=A)]
    reason = "equality deletes came for `f`, whose rows move"
    assert found(rewrite(IN_A), *head, in_spec(1, A, 6)) == reason
    assert found(rewrite(IN_A), *head, in_spec(0, b"", 6)) is None
    assert found(rewrite(IN_A), *head, in_spec(0, b"", 6), in_spec(1, A, 7)) == reason
    assert found(rewrite(IN_A), *head, in_spec(1, B, 6)) is None
    stays = rewrite(IN_A, spec_id=1, partition_key=A)
    assert found(stays, *head, in_spec(1, A, 6), added=to(A)) is None


@pytest.mark.parametrize(
    ("came", "is_fine"),
    [
        (in_spec(1, A, 6), False),
        (in_spec(1, B, 6), False),
        (in_spec(1, key("c"), 6), True),
        (in_spec(1, A, 5), True),
        (in_spec(0, b"", 6), True),
        (positions("p", spec_id=1, partition_key=A, sequence_number=6), True),
    ],
)
def test_deletes_by_value_of_a_partition_that_rows_move_to_end_it(came, is_fine):
    reason = "equality deletes came for a partition that rows move to"
    before = in_spec(1, key("c"), 3)
    told = found(moving(FILE), data("f"), before, came, added=to(A, B))
    assert told == (None if is_fine else reason)


def test_it_is_enough_that_some_rows_move():
    in_place = replace(IN_A, location="g")
    head = [data("f"), data("g", spec_id=1, partition_key=A), in_spec(1, A, 6)]
    reason = "equality deletes came for a partition that rows move to"
    came_for_g = "equality deletes came for `g`, whose rows move"
    assert found(moving(FILE, in_place), *head, added=to(A)) == came_for_g
    into_a = rewrite(FILE, in_place, spec_id=1, partition_key=A)
    assert found(into_a, *head, added=to(A)) == came_for_g
    head[2] = in_spec(1, B, 6)
    assert found(moving(FILE, in_place), *head, added=to(A, B)) == reason
    assert found(rewrite(in_place, spec_id=1, partition_key=A), *head, added=to(A)) is None


def test_the_file_that_a_reason_is_about_may_be_any():
    files = [replace(FILE, location=name) for name in ("f", "g", "h")]
    assert found(rewrite(*files), data("f"), data("g")) == "`h` was removed by another commit"
    assert found(rewrite(*files), data("f"), data("h")) == "`g` was removed by another commit"


def test_a_result_tells_what_it_replaces():
    vectored = replace(FILE, location="v", vector=TaskVector("dv", 4, 40, 3, 2))
    split = [replace(FILE, location="s", split=(at, at + 5)) for at in (0, 5)]
    merged = replace(FILE, location="m", position_deletes=(0,))
    tasks = (rewrite(vectored, split[0]), rewrite(split[1], deletes=("e",)),
             merge(merged, deletes=("p",)))  # fmt: skip
    result = GroupResult(0, tasks, entries(data("new")))
    assert [file.location for file in result.inputs] == ["v", "s", "m"]
    assert result.replaced == {"v", "s"}
    assert result.vectors == {("dv", 4)}
    assert result.merged == {("p", None)}


IN_ORDER = TaskOutput((("new", 10),))
KEEPING = replace(IN_ORDER, keeps_deleted=True)
SPLIT = replace(FILE, split=(0, 5))


@pytest.mark.parametrize(
    ("task", "output", "carries"),
    [
        (rewrite(FILE, DELETED), IN_ORDER, True),
        (rewrite(FILE, READ, deletes=("e",)), IN_ORDER, False),
        (rewrite(FILE, READ, deletes=("e",)), KEEPING, True),
        (rewrite(FILE, SPLIT), IN_ORDER, False),
        (rewrite(FILE, SPLIT), KEEPING, False),
        (rewrite(FILE, partition_key=None), KEEPING, False),
    ],
)
def test_where_rows_went_is_known_of_whole_files_in_place(task, output, carries):
    assert output.carries(task) is carries
    assert not output.by_row_id
    result = GroupResult(0, (task,), entries(data("new")), (output,))
    assert result.carried_tasks == ({"0-0"} if carries else set())


@pytest.mark.parametrize(
    ("inputs", "output", "is_so"),
    [
        ((FILE, DELETED), KEEPING, True),
        ((FILE, VECTORED), KEEPING, True),
        ((FILE, DELETED, VECTORED), IN_ORDER, False),
        ((FILE,), KEEPING, False),
        ((FILE, IN_A), replace(KEEPING, by_value={"f": b""}), True),
        ((FILE,), replace(KEEPING, by_value={"other": b""}), False),
        ((FILE,), replace(IN_ORDER, by_value={"f": b""}), False),
    ],
)
def test_rows_of_new_files_are_deleted_from_the_start_where_such_are_kept(inputs, output, is_so):
    task, plain = rewrite(*inputs, deletes=("p",)), rewrite(FILE)
    assert output.keeps_deleted_of(task) is is_so
    result = GroupResult(0, (plain, task), entries(data("new")), (IN_ORDER, output))
    assert result.moves_deletes is is_so


def carried(
    *head: dict[str, Any],
    file: InputFile = FILE,
    lost_by: str = "",
    carries: bool = True,
    **output: Any,
) -> str | None:
    """The reason against a group on such a head, where deletes can be carried over."""
    files = files_of_snapshot(METADATA, (), entries(*head))
    outputs = () if lost_by else (TaskOutput((("new", 10),), **output),)
    task = rewrite(file, deletes=("e",))
    result = GroupResult(0, (task,), entries(data("new")), outputs, lost_by)
    return conflict(result, head_of(files, [result]), carries=carries)


def test_deletes_that_came_and_files_that_went_are_carried_over():
    assert carried(data("f"), OTHER) is None
    assert carried(OTHER) is None
    assert carried(data("f"), P) is None
    assert carried(data("f"), DV) is None
    assert carried(data("f", record_count=9)) == "`f` has another entry now"
    assert carried(data("f"), by_value("x", 5)) is not None
    changed = "other rows of `f` are deleted by position now"
    assert carried(data("f"), P, file=replace(FILE, split=(0, 5))) == changed
    assert carried(data("f"), by_value("e", 2), P, file=READ) == changed
    assert carried(data("f"), by_value("e", 2), P, file=READ, keeps_deleted=True) is None


@pytest.mark.parametrize("lost_by", ["", "sorted by `c`"])
def test_nothing_is_carried_over_unasked(lost_by):
    told = carried(OTHER, lost_by=lost_by, carries=False)
    assert told == "`f` was removed by another commit"
    told = carried(data("f"), P, lost_by=lost_by, carries=False)
    assert told == "other rows of `f` are deleted by position now"


def test_a_head_tells_the_rows_of_inputs_among_its_live_files():
    files = files_of_snapshot(METADATA, (), entries(OTHER, data("g"), data("f")))
    head = head_of(files, [GroupResult(0, (rewrite(FILE, IN_A),), entries(data("new")))])
    assert head.row("f") == 2


def test_rows_that_cannot_be_found_again_are_told_with_their_order():
    order = "sorted by `c`"
    lost = f": version 2 can't find rows again that are {order}"
    assert carried(data("f"), lost_by=order) is None
    assert carried(OTHER, lost_by=order) == f"`f` was removed by another commit{lost}"
    reason = "other rows of `f` are deleted by position now"
    assert carried(data("f"), P, lost_by=order) == reason + lost
    assert carried(data("f", record_count=9), lost_by=order) == "`f` has another entry now"


def test_replaced_files_go_with_the_deletes_that_apply_to_nothing_then():
    vectored = replace(FILE, location="v", vector=TaskVector("dv", 4, 40, 3, 2))
    head = [
        data("f"),
        data("v"),
        OTHER,
        data("m"),
        vector("dv", "v", sequence_number=2),
        vector("dv", "other", content_offset=44, sequence_number=2),
        positions("of f", referenced_data_file="f", sequence_number=2),
        positions("of m", referenced_data_file="m", sequence_number=2),
        positions("unread", sequence_number=2),
        by_value("everywhere", 2),
    ]
    merged = replace(FILE, location="m", position_deletes=(0,))
    tasks = (rewrite(FILE, vectored), merge(merged, deletes=("of m",)))
    added = [data("new", sequence_number=START), positions("merged", referenced_data_file="m")]
    results = [GroupResult(0, tasks, entries(*added)), GroupResult(1, (), entries())]
    files = files_of_snapshot(METADATA, (), entries(*head))

    made = changes(files, results)

    assert named(made.removed) == ["f", "v", "dv", "of f", "of m"]
    assert named(made.dangling) == ["of f"]
    assert named(made.added) == ["new", "merged"]
    assert sorted(named(made.after)) == sorted(
        ["other", "m", "dv", "unread", "everywhere", "new", "merged"]
    )
    assert made.removed_delete_files == 3
    summary = dict(made.summary(None))
    assert (summary["added-data-files"], summary["deleted-data-files"]) == ("1", "2")
    assert summary["total-data-files"] == "3"
    assert CARRIED_DELETES not in summary
    assert replace(made, carried=7).summary(None) == summary | {CARRIED_DELETES: "7"}
    of_part = replace(made, is_part=True).summary({"total-data-files": "9", "total-records": "x"})
    totals = {key: value for key, value in of_part.items() if key.startswith("total-")}
    assert totals == {"total-data-files": "8"}


def test_a_vector_that_two_groups_share_goes_once():
    tasks = [rewrite(VECTORED, task_id=f"{number}-0", group=number) for number in (0, 1)]
    results = [GroupResult(at, (one,), entries(data(f"n{at}"))) for at, one in enumerate(tasks)]
    made = changes(files_of_snapshot(METADATA, (), entries(data("f"), DV, OTHER)), results)
    assert named(made.removed) == ["f", "dv"]
    assert sorted(named(made.after)) == ["n0", "n1", "other"]


def test_the_files_of_a_task_are_looked_through_a_few_times_however_many_they_are():
    passes = 0

    class Counted(tuple[InputFile, ...]):
        __slots__ = ()

        def __iter__(self):
            nonlocal passes
            passes += 1
            return super().__iter__()

    files = Counted(replace(FILE, location=f"f{number}") for number in range(50))
    task = replace(rewrite(), inputs=files)
    # The equality delete came meanwhile: whether rows move matters for each file.
    newer = equality("e", equality_ids=[1], sequence_number=6)
    assert found(task, *(data(file.location) for file in files), newer) is None
    assert passes < len(files) / 4
