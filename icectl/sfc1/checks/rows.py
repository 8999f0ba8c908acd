"""Rules of the rows of roots and leaves, checked over whole columns."""

from collections.abc import Callable, Collection, Iterator
from functools import cached_property
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icectl.checks.live_entries import (
    LiveRows,
    incomplete_vectors,
    late,
    naming_metadata,
    naming_statistics,
    of_no_size,
    unreadable_formats,
    with_row_ids_above_next,
    with_row_ids_of_others,
)
from icectl.checks.rule import Breach, Check, located, of_object, other_names, rule
from icectl.entries.columns import Integers, Mask, mask_of, whole
from icectl.entries.rows import location_keys
from icectl.format.layout import LAYOUT_KEY, Layout
from icectl.format.manifest import Content, FileFormat, Status
from icectl.format.metadata import TableMetadata
from icectl.format.rule import (
    COMPACT,
    NEXT_COMMIT,
    NO_ROW,
    OURS,
    REWRITE_MANIFESTS,
    ROLL_BACK,
    Fault,
    Severity,
)
from icectl.format.snapshot import Snapshot
from icectl.format.types import PrimitiveType
from icectl.sfc1.checks.live import LiveTree
from icectl.sfc1.manifest_file import (
    COUNTS,
    LEAF_MAX_ENTRIES,
    LISTED,
    ListedRow,
    TreeContent,
    TreeFile,
    listed_rows,
)
from icectl.sfc1.manifests import FILES, LEAVES

_DATA, _VECTOR, _EQUALITY = Content.DATA, Content.POSITION_DELETES, Content.EQUALITY_DELETES
_ROW_FORMATS = (FileFormat.PARQUET, FileFormat.ORC, FileFormat.AVRO)
_FORMATS = {
    _DATA: _ROW_FORMATS,
    _VECTOR: (FileFormat.PUFFIN,),
    _EQUALITY: _ROW_FORMATS,
    Content.DATA_MANIFEST: (FileFormat.PARQUET, FileFormat.AVRO),
    Content.DELETE_MANIFEST: (FileFormat.PARQUET, FileFormat.AVRO),
    Content.MANIFEST_DV: (FileFormat.PUFFIN,),
}
_ORDER = np.array((5, 3, 4, 2, 1, 0), np.int64)
"""Where the rows of each content stand in a root that icectl writes, by its code (sfc-1 4.4)."""


def _among(codes: Integers, wanted: Collection[int]) -> Mask:
    """Return where a code is one of a few; of small files `np.isin` takes longer than all else."""
    mask = np.zeros(len(codes), np.bool_)
    for code in wanted:
        mask |= codes == int(code)
    return mask


class TreeColumns:
    """The columns of rows as arrays; null numbers read as 0."""

    def __init__(self, rows: pa.Table) -> None:
        self.rows = rows
        self.content: Integers = rows["content"].to_numpy()
        self.status: Integers = rows["status"].to_numpy()

    def __len__(self) -> int:
        return len(self.rows)

    def of(self, *contents: Content) -> Mask:
        return _among(self.content, contents)

    def with_status(self, *statuses: Status) -> Mask:
        return _among(self.status, statuses)

    def absent(self, name: str) -> Mask:
        return mask_of(self.rows[name].is_null())

    def present(self, name: str) -> Mask:
        return ~self.absent(name)

    def numbers(self, name: str) -> Integers:
        """Return a number column, 0 for null."""
        values: Integers = pc.fill_null(self.rows[name], 0).to_numpy().astype(np.int64)
        return values

    def starting(self, name: str, prefix: str) -> Mask:
        """Find where a text column starts with a prefix; null does not."""
        return mask_of(pc.starts_with(self.rows[name], prefix))

    def keys(self, name: str) -> list[str | None]:
        keys: list[str | None] = location_keys(self.rows[name]).to_pylist()
        return keys

    def places(self, *contents: Content) -> list[int]:
        places: list[int] = np.flatnonzero(self.of(*contents)).tolist()
        return places

    def rows_of(self, *contents: Content) -> dict[int, ListedRow]:
        """Return rows of leaves, or of vectors over them, by where they stand."""
        places = self.places(*contents)
        rows = listed_rows(self.rows.select(LISTED).take(pa.array(places, pa.int64())))
        return dict(zip(places, rows, strict=True))

    def breaches(
        self, subject: str, what: str, wrong: Mask, severity: Severity | None = None
    ) -> Iterator[Breach]:
        """Yield one breach for all rows that have the same thing wrong."""
        places = np.flatnonzero(wrong)
        if len(places):
            at = int(places[0])
            names = (self.rows[name][at].as_py() for name in ("location", "referenced_file"))
            location = next(filter(None, names), f"row {at}")
            yield from located(subject, Fault(len(places), location), what, severity)


