"""Decide whether two locations may be in one store, and whether two paths are one local folder."""

import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from icectl.entries.locations import are_relative
from icectl.format.locations import is_relative
from icectl.storage import location as locations
from icectl.storage.location import loosest_key, loosest_keys, root, scheme
from icectl.units import is_text

_ALIASES = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "": "file"}
_NAME = r"/[^/]*$"

Places = npt.NDArray[np.intp]
Identity = tuple[int, int]
"""Device and number of a folder."""


@dataclass(frozen=True, slots=True)
class SameStore:
    """The schemes and authorities that the caller vouches for: each name, and what it equals."""

    schemes: Mapping[str, str] = field(default_factory=dict)
    authorities: Mapping[str, str] = field(default_factory=dict)

    def holds(self, location: str, other: str) -> bool:
        """Whether two locations are proven to be of one store, by spelling or without authority."""
        if not self.same_scheme(location, other):
            return False
        first, second = self._authority(location), self._authority(other)
        return first == second or not first or not second

    def same_scheme(self, location: str, other: str) -> bool:
        return self._scheme(location) == self._scheme(other)

    def respelled(self, location: str, base: str) -> str | None:
        """Return the location as one that begins with `base`; None where it is not below."""
        if not self.holds(location, base):
            return None
        start, path = root(base), location[len(root(location)) :].rstrip("/")
        base_path = base[len(start) :].rstrip("/")
        if ".." in path.split("/") or not f"{path}/".startswith(f"{base_path}/"):
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
        relative = others.filter(are_relative(others))
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


class FolderNames:
    """The names of folders on this machine, by what each folder is.

    Links, mounts, and letters whose case does not matter, give one folder several names; a listing
    shows it under one of them.
    """

    def __init__(self) -> None:
        self._names: dict[Identity, list[str]] = {}
        self._identities: dict[str, Identity | None] = {}
        self._added: set[str] = set()

    def add(self, files: pa.Array) -> None:
        for folder in _folders(files).dictionary.to_pylist():
            identity = self._identity(folder)
            if identity is not None and folder not in self._added:
                self._added.add(folder)
                self._names.setdefault(identity, []).append(folder)

    def other_names(self, files: pa.Array) -> Iterator[tuple[Places, pa.Array]]:
        """Yield files under the other names of their folders: each time which ones, and the names.

        A name of the folder that they have already is none of these.
        """
        import pyarrow.compute as pc

        encoded = _folders(files)
        codes = encoded.indices.to_numpy()
        for code, folder in enumerate(encoded.dictionary.to_pylist()):
            identity = self._identity(folder)
            names = () if identity is None else self._names.get(identity, ())
            others = [name for name in names if name != folder]
            if not others:
                continue
            places = np.flatnonzero(codes == code)
            inside = pc.utf8_slice_codeunits(files.take(pa.array(places)), len(folder))
            for name in others:
                yield places, pc.binary_join_element_wise(name, inside, "")

    def _identity(self, folder: str) -> Identity | None:
        if folder not in self._identities:
            self._identities[folder] = _identity(folder)
        return self._identities[folder]


def _folders(files: pa.Array) -> pa.DictionaryArray:
    import pyarrow.compute as pc

    return pc.replace_substring_regex(files, _NAME, "").dictionary_encode()


def _identity(folder: str) -> Identity | None:
    """Identify a folder; None where it is not there, or not on this machine."""
    try:
        status = os.stat(locations.local_path(folder) or "/")
    except (OSError, ValueError):
        return None
    # Some drivers number no files: their folders are what they are called.
    return (status.st_dev, status.st_ino) if status.st_ino else None


def real_location(location: str) -> str:
    """Return where symbolic links lead to; a location not on this machine leads to itself."""
    try:
        return os.path.realpath(locations.local_path(location))
    except ValueError:
        return location


def place_key(location: str) -> str:
    """Return the loosest key, behind symbolic links, with a slash at its end."""
    return locations.loosest_key(real_location(location)).rstrip("/") + "/"


def linked_files(files: pa.Array) -> list[str]:
    """Resolve those of the files that are symbolic links. Order: kept."""
    return [real_location(file) for file in files.to_pylist() if is_link(file)]


def is_link(location: str) -> bool:
    """Return whether there is a symbolic link of this name on this machine."""
    try:
        return os.path.islink(locations.local_path(location))
    except ValueError:
        return False


def irregular_files(folder: str) -> Sequence[str]:
    """Return the links, pipes and devices right in a folder; none where it cannot be read."""
    try:
        with os.scandir(locations.local_path(folder)) as entries:
            return [
                entry.path
                for entry in entries
                if not entry.is_file(follow_symlinks=False)
                and not entry.is_dir(follow_symlinks=False)
            ]
    except (OSError, ValueError):
        return ()


def unlisted(folder: str) -> Iterator[tuple[str, str]]:
    """Yield what listings below a folder of this machine leave out, each with the reason."""
    try:
        path = locations.local_path(folder)
    except ValueError:
        return
    for above, folders, files in os.walk(path):
        for name in folders:
            if os.path.islink(os.path.join(above, name)):
                yield os.path.join(above, name), "it is a link to a folder"
        for name in (*folders, *files):
            if not is_text(name):
                shown = os.path.join(above, name).encode("utf-8", "replace").decode()
                yield shown, "its name is not UTF-8"


def kept_from_owner(files: Iterable[str], folder: str) -> Iterator[str]:
    """Yield the files outside of a folder that the folder's owner may not be able to read.

    That is none of the owner's files, nor one that everybody may read who gets to the folder that
    both lie below. Links are followed; a file that is not there is hidden from no user.
    """
    owners = real_location(folder)
    real_path = cache(os.path.realpath)
    for file in files:
        try:
            above, name = os.path.split(locations.local_path(file))
            path = os.path.join(real_path(above), name)
            if name in (os.curdir, os.pardir) or os.path.islink(path):
                path = os.path.realpath(path)
            is_kept = _is_kept(path, owners)
        except (OSError, ValueError):
            continue
        if is_kept:
            yield file


def _is_kept(path: str, owners: str) -> bool:
    """Return whether a file may be hidden from the owner of a folder. Raises: OSError."""
    above = os.path.commonpath((path, owners))
    if above == owners:
        return False
    status = os.stat(path)
    if status.st_uid == os.stat(owners).st_uid:
        return False
    is_open = bool(status.st_mode & stat.S_IROTH)
    while is_open and (path := os.path.dirname(path)) != above:
        is_open = bool(os.stat(path).st_mode & stat.S_IXOTH)
    return not is_open
