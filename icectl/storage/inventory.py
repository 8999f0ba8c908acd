"""Listings that the storage made itself, as batches of (location, size_bytes, modified_ms)."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa

from icectl.errors import StorageError, Unsupported, UsageError
from icectl.files.inventory import (
    InventoryFile,
    InventoryForm,
    InventoryManifest,
    form_of,
    parse_manifest,
    read_rows,
)
from icectl.storage import location as locations
from icectl.storage.listing import LISTING_SCHEMA
from icectl.storage.same_store import SameStore
from icectl.storage.store import Store


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
    for file in manifest.files:
        place = _place(location, manifest, file)
        with _named(place):
            _check_size(store, place, file)
        yield from _rows(store, place, manifest.columns)


def _rows(store: Store, location: str, columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    with _named(location), store.open(location) as file:
        for rows in read_rows(file, columns):
            yield pa.RecordBatch.from_arrays(list(rows), schema=LISTING_SCHEMA)


def _place(location: str, manifest: InventoryManifest, file: InventoryFile) -> str:
    """Return where a file of a manifest lies: in its bucket, or on disk as it was in the bucket."""
    if not locations.is_local(location):
        return f"{locations.scheme(location)}://{manifest.bucket}/{file.key}"
    folder = locations.parent(locations.parent(location))
    return locations.join(folder, *file.key.split("/")[-2:])


def _check_size(store: Store, location: str, file: InventoryFile) -> None:
    status = store.stat(location)
    if status is None:
        raise FileNotFoundError(location)
    if status.size_bytes != file.size_bytes:
        raise UsageError(
            f"it has {status.size_bytes} bytes, and {file.size_bytes} by its manifest",
            hint="wait until the inventory is complete, or fetch it again",
        )


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
        """Yield the files below a location, as Store.list gives them.

        Raises: UsageError, where there is none; what reading an inventory raises.
        """
        count = 0
        for batch in read_inventory(self.store, self.inventory):
            found = self._below(batch, location.rstrip("/"))
            count += found.num_rows
            yield found
        if not count:
            raise UsageError(
                f"the inventory names no file below {locations.redacted(location)}",
                hint="give an inventory of the bucket that holds the table",
            )

    def _below(self, batch: pa.RecordBatch, location: str) -> pa.RecordBatch:
        """Return the rows below a location, spelled as it is."""
        import pyarrow.compute as pc

        named = batch["location"]
        start = locations.root(location)
        spellings = [start]
        others = named.filter(pc.invert(pc.starts_with(named, f"{start}/")))
        spellings += [
            root
            for root in locations.distinct_roots(others)
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
