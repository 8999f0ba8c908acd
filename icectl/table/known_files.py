"""Files that stay, whatever names lead to them."""

import pyarrow as pa

from icectl.storage.real_paths import FolderNames
from icectl.table.known_locations import KnownLocations


class KnownFiles:
    """A set of files: by all spellings of their locations and, where some of them are `local`, by
    all names of their folders.

    `locations` is the set without those names.
    """

    def __init__(self, *, local: bool) -> None:
        self.locations = KnownLocations()
        self._folders = FolderNames() if local else None

    def add(self, locations: pa.Array) -> None:
        """Make files known."""
        self.locations.add(locations)
        if self._folders is not None:
            self._folders.add(locations)

    def contain(self, locations: pa.Array) -> pa.BooleanArray:
        """Whether each file is known.

        Shape: one flag per location. Order: kept.
        """
        known = self.locations.contains(locations)
        if self._folders is None:
            return known
        flags = known.to_numpy(zero_copy_only=False).copy()
        for places, named in self._folders.other_names(locations):
            flags[places] |= self.locations.contains(named).to_numpy(zero_copy_only=False)
        return pa.array(flags)
