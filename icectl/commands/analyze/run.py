"""The run of `icectl analyze`: load, plan, read columns, write statistics files, commit."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial

from icectl.catalog.protocol import LoadedTable
from icectl.cli.document import Outcome
from icectl.cli.engines import engine_of
from icectl.cli.options import Change, Common
from icectl.cli.session import open_session, unpublished_metadata
from icectl.commands.analyze.options import AnalyzeRequest
from icectl.commands.analyze.parsed_options import options_of
from icectl.commands.analyze.plan import (
    AnalyzeOptions,
    AnalyzePlan,
    AnalyzeReads,
    ColumnPass,
    chosen_columns,
    plan_passes,
    within_cost,
)
from icectl.commands.analyze.report import (
    Analysis,
    Analyzed,
    analysis_line,
    analysis_result,
    print_analysis,
)
from icectl.commands.change import Finished, PlannedChange, carry_out
from icectl.commit.output_journal import Leftovers
from icectl.commit.partition_counts import write_counts
from icectl.commit.snapshot import branch_head
from icectl.commit.transaction import DataOutputs, Outputs, Proposal, transaction
from icectl.entries.rows import Entries, data_files, live
from icectl.entries.summary import PARTITION_SOURCES
from icectl.errors import CommitConflict, CorruptTable, MissingFile, Unsupported
from icectl.files.puffin import NewBlob, footer_size, read_puffin, write_puffin
from icectl.files.theta_sketch import BLOB_TYPE, NO_VALUES, ThetaSketch, read_sketch, union
from icectl.format.locations import location_in, scheme_of_entries
from icectl.format.manifest import ManifestFile
from icectl.format.metadata import TableMetadata
from icectl.format.schema import Schema
from icectl.format.snapshot import PartitionStatisticsFile, Snapshot, StatisticsFile
from icectl.format.updates import SetPartitionStatistics, SetStatistics, Update
from icectl.rows.choice import choose_engine, confirm_engine, weigh_engine
from icectl.rows.compact_job import typed_specs
from icectl.rows.count_distinct import SketchJob
from icectl.rows.local import LocalEngine
from icectl.rows.rewrite_data import TableColumns
from icectl.rows.spark_rewrite import SparkEngine
from icectl.table.context import TableContext
from icectl.table.guard import open_to_change
from icectl.table.live_files import check_deletes, every_column, load_live_files, name_mapping
from icectl.table.manifest_lists import read_snapshot_manifests
from icectl.table.manifests import load_entries
from icectl.table.partition_statistics import count_partitions, counts_since, partition_type
from icectl.table.rewrite_tasks import DeleteFile, InputFile, TaskMaker, data_inputs
from icectl.table.statistics import (
    READ_COLUMNS,
    ROWS_REMOVED,
    ROWS_SEEN,
    SAMPLE,
    KnownSketch,
    KnownStatistics,
    changed_files,
    has_rows_of,
    newest_statistics,
    read_statistics,
)

COMMAND = "analyze"


@dataclass(frozen=True, slots=True)
class PreparedAnalysis:
    """A plan, and the table that it is of; an empty one has no entries."""

    loaded: LoadedTable
    plan: AnalyzePlan
    entries: "_Entries | None" = None


@dataclass(frozen=True)
class _Entries:
    """The entries of a snapshot, read where they are asked for, and once."""

    context: TableContext
    metadata: TableMetadata
    snapshot: Snapshot

    @cached_property
    def manifests(self) -> tuple[ManifestFile, ...]:
        return read_snapshot_manifests(self.context.store, self.metadata, self.snapshot)

    @cached_property
    def loaded(self) -> Entries:
        columns = READ_COLUMNS | PARTITION_SOURCES
        return load_entries(self.context, self.metadata, self.manifests, columns)

    def every(self) -> Entries:
        return data_files(live(self.loaded))


def run(common: Common, table: str, request: AnalyzeRequest, change: Change) -> Outcome:
    """Plan the analysis and, unless only the plan was asked for, carry it out."""
    options = options_of(request)
    session = open_session(common, table, read_only=False, change=change)
    context = session.context
    for_spark = bool(request.master or request.remote or request.spark_conf)
    choice = choose_engine(request.engine, for_spark=for_spark)
    spark = request.spark_conf or (), request.remote
    engine_of(session, choice, *spark)  # refuses options of another engine before any work
    loaded = open_to_change(context.catalog)
    prepared = prepare(context, loaded, request.branch, options)
    choice = weigh_engine(choice, prepared.plan.read_bytes)
    if prepared.plan.read_bytes and not (change.dry_run or change.check):
        choice = confirm_engine(choice)
    report = Analysis(prepared.plan, str(choice))
    with engine_of(session, choice, *spark) as engine:

        def finish() -> Finished[Analysis]:
            analyzed = execute(context, engine, prepared)
            new_file = unpublished_metadata(analyzed.landed)
            done = replace(report, outcome=analyzed, new_metadata_file=new_file)
            return Finished(done, analyzed.landed.metadata_location)

        planned = PlannedChange(
            command=COMMAND,
            loaded=prepared.loaded,
            report=report,
            result=analysis_result,
            show=lambda console, shown, whole: print_analysis(console, shown, whole=whole),
            line=analysis_line,
            has_work=prepared.plan.has_work,
            execute=finish,
            superseded=lambda: Analysis(AnalyzePlan(None, options), str(choice)),
            clean_up=lambda: Leftovers(context, (COMMAND,)).remove(prepared.loaded),
        )
        return carry_out(session, change, planned)


def prepare(
    context: TableContext, loaded: LoadedTable, branch: str, options: AnalyzeOptions
) -> PreparedAnalysis:
    """Plan the analysis of a branch's head; nothing is written.

    Raises: UsageError, for a branch or column that there is not; CorruptTable, Unsupported,
    StorageError, where manifests, or the statistics to build on, cannot be read.
    """
    metadata = loaded.metadata
    snapshot = branch_head(metadata, branch)
    fields, skipped = chosen_columns(metadata, options)
    if snapshot is None:
        return PreparedAnalysis(loaded, AnalyzePlan(None, options, skipped=skipped))
    entries = _Entries(context, metadata, snapshot)
    plan = AnalyzePlan(snapshot, options, skipped=skipped if options.of_columns else ())
    if options.of_columns:
        known = _known(context, metadata, snapshot, options)
        if options.refresh:
            of_known = _described_columns(newest_statistics(metadata, snapshot))
            fields = tuple(field for field in fields if field.id in of_known)
        if options.columns is None and options.most_column_bytes is not None:
            fields, costly = within_cost(fields, entries.every(), options.most_column_bytes)
            plan = replace(plan, costly=costly)
        files = AnalyzeReads(
            lambda before: has_rows_of(metadata, snapshot.snapshot_id, before.snapshot_id),
            entries.every,
            lambda before: changed_files(context, metadata, before, entries.manifests),
            _with_deletes(entries) if options.exact_deletes else _without_deletes,
        )
        anew = options.full or options.exact_deletes
        passes, current = plan_passes(snapshot, fields, None if anew else known, options, files)
        own = None if not passes else _own(context, metadata, snapshot, options, known)
        plan = replace(plan, passes=passes, current=current, known=known, own=own)
    plan = replace(plan, partitions=_are_partitions_due(context, metadata, snapshot, options))
    return PreparedAnalysis(loaded, plan, entries)


def _are_partitions_due(
    context: TableContext, metadata: TableMetadata, snapshot: Snapshot, options: AnalyzeOptions
) -> bool:
    """Return whether partitions are counted; warn where no file could hold the counts."""
    of_snapshots = {file.snapshot_id for file in metadata.partition_statistics}
    if not options.of_partitions or not any(spec.fields for spec in metadata.partition_specs):
        return False
    if options.refresh and not of_snapshots:
        return False
    if not options.full and snapshot.snapshot_id in of_snapshots:
        return False
    try:
        partition_type(metadata)
    except Unsupported as error:
        context.progress.warn(f"no partition statistics: {error.message}")
        return False
    return True


def _described_columns(file: StatisticsFile | None) -> frozenset[int]:
    """Return the columns that a statistics file has sketches of, as the metadata says."""
    blobs = () if file is None else file.blob_metadata
    of_sketches = (blob for blob in blobs if blob.get("type") == BLOB_TYPE)
    return frozenset(
        id_ for blob in of_sketches for id_ in blob.get("fields") or () if isinstance(id_, int)
    )


def _known(
    context: TableContext, metadata: TableMetadata, snapshot: Snapshot, options: AnalyzeOptions
) -> KnownStatistics | None:
    """Read the newest statistics. Raises: as read_statistics, unless all is computed again."""
    file = newest_statistics(metadata, snapshot)
    return None if file is None else _read(context, metadata, file, options)


def _own(
    context: TableContext,
    metadata: TableMetadata,
    snapshot: Snapshot,
    options: AnalyzeOptions,
    known: KnownStatistics | None,
) -> KnownStatistics | None:
    """Read the file that the new one replaces, if it is not `known`: it may be another writer's."""
    of_snapshot = [file for file in metadata.statistics if file.snapshot_id == snapshot.snapshot_id]
    if not of_snapshot or (known is not None and known.file in of_snapshot):
        return None
    return _read(context, metadata, of_snapshot[-1], options)


