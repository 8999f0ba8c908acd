"""Tables whose catalog keeps one pointer to a metadata file: SQL, Glue, Hive.

A commit writes the next metadata file, whose bytes are icectl's own, and then swaps the pointer. So
nothing that a catalog does not know is lost, and a file that no pointer ever named is no version.
"""

import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Protocol

from icectl.catalog.commit_file import next_metadata, unmet, why_changed
from icectl.catalog.file_io import with_file_io
from icectl.catalog.identifier import TableName, dotted_name
from icectl.catalog.metadata_files import (
    check_original,
    is_same_place,
    metadata_version,
    read_file,
    wants_gzip,
)
from icectl.catalog.protocol import (
    Capabilities,
    CatalogAccess,
    CommitOutcome,
    Committed,
    Conflict,
    LoadedTable,
    TableInCatalog,
    Unknown,
    check_same_table,
)
from icectl.env import Env
from icectl.errors import CorruptTable, IcectlError
from icectl.files.metadata_file import is_gzip, write_metadata
from icectl.format.file_names import catalog_metadata_file_name
from icectl.format.metadata import TableMetadata
from icectl.format.properties import METADATA_PATH, read
from icectl.format.updates import Requirement, Update
from icectl.storage import location as locations
from icectl.storage.new_files import create_own
from icectl.storage.open import home_of, open_store, set_home, store_of_table
from icectl.storage.store import Store, check_creatable

_LOGGER = logging.getLogger(__name__)
METADATA_LOCATION = "metadata_location"
PREVIOUS = "previous_metadata_location"
"""Parameters of a table in Glue and in Hive: its metadata file, and the one before."""

_LOOKS = 3
"""How often a table is read whose files come and go with the commits of others."""

_PAUSES_SECONDS = (0.0, 0.5, 1.5, 3.0)
"""Before each look at what became of a swap: a server may be on its way back."""

POINTED = Capabilities(
    is_certain=True,
    publishes=True,
    numbers_versions=False,
    cleans_metadata=True,
    commits_on_base=True,
)
"""What a pointer names is current; its clients delete metadata files that leave the log."""


@dataclass(frozen=True, slots=True)
class PointerState:
    """What a catalog says of a table at one moment.

    `token` is what the kind of catalog wants to see again at the swap; `parameters` are its own
    words on the table, and `maintained_by` is as in Capabilities.
    """

    metadata_location: str
    previous: str | None = None
    token: object = None
    parameters: Mapping[str, str] = field(default_factory=dict)
    maintained_by: str | None = None


class SwapUncertain(Exception):
    """A swap was asked for, and no response said how it ended; its text is why, without secrets."""


class Pointer(Protocol):
    """The one entry of a catalog that says which metadata file of a table is current."""

    def read(self) -> PointerState:
        """Ask the catalog. Raises: TableNotFound, with names that are near; StorageError."""

    def check_writable(self, pointed: PointerState) -> None:
        """Raises: Refused, where clients must not commit: what is managed elsewhere, and such."""

    def swap(
        self, pointed: PointerState, metadata_location: str, metadata: TableMetadata
    ) -> Conflict | None:
        """Name another metadata file, if the entry still is as it was read; `previous` is kept.

        Returns why it is not, with nothing changed. Raises: SwapUncertain, where it is unknown; any
        other error only where the pointer is certain not to change.
        """

    def settle(self, pointed: PointerState) -> bool:
        """Wait a little; whether an uncertain swap can come no more. Raises: StorageError."""


