"""Commits of engines that write a metadata file under a UUID and then rename it to a version.

While such a file is young its writer is in the middle of a commit; an old one is left over from a
commit that did not end. Neither is a version of the table, nor a sign of a catalog.
"""

from collections.abc import Sequence

from icectl.catalog.protocol import Conflict
from icectl.catalog.versions import MetadataVersion, list_versions
from icectl.env import Env
from icectl.errors import CommitConflict
from icectl.storage.store import Store, dating_clock_ms
from icectl.units import print_duration

COMMIT_TAKES_MS = 10 * 60_000
"""The age from which on a file that waits to be renamed is taken for left over."""

_PAUSES_SECONDS = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6)
"""Between looks at a commit that is under way."""


def uncommitted_files(
    versions: Sequence[MetadataVersion], store: Store, env: Env
) -> tuple[Sequence[MetadataVersion], Sequence[MetadataVersion]]:
    """Return files of commits that are under way, and files that such commits have left over.

    By the clock that dates the files; one without a time is never old.
    """
    waiting = [version for version in versions if version.kind == "uncommitted"]
    if not waiting:
        return (), ()
    limit_ms = dating_clock_ms(store, env, waiting[0].location) - COMMIT_TAKES_MS
    old = [v for v in waiting if v.modified_ms is not None and v.modified_ms < limit_ms]
    return [version for version in waiting if version not in old], old


def wait_for_end(store: Store, env: Env, directory: str) -> None:
    """Wait until the commits that are under way in a directory have ended.

    Those that begin meanwhile are not waited for. Raises: CommitConflict; StorageError.
    """

    def under_way() -> Sequence[MetadataVersion]:
        """List the metadata files of commits that are under way."""
        return uncommitted_files(list_versions(store, directory), store, env)[0]

    waiting = under_way()
    for seconds in _PAUSES_SECONDS:
        if not waiting:
            return
        env.sleep(seconds)
        now = {version.location for version in under_way()}
        waiting = [version for version in waiting if version.location in now]
    if waiting:
        found = busy(waiting[0])
        raise CommitConflict(found.reason, hint=found.hint)


def busy(version: MetadataVersion) -> Conflict:
    """Return the conflict with the commit that a file belongs to."""
    return Conflict(
        f"another writer is in the middle of a commit, as {version.name} shows",
        "nothing was changed; run the command again. If no writer is at work, that file is left "
        f"over: it is ignored once it is {print_duration(COMMIT_TAKES_MS)} old",
    )


def left_over(version: MetadataVersion) -> str:
    """Return the message on a file that a commit has left over."""
    return (
        f"{version.name} in the metadata directory is left over from a commit that did not end, "
        "and ignored; `icectl remove-orphans` deletes it"
    )
