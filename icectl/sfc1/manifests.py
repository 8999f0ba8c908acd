"""Version 4 snapshots: their roots and leaves, with inheritance resolved.

A state of a table is one Arrow table of root rows, and leaves that are read as they are needed.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icectl.entries.columns import NONE, Positions, mask_of, whole
from icectl.entries.inherit import inherit
from icectl.entries.locations import all_resolved, locations_with_scheme
from icectl.entries.rows import ALL_COLUMNS, E, Entries
from icectl.errors import CorruptTable, MissingFile, Unsupported
from icectl.files.deletion_vectors import read_bitmap, read_dv
from icectl.files.manifest.manifest import read_manifest
from icectl.files.manifest.schema import check_known
from icectl.files.parquet.schema import no_rows
from icectl.format.locations import relative_base, relative_location, scheme_of
from icectl.format.manifest import Content, FileFormat, ManifestContent, ManifestFile, Status
from icectl.format.metadata import TableMetadata
from icectl.format.partition import result_types
from icectl.format.snapshot import Snapshot
from icectl.sfc1.content_stats import (
    StatsColumn,
    TupleField,
    conform,
    from_maps,
    stats_columns,
    tuple_fields,
    with_tuples,
)
from icectl.sfc1.manifest_file import (
    COUNTS,
    LISTED,
    STATS,
    TREE_ROWS,
    ListedRow,
    TreeContent,
    TreeFile,
    listed_rows,
    number_of,
    read_locations,
    read_tree,
    text_of,
    write_tree,
)
from icectl.storage.location import comparison_key, comparison_keys
from icectl.storage.store import Store
from icectl.table.reading import decode_file, read_file

LOCATIONS = ("location", "referenced_file")
LEAVES = (Content.DATA_MANIFEST, Content.DELETE_MANIFEST)
OWN_CONTENTS = {
    ManifestContent.DATA: (Content.DATA,),
    ManifestContent.DELETES: (Content.POSITION_DELETES, Content.EQUALITY_DELETES),
}
"""The contents of files that a root lists itself, as manifests would."""
FILES = (Content.DATA, Content.POSITION_DELETES, Content.EQUALITY_DELETES)


@dataclass(frozen=True)
class TreeSchema:
    """The columns of content statistics, and the schemas of rows of manifests and roots."""

    metadata: TableMetadata

    @cached_property
    def columns(self) -> tuple[StatsColumn, ...]:
        return stats_columns(self.metadata)

    @cached_property
    def rows_schema(self) -> pa.Schema:
        """The schema of rows in memory: TREE_ROWS, and statistics of `columns`."""
        return TREE_ROWS.append(pa.field(STATS, conform(None, self.columns, 0).type))

    def tuple_fields(self, spec_id: int, *, known: bool = False) -> tuple[TupleField, ...]:
        """Find where statistics hold the tuples of a spec, or the `known` fields of these alone.

        Raises: CorruptTable V4-054; Unsupported V4-015, where values are of no known type.
        """
        spec = self.metadata.spec(spec_id)
        if spec is None:
            raise CorruptTable(f"an entry has spec {spec_id}, which does not exist", rule="V4-054")
        expressions = {expression.expr_id: expression for expression in self.metadata.expressions}
        types = {column.id: column.type for column in self.columns}
        try:
            return tuple_fields(spec, expressions, types, known=known)
        except KeyError as error:
            message = f"there are no statistics under the id {error}, which spec {spec_id} needs"
            raise Unsupported(message, rule="V4-015") from error  # V4-014, V4-015

    def can_hold(self, spec_id: int) -> bool:
        """Return whether statistics can hold all tuples of a spec (sfc-1 X6)."""
        spec = self.metadata.spec(spec_id)
        return spec is not None and None not in result_types(spec, self.metadata.schemas)

    def stored(self, rows: pa.Table) -> pa.Table:
        """Rows with locations as they are written: relative where the table wants it (sfc-1 L4)."""
        if not relative_base(self.metadata):
            return rows
        for name in LOCATIONS:
            places = rows[name].to_pylist()
            column = [None if place is None else self.stored_location(place) for place in places]
            rows = with_column(rows, name, pa.array(column, pa.string()))
        return rows

    def stored_location(self, location: str) -> str:
        """Return a location as it is written (sfc-1 L4)."""
        base = relative_base(self.metadata)
        return relative_location(base, location) if base else location

    def row(self, row: ListedRow, stats: pa.Array | None = None) -> pa.Table:
        """Return one row of a root, with statistics where it has any."""
        columns = [pa.array([getattr(row, field.name, None)], field.type) for field in TREE_ROWS]
        kind = self.rows_schema.field(STATS).type
        columns.append(pa.nulls(1, kind) if stats is None else stats)
        return pa.table(columns, schema=self.rows_schema)

    def empty(self) -> pa.Table:
        """Return no rows, in a table with the columns of rows in memory."""
        return no_rows(self.rows_schema)


@dataclass(frozen=True, slots=True)
class LeafPart:
    """A part of a leaf: which columns to read, and statistics of which ids; None is all of them.

    `columns` have `content` and `status`, and `record_count` where they have `first_row_id`.
    """

    columns: frozenset[str] | None = None
    stats: frozenset[int] | None = None


FOR_STATS = frozenset(
    {
        "partition_key", "column_sizes", "value_counts", "null_value_counts", "nan_value_counts",
        "lower_bounds", "upper_bounds",
    }
)  # fmt: skip
"""What statistics are made of in entries of older versions."""
WHOLE = LeafPart()
PLAIN = LeafPart(stats=frozenset())
NAMES = LeafPart(
    frozenset({"content", "status", "location", "content_offset", "referenced_file"}), frozenset()
)
"""What identifies entries, and what they refer to."""


def read_root(store: Store, facts: TreeSchema, snapshot: Snapshot) -> pa.Table:
    """Return the rows of a snapshot's root, inheritance resolved, locations absolute.

    Raises: StorageError; CorruptTable; Unsupported. `snapshot` has a root manifest.
    """
    location = snapshot.root_manifest
    if location is None:
        raise ValueError(snapshot.snapshot_id)
    content = read_file(store, location)
    return decode_file(location, lambda: root_rows(facts, content, snapshot))


def root_rows(
    facts: TreeSchema, content: bytes, snapshot: Snapshot, *, part: LeafPart = WHOLE
) -> pa.Table:
    """Return the rows of a root, as read_root gives them, out of its bytes.

    Statistics that are not in the `part` asked for are null.
    """
    return resolved_rows(facts, root_file(content, part=part).rows, snapshot)


def root_file(content: bytes, *, part: LeafPart = WHOLE, carried: bool = False) -> TreeFile:
    """Return a root out of its bytes, as it is stored. Raises: CorruptTable V4-040; Unsupported.

    With `carried` the rows will be written again, and must be known whole.
    """
    file = read_tree(content, columns=part.columns, stats=part.stats)
    if carried:
        check_known(file.unknown_field_ids)
    if file.content is not TreeContent.ROOT:  # V4-040
        raise CorruptTable("it is not a root manifest", rule="V4-040")
    return file


def resolved_rows(facts: TreeSchema, stored: pa.Table, snapshot: Snapshot) -> pa.Table:
    """Stored rows of a root with inheritance resolved, locations absolute. Raises: CorruptTable."""
    return root_inherited(located(facts, with_stats(facts, stored)), snapshot)


def located(facts: TreeSchema, rows: pa.Table) -> pa.Table:
    """Return rows with absolute locations, in columns there. Raises: Unsupported."""
    for name in LOCATIONS:
        if name in rows.column_names:
            column = all_resolved(facts.metadata.location, whole(rows.column(name)))
            rows = with_column(rows, name, column)
    return rows


def with_stats(facts: TreeSchema, rows: pa.Table) -> pa.Table:
    """Return rows with statistics of today's columns, whatever they are stored with.

    Order: kept.
    """
    stored = rows.column(STATS) if STATS in rows.column_names else None
    stats = None if stored is None or not len(rows) else whole(stored)
    conformed = conform(stats, facts.columns, len(rows))
    names = [name for name in rows.column_names if name != STATS]
    return rows.select(names).append_column(facts.rows_schema.field(STATS), conformed)


def root_inherited(rows: pa.Table, snapshot: Snapshot) -> pa.Table:
    """Null numbers of ADDED rows are the snapshot's (sfc-1 4.6)."""
    for name, number in (
        ("snapshot_id", snapshot.snapshot_id),
        ("sequence_number", snapshot.sequence_number),
        ("file_sequence_number", snapshot.sequence_number),
    ):
        rows = _added_filled(rows, name, number, "a row of a root", "V4-062")  # V4-062
    return rows


