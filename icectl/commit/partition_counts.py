"""Statistics of partitions that a commit brings up to date from the files that it moves."""

from collections.abc import Sequence
from dataclasses import dataclass

from icectl.commit.transaction import Outputs, Proposal
from icectl.entries.rows import Entries, with_snapshot, with_values
from icectl.errors import StorageError, Unsupported
from icectl.format.locations import location_in
from icectl.format.manifest import ManifestFile
from icectl.format.metadata import TableMetadata
from icectl.format.properties import KEEP_STATISTICS, read_or_default
from icectl.format.snapshot import PartitionStatisticsFile, Snapshot
from icectl.format.updates import SetPartitionStatistics, apply_all
from icectl.table.context import TableContext
from icectl.table.partition_statistics import (
    PartitionCounts,
    are_as_listed,
    partition_file,
    read_counts,
)

_MOST_BYTES = 2 << 20
"""The largest file that is read and written for a commit: an attempt must be short. So many bytes
of some 180,000 partitions take under 2 s of a processor."""


@dataclass(frozen=True, slots=True)
class PartitionCounter:
    """Counts the partitions of new snapshots, where their parents were counted."""

    context: TableContext
    outputs: Outputs

    def counted(
        self,
        metadata: TableMetadata,
        parent: Snapshot | None,
        proposal: Proposal,
        snapshot_id: int,
        listed: Sequence[ManifestFile],
        added: Entries,
        removed: Entries,
    ) -> Proposal:
        """Return a proposal that names counts of its snapshot, too, if those of its parent hold.

        They hold if there are as many files as in the manifests that the parent has `listed`.
        Without them it stays as it is: `icectl analyze` counts again.
        """
        files = [
            file
            for file in metadata.partition_statistics
            if parent is not None and file.snapshot_id == parent.snapshot_id
        ]
        is_kept = read_or_default(metadata.properties, KEEP_STATISTICS)
        if not files or not is_kept or files[0].file_size_in_bytes > _MOST_BYTES:
            return proposal
        after = apply_all(metadata, proposal.updates)
        try:
            known = read_counts(self.context, after, files[0])
            if known is None or not are_as_listed(known, listed):
                return proposal
            removals = with_values(removed, "snapshot_id", [snapshot_id] * len(removed.table))
            counts = known.moved(with_snapshot(added, snapshot_id), removed, removals)
            if counts is None:
                return proposal
            file = write_counts(self.context, after, self.outputs, snapshot_id, counts)
        except (StorageError, Unsupported):
            return proposal
        updates = *proposal.updates, SetPartitionStatistics(file)
        return Proposal(updates, proposal.files | {file.statistics_path})


def write_counts(
    context: TableContext,
    metadata: TableMetadata,
    outputs: Outputs,
    snapshot_id: int,
    counts: PartitionCounts,
) -> PartitionStatisticsFile:
    """Write the counts of a snapshot; returns their file as the metadata names it."""
    content = partition_file(metadata, counts)
    location = outputs.partition_statistics(snapshot_id)
    with context.store.open_new(location) as file:
        file.write(content)
    named = location_in(metadata, location)
    return PartitionStatisticsFile(snapshot_id, named, len(content))
