"""Tables without a catalog's word: by listing their directory, or by one metadata file.

The format calls file-system tables deprecated and drops them in version 4; no fencing holds against
an engine that commits by renaming over a file. Directories that belong to a catalog are read only,
unless the caller names the metadata file that the catalog has as current.
"""

import logging
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from icectl.catalog.metadata_files import (
    METADATA_FOLDER,
    MetadataVersion,
    busy,
    check_own_version,
    check_place,
    doubled_versions,
    is_file_system_table,
    is_metadata_file_name,
    left_over,
    list_versions,
    loaded_from,
    metadata_version,
    newer_than,
    newest,
    no_metadata_file,
    read_file,
    uncommitted_files,
    wait_for_end,
    wants_gzip,
    without_uncommitted,
)
from icectl.catalog.other_formats import plain_data_files, table_of_other_format
from icectl.catalog.protocol import Capabilities, CommitOutcome, Committed, Conflict, LoadedTable
from icectl.env import Env
from icectl.errors import CommitConflict, Refused, TableNotFound
from icectl.files.metadata_file import read_version_hint
from icectl.format import properties
from icectl.format.file_names import (
    VERSION_HINT,
    catalog_metadata_file_name,
    lost_versions,
    metadata_file_name,
)
from icectl.format.metadata import TableMetadata
from icectl.storage import location as locations
from icectl.storage.open import PathMapStore
from icectl.storage.store import Store

if TYPE_CHECKING:  # what changes a table is imported by the commit that does
    from icectl.format.updates import Requirement, Update

_LOGGER = logging.getLogger(__name__)
_METADATA_PATH = properties.METADATA_PATH.name
_LOOKS = 3
"""How often metadata is looked for where files come and go between a listing and a reading."""

FILE_SYSTEM = Capabilities(
    is_certain=True,
    publishes=True,
    numbers_versions=True,
    cleans_metadata=True,
    commits_on_base=True,
)
"""Every metadata file is a version of the table, and the highest one is current (R-162)."""

OF_A_CATALOG = Capabilities(
    is_certain=False, publishes=False, numbers_versions=False, cleans_metadata=False
)
"""The newest file by name of a directory that a catalog keeps: for reading."""


def silent(_: str) -> None:
    """Drop the warning."""


