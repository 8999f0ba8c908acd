"""Which data files are rewritten together, and in which tasks: pure.

Candidates are grouped as the reference implementation's bin packing does, partition by partition.
A file is left alone where it would only be copied, so that what a run has made is left alone by
the next.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, pairwise

import numpy as np

from icectl.checks.file_identity import StatedFile
from icectl.commands.compact.clustering import Clustering, within
from icectl.commands.compact.equality_plan import (
    ConversionDraft,
    ConversionPlan,
    conversion_drafts,
    planned_tasks,
)
from icectl.commands.compact.plan_options import CompactOptions
from icectl.entries.columns import Integers, Mask
from icectl.entries.file_verdicts import DELETES, FileVerdict, Verdicts, count_verdicts
from icectl.entries.rows import by_row, take
from icectl.files.parquet.alike import DecodedColumns
from icectl.format.metadata import TableMetadata
from icectl.format.schema import Schema
from icectl.table.live_files import LiveFiles
from icectl.table.mergeable import Mergeable, MethodChoice, choose_method
from icectl.table.output_sizes import pack
from icectl.table.rewrite_tasks import (
    Bin,
    ConvertTask,
    MergeDeletesTask,
    RewriteTask,
    Task,
    TaskMaker,
    split_bins,
)
from icectl.units import print_count, print_size

REWRITE = MethodChoice("rewrite", "asked for")
REPARTITION = MethodChoice("rewrite", "rows move to the partitions of their values")

VECTORS_FROM = 3
"""The first format version with deletion vectors, which has no new position delete files."""

CHOSEN: Mapping[FileVerdict, str] = {
    FileVerdict.ASKED_FOR: "asked for",
    FileVerdict.SMALL: "too small",
    FileVerdict.LARGE: "too large",
    FileVerdict.OVERLAPPING: "overlapping others",
    FileVerdict.MANY_DELETE_FILES: "many delete files",
    FileVerdict.MANY_DELETED_ROWS: "many deleted rows",
    FileVerdict.OF_MANY_DELETE_FILES: "deletes in several files, or in shared ones",
    FileVerdict.OF_POSITION_DELETES: "position deletes, not a vector",
    FileVerdict.OF_SMALL_VECTOR_FILES: "vector in a small file",
    FileVerdict.OF_EQUALITY_DELETES: "equality deletes",
}
"""Why a data file, or its deletes, is rewritten."""


@dataclass(frozen=True, slots=True)
class CompactGroup:
    """Data files that are rewritten and committed together, and how.

    They come to the partition of `partition_key`; None stands for files whose rows move one by one:
    those of other specs, and of may_leave. `files` are rows of the live data files. Of a
    `conversion` these keep their rows. Vectors (`makes_vectors`) of all partitions lie together.
    Of a group to merge, `decoded_bytes` are those of odd files, which are rewritten, and of the
    columns that are decoded of files to merge: `decoded_columns`, by location.
    """

    number: int
    spec_id: int
    partition_key: bytes | None
    files: tuple[int, ...]
    tasks: tuple[Task, ...]
    reason: str
    input_files: int
    input_bytes: int
    input_rows: int
    expected_files: int
    expected_bytes: int
    choice: MethodChoice = REWRITE
    conversion: ConversionPlan | None = None
    makes_vectors: bool = False
    decoded_bytes: int = 0
    decoded_columns: Mapping[str, DecodedColumns] = field(default_factory=dict)

    @property
    def rewritten_bytes(self) -> int:
        """Bytes of files and columns that are decoded."""
        return self.input_bytes if self.choice.method == "rewrite" else self.decoded_bytes

    @property
    def keeps_files(self) -> bool:
        """Whether its data files stay, and their deletes change."""
        tasks = (isinstance(task, MergeDeletesTask) for task in self.tasks)
        return self.conversion is not None or any(tasks)


@dataclass(frozen=True)
class GroupDraft:
    """A group before it is known whether it is one of those that are rewritten."""

    partition_key: bytes | None
    bins: tuple[Bin, ...]
    choice: MethodChoice = REWRITE

    @cached_property
    def files(self) -> tuple[int, ...]:
        """The rows of the data files of all bins, each once."""
        if len(self.bins) == 1:
            return self.bins[0].files
        return tuple(dict.fromkeys(chain.from_iterable(bin_.files for bin_ in self.bins)))


@dataclass(frozen=True, slots=True)
class Grouping:
    """The planning of groups: the files with rows, and bytes, stored and in new files.

    `verdicts` are changed where a candidate is left alone after all; `as_made` tells files that
    are only rewritten together with others, `is_new` those that no run in the order of rows has
    seen. `layout` is that in this order. `odd` tells why files that stay can't be merged.
    """

    files: LiveFiles
    options: CompactOptions
    verdicts: Verdicts
    stored: Integers
    kept: Integers
    as_made: Mask
    is_new: Mask
    layout: Clustering
    mergeable: Mergeable
    odd: dict[int, str] = field(default_factory=dict)

    def leave(self, rows: Sequence[int], verdict: FileVerdict) -> None:
        """Note why candidates are left alone."""
        self.verdicts[list(rows)] = verdict
        if verdict not in (FileVerdict.LATER, FileVerdict.OVER_BUDGET):
            self.verdicts[[row for row in rows if self.as_made[row]]] = FileVerdict.AS_MADE

    def drafts(self, key: bytes | None, rows: list[int]) -> list[GroupDraft]:
        """Return the groups of one partition, or of all files whose rows come to any."""
        if key is None or self.options.order is not None:
            why = f"its rows {'move to another partition' if key is None else 'are to be sorted'}"
            if self.options.method == "merge":
                self._keep_odd(rows, why)
                return []
            choice = MethodChoice("rewrite", why) if self.options.method == "auto" else REWRITE
            whole = self._whole_drafts(key, rows) if key is None else self._sorted(key, rows)
            return [replace(draft, choice=choice) for draft in whole]
        if not self._is_worth_it(rows):
            self.leave(rows, FileVerdict.TOO_FEW)
            return []
        others = self._others(rows)
        if len(others) < len(rows) and all(map(self._only_copies, self._bins(others))):
            self.leave(rows, FileVerdict.NO_GAIN)
            return []
        drafts: list[GroupDraft] = []
        apart = self._apart(rows)
        taken = {row for bins in apart for bin_ in bins for row in bin_.files}
        for bins in apart + self._bins([row for row in rows if row not in taken]):
            if not self._only_copies(bins):
                drafts.append(GroupDraft(key, bins, self._choice(bins)))
            elif taken and (why_not := self.mergeable.obstacle(bins[0].files)):
                self._keep_odd(bins[0].files, why_not)
            else:
                self.leave(bins[0].files, FileVerdict.NO_GAIN)
        merging = [draft for draft in drafts if draft.choice.method != "rewrite"]
        rewriting = [draft for draft in drafts if draft.choice.method == "rewrite"]
        if self.options.method == "merge":
            for draft in rewriting:
                self._keep_odd(draft.files, draft.choice.why)
            rewriting = []
        return self._pack(merging) + self._pack(rewriting)

    def _keep_odd(self, rows: Sequence[int], why: str) -> None:
        """Leave files alone that can't be merged, for reasons of their own or of their group."""
        self.leave(rows, FileVerdict.NOT_MERGEABLE)
        for row in rows:
            if self.verdicts[row] == FileVerdict.NOT_MERGEABLE:
                self.odd[row] = self.mergeable.obstacle([row]) or why

    def _apart(self, rows: list[int]) -> list[tuple[Bin, ...]]:
        """Return bins of files that are planned apart from others, which can't be merged.

        There is none if all can be, or if `auto` would leave hardly fewer files than there are.
        """
        places = np.array(rows, np.int64)
        is_fit = self.mergeable.is_fit(places)
        if is_fit.all():
            return []
        bins = self._bins(places[is_fit].tolist())
        if self.options.method == "merge":
            return bins
        merged = [of_one for of_one in bins if self._choice(of_one).method != "rewrite"]
        return merged if 2 * (len(merged) + 1) <= len(rows) else []

    def moving(self, draft: GroupDraft) -> GroupDraft:
        """Return a draft whose rows move one by one, in tasks that read whole files."""
        bins = {bin_.files: self._bin(np.array(bin_.files, np.int64)) for bin_ in draft.bins}
        return GroupDraft(None, tuple(bins.values()), REPARTITION)

    def _choice(self, bins: tuple[Bin, ...]) -> MethodChoice:
        """Return the method for the files of some bins."""
        options = self.options
        if options.method == "rewrite":
            return REWRITE
        if options.method == "auto" and options.every:
            return MethodChoice("rewrite", "requested by --rewrite-all")
        return choose_method(options.method, self.mergeable, bins, options.merge_row_group)

    def _pack(self, drafts: Sequence[GroupDraft]) -> list[GroupDraft]:
        """Return drafts of a partition as groups, up to the largest size of a group."""
        weights = [self.stored_bytes(draft.files) for draft in drafts]
        return [
            replace(drafts[group[0]], bins=tuple(bin_ for at in group for bin_ in drafts[at].bins))
            for group in pack(weights, self.options.max_group_bytes, lookback=1)
        ]

    def _whole_drafts(self, key: bytes | None, rows: list[int]) -> list[GroupDraft]:
        """Return groups of one task each, which sorts rows or splits them by partition."""
        packed = pack(self.stored[rows].tolist(), self.options.max_group_bytes, lookback=1)
        groups = [[rows[at] for at in group] for group in packed]
        drafts, rest = [], []
        for group in groups:
            if self._is_worth_it(group):
                drafts.append(GroupDraft(key, (self._bin(np.array(group, np.int64)),)))
            else:
                rest += group
        if not drafts:
            self.leave(rest, FileVerdict.TOO_FEW)
            return []
        # Those that lie apart may be worth it together.
        return drafts + (self._whole_drafts(key, rest) if rest else [])

    def _sorted(self, key: bytes | None, rows: list[int]) -> list[GroupDraft]:
        """Return groups of files that overlap, and of others that lie side by side."""
        overlaps, overlap_of = self.layout.overlaps, self.layout.overlap_of
        drafts = [
            GroupDraft(key, (self._bin(np.array(group, np.int64)),))
            for at in sorted({overlap_of[row] for row in rows if row in overlap_of})
            for group in within(
                overlaps[at],
                self.stored,
                self.options.max_group_bytes,
                is_budget=self.options.max_bytes is not None,
            )
        ]
        grouped = {row for draft in drafts for row in draft.files}
        over = [row for row in rows if row in overlap_of and row not in grouped]
        self.leave(over, FileVerdict.OVER_BUDGET)
        places = self.layout.places
        left = sorted((places.get(row, -1), row) for row in rows if row not in overlap_of)
        parts: list[list[int]] = []
        for (before, _), (place, row) in pairwise([(-2, -1), *left]):
            if place > max(before, 0) + 1 or not parts:
                parts.append([])
            parts[-1].append(row)
        return drafts + [draft for part in parts for draft in self._whole_drafts(key, part)]

    def _others(self, rows: list[int]) -> list[int]:
        """Return candidates that no earlier compaction wrote."""
        places = np.array(rows, np.int64)
        return list(places[~self.as_made[places]].tolist())

    def _is_worth_it(self, rows: list[int]) -> bool:
        """Whether candidates of a partition are rewritten, as the reference implementation says.

        What a compaction to the same sizes has made, or has seen and left, is no reason.
        """
        rows = self._others(rows)
        if not rows:
            return False
        if self.options.every or self.verdicts[rows].max() >= min(DELETES):
            return True
        if not self.is_new[rows].any():
            return False
        size = self.stored_bytes(rows)
        enough = len(rows) >= self.options.min_input_files or size > self.options.sizes.target
        return (len(rows) > 1 and enough) or size > self.options.sizes.largest

    def _bins(self, rows: Sequence[int]) -> list[tuple[Bin, ...]]:
        """Return bins of one partition; bins that share a file are adjacent."""
        sizes, places = self.options.sizes, np.array(rows, np.int64)
        is_large = self.kept[places] > sizes.roll
        large, others = places[is_large].tolist(), places[~is_large]
        bins = [split_bins(self.files.data, row, int(self.kept[row]), sizes) for row in large]
        merged = sizes.bins(self.kept[others].tolist()) if len(others) else []
        return bins + [(self._bin(others[bin_]),) for bin_ in merged]

    def _bin(self, rows: Integers) -> Bin:
        return Bin(tuple(rows.tolist()), None, int(self.kept[rows].sum()))

    def _only_copies(self, bins: tuple[Bin, ...]) -> bool:
        """Return whether one file would become one file with nearly all of its rows."""
        first, *others = bins
        if self.options.every or others or len(first.files) > 1:
            return False
        few_deletes = self.verdicts[first.files[0]] not in DELETES
        return few_deletes and first.expected_bytes <= self.options.sizes.roll

    def ordered(self, drafts: list[GroupDraft]) -> list[GroupDraft]:
        """Groups in the order in which they are to be rewritten."""
        order = self.options.job_order
        if order == "none":
            return drafts
        by_bytes = order.startswith("bytes")
        return sorted(
            drafts,
            key=lambda draft: self.stored_bytes(draft.files) if by_bytes else len(draft.files),
            reverse=order.endswith("desc"),
        )

    def stored_bytes(self, rows: Sequence[int]) -> int:
        """Return the bytes of some data files as stored."""
        return int(self.stored[list(rows)].sum())

    def within_limits(self, drafts: Sequence[GroupDraft]) -> list[GroupDraft]:
        """Return the groups that this run may rewrite; the others are left to another one."""
        options = self.options
        most_groups = len(drafts) if options.max_groups is None else options.max_groups
        taken: list[GroupDraft] = []
        remaining_bytes = options.max_bytes
        for draft in drafts:
            size = 0 if remaining_bytes is None else self.stored_bytes(draft.files)
            if len(taken) == most_groups:
                self.leave(draft.files, FileVerdict.LATER)
            elif remaining_bytes is not None and size > remaining_bytes:
                self.leave(draft.files, FileVerdict.OVER_BUDGET)
            else:
                taken.append(draft)
                remaining_bytes = None if remaining_bytes is None else remaining_bytes - size
        return taken

    def conversions(
        self, converted: Mask, rewritten: Collection[int], group_count: int
    ) -> list[ConversionDraft]:
        """Return some equality deletes, to be converted after groups of files are rewritten."""
        drafts = conversion_drafts(self.files, converted, self.options.steps, rewritten)
        most = self.options.max_groups
        room = len(drafts) if most is None else most - group_count
        for at, draft in enumerate(drafts):
            verdict = FileVerdict.OF_EQUALITY_DELETES if at < room else FileVerdict.LATER
            rows = np.array(draft.files, np.int64)
            rows = rows[self.verdicts[rows] != FileVerdict.OVER_BUDGET]
            self.verdicts[rows] = verdict
        return drafts[:room]

    def group(
        self, number: int, draft: GroupDraft, make: TaskMaker, sequence_number: int
    ) -> CompactGroup:
        """Return a group with its tasks."""
        rows, sizes, spec_id = draft.files, self.options.sizes, self.options.output_spec_id
        tasks = []
        for at, bin_ in enumerate(draft.bins):
            task = RewriteTask(
                task_id=f"{number}-{at}",
                group=number,
                inputs=(),
                delete_files=(),
                spec_id=spec_id,
                partition_key=draft.partition_key,
                sequence_number=sequence_number,
                roll_bytes=sizes.roll_of(bin_.expected_bytes),
                expected_bytes=0,
                method=draft.choice.method,
            )
            tasks.append(make.rewrite(bin_, task))
        return CompactGroup(
            number=number,
            spec_id=spec_id,
            partition_key=draft.partition_key,
            files=rows,
            tasks=tuple(tasks),
            reason=self._reason(rows),
            input_files=len(rows),
            input_bytes=self.stored_bytes(rows),
            input_rows=make.row_count(rows),
            expected_files=sum(sizes.parts(bin_.expected_bytes) for bin_ in draft.bins),
            expected_bytes=sum(bin_.expected_bytes for bin_ in draft.bins),
            choice=draft.choice,
        )

    def _reason(self, rows: Sequence[int]) -> str:
        """Return the number of files of a group for each reason to rewrite them."""
        options, counts = self.options, count_verdicts(self.verdicts[list(rows)])
        texts = dict(CHOSEN)
        texts[FileVerdict.SMALL] = f"smaller than {print_size(options.sizes.smallest)}"
        texts[FileVerdict.LARGE] = f"larger than {print_size(options.sizes.largest)}"
        texts[FileVerdict.MANY_DELETE_FILES] = (
            f"with {options.min_delete_files} delete files or more"
        )
        texts[FileVerdict.MANY_DELETED_ROWS] = (
            f"with {options.min_delete_ratio:.0%} deleted rows or more"
        )
        return ", ".join(f"{counts[key]:,} {text}" for key, text in texts.items() if key in counts)


