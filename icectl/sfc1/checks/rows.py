"""Searches for rows of version 4 manifests that break a rule: whole columns at a time."""

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icectl.entries.columns.values import Integers, Mask, mask_of, whole
from icectl.entries.rows import location_keys
from icectl.format.manifest import Content, FileFormat, Status
from icectl.format.rule import BrokenRule, Fault, Found, Severity
from icectl.sfc1.rows import COUNTS, LEAF_MAX_ENTRIES, LISTED, ListedRow, listed_rows

_DATA, _VECTOR, _EQUALITY = Content.DATA, Content.POSITION_DELETES, Content.EQUALITY_DELETES
_LEAVES = (Content.DATA_MANIFEST, Content.DELETE_MANIFEST)
_FILES = (_DATA, _VECTOR, _EQUALITY)
_ROW_FORMATS = (FileFormat.PARQUET, FileFormat.ORC, FileFormat.AVRO)
_FORMATS = {
    _DATA: _ROW_FORMATS,
    _VECTOR: (FileFormat.PUFFIN,),
    _EQUALITY: _ROW_FORMATS,
    Content.DATA_MANIFEST: (FileFormat.PARQUET, FileFormat.AVRO),
    Content.DELETE_MANIFEST: (FileFormat.PARQUET, FileFormat.AVRO),
    Content.MANIFEST_DV: (FileFormat.PUFFIN,),
}
_ORDER = (5, 3, 4, 2, 1, 0)
"""Where the rows of each content stand in a root that icectl writes, by its code (sfc-1 4.4)."""


@dataclass(frozen=True, slots=True)
class KnownIds:
    """Ids that entries may name; `real_columns` are the floating-point ones."""

    spec_ids: Collection[int]
    sort_order_ids: Collection[int]
    columns: Collection[int]
    real_columns: Collection[int]


class TreeColumns:
    """The columns of rows as arrays; null numbers read as 0."""

    def __init__(self, rows: pa.Table) -> None:
        self.rows = rows
        self.content = rows["content"].to_numpy()
        self.status = rows["status"].to_numpy()

    def __len__(self) -> int:
        return len(self.rows)

    def of(self, *contents: Content) -> Mask:
        """Return rows of some content types."""
        return np.isin(self.content, [int(one) for one in contents])

    def absent(self, name: str) -> Mask:
        """Find where a column is null."""
        return mask_of(self.rows[name].is_null())

    def numbers(self, name: str) -> Integers:
        """Return a number column, 0 for null."""
        found: Integers = pc.fill_null(self.rows[name], 0).to_numpy().astype(np.int64)
        return found

    def equal_to(self, name: str, text: str) -> Mask:
        """Find where a text column has a value."""
        return mask_of(pc.equal(self.rows[name], text))

    def starting(self, name: str, prefix: str) -> Mask:
        """Find where a text column starts with a prefix; null does not."""
        return mask_of(pc.starts_with(self.rows[name], prefix))

    def keys(self, name: str) -> list[str | None]:
        """Return a column of locations in the form that they are compared in."""
        found: list[str | None] = location_keys(self.rows[name]).to_pylist()
        return found

    def places(self, *contents: Content) -> list[int]:
        """Find where rows of some content types stand."""
        found: list[int] = np.flatnonzero(self.of(*contents)).tolist()
        return found

    def rows_of(self, *contents: Content) -> dict[int, ListedRow]:
        """Return rows of leaves, or of vectors over them, by where they stand."""
        places = self.places(*contents)
        rows = listed_rows(self.rows.select(LISTED).take(pa.array(places, pa.int64())))
        return dict(zip(places, rows, strict=True))

    def fault(self, wrong: Mask) -> Fault | None:
        """Tell how many rows are wrong, and what the first is called; None for none."""
        places = np.flatnonzero(wrong)
        if not len(places):
            return None
        at = int(places[0])
        location = self.rows["location"][at].as_py() or self.rows["referenced_file"][at].as_py()
        return Fault(len(places), location or f"row {at}")

    def broken(self, rule: str, wrong: Mask, told: str, severity: Severity | None = None) -> Found:
        """Yield the rule with the rows that break it, where there are any."""
        fault = self.fault(wrong)
        if fault is not None:
            yield BrokenRule(rule, fault, told, severity)


def entry_faults(columns: TreeColumns, known: KnownIds) -> Found:
    """Check single rows of a root or a leaf of version 4 (V4-051 to V4-070)."""
    yield from _locations(columns)
    yield from _vectors(columns)
    yield from _numbers_of_rows(columns)
    yield from _named_ids(columns, known)
    yield from _equality_ids(columns, known)
    yield from _split_offsets(columns)