def _read(
    context: TableContext, metadata: TableMetadata, file: StatisticsFile, options: AnalyzeOptions
) -> KnownStatistics | None:
    try:
        return read_statistics(context, metadata, file)
    except (CorruptTable, MissingFile, Unsupported) as error:
        if not (options.full or options.refresh):
            error.hint = "`icectl analyze TABLE --full` computes all statistics again"
            raise
        context.progress.warn(f"older statistics are not kept: {error.message}")
        return None


def _without_deletes(data: Entries) -> tuple[tuple[InputFile, ...], tuple[DeleteFile, ...]]:
    return data_inputs(data), ()


def _with_deletes(
    entries: _Entries,
) -> Callable[[Entries], tuple[tuple[InputFile, ...], tuple[DeleteFile, ...]]]:
    """Return what finds the deletes of all data files of a snapshot."""

    def inputs(data: Entries) -> tuple[tuple[InputFile, ...], tuple[DeleteFile, ...]]:
        from icectl.rows.named_files import read_names  # only where deletes count

        names = partial(read_names, entries.context)
        files = load_live_files(entries.context, entries.metadata, entries.snapshot, {}, names)
        places = {
            location: row for row, location in enumerate(files.data.table["location"].to_pylist())
        }
        rows = [places[location] for location in data.table["location"].to_pylist()]
        check_deletes(files, rows)
        return TaskMaker(files.data, files.deletes, files.index, rows).inputs(rows, None)

    return inputs


