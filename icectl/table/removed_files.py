"""Files that a table named when it was loaded, and that are missing: removed since, or lost.

Another writer may replace a file, expire the snapshots that name it, and delete it, while a run
still reads by what it has loaded. Such a table is whole, and the run has lost a race. A file that
the newest metadata still names is damage.
"""

from collections.abc import Collection, Iterator
from contextlib import contextmanager

from icectl.entries.files import Files, together, with_keys
from icectl.errors import CommitConflict, IcectlError, MissingFile
from icectl.storage.location import loosest_key
from icectl.table.context import TableContext
from icectl.table.manifest_lists import manifests_by_snapshot
from icectl.table.reachable import (
    all_manifests,
    every_statistics_file,
    files_of_live_entries,
    metadata_files,
)


def still_named(context: TableContext, missing: Collection[str]) -> frozenset[str]:
    """Return those of some missing files that snapshots of the newest metadata name.

    All of them, if that cannot be read.
    Cost: the manifests of all snapshots, a few MiB at a time.
    """
    keys = {loosest_key(location): location for location in missing}

    def missing_ones(listed: Files) -> Files:
        return with_keys(listed, keys)

    try:
        metadata = context.catalog.load().metadata
        lists = manifests_by_snapshot(context, metadata, metadata.snapshots)
        manifests = all_manifests(lists, metadata.snapshots)
        every = [
            metadata_files(metadata, metadata.snapshots, manifests, {}),
            every_statistics_file(metadata),
            files_of_live_entries(context, metadata, manifests, missing_ones),
        ]
    except IcectlError:
        return frozenset(missing)
    named = together(map(missing_ones, every)).table["key"].to_pylist()
    return frozenset(keys[key] for key in named)


def removed_by_another(location: str) -> str:
    """Return why a file is missing from a table that is whole."""
    return f"another commit has removed `{location}`"


@contextmanager
def unless_removed(context: TableContext) -> Iterator[None]:
    """Read what a table names inside.

    Raises: CommitConflict, in place of MissingFile, if another writer has removed the file since.
    """
    try:
        yield
    except MissingFile as error:
        if still_named(context, [error.location]):
            raise
        raise CommitConflict(removed_by_another(error.location)) from error
