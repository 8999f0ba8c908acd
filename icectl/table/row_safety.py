"""The conditions of changing anything of a table: else rows would change their meaning.

Commands that change a table ask here before they plan, with what they read for planning anyway;
commands that only read show what can be shown.
"""

from collections.abc import Collection, Iterable, Sequence
from itertools import chain

from icectl.catalog.protocol import Catalog, LoadedTable
from icectl.checks.finding import fault_findings
from icectl.checks.objects import CommitBase
from icectl.checks.row_risks import LiveRows
from icectl.checks.rule import Finding
from icectl.checks.rules import ALL_RULES, rules_of
from icectl.entries.rows import Entries
from icectl.errors import CorruptTable
from icectl.format.layout import layout_of, layout_of_table
from icectl.format.manifest import ManifestFile
from icectl.format.metadata import TableMetadata
from icectl.format.snapshot import Snapshot
from icectl.table.manifest_lists import snapshot_reader
from icectl.table.open import open_table
from icectl.units import print_count


def open_to_change(catalog: Catalog) -> LoadedTable:
    """Return the current metadata of a table that may be changed.

    Raises: Refused, where a commit would not be safe; CorruptTable; what open_table raises.
    """
    loaded = open_table(catalog)
    catalog.check_writable(loaded)
    require_safe_base(loaded.metadata)
    return loaded


def require_safe_base(metadata: TableMetadata) -> None:
    """Do nothing where it is sure what a commit builds on, and how it numbers its rows.

    Raises: CorruptTable R-014, R-015, R-104; V4-001, V4-017 to V4-019, V4-030; for any oddity.
    """
    for oddity in metadata.oddities:
        raise CorruptTable(oddity.message, rule=oddity.rule, hint=ALL_RULES[oddity.rule].fix)
    refuse(rules_of(layout_of_table(metadata)).findings(CommitBase(metadata)))


def check_live(
    metadata: TableMetadata,
    snapshot: Snapshot,
    manifests: Sequence[ManifestFile],
    entries: Entries,
) -> None:
    """Do nothing where the live entries of a snapshot agree with each other.

    `entries` index `manifests`; what they have no column for is not looked at.
    Raises: CorruptTable R-044, R-104, R-120; of version 4 V4-064, V4-067, V4-114, V4-120 to V4-124,
        V4-126.
    Cost: a pass over numbers and locations; n log n only where something is found.
    """
    live = LiveRows(entries, metadata, snapshot)
    own = snapshot_reader(metadata, snapshot).risks(manifests, live)
    refuse(chain(rules_of(layout_of(snapshot)).findings(live), fault_findings(live.subject, own)))


def check_homes(snapshot: Snapshot, lost: Collection[str]) -> None:
    """Do nothing where the delete vectors of a snapshot are all of live data files.

    `lost` are keys of those that aren't live: leaves are not what was committed then, and files
    that live may look dead.
    Raises: CorruptTable V4-122.
    """
    if lost:  # V4-122
        message = (
            f"snapshot {snapshot.snapshot_id}: {print_count(len(lost), 'data file')} of delete "
            f"vectors not live, the first is `{min(lost)}`"
        )
        raise CorruptTable(message, rule="V4-122", hint=ALL_RULES["V4-122"].fix)


def refuse(found: Iterable[Finding]) -> None:
    """Raise the first error among findings.

    Raises: CorruptTable.
    """
    for one in found:
        if one.severity == "error":
            subject = f"`{one.subject}`" if "/" in one.subject else one.subject
            message = f"{subject}: {one.message}"
            raise CorruptTable(message, rule=one.rule, hint=one.hint)
