"""Views of manifests and their entries: what they need is read, and made into rows.

Column names and their order are those of Iceberg's metadata tables in Spark and PyIceberg.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress, islice
from typing import Any

from icectl.commands.inspect.metadata_rows import (
    METADATA_VIEWS,
    all_manifest_rows,
    manifest_columns,
    manifest_row,
    metadata_rows,
)
from icectl.commands.inspect.partitions import compared_columns, partition_rows
from icectl.commands.inspect.views import NO_HEADINGS, Headings, Row, RowSet, View, columns_hint
from icectl.entries.conditions import Predicate
from icectl.entries.may_match import METRICS, files_may_match, manifests_may_match
from icectl.entries.partition_records import Partitions, compared_rows, json_value, partitions_of
from icectl.entries.rows import Entries, by_row, live, of, where
from icectl.entries.summary import PARTITION_SOURCES
from icectl.errors import UsageError
from icectl.format.manifest import Content, FileFormat, ManifestContent, ManifestFile
from icectl.format.metadata import TableMetadata
from icectl.format.single_value import decode
from icectl.format.snapshot import Snapshot
from icectl.format.types import ListType, MapType, StructType, Type
from icectl.table.manifest_lists import distinct_manifests, snapshot_reader
from icectl.table.reader import Reader, SnapshotChoice, chosen_snapshot

_METRICS = (
    "column_sizes", "value_counts", "null_value_counts", "nan_value_counts", "lower_bounds",
    "upper_bounds",
)  # fmt: skip
_METRIC_NAMES = (
    "column_size", "value_count", "null_value_count", "nan_value_count", "lower_bound",
    "upper_bound",
)  # fmt: skip
FILE_COLUMNS: tuple[str, ...] = (
    "content", "file_path", "file_format", "spec_id", "partition", "record_count",
    "file_size_in_bytes", *_METRICS, "key_metadata", "split_offsets", "equality_ids",
    "sort_order_id", "first_row_id", "referenced_data_file", "content_offset",
    "content_size_in_bytes", "readable_metrics",
)  # fmt: skip
ENTRY_COLUMNS: tuple[str, ...] = (
    "status", "snapshot_id", "sequence_number", "file_sequence_number", "data_file",
    "readable_metrics",
)  # fmt: skip
_DATA_FILE = "data_file."
_SOURCES: Mapping[str, frozenset[str]] = {
    "file_path": frozenset({"location"}),
    "partition": frozenset({"spec_id", "partition_key"}),
    "partition_path": frozenset({"spec_id", "partition_key"}),
    "readable_metrics": frozenset(_METRICS),
}
"""Entries columns that a shown column is made of, where it is not the one of its own name."""

_Values = Callable[[Entries], list[Any]]


def source_columns(columns: Iterable[str], headings: Headings = NO_HEADINGS) -> frozenset[str]:
    """Return the columns of the manifests that shown columns need; dotted names go below a column.

    `headings` are names that the hint tells too.

    Raises: UsageError for a column that there is not.
    """
    needed: set[str] = set()
    for column in columns:
        for name in _expand(column, headings):
            needed |= _SOURCES.get(name, frozenset({name}))
    return frozenset(needed)


def entry_rows(
    batches: Iterable[Entries], metadata: TableMetadata, columns: Sequence[str]
) -> Iterator[Row]:
    """Yield rows of the entries of some manifests, in their order, with the chosen columns."""
    makers = [_maker(column, metadata, partitions_of(metadata)) for column in columns]
    for entries in batches:
        values = [make(entries) for make in makers]
        for row in zip(*values, strict=True):
            yield dict(zip(columns, row, strict=True))


def file_rows(
    batches: Iterable[Entries], metadata: TableMetadata, columns: Sequence[str]
) -> Iterator[Row]:
    """Yield rows of the live files of some manifests, with the chosen columns (R-110)."""
    return entry_rows((live(entries) for entries in batches), metadata, columns)


def _expand(column: str, headings: Headings = NO_HEADINGS) -> tuple[str, ...]:
    """Return the columns of a file or entry that a shown column stands for."""
    if column == "data_file":
        return tuple(name for name in FILE_COLUMNS if name != "readable_metrics")
    name = column.removeprefix(_DATA_FILE)
    columns = tuple(dict.fromkeys((*FILE_COLUMNS, *ENTRY_COLUMNS)))
    for top in (*columns, "partition_path"):
        if name == top or name.startswith(f"{top}."):
            return (top,)
    raise UsageError(f"there is no column `{column}`", hint=columns_hint(columns, headings))


def _maker(column: str, metadata: TableMetadata, partitions: Partitions) -> _Values:
    """Return a function that makes the values of a shown column from entries."""
    if column == "data_file":
        names = _expand(column)
        makers = [_plain_maker(name, metadata, partitions) for name in names]

        def structs(entries: Entries) -> list[object]:
            columns = [make(entries) for make in makers]
            return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]

        return structs
    name = column.removeprefix(_DATA_FILE)
    (top,) = _expand(column)
    if top == name:
        return _plain_maker(name, metadata, partitions)
    whole = _plain_maker(top, metadata, partitions)
    below = name[len(top) + 1 :]
    return lambda entries: [_below(value, below) for value in whole(entries)]


def _plain_maker(name: str, metadata: TableMetadata, partitions: Partitions) -> _Values:
    if name in ("partition", "partition_path"):
        read = partitions.record if name == "partition" else partitions.path
        return lambda entries: [read(*pair) for pair in by_row(entries, "spec_id", "partition_key")]
    if name == "readable_metrics":
        return _readable_metrics(metadata)
    stored = "location" if name == "file_path" else name
    convert = _CONVERSIONS.get(name)
    if convert is None:
        return lambda entries: _values(entries, stored)
    return lambda entries: [
        None if value is None else convert(value) for value in _values(entries, stored)
    ]


def _values(entries: Entries, name: str) -> list[Any]:
    values: list[Any] = entries.table.column(name).to_pylist()
    return values


def _below(value: object, path: str) -> object:
    """Return a member of a nested value; names may hold dots."""
    if not isinstance(value, Mapping):
        return None
    for key, member in value.items():
        if path == key:
            return member
        if path.startswith(f"{key}."):
            return _below(member, path[len(key) + 1 :])
    return None


def _readable_metrics(metadata: TableMetadata) -> _Values:
    """Return metrics by column name, bounds as values, for every primitive column of the schema."""
    schema = metadata.current_schema
    leaves = [
        (field_id, schema.name_of(field_id) or field.name, field.type)
        for field_id, field in (schema.all_fields.items() if schema else ())
        if not isinstance(field.type, StructType | ListType | MapType)
    ]

    def metrics(row: Sequence[Mapping[int, object]], field_id: int, type_: Type) -> object:
        values = [metric.get(field_id) for metric in row]
        values[4:] = [_readable_bound(type_, bound) for bound in values[4:]]
        return dict(zip(_METRIC_NAMES, values, strict=True))

    def values(entries: Entries) -> list[object]:
        maps = [[dict(stored or ()) for stored in _values(entries, name)] for name in _METRICS]
        return [
            {name: metrics(row, field_id, type_) for field_id, name, type_ in leaves}
            for row in zip(*maps, strict=True)
        ]

    return values


def _readable_bound(type_: Type, bound: object) -> object:
    """Return a bound as JSON; null where its bytes do not fit the column's type (R-096)."""
    if not isinstance(bound, bytes):
        return None
    try:
        return json_value(type_, decode(type_, bound))
    except ValueError:
        return None


