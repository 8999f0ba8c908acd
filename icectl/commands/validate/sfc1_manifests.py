"""The roots, leaves and deletion vectors of version 4 snapshots, each checked once it is read."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial

import pyarrow as pa

from icectl.checks.bound_types import BoundTypes, top_level_ids, types_of_bounds
from icectl.checks.finding import fault_findings, finding
from icectl.checks.objects import ManifestEntries
from icectl.checks.rule import Finding
from icectl.checks.rules import RULES
from icectl.entries.rows import Entries
from icectl.errors import CorruptTable, Unsupported
from icectl.format.locations import named_in_vector
from icectl.format.manifest import Content, FileFormat, ManifestContent, Status
from icectl.format.metadata import TableMetadata
from icectl.format.rule import BrokenRule, Fault
from icectl.format.snapshot import Snapshot
from icectl.rows.check_data_file import RecordedFile
from icectl.rows.check_delete_file import RecordedDeletes, check_replacement, check_vectors
from icectl.sfc1.checked import (
    RootRead,
    StoredManifest,
    StoredTree,
    entries_of,
    leaf_rows,
    manifest_entries,
    partitions_of,
    wanted_content,
)
from icectl.sfc1.checks import rows as row_faults
from icectl.sfc1.checks import statistics as stats_faults
from icectl.sfc1.checks import vectors
from icectl.sfc1.checks.manifests import (
    check_leaf_footer,
    check_root_footer,
    check_root_size,
    check_unknown_ids,
    known_ids,
    unreadable,
    vector_limits,
)
from icectl.sfc1.checks.rows import TreeColumns
from icectl.sfc1.checks.statistics import DerivedExpression, Stats
from icectl.sfc1.live import vector_rows
from icectl.sfc1.manifests import TreeFacts, manifest_file
from icectl.sfc1.partition_stats import TupleField
from icectl.sfc1.rows import ListedRow
from icectl.storage.store import Store
from icectl.table.reading import read_or_none

_DESCRIBED = (
    "status", "record_count", "file_size_in_bytes", "added_files_count", "existing_files_count",
    "deleted_files_count", "added_rows_count", "existing_rows_count", "deleted_rows_count",
    "min_sequence_number",
)  # fmt: skip
_DELETES = (Content.POSITION_DELETES, Content.EQUALITY_DELETES)
_NAMES: Mapping[str, str] = {"R-118": "V4-090", "R-119": "V4-082"}
"""What version 4 calls rules of deletion vectors where a vector is one over a leaf."""


@dataclass(frozen=True)
class ListedLeaf:
    """A leaf's row in a root, the place of that row, and whether findings of it are wanted."""

    root: RootRead
    row: ListedRow
    at: int
    is_chosen: bool

    @property
    def is_new(self) -> bool:
        """Whether the snapshot of the root wrote the leaf."""
        return self.row.snapshot_id == self.root.snapshot.snapshot_id

    @property
    def stats(self) -> pa.Array:
        """One struct: what the root says of the leaf's columns."""
        return self.root.stats.slice(self.at, 1)


