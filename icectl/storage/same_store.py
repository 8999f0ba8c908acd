"""Whether two locations can be of one store, by their schemes and authorities."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from icectl.storage import location as locations
from icectl.storage.location import (
    is_relative,
    loosest_key,
    loosest_keys,
    relative_ones,
    root,
    scheme,
)

_ALIASES = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "": "file"}


@dataclass(frozen=True, slots=True)
class SameStore:
    """The schemes and authorities that the caller vouches for: each name, and what it equals."""

    schemes: Mapping[str, str] = field(default_factory=dict)
    authorities: Mapping[str, str] = field(default_factory=dict)

    def holds(self, location: str, other: str) -> bool:
        """Return whether two locations are proven to be of one store.

        The spellings of S3 and those of local paths are; so is an authority that is left out.
        """
        if not self.same_scheme(location, other):
            return False
        first, second = self._authority(location), self._authority(other)
        return first == second or not first or not second

    def same_scheme(self, location: str, other: str) -> bool:
        """Return whether two locations are on one kind of storage."""
        return self._scheme(location) == self._scheme(other)

    def respelled(self, location: str, base: str) -> str | None:
        """Return the location as one that begins with `base`.

        None where it is neither that nor below.
        """
        if not self.holds(location, base):
            return None
        start, path = root(base), location[len(root(location)) :].rstrip("/")
        own = base[len(start) :].rstrip("/")
        if ".." in path.split("/") or not f"{path}/".startswith(f"{own}/"):
            return None
        return start + path

    def _scheme(self, location: str) -> str:
        name = scheme(location)
        name = self.schemes.get(name, name)
        return _ALIASES.get(name, name)

    def _authority(self, location: str) -> str:
        name = root(location).partition("//")[2]
        name = self.authorities.get(name, name)
        return "localhost" if not name and self._scheme(location) == "file" else name

    def doubtful(self, stored: pa.Array, places: tuple[str, ...]) -> dict[str, str]:
        """Find the stored locations that name a file below a place, but perhaps of another store.

        So may a relative one, unless the places are relative too.
        Shape: one location for each scheme and authority, by these, and a relative one, by `.`.
        """
        import pyarrow.compute as pc

        usual = pc.starts_with(stored, places[0].rstrip("/") + "/")
        others = stored.filter(pc.invert(usual))
        roots = locations.roots(others)
        pairs = {}
        relative = relative_ones(others)
        if len(relative) and not is_relative(places[0]):
            pairs["."] = relative[0].as_py()
        for name in pc.unique(roots).to_pylist():
            doubted = [place for place in places if not self.holds(f"{name}/", place)]
            if not doubted:
                continue
            mine = others.filter(pc.equal(roots, name))
            keys = loosest_keys(pa.chunked_array([mine])).combine_chunks()
            starts = "|".join(re.escape(loosest_key(place).rstrip("/")) for place in doubted)
            below = mine.filter(pc.match_substring_regex(keys, f"^(?:{starts})/"))
            if len(below):
                pairs[name] = below[0].as_py()
        return pairs
