"""Tables whose current metadata is found by listing their directory.

The format calls file-system tables deprecated and drops them in version 4; no fencing holds against
an engine that commits by renaming over a file. Directories that belong to a catalog are read only,
unless the caller names the metadata file that the catalog has as current.
"""

import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from icectl.catalog.protocol import (
    Capabilities,
    CommitOutcome,
    Committed,
    Conflict,
    LoadedTable,
    Unknown,
)
from icectl.catalog.versions import (
    MetadataVersion,
    doubled_versions,
    is_file_system_table,
    is_metadata_file_name,
    list_versions,
    metadata_version,
    newest,
)
from icectl.codec.metadata_file import is_gzip, read_metadata, read_version_hint, write_metadata
from icectl.env import Env
from icectl.errors import CorruptTable, Refused, StorageError, TableNotFound
from icectl.spec import properties
from icectl.spec.metadata import TableMetadata
from icectl.spec.names import catalog_metadata_file_name, metadata_file_name
from icectl.spec.properties import METADATA_COMPRESSION
from icectl.spec.requirements import Requirement, check
from icectl.spec.updates import Update, apply_all, with_log
from icectl.storage import location as locations
from icectl.storage.create import check_creatable
from icectl.storage.failures import AnswerLost
from icectl.storage.path_map import PathMapStore
from icectl.storage.store import Store

_LOGGER = logging.getLogger(__name__)
_METADATA = "metadata"
_METADATA_PATH = properties.METADATA_PATH.name
_HINT = "version-hint.text"
_STORE_ALIASES = re.compile(r"^s3[an]:", re.IGNORECASE)


FILE_SYSTEM = Capabilities(
    is_certain=True, publishes=True, numbers_versions=True, cleans_metadata=True
)
"""Every metadata file is a version of the table, and the highest one is current (R-162)."""

OF_A_CATALOG = Capabilities(
    is_certain=False, publishes=False, numbers_versions=False, cleans_metadata=False
)
"""The newest file by name of a directory that a catalog keeps: for reading."""

GIVEN = Capabilities(
    is_certain=True, publishes=False, numbers_versions=False, cleans_metadata=False
)
"""The caller's word is that the file is current, and the caller publishes the next one."""


