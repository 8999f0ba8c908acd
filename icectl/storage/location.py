"""Parse and compare locations as metadata writes them.

A location is a string. `comparison_key` decides which delete belongs to which file. `loosest_key`
decides whether a file may be deleted: any match keeps the file.
"""

import posixpath
import re
from collections.abc import Iterable
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from icectl.entries.columns import unescape
from icectl.format.locations import SCHEME

_SCHEME = re.compile(SCHEME)
UP_TO_PATH = f"^({SCHEME}(//[^/]*)?)?/*"
"""Matches scheme, authority and the slashes behind them."""

_SCHEME_AND_AUTHORITY = re.compile(f"{SCHEME}(//[^/]*)?")
_ROOT = re.compile(f"({SCHEME})?(//[^/]*)?/?")
_BEHIND_ROOT = f"(?s)^((?:{SCHEME}(?://[^/]*)?)?).*$"
_DOTS = r"/\.\.?(?:/|$)"
_LOCAL_AUTHORITY = re.compile(r"^//(localhost)?(?=/)")
_LOCAL_SPELLING = r"^(?i:file):(?://(?:localhost)?)?(/(?:[^/]|$))"
"""How local paths are spelled; RE2 copies the first group whole."""
_WITHOUT_AUTHORITY = re.compile(f"{SCHEME}(/(?!/).*)", re.DOTALL)
_PASSWORD = re.compile(f"^({SCHEME}//[^/@:]*):[^/@]*@")


def scheme(location: str) -> str:
    """Return the URI scheme in lower case, or nothing. Spec: sfc-1 L1, two or more characters."""
    match = _SCHEME.match(location)
    return match.group()[:-1].lower() if match else ""


def is_local(location: str) -> bool:
    """Return whether the location is a path of this machine."""
    return scheme(location) in {"", "file"}


def root(location: str) -> str:
    """Scheme and authority, as in `s3://bucket` or `hdfs://host:8020`; empty for a bare path."""
    match = _SCHEME_AND_AUTHORITY.match(location)
    return match.group() if match else ""


def roots(locations: pa.Array) -> pa.Array:
    """Return the `root` of every location. Order: kept."""
    return pc.replace_substring_regex(locations, _BEHIND_ROOT, r"\1")


def local_path(location: str) -> str:
    """Return the path of a local location. Raises: ValueError, for another scheme or host."""
    if not is_local(location):
        raise ValueError(location)
    match = _SCHEME.match(location)
    if match is None:
        return location
    path = _LOCAL_AUTHORITY.sub("", location[match.end() :])
    if path.startswith("//") and not path.startswith("///"):
        raise ValueError(location)
    return path


def comparison_key(location: str) -> str:
    """Return the form that spellings of one file share. Spec: sfc-1 L3, those of local paths."""
    if scheme(location) not in {"", "file"}:
        return location
    try:
        return f"file:{local_path(location)}"
    except ValueError:
        return location


