"""The tables that TARGETs on a command line stand for: names, locations, globs, catalogs."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from icectl.catalog.files import FileSystemCatalog
from icectl.catalog.identifier import TableName, dotted_name, parse_name, without_quoted
from icectl.catalog.metadata_files import METADATA_FOLDER, is_metadata_file_name
from icectl.catalog.other_formats import plain_data_files, table_of_other_format
from icectl.catalog.protocol import Catalog, Warehouse
from icectl.cli.naming import NameInCatalog, name_in_catalog, target_of, warehouse_of
from icectl.cli.options import Common
from icectl.cli.patterns import covers, fixed_part, is_pattern, matches
from icectl.cli.session import storage_of
from icectl.cli.settings import CONCURRENCY
from icectl.env import Deadline, Env
from icectl.errors import IcectlError, StorageError, TableNotFound, UsageError
from icectl.progress import Progress
from icectl.storage.local.scan import path_used_to
from icectl.storage.location import is_local, join, local_path, name, parent, scheme
from icectl.storage.location import name as location_name
from icectl.storage.open import open_store, requests_at_once
from icectl.storage.store import Store
from icectl.table.reading import in_threads
from icectl.units import print_instant, read_count

TABLE_COLUMNS = (
    "table", "format_version", "last_updated", "snapshot_count", "file_count", "file_bytes",
    "location", "metadata_location", "error",
)  # fmt: skip
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
    for table in all_below(warehouse, namespace):
        shown = dotted_name((catalog, *table.namespace, table.name))
        yield ListedTable(shown, warehouse.table(table).catalog)


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
    remaining = iter(entries)
    progress.phase("reading tables")
    while batch := list(islice(remaining, _BATCH)):
        deadline.check()
        yield from in_threads(_row, batch, [0] * len(batch), threads=concurrency)
        progress.advance(len(batch))


def _row(entry: ListedTable) -> Mapping[str, Any]:
    """Return what metadata tells of a table; files and bytes where its newest snapshot does."""
    row = {**dict.fromkeys(TABLE_COLUMNS), "table": entry.name}
    try:
        loaded = entry.catalog.load(to_show=True)
    except IcectlError as error:
        return {**row, "error": error.message}
    except FileNotFoundError:  # dropped since it was listed
        return {**row, "error": "it is gone"}
    metadata = loaded.metadata
    snapshot = metadata.current_snapshot
    summary = {} if snapshot is None else snapshot.summary or {}
    counted = [read_count(summary.get(key)) for key in ("total-data-files", "total-delete-files")]
    known = [count for count in counted if count is not None]
    return row | {
        "format_version": metadata.format_version,
        "last_updated": print_instant(metadata.last_updated_ms),
        "snapshot_count": len(metadata.snapshots),
        "file_count": 0 if snapshot is None else sum(known) if known else None,
        "file_bytes": 0 if snapshot is None else read_count(summary.get("total-files-size")),
        "location": metadata.location,
        "metadata_location": loaded.metadata_location,
    }


T = TypeVar("T")

_TABLES_AT_ONCE = 16
"""Tables that are looked at together at most."""


@dataclass(frozen=True, slots=True)
class FoundTables:
    """The tables of targets, as a command can call them.

    `empty` are the targets that stand for none, `unread` those whose tables could not be listed,
    `idle` the exclusions that leave none out.
    """

    tables: tuple[str, ...]
    empty: tuple[str, ...] = ()
    idle: tuple[str, ...] = ()
    unread: Mapping[str, StorageError] = field(default_factory=dict)


def find_tables(common: Common, targets: Sequence[str], exclude: Sequence[str] = ()) -> FoundTables:
    """Find the tables of all targets, each once, but for those that are excluded.

    A catalog, a namespace and a folder that is no table stand for every table in or below them.
    Order: that of the targets. Raises: UsageError; TableNotFound, where nothing is found at all;
    StorageError, where that is because a place cannot be listed.
    """
    matched: dict[str, None] = {}
    empty, unread = [], {}
    for target in targets:
        try:
            name = _name(common, target)
            tables = list(_in_catalog(common, name) if name else _in_folders(common, target))
            if not tables:
                _check_readable(common, target)
        except TableNotFound:
            if len(targets) == 1:
                raise
            tables = []
        except StorageError as error:
            unread[target] = error
            continue
        matched |= dict.fromkeys(tables)
        if not tables:
            empty.append(target)
    if not matched:
        for reason in unread.values():
            raise reason
        raise _no_tables(common, targets)
    excluded = {
        pattern: {table for table in matched if covers(parts_of(pattern), parts_of(table))}
        for pattern in exclude
    }
    left_out = {table for tables in excluded.values() for table in tables}
    remaining = tuple(table for table in matched if table not in left_out)
    idle = tuple(pattern for pattern, tables in excluded.items() if not tables)
    return FoundTables(remaining, tuple(empty), idle, unread)


def _check_readable(common: Common, target: str) -> None:
    """Raises: StorageError, if the target is a folder of this machine that cannot be read."""
    if is_glob(common, target) or _name(common, target) is not None or not is_local(target):
        return
    folder = _absolute(target)
    for directory in (folder, join(folder, METADATA_FOLDER)):
        with suppress(FileNotFoundError), path_used_to("list", directory) as path:
            next(Path(path).iterdir(), None)


def _no_tables(common: Common, targets: Sequence[str]) -> TableNotFound:
    shown = ", ".join(f"`{target}`" for target in targets)
    if len(targets) == 1 and not is_glob(common, targets[0]) and _name(common, targets[0]) is None:
        folder = _absolute(targets[0])
        store = _store(common, folder)
        other = table_of_other_format(store, folder)
        if other := other or plain_data_files(store, folder, store.list_directory(folder)):
            return TableNotFound(f"{shown} is {other.what}, not an Iceberg table", hint=other.hint)
    return TableNotFound(f"there is no table at {shown}", hint=_where_tables_are(common, targets))


def _where_tables_are(common: Common, targets: Sequence[str]) -> str:
    if len(targets) > 1:
        return "`icectl inspect` of a catalog, a namespace or a folder lists the tables there"
    name = _name(common, targets[0])
    if name is None:
        return "a table is a folder with metadata/*.metadata.json"
    namespace = fixed_part(name.parts)
    namespace = namespace[:-1] if namespace == name.parts else namespace
    return f"`icectl inspect {target_of(name.catalog, namespace)}` lists the tables"


def missing_tables(common: Common, tables: FoundTables) -> Iterator[tuple[str, IcectlError]]:
    """Yield the targets that stand for no table by mistake, or could not be listed.

    The others are warned of.
    """
    yield from tables.unread.items()
    for target in tables.empty:
        if is_pattern(target) or _is_there(target):
            common.shell.console.warn(f"there is no table at `{target}`")
        else:
            yield target, TableNotFound(f"there is no table `{target}`")


def look_at_each(common: Common, tables: Sequence[str], look: Callable[[str], T]) -> list[T]:
    """Look at some tables, several at a time, as many as their storage suits. Order: theirs."""
    concurrency = common.shell.settings.read(CONCURRENCY)
    threads = min(requests_at_once(concurrency, tables[0] if tables else ""), _TABLES_AT_ONCE)
    return list(in_threads(look, tables, [0] * len(tables), threads=threads))


def is_many(common: Common, targets: Sequence[str]) -> bool:
    """Return whether targets may stand for more than one table; nothing is asked for that."""
    return len(targets) > 1 or is_glob(common, targets[0])


def parts_of(text: str) -> tuple[str, ...]:
    """Return the parts of a name, a location or a pattern of either. Raises: UsageError."""
    if "/" in without_quoted(text) or text in (".", ".."):
        return tuple(_absolute(text).split("/"))
    return parse_name(text)


def is_glob(common: Common, target: str) -> bool:
    """Return whether a target is a pattern, not the location of something with such a name."""
    return is_pattern(target) and (common.catalog is not None or not _is_there(target))


def _is_there(target: str) -> bool:
    with suppress(ValueError, OSError):  # it is of another machine, or a name that no file has
        return is_local(target) and Path(local_path(target)).exists()
    return False


def _name(common: Common, target: str) -> NameInCatalog | None:
    if "/" in without_quoted(target):
        return None
    try:
        return name_in_catalog(common, target)
    except UsageError:
        if is_pattern(target) and _is_there(target):
            return None
        raise


def _in_catalog(common: Common, name: NameInCatalog) -> Iterator[str]:
    """Yield tables of a catalog by name. Raises: TableNotFound; StorageError."""
    warehouse = warehouse_of(common, name, storage_of(common))
    pattern = name.parts
    inside = fixed_part(pattern)
    if len(inside) == len(pattern):
        if len(inside) > 1 and not _is_namespace(warehouse, inside):
            _check_there(warehouse, name)
            yield _table_name(common, name.catalog, inside)
            return
        pattern = (*pattern, "**")
    tables = all_below(warehouse, inside)
    if len(inside) == len(pattern) - 1 and pattern[-1] != "**":  # no need to go deeper
        tables = iter(warehouse.tables(inside) if inside else ())
    for table in tables:
        parts = (*table.namespace, table.name)
        if matches(pattern, parts):
            yield _table_name(common, name.catalog, parts)


def _check_there(warehouse: Warehouse, name: NameInCatalog) -> None:
    """Raises: TableNotFound, with similar names; other errors are found later."""
    try:
        warehouse.table(name.table).catalog.load(to_show=True)
    except TableNotFound:
        raise
    except IcectlError:
        return


def _is_namespace(warehouse: Warehouse, parts: tuple[str, ...]) -> bool:
    """Return whether a namespace has this name; a table of this name comes first."""
    with suppress(TableNotFound):
        if any(parts == (*table.namespace, table.name) for table in warehouse.tables(parts[:-1])):
            return False
    try:
        next(iter(warehouse.tables(parts)), None)
    except TableNotFound:
        return False
    return True


def all_below(warehouse: Warehouse, namespace: tuple[str, ...]) -> Iterator[TableName]:
    """Yield the tables at and below a namespace. Raises: TableNotFound; StorageError."""
    if namespace:
        yield from warehouse.tables(namespace)
    for inner in warehouse.namespaces(namespace):
        yield from all_below(warehouse, inner)


def _table_name(common: Common, catalog: str, parts: tuple[str, ...]) -> str:
    """Return a table's name for commands, with its catalog unless an option names that."""
    return dotted_name(parts if common.catalog is not None else (catalog, *parts))


