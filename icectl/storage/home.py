"""Where a table lies, and which locations its metadata may name by that."""

from dataclasses import dataclass

from icectl.errors import Refused, Unsupported
from icectl.storage import location as locations
from icectl.storage.create import CREATABLE

SCHEMES = CREATABLE - {"memory"}
"""Those that metadata may name; any other only where the table itself is named by it."""

LOCAL = {"", "file"}
_WRAPPERS = {"asyncwrapper", "blockcache", "cached", "dir", "filecache", "generic", "reference"} | {
    "jlab", "jupyter", "simplecache",
}  # fmt: skip
"""Schemes of fsspec that lead to locations of others, or run what answers on this machine."""


@dataclass(slots=True)
class Home:
    """Where a table lies, which its metadata have no say in."""

    location: str | None = None

    def check(self, location: str) -> None:
        """Check that a location may be looked at. Raises: Unsupported; Refused."""
        scheme = locations.scheme(location)
        home = None if self.location is None else locations.scheme(self.location)
        if scheme in _WRAPPERS or (scheme not in SCHEMES and scheme != home):
            raise Unsupported(
                f"nothing is asked for at {locations.shown(location)}: {scheme}: is none of the "
                "schemes that a table may name",
                hint="a table that lies there is read where TABLE is its location; of a copy "
                "elsewhere, `--path-map FROM=TO` says where the files are",
            )
        if scheme in LOCAL and home not in (None, *LOCAL):
            assert self.location is not None
            raise Refused(
                f"{locations.shown(location)} is on this machine, and the table that names it is "
                f"not: it lies in {locations.root(locations.shown(self.location))}",
                hint="of a copy on this machine, `--path-map FROM=TO` says where the files are",
                id="local-file-of-a-bucket",
            )
