"""A commit to a REST server, and what became of it: told by the server, or by how the table looks.

The protocol has no condition that says "no other refs". A server that removes a snapshot which
another writer has just tagged drops the tag, and answers that all went well. The answer's metadata
log shows that something came between; the file there shows what.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from icectl.catalog.commit_file import came_between, unmet
from icectl.catalog.http import Answer, NoAnswerError, NotReachedError
from icectl.catalog.protocol import (
    CommitOutcome,
    Committed,
    Conflict,
    LoadedTable,
    Unknown,
    check_same_table,
)
from icectl.catalog.rest.client import Refusal
from icectl.catalog.rest.served import ServedTable, time_ordered_uuid
from icectl.catalog.rest.wire import commit_json
from icectl.env import Env
from icectl.errors import IcectlError, Refused, TableNotFound, Unsupported
from icectl.format.metadata import TableMetadata
from icectl.format.metadata_json import metadata_json
from icectl.format.snapshot import PUT_BACK, SnapshotRef
from icectl.format.updates import (
    AddSnapshot,
    AssertRefSnapshotId,
    AssertTableUuid,
    AssignUuid,
    RemovePartitionSpecs,
    RemovePartitionStatistics,
    RemoveProperties,
    RemoveSchemas,
    RemoveSnapshotRef,
    RemoveSnapshots,
    RemoveStatistics,
    Requirement,
    SetPartitionStatistics,
    SetProperties,
    SetSnapshotRef,
    SetStatistics,
    Update,
    UpgradeFormatVersion,
    apply_all,
)

_LOGGER = logging.getLogger(__name__)
_LOOKS, _LOOK_SECONDS = 3, 0.5
"""How often, and how far apart, the table is looked at after a commit that was not answered."""
_PAUSES_SECONDS = (0.5, 2.0, 5.0)
"""Before a commit of unknown outcome is sent again."""
_TRIES_TO_PUT_BACK = 5
_FAULTS_OF_CLIENTS = frozenset({
    "AlreadyExistsException", "BadRequestException", "CommitFailedException",
    "ForbiddenException", "IllegalArgumentException", "NoSuchNamespaceException",
    "NoSuchTableException", "NotAuthorizedException", "NotImplementedException",
    "UnprocessableEntityException", "UnsupportedOperationException", "ValidationException",
})  # fmt: skip
"""Types of errors that servers raise before they change anything, whatever the status is."""

_NOT_COMPARED = {
    "summary", "properties", "snapshot-log", "metadata-log", "schema", "partition-spec",
}  # fmt: skip
"""Members that servers have in a form of their own, or of which they show a part."""

_IDS = ("snapshot-id", "schema-id", "spec-id", "order-id", "field-id", "id", "key-id")


@dataclass(slots=True)
class RestAttempt:
    """One commit; `is_doubtful` once it was sent and may still come."""

    table: ServedTable
    base: LoadedTable
    requirements: Sequence[Requirement]
    updates: Sequence[Update]
    key: str
    is_doubtful: bool = False
    _is_unseen: bool = False

    def outcome(self) -> CommitOutcome:
        """Send it, and find out what became of it (R-156).

        If the outcome is unknown, it is sent again as it was: its conditions and its changes are
        such that of two that arrive one comes to nothing. Raises: Unsupported, Refused,
        TableNotFound, StorageError: where nothing has changed and nothing can still come.
        """
        name = (self.table.namespace, self.table.name)
        body = commit_json(name, self.base.metadata, self.requirements, self.updates)
        reason = ""
        for pause in _PAUSES_SECONDS:
            try:
                answer = self.table.post(body, self.key)
            except NotReachedError as error:
                if not self.is_doubtful:
                    raise self.table.client.unreachable(self.table.url, error) from error
                reason = str(error)
            except NoAnswerError as error:
                self.is_doubtful, reason = True, str(error)
            except IcectlError as error:  # of the login
                if not self.is_doubtful:
                    raise
                reason = error.message
            else:
                outcome = self._answered(answer)
                if not isinstance(outcome, str):
                    return outcome
                reason = outcome
            seen = self._seen(reason, _LOOKS)
            if seen is not None:
                return seen
            self.table.client.env.sleep(pause)
        return self._seen(reason, 1) or self._unknown(reason)

    def _answered(self, answer: Answer) -> CommitOutcome | str:
        """Return what an answer means; why it means nothing, where it does. Raises: as outcome."""
        client = self.table.client
        if answer.status == 200:
            try:
                now = self.table.loaded_from(client.parsed(answer, self.table.url))
            except IcectlError as error:
                self.is_doubtful = True
                return error.message
            uuid = self.base.metadata.table_uuid
            if uuid not in (None, now.metadata.table_uuid) or not shows(self.updates, now.metadata):
                self.is_doubtful = True  # it may be an older answer, or one to somebody else
                return "the server accepted the commit, but its response shows a table without it"
            return self._checked(now, is_own=True)
        refusal = Refusal.of(answer)
        if _says_nothing(refusal):
            self.is_doubtful = True
            return str(refusal)
        is_plain = answer.status < 500 and answer.status != 409 and not self.is_doubtful
        seen = self._seen(str(refusal), 2 if answer.status >= 500 else 1)
        if seen is not None and not (is_plain and self._is_unseen):
            return seen
        if self.is_doubtful:
            return str(refusal)
        if answer.status == 409:  # to a request that somebody on the way repeated, perhaps
            reason = f"the server refuses the commit: {refusal.message}"
            return Conflict(reason, may_land=True)
        raise self._refused(refusal)

    def _seen(self, reason: str, looks: int) -> CommitOutcome | None:
        """Return the outcome as the table shows it; None where it is as before the commit."""
        for look in range(looks):
            self.table.client.env.sleep(_LOOK_SECONDS * look)
            try:
                now = self.table.load()
                check_same_table(self.base, now.metadata)
            except Refused as error:  # which no commit to the other one lands on
                return Conflict(error.message)
            except IcectlError as error:
                self._is_unseen = True
                return self._unknown(f"{reason}; asked again: {error.message}")
            if now.metadata_location == self.base.metadata_location:
                continue
            if has_landed(self.updates, now.metadata):
                return self._checked(now, is_own=False)
            broken = unmet(now.metadata, self.requirements)
            if broken is not None:
                return self._passed_by(now, broken) if self.is_doubtful else Conflict(broken)
        return None

    def _passed_by(self, now: LoadedTable, reason: str) -> CommitOutcome:
        """Return the outcome of a commit that others came after, whose snapshot is not there.

        It may have gone with what they did, and its files are in use all the same.
        """
        between = came_between(self.base.metadata_location, now.metadata)
        if between is None:
            return self._unknown(f"{reason}, and the table's log does not say what came before")
        try:
            landed = any(has_landed(self.updates, self.table.stored(file)) for file in between)
        except (IcectlError, OSError) as error:
            return self._unknown(f"later commits cannot be read: {error}")
        return self._checked(now, is_own=False) if landed else Conflict(reason)

    def _unknown(self, reason: str) -> Unknown:
        return Unknown(
            self.base.metadata_location,
            reason,
            message=f"the outcome of the commit to {self.table.shown} is unknown: {reason}",
            hint="check the table once the server responds again, then run the command again; "
            "nothing was deleted",
        )

    def _refused(self, refusal: Refusal) -> IcectlError:
        client, message = self.table.client, f"the server refuses the commit: {refusal}"
        if refusal.status in {401, 403, 419}:
            return client.denied(refusal, self.table.url)
        if refusal.status == 404:
            return TableNotFound(f"there is no table {self.table.shown}: {refusal}")
        if refusal.status in {429, 503}:
            return client.failed(refusal, self.table.url)
        unknown = refusal.status in {405, 406, 501} or "Unsupported" in refusal.type
        if unknown or "nrecognized action" in refusal.message:
            return Unsupported(message, hint="the server does not support this kind of change")
        return Refused(message, hint="nothing was changed; the message is the server's own")

    def _checked(self, now: LoadedTable, *, is_own: bool) -> CommitOutcome:
        """The outcome of a commit that has landed, once it has lost nothing of other writers.

        `is_own`: `now` is what the commit made, and nothing newer.
        """
        between = came_between(self.base.metadata_location, now.metadata)
        if not removes(self.updates):
            if is_own and not between:
                self._tell_changes(now)
            return Committed(now)
        try:
            return self._kept(now, between, is_own=is_own)
        except (IcectlError, OSError, NoAnswerError, NotReachedError) as error:
            return self._uncertain(getattr(error, "message", None) or str(error))

    def _kept(
        self, now: LoadedTable, between: Sequence[str] | None, *, is_own: bool
    ) -> CommitOutcome:
        """Put back what a removal took along. Raises: IcectlError; OSError, for files."""
        table = self.table
        replaced: str | None = None
        if is_own:
            log = now.metadata.metadata_log
            replaced = log[-1].metadata_file if log else None
        elif between is not None:  # `now` may be newer than the commit
            replaced = self.base.metadata_location
            for location in between:
                if has_landed(self.updates, table.stored(location)):
                    break
                replaced = location
        if replaced is None:
            return self._uncertain("the server keeps no log of the table's metadata files")
        if between is not None and not between:
            if is_own:
                self._tell_changes(now)
            return Committed(now)
        before = self.table.stored(replaced)
        for _ in range(_TRIES_TO_PUT_BACK):
            refs = lost_refs(before, now.metadata, self.updates)
            if not refs:
                return Committed(now)
            env = table.client.env
            again = put_back(refs, before, now.metadata, env, keep_ids=not self.is_doubtful)
            body = commit_json((table.namespace, table.name), now.metadata, *again)
            answer = table.post(body, time_ordered_uuid(env))
            if answer.status not in {200, 409} and answer.status < 500:
                raise self._refused(Refusal.of(answer))
            now = table.load()  # whatever became of that commit
            names = ", ".join(f"`{name}`" for name in refs)
            if set(refs) <= set(now.metadata.refs):
                self.table.warn(
                    f"another writer pointed {names} to a snapshot that this commit expired; "
                    "the server dropped it, and icectl restored it on a snapshot with the same "
                    "content"
                )
        return self._uncertain(f"{names} cannot be restored")

    def _uncertain(self, reason: str) -> Unknown:
        return Unknown(
            self.base.metadata_location,
            reason,
            message=f"the commit to {self.table.shown} has landed, but may have dropped a branch "
            f"or tag that another writer just set ({reason}); no file was deleted",
            hint="check that every branch and tag still exists, then run the command again: it "
            "deletes the files",
        )

    def _tell_changes(self, now: LoadedTable) -> None:
        try:
            expected = apply_all(self.base.metadata, self.updates)
            changed = changed_otherwise(expected, now.metadata)
        except Exception:  # the commit has landed
            _LOGGER.debug("cannot compare what the server has made", exc_info=True)
            return
        if self.table.keeps_history:
            changed = [name for name in changed if name not in ("properties", "snapshots")]
        if changed:
            self.table.warn(
                f"the server made the commit, but {', '.join(changed)} is not what was requested"
            )


def _says_nothing(refusal: Refusal) -> bool:
    """Return whether a refusal leaves open what becomes of the commit (R-156).

    Status 500 and above says nothing of it, whatever stands beside it, unless the error's type is
    one of what the client did wrong.
    """
    if refusal.status < 200 or refusal.status in {204, 408, 502, 503, 504}:
        return True
    return refusal.status >= 500 and refusal.type not in _FAULTS_OF_CLIENTS


def has_landed(updates: Sequence[Update], now: TableMetadata) -> bool:
    """Return whether changes are in the table; new snapshots alone decide: their ids are random."""
    added = [update.snapshot.snapshot_id for update in updates if isinstance(update, AddSnapshot)]
    if added:
        return any(now.snapshot(snapshot_id) is not None for snapshot_id in added)
    return all(type(update) in _SHOWS and _SHOWS[type(update)](update, now) for update in updates)


def shows(updates: Sequence[Update], now: TableMetadata) -> bool:
    """Return whether metadata may be what changes made, of which a server may leave some out.

    Properties may be its own to set, and it may keep some of the snapshots.
    """
    kinds = (AddSnapshot, SetSnapshotRef, RemoveSnapshotRef)
    removed = {
        snapshot_id
        for update in updates
        if isinstance(update, RemoveSnapshots)
        for snapshot_id in update.snapshot_ids
    }
    is_there = has_landed([update for update in updates if isinstance(update, kinds)], now)
    return is_there and not (removed and removed <= now.snapshots_by_id.keys())


_SHOWS: Mapping[type, Callable[[Any, TableMetadata], bool]] = {
    RemoveSnapshots: lambda update, now: not set(update.snapshot_ids) & set(now.snapshots_by_id),
    SetSnapshotRef: lambda update, now: (
        update.name in now.refs and now.refs[update.name].snapshot_id == update.ref.snapshot_id
    ),
    RemoveSnapshotRef: lambda update, now: update.name not in now.refs,
    SetProperties: lambda update, now: update.updates.items() <= now.properties.items(),
    RemoveProperties: lambda update, now: not set(update.removals) & set(now.properties),
    SetStatistics: lambda update, now: any(
        file.statistics_path == update.statistics.statistics_path for file in now.statistics
    ),
    SetPartitionStatistics: lambda update, now: any(
        file.statistics_path == update.statistics.statistics_path
        for file in now.partition_statistics
    ),
    RemoveStatistics: lambda update, now: all(
        file.snapshot_id != update.snapshot_id for file in now.statistics
    ),
    RemovePartitionStatistics: lambda update, now: all(
        file.snapshot_id != update.snapshot_id for file in now.partition_statistics
    ),
    RemoveSchemas: lambda update, now: all(
        schema.schema_id not in update.schema_ids for schema in now.schemas
    ),
    RemovePartitionSpecs: lambda update, now: all(
        spec.spec_id not in update.spec_ids for spec in now.partition_specs
    ),
    UpgradeFormatVersion: lambda update, now: now.format_version >= update.format_version,
    AssignUuid: lambda update, now: now.table_uuid == update.uuid,
}


def removes(updates: Sequence[Update]) -> bool:
    """Return whether changes can take along what another writer has just made."""
    return any(isinstance(update, RemoveSnapshots) for update in updates)


def lost_refs(
    before: TableMetadata, now: TableMetadata, updates: Sequence[Update]
) -> Mapping[str, SnapshotRef]:
    """Return refs of the table that a commit has replaced, which should still be there."""
    meant = {update.name for update in updates if isinstance(update, RemoveSnapshotRef)}
    removed = {
        snapshot_id
        for update in updates
        if isinstance(update, RemoveSnapshots)
        for snapshot_id in update.snapshot_ids
    }
    return {
        name: ref
        for name, ref in before.refs.items()
        if name not in now.refs and name not in meant and ref.snapshot_id in removed
    }


def put_back(
    refs: Mapping[str, SnapshotRef],
    before: TableMetadata,
    now: TableMetadata,
    env: Env,
    *,
    keep_ids: bool,
) -> tuple[Sequence[Requirement], Sequence[Update]]:
    """Make the commit that brings lost refs back, with all that their snapshots held before.

    Servers take a snapshot only as a new one: behind the last sequence number and the last update,
    with row ids that begin behind those in use (R-040, R-101). What it holds says its manifest
    list, which stays. So does its id, unless a snapshot has it as parent that is older by then, or
    the removal of that id may come a second time (`keep_ids`).
    """
    timestamp_ms = max(env.now_ms(), now.last_updated_ms)
    parents = {snapshot.parent_snapshot_id for snapshot in now.snapshots}
    ids: dict[int, int] = {}
    updates: list[Update] = []
    heads = dict.fromkeys(ref.snapshot_id for ref in refs.values())
    snapshots = [before.snapshot(head) for head in heads if now.snapshot(head) is None]
    for number, snapshot in enumerate(filter(None, snapshots), start=1):
        old_id = snapshot.snapshot_id
        ids[old_id] = old_id if keep_ids and old_id not in parents else env.new_snapshot_id()
        has_numbers = now.format_version > 1
        again = replace(
            snapshot,
            snapshot_id=ids[old_id],
            parent_snapshot_id=None,
            sequence_number=now.last_sequence_number + number if has_numbers else 0,
            timestamp_ms=timestamp_ms,
            summary={PUT_BACK: str(old_id), **(snapshot.summary or {})},
            first_row_id=now.next_row_id,
            added_rows=None if now.next_row_id is None else 0,
        )
        updates.append(AddSnapshot(again))
    for name, ref in refs.items():
        shown = replace(ref, snapshot_id=ids.get(ref.snapshot_id, ref.snapshot_id))
        updates.append(SetSnapshotRef(name, shown))
    required: list[Requirement] = []
    if now.table_uuid is not None:
        required.append(AssertTableUuid(now.table_uuid))
    required += [AssertRefSnapshotId(name, None) for name in refs]
    return required, updates


def not_shown(stored: TableMetadata, answered: TableMetadata) -> Sequence[str]:
    """Members of a metadata file that a server's answer lacks: a commit would lose them."""
    return tuple(dict.fromkeys(_missing(metadata_json(stored), metadata_json(answered), "")))


