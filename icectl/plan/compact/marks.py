"""The mark of a compaction: how the next one knows the files that it need not improve on.

Sizes of new files are estimates. Rows may pack better than they did, or worse; a footer may be
larger than the target; rows that move to another partition may meet files there that were too few.
A compaction to the same sizes would judge such files as it judged what they were made of, and
rewrite them again and again. So a snapshot says to which sizes it was compacted, and its files are
rewritten only together with others that are worth it, or for their deletes.
"""

from collections.abc import Mapping

from icectl.entries.columns.values import Mask
from icectl.entries.file_verdicts import DELETES, Verdicts, of_snapshots
from icectl.entries.rows import Entries
from icectl.plan.compact.sizes import Sizes
from icectl.spec.metadata import TableMetadata

_MARK = "icectl.compacted-to"


def mark(sizes: Sizes, min_input_files: int, spec_id: int) -> Mapping[str, str]:
    """Return the members of a summary that say to which sizes, of how many files, by which spec."""
    bounds = f"{sizes.smallest}..{sizes.target}..{sizes.largest}"
    return {_MARK: f"bytes={bounds} files={min_input_files} spec={spec_id}"}


def as_made(
    metadata: TableMetadata, data: Entries, verdicts: Verdicts, wanted: Mapping[str, str]
) -> Mask:
    """Whether each data file was made by a compaction of this mark, and judged by size alone.

    Files of snapshots that have expired are judged like all others.
    """
    made = [
        snapshot.snapshot_id
        for snapshot in metadata.snapshots
        if (snapshot.summary or {}).get(_MARK) == wanted[_MARK]
    ]
    found = of_snapshots(data, made)
    for reason in DELETES:
        found[verdicts == reason] = False
    return found
