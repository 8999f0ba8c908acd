"""ORC data files in batches, a stripe at a time, and what their tails say.

The footer is a message of protocol buffers; pyarrow decodes it, and tells little of what it says.
"""

import io
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import IO, Any

import pyarrow as pa
from pyarrow import orc
from pyarrow import types as arrow_types

from icectl.errors import Unsupported
from icectl.files.arrow_failures import damaged_data_file, reading_data_file
from icectl.files.data_rows import (
    LARGEST_BATCH_BYTES,
    FileRows,
    batch_rows,
    chosen,
    joined,
    release_memory,
    typed_batch,
)
from icectl.files.parquet.footer import read_varint
from icectl.files.parquet.metrics import FileMetrics
from icectl.files.parquet.schema import (
    FIELD_ID,
    NameMapping,
    child_fields,
    field_id,
    schema_with_ids,
    with_children,
)
from icectl.files.random_access import RandomAccessFile
from icectl.format import single_value
from icectl.format.schema import Schema
from icectl.format.types import DecimalType, PrimitiveType, Type

_BLOCK_BYTES = 2**20
_KIND = "ORC"
_ID, _LONG_TYPE, _BINARY_TYPE, _LENGTH, _UNIT = (
    f"iceberg.{name}".encode()
    for name in ("id", "long-type", "binary-type", "length", "timestamp-unit")
)
"""Attributes of ORC types that Iceberg writers set (Appendix A, ORC)."""

_OUT_OF_RANGE = "out of range for nanosecond"
"""What pyarrow says of timestamps in ORC that 64 bits of nanoseconds can't hold."""

_TELLS_RANGE = 25
"""The first version of pyarrow that says so; those before it give other timestamps instead."""

_EARLIEST, _LATEST = "1677-09-21", "2262-04-11"
_LARGEST_STRIPE_BYTES = 64 * 2**20
"""Decoded bytes of a stripe that is still read as a whole."""

_PART_BYTES, _PART_ROWS = 2**20, 1024
"""What else is read at a time; pyarrow reads some 32 parts ahead."""

_BLOCKS = 64
_NUMBER_BYTES = 8
_FOOTER_OF_TAIL = 2
_STRIPES, _STATISTICS = 3, 7
_OFFSET, _ROW_COUNT = 1, 5
_VALUE_COUNT, _HAS_NULL = 1, 10
_INTEGERS, _STRINGS, _DECIMALS, _DATES, _BINARIES = 2, 4, 6, 7, 8
_STRING_SUM, _BINARY_SUM = 3, 1
_WIRE_SIZES = {1: 8, 5: 4}
Members = dict[int, list[int | bytes]]


@dataclass(frozen=True, slots=True)
class Stripe:
    """A stripe: where it starts, and its rows."""

    offset: int
    row_count: int


@dataclass(frozen=True, slots=True)
class ColumnStatistics:
    """The statistics of one column: bounds only of integers, dates, strings and decimals."""

    value_count: int | None
    """Values that are not null."""
    has_null: bool
    smallest: int | bytes | None = None
    largest: int | bytes | None = None
    """Integers; strings and decimals as UTF-8."""
    total_bytes: int = 0
    """Of all strings or byte strings together, by the writer's word."""


@dataclass(frozen=True, slots=True)
class OrcTail:
    """The content of an ORC footer, columns in the order of their numbers: the root is number 0."""

    stripes: tuple[Stripe, ...]
    columns: tuple[ColumnStatistics, ...]


