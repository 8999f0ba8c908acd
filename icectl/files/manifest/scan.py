"""Manifest entries through the compiled scan."""

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from icectl.errors import CorruptTable
from icectl.files import compiled
from icectl.files.avro import scan as avro_scan
from icectl.files.avro.container import Block, decode_records
from icectl.files.avro.schema import SCHEMAS, AvroType, damaged
from icectl.files.manifest.layout import ManifestLayout, StoredColumn, metrics_positions
from icectl.files.manifest.records import Order, decoded_type, partition_keys

_BATCH_BYTES = 4 * 2**20
_BUFFER_BYTES = 2**20
_ROWS = 8192
_ITEMS = 2**18
_SHAPES = {"int": "n", "long": "n", "bytes": "t", "string": "t"}


class UnusualSchemaError(Exception):
    """The scan does not know a type in the schema, or is not there; fastavro does, and is."""


@dataclass(frozen=True, slots=True)
class ColumnPlaces:
    """The rows of the scan's arrays that each column has."""

    numbers: list[str]
    texts: list[str]
    lists: list[str]
    keys: list[str]
    """Metrics maps: their keys are 32-bit."""
    items: list[str]
    """Lists and maps of numbers."""
    item_texts: list[str]
    """Maps of bytes."""

    @property
    def columns(self) -> list[str]:
        """Names in the order of their validity."""
        return [*self.numbers, *self.texts, *self.lists]


def scan_columns(
    layout: ManifestLayout, parts: Sequence[Iterable[Block]], columns: Sequence[str], order: Order
) -> dict[str, pa.ChunkedArray]:
    """Decode the stored columns named, and `partition_key`, to arrays.

    Each part has a thread of its own.
    Shape: as decode_columns of all parts; a chunk every few thousand rows.
    Raises: CorruptTable R-008; UnusualSchemaError, before anything is read.
    """
    if compiled.loops() is None:
        raise UnusualSchemaError
    program, places = _program(layout, tuple(columns))
    keys = _PartitionKeys(layout.partition, order)

    def scanned(blocks: Iterable[Block]) -> list[dict[str, pa.Array]]:
        with _LAST.scanner(program, places) as scanner:
            return [
                {name: room.column(name, row_count) for name in columns}
                for room, row_count in scanner.scan(blocks)
            ]

    if len(parts) == 1:
        decoded = scanned(parts[0])
    else:
        with ThreadPoolExecutor(len(parts), "icectl-scan") as pool:
            decoded = list(chain.from_iterable(pool.map(scanned, parts)))
    if "partition_key" in columns:
        for chunk in decoded:
            chunk["partition_key"] = keys.of(chunk["partition_key"])
    return {
        name: pa.chunked_array([chunk[name] for chunk in decoded], decoded_type(name))
        for name in columns
    }


