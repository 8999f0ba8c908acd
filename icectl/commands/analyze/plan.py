"""Which statistics of a snapshot are computed, and of which files: pure."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np

from icectl.entries.rows import Entries, total, where
from icectl.entries.stats import column_bytes
from icectl.errors import UsageError
from icectl.format.metadata import TableMetadata
from icectl.format.schema import similar_name_hint
from icectl.format.snapshot import Snapshot, ancestors
from icectl.format.types import DecimalType, FixedType, NestedField, PrimitiveType, Type, type_text
from icectl.table.rewrite_tasks import DeleteFile, InputFile, ReadTask
from icectl.table.statistics import FileChanges, KnownSketch, KnownStatistics
from icectl.units import print_size, read_count

MAX_REMOVED = 0.2
_TASK_BYTES, _TASK_FILES = 64 << 20, 1_000
_WITHOUT_SKETCH = frozenset({"unknown", "variant"})


@dataclass(frozen=True, slots=True)
class AnalyzeOptions:
    """What is computed: of which columns, and what may be taken over from older statistics.

    Where it is to `refresh`, only columns and partitions that have statistics already. Of data
    files that are not new only a `sample` may be read, a ratio. Columns that are not named are left
    out if they take more than `most_column_bytes` in all data files.
    """

    columns: tuple[str, ...] | None = None
    most_column_bytes: int | None = None
    of_columns: bool = True
    of_partitions: bool = True
    full: bool = False
    refresh: bool = False
    sample: float | None = None
    exact_deletes: bool = False
    max_removed: float = MAX_REMOVED


@dataclass(frozen=True, slots=True)
class ColumnPass:
    """Columns whose values are read of the same files.

    `known` are sketches, by column id, that the new ones are united with. `removed` rows of their
    files went. `reason` says why these files are read, `sample` which ratio they are of all.
    """

    columns: tuple[NestedField, ...]
    tasks: tuple[ReadTask, ...]
    reason: str
    known: Mapping[int, KnownSketch] = field(default_factory=dict)
    rows_before: int = 0
    removed: int = 0
    sample: float | None = None

    def sample_of(self, id_: int) -> float | None:
        """Return of which ratio of the files a column's sketch is; None for all."""
        known = self.known.get(id_)
        return self.sample if known is None else known.sample

    @property
    def file_count(self) -> int:
        return sum(len(task.inputs) for task in self.tasks)

    @property
    def row_count(self) -> int:
        return sum(file.record_count for task in self.tasks for file in task.inputs)

    @property
    def read_bytes(self) -> int:
        return sum(task.read_bytes for task in self.tasks)

    def rows_seen(self, known: KnownSketch) -> int:
        """Return how many rows a sketch has seen: another writer's all that there were."""
        return self.rows_before if known.rows_seen is None else known.rows_seen


@dataclass(frozen=True, slots=True)
class AnalyzePlan:
    """The statistics to compute of a snapshot; None is that of an empty table.

    `current` columns have statistics of this snapshot already, `skipped` ones can have none, each
    with the reason, and `costly` ones take too many bytes. `known` was read, if there is such a
    file. So was the snapshot's `own` file, which the new one replaces, where that has only blobs of
    other kinds.
    """

    snapshot: Snapshot | None
    options: AnalyzeOptions
    passes: tuple[ColumnPass, ...] = ()
    current: tuple[NestedField, ...] = ()
    skipped: tuple[tuple[NestedField, str], ...] = ()
    costly: tuple[tuple[NestedField, str], ...] = ()
    known: KnownStatistics | None = None
    own: KnownStatistics | None = None
    partitions: bool = False

    @property
    def has_work(self) -> bool:
        return bool(self.passes) or self.partitions

    @property
    def read_bytes(self) -> int:
        return sum(part.read_bytes for part in self.passes)

    @property
    def read_files(self) -> int:
        """How many data files are read: one once for each pass."""
        return sum(len(task.inputs) for part in self.passes for task in part.tasks)


