"""The run of `icectl compact`: load, plan, rewrite group by group, compare, commit, clean up."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from math import ceil

from icectl.catalog.protocol import LoadedTable
from icectl.cli.document import Outcome
from icectl.cli.engines import engine_of
from icectl.cli.options import Change, Common
from icectl.cli.session import Session, open_session
from icectl.commands.bill import Bill
from icectl.commands.change import Finished, PlannedChange, carry_out
from icectl.commands.compact.conversions import (
    Converting,
    conversion_outputs,
    emptied,
    stated_of_conversions,
)
from icectl.commands.compact.deletes_plan import plan_deletes
from icectl.commands.compact.groups_plan import CompactGroup
from icectl.commands.compact.options import CompactRequest
from icectl.commands.compact.parsed_options import (
    commit_limits,
    engine_choice,
    options_of,
    with_method,
)
from icectl.commands.compact.plan import Branch, CompactPlan, are_settled, choose
from icectl.commands.compact.plan_options import CompactOptions
from icectl.commands.compact.report import (
    Compacted,
    Compaction,
    GroupOutput,
    PreparedCompaction,
    compaction_line,
    compaction_result,
    print_compaction,
)
from icectl.commands.compact.shapes_plan import by_shape, tasks_to_merge
from icectl.commands.compact.work import work_of
from icectl.commands.rates import bill_of
from icectl.commands.sight import Sight
from icectl.commit.converted_deletes import DeleteConverter
from icectl.commit.output_journal import Leftovers
from icectl.commit.partition_counts import PartitionCounter
from icectl.commit.rewrite_files import DeleteCarrier, FileRewrite, PlannedState
from icectl.commit.rewritten_groups import GroupResult, TaskOutput, changes
from icectl.commit.snapshot import branch_head
from icectl.commit.snapshot_writer import writer_of
from icectl.commit.transaction import DataOutputs, Outputs, data_places, transaction
from icectl.entries.conditions import leaves
from icectl.entries.file_verdicts import at_locations
from icectl.entries.may_match import METRICS
from icectl.entries.rows import (
    Entries,
    by_row,
    concat,
    delete_files,
    equality_delete_files,
    take,
    where,
)
from icectl.errors import (
    CommitConflict,
    CommitUnknown,
    IcectlError,
    MissingFile,
    Refused,
    SelfCheckFailed,
)
from icectl.files.manifest.schema import check_list_known
from icectl.files.parquet.alike import AlikeParts, alike_parts
from icectl.files.parquet.merge_columns import ColumnKey, StoredColumns
from icectl.format.layout import Layout, layout_of_table
from icectl.format.metadata import TableMetadata
from icectl.format.snapshot import Snapshot
from icectl.rows.choice import SPARK_PAYS_BYTES, EngineChoice, confirm_engine, weigh_engine
from icectl.rows.column_forms import TableForms
from icectl.rows.compact_job import (
    Engine,
    TaskResult,
    TypedSpec,
    check_identities,
    partition_of,
    source_of,
    typed_specs,
)
from icectl.rows.jobs import check_output, job_of, merge_job
from icectl.rows.merge_files import FOOTER_BYTES, LINEAGE_IDS, MergeOptions, read_stored
from icectl.rows.named_files import live_files, read_names
from icectl.rows.read_data import SourceFile
from icectl.rows.row_runs import rows_of
from icectl.rows.sort_rows import Curve, order_words, with_ranges
from icectl.storage.kept import KeepingStore
from icectl.table.context import TableContext
from icectl.table.guard import open_to_change
from icectl.table.live_file_check import check_largest
from icectl.table.live_files import (
    LiveFiles,
    every_column,
    load_since,
    load_stated,
    load_unsettled,
    name_mapping,
    with_stated,
    with_whole_manifests,
)
from icectl.table.live_parts import MOST_WHOLE
from icectl.table.mergeable import CARRYING_VERSION, MethodChoice
from icectl.table.own_places import check_foreign_files
from icectl.table.reader import Reader
from icectl.table.reading import read_in_threads
from icectl.table.removed_files import removed_by_another, still_named, unless_removed
from icectl.table.rewrite_tasks import InputFile, MergeDeletesTask, RewriteTask, Task
from icectl.units import print_size

COMMAND = "compact"
_REWRITE_THEM = "`--method auto` rewrites what it can't merge"
_NOT_MERGED = "not-mergeable"


def run(common: Common, table: str, request: CompactRequest, change: Change) -> Outcome:
    """Plan the compaction and, unless only the plan was asked for, execute it."""
    options = options_of(request, common.shell.limits)
    commits, max_failed_commits = commit_limits(request, change)
    session = open_session(common, table, read_only=False, change=change)
    choice = engine_choice(session.settings, request, has_session=session.spark is not None)
    spark = request.spark_conf or (), request.remote
    engine_of(session, choice, *spark)  # refuses options of another engine before any work
    context = replace(session.context, store=KeepingStore(session.context.store))

    def options_for(metadata: TableMetadata) -> CompactOptions:
        chosen = with_method(options(metadata), request, session.settings)
        # A conversion after a rewrite would be a second commit.
        return replace(chosen, only=session.reviewed, converts=change.metadata_file is None)

    with unless_removed(context):
        prepared = prepare(context, request.branch, options_for)
    _check_budget(session, prepared.plan)
    groups = prepared.plan.groups
    looked_into = sum(group.input_bytes for group in groups if group.conversion is not None)
    if request.deletes_only and choice.is_tentative and looked_into < SPARK_PAYS_BYTES:
        choice = EngineChoice("local")
    choice = weigh_engine(choice, sum(group.input_bytes for group in groups))
    if prepared.plan.has_work and not (change.dry_run or change.check):
        choice = confirm_engine(choice)
    with engine_of(session, choice, *spark) as engine:
        report = Compaction(prepared, choice, engine.counts)
        if change.dry_run and prepared.plan.has_work:
            report = replace(report, bill=_bill(session, prepared))

        def finish() -> Finished[Compaction]:
            if choice.why or choice.is_tentative:
                session.console.note(str(choice))
            compacted = execute(
                context, engine, prepared, commits=commits, max_failed_commits=max_failed_commits
            )
            for why in compacted.not_assembled:
                session.console.detail(f"merged files pass through the workers: {why}")
            return Finished(
                replace(report, outcome=compacted),
                compacted.landed.metadata_location,
                is_complete=len(compacted.outputs) == len(prepared.plan.groups),
            )

        planned = PlannedChange(
            command=COMMAND,
            loaded=prepared.loaded,
            report=report,
            result=compaction_result,
            show=lambda console, shown, whole: print_compaction(console, shown, whole=whole),
            line=compaction_line,
            has_work=prepared.plan.has_work,
            execute=finish,
            superseded=lambda: replace(report, prepared=prepared.without_work),
            clean_up=lambda: Leftovers(context, (COMMAND,)).remove(prepared.loaded),
        )
        return carry_out(session, change, planned)


def _bill(session: Session, prepared: PreparedCompaction) -> Bill:
    """Return what a plan costs and brings. Raises: StorageError, of a listing."""
    loaded, plan = prepared.loaded, prepared.plan
    sight = Sight(Reader(session.context, loaded), session.settings, plan.branch.snapshot)
    work = sight.run_work + work_of(plan, prepared.files, prepared.removed_delete_files)
    return bill_of(session.settings, loaded.metadata.location, work)


def _check_budget(session: Session, plan: CompactPlan) -> None:
    """Warn where the budget of a policy is too small for any group. Raises: Refused."""
    smallest, budget = plan.smallest_bytes, plan.options.max_bytes
    if smallest is None or budget is None or session.limits.is_shared:
        return
    of_policy = session.limits.rewritten_bytes == budget
    name = "budget.rewrite-bytes" if of_policy else "--max-rewrite"
    message = (
        f"`{name}`, {print_size(budget)}, is less than the smallest group of files to compact, "
        f"{print_size(smallest)}: no run can compact any"
    )
    hint = "raise it; without `--strict` this is a warning"
    if session.limits.is_strict:
        raise Refused(message, hint=hint, id="over-budget")
    session.console.warn(message)


def prepare(
    context: TableContext,
    branch: str,
    options: Callable[[TableMetadata], CompactOptions],
    most_whole: int = MOST_WHOLE,
) -> PreparedCompaction:
    """Load the table and plan the compaction of a branch; nothing is written.

    Of more than `most_whole` data files only those are in memory that deletes apply to, or that may
    have to be rewritten.
    Raises: UsageError for a branch, spec or column that there is not; Refused, where the table must
    not be touched; Unsupported, where rows can't be carried over faithfully; StorageError,
    CorruptTable, where its manifests or deletes cannot be read.
    """
    loaded = open_to_change(context.catalog)
    metadata = loaded.metadata
    chosen = options(metadata)
    head = Branch(branch, branch_head(metadata, branch))
    on_columns = chosen.where is not None and any(
        leaf.column.field_id is not None for leaf in leaves(chosen.where)
    )
    # Overlaps are found by bounds, and a curve is spread over them.
    by_bounds = chosen.order is not None and (not chosen.every or isinstance(chosen.order, Curve))
    columns = METRICS if on_columns or by_bounds else frozenset()
    # Whether equality deletes go depends on all files that they may apply to.
    within = None if chosen.deletes_only else chosen.where
    files = None
    if not (chosen.where or chosen.only or chosen.deletes_only or by_bounds):
        settled = partial(are_settled, options=chosen)
        names = partial(read_names, context)
        files = load_unsettled(context, metadata, head.snapshot, settled, names, most_whole)
    if files is None:
        files = live_files(context, metadata, head.snapshot, {}, columns, within, all_deletes=True)
    if chosen.deletes_only:
        stated = stated_of_conversions(context, metadata, files)
        planned = plan_deletes(metadata, head, files, chosen, stated)
    else:
        selection = choose(metadata, files, chosen)
        selection.check()
        stated = (
            stated_of_conversions(context, metadata, files) if len(selection.converted_rows) else {}
        )
        planned = selection.planned(head, stated)
        merging = list(tasks_to_merge(planned))
        if merging:
            planned = by_shape(planned, files, _alike_parts(context, metadata, merging))
    if planned.has_work:
        check_list_known(files.listed)
    if planned.groups:
        tasks = [task for group in planned.groups for task in group.tasks]
        if sum(group.input_bytes for group in planned.groups) >= SPARK_PAYS_BYTES:
            rows = sorted({row for group in planned.groups for row in group.files})
            check_largest(context, metadata, take(files.data, rows))
        check_foreign_files(metadata.location, metadata.properties, tasks, context.progress)
        rewriting = [group for group in planned.groups if not group.keeps_files]
        keys = {group.partition_key for group in rewriting}
        check_output(metadata, chosen.order, chosen.output_spec_id, keys)
    removed = frozenset[str]()
    removed_delete_files = 0
    if len(files.deletes):
        gone = delete_files(changes(files, [emptied(group) for group in planned.groups]).removed)
        removed_delete_files = len(gone)
        removed = frozenset(path for (path,) in by_row(equality_delete_files(gone), "location"))
    return PreparedCompaction(loaded, planned, files, removed_delete_files, removed)


def _alike_parts(
    context: TableContext, metadata: TableMetadata, tasks: Sequence[RewriteTask]
) -> Mapping[str, AlikeParts]:
    """Read the footers of files to merge: which of each task store their columns alike.

    Cost: the end of each file.
    """
    files = [file for task in tasks for file in task.inputs]
    context.progress.phase("reading footers", total=len(files))
    without = LINEAGE_IDS if metadata.format_version >= 3 else frozenset[int]()

    def read(file: InputFile) -> StoredColumns | str:
        stored = read_stored(context.store, file.location, without)
        context.progress.advance(1)
        return stored

    sizes = [FOOTER_BYTES] * len(files)
    stored = iter(read_in_threads(read, files, sizes, threads=context.concurrency))
    ever, specs = every_column(metadata), typed_specs(metadata)
    forms = TableForms(ever)
    parts = {}
    for task in tasks:
        sources = [source_of(file, specs) for file in task.inputs]

        def may_lack(place: int, key: ColumnKey, sources: Sequence[SourceFile] = sources) -> bool:
            column = ever.field(int(key))
            is_null = column is None or column.initial_default is None
            return is_null and int(key) not in sources[place].constants

        parts[task.task_id] = alike_parts(list(islice(stored, len(sources))), may_lack, forms)
    return parts


def execute(
    context: TableContext,
    engine: Engine,
    prepared: PreparedCompaction,
    *,
    commits: int = 1,
    max_failed_commits: int = 0,
    command: str = COMMAND,
) -> Compacted:
    """Rewrite the groups of a plan and commit them, in up to `commits` commits.

    Its files are those of a run of `command`, whose next run removes what a killed one left.
    Equality deletes are converted after data files were rewritten, in as many commits again.
    What was written is removed again where its commit is known not to have landed.
    Raises: CommitConflict, where nothing landed; CommitUnknown; Unsupported, CorruptTable,
    EngineError, SelfCheckFailed, StorageError, Incomplete, before anything has changed.
    """
    groups = prepared.plan.groups
    rewriting = (task for group in groups for task in group.tasks if isinstance(task, RewriteTask))
    if prepared.loaded.metadata.format_version >= 3 and any(
        file.first_row_id is None for task in rewriting for file in task.inputs
    ):  # The first commit gives rows their ids, which files rewritten before lack.
        commits = 1
    parts = [groups]
    if not prepared.plan.options.deletes_only:
        first = tuple(group for group in groups if not group.keeps_files)
        parts = [first, groups[len(first) :]]  # conversions are last
    # One empty commit if only deletes are removed.
    batches = [batch for part in parts for batch in _batches(part, commits)] or [()]
    run = _Run(context, engine, prepared, command)
    for batch in batches:
        if not run.commit(batch, max_failed_commits):
            break
    if run.landed is None:
        nothing = run.conflict or run.refused
        assert nothing is not None  # other errors of a first commit are raised
        raise nothing
    return Compacted(
        run.landed,
        tuple(run.snapshot_ids),
        run.outputs,
        run.failed,
        run.removed_delete_files,
        run.carried_deletes,
        tuple(sorted(run.not_assembled)),
        frozenset(run.lost),
    )


def _batches(groups: Sequence[CompactGroup], commits: int) -> Iterator[Sequence[CompactGroup]]:
    """Yield groups that are committed together, in up to `commits` commits."""
    size = max(ceil(len(groups) / commits), 1)
    for at in range(0, len(groups), size):
        yield groups[at : at + size]


class _Run:
    """A run under way: what has landed, and what has not."""

    def __init__(
        self, context: TableContext, engine: Engine, prepared: PreparedCompaction, command: str
    ) -> None:
        self._context = context
        self._command = command
        self._engine = engine
        self._prepared = prepared
        self._files = prepared.files
        if self._files.settled:
            rows = sorted({row for group in prepared.plan.groups for row in group.files})
            metadata = prepared.loaded.metadata
            if len(self._files.deletes) or layout_of_table(metadata) is Layout.SFC_1:
                head, known = prepared.plan.branch.snapshot, self._files.named_files
                self._files = live_files(context, metadata, head, known)
            else:
                self._files = with_whole_manifests(context, metadata, self._files, rows)
        self.landed: LoadedTable | None = None
        self.snapshot_ids: list[int] = []
        self.outputs: dict[int, GroupOutput] = {}
        self.failed: dict[int, str] = {}
        self.lost: set[int] = set()
        self._failed_commits = 0
        self.conflict: CommitConflict | None = None
        self.refused: IcectlError | None = None
        self.removed_delete_files = self.carried_deletes = 0
        self.not_assembled: set[str] = set()

    def commit(self, batch: Sequence[CompactGroup], max_failed_commits: int) -> bool:
        """Rewrite and commit some groups; whether to go on with others.

        Raises: as execute, as long as nothing has landed; CommitUnknown, SelfCheckFailed.
        """
        try:
            self._commit(batch)
        except (CommitUnknown, SelfCheckFailed):
            raise
        except CommitConflict as error:
            self._lose({group.number: error.message for group in batch})
            self.conflict = self.conflict or error
            self._failed_commits += 1
            return self._failed_commits <= max_failed_commits
        except IcectlError as error:
            if error.error_id == _NOT_MERGED:
                self.refused = self.refused or error
                return True
            if self.landed is None:
                raise
            self.failed |= {group.number: error.message for group in batch}
            return False
        return True

    def _commit(self, batch: Sequence[CompactGroup]) -> None:
        """Rewrite some groups and commit those that still hold."""
        context = self._context
        context.deadline.check()
        base = self._prepared.loaded if self.landed is None else context.catalog.load()
        metadata = self._prepared.loaded.metadata
        specs = typed_specs(metadata)
        places = data_places(metadata, [_path(group, specs) for group in batch])
        with transaction(context, base, self._command, places) as opened:
            rewritten = self._rewrite(batch, opened.outputs)
            self._leave_missing(rewritten, opened.outputs)
            for group, results in rewritten:
                for result in results:  # a task that was not run at all
                    if result.not_merged and not (len(result.entries) or result.read_row_count):
                        reason = f"it can't be merged: {result.not_merged}"
                        self.failed.setdefault(group.number, reason)
            to_commit = [pair for pair in rewritten if pair[0].number not in self.failed]
            converter = self._converter(batch, opened.outputs)
            if batch and not to_commit and converter is None:
                reason = self.failed[batch[0].number]
                message = f"no group was committed: {reason}"
                raise Refused(message, hint=_REWRITE_THEM, id=_NOT_MERGED)
            group_results = [self._group_result(*pair) for pair in to_commit]
            rewrite = self._file_rewrite(group_results, opened.outputs)
            rewrite.converter = converter
            self.landed = opened.commit(rewrite.propose, reloads_base=True)
            self._record(to_commit, group_results, rewrite)
            if rewrite.converted is not None:
                self.outputs |= conversion_outputs(batch, self._prepared.files, rewrite.converted)

    def _converter(self, batch: Sequence[CompactGroup], outputs: Outputs) -> DeleteConverter | None:
        """Look rows up for the conversions among some groups; None if there are none."""
        groups = [group for group in batch if group.conversion is not None]
        if not groups:
            return None
        outputs.begin()
        metadata, files = self._prepared.loaded.metadata, self._prepared.files
        tasks = self._with_stated(groups)
        converting = Converting(self._context, self._engine, metadata, merge_job(metadata))
        return converting.look_up(groups, tasks, DataOutputs(metadata, outputs), files)

    def _with_stated(self, batch: Sequence[CompactGroup]) -> list[Task]:
        """Return the tasks of some groups, with what entries state of their files."""
        metadata, files = self._prepared.loaded.metadata, self._prepared.files
        tasks = [task for group in batch for task in group.tasks]
        named = {file.location for task in tasks for file in task.delete_files}
        parts = [
            take(files.data, sorted({row for group in batch for row in group.files})),
            where(files.deletes, at_locations(files.deletes, named)),
        ]
        return with_stated(tasks, load_stated(self._context, metadata, files.manifests, parts))

    def _leave_missing(
        self, rewritten: Sequence[tuple[CompactGroup, Sequence[TaskResult]]], outputs: Outputs
    ) -> None:
        """Note groups as failed whose files another commit has removed since.

        Raises: MissingFile, if the table still names one; CommitConflict, if no group is left.
        """
        missing = {
            group.number: result.missing
            for group, results in rewritten
            for result in results
            if result.missing
        }
        if not missing:
            return
        outputs.find()  # also what tasks wrote before they ended
        for location in still_named(self._context, missing.values()):
            raise MissingFile(location)
        reasons = {number: removed_by_another(place) for number, place in missing.items()}
        if len(reasons) == len(rewritten):
            raise CommitConflict(next(iter(reasons.values())))
        self._lose(reasons)

    def _lose(self, reasons: Mapping[int, str]) -> None:
        """Note groups as failed since other writers committed first."""
        self.failed |= reasons
        self.lost |= reasons.keys()

    def _group_result(self, group: CompactGroup, results: Sequence[TaskResult]) -> GroupResult:
        """Make the result of a group, once all rows of its files are known to have been read.

        Raises: SelfCheckFailed.
        """
        metadata, order = self._prepared.loaded.metadata, self._prepared.plan.options.order
        rewriting = [task for task in group.tasks if isinstance(task, RewriteTask)]
        counts = {file.location: file.record_count for task in rewriting for file in task.inputs}
        read = sum(result.read_row_count for result in results)
        if read != sum(counts.values()):
            raise SelfCheckFailed(
                f"of {sum(counts.values()):,} rows of group {group.number} {read:,} were read"
            )
        added = concat([Entries(result.entries) for result in results])
        if self._prepared.plan.options.repartition:
            keys = set(added.table["partition_key"].to_pylist())
            check_identities(rewriting, keys, typed_specs(metadata)[group.spec_id])
        if order is not None and metadata.format_version < 3:
            words = order_words(order, metadata.current_schema)
            return GroupResult(group.number, group.tasks, added, (), words)
        outputs = []
        for task, result in zip(rewriting, results, strict=bool(rewriting)):
            files = tuple(by_row(Entries(result.entries), "location", "record_count"))
            inputs = [file.location for file in task.inputs]
            left_out, by_value = (
                rows_of(rows, inputs) for rows in (result.left_out, result.by_value)
            )
            outputs.append(
                TaskOutput(files, result.is_merged, left_out, by_value, order is not None)
            )
        return GroupResult(group.number, group.tasks, added, tuple(outputs))

    def _file_rewrite(self, results: Sequence[GroupResult], outputs: Outputs) -> FileRewrite:
        context, planned = self._context, self._prepared.plan
        metadata, branch = self._prepared.loaded.metadata, planned.branch
        version, layout = metadata.format_version, layout_of_table(metadata)
        carrier = None
        if version >= CARRYING_VERSION and not planned.options.deletes_only:
            carrier = DeleteCarrier(
                context.store,
                merge_job(metadata),
                DataOutputs(metadata, outputs),
                has_vectors=version >= 3,
                names=name_mapping(metadata),
            )

        def load(newest: TableMetadata, head: Snapshot | None, earlier: LiveFiles) -> LiveFiles:
            """Load the files of a head; manifests of an earlier head are not read again."""
            return load_since(context, newest, head, partial(read_names, context), earlier)

        snapshot_id = None if branch.snapshot is None else branch.snapshot.snapshot_id
        return FileRewrite(
            load=load,
            writer=writer_of(context, layout, branch.name, outputs),
            planned=PlannedState(metadata, branch.name, snapshot_id, self._files),
            results=results,
            snapshot_id=context.env.new_snapshot_id(),
            carrier=carrier,
            counter=PartitionCounter(context, outputs),
        )

    def _rewrite(
        self, batch: Sequence[CompactGroup], outputs: Outputs
    ) -> list[tuple[CompactGroup, Sequence[TaskResult]]]:
        metadata, options = self._prepared.loaded.metadata, self._prepared.plan.options
        batch = [group for group in batch if group.conversion is None]
        if not batch:
            return []
        results: Iterable[TaskResult]
        outputs.begin()
        tasks = self._with_stated(batch)
        places = DataOutputs(metadata, outputs)
        if options.deletes_only:
            merging = [task for task in tasks if isinstance(task, MergeDeletesTask)]
            results = self._engine.merge(merging, merge_job(metadata), places)
        else:
            marks = self._prepared.plan.marks
            rewriting = [
                replace(task, mark=marks[task.group])
                for task in tasks
                if isinstance(task, RewriteTask)
            ]
            merge_options = MergeOptions(
                options.min_delete_ratio, verifies_rows=options.verifies_rows
            )
            rows = [row for group in batch for row in group.files]
            order = options.order and with_ranges(
                options.order, take(self._prepared.files.data, rows), metadata.current_schema
            )
            job = replace(job_of(metadata, order), merging=merge_options)
            results = self._engine.rewrite(rewriting, job, places)
        by_id = {result.task_id: result for result in results}
        return [(group, [by_id[task.task_id] for task in group.tasks]) for group in batch]

    def _record(
        self,
        rewritten: Sequence[tuple[CompactGroup, Sequence[TaskResult]]],
        results: Sequence[GroupResult],
        rewrite: FileRewrite,
    ) -> None:
        self.snapshot_ids.append(rewrite.snapshot_id)
        self._lose(rewrite.lost)
        for (group, task_results), result in zip(rewritten, results, strict=True):
            self.not_assembled |= {task.not_assembled for task in task_results} - {""}
            if group.number not in rewrite.lost:
                files = list(by_row(result.added, "location", "file_size_in_bytes", "record_count"))
                sizes = {location: size for location, size, _ in files}
                rows = sum(count for _, _, count in files)
                self.outputs[group.number] = GroupOutput(
                    len(sizes), sum(sizes.values()), rows, _method(group, task_results)
                )
        if rewrite.changes is not None:
            self.removed_delete_files += rewrite.changes.removed_delete_files
            self.carried_deletes += rewrite.changes.carried


def _method(group: CompactGroup, results: Sequence[TaskResult]) -> MethodChoice:
    """Return how a group was compacted: files to merge may turn out not to allow for it."""
    not_merged = [result.not_merged for result in results if result.not_merged]
    if not_merged:
        is_all = len(not_merged) == len(results)
        return MethodChoice("rewrite" if is_all else "auto", not_merged[0])
    return MethodChoice("merge", group.choice.why) if results[0].is_merged else group.choice


def _path(group: CompactGroup, specs: Mapping[int, TypedSpec]) -> str | None:
    """Return the path of a group's partition; None where its files may be in any.

    Vectors of several partitions are in one file, which is in none.
    """
    if group.makes_vectors:
        return ""
    key = group.partition_key
    return None if key is None else partition_of(key, specs[group.spec_id]).path
