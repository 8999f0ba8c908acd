"""Deleting files that nothing reaches any more, once a commit is known to have landed."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from icectl.entries.files import FileKind, Files, excluding, of_kind, rows, slices, together
from icectl.errors import StorageError
from icectl.storage.location import check_sum, loosest_key
from icectl.storage.store import FailedRemoval
from icectl.table.context import TableContext

BATCH = 1_000
"""What one request of S3 deletes at most."""
STEP = 4 * BATCH
"""Files that go at a time: requests lie side by side, each takes some tenths of a second."""


@dataclass(frozen=True, slots=True)
class Removal:
    """The files that were deleted, and those that were not and why.

    `stopped` where time ran out before the end.
    """

    removed: Files
    failed: tuple[FailedRemoval, ...]
    stopped: bool


def remove_files(
    context: TableContext, files: Files, kept_check_sums: Collection[str] | None = None
) -> Removal:
    """Delete files in their order; never raises for one that cannot be deleted.

    The check sum `.x.crc` of a file goes with `x`, unless its loosest key is among
    `kept_check_sums`; where that is None, there are no check sums.
    """
    context.progress.phase("deleting files", total=len(files))
    removed: list[Files] = []
    failed: list[FailedRemoval] = []
    for batch in _batches(files):
        if context.deadline.passed:
            return Removal(together(removed), tuple(failed), stopped=True)
        missed = remove_batch(context, [location for location, _, _ in rows(batch)])
        failed += missed
        removed.append(excluding(batch, [item.location for item in missed]))
        if kept_check_sums is not None and len(removed[-1]):
            check_sums = [check_sum(location) for location, _, _ in rows(removed[-1])]
            remove_batch(  # one that stays is an orphan
                context, [each for each in check_sums if loosest_key(each) not in kept_check_sums]
            )
        context.progress.advance(len(batch))
    return Removal(together(removed), tuple(failed), stopped=False)


def remove_batch(context: TableContext, locations: Sequence[str]) -> list[FailedRemoval]:
    """Delete some files in one step; returns those that are still there, with reasons."""
    try:
        with context.shield():
            return list(context.store.remove(locations))
    except StorageError as error:
        return [FailedRemoval(location, error.message) for location in locations]


def _batches(files: Files) -> Iterator[Files]:
    """Pieces of one kind each: no manifest goes while a file that it describes is still there."""
    for kind in FileKind:
        yield from slices(of_kind(files, kind), STEP)
