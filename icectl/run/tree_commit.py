"""Committing snapshots of version 4, and removing what was written for nothing."""

from collections.abc import Callable, Sequence

from icectl.catalog.protocol import LoadedTable
from icectl.commit.attempt import Landed
from icectl.commit.tree_snapshot import TreeWriter, WrittenTree
from icectl.run.cleanup import outputs_of
from icectl.run.means import Means
from icectl.run.output_journal import Leftovers
from icectl.spec.metadata import TableMetadata
from icectl.spec.updates import Update

TreeChanges = Callable[[TreeWriter, TableMetadata], Sequence[Update]]
"""What a commit makes of the newest metadata, by a writer of snapshots."""


def commit_tree(
    means: Means, base: LoadedTable, command: str, branch: str, changes: TreeChanges
) -> tuple[Landed, WrittenTree | None]:
    """Commit what `changes` writes to a branch; what it wrote comes back, None for no snapshot.

    Raises: as Means.commit; what was written is gone where the commit is known not to have landed.
    """
    outputs = outputs_of(means.store, means.env, base, command)
    writer = TreeWriter(means.store, means.env, branch, outputs)

    def checked(metadata: TableMetadata) -> Sequence[Update]:
        updates = changes(writer, metadata)
        outputs.check()
        return updates

    with Leftovers(means, (command,)).removed_after(base):
        with outputs.removed_on_failure():
            landed = outputs.commit(means, base, checked)
        outputs.keep(set() if writer.last is None else writer.last.files)
    return landed, writer.last
