"""Rows sorted by binary keys, in a sort order of the table, in Z-order or in Hilbert order.

Rows that do not fit in memory become sorted runs on disk. On the command line, keys are columns or
transforms, as in Iceberg's procedures or `inspect` (`bucket[16](id)`):

    category, bucket(16, id) desc nulls last, day(at)

Nulls are first if a key ascends, last if it descends.
"""

import re
import tempfile
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icectl.entries.clustering import ClusteringKey, KeyBounds, metrics_of, spans_of
from icectl.entries.columns import Octets, byte_strings, decimal_words, integers, is_integer, plain
from icectl.entries.partition_transforms import transform_column
from icectl.entries.rows import Entries
from icectl.errors import Unsupported, UsageError
from icectl.files.compiled import address, loops
from icectl.files.data_rows import batch_rows, release_memory
from icectl.files.parquet.schema import arrow_schema
from icectl.format.metadata import TableMetadata
from icectl.format.schema import Schema, container_of, similar_name_hint
from icectl.format.sort import SortField, SortOrder, order_text
from icectl.format.transforms import Transform, accepts, parse_transform, result_type
from icectl.format.types import (
    DecimalType,
    FixedType,
    NestedField,
    PrimitiveType,
    Type,
    is_comparable,
    type_text,
)
from icectl.rows.columns import has_order, inside, is_real, path_to
from icectl.rows.curves import BYTES, Words, bits_in_turn, hilbert
from icectl.rows.partition_rows import Partitioner
from icectl.rows.take_rows import BatchRows

_PART_OF_NAME = r"(?:`(?:[^`]|``)+`|[^\W\d]\w*)"
_NAME = rf"{_PART_OF_NAME}(?:\s*\.\s*{_PART_OF_NAME})*"
_KEY_PATTERN = re.compile(
    rf"""\s*(?:
      (?P<transform>\w+)\s*(?:\[\s*(?P<shown>\d+)\s*\])?\s*
        \(\s*(?:(?P<before>\d+)\s*,\s*)?(?P<source>{_NAME})\s*(?:,\s*(?P<after>\d+)\s*)?\)
    | (?P<column>{_NAME})
    )
    (?:\s+(?P<direction>asc|desc)\b)?
    (?:\s+nulls\s+(?P<nulls>first|last)\b)?
    \s*(?P<end>,|$)""",
    re.VERBOSE | re.IGNORECASE,
)
_PART = re.compile(r"`((?:[^`]|``)+)`|(\w+)")
_COMMA = re.compile(r",(?=(?:[^`]*`[^`]*`)*[^`]*$)")
"""A comma outside of quoted names."""

_SPELLINGS = {
    "years": "year", "months": "month", "days": "day", "date": "day", "hours": "hour",
    "date_hour": "hour",
}  # fmt: skip
_SUPPORTED = (
    "an order is like `category, bucket(16, id) desc nulls last, day(at)`; there are identity, "
    "bucket, truncate, year, month, day and hour"
)
_IN_BACKTICKS = "a name with other characters stands in backticks, not in double quotes"
_FEWEST_ON_CURVE = 2
_ALL = (0, 2**64 - 1)
"""The range of a column of which bounds show none."""


@dataclass(frozen=True, slots=True)
class Curve:
    """An order along a curve through the values of columns: in Z-order, or in Hilbert order.

    `ranges` has, for each column, the least and the greatest value that bounds show, as numbers in
    the order of values. Values are spread over the curve between them; without, over all values of
    the type.
    """

    column_ids: tuple[int, ...]
    is_hilbert: bool = False
    ranges: tuple[tuple[int, int], ...] = ()

    @property
    def name(self) -> str:
        """The name of the curve."""
        return "Hilbert order" if self.is_hilbert else "Z-order"


RowOrder = SortOrder | Curve
"""An order of rows; its id is 0 if it is not the table's own."""


