"""Roots of version 4 that are changed: what decides which rows live is checked where it is read."""

from collections.abc import Mapping
from contextlib import suppress

import pyarrow as pa

from icectl.checks.rule import Subject
from icectl.entries.columns import Positions
from icectl.entries.rows import Entries
from icectl.errors import CorruptTable
from icectl.format.manifest import Content, Status
from icectl.format.metadata import TableMetadata
from icectl.format.snapshot import Snapshot
from icectl.sfc1.checks.live import PlannedTree
from icectl.sfc1.checks.rows import RootRows, TreeColumns
from icectl.sfc1.checks.vectors import RootVectors
from icectl.sfc1.live import of_contents, vector_positions
from icectl.sfc1.manifests import FILES, TreeFacts, resolved_rows, root_file
from icectl.sfc1.rules import SFC1_RULES
from icectl.storage.location import comparison_key
from icectl.storage.store import Store
from icectl.table.reading import decode_file, naming, read_file
from icectl.table.row_safety import refuse

_OF_ROOTS = frozenset(
    {
        "V4-045", "V4-052", "V4-053", "V4-056", "V4-058", "V4-059", "V4-060", "V4-064", "V4-067",
        "V4-080", "V4-081", "V4-083", "V4-085", "V4-086", "V4-114", "V4-116", "V4-120", "V4-121",
        "V4-123", "V4-124",
    }
)  # fmt: skip
"""Rules of roots without which it is not sure which rows live, or what they are; the others that
validate knows are of statistics, sizes and history."""


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
    _refuse_in_root(RootRows(facts.metadata, snapshot, file, file.rows))
    with naming(location):
        rows = resolved_rows(facts, file.rows, snapshot)
    columns = TreeColumns(rows)
    live, gone = _bitmaps(store, columns)
    _refuse_in_root(RootVectors(location, columns, {**live, **gone}))
    _check_own(facts.metadata, snapshot, rows)
    leaves = rows["referenced_file"]
    return rows, {comparison_key(leaves[at].as_py()): found for at, found in live.items()}


def _bitmaps(
    store: Store, columns: TreeColumns
) -> tuple[dict[int, Positions], dict[int, Positions]]:
    """Return positions by the row of their vector, of live ones and of DELETED ones.

    Nothing depends on the latter: they are there as far as the root itself has them whole.
    Raises: CorruptTable V4-082; StorageError.
    """
    live: dict[int, Positions] = {}
    gone: dict[int, Positions] = {}
    for at, row in columns.rows_of(Content.MANIFEST_DV).items():
        if row.status != Status.DELETED:
            live[at] = vector_positions(store.read_range, row)
        elif row.inline_content is not None:
            with suppress(CorruptTable):
                gone[at] = vector_positions(store.read_range, row)
    return live, gone


def _check_own(metadata: TableMetadata, snapshot: Snapshot, rows: pa.Table) -> None:
    """The same of the files that a root lists itself, whatever is in its leaves."""
    names = [
        "referenced_data_file" if name == "referenced_file" else name for name in rows.column_names
    ]
    own = Entries(of_contents(rows, *FILES).rename_columns(names))
    _refuse_in_root(PlannedTree(own, metadata, snapshot, snapshot.root_manifest or ""))


def _refuse_in_root(of: Subject) -> None:
    refuse(SFC1_RULES.findings(of, only=_OF_ROOTS))
