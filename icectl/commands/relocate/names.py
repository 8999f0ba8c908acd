"""The names that files of a table have from now on, as metadata, manifests and deletes spell
them.
"""

from dataclasses import dataclass, field

from icectl.commands.relocate.plan import Move, outside
from icectl.errors import Refused
from icectl.format.layout import Layout, layout_of_table
from icectl.format.locations import absolute_location, relative_location, scheme_of
from icectl.format.metadata import TableMetadata
from icectl.storage import location as locations


@dataclass(frozen=True, slots=True)
class NewFile:
    """A file that was written anew: where, its size, and of position deletes what they name.

    `file_format` is the new one where that differs; `paths` are the least and the greatest path.
    """

    location: str
    size_bytes: int
    file_format: str | None = None
    paths: tuple[str, str] | None = None


@dataclass(slots=True)
class Names:
    """New names by old ones; `written` are files that were written anew, by their `key`."""

    move: Move
    metadata: TableMetadata
    written: dict[str, NewFile] = field(default_factory=dict)
    data_files: frozenset[str] = frozenset()
    """Names of data files, without their folders."""

    def key(self, stored: str) -> str:
        """Return the key of a location as a file of the table spells it."""
        return locations.comparison_key(self.whole(stored))

    def whole(self, stored: str) -> str:
        """Return the location as a whole one; from version 4 on it may be below the table's."""
        if self.metadata.format_version < 4 or locations.scheme(stored):
            return stored
        if stored.startswith("/"):
            return f"{scheme_of(self.metadata)}{stored}"
        return absolute_location(self.metadata.location, stored)

    def add(self, old: str, new: NewFile) -> None:
        """Note a file that was written anew."""
        self.written[self.key(old)] = new

    def file(self, stored: str) -> NewFile | None:
        """Return what was written in the place of a file, if anything was."""
        return self.written.get(self.key(stored))

    def of(self, stored: str) -> str:
        """Return the new name of a file, spelled as the old one: whole, or below the table's.

        Raises: Refused, where it is not below `--from`.
        """
        new = self.file(stored)
        location = self.move.of(self.whole(stored)) if new is None else new.location
        is_relative = self.metadata.format_version >= 4 and locations.is_relative(stored)
        if not is_relative:
            return location
        relative = relative_location(self.move.new_location, location)
        if layout_of_table(self.metadata) is Layout.SFC_1 or relative != location:
            return relative
        raise Refused(f"`{stored}` would no longer lie below the table's location")

    def of_deleted(self, path: str) -> str:
        """Return the new name of a data file in a position delete file.

        One of no data file of the table stays as it is: it deletes nothing, as before.
        Raises: Refused, where it may be another spelling of a data file's location.
        """
        moved = locations.moved(path, self.move.path_map)
        if moved is not None:
            return moved
        if locations.name(path) in self.data_files:
            raise outside(self.move, path)
        return path