class TreeRows(TreeColumns):
    """The rows of a root or a leaf as they are stored."""

    def __init__(
        self, metadata: TableMetadata, subject: str, file: TreeFile, rows: pa.Table
    ) -> None:
        super().__init__(rows)
        self.metadata = metadata
        self.subject = subject
        self.file = file


class RootRows(TreeRows):
    """The rows of the root of a snapshot as they are stored."""

    def __init__(
        self, metadata: TableMetadata, snapshot: Snapshot, file: TreeFile, rows: pa.Table
    ) -> None:
        super().__init__(metadata, snapshot.root_manifest or "", file, rows)
        self.snapshot = snapshot

    @cached_property
    def inherited(self) -> tuple[Integers, Integers, Integers]:
        """Snapshot id, sequence number and file sequence number of each row."""
        number, added = self.snapshot.sequence_number, self.status == Status.ADDED
        names = ("snapshot_id", "sequence_number", "file_sequence_number")
        ids, numbers, files = (
            np.where(self.absent(name) & added, inherited, self.numbers(name))
            for name, inherited in zip(
                names, (self.snapshot.snapshot_id, number, number), strict=True
            )
        )
        return ids, numbers, files


class LeafRows(TreeRows):
    """The rows of a leaf as they are stored; `listed` is its row in a root."""

    def __init__(
        self, metadata: TableMetadata, listed: ListedRow, file: TreeFile, rows: pa.Table
    ) -> None:
        super().__init__(metadata, listed.name, file, rows)
        self.listed = listed


class LeafCounts:
    """The rows of a leaf of any version, and what a root counts of it; its rows are inherited."""

    def __init__(self, columns: TreeColumns, listed: ListedRow, size_bytes: int) -> None:
        self.columns = columns
        self.listed = listed
        self.size_bytes = size_bytes
        self.subject = listed.name
        self.row_count = len(columns)


class ListedLeaf(LeafCounts):
    """A leaf of any version against its row in the root of a snapshot; its rows are inherited."""

    def __init__(
        self, columns: TreeColumns, listed: ListedRow, size_bytes: int, snapshot: Snapshot
    ) -> None:
        super().__init__(columns, listed, size_bytes)
        self.snapshot = snapshot


def in_rows(
    what: str, search: Callable[[TreeRows], Mask], severity: Severity | None = None
) -> Check[TreeRows]:
    """Check rows of roots and leaves; `search` returns those that break the rule."""
    return Check(TreeRows, lambda one: one.breaches(one.subject, what, search(one), severity))


def in_root(
    what: str, search: Callable[[RootRows], Mask], severity: Severity | None = None
) -> Check[RootRows]:
    """Check rows of roots; `search` returns those that break the rule."""
    return Check(RootRows, lambda one: one.breaches(one.subject, what, search(one), severity))


def in_leaf(what: str, search: Callable[[LeafRows], Mask]) -> Check[LeafRows]:
    """Check rows of leaves; `search` returns those that break the rule."""
    return Check(LeafRows, lambda one: one.breaches(one.subject, what, search(one)))


# -- rows of roots and leaves ---------------------------------------------------------------------


