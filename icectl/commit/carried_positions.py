"""Where rows are after a rewrite that others have deleted since: pure."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from icectl.files.deletion_vectors import Positions
from icectl.table.rewrite_tasks import InputFile

RowIds = npt.NDArray[np.int64]
"""Ids of rows, or their positions."""


class NotCarried(Exception):
    """Deletes can't be carried over, for this reason."""


def moved_positions(
    inputs: Sequence[InputFile],
    before: Mapping[str, Positions],
    after: Mapping[str, Positions],
    runs: Sequence[tuple[str, int]],
) -> Mapping[str, Positions]:
    """Return the positions, by new file, of the rows that only `after` deletes.

    `before` has the positions that the rewrite left out; `after` has only files whose deletes have
    changed. New files have the other rows, in the order of the inputs.
    Raises: NotCarried, if the rewrite left out other rows, or some of them are live again.
    """
    added = deleted_since(inputs, before, after, runs)
    ranks = [np.empty(0, np.int64)]
    row_count = 0
    for file in inputs:
        deleted = _in_file(before, file)
        if file.location in added:
            rows = added[file.location]
            ranks.append(row_count + rows - np.searchsorted(deleted, rows))
        row_count += file.record_count - len(deleted)
    ends = np.cumsum([count for _, count in runs], dtype=np.int64)
    places = np.concatenate(ranks)
    at = np.searchsorted(ends, places, "right")
    return {
        location: (places[at == number] - (ends[number] - count)).astype(np.uint64)
        for number, (location, count) in enumerate(runs)
        if (at == number).any()
    }


def deleted_since(
    inputs: Sequence[InputFile],
    before: Mapping[str, Positions],
    after: Mapping[str, Positions],
    new_files: Sequence[tuple[str, int]],
) -> Mapping[str, RowIds]:
    """Return the positions that only `after` deletes, of files in `after`.

    Raises: as moved_positions.
    """
    added = {}
    for file in inputs:
        if file.location in after:
            old_positions, new_positions = _in_file(before, file), _in_file(after, file)
            if len(np.setdiff1d(old_positions, new_positions)):
                raise NotCarried(f"rows of `{file.location}` that were deleted are live again")
            added[file.location] = np.setdiff1d(new_positions, old_positions)
    row_count = sum(file.record_count - len(_in_file(before, file)) for file in inputs)
    if row_count != sum(count for _, count in new_files):
        raise NotCarried("the rows left out are not those deleted by position")
    return added


def positions_of_rows(
    row_ids: RowIds, new_files: Iterable[tuple[str, RowIds]]
) -> Mapping[str, Positions]:
    """Return the positions of rows by new file; `new_files` has the row ids of each, in order.

    Raises: NotCarried, if a row has no id, or not exactly one row of the new files has it.
    """
    positions, matched_ids = {}, [np.empty(0, np.int64)]
    for location, ids in new_files:
        places = np.flatnonzero(np.isin(ids, row_ids))
        if len(places):
            positions[location] = places.astype(np.uint64)
            matched_ids.append(ids[places])
    if (row_ids < 0).any() or not np.array_equal(
        np.sort(np.concatenate(matched_ids)), np.sort(row_ids)
    ):
        raise NotCarried("rows that were deleted concurrently can't be found by their `_row_id`")
    return positions


def joined(left: Mapping[str, Positions], right: Mapping[str, Positions]) -> dict[str, Positions]:
    """Return the positions of both, by file.

    Order: the files of the left ones, then the others.
    """
    both = left.keys() & right.keys()
    return {**left, **right} | {name: np.union1d(left[name], right[name]) for name in both}


def new_count(
    changed: Sequence[InputFile], before: Mapping[str, Positions], after: Mapping[str, Positions]
) -> int:
    """Return how many rows of changed inputs only `after` deletes."""
    return sum(len(np.setdiff1d(_in_file(after, file), _in_file(before, file))) for file in changed)


def _in_file(positions: Mapping[str, Positions], file: InputFile) -> RowIds:
    """Return the positions within a file: readers ignore others."""
    row_numbers = positions.get(file.location, np.empty(0, np.uint64)).astype(np.int64)
    return row_numbers[row_numbers < file.record_count]
