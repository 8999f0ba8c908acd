"""A version 4 root in the making: what an operation is, and the state that it works on."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icectl.entries.columns import Integers, Positions
from icectl.files.deletion_vectors import dv_blob, write_bitmap
from icectl.files.puffin import read_puffin, write_puffin
from icectl.format.manifest import Content, FileFormat, Status
from icectl.sfc1.content_stats import aggregate
from icectl.sfc1.manifest_file import LEAF_MAX_ENTRIES, STATS, ListedRow, TreeContent, write_tree
from icectl.sfc1.manifests import (
    ReadLeaf,
    TreeSchema,
    leaf_rows,
    leaf_target,
    with_column,
    with_stats,
)
from icectl.storage.location import comparison_key, comparison_keys
from icectl.table.manifest_groups import LARGE, SMALL

Identity = tuple[int, str, int | None]
"""What identifies an entry: content, comparison key, of delete vectors the offset (sfc-1 EN7)."""

_WAITING_BYTES = 64 << 20
"""Bytes of new leaves, as stored and as rows without statistics, that wait for the commit."""

_BLOCK_BYTES = 256 << 20
"""Bytes of rows that are cut into leaves at a time."""

DATA = (Content.DATA,)

DELETES = (Content.POSITION_DELETES, Content.EQUALITY_DELETES)


# -- what a commit is asked for -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TreeOptions:
    """The table properties that shape a root (sfc-1 1.7), and what a run sorts entries by."""

    max_data_files: int = 1_000
    max_delete_entries: int = 5_000
    inline_max_bytes: int = 16_384
    inline_total_max_bytes: int = 1_048_576
    leaf_target_size_bytes: int = 8_388_608
    leaf_max_entries: int = 1_000_000
    affinity: bool = True
    sort_by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RemovedFile:
    """A live file that an operation removes; `offset` tells delete vectors of one file apart.

    `leaf` is where it was seen: it is looked for there first.
    """

    content: Content
    location: str
    offset: int | None = None
    leaf: str | None = None

    @property
    def key(self) -> Identity:
        offset = self.offset if self.content is Content.POSITION_DELETES else None
        return int(self.content), comparison_key(self.location), offset


@dataclass(frozen=True, slots=True)
class TreeChange:
    """A change by an operation: what it adds and removes, and the maintenance that goes with it.

    `added` has rows of files with the data sequence number null, or an older one (sfc-1 7.5); their
    other tracking is ignored. `removed` comes in the order of the operation. Leaves of `rewritten`
    are compacted, with `rewritten_files` of the root: keys of locations. `data_leaves` has the leaf
    that data files of new vectors were seen in, None for the root, both as keys. `summary` has
    what the snapshot's says beside counters. `statistics` are those of leaves of the parent state
    that knew less of theirs, by key.
    """

    added: pa.Table
    removed: Sequence[RemovedFile] = ()
    rewritten: frozenset[str] = frozenset()
    rewritten_files: frozenset[str] = frozenset()
    operation: str | None = None
    data_leaves: Mapping[str, str | None] = field(default_factory=dict)
    summary: Mapping[str, str] = field(default_factory=dict)
    statistics: Mapping[str, pa.StructArray] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ParentState:
    """The state that a commit builds on: live rows of its root, and dead positions of leaves.

    No root can list leaves of `foreign`, manifests in Parquet of a manifest list, as they are.
    """

    rows: pa.Table
    dead: Mapping[str, Positions]
    foreign: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Attempt:
    """The numbers that only one attempt of a commit has."""

    snapshot_id: int
    sequence_number: int
    first_row_id: int


@dataclass(frozen=True, slots=True)
class NewFile:
    """A file that must be there before the commit is."""

    location: str
    content: bytes


@dataclass(frozen=True, slots=True)
class NewTree:
    """A new root, as rows and as a file's content, and the files that it names.

    `stored` are the locations of leaves that are in the store already, `removed` rows of the files
    that went, as they were.
    """

    rows: pa.Table
    root: bytes
    files: tuple[NewFile, ...]
    added_rows: int
    removed: pa.Table
    stored: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CommitContext:
    """The table that a root is composed for: `new_leaf` and `new_puffin` give new locations.

    `read` gives rows of a leaf that may be written again, `look` rows that may lack statistics,
    `names` rows that may have nothing but NAMES; both are asked for the same leaf more than once.
    `store` takes new leaves that are too many to wait in memory. `may_list` tells sooner whether a
    leaf may list a file with one of some comparison keys. In an `ahead` block, some leaves are read
    whole, in their order.
    """

    facts: TreeSchema
    options: TreeOptions
    read: ReadLeaf
    look: ReadLeaf
    names: ReadLeaf
    new_leaf: Callable[[], str]
    new_puffin: Callable[[], str]
    store: Callable[[NewFile], None]
    may_list: Callable[[ListedRow, pa.Array], bool] = lambda _leaf, _keys: True
    ahead: Callable[[Sequence[ListedRow]], AbstractContextManager[None]] = lambda _: nullcontext()


@dataclass(slots=True)
class Draft:
    """A new root so far: `kept` are live rows of the parent, `data_leaves` as in TreeChange.

    `new_leaves` has the key of each new leaf, and whether all its rows have ids. `in_memory` has
    the rows of some of them, without statistics; the others are `stored`.
    """

    means: CommitContext
    attempt: Attempt
    kept: pa.Table
    dead: dict[str, Positions]
    data_leaves: Mapping[str, str | None] = field(default_factory=dict)
    existing: list[pa.Table] = field(default_factory=list)
    added: list[pa.Table] = field(default_factory=list)
    files: list[NewFile] = field(default_factory=list)
    stored: list[str] = field(default_factory=list)
    new_leaves: dict[str, bool] = field(default_factory=dict)
    in_memory: dict[str, pa.Table] = field(default_factory=dict)
    _waiting_bytes: int = 0

    def look_at(self, leaf: ListedRow) -> pa.Table:
        """Return the rows of a leaf, perhaps without their statistics."""
        new_rows = self.in_memory.get(comparison_key(leaf.name))
        return self.means.look(leaf) if new_rows is None else new_rows

    def names_of(self, leaf: ListedRow) -> pa.Table:
        """Return the rows of a leaf, perhaps with nothing but what identifies them."""
        new_rows = self.in_memory.get(comparison_key(leaf.name))
        return self.means.names(leaf) if new_rows is None else new_rows

    def may_list(self, leaf: ListedRow, keys: pa.Array) -> bool:
        """Return whether a leaf may list a file with one of some comparison keys."""
        return comparison_key(leaf.name) in self.new_leaves or self.means.may_list(leaf, keys)

    def leaves(self) -> list[ListedRow]:
        """Return the rows of all leaves so far. Order: kept ones first."""
        parts = (self.kept, *self.existing, *self.added)
        return [row for part in parts for row in leaf_rows(part)]

    def write(
        self, rows: Iterable[pa.Table], count: int, content: TreeContent, status: Status
    ) -> list[pa.Table]:
        """Write `count` rows as leaves of one status (sfc-1 4.3); returns rows for the root.

        These have no snapshot nor sequence number yet; rows without one will inherit the attempt's.
        Order: kept, over all leaves.
        Cost: memory for a few leaves.
        """
        facts, listed = self.means.facts, []
        is_data, is_added = content is TreeContent.DATA, status is Status.ADDED
        for piece, encoded in _parts(self.means, rows, count, content):
            location, part = self.means.new_leaf(), with_stats(facts, piece)
            self._hold(NewFile(location, encoded), part)
            specs = part["spec_id"].unique().to_pylist()
            numbers = pc.fill_null(part["sequence_number"], self.attempt.sequence_number)
            stats, counts = part[STATS].combine_chunks(), part["record_count"].combine_chunks()
            record_count = pc.sum(counts).as_py()
            row = ListedRow(
                content=Content.DATA_MANIFEST if is_data else Content.DELETE_MANIFEST,
                location=location,
                file_format=FileFormat.PARQUET,
                status=status,
                # sfc-1 EN12
                spec_id=specs[0] if len(specs) == 1 else facts.metadata.default_spec_id,
                record_count=len(part),
                file_size_in_bytes=len(encoded),
                added_files_count=len(part) if is_added else 0,
                existing_files_count=0 if is_added else len(part),
                deleted_files_count=0,
                added_rows_count=record_count if is_added else 0,
                existing_rows_count=0 if is_added else record_count,
                deleted_rows_count=0,
                min_sequence_number=pc.min(numbers).as_py(),
            )
            listed.append(facts.row(row, aggregate(stats, facts.columns, counts)))
        return listed

    def _hold(self, leaf: NewFile, rows: pa.Table) -> None:
        """Have a new leaf wait for the commit; too many are stored before it."""
        key = comparison_key(leaf.location)
        plain = with_column(rows, STATS, pa.nulls(len(rows), rows.schema.field(STATS).type))
        self.new_leaves[key] = not rows["first_row_id"].null_count
        self.files.append(leaf)
        self.in_memory[key] = plain
        self._waiting_bytes += len(leaf.content) + rows.drop_columns(STATS).nbytes
        if self._waiting_bytes > _WAITING_BYTES:
            for file in self.files:
                self.means.store(file)
                self.stored.append(file.location)
            self.files, self.in_memory, self._waiting_bytes = [], {}, 0


def identities(rows: pa.Table) -> list[Identity]:
    """Return the identity of the entry of each row (sfc-1 EN7)."""
    offsets = rows["content_offset"].to_pylist()
    return [
        (code, str(key), offsets[at] if code == Content.POSITION_DELETES else None)
        for at, (code, key) in enumerate(
            zip(rows["content"].to_pylist(), keys(rows["location"]), strict=True)
        )
    ]


def keys(locations: pa.ChunkedArray) -> list[str | None]:
    """Comparison keys of locations; null stays None."""
    keys: list[str | None] = comparison_keys(locations).to_pylist()
    return keys


def with_status(rows: pa.Table, status: Status) -> pa.Table:
    """Return the rows with one status."""
    return with_column(rows, "status", pa.repeat(pa.scalar(int(status), pa.int8()), len(rows)))


# -- new leaves -----------------------------------------------------------------------------------


def _parts(
    means: CommitContext, rows: Iterable[pa.Table], count: int, content: TreeContent
) -> Iterator[tuple[pa.Table, bytes]]:
    """Yield `count` rows in pieces of about the target size, each as it is stored.

    None is above `LARGE` parts of the target unless it has one row; neighbours that are both small
    are one piece.
    """
    target = leaf_target(means.facts, means.options.leaf_target_size_bytes)

    def stored(part: pa.Table) -> bytes:
        return write_tree(means.facts.stored(with_stats(means.facts, part)), content)

    limit = min(means.options.leaf_max_entries, LEAF_MAX_ENTRIES)
    last: tuple[pa.Table, bytes] | None = None
    for block in _blocks(rows, count, limit):
        for part, encoded in _cut(block, stored, target):
            if last is None:
                last = part, encoded
                continue
            is_small = min(len(encoded), len(last[1])) < SMALL * target
            if is_small and len(last[0]) + len(part) <= limit:
                both = pa.concat_tables([last[0], part])
                joined = stored(both)
                if len(joined) <= LARGE * target:
                    last = both, joined
                    continue
            yield last
            last = part, encoded
    if last is not None:
        yield last


def _blocks(rows: Iterable[pa.Table], count: int, limit: int) -> Iterator[pa.Table]:
    """Yield `count` rows in even blocks of at most `limit` rows, and of few bytes.

    As many rows as the first ones show to be _BLOCK_BYTES are a block.
    """
    waiting: list[pa.Table] = []
    edges: list[int] = []
    for part in rows:
        if not edges and len(part):
            most = min(limit, max(1, _BLOCK_BYTES * len(part) // max(part.nbytes, 1)))
            edges = np.diff(_edges(count, -(-count // most))).tolist()[::-1]
        waiting.append(part)
        while edges and sum(map(len, waiting)) >= edges[-1]:
            together, size = pa.concat_tables(waiting), edges.pop()
            block, waiting = together.slice(0, size).combine_chunks(), [together.slice(size)]
            del together  # the block has its rows
            yield block


def _cut(
    rows: pa.Table, stored: Callable[[pa.Table], bytes], target: int
) -> Iterator[tuple[pa.Table, bytes]]:
    """Yield rows in even pieces of at most the target size, as far as rows are alike."""
    encoded = stored(rows)
    if len(encoded) <= target or len(rows) == 1:
        yield rows, encoded
        return
    footer = min(len(stored(rows.slice(0, 1))), target // 2)
    count = min(-(-(len(encoded) - footer) // (target - footer)), len(rows))
    for piece in _even(rows, count):
        part = stored(piece)
        if len(part) <= LARGE * target or len(piece) == 1:
            yield piece, part
        else:
            yield from _cut(piece, stored, target)


def _even(rows: pa.Table, count: int) -> Iterator[pa.Table]:
    for first, end in pairwise(_edges(len(rows), count).tolist()):
        yield rows.slice(first, end - first)


def _edges(length: int, count: int) -> Integers:
    return np.linspace(0, length, count + 1).astype(np.int64)


# -- delete vectors over leaves -------------------------------------------------------------------


def vector_rows(
    means: CommitContext, vectors: Sequence[tuple[ListedRow, Positions]], inline_bytes_left: int
) -> tuple[pa.Table, list[NewFile]]:
    """ADDED rows of manifest delete vectors, and the Puffin file of large ones (sfc-1 6.3).

    `vectors` are leaves' rows with all of their dead positions; the root has room for
    `inline_bytes_left` of bitmaps.
    Order: kept.
    """
    most, facts = means.options.inline_max_bytes, means.facts
    bitmaps = [write_bitmap(positions) for _, positions in vectors]
    outside = {at for at, bitmap in enumerate(bitmaps) if len(bitmap) > most}
    inside = [at for at in range(len(bitmaps)) if at not in outside]
    total = sum(len(bitmaps[at]) for at in inside)
    # The largest go first, of equal ones the later.
    for at in sorted(inside, key=lambda place: (-len(bitmaps[place]), -place)):
        if total <= inline_bytes_left:
            break
        outside.add(at)
        total -= len(bitmaps[at])
    rows = [
        ListedRow(
            content=Content.MANIFEST_DV,
            file_format=FileFormat.PUFFIN,
            status=Status.ADDED,
            spec_id=leaf.spec_id,
            record_count=len(positions),
            referenced_file=leaf.location,
            inline_content=bitmap,
        )
        for (leaf, positions), bitmap in zip(vectors, bitmaps, strict=True)
    ]
    files = []
    if outside:
        chosen = sorted(outside)
        blobs = [
            dv_blob(positions, facts.stored_location(leaf.name))
            for leaf, positions in (vectors[at] for at in chosen)
        ]
        files = [NewFile(means.new_puffin(), write_puffin(blobs, {}))]
        for at, blob in zip(chosen, read_puffin(files[0].content).blobs, strict=True):
            rows[at] = replace(
                rows[at],
                inline_content=None,
                location=files[0].location,
                content_offset=blob.offset,
                content_size_in_bytes=blob.length,
                file_size_in_bytes=len(files[0].content),
            )
    return pa.concat_tables([facts.empty(), *map(facts.row, rows)]), files