def _unknown_fields(rows: TreeRows) -> Iterator[Breach]:
    if rows.file.unknown_field_ids:
        ids = ", ".join(map(str, rows.file.unknown_field_ids))
        yield Breach(f"it has columns with the ids {ids}")


def _of_other_format(rows: TreeRows) -> Mask:
    formats = rows.numbers("file_format")
    wrong = np.zeros(len(rows), bool)
    for content, allowed in _FORMATS.items():
        wrong |= rows.of(content) & ~np.isin(formats, [int(one) for one in allowed])
    return wrong


def _without_one_place(rows: TreeRows) -> Mask:
    placed = rows.present("content_offset") & rows.present("content_size_in_bytes")
    half = rows.absent("content_offset") ^ rows.absent("content_size_in_bytes")
    inline = rows.present("inline_content")
    of_data, of_leaf = rows.of(_VECTOR), rows.of(Content.MANIFEST_DV)
    bad_place = (rows.numbers("content_offset") < 4) | (rows.numbers("content_size_in_bytes") <= 0)
    wrong = of_data & (inline | ~placed | bad_place)
    wrong |= of_leaf & (~(inline ^ placed) | half | (placed & bad_place))
    return wrong | (~(of_data | of_leaf) & (inline | placed | half))


def _bad_counts(rows: TreeRows) -> Mask:
    leaves = rows.of(*LEAVES)
    absent = np.stack([rows.absent(name) for name in COUNTS])
    counts = np.stack([rows.numbers(name) for name in COUNTS])
    wrong = leaves & (absent.any(axis=0) | (counts < 0).any(axis=0))
    wrong |= leaves & (counts[:3].sum(axis=0) != rows.numbers("record_count"))
    return np.asarray(wrong | (~leaves & ~absent.all(axis=0)))


def _incomparable(rows: TreeRows) -> Mask:
    schemas = rows.metadata.schemas
    comparable = {
        id_
        for id_, field in chain.from_iterable(schema.all_fields.items() for schema in schemas)
        if not (isinstance(field.type, PrimitiveType) and field.type.name in ("float", "double"))
    }
    wrong = np.zeros(len(rows), bool)
    for at in rows.places(_EQUALITY):
        wrong[at] = not set(rows.rows["equality_ids"][at].as_py() or ()) <= comparable
    return wrong


def _falling_split_offsets(rows: TreeRows) -> Mask:
    wrong = rows.present("split_offsets") & ~rows.of(_DATA, _EQUALITY)
    lists = whole(rows.rows["split_offsets"])
    values = lists.flatten().to_numpy(zero_copy_only=False)
    parents = pc.list_parent_indices(lists).to_numpy()
    falling = (np.diff(values) < 0) & (np.diff(parents) == 0)
    wrong[parents[1:][falling]] = True
    return wrong & ~rows.with_status(Status.DELETED)  # which no reader splits


# -- roots ----------------------------------------------------------------------------------------


def _mismatched_footer(root: RootRows) -> Iterator[Breach]:
    expected = {
        "snapshot-id": root.snapshot.snapshot_id,
        "sequence-number": root.snapshot.sequence_number,
        "first-row-id": root.snapshot.first_row_id,
    }
    return other_names("footer", root.file.footer, expected)


def _mismatched_layout(root: RootRows) -> Iterator[Breach]:
    layout = root.file.footer.get(LAYOUT_KEY)
    if layout != Layout.SFC_1:
        yield Breach(f"its footer says `{LAYOUT_KEY}` {layout}")


def _lacking_numbers(root: RootRows) -> Mask:
    names = ("snapshot_id", "sequence_number", "file_sequence_number")
    return np.asarray(np.logical_or.reduce([root.absent(name) for name in names]))


def _changed_by_others(root: RootRows) -> Mask:
    ids, _, files = root.inherited
    added = root.with_status(Status.ADDED)
    other = ids != root.snapshot.snapshot_id
    changed = added | root.with_status(Status.DELETED)
    return np.asarray((changed & other) | (added & (files != root.snapshot.sequence_number)))


