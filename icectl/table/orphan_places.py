"""Where orphans are looked for, and where they may be moved to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from shlex import quote

from icectl.catalog.protocol import LoadedTable
from icectl.errors import Refused
from icectl.format.data_paths import named_folders
from icectl.format.metadata import TableMetadata
from icectl.storage.location import is_within, redacted
from icectl.storage.real_paths import place_key
from icectl.storage.same_store import SameStore
from icectl.table.own_places import own_places


@dataclass(frozen=True, slots=True)
class SearchedPlaces:
    """The locations that are listed, none below another, and the bases that they belong to.

    `outside` are bases elsewhere than the table, folders of its files that the caller named. Where
    the table does not own its location (`owns_table`), what is in there counts as outside too.
    """

    table: str
    listed: tuple[str, ...]
    outside: tuple[str, ...] = ()
    owns_table: bool = True

    @property
    def bases(self) -> tuple[str, ...]:
        """The table's location, and the folders of its files elsewhere."""
        return (self.table, *self.outside)

    @property
    def own(self) -> tuple[str, ...]:
        """Where orphans may be deleted without a further word: the table's location, if it is."""
        return (self.table,) if self.owns_table else ()

    def left_out(self, metadata: TableMetadata) -> Mapping[str, str]:
        """The folders elsewhere that nothing is listed of, by the properties that name them."""
        return {
            name: folder
            for name, folder in named_folders(self.table, metadata.properties).items()
            if not is_within(folder, self.table)
            and not any(is_within(one, folder) for one in self.outside)
        }


def places_of(loaded: LoadedTable, asked: Sequence[str], same_store: SameStore) -> SearchedPlaces:
    """Tell what is listed where the caller names locations, and where not: the table's own.

    Raises: Refused, for a location that is neither at nor below the table, nor in a folder that its
    properties name; where none is named and the table does not own its location.
    """
    metadata, owns_table = loaded.metadata, own_places(loaded).has_location
    table = metadata.location.rstrip("/")
    if not asked and not owns_table:
        raise Refused(
            f"the table's location, {redacted(table)}, does not hold its current metadata file, "
            f"{redacted(loaded.metadata_location)}: whose files lie there is not known",
            hint=f"`--location {quote(table)} --delete-outside` says that all of it is the table's",
            id="location-not-own",
        )
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
    return SearchedPlaces(table, tuple(alone), tuple(dict.fromkeys(outside)), owns_table)


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
        f"{redacted(location)} is neither at nor below the table's location, "
        f"{redacted(metadata.location)}, nor a folder {others}",
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
                f"the quarantine {redacted(quarantine)} is on other storage than "
                f"{redacted(place)}, and files are moved within one",
                hint="name a quarantine on the storage of the table",
                id="quarantine-place",
            )
        first, second = place_key(quarantine), place_key(place)
        if first.startswith(second) or second.startswith(first):
            raise Refused(
                f"the quarantine {redacted(quarantine)} lies at, above or below {redacted(place)}",
                hint="name a quarantine beside the tables",
                id="quarantine-place",
            )