def _locations(columns: TreeColumns) -> Found:
    inline = columns.of(Content.MANIFEST_DV) & ~columns.absent("inline_content")
    has_location = ~columns.absent("location")
    said = "has a location where it must not, or none where it must"
    nameless = columns.equal_to("location", "")
    yield from columns.broken("V4-051", (has_location == inline) | nameless, said)  # V4-051
    for name in ("location", "referenced_file"):
        no_scheme = columns.starting(name, "/")
        said = "begins with a slash and has no scheme, so that readers take it for different places"
        yield from columns.broken("V4-051", no_scheme, said)
    formats = columns.numbers("file_format")
    wrong = np.zeros(len(columns), bool)
    for content, allowed in _FORMATS.items():
        wrong |= columns.of(content) & ~np.isin(formats, [int(one) for one in allowed])
    said = "has a file format that its content cannot have"
    yield from columns.broken("V4-052", wrong, said)  # V4-052
    has_size = ~columns.absent("file_size_in_bytes")
    sizes = columns.numbers("file_size_in_bytes")
    wrong = (has_size != has_location) | (has_size & (sizes <= 0))
    yield from columns.broken("V4-057", wrong, "has no size that makes sense")  # V4-057
    refers = ~columns.absent("referenced_file")
    must = columns.of(_VECTOR, Content.MANIFEST_DV)
    may = must | columns.of(Content.DELETE_MANIFEST)
    said = "refers to a file where it must not, or to none where it must"
    yield from columns.broken("V4-059", (must & ~refers) | (refers & ~may), said)  # V4-059


def _vectors(columns: TreeColumns) -> Found:
    placed = ~columns.absent("content_offset") & ~columns.absent("content_size_in_bytes")
    half = columns.absent("content_offset") != columns.absent("content_size_in_bytes")
    inline = ~columns.absent("inline_content")
    of_data, of_leaf = columns.of(_VECTOR), columns.of(Content.MANIFEST_DV)
    bad_place = (columns.numbers("content_offset") < 4) | (
        columns.numbers("content_size_in_bytes") <= 0
    )
    wrong = of_data & (inline | ~placed | bad_place)
    wrong |= of_leaf & ((inline == placed) | half | (placed & bad_place))
    wrong |= ~(of_data | of_leaf) & (inline | placed | half)
    said = "does not say in one way where its bitmap is"
    yield from columns.broken("V4-053", wrong, said)  # V4-053


def _numbers_of_rows(columns: TreeColumns) -> Found:
    records = columns.numbers("record_count")
    wrong = (records < 0) | (columns.of(_VECTOR, Content.MANIFEST_DV) & (records < 1))
    yield from columns.broken("V4-056", wrong, "has a record count that makes no sense")  # V4-056
    leaves = columns.of(*_LEAVES)
    absent = np.stack([columns.absent(name) for name in COUNTS])
    counts = np.stack([columns.numbers(name) for name in COUNTS])
    wrong = leaves & (absent.any(axis=0) | (counts < 0).any(axis=0))
    wrong |= leaves & (counts[:3].sum(axis=0) != records)
    wrong |= ~leaves & ~absent.all(axis=0)
    said = "has counts that are not those of its rows"
    yield from columns.broken("V4-058", wrong, said)  # V4-058
    wrong = ~columns.absent("first_row_id") & ~columns.of(_DATA, Content.DATA_MANIFEST)
    said = "has row ids, which its content does not have"
    yield from columns.broken("V4-067", wrong, said)  # V4-067
    yield from columns.broken("V4-070", ~columns.absent("key_metadata"), "has key metadata")


def _named_ids(columns: TreeColumns, known: KnownIds) -> Found:
    wrong = ~np.isin(columns.numbers("spec_id"), list(known.spec_ids))
    yield from columns.broken("V4-054", wrong, "is of a partition spec that there is not")  # V4-054
    has_order = ~columns.absent("sort_order_id")
    unknown = ~np.isin(columns.numbers("sort_order_id"), list(known.sort_order_ids))
    is_data = columns.of(_DATA)
    said = "has a sort order, which its content does not have"
    yield from columns.broken("V4-055", has_order & ~is_data, said)  # V4-055
    said = "has a sort order that there is not"
    yield from columns.broken("V4-055", has_order & is_data & unknown, said, "warning")