def order_words(order: RowOrder, schema: Schema) -> str:
    """Return an order in words: `sorted by id asc nulls first`, `in Z-order of id`."""
    if isinstance(order, Curve):
        names = ", ".join(schema.name_of(id_) or "" for id_ in order.column_ids)
        return f"in {order.name} of {names}"
    return f"sorted by {order_text(order, schema)}"


def order_key(order: RowOrder) -> str:
    """Return what an order does as text: the same for the same order under any names or id."""
    if isinstance(order, Curve):
        return f"{'hilbert' if order.is_hilbert else 'zorder'}={order.column_ids}"
    return f"order={_meaning(order.fields)}"


def usable_table_order(metadata: TableMetadata) -> SortOrder | None:
    """Return the default sort order of a table if it has one that rows can be sorted by."""
    order = metadata.sort_order(metadata.default_sort_order_id)
    if order is None or not order.fields:
        return None
    schema = metadata.current_schema
    try:
        sort_keys(order, schema, arrow_schema(schema))
    except Unsupported:
        return None
    return order


def table_order(metadata: TableMetadata) -> SortOrder:
    """Return the default sort order of a table. Raises: UsageError, if it has none."""
    order = metadata.sort_order(metadata.default_sort_order_id)
    if order is None or not order.fields:
        raise UsageError(
            "the table has no sort order to sort by",
            hint="give the sort keys with `--sort-order`",
        )
    return order


def parse_sort_order(text: str, metadata: TableMetadata) -> SortOrder:
    """Return the order of a text, as the table's own with its id if it has the same.

    Raises: UsageError, naming the position of the error from 1.
    """
    fields = tuple(_fields(text, metadata.current_schema))
    for order in metadata.sort_orders:
        if _meaning(order.fields) == _meaning(fields):
            return order
    return SortOrder(0, fields)


def parse_zorder(text: str, metadata: TableMetadata, *, is_hilbert: bool = False) -> Curve:
    """Return the columns that a curve goes through. Raises: UsageError."""
    schema = metadata.current_schema
    ids: list[int] = []
    for piece in _COMMA.split(text):
        name = piece.strip()
        if re.fullmatch(_NAME, name) is None:
            hint = _IN_BACKTICKS if name.startswith('"') else None
            raise UsageError(f"`--zorder`: `{name}` is not a column name", hint=hint)
        item = _column("--zorder", name, schema)
        if not is_comparable(item.type):
            raise UsageError(f"`--zorder`: `{name}` is {type_text(item.type)}, which has no order")
        ids.append(item.id)
    if len(ids) < _FEWEST_ON_CURVE or len(set(ids)) < len(ids):
        hint = "rows are sorted by one column with `--sort-order`"
        raise UsageError("`--zorder` takes two or more different columns", hint=hint)
    return Curve(tuple(ids), is_hilbert)


def quoted_name(name: str) -> str:
    """Return a column's name as keys and Spark's SQL have it: in backticks, where it needs them."""
    parts = name.split(".")
    if all(re.fullmatch(r"[^\W\d]\w*", part) for part in parts):
        return name
    return ".".join(f"`{part.replace('`', '``')}`" for part in parts)


def with_ranges(order: RowOrder, data: Entries, schema: Schema) -> RowOrder:
    """Return an order that spreads a curve over the values of some data files, by their bounds.

    `data` has the metrics of files. Other orders are returned unchanged.
    """
    if not isinstance(order, Curve):
        return order
    metrics = metrics_of(data)
    identity = Transform("identity", "identity")
    ranges = []
    for id_ in order.column_ids:
        item = schema.field(id_)
        assert item is not None  # parse_zorder has found it
        key = ClusteringKey(item.name, id_, item.type, identity)
        ranges.append(_range(key, spans_of(data, metrics, key)))
    return replace(order, ranges=tuple(ranges))


