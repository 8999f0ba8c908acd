"""Which data files of a snapshot are rewritten, and into what: pure.

Candidates are judged as the reference implementation's bin packing does, partition by partition:
by size, by deletes, by how many there are. Beyond that a file is left alone where it would only be
copied, so that what a run has made is left alone by the next.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, pairwise
from typing import Literal

import numpy as np

from icectl.checks.file_identity import StatedFile
from icectl.commands.compact.clustering import (
    MIN_DEPTH,
    SORT_RATIO,
    Clustering,
    Made,
    clustering_of,
    within,
)
from icectl.commands.compact.equality_plan import (
    ConversionDraft,
    ConversionPlan,
    are_few_deleted,
    conversion_drafts,
    convertible,
    planned_tasks,
)
from icectl.commands.steps import OVER_BUDGET
from icectl.entries.columns import Integers, Mask
from icectl.entries.conditions import Predicate
from icectl.entries.deletes import (
    applying_to,
    count_among,
    delete_counts,
    equality_delete_counts,
    match,
)
from icectl.entries.file_verdicts import (
    DELETES,
    FileLimits,
    FileVerdict,
    Verdicts,
    are_readable,
    at_locations,
    by_partition,
    chosen,
    count_verdicts,
    everything,
    judge,
    live_bytes,
    of_names_ending,
    of_specs,
)
from icectl.entries.may_match import may_match
from icectl.entries.orc_seconds import may_leave
from icectl.entries.partition_key import encode_key
from icectl.entries.rows import Entries, by_row, numbers, take
from icectl.errors import Unsupported, UsageError
from icectl.files.parquet.alike import DecodedColumns
from icectl.format.file_names import mark_of, marked_end
from icectl.format.metadata import TableMetadata
from icectl.format.partition import result_types
from icectl.format.schema import Schema
from icectl.format.snapshot import Snapshot
from icectl.rows.sort_rows import RowOrder, order_key
from icectl.table.live_files import LiveFiles, check_deletes, every_column
from icectl.table.mergeable import (
    MERGE_ROW_GROUP_BYTES,
    Mergeable,
    MethodChoice,
    choose_method,
    mergeable,
)
from icectl.table.output_sizes import Sizes, pack
from icectl.table.reviewed import REMOVE_DELETE_FILE, REWRITE_FILE, Reviewed
from icectl.table.rewrite_tasks import (
    Bin,
    ConvertTask,
    MergeDeletesTask,
    Method,
    RewriteTask,
    Task,
    TaskMaker,
    split_bins,
)
from icectl.units import print_count, print_size

JobOrder = Literal["none", "bytes-asc", "bytes-desc", "files-asc", "files-desc"]

MIN_INPUT_FILES = 5
MAX_GROUP_BYTES = 100 * 2**30
MIN_DELETE_RATIO = 0.3
MIN_DELETE_FILES = 5
REWRITE = MethodChoice("rewrite", "asked for")
REPARTITION = MethodChoice("rewrite", "rows move to the partitions of their values")


VECTORS_FROM = 3
"""The first format version with deletion vectors, which has no new position delete files."""

_LOOKED_INTO = (
    FileVerdict.FINE,
    FileVerdict.TOO_FEW,
    FileVerdict.NO_GAIN,
    FileVerdict.AS_MADE,
    FileVerdict.NOT_MERGEABLE,
)
"""Verdicts on data files that no run rewrites, with whose deletes something is to be done."""


LEFT_ALONE: Mapping[FileVerdict, str] = {
    FileVerdict.NOT_SELECTED: "not selected by `--where`",
    FileVerdict.UNREADABLE: "unknown file format or partition spec",
    FileVerdict.FINE: "good size, few deletes",
    FileVerdict.TOO_FEW: "too few small files in the partition",
    FileVerdict.NO_GAIN: "already of a good size",
    FileVerdict.LATER: "left to another run by `--max-groups`",
    FileVerdict.OVER_BUDGET: OVER_BUDGET,
    FileVerdict.MERGED: "deletes already merged",
    FileVerdict.NO_DELETES: "no deletes",
    FileVerdict.AS_MADE: "already compacted to this size",
    FileVerdict.NOT_MERGEABLE: "cannot be merged without decoding",
}
"""Why a data file is left alone."""

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
class CompactOptions:
    """The options of a compaction; where rows get an `order`, each group is rewritten as a whole.

    Files are sorted together, too, where `min_depth` or more overlap in the order, with newer ones
    of which they have at most `sort_ratio` times the rows.
    `deletes_only` converts equality deletes, unless it `keeps_equality_deletes`, and merges the
    deletes of data files, which stay; conversions are cut into about as many `steps`. Otherwise
    those that delete few rows are converted, unless it never `converts`. With `repartition` the
    rows of rewritten files move to the partitions of their values. Of all groups those are taken
    that `max_bytes` are enough for, in their order. No other files are rewritten than a plan names
    that was reviewed, where there is one (`only`).
    """

    sizes: Sizes
    output_spec_id: int
    order: RowOrder | None = None
    where: Predicate | None = None
    min_input_files: int = MIN_INPUT_FILES
    max_group_bytes: int = MAX_GROUP_BYTES
    min_delete_ratio: float = MIN_DELETE_RATIO
    min_delete_files: int | None = None
    every: bool = False
    max_groups: int | None = None
    max_bytes: int | None = None
    min_depth: int = MIN_DEPTH
    sort_ratio: int = SORT_RATIO
    job_order: JobOrder = "none"
    deletes_only: bool = False
    keeps_equality_deletes: bool = False
    converts: bool = True
    steps: int = 1
    only: Reviewed | None = None
    method: Method = "rewrite"
    repartition: bool = False
    merge_row_group: int = MERGE_ROW_GROUP_BYTES
    verifies_rows: bool = False

    @property
    def marks(self) -> tuple[str, str]:
        """What is in the names of new files, by which those of these options are known again.

        The second is that of runs that leave files to others; both are one without an order.
        """
        bounds = f"{self.sizes.smallest}..{self.sizes.target}..{self.sizes.largest}"
        text = f"bytes={bounds} files={self.min_input_files} spec={self.output_spec_id}"
        if self.order is None:
            return mark_of(text), mark_of(text)
        text = f"{text} {order_key(self.order)}"
        return mark_of(text), mark_of(f"{text} limited")


@dataclass(frozen=True, slots=True)
class Branch:
    """A branch and its head as they are planned with."""

    name: str
    snapshot: Snapshot | None

    @property
    def sequence_number(self) -> int:
        """The data sequence number that rewritten files carry (R-045)."""
        return 0 if self.snapshot is None else self.snapshot.sequence_number


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


@dataclass(frozen=True, slots=True)
class CompactPlan:
    """One compaction of a branch.

    `verdicts` has one for each live data file; `dangling` are rows of the live delete files that
    apply to nothing. `smallest_bytes` is the size of the smallest group, where none is within the
    budget of the run. `odd` says of files that stay why they can't be merged, by location. So many
    files are `unread`, in manifests of which the condition selects no file. So many are `settled`:
    they have a good size and no deletes, and no verdict. A look-up by the order opens `saved_depth`
    fewer files.
    """

    branch: Branch
    options: CompactOptions
    groups: tuple[CompactGroup, ...]
    verdicts: Verdicts
    dangling: tuple[int, ...]
    smallest_bytes: int | None = None
    odd: Mapping[str, str] = field(default_factory=dict)
    unread: int = 0
    settled: int = 0
    saved_depth: float = 0.0

    @property
    def left_alone(self) -> Mapping[str, int]:
        """The number of data files that are left alone, by reason."""
        counts = Counter(count_verdicts(self.verdicts))
        counts[FileVerdict.NOT_SELECTED] += self.unread
        counts[FileVerdict.FINE] += self.settled
        return {LEFT_ALONE[reason]: counts[reason] for reason in LEFT_ALONE if counts[reason]}

    @property
    def mark(self) -> str:
        """The mark of new files. A limit that has left nothing to other runs is none."""
        options = self.options
        left = np.isin(self.verdicts, (FileVerdict.LATER, FileVerdict.OVER_BUDGET))
        is_limited = options.where is not None or options.only is not None or bool(left.any())
        return options.marks[is_limited]

    @property
    def has_work(self) -> bool:
        """Whether a run would change anything."""
        return bool(self.groups or self.dangling)


@dataclass(frozen=True)
class _Draft:
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


def plan(
    metadata: TableMetadata, branch: Branch, files: LiveFiles, options: CompactOptions
) -> CompactPlan:
    """Decide what of a snapshot's data files is rewritten.

    Raises: as choose; Unsupported, where readers may disagree on which rows are deleted.
    """
    selection = choose(metadata, files, options)
    selection.check()
    return selection.planned(branch)


def choose(metadata: TableMetadata, files: LiveFiles, options: CompactOptions) -> "ChosenFiles":
    """Choose the data files of each group; tasks, which name each file, are not made.

    Raises: UsageError for a spec that there is not; Unsupported, where the spec has a transform
    that icectl does not know; CorruptTable.
    """
    spec = metadata.spec(options.output_spec_id)
    if spec is None:
        message = f"the table has no partition spec {options.output_spec_id}"
        raise UsageError(message, hint="`icectl inspect TABLE specs` lists them")
    types = result_types(spec, metadata.schemas)
    if None in types:
        message = f"partition spec {spec.spec_id} has a transform or a column that is not known"
        raise Unsupported(message, hint="`--output-spec-id` names another spec")
    opaque = {item.expr_id for item in metadata.expressions if item.is_opaque}
    if any(item.expr_id in opaque for item in spec.fields):  # sfc-1 X6
        message = (
            f"nothing new is written with partition spec {spec.spec_id}: a transform can't be "
        )
        message += "computed"
        hint = "`--output-spec-id` names another spec"
        raise Unsupported(message, rule="V4-015", hint=hint)  # V4-015
    selected = selected_files(metadata, files, options)
    is_read = selected & of_specs(files.data, files.known_spec_ids) & are_readable(files.data)
    counts = delete_counts(files.matches)
    are_few = np.zeros(len(files.data), np.bool_)
    if options.converts and options.where is None:  # with it, not all files are read
        are_few = are_few_deleted(files, is_read, options.min_delete_ratio)
    of_files = np.where(are_few, counts - equality_delete_counts(files.matches), counts)
    verdicts = judge(files.matches, _limits(options), selected, of_files)
    verdicts[~of_specs(files.data, files.known_spec_ids)] = FileVerdict.UNREADABLE
    stored = numbers(files.data, "file_size_in_bytes")
    seen, parted = (of_names_ending(files.data, marked_end(mark)) for mark in options.marks)
    as_made = (seen | parted) & (not options.every)
    for reason in DELETES:
        as_made[verdicts == reason] = False
    layout = Clustering()
    if options.order is not None and not options.every:
        read = np.flatnonzero(is_read & of_specs(files.data, [spec.spec_id]))
        stays = ~may_leave(files.data, read, spec, types, metadata.current_schema)
        numbered = metadata.format_version > 1
        made = Made(seen, parted, numbers(files.data, "sequence_number") if numbered else None)
        rows, schema = read[stays], metadata.current_schema
        limits = options.min_depth, options.sort_ratio
        layout = clustering_of(files.data, rows, options.order, schema, stored, made, *limits)
        overlapping = np.fromiter(layout.overlap_of, np.int64)
        is_fine = verdicts[overlapping] == FileVerdict.FINE
        verdicts[overlapping[is_fine]] = FileVerdict.OVERLAPPING
    planning = _Planning(
        files,
        options,
        verdicts,
        stored=stored,
        live=live_bytes(files.matches, stored),
        as_made=as_made,
        layout=layout,
        mergeable=mergeable(
            files, verdicts, options.output_spec_id, metadata.format_version, options.sizes
        ),
    )
    # Without partitions it is known where rows of other specs come to.
    others = (
        encode_key(types, [None] * len(types))
        if options.output_spec_id in files.unpartitioned_spec_ids
        else None
    )
    picked = chosen(verdicts)
    in_output_spec = of_specs(files.data, [spec.spec_id])[picked]
    in_output_spec &= ~may_leave(files.data, picked, spec, types, metadata.current_schema)
    partitions = by_partition(files.data, picked, in_output_spec, types, others)
    drafts = [draft for key, rows in partitions for draft in planning.drafts(key, rows.tolist())]
    if options.repartition and others is None:
        drafts = [planning.moving(draft) for draft in drafts]
    smallest: int | None = None
    if options.max_bytes is not None:
        smallest = min((planning.stored_bytes(draft.files) for draft in drafts), default=0)
    drafts = planning.within_limits(planning.ordered(drafts))
    found = ChosenFiles(metadata, planning, tuple(drafts), smallest)
    if options.min_delete_files is None:
        return found
    due = are_few & (counts >= options.min_delete_files) & np.isin(verdicts, _LOOKED_INTO)
    if len(drafts) == options.max_groups:
        planning.leave(np.flatnonzero(due).tolist(), FileVerdict.LATER)
        return found
    return replace(found, converted=convertible(files, is_read) & applying_to(files.matches, due))


def _limits(options: CompactOptions) -> FileLimits:
    return FileLimits(
        options.sizes.smallest,
        options.sizes.largest,
        options.min_delete_files,
        options.min_delete_ratio,
        options.every,
    )


def are_settled(data: Entries, options: CompactOptions) -> Mask:
    """Return whether data files of known specs stay if no deletes apply, whatever else there is."""
    matches = match(data, ())
    verdicts = judge(matches, _limits(options), everything(data), delete_counts(matches))
    return np.equal(verdicts, FileVerdict.FINE)


def selected_files(metadata: TableMetadata, files: LiveFiles, options: CompactOptions) -> Mask:
    """Return whether `--where`, and a plan that was reviewed, select each data file."""
    mask = everything(files.data)
    if options.where is not None:
        mask = may_match(files.data, options.where, metadata.partition_specs, metadata.schemas)
    if options.only is not None:
        mask = mask & at_locations(files.data, options.only.subjects(REWRITE_FILE))
    return mask


def dangling_of(files: LiveFiles, options: CompactOptions) -> tuple[int, ...]:
    """Return the rows of the live delete files that apply to nothing, and may go."""
    rows = tuple(files.dangling.tolist())
    if options.only is None:
        return rows
    named = at_locations(files.deletes, options.only.subjects(REMOVE_DELETE_FILE))
    return tuple(row for row in rows if named[row])


@dataclass(frozen=True)
class ChosenFiles:
    """The data files that are rewritten, group by group, and equality deletes to convert then.

    `smallest_bytes` are those of the smallest group, if the bytes of a run are limited.
    `converted` tells which of the delete files are converted.
    """

    metadata: TableMetadata
    planning: "_Planning"
    drafts: tuple[_Draft, ...]
    smallest_bytes: int | None
    converted: Mask | None = None

    @property
    def converted_rows(self) -> Integers:
        """The rows of the delete files to convert."""
        none = np.empty(0, np.int64)
        return none if self.converted is None else np.flatnonzero(self.converted)

    @cached_property
    def rows(self) -> Integers:
        """The rows of the data files of all groups."""
        files = chain.from_iterable(draft.files for draft in self.drafts)
        return np.fromiter(files, np.int64)

    @property
    def expected_files(self) -> int:
        """The number of files that they become, as is estimated."""
        sizes = self.planning.options.sizes
        bins = (bin_ for draft in self.drafts for bin_ in draft.bins)
        return sum(sizes.parts(bin_.expected_bytes) for bin_ in bins)

    @property
    def expected_bytes(self) -> int:
        """The bytes of these files, as is estimated: those of the rows that are not deleted."""
        return sum(bin_.expected_bytes for draft in self.drafts for bin_ in draft.bins)

    @property
    def stored_bytes(self) -> int:
        """The bytes of the data files of all groups, as stored."""
        return int(self.planning.stored[self.rows].sum())

    @property
    def saved_depth(self) -> float:
        """How many fewer files hold the value of a row, on average, once groups are sorted."""
        layout, stored = self.planning.layout, self.planning.stored
        overlapping = np.fromiter(layout.overlap_of, np.int64)
        if layout.average_depth is None or layout.depth_after is None or not len(overlapping):
            return 0.0
        part = stored[np.intersect1d(overlapping, self.rows)].sum() / max(
            stored[overlapping].sum(), 1
        )
        return float(part * (layout.average_depth - layout.depth_after))

    @property
    def decoded_bytes(self) -> int:
        """The bytes of groups whose rows are decoded for sure, as stored."""
        decoded = (draft for draft in self.drafts if draft.choice.method == "rewrite")
        return sum(self.planning.stored_bytes(draft.files) for draft in decoded)

    def count(self, *reasons: FileVerdict) -> int:
        """Return how many files are rewritten for some reasons."""
        return int(np.isin(self.planning.verdicts[self.rows], reasons).sum())

    def check(self) -> None:
        """Check that the files may be rewritten. Raises: Unsupported; CorruptTable R-114."""
        rows = self.rows
        if self.converted is not None:
            counts = count_among(self.planning.files.matches, self.converted)
            rows = np.union1d(rows, np.flatnonzero(counts))
        check_deletes(self.planning.files, rows)

    def planned(
        self, branch: Branch, stated: Mapping[str, StatedFile] | None = None
    ) -> CompactPlan:
        """Return the plan, conversions last.

        `stated` is what entries state of equality deletes, and of the files that these apply to.
        """
        planning, files, options = self.planning, self.planning.files, self.planning.options
        make = TaskMaker(files.data, files.deletes, files.index, self.rows.tolist())
        groups = [
            planning.group(number, draft, make, branch.sequence_number)
            for number, draft in enumerate(self.drafts)
        ]
        left: list[CompactGroup] = []
        if self.converted is not None:
            ever = every_column(self.metadata)
            drafts = planning.conversions(self.converted, self.rows.tolist(), len(groups))
            conversions = [
                conversion_group(number, draft, self.metadata, files, stated or {}, ever)
                for number, draft in enumerate(drafts, len(groups))
            ]
            groups, left = within_budget(options, groups, conversions)
            for group in left:
                planning.leave(group.files, FileVerdict.OVER_BUDGET)
        sizes = [group.input_bytes for group in left]
        if self.smallest_bytes is not None and self.smallest_bytes > (options.max_bytes or 0):
            sizes.append(self.smallest_bytes)
        return CompactPlan(
            branch,
            options,
            tuple(groups),
            planning.verdicts,
            dangling_of(files, options),
            None if groups else min(sizes, default=None),
            unread=files.unread_file_count,
            settled=files.settled,
            saved_depth=self.saved_depth,
        )


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


@dataclass(frozen=True, slots=True)
class _Planning:
    """The planning of groups: the files with rows, and bytes, stored and without deleted rows.

    `verdicts` are changed where a candidate is left alone after all; `as_made` tells files that
    are only rewritten together with others. `layout` is that in the order of rows.
    """

    files: LiveFiles
    options: CompactOptions
    verdicts: Verdicts
    stored: Integers
    live: Integers
    as_made: Mask
    layout: Clustering
    mergeable: Mergeable

    def leave(self, rows: Sequence[int], verdict: FileVerdict) -> None:
        """Note why candidates are left alone."""
        self.verdicts[list(rows)] = verdict
        if verdict not in (FileVerdict.LATER, FileVerdict.OVER_BUDGET):
            self.verdicts[[row for row in rows if self.as_made[row]]] = FileVerdict.AS_MADE

    def drafts(self, key: bytes | None, rows: list[int]) -> list[_Draft]:
        """Return the groups of one partition, or of all files whose rows come to any."""
        if key is None or self.options.order is not None:
            if self.options.method == "merge":
                self.leave(rows, FileVerdict.NOT_MERGEABLE)
                return []
            choice = REWRITE
            if self.options.method == "auto":
                why = "move to another partition" if key is None else "are to be sorted"
                choice = MethodChoice("rewrite", f"rows of it {why}")
            whole = self._whole_drafts(key, rows) if key is None else self._sorted(key, rows)
            return [replace(draft, choice=choice) for draft in whole]
        if not self._is_worth_it(rows):
            self.leave(rows, FileVerdict.TOO_FEW)
            return []
        others = self._others(rows)
        if len(others) < len(rows) and all(map(self._only_copies, self._bins(others))):
            self.leave(rows, FileVerdict.NO_GAIN)
            return []
        drafts: list[_Draft] = []
        for bins in self._bins(rows):
            if self._only_copies(bins):
                self.leave(bins[0].files, FileVerdict.NO_GAIN)
            else:
                drafts.append(_Draft(key, bins, self._choice(bins)))
        merging = [draft for draft in drafts if draft.choice.method != "rewrite"]
        rewriting = [draft for draft in drafts if draft.choice.method == "rewrite"]
        if self.options.method == "merge":
            for draft in rewriting:
                self.leave(draft.files, FileVerdict.NOT_MERGEABLE)
            rewriting = []
        return self._pack(merging) + self._pack(rewriting)

    def moving(self, draft: _Draft) -> _Draft:
        """Return a draft whose rows move one by one, in tasks that read whole files."""
        bins = {bin_.files: self._bin(np.array(bin_.files, np.int64)) for bin_ in draft.bins}
        return _Draft(None, tuple(bins.values()), REPARTITION)

    def _choice(self, bins: tuple[Bin, ...]) -> MethodChoice:
        """Return the method for the files of some bins."""
        options = self.options
        if options.method == "rewrite":
            return REWRITE
        if options.method == "auto" and options.every:
            return MethodChoice("rewrite", "requested by --rewrite-all")
        return choose_method(options.method, self.mergeable, bins, options.merge_row_group)

    def _pack(self, drafts: Sequence[_Draft]) -> list[_Draft]:
        """Return drafts of a partition as groups, up to the largest size of a group."""
        weights = [self.stored_bytes(draft.files) for draft in drafts]
        return [
            replace(drafts[group[0]], bins=tuple(bin_ for at in group for bin_ in drafts[at].bins))
            for group in pack(weights, self.options.max_group_bytes, lookback=1)
        ]

    def _whole_drafts(self, key: bytes | None, rows: list[int]) -> list[_Draft]:
        """Return groups of one task each, which sorts rows or splits them by partition."""
        packed = pack(self.stored[rows].tolist(), self.options.max_group_bytes, lookback=1)
        groups = [[rows[at] for at in group] for group in packed]
        drafts, rest = [], []
        for group in groups:
            if self._is_worth_it(group):
                drafts.append(_Draft(key, (self._bin(np.array(group, np.int64)),)))
            else:
                rest += group
        if not drafts:
            self.leave(rest, FileVerdict.TOO_FEW)
            return []
        # Those that lie apart may be worth it together.
        return drafts + (self._whole_drafts(key, rest) if rest else [])

    def _sorted(self, key: bytes | None, rows: list[int]) -> list[_Draft]:
        """Return groups of files that overlap, and of others that lie side by side."""
        overlaps, overlap_of = self.layout.overlaps, self.layout.overlap_of
        drafts = [
            _Draft(key, (self._bin(np.array(group, np.int64)),))
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

        What a compaction to the same sizes has made is no reason.
        """
        rows = self._others(rows)
        if not rows:
            return False
        if self.options.every or self.verdicts[rows].max() >= min(DELETES):
            return True
        size = self.stored_bytes(rows)
        enough = len(rows) >= self.options.min_input_files or size > self.options.sizes.target
        return (len(rows) > 1 and enough) or size > self.options.sizes.largest

    def _bins(self, rows: Sequence[int]) -> list[tuple[Bin, ...]]:
        """Return bins of one partition; bins that share a file are adjacent."""
        sizes, places = self.options.sizes, np.array(rows, np.int64)
        is_large = self.live[places] > sizes.roll
        large, others = places[is_large].tolist(), places[~is_large]
        bins = [split_bins(self.files.data, row, int(self.live[row]), sizes) for row in large]
        merged = sizes.bins(self.live[others].tolist()) if len(others) else []
        return bins + [(self._bin(others[bin_]),) for bin_ in merged]

    def _bin(self, rows: Integers) -> Bin:
        return Bin(tuple(rows.tolist()), None, int(self.live[rows].sum()))

    def _only_copies(self, bins: tuple[Bin, ...]) -> bool:
        """Return whether one file would become one file with nearly all of its rows."""
        first, *others = bins
        if self.options.every or others or len(first.files) > 1:
            return False
        few_deletes = self.verdicts[first.files[0]] not in DELETES
        return few_deletes and first.expected_bytes <= self.options.sizes.roll

    def ordered(self, drafts: list[_Draft]) -> list[_Draft]:
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

    def within_limits(self, drafts: Sequence[_Draft]) -> list[_Draft]:
        """Return the groups that this run may rewrite; the others are left to another one."""
        options = self.options
        most_groups = len(drafts) if options.max_groups is None else options.max_groups
        taken: list[_Draft] = []
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
        self, number: int, draft: _Draft, make: TaskMaker, sequence_number: int
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
