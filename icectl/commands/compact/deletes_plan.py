"""Which deletes of a snapshot are converted or merged, data file by data file: pure.

Up to version 2 the position deletes of a data file become one file that is about no other data
file. From version 3 on they become a deletion vector, and vectors of many small files move into few
large ones. Equality deletes become one or the other. What a run has made is left alone by the next.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from icectl.checks.file_identity import StatedFile
from icectl.commands.compact.equality_plan import ConversionDraft, conversion_drafts, convertible
from icectl.commands.compact.groups_plan import (
    VECTORS_FROM,
    CompactGroup,
    conversion_group,
    within_budget,
)
from icectl.commands.compact.plan import Branch, CompactPlan, dangling_of, selected_files
from icectl.commands.compact.plan_options import CompactOptions
from icectl.entries.deletes import Applied, delete_counts
from icectl.entries.file_verdicts import FileVerdict, Verdicts, at_locations, of_specs, same_verdict
from icectl.entries.rows import by_row
from icectl.format.metadata import TableMetadata
from icectl.table.live_files import LiveFiles, check_deletes, every_column
from icectl.table.output_sizes import pack
from icectl.table.reviewed import REWRITE_FILE
from icectl.table.rewrite_tasks import MergeDeletesTask, TaskMaker
from icectl.units import print_count

_SEVERAL = 2


def plan_deletes(
    metadata: TableMetadata,
    branch: Branch,
    files: LiveFiles,
    options: CompactOptions,
    stated: Mapping[str, StatedFile],
) -> CompactPlan:
    """Decide which deletes of a snapshot become deletes by position, and which are merged.

    `options.sizes` are those of delete files and of Puffin files. `stated` is what entries state of
    equality deletes, and of the data files that these apply to.
    Raises: Unsupported, where readers may disagree on which rows are deleted.
    """
    verdicts = same_verdict(files.data, FileVerdict.MERGED)
    verdicts[delete_counts(files.matches) == 0] = FileVerdict.NO_DELETES
    verdicts[~selected_files(metadata, files, replace(options, only=None))] = (
        FileVerdict.NOT_SELECTED
    )
    if options.only is not None:  # what needs nothing is told of as in the plan
        named = at_locations(files.data, options.only.subjects(REWRITE_FILE))
        verdicts[(verdicts == FileVerdict.MERGED) & ~named] = FileVerdict.NOT_SELECTED
    verdicts[~of_specs(files.data, files.known_spec_ids)] = FileVerdict.UNREADABLE
    planning = _Planning(metadata, files, options, verdicts)
    is_read = planning.verdicts == FileVerdict.MERGED
    conversions: list[ConversionDraft] = []
    if not options.keeps_equality_deletes:
        conversions = conversion_drafts(files, convertible(files, is_read), options.steps)
    affected = sorted({row for draft in conversions for row in draft.files})
    has_vectors = metadata.format_version >= VECTORS_FROM
    merge = planning.to_vectors if has_vectors else planning.to_files
    conversions, merges = merge(conversions, frozenset(affected))
    planning.leave(affected, FileVerdict.OF_EQUALITY_DELETES)
    drafts: list[ConversionDraft | _Draft] = [*conversions, *merges]
    if options.max_groups is not None:
        for draft in drafts[options.max_groups :]:
            planning.leave(draft.files, FileVerdict.LATER)
    drafts = drafts[: options.max_groups]
    rows = list(dict.fromkeys(row for draft in drafts for row in draft.files))
    check_deletes(files, rows)
    make = TaskMaker(files.data, files.deletes, files.index, rows)
    ever = every_column(metadata)
    all_groups = [
        planning.group(number, draft, make)
        if isinstance(draft, _Draft)
        else conversion_group(number, draft, metadata, files, stated, ever)
        for number, draft in enumerate(drafts)
    ]
    groups, left = within_budget(options, (), all_groups)
    for group in left:
        planning.leave(group.files, FileVerdict.OVER_BUDGET)
    smallest = None if groups else min((group.input_bytes for group in left), default=None)
    dangling = dangling_of(files, options)
    return CompactPlan(branch, options, tuple(groups), planning.verdicts, dangling, smallest)


@dataclass(frozen=True, slots=True)
class _Piece:
    """Data files whose deletes can only be merged together, and the bytes of these deletes."""

    rows: tuple[int, ...]
    size_bytes: int


@dataclass(frozen=True, slots=True)
class _Draft:
    """Pieces that are committed together, by task; None stands for several partitions."""

    spec_id: int
    partition_key: bytes | None
    tasks: tuple[tuple[_Piece, ...], ...]

    @property
    def files(self) -> tuple[int, ...]:
        """The rows of all data files."""
        return tuple(row for task in self.tasks for piece in task for row in piece.rows)

    @property
    def size_bytes(self) -> int:
        """Bytes of the deletes of all data files."""
        return sum(piece.size_bytes for task in self.tasks for piece in task)


@dataclass(frozen=True, slots=True)
class _Planning:
    """The planning of groups; `verdicts` are changed where deletes are merged."""

    metadata: TableMetadata
    files: LiveFiles
    options: CompactOptions
    verdicts: Verdicts

    def leave(self, rows: Sequence[int], verdict: FileVerdict) -> None:
        """Note what is found of some data files."""
        self.verdicts[list(rows)] = verdict

    def _deletes_by_file(self) -> dict[int, Applied]:
        """Return the deletes of each data file that has some."""
        rows = [row for row, count in enumerate(delete_counts(self.files.matches)) if count]
        return {row: self.files.index.of(row) for row in rows}

    def _sizes(self) -> list[int]:
        """Return the bytes of each delete file or vector."""
        facts = by_row(self.files.deletes, "file_size_in_bytes", "content_size_in_bytes")
        return [size if content is None else content for size, content in facts]

    def _is_chosen(self, row: int) -> bool:
        return bool(self.verdicts[row] == FileVerdict.MERGED)

    def to_files(
        self, conversions: list[ConversionDraft], affected: frozenset[int]
    ) -> tuple[list[ConversionDraft], list[_Draft]]:
        """Groups of position deletes, each of one partition, beside conversions.

        A delete file that names several data files can only go when the deletes of all of them are
        rewritten, so that these are one piece. One of `affected` data files is left to the last
        conversion that it has to do with.
        """
        applied = {
            row: found.position_deletes
            for row, found in self._deletes_by_file().items()
            if found.position_deletes
        }
        least = max(_SEVERAL, self.options.min_delete_files or 0)
        sizes, pieces = self._sizes(), []
        for rows in _components(applied):
            many = any(self._is_chosen(row) and len(applied[row]) >= least for row in rows)
            if many or (self.options.every and any(map(self._is_chosen, rows))):
                deletes = {at for row in rows for at in applied[row]}
                pieces.append(_Piece(tuple(rows), sum(sizes[at] for at in deletes)))
                self.leave(rows, FileVerdict.OF_MANY_DELETE_FILES)
        keys = list(by_row(self.files.data, "spec_id", "partition_key"))
        by_key: dict[tuple[int, bytes], list[_Piece]] = {}
        last = {row: at for at, draft in enumerate(conversions) for row in draft.files}
        for piece in pieces:
            if affected.isdisjoint(piece.rows):
                by_key.setdefault(keys[piece.rows[0]], []).append(piece)
                continue
            at = max(last[row] for row in piece.rows if row in last)
            conversions[at] = conversions[at].beside(piece.rows)
        return conversions, [
            draft
            for (spec_id, key), found in by_key.items()
            for draft in self._drafts(spec_id, key, found)
        ]

    def to_vectors(
        self, conversions: list[ConversionDraft], affected: frozenset[int]
    ) -> tuple[list[ConversionDraft], list[_Draft]]:
        """Groups of data files that get a new vector, whatever their partition.

        If there are conversions, it is the last one that writes these vectors: one file of vectors
        is better than two.
        """
        applied = {
            row: deletes for row, deletes in self._deletes_by_file().items() if self._is_chosen(row)
        }
        converted = [row for row, item in applied.items() if item.position_deletes]
        self.leave(converted, FileVerdict.OF_POSITION_DELETES)
        moved = self._of_small_files(applied, new_files=bool(converted or affected))
        self.leave(moved, FileVerdict.OF_SMALL_VECTOR_FILES)
        if conversions:
            conversions[-1] = conversions[-1].beside([*converted, *moved])
            return conversions, []
        sizes = self._sizes()
        pieces = [
            _Piece((row,), sum(sizes[at] for at in (*item.vectors, *item.position_deletes)))
            for row, item in applied.items()
            if row in {*converted, *moved}
        ]
        return conversions, self._drafts(self.metadata.default_spec_id, None, pieces)

    def _of_small_files(self, applied: Mapping[int, Applied], *, new_files: bool) -> list[int]:
        """Return data files whose vectors are in small files, if there are too many of these."""
        places = list(by_row(self.files.deletes, "location", "file_size_in_bytes"))
        small: dict[int, str] = {}
        for row, deletes in applied.items():
            for location, size in (places[at] for at in deletes.vectors):
                if size < self.options.sizes.smallest or self.options.every:
                    small[row] = location
        count = len(set(small.values())) + new_files
        # A single small file would only become another one.
        least = max(_SEVERAL, self.options.min_input_files)
        return list(small) if self.options.every or count >= least else []

    def _drafts(self, spec_id: int, key: bytes | None, pieces: Sequence[_Piece]) -> list[_Draft]:
        """Return groups of pieces up to the largest size, with tasks of one large file each."""
        drafts = []
        weights = [piece.size_bytes for piece in pieces]
        for group in pack(weights, self.options.max_group_bytes, lookback=1):
            chosen = [pieces[at] for at in group]
            tasks = pack([piece.size_bytes for piece in chosen], self.options.sizes.target, 1)
            drafts.append(_Draft(spec_id, key, tuple(tuple(chosen[at] for at in t) for t in tasks)))
        return drafts

    def group(self, number: int, draft: _Draft, make: TaskMaker) -> CompactGroup:
        """Return a group with its tasks."""
        form: Literal["positions", "vectors"] = (
            "positions" if draft.partition_key is not None else "vectors"
        )
        tasks = []
        for at, pieces in enumerate(draft.tasks):
            rows = [row for piece in pieces for row in piece.rows]
            tasks.append(make.merge(rows, MergeDeletesTask(f"{number}-{at}", number, (), (), form)))
        deletes = {file.location: file for task in tasks for file in task.delete_files}
        vectors = [file.vector for task in tasks for file in task.inputs if file.vector is not None]
        row_counts = [file.record_count for file in deletes.values()]
        return CompactGroup(
            number=number,
            spec_id=draft.spec_id,
            partition_key=draft.partition_key,
            files=draft.files,
            tasks=tuple(tasks),
            reason=self._reason(draft.files),
            input_files=len(deletes.keys() | {vector.location for vector in vectors}),
            input_bytes=draft.size_bytes,
            input_rows=sum(row_counts) + sum(vector.record_count for vector in vectors),
            expected_files=len(tasks) if draft.partition_key is None else len(draft.files),
            expected_bytes=draft.size_bytes,
            makes_vectors=form == "vectors",
        )

    def _reason(self, rows: Sequence[int]) -> str:
        texts = {
            FileVerdict.OF_MANY_DELETE_FILES: "whose deletes are in several files, or share them",
            FileVerdict.OF_POSITION_DELETES: "whose position deletes become vectors",
            FileVerdict.OF_SMALL_VECTOR_FILES: "whose vectors are in small files",
        }
        verdicts = [FileVerdict(int(self.verdicts[row])) for row in rows]
        return ", ".join(
            f"{print_count(verdicts.count(verdict), 'data file')} {text}"
            for verdict, text in texts.items()
            if verdict in verdicts
        )


def _components(applied: Mapping[int, Sequence[int]]) -> list[list[int]]:
    """Return data files in sets of which no two share a delete file. Order: of the first ones."""
    leader: dict[int, int] = {}

    def find(at: int) -> int:
        """Find the row that stands for the set of a data file."""
        while leader[at] != at:
            leader[at] = leader[leader[at]]
            at = leader[at]
        return at

    for deletes in applied.values():
        for at in deletes:
            leader.setdefault(at, at)
            leader[find(at)] = find(deletes[0])
    components: dict[int, list[int]] = {}
    for row, deletes in applied.items():
        components.setdefault(find(deletes[0]), []).append(row)
    return list(components.values())
