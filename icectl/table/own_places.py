"""The locations that a table owns: commands delete its files only there.

Any writer of the table decides which locations its metadata names. A table thus owns a location
only if its current metadata file is there, which proves that its writer may write there. A table's
location is proved by a file in it or in its folder `metadata`, the folder of `write.metadata.path`
by a file directly in it. OtherTables checks that no other table is there too.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from icectl.catalog.metadata_files import (
    METADATA_FOLDER,
    is_metadata_file_name,
    metadata_version,
    uncommitted_files,
)
from icectl.catalog.protocol import LoadedTable
from icectl.entries.files import (
    Files,
    beginning_with,
    containing,
    excluding,
    including,
    rows,
    together,
)
from icectl.errors import CorruptTable, Refused, StorageError
from icectl.files.metadata_file import find_last_updated_ms, find_table_uuid, read_metadata_json
from icectl.format.file_names import named_folders
from icectl.format.metadata import TableMetadata
from icectl.format.properties import METADATA_PATH
from icectl.progress import Progress
from icectl.storage.failures import ACCESS_DENIED
from icectl.storage.identity import SameStore, kept_from_owner, place_key, real_location
from icectl.storage.location import (
    is_local,
    is_within,
    join,
    loosest_key,
    name,
    parent,
    redacted,
    root,
)
from icectl.storage.store import Store
from icectl.table.context import TableContext
from icectl.table.orphan_verdicts import listed_metadata
from icectl.table.reading import in_threads
from icectl.table.rewrite_tasks import Task
from icectl.units import print_count, print_instant


@dataclass(frozen=True, slots=True)
class OwnPlaces:
    """The folders that a table owns; the first is its location, if that is one of them."""

    location: str
    folders: tuple[str, ...]

    @property
    def has_location(self) -> bool:
        return self.location in self.folders

    def holds(self, location: str) -> bool:
        return any(is_within(location, folder) for folder in self.folders)

    def split(self, files: Files) -> tuple[Files, Files]:
        """Return the files inside the folders, and those outside. Order: kept."""
        rest, doubtful = files, []
        for folder in self.folders:
            in_folder, rest = beginning_with(rest, folder + "/")
            doubtful.append(containing(in_folder, "/../"))
        places = [place for place, _, _ in rows(together([*doubtful, rest]))]
        outside = [place for place in places if not self.holds(place)]
        return excluding(files, outside), including(files, outside)


def own_places(loaded: LoadedTable) -> OwnPlaces:
    """Return the places that hold the table's current metadata file."""
    location = loaded.metadata.location.rstrip("/")
    holder = parent(loaded.metadata_location)
    named = named_folders(location, loaded.metadata.properties).get(METADATA_PATH.name)
    folders = []
    if any(_is_same(holder, folder) for folder in (location, join(location, METADATA_FOLDER))):
        folders.append(location)
    elif named and _is_same(holder, named) and SameStore().holds(holder, location):
        folders.append(named)
    return OwnPlaces(location, tuple(folders))


def check_owns_metadata_folder(context: TableContext, loaded: LoadedTable) -> None:
    """Refuse to write new metadata among the files of another table.

    Raises: Refused; StorageError.
    """
    folder, location = loaded.metadata_folder, loaded.metadata.location
    usual = join(location, METADATA_FOLDER)
    if _is_same(folder, usual) and _is_same(parent(loaded.metadata_location), usual):
        return
    try:
        OtherTables(context).check_in_and_above(loaded, [folder])
    except Refused as refused:
        raise Refused(
            f"new metadata would be written to {redacted(folder)}, among files of another table: "
            f"{refused.message}",
            hint="set `write.metadata.path` to a folder of this table alone",
            id=refused.error_id,
        ) from refused


def metadata_files_among(places: Sequence[str]) -> list[str]:
    """Return the places with the name of a metadata file: a log may name anything."""
    return [place for place in places if is_metadata_file_name(name(place))]


