"""Roots and leaves of version 4 that may be damaged: what can be read of them, and the problem."""

import os
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TypeVar

import pyarrow as pa

from icectl.entries.columns import Positions, whole
from icectl.entries.inherit import inherit
from icectl.entries.locations import with_schemes
from icectl.entries.rows import (
    ALL_COLUMNS,
    PLANNING_COLUMNS,
    Entries,
    RawEntries,
    planning,
    with_manifest_number,
)
from icectl.entries.stats import with_referenced_data_files
from icectl.errors import CorruptTable, MissingFile, StorageError, Unsupported
from icectl.files.manifest.manifest import read_manifest
from icectl.format.manifest import Content, FileFormat, ManifestHeader
from icectl.format.properties import VECTOR_REWRITE_RATIO, read_or_default
from icectl.format.snapshot import Snapshot
from icectl.sfc1.checks.rows import TreeColumns
from icectl.sfc1.checks.vectors import RootVectors
from icectl.sfc1.content_stats import StatsColumn, conform
from icectl.sfc1.manifest_file import STATS, ListedRow, TreeFile, read_tree
from icectl.sfc1.manifests import (
    FILES,
    LEAVES,
    TreeSchema,
    entry_stats,
    leaf_inherited,
    located,
    manifest_file,
    of_contents,
    root_inherited,
    vector_positions,
    with_stats,
)
from icectl.sfc1.reader import raw_entries
from icectl.storage.store import Store
from icectl.table.reading import (
    FileRead,
    Problem,
    decode_file,
    in_threads,
    of_one_file,
    read_in_threads,
    try_file,
)

Decoded = TypeVar("Decoded")


@dataclass(frozen=True, slots=True)
class DamagedFile:
    """A file that can't be read, or whose rows do not inherit, and why."""

    problem: Problem
    size_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class StoredTree:
    """A root or leaf of version 4 as it is stored; `rows` have statistics of today's columns."""

    file: TreeFile
    rows: pa.Table
    size_bytes: int


@dataclass(frozen=True, slots=True)
class StoredLegacyLeaf:
    """A leaf of an older version as it is stored."""

    header: ManifestHeader
    rows: RawEntries
    size_bytes: int


def try_tree(
    facts: TreeSchema, location: str, content: FileRead, rule: str
) -> StoredTree | DamagedFile:
    """Return a root or leaf out of its bytes; `rule` is what a file that is none breaks."""
    if not isinstance(content, bytes):
        return DamagedFile(content)
    try:
        file = decode_file(location, lambda: read_tree(content))
        return StoredTree(file, with_stats(facts, file.rows), len(content))
    except (CorruptTable, Unsupported) as error:
        known = error.rule if error.rule not in ("R-099", "V4-040", None) else rule
        damage = CorruptTable(error.what, rule=known, reason=error.reason, location=error.location)
        return DamagedFile(damage, len(content))


def try_leaf(
    facts: TreeSchema, leaf: ListedRow, content: FileRead
) -> StoredTree | StoredLegacyLeaf | DamagedFile:
    """Return a leaf out of its bytes; `leaf` is its row in the root."""
    if leaf.file_format != FileFormat.AVRO:
        return try_tree(facts, leaf.name, content, "V4-100")
    if not isinstance(content, bytes):
        return DamagedFile(content)
    try:
        listed = manifest_file(leaf)
        spec = facts.metadata.spec(listed.partition_spec_id)
        header, rows = decode_file(
            listed.manifest_path,
            lambda: read_manifest(content, columns=ALL_COLUMNS, manifest=0, spec=spec),
        )
    except (CorruptTable, Unsupported) as error:
        return DamagedFile(error, len(content))
    return StoredLegacyLeaf(header, with_schemes(facts.metadata, rows), len(content))


def read_decoded(
    store: Store,
    locations: Sequence[str],
    sizes: Sequence[int],
    decode: Callable[[tuple[int, FileRead]], Decoded],
    *,
    concurrency: int,
) -> Generator[Decoded, None, None]:
    """Read files, and decode each with its place in the list.

    Reading waits for the store, decoding for a processor, which keeps what is decoded to few.
    Order: that of `locations`; close the iterator to stop early.
    Raises: StorageError, where the store itself fails.
    """
    stored = read_in_threads(
        lambda location: try_file(store, location), locations, sizes, threads=concurrency
    )
    processors = min(os.cpu_count() or 1, concurrency)
    decoded = in_threads(decode, enumerate(stored), sizes, threads=processors)
    with closing(stored), closing(decoded):
        yield from decoded