def _range(key: ClusteringKey, spans: KeyBounds) -> tuple[int, int]:
    """Return the range of bounds, as `_word` has values."""
    is_shown = key.why_unordered is None and key.type != PrimitiveType("boolean")
    if not is_shown or not spans.known.any():
        return _ALL
    ends: list[Any] = [pc.min(spans.lower).as_py(), pc.max(spans.upper).as_py()]
    if isinstance(key.type, DecimalType):
        ends = [float(end) / 10.0**key.type.scale for end in ends]
    of_bytes = isinstance(ends[0], bytes)
    kind = "binary" if of_bytes else "double" if isinstance(ends[0], float) else "long"
    column = pa.array(ends, pa.large_binary() if of_bytes else None)
    low, high = _word(PrimitiveType(kind), column).tolist()
    return low, high


def _meaning(fields: Sequence[SortField]) -> list[tuple[object, ...]]:
    return [
        (item.source_ids, item.transform.name, item.transform.width, item.direction,
         item.null_order)
        for item in fields
    ]  # fmt: skip


def _fields(text: str, schema: Schema) -> Sequence[SortField]:
    fields: list[SortField] = []
    at = 0
    while True:
        match = _KEY_PATTERN.match(text, at)
        if match is None:
            message = (
                f"`--sort-order`: at position {at + 1}: `{text[at:].strip()}` is not a sort key"
            )
            is_quoted = text[at:].lstrip().startswith('"')
            raise UsageError(message, hint=_IN_BACKTICKS if is_quoted else _SUPPORTED)
        name = match["source"] or match["column"]
        item = _column("--sort-order", name, schema)
        function = (match["transform"] or "identity").lower()
        widths = [width for width in match.group("shown", "before", "after") if width is not None]
        spelled = _SPELLINGS.get(function, function) + "".join(f"[{width}]" for width in widths)
        transform = parse_transform(spelled)
        if transform.name in ("unknown", "void"):
            raise UsageError(f"`--sort-order`: there is no transform `{spelled}`", hint=_SUPPORTED)
        if not accepts(transform, item.type):
            shown = f"{transform.text} of `{name}`, which is {type_text(item.type)}"
            raise UsageError(f"`--sort-order`: there is no {shown}", hint=_SUPPORTED)
        direction = (match["direction"] or "asc").lower()
        usual = "first" if direction == "asc" else "last"
        nulls = f"nulls-{(match['nulls'] or usual).lower()}"
        fields.append(SortField((item.id,), transform, direction, nulls))
        at = match.end()
        if not match["end"]:
            return fields


def _column(option: str, text: str, schema: Schema) -> NestedField:
    parts = _PART.findall(text)
    name = ".".join(quoted.replace("``", "`") or plain for quoted, plain in parts)
    item = schema.field_named(name)
    if item is None:
        names = [schema.name_of(id_) or "" for id_ in schema.all_fields]
        raise UsageError(
            f"`{option}`: the table has no column `{name}`", hint=similar_name_hint(name, names)
        )
    container = container_of(name, schema)
    if container is not None:
        raise UsageError(
            f"`{option}`: `{name}` is inside a {container}, and a row may have many values of it"
        )
    return item


_SIGN = np.uint64(1 << 63)
_NOTHING = pa.scalar(b"", pa.large_binary())
_UUID_BYTES = 16
_PART_BYTES, _PARTS = 512 << 10, 64
"""Bytes of a run that are read at a time, unless a row is wider; the fewest parts of a run."""
_KEYED_BYTES = 16 << 20
_MOST_RUNS = 64
"""Runs that are merged to one: at least one part of each is in memory."""
_KEY = "key"
_WORD_BYTES = 8


@dataclass(frozen=True, slots=True)
class _Key:
    path: tuple[int, ...]
    type_: Type
    transform: Transform
    is_descending: bool
    null_byte: int
    """The byte before a null; the byte before a value is the other of 0 and 1."""


