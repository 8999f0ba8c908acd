"""The options of `icectl compact`, checked and converted for a table."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast, get_args

from icectl.cli.options import Change, RunLimits
from icectl.cli.settings import parse_count, parse_option, whole_number
from icectl.commands.compact.options import CompactRequest
from icectl.commands.compact.plan import (
    MAX_GROUP_BYTES,
    MIN_DELETE_RATIO,
    MIN_INPUT_FILES,
    CompactOptions,
    JobOrder,
)
from icectl.entries.conditions.where import parse_where
from icectl.errors import UsageError
from icectl.format.metadata import TableMetadata
from icectl.format.properties import DELETE_TARGET_FILE_SIZE_BYTES, TARGET_FILE_SIZE_BYTES, read
from icectl.rows.order import RowOrder, parse_sort_order, parse_zorder, table_order
from icectl.table.output_sizes import sizes_of
from icectl.units import parse_ratio, parse_size

STRATEGIES = ("binpack", "sort", "zorder")


@dataclass(frozen=True, slots=True)
class CommitLimits:
    """The most commits of a run, and how many of them may fail before it ends."""

    most: int
    may_fail: int


def commit_limits(request: CompactRequest, change: Change) -> CommitLimits:
    """Return the limits that were asked for, one commit by default. Raises: UsageError."""
    commits = _positive("--partial-progress", request.partial_progress) or 1
    if commits > 1 and change.metadata_file is not None:
        message = "`--partial-progress` makes several commits, and `--metadata-file` allows for one"
        raise UsageError(message)
    return CommitLimits(commits, _count("--max-failed-commits", request.max_failed_commits) or 0)


def options_of(
    request: CompactRequest, limits: RunLimits
) -> Callable[[TableMetadata], CompactOptions]:
    """Check the options as given, and return a function that converts them for a table.

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
    present = [name for name, value in of_data.items() if value is not None]
    if request.deletes_only and present:
        raise UsageError(f"`{present[0]}` is for data files, which `--deletes-only` leaves alone")


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
    size = parse_option(name, text, parse_size)
    if size is not None and size < 1:
        raise UsageError(f"`{name}` is 0")
    return size


def _count(name: str, text: str | None) -> int | None:
    return None if text is None else whole_number(name, text)


def _positive(name: str, text: str | None) -> int | None:
    return parse_option(name, text, parse_count)


def _ratio(text: str | None) -> float:
    ratio = parse_option("--min-delete-ratio", text, parse_ratio)
    if ratio is None:
        return MIN_DELETE_RATIO
    if ratio <= 0:
        raise UsageError("`--min-delete-ratio` is 0: every file would be rewritten again and again")
    return ratio