@dataclass(frozen=True)
class OrcDataFile:
    """An open ORC file."""

    file: Any
    """pyarrow's ORCFile."""
    schema: pa.Schema
    stored: pa.Schema
    """The schema as pyarrow has it."""
    tail: OrcTail
    blocks: "BlockFile"

    @property
    def record_count(self) -> int:
        return int(self.file.nrows)

    @property
    def properties(self) -> Mapping[str, str]:
        members = self.stored.metadata or {}
        return {
            key.decode(errors="replace"): value.decode(errors="replace")
            for key, value in members.items()
        }

    def metrics(self, schema: Schema, *, only: bool = False) -> FileMetrics:  # noqa: ARG002 - cheap
        """Read what the footer says of the columns.

        Shape: nothing of columns inside lists and maps, no sizes; bounds of integers, dates, times,
        strings and decimals.
        """
        values: dict[int, int] = {}
        nulls: dict[int, int] = {}
        bounds: dict[int, tuple[bytes, bytes]] = {}
        exact: set[int] = set()
        fields = (id_ for field in self.schema for id_ in _field_ids(field, is_repeated=False))
        for number, statistics in zip([None, *fields], self.tail.columns, strict=False):
            if number is None:
                continue
            if statistics.value_count is not None:
                missing = self.record_count - statistics.value_count
                nulls[number] = missing if statistics.has_null else 0
                values[number] = statistics.value_count + nulls[number]
            stored_field = schema.field(number)
            range_ = None if stored_field is None else _range(stored_field.type, statistics)
            if stored_field is not None and range_ is not None:
                bounds[number] = range_
                if stored_field.type != PrimitiveType("string"):  # long texts are cut off
                    exact.add(number)
        return FileMetrics(
            record_count=self.record_count,
            value_counts=values,
            null_value_counts=nulls,
            lower_bounds={number: lower for number, (lower, _) in bounds.items()},
            upper_bounds={number: upper for number, (_, upper) in bounds.items()},
            exact_bounds=frozenset(exact),
            split_offsets=tuple(stripe.offset for stripe in self.tail.stripes if stripe.row_count),
        )

    def parts(self, schema: Schema) -> Sequence[FileMetrics]:
        """Read what the footer says of the columns of the file, which is its only part."""
        return (self.metrics(schema),)

    def batches(self, field_ids: Collection[int] | None) -> Iterator[FileRows]:
        places = chosen(self.schema, field_ids)
        schema = pa.schema([self.schema.field(place) for place in places])
        first_row = 0
        with reading_data_file(_KIND):
            for columns, row_count in self._columns(places):
                batch = typed_batch(columns, schema, row_count)
                rows = batch_rows(batch.num_rows, batch.nbytes)
                for start in range(0, batch.num_rows, rows):
                    yield FileRows(first_row + start, batch.slice(start, rows))
                    release_memory(batch.num_rows, batch.nbytes)
                first_row += row_count

    def _columns(self, places: list[int]) -> Iterator[tuple[list[pa.Array], int]]:
        """The columns as stored with their number of rows, stripe by stripe or in smaller parts."""
        version = int(pa.__version__.partition(".")[0])
        if version < _TELLS_RANGE and self._timestamps(places):
            raise Unsupported(
                f"pyarrow {pa.__version__} reads wrong timestamps from ORC files",
                hint=f"install pyarrow {_TELLS_RANGE} or later, for the workers of Spark too",
            )
        largest = max((stripe.row_count for stripe in self.tail.stripes), default=0)
        if places and self._are_named_apart and largest * self._row_bytes > _LARGEST_STRIPE_BYTES:
            with self._naming_columns_out_of_range(places):
                for batch in self._parts(places):
                    yield batch.columns, batch.num_rows
            return
        for number, stripe in enumerate(self.tail.stripes):
            self.blocks.forget()
            with self._naming_columns_out_of_range(places, number):
                columns = self._stripe(number, places)
            yield columns, stripe.row_count

    def _parts(self, places: list[int]) -> Iterator[pa.RecordBatch]:
        """Rows some at a time: a data set's reader has a batch size, the file's own has none."""
        from pyarrow import dataset  # takes long to import

        blocks = self.blocks.with_most(_BLOCKS)
        rows = int(_PART_BYTES / max(self._row_bytes, 1))
        batches = dataset.OrcFileFormat().make_fragment(blocks).to_batches(
            columns=[self.stored.names[place] for place in places],
            batch_size=max(1, min(rows, _PART_ROWS)),
            batch_readahead=0,
            fragment_readahead=0,
            use_threads=False,
        )  # fmt: skip
        yield from joined(batches, LARGEST_BATCH_BYTES)

    @cached_property
    def _row_bytes(self) -> float:
        total = sum(
            column.total_bytes + _NUMBER_BYTES * (column.value_count or self.record_count)
            for column in self.tail.columns[1:]
        )
        return total / max(self.record_count, 1)

    @property
    def _are_named_apart(self) -> bool:
        """Whether names do for pyarrow: a dotted one is a path to it, equal ones are one."""
        names = self.stored.names
        return not any("." in name for name in names) and len(set(names)) == len(names)

    @contextmanager
    def _naming_columns_out_of_range(
        self, places: list[int], number: int | None = None
    ) -> Iterator[None]:
        """Raises: Unsupported, for timestamps that pyarrow can't hold, naming their columns."""
        try:
            yield
        except pa.ArrowInvalid as error:
            if _OUT_OF_RANGE not in str(error):
                raise
            out_of_range = self._timestamps(places)
            if number is not None:
                out_of_range = [
                    place for place in out_of_range if self._is_out_of_range(number, place)
                ]
            names = ", ".join(f"`{self.schema.field(place).name}`" for place in out_of_range)
            raise Unsupported(
                f"the ORC file has timestamps before {_EARLIEST} or after {_LATEST}, in {names}: "
                "they can't be read",
                hint="rewrite the file as Parquet with the engine that owns the table: in Spark, "
                "set `write.format.default` to `parquet` and run `rewrite_data_files`",
            ) from error

    def _timestamps(self, places: list[int]) -> list[int]:
        return [place for place in places if _has_timestamps(self.schema.field(place).type)]

    def _is_out_of_range(self, number: int, place: int) -> bool:
        """Whether a stripe of a column has timestamps that nanoseconds of 64 bits can't hold."""
        try:
            self._stripe(number, [place])
        except pa.ArrowInvalid:
            return True
        return False

    def _stripe(self, number: int, places: list[int]) -> list[pa.Array]:
        if not places:
            return []
        if not self._are_named_apart:
            batch = self.file.read_stripe(number)
            return [batch.column(place) for place in places]
        wanted = [self.stored.names[place] for place in places]
        return list(self.file.read_stripe(number, columns=wanted).columns)