def execute(
    context: TableContext, engine: LocalEngine | SparkEngine, prepared: PreparedAnalysis
) -> Analyzed:
    """Compute the statistics of a plan, and commit them.

    Raises: CommitConflict, where the snapshot has expired since, or others have named statistics of
    it; as prepare; what reading data files raises.
    """
    loaded, plan = prepared.loaded, prepared.plan
    snapshot = plan.snapshot
    assert snapshot is not None
    with transaction(context, loaded, COMMAND) as opened:
        outputs = opened.outputs
        statistics, sketches = _column_statistics(context, engine, prepared, outputs)
        partitions, count = None, None
        if plan.partitions and prepared.entries is not None:
            partitions, count = _partition_statistics(
                prepared.entries, outputs, is_full=plan.options.full
            )
        updates: list[Update] = []
        if statistics is not None:
            updates.append(SetStatistics(statistics))
        if partitions is not None:
            updates.append(SetPartitionStatistics(partitions))

        def propose(metadata: TableMetadata) -> Proposal:
            if metadata.snapshot(snapshot.snapshot_id) is None:
                raise CommitConflict(
                    f"snapshot {snapshot.snapshot_id} expired while its statistics were computed",
                    hint="run the command again",
                )
            if _described(metadata, snapshot) != _described(loaded.metadata, snapshot):
                raise CommitConflict(
                    f"another writer has committed statistics of snapshot {snapshot.snapshot_id}",
                    hint="check for missing statistics with `icectl analyze TABLE --check`",
                )
            return Proposal(updates, frozenset(outputs.locations))

        landed = opened.commit(propose)
    return Analyzed(landed, sketches, statistics, partitions, count)


def _described(metadata: TableMetadata, snapshot: Snapshot) -> list[str]:
    """Return the files that have statistics of a snapshot."""
    files: list[StatisticsFile | PartitionStatisticsFile] = list(metadata.statistics)
    files += metadata.partition_statistics
    return [file.statistics_path for file in files if file.snapshot_id == snapshot.snapshot_id]


