"""Write data files with row groups and files of the table's target size, and collect metrics.

Batches wait in memory until they fill a row group. Files of several partitions are open at once.
If their waiting rows together exceed a row group, those of the largest partition are written.
"""

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from math import ceil
from types import MappingProxyType
from typing import IO, Any

import pyarrow as pa
import pyarrow.compute as pc

from icectl.files.parquet.metrics import (
    FileMetrics,
    footer_metrics,
    read_footer,
    read_metrics,
    widest,
)
from icectl.files.parquet.schema import Shredding, arrow_schema
from icectl.files.parquet.side_by_side import SideBySideWriter, can_write_side_by_side
from icectl.files.parquet.write import OWN_LEVELS, ParquetOptions, ParquetWriter
from icectl.files.wkb import Shapes
from icectl.format.bounding_box import BoundingBox, decode_box
from icectl.format.metrics_modes import MetricsMode, lower_bound, upper_bound
from icectl.format.properties import (
    BLOOM_FILTER_MAX_BYTES,
    PARQUET_COMPRESSION,
    PARQUET_COMPRESSION_LEVEL,
    PARQUET_DICTIONARY_SIZE_BYTES,
    PARQUET_PAGE_ROW_LIMIT,
    PARQUET_PAGE_SIZE_BYTES,
    PARQUET_ROW_GROUP_SIZE_BYTES,
    bloom_filters,
    read,
)
from icectl.format.schema import Schema, schema_json
from icectl.format.single_value import decode, encode
from icectl.format.types import GeographyType, NestedField, PrimitiveType
from icectl.format.variant import Side, joined_bounds
from icectl.rows.columns import ColumnFacts, inside, is_real, is_shape, path_to
from icectl.storage.store import Assembly, Store
from icectl.table.reading import naming, present

_VARIANT = PrimitiveType("variant")
_OF_ANY_LENGTH = (PrimitiveType("string"), PrimitiveType("binary"))
MOST_OPEN_FILES = 64
"""When there is one more, the file ends that was not written to for longest."""

_NEARLY = 0.95
"""Part of its target size from which a file is ended: what could be added is no good row group."""

_MARGIN = 1.25
"""How much more than others, by row, a row group that is being encoded may take."""

_WAITING_BYTES = 192 << 20
"""Row groups that wait for a thread to encode them, or are encoded there."""


_LAST_PARTS = 4
"""Row groups that threads make of the last rows of a file, at most: each of them has a quarter of
the usual size at least."""

_FEW_GROUPS = 4
"""Row groups a thread, at most, that are made alike, so that threads have equal shares of them."""

_ABOVE = 1.05
"""What rows may take in memory of what the first ones let expect."""

_LEAST_GROUP_ROWS = 100
"""Rows that a row group has at least, as in the reference implementation."""


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """The options that data files are written with; `modes` are those of metrics by column.

    Units: `row_group_size_bytes` of rows in memory, `target_size_bytes` of files as stored.
    """

    target_size_bytes: int
    row_group_size_bytes: int
    parquet: ParquetOptions
    modes: Mapping[int, MetricsMode]


def write_options(
    properties: Mapping[str, str], target_size_bytes: int, modes: Mapping[int, MetricsMode]
) -> WriteOptions:
    """Return the options that the properties of a table ask for. Raises: Refused."""
    row_group_size_bytes = read(properties, PARQUET_ROW_GROUP_SIZE_BYTES)
    parquet = parquet_options(properties)
    return WriteOptions(target_size_bytes, row_group_size_bytes, parquet, modes)


