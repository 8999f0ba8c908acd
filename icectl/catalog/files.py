"""Tables whose current metadata is found by listing their directory.

The format calls file-system tables deprecated and drops them in version 4; no fencing holds against
an engine that commits by renaming over a file. Directories that belong to a catalog are read only.
"""

import logging
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from icectl.catalog.protocol import CommitOutcome, Committed, Conflict, LoadedTable, Unknown
from icectl.catalog.under_way import busy, left_over, uncommitted, wait_for_end
from icectl.catalog.versions import (
    MetadataVersion,
    doubled_versions,
    is_file_system_table,
    is_metadata_file_name,
    list_versions,
    metadata_version,
    newest,
    without_uncommitted,
)
from icectl.codec.metadata_file import is_gzip, read_metadata, read_version_hint, write_metadata
from icectl.env import Env
from icectl.errors import (
    CommitConflict,
    CorruptTable,
    IcectlError,
    Refused,
    StorageError,
    TableNotFound,
)
from icectl.spec import properties
from icectl.spec.metadata import TableMetadata
from icectl.spec.names import catalog_metadata_file_name
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
_LOOKS = 3
"""How often metadata is looked for where files come and go between a listing and a reading."""


def silent(_: str) -> None:
    """Warn nobody."""


@dataclass(frozen=True, slots=True)
class FileSystemCatalog:
    """The table in one directory; `metadata_file` is the caller's word for which file is current.

    Commits create `v<N+1>.metadata.json`, which fails when it exists. With `metadata_file` the next
    metadata file is written beside that one, and pointing the catalog at it is left to the caller.
    `warn` is told once of each file that a commit of another writer has left over (`told`).
    """

    store: Store
    table_location: str
    env: Env
    metadata_file: str | None = None
    warn: Callable[[str], None] = silent
    told: set[str] = field(default_factory=set)

    def load(self) -> LoadedTable:
        """Read the current metadata.

        Raises: TableNotFound; CorruptTable; Unsupported; StorageError.
        """
        if self.metadata_file is not None:
            return load_file(self.store, self.metadata_file)
        for _ in range(_LOOKS - 1):
            try:
                return self._load()
            except FileNotFoundError:  # renamed, or deleted by a commit that came meanwhile
                continue
        return self._load()

    def _load(self) -> LoadedTable:
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

        Raises: Refused, with the way out; CommitConflict, where the table becomes another's just
        now.
        """
        hint, versions = self._survey(loaded)
        self._check(loaded, hint, versions)
        _, old = uncommitted(versions, self.store, self.env)
        for version in old if loaded.current == "file-system" else ():
            if version.name not in self.told:
                self.warn(left_over(version))
                self.told.add(version.name)

    def settle(self) -> None:
        """Wait until the commits of other writers that are under way have ended.

        Raises: CommitConflict, for one that takes long; StorageError.
        """
        if self.metadata_file is None:
            wait_for_end(self.store, self.env, self._metadata_directory)

    def commit(self, base: LoadedTable, updated: TableMetadata) -> CommitOutcome:
        """Make `updated` current if `base` still is; an exception means that nothing was sent.

        Raises: Refused, where a commit would not be safe; CommitConflict; StorageError.
        """
        hint, versions = self._survey(base)
        if base.current == "file-system" and (ahead := _newer_than(base, versions)):
            return Conflict(f"{ahead[0].name} was committed meanwhile")
        self._check(base, hint, versions)
        under_way, _ = uncommitted(versions, self.store, self.env)
        if under_way and base.current == "file-system":
            return busy(under_way[0])
        try:
            content = self.store.read(base.metadata_location)
        except FileNotFoundError:
            return Conflict(f"{locations.name(base.metadata_location)} is gone")
        if (problem := _changed(base, content, updated)) is not None:
            return problem
        compressed = is_gzip(content)
        target = locations.join(locations.parent(base.metadata_location), self._next_name(base))
        outcome = self._create(target, write_metadata(updated, compressed=compressed), updated)
        if isinstance(outcome, Committed) and base.current == "file-system":
            self._refresh_hint(target)
        return outcome

    def forget(self, base: LoadedTable, updated: TableMetadata, dropped: Sequence[str]) -> None:
        """Delete metadata files of the table that left its log, where it wants that (R-024, R-193).

        Never raises; does nothing where a catalog has a say in which version is current.
        """
        wanted = (properties.DELETE_AFTER_COMMIT, properties.GC_ENABLED)
        if base.current != "file-system" or not all(
            properties.read(updated.properties, each) for each in wanted
        ):
            return
        logged = {locations.loosest_key(entry.metadata_file) for entry in updated.metadata_log}
        inside = [place for place in dropped if locations.is_within(place, updated.location)]
        surplus = [place for place in inside if locations.loosest_key(place) not in logged]
        check_sums = [locations.check_sum(place) for place in surplus if locations.is_local(place)]
        try:
            self.store.remove([*surplus, *check_sums])
        except Exception:  # the commit has landed
            _LOGGER.debug("cannot delete metadata files of %s", updated.location, exc_info=True)

    def _survey(self, loaded: LoadedTable) -> tuple[int | None, tuple[MetadataVersion, ...]]:
        """The number in the hint, and the metadata files: read in this order, as they are written
        in the other.
        """
        directory = locations.parent(loaded.metadata_location)
        try:
            hint = read_version_hint(self.store.read(locations.join(directory, _HINT)))
        except FileNotFoundError:
            hint = None
        return hint if isinstance(hint, int) else None, list_versions(self.store, directory)

    def _check(
        self, loaded: LoadedTable, hint: int | None, versions: tuple[MetadataVersion, ...]
    ) -> None:
        self._check_place(loaded)
        if loaded.current == "given":
            _check_given(loaded, versions)
            return
        if not is_file_system_table(versions):
            raise _catalog_owned(without_uncommitted(versions))
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
        if loaded.current != "file-system":  # it was not, a moment ago
            raise CommitConflict(
                f"the metadata files of {locations.shown(self.table_location)} have changed "
                "meanwhile"
            )
        _check_hint(hint, versions)

    @property
    def _metadata_directory(self) -> str:
        return locations.join(self.table_location, _METADATA)

    def _load_newest(self, versions: tuple[MetadataVersion, ...]) -> LoadedTable:
        found = newest(
            without_uncommitted(versions),
            lambda version: _read(self.store, version.location).last_updated_ms,
        )
        owned = "file-system" if is_file_system_table(versions) else "newest-of-catalog"
        return _loaded(_read(self.store, found.location), found.location, owned)

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

    def _check_place(self, loaded: LoadedTable) -> None:
        """Refuse where nothing can be committed, and a copy, which names the original's files."""
        if isinstance(self.store, PathMapStore):  # it refuses to write
            return
        check_creatable(self.table_location)
        if _place(self.table_location) != _place(loaded.metadata.location):
            raise Refused(
                f"the table in {locations.shown(self.table_location)} says that it lies in "
                f"{locations.shown(loaded.metadata.location)}: it is a copy, or was moved, and the "
                "files it names are those of the original",
                hint="name the table by the location in its metadata",
            )

    def _next_name(self, base: LoadedTable) -> str:
        """The name after the one found, in its form (R-006)."""
        assert base.version is not None
        name = locations.name(base.metadata_location)
        if base.current == "file-system":
            return re.sub(r"^v\d+", f"v{base.version + 1}", name)
        return catalog_metadata_file_name(base.version + 1, self.env.new_uuid(), gzip=".gz" in name)

    def _create(self, target: str, content: bytes, updated: TableMetadata) -> CommitOutcome:
        try:
            self.store.create(target, content)
        except Exception as error:  # whatever it is, the file may be there
            if isinstance(error, IcectlError) and not isinstance(error, StorageError):
                raise
            return self._landed_or_not(target, content, updated, error)
        return Committed(updated, target)

    def _landed_or_not(
        self, target: str, content: bytes, updated: TableMetadata, error: Exception
    ) -> CommitOutcome:
        """Look whether a write that did not succeed, or did not say so, has landed (R-156)."""
        try:
            found = self.store.read(target)
        except FileNotFoundError:
            if isinstance(error, StorageError) and not isinstance(error, AnswerLost):
                raise error from None
            return Unknown(target, _reason(error))
        except Exception:
            _LOGGER.debug("cannot look for %s", target, exc_info=True)
            return Unknown(target, _reason(error))
        if found == content:
            return Committed(updated, target)
        return Conflict(f"{locations.name(target)} was committed meanwhile")

    def _refresh_hint(self, target: str) -> None:
        """Point readers that trust the hint at the new file; nothing depends on it."""
        directory = locations.parent(target)
        hint, number = locations.join(directory, _HINT), metadata_version(target).version
        stale = [locations.check_sum(file) for file in (hint, target)]
        try:
            self.store.remove(stale)  # Hadoop refuses files that do not match their check sum
            self.store.replace(hint, str(number).encode())
        except Exception:  # the commit has landed
            _LOGGER.debug("cannot refresh the hint in %s", directory, exc_info=True)


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

    def settle(self) -> None:
        """Do nothing: nothing is committed here."""

    def commit(self, base: LoadedTable, updated: TableMetadata) -> CommitOutcome:  # noqa: ARG002
        """Refuse, like `check_writable`.

        Raises: Refused.
        """
        raise _read_only(base)

    def forget(self, base: LoadedTable, updated: TableMetadata, dropped: Sequence[str]) -> None:
        """Do nothing: there was no commit."""


