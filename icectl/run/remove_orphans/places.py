"""Where orphans are looked for, and where they may be moved to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from icectl.errors import Refused
from icectl.spec.data_paths import named_folders
from icectl.spec.metadata import TableMetadata
from icectl.storage.location import is_within, loosest_key, shown
from icectl.storage.real_paths import real_location
from icectl.storage.same_store import SameStore


@dataclass(frozen=True, slots=True)
class SearchedPlaces:
    """The locations that are listed, none below another, and the bases that they belong to.

    `outside` are bases elsewhere than the table, folders of its files that the caller named.
    """

    table: str
    listed: tuple[str, ...]
    outside: tuple[str, ...] = ()

    @property
    def bases(self) -> tuple[str, ...]:
        """The table's location, and the folders of its files elsewhere."""
        return (self.table, *self.outside)

    def left_out(self, metadata: TableMetadata) -> Mapping[str, str]:
        """The folders elsewhere that nothing is listed of, by the properties that name them."""
        return {
            name: folder
            for name, folder in named_folders(self.table, metadata.properties).items()
            if not is_within(folder, self.table)
            and not any(is_within(one, folder) for one in self.outside)
        }


def places_of(
    metadata: TableMetadata, asked: Sequence[str], same_store: SameStore
) -> SearchedPlaces:
    """Tell what is listed where the caller names locations, and where not: the table's own.

    Raises: Refused, for a location that is neither at nor below the table, nor in a folder that its
    properties name.
    """
    table = metadata.location.rstrip("/")
    if not asked:
        return SearchedPlaces(table, (table,))
    listed, outside = [], []
    for location in asked:
        inside = same_store.respelled(location, table)
        if inside is None:
            outside.append(_named_folder(metadata, location, same_store))
        listed.append(outside[-1] if inside is None else inside)
    alone: list[str] = []
    for place in sorted(listed):  # a location comes before those below it
        if not any(is_within(place, other) for other in alone):
            alone.append(place)
    return SearchedPlaces(table, tuple(alone), tuple(dict.fromkeys(outside)))


def _named_folder(metadata: TableMetadata, location: str, same_store: SameStore) -> str:
    named = named_folders(metadata.location, metadata.properties)
    for folder in named.values():
        found = same_store.respelled(location, folder)
        if found is not None:
            return found
    others = (
        f"of {', '.join(f'`{name}`' for name in named)}" if named else "that its properties name"
    )
    raise Refused(
        f"{shown(location)} is neither at nor below the table's location, "
        f"{shown(metadata.location)}, nor a folder {others}",
        hint="files that lie elsewhere may belong to other tables",
        id="location-outside",
    )


def check_quarantine(quarantine: str, places: SearchedPlaces) -> None:
    """Check that a quarantine and the table lie beside each other.

    Raises: Refused, where it would lie in the table, the table in it, or on other storage.
    """
    for place in (places.table, *places.listed):
        if not SameStore().same_scheme(quarantine, place):
            raise Refused(
                f"the quarantine {shown(quarantine)} is on other storage than {shown(place)}, and "
                "files are moved within one",
                hint="name a quarantine on the storage of the table",
                id="quarantine-place",
            )
        first, second = place_key(quarantine), place_key(place)
        if first.startswith(second) or second.startswith(first):
            raise Refused(
                f"the quarantine {shown(quarantine)} lies at, above or below {shown(place)}",
                hint="name a quarantine beside the tables",
                id="quarantine-place",
            )


def place_key(location: str) -> str:
    """Return the loosest key, behind symbolic links, with a slash at its end."""
    return loosest_key(real_location(location)).rstrip("/") + "/"
