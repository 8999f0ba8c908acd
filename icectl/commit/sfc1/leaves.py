"""New files of a version 4 commit beside its root: leaves, and delete vectors too large for it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icectl.codec.dv import dv_blob, write_bitmap
from icectl.codec.puffin import read_puffin, write_puffin
from icectl.codec.sfc1.content_stats import aggregate
from icectl.codec.sfc1.manifest import TreeContent, write_tree
from icectl.entries.sfc1.rows import LEAF_MAX_ENTRIES, STATS
from icectl.spec.manifest import Content, FileFormat, Status
from icectl.table.sfc1.live import Positions
from icectl.table.sfc1.manifests import TreeFacts


@dataclass(frozen=True, slots=True)
class NewFile:
    """A file that must be there before the commit is."""

    location: str
    content: bytes


@dataclass(frozen=True, slots=True)
class LeafForm:
    """How leaves are cut, and where they go: `new_leaf` gives a location."""

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
    """Rows in pieces of about the target size, each as it is stored; nothing of no rows."""
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
    counts = dict.fromkeys(("added", "existing", "deleted"), 0)
    records = dict(counts)
    kind = "added" if status is Status.ADDED else "existing"
    counts[kind], records[kind] = len(rows), pc.sum(rows["record_count"]).as_py()
    numbers = pc.fill_null(rows["sequence_number"], sequence_number)
    is_data = content is TreeContent.DATA
    location = form.new_leaf()
    row = {
        "content": Content.DATA_MANIFEST if is_data else Content.DELETE_MANIFEST,
        "location": location,
        "file_format": FileFormat.PARQUET,
        "status": status,
        # sfc-1 EN12
        "spec_id": specs[0] if len(specs) == 1 else form.facts.metadata.default_spec_id,
        "record_count": len(rows),
        "file_size_in_bytes": len(encoded),
        **{f"{name}_files_count": count for name, count in counts.items()},
        **{f"{name}_rows_count": count for name, count in records.items()},
        "min_sequence_number": pc.min(numbers).as_py(),
    }
    stats = aggregate(
        rows[STATS].combine_chunks(), form.facts.columns, rows["record_count"].combine_chunks()
    )
    return NewLeaf(NewFile(location, encoded), _row(form.facts, row, stats), rows)


def _row(facts: TreeFacts, values: Mapping[str, object], stats: pa.Array | None = None) -> pa.Table:
    """One row of a root."""
    schema = facts.rows_schema
    columns = [
        pa.array([values.get(field.name)], field.type) for field in schema if field.name != STATS
    ]
    columns.append(pa.nulls(1, schema.field(STATS).type) if stats is None else stats)
    return pa.table(columns, schema=schema)


@dataclass(frozen=True, slots=True)
class NewVector:
    """All dead positions of a leaf, whose row in the root is `leaf`."""

    leaf: Mapping[str, object]
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
    files, places = _puffin(facts, vectors, sorted(outside), new_puffin)
    rows = [facts.empty()]
    for at, (vector, bitmap) in enumerate(zip(vectors, bitmaps, strict=True)):
        held = places[at] if at in outside else {"inline_content": bitmap}
        rows.append(
            _row(
                facts,
                {
                    "content": Content.MANIFEST_DV,
                    "file_format": FileFormat.PUFFIN,
                    "status": Status.ADDED,
                    "spec_id": vector.leaf["spec_id"],
                    "record_count": len(vector.positions),
                    "referenced_file": vector.leaf["location"],
                    **held,
                },
            )
        )
    return pa.concat_tables(rows), files


def _puffin(
    facts: TreeFacts,
    vectors: Sequence[NewVector],
    chosen: Sequence[int],
    new_puffin: Callable[[], str],
) -> tuple[list[NewFile], dict[int, dict[str, object]]]:
    if not chosen:
        return [], {}
    leaves = [facts.stored_location(str(vectors[at].leaf["location"])) for at in chosen]
    blobs = [dv_blob(vectors[at].positions, leaf) for at, leaf in zip(chosen, leaves, strict=True)]
    content = write_puffin(blobs, {})
    location = new_puffin()
    places = {
        at: {
            "location": location,
            "content_offset": blob.offset,
            "content_size_in_bytes": blob.length,
            "file_size_in_bytes": len(content),
        }
        for at, blob in zip(chosen, read_puffin(content).blobs, strict=True)
    }
    return [NewFile(location, content)], places