@dataclass(frozen=True)
class TreeChecks:
    """Checks of single roots and leaves of one table."""

    facts: TreeFacts

    @cached_property
    def _known(self) -> row_faults.KnownIds:
        return known_ids(self.facts.metadata)

    @cached_property
    def _bounds(self) -> BoundTypes:
        return types_of_bounds(self.facts.metadata)

    @cached_property
    def _tuples(self) -> Mapping[int, Sequence[TupleField]]:
        found: dict[int, Sequence[TupleField]] = {}
        for spec in self.facts.metadata.partition_specs:
            try:
                found[spec.spec_id] = self.facts.tuple_fields(spec.spec_id)
            except (CorruptTable, Unsupported):
                continue  # the metadata says what is wrong with it
        return found

    @cached_property
    def _derived(self) -> Sequence[DerivedExpression]:
        """Expressions that can be computed from a column with statistics."""
        columns = {one.id: one for one in self.facts.columns}
        found = []
        for one in self.facts.metadata.expressions:
            source = columns.get(one.source_ids[0])
            is_own = one.stats_id == one.expr_id and not one.is_opaque
            if is_own and source is not None and one.expr_id in columns:
                found.append(DerivedExpression(one.expr_id, source, one.transform))
        return found

    @cached_property
    def _top_level(self) -> frozenset[int]:
        """Stats ids whose values are as many as there are records."""
        derived = {one.id for one in self.facts.columns if one.is_expression}
        return top_level_ids(self.facts.metadata) | derived

    # -- roots ------------------------------------------------------------------------------------

    def root(self, snapshot: Snapshot, stored: StoredTree) -> Iterator[Finding]:
        """Check a root by itself, as it is stored."""
        subject = snapshot.root_manifest or ""
        file = stored.file
        yield from check_unknown_ids(subject, file.unknown_field_ids)
        yield from check_root_footer(snapshot, file.footer)
        columns = TreeColumns(stored.rows)
        yield from fault_findings(subject, row_faults.entry_faults(columns, self._known))
        tracking = row_faults.tracking_faults(
            columns,
            snapshot_id=snapshot.snapshot_id,
            sequence_number=snapshot.sequence_number,
            has_parent=snapshot.parent_snapshot_id is not None,
        )
        yield from fault_findings(subject, tracking)
        yield from fault_findings(subject, row_faults.order_faults(columns))
        if snapshot.operation == "append":
            yield from fault_findings(subject, row_faults.append_faults(columns))
        yield from self._statistics(subject, file.rows.schema, columns)

    def resolved_root(self, root: RootRead) -> Iterator[Finding]:
        """Check a root and its vectors over leaves, once they are resolved."""
        subject = root.snapshot.root_manifest or ""
        for problem in root.unread.values():
            yield unreadable(subject, problem, "V4-182")
        yield from fault_findings(subject, vectors.vector_faults(root.vectors))
        branches = (ref for ref in self.facts.metadata.refs.values() if ref.type == "branch")
        if root.snapshot.snapshot_id in {ref.snapshot_id for ref in branches}:
            yield from self._worth_rewriting(root)

    def _worth_rewriting(self, root: RootRead) -> Iterator[Finding]:
        """Find what a command could do for the head of a branch."""
        subject = root.snapshot.root_manifest or ""
        limits = vector_limits(self.facts.metadata)
        yield from fault_findings(subject, vectors.worth_rewriting(root.vectors, limits, subject))
        columns = root.vectors.columns
        live = columns.status != Status.DELETED
        counts = (int((columns.of(*kinds) & live).sum()) for kinds in ((Content.DATA,), _DELETES))
        yield from check_root_size(self.facts.metadata, subject, *counts)

    def _statistics(
        self, subject: str, stored: pa.Schema, columns: TreeColumns
    ) -> Iterator[Finding]:
        yield from fault_findings(
            subject, stats_faults.schema_faults(subject, stored, self.facts.columns)
        )
        stats = Stats(columns.rows)
        found = stats_faults.value_faults(columns, stats, self.facts.columns, self._top_level)
        yield from fault_findings(subject, found)
        yield from fault_findings(subject, stats_faults.tuple_faults(columns, stats, self._tuples))
        yield from fault_findings(
            subject, stats_faults.derived_faults(columns, stats, self._derived)
        )

    # -- leaves -----------------------------------------------------------------------------------

    def leaf(self, stored: StoredTree, uses: Sequence[ListedLeaf]) -> Iterator[Finding]:
        """Check a leaf of version 4 by itself, as it is stored."""
        subject, row = uses[0].row.name, uses[0].row
        file = stored.file
        yield from check_unknown_ids(subject, file.unknown_field_ids)
        yield from check_leaf_footer(subject, file.footer)
        if file.content is not wanted_content(row):  # V4-100
            message = f"its footer says `{file.content}`, its root `{wanted_content(row)}`"
            yield finding("V4-100", subject, message)
        columns = TreeColumns(stored.rows)
        is_data = row.content == Content.DATA_MANIFEST
        yield from fault_findings(subject, row_faults.kind_faults(columns, of_data=is_data))
        yield from fault_findings(subject, row_faults.entry_faults(columns, self._known))
        yield from fault_findings(subject, row_faults.leaf_faults(columns))
        yield from self._statistics(subject, file.rows.schema, columns)

    def leaf_entries(
        self, stored: StoredTree, uses: Sequence[ListedLeaf], number: int
    ) -> tuple[Entries, list[Finding]]:
        """Check the entries of a leaf, and what its rows have wrong against its roots.

        Raises: CorruptTable, where its rows do not inherit.
        """
        rows = leaf_rows(self.facts, stored, uses[0].row)
        found = list(self._described(TreeColumns(rows), stored.size_bytes, uses))
        for use in _of_distinct_stats(uses):
            subject = use.row.name
            faults = stats_faults.aggregate_faults(subject, use.stats, rows, self.facts.columns)
            found += fault_findings(subject, faults)
        return entries_of(self.facts, rows, number), found

    def _described(
        self, columns: TreeColumns, size_bytes: int, uses: Sequence[ListedLeaf]
    ) -> Iterator[Finding]:
        subject = uses[0].row.name
        seen = set()
        for use in _chosen(uses):
            key = (use.is_new, *(getattr(use.row, name) for name in _DESCRIBED))
            if key in seen:
                continue
            seen.add(key)
            number = use.root.snapshot.sequence_number
            found = row_faults.described_faults(columns, use.row, size_bytes, number)
            yield from fault_findings(subject, found)
            yield from fault_findings(
                subject, row_faults.status_faults(columns, use.row, is_new=use.is_new)
            )
            yield from fault_findings(subject, _in_append(use))

    def manifest(self, stored: StoredManifest, uses: Sequence[ListedLeaf]) -> Iterator[Finding]:
        """Check a leaf of an older version by itself."""
        row = uses[0].row
        listed = manifest_file(row)
        subject = listed.manifest_path
        states = "content" in stored.header.metadata
        if states and stored.header.content is not listed.content:  # V4-111
            names = {ManifestContent.DATA: "data", ManifestContent.DELETES: "deletes"}
            message = (
                f"it holds {names[stored.header.content]}, its root says {names[listed.content]}"
            )
            yield finding("V4-111", subject, message)
        entries = ManifestEntries(
            self.facts.metadata, listed, stored.header, stored.rows, self._bounds
        )
        yield from RULES.findings(entries)

    def manifest_entries(
        self, stored: StoredManifest, uses: Sequence[ListedLeaf], number: int
    ) -> tuple[Entries, list[Finding]]:
        """Check the entries of a leaf of an older version, and what is wrong against its roots.

        Raises: CorruptTable, where its rows do not inherit.
        """
        made = manifest_entries(stored, uses[0].row, number)
        found = list(self._described(TreeColumns(made.table), stored.size_bytes, uses))
        spec_id = manifest_file(uses[0].row).partition_spec_id
        of_fields = partitions_of(self.facts, made, spec_id)
        for use in _of_distinct_stats(uses):
            subject = use.row.name
            said, columns = of_fields.conformed_stats(use.stats), of_fields.columns
            faults = stats_faults.aggregate_faults(
                subject, said, of_fields.rows, columns, of_older_version=True
            )
            found += fault_findings(subject, faults)
        return made, found


