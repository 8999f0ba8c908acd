"""A version 4 root in the making: what an operation is, and the state that it works on."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from icectl.entries.columns import Positions
from icectl.format.manifest import Content, Status
from icectl.sfc1.commit.leaves import LeafForm, NewFile, write_leaves
from icectl.sfc1.live import ReadLeaf, leaf_rows
from icectl.sfc1.manifest_file import TreeContent
from icectl.sfc1.manifests import TreeFacts, with_column
from icectl.sfc1.rows import ListedRow
from icectl.storage.location import comparison_key, comparison_keys

Identity = tuple[int, str, int | None]
"""What identifies an entry: content, comparison key, of delete vectors the offset (sfc-1 EN7)."""

DATA = (Content.DATA,)
DELETES = (Content.POSITION_DELETES, Content.EQUALITY_DELETES)


@dataclass(frozen=True, slots=True)
class TreeOptions:
    """The table properties that shape a root (sfc-1 1.7)."""

    max_data_files: int = 1_000
    max_delete_entries: int = 5_000
    inline_max_bytes: int = 16_384
    inline_total_max_bytes: int = 1_048_576
    leaf_target_size_bytes: int = 8_388_608
    leaf_max_entries: int = 1_000_000
    affinity: bool = True


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
        """The identity of its entry (sfc-1 EN7)."""
        offset = self.offset if self.content is Content.POSITION_DELETES else None
        return int(self.content), comparison_key(self.location), offset


@dataclass(frozen=True, slots=True)
class TreeChange:
    """A change by an operation: what it adds and removes, and the maintenance that goes with it.

    `added` has rows of files with the data sequence number null, or an older one (sfc-1 7.5); their
    other tracking is ignored. `removed` comes in the order of the operation. Leaves of `rewritten`
    are compacted, with `rewritten_files` of the root: keys of locations. `data_leaves` has the leaf
    that data files of new vectors were seen in, None for the root, both as keys. `summary` has
    what the snapshot's says beside counters.
    """

    added: pa.Table
    removed: Sequence[RemovedFile] = ()
    rewritten: frozenset[str] = frozenset()
    rewritten_files: frozenset[str] = frozenset()
    operation: str | None = None
    data_leaves: Mapping[str, str | None] = field(default_factory=dict)
    summary: Mapping[str, str] = field(default_factory=dict)


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
class NewTree:
    """A new root, as rows and as a file's content, and the files that it names."""

    rows: pa.Table
    root: bytes
    files: tuple[NewFile, ...]
    added_rows: int
    removed: pa.Table
    """Rows of the files that went, as they were."""


@dataclass(frozen=True, slots=True)
class TreeMeans:
    """The table that a root is composed for: `new_leaf` and `new_puffin` give new locations.

    `read` gives rows of a leaf that may be written again, `look` rows that may lack statistics,
    `names` rows that may have nothing but NAMES; both are asked for the same leaf more than once.
    `may_list` tells sooner whether a leaf may list a file with one of some comparison keys.
    """

    facts: TreeFacts
    options: TreeOptions
    read: ReadLeaf
    look: ReadLeaf
    names: ReadLeaf
    new_leaf: Callable[[], str]
    new_puffin: Callable[[], str]
    may_list: Callable[[ListedRow, pa.Array], bool] = lambda _leaf, _keys: True


@dataclass(slots=True)
class Draft:
    """A new root so far: `kept` are live rows of the parent, `data_leaves` as in TreeChange."""

    means: TreeMeans
    attempt: Attempt
    kept: pa.Table
    dead: dict[str, Positions]
    data_leaves: Mapping[str, str | None] = field(default_factory=dict)
    existing: list[pa.Table] = field(default_factory=list)
    added: list[pa.Table] = field(default_factory=list)
    files: list[NewFile] = field(default_factory=list)
    in_memory: dict[str, pa.Table] = field(default_factory=dict)

    def rows_of(self, leaf: ListedRow) -> pa.Table:
        """Return the rows of a leaf, new ones included."""
        key = comparison_key(leaf.name)
        if key not in self.in_memory:
            self.in_memory[key] = self.means.read(leaf)
        return self.in_memory[key]

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
        return comparison_key(leaf.name) in self.in_memory or self.means.may_list(leaf, keys)

    def leaves(self) -> list[ListedRow]:
        """Return the rows of all leaves so far. Order: kept ones first."""
        parts = (self.kept, *self.existing, *self.added)
        return [row for part in parts for row in leaf_rows(part)]

    def write(self, rows: pa.Table, content: TreeContent, status: Status) -> list[pa.Table]:
        """Write rows as leaves; returns the leaves' rows for the root."""
        form = LeafForm(
            self.means.facts,
            self.means.options.leaf_target_size_bytes,
            self.means.options.leaf_max_entries,
            self.means.new_leaf,
        )
        leaves = write_leaves(form, rows, content, status, self.attempt.sequence_number)
        for leaf in leaves:
            self.files.append(leaf.file)
            self.in_memory[comparison_key(leaf.file.location)] = leaf.rows
        return [leaf.row for leaf in leaves]


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
