"""The run of `icectl expire-rows`: find rows, plan, check footers, commit."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import pyarrow.compute as pc

from icectl.catalog.protocol import LoadedTable
from icectl.cli.document import Outcome
from icectl.cli.engines import engine_of
from icectl.cli.options import Change, Common, read_options
from icectl.cli.session import open_session, unpublished_metadata
from icectl.commands.change import Finished, PlannedChange, carry_out
from icectl.commands.expire_rows.options import ExpireRowsRequest
from icectl.commands.expire_rows.plan import (
    MAX_FRACTION,
    ExpireRowsPlan,
    RowFilter,
    expiring_files,
    filter_of,
    over_fraction,
)
from icectl.commands.expire_rows.report import ExpiredRows, expiry_line, expiry_result, print_expiry
from icectl.commands.rows.change import changing
from icectl.commands.rows.deletion import (
    Finder,
    FoundDeletion,
    Rewrite,
    RowDeletion,
    RowSearch,
    SearchedFiles,
)
from icectl.commit.output_journal import Leftovers
from icectl.commit.rewritten_groups import GroupResult
from icectl.commit.snapshot import branch_head
from icectl.commit.transaction import DataOutputs, Outputs, data_places, outputs_of
from icectl.entries.file_verdicts import at_locations
from icectl.entries.may_match import all_match
from icectl.entries.rows import Entries, by_row, take, with_values
from icectl.entries.stats import metric
from icectl.errors import CommitConflict, CorruptTable, SelfCheckFailed, Unsupported
from icectl.files.manifest.schema import check_list_known
from icectl.files.parquet.metrics import FileMetrics, read_metrics
from icectl.format.manifest import FileFormat
from icectl.format.metadata import TableMetadata
from icectl.format.snapshot import Snapshot
from icectl.rows.choice import EngineChoice
from icectl.rows.compact_job import carried_metrics
from icectl.rows.find_job import FindJob, FoundRows
from icectl.rows.jobs import check_output, job_of
from icectl.rows.local import LocalEngine
from icectl.rows.spark_rewrite import SparkEngine
from icectl.storage.kept import KeepingStore
from icectl.table.context import TableContext
from icectl.table.guard import open_to_change
from icectl.table.live_files import LiveFiles, every_column, name_mapping
from icectl.table.own_places import check_foreign_files
from icectl.table.reading import in_threads, naming, present
from icectl.table.reviewed import DELETE_ROWS, Reviewed
from icectl.table.rewrite_tasks import RewriteTask

COMMAND = "expire-rows"
_FOOTER_BYTES = 64 << 10
_PROOFS = ("null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds")


@dataclass(frozen=True, slots=True)
class ExpireRowsOptions:
    """The options of a deletion, as far as they do not depend on the table."""

    branch: str
    where: str | None
    any_filter: bool
    method: str
    verify: str
    max_fraction: float
    now_ms: int
    only: Reviewed | None = None


@dataclass(frozen=True, slots=True)
class PreparedRowExpiry:
    """A plan, the table that it is of, and the search that made it."""

    loaded: LoadedTable
    plan: ExpireRowsPlan
    search: RowSearch


def run(common: Common, table: str, request: ExpireRowsRequest, change: Change) -> Outcome:
    """Plan the deletion and, unless only the plan was asked for, carry it out."""
    ratio = read_options(request)["max_fraction"]
    session = open_session(common, table, read_only=False, change=change)
    context = replace(session.context, store=KeepingStore(session.context.store))
    options = ExpireRowsOptions(
        request.branch,
        request.where,
        request.yes_any_filter,
        request.method,
        request.verify,
        MAX_FRACTION if ratio is None else ratio,
        common.shell.env.now_ms(),
        session.reviewed,
    )
    with engine_of(session, EngineChoice("local"), (), None) as engine:
        assert isinstance(engine, LocalEngine)
        prepared = prepare(context, engine, options)
        report = ExpiredRows(prepared.plan)

        def finish() -> Finished[ExpiredRows]:
            done, landed = execute(context, engine, prepared)
            new_file = unpublished_metadata(landed)
            return Finished(replace(done, new_metadata_file=new_file), landed.metadata_location)

        plan = prepared.plan
        planned = PlannedChange(
            command=COMMAND,
            loaded=prepared.loaded,
            report=report,
            result=expiry_result,
            show=lambda console, shown, whole: print_expiry(console, shown, whole=whole),
            line=expiry_line,
            has_work=plan.has_work,
            execute=finish,
            superseded=lambda: ExpiredRows(replace(plan, dropped=(), emptied=(), changed=())),
            clean_up=lambda: Leftovers(context, (COMMAND,)).remove(prepared.loaded),
            question=f"delete {plan.deleted_row_count:,} rows?",
            refusal=plan.refusal,
        )
        return carry_out(session, change, planned)


def prepare(
    context: TableContext, engine: LocalEngine, options: ExpireRowsOptions
) -> PreparedRowExpiry:
    """Load the table and find the expired rows of a branch; nothing is written.

    Raises: UsageError, for a branch or column that there is not; Refused; Unsupported, where it is
    not known which rows are live, or new files can't be written; CorruptTable; StorageError.
    Cost: the footers of files that are dropped, and the filter's columns of the others.
    """
    loaded = open_to_change(context.catalog)
    metadata = loaded.metadata
    snapshot = branch_head(metadata, options.branch)
    places = DataOutputs(metadata, outputs_of(context.store, context.env, loaded, COMMAND))
    finder = EngineFinder(engine, places)
    return PreparedRowExpiry(loaded, *look(context, finder, metadata, snapshot, options))


def look(
    context: TableContext,
    finder: Finder,
    metadata: TableMetadata,
    snapshot: Snapshot | None,
    options: ExpireRowsOptions,
) -> tuple[ExpireRowsPlan, RowSearch]:
    """Find the expired rows of a snapshot, with the search that did. As prepare.

    `snapshot` is taken for the head of the options' branch.
    """
    chosen = filter_of(metadata, options.where, options.now_ms, any_filter=options.any_filter)
    method = options.method if metadata.format_version > 1 else "rewrite"
    restriction = _Restriction(context, chosen, options)
    search = RowSearch(context, finder, chosen.wanted, restriction.restrict)
    looked = search.look(metadata, snapshot)
    live = search.live_count(looked, options.max_fraction)
    dropped, emptied, changed = map(tuple, expiring_files(looked, search.counted))
    plan = ExpireRowsPlan(
        branch=options.branch,
        snapshot=snapshot,
        filter=chosen,
        method=method,
        verify=options.verify,
        max_fraction=options.max_fraction,
        live_row_count=live,
        dropped=dropped,
        emptied=emptied,
        changed=changed,
        doubted_count=len(restriction.doubted),
        null_count=_null_count(looked.files, chosen),
        other_refs=tuple(sorted(name for name in metadata.refs if name != options.branch)),
    )
    if plan.has_work:
        check_list_known(looked.files.listed)
    if changed:
        keys = {key for (key,) in by_row(looked.files.data, "partition_key")}
        written = keys if method == "rewrite" else ()
        check_output(metadata, None, metadata.default_spec_id, written)
    return plan, search


def _null_count(files: LiveFiles, chosen: RowFilter) -> int | None:
    """Count the rows without a value of the column that a filter needs, before deletes.

    None where not all files say, or there is no such column.
    """
    if chosen.needed is None or files.unread or chosen.needed.field_id is None:
        return None
    counts = metric(files.data, "null_value_counts", chosen.needed.field_id)
    return None if counts.null_count else int(pc.sum(counts, min_count=0).as_py())


@dataclass(frozen=True, slots=True)
class EngineFinder:
    """Finds rows in the workers of an engine."""

    engine: LocalEngine | SparkEngine
    places: DataOutputs

    def find(self, tasks: Sequence[RewriteTask], job: FindJob) -> Sequence[FoundRows]:
        return list(self.engine.find(tasks, job, self.places))


@dataclass(slots=True)
class _Restriction:
    """Files that are dropped whole only with a proof beside that of the manifests.

    `doubted` are locations whose footers do not prove it. Each file is looked at once.
    """

    context: TableContext
    filter: RowFilter
    options: ExpireRowsOptions
    doubted: set[str] = field(default_factory=set)
    _proved: dict[tuple[str, int, int], bool] = field(default_factory=dict)

    def restrict(self, metadata: TableMetadata, chosen: SearchedFiles) -> SearchedFiles:
        """Leave out files that were not reviewed, and have files read that are not proved."""
        whole, partial_ = chosen.whole, chosen.partial
        if self.options.only is not None:
            reviewed = at_locations(chosen.files.data, self.options.only.subjects(DELETE_ROWS))
            whole, partial_ = ([row for row in rows if reviewed[row]] for rows in (whole, partial_))
        if self.options.verify == "rows":
            return replace(chosen, whole=[], partial=sorted([*whole, *partial_]))
        proved = self._with_footers(metadata, take(chosen.files.data, whole))
        doubted = [row for row, is_proved in zip(whole, proved, strict=True) if not is_proved]
        kept = [row for row, is_proved in zip(whole, proved, strict=True) if is_proved]
        return replace(chosen, whole=kept, partial=sorted([*doubted, *partial_]))

    def _with_footers(self, metadata: TableMetadata, data: Entries) -> list[bool]:
        """Return whether the footer of each data file proves that all of its rows match."""
        names = ("location", "file_size_in_bytes", "record_count")
        keys = list(by_row(data, *names))
        fresh = [at for at, key in enumerate(keys) if key not in self._proved]
        if fresh:
            self.context.progress.phase("reading footers", total=len(fresh))
            files = take(data, fresh)
            read = partial(self._metrics, metadata)
            formats = by_row(files, "location", "file_format")
            sizes = [_FOOTER_BYTES] * len(fresh)
            threads = self.context.concurrency
            metrics = list(in_threads(read, list(formats), sizes, threads=threads))
            for name in _PROOFS:
                values = [_carried(found, name) for found in metrics]
                files = with_values(files, name, values)
            # Without specs: what a partition says, which rows may contradict, proves nothing here.
            proved = all_match(files, self.filter.predicate, (), metadata.schemas)
            counts = files.table["record_count"].to_pylist()
            for at, is_proved, found, count in zip(fresh, proved, metrics, counts, strict=True):
                self._proved[keys[at]] = bool(
                    is_proved and found is not None and found.record_count == count
                )
        self.doubted |= {key[0] for key in keys if not self._proved[key]}
        return [self._proved[key] for key in keys]

    def _metrics(self, metadata: TableMetadata, file: tuple[str, int]) -> FileMetrics | None:
        """Read the footer of a Parquet file; None for other files, and footers that say nothing."""
        location, file_format = file
        self.context.progress.advance(1)
        if file_format != FileFormat.PARQUET:
            return None
        try:
            with present(location), self.context.store.open(location) as opened, naming(location):
                found = read_metrics(opened, every_column(metadata), name_mapping(metadata))
        except (CorruptTable, Unsupported):  # reading its rows says what is wrong
            return None
        # An instant that was rounded down may be past a limit that the row itself is not.
        rounded = (found.lower_bounds.keys() | found.upper_bounds.keys()) - found.exact_bounds
        has_rounded = any(column.field_id in rounded for column in self.filter.columns)
        return None if has_rounded else found


def _carried(metrics: FileMetrics | None, name: str) -> object:
    return None if metrics is None else carried_metrics(metrics).get(name)


def execute(
    context: TableContext, engine: LocalEngine, prepared: PreparedRowExpiry
) -> tuple[ExpiredRows, LoadedTable]:
    """Delete the rows of a plan, and those that came since; returns the table after it too.

    Raises: Refused, where other commits made them too many; CommitConflict; CommitUnknown;
    SelfCheckFailed; as prepare.
    """
    loaded, plan = prepared.loaded, prepared.plan
    metadata = loaded.metadata

    def check(looked: FoundDeletion) -> None:
        live = prepared.search.live_count(looked, plan.max_fraction)
        deleted = looked.deleted_rows(prepared.search.counted)
        refusal = over_fraction(deleted, live, plan.max_fraction)
        if refusal is not None:
            raise refusal

    places = data_places(metadata, [None])
    with changing(context, loaded, plan.branch, places, COMMAND) as change:
        rewrite = None
        if plan.method == "rewrite":
            rewrite = rewriter(context, engine, change.opened.outputs)
        deletion = RowDeletion(prepared.search, change, rewrite, check)
        landed = deletion.commit()
    if landed is None:  # others have deleted all of them
        return ExpiredRows(plan, is_done=True), loaded
    done = ExpiredRows(
        plan,
        is_done=True,
        snapshot_id=change.snapshot_id,
        deleted_rows=deletion.deleted_rows,
        removed_files=deletion.removed_files,
        added_files=deletion.added_files,
    )
    return done, landed


def rewriter(context: TableContext, engine: LocalEngine | SparkEngine, outputs: Outputs) -> Rewrite:
    """Return what rewrites files without the rows that go, and compares the other rows."""

    def rewrite(
        metadata: TableMetadata, tasks: Sequence[RewriteTask], without: Sequence[RewriteTask]
    ) -> Sequence[GroupResult]:
        job, places = job_of(metadata, None), DataOutputs(metadata, outputs)
        check_foreign_files(metadata.location, metadata.properties, tasks, context.progress)
        results = []
        rewritten = engine.rewrite(without, job, places)
        for task, deleted, result in zip(tasks, without, rewritten, strict=True):
            (file,) = deleted.inputs
            assert file.vector is not None
            written = int(np.sum(result.entries["record_count"].to_numpy()))
            if result.missing or written != file.record_count - file.vector.record_count:
                raise (
                    CommitConflict(f"`{result.missing}` was removed by another commit")
                    if result.missing
                    else SelfCheckFailed(f"{written:,} rows of {file.location} were written")
                )
            results.append(GroupResult(task.group, (task,), Entries(result.entries)))
        return results

    return rewrite