@dataclass(frozen=True, slots=True)
class SortKeys:
    """Makes the keys of batches of one schema; `curve` is None for a sort order."""

    keys: Sequence[_Key]
    curve: Curve | None

    def of(self, batch: pa.RecordBatch) -> pa.Array:
        """Return the key of each row.

        Shape: one binary value per row, none of them null; all of one width, if the type shows it.
        Order: kept.
        Raises: Unsupported, if a value has no result of its transform.
        """
        if self.curve is not None:
            words = [_word(key.type_, _source(batch, key)) for key in self.keys]
            ranges = self.curve.ranges or [_ALL] * len(words)
            words = [_spread(word, *ends) for word, ends in zip(words, ranges, strict=True)]
            return _of_one_width(bits_in_turn(hilbert(words) if self.curve.is_hilbert else words))
        return joined([part for key in self.keys for part in _parts(batch, key)])


def _spread(words: Words, low: int, high: int) -> Words:
    """Return values with those between `low` and `high` spread over all bits, in the same order."""
    factor = (2**64 - 1) // max(high - low, 1)
    if high == low or factor == 1:
        return words
    return (np.clip(words, np.uint64(low), np.uint64(high)) - np.uint64(low)) * np.uint64(factor)


def sort_keys(order: RowOrder, schema: Schema, batches: pa.Schema) -> SortKeys:
    """Return the maker of keys for batches of an Arrow schema, whose columns are those of `schema`.

    Raises: Unsupported, for a key with an unknown transform or several columns (R-007), or of a
    column that is missing or has no order.
    """
    if isinstance(order, Curve):
        identity = Transform("identity", "identity")
        fields = [SortField((id_,), identity, "asc", "nulls-first") for id_ in order.column_ids]
    else:
        fields = list(order.fields)
    keys = [_key(item, schema, batches) for item in fields]
    return SortKeys(keys, order if isinstance(order, Curve) else None)


def _key(item: SortField, schema: Schema, batches: pa.Schema) -> _Key:
    column = schema.field(item.source_ids[0])
    path = path_to(batches, item.source_ids[0])
    if column is None or len(item.source_ids) != 1:
        raise Unsupported(
            f"rows can't be sorted by {item.transform.text} of column {item.source_ids}"
        )
    result = result_type(item.transform, column.type)
    is_sortable = result is not None and accepts(item.transform, column.type) and has_order(result)
    if path is None or not is_sortable:
        shown = f"{item.transform.text} of `{column.name}`, of type {type_text(column.type)}"
        raise Unsupported(f"rows can't be sorted by {shown}")
    null_byte = 0 if item.null_order == "nulls-first" else 1
    return _Key(path, column.type, item.transform, item.direction == "desc", null_byte)


def _source(batch: pa.RecordBatch, key: _Key) -> pa.Array:
    return inside(batch.column(key.path[0]), key.path[1:])


KeyPart: TypeAlias = Octets | pa.Array
"""A part of each row's key: a line of bytes a row, or byte strings where their lengths differ."""


def joined(parts: Sequence[KeyPart]) -> pa.Array:
    """Return the keys that have some parts, all of one width if the parts have one."""
    octets = [part for part in parts if isinstance(part, np.ndarray)]
    if len(octets) == len(parts):
        return _of_one_width(np.concatenate(octets, axis=1))
    return pc.binary_join_element_wise(*map(_as_binary, parts), _NOTHING)


def _parts(batch: pa.RecordBatch, key: _Key) -> list[KeyPart]:
    """Return the parts of one key of each row: a byte for null or not, and the value (R-084).

    Raises: Unsupported, for a value that the transform does not take.
    """
    column = _source(batch, key)
    try:
        values = transform_column(key.transform, key.type_, column)
    except ValueError as error:
        raise Unsupported(f"a row can't be sorted by {key.transform.text}: {error}") from error
    kind = result_type(key.transform, key.type_) or key.type_
    return value_parts(kind, values, key.null_byte, is_descending=key.is_descending)


def value_parts(
    type_: Type, values: pa.Array, null_byte: int, *, is_descending: bool = False
) -> list[KeyPart]:
    """Return the parts of a key that sort values of a type (R-084).

    With 0 for `null_byte` nulls are first, with 1 they are last.
    """
    ordered = _ordered(type_, values, is_descending=is_descending)
    present = values.is_valid()
    is_present = present.to_numpy(zero_copy_only=False)
    marks = np.where(is_present, np.uint8(1 - null_byte), np.uint8(null_byte))
    if isinstance(ordered, np.ndarray):
        ordered[~is_present] = 0
    else:
        ordered = pc.if_else(present, ordered, _NOTHING)
    return [marks.reshape(-1, 1), ordered]


