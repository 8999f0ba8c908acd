"""Moving live entries from one manifest into others.

They move as bytes where their files are stored alike, else decoded and encoded again.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from icectl.entries.columns import Integers, replace_column
from icectl.entries.locations import with_whole_locations
from icectl.entries.partition_key import decode_key
from icectl.entries.rows import ALL_COLUMNS, Entries, RawEntries, format_names, numbers
from icectl.errors import Unsupported
from icectl.files import compiled
from icectl.files.avro import scan as avro_scan
from icectl.files.avro.container import (
    AvroFile,
    Block,
    read_blocks,
    read_header,
    write_block,
    write_header,
)
from icectl.files.avro.schema import SCHEMAS, AvroType
from icectl.files.manifest.layout import ManifestLayout, stored_layout
from icectl.files.manifest.manifest import read_manifest
from icectl.files.manifest.parquet import write_parquet
from icectl.files.manifest.scan import ColumnPlaces, EntryCompiler, Scanner
from icectl.files.manifest.schema import PARQUET_MAGIC, check_known
from icectl.files.manifest.write import BLOCK_BYTES, ManifestForm, encode_entries
from icectl.files.parquet.schema import arrow_values
from icectl.format.manifest import FileFormat
from icectl.format.types import NestedField

Moved = tuple[int, memoryview, Integers]
"""A piece's number, encoded entries for it, and where each of them ends."""


STATED = ("status", "snapshot_id", "sequence_number", "file_sequence_number", "first_row_id")
"""Columns of an entry that may change when it moves to another manifest (R-042, R-043, R-103)."""
_PIECES = ("file_start", "row_id_start", "row_id_end", "file_end")
"""Positions in a block: the record of the file, and the first row id inside it."""
_PLACES = ColumnPlaces([*_PIECES], [], [], [], [], [])
_LONGEST_NUMBER = 11
"""Bytes of a number and its union branch."""


@lru_cache(SCHEMAS)
def can_carry(source: ManifestLayout, target: ManifestLayout) -> bool:
    """Return whether the records of files in one manifest are, byte for byte, records of the other.

    Names and documentation may differ, field ids may not (R-008).
    """
    return bool(_shape(source.data_file) == _shape(target.data_file))


def _shape(type_: AvroType) -> Any:
    return (
        type_.kind,
        type_.logical,
        type_.size,
        type_.symbols,
        tuple((field.field_id, _shape(field.type)) for field in type_.fields),
        tuple(map(_shape, type_.parts)),
    )


def move_entries(
    content: bytes, entries: Entries, pieces: Integers, form: ManifestForm
) -> Iterator[Moved]:
    """Encode entries of a manifest as ones of other manifests (R-043, R-069).

    `entries` are some of the manifest's own, inherited, in its order, with the status that they
    get; `pieces` numbers the piece that each goes to. Entries of a piece keep their order.
    Raises: Unsupported for stored fields that would be lost; CorruptTable.
    """
    if content.startswith(PARQUET_MAGIC):
        yield from _encoded(content, entries, pieces, form)
        return
    file = read_header(content)
    source, target = stored_layout(file), form.column_positions
    check_known(source.unknown_field_ids)
    if can_carry(source, target) and compiled.loops() is not None:
        yield from _carried(file, source, target, entries, pieces)
    else:
        yield from _encoded(content, entries, pieces, form)


def _carried(
    file: AvroFile,
    source: ManifestLayout,
    target: ManifestLayout,
    entries: Entries,
    pieces: Integers,
) -> Iterator[Moved]:
    """Yield the entries as bytes, those of some blocks at a time.

    Raises: CorruptTable R-008; UnusualSchemaError, before anything is read.
    """
    program, scanner = _splice_program(target), Scanner(_piece_program(source), _PLACES)
    positions, first = numbers(entries, "manifest_pos"), 0
    for room, row_count in scanner.scan(read_blocks(file)):
        start, stop = np.searchsorted(positions, [first, first + row_count])
        order = start + np.argsort(pieces[start:stop], kind="stable")
        if len(order):
            spans = np.ascontiguousarray(room.numbers[:, positions[order] - first])
            size = int((spans[3] - spans[0]).sum()) + len(order) * _LONGEST_NUMBER * len(STATED)
            output, row_ends = np.empty(size, np.uint8), np.empty(len(order), np.int64)
            used = avro_scan.splice(
                scanner.buffer,
                program,
                spans,
                np.stack([_values(entries, name, order) for name in STATED]),
                np.stack([_valid(entries, name, order) for name in STATED]),
                output,
                row_ends,
            )
            yield from _by_piece(output[:used].data, row_ends, pieces[order])
        first += row_count


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
    header, stored = read_manifest(content, columns=ALL_COLUMNS, manifest=0, spec=form.spec)
    check_known(header.unknown_field_ids)
    order = np.argsort(pieces, kind="stable")
    if header.file_format is FileFormat.PARQUET:
        stored = RawEntries(with_whole_locations(form.table_location, "", stored.table))
    table = stored.table.take(pa.array(numbers(entries, "manifest_pos")[order]))
    for name in STATED:
        values = pa.array(_values(entries, name, order), mask=_valid(entries, name, order) == 0)
        table = replace_column(table, name, values.cast(table.schema.field(name).type))
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


@lru_cache(SCHEMAS)
def _piece_program(layout: ManifestLayout) -> Integers:
    compiler = _PieceCompiler(layout, _PLACES)
    compiler.compile()
    return np.array(compiler.steps, np.int64)


