"""Compute metrics of a data file from its Parquet footer."""

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from io import BytesIO
from typing import IO, Any, NamedTuple
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from icectl.files.arrow_failures import reading_data_file
from icectl.files.parquet.footer import ChunkProofs, FooterChanges, changed, chunk_statistics
from icectl.files.parquet.schema import (
    METADATA,
    Leaf,
    NameMapping,
    arrow_type,
    leaves,
    schema_with_ids,
)
from icectl.format import single_value
from icectl.format.bounding_box import BoundingBox
from icectl.format.schema import Schema
from icectl.format.single_value import Value
from icectl.format.types import (
    DecimalType,
    FixedType,
    GeographyType,
    GeometryType,
    PrimitiveType,
    Type,
)

_NANOSECONDS = {"milliseconds": 1_000_000, "microseconds": 1000, "nanoseconds": 1}
_DAY_NS = 86_400_000_000_000
_MAGIC = b"PAR1"
_BYTES = ("BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY")
_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 12, "FLOAT": 4, "DOUBLE": 8}


@dataclass(frozen=True, slots=True)
class FileMetrics:
    """Metrics of one data file by field id; a missing key is unknown (R-130).

    Bounds are single-value bytes, not truncated. Footers count no NaN. Those of `exact_bounds` are
    values of the column; others may be wider than it. `tight_bounds` is what is proven of this, of
    both bounds. `average_lengths` are bytes of a value of text, bytes or shapes, rounded down;
    `max_lengths` those of the longest, which no footer says.
    """

    record_count: int
    column_sizes: Mapping[int, int] = field(default_factory=dict)
    value_counts: Mapping[int, int] = field(default_factory=dict)
    null_value_counts: Mapping[int, int] = field(default_factory=dict)
    nan_value_counts: Mapping[int, int] = field(default_factory=dict)
    lower_bounds: Mapping[int, bytes] = field(default_factory=dict)
    upper_bounds: Mapping[int, bytes] = field(default_factory=dict)
    exact_bounds: frozenset[int] = frozenset()
    tight_bounds: Mapping[int, bool] = field(default_factory=dict)
    average_lengths: Mapping[int, int] = field(default_factory=dict)
    max_lengths: Mapping[int, int] = field(default_factory=dict)
    split_offsets: tuple[int, ...] = ()


def read_metrics(file: IO[bytes], schema: Schema, name_mapping: NameMapping = ()) -> FileMetrics:
    """Read the metrics of a Parquet data file; only its footer is read.

    Shape: counts for every column with a field id; bounds for primitive columns of `schema` outside
    of lists and maps, where every row group states them. A file without field ids gets those of
    `name_mapping`.
    Units: bounds in the types of `schema`, whatever width or unit the file has.
    Raises: CorruptTable R-099, when the file is no Parquet file; Unsupported, for columns that
    pyarrow doesn't know.
    Spec: field-level metrics; the counts of a column inside a list or map are those of its leaf
    values, as the reference implementation writes them; those of a variant are of its metadata.
    """
    with reading_data_file("Parquet"):
        metadata = pq.read_metadata(file)
        stored = schema_with_ids(metadata.schema.to_arrow_schema(), name_mapping)
    return footer_metrics(read_footer(metadata), stored, schema)


def footer_metrics(
    footer: "Footer", stored: pa.Schema, schema: Schema, *, only: bool = False
) -> FileMetrics:
    """Return a footer's metrics as read_metrics, of all columns or `only` those of `schema`."""
    rows = footer.metadata.num_rows
    return _metrics(footer, rows, footer.groups, stored, schema, only=only)


def row_group_metrics(footer: "Footer", stored: pa.Schema, schema: Schema) -> Sequence[FileMetrics]:
    """The metrics that a Parquet footer states of each row group with rows, as footer_metrics."""
    return [
        _metrics(footer, group.num_rows, {number: group}, stored, schema)
        for number, group in footer.groups.items()
    ]