class Compiler:
    """A compiler of a writer schema into instructions of the scan, `steps`."""

    def __init__(self, places: ColumnPlaces) -> None:
        self._places = places
        self._valid = {name: at for at, name in enumerate(places.columns)}
        self.steps: list[list[int]] = []

    def add(self, op: int, *operands: int) -> int:
        """Add an instruction, and return its place."""
        self.steps.append([op, *operands, *[0] * (4 - len(operands))])
        return len(self.steps) - 1

    def _optional(self, type_: AvroType, column: StoredColumn | None) -> None:
        """A value, or null of a union with null; without a column it is stepped over."""
        if type_.null_branch is None:
            self._present(type_, column)
            return
        at = self.add(avro_scan.OPTIONAL, type_.null_branch)
        self._present(type_.present, column)
        self.steps[at][2] = len(self.steps)

    def _present(self, type_: AvroType, column: StoredColumn | None) -> None:
        if column is None:
            self._skip_present(type_)
            return
        places, name = self._places, column.name
        valid = self._valid[name]
        if name in places.numbers:
            self.add(avro_scan.NUMBER, places.numbers.index(name), 0, 0, valid)
            return
        if name in places.texts:
            self.add(avro_scan.BYTES, places.texts.index(name), 0, 0, valid)
            return
        target = places.lists.index(name)
        if name not in places.keys:
            self.add(avro_scan.NUMBERS, target, 0, places.items.index(name), valid)
            return
        if type_.kind != "array" or metrics_positions(name, type_.parts[0]) != (0, 1):
            raise UnusualSchemaError(name)
        key = places.keys.index(name)
        if name in places.item_texts:
            self.add(avro_scan.BYTES_PAIRS, target, key, places.item_texts.index(name), valid)
        else:
            self.add(avro_scan.NUMBER_PAIRS, target, key, places.items.index(name), valid)

    def skip(self, type_: AvroType) -> None:
        self._optional(type_, None)

    def _skip_present(self, type_: AvroType) -> None:
        sizes = {"boolean": 1, "float": 4, "double": 8, "fixed": type_.size, "null": 0}
        if type_.kind in ("int", "long", "enum"):
            self.add(avro_scan.SKIP_NUMBER)
        elif type_.kind in ("bytes", "string"):
            self.add(avro_scan.SKIP_BYTES)
        elif type_.kind in sizes:
            self.add(avro_scan.SKIP_FIXED, sizes[type_.kind])
        elif type_.kind == "record":
            for part in type_.fields:
                self.skip(part.type)
        elif type_.kind in ("array", "map"):
            self._skip_items(type_)
        else:
            raise UnusualSchemaError(type_.kind)

    def _skip_items(self, type_: AvroType) -> None:
        item = type_.parts[0]
        kinds = [part.type.kind for part in item.fields] if item.kind == "record" else [item.kind]
        if type_.kind == "map":
            kinds = ["string", item.kind]
        shape = "".join(_SHAPES.get(kind, "?") for kind in kinds)
        simple = {
            "n": avro_scan.SKIP_NUMBERS,
            "nn": avro_scan.SKIP_NUMBER_PAIRS,
            "nt": avro_scan.SKIP_BYTES_PAIRS,
        }
        if shape in simple:
            self.add(simple[shape])
            return
        start = self.add(avro_scan.ARRAY)
        if type_.kind == "map":
            self.add(avro_scan.SKIP_BYTES)
        self.skip(item)
        self.steps[start][1] = self.add(avro_scan.ARRAY_END, start) + 1


class EntryCompiler(Compiler):
    """A compiler of the entry of a manifest: `compile` adds its instructions to `steps`."""

    def __init__(self, layout: ManifestLayout, places: ColumnPlaces) -> None:
        super().__init__(places)
        self._layout = layout

    def compile(self) -> None:
        layout = self._layout
        wanted = {name: layout.columns[name] for name in self._valid if name in layout.columns}
        in_entry = {
            column.position: column for column in wanted.values() if not column.in_data_file
        }
        in_file = {column.position: column for column in wanted.values() if column.in_data_file}
        for at, entry_field in enumerate(layout.schema.fields):
            if at == layout.data_file_position:
                self._data_file(in_file)
            elif at in in_entry:
                self._optional(entry_field.type, in_entry[at])
            else:
                self.skip(entry_field.type)

    def _data_file(self, columns: Mapping[int, StoredColumn]) -> None:
        for at, file_field in enumerate(self._layout.data_file.fields):
            if at == self._layout.partition_position and "partition_key" in self._valid:
                self.add(avro_scan.SPAN_START)
                self.skip(file_field.type)
                sink = self._places.texts.index("partition_key")
                self.add(avro_scan.SPAN_END, sink, 0, 0, self._valid["partition_key"])
            elif at in columns:
                self._optional(file_field.type, columns[at])
            else:
                self.skip(file_field.type)


@lru_cache(SCHEMAS)
def _program(
    layout: ManifestLayout, columns: tuple[str, ...]
) -> tuple[npt.NDArray[np.int64], ColumnPlaces]:
    types = {name: decoded_type(name) for name in columns}
    maps = [name for name in columns if pa.types.is_map(types[name])]
    bytes_maps = [name for name in maps if pa.types.is_binary(types[name].item_type)]
    lists = [name for name in columns if pa.types.is_list(types[name])]
    numbers = [name for name in columns if pa.types.is_integer(types[name])]
    texts = [name for name in columns if name not in {*numbers, *maps, *lists}]
    items = [*lists, *(name for name in maps if name not in bytes_maps)]
    places = ColumnPlaces(numbers, texts, [*lists, *maps], maps, items, bytes_maps)
    compiler = EntryCompiler(layout, places)
    compiler.compile()
    return np.array(compiler.steps, np.int64), places


