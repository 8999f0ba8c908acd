"""Committing changes: build on the newest version, send, try again after a conflict."""

import logging
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass

from icectl.catalog.commit_file import came_between
from icectl.catalog.metadata_files import read_file
from icectl.catalog.protocol import CommitOutcome, Committed, Conflict, LoadedTable, Unknown
from icectl.errors import CommitConflict, CommitUnknown, IcectlError, Refused, Unsupported
from icectl.format.metadata import TableMetadata
from icectl.format.properties import (
    COMMIT_MAX_WAIT_MS,
    COMMIT_MIN_WAIT_MS,
    COMMIT_RETRIES,
    COMMIT_TOTAL_TIMEOUT_MS,
    DELETE_AFTER_COMMIT,
    GC_ENABLED,
    read,
    read_or_default,
)
from icectl.format.updates import AddSnapshot, AssertTableUuid, Update, check, requirements_of
from icectl.storage.location import check_sum, is_local, loosest_key, parent
from icectl.table.context import TableContext
from icectl.table.guard import require_safe_base
from icectl.table.own_places import (
    OtherTables,
    check_owns_metadata_folder,
    metadata_files_among,
    own_places,
)

Changes = Callable[[TableMetadata], Sequence[Update]]
"""Returns the updates for the newest metadata; none if nothing is left to change."""

_LOGGER = logging.getLogger(__name__)


@dataclass(slots=True)
class CommitRequest:
    """Whether the catalog was asked for a commit that has landed, or may have (R-156).

    While `sent` is false, the table has nothing of the run. If it is `doubtful`, an attempt ended
    with a conflict and may have landed all the same, beside the one that is known to have landed.
    """

    sent: bool = False
    doubtful: bool = False


def commit_changes(
    context: TableContext,
    base: LoadedTable,
    changes: Changes,
    request: CommitRequest,
    *,
    deletes_dropped_metadata: bool = True,
    reloads_base: bool = False,
) -> LoadedTable:
    """Commit the updates of `changes` to the newest metadata; after a conflict, on a fresh base.

    Returns the table after the commit. Between attempts it waits twice as long each time, but no
    longer than an attempt takes: beside a writer that never pauses, a wait only adds to what the
    next attempt has to read. A first Ctrl-C waits for its end. `request` says afterwards,
    also after an error, whether the commit may have landed. With `deletes_dropped_metadata`,
    metadata files that leave the log are deleted if the table wants that. An old base
    (`reloads_base`) is read again before the first attempt.
    Raises: CommitConflict, if retries or time run out, the table is another one (R-002), or nothing
    is left to change; CorruptTable, for an unsafe base; CommitUnknown; Refused and StorageError,
    before anything was written.
    Spec: R-150, R-156.
    """
    with context.shield():
        newest = context.catalog.load() if reloads_base else base
        now = context.env.monotonic_seconds
        properties = base.metadata.properties
        retries = read_or_default(properties, COMMIT_RETRIES)
        ends_at = now() + read_or_default(properties, COMMIT_TOTAL_TIMEOUT_MS) / 1000
        attempt, uuid = 0, base.metadata.table_uuid
        added: set[int] = set()
        doubtful_base: LoadedTable | None = None
        while True:
            began_at = now()
            reason = None if uuid is None else check(newest.metadata, AssertTableUuid(uuid))
            if reason is not None:
                raise CommitConflict(reason)
            require_safe_base(newest.metadata)
            check_owns_metadata_folder(context, newest)
            updates = changes(newest.metadata)
            if not updates:
                raise CommitConflict("another writer has made these changes already")
            outcome = _ask(context, newest, updates, request)
            if isinstance(outcome, Committed):
                if deletes_dropped_metadata:
                    _forget(context, newest, outcome.table)
                return outcome.table
            if isinstance(outcome, Unknown):
                raise unknown_outcome(outcome)
            if attempt == retries or now() >= ends_at:
                raise CommitConflict(outcome.reason, hint=outcome.hint)
            shortest = read_or_default(newest.metadata.properties, COMMIT_MIN_WAIT_MS)
            longest = read_or_default(newest.metadata.properties, COMMIT_MAX_WAIT_MS)
            most = max(shortest, (now() - began_at) * 1000)
            context.progress.warn(f"{outcome.reason}; planning again")
            context.env.sleep(min(shortest * 2**attempt, longest, most) / 1000)
            attempt += 1
            if request.doubtful:
                doubtful_base = doubtful_base or newest
            newest = context.catalog.load()
            added |= {
                item.snapshot.snapshot_id for item in updates if isinstance(item, AddSnapshot)
            }
            has_landed = not added.isdisjoint(newest.metadata.snapshots_by_id)
            if added and doubtful_base is not None and not has_landed:
                has_landed = _was_there(context, doubtful_base, newest, added)
            if has_landed:  # one came through after all
                request.sent = True
                return newest


