"""Decide whether rewritten groups are still valid on a head, and compute their changes. Pure.

Only live files decide, not the commits since then: files that were read must be live, with exactly
the deletes that were applied. Newer equality deletes are the one exception. They still apply,
because new files have the data sequence number of the rewrite's base (R-045, R-112).
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from icectl.entries.deletes import match, needed_elsewhere
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
    planning,
    take,
    where,
    without,
)
from icectl.entries.summary import moved_totals, summarise, summary_counters
from icectl.files.deletion_vectors import Positions
from icectl.table.live_files import LiveFiles
from icectl.table.rewrite_tasks import InputFile, MergeDeletesTask, RewriteTask, Task

DeleteKey = tuple[str, int | None]
"""Location and content offset, which identify a delete file or vector."""


@dataclass(frozen=True, slots=True)
class EqualityDelete:
    """What decides to which data files an equality delete file applies (R-112), and the columns."""

    sequence_number: int
    is_global: bool
    field_ids: tuple[int, ...]


_STATED = ("record_count", "spec_id", "partition_key", "sequence_number", "first_row_id")
"""Members of a data file's entry that must be as planned; the last may be new if only deletes are
merged."""


@dataclass(frozen=True, slots=True)
class TaskOutput:
    """The new files of a task with their row counts.

    Rows are in the order of the old files; sorted ones are found `by_row_id`. With `keeps_deleted`,
    deleted rows are in the new files too, except those that are `left_out`. `by_value` has the
    positions that equality deletes delete, by old file.
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
        """Return whether the new positions of the inputs' rows are known."""
        return task.partition_key is not None and all(
            file.split is None and (self.keeps_deleted or not file.equality_deletes)
            for file in task.inputs
        )


@dataclass(frozen=True, slots=True)
class GroupResult:
    """The result of a group: its tasks as they were planned, and the entries to add.

    `added` have status ADDED, an explicit data sequence number, and no snapshot id. `outputs` has
    the new files of each task, if rows can be found again. Else it is empty, and `lost_by` names
    the order of the rows. `converted` are equality delete files whose rows are deleted by position.
    """

    number: int
    tasks: tuple[Task, ...]
    added: Entries
    outputs: tuple[TaskOutput, ...] = ()
    lost_by: str = ""
    converted: frozenset[str] = frozenset()

    @property
    def rewrites(self) -> tuple[RewriteTask, ...]:
        """The tasks that rewrite data files."""
        return tuple(task for task in self.tasks if isinstance(task, RewriteTask))

    @property
    def carried_tasks(self) -> frozenset[str]:
        """The ids of tasks whose deletes can be carried over."""
        pairs = zip(self.rewrites, self.outputs, strict=bool(self.outputs))
        return frozenset(task.task_id for task, output in pairs if output.carries(task))

    @property
    def moves_deletes(self) -> bool:
        """Whether rows of the new files are deleted from the start."""
        pairs = zip(self.rewrites, self.outputs, strict=bool(self.outputs))
        return any(output.keeps_deleted_of(task) for task, output in pairs)

    @property
    def inputs(self) -> tuple[InputFile, ...]:
        """The data files that were read, each once."""
        return tuple({file.location: file for task in self.tasks for file in task.inputs}.values())

    @property
    def replaced(self) -> frozenset[str]:
        """Locations of the data files that new ones replace."""
        return frozenset(file.location for task in self.rewrites for file in task.inputs)

    @property
    def vectors(self) -> frozenset[DeleteKey]:
        """Deletion vectors of these data files, which the commit replaces (R-116)."""
        return frozenset(
            (file.vector.location, file.vector.content_offset)
            for file in self.inputs
            if file.vector is not None
        )

    @property
    def merged(self) -> frozenset[DeleteKey]:
        """Delete files whose rows new ones delete."""
        merging = (task for task in self.tasks if isinstance(task, MergeDeletesTask))
        locations = {file.location for task in merging for file in task.delete_files}
        return frozenset((location, None) for location in locations | self.converted)


_Applied = tuple[set[DeleteKey], Mapping[DeleteKey, EqualityDelete]]


