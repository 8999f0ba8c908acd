"""Committing snapshots of version 4."""

from collections.abc import Callable, Sequence

from icectl.catalog.protocol import LoadedTable
from icectl.commit.access import TableAccess
from icectl.commit.sfc1.writer import TreeWriter, WrittenTree
from icectl.commit.transaction import Proposal, transaction
from icectl.spec.metadata import TableMetadata
from icectl.spec.updates import Update

TreeChanges = Callable[[TreeWriter, TableMetadata], Sequence[Update]]
"""What a commit makes of the newest metadata, by a writer of snapshots."""


def commit_tree(
    access: TableAccess, base: LoadedTable, command: str, branch: str, changes: TreeChanges
) -> tuple[LoadedTable, WrittenTree | None]:
    """Commit what `changes` writes to a branch; what it wrote comes back, None for no snapshot.

    Raises: as Transaction.commit.
    """
    with transaction(access, base, command) as opened:
        writer = TreeWriter(access.store, access.env, branch, opened.outputs)

        def propose(metadata: TableMetadata) -> Proposal:
            updates = changes(writer, metadata)
            files = frozenset() if writer.last is None else frozenset(writer.last.files)
            return Proposal(updates, files)

        landed = opened.commit(propose)
    return landed, writer.last
