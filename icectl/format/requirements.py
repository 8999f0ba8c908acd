"""Conditions under which a commit may replace the table it was made from, as REST names them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from icectl.format.metadata import TableMetadata
from icectl.format.updates import (
    AddSnapshot,
    RemovePartitionSpecs,
    RemoveSchemas,
    RemoveSnapshotRef,
    RemoveSnapshots,
    SetSnapshotRef,
    Update,
)


@dataclass(frozen=True, slots=True)
class AssertTableUuid:
    """The table is still the same table (R-002)."""

    uuid: str


@dataclass(frozen=True, slots=True)
class AssertRefSnapshotId:
    """A ref still shows the same snapshot; None: the ref does not exist."""

    name: str
    snapshot_id: int | None


@dataclass(frozen=True, slots=True)
class AssertCurrentSchemaId:
    """The current schema is unchanged (R-155)."""

    schema_id: int


@dataclass(frozen=True, slots=True)
class AssertDefaultSpecId:
    """The default partition spec is unchanged (R-155)."""

    spec_id: int


Requirement = AssertTableUuid | AssertRefSnapshotId | AssertCurrentSchemaId | AssertDefaultSpecId


_REMOVALS = (RemoveSnapshots, RemoveSnapshotRef, RemoveSchemas, RemovePartitionSpecs)


def requirements_of(metadata: TableMetadata, updates: Sequence[Update]) -> tuple[Requirement, ...]:
    """Find what must still be so for the updates to mean what they meant on `metadata`.

    A removal requires every ref at its head: one that another writer sets meanwhile may need what
    is removed. New snapshots require the schema and the spec that they were made for (R-155).
    """
    return tuple(dict.fromkeys(_requirements(metadata, updates)))


def _requirements(metadata: TableMetadata, updates: Sequence[Update]) -> Iterator[Requirement]:
    if metadata.table_uuid is not None:
        yield AssertTableUuid(metadata.table_uuid)
    for update in updates:
        if isinstance(update, SetSnapshotRef):
            yield _at_its_head(metadata, update.name)
        elif isinstance(update, _REMOVALS):
            yield from (_at_its_head(metadata, name) for name in metadata.refs)
        if isinstance(update, AddSnapshot | RemoveSchemas):
            yield AssertCurrentSchemaId(metadata.current_schema_id)
        if isinstance(update, AddSnapshot | RemovePartitionSpecs):
            yield AssertDefaultSpecId(metadata.default_spec_id)


def _at_its_head(metadata: TableMetadata, name: str) -> AssertRefSnapshotId:
    ref = metadata.refs.get(name)
    return AssertRefSnapshotId(name, None if ref is None else ref.snapshot_id)


def check(metadata: TableMetadata, requirement: Requirement) -> str | None:
    """Tell why a requirement does not hold; None where it does."""
    match requirement:
        case AssertTableUuid(uuid):
            if metadata.table_uuid == uuid:
                return None
            return f"the table's UUID is {metadata.table_uuid}, not {uuid}"
        case AssertRefSnapshotId(name, snapshot_id):
            ref = metadata.refs.get(name)
            current_id = None if ref is None else ref.snapshot_id
            if current_id == snapshot_id:
                return None
            return (
                f"ref `{name}` is at {current_id or 'no snapshot'}, not {snapshot_id or 'absent'}"
            )
        case AssertCurrentSchemaId(schema_id):
            if metadata.current_schema_id == schema_id:
                return None
            return f"the current schema is {metadata.current_schema_id}, not {schema_id}"
        case AssertDefaultSpecId(spec_id):
            if metadata.default_spec_id == spec_id:
                return None
            return f"the default partition spec is {metadata.default_spec_id}, not {spec_id}"
