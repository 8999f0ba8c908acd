"""Tasks that are too large for one worker, rewritten by many: rows cross between them on Spark.

First the keys of some rows are read, which tell the ranges of keys that make a file each. Then
workers read pieces of a task, small files together and large ones in parts, and deal its rows out
by range, and others sort and write the rows of one range each. A key that more rows have than one
range should is that of several. Rows cross as blocks of Arrow, which Spark's shuffle keeps on disk.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate
from math import ceil
from typing import Any

import pyarrow as pa

from icectl.format.manifest import FileFormat
from icectl.rows.compact_job import CompactJob, TaskResult, entries_of, file_group
from icectl.rows.range_rows import dealt, lows_of, range_keys, sampled_keys
from icectl.rows.rewrite_data import RowsRead, counting_rows, live_batches, write_rows
from icectl.rows.row_totals import RowTotals, check_totals
from icectl.rows.spark import Spark, TaskAttempt, batch_payload, payload_batch
from icectl.rows.workplace import Workplace
from icectl.table.rewrite_task import InputFile, RewriteTask, even_splits

_PIECE_BYTES = 64 << 20
_SEVERAL = 2
_SAMPLES_A_RANGE, _MOST_SAMPLES = 4_000, 1_000_000
_ROOM = 1.15
"""How far the file of a range may grow: ranges are estimates, and a tiny file more is no gain."""


def is_for_ranges(task: RewriteTask, job: CompactJob) -> bool:
    """Whether the rows of a task are ordered or split by partition, and make several files."""
    splits = task.partition_key is None and not job.specs[task.spec_id].spec.is_unpartitioned
    return (job.sorting is not None or splits) and _range_count(task) > 1


def _range_count(task: RewriteTask) -> int:
    return ceil(task.expected_bytes / task.roll_bytes)


@dataclass(frozen=True, slots=True)
class _Piece:
    """A piece of a task: some of its files, or part of one, by its place among the tasks."""

    at: int
    task: RewriteTask


@dataclass(slots=True)
class _Totals:
    """The rows that were read of a task, deleted rows too, and the totals of the live ones."""

    read_row_count: int = 0
    live: RowTotals = field(default_factory=RowTotals)


@dataclass(frozen=True, slots=True)
class _Written:
    """The entries of a range's new files, and what they have."""

    entries: pa.Table
    rows: RowTotals


@dataclass(frozen=True, slots=True)
class _Ranges:
    """The ranges of all tasks, numbered through; `lows` are the keys where those of each begin."""

    tasks: Sequence[RewriteTask]
    lows: Sequence[Sequence[bytes]]

    @property
    def starts(self) -> Sequence[int]:
        """The number of each task's first range, and behind them how many ranges there are."""
        return list(accumulate(map(len, self.lows), initial=0))

    @property
    def count(self) -> int:
        """The number of ranges."""
        return self.starts[-1]


def rewrite_in_ranges(
    spark: Spark, tasks: Sequence[RewriteTask], job: CompactJob, at: Workplace
) -> list[TaskResult]:
    """Rewrite tasks in ranges of the keys of their rows, and return what comes of each.

    Order: that of the tasks; of new files that of the keys of their rows.
    Raises: as run_rewrite; EngineError; Incomplete.
    """
    pieces = [_Piece(place, one) for place, task in enumerate(tasks) for one in pieces_of(task)]
    spark.progress.phase("sampling rows on Spark", total=len(pieces))
    sampled = spark.each(partial(_sample, at, job, tasks), pieces)
    ranges = _Ranges(
        tasks,
        [
            lows_of(
                [key for place, keys in sampled if place == number for key in keys],
                _range_count(task),
            )
            for number, task in enumerate(tasks)
        ],
    )
    spark.progress.phase("rewriting data files on Spark", total=len(pieces) + ranges.count + 1)
    found: list[Any] = spark.shuffled(
        partial(_deal, at, job, ranges),
        pieces,
        partial(_write, at, job, ranges),
        ranges.count + 1,
        (_Written, _Totals, RowTotals),
    )
    *written, read = found
    return [_result(number, ranges, written, read[number]) for number in range(len(tasks))]