def _is_same(folder: str, other: str) -> bool:
    if is_local(folder) and is_local(other):
        return real_location(folder) == real_location(other)
    if not SameStore().holds(folder, other):
        return False
    return folder[len(root(folder)) :].rstrip("/") == other[len(root(other)) :].rstrip("/")


BEGINNING_BYTES = 4_096
_MOST_FOLDERS = 1_000
"""Folders that are listed one by one."""

_OTHER_FORMATS = {"_delta_log": r".", ".hoodie": r".", "schema": r"schema-[0-9]+$"}
"""Folders of table formats (Delta, Hudi, Paimon) whose tables may share data files with an Iceberg
table, and how the names of files in them begin."""


@dataclass(frozen=True, slots=True)
class OtherTables:
    """The search for metadata of other tables.

    `accepted` are the table's own files, with their last-updated-ms if they have it; `left_over`
    are those of dropped tables.
    """

    context: TableContext
    accepted: dict[str, int | None] = field(default_factory=dict)
    left_over: set[str] = field(default_factory=set)
    _logged: set[str] = field(default_factory=set)

    def check_around(
        self,
        loaded: LoadedTable,
        folders: Sequence[str],
        of_files: Iterable[str],
        *,
        asks_catalog: bool = True,
    ) -> None:
        """Look for other tables at and above some folders, and on the way to files below them.

        `of_files` are the folders of these files. Raises: Refused; StorageError.
        """
        self.check_in_and_above(loaded, folders)
        if asks_catalog:
            self.check_catalog(folders)
        self.check(loaded, self._below(folders, of_files))

    def check_in_and_above(self, loaded: LoadedTable, folders: Sequence[str]) -> None:
        """Look for metadata files of other tables directly in some folders, and as `check_above`.

        If a folder above may not be listed, only the catalog is asked.
        Raises: Refused; StorageError.
        """
        self.check_above(loaded, folders, skips_denied=self.context.catalog_tables is not None)
        self.check(loaded, self._metadata_files_in(folders))

    def _metadata_files_in(self, folders: Iterable[str]) -> list[str]:
        listings = in_threads(
            self.context.store.list_directory,
            folders := list(folders),
            [1] * len(folders),
            threads=self.context.concurrency,
        )
        return [
            status.location
            for listed in listings
            for status in listed
            if is_metadata_file_name(name(status.location))
        ]

    def _below(self, folders: Sequence[str], of_files: Iterable[str]) -> list[str]:
        """Return the metadata files of tables between the folders and some files.

        For files in very many folders, one listing of everything costs less.
        """
        between: dict[str, None] = {}
        for folder_of_files in of_files:
            if len(between) > _MOST_FOLDERS:
                break
            above = folder_of_files
            while above not in between and any(
                is_within(above, folder) and not is_within(folder, above) for folder in folders
            ):
                between[above] = None
                above = parent(above)
        if len(between) <= _MOST_FOLDERS:
            return self._metadata_files_in(join(folder, "metadata") for folder in between)
        return [
            location
            for folder in folders
            for batch in self.context.store.list(folder)
            for location in listed_metadata(batch)
        ]

    def check_above(
        self, loaded: LoadedTable, places: Sequence[str], *, skips_denied: bool = False
    ) -> None:
        """Look for metadata files of tables whose location is, or holds, one of the places.

        Raises: Refused; StorageError, if a folder above cannot be listed.
        """
        folders: dict[str, str] = {}
        for place in places:
            for above in (place, *_parents(place), *_parents(real_location(place))):  # behind links
                folders.setdefault(loosest_key(above), above)
        metadata_files = []
        for above in folders.values():
            try:
                metadata_files += self._metadata_files_in([join(above, "metadata")])
            except StorageError as error:
                if not skips_denied or above in places or error.error_id != ACCESS_DENIED:
                    raise
                self.context.progress.warn(
                    f"{redacted(above)} may not be listed: only the catalog can show another table "
                    "there"
                )
        metadata_files += [
            status.location
            for above in folders.values()
            if is_within(above, loaded.metadata.location)
            for folder, names in _OTHER_FORMATS.items()
            for status in self.context.store.list_directory(join(above, folder))
            if re.match(names, name(status.location))
        ]
        self.check(loaded, metadata_files)

    def check(self, loaded: LoadedTable, locations: Sequence[str]) -> None:
        """Accept the metadata files of the table itself, including those that left its log.

        Files in the log are read too, since a log may name anything. A file that another writer is
        just committing to the table is not read. Files of dropped tables need proof (`dropped`).
        Raises: Refused for any other, with any uuid; StorageError.
        """
        unchecked = self._unchecked(loaded, locations)
        results = in_threads(
            lambda location: _look(self.context.store, loaded, location),
            [*unchecked],
            [BEGINNING_BYTES] * len(unchecked),
            threads=self.context.concurrency,
        )
        foreign: dict[str, _Foreign] = {}
        for (location, known), result in zip(unchecked.items(), results, strict=True):
            may_be_own = known.is_logged and known.is_beside
            if isinstance(result, _Foreign) and not (may_be_own and result.is_doubtful(loaded)):
                foreign[location] = result
            elif known.is_logged:
                self._logged.add(location)
            elif not isinstance(result, _Foreign):
                self.accepted[location] = result
        dropped = {
            location: other
            for location, other in foreign.items()
            if other.uuid in self.context.dropped.uuids and not loaded.capabilities.numbers_versions
        }
        if len(dropped) < len(foreign):
            others = {place: other for place, other in foreign.items() if place not in dropped}
            raise _other_tables(loaded, others)
        if dropped:
            self._check_dropped(loaded, dropped)
            self.left_over.update(dropped)

    def _unchecked(self, loaded: LoadedTable, locations: Sequence[str]) -> "dict[str, _Known]":
        """Return metadata files to read. Raises: Refused, for one that can't be the table's own."""
        metadata, numbers_versions = loaded.metadata, loaded.capabilities.numbers_versions
        current = loosest_key(loaded.metadata_location)
        logged = {loosest_key(entry.metadata_file) for entry in metadata.metadata_log}
        folders = loaded.metadata_folder, join(metadata.location, METADATA_FOLDER)
        own_folders = {loosest_key(folder) for folder in folders}
        checked = {*self.accepted, *self.left_over, *self._logged}
        unchecked = {}
        for place in locations:
            key = loosest_key(place)
            if place in checked or key == current:
                continue
            known = _Known(key in logged, loosest_key(parent(place)) in own_folders)
            if not (known.is_logged or known.is_beside):
                raise _other_table(place, "it is in another folder than the table's")
            unchecked[place] = known
        return {
            place: known
            for place, known in unchecked.items()
            if not (numbers_versions and self._is_under_way(place))
        }

    def _check_dropped(self, loaded: LoadedTable, files: Mapping[str, "_Foreign"]) -> None:
        """Check that tables whose metadata files lie here were dropped before this one was made.

        Raises: Refused, if a catalog has one of them, or cannot say so.
        """
        first_ms = first_update_ms(loaded.metadata, self.accepted.values())
        for location, other in sorted(files.items()):
            if other.updated_ms is None or other.updated_ms >= first_ms:
                raise Refused(
                    f"{redacted(location)}, of table {other.uuid}, is not older than this table, "
                    f"whose first known metadata is of {print_instant(first_ms)}",
                    hint="find out which table writes to this location; a dropped one cannot",
                    id="leftover-unproven",
                )
        self.check_dropped_everywhere()

    def check_dropped_everywhere(self) -> None:
        """Check that no configured catalog has a dropped table. Raises: Refused."""
        if self.context.catalog_tables is None:
            raise Refused(
                "only a catalog can prove that a table was dropped, but this table is named by "
                "its location",
                hint="name the table through its catalog, as CATALOG.NAMESPACE.TABLE",
                id="leftover-unproven",
            )
        for table, uuid in self.context.dropped.cataloged():
            if uuid is not None and uuid.lower() in self.context.dropped.uuids:
                raise Refused(
                    f"`{table}` is table {uuid}: it was not dropped, and its files may lie here",
                    hint="give each table its own location",
                    id="leftover-in-use",
                )

    def _is_under_way(self, location: str) -> bool:
        """Return whether a file waits for the rename that commits it, or was just renamed."""
        version = metadata_version(location)
        if version.kind != "uncommitted":
            return False
        status = self.context.store.stat(location)
        dated = [] if status is None else [replace(version, modified_ms=status.modified_ms)]
        _, left_over = uncommitted_files(dated, self.context.store, self.context.env)
        return not left_over

    def check_catalog(self, places: Sequence[str]) -> None:
        """Ask the catalog for other tables, and their files, at, above or below the places.

        A catalog that cannot be asked is named in a warning.
        Raises: Refused.
        """
        if self.context.catalog_tables is None:
            return
        keys = [place_key(place) for place in places]
        try:
            tables = self.context.catalog_tables()
            for table, place in tables or ():
                other_key = place_key(place.folder)
                holds = not place.is_named and any(key.startswith(other_key) for key in keys)
                if holds or any(other_key.startswith(key) for key in keys):
                    how = "has files" if place.is_named else "lies"
                    raise Refused(
                        f"`{table}`, another table of the catalog, {how} in "
                        f"{redacted(place.folder)}: its files could be deleted",
                        hint="give each table its own location and its own folders",
                        id="other-table",
                    )
        except StorageError as error:
            tables = None
            self.context.progress.warn(error.message)
        if tables is None:
            self.context.progress.warn(
                "the catalog does not say where its other tables are: only metadata files that "
                "are here can show one"
            )

    def check_newest(self, loaded: LoadedTable) -> None:
        """Refuse if another of the table's own files may be the current one.

        The caller may have named an old file, or a copy elsewhere. A catalog may count from the
        start again after a registration: then the time decides.
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
                    f"{redacted(location)} is not older than {redacted(loaded.metadata_location)}: "
                    "if it is current, its files would be treated as orphans",
                    hint="ask the catalog which is current and name that one; move files of failed "
                    "commits away",
                    id="newer-metadata",
                )

    def forks(self, loaded: LoadedTable) -> Sequence[str]:
        """Return the table's own files that are no versions of it, since its log begins.

        A failed commit leaves one behind, as does another catalog with the same table.
        """
        if loaded.capabilities.numbers_versions:  # numbers in a row are versions of one history
            return ()
        log = loaded.metadata.metadata_log
        since_ms = min((entry.timestamp_ms for entry in log), default=0)
        return [place for place, ms in sorted(self.accepted.items()) if (ms or 0) > since_ms]


def _parents(place: str) -> Iterator[str]:
    """Yield the folders around a place, up to the root."""
    while (above := parent(place)) != place:
        yield above
        place = above


class _Known(NamedTuple):
    """Whether a metadata file is in the table's log, and whether in a folder of its own."""

    is_logged: bool
    is_beside: bool