def _added_filled(rows: pa.Table, name: str, number: int | None, what: str, rule: str) -> pa.Table:
    """Fill nulls of ADDED rows. Raises: CorruptTable, by the rule, where others have null."""
    stored = rows[name]
    if not stored.null_count:
        return rows
    takes = pc.and_(pc.equal(rows["status"], int(Status.ADDED)), stored.is_null())
    filled = pc.if_else(takes, pa.scalar(number, pa.int64()), stored)
    if filled.null_count:
        raise CorruptTable(f"{what} has no {name.replace('_', ' ')}", rule=rule)
    return with_column(rows, name, filled)


def manifest_file(row: ListedRow, **members: Any) -> ManifestFile:
    """Return a leaf's row in the form that older versions list manifests in, with more members."""
    is_data = row.content == Content.DATA_MANIFEST
    counts: dict[str, Any] = {name: number_of(getattr(row, name)) for name in COUNTS}
    return ManifestFile(
        manifest_path=text_of(row.location),
        manifest_length=number_of(row.file_size_in_bytes),
        partition_spec_id=number_of(row.spec_id),
        content=ManifestContent.DATA if is_data else ManifestContent.DELETES,
        sequence_number=number_of(row.sequence_number),
        added_snapshot_id=number_of(row.snapshot_id),
        key_metadata=row.key_metadata,
        first_row_id=row.first_row_id,
        **counts,
        **members,
    )


