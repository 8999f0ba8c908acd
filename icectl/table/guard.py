"""Check whether a command may change a table, or delete its files.

The checks prevent changes to the meaning of rows, and deletion of other tables' files. Commands
call them before planning, with the data that planning reads anyway.
"""

from collections.abc import Collection, Mapping, Sequence

from icectl.catalog.protocol import Catalog, LoadedTable
from icectl.checks.live_entries import LiveRows, RowlessFiles
from icectl.checks.metadata import other_snapshots
from icectl.checks.objects import CommitBase, ListedChain
from icectl.checks.partitions import BOUNDED
from icectl.checks.rule import Finding, refuse
from icectl.checks.rules import ALL_RULES, RULES, rules_of_metadata
from icectl.checks.snapshots import lists_others
from icectl.entries.rows import Entries
from icectl.errors import CorruptTable, Refused
from icectl.format import properties
from icectl.format.layout import Layout, layout_of_table
from icectl.format.manifest import ManifestFile
from icectl.format.metadata import TableMetadata
from icectl.format.rule import ROLL_BACK
from icectl.format.snapshot import Snapshot
from icectl.table.context import TableContext, open_table
from icectl.table.manifest_lists import read_snapshot_manifests, snapshot_reader
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

    Raises: CorruptTable R-014, R-015, R-033, R-076, R-104, R-184; V4-001 to V4-030; oddities.
    """
    for oddity in metadata.oddities:
        raise CorruptTable(oddity.message, rule=oddity.rule, hint=ALL_RULES[oddity.rule].fix)
    refuse(rules_of_metadata(metadata).findings(CommitBase(metadata)))


def check_live(
    metadata: TableMetadata, snapshot: Snapshot, manifests: Sequence[ManifestFile], entries: Entries
) -> None:
    """Do nothing where the live entries of a snapshot agree with each other.

    `entries` index `manifests`; what they have no column for is not looked at.
    Raises: CorruptTable R-044, R-063, R-104, R-120, R-140; of version 4 V4-051, V4-064, V4-067,
        V4-114, V4-120 to V4-124, V4-126.
    Cost: a pass over numbers and locations; n log n only where something is found.
    """
    refuse(snapshot_reader(metadata, snapshot).risks(snapshot, manifests, entries))


ENTRY_COLUMNS = BOUNDED | frozenset(
    {"file_format", "file_size_in_bytes", "record_count"}
    | {"referenced_data_file", "content_offset", "content_size_in_bytes"}
    | {"snapshot_id", "sequence_number", "file_sequence_number"}
)
"""The columns of entries that `check_entries` needs."""


def check_entries(
    metadata: TableMetadata, entries: Entries, rowless: RowlessFiles, *, beside_deletes: bool
) -> None:
    """Do nothing where each live entry, of whatever snapshot, says how its file is read.

    Other manifests than theirs may have deletes (`beside_deletes`). None names a `rowless` file.
    Raises: CorruptTable R-044, R-063, R-071 to R-074, R-118, R-140; of version 4 V4-051 to V4-053,
        V4-149, V4-163.
    """
    newest = max(metadata.snapshots, key=lambda one: one.sequence_number)
    rows = LiveRows(
        entries, metadata, newest, "the table", beside_deletes=beside_deletes, rowless=rowless
    )
    only = (
        "R-044", "R-063", "R-071", "R-072", "R-073", "R-074", "R-118", "R-140", "V4-051", "V4-052",
        "V4-053", "V4-149", "V4-163",
    )  # fmt: skip
    refuse(snapshot_reader(metadata, newest).rules.findings(rows, only))


def check_vector_targets(snapshot: Snapshot, lost: Collection[str]) -> None:
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
        raise CorruptTable(message, rule="V4-122", hint=ROLL_BACK)


def check_lists(metadata: TableMetadata, lists: Mapping[int, Sequence[ManifestFile]]) -> None:
    """Refuse to delete files if a snapshot lists fewer of them than summaries say (R-031).

    A root must not list more either.

    Raises: Refused.
    """
    for finding in RULES.findings(ListedChain(metadata, lists), only=("R-031",)):
        raise Refused(
            f"{finding.subject}: {finding.message} ({finding.rule})",
            hint="restore the manifest list or root from a copy, or expire the snapshot with "
            "`--metadata-only`; if the summaries are wrong, use `--distrust-summaries`",
            id="fewer-files",
        )


def check_head_list(
    context: TableContext,
    metadata: TableMetadata,
    snapshot: Snapshot,
    manifests: Sequence[ManifestFile],
) -> bool:
    """Return whether the list or root that a change stands on is proved to have lost no row.

    Raises: CorruptTable R-031, where it has lost one. Cost: the parent's list, where the totals of
    the head are too high.
    """
    found = lost_rows(context, metadata, snapshot, manifests)
    refuse(found or ())
    return found is not None


def lost_rows(
    context: TableContext,
    metadata: TableMetadata,
    snapshot: Snapshot,
    manifests: Sequence[ManifestFile],
) -> Sequence[Finding] | None:
    """Return the findings of a list or root that has lost a row; None where nothing tells (R-031).

    Cost: the parent's list, where the totals of the snapshot are too high.
    """
    if not lists_others(snapshot, manifests):
        return ()
    parent = metadata.snapshot(snapshot.parent_snapshot_id or -1)
    if parent is None:
        return None
    try:
        before = read_snapshot_manifests(context.store, metadata, parent)
    except CorruptTable:
        return None
    lists = {snapshot.snapshot_id: manifests, parent.snapshot_id: before}
    found = RULES.findings(ListedChain(metadata, lists), only=("R-031",))
    return [one for one in found if one.subject == f"snapshot {snapshot.snapshot_id}"]


def check_statistics(metadata: TableMetadata, expired_ids: Collection[int]) -> None:
    """Refuse to expire snapshots whose statistics name a newer one that stays instead of them.

    The commit would drop the entries. Raises: CorruptTable R-141, V4-023.
    """
    entries = metadata.every_statistics
    kept = {one.statistics_path for one in entries if one.snapshot_id not in expired_ids}
    for one in entries:
        if one.snapshot_id in expired_ids and one.statistics_path not in kept:
            others = other_snapshots(metadata, one).difference(expired_ids)
            if others:
                is_sfc1 = layout_of_table(metadata) is Layout.SFC_1
                rule = ALL_RULES["V4-023" if is_sfc1 else "R-141"]
                raise CorruptTable(
                    f"`{one.statistics_path}`: its entry says that it describes snapshot "
                    f"{one.snapshot_id}, but it names snapshot {min(others)}, which stays",
                    rule=rule.id,
                    hint=rule.fix,
                )


CLOCK_TOLERANCE_MS = 60_000


def check_deletable(catalog: Catalog, loaded: LoadedTable, now_ms: int) -> None:
    """Do nothing where files of the table may be deleted. Raises: Refused, CorruptTable."""
    metadata = loaded.metadata
    check_owns_files(loaded)
    if now_ms < metadata.last_updated_ms - CLOCK_TOLERANCE_MS:
        raise Refused(
            "this machine's clock is more than a minute behind the table's last commit",
            hint="set the clock; the ages of snapshots and files are unknown until then",
            id="clock-behind",
        )
    require_safe_base(metadata)
    catalog.check_writable(loaded)


def check_owns_files(loaded: LoadedTable) -> None:
    """Do nothing where the table's files are its own, and icectl's to delete. Raises: Refused."""
    check_not_maintained(loaded)  # first: such catalogs switch `gc.enabled` off themselves
    check_gc_enabled(loaded.metadata)


def check_not_maintained(loaded: LoadedTable) -> None:
    """Refused where the catalog keeps it to itself to expire snapshots and to delete files."""
    maintained_by = loaded.capabilities.maintained_by
    if maintained_by is not None:
        raise Refused(
            "the catalog of this table reserves snapshot expiry and file deletion for "
            f"{maintained_by}",
            hint=f"use {maintained_by}; files that icectl deletes may be needed outside this "
            "table's metadata",
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