def chosen_columns(
    metadata: TableMetadata, options: AnalyzeOptions
) -> tuple[tuple[NestedField, ...], tuple[tuple[NestedField, str], ...]]:
    """Return the columns to sketch; second: those that have no sketch, with the reason.

    Raises: UsageError, for a column that there is not, or that can have no sketch.
    """
    schema = metadata.current_schema
    if options.columns is None:
        fields = schema.fields
    else:
        top = {field.name: field for field in schema.fields}
        for name in options.columns:
            if name not in top:
                hint = similar_name_hint(name, list(top))
                raise UsageError(f"`--columns`: the table has no column `{name}`", hint=hint)
        fields = tuple(top[name] for name in options.columns)
    skipped = tuple(
        (field, f"{type_text(field.type)} has no sketch")
        for field in fields
        if not _has_sketch(field.type)
    )
    if options.columns is not None and skipped:
        field, why = skipped[0]
        raise UsageError(f"`--columns`: column `{field.name}`: {why}")
    return tuple(field for field in fields if _has_sketch(field.type)), skipped


def within_cost(
    fields: Sequence[NestedField], data: Entries, most_bytes: int
) -> tuple[tuple[NestedField, ...], tuple[tuple[NestedField, str], ...]]:
    """Return the columns of at most so many bytes in files; second: the others, with the reason.

    `data` has the sizes of columns. Where an entry lacks that of a column, its file counts whole.
    """
    sizes = [int(column_bytes(data, [field.id]).sum()) for field in fields]
    pairs = list(zip(fields, sizes, strict=True))
    costly = tuple(
        (field, f"{print_size(size)} in all data files, more than {print_size(most_bytes)}")
        for field, size in pairs
        if size > most_bytes
    )
    return tuple(field for field, size in pairs if size <= most_bytes), costly


def _has_sketch(type_: Type) -> bool:
    if isinstance(type_, PrimitiveType):
        return type_.name not in _WITHOUT_SKETCH
    return isinstance(type_, DecimalType | FixedType)


@dataclass(frozen=True, slots=True)
class AnalyzeReads:
    """The means to plan with: reads of metadata, each only where it is asked for.

    `inputs` are those of data files, with the deletes that apply where these count.
    """

    has_rows_of: Callable[[Snapshot], bool]
    every: Callable[[], Entries]
    since: Callable[[Snapshot], FileChanges]
    inputs: Callable[[Entries], tuple[tuple[InputFile, ...], tuple[DeleteFile, ...]]]


def plan_passes(
    snapshot: Snapshot,
    fields: Sequence[NestedField],
    known: KnownStatistics | None,
    options: AnalyzeOptions,
    files: AnalyzeReads,
) -> tuple[tuple[ColumnPass, ...], tuple[NestedField, ...]]:
    """Return what is read of which files; second: columns whose statistics are those of now."""
    sketches = {} if known is None else known.sketches
    groups: dict[int | None, list[NestedField]] = {}
    rebuilt: list[tuple[NestedField, str]] = []
    for column in fields:
        sketch = sketches.get(column.id)
        if sketch is not None and sketch.sample and not (options.sample or options.refresh):
            rebuilt.append((column, "statistics are of a sample"))
            continue
        seen = None if sketch is None else sketch.snapshot.snapshot_id
        groups.setdefault(seen, []).append(column)
    of_now = groups.pop(snapshot.snapshot_id, [])
    passes: list[ColumnPass] = []
    rebuilt += [(field, "without statistics") for field in groups.pop(None, [])]
    for columns in groups.values():
        base = {field.id: sketches[field.id] for field in columns}
        before = next(iter(base.values())).snapshot
        if files.has_rows_of(before):
            reason = f"rows are those of snapshot {before.snapshot_id}"
            passes.append(ColumnPass(tuple(columns), (), reason, base))
            continue
        changes = files.since(before)
        removed = total(changes.removed, "record_count")
        for is_due in (False, True):
            part = [
                field
                for field in columns
                if _is_rebuilt(base[field.id], changes, removed, options) is is_due
            ]
            if is_due:
                reason = f"more than {options.max_removed:.0%} of the rows were removed"
                rebuilt += [(field, reason) for field in part]
            elif part:
                of_part = {field.id: base[field.id] for field in part}
                reason = f"since snapshot {before.snapshot_id}"
                tasks = _tasks(part, changes.added, files, len(passes))
                counts = changes.rows_before, removed
                passes.append(ColumnPass(tuple(part), tasks, reason, of_part, *counts))
    by_files: dict[tuple[str, float | None], list[NestedField]] = {}
    for column, why in rebuilt:
        before_it = sketches.get(column.id) if options.refresh else None
        kept = None if before_it is None else before_it.sample
        by_files.setdefault((why, options.sample or kept), []).append(column)
    for (reason, sample), part in by_files.items():
        every = files.every()
        data = every if sample is None else _sampled(every, sample)
        ratio = sample if len(data) < len(every) else None
        tasks = _tasks(part, data, files, len(passes))
        passes.append(ColumnPass(tuple(part), tasks, reason, sample=ratio))
    return tuple(passes), tuple(of_now)


