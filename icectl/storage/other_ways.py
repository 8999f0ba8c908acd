"""Spellings that differ from those of a listing, told by their text alone."""

import posixpath
import re

import pyarrow as pa

from icectl.storage import location as locations

_DOTS = r"/\.\.?(?:/|$)"


class OtherWays:
    """Other spellings of stored locations: without `.` and `..`, and below `base`.

    A location elsewhere that goes on as the base ends, with its name and a path below it, may be
    the same file by way of a mount or a gateway: `dbfs:/mnt/lake/t/a` and `s3://lake/t/a`.
    """

    def __init__(self, base: str) -> None:
        self._base = base.rstrip("/")
        path = self._base[len(locations.before_path(self._base)) :]
        self._below = f"{locations.UP_TO_PATH}{re.escape(path)}/" if path else locations.UP_TO_PATH
        self._tail = f"/{locations.name(self._base)}/"

    def of(self, stored: pa.Array) -> list[str]:
        """The locations that some of the stored ones have too. Order: none."""
        import pyarrow.compute as pc

        odd = stored.filter(pc.match_substring_regex(stored, _DOTS))
        found = [_without_dots(location) for location in odd.to_pylist()]
        elsewhere = stored.filter(pc.invert(pc.match_substring_regex(stored, self._below)))
        alike = elsewhere.filter(pc.match_substring(elsewhere, self._tail))
        for location in alike.to_pylist():
            tails = {location.partition(self._tail)[2], location.rpartition(self._tail)[2]}
            found += [f"{self._base}/{tail}" for tail in tails]
        return found


def _without_dots(location: str) -> str:
    start = locations.root(location)
    return start + posixpath.normpath(re.sub("/+", "/", location[len(start) :]))
