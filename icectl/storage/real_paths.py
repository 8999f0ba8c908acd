"""Local paths behind symbolic links and dots, so that every way to a file is known."""

import os
import posixpath
import re

import pyarrow as pa

from icectl.storage import location as locations

_DOTS = r"/\.\.?(?:/|$)"
_NAME = r"/[^/]*$"


class OtherWays:
    """Other spellings of stored locations: without `.` and `..`, and through symbolic links.

    `base` is the location that is listed, without following links.
    """

    def __init__(self, base: str) -> None:
        self._base = base.rstrip("/")
        self._real_base = _real(self._base)
        self._ways: dict[str, str | None] = {}

    def of(self, stored: pa.Array) -> list[str]:
        """The locations that some of the stored ones have too. Order: none."""
        import pyarrow.compute as pc

        odd = stored.filter(pc.match_substring_regex(stored, _DOTS))
        found = [_without_dots(location) for location in odd.to_pylist()]
        if self._real_base is None:
            return found
        folders = pc.replace_substring_regex(stored, _NAME, "")
        encoded = folders.dictionary_encode()
        for index, folder in enumerate(encoded.dictionary.to_pylist()):
            way = self._way(folder)
            if way is not None:
                mine = stored.filter(pc.equal(encoded.indices, index))
                found += [way + location[len(folder) :] for location in mine.to_pylist()]
        return found

    def _way(self, folder: str) -> str | None:
        """Where the listing shows the files of a folder, if not where they are said to be."""
        if folder not in self._ways:
            self._ways[folder] = self._find(folder)
        return self._ways[folder]

    def _find(self, folder: str) -> str | None:
        real = _real(folder)
        if real is None or self._real_base is None:
            return None
        if real != self._real_base and not real.startswith(self._real_base.rstrip("/") + "/"):
            return None
        shown = self._base + real[len(self._real_base.rstrip("/")) :]
        return None if locations.loosest_key(shown) == locations.loosest_key(folder) else shown


def real_location(location: str) -> str:
    """Where symbolic links lead to; a location that is not on this machine leads to itself."""
    return _real(location) or location


def _real(location: str) -> str | None:
    """The path without symbolic links; None for what is not on this machine."""
    try:
        return os.path.realpath(locations.local_path(location))
    except ValueError:
        return None


def _without_dots(location: str) -> str:
    start = locations.root(location)
    return start + posixpath.normpath(re.sub("/+", "/", location[len(start) :]))