def read_leaf(
    store: Store,
    facts: TreeSchema,
    leaf: ListedRow,
    *,
    part: LeafPart = WHOLE,
    carried: bool = False,
) -> pa.Table:
    """Return all rows of a leaf, inheritance resolved: `leaf` is its row in the root.

    What is not in the `part` asked for may be null. With `carried` the rows will be written again,
    and must be known whole.

    Shape: the schema of `facts`; a row's ordinal is its position.
    Raises: StorageError; CorruptTable; Unsupported.
    """
    location = text_of(leaf.location)
    content = read_file(store, location)
    return decode_file(
        location, lambda: rows_of_leaf(facts, content, leaf, part=part, carried=carried)
    )


def may_list(store: Store, facts: TreeSchema, leaf: ListedRow, keys: pa.Array) -> bool:
    """Return whether a leaf may list a file with one of some comparison keys.

    Raises: as read_leaf.
    Cost: half of read_leaf.
    """
    if leaf.file_format == FileFormat.AVRO:
        return True
    location = text_of(leaf.location)
    content = read_file(store, location)
    stored = decode_file(location, lambda: read_locations(content))
    entries = all_resolved(facts.metadata.location, stored)
    return bool(pc.any(pc.is_in(comparison_keys(entries), keys), min_count=0).as_py())


