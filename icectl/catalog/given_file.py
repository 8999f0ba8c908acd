"""Tables by one metadata file that the caller names: to read, or to write the next beside it."""

from collections.abc import Sequence
from dataclasses import dataclass

from icectl.catalog.metadata_files import (
    check_place,
    commit_file,
    loaded_from,
    newer_than,
    no_metadata_file,
    read_file,
    wants_gzip,
)
from icectl.catalog.protocol import Capabilities, CommitOutcome, LoadedTable
from icectl.catalog.versions import list_versions
from icectl.env import Env
from icectl.errors import Refused
from icectl.format.names import catalog_metadata_file_name
from icectl.format.requirements import Requirement
from icectl.format.updates import Update
from icectl.storage import location as locations
from icectl.storage.store import Store

GIVEN = Capabilities(
    is_certain=True, publishes=False, numbers_versions=False, cleans_metadata=False
)
"""The caller's word is that the file is current, and the caller publishes the next one."""


@dataclass(frozen=True, slots=True)
class GivenFileCatalog:
    """A table of another catalog by the metadata file that is current there.

    `metadata_file` is the caller's word for it. A commit writes the next file beside that one, and
    pointing the catalog at it is left to the caller.
    """

    store: Store
    table_location: str
    env: Env
    metadata_file: str

    def load(self, *, to_show: bool = False) -> LoadedTable:
        """Read the file.

        Raises: TableNotFound; CorruptTable; Unsupported; StorageError.
        """
        return load_file(self.store, self.metadata_file, to_show=to_show)

    def check_writable(self, loaded: LoadedTable) -> None:
        """Do nothing where the next file may be written beside the given one.

        Raises: Refused, with the way out.
        """
        check_place(self.store, self.table_location, loaded)
        name = locations.name(loaded.metadata_location)
        if loaded.version is None:
            raise Refused(
                f"the name {name} carries no version number, so that of the next file is unknown",
                hint="commit through the catalog that keeps the table",
            )
        ahead = newer_than(loaded, list_versions(self.store, loaded.metadata_folder))
        if ahead:
            raise Refused(
                f"{ahead[-1].name} lies beside {name} and is newer",
                hint="ask the catalog which file is current; move files of failed commits away",
            )

    def settle(self) -> None:
        """Do nothing: the file that was named is current until the caller says otherwise."""

    def commit(
        self, base: LoadedTable, requirements: Sequence[Requirement], updates: Sequence[Update]
    ) -> CommitOutcome:
        """Write the next metadata file.

        Raises: Refused, where that would not be safe; StorageError; both before the write.
        """
        self.check_writable(base)
        assert base.version is not None
        is_gzip_name = wants_gzip(base, otherwise=".gz" in locations.name(base.metadata_location))
        uuid = self.env.new_uuid()
        name = catalog_metadata_file_name(base.version + 1, uuid, gzip=is_gzip_name)
        return commit_file(self.store, self.env, base, requirements, updates, name)


@dataclass(frozen=True, slots=True)
class SingleFileCatalog:
    """One metadata file, for reading: nothing says that it is current."""

    store: Store
    metadata_file: str

    def load(self, *, to_show: bool = False) -> LoadedTable:
        """Read the file.

        Raises: TableNotFound; CorruptTable; Unsupported; StorageError.
        """
        return load_file(self.store, self.metadata_file, to_show=to_show)

    def check_writable(self, loaded: LoadedTable) -> None:
        """Refuse: a single file is for reading.

        Raises: Refused.
        """
        raise _read_only(loaded)

    def settle(self) -> None:
        """Do nothing: nothing is committed here."""

    def commit(
        self,
        base: LoadedTable,
        requirements: Sequence[Requirement],  # noqa: ARG002
        updates: Sequence[Update],  # noqa: ARG002
    ) -> CommitOutcome:
        """Refuse, like `check_writable`.

        Raises: Refused.
        """
        raise _read_only(base)


def load_file(store: Store, location: str, *, to_show: bool = False) -> LoadedTable:
    """Read the metadata file that the caller named.

    Raises: TableNotFound; CorruptTable; Unsupported; StorageError.
    """
    try:
        metadata = read_file(store, location, to_show=to_show)
    except FileNotFoundError as error:
        raise no_metadata_file(location) from error
    return loaded_from(metadata, location, GIVEN)


def _read_only(loaded: LoadedTable) -> Refused:
    return Refused(
        f"{locations.shown(loaded.metadata_location)} is one metadata file, and nothing says that "
        "it is current",
        hint="name the table's directory, with `--metadata-file` if a catalog keeps the table",
    )
