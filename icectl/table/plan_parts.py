"""The parts of plans, whatever the command."""

from dataclasses import dataclass

from icectl.format.metadata import TableMetadata


@dataclass(frozen=True, slots=True)
class UpgradeStep:
    """One change of an upgrade, and what it comes to."""

    step: str
    detail: str


@dataclass(frozen=True, slots=True)
class Pin:
    """The state of a table that a plan was made from."""

    table_uuid: str | None
    metadata_location: str
    current_snapshot_id: int | None
    last_sequence_number: int


def pin_of(metadata: TableMetadata, metadata_location: str) -> Pin:
    """Return the state of a table as it is now."""
    return Pin(
        metadata.table_uuid,
        metadata_location,
        metadata.current_snapshot_id,
        metadata.last_sequence_number,
    )