def _in_append(root: RootRows) -> Mask:
    if root.snapshot.operation != "append":
        return np.zeros(len(root), bool)
    added, deleted = root.with_status(Status.ADDED), root.with_status(Status.DELETED)
    wrong = deleted & root.of(*FILES)
    return wrong | (added & ~root.of(_DATA, Content.DATA_MANIFEST))


# -- leaves ---------------------------------------------------------------------------------------


def _mismatched_content(leaf: LeafRows) -> Iterator[Breach]:
    if leaf.file.content is not leaf.listed.kind:
        yield Breach(f"its footer says `{leaf.file.content}`, its root `{leaf.listed.kind}`")


# -- leaves against their roots -------------------------------------------------------------------


def _mismatched_description(leaf: LeafCounts) -> Iterator[Breach]:
    status, records = leaf.columns.status, leaf.columns.numbers("record_count")
    counts = {"record_count": len(leaf.columns), "file_size_in_bytes": leaf.size_bytes}
    for code in (Status.ADDED, Status.EXISTING, Status.DELETED):
        name = code.name.lower()
        counts[f"{name}_files_count"] = int((status == code).sum())
        counts[f"{name}_rows_count"] = int(records[status == code].sum())
    differing = [
        f"{name} {getattr(leaf.listed, name)}, not {number}"
        for name, number in counts.items()
        if getattr(leaf.listed, name) != number
    ]
    if differing:
        yield Breach(f"it is described with {'; '.join(differing)}")


def _mismatched_least_number(leaf: LeafCounts) -> Iterator[Breach]:
    live = ~leaf.columns.with_status(Status.DELETED)
    numbers = leaf.columns.numbers("sequence_number")[live]
    least = int(numbers.min()) if len(numbers) else leaf.listed.sequence_number
    said = leaf.listed.min_sequence_number
    if said != least:
        yield Breach(f"it is said to have {said} as lowest sequence number, not {least}")


def _of_the_future_in_leaf(leaf: ListedLeaf) -> Iterator[Breach]:
    numbers = leaf.columns.numbers("sequence_number")
    files = leaf.columns.numbers("file_sequence_number")
    wrong = (numbers > files) | (files > leaf.snapshot.sequence_number)
    what = "has a sequence number above its snapshot's"
    yield from leaf.columns.breaches(leaf.subject, what, wrong)


def _new_in_existing(leaf: ListedLeaf) -> Iterator[Breach]:
    is_new = leaf.listed.snapshot_id == leaf.snapshot.snapshot_id
    if leaf.listed.status == Status.EXISTING and is_new:
        wrong = ~leaf.columns.with_status(Status.EXISTING)
        what = "is new in a leaf that is listed as EXISTING"
        yield from leaf.columns.breaches(leaf.subject, what, wrong)


_NO_SCHEME = "begins with a slash and has no scheme, and readers resolve it to different places"

