"""The course of `icectl compact`: options, plan, run, outcome."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Literal, cast, get_args

from icectl.cli.commands.compact import CompactRequest
from icectl.cli.options import Change, Common, RunLimits
from icectl.cli.session import Session, identity_of, open_session, unpublished_metadata
from icectl.cli.settings import (
    COMPACT_ENGINE,
    COMPACT_MASTER,
    Layer,
    parse_count,
    parse_option,
    whole_number,
)
from icectl.cli.spark_options import check_no_spark_options, spark_options
from icectl.engine.choice import AUTO, EngineChoice, choose_engine, confirm_engine
from icectl.engine.compact_job import Engine
from icectl.engine.local import LocalEngine
from icectl.engine.spark_rewrite import SparkEngine
from icectl.errors import CommitConflict, UsageError
from icectl.plan.compact.groups import (
    MAX_GROUP_BYTES,
    MIN_DELETE_RATIO,
    MIN_INPUT_FILES,
    CompactOptions,
    JobOrder,
)
from icectl.plan.compact.order import (
    RowOrder,
    parse_sort_order,
    parse_zorder,
    table_order,
)
from icectl.plan.compact.sizes import sizes_of
from icectl.plan.where import parse_where
from icectl.report.compact import Compaction, GroupOutput, compaction_result, print_compaction
from icectl.report.document import Outcome
from icectl.run.compact.compact import (
    Compacted,
    PreparedCompaction,
    execute,
    prepare,
    remove_leftovers,
)
from icectl.spec.metadata import TableMetadata
from icectl.spec.properties import DELETE_TARGET_FILE_SIZE_BYTES, TARGET_FILE_SIZE_BYTES, read
from icectl.units import parse_ratio, parse_size

COMMAND = "compact"
STRATEGIES = ("binpack", "sort", "zorder")


@dataclass(frozen=True, slots=True)
class CommitLimits:
    """The number of commits that a run makes at most, and of those that may fail before it ends."""

    most: int
    may_fail: int


def run(common: Common, table: str, request: CompactRequest, change: Change) -> Outcome:
    """Plan the compaction and, unless the plan is all that was asked for, run it."""
    options = options_of(request, common.shell.limits)
    commits = _positive("--partial-progress", request.partial_progress) or 1
    if commits > 1 and change.metadata_file is not None:
        message = "`--partial-progress` makes several commits, and `--metadata-file` allows for one"
        raise UsageError(message)
    budget = _count("--max-failed-commits", request.max_failed_commits) or 0
    session = open_session(common, table, read_only=False, change=change)
    choice = _choice(session, request)
    _engine(session, request, choice)  # options that do not go with it show before any work
    prepared = prepare(
        session.access,
        request.branch,
        lambda metadata: replace(options(metadata), only=session.reviewed),
    )
    if prepared.plan.has_work and not (change.dry_run or change.check):
        choice = confirm_engine(choice)
    told = Compaction(
        prepared.plan,
        prepared.files,
        prepared.loaded.metadata,
        prepared.removed_delete_files,
        choice,
    )
    with _engine(session, request, choice) as engine:
        told = replace(told, tasks=engine.counts)
        return _run(session, engine, prepared, told, change, CommitLimits(commits, budget))


def _choice(session: Session, request: CompactRequest) -> EngineChoice:
    """Return the engine to use; merging deletes needs Spark only where that is asked for."""
    settings = session.settings
    asked = settings.read(COMPACT_ENGINE) or AUTO
    by_options = (
        settings.origin(COMPACT_MASTER).layer is Layer.OPTION
        or bool(request.spark_conf)
        or request.remote is not None
    )
    if request.deletes_only and asked == AUTO and not by_options:
        return EngineChoice("local")
    is_there = settings.read(COMPACT_MASTER) is not None or session.spark is not None
    return choose_engine(asked, for_spark=by_options or is_there)


def _engine(
    session: Session, request: CompactRequest, choice: EngineChoice
) -> AbstractContextManager[Engine]:
    """Return the engine that was chosen; it starts nothing before it has work."""
    settings = session.settings
    master = settings.read(COMPACT_MASTER)
    is_asked_for = settings.origin(COMPACT_MASTER).layer is Layer.OPTION
    if choice.name == "spark":
        conf = request.spark_conf or ()
        options = spark_options(
            session, master, conf, is_asked_for=is_asked_for, remote=request.remote
        )
        return SparkEngine(options, session.storage(), session.progress, session.deadline)
    check_no_spark_options(
        master if is_asked_for else None, request.spark_conf or (), request.remote
    )
    return nullcontext(
        LocalEngine(session.store, session.progress, session.deadline, session.concurrency)
    )


def _run(
    session: Session,
    engine: Engine,
    prepared: PreparedCompaction,
    told: Compaction,
    change: Change,
    commits: CommitLimits,
) -> Outcome:
    """Tell the plan, or carry it out."""
    session.approve(lambda: compaction_result(told))
    whole = change.dry_run or change.check
    if not prepared.plan.has_work:
        if not whole:
            remove_leftovers(session.access, prepared)
        return _outcome(session, prepared, told, status="nothing-to-do", whole=whole)
    if whole:
        outcome = _outcome(session, prepared, told, status="planned", whole=True)
        return replace(outcome, exit_code=4) if change.check else outcome
    if told.engine.why:
        session.console.note(str(told.engine))
    try:
        done = execute(
            session.access,
            engine,
            prepared,
            commits=commits.most,
            max_failed_commits=commits.may_fail,
        )
    except CommitConflict:
        if not change.skip_if_busy:
            raise
        untouched = replace(told, plan=replace(prepared.plan, groups=(), dangling=()))
        return _outcome(session, prepared, untouched, status="nothing-to-do", whole=False)
    return _done(session, prepared, told, done)


def _done(
    session: Session, prepared: PreparedCompaction, told: Compaction, done: Compacted
) -> Outcome:
    location = done.landed.metadata_location
    told = replace(
        told,
        is_run=True,
        outputs={
            one.group.number: GroupOutput(one.file_count, one.size_bytes, one.row_count)
            for one in done.done
        },
        failed=done.failed,
        snapshot_ids=done.snapshot_ids,
        removed_delete_files=done.removed_delete_files,
        new_metadata_file=unpublished_metadata(done.landed),
    )
    whole = len(done.done) == len(prepared.plan.groups)
    status: Literal["done", "incomplete"] = "done" if whole else "incomplete"
    outcome = _outcome(session, prepared, told, status=status, whole=False)
    return replace(
        outcome, table=identity_of(prepared.loaded, location), exit_code=0 if whole else 3
    )


def _outcome(
    session: Session,
    prepared: PreparedCompaction,
    told: Compaction,
    *,
    status: Literal["done", "planned", "nothing-to-do", "incomplete"],
    whole: bool,
) -> Outcome:
    listing = whole or session.console.options.verbosity > 0
    return Outcome(
        command=COMMAND,
        result=compaction_result(told),
        render=lambda console: print_compaction(console, told, whole=listing),
        table=identity_of(prepared.loaded),
        status=status,
        dry_run=whole,
    )


def options_of(
    request: CompactRequest, limits: RunLimits
) -> Callable[[TableMetadata], CompactOptions]:
    """Check what the caller asks for, and return what makes options of it for a table.

    Raises: UsageError.
    """
    if request.job_order not in get_args(JobOrder):
        shown = ", ".join(get_args(JobOrder))
        raise UsageError(f"`--job-order` is one of {shown}, not `{request.job_order}`")
    target = _size("--target-file-size", request.target_file_size)
    smallest = _size("--min-file-size", request.min_file_size)
    largest = _size("--max-file-size", request.max_file_size)
    spec_id = _count("--output-spec-id", request.output_spec_id)
    fixed = {
        "min_input_files": _positive("--min-input-files", request.min_input_files)
        or MIN_INPUT_FILES,
        "max_group_bytes": min(
            _size("--max-group-size", request.max_group_size) or MAX_GROUP_BYTES,
            limits.rewritten_bytes or MAX_GROUP_BYTES,
        ),
        "max_bytes": limits.rewritten_bytes,
        "min_delete_files": _positive("--min-delete-files", request.min_delete_files),
        "max_groups": _positive("--max-groups", request.max_groups),
    }
    ratio = _ratio(request.min_delete_ratio)
    _check_strategy(request)
    _check_deletes_only(request)
    property_ = DELETE_TARGET_FILE_SIZE_BYTES if request.deletes_only else TARGET_FILE_SIZE_BYTES

    def of(metadata: TableMetadata) -> CompactOptions:
        """Make the options for a table. Raises: UsageError."""
        where = None if request.where is None else parse_where(request.where, metadata)
        wanted = target or read(metadata.properties, property_)
        return CompactOptions(
            sizes=sizes_of(wanted, smallest, largest),
            output_spec_id=metadata.default_spec_id if spec_id is None else spec_id,
            order=_order(request, metadata),
            where=where,
            min_delete_ratio=ratio,
            every=request.rewrite_all,
            deletes_only=request.deletes_only,
            job_order=cast("JobOrder", request.job_order),  # checked above
            **fixed,  # type: ignore[arg-type]
        )

    return of


def _check_strategy(request: CompactRequest) -> None:
    """Check the strategy and its options.

    Raises: UsageError, for a strategy that there is not or options of another one.
    """
    if request.strategy not in (None, *STRATEGIES):
        shown = ", ".join(STRATEGIES)
        raise UsageError(f"`--strategy` is one of {shown}, not `{request.strategy}`")
    if request.sort_order is not None and _strategy(request) != "sort":
        raise UsageError("`--sort-order` is for `--strategy sort`")
    if request.zorder is not None and _strategy(request) != "zorder":
        raise UsageError("`--zorder` is for `--strategy zorder`")
    if request.zorder is None and _strategy(request) == "zorder":
        hint = "`--zorder a,b` names two or more"
        raise UsageError("`--strategy zorder` wants columns", hint=hint)


def _check_deletes_only(request: CompactRequest) -> None:
    """Check that `--deletes-only` comes without options for data files.

    Raises: UsageError.
    """
    of_data = {
        "--strategy": request.strategy,
        "--sort-order": request.sort_order,
        "--zorder": request.zorder,
        "--max-file-size": request.max_file_size,
        "--min-delete-ratio": request.min_delete_ratio,
        "--output-spec-id": request.output_spec_id,
        "--job-order": None if request.job_order == "none" else request.job_order,
    }
    given = [name for name, value in of_data.items() if value is not None]
    if request.deletes_only and given:
        raise UsageError(f"`{given[0]}` is for data files, which `--deletes-only` leaves alone")


def _strategy(request: CompactRequest) -> str:
    """Return the strategy that was asked for, or the one that the other options are for."""
    if request.strategy is not None:
        return request.strategy
    if request.sort_order is not None:
        return "sort"
    return "binpack" if request.zorder is None else "zorder"


def _order(request: CompactRequest, metadata: TableMetadata) -> RowOrder | None:
    if request.zorder is not None:
        return parse_zorder(request.zorder, metadata)
    if request.sort_order is not None:
        return parse_sort_order(request.sort_order, metadata)
    return table_order(metadata) if _strategy(request) == "sort" else None


def _size(name: str, text: str | None) -> int | None:
    found = parse_option(name, text, parse_size)
    if found is not None and found < 1:
        raise UsageError(f"`{name}` is 0")
    return found


def _count(name: str, text: str | None) -> int | None:
    return None if text is None else whole_number(name, text)


def _positive(name: str, text: str | None) -> int | None:
    return parse_option(name, text, parse_count)


def _ratio(text: str | None) -> float:
    found = parse_option("--min-delete-ratio", text, parse_ratio)
    if found is None:
        return MIN_DELETE_RATIO
    if found <= 0:
        raise UsageError("`--min-delete-ratio` is 0: every file would be rewritten again and again")
    return found
