"""Searches for rows of version 4 manifests that break a rule: whole columns at a time."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from icectl.entries.faults import Fault
from icectl.entries.tree_rows import COUNTS
from icectl.spec.manifest import Content, FileFormat, Status

Mask = npt.NDArray[np.bool_]

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


@dataclass(frozen=True, slots=True)
class Known:
    """Ids that entries may name."""

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
        """Rows of some content types."""
        return np.isin(self.content, [int(one) for one in contents])

    def absent(self, name: str) -> Mask:
        """Where a column is null."""
        found: Mask = self.rows[name].is_null().to_numpy()
        return found

    def numbers(self, name: str) -> npt.NDArray[np.int64]:
        """A number column."""
        found: npt.NDArray[np.int64] = pc.fill_null(self.rows[name], 0).to_numpy().astype(np.int64)
        return found

    def fault(self, wrong: Mask) -> Fault | None:
        """How many rows are wrong, and what the first is called."""
        places = np.flatnonzero(wrong)
        if not len(places):
            return None
        at = int(places[0])
        location = self.rows["location"][at].as_py() or self.rows["referenced_file"][at].as_py()
        return Fault(len(places), location or f"row {at}")


Found = Iterator[tuple[str, Fault | None, str]]
"""(rule, where it is broken, what is wrong)."""


def entry_faults(columns: TreeColumns, known: Known) -> Found:
    """What is wrong with single rows of a root or a leaf of version 4 (V4-050 to V4-070)."""
    yield from _locations(columns)
    yield from _vectors(columns)
    yield from _numbers_of_rows(columns)
    yield from _named_ids(columns, known)
    yield from _lists(columns, known)


def _locations(columns: TreeColumns) -> Found:
    is_bitmap = columns.of(Content.MANIFEST_DV)
    inline = is_bitmap & ~columns.absent("inline_content")
    has_location = ~columns.absent("location")
    fault = columns.fault(has_location == inline)
    yield "V4-051", fault, "has a location where it must not, or none where it must"
    formats = columns.numbers("file_format")
    wrong = np.zeros(len(columns), bool)
    for content, allowed in _FORMATS.items():
        wrong |= columns.of(content) & ~np.isin(formats, [int(one) for one in allowed])
    yield "V4-052", columns.fault(wrong), "has a file format that its content cannot have"
    has_size = ~columns.absent("file_size_in_bytes")
    sizes = columns.numbers("file_size_in_bytes")
    wrong = (has_size != has_location) | (has_size & (sizes <= 0))
    yield "V4-057", columns.fault(wrong), "has no size that makes sense"
    refers = ~columns.absent("referenced_file")
    must = columns.of(_VECTOR, Content.MANIFEST_DV)
    may = must | columns.of(Content.DELETE_MANIFEST)
    fault = columns.fault((must & ~refers) | (refers & ~may))
    yield "V4-059", fault, "refers to a file where it must not, or to none where it must"


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
    yield "V4-053", columns.fault(wrong), "does not say in one way where its bitmap is"


def _numbers_of_rows(columns: TreeColumns) -> Found:
    records = columns.numbers("record_count")
    wrong = (records < 0) | (columns.of(_VECTOR, Content.MANIFEST_DV) & (records < 1))
    yield "V4-056", columns.fault(wrong), "has a record count that makes no sense"
    leaves = columns.of(*_LEAVES)
    absent = np.stack([columns.absent(name) for name in COUNTS])
    counts = np.stack([columns.numbers(name) for name in COUNTS])
    wrong = leaves & (absent.any(axis=0) | (counts[:6] < 0).any(axis=0))
    wrong |= leaves & (counts[:3].sum(axis=0) != records)
    wrong |= ~leaves & ~absent.all(axis=0)
    yield "V4-058", columns.fault(wrong), "has counts that are not those of its rows"
    known_ids = ~columns.absent("first_row_id")
    wrong = known_ids & ~columns.of(_DATA, Content.DATA_MANIFEST)
    yield "V4-067", columns.fault(wrong), "has row ids, which its content does not have"
    yield "V4-070", columns.fault(~columns.absent("key_metadata")), "has key metadata"


def _named_ids(columns: TreeColumns, known: Known) -> Found:
    wrong = ~np.isin(columns.numbers("spec_id"), list(known.spec_ids))
    yield "V4-054", columns.fault(wrong), "is of a partition spec that there is not"
    has_order = ~columns.absent("sort_order_id")
    unknown = ~np.isin(columns.numbers("sort_order_id"), list(known.sort_order_ids))
    wrong = has_order & (~columns.of(_DATA) | unknown)
    yield "V4-055", columns.fault(wrong), "has a sort order that it cannot have"


def _lists(columns: TreeColumns, known: Known) -> Found:
    ids = columns.rows["equality_ids"]
    lengths = pc.fill_null(pc.list_value_length(ids), 0).to_numpy()
    equality = columns.of(_EQUALITY)
    wrong = equality != (lengths > 0)
    yield "V4-060", columns.fault(wrong), "names no columns that it compares, or should not"
    unknown = np.zeros(len(columns), bool)
    for at in np.flatnonzero(equality):
        named = set(ids[int(at)].as_py() or ())
        unknown[at] = not named <= set(known.columns) or bool(named & set(known.real_columns))
    yield "V4-060", columns.fault(unknown), "compares columns that cannot be compared"
    offsets = columns.rows["split_offsets"]
    present = ~columns.absent("split_offsets")
    wrong = present & ~columns.of(_DATA, _EQUALITY)
    for at in np.flatnonzero(present):
        found = offsets[int(at)].as_py()
        wrong[at] |= found != sorted(found)
    yield "V4-061", columns.fault(wrong), "has split offsets that do not ascend"


def root_faults(
    columns: TreeColumns, *, snapshot_id: int, sequence_number: int, has_parent: bool
) -> Found:
    """What is wrong with the tracking of rows of a root, before inheritance (V4-062 to V4-069)."""
    status = columns.status
    added, deleted = status == Status.ADDED, status == Status.DELETED
    lacking = (
        columns.absent("snapshot_id")
        | columns.absent("sequence_number")
        | columns.absent("file_sequence_number")
    )
    yield "V4-062", columns.fault(lacking & ~added), "lacks its snapshot id or a sequence number"
    ids, numbers = columns.numbers("snapshot_id"), columns.numbers("sequence_number")
    files = columns.numbers("file_sequence_number")
    ids = np.where(columns.absent("snapshot_id") & added, snapshot_id, ids)
    numbers = np.where(columns.absent("sequence_number") & added, sequence_number, numbers)
    files = np.where(columns.absent("file_sequence_number") & added, sequence_number, files)
    manifests = columns.of(*_LEAVES, Content.MANIFEST_DV)
    yield "V4-063", columns.fault(manifests & (numbers != files)), "has two sequence numbers"
    wrong = (numbers > files) | (files > sequence_number)
    yield "V4-064", columns.fault(wrong), "has a sequence number of the future"
    wrong = ((added | deleted) & (ids != snapshot_id)) | (added & (files != sequence_number))
    yield "V4-065", columns.fault(wrong), "changed in this snapshot, but carries another's numbers"
    wrong = columns.of(*_FILES) & (status == Status.EXISTING) & (ids == snapshot_id)
    yield "V4-066", columns.fault(wrong), "was there before, but carries this snapshot's id"
    live = ~deleted & columns.of(_DATA, Content.DATA_MANIFEST)
    yield "V4-067", columns.fault(live & columns.absent("first_row_id")), "has no row ids"
    yield "V4-068", columns.fault(deleted & columns.of(*_LEAVES)), "is a leaf listed as DELETED"
    if not has_parent:
        yield "V4-069", columns.fault(deleted), "is DELETED by a snapshot without parent"
    wrong = added & columns.of(*_LEAVES) & (columns.numbers("file_format") == int(FileFormat.AVRO))
    yield "V4-113", columns.fault(wrong), "is a new leaf of an older version"


def leaf_faults(columns: TreeColumns) -> Found:
    """What is wrong with the rows of a leaf among themselves (V4-105 to V4-110)."""
    status = columns.status
    old = status != Status.ADDED
    lacking = columns.absent("sequence_number") | columns.absent("file_sequence_number")
    yield "V4-105", columns.fault(old & lacking), "is not ADDED and has no sequence number"
    lost = (status == Status.DELETED) & columns.of(_DATA) & columns.absent("first_row_id")
    yield "V4-105", columns.fault(lost), "is DELETED and has no row ids"
    if (status == Status.EXISTING).any():
        fault = columns.fault(status != Status.EXISTING)
        yield "V4-107", fault, "stands among rows that were there before"
    yield "V4-108", columns.fault(status == Status.DELETED), "is DELETED in a leaf"
