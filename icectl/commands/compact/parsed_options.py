"""The options of `icectl compact`, checked and converted for a table."""

from collections.abc import Callable
from dataclasses import replace
from typing import cast

from icectl.cli.options import Change, RunLimits, read_options
from icectl.cli.settings import (
    COMPACT_ENGINE,
    COMPACT_MASTER,
    COMPACT_MERGE_ROW_GROUP,
    COMPACT_METHOD,
    COMPACT_VERIFY,
    Layer,
    Settings,
)
from icectl.commands.compact.clustering import MIN_DEPTH, SORT_RATIO
from icectl.commands.compact.options import CompactRequest
from icectl.commands.compact.plan_options import (
    MAX_GROUP_BYTES,
    MIN_DELETE_FILES,
    MIN_DELETE_RATIO,
    MIN_INPUT_FILES,
    CompactOptions,
    JobOrder,
)
from icectl.entries.conditions import parse_where
from icectl.errors import UsageError
from icectl.format.metadata import TableMetadata
from icectl.format.properties import DELETE_TARGET_FILE_SIZE_BYTES, TARGET_FILE_SIZE_BYTES, read
from icectl.rows.choice import AUTO, EngineChoice, choose_engine
from icectl.rows.sort_rows import (
    RowOrder,
    parse_sort_order,
    parse_zorder,
    table_order,
    usable_table_order,
)
from icectl.table.mergeable import MERGE_ROW_GROUP_BYTES
from icectl.table.output_sizes import sizes_of
from icectl.table.rewrite_tasks import Method

_CURVES = ("zorder", "hilbert")


def commit_limits(request: CompactRequest, change: Change) -> tuple[int, int]:
    """Return the most commits, and how many may fail before a run ends. Raises: UsageError."""
    values = read_options(request)
    commits: int = values["partial_progress"] or 1
    if commits > 1 and change.metadata_file is not None:
        raise UsageError(
            "`--partial-progress` makes several commits, and `--metadata-file` allows only one"
        )
    return commits, values["max_failed_commits"] or 0


def options_of(
    request: CompactRequest, limits: RunLimits
) -> Callable[[TableMetadata], CompactOptions]:
    """Check the options as given, and return a function that converts them for a table.

    Raises: UsageError.
    """
    values = read_options(request)
    spec_id, ratio = values["output_spec_id"], values["min_delete_ratio"]
    strategy = _strategy(request)
    if request.sort_order is not None and request.zorder is not None:
        raise UsageError(
            "`--sort-order` and `--zorder` cannot be used together",
            hint="sort by keys with `--sort-order`, or cluster by columns with `--zorder`",
        )
    for name, value, needed in (
        ("--sort-order", request.sort_order, ("sort",)), ("--zorder", request.zorder, _CURVES)
    ):  # fmt: skip
        if value is not None and strategy not in needed:
            raise UsageError(
                f"`{name}` cannot be used with `--strategy {strategy}`",
                hint=f"use `--strategy {needed[0]}`, which `{name}` implies",
            )
    if request.zorder is None and strategy in _CURVES:
        hint = "`--zorder a,b` names two or more"
        raise UsageError(f"`--strategy {strategy}` needs columns", hint=hint)
    _check_deletes_only(request)
    least_delete_files = None if request.deletes_only else MIN_DELETE_FILES
    property_ = DELETE_TARGET_FILE_SIZE_BYTES if request.deletes_only else TARGET_FILE_SIZE_BYTES

    budgets = (values["max_rewrite"], limits.rewritten_bytes)
    most_bytes = [size for size in budgets if size is not None]

    def of(metadata: TableMetadata) -> CompactOptions:
        """Make the options for a table. Raises: UsageError."""
        where = None if request.where is None else parse_where(request.where, metadata)
        order: RowOrder | None = None
        if request.zorder is not None:
            is_hilbert = strategy == "hilbert"
            order = parse_zorder(request.zorder, metadata, is_hilbert=is_hilbert)
        elif request.sort_order is not None:
            order = parse_sort_order(request.sort_order, metadata)
        elif strategy == "sort":
            order = table_order(metadata)
        elif strategy == "auto" and not (request.deletes_only or request.repartition):
            order = usable_table_order(metadata)
        target = values["target_file_size"] or read(metadata.properties, property_)
        return CompactOptions(
            sizes=sizes_of(target, values["min_file_size"], values["max_file_size"]),
            output_spec_id=metadata.default_spec_id if spec_id is None else spec_id,
            order=order,
            where=where,
            min_delete_ratio=MIN_DELETE_RATIO if ratio is None else ratio,
            every=request.rewrite_all,
            deletes_only=request.deletes_only,
            steps=values["partial_progress"] or 1,
            job_order=cast("JobOrder", request.job_order),  # the option takes nothing else
            min_input_files=values["min_input_files"] or MIN_INPUT_FILES,
            max_group_bytes=min([values["max_group_size"] or MAX_GROUP_BYTES, *most_bytes]),
            max_bytes=min(most_bytes, default=None),
            min_depth=values["min_depth"] or MIN_DEPTH,
            sort_ratio=values["sort_ratio"] or SORT_RATIO,
            min_delete_files=values["min_delete_files"] or least_delete_files,
            max_groups=values["max_groups"],
        )

    return of