def within_budget(
    options: CompactOptions, chosen: Sequence[CompactGroup], more: Sequence[CompactGroup]
) -> tuple[list[CompactGroup], list[CompactGroup]]:
    """Return the groups that the bytes of a run are enough for, and those left to another run.

    `chosen` are among the former. A conversion counts with the bytes that it reads.
    """
    groups, left = list(chosen), list[CompactGroup]()
    if options.max_bytes is None:
        return [*groups, *more], left
    remaining_bytes = options.max_bytes - sum(group.input_bytes for group in groups)
    for group in more:
        if group.input_bytes <= remaining_bytes:
            groups.append(group)
            remaining_bytes -= group.input_bytes
        else:
            left.append(group)
    return groups, left


def conversion_group(
    number: int,
    draft: ConversionDraft,
    metadata: TableMetadata,
    files: LiveFiles,
    stated: Mapping[str, StatedFile],
    ever: Schema,
) -> CompactGroup:
    """Return a group of equality deletes with its tasks; `ever` as planned_tasks has it."""
    blank = ConvertTask(f"{number}-0", number, (), ())
    tasks, plan = planned_tasks(files, draft, blank, stated, ever)
    keys = list(by_row(take(files.data, draft.files), "spec_id", "partition_key"))
    is_one = len(set(keys)) == 1
    is_vectors = metadata.format_version >= VECTORS_FROM
    read = sum(len(task.inputs) for task in tasks)
    return CompactGroup(
        number=number,
        spec_id=keys[0][0] if is_one else metadata.default_spec_id,
        partition_key=keys[0][1] if is_one else None,
        files=draft.files,
        tasks=tasks,
        reason=f"{print_count(plan.key_count, 'key')} of equality deletes, to look up in "
        f"{read:,} of {print_count(len(draft.files), 'data file')}",
        input_files=len(draft.deletes),
        input_bytes=sum(task.read_bytes for task in tasks),
        input_rows=plan.key_count,
        expected_files=1 if is_vectors else len(draft.files),
        expected_bytes=sum(file.size_bytes for file in draft.deletes),
        conversion=plan,
        makes_vectors=is_vectors,
    )
