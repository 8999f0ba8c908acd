"""Read metrics of one field from the map columns of entries.

Maps keep their stored encoding: bounds are single-value bytes of the type at write time
(R-096), and a missing map or key is unknown (R-130).
"""

from collections.abc import Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from icectl.entries.columns import Integers, replace_column
from icectl.entries.rows import E, Entries, numbers
from icectl.format.manifest import Content

DELETE_FILE_PATH_ID = 2147483546
"""Reserved field id of `file_path` in position delete files (R-019)."""


def flat(entries: E, column: str) -> pa.Table:
    """Return (row of the entries, field_id, value) per key of a metrics map. Order: kept."""
    parts: list[tuple[npt.NDArray[np.int64], pa.Array, pa.Array]] = []
    first_row = 0
    kind = entries.table.schema.field(column).type
    for chunk in entries.table[column].chunks:
        # By hand: pc.list_parent_indices ends the process on a map array (pyarrow 26).
        offsets = chunk.offsets.to_numpy()
        lengths = np.diff(offsets)
        start, stop = int(offsets[0]), int(offsets[-1])
        parents = np.repeat(np.arange(len(chunk), dtype=np.int64) + first_row, lengths)
        keys, items = chunk.keys.slice(start, stop - start), chunk.items.slice(start, stop - start)
        if chunk.null_count:
            kept = np.repeat(chunk.is_valid().to_numpy(zero_copy_only=False), lengths)
            if not kept.all():
                mask = pa.array(kept)
                parents, keys, items = parents[kept], keys.filter(mask), items.filter(mask)
        parts.append((parents, keys, items))
        first_row += len(chunk)
    return pa.table(
        {
            "row": pa.chunked_array([pa.array(part[0]) for part in parts], pa.int64()),
            "field_id": pa.chunked_array([part[1] for part in parts], kind.key_type),
            "value": pa.chunked_array([part[2] for part in parts], kind.item_type),
        }
    )


def metric(entries: E, column: str, field_id: int) -> pa.Array:
    """Return one field's value of a metrics map; null without (R-130). Cost: the whole map."""
    return of_field(flat(entries, column), field_id, len(entries))


def of_field(flattened: pa.Table, field_id: int, entry_count: int) -> pa.Array:
    """Return one field's value per entry, of a `flat` table; null where it has none (R-130)."""
    # Batch by batch with numpy: five times as fast as filtering the table, and a value column of
    # more than 2 GiB can't be one array.
    rows, values = [np.empty(0, np.int64)], []
    for batch in flattened.to_batches():
        chosen = np.flatnonzero(batch["field_id"].to_numpy() == field_id)
        rows.append(batch["row"].to_numpy()[chosen])
        values.append(batch["value"].take(pa.array(chosen)))
    numbers = np.concatenate(rows)
    column = pa.chunked_array(values, flattened.schema.field("value").type)
    places = np.full(entry_count, -1, dtype=np.int64)
    places[numbers] = np.arange(len(numbers), dtype=np.int64)
    return column.combine_chunks().take(pa.array(places, mask=places < 0))


def bounds(entries: E, field_id: int, which: Literal["lower", "upper"]) -> pa.Array:
    """Return the bounds of one field, as stored; null where unknown. Order: kept."""
    return metric(entries, f"{which}_bounds", field_id)


def field_ids(entries: E, column: str) -> list[int]:
    """Return the field ids that a metrics map has for any entry. Order: ascending."""
    return sorted(pc.unique(flat(entries, column)["field_id"]).to_pylist())


def with_referenced_data_files(entries: E) -> E:
    """Name the data file of each position delete file whose path bounds are equal.

    Shape: referenced_data_file filled where it is null and the bounds of `file_path` agree, and
    null where these name another file: only reading the deletes shows which it is. Needs
    lower_bounds and upper_bounds.
    Order: kept.
    Spec: a version 2 delete file has no referenced_data_file (143); truncated bounds never agree,
    since a truncated upper bound is rounded up.
    """
    lower = bounds(entries, DELETE_FILE_PATH_ID, "lower")
    upper = bounds(entries, DELETE_FILE_PATH_ID, "upper")
    agree = pc.and_(
        pc.equal(entries.table["content"], Content.POSITION_DELETES), pc.equal(lower, upper)
    )
    named = pc.if_else(agree, lower, pa.scalar(None, lower.type))
    column = "referenced_data_file"
    by_bounds, stated = pc.cast(named, pa.string()), entries.table[column]
    contradicted = pc.fill_null(pc.not_equal(stated, by_bounds), fill_value=False)
    filled = pc.if_else(contradicted, None, pc.coalesce(stated, by_bounds))
    return type(entries)(replace_column(entries.table, column, filled))


def column_bytes(data: Entries, ids: Sequence[int]) -> Integers:
    """Return about how many bytes some columns take in each file: as entries say, else all."""
    sizes = []
    for chunk in data.table["column_sizes"].chunks:
        first, last = chunk.offsets[0].as_py(), chunk.offsets[-1].as_py()
        keys, values = (
            part.slice(first, last - first).fill_null(0).to_numpy(zero_copy_only=False)
            for part in (chunk.keys, chunk.items)
        )
        lengths = np.diff(chunk.offsets.to_numpy())
        rows = np.repeat(np.arange(len(chunk)), lengths)
        wanted = np.isin(keys, ids)
        found = np.bincount(rows[wanted], weights=values[wanted], minlength=len(chunk))
        counts = np.bincount(rows[wanted], minlength=len(chunk))
        sizes.append(np.where(counts == len(ids), found, -1).astype(np.int64))
    known: Integers = np.concatenate([np.empty(0, np.int64), *sizes])
    return np.where(known < 0, numbers(data, "file_size_in_bytes"), known)
