"""Rules of counts in metrics, and the metrics maps as arrays."""

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from icectl.checks.bound_types import top_level_ids
from icectl.checks.columns import Columns, Numbers, merge_faults
from icectl.checks.objects import in_entries
from icectl.checks.rule import Rule
from icectl.format.manifest import FileFormat
from icectl.format.rule import COMPACT, OURS, REWRITE_MANIFESTS, WRITE_DELETES_AGAIN, Fault

Places = npt.NDArray[np.int64]

_ROOM_PER_PAIR = 16
"""How much larger than both maps a table of all rows and fields may be, to look pairs up in."""


@dataclass(frozen=True, slots=True)
class MetricPairs:
    """All keys of a metrics map with their values, one row after the other.

    `ends[row]` is where the pairs of a row end.
    """

    ends: Places
    field_ids: npt.NDArray[np.int32]
    values: pa.Array

    def __len__(self) -> int:
        return len(self.field_ids)

    def rows(self, places: Places) -> Places:
        """Return the rows that these pairs belong to."""
        return np.searchsorted(self.ends, places, side="right").astype(np.int64)

    def keys(self, width: int) -> Places:
        """Row and field of each pair in one number; ids are below `width`."""
        lengths = np.diff(self.ends, prepend=0)
        firsts = np.arange(len(self.ends)) * width
        return np.repeat(firsts, lengths) + self.field_ids.view(np.uint32)


def pairs(columns: Columns, name: str) -> MetricPairs:
    """Return the pairs of a map column that is in one piece. Order: row, then as stored."""
    column = columns.table[name]
    if column.null_count == len(column):
        kind = column.type
        ends = np.zeros(len(column), np.int64)
        return MetricPairs(ends, np.zeros(0, np.int32), pa.array([], kind.item_type))
    maps = column.combine_chunks()
    offsets = maps.offsets.to_numpy()
    start, stop = int(offsets[0]), int(offsets[-1])
    keys, values = maps.keys.slice(start, stop - start), maps.items.slice(start, stop - start)
    lengths = np.diff(offsets)
    if maps.null_count and lengths[columns.absent(name)].any():
        kept = np.repeat(columns.present(name), lengths)
        keys, values = keys.filter(pa.array(kept)), values.filter(pa.array(kept))
        lengths = np.where(columns.present(name), lengths, 0)
    return MetricPairs(np.cumsum(lengths, dtype=np.int64), keys.to_numpy(), values)


def are_aligned(left: MetricPairs, right: MetricPairs) -> bool:
    """Return whether two maps have the same fields in every row, in the same order."""
    return np.array_equal(left.ends, right.ends) and np.array_equal(left.field_ids, right.field_ids)


def common(left: MetricPairs, right: MetricPairs) -> tuple[Places, Places]:
    """Return the places of the pairs that two maps have for the same row and field.

    Cost: some passes where ids are small numbers, as they are but in delete files; else a sort.
    """
    if are_aligned(left, right):
        places = np.arange(len(left))
        return places, places
    if not len(left) or not len(right):
        none = np.zeros(0, np.int64)
        return none, none
    width = 1 + max(int(side.field_ids.view(np.uint32).max()) for side in (left, right))
    of_left, of_right = left.keys(width), right.keys(width)
    if len(left.ends) * width > _ROOM_PER_PAIR * (len(left) + len(right)):
        _, of_left, of_right = np.intersect1d(of_left, of_right, return_indices=True)
        return of_left, of_right
    known = np.full(len(left.ends) * width, -1, np.int64)
    known[of_left] = np.arange(len(left))
    found = known[of_right]
    both = np.flatnonzero(found >= 0)
    return found[both], both


def distinct_rows(pairs: MetricPairs, places: Places) -> Places:
    """Return the rows of some pairs. Order: ascending, each once."""
    return np.unique(pairs.rows(places))


def impossible_counts(columns: Columns) -> Fault | None:
    """Files with more nulls or NaN in a column than values, or with counts below zero (R-130)."""
    return merge_faults(_impossible_counts(part) for part in columns.parts())


def counts_of_other_rows(columns: Columns, top_level: Collection[int]) -> Fault | None:
    """Return files with more or fewer values than rows in one of the top-level columns (R-134)."""
    return merge_faults(_counts_of_other_rows(part, top_level) for part in columns.parts())


def avro_with_column_sizes(columns: Columns) -> Fault | None:
    """Avro files with sizes of columns, which have none (R-133)."""
    if not columns.of("file_format", FileFormat.AVRO).any():
        return None
    return merge_faults(_avro_with_column_sizes(part) for part in columns.parts())


def _impossible_counts(columns: Columns) -> Fault | None:
    values = pairs(columns, "value_counts")
    counts = _longs(values)
    wrong = [distinct_rows(values, np.flatnonzero(counts < 0))]
    for name in ("null_value_counts", "nan_value_counts"):
        part = pairs(columns, name)
        if not len(part):
            continue
        parts = _longs(part)
        wrong.append(distinct_rows(part, np.flatnonzero(parts < 0)))
        of_values, of_part = common(values, part)
        above = parts[of_part] > counts[of_values]
        wrong.append(distinct_rows(part, of_part[above]))
    return columns.fault_at(np.unique(np.concatenate(wrong)))


def _counts_of_other_rows(columns: Columns, top_level: Collection[int]) -> Fault | None:
    values = pairs(columns, "value_counts")
    places = np.flatnonzero(np.isin(values.field_ids, list(top_level)))
    records = columns.numbers("record_count")[values.rows(places)]
    differing = places[_longs(values)[places] != records]
    return columns.fault_at(distinct_rows(values, differing))


def _avro_with_column_sizes(columns: Columns) -> Fault | None:
    sizes = np.diff(pairs(columns, "column_sizes").ends, prepend=0)
    return columns.fault(columns.of("file_format", FileFormat.AVRO) & (sizes > 0))


def _longs(pairs: MetricPairs) -> Numbers:
    """Counts; a null one is 0."""
    values = pairs.values.fill_null(0) if pairs.values.null_count else pairs.values
    return np.asarray(values.to_numpy())


# fmt: off
METRIC_RULES = (
    Rule("R-130", "counts of a column agree, and missing metrics mean unknown",
         "Field-level Metrics", "warning", COMPACT, (
        in_entries("more nulls or NaN than values in a column, or less than none,",
                   impossible_counts),
    )),
    Rule("R-131", "delete files may be skipped by their metrics", "Scan Planning", "info", OURS,
         not_enforced="icectl reads every delete file that sequence number and partition select"),
    Rule("R-132", "metrics of delete files describe the deleted rows", "Delete File Stats",
         "warning", WRITE_DELETES_AGAIN, not_enforced="the deleted rows need not exist any more"),
    Rule("R-133", "distinct counts are not written, and Avro files have no column sizes",
         "Field-level Metrics", "info", REWRITE_MANIFESTS, (
        in_entries("sizes of columns of an Avro file", avro_with_column_sizes),
    )),
    Rule("R-134", "a column outside of lists and structs has as many values as rows",
         "Field-level Metrics", "warning", COMPACT, (
        in_entries("a count of values of a column that is not the count of rows,",
                   lambda one: counts_of_other_rows(one, top_level_ids(one.metadata))),
    )),
    Rule("R-207", "distinct counts are ignored", "Data File Fields", "info", OURS,
         not_enforced="a choice between sources; R-133 enforces it"),
)
# fmt: on
