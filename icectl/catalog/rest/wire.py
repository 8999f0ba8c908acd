"""Changes and conditions in the JSON of the REST protocol."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from icectl.errors import Unsupported
from icectl.format.metadata import TableMetadata
from icectl.format.snapshot import ref_json, snapshot_json
from icectl.format.updates import (
    ALL_UPDATES,
    AddSnapshot,
    AssertCurrentSchemaId,
    AssertDefaultSpecId,
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
)

NEWEST_VERSION = 3
"""The newest format version that the protocol has metadata and changes of."""

_UPDATES: Mapping[type, tuple[str, Callable[[Any, int], dict[str, Any]]]] = {
    AssignUuid: ("assign-uuid", lambda update, _: {"uuid": update.uuid}),
    UpgradeFormatVersion: (
        "upgrade-format-version",
        lambda update, _: {"format-version": update.format_version},
    ),
    AddSnapshot: (
        "add-snapshot",
        lambda update, version: {"snapshot": snapshot_json(update.snapshot, version)},
    ),
    RemoveSnapshots: (
        "remove-snapshots",
        lambda update, _: {"snapshot-ids": list(update.snapshot_ids)},
    ),
    SetSnapshotRef: (
        "set-snapshot-ref",
        lambda update, _: {"ref-name": update.name, **ref_json(update.ref)},
    ),
    RemoveSnapshotRef: ("remove-snapshot-ref", lambda update, _: {"ref-name": update.name}),
    SetProperties: ("set-properties", lambda update, _: {"updates": dict(update.updates)}),
    RemoveProperties: ("remove-properties", lambda update, _: {"removals": list(update.removals)}),
    RemoveStatistics: (
        "remove-statistics",
        lambda update, _: {"snapshot-id": update.snapshot_id},
    ),
    RemovePartitionStatistics: (
        "remove-partition-statistics",
        lambda update, _: {"snapshot-id": update.snapshot_id},
    ),
    RemoveSchemas: ("remove-schemas", lambda update, _: {"schema-ids": list(update.schema_ids)}),
    RemovePartitionSpecs: (
        "remove-partition-specs",
        lambda update, _: {"spec-ids": list(update.spec_ids)},
    ),
}

KNOWN_UPDATES: frozenset[type[Update]] = ALL_UPDATES & frozenset(_UPDATES)
"""The changes that the protocol has a form of."""


def commit_json(
    name: tuple[Sequence[str], str],
    base: TableMetadata,
    requirements: Sequence[Requirement],
    updates: Sequence[Update],
) -> dict[str, Any]:
    """Return the body of a commit to a table, by its namespace and its name.

    Raises: Unsupported, for changes that the protocol has no form of.
    """
    check_updates(updates)
    raised = [one.format_version for one in updates if isinstance(one, UpgradeFormatVersion)]
    version = max([base.format_version, *raised])
    namespace, table = name
    return {
        "identifier": {"namespace": list(namespace), "name": table},
        "requirements": [requirement_json(one) for one in requirements],
        "updates": [update_json(one, version) for one in updates],
    }


def check_updates(updates: Sequence[Update]) -> None:
    """Raises: Unsupported, for changes that the protocol has no form of."""
    for update in updates:
        if type(update) not in _UPDATES:
            raise Unsupported(
                f"REST catalogs have no way to make this change ({type(update).__name__})",
                hint="an engine that writes to the table, such as Spark, rewrites its manifests in "
                "a form that has one",
            )
        if isinstance(update, UpgradeFormatVersion) and update.format_version > NEWEST_VERSION:
            raise Unsupported(
                f"REST catalogs do not keep tables of version {update.format_version}"
            )


def update_json(update: Update, format_version: int) -> dict[str, Any]:
    """Return one change of a table that will have a format version."""
    action, members = _UPDATES[type(update)]
    return {"action": action, **members(update, format_version)}


def requirement_json(requirement: Requirement) -> dict[str, Any]:
    """Return one condition of a commit."""
    match requirement:
        case AssertTableUuid(uuid):
            return {"type": "assert-table-uuid", "uuid": uuid}
        case AssertRefSnapshotId(name, snapshot_id):
            return {"type": "assert-ref-snapshot-id", "ref": name, "snapshot-id": snapshot_id}
        case AssertCurrentSchemaId(schema_id):
            return {"type": "assert-current-schema-id", "current-schema-id": schema_id}
        case AssertDefaultSpecId(spec_id):
            return {"type": "assert-default-spec-id", "default-spec-id": spec_id}