def _ordered(type_: Type, column: pa.Array, *, is_descending: bool) -> Octets | pa.Array:
    """Return the values as bytes in the same order, as _parts does; nulls have any bytes."""
    turned = 255 if is_descending else 0
    if type_ in (PrimitiveType("string"), PrimitiveType("binary")):
        return _terminated(column, turned)
    if isinstance(type_, DecimalType):
        words = decimal_words(type_, column).view(np.uint64)[:, ::-1].copy()
        words[:, 0] ^= _SIGN
        octets = words.astype(">u8").view(np.uint8).reshape(-1, 16)
    elif isinstance(type_, FixedType) or type_ == PrimitiveType("uuid"):
        spans = byte_strings(column)
        width = type_.length if isinstance(type_, FixedType) else _UUID_BYTES
        start = int(spans.starts[0]) if len(column) else 0
        octets = spans.content[start : start + width * len(column)].reshape(-1, width)
    else:
        octets = _word(type_, column).astype(">u8").view(np.uint8).reshape(-1, BYTES)
    return octets ^ np.uint8(turned)


def _terminated(column: pa.Array, turned: int) -> pa.Array:
    """Return byte strings with an end that sorts before any longer string."""
    content = plain(column).cast(pa.large_binary()).fill_null(b"")
    escaped = pc.replace_substring(content, pattern=b"\x00", replacement=b"\x00\xff")
    end = bytes([turned, turned])
    if turned:
        buffers = escaped.buffers()
        octets = ~np.frombuffer(buffers[2] or b"", np.uint8)
        buffers[2] = pa.py_buffer(octets)
        escaped = pa.Array.from_buffers(
            escaped.type, len(escaped), [None, *buffers[1:]], offset=escaped.offset
        )
    return pc.binary_join_element_wise(escaped, pa.scalar(end, pa.large_binary()), _NOTHING)


def _word(type_: Type, column: pa.Array) -> Words:
    """Return each value as a number in the same order; nulls are 0, long values cut."""
    if is_integer(type_) and isinstance(type_, PrimitiveType):
        words = integers(type_.name, column).view(np.uint64) ^ _SIGN
    elif type_ == PrimitiveType("boolean"):
        flags = pc.fill_null(plain(column), fill_value=False).to_numpy(zero_copy_only=False)
        words = flags.astype(np.uint64) << np.uint64(63)
    elif isinstance(type_, DecimalType) or is_real(type_):
        numbers = plain(column).cast(pa.float64()).fill_null(0).to_numpy(zero_copy_only=False)
        # R-084: -0.0 before 0.0, NaN first or last, by its sign
        nan = np.copysign(np.nan, numbers).view(np.uint64)
        bits: Words = np.where(np.isnan(numbers), nan, numbers.view(np.uint64))
        words = np.where(bits & _SIGN != 0, ~bits, bits | _SIGN)
    else:
        spans = byte_strings(column)
        octets = np.zeros((len(column), BYTES), np.uint8)
        for place in range(BYTES):
            rows = np.flatnonzero(spans.lengths > place)
            octets[rows, place] = spans.content[spans.starts[rows] + place]
        words = octets.view(">u8").reshape(-1).astype(np.uint64)
    is_null = column.is_null().to_numpy(zero_copy_only=False)
    return np.where(is_null, np.uint64(0), words)


def _of_one_width(octets: Octets) -> pa.Array:
    count, width = octets.shape
    buffers = [None, pa.py_buffer(np.ascontiguousarray(octets))]
    return pa.Array.from_buffers(pa.binary(width), count, buffers)


def _as_binary(part: Octets | pa.Array) -> pa.Array:
    return _of_one_width(part).cast(pa.large_binary()) if isinstance(part, np.ndarray) else part