@dataclass(frozen=True, slots=True)
class PointerCatalog:
    """One table behind a pointer; `name` is what its users call it."""

    pointer: Pointer
    store: Store
    env: Env
    name: str
    capabilities: Capabilities = POINTED

    @property
    def metadata_file(self) -> str:
        """The file that the catalog says is current. Raises: TableNotFound; StorageError."""
        return self.pointer.read().metadata_location

    def load(self, *, to_show: bool = False) -> LoadedTable:
        pointed = self.pointer.read()
        for _ in range(_LOOKS):
            try:
                metadata = read_file(self.store, pointed.metadata_location, to_show=to_show)
                set_home(self.store, pointed.metadata_location)
                capabilities = replace(self.capabilities, maintained_by=pointed.maintained_by)
                return _table(metadata, pointed.metadata_location, capabilities)
            except FileNotFoundError:  # perhaps a concurrent commit has deleted it
                before, pointed = pointed, self.pointer.read()
                if pointed.metadata_location == before.metadata_location:
                    break
        raise CorruptTable(
            f"the catalog says that {locations.redacted(pointed.metadata_location)} is the current "
            f"metadata file of {self.name}, and that file is missing",
            rule="R-034",
            hint="restore it, or register the table again with its newest metadata file",
        )

    def check_writable(self, loaded: LoadedTable) -> None:
        check_creatable(loaded.metadata_folder)
        check_original(self.store, loaded)
        self.pointer.check_writable(self.pointer.read())

    def settle(self) -> None:
        """Do nothing: a commit that is under way has not swapped the pointer."""

    def commit(
        self, base: LoadedTable, requirements: Sequence[Requirement], updates: Sequence[Update]
    ) -> CommitOutcome:
        """Write the metadata file that follows `base`, and swap the pointer from one to the other.

        Raises: Refused, TableNotFound, StorageError; each of them only where nothing is changed.
        """
        pointed = self.pointer.read()
        self.pointer.check_writable(pointed)
        check_original(self.store, base)
        if pointed.metadata_location != base.metadata_location:
            name = locations.name(pointed.metadata_location)
            return Conflict(f"{name} was committed by another writer")
        try:
            content = self.store.read(base.metadata_location)
        except FileNotFoundError:
            return Conflict(f"{locations.name(base.metadata_location)} is gone")
        problem = why_changed(base, content) or unmet(base.metadata, requirements)
        if problem is not None:
            return Conflict(problem)
        updated = next_metadata(base, updates, self.env.now_ms())
        gzip = wants_gzip(base, otherwise=is_gzip(content))
        number = 0 if base.version is None else base.version + 1
        name = catalog_metadata_file_name(number, self.env.new_uuid(), gzip=gzip)
        target = locations.join(base.metadata_folder, name)
        create_own(self.store, self.env, target, write_metadata(updated, compressed=gzip))
        ours = _table(updated, target, base.capabilities)
        try:  # the file goes where it is sure to have lost
            conflict = self.pointer.swap(pointed, ours.metadata_location, ours.metadata)
        except SwapUncertain as error:
            outcome = self._looked_up_outcome(base, pointed, ours, str(error))
        except Exception:
            self._remove(ours)
            raise
        else:
            outcome = Committed(ours) if conflict is None else conflict
        if isinstance(outcome, Conflict):
            self._remove(ours)
        return outcome

    def _looked_up_outcome(
        self, base: LoadedTable, pointed: PointerState, ours: LoadedTable, reason: str
    ) -> CommitOutcome:
        """Look what became of a swap (R-156)."""
        for seconds in _PAUSES_SECONDS:
            self.env.sleep(seconds)
            try:
                is_settled = self.pointer.settle(pointed)
                outcome = self._look(base, ours, is_settled=is_settled)
            except Exception:  # whatever it is, no response has come yet
                _LOGGER.debug("cannot check what happened to the commit", exc_info=True)
                continue
            if outcome is not None:
                return outcome
        return Unknown(ours.metadata_location, reason)

    def _look(
        self, base: LoadedTable, ours: LoadedTable, *, is_settled: bool
    ) -> CommitOutcome | None:
        """What the current metadata tells of a swap, if anything. Raises: what loading raises."""
        now = self.load()
        check_same_table(base, now.metadata)
        key = locations.loosest_key(ours.metadata_location)
        logged = [locations.loosest_key(entry.metadata_file) for entry in now.metadata.metadata_log]
        if key in (locations.loosest_key(now.metadata_location), *logged):
            return Committed(now)
        before = locations.loosest_key(base.metadata_location)
        if locations.loosest_key(now.metadata_location) == before:
            return Conflict("the catalog did not apply the commit") if is_settled else None
        if before in logged:  # what followed it was another writer's file
            name = locations.name(now.metadata_location)
            return Conflict(f"{name} was committed by another writer")
        return None

    def _remove(self, ours: LoadedTable) -> None:
        with suppress(IcectlError):
            self.store.remove([ours.metadata_location])


def _table(metadata: TableMetadata, location: str, capabilities: Capabilities) -> LoadedTable:
    """Make a loaded table; new files go where the table wants them, if its metadata are there.

    Else they go beside the current metadata file. A metadata file in a folder proves that the
    table's writer may write there, and icectl may have more rights than the writer.
    """
    folder, wanted = locations.parent(location), folder_of(metadata)
    folder = wanted if is_same_place(folder, wanted) else folder
    return LoadedTable(metadata, location, metadata_version(location).version, folder, capabilities)


def folder_of(metadata: TableMetadata) -> str:
    """Return where the table wants its metadata files (R-161)."""
    path = read(metadata.properties, METADATA_PATH)
    return path.rstrip("/") if path else locations.join(metadata.location, "metadata")


def entry_locations(location: str | None, parameters: Mapping[str, str]) -> list[str]:
    """Where a catalog's entry says that a table's files lie: its location, and by its metadata."""
    metadata = parameters.get(METADATA_LOCATION, "").rpartition("/metadata/")[0]
    by_key = {locations.loosest_key(place): place for place in (metadata, location) if place}
    return list(by_key.values())


def store_of_catalog(access: CatalogAccess) -> Store:
    """Return the store of all tables of a catalog, as its properties and the user say."""
    storage = with_file_io(access.storage, access.settings.properties)
    return open_store(storage, access.env, access.deadline)


def behind_pointer(
    access: CatalogAccess, store: Store, pointer: Pointer, name: TableName
) -> TableInCatalog:
    """Return a table by its pointer; `store` is that of all tables of the catalog."""
    shown = dotted_name((access.settings.name, *name.namespace, name.name))
    table_store = store_of_table(store)
    storage = with_file_io(access.storage, access.settings.properties)
    return TableInCatalog(
        name,
        PointerCatalog(pointer, table_store, access.env, shown),
        table_store,
        lambda: replace(storage, home=home_of(table_store)),
    )
