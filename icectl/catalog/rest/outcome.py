"""What became of a commit, told from how the table looks afterwards.

The protocol has no condition that says "no other refs". A server that removes a snapshot which
another writer has just tagged drops the tag, and answers that all went well. The answer's metadata
log shows that something came between; the file there shows what.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from icectl.env import Env
from icectl.format.metadata import TableMetadata
from icectl.format.metadata_json import metadata_json
from icectl.format.snapshot import PUT_BACK, Snapshot, SnapshotRef
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
    SetProperties,
    SetSnapshotRef,
    Update,
    UpgradeFormatVersion,
    check,
)
from icectl.storage.location import loosest_key

_NOT_COMPARED = {
    "summary",
    "properties",
    "snapshot-log",
    "metadata-log",
    "schema",
    "partition-spec",
}
"""Members that servers have in a form of their own, or of which they show a part."""

_IDS = ("snapshot-id", "schema-id", "spec-id", "order-id", "field-id", "id", "key-id")


def has_landed(updates: Sequence[Update], now: TableMetadata) -> bool:
    """Return whether changes are in the table.

    New snapshots alone decide, as their ids are random.
    """
    added = [one.snapshot.snapshot_id for one in updates if isinstance(one, AddSnapshot)]
    if added:
        return any(now.snapshot(snapshot_id) is not None for snapshot_id in added)
    return all(_shows(one, now) for one in updates)


def _shows(update: Update, now: TableMetadata) -> bool:
    """Return whether a table looks as it does after a change."""
    shows = _SHOWS.get(type(update))
    return shows is not None and shows(update, now)


_SHOWS: Mapping[type, Callable[[Any, TableMetadata], bool]] = {
    RemoveSnapshots: lambda one, now: not set(one.snapshot_ids) & set(now.snapshots_by_id),
    SetSnapshotRef: lambda one, now: (
        one.name in now.refs and now.refs[one.name].snapshot_id == one.ref.snapshot_id
    ),
    RemoveSnapshotRef: lambda one, now: one.name not in now.refs,
    SetProperties: lambda one, now: one.updates.items() <= now.properties.items(),
    RemoveProperties: lambda one, now: not set(one.removals) & set(now.properties),
    RemoveStatistics: lambda one, now: all(
        file.snapshot_id != one.snapshot_id for file in now.statistics
    ),
    RemovePartitionStatistics: lambda one, now: all(
        file.snapshot_id != one.snapshot_id for file in now.partition_statistics
    ),
    RemoveSchemas: lambda one, now: all(
        schema.schema_id not in one.schema_ids for schema in now.schemas
    ),
    RemovePartitionSpecs: lambda one, now: all(
        spec.spec_id not in one.spec_ids for spec in now.partition_specs
    ),
    UpgradeFormatVersion: lambda one, now: now.format_version >= one.format_version,
    AssignUuid: lambda one, now: now.table_uuid == one.uuid,
}


def unmet(requirements: Sequence[Requirement], now: TableMetadata) -> str | None:
    """Return why a commit that has not landed cannot land any more; None where it still can."""
    reasons = (check(now, requirement) for requirement in requirements)
    return next((reason for reason in reasons if reason is not None), None)


def removes(updates: Sequence[Update]) -> bool:
    """Return whether changes can take along what another writer has just made."""
    return any(isinstance(update, RemoveSnapshots) for update in updates)


def came_between(base_location: str, now: TableMetadata) -> Sequence[str] | None:
    """Return the metadata files that were current between a base and what is current now.

    Order: oldest first. None, where the log does not go back to the base.
    """
    log = [entry.metadata_file for entry in now.metadata_log]
    keys = [loosest_key(location) for location in log]
    if loosest_key(base_location) not in keys:
        return None
    return log[len(keys) - keys[::-1].index(loosest_key(base_location)) :]


def replaced_file(
    base_location: str,
    now: TableMetadata,
    updates: Sequence[Update],
    read: Callable[[str], TableMetadata],
) -> str | None:
    """The metadata file that a commit has replaced, which is the base where nothing came between.

    `now` may be newer than the commit. None, where the log does not say. Raises: what `read` does.
    """
    between = came_between(base_location, now)
    if between is None:
        return None
    before = base_location
    for location in between:
        if has_landed(updates, read(location)):
            return before
        before = location
    return before


def was_there(
    base_location: str,
    now: TableMetadata,
    updates: Sequence[Update],
    read: Callable[[str], TableMetadata],
) -> bool | None:
    """Return whether changes that a table does not show any more were in it once since a base.

    None, where the log does not go back to the base. Raises: what `read` does.
    """
    between = came_between(base_location, now)
    if between is None:
        return None
    return any(has_landed(updates, read(location)) for location in between)


@dataclass(frozen=True, slots=True)
class LostRefs:
    """Refs that went with a commit which did not know of them, and the snapshots they show."""

    refs: Mapping[str, SnapshotRef]
    snapshots: Sequence[Snapshot]


def lost_in(before: TableMetadata, now: TableMetadata, updates: Sequence[Update]) -> LostRefs:
    """Return what was in the table that a commit has replaced, and should still be there."""
    meant = {update.name for update in updates if isinstance(update, RemoveSnapshotRef)}
    removed = {
        snapshot_id
        for update in updates
        if isinstance(update, RemoveSnapshots)
        for snapshot_id in update.snapshot_ids
    }
    refs = {
        name: ref
        for name, ref in before.refs.items()
        if name not in now.refs and name not in meant and ref.snapshot_id in removed
    }
    heads = dict.fromkeys(ref.snapshot_id for ref in refs.values())
    snapshots = [before.snapshot(head) for head in heads if now.snapshot(head) is None]
    return LostRefs(refs, [snapshot for snapshot in snapshots if snapshot is not None])


def put_back(
    lost: LostRefs, now: TableMetadata, env: Env, *, keep_ids: bool
) -> tuple[Sequence[Requirement], Sequence[Update]]:
    """Make the commit that brings lost refs back, with all that their snapshots hold.

    Servers take a snapshot only as a new one: behind the last sequence number and the last update,
    with row ids that begin behind those in use (R-040, R-101). What it holds says its manifest
    list, which stays. So does its id, unless a snapshot has it as parent that is older by then, or
    the removal of that id may come a second time (`keep_ids`).
    """
    timestamp_ms = max(env.now_ms(), now.last_updated_ms)
    parents = {snapshot.parent_snapshot_id for snapshot in now.snapshots}
    ids: dict[int, int] = {}
    updates: list[Update] = []
    for number, snapshot in enumerate(lost.snapshots, start=1):
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
    for name, ref in lost.refs.items():
        shown = replace(ref, snapshot_id=ids.get(ref.snapshot_id, ref.snapshot_id))
        updates.append(SetSnapshotRef(name, shown))
    required: list[Requirement] = []
    if now.table_uuid is not None:
        required.append(AssertTableUuid(now.table_uuid))
    required += [AssertRefSnapshotId(name, None) for name in lost.refs]
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
        others = {_identity(one, number): one for number, one in enumerate(answered)}
        for number, one in enumerate(stored):
            key = _identity(one, number)
            if key in others:
                yield from _missing(one, others[key], path)
            else:
                yield path


def _identity(item: Any, number: int) -> object:
    """Return what tells an item of a list from the others: its id, else its place."""
    ids = [item[name] for name in _IDS if name in item] if isinstance(item, dict) else []
    return ids[0] if ids else (number,)


def changed_otherwise(expected: TableMetadata, answered: TableMetadata) -> Sequence[str]:
    """Members in which a server's answer is not what was asked for, named as in the JSON."""
    one, other = metadata_json(expected), metadata_json(answered)
    compared = (
        "table-uuid", "format-version", "location", "last-sequence-number", "schemas",
        "partition-specs", "sort-orders", "properties", "refs", "snapshots", "next-row-id",
        "encryption-keys",
    )  # fmt: skip
    return tuple(name for name in compared if one.get(name) != other.get(name))