def comparison_keys(locations: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Return the `comparison_key` of locations, none relative. Order: kept; null stays null."""
    local = pc.or_(
        pc.starts_with(locations, "file:", ignore_case=True), pc.starts_with(locations, "/")
    )
    if not pc.any(local, min_count=0).as_py():
        return locations
    keys = pc.replace_substring_regex(locations, _LOCAL_SPELLING, r"\1")
    return pc.replace_substring_regex(keys, "^/", "file:/")


def before_path(location: str) -> str:
    """Scheme, authority and the slashes behind them: what `loosest_key` makes one slash of."""
    match = re.match(UP_TO_PATH, location)
    return match.group() if match else ""


def loosest_key(location: str) -> str:
    """Return the form under which everything that could be one file is equal.

    Scheme and authority are dropped, percent escapes decoded, also those that were escaped again
    (a path as a URI), repeated slashes collapsed, `.` and `..` resolved.
    """
    path = re.sub(UP_TO_PATH, "/", location)
    while "%" in path and (decoded := unquote(path, errors="replace")) != path:
        path = decoded
    path = re.sub("//+", "/", path)
    return posixpath.normpath(path) if re.search(_DOTS, path) else path


def loosest_keys(locations: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the `loosest_key` of every location. Order: kept; null stays null."""

    def key(chunk: pa.Array) -> pa.Array:
        paths = chunk
        if not pc.all(pc.starts_with(chunk, "/"), skip_nulls=False).as_py():
            paths = pc.replace_substring_regex(chunk, UP_TO_PATH, "/")
        decoded = unescape(paths)
        while decoded is not paths and decoded != paths:  # until no escape is left
            paths, decoded = decoded, unescape(decoded)
        paths = decoded
        if pc.any(pc.match_substring(paths, "//")).as_py():
            paths = pc.replace_substring_regex(paths, "//+", "/")
        if pc.any(pc.match_substring(paths, "/.")).as_py():
            dotted = pc.fill_null(pc.match_substring_regex(paths, _DOTS), fill_value=False)
            resolved = [posixpath.normpath(path) for path in paths.filter(dotted).to_pylist()]
            paths = pc.replace_with_mask(paths, dotted, pa.array(resolved, pa.string()))
        return paths

    return pa.chunked_array([key(chunk) for chunk in locations.chunks], locations.type)


def is_within(location: str, base: str) -> bool:
    """Return whether a location is `base` or lies below it, as none with `..` in it does."""
    key, base_key = comparison_key(location), comparison_key(base).rstrip("/")
    if key.rstrip("/") == base_key:
        return True
    remainder = key.removeprefix(base_key + "/")
    return remainder != key and ".." not in remainder.split("/")


def moved(location: str, path_map: Iterable[tuple[str, str]]) -> str | None:
    """Return the location with FROM replaced by TO; of several FROM the longest counts.

    None, where it is below no FROM. The spellings of a local path count as one; a FROM ends where a
    name ends.
    """
    keys = [_map_key(location)]
    if completed := _WITHOUT_AUTHORITY.fullmatch(location):
        keys.append(_map_key(completed[1]))  # `hdfs:/p` also is a completed `/p`
    best: tuple[int, str] | None = None
    for start, to in path_map:
        start_key = _map_key(start)
        for key in keys:
            is_below = f"{key}/".startswith(f"{start_key.rstrip('/')}/")
            if is_below and (best is None or len(start_key) > best[0]):
                rest = key[len(start_key) :]
                best = len(start_key), join(to, rest) if rest.strip("/") else to
    return None if best is None else best[1]


def _map_key(location: str) -> str:
    """Return the comparison key of a location; `./t/f` and `t/f` are one relative path."""
    key = comparison_key(location)
    relative = key.removeprefix("file:")
    if relative == key or relative.startswith("/"):
        return key
    return f"file:{posixpath.normpath(relative)}"


def join(base: str, *parts: str) -> str:
    """Join a location and parts of a path below it."""
    return "/".join([base.rstrip("/"), *(part.strip("/") for part in parts)])


def name(location: str) -> str:
    """Return what follows the last slash."""
    return location.rstrip("/").rpartition("/")[2]


def parent(location: str) -> str:
    """Return the directory a location lies in; a root is its own parent, `.` is a bare name's."""
    trimmed = location.rstrip("/")
    if _ROOT.fullmatch(trimmed):
        return location
    above, slash, _ = trimmed.rpartition("/")
    if not slash:
        return "."
    return f"{above}/" if above.endswith((":", "/")) or not above else above


def check_sum(location: str) -> str:
    """Return where Hadoop puts the checksum of a file: `.x.crc` beside `x`."""
    return join(parent(location), f".{name(location)}.crc")


def redacted(location: str) -> str:
    """Return the location as messages print it: without a password it may carry."""
    return _PASSWORD.sub(r"\1:***@", location)