def _chosen(uses: Sequence[ListedLeaf]) -> Iterator[ListedLeaf]:
    return (use for use in uses if use.is_chosen)


def _of_distinct_stats(uses: Sequence[ListedLeaf]) -> Iterator[ListedLeaf]:
    """Yield the chosen uses, but for those that say the same as the one before."""
    before = None
    for use in _chosen(uses):
        if before is None or not use.stats.equals(before):
            before = use.stats
            yield use


def _in_append(use: ListedLeaf) -> Iterator[BrokenRule]:
    """Yield an append adds no leaf with DELETED rows (V4-036)."""
    is_added = use.root.snapshot.operation == "append" and use.row.status == Status.ADDED
    if is_added and use.row.deleted_files_count:
        said = "is a leaf with DELETED rows, added by an append"
        yield BrokenRule("V4-036", Fault(1, use.row.name), said)


@dataclass(slots=True)
class LeafVectors:
    """A check of the Puffin files of vectors over leaves; each vector once, however many roots."""

    store: Store
    metadata: TableMetadata
    _seen: set[tuple[object, ...]] = field(default_factory=set)

    def check(self, root: RootRead) -> Iterator[Finding]:
        """Find the vectors of a root that are not inline (V4-090, V4-182)."""
        found: dict[str, list[RecordedDeletes]] = {}
        for leaf, row in vector_rows(root.rows):
            place, offset, size = row.location, row.content_offset, row.content_size_in_bytes
            key = (place, offset, size, leaf, row.record_count)
            if place is None or row.inline_content is not None or key in self._seen:
                continue
            self._seen.add(key)
            file = RecordedFile(
                place, FileFormat.PUFFIN, row.record_count, row.sequence_number or 0
            )
            deletes = RecordedDeletes(file, (), leaf, offset, size)
            found.setdefault(place, []).append(deletes)
        for place, recorded in found.items():
            yield from self._file(place, recorded)

    def _file(self, location: str, vectors: Sequence[RecordedDeletes]) -> Iterator[Finding]:
        status = self.store.stat(location)
        if status is None:  # V4-182
            message = "the file of delete vectors over leaves is missing"
            yield finding("V4-182", location, message)
            return
        read = partial(self.store.read_range, location)
        named = partial(named_in_vector, self.metadata)
        for one in check_vectors(read, status.size_bytes, vectors, lambda _: None, named):
            yield finding(_NAMES.get(one.rule, one.rule), one.subject, one.message)


@dataclass(frozen=True, slots=True)
class ReplacedVector:
    """A delete vector of a data file and the one that took its place, each by its blob."""

    data_file: str
    before: tuple[str, int, int]
    after: tuple[str, int, int]


def check_replaced(store: Store, replaced: Iterable[ReplacedVector]) -> Iterator[Finding]:
    """Check that vectors hold all positions of those that they replaced (V4-164).

    Cost: the bytes of both.
    """
    for one in replaced:
        # A file that can't be read is said of the file.
        before, after = (
            read_or_none(partial(store.read_range, *blob)) for blob in (one.before, one.after)
        )
        if before is not None and after is not None:
            yield from check_replacement(one.data_file, before, after)
