"""Which part of a location names an object, and whether obstore can name it."""

import re

from icectl.storage import location as locations

_INEXPRESSIBLE = re.compile(r"(?:\A|/)(?:\.{0,2})(?:/|\Z)|[\x00-\x1f\x7f]")
"""An empty part, one of dots, a control character: obstore refuses these, or leaves parts out."""


def key_of(location: str) -> str | None:
    """The key of an object; None where obstore would not ask for that very one."""
    key = location[len(locations.root(location)) + 1 :]
    return None if _INEXPRESSIBLE.search(key) else key


def prefix_of(location: str) -> str | None:
    """What all keys below a location begin with, up to a slash; None where that is all of them, or
    obstore would not list those very ones.
    """
    key = key_of(location.rstrip("/"))
    return None if key is None else f"{key}/"
