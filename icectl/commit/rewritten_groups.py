"""Groups that were rewritten: whether a head still takes them, and what changes then: pure.

What counts is not which commits came meanwhile but what is live: the files that were read, and the
deletes that were applied to them, all of these and no other. The one exception are equality deletes
that came meanwhile: they go on applying, since new files carry the data sequence number that the
rewrite started from (R-045, R-112).
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import pyarrow as pa

from icectl.entries.deletes import needed_elsewhere
from icectl.entries.rows import (
    GROUP_KEYS,
    Entries,
    are_at,
    are_deletes,
    by_row,
    concat,
    delete_files,
    in_order,
    index_in,
    take,
    where,
    without,
)
from icectl.entries.summary import summarise, summary_counters
from icectl.files.deletion_vectors import Positions
from icectl.format.manifest import Content
from icectl.table.live_files import LiveFiles
from icectl.table.rewrite_tasks import InputFile, MergeDeletesTask, RewriteTask, Task

DeleteKey = tuple[str, int | None]
"""Location and content offset: what tells one delete file, or vector, from another."""


@dataclass(frozen=True, slots=True)
class EqualityDelete:
    """The facts that decide to which data files an equality delete file applies (R-112)."""

    sequence_number: int
    is_global: bool


_STATED = ("record_count", "spec_id", "partition_key", "sequence_number", "first_row_id")
"""What an entry says of a data file that has to be as it was; where only its deletes are merged,
the last may have come meanwhile."""


@dataclass(frozen=True, slots=True)
class Made:
    """The new files of a task with their row counts.

    Rows are in the order of the old files, or, where they are sorted, found `by_row_id`. Where it
    `keeps_deleted` rows, those that were deleted are in the new files as well, but for those that
    are `left_out`. Equality deletes delete those of `by_value`: positions by old file.
    """

    files: tuple[tuple[str, int], ...]
    keeps_deleted: bool = False
    left_out: Mapping[str, Positions] = field(default_factory=dict)
    by_value: Mapping[str, Positions] = field(default_factory=dict)
    by_row_id: bool = False

    def keeps_deleted_of(self, task: RewriteTask) -> bool:
        """Return whether rows of the new files are deleted from the start."""
        return self.keeps_deleted and any(
            file.vector is not None or file.position_deletes or file.location in self.by_value
            for file in task.inputs
        )

    def carries(self, task: RewriteTask) -> bool:
        """Return whether it is known where rows of the inputs are now."""
        return task.partition_key is not None and all(
            file.split is None and (self.keeps_deleted or not file.equality_deletes)
            for file in task.inputs
        )


@dataclass(frozen=True, slots=True)
class GroupResult:
    """The result of a group: its tasks as they were planned, and the entries to add.

    `added` have status ADDED, an explicit data sequence number, and no snapshot id. `made` has what
    each task made, where rows can be found again; else it is empty, and `lost_by` says in words how
    the rows are ordered now.
    """

    number: int
    tasks: tuple[Task, ...]
    added: Entries
    made: tuple[Made, ...] = ()
    lost_by: str = ""

    @property
    def rewrites(self) -> tuple[RewriteTask, ...]:
        """The tasks that rewrite data files."""
        return tuple(task for task in self.tasks if isinstance(task, RewriteTask))

    @property
    def carried_tasks(self) -> frozenset[str]:
        """The ids of tasks whose deletes can be carried over."""
        pairs = zip(self.rewrites, self.made, strict=bool(self.made))
        return frozenset(task.task_id for task, made in pairs if made.carries(task))

    @property
    def moves_deletes(self) -> bool:
        """Whether rows of the new files are deleted from the start, as those of the old ones."""
        pairs = zip(self.rewrites, self.made, strict=bool(self.made))
        return any(made.keeps_deleted_of(task) for task, made in pairs)

    @property
    def inputs(self) -> tuple[InputFile, ...]:
        """The data files that were read, each once."""
        return tuple({file.location: file for task in self.tasks for file in task.inputs}.values())

    @property
    def replaced(self) -> frozenset[str]:
        """Locations of the data files that new ones take the place of."""
        rewritten = (task.inputs for task in self.tasks if isinstance(task, RewriteTask))
        return frozenset(file.location for inputs in rewritten for file in inputs)

    @property
    def vectors(self) -> frozenset[DeleteKey]:
        """Deletion vectors of these data files: these are replaced, or their rows are (R-116)."""
        return frozenset(
            (file.vector.location, file.vector.content_offset)
            for file in self.inputs
            if file.vector is not None
        )

    @property
    def merged(self) -> frozenset[DeleteKey]:
        """Position delete files whose rows are in new ones."""
        merging = (task for task in self.tasks if isinstance(task, MergeDeletesTask))
        return frozenset((file.location, None) for task in merging for file in task.delete_files)


class LiveHead:
    """The live files of a head, some of whose data files are looked up by location."""

    def __init__(self, files: LiveFiles, locations: Collection[str]) -> None:
        self.files = files
        self._entries = _by_location(files.data, locations)
        rows = sorted(row for row, _ in self._entries.values())
        self._applied = {row: files.index.of(row) for row in rows}
        used = {
            at
            for found in self._applied.values()
            for at in (*found.vectors, *found.position_deletes, *found.equality_deletes)
        }
        self._deletes = _delete_rows(files, sorted(used))

    def entry(self, location: str) -> tuple[Any, ...] | None:
        """Return what _STATED names of a live data file; None without one of the location."""
        row = self._entries.get(location)
        return None if row is None else row[1]

    def row(self, location: str) -> int:
        """Return the row of a live data file."""
        return self._entries[location][0]

    def applied(self, location: str) -> tuple[set[DeleteKey], Mapping[DeleteKey, EqualityDelete]]:
        """Return vectors and position deletes of a live data file, and its equality deletes."""
        applied = self._applied[self._entries[location][0]]
        by_position = {self._deletes[at][0] for at in (*applied.vectors, *applied.position_deletes)}
        return by_position, dict(self._deletes[at] for at in applied.equality_deletes)

    def equality_deletes_after(
        self, sequence_number: int, partitions: Collection[tuple[int, bytes]]
    ) -> bool:
        """Return whether there are equality deletes of some partitions above a sequence number."""
        columns = ("content", "sequence_number", "spec_id", "partition_key")
        return any(
            content == Content.EQUALITY_DELETES
            and number > sequence_number
            and spec_id not in self.files.unpartitioned_spec_ids
            and (spec_id, key) in partitions
            for content, number, spec_id, key in by_row(self.files.deletes, *columns)
        )


def head_of(files: LiveFiles, results: Iterable[GroupResult]) -> LiveHead:
    """Return a head, ready for the questions of `conflict` about some groups."""
    return LiveHead(files, {file.location for result in results for file in result.inputs})


def conflict(result: GroupResult, head: LiveHead, *, carries: bool = False) -> str | None:
    """Tell why a group cannot be committed on a head; None where it can.

    Where deletes can be carried over, with `carries` other deletes by position are no reason, nor
    are files that have gone.
    Spec: R-111 to R-113, R-152; rules of RewriteFiles in the reference implementation, but for
    deletes that have gone.
    """
    carried = result.carried_tasks if carries else frozenset[str]()
    for task in result.tasks:
        for file in task.inputs:
            reason = _of_file(task, file, head, carries=task.task_id in carried)
            if reason is None:
                continue
            if carries and result.lost_by and is_changed(task, file, head):
                return f"{reason}: version 2 can't find rows again that are {result.lost_by}"
            return reason
    moving = [task for task in result.tasks if isinstance(task, RewriteTask) if _moves(task)]
    if moving:
        partitions = set(by_row(result.added, "spec_id", "partition_key"))
        if head.equality_deletes_after(moving[0].sequence_number, partitions):
            return "equality deletes came for a partition that rows move to"
    return None


def _moves(task: RewriteTask) -> bool:
    """Return whether rows change their partition, and with it the equality deletes that apply."""
    return task.partition_key is None or any(file.spec_id != task.spec_id for file in task.inputs)


def is_changed(task: Task, file: InputFile, head: LiveHead) -> bool:
    """Return whether other rows of an input are deleted by position now, or all are gone."""
    if head.entry(file.location) is None:
        return True
    return head.applied(file.location)[0] != _positions_applied(task, file)


def _of_file(task: Task, file: InputFile, head: LiveHead, *, carries: bool) -> str | None:
    stated = head.entry(file.location)
    if stated is None:
        return None if carries else f"`{file.location}` is not live any more"
    compared = len(_STATED) - isinstance(task, MergeDeletesTask)
    if stated[:compared] != tuple(getattr(file, name) for name in _STATED[:compared]):
        return f"`{file.location}` has another entry now"
    by_value = head.applied(file.location)[1]
    if not carries and is_changed(task, file, head):
        return f"other rows of `{file.location}` are deleted by position now"
    if isinstance(task, MergeDeletesTask):
        return None
    planned = {(task.delete_files[at].location, None) for at in file.equality_deletes}
    if not planned <= by_value.keys():
        return f"equality deletes of `{file.location}` are gone"
    came = [delete for key, delete in by_value.items() if key not in planned]
    if any(delete.sequence_number <= task.sequence_number for delete in came):
        return f"equality deletes of `{file.location}` would not apply to the new files"
    if _moves(task) and not all(delete.is_global for delete in came):
        return f"equality deletes came for `{file.location}`, whose rows move"
    return None


def _positions_applied(task: Task, file: InputFile) -> set[DeleteKey]:
    applied: set[DeleteKey] = {
        (task.delete_files[at].location, None) for at in file.position_deletes
    }
    if file.vector is not None:
        applied.add((file.vector.location, file.vector.content_offset))
    return applied


def _by_location(
    data: Entries, locations: Collection[str]
) -> Mapping[str, tuple[int, tuple[Any, ...]]]:
    """Find the live data file at each location: its row, and what its entry states."""
    wanted = pa.array(sorted(locations), pa.string())
    rows = [row for row in index_in(wanted, data.table["location"]).tolist() if row >= 0]
    by_location = by_row(take(data, rows), "location", *_STATED)
    return {
        location: (row, tuple(stated))
        for row, (location, *stated) in zip(rows, by_location, strict=True)
    }


def _delete_rows(
    files: LiveFiles, rows: Sequence[int]
) -> Mapping[int, tuple[DeleteKey, EqualityDelete]]:
    """Keys of some delete files, and what there is to know of the equality deletes among them."""
    by_row_number = by_row(
        take(files.deletes, rows), "location", "content_offset", "sequence_number", "spec_id"
    )
    return {
        row: ((location, offset), EqualityDelete(number, spec_id in files.unpartitioned_spec_ids))
        for row, (location, offset, number, spec_id) in zip(rows, by_row_number, strict=True)
    }


CARRIED_DELETES = "icectl.carried-deletes"
"""What a summary says of rows that were deleted while their files were rewritten."""


@dataclass(frozen=True)
class Changes:
    """Live entries of a head that go, and entries that come; `after` is what is live then.

    `dangling` are the delete files among `removed` that nothing was left to apply to, `carried` the
    rows that were deleted while their files were rewritten.
    """

    removed: Entries
    added: Entries
    after: Entries
    dangling: Entries
    carried: int = 0

    @cached_property
    def summary(self) -> Mapping[str, str]:
        """The counters of the snapshot's summary, zeros left out but in totals (R-031)."""
        counters = {
            **summary_counters(summarise(self.added), "added"),
            **summary_counters(summarise(self.removed), "removed"),
            "changed-partition-count": self._changed_partitions,
        }
        changed = {key: str(value) for key, value in counters.items() if value}
        totals = summary_counters(summarise(self.after), "total")
        return changed | {key: str(value) for key, value in totals.items()} | self.run_summary

    @property
    def run_summary(self) -> dict[str, str]:
        """What the summary says beside the counters of files (R-031)."""
        return {CARRIED_DELETES: str(self.carried)} if self.carried else {}

    @property
    def removed_delete_files(self) -> int:
        """The number of delete files, and vectors, that go."""
        return len(delete_files(self.removed))

    @property
    def _changed_partitions(self) -> int:
        parts = [self.removed.table.select(GROUP_KEYS), self.added.table.select(GROUP_KEYS)]
        return int(pa.concat_tables(parts).group_by(GROUP_KEYS).aggregate([]).num_rows)


