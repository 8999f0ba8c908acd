"""Which equality deletes of a snapshot become deletes by position, and in which steps: pure.

A delete file is converted if all data files that it applies to can be read. Those of a partition,
or of the whole table, go together, or the older ones first.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from math import ceil

import numpy as np

from icectl.checks.file_identity import StatedFile
from icectl.entries.columns import Mask
from icectl.entries.deletes import applying_to, compared_ratios, count_among, equality_delete_counts
from icectl.entries.file_verdicts import are_readable, everything, of_specs
from icectl.entries.rows import are_at, where
from icectl.format.schema import Schema
from icectl.format.types import NestedField
from icectl.rows.key_ranges import KeyRanges
from icectl.table.equality_scopes import DeleteChains, Scope, scope_of
from icectl.table.live_files import LiveFiles
from icectl.table.rewrite_tasks import ConvertTask, DeleteFile, InputFile, TaskMaker

_TASK_ROWS, _ROWS_PER_KEY = 8_000_000, 4
"""Rows of data files that a task reads at least, and how many for each key that it reads, if there
are so many."""


@dataclass(frozen=True, slots=True)
class ConversionPlan:
    """The equality deletes of a group, and the data files that are not read for them.

    Bounds tell of `unread` ones that they have none of the keys. The deletes by position of
    `merging` are merged in any case.
    """

    deletes: tuple[DeleteFile, ...]
    merging: frozenset[str] = frozenset()
    unread: tuple[InputFile, ...] = ()

    @property
    def key_count(self) -> int:
        return sum(file.record_count for file in self.deletes)


@dataclass(frozen=True, slots=True)
class ConversionDraft:
    """Equality deletes that are converted together, and the rows of the data files they apply to.

    The deletes by position of `merging` are merged in any case.
    """

    deletes: tuple[DeleteFile, ...]
    files: tuple[int, ...]
    merging: frozenset[int] = frozenset()

    def beside(self, rows: Iterable[int]) -> "ConversionDraft":
        """Return the same, with more data files whose deletes by position are merged."""
        return replace(self, merging=self.merging.union(rows))


def conversion_drafts(
    files: LiveFiles, chosen: Mask, steps: int, without: Collection[int] = ()
) -> list[ConversionDraft]:
    """Return the chosen equality deletes, to be converted in about as many steps, oldest first.

    Data files `without` which they are converted are rewritten before.
    """
    rows = np.flatnonzero(chosen).tolist()
    if not rows:
        return []
    deletes = TaskMaker(files.data, files.deletes, files.index, ()).delete_files(rows)
    groups: dict[Scope, list[DeleteFile]] = {}
    for delete in deletes:
        groups.setdefault(scope_of(delete, files.unpartitioned_spec_ids), []).append(delete)
    if None in groups:  # these apply beside those of all partitions
        groups = {None: list(deletes)}
    slices, left_out = ceil(steps / len(groups)), frozenset(without)
    drafts = []
    for group in groups.values():
        for part in _by_age(group, slices):
            converted = are_at(files.deletes, {file.location for file in part})
            affected = np.flatnonzero(count_among(files.matches, converted)).tolist()
            kept = tuple(row for row in affected if row not in left_out)
            drafts.append(ConversionDraft(tuple(part), kept))
    return sorted(drafts, key=lambda draft: min(file.sequence_number for file in draft.deletes))


def convertible(files: LiveFiles, is_read: Mask) -> Mask:
    """Return which equality deletes apply to data files, all of which may be read."""
    matches = files.matches
    applies = applying_to(matches, everything(files.data))
    chosen: Mask = applies & ~applying_to(matches, ~is_read)
    chosen &= of_specs(files.deletes, files.known_spec_ids)
    chosen &= are_readable(files.deletes)
    return chosen


def are_few_deleted(files: LiveFiles, is_read: Mask, ratio: float) -> Mask:
    """Return whose rows are looked up in equality deletes rather than rewritten for these.

    All equality deletes of such a data file are convertible, and delete less than `ratio` of its
    rows, as is estimated.
    """
    matches = files.matches
    counts = equality_delete_counts(matches)
    if not counts.any():
        return np.zeros(len(files.data), np.bool_)
    is_known = count_among(matches, convertible(files, is_read)) == counts
    few: Mask = (counts > 0) & is_known & (compared_ratios(matches) < ratio)
    return few


def _by_age(deletes: Sequence[DeleteFile], count: int) -> list[list[DeleteFile]]:
    """Cut deletes into parts of about as many keys each, the oldest first."""
    in_order = sorted(deletes, key=lambda file: (file.sequence_number, file.location))
    sums = list(accumulate(max(file.record_count, 1) for file in in_order))
    parts: dict[int, list[DeleteFile]] = {}
    for file, so_far in zip(in_order, sums, strict=True):
        parts.setdefault((so_far - 1) * count // sums[-1], []).append(file)
    return list(parts.values())


def planned_tasks(
    files: LiveFiles,
    draft: ConversionDraft,
    blank: ConvertTask,
    stated: Mapping[str, StatedFile],
    ever: Schema,
) -> tuple[tuple[ConvertTask, ...], ConversionPlan]:
    """Return the tasks of a draft; files that have no key by their bounds are left out.

    `ever` has all columns that the table ever had, `stated` what entries state of files.
    """
    maker = TaskMaker(files.data, files.deletes, files.index, draft.files)
    everything = maker.convert(draft.files, blank)
    may_have = _Bounds(draft.deletes, files.unpartitioned_spec_ids, stated, ever)
    read: list[InputFile] = []
    unread: list[InputFile] = []
    for file in everything.inputs:
        (read if may_have.any_key(file) else unread).append(file)
    read.sort(key=lambda file: (file.spec_id, file.partition_key, file.sequence_number))
    places = files.data.table["location"]
    merging = frozenset(places[row].as_py() for row in draft.merging)
    plan = ConversionPlan(draft.deletes, merging, tuple(unread))
    most_rows = max(_TASK_ROWS, _ROWS_PER_KEY * plan.key_count)
    chunks: list[list[InputFile]] = []
    row_count = most_rows
    for file in read:
        if row_count >= most_rows:
            chunks.append([])
            row_count = 0
        chunks[-1].append(file)
        row_count += file.record_count
    tasks = []
    for at, chunk in enumerate(chunks):
        deletes = _applying_to_any(files, draft.deletes, chunk)
        size = sum(file.size_bytes for file in deletes)
        size += sum(may_have.read_bytes(file) for file in chunk)
        task_id = f"{blank.group}-{at}"
        tasks.append(
            replace(
                blank, task_id=task_id, inputs=tuple(chunk), delete_files=deletes, read_bytes=size
            )
        )
    return tuple(tasks), plan


def _applying_to_any(
    files: LiveFiles, deletes: Sequence[DeleteFile], chunk: Sequence[InputFile]
) -> tuple[DeleteFile, ...]:
    """Return the deletes that apply to any of some data files."""
    in_chunk = are_at(files.data, {file.location for file in chunk})
    applied = where(files.deletes, applying_to(files.matches, in_chunk))
    locations = set(applied.table["location"].to_pylist())
    return tuple(delete for delete in deletes if delete.location in locations)


class _Bounds:
    """What entries state of the keys of deletes, and of the values in data files.

    For each delete of a chain there are the bounds of its keys and of those of all later ones.
    """

    def __init__(
        self,
        deletes: Sequence[DeleteFile],
        global_spec_ids: frozenset[int],
        stated: Mapping[str, StatedFile],
        ever: Schema,
    ) -> None:
        self._stated = stated
        self._chains = DeleteChains(deletes, global_spec_ids)
        self._columns: list[list[NestedField]] = []
        self._ranges: list[list[KeyRanges]] = []
        for chain in self._chains.chains:
            columns = [field for id_ in chain.equality_ids if (field := ever.field(id_))]
            ranges: list[KeyRanges] = []
            for file in reversed(chain.files):
                known = stated.get(file.location)
                own = (
                    KeyRanges.stated(columns, known.metrics)
                    if known
                    else KeyRanges.unknown(columns)
                )
                ranges.append(own.joined(ranges[-1]) if ranges else own)
            self._columns.append(columns)
            self._ranges.append(ranges[::-1])

    def _applying(self, file: InputFile) -> list[tuple[int, int]]:
        return self._chains.applying(file.spec_id, file.partition_key, file.sequence_number)

    def any_key(self, file: InputFile) -> bool:
        """Return whether a data file may have any key of the deletes that apply to it."""
        known = self._stated.get(file.location)
        return any(
            known is None or self._ranges[at][first].may_be_in(known.metrics)
            for at, first in self._applying(file)
        )

    def read_bytes(self, file: InputFile) -> int:
        """Return about how many bytes of a data file are read: those of the compared columns."""
        known = self._stated.get(file.location)
        ids = {column.id for at, _ in self._applying(file) for column in self._columns[at]}
        sizes = {} if known is None else known.metrics.column_sizes
        return sum(sizes[id_] for id_ in ids) if ids <= sizes.keys() else file.size_bytes