@dataclass(frozen=True, slots=True)
class Footer:
    """A footer, its row groups with rows by number, and what it proves of chunks."""

    metadata: Any
    groups: Mapping[int, Any]
    proofs: ChunkProofs | None

    def is_exact(self, chunks: Sequence[int]) -> bool:
        return self.proofs is not None and bool(self.proofs.exact[chunks].all())

    def value_bytes(self, chunks: Sequence[int]) -> int | None:
        """Return how long texts and bytes of chunks are together; None where it is not known."""
        sizes = None if self.proofs is None else self.proofs.value_bytes[chunks]
        return None if sizes is None or (sizes < 0).any() else int(sizes.sum())


def _metrics(
    footer: Footer,
    record_count: int,
    row_groups: Mapping[int, Any],
    stored: pa.Schema,
    schema: Schema,
    *,
    only: bool = False,
) -> FileMetrics:
    sizes: dict[int, int] = {}
    values: dict[int, int] = {}
    nulls: dict[int, int] = {}
    lengths: dict[int, int] = {}
    bounds: dict[int, _Bounds] = {}
    metadata = footer.metadata
    for place, leaf in zip(range(metadata.num_columns), leaves(stored), strict=True):
        id_ = leaf.field_id
        if id_ is None or (only and schema.field(id_) is None):
            continue
        numbers = [number * metadata.num_columns + place for number in row_groups]
        chunks = [group.column(place) for group in row_groups.values()]
        sizes[id_] = sizes.get(id_, 0) + sum(chunk.total_compressed_size for chunk in chunks)
        if leaf.part not in (None, METADATA):
            continue  # a variant is counted by its metadata, which each one has
        values[id_] = sum(chunk.num_values for chunk in chunks)
        statistics = [chunk.statistics for chunk in chunks]
        if all(stated is not None and stated.has_null_count for stated in statistics):
            nulls[id_] = sum(int(stated.null_count) for stated in statistics)
        column = schema.field(id_)
        if column is None or leaf.is_repeated or leaf.part is not None:
            continue
        descriptor = metadata.schema.column(place)
        is_bytes = descriptor.physical_type in _BYTES
        total = footer.value_bytes(numbers) if is_bytes else None
        count = values[id_] - nulls.get(id_, values[id_])
        if total is not None and count > 0:
            lengths[id_] = total // count
        numbered = list(zip(numbers, chunks, statistics, strict=True))
        if (found := _bounds(footer, leaf, column.type, descriptor, numbered)) is not None:
            bounds[id_] = found
    return FileMetrics(
        record_count=record_count,
        column_sizes=sizes,
        value_counts=values,
        null_value_counts=nulls,
        lower_bounds={id_: found.lower for id_, found in bounds.items()},
        upper_bounds={id_: found.upper for id_, found in bounds.items()},
        exact_bounds=frozenset(id_ for id_, found in bounds.items() if found.is_exact),
        tight_bounds={id_: True for id_, found in bounds.items() if found.is_tight},
        average_lengths=lengths,
        split_offsets=split_offsets(row_groups.values()),
    )


class _Bounds(NamedTuple):
    lower: bytes
    upper: bytes
    is_exact: bool = False
    is_tight: bool = False


def _bounds(
    footer: Footer,
    leaf: Leaf,
    type_: Type,
    descriptor: Any,
    chunks: Sequence[tuple[int, Any, Any]],
) -> _Bounds | None:
    """Return a column's bounds by its chunks: each with its number in the footer and statistics."""
    if leaf.type in (pa.uint32(), pa.uint64()):
        return None  # pyarrow gives these bounds as signed numbers
    if isinstance(type_, GeometryType | GeographyType):
        box = _box([chunk for _, chunk, _ in chunks], is_geography=isinstance(type_, GeographyType))
        return None if box is None else _Bounds(*box.bounds())
    with_values = [
        (number, stated)
        for number, chunk, stated in chunks
        if stated is None or not (stated.has_null_count and stated.null_count == chunk.num_values)
    ]
    range_ = _range([stated for _, stated in with_values], _reader(type_, descriptor))
    if range_ is None:
        return None
    try:
        lower, upper = (single_value.encode(type_, bound) for bound in range_)
    except ValueError:  # beyond the type, as year 9999 of dates promoted to nanoseconds
        return None
    wanted = arrow_type(type_)
    is_tight = leaf.type == wanted and not any(map(_is_zero, range_))
    return _Bounds(
        lower,
        upper,
        # Only bounds of bytes are ever cut, and those in nanoseconds rounded.
        is_exact=descriptor.physical_type not in _BYTES and not _is_finer(leaf.type, wanted),
        is_tight=is_tight and footer.is_exact([number for number, _ in with_values]),
    )