@dataclass(frozen=True, slots=True)
class RowKeys:
    """Makes the keys of batches, of partition and sort key, each if there is one."""

    partitioner: Partitioner | None
    sorting: SortKeys | None

    def of(self, batch: pa.RecordBatch) -> pa.Array:
        """Return the key of each row, as SortKeys.of does."""
        parts: list[pa.Array | pa.Scalar] = []
        if self.partitioner is not None:
            keys = self.partitioner.keys(batch).cast(pa.large_binary())
            lengths = pc.binary_length(keys).to_numpy().astype(">u4")
            buffers = [None, pa.py_buffer(lengths)]
            prefixes = pa.FixedSizeBinaryArray.from_buffers(pa.binary(4), len(keys), buffers)
            parts += [prefixes.cast(pa.large_binary()), keys]
        if self.sorting is not None:
            parts.append(self.sorting.of(batch).cast(pa.large_binary()))
        return pc.binary_join_element_wise(*parts, pa.scalar(b"", pa.large_binary()))


@dataclass(frozen=True, slots=True)
class Sorting:
    """An order to sort rows by; `memory_bytes` of them are sorted at a time."""

    order: RowOrder
    memory_bytes: int


class KeyMaker(Protocol):
    """Makes keys of rows."""

    def of(self, batch: pa.RecordBatch, /) -> pa.Array:
        """Return the key of each row, as SortKeys.of does."""


class RowSorter:
    """A sorter of rows that have their keys, as `keyed` makes them; its exit frees the disk.

    Rows with equal keys keep their order. Rows beyond `memory_bytes` wait on disk.
    Cost: twice `memory_bytes`, keys included, and as much for each of several threads.
    """

    def __init__(
        self, memory_bytes: int, threads: int = 1, *, compression: str | None = None
    ) -> None:
        self._memory_bytes = memory_bytes
        self._threads = threads
        self._options = pa.ipc.IpcWriteOptions(compression=compression)
        self._pool: ThreadPoolExecutor | None = None
        self._sorting: deque[Future[_Run]] = deque()
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_bytes = 0
        self._runs: list[list[_Run]] = []
        """By the number of their merges; rows of more merges came first."""
        self._directory: Path | None = None
        self._file_count = 0
        self._stack = ExitStack()

    def __enter__(self) -> "RowSorter":
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
        self._stack.close()

    def add(self, rows: pa.RecordBatch) -> None:
        """Add rows with their keys. Raises: OSError of the disk."""
        self._waiting.append(rows)
        self._waiting_bytes += rows.nbytes
        if self._waiting_bytes >= self._memory_bytes:
            self._spill(self._waiting)
            self._waiting, self._waiting_bytes = [], 0

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield all rows, after the last was added."""
        if not self._runs and not self._sorting:
            if self._waiting:
                yield from _in_order(self._waiting)
            return
        last, self._waiting = self._waiting, []
        share = max(1, -(-len(last) // self._threads))
        for start in range(0, len(last), share):
            self._spill(last[start : start + share])
        while self._sorting:
            self._keep(0, self._sorting.popleft().result())
        runs = [run for level in reversed(self._runs) for run in level]
        yield from self._merged(runs)

    def _spill(self, rows: list[pa.RecordBatch]) -> None:
        row_count = sum(batch.num_rows for batch in rows)
        size_bytes = sum(batch.nbytes for batch in rows)
        part_bytes = min(_PART_BYTES, size_bytes // _PARTS)
        part_rows = max(1, row_count * part_bytes // max(size_bytes, 1))
        path = self._next_path()

        def sort() -> _Run:
            return _write_run(_in_order(rows, with_keys=True), path, part_rows, self._options)

        if self._threads == 1:
            self._keep(0, sort())
            return
        self._sorting.append(self._started_pool().submit(sort))
        while len(self._sorting) > self._threads:
            self._keep(0, self._sorting.popleft().result())

    def _next_path(self) -> Path:
        if self._directory is None:
            folder = tempfile.TemporaryDirectory(prefix="icectl-")
            self._directory = Path(self._stack.enter_context(folder))
        self._file_count += 1
        return self._directory / f"{self._file_count}.arrow"

    def _started_pool(self) -> ThreadPoolExecutor:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="sort")
        return self._pool

    def _keep(self, level: int, run: "_Run") -> None:
        """Take a run on disk; many of a level become one of the next."""
        if level == len(self._runs):
            self._runs.append([])
        self._runs[level].append(run)
        if len(self._runs[level]) == _MOST_RUNS:
            runs = self._runs[level]
            part_rows = max(1, *(run.part_rows for run in runs))
            rows = self._merged(runs, with_keys=True)
            merged = _write_run(rows, self._next_path(), part_rows, self._options)
            self._keep(level + 1, merged)
            self._runs[level] = []
            for old in runs:
                old.path.unlink()

    def _merged(
        self, runs: Sequence["_Run"], *, with_keys: bool = False
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of all runs in order, some of each in memory at a time."""
        steps = _steps(runs, self._memory_bytes)
        in_order = partial(_in_order, with_keys=with_keys)
        if self._threads == 1:
            for parts in steps:
                yield from in_order(parts)
            return
        sorting: deque[Future[list[pa.RecordBatch]]] = deque()
        for parts in steps:
            sorting.append(self._started_pool().submit(lambda parts: [*in_order(parts)], parts))
            if len(sorting) > self._threads:
                yield from sorting.popleft().result()
        while sorting:
            yield from sorting.popleft().result()


