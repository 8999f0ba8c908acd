"""Entries of older layouts as rows of the draft: their vectors inside, their leaf's entry."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icectl.codec.draft_16025.mumbling import write_mumbling
from icectl.codec.draft_16025.partitions import Union, union_of
from icectl.codec.draft_16025.stats import DraftStats, draft_stats
from icectl.entries.columns.values import Mask, Positions, mask_of
from icectl.entries.draft_16025.rows import (
    COUNTS,
    DRAFT_ROWS,
    PARTITION,
    STATS,
    DraftStatus,
    are_live,
)
from icectl.entries.rows import Entries
from icectl.spec.locations import relative_location, with_scheme
from icectl.spec.manifest import Content, FileFormat, ManifestContent, ManifestFile
from icectl.spec.metadata import TableMetadata

_AS_THEY_ARE = (
    "status", "snapshot_id", "sequence_number", "file_sequence_number", "first_row_id", "content",
    "file_format", "record_count", "file_size_in_bytes", "spec_id", "sort_order_id",
    "key_metadata", "split_offsets", "equality_ids",
)  # fmt: skip
_COUNTED = (
    (DraftStatus.ADDED,),
    (DraftStatus.EXISTING, DraftStatus.MODIFIED),
    (DraftStatus.DELETED,),
    (DraftStatus.REPLACED,),
)
"""The statuses that each count of a leaf's entry is of."""


@dataclass(frozen=True, slots=True)
class Vector:
    """A deletion vector of a data file, and the snapshot that added it; None where none tells."""

    location: str
    offset: int
    size_in_bytes: int
    cardinality: int
    snapshot_id: int | None
    key_metadata: bytes | None = None


@dataclass(frozen=True, slots=True)
class DraftForm:
    """What entries of one table become: locations, partitions and statistics of its form."""

    metadata: TableMetadata
    union: Union
    stats: DraftStats

    @property
    def table_location(self) -> str:
        """What relative locations are below; it has a scheme."""
        return with_scheme(self.metadata.location, self.metadata.location)

    def stored(self, location: str) -> str:
        """Return a location as the draft stores it: relative, where it lies below the table's."""
        return relative_location(self.table_location, with_scheme(self.metadata.location, location))


def form_of(metadata: TableMetadata) -> DraftForm:
    """Return the form of a table's entries. Raises: Unsupported, where its partitions have none."""
    return DraftForm(metadata, union_of(metadata), draft_stats(metadata))


def as_rows(entries: Entries, form: DraftForm, vectors: Mapping[int, Vector]) -> pa.Table:
    """Entries of data files and equality deletes as rows; `vectors` are those of some of them.

    Shape: DRAFT_ROWS, PARTITION and STATS. Order: kept.
    Raises: CorruptTable R-068 where a partition is not of its spec's types.
    """
    table = entries.table
    found = {name: table[name].cast(DRAFT_ROWS.field(name).type) for name in _AS_THEY_ARE}
    found["location"] = pa.array(map(form.stored, table["location"].to_pylist()), pa.string())
    version = pa.scalar(form.metadata.format_version, pa.int32())
    found["format_version"] = pa.repeat(version, len(entries))
    for name, member in (
        ("dv_location", "location"),
        ("dv_offset", "offset"),
        ("dv_size_in_bytes", "size_in_bytes"),
        ("dv_cardinality", "cardinality"),
        ("dv_snapshot_id", "snapshot_id"),
        ("dv_key_metadata", "key_metadata"),
    ):
        values: list[object] = [None] * len(entries)
        for at, vector in vectors.items():
            values[at] = getattr(vector, member)
            if member == "location":
                values[at] = form.stored(vector.location)
        found[name] = pa.array(values, DRAFT_ROWS.field(name).type)
    made = pa.table(
        [found.get(one.name, pa.nulls(len(entries), one.type)) for one in DRAFT_ROWS],
        schema=DRAFT_ROWS,
    )
    keys = table["partition_key"].combine_chunks()
    made = made.append_column(PARTITION, form.union.tuples(table["spec_id"].to_pylist(), keys))
    return made.append_column(STATS, form.stats.of(entries))