def read_footer(metadata: Any) -> Footer:
    """Return pyarrow's metadata without bounds that are not as long as the values of their column.

    Where one is shorter, pyarrow ends the process. Writers in Rust cut the bounds of long values.
    A writer without rows may leave a row group whose offsets mean nothing.
    """
    content = footer_bytes(metadata)
    columns = (metadata.schema.column(place) for place in range(metadata.num_columns))
    widths = [_WIDTHS.get(column.physical_type) or max(column.length, 0) for column in columns]
    found = chunk_statistics(content)
    chunks, sizes = found.bound_chunks, found.bound_sizes
    expected = np.resize(np.array(widths, np.int64), chunks.max(initial=-1) + 1)[chunks]
    misfits = chunks[(expected > 0) & (sizes != expected)].tolist()
    if misfits:
        places = frozenset(divmod(chunk, len(widths)) for chunk in misfits)
        footer = changed(content, FooterChanges(places))
        ending = len(footer).to_bytes(4, "little") + _MAGIC
        metadata = pq.read_metadata(BytesIO(_MAGIC + footer + ending))
    groups = {number: metadata.row_group(number) for number in range(metadata.num_row_groups)}
    with_rows = {number: group for number, group in groups.items() if group.num_rows}
    return Footer(metadata, with_rows, found.proofs)


def footer_bytes(metadata: Any) -> bytes:
    """Return pyarrow's metadata as it is in files, encoded."""
    file = BytesIO()
    metadata.write_metadata_file(file)
    return file.getvalue()[len(_MAGIC) : -len(_MAGIC) - 4]


def split_offsets(row_groups: Iterable[Any]) -> tuple[int, ...]:
    """Return where row groups start, in ascending order (R-067)."""
    return tuple(sorted(map(row_group_offset, row_groups)))


def row_group_offset(row_group: Any) -> int:
    """Find where a row group starts: at its first column's dictionary, else at its first page."""
    chunk = row_group.column(0)
    if chunk.has_dictionary_page:
        return int(min(chunk.dictionary_page_offset, chunk.data_page_offset))
    return int(chunk.data_page_offset)


def _range(
    stated: Sequence[Any], read: Callable[[Any], Value | None]
) -> tuple[Value, Value] | None:
    """Return the smallest and the largest value over chunks with values; None if one can't tell."""
    lower: list[Value] = []
    upper: list[Value] = []
    for statistics in stated:
        if statistics is None or not statistics.has_min_max:
            return None
        smallest, largest = read(statistics.min_raw), read(statistics.max_raw)
        if smallest is None or largest is None:
            return None
        lower.append(smallest)
        upper.append(largest)
    return widest(lower, upper)


def widest(lower: Sequence[Value], upper: Sequence[Value]) -> tuple[Value, Value] | None:
    """Return the least and the greatest of some bounds; None without any, or where one is NaN."""
    if not lower or any(isinstance(one, float) and math.isnan(one) for one in (*lower, *upper)):
        return None
    smallest, largest = min(lower), max(upper)
    # A zero in a footer may stand for either zero, so that the wider one is the safe bound.
    return -0.0 if _is_zero(smallest) else smallest, 0.0 if _is_zero(largest) else largest