@dataclass(frozen=True, slots=True)
class FileSystemCatalog:
    """The table in one directory; a commit creates `v<N+1>.metadata.json`, which must not exist.

    `warn` is told once of each file that a commit of another writer has left over (`warned`).
    """

    store: Store
    table_location: str
    env: Env
    warn: Callable[[str], None] = silent
    warned: set[str] = field(default_factory=set)

    def load(self, *, to_show: bool = False) -> LoadedTable:
        for _ in range(_LOOKS - 1):
            try:
                return self._load(to_show=to_show)
            except FileNotFoundError:  # renamed, or deleted by a concurrent commit
                continue
        return self._load(to_show=to_show)

    def _load(self, *, to_show: bool) -> LoadedTable:
        versions = list_versions(self.store, self._metadata_directory)
        if not versions:
            raise self._not_found()
        loaded = self._load_newest(versions, to_show=to_show)
        elsewhere = self._relocated_directory(loaded.metadata)
        if elsewhere is None:
            return loaded
        moved = list_versions(self.store, elsewhere)
        return self._load_newest((*versions, *moved), to_show=to_show) if moved else loaded

    def check_writable(self, loaded: LoadedTable) -> None:
        hint, versions = self._survey(loaded)
        check_place(self.store, self.table_location, loaded)
        self._check_current(loaded, hint, versions)
        _, old = uncommitted_files(versions, self.store, self.env)
        for version in old if loaded.capabilities.numbers_versions else ():
            if version.name not in self.warned:
                self.warn(left_over(version, self.table_location))
                self.warned.add(version.name)

    def settle(self) -> None:
        wait_for_end(self.store, self.env, self._metadata_directory)

    def commit(
        self, base: LoadedTable, requirements: "Sequence[Requirement]", updates: "Sequence[Update]"
    ) -> CommitOutcome:
        from icectl.catalog.commit_file import commit_file

        hint, versions = self._survey(base)
        if base.capabilities.numbers_versions and (ahead := newer_than(base, versions)):
            return Conflict(f"{ahead[0].name} was committed by another writer")
        check_place(self.store, self.table_location, base)
        self._check_current(base, hint, versions)
        under_way, _ = uncommitted_files(versions, self.store, self.env)
        if under_way:
            return busy(under_way[0])
        assert base.version is not None
        name = next_version_name(base, base.version + 1)
        outcome = commit_file(self.store, self.env, base, requirements, updates, name)
        if isinstance(outcome, Committed):
            refresh_hint(self.store, outcome.table.metadata_location)
        return outcome

    def _survey(self, loaded: LoadedTable) -> tuple[int | None, tuple[MetadataVersion, ...]]:
        """The number in the hint, then the files: they are written in the other order."""
        directory = loaded.metadata_folder
        try:
            hint = read_version_hint(self.store.read(locations.join(directory, VERSION_HINT)))
        except FileNotFoundError:
            hint = None
        return hint if isinstance(hint, int) else None, list_versions(self.store, directory)

    def check_current(self, loaded: LoadedTable) -> None:
        """Do nothing where the loaded file is current, anywhere. Raises: as check_writable."""
        hint, versions = self._survey(loaded)
        self._check_current(loaded, hint, versions)
        under_way, _ = uncommitted_files(versions, self.store, self.env)
        if under_way:
            writer = busy(under_way[0])
            raise CommitConflict(writer.reason, hint=writer.hint)

    def _check_current(
        self, loaded: LoadedTable, hint: int | None, versions: tuple[MetadataVersion, ...]
    ) -> None:
        if not is_file_system_table(versions):
            raise _catalog_owned(without_uncommitted(versions))
        if doubled := doubled_versions(versions):
            names = [version.name for version in versions if version.version == doubled[0]]
            raise Refused(
                f"{' and '.join(names)} in {locations.redacted(self.table_location)} have the same "
                "version, so it is unknown which is current",
                hint="move the one that is not current out of the directory",
            )
        if self._relocated_directory(loaded.metadata) is not None:
            raise Refused(
                f"the table property {_METADATA_PATH} moves metadata, which only a catalog "
                "can find",
                hint=f"remove the table property {_METADATA_PATH}, or register the table",
            )
        if not loaded.capabilities.is_certain:  # it was not, a moment ago
            raise CommitConflict(
                f"the metadata files of {locations.redacted(self.table_location)} have changed "
                "since they were read"
            )
        newest_number = max((v.version for v in versions if v.version is not None), default=None)
        if hint is not None and newest_number is not None and hint > newest_number:
            message, advice = lost_versions(hint, newest_number, loaded.metadata.location)
            raise Refused(message, hint=advice)
        check_own_version(loaded.metadata, loaded.metadata_location)

    @property
    def _metadata_directory(self) -> str:
        return locations.join(self.table_location, METADATA_FOLDER)

    def _load_newest(self, versions: Sequence[MetadataVersion], *, to_show: bool) -> LoadedTable:
        read = partial(read_file, self.store, to_show=to_show)
        location = newest(
            without_uncommitted(versions), lambda version: read(version.location).last_updated_ms
        ).location
        capabilities = FILE_SYSTEM if is_file_system_table(versions) else OF_A_CATALOG
        return loaded_from(read(location), location, capabilities)

    def _relocated_directory(self, metadata: TableMetadata) -> str | None:
        """Find where `write.metadata.path` puts metadata files, if that is elsewhere (R-161)."""
        path = properties.read(metadata.properties, properties.METADATA_PATH)
        if not path:
            return None
        if not locations.scheme(path) and not path.startswith("/"):
            path = locations.join(metadata.location, path)
        default = locations.join(metadata.location, METADATA_FOLDER)
        usual = {locations.loosest_key(default), locations.loosest_key(self._metadata_directory)}
        return None if locations.loosest_key(path.rstrip("/")) in usual else path.rstrip("/")

    def _not_found(self) -> TableNotFound:
        shown = locations.redacted(self.table_location)
        here = self.store.list_directory(self.table_location)
        if any(is_metadata_file_name(locations.name(file.location)) for file in here):
            hint = "its metadata files are in the directory itself: name its parent, or one of them"
        elif _is_missing_directory(self.store, self.table_location):
            return TableNotFound(
                f"there is no directory {shown}",
                hint="check the path; remote paths need a scheme such as s3://",
            )
        elif other := table_of_other_format(self.store, self.table_location):
            return TableNotFound(
                f"no Iceberg table at {shown}: it is {other.what}", hint=other.hint
            )
        else:
            what = ""
            hints = [
                f"a table directory contains {METADATA_FOLDER}/*.metadata.json",
                f"`icectl inspect {shown}` lists the tables below a folder",
                f"if {_METADATA_PATH} puts the metadata elsewhere, name one metadata file",
            ]
            if files := plain_data_files(self.store, self.table_location, here):
                what = f": it is {files.what}"
                hints.insert(0, files.hint)
            return TableNotFound(
                f"no Iceberg table at {shown}{what}",
                hint="; ".join(hints),
                hint_after_listing="; ".join(hint for hint in hints if hint != hints[-2]),
            )
        return TableNotFound(f"no Iceberg table at {shown}", hint=hint)


