"""What a folder without an Iceberg table is: a table of another format, or plain data files."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain

from icectl.catalog.metadata_files import METADATA_FOLDER, is_metadata_file_name
from icectl.errors import StorageError
from icectl.storage import location as locations
from icectl.storage.store import FileStatus, Store


@dataclass(frozen=True, slots=True)
class OtherFormat:
    """What lies in a folder, in words, and what its user can do."""

    what: str
    hint: str


_BY_FILE = {
    "_delta_log/_last_checkpoint": "Delta",
    "_delta_log/00000000000000000000.json": "Delta",
    ".hoodie/hoodie.properties": "Hudi",
    "schema/schema-0": "Paimon",
}
"""Files that tables of a format have; of Delta's the second goes after the first has come."""

_TABLES = {
    "Delta": OtherFormat(
        "a Delta table",
        "Delta's `OPTIMIZE` and `VACUUM` maintain it; with UniForm, Delta writes Iceberg metadata "
        "too, which icectl reads",
    ),
    "Hudi": OtherFormat(
        "a Hudi table", "Hudi's own table services (clustering, cleaning) maintain it"
    ),
    "Paimon": OtherFormat(
        "a Paimon table",
        "Paimon's own procedures maintain it; if `metadata.iceberg.storage` is set, Paimon writes "
        "Iceberg metadata too, which icectl reads",
    ),
    "Lance": OtherFormat(
        "a Lance dataset",
        "Lance's `optimize.compact_files` and `cleanup_old_versions` maintain it",
    ),
}
_DATA_FILES = {
    ".parquet": OtherFormat(
        "a folder of Parquet files",
        "`add_files` of Spark or PyIceberg adds such files to an Iceberg table without a copy",
    ),
    ".orc": OtherFormat(
        "a folder of ORC files",
        "Spark's `add_files` adds such files to an Iceberg table without a copy",
    ),
    ".avro": OtherFormat(
        "a folder of Avro files",
        "Spark's `add_files` adds such files to an Iceberg table without a copy",
    ),
}

_MOST_LEVELS = 4
"""Levels of partition folders that are entered."""


def table_of_other_format(store: Store, location: str) -> OtherFormat | None:
    """Return the format of the table in a folder, if it is one that is known and not Iceberg's.

    What the storage does not show counts as absent.
    """
    for path, name in _BY_FILE.items():
        with suppress(StorageError):
            if store.stat(locations.join(location, path)) is not None:
                return _TABLES[name]
    with suppress(StorageError):
        versions = store.list_directory(locations.join(location, "_versions"))
        if any(file.location.endswith(".manifest") for file in versions):
            return _TABLES["Lance"]
    return None


def plain_data_files(store: Store, location: str, here: Sequence[FileStatus]) -> OtherFormat | None:
    """Return of which format the data files in a folder are, or in its first partition folders.

    `here` are the files directly in it. If they are an Iceberg table's, that table is named.
    """
    if (table := _table_around(store, location)) is not None:
        shown = locations.redacted(table)
        return OtherFormat(f"a folder of the table at {shown}", f"name {shown}")
    found = _format_of(file.location for file in here)
    place: str | None = location
    with suppress(StorageError):
        for _ in range(_MOST_LEVELS):
            if found is not None or place is None:
                break
            split = store.split(place, 2)  # of a store with folders, these are the parts
            files = chain.from_iterable(rows["location"].to_pylist() for rows in split.batches)
            found = _format_of(file for file in files if _is_in_partitions(file, location))
            folders = [part.location for part in split.parts if part.location != place]
            place = next((path for path in folders if "=" in locations.name(path)), None)
    return found


def _table_around(store: Store, location: str) -> str | None:
    """Return the Iceberg table of which a folder is the data folder, or a partition in it."""
    data = location
    while "=" in locations.name(data):
        data = locations.parent(data)
    for table in (locations.parent(data), data):
        with suppress(StorageError):
            for file in store.list_directory(locations.join(table, METADATA_FOLDER)):
                if is_metadata_file_name(locations.name(file.location)):
                    return table
    return None


def _is_in_partitions(file: str, location: str) -> bool:
    """Return whether all folders on the way to a file are named as Hive's partitions are."""
    return all("=" in folder for folder in file[len(location) + 1 :].split("/")[:-1])


def _format_of(names: Iterable[str]) -> OtherFormat | None:
    for name in names:
        for ending, format_ in _DATA_FILES.items():
            if name.endswith(ending):
                return format_
    return None
