"""Which data files of a snapshot are rewritten, and into what: pure.

Candidates are judged as the reference implementation does, by size, by deletes and by how many
there are; `groups_plan` puts them together.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import Self

import numpy as np

from icectl.checks.file_identity import StatedFile
from icectl.commands.compact.clustering import Clustering, clustering_of, new_files
from icectl.commands.compact.equality_plan import are_few_deleted, convertible
from icectl.commands.compact.groups_plan import (
    CompactGroup,
    GroupDraft,
    Grouping,
    conversion_group,
    within_budget,
)
from icectl.commands.compact.plan_options import CompactOptions
from icectl.commands.steps import OVER_BUDGET
from icectl.entries.columns import Integers, Mask
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
from icectl.entries.rows import Entries, numbers, take
from icectl.errors import Unsupported, UsageError
from icectl.format.file_names import marked_end
from icectl.format.metadata import TableMetadata
from icectl.format.partition import PartitionSpec, result_types
from icectl.format.snapshot import Snapshot
from icectl.format.types import Type
from icectl.table.live_files import LiveFiles, check_deletes, every_column
from icectl.table.mergeable import mergeable
from icectl.table.reviewed import REMOVE_DELETE_FILE, REWRITE_FILE
from icectl.table.rewrite_tasks import TaskMaker

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
    def marks(self) -> Mapping[int, str]:
        """The mark of new files by the numbers of groups, with that of groups in the partition.

        A limit that has left nothing to other runs is none.
        """
        options = self.options
        left = np.isin(self.verdicts, (FileVerdict.LATER, FileVerdict.OVER_BUDGET))
        is_limited = options.where is not None or options.only is not None or bool(left.any())
        mark = options.marks[is_limited]
        # A group whose rows are all deleted becomes no file, nor does one that converts deletes.
        counts = Counter(
            group.partition_key
            for group in self.groups
            if group.expected_bytes and not group.keeps_files
        )
        return {
            group.number: mark
            if options.order is None or group.partition_key is None
            else f"g{counts[group.partition_key]}-{mark}"
            for group in self.groups
        }

    @property
    def has_work(self) -> bool:
        """Whether a run would change anything."""
        return bool(self.groups or self.dangling)


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
    spec, types = _output_spec(metadata, options)
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
    layout, is_new = Clustering(), everything(files.data)
    if options.order is not None and not options.every:
        read = np.flatnonzero(is_read & of_specs(files.data, [spec.spec_id]))
        stays = ~may_leave(files.data, read, spec, types, metadata.current_schema)
        rows, schema, made = read[stays], metadata.current_schema, seen | parted
        is_new[rows] = new_files(files.data, rows, seen, numbers(files.data, "sequence_number"))
        layout = clustering_of(
            files.data, rows, options.order, schema, made, is_new,
            options.min_depth, options.sort_ratio,
        )  # fmt: skip
        overlapping = np.fromiter(layout.overlap_of, np.int64)
        is_fine = verdicts[overlapping] == FileVerdict.FINE
        verdicts[overlapping[is_fine]] = FileVerdict.OVERLAPPING
    planning = Grouping(
        files,
        options,
        verdicts,
        stored=stored,
        kept=stored if options.method == "merge" else live_bytes(files.matches, stored),
        as_made=as_made,
        is_new=is_new,
        layout=layout,
        mergeable=mergeable(
            files, verdicts, options.output_spec_id, metadata.format_version, options.sizes
        ),
    )
    drafts = _drafts(planning, metadata, spec, types)
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


def _output_spec(
    metadata: TableMetadata, options: CompactOptions
) -> tuple[PartitionSpec, Sequence[Type | None]]:
    """Return the spec of new files, and the types of its fields. Raises: as choose."""
    spec = metadata.spec(options.output_spec_id)
    if spec is None:
        message = f"the table has no partition spec {options.output_spec_id}"
        raise UsageError(message, hint="`icectl inspect TABLE specs` lists them")
    types = result_types(spec, metadata.schemas)
    if None in types:
        message = f"partition spec {spec.spec_id} has a transform or a column that is not known"
        raise Unsupported(message, hint="choose another spec with `--output-spec-id`")
    opaque = {item.expr_id for item in metadata.expressions if item.is_opaque}
    if any(item.expr_id in opaque for item in spec.fields):  # sfc-1 X6
        message = f"nothing new is written with partition spec {spec.spec_id}"
        message += ": a transform can't be computed"
        hint = "choose another spec with `--output-spec-id`"
        raise Unsupported(message, rule="V4-015", hint=hint)  # V4-015
    return spec, types


def _drafts(
    planning: Grouping,
    metadata: TableMetadata,
    spec: PartitionSpec,
    types: Sequence[Type | None],
) -> list[GroupDraft]:
    """Return the groups of the files that are to be rewritten, partition by partition."""
    files, options = planning.files, planning.options
    # Without partitions it is known where rows of other specs come to.
    others = (
        encode_key(types, [None] * len(types))
        if options.output_spec_id in files.unpartitioned_spec_ids
        else None
    )
    picked = chosen(planning.verdicts)
    in_output_spec = of_specs(files.data, [spec.spec_id])[picked]
    in_output_spec &= ~may_leave(files.data, picked, spec, types, metadata.current_schema)
    partitions = by_partition(files.data, picked, in_output_spec, types, others)
    drafts = [draft for key, rows in partitions for draft in planning.drafts(key, rows.tolist())]
    moves = options.repartition and others is None
    return [planning.moving(draft) for draft in drafts] if moves else drafts


@dataclass(frozen=True)
class ChosenFiles:
    """The data files that are rewritten, group by group, and equality deletes to convert then.

    `smallest_bytes` are those of the smallest group, if the bytes of a run are limited.
    `converted` tells which of the delete files are converted.
    """

    metadata: TableMetadata
    planning: Grouping
    drafts: tuple[GroupDraft, ...]
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

    def conversions(self, stated: Mapping[str, StatedFile]) -> list[CompactGroup]:
        """Return the groups of equality deletes to convert, whatever the bytes of a run."""
        if self.converted is None:
            return []
        ever, count = every_column(self.metadata), len(self.drafts)
        drafts = self.planning.conversions(self.converted, self.rows.tolist(), count)
        return [
            conversion_group(number, draft, self.metadata, self.planning.files, stated, ever)
            for number, draft in enumerate(drafts, count)
        ]

    def planned(
        self, branch: Branch, stated: Mapping[str, StatedFile] | None = None
    ) -> CompactPlan:
        """Return the plan, conversions last.

        `stated` is what entries state of equality deletes, and of the files that these apply to.
        """
        conversions = self.conversions(stated or {})
        sooner = self._beside(conversions)
        if sooner is not None:
            converted = sooner.conversions(stated or {})  # of files, too, that stay then
            most = self.planning.options.max_bytes
            if sooner.stored_bytes + sum(group.input_bytes for group in converted) <= (most or 0):
                return sooner.planned_with(branch, converted)
        return self.planned_with(branch, conversions)

    def _beside(self, conversions: Sequence[CompactGroup]) -> Self | None:
        """Return the groups of files that a run's bytes have room for beside conversions.

        None if all have room, or if these save fewer files for their bytes.
        """
        options, planning = self.planning.options, self.planning
        size, stored = sum(group.input_bytes for group in conversions), self.stored_bytes
        if options.max_bytes is None or size + stored <= options.max_bytes:
            return None
        deletes = sum(group.input_files for group in conversions)
        if deletes * stored <= max(len(self.rows) - self.expected_files, 0) * size:
            return None
        room = replace(options, max_bytes=options.max_bytes - size)
        planning = replace(planning, verdicts=planning.verdicts.copy(), options=room)
        drafts = planning.within_limits(self.drafts)
        planning = replace(planning, options=options)
        return replace(self, planning=planning, drafts=tuple(drafts))

    def planned_with(self, branch: Branch, conversions: Sequence[CompactGroup]) -> CompactPlan:
        """Return the plan, with as many conversions as a run's bytes have room for."""
        planning, files, options = self.planning, self.planning.files, self.planning.options
        make = TaskMaker(files.data, files.deletes, files.index, self.rows.tolist())
        groups = [
            planning.group(number, draft, make, branch.sequence_number)
            for number, draft in enumerate(self.drafts)
        ]
        left: list[CompactGroup] = []
        if self.converted is not None:
            groups, left = within_budget(options, groups, conversions)
            for group in left:
                planning.leave(group.files, FileVerdict.OVER_BUDGET)
        odd = take(files.data, [*planning.odd]).table
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
            dict(zip(odd["location"].to_pylist(), planning.odd.values(), strict=True)),
            unread=files.unread_file_count,
            settled=files.settled,
            saved_depth=self.saved_depth,
        )