def sorted_batches(
    batches: Iterable[pa.RecordBatch], keys: KeyMaker, memory_bytes: int
) -> Iterator[pa.RecordBatch]:
    """Yield the same rows in the order of their keys, as RowSorter does."""
    return sorted_keyed(keyed(batches, keys), memory_bytes)


def keyed(batches: Iterable[pa.RecordBatch], keys: KeyMaker) -> Iterator[pa.RecordBatch]:
    """Yield the same rows with their keys as a last column. Raises: as making them."""
    for batch in batches:
        # Making keys takes several times their memory: few wide rows at a time.
        step = max(1, batch.num_rows * _KEYED_BYTES // max(batch.nbytes, 1))
        for start in range(0, batch.num_rows, step):
            rows = batch.slice(start, step)
            yield rows.append_column(_KEY, keys.of(rows))


def sorted_keyed(
    batches: Iterable[pa.RecordBatch], memory_bytes: int, threads: int = 1
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of `keyed` in the order of their keys, without these, as RowSorter does."""
    with RowSorter(memory_bytes, threads) as sorter:
        for batch in batches:
            sorter.add(batch)
        yield from sorter.batches()


def _keys(rows: pa.RecordBatch) -> pa.Array:
    """Return the last column, by its place: a column of the table may have its name."""
    return rows.column(rows.num_columns - 1)


def _in_order(
    batches: list[pa.RecordBatch], *, with_keys: bool = False
) -> Iterator[pa.RecordBatch]:
    """Yield rows that have keys in the order of these; empties the list to save memory."""
    order = order_of(pa.concat_arrays([_keys(batch) for batch in batches])).to_numpy()
    rows = [batch if with_keys else _without_keys(batch) for batch in batches]
    batches.clear()
    row_count, size_bytes = len(order), sum(batch.nbytes for batch in rows)
    step = batch_rows(row_count, size_bytes)
    if np.array_equal(order, np.arange(row_count)):
        for batch in rows:
            for start in range(0, batch.num_rows, step):
                yield batch.slice(start, step)
    else:
        taking = BatchRows(rows)
        for start in range(0, row_count, step):
            yield taking.take(order[start : start + step])
        del taking
    del rows, order
    release_memory(row_count, size_bytes)


def order_of(keys: pa.Array) -> pa.Array:
    """Return the places of keys in their order, which equal ones keep."""
    count = len(keys)
    if loops() is None or count > np.iinfo(np.int32).max:
        return pc.sort_indices(keys)
    content = np.frombuffer(keys.buffers()[-1] or b"", np.uint8)
    if pa.types.is_fixed_size_binary(keys.type):
        offsets = (np.arange(count + 1) + keys.offset) * keys.type.byte_width
    else:
        offsets = np.frombuffer(keys.buffers()[1], np.int64, count + 1, _WORD_BYTES * keys.offset)
    places, other_places = (np.empty(count, np.int32) for _ in range(2))
    words, other_words = (np.empty(count, np.uint64) for _ in range(2))
    loops().sort_keys(
        *(address(content, np.uint8), address(offsets, np.int64), count),
        *(address(array, np.int32) for array in (places, other_places)),
        *(address(array, np.uint64) for array in (words, other_words)),
    )
    return pa.array(places)


def _without_keys(rows: pa.RecordBatch) -> pa.RecordBatch:
    return rows.remove_column(rows.num_columns - 1)


@dataclass(slots=True)
class _Run:
    """A sorted run on disk, and parts of it in memory."""

    path: Path
    reader: pa.RecordBatchFileReader
    part_rows: int
    at: int = 0
    parts: deque[pa.RecordBatch] = field(default_factory=deque)

    @property
    def is_read(self) -> bool:
        """Whether all rows on disk were read."""
        return self.at == int(self.reader.num_record_batches)

    def fill(self, size_bytes: int) -> None:
        """Read one part, or more up to a size, if fewer rows than half of that are in memory."""
        in_memory = sum(part.nbytes for part in self.parts)
        if self.parts and in_memory > size_bytes // 2:
            return
        while not self.is_read and (not self.parts or in_memory < size_bytes):
            self.parts.append(self.reader.get_batch(self.at))
            self.at += 1
            in_memory += self.parts[-1].nbytes

    def take(self, limit: bytes | None, *, with_limit: bool) -> list[pa.RecordBatch]:
        """Remove and return the rows in memory up to a limit; all without one."""
        taken: list[pa.RecordBatch] = []
        while self.parts:
            part = self.parts.popleft()
            count = _count_up_to(limit, _keys(part), with_limit=with_limit)
            if count:
                taken.append(part.slice(0, count))
            if count < part.num_rows:
                self.parts.appendleft(part.slice(count))
                break
        return taken


def _count_up_to(limit: bytes | None, keys: pa.Array, *, with_limit: bool) -> int:
    if limit is None:
        return len(keys)
    find = bisect_right if with_limit else bisect_left
    return find(range(len(keys)), limit, key=lambda at: keys[at].as_py())


def _write_run(
    rows: Iterator[pa.RecordBatch], path: Path, part_rows: int, options: pa.ipc.IpcWriteOptions
) -> _Run:
    with pa.OSFile(str(path), "wb") as file, ExitStack() as stack:
        to = None
        for batch in rows:
            if to is None:
                to = stack.enter_context(pa.ipc.new_file(file, batch.schema, options=options))
            for start in range(0, batch.num_rows, part_rows):
                to.write_batch(batch.slice(start, part_rows))
    return _Run(path, pa.ipc.open_file(pa.OSFile(str(path), "rb")), part_rows)


def _steps(runs: Sequence[_Run], memory_bytes: int) -> Iterator[list[pa.RecordBatch]]:
    """Yield rows of all runs, each time those before all that are not in memory yet."""
    while runs:
        for run in runs:
            run.fill(memory_bytes // (2 * len(runs)))
        # Behind the last row of a run in memory, its next rows on disk may follow.
        last = [
            (bytes(_keys(run.parts[-1])[-1].as_py()), place)
            for place, run in enumerate(runs)
            if not run.is_read and run.parts
        ]
        limit, first = min(last, default=(None, 0))
        parts = [
            batch
            for place, run in enumerate(runs)
            for batch in run.take(limit, with_limit=place <= first)
        ]
        if parts:
            yield parts
        runs = [run for run in runs if not run.is_read or run.parts]
