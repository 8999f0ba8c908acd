"""Start a command: open the store and the table's catalog, with the limits of the run."""

import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from icectl.catalog.configured import from_environment, passwords_in
from icectl.catalog.identifier import TableName, dotted_name
from icectl.catalog.metadata_files import moved_from, relocation_hint, rivals
from icectl.catalog.protocol import Catalog, LoadedTable, PlacesByCatalog, TablePlace, Warehouse
from icectl.catalog.resolve import located, resolve
from icectl.cli.console import Console
from icectl.cli.document import TableIdentity
from icectl.cli.naming import changed_in_hints, name_in_catalog, name_in_hints, warehouse_of
from icectl.cli.options import Change, Common, RunLimits
from icectl.cli.settings import CONCURRENCY, TEMP_DIR, Settings, is_secret, split_pair
from icectl.errors import CorruptTable, IcectlError, UsageError
from icectl.storage.location import parent, redacted
from icectl.storage.open import PathMapStore, StorageOptions, open_store, requests_at_once
from icectl.storage.store import Store
from icectl.table.context import (
    CatalogTables,
    DroppedTables,
    LeftoverRemovals,
    TableContext,
    open_table,
)
from icectl.table.reader import Reader

if TYPE_CHECKING:  # what commands that only read have no use for, and would wait for
    from icectl.cli.plans import Review
    from icectl.table.reviewed import Reviewed

_UNKNOWN_STORE = "catalog:"
"""Where tables of catalogs lie that were not loaded yet: most of them not on this machine."""


@dataclass(frozen=True, slots=True)
class Session:
    """One run on one table: its context, and what the command line says.

    `storage()` is what other processes reach the table's files with, once it is loaded. `spark` is
    the session of Spark that the caller has given, if any. A `review` holds the run to a plan.
    """

    context: TableContext
    console: Console
    settings: Settings
    storage: Callable[[], StorageOptions]
    limits: RunLimits
    spark: Any
    review: "Review | None"

    @property
    def reviewed(self) -> "Reviewed | None":
        """The changes that the run may make, where a plan that was reviewed says so."""
        return None if self.review is None else self.review.reviewed

    def approve(self, result: Callable[[], Mapping[str, Any]]) -> None:
        """Compare the result of the run's plan with the plan that was reviewed, if there is one.

        Raises: CommitConflict, where that is not what was reviewed.
        """
        if self.review is not None:
            self.review.approve(result)

    def open_for_reading(self, done: str) -> Reader:
        """Load the table for a command that only reads; `done` is what happens to it: shown.

        Raises: TableNotFound; StorageError; CorruptTable, where nothing can be shown.
        """
        loaded = open_table(self.context.catalog, to_show=True)
        if not loaded.capabilities.is_certain:
            self.console.note(
                f"note: this table belongs to a catalog; {done} is its newest metadata file, "
                f"`{loaded.metadata_location}`; CATALOG.NAMESPACE.TABLE asks the catalog"
            )
        if loaded.capabilities.publishes or not loaded.capabilities.is_certain:
            with suppress(IcectlError):  # listing is not what was asked for
                for warning in rivals(self.context.store, loaded):
                    self.console.warn(warning)
        origin = moved_from(loaded)
        if origin is not None and not isinstance(self.context.store, PathMapStore):
            place = parent(parent(loaded.metadata_location))
            self.console.warn(
                f"the metadata is in {redacted(place)}, but says that the table is in "
                f"{redacted(origin)}: it was copied or moved, and the files {done} are those of "
                f"{redacted(origin)}; {relocation_hint(place, loaded)}"
            )
        return Reader(self.context, loaded)


def identity_of(loaded: LoadedTable, after: str | None = None) -> TableIdentity:
    """Identify the table that a run was on; `after` is the metadata file that it has made."""
    metadata = loaded.metadata
    location, version = metadata.location, metadata.format_version
    return TableIdentity(location, metadata.table_uuid, version, loaded.metadata_location, after)


def unpublished_metadata(loaded: LoadedTable) -> str | None:
    """Return where the metadata lie, if it is the caller who makes them current; else None."""
    return None if loaded.capabilities.publishes else loaded.metadata_location


