"""The places that a table owns: the only ones in which a command may delete files for it.

What metadata say of places is the word of whoever writes the table. So a place counts as owned only
where the table's current metadata file shows that its writer may write there: a location by a file
in it or in its folder `metadata`, the folder of `write.metadata.path` by a file right in it. That
no other table lies there too is what `icectl.table.other_tables` looks for.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from icectl.catalog.metadata_files import METADATA_FOLDER
from icectl.catalog.protocol import LoadedTable
from icectl.catalog.versions import is_metadata_file_name
from icectl.entries.files import (
    Files,
    beginning_with,
    containing,
    excluding,
    including,
    rows,
    together,
)
from icectl.errors import Refused
from icectl.storage.location import (
    is_local,
    is_within,
    join,
    name,
    parent,
    redacted,
    root,
)
from icectl.storage.real_paths import real_location
from icectl.storage.same_store import SameStore
from icectl.table.context import TableContext
from icectl.table.other_tables import OtherTables


@dataclass(frozen=True, slots=True)
class OwnPlaces:
    """The folders that a table owns; the first is its location, if that is one of them."""

    location: str
    folders: tuple[str, ...]

    @property
    def has_location(self) -> bool:
        """Whether the table owns its location."""
        return self.location in self.folders

    def holds(self, location: str) -> bool:
        """Return whether a file or folder is in one of the folders, or is one of them."""
        return any(is_within(location, folder) for folder in self.folders)

    def split(self, found: Files) -> tuple[Files, Files]:
        """Return the files inside the folders, and those outside. Order: kept."""
        others, doubtful = found, []
        for folder in self.folders:
            beginning_so, others = beginning_with(others, folder + "/")
            doubtful.append(containing(beginning_so, "/../"))
        places = [place for place, _, _ in rows(together([*doubtful, others]))]
        outside = [place for place in places if not self.holds(place)]
        return excluding(found, outside), including(found, outside)


def own_places(loaded: LoadedTable) -> OwnPlaces:
    """Return the places that hold the table's current metadata file."""
    location = loaded.metadata.location.rstrip("/")
    holder = parent(loaded.metadata_location)
    folders = []
    if any(_is_same(holder, one) for one in (location, join(location, METADATA_FOLDER))):
        folders.append(location)
    elif _is_same(holder, loaded.metadata_folder) and SameStore().holds(holder, location):
        folders.append(loaded.metadata_folder.rstrip("/"))
    return OwnPlaces(location, tuple(folders))


def check_metadata_folder(context: TableContext, loaded: LoadedTable) -> None:
    """Refuse to write among the files of another table, where the table names the folder for that.

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
            f"new metadata would lie in {redacted(folder)}, among files of another table: "
            f"{refused.message}",
            hint="let `write.metadata.path` name a folder of the table's own",
            id=refused.error_id,
        ) from refused


def metadata_files_among(places: Sequence[str]) -> list[str]:
    """Return the places that have the name of a metadata file: a log may name anything."""
    return [place for place in places if is_metadata_file_name(name(place))]


def _is_same(folder: str, other: str) -> bool:
    """Return whether two locations are one folder of one store."""
    if is_local(folder) and is_local(other):
        return real_location(folder) == real_location(other)
    if not SameStore().holds(folder, other):
        return False
    first, second = (one[len(root(one)) :].rstrip("/") for one in (folder, other))
    return first == second
