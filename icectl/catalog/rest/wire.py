"""The REST protocol: its paths, which of them a server offers, and commits in JSON."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote

from icectl.errors import Unsupported
from icectl.format.metadata import TableMetadata
from icectl.format.snapshot import item_json, snapshot_json
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
    SetPartitionStatistics,
    SetProperties,
    SetSnapshotRef,
    SetStatistics,
    Update,
    UpgradeFormatVersion,
)

NAMESPACES = "GET /v1/{prefix}/namespaces"
TABLES = "GET /v1/{prefix}/namespaces/{namespace}/tables"
LOAD_TABLE = "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}"
UPDATE_TABLE = "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}"
CREDENTIALS = "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}/credentials"
LOAD_VIEW = "GET /v1/{prefix}/namespaces/{namespace}/views/{view}"

DEFAULT_ENDPOINTS = frozenset({NAMESPACES, TABLES, LOAD_TABLE, UPDATE_TABLE})
"""Those that icectl uses of what a server offers that does not say what it offers."""

_DEFAULT_SEPARATOR = "%1F"

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
        lambda update, _: {"ref-name": update.name, **item_json(update.ref)},
    ),
    RemoveSnapshotRef: ("remove-snapshot-ref", lambda update, _: {"ref-name": update.name}),
    SetProperties: ("set-properties", lambda update, _: {"updates": dict(update.updates)}),
    RemoveProperties: ("remove-properties", lambda update, _: {"removals": list(update.removals)}),
    SetStatistics: (
        "set-statistics",
        lambda update, _: {
            "snapshot-id": update.statistics.snapshot_id,
            "statistics": item_json(update.statistics),
        },
    ),
    SetPartitionStatistics: (
        "set-partition-statistics",
        lambda update, _: {"partition-statistics": item_json(update.statistics)},
    ),
    RemoveStatistics: ("remove-statistics", lambda update, _: {"snapshot-id": update.snapshot_id}),
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


def endpoints_of(listed: object) -> frozenset[str]:
    """Read the `endpoints` of a server's configuration; the default ones where it has none."""
    if not isinstance(listed, list) or not listed:
        return DEFAULT_ENDPOINTS
    return frozenset(" ".join(str(endpoint).split()) for endpoint in listed)


@dataclass(frozen=True, slots=True)
class Addresses:
    """The paths of one catalog below its `uri`, everything in them encoded."""

    prefix: str = ""
    separator: str = "\x1f"

    @staticmethod
    def of(properties: Mapping[str, str]) -> "Addresses":
        """Take prefix and separator from a catalog's properties."""
        separator = unquote(properties.get("namespace-separator") or _DEFAULT_SEPARATOR)
        return Addresses(properties.get("prefix", "").strip("/"), separator)

    def namespaces(self) -> str:
        prefix = f"{quote(self.prefix, safe='/%')}/" if self.prefix else ""
        return f"v1/{prefix}namespaces"

    def tables(self, namespace: Iterable[str]) -> str:
        return f"{self.namespaces()}/{quote(self.joined(namespace), safe='')}/tables"

    def table(self, namespace: Iterable[str], name: str) -> str:
        return f"{self.tables(namespace)}/{quote(name, safe='')}"

    def credentials(self, namespace: Iterable[str], name: str) -> str:
        return f"{self.table(namespace, name)}/credentials"

    def view(self, namespace: Iterable[str], name: str) -> str:
        inside = quote(self.joined(namespace), safe="")
        return f"{self.namespaces()}/{inside}/views/{quote(name, safe='')}"

    def joined(self, namespace: Iterable[str]) -> str:
        """Return a namespace as queries name it, before it is encoded."""
        return self.separator.join(namespace)


def commit_json(
    name: tuple[Sequence[str], str],
    base: TableMetadata,
    requirements: Sequence[Requirement],
    updates: Sequence[Update],
) -> dict[str, Any]:
    """Return the body of a commit to a table. Raises: Unsupported, for changes without a form."""
    check_updates(updates)
    raised = [
        update.format_version for update in updates if isinstance(update, UpgradeFormatVersion)
    ]
    version = max([base.format_version, *raised])
    namespace, table = name
    return {
        "identifier": {"namespace": list(namespace), "name": table},
        "requirements": [requirement_json(requirement) for requirement in requirements],
        "updates": [update_json(update, version) for update in updates],
    }


def check_updates(updates: Sequence[Update]) -> None:
    """Raises: Unsupported, for changes that the protocol has no form of."""
    for update in updates:
        if type(update) not in _UPDATES:
            raise Unsupported(
                f"REST catalogs cannot make this change ({type(update).__name__})",
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
