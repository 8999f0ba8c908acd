"""Calls of obstore, and the keys that it can name objects by.

It is imported by the first of the calls; each takes the store last.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from icectl.storage import location as locations
from icectl.storage.buckets.errors import Answered, Unexpected, obstore_failures
from icectl.storage.failures import error_code
from icectl.storage.streams import Tail

_AT_ONCE_BYTES = 8 << 20
"""Longer ranges are read by several requests at once."""

_PAST_THE_END = {"416", "InvalidRange"}
_INEXPRESSIBLE = re.compile(r"(?:\A|/)(?:\.{0,2})(?:/|\Z)|[\x00-\x1f\x7f]")
"""An empty part, one of dots, a control character: obstore refuses these, or leaves parts out."""


def is_expressed(location: str) -> bool:
    """Return whether obstore would ask for that very object, or list that very prefix."""
    return _INEXPRESSIBLE.search(key_of(location)) is None


def key_of(location: str) -> str:
    """Return the key of an object."""
    return location[len(locations.root(location)) + 1 :]


def head(key: str, store: Any) -> Mapping[str, Any]:
    """Return what is known of an object: size, last_modified, version."""
    import obstore

    return obstore.head(store, key)


def attributes(key: str, store: Any) -> Mapping[str, Any]:
    """Return what an object carries beside its bytes."""
    import obstore

    return obstore.get(store, key).attributes


def whole(key: str, store: Any) -> bytes:
    """Return all bytes of an object."""
    import obstore

    return bytes(obstore.get(store, key).bytes())


def part(key: str, offset: int, length: int, store: Any) -> bytes:
    """Return bytes of an object; fewer at its end, none behind that."""
    import obstore

    try:
        return obstore_failures(
            lambda: bytes(obstore.get_range(store, key, start=offset, length=length))
        )
    except Unexpected:  # all of it was sent
        return whole(key, store)[offset : offset + length]
    except Answered as error:
        if error_code(error) in _PAST_THE_END:
            return b""
        raise


def inside(key: str, offset: int, length: int, store: Any) -> bytes:
    """Return bytes that all lie within an object, by several requests where they are many."""
    import obstore

    if length <= _AT_ONCE_BYTES:
        return bytes(obstore.get_range(store, key, start=offset, length=length))
    starts = list(range(offset, offset + length, _AT_ONCE_BYTES))
    ends = [min(start + _AT_ONCE_BYTES, offset + length) for start in starts]
    return b"".join(obstore.get_ranges(store, key, starts=starts, ends=ends, coalesce=0))


def part_of(key: str, etag: str, start: int, end: int, store: Any) -> bytes:
    """Return bytes that all lie within an object, as long as it is the one of that ETag."""
    import obstore

    options: Any = {"range": (start, end), "if_match": etag}
    return bytes(obstore_failures(lambda: obstore.get(store, key, options=options).bytes()))


def opened(key: str, length: int, store: Any) -> tuple[int, str | None, str | None, bytes]:
    """Return the size of an object, its ETag and version, and its last bytes."""
    import obstore

    options: Any = {"range": {"suffix": length}}
    found = obstore_failures(lambda: obstore.get(store, key, options=options))
    content = bytes(obstore_failures(found.bytes))
    return int(found.meta["size"]), found.meta["e_tag"], found.meta["version"], content


def end(key: str, length: int, store: Any) -> Tail:
    """Return the last bytes of an object; all of one that is empty, which has no ranges."""
    import obstore

    options: Any = {"range": {"suffix": length}}
    try:
        metadata = obstore_failures(lambda: obstore.get(store, key, options=options))
        return Tail(int(metadata.meta["size"]), bytes(obstore_failures(metadata.bytes)))
    except Unexpected:  # all of it was sent
        content = whole(key, store)
    except Answered as error:
        if error_code(error) not in _PAST_THE_END:
            raise
        content = whole(key, store)
    return Tail(len(content), content)


def put(key: str, content: bytes, mode: Literal["create", "overwrite"], store: Any) -> None:
    """Write an object by one request."""
    import obstore

    obstore.put(store, key, content, mode=mode, use_multipart=False)


def copy(key: str, new_key: str, store: Any) -> None:
    """Copy an object."""
    import obstore

    obstore.copy(store, key, new_key)


def delete(keys: Sequence[str], store: Any) -> None:
    """Delete objects, by as few requests as the storage takes."""
    import obstore

    obstore.delete(store, keys)