def with_status(rows: pa.Table, status: DraftStatus, snapshot_id: int | None = None) -> pa.Table:
    """Return the same rows with a status; with the snapshot that ended them, where one is given.

    Order: kept.
    """
    for name, value in (("status", int(status)), ("snapshot_id", snapshot_id)):
        if value is not None:
            field = DRAFT_ROWS.field(name)
            column = pa.repeat(pa.scalar(value, field.type), rows.num_rows)
            rows = rows.set_column(rows.schema.get_field_index(name), field, column)
    return rows


@dataclass(frozen=True, slots=True)
class LeafMarks:
    """Rows of a leaf that are dead, and those of them that the exported snapshot took."""

    dead: Positions
    deleted: Positions
    replaced: Positions


@dataclass(frozen=True, slots=True)
class WrittenLeaf:
    """A leaf as it was written: where, how large, its rows, and the entries that these are of."""

    location: str
    size_bytes: int
    rows: pa.Table
    entries: Entries
    marks: LeafMarks

    @property
    def alive(self) -> Mask:
        """Whether each row is live, by its status and what is dead in the leaf."""
        dead = np.isin(np.arange(self.rows.num_rows), self.marks.dead)
        return mask_of(are_live(self.rows)) & ~dead


def leaf_row(
    leaf: WrittenLeaf,
    manifest: ManifestFile,
    status: DraftStatus,
    snapshot_id: int,
    form: DraftForm,
) -> pa.Table:
    """The entry of a leaf in the root that a snapshot has; `manifest` is what it was made of.

    Shape: one row, with the columns of as_rows.
    """
    marks, is_marked = leaf.marks, len(leaf.marks.deleted) or len(leaf.marks.replaced)
    is_data = manifest.content == ManifestContent.DATA
    numbers = leaf.rows["sequence_number"].to_numpy()[leaf.alive]
    lowest = int(numbers.min()) if len(numbers) else manifest.min_sequence_number
    row: dict[str, object] = {
        "status": DraftStatus.MODIFIED if is_marked else status,
        "snapshot_id": manifest.added_snapshot_id,
        "sequence_number": manifest.sequence_number,
        "file_sequence_number": manifest.sequence_number,
        "dv_snapshot_id": snapshot_id if is_marked else None,
        "first_row_id": manifest.first_row_id,
        "content": Content.DATA_MANIFEST if is_data else Content.DELETE_MANIFEST,
        "format_version": 4,
        "location": form.stored(leaf.location),
        "file_format": FileFormat.PARQUET,
        "record_count": leaf.rows.num_rows,
        "file_size_in_bytes": leaf.size_bytes,
        "dead_positions": _bitmap(marks.dead),
        "deleted_positions": _bitmap(marks.deleted),
        "replaced_positions": _bitmap(marks.replaced),
    }
    row |= dict(zip(COUNTS, [*_counted(leaf.rows), lowest], strict=True))
    made = pa.Table.from_pylist([row], schema=DRAFT_ROWS)
    made = made.append_column(PARTITION, pa.nulls(1, form.union.type))
    of_live = Entries(leaf.entries.table.filter(pa.array(leaf.alive)))
    return made.append_column(STATS, form.stats.total(of_live))


def _counted(rows: pa.Table) -> list[int]:
    """Return files, then rows in them, of each group of statuses."""
    masks = [
        pc.is_in(rows["status"], pa.array(list(map(int, statuses)), pa.int8()))
        for statuses in _COUNTED
    ]
    files = [int(pc.sum(mask, min_count=0).as_py() or 0) for mask in masks]
    counts = [
        int(pc.sum(rows["record_count"].filter(mask), min_count=0).as_py() or 0) for mask in masks
    ]
    return files + counts


def _bitmap(positions: Positions) -> bytes | None:
    return write_mumbling(positions) if len(positions) else None
