"""What plans are made of, whatever the command."""

from dataclasses import dataclass
from typing import Literal

from icectl.spec.metadata import TableMetadata

Severity = Literal["error", "warning", "info"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong: which rule, where, what was found, what to do.

    Severity: error = wrong rows, unreadable or unsafe to maintain; warning = wrong but harmless;
    info = worth knowing.
    """

    rule: str
    severity: Severity
    subject: str
    message: str
    hint: str


@dataclass(frozen=True, slots=True)
class Step:
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
    """The state of a table as it is now."""
    return Pin(
        metadata.table_uuid,
        metadata_location,
        metadata.current_snapshot_id,
        metadata.last_sequence_number,
    )