class Scanner:
    """One program over blocks, some MiB at a time, in arrays that are used again: new ones cost
    more time in page faults than the scan itself. `buffer` holds the blocks being scanned.

    Raises: UnusualSchemaError, where the loops were not built.
    """

    def __init__(self, program: npt.NDArray[np.int64], places: ColumnPlaces) -> None:
        if compiled.loops() is None:
            raise UnusualSchemaError
        self._program = program
        self._places = places
        self._room: _Room | None = None
        self.buffer = np.empty(0, np.uint8)

    def scan(self, blocks: Iterable[Block]) -> Iterator[tuple["_Room", int]]:
        """Scan blocks in steps of as many rows as there is room for; each step overwrites it."""
        for bounds in self._filled(blocks):
            yield from self._scan(bounds)

    def _filled(self, blocks: Iterable[Block]) -> Iterator[npt.NDArray[np.int64]]:
        """Fill the buffer while blocks are in the cache: where each ends, and its records."""
        bounds: list[tuple[int, int]] = []
        end = 0
        for block in blocks:
            start, end = end, end + len(block.content)
            if len(self.buffer) < end:
                grown = np.empty(max(end, 2 * len(self.buffer), _BUFFER_BYTES), np.uint8)
                grown[:start] = self.buffer[:start]
                self.buffer = grown
            self.buffer[start:end] = np.frombuffer(block.content, np.uint8)
            bounds.append((end, block.record_count))
            if end >= _BATCH_BYTES:
                yield np.array(bounds, np.int64)
                bounds, end = [], 0
        if bounds:
            yield np.array(bounds, np.int64)

    def _scan(self, bounds: npt.NDArray[np.int64]) -> Iterator[tuple["_Room", int]]:
        left, size = int(bounds[:, 1].sum()), int(bounds[-1, 0])
        state = np.zeros(3, np.int64)
        needed = (min(left, _ROWS), min(size, _ITEMS), min(size, _BATCH_BYTES))
        room = self._room
        if room is None or any(have < need for have, need in zip(room.sizes, needed, strict=True)):
            room = _Room(self._places, *needed)
        while left:
            done = avro_scan.scan(self.buffer, bounds, self._program, state, *room.arrays())
            if done == avro_scan.DAMAGED:
                raise damaged("a record cannot be decoded")
            if done == avro_scan.FULL:
                room = room.doubled()
                continue
            yield room, done
            left -= done
        self._room = room


class _Last(threading.local):
    """The scanner that a thread has used last: its arrays serve the next manifests."""

    def __init__(self) -> None:
        self._program: npt.NDArray[np.int64] | None = None
        self._scanner: Scanner | None = None

    @contextmanager
    def scanner(self, program: npt.NDArray[np.int64], places: ColumnPlaces) -> Iterator[Scanner]:
        """One for a program, which no other program uses inside."""
        scanner = self._scanner if self._program is program else None
        self._scanner = None
        scanner = scanner or Scanner(program, places)
        yield scanner
        if len(scanner.buffer) <= 2 * _BATCH_BYTES:  # unless a block was very large
            self._program, self._scanner = program, scanner


_LAST = _Last()