@dataclass(frozen=True, slots=True)
class FileSystemCatalog:
    """The table in one directory; a commit creates `v<N+1>.metadata.json`, which must not exist."""

    store: Store
    table_location: str
    env: Env

    def load(self) -> LoadedTable:
        """Read the current metadata.

        Raises: TableNotFound; CorruptTable; Unsupported; StorageError.
        """
        versions = list_versions(self.store, self._metadata_directory)
        if not versions:
            raise self._not_found()
        loaded = self._load_newest(versions)
        elsewhere = self._relocated_directory(loaded.metadata)
        if elsewhere is None:
            return loaded
        moved = list_versions(self.store, elsewhere)
        return self._load_newest((*versions, *moved)) if moved else loaded

    def check_writable(self, loaded: LoadedTable) -> None:
        """Do nothing where a commit to, or a clean-up of, this table is safe.

        Raises: Refused, with the way out.
        """
        self._check(loaded, *self._survey(loaded))

    def commit(
        self, base: LoadedTable, requirements: Sequence[Requirement], updates: Sequence[Update]
    ) -> CommitOutcome:
        """Make the next version of `base`, if that still is the newest.

        Raises: Refused, where a commit would not be safe; StorageError; both before the write.
        """
        hint, versions = self._survey(base)
        if base.capabilities.numbers_versions and (ahead := _newer_than(base, versions)):
            return Conflict(f"{ahead[0].name} was committed meanwhile")
        self._check(base, hint, versions)
        assert base.version is not None
        name = _next_version_name(base, base.version + 1)
        outcome = _commit_file(self.store, self.env, base, requirements, updates, name)
        if isinstance(outcome, Committed):
            self._refresh_hint(outcome.table.metadata_location)
        return outcome

    def _survey(self, loaded: LoadedTable) -> tuple[int | None, tuple[MetadataVersion, ...]]:
        """The number in the hint, and the metadata files: read in this order, as they are written
        in the other.
        """
        directory = loaded.metadata_folder
        try:
            hint = read_version_hint(self.store.read(locations.join(directory, _HINT)))
        except FileNotFoundError:
            hint = None
        return hint if isinstance(hint, int) else None, list_versions(self.store, directory)

    def _check(
        self, loaded: LoadedTable, hint: int | None, versions: tuple[MetadataVersion, ...]
    ) -> None:
        _check_place(self.store, self.table_location, loaded)
        if not loaded.capabilities.is_certain:
            raise _catalog_owned(versions)
        if doubled := doubled_versions(versions):
            names = [version.name for version in versions if version.version == doubled[0]]
            raise Refused(
                f"{' and '.join(names)} in {locations.shown(self.table_location)} are one version, "
                "so which of them is current cannot be told",
                hint="move the one that is not current out of the directory",
            )
        if self._relocated_directory(loaded.metadata) is not None:
            raise Refused(
                f"{_METADATA_PATH} moves the metadata of a table that no catalog keeps",
                hint=f"remove the table property {_METADATA_PATH}, or register the table",
            )
        _check_hint(hint, versions)

    @property
    def _metadata_directory(self) -> str:
        return locations.join(self.table_location, _METADATA)

    def _load_newest(self, versions: tuple[MetadataVersion, ...]) -> LoadedTable:
        found = newest(
            versions,
            lambda version: _read(self.store, version.location).last_updated_ms,
        )
        capabilities = FILE_SYSTEM if is_file_system_table(versions) else OF_A_CATALOG
        return _loaded(_read(self.store, found.location), found.location, capabilities)

    def _relocated_directory(self, metadata: TableMetadata) -> str | None:
        """Where `write.metadata.path` puts metadata files, if that is elsewhere (R-161)."""
        path = properties.read(metadata.properties, properties.METADATA_PATH)
        if not path:
            return None
        if not locations.scheme(path) and not path.startswith("/"):
            path = locations.join(metadata.location, path)
        default = locations.join(metadata.location, _METADATA)
        usual = {locations.loosest_key(default), locations.loosest_key(self._metadata_directory)}
        return None if locations.loosest_key(path.rstrip("/")) in usual else path.rstrip("/")

    def _not_found(self) -> TableNotFound:
        shown = locations.shown(self.table_location)
        here = self.store.list_directory(self.table_location)
        if any(is_metadata_file_name(locations.name(file.location)) for file in here):
            hint = "its metadata files lie in the directory itself: name its parent, or one of them"
        elif _is_missing_directory(self.store, self.table_location):
            return TableNotFound(
                f"there is no directory {shown}",
                hint="check the path; elsewhere than on this machine it begins with its scheme",
            )
        else:
            hint = (
                f"a table directory holds {_METADATA}/*.metadata.json; where {_METADATA_PATH} put "
                "them elsewhere, name one metadata file"
            )
        return TableNotFound(f"no Iceberg table at {shown}", hint=hint)

    def _refresh_hint(self, target: str) -> None:
        """Point readers that trust the hint at the new file; nothing depends on it."""
        directory, name = locations.parent(target), locations.name(target)
        number = metadata_version(target).version
        stale = [locations.join(directory, f".{file}.crc") for file in (_HINT, name)]
        try:
            self.store.remove(stale)  # Hadoop refuses files that do not match their check sum
            self.store.replace(locations.join(directory, _HINT), str(number).encode())
        except (StorageError, Refused):
            _LOGGER.debug("cannot refresh the hint in %s", directory, exc_info=True)


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

    def load(self) -> LoadedTable:
        """Read the file.

        Raises: TableNotFound; CorruptTable; Unsupported; StorageError.
        """
        return load_file(self.store, self.metadata_file)

    def check_writable(self, loaded: LoadedTable) -> None:
        """Do nothing where the next file may be written beside the given one.

        Raises: Refused, with the way out.
        """
        _check_place(self.store, self.table_location, loaded)
        _check_given(loaded, list_versions(self.store, loaded.metadata_folder))

    def commit(
        self, base: LoadedTable, requirements: Sequence[Requirement], updates: Sequence[Update]
    ) -> CommitOutcome:
        """Write the next metadata file.

        Raises: Refused, where that would not be safe; StorageError; both before the write.
        """
        self.check_writable(base)
        assert base.version is not None
        is_gzip_name = _wants_gzip(base, otherwise=".gz" in locations.name(base.metadata_location))
        name = catalog_metadata_file_name(
            base.version + 1, self.env.new_uuid(), gzip=is_gzip_name
        )
        return _commit_file(self.store, self.env, base, requirements, updates, name)


