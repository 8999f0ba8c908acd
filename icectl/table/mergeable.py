"""Data files that can be merged without decoding them, by their entries: pure."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from icectl.entries.columns import Integers, mask_of
from icectl.entries.deletes import delete_counts
from icectl.entries.file_verdicts import DELETES, Verdicts, of_specs
from icectl.entries.rows import Entries, numbers
from icectl.format.manifest import FileFormat
from icectl.table.live_files import LiveFiles
from icectl.table.output_sizes import Sizes
from icectl.table.rewrite_tasks import Bin, Method
from icectl.units import print_size

MERGE_ROW_GROUP_BYTES = 4 << 20

CARRYING_VERSION = 2
"""The first format version in which deletes by position are carried to new files."""

_OBSTACLES = (
    "it is not in Parquet",
    "many of its rows are deleted, or by many files",
    "its rows move to another partition",
    "its rows have no ids yet",
)


@dataclass(frozen=True, slots=True)
class MethodChoice:
    """How the files of a group become new ones, and why."""

    method: Method
    why: str


@dataclass(frozen=True, slots=True)
class Mergeable:
    """The obstacles to a merge of each live data file, and the number of its row groups.

    `obstacles` has a row for each of _OBSTACLES; `row_groups` is 0 if not known.
    """

    obstacles: npt.NDArray[np.bool_]
    stored: Integers
    row_groups: Integers
    sizes: Sizes

    def is_fit(self, rows: Integers) -> npt.NDArray[np.bool_]:
        """Return which files a merge with others can take."""
        fit: npt.NDArray[np.bool_] = np.logical_not(self.obstacles[:, rows].any(axis=0))
        return fit

    def obstacle(self, rows: Sequence[int]) -> str | None:
        """Return why a merge can't take all of some files."""
        numbers = np.flatnonzero(self.obstacles[:, list(rows)].any(axis=1))
        return _OBSTACLES[numbers[0]] if len(numbers) else None

    def why_not(self, bin_: Bin) -> str | None:
        rows = list(bin_.files)
        if self.stored[rows].sum() > self.sizes.roll:
            many = "its files are too large for one, with their deleted rows"
            return many if len(rows) > 1 else "it is to be cut"
        return self.obstacle(rows) or ("it is a single file" if len(rows) < 2 else None)

    def row_group_bytes(self, rows: Sequence[int]) -> int | None:
        """Return the median size of the row groups of some files; None if not known."""
        places = list(rows)
        counts = self.row_groups[places]
        if not counts.all():
            return None
        return int(np.median(np.repeat(self.stored[places] // counts, counts)))


def mergeable(
    files: LiveFiles, verdicts: Verdicts, spec_id: int, format_version: int, sizes: Sizes
) -> Mergeable:
    """Return the obstacles to merging each live data file into one of a partition spec.

    Files chosen for their deletes are rewritten: a merge would keep the deletes.
    """
    data = files.data
    not_parquet = np.asarray(data.table["file_format"].to_numpy()) != FileFormat.PARQUET
    deleted = np.isin(verdicts, DELETES)
    if format_version < CARRYING_VERSION:
        deleted |= delete_counts(files.matches) > 0
    moves = ~of_specs(data, [spec_id])
    no_ids = mask_of(pc.is_null(data.table["first_row_id"])) & (format_version >= 3)
    return Mergeable(
        np.stack([not_parquet, deleted, moves, no_ids]),
        numbers(data, "file_size_in_bytes"),
        _row_group_counts(data),
        sizes,
    )


def _row_group_counts(data: Entries) -> Integers:
    offsets = pc.fill_null(pc.list_value_length(data.table["split_offsets"]), 0)
    return np.asarray(offsets.to_numpy(), np.int64)


def choose_method(
    requested: Method, mergeable: Mergeable, bins: Sequence[Bin], least_row_group: int
) -> MethodChoice:
    """Choose how the files of some bins become new ones.

    With `merge` the size of row groups does not matter: only obstacles lead to `rewrite`.
    """
    obstacles = [why for why in map(mergeable.why_not, bins) if why is not None]
    if obstacles:
        return MethodChoice("rewrite", obstacles[0])
    if requested == "merge":
        return MethodChoice("merge", "asked for")
    median = mergeable.row_group_bytes([row for bin_ in bins for row in bin_.files])
    if median is None:
        return MethodChoice("rewrite", "the sizes of its row groups are not known")
    size, least = f"median row group {print_size(median)}", print_size(least_row_group)
    if median < least_row_group:
        return MethodChoice("rewrite", f"{size}, below {least}")
    return MethodChoice("auto", f"{size}, {least} or more")
