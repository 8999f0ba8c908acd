"""Which data files equality deletes apply to, by scope and sequence number (R-112)."""

from collections.abc import Collection, Iterable, Mapping

import numpy as np

from icectl.entries.rows import by_row, take
from icectl.table.live_files import LiveFiles
from icectl.table.rewrite_tasks import DeleteFile, InputFile

Scope = tuple[int, bytes] | None
"""The spec and partition whose data files an equality delete applies to; None for all."""


def scope_of(delete: DeleteFile, global_spec_ids: Collection[int]) -> Scope:
    """Return the scope of an equality delete file."""
    is_global = delete.spec_id in global_spec_ids
    return None if is_global else (delete.spec_id, delete.partition_key)


def newest_by_scope(
    deletes: Iterable[DeleteFile], global_spec_ids: Collection[int]
) -> Mapping[Scope, int]:
    """Return the highest sequence number of equality deletes by scope."""
    newest: dict[Scope, int] = {}
    for delete in deletes:
        scope = scope_of(delete, global_spec_ids)
        newest[scope] = max(newest.get(scope, 0), delete.sequence_number)
    return newest


def newest_of(newest: Mapping[Scope, int], file: InputFile) -> int:
    """Return the highest sequence number of those that apply to a data file; 0 if none does."""
    number = max(newest.get(None, 0), newest.get((file.spec_id, file.partition_key), 0))
    return number if number > file.sequence_number else 0


def affected_rows(files: LiveFiles, newest: Mapping[Scope, int]) -> list[int]:
    """Return the rows of live data files that any equality delete of some scopes applies to.

    `newest` are sequence numbers by scope. Order: ascending.
    """
    counts = sum(part.counts for part in files.matches.equality_deletes)
    rows = np.flatnonzero(counts).tolist()
    if not rows:
        return []
    everywhere = newest.get(None, 0)
    members = by_row(take(files.data, rows), "spec_id", "partition_key", "sequence_number")
    return [
        row
        for row, (spec_id, key, number) in zip(rows, members, strict=True)
        if number < max(everywhere, newest.get((spec_id, key), 0))
    ]
