"""New files of a version 4 commit beside its root: leaves, and delete vectors too large for it."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icectl.entries.columns import Positions
from icectl.files.deletion_vectors import dv_blob, write_bitmap
from icectl.files.puffin import read_puffin, write_puffin
from icectl.format.manifest import Content, FileFormat, Status
from icectl.sfc1.content_stats import aggregate
from icectl.sfc1.manifest_file import TreeContent, write_tree
from icectl.sfc1.manifests import TreeFacts
from icectl.sfc1.rows import LEAF_MAX_ENTRIES, STATS, ListedRow


@dataclass(frozen=True, slots=True)
class NewFile:
    """A file that must be there before the commit is."""

    location: str
    content: bytes


@dataclass(frozen=True, slots=True)
class LeafForm:
    """The form in which leaves are cut, and where they go: `new_leaf` gives a location."""

    facts: TreeFacts
    target_size_bytes: int
    max_entries: int
    new_leaf: Callable[[], str]


@dataclass(frozen=True, slots=True)
class NewLeaf:
    """A leaf and its row in the root, whose snapshot and sequence number are null so far."""

    file: NewFile
    row: pa.Table
    rows: pa.Table


def write_leaves(
    form: LeafForm, rows: pa.Table, content: TreeContent, status: Status, sequence_number: int
) -> list[NewLeaf]:
    """Leaves of rows that have one status all: pure-ADDED or pure-EXISTING (sfc-1 4.3).

    `sequence_number` is what rows without one will inherit.
    Order: kept, over all leaves.
    """
    return [
        _leaf(form, part, content, status, sequence_number, encoded)
        for part, encoded in _parts(form, rows, content)
    ]


def _parts(
    form: LeafForm, rows: pa.Table, content: TreeContent
) -> Iterator[tuple[pa.Table, bytes]]:
    """Yield rows in pieces of about the target size, each as it is stored; nothing of no rows."""
    limit = min(form.max_entries, LEAF_MAX_ENTRIES)
    for start in range(0, len(rows), limit):
        part = rows.slice(start, limit)
        encoded = write_tree(form.facts.stored(part), content)
        count = min(-(-len(encoded) // form.target_size_bytes), len(part))
        if count <= 1:
            yield part, encoded
            continue
        edges = np.linspace(0, len(part), count + 1).astype(int)
        for first, end in pairwise(edges.tolist()):
            piece = part.slice(first, end - first)
            yield piece, write_tree(form.facts.stored(piece), content)


def _leaf(
    form: LeafForm,
    rows: pa.Table,
    content: TreeContent,
    status: Status,
    sequence_number: int,
    encoded: bytes,
) -> NewLeaf:
    specs = rows["spec_id"].unique().to_pylist()
    numbers = pc.fill_null(rows["sequence_number"], sequence_number)
    is_data, is_added = content is TreeContent.DATA, status is Status.ADDED
    record_count = pc.sum(rows["record_count"]).as_py()
    location = form.new_leaf()
    row = ListedRow(
        content=Content.DATA_MANIFEST if is_data else Content.DELETE_MANIFEST,
        location=location,
        file_format=FileFormat.PARQUET,
        status=status,
        # sfc-1 EN12
        spec_id=specs[0] if len(specs) == 1 else form.facts.metadata.default_spec_id,
        record_count=len(rows),
        file_size_in_bytes=len(encoded),
        added_files_count=len(rows) if is_added else 0,
        existing_files_count=0 if is_added else len(rows),
        deleted_files_count=0,
        added_rows_count=record_count if is_added else 0,
        existing_rows_count=0 if is_added else record_count,
        deleted_rows_count=0,
        min_sequence_number=pc.min(numbers).as_py(),
    )
    stats = aggregate(
        rows[STATS].combine_chunks(), form.facts.columns, rows["record_count"].combine_chunks()
    )
    return NewLeaf(NewFile(location, encoded), form.facts.row(row, stats), rows)


@dataclass(frozen=True, slots=True)
class NewVector:
    """All dead positions of a leaf, whose row in the root is `leaf`."""

    leaf: ListedRow
    positions: Positions


def vector_rows(
    facts: TreeFacts,
    vectors: Sequence[NewVector],
    *,
    inline_max_bytes: int,
    inline_bytes_left: int,
    new_puffin: Callable[[], str],
) -> tuple[pa.Table, list[NewFile]]:
    """ADDED rows of manifest delete vectors, and the Puffin file of large ones (sfc-1 6.3).

    `inline_bytes_left` is how many bytes of bitmaps the root has room for.
    Order: kept.
    """
    bitmaps = [write_bitmap(vector.positions) for vector in vectors]
    outside = {at for at, bitmap in enumerate(bitmaps) if len(bitmap) > inline_max_bytes}
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
            spec_id=vector.leaf.spec_id,
            record_count=len(vector.positions),
            referenced_file=vector.leaf.location,
            inline_content=bitmap,
        )
        for vector, bitmap in zip(vectors, bitmaps, strict=True)
    ]
    files = _move_out(facts, vectors, rows, sorted(outside), new_puffin) if outside else []
    return pa.concat_tables([facts.empty(), *map(facts.row, rows)]), files


def _move_out(
    facts: TreeFacts,
    vectors: Sequence[NewVector],
    rows: list[ListedRow],
    chosen: Sequence[int],
    new_puffin: Callable[[], str],
) -> list[NewFile]:
    """Put the bitmaps of chosen rows into a Puffin file."""
    leaves = [facts.stored_location(vectors[at].leaf.name) for at in chosen]
    blobs = [dv_blob(vectors[at].positions, leaf) for at, leaf in zip(chosen, leaves, strict=True)]
    content = write_puffin(blobs, {})
    location = new_puffin()
    for at, blob in zip(chosen, read_puffin(content).blobs, strict=True):
        rows[at] = replace(
            rows[at],
            inline_content=None,
            location=location,
            content_offset=blob.offset,
            content_size_in_bytes=blob.length,
            file_size_in_bytes=len(content),
        )
    return [NewFile(location, content)]