def _box(chunks: Sequence[Any], *, is_geography: bool) -> BoundingBox | None:
    """Return the box around the shapes of all row groups; None where one can't tell (R-093)."""
    whole: BoundingBox | None = None
    for chunk in chunks:
        counts = chunk.statistics
        if counts is not None and counts.has_null_count and counts.null_count == chunk.num_values:
            continue
        stated = chunk.geo_statistics if chunk.is_geo_stats_set else None
        if stated is None or stated.xmin is None or stated.ymin is None:
            return None
        box = BoundingBox(
            (stated.xmin, stated.ymin, *_depth(stated.zmin, stated.mmin)),
            (stated.xmax, stated.ymax, *_depth(stated.zmax, stated.mmax)),
        )
        if not box.may_bound(is_geography=is_geography):
            return None  # Parquet has boxes of geometry across the line at 180 degrees too
        whole = box if whole is None else whole.joined(box, is_geography=is_geography)
    return whole


def _depth(z: float | None, m: float | None) -> tuple[float, float]:
    return math.nan if z is None else z, math.nan if m is None else m


def _is_finer(stored: pa.DataType, column: pa.DataType) -> bool:
    """Whether values are stored in nanoseconds of which their column has only microseconds."""
    return getattr(stored, "unit", "") == "ns" and getattr(column, "unit", "ns") != "ns"


def _is_zero(value: Value) -> bool:
    return isinstance(value, float) and value == 0


def _reader(type_: Type, column: Any) -> Callable[[Any], Value | None]:
    """Choose how a raw Parquet value becomes a value of a type; None where there is no bound."""
    name = type_.name if isinstance(type_, PrimitiveType) else type(type_).__name__
    if column.physical_type not in _PHYSICAL_TYPES.get(name, ()):
        return lambda _: None
    if isinstance(type_, DecimalType):

        def decimal(raw: int | bytes) -> Decimal:
            whole = raw if isinstance(raw, int) else int.from_bytes(raw, "big", signed=True)
            return Decimal(whole).scaleb(-type_.scale, single_value.EXACT)

        return decimal
    if name in _TEMPORAL:
        scale = _TEMPORAL[name]
        logical = json.loads(column.logical_type.to_json())
        # Dates count days, since they may be promoted.
        is_date = logical["Type"] == "Date"
        unit = _DAY_NS if is_date else _NANOSECONDS.get(logical.get("timeUnit", ""), scale)
        return lambda raw: raw * unit // scale
    return _READERS[name]


_TEMPORAL = {
    "time": 1000, "timestamp": 1000, "timestamptz": 1000, "timestamp_ns": 1, "timestamptz_ns": 1,
}  # fmt: skip
"""Nanoseconds in one unit of the values of each type."""

_PHYSICAL_TYPES: Mapping[str, Sequence[str]] = {
    "boolean": ("BOOLEAN",),
    "float": ("FLOAT",),
    "double": ("FLOAT", "DOUBLE"),
    **dict.fromkeys(("int", "date"), ("INT32",)),
    **dict.fromkeys(("long", *_TEMPORAL), ("INT32", "INT64")),
    **dict.fromkeys(("string", "binary"), ("BYTE_ARRAY",)),
    **dict.fromkeys(("uuid", FixedType.__name__), ("FIXED_LEN_BYTE_ARRAY",)),
    DecimalType.__name__: ("INT32", "INT64", "FIXED_LEN_BYTE_ARRAY", "BYTE_ARRAY"),
}
"""What a column may be stored as, narrower types of promoted columns included (R-095, R-097)."""


def _float(raw: float) -> float | None:
    return None if math.isnan(raw) else raw


def _string(raw: bytes) -> str | None:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return None


_READERS: Mapping[str, Callable[[Any], Value | None]] = {
    "boolean": bool,
    "int": int,
    "long": int,
    "date": int,
    "float": _float,
    "double": _float,
    "string": _string,
    "binary": bytes,
    "uuid": lambda raw: UUID(bytes=raw) if len(raw) == 16 else None,
    FixedType.__name__: bytes,
}