# fmt: off
ROW_RULES = (
    rule("V4-036", "an append only adds data files", "Snapshots", "error", ROLL_BACK,
         in_root("is in the root of an append, which only adds data", _in_append),
         of_object(ListedLeaf, "it is a leaf with DELETED rows, added by an append",
                   lambda one: one.snapshot.operation == "append"
                   and one.listed.status == Status.ADDED and bool(one.listed.deleted_files_count))),
    rule("V4-040", "a root is a manifest of version 4, and a root", "Root manifest", "error",
         ROLL_BACK),
    rule("V4-041", "a manifest has every required column, of the right type", "Root manifest",
         "error", ROLL_BACK),
    rule("V4-042", "a manifest has no columns that icectl does not know", "Root manifest",
         "warning", "use a newer icectl before anything is rewritten",
         Check(TreeRows, _unknown_fields)),
    rule("V4-043", "a manifest is not of the upstream draft of version 4", "Root manifest", "error",
         "maintain the table with the engine that wrote it"),
    rule("V4-044", "content types are those of version 4", "Root manifest", "error", ROLL_BACK),
    rule("V4-045", "the footer of a root agrees with its snapshot", "Root manifest",
         "error", ROLL_BACK, Check(RootRows, _mismatched_footer)),
    rule("V4-046", "rows of a root are in the order of their content types", "Root manifest",
         "info", NEXT_COMMIT,
         in_root("is after rows of a later content type",
                 lambda one: np.diff(_ORDER[one.content], prepend=_ORDER[one.content[:1]]) < 0)),
    rule("V4-047", "a root says that it has this layout", "Root manifest", "info", NEXT_COMMIT,
         Check(RootRows, _mismatched_layout)),
    rule("V4-050", "every entry has a known status", "Entries", "error", ROLL_BACK),
    rule("V4-051", "every entry has a location, unless its content is inline", "Entries", "error",
         ROLL_BACK,
         in_rows("has a location where it must not, or none where it must",
                 lambda one: mask_of(pc.equal(one.rows["location"], "")) | (one.absent("location")
                 ^ (one.of(Content.MANIFEST_DV) & one.present("inline_content")))),
         in_rows(_NO_SCHEME, lambda one: one.starting("location", "/")),
         in_rows(_NO_SCHEME, lambda one: one.starting("referenced_file", "/")),
         Check(LiveRows, naming_metadata), Check(LiveRows, naming_statistics)),
    rule("V4-052", "the file format is one that the content can have", "Entries", "error",
         ROLL_BACK, in_rows("has a file format that its content cannot have", _of_other_format),
         Check(LiveRows, unreadable_formats)),
    rule("V4-053", "vectors say where their bitmap is", "Entries", "error", ROLL_BACK,
         in_rows("does not say in one way where its bitmap is", _without_one_place),
         Check(LiveRows, incomplete_vectors)),
    rule("V4-054", "the partition spec of every entry exists", "Entries", "error",
         "restore the spec with the engine",
         in_rows("has a partition spec that does not exist",
                 lambda one: ~np.isin(one.numbers("spec_id"),
                                      [spec.spec_id for spec in one.metadata.partition_specs]))),
    rule("V4-055", "sort orders are those of data files", "Entries", "error", ROLL_BACK,
         in_rows("has a sort order, which its content does not have",
                 lambda one: one.present("sort_order_id") & ~one.of(_DATA)),
         in_rows("has a sort order that does not exist",
                 lambda one: one.present("sort_order_id") & one.of(_DATA)
                 & ~np.isin(one.numbers("sort_order_id"),
                            [order.order_id for order in one.metadata.sort_orders]), "warning")),
    rule("V4-056", "record counts are possible", "Entries", "error", ROLL_BACK,
         in_rows("has an invalid record count",
                 lambda one: (one.numbers("record_count") < 0)
                 | (one.of(_VECTOR, Content.MANIFEST_DV) & (one.numbers("record_count") < 1)))),
    rule("V4-057", "every file has a size", "Entries", "error", ROLL_BACK,
         in_rows("has an invalid size",
                 lambda one: (one.present("file_size_in_bytes") ^ one.present("location"))
                 | (one.present("file_size_in_bytes")
                    & (one.numbers("file_size_in_bytes") <= 0))),
         Check(LiveRows, of_no_size)),
    rule("V4-058", "leaves have counts of their rows, and nothing else has", "Entries", "error",
         ROLL_BACK, in_rows("has counts that are not those of its rows", _bad_counts)),
    rule("V4-059", "entries name the file that they refer to", "Entries", "error", ROLL_BACK,
         in_rows("refers to a file where it must not, or to none where it must",
                 lambda one: ~one.of(Content.DELETE_MANIFEST)
                 & (one.of(_VECTOR, Content.MANIFEST_DV) ^ one.present("referenced_file")))),
    rule("V4-060", "equality deletes name columns that can be compared", "Entries", "error",
         ROLL_BACK,
         in_rows("names no columns that it compares, or should not",
                 lambda one: one.of(_EQUALITY)
                 != mask_of(pc.greater(pc.list_value_length(one.rows["equality_ids"]), 0))),
         in_rows("compares columns that cannot be compared", _incomparable, "warning")),
    rule("V4-061", "split offsets ascend", "Entries", "error", COMPACT,
         in_rows("has split offsets that do not ascend", _falling_split_offsets)),
    rule("V4-062", "rows of a root have snapshot id and sequence numbers", "Entries", "error",
         ROLL_BACK,
         in_root("lacks its snapshot id or a sequence number",
                 lambda one: _lacking_numbers(one) & ~one.with_status(Status.ADDED)),
         in_root("lacks its snapshot id or a sequence number",
                 lambda one: _lacking_numbers(one) & one.with_status(Status.ADDED), "warning")),
    rule("V4-063", "manifests and their vectors have one sequence number", "Entries", "error",
         REWRITE_MANIFESTS,
         in_root("has two sequence numbers",
                 lambda one: one.of(*LEAVES, Content.MANIFEST_DV)
                 & (one.inherited[1] != one.inherited[2]))),
    rule("V4-064", "no sequence number is above that of its snapshot", "Entries", "error",
         ROLL_BACK,
         in_root("has a sequence number above its snapshot's",
                 lambda one: (one.inherited[1] > one.inherited[2])
                 | (one.inherited[2] > one.snapshot.sequence_number)),
         Check(ListedLeaf, _of_the_future_in_leaf), Check(LiveRows, late)),
    rule("V4-065", "entries that a snapshot added or deleted have its id", "Entries", "error",
         ROLL_BACK,
         in_root("changed in this snapshot, but has another's numbers", _changed_by_others)),
    rule("V4-066", "earlier files do not have the snapshot's id", "Entries",
         "error", ROLL_BACK,
         in_root("is an earlier file, but has this snapshot's id",
                 lambda one: one.of(*FILES) & one.with_status(Status.EXISTING)
                 & (one.inherited[0] == one.snapshot.snapshot_id))),
    rule("V4-067", "live files have row ids, which overlap nowhere", "Entries", "error", ROLL_BACK,
         in_rows("has row ids, which its content does not have",
                 lambda one: one.present("first_row_id") & ~one.of(_DATA, Content.DATA_MANIFEST)),
         in_root("has no row ids",
                 lambda one: ~one.with_status(Status.DELETED)
                 & one.of(_DATA, Content.DATA_MANIFEST) & one.absent("first_row_id")),
         Check(LiveTree, with_row_ids_of_others), Check(LiveTree, with_row_ids_above_next)),
    rule("V4-068", "leaves are not listed as DELETED", "Entries", "warning", NEXT_COMMIT,
         in_root("is a leaf listed as DELETED",
                 lambda one: one.with_status(Status.DELETED) & one.of(*LEAVES))),
    rule("V4-069", "a snapshot without parent deletes nothing", "Entries", "error",
         REWRITE_MANIFESTS,
         in_root("is DELETED by a snapshot without parent",
                 lambda one: one.with_status(Status.DELETED)
                 & (one.snapshot.parent_snapshot_id is None))),
    rule("V4-070", "no entry has key metadata", "Entries", "warning",
         "read the table with the engine that has the keys",
         in_rows("has key metadata", lambda one: one.present("key_metadata"))),
    rule("V4-092", "a leaf holds no manifest delete vectors", "Manifest delete vectors", "error",
         ROLL_BACK,
         in_leaf("is a bitmap over a leaf, in a leaf", lambda one: one.of(Content.MANIFEST_DV))),
    rule("V4-100", "a leaf says that it has version 4, and its kind", "Leaves", "error", ROLL_BACK,
         Check(LeafRows, _mismatched_content)),
    rule("V4-101", "a leaf holds data files, or deletes", "Leaves", "error", ROLL_BACK,
         in_leaf("has another kind than its leaf",
                 lambda one: one.of(_VECTOR, _EQUALITY) if one.listed.kind is TreeContent.DATA
                 else one.of(_DATA))),
    rule("V4-102", "a leaf names no manifests", "Leaves", "error", ROLL_BACK,
         in_leaf("is a leaf in a leaf", lambda one: one.of(*LEAVES))),
    rule("V4-103", "the root describes each leaf as it is", "Leaves", "error", ROLL_BACK,
         Check(LeafCounts, _mismatched_description)),
    rule("V4-104", "the lowest sequence number of a leaf is that of its rows", "Leaves", "error",
         ROLL_BACK, Check(LeafCounts, _mismatched_least_number)),
    rule("V4-105", "rows that are not ADDED have their own numbers", "Leaves", "error",
         ROLL_BACK,
         in_leaf("is not ADDED and has no sequence number",
                 lambda one: ~one.with_status(Status.ADDED) & (one.absent("sequence_number")
                 | one.absent("file_sequence_number"))),
         in_leaf("is DELETED and has no row ids",
                 lambda one: one.with_status(Status.DELETED) & one.of(_DATA)
                 & one.absent("first_row_id"))),
    rule("V4-106", "a new leaf that is EXISTING holds nothing new", "Leaves", "error", ROLL_BACK,
         Check(ListedLeaf, _new_in_existing)),
    rule("V4-107", "a leaf does not mix old rows with new ones", "Leaves", "warning",
         REWRITE_MANIFESTS,
         in_leaf("is among rows of earlier snapshots",
                 lambda one: ~one.with_status(Status.EXISTING)
                 & one.with_status(Status.EXISTING).any())),
    rule("V4-108", "leaves of version 4 hold no DELETED rows", "Leaves", "warning",
         REWRITE_MANIFESTS,
         in_leaf("is DELETED in a leaf", lambda one: one.with_status(Status.DELETED))),
    rule("V4-109", "a leaf that was added changes something", "Leaves", "warning",
         REWRITE_MANIFESTS,
         of_object(ListedLeaf, "it is a leaf listed as ADDED, with nothing new in it",
                   lambda one: one.listed.status == Status.ADDED
                   and bool(one.columns.with_status(Status.EXISTING).all()))),
    rule("V4-110", "a leaf has rows", "Leaves", "warning", REWRITE_MANIFESTS,
         of_object(ListedLeaf, "it is a leaf without rows", lambda one: not one.row_count)),
    rule("V4-111", "leaves of older versions agree with the root", "Leaves", "error", ROLL_BACK),
    rule("V4-112", "delete leaves say `delete`", "Leaves", "warning", REWRITE_MANIFESTS,
         of_object(LeafRows, "its footer says `deletes`, not `delete`",
                   lambda one: one.file.footer.get("content") == "deletes")),
    rule("V4-113", "new leaves have version 4", "Leaves", "error", ROLL_BACK,
         in_root("is a new leaf of an older version",
                 lambda one: one.with_status(Status.ADDED) & one.of(*LEAVES)
                 & (one.numbers("file_format") == int(FileFormat.AVRO)))),
    rule("V4-115", "a leaf is not too large", "Leaves", "warning", REWRITE_MANIFESTS,
         of_object(ListedLeaf, "it is a leaf of {one.row_count:,} rows",
                   lambda one: one.row_count > LEAF_MAX_ENTRIES)),
    rule("V4-180", "the root of every snapshot exists", "Storage", "error", ROLL_BACK),
    rule("V4-181", "live leaves exist, with their sizes", "Storage", "error", ROLL_BACK),
    rule("V4-182", "live files exist, with their sizes", "Storage", "error", ROLL_BACK),
    rule("V4-183", "files of DELETED rows may be gone", "Storage", "info", OURS),
    rule("V4-190", "a root lists no more data files than it should", "Storage", "warning",
         REWRITE_MANIFESTS, not_enforced=NO_ROW),
    rule("V4-191", "a root lists no more deletes than it should", "Storage", "warning",
         REWRITE_MANIFESTS, not_enforced=NO_ROW),
    rule("V4-193", "every listed leaf has live rows", "Storage", "info", NEXT_COMMIT,
         not_enforced=NO_ROW),
)
# fmt: on