class LiveHead:
    """The live files of a head, with some of its data files by location."""

    def __init__(self, files: LiveFiles, locations: Collection[str]) -> None:
        self.files = files
        places = index_in(pa.array(sorted(locations), pa.string()), files.data.table["location"])
        rows = places[places >= 0].tolist()
        members = by_row(take(files.data, rows), "location", *_STATED)
        self._entries: Mapping[str, tuple[int, tuple[Any, ...]]] = {
            location: (row, tuple(stated))
            for row, (location, *stated) in zip(rows, members, strict=True)
        }
        self._applied = {row: files.index.of(row) for row in sorted(rows)}
        self._by_location: dict[str, _Applied] = {}
        of_data = self._applied.values()
        delete_rows = sorted(
            {
                at
                for deletes in of_data
                for at in (*deletes.vectors, *deletes.position_deletes, *deletes.equality_deletes)
            }
        )
        columns = ("location", "content_offset", "sequence_number", "spec_id", "equality_ids")
        by_delete = by_row(take(files.deletes, delete_rows), *columns)
        everywhere = files.unpartitioned_spec_ids
        self._deletes: Mapping[int, tuple[DeleteKey, EqualityDelete]] = {
            row: ((place, offset), EqualityDelete(number, spec in everywhere, tuple(ids or ())))
            for row, (place, offset, number, spec, ids) in zip(delete_rows, by_delete, strict=True)
        }

    def entry(self, location: str) -> tuple[Any, ...] | None:
        """Return the members of _STATED of a live data file; None without one."""
        row = self._entries.get(location)
        return None if row is None else row[1]

    def row(self, location: str) -> int:
        return self._entries[location][0]

    def applied(self, location: str) -> _Applied:
        """Return vectors and position deletes of a live data file, and its equality deletes."""
        known = self._by_location.get(location)
        if known is None:
            rows = self._applied[self._entries[location][0]]
            by_position = {self._deletes[at][0] for at in (*rows.vectors, *rows.position_deletes)}
            known = by_position, dict(self._deletes[at] for at in rows.equality_deletes)
            self._by_location[location] = known
        return known

    def has_equality_deletes_of(self, added: Entries) -> bool:
        """Return whether equality deletes of partitions apply to any of some new data files."""
        deletes = planning(self.files.deletes)
        new = Entries(added.table.select(deletes.table.column_names))
        matches = match(concat([new, deletes]), self.files.unpartitioned_spec_ids)
        return bool(matches.equality_deletes[0].counts.any())


def head_of(files: LiveFiles, results: Iterable[GroupResult]) -> LiveHead:
    """Return a head that `conflict` can be asked about for some groups."""
    return LiveHead(files, {file.location for result in results for file in result.inputs})


Lacks = Callable[[int], bool]
"""Whether new files lack a column that the files they replace may have."""


def conflict(
    result: GroupResult,
    head: LiveHead,
    *,
    carries: bool = False,
    lacks: Lacks = lambda _: False,
) -> str | None:
    """Return why a group cannot be committed on a head; None if it can.

    With `carries`, other deletes by position and missing files are no reason, if deletes can be
    carried over. Equality deletes that came since are one, if they compare a column that new files
    lack.
    Spec: R-111 to R-113, R-152; rules of RewriteFiles in the reference implementation, except for
    missing deletes.
    """
    carried = result.carried_tasks if carries else frozenset[str]()
    for task in result.tasks:
        # Once a task: it looks at all files, of which there may be tens of thousands.
        moves = isinstance(task, RewriteTask) and _moves(task)
        for file in task.inputs:
            is_carried = task.task_id in carried
            reason = _of_file(task, file, head, lacks, carries=is_carried, moves=moves)
            if reason is None:
                continue
            if carries and result.lost_by and is_changed(task, file, head):
                return f"{reason}: version 2 can't find rows again that are {result.lost_by}"
            return reason
    if any(map(_moves, result.rewrites)) and head.has_equality_deletes_of(result.added):
        return "equality deletes came for a partition that rows move to"
    return None


def _moves(task: RewriteTask) -> bool:
    """Return whether rows change their partition, and so their equality deletes."""
    return task.partition_key is None or any(file.spec_id != task.spec_id for file in task.inputs)


def is_changed(task: Task, file: InputFile, head: LiveHead) -> bool:
    """Return whether an input has other deletes by position now, or is no longer live."""
    if head.entry(file.location) is None:
        return True
    planned: set[DeleteKey] = {
        (task.delete_files[at].location, None) for at in file.position_deletes
    }
    if file.vector is not None:
        planned.add((file.vector.location, file.vector.content_offset))
    return head.applied(file.location)[0] != planned


