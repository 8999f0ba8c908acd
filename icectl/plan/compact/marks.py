"""The mark of a compaction: how the next one knows the files that it need not improve on.

Sizes of new files are estimates. Rows may pack better than they did, or worse; a footer may be
larger than the target; rows that move to another partition may meet files there that were too few.
A compaction to the same sizes would judge such files as it judged what they were made of, and
rewrite them again and again. So the name of a file tells to which sizes it was compacted, for as
long as there is the file, whatever becomes of its snapshot. It is rewritten only together with
others that are worth it, or for its deletes.
"""

from icectl.entries.columns.values import Mask
from icectl.entries.file_verdicts import DELETES, Verdicts, of_names_ending
from icectl.entries.rows import Entries
from icectl.plan.compact.sizes import Sizes
from icectl.spec.data_paths import mark_of, marked_end


def mark(sizes: Sizes, min_input_files: int, spec_id: int) -> str:
    """Return what the names of files have that were made to some sizes, of how many, by a spec."""
    bounds = f"{sizes.smallest}..{sizes.target}..{sizes.largest}"
    return mark_of(f"bytes={bounds} files={min_input_files} spec={spec_id}")


def as_made(data: Entries, verdicts: Verdicts, wanted: str) -> Mask:
    """Whether each data file was made by a compaction of this mark, and judged by size alone."""
    found = of_names_ending(data, marked_end(wanted))
    for reason in DELETES:
        found[verdicts == reason] = False
    return found
