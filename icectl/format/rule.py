"""Severity and location of a broken rule, and next steps that many rules share."""

from dataclasses import dataclass
from typing import Literal

Severity = Literal["error", "warning", "info"]


OURS = "nothing to do: this is how icectl works"
WRITER = "upgrade the engine that wrote it; `icectl inspect TABLE snapshots` shows which one did"
OLDER_METADATA = "use a metadata file that `icectl inspect TABLE metadata-log` lists"
ROLL_BACK = (
    "roll back to an older snapshot with `icectl refs TABLE rollback --to SNAPSHOT`, or write the "
    "rows again"
)
COUNTER = (
    "do not write to the table before the counter is corrected: restore the metadata file from a "
    "copy, or let the engine that wrote it raise the counter"
)
NEXT_COMMIT = "the next commit of a correct writer sets it right"
REWRITE_MANIFESTS = "`icectl rewrite-manifests TABLE --rewrite-all` rewrites the manifests"
REPAIR_LIST = "`icectl repair TABLE --dry-run` says whether the list can be repaired"
RESTORE_LIST = (
    "`icectl repair TABLE{0} --dry-run` says whether the list can be repaired; else restore it "
    "from a copy, or roll back: `icectl repair TABLE{0} --to-snapshot latest-complete`"
)
"""Formatted with the option that names a branch."""
COMPACT_OWN = (
    "compare the file with a copy: where it is the right one, `icectl compact TABLE --rewrite-all` "
    "rewrites it; if it is another's, restore it"
)
REPARTITION = (
    "compare the file with a copy: where it is the right one, `icectl compact TABLE --rewrite-all "
    "--repartition` moves its rows to their partitions; if it is another's, restore it"
)
REMOVE_STATISTICS = "`icectl repair TABLE` removes the entry, or restore the metadata from a copy"
COMPACT = "`icectl compact TABLE --rewrite-all` rewrites the data files"
RESTORE = "restore the file from a copy, or roll back to a snapshot from before it was added"
WRITE_DELETES_AGAIN = "`icectl compact TABLE --deletes-only` rewrites the deletes"
NO_ROW = "no row depends on it"
EITHER_VALUE = (
    "restore `{}` from a copy; else move it away, remove it with `icectl repair TABLE "
    "--drop-missing`, and write its rows again"
)
"""Of a file with another value than its partition: engines read the one or the other."""
EXCLUDED_VALUE = (
    "move {} away, remove what you moved with `icectl repair TABLE --drop-missing`, and write its "
    "rows again"
)
"""Of files whose partition the bounds in the same entry exclude: no other content changes that."""
NO_PARTITION = (
    "`icectl refs TABLE rollback --to SNAPSHOT` leads to a snapshot from before the file; write "
    "its rows again"
)
ENGINE = "change it with the engine that owns the table's schema"


@dataclass(frozen=True, slots=True)
class Fault:
    """Entries that have the same thing wrong: how many, and the location of the first."""

    count: int
    location: str