def _sampled(data: Entries, ratio: float) -> Entries:
    """Return a ratio of some files, evenly spread and at least one. Order: kept."""
    steps = np.floor(np.arange(len(data) + 1) * ratio)
    chosen = np.diff(steps) > 0
    chosen[:1] |= not chosen.any()
    return where(data, chosen)


def changed_ratio(metadata: TableMetadata, snapshot: Snapshot, bases: Collection[int]) -> float:
    """Return which part of the rows is in files that came or went since one of some snapshots.

    From 0 to 1; rows that deletes mask are in their files.
    Summaries say so; 1 where one does not, or where the snapshot comes from none of them.
    """
    changed = 0
    for ancestor in ancestors(metadata.snapshots_by_id, snapshot.snapshot_id):
        if ancestor.snapshot_id in bases:
            total_rows = read_count((snapshot.summary or {}).get("total-records"))
            return min(changed / max(total_rows or 0, 1), 1.0)
        if ancestor.operation == "replace":
            continue
        summary = ancestor.summary or {}
        if "total-records" not in summary:  # else what is not named is none
            break
        counts = (read_count(summary.get(key)) for key in ("added-records", "deleted-records"))
        changed += sum(count or 0 for count in counts)
    return 1.0


def _is_rebuilt(
    known: KnownSketch, changes: FileChanges, removed: int, options: AnalyzeOptions
) -> bool:
    seen = known.rows_seen
    if seen is None:  # another writer's: it has seen what there was
        seen = changes.rows_before
    return known.rows_removed + removed > options.max_removed * max(seen, 1)


def _tasks(
    columns: Sequence[NestedField], data: Entries, files: AnalyzeReads, group: int
) -> tuple[ReadTask, ...]:
    """Cut files into tasks of about the same bytes of some columns. Order: of the entries."""
    if not len(data):
        return ()
    sizes = column_bytes(data, [field.id for field in columns])
    inputs, delete_files = files.inputs(data)
    chunks = (np.cumsum(sizes) - sizes) // _TASK_BYTES
    starts = [0, *(np.flatnonzero(np.diff(chunks)) + 1).tolist(), len(inputs)]
    tasks: list[ReadTask] = []
    for first, last in pairwise(starts):
        for start in range(first, last, _TASK_FILES):
            stop = min(start + _TASK_FILES, last)
            own, deletes = _with_own_deletes(inputs[start:stop], delete_files)
            size = int(sizes[start:stop].sum()) + sum(file.size_bytes for file in deletes)
            tasks.append(ReadTask(f"{group}-{len(tasks)}", group, own, deletes, size))
    return tuple(tasks)


def _with_own_deletes(
    inputs: Sequence[InputFile], deletes: Sequence[DeleteFile]
) -> tuple[tuple[InputFile, ...], tuple[DeleteFile, ...]]:
    """Return files that index only the deletes which apply to them, and these."""
    used = sorted(
        {at for file in inputs for at in (*file.position_deletes, *file.equality_deletes)}
    )
    places = {at: place for place, at in enumerate(used)}
    own = tuple(
        replace(
            file,
            position_deletes=tuple(places[at] for at in file.position_deletes),
            equality_deletes=tuple(places[at] for at in file.equality_deletes),
        )
        for file in inputs
    )
    return own, tuple(deletes[at] for at in used)
