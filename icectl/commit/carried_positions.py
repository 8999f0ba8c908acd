"""Where rows are after a rewrite that others have deleted meanwhile: pure."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from icectl.files.puffin.positions import Positions
from icectl.table.rewrite_task import InputFile

RowIds = npt.NDArray[np.int64]
"""Ids of rows, or their positions."""


class NotCarried(Exception):
    """Deletes that can't be carried over; says why."""


def moved_positions(
    inputs: Sequence[InputFile],
    before: Mapping[str, Positions],
    after: Mapping[str, Positions],
    runs: Sequence[tuple[str, int]],
) -> Mapping[str, Positions]:
    """Return where the rows are now that `after` deletes and `before` does not, by new file.

    `before` are the positions that the rewrite left out, and `after` has those files alone whose
    deletes have changed. New files have the other rows, in the order of the inputs.
    Raises: NotCarried, where `before` is not what the rewrite left out, or is deleted no more.
    """
    came = deleted_since(inputs, before, after, runs)
    ranks = [np.empty(0, np.int64)]
    kept = 0
    for file in inputs:
        old = _in_file(before, file)
        if file.location in came:
            rows = came[file.location]
            ranks.append(kept + rows - np.searchsorted(old, rows))
        kept += file.record_count - len(old)
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
    made: Sequence[tuple[str, int]],
) -> Mapping[str, RowIds]:
    """Return the positions that `after` deletes and `before` does not, of files in `after`.

    Raises: as moved_positions.
    """
    came = {}
    for file in inputs:
        if file.location in after:
            old, new = _in_file(before, file), _in_file(after, file)
            if len(np.setdiff1d(old, new)):
                raise NotCarried(f"rows of `{file.location}` that were deleted are live again")
            came[file.location] = np.setdiff1d(new, old)
    kept = sum(file.record_count - len(_in_file(before, file)) for file in inputs)
    if kept != sum(count for _, count in made):
        raise NotCarried("the rows left out are not those deleted by position")
    return came


def positions_of_rows(
    wanted: RowIds, made: Iterable[tuple[str, RowIds]]
) -> Mapping[str, Positions]:
    """Return where rows are, by new file; `made` has the ids of the rows of each, in their order.

    Raises: NotCarried, where a row has no id, or not exactly one row of the new files has it.
    """
    found, seen = {}, [np.empty(0, np.int64)]
    for location, ids in made:
        places = np.flatnonzero(np.isin(ids, wanted))
        if len(places):
            found[location] = places.astype(np.uint64)
            seen.append(ids[places])
    if (wanted < 0).any() or not np.array_equal(np.sort(np.concatenate(seen)), np.sort(wanted)):
        raise NotCarried("rows that were deleted meanwhile can't be found by their `_row_id`")
    return found


def joined(some: Mapping[str, Positions], others: Mapping[str, Positions]) -> dict[str, Positions]:
    """Return the positions of both, by file."""
    none = np.empty(0, np.uint64)
    return {
        location: np.union1d(some.get(location, none), others.get(location, none))
        for location in some.keys() | others.keys()
    }


def new_count(
    changed: Sequence[InputFile], before: Mapping[str, Positions], after: Mapping[str, Positions]
) -> int:
    """Return how many rows of changed inputs `after` deletes, and `before` does not."""
    return sum(len(np.setdiff1d(_in_file(after, file), _in_file(before, file))) for file in changed)


def _in_file(positions: Mapping[str, Positions], file: InputFile) -> RowIds:
    """Return positions of rows that a file has: readers pass over others."""
    row_numbers = positions.get(file.location, np.empty(0, np.uint64)).astype(np.int64)
    return row_numbers[row_numbers < file.record_count]
