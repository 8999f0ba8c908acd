"""The conditions that must hold of a table before a command deletes its files."""

from icectl.catalog.protocol import Catalog, LoadedTable
from icectl.errors import Refused
from icectl.format import properties
from icectl.format.metadata import TableMetadata
from icectl.table.row_safety import require_safe_base

CLOCK_TOLERANCE_MS = 60_000


def check_deletable(catalog: Catalog, loaded: LoadedTable, now_ms: int) -> None:
    """Do nothing where files of the table may be deleted.

    Raises: Refused, CorruptTable.
    """
    metadata = loaded.metadata
    check_not_maintained(loaded)  # first: such catalogs switch `gc.enabled` off themselves
    check_gc_enabled(metadata)
    if now_ms < metadata.last_updated_ms - CLOCK_TOLERANCE_MS:
        raise Refused(
            "this machine's clock is more than a minute behind the table's last commit",
            hint="set the clock; ages of snapshots and files cannot be told before",
            id="clock-behind",
        )
    require_safe_base(metadata)
    catalog.check_writable(loaded)


def check_not_maintained(loaded: LoadedTable) -> None:
    """Refused where the catalog keeps it to itself to expire snapshots and to delete files."""
    maintained_by = loaded.capabilities.maintained_by
    if maintained_by is not None:
        raise Refused(
            f"the catalog of this table leaves expiring snapshots and deleting files to "
            f"{maintained_by}",
            hint=f"use {maintained_by}; what icectl deletes there may be needed by what this "
            "table's metadata does not show",
            id="maintained-elsewhere",
        )


def check_gc_enabled(metadata: TableMetadata) -> None:
    """Refuse where the table may share its files with others (R-193). Raises: Refused."""
    if not properties.read(metadata.properties, properties.GC_ENABLED):
        raise Refused(
            "the table property `gc.enabled` is false: its files may belong to other tables too",
            hint="set `gc.enabled` to true if no other table uses them",
            id="gc-disabled",
        )