def _equality_ids(columns: TreeColumns, known: KnownIds) -> Found:
    ids = columns.rows["equality_ids"]
    lengths = pc.fill_null(pc.list_value_length(ids), 0).to_numpy()
    equality = columns.of(_EQUALITY)
    said = "names no columns that it compares, or should not"
    yield from columns.broken("V4-060", equality != (lengths > 0), said)  # V4-060
    unknown = np.zeros(len(columns), bool)
    for at in np.flatnonzero(equality):
        named = set(ids[int(at)].as_py() or ())
        unknown[at] = not named <= set(known.columns) or bool(named & set(known.real_columns))
    said = "compares columns that cannot be compared"
    yield from columns.broken("V4-060", unknown, said, "warning")


def _split_offsets(columns: TreeColumns) -> Found:
    present = ~columns.absent("split_offsets")
    wrong = present & ~columns.of(_DATA, _EQUALITY)
    lists = whole(columns.rows["split_offsets"])
    values = lists.flatten().to_numpy(zero_copy_only=False)
    rows = pc.list_parent_indices(lists).to_numpy()
    falling = (np.diff(values) < 0) & (np.diff(rows) == 0)
    wrong[rows[1:][falling]] = True
    yield from columns.broken("V4-061", wrong, "has split offsets that do not ascend")  # V4-061


# -- roots ----------------------------------------------------------------------------------------


def tracking_faults(
    columns: TreeColumns, *, snapshot_id: int, sequence_number: int, has_parent: bool
) -> Found:
    """Check the tracking of rows of a root, before inheritance (V4-062 to V4-069, V4-113)."""
    status = columns.status
    added, deleted = status == Status.ADDED, status == Status.DELETED
    lacking = (
        columns.absent("snapshot_id")
        | columns.absent("sequence_number")
        | columns.absent("file_sequence_number")
    )
    said = "lacks its snapshot id or a sequence number"
    yield from columns.broken("V4-062", lacking & ~added, said)  # V4-062
    yield from columns.broken("V4-062", lacking & added, said, "warning")
    ids, numbers = columns.numbers("snapshot_id"), columns.numbers("sequence_number")
    files = columns.numbers("file_sequence_number")
    ids = np.where(columns.absent("snapshot_id") & added, snapshot_id, ids)
    numbers = np.where(columns.absent("sequence_number") & added, sequence_number, numbers)
    files = np.where(columns.absent("file_sequence_number") & added, sequence_number, files)
    manifests = columns.of(*_LEAVES, Content.MANIFEST_DV)
    wrong = manifests & (numbers != files)
    yield from columns.broken("V4-063", wrong, "has two sequence numbers")  # V4-063
    wrong = (numbers > files) | (files > sequence_number)
    yield from columns.broken("V4-064", wrong, "has a sequence number of the future")  # V4-064
    wrong = ((added | deleted) & (ids != snapshot_id)) | (added & (files != sequence_number))
    said = "changed in this snapshot, but carries another's numbers"
    yield from columns.broken("V4-065", wrong, said)  # V4-065
    wrong = columns.of(*_FILES) & (status == Status.EXISTING) & (ids == snapshot_id)
    said = "was there before, but carries this snapshot's id"
    yield from columns.broken("V4-066", wrong, said)  # V4-066
    live = ~deleted & columns.of(_DATA, Content.DATA_MANIFEST)
    wrong = live & columns.absent("first_row_id")
    yield from columns.broken("V4-067", wrong, "has no row ids")  # V4-067
    wrong = deleted & columns.of(*_LEAVES)
    yield from columns.broken("V4-068", wrong, "is a leaf listed as DELETED")  # V4-068
    if not has_parent:
        said = "is DELETED by a snapshot without parent"
        yield from columns.broken("V4-069", deleted, said)  # V4-069
    wrong = added & columns.of(*_LEAVES) & (columns.numbers("file_format") == int(FileFormat.AVRO))
    yield from columns.broken("V4-113", wrong, "is a new leaf of an older version")  # V4-113


def order_faults(columns: TreeColumns) -> Found:
    """Yield rows of a root outside of the order of their kinds (V4-046)."""
    places = np.array(_ORDER, np.int64)[columns.content]
    wrong = np.zeros(len(columns), bool)
    wrong[1:] = np.diff(places) < 0
    yield from columns.broken("V4-046", wrong, "stands behind rows of a later kind")  # V4-046


def append_faults(columns: TreeColumns) -> Found:
    """Yield rows of a root that no append has (V4-036)."""
    added, deleted = columns.status == Status.ADDED, columns.status == Status.DELETED
    wrong = (deleted & columns.of(*_FILES)) | (added & ~columns.of(_DATA, Content.DATA_MANIFEST))
    said = "is in the root of an append, which only adds data"
    yield from columns.broken("V4-036", wrong, said)  # V4-036