_CONVERSIONS: Mapping[str, Callable[..., object]] = {
    "snapshot_id": str,
    "file_format": lambda code: FileFormat(code).name,
    "key_metadata": bytes.hex,
    **dict.fromkeys(_METRICS[:4], lambda pairs: {str(id_): count for id_, count in pairs}),
    **dict.fromkeys(_METRICS[4:], lambda pairs: {str(id_): bound.hex() for id_, bound in pairs}),
}
_LOGS = frozenset({"snapshots", "history", "metadata-log", "erasures"})
"""Views whose rows are a log, oldest first: a limit keeps the newest."""


@dataclass(frozen=True, slots=True)
class RowRequest:
    """A request for rows of a view; `columns` None means all of them.

    `headings` are names for columns that hints tell too.
    """

    view: View
    choice: SnapshotChoice
    headings: Headings
    all_snapshots: bool = False
    content: str | None = None
    where: Predicate | None = None
    columns: tuple[str, ...] | None = None
    limit: int | None = None


def read_view(reader: Reader, request: RowRequest) -> RowSet:
    """Read the rows of a view; those of files and entries are read while they are consumed.

    Raises: UsageError for a snapshot or column that is not there; what reading manifests raises.
    """
    view, columns = request.view.name, request.columns
    if view in METADATA_VIEWS:
        row_set = metadata_rows(view, reader.metadata, reader.loaded.metadata_location)
    elif view == "partitions":
        manifests = reader.manifests(chosen_snapshot(reader.metadata, request.choice))
        row_set = partition_rows(reader.scan(manifests, PARTITION_SOURCES), reader.metadata)
    elif view == "deletes":
        from icectl.table.live_files import files_of_snapshot  # other views need none of this
        from icectl.table.rewrite_tasks import LOADED_COLUMNS

        manifests = reader.manifests(chosen_snapshot(reader.metadata, request.choice))
        entries = reader.load(manifests, LOADED_COLUMNS, to_match=True)
        matches = files_of_snapshot(reader.metadata, manifests, entries).matches
        row_set = RowSet(compared_columns(reader.metadata), compared_rows(matches, reader.metadata))
    else:
        row_set = (_manifest_rows if view == "manifests" else _entry_rows)(reader, request)
    if columns is not None and columns != row_set.columns:
        unknown = next((name for name in columns if name not in row_set.columns), None)
        if unknown is not None and unknown != "partition_path":
            hint = columns_hint(row_set.columns, request.headings)
            raise UsageError(f"there is no column `{unknown}`", hint=hint)
        chosen = ({name: row.get(name) for name in columns} for row in row_set.rows)
        row_set = RowSet(columns, chosen)
    if request.limit is None:
        return row_set
    limited = (
        deque(row_set.rows, maxlen=request.limit)
        if view in _LOGS
        else islice(row_set.rows, request.limit)
    )
    return RowSet(row_set.columns, limited)