@dataclass(frozen=True, slots=True)
class RootRead:
    """The rows of a root with inheritance resolved, and its vectors over leaves.

    `leaves` are the rows of leaves without their statistics, `unread` the problems of vectors that
    could not be read, by the ordinal of the row.
    """

    snapshot: Snapshot
    rows: pa.Table
    leaves: Mapping[int, ListedRow]
    stats: pa.Array
    vectors: RootVectors
    unread: Mapping[int, Problem]


def resolved_root(store: Store, facts: TreeSchema, snapshot: Snapshot, rows: pa.Table) -> RootRead:
    """Return a root out of its rows, with statistics of today's columns.

    Raises: CorruptTable V4-062, where a row does not inherit; StorageError.
    """
    rows = root_inherited(located(facts, rows), snapshot)
    columns = TreeColumns(rows)
    bitmaps: dict[int, Positions] = {}
    unread: dict[int, Problem] = {}
    for at, row in columns.rows_of(Content.MANIFEST_DV).items():
        try:
            bitmaps[at] = vector_positions(store.read_range, row)
        except MissingFile:
            unread[at] = CorruptTable(
                f"`{row.location}` is missing", rule="V4-182", location=row.location
            )  # V4-182
        except CorruptTable as error:
            unread[at] = CorruptTable(
                error.what, rule="V4-082", reason=error.reason, location=error.location
            )  # V4-082
        except (Unsupported, StorageError) as error:
            unread[at] = of_one_file(error)
    ratio = read_or_default(facts.metadata.properties, VECTOR_REWRITE_RATIO)
    vectors = RootVectors(snapshot.root_manifest or "", columns, bitmaps, ratio)
    return RootRead(snapshot, rows, columns.rows_of(*LEAVES), whole(rows[STATS]), vectors, unread)


def root_files(rows: pa.Table) -> pa.Table:
    """Return the files that a root lists itself, of any status."""
    return of_contents(rows, *FILES)


def leaf_rows(facts: TreeSchema, stored: StoredTree, leaf: ListedRow) -> pa.Table:
    """Return the rows of a leaf with inheritance resolved. Raises: CorruptTable V4-105."""
    return leaf_inherited(located(facts, stored.rows), leaf)


def entries_of(
    facts: TreeSchema, rows: pa.Table, number: int, columns: frozenset[str] = frozenset()
) -> Entries:
    """Return rows as the entries of a part, with `columns` beside those of planning.

    Raises: CorruptTable V4-054.
    """
    return Entries(raw_entries(facts, rows, PLANNING_COLUMNS | columns, number).table)


def manifest_entries(stored: StoredLegacyLeaf, leaf: ListedRow, number: int) -> Entries:
    """Return all entries of a leaf of an older version.

    Raises: CorruptTable where none inherits.
    """
    named = planning(with_referenced_data_files(with_manifest_number(stored.rows, 0)))
    return with_manifest_number(inherit(named, [manifest_file(leaf)]), number)


@dataclass(frozen=True, slots=True)
class DescribedRows:
    """Rows of a leaf of an older version, with what a root can say and does say of `columns`."""

    columns: Sequence[StatsColumn]
    stated: pa.StructArray
    rows: pa.Table


def described_rows(
    facts: TreeSchema, leaf: StoredLegacyLeaf, spec_id: int, stated: pa.Array
) -> DescribedRows:
    """Return rows with statistics of what they are partitioned by, and all that the root states.

    Raises: CorruptTable; Unsupported.
    """
    groups = zip(facts.columns, conform(stated, facts.columns, len(stated)).flatten(), strict=True)
    wanted = {item.stats_id for item in facts.tuple_fields(spec_id, known=True)}
    wanted |= {column.id for column, group in groups if group.null_count < len(group)}
    columns = [column for column in facts.columns if column.id in wanted]
    stats = entry_stats(facts, leaf.rows, spec_id, columns, known=True)
    rows = leaf.rows.table.select(["status", "record_count"]).append_column(STATS, stats)
    return DescribedRows(columns, conform(stated, columns, len(stated)), rows)