@dataclass(frozen=True, slots=True)
class SingleFileCatalog:
    """One metadata file, for reading: nothing says that it is current."""

    store: Store
    metadata_file: str

    def load(self) -> LoadedTable:
        """Read the file.

        Raises: TableNotFound; CorruptTable; Unsupported; StorageError.
        """
        return load_file(self.store, self.metadata_file)

    def check_writable(self, loaded: LoadedTable) -> None:
        """Refuse: a single file is for reading.

        Raises: Refused.
        """
        raise _read_only(loaded)

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


def load_file(store: Store, location: str) -> LoadedTable:
    """Read the metadata file that the caller named.

    Raises: TableNotFound; CorruptTable; Unsupported; StorageError.
    """
    try:
        metadata = _read(store, location)
    except FileNotFoundError as error:
        raise no_metadata_file(location) from error
    return _loaded(metadata, location, GIVEN)


def _commit_file(
    store: Store,
    env: Env,
    base: LoadedTable,
    requirements: Sequence[Requirement],
    updates: Sequence[Update],
    name: str,
) -> CommitOutcome:
    """Write the metadata file that follows `base`, under a name that nobody else may take.

    Raises: Refused, where another table is there, or an update breaks a rule; StorageError, where
    nothing was written.
    """
    content = store.read(base.metadata_location)
    problem = _changed(base, content) or _unmet(base.metadata, requirements)
    if problem is not None:
        return Conflict(problem)
    now_ms = max(env.now_ms(), base.metadata.last_updated_ms)
    applied = apply_all(base.metadata, updates)
    updated, _ = with_log(applied, base.metadata_location, now_ms)
    target = locations.join(base.metadata_folder, name)
    committed = Committed(
        LoadedTable(
            updated,
            target,
            metadata_version(target).version,
            base.metadata_folder,
            base.capabilities,
        )
    )
    written = write_metadata(updated, compressed=_wants_gzip(base, otherwise=is_gzip(content)))
    try:
        store.create(target, written)
    except (FileExistsError, StorageError) as error:
        return _settle(store, committed, written, error)
    return committed


def _next_version_name(base: LoadedTable, version: int) -> str:
    """Name the next version of a file-system table, as other writers would (R-162).

    Where the table does not say how it is compressed, it has the form of the last one.
    """
    if METADATA_COMPRESSION.name in base.metadata.properties:
        return metadata_file_name(version, gzip=_wants_gzip(base, otherwise=False))
    return re.sub(r"^v\d+", f"v{version}", locations.name(base.metadata_location))


def _wants_gzip(base: LoadedTable, *, otherwise: bool) -> bool:
    """Whether the table wants its metadata files compressed; `otherwise`, where it does not say.

    Raises: Refused, where the property is none that is known.
    """
    if METADATA_COMPRESSION.name not in base.metadata.properties:
        return otherwise
    return properties.read(base.metadata.properties, METADATA_COMPRESSION) == "gzip"


def _unmet(metadata: TableMetadata, requirements: Sequence[Requirement]) -> str | None:
    """Why a requirement does not hold; None where all do."""
    reasons = (check(metadata, requirement) for requirement in requirements)
    return next((reason for reason in reasons if reason is not None), None)


def _settle(
    store: Store,
    committed: Committed,
    written: bytes,
    error: FileExistsError | StorageError,
) -> CommitOutcome:
    """Look whether a write that did not succeed, or did not say so, has landed (R-156)."""
    target = committed.table.metadata_location
    reason = error.message if isinstance(error, StorageError) else "the file came and went"
    try:
        found = store.read(target)
    except FileNotFoundError:
        if isinstance(error, StorageError) and not isinstance(error, AnswerLost):
            raise error from None
        return Unknown(target, reason)
    except StorageError:
        return Unknown(target, reason)
    if found == written:
        return committed
    return Conflict(f"{locations.name(target)} was committed meanwhile")


def no_metadata_file(location: str) -> TableNotFound:
    """The error for a metadata file that is not there."""
    return TableNotFound(
        f"no metadata file {locations.shown(location)}",
        hint="a table's metadata files lie in its metadata/ directory",
    )


def _loaded(metadata: TableMetadata, location: str, capabilities: Capabilities) -> LoadedTable:
    """Spell the file's location as the table's own is: the metadata log will hold it."""
    directory = locations.parent(location)
    own = metadata.location
    if (
        (locations.scheme(own) or own.startswith("/"))
        and locations.name(directory) == _METADATA
        and _place(locations.parent(directory)) == _place(own)
    ):
        location = locations.join(own, _METADATA, locations.name(location))
    return LoadedTable(
        metadata,
        location,
        metadata_version(location).version,
        locations.parent(location),
        capabilities,
    )


