"""Listings that the storage made itself, as batches of (location, size_bytes, modified_ms).

They are the manifest and files of S3 Inventory, or plain CSV. Columns go by name, in any case, with
or without underscores: Bucket and Key, or location; Size; LastModifiedDate or last_modified; where
all versions are listed, IsLatest and IsDeleteMarker.
"""

import csv
import gzip
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import IO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq

from icectl.entries.columns import plain, unescape
from icectl.errors import StorageError, Unsupported, UsageError
from icectl.files.arrow_failures import first_line
from icectl.format.json_members import parse_json
from icectl.storage import location as locations
from icectl.storage.identity import SameStore
from icectl.storage.listing import LISTING_SCHEMA
from icectl.storage.store import Store

_INSTANT = pa.timestamp("ns", "UTC")
_BATCH_ROWS = 65_536
_BLOCK_BYTES = 1 << 22
_LONGEST_HEADER = 1 << 16
_NAMED = {
    "bucket": "bucket",
    "key": "key",
    "location": "location",
    "size": "size",
    "lastmodifieddate": "modification time",
    "lastmodified": "modification time",
    "islatest": "latest",
    "isdeletemarker": "delete_marker",
}
_HINT = (
    "an inventory has the columns Bucket, Key, Size and LastModifiedDate, or location, size and "
    "last_modified; CSV files without a header line need their manifest.json"
)

InventoryColumns = Mapping[str, pa.Array]


class InventoryForm(StrEnum):
    """The kind of file that an inventory is."""

    PARQUET = "Parquet"
    ORC = "ORC"
    MANIFEST = "JSON"
    CSV = "CSV"
    GZIPPED_CSV = "gzipped CSV"


_BEGINNINGS = {
    b"PAR1": InventoryForm.PARQUET,
    b"ORC": InventoryForm.ORC,
    b"{": InventoryForm.MANIFEST,
    b"\x1f\x8b": InventoryForm.GZIPPED_CSV,
}


@dataclass(frozen=True, slots=True)
class InventoryManifest:
    """The manifest.json of an S3 Inventory: columns of CSV files, and keys with sizes in bytes."""

    bucket: str
    columns: tuple[str, ...]
    files: tuple[tuple[str, int], ...]


def form_of(content: bytes) -> InventoryForm:
    """Return the kind of a file, by its first bytes."""
    forms = (form for beginning, form in _BEGINNINGS.items() if content.startswith(beginning))
    return next(forms, InventoryForm.CSV)


def parse_manifest(content: bytes) -> InventoryManifest:
    """Parse a manifest.json. Raises: UsageError, when it is none."""
    try:
        stored = parse_json(content)
        return InventoryManifest(
            bucket=stored["destinationBucket"].rpartition(":")[2],
            columns=tuple(name.strip() for name in stored["fileSchema"].split(",")),
            files=tuple((file["key"], int(file["size"])) for file in stored["files"]),
        )
    except KeyError as error:
        raise UsageError(
            f"not a manifest of S3 Inventory: it has no {error}", hint=_HINT
        ) from error
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise UsageError(f"not a manifest of S3 Inventory: {error}", hint=_HINT) from error


def _parquet(file: IO[bytes]) -> Iterator[InventoryColumns]:
    opened = pq.ParquetFile(file, page_checksum_verification=True)
    names = opened.schema_arrow.names
    places = _places(names)
    stored = [names[place] for place in places.values()]
    for batch in opened.iter_batches(_BATCH_ROWS, columns=stored):
        yield {name: plain(batch[names[place]]) for name, place in places.items()}


