"""Manifest entries as Arrow tables: as stored, with inherited values, and the columns for plans.

Every table is ordered by (`manifest`, `manifest_pos`); masks keep this order.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from icectl.entries.columns import replace_column
from icectl.format.manifest import Content, FileFormat, Status

PLANNING = pa.schema(
    [
        pa.field("content", pa.int8(), nullable=False),
        pa.field("status", pa.int8(), nullable=False),
        pa.field("location", pa.string(), nullable=False),
        pa.field("file_format", pa.int8(), nullable=False),
        pa.field("spec_id", pa.int32(), nullable=False),
        pa.field("partition_key", pa.binary(), nullable=False),
        pa.field("record_count", pa.int64(), nullable=False),
        pa.field("file_size_in_bytes", pa.int64(), nullable=False),
        pa.field("snapshot_id", pa.int64()),
        pa.field("sequence_number", pa.int64()),
        pa.field("file_sequence_number", pa.int64()),
        pa.field("first_row_id", pa.int64()),
        pa.field("sort_order_id", pa.int32()),
        pa.field("referenced_data_file", pa.string()),
        pa.field("content_offset", pa.int64()),
        pa.field("content_size_in_bytes", pa.int64()),
        pa.field("manifest", pa.int32(), nullable=False),
        pa.field("manifest_pos", pa.int32(), nullable=False),
    ]
)
"""`manifest` indexes the list of manifests that the entries were read from; (`manifest`,
`manifest_pos`) orders every entries table. `partition_key` is the canonical tuple of
entries/partition_key.py. `content`, `status`, `file_format` are the codes of format/manifest.py."""

CARRIED = pa.schema(
    [
        pa.field("column_sizes", pa.map_(pa.int32(), pa.int64())),
        pa.field("value_counts", pa.map_(pa.int32(), pa.int64())),
        pa.field("null_value_counts", pa.map_(pa.int32(), pa.int64())),
        pa.field("nan_value_counts", pa.map_(pa.int32(), pa.int64())),
        pa.field("lower_bounds", pa.map_(pa.int32(), pa.binary())),
        pa.field("upper_bounds", pa.map_(pa.int32(), pa.binary())),
        pa.field("key_metadata", pa.binary()),
        pa.field("split_offsets", pa.list_(pa.int64())),
        pa.field("equality_ids", pa.list_(pa.int32())),
    ]
)
"""Metrics as stored: bounds are single-value bytes of the type at write time (R-096)."""

PROVEN = pa.schema(
    [
        pa.field("tight_bounds", pa.map_(pa.int32(), pa.bool_())),
        pa.field("average_lengths", pa.map_(pa.int32(), pa.int64())),
        pa.field("max_lengths", pa.map_(pa.int32(), pa.int64())),
    ]
)
"""What footers and rows prove of new files that only entries of layout sfc-1 have a place for."""

PLANNING_COLUMNS: frozenset[str] = frozenset(PLANNING.names)
CARRIED_COLUMNS: frozenset[str] = frozenset(CARRIED.names)
ALL_COLUMNS: frozenset[str] = PLANNING_COLUMNS | CARRIED_COLUMNS
"""Every column: what a rewrite of a manifest asks for."""

COLUMNS = pa.schema([*PLANNING, *CARRIED])


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows as an Arrow table; what they are rows of is the class."""

    table: pa.Table

    def __len__(self) -> int:
        return int(self.table.num_rows)


class RawEntries(Rows):
    """Rows as their manifests store them: null numbers not yet inherited (R-042)."""


class Entries(Rows):
    """Rows with inheritance resolved: snapshot id and both sequence numbers are non-null."""


E = TypeVar("E", RawEntries, Entries)

EMPTY = Entries(COLUMNS.empty_table())

_FORMATS = {format_.name: format_ for format_ in FileFormat}
_UNKNOWN = FileFormat.UNKNOWN
GROUP_KEYS = ["spec_id", "partition_key"]
_LOCAL_SPELLING = r"^(?i:file):(?:(?://(?:localhost)?)?(/(?:[^/]|$))|([^/]))"


def entries_from(rows: Sequence[Mapping[str, Any]]) -> Entries:
    """Return entries of rows by column; what a row lacks is null. Order: kept."""
    return Entries(pa.Table.from_pylist(list(rows), schema=COLUMNS))


def format_names(codes: pa.ChunkedArray) -> pa.ChunkedArray:
    """Name the file formats of entries, as manifests do. Order: kept."""
    names = pa.array([format_.name for format_ in sorted(FileFormat)])
    return names.take(codes.combine_chunks())