def open_session(
    common: Common,
    table: str,
    *,
    read_only: bool,
    change: Change | None = None,
    dropped: DroppedTables | None = None,
) -> Session:
    """Connect a command to its table; nothing is read yet. `dropped` tables may have left files.

    Raises: UsageError; TableNotFound; Unsupported, for a library that is not installed.
    """
    shell = common.shell
    temp_dir = shell.settings.read(TEMP_DIR)
    if temp_dir is not None:
        if not temp_dir.is_dir():
            raise UsageError(f"`--temp-dir`: there is no folder `{temp_dir}`")
        import tempfile

        tempfile.tempdir = str(temp_dir)  # libraries that spool to disk go by it
    pairs = [split_pair(text, "--path-map", text.rpartition("=")) for text in common.path_map or ()]
    if common.path_map_file is not None:
        pairs += _read_path_map(Path(common.path_map_file))
    path_map = tuple(pairs)
    if path_map and not read_only and not (change and (change.dry_run or change.check)):
        raise UsageError(
            "`--path-map` only works for reading, and this command changes the table",
            hint="`--dry-run` or `--check` plan without changing anything",
        )
    catalog, store, storage, other_tables = _open(
        common, table, path_map, read_only=read_only, change=change
    )
    if shell.review is not None:
        catalog = shell.review.pinned(catalog)
    concurrency = requests_at_once(
        shell.settings.read(CONCURRENCY), _UNKNOWN_STORE if other_tables else table
    )
    context = TableContext(
        store,
        catalog,
        shell.env,
        shell.console.progress,
        shell.deadline,
        concurrency,
        shell.interrupts.shield,
        other_tables,
        LeftoverRemovals(shell.limits.deleted_files, shell.leftovers),
        dropped or DroppedTables(),
    )

    def recovery_hint(error: CorruptTable) -> str | None:
        """Return a better hint for an error, by what is whole of the table."""
        from icectl.table.recovery import BrokenTable

        words = changed_in_hints(name_in_hints(common, table))
        return BrokenTable(context, words).hint(error)

    shell.recovery_hints.append(recovery_hint)
    return Session(
        context, shell.console, shell.settings, storage, shell.limits, shell.spark, shell.review
    )


def connect_to(common: Common, table: str) -> TableContext:
    """Connect a command to another table than its own, to read it. Raises: as open_session."""
    return open_session(common, table, read_only=True).context


def _open(
    common: Common,
    table: str,
    path_map: tuple[tuple[str, str], ...],
    *,
    read_only: bool,
    change: Change | None,
) -> tuple[Catalog, Store, Callable[[], StorageOptions], CatalogTables | None]:
    """Return a table's catalog, its store, what others reach that with, and the other tables."""
    shell = common.shell
    metadata_file = None if change is None else change.metadata_file
    name = name_in_catalog(common, table)
    options = storage_of(common, table if name is None else "", path_map)
    if metadata_file is not None:
        options = replace(options, user_locations=(*options.user_locations, metadata_file))
    if name is not None:
        if metadata_file is not None:
            raise UsageError(
                f"`{table}` is a name in catalog `{name.catalog}`, which knows the current "
                "metadata file",
                hint="leave `--metadata-file` out, or name the table by its location",
            )
        warehouse = warehouse_of(common, name, options)
        place = warehouse.table(name.table)
        others = _others(warehouse, name.catalog, place.name, shell.places_by_catalog)
        return place.catalog, place.store, place.storage, others
    if common.catalog_option:
        raise UsageError(f"`--catalog-option` needs a catalog, and `{table}` is a location")
    options = replace(options, home=located(table))
    store = open_store(options, shell.env, shell.deadline)
    catalog = resolve(
        table,
        store,
        shell.env,
        read_only=read_only,
        metadata_file=metadata_file,
        warn=shell.console.warn,
    )
    return catalog, store, lambda: options, None


def _others(
    warehouse: Warehouse, catalog: str, own: TableName, known: PlacesByCatalog
) -> CatalogTables:
    def others() -> Iterable[tuple[str, TablePlace]] | None:
        if catalog not in known:
            listed = warehouse.places()
            known[catalog] = None if listed is None else tuple(listed)
        entry = known[catalog]
        if entry is None:
            return None
        return (
            (dotted_name((catalog, *place.table.namespace, place.table.name)), place)
            for place in entry
            if place.table != own
        )

    return others


def storage_of(
    common: Common, at: str = "", path_map: tuple[tuple[str, str], ...] = ()
) -> StorageOptions:
    """Return what the user says of storage; `at` is a location, if named. Raises: UsageError."""
    shell = common.shell
    storage_options = dict(shell.settings.storage_options)
    for text in common.storage_option or ():
        key, value = split_pair(text, "--storage-option", text.partition("="))
        storage_options[key] = value
    options = {
        key: from_environment(value, os.environ, f"storage option `{key}`")
        for key, value in storage_options.items()
    }
    for key, value in options.items():  # credentials are shown nowhere
        if is_secret(key) or storage_options[key].startswith("env:"):
            shell.console.hide(value)
        for password in passwords_in(value):
            shell.console.hide(password)
    return StorageOptions(
        options=options,
        path_map=path_map,
        concurrency=shell.settings.read(CONCURRENCY),
        warn=shell.console.warn,
        user_locations=(at, *(target for _, target in path_map)) if at else (),
    )


def _read_path_map(file: Path) -> Iterable[tuple[str, str]]:
    try:
        lines = file.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise UsageError(f"`--path-map-file`: cannot read `{file}`: {reason}") from error
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.startswith("#"):
            continue
        start, tab, target = line.partition("\t")
        if not tab or not start.strip() or not target.strip():
            raise UsageError(f"`--path-map-file`: line {number} of `{file}` is not FROM, tab, TO")
        yield start.strip(), target.strip()
