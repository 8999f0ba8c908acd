"""The totals that a rewrite of rows must not change: number of rows, nulls by column, and hash."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from icectl.errors import SelfCheckFailed
from icectl.files.parquet.metrics import FileMetrics
from icectl.files.parquet.schema import child_fields, field_id, is_variant, remembered
from icectl.files.row_hash import row_hashes, sum_of
from icectl.rows.columns import inside

_MODULUS = 2**64


@dataclass(slots=True)
class RowTotals:
    """Totals of rows in any order, whatever their files, batches or partitions.

    `null_counts` are of columns outside of lists and maps, by field id; `row_hash` is the sum of
    the hashes of the rows.
    """

    row_count: int = 0
    row_hash: int = 0
    null_counts: dict[int, int] = field(default_factory=dict)

    def add(self, batch: pa.RecordBatch) -> None:
        self.row_count += batch.num_rows
        hashes = row_hashes(batch.columns, batch.num_rows)
        self.row_hash = (self.row_hash + sum_of(hashes)) % _MODULUS
        for number, (place, *inner_path) in _flat_columns(batch.schema):
            nulls = inside(batch.column(place), tuple(inner_path)).null_count
            self.null_counts[number] = self.null_counts.get(number, 0) + nulls

    def add_totals(self, other: "RowTotals") -> None:
        self.row_count += other.row_count
        self.row_hash = (self.row_hash + other.row_hash) % _MODULUS
        for number, count in other.null_counts.items():
            self.null_counts[number] = self.null_counts.get(number, 0) + count


@remembered
def _flat_columns(schema: pa.Schema) -> Sequence[tuple[int, tuple[int, ...]]]:
    """Return the id of each column outside of lists and maps, with its place at each level."""
    return tuple(_flat(schema))


def _flat(fields: Iterable[pa.Field], *above: int) -> Iterator[tuple[int, tuple[int, ...]]]:
    for place, item in enumerate(fields):
        number, path = field_id(item), (*above, place)
        if not pa.types.is_nested(item.type) or is_variant(item):
            if number is not None:
                yield number, path
        elif pa.types.is_struct(item.type):
            yield from _flat(child_fields(item.type), *path)


def check_rows(before: RowTotals, after: RowTotals, footers: Iterable[FileMetrics]) -> None:
    """Compare the rows that were read with those of the new files, read again.

    Raises: SelfCheckFailed, if a row was lost, added or changed.
    """
    metrics = list(footers)
    stated = sum(footer.record_count for footer in metrics)
    if not before.row_count == after.row_count == stated:
        raise _differs(
            f"of {before.row_count:,} they have {after.row_count:,}, their footers say {stated:,}"
        )
    for id_, count in before.null_counts.items():
        written = sum(footer.null_value_counts.get(id_, 0) for footer in metrics)
        if written != count:
            raise _differs(f"the column with the id {id_} had {count:,} nulls, now {written:,}")
    if before.row_hash != after.row_hash:
        raise _differs("their hash is another")


def check_totals(read: RowTotals, written: RowTotals) -> None:
    """Compare the rows that some workers read with those that others wrote.

    Raises: SelfCheckFailed, if a row was lost, added or changed.
    """
    if read.row_count != written.row_count:
        raise _differs(f"{read.row_count:,} were read and {written.row_count:,} written")
    for id_ in read.null_counts.keys() | written.null_counts.keys():
        had, has = read.null_counts.get(id_, 0), written.null_counts.get(id_, 0)
        if had != has:
            raise _differs(f"the column with the id {id_} had {had:,} nulls, now {has:,}")
    if read.row_hash != written.row_hash:
        raise _differs("their hash is another")


def _differs(why: str) -> SelfCheckFailed:
    return SelfCheckFailed(f"the rows of the new files are not those of the old ones: {why}")