def parquet_options(properties: Mapping[str, str]) -> ParquetOptions:
    """Read how the properties of a table ask for Parquet files to be written. Raises: Refused."""
    codec = read(properties, PARQUET_COMPRESSION)
    level = read(properties, PARQUET_COMPRESSION_LEVEL)
    level = OWN_LEVELS.get(codec) if level is None else level
    if codec == "uncompressed" or not pa.Codec.supports_compression_level(codec):
        level = None
    if level is not None:  # the nearest: other writers pass over a level that their codec lacks
        lowest = int(pa.Codec.minimum_compression_level(codec))
        level = max(lowest, min(level, int(pa.Codec.maximum_compression_level(codec))))
    return ParquetOptions(
        "none" if codec == "uncompressed" else codec,
        level,
        read(properties, PARQUET_PAGE_SIZE_BYTES),
        read(properties, PARQUET_PAGE_ROW_LIMIT),
        read(properties, PARQUET_DICTIONARY_SIZE_BYTES),
        bloom_filters(properties),
        read(properties, BLOOM_FILTER_MAX_BYTES),
    )


@dataclass(frozen=True, slots=True)
class FileOutputs:
    """The places where files go: `create` makes one that is there once left without an error."""

    next_location: Callable[[str], str]
    """A location that was not given before, for a partition's path."""
    create: Callable[[str], AbstractContextManager[IO[bytes]]]
    open: Callable[[str], IO[bytes]]
    assemble: Callable[[str], AbstractContextManager[Assembly] | None] = lambda _: None
    """Make a file as `create`, that the storage composes; none where it can't."""
    threads: int = 1
    """Threads that may read, encode and check rows of one task at a time."""

    @classmethod
    def without_places(cls, store: Store) -> "FileOutputs":
        """Those of work that reads files of a store, and places no new ones."""
        return cls(lambda _: "", store.open_new, store.open)

    @contextmanager
    def reading(self, location: str) -> Iterator[IO[bytes]]:
        """A file to read, named in what is wrong with it. Raises: MissingFile."""
        with present(location), self.open(location) as file, naming(location):
            yield file


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A new data file; `footer` is what its footer says, `metrics` what of it a manifest has.

    `not_assembled` says why the storage has not put it together by itself, where it was asked to.
    """

    location: str
    partition_key: bytes
    file_size_in_bytes: int
    footer: FileMetrics
    metrics: FileMetrics
    not_assembled: str = ""


class DataWriter:
    """A writer of batches of one schema into files, each of one partition; leave it to end them.

    Left with an error, files that are open are abandoned.
    """

    def __init__(
        self,
        schema: Schema,
        options: WriteOptions,
        outputs: FileOutputs,
        row_size_bytes: float,
        shredding: Shredding = MappingProxyType({}),
        row_count: int = 0,
    ) -> None:
        """Expect rows of `row_size_bytes` as stored, until some have been written.

        They are `row_count` at most, if that is known and all are of one partition.
        Variants of `shredding` have the types that these say.
        """
        self._schema = schema
        self._arrow = arrow_schema(schema, shredding)
        self._options = options
        self._outputs = outputs
        self._row_size_bytes = max(row_size_bytes, 0.01)
        self._row_count = row_count
        self._group_bytes = options.row_group_size_bytes
        self._open: dict[bytes, _NewFile] = {}
        self._pool: ThreadPoolExecutor | None = None
        if outputs.threads > 1 and can_write_side_by_side():
            self._pool = ThreadPoolExecutor(outputs.threads, thread_name_prefix="encode")
        self.written: list[WrittenFile] = []
        """Files that are complete, in the order in which they were ended."""

    def __enter__(self) -> "DataWriter":
        return self

    def __exit__(self, *error: Any) -> None:
        try:
            if error[0] is None:
                for partition_key in list(self._open):
                    self._end(partition_key)
        except BaseException:
            error = sys.exc_info()
            raise
        finally:
            for new in self._open.values():
                new.abandon(*error)
            if self._pool is not None:
                self._pool.shutdown(cancel_futures=True)

    def write(self, batch: pa.RecordBatch, partition_key: bytes, path: str) -> None:
        """Take rows of a partition; `path` is the one of its folder."""
        if self._row_count and batch.num_rows:
            self._group_bytes = self._even_group_bytes(
                self._row_count * batch.nbytes / batch.num_rows
            )
            self._row_count = 0
        while batch.num_rows:
            new = self._open.pop(partition_key, None)
            if new is None:
                if len(self._open) == MOST_OPEN_FILES:
                    self._end(next(iter(self._open)))
                new = _NewFile(
                    self._schema, self._arrow, self._options, self._outputs, partition_key, path,
                    self._pool,
                )  # fmt: skip
            self._open[partition_key] = new  # behind the others: it was written to last
            left_bytes = self._options.target_size_bytes - new.size_bytes
            rows_left = left_bytes / self._row_size_bytes - new.waiting_rows
            room = max(1, int(rows_left) - new.pending_rows)
            group_bytes = self._group_bytes
            in_group = (group_bytes - new.pending_bytes) * batch.num_rows // max(batch.nbytes, 1)
            room = min(room, max(in_group + 1, _LEAST_GROUP_ROWS))
            new.add(batch.slice(0, room))
            if room <= batch.num_rows or new.pending_bytes >= group_bytes:
                self._flush(new)
            batch = batch.slice(room)
        waiting = sum(new.pending_bytes for new in self._open.values())
        while waiting >= self._options.row_group_size_bytes:
            largest = max(self._open.values(), key=lambda new: new.pending_bytes)
            waiting -= largest.pending_bytes
            self._flush(largest)

    def _even_group_bytes(self, total_bytes: float) -> int:
        """Return the size of row groups of some rows, of which threads get equal shares."""
        usual, threads = self._options.row_group_size_bytes, self._outputs.threads
        shares = ceil(total_bytes * _ABOVE / usual / threads)
        if self._pool is None or shares > _FEW_GROUPS:
            return usual
        return max(usual // _LAST_PARTS, ceil(total_bytes * _ABOVE / (shares * threads)))

    def _flush(self, new: "_NewFile") -> None:
        new.flush()
        nearly = _NEARLY * self._options.target_size_bytes
        expected_bytes = new.size_bytes + new.waiting_rows * self._row_size_bytes
        if max(new.most_bytes, expected_bytes) >= nearly:
            new.drain()
        waiting = sum(of.waiting_bytes for of in self._open.values())
        for of in self._open.values():
            if waiting > _WAITING_BYTES * self._outputs.threads and of is not new:
                waiting -= of.waiting_bytes
                of.drain()
        if new.size_bytes:
            self._row_size_bytes = max(new.size_bytes / new.encoded_rows, 0.01)
        if new.size_bytes >= nearly:
            self._end(new.partition_key)

    def _end(self, partition_key: bytes) -> None:
        self.written.append(self._open[partition_key].end())
        del self._open[partition_key]


class _NewFile:
    """A file that is being written."""

    def __init__(
        self,
        schema: Schema,
        arrow: pa.Schema,
        options: WriteOptions,
        outputs: FileOutputs,
        partition_key: bytes,
        path: str,
        pool: ThreadPoolExecutor | None,
    ) -> None:
        """Let threads of a pool, if there is one, encode row groups beside one another."""
        self.partition_key = partition_key
        self.location = outputs.next_location(path)
        self._stack = ExitStack()
        self.row_count = self.pending_rows = self.pending_bytes = 0
        self._schema = schema
        self._options = options
        self._outputs = outputs
        self._pending: list[pa.RecordBatch] = []
        self._arrow = arrow
        columns = {
            id_: (item.type, place)
            for id_, item in schema.all_fields.items()
            if (is_real(item.type) or is_shape(item.type) or item.type in _OF_ANY_LENGTH)
            and (place := path_to(arrow, id_)) is not None
        }
        self._paths = {id_: path for id_, (type_, path) in columns.items() if is_real(type_)}
        self._nan_counts = dict.fromkeys(self._paths, 0)
        self._with_nan: set[int] = set()
        self._lengthy = {id_: path for id_, (_, path) in columns.items() if id_ not in self._paths}
        self._max_lengths: dict[int, int] = {}
        self._shape_columns = {id_: of for id_, of in columns.items() if is_shape(of[0])}
        self._shapes, self._all_shapes = self._no_shapes(), self._no_shapes()
        file = self._stack.enter_context(outputs.create(self.location))
        properties = {"iceberg.schema": json.dumps(schema_json(schema))}
        self._writer: ParquetWriter | SideBySideWriter
        if pool is None:
            self._writer = ParquetWriter(file, arrow, options.parquet, properties)
        else:
            most = outputs.threads * _WAITING_BYTES // max(options.row_group_size_bytes, 1)
            most = max(1, min(outputs.threads, most))
            self._writer = SideBySideWriter(file, arrow, options.parquet, properties, pool, most)

    @property
    def size_bytes(self) -> int:
        """The bytes of all row groups that are encoded."""
        return self._writer.size_bytes

    @property
    def waiting_rows(self) -> int:
        """The rows of row groups that are not encoded yet."""
        return self._writer.waiting_rows

    @property
    def waiting_bytes(self) -> int:
        """The bytes in memory of row groups that are not encoded yet."""
        return self._writer.waiting_bytes

    @property
    def encoded_rows(self) -> int:
        return self.row_count - self.waiting_rows

    @property
    def most_bytes(self) -> float:
        """What the file may have once all row groups are encoded."""
        if not self.encoded_rows:
            return self.waiting_bytes
        return self.size_bytes * (1 + _MARGIN * self.waiting_rows / self.encoded_rows)

    def drain(self) -> None:
        """Wait until all row groups are encoded."""
        self._writer.drain()

    def add(self, batch: pa.RecordBatch) -> None:
        """Hold a batch for the next row group; count its NaN and the bytes of its values."""
        self._pending.append(batch)
        self.pending_rows += batch.num_rows
        self.pending_bytes += batch.nbytes
        for id_, path in self._paths.items():
            values = inside(batch.column(path[0]), path[1:])
            nan_count = pc.sum(pc.is_nan(values)).as_py() or 0
            self._nan_counts[id_] += nan_count
            if nan_count:
                self._with_nan.add(id_)
        for id_, path in self._lengthy.items():
            values = inside(batch.column(path[0]), path[1:])
            longest = pc.max(pc.binary_length(values)).as_py()
            if longest is not None:
                self._max_lengths[id_] = max(longest, self._max_lengths.get(id_, 0))
        for id_, shapes in self._shapes.items():
            place, *inner = self._shape_columns[id_][1]
            shapes.add(inside(batch.column(place), tuple(inner)))

    def _no_shapes(self) -> dict[int, Shapes]:
        columns = self._shape_columns.items()
        return {id_: Shapes(isinstance(type_, GeographyType)) for id_, (type_, _) in columns}

    def flush(self, parts: int = 1) -> None:
        """Let the rows that wait become a row group, or several."""
        for part in range(parts if self.pending_rows else 0):
            rows: Sequence[pa.RecordBatch] = self._pending
            if parts > 1:
                start, stop = (self.pending_rows * at // parts for at in (part, part + 1))
                rows = pa.Table.from_batches(rows).slice(start, stop - start).to_batches()
            self._writer.write_row_group(rows, frozenset(self._with_nan), self._shapes)
        self.row_count += self.pending_rows
        self._pending = []
        self._with_nan = set()
        for id_, shapes in self._shapes.items():
            self._all_shapes[id_].merge(shapes)
        self._shapes = self._no_shapes()
        self.pending_rows = self.pending_bytes = 0

    def end(self) -> WrittenFile:
        """Close the file, and read its metrics back."""
        self.flush(self._last_parts)
        unread_metrics = footer_metrics(
            read_footer(self._writer.close()), self._arrow, self._schema
        )
        size_bytes = self.size_bytes
        self._stack.close()
        with self._outputs.open(self.location) as file:
            footer = read_metrics(file, self._schema)
        # NaN is greater than all else, or nothing: what is least is so for every reader.
        unread = unread_metrics.lower_bounds
        least = {id_: unread[id_] for id_ in self._nan_counts if id_ in unread}
        boxes = {id_: shape.box for id_, shape in self._all_shapes.items()}
        bounds = {id_: box.bounds() for id_, box in boxes.items() if box is not None}
        lower, upper = ({id_: ends[at] for id_, ends in bounds.items()} for at in (0, 1))
        counted = replace(
            footer,
            nan_value_counts=self._nan_counts,
            lower_bounds={**least, **footer.lower_bounds, **lower},
            upper_bounds={**footer.upper_bounds, **upper},
            max_lengths=self._max_lengths,
        )
        metrics = shaped_metrics(counted, self._schema, self._options.modes)
        return WrittenFile(self.location, self.partition_key, size_bytes, footer, metrics)

    @property
    def _last_parts(self) -> int:
        """The row groups that the last rows become, lest one thread encodes and others wait."""
        if isinstance(self._writer, ParquetWriter) or self._shapes:  # those are of a row group
            return 1
        least_bytes = max(self._options.row_group_size_bytes // _LAST_PARTS, 1)
        return max(1, min(self._outputs.threads, _LAST_PARTS, self.pending_bytes // least_bytes))

    def abandon(self, *error: Any) -> None:
        self._writer.abandon()
        self._stack.__exit__(*error)


def shaped_metrics(
    metrics: FileMetrics, schema: Schema, modes: Mapping[int, MetricsMode]
) -> FileMetrics:
    """Cut metrics of a file to what the modes of its columns ask a manifest to say.

    Shape: of columns inside of lists and maps the sizes only, as the reference implementation.
    """
    arrow = arrow_schema(schema)
    sized = {id_ for id_, mode in modes.items() if mode.has_counts}
    counted = {id_ for id_ in sized if path_to(arrow, id_) is not None}
    lower, upper = _cut(metrics, schema, {id_: modes[id_] for id_ in counted})
    shaped = FileMetrics(
        record_count=metrics.record_count,
        column_sizes=_only(metrics.column_sizes, sized),
        value_counts=_only(metrics.value_counts, counted),
        null_value_counts=_only(metrics.null_value_counts, counted),
        nan_value_counts=_only(metrics.nan_value_counts, counted - _only_nan(metrics)),
        lower_bounds=lower,
        upper_bounds=upper,
        average_lengths=_only(metrics.average_lengths, counted),
        max_lengths=_only(metrics.max_lengths, counted),
        split_offsets=metrics.split_offsets,
    )
    return replace(shaped, tight_bounds=_still_tight(metrics, lower, upper))


def _still_tight(
    metrics: FileMetrics, lower: Mapping[int, bytes], upper: Mapping[int, bytes]
) -> dict[int, bool]:
    """Return which bounds are still tight once they are cut; none where that was not known."""
    return {
        id_: lower[id_] == metrics.lower_bounds[id_] and upper[id_] == metrics.upper_bounds[id_]
        for id_, is_tight in metrics.tight_bounds.items()
        if is_tight and id_ in lower and id_ in upper
    }


def _only_nan(metrics: FileMetrics) -> set[int]:
    """Columns that have nothing but NaN: told so, Java skips the file, but NaN is above numbers."""
    counts = metrics.nan_value_counts.items()
    return {id_ for id_, count in counts if count and count == metrics.value_counts[id_]}


def _cut(
    metrics: FileMetrics, schema: Schema, modes: Mapping[int, MetricsMode]
) -> tuple[Mapping[int, bytes], Mapping[int, bytes]]:
    """Return the lower and upper bounds of columns that have modes, as short as these ask for."""
    lower, upper = {}, {}
    for id_ in sorted(modes.keys() & metrics.lower_bounds.keys()):
        item, longest = schema.field(id_), modes[id_].longest_bound
        # Java compares halves of UUIDs as signed numbers; merged footers have bounds of them.
        if item is None or not longest or item.type == PrimitiveType("uuid"):
            continue
        lower[id_] = lower_bound(item.type, metrics.lower_bounds[id_], longest)
        highest = metrics.upper_bounds.get(id_)
        above = None if highest is None else upper_bound(item.type, highest, longest)
        if above is not None:
            upper[id_] = above
    return lower, upper


def columns_without_bounds(
    written: WrittenFile, schema: Schema, modes: Mapping[int, MetricsMode]
) -> Mapping[int, NestedField]:
    """Return columns of text and bytes that want bounds and have none in the footer.

    The writer leaves those out of footers that are longer than 4 KiB.
    """
    footer = written.footer
    return {
        id_: item
        for id_, item in schema.all_fields.items()
        if item.type in _OF_ANY_LENGTH
        and id_ in modes
        and modes[id_].longest_bound
        and id_ in written.metrics.value_counts
        and id_ not in footer.lower_bounds
        and footer.null_value_counts.get(id_) != footer.value_counts[id_]  # else it has no value
    }


def with_bounds(
    written: WrittenFile, facts: Mapping[int, ColumnFacts], schema: Schema, options: WriteOptions
) -> WrittenFile:
    """Return a new file with the bounds of columns that were measured in its rows."""
    types = {id_: item.type for id_, item in schema.all_fields.items()}
    with_values = {id_: measured for id_, measured in facts.items() if measured.lower is not None}
    measured = FileMetrics(
        written.metrics.record_count,
        lower_bounds={id_: encode(types[id_], of.lower) for id_, of in with_values.items()},
        upper_bounds={id_: encode(types[id_], of.upper) for id_, of in with_values.items()},
        tight_bounds=dict.fromkeys(with_values, True),
    )
    lower, upper = _cut(measured, schema, options.modes)
    tight = {**written.metrics.tight_bounds, **_still_tight(measured, lower, upper)}
    return _with_more(written, lower, upper, tight_bounds=tight)


def _with_more(
    written: WrittenFile, lower: Mapping[int, bytes], upper: Mapping[int, bytes], **others: Any
) -> WrittenFile:
    """Return a new file with more bounds, and with other members of its metrics."""
    metrics = replace(
        written.metrics,
        lower_bounds=dict(sorted({**written.metrics.lower_bounds, **lower}.items())),
        upper_bounds=dict(sorted({**written.metrics.upper_bounds, **upper}.items())),
        **others,
    )
    return replace(written, metrics=metrics)


def with_joined_bounds(
    written: WrittenFile, sources: Sequence[FileMetrics], schema: Schema, options: WriteOptions
) -> WrittenFile:
    """Return a new file with bounds of variants, joined of those of all files its rows are from.

    So are those of shapes, where the file itself does not tell of a box around them. `sources` is
    what entries state of these. A column of which one has no bounds gets none, unless it has
    nothing but nulls there.
    """
    lower, upper = dict(written.metrics.lower_bounds), dict(written.metrics.upper_bounds)
    for id_, item in schema.all_fields.items():
        is_wanted = id_ in options.modes and options.modes[id_].longest_bound
        having = [source for source in sources if not _has_only_nulls(source, id_)]
        if is_wanted and is_shape(item.type) and id_ not in lower:
            box = _joined_box(having, id_, is_geography=isinstance(item.type, GeographyType))
            if box is not None:
                lower[id_], upper[id_] = box.bounds()
        if item.type != _VARIANT or not is_wanted:
            continue
        sides: tuple[tuple[Side, dict[int, bytes]], ...] = (("lower", lower), ("upper", upper))
        for side, joined in sides:
            of_side = [getattr(source, f"{side}_bounds").get(id_) for source in having]
            known_bounds = [bound for bound in of_side if bound is not None]
            if having and len(known_bounds) == len(having):
                with suppress(ValueError):  # level metadata reports it
                    found = joined_bounds(known_bounds, side)
                    if found is not None:
                        joined[id_] = found
    return _with_more(written, lower, upper)


def with_stated_metrics(
    written: WrittenFile,
    sources: Sequence[FileMetrics],
    schema: Schema,
    options: WriteOptions,
    *,
    has_all_rows: bool,
) -> WrittenFile:
    """Return a merged file with metrics that footers lack: counts of NaN, and some bounds.

    `sources` is what entries state of all files it was made of, and `has_all_rows` of these or not.
    What one of them does not state of a column is unknown, unless it has only nulls there.
    """
    metrics = written.metrics
    nan_counts: dict[int, int] = {}
    lower: dict[int, bytes] = {}
    upper: dict[int, bytes] = {}
    for id_ in metrics.value_counts:
        item = schema.field(id_)
        having = [source for source in sources if not _has_only_nulls(source, id_)]
        if item is None or not (is_real(item.type) or item.type in _OF_ANY_LENGTH):
            continue
        counts = [source.nan_value_counts.get(id_) for source in having]
        known_counts = [count for count in counts if count is not None]
        if has_all_rows and is_real(item.type) and len(known_counts) == len(counts):
            nan_counts[id_] = sum(known_counts)
        if id_ not in metrics.lower_bounds:
            numbered = [source for source in having if not _has_only_nan(source, id_)]
            _join_bound("lower", [source.lower_bounds for source in numbered], item, lower)
            _join_bound("upper", [source.upper_bounds for source in numbered], item, upper)
    stated = replace(
        metrics,
        nan_value_counts=nan_counts,
        lower_bounds=lower,
        # NaN may be greater than what is greatest of all else.
        upper_bounds={
            id_: bound
            for id_, bound in upper.items()
            if not is_real(schema.all_fields[id_].type) or nan_counts.get(id_) == 0
        },
    )
    counts_by_id = _only(nan_counts, set(nan_counts) - _only_nan(stated))
    bounds_cut = _cut(stated, schema, options.modes)
    return _with_more(written, *bounds_cut, nan_value_counts=counts_by_id)


def _join_bound(
    side: Side, bounds: Sequence[Mapping[int, bytes]], item: NestedField, joined: dict[int, bytes]
) -> None:
    """Add the least or the greatest of the bounds of a column; nothing if one has none."""
    try:
        values = [decode(item.type, of_file[item.id]) for of_file in bounds]
    except (KeyError, ValueError):
        return  # level metadata reports those that are none
    ends = widest(values, values)
    if ends is not None:
        joined[item.id] = encode(item.type, ends[0 if side == "lower" else 1])


def _joined_box(
    sources: Sequence[FileMetrics], id_: int, *, is_geography: bool
) -> BoundingBox | None:
    """Return the box around those that the bounds of a column are; None where one has none."""
    joined: BoundingBox | None = None
    for source in sources:
        try:
            box = decode_box(source.lower_bounds.get(id_, b""), source.upper_bounds.get(id_, b""))
        except ValueError:
            return None  # level metadata reports those that there are
        if not box.may_bound(is_geography=is_geography):
            return None
        joined = box if joined is None else joined.joined(box, is_geography=is_geography)
    return joined


def _has_only_nulls(metrics: FileMetrics, id_: int) -> bool:
    nulls = metrics.null_value_counts.get(id_)
    return nulls is not None and nulls == metrics.value_counts.get(id_)


def _has_only_nan(metrics: FileMetrics, id_: int) -> bool:
    """Whether a column has no values but NaN and nulls."""
    counts = (metrics.nan_value_counts.get(id_), metrics.null_value_counts.get(id_))
    known = [count for count in counts if count is not None]
    return len(known) == len(counts) and sum(known) == metrics.value_counts.get(id_)


def _only(counts: Mapping[int, int], ids: set[int]) -> Mapping[int, int]:
    return {id_: count for id_, count in sorted(counts.items()) if id_ in ids}