@dataclass(frozen=True, slots=True)
class _Foreign:
    """Why a metadata file is not the table's own; its uuid and last-updated-ms, if it has them."""

    why: str
    uuid: str | None = None
    updated_ms: int | None = None

    def is_doubtful(self, loaded: LoadedTable) -> bool:
        """Return whether a file in the table's own folder and log may still be its own.

        A file-system table is alone there, and gets a uuid when it is upgraded.
        """
        return self.uuid is None or loaded.capabilities.numbers_versions


def _look(store: Store, loaded: LoadedTable, location: str) -> _Foreign | int | None:
    """Return why a metadata file is not the table's own, or its last-updated-ms, if any."""
    table_uuid = loaded.metadata.table_uuid
    try:
        beginning = store.read_range(location, 0, BEGINNING_BYTES)
        uuid, updated_ms = find_table_uuid(beginning), find_last_updated_ms(beginning)
        if uuid is None:
            members = read_metadata_json(store.read(location))
            uuid, updated_ms = members.get("table-uuid"), members.get("last-updated-ms")
    except FileNotFoundError:
        return None
    except CorruptTable as error:
        return None if _is_left_over(loaded, location) else _Foreign(error.message)
    if uuid is None and not _is_former(loaded, location):
        return _Foreign("it has no table-uuid")
    updated_ms = updated_ms if isinstance(updated_ms, int) else None
    if uuid is not None and uuid != table_uuid:
        why = f"its table-uuid is {uuid}, that of the table is {table_uuid}"
        return _Foreign(why, str(uuid).lower(), updated_ms)
    return updated_ms