def _read(store: Store, location: str) -> TableMetadata:
    try:
        return read_metadata(store.read(location))
    except CorruptTable as error:
        what = error.message.removesuffix(f" ({error.rule})")
        raise CorruptTable(
            f"{locations.shown(location)}: {what}", rule=error.rule, hint=error.hint
        ) from error


def _is_missing_directory(store: Store, location: str) -> bool:
    if isinstance(store, PathMapStore):
        return False
    try:
        return not Path(locations.local_path(location)).exists()
    except ValueError:
        return False


def _read_only(loaded: LoadedTable) -> Refused:
    return Refused(
        f"{locations.shown(loaded.metadata_location)} is one metadata file, and nothing says that "
        "it is current",
        hint="name the table's directory, with `--metadata-file` if a catalog keeps the table",
    )


def _place(location: str) -> str:
    """Where a table is, under every spelling that means the same directory."""
    if locations.is_local(location):
        try:
            return str(Path(locations.local_path(location)).resolve())
        except ValueError:
            return location
    return _STORE_ALIASES.sub("s3:", location).rstrip("/")


def _check_place(store: Store, table_location: str, loaded: LoadedTable) -> None:
    """Refuse where nothing can be committed, and a copy, which names the original's files."""
    if isinstance(store, PathMapStore):  # it refuses to write
        return
    check_creatable(table_location)
    if _place(table_location) != _place(loaded.metadata.location):
        raise Refused(
            f"the table in {locations.shown(table_location)} says that it lies in "
            f"{locations.shown(loaded.metadata.location)}: it is a copy, or was moved, and the "
            "files it names are those of the original",
            hint="name the table by the location in its metadata",
        )


def _newer_than(base: LoadedTable, versions: tuple[MetadataVersion, ...]) -> list[MetadataVersion]:
    assert base.version is not None
    return [v for v in versions if v.version is not None and v.version > base.version]


def _check_hint(hint: int | None, versions: tuple[MetadataVersion, ...]) -> None:
    """Refuse where the hint knows of a newer version than is there (R-163)."""
    newest_number = max((v.version for v in versions if v.version is not None), default=None)
    if hint is not None and newest_number is not None and hint > newest_number:
        raise Refused(
            f"{_HINT} says version {hint}, the newest metadata file is of version "
            f"{newest_number}: newer ones are missing",
            hint=f"bring them back, or correct {_HINT} if version {newest_number} is meant",
        )


def _check_given(loaded: LoadedTable, versions: tuple[MetadataVersion, ...]) -> None:
    name = locations.name(loaded.metadata_location)
    if loaded.version is None:
        raise Refused(
            f"the name {name} carries no version number, so that of the next file is unknown",
            hint="commit through the catalog that keeps the table",
        )
    ahead = _newer_than(loaded, versions)
    if ahead:
        raise Refused(
            f"{ahead[-1].name} lies beside {name} and is newer",
            hint="ask the catalog which file is current; move files of failed commits away",
        )


def _catalog_owned(versions: tuple[MetadataVersion, ...]) -> Refused:
    odd = next(version.name for version in versions if version.kind != "file-system")
    mixed = any(version.kind == "file-system" for version in versions)
    return Refused(
        f"a catalog keeps this table, as {odd} in its metadata directory shows; it would not see "
        "the change",
        hint=(
            f"if {odd} is left over from a failed commit, move it away; otherwise " if mixed else ""
        )
        + "name the current metadata file with `--metadata-file FILE`; the next one is written "
        "beside it, for the catalog to be pointed at",
    )


def _changed(base: LoadedTable, content: bytes) -> str | None:
    """Why the file that was loaded is no base any more, if so.

    Raises: Refused, when another table is there now.
    """
    found = read_metadata(content)
    expected = base.metadata.table_uuid
    if found.table_uuid != expected:
        raise Refused(
            f"another table is at {locations.shown(base.metadata_location)} now: its table-uuid is "
            f"{found.table_uuid}, that of the table read before is {expected}",
            hint="run the command again if that table is meant",
        )
    if found != base.metadata:
        return f"{locations.name(base.metadata_location)} was written anew meanwhile"
    return None
