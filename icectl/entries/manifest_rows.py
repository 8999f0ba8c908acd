"""The row of a manifest list, counted from the entries of the manifest."""

import math
from collections.abc import Sequence

import pyarrow.compute as pc

from icectl.entries.partition.key import PartitionValue, decode_key, java_sort_key, sort_key
from icectl.entries.rows import Entries, delete_files, live, of_status, total
from icectl.format import single_value
from icectl.format.manifest import FieldSummary, ManifestContent, ManifestFile, Status
from icectl.format.types import PrimitiveType, Type


def describe_manifest(
    entries: Entries, types: Sequence[Type | None], *, location: str, length: int, spec_id: int
) -> ManifestFile:
    """Return the row of a manifest with these entries; `types` are those of its spec's fields.

    Sequence number and snapshot are left to the commit that lists it (R-041). First row id: that of
    the first data file where every one has its own, so that none is given anew (R-102).
    Raises: CorruptTable R-068.
    Spec: R-047, R-050, R-051, R-053.
    """
    files, rows = [], []
    for status in (Status.ADDED, Status.EXISTING, Status.DELETED):
        chosen = of_status(entries, status)
        files.append(len(chosen))
        rows.append(total(chosen, "record_count"))
    alive = live(entries)
    of_data = len(delete_files(entries)) == 0
    row_ids = alive.table["first_row_id"]
    return ManifestFile(
        manifest_path=location,
        manifest_length=length,
        partition_spec_id=spec_id,
        content=ManifestContent.DATA if of_data else ManifestContent.DELETES,
        sequence_number=0,
        min_sequence_number=pc.min(alive.table["sequence_number"]).as_py() or 0,
        added_snapshot_id=None,
        added_files_count=files[0],
        existing_files_count=files[1],
        deleted_files_count=files[2],
        added_rows_count=rows[0],
        existing_rows_count=rows[1],
        deleted_rows_count=rows[2],
        partitions=field_summaries(entries, types),
        first_row_id=pc.min(row_ids).as_py() if of_data and not row_ids.null_count else None,
    )


def field_summaries(
    entries: Entries, types: Sequence[Type | None]
) -> tuple[FieldSummary, ...] | None:
    """Return the range of each partition field over the entries.

    Shape: None, which tells readers nothing, where UUIDs have a range for some of them only: a
    summary without bounds would say that there is nothing but nulls.
    Order: that of the spec's fields.
    Raises: CorruptTable R-068.
    Spec: R-053; bounds leave out null and NaN, -0.0 comes before 0.0 (R-092).
    """
    keys = entries.table["partition_key"].unique().to_pylist()
    tuples = [decode_key(key, types) for key in keys]
    columns = [[values[at] for values in tuples] for at in range(len(types))]
    if any(map(_is_disputed, types, columns)):
        return None
    return tuple(
        _summary(type_, values) for type_, values in zip(types, columns, strict=True)
    )


def _is_disputed(type_: Type | None, values: Sequence[PartitionValue]) -> bool:
    """Return whether Java takes other UUIDs for the first and the last one than the format does."""
    present = [value for value in values if value is not None]
    if type_ != PrimitiveType("uuid") or not present:
        return False
    return any(
        extreme(present, key=java_sort_key) != extreme(present, key=sort_key)
        for extreme in (min, max)
    )


def _summary(type_: Type | None, values: Sequence[PartitionValue]) -> FieldSummary:
    nans = [isinstance(value, float) and math.isnan(value) for value in values]
    present = [
        value
        for value, is_nan in zip(values, nans, strict=True)
        if value is not None and not is_nan
    ]
    contains_null = any(value is None for value in values)
    if not present or type_ is None:
        return FieldSummary(contains_null, any(nans))
    ordered = sorted(present, key=sort_key)
    return FieldSummary(
        contains_null,
        any(nans),
        single_value.encode(type_, ordered[0]),
        single_value.encode(type_, ordered[-1]),
    )
