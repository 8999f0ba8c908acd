"""Proving that no other table lies at, above or below the locations whose files may go."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from icectl.catalog.protocol import LoadedTable
from icectl.catalog.versions import is_metadata_file_name, metadata_version
from icectl.codec.metadata_file import find_table_uuid, read_members
from icectl.errors import CorruptTable, Refused
from icectl.storage.location import is_within, join, loosest_key, name, parent, shown
from icectl.storage.store import Store
from icectl.table.reading import in_threads

_BEGINNING_BYTES = 4_096
_OTHER_FORMATS = ("_delta_log", ".hoodie")
"""Folders of table formats whose tables may share data files with an Iceberg table."""


@dataclass(frozen=True, slots=True)
class OtherTables:
    """The search for metadata of other tables; `accepted` are files that it has looked at."""

    store: Store
    concurrency: int
    accepted: set[str] = field(default_factory=set)

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
            for folder in _OTHER_FORMATS
            for status in self.store.list_directory(join(above, folder))[:1]
        ]
        self.check(loaded, found)

    def check(self, loaded: LoadedTable, found: Sequence[str]) -> None:
        """Accept the metadata files of the table itself, those that left its log too.

        Raises: Refused for any other, with whatever uuid; StorageError.
        """
        metadata = loaded.metadata
        logged = {loosest_key(entry.metadata_file) for entry in metadata.metadata_log}
        logged.add(loosest_key(loaded.metadata_location))
        own = {
            loosest_key(folder)
            for folder in (parent(loaded.metadata_location), join(metadata.location, "metadata"))
        }
        unlogged = [
            place
            for place in found
            if place not in self.accepted and loosest_key(place) not in logged
        ]
        for location in unlogged:
            if loosest_key(parent(location)) not in own:
                raise _other_table(location, "it lies in another folder than the table's")
        problems = in_threads(
            lambda location: _why_not_ours(self.store, loaded, location),
            unlogged,
            [_BEGINNING_BYTES] * len(unlogged),
            threads=self.concurrency,
        )
        for location, problem in zip(unlogged, problems, strict=True):
            if problem is not None:
                raise _other_table(location, problem)
        self.accepted.update(unlogged)

    def check_newest(self, loaded: LoadedTable) -> None:
        """Refuse where one of the table's own files may be the current one instead of the loaded.

        The caller may have named an old one, or a copy that lies elsewhere.
        """
        folder = loosest_key(parent(loaded.metadata_location))
        for location in sorted(self.accepted):
            is_beside = loosest_key(parent(location)) == folder
            ahead = (metadata_version(location).version or 0) - (loaded.version or 0)
            if ahead > 0 or (ahead == 0 and not is_beside):
                raise Refused(
                    f"{shown(location)} is not older than {shown(loaded.metadata_location)}: if it "
                    "is current, its files would be taken for orphans",
                    hint="ask the catalog which is current and name that one; move files of failed "
                    "commits away",
                    id="newer-metadata",
                )


def _above(place: str) -> Iterator[str]:
    """A place, and the folders that hold it, up to the root."""
    yield place
    while (above := parent(place)) != place:
        yield above
        place = above


def _why_not_ours(store: Store, loaded: LoadedTable, location: str) -> str | None:
    """Why a metadata file cannot be one of the table's own; None where it is, or is gone."""
    own = loaded.metadata.table_uuid
    try:
        found = find_table_uuid(store.read_range(location, 0, _BEGINNING_BYTES))
        if found is None:
            found = read_members(store.read(location)).get("table-uuid")
    except FileNotFoundError:
        return None
    except CorruptTable as error:
        return error.message
    if found == own and own is not None:
        return None
    if found is None:
        return None if _is_former(loaded, location) else "it has no table-uuid"
    return f"its table-uuid is {found}, that of the table is {own}"


def _is_former(loaded: LoadedTable, location: str) -> bool:
    """Whether a file without a uuid must be an earlier version of a file-system table."""
    found = metadata_version(location)
    return (
        loaded.current == "file-system"
        and found.kind == "file-system"
        and found.version is not None
        and loaded.version is not None
        and found.version < loaded.version
    )


def _other_table(location: str, why: str) -> Refused:
    return Refused(
        f"{shown(location)} may be metadata of another table, whose files would be taken for "
        f"orphans: {why}",
        hint="give each table a location of its own; move that file away if it is left over",
        id="other-table",
    )