# -- leaves ---------------------------------------------------------------------------------------


def kind_faults(columns: TreeColumns, *, of_data: bool) -> Found:
    """Yield rows of a leaf that it cannot have (V4-092, V4-101, V4-102)."""
    wrong = columns.of(Content.MANIFEST_DV)
    yield from columns.broken("V4-092", wrong, "is a bitmap over a leaf, in a leaf")  # V4-092
    yield from columns.broken("V4-102", columns.of(*_LEAVES), "is a leaf in a leaf")  # V4-102
    allowed = (_DATA,) if of_data else (_VECTOR, _EQUALITY)
    wrong = columns.of(*_FILES) & ~columns.of(*allowed)
    yield from columns.broken("V4-101", wrong, "is of another kind than its leaf")  # V4-101


def leaf_faults(columns: TreeColumns) -> Found:
    """Check the stored rows of a leaf of version 4 (V4-105, V4-107, V4-108)."""
    status = columns.status
    lacking = columns.absent("sequence_number") | columns.absent("file_sequence_number")
    wrong = (status != Status.ADDED) & lacking
    said = "is not ADDED and has no sequence number"
    yield from columns.broken("V4-105", wrong, said)  # V4-105
    wrong = (status == Status.DELETED) & columns.of(_DATA) & columns.absent("first_row_id")
    yield from columns.broken("V4-105", wrong, "is DELETED and has no row ids")
    if (status == Status.EXISTING).any():
        wrong = status != Status.EXISTING
        said = "stands among rows that were there before"
        yield from columns.broken("V4-107", wrong, said)  # V4-107
    wrong = status == Status.DELETED
    yield from columns.broken("V4-108", wrong, "is DELETED in a leaf")  # V4-108


def described_faults(
    columns: TreeColumns, leaf: ListedRow, size_bytes: int, snapshot_sequence: int
) -> Found:
    """Compare what a root says of a leaf with its rows, inherited.

    Rules: V4-064, V4-103, V4-104, V4-110, V4-115.
    """
    location = leaf.name
    status, records = columns.status, columns.numbers("record_count")
    found = {"record_count": len(columns), "file_size_in_bytes": size_bytes}
    for code, name in ((Status.ADDED, "added"), (Status.EXISTING, "existing")):
        found[f"{name}_files_count"] = int((status == code).sum())
        found[f"{name}_rows_count"] = int(records[status == code].sum())
    found["deleted_files_count"] = int((status == Status.DELETED).sum())
    found["deleted_rows_count"] = int(records[status == Status.DELETED].sum())
    differing = [
        f"{name} {getattr(leaf, name)}, not {number}"
        for name, number in found.items()
        if getattr(leaf, name) != number
    ]
    if differing:  # V4-103
        said = f"is described with {'; '.join(differing)}"
        yield BrokenRule("V4-103", Fault(1, location), said)
    numbers, files = columns.numbers("sequence_number"), columns.numbers("file_sequence_number")
    live = status != Status.DELETED
    least = int(numbers[live].min()) if live.any() else leaf.sequence_number
    if leaf.min_sequence_number != least:  # V4-104
        said = f"is said to have {leaf.min_sequence_number} as lowest sequence number, not {least}"
        yield BrokenRule("V4-104", Fault(1, location), said)
    wrong = (numbers > files) | (files > snapshot_sequence)
    yield from columns.broken("V4-064", wrong, "has a sequence number of the future")
    if not len(columns):  # V4-110
        yield BrokenRule("V4-110", Fault(1, location), "is a leaf without rows")
    if len(columns) > LEAF_MAX_ENTRIES:  # V4-115
        yield BrokenRule("V4-115", Fault(1, location), f"is a leaf of {len(columns):,} rows")


def status_faults(columns: TreeColumns, leaf: ListedRow, *, is_new: bool) -> Found:
    """Statuses of rows of a leaf against that of the leaf (V4-106, V4-109)."""
    changed = columns.status != Status.EXISTING
    if leaf.status == Status.EXISTING and is_new:
        said = "is new in a leaf that is listed as EXISTING"
        yield from columns.broken("V4-106", changed, said)  # V4-106
    if leaf.status == Status.ADDED and not changed.any():  # V4-109
        said = "is a leaf listed as ADDED, with nothing new in it"
        yield BrokenRule("V4-109", Fault(1, leaf.name), said)