class _PieceCompiler(EntryCompiler):
    """A compiler that notes where the record of the file, and its first row id, begin and end."""

    def compile(self) -> None:
        """Compile the entry: skip it, and note the places of the file and of its row id."""
        for at, item in enumerate(self._layout.schema.fields):
            if at != self._layout.data_file_position:
                self.skip(item.type)
                continue
            row_id = self._layout.columns.get("first_row_id")
            self._note("file_start")
            for place, part in enumerate(self._layout.data_file.fields):
                if row_id is not None and place == row_id.position:
                    self._note("row_id_start")
                    self.skip(part.type)
                    self._note("row_id_end")
                else:
                    self.skip(part.type)
            self._note("file_end")

    def _note(self, piece: str) -> None:
        at = _PIECES.index(piece)
        self.add(avro_scan.POSITION, at, 0, 0, at)


@lru_cache(SCHEMAS)
def _splice_program(layout: ManifestLayout) -> Integers:
    steps: list[tuple[int, int, int]] = []
    by_position = {
        column.position: name
        for name, column in layout.columns.items()
        if name in STATED and not column.in_data_file
    }
    for at, item in enumerate(layout.schema.fields):
        if at != layout.data_file_position:
            null = item.type.null_branch
            steps.append(
                (avro_scan.NUMBER, STATED.index(by_position[at]), -1 if null is None else null)
            )
            continue
        row_id = layout.columns.get("first_row_id")
        if row_id is None:
            steps.append((avro_scan.RAW, 0, 3))
            continue
        null = row_id.type.null_branch
        steps += [
            (avro_scan.RAW, 0, 1),
            (avro_scan.NUMBER, STATED.index("first_row_id"), -1 if null is None else null),
            (avro_scan.RAW, 2, 3),
        ]
    return np.array(steps, np.int64)


@dataclass(slots=True)
class _Piece:
    """Entries that wait for their block to be full, and where the full blocks lie."""

    waiting: bytearray = field(default_factory=bytearray)
    waiting_count: int = 0
    blocks: list[tuple[int, int]] = field(default_factory=list)


class PieceWriter:
    """A collector of encoded entries by piece; `spool` is a file of its own, open for both ways."""

    def __init__(
        self, form: ManifestForm, spool: IO[bytes], *, codec: str, sync_marker: bytes
    ) -> None:
        self._form = form
        self._spool = spool
        self._codec = codec
        self._sync_marker = sync_marker
        self._pieces: dict[int, _Piece] = defaultdict(_Piece)
        self._end = 0

    def add(self, number: int, encoded: memoryview, row_ends: Integers) -> None:
        """Append entries to a piece; row_ends says where each of them ends."""
        piece = self._pieces[number]
        start = first = 0
        while len(piece.waiting) + len(encoded) - start >= BLOCK_BYTES:
            room = BLOCK_BYTES - len(piece.waiting)
            last = int(np.searchsorted(row_ends, start + room))
            if last == len(row_ends):
                break
            end = int(row_ends[last])
            piece.waiting += encoded[start:end]
            piece.waiting_count += last + 1 - first
            self._flush(piece)
            start, first = end, last + 1
        piece.waiting += encoded[start:]
        piece.waiting_count += len(row_ends) - first

    def _flush(self, piece: _Piece) -> None:
        if not piece.waiting_count:
            return
        block = Block(piece.waiting_count, bytes(piece.waiting))
        stored = write_block(block, codec=self._codec, sync_marker=self._sync_marker)
        self._spool.seek(self._end)
        self._spool.write(stored)
        piece.blocks.append((self._end, len(stored)))
        self._end += len(stored)
        piece.waiting, piece.waiting_count = bytearray(), 0

    def sizes(self) -> dict[int, int]:
        """Return the stored bytes of each piece, in order; nothing is added after it."""
        for piece in self._pieces.values():
            self._flush(piece)
        return {
            number: sum(length for _, length in self._pieces[number].blocks)
            for number in sorted(self._pieces)
        }

    def manifest(self, numbers: Sequence[int]) -> bytes:
        """Return a manifest of some pieces, one after the other."""
        parts = [
            write_header(
                self._form.avro_schema,
                self._form.properties,
                codec=self._codec,
                sync_marker=self._sync_marker,
            )
        ]
        for number in numbers:
            for at, length in self._pieces[number].blocks:
                self._spool.seek(at)
                parts.append(self._spool.read(length))
        return b"".join(parts)


def in_file_format(content: bytes, form: ManifestForm) -> bytes:
    """Return a manifest, written in Avro, in the file format of its form.

    Raises: Unsupported, for a partition field whose type is not known.
    """
    if form.file_format is FileFormat.AVRO:
        return content
    _, entries = read_manifest(content, columns=ALL_COLUMNS, manifest=0, spec=form.spec)
    table = with_whole_locations(form.table_location, "", entries.table)
    at = table.schema.get_field_index("file_format")
    table = table.set_column(at, "file_format", format_names(table["file_format"]))
    fields = []
    for item, type_ in zip(form.spec.fields, form.types, strict=True):
        if type_ is None:
            message = f"partition field `{item.name}` has a type that Parquet manifests do not have"
            raise Unsupported(message)
        fields.append(NestedField(item.field_id, item.name, type_, required=False))
    partitions = None
    if fields:
        encoded = table["partition_key"].combine_chunks().dictionary_encode()
        types = [item.type for item in fields]
        tuples = [decode_key(key, types) for key in encoded.dictionary.to_pylist()]
        columns = [
            arrow_values(type_, [values[at] for values in tuples]) for at, type_ in enumerate(types)
        ]
        distinct = pa.StructArray.from_arrays(columns, [item.name for item in fields])
        partitions = distinct.take(encoded.indices)
    table = table.rename_columns({"location": "file_path"})
    return write_parquet(table, partitions, partition=fields, properties=form.properties)
