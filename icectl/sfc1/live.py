"""The live entries of a version 4 snapshot: neither statuses nor delete vectors take them away."""

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icectl.entries.columns import NONE, Positions
from icectl.errors import CorruptTable, MissingFile
from icectl.files.deletion_vectors import read_bitmap, read_dv
from icectl.format.manifest import Content, Status
from icectl.sfc1.manifests import FILES, LEAVES, with_column
from icectl.sfc1.rows import LISTED, ListedRow, listed_rows, number_of, text_of
from icectl.storage.location import comparison_key
from icectl.storage.store import Store
from icectl.table.reading import decode_file

ReadRange = Callable[[str, int, int], bytes]
"""Reads part of a file: location, offset, length."""


def vectors(store: Store, rows: pa.Table) -> dict[str, Positions]:
    """Dead positions of leaves, by the leaf's comparison key, of live rows of a root (sfc-1 8.1).

    For what is only shown: tree_safety.sound_root looks closer.
    Raises: CorruptTable V4-080 for two of one leaf, V4-082 for bad bytes.
    """
    vectors: dict[str, Positions] = {}
    for leaf, row in vector_rows(live_rows(rows)):
        key = comparison_key(leaf)
        if key in vectors:
            raise CorruptTable(f"`{key}` has two manifest delete vectors", rule="V4-080")  # V4-080
        vectors[key] = vector_positions(store.read_range, row)
    return vectors


def vector_rows(rows: pa.Table) -> Iterator[tuple[str, ListedRow]]:
    """Yield the rows of manifest delete vectors, each with the leaf that it is over.

    Those of no leaf are left out (V4-059).
    Order: kept.
    """
    for row in listed_rows(of_contents(rows.select(LISTED), Content.MANIFEST_DV)):
        if row.referenced_file is not None:  # V4-059
            yield row.referenced_file, row


def vector_positions(read_range: ReadRange, row: ListedRow) -> Positions:
    """Return the positions of one manifest delete vector, inline or in a Puffin file.

    Raises: MissingFile; CorruptTable V4-082; StorageError.
    """
    if row.inline_content is not None:
        positions = read_bitmap(row.inline_content, row.record_count)
    else:
        location = text_of(row.location)
        start, length = number_of(row.content_offset), number_of(row.content_size_in_bytes)
        try:
            blob = read_range(location, start, length)
        except FileNotFoundError as error:
            raise MissingFile(location) from error
        positions = decode_file(location, lambda: read_dv(blob, row.record_count))
    if len(positions) != row.record_count:  # V4-082
        message = f"a manifest delete vector has {len(positions)} positions, its row says otherwise"
        raise CorruptTable(message, rule="V4-082")
    return positions


def live_rows(rows: pa.Table) -> pa.Table:
    """Return rows of a root that are ADDED or EXISTING. Order: kept."""
    return _where(rows, pc.not_equal(rows["status"], int(Status.DELETED)))


def of_contents(rows: pa.Table, *contents: Content) -> pa.Table:
    """Return rows of some content types. Order: kept."""
    wanted = pa.array([int(one) for one in contents], pa.int8())
    return _where(rows, pc.is_in(rows["content"], wanted))


def _where(rows: pa.Table, mask: pa.ChunkedArray) -> pa.Table:
    """Return rows whose mask is true.

    Rows with statistics are only copied where they have to be.
    """
    count = pc.sum(mask, min_count=0).as_py()
    if count == len(rows):
        return rows
    return rows.filter(mask) if count else rows.slice(0, 0)


def leaf_rows(rows: pa.Table) -> Sequence[ListedRow]:
    """Return the rows of leaves. Order: kept."""
    return listed_rows(of_contents(rows.select(LISTED), *LEAVES))


ReadLeaf = Callable[[ListedRow], pa.Table]
"""Reads the rows of a leaf, given its row in the root."""


def live_in_tree(root: pa.Table, vectors: Mapping[str, Positions], read: ReadLeaf) -> pa.Table:
    """Return the live data files, delete vectors and equality deletes of a state (sfc-1 8.1).

    Shape: the schema of the root; EXISTING for what an EXISTING leaf calls ADDED (sfc-1 ST1).
    Order: those of the root, then by leaf and position.
    Raises: CorruptTable V4-083 for a position that the leaf lacks.
    """
    rows = live_rows(root)
    parts = [of_contents(rows, *FILES)]
    for leaf in leaf_rows(rows):
        positions = vectors.get(comparison_key(text_of(leaf.location)), NONE)
        if is_dead(leaf, positions):
            continue
        part = without(read(leaf), positions)
        if leaf.status == Status.EXISTING:
            existing = pa.repeat(pa.scalar(int(Status.EXISTING), pa.int8()), len(part))
            part = with_column(part, "status", existing)
        parts.append(part)
    return pa.concat_tables(parts)


def is_dead(leaf: ListedRow, positions: Positions) -> bool:
    """Return whether it is certain without reading it that nothing lives in a leaf (sfc-1 EN11).

    Raises: CorruptTable V4-083 for a position that the leaf lacks.
    """
    if len(positions) and int(positions[-1]) >= leaf.record_count:  # V4-083
        message = f"position {int(positions[-1])} of `{leaf.location}` is beyond its end"
        raise CorruptTable(message, rule="V4-083")
    live_count = leaf.live_count
    return leaf.deleted_files_count == 0 and live_count == len(positions)


def without(rows: pa.Table, positions: Positions) -> pa.Table:
    """Return the live rows of a leaf that no delete vector names. Order: kept."""
    alive = np.ones(len(rows), bool)
    alive[positions.astype(np.int64)] = False
    return rows.filter(pc.and_(pa.array(alive), pc.not_equal(rows["status"], int(Status.DELETED))))
