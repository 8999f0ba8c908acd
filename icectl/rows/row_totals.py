"""The totals that a rewrite of rows must not change: number of rows, nulls by column, and hash."""

from collections.abc import Iterable
from dataclasses import dataclass, field

import pyarrow as pa

from icectl.errors import SelfCheckFailed
from icectl.files.parquet.metrics import FileMetrics
from icectl.files.parquet.schema import child_fields, field_id, is_variant
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
        for place, item in enumerate(batch.schema):
            self._add_nulls(batch.column(place), item)

    def add_totals(self, other: "RowTotals") -> None:
        self.row_count += other.row_count
        self.row_hash = (self.row_hash + other.row_hash) % _MODULUS
        for number, count in other.null_counts.items():
            self.null_counts[number] = self.null_counts.get(number, 0) + count

    def _add_nulls(self, column: pa.Array, item: pa.Field) -> None:
        kind = item.type
        if not pa.types.is_nested(kind) or is_variant(item):
            number = field_id(item)
            if number is not None:
                self.null_counts[number] = self.null_counts.get(number, 0) + column.null_count
        elif pa.types.is_struct(kind):
            for place, child in enumerate(child_fields(kind)):
                self._add_nulls(inside(column, (place,)), child)


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