def _of_file(
    task: Task, file: InputFile, head: LiveHead, lacks: Lacks, *, carries: bool, moves: bool
) -> str | None:
    stated = head.entry(file.location)
    if stated is None:
        return None if carries else f"`{file.location}` was removed by another commit"
    compared = len(_STATED) - isinstance(task, MergeDeletesTask)
    if stated[:compared] != tuple(getattr(file, name) for name in _STATED[:compared]):
        return f"`{file.location}` has another entry now"
    by_value = head.applied(file.location)[1]
    if not carries and is_changed(task, file, head):
        return f"other rows of `{file.location}` are deleted by position now"
    if not isinstance(task, RewriteTask):
        return None
    planned = {(task.delete_files[at].location, None) for at in file.equality_deletes}
    if not planned <= by_value.keys():
        return f"equality deletes of `{file.location}` are gone"
    newer = [delete for key, delete in by_value.items() if key not in planned]
    if any(delete.sequence_number <= task.sequence_number for delete in newer):
        return f"equality deletes of `{file.location}` would not apply to the new files"
    if any(map(lacks, chain.from_iterable(delete.field_ids for delete in newer))):
        return f"equality deletes of `{file.location}` compare a column that was dropped before"
    if moves and not all(delete.is_global for delete in newer):
        return f"equality deletes came for `{file.location}`, whose rows move"
    return None


CARRIED_DELETES = "icectl.carried-deletes"
"""The key in a summary for rows that were deleted while their files were rewritten."""


@dataclass(frozen=True)
class Changes:
    """Live entries of a head to remove, entries to add, and the live ones `after`.

    `operation` is what the summary of the snapshot says. Where it `is_part`, files are live beside
    those of `after`, in manifests that were not read.

    `dangling` are the delete files among `removed` that no longer apply to anything, `carried` the
    rows that were deleted while their files were rewritten.
    """

    removed: Entries
    added: Entries
    after: Entries
    dangling: Entries
    carried: int = 0
    operation: str = "replace"
    is_part: bool = False

    def summary(self, before: Mapping[str, str] | None) -> Mapping[str, str]:
        """Return counters of a snapshot's summary, without zeros except in totals (R-031).

        Totals that cannot be counted follow from those `before`, where these are known.
        """
        keys = [part.table.select(GROUP_KEYS) for part in (self.removed, self.added)]
        come, gone = summarise(self.added), summarise(self.removed)
        counters = {
            **summary_counters(come, "added"),
            **summary_counters(gone, "removed"),
            "changed-partition-count": int(
                pa.concat_tables(keys).group_by(GROUP_KEYS).aggregate([]).num_rows
            ),
        }
        changed = {key: str(value) for key, value in counters.items() if value}
        if self.is_part:
            totals = moved_totals(before, come, gone)
        else:
            totals = summary_counters(summarise(self.after), "total")
        return changed | {key: str(value) for key, value in totals.items()} | self.run_summary

    @property
    def run_summary(self) -> dict[str, str]:
        """Members of the summary beside the counters of files (R-031)."""
        return {CARRIED_DELETES: str(self.carried)} if self.carried else {}

    @property
    def removed_delete_files(self) -> int:
        return len(delete_files(self.removed))


def changes(files: LiveFiles, results: Sequence[GroupResult]) -> Changes:
    """Return the changes, with the deletes that no longer apply to anything (R-116).

    `files` are those of the head, on which the results are valid.
    Shape: `removed` and `after` have the columns of `files.entries`, `added` every column.
    Order: `removed` by manifest and position.
    """
    replaced = frozenset[str]().union(*(result.replaced for result in results))
    keys = frozenset[DeleteKey]().union(*(result.vectors | result.merged for result in results))
    data_to_remove = are_at(files.data, replaced)
    inputs = {file.location for result in results for file in result.inputs}
    needed = needed_elsewhere(files.matches, files.named, inputs)
    deletes_to_remove = are_deletes(files.deletes, keys) & ~needed
    if files.unread:  # a manifest among these may have a file that seems to be gone
        live = where(files.data, are_at(files.data, inputs))
        known = frozenset(live.table["location"].to_pylist())
        replaced &= known
        rows = np.flatnonzero(deletes_to_remove)
        deletes_to_remove[rows] = files.name_only(rows, known)
    added = concat([result.added for result in results if len(result.added)])
    columns = files.entries.table.column_names
    added_columns = Entries(added.table.select(columns))
    remaining = concat(
        [
            where(files.data, ~data_to_remove),
            where(files.deletes, ~deletes_to_remove),
            added_columns,
        ]
    )
    after = replace(files, entries=remaining)
    unused = after.unused_without(replaced)
    dangling = take(after.deletes, unused)
    removed = [where(files.data, data_to_remove), where(files.deletes, deletes_to_remove), dangling]
    return Changes(
        removed=in_order(concat(removed)),
        added=added,
        after=concat([after.data, without(after.deletes, unused)]),
        dangling=dangling,
        is_part=len(files.unread) > 0,
    )