def load_file(store: Store, location: str) -> LoadedTable:
    """Read the metadata file that the caller named.

    Raises: TableNotFound; CorruptTable; Unsupported; StorageError.
    """
    try:
        metadata = _read(store, location)
    except FileNotFoundError as error:
        raise no_metadata_file(location) from error
    return _loaded(metadata, location, "given")


def no_metadata_file(location: str) -> TableNotFound:
    """The error for a metadata file that is not there."""
    return TableNotFound(
        f"no metadata file {locations.shown(location)}",
        hint="a table's metadata files lie in its metadata/ directory",
    )


def _loaded(metadata: TableMetadata, location: str, current: str) -> LoadedTable:
    """Spell the file's location as the table's own is: the metadata log will hold it."""
    directory = locations.parent(location)
    own = metadata.location
    if (
        (locations.scheme(own) or own.startswith("/"))
        and locations.name(directory) == _METADATA
        and _place(locations.parent(directory)) == _place(own)
    ):
        location = locations.join(own, _METADATA, locations.name(location))
    return LoadedTable(metadata, location, metadata_version(location).version, current)


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


def _reason(error: Exception) -> str:
    """Why a write is not known to have happened."""
    if isinstance(error, FileExistsError):
        return "the file came and went"
    _LOGGER.debug("the write failed", exc_info=error)
    return error.message if isinstance(error, StorageError) else f"{type(error).__name__}: {error}"


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


def check_same_table(loaded: LoadedTable, now: TableMetadata) -> None:
    """Raises: Refused, when metadata is not of the table that was loaded (R-002)."""
    expected = loaded.metadata.table_uuid
    if now.table_uuid != expected:
        raise Refused(
            f"another table is at {locations.shown(loaded.metadata_location)} now: its table-uuid "
            f"is {now.table_uuid}, that of the table read before is {expected}",
            hint="run the command again if that table is meant",
        )


def _changed(base: LoadedTable, content: bytes, updated: TableMetadata) -> Conflict | None:
    """Why the file that was loaded is no base any more, if so.

    Raises: Refused, when another table is there now.
    """
    found = read_metadata(content)
    check_same_table(base, found)
    if base.metadata.table_uuid is not None:
        check_same_table(base, updated)
    if found != base.metadata:
        return Conflict(f"{locations.name(base.metadata_location)} was written anew meanwhile")
    return None