def _csv(file: IO[bytes], columns: Sequence[str], *, gzipped: bool) -> Iterator[InventoryColumns]:
    names = columns or _header(file, gzipped=gzipped)
    places = _places(names)
    numbers = [str(place) for place in range(len(names))]
    stored = [numbers[place] for place in places.values()]
    stream = pa.PythonFile(file, "r")
    reader = arrow_csv.open_csv(
        pa.CompressedInputStream(stream, "gzip") if gzipped else stream,
        arrow_csv.ReadOptions(
            column_names=numbers, skip_rows=0 if columns else 1, block_size=_BLOCK_BYTES
        ),
        convert_options=arrow_csv.ConvertOptions(
            include_columns=stored,
            column_types=dict.fromkeys(stored, pa.string()),
            null_values=[""],
            strings_can_be_null=True,
        ),
    )
    for batch in reader:
        decoded = {name: batch[numbers[place]] for name, place in places.items()}
        if "key" in decoded:  # URL-encoded, as in a form; other columns are not
            decoded["key"] = unescape(pc.replace_substring(decoded["key"], "+", " "))
        yield decoded


def _header(file: IO[bytes], *, gzipped: bool) -> Sequence[str]:
    try:
        line = (gzip.GzipFile(fileobj=file) if gzipped else file).readline(_LONGEST_HEADER)
    except (EOFError, zlib.error) as error:
        raise OSError(error) from error
    file.seek(0)
    return next(csv.reader([line.decode("utf-8-sig")]), [])


def _places(names: Sequence[str]) -> Mapping[str, int]:
    """Find which columns hold what. Raises: UsageError, when one is missing."""
    spelled = [_NAMED.get(name.strip().lower().replace("_", "")) for name in names]
    places = {name: place for place, name in enumerate(spelled) if name is not None}
    named = ["location"] if "location" in places else ["bucket", "key"]
    missing = [name for name in (*named, "size", "modification time") if name not in places]
    if missing:
        raise UsageError(f"no column holds the {missing[0]} of objects", hint=_HINT)
    return places


def _listed(columns: InventoryColumns) -> list[pa.Array]:
    if "location" in columns:
        locations = _texts(columns, "location")
    else:
        bucket, key = _texts(columns, "bucket"), _texts(columns, "key")
        locations = pc.binary_join_element_wise(pa.scalar("s3://"), bucket, pa.scalar("/"), key, "")
    gone = pc.ends_with(locations, "/")
    if "latest" in columns:
        gone = pc.or_(gone, pc.invert(_flags(columns["latest"], unless_told=True)))
    if "delete_marker" in columns:
        gone = pc.or_(gone, _flags(columns["delete_marker"], unless_told=False))
    there = pc.invert(gone)
    listed = [
        locations,
        columns["size"].cast(pa.int64()),
        _milliseconds(columns["modification time"]),
    ]
    rows = [column.filter(there, null_selection_behavior="emit_null") for column in listed]
    if rows[1].null_count:  # as it is where the location is null
        raise UsageError("objects without a name or a size", hint=_HINT)
    return rows


def _texts(columns: InventoryColumns, name: str) -> pa.Array:
    if not pa.types.is_integer(columns[name].type):
        return columns[name].cast(pa.string())
    raise UsageError(f"the {name} column holds numbers", hint=_HINT)


def _flags(column: pa.Array, *, unless_told: bool) -> pa.Array:
    if not pa.types.is_boolean(column.type):
        column = pc.equal(pc.utf8_lower(column), "true")
    return pc.fill_null(column, unless_told)


def _milliseconds(column: pa.Array) -> pa.Array:
    if pa.types.is_string(column.type):
        try:
            column = column.cast(_INSTANT)
        except pa.ArrowInvalid:
            column = column.cast(pa.timestamp(_INSTANT.unit))  # in UTC
    if not pa.types.is_timestamp(column.type):
        raise UsageError(f"modification times are {column.type}, not timestamps", hint=_HINT)
    return column.cast(pa.timestamp("ms", column.type.tz), safe=False).cast(pa.int64())


@contextmanager
def _translated(form: InventoryForm) -> Iterator[None]:
    """Read an inventory file inside; errors of the file object itself pass."""
    try:
        yield
    except (pa.ArrowException, OSError, ValueError, csv.Error) as error:
        # pyarrow's own OSError is a bare one; those of files have a number or a class.
        if isinstance(error, OSError) and (type(error) is not OSError or error.errno is not None):
            raise
        raise UsageError(f"it can't be read as {form}: {first_line(error)}", hint=_HINT) from error


