"""The order of entries in new leaves: by partition, then by the table's sort order (sfc-1 7.6)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icectl.entries.columns import plain
from icectl.format.types import PrimitiveType, Type
from icectl.rows.columns import has_order
from icectl.rows.sort_rows import KeyPart, RowSorter, joined, keyed, value_parts
from icectl.sfc1.content_stats import by_field_id, group_id, tuple_values
from icectl.sfc1.manifest_file import STATS, TREE_ROWS
from icectl.sfc1.manifests import TreeSchema

_LOWER, _UPPER = 1, 2
"""Members of the statistics of a column, behind its own id."""

_NULLS_FIRST, _NULLS_LAST = 0, 1
_SORTED_BYTES = 64 << 20
_INT, _BOOLEAN = PrimitiveType("int"), PrimitiveType("boolean")


class ClusteredRows:
    """Rows of leaves, sorted by the `sort_by` partition fields or all; its exit frees the disk.

    They come by spec, by partition, then by bounds of the columns of the default sort order, as far
    as statistics have them. Rows whose partition is not known come behind others of their spec;
    equal ones keep their order. Statistics that no row has take no memory.
    Cost: memory for 128 MiB of rows; more wait on disk.
    """

    def __init__(self, facts: TreeSchema, sort_by: Sequence[str] = ()) -> None:
        self._keys = _Keys(facts, sort_by)
        self._sorter = RowSorter(_SORTED_BYTES, compression="lz4")
        self._known: set[str] = set()
        self.count = 0

    def __enter__(self) -> "ClusteredRows":
        return self

    def __exit__(self, *_: object) -> None:
        self._sorter.__exit__()

    def add(self, rows: pa.Table) -> None:
        """Add rows. Raises: OSError of the disk."""
        self.count += len(rows)
        for batch in keyed(rows.to_batches(), self._keys):
            stats = batch[STATS]
            groups = zip(stats.type, stats.flatten(), strict=True)
            self._known |= {item.name for item, group in groups if group.null_count < len(group)}
            self._sorter.add(batch)

    def tables(self) -> Iterator[pa.Table]:
        """Yield all rows, after the last was added. Shape: groups of known statistics alone."""
        for batch in self._sorter.batches():
            stats = batch[STATS]
            groups = [item for item in stats.type if item.name in self._known]
            known = pa.nulls(len(stats), pa.struct([]))
            if groups:
                columns = [stats.field(item.name) for item in groups]
                known = pa.StructArray.from_arrays(columns, fields=groups, mask=stats.is_null())
            schema = TREE_ROWS.append(pa.field(STATS, known.type))
            yield pa.table([*batch.columns[: len(TREE_ROWS)], known], schema=schema)


@dataclass(frozen=True, slots=True)
class _Keys:
    """Makes the keys that rows are sorted by."""

    facts: TreeSchema
    sort_by: Sequence[str]

    def of(self, batch: pa.RecordBatch, /) -> pa.Array:
        """Return the key of each row, a large binary. Order: kept."""
        numbers, stats = batch["spec_id"].to_numpy(), batch[STATS]
        specs = np.unique(numbers).tolist()
        if len(specs) == 1:
            return self._of_spec(specs[0], stats)
        chosen = [np.flatnonzero(numbers == number) for number in specs]
        keys = [
            self._of_spec(number, stats.take(pa.array(rows)))
            for number, rows in zip(specs, chosen, strict=True)
        ]
        places = np.argsort(np.concatenate([np.empty(0, np.int64), *chosen]))
        none = pa.nulls(0, pa.large_binary())
        return pa.concat_arrays([none, *keys]).take(pa.array(places))

    def _of_spec(self, spec_id: int, stats: pa.StructArray) -> pa.Array:
        spec_ids = pa.repeat(pa.scalar(spec_id, pa.int32()), len(stats))
        parts = value_parts(_INT, spec_ids, _NULLS_FIRST)
        parts += self._of_partition(spec_id, stats)
        for type_, bounds, is_descending in self._bounds(stats):
            parts += value_parts(type_, bounds, _NULLS_LAST, is_descending=is_descending)
        return joined(parts).cast(pa.large_binary())

    def _of_partition(self, spec_id: int, stats: pa.StructArray) -> Iterator[KeyPart]:
        """Yield what sorts rows of one spec by their tuples, those that are not told last."""
        spec = self.facts.metadata.spec(spec_id)
        if spec is None or not spec.fields:
            return
        fields = self.facts.tuple_fields(spec_id, known=True)
        values, is_unknown = tuple_values(stats, len(stats), fields)
        yield from value_parts(_BOOLEAN, is_unknown, _NULLS_FIRST)
        by_name = {
            spec.fields[item.place].name: (item.type, column)
            for item, column in zip(fields, values, strict=True)
            if has_order(item.type)
        }
        for name in self.sort_by or by_name:
            if name in by_name:
                type_, column = by_name[name]
                told = pc.if_else(is_unknown, pa.scalar(None, column.type), column)
                yield from value_parts(type_, told, _NULLS_FIRST)

    def _bounds(self, stats: pa.StructArray) -> Iterator[tuple[Type, pa.Array, bool]]:
        """Yield the bounds of columns that the table is sorted by, and whether they descend."""
        metadata = self.facts.metadata
        sort_order = metadata.sort_order(metadata.default_sort_order_id)
        types = {column.id: column.type for column in self.facts.columns}
        groups = by_field_id(stats)
        for field in () if sort_order is None else sort_order.fields:
            id_, is_descending = field.source_ids[0], field.direction == "desc"
            number = group_id(id_)
            if id_ not in types or not has_order(types[id_]) or number not in groups:
                return
            bounds = by_field_id(groups[number])[number + (_UPPER if is_descending else _LOWER)]
            yield types[id_], plain(bounds), is_descending