def open_orc(file: IO[bytes], name_mapping: NameMapping) -> OrcDataFile:
    """Open an ORC file by its tail. Raises: CorruptTable R-099; Unsupported, as by pyarrow."""
    with reading_data_file(_KIND):
        # Streams of columns are read in turns, each with a part of its own at a time.
        blocks = BlockFile(file)
        opened = orc.ORCFile(blocks)
        stored = opened.schema
        fields = [_with_ids(field) for field in stored]
        tail = read_tail(opened.reader.serialized_file_tail())
        schema = schema_with_ids(pa.schema(fields), name_mapping)
        return OrcDataFile(opened, schema, stored, tail, blocks)


class BlockFile(RandomAccessFile):
    """A file that keeps blocks until `forget`: all that it read, or the last `most` of them."""

    def __init__(self, file: IO[bytes], most: int | None = None) -> None:
        super().__init__(file.seek(0, io.SEEK_END))
        self._file = file
        self._most = most
        self._blocks: dict[int, bytes] = {}

    def with_most(self, most: int) -> "BlockFile":
        """Return the same file by blocks of its own, of which it keeps so many."""
        return BlockFile(self._file, most)

    def forget(self) -> None:
        self._blocks.clear()

    def read_at(self, offset: int, length: int) -> bytes:
        """Return bytes out of the blocks that they lie in."""
        first, last = offset // _BLOCK_BYTES, (offset + length - 1) // _BLOCK_BYTES
        self._load(first, last)
        parts = [self._blocks.pop(number) for number in range(first, last + 1)]
        self._blocks.update(zip(range(first, last + 1), parts, strict=True))
        while self._most is not None and len(self._blocks) > self._most:
            del self._blocks[next(iter(self._blocks))]
        start = offset - first * _BLOCK_BYTES
        content = parts[0] if len(parts) == 1 else b"".join(parts)
        return content[start : start + length]

    def _load(self, first: int, last: int) -> None:
        """Read the blocks that are not there yet, those side by side at once."""
        missing = [number for number in range(first, last + 1) if number not in self._blocks]
        while missing:
            start = stop = missing[0]
            while stop in missing:
                stop += 1
            self._file.seek(start * _BLOCK_BYTES)
            content = self._file.read((stop - start) * _BLOCK_BYTES)
            for number in range(start, stop):
                at = (number - start) * _BLOCK_BYTES
                self._blocks[number] = content[at : at + _BLOCK_BYTES]
            missing = [number for number in missing if number >= stop]


def _with_ids(field: pa.Field) -> pa.Field:
    """Return the field in the terms of Parquet, out of the attributes of Iceberg."""
    attributes = field.metadata or {}
    children = [_with_ids(child) for child in child_fields(field.type)]
    kind = with_children(field.type, children) if children else _kind(field.type, attributes)
    identity = {FIELD_ID: str(int(attributes[_ID]))} if _ID in attributes else None
    return pa.field(field.name, kind, field.nullable, identity)


def _kind(kind: pa.DataType, attributes: Mapping[bytes, bytes]) -> pa.DataType:
    """Return the type that the attributes of an ORC column say it has (R-095)."""
    if attributes.get(_LONG_TYPE) == b"TIME":
        return pa.time64("us")
    if attributes.get(_BINARY_TYPE) == b"UUID":
        return pa.uuid()
    if attributes.get(_BINARY_TYPE) == b"FIXED" and _LENGTH in attributes:
        return pa.binary(int(attributes[_LENGTH]))
    if arrow_types.is_timestamp(kind) and _ID in attributes:
        return pa.timestamp("ns" if attributes.get(_UNIT) == b"NANOS" else "us", kind.tz)
    return kind