def format_codes(names: pa.Array | pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the codes of file formats by name, compared without case. Order: kept."""
    encoded = names.dictionary_encode()
    chunks = encoded.chunks if isinstance(encoded, pa.ChunkedArray) else [encoded]
    parts = []
    for chunk in chunks:
        shown = (name if name is None else name.upper() for name in chunk.dictionary.to_pylist())
        codes = [name if name is None else _FORMATS.get(name, _UNKNOWN) for name in shown]
        parts.append(pa.array(codes, pa.int8()).take(chunk.indices))
    return pa.chunked_array(parts, pa.int8())


def live(entries: E) -> E:
    """Return rows that a scan reads: status ADDED or EXISTING. Order: kept."""
    return _without(entries, "status", Status.DELETED)


def of_status(entries: E, *statuses: Status) -> E:
    """Return rows with one of the statuses. Order: kept."""
    return _only(entries, "status", statuses)


def as_existing(entries: E) -> E:
    """Return the same rows with status EXISTING. Order: kept."""
    return _filled(entries, "status", Status.EXISTING)


def with_some_deleted(entries: E, gone: npt.NDArray[np.bool_], snapshot_id: int) -> E:
    """Return rows as written by a snapshot that removes some (R-064): EXISTING, or DELETED."""
    marked = as_existing(entries).table
    for name, value in (("status", int(Status.DELETED)), ("snapshot_id", snapshot_id)):
        new = pa.scalar(value, marked.schema.field(name).type)
        marked = replace_column(marked, name, pc.if_else(pa.array(gone), new, marked[name]))
    return type(entries)(marked)


def with_snapshot(entries: E, snapshot_id: int) -> E:
    """Return the same rows with a snapshot id where they have none. Order: kept."""
    column = pc.fill_null(entries.table["snapshot_id"], snapshot_id)
    return type(entries)(replace_column(entries.table, "snapshot_id", column))


def with_values(entries: E, column: str, values: Sequence[Any]) -> E:
    """The same rows with other values in a column, nested ones as lists and pairs. Order: kept."""
    array = pa.array(values, entries.table.schema.field(column).type)
    return type(entries)(replace_column(entries.table, column, array))


def of(entries: E, *contents: Content) -> E:
    """Return rows of these contents; vectors are position deletes too (R-118). Order: kept."""
    return _only(entries, "content", contents)


def data_files(entries: E) -> E:
    """Keep the rows of data files. Order: kept."""
    return of(entries, Content.DATA)


def delete_files(entries: E) -> E:
    """Return rows of delete files of every kind, vectors too. Order: kept."""
    return of(entries, Content.POSITION_DELETES, Content.EQUALITY_DELETES)


def equality_delete_files(entries: E) -> E:
    """Return rows of equality delete files. Order: kept."""
    return of(entries, Content.EQUALITY_DELETES)


def position_delete_files(entries: E) -> E:
    """Return rows of position delete files that are no deletion vectors. Order: kept."""
    return _without(of(entries, Content.POSITION_DELETES), "file_format", FileFormat.PUFFIN)


def deletion_vectors(entries: E) -> E:
    """Return rows of deletion vectors: position deletes in a Puffin file. Order: kept."""
    return _only(of(entries, Content.POSITION_DELETES), "file_format", [FileFormat.PUFFIN])


def in_manifests(entries: E, manifests: Collection[int]) -> E:
    """Return rows read from the manifests with these indices. Order: kept."""
    return _only(entries, "manifest", manifests)


def of_specs(entries: E, spec_ids: Collection[int]) -> E:
    """Return rows written with one of the partition specs. Order: kept."""
    return _only(entries, "spec_id", spec_ids)


def by_spec(entries: E) -> Iterator[tuple[int, E]]:
    """Yield rows by their partition spec. Order: specs ascend; rows keep theirs."""
    for spec_id in sorted(count_by_value(entries, "spec_id")):
        yield spec_id, of_specs(entries, [spec_id])


def are_among(entries: E, others: E) -> npt.NDArray[np.bool_]:
    """Return whether each row is one of the others, by manifest and position in it. Order: kept."""
    places, wanted = (
        numbers(part, "manifest") << 32 | numbers(part, "manifest_pos")
        for part in (entries, others)
    )
    return np.isin(places, wanted)


def are_at(entries: E, locations: Collection[str]) -> npt.NDArray[np.bool_]:
    """Return whether each row's location is one of these, as spelt. Order: kept."""
    return index_in(entries.table["location"], pa.array(sorted(locations), pa.string())) >= 0


def are_deletes(entries: E, keys: Collection[tuple[str, int | None]]) -> npt.NDArray[np.bool_]:
    """Return whether each row's location and content offset are one of these. Cost: as by_row."""
    identities = by_row(entries, "location", "content_offset")
    return np.fromiter((key in keys for key in identities), np.bool_, len(entries))


def smaller_than(entries: E, size_bytes: int) -> E:
    """Return rows of files below a size. Order: kept."""
    return where(entries, pc.less(entries.table["file_size_in_bytes"], size_bytes))


def where(entries: E, mask: pa.Array | pa.ChunkedArray | npt.NDArray[np.bool_]) -> E:
    """Return rows whose mask is true, not null; only chunks that lose rows are copied."""
    kept = pa.array(mask) if isinstance(mask, np.ndarray) else mask
    if _all_true(kept):
        return entries
    flags = kept.combine_chunks() if isinstance(kept, pa.ChunkedArray) else kept
    parts, start = [], 0
    for batch in entries.table.to_batches():
        of_batch = flags.slice(start, batch.num_rows)
        start += batch.num_rows
        parts.append(batch if _all_true(of_batch) else batch.filter(of_batch))
    return type(entries)(pa.Table.from_batches(parts, entries.table.schema))


def _all_true(mask: pa.Array | pa.ChunkedArray) -> bool:
    return bool(pc.all(mask, skip_nulls=False, min_count=0).as_py())


def without(entries: E, rows: npt.NDArray[np.int64]) -> E:
    """Return all rows but those at these positions of the table. Order: kept."""
    kept = np.ones(len(entries), np.bool_)
    kept[rows] = False
    return where(entries, kept)


def planning(entries: E) -> E:
    """Return the planning columns alone: masks and joins would copy the others for nothing."""
    names = [name for name in PLANNING.names if name in entries.table.column_names]
    return type(entries)(entries.table.select(names))


def only(entries: E, locations: pa.Array | pa.ChunkedArray) -> E:
    """Return rows at one of `locations`, compared by `location_keys`. Order: kept."""
    return where(entries, _named(entries, locations))


def minus(entries: E, locations: pa.Array | pa.ChunkedArray) -> E:
    """Return rows at none of `locations`, compared by `location_keys`. Order: kept."""
    return where(entries, pc.invert(_named(entries, locations)))


def location_keys(locations: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Locations with one spelling per local file: `file:///p`, `file://localhost/p`, `/p` as `/p`.

    Shape: one key per location; null stays null.
    Order: kept.
    Spec: sfc-1 L3.
    """
    spelled = pc.starts_with(locations, "file:", ignore_case=True)
    if not pc.any(spelled, skip_nulls=True).as_py():
        return locations
    return pc.replace_substring_regex(locations, pattern=_LOCAL_SPELLING, replacement=r"\1\2")


def locations(entries: E) -> pa.Array:
    """Distinct locations, as stored. Order: of first appearance."""
    return pc.unique(entries.table["location"])


def repeats(keys: pa.Array | pa.ChunkedArray) -> npt.NDArray[np.bool_]:
    """Return whether each value occurs earlier too; null never does. Order: kept."""
    known = pc.drop_null(pc.unique(keys))
    codes = index_in(keys, known)
    first = np.unique(codes, return_index=True)[1]
    mask = codes >= 0
    mask[first] = False
    return mask


def concat(parts: Iterable[Entries]) -> Entries:
    """Return all parts one after the other, without a copy; EMPTY where there is none.

    Columns that only some of them have, as those of PROVEN, are null in the others.
    """
    tables = [part.table for part in parts]
    return Entries(pa.concat_tables(tables, promote_options="default")) if tables else EMPTY


def with_manifest_number(entries: E, manifest: int) -> E:
    """Return the rows with another number in their `manifest` column. Order: kept."""
    return _filled(entries, "manifest", manifest)


def renumbered(entries: E, manifests: Sequence[int]) -> E:
    """Return the rows with each `manifest` as its place among `manifests`. Order: kept."""
    numbers = entries.table["manifest"]
    places = pc.index_in(numbers, value_set=pa.array(manifests, numbers.type))
    return type(entries)(replace_column(entries.table, "manifest", places.cast(numbers.type)))


def at_places(entries: E, places: Sequence[int]) -> E:
    """Return the rows with each `manifest` as the number at that place. Order: kept."""
    numbers = entries.table["manifest"]
    placed = pa.array(places, numbers.type).take(numbers.combine_chunks())
    return type(entries)(replace_column(entries.table, "manifest", placed))


def with_manifests_moved(entries: E, offset: int) -> E:
    """Return the rows with the numbers in their `manifest` column moved up. Order: kept."""
    numbers = entries.table["manifest"]
    moved = pc.add(numbers, pa.scalar(offset, numbers.type))
    return type(entries)(replace_column(entries.table, "manifest", moved))


def in_order(entries: E) -> E:
    """Return the same rows ordered by (`manifest`, `manifest_pos`)."""
    keys = [(name, "ascending") for name in ("manifest", "manifest_pos")]
    return type(entries)(entries.table.sort_by(keys))


def sample(entries: E, ratio: float, seed: int) -> E:
    """Choose about this part of the rows by chance, the same by one seed. Order: kept."""
    drawn = np.random.default_rng(seed).random(len(entries))
    return where(entries, drawn < ratio)


def take(entries: E, rows: Sequence[int] | npt.NDArray[np.int64] | pa.Array) -> E:
    """Return the rows at these positions of the table.

    Order: that of `rows`.
    Raises: IndexError, for a position that there is not.
    Cost: memory for the rows that are taken; pyarrow's own copies whole columns first.
    """
    positions = np.asarray(rows, np.int64)
    if len(positions) and not 0 <= positions.min() <= positions.max() < len(entries):
        raise IndexError(f"positions beyond {len(entries):,} rows")
    if 2 * len(positions) > len(entries):
        return type(entries)(entries.table.take(pa.array(positions)))
    order = np.argsort(positions, kind="stable")
    rising = positions[order]
    parts, start = [], 0
    for batch in entries.table.to_batches():
        first, last = np.searchsorted(rising, [start, start + batch.num_rows])
        if first < last:
            parts.append(batch.take(pa.array(rising[first:last] - start)))
        start += batch.num_rows
    taken = pa.Table.from_batches(parts, entries.table.schema)
    if len(order) and (np.diff(order) != 1).any():
        taken = taken.take(pa.array(np.argsort(order)))
    return type(entries)(taken)


def part(entries: E, start: int, stop: int) -> E:
    """Return the rows from one position of the table up to another, without a copy. Order: kept."""
    return type(entries)(entries.table.slice(start, stop - start))


def by_row(entries: E, *columns: str) -> Iterator[tuple[Any, ...]]:
    """Yield a tuple per row of the columns. Cost: Python objects, some microseconds a row."""
    for batch in entries.table.select(list(columns)).to_batches(max_chunksize=10_000):
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def differing_column(left: Entries, right: Entries, columns: Iterable[str]) -> str | None:
    """Return the first of the columns in which two tables differ by row; None without one."""
    for name in columns:
        if left.table[name].combine_chunks() != right.table[name].combine_chunks():
            return name
    return None


def total(entries: E, column: str) -> int:
    """Sum of a number column; null counts as 0."""
    return int(pc.sum(entries.table[column], min_count=0).as_py())


def index_in(values: pa.Array | pa.ChunkedArray, known: pa.Array) -> npt.NDArray[np.int64]:
    """Return the position of each value in `known`, -1 for null and others. Order: kept."""
    indexes = pc.fill_null(pc.index_in(values, value_set=known, skip_nulls=True), -1)
    return np.asarray(indexes.to_numpy(zero_copy_only=False), dtype=np.int64)


def numbers(entries: E, column: str) -> npt.NDArray[np.int64]:
    """Return a number column without nulls as a numpy array. Order: kept."""
    return np.asarray(entries.table[column].to_numpy(), dtype=np.int64)


def count_by_manifest(entries: E, manifest_count: int) -> list[int]:
    """Count the rows per manifest. Shape: one number per index below `manifest_count`."""
    counts = np.bincount(numbers(entries, "manifest"), minlength=manifest_count)
    return [int(count) for count in counts]


def count_by_value(entries: E, column: str) -> Mapping[Any, int]:
    """Count the rows per value of a column, null included. Order: of first appearance."""
    counts = pc.value_counts(entries.table[column])
    return {row["values"]: row["counts"] for row in counts.to_pylist()}


def _filled(entries: E, column: str, value: int) -> E:
    kind = entries.table.schema.field(column).type
    values = pa.repeat(pa.scalar(int(value), kind), len(entries))
    return type(entries)(replace_column(entries.table, column, values))


def _only(entries: E, column: str, values: Collection[int]) -> E:
    wanted = pa.array(sorted(values), entries.table.schema.field(column).type)
    return where(entries, pc.is_in(entries.table[column], value_set=wanted, skip_nulls=True))


def _without(entries: E, column: str, value: int) -> E:
    stored = entries.table[column]
    # of its type: to find the type of a plain number pyarrow imports dateutil
    return where(entries, pc.not_equal(stored, pa.scalar(value, stored.type)))


def _named(entries: E, locations: pa.Array | pa.ChunkedArray) -> pa.ChunkedArray:
    keys = location_keys(entries.table["location"])
    return pc.is_in(keys, value_set=location_keys(locations), skip_nulls=True)
