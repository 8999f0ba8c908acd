"""Moving live entries from one manifest into others: as bytes where their files are stored alike,
else decoded and encoded anew."""

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from icectl.codec import compiled
from icectl.codec.avro.container import read_header
from icectl.codec.manifest.carry import STATED, CarriedEntries, Restated, can_carry, carry
from icectl.codec.manifest.fixed_partitions import stored_layout
from icectl.codec.manifest.manifest import read_manifest
from icectl.codec.manifest.parquet import MAGIC
from icectl.codec.manifest.write import ManifestForm, encode_entries
from icectl.entries.columns.values import Integers
from icectl.entries.rows import Entries, RawEntries, numbers
from icectl.entries.schema import ALL_COLUMNS
from icectl.entries.schemes import with_whole_locations
from icectl.errors import Unsupported
from icectl.spec.manifest import FileFormat

Moved = tuple[int, memoryview, Integers]
"""A piece's number, encoded entries for it, and where each of them ends."""


def move_entries(
    content: bytes, entries: Entries, pieces: Integers, form: ManifestForm
) -> Iterator[Moved]:
    """Encode entries of a manifest as ones of other manifests (R-043, R-069).

    `entries` are some of the manifest's own, inherited, in its order, with the status that they
    get; `pieces` numbers the piece that each goes to. Entries of a piece keep their order.
    Raises: Unsupported for stored fields that would be lost; CorruptTable.
    """
    if content[: len(MAGIC)] == MAGIC:
        yield from _encoded(content, entries, pieces, form)
        return
    file = read_header(content)
    source, target = stored_layout(file), form.layout
    _check_known(source.unknown_field_ids)
    if can_carry(source, target) and compiled.loops() is not None:
        for batch in carry(file, source, target):
            yield from _carried(batch, entries, pieces)
    else:
        yield from _encoded(content, entries, pieces, form)


def _check_known(unknown_field_ids: Sequence[int]) -> None:
    """Raises: Unsupported, for stored fields that would be lost."""
    if unknown_field_ids:
        ids = ", ".join(map(str, unknown_field_ids))
        raise Unsupported(f"the manifest has fields that a rewrite would lose (ids {ids})")


def _carried(batch: CarriedEntries, entries: Entries, pieces: Integers) -> Iterator[Moved]:
    """The entries that lie in one batch."""
    positions = numbers(entries, "manifest_pos")
    start, stop = np.searchsorted(positions, [batch.first, batch.first + batch.count])
    order = start + np.argsort(pieces[start:stop], kind="stable")
    if len(order):
        restated = Restated(
            {name: _values(entries, name, order) for name in STATED},
            {name: _valid(entries, name, order) for name in STATED},
        )
        encoded, row_ends = batch.encode(positions[order] - batch.first, restated)
        yield from _by_piece(encoded.data, row_ends, pieces[order])


def _values(entries: Entries, name: str, order: Integers) -> Integers:
    column = entries.table[name]
    filled = pc.fill_null(column, 0) if column.null_count else column
    return np.asarray(filled.to_numpy(), np.int64)[order]


def _valid(entries: Entries, name: str, order: Integers) -> npt.NDArray[np.uint8]:
    column = entries.table[name]
    if not column.null_count:
        return np.ones(len(order), np.uint8)
    return np.asarray(column.is_valid().to_numpy(), np.uint8)[order]


def _encoded(
    content: bytes, entries: Entries, pieces: Integers, form: ManifestForm
) -> Iterator[Moved]:
    """All entries, decoded and encoded."""
    header, stored = read_manifest(content, columns=ALL_COLUMNS, manifest=0, spec=form.spec)
    _check_known(header.unknown_field_ids)
    order = np.argsort(pieces, kind="stable")
    if header.file_format is FileFormat.PARQUET:
        stored = RawEntries(with_whole_locations(form.table_location, stored.table))
    table = stored.table.take(pa.array(numbers(entries, "manifest_pos")[order]))
    for name in STATED:
        at, field = table.schema.get_field_index(name), table.schema.field(name)
        values = pa.array(_values(entries, name, order), mask=_valid(entries, name, order) == 0)
        table = table.set_column(at, field, values.cast(field.type))
    sorted_pieces, done = pieces[order], 0
    for encoded, row_ends in encode_entries(RawEntries(table), form):
        count = len(row_ends)
        yield from _by_piece(memoryview(encoded), row_ends, sorted_pieces[done : done + count])
        done += count


def _by_piece(encoded: memoryview, row_ends: Integers, pieces: Integers) -> Iterator[Moved]:
    """Cut encoded entries where their piece changes."""
    cuts = np.flatnonzero(np.diff(pieces)) + 1
    start = first = 0
    for last in [*cuts.tolist(), len(pieces)]:
        end = int(row_ends[last - 1])
        yield int(pieces[first]), encoded[start:end], row_ends[first:last] - start
        start, first = end, last