def _was_there(
    context: TableContext, base: LoadedTable, now: LoadedTable, snapshot_ids: Set[int]
) -> bool:
    """Return whether the table had one of some snapshots since a base, and has expired it.

    Raises: CommitUnknown, if the table's metadata log does not show it.
    """
    if loosest_key(base.metadata_location) == loosest_key(now.metadata_location):
        return False
    between = came_between(base.metadata_location, now.metadata)
    reason = "the metadata log does not go back to the first attempt"
    if between is not None:
        try:
            states = [read_file(context.store, location) for location in between]
        except (IcectlError, OSError) as error:
            reason = f"later commits cannot be read: {error}"
        else:
            return any(not snapshot_ids.isdisjoint(state.snapshots_by_id) for state in states)
    raise unknown_outcome(
        Unknown(
            base.metadata_location,
            reason,
            message=f"an earlier attempt of this commit may have landed: {reason}",
            hint="nothing was deleted; check the table's snapshots, then run the command again",
        )
    )


def _ask(
    context: TableContext, base: LoadedTable, updates: Sequence[Update], request: CommitRequest
) -> CommitOutcome:
    """Ask the catalog once. Raises: Unsupported, for a change that it cannot carry out."""
    beyond = {kind for kind in map(type, updates) if not base.capabilities.allows(kind)}
    if beyond:
        names = ", ".join(sorted(kind.__name__ for kind in beyond))
        raise Unsupported(
            f"the catalog of this table cannot apply this change ({names})",
            hint="nothing was changed; other commands work on the table",
        )
    required = requirements_of(base.metadata, updates)
    was_sent, request.sent = request.sent, True
    try:
        outcome = context.catalog.commit(base, required, updates)
    except Exception:  # nothing was sent this time; Ctrl-C may come at any moment
        request.sent = was_sent
        raise
    request.doubtful |= isinstance(outcome, Conflict) and outcome.may_land
    may_land = not isinstance(outcome, Conflict) or outcome.may_land
    request.sent = was_sent or may_land  # an earlier attempt may land yet
    return outcome


def _forget(context: TableContext, base: LoadedTable, now: LoadedTable) -> None:
    """Delete metadata files that a commit dropped from the log, if the table wants that.

    Only the table's own places count, and only catalogs that leave this to clients. Never raises:
    a file that stays is an orphan.
    Spec: R-024, R-193.
    """
    properties = (DELETE_AFTER_COMMIT, GC_ENABLED)
    try:
        is_wanted = all(read(now.metadata.properties, name) for name in properties)
    except Refused:  # the commit has landed, whatever they say
        is_wanted = False
    if not now.capabilities.cleans_metadata or not is_wanted:
        return
    places = own_places(now)
    logged = {loosest_key(entry.metadata_file) for entry in now.metadata.metadata_log}
    logged.add(loosest_key(now.metadata_location))
    named = metadata_files_among([entry.metadata_file for entry in base.metadata.metadata_log])
    dropped = [place for place in named if loosest_key(place) not in logged and places.holds(place)]
    if not dropped:
        return
    check_sums = [check_sum(place) for place in dropped if is_local(place)]
    try:
        OtherTables(context).check_around(now, places.folders, [parent(place) for place in dropped])
        context.store.remove([*dropped, *check_sums])
    except Refused as refused:
        context.progress.warn(f"metadata files that left the log stay: {refused.message}")
    except Exception:  # the commit has landed
        _LOGGER.debug("cannot delete metadata files that left the log", exc_info=True)


def unknown_outcome(outcome: Unknown) -> CommitUnknown:
    """Return the error for a commit that may or may not have landed (R-156)."""
    return CommitUnknown(
        outcome.message
        or f"it is not known whether {outcome.metadata_location} was written: {outcome.reason}",
        hint=outcome.hint
        or "check whether that file exists: if it does, the commit has landed, and running the "
        "command again finishes it; if not, nothing has changed",
    )
