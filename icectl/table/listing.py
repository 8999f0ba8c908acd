"""Listing the tables of a catalog, or below a folder: each by its metadata file alone."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from icectl.catalog.files import FileSystemCatalog
from icectl.catalog.identifier import dotted_name
from icectl.catalog.metadata_files import METADATA_FOLDER
from icectl.catalog.protocol import Catalog, LoadedTable
from icectl.catalog.versions import is_metadata_file_name
from icectl.catalog.warehouse import Warehouse
from icectl.env import Deadline, Env
from icectl.errors import IcectlError
from icectl.progress import Progress
from icectl.storage.location import name, parent
from icectl.storage.store import Store
from icectl.table.reading import in_threads
from icectl.units import print_instant, read_count

TABLE_COLUMNS = (
    "table",
    "format_version",
    "last_updated",
    "snapshot_count",
    "file_count",
    "file_bytes",
    "location",
    "metadata_location",
    "error",
)
_BATCH = 64
"""Tables that are loaded before the first of them is shown."""


@dataclass(frozen=True, slots=True)
class ListedTable:
    """A table that a listing has come upon; `name` is what a command can call it by."""

    name: str
    catalog: Catalog


def tables_in(
    warehouse: Warehouse, catalog: str, namespace: tuple[str, ...]
) -> Iterator[ListedTable]:
    """Yield the tables in a namespace and in those below it, or in the whole catalog.

    Raises: TableNotFound, where there is no such namespace; StorageError.
    """
    for table in warehouse.tables(namespace) if namespace else ():
        shown = dotted_name((catalog, *table.namespace, table.name))
        yield ListedTable(shown, warehouse.table(table).catalog)
    for inner in warehouse.namespaces(namespace):
        yield from tables_in(warehouse, catalog, inner)


def tables_below(store: Store, env: Env, directory: str) -> Iterator[ListedTable]:
    """Yield the tables in and below a folder, by the metadata files there. Order: by location.

    Cost: a listing of all that is there. Raises: StorageError.
    """
    locations_seen: set[str] = set()
    for batch in store.list(directory):
        for location in batch["location"].to_pylist():
            if is_metadata_file_name(name(location)) and name(parent(location)) == METADATA_FOLDER:
                locations_seen.add(parent(parent(location)))
    for table in sorted(locations_seen):
        yield ListedTable(table, FileSystemCatalog(store, table, env))


def table_rows(
    entries: Iterable[ListedTable], concurrency: int, progress: Progress, deadline: Deadline
) -> Iterator[Mapping[str, Any]]:
    """Yield one row a table, by its metadata; one that cannot be read says why in `error`.

    Tables are loaded while rows are consumed. Raises: Incomplete, where time runs out.
    """
    left = iter(entries)
    progress.phase("reading tables")
    while batch := list(islice(left, _BATCH)):
        deadline.check()
        yield from in_threads(_row, batch, [0] * len(batch), threads=concurrency)
        progress.advance(len(batch))


def _row(entry: ListedTable) -> Mapping[str, Any]:
    named = {**dict.fromkeys(TABLE_COLUMNS), "table": entry.name}
    try:
        return {**named, **_facts(entry.catalog.load(to_show=True))}
    except IcectlError as error:
        return {**named, "error": error.message}
    except FileNotFoundError:  # dropped meanwhile
        return {**named, "error": "it is gone"}


def _facts(loaded: LoadedTable) -> Mapping[str, Any]:
    """Return what metadata tells of a table.

    Files and bytes where its newest snapshot counts them.
    """
    metadata = loaded.metadata
    snapshot = metadata.current_snapshot
    summary = {} if snapshot is None else snapshot.summary or {}
    counted = [read_count(summary.get(key)) for key in ("total-data-files", "total-delete-files")]
    known = [count for count in counted if count is not None]
    return {
        "format_version": metadata.format_version,
        "last_updated": print_instant(metadata.last_updated_ms),
        "snapshot_count": len(metadata.snapshots),
        "file_count": 0 if snapshot is None else sum(known) if known else None,
        "file_bytes": 0 if snapshot is None else read_count(summary.get("total-files-size")),
        "location": metadata.location,
        "metadata_location": loaded.metadata_location,
    }
