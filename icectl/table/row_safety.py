"""What must hold of a table before anything of it is changed: else rows would change their meaning.

Commands that change a table ask here before they plan, with what they read for planning anyway;
commands that only read show what can be shown.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain

import pyarrow as pa

from icectl.catalog.protocol import Catalog, LoadedTable
from icectl.entries.row_risks import Ledger, home_risks, row_risks, tree_risks
from icectl.entries.rows import Entries
from icectl.entries.tree_faults import TreeColumns, entry_faults, tracking_faults
from icectl.entries.tree_vectors import RootVectors, vector_faults
from icectl.errors import CorruptTable
from icectl.plan.model import Finding
from icectl.plan.validate.metadata import check_row_counters
from icectl.plan.validate.snapshots import check_main
from icectl.plan.validate.tree_metadata import (
    as_version_4,
    check_named_once,
    check_tree_metadata,
)
from icectl.plan.validate.trees import check_root_footer, known_ids, told
from icectl.spec.manifest import Content, ManifestFile, Status
from icectl.spec.metadata import TableMetadata
from icectl.spec.rules import RULES
from icectl.spec.snapshot import Snapshot
from icectl.storage.location import comparison_key
from icectl.storage.store import Store
from icectl.table.open import open_table
from icectl.table.reading import decode_file, naming, read_file
from icectl.table.tree import FILES, TreeFacts, resolved_rows, root_file
from icectl.table.tree_live import Positions, of_contents, vector_positions
from icectl.units import print_count

_OF_ROOTS = frozenset(
    {
        "V4-045", "V4-052", "V4-053", "V4-056", "V4-058", "V4-059", "V4-060", "V4-064", "V4-067",
        "V4-080", "V4-081", "V4-083", "V4-085", "V4-086", "V4-114", "V4-116", "V4-120", "V4-121",
        "V4-123", "V4-124",
    }
)  # fmt: skip
"""Rules of roots without which it is not sure which rows live, or what they are; the others that
validate knows are of statistics, sizes and history."""


def open_to_change(catalog: Catalog) -> LoadedTable:
    """The current metadata of a table that may be changed.

    Raises: Refused, where a commit would not be safe; CorruptTable; what open_table raises.
    """
    loaded = open_table(catalog)
    catalog.check_writable(loaded)
    check_metadata(loaded.metadata)
    return loaded


def check_metadata(metadata: TableMetadata) -> None:
    """Do nothing where it is sure what a commit builds on, and how it numbers its rows.

    Raises: CorruptTable R-014, R-015, R-104; V4-001, V4-017 to V4-019, V4-030.
    """
    found = chain(check_row_counters(metadata), check_main(metadata))
    if metadata.format_version < 4:
        _refuse(chain(found, check_tree_metadata(metadata, {})))
        return
    named = (one for snapshot in metadata.snapshots for one in check_named_once(snapshot))
    _refuse(chain(as_version_4(found), named))


def sound_root(
    store: Store, facts: TreeFacts, snapshot: Snapshot, *, carried: bool = False
) -> tuple[pa.Table, Mapping[str, Positions]]:
    """The rows of a root, as tree.read_root gives them, and dead positions by the leaf's key.

    Raises: CorruptTable, where it is not sure which rows live (_OF_ROOTS); StorageError;
    Unsupported. `snapshot` has a root manifest.
    Cost: no file that reading the state doesn't read.
    """
    location = snapshot.root_manifest or ""
    content = read_file(store, location)
    file = decode_file(location, lambda: root_file(content, carried=carried))
    stored = TreeColumns(file.rows)
    tracking = tracking_faults(
        stored,
        snapshot_id=snapshot.snapshot_id,
        sequence_number=snapshot.sequence_number,
        has_parent=snapshot.parent_snapshot_id is not None,
    )
    faults = chain(entry_faults(stored, known_ids(facts.metadata)), tracking)
    _refuse_in_root(chain(check_root_footer(snapshot, file.footer), told(location, faults)))
    with naming(location):
        rows = resolved_rows(facts, file.rows, snapshot)
    columns = TreeColumns(rows)
    bitmaps = {
        at: vector_positions(store.read_range, row)
        for at, row in columns.rows_of(Content.MANIFEST_DV).items()
        if row["status"] != Status.DELETED or row["inline_content"] is not None
    }
    vectors = RootVectors(columns, bitmaps)
    _refuse_in_root(told(location, vector_faults(vectors)))
    _check_own(facts.metadata, snapshot, rows)
    return rows, {
        comparison_key(str(rows["referenced_file"][at].as_py())): bitmaps[at]
        for at in bitmaps
        if vectors.status(at) != Status.DELETED
    }


def check_live(
    metadata: TableMetadata,
    snapshot: Snapshot,
    manifests: Sequence[ManifestFile],
    entries: Entries,
) -> None:
    """Do nothing where the live entries of a snapshot agree with each other.

    `entries` index `manifests`; what they have no column for is not looked at.
    Raises: CorruptTable R-044, R-066, R-104, R-120; of version 4 V4-064, V4-067, V4-114, V4-120 to
    V4-124.
    Cost: a pass over numbers and locations; n log n only where something is found.
    """
    faults = row_risks(entries, _ledger(metadata, snapshot))
    if snapshot.root_manifest is not None:
        places = {comparison_key(one.manifest_path): at for at, one in enumerate(manifests)}
        affiliated = {
            at: places[comparison_key(one.affiliated_to)]
            for at, one in enumerate(manifests)
            if one.affiliated_to is not None
        }
        faults = chain(faults, tree_risks(entries), home_risks(entries, affiliated))
    _refuse(told(f"snapshot {snapshot.snapshot_id}", faults))


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
        raise CorruptTable(message, rule="V4-122", hint=RULES["V4-122"].fix)


def _check_own(metadata: TableMetadata, snapshot: Snapshot, rows: pa.Table) -> None:
    """The same of the files that a root lists itself, whatever is in its leaves."""
    names = [
        "referenced_data_file" if name == "referenced_file" else name for name in rows.column_names
    ]
    own = Entries(of_contents(rows, *FILES).rename_columns(names))
    faults = chain(row_risks(own, _ledger(metadata, snapshot)), tree_risks(own))
    _refuse_in_root(told(snapshot.root_manifest or "", faults))


def _ledger(metadata: TableMetadata, snapshot: Snapshot) -> Ledger:
    return Ledger(
        metadata.format_version,
        snapshot.sequence_number,
        metadata.next_row_id,
        snapshot.root_manifest is not None,
    )


def _refuse_in_root(found: Iterable[Finding]) -> None:
    _refuse(one for one in found if one.rule in _OF_ROOTS)


def _refuse(found: Iterable[Finding]) -> None:
    """Raises: CorruptTable for the first error."""
    for one in found:
        if one.severity == "error":
            subject = f"`{one.subject}`" if "/" in one.subject else one.subject
            message = f"{subject}: {one.message}"
            raise CorruptTable(message, rule=one.rule, hint=one.hint)