def with_method(
    options: CompactOptions, request: CompactRequest, settings: Settings
) -> CompactOptions:
    """Return the options with how files become new ones.

    Raises: UsageError, where merges alone are to sort rows.
    """
    method = cast("Method", settings.read(COMPACT_METHOD))  # the setting takes nothing else
    if method == "merge" and _strategy(request) == "auto":
        options = replace(options, order=None)
    elif method == "merge" and _strategy(request) != "binpack":
        raise UsageError("`--method merge` cannot sort rows")
    if method == "merge" and request.repartition:
        raise UsageError("`--method merge` cannot move rows to other partitions")
    return replace(
        options,
        method="rewrite" if request.repartition else method,
        repartition=request.repartition,
        merge_row_group=settings.read(COMPACT_MERGE_ROW_GROUP) or MERGE_ROW_GROUP_BYTES,
        verifies_rows=settings.read(COMPACT_VERIFY) == "rows",
    )


def engine_choice(
    settings: Settings, request: CompactRequest, *, has_session: bool = False
) -> EngineChoice:
    """Return the engine; only many equality deletes use Spark without a request."""
    engine = settings.read(COMPACT_ENGINE)
    by_options = (
        settings.origin(COMPACT_MASTER).layer is Layer.OPTION
        or bool(request.spark_conf)
        or request.remote is not None
    )
    has_spark = settings.read(COMPACT_MASTER) is not None or has_session
    choice = choose_engine(engine, for_spark=by_options or has_spark)
    if request.deletes_only and engine == AUTO and not by_options:
        return replace(choice, why="", is_tentative=True)
    return choice


def _check_deletes_only(request: CompactRequest) -> None:
    """Check that `--deletes-only` comes without options for data files. Raises: UsageError."""
    of_data = {
        "--strategy": request.strategy,
        "--sort-order": request.sort_order,
        "--zorder": request.zorder,
        "--min-depth": request.min_depth,
        "--sort-ratio": request.sort_ratio,
        "--max-file-size": request.max_file_size,
        "--min-delete-ratio": request.min_delete_ratio,
        "--output-spec-id": request.output_spec_id,
        "--job-order": None if request.job_order == "none" else request.job_order,
        "--method": request.method,
        "--merge-row-group": request.merge_row_group,
        "--verify": request.verify,
        "--repartition": request.repartition or None,
    }
    present = [name for name, value in of_data.items() if value is not None]
    if request.deletes_only and present:
        raise UsageError(
            f"`{present[0]}` is for data files, which `--deletes-only` does not change",
            hint=f"leave out `{present[0]}`, or `--deletes-only`",
        )


def _strategy(request: CompactRequest) -> str:
    """Return the strategy of its option, or of the options that imply one."""
    if request.strategy is not None:
        return request.strategy
    if request.sort_order is not None:
        return "sort"
    return "binpack" if request.zorder is None else "zorder"