def _column_statistics(
    context: TableContext,
    engine: LocalEngine | SparkEngine,
    prepared: PreparedAnalysis,
    outputs: Outputs,
) -> tuple[StatisticsFile | None, Mapping[int, ThetaSketch]]:
    """Read columns and write their sketches; a file of the same rows is named again as it is."""
    plan, metadata = prepared.plan, prepared.loaded.metadata
    snapshot = plan.snapshot
    if not plan.passes or snapshot is None:
        return None, {}
    known = plan.known
    is_read = any(part.tasks or part.removed or not part.known for part in plan.passes)
    if known is not None and plan.own is None and not is_read:
        sketches = {id_: item.sketch for id_, item in known.sketches.items()}
        return replace(known.file, snapshot_id=snapshot.snapshot_id), sketches
    new_blobs: dict[int, NewBlob] = {}
    found: dict[int, ThetaSketch] = {}
    for part in plan.passes:
        of_part = _sketches(engine, metadata, part, outputs)
        for field in part.columns:
            before = part.known.get(field.id)
            parts = [of_part[field.id], *([] if before is None else [before.sketch])]
            found[field.id] = union(parts)
            new_blobs[field.id] = _blob(snapshot, part, before, field.id, found[field.id])
    kept = [] if known is None else _kept(known, snapshot, metadata.current_schema, new_blobs)
    if plan.own is not None:
        kept += _kept(plan.own, snapshot, metadata.current_schema, new_blobs)
    content = write_puffin([*(new_blobs[id_] for id_ in sorted(new_blobs)), *kept], {})
    location = outputs.statistics(snapshot.snapshot_id)
    with context.store.open_new(location) as file:
        file.write(content)
    blobs = tuple(
        {
            "type": blob.type,
            "snapshot-id": blob.snapshot_id,
            "sequence-number": blob.sequence_number,
            "fields": list(blob.fields),
            **({"properties": dict(blob.properties)} if blob.properties else {}),
        }
        for blob in read_puffin(content).blobs
    )
    size = footer_size(content)
    named = location_in(metadata, location)
    return StatisticsFile(snapshot.snapshot_id, named, len(content), size, blobs), found


def _sketches(
    engine: LocalEngine | SparkEngine, metadata: TableMetadata, part: ColumnPass, outputs: Outputs
) -> Mapping[int, ThetaSketch]:
    """Read the files of a pass, and unite the sketches of its tasks."""
    written = Schema(metadata.current_schema_id, part.columns)
    columns = TableColumns(written, every_column(metadata), name_mapping(metadata))
    job = SketchJob(columns, typed_specs(metadata), scheme_of_entries(metadata))
    found = list(engine.sketch(part.tasks, job, DataOutputs(metadata, outputs)))
    return {
        field.id: union(read_sketch(task.sketches[field.id]) for task in found) if found
        else NO_VALUES
        for field in part.columns
    }  # fmt: skip


def _blob(
    snapshot: Snapshot, part: ColumnPass, before: KnownSketch | None, id_: int, sketch: ThetaSketch
) -> NewBlob:
    seen, removed = part.row_count, 0
    if before is not None:
        seen += part.rows_seen(before)
        removed = before.rows_removed + part.removed
    properties = {
        "ndv": str(int(sketch.estimate)),
        ROWS_SEEN: str(seen),
        ROWS_REMOVED: str(removed),
    }
    sample = part.sample_of(id_)
    if sample is not None:
        properties[SAMPLE] = f"{sample:g}"
    number = snapshot.sequence_number
    content = sketch.to_bytes()
    return NewBlob(BLOB_TYPE, (id_,), snapshot.snapshot_id, number, content, "zstd", properties)


def _kept(
    known: KnownStatistics, snapshot: Snapshot, schema: Schema, new: Mapping[int, NewBlob]
) -> list[NewBlob]:
    """Return the blobs of an older file that are kept byte for byte.

    Those of other kinds are of their snapshot alone; sketches of columns that the table still has
    tell about older rows, which is better than nothing.
    """
    kept = []
    for blob, stored in known.blobs:
        is_sketch = blob.type == BLOB_TYPE and len(blob.fields) == 1
        if is_sketch and (blob.fields[0] in new or schema.field(blob.fields[0]) is None):
            continue
        if not is_sketch and known.file.snapshot_id != snapshot.snapshot_id:
            continue
        kept.append(
            NewBlob(
                blob.type,
                blob.fields,
                blob.snapshot_id,
                blob.sequence_number,
                stored,
                blob.compression_codec,
                blob.properties,
                is_stored=True,
            )
        )
    return kept


def _partition_statistics(
    entries: _Entries, outputs: Outputs, *, is_full: bool
) -> tuple[PartitionStatisticsFile, int]:
    """Count entries by partition, and write the counts; second: how many partitions there are."""
    snapshot, metadata = entries.snapshot, entries.metadata
    counts = None
    if not is_full:
        counts = counts_since(entries.context, metadata, snapshot, entries.manifests)
    if counts is None:
        counts = count_partitions(metadata, entries.loaded)
    file = write_counts(entries.context, metadata, outputs, snapshot.snapshot_id, counts)
    return file, len(counts.table)