def rows_of_leaf(
    facts: TreeSchema,
    content: bytes,
    leaf: ListedRow,
    *,
    part: LeafPart = WHOLE,
    carried: bool = False,
) -> pa.Table:
    """Return the rows of a leaf, as read_leaf gives them, out of its bytes."""
    if leaf.file_format == FileFormat.AVRO:  # a manifest of an older version (sfc-1 3.4)
        listed = manifest_file(leaf)
        spec = facts.metadata.spec(listed.partition_spec_id)
        columns = ALL_COLUMNS if part.stats is None else ALL_COLUMNS - FOR_STATS
        header, raw = read_manifest(content, columns=columns, manifest=0, spec=spec)
        # Tools that wrote manifests again left the header bare; list and root say what it is.
        if "content" in header.metadata and header.content is not listed.content:  # V4-111
            raise CorruptTable("its content is not what the root says", rule="V4-111")
        if carried:
            check_known(header.unknown_field_ids)
        return tree_rows(facts, inherit(raw, [listed]), listed.partition_spec_id)
    if len(content) != leaf.file_size_in_bytes:  # V4-103
        message = f"it has {len(content)} bytes, the root says {leaf.file_size_in_bytes}"
        raise CorruptTable(message, rule="V4-103")
    file = read_tree(content, columns=part.columns, stats=part.stats)
    if carried:
        check_known(file.unknown_field_ids)
    if file.content is not leaf.kind:  # V4-100
        raise CorruptTable(f"it says content {file.content}, the root {leaf.kind}", rule="V4-100")
    has_stats = part.columns is None or STATS in part.columns
    rows = located(facts, with_stats(facts, file.rows) if has_stats else file.rows)
    contents = set(rows["content"].unique().to_pylist())
    if contents & {Content.DATA_MANIFEST, Content.DELETE_MANIFEST}:  # V4-102
        raise CorruptTable("a leaf names a manifest", rule="V4-102")
    allowed = {Content.DATA} if leaf.kind is TreeContent.DATA else set(FILES[1:])
    if contents - allowed:  # V4-101
        raise CorruptTable("a leaf has rows of another kind than its own", rule="V4-101")
    if len(rows) != leaf.record_count:  # V4-103
        message = f"it has {len(rows)} rows, the root says {leaf.record_count}"
        raise CorruptTable(message, rule="V4-103")
    return leaf_inherited(rows, leaf)


def leaf_inherited(rows: pa.Table, leaf: ListedRow) -> pa.Table:
    """Fill what rows leave null from the leaf's row in the root (sfc-1 4.6), in columns there."""
    there = set(rows.column_names)
    if "snapshot_id" in there:
        ids = pc.fill_null(rows["snapshot_id"], pa.scalar(leaf.snapshot_id, pa.int64()))
        rows = with_column(rows, "snapshot_id", ids)
    for name in there & {"sequence_number", "file_sequence_number"}:
        what = "a row that is not ADDED"
        rows = _added_filled(rows, name, getattr(leaf, name), what, "V4-105")  # V4-105
    first = leaf.first_row_id
    if first is None or leaf.content != Content.DATA_MANIFEST or "first_row_id" not in there:
        return rows
    stored = whole(rows["first_row_id"])
    takes = pc.and_(stored.is_null(), pc.not_equal(rows["status"], int(Status.DELETED)))
    mask = mask_of(takes)
    counts = np.where(mask, rows["record_count"].to_numpy(), 0)
    ids = pa.array(number_of(first) + np.cumsum(counts) - counts, pa.int64())
    return with_column(rows, "first_row_id", pc.if_else(pa.array(mask), ids, stored))


def tree_rows(facts: TreeSchema, entries: Entries, spec_id: int) -> pa.Table:
    """Entries of older versions as rows of version 4, metrics and tuples in statistics (sfc-1 5.7).

    Entries may lack the columns FOR_STATS; statistics are null then.
    """
    table = entries.table
    stats = (
        entry_stats(facts, entries, spec_id, facts.columns)
        if set(table.column_names).issuperset(FOR_STATS)
        else conform(None, facts.columns, len(entries))
    )
    is_data = pc.equal(table["content"], int(Content.DATA))
    columns: list[pa.Array | pa.ChunkedArray] = []
    for field in TREE_ROWS:
        name = {"referenced_file": "referenced_data_file"}.get(field.name, field.name)
        if name not in table.column_names:
            columns.append(pa.nulls(len(table), field.type))
        elif field.name in LOCATIONS:
            columns.append(locations_with_scheme(scheme_of(facts.metadata), whole(table[name])))
        elif name == "sort_order_id":  # sfc-1 C-29
            columns.append(pc.if_else(is_data, table[name], pa.scalar(None, field.type)))
        else:
            columns.append(table[name].cast(field.type))
    return pa.table([*columns, stats], schema=facts.rows_schema)