def _is_former(loaded: LoadedTable, location: str) -> bool:
    """Return whether a file without a uuid is an earlier version, or was left by a commit."""
    version = metadata_version(location)
    return _is_left_over(loaded, location) or (
        loaded.capabilities.numbers_versions
        and version.kind == "file-system"
        and version.version is not None
        and loaded.version is not None
        and version.version < loaded.version
    )


def _is_left_over(loaded: LoadedTable, location: str) -> bool:
    return loaded.capabilities.numbers_versions and metadata_version(location).kind == "uncommitted"


def _other_table(location: str, why: str) -> Refused:
    return Refused(
        f"{redacted(location)} may be metadata of another table, whose files could be deleted: "
        f"{why}",
        hint="give each table its own location; move that file away if it is left over",
        id="other-table",
    )


_MOST_NAMES = 3
"""Metadata files of another table that are named in one message."""


def _other_tables(loaded: LoadedTable, files: Mapping[str, "_Foreign"]) -> Refused:
    """Return the error on metadata files of other tables, all of them at once."""
    (first, other), *more = sorted(files.items())
    if not more:
        error = _other_table(first, other.why)
    else:
        by_uuid: dict[str, list[str]] = {}
        for location, one in sorted(files.items()):
            why = f"of table {one.uuid}" if one.uuid else f"({one.why})"
            by_uuid.setdefault(why, []).append(name(location))
        listed = "; ".join(
            f"{', '.join(names[:_MOST_NAMES])}"
            + (f" and {len(names) - _MOST_NAMES:,} more" if len(names) > _MOST_NAMES else "")
            + f" {why}"
            for why, names in by_uuid.items()
        )
        error = _other_table(
            f"{print_count(len(files), 'metadata file')} in {redacted(parent(first))}", listed
        )
    uuids = dict.fromkeys(one.uuid for one in files.values())
    if not loaded.capabilities.numbers_versions and None not in uuids:
        options = " ".join(f"--leftover-uuid {uuid}" for uuid in uuids)
        error.hint = (
            f"if a dropped table has left them, `icectl remove-orphans TABLE {options}` deletes "
            "them and the files that only they name; else give each table its own location; "
            "`expire-snapshots --metadata-only` deletes no file"
        )
    return error