def refresh_hint(store: Store, target: str) -> None:
    """Point readers that trust the hint at a new metadata file; nothing depends on it."""
    directory = locations.parent(target)
    hint, number = locations.join(directory, VERSION_HINT), metadata_version(target).version
    stale = [locations.check_sum(file) for file in (hint, target)]
    try:
        store.remove(stale)  # Hadoop refuses files that do not match their checksum
        store.replace(hint, str(number).encode())
    except Exception:  # the commit has landed
        _LOGGER.debug("cannot refresh the hint in %s", directory, exc_info=True)


def next_version_name(base: LoadedTable, version: int) -> str:
    """Name the next version as other writers would (R-162), by default in the last one's form."""
    if properties.METADATA_COMPRESSION.name in base.metadata.properties:
        return metadata_file_name(version, gzip=wants_gzip(base, otherwise=False))
    return re.sub(r"^v\d+", f"v{version}", locations.name(base.metadata_location))


def _is_missing_directory(store: Store, location: str) -> bool:
    if isinstance(store, PathMapStore):
        return False
    try:
        return not Path(locations.local_path(location)).exists()
    except ValueError:
        return False


def _catalog_owned(versions: tuple[MetadataVersion, ...]) -> Refused:
    odd = next(version.name for version in versions if version.kind != "file-system")
    mixed = any(version.kind == "file-system" for version in versions)
    return Refused(
        f"this table belongs to a catalog, as {odd} in its metadata directory shows; the catalog "
        "would not see the change",
        hint=(
            f"if {odd} is left over from a failed commit, move it away; otherwise " if mixed else ""
        )
        + "name the table through its catalog, as CATALOG.NAMESPACE.TABLE; or give the current "
        "metadata file with `--metadata-file FILE`: the next one is written next to it, and you "
        "point the catalog at it",
    )


NAMED_FILE = Capabilities(
    is_certain=True, publishes=False, numbers_versions=False, cleans_metadata=False
)
"""The caller's word is that the file is current, and the caller publishes the next one."""


@dataclass(frozen=True, slots=True)
class NamedFileCatalog:
    """A table of another catalog by the metadata file that is current there.

    `metadata_file` is the caller's word for it. A commit writes the next file beside that one, and
    pointing the catalog at it is left to the caller.
    """

    store: Store
    table_location: str
    env: Env
    metadata_file: str

    def load(self, *, to_show: bool = False) -> LoadedTable:
        return load_file(self.store, self.metadata_file, to_show=to_show)

    def check_writable(self, loaded: LoadedTable) -> None:
        check_place(self.store, self.table_location, loaded)
        if loaded.version is None:
            name = locations.name(loaded.metadata_location)
            raise Refused(
                f"the name {name} has no version number, so the next one is unknown",
                hint="commit through the catalog that has the table",
            )
        self.check_current(loaded)

    def check_current(self, loaded: LoadedTable) -> None:
        """Do nothing where no newer file lies beside the given one. Raises: Refused."""
        if loaded.version is None:
            return
        ahead = newer_than(loaded, list_versions(self.store, loaded.metadata_folder))
        if ahead:
            name = locations.name(loaded.metadata_location)
            raise Refused(
                f"{ahead[-1].name} is newer, and is next to {name}",
                hint="ask the catalog which file is current; move files of failed commits away",
            )

    def settle(self) -> None:
        """Do nothing: the file that was named is current until the caller says otherwise."""

    def commit(
        self, base: LoadedTable, requirements: "Sequence[Requirement]", updates: "Sequence[Update]"
    ) -> CommitOutcome:
        from icectl.catalog.commit_file import commit_file

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
        return load_file(self.store, self.metadata_file, to_show=to_show)

    def check_writable(self, loaded: LoadedTable) -> None:
        raise read_only_file(loaded.metadata_location)

    def settle(self) -> None:
        """Do nothing: nothing is committed here."""

    def commit(
        self,
        base: LoadedTable,
        requirements: "Sequence[Requirement]",  # noqa: ARG002
        updates: "Sequence[Update]",  # noqa: ARG002
    ) -> CommitOutcome:
        raise read_only_file(base.metadata_location)


def load_file(store: Store, location: str, *, to_show: bool = False) -> LoadedTable:
    """Read a metadata file. Raises: TableNotFound; CorruptTable; Unsupported; StorageError."""
    try:
        metadata = read_file(store, location, to_show=to_show)
    except FileNotFoundError as error:
        raise no_metadata_file(location) from error
    return loaded_from(metadata, location, NAMED_FILE)


def read_only_file(location: str) -> Refused:
    """Return the error for a change of a table that one metadata file names."""
    return Refused(
        f"{locations.redacted(location)} is a single metadata file, and may not be the current one",
        hint="name the table's directory; add `--metadata-file` if the table belongs to a catalog",
    )