def entry_stats(
    facts: TreeSchema,
    entries: E,
    spec_id: int,
    columns: Sequence[StatsColumn],
    *,
    known: bool = False,
) -> pa.StructArray:
    """Return the statistics of entries of older versions, tuples included (sfc-1 5.7).

    With `known`, values of a partition field without a type are left out.
    Raises: CorruptTable V4-054; Unsupported V4-015.
    """
    stats = from_maps(entries, columns)
    spec = facts.metadata.spec(spec_id)
    if spec is None:
        return stats
    ids = {column.id for column in columns}
    fields = facts.tuple_fields(spec_id, known=known)
    return with_tuples(
        stats,
        whole(entries.table["partition_key"]),
        whole(entries.table["record_count"]),
        [item for item in fields if item.stats_id in ids],
        result_types(spec, facts.metadata.schemas),
    )


def leaf_target(facts: TreeSchema, target_size_bytes: int) -> int:
    """Return the size that leaves are cut to: that asked for, or twice that of a leaf of one row.

    A leaf has a footer, however few rows it has; below it no size could be met.
    """
    row = facts.row(
        ListedRow(
            content=Content.DATA,
            file_format=FileFormat.PARQUET,
            status=Status.EXISTING,
            spec_id=facts.metadata.default_spec_id,
            record_count=0,
            location="",
        )
    )
    return max(target_size_bytes, 2 * len(write_tree(facts.stored(row), TreeContent.DATA)))


def can_move(facts: TreeSchema, rows: pa.Table) -> bool:
    """Return whether rows of a leaf may be written into another one (sfc-1 7.6 step 6).

    Position delete files of version 2 have no form of version 4, nor have tuples whose type is
    not known (sfc-1 X6).
    """
    judged = rows.select(["content", "status", "file_format"])
    deletes = live_rows(of_contents(judged, Content.POSITION_DELETES))
    if set(deletes["file_format"].unique().to_pylist()) - {FileFormat.PUFFIN}:
        return False
    return all(facts.can_hold(number) for number in rows["spec_id"].unique().to_pylist())


def with_column(rows: pa.Table, name: str, column: pa.Array | pa.ChunkedArray) -> pa.Table:
    """Return the rows with another column under a name."""
    return rows.set_column(rows.schema.get_field_index(name), rows.schema.field(name), column)


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


def vector_positions(read_range: Callable[[str, int, int], bytes], row: ListedRow) -> Positions:
    """Return the positions of one manifest delete vector, inline or in a Puffin file.

    `read_range` reads part of a file: location, offset, length.
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


def live_parts(
    root: pa.Table, vectors: Mapping[str, Positions], read: ReadLeaf
) -> Iterator[pa.Table]:
    """Yield the live data files, delete vectors and equality deletes of a state (sfc-1 8.1).

    Shape: the schema of the root; EXISTING for what an EXISTING leaf calls ADDED (sfc-1 ST1).
    Order: those of the root, then by leaf and position.
    Raises: CorruptTable V4-083 for a position that the leaf lacks.
    """
    rows = live_rows(root)
    yield of_contents(rows, *FILES)
    for leaf in leaf_rows(rows):
        positions = vectors.get(comparison_key(text_of(leaf.location)), NONE)
        if is_dead(leaf, positions):
            continue
        part = without(read(leaf), positions)
        if leaf.status == Status.EXISTING:
            existing = pa.repeat(pa.scalar(int(Status.EXISTING), pa.int8()), len(part))
            part = with_column(part, "status", existing)
        yield part


def is_dead(leaf: ListedRow, positions: Positions) -> bool:
    """Return whether it is certain without reading it that nothing lives in a leaf (sfc-1 EN11).

    Raises: CorruptTable V4-083 for a position that the leaf lacks.
    """
    if len(positions) and int(positions[-1]) >= leaf.record_count:  # V4-083
        message = f"position {int(positions[-1])} of `{leaf.location}` is beyond its end"
        raise CorruptTable(message, rule="V4-083")
    return leaf.live_count == len(positions) and leaf.deleted_files_count == 0


def without(rows: pa.Table, positions: Positions) -> pa.Table:
    """Return the live rows of a leaf that no delete vector names. Order: kept."""
    alive = np.ones(len(rows), bool)
    alive[positions.astype(np.int64)] = False
    return rows.filter(pc.and_(pa.array(alive), pc.not_equal(rows["status"], int(Status.DELETED))))