def changes(files: LiveFiles, results: Sequence[GroupResult]) -> Changes:
    """Find what goes and comes, deletes that apply to nothing any more included (R-116).

    `files` are those of the head, on which the results hold.
    Shape: `removed` and `after` have the columns of `files.entries`, `added` every column.
    Order: `removed` by manifest and position.
    """
    replaced = frozenset[str]().union(*(result.replaced for result in results))
    keys = frozenset[DeleteKey]().union(*(result.vectors | result.merged for result in results))
    gone_data = are_at(files.data, replaced)
    inputs = {file.location for result in results for file in result.inputs}
    needed = needed_elsewhere(files.matches, files.named, inputs)
    gone_deletes = are_deletes(files.deletes, keys) & ~needed
    added = concat([result.added for result in results if len(result.added)])
    columns = files.entries.table.column_names
    coming = Entries(added.table.select(columns))
    left = concat([where(files.data, ~gone_data), where(files.deletes, ~gone_deletes), coming])
    after = replace(files, entries=left)
    dangling = take(after.deletes, after.dangling)
    gone = [where(files.data, gone_data), where(files.deletes, gone_deletes), dangling]
    return Changes(
        removed=in_order(concat(gone)),
        added=added,
        after=concat([after.data, without(after.deletes, after.dangling)]),
        dangling=dangling,
    )