def _missing(stored: Any, answered: Any, path: str) -> Iterator[str]:
    if isinstance(stored, dict) and isinstance(answered, dict):
        for key, value in stored.items():
            name = f"{path}.{key}".lstrip(".")
            if key in _NOT_COMPARED or value in (None, [], {}):
                continue
            if key not in answered:
                yield name
            else:
                yield from _missing(value, answered[key], name)
    elif isinstance(stored, list) and isinstance(answered, list):
        others = {_identity(item, number): item for number, item in enumerate(answered)}
        for number, item in enumerate(stored):
            key = _identity(item, number)
            if key in others:
                yield from _missing(item, others[key], path)
            else:
                yield path


def _identity(item: Any, number: int) -> object:
    """Return what tells an item of a list from the others: its id, else its place."""
    ids = [item[name] for name in _IDS if name in item] if isinstance(item, dict) else []
    return ids[0] if ids else (number,)


def changed_otherwise(expected: TableMetadata, answered: TableMetadata) -> Sequence[str]:
    """Members in which a server's answer is not what was asked for, named as in the JSON."""
    wanted, shown = metadata_json(expected), metadata_json(answered)
    compared = (
        "table-uuid", "format-version", "location", "last-sequence-number", "schemas",
        "partition-specs", "sort-orders", "properties", "refs", "snapshots", "next-row-id",
        "encryption-keys",
    )  # fmt: skip
    return tuple(name for name in compared if wanted.get(name) != shown.get(name))
