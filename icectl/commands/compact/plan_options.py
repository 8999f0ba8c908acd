"""What a compaction is asked to do, in the terms of its plan: pure."""

from dataclasses import dataclass
from typing import Literal

from icectl.commands.compact.clustering import MIN_DEPTH, SORT_RATIO
from icectl.entries.conditions import Predicate
from icectl.format.file_names import mark_of
from icectl.rows.sort_rows import RowOrder, order_key
from icectl.table.mergeable import MERGE_ROW_GROUP_BYTES
from icectl.table.output_sizes import Sizes
from icectl.table.reviewed import Reviewed
from icectl.table.rewrite_tasks import Method

JobOrder = Literal["none", "bytes-asc", "bytes-desc", "files-asc", "files-desc"]

MIN_INPUT_FILES = 5
MAX_GROUP_BYTES = 100 * 2**30
MIN_DELETE_RATIO = 0.3
MIN_DELETE_FILES = 5


@dataclass(frozen=True, slots=True)
class CompactOptions:
    """The options of a compaction; where rows get an `order`, each group is rewritten as a whole.

    Files are sorted together, too, where `min_depth` or more overlap in the order, with newer ones
    of which they have at most `sort_ratio` times the rows.
    `deletes_only` converts equality deletes, unless it `keeps_equality_deletes`, and merges the
    deletes of data files, which stay; conversions are cut into about as many `steps`. Otherwise
    those that delete few rows are converted, unless it never `converts`. With `repartition` the
    rows of rewritten files move to the partitions of their values. Of all groups those are taken
    that `max_bytes` are enough for, in their order. No other files are rewritten than a plan names
    that was reviewed, where there is one (`only`).
    """

    sizes: Sizes
    output_spec_id: int
    order: RowOrder | None = None
    where: Predicate | None = None
    min_input_files: int = MIN_INPUT_FILES
    max_group_bytes: int = MAX_GROUP_BYTES
    min_delete_ratio: float = MIN_DELETE_RATIO
    min_delete_files: int | None = None
    every: bool = False
    max_groups: int | None = None
    max_bytes: int | None = None
    min_depth: int = MIN_DEPTH
    sort_ratio: int = SORT_RATIO
    job_order: JobOrder = "none"
    deletes_only: bool = False
    keeps_equality_deletes: bool = False
    converts: bool = True
    steps: int = 1
    only: Reviewed | None = None
    method: Method = "rewrite"
    repartition: bool = False
    merge_row_group: int = MERGE_ROW_GROUP_BYTES
    verifies_rows: bool = False

    @property
    def marks(self) -> tuple[str, str]:
        """What is in the names of new files, by which those of these options are known again.

        The second is that of runs that leave files to others; both are one without an order.
        """
        bounds = f"{self.sizes.smallest}..{self.sizes.target}..{self.sizes.largest}"
        text = f"bytes={bounds} files={self.min_input_files} spec={self.output_spec_id}"
        if self.order is None:
            return mark_of(text), mark_of(text)
        text = f"{text} {order_key(self.order)}"
        return mark_of(text), mark_of(f"{text} limited")
