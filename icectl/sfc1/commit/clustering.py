"""The order of entries in new leaves: by partition, then by the table's sort order (sfc-1 7.6)."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icectl.entries.columns import plain, whole
from icectl.entries.partition_key import UNKNOWN_KEY
from icectl.entries.rows import RawEntries
from icectl.sfc1.content_stats import by_field_id, group_id, recover
from icectl.sfc1.manifest_file import STATS
from icectl.sfc1.manifests import TreeSchema
from icectl.table.manifest_groups import spec_clusters

_LOWER, _UPPER = 1, 2
"""Members of the statistics of a column, behind its own id."""


def clustered(facts: TreeSchema, rows: pa.Table, sort_by: Sequence[str] = ()) -> pa.Table:
    """Return rows by spec, by the `sort_by` partition fields or all, then by bounds.

    Bounds are those of the columns of the default sort order, as far as statistics have them. Rows
    whose partition is not known come behind others of their spec; equal ones keep their order.
    """
    if len(rows) < 2:
        return rows
    stats = whole(rows[STATS])
    keys: dict[str, pa.Array | pa.ChunkedArray] = {
        "spec": rows["spec_id"],
        "partition": pa.array(_ranks(facts, rows, stats, sort_by)),
    }
    order: list[tuple[str, str]] = [(name, "ascending") for name in keys]
    for number, (column, direction) in enumerate(_bounds(facts, stats)):
        keys[f"column {number}"] = column
        order.append((f"column {number}", direction))
    keys["place"] = pa.array(np.arange(len(rows)))
    order.append(("place", "ascending"))
    places = pc.sort_indices(pa.table(keys), sort_keys=order)
    if np.array_equal(places.to_numpy(), np.arange(len(rows))):
        return rows
    return rows.take(places)


def _ranks(
    facts: TreeSchema, rows: pa.Table, stats: pa.StructArray, sort_by: Sequence[str]
) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return the rank of the partition of each row among those of its spec."""
    numbers = rows["spec_id"].to_numpy()
    ranks = np.full(len(rows), len(rows), np.int64)
    for number in np.unique(numbers).tolist():
        spec = facts.metadata.spec(number)
        if spec is None or not spec.fields:
            continue
        chosen = np.flatnonzero(numbers == number)
        fields = facts.tuple_fields(number, known=True)
        keys = recover(stats.take(pa.array(chosen)), len(chosen), fields, len(spec.fields))
        is_known = pc.not_equal(keys, pa.scalar(UNKNOWN_KEY, pa.binary()))
        known = RawEntries(pa.table({"partition_key": keys.filter(is_known)}))
        found = spec_clusters(known, spec, facts.metadata.schemas, sort_by)
        ranks[chosen[is_known.to_numpy(zero_copy_only=False)]] = found.ranks
    return ranks


def _bounds(facts: TreeSchema, stats: pa.StructArray) -> list[tuple[pa.Array, str]]:
    """Return the bounds of the columns that the table is sorted by, and their directions."""
    metadata = facts.metadata
    sort_order = metadata.sort_order(metadata.default_sort_order_id)
    groups, found = by_field_id(stats), []
    for field in () if sort_order is None else sort_order.fields:
        number = group_id(field.source_ids[0])
        group = groups.get(number)
        if group is None:
            break
        is_up = field.direction == "asc"
        bound = by_field_id(group).get(number + (_LOWER if is_up else _UPPER))
        if bound is None:
            break
        values = plain(bound)
        if pa.types.is_fixed_size_binary(values.type):
            values = values.cast(pa.binary())
        found.append((values, "ascending" if is_up else "descending"))
    return found
