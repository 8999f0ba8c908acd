"""The mark that a search for orphans leaves: a property of the table, for the next run to see.

Orphans are what nothing in a table tells of. Without the mark each run would have to look for them.
"""

from collections.abc import Sequence

from icectl.commit.access import TableAccess
from icectl.commit.attempt import CommitAsked, commit_changes
from icectl.errors import CommitConflict
from icectl.run.maintain.assess import looked_ms
from icectl.spec.metadata import TableMetadata
from icectl.spec.properties import ORPHANS_LOOKED_FOR
from icectl.spec.updates import SetProperties, Update
from icectl.table.open import open_table
from icectl.units import print_instant


def mark_looked_for(access: TableAccess, at_ms: int) -> None:
    """Note in the table that orphans were looked for; where it says so already, do nothing.

    Raises: CommitUnknown; Unsupported, where the catalog cannot set properties; what loading and
    committing raise. A mark that conflicts is left to the next run.
    """
    loaded = open_table(access.catalog)
    loaded.capabilities.check_update(SetProperties, "note when orphans were looked for")

    def changes(metadata: TableMetadata) -> Sequence[Update]:
        """Set the property, unless another run has looked since."""
        known = looked_ms(metadata, at_ms)
        if known is not None and known >= at_ms:
            return ()
        return (SetProperties({ORPHANS_LOOKED_FOR.name: print_instant(at_ms)}),)

    try:
        commit_changes(access, loaded, changes, CommitAsked())
    except CommitConflict:
        return
