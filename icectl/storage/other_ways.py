"""The places below one that is listed which a location elsewhere may mean, by its text alone."""

import re

import pyarrow as pa

from icectl.storage import location as locations


class OtherWays:
    """Locations below `base` that stored ones elsewhere may mean.

    One that goes on as the base ends, with its name and a path below it, may be the same file by
    way of a mount or a gateway: `dbfs:/mnt/lake/t/a` and `s3://lake/t/a`.
    """

    def __init__(self, base: str) -> None:
        self._base = base.rstrip("/")
        path = self._base[len(locations.before_path(self._base)) :]
        self._below = f"{locations.UP_TO_PATH}{re.escape(path)}/" if path else locations.UP_TO_PATH
        self._tail = f"/{locations.name(self._base)}/"

    def of(self, stored: pa.Array) -> list[str]:
        """The locations that some of the stored ones may have too. Order: none."""
        import pyarrow.compute as pc

        others = stored.filter(pc.invert(pc.starts_with(stored, f"{self._base}/")))
        alike = others.filter(pc.match_substring(others, self._tail))
        elsewhere = alike.filter(pc.invert(pc.match_substring_regex(alike, self._below)))
        found: list[str] = []
        for location in elsewhere.to_pylist():
            tails = {location.partition(self._tail)[2], location.rpartition(self._tail)[2]}
            found += [f"{self._base}/{tail}" for tail in tails]
        return found