def selected_files(metadata: TableMetadata, files: LiveFiles, options: CompactOptions) -> Mask:
    """Return whether `--where`, and a plan that was reviewed, select each data file."""
    mask = everything(files.data)
    if options.where is not None:
        mask = may_match(files.data, options.where, metadata.partition_specs, metadata.schemas)
    if options.only is not None:
        mask = mask & at_locations(files.data, options.only.subjects(REWRITE_FILE))
    return mask


def are_settled(data: Entries, options: CompactOptions) -> Mask:
    """Return whether data files of known specs stay if no deletes apply, whatever else there is."""
    matches = match(data, ())
    verdicts = judge(matches, _limits(options), everything(data), delete_counts(matches))
    return np.equal(verdicts, FileVerdict.FINE)


def _limits(options: CompactOptions) -> FileLimits:
    return FileLimits(
        options.sizes.smallest,
        options.sizes.largest,
        options.min_delete_files,
        options.min_delete_ratio,
        options.every,
    )


def dangling_of(files: LiveFiles, options: CompactOptions) -> tuple[int, ...]:
    """Return the rows of the live delete files that apply to nothing, and may go."""
    rows = tuple(files.dangling.tolist())
    if options.only is None:
        return rows
    named = at_locations(files.deletes, options.only.subjects(REMOVE_DELETE_FILE))
    return tuple(row for row in rows if named[row])
