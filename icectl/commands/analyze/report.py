"""The plan and the outcome of an analysis, as JSON and as text."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from icectl.catalog.protocol import LoadedTable
from icectl.cli.console import Console
from icectl.cli.document import id_text, print_new_metadata_file
from icectl.cli.tables import TableColumn, print_table
from icectl.commands.analyze.plan import AnalyzePlan, ColumnPass
from icectl.files.theta_sketch import ThetaSketch
from icectl.format.snapshot import PartitionStatisticsFile, StatisticsFile
from icectl.format.types import NestedField
from icectl.units import print_count, print_size


@dataclass(frozen=True, slots=True)
class Analyzed:
    """What an execution has committed: sketches by column id, and the files that hold them."""

    landed: LoadedTable
    sketches: Mapping[int, ThetaSketch]
    statistics: StatisticsFile | None
    partitions: PartitionStatisticsFile | None
    partition_count: int | None


@dataclass(frozen=True, slots=True)
class Analysis:
    """A plan, the engine in words, and the outcome of its execution."""

    plan: AnalyzePlan
    engine: str
    outcome: Analyzed | None = None
    new_metadata_file: str | None = None


def analysis_result(analysis: Analysis) -> dict[str, Any]:
    """Return the JSON members."""
    plan, outcome = analysis.plan, analysis.outcome
    sketches = {} if outcome is None else outcome.sketches
    statistics = None if outcome is None else outcome.statistics
    partitions = None if outcome is None else outcome.partitions
    columns = [
        {
            "name": field.name,
            "field_id": field.id,
            "ndv": _ndv(sketches.get(field.id)),
            "exact": _exact(part, field.id, sketches),
            "sample": part.sample_of(field.id),
            "files": part.file_count,
            "rows": part.row_count,
            "reason": part.reason,
        }
        for part in plan.passes
        for field in part.columns
    ]
    return {
        "snapshot_id": None if plan.snapshot is None else id_text(plan.snapshot.snapshot_id),
        "columns": columns,
        "current": [field.name for field in plan.current],
        "skipped": [
            {"name": field.name, "reason": why} for field, why in (*plan.skipped, *plan.costly)
        ],
        "deleted_rows": "left out" if plan.options.exact_deletes else "counted",
        "read_bytes": plan.read_bytes,
        "statistics_file": None if statistics is None else statistics.statistics_path,
        "partitions": {
            "planned": plan.partitions,
            "count": None if outcome is None else outcome.partition_count,
        },
        "partition_statistics_file": None if partitions is None else partitions.statistics_path,
    }


def _exact(part: ColumnPass, id_: int, sketches: Mapping[int, ThetaSketch]) -> bool | None:
    if id_ not in sketches:
        return None
    return sketches[id_].is_exact and part.sample_of(id_) is None


def _ndv(sketch: ThetaSketch | None) -> int | None:
    return None if sketch is None else int(sketch.estimate)


def analysis_line(analysis: Analysis) -> str:
    """Return what an analysis computes, as one line among other tables."""
    plan = analysis.plan
    columns = sum(len(part.columns) for part in plan.passes)
    words = [f"{print_count(columns, 'column')}, {print_size(plan.read_bytes)} read"]
    if not columns:
        words = []
    if plan.partitions:
        words.append("partitions")
    return "; ".join(words)


def print_analysis(console: Console, analysis: Analysis, *, whole: bool) -> None:
    """Print the columns with what is read or was found; with `-v`, or `whole`, skipped ones too.

    Columns that take too many bytes are always named.
    """
    plan, outcome = analysis.plan, analysis.outcome
    if not plan.has_work:
        which = "all other" if plan.costly else "all"
        why = (
            "the table is empty" if plan.snapshot is None else f"{which} statistics are up to date"
        )
        console.say(f"nothing to do: {why}")
        _print_skipped(console, plan.costly)
        return
    rows = []
    for part in plan.passes:
        read = f"{print_count(part.file_count, 'file')} ({print_size(part.read_bytes)})"
        for field in part.columns:
            sketch = None if outcome is None else outcome.sketches.get(field.id)
            about = "" if sketch is None or sketch.is_exact else "about "
            if part.sample_of(field.id) is not None:
                about = f"at least {about}"
            values = [] if sketch is None else [f"{about}{int(sketch.estimate):,}"]
            rows.append((field.name, *values, read, part.reason))
    if rows:
        counts = [] if outcome is None else [TableColumn("distinct values", "right")]
        read_columns = (TableColumn("read", "right"), TableColumn("reason", cut="wrap"))
        print_table(console, (TableColumn("column"), *counts, *read_columns), rows)
    is_told = whole or console.options.verbosity > 0
    _print_skipped(console, (*(plan.skipped if is_told else ()), *plan.costly))
    if rows:
        deleted = "left out" if plan.options.exact_deletes else "counted until their files go"
        console.say(f"values of deleted rows: {deleted}")
    if plan.partitions:
        count = None if outcome is None else outcome.partition_count
        console.say(
            "counts of each partition would be written"
            if count is None
            else f"counts of {print_count(count, 'partition')} written"
        )
    print_new_metadata_file(console, analysis.new_metadata_file)


def _print_skipped(console: Console, skipped: Sequence[tuple[NestedField, str]]) -> None:
    if skipped:
        console.say()
    for field, why in skipped:
        console.say(f"{field.name}: {why}")