def _manifest_rows(reader: Reader, request: RowRequest) -> RowSet:
    columns = manifest_columns(reader.metadata, all_snapshots=request.all_snapshots)

    def described(snapshot: Snapshot, manifests: Sequence[ManifestFile]) -> Sequence[ManifestFile]:
        chosen = _chosen_manifests(reader, request, manifests)
        read = snapshot_reader(reader.metadata, snapshot)
        return read.described(reader.context.store, snapshot, chosen)

    if request.all_snapshots:
        by_snapshot = reader.manifests_by_snapshot(reader.metadata.snapshots)
        lists = {
            snapshot.snapshot_id: described(snapshot, by_snapshot[snapshot.snapshot_id])
            for snapshot in reader.metadata.snapshots
        }
        return RowSet(columns, all_manifest_rows(reader.metadata, lists))
    snapshot = chosen_snapshot(reader.metadata, request.choice)
    if snapshot is None:
        return RowSet(columns, ())
    chosen = described(snapshot, reader.manifests(snapshot, request.where))
    return RowSet(columns, (manifest_row(reader.metadata, manifest) for manifest in chosen))


def _entry_rows(reader: Reader, request: RowRequest) -> RowSet:

    all_columns, make = (
        (FILE_COLUMNS, file_rows) if request.view.name == "files" else (ENTRY_COLUMNS, entry_rows)
    )
    columns = all_columns if request.columns is None else request.columns
    sources = source_columns(columns, request.headings) | {"content", "status"}
    within = request.where
    if within is not None:
        sources |= METRICS | {"spec_id", "partition_key", "record_count"}
    if request.all_snapshots:
        manifests = distinct_manifests(
            reader.manifests_by_snapshot(reader.metadata.snapshots).values()
        )
    else:
        snapshot = chosen_snapshot(reader.metadata, request.choice)
        manifests = reader.manifests(snapshot, within)
    manifests = _chosen_manifests(reader, request, manifests)
    batches: Iterable[Entries] = reader.scan(manifests, sources)
    if within is not None:
        specs, schemas = reader.metadata.partition_specs, reader.metadata.schemas
        batches = (
            where(entries, files_may_match(entries, within, specs, schemas)) for entries in batches
        )
    if request.content is not None:
        deletes = (Content.POSITION_DELETES, Content.EQUALITY_DELETES)
        contents = (Content.DATA,) if request.content == "data" else deletes
        batches = (of(entries, *contents) for entries in batches)
    return RowSet(columns, make(batches, reader.metadata, columns))


def _chosen_manifests(
    reader: Reader, request: RowRequest, manifests: Sequence[ManifestFile]
) -> tuple[ManifestFile, ...]:
    """Return the manifests of the wanted content that may list a file with a matching row."""
    if request.content is not None:
        content = ManifestContent.DATA if request.content == "data" else ManifestContent.DELETES
        manifests = [manifest for manifest in manifests if manifest.content is content]
    if request.where is not None:
        specs, schemas = reader.metadata.partition_specs, reader.metadata.schemas
        may = manifests_may_match(manifests, request.where, specs, schemas)
        manifests = list(compress(manifests, may.tolist()))
    return tuple(manifests)
