"""Proving that no other table lies at, above or below the locations whose files may go."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from icectl.catalog.protocol import LoadedTable
from icectl.catalog.under_way import uncommitted_files
from icectl.catalog.versions import is_metadata_file_name, metadata_version
from icectl.catalog.warehouse import TablePlace
from icectl.codec.metadata_file import find_last_updated_ms, find_table_uuid, read_members
from icectl.env import Env
from icectl.errors import CorruptTable, Refused, StorageError
from icectl.progress import Progress
from icectl.run.remove_orphans.places import place_key
from icectl.storage.location import is_within, join, loosest_key, name, parent, shown
from icectl.storage.real_paths import real_location
from icectl.storage.store import Store
from icectl.table.reading import in_threads

_BEGINNING_BYTES = 4_096
_OTHER_FORMATS = {"_delta_log": r".", ".hoodie": r".", "schema": r"schema-[0-9]+$"}
"""Folders of table formats (Delta, Hudi, Paimon) whose tables may share data files with an Iceberg
table, and how the names of files in them begin."""


CatalogTables = Callable[[], Iterable[tuple[str, TablePlace]] | None]
"""Asks a catalog for the places of its other tables, by name; None where it does not tell."""


@dataclass(frozen=True, slots=True)
class OtherTables:
    """The search for metadata of other tables.

    `accepted` are files that it has looked at, with their last-updated-ms where they tell it.
    """

    store: Store
    env: Env
    concurrency: int
    accepted: dict[str, int | None] = field(default_factory=dict)

    def check_above(self, loaded: LoadedTable, places: Sequence[str]) -> None:
        """Look for metadata files of tables whose location is, or holds, one of the places.

        Raises: Refused; StorageError, where a folder above cannot be listed.
        """
        held = dict.fromkeys(above for place in places for above in _above(place))
        found = [
            status.location
            for above in held
            for status in self.store.list_directory(join(above, "metadata"))
            if is_metadata_file_name(name(status.location))
        ]
        found += [
            status.location
            for above in held
            if is_within(above, loaded.metadata.location)
            for folder, names in _OTHER_FORMATS.items()
            for status in self.store.list_directory(join(above, folder))
            if re.match(names, name(status.location))
        ]
        self.check(loaded, found)

    def check(self, loaded: LoadedTable, found: Sequence[str]) -> None:
        """Accept the metadata files of the table itself, those that left its log too.

        One that another writer is just committing to the table is not looked at, let alone read.
        Raises: Refused for any other, with whatever uuid; StorageError.
        """
        metadata = loaded.metadata
        logged = {loosest_key(entry.metadata_file) for entry in metadata.metadata_log}
        logged.add(loosest_key(loaded.metadata_location))
        own = {
            loosest_key(folder)
            for folder in (loaded.metadata_folder, join(metadata.location, "metadata"))
        }
        unlogged = [
            place
            for place in found
            if place not in self.accepted and loosest_key(place) not in logged
        ]
        for location in unlogged:
            if loosest_key(parent(location)) not in own:
                raise _other_table(location, "it lies in another folder than the table's")
        if loaded.capabilities.numbers_versions:
            unlogged = [place for place in unlogged if not self._is_under_way(place)]
        looks = in_threads(
            lambda location: _look(self.store, loaded, location),
            unlogged,
            [_BEGINNING_BYTES] * len(unlogged),
            threads=self.concurrency,
        )
        for location, look in zip(unlogged, looks, strict=True):
            if isinstance(look, str):
                raise _other_table(location, look)
            self.accepted[location] = look

    def _is_under_way(self, location: str) -> bool:
        """Return whether a file waits for the rename that commits it, or has it behind it."""
        version = metadata_version(location)
        if version.kind != "uncommitted":
            return False
        status = self.store.stat(location)
        dated = [] if status is None else [replace(version, modified_ms=status.modified_ms)]
        _, left_over = uncommitted_files(dated, self.store, self.env)
        return not left_over

    def check_newest(self, loaded: LoadedTable) -> None:
        """Refuse where one of the table's own files may be the current one instead of the loaded.

        The caller may have named an old one, or a copy that lies elsewhere. A catalog with which
        the table was registered may have begun to count anew: then the time tells.
        """
        if loaded.capabilities.publishes and not loaded.capabilities.numbers_versions:
            return  # a catalog has said which is current
        folder = loosest_key(loaded.metadata_folder)
        for location, updated_ms in sorted(self.accepted.items()):
            is_beside = loosest_key(parent(location)) == folder
            ahead = (metadata_version(location).version or 0) - (loaded.version or 0)
            is_later = (updated_ms or 0) > loaded.metadata.last_updated_ms
            is_recounted = not loaded.capabilities.numbers_versions and ahead < 0 and is_later
            if ahead > 0 or (ahead == 0 and not is_beside) or is_recounted:
                raise Refused(
                    f"{shown(location)} is not older than {shown(loaded.metadata_location)}: if it "
                    "is current, its files would be taken for orphans",
                    hint="ask the catalog which is current and name that one; move files of failed "
                    "commits away",
                    id="newer-metadata",
                )

    def forks(self, loaded: LoadedTable) -> Sequence[str]:
        """Return the table's own files that are no versions of it, as far back as its log goes.

        A commit that failed leaves one behind; so does another catalog that has the table too.
        """
        if loaded.capabilities.numbers_versions:  # numbers in a row are versions of one history
            return ()
        log = loaded.metadata.metadata_log
        since_ms = min((entry.timestamp_ms for entry in log), default=0)
        return [place for place, ms in sorted(self.accepted.items()) if (ms or 0) > since_ms]


def check_catalog(tables: CatalogTables, places: Sequence[str], progress: Progress) -> None:
    """Look for other tables of a catalog at, above or below the places, and files of theirs there.

    A catalog that cannot be asked is told of: the search for metadata files is left then.
    Raises: Refused.
    """
    keys = [place_key(place) for place in places]
    try:
        found = tables()
        for name, place in found or ():
            other = place_key(place.folder)
            holds = not place.is_named and any(key.startswith(other) for key in keys)
            if holds or any(other.startswith(key) for key in keys):
                how = "has files" if place.is_named else "lies"
                raise Refused(
                    f"`{name}`, another table of the catalog, {how} in {shown(place.folder)}: its "
                    "files would be taken for orphans",
                    hint="give each table a location of its own, and folders of its own",
                    id="other-table",
                )
    except StorageError as error:
        found = None
        progress.warn(error.message)
    if found is None:
        progress.warn(
            "the catalog does not tell where its other tables lie: that none lies here is known "
            "only from the metadata files that are here"
        )


def _above(place: str) -> Iterator[str]:
    """Yield a place, and the folders that hold it, up to the root, behind symbolic links too."""
    yield place
    yield from _parents(place)
    yield from _parents(real_location(place))


def _parents(place: str) -> Iterator[str]:
    while (above := parent(place)) != place:
        yield above
        place = above


def _look(store: Store, loaded: LoadedTable, location: str) -> str | int | None:
    """Tell why a metadata file cannot be one of the table's own; otherwise its last-updated-ms.

    None where it tells none, or is gone.
    """
    own = loaded.metadata.table_uuid
    try:
        beginning = store.read_range(location, 0, _BEGINNING_BYTES)
        found, updated_ms = find_table_uuid(beginning), find_last_updated_ms(beginning)
        if found is None:
            members = read_members(store.read(location))
            found, updated_ms = members.get("table-uuid"), members.get("last-updated-ms")
    except FileNotFoundError:
        return None
    except CorruptTable as error:
        return None if _is_left_over(loaded, location) else error.message
    if found is None and not _is_former(loaded, location):
        return "it has no table-uuid"
    if found is not None and found != own:
        return f"its table-uuid is {found}, that of the table is {own}"
    return updated_ms if isinstance(updated_ms, int) else None


def _is_former(loaded: LoadedTable, location: str) -> bool:
    """Whether a file without a uuid must be of a file-system table: an earlier version, or what a
    commit has left over."""
    found = metadata_version(location)
    return _is_left_over(loaded, location) or (
        loaded.capabilities.numbers_versions
        and found.kind == "file-system"
        and found.version is not None
        and loaded.version is not None
        and found.version < loaded.version
    )


def _is_left_over(loaded: LoadedTable, location: str) -> bool:
    """Return whether a commit that did not end has left a file beside the versions of a table."""
    return loaded.capabilities.numbers_versions and metadata_version(location).kind == "uncommitted"


def _other_table(location: str, why: str) -> Refused:
    return Refused(
        f"{shown(location)} may be metadata of another table, whose files would be taken for "
        f"orphans: {why}",
        hint="give each table a location of its own; move that file away if it is left over",
        id="other-table",
    )
