"""Bounds of variants: by the path of each field the least or the greatest of its values.

A bound is an object of variants whose names are normalized JSON paths, as `$['user']['name']`; its
bytes are those of its metadata and of its value, one behind the other (R-093).
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from icectl.format import variant
from icectl.format.variant import Primitive

Side = Literal["lower", "upper"]
_WITHOUT_ORDER = (variant.NULL, variant.UUID_)
"""Writers take UUIDs in different orders."""


def read_bounds(bound: bytes) -> Mapping[str, bytes]:
    """Return the primitives of a bound by path, as values of variants.

    Raises: ValueError, where the bytes are none.
    """
    end = variant.metadata_size(bound)
    metadata, value = bound[:end], bound[end:]
    variant.check(metadata, value)
    fields = variant.fields_of(variant.read_metadata(metadata), value)
    if fields is None:
        raise ValueError("it is not an object")
    for path, one in fields.items():
        if variant.read_primitive(one) is None:
            raise ValueError(f"the bound of {path} is not a primitive")
    return fields


def write_bounds(fields: Mapping[str, bytes]) -> bytes:
    """Return the bound of primitives by path."""
    metadata = variant.write_metadata(sorted(fields, key=str.encode))
    return metadata + variant.write_object(fields, variant.read_metadata(metadata).ids)


def joined_bounds(bounds: Sequence[bytes], side: Side) -> bytes | None:
    """Return the bound of all values that several are of; None where no path has one.

    Only of paths that each of them has a bound of, of one type. Raises: as read_bounds.
    """
    found = [read_bounds(one) for one in bounds]
    joined = {}
    for path in found[0] if found else ():
        values = [one[path] for one in found if path in one]
        read = {one: variant.read_primitive(one) for one in values}
        types = {None if one is None else one.type_id for one in read.values()}
        if len(values) < len(found) or len(types) > 1 or types & {None, *_WITHOUT_ORDER}:
            continue
        choose = min if side == "lower" else max
        joined[path] = choose(values, key=lambda one: _ordered(read[one]))
    return write_bounds(joined) if joined else None


def _ordered(one: Primitive | None) -> Any:
    value = None if one is None else one.value
    return (value, math.copysign(1, value)) if isinstance(value, float) else value


def bounds_text(bound: bytes) -> str:
    """Return a bound as JSON for people. Raises: ValueError, where the bytes are none."""
    end = variant.metadata_size(bound)
    read_bounds(bound)
    return variant.text(bound[:end], bound[end:])