def _in_folders(common: Common, target: str) -> Iterator[str]:
    """Yield tables at and below locations. Raises: StorageError."""
    pattern = parts_of(target) if is_glob(common, target) else None
    base = (target.rstrip("/") if pattern is None else "/".join(fixed_part(pattern))) or "/"
    if is_local(base):
        with path_used_to("list", _absolute(base)) as path:
            on_disk = tables_on_disk(Path(path), common.shell.console.warn)
    else:
        on_disk = _in_store(common, base)
    if pattern is not None:
        yield from (location for location in on_disk if matches(pattern, parts_of(location)))
        return
    tables = list(islice(on_disk, 1))
    if tables and _absolute(tables[0]) == _absolute(base):
        yield target
        return
    yield from tables
    yield from on_disk


def _in_store(common: Common, base: str) -> Iterator[str]:
    """The tables at and below a location in a store, of which all is listed unless it is a table.

    Raises: StorageError.
    """
    store = _store(common, base)
    metadata = store.list_directory(join(base, METADATA_FOLDER))
    if any(is_metadata_file_name(location_name(file.location)) for file in metadata):
        yield base
        return
    yield from (entry.name for entry in tables_below(store, common.shell.env, base))


def _store(common: Common, base: str) -> Store:
    options = replace(storage_of(common, base), home=base)
    return open_store(options, common.shell.env, common.shell.deadline)


def tables_on_disk(folder: Path, warn: Callable[[str], None]) -> Iterator[str]:
    """The tables in and below a folder of this machine; what lies inside of a table is left out.

    A folder that cannot be read is left out with a warning. Order: by name.
    """
    try:
        if is_metadata_file_name(folder.name) and folder.is_file():
            yield str(folder)  # a command says what it thinks of one metadata file
            return
        names = sorted(entry.name for entry in folder.iterdir()) if folder.is_dir() else []
        metadata = folder / METADATA_FOLDER
        is_table = METADATA_FOLDER in names and metadata.is_dir()
        if is_table and any(is_metadata_file_name(entry.name) for entry in metadata.iterdir()):
            yield str(folder)
            return
        inner = [folder / name for name in names]
        folders = [path for path in inner if path.is_dir() and not path.is_symlink()]
    except OSError as error:
        warn(f"{folder} is skipped: {(error.strerror or str(error)).lower()}")
        return
    for path in folders:
        yield from tables_on_disk(path, warn)


def _absolute(location: str) -> str:
    trimmed = location.rstrip("/") or location
    return trimmed if scheme(trimmed) else str(Path(trimmed).absolute())