def _has_timestamps(kind: pa.DataType) -> bool:
    return bool(arrow_types.is_timestamp(kind)) or any(
        _has_timestamps(child.type) for child in child_fields(kind)
    )


def _field_ids(field: pa.Field, *, is_repeated: bool) -> Iterator[int | None]:
    """Yield the ids of a field and those inside of it; None of what is no plain value."""
    children = child_fields(field.type)
    yield None if is_repeated or children else field_id(field)
    repeats = is_repeated or not arrow_types.is_struct(field.type)
    for child in children:
        yield from _field_ids(child, is_repeated=repeats)


def _range(type_: Type, statistics: ColumnStatistics) -> tuple[bytes, bytes] | None:
    """Return the bounds of a column as single values; None where one can't tell."""
    bounds: list[bytes] = []
    try:
        for stored in (statistics.smallest, statistics.largest):
            match type_, stored:
                case PrimitiveType("int" | "long" | "date" | "time"), int():
                    bounds.append(single_value.encode(type_, stored))
                case PrimitiveType("string"), bytes():
                    bounds.append(single_value.encode(type_, stored.decode()))
                case DecimalType(), bytes():
                    value = single_value.from_json(type_, stored.decode())
                    bounds.append(single_value.encode(type_, value))
                case _:
                    return None
    except ValueError:
        return None
    return bounds[0], bounds[1]


def read_tail(serialized: bytes) -> OrcTail:
    """Read the tail of an ORC file as pyarrow serialises it. Raises: CorruptTable R-099."""
    footer = _members(_message(_members(serialized), _FOOTER_OF_TAIL))
    stripes = [_members(_content(stored)) for stored in footer.get(_STRIPES, [])]
    statistics = [_members(_content(stored)) for stored in footer.get(_STATISTICS, [])]
    return OrcTail(
        tuple(Stripe(_number(stripe, _OFFSET), _number(stripe, _ROW_COUNT)) for stripe in stripes),
        tuple(_column(column) for column in statistics),
    )


def _column(stored: Members) -> ColumnStatistics:
    count = _number(stored, _VALUE_COUNT) if _VALUE_COUNT in stored else None
    has_null = bool(_number(stored, _HAS_NULL)) if _HAS_NULL in stored else True
    total = 0
    for kind, number in ((_STRINGS, _STRING_SUM), (_BINARIES, _BINARY_SUM)):
        if kind in stored:
            total = max(_signed(_number(_members(_message(stored, kind)), number)), 0)
            break
    for kind in (_INTEGERS, _DATES, _STRINGS, _DECIMALS):
        bounds = _members(_message(stored, kind)) if kind in stored else {}
        if 1 in bounds and 2 in bounds:
            smallest, largest = (
                bound if isinstance(bound, bytes) else _signed(bound)
                for bound in (bounds[1][-1], bounds[2][-1])
            )
            return ColumnStatistics(count, has_null, smallest, largest, total)
    return ColumnStatistics(count, has_null, total_bytes=total)


def _signed(stored: int) -> int:
    """Return the number that a zigzag number stands for."""
    return (stored >> 1) ^ -(stored & 1)


def _number(message: Members, number: int) -> int:
    value = message.get(number, [0])[-1]
    if isinstance(value, bytes):
        raise damaged_data_file(_KIND, "its footer has bytes in place of a number")
    return value


def _message(message: Members, number: int) -> bytes:
    return _content(message.get(number, [b""])[-1])


def _content(stored: int | bytes) -> bytes:
    if isinstance(stored, int):
        raise damaged_data_file(_KIND, "its footer has a number in place of a message")
    return stored


def _members(content: bytes) -> Members:
    members: Members = {}
    at = 0
    while at < len(content):
        key, at = read_varint(content, at, _KIND)
        wire = key & 7
        if wire == 0:
            number, at = read_varint(content, at, _KIND)
            members.setdefault(key >> 3, []).append(number)
            continue
        if wire == 2:
            size, at = read_varint(content, at, _KIND)
        elif wire in _WIRE_SIZES:
            size = _WIRE_SIZES[wire]
        else:
            raise damaged_data_file(_KIND, "its footer has a member of an unknown kind")
        if at + size > len(content):
            raise damaged_data_file(_KIND, "its footer ends early")
        members.setdefault(key >> 3, []).append(content[at : at + size])
        at += size
    return members
