"""The changes of a head by a commit of rewritten groups, entries that go and that come: pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa

from icectl.commit.conflicts import DeleteKey, GroupResult
from icectl.entries.deletes.by_file import needed_elsewhere
from icectl.entries.rows import (
    GROUP_KEYS,
    Entries,
    are_at,
    are_deletes,
    concat,
    delete_files,
    in_order,
    take,
    where,
    without,
)
from icectl.entries.summary import summarise, summary_counters
from icectl.table.rewritable_files import LiveFiles


@dataclass(frozen=True)
class Changes:
    """Live entries of a head that go, and entries that come; `after` is what is live then.

    `dangling` are the delete files among `removed` that nothing was left to apply to.
    """

    removed: Entries
    added: Entries
    after: Entries
    dangling: Entries

    @cached_property
    def summary(self) -> Mapping[str, str]:
        """The counters of the snapshot's summary, zeros left out but in totals (R-031)."""
        counters = {
            **summary_counters(summarise(self.added), "added"),
            **summary_counters(summarise(self.removed), "removed"),
            "changed-partition-count": self._changed_partitions,
        }
        changed = {key: str(value) for key, value in counters.items() if value}
        totals = summary_counters(summarise(self.after), "total")
        return changed | {key: str(value) for key, value in totals.items()}

    @property
    def removed_delete_files(self) -> int:
        """The number of delete files, and vectors, that go."""
        return len(delete_files(self.removed))

    @property
    def _changed_partitions(self) -> int:
        parts = [self.removed.table.select(GROUP_KEYS), self.added.table.select(GROUP_KEYS)]
        return int(pa.concat_tables(parts).group_by(GROUP_KEYS).aggregate([]).num_rows)


def changes(files: LiveFiles, results: Sequence[GroupResult]) -> Changes:
    """Find what goes and comes, deletes that apply to nothing any more included (R-116).

    `files` are those of the head, on which the results hold.
    Shape: `removed` and `after` have the columns of `files.entries`, `added` every column.
    Order: `removed` by manifest and position.
    """
    replaced = frozenset[str]().union(*(result.replaced for result in results))
    keys = frozenset[DeleteKey]().union(*(result.vectors | result.merged for result in results))
    gone_data = are_at(files.data, replaced)
    inputs = {file.location for result in results for file in result.inputs}
    needed = needed_elsewhere(files.matches, files.named, inputs)
    gone_deletes = are_deletes(files.deletes, keys) & ~needed
    added = concat([result.added for result in results if len(result.added)])
    columns = files.entries.table.column_names
    coming = Entries(added.table.select(columns))
    left = concat([where(files.data, ~gone_data), where(files.deletes, ~gone_deletes), coming])
    after = replace(files, entries=left)
    dangling = take(after.deletes, after.dangling)
    gone = [where(files.data, gone_data), where(files.deletes, gone_deletes), dangling]
    return Changes(
        removed=in_order(concat(gone)),
        added=added,
        after=concat([after.data, without(after.deletes, after.dangling)]),
        dangling=dangling,
    )