def read_inventory(store: Store, location: str) -> Iterator[pa.RecordBatch]:
    """All objects of an inventory: a Parquet or CSV file, or the manifest.json of S3 Inventory.

    Order: as stored.
    Raises: UsageError, when a file is damaged or lacks columns; Unsupported, StorageError.
    """
    with _named(location):
        is_manifest = form_of(store.read_range(location, 0, 4)) is InventoryForm.MANIFEST
        manifest = parse_manifest(store.read(location)) if is_manifest else None
    if manifest is None:
        yield from _rows(store, location, ())
        return
    for key, size_bytes in manifest.files:
        if locations.is_local(location):  # on disk as it was in the bucket
            folder = locations.parent(locations.parent(location))
            place = locations.join(folder, *key.split("/")[-2:])
        else:
            place = f"{locations.scheme(location)}://{manifest.bucket}/{key}"
        with _named(place):
            status = store.stat(place)
            if status is None:
                raise FileNotFoundError(place)
            if status.size_bytes != size_bytes:
                raise UsageError(
                    f"it has {status.size_bytes} bytes, and {size_bytes} by its manifest",
                    hint="wait until the inventory is complete, or fetch it again",
                )
        yield from _rows(store, place, manifest.columns)


def _rows(store: Store, location: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Location, size and time of each object in an inventory file that is no manifest.

    Noncurrent versions, delete markers and markers of directories are left out.
    `columns` are those of a CSV file without a header line, from the manifest.
    Units: bytes; milliseconds since 1970, null where the inventory does not tell.
    Raises: UsageError, when the file is damaged or lacks columns; Unsupported for ORC.
    """
    with _named(location), store.open(location) as file:
        form = form_of(file.read(4))
        file.seek(0)
        if form is InventoryForm.ORC:
            hint = "choose Parquet or CSV in the settings of the inventory"
            raise Unsupported("ORC inventories can't be read", hint=hint)
        gzipped = form is InventoryForm.GZIPPED_CSV
        with _translated(form):
            is_parquet = form is InventoryForm.PARQUET
            for batch in _parquet(file) if is_parquet else _csv(file, columns, gzipped=gzipped):
                yield pa.RecordBatch.from_arrays(_listed(batch), schema=LISTING_SCHEMA)


@contextmanager
def _named(location: str) -> Iterator[None]:
    """Read a file of an inventory inside; the errors name it."""
    try:
        yield
    except FileNotFoundError as error:
        message = f"the inventory file `{locations.redacted(location)}` is missing"
        raise StorageError(message) from error
    except (UsageError, Unsupported) as error:
        message = f"inventory `{locations.redacted(location)}`: {error.message}"
        raise type(error)(message, hint=error.hint) from error


@dataclass(frozen=True, slots=True)
class InventoryFiles:
    """An inventory in the place of listings of the store."""

    store: Store
    inventory: str
    same_store: SameStore

    def below(self, location: str) -> Iterator[pa.RecordBatch]:
        """Yield files as Store.list does. Raises: UsageError, where none is; as read_inventory."""
        count = 0
        for batch in read_inventory(self.store, self.inventory):
            rows = self._below(batch, location.rstrip("/"))
            count += rows.num_rows
            yield rows
        if not count:
            raise UsageError(
                f"the inventory names no file under {locations.redacted(location)}",
                hint="give an inventory of the bucket that holds the table",
            )

    def _below(self, batch: pa.RecordBatch, location: str) -> pa.RecordBatch:
        named = batch["location"]
        start = locations.root(location)
        spellings = [start]
        others = named.filter(pc.invert(pc.starts_with(named, f"{start}/")))
        spellings += [
            root
            for root in pc.unique(locations.roots(others)).to_pylist()
            if root != start and self.same_store.holds(f"{root}/", location)
        ]
        parts = []
        for root in spellings:
            prefix = f"{root}{location[len(start) :]}/"
            mine = batch.filter(pc.starts_with(named, prefix))
            if root != start:
                pattern = "^.{" + str(len(root)) + "}"
                moved = pc.replace_substring_regex(mine["location"], pattern, start)
                mine = mine.set_column(0, batch.schema.field(0), moved)
            parts.append(mine)
        return pa.concat_batches(parts)