class _Room:
    """The arrays that one call of the scan fills."""

    def __init__(self, places: ColumnPlaces, rows: int, items: int, text_bytes: int) -> None:
        self._places = places
        self.sizes = (rows, items, text_bytes)
        texts, item_texts = len(places.texts), len(places.item_texts)
        self.valid = np.empty((len(places.columns), rows), np.uint8)
        self.numbers = np.empty((len(places.numbers), rows), np.int64)
        self.text_ends = np.empty((texts, rows), np.int32)
        self.list_ends = np.empty((len(places.lists), rows), np.int32)
        self.keys = np.empty((len(places.keys), items), np.int32)
        self.items = np.empty((len(places.items), items), np.int64)
        self.item_ends = np.empty((item_texts, items), np.int32)
        self.texts = np.empty((texts + item_texts, text_bytes), np.uint8)

    def arrays(self) -> tuple[npt.NDArray[Any], ...]:
        """Return all of them in the order of the scan's parameters."""
        return (
            self.valid, self.numbers, self.text_ends, self.list_ends, self.keys, self.items,
            self.item_ends, self.texts,
        )  # fmt: skip

    def doubled(self) -> "_Room":
        """More room for items and bytes: one record did not fit."""
        rows, items, text_bytes = self.sizes
        return _Room(self._places, rows, 2 * items, 2 * text_bytes)

    def column(self, name: str, row_count: int) -> pa.Array:
        """Return the first `row_count` values of a column, copied."""
        places, type_ = self._places, decoded_type(name)
        valid = self.valid[places.columns.index(name), :row_count]
        if name in places.numbers:
            values = self.numbers[places.numbers.index(name), :row_count]
            return _from_buffers(type_, valid, pa.py_buffer(values.tobytes()))
        if name in places.texts:
            at = places.texts.index(name)
            return self._text(type_, valid, self.text_ends[at, :row_count], self.texts[at])
        ends = self.list_ends[places.lists.index(name), :row_count]
        children = [self._children(name, type_, int(ends[-1]))]
        return _from_buffers(type_, valid, _offsets(ends), children=children)

    def _children(self, name: str, type_: pa.DataType, count: int) -> pa.Array:
        places = self._places
        if name in places.item_texts:
            at = places.item_texts.index(name)
            ends, texts = self.item_ends[at, :count], self.texts[len(places.texts) + at]
            values = self._text(type_.item_type, None, ends, texts)
        else:
            stored = self.items[places.items.index(name), :count]
            wanted = type_.item_type if pa.types.is_map(type_) else type_.value_type
            try:
                values = pa.array(stored.copy()).cast(wanted)
            except pa.ArrowInvalid as error:
                message = f"a value of {name} is out of range"
                raise CorruptTable(message, rule="R-063") from error
        if name not in places.keys:
            return values
        keys = pa.array(self.keys[places.keys.index(name), :count].copy())
        return pa.StructArray.from_arrays(
            [keys, values], fields=[type_.key_field, type_.item_field]
        )

    @staticmethod
    def _text(
        type_: pa.DataType,
        valid: npt.NDArray[np.uint8] | None,
        ends: npt.NDArray[np.int32],
        texts: npt.NDArray[np.uint8],
    ) -> pa.Array:
        used = int(ends[-1]) if len(ends) else 0
        array = _from_buffers(
            type_, valid, _offsets(ends), pa.py_buffer(texts[:used].tobytes()), length=len(ends)
        )
        if pa.types.is_string(type_):
            try:
                array.validate(full=True)
            except pa.ArrowInvalid as error:
                raise damaged("a string is not UTF-8") from error
        return array


def _offsets(ends: npt.NDArray[np.int32]) -> pa.Buffer:
    offsets = np.zeros(len(ends) + 1, np.int32)
    offsets[1:] = ends
    return pa.py_buffer(offsets)


def _from_buffers(
    type_: pa.DataType,
    valid: npt.NDArray[np.uint8] | None,
    *buffers: pa.Buffer,
    length: int | None = None,
    children: Sequence[pa.Array] | None = None,
) -> pa.Array:
    bitmap = None
    if valid is not None and not valid.all():
        bitmap = pa.py_buffer(np.packbits(valid, bitorder="little").tobytes())
    if length is None:
        assert valid is not None
        length = len(valid)
    return pa.Array.from_buffers(type_, length, [bitmap, *buffers], children=children)


class _PartitionKeys:
    """Canonical keys of stored partition records, each distinct record converted once."""

    def __init__(self, partition: AvroType, order: Order) -> None:
        self._partition = partition
        self._order = order
        self._known: dict[bytes, bytes] = {}

    def of(self, spans: pa.Array) -> pa.Array:
        if spans.null_count:  # the manifest has no partition
            spans = spans.fill_null(b"")
        encoded = spans.dictionary_encode()
        distinct = encoded.dictionary.to_pylist()
        new = [span for span in distinct if span not in self._known]
        records: list[Mapping[str, Any]] = [{} for _ in new]
        if self._partition.fields and new:
            rows = decode_records(self._partition, [Block(len(new), b"".join(new))])
            records = [{str(at): value for at, value in enumerate(row)} for row in rows]
        converted = partition_keys(self._partition, self._order, records)
        self._known.update(zip(new, converted, strict=True))
        keys = pa.array([self._known[span] for span in distinct], pa.binary())
        return keys.take(encoded.indices)


_END = ColumnPlaces(["end"], [], [], [], [], [])


def record_ends(schema: AvroType, block: Block) -> npt.NDArray[np.int64]:
    """Return where a block's records end. Raises: CorruptTable R-008; UnusualSchemaError."""
    scanner = Scanner(_end_program(schema), _END)
    return np.concatenate([room.numbers[0, :rows].copy() for room, rows in scanner.scan([block])])


@lru_cache(SCHEMAS)
def _end_program(schema: AvroType) -> npt.NDArray[np.int64]:
    """Skip each record, and note the place behind it."""
    compiler = Compiler(_END)
    compiler.skip(schema)
    compiler.add(avro_scan.POSITION)
    return np.array(compiler.steps, np.int64)