def pieces_of(task: RewriteTask) -> Iterator[RewriteTask]:
    """Yield files of a task, of some size together, and parts of larger ones."""
    files, size_bytes = [], 0
    for file in (part for whole in task.inputs for part in _parts(whole)):
        files.append(file)
        size_bytes += file.read_bytes
        if size_bytes >= _PIECE_BYTES:
            yield replace(task, inputs=tuple(files))
            files, size_bytes = [], 0
    if files:
        yield replace(task, inputs=tuple(files))


def _parts(file: InputFile) -> Sequence[InputFile]:
    """Cut a large file, of a format that can be read in parts, so that a piece has one at most."""
    count = file.size_bytes // _PIECE_BYTES
    if count < _SEVERAL or file.file_format != FileFormat.PARQUET or file.split is not None:
        return [file]
    return [replace(file, split=split) for split in even_splits(file.size_bytes, count)]


def _sample(
    at: Workplace, job: CompactJob, tasks: Sequence[RewriteTask], piece: _Piece
) -> tuple[int, list[bytes]]:
    """Sample the keys of rows of a piece, on a worker."""
    whole = tasks[piece.at]
    row_count = sum(file.record_count for file in whole.inputs)
    wanted = min(_SAMPLES_A_RANGE * _range_count(whole), _MOST_SAMPLES)
    step = max(row_count // wanted, 1)
    with at.attempt(TaskAttempt.current().unique_id) as outputs:
        return piece.at, sampled_keys(file_group(piece.task, job), outputs(piece.task), step)


def _deal(
    at: Workplace, job: CompactJob, ranges: _Ranges, piece: _Piece
) -> Iterator[tuple[int, object]]:
    """Deal out the rows of a piece by range, on a worker.

    Behind the last range comes what they amount to.
    """
    group = file_group(piece.task, job)
    read, totals = RowsRead(), RowTotals()
    first = ranges.starts[piece.at]
    with at.attempt(TaskAttempt.current().unique_id, [piece.task]) as outputs:
        batches = counting_rows(live_batches(group, outputs(piece.task), read), totals)
        for number, rows in dealt(batches, range_keys(group), ranges.lows[piece.at]):
            yield first + number, batch_payload(rows)
    yield ranges.count, (piece.at, read.row_count, totals)


def _write(
    at: Workplace, job: CompactJob, ranges: _Ranges, number: int, dealt: Iterator[Any]
) -> _Written | dict[int, _Totals]:
    """Write the new files of a range, on a worker; of the last number, sum up what was read."""
    if number == ranges.count:
        return _sums(dealt)
    task = ranges.tasks[bisect_right(ranges.starts, number) - 1]
    group = file_group(task, job)
    options = replace(job.options, target_size_bytes=int(_ROOM * task.roll_bytes))
    with at.attempt(TaskAttempt.current().unique_id) as outputs:
        files, rows = write_rows(group, map(payload_batch, dealt), options, outputs(task))
    return _Written(entries_of(files, task, job), rows)


def _sums(told: Iterator[tuple[int, int, RowTotals]]) -> dict[int, _Totals]:
    sums: dict[int, _Totals] = {}
    for at, read_row_count, live in told:
        of_task = sums.setdefault(at, _Totals())
        of_task.read_row_count += read_row_count
        of_task.live.add_totals(live)
    return sums


def _result(at: int, ranges: _Ranges, written: Sequence[_Written], read: _Totals) -> TaskResult:
    """Sum up the ranges of a task.

    Raises: EngineError, where rows were lost on the way.
    """
    mine = written[slice(*ranges.starts[at : at + 2])]
    rows = RowTotals()
    for one in mine:
        rows.add_totals(one.rows)
    check_totals(read.live, rows)
    entries = pa.concat_tables(one.entries for one in mine)
    return TaskResult(
        ranges.tasks[at].task_id,
        entries,
        read.read_row_count,
        read.read_row_count - rows.row_count,
        rows.row_count,
        sum(entries["file_size_in_bytes"].to_pylist()),
    )
