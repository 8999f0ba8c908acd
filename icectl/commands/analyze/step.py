"""What `icectl analyze --refresh` would do to a table, in figures."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from icectl.commands.analyze.options import AnalyzeRequest
from icectl.commands.analyze.parsed_options import options_of
from icectl.commands.analyze.plan import AnalyzePlan, changed_ratio
from icectl.commands.bill import Work, gets_in_ranges
from icectl.commands.sight import Sight
from icectl.commands.steps import HealthCheck, Judgement, Limit, Measure, Step, first_error
from icectl.errors import CorruptTable
from icectl.format.metadata import TableMetadata
from icectl.units import print_count, print_instant, print_size

COMMAND = "analyze"

_BYTES_OF_SKETCH = 32 << 10
"""Bytes of the sketch of a column with many values."""


@dataclass(frozen=True, slots=True)
class StatisticsFigures:
    """The statistics of a table, and what brings them up to date.

    Those of columns were computed of a snapshot of `of_ms`. `stale_columns` are to be computed
    again, from `read_bytes` of data files. `changed` is the ratio of the rows whose files came or
    went since.
    """

    columns: int = 0
    of_ms: int | None = None
    stale_columns: int = 0
    has_partitions: bool = False
    partitions_are_stale: bool = False
    changed: float = 0.0
    read_bytes: int = 0


def plan(sight: Sight, request: AnalyzeRequest) -> Judgement:
    """Plan an analysis; a table that has no statistics needs none, unless columns are named."""
    metadata, context = sight.metadata, sight.reader.context
    needs_none = request.refresh and not metadata.every_statistics
    if metadata.current_snapshot is None or needs_none:
        return Judgement(StatisticsFigures())
    from icectl.commands.analyze.run import prepare  # few tables have statistics

    error = first_error(sight.check_base)
    if isinstance(error, CorruptTable):
        return Judgement(StatisticsFigures(), error=error)
    prepared = prepare(context, sight.reader.loaded, request.branch, options_of(request)).plan
    stale = sum(len(part.columns) for part in prepared.passes)
    known = prepared.known and metadata.snapshot(prepared.known.file.snapshot_id)
    figures = StatisticsFigures(
        columns=len(prepared.current) + stale,
        of_ms=known.timestamp_ms if known else None,
        stale_columns=stale,
        has_partitions=bool(metadata.partition_statistics),
        partitions_are_stale=prepared.partitions,
        read_bytes=prepared.read_bytes,
    )
    if not prepared.has_work:
        return Judgement(figures)
    bases = _bases(metadata, prepared)
    assert prepared.snapshot is not None
    ratios = [changed_ratio(metadata, prepared.snapshot, base) for base in bases]
    figures = replace(figures, changed=max(ratios))
    options = ("--refresh",) if request.refresh else ()
    measure = Measure("stale-statistics", figures.changed, _stale(figures))
    stands_on = frozenset[int]().union(*bases)
    work = sight.run_work + Work(
        decoded_bytes=figures.read_bytes,
        written_bytes=stale * _BYTES_OF_SKETCH,
        # their ends twice
        get_requests=prepared.read_files + gets_in_ranges(prepared.read_bytes, prepared.read_files),
        put_requests=bool(stale) + prepared.partitions,
    )
    return Judgement(
        figures, (measure,), error=error, options=options, stands_on=stands_on, work=work
    )


def _bases(metadata: TableMetadata, prepared: AnalyzePlan) -> list[set[int]]:
    """Return the snapshots that statistics which are stale were computed of, part by part."""
    bases = [
        {sketch.snapshot.snapshot_id for sketch in part.known.values()} for part in prepared.passes
    ]
    if prepared.partitions:
        bases.append({file.snapshot_id for file in metadata.partition_statistics})
    return bases


def _stale(figures: StatisticsFigures) -> str:
    parts = [print_count(figures.stale_columns, "column")] if figures.stale_columns else []
    parts += ["partitions"] if figures.partitions_are_stale else []
    what = f"statistics of {' and '.join(parts)} out of date"
    text = f"{what}, files with {figures.changed:.0%} of the rows were added or removed"
    return f"{text}, {print_size(figures.read_bytes)} to read" if figures.read_bytes else text


def _found(figures: StatisticsFigures) -> str:
    if figures.stale_columns or figures.partitions_are_stale:
        of = f" (of {print_instant(figures.of_ms)})" if figures.of_ms is not None else ""
        return _stale(figures) + of
    parts = [f"of {print_count(figures.columns, 'column')}"] if figures.columns else []
    parts += ["of partitions"] if figures.has_partitions else []
    return f"statistics {' and '.join(parts)}, up to date" if parts else "no statistics"


def _members(figures: StatisticsFigures) -> Mapping[str, object]:
    return {
        "column_count": figures.columns,
        "computed_of": None if figures.of_ms is None else print_instant(figures.of_ms),
        "stale_column_count": figures.stale_columns,
        "has_partition_statistics": figures.has_partitions,
        "partition_statistics_stale": figures.partitions_are_stale,
        "changed_ratio": figures.changed,
        "read_bytes": figures.read_bytes,
    }


_LIMIT = Limit(
    "stale-statistics",
    "of the rows",
    "refresh statistics if this ratio of rows or more has changed",
    is_ratio=True,
)

STEP: Step = Step(
    COMMAND,
    AnalyzeRequest,
    lambda _settings, _now_ms, request: options_of(request),
    plan,
    StatisticsFigures(),
    (_LIMIT,),
    (HealthCheck("statistics", "statistics", (_LIMIT.name,), _found, _members),),
    not_in_policies={
        "branch": None,
        "full": None,
        "sample": None,
        "exact-deletes": None,
        "refresh": None,
    },
    with_limits=lambda request, _: replace(request, refresh=request.columns is None),
)