def first_update_ms(metadata: TableMetadata, own_ms: Iterable[int | None]) -> int:
    """Return the earliest time at which the table is known to have existed.

    `own_ms` are the last-updated-ms of its metadata files beside the log.
    """
    known = [metadata.last_updated_ms, *(ms for ms in own_ms if ms is not None)]
    known += [entry.timestamp_ms for entry in metadata.metadata_log]
    known += [entry.timestamp_ms for entry in metadata.snapshot_log]
    known += [snapshot.timestamp_ms for snapshot in metadata.snapshots]
    return min(known)


def check_foreign_files(
    location: str, properties: Mapping[str, str], tasks: Sequence[Task], progress: Progress
) -> None:
    """Warn of data files outside a table's folders.

    Raises: Refused, for one that the owner of the table's folder may not read.
    """
    files = dict.fromkeys(file.location for task in tasks for file in task.inputs)
    for file in kept_from_owner(files, location):
        raise Refused(
            f"the data file {redacted(file)} is outside the table's location, and not "
            "readable by everyone: compaction would show its rows to the table's readers",
            hint="make it readable by everyone, or give it to the owner of the table's folder",
            id="foreign-file",
        )
    own_folders = [location, *named_folders(location, properties).values()]
    foreign = [file for file in files if not any(is_within(file, folder) for folder in own_folders)]
    if foreign:
        progress.warn(
            f"rows of {print_count(len(foreign), 'data file')} outside the table's folders are "
            f"copied into its own files; the first is {redacted(foreign[0])}"
        )
